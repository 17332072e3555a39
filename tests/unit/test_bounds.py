"""Bounds in closed form: each against all values of its decision, in the model's own numbers, on random plans of every design."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction

import pytest
import sympy

from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.designs import portable, specialised, tensor_memory
from gemmgen.model import bounds, error, resources
from gemmgen.model.bounds import AXES, Bound, Unsolved
from gemmgen.model.equation import Constraint, solved
from gemmgen.solve import solve
from gemmgen.solve.limits import _bounds, _of_error
from gemmgen.spec import loads
from random_specs import bulk_specs, random_plans, specs, tensor_memory_specs

DESIGNS = {
    "portable": (portable.DESIGN, specs(gpus=GPUS.names()), 12), "specialised": (specialised.DESIGN, bulk_specs(), 12),
    "tensor memory": (tensor_memory.DESIGN, tensor_memory_specs(), 40),
}


def values_of(known, decision: str) -> list[int]:
    unit, most = AXES[decision]
    step = int(known[unit]) * (int(known.get("fetched_together", 1)) if unit == "FN" else 1) if unit else 1
    return list(range(step, most + 1, step))


def model_holds(plan, known, decision):
    """What the model itself computes of a constraint with another value of the decision."""
    seen = {}

    def holds(constraint: Constraint, value: int) -> bool:
        if value not in seen:
            seen[value] = plan.design.budgets(known | {decision: value} | ({"WK": value} if decision == "BK" else {}), plan.gpu.registers)
        return bool(constraint.holds(seen[value]))
    return holds


def tables(plan):
    """What the plan's design looks up in tables."""
    return lambda name, value: plan.design.looked_up(name, value, plan.gpu.registers)


def told(bound: Bound | None, values: list[int]) -> list[int]:
    """The values that a bound leaves."""
    if bound is None:
        return values
    if bound.values:
        return list(bound.values)
    return [value for value in values if (bound.least is None or bound.least <= value) and (bound.most is None or value <= bound.most)]


