"""What the inequalities leave of each decision that a spec leaves open, the others as the plan has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmgen.decisions import Decision
from gemmgen.model import bounds, error
from gemmgen.model.bounds import AXES, TIED, Bound, Unsolved
from gemmgen.model.equation import Constraint, solved
from gemmgen.plan import Plan
from gemmgen.solve.request import Request

ERROR = Constraint("E4", "error of promotion", f"error <= {error.TARGET} * fp32_error", "promotion follows the error, not the speed")


@dataclass(frozen=True)
class Limits:
    """Bounds of a plan's open decisions.

    Attributes:
        decisions: each with its bounds, by symbol for a tile's three.
        steps: (registers, blocks): up to so many registers a thread, so many blocks share an SM, by R7 and R8.
    """

    decisions: tuple[tuple[Decision, tuple[Bound, ...]], ...]
    steps: tuple[tuple[int, int], ...]


def limits(request: Request, plan: Plan) -> Limits:
    """Every bound in closed form, from the model's constraints, the error that decides promotion, and the spec's own inequalities."""
    if request.batch and request.batch.tiles:
        return Limits((), ())  # tiles are given, not searched for
    known, constraints = plan.model, (*plan.design.constraints, *request.required)
    found = []
    for decision in request.opened:
        told = [one for symbol in decision.symbols if symbol in AXES for one in _bounds(plan, known, constraints, symbol)]
        if told:
            found.append((decision, tuple(told)))
    try:
        steps = tuple(bounds.occupancy_steps(known))
    except Unsolved:
        steps = ()
    return Limits(tuple(found), steps)


def _bounds(plan: Plan, known: Mapping[str, Any], constraints: Sequence[Constraint], symbol: str) -> list[Bound]:
    design, table, seen = plan.design, plan.gpu.registers, {}
    fixed = plan.design.constants_of(plan) | plan.design.encoded(plan)
    budgeted = set(design.budgets(fixed, table))

    def holds(constraint: Constraint, value: int) -> bool:
        predicted = not budgeted.issuperset(constraint.variables)
        if (value, predicted) not in seen:
            numbers = design.budgets({**fixed, **dict.fromkeys((symbol, *TIED.get(symbol, ())), value)}, table)
            with np.errstate(divide="ignore", invalid="ignore"):  # one stage has no time for a copy to arrive
                seen[value, predicted] = design.predicted(numbers) if predicted else numbers
        return bool(constraint.holds(seen[value, predicted]))

    equations = [equation for _, group in design.equations.groups for equation in group]
    found = bounds.bounds(equations, constraints, known, symbol, holds, lambda name, value: design.looked_up(name, value, table))
    return found + (_of_error(plan) if symbol == "promote" and plan.promote else [])


def _of_error(plan: Plan) -> list[Bound]:
    """What the error leaves of promotion, at the sums that the choice serves at least."""
    numbers = error.error_numbers(plan.scheme, plan.unit, plan.promote, max(plan.hints.k, error.LEAST_K))
    numbers = solved(error.EQUATIONS, numbers) | {"FK": plan.fragment.shape[2]}

    def holds(constraint: Constraint, value: int) -> bool:
        return bool(constraint.holds(solved(error.EQUATIONS, {**numbers, "promote": value})))

    return bounds.bounds(error.EQUATIONS, [ERROR], numbers, "promote", holds)
