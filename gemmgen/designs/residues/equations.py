"""The equations of kernels that multiply modulo one number after the other.

A stage holds one residue of each element, so that it is small and deep in k; a tile goes through all of k once for each modulus. In between a
multiplying thread reduces its sums and keeps a byte of each in the workspace, and in the end reads them back and joins them: `reduce_cycles` and
`join_cycles`, during which the other warpgroup has the matrix unit to itself as long as stages last that have been filled for it.
"""

from __future__ import annotations

from typing import Any

from gemmgen.catalog.element import ELEMENTS
from gemmgen.catalog.residues import SEGMENT_K
from gemmgen.catalog.scheme import Scheme
from gemmgen.designs.specialised import equations as specialised
from gemmgen.model import resources, time, traffic
from gemmgen.model.equation import Equation

OTHER_REGISTERS, BATCH_REGISTERS = 48, 8
"""Addresses, the loop, the stages' bookkeeping, and what sums are reduced with; of FP64's batches also which product a tile is of, and where its matrices
lie: with 192 sums ptxas spilled 32 to 92 B."""
REDUCE_INSTRUCTIONS = 6
"""Issue slots for each sum that is reduced: an addition, a high and a low product, each at half the rate; beside them, in another unit, a shift and a byte's
share of packing."""
JOIN_INSTRUCTIONS, WIDE_JOIN_INSTRUCTIONS = 5, 12
"""Issue slots for each residue that is joined: it is taken from its word and goes into two sums; of FP64 elements into five of 64 bits, at half the rate."""
STORE_INSTRUCTIONS, WIDE_STORE_INSTRUCTIONS = 24, 90
"""Issue slots for each element of C: the fraction to FP64, two products there, to FP32, and its store; of FP64 elements carries, a rounding of 128 bits by
integer arithmetic, and its store."""
WIDE_PASS_SHARE, WIDE_PASS_SECONDS = 1.14, 1.2e-5
"""How long passes over FP64 elements take, over what their traffic asks for, and what each takes besides: both together 96, 320, 1177 and 4561 us on an
H200 from 2048 to 16384, where these give 96, 310, 1170 and 4600 (docs/results/f64.md)."""
ANY_K = 1 << 31
"""K of any product."""


def of_elements(scheme: Scheme) -> dict[str, Any]:
    """The symbols that the type of elements decides: their size; bytes that the passes read of each, once more for norms that are by integers;
    k of a sum that is joined by itself, and bytes of what waits for others; what it takes to join a residue and to
    store an element."""
    wide, size = scheme.family.wide, ELEMENTS[scheme.element].bytes
    return {
        "c_bytes": size, "pass_bytes": size * (2 if wide else 1),
        "segment_k": float(ANY_K if wide else SEGMENT_K), "total_bytes": 0 if wide else 8,
        "join_slots": WIDE_JOIN_INSTRUCTIONS if wide else JOIN_INSTRUCTIONS, "store_slots": WIDE_STORE_INSTRUCTIONS if wide else STORE_INSTRUCTIONS,
    }


STAGE_BYTES = Equation("Q1", "stage_bytes", "BK * (BM + BN)", "B a stage", "a byte of each element: its residue modulo one number")
SHARED_BYTES = Equation("Q2", "shared_bytes", "stages * (stage_bytes + 16)", "B", "EGEMM eq. 8's term; two barriers a stage")
ACCUMULATOR_REGISTERS = Equation(
    "Q3", "accumulator_registers", "WM * WN / 128", "registers a thread", "sums modulo one number; those before it are bytes in the workspace",
)
KEPT_BYTES = Equation(
    "Q4", "kept_bytes", "blocks_at_once * BM * BN * (moduli + total_bytes)", "B",
    "of the tiles at work, in the workspace: residues of a segment of k, and FP64 sums of those before where FP32's segments are several",
)

FETCH_BYTES = Equation(
    "Q5", "fetch_bytes", "BK * (BM / WM) * (BN / WN) * (WM + WN * WM / FM)", "B a stage", "each instruction reads its operands from shared memory anew",
)
FILL_BYTES = Equation("Q6", "fill_bytes", "BK * (BM + BN / cluster)", "B a stage", "through L2; blocks of a cluster share B")
BLOCKS = Equation("Q7", "blocks", "batch * ceil(ceil(M / BM) / cluster) * cluster * ceil(N / BN)", "tiles", "in whole clusters; of all products")
STAGES_K = Equation("Q8", "stages_k", "ceil(K / BK) * moduli", "stages a tile", "all of k for each modulus")
PLANE_BYTES = Equation("Q9", "plane_bytes", "batch * K * (M + N) * moduli", "B", "both operands' residues, of all products")
DRAM_BYTES = Equation(
    "Q10", "dram_bytes",
    "c_bytes * batch * M * N + where(plane_bytes + c_bytes * batch * M * N <= l2_size, 0,"
    " max(plane_bytes, turns * wave_groups * K * moduli * (wave_rows * BM + wave_columns * BN)) + 2 * turns * kept_bytes)", "B",
    "C once; operands once a wave, unless L2 still holds them from the split; residues written and read once",
)
SPLIT_BYTES = Equation(
    "Q11", "split_bytes", "batch * K * (M + N) * (pass_bytes + where(2 * plane_bytes <= l2_size, 0, moduli))", "B",
    "elements in once, FP64 twice, for norms and for residues, which go out and of which few stay in L2",
)
INTENSITY = Equation("Q12", "intensity", "stage_flops / stage_bytes", "FLOP a byte of L2", "EGEMM eq. 4 and LE-GEMM eq. 15")

