"""Bulk copies into shared memory, by the engine that signals an mbarrier when bytes have come."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmgen.emulate.decode import Cursor
from gemmgen.emulate.isa_integer import U32
from gemmgen.emulate.isa_mbarrier import places
from gemmgen.emulate.isa_memory import Access
from gemmgen.emulate.memory import Fault, at_lane

GRAIN = 16  # bytes; what a bulk copy's addresses and size are multiples of


@dataclass
class Flight:
    """What one bulk copy brings to one CTA.

    Attributes:
        cta: in whose shared memory it lands.
        target: `nbytes` bytes from this offset on; source: offset in global memory.
        barrier: offset of the mbarrier it signals.
        place: where it was issued.
    """

    cta: int
    target: int
    source: int
    nbytes: int
    barrier: int
    place: str

    def signals(self, barrier: int) -> bool:
        return self.barrier == barrier

    def land(self, strip) -> None:
        """The bytes come, as they are in global memory now."""
        strip.shared.land_range(self.target, strip.launch.arena.load_range(self.source, self.nbytes))
        strip.barriers.come(self.barrier, self.nbytes)


def bulk_copy(cursor: Cursor):
    """`cp.async.bulk.*`."""
    if cursor.flag("prefetch"):
        return _prefetch(cursor)
    if cursor.flag("tensor"):
        cursor.refuse("tensor copies are not supported")
    if "bulk_group" in cursor.modifiers or cursor.modifiers[:1] == ["global"]:
        cursor.refuse("bulk copies out of shared memory are not supported", remedy="store to global memory from registers")
    space = cursor.choice("shared::cluster", "shared::cta")
    cursor.choice("global")
    cursor.choice("mbarrier::complete_tx::bytes")
    many, hinted = cursor.flag("multicast::cluster"), cursor.flag("L2::cache_hint")
    if many and space != "shared::cluster":
        cursor.refuse("a copy to one CTA cannot be multicast", needs=".shared::cluster")
    cursor.count(4 + many + hinted)
    space = "cluster" if space == "shared::cluster" else "shared"
    target, barrier = (Access(cursor, operand, space, 1, counted=False) for operand in (0, 3))
    source, size = Access(cursor, 1, "global", 1), cursor.source(2, "u32")
    ctas = cursor.source(4, "b16") if many else -1
    place = cursor.decoder.source.site(cursor.statement)

    def run(warp, mask):
        arena, sizes = warp.strip.launch.arena, warp.full(size, U32)
        masks = warp.full(ctas, np.dtype(np.uint16)) if many else None
        targets = dict(_offsets(target, warp, mask))
        sources = dict(_offsets(source, warp, mask))
        for lane, signalled in places(barrier, warp, mask):
            with at_lane(lane):
                nbytes = int(sizes[lane])
                to, out_of = targets[lane], sources[lane]
                _check_grain("target", warp.strip.shared, to)
                _check_grain("source", arena, out_of)
                if nbytes % GRAIN:
                    raise Fault("the size of a bulk copy is odd", got=nbytes, needs=f"a multiple of {GRAIN} bytes")
                arena.load_range(out_of, nbytes)  # a copy that must not be read fails where it is issued
                for shift in [0] if masks is None else _shifts(warp, lane, int(masks[lane]), to, signalled):
                    issue(warp, lane, to + shift, out_of, nbytes, signalled + shift, place)

    return run


def issue(warp, lane: int, target: int, source: int, nbytes: int, barrier: int, place: str) -> None:
    """A copy into one CTA begins; it lands now or, where copies are lazy, when somebody waits for it."""
    strip = warp.strip
    pitch = strip.shared.pitch
    cta = target // pitch
    if barrier // pitch != cta:
        raise Fault("a bulk copy signals an mbarrier of another CTA than it copies to")
    if target % pitch + nbytes > strip.shared.each:
        raise Fault(
            f"a bulk copy of {nbytes} bytes reaches outside shared memory", got=strip.shared.describe(target)
        )
    strip.check_remote(warp.cta[lane : lane + 1], np.array([cta]))
    strip.barriers.check_use(barrier, int(warp.cta[lane]), place, asynchronous=True)
    strip.shared.reserve_range(target, nbytes)
    flight = Flight(cta, target, source, nbytes, barrier, place)
    if strip.lazy:
        strip.flights.append(flight)
    else:
        flight.land(strip)


def _offsets(access: Access, warp, mask):
    for _, offsets, lanes in access.each(warp, mask):
        lanes = np.arange(warp.lanes) if lanes is None else lanes
        yield from zip(lanes.tolist(), offsets.tolist(), strict=True)


def _shifts(warp, lane: int, mask: int, target: int, barrier: int) -> list[int]:
    """What to add to offsets in a CTA of the cluster to reach each one of the mask."""
    strip = warp.strip
    size, pitch = strip.launch.cluster, strip.shared.pitch
    if mask >> size or not mask:
        raise Fault("the mask of a multicast names no CTA, or one not in the cluster", got=f"{mask:#x}", needs=f"some of {size} bits")
    if target // pitch != barrier // pitch:
        raise Fault("a bulk copy signals an mbarrier of another CTA than it copies to")
    first = int(warp.cta[lane]) // size * size
    return [(first + rank - target // pitch) * pitch for rank in range(size) if mask >> rank & 1]


def _check_grain(what: str, memory, offset: int) -> None:
    if offset % GRAIN:
        raise Fault(
            f"the {what} of a bulk copy is not aligned",
            got=memory.describe(offset),
            needs=f"an address that is a multiple of {GRAIN}",
        )


def _prefetch(cursor: Cursor):
    if cursor.flag("tensor"):
        cursor.refuse("tensor copies are not supported")
    cursor.choice("L2")
    cursor.choice("global")
    hinted = cursor.flag("L2::cache_hint")
    cursor.count(2 + hinted)
    source, size = Access(cursor, 0, "global", 1), cursor.source(1, "u32")

    def run(warp, mask):
        arena, sizes = warp.strip.launch.arena, warp.full(size, U32)
        for lane, offset in _offsets(source, warp, mask):
            with at_lane(lane):
                _check_grain("source", arena, offset)
                if int(sizes[lane]) % GRAIN:
                    raise Fault("the size of a bulk copy is odd", got=int(sizes[lane]), needs=f"a multiple of {GRAIN} bytes")
                arena.load_range(offset, int(sizes[lane]))

    return run
