"""The tensor-memory design's constraints, its columns, and its axes of search."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.scheme import Accumulator, Scheme
from gemmgen.designs import common
from gemmgen.designs.design import Asked, Choices, Design, Hints, Way, refuse_pipeline
from gemmgen.designs.feature import ANY_KIND, COMBINED_SUMS, COMPLEX, GIVEN_TRIANGLES, PACKS_APART, PERSISTENT, STORED_B, Feature
from gemmgen.designs.parts import Checked, Equations
from gemmgen.designs.specialised import design as specialised
from gemmgen.designs.tensor_memory import equations, refusals
from gemmgen.designs.tensor_memory.equations import TENSOR_COLUMNS, UNLOADED
from gemmgen.kinds import GEMM, STRIDED
from gemmgen.model import resources
from gemmgen.model.equation import Constraint, Numbers

BLOCK_N = (64, 96, 128, 160, 192, 224, 256)
"""Tiles that a search considers; an instruction is as wide as a tile."""
ROW_BYTES = (32, 64, 128)
"""Rows of a stage that a search considers: all that the unit's swizzles know."""
MOST_HELD = 128
"""Columns that a search gives one warpgroup, a register each."""

ONE_INSTRUCTION = Feature("a tile is one instruction", constraints=(
    Constraint("C26", "one instruction a tile", "(BM == FM) & (WM == BM) & (BN <= 256)",
               "a row of C is a lane of tensor memory, and an instruction as wide as the tile", refusals.one_instruction),
))
PAIRS = Feature("pairs of blocks, each with half of B", (specialised.CLUSTER,), constraints=(
    Constraint("C70", "pairs", "(cluster <= 2) & (BN % (16 * cluster) == 0)", "one instruction multiplies what two blocks have, each of which has whole"
               " steps of n", refusals.pairs),
))
TENSOR_MEMORY = Feature("sums in tensor memory", constraints=(
    Constraint("C27", "tensor memory", f"columns <= {TENSOR_COLUMNS}", "128 lanes of 512 columns an SM", refusals.tensor_memory),
))
RESOURCES = (*specialised.equations.RESOURCES, *equations.BUDGETS)


