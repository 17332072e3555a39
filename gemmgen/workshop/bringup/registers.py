"""Kernels compiled for the target, and the constants of the register model fitted to what the compiler gave them. No GPU is needed.

Some 40 kernels do not tell 100 constants, so they move those that matter most, offsets and the slopes of what is held, from where the
nearest generation has them, each held there as by a measurement of its own. Every kernel is left out of one of four fits, and told by the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmgen.build import build
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.registers import LOOPS, Registers
from gemmgen.designs import design_called
from gemmgen.errors import GemmgenError
from gemmgen.model.equation import solved
from gemmgen.plan import Plan
from gemmgen.render import render
from gemmgen.solve import alternatives, solve
from gemmgen.spec import loads
from gemmgen.workshop.bringup import toml_values
from gemmgen.workshop.bringup.processes import Processes
from gemmgen.workshop.explore.candidates import settled_spec

FOLDS = 4
NOTICED = 0.05
"""A relative error beyond which more of it counts less: a few kernels differ in kind."""
FREE = 3
"""Registers below its budget, from which on a kernel took what it wanted."""
HELPS = 0.8
"""What is left of the prior's cost on held-out kernels of a group, above which the group keeps the prior: some ten kernels tell no smaller gain."""
SHIFT, SCALE = 8.0, 0.1
"""Standard deviations of how far an offset, in registers, and a slope, relative, may lie from the prior."""

CELLS: tuple[tuple[int, Mapping[str, Any]], ...] = (
    *((3, {"scheme": scheme, "where": "prepass", "layout": layout, "size": size}) for scheme, layout, size in (
        ("ootomo", "nn", 512), ("ootomo", "tn", 2048), ("markidis", "nn", 1024), ("half", "nt", 2048), ("bf16x6", "nn", 2048), ("ootomo4", "nn", 3072))),
    *((2, {"scheme": scheme, "where": "prepass", "layout": "nn", "size": size, "fragment_buffers": 2}) for scheme, size in (
        ("ootomo", 2048), ("half", 1024))),
    *((2, {"scheme": scheme, "where": "shared", "layout": layout, "size": 1024}) for scheme, layout in (("ootomo", "nn"), ("bf16x3", "tn"))),
    *((2, {"scheme": scheme, "where": "register", "layout": layout, "size": 1024}) for scheme, layout in (("ootomo", "nt"), ("half", "nn"))),
    *((2, {"scheme": "fp32", "where": where, "layout": "nn", "size": size}) for where, size in (("prepass", 512), ("prepass", 2048), ("shared", 1024))),
    (3, {"scheme": "ootomo", "layout": "nn", "size": 256}), (2, {"scheme": "half", "layout": "tn", "size": 256}),
    (3, {"scheme": "fp32", "layout": "nn", "m": 4, "n": 4096, "k": 4096}), (2, {"scheme": "fp32", "layout": "tt", "m": 4096, "n": 8, "k": 4096}),
)
"""Kernels of a cell, and what of its spec is fixed; what does not serve the GPU is passed over."""


@dataclass(frozen=True)
class Compiled:
    """A kernel as the compiler made it.

    Attributes:
        spec: its settled spec.
        design: its name; section: of a row's [registers], whose constants tell its registers (`Design.register_section`).
        numbers: what the register model asks.
        registers: a thread, as used; spills: bytes.
    """

    spec: Mapping[str, Any]
    design: str
    section: str
    numbers: Mapping[str, float]
    registers: int
    spills: int

    @property
    def loop(self) -> int | None:
        """Its kind of loop; None where the section's constants have none."""
        return int(self.numbers["loop"]) if "loop" in self.numbers else None


@dataclass(frozen=True)
class Fit:
    """What the compiler told.

    Attributes:
        table: the constants, fitted to all kernels that do not spill; section: these as TOML.
        kernels, refused: how many were compiled, and how many spilled or were refused.
        before, after: mean relative error of each kernel's registers with the prior, and with a fit that had not seen it; free: the same of those
            that the launch bound does not limit, and how many these are.
        groups: the same by section and kind of loop: (kernels, before, after).
    """

    table: Registers
    section: str
    kernels: int
    refused: int
    before: float
    after: float
    free: tuple[int, float, float]
    groups: Mapping[str, tuple[int, float, float]]
    compiler: str


def cells(gpu: str, policies: Mapping[bool, str]) -> Iterator[tuple[dict[str, Any], int]]:
    """(spec, kernels) of every cell.

    Args:
        policies: whether on the matrix unit: the policy of portable kernels, and of plain multiply-adds.
    """
    for count, cell in CELLS:
        sizes = {axis: cell.get(axis, cell.get("size")) for axis in "mnk"}
        spec: dict[str, Any] = {
            "problem": {"layout": cell["layout"], **sizes}, "split": {"scheme": cell["scheme"], **({"where": cell["where"]} if "where" in cell else {})},
            "fragment": {"policy": policies[cell["scheme"] != "fp32"]}, "target": {"gpu": gpu},
        }
        if "fragment_buffers" in cell:
            spec["pipeline"] = {"fragment_buffers": cell["fragment_buffers"]}
        yield spec, count


