"""The mathematics of a fit: unknowns with a prior each, moved by least squares to where they predict measurements best.

Each unknown is held to its prior as by one measurement of its own. So few measurements move little, and what none of them depends on stays. Errors count
less the further out they lie (`soft_l1`), those of the prior, too: a few measurements differ in kind, and a few constants are far from what was known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, inf
from typing import Any

import numpy as np

from gemmgen.workshop.explore.extras import library

Path = tuple[str | int, ...]
"""Where a row has a value: names of fields, and places in tuples."""


SCAN = (0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0)
"""Standard deviations from the prior that an unknown of a prediction with steps is first tried at, the nearest first."""


@dataclass(frozen=True)
class Unknown:
    """One value to fit.

    Attributes:
        paths: where rows have it; several share one value.
        rows: keys of the rows that have it; empty for all.
        prior: the value as it is known before.
        spread: the prior's standard deviation, of the value, or of its logarithm if `relative`.
        low, high: bounds of the value.
    """

    paths: tuple[Path, ...]
    prior: float
    spread: float
    relative: bool = False
    low: float = -inf
    high: float = inf
    rows: tuple[str, ...] = ()

    def at(self, deviations: float) -> float:
        """The value so many standard deviations from the prior, within its bounds."""
        value = self.prior * exp(self.spread * deviations) if self.relative else self.prior + self.spread * deviations
        return min(max(value, self.low), self.high)

    @property
    def limits(self) -> tuple[float, float]:
        """The bounds in standard deviations from the prior."""
        if self.relative:
            low, high = (np.log(np.clip(bound / self.prior, 1e-3, 1e3)) / self.spread for bound in (self.low, self.high))
        else:
            low, high = ((bound - self.prior) / self.spread for bound in (self.low, self.high))
        return min(low, -1e-9), max(high, 1e-9)


@dataclass(frozen=True)
class Least:
    """A fit.

    Attributes:
        moved: [unknowns] standard deviations from the prior.
        deviations: [unknowns] the standard deviation of each that the measurements leave, over the prior's.
    """

    moved: np.ndarray
    deviations: np.ndarray


def least(unknowns: Sequence[Unknown], errors: Callable[[np.ndarray], np.ndarray], stepped: bool = False, evaluations: int = 40) -> Least:
    """The unknowns that predict measurements best.

    Args:
        errors: [unknowns] standard deviations from the prior -> [measurements] errors in standard deviations of a measurement.
        stepped: predictions have steps, which no derivative shows: each unknown in turn is first moved by itself, by SCAN.

    Raises:
        GemmgenError: scipy is missing.
    """
    def residuals(moved: np.ndarray) -> np.ndarray:
        return np.concatenate([errors(moved), moved])

    optimize, start, limits = library("scipy.optimize"), np.zeros(len(unknowns)), np.array([one.limits for one in unknowns])
    for at in range(len(unknowns) if stepped else 0):
        tried = [np.where(np.arange(len(start)) == at, by, start) for by in SCAN if limits[at][0] <= by <= limits[at][1]]
        start = min(tried, key=lambda moved: (np.sqrt(1 + residuals(moved) ** 2) - 1).sum())
    found = optimize.least_squares(residuals, start, bounds=limits.T, loss="soft_l1", max_nfev=evaluations)
    return Least(found.x, np.sqrt(np.diag(np.linalg.inv(found.jac.T @ found.jac))))


# ---- values of rows


def value(row: Any, path: Path) -> Any:
    """What a row, a pydantic model, has at a place."""
    for step in path:
        row = row[step] if isinstance(step, int) else getattr(row, step)
    return row


def changed(row: Any, path: Path, new: Any) -> Any:
    """A copy of the row with another value there."""
    if not path:
        return new
    step, *rest = path
    inner = changed(value(row, (step,)), tuple(rest), new)
    return (*row[:step], inner, *row[step + 1:]) if isinstance(step, int) else row.model_copy(update={step: inner})


def drawn(names: np.ndarray, share: float, draw: np.random.Generator) -> np.ndarray:
    """[measurements] whether a measurement's name is among a share of all names, drawn."""
    every = np.unique(names)
    return np.isin(names, draw.permutation(every)[: round(share * len(every))])
