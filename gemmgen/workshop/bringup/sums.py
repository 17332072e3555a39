"""In which order an instruction sums: which of its products come onto the accumulator together, and which step is first.

An accumulator M, a product -M at k = s and a small one, x, at k = p: x is in D if it comes after M is gone, and is lost in M if it comes
before or with it. That is asked of every s and p, and knows nothing of how numbers are rounded, but that no FP32 number holds M + x.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmgen.workshop.bringup.dots import Dots


@dataclass(frozen=True)
class Order:
    """The steps of a sum.

    Attributes:
        steps: the k of each, in the order of summing; of one step, ascending.
        asked: dot products that told it.
        consistent: whether they tell one order at all.
    """

    steps: tuple[tuple[int, ...], ...]
    asked: int
    consistent: bool = True

    @property
    def block(self) -> int | None:
        """Products of a step, where all have as many, or all but the last, which has fewer."""
        *sizes, last = [len(step) for step in self.steps]
        size = sizes[0] if sizes else last
        return size if self.consistent and set(sizes) <= {size} and last <= size else None

    @property
    def sequence(self) -> np.ndarray:
        """Every k, in the order of steps."""
        return np.array([k for step in self.steps for k in step])

    @property
    def in_turn(self) -> bool:
        """Whether the steps go through k as it is counted."""
        return bool((np.diff(self.sequence) == 1).all())

    @property
    def text(self) -> str:
        if self.in_turn and self.block:
            return f"{self.block} at once, in turn of k" if len(self.steps) > 1 else f"{self.block} at once, all of an instruction's"
        return "; then ".join(" ".join(map(str, step)) for step in self.steps)


def find_order(dots: Dots) -> Order:
    """The steps in which an instruction's products are summed."""
    depth = dots.depth
    large, small = 2.0**dots.largest, 2.0 ** (dots.largest - min(dots.span, 50))
    pairs = [(s, p) for s in range(depth) for p in range(depth) if s != p]
    d = dots.terms([{s: -large, p: small} for s, p in pairs], [large] * len(pairs))
    after = np.zeros((depth, depth), bool)
    for (s, p), kept in zip(pairs, np.abs(d.astype(np.float64) - small) <= small / 2):
        after[s, p] = kept
    strictly = after & ~after.T  # p comes after s
    rank = strictly.sum(0)  # how many come before it
    steps = tuple(tuple(np.flatnonzero(rank == value).tolist()) for value in sorted(set(rank.tolist())))
    number = np.searchsorted(sorted(set(rank.tolist())), rank)
    consistent = bool((strictly == (number[:, None] < number[None])).all())
    return Order(steps, len(pairs), consistent)
