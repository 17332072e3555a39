"""Bulk copies into shared memory, by the engine that signals an mbarrier when bytes have come."""

from __future__ import annotations

from functools import partial

import numpy as np

from gemmgen.emulate.core.memory import GLOBAL_BASE, Fault, at_lane
from gemmgen.emulate.ptx.decode import Cursor
from gemmgen.emulate.ptx.flight import issue
from gemmgen.emulate.ptx.isa.integer import U32, U64
from gemmgen.emulate.ptx.isa.mbarrier import places
from gemmgen.emulate.ptx.isa.memory import Access
from gemmgen.emulate.ptx.memory import PARAM_WINDOW
from gemmgen.emulate.ptx.tensor_map import TensorMap

GRAIN = 16  # bytes; what a bulk copy's addresses and size are multiples of


def bulk_copy(cursor: Cursor):
    """`cp.async.bulk.*`."""
    if cursor.flag("prefetch"):
        return _prefetch(cursor)
    tensor = cursor.flag("tensor")
    if "bulk_group" in cursor.modifiers or cursor.modifiers[:1] == ["global"]:
        cursor.refuse("bulk copies out of shared memory are not supported", remedy="store from registers")
    dimensions = int(cursor.choice("1d", "2d", "3d", "4d", "5d")[0]) if tensor else 0
    space = cursor.choice("shared::cluster", "shared::cta")
    cursor.choice("global")
    cursor.drop("tile")
    cursor.choice("mbarrier::complete_tx::bytes")
    many, hinted = cursor.flag("multicast::cluster"), cursor.flag("L2::cache_hint")
    if many and space != "shared::cluster":
        cursor.refuse("a copy to one CTA cannot be multicast", needs=".shared::cluster")
    last = 2 if tensor else 3  # the operand that is the mbarrier
    cursor.count(last + 1 + many + hinted)
    space = "cluster" if space == "shared::cluster" else "shared"
    target, barrier = (Access(cursor, operand, space, 1, counted=False) for operand in (0, last))
    source = _Box(cursor, dimensions) if tensor else _Range(cursor)
    ctas = cursor.source(last + 1, "b16") if many else -1
    place = cursor.decoder.source.site(cursor.statement)

    def run(warp, mask):
        masks = warp.full(ctas, np.dtype(np.uint16)) if many else None
        targets = dict(_offsets(target, warp, mask))
        sources = source.reads(warp, mask)
        for lane, signalled in places(barrier, warp, mask):
            with at_lane(lane):
                to = targets[lane]
                nbytes, read = sources(lane, to % warp.strip.shared.pitch)
                _check_grain("target", warp.strip.shared, to, source.grain)
                for shift in [0] if masks is None else shifts(warp, lane, int(masks[lane]), to):
                    issue(warp, lane, to + shift, read, nbytes, signalled + shift, place)

    return run


class _Range:
    """The source of a copy that is bytes in a row."""

    grain = GRAIN

    def __init__(self, cursor: Cursor):
        self.access, self.size = Access(cursor, 1, "global", 1), cursor.source(2, "u32")

    def reads(self, warp, mask):
        """Function of a lane and its target: how many bytes its copy has, and what reads them."""
        sizes, arena = warp.full(self.size, U32), warp.strip.launch.arena
        sources = dict(_offsets(self.access, warp, mask))

        def of_lane(lane: int, target: int):
            nbytes = int(sizes[lane])
            _check_grain("source", arena, sources[lane])
            _check_size(nbytes)
            arena.load_range(sources[lane], nbytes)  # a copy that must not be read fails where it is issued
            warp.strip.order.read_range(warp, lane, sources[lane], nbytes)
            return nbytes, partial(arena.load_range, sources[lane], nbytes)

        return of_lane


class _Box:
    """The source of a copy that is a box of a tensor: `[map, {x, y}]`."""

    grain = 128

    def __init__(self, cursor: Cursor, dimensions: int):
        address, _, where = cursor.operands[1].strip("[] ").partition(",")
        names = cursor.vector(where.strip())
        if len(names) != dimensions:
            cursor.refuse(f"a box of {dimensions} dimensions needs as many coordinates")
        self.map = cursor.source(address.strip(), "b64")
        self.coordinates = [cursor.source(name, "s32") for name in names]

    def reads(self, warp, mask):
        addresses = warp.full(self.map, U64).tolist()
        coordinates = [warp.full(slot, np.dtype(np.int32)).tolist() for slot in self.coordinates]
        arena = warp.strip.launch.arena

        def of_lane(lane: int, target: int):
            tensor = _map_at(warp.strip.launch, addresses[lane])
            at = tuple(each[lane] for each in coordinates)
            if len(tensor.box) != len(at):
                raise Fault("the tensor map has other dimensions", got=len(tensor.box), needs=f"{len(at)}, as many as the copy has coordinates")
            if tensor.swizzle and tensor.nbytes % self.grain:
                raise Fault(
                    "a swizzled box does not fill lines", got=tensor.nbytes, needs=f"a multiple of {self.grain} bytes"
                )
            for _, offset, nbytes in tensor.pieces(at):
                arena.load_range(offset, nbytes)  # as above
                warp.strip.order.read_range(warp, lane, offset, nbytes)
            return tensor.nbytes, lambda: tensor.swizzled(tensor.fetch(arena, at), target)

        return of_lane


def _map_at(launch, address: int) -> TensorMap:
    """The tensor map at a generic address: a parameter, or in global memory."""
    if address >= PARAM_WINDOW:
        content = launch.params[address - PARAM_WINDOW :][:128]
    else:
        content = launch.arena.load_range(address - GLOBAL_BASE, 128)
    return TensorMap.decode(content.tobytes())


def _offsets(access: Access, warp, mask):
    for _, offsets, lanes in access.each(warp, mask):
        lanes = np.arange(warp.lanes) if lanes is None else lanes
        yield from zip(lanes.tolist(), offsets.tolist(), strict=True)


def shifts(warp, lane: int, mask: int, target: int) -> list[int]:
    """What to add to offsets in a CTA of the cluster to reach each one of the mask."""
    strip = warp.strip
    size, pitch = strip.launch.cluster, strip.shared.pitch
    if mask >> size or not mask:
        raise Fault(
            "the mask of a multicast names no CTA, or one not in the cluster",
            got=f"{mask:#x}",
            needs=f"some of {size} bits",
        )
    first = int(warp.cta[lane]) // size * size
    return [(first + rank - target // pitch) * pitch for rank in range(size) if mask >> rank & 1]


def _check_grain(what: str, memory, offset: int, grain: int = GRAIN) -> None:
    if offset % grain:
        raise Fault(
            f"the {what} of a bulk copy is not aligned",
            got=memory.describe(offset),
            needs=f"an address that is a multiple of {grain}",
        )


def _check_size(nbytes: int) -> None:
    if nbytes % GRAIN:
        raise Fault("the size of a bulk copy is odd", got=nbytes, needs=f"a multiple of {GRAIN} bytes")


def _prefetch(cursor: Cursor):
    if cursor.flag("tensor"):
        cursor.modifiers.clear()
        return lambda warp, mask: None
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
                _check_size(int(sizes[lane]))
                arena.load_range(offset, int(sizes[lane]))

    return run
