"""Every way of an operand to the matrix unit: split in a pass of its own, before shared memory or behind
it; copied past the registers or through them; k in one piece or in slices."""

from __future__ import annotations

import numpy as np
import pytest
from assembled import assembled
from test_sabotage import permutation, probes, swap

from gemmgen.abi import Launch
from gemmgen.emulate import EAGER_LOWEST, LAZY_HIGHEST
from gemmgen.errors import EmulationError
from gemmgen.render import render
from gemmgen.run import allocated, arguments, gemm
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.verify import oracles
from verifying import IN_TURN, QUESTIONS, assert_a_schedule_shows, assert_passed, assert_right_in_short, judge_of, on_emulator, report_of
from ways import LIKE_OTHER_WAYS, SHOWN_BY_OTHERS, SMALL_GROUPS, TINY, WAYS, WHOLE, in_turn, plan_of, tailed

@pytest.mark.parametrize(("name", "question"), in_turn(WAYS, IN_TURN, LIKE_OTHER_WAYS, SHOWN_BY_OTHERS))
def test_each_way_is_right_in_short(name, question):
    assert_right_in_short(plan_of(**WAYS[name]), question, conflicts=any(one in name for one in ("wmma", "straight", "thin")))


@pytest.mark.parametrize("name", tailed(WAYS, WAYS.keys() - WHOLE))
def test_each_way_verifies(name):
    report = report_of(plan_of(**WAYS[name]))
    assert_passed(report)
    if not any(one in name for one in ("wmma", "straight", "thin")):  # whose rows are read without conflicts, but not written
        assert "0 bank conflicts" in report.checks[-1].detail


@pytest.mark.long
def test_all_ways_give_the_same_bits_and_counts():
    """The words are the same wherever they are made, and so is the order of the sums."""
    rng = np.random.default_rng(0)
    a = (rng.uniform(-1, 1, (70, 131)) * np.exp2(rng.integers(-30, 18, (70, 131)))).astype(np.float32)
    b = rng.uniform(-1, 1, (131, 69)).astype(np.float32)
    a[3, 4], b[7, 8] = np.inf, np.nan
    found = []
    for where, loads_ in (("prepass", "async"), ("prepass", "spread"), ("shared", "spread"), ("register", "async")):
        plan = plan_of(where=where, loads=loads_, stages=2, promote=32)
        device, _, source = on_emulator(plan)
        found.append(gemm(device, plan, source, a, b))
    for other in found[1:3]:
        assert np.array_equal(other.c.view(np.uint32), found[0].c.view(np.uint32))
    # Lanes that split take another order of k within an instruction, which the unit's truncation feels.
    assert np.allclose(found[3].c, found[0].c, rtol=1e-4, atol=1e-2, equal_nan=True)
    assert all(result.status == found[0].status for result in found)
    assert found[0].status["a_lossy"] > 100 and found[0].status["a_overflow"] > 10
    assert found[0].status["a_nonfinite"] == found[0].status["b_nonfinite"] == 1


def test_slices_give_the_same_bits_in_every_order():
    """Whichever block comes last adds the parts up in the order of the slices."""
    plan = plan_of(split_k=4, promote=32)
    source = render(plan)
    binary = assembled(source)
    problem = oracles.uniform(plan, -1, 1, (130, 70, 300), 0)
    results = [
        gemm(EmulatorDevice(plan, source, binary, schedule=schedule, processes=processes), plan, source, problem.a, problem.b).c
        for schedule in (LAZY_HIGHEST, EAGER_LOWEST) for processes in (1, 2)
    ]
    assert all(np.array_equal(one, results[0]) for one in results[1:])


def test_more_slices_than_stages():
    """Slices with nothing to sum still leave their part."""
    plan = plan_of(split_k=8)
    device, _, source = on_emulator(plan)
    for k in (0, 1, 40):
        problem = oracles.uniform(plan, -1, 1, (10, 9, k), 0)
        got = gemm(device, plan, source, problem.a, problem.b).c
        assert np.allclose(got, problem.a.astype(np.float64) @ problem.b, atol=1e-5)


