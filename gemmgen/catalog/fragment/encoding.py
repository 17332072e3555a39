"""What instructions are told in words of bits: where an operand lies in shared memory, and which types and extents it has."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gemmgen.catalog.fragment.map import MAX_EXTENT
from gemmgen.catalog.table import Strict

_Lowest, _Width = Annotated[int, Field(ge=0, lt=64)], Annotated[int, Field(gt=0, le=32)]
_Code, _Unit = Annotated[int, Field(ge=0, lt=1 << 32)], Annotated[int, Field(gt=0, le=MAX_EXTENT)]
BitField = Annotated[tuple[_Lowest, _Width], Field(strict=False)]
CodeField = Annotated[tuple[_Lowest, _Width, _Code], Field(strict=False)]
ExtentField = Annotated[tuple[_Lowest, _Width, _Unit], Field(strict=False)]


class Descriptor(Strict):
    """The 64 bits that tell a matrix instruction where and how an operand lies in shared memory.

    Attributes:
        address, leading, stride, swizzle: (lowest bit, width) of each field; the first three
            hold bytes / 16.
        rows: of k contiguous rows, as many lie `stride` bytes before the next as many.
        swizzles: row bytes -> what the swizzle field says: the 16-byte chunk bits of an address
            are xored with the bits that count its 128-byte lines.
        fixed: (lowest bit, width, value) of a field that always says the same.
    """

    address: BitField
    leading: BitField
    stride: BitField
    swizzle: BitField
    rows: Annotated[int, Field(gt=0, le=64)]
    swizzles: dict[Literal["128", "64", "32"], Annotated[int, Field(ge=1, le=7)]]
    fixed: CodeField | None = None

    @model_validator(mode="after")
    def _apart(self) -> Descriptor:
        _disjoint({name: getattr(self, name) for name in ("address", "leading", "stride", "swizzle", "fixed") if getattr(self, name)}, 64)
        if any(code >> self.swizzle[1] for code in self.swizzles.values()) or self.fixed and self.fixed[2] >> self.fixed[1]:
            raise ValueError("codes that fit their fields")
        if len(set(self.swizzles.values())) != len(self.swizzles):
            raise ValueError("a code of its own for each swizzle")
        for row_bytes in map(int, self.swizzles):
            for phase in range(row_bytes // 16):
                lines = {self.place(row, phase, row_bytes) % 128 // 16 for row in range(self.rows)}
                if len(lines) != self.rows:
                    raise ValueError(f"swizzles that keep eight neighbouring rows apart; that of {row_bytes} bytes does not")
        return self

    @staticmethod
    def place(row: int, chunk: int, row_bytes: int) -> int:
        """Byte at which the unit looks for 16-byte chunk `chunk` of row `row`: its own way of swizzling addresses."""
        at = row * row_bytes + chunk * 16
        return at ^ (at >> 7) % (row_bytes // 16) << 4

    def constant(self, row_bytes: int) -> int:
        """All of the 64 bits but the address, for tiles of such rows."""
        fields = ((self.leading, 1), (self.stride, self.rows * row_bytes >> 4), (self.swizzle, self.swizzles[str(row_bytes)]))
        at, _, fixed = self.fixed or (0, 0, 0)
        return sum(value << low for (low, _), value in fields) | fixed << at


def _disjoint(fields: dict[str, tuple[int, ...]], width: int) -> None:
    """Fields, each (lowest bit, width, ...), lie beside one another in a word of `width` bits."""
    taken = 0
    for name, (low, bits, *_) in fields.items():
        field = (1 << bits) - 1 << low
        if taken & field or field >> width:
            raise ValueError(f"fields of {width} bits that do not overlap; {name} does")
        taken |= field


class InstructionWord(Strict):
    """The 32 bits that tell an instruction of one mnemonic its types and extents.

    Attributes:
        d, a, b: (lowest bit, width, code) of the operands' types.
        m, n: (lowest bit, width, unit): the field holds the extent / unit.
    """

    d: CodeField
    a: CodeField
    b: CodeField
    m: ExtentField
    n: ExtentField

    @model_validator(mode="after")
    def _apart(self) -> InstructionWord:
        _disjoint({name: getattr(self, name) for name in "dabmn"}, 32)
        if any(code >> width for _, width, code in (self.d, self.a, self.b)):
            raise ValueError("codes that fit their fields")
        return self

    def value(self, m: int, n: int) -> int:
        """The word of the instruction that multiplies [m, k] by [k, n], both with k contiguous.

        Raises:
            ValueError: the fields cannot say such an extent.
        """
        word = sum(code << low for low, _, code in (self.d, self.a, self.b))
        for extent, (low, width, unit) in ((m, self.m), (n, self.n)):
            if extent % unit or extent // unit >> width:
                raise ValueError(f"extents that fit the instruction's fields; {extent} does not")
            word |= extent // unit << low
        return word
