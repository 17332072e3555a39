"""What `make test` leaves to `make test-all` is more of the same: every kind of kernel, question and fault is in it once at least."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from gemmgen.catalog.fragment import FRAGMENTS
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.vendor import VENDORS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.paths import TEMPLATES
from conftest import COLLECTED
from thinned import KEPT
from verifying import QUESTIONS
from ways import AMD_WAYS, WAYS, covering, in_turn, plan_of, sampled, shipped, solved, tailed

SHIPPED = shipped()
EMULATE = Path(__file__).parents[1] / "emulate"


def test_what_is_thinned_is_there(in_make_test, request):
    """A name in the table that no test has would leave nothing out, or a renamed test in."""
    there = {f"{item.path.name}::{item.originalname}" for item in request.config.stash[COLLECTED]}
    assert set(KEPT) <= there


def of(items: list[pytest.Item], file: str, function: str) -> list[dict]:
    """The parameters with which a test of the emulate layer runs."""
    found = [item.callspec.params for item in items if item.path == EMULATE / file and item.originalname == function]
    assert found, f"no {function} in {file}"
    return found


@pytest.fixture
def in_short(in_make_test) -> list[tuple]:
    """Each plan that is verified in short, with the question that is asked of it besides, if any."""
    ways = [
        (plan_of(**table[one["name"]]), one["question"]) for file, table in (("test_ways.py", WAYS), ("test_amd_ways.py", AMD_WAYS))
        for one in of(in_make_test, file, "test_each_way_is_right_in_short")
    ]
    specs = [(solved(SHIPPED[one["name"]]), None) for one in of(in_make_test, "test_specs.py", "test_a_shipped_spec_is_right_in_short")]
    return ways + specs


def parts(plan) -> set[tuple]:
    """What of a way another may go as well: its place of the split and loads, the layout of each operand beside that, its scheme, architecture, slices
    of k, buffers, clusters and turns, fragment, interval of promotion, stages, and how k, whole rows and what is left to another kernel are dealt with."""
    kind = (plan.gpu.vendor, plan.design.name, plan.fragment.policy)
    shape = 0 if plan.fragment.policy == "wgmma" else plan.fragment.shape  # those of warpgroups differ in columns alone
    interval = plan.promote and (plan.promote > plan.block[2]) - (plan.promote < plan.block[2])  # several stages, one, or less
    return {
        (kind, "way", plan.where, plan.loads), (kind, "A", plan.where, plan.layout[0]), (kind, "B", plan.where, plan.layout[1]), (kind, plan.layout),
        ("scheme", plan.scheme.name), (plan.gpu.arch, plan.fragment.policy), (kind, "slices", plan.split_k > 1, plan.scheme.normalize),
        (kind, "buffers", plan.fragment_buffers), (kind, "turns", plan.cluster, plan.consumers), (kind, "fragment", shape, plan.fragment.instructions),
        (kind, "promotion", interval), (kind, "stages", min(plan.stages, 5)), (kind, "shared k", plan.block[2] > plan.warp[2]),
        (kind, "rows", plan.rows), (kind, "cached", plan.fragment_caching), (kind, "one stage", plan.stages == 1),
        (kind, "whole rows", plan.launches.splits_whole), (kind, "fallback", bool(plan.fallback)),
    }


def test_every_part_of_every_way_is_gone(in_make_test):
    for file, table in (("test_ways.py", WAYS), ("test_amd_ways.py", AMD_WAYS)):
        left = {one["name"] for one in of(in_make_test, file, "test_each_way_is_right_in_short")}
        assert left <= table.keys()
        gone = set().union(*(parts(plan_of(**table[name])) for name in left))
        assert {name: missing for name, way in table.items() if (missing := parts(plan_of(**way)) - gone)} == {}


def test_every_kind_of_kernel_is_verified(in_short):
    plans = [plan for plan, _ in in_short]
    assert {plan.scheme.name for plan in plans} == set(SCHEMES.names())
    assert {plan.gpu.vendor for plan in plans} == {gpu.vendor for gpu in GPUS.rows()}
    assert {plan.gpu.arch for plan in plans} >= {gpu.arch for gpu in GPUS.rows() if gpu.vendor == "nvidia"} | set(VENDORS["amd"].checked.emulated)
    assert {plan.fragment.policy for plan in plans} == {row.policy for row in FRAGMENTS.rows() if (TEMPLATES / "atoms" / row.interface.atom).is_file()}
    for design in {plan.design.name for plan in plans}:
        mine = [plan for plan in plans if plan.design.name == design or (design == "cuda_cores" and plan.design.name == "portable")]  # whose kernel it has
        assert {plan.layout for plan in mine} == {"nn", "nt", "tn", "tt"}, design
        chained = mine[0].design.family == "residual chain"  # residues of slices are not added up, and all rows have factors
        assert {plan.split_k > 1 for plan in mine} == {False, chained}, design
        assert {plan.scheme.normalize == "row" for plan in mine} == {not chained, any("prepass" in {way.where for way in plan.design.all_ways} for plan in mine)}, design
        assert not mine[0].fragment.on_matrix_unit or not chained or len({plan.promote for plan in mine}) > 3, design
        assert len({plan.stages for plan in mine}) >= 3, design
    assert {plan.where for plan in plans} >= {"prepass", "shared", "register", "mixed"}
    assert {plan.loads for plan in plans} >= {"async", "spread", "grouped", "bulk"}
    assert {(plan.cluster, plan.consumers) for plan in plans if plan.design.stays} >= {(1, "cooperative"), (2, "cooperative"), (1, "pingpong"), (2, "pingpong")}


def test_every_question_is_asked_of_each_design_and_vendor(in_make_test, in_short):
    asked, whole = {}, set()
    for plan, question in in_short:
        asked.setdefault((plan.gpu.vendor, plan.design.stays), set()).add(question)
    assert len(asked) == 3
    for kind, questions in asked.items():
        assert questions >= QUESTIONS.keys(), kind
    for file, table in (("test_ways.py", WAYS), ("test_amd_ways.py", AMD_WAYS)):
        plans = [plan_of(**table[one["name"]]) for one in of(in_make_test, file, "test_each_way_verifies")]
        whole |= {(plan.gpu.vendor, plan.design.stays) for plan in plans}
    assert whole == asked.keys(), "a whole report of each"


WRONG_ON_PURPOSE = {
    "test_sabotage.py": "test_a_wrong_kernel_fails", "test_ways.py": "test_a_wrong_way_fails", "test_amd_ways.py": "test_a_wrong_kernel_fails",
    "test_warpgroups.py": "test_every_fault_is_noticed", "test_hopper.py": "test_a_fault_is_caught", "test_order.py": "test_what_may_come_late_is_missed",
}


def test_kernels_that_are_wrong_on_purpose_stay(in_make_test):
    """A quarter of each file's, and where a fault names the check that must find it, one for each check."""
    for file, function in WRONG_ON_PURPOSE.items():
        faults, left = sys.modules[Path(file).stem].FAULTS, {one["name"] for one in of(in_make_test, file, function)}
        assert 4 * len(left) >= len(faults), file
        checks = {name: fault[2] for name, fault in faults.items() if len(fault) == 3 and callable(fault[2])}  # None: any may
        assert {checks[name] for name in left if name in checks} == set(checks.values()), file


