"""EGEMM-TC's profiling of a matrix unit's precision, as its section 3.1 and figures 2 and 3 print it, and what it cannot see.

Two random FP16 products in one sum, compared with the same in half precision and in single precision on 10,000 draws; which of the two is
right to the bit, or to 21 bits of the fraction, is taken for the unit's arithmetic. Beside that verdict stands how many rules of
specs/units would have passed the same test.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmgen.bringup.candidates import every
from gemmgen.bringup.dots import Dots
from gemmgen.bringup.sums import Order
from gemmgen.catalog.conversion import decode
from gemmgen.emulate.core import units

DRAWS = 10_000
"""The paper's."""
BITS = 21
"""Of the fraction, that the paper's extended precision needs."""
LARGEST = 32.0
"""Words are drawn from [0, LARGEST), whose sums are of the size of the paper's printed example (half 926.0, single 934.40637207, tensor core 934.40631104)."""
_SHARED = 400
"""Draws on which rules are compared: a rule that differs does so on many."""


@dataclass(frozen=True)
class Profile:
    """The workflow's outcome.

    Attributes:
        draws: groups of data.
        half, single: draws on which the unit's sum is that hypothesis's, bit for bit.
        single_21: likewise within one unit of the 21st bit of the fraction.
        worst: largest difference from single precision, in units of FP32's last place.
        example: the first draw that differs from single precision: (half, single, unit); None where none does.
        passing: rules of specs/units that pass the test; of: of so many.
    """

    draws: int
    half: int
    single: int
    single_21: int
    worst: int
    example: tuple[float, float, float] | None
    passing: int
    of: int

    @property
    def verdict(self) -> str:
        """What the paper concludes from such figures."""
        if self.single_21 == self.draws:
            return (
                f"half multiplication with single-precision accumulation: all {self.draws} sums are identical to d_FLOAT bit-wisely up to {BITS} mantissa "
                "bits, which is required by the extended-precision computation; four instructions (Algorithm 1) emulate one of extended precision"
            )
        if self.half == self.draws:
            return f"all {self.draws} sums are d_HALF: the operation is in half precision, of which Dekker's 16 instructions emulate one of extended precision"
        return f"neither primitive: {self.half} sums are d_HALF, {self.single_21} are d_FLOAT up to {BITS} mantissa bits"

    @property
    def overlooked(self) -> list[str]:
        """What the test does not see, in sentences."""
        found = [f"{self.passing} of the {self.of} rules that a row of specs/units can say pass the same test: it does not tell them apart"]
        if self.single < self.draws:
            found.append(f"{self.draws - self.single} of the {self.draws} sums are not d_FLOAT to the bit; {BITS} bits hide how the unit rounds")
        return [
            *found,
            "its accumulator is always 0: how the unit aligns and cuts an accumulator, which is what errors of long sums come from, is not asked",
            "two products of one sum say nothing of how many are summed at once, nor of their order",
            "subnormal words and sums, Inf, NaN and overflow are not among the draws",
        ]


def profile(dots: Dots, order: Order, draws: int = DRAWS, seed: int = 2) -> Profile:
    """EGEMM's test of an instruction of FP16 words.

    Args:
        dots: of words f16.
    """
    rng = np.random.default_rng(seed)
    words = rng.uniform(0, LARGEST, (4, draws)).astype(np.float16)
    a1, a2, b1, b2 = words
    a, b = np.zeros((2, draws, dots.depth), np.float16)
    a[:, 0], a[:, 1], b[:, 0], b[:, 1] = a1, a2, b1, b2
    a, b, c = a.view(np.uint16), b.view(np.uint16), np.zeros(draws, np.float32)
    unit = dots.ask(a, b, c)
    half = (a1 * b1 + a2 * b2).astype(np.float32)
    single = a1.astype(np.float32) * b1.astype(np.float32) + a2.astype(np.float32) * b2.astype(np.float32)
    far = _apart(unit, single)
    odd = np.flatnonzero(far)
    example = tuple(float(x[odd[0]]) for x in (half, single, unit)) if len(odd) else None
    rules = every("f16", order.block or max(map(len, order.steps)))
    left, right = (decode("f16", x[:_SHARED]) for x in (a, b))
    passing = sum(bool((_apart(units.dot(one.unit("f16"), "f16", left, right, c[:_SHARED]), single[:_SHARED]) < 1 << 23 - BITS).all()) for one in rules)
    return Profile(
        draws, int((_apart(unit, half) == 0).sum()), int((far == 0).sum()), int((far < 1 << 23 - BITS).sum()), int(far.max()), example, passing, len(rules),
    )


def _apart(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """By how many FP32 numbers two positive ones differ."""
    return np.abs(x.view(np.int32).astype(np.int64) - y.view(np.int32))
