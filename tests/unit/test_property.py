"""Random specs: each ends in a plan that holds its own promises, or in a typed refusal."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from gemmgen.naming import kernel_name, parse_name
from gemmgen.render import render
from random_specs import plan_or_refusal, specs

outcomes = {"plan": 0, "refusal": 0}


@settings(max_examples=1000, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(specs())
def _a_random_spec_gives_a_sound_plan_or_a_typed_refusal(data):
    plan = plan_or_refusal(data)
    if plan is None:
        outcomes["refusal"] += 1
        return
    outcomes["plan"] += 1
    source = render(plan)
    said = parse_name(source.name)
    assert source.name == kernel_name(plan)
    assert (list(said["block"]), list(said["warp"])) == (data["tile"]["block"], data["tile"]["warp"])
    assert (said["stages"], said["promote"]) == (plan.stages, plan.promote)
    assert plan.shared_bytes <= plan.gpu.limits.shared_bytes_per_block
    assert plan.threads <= plan.gpu.limits.threads_per_block
    assert plan.accumulator_registers < plan.gpu.limits.registers_per_thread
    assert all(launch.symbol in source.text for launch in source.launches)
    assert "Undefined" not in source.text and "None" not in source.text


def test_a_random_spec_gives_a_sound_plan_or_a_typed_refusal():
    _a_random_spec_gives_a_sound_plan_or_a_typed_refusal()
    assert min(outcomes.values()) > 100, f"a test of one outcome only: {outcomes}"
