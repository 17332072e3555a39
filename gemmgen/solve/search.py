"""The space of plans: every candidate enumerated, pruned by the constraints and ranked.

Candidates are rows of columns of numbers, so that one evaluation of an equation
serves all of them. The axes join in four steps (tiles; ways to shared memory and slices
of k; promotion, fragment buffers and stages; groups), and each constraint prunes as soon as its symbols
are there. What it rejects is counted with all that could still have joined. Stages join only as far as shared memory
has room for them: how many those are is computed before they are enumerated, of designs whose shared memory is linear in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.registers import Registers
from gemmgen.designs import Choices, Design, common
from gemmgen.model.equation import Constraint, Equation, Numbers, solved
from gemmgen.model.expressions import Objective
from gemmgen.model.notation import checked, degree

TIE = 0.02
"""Predicted times this close count as equal: the model cannot tell them apart."""


@dataclass(frozen=True)
class Space:
    """What became of all candidates.

    Attributes:
        candidates: how many there were.
        rejected: how many each constraint rejected, by its label; each candidate
            counts at the first that it breaks.
        columns: the symbols of those that remain.
        nearest: decisions of a rejected candidate that came furthest, where none remains.
        broken: the constraint that it breaks, with all others of those.
    """

    candidates: int
    rejected: dict[str, int]
    columns: Mapping[str, Any]
    nearest: dict[str, int] | None = None
    broken: Constraint | None = None

    @property
    def feasible(self) -> int:
        return len(self.columns["BM"]) if self.columns else 0


def enumerate_space(
    design: Design, choices: Choices, fixed: Numbers, fragment: Fragment, table: Registers, constraints: Sequence[Constraint] | None = None,
) -> Space:
    """All candidates that `choices` leaves, pruned.

    Args:
        fixed: the constants of every candidate.
        table: the register model's.
        constraints: those that count; None is all of the design. What C10 leaves of the stages counts as C10's before all others that ask for
            them. What rests on predictions, as a user's own may, prunes last.
    """
    found = _enumerated(design, choices, fixed, fragment, table, design.constraints if constraints is None else constraints, bounded=True)
    # Who is refused is told the first inequality that nothing satisfies, with all candidates at hand.
    return found if found.feasible else _enumerated(
        design, choices, fixed, fragment, table, design.constraints if constraints is None else constraints, bounded=False,
    )


def _enumerated(
    design: Design, choices: Choices, fixed: Numbers, fragment: Fragment, table: Registers, constraints: Sequence[Constraint], bounded: bool,
) -> Space:
    tiles, ways, pipelines, groups = design.axes(choices, fragment)
    steps = (
        (tiles, design.equations.tiles, None), (ways, (), None), (pipelines, design.equations.pipeline, table), (groups, (), None),
    )
    widths = [len(next(iter(axes.values()))) for axes, _, _ in steps]
    candidates = int(np.prod(widths))
    rejected: dict[str, int] = {}
    columns: dict[str, Any] = {}
    waiting = list(constraints)
    for number, (axes, equations, arch) in enumerate(steps):
        most = _most_stages(design, {**fixed, **columns}, axes) if bounded and common.SHARED_MEMORY in waiting and "stages" in axes else None
        rows = len(next(iter(columns.values()))) if columns else 1
        columns = crossed(columns, axes) if most is None else _within(columns, axes, "stages", most)
        if beyond := rows * widths[number] - len(columns["BM"]):
            rejected[common.SHARED_MEMORY.label] = beyond * int(np.prod(widths[number + 1 :]))
        if not len(columns["BM"]):
            return Space(candidates, rejected, {}, broken=common.SHARED_MEMORY)
        known = solved(equations, {**fixed, **columns})
        if arch is not None:
            known = design.registers(known, arch)
        columns |= {name: np.broadcast_to(value, columns["BM"].shape) for name, value in known.items() if name not in fixed}
        ready = [one for one in waiting if all(name in known for name in one.variables)]
        waiting = [one for one in waiting if one not in ready]
        known, alive = {**fixed, **columns}, np.full(columns["BM"].shape, True)
        for constraint in ready:
            holds = alive & constraint.holds(known)
            broken = int(alive.sum() - holds.sum()) * int(np.prod(widths[number + 1 :]))
            if broken:
                rejected[constraint.label] = broken
            if not holds.any():
                left = {name: value[alive] for name, value in columns.items()}
                return Space(candidates, rejected, {}, _nearest(left, design.symbols), constraint)
            alive = holds
        columns = columns if alive.all() else {name: value[alive] for name, value in columns.items()}
    known = design.predicted({**fixed, **columns}) if waiting else {}
    for constraint in waiting:
        holds = np.broadcast_to(constraint.holds({name: known[name] for name in constraint.variables}), columns["BM"].shape)
        if broken := int((~holds).sum()):
            rejected[constraint.label] = broken
        if not holds.any():
            return Space(candidates, rejected, {}, _nearest(columns, design.symbols), constraint)
        columns = {name: value[holds] for name, value in columns.items()}
        known = {name: value[holds] if np.ndim(value) else value for name, value in known.items()}
    return Space(candidates, rejected, columns)


def crossed(columns: Mapping[str, Any], axes: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Every row of `columns` with every row of `axes`."""
    width = len(next(iter(axes.values())))
    if not columns:
        return dict(axes)
    length = len(next(iter(columns.values())))
    return {name: np.repeat(value, width) for name, value in columns.items()} | {
        name: np.tile(value, length) for name, value in axes.items()
    }


