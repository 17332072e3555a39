"""Running a strip of CTAs.

The lanes of one warp index across all CTAs of a strip form one numpy vector,
lane after lane (`index = lane * columns + column`, a column being one warp of
one CTA), so that a step of the machine is one instruction for many warps. Warps
with different indices run one after the other, each until it must wait, in
the order the `Schedule` says, or all as one longer vector.

A warp waits in one of two ways. At a barrier of its CTA it stands until the
strip, seeing all that came, opens it. At a *wait* (an mbarrier's try_wait, a
cluster barrier's wait, a request for registers) its column is parked, and tries
the instruction again once something has changed (`Strip.changes`). Only when
no warp can go on do lazy bulk copies land, only those that somebody waits for;
when none is left, a try_wait returns false, as its time limit allows; when that
leads nowhere either, it is a deadlock.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from gemmgen.catalog.unit import MatrixUnit
from gemmgen.emulate.core.banks import ConflictCounter
from gemmgen.emulate.core.launch import LaunchStats, Schedule
from gemmgen.emulate.core.memory import Arena, Fault, at_lane
from gemmgen.emulate.core.report import Source
from gemmgen.emulate.ptx.banks import BANKS
from gemmgen.emulate.ptx.decode import Block, Program
from gemmgen.emulate.ptx.mbarrier import Barriers
from gemmgen.emulate.ptx.memory import CtaMemory, ThreadMemory
from gemmgen.emulate.ptx.order import Order, Writes

WARP = 32
_PARKED = 1 << 22  # added to a block number: the column waits for something that the block's end needs
_WAITING = 1 << 24  # the same: the lane waits at that block's barrier
_GONE = 1 << 28  # the lane has ended
_PATIENCE = 3_000_000  # blocks a warp may run without having to wait
_TIMEOUTS = 50  # times in a row that waits may time out, with nothing else happening, before it is a deadlock
_ENDED, _BUSY = -1, -2  # in place of the number of the block at whose barrier a warp waits
_REGISTERS = 1 << 16  # of an SM
_F32 = np.dtype(np.float32)


@dataclass(frozen=True)
class Launch:
    """What all strips of a launch share.

    Attributes:
        params: the parameter bytes, `[nbytes]` uint8.
        shared_bytes: static and dynamic shared memory of a CTA.
        lock: held around atomic operations on global memory.
        writes: who wrote what of it; before: the same of the launch that may not be over, None where it is.
        cluster: CTAs of a cluster, neighbours in x.
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
    writes: Writes
    before: Writes | None = None
    cluster: int = 1

    @property
    def name(self) -> str:
        return self.program.entry.name

    def run_strip(self, ctas: Sequence[int]) -> LaunchStats:
        return Strip(self, ctas).run()

    @property
    def registers(self) -> int:
        """Registers a thread has at launch: as many as fit, but no more than setmaxnreg ever
        asks for, which is what the assembler makes of it."""
        entry = self.program.entry
        if entry.registers_at_launch:
            return entry.registers_at_launch
        asked = [int(each.operands[0]) for each in entry.body if each.opcode.startswith("setmaxnreg.inc")]
        threads = int(np.prod(entry.threads or self.block)) * entry.ctas_per_sm
        return min(256, _REGISTERS // threads // 8 * 8, max(asked, default=256))


class _Unset:
    """What a register holds before it is written: any use of it is a fault."""

    def __getattr__(self, name: str):
        raise Fault("a register is read before it was written")


_UNSET = _Unset()


class InFlight:
    """A register that a matrix instruction still works on.

    Attributes:
        data: `[lanes]`, what it will hold.
        groups: `[lanes]` int32, the group of matrix instructions that has it, -1 for none.
        written: whether those instructions write it; else they only read it.
    """

    dtype = None  # unlike any register's: `Warp.get` looks twice

    def __init__(self, data: np.ndarray, groups: np.ndarray, written: bool):
        self.data, self.groups, self.written = data, groups, written


class Warp:
    """One warp index, or several, across CTAs of a strip.

    Args:
        indices: of warps in their CTA.
        ctas: numbers of CTAs in the strip.

    Attributes:
        columns: warps of CTAs side by side in its vectors: indices x CTAs.
        lanes: length of its vectors, 32 times the columns.
        who: `[lanes]`, as the order of memory calls the threads.
        r: the register file, a vector (or 0-d constant) for each slot.
        at: the block all lanes are in, or `[lanes]` int32 when they parted;
            with `_WAITING` added at a barrier, `_PARKED` at a wait, `_GONE` after the end.
        active: the lanes that execute the instruction at hand, None for all.
        cta: `[lanes]`, each lane's CTA within the strip; tid: its linear number in the CTA.
        local: the lanes' local memory.
        committed: `[lanes]`, groups of copies committed so far.
        pending: copies in flight, see `isa/copy`.
        products, finished: `[lanes]`, groups of matrix instructions committed, and
            those known to be complete; reading: their operands in shared memory, see `isa/wgmma`.
        fenced: `[lanes]` bool, whether a wgmma.fence was executed; sums: the last one's
            D by its registers, see `isa/wgmma`.
        meets: `[2, columns]`, name and threads of the barrier a column last came to.
        issued: `[columns]`, matrix instructions of a warpgroup so far.
        awaits: `[2, lanes]`, offset and phase's parity of the mbarrier a lane last waited for.
        impatient: `[columns]`, whose next try_wait times out.
        cluster_arrivals, cluster_waits: `[lanes]`, at barriers of the cluster.
        registers: `[columns]`, that each thread may use now; adjusted: the numbers so far.
    """

    def __init__(self, strip: Strip, indices: range, ctas: range):
        launch = strip.launch
        self.strip, self.indices, self.ctas, self.columns = strip, indices, ctas, len(indices) * len(ctas)
        self.lanes = WARP * self.columns
        self.lane = np.repeat(np.arange(WARP, dtype=np.uint32), self.columns)
        self.cta = np.tile(np.asarray(ctas), WARP * len(indices))
        self.number = np.tile(np.repeat(np.asarray(indices), len(ctas)), WARP)
        self.shared_base = self.cta * strip.shared.pitch
        self.local = ThreadMemory(self.lanes, launch.program.local)
        self.committed = np.zeros(self.lanes, np.int32)
        self.pending: list = []
        self.products, self.finished = np.zeros(self.lanes, np.int32), np.zeros(self.lanes, np.int32)
        self.reading: list = []
        self.fenced = np.zeros(self.lanes, bool)
        self.sums: dict = {}
        self.meets = np.zeros((2, self.columns), np.int64)
        self.awaits = np.zeros((2, self.lanes), np.int64)
        self.impatient = np.zeros(self.columns, bool)
        self.cluster_arrivals = np.zeros(self.lanes, np.int32)
        self.cluster_waits = np.zeros(self.lanes, np.int32)
        self.registers = np.full(self.columns, strip.registers)
        self.adjusted: list[tuple[int, ...]] = [()] * self.columns
        self.issued = [0] * self.columns
        self.active: np.ndarray | None = None
        self.seen = 0  # of the strip's changes, when it last ran
        thread = self.tid = self.lane.astype(np.int64) + WARP * self.number
        self.who = strip.order.who(self.cta, thread)
        x, y, _ = launch.block
        self.thread = (thread % x, thread // x % y, thread // (x * y))
        self.r: list = [_UNSET] * launch.program.slots
        for slot, value in launch.program.constants.items():
            self.r[slot] = value
        for name, slot in launch.program.specials.items():
            self.r[slot] = self._special(name)
        missing = thread >= x * y * launch.block[2]
        self.at = np.where(missing, _GONE, 0).astype(np.int32) if missing.any() else 0
        np.add.at(strip.living, self.cta[~missing], 1)

    def _special(self, name: str) -> np.ndarray:
        launch = self.strip.launch
        register, _, axis = name[1:].partition(".")
        position = "xyz".find(axis) if axis else 0
        cluster = launch.cluster if position == 0 else 1  # clusters lie along x
        if register == "tid":
            value = self.thread[position]
        elif register == "ctaid":
            value = self.strip.cta_ids[position][self.cta]
        elif register in ("ntid", "nctaid"):
            value = (launch.block if register == "ntid" else launch.grid)[position]
        elif register in ("clusterid", "cluster_ctaid", "cluster_ctarank"):
            split = np.divmod(self.strip.cta_ids[position][self.cta], cluster)
            value = split[0 if register == "clusterid" else 1]
        elif register == "nclusterid":
            value = launch.grid[position] // cluster
        elif register in ("cluster_nctaid", "cluster_nctarank"):
            value = cluster
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
        old = self.r[slot]
        if old.__class__ is InFlight:
            value, mask = self._beside(old, value, mask), None
        if mask is not None:
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
        if value.dtype is None:
            value = self._landed(slot, value)
        return reinterpret(value, dtype)

    def full(self, slot: int, dtype: np.dtype) -> np.ndarray:
        """`get`, with a constant spread over all lanes."""
        value = self.get(slot, dtype)
        return value if value.ndim else np.broadcast_to(value, self.lanes)

    # ---- registers of matrix instructions in flight
    def _flying(self, value: InFlight) -> np.ndarray:
        """`[lanes]` bool: those that a wait must still cover."""
        return value.groups >= self.finished

    def _landed(self, slot: int, value: InFlight) -> np.ndarray:
        """What an instruction reads from a register that was in flight."""
        flying = self._flying(value)
        if not flying.any():
            self.r[slot] = value.data
        elif value.written and (wrong := flying if self.active is None else flying & self.active).any():
            raise Fault(
                "a register is read that a wgmma may not have written yet",
                lane=int(np.argmax(wrong)),
                needs="a wgmma.wait_group that covers it",
            )
        return value.data

    def _beside(self, old: InFlight, value: np.ndarray, mask: np.ndarray | None) -> np.ndarray | InFlight:
        """A register after lanes whose matrix instructions are complete wrote it."""
        flying = self._flying(old)
        if (wrong := flying if mask is None else flying & mask).any():
            raise Fault(
                f"a register is written that a wgmma may not have {'written' if old.written else 'read'} yet",
                lane=int(np.argmax(wrong)),
                needs="a wgmma.wait_group that covers it",
            )
        if mask is None:
            return value
        data = old.data.view(value.dtype).copy()
        np.copyto(data, value, where=mask)
        return InFlight(data, np.where(mask, -1, old.groups), old.written) if flying.any() else data

    def fly(self, slot: int, value: np.ndarray | None, groups: np.ndarray, mask: np.ndarray | None) -> None:
        """Hand a register to a group of matrix instructions, with what they make of it.

        Args:
            value: `[lanes]`, None when they only read it.
            groups: `[lanes]`, the group of each lane.
        """
        old = self.r[slot]
        flown = old.__class__ is InFlight
        data = old.data if flown else old
        if value is None:
            if flown and old.written:
                self._landed(slot, old)
            self.r[slot] = InFlight(data, groups if mask is None else np.where(mask, groups, -1), False)
            return
        before = old.groups if flown else -1
        if mask is not None:
            data = np.zeros(self.lanes, value.dtype) if data is _UNSET else data.view(value.dtype).copy()
            np.copyto(data, value, where=mask)
            value, groups = data, np.where(mask, groups, before)
        self.r[slot] = InFlight(value, groups, True)

    def accumulator(self, slot: int) -> np.ndarray | None:
        """A register as the next matrix instruction reads it, in flight or not; None if never written."""
        value = self.r[slot]
        if value is _UNSET:
            return None
        if value.__class__ is InFlight:
            if not value.written and self._flying(value).any():
                self._beside(value, value.data, self.active)
            value = value.data
        value = value if value.dtype is _F32 else reinterpret(value, _F32)
        return value if value.ndim else np.broadcast_to(value, self.lanes)

    def rename(self, target: int, slot: int, mask: np.ndarray | None) -> bool:
        """`mov` of a register in flight, or of one never written: the compiler renames
        registers without knowing that a matrix instruction still has them.

        Returns:
            Whether it was one; else nothing is done.
        """
        value = self.r[slot]
        if value.__class__ is not InFlight:
            if value is _UNSET and mask is None and target >= 0:
                self.r[target] = value
            return value is _UNSET
        if not self._flying(value).any() or not value.written:
            return False
        if mask is None:
            self.r[target] = value
            return True
        old = self.r[target]
        groups = old.groups if old.__class__ is InFlight else -1
        data = old.data if old.__class__ is InFlight else old
        data = np.zeros(self.lanes, value.data.dtype) if data is _UNSET else data.view(value.data.dtype).copy()
        np.copyto(data, value.data, where=mask)
        self.r[target] = InFlight(data, np.where(mask, value.groups, groups), True)
        return True

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
    def run(self) -> bool:
        """Run until every lane waits or has ended, or until it must let others go first.

        Returns:
            Whether it could go on.
        """
        strip = self.strip
        blocks, stats = strip.launch.program.blocks, strip.stats
        if self.seen != strip.changes:
            self._unpark()
        self.seen = strip.changes
        for _ in range(_PATIENCE):
            mask = None
            if isinstance(self.at, np.ndarray):
                here = int(self.at.min())
                if here >= _PARKED:
                    return False
                mask = self.at == here
                if mask.all():
                    mask, self.at = None, here
            elif (here := self.at) >= _PARKED:
                return False
            block = blocks[here]
            warps = self.columns if mask is None else int(mask.reshape(WARP, -1).any(0).sum())
            stats.instructions += warps * (block.length + (block.last is not None))
            before = strip.changes
            self._execute(block, mask)
            self._leave(block, here, mask)
            if strip.changes != before and not strip.lazy:
                return True
        strip.fail(
            self,
            blocks[here].last or blocks[here].code[0],
            Fault(
                "a warp runs on and on without ever having to wait",
                needs="an end: a loop that waits for another warp never ends here",
            ),
        )

    def _execute(self, block: Block, mask: np.ndarray | None) -> None:
        self.active = mask
        try:
            for instruction in block.code:
                if instruction.guard < 0:
                    instruction.run(self, mask)
                else:
                    self.active = self._guarded(instruction, mask)
                    instruction.run(self, self.active)
                    self.active = mask
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
        self.active = mask
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
            elif block.end == "wait":
                return self._try(block, here, taken, mask)
            else:
                self._arrive(taken, block.barrier)
                to = _WAITING + here
            if taken is not mask:
                self._move(mask, following)
            self._move(taken, to)
        except Fault as fault:
            self.strip.fail(self, last or block.code[-1], fault)

    def _move(self, mask: np.ndarray | None, to: int) -> None:
        if to < 0:
            raise Fault("control runs past the end of the kernel")
        if to == _GONE:
            self.strip.leave(self, mask)
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

    def _try(self, block: Block, here: int, taken: np.ndarray | None, mask: np.ndarray | None) -> None:
        """Lanes come to a wait: those that pass go on, and the columns of the others are parked."""
        passed = block.last.run(self, taken)
        self._move(mask, block.following)
        if passed is None:
            return
        failed = ~passed if taken is None else taken & ~passed
        self._move(failed, here)
        # Lanes further on stay there: those that come together after a wait must not come apart.
        columns = np.tile(failed.reshape(WARP, -1).any(0), WARP)
        self.at[columns & (self.at < _PARKED)] += _PARKED

    def _unpark(self) -> None:
        """Let parked columns try again."""
        if isinstance(self.at, np.ndarray):
            self.at[(self.at >= _PARKED) & (self.at < _WAITING)] -= _PARKED
        elif _PARKED <= self.at < _WAITING:
            self.at -= _PARKED

    def parked(self) -> np.ndarray:
        """`[lanes]`, the block of each lane at whose wait its column is parked, -1 for others."""
        at = np.broadcast_to(np.asarray(self.at), self.lanes)
        at = np.where((at >= _PARKED) & (at < _WAITING), at - _PARKED, _GONE)
        first = np.tile(at.reshape(WARP, -1).min(0), WARP)
        return np.where((at == first) & (at < _GONE), at, -1)

    def awaited(self) -> set[int]:
        """Offsets of the mbarriers that parked lanes wait for."""
        parked = self.parked()
        blocks = self.strip.launch.program.blocks
        found: set[int] = set()
        for block in np.unique(parked[parked >= 0]):
            if blocks[block].last.statement.opcode.startswith("mbarrier"):
                found.update(self.awaits[0, parked == block].tolist())
        return found

    def times_out(self) -> bool:
        """Let the try_waits that columns are parked at return false; whether there were any."""
        parked = self.parked()
        blocks = self.strip.launch.program.blocks
        for block in np.unique(parked[parked >= 0]):
            if blocks[block].last.statement.opcode.startswith("mbarrier"):
                self.impatient |= (parked == block).reshape(WARP, -1).any(0)
        return bool(self.impatient.any())

    def living(self) -> np.ndarray:
        """`[lanes]` bool: those that have not ended."""
        return np.broadcast_to(np.asarray(self.at) < _GONE, self.lanes)

    def _arrive(self, mask: np.ndarray | None, barrier: tuple[int, int]) -> None:
        """Lanes come to a barrier: of each warp all that still live, or it is a fault."""
        for which, slot in enumerate(barrier):
            values = self.full(slot, np.dtype(np.uint32)).reshape(WARP, self.columns)
            came = np.ones(values.shape, bool) if mask is None else mask.reshape(values.shape)
            first = np.argmax(came, 0)
            columns = came.any(0)
            self.meets[which, columns] = values[first, np.arange(self.columns)][columns]
        if (odd := self.meets[1] % WARP != 0).any():
            got = int(self.meets[1][odd][0])
            raise Fault("a barrier for part of a warp", got=got, needs="a multiple of 32 threads")
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

    def column(self, index: int, cta: int) -> int:
        """Where the warp of that index and CTA is in the vectors."""
        return self.indices.index(index) * len(self.ctas) + self.ctas.index(cta)

    @property
    def place(self) -> tuple[np.ndarray, np.ndarray]:
        """Index of `[warps, CTAs]` of the strip to this one's."""
        return np.ix_(list(self.indices), list(self.ctas))

    def waits(self) -> np.ndarray:
        """The block at whose barrier each warp waits, `_ENDED`, or `_BUSY` when it does neither.

        Returns:
            `[indices, ctas]` int.
        """
        shape = (len(self.indices), len(self.ctas))
        at = np.broadcast_to(np.asarray(self.at), self.lanes)
        at = np.where(at >= _GONE, _ENDED, np.where(at >= _WAITING, at - _WAITING, _GONE))
        highest = at.reshape(WARP, *shape).max(0)
        return np.where(highest == _GONE, _BUSY, highest)

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
        ctas: their linear numbers in the grid; whole clusters.

    Attributes:
        living: `[ctas]`, threads that have not ended.
        changes: counts what may let a parked warp go on; timeouts: those in a row.
        barriers: the mbarriers in shared memory.
        flights: bulk copies that have not landed, see `isa/bulk`, and arrivals that wait
            for copies, see `isa/copy`.
        arrived: (CTA, name of a barrier) -> threads that came by bar.arrive.
        cluster_phase: `[clusters]`, how often each cluster's barrier has opened.
        agreed: what the warps of a warpgroup must do alike, see `isa/wgmma`.
        order: what its threads know of writes to global memory.
    """

    def __init__(self, launch: Launch, ctas: Sequence[int]):
        self.launch, self.ctas = launch, len(ctas)
        linear = np.asarray(ctas)
        x, y, _ = launch.grid
        self.cta_ids = (linear % x, linear // x % y, linear // (x * y))
        self.shared = CtaMemory(len(ctas), launch.shared_bytes, launch.program.reads_async)
        self.stats = LaunchStats(ctas=len(ctas))
        self.lazy = launch.schedule.copies == "lazy"
        self.living = np.zeros(len(ctas), np.int64)
        self.changes = self.timeouts = 0
        self.barriers = Barriers(self)
        self.flights: list = []
        self.arrived: dict[tuple[int, int], int] = {}
        self.cluster_phase = np.zeros(-(-len(ctas) // launch.cluster), np.int64)
        self.agreed: dict = {}
        self.registers = launch.registers
        indices, every, ranks = self.warps_of(launch.block), range(len(ctas)), launch.cluster
        self.order = Order(launch, linear, len(indices))
        if launch.schedule.warps == "together":
            self.warps = [Warp(self, indices, every)]
        else:
            # One CTA of a cluster gets as far ahead of the others as it may.
            self.warps = [
                Warp(self, range(index, index + 1), every[rank::ranks]) for rank in range(ranks) for index in indices
            ]
        self.conflicts = ConflictCounter(len(self.warps[0].ctas), BANKS)

    @staticmethod
    def warps_of(block: tuple[int, int, int]) -> range:
        return range(-(-block[0] * block[1] * block[2] // WARP))

    def run(self) -> LaunchStats:
        """Run all CTAs to their end.

        Raises:
            EmulationError: see there.
        """
        with np.errstate(all="ignore"):
            while self._step():
                pass
        self.stats.bank_conflicts = sum(self.conflicts.extra.values())
        self.stats.conflict_sites = self.conflicts.extra
        return self.stats

    def _step(self) -> bool:
        """Run all warps as far as they get, and open what then may open; whether any is left."""
        self._run_warps()
        waits = self._of_warps(Warp.waits)
        if (waits == _ENDED).all():
            self._check_warpgroups()
            return False
        before = self.changes
        if self._release(waits) or any(warp.seen != self.changes for warp in self.warps):
            self.timeouts = 0
        elif self._land() or self.changes != before:
            self.timeouts = 0
        elif self.timeouts < _TIMEOUTS and any(warp.times_out() for warp in self.warps):
            self.timeouts += 1
            self.changes += 1
        else:
            self._deadlock(waits)
        return True

    def _of_warps(self, function) -> np.ndarray:
        """`[warps, CTAs]` int, of what `function` says of each warp, `[indices, CTAs]`."""
        values = np.empty((len(self.warps_of(self.launch.block)), self.ctas), np.int64)
        for warp in self.warps:
            values[warp.place] = function(warp)
        return values

    def _run_warps(self) -> None:
        """Run each warp until it must wait. One that opened an mbarrier lets all others go first."""
        order = self.warps[::-1] if self.launch.schedule.warps == "highest" else self.warps
        ahead = list(order)
        while ahead:
            warp = ahead.pop(0)
            if warp.run():
                ahead = [each for each in order if each is not warp] + [warp]

    def _land(self) -> bool:
        """Let bulk copies land that somebody waits for; whether there were any."""
        landed = False
        for offset in sorted({offset for warp in self.warps for offset in warp.awaited()}):
            phase = self.barriers.at(offset).phase
            for flight in [flight for flight in self.flights[::-1] if flight.signals(offset)]:
                if self.barriers.at(offset).phase != phase:
                    break
                self.flights.remove(flight)
                flight.land(self)
                landed = True
        return landed

    def leave(self, warp: Warp, mask: np.ndarray | None) -> None:
        """Lanes end, and with the last one its CTA."""
        np.subtract.at(self.living, warp.cta if mask is None else warp.cta[mask], 1)
        self.changes += self.launch.cluster > 1  # the barrier of a cluster waits only for threads that live
        over = np.unique(warp.cta if mask is None else warp.cta[mask])
        for cta in over[self.living[over] == 0]:
            lane = int(np.argmax(warp.cta == cta))
            with at_lane(lane):
                self.barriers.check_end(int(cta))
            for flight in self.flights:
                if flight.cta == cta:
                    raise Fault(
                        "a CTA ends while a copy into its shared memory is in flight",
                        lane=lane,
                        got=f"the one at {self.shared.describe(flight.target)}, issued at {flight.place}",
                        needs="a wait for the mbarrier it signals",
                    )

    def check_remote(self, cta: np.ndarray, target: np.ndarray) -> None:
        """Fault where a lane of `cta` reaches for the shared memory of a CTA that has ended."""
        ended = (cta != target) & (self.living[target] == 0)
        if ended.any():
            raise Fault(
                "remote access to a CTA that has ended",
                lane=int(np.argmax(ended)),
                needs="a barrier of the cluster before its CTAs end",
            )

    def free_registers(self, cta: int) -> int:
        """Of those the CTA had at launch, the ones no warp has now."""
        taken = sum(int(warp.registers[warp.cta[: warp.columns] == cta].sum()) for warp in self.warps)
        return WARP * (self.registers * len(self.warps_of(self.launch.block)) - taken)

    # ---- barriers of CTAs and clusters
    def open_cluster_barriers(self) -> None:
        """Open the barrier of each cluster all of whose living threads have come."""
        size = self.launch.cluster
        least = np.full(len(self.cluster_phase), np.iinfo(np.int64).max)
        for warp in self.warps:
            living = warp.living()
            np.minimum.at(least, warp.cta[living] // size, warp.cluster_arrivals[living])
        opened = (least > self.cluster_phase) & (least < np.iinfo(np.int64).max)
        for cluster in np.flatnonzero(opened):
            self.cluster_phase[cluster] = least[cluster]
            self.barriers.ordered(range(cluster * size, (cluster + 1) * size))
            self.order.settle(range(cluster * size, (cluster + 1) * size), cluster=True)
            self.changes += 1

    def _release(self, waits: np.ndarray) -> bool:
        """Open every barrier that all it waits for have reached; whether there was one.

        Args:
            waits: `[warps, CTAs]`, see `Warp.waits`.
        """
        names = self._of_warps(lambda warp: warp.meets[0].reshape(len(warp.indices), -1))
        threads = self._of_warps(lambda warp: warp.meets[1].reshape(len(warp.indices), -1))
        highest = waits.max(0)
        ready = ((waits == highest) | (waits == _ENDED)).all(0) & (highest >= 0)
        ready &= ((threads == 0) & (names == np.where(waits >= 0, names, -1).max(0)) | (waits < 0)).all(0)
        if ready.any():
            self._pass(np.broadcast_to(ready, waits.shape))
        freed = bool(ready.any())
        for cta in np.flatnonzero(~ready & (highest >= 0)):
            freed |= self._release_named(waits, names[:, cta], threads[:, cta], cta)
        return freed

    def _release_named(self, waits: np.ndarray, names: np.ndarray, threads: np.ndarray, cta: int) -> bool:
        """Barriers of one CTA whose warps wait at different places."""
        here = waits[:, cta]
        live, freed = np.flatnonzero(here != _ENDED), False
        for name, count in sorted({(int(names[warp]), int(threads[warp])) for warp in np.flatnonzero(here >= 0)}):
            there = [warp for warp in np.flatnonzero(here >= 0) if (names[warp], threads[warp]) == (name, count)]
            if count == 0 and len({here[warp] for warp in there}) > 1:
                self._deadlock(waits, cta, "warps of one CTA meet at different barriers")
            came = WARP * len(there) + self.arrived.get((int(cta), name), 0)
            if came == (count or WARP * len(live)):
                only = np.zeros(waits.shape, bool)
                only[there, cta] = True
                self._pass(only)
                if self.arrived.pop((int(cta), name), None):  # threads whose warps are not known
                    self.order.settle([cta])
                freed = True
        return freed

    def _pass(self, free: np.ndarray) -> None:
        """Let the warps `[warps, ctas]` bool go on."""
        self.order.meet(free)
        for warp in self.warps:
            warp.release(free[warp.place])

    # ---- errors
    def _check_warpgroups(self) -> None:
        """The warps of a warpgroup must have done alike what they can only do together."""
        for (cta, group, _), ((product, *_), count) in self.agreed.items():
            warp = self._warp(4 * group, cta)
            self.fail(
                warp,
                product.instruction,
                Fault(
                    "a wgmma is not executed by all warps of its warpgroup",
                    lane=warp.column(4 * group, cta),
                    got=f"{count} warps",
                    needs="all four",
                ),
            )
        adjusted: dict[tuple[int, int], set] = {}
        for warp in self.warps:
            for column, numbers in enumerate(warp.adjusted):
                adjusted.setdefault((int(warp.cta[column]), int(warp.number[column]) // 4), set()).add(numbers)
        if any(len(numbers) > 1 for numbers in adjusted.values()):
            program = self.launch.program
            every = [each for block in program.blocks for each in (*block.code, block.last) if each]
            place = next(each for each in every if each.statement.opcode.startswith("setmaxnreg"))
            self.fail(
                self.warps[0],
                place,
                Fault(
                    "the warps of a warpgroup set different numbers of registers",
                    got=next(sorted(numbers) for numbers in adjusted.values() if len(numbers) > 1),
                    needs="the same setmaxnreg in all four warps of each warpgroup",
                ),
            )

    def _deadlock(self, waits: np.ndarray, cta: int | None = None, problem: str | None = None) -> None:
        if cta is None:
            cta = int(np.argmax((waits != _ENDED).any(0)))
        first = cta // self.launch.cluster * self.launch.cluster
        told, waiting = [], None
        for each in range(first, first + self.launch.cluster):
            state: dict[str, list[int]] = {}
            for index in self.warps_of(self.launch.block):
                warp = self._warp(index, each)
                where, statement, lane = self._standing(warp, warp.column(index, each), waits[index, each])
                state.setdefault(where, []).append(index)
                if each == cta and statement is not None and waiting is None:
                    waiting = warp, statement, lane
            name = f"CTA {tuple(int(ids[each]) for ids in self.cta_ids)}: " if self.launch.cluster > 1 else ""
            told.append(name + "; ".join(f"warp {', '.join(map(str, w))} {where}" for where, w in state.items()))
        parked = (waits[:, cta] == _BUSY).any()
        usual = "no warp can go on: a deadlock" if parked else "warps wait at a barrier that others never reach"
        self.fail(
            waiting[0],
            waiting[1],
            Fault(
                problem or usual,
                lane=waiting[2],
                got="; ".join(told),
                needs="arrivals and bytes that complete the phases waited for" if parked
                else "every warp of the CTA at the same barrier",
            ),
        )

    def _warp(self, index: int, cta: int) -> Warp:
        return next(warp for warp in self.warps if index in warp.indices and cta in warp.ctas)

    def _standing(self, warp: Warp, column: int, block: int):
        """Where one warp of one CTA is: in words, the instruction it waits at, and one of its lanes."""
        program = self.launch.program
        if block == _ENDED:
            return "has ended", None, None
        if block >= 0:
            last = program.blocks[block].last
            return f"waits at {self.launch.source.site(last.statement)}", last, column
        parked = warp.parked().reshape(WARP, -1)[:, column]
        lane = int(np.argmax(parked >= 0)) * warp.columns + column
        last = program.blocks[parked.max()].last
        words = f"waits at {self.launch.source.site(last.statement)}"
        if last.statement.opcode.startswith("mbarrier"):
            offset, parity = warp.awaits[:, lane]
            words += f", for the phase of parity {parity} of {self.barriers.describe(int(offset))}"
        return words, last, lane

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