def proposed(spec: Mapping[str, Any], count: int, seed: int) -> list[dict[str, Any]]:
    """Settled specs of the model's first choice, and of others drawn; none where the spec cannot be."""
    loaded = loads(dict(spec))
    try:
        best, drawn = alternatives(loaded, 1, count - 1, seed)
    except GemmgenError:
        return []
    return [settled_spec(loaded, plan) for plan in (*best, *drawn) if plan.design.register_section is not None]


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
    return {name: float(value) for name, value in {**known, **({"loop": told["loop"]} if "loop" in told else {})}.items()}


def measured(
    gpu: Gpu, place: str, pool: Processes, *, most: int | None = None, others: Sequence[Mapping[str, Any]] = (), seed: int = 0,
) -> tuple[list[Compiled], int, str]:
    """The kernels of the cells, how many were refused, and the compiler's name.

    Args:
        most: kernels of the cells; None for all.
        others: settled specs of further kernels, those of which count that the register model has constants for.
    """
    policies = {True: gpu.portable_policy, False: "fma"}
    specs = [
        one for kind, found in pool.all("gemmgen.workshop.bringup.registers:proposed", [(spec, count, seed) for spec, count in cells(place, policies)])
        for one in (found if kind == "value" else [])
    ]
    if most is not None and len(specs) > most:
        specs = [specs[at] for at in np.unique(np.linspace(0, len(specs) - 1, most).astype(int))]
    specs += [spec for spec in others if design_called(spec["pipeline"]["design"]).register_section is not None]
    answers = list(pool.all("gemmgen.workshop.bringup.registers:compiled", [(spec,) for spec in specs]))
    found = [answer for kind, answer in answers if kind == "value"]
    return [one for one, _ in found], len(answers) - len(found), found[0][1] if found else ""


# ---- the fit

Move = tuple[str, str, int | None]
"""A constant: section, name, kind of loop."""
_SLOPES = ("per_sum", "per_narrow", "per_wide", "per_staged")
_MOVED: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "": (("offset",), _SLOPES), "plain": (("offset", "ahead"), _SLOPES), "straight": (("offset",), ("per_sum", "per_raw")),
    "thin": (("offset", "offset_strided"), ("per_sum", "per_raw")),
}
"""Of a section: what is shifted, what is scaled."""


def predicting(rows: Sequence[Compiled]) -> Callable[[Registers], np.ndarray]:
    """[rows] registers by the model, of rows of one design, with any constants."""
    numbers = {name: np.array([row.numbers[name] for row in rows]) for name in rows[0].numbers if name != "loop"}
    design = design_called(rows[0].design)
    return lambda table: np.broadcast_to(design.registers(numbers, table)["registers"], len(rows)).astype(float)


def fitted(rows: Sequence[Compiled], table: Registers) -> Registers:
    """The constants with those that tell these rows best. A group keeps the prior's where a fit to some of its rows tells the others no better: the blocks
    that an SM is meant to hold are a step in what ptxas takes, over which a fit may lead."""
    for (_, loop), mine in groups(rows).items():
        section = mine[0].section
        shifts, slopes = _MOVED[section]
        moves = [(section, name, loop) for name in shifts] + [(section, name, loop) for name in slopes if _value(table, (section, name, loop))]

        def told_by(some: Sequence[Compiled]) -> Registers:
            return _descended(table, moves, set(shifts), _cost(some))

        parts = [mine[first::FOLDS] for first in range(min(FOLDS, len(mine)))]
        others = [[row for row in mine if row not in part] for part in parts]
        held = [(_cost(part)(table), _cost(part)(told_by(rest))) for part, rest in zip(parts, others) if rest]
        if not held or sum(after for _, after in held) < HELPS * sum(before for before, _ in held):
            table = told_by(mine)
    return table


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


def _descended(table: Registers, moves: Sequence[Move], shifts: set[str], cost: Callable[[Registers], float]) -> Registers:
    """Each constant in turn a step up or down as long as that tells more than it takes from the prior; then smaller steps."""
    prior = table
    away = dict.fromkeys(moves, 0.0)

    def at(where: Mapping[Move, float]) -> Registers:
        trial = prior
        for move, deviations in where.items():
            before = _value(prior, move)
            trial = _with(trial, move, before + SHIFT * deviations if move[1] in shifts else before * (1 + SCALE * deviations))
        return trial

    def weighed(where: Mapping[Move, float]) -> float:
        return cost(at(where)) + 0.5 * sum(value**2 for value in where.values())

    best = weighed(away)
    for step in (0.8, 0.4, 0.2, 0.1):
        moved = True
        while moved:
            moved = False
            for move in moves:
                for sign in (1, -1):
                    trial = {**away, move: away[move] + sign * step}
                    if (found := weighed(trial)) < best - 1e-9:
                        away, best, moved = trial, found, True
    return at(away)


