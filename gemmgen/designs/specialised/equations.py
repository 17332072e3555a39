"""The warp-specialised design's equations: what it takes from its SM, and how long it works.

One warpgroup copies, the others multiply from shared memory, and a block works
off tiles one after another, so that nothing but the matrix unit, shared memory,
L2, or what one warpgroup does between its products can bind. Where the matrix
unit does, it is the chip's power that sets the clock: `unit_rate` is what an
H100 sustains on random data, whatever its datasheet says.

The symbols are those of the portable design wherever they mean the same.
"""

from __future__ import annotations

from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.number import word_bytes
from gemmgen.catalog.scheme import Scheme
from gemmgen.designs.modelled import sizes
from gemmgen.model import resources, time, traffic
from gemmgen.model.equation import Equation

PRODUCER_REGISTERS = 40
"""A thread of the warpgroup that only issues copies."""
COUNTING_REGISTERS = 56
"""The same where it also counts what words cannot hold of A."""
MORE_REGISTERS = 8
"""What it has beside those where A has three words or more, or is of a strided batch and not transposed: with 56 alone it spills 12 B and 24 B (NVRTC 13.5),
and setmaxnreg takes multiples of 8."""
MOST_REGISTERS = 240
"""A thread of a multiplying warpgroup."""
OTHER_REGISTERS = 32
"""Addresses, the loop and the stages' bookkeeping of a multiplying thread, at least."""

RUNS_GUARD = 24
"""What it has besides where slices may begin in a run of k: three sums of 64 x 128 spilled 56 B beside 32."""
RUN_OPERATIONS = 34
"""Of FP32 for each element where a run of k ends: a tile of 128 x 128 of one run takes 2 to 3 us longer than without one (an H200, k from 64 to 256,
docs/results/small.md). Of several runs the power that sets the clock hides half of that (W30; docs/results/run_scales.md)."""

OPERAND_BYTES = 32
"""Of a row that one wgmma takes, whatever its words."""

TILES_GUARD = 12
"""The same where tiles of k have scales of their own, and warpgroups take turns or a stage has more than two such tiles: with six sets of sums these
were seen to spill, others of the same sums not."""

LEAST_OTHERS = 28
"""What ptxas wants besides the registers of one wgmma: of 128 it takes 64x200 and refuses 64x208, and with A in registers 64x192 and 64x200 (13.5)."""

# ---- resources

GROUPS = Equation(
    "W1", "groups", "(BM / WM) * (BN / WN) * (1 + pingpong)", "warpgroups that multiply", "they divide a tile, or two take turns with tiles",
)
WARPS = Equation("W2", "warps", "4 * (groups + 1)", "warps a block", "one more warpgroup copies")
A_BYTES = Equation("W3", "a_bytes", "where(mixed > 0, 4, a_word_bytes)", "B", "an element of A in a stage: its words, or FP32")
STAGE_BYTES = Equation("W4", "stage_bytes", "BK * (BM * a_bytes + BN * b_word_bytes)", "B a stage", "EGEMM eq. 2, with A's own size")
SHARED_BYTES = Equation(
    "W5", "shared_bytes",
    "stages * (stage_bytes + 16 + where(run > 0, 8, where(tile_k > 0, 4 * (BM + BN) * BK // max(tile_k, 1), 0))) + where(split_k > 1, 8 * groups, 0)",
    "B", "EGEMM eq. 8's term; two barriers a stage, what becomes of sums where runs of k have scales, scales where tiles of k have their own, and a word a"
    " warpgroup where slices are gathered",
)
LAUNCH_REGISTERS = Equation(
    "W6", "registers", f"min({MOST_REGISTERS}, 8 * floor(registers_per_sm / threads / 8))", "registers a thread",
    "the whole file, evenly, when the block starts",
)
PRODUCER = Equation(
    "W7", "producer_registers",
    f"where(mixed > 0, where((words > 2) | (strides > 0) & (a_strided == 0), {COUNTING_REGISTERS + MORE_REGISTERS}, {COUNTING_REGISTERS}),"
    f" where(groups < 3, {PRODUCER_REGISTERS}, 32))",
    "registers a thread", "what the copying warpgroup keeps",
)
BUDGET = Equation(
    "W8", "register_budget", f"min({MOST_REGISTERS}, 8 * floor((registers * (groups + 1) - producer_registers) / groups / 8))", "registers a thread",
    "the multiplying warpgroups share what it gives up (setmaxnreg)",
)
ACCUMULATORS = Equation(
    "W9", "accumulators", "sums + where(tile_k > 0, 2, where(promote > 0, promoted_sums, 0))", "sets", "as R4; the number of a tile of k and the sum of all",
)
ACCUMULATOR_REGISTERS = Equation(
    "W10", "accumulator_registers", "accumulators * WM * WN / 128", "registers a thread", "WMMAe eq. 2's accumulator term",
)
FRAGMENT_REGISTERS = Equation(
    "W11", "fragment_registers", "where(mixed > 0, 2 * words * WM * FK * word_bytes / 512, 0)", "registers a thread",
    "A's words of this step and the next; operands in shared memory take none",
)
OTHERS = Equation(
    "W42", "other_registers", f"{OTHER_REGISTERS} + where((tile_k > 0) & ((pingpong > 0) | (BK > 2 * tile_k)), {TILES_GUARD}, 0)"
    f" + where((run > 0) & (split_k > 1), {RUNS_GUARD}, 0)", "registers a thread",
    "addresses, the loop, the stages' bookkeeping and scales; which run of k a slice begins in",
)
RESOURCES = (GROUPS, WARPS, resources.THREADS, traffic.TILES)
BUDGETS = (
    A_BYTES, STAGE_BYTES, SHARED_BYTES, LAUNCH_REGISTERS, PRODUCER, BUDGET, ACCUMULATORS, ACCUMULATOR_REGISTERS, FRAGMENT_REGISTERS, OTHERS,
)

