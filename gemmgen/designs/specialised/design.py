"""The warp-specialised design's decisions, constraints and axes of search."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.number import FORMATS, INTEGERS, word_bytes
from gemmgen.catalog.scheme import Scheme
from gemmgen.decisions import Decision, Word
from gemmgen.designs import common
from gemmgen.designs.common import GROUPS, SLICES, STAGES
from gemmgen.designs.design import Asked, Choices, Design, Hints, Way, refuse_pipeline
from gemmgen.designs.feature import ANY_KIND, COMPLEX, GIVEN_TRIANGLES, PACKS_APART, PERSISTENT, PROMOTES_TO_THE_END, STORED_B, Feature
from gemmgen.designs.modelled import sizes
from gemmgen.designs.parts import Equations, Text
from gemmgen.designs.specialised import equations, refusals
from gemmgen.kinds import GEMM, STRIDED
from gemmgen.model import resources
from gemmgen.model.equation import Constraint, Numbers

GROUP_M = (64, 128)
GROUP_N = (64, 96, 128, 160, 192, 224, 256)
"""Tiles of a warpgroup that a search considers: narrower ones read A more often than they multiply it."""
ROW_BYTES = (64, 128)
"""Rows of a stage that a search considers: shorter ones meet their barriers too often."""
USUAL_CLUSTERS = (1, 2)
"""Clusters that a search considers."""
HIDDEN_PROMOTE = 64
"""Warpgroups hide the promotion of each stage of FP16 words behind other products: seldom is no faster (measured)."""

WHOLE_BYTES = 4
"""Of an element's words, up to which a pass over whole rows and columns keeps what it read in registers."""
WHOLE_K = 2048
"""From which k on that pass is taken: a block has two rows, and at k = 256 the pass took three times as long as two passes (measured)."""

CLUSTER = Decision(
    "cluster", "tile", "with policy wgmma: blocks below one another in C that each copy a part of B's stages to all of them; with policy tcgen05 1 or 2: of a"
    " pair, one instruction multiplies what both have, each its rows of A and half of B", ("cluster",), "clusters of {}",
    among=(1, 2, 4, 8), neutral=1, usual=1,
)
"""By any of these numbers every stage of B divides into pieces of 16 bytes."""
CONSUMERS = Decision(
    "consumers", "pipeline", "with policy wgmma, what warpgroups do beside one another", ("pingpong",), neutral="cooperative", usual="cooperative", words=(
        Word("cooperative", "they divide a tile", 0), Word("pingpong", "two take turns with tiles, one storing while the other multiplies", 1),
    ),
)

SWIZZLED_ROWS = Feature("rows that the unit's swizzles know", of_tiles=(Constraint(
    "C23", "row bytes", "((BK * word_bytes == 32) | (BK * word_bytes == 64) | (BK * word_bytes == 128)) & (BK * least_bytes >= 32)",
    "the unit's swizzles know these rows, of the largest words and of the smallest",
    refusals.row_bytes,
),))
WARPGROUPS = Feature("whole stages, fragments and warpgroups", of_tiles=(
    Constraint("C2", "warp k", "WK == BK", "a warpgroup works through the whole stage", common.warp_k),
    common.WARP_M,
    Constraint("C4", "warp n", "WN % FN == 0", "whole fragments", common.whole_fragments(1)),
    common.BLOCK_M,
    common.BLOCK_N,
))
TURNS = Feature("warpgroups that take turns with tiles, or divide a tile", (CONSUMERS,), constraints=(
    Constraint("C24", "take turns", "(pingpong == 0) | ((BM == WM) & (BN == WN))", "warpgroups that take turns compute a tile each", refusals.turns),
))
FEW_WARPGROUPS = Feature("as many warpgroups as have registers", constraints=(
    Constraint("C7", "threads", "threads <= 512", "with more, no warpgroup has registers for a tile worth multiplying", refusals.threads),
))
A_IN_REGISTERS = Feature("A is split on its way to the registers", constraints=(
    Constraint("C25", "A in registers", "(mixed == 0) | ((BK % (2 * FK) == 0) & (word_bytes == 2) & (types == 1) & (split_reads == 1) & (run == 0))",
               "a lane splits two k into each register, knows no scale of a row before, and two steps take turns with the registers", refusals.mixed),
))
ACCUMULATORS = Feature("sums in registers", spills=True, constraints=(Constraint(
    "C11", "accumulators", "accumulator_registers + fragment_registers + other_registers <= register_budget", "EGEMM eq. 8, first line",
    common.accumulators("other_registers + fragment_registers"),
),))
WIDE_INSTRUCTIONS = Feature("instructions of 64 rows and many columns", constraints=(
    Constraint("C29", "an instruction", f"min(WN, 256) / 2 + 4 * mixed + {equations.LEAST_OTHERS} <= registers",
               "the compiler wants one instruction's sums, and its A where that is in registers, in what a thread has when the block starts",
               refusals.wide_instruction),
    Constraint("C36", "widths", "(types == 1) | (WN % 16 == 0)", "instructions of all types cover the same of C", refusals.widths),
))
CLUSTERS = Feature("clusters that share stages of B", (CLUSTER,))


