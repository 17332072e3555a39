"""Matrix products of a warpgroup, `wgmma.*`.

Four warps multiply 64 rows of A, from shared memory or registers, by N columns of
B, from shared memory. Warp w computes rows 16w to 16w + 15 by itself: its registers
hold what those of `mma.m16n8k16` would, its D registers 4j to 4j + 3 being the
fragment of columns 8j to 8j + 7. That the four agree is checked.

A descriptor says where a matrix lies. K-major, its unit is 8 rows (of A, or columns
of B) of 16 bytes along k. Swizzled by 32, 64 or 128 bytes, rows follow one another at
that distance and groups of 8 rows at the stride; bits 4 to 6 of each address are
changed by the three above them, whatever the descriptor's start, which is why one can be
moved along k. Not swizzled, the 8 rows are 16 bytes apart and the units of the next
k are at the leading offset.

Turned (M- or N-major, for words of 16 bits and no others), the unit is 8 k of 16 bytes along the rows.
Swizzled, the k follow one another at 32, 64 or 128 bytes, the next rows are at the leading
offset and the next 8 k at the stride. Not swizzled, the k are 16 bytes apart, the next rows at the
stride and the next 8 k at the leading offset.

The numbers are computed when the instruction is issued. Until a wait covers it, nobody may
touch its registers, and, where the schedule has copies land at once, its operands in shared
memory must stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gemmgen.catalog.conversion import RAW
from gemmgen.catalog.number import sum_type
from gemmgen.emulate.core.memory import Fault
from gemmgen.emulate.ptx.decode import Cursor, instruction
from gemmgen.emulate.ptx.isa.integer import BOOL, U64
from gemmgen.emulate.ptx.isa.warp import Mma, spread
from gemmgen.emulate.ptx.program import Instruction

_K = {"f16": 16, "bf16": 16, "tf32": 8, "s8": 32, "e4m3": 32, "e5m2": 32}
_TURNING = ("f16", "bf16")
_EVERY_WIDTH_OF_S8 = 32
"""Up to this n there is an s8 product for every eight columns, above for every 16."""
_SWIZZLES = {0: 0, 1: 128, 2: 64, 3: 32}
ROWS = 16  # of a warp


@dataclass(frozen=True)
class Descriptor:
    """A matrix in shared memory.

    Attributes:
        start: address of its first row; leading, stride: byte offsets, see the module.
        swizzle: 0, 32, 64 or 128 bytes.
    """

    start: int
    leading: int
    stride: int
    swizzle: int

    @classmethod
    def decode(cls, bits: int) -> Descriptor:
        """From the 64 bits the instruction takes."""
        if base := bits >> 49 & 7:
            raise Fault(
                "a matrix descriptor with a base offset is not supported",
                got=f"{base} in {bits:#018x}",
                needs="a matrix whose pattern starts at a multiple of its length",
            )
        start, leading, stride = (16 * (bits >> shift & 0x3FFF) for shift in (0, 16, 32))
        return cls(start, leading, stride, _SWIZZLES[bits >> 62])

    def addresses(self, rows: np.ndarray, turned: bool) -> np.ndarray:
        """Where 32 bytes along k of each of these rows lie: `[..., 2]` addresses of 16 bytes.
        Turned, where 16 k of each of these groups of 8 rows lie: `[..., 16]`."""
        pattern = _turned_pattern if turned else _pattern
        straight = self.start + pattern(self.leading, self.stride, self.swizzle)[rows]
        if not self.swizzle:
            return straight
        return straight ^ (straight >> 7 & self.swizzle // 16 - 1) << 4


@lru_cache(maxsize=256)
def _pattern(leading: int, stride: int, swizzle: int) -> np.ndarray:
    """`[256, 2]`, how far each row's two chunks are from the start before swizzling."""
    row, chunk = np.arange(256)[:, None], np.arange(2)
    return row // 8 * stride + row % 8 * (swizzle or 16) + chunk * (16 if swizzle else leading)