SHARERS = Equation("W36", "sharers", "(BM / WM) * (BN / WN)", "parts of a tile", "each warpgroup gathers its own part of slices of k")
RELEASES = Equation(
    "W37", "releases", "4 * (BM / WM) * (BN / WN) * where(mixed > 0, 32 * cluster, cluster + where(tile_k > 0, 31, 0))", "arrivals",
    "that free a stage: every warp that reads it, in every block that fills it; every lane where lanes read A, or scales of tiles of k",
)
AT_ONCE = Equation(
    "W38", "blocks_at_once", "floor(max(resident_blocks, 1) * sms / cluster) * cluster", "blocks",
    "the GPU holds at once, in whole clusters: a launch needs no more",
)
LAUNCH = (SHARERS, RELEASES, AT_ONCE)

# ---- traffic

INTENSITY = Equation("W12", "intensity", "stage_flops / stage_bytes", "FLOP a byte of L2", "EGEMM eq. 4 and LE-GEMM eq. 15")
FETCH_BYTES = Equation(
    "W13", "fetch_bytes", "BK * product_bytes * (BM / WM) * (BN / WN) * (where(mixed > 0, 0, WM) + WN * WM / FM)"
    " + where(mixed > 0, 4 * BM * BK * BN / WN, 0)", "B a tile and stage",
    "each instruction reads its operands from shared memory anew; what splits A itself reads it once",
)
FILL_BYTES = Equation(
    "W14", "fill_bytes", "BK * (BM * a_bytes + BN * b_word_bytes / cluster)", "B a tile and stage", "through L2; blocks of a cluster share B",
)
BLOCKS = Equation(
    "W15", "blocks", "batch * ceil(ceil(M / BM) / cluster) * cluster * ceil(N / BN) * split_k", "pieces of work",
    "tiles, or slices of k of them, in whole clusters; of all products of a batch",
)
STAGES_K = traffic.STAGES_K
L2_BYTES = Equation("W16", "l2_bytes", "blocks * stages_k * fill_bytes", "B", "every stage is read through L2")
TURNS = Equation("W17", "turns", "ceil(blocks / (floor(sms / cluster) * cluster))", "pieces a block", "wave quantisation")
WAVE_ROWS = Equation("W18", "wave_rows", "min(group * cluster, ceil(M / BM))", "rows of tiles", "blocks walk down these before they move on")
WAVE_COLUMNS = Equation("W19", "wave_columns", "min(ceil(sms / wave_rows), ceil(N / BN))", "columns of tiles", "the tiles at work together")
PLANE_BYTES = Equation("W20", "plane_bytes", "batch * K * (M * a_bytes + N * b_word_bytes)", "B", "both operands, as the kernel reads them")
WAVE_GROUPS = Equation(
    "W39", "wave_groups", "where(batch > 1, max(1, sms / (wave_rows * wave_columns)), 1)", "groups of rows of tiles", "of a batch that are at work together",
)
DRAM_BYTES = Equation(
    "W21", "dram_bytes",
    "4 * batch * M * N + where(plane_bytes + 4 * batch * M * N <= l2_size, 0,"
    " max(plane_bytes, turns * wave_groups * K * (wave_rows * BM * a_bytes + wave_columns * BN * b_word_bytes)))",
    "B", "C once; operands once a wave, unless L2 still holds them from the split",
)
SPLIT_BYTES = Equation(
    "W22", "split_bytes", "batch * K * (split_passes * (4 * where(mixed > 0, 0, M) + b_bytes * N)"
    " + where(2 * plane_bytes <= l2_size, 0, where(mixed > 0, 0, M) * a_word_bytes + N * b_word_bytes))", "B",
    "elements in, words out, of which few stay in L2",
)
TRAFFIC = (
    traffic.STAGE_FLOPS, INTENSITY, FETCH_BYTES, FILL_BYTES, BLOCKS, STAGES_K, L2_BYTES, TURNS, WAVE_ROWS, WAVE_COLUMNS,
    PLANE_BYTES, WAVE_GROUPS, DRAM_BYTES, SPLIT_BYTES, traffic.TLP,
)

