"""`mbarrier.*`: making, signalling and waiting. `gemmgen.emulate.ptx.mbarrier` says what such a barrier is."""

from __future__ import annotations

import numpy as np

from gemmgen.emulate.core.memory import Fault, at_lane
from gemmgen.emulate.ptx.decode import Cursor, instruction
from gemmgen.emulate.ptx.isa.integer import U32, U64
from gemmgen.emulate.ptx.isa.memory import Access, memory_space


def places(access: Access, warp, mask):
    """(lane, offset) of each lane that takes part, in Python numbers, checked for alignment."""
    for lanes, offsets in _located(access, warp, mask):
        yield from zip(lanes.tolist(), offsets.tolist(), strict=True)


def _located(access: Access, warp, mask):
    """The same as arrays, `[n]` each."""
    for memory, offsets, lanes in access.each(warp, mask):
        lanes = np.arange(warp.lanes) if lanes is None else lanes
        if memory is not warp.strip.shared:
            got = memory.describe(int(offsets[0]))
            raise Fault("an mbarrier lies in shared memory only", lane=int(lanes[0]), got=got)
        if (odd := offsets & 7 != 0).any():
            first = int(np.argmax(odd))
            raise Fault(
                "an mbarrier is not aligned",
                lane=int(lanes[first]),
                got=memory.describe(int(offsets[first])),
                needs="an address that is a multiple of 8",
            )
        yield lanes, offsets


def barrier_access(cursor: Cursor, operand: int) -> Access:
    space = memory_space(cursor, "shared", "generic")
    return Access(cursor, operand, space, 8, counted=False)


@instruction("mbarrier")
def mbarrier(cursor: Cursor):
    action = cursor.choice(
        "init", "inval", "arrive", "expect_tx", "complete_tx", "try_wait", "test_wait", default="none"
    )
    if action == "none":
        cursor.refuse("mbarrier instruction is not supported")
    build = {
        "init": _init, "inval": _inval, "arrive": _arrive, "expect_tx": _bytes, "complete_tx": _bytes,
        "try_wait": _wait, "test_wait": _wait,
    }[action]  # fmt: skip
    run = build(cursor, action)
    cursor.choice("b64")
    return run


def _init(cursor: Cursor, action: str):
    access, count = barrier_access(cursor, 0), cursor.source(1, "u32")
    cursor.count(2)

    def run(warp, mask):
        counts = warp.full(count, U32)
        for lane, offset in places(access, warp, mask):
            with at_lane(lane):
                warp.strip.barriers.init(offset, int(counts[lane]), int(warp.cta[lane]), int(warp.tid[lane]))

    return run


def _inval(cursor: Cursor, action: str):
    access = barrier_access(cursor, 0)
    cursor.count(1)

    def run(warp, mask):
        for lane, offset in places(access, warp, mask):
            with at_lane(lane):
                warp.strip.barriers.invalidate(offset)

    return run


