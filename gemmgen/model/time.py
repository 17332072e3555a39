"""Seconds of one product: what an SM does in a stage, how often, and what comes before.

In one stage a block keeps its SM's matrix units busy for `tensor_cycles`; its
copies, promotions and some of its fetches hold them up (`shared_cycles`). Shared
memory and L2 may be slower than that (`block_cycles`), and blocks on one SM add
up. A block cannot go faster than its own warps allow (`chain_cycles`): with one
fragment buffer all of them fetch after a barrier, and multiply when that is
done. Nor faster than its copies arrive (`latency_cycles`). The largest is the
stage; waves of blocks, device memory, the split pass and launches do the rest.

The constants with the word "fitted" stem from kernels timed on an H100; those
that are not measured on a generation say so. `docs/model.md` has the residuals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gemmgen.catalog.gpu import Gpu
from gemmgen.model.equation import Equation


@dataclass(frozen=True)
class Efficiency:
    """What a generation reaches of its figures.

    Attributes:
        mma: the rate of mma.sync in `tensor_fma_per_clock`, or of what stands in for it.
        clock: sustained clock in the boost clock, under power limit.
        measured: where the two come from; empty where they are assumed.
    """

    mma: float
    clock: float
    measured: str = ""


EFFICIENCY = {
    75: Efficiency(0.95, 0.85),
    80: Efficiency(0.95, 0.95),
    86: Efficiency(0.95, 0.95),
    89: Efficiency(0.95, 0.95),
    90: Efficiency(0.66, 0.95, "fitted to kernels timed on an H100 at 700 W"),
    100: Efficiency(0.25, 0.95),  # the vendor's figure is tcgen05's; mma.sync runs at the rate of sm_80
    120: Efficiency(0.95, 0.95),
    0x908: Efficiency(0.95, 0.95),  # and all later of AMD's: none was ever timed, and the constants below are an H100's
}
"""By the number of the architecture; one between two rows takes the lower."""

FP32_EFFICIENCY = 0.93
"""Assumed: what FP32 multiply-adds reach of `f32_fma_per_clock`, which takes one from each scheduler in every clock: a
warp of 64x64 issues 24 fetches of 16 bytes and some addresses with every 512 of them."""

FETCH_SHARE = 0.048
"""Fitted: how much of a fetch the matrix unit feels although it overlaps."""

FILL_SHARE = 1.11
"""Fitted: how much of the copies' writes into shared memory it feels."""

FETCH_EXPOSED = 0.873
"""Fitted: how much of a step's fetch shows once a stage, with one fragment buffer."""

TILE_CYCLES = 0.538
"""Fitted: cycles an element of C that a block spends outside the loop: first copies, epilogue, store."""

L2_BYTES_PER_CLOCK = 54.6
"""Fitted: bytes an SM gets of L2 in a clock."""

BARRIER_CYCLES = 23
"""Fitted: a stage's wait, barrier and loop."""

MEMORY_CYCLES = 971
"""Fitted: from a copy's issue to its data, with all SMs copying."""

SPLIT_BEFORE, SPLIT_BEHIND = 15.4, 4.0
"""Fitted: instructions a word that read and split an element before shared memory, and behind it."""

SPLIT_WAIT = 357
"""Fitted: cycles a warp waits for what it splits, once a stage before shared memory, once a step behind it."""

DRAM_EFFICIENCY = 0.835
"""Measured: the split kernels move 2.8 of 3.352 TB/s on an H100."""

LAUNCH_SECONDS = 2.67e-6
"""Fitted: a kernel in a graph, from the end of the one before to its own first work."""

