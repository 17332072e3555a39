from __future__ import annotations

from typing import Any

import numpy as np

from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.scheme import Scheme
from gemmgen.decisions import Word
from gemmgen.designs import common
from gemmgen.designs.design import Asked, Choices, Hints, Way, refuse_pipeline
from gemmgen.designs.feature import ANY_KIND, COMBINED_SUMS, COMPLEX, PACKS_APART, PERSISTENT, STORED_B, Feature
from gemmgen.designs.parts import Equations
from gemmgen.designs.residues import equations, refusals
from gemmgen.designs.specialised import design as specialised
from gemmgen.designs.specialised.equations import LEAST_OTHERS
from gemmgen.kinds import GEMM, POINTERS, STRIDED
from gemmgen.model.equation import Constraint, Numbers

GROUP_N = (64, 128, 192, 256)
RUN = 16
"""Residues of neighbouring sums of a thread that are kept as one piece."""

SLICES = Constraint("C41", "slices of k", "split_k == 1", "residues of slices are not added up", refusals.slices)

RESIDUES = Feature("residues, one modulus after the other", constraints=(
    Constraint("C40", "whole pieces", f"WM * WN % (128 * {RUN}) == 0", "a thread keeps its residues sixteen by sixteen", refusals.pieces),
    SLICES,
))
ACCUMULATORS = Feature("sums in registers", constraints=(
    Constraint(
        "C43", "accumulators", "accumulator_registers + other_registers <= register_budget", "EGEMM eq. 8, first line",
        common.accumulators("other_registers"),
    ),
    Constraint("C42", "an instruction", f"min(WN, 256) / 2 + {LEAST_OTHERS} <= registers", "as C29", specialised.refusals.wide_instruction),
))


def reads_once(scheme: Scheme) -> bool:
    """Whether one launch finds norms and splits, at all sizes: a row has as many threads as its k keeps busy. Of FP64, two do."""
    return not scheme.family.wide


class OfResidues:
    """What designs for residues have in common beside the design that each derives from: how they split, what a stage is, and that nothing is promoted."""

    def splits_whole(self, scheme: Scheme, gpu: Gpu, hints: Hints) -> bool:
        return reads_once(scheme)

    def passes(self, scheme: Scheme) -> dict[str, int]:
        return dict.fromkeys(("split_reads", "split_passes"), 1 if reads_once(scheme) else 2)

    def promote(self, best: int, scheme: Scheme, block: tuple[int, int, int] | None, k: int, fragment: Fragment) -> int:
        return 0

    def constants(self, layout: str, scheme: Scheme, fragment: Fragment, gpu: Gpu, hints: Hints) -> dict[str, Any]:
        """Of a stage, which knows one product of one word of each operand; `moduli` is how often there are such stages."""
        return super().constants(layout, scheme, fragment, gpu, hints) | {
            "moduli": len(scheme.words), "words": 1, "words_a": 1, "words_b": 1, "products": 1, "sums": 1, **equations.of_elements(scheme),
        }


def pass_constants(scheme: Scheme, gpu: Gpu) -> dict[str, float]:
    """What the passes over the operands of a GPU with a copy engine take."""
    measured = gpu.measured.of("residues", gpu.name)
    if scheme.family.wide:
        return {"pass_share": equations.WIDE_PASS_SHARE, "pass_seconds": equations.WIDE_PASS_SECONDS}
    return {"pass_share": measured.pass_share.value, "pass_seconds": measured.pass_seconds.value}


class ResidueKernels(OfResidues, specialised.Specialised):
    name = "residues"
    kinds = (GEMM.name, STRIDED.name, POINTERS.name)
    family = "residues"
    features = (
        specialised.SWIZZLED_ROWS, specialised.WARPGROUPS, common.RING, specialised.FEW_WARPGROUPS, RESIDUES, common.STAGES_IN_SHARED, ACCUMULATORS,
        specialised.CLUSTERS, PERSISTENT, PACKS_APART, STORED_B, COMBINED_SUMS, ANY_KIND, COMPLEX,
    )
    words = {"loads": (Word("bulk", "whole stages by the copy engine, for policy wgmma and tcgen05"),)}
    all_ways = (Way("prepass", "bulk"),)
    forms = Equations(
        pipeline=(*equations.RESOURCES, *equations.BUDGETS), launch=equations.LAUNCH, predictions=(*equations.TRAFFIC, *equations.TIME),
        groups=equations.GROUPS,
    )
    of_registers = ("WM", "WN", "BK", "register_budget")

    def ways(self, asked: Asked) -> tuple[Way, ...]:
        found = self.left(asked)
        if not found or asked.foreign:
            raise refuse_pipeline(asked, "where = prepass, loads = bulk: residues are packed before", "where", "loads", "fragment_buffers")
        return found

    def constants(self, layout: str, scheme: Scheme, fragment: Fragment, gpu: Gpu, hints: Hints) -> dict[str, Any]:
        return super().constants(layout, scheme, fragment, gpu, hints) | {
            **specialised.TURNS.absent, **pass_constants(scheme, gpu),
            "other_registers": equations.OTHER_REGISTERS + (equations.BATCH_REGISTERS if hints.matrices > 1 and scheme.family.wide else 0),
        }

    # ---- search

    def axes(self, choices: Choices, fragment: Fragment) -> list[dict[str, np.ndarray]]:
        """Tiles; clusters; stages; groups."""
        block, warp = choices["block"], choices["warp"]
        tiles = []
        for wm in (warp[0],) if warp else specialised.GROUP_M:
            for wn in (warp[1],) if warp else GROUP_N:
                for bm in (block[0],) if block else (wm, 2 * wm):
                    for bn in (block[1],) if block else (wn, 2 * wn):
                        for bk in ((block or warp)[2],) if block or warp else specialised.ROW_BYTES:
                            tiles.append((bm, wm, bn, wn, bk, (warp or block or (0, 0, bk))[2]))
        clusters = choices.among("cluster", specialised.USUAL_CLUSTERS)
        slices = choices.among("split_k", (1,))
        ways = [(count, 0, cluster) for count in slices for cluster in clusters]
        return [
            dict(zip(("BM", "WM", "BN", "WN", "BK", "WK"), np.array(tiles).T)),
            dict(zip(("split_k", "mixed", "cluster"), np.array(ways).T)),
            *specialised.pipelines_and_groups(choices),
        ]

    def preference(self, known: Numbers) -> tuple[np.ndarray, ...]:
        """As the warp-specialised design's, but for the time between tiles, of which reducing takes the place."""
        a_flop = known["stage_flops"]
        return known["fetch_bytes"] / a_flop, known["fill_bytes"] / a_flop, known["dram_bytes"], -known["BK"], -known["shared_bytes"], -known["group"]

    def binding(self, known: Numbers) -> str:
        return specialised.slowest(known, {
            "the matrix unit": known["tensor_cycles"], "shared memory": known["shared_cycles"], "L2": known["l2_cycles"],
            "a copy's latency": known["latency_cycles"],
        })
