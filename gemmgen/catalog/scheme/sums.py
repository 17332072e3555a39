"""How the sums of a scheme's accumulators become one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, TypeVar

from gemmgen.catalog.scheme.word import Accumulator


class Step(NamedTuple):
    """One step of a recombination: what there is so far, times 2^`exponent`, plus the sum of `accumulator`.

    The first step's exponent is 0: there is nothing so far.
    """

    accumulator: Accumulator
    exponent: int


T = TypeVar("T")
Sums = Literal["residual chain", "residues"]
"""What a scheme's accumulators hold of its result (`Recombination`)."""

OFFSET_BITS = 0x4B400000
OFFSET = 1.5 * 2.0**23
"""INT32 sums of a tile begin at these bits, which are this number's: the bits of the sum s, |s| < 2^22, are then those of OFFSET + s. At most four products
of 32 k have one scale: of an operand's four words, only one of each scale is not zero."""


class Moved(NamedTuple):
    """How the INT32 sums of one tile of k become one FP32 number: conversions cost more than additions, so the sums begin at OFFSET_BITS.

    The first takes `least` off, the offsets of all of `taken` at once: integers, so that nothing is rounded. The others are added by one multiply-add
    each, from the largest contribution to the smallest, `apart` after their own offset is taken off.

    Attributes:
        taken: from the largest contribution on.
    """

    least: float
    taken: tuple[Accumulator, ...]
    apart: tuple[Accumulator, ...]

    @property
    def roundings(self) -> int:
        return len(self.taken) + len(self.apart) - 1

    def number(self, sums: Mapping[str, T], add: Callable[[T, float, T], T], less: Callable[[T, float], T]) -> T:
        """The tile's number, in units of the first word's last places.

        Args:
            sums: by the accumulators' names, OFFSET more than they are.
            add: (so far, factor, sum) -> so far + factor * sum, rounded as whoever computes it rounds.
            less: (sum, number) -> sum - number.
        """
        so_far = less(sums[self.taken[0].name], self.least)
        for accumulator in self.taken[1:]:
            so_far = add(so_far, 2.0**-accumulator.scale, sums[accumulator.name])
        for accumulator in self.apart:
            so_far = add(so_far, 2.0**-accumulator.scale, less(sums[accumulator.name], OFFSET))
        return so_far


class Recombination(NamedTuple):
    """How the sums of a scheme's accumulators become one.

    Attributes:
        family: `residual chain`: each accumulator holds what the ones of larger contributions left out, scaled up, and one
            multiply-add takes it in. `residues`: each holds the result modulo a number of its own, and all are as important as one another.
        steps: from the smallest contribution to the largest; none of residues.
    """

    family: Sums
    steps: tuple[Step, ...]

    @property
    def roundings(self) -> int:
        """How often an element is rounded on the way: the first step takes a sum as it is."""
        return max(0, len(self.steps) - 1)

    def share(self, accumulator: Accumulator) -> float:
        """What the sum of an accumulator is multiplied by in the end; of residues none is more than another."""
        if self.family == "residues":
            return 1.0
        at = next(i for i, step in enumerate(self.steps) if step.accumulator == accumulator)
        return 2.0 ** sum(step.exponent for step in self.steps[at + 1 :])

    def combine(self, sums: Mapping[str, T], add: Callable[[T, float, T], T]) -> T:
        """Take the steps.

        Args:
            sums: by the accumulators' names.
            add: (so far, factor, sum) -> so far * factor + sum, rounded as whoever computes it rounds.
        """
        so_far = sums[self.steps[0].accumulator.name]
        for accumulator, exponent in self.steps[1:]:
            so_far = add(so_far, 2.0**exponent, sums[accumulator.name])
        return so_far
