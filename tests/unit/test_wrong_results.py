"""The judge is judged: each of its checks is given results that are right, and then results that are wrong in one way, which it
must not let pass. What a kernel would return is made here in NumPy, so that nothing is compiled and nothing emulated."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gemmgen import verify as judging
from gemmgen.build import CubinResources
from gemmgen.kinds import Kind
from gemmgen.render import render
from gemmgen.run import Result
from gemmgen.split import split
from gemmgen.verify import Bound, Check, Errors, Judge, kinds, oracles
from ways import plan_of

RESOURCES = dict(
    registers=96, static_shared_bytes=0, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0, barriers=1, constant_bytes=400,
    code_bytes=4096, max_threads=None,
)


def product(device, plan, source, a, b, c=None, *, alpha=1.0, beta=0.0, placement=None, ends=None) -> Result:
    """What a right kernel returns, its sums rounded once."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = a.astype(np.float64) @ b.astype(np.float64)
        out = (alpha * total + (beta * c.astype(np.float64) if beta else 0)).astype(np.float32)
    words = {"a": split(a, plan.scheme), "b": split(np.ascontiguousarray(b.T), plan.scheme)}
    status = {f"{x}_{kind}": getattr(words[x], kind) for x in "ab" for kind in ("lossy", "overflow", "nonfinite")}
    return Result(out, status | {"repaired": int((~np.isfinite(out)).sum())})


def judge(monkeypatch, wrong=lambda result, **asked: result, scheme: str = "ootomo", **way) -> Judge:
    """A judge of a kernel that returns the right product, changed by `wrong`."""
    plan = plan_of(scheme=scheme, **way)
    source = render(plan)

    def gemm(*positional, **named):
        return wrong(product(*positional, **named), **named)

    monkeypatch.setattr(judging, "gemm", gemm)
    binary = SimpleNamespace(kernels={launch.symbol: CubinResources(**RESOURCES) for launch in source.launches}, assembly="")
    return Judge(plan, source, binary, SimpleNamespace(conflicts={}, kind="emulator", not_modelled=()))


def changed(change):
    """C changed by a function of it."""
    return lambda result, **asked: replace(result, c=change(result.c.copy()).astype(np.float32))


def one_element(value):
    def change(c):
        c[0, 0] = value(c[0, 0])
        return c
    return changed(change)


def outside(result, **asked):
    return replace(result, intact=False)


def counted(**more):
    return lambda result, **asked: replace(result, status=result.status | {key: result.status[key] + by for key, by in more.items()})


def uniform(judge):
    return judge.accuracy("data", oracles.uniform(judge.plan, -1, 1, (40, 30, 200), 0)).check


def with_infinity(judge):
    problem = oracles.uniform(judge.plan, -1, 1, (40, 30, 200), 0)
    problem.a[3, 5] = np.inf
    return judge.accuracy("data", problem).check


def known_bits(judge):
    return judge.bits("permutation", oracles.permutation(judge.plan))


