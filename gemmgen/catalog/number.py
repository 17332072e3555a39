"""Word formats and rounding rules, as the numbers everything else derives from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

UnitWord = Literal["f16", "bf16", "tf32"]
"""Words that matrix units multiply."""
WordType = Literal["f16", "bf16", "tf32", "f32"]
"""Words of a scheme: those, and FP32 itself for kernels without a matrix unit."""
Rounding = Literal["nearest_even", "toward_zero", "round_split"]


@dataclass(frozen=True)
class Format:
    """A binary floating-point format.

    Attributes:
        fraction_bits: explicit bits after the binary point.
        min_exponent: exponent of the smallest normal number.
        max_exponent: exponent of the largest finite number.
        bytes: storage of one word.
    """

    fraction_bits: int
    min_exponent: int
    max_exponent: int
    bytes: int

    @property
    def largest(self) -> float:
        return (2.0 - 2.0**-self.fraction_bits) * 2.0**self.max_exponent


FORMATS: dict[str, Format] = {
    "f16": Format(10, -14, 15, 2),
    "bf16": Format(7, -126, 127, 2),
    "tf32": Format(10, -126, 127, 4),
    "f32": Format(23, -126, 127, 4),
}


@dataclass(frozen=True)
class RoundingRule:
    """What one rounding leaves behind, in units in the last place of the word.

    Attributes:
        worst: largest |x - word|, in ulp.
        mean: expected (x - word) / ulp in the direction of x; not 0 when biased.
        rms: root mean square of (x - word), in ulp, for uniform low bits.
        text: the rule in words.
    """

    worst: float
    mean: float
    rms: float
    text: str


_UNIFORM = 3.0**-0.5

ROUNDINGS: dict[str, RoundingRule] = {
    "nearest_even": RoundingRule(0.5, 0.0, 0.5 * _UNIFORM, "to nearest, ties to even"),
    "toward_zero": RoundingRule(1.0, 0.5, _UNIFORM, "toward zero; saturates at the largest finite word"),
    # The bit looked at lies far below the cut, so it says nothing about the
    # remainder: half of the remainders are replaced by (remainder - 1 ulp).
    "round_split": RoundingRule(
        1.0, 0.0, _UNIFORM,
        "cut to the word's bits, then one ulp away from zero if bit 21 of the FP32 mantissa is set",
    ),
}