def _value(table: Registers, move: Move) -> float:
    section, name, loop = move
    of = getattr(table, section) if section else table
    value = getattr(of.slopes, name) if name in _SLOPES and hasattr(of, "slopes") else getattr(of, name)
    return value[loop] if loop is not None else value


def _with(table: Registers, move: Move, value: float) -> Registers:
    section, name, loop = move
    of = getattr(table, section) if section else table
    slopes = name in _SLOPES and hasattr(of, "slopes")
    holder = of.slopes if slopes else of
    if loop is not None:
        values = getattr(holder, name)
        value = (*values[:loop], round(value, 2), *values[loop + 1:])
    else:
        value = round(value, 3)
    holder = holder.model_copy(update={name: value})
    of = of.model_copy(update={"slopes": holder}) if slopes else holder
    return table.model_copy(update={section: of}) if section else of


def fit(rows: Sequence[Compiled], refused: int, gpu: Gpu, compiler: str) -> Fit:
    """The constants, and how well kernels are told that a fit had not seen.

    Raises:
        GemmgenError: no kernel was compiled that does not spill.
    """
    known = [row for row in rows if not row.spills]
    if len(known) < 2 * FOLDS:
        raise GemmgenError("gemmgen bringup", "has too few kernels for the register model", got=len(known), needs=f"{2 * FOLDS} that do not spill")
    real = np.array([row.registers for row in known], float)
    before, after = np.empty(len(known)), np.empty(len(known))
    order = {id(row): at for at, row in enumerate(sorted(known, key=lambda row: (row.design, row.loop or 0)))}
    fold = np.array([order[id(row)] % FOLDS for row in known])  # every fourth of each kind
    for number in range(FOLDS):
        table = fitted([row for row, own in zip(known, fold) if own != number], gpu.registers)
        for at in np.flatnonzero(fold == number):
            told = predicting([known[at]])
            before[at], after[at] = told(gpu.registers)[0], told(table)[0]
    before, after = np.abs(before / real - 1), np.abs(after / real - 1)
    free = np.array([row.registers < _budget(row, gpu) - FREE for row in known])
    by_group = {}
    for (design, loop), mine in groups(known).items():
        where = np.isin([id(row) for row in known], [id(row) for row in mine])
        by_group[design + (f", {LOOPS[loop]}" if loop is not None else "")] = (len(mine), float(before[where].mean()), float(after[where].mean()))
    table = fitted(known, gpu.registers)
    found = Fit(
        table, "", len(rows), refused + len(rows) - len(known), float(before.mean()), float(after.mean()),
        (int(free.sum()), *(float(one[free].mean()) if free.any() else 0.0 for one in (before, after))), by_group, compiler,
    )
    return Fit(**{**vars(found), "section": text(found, gpu)})


def _budget(row: Compiled, gpu: Gpu) -> float:
    told = design_called(row.design).registers({name: value for name, value in row.numbers.items() if name != "loop"}, gpu.registers)
    return float(told["register_budget"])


def text(found: Fit, gpu: Gpu) -> str:
    """The section [registers] of a row: what differs from the prior."""
    table, prior = found.table, gpu.registers
    count, _, free = found.free
    lines = [
        f'[registers]  # of each kind of loop: {", ".join(LOOPS)}',
        f'source = "fitted to {found.kernels} kernels compiled by {found.compiler} for {gpu.arch}; mean error {100 * found.after:.1f} % of kernels that a fit'
        f' had not seen, {100 * free:.1f} % of the {count} that the launch bound does not limit"',
        f"offset = {toml_values.told(table.offset, _number)}", f"squeeze = {toml_values.told(table.squeeze, _number)}",
    ]
    for section, of, before in (
        ("slopes", table.slopes, prior.slopes), ("plain", table.plain, prior.plain), ("plain.slopes", table.plain.slopes, prior.plain.slopes),
        ("straight", table.straight, prior.straight), ("thin", table.thin, prior.thin),
    ):
        own = [
            f"{name} = {toml_values.told(value, _number)}"
            for name in type(of).model_fields if name != "slopes" and (value := getattr(of, name)) != getattr(before, name)
        ]
        lines += ["", f"[registers.{section}]", *own] if own else []
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{float(value):.3g}" if "." in f"{float(value):.3g}" else f"{float(value):.1f}"
