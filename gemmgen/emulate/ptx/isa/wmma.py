"""`wmma`: 16x16 matrices between memory and fragments, and their product.

The PTX ISA leaves open which lane holds which element. The map here is the
measured row specs/fragments/wmma_m16n16k16_f16.toml; it does not depend on the
layout a matrix was loaded with. bfloat16 fragments, which the ISA gives half as
many registers, are the same without the copies: ptxas makes the same loads and
the same matrix instructions of both. That a product names the layouts its
fragments were loaded with is not checked; the machine code does not depend on it.

Accesses are those of the machine code that ptxas makes for shared memory, so
that bank conflicts are those of the hardware:

    A, B    one ldmatrix of four 8x8 matrices: each lane moves 16 bytes
    C, D    8 bytes a lane and pair of registers where a pair lies together in
            memory, as it does row-major, else 4 bytes a lane and register
"""

from __future__ import annotations

from functools import cache

import numpy as np

from gemmgen.catalog.fragment import FRAGMENTS
from gemmgen.emulate.core.memory import Fault
from gemmgen.emulate.ptx.decode import DTYPES, Cursor, instruction
from gemmgen.emulate.ptx.isa.integer import U32
from gemmgen.emulate.ptx.isa.memory import Access, at_lanes, memory_space
from gemmgen.emulate.ptx.isa.warp import Part, Product

F32 = DTYPES["f32"]
_SIDE = 16
_ALIGNMENT, _STRIDE_ALIGNMENT = 32, 16
"""Bytes. The PTX ISA asks that lines begin at multiples of 32, the CUDA programming guide that
the first one does and that the stride is a multiple of 16; the guide's `load_matrix_sync` is this
instruction, so its word is enough."""
_PIECE = np.arange(32)
_WORD_LINE, _WORD_BYTE = _PIECE % _SIDE, _PIECE // _SIDE * 16
"""What lane l moves of A or B: eight lanes in a row are a phase of ldmatrix, eight lines of one 8x8 matrix."""


@cache
def _fragment(operand: str):
    return getattr(FRAGMENTS.get("wmma_m16n16k16_f16"), operand)


@cache
def _elements(operand: str) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of what is held, each `[registers, lanes, places in a register]`."""
    held = _fragment(operand)
    places = [
        [[held.element(lane, register, packed) for packed in range(held.packed_count)] for lane in range(32)]
        for register in range(held.register_count)
    ]
    rows, columns = np.moveaxis(np.array(places), -1, 0)
    return rows, columns


@cache
def _holders(operand: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Register, lane and place of the first copy of each element, each `[16, 16]`."""
    held = _fragment(operand)
    first = np.array([[min(held.map(i, j), key=lambda h: h[1]) for j in range(_SIDE)] for i in range(_SIDE)])
    lane, register, packed = np.moveaxis(first, -1, 0)
    return register, lane, packed


def _first_copies(operand: str) -> int:
    """How many registers, from the first on, hold one copy of everything; a product looks at no others."""
    held = _fragment(operand)
    return held.register_count // held.copies


@instruction("wmma")
def warp_matrix(cursor: Cursor):
    build = {"load": _load, "store": _store, "mma": _product}[cursor.choice("load", "store", "mma")]
    return build(cursor)


def _start(cursor: Cursor) -> None:
    cursor.choice("sync")
    cursor.choice("aligned")
    cursor.choice("m16n16k16")


