"""Instructions between the lanes of a wave."""

from __future__ import annotations

import numpy as np

from gemmgen.emulate.amdgpu.decode import Cursor, instruction
from gemmgen.emulate.amdgpu.isa.alu import elementwise
from gemmgen.emulate.amdgpu.operands import S, V
from gemmgen.emulate.core.memory import Fault


def _vector_slot(cursor: Cursor, index: int) -> int:
    slot = cursor.slot(index)
    if not V <= slot < S:
        cursor.refuse(f"operand {cursor.text(index)} is not a vector register")
    return slot


def _from_lane(wave, slot: int, lane: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """A vector register of one lane of each wave, whatever EXEC says: its value `[columns]`, and which of its bits are undefined.

    A move of bits, as `v_writelane_b32` is: compilers spill scalar registers to lanes and
    bring them back, whether or not they hold something.
    """
    columns = np.arange(wave.shape[1])
    undefined = None
    if wave.state[slot] is not None:
        one = np.zeros(wave.shape, bool)
        one[lane, columns] = True
        undefined = wave.undefined(slot, one if wave.columns is None else one & wave.columns)
    return wave.r[slot][lane, columns], None if undefined is None else np.broadcast_to(undefined, wave.shape)[lane, columns]


@instruction("v_readfirstlane_b32")
def read_first_lane(cursor: Cursor):
    """Of the first lane that EXEC leaves on, or of lane 0."""
    source, target = _vector_slot(cursor, 1), cursor.slot(0)

    def run(wave):
        first = np.zeros(wave.shape[1], np.int64) if wave.lanes is None else np.argmax(wave.lanes, 0)
        wave.put(target, *_from_lane(wave, source, first))

    return run


@instruction("v_readlane_b32")
def read_lane(cursor: Cursor):
    source, target, lane = _vector_slot(cursor, 1), cursor.slot(0), cursor.read(2, "u32")

    def run(wave):
        chosen = np.broadcast_to(lane(wave).astype(np.int64) % wave.shape[0], wave.shape[1:])
        wave.put(target, *_from_lane(wave, source, chosen))

    return run


@instruction("v_writelane_b32")
def write_lane(cursor: Cursor):
    """Writes one lane, whatever EXEC says. Undefined bits of the scalar register move along."""
    target, read, lane = _vector_slot(cursor, 0), cursor.loose(1), cursor.read(2, "u32")

    def run(wave):
        chosen = np.broadcast_to(lane(wave).astype(np.int64) % wave.shape[0], wave.shape[1:])
        one = np.arange(wave.shape[0])[:, None] == chosen
        lanes = wave.lanes
        wave.lanes = one if wave.columns is None else one & wave.columns
        value, undefined = read(wave)
        wave.put(target, np.broadcast_to(value, wave.shape), undefined)
        wave.lanes = lanes

    return run


def _bits_below(first: int):
    """How many bits of a mask, for lanes `first` to `first + 31`, are of lanes below one's own."""

    def build(cursor: Cursor):
        lane = np.clip(np.arange(cursor.target.wave) - first, 0, 32).astype(np.uint64)
        below = ((np.uint64(1) << lane) - np.uint64(1)).astype(np.uint32)[:, None]
        return elementwise(cursor, lambda mask, more: np.bitwise_count(mask & below).astype(np.uint32) + more, ["u32", "u32"])

    return build


instruction("v_mbcnt_lo_u32_b32")(_bits_below(0))
instruction("v_mbcnt_hi_u32_b32")(_bits_below(32))


@instruction("v_permlane16_b32", "v_permlanex16_b32")
def permute_in_row(cursor: Cursor):
    """Each lane takes a lane of its row of 16, or of the other row of the two, that two scalar operands name."""
    cursor.count(4)
    inactive, zero = cursor.bits("op_sel", (0, 0))[:2]
    source, low, high = _vector_slot(cursor, 1), cursor.read(2, "u32"), cursor.read(3, "u32")
    put = cursor.put(0)
    lane = np.arange(cursor.target.wave)[:, None]
    row = lane // 16 * 16
    if cursor.name == "v_permlanex16_b32":
        row = row ^ 16
    shift = (lane % 8 * 4).astype(np.uint32)

    def run(wave):
        words = np.where(lane % 16 < 8, low(wave), high(wave))
        index = np.broadcast_to(row + (words >> shift & np.uint32(15)), wave.shape)
        ready = np.ones(wave.shape, bool)
        if wave.lanes is not None and not inactive:
            ready = np.take_along_axis(wave.lanes, index, 0)
        if wave.state[source] is not None:
            used = np.zeros(wave.shape, bool)
            np.logical_or.at(used, (index, np.arange(wave.shape[1])), ready if wave.lanes is None else ready & wave.lanes)
            wave.check(source, lanes=used)
        value = np.where(ready, np.take_along_axis(wave.r[source], index, 0), np.uint32(0))
        lanes = wave.lanes
        if not zero:
            wave.lanes = ready if lanes is None else ready & lanes
        put(wave, value)
        wave.lanes = lanes

    return run


@instruction("v_permlane32_swap_b32", "v_permlane16_swap_b32")
def swap_rows(cursor: Cursor):
    """The upper rows of one register change places with the lower ones of another (CDNA 4)."""
    cursor.count(2)
    cursor.drop("bound_ctrl", "fi")
    first, second = _vector_slot(cursor, 0), _vector_slot(cursor, 1)
    rows = 32 if "permlane32" in cursor.name else 16

    def run(wave):
        if wave.lanes is not None:
            raise Fault("rows are swapped while EXEC switches lanes off", needs="all lanes")
        for slot in (first, second):
            if wave.state[slot] is not None:
                wave.check(slot)
        x, y = (wave.r[slot].reshape(-1, 2, rows, wave.shape[1]) for slot in (first, second))
        wave.put(first, np.stack([x[:, 0], y[:, 0]], 1).reshape(wave.shape))
        wave.put(second, np.stack([x[:, 1], y[:, 1]], 1).reshape(wave.shape))

    return run