@lru_cache(maxsize=256)
def _turned_pattern(leading: int, stride: int, swizzle: int) -> np.ndarray:
    """`[32, 16]`, the same for groups of 8 rows."""
    group, k = np.arange(32)[:, None], np.arange(16)
    if not swizzle:
        return group * stride + k % 8 * 16 + k // 8 * leading
    wide = swizzle // 16
    return group % wide * 16 + group // wide * leading + k % 8 * swizzle + k // 8 * stride


@dataclass
class Reading:
    """Operands in shared memory that matrix instructions may still be reading.

    Attributes:
        columns: `[n]` of the warp vector; groups: `[n]`, those of the instructions.
        offsets, values: `[n, chunks]`, what they read.
        place: where they were issued.
    """

    columns: np.ndarray
    groups: np.ndarray
    offsets: np.ndarray
    values: np.ndarray
    place: str

    def check(self, warp, due: np.ndarray) -> None:
        """Fault where an operand is no longer what it was."""
        shared = warp.strip.shared
        now = shared.data[16].take(self.offsets[due] >> 4)
        changed = (now.view(np.uint64) != np.ascontiguousarray(self.values[due]).view(np.uint64)).any(1)
        if changed.any():
            row = np.flatnonzero(due)[int(np.argmax(changed))]
            chunk = int(np.argmax(shared.data[16].take(self.offsets[row] >> 4) != self.values[row]))
            raise Fault(
                "shared memory was overwritten while a wgmma may still have been reading it",
                lane=int(self.columns[row]),
                got=f"{shared.describe(int(self.offsets[row, chunk]))}, read by the wgmma at {self.place}",
                needs="a wgmma.wait_group that covers it before the memory is given free",
            )

    def part(self, chosen: np.ndarray) -> Reading:
        arrays = (self.columns, self.groups, self.offsets, self.values)
        return Reading(*(array[chosen] for array in arrays), self.place)


@instruction("wgmma")
def wgmma(cursor: Cursor):
    action = cursor.choice("mma_async", "fence", "commit_group", "wait_group")
    cursor.choice("sync")
    cursor.choice("aligned")
    if action == "mma_async":
        return _product(cursor)
    if action == "wait_group":
        allowed = cursor.constant(0)
        return lambda warp, mask: _wait(warp, mask, allowed)
    cursor.count(0)
    return _commit if action == "commit_group" else _fence


def _fence(warp, mask) -> None:
    """Registers are read and written in order here; only that there is a fence at all is
    checked, since the compiler moves arithmetic and copies across fences."""
    warp.whole(mask, "wgmma.fence")
    warp.fenced |= True if mask is None else mask


def _commit(warp, mask) -> None:
    warp.whole(mask, "wgmma.commit_group")
    if mask is None:
        warp.products = warp.products + 1
    else:
        warp.products = warp.products + mask


def _wait(warp, mask, allowed: int) -> None:
    """All groups but the last `allowed` are complete."""
    warp.whole(mask, "wgmma.wait_group")
    complete = np.maximum(warp.finished, warp.products - allowed)
    warp.finished = complete if mask is None else np.where(mask, complete, warp.finished)
    left = []
    for reading in warp.reading:
        due = reading.groups < warp.finished[reading.columns]
        if due.any():
            reading.check(warp, due)
        if not due.all():
            left.append(reading.part(~due))
    warp.reading = left


