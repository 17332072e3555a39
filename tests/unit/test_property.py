"""Random specs: each ends in a plan that holds its own promises, or in a typed refusal."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings

from gemmgen.kinds import all_kinds
from gemmgen.naming import kernel_name, parse_name
from gemmgen.render import render
from gemmgen.spec import json_schema
from random_specs import DRAWN, any_spec, bulk_specs, plan_or_refusal, planned_or_refused, specs


def sound(data) -> str:
    """What became of a spec."""
    plan = plan_or_refusal(data)
    if plan is None:
        return "refusal"
    source = render(plan)
    said = parse_name(source.name)
    assert source.name == kernel_name(plan)
    assert list(said["block"]) == data["tile"]["block"] and list(plan.warp) == data["tile"]["warp"]
    text = " ".join(source.text.partition("namespace")[0].replace("//", "").split())
    assert all(one.told(plan.decided[one.name]) in text for one in plan.design.decisions if one.name in plan.decided)
    assert plan.shared_bytes <= plan.gpu.limits.shared_bytes_per_block
    assert plan.threads <= plan.gpu.limits.threads_per_block
    assert plan.numbers["accumulator_registers"] < plan.gpu.limits.registers_per_thread
    assert (plan.cluster, plan.consumers) == (data["tile"].get("cluster", 1), data["pipeline"].get("consumers", "cooperative"))
    assert all(launch.blocks(source.interface.extents(1000, 1000, 1000)) % launch.cluster == 0 for launch in source.launches)
    assert all(launch.symbol in source.text for launch in source.launches)
    assert "Undefined" not in source.text and "None" not in source.text
    return "plan"


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "count"), [
    pytest.param(specs(), 100, id="portable"), pytest.param(bulk_specs(), 100, id="specialised"),
    pytest.param(specs(), 1000, id="portable, many", marks=pytest.mark.long), pytest.param(bulk_specs(), 500, id="specialised, many", marks=pytest.mark.long),
])
def test_a_random_spec_gives_a_sound_plan_or_a_typed_refusal(strategy, count):
    outcomes: Counter = Counter()

    @settings(max_examples=count, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def each(data):
        outcomes[sound(data)] += 1

    each()
    assert min(outcomes["plan"], outcomes["refusal"]) > count / 10, f"a test of one outcome only: {outcomes}"


def test_every_key_of_a_spec_is_drawn():
    """By the schema: a new key is in it, and has to be among those that are drawn."""
    schema = json_schema()

    def keys(at, before=""):
        for name, value in at["properties"].items():
            value = schema["$defs"][value["$ref"].split("/")[-1]] if "$ref" in value else value
            yield from keys(value, f"{before}{name}.") if "properties" in value else (f"{before}{name}",)

    assert set(keys(schema)) == set(DRAWN)


def test_most_specs_of_a_kind_ask_for_what_it_has():
    """Else hardly one of a kind whose extents are one is ever planned: each is refused for its sizes."""
    asked: dict[str, list[bool]] = {}
    for problem in (any_spec(number).get("problem", {}) for number in range(1500)):
        kind = all_kinds()[problem.get("kind", "gemm")]
        kind = kind.of(SimpleNamespace(type=problem.get("type", "f32"), **{choice: problem.get(choice) for choice in ("uplo", "side", "diag")}))
        sizes = {"m": 4096, "n": 4096, "k": 4096} | problem
        fits = problem.get("layout", "nn") in kind.layouts and all(sizes[extent] == sizes[other] for extent, other in kind.aliases.items() if extent in "mnk")
        asked.setdefault(kind.name, []).append(fits and all(choice in kind.options for choice in ("uplo", "side", "diag") if choice in problem))
    assert set(asked) == set(all_kinds()) and all(len(fits) > 40 and 0.7 < sum(fits) / len(fits) for fits in asked.values()), {
        name: (sum(fits), len(fits)) for name, fits in asked.items()}


@pytest.mark.parametrize(("first", "count"), [(0, 24), *(pytest.param(at, 500, marks=pytest.mark.long) for at in range(1000, 4000, 500))])
def test_a_spec_of_any_keys_ends_in_a_plan_or_a_typed_refusal(first, count):
    outcomes = Counter(planned_or_refused(any_spec(number)) for number in range(first, first + count))
    assert min(outcomes["planned"], outcomes["refused"]) > count / 10, outcomes
