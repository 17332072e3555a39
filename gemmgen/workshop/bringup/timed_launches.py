"""Launches that tell their own time: cycles, seconds, the clock and the processors of their blocks, repeated until the clock stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from gemmgen.catalog.vendor import vendor_of
from gemmgen.workshop.bringup.probe import Kernels, Machine

REPEATS, TRIES = 7, 3
CLOCK_CHANGE = 0.02
"""Between the slowest and the fastest clock of one value's repeats: beyond it the value is refused."""
SECONDS = 4e-4
"""That a measured launch is made to take: a hundred times what the coarsest timer resolves."""
TICKS = {"cuda": 1e9, "hip": 1e8}
"""A second's, of the timer that all processors share: ns by PTX, 100 MHz of AMD's constant clock."""


@dataclass(frozen=True)
class Run:
    """A launch that told its time.

    Attributes:
        cycles: of each block.
        span: seconds from the first block's start to the last one's end.
        mhz: the clock, of the longest block.
        processors: that blocks ran on.
    """

    cycles: np.ndarray
    span: float
    mhz: float
    processors: int

    @property
    def typical(self) -> float:
        """Cycles of a block."""
        return float(np.median(self.cycles))


@dataclass(frozen=True)
class Measured:
    """Repeats of one value.

    Attributes:
        values: of each.
        mhz: the clock of each.
    """

    values: tuple[float, ...]
    mhz: tuple[float, ...]

    @property
    def value(self) -> float:
        return median(self.values)

    @property
    def spread(self) -> float:
        """From the least to the largest, relative to the median."""
        return (max(self.values) - min(self.values)) / self.value if self.value else 0.0

    @property
    def throttled(self) -> bool:
        """Whether the clock changed."""
        return max(self.mhz) > (1 + CLOCK_CHANGE) * min(self.mhz)

    @property
    def clock(self) -> float:
        return median(self.mhz)

    @property
    def proof(self) -> str:
        return f"{len(self.values)} repeats, spread {100 * self.spread:.2g} %, at {self.clock:.0f} MHz"


class Bench:
    """Kernels of one source, and launches of them that tell their time.

    Args:
        memory: what they read and write.
        mhz: the clock of a short launch, where cycles are counted in too few bits for a long one.
    """

    def __init__(self, machine: Machine, kernels: Kernels, memory: Any, mhz: float | None = None):
        self.kernels, self._memory, self._mhz = kernels, memory, mhz
        self._ticks = TICKS[vendor_of(machine.arch).platform]

    def launch(self, symbol: str, blocks: int, threads: int, steps: int, x: int = 0, y: int = 0, keep: int = 0) -> Any:
        """Start a launch; the buffer that it tells its time in."""
        out = self.kernels.zeros(32 * blocks, "out")
        self.kernels.launch(symbol, blocks, threads, 0, [
            ("pointer", out), ("pointer", self._memory), *(("int", one) for one in (steps, x, y, keep))])
        return out

    def told(self, out: Any, blocks: int) -> Run:
        """What a launch told."""
        cycles, first, last, processors = self.kernels.download(out, np.uint64, 4 * blocks).reshape(blocks, 4).T
        if self._mhz:
            cycles = (last - first) * (self._mhz * 1e6 / self._ticks)
        longest = int(np.argmax(last - first))
        seconds = float(last[longest] - first[longest]) / self._ticks
        return Run(cycles.astype(float), float(last.max() - first.min()) / self._ticks, float(cycles[longest]) / seconds / 1e6 if seconds else 0.0,
                   len(np.unique(processors)))

    def run(self, symbol: str, blocks: int, threads: int, steps: int, *rest: int) -> Run:
        return self.told(self.launch(symbol, blocks, threads, steps, *rest), blocks)

    def scaled(self, symbol: str, blocks: int, threads: int, *rest: int, seconds: float = SECONDS, first: int = 32) -> int:
        """Steps with which a launch takes so long."""
        steps = first
        while (taken := self.run(symbol, blocks, threads, steps, *rest).span) < seconds / 4 and steps < 1 << 24:
            steps *= 4
        return max(1, min(round(steps * seconds / taken), 1 << 30)) if taken else steps

    def repeated(
        self, value: Callable[[Run], float], symbol: str, blocks: int, threads: int, steps: int, *rest: int, ahead: bool = False,
    ) -> Measured:
        """Of launches after one for warmth; as often again where the clock changed between them.

        Args:
            ahead: `keep` counts launches, so that none reads what one before it did.
        """
        for turn in range(TRIES):
            runs = [self.run(symbol, blocks, threads, steps, *rest, *((turn * (REPEATS + 1) + at,) if ahead else ())) for at in range(REPEATS + 1)][1:]
            found = Measured(tuple(value(one) for one in runs), tuple(one.mhz for one in runs))
            if not found.throttled:
                break
        return found