def _product(cursor: Cursor):
    shape = next((each for each in cursor.modifiers if each.startswith("m64n")), "")
    cursor.flag(shape)
    saturate = cursor.flag("satfinite")
    if len(cursor.modifiers) != 3 or cursor.modifiers[0] not in ("f32", "s32") or cursor.modifiers[1] != cursor.modifiers[2]:
        cursor.refuse("only FP32 or INT32 sums of equal words are supported", needs="wgmma....f32.<words>.<words>, or s32")
    sums, word = cursor.modifiers[:2]
    cursor.modifiers.clear()
    columns, integers = int(shape.removeprefix("m64n").partition("k")[0] or 0), sums == "s32"
    if word not in _K or shape != f"m64n{columns}k{_K.get(word)}" or columns % 8 or not 8 <= columns <= 256:
        cursor.refuse("matrix instruction is not supported")
    if sums != sum_type(word) or saturate and not integers or integers and columns > _EVERY_WIDTH_OF_S8 and columns % 16:
        cursor.refuse("matrix instruction is not supported")
    in_registers = cursor.operands[1].startswith("{")
    turns = 0 if word not in _TURNING else 1 if in_registers else 2
    cursor.count(4 if integers else 6 + turns)
    turned = [bool(cursor.constant(operand)) for operand in range(6, 6 + turns)]
    turned = [False] * (2 - turns) + turned
    targets = [cursor.target(name) for name in cursor.vector(0)]
    a = [cursor.source(name, "b32") for name in cursor.vector(1)] if in_registers else cursor.source(1, "b64")
    if len(targets) != columns // 2 or in_registers and len(a) != 4:
        cursor.refuse("operands do not have the registers the shape needs")
    scale = cursor.source(3, "pred")
    signs = (1, 1) if integers else (cursor.constant(4), cursor.constant(5))
    if not set(signs) <= {1, -1}:
        cursor.refuse("a factor can be multiplied by 1 or -1 only")
    cursor.decoder.program.reads_async = True
    return _Wgmma(cursor, Mma(word, [], [], saturate), columns, targets, a, cursor.source(2, "b64"), scale, signs, turned)


