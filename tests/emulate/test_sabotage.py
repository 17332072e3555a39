"""Kernels that are wrong on purpose: each tolerance and oracle must catch its own.

A check that a broken kernel passes is no check. Every fault below is a change
of the rendered source that still compiles.
"""

from __future__ import annotations

import itertools

import pytest

from gemmgen.emulate import LAZY_HIGHEST
from gemmgen.errors import EmulationError
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.verify import Judge, oracles
from verifying import assert_a_schedule_shows, judge_of
from ways import covering, sampled


def small_plan(scheme: str, fragment_buffers: int = 1, **split):
    return solve(loads({
        "split": {"scheme": scheme, "promote": 0 if scheme == "fp32" else 64, **split},
        "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]},
        "pipeline": {"stages": 3, "fragment_buffers": fragment_buffers},
        "target": {"gpu": "a100"},
    }))


def swap(old: str, new: str, count: int = -1):
    """An edit that must find what it edits, so that a fault cannot quietly vanish."""

    def edit(text: str) -> str:
        assert old in text, f"the fault has nothing to change: {old}"
        return text.replace(old, new, count)

    return edit


def probes(judge: Judge):
    return judge.bits("probes", oracles.probes(judge.plan))


def permutation(judge: Judge):
    return judge.bits("permutation", oracles.permutation(judge.plan))


def accuracy(judge: Judge):
    k = oracles.wrapping_k(judge.plan)
    return judge.accuracy("U[-1, 1]", oracles.uniform(judge.plan, -1, 1, (70, 66, k), 0)).check


def positive(judge: Judge):
    return judge.accuracy("U[0, 1]", oracles.uniform(judge.plan, 0, 1, (70, 66, 2048), 0)).check


def far(judge: Judge):
    return judge.range()


def multiply(into: str, a: int, b: int) -> str:
    """The statement that adds one word product."""
    return f"multiply_add(acc_{into}[i][j], a_fragments[buffer][{a}][i], b_fragments[buffer][{b}][j]);"


