"""The register model's constants, fitted to what the compiler gave kernels. No GPU is needed.

Offsets and slopes belong to a kind of loop of a design, a group. Each group is fitted by itself, from where the rows have its constants now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmgen.build import build
from gemmgen.catalog.registers import LOOPS, Registers
from gemmgen.designs import design_called
from gemmgen.errors import GemmgenError
from gemmgen.model.equation import solved
from gemmgen.plan import Plan
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.workshop.fit.least import Unknown, changed, least, value

FOLDS = 4
NOTICED = 0.05
"""A relative error beyond which more of it counts less: a few kernels differ in kind."""
FREE = 3
"""Registers below its budget, from which on a kernel took what it wanted."""
HELPS = 0.8
"""What is left of the prior's cost on held-out kernels of a group, above which the group keeps the prior: some ten kernels tell no smaller gain."""
SHIFT, SCALE = 8.0, 0.1
"""Standard deviations of how far an offset, in registers, and a slope, relative, may lie from the prior."""
_SLOPES = ("per_sum", "per_narrow", "per_wide", "per_staged")
_MOVED: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "": (("offset",), _SLOPES), "plain": (("offset", "ahead"), _SLOPES), "straight": (("offset",), ("per_sum", "per_raw")),
    "thin": (("offset", "offset_strided"), ("per_sum", "per_raw")),
}
"""Of a section: what is shifted, what is scaled, where few kernels tell many constants."""


@dataclass(frozen=True)
class Compiled:
    """A kernel as the compiler made it.

    Attributes:
        spec: its settled spec.
        design: its name; section: of a row's [registers], whose constants predict its registers (`Design.register_section`).
        numbers: what the register model asks.
        registers: a thread, as used; spills: bytes.
        target: whose row of constants holds; empty where all kernels have one.
    """

    spec: Mapping[str, Any]
    design: str
    section: str
    numbers: Mapping[str, float]
    registers: int
    spills: int
    target: str = ""

    @property
    def loop(self) -> int | None:
        """Its kind of loop; None where the section's constants have none."""
        return int(self.numbers["loop"]) if "loop" in self.numbers else None


def compiled(spec: Mapping[str, Any]) -> tuple[Compiled, str]:
    """One kernel, and the compiler's name.

    Raises:
        GemmgenError: the compiler is absent, or refuses it.
    """
    plan = solve(loads({**spec, "build": {"allow_spills": True}}))
    source = render(plan)
    binary = build(source)
    used = binary.kernels[source.name]
    return Compiled(spec, plan.design.name, plan.design.register_section, asked(plan), used.registers, used.spill_bytes), binary.compiler


def asked(plan: Plan) -> dict[str, float]:
    """What the register model asks of a plan."""
    design = plan.design
    known = solved((*design.equations.tiles, *design.equations.pipeline), design.constants_of(plan) | design.encoded(plan))
    told = design.registers(known, plan.gpu.registers)
    return {name: float(number) for name, number in {**known, **({"loop": told["loop"]} if "loop" in told else {})}.items()}


# ---- predictions


def model_of(rows: Sequence[Compiled], *symbols: str) -> Callable[[Registers], dict[str, np.ndarray]]:
    """[rows] of these symbols of the register model, or of all, of rows of one design, with any constants."""
    numbers = {name: np.array([row.numbers[name] for row in rows]) for name in rows[0].numbers if name != "loop"}
    design = design_called(rows[0].design)

    def model(table: Registers) -> dict[str, np.ndarray]:
        found = design.registers(numbers, table)
        return {name: np.broadcast_to(found[name], len(rows)).astype(float) for name in symbols or found}

    return model


def predicting(rows: Sequence[Compiled]) -> Callable[[Registers], np.ndarray]:
    """[rows] registers by the model, likewise."""
    model = model_of(rows, "registers")
    return lambda table: model(table)["registers"]


def groups(rows: Sequence[Compiled]) -> dict[tuple[str, int | None], list[Compiled]]:
    """Rows that share constants: of one design and kind of loop."""
    found: dict[tuple[str, int | None], list[Compiled]] = {}
    for row in rows:
        found.setdefault((row.design, row.loop), []).append(row)
    return found


def _cost(rows: Sequence[Compiled]) -> Callable[[Registers], float]:
    real, predicted = np.array([row.registers for row in rows], float), predicting(rows)

    def cost(table: Registers) -> float:
        error = (predicted(table) - real) / real / NOTICED
        return float((np.sqrt(1 + error**2) - 1).sum())

    return cost


# ---- the fit


