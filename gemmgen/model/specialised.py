"""The warp-specialised skeleton's space: what it takes from its SM, and how long it works.

One warpgroup copies, the others multiply from shared memory, and a block works
off tiles one after another, so that nothing but the matrix unit, shared memory,
L2, or what one warpgroup does between its products can bind. Where the matrix
unit does, it is the chip's power that sets the clock: `unit_rate` is what an
H100 sustains on random data, whatever its datasheet says.

The symbols are those of the portable skeleton wherever they mean the same.
"""

from __future__ import annotations

import numpy as np

from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.number import FORMATS
from gemmgen.catalog.scheme import Scheme
from gemmgen.model import resources, space, time, traffic
from gemmgen.model.equation import Constraint, Equation, Numbers
from gemmgen.model.space import PORTABLE, Choices, Skeleton
from gemmgen.plan import COUNTING_REGISTERS, MOST_REGISTERS, PRODUCER_REGISTERS, Hints, Plan

GROUP_M = (64, 128)
GROUP_N = (64, 96, 128, 160, 192, 224, 256)
"""Tiles of a warpgroup that a search considers: narrower ones read A more often than they multiply it."""
ROW_BYTES = (64, 128)
"""Rows of a stage that a search considers: shorter ones meet their barriers too often."""
CLUSTERS = (1, 2)
SLICES = (1, 2, 3, 4, 6, 8)
OTHER_REGISTERS = 32
"""Addresses, the loop and the stages' bookkeeping of a multiplying thread."""

LEAST_OTHERS = 28
"""What ptxas wants besides the registers of one wgmma: of 128 it takes 64x200 and refuses 64x208, and with A in registers 64x192 and 64x200 (13.5)."""

# ---- resources

GROUPS = Equation(
    "W1", "groups", "(BM / WM) * (BN / WN) * (1 + pingpong)", "warpgroups that multiply", "they divide a tile, or two take turns with tiles",
)
WARPS = Equation("W2", "warps", "4 * (groups + 1)", "warps a block", "one more warpgroup copies")
A_BYTES = Equation("W3", "a_bytes", "where(mixed > 0, 4, words * word_bytes)", "B", "an element of A in a stage: its words, or FP32")
STAGE_BYTES = Equation("W4", "stage_bytes", "BK * (BM * a_bytes + BN * words * word_bytes)", "B a stage", "EGEMM eq. 2, with A's own size")
SHARED_BYTES = Equation(
    "W5", "shared_bytes", "stages * (stage_bytes + 16) + where(split_k > 1, 8 * groups, 0)", "B",
    "EGEMM eq. 8's term; two barriers a stage, and a word a warpgroup where slices are gathered",
)
LAUNCH_REGISTERS = Equation(
    "W6", "registers", f"min({MOST_REGISTERS}, 8 * floor(registers_per_sm / threads / 8))", "registers a thread", "the whole file, evenly, when the block starts",
)
PRODUCER = Equation("W7", "producer_registers", f"where(mixed > 0, {COUNTING_REGISTERS}, where(groups < 3, {PRODUCER_REGISTERS}, 32))", "registers a thread", "what the copying warpgroup keeps")
BUDGET = Equation(
    "W8", "register_budget", f"min({MOST_REGISTERS}, 8 * floor((registers * (groups + 1) - producer_registers) / groups / 8))", "registers a thread",
    "the multiplying warpgroups share what it gives up (setmaxnreg)",
)
ACCUMULATORS = Equation(
    "W9", "accumulators", "sums + where(promote > 0, promoted_sums, 0)", "sets", "as R4",
)
ACCUMULATOR_REGISTERS = Equation(
    "W10", "accumulator_registers", "accumulators * WM * WN / 128", "registers a thread", "WMMAe eq. 2's accumulator term",
)
FRAGMENT_REGISTERS = Equation(
    "W11", "fragment_registers", "where(mixed > 0, 2 * words * WM * FK * word_bytes / 512, 0)", "registers a thread",
    "A's words of this step and the next; operands in shared memory take none",
)
RESOURCES = (GROUPS, WARPS, resources.THREADS, traffic.TILES)
BUDGETS = (
    A_BYTES, STAGE_BYTES, SHARED_BYTES, LAUNCH_REGISTERS, PRODUCER, BUDGET, ACCUMULATORS, ACCUMULATOR_REGISTERS, FRAGMENT_REGISTERS,
)

