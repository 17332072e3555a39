"""What to tell whoever asks for a plan that breaks one of the constraints of kernels of residues."""

from __future__ import annotations

from typing import Any

from gemmgen.errors import InfeasibleSpec
from gemmgen.model.equation import Numbers


def pieces(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [tile] warp", "a thread's residues are no whole number of pieces of 16", got=f"{plan.warp[0]}x{plan.warp[1]}",
        needs="warp m times warp n a multiple of 2048", remedy=f"warp n = {max(32, plan.warp[1] // 32 * 32)}",
    )


def slices(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [tile] split_k", "slices of k are not for residues, which do not add up to less than their moduli", got=plan.split_k, needs="1",
        remedy="split_k = 1",
    )