QUESTIONS = {
    "accuracy": uniform, "accuracy with Inf": with_infinity, "bits": known_bits, "edges": lambda j: j.edges(), "special": lambda j: j.special(),
    "range": lambda j: j.range(),
}
WRONG = {
    # what is asked: what is wrong with the answers
    "accuracy": {
        "three parts in a million too large": changed(lambda c: c * (1 + 3e-6)), "one element beyond the worst case": one_element(lambda x: x + 0.01),
        "memory beside C written": outside, "one NaN": one_element(lambda x: np.nan),
    },
    "accuracy with Inf": {
        "NaN where FP32 has Inf": changed(lambda c: np.where(np.isinf(c), np.nan, c)),
        "the other Inf": changed(lambda c: np.where(np.isinf(c), -c, c)), "a number where FP32 has Inf": changed(lambda c: np.where(np.isinf(c), 3e38, c)),
    },
    "bits": {"the last bit of one element": one_element(lambda x: np.nextafter(x, np.float32(9))), "one NaN": one_element(lambda x: np.nan)},
    "edges": {
        "alpha ignored": lambda result, **asked: replace(result, c=result.c / np.float32(asked["alpha"] or 1)),
        "C not added": lambda result, **asked: replace(result, c=result.c - np.float32(asked["beta"]) * asked["c"]) if asked["beta"] else result,
        "memory beside C written": outside, "one NaN": one_element(lambda x: np.nan),
        "a thousandth too large": changed(lambda c: c * 1.001),
    },
    "special": {
        "NaN where FP32 has Inf": changed(lambda c: np.where(np.isinf(c), np.nan, c)),
        "a number where FP32 has NaN": changed(lambda c: np.where(np.isnan(c), 0, c)),
        "finite elements a thousandth off": changed(lambda c: np.where(np.isfinite(c), c * 1.001, c)),
        "one lossy element more": counted(a_lossy=1), "one overflow of B fewer": counted(b_overflow=-1), "nothing repaired":
        lambda result, **asked: replace(result, status=result.status | {"repaired": 0}),
    },
    "range": {
        "small rows flushed": changed(lambda c: np.where(np.abs(c) < 2.0**-126, 0, c)), "large rows a thousandth off":
        changed(lambda c: np.where(np.abs(c) > 2.0**60, c * 1.001, c)), "one NaN": one_element(lambda x: np.nan),
    },
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_right_results_pass(name, monkeypatch):
    check = QUESTIONS[name](judge(monkeypatch, scheme="scaled" if name == "range" else "ootomo"))
    assert check.passed, check.detail


@pytest.mark.parametrize(("name", "fault"), [(name, fault) for name, faults in WRONG.items() for fault in faults])
def test_wrong_results_do_not(name, fault, monkeypatch):
    check = QUESTIONS[name](judge(monkeypatch, WRONG[name][fault], scheme="scaled" if name == "range" else "ootomo"))
    assert not check.passed, check.detail


def test_counters_count_where_nothing_is_repaired(monkeypatch):
    """`fast` leaves special values as they come; the counters must be right all the same."""
    plan = replace(plan_of(), special="fast")
    for wrong, passes in ((lambda result, **asked: result, True), (counted(a_overflow=1), False)):
        asked = judge(monkeypatch, wrong)
        asked.plan = plan
        assert asked.special().passed is passes


def test_two_schedules_that_differ_in_one_bit(monkeypatch):
    problem = oracles.uniform(plan_of(), -1, 1, (20, 10, 50), 0)
    asked = judge(monkeypatch)
    first = asked.run(problem)
    assert judging._schedules(asked, problem, first).passed
    late = judge(monkeypatch, one_element(lambda x: np.nextafter(x, np.float32(9))))
    assert not judging._schedules(late, problem, first).passed
    assert not judging._schedules(asked, problem, Result(np.zeros((0, 0), np.float32))).passed


@pytest.mark.parametrize(("problem", "used"), [
    ("more shared memory than planned", dict(static_shared_bytes=16)), ("spills", dict(spill_store_bytes=4)), ("loads of spills", dict(spill_load_bytes=4)),
    ("no block fits", dict(registers=257)),
])
def test_resources_that_are_not_the_plans(problem, used, monkeypatch):
    asked = judge(monkeypatch)
    asked.plan = replace(asked.plan, allow_spills=False)
    assert asked.resources().passed
    asked.binary.kernels[asked.source.name] = CubinResources(**RESOURCES | used)
    assert not asked.resources().passed, problem


def test_spills_that_were_allowed(monkeypatch):
    asked = judge(monkeypatch)
    asked.binary.kernels[asked.source.name] = CubinResources(**RESOURCES | {"spill_store_bytes": 4})
    assert asked.plan.allow_spills and asked.resources().passed


def test_a_users_matrices_are_held_to_the_worst_case():
    fine = judging.Accuracy(
        Check("your matrices", True, "told"), Errors(1e-7, 0.1, 0.1, 9e-6), Bound(1e-6, 1e-5, 0.0, 0.0),
        Result(np.zeros((1, 1), np.float32), {"a_lossy": 0}), within=True, of_fp32=1.0,
    )
    assert judging._judge_users(fine).passed
    not_random = replace(fine, check=replace(fine.check, passed=False))
    assert judging._judge_users(not_random).passed and "within the worst case" in judging._judge_users(not_random).detail
    assert not judging._judge_users(replace(fine, within=False)).passed
    lossy = judging._judge_users(replace(fine, result=replace(fine.result, status={"a_lossy": 3})))
    assert "3 elements outside the scheme's range" in lossy.detail


class Triangle(Kind):
    """A B, of which the lower triangle is computed."""

    name = "triangle"
    stored = "column <= row"

    def computed(self, m, n):
        return np.tri(m, n, dtype=bool)


@pytest.mark.parametrize("all_of_c", [False, True])
@pytest.mark.parametrize("wrong", [False, True])
def test_a_kind_that_writes_all_of_c_fails(monkeypatch, all_of_c, wrong):
    plan = replace(plan_of(), kind=Triangle())

    def gemm(device, plan, source, a, b, before, **asked):
        result = product(device, plan, source, a, b, before, **asked)
        old = np.full_like(result.c, np.nan) if before is None else before
        c = result.c if all_of_c else np.where(plan.kind.computed(*result.c.shape), result.c, old)
        c[-1, 0] *= 1 + wrong
        return replace(result, c=c)

    monkeypatch.setattr(kinds, "gemm", gemm)
    right, told = kinds.question(plan, None, None)
    assert right == (not all_of_c and not wrong), told
    assert ("not computed were written" in told) == all_of_c and (" of the worst case" in told) == (wrong or right)
