"""Matrix instructions: which lane holds what, and the product on the matrix unit.

The maps are AMD's (instruction set guides of CDNA 2, 3, 4 and RDNA 3, 4, chapters on
matrix arithmetic; AMD's matrix instruction calculator). They are written down here
apart from the catalogue's rows, from which kernels are made, so that an error in one
of the two shows as a wrong product. With l the lane, r the register, e the position
among the words of a lane's registers, lowest first:

MFMA, M = N = 16 or 32, 64 lanes in 64 / M groups g = l / M:

    A    row l % M,  k = words * g + e      B    column l % M,  k = words * g + e
    C    row 4 * (64 / M) * (r / 4) + 4 * g + r % 4,  column l % M

WMMA, 16 x 16, 32 lanes in two halves h = l / 16:

    RDNA 3   A   row l % 16,  k = e, the same in both halves      B   likewise
             C   row 2 * r + h,  column l % 16
    RDNA 4   A   row l % 16,  k = 8 * h + e of 8 bits,            B   likewise
                              8 * (e / 4) + 4 * h + e % 4 of 16
             C   row 8 * h + r,  column l % 16

Floating-point products are the matrix unit's (`units`); those of integers are exact,
and their sum wraps at 32 bits unless it is asked to stop there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gemmgen.catalog.number import word_bytes
from gemmgen.emulate.amdgpu.decode import Cursor, instruction
from gemmgen.emulate.amdgpu.operands import NULL, S
from gemmgen.emulate.core import units
from gemmgen.emulate.core.memory import Fault

U32, I32 = np.dtype(np.uint32), np.dtype(np.int32)

@dataclass(frozen=True)
class Shape:
    """A matrix instruction.

    Attributes:
        m, k: it multiplies `[m, k]` by `[k, m]`; word: the type of A and B.
        words: of A, or of B, that a lane holds.
        block: products summed at once, where that is not what the matrix unit's row says.
    """

    m: int
    k: int
    word: str
    words: int
    block: int | None = None

    @property
    def registers(self) -> int:
        return self.words * self.dtype.itemsize // 4

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(f"u{word_bytes(self.word)}")


def _mfma(m: int, k: int, word: str, block: int | None = None) -> Shape:
    return Shape(m, k, word, k * m // 64, block)


MFMA = {
    # CDNA 2's names; bf16 without _1k is as CDNA 1 has it: half the k, and two products at once (MMA-Sim, arXiv 2511.10909)
    "f32_32x32x8f16": _mfma(32, 8, "f16"), "f32_16x16x16f16": _mfma(16, 16, "f16"),
    "f32_32x32x4bf16": _mfma(32, 4, "bf16", 2), "f32_16x16x8bf16": _mfma(16, 8, "bf16", 2),
    "f32_32x32x8bf16_1k": _mfma(32, 8, "bf16"), "f32_16x16x16bf16_1k": _mfma(16, 16, "bf16"),
    "i32_32x32x8i8": _mfma(32, 8, "s8"), "i32_16x16x16i8": _mfma(16, 16, "s8"),
    # CDNA 3
    "f32_32x32x8_f16": _mfma(32, 8, "f16"), "f32_16x16x16_f16": _mfma(16, 16, "f16"),
    "f32_32x32x8_bf16": _mfma(32, 8, "bf16"), "f32_16x16x16_bf16": _mfma(16, 16, "bf16"),
    "f32_32x32x4_xf32": _mfma(32, 4, "tf32"), "f32_16x16x8_xf32": _mfma(16, 8, "tf32"),
    "i32_32x32x16_i8": _mfma(32, 16, "s8"), "i32_16x16x32_i8": _mfma(16, 32, "s8"),
    "f32_32x32x16_fp8_fp8": _mfma(32, 16, "e4m3"), "f32_16x16x32_fp8_fp8": _mfma(16, 32, "e4m3"),
    "f32_32x32x16_bf8_bf8": _mfma(32, 16, "e5m2"), "f32_16x16x32_bf8_bf8": _mfma(16, 32, "e5m2"),
    # CDNA 4
    "f32_32x32x16_f16": _mfma(32, 16, "f16"), "f32_16x16x32_f16": _mfma(16, 32, "f16"),
    "f32_32x32x16_bf16": _mfma(32, 16, "bf16"), "f32_16x16x32_bf16": _mfma(16, 32, "bf16"),
    "i32_32x32x32_i8": _mfma(32, 32, "s8"), "i32_16x16x64_i8": _mfma(16, 64, "s8"),
}  # fmt: skip
"""Those that work on one matrix; the ones on several small blocks are not supported. CDNA 3's fp8 and bf8 are its own formats of as many bits."""
WMMA = {
    "f32_16x16x16_f16": "f16", "f32_16x16x16_bf16": "bf16", "i32_16x16x16_iu8": "s8",
    "f32_16x16x16_fp8_fp8": "e4m3", "f32_16x16x16_bf8_bf8": "e5m2",  # RDNA 4's alone
}


