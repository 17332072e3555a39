"""One small product for each thing that a kernel decides by itself, whose answer is known to the last bit.

Elements are small integers, so that every sum is exact in every unit: what comes out is C or it is wrong. Kernels are those
of `ways`: both designs, and AMD's.
"""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from assembled import assembled
from verifying import assert_bits, judge_of, on_emulator
from ways import AMD_WAYS, HOPPER, SMALL_GROUPS, STRAIGHT, THIN, TILE, TINY, covering, plan_of
from ways import WAYS as EVERY_WAY

from gemmgen.emulate import TOGETHER
from gemmgen.render import render
from gemmgen.run import Placement, gemm
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.verify import Judge

WAYS = {
    "portable": dict(stages=3),
    "portable, split behind shared memory": dict(where="register", stages=2, layout="tn"),
    "portable, split before shared memory": dict(where="shared", layout="nt"),
    "portable, slices": dict(split_k=2),
    "portable, row scales": dict(scheme="scaled"),
    "straight": dict(STRAIGHT, tile={"block": [32, 32, 64], "warp": [32, 16, 16]}, stages=2),
    "straight, slices": dict(STRAIGHT, tile={"block": [16, 64, 32], "warp": [16, 32, 32]}, stages=3, layout="tt", split_k=2),
    "thin rows": dict(THIN, tile={"block": [4, 64, 128], "warp": [4, 32, 32]}, stages=3),
    "thin columns, slices": dict(THIN, tile={"block": [32, 16, 128], "warp": [16, 16, 64]}, stages=2, split_k=2),
    "warpgroups": SMALL_GROUPS,
    "warpgroups, slices": dict(SMALL_GROUPS, split_k=2),
    "warpgroups, row scales": dict(SMALL_GROUPS, scheme="scaled"),
    "warpgroups that split A": dict(SMALL_GROUPS, where="mixed"),
    "warpgroups that split A transposed": dict(SMALL_GROUPS, where="mixed", layout="tn"),
    "mfma": AMD_WAYS["mfma"],
    "mfma, register": AMD_WAYS["mfma, register"],
    "wmma of RDNA4": AMD_WAYS["wmma of RDNA4"],
}
GROUPS_OF_TWO = {
    "portable": dict(tile={**TILE, "group": 2}),
    "portable, slices": dict(tile={**TILE, "group": 2}, split_k=2),
    "warpgroups": dict(SMALL_GROUPS, tile={"block": [64, 64, 64], "warp": [64, 64, 64], "cluster": 1, "group": 2}),
    "warpgroups in clusters": dict(HOPPER, tile={"block": [64, 64, 64], "warp": [64, 64, 64], "cluster": 2, "group": 2}, stages=3),
    "mfma": dict(AMD_WAYS["mfma"], tile={**TILE, "group": 2}),
}
HALVES = {"straight, thin": EVERY_WAY["straight, thin"]}
LARGE = 2.0**17
"""Beyond FP16, so that its product is not finite and is computed again; a multiple of it by a small integer is exact."""


@cache
def made(name: str, table: str = "WAYS"):
    return on_emulator(plan_of(**globals()[table][name]))


