"""What to tell whoever asks for a plan that breaks one of the warp-specialised design's constraints."""

from __future__ import annotations

from typing import Any

from gemmgen.designs.specialised.equations import LEAST_OTHERS
from gemmgen.errors import InfeasibleSpec
from gemmgen.model.equation import Numbers


def threads(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [tile]", "too many warpgroups in a block", got=numbers["groups"], needs="at most 3 that multiply",
        remedy="larger warps or a smaller block",
    )


def row_bytes(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    size, least = numbers["word_bytes"], numbers["least_bytes"]
    depths = [row // size for row in (32, 64, 128) if row // size * least >= 32]
    return InfeasibleSpec(
        f"{place}: [tile] block", "the matrix unit has no swizzle for rows of this length", got=f"{plan.staging.row_bytes} B: block k = {plan.block[2]}",
        needs=f"32, 64 or 128 B: block k = {', '.join(map(str, depths[:-1]))} or {depths[-1]}", remedy=f"block k = {128 // size}",
    )


def widths(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [tile] warp", "instructions of the words' types do not all cover warps of this width", got=plan.warp[1], needs="a multiple of 16",
        remedy=f"warp n = {max(16, plan.warp[1] // 16 * 16)}",
    )


def turns(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [pipeline] consumers", "warpgroups that take turns compute a tile each",
        got=f"warp {plan.warp[0]}x{plan.warp[1]} of block {plan.block[0]}x{plan.block[1]}",
        needs="warp = block", remedy=f'warp = {list(plan.block)}, or consumers = "cooperative"',
    )


def mixed(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [split] where", "A cannot be split on its way to the registers here",
        got=f"{plan.scheme.name}, block k = {plan.block[2]}",
        needs="16-bit words of one type, no scales of rows or runs of k, and a stage of an even number of instructions",
        remedy='where = "prepass"',
    )


def inside(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [split] where", "operands cannot be split on their way to shared memory here",
        got=f"{plan.scheme.name}, block {'x'.join(map(str, plan.block))}, cluster = {plan.cluster}",
        needs="FP32 elements, 16-bit words of one type, no scales of rows or runs of k, no cluster, a block whose m and n are multiples of 32 and, times"
        " its k, of 2048",
        remedy='where = "prepass"',
    )


def wide_instruction(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [tile] warp", "one matrix instruction needs more registers than a thread has when the block starts", got=plan.warp[1],
        needs=f"min(n, 256) / 2 + {LEAST_OTHERS} registers" + (", and 4 for A" if plan.where == "mixed" else ""),
        has=f"{numbers['registers']}, with {plan.threads} threads", remedy="a narrower warp tile, or fewer warpgroups",
    )
