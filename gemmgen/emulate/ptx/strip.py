"""Running a strip of CTAs.

The warps of one index across all CTAs of a strip run as one vector (`warp`). Warps
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
from gemmgen.emulate.ptx.mbarrier import Barriers
from gemmgen.emulate.ptx.memory import CtaMemory
from gemmgen.emulate.ptx.order import Order, Writes
from gemmgen.emulate.ptx.program import Program
from gemmgen.emulate.ptx.tensor_memory import TensorMemory
from gemmgen.emulate.ptx.warp import BUSY, ENDED, WARP, Warp, warps_of

_TIMEOUTS = 50  # times in a row that waits may time out, with nothing else happening, before it is a deadlock
_REGISTERS = 1 << 16  # of an SM


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


class Strip:
    """CTAs that run together.

    Args:
        launch: what they share with other strips.
        ctas: their linear numbers in the grid; whole clusters.

    Attributes:
        living: `[ctas]`, threads that have not ended.
        changes: counts what may let a parked warp go on; timeouts: those in a row.
        barriers: the mbarriers in shared memory.
        flights: what has not landed, see `flight`, and arrivals that wait
            for copies, see `isa/copy`.
        arrived: (CTA, name of a barrier) -> threads that came by bar.arrive.
        cluster_phase: `[clusters]`, how often each cluster's barrier has opened.
        agreed: what the warps of a warpgroup must do alike, see `isa/wgmma`.
        order: what its threads know of writes to global memory.
        tensor: the tensor memory of each CTA, the same one of a pair; empty where the program uses none. sharers: CTAs that have one.
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
        indices, every, ranks = warps_of(launch.block), range(len(ctas)), launch.cluster
        self.order = Order(launch, linear, len(indices))
        self.sharers = max(1, launch.program.cta_group)
        memories = [TensorMemory(len(indices), self.sharers) for _ in ctas[:: self.sharers]] if launch.program.tensor_memory else []
        self.tensor = [memory for memory in memories for _ in range(self.sharers)]
        if launch.schedule.warps == "together":
            self.warps = [Warp(self, indices, every)]
        else:
            # One CTA of a cluster gets as far ahead of the others as it may.
            self.warps = [
                Warp(self, range(index, index + 1), every[rank::ranks]) for rank in range(ranks) for index in indices
            ]
        self.conflicts = ConflictCounter(len(self.warps[0].ctas), BANKS)

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
        if (waits == ENDED).all():
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
        values = np.empty((len(warps_of(self.launch.block)), self.ctas), np.int64)
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
                if self.tensor:
                    self.tensor[cta].check_end(int(cta) % self.sharers)
            for flight in self.flights:
                if flight.cta == cta:
                    raise Fault(
                        f"a CTA ends while {flight.what} is in flight",
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
        return WARP * (self.registers * len(warps_of(self.launch.block)) - taken)

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
            self._meet(range(cluster * size, (cluster + 1) * size), cluster=True)
            self.changes += 1

    def _release(self, waits: np.ndarray) -> bool:
        """Open every barrier that all it waits for have reached; whether there was one.

        Args:
            waits: `[warps, CTAs]`, see `Warp.waits`.
        """
        names = self._of_warps(lambda warp: warp.meets[0].reshape(len(warp.indices), -1))
        threads = self._of_warps(lambda warp: warp.meets[1].reshape(len(warp.indices), -1))
        highest = waits.max(0)
        ready = ((waits == highest) | (waits == ENDED)).all(0) & (highest >= 0)
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
        live, freed = np.flatnonzero(here != ENDED), False
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
                    self._meet([cta])
                freed = True
        return freed

    def _pass(self, free: np.ndarray) -> None:
        """Let the warps `[warps, ctas]` bool go on."""
        self.order.meet(free)
        for cta, memory in enumerate(self.tensor):
            if free[:, cta].any():
                memory.meet(np.flatnonzero(free[:, cta]) + cta % self.sharers * memory.each)
        for warp in self.warps:
            warp.release(free[warp.place])

    def _meet(self, ctas: Sequence[int], cluster: bool = False) -> None:
        """All threads of each CTA meet, or all of a cluster."""
        self.order.settle(ctas, cluster=cluster)
        if self.tensor:
            for first in sorted({cta // self.sharers * self.sharers for cta in ctas}):
                memory = self.tensor[first]
                memory.meet(np.flatnonzero(np.isin(first + np.arange(memory.warps) // memory.each, ctas)))

    def tensor_threads(self, cta: np.ndarray, thread: np.ndarray) -> np.ndarray:
        """The numbers of threads of these CTAs in their tensor memory."""
        return thread + cta % self.sharers * (WARP * self.tensor[0].each)

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
            cta = int(np.argmax((waits != ENDED).any(0)))
        first = cta // self.launch.cluster * self.launch.cluster
        told, waiting = [], None
        for each in range(first, first + self.launch.cluster):
            state: dict[str, list[int]] = {}
            for index in warps_of(self.launch.block):
                warp = self._warp(index, each)
                where, statement, lane = self._standing(warp, warp.column(index, each), waits[index, each])
                state.setdefault(where, []).append(index)
                if each == cta and statement is not None and waiting is None:
                    waiting = warp, statement, lane
            name = f"CTA {tuple(int(ids[each]) for ids in self.cta_ids)}: " if self.launch.cluster > 1 else ""
            told.append(name + "; ".join(f"warp {', '.join(map(str, w))} {where}" for where, w in state.items()))
        parked = (waits[:, cta] == BUSY).any()
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
        if block == ENDED:
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
