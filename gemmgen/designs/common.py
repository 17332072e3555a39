"""Constraints that several designs have, and what to tell whoever asks for a plan that breaks one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gemmgen.decisions import SUMS, Decision
from gemmgen.designs.design import Choices, Design
from gemmgen.designs.feature import Feature
from gemmgen.errors import InfeasibleSpec
from gemmgen.model.equation import Constraint, Numbers, figure

STAGES = (2, 3, 4, 5, 6, 7, 8)
GROUPS = (1, 2, 4, 8, 16)
SLICES = (1, 2, 3, 4, 6, 8)
"""What a search considers."""

Refusal = Callable[[Any, Numbers, str], InfeasibleSpec]
"""(plan, every symbol's value, place) -> the error."""


def warp_k(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    (wm, wn, wk), bk = plan.warp, plan.block[2]
    return InfeasibleSpec(
        f"{place}: [tile] warp", "warp k differs from block k", got=wk, needs=f"{bk}: a warp works through the whole stage",
        remedy=f"warp = [{wm}, {wn}, {bk}]",
    )


def _single_stage(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [pipeline] stages", "one stage is multiplied while others are filled", got=plan.stages, needs="2 or more",
        remedy='stages = 2, or policy = "mma" with loads = "spread", whose next tile waits in registers',
    )


def most_stages(most: int) -> Refusal:
    """
    Args:
        most: that a kernel may have.
    """
    def message(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
        return InfeasibleSpec(
            f"{place}: [pipeline] stages", f"a kernel of the design {plan.design.name} cannot have so many", got=plan.stages, needs=f"at most {most}",
            remedy=f"stages = {most}, or fewer",
        )
    return message


def whole_fragments(axis: int) -> Refusal:
    def message(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
        name, extent, unit = "mn"[axis], plan.warp[axis], plan.fragment.shape[axis] * (plan.fragment.interface.fetched_together if axis else 1)
        return InfeasibleSpec(
            f"{place}: [tile] warp", f"warp {name} is not a whole number of fragments", got=extent,
            needs=f"a multiple of {unit} ({plan.fragment.name})", remedy=f"warp {name} = {max(unit, extent // unit * unit)}",
        )
    return message


def whole_warps(axis: int) -> Refusal:
    def message(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
        name, block, warp = "mn"[axis], plan.block[axis], plan.warp[axis]
        return InfeasibleSpec(
            f"{place}: [tile] block", f"block {name} is not a whole number of warps", got=block,
            needs=f"a multiple of warp {name} = {warp}", remedy=f"block {name} = {max(warp, block // warp * warp)}",
        )
    return message


def _promotion(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    fk, bk, promote = numbers["FK"], plan.block[2], plan.promote
    nearest = min((p for p in range(fk, max(2 * promote, bk) + bk, fk) if bk % p == 0 or p % bk == 0),
                  key=lambda p: abs(p - promote))
    return InfeasibleSpec(
        f"{place}: [split] promote", "promotion falls between two instructions or drifts against the stages",
        got=promote, needs=f"0, or a multiple of {fk} that divides block k = {bk} or is a multiple of it",
        remedy=f"promote = {nearest}",
    )


def shared_memory(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    limit, least_k = plan.gpu.limits.shared_bytes_per_block, 16
    fits = limit // (plan.shared_bytes // plan.stages)
    remedy = f"stages <= {fits}" if fits >= 2 else "a smaller block"
    if plan.block[2] > least_k:
        remedy += f", or block k = {plan.block[2] // 2}"
    return InfeasibleSpec(
        f"{place}: [pipeline]", f"stages = {plan.stages} does not fit {plan.gpu.name}", needs=plan.design.equations.of("shared_bytes").shown(numbers),
        has=f"{limit} B of shared memory a block", remedy=remedy,
    )


def accumulators(beside: str) -> Refusal:
    """
    Args:
        beside: the symbol of what a thread needs besides, or several with a plus.
    """
    def message(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
        more = sum(numbers[name] for name in beside.split(" + "))
        return InfeasibleSpec(
            f"{place}: [tile] warp", "the accumulators leave no room in the register file",
            needs=f"{plan.design.equations.of('accumulator_registers').shown(numbers)}, and about {figure(more)} more",
            has=f"{numbers['register_budget']} registers a thread at {plan.threads} threads on {plan.gpu.name}",
            remedy=f"a smaller warp tile, {'promote = 0, ' if plan.promote and plan.where != 'mixed' else ''}or [build] allow_spills = true",
        )
    return message


def threads(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [tile]", "too many threads in a block", got=plan.threads, needs=f"at most {plan.gpu.limits.threads_per_block} on {plan.gpu.name}",
        remedy="larger warps or a smaller block",
    )


def block_memory(what: str, remedy: str) -> Refusal:
    """
    Args:
        what: a block has in shared memory, however many stages there are.
    """
    def message(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
        return InfeasibleSpec(
            f"{place}: [tile]", f"{what} do not fit {plan.gpu.name}", needs=plan.design.equations.of("shared_bytes").shown(numbers),
            has=f"{plan.gpu.limits.shared_bytes_per_block} B of shared memory a block", remedy=remedy,
        )
    return message


def spills(remedy: str) -> Refusal:
    def message(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
        return InfeasibleSpec(
            f"{place}: [tile] warp", "the compiler is predicted to spill registers", needs=plan.design.equations.of("demand").shown(numbers),
            has=f"{numbers['register_budget']} registers a thread at {plan.threads} threads on {plan.gpu.name}", remedy=remedy,
        )
    return message


def _compensation(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [split] sums", "is about sums that leave the matrix unit every so often", got=f"{plan.sums}, promote = {plan.promote}",
        needs=f"promotion at longer intervals than an instruction's k, {plan.fragment.shape[2]}",
        remedy=f'promote = {2 * plan.fragment.shape[2]}, or sums = "plain"',
    )


def sums(choices: Choices, count: int) -> dict[str, np.ndarray]:
    """The symbol of `SUMS`, of which a search considers what is settled before it, for so many candidates."""
    return _word(SUMS, choices, count)


def settled(design: Design, choices: Choices, count: int) -> dict[str, np.ndarray]:
    """The symbols of all the design's own decisions of that kind, for so many candidates."""
    return {name: values for one in design.own if one.quiet for name, values in _word(one, choices, count).items()}


def _word(one: Decision, choices: Choices, count: int) -> dict[str, np.ndarray]:
    (word,) = choices.among(one.name, (one.usual,))
    return {name: np.full(count, value) for name, value in one.encoded(word).items()}


def _many_tiles(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [tile] split_k", "the tiles of C fill the GPU without slices of k", got=plan.split_k,
        needs=f"fewer than {plan.gpu.rates.sms} tiles", has=f"{numbers['tiles']} tiles", remedy="split_k = 1",
    )


def _tile_of_k(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    tile_k, block_k = numbers["tile_k"], plan.block[2]
    return InfeasibleSpec(
        f"{place}: [tile] block", f"{plan.scheme.name} has scales for every {tile_k} k", got=f"instructions of {plan.fragment.shape[2]} k",
        needs=f"whole instructions in {tile_k} k, and whole tiles of them in block k = {block_k}",
        remedy=f"block k = {max(tile_k, block_k // tile_k * tile_k)}, or a fragment with fewer k",
    )


def _run_of_k(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    (fk, bk), run = (numbers["FK"], plan.block[2]), numbers["run"]
    return InfeasibleSpec(
        f"{place}: [split] promote", f"{plan.scheme.name} has scales for every {run} k", got=f"promote = {plan.promote}, block k = {bk}",
        needs=f"promotion at longer intervals than an instruction's k, {fk}, and whole intervals and stages in {run} k",
        remedy=f"promote = {max(2 * fk, min(run, 64))}, and a block k that divides {run}",
    )


def _slice_of_run(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [tile] split_k", f"{plan.scheme.name} has scales for every {numbers['run']} k, in which a slice may begin",
        got=f"split_k = {plan.split_k}, promote = {plan.promote}", needs=f"promotion at intervals that divide block k = {plan.block[2]}",
        remedy=f"split_k = 1, or promote = {plan.block[2]}",
    )


SHARED_MEMORY = Constraint("C10", "shared memory", "shared_bytes <= shared_bytes_per_block", "EGEMM eq. 8, second line", shared_memory)
FEW_TILES = Constraint(
    "C22", "slices of k", "(split_k == 1) | (tiles < sms)", "slices cost a way through L2; they are for tiles that leave SMs idle", _many_tiles,
)
WARP_M = Constraint("C3", "warp m", "WM % FM == 0", "whole fragments", whole_fragments(0))
BLOCK_M = Constraint("C5", "block m", "BM % WM == 0", "whole warps", whole_warps(0))
BLOCK_N = Constraint("C6", "block n", "BN % WN == 0", "whole warps", whole_warps(1))

WHOLE_STAGES = Feature("a warp works through a stage as a whole", of_tiles=(
    Constraint("C2", "warp k", "WK == BK", "a warp works through the whole stage", warp_k),
))
RING = Feature("a ring of stages", constraints=(
    Constraint("C61", "one stage", "stages > 1", "one stage is multiplied while others are filled", _single_stage),
))
PROMOTION = Feature("promotion", constraints=(Constraint(
    "C9", "promotion", "(promote == 0) | ((promote % FK == 0) & ((BK % max(promote, 1) == 0) | (promote % BK == 0)))",
    "promotion falls between two instructions and keeps step with the stages", _promotion,
),))
TILES_OF_K = Feature("scales of tiles of k", constraints=(Constraint(
    "C58", "tile of k", "(tile_k == 0) | ((tile_k % FK == 0) & (BK % max(tile_k, 1) == 0))", "sums of INT32 end where the scales change", _tile_of_k,
),))
RUNS_OF_K = Feature("scales of runs of k", constraints=(Constraint(
    "C73", "run of k", "(run == 0) | ((promote > FK) & (run % max(promote, 1) == 0) & (run % BK == 0))",
    "a sum in FP32 registers changes its unit where a run ends, between two promotions and two stages", _run_of_k,
),))
SLICES_OF_RUNS = Feature("slices of k that begin inside runs", constraints=(Constraint(
    "C74", "slices of runs", "(run == 0) | (split_k == 1) | (BK % max(promote, 1) == 0)", "a slice may begin inside a run, and promotion keeps step with both",
    _slice_of_run,
),))
COMPENSATION = Feature("compensated sums", (SUMS,), constraints=(Constraint(
    "C39", "compensation", "(compensated == 0) | (promote > FK)", "what does not move stays in an accumulator that lives on", _compensation,
),))
STAGES_IN_SHARED = Feature("stages in shared memory", constraints=(SHARED_MEMORY,))
SLICES_OF_K = Feature("slices of k", constraints=(FEW_TILES,), steers=True)