TENSOR_CYCLES = Equation("Q13", "tensor_cycles", "BM * BN * BK / (tensor_fma_per_clock * mma_efficiency)", "cycles a stage", "EGEMM eq. 5, from a rate")
SHARED_CYCLES = Equation(
    "Q14", "shared_cycles", "(fetch_bytes + stage_bytes) / shared_bytes_per_clock", "cycles a stage", "what instructions read and copies write",
)
CHAIN_CYCLES = Equation(
    "Q15", "chain_cycles", "tensor_cycles / groups", "cycles a stage of one warpgroup", "the products of a stage follow those of the one before without a gap",
)
LATENCY_CYCLES = Equation(
    "Q16", "latency_cycles", "(memory_cycles + max(tensor_cycles, shared_cycles)) / (stages - 1)", "cycles a stage",
    "a stage is free again when the next one's products are on their way, and full a copy's latency later",
)
STAGE_CYCLES = Equation(
    "Q17", "stage_cycles", "max(tensor_cycles * where(groups > 1, 1 + beside, 1), shared_cycles, l2_cycles, chain_cycles, latency_cycles)", "cycles a stage",
    "the slowest binds; integer products of two warpgroups hold one another up",
)
REDUCE_CYCLES = Equation(
    "Q18", "reduce_cycles", f"{REDUCE_INSTRUCTIONS} * BM * BN / f32_fma_per_clock", "cycles a tile and modulus", "every sum becomes a byte",
)
JOIN_BYTES = Equation(
    "Q41", "join_bytes", "where(total_bytes > 0, 0, BM * BN * (c_bytes"
    " + where(kept_bytes + K * moduli * (wave_rows * BM + wave_columns * BN) > l2_size, moduli, 0)))", "B a tile",
    "of FP64, whose pieces are joined one after another: C goes out, and residues come back where L2 does not hold them and a wave's operands",
)
JOIN_CYCLES = Equation(
    "Q19", "join_cycles", "(store_slots + join_slots * moduli) * BM * BN / f32_fma_per_clock + join_bytes * sms * clock_hz / dram_rate", "cycles a tile",
    "bytes become elements of C; all SMs join at a time, and what they move has device memory's rate",
)
HIDDEN_CYCLES = Equation(
    "Q20", "hidden_cycles", "where(groups > 1, (stages - 1) * tensor_cycles * (1 + beside) / groups, 0)", "cycles",
    "filled stages keep the other warpgroup and so the unit busy: what these stages would take of the rest",
)
KERNEL_CYCLES = Equation(
    "Q21", "kernel_cycles",
    "turns * (stages_k * stage_cycles + ceil(K / segment_k) * (moduli * max(0, reduce_cycles - hidden_cycles) + max(0, join_cycles - hidden_cycles))"
    " + turn_cycles_each)", "cycles", "one tile after another, one segment of k after another",
)
UNIT_SECONDS = Equation(
    "Q22", "unit_seconds", "2 * moduli * tiles * BM * BN * K / unit_rate", "s", "as fast as the chip's power allows",
)
SPLIT_SECONDS = Equation(
    "Q35", "split_seconds", "pass_share * split_bytes / dram_rate + split_passes * pass_seconds", "s",
    "FP32's elements wait in shared memory while a row's norm is found; of FP64 the second pass waits for the first",
)
BESIDE_SECONDS = Equation(
    "Q58", "beside_seconds", "where(total_bytes > 0, where(plane_bytes > l2_size, blocks_at_once * BM * BN * moduli / dram_rate, 0), 0)", "s",
    "of FP32: where L2 does not hold both operands' residues, those of C take their place there and are written back once",
)
KERNEL_SECONDS = Equation("Q23", "kernel_seconds", "max(kernel_cycles / clock_hz, dram_bytes / dram_rate)", "s", "cycles, or device memory")
SECONDS = Equation(
    "Q24", "seconds",
    "max(kernel_seconds + split_seconds, unit_seconds + split_power * split_seconds) + split_passes * launch_seconds + overlap_seconds"
    " + beside_seconds + where(cluster > 1, cluster_seconds, 0)", "s",
    "one after another, or as the power of both allows; the main kernel's launch is hidden",
)

RESOURCES = specialised.RESOURCES
BUDGETS = (
    STAGE_BYTES, SHARED_BYTES, specialised.LAUNCH_REGISTERS, specialised.PRODUCER, specialised.BUDGET, specialised.ACCUMULATORS, ACCUMULATOR_REGISTERS,
)
LAUNCH = (*specialised.LAUNCH, KEPT_BYTES)
TRAFFIC = (
    traffic.STAGE_FLOPS, INTENSITY, FETCH_BYTES, FILL_BYTES, BLOCKS, STAGES_K, specialised.L2_BYTES, specialised.TURNS, specialised.WAVE_ROWS,
    specialised.WAVE_COLUMNS, specialised.WAVE_GROUPS, PLANE_BYTES, specialised.AT_ONCE, KEPT_BYTES, DRAM_BYTES, SPLIT_BYTES, traffic.TLP,
)
TIME = (
    TENSOR_CYCLES, SHARED_CYCLES, specialised.L2_CYCLES, CHAIN_CYCLES, LATENCY_CYCLES, STAGE_CYCLES, REDUCE_CYCLES, JOIN_BYTES, JOIN_CYCLES, HIDDEN_CYCLES,
    KERNEL_CYCLES, UNIT_SECONDS, KERNEL_SECONDS, SPLIT_SECONDS, BESIDE_SECONDS, SECONDS, time.TFLOPS,
)
GROUPS = (
    ("Resources", (*RESOURCES, *BUDGETS)), ("Occupancy", (*resources.OCCUPANCY_EQUATIONS, *LAUNCH)),
    ("Traffic", tuple(one for one in TRAFFIC if one not in LAUNCH)), ("Time", TIME),
)