def _arrive(cursor: Cursor, action: str):
    expecting, keeping = cursor.flag("expect_tx"), cursor.flag("noComplete")
    if keeping:
        cursor.refuse("mbarrier.arrive.noComplete is not supported", remedy="leave the modifier away")
    cursor.drop("release", "relaxed", "cta", "cluster")
    returns = not cursor.operands[0].startswith("[")
    target = cursor.target(0) if returns else -1
    at = int(returns)
    cursor.count(*((at + 2,) if expecting else (at + 1, at + 2)))
    access, place = barrier_access(cursor, at), cursor.decoder.source.site(cursor.statement)
    number = cursor.source(at + 1, "u32") if len(cursor.operands) > at + 1 else -1

    def run(warp, mask):
        barriers = warp.strip.barriers
        numbers = warp.full(number, U32).tolist() if number >= 0 else [1] * warp.lanes
        phases = np.zeros(warp.lanes, np.uint64)
        for lane, offset in places(access, warp, mask):
            with at_lane(lane):
                barriers.check_use(offset, int(warp.cta[lane]), place)
                if (tensor := warp.strip.tensor) and (memory := tensor[warp.cta[lane]]) is tensor[offset // warp.strip.shared.pitch]:
                    barriers.tell(offset, memory.passed_on(int(warp.strip.tensor_threads(warp.cta[lane], warp.tid[lane]))))
                if expecting:
                    barriers.expect(offset, numbers[lane])
                phases[lane] = barriers.arrive(offset, 1 if expecting else numbers[lane])
        warp.put(target, phases, mask)

    return run


def _bytes(cursor: Cursor, action: str):
    cursor.drop("relaxed", "cta", "cluster")
    cursor.count(2)
    access, number = barrier_access(cursor, 0), cursor.source(1, "u32")
    place = cursor.decoder.source.site(cursor.statement)

    def run(warp, mask):
        barriers = warp.strip.barriers
        numbers = warp.full(number, U32).tolist()
        for lane, offset in places(access, warp, mask):
            with at_lane(lane):
                barriers.check_use(offset, int(warp.cta[lane]), place)
                if action == "expect_tx":
                    barriers.expect(offset, numbers[lane])
                else:
                    barriers.come(offset, numbers[lane])

    return run


def _wait(cursor: Cursor, action: str):
    """Lanes whose phase is complete go on with true. The others are parked, as a
    try_wait may suspend them; it is fair to a loop around a test_wait, too. When
    nothing else can go on they get false."""
    parity = cursor.flag("parity")
    cursor.drop("acquire", "relaxed", "cta", "cluster")
    cursor.count(3, *((4,) if action == "try_wait" else ()))
    target, access = cursor.target(0), barrier_access(cursor, 1)
    dtype, token = (U32, cursor.source(2, "u32")) if parity else (U64, cursor.source(2, "b64"))

    def run(warp, mask):
        barriers = warp.strip.barriers
        phases = warp.full(token, dtype).astype(np.int64)
        ready = np.zeros(warp.lanes, bool)
        for lanes, offsets in _located(access, warp, mask):
            wanted = phases[lanes]
            warp.awaits[:, lanes] = offsets, wanted & 1
            # Lanes mostly wait for the same: one question for all of them.
            _, first, which = np.unique(offsets << 24 | wanted & 0xFFFFFF, return_index=True, return_inverse=True)
            answers = np.zeros(len(first), bool)
            for number, one in enumerate(first):
                with at_lane(int(lanes[one])):
                    answers[number] = _complete(barriers.at(int(offsets[one])), int(wanted[one]), parity)
            ready[lanes] = answers[which]
            if warp.strip.tensor:
                _hear(warp, lanes, offsets, answers[which])
        late = np.tile(warp.impatient, 32) & ~ready
        if mask is not None:
            late &= mask
        passed = ready | late
        warp.impatient &= ~late.reshape(32, -1).any(0)
        warp.put(target, ready, mask if passed.all() else passed)
        if (known := ready if mask is None else ready & mask).any():
            warp.strip.order.follow(warp, known)
        return None if passed.all() or (mask is not None and passed[mask].all()) else passed

    return run


def _hear(warp, lanes: np.ndarray, offsets: np.ndarray, ready: np.ndarray) -> None:
    """Lanes that go on know what the barriers' arrivals told of tensor memory."""
    for offset in np.unique(offsets[ready]).tolist():
        cta, told = offset // warp.strip.shared.pitch, warp.strip.barriers.at(offset).told
        there = lanes[ready & (offsets == offset) & (warp.cta[lanes] == cta)]
        if told is not None and len(there):
            warp.strip.tensor[cta].hear(warp.strip.tensor_threads(warp.cta[there], warp.tid[there]), told)


def _complete(barrier, phase: int, parity: bool) -> bool:
    """Whether the phase is complete: of that parity, or of that number."""
    if parity and phase > 1:
        raise Fault("the parity of a phase is neither 0 nor 1", got=phase)
    done = barrier.phase & 1 != phase if parity else barrier.phase > phase
    if done:
        barrier.seen = max(barrier.seen, barrier.phase)
    return done
