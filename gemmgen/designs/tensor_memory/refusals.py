"""What to tell whoever asks for a plan that breaks one of the tensor-memory design's constraints."""

from __future__ import annotations

from typing import Any

from gemmgen.designs.tensor_memory.equations import COLUMNS, TENSOR_COLUMNS
from gemmgen.errors import InfeasibleSpec
from gemmgen.model.equation import Numbers


def one_instruction(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    (bm, bn, bk), fm = plan.block, plan.fragment.shape[0]
    return InfeasibleSpec(
        f"{place}: [tile] block", "a tile is not one instruction", got=f"block {bm}x{bn}, warp {plan.warp[0]}x{plan.warp[1]}",
        needs=f"block m = warp m = {fm}, a row of C for each lane of tensor memory, and block n of at most 256",
        remedy=f"block = [{fm}, {min(bn, 256)}, {bk}], warp m = {fm}",
    )


def pairs(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    n = plan.block[1]
    if plan.cluster > 2:
        return InfeasibleSpec(
            f"{place}: [tile] cluster", "an instruction multiplies what two blocks have, and no more", got=plan.cluster, needs="1 or 2", remedy="cluster = 2",
        )
    return InfeasibleSpec(
        f"{place}: [tile] block", "the halves of B that a pair of blocks has are no whole steps of n", got=f"block n = {n}, clusters of {plan.cluster}",
        needs="a multiple of 32", remedy=f"block n = {max(32, n // 32 * 32)}, or cluster = 1",
    )


def tensor_memory(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    least = int(numbers["columns"]) // plan.block[1]
    return InfeasibleSpec(
        f"{place}: [tile] block", f"the sums do not fit the tensor memory of {plan.gpu.name}", got=plan.block[1],
        needs=COLUMNS.shown(numbers), has=f"{TENSOR_COLUMNS} columns", remedy=f"block n <= {TENSOR_COLUMNS // least // 16 * 16}",
    )
