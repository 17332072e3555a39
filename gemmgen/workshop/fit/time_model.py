"""The model learns: the constants of its times, fitted to what a store has of a GPU.

    found = learn(Store("store").rows("gpu = 'h200'"), "h200")
    print(found.lines)

A constant is a value of the GPU's row under specs/gpus, or of its generation's. All that matter to the kernels that were timed are fitted at
once, in the logarithm of the time. Each is held to its present value as by a measurement of its own (PRIOR against NOISE), so that a few
rows move little, and what no row tells stays. Kernels and sizes that are held out say whether it helped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gemmgen.catalog.generation import Constant, Measured, Within
from gemmgen.catalog.gpu import GPUS, Gpu
from gemmgen.errors import GemmgenError
from gemmgen.workshop.explore.rebuilt import Predictions, budgets, kernel_of, timed_whole
from gemmgen.workshop.explore.trial_row import Row
from gemmgen.workshop.fit.least import Unknown, changed, drawn, least

LEAST_ROWS = 24
"""Timed rows below which nothing is fitted."""
MOST_ROWS = 20_000
HELD_OUT = 0.2
"""Of the kernels, and of the sizes."""
NOISE, PRIOR = 0.1, 0.5
"""Standard deviations of log(measured / predicted), and of how far a constant's logarithm may lie from what the row says."""
TOLD, MOVED = 0.5, 0.02
"""A constant counts as fitted where its deviation is less than this share of PRIOR, or where its logarithm moved so far."""
NOTICED = 1e-3
"""A constant matters where a tenth more of it changes some time by this much."""


@dataclass(frozen=True)
class Fitted:
    """A constant.

    Attributes:
        place: its section and name in the row, such as ("wgmma", "turn_cycles"); the section is empty under [measured] itself.
        deviation: of its logarithm, as the fit tells it.
        source: of the value before.
    """

    place: tuple[str, str]
    before: float
    after: float
    deviation: float
    source: str


@dataclass(frozen=True)
class Errors:
    """Of some rows: mean of |log(measured / predicted)|, and the mean with its sign, with the constants before and after."""

    rows: int
    before: float
    after: float
    lean_before: float
    lean_after: float


