"""The warp-specialised design, wrong on purpose: what hands a stage from one warp to another must be missed where it is missing."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from test_sabotage import swap

from gemmgen.catalog.element import F32
from gemmgen.emulate import EAGER_LOWEST, LAZY_HIGHEST
from gemmgen.errors import EmulationError
from gemmgen.render import render
from gemmgen.run import Placement, gemm
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.split import kept_products, split
from gemmgen.verify import bound, errors, oracles
from assembled import assembled
from verifying import on_emulator
from ways import HOPPER, SMALL_GROUPS, plan_of, sampled

ALONE = dict(SMALL_GROUPS, promote=128)
PAIRED = dict(HOPPER, tile={"block": [64, 64, 64], "warp": [64, 64, 64], "cluster": 2}, stages=3, promote=128)
TURNS = dict(SMALL_GROUPS, consumers="pingpong")
MIXED = dict(SMALL_GROUPS, where="mixed")
TRANSPOSED = dict(MIXED, layout="tn")
SLICED = dict(SMALL_GROUPS, split_k=2)


def outcome(way: dict, edit=lambda text: text, *, until_noticed: bool = False, m: int = 140, k: int = 5 * 64 + 5) -> list[str]:
    """What each schedule, or each up to the first that notices, says of the edited kernel: `right`, `wrong`, or the emulator's complaint."""
    plan = plan_of(**way)
    source = render(plan)
    source = replace(source, text=edit(source.text))
    binary = assembled(source)
    problem = oracles.uniform(plan, -1, 1, (m, 100, k), 0)
    product = F32.exact(problem.a, problem.b)
    limit = bound(plan, problem.a, problem.b, product)
    told = []
    for schedule in (LAZY_HIGHEST, EAGER_LOWEST):
        if until_noticed and told and told[-1] != "right":
            break
        try:
            c = gemm(EmulatorDevice(plan, source, binary, schedule=schedule), plan, source, problem.a, problem.b).c
        except EmulationError as error:
            told.append(str(error))
            continue
        found = errors(np.where(np.isfinite(c), c, 0), product, F32.exact(np.abs(problem.a), np.abs(problem.b)))
        told.append("right" if np.isfinite(c).all() and found.relative_frobenius <= limit.relative_frobenius else "wrong")
    return told


@pytest.mark.parametrize("way", sampled([ALONE, PAIRED, TURNS, MIXED, SLICED], 1))
def test_unedited_kernels_are_right(way):
    assert outcome(way) == ["right", "right"]


def test_what_a_block_counts_of_rows_that_are_not_aligned():
    """Copies of 4 bytes bring them; of these only what a thread copied itself has surely arrived when it counts, as the lazy schedule shows."""
    plan = plan_of(**MIXED)
    rng = np.random.default_rng(1)
    a, b = ((rng.uniform(-1, 1, shape) * np.exp2(rng.integers(-30, 18, shape))).astype(np.float32) for shape in ((9, 133), (133, 5)))
    status = gemm(*on_emulator(plan, LAZY_HIGHEST), a, b).status
    words = split(a, plan.scheme)
    assert words.lossy > 100 and words.overflow > 10
    assert (status["a_lossy"], status["a_overflow"], status["a_nonfinite"]) == (words.lossy, words.overflow, words.nonfinite)


COPIED = {
    # Where a copying warpgroup splits A: way; pieces of 16 bytes that a thread copies for a stage.
    "rows of 64 k": (dict(MIXED, stages=2), 8),
    "rows of 32 k, two fragments high": (dict(MIXED, tile={"block": [128, 16, 32], "warp": [128, 16, 32], "cluster": 1}, stages=2), 8),
    "columns, three fragments high": (dict(TRANSPOSED, tile={"block": [192, 16, 32], "warp": [192, 16, 32], "cluster": 1}, stages=2), 12),
    "columns of 64 k, two fragments high": (dict(TRANSPOSED, tile={"block": [128, 16, 64], "warp": [128, 16, 64], "cluster": 1}, stages=2), 16),
}


@cache
def copying(name: str):
    return on_emulator(plan_of(**COPIED[name][0]))


