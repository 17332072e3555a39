"""Running a strip of CTAs.

The lanes of one warp index across all CTAs of a strip form one numpy vector,
lane after lane (`index = lane * columns + column`, a column being one warp of
one CTA), so that a step of the machine is one instruction for many warps. Warps
with different indices run one after the other, each until its next barrier, in
the order the `Schedule` says, or all as one longer vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from gemmgen.catalog.unit import MatrixUnit
from gemmgen.emulate.banks import ConflictCounter
from gemmgen.emulate.decode import Block, Program
from gemmgen.emulate.memory import Arena, Fault, SharedMemory
from gemmgen.emulate.report import Source

WARP = 32
_WAITING = 1 << 24  # added to a block number: the lane waits at that block's barrier
_GONE = 1 << 28  # the lane has ended
_PATIENCE = 3_000_000  # blocks a warp may run without meeting a barrier


@dataclass(frozen=True)
class Schedule:
    """One way a GPU might order what the program leaves open.

    Attributes:
        warps: which warp runs first, each to its next barrier; or `together`, all
            in step, which is several times faster and shows fewer races.
        copies: when asynchronous copies land: at once, or when a wait forces them.
    """

    name: str
    warps: Literal["highest", "lowest", "together"]
    copies: Literal["lazy", "eager"]


LAZY_HIGHEST = Schedule("lazy copies, highest warp first", "highest", "lazy")
EAGER_LOWEST = Schedule("eager copies, lowest warp first", "lowest", "eager")
SCHEDULES = (LAZY_HIGHEST, EAGER_LOWEST)
"""Together these two expose a missing barrier or a wait that waits too little:
the results differ, or memory is read that nothing has written."""
TOGETHER = Schedule("lazy copies, all warps in step", "together", "lazy")
"""For questions whose answer does not depend on the order of warps."""


@dataclass
class LaunchStats:
    """What a launch did.

    Attributes:
        ctas: CTAs run.
        instructions: instructions executed, counted once a warp.
        mma: matrix instructions executed.
        bank_conflicts: shared-memory wavefronts beyond the least number.
        conflict_sites: the same by source line.
    """

    ctas: int = 0
    instructions: int = 0
    mma: int = 0
    bank_conflicts: int = 0
    conflict_sites: dict[str, int] = field(default_factory=dict)

    def add(self, other: LaunchStats) -> None:
        self.ctas += other.ctas
        self.instructions += other.instructions
        self.mma += other.mma
        self.bank_conflicts += other.bank_conflicts
        for place, extra in other.conflict_sites.items():
            self.conflict_sites[place] = self.conflict_sites.get(place, 0) + extra


@dataclass(frozen=True)
class Launch:
    """What all strips of a launch share.

    Attributes:
        params: the parameter bytes, `[nbytes]` uint8.
        shared_bytes: static and dynamic shared memory of a CTA.
        lock: held around atomic operations on global memory.
    """

    program: Program
    unit: MatrixUnit
    schedule: Schedule
    arena: Arena
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    params: np.ndarray
    lock: AbstractContextManager
    source: Source


class _Unset:
    """What a register holds before it is written: any use of it is a fault."""

    def __getattr__(self, name: str):
        raise Fault("a register is read before it was written")


_UNSET = _Unset()


class Warp:
    """One warp index, or several, across the CTAs of a strip.

    Attributes:
        columns: warps of CTAs side by side in its vectors: indices x CTAs.
        lanes: length of its vectors, 32 times the columns.
        r: the register file, a vector (or 0-d constant) for each slot.
        at: the block all lanes are in, or `[lanes]` int32 when they parted;
            with `_WAITING` added at a barrier, `_GONE` after the end.
        cta: `[lanes]`, each lane's CTA within the strip.
        committed: `[lanes]`, groups of copies committed so far.
        pending: copies in flight, see isa_copy.
    """

    def __init__(self, strip: Strip, indices: range):
        launch, ctas = strip.launch, strip.ctas
        self.strip, self.indices, self.columns = strip, indices, len(indices) * ctas
        self.lanes = WARP * self.columns
        self.lane = np.repeat(np.arange(WARP, dtype=np.uint32), self.columns)
        self.cta = np.tile(np.arange(ctas), WARP * len(indices))
        self.number = np.tile(np.repeat(np.asarray(indices), ctas), WARP)
        self.shared_base = self.cta * strip.shared.pitch
        self.committed = np.zeros(self.lanes, np.int32)
        self.pending: list = []
        thread = self.lane.astype(np.int64) + WARP * self.number
        x, y, _ = launch.block
        self.thread = (thread % x, thread // x % y, thread // (x * y))
        self.r: list = [_UNSET] * launch.program.slots
        for slot, value in launch.program.constants.items():
            self.r[slot] = value
        for name, slot in launch.program.specials.items():
            self.r[slot] = self._special(name)
        missing = thread >= x * y * launch.block[2]
        self.at = np.where(missing, _GONE, 0).astype(np.int32) if missing.any() else 0

    def _special(self, name: str) -> np.ndarray:
        launch = self.strip.launch
        register, _, axis = name[1:].partition(".")
        position = "xyz".find(axis) if axis else 0
        if register == "tid":
            value = self.thread[position]
        elif register == "ctaid":
            value = self.strip.cta_ids[position][self.cta]
        elif register in ("ntid", "nctaid"):
            value = (launch.block if register == "ntid" else launch.grid)[position]
        elif register == "laneid":
            value = self.lane
        elif register == "warpid":
            value = self.number
        elif register == "nwarpid":
            value = len(self.strip.warps_of(launch.block))
        else:
            bit = np.uint64(1) << self.lane.astype(np.uint64)
            below = bit - np.uint64(1)
            value = {
                "eq": bit, "lt": below, "le": below | bit,
                "gt": ~(below | bit), "ge": ~below,
            }[register.removeprefix("lanemask_")]  # fmt: skip
        return np.broadcast_to(np.asarray(value).astype(np.uint32), self.lanes).copy()

    # ---- the register file
    def put(self, slot: int, value: np.ndarray, mask: np.ndarray | None) -> None:
        """Write a register in the lanes of the mask; slot -1 is the sink."""
        if slot < 0:
            return
        if value.shape != (self.lanes,):
            value = np.broadcast_to(value, self.lanes)
        if mask is not None:
            old = self.r[slot]
            if old is _UNSET:  # lanes outside the mask hold nothing the program may rely on
                old = np.zeros(self.lanes, value.dtype)
            merged = old.view(value.dtype).copy()
            np.copyto(merged, value, where=mask)
            value = merged
        self.r[slot] = value

    def get(self, slot: int, dtype: np.dtype) -> np.ndarray:
        """A register's lanes as `dtype`; of a wider register its low part."""
        value = self.r[slot]
        if value.dtype is dtype:
            return value
        return reinterpret(value, dtype)

    def full(self, slot: int, dtype: np.dtype) -> np.ndarray:
        """`get`, with a constant spread over all lanes."""
        value = self.get(slot, dtype)
        return value if value.ndim else np.broadcast_to(value, self.lanes)

    # ---- whole warps
    def whole(self, mask: np.ndarray | None, what: str) -> np.ndarray | None:
        """The columns whose warp is active, for instructions all lanes must execute.

        Returns:
            `[columns]` bool, or None for all of them.
        """
        if mask is None:
            return None
        active = mask.reshape(WARP, self.columns)
        some, every = active.any(0), active.all(0)
        if (some != every).any():
            lane = int(np.argmax(~mask & np.tile(some, WARP)))
            raise Fault(
                f"{what} is not reached by all lanes of the warp",
                lane=lane,
                needs="every lane of the warp, or none",
            )
        return None if every.all() else some

    # ---- control flow
    def run(self) -> None:
        """Run until every lane waits at a barrier or has ended."""
        blocks = self.strip.launch.program.blocks
        stats = self.strip.stats
        for _ in range(_PATIENCE):
            mask = None
            if isinstance(self.at, np.ndarray):
                here = int(self.at.min())
                if here >= _WAITING:
                    return
                mask = self.at == here
                if mask.all():
                    mask, self.at = None, here
            elif (here := self.at) >= _WAITING:
                return
            block = blocks[here]
            warps = self.columns if mask is None else int(mask.reshape(WARP, -1).any(0).sum())
            stats.instructions += warps * (block.length + (block.last is not None))
            self._execute(block, mask)
            self._leave(block, here, mask)
        self.strip.fail(
            self,
            blocks[here].last or blocks[here].code[0],
            Fault(
                "a warp runs on and on without meeting a barrier",
                needs="an end: a loop that waits for another warp never ends here",
            ),
        )

    def _execute(self, block: Block, mask: np.ndarray | None) -> None:
        try:
            for instruction in block.code:
                if instruction.guard < 0:
                    instruction.run(self, mask)
                else:
                    instruction.run(self, self._guarded(instruction, mask))
        except Fault as fault:
            self.strip.fail(self, instruction, fault)

    def _guarded(self, instruction, mask: np.ndarray | None) -> np.ndarray | None:
        predicate = self.full(instruction.guard, np.dtype(np.bool_))
        taken = ~predicate if instruction.negated else predicate
        if mask is not None:
            return taken & mask
        return None if taken.all() else taken

    def _leave(self, block: Block, here: int, mask: np.ndarray | None) -> None:
        """Move the lanes on to the block each goes to next."""
        following, last = block.following, block.last
        try:
            if block.end == "next":
                return self._move(mask, following)
            if block.end == "table":
                return self._table(block, mask)
            taken = mask if last.guard < 0 else self._guarded(last, mask)
            if taken is not None and not taken.any():
                return self._move(mask, following)
            if block.end == "branch":
                to = block.targets[0]
            elif block.end == "exit":
                to = _GONE
            elif block.end == "trap":
                lane = None if taken is None else int(np.argmax(taken))
                raise Fault("the kernel executes a trap", lane=lane)
            else:
                self._arrive(taken)
                to = _WAITING + here
            if taken is not mask:
                self._move(mask, following)
            self._move(taken, to)
        except Fault as fault:
            self.strip.fail(self, last or block.code[-1], fault)

    def _move(self, mask: np.ndarray | None, to: int) -> None:
        if to < 0:
            raise Fault("control runs past the end of the kernel")
        if mask is None:
            self.at = to
            return
        if not isinstance(self.at, np.ndarray):
            self.at = np.full(self.lanes, self.at, np.int32)
        self.at[mask] = to

    def _table(self, block: Block, mask: np.ndarray | None) -> None:
        chosen = self.full(block.selector, np.dtype(np.uint32))
        active = np.ones(self.lanes, bool) if mask is None else mask
        if (chosen[active] >= len(block.targets)).any():
            raise Fault("branch table index is out of range")
        at = np.full(self.lanes, self.at, np.int32) if mask is None else self.at
        self.at = np.where(active, np.asarray(block.targets, np.int32)[chosen * active], at)

    def _arrive(self, mask: np.ndarray | None) -> None:
        """Lanes come to a barrier: of each warp all that still live, or it is a fault."""
        if mask is None and not isinstance(self.at, np.ndarray):
            return
        live = np.ones(self.lanes, bool) if not isinstance(self.at, np.ndarray) else self.at < _GONE
        came = (live if mask is None else mask).reshape(WARP, self.columns)
        missing = live.reshape(WARP, self.columns) & ~came & came.any(0)
        if missing.any():
            lane = int(np.argmax(missing.reshape(-1)))
            raise Fault(
                "a barrier in divergent code: some lanes of a warp reach it, others do not",
                lane=lane,
                needs="every lane of the warp that has not ended",
            )

    def waits(self) -> np.ndarray:
        """The block at whose barrier each warp waits, or -1 when it has ended.

        Returns:
            `[indices, ctas]` int.
        """
        shape = (len(self.indices), self.strip.ctas)
        if not isinstance(self.at, np.ndarray):
            return np.full(shape, self.at - _WAITING if self.at < _GONE else -1)
        at = np.where(self.at < _GONE, self.at - _WAITING, -1)
        return at.reshape(WARP, *shape).max(0)

    def release(self, free: np.ndarray) -> None:
        """Let the warps `[indices, ctas]` bool pass the barrier they wait at."""
        blocks = self.strip.launch.program.blocks
        if not isinstance(self.at, np.ndarray):
            if self.at >= _GONE:
                return
            if free.all():
                self.at = blocks[self.at - _WAITING].following
                return
            self.at = np.full(self.lanes, self.at, np.int32)
        lanes = np.tile(free.reshape(-1), WARP) & (self.at < _GONE)
        for waiting in np.unique(self.at[lanes]):
            self.at[lanes & (self.at == waiting)] = blocks[waiting - _WAITING].following