class _Wgmma:
    """One `wgmma.mma_async`.

    Args:
        fragments: what the registers of one warp are; targets: slots of D; a: those of A's registers, or the slot of its descriptor.
        b: slot of B's descriptor; scale: that of the predicate that D is added to.
        signs: what A and B are multiplied by; turned: whether they are not K-major.
    """

    def __init__(self, cursor: Cursor, fragments: Mma, columns: int, targets, a, b: int, scale: int, signs, turned):
        self.fragments, self.raw, self.dtype = fragments, RAW[fragments.word], fragments.dtype
        self.columns, self.targets, self.a, self.b = columns, targets, a, b
        self.scale, self.signs, self.turned = scale, signs, turned
        self.place = cursor.decoder.source.site(cursor.statement)
        self.instruction = Instruction(None, -1, False, cursor.statement, 0)

    def __call__(self, warp, mask) -> None:
        active = warp.whole(mask, "wgmma")
        if (bare := ~warp.fenced if mask is None else mask & ~warp.fenced).any():
            raise Fault(
                "a wgmma may run ahead of what wrote its registers",
                lane=int(np.argmax(bare)),
                needs="wgmma.fence before the first one, and after other instructions touched its registers",
            )
        chosen = np.arange(warp.columns) if active is None else np.flatnonzero(active)
        self._agree(warp, chosen)
        read: list[tuple[np.ndarray, np.ndarray]] = []
        if isinstance(self.a, int):
            a = self._matrix(warp, self.a, chosen, ROWS * (warp.number[chosen] % 4), ROWS, self.turned[0], read)
        else:
            registers = np.stack([warp.full(slot, np.dtype(np.uint32)) for slot in self.a])
            a = self.fragments.left(registers.reshape(4, 32, warp.columns)[..., chosen])
        b = self._matrix(warp, self.b, chosen, np.zeros(len(chosen), np.int64), self.columns, self.turned[1], read)
        if self.signs[0] * self.signs[1] < 0:
            a = a ^ a.dtype.type(1 << 8 * a.itemsize - 1)
        d = self.fragments.product(warp.strip.launch.unit, "wgmma", a, b, self._sums(warp, chosen))
        registers = spread(self.fragments.fragments(d).reshape(len(self.targets), 32, -1), chosen, warp)
        groups = warp.products
        held = [warp.fly(slot, values, groups, mask) for slot, values in zip(self.targets, registers, strict=True)]
        warp.sums[self.targets[0]] = held, chosen, d
        if not isinstance(self.a, int):
            for slot in self.a:
                warp.fly(slot, None, groups, mask)
        if not warp.strip.lazy:
            offsets, values = (np.concatenate(parts, 1) for parts in zip(*read, strict=True))
            warp.reading.append(Reading(chosen, groups[chosen], offsets, values, self.place))
        warp.strip.stats.mma += self.columns // 8 * len(chosen)

    def _matrix(
        self, warp, slot: int, chosen: np.ndarray, first: np.ndarray, count: int, turned: bool, read: list
    ) -> np.ndarray:
        """Words `[k, count, columns]` of a matrix in shared memory, of which each column
        reads `count` rows from `first` on."""
        bits = warp.full(slot, U64).reshape(32, -1)[0, chosen]
        if turned:
            rows = first[:, None] // 8 + np.arange(count // 8)
        else:
            rows = first[:, None] + np.arange(count)
        addresses = np.empty((*rows.shape, 16 if turned else 2), np.int64)
        for each in np.unique(bits):
            same = bits == each
            try:
                addresses[same] = Descriptor.decode(int(each)).addresses(rows[same], turned)
            except Fault as fault:
                fault.lane = int(chosen[np.argmax(same)])
                raise
        flat, shared = addresses.reshape(len(chosen), -1), warp.strip.shared
        base = np.repeat(warp.shared_base[chosen], flat.shape[1])
        try:
            offsets = shared.offsets(flat.reshape(-1), base, 16)
            values = shared.load_async(offsets)
        except Fault as fault:
            if fault.lane is not None:
                fault.lane = int(chosen[fault.lane // flat.shape[1]])
            raise
        read.append((offsets.reshape(flat.shape), values.reshape(flat.shape)))
        words = values.view(self.raw)
        if turned:
            words = words.reshape(len(chosen), -1, 16, 8).transpose(2, 1, 3, 0)
            return np.ascontiguousarray(words).reshape(16, count, -1)
        words = words.reshape(len(chosen), count, -1)
        return np.ascontiguousarray(words.transpose(2, 1, 0))

    def _sums(self, warp, chosen: np.ndarray) -> np.ndarray:
        """What the product is added to, `[16, N, columns]`."""
        keep = warp.full(self.scale, BOOL).reshape(32, -1)[0, chosen]
        if not keep.any():
            return np.zeros((ROWS, self.columns, len(chosen)), self.dtype)
        registers = [warp.accumulator(slot, self.dtype) for slot in self.targets]
        if any(register is None for register in registers):
            raise Fault("a wgmma adds to a register that was never written", needs="scale-d false the first time")
        before, columns, sums = warp.sums.get(self.targets[0], ([], None, None))
        if keep.all() and len(before) == len(registers) and np.array_equal(columns, chosen):
            if all(one is other for one, other in zip(before, registers, strict=True)):
                return sums  # what the last one left, not yet torn into registers
        c = np.stack(registers).reshape(-1, 4, 32, warp.columns)[..., chosen]
        if not keep.all():
            c = np.where(keep, c, self.dtype.type(0))
        return self.fragments.sums(c)

    def _agree(self, warp, chosen: np.ndarray) -> None:
        """The four warps of a warpgroup execute the same instructions on the same matrices."""
        a = warp.full(self.a, U64).tolist() if isinstance(self.a, int) else None
        b = warp.full(self.b, U64).tolist()
        agreed = warp.strip.agreed
        for column in chosen.tolist():
            key = int(warp.cta[column]), int(warp.number[column]) // 4, warp.issued[column]
            warp.issued[column] += 1
            mine = self, a and a[column], b[column]
            seen, count = agreed.pop(key, (mine, 0))
            if seen != mine:
                raise Fault(
                    "the warps of a warpgroup execute different wgmma",
                    lane=column,
                    got=f"descriptors {_hex(mine[1:])}, where another warp has {_hex(seen[1:])} at {seen[0].place}",
                    needs="the same instruction with the same descriptors in all four",
                )
            if count < 3:
                agreed[key] = seen, count + 1


def _hex(numbers) -> str:
    return " and ".join(f"{number:#018x}" for number in numbers if number is not None)
