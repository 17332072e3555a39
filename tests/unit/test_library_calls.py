"""A library's C functions under sanitisers: thousands of random calls, some of whose driver calls fail, against what the header says of them.

The calls, and what each has to give and to ask of the driver, are tests/support/library_calls.py's. `make test` draws a few thousand, `make test-all` more than 80,000.
"""

from __future__ import annotations

from collections import Counter

import pytest

from library_calls import (ALPHA_OF_HOST, BETA_OF_HOST, CURRENT_TARGET, FAILED, GEMM, GEMM_PACKED, PACK, PREPARE, READ_STATUS, Answer, Call, Draw, Replay, edges, kernels)
from gemmgen.library.structures import Packed, Problem, sized
from standin import GCC

pytestmark = pytest.mark.skipif(GCC is None, reason="a C compiler builds the library")

LONG = pytest.mark.long


@pytest.fixture(scope="module")
def checked(tmp_path_factory) -> Replay:
    """With every access and every sum looked at."""
    return Replay(tmp_path_factory.mktemp("replay"), "address,undefined")


@pytest.fixture(scope="module")
def raced(tmp_path_factory) -> Replay:
    """With every access of several threads looked at."""
    return Replay(tmp_path_factory.mktemp("replay"), "thread")


def drawn(replay: Replay, seed: int, count: int) -> list[Call]:
    """In the first ones nothing fails: a driver that does not tell its version stays unknown."""
    draw = Draw(seed, replay.reference)
    calls = [draw() for _ in range(count)]
    for call in calls[:40]:
        call.fails_in = 0
    return calls


def judged(replay: Replay, calls: list[Call], answers: list[Answer], alone: bool = True) -> Counter:
    """How often which driver call failed; the first call that did something else is told."""
    found = Counter()
    for number, (call, answer) in enumerate(zip(calls, answers, strict=True)):
        try:
            found[replay.reference.check(call, answer, alone)] += 1
        except AssertionError as error:
            raise AssertionError(f"call {number}: {error}\n{call}") from None
    return found


def once(answers: list[Answer]) -> None:
    """Machine code is loaded once, and a device has one pool."""
    events = [event for answer in answers for event in answer.events if event.code == 0]
    created, set_, destroyed = (Counter(event.device for event in events if event.kind == kind) for kind in ("pool_create", "pool_set", "pool_destroy"))
    assert set(set_.values()) <= {1}, "a device has several pools"
    assert set(Counter(event.numbers[0] for event in events if event.kind == "load").values()) <= {1}, "machine code is loaded again"
    assert all(created[device] - set_[device] <= destroyed[device] + 1 for device in created)


@pytest.mark.parametrize(("seed", "count"), [(1, 2500), *(pytest.param(seed, 4000, marks=LONG) for seed in range(2, 20))])
def test_calls_do_what_the_header_says_whatever_fails(checked, seed, count):
    calls = drawn(checked, seed, count)
    answers = checked(calls)
    failed = judged(checked, calls, answers)
    once(answers)
    assert sum(failed.values()) - failed[""] > count / 40, "hardly any driver call failed"
    served = Counter(event.numbers[0] for answer in answers for event in answer.events if event.kind == "launch")
    launched = {symbol for number in served for symbol, _ in [checked.reference.described[number]]}
    assert all(any(launch.symbol in launched for launch in one.built.source.launches) for one in kernels()), "a kernel was never launched"


def test_a_kernel_is_taken_up_to_the_last_product_that_it_is_for(checked):
    calls = edges(checked.reference)
    judged(checked, calls, checked(calls))


@pytest.mark.parametrize(("seed", "count"), [(50, 1200), *(pytest.param(seed, 4000, marks=LONG) for seed in range(51, 54))])
def test_threads_do_not_get_into_each_others_way(raced, seed, count):
    """Four of them, each of whose calls may be for any device; all are first calls at once."""
    calls = drawn(raced, seed, count)
    answers = raced(calls, threads=4)
    judged(raced, calls, answers, alone=False)
    once(answers)


