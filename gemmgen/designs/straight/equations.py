"""What a kernel takes whose lanes load their operands straight from global memory, and how long it lasts.

No stage lies in shared memory: a thread's registers hold the elements that are on their way (S4), and shared memory the
sums of all warps once at the end (S3).
"""

from __future__ import annotations

from collections.abc import Mapping

from gemmgen.catalog.gpu import Gpu
from gemmgen.model import registers, resources, time, traffic
from gemmgen.model.equation import Equation

WARPS = Equation("S1", "warps", "(BM / WM) * (BN / WN) * (BK / WK)", "warps a block", "a tile is divided among warps, and so is the k of its stages")
ROW_FLOATS = Equation(
    "S2", "row_floats",
    "BN + where((b_strided > 0) & (WN % 16 == 0), where(WN % 32 == 0, 4, where(BN % 32 == 0, 16, 0)), where(BN % 16 == 0, 8, 0))",
    "floats",
    "a row of sums in shared memory, padded so that the lanes of a phase, which hold four, two or one neighbour, touch each bank once",
)
SHARED_BYTES = Equation(
    "S3", "shared_bytes", "4 * (BK / WK) * BM * row_floats + 4 * warps * WK * max(WM, WN)", "B",
    "the sums of all warps, once, on their way to C; and an operand's elements where a stage has some to count",
)
RAW_REGISTERS = Equation(
    "S4", "raw_registers", "stages * (WM + WN) * WK / warp_size", "registers a thread", "FP32 of every stage that is on its way or being split",
)
FRAGMENT_REGISTERS = Equation(
    "S5", "fragment_registers", "words * (WM + WN) * FK * word_bytes / (4 * warp_size)", "registers a thread", "WMMAe eq. 2's fragment term, of one step",
)
DEMAND = Equation(
    "S6", "demand", "per_sum * accumulator_registers + per_raw * raw_registers + per_fragment * fragment_registers + generation", "registers a thread",
    "with addresses and the loop",
)
REGISTERS = Equation("S7", "registers", "min(register_budget, ceil(demand))", "registers a thread", "ptxas keeps to its budget, and spills the rest")

TILES = (WARPS, resources.THREADS, traffic.TILES)
PIPELINE = (ROW_FLOATS, SHARED_BYTES, resources.ACCUMULATORS, resources.ACCUMULATOR_REGISTERS, FRAGMENT_REGISTERS, RAW_REGISTERS)
BUDGETS = (DEMAND, registers.BUDGET, REGISTERS)

DRAM_BYTES = Equation(
    "S8", "dram_bytes", "where(plane_bytes + 4 * M * N <= l2_size, 0, plane_bytes + 4 * M * N)", "B",
    "each operand once, where L2 does not hold them from before",
)
TRAFFIC = (
    traffic.STAGE_FLOPS, traffic.MOVED_BYTES, traffic.STAGE_BYTES, traffic.INTENSITY, traffic.TILES, traffic.BLOCKS, traffic.STAGES_K, traffic.L2_BYTES,
    traffic.WAVES, traffic.PLANE_BYTES, DRAM_BYTES, traffic.SPLIT_BYTES, traffic.TLP,
)

WARP_INSTRUCTIONS = Equation(
    "S9", "warp_instructions",
    "(WM + WN) * WK / warp_size * words * split_behind + 2 * products * WM * WN * WK / (FM * FN * FK) + stage_instructions",
    "issue slots a warp and stage", "loads and splits, two slots for each matrix instruction, and what a stage takes however small it is",
)
BLOCK_CYCLES = Equation(
    "S10", "block_cycles", "max(warps * warp_instructions / (partitions * issue_efficiency), tensor_cycles, l2_cycles)",
    "cycles a block and stage", "the schedulers, the matrix units, or the SM's share of L2: what blocks on one SM add up to",
)
ALONE_CYCLES = Equation(
    "S11", "alone_cycles", "max(warp_instructions * cycles_per_instruction, memory_cycles / (stages - 1))", "cycles a stage",
    "a warp by itself: one instruction after another, and loads that have all other stages' time to arrive",
)
STAGE_CYCLES = Equation("S12", "stage_cycles", "max(resident_blocks * block_cycles, alone_cycles)", "cycles a stage", "with every SM full")
TAIL_CYCLES = Equation("S13", "tail_cycles", "max(tail_blocks * block_cycles, alone_cycles)", "cycles a stage", "S12 for the last wave")
STORE_CYCLES = Equation(
    "S14", "store_cycles", "BM * BN * (1 + BK / WK) * store_cycles_per_element", "cycles a block",
    "the sums of all warps that share an element, and the element",
)
KERNEL_CYCLES = Equation(
    "S15", "kernel_cycles",
    "full_waves * (start_cycles + memory_cycles + stages_k * stage_cycles + resident_blocks * store_cycles)"
    " + where(tail_blocks > 0, start_cycles + memory_cycles + stages_k * tail_cycles + tail_blocks * store_cycles, 0) + gather_cycles",
    "cycles", "a wave begins with a load whose latency nothing hides",
)
KERNEL_SECONDS = Equation("S16", "kernel_seconds", "max(kernel_cycles / clock_hz, dram_bytes / once_rate)", "s", "work, or device memory")
SECONDS = Equation("S17", "seconds", "kernel_seconds + one_launch_seconds", "s", "there is no other launch")
TIME = (
    WARP_INSTRUCTIONS, time.TENSOR_CYCLES, time.L2_CYCLES, BLOCK_CYCLES, ALONE_CYCLES, time.FULL_WAVES, time.TAIL_BLOCKS, STAGE_CYCLES, TAIL_CYCLES,
    STORE_CYCLES, time.GATHER_CYCLES, KERNEL_CYCLES, KERNEL_SECONDS, time.SPLIT_SECONDS, SECONDS, time.TFLOPS,
)

CONSTANT_OF = {
    "one_launch_seconds": "launch_seconds", "start_cycles": "start_cycles", "stage_instructions": "stage_instructions",
    "cycles_per_instruction": "cycles_per_instruction", "issue_efficiency": "issue_efficiency", "store_cycles_per_element": "store_cycles_per_element",
}
"""Symbol: the constant of a GPU's row, under [measured.straight], that it stands for."""


def constants(gpu: Gpu, section: str = "straight", constant_of: Mapping[str, str] = CONSTANT_OF) -> dict[str, float]:
    """The symbols that no candidate changes, beside those that every design has, where lanes split and one launch reads each operand.

    Args:
        section: of the GPU's row, under [measured].
        constant_of: as `CONSTANT_OF`.
    """
    measured = gpu.measured.of(section, gpu.name)
    return {
        "sharers": 1, "split_register": 1, "split_shared": 0, "once_rate": gpu.rates.dram_gb_per_s * 1e9 * measured.dram_efficiency.value,
        **{symbol: getattr(measured, constant).value for symbol, constant in constant_of.items()},
    }