def integers(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A [M, K], B [K, N] and C [M, N] of integers, none of them 0 in C; rows of A and columns of B beside one another differ in scale."""
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    a *= np.exp2(np.arange(m) // 5 % 3, dtype=np.float32)[:, None]
    b *= np.exp2(np.arange(n) % 3, dtype=np.float32)
    return a, b, rng.integers(1, 9, (m, n)).astype(np.float32)


@pytest.mark.parametrize("size", [(64, 64, 64), (65, 31, 41)], ids=["whole", "ragged"])
@pytest.mark.parametrize("name", WAYS)
def test_alpha_where_c_is_not_read(name, size):
    """A whole tile, an edge: either store multiplies by alpha, and the NaN that C holds stays out."""
    a, b, _ = integers(*size)
    result = gemm(*made(name), a, b, alpha=-0.5)
    assert np.array_equal(result.c, -0.5 * (a @ b)) and result.intact


@pytest.mark.parametrize(("name", "m"), [("straight, thin", 9), ("straight, thin", 24), ("straight, thin", 25)])
def test_the_lower_half_of_a_tile_may_have_no_rows_or_one(name, m):
    device, plan, source = made(name, "HALVES")
    a, b, _ = integers(m, 31, 41)
    result = gemm(device, plan, source, a, b)
    assert plan.own.half_empty and np.array_equal(result.c, a @ b) and result.intact


@pytest.mark.parametrize("name", WAYS)
def test_alpha_and_beta(name):
    a, b, c = integers(65, 31, 41)
    result = gemm(*made(name), a, b, c, alpha=3.0, beta=-0.5, placement=Placement((1, 2, 3), (4, 8, 12)))
    assert np.array_equal(result.c, 3 * (a @ b) - 0.5 * c) and result.intact


@pytest.mark.parametrize("name", WAYS)
def test_with_alpha_0_c_is_scaled_and_the_operands_are_not_looked_at(name):
    _, _, c = integers(65, 31, 41)
    a, b = np.full((65, 41), np.nan, np.float32), np.full((41, 31), np.inf, np.float32)
    assert np.array_equal(gemm(*made(name), a, b, c, alpha=0.0, beta=2.0).c, 2 * c)


INTEGERS_IN_PAIRS = {
    "warpgroups, integer words in pairs": dict(HOPPER, scheme="mixpert4", tile={"block": [64, 24, 64], "warp": [64, 24, 64], "cluster": 1}, promote=0),
}


@pytest.mark.parametrize("name", ["warpgroups, integer words", *INTEGERS_IN_PAIRS, *(pytest.param(name, marks=pytest.mark.long) for name in (
    "packed integers", "tensor memory, integer words", "mfma, integer words"))])
def test_rows_that_no_integers_stand_for_are_not_looked_at_with_alpha_0(name):
    """Where nothing computes C again, an element of such a row is NaN: here of whole tiles and of parts of them, stored in pairs and in fours."""
    plan = plan_of(**(EVERY_WAY | AMD_WAYS | INTEGERS_IN_PAIRS)[name], special="fast")
    m, (device, _, source) = plan.block[0] + 1, on_emulator(plan, processes=1)
    for n, beta in ((plan.block[1] + 2, 0.0), (plan.block[1] + 2, 2.0), (plan.block[1] + 4, 0.0)):
        a, b = np.full((m, 3), np.nan, np.float32), np.full((3, n), np.inf, np.float32)
        assert (gemm(device, plan, source, a, b, np.ones((m, n), np.float32) if beta else None, alpha=0.0, beta=beta).c == beta).all()
    assert np.isnan(gemm(device, plan, source, a, b).c).all()


@pytest.mark.parametrize(("name", "beta"), covering(itertools.product([name for name in WAYS if "scales" not in name and "thin" not in name], [0.0, 2.0])))
def test_alpha_and_beta_of_elements_that_are_computed_again(name, beta):
    a, b, c = integers(64, 64, 41)
    a[3, 7], b[5, 9] = LARGE, -LARGE
    b[7, :], a[:, 5] = np.where(b[7, :] == 0, 1, b[7, :]), np.where(a[:, 5] == 0, 1, a[:, 5])
    a[3, 5] = b[7, 9] = 0.0  # the two do not meet, or a sum would round
    result = gemm(*made(name), a, b, c if beta else None, alpha=-0.5, beta=beta)
    assert np.array_equal(result.c, -0.5 * (a @ b) + (2 * c if beta else 0))
    assert result.status["repaired"] == 64 + 64 - 1 and result.intact


@pytest.mark.parametrize("name", [name for name in WAYS if "thin" in name])
def test_what_is_not_finite_is_counted_once_where_no_element_is_looked_at(name):
    """Its sums tell, in every tile; it is counted in one."""
    a, b, _ = integers(9, 133, 290) if "rows" in name else integers(75, 18, 290)
    a[7, 3] = a[-1, 280] = np.nan
    b[5, 0], b[200, -1], b[289, -1] = np.inf, -np.inf, np.nan
    result = gemm(*made(name), a, b)
    with np.errstate(invalid="ignore"):
        assert np.array_equal(np.isfinite(result.c), np.isfinite(a @ b))
    assert (result.status["a_nonfinite"], result.status["b_nonfinite"]) == (2, 3)
    assert gemm(*made(name), np.nan_to_num(a, nan=1.0), np.nan_to_num(b, nan=1.0, posinf=1.0, neginf=1.0)).status["a_nonfinite"] == 0


@pytest.mark.parametrize(("name", "extra", "misalign"), covering(
    (name, *place) for name in ("warpgroups", "warpgroups that split A", "portable", "mfma") for place in ((0, 4), (1, 0), (1, 4), (2, 8))
))
def test_a_whole_tile_wherever_c_lies(name, extra, misalign):
    """Two elements are stored at once only where they lie on 8 bytes, in every row; what lies between the rows stays."""
    a, b, _ = integers(64, 64, 64)
    result = gemm(*made(name), a, b, placement=Placement((0, 0, extra), (0, 0, misalign)))
    assert np.array_equal(result.c, a @ b) and result.intact


RUNS = {
    # Pairs of a thread under way: way; what C held is read in runs of so many.
    8: dict(HOPPER, scheme="scaled", tile={"block": [64, 64, 32], "warp": [64, 64, 32], "cluster": 1}, stages=2),
    4: dict(HOPPER, tile={"block": [64, 72, 32], "warp": [64, 72, 32], "cluster": 2}, stages=2, promote=0),
    1: dict(HOPPER, scheme="mixpert4", tile={"block": [64, 96, 64], "warp": [64, 96, 64], "cluster": 1}, stages=2, promote=0),
}


@pytest.mark.parametrize(("run", "extra", "misalign"), [
    *covering((run, *place) for run in RUNS for place in ((0, 0), (0, 4), (1, 0), (2, 8))), (8, 3, 0),
])
def test_what_c_held_is_added_once(run, extra, misalign):
    """Whole tiles and edges, more pairs than a run has, wherever C lies; elements that are computed again find C as it was."""
    plan, source, binary = compiled(run)
    assert plan.geometry.pairs_under_way == run and ("prefetch.L2" in source.text)
    n = 2 * plan.block[1] + 1
    a, b, c = integers(129, n, 20)
    a[3, 7] = np.inf
    b[7, :] = np.where(b[7, :] == 0, 1, b[7, :])
    result = gemm(EmulatorDevice(plan, source, binary, schedule=TOGETHER), plan, source, a, b, c, alpha=-2.0, beta=0.5,
                  placement=Placement((0, 0, extra), (0, 0, misalign)))
    want = -2 * (a @ b) + 0.5 * c
    assert np.array_equal(result.c, want) and result.intact and result.status["repaired"] == n


@cache
def compiled(run: int):
    plan = plan_of(**RUNS[run])
    source = render(plan)
    return plan, source, assembled(source)


def test_slices_ask_for_no_c_ahead():
    """Each slice would ask for it, and one of them reads it."""
    assert "prefetch.L2" not in render(plan_of(**dict(SMALL_GROUPS, split_k=2))).text


@pytest.mark.parametrize("size", [(192, 128, 64), (130, 190, 33)], ids=["whole", "ragged"])
@pytest.mark.parametrize("name", GROUPS_OF_TWO)
def test_a_last_group_of_fewer_rows(name, size):
    """Three rows of blocks in groups of two, several columns of them: the last group walks down one row."""
    a, b, _ = integers(*size)
    result = gemm(*made(name, "GROUPS_OF_TWO"), a, b)
    assert np.array_equal(result.c, a @ b) and result.intact


TURNS = {"warpgroups that take turns": dict(SMALL_GROUPS, consumers="pingpong")}


def test_a_tile_of_the_other_warpgroup_may_be_several_rounds_of_stages():
    """Its stages pass by, and two whole rounds of them leave the phase of their barriers as it was; four tiles, so that a block has several."""
    device, plan, source = made("warpgroups that take turns", "TURNS")
    a, b, _ = integers(2 * plan.block[0], 2 * plan.block[1], 2 * plan.stages * plan.block[2])
    assert np.array_equal(gemm(device, plan, source, a, b).c, a @ b)


PROMOTED = {
    # name: way; its tile's depth is in it, so that sums move over within a stage, at its end, or after several
    "portable, after two stages": dict(promote=64),
    "portable, after four stages, two buffers": dict(promote=128, fragment_buffers=2, stages=3),
    "portable, at a stage's end": dict(promote=32),
    "portable, within a stage": dict(promote=32, tile={"block": [64, 64, 64], "warp": [32, 32, 64]}, stages=2),
    "portable, at once": dict(promote=16),
    "portable, through registers": dict(promote=64, loads="spread"),
    "straight, after two parts of a warp": dict(STRAIGHT, tile={"block": [32, 32, 32], "warp": [32, 32, 32]}, stages=2, promote=64),
    "straight, within a part": dict(STRAIGHT, tile={"block": [32, 32, 64], "warp": [32, 32, 64]}, stages=2, promote=32),
    "straight, at once": dict(STRAIGHT, tile={"block": [32, 32, 32], "warp": [32, 32, 32]}, stages=3, promote=16),
    "warpgroups, after two stages": dict(SMALL_GROUPS, promote=128),
    "warpgroups, at a stage's end": dict(SMALL_GROUPS, promote=64),
    "warpgroups, within a stage": dict(SMALL_GROUPS, promote=32),
    "warpgroups that split A, after two stages": dict(SMALL_GROUPS, promote=128, where="mixed"),
    "warpgroups that split A, within a stage": dict(SMALL_GROUPS, promote=32, where="mixed"),
    "mfma, after two stages": dict(gpu="mi300x", promote=64),
    "mfma, at a stage's end": dict(gpu="mi300x", promote=32),
    "wmma of RDNA4, after two stages": dict(gpu="rx9070xt", promote=64),
}


@pytest.mark.parametrize("name", PROMOTED)
def test_sums_move_over_exactly_as_often_as_the_plan_says(name):
    """2^24 and a row of small terms: an instruction's worth of them is below the last bit of a sum that holds the 2^24, and
    no unit keeps it; what is added to an emptied sum is kept. So C tells how many k went into the sum that the 2^24 begins,
    be it the first or the second."""
    device, plan, source = made(name, "PROMOTED")
    term, k = (3 / 32 if plan.promotion.promotes_at_once else 1 / 16), 4 * plan.promote + 5
    for begins in (0, plan.promote):
        a, b = np.full((3, k), term, np.float32), np.ones((k, 5), np.float32)
        a[:, begins] = b[begins, :] = 4096.0
        want = np.float32(0)
        for first in range(0, k, plan.promote):
            want += np.float32(2.0**24 if first == begins else term * min(plan.promote, k - first))
        assert want > 2.0**24
        assert (gemm(device, plan, source, a, b).c == want).all()


BITS = {
    "portable": dict(stages=3),
    "portable, two buffers, small words": dict(scheme="bf16x6", promote=32, fragment_buffers=2),
    "portable, 32-bit words": dict(scheme="tf32x3", promote=32, tile={"block": [64, 64, 16], "warp": [32, 32, 16]}),
    "portable, cut words": dict(scheme="legemm", where="shared", layout="tt"),
    "portable, rounded as printed": dict(scheme="egemm", layout="tn"),
    "portable, short residuals": dict(scheme="ootomo8", layout="nt"),
    "portable, row scales": dict(scheme="scaled", layout="tn"),
    "portable, without asynchronous copies": dict(gpu="t4", tile={"block": [64, 64, 16], "warp": [32, 32, 16]}),
    "warpgroups": SMALL_GROUPS,
    "warpgroups, words of several types": dict(SMALL_GROUPS, scheme="f16_s8", promote=128),
    "warpgroups, words of several types, within a stage": dict(SMALL_GROUPS, scheme="f16_s8", promote=32, layout="tn"),
    "warpgroups that split A": dict(SMALL_GROUPS, where="mixed", layout="nt"),
    "portable, compensated": dict(promote=32, sums="compensated"),
    "warpgroups, compensated": dict(SMALL_GROUPS, promote=32, sums="compensated"),
    "warpgroups that split A, compensated": dict(SMALL_GROUPS, where="mixed", promote=64, sums="compensated"),
    "mfma": dict(gpu="mi300x", promote=64),
    "mfma, compensated": dict(gpu="mi300x", promote=32, sums="compensated"),
    "mfma, row scales": dict(gpu="mi300x", scheme="scaled", layout="tn", promote=64),
    "mfma that flushes": dict(gpu="mi210", scheme="ootomo_flushed", promote=64),
    "wmma of RDNA3": dict(gpu="rx7900xtx", layout="tt", scheme="bf16x3", promote=32),
    "wmma of RDNA4": dict(gpu="rx9070xt", promote=64, where="register"),
    "VALU": dict(gpu="mi300x", scheme="fp32", promote=0),
    "VALU, 64 banks": dict(gpu="mi355x", scheme="fp32", promote=0, layout="tn", tile={"block": [64, 64, 16], "warp": [32, 32, 16]}),
    "VALU of RDNA3": dict(gpu="rx7900xtx", scheme="fp32", promote=0, layout="tt"),
}


@pytest.mark.parametrize("name", BITS)
def test_bits_and_counts_are_the_schemes_on_the_unit(name):
    """Against the reference split and the unit's rule, without any kernel: every bit of C, and every element counted once."""
    device, plan, source = made(name, "BITS")
    assert_bits(Judge(plan, source, None, device))


def test_words_of_several_types_have_the_schemes_bits_and_counts():
    """One of the tests above that `make test` keeps: sliced kernels of these words are held to a bound alone."""
    device, plan, source = made("warpgroups, words of several types", "BITS")
    assert_bits(Judge(plan, source, None, device), 9, 9, 70)


@pytest.mark.parametrize("scheme", ["bf16x6_apart", "scaled"])
def test_a_sum_that_moves_over_at_once_has_fragments_of_its_own_products(scheme):
    """Where each product fetches its own, the sum that is promoted at once comes first: by itself, or of all products."""
    plan = plan_of(scheme=scheme, fragment_caching="sums", promote=16, tile=TINY, stages=2, fragment_buffers=1)
    assert plan.promotion.promotes_at_once and plan.geometry.fetches_each
    assert_bits(judge_of(plan))
