"""Memory operations under way, and what they touch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from gemmgen.emulate.amdgpu.program import Instruction


class Touched:
    """What an operation on global memory touches.

    Args:
        addresses: `[n]`, of its lanes; columns: `[n]`, whose those are; size: bytes of each.
        writes: whether they may be written.
        width: columns of the wave.

    Attributes:
        words: `[m]`, a number for each word of memory and wave that touches it.
    """

    def __init__(self, addresses: np.ndarray, columns: np.ndarray, size: int, writes: bool, width: int):
        self.addresses, self.columns, self.size, self.writes, self.width = addresses, columns, size, writes, width

    @cached_property
    def words(self) -> np.ndarray:
        words = (self.addresses[:, None] + np.arange(0, max(self.size, 4), 4)) // 4
        return (words * self.width + self.columns[:, None]).reshape(-1)


class Flight:
    """A memory operation under way.

    Attributes:
        instruction: the one that issued it.
        needs: (kind, `[columns]` its number among those of its kind) for each count that must pass it.
        issuers: `[columns]` bool, the waves that issued it.
        columns: likewise, those for which no wait has covered it yet.
        undone: `[columns]` bool, the waves for which memory has not been read or written yet.
        lanes: `[lanes, columns]` bool, who takes part, None for every lane of those waves.
        slots: registers it writes.
        perform: reads or writes memory, for the columns it is given or, for None, all that take part.
        touched: of global memory; None for others.
        serial: its place in the order of issue.
    """

    __slots__ = ("instruction", "needs", "issuers", "columns", "undone", "lanes", "slots", "perform", "touched", "serial")

    def __init__(
        self, instruction: Instruction, needs: list, columns: np.ndarray, lanes: np.ndarray | None,
        slots: tuple[int, ...], perform: Callable[[np.ndarray | None], None], touched: Touched | None, serial: int,
    ):
        self.instruction, self.needs = instruction, needs
        self.issuers = self.columns = self.undone = columns
        self.lanes, self.slots, self.perform, self.touched, self.serial = lanes, slots, perform, touched, serial
