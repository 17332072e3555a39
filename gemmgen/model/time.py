"""Seconds of one product: what an SM does in a stage, how often, and what comes before.

In one stage a block keeps its SM's matrix units busy for `tensor_cycles`; its
copies, promotions and some of its fetches hold them up (`shared_cycles`). Shared
memory and L2 may be slower than that (`block_cycles`), and blocks on one SM add
up. A block cannot go faster than its own warps allow (`chain_cycles`): with one
fragment buffer all of them fetch after a barrier, and multiply when that is
done. Nor faster than its copies arrive (`latency_cycles`). The largest is the
stage; waves of blocks, device memory, the split pass and launches do the rest.

The constants are values of the GPU's row, each with its source: those of Hopper's
generation stem from kernels timed on an H100, and the others' are assumed. `docs/model.md` has the residuals.
"""

from __future__ import annotations

from dataclasses import dataclass

from gemmgen.catalog.gpu import Gpu
from gemmgen.model.equation import Equation


@dataclass(frozen=True)
class Efficiency:
    """What a GPU reaches of its figures.

    Attributes:
        mma: the rate of mma.sync in `tensor_fma_per_clock`, or of what stands in for it.
        clock: sustained clock in the boost clock, under power limit.
        measured: where the two come from; empty where they are assumed.
    """

    mma: float
    clock: float
    measured: str = ""


CONSTANT_OF = {
    "mma_efficiency": "mma_efficiency", "l2_bytes_per_clock": "l2_bytes_per_clock", "fetch_exposed": "fetch_exposed_share", "fetch_share": "fetch_share",
    "fill_share": "fill_share", "memory_cycles": "memory_cycles", "barrier_cycles": "barrier_cycles", "tile_cycles": "tile_cycles_per_element",
    "launch_seconds": "launch_seconds", "split_before": "split_before_instructions", "split_behind": "split_behind_instructions",
    "split_wait": "split_wait_cycles",
}
"""Symbol: the constant of a GPU's row, under [measured], that it stands for."""

