"""The straight design's decisions, constraints and axes of search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.registers import Registers
from gemmgen.catalog.scheme import Scheme
from gemmgen.decisions import Word
from gemmgen.designs import common
from gemmgen.designs.design import Asked, Choices, Design, Hints, Way, refuse_pipeline
from gemmgen.designs.feature import PROMOTES_AT_ONCE, Feature
from gemmgen.designs.parts import Equations, Text
from gemmgen.designs.portable.refusals import scaled_in_kernel
from gemmgen.designs.straight import equations, refusals
from gemmgen.model import resources
from gemmgen.model.equation import Constraint, Numbers, solved

THIN, SMALL = 16, 2**26
"""Rows or columns of C of which the other operand is read once; multiply-adds that take about as long as a launch."""
LINE_FLOATS = 32
"""Of a line of 128 bytes."""
WARPS_A_SCHEDULER = 4
"""With fewer, loads and splits wait for one another where device memory binds."""
ROWS = 8
"""Of a group: a fragment's lanes that have the same k each hold one row of it."""

EXTENTS = (8, 16, 32, 64)
"""Of a warp's tile, that a search considers."""
WARPS = (1, 2)
"""Along m and n, in a block."""
WARPS_K, WARP_K = (1, 2, 4, 8, 16), (16, 32, 64)
STAGES, MOST_STAGES = (2,), 8
"""That a search considers; that a kernel may have."""
SLICES = (1, 2, 4, 8)

FRAGMENTS = Feature("whole fragments and warps", of_tiles=(
    common.WARP_M,
    Constraint("C30", "warp n", "WN % FN == 0", "whole fragments", refusals.warp_n),
    common.BLOCK_M,
    common.BLOCK_N,
))
STAGES_IN_REGISTERS = Feature("stages in registers", constraints=(
    Constraint("C69", "stages", f"stages <= {MOST_STAGES}", "the loop is written out once for each, and compilers need minutes for dozens",
               common.most_stages(MOST_STAGES)),
))
WARPS_THAT_SHARE = Feature("warps that share a tile, each with its own part of every stage", constraints=(
    Constraint("C31", "block k", "(WK % FK == 0) & (BK % WK == 0)", "warps that share a tile take equal parts of every stage", refusals.warps_k),
    Constraint("C32", "threads", "threads <= threads_per_block", "the hardware's limit", common.threads),
))
PROMOTION = Feature("promotion", constraints=(Constraint(
    "C33", "promotion", "(promote == 0) | ((promote % FK == 0) & ((WK % max(promote, 1) == 0) | (promote % WK == 0)))",
    "promotion falls between two instructions and keeps step with a warp's parts of the stages", refusals.promotion,
),))
SPLIT_BY_LANES = Feature("lanes split what they multiply", constraints=(
    Constraint("C18", "scaled rows", "(split_reads == 1) & (tile_k == 0)",
               "scales of rows or tiles of k ask for a pass over the operands first, which may as well split them", scaled_in_kernel),
))
SUMS_IN_SHARED = Feature("warps add up their sums in shared memory", constraints=(
    Constraint("C34", "shared memory", "shared_bytes <= shared_bytes_per_block", "the sums of a block's warps meet there",
               common.block_memory("the sums of a block", "a smaller block, or fewer warps that share its k")),
))
PREDICTED_SPILLS = Feature("registers that the model predicts", steers=True, constraints=(
    Constraint("C35", "predicted to spill", "demand <= register_budget", "what ptxas cannot hold it spills",
               common.spills("a smaller warp tile, or fewer stages")),
))


@dataclass(frozen=True)
class Operand:
    """How a warp's lanes load an operand.

    Attributes:
        name, outer, k_contiguous: as in `gemmgen.plan.Operand`.
        groups: of eight rows in a warp's tile.
        together: neighbours along the outer dimension that a lane loads at once.
    """

    name: str
    outer: str
    k_contiguous: bool
    groups: int

    @property
    def together(self) -> int:
        return 1 if self.k_contiguous else next(count for count in (4, 2, 1) if self.groups % count == 0)


@dataclass(frozen=True)
class Facts:
    """What the template asks of a plan besides.

    Attributes:
        row_floats: of a row of sums in shared memory.
        tile_floats: of one warp's share of all rows.
        half_empty: whether a tile is one fragment high, whose second half has no rows where A has no more than eight; not where a lane has neighbours of both.
    """

    operands: tuple[Operand, Operand]
    row_floats: int
    tile_floats: int
    half_empty: bool