TENSOR_CYCLES = Equation(
    "M1", "tensor_cycles", "products * BM * BN * BK / (tensor_fma_per_clock * mma_efficiency)", "cycles a block and stage",
    "EGEMM eq. 5, from a rate instead of an instruction's latency",
)
FETCH_CYCLES = Equation(
    "M2", "fetch_cycles", "fetch_bytes / shared_bytes_per_clock", "cycles a block and stage",
    "EGEMM eq. 7, from a rate instead of an instruction's latency; no bank conflicts (T5)",
)
FILL_CYCLES = Equation(
    "M3", "fill_cycles", "(BM + BN) * BK * element_bytes / shared_bytes_per_clock", "cycles a block and stage",
    "EGEMM eq. 6, likewise; cp.async has no trip through registers",
)
PROMOTION_CYCLES = Equation(
    "M4", "promotion_cycles",
    "where(promote > 0, promoted_sums * 2 * BM * BN / f32_fma_per_clock * BK / max(promote, 1), 0)",
    "cycles a block and stage", "an addition and a zero for each element and interval, while the matrix unit waits",
)
SPLIT_CYCLES = Equation(
    "M20", "split_cycles",
    "words * BK * (split_before * split_shared * (BM + BN) + split_behind * split_register * warps * (WM + WN)) / f32_fma_per_clock",
    "cycles a block and stage", "a block splits its tile once, but each warp the fragments it takes from it",
)
EXPOSED_CYCLES = Equation(
    "M5", "exposed_cycles", "where(fragment_buffers > 1, 0, fetch_exposed * fetch_cycles * FK / BK)", "cycles a block and stage",
    "with one buffer no warp has fragments when a stage begins: all fetch, none multiplies",
)
BALANCE = Equation(
    "M23", "balance", "where((amd > 0) & (warps > partitions), partitions * ceil(warps / partitions) / warps, 1)", "",
    "assumed: a block's wavefronts are dealt to the SIMDs in turn, and the block waits for the fullest",
)
SHARED_CYCLES = Equation(
    "M6", "shared_cycles", "balance * tensor_cycles + fetch_share * fetch_cycles + fill_share * fill_cycles + promotion_cycles + split_cycles + barrier_cycles",
    "cycles a block and stage",
    "what a block takes from the others on its SM",
)
CHAIN_CYCLES = Equation(
    "M7", "chain_cycles", "shared_cycles + (tensor_cycles + split_cycles) * (max(1, partitions / warps) - 1) + exposed_cycles"
    " + split_wait * (split_shared + split_register * BK / FK)", "cycles a stage",
    "a block alone; fewer warps than schedulers leave matrix units idle, and a warp waits for what it splits",
)
L2_CYCLES = Equation(
    "M8", "l2_cycles", "stage_bytes / l2_bytes_per_clock", "cycles a block and stage", "an SM's share of L2's rate",
)
LATENCY_CYCLES = Equation(
    "M9", "latency_cycles", "memory_cycles / (stages - 1 - where(fragment_buffers > 1, FK / BK, 0))", "cycles a stage",
    "a copy has all other stages' time to arrive; with two fragment buffers it is wanted one step sooner",
)
BLOCK_CYCLES = Equation(
    "M10", "block_cycles", "max(shared_cycles, fetch_cycles + fill_cycles, l2_cycles)", "cycles a block and stage",
    "the slowest of matrix unit, shared memory and L2: what blocks on one SM add up to",
)
STAGE_CYCLES = Equation(
    "M11", "stage_cycles", "max(resident_blocks * block_cycles, chain_cycles, latency_cycles)", "cycles a stage", "with every SM full",
)
FULL_WAVES = Equation("M12", "full_waves", "floor(blocks / max(sms * resident_blocks, 1))", "waves", "waves that fill every SM")
TAIL_BLOCKS = Equation(
    "M13", "tail_blocks", "ceil((blocks - full_waves * sms * resident_blocks) / sms)", "blocks an SM", "what the last wave leaves to the fullest SM",
)
TAIL_CYCLES = Equation(
    "M14", "tail_cycles", "where(tail_blocks > 0, max(tail_blocks * block_cycles, chain_cycles, latency_cycles), 0)",
    "cycles a stage", "M11 for the last wave",
)
GATHER_CYCLES = Equation(
    "M21", "gather_cycles", "where(split_k > 1, 4 * BM * BN * (split_k + 1) / l2_bytes_per_clock + memory_cycles, 0)",
    "cycles", "each slice leaves its part in L2, and the last block there reads all",
)
KERNEL_CYCLES = Equation(
    "M15", "kernel_cycles",
    "stages_k * (full_waves * stage_cycles + tail_cycles)"
    " + (full_waves * resident_blocks + tail_blocks) * tile_cycles * BM * BN + gather_cycles",
    "cycles", "wave quantisation: all SMs wait for the last",
)
KERNEL_SECONDS = Equation(
    "M16", "kernel_seconds", "max(kernel_cycles / clock_hz, dram_bytes / dram_rate)", "s", "the main kernel: work, or device memory",
)
SPLIT_SECONDS = Equation("M17", "split_seconds", "split_bytes / dram_rate", "s", "the split kernels are bound by device memory")
LAUNCHES = Equation("M22", "launches", "where(split_shared + split_register > 0, 1, 1 + split_reads)", "kernels", "the split pass is one, the maxima of rows another")
SECONDS = Equation("M18", "seconds", "kernel_seconds + split_seconds + launches * launch_seconds", "s", "one after another")
TFLOPS = Equation("M19", "tflops", "2 * M * N * K / seconds / 10.0**12", "TFLOP/s", "LE-GEMM eq. 18 without its epilogue term")

