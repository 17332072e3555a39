"""Asynchronous copies from global to shared memory, and how schedules let them land."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmgen.emulate.core.memory import Fault, at_lane
from gemmgen.emulate.ptx.decode import Cursor, instruction
from gemmgen.emulate.ptx.isa.bulk import bulk_copy
from gemmgen.emulate.ptx.isa.integer import U32
from gemmgen.emulate.ptx.isa.mbarrier import barrier_access, places
from gemmgen.emulate.ptx.isa.memory import HINTS, Access, at_lanes


@dataclass
class Copy:
    """Part of a `cp.async` that has not landed.

    Attributes:
        lanes: `[n]`, who issued it; groups: `[n]`, their group of copies.
        targets, sources: `[n]`, offsets in shared and global memory.
        taken: `[n]`, bytes read; the rest of `size` becomes zero.
    """

    size: int
    lanes: np.ndarray
    groups: np.ndarray
    targets: np.ndarray
    sources: np.ndarray
    taken: np.ndarray | None

    def part(self, chosen: np.ndarray) -> Copy:
        taken = None if self.taken is None else self.taken[chosen]
        arrays = (self.lanes, self.groups, self.targets, self.sources)
        return Copy(self.size, *(array[chosen] for array in arrays), taken)

    def check(self, warp) -> None:
        """Fault where what it reads may come too late."""
        order = warp.strip.order
        if self.taken is None:
            with at_lanes(self.lanes):
                return order.read(warp, self.sources, self.size, self.lanes)
        for first in range(0, self.size, 4):
            chosen = np.flatnonzero(self.taken > first)
            if len(chosen):
                with at_lanes(self.lanes[chosen]):
                    order.read(warp, self.sources[chosen] + first, 4, self.lanes[chosen])

    def fetch(self, arena) -> np.ndarray:
        """`[n]` values of `size` bytes. Bytes that are not taken are not read."""
        if self.taken is None:
            with at_lanes(self.lanes):
                return arena.load(self.sources, self.size)
        data = np.zeros((len(self.lanes), self.size), np.uint8)
        for size in np.unique(self.taken):
            chosen = np.flatnonzero(self.taken == size)
            if size == self.size:
                with at_lanes(self.lanes[chosen]):
                    data[chosen] = arena.load(self.sources[chosen], self.size).view(np.uint8).reshape(-1, self.size)
                continue
            for byte in range(size):
                with at_lanes(self.lanes[chosen]):
                    data[chosen, byte] = arena.load(self.sources[chosen] + byte, 1)
        kind = np.complex128 if self.size == 16 else f"u{self.size}"
        return data.view(kind).reshape(-1)


@instruction("cp")
def copy_async(cursor: Cursor):
    cursor.choice("async")
    if cursor.flag("bulk"):
        return bulk_copy(cursor)
    if cursor.flag("mbarrier"):
        return _arrival(cursor)
    if cursor.flag("commit_group"):
        return _commit
    if cursor.flag("wait_all"):
        return _wait_all
    if cursor.flag("wait_group"):
        allowed = cursor.constant(0)
        return lambda warp, mask: _wait(warp, mask, allowed)
    return _issue(cursor)


def _issue(cursor: Cursor):
    level = cursor.choice("ca", "cg")
    cursor.choice("shared", "shared::cta")
    cursor.choice("global")
    cursor.drop(*HINTS)
    cursor.count(3, 4)
    size = cursor.constant(2)
    if size not in ((4, 8, 16) if level == "ca" else (16,)):
        cursor.refuse(f"cp.async.{level} cannot copy {size} bytes")
    target, source = Access(cursor, 0, "shared", size), Access(cursor, 1, "global", size)
    taken_slot = cursor.source(3, "u32") if len(cursor.operands) == 4 else -1

    def run(warp, mask):
        parts = list(target.each(warp, mask))
        if not parts:
            return
        (_, targets, lanes), (_, sources, _) = parts[0], next(source.each(warp, mask))
        chosen = np.arange(warp.lanes) if lanes is None else lanes
        taken = None
        if taken_slot >= 0:
            taken = warp.full(taken_slot, U32)[chosen]
            if (taken > size).any():
                raise Fault(
                    "a cp.async takes more bytes than it copies",
                    lane=int(chosen[np.argmax(taken > size)]),
                    got=int(taken.max()),
                    needs=f"at most {size}",
                )
            if (taken == size).all():
                taken = None
        copy = Copy(size, chosen, warp.committed[chosen], targets, sources, taken)
        shared, arena = warp.strip.shared, warp.strip.launch.arena
        if np.bitwise_or.reduce(sources) & (size - 1):
            wrong = sources & (size - 1) != 0
            raise Fault(
                f"a copy of {size} bytes is not aligned",
                lane=int(chosen[np.argmax(wrong)]),
                got=arena.describe(int(sources[np.argmax(wrong)])),
                needs=f"a source address that is a multiple of {size}",
            )
        values = copy.fetch(arena)  # a copy that must not be read fails where it is issued
        copy.check(warp)
        with at_lanes(lanes):
            if not warp.strip.lazy:
                shared.store(targets, size, values)
                return
            shared.reserve(targets, size)
        warp.pending.append(copy)

    return run


def _commit(warp, mask) -> None:
    if mask is None:
        warp.committed += 1
    else:
        warp.committed[mask] += 1


def _wait_all(warp, mask) -> None:
    _commit(warp, mask)
    _wait(warp, mask, 0)


def _wait(warp, mask, allowed: int) -> None:
    """Land all copies but those of the last `allowed` groups."""
    due = warp.committed - allowed
    _land(warp, due if mask is None else np.where(mask, due, 0))


def _land(warp, before: np.ndarray) -> None:
    """Land the copies of each lane's groups before that one, `[lanes]`."""
    left = []
    shared, arena = warp.strip.shared, warp.strip.launch.arena
    for copy in warp.pending:
        due = copy.groups < before[copy.lanes]
        if not due.any():
            left.append(copy)
            continue
        landing = copy if due.all() else copy.part(due)
        shared.land(landing.targets, landing.size, landing.fetch(arena))
        if landing is not copy:
            left.append(copy.part(~due))
    warp.pending = left