class _Matrix:
    """A matrix in memory: 16 lines, each a row (or, column-major, a column), `stride` elements apart.

    Args:
        operand: index of its `[address]`; the stride, if there is one, is operand 2.
        word: type of an element; piece: bytes of a lane's access.
    """

    def __init__(self, cursor: Cursor, operand: int, space: str, word: str, piece: int):
        cursor.count(2, 3)
        self.name = f"wmma.{cursor.statement.opcode.split('.')[1]}"
        self.access = Access(cursor, operand, space, piece)
        self.stride = cursor.source(2 if len(cursor.operands) == 3 else str(_SIDE), "u32")
        self.itemsize = DTYPES[word].itemsize

    def strides(self, warp, mask) -> np.ndarray:
        """Bytes from line to line, `[32, columns]`, after checking what all lanes must agree on."""
        access = self.access
        start = warp.full(access.slot, access.dtype).reshape(32, -1)
        stride = warp.full(self.stride, U32).reshape(32, -1)
        self._demand(
            warp, mask, (start == start[0]) & (stride == stride[0]),
            "is given different addresses or strides by the lanes of a warp", None, "the same in all lanes",
        )
        self._demand(
            warp, mask, (start + access.dtype.type(access.offset & 31)) & access.dtype.type(_ALIGNMENT - 1) == 0,
            "has a matrix that is not aligned", access.describe, f"an address that is a multiple of {_ALIGNMENT}",
        )
        stride = stride.astype(np.int64) * self.itemsize
        self._demand(
            warp, mask, stride & (_STRIDE_ALIGNMENT - 1) == 0,
            "has lines that are not aligned", lambda warp, lane: f"a stride of {stride.reshape(-1)[lane]} bytes",
            f"a stride that is a multiple of {_STRIDE_ALIGNMENT} bytes",
        )
        return stride

    def _demand(self, warp, mask, good: np.ndarray, problem: str, got, needs: str) -> None:
        """A Fault unless `good`, `[32, columns]`, holds in all lanes of the mask."""
        wrong = ~good.reshape(-1) if mask is None else ~good.reshape(-1) & mask
        if wrong.any():
            lane = int(np.argmax(wrong))
            raise Fault(f"{self.name} {problem}", lane=lane, got=got and got(warp, lane), needs=needs)

    def each(self, warp, mask, strides: np.ndarray, line: np.ndarray, byte: np.ndarray):
        """The parts of one access, as `Access.each`: lane l at byte `byte[l]` of line `line[l]`."""
        moved = strides * line[:, None] + byte[:, None]
        return self.access.each(warp, mask, moved.reshape(-1))

    def load(self, warp, mask, *where) -> np.ndarray:
        """`[lanes]` pieces; zeros in lanes outside the mask."""
        result = None
        for memory, offsets, lanes in self.each(warp, mask, *where):
            with at_lanes(lanes):
                pieces = self.access.load(warp, memory, offsets, lanes)
            if lanes is None:
                return pieces
            if result is None:
                result = np.zeros(warp.lanes, pieces.dtype)
            result[lanes] = pieces
        return result

    def store(self, warp, mask, pieces: np.ndarray, *where) -> None:
        """Write `[lanes]` pieces."""
        for memory, offsets, lanes in self.each(warp, mask, *where):
            with at_lanes(lanes):
                self.access.store(warp, memory, offsets, lanes, pieces if lanes is None else pieces[lanes])


# ---------------------------------------------------------------- A and B


def _load(cursor: Cursor):
    operand = cursor.choice("a", "b", "c")
    _start(cursor)
    layout = cursor.choice("row", "col")
    space = memory_space(cursor, "global", "shared", "generic")
    if operand == "c":
        return _load_sums(cursor, layout, space)
    word = cursor.choice("f16", "bf16")
    rows, columns = _elements(operand)
    line, position = (rows, columns) if layout == "row" else (columns, rows)
    distinct = _first_copies(operand)  # the other registers repeat these in order
    chunk, line, position = position[:distinct] // 8, line[:distinct], position[:distinct] % 8
    matrix = _Matrix(cursor, 1, space, word, 16)
    targets = _registers(cursor, 0, operand, word, cursor.target)

    def run(warp, mask):
        if _nobody(warp, mask, matrix.name):
            return [warp.put(target, np.zeros((), np.uint32), mask) for target in targets]
        pieces = matrix.load(warp, mask, matrix.strides(warp, mask), _WORD_LINE, _WORD_BYTE)
        words = pieces.view(np.uint16).reshape(2, _SIDE, warp.columns, 8)  # [chunk, line, column, position]
        low, high = (words[chunk[..., h], line[..., h], :, position[..., h]].astype(np.uint32) for h in (0, 1))
        held = (low | high << np.uint32(16)).reshape(distinct, -1)
        for register, target in enumerate(targets):
            warp.put(target, held[register % distinct], mask)
        return None

    return run


def _registers(cursor: Cursor, index: int, operand: str, word: str, slot) -> list[int]:
    """Slots of a fragment's registers, `slot` being what makes one of a register's name."""
    held = _fragment(operand)
    wanted = _first_copies(operand) if word == "bf16" else held.register_count
    names = cursor.vector(index)
    if len(names) != wanted:
        cursor.refuse("operands do not have the registers the shape needs", needs=f"{wanted} registers")
    return [slot(name) for name in names]


def _nobody(warp, mask, name: str) -> bool:
    """Whether no warp is active; a Fault where part of one is."""
    active = warp.whole(mask, name)
    return active is not None and not active.any()


# ---------------------------------------------------------------- C and D


