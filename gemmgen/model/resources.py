"""What a kernel takes from its SM: threads, shared memory, accumulators, occupancy.

The occupancy equations are those of NVIDIA's `cuda_occupancy.h`; the tests
compare them with that header. What it knows and these leave out: barriers of a
block (each kernel here uses one, which never binds) and launches that prefer L1
cache to shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmgen.catalog.gpu import REGISTER_PARTITIONS, Limits
from gemmgen.model.equation import Equation, Numbers, solved

WARPS = Equation("R1", "warps", "(BM / WM) * (BN / WN)", "warps a block", "a block's tile is divided among its warps")
THREADS = Equation("R2", "threads", "warps * warp_size", "threads a block", "the definition of a warp")
SHARED_BYTES = Equation(
    "R3", "shared_bytes", "stages * (BM * (BK * element_bytes + words_a * row_padding) + BN * (BK * b_element_bytes + words_b * row_padding)"
    " + (BM + BN) * where(tile_k > 0, 4 * BK // max(tile_k, 1), 0)) + where(uncached > 1, 4 * sums * BM * BN, 0)", "B",
    "EGEMM eq. 8's shared-memory term; padded where rows cannot be swizzled, or are not to be; a scale for each tile of k that has its own; and the"
    " sums, where no fragment keeps them",
)
ROW_PADDING = Equation(
    "R16", "row_padding", "where(split_register > 0, 0, padding) + where(padded > 0, min(16, BK * word_bytes / 8), 0)", "B a row of words",
    "for fragments fetched by rows of one distance; or 16 bytes after each 128: of 32 words of 16 bits that is EGEMM eq. 8's term with b_k + 4, as Table 4"
    " counts, of 64 the one with b_k + 8",
)
ELEMENT_BYTES = Equation(
    "R14", "element_bytes", "where(split_register > 0, 4, words_a * word_bytes)", "B",
    "an element of A in a stage: all its words, or FP32 that is split behind shared memory (WMMAe)",
)
B_ELEMENT_BYTES = Equation("R15", "b_element_bytes", "where(split_register > 0, 4, words_b * word_bytes)", "B", "the same of B, which may be a word as stored")
ACCUMULATORS = Equation(
    "R4", "accumulators",
    "where((tile_k == FK) & ((amd == 0) | (warp_size > 32)), 0, sums) + where(tile_k > 0, 1, where(promote > FK, promoted_sums, 0))", "sets",
    "a promoted sum is held twice, in the unit's accumulator and in FP32 registers, unless it is promoted at once; the sums of a tile of k with scales"
    " of its own become one, which is all that is held where the tile is an instruction's; on RDNA clang holds the others, too",
)
ACCUMULATOR_REGISTERS = Equation(
    "R5", "accumulator_registers", "accumulators * WM * WN / warp_size", "registers a thread",
    "WMMAe eq. 2's accumulator term, for every accumulator and promoted sum",
)
FRAGMENT_REGISTERS = Equation(
    "R6", "fragment_registers", "fragment_buffers * (words_a * a_copies * WM + words_b * b_copies * WN) * FK * word_bytes / (4 * warp_size)",
    "registers a thread", "WMMAe eq. 2's fragment term, for every word, in as many registers as hold it",
)
REGISTERS_PER_WARP = Equation(
    "R7", "registers_per_warp", "register_allocation_unit * ceil(registers * warp_size / register_allocation_unit)",
    "registers", "cuda_occupancy.h: registers are allocated to warps in units",
)
BLOCKS_BY_REGISTERS = Equation(
    "R8", "blocks_by_registers",
    "where((registers_per_warp * partitions * ceil(warps / partitions) > registers_per_sm)"
    " | (registers > register_encoding), 0,"
    " floor(partitions * floor(registers_per_sm / partitions / max(registers_per_warp, 1)) / warps))",
    "blocks", "cuda_occupancy.h: each partition of the file holds whole warps, and a launch is checked as if they were spread evenly",
)
SHARED_ALLOCATED = Equation(
    "R9", "shared_allocated",
    "shared_allocation_unit * ceil((shared_bytes + shared_bytes_reserved_per_block) / shared_allocation_unit)", "B",
    "cuda_occupancy.h: the driver's own part, then rounded up",
)
BLOCKS_BY_SHARED = Equation(
    "R10", "blocks_by_shared",
    "where(shared_allocated > shared_bytes_per_block + shared_bytes_reserved_per_block, 0,"
    " floor(shared_bytes_per_sm / max(shared_allocated, 1)))",
    "blocks", "cuda_occupancy.h",
)
BLOCKS_BY_THREADS = Equation(
    "R11", "blocks_by_threads",
    "where(threads > threads_per_block, 0, floor(floor(threads_per_sm / warp_size) / warps))",
    "blocks", "cuda_occupancy.h",
)
RESIDENT_BLOCKS = Equation(
    "R12", "resident_blocks", "min(blocks_per_sm, blocks_by_threads, blocks_by_registers, blocks_by_shared)",
    "blocks an SM", "cuda_occupancy.h",
)
OCCUPANCY = Equation(
    "R13", "occupancy", "resident_blocks * warps * warp_size / threads_per_sm", "", "the share of an SM's threads in use",
)

OCCUPANCY_EQUATIONS = (
    REGISTERS_PER_WARP, BLOCKS_BY_REGISTERS, SHARED_ALLOCATED, BLOCKS_BY_SHARED, BLOCKS_BY_THREADS, RESIDENT_BLOCKS, OCCUPANCY,
)

_LIMITED_BY = {  # ties go to the first
    "blocks": "blocks_per_sm", "threads": "blocks_by_threads", "registers": "blocks_by_registers",
    "shared memory": "blocks_by_shared",
}


@dataclass(frozen=True)
class Occupancy:
    """Blocks resident on one SM and what limits them."""

    blocks: int
    warps: int
    fraction: float
    limited_by: str


def limit_numbers(limits: Limits) -> dict[str, int]:
    """The symbols that a GPU's limits stand for."""
    unit = limits.register_allocation_unit // limits.warp_size
    return {
        **limits.model_dump(), "partitions": REGISTER_PARTITIONS,
        # Registers are handed out in units, so the encoding's 255 is a grant of 256.
        "register_encoding": -(-limits.registers_per_thread // unit) * unit,
    }


def occupancy(limits: Limits, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """CUDA's occupancy rule, with its allocation granularity.

    Args:
        threads: of a block.
        registers: of a thread, as compiled.
        shared_bytes: of a block, static and dynamic.
    """
    known = resident(limit_numbers(limits) | {
        "threads": threads, "registers": registers, "shared_bytes": shared_bytes, "warps": -(-threads // limits.warp_size),
    })
    limited_by = min(_LIMITED_BY, key=lambda name: known[_LIMITED_BY[name]])
    blocks = known["resident_blocks"]
    return Occupancy(blocks, blocks * known["warps"], float(known["occupancy"]), limited_by)


def resident(numbers: Numbers) -> dict[str, Any]:
    """The occupancy equations' values, with `numbers`; for one kernel or columns of them."""
    with np.errstate(divide="ignore"):
        return solved(OCCUPANCY_EQUATIONS, numbers)
