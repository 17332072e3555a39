"""What a kernel of several tiles takes of its SM, and what a batch of equal products of the hints' size takes of time."""

from __future__ import annotations

from gemmgen.model import batch
from gemmgen.model.equation import Equation

THREADS = Equation("Q1", "threads", "launch_threads", "threads a block", "as many as the tile with the most has; of another the rest end or were never there")
WARPS = Equation("Q2", "warps", "threads / warp_size", "warps a block", "the definition of a warp")
SHARED_BYTES = Equation("Q3", "shared_bytes", "stage_bytes + line_bytes + list_bytes", "B",
                        "the stages of the largest tile, rows of C on their way out, and the list of products")
REGISTERS = Equation(
    "Q40", "registers",
    "min(registers_per_thread, max(least_staying * staying, ceil(per_tile * tile_registers + walk_offset"
    " + when_apart * (1 - of_list) * where(further_tiles > 1, 1, 0)"
    " + staying * (when_staying + of_list * (when_listed + per_further_tile * further_tiles)))))",
    "registers a thread", "the largest tile's by itself, and what finds the next product: more where a block stays",
)
RESOURCES = (THREADS, WARPS, SHARED_BYTES, REGISTERS)

BLOCKS_AT_ONCE = Equation("Q4", "blocks_at_once", "resident_blocks * sms", "blocks", "blocks that stay are as many as the GPU holds")
WAVEFRONTS = Equation("Q5", "most_wavefronts", "WF * sms", "wavefronts", "active on the whole GPU at once: the limit of eq. 4")
LAUNCH = (*batch.OCCUPANCY_EQUATIONS, BLOCKS_AT_ONCE, WAVEFRONTS)

TILES = Equation("Q6", "workgroups", "matrices * ceil(M / BM) * ceil(N / BN)", "tiles", "of a batch of equal products, with the tile that they get")
TLP = Equation("Q7", "wavefronts", "workgroups * tile_warps", "wavefronts", "that compute")
INTENSITY = Equation("Q8", "intensity", "2 * BM * BN / (4 * (BM + BN))", "FLOP a byte", "of a tile: what it multiplies over what it reads as FP32")
READ_BYTES = Equation("Q9", "read_bytes", "4 * matrices * (M * K + K * N)", "B", "each operand once; the other tiles of its product find it in L2")
C_BYTES = Equation("Q10", "c_bytes", "4 * matrices * M * N", "B", "written once")
DRAM_BYTES = Equation("Q11", "dram_bytes", "read_bytes + c_bytes", "B", "both")
FILL_BYTES = Equation("Q12", "fill_bytes", "4 * workgroups * K * (BM + BN)", "B", "what all tiles bring to shared memory")
STAGE_CYCLES = Equation(
    "Q13", "stage_cycles",
    "products * BM * BN * BK / (tensor_fma_per_clock * mma_efficiency) + split_shared * words * BK * split_before * (BM + BN) / f32_fma_per_clock",
    "cycles a tile and stage", "M1 and M20: what multiplies waits for what splits, of which every tile does its own",
)
TURNS = Equation("Q14", "turns", "ceil(workgroups / blocks_at_once)", "tiles", "that the busiest block works off")
LATENCY = Equation(
    "Q15", "latency_seconds", "turns * (1 + ceil(K / BK) / (stages - 1)) * memory_cycles / clock_hz", "s",
    "a tile's stages arrive after one another, as many at once as there are buffers for",
)
SECONDS = Equation(
    "Q16", "seconds",
    "launch_seconds + max(latency_seconds, dram_bytes / dram_rate, fill_bytes / (sms * l2_bytes_per_clock * clock_hz),"
    " workgroups * ceil(K / BK) * stage_cycles / (sms * clock_hz))", "s",
    "what binds of latency, device memory, L2 and arithmetic",
)
TFLOPS = Equation("Q17", "tflops", "gflops / 1000", "TFLOP/s", "BatchGEMM eq. 11 by thousands")
PROBLEM = (
    TILES, TLP, batch.TLP_OLD, batch.TLP_NEW, batch.WORK_CP, batch.WORK_DL, INTENSITY, READ_BYTES, C_BYTES, DRAM_BYTES, FILL_BYTES, STAGE_CYCLES, TURNS,
    LATENCY, SECONDS,    batch.GFLOPS, TFLOPS,
)