class Straight(Design):
    name = "straight"
    register_section = "straight"
    features = (
        FRAGMENTS, common.RING, STAGES_IN_REGISTERS, WARPS_THAT_SHARE, PROMOTION, SPLIT_BY_LANES, SUMS_IN_SHARED, common.SLICES_OF_K, PREDICTED_SPILLS,
        PROMOTES_AT_ONCE,
    )
    words = {
        "where": (Word("lane", "in the registers of the lane that loads and multiplies"),),
        "loads": (Word("direct", "from global memory to the registers of the lane that multiplies, with no stage in shared memory: thin and small products"),),
    }
    all_ways = (Way("lane", "direct"),)
    forms = Equations(
        equations.TILES, equations.PIPELINE, predictions=(*equations.TRAFFIC, *equations.TIME), groups=(
            ("Resources", (*equations.TILES, *equations.PIPELINE)), ("Registers", equations.BUDGETS), ("Occupancy", resources.OCCUPANCY_EQUATIONS),
            ("Traffic", equations.TRAFFIC), ("Time", equations.TIME),
        ),
    )
    order = "where device memory binds, whole lines and four warps a scheduler win; then the least {kernel_cycles}, then the largest {intensity}"
    of_registers = ("WM", "WN", "WK", "stages", "register_budget")
    text = Text(parts="[blocks of C][SLICES][BLOCK_M][BLOCK_N]", places_itself=True)

    def serves(self, fragment: Fragment) -> bool:
        return fragment.on_matrix_unit and fragment.interface.by_lanes and bool(fragment.interface.lanes_along_k)

    def suits(self, hints: Hints) -> bool:
        return min(hints.m, hints.n) <= THIN or hints.m * hints.n * hints.k <= SMALL

    def ways(self, asked: Asked) -> tuple[Way, ...]:
        ways = self.left(asked)
        if not ways or asked.foreign:
            raise refuse_pipeline(asked, "where = lane, loads = direct, no fragment buffers: elements wait in registers", "where", "loads")
        return ways

    def facts(self, plan: Any) -> Facts:
        numbers, (a, b) = plan.numbers, plan.operands
        groups = plan.warp[0] // ROWS, plan.warp[1] // ROWS
        operands = tuple(Operand(one.name, one.outer, one.k_contiguous, count) for one, count in zip((a, b), groups))
        return Facts(
            operands,
            numbers["row_floats"], numbers["row_floats"] * plan.block[0], plan.block[0] == 2 * ROWS and operands[0].together == 1,
        )

    def constants(self, layout: str, scheme: Scheme, fragment: Fragment, gpu: Gpu, hints: Hints) -> dict[str, Any]:
        return super().constants(layout, scheme, fragment, gpu, hints) | equations.constants(gpu)

    def registers(self, numbers: Numbers, table: Registers) -> dict[str, Any]:
        own = table.straight
        return solved(equations.BUDGETS, {
            **numbers, "per_sum": own.per_sum, "per_raw": own.per_raw, "per_fragment": own.per_fragment, "generation": own.offset,
        })

    # ---- search

    def axes(self, choices: Choices, fragment: Fragment) -> list[dict[str, np.ndarray]]:
        """Tiles; slices of k; promotion and stages; groups."""
        fm, fn, fk = fragment.shape
        block, warp = choices["block"], choices["warp"]
        pairs = [_extents(block and block[at], warp and warp[at], unit) for at, unit in ((0, fm), (1, fn))]
        depths = _depths(block and block[2], warp and warp[2], fk)
        tiles = [(*m, *n, *k) for m in pairs[0] for n in pairs[1] for k in depths]
        pipelines = [(promote, stages) for promote in choices.promote for stages in choices.among("stages", STAGES)]
        return [
            dict(zip(("BM", "WM", "BN", "WN", "BK", "WK"), np.array(tiles).T)), {"split_k": np.array(choices.among("split_k", SLICES))},
            dict(zip(("promote", "stages"), np.array(pipelines).T)), {"group": np.array(choices.among("group", (1,)))},
        ]

    def preference(self, known: Numbers) -> tuple[np.ndarray, ...]:
        """Where device memory binds, whole lines of the larger operand at once, where its k are neighbours, and four warps a
        scheduler; then the fewest cycles (S15), which it hides, the largest intensity (T3), the taller tile."""
        neighbours = 1 - np.where(known["M"] > known["N"], known["a_strided"], known["b_strided"])
        bound = np.where(known["kernel_cycles"] / known["clock_hz"] < known["kernel_seconds"], 1, 0)
        lines = bound * neighbours * np.minimum(known["WK"], LINE_FLOATS)
        at_once = np.minimum(known["resident_blocks"], np.ceil(known["blocks"] / known["sms"])) * known["warps"]
        warps = bound * np.minimum(at_once, WARPS_A_SCHEDULER * known["partitions"])
        return -lines, -warps, known["kernel_cycles"], -known["intensity"], -known["BM"], -known["WM"]


def _extents(block: int | None, warp: int | None, unit: int) -> list[tuple[int, int]]:
    """(block, warp) extents along one axis."""
    warps = (warp,) if warp else [one for one in EXTENTS if one % unit == 0 and (not block or block % one == 0)] or [unit]
    return [(block or one * count, one) for one in warps for count in ((1,) if block else WARPS)]


def _depths(block: int | None, warp: int | None, unit: int) -> list[tuple[int, int]]:
    """The same along k."""
    warps = (warp,) if warp else [one for one in WARP_K if one % unit == 0 and (not block or block % one == 0)] or [unit]
    return [(block or one * count, one) for one in warps for count in ((1,) if block else WARPS_K)]
