"""Word formats and rounding rules, as the numbers everything else derives from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

UnitWord = Literal["f16", "bf16", "tf32", "s8", "e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz"]
"""Words that matrix units multiply: keys of `FORMATS`, but for `s8`, a key of `INTEGERS`."""
WordType = Literal["f16", "bf16", "tf32", "s8", "e4m3", "e5m2", "f32"]
"""Words of a scheme: those that kernels split into, and FP32 itself for kernels without a matrix unit."""
Rounding = Literal["nearest_even", "toward_zero", "round_split"]


@dataclass(frozen=True)
class Format:
    """A binary floating-point format.

    Attributes:
        fraction_bits: explicit bits after the binary point.
        min_exponent: exponent of the smallest normal number.
        max_exponent: exponent of the largest finite number.
        bytes: storage of one word.
        specials: what is no number. `ieee`: Inf and NaN have the exponent above the largest; `nan`: there is no Inf, and
            the largest magnitude of either sign is the NaN; `unsigned_zero`: there is no Inf and no -0, whose bits are the NaN.
        saturates: whether conversions give the largest finite number, and not Inf, to what is larger.
    """

    fraction_bits: int
    min_exponent: int
    max_exponent: int
    bytes: int
    specials: Literal["ieee", "nan", "unsigned_zero"] = "ieee"
    saturates: bool = False

    @property
    def largest(self) -> float:
        ulps = 2 if self.specials == "nan" else 1  # below the next power of two
        return (2.0 - ulps * 2.0**-self.fraction_bits) * 2.0**self.max_exponent

    @property
    def bias(self) -> int:
        """What the exponent field holds of the number 1."""
        return 1 - self.min_exponent


FORMATS: dict[str, Format] = {
    "f16": Format(10, -14, 15, 2),
    "bf16": Format(7, -126, 127, 2),
    "tf32": Format(10, -126, 127, 4),
    "f32": Format(23, -126, 127, 4),
    # OCP 8-bit Floating Point Specification (OFP8), of NVIDIA's GPUs and gfx950
    "e4m3": Format(3, -6, 8, 1, "nan", saturates=True),
    "e5m2": Format(2, -14, 15, 1, saturates=True),
    # gfx942's: AMD Instinct MI300 ISA guide, fp8 and bf8; the bias is one more than OCP's
    "e4m3fnuz": Format(3, -7, 7, 1, "unsigned_zero", saturates=True),
    "e5m2fnuz": Format(2, -15, 15, 1, "unsigned_zero", saturates=True),
}


@dataclass(frozen=True)
class Integer:
    """Two's complement integers: words whose products are exact, or their sums, which wrap around.

    No `Format`: there is no exponent, so that a word's last place is 1 whatever its size, and no special value.

    Attributes:
        bits: of storage, with the sign.
    """

    bits: int

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def least(self) -> int:
        return -(1 << self.bits - 1)

    @property
    def largest(self) -> int:
        """Also what conversions clamp to on both sides where they keep zero in the middle: [-127, 127] of s8."""
        return (1 << self.bits - 1) - 1


INTEGERS: dict[str, Integer] = {"s8": Integer(8), "s32": Integer(32)}
"""`s8` is a word; `s32` is what products of such words are summed in."""


def word_bytes(word: str) -> int:
    """Storage of one word of any type."""
    return (INTEGERS.get(word) or FORMATS[word]).bytes


def sum_type(word: str) -> Literal["f32", "s32"]:
    """What matrix units sum products of such words in."""
    return "s32" if word in INTEGERS else "f32"


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
