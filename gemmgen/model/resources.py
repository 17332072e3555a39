"""What a kernel takes from its SM: shared memory, accumulator registers, occupancy."""

from __future__ import annotations

from dataclasses import dataclass

from gemmgen.catalog.gpu import Limits
from gemmgen.model.equation import Equation

SHARED_BYTES = Equation(
    "R1", "shared_bytes", "stages * (BM + BN) * BK * words * word_bytes", "B",
    "EGEMM eq. 8's shared-memory term; swizzled, so without its padding",
)
ACCUMULATOR_REGISTERS = Equation(
    "R2", "accumulator_registers", "accumulators * WM * WN / warp_size", "registers a thread",
    "WMMAe eq. 2's accumulator term, for every accumulator and promoted sum",
)


@dataclass(frozen=True)
class Occupancy:
    """Blocks resident on one SM and what limits them."""

    blocks: int
    warps: int
    fraction: float
    limited_by: str


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def occupancy(limits: Limits, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """CUDA's occupancy rule, with its allocation granularity.

    Args:
        threads: of a block.
        registers: of a thread, as compiled.
        shared_bytes: of a block, static and dynamic.
    """
    warps = -(-threads // limits.warp_size)
    registers_per_warp = _round_up(registers * limits.warp_size, limits.register_allocation_unit)
    # Registers are allocated per warp out of four equal partitions of the file.
    warps_by_registers = 4 * (limits.registers_per_sm // 4 // registers_per_warp) if registers else 10**6
    shared = _round_up(
        shared_bytes + limits.shared_bytes_reserved_per_block, limits.shared_allocation_unit
    )
    by = {
        "blocks": limits.blocks_per_sm,
        "threads": limits.threads_per_sm // (warps * limits.warp_size),
        "registers": warps_by_registers // warps,
        "shared memory": limits.shared_bytes_per_sm // shared if shared else limits.blocks_per_sm,
    }
    limited_by = min(by, key=lambda name: by[name])
    blocks = by[limited_by]
    resident = blocks * warps
    return Occupancy(blocks, resident, resident * limits.warp_size / limits.threads_per_sm, limited_by)
