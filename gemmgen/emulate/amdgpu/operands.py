"""Operands: registers, constants, and how they are read."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gemmgen.emulate.core.memory import SHARED_WINDOW

V, A, S = 0, 256, 512
"""First slots of the vector, accumulation and scalar registers."""
VCC, TTMP, M0, EXEC = S + 106, S + 108, S + 124, S + 126
SLOTS = S + 128
NULL = -1
"""In place of a slot: what is written there is lost, what is read is 0."""

DTYPES = {
    "u16": np.dtype(np.uint16), "i16": np.dtype(np.int16), "f16": np.dtype(np.float16), "b16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32), "i32": np.dtype(np.int32), "f32": np.dtype(np.float32), "b32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64), "i64": np.dtype(np.int64), "f64": np.dtype(np.float64), "b64": np.dtype(np.uint64),
}  # fmt: skip

Read = Callable[[Any], np.ndarray]
"""Gives an operand's value in a `Wave`: `[lanes, columns]`, `[columns]` or 0-d."""

_SPECIAL = {
    "vcc": (VCC, 2), "vcc_lo": (VCC, 1), "vcc_hi": (VCC + 1, 1),
    "exec": (EXEC, 2), "exec_lo": (EXEC, 1), "exec_hi": (EXEC + 1, 1),
    "m0": (M0, 1), "null": (NULL, 1),
}  # fmt: skip
_FILES = {"v": V, "a": A, "s": S, "ttmp": TTMP}
_REGISTER = re.compile(r"(v|a|s|ttmp)(?:(\d+)|\[(\d+)(?::(\d+))?\])(?:\.(l|h))?$")
_INTEGER = re.compile(r"-?(0x[0-9a-fA-F]+|\d+)$")
_DECIMAL = re.compile(r"-?\d+\.\d*(e[-+]?\d+)?$")
_SYMBOL = re.compile(r"([A-Za-z_.$][\w.$]*)@(?:rel32|abs32)@(lo|hi)(?:\+\d+)?$")
_APERTURES = {"src_shared_base": SHARED_WINDOW, "src_shared_base_lo": 0, "src_shared_base_hi": SHARED_WINDOW >> 32}
_ONE_OVER_TWO_PI = 0.15915494


def slot_name(slot: int) -> str:
    """As the assembly writes it, for messages."""
    for name, (first, count) in _SPECIAL.items():
        if count == 1 and slot == first:
            return f"register {name}"
    if slot >= TTMP and slot < M0:
        return f"register ttmp{slot - TTMP}"
    letter, first = ("s", S) if slot >= S else ("a", A) if slot >= A else ("v", V)
    return f"register {letter}{slot - first}"


@dataclass(frozen=True)
class Operand:
    """An operand as written.

    Attributes:
        slot: of its first register, None for a constant; count: how many registers.
        constant: an int or float, or None; literal: whether it was written in hexadecimal,
            bits rather than a number.
        half: `l` or `h` where one half of the register is named.
        negated, absolute, extended: its modifiers.
        symbol: half of a variable's address, as (name, `lo` or `hi`).
        select: the byte or word of it that is used, `BYTE_2`; empty for all of it (SDWA).
        moved: from which lane each lane takes it (DPP).
    """

    slot: int | None
    count: int = 1
    constant: int | float | None = None
    literal: bool = False
    half: str = ""
    negated: bool = False
    absolute: bool = False
    extended: bool = False
    symbol: tuple[str, str] | None = None
    select: str = ""
    moved: Movement | None = None

    @property
    def plain(self) -> bool:
        """Whether it is a register as it stands."""
        return self.slot is not None and self.slot != NULL and not self.select and self.moved is None