CONSTRAINTS = (
    Constraint("C23", "row bytes", "(BK * word_bytes == 32) | (BK * word_bytes == 64) | (BK * word_bytes == 128)", "the unit's swizzles know these rows"),
    Constraint("C2", "warp k", "WK == BK", "a warpgroup works through the whole stage"),
    Constraint("C3", "warp m", "WM % FM == 0", "whole fragments"),
    Constraint("C4", "warp n", "WN % FN == 0", "whole fragments"),
    Constraint("C5", "block m", "BM % WM == 0", "whole warpgroups"),
    Constraint("C6", "block n", "BN % WN == 0", "whole warpgroups"),
    Constraint("C24", "take turns", "(pingpong == 0) | ((BM == WM) & (BN == WN))", "warpgroups that take turns compute a tile each"),
    Constraint("C7", "threads", "threads <= 512", "with more, no warpgroup has registers for a tile worth multiplying"),
    Constraint("C9", "promotion", "(promote == 0) | ((promote % FK == 0) & ((BK % max(promote, 1) == 0) | (promote % BK == 0)))",
               "promotion falls between two instructions and keeps step with the stages"),
    Constraint("C25", "A in registers", "(mixed == 0) | ((BK % (2 * FK) == 0) & (word_bytes == 2) & (a_strided == 0) & (split_reads == 1))",
               "A's rows are copied along k and split two by two, and two steps take turns with the registers"),
    Constraint("C10", "shared memory", "shared_bytes <= shared_bytes_per_block", "EGEMM eq. 8, second line"),
    Constraint("C11", "accumulators", "accumulator_registers + fragment_registers + other_registers <= register_budget", "EGEMM eq. 8, first line"),
    Constraint("C29", "an instruction", f"min(WN, 256) / 2 + 4 * mixed + {LEAST_OTHERS} <= registers",
               "the compiler wants one instruction's sums, and its A where that is in registers, in what a thread has when the block starts"),
    space.FEW_TILES,
)

# ---- traffic

INTENSITY = Equation("W12", "intensity", "stage_flops / stage_bytes", "FLOP a byte of L2", "EGEMM eq. 4 and LE-GEMM eq. 15")
FETCH_BYTES = Equation(
    "W13", "fetch_bytes", "BK * word_bytes * products * (BM / WM) * (BN / WN) * (where(mixed > 0, 0, WM) + WN * WM / FM)"
    " + where(mixed > 0, 4 * BM * BK * BN / WN, 0)", "B a tile and stage",
    "each instruction reads its operands from shared memory anew; what splits A itself reads it once",
)
FILL_BYTES = Equation("W14", "fill_bytes", "BK * (BM * a_bytes + BN * words * word_bytes / cluster)", "B a tile and stage", "through L2; blocks of a cluster share B")
BLOCKS = Equation("W15", "blocks", "ceil(ceil(M / BM) / cluster) * cluster * ceil(N / BN) * split_k", "pieces of work", "tiles, or slices of k of them, in whole clusters")
STAGES_K = traffic.STAGES_K
L2_BYTES = Equation("W16", "l2_bytes", "blocks * stages_k * fill_bytes", "B", "every stage is read through L2")
TURNS = Equation("W17", "turns", "ceil(blocks / (floor(sms / cluster) * cluster))", "pieces a block", "wave quantisation")
WAVE_ROWS = Equation("W18", "wave_rows", "min(group * cluster, ceil(M / BM))", "rows of tiles", "blocks walk down these before they move on")
WAVE_COLUMNS = Equation("W19", "wave_columns", "min(ceil(sms / wave_rows), ceil(N / BN))", "columns of tiles", "the tiles at work together")
PLANE_BYTES = Equation("W20", "plane_bytes", "K * (M * a_bytes + N * words * word_bytes)", "B", "both operands, as the kernel reads them")
DRAM_BYTES = Equation(
    "W21", "dram_bytes",
    "4 * M * N + where(plane_bytes + 4 * M * N <= l2_size, 0,"
    " max(plane_bytes, turns * K * (wave_rows * BM * a_bytes + wave_columns * BN * words * word_bytes)))",
    "B", "C once; operands once a wave, unless L2 still holds them from the split",
)
SPLIT_BYTES = Equation(
    "W22", "split_bytes", "(where(mixed > 0, 0, M) + N) * K * (4 * split_reads + where(2 * plane_bytes <= l2_size, 0, words * word_bytes))", "B",
    "FP32 in, words out, of which few stay in L2",
)
TLP = space.TLP
TRAFFIC = (
    traffic.STAGE_FLOPS, INTENSITY, FETCH_BYTES, FILL_BYTES, BLOCKS, STAGES_K, L2_BYTES, TURNS, WAVE_ROWS, WAVE_COLUMNS,
    PLANE_BYTES, DRAM_BYTES, SPLIT_BYTES, TLP,
)

