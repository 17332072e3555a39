"""AMD's kernels, as the compiler's assembly runs on the CPU: every way of an operand to the matrix cores of every target,
and kernels that are wrong on purpose."""

from __future__ import annotations

import re

import numpy as np
import pytest
from assembled import assembled
from test_sabotage import accuracy, permutation, probes, swap
from verifying import IN_TURN, assert_a_schedule_shows, assert_passed, assert_right_in_short, judge_of, on_emulator, report_of
from ways import AMD, AMD_WAYS, LIKE_OTHER_WAYS, WHOLE, in_turn, plan_of, tailed

from gemmgen.catalog.vendor import VENDORS
from gemmgen.emulate.amdgpu import TARGETS
from gemmgen.errors import EmulationError
from gemmgen.render import render
from gemmgen.run import emulated, gemm
from gemmgen.solve import solve
from gemmgen.spec import loads


CONFLICTING = "mfma, one narrow instruction of bf16"
"""Of whose lanes 64 banks serve two k together: Rows.swizzle_rows."""


@pytest.mark.parametrize(("name", "question"), in_turn(AMD_WAYS, IN_TURN, LIKE_OTHER_WAYS))
def test_each_way_is_right_in_short(name, question):
    assert_right_in_short(plan_of(**AMD_WAYS[name]), question, conflicts=name == CONFLICTING)


@pytest.mark.parametrize("name", tailed(AMD_WAYS, AMD_WAYS.keys() - WHOLE))
def test_each_way_verifies(name):
    report = report_of(plan_of(**AMD_WAYS[name]))
    assert_passed(report)
    if name != CONFLICTING:
        assert "0 bank conflicts" in report.checks[-1].detail


def test_the_ways_are_of_every_target_layout_and_place():
    plans = [plan_of(**way) for way in AMD_WAYS.values()]
    assert {plan.arch for plan in plans} == set(VENDORS["amd"].checked.emulated)
    assert {plan.layout for plan in plans} == {"nn", "nt", "tn", "tt"}
    assert {plan.where for plan in plans} == {"prepass", "shared", "register"}


@pytest.mark.long
@pytest.mark.parametrize("gpu", ["mi300x", "rx9070xt"])
def test_all_ways_give_the_same_bits_and_counts(gpu):
    """The words are the same wherever they are made, and so is the order of the sums: every lane's k too."""
    rng = np.random.default_rng(0)
    a = (rng.uniform(-1, 1, (70, 131)) * np.exp2(rng.integers(-30, 18, (70, 131)))).astype(np.float32)
    b = rng.uniform(-1, 1, (131, 69)).astype(np.float32)
    a[3, 4], b[7, 8] = np.inf, np.nan
    found = []
    for where in ("prepass", "shared", "register"):
        found.append(gemm(*on_emulator(plan_of(gpu=gpu, where=where, promote=32)), a, b))
    for other in found[1:]:
        assert np.array_equal(other.c.view(np.uint32), found[0].c.view(np.uint32))
        assert other.status == found[0].status
    assert found[0].status["a_lossy"] > 100 and found[0].status["a_nonfinite"] == found[0].status["b_nonfinite"] == 1


