"""Matrix units as numerical devices: how one rounds while it accumulates.

The rule of NVIDIA's units (measured on hardware; see tests/data): the exact
products of one block and the accumulator are aligned to the largest exponent
among them, each is truncated to `fraction_bits`, they are summed exactly, and
the sum is rounded toward zero to FP32. A k longer than the block is worked off
block by block, each block's result being the next one's accumulator.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gemmgen.catalog.number import UnitWord
from gemmgen.catalog.table import Row, Table


class MatrixUnit(Row):
    """Numerical behaviour of one generation of matrix units.

    Attributes:
        rule: the family of arithmetic; `truncate` is the rule above.
        fraction_bits: bits kept after the binary point when terms are aligned
            (23 would be FP32's own; Ampere keeps 24, Hopper 25).
        block: for each word type, how many products are summed at once.
        verified: what the row was checked against, or empty when it was not;
            reports then say "unverified".
        unverified_words: word types that this check did not cover.
    """

    rule: Literal["truncate"]
    fraction_bits: Annotated[int, Field(ge=20, le=40)]
    block: dict[UnitWord, Annotated[int, Field(ge=1, le=64)]]
    verified: str
    unverified_words: Annotated[tuple[UnitWord, ...], Field(strict=False)] = ()

    def label(self, word: str | None = None) -> str:
        """The name, and whether the row was checked: for `word`, or for any word at all."""
        checked = self.verified and word not in self.unverified_words
        return self.name if checked else f"{self.name}, unverified"


UNITS = Table("matrix unit", "units", MatrixUnit)
