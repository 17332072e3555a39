"""The spec's section [solve]: what a user requires and maximises, from the file to the plan, its texts and its refusals."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from gemmgen.catalog.gpu import GPUS
from gemmgen.cli import explain as explaining
from gemmgen.designs import all_designs, common, design_called
from gemmgen.errors import InfeasibleSpec, SpecError
from gemmgen.model.equation import Equation
from gemmgen.render import render
from gemmgen.solve import alternatives, choices, explain, search, solve
from gemmgen.solve.limits import limits
from gemmgen.solve.request import requests
from gemmgen.spec import loads

FIXED = {
    "split": {"scheme": "ootomo", "promote": 128, "where": "prepass"}, "target": {"gpu": "a100"},
    "tile": {"block": [128, 128, 32], "warp": [64, 32, 32], "group": 8, "split_k": 1}, "pipeline": {"stages": 3, "fragment_buffers": 1, "loads": "async"},
}


def spec(gpu: str = "a100", policy: str = "auto", **own):
    return loads({"split": {"scheme": "ootomo"}, "target": {"gpu": gpu}, "fragment": {"policy": policy}, "solve": own})


@pytest.mark.parametrize(("gpu", "policy", "most", "shared"), [
    ("a100", "auto", 160, 100000), ("h100", "wgmma", 160, 100000), ("b200", "tcgen05", 168, 100000), ("mi300x", "auto", 100, 64000),
])
def test_what_is_required_holds_of_every_choice(gpu, policy, most, shared):
    free, loaded = solve(spec(gpu, policy)).model, spec(gpu, policy, require=[f"registers <= {most}", f"shared_bytes < {shared}"])
    assert free["registers"] > most or free["shared_bytes"] >= shared
    for plan in [*alternatives(loaded, 20, 20)[0], *[plan for _, plan in zip(range(5), choices(loaded))]]:
        assert plan.model["registers"] <= most and plan.model["shared_bytes"] < shared


def test_a_requirement_of_a_prediction_counts_what_it_rejects():
    free, bound = explain(spec()), explain(spec(require=["blocks_per_sm >= 2"]))
    rejected = bound.rejected["U1 blocks_per_sm >= 2"]
    assert bound.candidates == free.candidates and rejected > 0 and bound.feasible == free.feasible - rejected
    assert bound.plan.model["resident_blocks"] >= 2 > free.plan.model["resident_blocks"] - 1


@pytest.mark.parametrize(("key", "text", "worth"), [
    ("maximize", "blocks_per_sm * intensity", lambda known: -known["resident_blocks"] * known["intensity"]),
    ("minimize", "shared_bytes + 0 * stages", lambda known: known["shared_bytes"]),
])
def test_the_objective_is_reached_and_time_breaks_ties(key, text, worth):
    loaded = spec(policy="mma", **{key: text})
    request, = requests(loaded)
    found = search.enumerate_space(request.design, request.choices, request.constants, request.fragment, request.gpu.registers)
    known, _ = search.ranked(request.design, found, request.constants)
    best = worth(known)
    plan = solve(loaded)
    assert worth(plan.model) == pytest.approx(best.min())
    assert plan.model["seconds"] == pytest.approx(known["seconds"][np.isclose(best, best.min())].min())
    assert plan.identity != solve(spec(policy="mma")).identity


def test_the_objective_decides_between_policies_too():
    """The portable design has smaller tiles, of which more share an SM."""
    assert solve(spec("h100")).fragment.policy == "wgmma"
    assert solve(spec("h100", maximize="blocks_per_sm")).fragment.policy == "mma"


def test_it_is_told_in_every_text_and_is_no_part_of_identity():
    plain, own = solve(loads(FIXED)), solve(loads(FIXED | {"solve": {"maximize": "tflops", "require": ["(stages  ==\n3)"]}}))
    assert own.asked == ("maximize tflops", "require stages == 3")
    assert own.identity == plain.identity and own.hash == plain.hash
    assert [line for line in render(own).text.splitlines() if line not in render(plain).text.splitlines()] == [
        "// chosen    maximize tflops; require stages == 3",
    ]
    explanation = explain(loads(FIXED | {"solve": {"maximize": "tflops", "require": ["stages == 3"]}}))
    assert "asked      maximize tflops = " in explaining.text(explanation) and "U1, stages == 3: 3 == 3" in explaining.text(explanation)
    told = json.loads(json.dumps(explaining.as_dict(explanation)))
    assert told["asked"] == ["maximize tflops", "require stages == 3"] and told["plan"]["asked"] == told["asked"]
    assert "asked" not in explaining.as_dict(explain(loads(FIXED)))["plan"]


def test_a_plan_that_breaks_it_is_refused():
    with pytest.raises(InfeasibleSpec) as refused:
        solve(loads(FIXED | {"solve": {"require": ["stages == 3", "registers <= 128"]}}))
    assert str(refused.value) == (
        "spec: [solve] require 2: no plan satisfies it beside the other inequalities\n"
        "  got    'registers <= 128'\n"
        "  needs  U2, registers <= 128\n"
        "  has    253 <= 128, of the plan that comes nearest\n"
        "  try    a weaker inequality, or leave more of the plan open"
    )
    with pytest.raises(InfeasibleSpec, match="require 1"):
        solve(spec(require=["occupancy > 1"]))


@pytest.mark.parametrize(("own", "place"), [
    ({"maximize": "tflops", "minimize": "seconds"}, "solve"), ({"maximize": "tflops > 1"}, "maximize"), ({"require": ["tflops"]}, "require 1, column 1"),
    ({"require": ["stages > 1", "__import__('os')"]}, "require 2, column 1"), ({"require": ["nothing > 1"]}, "require 1, column 1"), ({"require": [""]}, "require"),
    ({"require": ["stages > 1"] * 17}, "require"), ({"maximize": "1+" * 300 + "1"}, "maximize"), ({"maximise": "tflops"}, "maximise"), ({"require": "stages > 1"}, "require"),
])
def test_what_is_no_expression_is_refused_with_its_place(own, place):
    with pytest.raises(SpecError) as refused:
        solve(spec(**own))
    assert place in refused.value.where, refused.value


def test_a_symbol_of_one_design_leaves_the_others_out():
    """`demand` is the register model's, which only the portable design needs."""
    assert solve(spec("h100", require=["demand <= 200"])).fragment.policy == "mma"
    with pytest.raises(InfeasibleSpec, match="no such symbol"):
        solve(spec("h100", "wgmma", require=["demand <= 200"]))