# ---------------------------------------------------------------- maps


def _words(registers: np.ndarray, shape: Shape, groups: int) -> np.ndarray:
    """`[registers, lanes, columns]` uint32 as words `[groups, e, m, columns]`."""
    count, lanes, columns = registers.shape
    parts = registers.view(shape.dtype).reshape(count, groups, lanes // groups, columns, -1)
    return parts.transpose(1, 0, 4, 2, 3).reshape(groups, shape.words, lanes // groups, columns)


def operand_mfma(registers: np.ndarray, shape: Shape) -> np.ndarray:
    """A or B as `[k, m, columns]` words."""
    words = _words(registers, shape, 64 // shape.m)
    return np.ascontiguousarray(words.reshape(shape.k, shape.m, -1))


def sums_mfma(registers: np.ndarray, shape: Shape) -> np.ndarray:
    """C `[registers, 64, columns]` as `[m, m, columns]`."""
    m, columns = shape.m, registers.shape[-1]
    parts = registers.reshape(m * m // 256, 4, 64 // m, m, columns)
    return np.ascontiguousarray(parts.transpose(0, 2, 1, 3, 4)).reshape(m, m, columns)


def spread_mfma(d: np.ndarray, shape: Shape) -> np.ndarray:
    """The way back: `[m, m, columns]` as `[registers, 64, columns]`."""
    m, columns = shape.m, d.shape[-1]
    parts = d.reshape(m * m // 256, 64 // m, 4, m, columns)
    return np.ascontiguousarray(parts.transpose(0, 2, 1, 3, 4)).reshape(-1, 64, columns)


def operand_rdna3(registers: np.ndarray, shape: Shape) -> np.ndarray:
    words = _words(registers, shape, 2)
    if (words[0] != words[1]).any():
        e, row, column = (int(axis[0]) for axis in np.nonzero(words[0] != words[1]))
        raise Fault(
            "the two halves of the wave hold different operands of a matrix instruction",
            lane=row * registers.shape[-1] + column,
            got=f"word {e} of lane {row} is {int(words[0, e, row, column]):#x}, of lane {row + 16} "
            f"{int(words[1, e, row, column]):#x}",
            needs="lanes 16 to 31 to repeat lanes 0 to 15",
        )
    return np.ascontiguousarray(words[0])


def sums_rdna3(registers: np.ndarray, shape: Shape) -> np.ndarray:
    return np.ascontiguousarray(registers.reshape(16, 16, -1))  # [r, h, column] is [2 r + h, column]


def spread_rdna3(d: np.ndarray, shape: Shape) -> np.ndarray:
    return d.reshape(8, 32, -1)


def operand_rdna4(registers: np.ndarray, shape: Shape) -> np.ndarray:
    words = _words(registers, shape, 2)
    if word_bytes(shape.word) == 2:  # [h, e, row] as [e / 4, h, e % 4, row]
        words = words.reshape(2, 2, 4, 16, -1).transpose(1, 0, 2, 3, 4)
    return np.ascontiguousarray(words.reshape(16, 16, -1))


def sums_rdna4(registers: np.ndarray, shape: Shape) -> np.ndarray:
    parts = registers.reshape(8, 2, 16, -1)
    return np.ascontiguousarray(parts.transpose(1, 0, 2, 3)).reshape(16, 16, -1)


def spread_rdna4(d: np.ndarray, shape: Shape) -> np.ndarray:
    parts = d.reshape(2, 8, 16, -1)
    return np.ascontiguousarray(parts.transpose(1, 0, 2, 3)).reshape(8, 32, -1)


# ---------------------------------------------------------------- products


class Product:
    """One matrix instruction.

    Args:
        operand, sums, spread: the maps; a, b: how to read words as numbers, for integers.
        whole: whether EXEC must leave on every lane; else it is not looked at.
    """

    def __init__(
        self, cursor: Cursor, shape: Shape, operand: Callable, sums: Callable, spread: Callable,
        whole: bool, signed: tuple[bool, bool] = (True, True), clamp: bool = False,
    ):
        cursor.count(4)
        self.shape, self.operand, self.sums, self.spread, self.whole = shape, operand, sums, spread, whole
        self.signed, self.clamp = signed, clamp
        count = shape.m * shape.m // cursor.target.wave
        self.d = self._slots(cursor, 0, count)
        self.a, self.b = (self._slots(cursor, i, shape.registers) for i in (1, 2))
        constant = cursor.operands[3].slot is None
        self.c = None if constant else self._slots(cursor, 3, count)
        self.start = cursor.read(3, "i32" if shape.word == "s8" else "f32") if constant else None

    @staticmethod
    def _slots(cursor: Cursor, index: int, count: int) -> range:
        first = cursor.slot(index, count)
        if first == NULL or first >= S:
            cursor.refuse(f"operand {cursor.text(index)} is not vector registers")
        return range(first, first + count)

    def _registers(self, wave, slots: range) -> np.ndarray:
        """`[registers, lanes, columns]` uint32 of the waves that execute."""
        for slot in slots:
            if wave.state[slot] is not None:
                wave.check(slot, lanes=wave.column_lanes)
        registers = np.stack([wave.r[slot] for slot in slots])  # in the order of what is stacked: registers that hold a constant lie across
        return np.ascontiguousarray(registers if wave.columns is None else registers[..., wave.columns])

    def __call__(self, wave) -> None:
        if self.whole and wave.lanes is not None and not (wave.lanes | ~self._chosen(wave)).all():
            lane = int(np.argmin(wave.lanes | ~self._chosen(wave)))
            raise Fault("a matrix instruction is executed while EXEC switches lanes off", lane=lane, needs="all lanes")
        shape, integer = self.shape, self.shape.word == "s8"
        a, b = (self.operand(self._registers(wave, slots), shape) for slots in (self.a, self.b))
        columns = a.shape[-1]
        if self.c is None:
            c = np.full((shape.m, shape.m, columns), self.start(wave))
        else:
            c = self.sums(self._registers(wave, self.c), shape).view(I32 if integer else np.float32)
        if integer:
            a, b = (x.view(np.int8) if signed else x for x, signed in zip((a, b), self.signed, strict=True))
            d = units.integer_product(a, b, c, saturate=self.clamp)
        else:
            unit = wave.strip.launch.unit
            if shape.block:
                unit = unit.model_copy(update={"block": {**unit.block, shape.word: shape.block}})
            d = units.mma_columns(unit, shape.word, a, b, c)
        self._write(wave, self.spread(d, shape).view(U32))
        wave.strip.stats.mma += columns

    @staticmethod
    def _chosen(wave) -> np.ndarray:
        return np.ones(wave.shape, bool) if wave.columns is None else np.broadcast_to(wave.columns, wave.shape)

    def _write(self, wave, registers: np.ndarray) -> None:
        lanes = wave.lanes
        wave.lanes = wave.column_lanes
        for slot, value in zip(self.d, registers, strict=True):
            if wave.columns is not None:
                spread = np.zeros(wave.shape, np.uint32)
                spread[:, wave.columns] = value
                value = spread
            wave.put(slot, value)
        wave.lanes = lanes


for _name, _shape in MFMA.items():

    @instruction(f"v_mfma_{_name}")
    def _build_mfma(cursor: Cursor, shape=_shape):
        for name in ("cbsz", "abid", "blgp"):
            if cursor.number(name):
                cursor.refuse(f"{name} other than 0 is not supported")
        if shape.word in ("e4m3", "e5m2") and cursor.target.family == "cdna3":
            shape = replace(shape, word=f"{shape.word}fnuz")
        return Product(cursor, shape, operand_mfma, sums_mfma, spread_mfma, whole=False)


for _name, _word in WMMA.items():

    @instruction(f"v_wmma_{_name}")
    def _build_wmma(cursor: Cursor, word=_word):
        older = cursor.target.family == "rdna3"
        shape = Shape(16, 16, word, 16 if older else 8)
        low, high = cursor.bits("neg_lo", (0, 0, 0)), cursor.bits("neg_hi", (0, 0, 0))
        if any(high) or (word != "s8" and any(low)):
            cursor.refuse("negated operands are not supported")
        maps = (operand_rdna3, sums_rdna3, spread_rdna3) if older else (operand_rdna4, sums_rdna4, spread_rdna4)
        signed = (bool(low[0]), bool(low[1])) if word == "s8" else (True, True)
        return Product(cursor, shape, *maps, whole=True, signed=signed, clamp=cursor.flag("clamp"))