# ---- time

CONSTANT_OF = {
    "mma_efficiency": "efficiency", "group_gap": "group_gap_cycles", "turn_cycles_each": "turn_cycles", "store_cycles": "store_cycles_per_element",
    "split_a_cycles": "split_a_cycles", "overlap_seconds": "overlap_seconds", "gather_share": "gather_share", "cluster_seconds": "cluster_seconds",
    "split_power": "split_power_share", "moving_rate": "moving_share", "clustered": "compensated_cluster_share", "alone": "alone_share",
    "moved_operations": "scaled_tile_operations",
}
"""Symbol: the constant of a GPU's row, under [measured.wgmma], that it stands for."""

SHARED_CYCLES = Equation(
    "W23", "shared_cycles", "(fetch_bytes + stage_bytes) / shared_bytes_per_clock", "cycles a tile and stage",
    "what instructions read and copies write",
)
L2_CYCLES = Equation("W24", "l2_cycles", "fill_bytes / l2_bytes_per_clock", "cycles a tile and stage", "an SM's share of L2's rate")
RUN_CYCLES = Equation(
    "W43", "run_cycles", f"where(run > 0, {RUN_OPERATIONS} * BM * BN / f32_fma_per_clock * ceil(stages_k * BK / max(run, 1)), 0)", "cycles a tile",
    "where a run of k ends the sums join and change their unit, while nothing is multiplied; the last one ends however short it is",
)
CHAIN_CYCLES = Equation(
    "W25", "chain_cycles",
    "group_gap + BK / FK * max(products * WM * WN * FK / (tensor_fma_per_clock * mma_efficiency),"
    " mixed * (split_a_cycles * (1 + words_a) / 3 + 4 * a_strided) * WM / FM)",
    "cycles a stage of one warpgroup",
    "it waits for its own products before it moves sums, and step by step for the words that it splits: fitted to two; a third takes a third more."
    " Of a transposed A four more loads bring the same bytes",
)
LATENCY_CYCLES = Equation(
    "W26", "latency_cycles", "(memory_cycles + where(stages < 3, l2_cycles, 0) + max(tensor_cycles, shared_cycles)) / (stages - 1)", "cycles a stage",
    "a stage is free again when the next one's products are on their way, and full a copy's latency later; of two, all of the copy is waited for",
)
MOVED_CYCLES = Equation(
    "W41", "moved_cycles", "where(tile_k > 0, moved_operations * sums * BM * BN / f32_fma_per_clock * BK / max(tile_k, 1), 0)", "cycles a tile and stage",
    "sums of tiles of k with scales of their own leave the unit",
)
OVERLAPPING = Equation("W35", "overlapping", "where(turns > 1, 1 + pingpong, 1)", "tiles", "that a block works on at once: one cannot take turns")
STAGE_CYCLES = Equation(
    "W27", "stage_cycles", "max(tensor_cycles * where((pingpong == 0) & (groups > 1), 1 + beside, 1), shared_cycles, l2_cycles,"
    " chain_cycles / overlapping, latency_cycles, moved_cycles)", "cycles a tile and stage",
    "the slowest binds; integer products of two warpgroups hold one another up",
)
TILE_CYCLES = Equation(
    "W28", "turn_cycles", "(turn_cycles_each + store_cycles * WM * WN) / overlapping", "cycles a tile",
    "each warpgroup stores its own; taking turns, one hides half of the other's",
)
KERNEL_CYCLES = Equation(
    "W29", "kernel_cycles", "turns * (stages_k * stage_cycles + run_cycles + turn_cycles)"
    " + where(split_k > 1, turns * gather_share * (4 * BM * BN * (split_k + 1) / l2_bytes_per_clock + memory_cycles), 0)", "cycles",
    "one piece of work after another",
)
MOVING_CYCLES = Equation(
    "W40", "moving_cycles", "where(compensated > 0, min(products_moving * BM * BN * BK / (tensor_fma_per_clock * mma_efficiency)"
    " + 3 * promoted_sums * BM * BN * BK / max(promote, 1) / (moving_rate * f32_fma_per_clock),"
    " tensor_cycles + 2 * promoted_sums * BM * BN * BK / max(promote, 1) / f32_fma_per_clock), 0)", "cycles a tile and stage",
    "compensated sums stand still while they move; other products are at work, and share registers' ports. At most, as if two operations took the unit's time",
)
UNIT_SECONDS = Equation(
    "W30", "unit_seconds",
    "2 * products * tiles * BM * BN * K / unit_rate * max(1, moving_cycles / tensor_cycles)"
    " * where((compensated > 0) & (cluster > 1), 1 + clustered, 1) * where((BM == WM) & (BN == WN), 1 + alone, 1)", "s",
    "as fast as the chip's power allows, or as sums move; blocks of a cluster wait for one another's sums, and a warpgroup alone for its own",
)
KERNEL_SECONDS = Equation(
    "W31", "kernel_seconds", "sqrt((kernel_cycles / clock_hz)**2 + (dram_bytes / dram_rate)**2)", "s",
    "cycles and device memory: neither hides all of the other where both take as long, as where k is short and C large",
)
SECONDS = Equation(
    "W32", "seconds",
    "max(kernel_seconds + split_seconds, unit_seconds + split_power * split_seconds) + split_passes * launch_seconds + overlap_seconds"
    " + where(cluster > 1, cluster_seconds, 0)", "s",
    "one after another, or as the power of both allows; the main kernel's launch is hidden",
)
TIME = (
    time.TENSOR_CYCLES, SHARED_CYCLES, L2_CYCLES, CHAIN_CYCLES, LATENCY_CYCLES, MOVED_CYCLES, RUN_CYCLES, OVERLAPPING, STAGE_CYCLES,
    TILE_CYCLES, KERNEL_CYCLES, MOVING_CYCLES, UNIT_SECONDS,
    KERNEL_SECONDS, time.SPLIT_SECONDS, SECONDS, time.TFLOPS,
)


