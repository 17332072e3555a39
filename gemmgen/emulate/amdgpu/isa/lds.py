"""Loads and stores of LDS, and values that pass through it between lanes."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from gemmgen.emulate.amdgpu.decode import Cursor, instruction
from gemmgen.emulate.amdgpu.isa.access import Lanes, load_words, loaded, store_words, stored


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
    land, slots = loaded(cursor, 0, nbytes * len(offsets), sign, half)

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
    reads = [stored(cursor, 1 + i, nbytes, high) for i in range(len(offsets))]

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
