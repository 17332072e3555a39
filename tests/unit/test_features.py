"""A design is the features that it lists: what each brings, and nothing of those that it does not list."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gemmgen import designs, kinds
from gemmgen.catalog import brought, epilogue, output
from gemmgen.catalog.element import F32, F64
from gemmgen.catalog.scheme.lookup import SCHEMES
from gemmgen.designs import all_decisions, all_designs, cuda_cores, design_called, owner_of
from gemmgen.designs.feature import (
    ANY_KIND, COMBINED_SUMS, COMPLEX, GIVEN_TRIANGLES, PACKS_APART, PERSISTENT, PROMOTES_AT_ONCE, SPLITS_APART, STORED_B, Feature,
)
from gemmgen.designs.parts import Equations
from gemmgen.designs.portable.design import CACHED_FRAGMENTS, PADDED_ROWS, PIECES
from gemmgen.designs.specialised.design import CLUSTERS, TURNS
from gemmgen.decisions import SUMS
from gemmgen.errors import GemmgenError
from gemmgen.model.equation import Constraint, Equation
from gemmgen.plan import Plan
from gemmgen.solve import solve
from gemmgen.spec import loads

DESIGNS = all_designs()
OWNERS = {
    PACKS_APART: {"specialised", "packed", "residues", "tensor_memory", "packed_tensor_memory", "packed_residues"},
    SPLITS_APART: set(),
    STORED_B: {"portable", "cuda_cores", "specialised", "packed", "residues", "tensor_memory", "packed_tensor_memory", "packed_residues"},
    PROMOTES_AT_ONCE: {"portable", "cuda_cores", "strided", "residues_portable", "straight", "grouped", "packed_residues_portable"},
    COMBINED_SUMS: {"residues", "residues_portable", "tensor_memory", "packed_tensor_memory", "residues_tensor_memory", "packed_residues",
                    "packed_residues_portable", "packed_residues_tensor_memory"},
    PERSISTENT: {"specialised", "packed", "residues", "tensor_memory", "packed_tensor_memory", "residues_tensor_memory", "packed_residues",
                 "packed_residues_tensor_memory"},
    ANY_KIND: {"portable", "cuda_cores", "specialised", "strided", "residues", "residues_portable", "tensor_memory", "residues_tensor_memory"},
    GIVEN_TRIANGLES: {"portable", "cuda_cores", "specialised", "strided", "tensor_memory"},
    COMPLEX: {"portable", "cuda_cores", "specialised", "strided", "residues", "residues_portable", "tensor_memory", "residues_tensor_memory"},
    PIECES: {"portable", "strided"},
    PADDED_ROWS: {"portable", "strided"},
    CACHED_FRAGMENTS: {"portable", "strided"},
    CLUSTERS: {"specialised", "packed", "residues", "packed_residues"},
    TURNS: {"specialised", "packed"},
}
"""The designs whose kernels have a feature, written down by hand."""


@pytest.mark.parametrize("feature", OWNERS, ids=lambda one: one.name[:30])
def test_designs_list_what_their_kernels_have(feature):
    assert {one.name for one in DESIGNS if one.has(feature)} == OWNERS[feature]


@pytest.mark.parametrize("design", DESIGNS, ids=lambda one: one.name)
def test_a_design_has_nothing_of_features_that_it_does_not_list(design):
    others = {feature for other in DESIGNS for feature in other.features} - set(design.features)
    numbers = [one.number for one in design.constraints]
    assert len(set(numbers)) == len(numbers)
    kept = [one for feature in design.features for one in (*feature.of_tiles, *feature.constraints)]
    assert sorted(numbers) == sorted(one.number for one in kept)
    decisions = {one.name for feature in design.features for one in feature.decisions}
    for feature in others:
        assert not set(map(id, (*feature.of_tiles, *feature.constraints))) & set(map(id, design.constraints)) - set(map(id, kept)), feature.name
        assert not {one.name for one in feature.decisions} - decisions & {one.name for one in design.decisions}, feature.name


@pytest.mark.parametrize("design", DESIGNS, ids=lambda one: one.name)
def test_what_explain_lists_is_what_the_solver_computes(design):
    """Every equation that a plan's numbers come of, by its number, and no group tells one twice."""
    own = design.equations
    listed = [one for _, group in own.groups for one in group]
    assert not [one.symbol for one in (*own.tiles, *own.pipeline, *own.launch, *own.predictions) if one not in listed]
    assert all(len({one.symbol for one in group}) == len(group) > 0 for _, group in own.groups)
    assert {one.symbol: one for one in listed} == {one.symbol: one for one in reversed(listed)}, "a symbol has one equation"
    assert all(re.fullmatch(r"[A-Z]\d+|BatchGEMM eq\. \d+", one.number) for one in listed)
    assert all(re.fullmatch(r"C\d+", one.number) for one in design.constraints)


def test_equations_of_registers_are_the_designs_own():
    assert dict(design_called("cuda_cores").forms.groups)["Registers"] == cuda_cores.equations.ALL
    told = {name: dict(design_called(name).forms.groups)["Registers"] for name in ("portable", "strided", "residues_portable")}
    assert told["strided"] == told["portable"] != told["residues_portable"]


@pytest.mark.parametrize(("decision", "value", "policy"), [
    ("where", "register", "fma"), ("where", "mixed", "wgmma"), ("where", "lane", "mma"), ("where", "nowhere", ""), ("loads", "bulk", "wgmma"),
    ("loads", "direct", "mma"), ("loads", "waited", "fma"), ("cluster", 2, "wgmma"), ("rows", "padded", "mfma"), ("fragment_caching", "sums", "mfma"),
])
def test_a_refusal_names_the_policy_whose_kernels_have_a_value(decision, value, policy):
    """The first design's that declares the decision, or the word of one that all designs have."""
    named = next(one for one in all_decisions() if one.name == decision)
    assert owner_of(named, value) == policy