@dataclass(frozen=True)
class Learnt:
    """What was learnt of a GPU.

    Attributes:
        gpu: its row with the fitted constants; the row itself where nothing was fitted.
        device: as the rows tell it.
        rows: how many were fitted to; kernels, sizes: how many different ones.
        constants: those that were fitted.
        errors: by `fitted`, `new kernels`, `new sizes`: rows of the kernels and sizes that were held out; those that have rows.
        parts: errors of all rows by design and place of the split, such as `portable, prepass`.
        reason: why nothing was fitted; else empty.
    """

    gpu: Gpu
    device: str
    rows: int
    kernels: int
    sizes: int
    constants: tuple[Fitted, ...]
    errors: Mapping[str, Errors]
    parts: Mapping[str, Errors] = field(default_factory=dict)
    reason: str = ""

    @property
    def helped(self) -> bool:
        """Whether the held-out rows are told better than before; those that were fitted, where none was held out."""
        held = [one for name, one in self.errors.items() if name != "fitted"] or list(self.errors.values())
        return bool(self.constants) and sum(one.after * one.rows for one in held) < sum(one.before * one.rows for one in held)

    @property
    def lines(self) -> str:
        """The constants as lines of the GPU's row."""
        told = f"fitted to {self.rows} times of {self.kernels} kernels on an {self.device or self.gpu.title}"
        sections: dict[str, list[str]] = {}
        for one in self.constants:
            section = ".".join(filter(None, ("measured", one.place[0])))
            sections.setdefault(section, []).append(f'{one.place[1]} = {{ value = {one.after:.4g}, source = "{told}" }}')
        return "\n\n".join(f"[{section}]\n" + "\n".join(lines) for section, lines in sections.items())

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for `--json`."""
        return {
            "gpu": self.gpu.name, "device": self.device, "rows": self.rows, "kernels": self.kernels, "sizes": self.sizes, "helped": self.helped,
            **({"reason": self.reason} if self.reason else {}),
            "constants": [{"section": one.place[0], "name": one.place[1], "before": one.before, "after": one.after, "deviation": one.deviation,
                           "source_before": one.source} for one in self.constants],
            "errors": {name: vars(one) for name, one in self.errors.items()}, "parts": {name: vars(one) for name, one in self.parts.items()},
            "lines": self.lines,
        }


def learn(rows: Iterable[Row], gpu: str | Gpu, *, seed: int = 1, held_out: float = HELD_OUT) -> Learnt:
    """The constants of the GPU's row, fitted to the timed rows of kernels.

    Args:
        gpu: a name under specs/gpus or a .toml file, or its row; rows of others are passed over.
        seed: of the draw of kernels and sizes to hold out.
        held_out: the share of either; 0 fits to all.

    Raises:
        UnknownName: there is no such GPU. GemmgenError: scipy is missing.
    """
    row_of = gpu if isinstance(gpu, Gpu) else GPUS.get(gpu, where="gemmgen study learn")
    known = [row for row in rows if row.gpu == row_of.name and row.kind == "kernel" and timed_whole(row)]
    if len(known) > MOST_ROWS:
        known = [known[at] for at in np.sort(np.random.default_rng(seed).permutation(len(known))[:MOST_ROWS])]
    known = _told(known)
    device = known[0].device if known else ""
    if len(known) < LEAST_ROWS:
        kinds = Counter(one.source.split()[0].rstrip(":") for _, one, _ in _constants(row_of.measured))
        told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        reason = (f"{len(known)} timed rows of {row_of.name}, of which at least {LEAST_ROWS} are needed: the prior holds, the {sum(kinds.values())} "
                  f"constants of its row and generation ({told})")
        return Learnt(row_of, device, len(known), 0, 0, (), {}, reason=reason)
    names, sizes = np.array([kernel_of(row) for row in known]), [f"{row.m}x{row.n}x{row.k}" for row in known]
    draw = np.random.default_rng(seed)
    new_kernel, new_size = drawn(names, held_out, draw), drawn(np.array(sizes), held_out, draw)
    seen = ~(new_kernel | new_size)
    if seen.sum() < LEAST_ROWS:
        seen, new_kernel, new_size = np.full(len(known), True), np.full(len(known), False), np.full(len(known), False)
    groups = _groups(known)
    seconds = np.array([row.seconds for row in known])

    def off(trial: Gpu) -> np.ndarray:
        return np.log(seconds / _predicted(groups, trial, len(known)))

    before = off(row_of)
    constants = _mattering(row_of, off, before, seen)
    fitted, told = _fit(row_of, constants, off, seen)
    after = off(fitted)
    parts = _parts(known)

    def told_of(which: np.ndarray) -> Errors:
        means = np.abs(before[which]).mean(), np.abs(after[which]).mean(), before[which].mean(), after[which].mean()
        return Errors(int(which.sum()), *map(float, means))

    errors = {name: told_of(which) for name, which in (("fitted", seen), ("new kernels", new_kernel), ("new sizes", new_size)) if which.any()}
    found = dict((place, one.value) for place, one, _ in _constants(fitted.measured))
    return Learnt(
        fitted, device, int(seen.sum()), len(set(names[seen])), len({size for size, one in zip(sizes, seen) if one}),
        tuple(Fitted(place, one.value, found[place], told[place], one.source) for place, one, _ in constants if place in told), errors,
        {part: told_of(parts == part) for part in np.unique(parts)},
    )


def _told(rows: Sequence[Row]) -> list[Row]:
    """Those whose plan this version makes."""
    predictions, found = Predictions(), []
    for row in rows:
        try:
            predictions.plan(row)
            found.append(row)
        except GemmgenError:
            continue
    return found


def _constants(measured: Measured) -> list[tuple[tuple[str, str], Constant, Within]]:
    """All of a row: section, name and bounds."""
    found = []
    for section, of in (("", measured), *((name, getattr(measured, name)) for name in type(measured).model_fields)):
        if of is None or isinstance(of, Constant):
            continue
        for name, field in type(of).model_fields.items():
            value = getattr(of, name)
            if isinstance(value, Constant):
                found.append(((section, name), value, next(one.func for one in field.metadata if isinstance(getattr(one, "func", None), Within))))
    return found


def with_constants(gpu: Gpu, values: Mapping[tuple[str, str], float]) -> Gpu:
    """The GPU with other values of constants."""
    for (section, name), new in values.items():
        gpu = changed(gpu, ("measured", *filter(None, (section,)), name, "value"), new)
    return gpu


def _parts(rows: Sequence[Row]) -> np.ndarray:
    """[rows] of each the design and where its kernel splits."""
    predictions = Predictions()
    return np.array([f"{plan.design.name}, {plan.where}" for plan in map(predictions.plan, rows)])


@dataclass(frozen=True)
class _Group:
    """Rows whose kernels take the same constants. `plan`: one of their plans; `numbers`: what `Design.predicted` asks, a column each."""

    plan: Any
    rows: np.ndarray
    numbers: Mapping[str, np.ndarray]
    base: Mapping[str, Any]


def _groups(rows: Sequence[Row]) -> list[_Group]:
    predictions, kernels = Predictions(), {}
    for at, row in enumerate(rows):
        kernels.setdefault(kernel_of(row), []).append(at)
    parts: dict[tuple[str, str, str], list[tuple[Any, list[int], dict[str, Any]]]] = {}
    for places in kernels.values():
        first = rows[places[0]]
        plan = predictions.plan(first)
        sizes = np.array([(rows[at].m, rows[at].n, rows[at].k) for at in places])
        parts.setdefault((plan.design.name, plan.scheme.name, plan.fragment.policy), []).append((plan, places, budgets(plan, sizes, first.registers)))
    found = []
    for members in parts.values():
        plan = members[0][0]
        numbers = {name: np.concatenate([np.broadcast_to(own[name], len(places)) for _, places, own in members]) for name in members[0][2]}
        found.append(_Group(plan, np.concatenate([places for _, places, _ in members]), numbers, _own(plan, plan.gpu)))
    return found


def _own(plan: Any, gpu: Gpu) -> Mapping[str, Any]:
    return plan.design.constants(plan.layout, plan.scheme, plan.fragment, gpu, plan.hints)


def _predicted(groups: Sequence[_Group], gpu: Gpu, rows: int) -> np.ndarray:
    """[rows] seconds, with the constants of `gpu`."""
    found = np.empty(rows)
    for group in groups:
        own = _own(group.plan, gpu)
        other = {name: value for name, value in own.items() if value != group.base[name]}
        found[group.rows] = group.plan.design.predicted({**group.numbers, **other})["seconds"]
    return found


def _mattering(gpu: Gpu, off: Callable[[Gpu], np.ndarray], now: np.ndarray, seen: np.ndarray) -> list[tuple[tuple[str, str], Constant, Within]]:
    """The constants that change a time of the rows that were seen."""
    found = []
    for place, one, within in _constants(gpu.measured):
        if one.value > 0 and np.abs(off(with_constants(gpu, {place: _clipped(1.1 * one.value, within, 0.9 * one.value)})) - now)[seen].max() > NOTICED:
            found.append((place, one, within))
    return found


def _clipped(value: float, within: Within, otherwise: float) -> float:
    return value if within.low <= value <= within.high else otherwise


def _fit(
    gpu: Gpu, constants: Sequence[tuple[tuple[str, str], Constant, Within]], off: Callable[[Gpu], np.ndarray], seen: np.ndarray,
) -> tuple[Gpu, dict[tuple[str, str], float]]:
    """(the GPU with constants that predict the rows that were seen best, each with four digits; the standard deviation of the logarithm of each).

    Of what the rows neither determine nor move, the GPU's own value stays. Where no others predict the rows better, all do.
    """
    if not constants:
        return gpu, {}
    places = [place for place, _, _ in constants]
    unknowns = [Unknown((place,), float(one.value), PRIOR, relative=True, low=within.low, high=within.high) for place, one, within in constants]

    def at(moved: np.ndarray) -> dict[tuple[str, str], float]:
        return {place: one.at(float(by)) for place, one, by in zip(places, unknowns, moved)}

    found = least(unknowns, lambda moved: off(with_constants(gpu, at(moved)))[seen] / NOISE)
    told = {place: PRIOR * float(deviation) for place, deviation, moved in zip(places, found.deviations, found.moved)
            if deviation < TOLD or PRIOR * abs(moved) > MOVED}
    fitted = with_constants(gpu, {place: min(max(float(f"{new:.4g}"), one.low), one.high) for (place, new), one in zip(at(found.moved).items(), unknowns)
                                  if place in told})
    better = np.abs(off(fitted)[seen]).mean() < np.abs(off(gpu)[seen]).mean()
    return (fitted, told) if better else (gpu, {})
