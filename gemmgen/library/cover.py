"""The few kernels that serve many sizes best: the one core of `gemmgen library` and of `gemmgen study choose`.

That is a choice of places to serve customers from (the p-median problem). Taking the kernel that gains most, again and again, gains at least 1 - 1/e of what
the best set gains over the slowest kernels, and how much a set can still gain bounds how good any can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

UNSERVED = 10.0
"""What a size takes that no chosen kernel is for, in times of the slowest kernel: so each layout gets a kernel first."""


@dataclass(frozen=True)
class Taken:
    """A set of kernels.

    Attributes:
        kernels: by place, in the order in which they were taken.
        cost: weighted mean of log(seconds / best) where every size has the best of them.
        least: no set of so many kernels costs less.
    """

    kernels: tuple[int, ...]
    cost: float
    least: float


def over_best(seconds: np.ndarray) -> np.ndarray:
    """[kernels, ...] log(seconds / best) of [kernels, ...] seconds; where a kernel does not serve a size (inf), that of UNSERVED times the slowest."""
    found = np.log(seconds / seconds.min(axis=0))
    served = np.isfinite(found)
    return np.where(served, found, unserved(np.where(served, found, -np.inf)))


def unserved(logs: np.ndarray) -> np.ndarray:
    """[...] log(seconds / best) of sizes that no chosen kernel is for, of [kernels, ...] the same of all kernels."""
    return logs.max(axis=0, initial=0.0) + np.log(UNSERVED)


def cost_of(logs: np.ndarray, weights: np.ndarray, kernels: Sequence[int]) -> float:
    """The cost of a set, as `Taken` has it, of [kernels, sizes] and [sizes]."""
    return float(logs[list(kernels)].min(axis=0) @ weights)


def greedy(logs: np.ndarray, weights: np.ndarray, most: int, first: Sequence[int] = ()) -> Taken:
    """The kernel that gains most, again and again.

    Args:
        logs: [kernels, sizes], costs of which each size gets the least of the taken kernels'.
        weights: [sizes].
        first: kernels that are taken in any case.
    """
    now, taken, least = logs[list(first)].min(axis=0, initial=np.inf), list(first), 0.0
    now = np.minimum(now, logs.max(axis=0))
    while True:
        gains = np.maximum(0.0, now - logs) @ weights
        # Gains only shrink as a set grows, so the best set gains no more over this one than the largest gains together.
        least = max(least, float(now @ weights - np.sort(gains)[-most:].sum()))
        if len(taken) == most or gains.max() <= 1e-12:
            break
        taken.append(int(gains.argmax()))
        now = np.minimum(now, logs[taken[-1]])
    return Taken(tuple(taken), float(now @ weights), min(least, float(now @ weights)))