TENSOR_CYCLES = Equation(
    "M1", "tensor_cycles", "products * BM * BN * BK / (tensor_fma_per_clock * mma_efficiency)", "cycles a block and stage",
    "EGEMM eq. 5, from a rate instead of an instruction's latency",
)
FETCH_CYCLES = Equation(
    "M2", "fetch_cycles", "fetch_bytes / shared_bytes_per_clock", "cycles a block and stage",
    "EGEMM eq. 7, from a rate instead of an instruction's latency; no bank conflicts (T5)",
)
FILL_CYCLES = Equation(
    "M3", "fill_cycles", "(BM * element_bytes + BN * b_element_bytes) * BK / shared_bytes_per_clock", "cycles a block and stage",
    "EGEMM eq. 6, likewise; cp.async has no trip through registers",
)
PROMOTION_CYCLES = Equation(
    "M4", "promotion_cycles",
    "where(promote > 0, promoted_sums * (2 + compensated) * BM * BN / f32_fma_per_clock * BK / max(promote, 1), 0)"
    " + where(tile_k + run > 0, (sums + 2) * BM * BN / f32_fma_per_clock * BK / max(tile_k + run, 1), 0)",
    "cycles a block and stage", "an addition and a zero for each element and interval, or three operations, while the matrix unit waits; of a tile or run of k"
    " with scales of its own an operation a sum, the scale, and an addition",
)
SPLIT_CYCLES = Equation(
    "M20", "split_cycles",
    "words * BK * (split_before * split_shared * (BM + BN)"
    " + split_behind * split_register * (warps * (WM + WN) + BM / ceil(N / BN) + BN / ceil(M / BM))) / f32_fma_per_clock",
    "cycles a block and stage",
    "a block splits its tile once, but each warp the fragments it takes from it, and blocks that share a tile take turns at counting what is lost of it",
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
    " + split_wait * (split_shared + split_register * BK / FK) + waits * memory_cycles", "cycles a stage",
    "a block alone; fewer warps than schedulers leave matrix units idle, and a warp waits for what it splits, or for the loads of a stage",
)
L2_CYCLES = Equation(
    "M8", "l2_cycles", "stage_bytes / l2_bytes_per_clock", "cycles a block and stage", "an SM's share of L2's rate",
)
LATENCY_CYCLES = Equation(
    "M9", "latency_cycles", "memory_cycles / (max(stages, 2) - 1 - where(fragment_buffers > 1, FK / BK, 0))", "cycles a stage",
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
LAUNCHES = Equation(
    "M22", "launches", "where(split_shared + split_register > 0, 1, 1 + split_reads)", "kernels",
    "the split pass is one, the maxima of rows another",
)
SECONDS = Equation("M18", "seconds", "kernel_seconds + split_seconds + launches * launch_seconds", "s", "one after another")
TFLOPS = Equation("M19", "tflops", "2 * batch * M * N * K / seconds / 10.0**12", "TFLOP/s", "LE-GEMM eq. 18 without its epilogue term")
ASSUMED_SHARE, ASSUMED_START = 0.692, 2.14e-6
"""Of the FP32 units' rate what the vendor's SGEMM reaches, and seconds of a small one, on GPUs without `[measured.sgemm]`."""
SGEMM_TILE, SGEMM_SLICES = 32, 2
"""Rows and columns of a tile of the vendor's SGEMM, and slices of k: its own are larger and of many shapes, so that waves of them hardly show."""
FIRST_K, FIRST_SECONDS = 256, 1.5e-8
"""Of a product of the vendor's so many k take so many seconds each besides, which later ones hide: the first tiles' way through the kernel."""
OPERAND_SHARE, VECTOR_SHARE = 0.41, 0.364
"""How much of the operands' way from memory shows beside the work, and which part of a tile's work a matrix times a vector takes."""
SGEMM_SECONDS = Equation(
    "M24", "sgemm_seconds",
    f"sgemm_start + sgemm_first * min(K, {FIRST_K}) + where(min(M, N) > 1, 1, {VECTOR_SHARE})"
    f" * ceil({SGEMM_SLICES} * batch * ceil(M / {SGEMM_TILE}) * ceil(N / {SGEMM_TILE}) / sms) * ceil(K / {SGEMM_SLICES}) * sgemm_step"
    " + batch * ((M + N) * K * sgemm_operand + M * N * sgemm_output)", "s",
    "the vendor's FP32 product: work at a share of the FP32 units' rate, the operands' way in as far as it shows, and C's way out",
)
NATIVE_FIRST_K, NATIVE_FIRST_SECONDS = 512, 4e-8
NATIVE_SECONDS = Equation(
    "M25", "native_seconds",
    f"native_start + native_first * min(K, {NATIVE_FIRST_K}) + batch * (2 * M * N * K / native_rate + 8 * M * N / dram_rate)", "s",
    "native FP64: work at a share of the GPU's FP64 rate, during which operands come, and C's way out",
)

C_READS = 2.2
"""What a kernel of FP32 takes to read C, in times of its bytes at the memory's rate. Measured on an H200: 99 us in place of 63 at 4096 x 4096 x 256
(docs/results/drop-in.md). FP64's kernels, which have 16 elements under way at a time, and the vendor's take one."""
C_SECONDS = Equation(
    "M26", "c_seconds", "batch * M * N * computed * c_bytes * c_reads / dram_rate", "s",
    "C's way in, where beta is not 0: tiles wait for it, so that it takes longer than its bytes",
)

EQUATIONS = (
    TENSOR_CYCLES, FETCH_CYCLES, FILL_CYCLES, PROMOTION_CYCLES, SPLIT_CYCLES, EXPOSED_CYCLES, BALANCE, SHARED_CYCLES, CHAIN_CYCLES, L2_CYCLES,
    LATENCY_CYCLES, BLOCK_CYCLES, STAGE_CYCLES, FULL_WAVES, TAIL_BLOCKS, TAIL_CYCLES, GATHER_CYCLES, KERNEL_CYCLES,
    KERNEL_SECONDS, SPLIT_SECONDS, LAUNCHES, SECONDS, TFLOPS,
)


def efficiency(gpu: Gpu, word: str) -> Efficiency:
    """What the GPU reaches on a word type."""
    measured = gpu.measured
    mma = measured.fma_efficiency if word == "f32" else measured.mma_efficiency
    return Efficiency(mma.value, measured.clock_efficiency.value, "" if mma.assumed else mma.source)


def rate_numbers(gpu: Gpu, word: str) -> dict[str, float]:
    """The symbols that a GPU's rates stand for.

    Where FP32 itself is multiplied, the CUDA cores or VALUs stand in for the matrix units, with their own rate and clock.
    """
    reached, rates = efficiency(gpu, word), gpu.rates
    in_fp64 = rates.f32_fma_per_clock / 64 if rates.f64_tflops is None else rates.f64_tflops * 1e6 / (2 * rates.sms * rates.boost_mhz)
    boost_mhz, fma_per_clock = rates.tensor_boost_mhz, rates.tensor_fma_per_clock.get(word, 0) or rates.tensor_fma_per_clock["f16"]
    if word == "f32":
        boost_mhz, fma_per_clock = rates.boost_mhz, rates.f32_fma_per_clock
    return {
        "sms": rates.sms,
        "clock_hz": boost_mhz * 1e6 * reached.clock,
        "tensor_fma_per_clock": fma_per_clock,
        "f32_fma_per_clock": rates.f32_fma_per_clock,
        "f64_fma_per_clock": min(in_fp64, rates.f32_fma_per_clock / 2),  # the rest is a matrix unit's
        "shared_bytes_per_clock": rates.shared_bytes_per_clock,
        "l2_size": int(rates.l2_mib * 2**20),
        "dram_rate": rates.dram_gb_per_s * 1e9 * gpu.measured.dram_efficiency.value,
        **{symbol: getattr(gpu.measured, constant).value for symbol, constant in CONSTANT_OF.items()},
        "mma_efficiency": reached.mma,
    }


def c_seconds(gpu: Gpu, m: int, n: int, products: int, c_bytes: float, reads: float, computed: float = 1.0) -> float:
    """M26: seconds that reading C [m, n] takes.

    Args:
        reads: C_READS or 1.
        computed: the share of C's elements that is.
    """
    rate = gpu.rates.dram_gb_per_s * 1e9 * gpu.measured.dram_efficiency.value
    return float(C_SECONDS.value({
        "batch": float(products), "M": float(m), "N": float(n), "computed": computed, "c_bytes": c_bytes, "c_reads": reads, "dram_rate": rate,
    }))


NATIVE_SHARE = 0.8
"""Of the data sheet's FP64 rate, what native products reach: cuBLAS 53 to 54 of 66.9 TFLOP/s on an H200 (docs/results/f64.md). Of other GPUs assumed."""
NATIVE_START = 6e-6
"""Seconds of a launch and of its first and last tiles, as of the vendor's SGEMM on Hopper (M24)."""


def native_numbers(gpu: Gpu) -> dict[str, float] | None:
    """The symbols of M25 beside the sizes; None where the GPU's row has no rate of FP64."""
    if gpu.rates.f64_tflops is None:
        return None
    return {
        "native_start": NATIVE_START, "native_first": NATIVE_FIRST_SECONDS, "native_rate": NATIVE_SHARE * gpu.rates.f64_tflops * 1e12,
        "dram_rate": gpu.rates.dram_gb_per_s * 1e9 * gpu.measured.dram_efficiency.value,
    }


def sgemm_numbers(gpu: Gpu) -> dict[str, float]:
    """The symbols of M24 beside the sizes; a library's tables have the same. Where nobody measured the vendor's SGEMM, Hopper's constants stand in."""
    sgemm, rates = gpu.measured.sgemm, gpu.rates
    share, start = (sgemm.share.value, sgemm.start_seconds.value) if sgemm else (ASSUMED_SHARE, ASSUMED_START)
    element = 4e-9 / (rates.dram_gb_per_s * gpu.measured.dram_efficiency.value)
    return {
        "sms": rates.sms, "sgemm_start": start, "sgemm_first": FIRST_SECONDS,
        "sgemm_step": 2 * SGEMM_TILE**2 / (share * 2e6 * rates.boost_mhz * rates.f32_fma_per_clock),
        "sgemm_operand": OPERAND_SHARE * element, "sgemm_output": element,
    }


def sgemm_measured(gpu: Gpu) -> bool:
    """Whether somebody measured the vendor's SGEMM on such a GPU."""
    return gpu.measured.sgemm is not None and not gpu.measured.sgemm.share.assumed