def one_element_a_piece(plan, pieces: int) -> np.ndarray:
    """A [BLOCK_M, pieces / 4 stages] of small integers, and of each stage four pieces, one a warp, with one element that the words hold nothing of."""
    deep, along_k = plan.block[2], plan.operands[0].k_contiguous
    a = np.random.default_rng(5).integers(1, 4, (plan.block[0], pieces // 4 * deep)).astype(np.float32)
    for piece in range(pieces):
        thread, element = piece % 4 * 32 + (11 * piece + 5) % 32, (piece + piece // 4) % 4
        if along_k:
            row, k = thread // (deep // 4) + piece * (128 // (deep // 4)), thread % (deep // 4) * 4 + element
        else:
            row, k = thread % 16 * 4 + element + piece // (deep // 8) * 64, thread // 16 + piece % (deep // 8) * 8
        a[row, piece // 4 * deep + k] = 1e-12
    return a


@pytest.mark.parametrize("name", COPIED)
def test_each_piece_of_whole_stages_is_copied_and_counted_once(name):
    """No other piece makes its warp count; the last stage is counted when all are copied."""
    device, plan, source = copying(name)
    a = one_element_a_piece(plan, pieces := COPIED[name][1])
    b = np.random.default_rng(6).integers(-3, 4, (a.shape[1], 3)).astype(np.float32)
    result = gemm(device, plan, source, a, b)
    assert np.array_equal(result.c, np.where(a < 1, 0, a) @ b)
    assert (result.status["a_lossy"], result.status["a_overflow"], result.status["a_nonfinite"]) == (pieces, 0, 0)
    a[a < 1] = np.inf
    status = gemm(device, plan, source, a, np.ones((a.shape[1], 1), np.float32)).status
    assert (status["a_lossy"], status["a_overflow"], status["a_nonfinite"]) == (0, 0, pieces)


@pytest.mark.parametrize("name", COPIED)
@pytest.mark.parametrize(("rows", "deep", "extra", "misalign"), [
    (-4, 0, 0, 0), (0, -4, 0, 0), (-1, 0, 0, 0), (0, -1, 0, 0), (4, 4, 0, 0), (0, 0, 2, 0), (0, 0, 0, 8),
])
def test_stages_of_which_rows_or_k_end_within(name, rows, deep, extra, misalign):
    """Each alone, and whole ones that are not aligned: what lies behind a row, behind the last row and behind the last k is neither read nor counted."""
    device, plan, source = copying(name)
    a = np.random.default_rng(7).integers(1, 4, (plan.block[0] + rows, 2 * plan.block[2] + deep)).astype(np.float32)
    a[-1, 2::3] = a[2::3, -1] = 1e-12
    b = np.random.default_rng(8).integers(-3, 4, (a.shape[1], 9)).astype(np.float32)
    between = -a.shape[plan.operands[0].k_contiguous] % 4 + 4 + extra
    result = gemm(device, plan, source, a, b, placement=Placement((between, 0, 0), (misalign, 0, 0)))
    assert np.array_equal(result.c, np.where(a < 1, 0, a) @ b)
    assert (result.status["a_lossy"], result.status["a_overflow"], result.status["a_nonfinite"]) == ((a < 1).sum(), 0, 0)


FAULTS = {
    # name: (way, edit)
    "a descriptor's stride": (ALONE, swap("0x4000004000010000ull", "0x4000002000010000ull")),
    "a descriptor's swizzle": (ALONE, swap("0x4000004000010000ull", "0x8000004000010000ull")),
    "a descriptor's step along k": (ALONE, swap("step * 32) / 16", "step * 64) / 16")),
    "the words' swizzle": (ALONE, swap("chunk ^ (row & 7)", "chunk ^ (row / 2 & 7)")),
    "the copier's phase": (ALONE, swap("                    if (++slot == STAGES) slot = 0, phase ^= 1;\n                }\n                if (beta", "                    if (++slot == STAGES) slot = 0;\n                }\n                if (beta")),
    "the multipliers' phase": (ALONE, swap("held = slot;\n                if (++slot == STAGES) slot = 0, phase ^= 1;", "held = slot;\n                if (++slot == STAGES) slot = 0;")),
    "a copier that does not wait": (ALONE, swap("mbarrier_wait(free + slot * 8, phase);", "")),
    "multipliers that do not wait": (ALONE, swap("                    mbarrier_wait(full + slot * 8, phase);", "")),
    "a stage let go too soon": (ALONE, swap("                    wgmma_wait<2>();\n", "")),
    "the newest stage let go": (ALONE, swap("if (held >= 0) release(held);\n                    advance();", "release(slot);\n                    advance();")),
    "sums read before their products are done": (ALONE, swap("                wgmma_wait<1>();\n", "")),
    "a tile stored before its products are done": (ALONE, swap("            wgmma_wait<0>();\n", "")),
    "too many bytes announced": (ALONE, swap("mbarrier_expect_tx(arrival, STAGE_BYTES);", "mbarrier_expect_tx(arrival, STAGE_BYTES + 16);")),
    "too few bytes announced": (ALONE, swap("mbarrier_expect_tx(arrival, STAGE_BYTES);", "mbarrier_expect_tx(arrival, A_STAGE);")),
    "too many releases expected": (ALONE, swap("RELEASES = 4;", "RELEASES = 5;")),
    "too few releases expected": (ALONE, swap("RELEASES = 4;", "RELEASES = 3;")),
    "barriers nobody was told of": (ALONE, swap("        mbarrier_fence_init();\n", "")),
    "products before any fence": (ALONE, swap("                wgmma_fence();\n", "")),
    "a promoted sum that goes on": (ALONE, swap("step == first ? keep : 1", "1")),
    "a promotion left out": (ALONE, swap("                promote();\n", "", 1)),
    "the first products dropped": (ALONE, swap("index != interval", "1")),
    "every second tile twice": (ALONE, swap("turn += all_blocks", "turn += all_blocks + 1")),
    "a neighbour not released": (PAIRED, swap("if (thread % 32 < CLUSTER) mbarrier_arrive_at(free + which * 8, thread % 32);",
                                             "if (thread % 32 < CLUSTER) mbarrier_arrive_at(free + which * 8, 0);")),
    "copies to this block alone": (PAIRED, swap("(u16)((1 << CLUSTER) - 1)", "(u16)1")),
    "both blocks copy the same half": (PAIRED, swap("+ rank * (B_STAGE / CLUSTER);", ";")),
    "no barrier of the cluster at the start": (PAIRED, swap("    cluster_barrier();\n\n    if (thread", "    __syncthreads();\n\n    if (thread")),
    "no barrier of the cluster at the end": (PAIRED, swap("    cluster_barrier();  // no block", "    // no block")),
    "a turn not waited for": (TURNS, swap('asm volatile("bar.sync %0, %1;" ::"r"(1 + warpgroup), "r"(256) : "memory");', "")),
    "a turn not passed on": (TURNS, swap('if (turn + all_blocks < turns) asm volatile("bar.arrive', 'if (turn + all_blocks < turns && warpgroup == 0) asm volatile("bar.arrive')),
    "the other's stages not skipped": (TURNS, swap("slot += work.count;", "")),
    "A's copies not announced": (MIXED, swap("                cp_async_arrive(arrival);\n", "                mbarrier_expect_tx(arrival, 0);\n")),
    "words replaced while they are read": (MIXED, swap("wgmma_wait<2>();  // for those", "wgmma_wait<4>();  // for those")),
    "A's rows beyond the edge": (MIXED, swap("const bool inside = row < rows && kk + one < k;", "const bool inside = kk + one < k;")),
    "a transposed A's k beyond the edge": (TRANSPOSED, swap("const bool inside = row < rows && kk + one < k;", "const bool inside = row < rows;")),
    "a transposed A's neighbours in k exchanged": (TRANSPOSED, swap("a_column + r % 2", "a_column + 1 - r % 2")),
    "a slice not waited for": (SLICED, swap("if (*before != SLICES - 1) continue;", "")),
    "a slice left out": (SLICED, swap("for (int s = 0; s < SLICES; ++s)", "for (int s = 1; s < SLICES; ++s)")),
}


LONGER = ("the other's stages not skipped",)
"""Faults that take more stages to show."""
TALLER = ("a turn not passed on",)
"""And more tiles."""


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_noticed(name):
    way, edit = FAULTS[name]
    told = outcome(way, edit, until_noticed=True, m=140 if name in TALLER else 70, k=9 * 64 + 5 if name in LONGER else 5 * 64 + 5)
    assert told != ["right", "right"], told


def test_a_missing_arrival_is_a_deadlock_that_names_who_waits():
    told = outcome(ALONE, swap("RELEASES = 4;", "RELEASES = 5;"))
    assert all("mbarrier_wait" in text or "wait" in text for text in told)


@pytest.mark.parametrize(("layout", "m"), sampled([("tn", 72), ("tn", 129), ("tn", 1), ("tt", 1), ("tt", 72), ("tt", 129)], few=2))
def test_a_transposed_a_may_have_rows_of_any_length(layout, m):
    """Of four elements, which are copied 16 bytes at a time, or not; and an edge within these, which the stage has zeros behind."""
    assert outcome(dict(MIXED, layout=layout), m=m, k=133) == ["right", "right"]


@pytest.mark.parametrize(("scheme", "layout", "m"), [("bf16x6", "nn", 70), ("ootomo", "nn", 70), ("ootomo", "tn", 70), ("ootomo", "tt", 72)])
def test_mixed_and_prepass_keep_the_same_words(scheme, layout, m):
    """A that is split on the way and A that was split before make the same sums and the same counts."""
    rng = np.random.default_rng(3)
    a = (rng.uniform(-1, 1, (m, 150)) * np.exp2(rng.integers(-30, 18, (m, 150)))).astype(np.float32)
    b = rng.uniform(-1, 1, (150, 69)).astype(np.float32)
    found = []
    for where in ("prepass", "mixed"):
        plan = plan_of(**dict(SMALL_GROUPS, scheme=scheme, where=where, promote=16, layout=layout))
        found.append(gemm(*on_emulator(plan), a, b))
    assert found[0].status == found[1].status
    assert scheme == "bf16x6" or found[0].status["a_lossy"] > 100 and found[0].status["a_overflow"] > 10
    assert np.array_equal(found[0].c.view(np.uint32), found[1].c.view(np.uint32))


def test_cut_residuals_are_what_the_scheme_says():
    """The kernel's words of `ootomo8` are NumPy's, whose products come out bit for bit where they are exact."""
    plan = plan_of(**dict(SMALL_GROUPS, scheme="ootomo8"))
    x = np.random.default_rng(4).uniform(-1, 1, (65, 1)).astype(np.float32)
    one = np.ones((1, 3), np.float32)
    c = gemm(*on_emulator(plan), x, one).c
    want = kept_products(split(x, plan.scheme), split(np.ascontiguousarray(one.T), plan.scheme), plan.scheme)
    assert np.array_equal(c, want.astype(np.float32)) and not np.array_equal(c[:, 0], x[:, 0])