@dataclass
class Arrival:
    """Lanes that arrive at an mbarrier when their copies so far have landed.

    Attributes:
        cta: of the mbarrier; target: its offset.
        lanes: of the warp vector.
        place: where it was asked for.
    """

    cta: int
    target: int
    warp: object
    lanes: list[int]
    place: str
    what = "a copy into its shared memory"

    def signals(self, barrier: int) -> bool:
        return self.target == barrier

    def land(self, strip) -> None:
        before = np.zeros(self.warp.lanes, np.int32)
        before[self.lanes] = self.warp.committed[self.lanes] + 1
        _land(self.warp, before)
        strip.barriers.arrive(self.target, len(self.lanes))


def _arrival(cursor: Cursor):
    """`cp.async.mbarrier.arrive`: with `noinc` one of the arrivals expected, else one more."""
    cursor.choice("arrive")
    counted = cursor.flag("noinc")
    access = barrier_access(cursor, 0)
    cursor.choice("b64")
    cursor.count(1)
    place = cursor.decoder.source.site(cursor.statement)

    def run(warp, mask):
        strip, by_barrier = warp.strip, {}
        for lane, offset in places(access, warp, mask):
            with at_lane(lane):
                strip.barriers.check_use(offset, int(warp.cta[lane]), place)
            by_barrier.setdefault(offset, []).append(lane)
        for offset, lanes in by_barrier.items():
            if not counted:
                strip.barriers.at(offset).pending += len(lanes)
            arrival = Arrival(offset // strip.shared.pitch, offset, warp, lanes, place)
            if strip.lazy:
                strip.flights.append(arrival)
            else:
                with at_lane(lanes[0]):
                    arrival.land(strip)

    return run