class TensorMemory(Design):
    name = "tensor_memory"
    kinds = (GEMM.name, STRIDED.name)
    labels = {"warp": "warpgroup {}"}
    words = {"loads": specialised.Specialised.words["loads"]}
    all_ways = (Way("prepass", "bulk"),)
    features = (
        specialised.SWIZZLED_ROWS, specialised.WARPGROUPS, common.RING, ONE_INSTRUCTION, PAIRS, specialised.FEW_WARPGROUPS, common.PROMOTION, common.RUNS_OF_K,
        common.SLICES_OF_RUNS, TENSOR_MEMORY, common.STAGES_IN_SHARED, specialised.ACCUMULATORS, common.SLICES_OF_K, PERSISTENT,
        PACKS_APART, STORED_B, COMBINED_SUMS, ANY_KIND, GIVEN_TRIANGLES, COMPLEX,
    )
    forms = Equations(
        pipeline=RESOURCES, launch=equations.LAUNCH, predictions=(*equations.TRAFFIC, *equations.TIME), groups=(
            ("Resources", RESOURCES), ("Occupancy", (*resources.OCCUPANCY_EQUATIONS, *equations.LAUNCH)),
            ("Traffic", equations.TRAFFIC), ("Time", equations.TIME),
        ),
    )
    order = specialised.Specialised.order
    text = replace(specialised.Specialised.text, parts="[tiles][SLICES][elements of a thread][threads that move sums]")
    checked = Checked(
        standing="compiled, every instruction executed by an interpreter; hardware unconfirmed: never run, and the rule of tcgen05's sums is assumed",
    )

    def serves(self, fragment: Fragment) -> bool:
        return fragment.in_tensor_memory

    def ways(self, asked: Asked) -> tuple[Way, ...]:
        ways = self.left(asked)
        if not ways or asked.foreign:
            raise refuse_pipeline(
                asked, "where = prepass, loads = bulk, no second fragment buffer, no turns: one thread multiplies what a copy brings",
                "where", "loads", "fragment_buffers", "consumers",
            )
        return ways

    def promote(self, best: int, scheme: Scheme, block: tuple[int, int, int] | None, k: int, fragment: Fragment) -> int:
        return min(best, specialised.hidden_promote(scheme, block, k))

    def instruction(self, fragment: Fragment, block: tuple[int, int, int], warp: tuple[int, int, int], cluster: int = 1) -> Fragment:
        wide = specialised.widest(fragment, block[1])
        return wide.paired() if cluster > 1 else wide

    def facts(self, plan: Any) -> Columns:
        return Columns(plan)

    def constants(self, layout: str, scheme: Scheme, fragment: Fragment, gpu: Gpu, hints: Hints) -> dict[str, Any]:
        return super().constants(layout, scheme, fragment, gpu, hints) | equations.constants(scheme, gpu) | {
            # What the warp-specialised design has and this one does not.
            **specialised.TURNS.absent, "mixed": 0, "beside": 0.0, "moving_rate": 1.0, "clustered": 0.0, "alone": 0.0,
            "moved_operations": 0.0,
        }

    # ---- search

    def axes(self, choices: Choices, fragment: Fragment) -> list[dict[str, np.ndarray]]:
        """Tiles; slices of k and pairs; promotion and stages; groups."""
        block, warp = choices["block"], choices["warp"]
        bm, depths = fragment.shape[0], [row // fragment.word_bytes for row in ROW_BYTES]
        tiles = []
        for bn in (block[1],) if block else BLOCK_N:
            halves = [wn for wn in (bn, max(bn // 2, 1)) if wn <= MOST_HELD and wn % 16 == 0 or wn == max(bn // 2, 1)]  # a column is refused by a constraint
            for wn in (warp[1],) if warp else halves:
                for bk in ((block or warp)[2],) if block or warp else depths:
                    tiles.append((block[0] if block else bm, warp[0] if warp else bm, bn, wn, bk, (warp or block or (0, 0, bk))[2]))
        ways = [(count, cluster) for count in choices.among("split_k", common.SLICES) for cluster in choices.among("cluster", specialised.USUAL_CLUSTERS)]
        return [
            dict(zip(("BM", "WM", "BN", "WN", "BK", "WK"), np.array(tiles).T)), dict(zip(("split_k", "cluster"), np.array(ways).T)),
            *specialised.pipelines_and_groups(choices),
        ]

    def preference(self, known: Numbers) -> tuple[np.ndarray, ...]:
        return specialised.preference(known)

    def binding(self, known: Numbers) -> str:
        return specialised.binding(known)


class Columns:
    """Where a block's sums are in tensor memory: [sums that stay][buffer][sums that promotion empties], each block n columns wide."""

    def __init__(self, plan: Any):
        self._plan = plan
        numbers = plan.numbers
        self.unloaded = UNLOADED
        self.buffers = numbers["buffers"]
        self.columns = numbers["columns"]
        self.allocated = numbers["allocated_columns"]

    @property
    def staying(self) -> tuple[Accumulator, ...]:
        """Accumulators that stay in the unit for the whole of a tile."""
        return tuple(acc for acc in self._plan.scheme.accumulators if not self._plan.promotion.promotes(acc))

    @property
    def moving(self) -> tuple[Accumulator, ...]:
        """Accumulators that promotion empties."""
        return tuple(acc for acc in self._plan.scheme.accumulators if self._plan.promotion.promotes(acc))

    def column_of(self, accumulator: Accumulator) -> int:
        """The first column of an accumulator's sum, of one that moves in its first buffer."""
        if accumulator in self.moving:
            return (len(self.staying) + self.moving.index(accumulator)) * self._plan.block[1]
        return self.staying.index(accumulator) * self._plan.block[1]

    @property
    def of_group(self) -> Any:
        """The plan with the part of an instruction's C that one warpgroup moves out in its place."""
        return self._with_columns(self._plan.warp[1])

    def _with_columns(self, count: int) -> Any:
        """The plan of a warpgroup of so many columns, and of an instruction as wide."""
        (wm, _, wk), (m, n, k), c = self._plan.warp, self._plan.fragment.shape, self._plan.fragment.c
        fragment = {"shape": (m, count, k), "c": c.model_copy(update={"repeats": c.repeats * count // n})}
        return replace(self._plan, warp=(wm, count, wk), fragment=self._plan.fragment.model_copy(update=fragment))
