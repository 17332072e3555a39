"""The thin design's decisions, constraints and axes of search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.registers import Registers
from gemmgen.catalog.scheme import Scheme
from gemmgen.catalog.vendor import VENDORS
from gemmgen.decisions import Word
from gemmgen.designs import common
from gemmgen.designs.design import Asked, Choices, Design, Hints, Way
from gemmgen.designs.feature import Feature
from gemmgen.designs.parts import Equations, Text
from gemmgen.designs.thin import equations, refusals
from gemmgen.errors import InfeasibleSpec
from gemmgen.model import resources
from gemmgen.model.equation import Constraint, Numbers, solved

MOST = 16
"""Rows of the thin operand in a tile: as many sums as a lane has for one element of the other."""
THINS = (1, 2, 4, 8, 16)
ROWS = (16, 32, 64)
"""Of the large operand, that a warp takes."""
WARPS, WARPS_K, WARP_K = (1, 2, 4, 8), (1, 2, 4, 8), (64, 128, 256)
STAGES = (3, 4, 6)
SLICES = (1, 2, 4, 8, 16)

STREAMED = Feature("one operand is streamed through registers, and the thin one lies in shared memory", constraints=(
    Constraint(
        "C50", "thin", "(thin == 1) | (thin == 2) | (thin == 4) | (thin == 8) | (thin == 16)", "one side of a tile is thin, and sums are halved among lanes",
        refusals.thin,
    ),
    Constraint("C51", "warp of all", "where(BM < BN, WM, WN) == thin", "every warp takes all of the thin side", refusals.whole_side),
    Constraint(
        "C52", "warp rows", "(lane_rows >= 1) & (lane_rows % where(large_strided > 0, 4, 1) == 0)",
        "all lanes load: rows by eight lanes each, or four neighbours along the large side", refusals.rows,
    ),
    Constraint("C53", "large side", "max(BM, BN) % warp_rows == 0", "whole warps", refusals.large_side),
    Constraint(
        "C54", "block k", "(WK % (4 * lanes_k) == 0) & (WK >= 4 * lanes_k * (stages - 1)) & (BK % WK == 0)",
        "whole steps, as many for each warp; and what is on its way does not reach beyond the next stage", refusals.depth,
    ),
    Constraint("C55", "threads", "threads <= threads_per_block", "the hardware's limit", common.threads),
    Constraint("C56", "shared memory", "shared_bytes <= shared_bytes_per_block", "the thin operand's part of two stages, and the sums",
               common.block_memory("the thin operand's part of two stages, or the sums of a block,", "a smaller block k, or a smaller block")),
))
PREDICTED_SPILLS = Feature("registers that the model predicts", steers=True, constraints=(
    Constraint("C57", "predicted to spill", "demand <= register_budget", "what the compiler cannot hold it spills",
               common.spills("a smaller warp, or fewer stages")),
))


@dataclass(frozen=True)
class Halving:
    """A step in which two lanes add up their sums.

    Attributes:
        mask: in which their numbers differ.
        left: sums of a lane afterwards.
        halves: whether each keeps one half; else both have all.
    """

    mask: int
    left: int
    halves: bool


@dataclass(frozen=True)
class Facts:
    """What the template asks of a plan besides.

    Attributes:
        large, thin_operand: the operands (`gemmgen.plan.Operand`).
        thin: of the tile's smaller side.
        rows, warps: of the large operand that a warp takes; warps side by side.
        strided: whether the large operand's k lie apart.
        lanes_k, lanes: of a warp that share its rows; that have other rows.
        halvings, left: how lanes add up their sums; what each has at the end.
        row_floats, tile_floats: of a row of sums in shared memory; of one warp's share.
    """

    large: Any
    thin_operand: Any
    thin: int
    rows: int
    warps: int
    strided: bool
    lanes_k: int
    lanes: int
    halvings: tuple[Halving, ...]
    left: int
    row_floats: int
    tile_floats: int


class Thin(Design):
    name = "thin"
    register_section = "thin"
    features = (common.RING, STREAMED, common.SLICES_OF_K, PREDICTED_SPILLS)
    words = {
        "where": (Word("lane", "in the registers of the lane that loads and multiplies"),),
        "loads": (Word("streamed", "the large operand to shared memory by the lane that multiplies it, once; the thin one for all warps"),),
    }
    all_ways = (Way("lane", "streamed"),)
    forms = Equations(
        equations.TILES, equations.PIPELINE, predictions=(*equations.TRAFFIC, *equations.TIME), groups=(
            ("Resources", (*equations.TILES, *equations.PIPELINE)), ("Registers", equations.BUDGETS), ("Occupancy", resources.OCCUPANCY_EQUATIONS),
            ("Traffic", equations.TRAFFIC), ("Time", equations.TIME),
        ),
    )
    order = "the fewest slices of k win, then the least {kernel_cycles}, which device memory hides, then the most bytes on their way ({flying_bytes})"
    of_registers = ("WM", "WN", "WK", "stages", "register_budget")
    text = Text(parts="[blocks of C][SLICES][BLOCK_M][BLOCK_N]", places_itself=True)

    def serves(self, fragment: Fragment) -> bool:
        return fragment.plain and VENDORS[fragment.vendor].first_async is not None

    def suits(self, hints: Hints) -> bool:
        return min(hints.m, hints.n) <= MOST

    def ways(self, asked: Asked) -> tuple[Way, ...]:
        if not asked.gpu.async_copies:
            raise InfeasibleSpec(
                f"{asked.place}: [target] gpu", "the thin design copies past the registers", got=asked.gpu.name,
                needs=f"asynchronous copies: sm_{asked.gpu.maker.first_async} or newer", has=asked.gpu.arch, remedy='design = "cuda_cores"',
            )
        ways = self.left(asked)
        if not ways or asked.foreign:
            raise InfeasibleSpec(
                f"{asked.place}: [pipeline] loads", "kernels of the thin design have no such pipeline",
                got=", ".join(f"{name} = {asked.said(name)}" for name in ("where", "loads")), needs="where = lane, loads = streamed, no fragment buffers",
                remedy='leave them "auto", or another design',
            )
        return ways

    def facts(self, plan: Any) -> Facts:
        numbers, (a, b) = plan.numbers, plan.operands
        thin, large = (a, b) if plan.block[0] < plan.block[1] else (b, a)
        rows, lanes_k, strided = int(numbers["warp_rows"]), int(numbers["lanes_k"]), not large.k_contiguous
        left = int(numbers["accumulator_registers"])
        halvings, mask = [], plan.lanes // lanes_k if strided else 1
        for _ in range(lanes_k.bit_length() - 1):
            halves = left % 2 == 0
            left = left // 2 if halves else left
            halvings.append(Halving(mask, left, halves))
            mask *= 2
        return Facts(
            large, thin, thin.tile, rows, large.tile // rows, strided, lanes_k, plan.lanes // lanes_k, tuple(halvings), left,
            plan.block[1], plan.block[0] * plan.block[1],
        )

    def constants(self, layout: str, scheme: Scheme, fragment: Fragment, gpu: Gpu, hints: Hints) -> dict[str, Any]:
        return super().constants(layout, scheme, fragment, gpu, hints) | equations.constants(gpu)

    def registers(self, numbers: Numbers, table: Registers) -> dict[str, Any]:
        own = table.thin
        return solved(equations.BUDGETS, {
            **numbers, "per_sum": own.per_sum, "per_raw": own.per_raw, "generation": own.offset, "generation_strided": own.offset_strided,
        })

    # ---- search

    def axes(self, choices: Choices, fragment: Fragment) -> list[dict[str, np.ndarray]]:
        """Tiles; slices of k; stages; groups."""
        block, warp = choices["block"], choices["warp"]
        tiles = []
        for m_thin in (True, False):
            thin_at, large_at = (0, 1) if m_thin else (1, 0)
            for thin in ((block or warp)[thin_at],) if block or warp else THINS:
                for rows in (warp[large_at],) if warp else ROWS:
                    for large in (block[large_at],) if block else [rows * count for count in WARPS]:
                        for wk in (warp[2],) if warp else WARP_K:
                            for bk in (block[2],) if block else [wk * count for count in WARPS_K]:
                                m, n = ((thin, thin), (large, rows)) if m_thin else ((large, rows), (thin, thin))
                                tiles.append((*m, *n, bk, wk))
        if block and warp:
            tiles = [(block[0], warp[0], block[1], warp[1], block[2], warp[2])]
        return [
            dict(zip(("BM", "WM", "BN", "WN", "BK", "WK"), np.array(tiles).T)), {"split_k": np.array(choices.among("split_k", SLICES))},
            {"promote": np.zeros(len(choices.among("stages", STAGES)), int), "stages": np.array(choices.among("stages", STAGES))},
            {"group": np.array(choices.among("group", (1,)))},
        ]

    def preference(self, known: Numbers) -> tuple[np.ndarray, ...]:
        """The fewest slices of k, which cost a way through L2 that the model knows roughly; the least cycles (D17), which device memory hides; the
        most bytes on their way (D18); the least shared memory."""
        return known["split_k"], known["kernel_cycles"], -known["flying_bytes"], known["shared_bytes"], -known["BM"], -known["WM"]
