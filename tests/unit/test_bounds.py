"""Bounds in closed form: each against all values of its decision, in the model's own numbers, on random plans of every design."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest
import sympy

from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.model import bounds, error, resources, space, specialised, tensor_memory
from gemmgen.model.bounds import AXES, Bound, Unsolved
from gemmgen.model.equation import Constraint, solved
from gemmgen.solve import solve
from gemmgen.spec import loads
from random_specs import bulk_specs, specs
from test_model import random_plans, tensor_memory_specs

DESIGNS = {
    "portable": (space.PORTABLE, specs(gpus=GPUS.names()), 12), "specialised": (specialised.SPECIALISED, bulk_specs(), 12),
    "tensor memory": (tensor_memory.TENSOR_MEMORY, tensor_memory_specs(), 40),
}


def values_of(known, decision: str) -> list[int]:
    unit, most = AXES[decision]
    step = int(known[unit]) * (int(known["fetched_together"]) if unit == "FN" else 1) if unit else 1
    return list(range(step, most + 1, step))


def model_holds(plan, known, decision):
    """What the model itself computes of a constraint with another value of the decision."""
    design = specialised.skeleton_of(plan.fragment)
    seen = {}

    def holds(constraint: Constraint, value: int) -> bool:
        if value not in seen:
            seen[value] = space.budgets(known | {decision: value} | ({"WK": value} if decision == "BK" else {}), plan.gpu.arch_number, design)
        return bool(constraint.holds(seen[value]))
    return holds


def told(bound: Bound | None, values: list[int]) -> list[int]:
    """The values that a bound leaves."""
    if bound is None:
        return values
    if bound.values:
        return list(bound.values)
    return [value for value in values if (bound.least is None or bound.least <= value) and (bound.most is None or value <= bound.most)]


@pytest.mark.parametrize("design", DESIGNS)
def test_every_bound_is_what_all_values_give(design):
    skeleton, strategy, count = DESIGNS[design]
    plans = [plan for plan in random_plans(strategy, 4 * count) if specialised.skeleton_of(plan.fragment) is skeleton][:count // 2]
    assert len(plans) >= 4
    equations = [equation for _, group in skeleton.equations for equation in group]
    given, withheld = 0, set()
    for plan in plans:
        known = specialised.model(plan)
        for decision in [name for name in AXES if name in known]:
            holds, values = model_holds(plan, known, decision), values_of(known, decision)
            found = {one.constraint: one for one in bounds.bounds(equations, skeleton.constraints, known, decision, plan.gpu.arch_number, holds)}
            for constraint in skeleton.constraints:
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
    few = {("C9", "promote"), ("C12", "WM"), ("C12", "WN"), ("C12", "promote"), ("C11", "WM"), ("C11", "WN"), ("C28", "promote"), ("C13", "promote")}
    assert {(number, decision) for number, decision, reason in withheld if "no value" not in reason and "rounded" not in reason} <= few, withheld


def close(bound: Bound) -> bool:
    """Whether the form comes to the bound that it is printed with."""
    form, *_ = bound.form.partition(", where")
    form += ")" * (form.count("(") - form.count(")"))
    return eval(form, {"floor": math.floor, "ceil": math.ceil}) == (bound.most if bound.least is None else bound.least)
