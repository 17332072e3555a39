"""What a kernel takes whose lanes load their operands straight from global memory, and how long it lasts.

No stage lies in shared memory: a thread's registers hold the elements that are on their way (S4), and shared memory the
sums of all warps once at the end (S3).
"""

from __future__ import annotations

from typing import Any

from gemmgen.model import registers, resources, time, traffic
from gemmgen.model.equation import Equation, Numbers, solved

WARPS = Equation("S1", "warps", "(BM / WM) * (BN / WN) * (BK / WK)", "warps a block", "a tile is divided among warps, and so is the k of its stages")
ROW_FLOATS = Equation(
    "S2", "row_floats", "BN + where((b_strided > 0) & (WN % 16 == 0), where(WN % 32 == 0, 4, where(BN % 32 == 0, 16, 0)), where(BN % 16 == 0, 8, 0))", "floats",
    "a row of sums in shared memory, padded so that the lanes of a phase, which hold four, two or one neighbour, touch each bank once",
)
SHARED_BYTES = Equation(
    "S3", "shared_bytes", "4 * (BK / WK) * BM * row_floats + 4 * warps * WK * max(WM, WN)", "B",
    "the sums of all warps, once, on their way to C; and an operand's elements where a stage has some to count",
)
RAW_REGISTERS = Equation("S4", "raw_registers", "stages * (WM + WN) * WK / warp_size", "registers a thread", "FP32 of every stage that is on its way or being split")
FRAGMENT_REGISTERS = Equation(
    "S5", "fragment_registers", "words * (WM + WN) * FK * word_bytes / (4 * warp_size)", "registers a thread", "WMMAe eq. 2's fragment term, of one step",
)
DEMAND = Equation(
    "S6", "demand", "accumulator_registers + raw_registers + 0.5 * fragment_registers + 40", "registers a thread", "and addresses, counts and the loop",
)
REGISTERS = Equation("S7", "registers", "min(register_budget, ceil(demand))", "registers a thread", "ptxas keeps to its budget, and spills the rest")

TILES = (WARPS, resources.THREADS, traffic.TILES)
PIPELINE = (ROW_FLOATS, SHARED_BYTES, resources.ACCUMULATORS, resources.ACCUMULATOR_REGISTERS, FRAGMENT_REGISTERS, RAW_REGISTERS)
BUDGETS = (DEMAND, registers.BUDGET, REGISTERS)
TRAFFIC = (
    traffic.STAGE_FLOPS, traffic.MOVED_BYTES, traffic.STAGE_BYTES, traffic.INTENSITY, traffic.TILES, traffic.BLOCKS, traffic.STAGES_K, traffic.L2_BYTES,
    traffic.WAVES, traffic.PLANE_BYTES, traffic.TLP,
)

KERNEL_SECONDS = Equation("S8", "kernel_seconds", "l2_bytes / (sms * l2_bytes_per_clock * clock_hz)", "s", "placeholder")
SECONDS = Equation("S9", "seconds", "kernel_seconds + launch_seconds", "s", "one launch")
TIME = (KERNEL_SECONDS, SECONDS, time.TFLOPS)
