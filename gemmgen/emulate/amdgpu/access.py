"""Loads, stores and atomic operations.

Each reads its registers when it is issued and becomes a Flight; what it does to
memory is a function that the machine calls, at once or when a wait comes. Loads and
stores need no alignment, since the runtime sets the hardware up so and the compiler
relies on it (it merges loads of neighbouring bytes); atomic operations do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from gemmgen.emulate.amdgpu.decode import Cursor, instruction
from gemmgen.emulate.amdgpu.machine import SCRATCH_RESOURCE, Touched
from gemmgen.emulate.amdgpu.operands import DTYPES, S
from gemmgen.emulate.atomic import take_turns, updates
from gemmgen.emulate.memory import GLOBAL_BASE, SHARED_WINDOW, Fault, Space

U32, U64 = DTYPES["u32"], DTYPES["u64"]
_BASE = np.int64(GLOBAL_BASE)
_HINTS = ("glc", "slc", "dlc", "sc0", "sc1", "nt", "scope", "th", "scal", "nv")
_HIGH, _LOW, _SIXTEEN = np.uint32(0xFFFF0000), np.uint32(0xFFFF), np.uint32(16)


# ---------------------------------------------------------------- memory as registers see it


def load_words(space: Space, offsets: np.ndarray, nbytes: int) -> np.ndarray:
    """`[n, words]` uint32 from `[n]` offsets; fewer than 4 bytes are zero extended."""
    unit = _unit(offsets, nbytes)
    if unit == nbytes:
        values = np.ascontiguousarray(space.load(offsets, nbytes))
    else:
        values = np.stack([space.load(offsets + first, unit) for first in range(0, nbytes, unit)], 1)
    if nbytes < 4:
        return values.view(f"u{nbytes}").astype(U32).reshape(-1, 1)
    return values.view(U32).reshape(len(offsets), -1)


def store_words(space: Space, offsets: np.ndarray, nbytes: int, words: np.ndarray) -> None:
    """`[n, words]` uint32 to `[n]` offsets."""
    unit = _unit(offsets, nbytes)
    words = words.astype(f"u{nbytes}") if nbytes < 4 else np.ascontiguousarray(words)
    moved = np.dtype(np.complex128) if unit == 16 else np.dtype(f"u{unit}")
    parts = words.view(moved).reshape(len(offsets), -1)
    for number, first in enumerate(range(0, nbytes, unit)):
        space.store(offsets + first, unit, np.ascontiguousarray(parts[:, number]))


def _unit(offsets: np.ndarray, nbytes: int) -> int:
    """Bytes to move at a time: the widest that size and alignment allow."""
    low = int(np.bitwise_or.reduce(offsets)) | nbytes | 16
    return low & -low


# ---------------------------------------------------------------- addresses


class Lanes:
    """Who takes part in an access.

    Attributes:
        mask: `[lanes, columns]` bool, None for all; flat: indices of theirs, None for all.
        columns: `[n]`, the column of each.
    """

    def __init__(self, wave):
        self.shape, self.mask = wave.shape, wave.lanes
        self.flat = None if self.mask is None else np.flatnonzero(self.mask)
        index = np.arange(wave.shape[0] * wave.shape[1]) if self.flat is None else self.flat
        self.columns = index % wave.shape[1]

    def pick(self, values: np.ndarray) -> np.ndarray:
        """`[n]` of `[lanes, columns]`, or of what spreads to that."""
        values = np.broadcast_to(values, self.shape).reshape(-1)
        return values if self.flat is None else values[self.flat]

    def among(self, columns: np.ndarray | None) -> np.ndarray | slice:
        """Index of those of given columns, `[columns]` bool, among the n."""
        return slice(None) if columns is None else np.flatnonzero(columns[self.columns])

    def spread(self, values: np.ndarray, chosen) -> np.ndarray:
        """`[lanes, columns]` uint32 with values for some of the n, 0 elsewhere."""
        if self.flat is None and isinstance(chosen, slice):
            return values.reshape(self.shape)
        result = np.zeros(self.shape[0] * self.shape[1], values.dtype)
        result[self.places(chosen)] = values
        return result.reshape(self.shape)

    def mask_of(self, chosen) -> np.ndarray | None:
        """`[lanes, columns]` bool of some of the n, None for all lanes."""
        if self.flat is None and isinstance(chosen, slice):
            return None
        return self.spread(np.ones(len(self.columns[chosen]), bool), chosen)

    def places(self, chosen) -> np.ndarray:
        places = np.arange(len(self.columns)) if self.flat is None else self.flat
        return places[chosen]

    def located(self, chosen):
        """Turns the position of a faulty access among the chosen into its place in `[lanes, columns]`."""
        return _located(self, chosen)


class _located:
    def __init__(self, lanes: Lanes, chosen):
        self.lanes, self.chosen = lanes, chosen

    def __enter__(self):
        return self

    def __exit__(self, kind, fault, trace):
        if isinstance(fault, Fault) and fault.lane is not None:
            fault.lane = int(self.lanes.places(self.chosen)[fault.lane])
        return False


class GlobalAddress:
    """The address of a global or flat instruction: operands `address` and, for global ones, `base`.

    Args:
        index: of the operand with the lanes' addresses; the base follows at `base`.
    """

    def __init__(self, cursor: Cursor, index: int, base: int | None):
        self.offset = cursor.number("offset")
        self.scalar = None
        if base is not None and cursor.text(base) != "off":
            self.scalar = cursor.read(base, "u64")
            self.vector = cursor.read(index, "u32")
        else:
            self.vector = cursor.read(index, "u64")

    def __call__(self, wave) -> np.ndarray:
        """`[lanes, columns]` int64."""
        address = self.vector(wave)
        if self.scalar is not None:
            address = self.scalar(wave) + address.astype(U64)
        return np.broadcast_to(address.view(np.int64) + self.offset, wave.shape)


# ---------------------------------------------------------------- vector memory

_LOADED = {
    # suffix: (bytes, sign, half of the register or None for all of it)
    "ubyte": (1, "u", None), "u8": (1, "u", None), "sbyte": (1, "i", None), "i8": (1, "i", None),
    "ushort": (2, "u", None), "u16": (2, "u", None), "sshort": (2, "i", None), "i16": (2, "i", None),
    "ubyte_d16": (1, "u", 0), "d16_u8": (1, "u", 0), "ubyte_d16_hi": (1, "u", 1), "d16_hi_u8": (1, "u", 1),
    "sbyte_d16": (1, "i", 0), "d16_i8": (1, "i", 0), "sbyte_d16_hi": (1, "i", 1), "d16_hi_i8": (1, "i", 1),
    "short_d16": (2, "u", 0), "d16_b16": (2, "u", 0), "short_d16_hi": (2, "u", 1), "d16_hi_b16": (2, "u", 1),
    "dword": (4, "u", None), "b32": (4, "u", None), "dwordx2": (8, "u", None), "b64": (8, "u", None),
    "dwordx3": (12, "u", None), "b96": (12, "u", None), "dwordx4": (16, "u", None), "b128": (16, "u", None),
}  # fmt: skip
_STORED = {
    "byte": (1, 0), "b8": (1, 0), "short": (2, 0), "b16": (2, 0), "byte_d16_hi": (1, 1), "d16_hi_b8": (1, 1),
    "short_d16_hi": (2, 1), "d16_hi_b16": (2, 1), "dword": (4, 0), "b32": (4, 0), "dwordx2": (8, 0), "b64": (8, 0),
    "dwordx3": (12, 0), "b96": (12, 0), "dwordx4": (16, 0), "b128": (16, 0),
}  # fmt: skip


def _vector_kinds(cursor: Cursor, store: bool) -> Callable:
    """What an access counts as, given its addresses. A flat one that meets only global memory is like a global
    one: the compiler, where it knows that, waits for nothing else."""
    kind = cursor.target.store_kind if store else "vector"
    if not cursor.name.startswith("flat"):
        return lambda addresses: (kind,)
    return lambda addresses: (f"flat {kind}", "flat lds") if _in_lds(addresses).any() else (kind,)


def _in_lds(addresses: np.ndarray) -> np.ndarray:
    """Which flat addresses lie in the aperture of LDS."""
    return addresses >> 32 == SHARED_WINDOW >> 32


def _loads(cursor: Cursor, index: int, nbytes: int, sign: str, half: int | None) -> Callable:
    """How loaded words land in the registers of an operand: (wave, lanes, chosen, words)."""
    count = max(1, nbytes // 4)
    first = cursor.slot(index, count)
    if half is None and cursor.operands[index].half:
        half = int(cursor.operands[index].half == "h")

    def land(wave, lanes: Lanes, chosen, words: np.ndarray) -> None:
        mask = lanes.mask_of(chosen)
        if nbytes < 4 and sign == "i":
            words = words.astype(f"i{nbytes}").astype(np.int32).view(U32)
        for word in range(count):
            value, undefined = lanes.spread(words[:, word], chosen), None
            slot = first + word
            if half is not None:
                keep = _LOW if half else _HIGH
                value = (value << _SIXTEEN if half else value & _LOW) | wave.r[slot] & keep
                old = wave.state[slot].undefined
                undefined = None if old is None else np.broadcast_to(old & keep, wave.shape)
            wave.load(slot, value, mask, undefined)

    return land, range(first, first + count)


def _global_load(cursor: Cursor, suffix: str):
    nbytes, sign, half = _LOADED[suffix]
    flat = cursor.name.startswith("flat")
    cursor.count(2 if flat else 3)
    cursor.drop(*_HINTS)
    address = GlobalAddress(cursor, 1, None if flat else 2)
    land, slots = _loads(cursor, 0, nbytes, sign, half)
    kinds = _vector_kinds(cursor, store=False)

    def run(wave):
        lanes = Lanes(wave)
        addresses = lanes.pick(address(wave))

        def perform(columns):
            chosen = lanes.among(columns)
            with lanes.located(chosen):
                words = _load(wave, lanes, chosen, addresses[chosen], nbytes, flat)
            land(wave, lanes, chosen, words)

        wave.issue(kinds(addresses), slots, perform, lanes.mask, Touched(addresses, lanes.columns, nbytes, False, wave.shape[1]))

    return run


def _load(wave, lanes: Lanes, chosen, addresses: np.ndarray, nbytes: int, flat: bool) -> np.ndarray:
    arena = wave.strip.launch.arena
    if not len(addresses):
        return np.zeros((0, max(1, nbytes // 4)), U32)
    local = _in_lds(addresses) if flat else None
    if local is None or not local.any():
        return load_words(arena, addresses - _BASE, nbytes)
    words = np.zeros((len(addresses), max(1, nbytes // 4)), U32)
    if not local.all():
        words[~local] = load_words(arena, addresses[~local] - _BASE, nbytes)
    words[local] = load_words(wave.strip.local, _local(wave, lanes, chosen, addresses, local, nbytes), nbytes)
    return words


def _local(wave, lanes: Lanes, chosen, addresses, local, nbytes: int) -> np.ndarray:
    """Offsets in LDS of flat addresses that lie in its aperture."""
    base = wave.local_base[lanes.columns[chosen]][local]
    return wave.strip.local.offsets((addresses - SHARED_WINDOW)[local], base, nbytes)


def _global_store(cursor: Cursor, suffix: str):
    nbytes, high = _STORED[suffix]
    flat = cursor.name.startswith("flat")
    cursor.count(2 if flat else 3)
    cursor.drop(*_HINTS)
    address = GlobalAddress(cursor, 0, None if flat else 2)
    read = _stored(cursor, 1, nbytes, high)
    kinds = _vector_kinds(cursor, store=True)

    def run(wave):
        lanes = Lanes(wave)
        addresses, words = lanes.pick(address(wave)), read(wave, lanes)

        def perform(columns):
            chosen = lanes.among(columns)
            there = addresses[chosen]
            if not len(there):
                return
            with lanes.located(chosen):
                local = _in_lds(there) if flat else np.zeros(len(there), bool)
                if not local.all():
                    store_words(wave.strip.launch.arena, there[~local] - _BASE, nbytes, words[chosen][~local])
                if local.any():
                    offsets = _local(wave, lanes, chosen, there, local, nbytes)
                    store_words(wave.strip.local, offsets, nbytes, words[chosen][local])

        wave.issue(kinds(addresses), (), perform, lanes.mask, Touched(addresses, lanes.columns, nbytes, True, wave.shape[1]))

    return run


def _stored(cursor: Cursor, index: int, nbytes: int, high: int = 0) -> Callable:
    """How to read what is stored: (wave, lanes) -> `[n, words]` uint32."""
    count = max(1, nbytes // 4)
    first = cursor.slot(index, count)
    high = high or int(cursor.operands[index].half == "h")
    bits = 0xFFFFFFFF if nbytes >= 4 else ((1 << 8 * nbytes) - 1) << 16 * high

    def read(wave, lanes: Lanes) -> np.ndarray:
        words = []
        for slot in range(first, first + count):
            if wave.state[slot] is not None:
                wave.check(slot, bits)
            words.append(lanes.pick(wave.r[slot] >> _SIXTEEN if high else wave.r[slot]))
        return words[0][:, None] if count == 1 else np.stack(words, 1)

    return read


for _space in ("global", "flat"):
    for _suffix in _LOADED:
        instruction(f"{_space}_load_{_suffix}")(lambda cursor, suffix=_suffix: _global_load(cursor, suffix))
    for _suffix in _STORED:
        instruction(f"{_space}_store_{_suffix}")(lambda cursor, suffix=_suffix: _global_store(cursor, suffix))


# ---------------------------------------------------------------- scratch memory, which nobody but the lane sees: it is read and written at once


class ScratchAddress:
    """The sum of an operand with the lanes' addresses, or `off`, a scalar one, or `off`, and a constant."""

    def __init__(self, cursor: Cursor, index: int, base: int):
        self.offset = cursor.number("offset")
        self.parts = [
            cursor.read(i, "u32") for i in (index, base) if cursor.text(i) != "off" and cursor.operands[i].constant != 0
        ]

    def __call__(self, wave) -> np.ndarray:
        """`[lanes, columns]` int64."""
        total = np.full(wave.shape, self.offset, np.int64)
        for part in self.parts:
            total = total + part(wave).view(np.int32)
        return total


