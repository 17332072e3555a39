"""A library's C functions under sanitisers: thousands of random calls, some of whose driver calls fail, against what the header says of them.

The calls, and what each has to give and to ask of the driver, are tests/support/library_calls.py's. `make test` draws a few thousand, `make test-all` more than
80,000 of each sanitiser.
"""

from __future__ import annotations

from collections import Counter

import pytest

from library_calls import OWN_MEMORY, Replay, drawn, edges, failing_in_turn, first_calls, judged, kernels, once
from standin import GCC

pytestmark = pytest.mark.skipif(GCC is None, reason="a C compiler builds the library")

LONG = pytest.mark.long


@pytest.fixture(scope="module")
def checked(tmp_path_factory) -> Replay:
    """With every access and every sum looked at."""
    return Replay(tmp_path_factory.mktemp("replay"), "address,undefined")


@pytest.fixture(scope="module")
def hip(tmp_path_factory) -> Replay:
    """The same on HIP's runtime."""
    return Replay(tmp_path_factory.mktemp("replay"), "address,undefined", "hip")


@pytest.fixture(scope="module")
def raced(tmp_path_factory) -> Replay:
    """With every access of several threads looked at."""
    return Replay(tmp_path_factory.mktemp("replay"), "thread")


def do_right(replay: Replay, seed: int, count: int) -> None:
    calls = drawn(replay, seed, count, allocators=True)
    answers = replay(calls)
    failed = judged(replay, calls, answers)
    once(replay, answers)
    assert sum(failed.values()) - failed[""] > count / 40, "hardly any driver call failed"
    served = Counter(event.numbers[0] for answer in answers for event in answer.events if event.kind == "launch")
    launched = {symbol for number in served for symbol, _ in [replay.reference.described[number]]}
    assert all(any(launch.symbol in launched for launch in one.built.source.launches) for one in kernels()), "a kernel was never launched"
    own = [answer for call, answer in zip(calls, answers) if call.flags & OWN_MEMORY and any(event.kind == "take" for event in answer.events)]
    assert {answer.result.code for answer in own} >= {0, -24}, "the caller's allocator was not asked, or always served"


@pytest.mark.parametrize(("seed", "count"), [(1, 2500), *(pytest.param(seed, 4000, marks=LONG) for seed in range(2, 22))])
def test_calls_do_what_the_header_says_whatever_fails(checked, seed, count):
    do_right(checked, seed, count)


@pytest.mark.parametrize(("seed", "count"), [(1, 2500), *(pytest.param(seed, 4000, marks=LONG) for seed in range(2, 4))])
def test_calls_on_hips_runtime_do_so_too(hip, seed, count):
    do_right(hip, seed, count)


def test_a_kernel_is_taken_up_to_the_last_product_that_it_is_for(checked):
    calls = edges(checked.reference)
    judged(checked, calls, checked(calls))


@pytest.mark.parametrize(("seed", "count"), [(50, 1200), *(pytest.param(seed, 4000, marks=LONG) for seed in range(51, 71))])
def test_threads_do_not_get_into_each_others_way(raced, seed, count):
    """Four of them, each of whose calls may be for any device; all are first calls at once."""
    calls = drawn(raced, seed, count)
    answers = raced(calls, threads=4)
    judged(raced, calls, answers, alone=False)
    once(raced, answers)


FAILING = {"version", "current", "attribute", "exchange", "load", "function", "launch", "fill", "copy", "synchronize", "pool_create", "pool_set", "take", "give"}


@pytest.mark.parametrize("more", [0, pytest.param(60, marks=LONG)])
def test_a_first_call_in_which_any_driver_call_fails_leaves_nothing_behind(checked, more):
    """And the same call once more does all that it has to."""
    assert failing_in_turn(checked, first_calls(checked, more)).keys() >= FAILING | {"initialize", "retain", "make_current", "allow", "overlapping"}


@pytest.mark.parametrize("more", [0, pytest.param(60, marks=LONG)])
def test_a_first_call_on_hips_runtime_leaves_nothing_behind(hip, more):
    assert failing_in_turn(hip, first_calls(hip, more)).keys() >= FAILING