# ---- time

CONSTANT_OF = {
    "mma_efficiency": "efficiency", "group_gap": "group_gap_cycles", "turn_cycles_each": "turn_cycles", "store_cycles": "store_cycles_per_element",
    "split_a_cycles": "split_a_cycles", "overlap_seconds": "overlap_seconds", "gather_share": "gather_share", "cluster_seconds": "cluster_seconds",
    "split_power": "split_power_share",
}
"""Symbol: the constant of a GPU's row, under [measured.wgmma], that it stands for."""

SHARED_CYCLES = Equation(
    "W23", "shared_cycles", "(fetch_bytes + BK * (BM * a_bytes + BN * words * word_bytes)) / shared_bytes_per_clock", "cycles a tile and stage",
    "what instructions read and copies write",
)
L2_CYCLES = Equation("W24", "l2_cycles", "fill_bytes / l2_bytes_per_clock", "cycles a tile and stage", "an SM's share of L2's rate")
CHAIN_CYCLES = Equation(
    "W25", "chain_cycles", "group_gap + BK / FK * max(products * WM * WN * FK / (tensor_fma_per_clock * mma_efficiency), mixed * split_a_cycles * WM / FM)",
    "cycles a stage of one warpgroup", "it waits for its own products before it moves sums, and step by step for the words that it splits",
)
LATENCY_CYCLES = Equation(
    "W26", "latency_cycles", "(memory_cycles + max(tensor_cycles, shared_cycles)) / (stages - 1)", "cycles a stage",
    "a stage is free again when the next one's products are on their way, and full a copy's latency later",
)
OVERLAPPING = Equation("W35", "overlapping", "where(turns > 1, 1 + pingpong, 1)", "tiles", "that a block works on at once: one cannot take turns")
STAGE_CYCLES = Equation(
    "W27", "stage_cycles", "max(tensor_cycles, shared_cycles, l2_cycles, chain_cycles / overlapping, latency_cycles)", "cycles a tile and stage",
    "the slowest binds",
)
TILE_CYCLES = Equation(
    "W28", "turn_cycles", "(turn_cycles_each + store_cycles * WM * WN) / overlapping", "cycles a tile", "each warpgroup stores its own; taking turns, one hides half of the other's",
)
KERNEL_CYCLES = Equation(
    "W29", "kernel_cycles", "turns * (stages_k * stage_cycles + turn_cycles)"
    " + where(split_k > 1, turns * gather_share * (4 * BM * BN * (split_k + 1) / l2_bytes_per_clock + memory_cycles), 0)", "cycles", "one piece of work after another",
)
UNIT_SECONDS = Equation(
    "W30", "unit_seconds", "2 * products * ceil(M / BM) * BM * ceil(N / BN) * BN * K / unit_rate", "s", "as fast as the chip's power allows",
)
KERNEL_SECONDS = Equation("W31", "kernel_seconds", "max(kernel_cycles / clock_hz, dram_bytes / dram_rate)", "s", "cycles, or device memory")
SECONDS = Equation(
    "W32", "seconds", "max(kernel_seconds + split_seconds, unit_seconds + split_power * split_seconds) + split_reads * launch_seconds + overlap_seconds + where(cluster > 1, cluster_seconds, 0)", "s", "one after another, or as the power of both allows; the main kernel's launch is hidden",
)
TIME = (
    time.TENSOR_CYCLES, SHARED_CYCLES, L2_CYCLES, CHAIN_CYCLES, LATENCY_CYCLES, OVERLAPPING, STAGE_CYCLES, TILE_CYCLES, KERNEL_CYCLES, UNIT_SECONDS,
    KERNEL_SECONDS, time.SPLIT_SECONDS, SECONDS, time.TFLOPS,
)


def binding(known: Numbers) -> str:
    """What limits the main kernel, in words."""
    cycles = {
        "power": known["unit_seconds"] + (known["split_power"] - 1) * known["split_seconds"], "device memory": known["dram_bytes"] / known["dram_rate"],
        "cycles": known["kernel_cycles"] / known["clock_hz"],
    }
    widest = max(cycles, key=cycles.__getitem__)
    if widest != "cycles":
        return widest
    stage = {
        "the matrix unit": known["tensor_cycles"], "shared memory": known["shared_cycles"], "L2": known["l2_cycles"],
        "a warpgroup's own chain": known["chain_cycles"] / known["overlapping"], "a copy's latency": known["latency_cycles"],
    }
    return max(stage, key=stage.__getitem__)


