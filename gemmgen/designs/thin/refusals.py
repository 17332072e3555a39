"""What to tell whoever asks for a plan that breaks one of the thin design's constraints."""

from __future__ import annotations

from typing import Any

from gemmgen.designs.thin.equations import LINE_LANES
from gemmgen.errors import InfeasibleSpec
from gemmgen.model.equation import Numbers


def thin(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [tile] block", "no side of the tile is thin", got=f"{plan.block[0]} x {plan.block[1]}", needs="one side of 1, 2, 4, 8 or 16",
        remedy='block m or n = 16, or design = "auto"',
    )


def whole_side(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [tile] warp", "warps divide the thin side of the tile",
        got=f"warp {plan.warp[0]} x {plan.warp[1]} of block {plan.block[0]} x {plan.block[1]}",
        needs=f"{numbers['thin']}: every warp takes all of it", remedy="the block's extent there",
    )


def rows(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    unit = 4 * LINE_LANES if numbers["large_strided"] else plan.lanes // LINE_LANES
    rows = int(numbers["warp_rows"])
    return InfeasibleSpec(
        f"{place}: [tile] warp", "a warp's lanes do not share the large side evenly", got=rows,
        needs=f"a multiple of {unit}: " + ("each lane loads four neighbours" if numbers["large_strided"] else f"{LINE_LANES} lanes load a line of a row"),
        remedy=f"{max(unit, rows // unit * unit)} there",
    )


def large_side(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    one = int(numbers["warp_rows"])
    return InfeasibleSpec(
        f"{place}: [tile] block", "the large side of the tile is not a whole number of warps", got=max(plan.block[:2]), needs=f"a multiple of {one}",
        remedy=f"{max(one, max(plan.block[:2]) // one * one)} there",
    )


def depth(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    unit = int(4 * numbers["lanes_k"])
    least = unit * (plan.stages - 1)
    return InfeasibleSpec(
        f"{place}: [tile] warp", "warps do not share a stage's steps evenly, or fewer than are on their way",
        got=f"warp k = {plan.warp[2]} of block k = {plan.block[2]}",
        needs=f"a warp k that is a multiple of {unit}, {least} at least with {plan.stages} stages, and divides block k",
        remedy=f"warp k = {least}, block k = {-(-plan.block[2] // least) * least}",
    )
