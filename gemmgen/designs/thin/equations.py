"""What a kernel takes that streams one operand through registers, and how long it lasts.

A thread's registers hold its sums (D7) and a step's elements of the large operand (D8). Shared memory holds that operand's steps on
their way and two stages' parts of the thin one, and at the end the sums of all warps (D6).
"""

from __future__ import annotations

from gemmgen.catalog.gpu import Gpu
from gemmgen.designs.straight import equations as straight
from gemmgen.model import registers, resources, time, traffic
from gemmgen.model.equation import Equation

LINE_LANES = 8
"""Of a warp, whose loads of 16 bytes make a line of 128."""

THIN = Equation("D1", "thin", "min(BM, BN)", "rows", "the smaller side of a block's tile: that operand's part of a stage lies in shared memory")
STRIDED = Equation("D2", "large_strided", "where(BM < BN, b_strided, a_strided)", "", "whether the k of the other, the large operand lie apart")
ROWS = Equation("D3", "warp_rows", "where(BM < BN, WN, WM)", "rows", "of the large operand, that a warp takes")
LANES_K = Equation(
    "D4", "lanes_k", f"where(large_strided > 0, warp_size / {LINE_LANES}, {LINE_LANES})", "lanes",
    "lanes of a warp that have other k of the same rows: eight load a line of 128 bytes, along k or along the large side",
)
LANE_ROWS = Equation("D5", "lane_rows", "warp_rows * lanes_k / warp_size", "rows", "of the large operand, that a lane has; and its loads of 16 bytes in a step")
SHARED_BYTES = Equation(
    "D6", "shared_bytes", "max(8 * thin * (BK + 4) + 16 * threads * stages * lane_rows, 4 * BM * BN * BK / WK)", "B",
    "the thin operand's parts of two stages, their rows padded, and all steps of the large one on their way; then the sums of all warps, once",
)
ACCUMULATORS = Equation(
    "D7", "accumulator_registers", "thin * lane_rows", "registers a thread", "lanes that share rows have sums of their own",
)
RAW_REGISTERS = Equation("D8", "raw_registers", "4 * lane_rows", "registers a thread", "of the step that is multiplied")
DEMAND = Equation(
    "D9", "demand", "per_sum * accumulator_registers + per_raw * raw_registers + where(large_strided > 0, generation_strided, generation)",
    "registers a thread", "with addresses, the thin operand's elements and the loop",
)
REGISTERS = Equation("D10", "registers", "min(register_budget, ceil(demand))", "registers a thread", "ptxas keeps to its budget, and spills the rest")

TILES = (straight.WARPS, resources.THREADS, traffic.TILES, THIN, STRIDED, ROWS, LANES_K, LANE_ROWS)
PIPELINE = (SHARED_BYTES, resources.ACCUMULATORS, ACCUMULATORS, RAW_REGISTERS)
BUDGETS = (DEMAND, registers.BUDGET, REGISTERS)

DRAM_BYTES = Equation(
    "D20", "dram_bytes",
    "where(plane_bytes + 4 * M * N <= l2_size, 0, 4 * (where(BM < BN, ceil(M / BM) * N + M, ceil(N / BN) * M + N) * K + M * N))", "B",
    "the large operand once for each tile's width of the thin one, where L2 does not hold it from before",
)
TRAFFIC = (
    traffic.STAGE_FLOPS, traffic.MOVED_BYTES, traffic.STAGE_BYTES, traffic.INTENSITY, traffic.TILES, traffic.BLOCKS, traffic.STAGES_K, traffic.L2_BYTES,
    traffic.WAVES, traffic.PLANE_BYTES, DRAM_BYTES, traffic.SPLIT_BYTES, traffic.TLP,
)

WARP_INSTRUCTIONS = Equation(
    "D11", "warp_instructions",
    "WK / (4 * lanes_k) * (4 * thin * lane_rows + thin + 4 * lane_rows + stage_instructions) + 2 * thin * BK / threads",
    "issue slots a warp and stage", "of each step: products, fetches of the thin operand, the large one's way, and what a step takes besides",
)
BLOCK_CYCLES = Equation(
    "D12", "block_cycles", "max(warps * warp_instructions / (partitions * issue_efficiency), l2_cycles)",
    "cycles a block and stage", "the schedulers, or the SM's share of L2: what blocks on one SM add up to",
)
ALONE_CYCLES = Equation(
    "D13", "alone_cycles", "max(warp_instructions * cycles_per_instruction, WK / (4 * lanes_k) * memory_cycles / (stages - 1))", "cycles a stage",
    "a warp by itself: one instruction after another, and loads that have all other steps' time to arrive",
)
STAGE_CYCLES = Equation("D14", "stage_cycles", "max(resident_blocks * block_cycles, alone_cycles)", "cycles a stage", "with every SM full")
TAIL_CYCLES = Equation("D15", "tail_cycles", "max(tail_blocks * block_cycles, alone_cycles)", "cycles a stage", "D14 for the last wave")
STORE_CYCLES = Equation(
    "D16", "store_cycles", "BM * BN * (1 + BK / WK) * store_cycles_per_element", "cycles a block",
    "the sums of all warps that share an element, and the element",
)
KERNEL_CYCLES = Equation(
    "D17", "kernel_cycles",
    "full_waves * (start_cycles + memory_cycles + stages_k * stage_cycles + resident_blocks * store_cycles)"
    " + where(tail_blocks > 0, start_cycles + memory_cycles + stages_k * tail_cycles + tail_blocks * store_cycles, 0)",
    "cycles", "a wave begins with a load whose latency nothing hides",
)
FLYING_BYTES = Equation(
    "D18", "flying_bytes", "min(resident_blocks, blocks / sms) * warps * warp_size * lane_rows * 16 * (stages - 1)", "B an SM",
    "of the large operand, on their way at once",
)
KERNEL_SECONDS = Equation(
    "D19", "kernel_seconds",
    "max(kernel_cycles / clock_hz, dram_bytes / min(once_rate, sms * flying_bytes * clock_hz / memory_cycles) + exposed_share * kernel_cycles / clock_hz)"
    " + where(split_k > 1, gather_cycles / clock_hz, 0)", "s",
    "work; or device memory, which is as fast as there are bytes on their way (Little's law), and some of the work; then slices of k, one after another",
)
SECONDS = Equation("D21", "seconds", "kernel_seconds + one_launch_seconds", "s", "there is no other launch")
TIME = (
    WARP_INSTRUCTIONS, time.L2_CYCLES, BLOCK_CYCLES, ALONE_CYCLES, time.FULL_WAVES, time.TAIL_BLOCKS, STAGE_CYCLES, TAIL_CYCLES,
    STORE_CYCLES, KERNEL_CYCLES, FLYING_BYTES, KERNEL_SECONDS, time.SPLIT_SECONDS, SECONDS, time.TFLOPS,
)

CONSTANT_OF = {
    "one_launch_seconds": "launch_seconds", "start_cycles": "start_cycles", "stage_instructions": "stage_instructions",
    "cycles_per_instruction": "cycles_per_instruction", "issue_efficiency": "issue_efficiency", "store_cycles_per_element": "store_cycles_per_element",
    "exposed_share": "exposed_share", "gather_cycles": "gather_cycles",
}
"""Symbol: the constant of a GPU's row, under [measured.thin], that it stands for."""


def constants(gpu: Gpu) -> dict[str, float]:
    return straight.constants(gpu, "thin", CONSTANT_OF)
