"""Matrix units as numerical devices: how one rounds while it accumulates.

A k longer than a unit's block is worked off block by block, each block's result
being the next one's accumulator. What happens within a block is the row's `rule`:

- `truncate` (NVIDIA, measured on hardware; see tests/data): the exact products and the
  accumulator are aligned to the largest exponent among them, each is truncated to
  `fraction_bits`, they are summed exactly, and the sum is rounded toward zero to FP32.
- `floor` (CDNA 3): the exact products are aligned to the largest exponent among them,
  truncated to `fraction_bits` and summed exactly; the sum and the accumulator are aligned
  to the larger of their exponents and cut downwards, the accumulator to `fraction_bits`;
  their sum is rounded to nearest.
- `tree` (CDNA 2): FP32 arithmetic to nearest: products, sums of neighbours, sums of those,
  and the last one onto the accumulator.
- `exact` (CDNA 1): products and accumulator are summed exactly and rounded to nearest once.

The AMD rules are those that MMA-Sim (arXiv 2511.10909) publishes.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gemmgen.catalog.number import UnitWord
from gemmgen.catalog.table import Prose, Row, Table, Title

ALIGNING = ("truncate", "floor")
"""Rules that align terms and cut them; the others round as FP32 arithmetic does."""


class MatrixUnit(Row):
    """Numerical behaviour of one generation of matrix units.

    Attributes:
        rule: the family of arithmetic, one of those above.
        fraction_bits: bits kept after the binary point when terms are aligned
            (23 would be FP32's own; Ampere keeps 24, Hopper 25); of the rules that align.
        block: for each word type, how many products are summed at once.
        flushes_subnormals: whether subnormal words, and subnormal FP32 numbers on the way,
            count as zero.
        verified: what the row was checked against, or empty when it was not;
            reports then say `unchecked`.
        unverified_words: word types that this check did not cover.
        unchecked: what an unchecked row rests on, where there is more to say than "unverified".
    """

    rule: Literal["truncate", "floor", "tree", "exact"]
    fraction_bits: Annotated[int, Field(ge=20, le=40)] | None = None
    block: dict[UnitWord, Annotated[int, Field(ge=1, le=64)]]
    flushes_subnormals: bool | None = None
    verified: Prose
    unverified_words: Annotated[tuple[UnitWord, ...], Field(strict=False)] = ()
    unchecked: Title | None = None

    @model_validator(mode="after")
    def _consistent(self) -> MatrixUnit:
        if (self.fraction_bits is not None) != (self.rule in ALIGNING):
            raise ValueError(f"fraction_bits with the rules that align, {' and '.join(ALIGNING)}, and with no other")
        if self.flushes_subnormals and self.rule != "tree":
            raise ValueError("flushes_subnormals with rule tree, of which alone it is known")
        if self.verified and self.unchecked:
            raise ValueError("verified or unchecked, not both")
        return self

    @property
    def rounds_to_nearest(self) -> bool:
        """Whether the accumulator is rounded to nearest, and not cut."""
        return self.rule != "truncate"

    def checked(self, word: str | None = None) -> bool:
        """Whether the row was checked against hardware: for `word`, or for any word at all."""
        return bool(self.verified) and word not in self.unverified_words

    def label(self, word: str | None = None) -> str:
        """The name, and whether the row was checked: for `word`, or for any word at all."""
        return self.name if self.checked(word) else f"{self.name}, {self.unchecked or 'unverified'}"


UNITS = Table("matrix unit", "units", MatrixUnit)