@pytest.mark.parametrize("name", DESIGNS)
def test_every_bound_is_what_all_values_give(name):
    design, strategy, count = DESIGNS[name]
    plans = [plan for plan in random_plans(strategy, 6 * count) if plan.design is design][:count // 2]
    assert len(plans) >= 4
    equations = [equation for _, group in design.equations.groups for equation in group]
    given, withheld = 0, set()
    for plan in plans:
        known = plan.model
        for decision in [name for name in AXES if name in known]:
            holds, values = model_holds(plan, known, decision), values_of(known, decision)
            found = {one.constraint: one for one in bounds.bounds(equations, design.constraints, known, decision, holds, tables(plan))}
            for constraint in design.constraints:
                bound = found.get(constraint)
                if bound and bound.reason:
                    withheld.add((constraint.number, decision, bound.reason))
                    continue
                given += bool(bound)
                brute = [value for value in values if holds(constraint, value)]
                if bound is None and not brute:
                    assert not constraint.holds(known), constraint  # and no value of this decision changes it
                    continue
                assert told(bound, values) == brute, (str(bound), plan.as_dict())
                assert not (bound and bound.form) or close(bound), str(bound)
    assert given > 8 * len(plans)
    few = {("C9", "promote"), ("C13", "promote"), *((number, decision) for number in ("C11", "C12", "C28") for decision in ("BM", "BN", "BK", "WM", "WN", "promote"))}
    assert {(number, decision) for number, decision, reason in withheld if "no value" not in reason and "rounded" not in reason} <= few, withheld


def close(bound: Bound) -> bool:
    """Whether the form comes to the bound that it is printed with."""
    form, *_ = bound.form.partition(", where")
    form += ")" * (form.count("(") - form.count(")"))
    return eval(form, {"floor": math.floor, "ceil": math.ceil}) == (bound.most if bound.least is None else bound.least)


def test_bounds_of_a_plan_by_hand():
    """128x128x64 of two FP16 words is 65,536 B a stage and two barriers; an H100 has 232,448 B a block."""
    plan = solve(loads({
        "split": {"scheme": "ootomo", "promote": 64}, "target": {"gpu": "h100"}, "fragment": {"policy": "wgmma"},
        "tile": {"block": [128, 128, 64], "warp": [64, 128, 64], "group": 8, "split_k": 1, "cluster": 1},
        "pipeline": {"stages": 2, "consumers": "cooperative"},
    }))
    known, design = plan.model, specialised.DESIGN
    equations = [equation for _, group in design.equations.groups for equation in group]
    found = bounds.bounds(equations, design.constraints, known, "stages", model_holds(plan, known, "stages"))
    assert [str(one) for one in found] == ["stages >= 2   (C61: stages > 1)", "stages <= floor(232448 / 65552) = 3   (C10: shared_bytes <= shared_bytes_per_block)"]


def test_the_error_bounds_promotion():
    """At the bound the expected error is within the target, beyond it not: the largest interval of `promote_for` is within it."""
    limit = Constraint("E4", "error", f"error <= {error.TARGET} * fp32_error", "")
    for gpu, scheme in (("a100", "ootomo"), ("h100", "scaled"), ("mi300x", "scaled"), ("rx7900xtx", "ootomo")):
        unit, row = GPUS.get(gpu).unit, SCHEMES.get(scheme)
        numbers = solved(error.EQUATIONS, error.error_numbers(row, unit, 64, 4096)) | {"FK": 16}

        def holds(constraint, value):
            return constraint.holds(solved(error.EQUATIONS, numbers | {"promote": value}))

        found = bounds.bounds(error.EQUATIONS, [limit], numbers, "promote", holds)
        values = values_of(numbers, "promote")
        assert told(found[0] if found else None, values) == [value for value in values if holds(limit, value)]
        assert error.promote_for(row, unit, 16, 4096) in told(found[0] if found else None, values)
        assert not found or "x**" in found[0].form


@pytest.mark.parametrize("gpu", ["t4", "a100", "h100", "mi300x", "rx7900xtx"])
def test_occupancy_steps_are_those_of_all_registers(gpu):
    for warps in (1, 3, 4, 8, 12):
        known = resources.limit_numbers(GPUS.get(gpu).limits) | {"warps": warps}
        blocks = {
            registers: solved((resources.REGISTERS_PER_WARP, resources.BLOCKS_BY_REGISTERS), known | {"registers": registers})["blocks_by_registers"]
            for registers in range(1, known["registers_per_thread"] + 1)
        }
        brute = {count: max(registers for registers, held in blocks.items() if held == count) for count in set(blocks.values()) if count}
        assert bounds.occupancy_steps(known) == sorted(((registers, count) for count, registers in brute.items()), reverse=True)


def test_signs_and_steps_of_quotients_are_exact():
    draw = random.Random(3)
    for _ in range(300):
        over = tuple(Fraction(draw.randint(-9, 9), draw.randint(1, 4)) for _ in range(draw.randint(1, 5)))
        under = tuple(Fraction(draw.randint(-9, 9)) for _ in range(draw.randint(1, 3)))
        quotient, least = bounds._Quotient(over, under), draw.randint(-20, 5)
        values = range(least, least + draw.randint(1, 40))
        try:
            exact = [quotient.at(value) for value in values]
        except Unsolved:
            with pytest.raises(Unsolved):
                list(quotient.signs(values[0], values[-1]))
            continue
        signs = [sign for a, b, sign in quotient.signs(values[0], values[-1]) for _ in range(a, b + 1)]
        assert signs == [(one > 0) - (one < 0) for one in exact]
        for whole in (math.floor, math.ceil):
            assert [value for a, b, value in quotient.steps(values[0], values[-1], whole) for _ in range(a, b + 1)] == list(map(whole, exact))


def test_runs_that_touch_are_joined():
    assert bounds._joined([(5, 6), (1, 2), (3, 4), (9, 9)]) == [(1, 6), (9, 9)]


def test_what_cannot_be_solved_is_told():
    x = sympy.Symbol("a", real=True)
    reach = bounds.Reach((), {"b": 7}, "a", 1, 10)
    with pytest.raises(Unsolved, match="quotient of polynomials"):
        reach.holding(sympy.Le(sympy.sin(x), 0), 1, 10)
    with pytest.raises(Unsolved, match="divides by 0"):
        reach.holding(sympy.Le(1 / (x - 3), 0), 1, 10)
    here_and_there = bounds.bound(bounds.Reach((), {"b": 7}, "a", 1, 100), Constraint("X", "", "a % 2 == 0", ""), lambda value: value % 2 == 0)
    assert "here and there" in str(here_and_there) and here_and_there.most is None
    rounded = bounds.bound(reach, Constraint("X", "", "a <= b", ""), lambda value: value <= 6)
    assert "rounded otherwise at 7" in rounded.reason


PINNED = {
    "split": {"scheme": "ootomo", "where": "prepass"}, "fragment": {"policy": "mma"}, "tile": {"block": [128, 128, 32], "warp": [64, 32, 32]},
    "target": {"gpu": "h100"},
}


def test_the_error_that_decides_promotion_is_that_of_sums_of_1024_at_least():
    plan = solve(loads(PINNED))
    at = {k: [str(one) for one in _of_error(replace(plan, hints=replace(plan.hints, k=k)))] for k in (64, 1024, 65536)}
    assert plan.promote and at[64] == at[1024] != at[65536]


def test_a_warp_works_through_the_whole_stage_whatever_its_k():
    """Bounds of block k move warp k with it, so that the model agrees with what is solved for."""
    plan = solve(loads(PINNED))
    told = {bound.constraint.number: bound for bound in _bounds(plan, plan.model, plan.design.constraints, "BK")}
    assert told["C10"].most and not told["C10"].reason and "C62" not in told
