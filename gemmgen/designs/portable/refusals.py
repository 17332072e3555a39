"""What to tell whoever asks for a plan that breaks one of the portable design's constraints."""

from __future__ import annotations

from typing import Any

from gemmgen.designs.common import Refusal
from gemmgen.errors import InfeasibleSpec
from gemmgen.model.equation import Numbers, figure
from gemmgen.model.registers import ARCHITECTURAL, DEMAND
from gemmgen.model.resources import WARPS


def block_k(depths: tuple[int, ...]) -> Refusal:
    """
    Args:
        depths: those that can be staged.
    """
    def message(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
        return InfeasibleSpec(
            f"{place}: [tile] block", "block k cannot be staged", got=plan.block[2],
            needs=f"one of {', '.join(map(str, depths))}: rows of whole 16-byte chunks that the swizzle can permute",
            remedy="block k = 32",
        )
    return message


def threads(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [tile]", "too many threads in a block",
        needs=f"{plan.threads} = ({WARPS.form}) * {numbers['warp_size']} = {WARPS.filled(numbers)} * {numbers['warp_size']}",
        has=f"{plan.gpu.limits.threads_per_block} on {plan.gpu.name}", remedy="larger warps or a smaller block",
    )


def fragment_buffers(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    fk, bk = plan.fragment.shape[2], plan.block[2]
    return InfeasibleSpec(
        f"{place}: [pipeline] fragment_buffers", "two fragment buffers need an even number of steps in a stage",
        got=2, needs=f"block k a multiple of {2 * fk}", has=f"block k = {bk}", remedy=f"block k = {2 * fk}, or fragment_buffers = 1",
    )


def spills(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [tile] warp", "the compiler is predicted to spill registers",
        needs=DEMAND.shown(numbers) + (f", and {figure(numbers['uneven'])} to be safe with such a loop" if numbers["uneven"] else ""),
        has=f"{numbers['register_budget']} registers a thread at {plan.threads} threads on {plan.gpu.name}, "
            f"and {figure(numbers['squeeze'])} that the compiler can save",
        remedy="a smaller warp tile, or fragment_buffers = 1",
    )


def sums_that_move(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [tile] warp", "the compiler is predicted to move sums between register files in every step",
        needs=f"{DEMAND.shown(numbers)}, of which {figure(numbers['waiting'])} wait in accumulation registers",
        has=f"{ARCHITECTURAL} registers for the rest", remedy="a smaller warp tile, or fragment_buffers = 1",
    )


def no_async(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [pipeline] loads", f"{plan.gpu.name} has no asynchronous copies", got=plan.loads,
        needs=f"sm_{plan.gpu.maker.first_async} or newer", has=plan.gpu.arch,
        remedy='loads = "spread"' + (', where = "shared" or "prepass"' if plan.where == "register" else ""),
    )


def held_stages(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [pipeline] stages", f"loads = {plan.loads!r} takes turns with two stages", got=plan.stages,
        needs="2, or 1: the next tile waits in registers", remedy="stages = 2" + (', or loads = "async"' if plan.where == "prepass" else ""),
    )


def one_stage(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    ring = plan.gpu.maker.tiles_held
    return InfeasibleSpec(
        f"{place}: [pipeline] stages", "one stage is for tiles that wait in registers while it is multiplied", got=f"{plan.stages}, loads = {plan.loads}",
        needs="two stages or more on this GPU" if ring else "loads = spread, grouped or waited",
        remedy="stages = 2" if ring else 'loads = "spread", or stages = 2',
    )


def pieces(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    (wm, wn, wk), bk, fk = plan.warp, plan.block[2], plan.fragment.shape[2]
    return InfeasibleSpec(
        f"{place}: [tile] warp", "warp k is no piece of a stage", got=wk, needs=f"a multiple of {fk} ({plan.fragment.name}) that divides block k = {bk}",
        remedy=f"warp = [{wm}, {wn}, {bk}], or k = {fk}",
    )


def pieces_held(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [tile] warp", "fragments of several instructions' k are held together, and nothing beside them",
        got=f"warp k = {plan.warp[2]}, fragment_buffers = {plan.fragment_buffers}, fragment_caching = {plan.fragment_caching}",
        needs="one fragment buffer, and fragment_caching = all", remedy=f"warp k = {plan.fragment.shape[2]} or {plan.block[2]}",
    )


def padded(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [pipeline] rows", "padding lines of banks is for rows of words of one type, which ldmatrix fetches",
        got=f"{plan.rows}, policy = {plan.fragment.policy}, where = {plan.where}, scheme = {plan.scheme.name}",
        needs="policy = mma, and words that are split before shared memory", remedy='rows = "swizzled"',
    )


def uncached(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [pipeline] fragment_caching", "fragments that each product fetches again are fetched by ldmatrix, into one buffer",
        got=f"{plan.fragment_caching}, policy = {plan.fragment.policy}, where = {plan.where}, fragment_buffers = {plan.fragment_buffers}",
        needs="policy = mma, words that are split before shared memory, no scales of tiles of k, and fragment_buffers = 1", remedy='fragment_caching = "all"',
    )


def waited(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [pipeline] fragment_buffers", "loads that are waited for leave nothing to fetch ahead", got=f"{plan.fragment_buffers}, loads = waited",
        needs="1", remedy='fragment_buffers = 1, or loads = "grouped"',
    )


def sums_in_shared(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [pipeline] fragment_caching", "sums that lie in shared memory are the matrix unit's alone, four a lane",
        got=f"{plan.fragment_caching}, promote = {plan.promote}, {plan.fragment.name}", needs="promote = 0, and fragments of 16x8 of C",
        remedy='promote = 0, or fragment_caching = "sums"',
    )


def shared_async(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [pipeline] loads", "what is split before shared memory passes through registers", got=plan.loads,
        needs="spread, grouped or waited, where split where = shared", remedy='loads = "spread"',
    )


def register_held(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [pipeline] loads", "what is split behind shared memory is copied there as it is", got=plan.loads,
        needs="async, where split where = register", remedy='loads = "async"',
    )


def scaled_in_kernel(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [split] where", f"{plan.scheme.name} scales {plan.scheme.family.shared_by}, so a pass over the operands comes first",
        got=plan.where,
        needs=f"prepass, where the scheme's normalize = {plan.scheme.normalize}", remedy='where = "prepass"',
    )


def stored_in_kernel(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [split] where", "kernels that split in the main kernel read FP32", got=f"{plan.where}, [problem] b = {plan.inputs.stored_b.name}",
        needs="prepass, whose pass over B packs it as it is", remedy='where = "prepass"',
    )


def not_by_lanes(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [split] where", f"fragments of {plan.fragment.policy} and {plan.fragment.word} are not filled by lanes", got=plan.where,
        needs="words that FP32 is split into, on a policy whose kernels do so in registers", remedy='where = "prepass" or "shared", or another policy',
    )


def rows_of_lines(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    operand = next(one for one in plan.operands if not one.k_contiguous and one.tile % 32)
    return InfeasibleSpec(
        f"{place}: [tile] block", f"block {operand.outer} is no whole number of 128-byte lines of FP32", got=operand.tile,
        needs=f"a multiple of 32: operand {operand.name} is stored along {operand.outer} and split in registers",
        remedy=f"block {operand.outer} = {-(-operand.tile // 32) * 32}, or another split",
    )


def single_step(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [pipeline] fragment_buffers", "a tile that passes through registers leaves no room for a second buffer", got=plan.fragment_buffers,
        needs="1, or a matrix unit and block k of at least two instructions", remedy="fragment_buffers = 1",
    )


def outside_the_fit(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [tile] warp", "the register model does not reach so far", got=max(plan.warp[:2]),
        needs="at most 128; with promotion after every instruction also smaller ones for more products, and two instructions a stage", remedy="a smaller tile",
    )