def constants(scheme: Scheme, gpu: Gpu) -> dict[str, float]:
    """The symbols that no candidate changes, beside those that every design has."""
    measured = gpu.measured.of("wgmma", gpu.name)
    f16 = measured.sustained_f16_tflops.value * 1e12
    power = measured.integer_power_share.value if scheme.family.converts else 1.0
    return {
        "products_moving": sum(scheme.accumulator(product.into).promoted for product in scheme.products),
        "beside": measured.integers_beside_share.value if scheme.family.exact else 0.0,
        "unit_rate": f16 / power * mean_rate(scheme, gpu) / gpu.rates.tensor_fma_per_clock["f16"],
        **{symbol: getattr(measured, constant).value for symbol, constant in CONSTANT_OF.items()},
    }


def mean_rate(scheme: Scheme, gpu: Gpu) -> float:
    """Multiply-adds of an SM a clock over all of a scheme's products, each at the rate of its words."""
    types = [scheme.accumulator(product.into).word for product in scheme.products]
    return len(types) / sum(1 / gpu.rates.tensor_fma_per_clock[word] for word in types)


def word_numbers(scheme: Scheme, gpu: Gpu) -> dict[str, float]:
    """The symbols that words decide, of one type or of several: rows are those of the largest, and at least as long as those of the smallest."""
    of_a, of_b, each = scheme.words_of("a"), scheme.words_of("b"), [word_bytes(kind) for kind in scheme.types]
    return {
        "words": max(len(of_a), len(of_b)), "words_a": len(of_a), "words_b": len(of_b), "word_bytes": max(each),
        **sizes(scheme), **time.rate_numbers(gpu, scheme.leading),
        # Instructions of smaller words take more k: promotion and steps keep pace with the deepest.
        **({} if scheme.uniform else {"tensor_fma_per_clock": mean_rate(scheme, gpu), "FK": OPERAND_BYTES // min(each)}),
    }