@pytest.mark.parametrize("gpu", ["a100", "h100", "b200", "mi300x"])
def test_explain_bounds_what_is_open_and_only_that(gpu):
    loaded = loads({"split": {"scheme": "ootomo"}, "target": {"gpu": gpu}, "tile": {"group": 8}, "solve": {"require": ["stages <= 3", "registers <= 255"]}})
    explanation = explain(loaded)
    found = limits(explanation.request, explanation.plan)
    told = {decision.name: bounds for decision, bounds in found.decisions}
    assert set(told) >= ({"block", "warp"}) and "group" not in told
    assert gpu == "mi300x" or [one.most for one in told["stages"] if one.constraint.number == "U1"] == [3]
    assert ("E4" in [one.constraint.number for one in told["promote"]]) == bool(explanation.plan.promote)  # the error's bound, where sums are promoted
    registers, blocks = found.steps[0]
    assert blocks >= 1 and all(a > b and m < n for (a, m), (b, n) in zip(found.steps, found.steps[1:]))
    text = explaining.text(explanation)
    assert all(f"    {one}\n" in text for bounds in told.values() for one in bounds)
    assert f"  registers <= {registers:<4} -> {blocks} block" in text
    assert len(explaining.as_dict(explanation)["bounds"]) == sum(map(len, told.values()))


def test_bounds_of_plain_fp32_rest_on_its_own_table_of_registers():
    """Not on that of kernels of a matrix unit: what a kind of loop takes."""
    design, table = design_called("cuda_cores"), GPUS.get("a100").registers
    told = [design.looked_up("loop", loop, table) for loop in range(2)]
    assert all(one["generation"] == table.plain.offset[loop] and set(one) > {"squeeze", "ahead"} for loop, one in enumerate(told))
    assert design.looked_up("tile_k", 0, table) == {}


def test_a_spec_that_leaves_nothing_open_has_no_bounds():
    explanation = explain(loads(FIXED))
    assert not limits(explanation.request, explanation.plan).decisions
    assert "bounds of" not in explaining.text(explanation) and "registers <= 128  -> 2 blocks an SM" in explaining.text(explanation)


