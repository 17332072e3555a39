"""A fragment's map as C: what a kernel computes of a lane or register number to know its row and column, and the way back."""

from __future__ import annotations

from collections.abc import Iterator

Offsets = tuple[tuple[int, int], ...]
"""(row, column) added by each bit of a number, lowest first."""


def linear(offsets: Offsets, axis: int, name: str) -> str:
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
        term = field(name, first, length, len(offsets))
        terms.append(term + (f" * {stride}" if stride > 1 else ""))
    return " + ".join(terms) or "0"


def linear_with_repeats(offsets: Offsets, axis: int, name: str, repeats: int, width: int) -> str:
    """The same of a number whose lowest bits count inside one repeat and the others repeats, `width` columns apart."""
    if repeats == 1:
        return linear(offsets, axis, name)
    inside = linear((*offsets, (0, 0)), axis, name)  # a bit more: there are others above these
    if axis == 0:
        return inside
    beside = f"({name} >> {len(offsets)}) * {width}"
    return beside if inside == "0" else f"{inside} + {beside}"


def field(name: str, first: int, length: int, width: int) -> str:
    """`length` bits from bit `first` on of a number of `width` bits, as C, in brackets where it must be."""
    term = f"{name} >> {first}" if first else name
    if first + length < width:
        term = f"({term})" if first else term
        term = f"{term} & {(1 << length) - 1}"
    return f"({term})" if " " in term else term


def source(offset: tuple[int, int], copies: Iterator[int]) -> tuple[str, int]:
    """The coordinate and its bit that decide the bit of lane or index with this offset."""
    row, column = offset
    if row or column:
        return ("i", row.bit_length() - 1) if row else ("j", column.bit_length() - 1)
    return "copy", next(copies)


def gathered(sources: list[tuple[str, int]], widths: dict[str, int]) -> str:
    """A number whose bit p is bit sources[p], as C; runs of bits are taken together."""
    terms: list[str] = []
    position = 0
    while position < len(sources):
        name, first = sources[position]
        length = 1
        while sources[position + length : position + length + 1] == [(name, first + length)]:
            length += 1
        term = field(name, first, length, widths[name])
        terms.append(term + (f" * {1 << position}" if position else ""))
        position += length
    return " + ".join(reversed(terms)) or "0"
