"""Kernels on this machine's GPU. A test of one that it cannot run is skipped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gemmgen import road
from gemmgen.build import build
from gemmgen.plan import Plan
from gemmgen.render import render
from gemmgen.run import cuda
from gemmgen.verify import Check, Judge, oracles
from verifying import assert_passed


def needs(what: Any) -> None:
    """Skips a test where the GPU does not run a plan, or is none of a row's."""
    if reason := cuda.why_not(what):
        pytest.skip(f"NOT RUN: {reason.problem}")


def judge_of(plan: Plan) -> Judge:
    """The judge of a plan's kernel."""
    needs(plan)
    source = render(plan)
    binary = build(source)
    return Judge(plan, source, binary, cuda.CudaDevice(binary))


def answers(judge: Judge, size: tuple[int, int, int] = (515, 517, 1027)) -> list[Check]:
    """To the judge's questions, and of a product (m, n, k) of positive numbers."""
    return [judge.edges(), judge.groups(), judge.special(), judge.range(), judge.bits("probes", oracles.probes(judge.plan)),
            judge.accuracy("U[0, 1]", oracles.uniform(judge.plan, 0, 1, size, 6)).check]


def assert_right(checks: Sequence[Check]) -> None:
    assert all(check.passed for check in checks), [f"{check.name}: {check.detail}" for check in checks if not check.passed]


def assert_verified(spec: Any) -> None:
    """A spec's whole report."""
    needs(road.plan(spec))
    assert_passed(road.verify(spec, device="cuda"))