@lru_cache(1 << 14)  # every kernel has the same registers
def parse_operand(text: str) -> Operand:
    """An operand as written; one with neither register nor constant, if it is something else: a label, `off`."""
    flags = {"negated": False, "absolute": False, "extended": False}
    while True:
        if text.startswith("-") and not (_INTEGER.match(text) or _DECIMAL.match(text)):
            flags["negated"], text = True, text[1:]
        elif text.startswith("|"):
            flags["absolute"], text = True, text.strip("|")
        elif match := re.match(r"(neg|abs|sext)\((.*)\)$", text):
            flags[{"neg": "negated", "abs": "absolute", "sext": "extended"}[match[1]]] = True
            text = match[2]
        else:
            break
    if text in _SPECIAL:
        slot, count = _SPECIAL[text]
        return Operand(slot, count, **flags)
    if match := _REGISTER.match(text):
        first = int(match[2] or match[3])
        last = int(match[4] or first)
        return Operand(_FILES[match[1]] + first, last - first + 1, half=match[5] or "", **flags)
    if _INTEGER.match(text):
        return Operand(None, constant=int(text, 0), literal="x" in text, **flags)
    if _DECIMAL.match(text):
        return Operand(None, constant=float(text), **flags)
    if text in _APERTURES:
        return Operand(None, constant=_APERTURES[text], literal=True, **flags)
    if match := _SYMBOL.match(text):
        return Operand(None, literal=True, symbol=(match[1], match[2]))
    return Operand(None)


def constant(operand: Operand, dtype: np.dtype) -> np.ndarray:
    """A constant as an operand of a type takes it: integers as they are, floating-point numbers in
    the type's own format, literals as bits (of an FP64 operand the upper ones)."""
    value, bits = operand.constant, 8 * dtype.itemsize
    if isinstance(value, float):
        value = 1 / (2 * np.pi) if value == _ONE_OVER_TWO_PI else value
        result = np.array(value, {16: np.float16, 32: np.float32, 64: np.float64}[bits]).view(dtype)
    else:
        if operand.literal and dtype == np.float64:
            value <<= 32
        result = np.array(value & (1 << bits) - 1, f"u{dtype.itemsize}").view(dtype)
    if operand.absolute:
        result = np.abs(result)
    return np.negative(result) if operand.negated else result


# ---------------------------------------------------------------- reading registers

PARTS = {f"BYTE_{i}": (8 * i, 8) for i in range(4)} | {f"WORD_{i}": (16 * i, 16) for i in range(2)}
"""Selections of SDWA: (first bit, bits)."""


