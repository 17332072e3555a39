"""Scratch memory: nobody but the lane sees it, so it is read and written at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gemmgen.emulate.amdgpu.decode import Cursor, instruction
from gemmgen.emulate.amdgpu.isa.access import HINTS, LOADED, STORED, Lanes
from gemmgen.emulate.amdgpu.wave import SCRATCH_RESOURCE
from gemmgen.emulate.core.memory import Fault

U32 = np.dtype(np.uint32)


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
    nbytes, sign, half = LOADED[suffix]
    count = max(1, nbytes // 4)
    first = cursor.slot(0, count)
    if half is not None or cursor.operands[0].half:
        cursor.refuse("half of a register in scratch memory is not supported")
    cursor.drop(*HINTS)

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
    nbytes, high = STORED[suffix]
    count = max(1, nbytes // 4)
    first = cursor.slot(index, count)
    if high or cursor.operands[index].half:
        cursor.refuse("half of a register in scratch memory is not supported")
    cursor.drop(*HINTS)
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


for _suffix in LOADED:

    @instruction(f"scratch_load_{_suffix}")
    def _build_scratch_load(cursor: Cursor, suffix=_suffix):
        cursor.count(3)
        return _scratch_load(cursor, suffix, ScratchAddress(cursor, 1, 2))

    @instruction(f"buffer_load_{_suffix}")
    def _build_buffer_load(cursor: Cursor, suffix=_suffix):
        return _scratch_load(cursor, suffix, BufferAddress(cursor))


for _suffix in STORED:

    @instruction(f"scratch_store_{_suffix}")
    def _build_scratch_store(cursor: Cursor, suffix=_suffix):
        cursor.count(3)
        return _scratch_store(cursor, suffix, 1, ScratchAddress(cursor, 0, 2))

    @instruction(f"buffer_store_{_suffix}")
    def _build_buffer_store(cursor: Cursor, suffix=_suffix):
        return _scratch_store(cursor, suffix, 0, BufferAddress(cursor))
