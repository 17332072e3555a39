"""Matrix products into tensor memory, `tcgen05.*`, as the PTX ISA writes them. No hardware has confirmed what is here.

One thread issues a product of 128 rows of A and N columns of B, both in shared memory with k contiguous and 32 bytes of it an
instruction: row r of the sums is lane r of tensor memory, column n is column n. For a pair of CTAs, which are neighbours in a cluster, a
thread of the first one issues products of 256 rows: each CTA has its 128 rows of A and of the sums, and one half of B's columns. Two words tell of it: a matrix
descriptor for each operand and the instruction descriptor (`Descriptor`, `InstructionWord`). The sums are computed when the instruction is
issued. Where the schedule has copies land at once, products are slow: a commit arrives only when somebody waits for it, and
operands must stay as they are until then. Else a commit arrives at once. `gemmgen.emulate.ptx.tensor_memory` says which
thread may touch which sums when.

m = 64, m = 128 of a pair, operands in tensor memory, block scales, sparsity, `cp` and `shift` are refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmgen.catalog.conversion import RAW
from gemmgen.emulate.core import units
from gemmgen.emulate.core.memory import Fault, at_lane
from gemmgen.emulate.ptx.decode import Cursor, instruction
from gemmgen.emulate.ptx.isa.bulk import shifts
from gemmgen.emulate.ptx.isa.integer import BOOL, U32, U64
from gemmgen.emulate.ptx.isa.mbarrier import barrier_access, places
from gemmgen.emulate.ptx.isa.memory import Access
from gemmgen.emulate.ptx.isa.wgmma import Descriptor
from gemmgen.emulate.ptx.program import Instruction
from gemmgen.emulate.ptx.tensor_memory import LANES, Operands, TensorMemory

KINDS = {"kind::f16": ("f16", "bf16"), "kind::tf32": (None, None, "tf32"), "kind::i8": ("u8", "s8"), "kind::f8f6f4": ("e4m3", "e5m2")}
"""Words by their code in an instruction descriptor; None and what is missing: not supported."""
_RAW = {**RAW, "u8": np.dtype(np.uint8)}
"""How elements are stored; unsigned ones are no words that anything is split into."""
_SWIZZLES = {0: 0, 2: 128, 4: 64, 6: 32}
_RESERVED = {"sparsity": 0b111, "bit 6": 1 << 6, "the transposes": 0b11 << 15, "bit 23": 1 << 23, "bit 29": 1 << 29, "the shift": 0b11 << 30}
"""Fields of an instruction descriptor that must be zero here."""


def matrix_descriptor(bits: int) -> Descriptor:
    """A matrix in shared memory, of its 64 bits.

    Raises:
        Fault: they are not such a descriptor, or the matrix starts inside its swizzle pattern.
    """
    def wrong(problem: str, needs: str) -> Fault:
        return Fault(f"a matrix descriptor {problem}", got=f"{bits:#018x}", needs=needs)

    if (fixed := bits >> 46 & 7) != 1:
        raise wrong(f"has {fixed:#05b} in bits 46 to 48", "0b001, the version of tcgen05")
    if bits >> 49 & 7 or bits >> 52 & 0x1FF:
        raise wrong("has a base offset or reserved bits", "zero in bits 49 to 60")
    if bits >> 61 not in _SWIZZLES:
        raise wrong(f"has swizzle {bits >> 61}", "0 for none, 2, 4 or 6 for 128, 64 or 32 bytes")
    start, leading, stride = (16 * (bits >> shift & 0x3FFF) for shift in (0, 16, 32))
    swizzle = _SWIZZLES[bits >> 61]
    if swizzle and start >> 7 & swizzle // 16 - 1:
        raise wrong("starts inside its swizzle pattern", f"an address that is a multiple of {8 * swizzle} bytes, but for a step along k")
    return Descriptor(start, leading, stride, swizzle)


@dataclass(frozen=True)
class InstructionWord:
    """What an instruction descriptor says.

    Attributes:
        words: the types of A's and of B's elements, which differ where one of two integers has a sign; n: columns of B; negated: whether the product is
            subtracted; saturates: whether INT32 sums do.
    """

    words: tuple[str, str]
    n: int
    negated: bool
    saturates: bool

    @classmethod
    def decode(cls, kind: str, bits: int, ctas: int = 1) -> InstructionWord:
        """From its 32 bits, for so many CTAs.

        Raises:
            Fault: it is none of that kind, or of something that is not supported.
        """
        def wrong(problem: str, got, needs: str) -> Fault:
            return Fault(f"an instruction descriptor of {kind} {problem}", got=f"{got} in {bits:#010x}", needs=needs)

        for name, field in _RESERVED.items():
            if bits & field:
                raise wrong(f"sets {name}", f"{bits & field:#x}", "zero")
        integers = kind == "kind::i8"
        if (d := bits >> 4 & 3) != (2 if integers else 1):
            raise wrong("has another type of sums", d, "2, INT32" if integers else "1, FP32")
        codes, words = (bits >> 7 & 7, bits >> 10 & 7), KINDS[kind]
        names = [words[code] if code < len(words) else None for code in codes]
        if None in names or names[0] != names[1] and not integers:
            each = (f"{code}{'' if integers else ' twice'} for {word}" for code, word in enumerate(words) if word)
            raise wrong("has other words", codes, " or ".join(each))
        m, n = (bits >> 24 & 31) * 16, (bits >> 17 & 63) * 8
        if m != LANES * ctas or n % (16 * ctas) or not 16 * ctas <= n <= 256:
            raise wrong("has other extents", f"{m} x {n}", f"{LANES * ctas} rows and {16 * ctas} to 256 columns, a multiple of {16 * ctas}")
        if bits >> 3 & 1 and not integers or bits >> 13 & 3 and integers:
            raise wrong("sets what only other words have", "saturation or a sign", "saturation of integers, signs of others")
        return cls((names[0], names[1]), n, (bits >> 13 & 1) != (bits >> 14 & 1), bool(bits >> 3 & 1))


@instruction("tcgen05")
def tcgen05(cursor: Cursor):
    action = cursor.choice(*_BUILDERS)
    program = cursor.decoder.program
    if action in ("alloc", "dealloc", "relinquish_alloc_permit", "mma", "commit"):
        group = int(cursor.choice("cta_group::1", "cta_group::2")[-1])
        if program.cta_group not in (0, group):
            cursor.refuse("instructions of one kernel name different groups of CTAs", needs=f"cta_group::{program.cta_group}, as those before")
        program.cta_group = group
    if action not in ("mma", "commit", "fence::before_thread_sync", "fence::after_thread_sync"):
        cursor.choice("sync")
        cursor.choice("aligned")
    program.tensor_memory = program.reads_async = True
    return _BUILDERS[action](cursor)


def _active(warp, mask) -> list[int]:
    return list(range(warp.lanes)) if mask is None else np.flatnonzero(mask).tolist()


def _by_cta(warp, mask):
    """(memory, threads) of each CTA that takes part."""
    for memory, lanes, threads in warp.tensor_ctas:
        if mask is None:
            yield memory, threads
        elif len(there := threads[mask[lanes]]):
            yield memory, there


def _by_warp(warp, mask, what: str):
    """(memory, number, lanes, their threads) of each warp that takes part, with all of its lanes."""
    columns = warp.whole(mask, what)
    return warp.tensor_warps if columns is None else [one for one, active in zip(warp.tensor_warps, columns, strict=True) if active]


def _agreed(values: np.ndarray, lanes: np.ndarray, what: str) -> int:
    """What all lanes of a warp say."""
    if (values[lanes] != values[lanes[0]]).any():
        raise Fault(f"the lanes of a warp name different {what}", lane=int(lanes[0]), got=", ".join(map(hex, np.unique(values[lanes])[:4])))
    return int(values[lanes[0]])


# ---------------------------------------------------------------- allocation


def _alloc(cursor: Cursor):
    cursor.choice("shared::cta")
    cursor.choice("b32")
    cursor.count(2)
    access, count, place = Access(cursor, 0, "shared", 4, counted=False), cursor.source(1, "u32"), cursor.decoder.source.site(cursor.statement)

    def run(warp, mask):
        counts, bases, chosen = warp.full(count, U32), np.zeros(warp.lanes, np.uint32), np.zeros(warp.lanes, bool)
        for memory, number, lanes, _ in _by_warp(warp, mask, "tcgen05.alloc"):
            with at_lane(int(lanes[0])):
                bases[lanes[0]] = memory.allocate(number, _agreed(counts, lanes, "numbers of columns"), place)
            chosen[lanes[0]] = True
        for shared, offsets, lanes in access.each(warp, chosen):
            access.store(warp, shared, offsets, lanes, bases if lanes is None else bases[lanes])

    return run


def _dealloc(cursor: Cursor):
    cursor.choice("b32")
    cursor.count(2)
    address, count = cursor.source(0, "u32"), cursor.source(1, "u32")

    def run(warp, mask):
        addresses, counts = warp.full(address, U32), warp.full(count, U32)
        for memory, _, lanes, threads in _by_warp(warp, mask, "tcgen05.dealloc"):
            with at_lane(int(lanes[0])):
                memory.free(threads, _agreed(addresses, lanes, "addresses"), _agreed(counts, lanes, "numbers of columns"))

    return run


def _relinquish(cursor: Cursor):
    cursor.count(0)

    def run(warp, mask):
        for memory, number, *_ in _by_warp(warp, mask, "tcgen05.relinquish_alloc_permit"):
            memory.permitted[number // memory.each] = False

    return run


# ---------------------------------------------------------------- order


def _wait(kind: int):
    """`wait::ld`, 0, and `wait::st`, 1."""
    def build(cursor: Cursor):
        cursor.count(0)

        def run(warp, mask):
            warp.whole(mask, "tcgen05.wait")
            if kind == 0:
                warp.loaded = warp.loads if mask is None else np.where(mask, warp.loads, warp.loaded)
            for memory, threads in _by_cta(warp, mask):
                memory.settle(threads, kind)

        return run

    return build


def _fence(method: str):
    def build(cursor: Cursor):
        cursor.count(0)

        def run(warp, mask):
            for memory, threads in _by_cta(warp, mask):
                getattr(memory, method)(threads)

        return run

    return build


@dataclass(eq=False)
class Commit:
    """The arrival of a commit that is under way, as a `Flight` is.

    Attributes:
        cta: whose mbarrier at offset `target` it arrives at.
        warp, lane, thread: by whom, the thread as its tensor memory numbers it; told: what it tells there.
    """

    cta: int
    target: int
    warp: object
    lane: int
    thread: int
    told: np.ndarray
    place: str
    instruction: Instruction
    what = "the arrival of a tcgen05.commit at its mbarrier"

    def signals(self, barrier: int) -> bool:
        return self.target == barrier

    def land(self, strip) -> None:
        """The products are done: what they read must be as it was until now."""
        try:
            memory = strip.tensor[self.warp.cta[self.lane]]
            self._check(memory, strip.shared)
            if strip.tensor[self.cta] is memory:
                strip.barriers.tell(self.target, self.told)
            strip.barriers.arrive(self.target, 1)
        except Fault as fault:
            fault.lane = self.lane
            strip.fail(self.warp, self.instruction, fault)

    def _check(self, memory: TensorMemory, shared) -> None:
        until = self.told[memory.warps + self.thread // 32]
        reading = memory.reading.pop(self.thread, [])
        memory.reading[self.thread] = [one for one in reading if one.time > until]
        for one in reading:
            now = shared.data[16].take(one.offsets >> 4)
            if one.time <= until and (changed := (now.view(np.uint64) != one.values.view(np.uint64))).any():
                raise Fault(
                    "shared memory was overwritten while a tcgen05.mma may still have been reading it",
                    got=f"{shared.describe(int(one.offsets[np.argmax(changed) // 2]))}, read by the tcgen05.mma at {one.place}",
                    needs="a wait for the mbarrier at which its tcgen05.commit arrives before the memory is given free",
                )


def _commit(cursor: Cursor):
    cursor.choice("mbarrier::arrive::one")
    access = barrier_access(cursor, 0)
    many = cursor.flag("multicast::cluster")
    cursor.choice("b64")
    cursor.count(1 + many)
    ctas = cursor.source(1, "b16") if many else -1
    place, own = cursor.decoder.source.site(cursor.statement), Instruction(None, -1, False, cursor.statement, cursor.number)

    def run(warp, mask):
        strip = warp.strip
        masks = warp.full(ctas, np.dtype(np.uint16)) if many else None
        for lane, offset in places(access, warp, mask):
            cta, thread = int(warp.cta[lane]), int(strip.tensor_threads(warp.cta[lane], warp.tid[lane]))
            with at_lane(lane):
                if offset // strip.shared.pitch != cta:
                    raise Fault("a tcgen05.commit arrives at an mbarrier of another CTA", needs="an mbarrier of its own CTA, or multicast::cluster")
                told = strip.tensor[cta].commit(thread)
                for shift in [0] if masks is None else shifts(warp, lane, int(masks[lane]), offset):
                    target = offset + shift
                    there = target // strip.shared.pitch
                    strip.check_remote(warp.cta[lane : lane + 1], np.array([there]))
                    strip.barriers.check_use(target, cta, place, asynchronous=True)
                    flight = Commit(there, target, warp, lane, thread, told, place, own)
                    if strip.lazy:
                        flight.land(strip)
                    else:
                        strip.flights.append(flight)

    return run


# ---------------------------------------------------------------- products


def _mma(cursor: Cursor):
    kind = cursor.choice(*KINDS)
    if len(cursor.operands) != 5 or cursor.operands[1].startswith("["):
        cursor.refuse(
            "an operand in tensor memory, a mask of lanes or a scale is not supported", needs="[d], a-descriptor, b-descriptor, descriptor, predicate",
        )
    (d, offset), a, b = cursor.address(0, "u32"), cursor.source(1, "b64"), cursor.source(2, "b64")
    told, keep = cursor.source(3, "u32"), cursor.source(4, "pred")
    return _Mma(kind, d, offset, (a, b), told, keep, cursor.decoder.source.site(cursor.statement))


class _Mma:
    """One `tcgen05.mma`.

    Args:
        d: slot of the sums' address, to which `offset` is added; operands: slots of A's and B's descriptors; told: of the instruction's.
        keep: slot of the predicate that the product is added to what is there.
    """

    def __init__(self, kind: str, d: int, offset: int, operands: tuple[int, int], told: int, keep: int, place: str):
        self.kind, self.d, self.offset, self.operands, self.told, self.keep, self.place = kind, d, offset, operands, told, keep, place

    def __call__(self, warp, mask) -> None:
        words, keeps = warp.full(self.told, U32), warp.full(self.keep, BOOL)
        addresses, descriptors = warp.full(self.d, U32), [warp.full(slot, U64) for slot in self.operands]
        batches: dict[tuple[InstructionWord, int], list] = {}
        strip = warp.strip
        for nth, lane in self._turns(warp, mask):
            with at_lane(lane):
                cta = int(warp.cta[lane])
                memory, thread, pair = strip.tensor[cta], int(strip.tensor_threads(cta, warp.tid[lane])), range(strip.sharers)
                word = InstructionWord.decode(self.kind, int(words[lane]), len(pair))
                if cta % len(pair):
                    raise Fault("a product of a pair of CTAs is issued by the second of them", needs="a thread of the CTA of even rank")
                strip.check_remote(np.full(len(pair), cta), cta + np.array(pair))
                at = int(addresses[lane]) + self.offset
                if at >> 16:
                    raise Fault("sums do not begin at lane 0 of tensor memory", got=f"{at:#x}", needs="a column alone where a CTA has 128 rows")
                span = memory.span(at, word.n)
                a, b = ([self._read(warp, lane, rank, int(bits[lane]), rows) for rank in pair]
                        for bits, rows in zip(descriptors, (LANES, word.n // len(pair)), strict=True))
                time = memory.begin(thread, span, bool(keeps[lane]), self.place)
                if not strip.lazy:
                    offsets, values = (np.concatenate(parts) for parts in zip(*a, *b, strict=True))
                    memory.reading.setdefault(thread, []).append(Operands(time, offsets, values, self.place))
            columns = np.concatenate([values for _, values in b])
            for rank in pair:
                batches.setdefault((word, nth), []).append((memory.data[memory.lanes(rank), span], bool(keeps[lane]), a[rank][1], columns))
        for (word, _), batch in batches.items():
            self._multiply(warp, word, batch)

    @staticmethod
    def _turns(warp, mask):
        """(how many lanes of its CTA come before it, lane): lanes of one CTA multiply one after the other."""
        seen: dict[int, int] = {}
        for lane in _active(warp, mask):
            cta = int(warp.cta[lane])
            seen[cta] = seen.get(cta, -1) + 1
            yield seen[cta], lane

    @staticmethod
    def _read(warp, lane: int, rank: int, bits: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Offsets and values of 32 bytes of each row, 16 at a time, in the `rank`th CTA from that of the lane on."""
        shared = warp.strip.shared
        flat = matrix_descriptor(bits).addresses(np.arange(rows), turned=False).reshape(-1)
        try:
            offsets = shared.offsets(flat, np.full(len(flat), warp.shared_base[lane] + rank * shared.pitch), 16)
            return offsets, shared.load_async(offsets)
        except Fault as fault:
            fault.lane = lane
            raise

    def _multiply(self, warp, word: InstructionWord, batch: list) -> None:
        """Sums of the CTAs of a batch, side by side."""
        integers = self.kind == "kind::i8"
        dtype, raws = np.dtype(np.int32 if integers else np.float32), [_RAW[one] for one in word.words]
        sums, keeps, *sides = zip(*batch, strict=True)
        a, b = (
            np.ascontiguousarray(np.stack([values.view(raw).reshape(-1, 32 // raw.itemsize) for values in side]).transpose(2, 1, 0))
            for side, raw in zip(sides, raws, strict=True)
        )
        if word.negated:
            a = a ^ a.dtype.type(1 << 8 * a.itemsize - 1)
        before = np.stack([np.ascontiguousarray(one).view(dtype) if keep else np.zeros(one.shape, dtype) for one, keep in zip(sums, keeps, strict=True)], -1)
        if integers:
            after = units.integer_product(a, b, before, saturate=word.saturates)
        else:
            after = units.mma_columns(warp.strip.launch.unit.of(word.words[0], "tcgen05"), word.words[0], a, b, before)
        for index, one in enumerate(sums):
            one[...] = np.ascontiguousarray(after[..., index]).view(np.uint32)
        warp.strip.stats.mma += LANES // 16 * word.n // 8 * len(batch)


# ---------------------------------------------------------------- loads and stores


def _columns(cursor: Cursor, operand: int) -> list[str]:
    names = cursor.vector(operand)
    cursor.choice("32x32b")
    if len(names) & len(names) - 1 or len(names) > 128 or not cursor.flag(f"x{len(names)}"):
        cursor.refuse("the registers do not fit the shape", needs=".x1 to .x128, a power of two, with as many registers")
    cursor.choice("b32")
    return names


def _ld(cursor: Cursor):
    targets = [cursor.target(name) for name in _columns(cursor, 0)]
    cursor.count(2)
    (address, offset), place = cursor.address(1, "u32"), cursor.decoder.source.site(cursor.statement)

    def run(warp, mask):
        addresses, values = warp.full(address, U32), np.zeros((len(targets), warp.lanes), np.uint32)
        for memory, number, lanes, threads in _by_warp(warp, mask, "tcgen05.ld"):
            with at_lane(int(lanes[0])):
                values[:, lanes] = memory.load(number, threads, _agreed(addresses, lanes, "addresses") + offset, len(targets), place)
        groups = warp.loads
        for target, value in zip(targets, values, strict=True):
            if target >= 0:
                warp.fly(target, value, groups, mask, load=True)
        warp.loads = warp.loads + (1 if mask is None else mask)

    return run


def _st(cursor: Cursor):
    names = _columns(cursor, 1)
    cursor.count(2)
    (address, offset), place = cursor.address(0, "u32"), cursor.decoder.source.site(cursor.statement)
    sources = [cursor.source(name, "b32") for name in names]

    def run(warp, mask):
        addresses, values = warp.full(address, U32), np.stack([warp.full(slot, U32) for slot in sources])
        for memory, number, lanes, threads in _by_warp(warp, mask, "tcgen05.st"):
            with at_lane(int(lanes[0])):
                memory.store(number, threads, _agreed(addresses, lanes, "addresses") + offset, values[:, lanes], place)

    return run


_BUILDERS = {
    "alloc": _alloc, "dealloc": _dealloc, "relinquish_alloc_permit": _relinquish, "mma": _mma, "commit": _commit, "ld": _ld, "st": _st,
    "wait::ld": _wait(0), "wait::st": _wait(1),
    "fence::before_thread_sync": _fence("fence_before"), "fence::after_thread_sync": _fence("fence_after"),
}  # fmt: skip