def test_every_fault_of_the_list_is_seen(in_make_test):
    """Of what `make mutants` tries, which names the tests that must see it."""
    known = importlib.util.spec_from_file_location("mutants_run", Path(__file__).parents[1] / "mutants" / "run.py")
    runner = sys.modules.setdefault(known.name, importlib.util.module_from_spec(known))
    known.loader.exec_module(runner)
    names = {f"tests/{item.path.relative_to(EMULATE.parent)}::{item.nodeid.partition('::')[2]}" for item in in_make_test}
    run = names | {name.partition("[")[0] for name in names} | {name.partition("::")[0] for name in names}
    assert {mutant.id: mutant.tests for mutant in runner.read() if not run & set(mutant.tests)} == {}


# ---- how a cover is chosen


def kept(values) -> list:
    return [one.values for one in values if not one.marks]


def test_a_cover_has_every_value_and_the_rest_is_long():
    chosen = covering((x, y, 7) for x in "abcd" for y in (1, 2, 3))
    assert len(chosen) == 12 and len(kept(chosen)) == 4
    assert [set(values) for values in zip(*kept(chosen))] == [set("abcd"), {1, 2, 3}, {7}]
    assert {mark.name for one in chosen for mark in one.marks} == {"long"}
    assert kept(covering([("a", 1), ("a", 2), ("b", 2)])) == [("a", 1), ("b", 2)]


def test_a_sample_is_spread():
    assert kept(sampled(range(9), 3)) == [(0,), (3,), (6,)] and len(sampled(range(9), 3)) == 9
    assert kept(sampled([(1, 2), (3, 4)], 1)) == [(1, 2)] and len(kept(sampled("ab", 5))) == 2
    assert kept(tailed("abc", {"b"})) == [("a",), ("c",)]
    assert in_turn("abc", "xy") == [("a", "x"), ("b", "y"), ("c", "x")]
    assert kept(one for one in in_turn("abc", "xy", {"a"}) if hasattr(one, "values")) == [] and in_turn("abc", "xy", {"a"})[:2] == [("b", "x"), ("c", "y")]
