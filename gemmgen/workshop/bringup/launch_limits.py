"""Limits of a device by trying: launches until one is refused, and occupancy queries.

| value | how |
| --- | --- |
| `gpu threads_per_block`, `gpu shared_bytes_per_block`, `gpu registers_per_thread`, `gpu cluster_blocks` | the largest that launches |
| `gpu threads_per_sm`, `gpu blocks_per_sm` | the most that occupancy queries let reside |
| `gpu registers_per_sm`, `gpu register_allocation_unit` | the only sizes that explain the blocks of kernels of growing registers |
| `gpu shared_bytes_per_sm`, `gpu shared_bytes_reserved_per_block`, `gpu shared_allocation_unit` | likewise, of growing shared memory |

What a driver tells decides only between sizes that explain the same answers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import gcd
from typing import Any

from gemmgen.catalog.gpu import REGISTER_PARTITIONS, arch_number
from gemmgen.catalog.vendor import vendor_of
from gemmgen.workshop.bringup.probe import Kernels, Machine, plain_source
from gemmgen.workshop.bringup.session import Session, Value

IDLE = "idle"
MOST_THREADS, MOST_SHARED, MOST_CLUSTER = 1 << 14, 1 << 22, 64
"""Where trying ends, several times beyond any GPU of today."""
_ALL = 600
"""Registers that no GPU gives a thread."""
_STEPS, _BEFORE = 44, 8
"""Kernels of growing registers, one register apart, and how many of them come before registers should bind."""
_MOST_RESERVED = 1 << 14
"""Shared bytes that a block loses to the system, several times beyond any of today."""
_WIDEST_UNIT = 64
"""Registers a thread of the widest allocation unit that is thought of."""


def measure(session: Session) -> None:
    """The limits of a row."""
    session.progress("limits")
    tried = Tried(session.machine)
    threads_per_block = tried.threads_per_block()
    session.found("gpu threads_per_block", threads_per_block, "the most threads of a block that launches")
    resident = tried.residents(threads_per_block)
    blocks_per_sm = resident[tried.warp]
    threads_per_sm, by = max((threads * blocks, -threads) for threads, blocks in resident.items())
    binds = "; as many warps as the SM holds threads for: it may be larger" if blocks_per_sm * tried.warp >= threads_per_sm else ""
    session.found("gpu blocks_per_sm", blocks_per_sm, f"occupancy of blocks of one warp{binds}")
    session.found("gpu threads_per_sm", threads_per_sm, f"occupancy: {resident[-by]} blocks of {-by} threads, the most of {len(resident)} sizes")
    _registers(session, tried, threads_per_sm, blocks_per_sm)
    _shared(session, tried, blocks_per_sm)
    if session.machine.kind != "emulator":
        session.put(Value("gpu cluster_blocks", tried.cluster_blocks(), "the most blocks of a cluster that launches; 1 is none"))
    lines = ["| limit | found | by |", "| --- | --- | --- |"]
    names = [name for name in _NAMES if session.value(f"gpu {name}")]
    lines += [f"| {name} | {(one := session.value(f'gpu {name}')).value} | {one.how} |" for name in names]
    session.sections.append(("Limits, by trying", "\n".join(lines)))


_NAMES = (
    "threads_per_block", "threads_per_sm", "blocks_per_sm", "registers_per_thread", "registers_per_sm", "register_allocation_unit", "shared_bytes_per_block",
    "shared_bytes_without_opt_in", "shared_bytes_per_sm", "shared_bytes_reserved_per_block", "shared_allocation_unit", "cluster_blocks",
)


class Tried:
    """A machine and what it takes.

    Attributes:
        warp: threads of a warp, which the target tells.
    """

    def __init__(self, machine: Machine):
        self._machine = machine
        self.warp = vendor_of(machine.arch).warp_size(arch_number(machine.arch))
        self._first = self._kernels([_ALL])

    def _kernels(self, needs: Iterable[int]) -> Kernels:
        return self._machine.kernels(plain_source("limits.j2", self._machine.arch, "bringup_limits", needs=list(needs)))

    def threads_per_block(self) -> int:
        return _last(lambda threads: self._first.takes(IDLE, 1, threads), 1, MOST_THREADS)

    def residents(self, most: int) -> dict[int, int]:
        """Blocks that an SM holds of those of nothing but threads, by their threads: whole warps."""
        return {threads: self._first.resident(IDLE, threads) for threads in range(self.warp, most + 1, self.warp)}

    def registers_per_thread(self) -> int:
        """The most of a kernel that launches in blocks of one warp. What the compiler gives at most is tried first."""
        limit = self._first.registers(f"hold_{_ALL}")
        if self._first.takes(f"hold_{_ALL}", 1, self.warp):
            return limit
        found: dict[int, int] = {}

        def launches(need: int) -> bool:
            kernels = self._kernels([need])
            found[need] = kernels.registers(f"hold_{need}")
            return kernels.takes(f"hold_{need}", 1, self.warp)

        return found.get(last := _last(launches, 16, limit), last)

    def register_blocks(self, threads: int, needs: Iterable[int]) -> dict[int, int]:
        """Blocks that an SM holds, by registers of a thread."""
        needs = sorted(needs)
        kernels = self._kernels(needs)
        return {kernels.registers(f"hold_{need}"): kernels.resident(f"hold_{need}", threads) for need in needs}

    def shared_bytes_per_block(self, opt_in: bool) -> int:
        return _last(lambda size: self._first.takes(IDLE, 1, self.warp, size, opt_in=opt_in), 0, MOST_SHARED)

    def most_shared(self, blocks: int, limit: int) -> int:
        """Dynamic shared bytes of the largest blocks of which an SM holds so many."""
        return _last(lambda size: self._first.resident(IDLE, self.warp, size) >= blocks, 0, limit)

    def cluster_blocks(self) -> int:
        return max(size for size in range(1, MOST_CLUSTER + 1) if size == 1 or self._first.takes(IDLE, size, self.warp, cluster=size))


def _last(holds: Callable[[int], bool], first: int, end: int) -> int:
    """The last number for which something holds that holds up to some number, from `first`, for which it does, below `end`."""
    low, step = first, 1
    while low + step < end and holds(low + step):  # doubling, then halving
        low, step = low + step, 2 * step
    high = min(low + step, end)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


# ---------------------------------------------------------------- registers


@dataclass(frozen=True)
class File:
    """Sizes that explain what was seen.

    Attributes:
        unit: of allocation.
        low, high: bounds of the whole, from and below.
        reserved: of each block.
    """

    unit: int
    low: int
    high: int
    reserved: int = 0


def register_files(blocks: dict[int, int], threads: int, warp: int, most: int) -> list[File]:
    """Every allocation unit, with the registers of an SM, that explains how many blocks of so many threads an SM holds by their registers.

    Args:
        blocks: by registers of a thread.
        most: blocks that an SM holds of those that need few registers: of so many nothing says that registers bind.
    """
    warps = threads // warp
    found = []
    for unit in range(1, _WIDEST_UNIT + 1):
        low, high = 0, 1 << 40
        for registers, count in blocks.items():
            each = -(-registers // unit) * unit * warp
            low = max(low, -(-count * warps // REGISTER_PARTITIONS) * each)
            if count < most:
                high = min(high, -(-(count + 1) * warps // REGISTER_PARTITIONS) * each)
        if low < high:
            found.append(File(unit * warp, low * REGISTER_PARTITIONS, high * REGISTER_PARTITIONS))
    return found


def _registers(session: Session, tried: Tried, threads_per_sm: int, blocks_per_sm: int) -> None:
    per_thread = tried.registers_per_thread()
    session.found("gpu registers_per_thread", per_thread, "the most of a kernel that launches; the compiler gives no more, or what needs more is refused")
    threads = REGISTER_PARTITIONS * tried.warp
    most = min(blocks_per_sm, threads_per_sm // threads)
    coarse = tried.register_blocks(threads, [need for need in (64, 96, 128, 192, 240) if need < per_thread])
    first = max(16, max(registers * count for registers, count in coarse.items()) // most - _BEFORE)  # from where on registers bind
    needs = {*range(first, min(first + _STEPS, per_thread)), *(need for need in range(first, per_thread - 8, 17))}
    blocks = tried.register_blocks(threads, needs)
    files = register_files(blocks, threads, tried.warp, most)
    told = session.value("gpu registers_per_sm")
    known = [one for one in files if told and one.low <= told.value < one.high]
    chosen = min(known or files, key=lambda one: one.unit, default=None)
    how = f"occupancy of blocks of {threads} threads of {len(blocks)} kernels, {min(blocks)} to {max(blocks)} registers a thread"
    if chosen is None:
        for name in ("register_allocation_unit", "registers_per_sm"):
            if name != "registers_per_sm" or told is None:
                session.put(Value(f"gpu {name}", None, f"{how}: no unit of up to {_WIDEST_UNIT} registers a thread explains it", "not found"))
        return
    others = [one.unit for one in known or files if one is not chosen]
    session.found("gpu register_allocation_unit", chosen.unit, how + (f"; {', '.join(map(str, others))} explain it too" if others else ""))
    value = told.value if known else chosen.low
    session.found("gpu registers_per_sm", value, f"{how}, which {chosen.low} to {chosen.high - 1} explain")


# ---------------------------------------------------------------- shared memory


def shared_files(sizes: dict[int, int]) -> list[File]:
    """Every allocation unit and reserved size, with the shared memory of an SM, that explains the largest blocks of which an SM holds so many.

    Args:
        sizes: dynamic shared bytes by blocks.
    """
    values = sorted(sizes.values())
    step = functools.reduce(gcd, (one - values[0] for one in values), 0)
    found = []
    for unit in (one for one in range(4, step + 1) if step % one == 0):
        for reserved in range(-values[0] % unit, _MOST_RESERVED + 1, unit):
            low = max(blocks * (size + reserved) for blocks, size in sizes.items())
            high = min(blocks * (size + reserved + unit) for blocks, size in sizes.items())
            if low < high:
                found.append(File(unit, low, high, reserved))
    return found


def _shared(session: Session, tried: Tried, blocks_per_sm: int) -> None:
    before = tried.shared_bytes_per_block(opt_in=False)  # first, since a kernel keeps what was asked for it
    limit = tried.shared_bytes_per_block(opt_in=True)
    session.found("gpu shared_bytes_per_block", limit, "the most dynamic shared memory of a block that launches")
    if session.machine.kind != "emulator":
        session.put(Value("gpu shared_bytes_without_opt_in", before, "likewise, of a kernel for which no more was asked"))
    sizes = {blocks: tried.most_shared(blocks, limit + 1) for blocks in range(2, blocks_per_sm + 1)}
    sizes = {blocks: size for blocks, size in sizes.items() if 0 < size < limit}
    files = shared_files(sizes)
    told = {name: one.value for name in ("shared_bytes_per_sm", "shared_bytes_reserved_per_block") if (one := session.value(f"gpu {name}"))}
    how = f"occupancy: the largest of which an SM holds {min(sizes, default=2)} to {max(sizes, default=2)} blocks"
    known = [one for one in files if _agrees(one, told)]
    chosen = next(iter(known or files), None)
    others = sorted({one.unit for one in known or files} - {chosen and chosen.unit})
    if chosen is None:
        for name in ("shared_allocation_unit", "shared_bytes_per_sm", "shared_bytes_reserved_per_block"):
            if name not in told:
                session.put(Value(f"gpu {name}", None, f"{how}: no unit explains it", "not found"))
        return
    session.found("gpu shared_allocation_unit", chosen.unit, how + (f"; {', '.join(map(str, others))} explain it too" if others else ""))
    session.found("gpu shared_bytes_reserved_per_block", chosen.reserved, how)
    whole = told.get("shared_bytes_per_sm")
    value = whole if whole is not None and chosen.low <= whole < chosen.high else chosen.low
    session.found("gpu shared_bytes_per_sm", value, f"{how}, which {chosen.low} to {chosen.high - 1} explain")


def _agrees(one: File, told: dict[str, Any]) -> bool:
    """Whether it explains what the driver tells, too."""
    whole, reserved = told.get("shared_bytes_per_sm"), told.get("shared_bytes_reserved_per_block")
    return (whole is None or one.low <= whole < one.high) and (reserved is None or reserved == one.reserved)
