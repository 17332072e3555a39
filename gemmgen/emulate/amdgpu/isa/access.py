"""Loads and stores of global memory, and what all accesses have in common.

Each reads its registers when it is issued and becomes a Flight; what it does to
memory is a function that the machine calls, at once or when a wait comes. Loads and
stores need no alignment, since the runtime sets the hardware up so and the compiler
relies on it (it merges loads of neighbouring bytes).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gemmgen.emulate.amdgpu.decode import Cursor, instruction
from gemmgen.emulate.amdgpu.flights import Touched
from gemmgen.emulate.amdgpu.operands import DTYPES, S
from gemmgen.emulate.core.memory import GLOBAL_BASE, SHARED_WINDOW, Fault, Space

U32, U64 = DTYPES["u32"], DTYPES["u64"]
BASE = np.int64(GLOBAL_BASE)
HINTS = ("glc", "slc", "dlc", "sc0", "sc1", "nt", "scope", "th", "scal", "nv")
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

    def touch(self, addresses: np.ndarray, size: int, writes: bool) -> Touched:
        """What an access of theirs to global memory touches, addresses being `[n]`."""
        return Touched(addresses, self.columns, size, writes, self.shape[1])

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

LOADED = {
    # suffix: (bytes, sign, half of the register or None for all of it)
    "ubyte": (1, "u", None), "u8": (1, "u", None), "sbyte": (1, "i", None), "i8": (1, "i", None),
    "ushort": (2, "u", None), "u16": (2, "u", None), "sshort": (2, "i", None), "i16": (2, "i", None),
    "ubyte_d16": (1, "u", 0), "d16_u8": (1, "u", 0), "ubyte_d16_hi": (1, "u", 1), "d16_hi_u8": (1, "u", 1),
    "sbyte_d16": (1, "i", 0), "d16_i8": (1, "i", 0), "sbyte_d16_hi": (1, "i", 1), "d16_hi_i8": (1, "i", 1),
    "short_d16": (2, "u", 0), "d16_b16": (2, "u", 0), "short_d16_hi": (2, "u", 1), "d16_hi_b16": (2, "u", 1),
    "dword": (4, "u", None), "b32": (4, "u", None), "dwordx2": (8, "u", None), "b64": (8, "u", None),
    "dwordx3": (12, "u", None), "b96": (12, "u", None), "dwordx4": (16, "u", None), "b128": (16, "u", None),
}  # fmt: skip
STORED = {
    "byte": (1, 0), "b8": (1, 0), "short": (2, 0), "b16": (2, 0), "byte_d16_hi": (1, 1), "d16_hi_b8": (1, 1),
    "short_d16_hi": (2, 1), "d16_hi_b16": (2, 1), "dword": (4, 0), "b32": (4, 0), "dwordx2": (8, 0), "b64": (8, 0),
    "dwordx3": (12, 0), "b96": (12, 0), "dwordx4": (16, 0), "b128": (16, 0),
}  # fmt: skip


def counted(cursor: Cursor, store: bool) -> Callable:
    """What an access counts as, given its addresses. A flat one that meets only global memory is like a global
    one: the compiler, where it knows that, waits for nothing else."""
    kind = cursor.target.store_kind if store else "vector"
    if not cursor.name.startswith("flat"):
        return lambda addresses: (kind,)
    return lambda addresses: (f"flat {kind}", "flat lds") if in_lds(addresses).any() else (kind,)


def in_lds(addresses: np.ndarray) -> np.ndarray:
    """Which flat addresses lie in the aperture of LDS."""
    return addresses >> 32 == SHARED_WINDOW >> 32


def loaded(cursor: Cursor, index: int, nbytes: int, sign: str = "u", half: int | None = None) -> tuple[Callable, range]:
    """How loaded words land in the registers of an operand, (wave, lanes, chosen, words), and their slots.

    Args:
        sign: `i` for less than 4 bytes that are sign extended.
        half: the one that 2 bytes or less go to, while the other stays; None for the whole register.
    """
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
    nbytes, sign, half = LOADED[suffix]
    flat = cursor.name.startswith("flat")
    cursor.count(2 if flat else 3)
    cursor.drop(*HINTS)
    address = GlobalAddress(cursor, 1, None if flat else 2)
    land, slots = loaded(cursor, 0, nbytes, sign, half)
    kinds = counted(cursor, store=False)

    def run(wave):
        lanes = Lanes(wave)
        addresses = lanes.pick(address(wave))

        def perform(columns):
            chosen = lanes.among(columns)
            with lanes.located(chosen):
                words = _load(wave, lanes, chosen, addresses[chosen], nbytes, flat)
            land(wave, lanes, chosen, words)

        wave.issue(kinds(addresses), slots, perform, lanes.mask, lanes.touch(addresses, nbytes, writes=False))

    return run


def _load(wave, lanes: Lanes, chosen, addresses: np.ndarray, nbytes: int, flat: bool) -> np.ndarray:
    arena = wave.strip.launch.arena
    if not len(addresses):
        return np.zeros((0, max(1, nbytes // 4)), U32)
    local = in_lds(addresses) if flat else None
    if local is None or not local.any():
        return load_words(arena, addresses - BASE, nbytes)
    words = np.zeros((len(addresses), max(1, nbytes // 4)), U32)
    if not local.all():
        words[~local] = load_words(arena, addresses[~local] - BASE, nbytes)
    words[local] = load_words(wave.strip.local, _local(wave, lanes, chosen, addresses, local, nbytes), nbytes)
    return words


def _local(wave, lanes: Lanes, chosen, addresses, local, nbytes: int) -> np.ndarray:
    """Offsets in LDS of flat addresses that lie in its aperture."""
    base = wave.local_base[lanes.columns[chosen]][local]
    return wave.strip.local.offsets((addresses - SHARED_WINDOW)[local], base, nbytes)


def _global_store(cursor: Cursor, suffix: str):
    nbytes, high = STORED[suffix]
    flat = cursor.name.startswith("flat")
    cursor.count(2 if flat else 3)
    cursor.drop(*HINTS)
    address = GlobalAddress(cursor, 0, None if flat else 2)
    read = stored(cursor, 1, nbytes, high)
    kinds = counted(cursor, store=True)

    def run(wave):
        lanes = Lanes(wave)
        addresses, words = lanes.pick(address(wave)), read(wave, lanes)

        def perform(columns):
            chosen = lanes.among(columns)
            there = addresses[chosen]
            if not len(there):
                return
            with lanes.located(chosen):
                local = in_lds(there) if flat else np.zeros(len(there), bool)
                if not local.all():
                    store_words(wave.strip.launch.arena, there[~local] - BASE, nbytes, words[chosen][~local])
                if local.any():
                    offsets = _local(wave, lanes, chosen, there, local, nbytes)
                    store_words(wave.strip.local, offsets, nbytes, words[chosen][local])

        wave.issue(kinds(addresses), (), perform, lanes.mask, lanes.touch(addresses, nbytes, writes=True))

    return run


def stored(cursor: Cursor, index: int, nbytes: int, high: int = 0) -> Callable:
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
    for _suffix in LOADED:
        instruction(f"{_space}_load_{_suffix}")(lambda cursor, suffix=_suffix: _global_load(cursor, suffix))
    for _suffix in STORED:
        instruction(f"{_space}_store_{_suffix}")(lambda cursor, suffix=_suffix: _global_store(cursor, suffix))


# ---------------------------------------------------------------- scalar memory


def _scalar_load(cursor: Cursor, words: int):
    """Of the kernel's arguments some bytes may be padding, or hidden ones that are not passed:
    those are undefined until they are used."""
    cursor.count(3)
    cursor.drop(*HINTS)
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
            offsets = addresses[chosen] - BASE
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
