"""A warp vector: who its lanes are, what they execute, and where they wait.

The lanes of one warp index across all CTAs of a strip form one numpy vector,
lane after lane (`index = lane * columns + column`, a column being one warp of
one CTA), so that a step of the machine is one instruction for many warps. `strip`
says in what order the vectors run.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from gemmgen.emulate.core.memory import Fault
from gemmgen.emulate.ptx.memory import ThreadMemory
from gemmgen.emulate.ptx.program import Block
from gemmgen.emulate.ptx.registers import Registers
from gemmgen.emulate.ptx.tensor_memory import TensorMemory

WARP = 32
_PARKED = 1 << 22  # added to a block number: the column waits for something that the block's end needs
_WAITING = 1 << 24  # the same: the lane waits at that block's barrier
_GONE = 1 << 28  # the lane has ended
_PATIENCE = 3_000_000  # blocks a warp may run without having to wait
ENDED, BUSY = -1, -2
"""In place of the number of the block at whose barrier a warp waits."""


def warps_of(block: tuple[int, int, int]) -> range:
    """The indices of the warps of a CTA of so many threads."""
    return range(-(-block[0] * block[1] * block[2] // WARP))


class Warp(Registers):
    """One warp index, or several, across CTAs of a strip.

    Args:
        strip: the `Strip` they are of.
        indices: of warps in their CTA.
        ctas: numbers of CTAs in the strip.

    Attributes:
        columns: warps of CTAs side by side in its vectors: indices x CTAs.
        who: `[lanes]`, as the order of memory calls the threads.
        at: the block all lanes are in, or `[lanes]` int32 when they parted;
            with `_WAITING` added at a barrier, `_PARKED` at a wait, `_GONE` after the end.
        cta: `[lanes]`, each lane's CTA within the strip; tid: its linear number in the CTA.
        local: the lanes' local memory.
        committed: `[lanes]`, groups of copies committed so far.
        pending: copies in flight, see `isa/copy`.
        loads: `[lanes]`, loads from tensor memory so far.
        products: `[lanes]`, groups of matrix instructions committed; reading: their operands in shared memory, see `isa/wgmma`.
        fenced: `[lanes]` bool, whether a wgmma.fence was executed; sums: the last one's
            D by its registers, see `isa/wgmma`.
        meets: `[2, columns]`, name and threads of the barrier a column last came to.
        issued: `[columns]`, matrix instructions of a warpgroup so far.
        awaits: `[2, lanes]`, offset and phase's parity of the mbarrier a lane last waited for.
        impatient: `[columns]`, whose next try_wait times out.
        cluster_arrivals, cluster_waits: `[lanes]`, at barriers of the cluster.
        registers: `[columns]`, that each thread may use now; adjusted: the numbers so far.
    """

    def __init__(self, strip, indices: range, ctas: range):
        launch = strip.launch
        self.strip, self.indices, self.ctas, self.columns = strip, indices, ctas, len(indices) * len(ctas)
        super().__init__(WARP * self.columns, launch.program.slots)
        self.lane = np.repeat(np.arange(WARP, dtype=np.uint32), self.columns)
        self.cta = np.tile(np.asarray(ctas), WARP * len(indices))
        self.number = np.tile(np.repeat(np.asarray(indices), len(ctas)), WARP)
        self.shared_base = self.cta * strip.shared.pitch
        self.local = ThreadMemory(self.lanes, launch.program.local)
        self.committed = np.zeros(self.lanes, np.int32)
        self.pending: list = []
        self.products, self.loads = np.zeros(self.lanes, np.int32), np.zeros(self.lanes, np.int32)
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
        self.seen = 0  # of the strip's changes, when it last ran
        thread = self.tid = self.lane.astype(np.int64) + WARP * self.number
        self.who = strip.order.who(self.cta, thread)
        x, y, _ = launch.block
        self.thread = (thread % x, thread // x % y, thread // (x * y))
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
            value = len(warps_of(launch.block))
        else:
            bit = np.uint64(1) << self.lane.astype(np.uint64)
            below = bit - np.uint64(1)
            value = {
                "eq": bit, "lt": below, "le": below | bit,
                "gt": ~(below | bit), "ge": ~below,
            }[register.removeprefix("lanemask_")]  # fmt: skip
        return np.broadcast_to(np.asarray(value).astype(np.uint32), self.lanes).copy()

    # ---- tensor memory
    @cached_property
    def tensor_warps(self) -> list[tuple[TensorMemory, int, np.ndarray, np.ndarray]]:
        """Of each column its tensor memory, its number there, its lanes, and the numbers of their threads there."""
        every = [np.arange(column, self.lanes, self.columns) for column in range(self.columns)]
        threads = [self.strip.tensor_threads(self.cta[lanes], self.tid[lanes]) for lanes in every]
        return [(self.strip.tensor[self.cta[lanes[0]]], int(own[0]) // WARP, lanes, own) for lanes, own in zip(every, threads, strict=True)]

    @cached_property
    def tensor_ctas(self) -> list[tuple[TensorMemory, np.ndarray, np.ndarray]]:
        """Of each CTA its tensor memory, its lanes, and the numbers of their threads there."""
        every = [(cta, np.flatnonzero(self.cta == cta)) for cta in self.ctas]
        return [(self.strip.tensor[cta], lanes, self.strip.tensor_threads(self.cta[lanes], self.tid[lanes])) for cta, lanes in every]

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
                if np.count_nonzero(mask) == self.lanes:
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
        return None if np.count_nonzero(taken) == self.lanes else taken

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
            if taken is not None and not np.count_nonzero(taken):
                return self._move(mask, following)
            if block.end == "branch":
                to = block.targets[0]
            elif block.end == "exit":
                left = (self.cluster_arrivals != self.cluster_waits) & (True if taken is None else taken)
                if left.any():  # others may still read this CTA's shared memory
                    lane = int(np.argmax(left))
                    raise Fault("a thread ends between its arrival at the cluster's barrier and the wait", lane=lane, needs="barrier.cluster.wait")
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
        """The block at whose barrier each warp waits, `ENDED`, or `BUSY` when it does neither.

        Returns:
            `[indices, ctas]` int.
        """
        shape = (len(self.indices), len(self.ctas))
        at = np.broadcast_to(np.asarray(self.at), self.lanes)
        at = np.where(at >= _GONE, ENDED, np.where(at >= _WAITING, at - _WAITING, _GONE))
        highest = at.reshape(WARP, *shape).max(0)
        return np.where(highest == _GONE, BUSY, highest)

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