def _most_stages(design: Design, known: Numbers, axes: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """How many stages C10 leaves each row; None where shared memory is not linear in them, or rests on what is still to join."""
    equations = _of_shared_memory(design.equations.pipeline)
    known = {**{name: values[0] for name, values in axes.items() if (values == values[0]).all()}, **known}
    given = {name for one in equations for name in one.variables} - {one.symbol for one in equations} - {"stages"}
    if not equations or not given <= known.keys():
        return None
    none, one = (solved(equations, {**known, "stages": stages})["shared_bytes"] for stages in (0, 1))
    return np.broadcast_to(np.floor((known["shared_bytes_per_block"] - none) / (one - none)), len(known["BM"]))


@cache
def _of_shared_memory(equations: tuple[Equation, ...]) -> tuple[Equation, ...]:
    """Those that a stage's shared memory rests on, in their order; none where it is not linear in the stages."""
    degrees: dict[str, float] = {"stages": 1}
    for one in equations:
        degrees[one.symbol] = degree(checked(one.form), degrees)
    asked, found = {"shared_bytes"}, []
    for one in reversed(equations if degrees.get("shared_bytes") == 1 else ()):
        if one.symbol in asked:
            asked.update(one.variables)
            found.append(one)
    return tuple(reversed(found))


def _within(columns: Mapping[str, Any], axes: Mapping[str, np.ndarray], name: str, most: np.ndarray) -> dict[str, Any]:
    """Every row of `columns` with those rows of `axes` whose `name` is no more than the row's `most`; in the order of `crossed`."""
    rows, places = np.nonzero(axes[name] <= most[:, None])
    return {name: value[rows] for name, value in columns.items()} | {name: value[places] for name, value in axes.items()}


USUAL = {"BM": 128, "BN": 128, "BK": 32, "WM": 64, "WN": 32, "stages": 3, "fragment_buffers": 1, "promote": 128}


def _nearest(columns: Mapping[str, Any], symbols: Sequence[str]) -> dict[str, int]:
    """The candidate whose refusal a user would understand best: the one closest to a usual shape."""
    distance = sum(abs(np.log2(np.maximum(columns[name], 1) / usual)) for name, usual in USUAL.items() if name in columns)
    row = int(np.argmin(distance))
    return {name: int(columns[name][row]) for name in symbols if name in columns}


# ---- ranking


def ranked(design: Design, space: Space, fixed: Numbers, objective: Objective | None = None) -> tuple[dict[str, Any], np.ndarray]:
    """The feasible candidates' predictions, and their order, best first.

    Times within TIE of the best count as equal to it, and the design's preference orders those. The rest follow by time. An objective of
    the spec's own comes before time, which then decides among equals.
    """
    known = design.predicted({**fixed, **space.columns})
    length = len(space.columns["BM"])
    # Of the largest products bytes are integers beyond 64 bits, which arrays hold as FP64, as they hold sizes.
    known = {
        name: np.broadcast_to(float(value) if isinstance(value, int) and value >= 2**63 else value, length)
        for name, value in known.items() if np.ndim(value) <= 1
    }
    seconds = known["seconds"]
    first, *others = design.preference(known)
    if objective:
        return known, np.lexsort((*reversed(others), first, seconds, np.broadcast_to(objective.cost(known), length)))
    tied = seconds <= seconds.min() * (1 + TIE)
    order = np.lexsort((*reversed(others), np.where(tied, first, 0), np.where(tied, 0, seconds)))
    return known, order


def pareto_front(known: Mapping[str, Any]) -> np.ndarray:
    """Rows no other beats in both intensity (T3) and threads (P1): one for each pair of values, the fastest."""
    order = np.lexsort((known["seconds"], -known["tlp"], -known["intensity"]))
    front, most = [], -1.0
    for row in order:
        if known["tlp"][row] > most:
            front.append(row)
            most = known["tlp"][row]
    return np.array(front)