FAULTS = {
    # name: (scheme, edit, the check that must fail)
    "dropped hi lo, by probes": ("ootomo", swap(multiply("correction", 0, 1), ";"), probes),
    "dropped hi lo, by the bound": ("ootomo", swap(multiply("correction", 0, 1), ";"), accuracy),
    "dropped lo hi": ("scaled", swap(multiply("main", 1, 0), ";"), probes),
    "dropped lo lo, own accumulator": ("ootomo4", swap(multiply("tail", 1, 1), ";"), probes),
    "dropped lo lo, shared accumulator": ("markidis", swap(multiply("main", 1, 1), ";"), probes),
    "wrong scale of the correction": ("ootomo", swap("fmaf(acc_correction[i][j][r], 0x1p-11f", "fmaf(acc_correction[i][j][r], 0x1p-10f"), probes),
    "wrong scale, by the bound": ("legemm", swap("fmaf(acc_correction[i][j][r], 0x1p-10f", "fmaf(acc_correction[i][j][r], 0x1p-9f"), accuracy),
    "swapped words of A": ("ootomo", swap("word * A_BYTES + swizzle(a_row", "(WORDS - 1 - word) * A_BYTES + swizzle(a_row"), probes),
    "swapped words of both": ("ootomo", swap("_offset + word * ", "_offset + (WORDS - 1 - word) * "), permutation),
    "a stage multiplied one tile late": ("ootomo", swap("stage = stages + slot * STAGE_BYTES", "stage = stages + (slot == 0 ? STAGES - 1 : slot - 1) * STAGE_BYTES"), permutation),
    "the last tile never fetched": ("ootomo", swap("if (index + STAGES - 1 < stage_count) fill", "if (index + STAGES < stage_count) fill"), permutation),
    "promotion that forgets to clear": ("ootomo", swap("acc_main[i][j][r] = 0.0f;", ""), accuracy),
    "swizzle on one side only": ("ootomo", swap("swizzle(row, chunk) * 16)", "chunk * 16)"), permutation),
    "no promotion until the end": ("ootomo", swap("if (--until_promotion == 0) {", "if (false) {"), positive),
    "column of the wrong fragment": ("ootomo", swap("column0 + j * 8", "column0 + (j ^ 1) * 8", 1), permutation),
    "fp32, rows of A from the wrong place": ("fp32", swap("load_four(r + 4, address + 4 * ROW_BYTES", "load_four(r + 4, address + 8 * ROW_BYTES"), permutation),
    "fp32, four rows on with the same swizzle": ("fp32", swap("swizzle(4, step) - step)", "0)"), permutation),
    "fp32, columns of B from the wrong place": ("fp32", swap("address + 8 * j * ROW_BYTES", "address + 8 * (j ^ 1) * ROW_BYTES"), permutation),
    "fp32, C's rows and columns of a lane exchanged": ("fp32", swap("(r >> 2) * 4", "(r & 3) * 4", 1), permutation),
    "fp32, one k of four left out": ("fp32", swap("k < 4; ++k) c[", "k < 3; ++k) c["), permutation),
    "fp32, operands cut to tf32": ("fp32", swap("return __float_as_uint(x); }", "return __float_as_uint(x) & ~0x1fffu; }"), permutation),
    "fp32, operands cut to tf32, by the bound": ("fp32", swap("return __float_as_uint(x); }", "return __float_as_uint(x) & ~0x1fffu; }"), accuracy),
    "fp32, the last bit of the operands lost": ("fp32", swap("return __float_as_uint(x); }", "return __float_as_uint(x) & ~1u; }"), permutation),
    "fp32, subnormal numbers flushed": ("fp32", swap("return __float_as_uint(x); }", "return (__float_as_uint(x) & 0x7f800000u) ? __float_as_uint(x) : 0; }"), far),
    "fp32, sums cut, by the bound": ("fp32", swap("= fmaf(a[4 * i + k], b", "= __fmaf_rz(a[4 * i + k], b"), positive),
    "fp32, products cut before they are added": ("fp32", swap("fmaf(a[4 * i + k], b[4 * j + k], c[4 * i + j])", "__fadd_rz(__fmul_rz(a[4 * i + k], b[4 * j + k]), c[4 * i + j])"), probes),
    "row scale forgotten": ("scaled", swap("row_scales[i][r & ROW_BITS] +", "-14 +"), permutation),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_kernel_fails(name):
    scheme, edit, question = FAULTS[name]
    judge = judge_of(small_plan(scheme), edit)
    try:
        check = question(judge)
    except EmulationError:
        return  # caught before there was an answer
    assert not check.passed, check.detail


@pytest.mark.parametrize(("buffers", "promote", "scheme"), sampled(
    [(*how, scheme) for how in ((1, 64), (2, 16)) for scheme in ("ootomo", "ootomo4", "legemm", "markidis", "scaled")], 2,
))
def test_the_right_kernel_passes_the_same_questions(scheme, buffers, promote):
    judge = judge_of(small_plan(scheme, buffers, promote=promote))
    for question in (probes, permutation, accuracy, positive):
        check = question(judge)
        assert check.passed, f"{check.name}: {check.detail}"


@pytest.mark.parametrize("buffers", sampled([1, 2], 1))
def test_the_right_fp32_kernel_passes_the_same_questions(buffers):
    judge = judge_of(small_plan("fp32", buffers))
    for question in (probes, permutation, accuracy, positive, far):
        check = question(judge)
        assert check.passed, f"{check.name}: {check.detail}"


BARRIER = "__syncthreads();  // everyone's"
RACES = {
    "missing barrier": swap(BARRIER, "//"),
    "wait for one group too few": swap("cp_async_wait<STAGES - 2>();  // this", "cp_async_wait<STAGES - 1>();  // this"),
    "refill of the stage being read": swap("fill(stages + free_slot * STAGE_BYTES)", "fill(stages + slot * STAGE_BYTES)"),
}


@pytest.mark.parametrize(("name", "buffers"), covering(itertools.product(RACES, [1, 2])))
def test_a_race_shows_between_the_schedules(name, buffers):
    """Either a schedule meets memory that nothing wrote, or the two differ, or the answer is wrong."""
    judge = judge_of(small_plan("ootomo", buffers), RACES[name])
    assert_a_schedule_shows(judge)


def test_a_missing_barrier_in_the_split_kernel_is_caught():
    judge = judge_of(small_plan("ootomo"), swap("    __syncthreads();\n    for (int i = 0; i < 8; ++i) value[i] = turned", "    for (int i = 0; i < 8; ++i) value[i] = turned"))
    judge.device.set_schedule(LAZY_HIGHEST)
    try:
        assert not permutation(judge).passed
    except EmulationError as error:
        assert "nothing has written" in str(error)


def test_nan_in_c_must_not_spread():
    """The fault the poisoned C exists for: reading C although beta is 0."""
    judge = judge_of(small_plan("ootomo"), swap("if (beta != 0.0f) was = *to;", "was = *to;"))
    assert not judge.edges().passed


def test_special_values_unrepaired_are_noticed():
    judge = judge_of(small_plan("ootomo"), swap("while (bad) {", "while (false) {"))
    assert not judge.special().passed