FAULTS = {
    # name: (way, edit, the check that must fail)
    "a product dropped": ("mfma", swap("multiply_add(acc_correction[i][j], a_fragments[buffer][1][i]", ";//"), probes),
    "the same instruction's k twice": ("mfma", swap("__builtin_shufflevector(a, a, 2, 3)", "__builtin_shufflevector(a, a, 0, 1)"), permutation),
    "a product dropped, by the bound": ("mfma", swap("multiply_add(acc_correction[i][j], a_fragments[buffer][1][i]", ";//"), accuracy),
    "A's two instructions in the other order": (
        "mfma", lambda text: swap("(a, a, 9, 9)", "(a, a, 2, 3)")(swap("(a, a, 2, 3)", "(a, a, 0, 1)")(swap("(a, a, 0, 1)", "(a, a, 9, 9)")(text))), permutation,
    ),
    "half of the lanes at the wrong k": ("mfma", swap("a_chunk = (lane >> 5)", "a_chunk = 0"), permutation),
    "rows of A exchanged": ("mfma, narrow", swap("a_row = (lane & 15)", "a_row = (lane & 15) ^ 1"), permutation),
    "C's register of another row": ("mfma", swap("(r >> 2) * 8", "(r >> 2) * 4"), permutation),
    "C's upper lanes four rows off": ("mfma, register", swap("(lane >> 5) * 4", "(lane >> 5) * 8"), permutation),
    "the swizzle on one side only": ("mfma", swap("swizzle(row, chunk) * 16)", "chunk * 16)"), permutation),
    "a chunk of the run left out": ("mfma, register", swap("kk / 4 + piece", "kk / 4"), permutation),
    "the second chunk twice": ("wmma of RDNA3", swap("(address ^ 16)", "address"), permutation),
    "RDNA3's rows of C as RDNA4's": ("wmma of RDNA3", swap("r * 2", "r"), permutation),
    "RDNA4's k as RDNA3's": ("wmma of RDNA4", swap("a_chunk = (lane >> 4)", "a_chunk = 0"), permutation),
    "a stage of the ring too early": ("mfma, a ring of three", swap("const int next_slot = slot + 1 == STAGES ? 0 : slot + 1;", "const int next_slot = slot ^ 1;"), permutation),
    "VALU, rows from the wrong place": ("VALU", swap("i * apart * ROW_BYTES", "(i ^ 1) * apart * ROW_BYTES"), permutation),
    "VALU, one k of four left out": ("VALU", swap("k < 4; ++k) c[", "k < 3; ++k) c["), permutation),
    "VALU, C's rows of a lane too close": ("VALU", swap("(r >> 2) * 8", "(r >> 2) * 4"), permutation),
    "VALU, four rows on with the same swizzle": ("VALU of RDNA3", swap("swizzle(4, step) - step)", "0)"), permutation),
    "VALU, eight rows on with the same swizzle": ("VALU, 64 banks, deep stages", swap("swizzle(8, step) - step)", "0)"), permutation),
    "shuffles that miss the upper half": ("mfma", swap("for (int mask = 32; mask > 0", "for (int mask = 16; mask > 0"), None),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_kernel_fails(name):
    way, edit, question = FAULTS[name]
    judge = judge_of(plan_of(**AMD_WAYS[way]), edit)
    try:
        passed = judge.special().passed if question is None else question(judge).passed
    except EmulationError:
        return  # caught before there was an answer
    assert not passed


@pytest.mark.parametrize("way, barrier", [
    ("mfma", "                block_barrier();\n                if (next) fetch"),
    ("mfma, register", "        block_barrier();\n        slot ^= 1;"),
    ("mfma, register, slices", "    block_barrier();\n    if (*(u32*)shared"),
    ("wmma of RDNA3", "        block_barrier();\n        slot ^= 1;"),
    ("wmma of RDNA4, a ring of three", "        block_barrier();\n        free_slot = slot;"),
    ("mfma, one instruction", "    block_barrier();\n    int slot = 0;"),
])
def test_a_missing_barrier_shows_between_the_schedules(way, barrier):
    judge = judge_of(plan_of(**AMD_WAYS[way]), swap(barrier, barrier.replace("block_barrier();", "")))
    assert_a_schedule_shows(judge)


def test_what_is_said_to_be_emulated_is():
    """The plan's sentence rests on a list of the catalogue; the emulator has its own."""
    assert set(VENDORS["amd"].checked.emulated) == set(TARGETS)
    for name in AMD:
        plan = solve(loads({"split": {"scheme": "ootomo"}, "target": {"gpu": name}}))
        assert ("executed by an interpreter" in plan.standing) == emulated(plan) == (name != "mi100")
        assert "never run on AMD hardware" in plan.standing and plan.standing in " ".join(render(plan).text.replace("//", "").split())


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.long)], ids=["in short", "whole"])
def test_what_flushing_loses_is_reported(whole):
    """A scheme that the MI200 does not suit is built when asked for, and its report says what is lost and where."""
    missing = {}
    for gpu, scheme in (("mi210", "markidis"), ("mi210", "scaled"), ("mi300x", "markidis")):
        plan = plan_of(gpu=gpu, scheme=scheme)
        if whole:
            report = report_of(plan)
            assert_passed(report)
            told = report.checks[-2]
        else:
            told = accuracy(judge_of(plan))
            assert told.passed, told.detail
        rest = told.detail.partition("; ")[2]
        assert ("which takes subnormal ones for zero" in rest) == (gpu == "mi210")
        missing[gpu, scheme] = float(rest.split()[0]) if rest else 0.0
    assert 1e-5 < missing["mi210", "markidis"] < 1e-4 and missing["mi210", "scaled"] < 1e-6


ORDERED = {
    "gfx90a": r"buffer_wbinvl1_vol", "gfx942": r"buffer_wbl2 sc1|buffer_inv sc1", "gfx1100": r"buffer_gl1_inv|buffer_gl0_inv", "gfx1201": r"global_inv scope:SCOPE_DEV",
}
"""What a fence of the whole GPU is in machine code, and one of a workgroup is not (LLVM's memory model)."""


@pytest.mark.parametrize("gpu", ["mi210", "mi300x", "rx7900xtx", "rx9070xt"])
def test_a_slice_arrives_between_two_fences_of_the_whole_gpu(gpu):
    """Others see its part before they see that it has arrived, and it reads theirs after. The emulator knows of AMD's order only what one wave does."""
    plan = plan_of(gpu=gpu, split_k=2)
    told = re.findall(rf"{ORDERED[plan.arch]}|global_atomic_add\S* \S+ \S+ \S+ \S+ (?:glc|sc0|th:TH_ATOMIC_RETURN).*", assembled(render(plan)).assembly)
    [arrival] = [at for at, one in enumerate(told) if one.startswith("global_atomic")]
    assert told[:arrival] and told[arrival + 1 :], told