def moved(rows: Sequence[Compiled], tables: Mapping[str, Registers], unknowns: Sequence[Unknown], stepped: bool = False) -> dict[str, Registers]:
    """The tables with the unknowns that predict rows of one design best.

    Args:
        tables: by `Compiled.target`.
        stepped: as of `least`.
    """
    real = np.array([row.registers for row in rows], float)
    places = {target: np.flatnonzero([row.target == target for row in rows]) for target in tables}
    models = {target: model_of([rows[at] for at in where], "registers", "demand", "register_budget") for target, where in places.items() if len(where)}

    def at(by: np.ndarray) -> dict[str, Registers]:
        found = dict(tables)
        for one, deviations in zip(unknowns, by):
            for target in one.rows or tables:
                for path in one.paths:
                    found[target] = changed(found[target], path, one.at(float(deviations)))
        return found

    def errors(by: np.ndarray) -> np.ndarray:
        found, predicted = at(by), np.empty(len(rows))
        for target, model in models.items():
            known = model(found[target])
            steps = np.ceil(known["demand"]) - known["demand"]  # whole registers are steps, which no derivative shows
            predicted[places[target]] = known["registers"] - np.where(known["registers"] < known["register_budget"], steps, 0.0)
        return (predicted / real - 1) / NOTICED

    return at(least(unknowns, errors, stepped).moved)


def fitted(rows: Sequence[Compiled], table: Registers) -> Registers:
    """The constants with those that predict these rows best. A group keeps the prior's where a fit to some of its rows predicts the others no better: the
    blocks that an SM is meant to hold are a step in what ptxas takes, over which a fit may lead."""
    for (_, loop), mine in groups(rows).items():
        unknowns = _unknowns(mine[0].section, loop, table)

        def told_by(some: Sequence[Compiled]) -> Registers:
            return rounded(moved(some, {"": table}, unknowns, stepped=True)[""], unknowns)

        parts = [mine[first::FOLDS] for first in range(min(FOLDS, len(mine)))]
        others = [[row for row in mine if row not in part] for part in parts]
        held = [(_cost(part)(table), _cost(part)(told_by(rest))) for part, rest in zip(parts, others) if rest]
        if not held or sum(after for _, after in held) < HELPS * sum(before for before, _ in held):
            table = told_by(mine)
    return table


def _unknowns(section: str, loop: int | None, table: Registers) -> list[Unknown]:
    """The constants of a group that move, each about its value in the table."""
    shifted, scaled = _MOVED[section]
    own = (section,) if section else ()
    at = () if loop is None else (loop,)
    slopes = ("slopes",) if loop is not None else ()
    found = [Unknown(((*own, name, *at),), value(table, (*own, name, *at)), SHIFT) for name in shifted]
    for path in ((*own, *slopes, name, *at) for name in scaled):
        if now := value(table, path):
            found.append(Unknown((path,), now, SCALE * abs(now)))
    return found


def rounded(table: Registers, unknowns: Sequence[Unknown]) -> Registers:
    """With unknowns of as many digits as rows have."""
    for path in (path for one in unknowns for path in one.paths):
        table = changed(table, path, round(value(table, path), 2))
    return table


# ---- how good it is


@dataclass(frozen=True)
class Held:
    """How well a fit predicts kernels that it had not seen.

    Attributes:
        table: the constants, fitted to all kernels that do not spill.
        kernels, spilled: how many were compiled, and how many of them spill.
        before, after: mean relative error of each kernel's registers with the prior, and with a fit that had not seen it; free: (kernels, before, after) of
            those that the launch bound does not limit.
        groups: the same by design and kind of loop: (kernels, before, after).
    """

    table: Registers
    kernels: int
    spilled: int
    before: float
    after: float
    free: tuple[int, float, float]
    groups: Mapping[str, tuple[int, float, float]]


def fit(rows: Sequence[Compiled], prior: Registers) -> Held:
    """The constants, and how well kernels are predicted that a fit had not seen.

    Raises:
        GemmgenError: fewer than 2 FOLDS kernels were compiled that do not spill.
    """
    known = [row for row in rows if not row.spills]
    if len(known) < 2 * FOLDS:
        raise GemmgenError("the register model", "has too few kernels to be fitted to", got=len(known), needs=f"{2 * FOLDS} that do not spill",
                           remedy="--kernels with a larger number")
    real = np.array([row.registers for row in known], float)
    before, after = np.empty(len(known)), np.empty(len(known))
    order = {id(row): at for at, row in enumerate(sorted(known, key=lambda row: (row.design, row.loop or 0)))}
    fold = np.array([order[id(row)] % FOLDS for row in known])  # every fourth of each kind
    for number in range(FOLDS):
        table = fitted([row for row, own in zip(known, fold) if own != number], prior)
        for at in np.flatnonzero(fold == number):
            told = predicting([known[at]])
            before[at], after[at] = told(prior)[0], told(table)[0]
    before, after = np.abs(before / real - 1), np.abs(after / real - 1)

    def means(which: np.ndarray) -> tuple[int, float, float]:
        return int(which.sum()), *(float(one[which].mean()) if which.any() else 0.0 for one in (before, after))

    by_group = {
        design + (f", {LOOPS[loop]}" if loop is not None else ""): means(np.array([(row.design, row.loop) == (design, loop) for row in known]))
        for design, loop in groups(known)
    }
    whole, free = np.full(len(known), True), np.array([row.registers < budget(row, prior) - FREE for row in known])
    return Held(fitted(known, prior), len(rows), len(rows) - len(known), *means(whole)[1:], means(free), by_group)


def budget(row: Compiled, table: Registers) -> float:
    """The registers that a kernel's launch bound leaves a thread."""
    return float(model_of([row])(table)["register_budget"][0])
