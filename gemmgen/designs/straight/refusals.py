"""What to tell whoever asks for a plan that breaks one of the straight design's constraints."""

from __future__ import annotations

from typing import Any

from gemmgen.errors import InfeasibleSpec
from gemmgen.model.equation import Numbers


def warps_k(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    fk, bk, wk = plan.fragment.shape[2], plan.block[2], plan.warp[2]
    return InfeasibleSpec(
        f"{place}: [tile] warp", "warps do not take equal parts of a stage", got=f"warp k = {wk} of block k = {bk}",
        needs=f"a warp k that is a multiple of {fk} ({plan.fragment.name}) and divides block k", remedy=f"warp k = {fk}, block k = {-(-bk // fk) * fk}",
    )


def promotion(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    fk, wk, promote = plan.fragment.shape[2], plan.warp[2], plan.promote
    return InfeasibleSpec(
        f"{place}: [split] promote", "promotion falls between two instructions or drifts against a warp's parts of the stages", got=promote,
        needs=f"0, or a multiple of {fk} that divides warp k = {wk} or is a multiple of it", remedy=f"promote = {max(1, round(promote / wk)) * wk}",
    )


def warp_n(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    unit = plan.fragment.shape[1]
    return InfeasibleSpec(
        f"{place}: [tile] warp", "warp n is not a whole number of fragments", got=plan.warp[1], needs=f"a multiple of {unit} ({plan.fragment.name})",
        remedy=f"warp n = {max(unit, plan.warp[1] // unit * unit)}",
    )
