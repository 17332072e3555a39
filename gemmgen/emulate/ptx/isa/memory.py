"""Loads, stores and atomic operations, and the copies and fences around them."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from gemmgen.emulate.core.atomic import take_turns, updates
from gemmgen.emulate.core.memory import GLOBAL_BASE, SHARED_WINDOW, Fault, at_lane
from gemmgen.emulate.ptx.decode import DTYPES, Cursor, instruction
from gemmgen.emulate.ptx.flight import issue
from gemmgen.emulate.ptx.isa.integer import U32, U64
from gemmgen.emulate.ptx.memory import LOCAL_WINDOW
from gemmgen.emulate.ptx.order import Ordering
from gemmgen.emulate.ptx.parse import SIZES

HINTS = (
    "ca", "cg", "cs", "lu", "cv", "wb", "wt", "L1::evict_last", "L1::evict_first", "L1::no_allocate",
    "L1::evict_normal", "L1::evict_unchanged", "L2::64B", "L2::128B", "L2::256B", "L2::evict_first",
    "L2::evict_last", "L2::evict_normal", "shared::cta",
)  # fmt: skip
"""Modifiers that say how cached an access is, not what it does."""
CTA_WINDOW = 1 << 24
"""What `mapa` adds to an address for each rank, starting with one for rank 0."""
_BASE = np.int64(GLOBAL_BASE)
_WINDOW, _LOCAL = np.uint64(SHARED_WINDOW), np.uint64(LOCAL_WINDOW)


def memory_space(cursor: Cursor, *allowed: str) -> str:
    """The space an instruction names, which must be one of `allowed`.

    `shared::cluster` is taken wherever `shared` is.
    """
    if cursor.flag("shared::cta"):
        return "shared"
    if "shared" in allowed and cursor.flag("shared::cluster"):
        return "cluster"
    space = cursor.choice("global", "shared", "const", "param", "local", default="generic")
    if space not in allowed:
        cursor.refuse(f"{space} memory is not supported here", needs="one of: " + ", ".join(allowed))
    return space


class Access:
    """The addresses of one memory instruction.

    Args:
        operand: index of its `[address]`.
        size: bytes of each lane's access.
        counted: whether bank conflicts are counted.
        ordering: how it is ordered; None is weakly.
    """

    def __init__(
        self, cursor: Cursor, operand: int, space: str, size: int, counted: bool = True, ordering: Ordering | None = None
    ):
        self.space, self.size, self.counted, self.ordering, self.number = space, size, counted, ordering, cursor.number
        text = cursor.operands[operand].strip("[ ]").split("+")[0].strip()
        # shared addresses may be held in 32 or 64 bits
        narrow = space in ("shared", "cluster") and cursor.width(text) != 8
        self.dtype = U32 if narrow else U64
        self.slot, self.offset = cursor.address(operand, "u32" if narrow else "u64")
        self.place = cursor.decoder.place(cursor.statement)

    def each(self, warp, mask, moved: np.ndarray | None = None):
        """The parts of the access, by space: (memory, offsets `[n]`, lanes).

        `lanes` are the indices of the lanes that take part, None for all.
        `moved` adds `[lanes]` bytes to the addresses.
        """
        lanes = None if mask is None else np.flatnonzero(mask)
        if lanes is not None and not len(lanes):
            return
        addresses = warp.full(self.slot, self.dtype)
        if moved is not None:
            addresses = addresses + moved.astype(self.dtype)
        if lanes is not None:
            addresses = addresses[lanes]
        if self.space != "generic":
            yield self._part(warp, addresses, lanes, "shared" if self.space == "cluster" else self.space)
            return
        shared, elsewhere = addresses >= _WINDOW, addresses < _LOCAL
        for space, window, inside in (("shared", _WINDOW, shared), ("local", _LOCAL, ~(shared | elsewhere)), ("global", np.uint64(0), elsewhere)):
            if inside.all():
                yield self._part(warp, addresses - window, lanes, space)
            elif inside.any():
                yield self._part(warp, addresses[inside] - window, np.arange(warp.lanes)[inside] if lanes is None else lanes[inside], space)

    def load(self, warp, memory, offsets: np.ndarray, lanes) -> np.ndarray:
        """What a part of it reads, `[n]`."""
        if memory is not warp.strip.launch.arena:
            return memory.load(offsets, self.size)
        with self._lock(warp):
            values = memory.load(offsets, self.size)
            warp.strip.order.read(warp, offsets, self.size, lanes, self.ordering)
        return values

    def store(self, warp, memory, offsets: np.ndarray, lanes, values: np.ndarray) -> None:
        """A part of it writes `[n]` values."""
        if memory is not warp.strip.launch.arena:
            memory.store(offsets, self.size, values)
            if memory is warp.strip.shared:
                memory.wrote(offsets, warp.tid if lanes is None else warp.tid[lanes])
            return
        with self._lock(warp):
            memory.store(offsets, self.size, values)
            warp.strip.order.wrote(warp, offsets, self.size, lanes, self.number, self.ordering)

    def _lock(self, warp):
        """Held where a strong access and what is known of it must not come apart."""
        return warp.strip.launch.lock if self.ordering is not None and self.ordering.strong else nullcontext()

    def describe(self, warp, lane: int) -> str:
        """Where one lane's access would go, for messages."""
        only = np.arange(warp.lanes) == lane
        memory, offsets, _ = next(self.each(warp, only))
        return memory.describe(int(offsets[0]))

    def _part(self, warp, addresses, lanes, space: str):
        # in the register's own width: a compiler may let base and offset wrap around
        bits = 8 * addresses.dtype.itemsize
        addresses = addresses + addresses.dtype.type(self.offset & (1 << bits) - 1)
        addresses = addresses.astype(np.int64)
        if space not in ("shared", "local"):
            addresses -= _BASE
            return warp.strip.launch.arena, addresses, lanes
        with at_lanes(lanes):
            if space == "local":
                return warp.local, warp.local.offsets(addresses, warp.local.base if lanes is None else warp.local.base[lanes], self.size), lanes
            if self.space != "shared" and (addresses >= CTA_WINDOW).any():
                addresses, base = in_cluster(warp, addresses, lanes)
                return warp.strip.shared, warp.strip.shared.offsets(addresses, base, self.size), lanes
            base = warp.shared_base if lanes is None else warp.shared_base[lanes]
            offsets = warp.strip.shared.offsets(addresses, base, self.size)
        if self.counted:
            count_conflicts(warp, self.place, addresses, lanes, self.size)
        return warp.strip.shared, offsets, lanes