FAULTS = {
    # name: (way, edit)
    "a part never loaded": ("packed words through registers", swap("== place && next) load(part);", "== place && next && part) load(part);")),
    "a tile stored over the one that is read": ("packed words through registers", swap("if (next) store(other);", "if (next) store(stage);")),
    "the wrong run of k": ("register", swap("(lane & 3) * 4", "(lane & 3) * 2")),
    "a slice too far": ("slices of packed words", swap("min(stages_k, slice * slice_stages)", "min(stages_k, slice * slice_stages + 1)")),
    "a slice left out": ("slices of packed words", swap("for (int s = 0; s < SLICES; ++s)", "for (int s = 1; s < SLICES; ++s)")),
    "rows closer than they lie": ("wmma", swap('"n"(ROW_BYTES / 2)', '"n"(ROW_BYTES / 2 - 8)')),
    "a piece whose steps share one fragment": ("pieces of two instructions, padded", swap("fetch(step - piece, stage, step)", "fetch(0, stage, step)")),
    "padding that is left out of a row's place": ("pieces of two instructions, padded", swap("return row * 128 + row * 16;", "return row * 128;")),
    "sums that are not left": ("nothing cached, loads waited for", swap("        put_sums();\n    };", "    };")),
    "a product with the word before": ("sums cached alone", swap("fetch_b(stage, step, 1);", "fetch_b(stage, step, 0);")),
    "half of the elements unsplit": ("shared, strided and not", swap("from + i * ld", "from")),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_way_fails(name):
    way, edit = FAULTS[name]
    judge = judge_of(plan_of(**WAYS[way]), edit)
    try:
        passed = permutation(judge).passed and probes(judge).passed
    except EmulationError:
        return
    assert not passed


@pytest.mark.parametrize("way, barrier", [
    ("packed words through registers", "        __syncthreads();\n        slot ^= 1;"),
    ("packed words through registers, two buffers", "                __syncthreads();\n                if (next) fetch"),
    ("slices of packed words", "    __syncthreads();\n    if (*(u32*)shared"),
    ("one stage, padded, pieces of one instruction", "        __syncthreads();  // everyone has multiplied this stage"),
    ("one stage, padded, two buffers, before shared memory", "                __syncthreads();  // everyone has fetched the last of this stage"),
])
def test_a_missing_barrier_shows_between_the_schedules(way, barrier):
    judge = judge_of(plan_of(**WAYS[way]), swap(barrier, barrier.replace("__syncthreads();", "")))
    assert_a_schedule_shows(judge)


def test_one_stage_is_right_in_both_orders():
    """What is put away meets what others still read, where nothing keeps them apart."""
    check = QUESTIONS["orders"](judge_of(plan_of(**WAYS["one stage, padded, pieces of one instruction"])))
    assert check.passed, check.detail


def test_counting_twice_is_noticed():
    """The counters of a kernel that splits itself are those of its elements, each once."""
    plan = plan_of(where="register", stages=2, tile=TINY)  # three tiles of columns
    judge = judge_of(plan, swap("if (a_turn == n0 / BLOCK_N)", "if (true)"))
    a, b = np.full((35, 64), 1e6, np.float32), np.ones((64, 70), np.float32)
    result = gemm(judge.device, plan, judge.source, a, b)
    assert result.status["a_overflow"] == 3 * a.size
    good = judge_of(plan)
    assert gemm(good.device, plan, good.source, a, b).status["a_overflow"] == a.size


@pytest.mark.parametrize("way", [dict(stages=3), dict(SMALL_GROUPS), dict(SMALL_GROUPS, where="mixed")])
def test_b_need_not_be_split_again(way):
    """Weights stay: what splits A alone finds B's words where the product before left them."""
    plan = plan_of(**way)
    device, _, source = on_emulator(plan)
    m, n, k = 70, 69, 131
    rng = np.random.default_rng(5)
    first, second, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((m, k), (m, k), (k, n)))
    extents = source.interface.extents(m, n, k)
    memory = allocated(device, source.interface, extents)
    given = {"m": m, "n": n, "k": k, "lda": k, "ldb": n, "ldc": n, "alpha": 1.0, "beta": 0.0, "b": device.upload(b, "b")}
    found = []
    for a, count in ((first, Launch.blocks), (second, Launch.blocks_same_b)):
        given |= {"a": device.upload(a, "a"), "c": device.upload(np.full((m, n), np.nan, np.float32), "c")}
        for launch in source.launches:
            if blocks := count(launch, extents):
                device.launch(launch.symbol, blocks, launch.threads, launch.shared_bytes, arguments(launch, given, memory))
        found.append(device.download(given["c"], np.float32, m * n).reshape(m, n))
        given["b"] = device.upload(np.full((k, n), np.nan, np.float32), "b")  # not to be read again
    for a, c in zip((first, second), found):
        fresh = gemm(*on_emulator(plan), a, b).c
        assert np.array_equal(c.view(np.uint32), fresh.view(np.uint32))
