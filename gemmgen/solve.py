"""Spec -> Plan, or the reason why not, with the equation that says so.

Each constraint is stated once, in `check`. Where the spec says "auto", the
candidates below are tried in order and the first that passes is taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from gemmgen.catalog.fragment import Fragment, shapes
from gemmgen.catalog.gpu import GPUS, Gpu
from gemmgen.catalog.scheme import SCHEMES, Scheme
from gemmgen.errors import InfeasibleSpec, UnknownName
from gemmgen.model.resources import ACCUMULATOR_REGISTERS, SHARED_BYTES
from gemmgen.plan import Hints, Plan
from gemmgen.spec import LoadedSpec

BLOCK_K = (16, 32, 64, 128)
DEFAULT_PROMOTE = 128
DEFAULT_GROUP = 8
OTHER_REGISTERS = 48
"""Addresses, loop counters and one product's fragments: what a thread needs beside accumulators."""

TILES = (  # (block m, n), (warp m, n), from most to least reuse
    ((128, 128), (64, 32)),
    ((128, 64), (32, 32)),
    ((64, 64), (32, 32)),
    ((64, 64), (32, 16)),
)


def solve(loaded: LoadedSpec) -> Plan:
    """Decide everything the spec leaves open and check the whole.

    Raises:
        UnknownName: a scheme, GPU or fragment that no table holds.
        InfeasibleSpec: no kernel of this design satisfies the spec.
    """
    spec, place = loaded.spec, loaded.place
    scheme = SCHEMES.get(spec.split.scheme, where=f"{place}: [split] scheme", relative_to=loaded.folder)
    gpu = GPUS.get(spec.target.gpu, where=f"{place}: [target] gpu", relative_to=loaded.folder)
    fragment = _fragment(spec.fragment.shape, scheme, gpu, place)
    failure: InfeasibleSpec | None = None
    for block, warp, stages in _candidates(loaded):
        plan = Plan(
            layout=spec.problem.layout,
            scheme=scheme,
            fragment=fragment,
            gpu=gpu,
            where="prepass",
            promote=_promote(spec.split.promote, scheme, block[2]),
            special=spec.split.special,
            block=block,
            warp=warp,
            stages=stages,
            fragment_buffers=spec.pipeline.fragment_buffers or 1,
            group=spec.tile.group or DEFAULT_GROUP,
            allow_spills=spec.build.allow_spills,
            hints=Hints(spec.problem.m, spec.problem.n, spec.problem.k),
        )
        try:
            check(plan, place)
        except InfeasibleSpec as error:
            failure = failure or error  # the first candidate is the one a user would expect
            continue
        return plan
    assert failure is not None  # there is always a candidate
    raise failure


def _fragment(shape: str | None, scheme: Scheme, gpu: Gpu, place: str) -> Fragment:
    known = shapes(gpu.vendor, scheme.word)
    if shape is None:
        usable = [row for row in known.values() if row.min_arch <= gpu.arch_number]
        if usable:
            return max(usable, key=lambda row: row.shape[2])
        raise InfeasibleSpec(
            f"{place}: [fragment] shape", f"{gpu.name} has no matrix instruction for {scheme.word}",
            needs=f"sm_{min((row.min_arch for row in known.values()), default=80)} or newer",
            has=gpu.arch, remedy="another gpu",
        )
    if shape not in known:
        raise UnknownName(f"{place}: [fragment] shape", f"{scheme.word} fragment of {gpu.vendor}", shape, known)
    if known[shape].min_arch > gpu.arch_number:
        raise InfeasibleSpec(
            f"{place}: [fragment] shape", f"{gpu.name} does not have {shape}",
            got=shape, needs=f"sm_{known[shape].min_arch} or newer", has=gpu.arch, remedy="another gpu",
        )
    return known[shape]


def _promote(asked: int | None, scheme: Scheme, block_k: int) -> int:
    """One word rounds far more coarsely than the unit truncates, so it gains nothing."""
    if asked is not None:
        return asked
    return 0 if len(scheme.words) == 1 else max(DEFAULT_PROMOTE, block_k)


def _candidates(loaded: LoadedSpec) -> Iterator[tuple[tuple[int, int, int], tuple[int, int, int], int]]:
    """(block, warp, stages), what the spec fixes being fixed."""
    tile, stages = loaded.spec.tile, loaded.spec.pipeline.stages
    for (block_mn, warp_mn), count in itertools.product(TILES, (stages,) if stages else (3, 2)):
        block = tile.block or (*block_mn, tile.warp[2] if tile.warp else 32)
        yield block, tile.warp or (*_within(warp_mn, block), block[2]), count


def _within(warp: tuple[int, int], block: tuple[int, int, int]) -> tuple[int, int]:
    """The warp tile, cut to a block the user chose smaller."""
    return min(warp[0], block[0]), min(warp[1], block[1])


def check(plan: Plan, place: str = "plan") -> None:
    """Every constraint of the design, each once.

    Raises:
        InfeasibleSpec: the first one that the plan breaks.
    """
    _check_shapes(plan, place)
    _check_promote(plan, place)
    _check_budgets(plan, place)


