"""Random specs: each ends in a plan that holds its own promises, or in a typed refusal."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.errors import GemmgenError, InfeasibleSpec, SpecError
from gemmgen.naming import kernel_name, parse_name
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import loads


def mostly(usual, odd):
    """Values that tend to fit, and now and then some that do not."""
    return st.integers(0, 9).flatmap(lambda pick: odd if pick == 0 else usual)


sides = mostly(st.sampled_from([16, 32, 48, 64]), st.integers(1, 300))
depths = mostly(st.sampled_from([16, 32, 64, 128]), st.sampled_from([8, 48, 256]))
outcomes = {"plan": 0, "refusal": 0}


@st.composite
def specs(draw):
    """Specs that fix everything a search would fill; about half of them are impossible."""
    depth = draw(depths)
    warp = (draw(sides), draw(sides))
    whole = tuple(side * draw(st.integers(1, 4)) for side in warp)
    block = draw(mostly(st.just(whole), st.tuples(sides, sides)))
    return {
        "problem": {
            "layout": draw(st.sampled_from(["nn", "nt", "tn", "tt"])),
            "m": draw(st.integers(0, 1 << 20)), "n": draw(st.integers(0, 1 << 20)), "k": draw(st.integers(0, 1 << 20)),
        },
        "split": {
            "scheme": draw(st.sampled_from(SCHEMES.names())),
            "promote": draw(mostly(st.sampled_from([0, 16, 128, 256]), st.integers(0, 1 << 20))),
            "special": draw(st.sampled_from(["exact", "fast"])),
        },
        "tile": {"block": [*block, depth], "warp": [*warp, draw(mostly(st.just(depth), depths))], "group": draw(st.integers(1, 64))},
        "pipeline": {"stages": draw(mostly(st.integers(2, 4), st.integers(2, 64))), "fragment_buffers": draw(st.integers(1, 2))},
        "target": {"gpu": draw(st.sampled_from(GPUS.names()))},
    }


@settings(max_examples=1000, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(specs())
def _a_random_spec_gives_a_sound_plan_or_a_typed_refusal(data):
    try:
        plan = solve(loads(data))
    except GemmgenError as refusal:
        assert isinstance(refusal, InfeasibleSpec | SpecError)
        assert refusal.where and refusal.problem
        assert refusal.needs or refusal.has, str(refusal)
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