class Movement:
    """From which lane each lane takes its first operand (DPP).

    Attributes:
        index: `[lanes, 1]`, the source; valid: `[lanes, 1]` bool, whether there is one.
        enabled: `[lanes, 1]` bool, lanes that take part at all.
        zero: whether lanes without a source read 0; else they are not written.
        inactive: whether lanes that EXEC switches off are sources too.
    """

    def __init__(self, source: np.ndarray, wave: int, rows: int, banks: int, zero: bool, inactive: bool):
        lane = np.arange(wave)
        self.valid = ((source >= 0) & (source < wave))[:, None]
        self.index = np.clip(source, 0, wave - 1)[:, None]
        self.enabled = ((rows >> lane // 16 & 1) & (banks >> lane % 16 // 4 & 1)).astype(bool)[:, None]
        self.zero, self.inactive = zero, inactive

    def source(self, wave) -> np.ndarray:
        """`[lanes, columns]` bool: the lanes that have a source."""
        valid, lanes = np.broadcast_to(self.valid, wave.shape), wave.executed
        if self.inactive or lanes is None:
            return valid
        return valid & np.take_along_axis(lanes, np.broadcast_to(self.index, wave.shape), 0)

    def within(self, run: Callable) -> Callable:
        """The instruction, executed by the lanes that take part and have a source."""

        def moved(wave):
            lanes = wave.executed = wave.lanes
            mask = np.broadcast_to(self.enabled, wave.shape)
            if not self.zero:
                mask = mask & self.source(wave)
            wave.lanes = mask if lanes is None else mask & lanes
            try:
                run(wave)
            finally:
                wave.lanes = lanes

        return moved


def reads(operand: Operand, dtype: np.dtype, half: int) -> Read:
    """How to read a register, or a pair, as a type; it is a fault if what is read is not defined.

    Args:
        half: the one a 16-bit operand is in.
    """
    if not operand.plain:
        read = _reads_picked(reads_loosely(operand), operand.slot, dtype, half)
    elif dtype.itemsize == 8:
        read = _reads_pair(operand.slot, dtype)
    elif dtype.itemsize == 4:
        read = _reads_word(operand.slot, dtype)
    else:
        read = _reads_half(operand.slot, dtype, half)
    return _modified(read, operand, dtype)


def reads_loosely(operand: Operand):
    """How to read a register, or a pair, with what is undefined in it: (value, undefined bits or None)."""
    slot = operand.slot
    if operand.count == 2:
        return lambda wave: _loose_pair(wave, slot)
    if operand.plain:
        return lambda wave: (wave.r[slot], None if wave.state[slot] is None else wave.undefined(slot))
    return _picked(operand)


def _picked(operand: Operand):
    """How to read a word with what is undefined in it, moved between lanes and cut as its modifiers say."""
    slot, moved, select = operand.slot, operand.moved, operand.select

    def read(wave):
        value, undefined = wave.r[slot], None if wave.state[slot] is None else wave.undefined(slot)
        if moved is not None:
            index, source = np.broadcast_to(moved.index, wave.shape), moved.source(wave)
            value = np.where(source, np.take_along_axis(value, index, 0), np.uint32(0))
            if undefined is not None:
                undefined = np.take_along_axis(np.broadcast_to(undefined, wave.shape), index, 0)
                undefined = np.where(source, undefined, np.uint32(0))
        if select:
            value = _cut(value, select, operand.extended)
            undefined = None if undefined is None else _cut(undefined, select, operand.extended)
        return value, undefined

    return read


def _cut(value: np.ndarray, select: str, signed: bool) -> np.ndarray:
    shift, bits = PARTS[select]
    up, down = np.uint32(32 - bits - shift), np.uint32(32 - bits)
    if signed:
        return ((value << up).view(np.int32) >> down.astype(np.int32)).view(np.uint32)
    return value << up >> down


def _reads_picked(pick, slot: int, dtype: np.dtype, high: int) -> Read:
    bits = 0xFFFF << 16 * high if dtype.itemsize == 2 else 0xFFFFFFFF

    def read(wave):
        value, undefined = pick(wave)
        if undefined is not None:
            wave.refuse_undefined(slot, undefined, bits, wave.lanes)
        if dtype.itemsize == 2:
            return (value >> np.uint32(16 * high)).astype(np.uint16).view(dtype)
        return value.view(dtype)

    return read


def _reads_word(slot: int, dtype: np.dtype) -> Read:
    if dtype == np.uint32:

        def plain(wave):
            if wave.state[slot] is not None:
                wave.check(slot)
            return wave.r[slot]

        return plain

    def read(wave):
        if wave.state[slot] is not None:
            wave.check(slot)
        return wave.r[slot].view(dtype)

    return read


def _reads_pair(slot: int, dtype: np.dtype) -> Read:
    high = slot + 1

    def read(wave):
        if wave.state[slot] is not None:
            wave.check(slot)
        if wave.state[high] is not None:
            wave.check(high)
        return join(wave.r[slot], wave.r[high]).view(dtype)

    return read


def _reads_half(slot: int, dtype: np.dtype, high: int) -> Read:
    bits, shift = 0xFFFF << 16 * high, np.uint32(16)

    def read(wave):
        if wave.state[slot] is not None:
            wave.check(slot, bits)
        value = wave.r[slot]
        return (value >> shift if high else value).astype(np.uint16).view(dtype)

    return read


def _modified(read: Read, operand: Operand, dtype: np.dtype) -> Read:
    """With the operand's negation and absolute value, which act on the sign bit."""
    if dtype.kind != "f":
        return read
    if operand.absolute and operand.negated:
        return lambda wave: -np.abs(read(wave))
    if operand.absolute:
        return lambda wave: np.abs(read(wave))
    return (lambda wave: -read(wave)) if operand.negated else read


def join(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Two uint32 as one uint64."""
    return high.astype(np.uint64) << np.uint64(32) | low


def _loose_pair(wave, slot: int):
    parts = [None if wave.state[each] is None else wave.undefined(each) for each in (slot, slot + 1)]
    undefined = None
    if parts[0] is not None or parts[1] is not None:
        undefined = join(*(np.zeros((), np.uint32) if part is None else part for part in parts))
    return join(wave.r[slot], wave.r[slot + 1]), undefined
