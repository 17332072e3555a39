"""Running a strip of workgroups.

The waves of one index in all workgroups of a strip run side by side (`wave`). Waves
with different indices run one after the other, each until it must wait, in the
order the `Schedule` says, or all side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from gemmgen.catalog.unit import MatrixUnit
from gemmgen.emulate.amdgpu.local import LocalMemory, banks_of
from gemmgen.emulate.amdgpu.program import Instruction, Program
from gemmgen.emulate.amdgpu.target import Target
from gemmgen.emulate.amdgpu.wave import Wave
from gemmgen.emulate.core.banks import ConflictCounter
from gemmgen.emulate.core.launch import LaunchStats, Schedule
from gemmgen.emulate.core.memory import Arena, Fault
from gemmgen.emulate.core.report import Source


@dataclass(frozen=True)
class Launch:
    """What all strips of a launch share.

    Attributes:
        segment: address of the kernel's arguments, with padding; segment_bytes: how many those are.
        dispatch: address of the dispatch packet.
        shared_bytes: LDS of a workgroup, static and dynamic.
        lock: held around atomic operations on global memory.
    """

    program: Program
    unit: MatrixUnit
    schedule: Schedule
    arena: Arena
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    segment: int
    segment_bytes: int
    dispatch: int
    shared_bytes: int
    lock: AbstractContextManager
    source: Source
    cluster: int = 1

    @property
    def name(self) -> str:
        return self.program.kernel.name

    @property
    def target(self) -> Target:
        return self.program.target

    def run_strip(self, ctas: Sequence[int]) -> LaunchStats:
        return Strip(self, ctas).run()


class Strip:
    """Workgroups that run together.

    Args:
        launch: what they share with other strips.
        ctas: their linear numbers in the grid.
    """

    def __init__(self, launch: Launch, ctas: Sequence[int]):
        self.launch, self.ctas = launch, len(ctas)
        linear = np.asarray(ctas)
        x, y, _ = launch.grid
        self.cta_ids = (linear % x, linear // x % y, linear // (x * y))
        self.local = LocalMemory(len(ctas), launch.shared_bytes)
        self.stats = LaunchStats(ctas=len(ctas))
        self.lazy = launch.schedule.copies == "lazy"
        threads, wave = int(np.prod(launch.block)), launch.target.wave
        indices = range(-(-threads // wave))
        if launch.schedule.warps == "together":
            self.waves = [Wave(self, indices)]
        else:
            self.waves = [Wave(self, range(index, index + 1)) for index in indices]
        self.conflicts = ConflictCounter(len(ctas), banks_of(launch.target))

    def run(self) -> LaunchStats:
        """Run all workgroups to their end.

        Raises:
            EmulationError: see there.
        """
        order = self.waves[::-1] if self.launch.schedule.warps == "highest" else self.waves
        with np.errstate(all="ignore"):
            while True:
                for wave in order:
                    wave.run()
                if not self._open_barriers():
                    break
            for wave in order:
                self._land_all(wave)
        self.stats.bank_conflicts = sum(self.conflicts.extra.values())
        self.stats.conflict_sites = self.conflicts.extra
        return self.stats

    def _land_all(self, wave: Wave) -> None:
        try:
            wave.land_all()
        except Fault as fault:
            self.fail(wave, wave.instruction, fault)

    def _of_waves(self, function) -> np.ndarray:
        """`[indices, workgroups]`, of what `function` says of each wave, `[columns]`."""
        return np.concatenate([function(wave).reshape(len(wave.indices), self.ctas) for wave in self.waves])

    def _open_barriers(self) -> bool:
        """Open the barrier of each workgroup to which all its waves have come; whether any is left to run.

        A wave that has ended is not waited for, as in hardware; but one that ended after
        it had passed barriers ends too early.
        """
        standing, arrived = self._of_waves(Wave.standing), self._of_waves(lambda wave: wave.arrived)
        waiting = standing >= 0
        if not waiting.any():
            return False
        never = ~waiting & (arrived == 0)
        due = np.where(waiting, arrived, 0).max(0)
        stuck = waiting.any(0) & ~(never | (arrived >= due) & waiting).all(0)
        if stuck.any():
            self._deadlock(standing, int(np.argmax(stuck)), "waves wait at a barrier that others never reach")
        self._check_alike(standing)
        first = 0
        for wave in self.waves:
            wave.release(waiting[first : first + len(wave.indices)].reshape(-1))
            first += len(wave.indices)
        return True

    def _check_alike(self, standing: np.ndarray) -> None:
        """The waves of a workgroup meet at one barrier of the source."""
        blocks = self.launch.program.blocks
        for block in np.unique(standing[standing >= 0]):
            statement = blocks[block].last.statement
            for other in np.unique(standing[(standing >= 0) & (standing == block).any(0)]):
                one = blocks[other].last.statement
                if (one.line, one.callers) != (statement.line, statement.callers):
                    both = ((standing == block).any(0) & (standing == other).any(0)).argmax()
                    self._deadlock(standing, int(both), "waves of one workgroup meet at different barriers")

    # ---- errors
    def _deadlock(self, standing: np.ndarray, cta: int, problem: str) -> None:
        blocks, source = self.launch.program.blocks, self.launch.source
        told: dict[str, list[int]] = {}
        for index, block in enumerate(standing[:, cta]):
            where = "has ended" if block < 0 else f"waits at {source.site(blocks[block].last.statement)}"
            told.setdefault(where, []).append(index)
        index = int(np.argmax(standing[:, cta] >= 0))
        wave = next(wave for wave in self.waves if index in wave.indices)
        self.fail(
            wave,
            blocks[standing[index, cta]].last,
            Fault(
                problem,
                lane=wave.indices.index(index) * self.ctas + cta,
                got="; ".join(f"wave {', '.join(map(str, waves))} {where}" for where, waves in told.items()),
                needs="every wave of the workgroup at the same barrier",
            ),
        )

    def fail(self, wave: Wave, instruction: Instruction, fault: Fault):
        """Turn a fault into the error a person reads."""
        cta = thread = None
        if fault.lane is not None:
            lane, column = divmod(fault.lane, wave.shape[1])
            cta = tuple(int(ids[wave.cta[column]]) for ids in self.cta_ids)
            thread = tuple(int(axis[lane, column]) for axis in wave.thread)
        launch = self.launch
        raise launch.source.located(launch.name, instruction.statement, fault, cta, thread) from None
