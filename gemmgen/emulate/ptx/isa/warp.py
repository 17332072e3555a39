"""Instructions the lanes of a warp execute together: shuffles, votes, fragments,
matrix products.

A warp vector is `[32, CTAs]`, lane after lane. Fragment layouts follow the PTX
ISA (sections on `ldmatrix` and on `mma` with m16n8k8 and m16n8k16). With
group g = lane / 4 and thread t = lane % 4, and words of 16 bits two a register:

    A  register 2j + i holds rows g + 8i, columns 2t and 2t + 1, plus 8j
    B  register j      holds rows 2t and 2t + 1, plus 8j, column g
    C  register 2i + h holds row g + 8i, column 2t + h

tf32 has one word a register: A's register 2j + i holds row g + 8i, column
t + 4j; B's register j holds row t + 4j, column g. Words of 8 bits, m16n8k32, are four
a register: A's register 2j + i holds row g + 8i, columns 4t to 4t + 3, plus 16j; B's
register j rows 4t to 4t + 3, plus 16j, column g. m8n8k16 has the half of them, without i and j.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmgen.catalog.number import INTEGERS, sum_type
from gemmgen.catalog.unit import MatrixUnit
from gemmgen.emulate.core import units
from gemmgen.emulate.core.memory import Fault, at_part
from gemmgen.emulate.ptx.decode import DTYPES, Cursor, instruction
from gemmgen.emulate.ptx.isa.cluster import cluster_barrier
from gemmgen.emulate.ptx.isa.integer import BOOL, U32

F32 = DTYPES["f32"]
_LANE = np.arange(32, dtype=np.int64)[:, None]


def _members(warp, mask, slot: int, what: str) -> np.ndarray:
    """The active lanes as `[32, CTAs]` bool, after checking that all lanes that the
    member mask names are among them."""
    active = np.ones((32, warp.columns), bool) if mask is None else mask.reshape(32, warp.columns)
    named = warp.full(slot, U32).reshape(32, -1)
    if mask is None and (named == np.uint32(0xFFFFFFFF)).all():
        return active
    bits = (active.astype(np.int64) << _LANE).sum(0).astype(np.uint32)
    outside = active & ((named & ~bits) != 0)
    if outside.any():
        raise Fault(
            f"{what} names lanes in its member mask that do not reach it",
            lane=int(np.argmax(outside.reshape(-1))),
            got=f"{int(named.reshape(-1)[np.argmax(outside.reshape(-1))]):#010x}",
        )
    itself = active & ((named >> _LANE.astype(np.uint32) & np.uint32(1)) == 0)
    if itself.any():
        lane = int(np.argmax(itself.reshape(-1)))
        raise Fault(f"{what} is executed by a lane its member mask leaves out", lane=lane)
    return active


@instruction("shfl")
def shuffle(cursor: Cursor):
    cursor.choice("sync")
    mode = cursor.choice("up", "down", "bfly", "idx")
    cursor.choice("b32")
    cursor.count(5)
    names = [name.strip() for name in cursor.operands[0].split("|")]
    target, inside = cursor.target(names[0]), cursor.target(names[1]) if names[1:] else -1
    value, by, clamp, members = (cursor.source(i, "b32") for i in range(1, 5))

    def run(warp, mask):
        active = _members(warp, mask, members, "a shuffle")
        shape = (32, warp.columns)
        amount = warp.full(by, U32).reshape(shape).astype(np.int64) & 31
        limit = warp.full(clamp, U32).reshape(shape).astype(np.int64)
        segment = limit >> 8 & 31
        first = _LANE & segment
        last = first | (limit & 31 & ~segment)
        if mode == "up":
            source = _LANE - amount
            good = source >= last
        else:
            source = {
                "down": lambda: _LANE + amount,
                "bfly": lambda: _LANE ^ amount,
                "idx": lambda: first | (amount & ~segment),
            }[mode]()
            good = source <= last
        source = np.where(good, source, _LANE)
        if mask is not None:
            silent = active & ~np.take_along_axis(active, source, 0)
            if silent.any():
                raise Fault("a shuffle reads a lane that does not take part", lane=int(np.argmax(silent.reshape(-1))))
        values = warp.full(value, U32).reshape(shape)
        warp.put(target, np.take_along_axis(values, source, 0).reshape(-1), mask)
        warp.put(inside, good.reshape(-1), mask)

    return run


@instruction("vote")
def vote(cursor: Cursor):
    cursor.choice("sync")
    mode = cursor.choice("ballot", "all", "any", "uni")
    cursor.choice("b32" if mode == "ballot" else "pred")
    cursor.count(3)
    target = cursor.target(0)
    negated = cursor.operands[1].startswith("!")
    slot, members = cursor.source(cursor.operands[1].lstrip("!"), "pred"), cursor.source(2, "b32")

    def run(warp, mask):
        _members(warp, mask, members, "a vote")
        votes = warp.full(slot, BOOL).reshape(32, warp.columns)
        named = warp.full(members, U32).reshape(32, warp.columns)  # each lane votes with those that it names
        ballot = ((votes != negated).astype(np.int64) << _LANE).sum(0).astype(np.uint32) & named
        result = {"ballot": ballot, "all": ballot == named, "any": ballot != 0, "uni": (ballot == named) | (ballot == 0)}[mode]
        warp.put(target, result.reshape(-1), mask)

    return run


@instruction("activemask")
def active_mask(cursor: Cursor):
    cursor.choice("b32")
    target = cursor.target(0)

    def run(warp, mask):
        active = np.ones((32, warp.columns), bool) if mask is None else mask.reshape(32, warp.columns)
        bits = (active.astype(np.int64) << _LANE).sum(0).astype(np.uint32)
        warp.put(target, np.tile(bits, 32), mask)

    return run


@instruction("redux")
def reduce_warp(cursor: Cursor):
    cursor.choice("sync")
    operation = cursor.choice("add", "min", "max", "and", "or", "xor")
    type_ = cursor.choice("u32", "s32", "b32")
    target, slot, members = cursor.target(0), cursor.source(1, type_), cursor.source(2, "b32")
    dtype = DTYPES[type_]
    function = {
        "add": np.add, "min": np.minimum, "max": np.maximum,
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    }[operation]  # fmt: skip

    def run(warp, mask):
        active = _members(warp, mask, members, "a reduction")
        values = warp.full(slot, dtype).reshape(32, -1)
        named = warp.full(members, U32).reshape(32, -1)
        result = np.zeros((32, warp.columns), dtype)
        for cta in range(warp.columns):
            for group in np.unique(named[active[:, cta], cta]):
                inside = active[:, cta] & (named[:, cta] == group)
                if inside.any():
                    result[inside, cta] = function.reduce(values[inside, cta])
        warp.put(target, result.reshape(-1), mask)

    return run


@instruction("elect")
def elect(cursor: Cursor):
    cursor.choice("sync")
    names = [name.strip() for name in cursor.operands[0].split("|")]
    leader, chosen = cursor.target(names[0]), cursor.target(names[1])
    members = cursor.source(1, "b32")

    def run(warp, mask):
        _members(warp, mask, members, "an election")
        named = warp.full(members, U32).reshape(32, warp.columns)
        first = np.bitwise_count((named & -named) - np.uint32(1)).astype(np.int64)  # the lowest of those that each lane names
        warp.put(leader, first.astype(np.uint32).reshape(-1), mask)
        warp.put(chosen, (_LANE == first).reshape(-1), mask)

    return run


@instruction("bar", "barrier")
def warp_barrier(cursor: Cursor):
    """`bar.warp.sync` and barriers that are only arrived at; those that are waited at end
    a block and are decoded there."""
    if cursor.flag("cluster"):
        return cluster_barrier(cursor)
    cursor.drop("cta")
    if cursor.flag("arrive"):
        return _arrival(cursor)
    cursor.choice("warp")
    cursor.choice("sync")
    members = cursor.source(0, "b32")

    def run(warp, mask):
        _members(warp, mask, members, "a warp barrier")
        warp.strip.order.meet_warp(warp, mask)

    return run


def _arrival(cursor: Cursor):
    """`bar.arrive`: of each warp all lanes count, as they do where they wait."""
    cursor.drop("aligned")
    cursor.count(2)
    name, threads = cursor.source(0, "u32"), cursor.source(1, "u32")

    def run(warp, mask):
        columns = warp.whole(mask, "bar.arrive")
        names, counts = (warp.full(slot, U32).reshape(32, -1)[0].tolist() for slot in (name, threads))
        arrived = warp.strip.arrived
        for column in range(warp.columns) if columns is None else np.flatnonzero(columns):
            key = int(warp.cta[column]), names[column]
            arrived[key] = arrived.get(key, 0) + 32
            if arrived[key] >= counts[column]:
                raise Fault(
                    "threads only arrive at a barrier, and none waits",
                    lane=int(column),
                    got=f"{arrived[key]} arrivals at barrier {key[1]}",
                    needs=f"fewer than its {counts[column]} threads",
                )

    return run


# ---------------------------------------------------------------- fragments


@instruction("ldmatrix")
def matrix_rows(cursor: Cursor):
    """8x8 matrices of 16-bit words from shared memory to fragments."""
    cursor.choice("sync")
    cursor.choice("aligned")
    cursor.choice("m8n8")
    count = int(cursor.choice("x1", "x2", "x4")[1])
    transposed = cursor.flag("trans")
    cursor.choice("shared", "shared::cta")
    cursor.choice("b16")
    cursor.count(2)
    names = cursor.vector(0)
    if len(names) != count:
        cursor.refuse("there are not as many registers as matrices")
    place = cursor.decoder.place(cursor.statement)
    narrow = cursor.width(cursor.operands[1].strip("[ ]").split("+")[0].strip()) != 8
    type_ = "u32" if narrow else "u64"
    slot, offset = cursor.address(1, type_)
    targets = [cursor.target(name) for name in names]
    dtype = DTYPES[type_]

    def run(warp, mask):
        ctas = warp.whole(mask, cursor.base)
        if ctas is not None and not ctas.any():
            return [warp.put(target, np.zeros((), np.uint32), mask) for target in targets]
        chosen = np.arange(warp.columns) if ctas is None else np.flatnonzero(ctas)
        rows = warp.full(slot, dtype).reshape(32, -1)[: 8 * count, chosen]
        rows = (rows + dtype.type(offset & (1 << 8 * dtype.itemsize) - 1)).astype(np.int64)
        lanes = (np.arange(8 * count)[:, None] * warp.columns + chosen).reshape(-1)
        shared = warp.strip.shared
        try:
            base = np.tile(warp.shared_base[chosen], 8 * count)  # of lane 0, as of every lane of a column
            offsets = shared.offsets(rows.reshape(-1), base, 16)
            warp.strip.conflicts.count(place, rows, None, 16)
            loaded = shared.load(offsets, 16)
        except Fault as fault:
            if fault.lane is not None:
                fault.lane = int(lanes[fault.lane])
            raise
        for target, words in zip(targets, _fragments_of(loaded, count, len(chosen), transposed), strict=True):
            warp.put(target, spread(words, chosen, warp), mask)
        return None

    return run


def _fragments_of(rows: np.ndarray, count: int, ctas: int, transposed: bool) -> list[np.ndarray]:
    """Rows as loaded, `[count * 8 * ctas]` of 16 bytes, to `[32, ctas]` words for each matrix."""
    result = []
    for matrix in rows.view(np.uint16).reshape(count, 8, ctas, 8):  # [row, cta, column]
        if transposed:  # lane 4g + t holds column g of rows 2t and 2t + 1
            words = matrix.reshape(4, 2, ctas, 8).transpose(3, 0, 2, 1)
        else:  # lane 4g + t holds columns 2t and 2t + 1 of row g
            words = matrix.reshape(8, ctas, 4, 2).transpose(0, 2, 1, 3)
        result.append(np.ascontiguousarray(words).view(np.uint32).reshape(32, ctas))
    return result


def spread(words: np.ndarray, chosen: np.ndarray | slice, warp) -> np.ndarray:
    """`[..., 32, chosen CTAs]` to vectors of the warp, `[..., lanes]`; other CTAs get zeros, which a mask hides."""
    if words.shape[-1] != warp.columns:
        full = np.zeros((*words.shape[:-1], warp.columns), words.dtype)
        full[..., chosen] = words
        words = full
    return words.reshape(*words.shape[:-2], -1)


_SHAPES = {
    ("m16n8k16", "f16"): (4, 2), ("m16n8k16", "bf16"): (4, 2),
    ("m16n8k8", "f16"): (2, 1), ("m16n8k8", "bf16"): (2, 1),
    ("m16n8k8", "tf32"): (4, 2), ("m16n8k4", "tf32"): (2, 1),
    ("m16n8k32", "s8"): (4, 2), ("m16n8k16", "s8"): (2, 1), ("m8n8k16", "s8"): (1, 1),
    ("m16n8k32", "e4m3"): (4, 2), ("m16n8k32", "e5m2"): (4, 2),
}  # fmt: skip
"""(shape, words) -> (registers of A, registers of B)."""


@instruction("mma")
def matrix_product(cursor: Cursor):
    cursor.choice("sync")
    cursor.choice("aligned")
    shape = cursor.choice(*dict.fromkeys(shape for shape, _ in _SHAPES))
    cursor.choice("row")
    cursor.choice("col")
    saturate = cursor.flag("satfinite")
    sums, word, other, *last = (*cursor.modifiers, "", "", "")[:4]
    if last != [sums] or sums not in ("f32", "s32"):
        cursor.refuse("only FP32 and INT32 accumulators are supported", needs="mma....f32.<words>.<words>.f32, or s32")
    if (shape, word) not in _SHAPES or other != word or sums != sum_type(word) or saturate and sums != "s32":
        cursor.refuse("matrix instruction is not supported")
    cursor.modifiers.clear()
    cursor.count(4)
    count_a, count_b = _SHAPES[shape, word]
    targets = [cursor.target(name) for name in cursor.vector(0)]
    a = [cursor.source(name, "b32") for name in cursor.vector(1)]
    b = [cursor.source(name, "b32") for name in cursor.vector(2)]
    c = [cursor.source(name, sums) for name in cursor.vector(3)]
    count_c = 2 if shape.startswith("m8") else 4
    if (len(targets), len(a), len(b), len(c)) != (count_c, count_a, count_b, count_c):
        cursor.refuse("operands do not have the registers the shape needs")
    return Mma(word, a, [Part(b, c, targets)], saturate)


@dataclass(frozen=True)
class Part:
    """One instruction of a `Product`: slots of its registers."""

    b: list[int]
    c: list[int]
    d: list[int]


class Product:
    """Matrix instructions that share A, run as one with as many more columns.

    A short vector costs as much as one of a hundred warps, and kernels multiply
    one fragment of A by several of B in a row.

    Args:
        a: slots of the registers of A.
        parts: the instructions, none of which reads what an earlier one writes.
        saturate: whether INT32 sums stop at their ends instead of wrapping around.

    Attributes:
        name: as errors call it; counted: how many m16n8k16 it counts for.
    """

    name, counted = "", 1

    def __init__(self, word: str, a: list[int], parts: list[Part], saturate: bool):
        self.word, self.a, self.parts, self.saturate = word, a, parts, saturate
        self.dtype = DTYPES[sum_type(word)]

    # Of fragments, `[registers, 32, W]`, those of B, C and D for each part:
    def left(self, a: np.ndarray) -> np.ndarray:
        """A `[k, m, W]`."""
        raise NotImplementedError

    def right(self, b: np.ndarray) -> np.ndarray:
        """B `[k, n * parts, W]`."""
        raise NotImplementedError

    def sums(self, c: np.ndarray) -> np.ndarray:
        """C `[m, n * parts, W]`."""
        raise NotImplementedError

    def fragments(self, d: np.ndarray) -> np.ndarray:
        """The way back for D, `[parts, registers, 32, W]`."""
        raise NotImplementedError

    def joined(self, following) -> Product | None:
        """Both as one instruction, where that is the same as one after the other."""
        if type(following) is not type(self):
            return None
        written = {slot for part in self.parts for slot in part.d}
        read = {*following.a, *(slot for part in following.parts for slot in part.b + part.c)}
        if (self.word, self.a, self.saturate) != (following.word, following.a, following.saturate) or written & read:
            return None
        return type(self)(self.word, self.a, self.parts + following.parts, self.saturate)

    def product(self, unit: MatrixUnit, policy: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        """D `[m, n, W]` of A `[k, m, W]`, B `[k, n, W]` and C `[m, n, W]`, by the instructions of an interface."""
        if self.word in INTEGERS:
            return units.integer_product(*(x.view(np.int8) for x in (a, b)), c, saturate=self.saturate)
        return units.mma_columns(unit.of(self.word, policy), self.word, a, b, c)

    def __call__(self, warp, mask) -> None:
        ctas = warp.whole(mask, self.name)
        targets = [slot for part in self.parts for slot in part.d]
        if ctas is not None and not ctas.any():
            for target in targets:
                warp.put(target, np.zeros((), self.dtype), mask)
            return
        chosen = slice(None) if ctas is None else np.flatnonzero(ctas)
        a, b, c = self._read(warp, chosen)
        d = self.product(warp.strip.launch.unit, "mma", self.left(a), self.right(b), self.sums(c))
        for target, words in zip(targets, spread(self.fragments(d).reshape(len(targets), 32, -1), chosen, warp), strict=True):
            warp.put(target, words, mask)
        warp.strip.stats.mma += self.counted * len(self.parts) * d.shape[-1]

    def _read(self, warp, chosen) -> list[np.ndarray]:
        """The registers of A `[registers, 32, W]`, and of B and C for each part."""
        a = [warp.full(slot, U32) for slot in self.a]
        b, c = [], []
        for number, part in enumerate(self.parts):
            with at_part(number):
                b += [warp.full(slot, U32) for slot in part.b]
                c += [warp.full(slot, self.dtype) for slot in part.c]
        a, b, c = (np.stack(registers).reshape(-1, 32, warp.columns)[..., chosen] for registers in (a, b, c))
        return [a, *(x.reshape(len(self.parts), -1, *x.shape[1:]) for x in (b, c))]


class Mma(Product):
    """`mma`, whose n is 8 and m 16, or 8; the dimensions i, h, j, g and t are those above."""

    name = "mma"

    @property
    def _eights(self) -> int:
        """Groups of 8 rows."""
        return len(self.parts[0].d) // 2 if self.parts else 2

    def left(self, a):
        return self._gather(a.reshape(-1, self._eights, *a.shape[1:]).swapaxes(0, 1))

    def right(self, b):
        return self._gather(b)

    def _gather(self, words: np.ndarray) -> np.ndarray:
        """Registers `[block, j, lane, W]` to words `[k, 8 * blocks, W]`, a block being 8 rows of A or columns of B."""
        blocks, registers, _, columns = words.shape
        words = np.ascontiguousarray(words).reshape(blocks, registers, 8, 4, columns)
        if self.word == "tf32":
            gathered = words.transpose(1, 3, 0, 2, 4)
        else:
            stored = units.RAW[self.word]
            places = words.view(stored).reshape(*words.shape, 4 // stored.itemsize)
            gathered = places.transpose(1, 3, 5, 0, 2, 4)
        return np.ascontiguousarray(gathered).reshape(-1, 8 * blocks, columns)

    def sums(self, c):
        parts, _, _, columns = c.shape
        turned = c.reshape(parts, -1, 2, 8, 4, columns).transpose(1, 3, 0, 4, 2, 5)  # [i, g, part, t, h, W]
        return np.ascontiguousarray(turned).reshape(-1, 8 * parts, columns)

    def fragments(self, d):
        rows, width, columns = d.shape
        turned = d.reshape(rows // 8, 8, -1, 4, 2, columns).transpose(2, 0, 4, 1, 3, 5)
        return np.ascontiguousarray(turned).reshape(width // 8, rows // 4, 32, columns)