def reinterpret(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The bits of `value` as `dtype`, its low part when that is narrower."""
    have, want = value.dtype.itemsize, dtype.itemsize
    if have == want:
        return value.view(dtype)
    if have > want:
        return value.view(f"u{have}").astype(f"u{want}").view(dtype)
    raise Fault(f"a register of {have} bytes is read as {want} bytes")


class Strip:
    """CTAs that run together.

    Args:
        launch: what they share with other strips.
        ctas: their linear numbers in the grid.
    """

    def __init__(self, launch: Launch, ctas: Sequence[int]):
        self.launch, self.ctas = launch, len(ctas)
        linear = np.asarray(ctas)
        x, y, _ = launch.grid
        self.cta_ids = (linear % x, linear // x % y, linear // (x * y))
        self.shared = SharedMemory(len(ctas), launch.shared_bytes)
        self.stats = LaunchStats(ctas=len(ctas))
        self.conflicts = ConflictCounter(len(ctas))
        self.lazy = launch.schedule.copies == "lazy"
        every = self.warps_of(launch.block)
        together = launch.schedule.warps == "together"
        self.warps = [Warp(self, every)] if together else [Warp(self, range(i, i + 1)) for i in every]

    @staticmethod
    def warps_of(block: tuple[int, int, int]) -> range:
        return range(-(-block[0] * block[1] * block[2] // WARP))

    def run(self) -> LaunchStats:
        """Run all CTAs to their end.

        Raises:
            EmulationError: see there.
        """
        order = self.warps[::-1] if self.launch.schedule.warps == "highest" else self.warps
        with np.errstate(all="ignore"):
            while True:
                for warp in order:
                    warp.run()
                waits = np.concatenate([warp.waits() for warp in self.warps])
                if (waits < 0).all():
                    break
                self._release(waits)
        self.stats.bank_conflicts = sum(self.conflicts.extra.values())
        self.stats.conflict_sites = self.conflicts.extra
        return self.stats

    def _release(self, waits: np.ndarray) -> None:
        """Open every barrier that all it waits for have reached.

        Args:
            waits: `[warps, CTAs]`, the block each waits at, -1 for warps that ended.
        """
        highest = waits.max(0)
        alike = ((waits == highest) | (waits < 0)).all(0) & (highest >= 0)
        blocks = self.launch.program.blocks
        simple = {number for number in np.unique(highest[alike]) if blocks[number].barrier[1] == 0}
        ready = alike & np.isin(highest, list(simple))
        if ready.any():
            self._pass(np.broadcast_to(ready, waits.shape))
        freed = ready.any()
        for cta in np.flatnonzero(~ready & (highest >= 0)):
            freed |= self._release_named(waits[:, cta], cta)
        if not freed:
            self._deadlock(waits)

    def _release_named(self, waits: np.ndarray, cta: int) -> bool:
        """Barriers of one CTA whose warps wait at different places."""
        blocks = self.launch.program.blocks
        live = np.flatnonzero(waits >= 0)
        freed = False
        for barrier in sorted({blocks[waits[warp]].barrier for warp in live}):
            there = [warp for warp in live if blocks[waits[warp]].barrier == barrier]
            name, threads = barrier
            if threads == 0 and len({waits[warp] for warp in there}) > 1:
                self._deadlock(waits[:, None], cta, "warps of one CTA meet at different barriers")
            if len(there) == (threads // WARP or len(live)):
                only = np.zeros((len(waits), self.ctas), bool)
                only[there, cta] = True
                self._pass(only)
                freed = True
        return freed

    def _pass(self, free: np.ndarray) -> None:
        """Let the warps `[warps, ctas]` bool go on."""
        for warp in self.warps:
            warp.release(free[list(warp.indices)])

    def _deadlock(self, waits, cta: int | None = None, problem: str | None = None) -> None:
        blocks, column = self.launch.program.blocks, 0
        if cta is None:
            cta = column = int(np.argmax((waits >= 0).any(0)))
        state: dict[str, list[int]] = {}
        for warp, block in enumerate(waits[:, column]):
            where = "has ended"
            if block >= 0:
                where = f"waits at {self.launch.source.place(blocks[block].last.statement)}"
            state.setdefault(where, []).append(warp)
        first = int(np.argmax(waits[:, column] >= 0))
        holder = next(warp for warp in self.warps if first in warp.indices)
        told = "; ".join(f"warp {', '.join(map(str, w))} {where}" for where, w in state.items())
        self.fail(
            holder,
            blocks[waits[first, column]].last,
            Fault(
                problem or "warps wait at a barrier that others never reach",
                lane=holder.indices.index(first) * self.ctas + cta,
                got=told,
                needs="every warp of the CTA at the same barrier",
            ),
        )

    def fail(self, warp: Warp, instruction, fault: Fault):
        """Turn a fault into the error a person reads."""
        cta = thread = None
        if fault.lane is not None:
            within = warp.cta[fault.lane]
            cta = tuple(int(ids[within]) for ids in self.cta_ids)
            thread = tuple(int(axis[fault.lane]) for axis in warp.thread)
        launch = self.launch
        statement = (instruction.statement, *instruction.others)[fault.part]
        raise launch.source.located(launch.program.entry.name, statement, fault, cta, thread) from None
