"""What instructions that compute lane by lane have in common: reading operands,
writing results, modifiers, and undefined bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gemmgen.emulate.amdgpu.decode import Cursor
from gemmgen.emulate.amdgpu.operands import DTYPES, NULL, S, Read, slot_name
from gemmgen.emulate.core.memory import Fault

ALL = np.uint32(0xFFFFFFFF)
_HIGH, _LOW = np.uint32(0xFFFF0000), np.uint32(0x0000FFFF)
_SIXTEEN, _32 = np.uint32(16), np.uint64(32)


class Elementwise:
    """An instruction that computes lane by lane, in two steps, so that the halves of a dual
    instruction can both read before either writes.

    Args:
        compute: (wave) -> value; write: (wave, value).
    """

    __slots__ = ("compute", "write")

    def __init__(self, compute: Callable, write: Callable):
        self.compute, self.write = compute, write

    def __call__(self, wave) -> None:
        self.write(wave, self.compute(wave))


# ---------------------------------------------------------------- results


def writes(cursor: Cursor, index: int, type_: str, high: int = 0) -> Callable:
    """How to write a result of a type into the registers that operand `index` names.

    Args:
        high: whether a 16-bit result goes to the upper half, where the name does not tell.
    """
    size = DTYPES[type_].itemsize
    if size == 8:
        slot = cursor.slot(index, 2)
        return lambda wave, value: put_pair(wave, slot, value.view(np.uint64))
    slot, put = cursor.slot(index), cursor.put(index)
    if size == 4:
        return lambda wave, value: put(wave, value.view(np.uint32))
    high = high or int(cursor.operands[index].half == "h")
    if slot >= S or cursor.into or (cursor.target.zeroes_high_half and not high):
        return lambda wave, value: put(wave, value.view(np.uint16).astype(np.uint32))
    return lambda wave, value: put_half(wave, slot, value.view(np.uint16), high)


def put_pair(wave, slot: int, value: np.ndarray, undefined: np.ndarray | None = None) -> None:
    """Write uint64 to two registers."""
    if slot == NULL:
        return
    low, high = value.astype(np.uint32), (value >> _32).astype(np.uint32)
    if undefined is None:
        wave.put(slot, low)
        wave.put(slot + 1, high)
    else:
        wave.put(slot, low, undefined.astype(np.uint32))
        wave.put(slot + 1, high, (undefined >> _32).astype(np.uint32))


def put_half(wave, slot: int, value: np.ndarray, high: int) -> None:
    """Write uint16 to one half of a register; the other stays."""
    old = wave.undefined(slot) if wave.state[slot] is not None else None
    keep = _LOW if high else _HIGH
    word = value.astype(np.uint32)
    word = word << _SIXTEEN if high else word
    wave.put(slot, wave.r[slot] & keep | word, None if old is None else old & keep)


# ---------------------------------------------------------------- strict instructions


def elementwise(
    cursor: Cursor, function: Callable, types: Sequence[str], out: str = "u32", first: int = 1,
    halves: Sequence[int] = (), high: int = 0,
) -> Elementwise:
    """An instruction whose operands must be defined.

    Args:
        function: of the operands' arrays, gives the result's.
        types: of the operands, which begin with number `first`; out: of the result, which is operand 0.
        halves, high: which half 16-bit operands are read from, and the result is written to.
    """
    halves = tuple(halves) or (0,) * len(types)
    reads = [cursor.read(first + i, type_, half) for i, (type_, half) in enumerate(zip(types, halves, strict=True))]
    return Elementwise(called(function, reads), writes(cursor, 0, out, high))


def called(function: Callable, reads: Sequence[Read]) -> Callable:
    """`function` of what is read."""
    if len(reads) == 1:
        (read,) = reads
        return lambda wave: function(read(wave))
    if len(reads) == 2:  # by far the most frequent
        left, right = reads
        return lambda wave: function(left(wave), right(wave))
    return lambda wave: function(*[read(wave) for read in reads])


# ---------------------------------------------------------------- instructions that carry undefined bits along


def shuffled(function: Callable, undefined: list, values: list) -> np.ndarray:
    """Undefined bits of a function each of whose result bits rises, or falls, with each bit of its
    operands: those that differ between undefined bits all 0 and all 1."""
    low = [x if u is None else x & ~u for x, u in zip(values, undefined, strict=True)]
    high = [x if u is None else x | u for x, u in zip(values, undefined, strict=True)]
    return function(*low) ^ function(*high)


def either(function: Callable, undefined: list, values: list) -> np.ndarray:
    """Undefined bits of a function that mixes bits in one place, as exclusive or does."""
    total = np.zeros((), values[0].dtype)
    for u in undefined:
        total = total if u is None else total | u
    return total


def carried(function: Callable, undefined: list, values: list) -> np.ndarray:
    """Undefined bits of a sum or product: everything from the lowest undefined bit upwards."""
    total = either(function, undefined, values)
    return total | (~total + total.dtype.type(1))


def loose(
    cursor: Cursor, function: Callable, types: Sequence[str], rule: Callable = shuffled, out: str = "u32", first: int = 1,
) -> Elementwise:
    """An instruction that carries undefined bits along.

    Args:
        function: as for `elementwise`, of unsigned operands.
        types: `u32`, `u64`; or with `!` an operand that must be defined.
        rule: (function, undefined bits, values) -> undefined bits of the result. Under `carried` an
            operand none of whose bits is defined is a fault: nothing has written it.
    """
    strict = [type_.endswith("!") for type_ in types]
    reads = [
        _strictly(cursor.read(first + i, type_[:-1])) if only else cursor.loose(first + i, type_)
        for i, (type_, only) in enumerate(zip(types, strict, strict=True))
    ]
    slots = [cursor.operands[first + i].slot for i in range(len(types))]
    wide = DTYPES[out].itemsize == 8
    slot = cursor.slot(0, 2) if wide else None
    put = None if wide else cursor.put(0)

    def compute(wave):
        values, undefined = [], []
        clean = True
        for read in reads:
            value, bits = read(wave)
            values.append(value)
            undefined.append(bits)
            clean = clean and bits is None
        if clean:
            return function(*values), None
        if rule is carried:
            _refuse_unwritten(wave, slots, undefined)
        if not wide and any(value.dtype.itemsize == 8 for value in values):  # the low word of a wider result
            return function(*values), rule(function, undefined, values).astype(np.uint32)
        return function(*values), rule(function, undefined, values)

    if wide:
        return Elementwise(compute, lambda wave, result: put_pair(wave, slot, *result))
    return Elementwise(compute, lambda wave, result: put(wave, *result))


def _strictly(read: Read) -> Callable:
    return lambda wave: (read(wave), None)


def _refuse_unwritten(wave, slots: Sequence[int | None], undefined: list) -> None:
    for slot, bits in zip(slots, undefined, strict=True):
        if bits is None:
            continue
        wrong = bits == ~bits.dtype.type(0)
        lanes = wave.lanes if slot < S else wave.columns
        wrong = wrong if lanes is None else wrong & lanes
        if wrong.any():
            raise Fault(f"{slot_name(slot)} is read, which nothing has written", lane=wave.first_of(wrong))
