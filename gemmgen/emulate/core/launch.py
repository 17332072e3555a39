"""What every emulated machine's launches have in common: the order in which warps
run, what a launch did, and how strips of blocks are run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from math import prod
from typing import Literal, Protocol, TypeVar

from gemmgen.emulate.core.report import Source
from gemmgen.errors import EmulationError, UnknownName

P = TypeVar("P")


@dataclass(frozen=True)
class Schedule:
    """One way a GPU might order what the program leaves open.

    Attributes:
        warps: which warp runs first, each to its next barrier; or `together`, all
            in step, which is several times faster and shows fewer races.
        copies: when what is asynchronous lands (NVIDIA's copies, AMD's loads and
            stores): at once, or when a wait forces it.
            Where copies land at once, matrix instructions are still reading their
            operands until they are waited for, and a warp whose arrival opens an
            mbarrier lets all others go first; where they land late, matrix
            instructions read their operands at once.
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


KEPT_PROGRAMS = 16
"""How many decoded modules a process keeps, those last used: reading a text takes as long as a small launch."""


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


class GridLaunch(Protocol):
    """A launch, as far as it concerns those who only divide its grid.

    Attributes:
        name: of the kernel.
        lock: held around atomic operations on global memory.
        cluster: blocks that must run in one strip, neighbours in x.
    """

    name: str
    grid: tuple[int, int, int]
    lock: AbstractContextManager
    cluster: int

    def run_strip(self, ctas: Sequence[int]) -> LaunchStats:
        """Run the blocks with these linear numbers to their end."""


def checked_launch(
    programs: Mapping[str, P], source: Source, entry: str, grid: Sequence[int], block: Sequence[int], most: Callable[[P], int],
) -> tuple[P, tuple[int, int, int], tuple[int, int, int]]:
    """The program of an entry, the grid and the block of its launch.

    Args:
        most: threads of a block that a program may have.

    Raises:
        UnknownName: there is no such entry.
        EmulationError: the grid or the block is none, or too large.
    """
    if entry not in programs:
        raise UnknownName(source.name, "entry", entry, programs)
    program = programs[entry]
    grid, block = checked_dims(entry, "grid", grid), checked_dims(entry, "block", block)
    if prod(block) > most(program):
        raise EmulationError(f"entry {entry}", "the block has more threads than the kernel allows", got=block, needs=f"at most {most(program)} threads")
    return program, grid, block


def checked_dims(entry: str, what: str, dims: Sequence[int]) -> tuple[int, int, int]:
    """The grid or block as three positive sizes.

    Raises:
        EmulationError: it is something else.
    """
    sizes = tuple(int(size) for size in dims)
    if len(sizes) != 3 or min(sizes) < 1:
        raise EmulationError(
            f"entry {entry}", f"the {what} is not three positive sizes", got=tuple(dims), needs="(x, y, z)"
        )
    return sizes