def first_calls(replay: Replay, more: int) -> list[Call]:
    """A call of each function that asks the driver for something: in a thread without a device, by the pool, of packed words, with epilogues; and drawn ones."""
    problem = sized(Problem, m=70, n=45, k=100, lda=100, ldb=45, ldc=45, a=1 << 40, b=1 << 41, c=1 << 42)
    scalars = ALPHA_OF_HOST | BETA_OF_HOST
    found = [
        Call(function=GEMM, device=-1, flags=scalars, alpha=1.0, problem=problem), Call(function=PREPARE, device=1), Call(function=CURRENT_TARGET, device=-1),
        Call(function=PACK, device=1, operand=b"b", workspace=1 << 43, bytes=1 << 30, problem=problem, packed=sized(Packed)),
        Call(function=READ_STATUS, device=0, workspace=1), Call(function=PREPARE, device=2),
    ]
    found[2].target.size = 40
    batch = Problem.from_buffer_copy(problem)
    batch.batch, batch.stride_a, batch.stride_b, batch.stride_c, batch.epilogue, batch.flags = 2, 7000, 4500, 3150, 1, 1
    batch.alpha = batch.beta = 1 << 44
    found.append(Call(function=GEMM, device=1, flags=0, problem=batch))
    draw = Draw(99, replay.reference)
    while len(found) < 7 + more:
        call = draw()
        if call.function in (GEMM, PACK, GEMM_PACKED) and replay.reference.wanted(call, 0).codes == {0} and replay.reference.wanted(call, 0).needs:
            found.append(call)
    for call in found:
        call.fails_in, call.fails_with = 0, FAILED
    return found


@pytest.mark.parametrize("more", [0, pytest.param(60, marks=LONG)])
def test_a_first_call_in_which_any_driver_call_fails_leaves_nothing_behind(checked, more):
    """And the same call once more does all that it has to."""
    calls = first_calls(checked, more)
    answers = iter(checked(calls, mode="fresh"))
    found: Counter = Counter()
    for call in calls:
        is_left = True
        while is_left:
            broken, again = next(answers), next(answers)
            is_left = bool(broken.result.failed)
            call.fails_in = int(is_left)
            found += judged(checked, [call], [broken])
            call.fails_in = 0
            kind = next((event.kind for event in broken.events if event.code == FAILED), "")
            if kind == "version":
                assert again.result.code == broken.result.code, "a driver that does not tell its version stays unknown"
                continue
            judged(checked, [call], [again])
            if call.function == PREPARE and broken.result.code == 0:
                of, symbols = checked.reference, [event.numbers[0] for event in broken.events if event.kind == "function" and event.code == 0]
                ready = {of.described[number][0] for number in symbols}
                assert ready == {"finish"} | {launch.symbol for one in of.known if of.runs_on(one, of.target(call)) for launch in one.launches}
            if call.function in (GEMM, PREPARE):  # whoever comes first loads all that was made for the device; the driver compiles when it has to
                of, device = checked.reference, checked.reference.target(call)
                loaded = {of.described[event.numbers[0]][0] for event in (*broken.events, *again.events) if event.kind == "load"}
                own, every = (of.code_of(device, portable) for portable in (False, True))
                assert {label for label in loaded if not label.startswith("finish_")} == own | every & of.wanted(call, 0).needs
            events = [*broken.events, *again.events]
            once([broken, again])
            live = [sum((event.kind == more) - (event.kind == less) for event in events if event.code == 0) for more, less in (
                ("pool_create", "pool_destroy"), ("retain", "release"))]
            assert [again.result.pools, again.result.retained] == live == [
                int(any(event.kind == "take" for event in events)), sum(event.kind == "make_current" and event.code == 0 for event in events)]
    assert {"version", "initialize", "retain", "make_current", "current", "attribute", "exchange", "load", "function", "allow", "launch", "overlapping", "fill", "copy",
            "synchronize", "pool_create", "pool_set", "take", "give"} <= found.keys()