def constants(layout: str, scheme: Scheme, fragment: Fragment, gpu: Gpu, hints: Hints) -> dict[str, float]:
    """The symbols that no candidate changes."""
    fixed = space.constants(layout, scheme, fragment, gpu, hints)
    measured = gpu.measured.of("wgmma", gpu.name)
    f16 = measured.sustained_f16_tflops.value * 1e12
    return fixed | {
        "unit_rate": f16 * gpu.rates.tensor_fma_per_clock[scheme.word] / gpu.rates.tensor_fma_per_clock["f16"],
        **{symbol: getattr(measured, constant).value for symbol, constant in CONSTANT_OF.items()}, "other_registers": OTHER_REGISTERS,
        "fragment_buffers": 1,
    }


def _axes(choices: Choices, fragment: Fragment) -> list[dict[str, np.ndarray]]:
    """Tiles; ways, clusters and slices of k; promotion and stages; groups."""
    block, warp = choices.block, choices.warp
    fn = fragment.shape[1]
    depths = [row // FORMATS[fragment.word].bytes for row in ROW_BYTES]
    tiles = []
    for wm in (warp[0],) if warp else GROUP_M:
        for wn in (warp[1],) if warp else [n for n in GROUP_N if n % fn == 0]:
            for bm in (block[0],) if block else (wm, 2 * wm, 3 * wm):
                for bn in (block[1],) if block else (wn, 2 * wn):
                    for bk in ((block or warp)[2],) if block or warp else depths:
                        tiles.append((bm, wm, bn, wn, bk, (warp or block or (0, 0, bk))[2]))
    ways = [
        (count, way.symbols["mixed"], cluster, turns)
        for count in ((choices.split_k,) if choices.split_k else SLICES)
        for way in choices.ways
        for cluster in ((choices.cluster,) if choices.cluster else CLUSTERS)
        for turns in ((int(choices.consumers == "pingpong"),) if choices.consumers else (0, 1))
    ]
    pipelines = [(promote, stages) for promote in choices.promote for stages in ((choices.stages,) if choices.stages else space.STAGES)]
    return [
        dict(zip(("BM", "WM", "BN", "WN", "BK", "WK"), np.array(tiles).T)),
        dict(zip(("split_k", "mixed", "cluster", "pingpong"), np.array(ways).T)),
        dict(zip(("promote", "stages"), np.array(pipelines).T)),
        {"group": np.array((choices.group,) if choices.group else space.GROUPS)},
    ]


def _preference(known: Numbers) -> tuple[np.ndarray, ...]:
    """Among candidates that the model cannot tell apart, by weight: the least traffic of instructions with shared memory and of
    stages with L2, both of which cost power; the least with device memory; the most bytes on their way."""
    a_flop = known["stage_flops"]
    return known["fetch_bytes"] / a_flop, known["fill_bytes"] / a_flop, known["dram_bytes"], -known["BK"], -known["shared_bytes"], -known["group"]


SPECIALISED = Skeleton(
    "specialised",
    ("BM", "BN", "BK", "WM", "WN", "WK", "stages", "group", "split_k", "promote", "mixed", "cluster", "pingpong"),
    (), (*RESOURCES, *BUDGETS), lambda numbers, arch_number: dict(numbers), (*TRAFFIC, *TIME), CONSTRAINTS, (space.FEW_TILES,), _axes,
    (
        ("Resources", (*RESOURCES, *BUDGETS)), ("Occupancy", resources.OCCUPANCY_EQUATIONS), ("Traffic", TRAFFIC), ("Time", TIME),
    ),
    _preference,
)


# ---- either


def skeleton_of(fragment: Fragment) -> Skeleton:
    """The design that a fragment's kernels have."""
    if fragment.in_tensor_memory:
        from gemmgen.model.tensor_memory import TENSOR_MEMORY  # which builds on this module

        return TENSOR_MEMORY
    return SPECIALISED if fragment.from_shared else PORTABLE


def constants_of(layout: str, scheme: Scheme, fragment: Fragment, gpu: Gpu, hints: Hints) -> dict[str, float]:
    """The symbols that no candidate of the fragment's skeleton changes."""
    if fragment.in_tensor_memory:
        from gemmgen.model import tensor_memory

        return tensor_memory.constants(layout, scheme, fragment, gpu, hints)
    return (constants if fragment.from_shared else space.constants)(layout, scheme, fragment, gpu, hints)


def model(plan: Plan) -> dict[str, float]:
    """Every symbol's value for one plan."""
    skeleton = skeleton_of(plan.fragment)
    known = constants_of(plan.layout, plan.scheme, plan.fragment, plan.gpu, plan.hints) | space.decisions(plan)
    return space.predictions(space.budgets(known, plan.gpu.arch_number, skeleton), skeleton)
