"""Which lane holds element (i, j) of an operand, in which register and where in it.

The holder of an element is linear in the bits of lane, register and position
in the register: each bit that is set adds its (row, column) offset. Offsets are
powers of two along one axis, so that the way back is a matter of bits too; that
they cover the tile exactly is proven by each row when it is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Annotated

from pydantic import Field, field_validator

from gemmgen.catalog.fragment.expressions import gathered, linear, linear_with_repeats, source
from gemmgen.catalog.table import Strict

STRIP = 16
"""Columns of a tile that a picture of it shows side by side."""

MAX_EXTENT = 256
"""Of an instruction along one axis; the largest are 256 wide."""

Offset = Annotated[tuple[int, int], Field(strict=False)]


class FragmentMap(Strict):
    """Who holds which element of one operand's tile.

    Attributes:
        lanes: (row, column) added by each bit of the lane index, lowest first.
        registers: likewise for the register index.
        packed: likewise for the position inside a 32-bit register.
        copies: in how many places each element is held, a power of two; bits
            with the offset (0, 0) tell them apart.
        repeats: how often the map stands side by side along the columns, each time in
            the registers that follow.
    """

    lanes: Annotated[tuple[Offset, ...], Field(min_length=5, max_length=7, strict=False)]
    registers: Annotated[tuple[Offset, ...], Field(max_length=8, strict=False)] = ()
    packed: Annotated[tuple[Offset, ...], Field(max_length=2, strict=False)] = ()
    copies: Annotated[int, Field(ge=1, le=32)] = 1
    repeats: Annotated[int, Field(ge=1, le=32, exclude=True)] = 1  # the fragment's shape tells it

    @field_validator("lanes", "registers", "packed")
    @classmethod
    def _single_bits(cls, offsets: tuple[Offset, ...]) -> tuple[Offset, ...]:
        for offset in offsets:
            if min(offset) != 0 or max(offset) & (max(offset) - 1) or max(offset) >= MAX_EXTENT:
                raise ValueError(f"offsets of a power of two below {MAX_EXTENT} along one axis, or (0, 0) for a copy; {offset} is neither")
        return offsets

    @property
    def register_count(self) -> int:
        return self.repeats << len(self.registers)

    @property
    def width(self) -> int:
        """Columns that one repeat covers."""
        return 1 << sum(column > 0 for _, column in self.lanes + self.registers + self.packed)

    @property
    def packed_count(self) -> int:
        return 1 << len(self.packed)

    @property
    def elements(self) -> int:
        """How many elements a lane holds; `index` counts them, positions in a register first."""
        return self.register_count * self.packed_count

    @property
    def lane_copies(self) -> int:
        """How many lanes hold each element."""
        return 1 << self.lanes.count((0, 0))

    def element(self, lane: int, register: int, packed: int = 0) -> tuple[int, int]:
        """Row and column of what `lane` holds there."""
        row = column = 0
        for bits, index in ((self.lanes, lane), (self.registers, register), (self.packed, packed)):
            for position, (d_row, d_column) in enumerate(bits):
                if index >> position & 1:
                    row, column = row + d_row, column + d_column
        return row, column + (register >> len(self.registers)) * self.width

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

    def grid(self, rows: int, columns: int) -> list[str]:
        """The tile row by row, each element as `lane:index` of its first holder; wide tiles in strips."""
        def cell(i: int, j: int) -> str:
            lane, register, packed = self.map(i, j)[0]
            return f"{lane:>2}:{register * self.packed_count + packed}"

        cells = [[cell(i, j) for j in range(columns)] for i in range(rows)]
        width = max(len(text) for row in cells for text in row)
        lines: list[str] = []
        for first in range(0, columns, STRIP):
            lines += ["", f"columns {first} to {first + STRIP - 1}"] if columns > STRIP else []
            lines += [" ".join(text.ljust(width) for text in row[first : first + STRIP]).rstrip() for row in cells]
        return lines[1:] if columns > STRIP else lines

    def prove(self, rows: int, columns: int) -> str | None:
        """None when every element of [rows, columns] is held `copies` times, else the complaint."""
        if self._adds_each_bit_once(rows, columns):
            return None
        wanted = {(i, j) for i in range(rows) for j in range(columns)}
        if set(self._holders) != wanted:
            odd = sorted(set(self._holders) ^ wanted)[0]
            return f"covers another tile than {rows}x{columns}; element {odd} is wrong"
        for element, holders in self._holders.items():
            if len(holders) != self.copies:
                return f"element {element} is held {len(holders)} times, not {self.copies}"
        return None

    def _adds_each_bit_once(self, rows: int, columns: int) -> bool:
        """Whether each bit of a row and of a column is one bit's offset, and the bits left over count the copies.

        That is the same as holding every element so often, and quick to see for a table of them.
        """
        offsets = self.lanes + self.registers + self.packed
        extents = []
        for axis in (0, 1):
            bits = sorted(offset[axis] for offset in offsets if offset[axis])
            if bits != [1 << bit for bit in range(len(bits))]:
                return False
            extents.append(1 << len(bits))
        return (extents[0], extents[1] * self.repeats) == (rows, columns) and 1 << offsets.count((0, 0)) == self.copies

    def lane_expression(self, axis: int) -> str:
        """The lane's own part of the row (axis 0) or column (axis 1), as C."""
        return linear(self.lanes, axis, "lane")

    def lane_chunk(self, axis: int, elements: int) -> str:
        """The lane's own part of the row or column, counted in chunks of so many elements, as C."""
        return linear(tuple(tuple(one // elements for one in offset) for offset in self.lanes), axis, "lane")

    def register_expression(self, axis: int) -> str:
        """The part of the register `r`, likewise."""
        return linear_with_repeats(self.registers, axis, "r", self.repeats, self.width)

    @property
    def row_bits(self) -> int:
        """Which bits of the register `r` say the row; the others say the column."""
        return sum(1 << bit for bit, (row, _) in enumerate(self.registers) if row)

    @property
    def holds_pairs(self) -> bool:
        """Whether a lane holds each column of even number and the one to its right in two registers that follow one another."""
        return self.registers[:1] == ((0, 1),)

    def index_expression(self, axis: int) -> str:
        """The part of `index`, register and position in one number, likewise."""
        return linear_with_repeats(self.packed + self.registers, axis, "index", self.repeats, self.width)

    def holder_expressions(self) -> tuple[str, str]:
        """The lane and the index that hold copy `copy` of element (i, j), as C."""
        copies = iter(range(self.copies.bit_length() - 1))
        lane, index = (
            gathered([source(offset, copies) for offset in offsets], self._axis_bits)
            for offsets in (self.lanes, self.packed + self.registers)
        )
        if self.repeats > 1:
            index += f" + (j >> {self.width.bit_length() - 1}) * {self.elements // self.repeats}"
        return lane, index

    @property
    def _axis_bits(self) -> dict[str, int]:
        """How many bits each of i, j and copy has."""
        offsets = self.lanes + self.packed + self.registers
        return {
            "i": sum(row > 0 for row, _ in offsets),
            "j": sum(column > 0 for _, column in offsets) + (self.repeats > 1),  # others above these, too
            "copy": self.copies.bit_length() - 1,
        }
