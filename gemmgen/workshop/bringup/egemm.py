"""EGEMM-TC's profiling of a matrix unit's precision, as its section 3.1 and figures 2 and 3 print it, and what it cannot see.

Two random FP16 products in one sum, compared with the same in half precision and in single precision on 10,000 draws; which of the two is
right to the bit, or to 21 bits of the fraction, is taken for the unit's arithmetic. Beside that verdict stands how many rules of
specs/units would have passed the same test.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmgen.catalog.conversion import decode
from gemmgen.catalog.fragment import Fragment
from gemmgen.emulate.core import units
from gemmgen.workshop.bringup.dots import Dots
from gemmgen.workshop.bringup.sums import Order
from gemmgen.workshop.bringup.unit_rules import every

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


    @property
    def half_passes(self) -> bool:
        """Whether d_HALF is taken for the unit's arithmetic, and d_FLOAT is not."""
        return self.half == self.draws > self.single_21

    @property
    def design(self) -> str:
        """What the workflow's second half makes of the verdict (figure 2b)."""
        if self.single_21 == self.draws:
            return "4 instructions an extended-precision product (Algorithm 1), operands split in two FP16 words: scheme egemm"
        if self.half_passes:
            return "16 instructions an extended-precision product (Dekker), as both data and operation are half precision: no scheme here"
        return "none: the paper has no design for a unit that is neither; the rule below says which scheme's bound still holds (gemmgen verify)"

    def as_dict(self) -> dict[str, Any]:
        return {
            "draws": self.draws, "half": self.half, "single": self.single, "single_21_bits": self.single_21, "worst_ulp": self.worst,
            "example": self.example, "rules_passing": self.passing, "rules": self.of, "verdict": self.verdict, "overlooked": self.overlooked,
        }

    @property
    def lines(self) -> list[str]:
        """The figures and the example as the paper prints one."""
        told = [f"{self.draws} draws of a1 b1 + a2 b2: {self.half} are d_HALF, {self.single} are d_FLOAT bit for bit, "
                f"{self.single_21} are d_FLOAT up to {BITS} mantissa bits; the largest difference from d_FLOAT is {self.worst} ulp."]
        if self.example:
            half, single, unit = self.example
            told += ["", "```", f"half_result:   {half:.8f}", f"single_result: {single:.8f}", f"Matrix unit:   {unit:.8f}", "```"]
        return told


def suited(fragments: Iterable[Fragment]) -> Fragment | None:
    """The first instruction of FP16 words; a library's fragment, as the paper uses, before others. None where there is none."""
    found = [one for one in fragments if one.word == "f16"]
    return next((one for one in found if one.interface.library_fragment), found[0] if found else None)


def profile(dots: Dots, order: Order, draws: int = DRAWS, seed: int = 2) -> Profile:
    """EGEMM's test of an instruction of FP16 words.

    Args:
        dots: of words f16.
    """
    a, b, c = drawn(dots.depth, draws, seed)
    unit = dots.ask(a, b, c)
    a1, a2, b1, b2 = (words.view(np.float16)[:, at] for words in (a, b) for at in (0, 1))
    half = (a1 * b1 + a2 * b2).astype(np.float32)
    single = a1.astype(np.float32) * b1.astype(np.float32) + a2.astype(np.float32) * b2.astype(np.float32)
    far = apart(unit, single)
    odd = np.flatnonzero(far)
    example = tuple(float(x[odd[0]]) for x in (half, single, unit)) if len(odd) else None
    rules = every("f16", order.block or max(map(len, order.steps)))
    left, right = (decode("f16", x[:_SHARED]) for x in (a, b))
    passing = sum(bool((apart(units.dot(one.unit("f16"), "f16", left, right, c[:_SHARED]), single[:_SHARED]) < 1 << 23 - BITS).all()) for one in rules)
    return Profile(
        draws, int((apart(unit, half) == 0).sum()), int((far == 0).sum()), int((far < 1 << 23 - BITS).sum()), int(far.max()), example, passing, len(rules),
    )


def drawn(depth: int, draws: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The paper's draws: words of A and B [draws, depth], of which the first two of each are random and the others 0, and zeros [draws]."""
    words = np.random.default_rng(seed).uniform(0, LARGEST, (4, draws)).astype(np.float16)
    a, b = np.zeros((2, draws, depth), np.float16)
    a[:, 0], a[:, 1], b[:, 0], b[:, 1] = words
    return a.view(np.uint16), b.view(np.uint16), np.zeros(draws, np.float32)


def apart(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """By how many FP32 numbers two of one sign differ; of two signs not 0."""
    return np.abs(x.view(np.int32).astype(np.int64) - y.view(np.int32))