def test_a_plans_text_is_that_of_its_decisions():
    assert Plan.__doc__.startswith("Everything decided.\n") and all(f"\n        {one.name}: {one.description}." in Plan.__doc__ for one in all_decisions())


def test_only_a_c_of_fp32_is_stored_as_vectors():
    """`float2` and `float4` are of no other type; FP64's is FP64 where a spec leaves it as it is."""
    assert {name for name, one in output.all_outputs().items() if one.vectors} == {"f32"} and not output.WIDE.vectors
    assert [output.output_of(element, c).name for element in (F32, F64) for c in ("f32", "f16")] == ["f32", "f16", "f64", "f16"]


@pytest.mark.parametrize(("name", "spills", "gone"), [
    ("portable", False, {"C12", "C13", "C28", "C22"}), ("portable", True, {"C11", "C12", "C13", "C28", "C22"}), ("specialised", True, {"C11", "C22"}),
    ("residues", True, set()), ("residues_portable", True, {"C12", "C28"}), ("thin", False, {"C22", "C57"}),
])
def test_what_only_steers_a_choice_refuses_no_spec(name, spills, gone):
    """Sums of residues that do not fit the register file are refused with spills or without: those kernels were never seen to work so."""
    design = design_called(name)
    assert {one.number for one in design.constraints} - {one.number for one in design.certain(spills)} == gone


def test_features_on_tiles_come_first_and_bring_their_equations():
    side = Equation("G98", "side", "BM / WM", "", "a side")
    early, late = Constraint("C98", "early", "side > 0", ""), Constraint("C99", "late", "stages > 0", "")
    both = Equation("G99", "both", "side + stages", "", "")
    feature = Feature("made up", (SUMS,), tile_equations=(side,), equations=(both,), of_tiles=(early,), constraints=(late,))

    class Composed(type(design_called("straight"))):
        features = (*design_called("straight").features, feature)

    composed, straight = Composed(), design_called("straight")
    tiles = sum(len(one.of_tiles) for one in straight.features)
    assert [one.number for one in composed.constraints] == [*(one.number for one in straight.constraints[:tiles]), "C98",
                                                            *(one.number for one in straight.constraints[tiles:]), "C99"]
    assert composed.own == (SUMS,) and composed.symbols.count("compensated") == 1 and feature.absent == {"compensated": 0}
    assert composed.equations.tiles[-1] is side and composed.equations.pipeline[-1].symbol == "both" and composed.equations.of("side") is side
    assert [title for title, _ in composed.equations.groups] == [title for title, _ in straight.equations.groups]
    assert dict(composed.equations.groups)["Resources"][-2:] == (side, composed.equations.pipeline[-1])
    assert "side" not in straight.equations.all and Equations().extended(()) == Equations()


@pytest.mark.parametrize(("table", "group"), [
    (all_designs, "designs"), (kinds.all_kinds, "kinds"), (epilogue.all_steps, "epilogues"), (output.all_outputs, "outputs"),
], ids=["designs", "kinds", "epilogues", "outputs"])
def test_two_things_of_one_name_are_refused(monkeypatch, table, group):
    """The second would never be found."""
    found = [*table()] if group == "designs" else [*table().values()]
    asked = []
    monkeypatch.setattr(brought, "entry_points", lambda group: asked.append(group) or [SimpleNamespace(name="one", load=lambda: found[-1])])
    with pytest.raises(GemmgenError, match="two have one name") as error:
        table.__wrapped__()
    assert error.value.got == found[-1].name and asked == [f"gemmgen.{group}"]


def test_two_decisions_of_one_name_are_refused(monkeypatch):
    """A spec's word would mean the first one's."""
    straight = design_called("straight")

    class Brought(type(straight)):
        own = (SUMS, replace(SUMS, meaning="another"))

    monkeypatch.setattr(designs, "all_designs", lambda: (straight, Brought()))
    with pytest.raises(GemmgenError, match="two declare decisions of one name") as error:
        all_decisions.__wrapped__()
    assert error.value.got == SUMS.name
    Brought.own = (SUMS, SUMS)  # designs may share one
    assert [one.name for one in all_decisions.__wrapped__()].count(SUMS.name) == 1


def test_a_feature_says_what_its_symbols_are_without_it():
    assert CLUSTERS.absent == {"cluster": 1} and TURNS.absent == {"pingpong": 0} and PADDED_ROWS.absent == {"padded": 0} and PERSISTENT.absent == {}


def test_what_is_sent_to_another_process_is_the_same_there():
    """Designs by name; schemes and plans by value, after they were asked for what they keep."""
    assert all(pickle.loads(pickle.dumps(design)) is design for design in all_designs())
    plan = solve(loads({"problem": {"m": 64, "n": 64, "k": 64}, "split": {"scheme": "ootomo"}, "target": {"gpu": "a100"}}))
    sent = pickle.loads(pickle.dumps(plan))
    assert sent == plan and sent.hash == plan.hash and sent.design is plan.design and sent.scheme is not plan.scheme
    for scheme in SCHEMES.rows():
        there = pickle.loads(pickle.dumps(scheme))
        assert (there.family.exact, there.precision.chain) == (scheme.family.exact, scheme.precision.chain) and there == scheme