def _sum_accesses(layout: str) -> tuple[int, list[tuple[np.ndarray, np.ndarray]]]:
    """How C and D move: registers an access, and (line, byte) of each access, `[32]` each."""
    rows, columns = (part[..., 0] for part in _elements("c"))  # [registers, lanes]
    line, byte = (rows, 4 * columns) if layout == "row" else (columns, 4 * rows)
    paired = (line[::2] == line[1::2]).all() and (byte[::2] + 4 == byte[1::2]).all()
    each = 2 if paired else 1
    return each, list(zip(line[::each], byte[::each], strict=True))


def _load_sums(cursor: Cursor, layout: str, space: str):
    word = cursor.choice("f32")
    each, accesses = _sum_accesses(layout)
    matrix = _Matrix(cursor, 1, space, word, 4 * each)
    targets = _registers(cursor, 0, "c", word, cursor.target)

    def run(warp, mask):
        if _nobody(warp, mask, matrix.name):
            return [warp.put(target, np.zeros((), F32), mask) for target in targets]
        strides = matrix.strides(warp, mask)
        values = [matrix.load(warp, mask, strides, *where).view(F32).reshape(-1, each) for where in accesses]
        for register, target in enumerate(targets):
            warp.put(target, np.ascontiguousarray(values[register // each][:, register % each]), mask)
        return None

    return run


def _store(cursor: Cursor):
    cursor.choice("d")
    _start(cursor)
    layout = cursor.choice("row", "col")
    space = memory_space(cursor, "global", "shared", "generic")
    word = cursor.choice("f32")
    each, accesses = _sum_accesses(layout)
    matrix = _Matrix(cursor, 0, space, word, 4 * each)
    sources = _registers(cursor, 1, "c", word, lambda name: cursor.source(name, "f32"))

    def run(warp, mask):
        if _nobody(warp, mask, matrix.name):
            return
        strides = matrix.strides(warp, mask)
        for number, (line, byte) in enumerate(accesses):
            values = np.stack([warp.full(slot, F32) for slot in sources[each * number : each * (number + 1)]], 1)
            matrix.store(warp, mask, values.view(f"u{4 * each}").reshape(-1), strides, line, byte)

    return run


# ---------------------------------------------------------------- the product


def _product(cursor: Cursor):
    _start(cursor)
    cursor.choice("row", "col")
    cursor.choice("row", "col")
    words = {("f32", "f32"): "f16", ("f32", "bf16", "bf16", "f32"): "bf16"}
    word = words.get(tuple(cursor.modifiers))
    if word is None:
        cursor.refuse(
            "only FP32 accumulators of float16 or bfloat16 words are supported",
            needs="wmma.mma....f32.f32 or wmma.mma....f32.bf16.bf16.f32",
        )
    cursor.modifiers.clear()
    cursor.count(4)
    targets = _registers(cursor, 0, "c", "f32", cursor.target)
    a, b = (
        _registers(cursor, number, operand, word, lambda name: cursor.source(name, "b32"))[: _first_copies(operand)]
        for number, operand in ((1, "a"), (2, "b"))
    )
    c = _registers(cursor, 3, "c", "f32", lambda name: cursor.source(name, "f32"))
    return _Product(word, a, [Part(b, c, targets)], saturate=False)


class _Product(Product):
    """`wmma.mma`, which becomes two m16n8k16."""

    name, counted = "wmma.mma", 2

    def left(self, a):
        return np.ascontiguousarray(_words("a", a[None])[:, :, 0].swapaxes(0, 1))

    def right(self, b):
        return self._wide(_words("b", b))

    def sums(self, c):
        register, lane, _ = _holders("c")
        return self._wide(c[:, register, lane].transpose(1, 2, 0, 3))

    def fragments(self, d):
        rows, columns = (places[..., 0] for places in _elements("c"))
        matrices = d.reshape(_SIDE, len(self.parts), _SIDE, -1)
        return np.ascontiguousarray(matrices[rows, :, columns].transpose(2, 0, 1, 3))

    @staticmethod
    def _wide(matrices: np.ndarray) -> np.ndarray:
        """`[16, 16, parts, W]` side by side."""
        return np.ascontiguousarray(matrices.swapaxes(1, 2)).reshape(_SIDE, -1, matrices.shape[-1])


def _words(operand: str, registers: np.ndarray) -> np.ndarray:
    """Words `[rows, columns, parts, W]` of A or B in registers `[parts, registers, 32, W]`."""
    register, lane, packed = _holders(operand)
    halves = np.ascontiguousarray(registers).view(np.uint16).reshape(*registers.shape, 2)
    return halves[:, register, lane, :, packed]