def test_the_symbols_are_listed_with_meaning_and_whose_they_are(gemmgen):
    rows = {row["name"]: row for row in explaining.symbols()}
    assert rows["blocks_per_sm"]["symbol"] == "resident_blocks" and rows["demand"]["of"] == "(cuda_cores, packed_residues_portable, portable, residues_portable, straight, strided, thin)"
    assert all(row["meaning"] for row in rows.values())
    assert {one.symbol for design in all_designs() for _, group in design.equations.groups for one in group} <= {row["symbol"] for row in rows.values()}
    ran = gemmgen("explain", "--symbols")
    assert ran.code == 0 and "blocks that share an SM or CU" in ran.out
    assert gemmgen("explain").code == 2


@pytest.mark.parametrize(("gpu", "policy"), [("a100", "auto"), ("h100", "wgmma"), ("b200", "tcgen05"), ("t4", "auto"), ("mi300x", "auto")])
def test_stages_start_inside_their_bound(gpu, policy):
    """The same candidates remain as without it, in the same order, and all others are counted."""
    request, = (one for one in requests(spec(gpu, policy)) if policy == "auto" or one.fragment.policy == policy)
    asked = (request.design, request.choices, request.constants, request.fragment, request.gpu.registers, request.design.constraints)
    inside, all_of_them = search._enumerated(*asked, bounded=True), search._enumerated(*asked, bounded=False)
    assert inside.candidates == all_of_them.candidates and set(inside.columns) == set(all_of_them.columns)
    assert all(np.array_equal(inside.columns[name], all_of_them.columns[name]) for name in inside.columns)
    for found in (inside, all_of_them):
        assert sum(found.rejected.values()) + found.feasible == found.candidates
    c10 = common.SHARED_MEMORY.label
    assert gpu == "mi300x" or inside.rejected[c10] >= all_of_them.rejected[c10] > 0


def test_shared_memory_is_linear_in_the_stages_of_designs_with_a_ring():
    """So the stages that have room are computed: of residues 16 + BK (BM + BN) bytes each, by hand."""
    linear = {one.name for one in all_designs() if search._of_shared_memory(one.equations.pipeline)}
    assert linear == {one.name for one in all_designs()} - {"grouped", "straight", "thin"}
    known = {name: np.array(values) for name, values in {"BM": [128, 256], "BN": [128, 128], "BK": [64, 128], "shared_bytes_per_block": [232448] * 2}.items()}
    residues = next(one for one in all_designs() if one.name == "residues")
    assert search._most_stages(residues, known, {}).tolist() == [14, 4]  # 232448 / 16400, 232448 / 49168
    assert search._most_stages(residues, {name: value for name, value in known.items() if name != "BK"}, {}) is None
    with_more = SimpleNamespace(equations=SimpleNamespace(pipeline=(
        Equation("E1", "ring", "10 * stages", "B", ""), Equation("E2", "other", "missing", "", ""), Equation("E3", "shared_bytes", "ring + 100", "B", ""),
    )))
    assert search._most_stages(with_more, {"BM": np.array([128]), "shared_bytes_per_block": 155}, {}).tolist() == [5]
    axes = {"stages": np.array([2, 3, 4]), "group": np.array([7, 8, 9])}
    within = search._within({"BM": np.array([64, 128, 256])}, axes, "stages", np.array([3.0, 1.0, 4.0]))
    assert {name: values.tolist() for name, values in within.items()} == {"BM": [64, 64, 256, 256, 256], "stages": [2, 3, 2, 3, 4], "group": [7, 8, 7, 8, 9]}


def test_no_stage_beyond_the_bound_is_enumerated(monkeypatch):
    request, = requests(spec("h100", "wgmma"))
    seen = []
    monkeypatch.setattr(type(request.design), "registers", lambda self, numbers, table: seen.append(dict(numbers)) or dict(numbers))
    search.enumerate_space(request.design, request.choices, request.constants, request.fragment, request.gpu.registers)
    (numbers,) = seen
    assert (numbers["shared_bytes"] <= numbers["shared_bytes_per_block"]).all() and len(set(numbers["stages"])) > 3


def test_the_candidate_that_a_refusal_speaks_of_is_nearest_to_a_usual_shape():
    """By ratios, above and below alike."""
    columns = {"BM": np.array([16, 64, 1024, 64]), "stages": np.array([3, 2, 3, 3])}
    assert search._nearest(columns, ("stages", "BM", "BK")) == {"stages": 3, "BM": 64}
