"""Matrix instructions: shape, types, and which lane holds element (i, j) where.

The holder of an element is linear in the bits of lane, register and packed
half: each bit that is set adds its (row, column) offset. Powers of two that
cover the tile exactly make the map a bijection, which each row proves when it
is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gemmgen.catalog.number import WordType
from gemmgen.catalog.table import Row, Strict, Table

Offset = Annotated[tuple[int, int], Field(strict=False)]


class FragmentMap(Strict):
    """Who holds which element of one operand's tile.

    Attributes:
        lanes: (row, column) added by each bit of the lane index, lowest first.
        registers: likewise for the register index.
        packed: likewise for the position inside a 32-bit register.
        copies: in how many places each element is held.
    """

    lanes: Annotated[tuple[Offset, ...], Field(min_length=5, max_length=6, strict=False)]
    registers: Annotated[tuple[Offset, ...], Field(strict=False)] = ()
    packed: Annotated[tuple[Offset, ...], Field(strict=False)] = ()
    copies: Annotated[int, Field(ge=1, le=2)] = 1

    @property
    def register_count(self) -> int:
        return 1 << len(self.registers)

    @property
    def packed_count(self) -> int:
        return 1 << len(self.packed)

    def element(self, lane: int, register: int, packed: int = 0) -> tuple[int, int]:
        """Row and column of what `lane` holds there."""
        row = column = 0
        for bits, index in ((self.lanes, lane), (self.registers, register), (self.packed, packed)):
            for position, (d_row, d_column) in enumerate(bits):
                if index >> position & 1:
                    row, column = row + d_row, column + d_column
        return row, column

    def foreach_ij(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Every held element as (lane, register, packed, i, j) (WMMAe `foreach_ij`)."""
        for lane in range(1 << len(self.lanes)):
            for register in range(self.register_count):
                for packed in range(self.packed_count):
                    yield (lane, register, packed, *self.element(lane, register, packed))

    @cached_property
    def _holders(self) -> dict[tuple[int, int], list[tuple[int, int, int]]]:
        table: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        for lane, register, packed, i, j in self.foreach_ij():
            table.setdefault((i, j), []).append((lane, register, packed))
        return table

    def map(self, i: int, j: int) -> list[tuple[int, int, int]]:
        """The holders (lane, register, packed) of element (i, j) (WMMAe `map`)."""
        return self._holders[i, j]

    def prove(self, rows: int, columns: int) -> str | None:
        """None when every element of [rows, columns] is held `copies` times, else the complaint."""
        wanted = {(i, j) for i in range(rows) for j in range(columns)}
        if set(self._holders) != wanted:
            odd = sorted(set(self._holders) ^ wanted)[0]
            return f"covers another tile than {rows}x{columns}; element {odd} is wrong"
        for element, holders in self._holders.items():
            if len(holders) != self.copies:
                return f"element {element} is held {len(holders)} times, not {self.copies}"
        return None

    def lane_expression(self, axis: int) -> str:
        """The lane's own part of the row (axis 0) or column (axis 1), as C."""
        return _linear(self.lanes, axis, "lane")

    def register_expression(self, axis: int) -> str:
        """The part of the register `r`, likewise."""
        return _linear(self.registers, axis, "r")


def _linear(offsets: tuple[tuple[int, int], ...], axis: int, name: str) -> str:
    """A sum of bit fields as C.

    Bits that continue one another with doubling strides are taken together:
    `(lane >> 2)`, `(lane & 3) * 2`.
    """
    terms: list[str] = []
    bits = [(position, offset[axis]) for position, offset in enumerate(offsets) if offset[axis]]
    while bits:
        first, stride = bits[0]
        length = 1
        while length < len(bits) and bits[length] == (first + length, stride << length):
            length += 1
        bits = bits[length:]
        term = f"{name} >> {first}" if first else name
        if first + length < len(offsets):
            term = f"({term})" if first else term
            term = f"{term} & {(1 << length) - 1}"
        terms.append((f"({term})" if " " in term else term) + (f" * {stride}" if stride > 1 else ""))
    return " + ".join(terms) or "0"


class Fragment(Row):
    """One matrix instruction D = A B + C on tiles A [m, k], B [k, n], C [m, n].

    Attributes:
        vendor: whose instruction it is.
        policy: the programming interface: `mma` is one `mma.sync`.
        min_arch: the first sm_ number that has it.
        instruction: its mnemonic as the compiler's assembly prints it.
        shape: (m, n, k).
        word: type of A and B; the accumulator is FP32.
        a, b, c: the maps, over (m, k), (k, n) and (m, n).
    """

    vendor: Literal["nvidia"]
    policy: Literal["mma"]
    min_arch: int
    instruction: str
    shape: Annotated[tuple[int, int, int], Field(strict=False)]
    word: WordType
    a: FragmentMap
    b: FragmentMap
    c: FragmentMap

    @model_validator(mode="after")
    def _maps_cover(self) -> Fragment:
        m, n, k = self.shape
        for label, held, rows, columns in (("a", self.a, m, k), ("b", self.b, k, n), ("c", self.c, m, n)):
            complaint = held.prove(rows, columns)
            if complaint:
                raise ValueError(f"a map of {label} that covers its tile; this one {complaint}")
        return self

    @property
    def shape_name(self) -> str:
        m, n, k = self.shape
        return f"m{m}n{n}k{k}"


FRAGMENTS = Table("fragment", "fragments", Fragment)


def shapes(vendor: str, word: str) -> dict[str, Fragment]:
    """The instructions of a vendor for a word type, by shape name."""
    return {
        row.shape_name: row for row in FRAGMENTS.rows() if row.vendor == vendor and row.word == word
    }