def _check_shapes(plan: Plan, place: str) -> None:
    fm, fn, fk = plan.fragment.shape
    (bm, bn, bk), (wm, wn, wk) = plan.block, plan.warp
    if bk not in BLOCK_K or bk % fk:
        raise InfeasibleSpec(
            f"{place}: [tile] block", "block k cannot be staged", got=bk,
            needs=f"one of {', '.join(map(str, BLOCK_K))}: rows of whole 16-byte chunks that the swizzle can permute",
            remedy="block k = 32",
        )
    if wk != bk:
        raise InfeasibleSpec(
            f"{place}: [tile] warp", "warp k differs from block k", got=wk, needs=f"{bk}: a warp works through the whole stage",
            remedy=f"warp = [{wm}, {wn}, {bk}]",
        )
    # One ldmatrix.x4 of B fetches two fragments side by side.
    for axis, extent, unit in (("m", wm, fm), ("n", wn, 2 * fn)):
        if extent % unit:
            raise InfeasibleSpec(
                f"{place}: [tile] warp", f"warp {axis} is not a whole number of fragments", got=extent,
                needs=f"a multiple of {unit} ({plan.fragment.name})", remedy=f"warp {axis} = {max(unit, extent // unit * unit)}",
            )
    for axis, block, warp in (("m", bm, wm), ("n", bn, wn)):
        if block % warp:
            raise InfeasibleSpec(
                f"{place}: [tile] block", f"block {axis} is not a whole number of warps", got=block,
                needs=f"a multiple of warp {axis} = {warp}", remedy=f"block {axis} = {max(warp, block // warp * warp)}",
            )
    if plan.fragment_buffers == 2 and plan.k_steps % 2:
        raise InfeasibleSpec(
            f"{place}: [pipeline] fragment_buffers", "two fragment buffers need an even number of steps in a stage",
            got=2, needs=f"block k a multiple of {2 * fk}", has=f"block k = {bk}", remedy=f"block k = {2 * fk}, or fragment_buffers = 1",
        )
    if plan.threads > plan.gpu.limits.threads_per_block:
        raise InfeasibleSpec(
            f"{place}: [tile]", "too many threads in a block",
            needs=f"{plan.threads} = (BM / WM) * (BN / WN) * 32 = {plan.warps_m} * {plan.warps_n} * 32",
            has=f"{plan.gpu.limits.threads_per_block} on {plan.gpu.name}", remedy="larger warps or a smaller block",
        )


def _check_promote(plan: Plan, place: str) -> None:
    fk, bk, promote = plan.fragment.shape[2], plan.block[2], plan.promote
    if promote == 0 or (promote % fk == 0 and (bk % promote == 0 or promote % bk == 0)):
        return
    nearest = min((p for p in range(fk, max(2 * promote, bk) + bk, fk) if bk % p == 0 or p % bk == 0),
                  key=lambda p: abs(p - promote))
    raise InfeasibleSpec(
        f"{place}: [split] promote", "promotion falls between two instructions or drifts against the stages",
        got=promote, needs=f"0, or a multiple of {fk} that divides block k = {bk} or is a multiple of it",
        remedy=f"promote = {nearest}",
    )


def _check_budgets(plan: Plan, place: str) -> None:
    limits, gpu = plan.gpu.limits, plan.gpu.name
    numbers = {
        "stages": plan.stages, "BM": plan.block[0], "BN": plan.block[1], "BK": plan.block[2],
        "WM": plan.warp[0], "WN": plan.warp[1], "words": len(plan.scheme.words),
        "word_bytes": plan.scheme.format.bytes, "accumulators": plan.accumulator_sets,
        "warp_size": limits.warp_size,
    }
    if plan.shared_bytes > limits.shared_bytes_per_block:
        fits = limits.shared_bytes_per_block // plan.stage_bytes
        remedy = f"stages <= {fits}" if fits >= 2 else "a smaller block"
        if plan.block[2] > 16:
            remedy += f", or block k = {plan.block[2] // 2}"
        raise InfeasibleSpec(
            f"{place}: [pipeline]", f"stages = {plan.stages} does not fit {gpu}",
            needs=SHARED_BYTES.shown(numbers),
            has=f"{limits.shared_bytes_per_block} B of shared memory a block", remedy=remedy,
        )
    held = ACCUMULATOR_REGISTERS.value(numbers)
    budget = min(limits.registers_per_thread, limits.registers_per_sm // plan.threads // 8 * 8)
    if held + OTHER_REGISTERS > budget and not plan.allow_spills:
        raise InfeasibleSpec(
            f"{place}: [tile] warp", "the accumulators leave no room in the register file",
            needs=f"{ACCUMULATOR_REGISTERS.shown(numbers)}, and about {OTHER_REGISTERS} more",
            has=f"{budget} registers a thread at {plan.threads} threads on {gpu}",
            remedy="a smaller warp tile, promote = 0, or [build] allow_spills = true",
        )