class BufferAddress:
    """The address of a buffer instruction on scratch memory, the only buffer there is here (CDNA 2 reaches it so)."""

    def __init__(self, cursor: Cursor):
        cursor.count(4)
        uses = cursor.flag("offen")
        if not cursor.decoder.kernel.setting("user_sgpr_private_segment_buffer") or not (uses or cursor.text(1) == "off"):
            cursor.refuse("buffer instruction is not supported", "global_load or global_store")
        self.resource = cursor.slot(2, 4)
        self.inner = ScratchAddress(cursor, 1, 3)

    def __call__(self, wave) -> np.ndarray:
        for word, wanted in enumerate(SCRATCH_RESOURCE):
            slot = self.resource + word
            if wave.state[slot] is not None:
                wave.check(slot)
            if (wave.r[slot] != np.uint32(wanted)).any():
                raise Fault("a buffer instruction reaches for another buffer than scratch memory", needs="a global one")
        return self.inner(wave)


def _scratch_load(cursor: Cursor, suffix: str, address: Callable):
    nbytes, sign, half = _LOADED[suffix]
    count = max(1, nbytes // 4)
    first = cursor.slot(0, count)
    if half is not None or cursor.operands[0].half:
        cursor.refuse("half of a register in scratch memory is not supported")
    cursor.drop(*_HINTS)

    def run(wave):
        lanes = Lanes(wave)
        addresses = lanes.pick(address(wave))

        with lanes.located(slice(None)):
            values, undefined = wave.private.load(addresses, lanes.places(slice(None)), nbytes)
        if nbytes < 4 and sign == "i":
            values = values.astype(f"i{nbytes}").astype(np.int32).view(U32)

        def perform(columns):
            chosen = lanes.among(columns)
            mask = lanes.mask_of(chosen)
            for word in range(count):
                unknown = lanes.spread(undefined[chosen, word], chosen)
                wave.load(first + word, lanes.spread(values[chosen, word], chosen), mask, unknown if unknown.any() else None)

        wave.issue(("vector",), range(first, first + count), perform, lanes.mask)

    return run


def _scratch_store(cursor: Cursor, suffix: str, index: int, address: Callable):
    nbytes, high = _STORED[suffix]
    count = max(1, nbytes // 4)
    first = cursor.slot(index, count)
    if high or cursor.operands[index].half:
        cursor.refuse("half of a register in scratch memory is not supported")
    cursor.drop(*_HINTS)
    kind = cursor.target.store_kind

    def run(wave):
        lanes = Lanes(wave)
        addresses = lanes.pick(address(wave))
        zero = np.zeros((), U32)
        values, undefined = [], []
        for slot in range(first, first + count):
            unknown = None if wave.state[slot] is None else wave.undefined(slot)
            values.append(lanes.pick(wave.r[slot]))
            undefined.append(lanes.pick(zero if unknown is None else unknown))
        with lanes.located(slice(None)):
            wave.private.store(addresses, lanes.places(slice(None)), nbytes, np.stack(values, 1), np.stack(undefined, 1))
        wave.count(kind)

    return run


for _suffix in _LOADED:

    @instruction(f"scratch_load_{_suffix}")
    def _build_scratch_load(cursor: Cursor, suffix=_suffix):
        cursor.count(3)
        return _scratch_load(cursor, suffix, ScratchAddress(cursor, 1, 2))

    @instruction(f"buffer_load_{_suffix}")
    def _build_buffer_load(cursor: Cursor, suffix=_suffix):
        return _scratch_load(cursor, suffix, BufferAddress(cursor))


for _suffix in _STORED:

    @instruction(f"scratch_store_{_suffix}")
    def _build_scratch_store(cursor: Cursor, suffix=_suffix):
        cursor.count(3)
        return _scratch_store(cursor, suffix, 1, ScratchAddress(cursor, 0, 2))

    @instruction(f"buffer_store_{_suffix}")
    def _build_buffer_store(cursor: Cursor, suffix=_suffix):
        return _scratch_store(cursor, suffix, 0, BufferAddress(cursor))


# ---------------------------------------------------------------- scalar memory


def _scalar_load(cursor: Cursor, words: int):
    """Of the kernel's arguments some bytes may be padding, or hidden ones that are not passed:
    those are undefined until they are used."""
    cursor.count(3)
    cursor.drop(*_HINTS)
    first, base = cursor.slot(0, words), cursor.read(1, "u64")
    offset = cursor.number("offset")
    if cursor.operands[2].slot is not None:
        read = cursor.read(2, "u32")
    else:
        number = np.array(cursor.integer(2), np.int64)
        read = lambda wave: number  # noqa: E731

    def run(wave):
        columns = np.arange(wave.shape[1]) if wave.columns is None else np.flatnonzero(wave.columns)
        addresses = base(wave).view(np.int64) + read(wave).astype(np.int64) + offset
        addresses = np.broadcast_to(addresses, wave.shape[1:]) & ~np.int64(3)

        def perform(only):
            chosen = columns if only is None else columns[only[columns]]
            if not len(chosen):
                return
            offsets = addresses[chosen] - _BASE
            arena, segment = wave.strip.launch.arena, wave.strip.launch.segment - GLOBAL_BASE
            inside = (offsets >= segment) & (offsets < segment + wave.strip.launch.segment_bytes)
            try:
                for word in range(words):
                    values, undefined = np.zeros(wave.shape[1], U32), np.zeros(wave.shape[1], U32)
                    if inside.all():
                        values[chosen], undefined[chosen] = arena.load_partly(offsets + 4 * word)
                    else:
                        values[chosen] = arena.load(offsets + 4 * word, 4)
                    mask = np.zeros(wave.shape[1], bool)
                    mask[chosen] = True
                    wave.load(first + word, values, mask, undefined if undefined.any() else None)
            except Fault as fault:
                fault.lane = None if fault.lane is None else int(chosen[fault.lane])
                raise

        slots = [slot for slot in range(first, first + words) if slot >= S]
        wave.issue(("scalar",), slots, perform, wave.columns)

    return run


for _name, _words in (("dword", 1), ("b32", 1), ("dwordx2", 2), ("b64", 2), ("b96", 3), ("dwordx4", 4), ("b128", 4),
                      ("dwordx8", 8), ("b256", 8), ("dwordx16", 16), ("b512", 16)):  # fmt: skip
    instruction(f"s_load_{_name}")(lambda cursor, words=_words: _scalar_load(cursor, words))


# ---------------------------------------------------------------- LDS


class LocalAccess:
    """Addresses of an LDS instruction, and the count of its bank conflicts.

    Args:
        kind: `read` or `write`; nbytes: of each lane's access; offset: added to the address.
    """

    def __init__(self, cursor: Cursor, kind: str, nbytes: int, offset: int):
        self.kind, self.nbytes, self.offset = kind, nbytes, np.uint32(offset & 0xFFFFFFFF)
        self.place = cursor.decoder.place(cursor.statement)

    def __call__(self, wave, lanes: Lanes, address: np.ndarray) -> np.ndarray:
        """`[n]` int64 addresses in the workgroup's LDS."""
        addresses = lanes.pick(address + self.offset).astype(np.int64)
        everywhere = lanes.spread(addresses, slice(None))
        wave.strip.conflicts.count(self.place, everywhere, lanes.mask, self.nbytes, self.kind)
        return addresses

    def offsets(self, wave, lanes: Lanes, chosen, addresses: np.ndarray) -> np.ndarray:
        return wave.strip.local.offsets(addresses[chosen], wave.local_base[lanes.columns[chosen]], self.nbytes)


def _local_reads(cursor: Cursor, nbytes: int, sign: str, half: int | None, offsets: Sequence[int]):
    cursor.count(2)
    address = cursor.read(1, "u32")
    accesses = [LocalAccess(cursor, "read", nbytes, offset) for offset in offsets]
    land, slots = _loads(cursor, 0, nbytes * len(offsets), sign, half)

    def run(wave):
        lanes = Lanes(wave)
        base = address(wave)
        places = [access(wave, lanes, base) for access in accesses]

        def perform(columns):
            chosen = lanes.among(columns)
            if not len(lanes.columns[chosen]):
                return
            with lanes.located(chosen):
                parts = [
                    load_words(wave.strip.local, access.offsets(wave, lanes, chosen, each), nbytes)
                    for access, each in zip(accesses, places, strict=True)
                ]
            land(wave, lanes, chosen, parts[0] if len(parts) == 1 else np.concatenate(parts, 1))

        wave.issue(("lds",), slots, perform, lanes.mask)

    return run


def _local_writes(cursor: Cursor, nbytes: int, high: int, offsets: Sequence[int]):
    cursor.count(1 + len(offsets))
    address = cursor.read(0, "u32")
    accesses = [LocalAccess(cursor, "write", nbytes, offset) for offset in offsets]
    reads = [_stored(cursor, 1 + i, nbytes, high) for i in range(len(offsets))]

    def run(wave):
        lanes = Lanes(wave)
        base = address(wave)
        parts = [(access, access(wave, lanes, base), read(wave, lanes)) for access, read in zip(accesses, reads, strict=True)]

        def perform(columns):
            chosen = lanes.among(columns)
            if not len(lanes.columns[chosen]):
                return
            with lanes.located(chosen):
                for access, places, words in parts:
                    store_words(wave.strip.local, access.offsets(wave, lanes, chosen, places), nbytes, words[chosen])

        wave.issue(("lds",), (), perform, lanes.mask)

    return run


_LOCAL_LOADED = {
    "u8": (1, "u", None), "i8": (1, "i", None), "u16": (2, "u", None), "i16": (2, "i", None),
    "u8_d16": (1, "u", 0), "u8_d16_hi": (1, "u", 1), "i8_d16": (1, "i", 0), "i8_d16_hi": (1, "i", 1),
    "u16_d16": (2, "u", 0), "u16_d16_hi": (2, "u", 1),
    "b32": (4, "u", None), "b64": (8, "u", None), "b96": (12, "u", None), "b128": (16, "u", None),
}  # fmt: skip
_LOCAL_STORED = {
    "b8": (1, 0), "b16": (2, 0), "b8_d16_hi": (1, 1), "b16_d16_hi": (2, 1), "b32": (4, 0), "b64": (8, 0),
    "b96": (12, 0), "b128": (16, 0),
}  # fmt: skip
for _suffix, (_nbytes, _sign, _half) in _LOCAL_LOADED.items():

    @instruction(f"ds_read_{_suffix}")
    def _build_read(cursor: Cursor, nbytes=_nbytes, sign=_sign, half=_half):
        return _local_reads(cursor, nbytes, sign, half, [cursor.number("offset")])


for _suffix, (_nbytes, _high) in _LOCAL_STORED.items():

    @instruction(f"ds_write_{_suffix}")
    def _build_write(cursor: Cursor, nbytes=_nbytes, high=_high):
        return _local_writes(cursor, nbytes, high, [cursor.number("offset")])


for _stride, _scale in (("", 1), ("st64", 64)):
    for _bits in (32, 64):

        @instruction(f"ds_read2{_stride}_b{_bits}")
        def _build_read_two(cursor: Cursor, unit=_bits // 8, scale=_scale):
            offsets = [cursor.number(name) * unit * scale for name in ("offset0", "offset1")]
            return _local_reads(cursor, unit, "u", None, offsets)

        @instruction(f"ds_write2{_stride}_b{_bits}")
        def _build_write_two(cursor: Cursor, unit=_bits // 8, scale=_scale):
            offsets = [cursor.number(name) * unit * scale for name in ("offset0", "offset1")]
            return _local_writes(cursor, unit, 0, offsets)


# ---------------------------------------------------------------- through LDS between lanes


@instruction("ds_bpermute_b32", "ds_permute_b32", "ds_swizzle_b32")
def permute_lanes(cursor: Cursor):
    """bpermute: a lane takes the value of the lane that its address names; permute: it gives its own to that lane;
    swizzle: a pattern in the instruction says where from. Lanes that are off give 0."""
    kind = cursor.name.split("_")[1]
    offset, target = cursor.number("offset") if kind != "swizzle" else _pattern(cursor), cursor.slot(0)
    source = cursor.slot(1 if kind == "swizzle" else 2)
    address = None if kind == "swizzle" else cursor.read(1, "u32")
    wave_lanes = cursor.target.wave
    lane = np.arange(wave_lanes)[:, None]

    def run(wave):
        active = np.ones(wave.shape, bool) if wave.lanes is None else wave.lanes
        if kind == "swizzle":
            index = np.broadcast_to(_swizzled(lane, offset), wave.shape)
        else:
            index = np.broadcast_to((address(wave) + np.uint32(offset)) // np.uint32(4) % np.uint32(wave_lanes), wave.shape)
        index = index.astype(np.int64)
        columns = np.broadcast_to(np.arange(wave.shape[1]), wave.shape)
        if wave.state[source] is not None:
            used = active.copy()
            if kind != "permute":
                used = np.zeros(wave.shape, bool)
                used[index[active], columns[active]] = True
                used &= active
            wave.check(source, lanes=used)
        if kind == "permute":
            value = np.zeros(wave.shape, np.uint32)
            value[index[active], columns[active]] = wave.r[source][active]
        else:
            given = np.where(active, wave.r[source], np.uint32(0))
            value = np.take_along_axis(given, index, 0)
        lanes = Lanes(wave)

        def perform(chosen):
            picked = lanes.among(chosen)
            wave.load(target, lanes.spread(lanes.pick(value)[picked], picked), lanes.mask_of(picked))

        wave.issue(("lds",), (target,), perform, lanes.mask)

    return run


def _pattern(cursor: Cursor) -> int:
    text = cursor.modifiers.pop("offset", "0")
    match = re.match(r"swizzle\(BITMASK_PERM,\s*\"([01pi]{5})\"\)", text)
    if match:  # most significant bit first: 0, 1, preserved, inverted
        and_, or_, xor = 0, 0, 0
        for bit, char in zip((4, 3, 2, 1, 0), match[1], strict=True):
            and_ |= (char in "pi") << bit
            or_ |= (char == "1") << bit
            xor |= (char == "i") << bit
        return and_ | or_ << 5 | xor << 10
    if match := re.match(r"swizzle\(SWAP,\s*(\d+)\)", text):
        return 0x1F | int(match[1]) << 10
    if match := re.match(r"swizzle\(REVERSE,\s*(\d+)\)", text):
        return 0x1F | (int(match[1]) - 1) << 10
    if match := re.match(r"swizzle\(BROADCAST,\s*(\d+),\s*(\d+)\)", text):
        return (0x1F & ~(int(match[1]) - 1)) | int(match[2]) << 5
    if match := re.match(r"swizzle\(QUAD_PERM,\s*(\d),\s*(\d),\s*(\d),\s*(\d)\)", text):
        return 0x8000 | sum(int(match[1 + i]) << 2 * i for i in range(4))
    if not re.fullmatch(r"0x[0-9a-fA-F]+|\d+", text):
        cursor.refuse("pattern of lanes is not supported")
    return int(text, 0)


def _swizzled(lane: np.ndarray, pattern: int) -> np.ndarray:
    if pattern & 0x8000:  # within each four lanes
        return lane // 4 * 4 + (pattern >> 2 * (lane % 4) & 3)
    within = lane % 32
    return lane // 32 * 32 + ((within & pattern & 31 | pattern >> 5 & 31) ^ pattern >> 10 & 31)


# ---------------------------------------------------------------- atomic operations

_ATOMIC = {
    # what instructions call it: (operation, type); 64 bits add `_x2` or are in the type's name
    "add": ("add", "u"), "sub": ("sub", "u"), "smin": ("min", "i"), "umin": ("min", "u"), "smax": ("max", "i"),
    "umax": ("max", "u"), "and": ("and", "u"), "or": ("or", "u"), "xor": ("xor", "u"), "inc": ("inc", "u"),
    "dec": ("dec", "u"), "swap": ("exch", "u"), "cmpswap": ("cas", "u"),
}  # fmt: skip
def _operands(cursor: Cursor, index: int, operation: str, dtype: np.dtype) -> Callable:
    """How to read an atomic's data: (wave, lanes) -> x, y `[n]`; of a compare-and-swap the value to compare with, then the
    new one, which comes first in the registers."""
    size = dtype.itemsize
    read = _stored(cursor, index, size * (2 if operation == "cas" else 1))

    def both(wave, lanes: Lanes):
        values = np.ascontiguousarray(read(wave, lanes)).view(dtype)
        return values[:, -1], values[:, 0]

    return both


def _lands_old(cursor: Cursor, index: int, nbytes: int):
    return _loads(cursor, index, nbytes, "u", None)


def _global_atomic(cursor: Cursor, operation: str, dtype: np.dtype):
    flat = cursor.name.startswith("flat")
    th = cursor.modifiers.pop("th", "")
    returns = cursor.flag("glc") or (cursor.target.cdna and cursor.flag("sc0")) or "RETURN" in th
    cursor.drop(*_HINTS)
    cursor.count(2 + returns + (not flat))
    index = int(returns)
    address = GlobalAddress(cursor, index, None if flat else index + 2)
    operands = _operands(cursor, index + 1, operation, dtype)
    land, slots = _lands_old(cursor, 0, dtype.itemsize) if returns else (None, ())
    kinds, update = _vector_kinds(cursor, store=not returns), updates(operation, dtype)

    def run(wave):
        lanes = Lanes(wave)
        addresses = lanes.pick(address(wave))
        x, y = operands(wave, lanes)

        def perform(columns):
            chosen = lanes.among(columns)
            there = addresses[chosen]
            if not len(there):
                return
            if flat and _in_lds(there).any():
                raise Fault("a flat atomic operation on LDS is not supported", needs="an ordinary one")
            with lanes.located(chosen), wave.strip.launch.lock:
                old = take_turns(wave.strip.launch.arena, there - _BASE, x[chosen], y[chosen], update)
            if land:
                land(wave, lanes, chosen, old.view(U32).reshape(len(old), -1))

        wave.issue(kinds(addresses), slots, perform, lanes.mask, Touched(addresses, lanes.columns, dtype.itemsize, True, wave.shape[1]))

    return run


def _local_atomic(cursor: Cursor, operation: str, dtype: np.dtype, returns: bool):
    swaps = operation == "cas"
    cursor.count(2 + returns + swaps)
    index = int(returns)
    address = cursor.read(index, "u32")
    size = dtype.itemsize
    # here the data are operands of their own; before GFX11 the old value came first
    reads = [_stored(cursor, index + 1 + i, size) for i in range(1 + swaps)]
    first = cursor.target.cdna and swaps
    access = LocalAccess(cursor, "write", size, cursor.number("offset"))
    land, slots = _lands_old(cursor, 0, size) if returns else (None, ())
    update = updates(operation, dtype)

    def run(wave):
        lanes = Lanes(wave)
        addresses = access(wave, lanes, address(wave))
        values = [np.ascontiguousarray(read(wave, lanes)).view(dtype)[:, 0] for read in reads]
        x, y = (values[0], values[-1]) if first else (values[-1], values[0])

        def perform(columns):
            chosen = lanes.among(columns)
            if not len(lanes.columns[chosen]):
                return
            with lanes.located(chosen):
                offsets = access.offsets(wave, lanes, chosen, addresses)
                old = take_turns(wave.strip.local, offsets, x[chosen], y[chosen], update)
            if land:
                land(wave, lanes, chosen, old.view(U32).reshape(len(old), -1))

        wave.issue(("lds",), slots, perform, lanes.mask)

    return run


for _space in ("global", "flat"):
    for _name, (_operation, _sign) in _ATOMIC.items():
        for _suffix, _size in (("", 4), ("_x2", 8)):
            instruction(f"{_space}_atomic_{_name}{_suffix}")(
                lambda cursor, op=_operation, dtype=np.dtype(f"{_sign}{_size}"): _global_atomic(cursor, op, dtype)
            )
        for _bits in (32, 64):  # GFX11's names: add_u32, min_i64, and_b32
            _kind = {"and": "b", "or": "b", "xor": "b", "swap": "b", "cmpswap": "b"}.get(_name, _sign)
            _plain = {"smin": "min", "umin": "min", "smax": "max", "umax": "max"}.get(_name, _name)
            instruction(f"{_space}_atomic_{_plain}_{_kind}{_bits}")(
                lambda cursor, op=_operation, dtype=np.dtype(f"{_sign}{_bits // 8}"): _global_atomic(cursor, op, dtype)
            )
    for _name, _operation, _dtype in (
        ("add_f32", "add", np.float32), ("add_f64", "add", np.float64), ("min_f64", "min", np.float64),
        ("max_f64", "max", np.float64), ("min_f32", "min", np.float32), ("max_f32", "max", np.float32),
        ("min_num_f32", "min", np.float32), ("max_num_f32", "max", np.float32),
    ):  # fmt: skip
        instruction(f"{_space}_atomic_{_name}")(
            lambda cursor, op=_operation, dtype=np.dtype(_dtype): _global_atomic(cursor, op, dtype)
        )

for _name, _operation, _kind in (
    ("add", "add", "u"), ("sub", "sub", "u"), ("min", "min", "i"), ("min", "min", "u"), ("max", "max", "i"), ("max", "max", "u"),
    ("and", "and", "b"), ("or", "or", "b"), ("xor", "xor", "b"), ("inc", "inc", "u"), ("dec", "dec", "u"),
    ("wrxchg", "exch", "b"), ("storexchg", "exch", "b"), ("cmpst", "cas", "b"), ("cmpstore", "cas", "b"),
    ("add", "add", "f"),
):  # fmt: skip
    for _bits in (32, 64):
        for _returns in (False, True):
            instruction(f"ds_{_name}{'_rtn' * _returns}_{_kind}{_bits}")(
                lambda cursor, op=_operation, dtype=np.dtype(f"{'u' if _kind == 'b' else _kind}{_bits // 8}"), returns=_returns:
                _local_atomic(cursor, op, dtype, returns)
            )  # fmt: skip