def in_cluster(warp, addresses: np.ndarray, lanes) -> tuple[np.ndarray, np.ndarray]:
    """shared::cluster addresses `[n]` of the given lanes as those within a CTA, and the CTA's base.

    A CTA's own addresses are valid too; `mapa` adds the window of another one.
    """
    strip = warp.strip
    cta = warp.cta if lanes is None else warp.cta[lanes]
    rank, addresses = np.divmod(addresses, CTA_WINDOW)
    size = strip.launch.cluster
    if (wrong := rank > size).any():
        raise Fault("the address is of no CTA of the cluster", lane=int(np.argmax(wrong)), needs="one made by mapa")
    target = np.where(rank == 0, cta, cta // size * size + rank - 1)
    strip.check_remote(cta, target)
    return addresses, target * strip.shared.pitch


def count_conflicts(warp, place: str, addresses, lanes, size: int) -> None:
    """Count the conflicts of shared addresses `[n]` of the given lanes (None for all)."""
    if lanes is None:
        return warp.strip.conflicts.count(place, addresses.reshape(32, -1), None, size)
    spread = np.zeros(warp.lanes, np.int64)
    spread[lanes] = addresses
    active = np.zeros(warp.lanes, bool)
    active[lanes] = True
    warp.strip.conflicts.count(place, spread.reshape(32, -1), active.reshape(32, -1), size)


class at_lanes:
    """Turns the position of a faulty access among those that took part into its lane."""

    def __init__(self, lanes):
        self.lanes = lanes

    def __enter__(self):
        return self

    def __exit__(self, kind, fault, trace):
        if isinstance(fault, Fault) and fault.lane is not None and self.lanes is not None:
            fault.lane = int(self.lanes[fault.lane])
        return False


def _vector_type(cursor: Cursor) -> tuple[str, int]:
    type_ = cursor.type()
    members = {"v2": 2, "v4": 4, "none": 1}[cursor.choice("v2", "v4", default="none")]
    if type_ not in DTYPES or SIZES[type_] * members > 16:
        cursor.refuse("access is wider than 16 bytes")
    return type_, members


@instruction("ld", "ldu")
def load(cursor: Cursor):
    space = memory_space(cursor, "global", "shared", "const", "param", "local", "generic")
    cursor.drop(*HINTS)
    ordering = Ordering(cursor)
    type_, members = _vector_type(cursor)
    if space == "param":
        return _load_param(cursor, type_, members)
    cursor.count(2)
    access = Access(cursor, 1, space, SIZES[type_] * members, ordering=ordering)
    names = cursor.vector(0)
    if len(names) != members:
        cursor.refuse("result does not have as many registers as the access has members")
    targets = [(cursor.target(name), _register_dtype(cursor, name, type_)) for name in names]
    dtype = DTYPES[type_]

    def run(warp, mask):
        values = np.zeros((warp.lanes, members), dtype) if mask is not None else None
        for memory, offsets, lanes in access.each(warp, mask):
            with at_lanes(lanes):
                got = access.load(warp, memory, offsets, lanes).view(dtype).reshape(-1, members)
            if lanes is None:
                values = got
            else:
                if values is None:
                    values = np.zeros((warp.lanes, members), dtype)
                values[lanes] = got
        for member, (target, wide) in enumerate(targets):
            warp.put(target, np.ascontiguousarray(values[:, member]).astype(wide, copy=False), mask)

    return run


def _register_dtype(cursor: Cursor, name: str, type_: str) -> np.dtype:
    """What a loaded value becomes in its register: a wider one gets it extended."""
    width = cursor.width(name)
    dtype = DTYPES[type_]
    if width <= dtype.itemsize:
        return dtype
    return np.dtype(f"{'i' if type_.startswith('s') else 'u'}{width}")


def _load_param(cursor: Cursor, type_: str, members: int):
    text = cursor.operands[1].strip("[ ]")
    name, _, offset = text.partition("+")
    offsets = cursor.decoder.program.param_offsets
    if name.strip() not in offsets:
        cursor.refuse("parameter is not declared")
    start = offsets[name.strip()] + int(offset or 0)
    names = cursor.vector(0)
    targets = [(cursor.target(name), _register_dtype(cursor, name, type_)) for name in names]
    dtype = DTYPES[type_]
    size = dtype.itemsize

    def run(warp, mask):
        params = warp.strip.launch.params
        for member, (target, wide) in enumerate(targets):
            first = start + member * size
            warp.put(target, params[first : first + size].view(dtype)[0].astype(wide).reshape(()), mask)

    return run


@instruction("st")
def store(cursor: Cursor):
    if cursor.flag("async"):
        return _store_async(cursor)
    space = memory_space(cursor, "global", "shared", "local", "generic")
    cursor.drop(*HINTS)
    ordering = Ordering(cursor)
    type_, members = _vector_type(cursor)
    cursor.count(2)
    size = SIZES[type_] * members
    access, stored = Access(cursor, 0, space, size, ordering=ordering), _stored(cursor, type_, members)
    moved = np.dtype(np.complex128) if size == 16 else np.dtype(f"u{size}")

    def run(warp, mask):
        if ordering.releases:
            warp.strip.order.fence(warp, mask, release=True, acquire=False)
        values = stored(warp).view(moved).reshape(-1)
        for memory, offsets, lanes in access.each(warp, mask):
            with at_lanes(lanes):
                access.store(warp, memory, offsets, lanes, values if lanes is None else values[lanes])

    return run


def _stored(cursor: Cursor, type_: str, members: int):
    """Function of a warp: what a store's registers hold, `[lanes, members]`."""
    raw = f"b{8 * SIZES[type_]}"
    slots = [cursor.source(name, raw) for name in cursor.vector(1)]
    if len(slots) != members:
        cursor.refuse("there are not as many registers as the access has members")
    dtype = DTYPES[raw]

    def values(warp) -> np.ndarray:
        if members == 1:
            return warp.full(slots[0], dtype).reshape(-1, 1)
        found = np.empty((warp.lanes, members), dtype)
        for member, slot in enumerate(slots):
            found[:, member] = warp.get(slot, dtype)
        return found

    return values


def _store_async(cursor: Cursor):
    """`st.async`: bytes go to a CTA of the cluster and signal an mbarrier there when they have come."""
    if not cursor.flag("shared::cluster"):
        cursor.refuse("an asynchronous store goes to a CTA of the cluster", needs=".shared::cluster")
    cursor.drop("weak")
    cursor.choice("mbarrier::complete_tx::bytes")
    type_, members = _vector_type(cursor)
    cursor.count(3)
    size = SIZES[type_] * members
    target, barrier = (Access(cursor, operand, "cluster", each, counted=False) for operand, each in ((0, size), (2, 8)))
    stored, place = _stored(cursor, type_, members), cursor.decoder.source.site(cursor.statement)

    def run(warp, mask):
        values = np.ascontiguousarray(stored(warp)).view(np.uint8)
        for (memory, targets, lanes), (_, signalled, _) in zip(target.each(warp, mask), barrier.each(warp, mask), strict=True):
            numbers = range(warp.lanes) if lanes is None else lanes.tolist()
            for lane, to, signal in zip(numbers, targets.tolist(), signalled.tolist(), strict=True):
                with at_lane(lane):
                    if to % size:
                        raise Fault(f"an access of {size} bytes is not aligned", got=memory.describe(to), needs=f"a multiple of {size}")
                    issue(warp, lane, to, lambda bytes_=values[lane]: bytes_, size, signal, place, "an asynchronous store")

    return run


@instruction("prefetch", "prefetchu", "discard", "applypriority")
def prefetch(cursor: Cursor):
    cursor.modifiers.clear()
    return lambda warp, mask: None


@instruction("membar", "fence")
def fence(cursor: Cursor):
    """Warps run one after the other and see all that came before. What a fence is for is that other CTAs may
    rely on it, see `Order`, and the asynchronous proxy, see `CtaMemory`."""
    if cursor.flag("mbarrier_init"):
        cursor.choice("release")
        cursor.choice("cluster")
        return lambda warp, mask: warp.strip.barriers.fence(warp, mask)
    if cursor.flag("proxy"):
        kind = cursor.choice("async", "alias", "async::generic")
        elsewhere = cursor.flag("global")
        cursor.drop("shared::cta", "shared::cluster", "acquire", "release", "cluster", "sync_restrict")
        return _fence_proxy if kind == "async" and not elsewhere else lambda warp, mask: None
    kind = cursor.choice("sc", "acq_rel", "acquire", "release", default="sc")
    if cursor.choice("cta", "cluster", "gpu", "gl", "sys") in ("cta", "cluster"):
        return lambda warp, mask: None
    release, acquire = kind != "acquire", kind != "release"
    cursor.decoder.program.publishes |= release
    return lambda warp, mask: warp.strip.order.fence(warp, mask, release, acquire)


def _fence_proxy(warp, mask) -> None:
    chosen = slice(None) if mask is None else mask
    warp.strip.shared.fence(warp.cta[chosen], warp.tid[chosen])
    warp.strip.barriers.fence(warp, mask)


# ---------------------------------------------------------------- atomic operations


@instruction("atom", "red")
def atomic(cursor: Cursor):
    """Lanes that meet at one address take turns, in the order of their index."""
    space = memory_space(cursor, "global", "shared", "generic")
    operation = cursor.choice("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
    cursor.drop(*HINTS)
    ordering = Ordering(cursor, atomic=True)
    type_, returns = cursor.type(), cursor.base == "atom"
    if type_ not in ("u32", "s32", "b32", "f32", "u64", "s64", "b64", "f64"):
        cursor.refuse(f"type {type_} is not supported here")
    if type_ in ("f32", "f64") and operation != "add":
        cursor.refuse(f"type {type_} is not supported here")
    cursor.count(2 + returns + (operation == "cas"))
    target = cursor.target(0) if returns else -1
    access = Access(cursor, int(returns), space, SIZES[type_], counted=False, ordering=ordering)
    operands = [cursor.source(i, type_) for i in range(1 + returns, len(cursor.operands))]
    dtype = DTYPES[type_]
    update = updates(operation, dtype)

    def run(warp, mask):
        result = np.zeros(warp.lanes, dtype)
        values = [warp.full(slot, dtype) for slot in operands]
        values.append(values[0])
        order = warp.strip.order
        if ordering.releases:
            order.fence(warp, mask, release=True, acquire=False)
        for memory, offsets, lanes in access.each(warp, mask):
            chosen = slice(None) if lanes is None else lanes
            x, y = (value[chosen] for value in values[:2])
            shared = memory is warp.strip.shared
            with at_lanes(lanes), nullcontext() if shared else warp.strip.launch.lock:
                result[chosen] = take_turns(memory, offsets, x, y, update)
                if not shared:
                    order.atomic(warp, offsets, access.size, lanes, access.number, ordering)
        warp.put(target, result, mask)

    return run
