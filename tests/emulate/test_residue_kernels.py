"""Kernels of residues against the reference in NumPy, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gemmgen import abi
from gemmgen import split as words
from gemmgen.catalog.residues import SEGMENT_K
from gemmgen.emulate import EAGER_LOWEST, TOGETHER
from gemmgen.render import render
from gemmgen.run import gemm
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.split import joined, split
from gemmgen.verify import Judge
from assembled import assembled
from verifying import assert_bits
from ways import AMD_WAYS, WAYS, plan_of

SMALL = {"small": WAYS["residues"], "five digits": WAYS["residues, two beside each other"]}


def made(name: str, schedule=TOGETHER):
    plan = plan_of(**SMALL[name])
    source = render(plan)
    return EmulatorDevice(plan, source, assembled(source), schedule=schedule), plan, source


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
    want = joined(split(a, plan.scheme), split(np.ascontiguousarray(b.T), plan.scheme), plan.scheme)
    assert (gemm(device, plan, source, a, b).c == want).all()


@pytest.mark.parametrize("way", [
    "residues", "residues by lanes, four stages", "tensor memory, residues, few columns",
    *(pytest.param(one, marks=pytest.mark.long) for one in ("mfma, residues", "tensor memory, residues, pairs")),
])
def test_sums_of_segments_wait_in_the_workspace(way, monkeypatch):
    """Where warps copy and multiply, and segments are as short as two stages: three of them, of which the last is shorter."""
    plan, short = plan_of(**(WAYS | AMD_WAYS)[way]), 2 * plan_of(**(WAYS | AMD_WAYS)[way]).block[2]
    for module in (abi, words):
        monkeypatch.setattr(module, "SEGMENT_K", short)
    source = render(plan)
    source = replace(source, text=source.text.replace(f"constexpr int SEGMENT_K = {SEGMENT_K};", f"constexpr int SEGMENT_K = {short};"))
    device = EmulatorDevice(plan, source, assembled(source), schedule=TOGETHER)
    rng, k = np.random.default_rng(3), 2 * short + 22
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, k), (k, 3)))
    a[1, : 2 * short] = 0
    want = joined(split(a, plan.scheme), split(np.ascontiguousarray(b.T), plan.scheme), plan.scheme)
    assert (gemm(device, plan, source, a, b).c == want).all()
