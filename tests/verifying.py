"""A plan's kernel, built and judged on the emulator."""

from __future__ import annotations

from gemmgen.build import build
from gemmgen.plan import Plan
from gemmgen.render import render
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.verify import Report, oracles, verify


def report_of(plan: Plan) -> Report:
    """With a headline product just large enough for stages to wrap and promotion to fire."""
    source = render(plan)
    binary = build(source)
    size = None if plan.design.stays else (plan.block[0] + 5, plan.block[1] - 3, oracles.wrapping_k(plan) + 5)
    return verify(plan, source, binary, EmulatorDevice(plan, source, binary), size=size)


def assert_passed(report: Report) -> None:
    assert report.passed, [f"{check.name}: {check.detail}" for check in report.checks if not check.passed]