EQUATIONS = (
    TENSOR_CYCLES, FETCH_CYCLES, FILL_CYCLES, PROMOTION_CYCLES, SPLIT_CYCLES, EXPOSED_CYCLES, BALANCE, SHARED_CYCLES, CHAIN_CYCLES, L2_CYCLES,
    LATENCY_CYCLES, BLOCK_CYCLES, STAGE_CYCLES, FULL_WAVES, TAIL_BLOCKS, TAIL_CYCLES, GATHER_CYCLES, KERNEL_CYCLES, KERNEL_SECONDS, SPLIT_SECONDS, LAUNCHES, SECONDS, TFLOPS,
)


def efficiency(gpu: Gpu, word: str) -> Efficiency:
    """What the GPU's generation reaches on a word type."""
    known = [number for number in EFFICIENCY if number <= gpu.arch_number]
    reached = EFFICIENCY[max(known)] if known else EFFICIENCY[min(EFFICIENCY)]
    return replace(reached, mma=FP32_EFFICIENCY, measured="") if word == "f32" else reached


def rate_numbers(gpu: Gpu, word: str) -> dict[str, float]:
    """The symbols that a GPU's rates stand for.

    Where FP32 itself is multiplied, the CUDA cores stand in for the matrix units, with their own rate and clock.
    """
    reached, rates = efficiency(gpu, word), gpu.rates
    boost_mhz, fma_per_clock = rates.tensor_boost_mhz, rates.tensor_fma_per_clock.get(word, 0) or rates.tensor_fma_per_clock["f16"]
    if word == "f32":
        boost_mhz, fma_per_clock = rates.boost_mhz, rates.f32_fma_per_clock
    return {
        "sms": rates.sms,
        "clock_hz": boost_mhz * 1e6 * reached.clock,
        "tensor_fma_per_clock": fma_per_clock,
        "mma_efficiency": reached.mma,
        "f32_fma_per_clock": rates.f32_fma_per_clock,
        "shared_bytes_per_clock": rates.shared_bytes_per_clock,
        "l2_bytes_per_clock": L2_BYTES_PER_CLOCK,
        "l2_size": int(rates.l2_mib * 2**20),
        "dram_rate": rates.dram_gb_per_s * 1e9 * DRAM_EFFICIENCY,
        "fetch_exposed": FETCH_EXPOSED, "fetch_share": FETCH_SHARE, "fill_share": FILL_SHARE,
        "memory_cycles": MEMORY_CYCLES, "barrier_cycles": BARRIER_CYCLES,
        "tile_cycles": TILE_CYCLES,
        "launch_seconds": LAUNCH_SECONDS, "split_before": SPLIT_BEFORE, "split_behind": SPLIT_BEHIND, "split_wait": SPLIT_WAIT,
    }