class Specialised(Design):
    name = "specialised"
    kinds = (GEMM.name, STRIDED.name)
    labels = {"warp": "warpgroup {}"}
    features = (
        SWIZZLED_ROWS, WARPGROUPS, common.RING, CLUSTERS, TURNS, FEW_WARPGROUPS, common.PROMOTION, common.TILES_OF_K, common.RUNS_OF_K,
        common.SLICES_OF_RUNS, common.COMPENSATION, A_IN_REGISTERS, common.STAGES_IN_SHARED, ACCUMULATORS, WIDE_INSTRUCTIONS, common.SLICES_OF_K,
        PERSISTENT, PACKS_APART, STORED_B, ANY_KIND, GIVEN_TRIANGLES, COMPLEX, PROMOTES_TO_THE_END,
    )
    words = {
        "where": (Word("mixed", "with policy wgmma: B in a pass before, A between shared memory and registers"),),
        "loads": (Word("bulk", "whole stages by the copy engine, for policy wgmma and tcgen05"),),
    }
    all_ways = (Way("prepass", "bulk"), Way("mixed", "bulk"))
    forms = Equations(
        pipeline=(*equations.RESOURCES, *equations.BUDGETS), launch=equations.LAUNCH, predictions=(*equations.TRAFFIC, *equations.TIME), groups=(
            ("Resources", (*equations.RESOURCES, *equations.BUDGETS)), ("Occupancy", (*resources.OCCUPANCY_EQUATIONS, *equations.LAUNCH)),
            ("Traffic", equations.TRAFFIC), ("Time", equations.TIME),
        ),
    )
    order = "the least {fetch_bytes} a FLOP wins, then the least {fill_bytes} a FLOP, the least {dram_bytes}"
    of_registers = ("WM", "WN", "BK", "mixed", "pingpong", "register_budget")
    text = Text(
        gatherer="warpgroup", parts="[tiles][SLICES][elements of a thread][threads that multiply]",
        shaping=("registers", "producer_registers", "register_budget", "blocks_at_once"),
    )

    def serves(self, fragment: Fragment) -> bool:
        return fragment.from_shared and not fragment.in_tensor_memory

    def ways(self, asked: Asked) -> tuple[Way, ...]:
        ways = self.left(asked)
        if not ways or asked.foreign:
            raise refuse_pipeline(
                asked, "where = prepass or mixed, loads = bulk, no second fragment buffer: its operands stay in shared memory",
                "where", "loads", "fragment_buffers",
            )
        packed = tuple(way for way in ways if way.where == "prepass")
        if not packed and not asked.kind.plain:  # what splits A reckons with all tiles of a row of C
            raise refuse_pipeline(asked, f"where = prepass for kind {asked.kind.name}", "where")
        return packed if packed and not asked.kind.plain else ways

    def promote(self, best: int, scheme: Scheme, block: tuple[int, int, int] | None, k: int, fragment: Fragment) -> int:
        return min(best, hidden_promote(scheme, block, k))

    def instruction(self, fragment: Fragment, block: tuple[int, int, int], warp: tuple[int, int, int], cluster: int = 1) -> Fragment:
        return widest(fragment, warp[1])

    def way_symbols(self, way: Way) -> dict[str, int]:
        return {"mixed": int(way.where == "mixed")}

    def way_of(self, numbers: Numbers) -> Way:
        return Way("mixed" if numbers["mixed"] else "prepass", "bulk")

    def mixes(self, scheme: Scheme) -> bool:
        """Integers beside floating-point words of 16 bits, of one type each: registers hold two of these, and four of those."""
        floating = [kind for kind in scheme.types if kind not in INTEGERS]
        return len(scheme.types) == 2 and len(floating) == 1 and FORMATS[floating[0]].bytes == 2

    def word_numbers(self, scheme: Scheme, gpu: Gpu) -> dict[str, Any]:
        return equations.word_numbers(scheme, gpu)

    def constants(self, layout: str, scheme: Scheme, fragment: Fragment, gpu: Gpu, hints: Hints) -> dict[str, Any]:
        return super().constants(layout, scheme, fragment, gpu, hints) | equations.constants(scheme, gpu) | {"strides": int(hints.strides)}

    def splits_whole(self, scheme: Scheme, gpu: Gpu, hints: Hints) -> bool:
        """Where L2 does not hold the operands for a second pass and rows are long enough to keep a block busy (else two passes of smaller pieces
        are faster, as measured), and a thread has registers for the words of what it keeps. Floating-point words of 8 bits become numbers again by
        way of FP16, to count what they leave of elements: that spilled."""
        if scheme.normalize != "row" or not scheme.alike or hints.matrices > 1:
            return False
        if any(kind not in INTEGERS and word_bytes(kind) == 1 for kind in scheme.types):
            return False
        return self.large_enough(gpu, hints.m, hints.n, hints.k) and max(sizes(scheme)[f"{x}_word_bytes"] for x in "ab") <= WHOLE_BYTES

    def whole_from(self, gpu: Gpu) -> tuple[int, int]:
        return WHOLE_K, gpu.rates.l2_mib * 2**20 // 4

    # ---- search

    def axes(self, choices: Choices, fragment: Fragment) -> list[dict[str, np.ndarray]]:
        """Tiles; ways, clusters and slices of k; promotion and stages; groups."""
        block, warp = choices["block"], choices["warp"]
        fn = fragment.shape[1]
        depths = [row // fragment.word_bytes for row in ROW_BYTES]
        tiles = []
        for wm in (warp[0],) if warp else GROUP_M:
            for wn in (warp[1],) if warp else [n for n in GROUP_N if n % fn == 0]:
                for bm in (block[0],) if block else (wm, 2 * wm, 3 * wm):
                    for bn in (block[1],) if block else (wn, 2 * wn):
                        for bk in ((block or warp)[2],) if block or warp else depths:
                            tiles.append((bm, wm, bn, wn, bk, (warp or block or (0, 0, bk))[2]))
        turns = [CONSUMERS.encoded(word)["pingpong"] for word in choices.among("consumers", ("cooperative", "pingpong"))]
        ways = [
            (count, self.way_symbols(way)["mixed"], cluster, turn)
            for count in choices.among("split_k", SLICES) for way in choices.ways
            for cluster in choices.among("cluster", USUAL_CLUSTERS) for turn in turns
        ]
        return [
            dict(zip(("BM", "WM", "BN", "WN", "BK", "WK"), np.array(tiles).T)),
            dict(zip(("split_k", "mixed", "cluster", "pingpong"), np.array(ways).T)),
            *pipelines_and_groups(choices, compensated=True),
        ]

    def preference(self, known: Numbers) -> tuple[np.ndarray, ...]:
        return preference(known)

    def binding(self, known: Numbers) -> str:
        return binding(known)


def hidden_promote(scheme: Scheme, block: tuple[int, int, int] | None, k: int) -> int:
    """The interval of promotion that costs nothing: a stage, or less where k is short."""
    stage = block[2] if block else HIDDEN_PROMOTE * 2 // word_bytes(scheme.leading)
    while stage > 16 and stage > k:
        stage //= 2
    return stage


def widest(fragment: Fragment, extent: int) -> Fragment:
    """The widest of the instructions of which whole ones make `extent` columns; the fragment itself where none does."""
    count, over = divmod(extent, fragment.shape[1])
    if not fragment.widest or not count or over:
        return fragment
    return fragment.wide(max(times for times in range(1, fragment.widest + 1) if count % times == 0 and fragment.has_width(times)))


def pipelines_and_groups(choices: Choices, compensated: bool = False) -> list[dict[str, np.ndarray]]:
    """The last two steps: promotion, `compensated` too where the design has it, and stages; groups."""
    pipelines = [(promote, stages) for promote in choices.promote for stages in choices.among("stages", STAGES)]
    sums = common.sums(choices, len(pipelines)) if compensated else {}
    return [dict(zip(("promote", "stages"), np.array(pipelines).T)) | sums, {"group": np.array(choices.among("group", GROUPS))}]


def preference(known: Numbers) -> tuple[np.ndarray, ...]:
    """Keys by weight: the least traffic of instructions with shared memory and of stages with L2, both of which cost power; the
    least with device memory; the least time between tiles; the most bytes on their way."""
    a_flop = known["stage_flops"]
    # Long stages meet their barriers seldom; of integer words, which the unit is through with sooner, more and shorter ones were faster.
    length = np.where(known["beside"] > 0, known["BK"], -known["BK"])
    return (
        known["fetch_bytes"] / a_flop, known["fill_bytes"] / a_flop, known["dram_bytes"], known["turn_cycles"], length, -known["shared_bytes"],
        -known["group"],
    )


def binding(known: Numbers) -> str:
    """What limits the main kernel, in words."""
    return slowest(known, {
        "the matrix unit": known["tensor_cycles"], "shared memory": known["shared_cycles"], "L2": known["l2_cycles"],
        "a warpgroup's own chain": known["chain_cycles"] / known["overlapping"], "a copy's latency": known["latency_cycles"],
        "sums on their way out of the unit": known["moved_cycles"],
    })


def slowest(known: Numbers, stage: dict[str, float]) -> str:
    """What limits a kernel, in words: power, memory or, where that is its cycles, what takes most of a stage's.

    Args:
        stage: cycles of a stage by what takes them.
    """
    cycles = {
        "power": known["unit_seconds"] + (known["split_power"] - 1) * known["split_seconds"],
        "device memory": known["dram_bytes"] / known["dram_rate"], "cycles": known["kernel_cycles"] / known["clock_hz"],
    }
    longest = max(cycles, key=cycles.__getitem__)
    return max(stage, key=stage.__getitem__) if longest == "cycles" else longest
