"""Kernels of residues against the reference in NumPy, bit for bit."""

from __future__ import annotations


import numpy as np
import pytest

from gemmgen import abi
from gemmgen import split as words
from gemmgen.catalog.residues import SEGMENT_K
from gemmgen.emulate import EAGER_LOWEST, TOGETHER
from gemmgen.run import Placement, gemm, strided
from gemmgen.verify import Judge
from verifying import assert_bits, on_emulator, reference
from ways import AMD_WAYS, WAYS, plan_of

SMALL = {"small": WAYS["residues"], "five digits": WAYS["residues, two beside each other"]}


def made(name: str, schedule=TOGETHER):
    return on_emulator(plan_of(**SMALL[name]), schedule=schedule)


@pytest.mark.parametrize("name", ["five digits"])
def test_bits_and_counts_are_the_references(name):
    """A warp that copies fills a stage as soon as it is free where warps take turns."""
    device, plan, source = made(name, EAGER_LOWEST)
    assert_bits(Judge(plan, source, None, device), 67, 9, 133)


def test_what_is_not_finite_is_counted_and_computed_again():
    """An Inf of either sign as a NaN, wherever it stands among what a thread splits."""
    device, plan, source = made("small")
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((9, 70), (70, 5)))
    a[1, 0], a[2, 15], a[2, 16], a[8, 69], b[69, 4] = np.inf, -np.inf, np.nan, np.inf, -np.inf
    found = gemm(device, plan, source, a, b)
    assert [found.status[f"{x}_{what}"] for x in "ab" for what in ("nonfinite", "lossy")] == [4, 0, 1, 0] and found.status["repaired"] == 3 * 5 + 6
    with np.errstate(invalid="ignore"):
        assert np.array_equal(np.isinf(found.c), np.isinf(a @ b)) and np.array_equal(np.isnan(found.c), np.isnan(a @ b))


@pytest.mark.long
def test_segments_of_k_are_joined_and_added():
    """Three of them, of which the last is short; a row has elements in the last alone."""
    device, plan, source = made("small")
    rng, k = np.random.default_rng(3), 2 * SEGMENT_K + 70
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, k), (k, 3)))
    a[1, : 2 * SEGMENT_K] = 0
    assert (gemm(device, plan, source, a, b).c == reference(plan, a, b)).all()


@pytest.mark.parametrize("way", [
    "residues", "residues by lanes, four stages", "tensor memory, residues, few columns",
    *(pytest.param(one, marks=pytest.mark.long) for one in ("mfma, residues", "tensor memory, residues, pairs")),
])
def test_sums_of_segments_wait_in_the_workspace(way, monkeypatch):
    """Where warps copy and multiply, and segments are as short as two stages: three of them, of which the last is shorter."""
    device, plan, source, short = of_short_segments(monkeypatch, **(WAYS | AMD_WAYS)[way])
    rng, k = np.random.default_rng(3), 2 * short + 22
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, k), (k, 3)))
    a[1, : 2 * short] = 0
    assert (gemm(device, plan, source, a, b).c == reference(plan, a, b)).all()


def of_short_segments(monkeypatch, **told):
    """A kernel whose segments of k are two stages long, and their length."""
    plan = plan_of(**told)
    short = 2 * plan.block[2]
    for module in (abi, words):
        monkeypatch.setattr(module, "SEGMENT_K", short)
    constant = "constexpr int SEGMENT_K = {};"
    return *on_emulator(plan, edit=lambda text: text.replace(constant.format(SEGMENT_K), constant.format(short))), short


OF_BATCHES = ["residues by lanes, four stages", "tensor memory, residues, pairs", "residues, two warpgroups, cluster", "mfma, residues"]


@pytest.mark.parametrize("way", [*OF_BATCHES[:2], *(pytest.param(one, marks=pytest.mark.long) for one in OF_BATCHES[2:])])
def test_a_batch_has_the_bits_of_each_product(way, monkeypatch):
    """Several tiles and segments of k. The second product's factors are far from the first one's, and what is lost, and an Inf, are its own."""
    device, plan, source, short = of_short_segments(monkeypatch, **(WAYS | AMD_WAYS)[way] | {"problem": {"kind": "strided", "matrices": 8}})
    rng, rows, columns, k = np.random.default_rng(5), plan.block[0] * plan.cluster + 3, 5, 2 * short + 22
    a, b = (rng.standard_normal((2, *shape)).astype(np.float32) for shape in ((rows, k), (k, columns)))
    a[1] *= np.float32(2.0**-60)
    a[1, 1, 3], a[1, 2, 5] = np.inf, 1e-38
    found = strided(device, plan, source, a, b, placement=Placement((1, 3, 2), (8, 16, 24), (5, 7, 9)))
    assert found.intact and [found.status[one] for one in ("a_lossy", "a_nonfinite", "b_lossy", "repaired")] == [1, 1, 0, columns]
    a[1, 1] = found.c[1, 1] = 0
    assert all((found.c[at] == reference(plan, a[at], b[at])).all() for at in range(2))
