"""A stand-in for tcgen05, for tests of what surrounds it: barriers, addresses, columns, the way out.

It knows what the PTX ISA writes of descriptors, lanes and columns, and computes each
product when it is issued, with the emulated matrix unit of the GPU's row. No hardware has confirmed
any of it, which is why it stands among the tests. It faults where

- sums are read that no commit covers, or by another warp than theirs, or before a fence after what said that they are there,
- a warp says that it has read sums while it has not waited for them, or has no fence before,
- sums that nobody has read yet are begun anew,
- tensor memory is used that is not allocated, or still is when its block's warp ends.
"""

from __future__ import annotations

import numpy as np

from gemmgen.emulate.core import units
from gemmgen.emulate.core.memory import Fault
from gemmgen.emulate.ptx.decode import BUILDERS, Cursor
from gemmgen.emulate.ptx.isa.integer import BOOL, U32, U64
from gemmgen.emulate.ptx.isa.mbarrier import barrier_access, places
from gemmgen.emulate.ptx.isa.memory import Access

WORDS = {0: ("f16", np.uint16), 1: ("bf16", np.uint16), 2: ("tf32", np.uint32)}
SWIZZLES = {2: 128, 4: 64, 6: 32}


class TensorMemory:
    """One SM's, for one block."""

    def __init__(self):
        self.data = np.full((128, 512), np.nan, np.float32)
        self.base = self.columns = 0
        self.uncommitted = np.zeros(512, bool)
        self.unread = np.zeros((4, 512), bool)  # by the quarter of the lanes that a warp reads

    def span(self, address: int, width: int) -> slice:
        column = address & 0xFFFF
        if not self.base <= column <= column + width <= self.base + self.columns:
            raise Fault("tensor memory is used that is not allocated", got=f"columns {column} to {column + width - 1}")
        return slice(column, column + width)


def _of(warp, lane: int) -> TensorMemory:
    """The tensor memory of a lane's block."""
    every = warp.strip.__dict__.setdefault("tensor_memory", {})
    return every.setdefault(int(warp.cta[lane]), TensorMemory())


def _active(warp, mask) -> list[int]:
    return list(range(warp.lanes)) if mask is None else np.flatnonzero(mask).tolist()


def _firsts(warp, mask) -> list[int]:
    """Lane 0 of each warp, all of whose lanes must take part."""
    warp.whole(mask, "tcgen05")
    return [lane for lane in _active(warp, mask) if warp.lane[lane] == 0]


def tcgen05(cursor: Cursor):
    cursor.drop("sync", "aligned", "cta_group::1")
    action = cursor.choice(
        "alloc", "dealloc", "relinquish_alloc_permit", "mma", "commit", "ld", "wait::ld", "fence::before_thread_sync", "fence::after_thread_sync",
    )
    build = {"alloc": _alloc, "dealloc": _dealloc, "mma": _mma, "commit": _commit, "ld": _ld}.get(action)
    if build:
        return build(cursor)

    def run(warp, mask):
        state, lanes = _order(warp), slice(None) if mask is None else mask
        if action == "wait::ld":
            state[COMING, lanes] = False
        elif action == "fence::before_thread_sync":
            if (late := state[COMING] if mask is None else state[COMING] & mask).any():
                raise Fault("sums that are on their way are said to be read", lane=int(np.argmax(late)), needs="tcgen05.wait::ld")
            state[READ, lanes] = False
        elif action == "fence::after_thread_sync":
            state[HEARD, lanes] = False

    return run


COMING, READ, HEARD = range(3)
"""Of a lane: whether it waits for sums, has read some since its last fence before, has passed a barrier since its last fence after."""


def _order(warp) -> np.ndarray:
    """[3, lanes] bool."""
    return warp.__dict__.setdefault("tensor_memory_order", np.zeros((3, warp.lanes), bool))


def _check_heard(warp, lane: int) -> None:
    if _order(warp)[HEARD, lane]:
        raise Fault("tensor memory is used before a fence after the barrier that was waited for", lane=lane, needs="tcgen05.fence::after_thread_sync")


def _mbarrier(build):
    """The emulator's own, which hears of waits and of arrivals."""
    def built(cursor: Cursor):
        arrives, waits = ".arrive" in cursor.statement.opcode, "wait" in cursor.statement.opcode
        inner = build(cursor)

        def run(warp, mask):
            state = _order(warp)
            if arrives:
                for lane in _active(warp, mask):
                    if state[READ, (warp.number == warp.number[lane]) & (warp.cta == warp.cta[lane])].any():
                        raise Fault("a barrier is told that sums were read before a fence", lane=lane, needs="tcgen05.fence::before_thread_sync")
            if waits:
                state[HEARD, slice(None) if mask is None else mask] = True
            return inner(warp, mask)

        return run

    return built


def _alloc(cursor: Cursor):
    cursor.drop("b32")
    cursor.flag("shared::cta")
    access, columns = Access(cursor, 0, "shared", 4), cursor.constant(1)

    def run(warp, mask):
        lanes = _firsts(warp, mask)
        for lane in lanes:
            memory = _of(warp, lane)
            if memory.columns or columns < 32 or columns & columns - 1:
                raise Fault("tensor memory is allocated twice, or not in powers of two", lane=lane, got=columns)
            memory.base, memory.columns = 512 - columns, columns
        chosen = np.isin(np.arange(warp.lanes), lanes)
        for shared, offsets, _ in access.each(warp, chosen):
            shared.store(offsets, 4, np.full(len(offsets), 512 - columns, np.uint32))

    return run


def _dealloc(cursor: Cursor):
    cursor.drop("b32")
    address, columns = cursor.source(0, "u32"), cursor.constant(1)

    def run(warp, mask):
        addresses = warp.full(address, U32)
        for lane in _firsts(warp, mask):
            memory = _of(warp, lane)
            if (int(addresses[lane]), columns) != (memory.base, memory.columns) or memory.uncommitted.any():
                raise Fault("tensor memory is given back that is not this, or that products still write", lane=lane)
            memory.columns = 0

    return run


def _addresses(bits: int, rows: int) -> np.ndarray:
    """`[rows, 2]`, where 32 bytes along k lie: groups of eight rows a stride apart, chunks swizzled by the address's own bits."""
    if bits >> 46 & 7 != 1 or bits >> 49 & 7 or bits >> 52 & 1:
        raise Fault("not a descriptor of a shared-memory matrix", got=hex(bits))
    length, row = SWIZZLES[bits >> 61], np.arange(rows)[:, None]
    at = 16 * (bits & 0x3FFF) + row // 8 * 16 * (bits >> 32 & 0x3FFF) + row % 8 * length + np.arange(2) * 16
    return at ^ (at >> 7 & length // 16 - 1) << 4


def _mma(cursor: Cursor):
    kind = cursor.choice("kind::f16", "kind::tf32")
    (d, _), a, b = cursor.address(0, "u32"), cursor.source(1, "b64"), cursor.source(2, "b64")
    told, keep = cursor.source(3, "u32"), cursor.source(4, "pred")
    cursor.decoder.program.reads_async = True

    def run(warp, mask):
        for lane in _active(warp, mask):
            _check_heard(warp, lane)
            word = int(warp.full(told, U32)[lane])
            m, n = (word >> 24 & 31) * 16, (word >> 17 & 63) * 8
            name, raw = WORDS[word >> 7 & 7]
            if (m, word >> 4 & 3, word >> 10 & 7, word & 0xF, word >> 13 & 0xF) != (128, 1, word >> 7 & 7, 0, 0) or (name == "tf32") != (kind == "kind::tf32"):
                raise Fault("not an instruction descriptor of this kind", lane=lane, got=hex(word))
            memory, shared = _of(warp, lane), warp.strip.shared
            columns = memory.span(int(warp.full(d, U32)[lane]), n)
            operands = []
            for slot, rows in ((a, m), (b, n)):
                flat = _addresses(int(warp.full(slot, U64)[lane]), rows).reshape(-1)
                values = shared.load_async(shared.offsets(flat, np.full(len(flat), warp.shared_base[lane]), 16))
                operands.append(np.ascontiguousarray(values.view(raw).reshape(rows, -1).T)[..., None])
            if warp.full(keep, BOOL)[lane]:
                before = memory.data[:, columns]
            else:
                if memory.unread[:, columns].any():
                    raise Fault("sums are begun anew that nobody has read", lane=lane, got=f"columns {columns}")
                before = np.zeros((m, n), np.float32)
            memory.data[:, columns] = units.mma_columns(warp.strip.launch.unit, name, *operands, np.ascontiguousarray(before)[..., None])[..., 0]
            memory.uncommitted[columns] = memory.unread[:, columns] = True

    return run


def _commit(cursor: Cursor):
    cursor.drop("mbarrier::arrive::one", "b64")
    access, place = barrier_access(cursor, 0), cursor.decoder.source.site(cursor.statement)

    def run(warp, mask):
        for lane, offset in places(access, warp, mask):
            _of(warp, lane).uncommitted[:] = False
            warp.strip.barriers.check_use(offset, int(warp.cta[lane]), place, asynchronous=True)
            warp.strip.barriers.arrive(offset, 1)

    return run


def _ld(cursor: Cursor):
    cursor.drop("32x32b", "b32")
    targets = [cursor.target(name) for name in cursor.vector(0)]
    if not cursor.flag(f"x{len(targets)}"):
        cursor.refuse("another shape of tcgen05.ld")
    address, offset = cursor.address(1, "u32")

    def run(warp, mask):
        addresses = warp.full(address, U32)
        values = np.zeros((len(targets), warp.lanes), np.float32)
        _firsts(warp, mask)
        for lane in _active(warp, mask):
            _check_heard(warp, lane)
            memory, quarter = _of(warp, lane), int(warp.number[lane]) % 4
            at = int(addresses[lane]) + offset
            columns = memory.span(at, len(targets))
            if at >> 16 != 32 * quarter or memory.uncommitted[columns].any():
                raise Fault("sums are read that are another warp's, or that no commit covers", lane=lane, got=hex(at))
            values[:, lane] = memory.data[32 * quarter + int(warp.lane[lane]), columns]
            if warp.lane[lane] == 31:
                memory.unread[quarter, columns] = False
        _order(warp)[COMING : READ + 1, slice(None) if mask is None else mask] = True
        for target, value in zip(targets, values, strict=True):
            warp.put(target, value, mask)

    return run


def install(monkeypatch) -> None:
    """Teaches the emulator the stand-in for one test."""
    monkeypatch.setitem(BUILDERS, "tcgen05", tcgen05)
    monkeypatch.setitem(BUILDERS, "mbarrier", _mbarrier(BUILDERS["mbarrier"]))
