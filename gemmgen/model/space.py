"""The space of plans: every candidate enumerated, pruned by the constraints and ranked.

Candidates are rows of columns of numbers, so that one evaluation of an equation
serves all of them. The axes join in four steps (tiles; ways to shared memory and slices
of k; promotion, fragment buffers and stages; groups), and each constraint prunes as soon as its symbols
are there. What it rejects is counted with all that could still have joined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.scheme import Scheme
from gemmgen.model import registers, resources, time, traffic
from gemmgen.model.equation import Constraint, Equation, Numbers, solved
from gemmgen.plan import PADDING, Hints, Plan

BLOCK_K = (16, 32, 64, 128)
MAX_BLOCK = 256
LEAST_WARP = 32
"""Smaller warps fetch more than they multiply; a search considers them where larger ones leave SMs idle."""
STAGES = (2, 3, 4, 5, 6, 7, 8)
GROUPS = (1, 2, 4, 8, 16)
SLICES = (1, 2, 3, 4, 6, 8)
OTHER_REGISTERS = 48
"""Addresses, loop counters and one product's fragments: what a thread needs at least beside its accumulators."""

_BLOCK_KS = " | ".join(f"(BK == {k})" for k in BLOCK_K)

TILE_CONSTRAINTS = (
    Constraint("C1", "block k", f"(BK % FK == 0) & ({_BLOCK_KS})", "rows of whole 16-byte chunks that the swizzle can permute"),
    Constraint("C2", "warp k", "WK == BK", "a warp works through the whole stage"),
    Constraint("C3", "warp m", "WM % FM == 0", "whole fragments"),
    Constraint("C4", "warp n", "WN % (fetched_together * FN) == 0", "one ldmatrix of B fetches two fragments side by side"),
    Constraint("C5", "block m", "BM % WM == 0", "whole warps"),
    Constraint("C6", "block n", "BN % WN == 0", "whole warps"),
    Constraint("C7", "threads", "threads <= threads_per_block", "the hardware's limit"),
)
PIPELINE_CONSTRAINTS = (
    Constraint("C8", "fragment buffers", "(fragment_buffers == 1) | (BK % (2 * FK) == 0)", "two buffers take turns within a stage"),
    Constraint(
        "C9", "promotion", "(promote == 0) | ((promote % FK == 0) & ((BK % max(promote, 1) == 0) | (promote % BK == 0)))",
        "promotion falls between two instructions and keeps step with the stages",
    ),
    Constraint("C10", "shared memory", "shared_bytes <= shared_bytes_per_block", "EGEMM eq. 8, second line"),
    Constraint(
        "C11", "accumulators", "accumulator_registers + other_registers <= register_budget", "EGEMM eq. 8, first line, and WMMAe eq. 2",
    ),
)
WAY_CONSTRAINTS = (
    Constraint("C14", "asynchronous copies", "(held > 0) | (has_async > 0)", "cp.async came with sm_80"),
    Constraint("C15", "stages", "(held == 0) | (stages == 2) | (amd > 0)", "two stages take turns while the next tile is in registers; AMD's kernels may go round more"),
    Constraint("C16", "split in shared", "(split_shared == 0) | (held > 0)", "what is split before shared memory passes through registers"),
    Constraint("C17", "split in register", "(split_register == 0) | (held == 0) | (amd > 0)", "what is split behind shared memory is copied there as it is, on AMD through registers"),
    Constraint("C18", "scaled rows", "(split_reads == 1) | (split_shared + split_register == 0)",
               "row scales ask for a pass over the operands first, which may as well split them"),
    Constraint("C19", "fragments by lanes", "(split_register == 0) | (by_lanes > 0)", "lanes that fill fragments themselves need a documented map"),
    Constraint("C20", "rows of FP32", "(split_register == 0) | (((a_strided * BM) % 32 == 0) & ((b_strided * BN) % 32 == 0))",
               "an operand stored along m or n is staged in rows of whole 128-byte lines"),
    Constraint("C21", "loads between steps", "(held * fragment_buffers < 2) | ((BK > FK) & (on_unit > 0))",
               "the next tile is put away before a stage's last step; beside two buffers of plain FP32 it has no registers"),
)
FEW_TILES = Constraint(
    "C22", "slices of k", "(split_k == 1) | (tiles < sms)", "slices cost a way through L2; they are for tiles that leave SMs idle",
)
CONSTRAINTS = (*TILE_CONSTRAINTS, *WAY_CONSTRAINTS, *PIPELINE_CONSTRAINTS, *registers.PREDICTED, FEW_TILES)
STEERING = (*registers.PREDICTED, FEW_TILES)
"""Constraints that steer a choice and refuse nothing that a spec asks for."""

TILE_EQUATIONS = (resources.WARPS, resources.THREADS, traffic.TILES)
PIPELINE_EQUATIONS = (
    resources.ELEMENT_BYTES, resources.SHARED_BYTES, resources.ACCUMULATORS, resources.ACCUMULATOR_REGISTERS, resources.FRAGMENT_REGISTERS,
)

TLP = Equation(
    "P1", "tlp", "tiles * threads", "threads", "LE-GEMM eq. 12, with phi counting a block's warps as the authors' code does",
)
"""Together with intensity (T3) the two that LE-GEMM maximises and that pull apart."""

TIE = 0.02
"""Predicted times this close count as equal: the model cannot tell them apart."""


@dataclass(frozen=True)
class Way:
    """Where operands are split and how their tiles reach shared memory."""

    where: str
    loads: str

    @property
    def symbols(self) -> dict[str, int]:
        """What the equations know of it."""
        if self.loads == "bulk":
            return {"mixed": int(self.where == "mixed")}
        return {
            "split_shared": int(self.where == "shared"), "split_register": int(self.where == "register"),
            "held": int(self.loads != "async"), "spread": int(self.loads == "spread"),
        }

    @classmethod
    def of(cls, symbols: Numbers) -> Way:
        """The way that a candidate's symbols stand for."""
        if "mixed" in symbols:
            return cls("mixed" if symbols["mixed"] else "prepass", "bulk")
        where = "shared" if symbols["split_shared"] else "register" if symbols["split_register"] else "prepass"
        return cls(where, "spread" if symbols["spread"] else "grouped" if symbols["held"] else "async")


WAYS = tuple(Way(where, loads) for where, loads in (
    ("prepass", "async"), ("prepass", "spread"), ("shared", "spread"), ("register", "async"),
    ("prepass", "grouped"), ("shared", "grouped"),
))
"""Those that a search considers come first; grouped loads are for those who ask for them, and for kernels without a matrix unit."""


BULK_WAYS = (Way("prepass", "bulk"), Way("mixed", "bulk"))
"""Those of the warp-specialised skeleton."""


HELD_WAYS = (Way("prepass", "grouped"), Way("shared", "grouped"), Way("register", "grouped"))
"""AMD's: tiles come through registers, and where their loads stand among the matrix instructions its compiler decides."""


def held_ways(where: str | None, loads: str | None) -> tuple[Way, ...]:
    """The ways that a spec leaves open on AMD; none where it asks for others."""
    return tuple(way for way in HELD_WAYS if where in (None, way.where) and loads in (None, way.loads))


def bulk_ways(where: str | None, loads: str | None) -> tuple[Way, ...]:
    """The ways that a spec leaves open where a copy engine loads; none where it asks for others."""
    return tuple(way for way in BULK_WAYS if where in (None, way.where) and loads in (None, way.loads))


def ways(where: str | None, loads: str | None, has_async: bool, held: str = "spread") -> tuple[Way, ...]:
    """The ways that a spec leaves open; one that cannot be, for a constraint to name, where none is left.

    Copies that go past the registers are never worse than packed words through them, so these are for GPUs without.

    Args:
        held: how a search has loads through registers stand: spread among matrix instructions; plain multiply-adds
            would take far more registers for it, as their steps are unrolled then.
    """
    if where and loads:
        return (Way(where, loads),)
    found = [way for way in WAYS if where in (None, way.where) and loads in (None, way.loads)]
    if loads is None:
        found = [way for way in found if way.loads in ("async", held) and not (has_async and way == Way("prepass", held))]
        usable = [way for way in found if has_async or way.loads != "async"]
        found = usable or found
    return tuple(found) or (Way(where or "prepass", loads or "async"),)


@dataclass(frozen=True)
class Choices:
    """What a spec fixes; None and empty where it leaves a choice.

    Attributes:
        small: whether the problem is too small for warps of LEAST_WARP to use every SM.
    """

    block: tuple[int, int, int] | None = None
    warp: tuple[int, int, int] | None = None
    stages: int | None = None
    fragment_buffers: int | None = None
    group: int | None = None
    split_k: int | None = None
    promote: Sequence[int] = field(default=(0,))
    ways: Sequence[Way] = field(default=(WAYS[0],))
    cluster: int | None = None
    consumers: str | None = None
    small: bool = False


@dataclass(frozen=True)
class Skeleton:
    """One of the kernels' designs, as the model knows it.

    Attributes:
        decisions: the symbols that stand for a plan's decisions.
        tile_equations, pipeline_equations: what constraints ask for, once tiles and once all is decided.
        registers: adds what the register model says to numbers, for a generation.
        predictions: traffic and time, after occupancy.
        constraints: that every candidate must satisfy.
        steering: those of them that steer a choice and refuse nothing that a spec asks for.
        axes: the four steps in which candidates are enumerated.
        equations: all, by title, as an explanation lists them.
        preference: keys that order candidates whose times the model cannot tell apart, the first weighing most.
    """

    name: str
    decisions: tuple[str, ...]
    tile_equations: tuple[Equation, ...]
    pipeline_equations: tuple[Equation, ...]
    registers: Callable[[Numbers, int], dict[str, Any]]
    predictions: tuple[Equation, ...]
    constraints: tuple[Constraint, ...]
    steering: tuple[Constraint, ...]
    axes: Callable[[Choices, Fragment], list[dict[str, np.ndarray]]]
    equations: tuple[tuple[str, tuple[Equation, ...]], ...]
    preference: Callable[[Numbers], tuple[np.ndarray, ...]]


def constants(layout: str, scheme: Scheme, fragment: Fragment, gpu: Gpu, hints: Hints) -> dict[str, Any]:
    """The symbols that no candidate changes."""
    fm, fn, fk = fragment.shape
    scaled = scheme.normalize == "row"
    return {
        # Of a product without elements no equation tells anything; it is planned as the smallest that has some.
        # As FP64 they stay right where products of three overflow 64 bits, and integers up to 2^53 are exact.
        "M": float(max(1, hints.m)), "N": float(max(1, hints.n)), "K": float(max(1, hints.k)), "FM": fm, "FN": fn, "FK": fk,
        "on_unit": int(fragment.on_matrix_unit), "a_lanes": fragment.a.lane_copies if fragment.a else 1, "b_lanes": fragment.b.lane_copies if fragment.b else 1,
        "words": len(scheme.words), "word_bytes": scheme.format.bytes, "products": len(scheme.products),
        "sums": len(scheme.accumulators), "promoted_sums": sum(acc.promoted for acc in scheme.accumulators),
        "split_reads": 2 if scaled else 1, "other_registers": OTHER_REGISTERS,
        "has_async": int(gpu.async_copies), "amd": int(gpu.vendor == "amd"), "fetched_together": fragment.fetched_together,
        "by_lanes": int(fragment.by_lanes), "padding": PADDING if fragment.by_stride else 0,
        "a_strided": int(layout[0] == "t"), "b_strided": int(layout[1] == "n"),
        **resources.limit_numbers(gpu.limits), **time.rate_numbers(gpu, scheme.word),
    }


DECISIONS = ("BM", "BN", "BK", "WM", "WN", "WK", "stages", "fragment_buffers", "group", "split_k", "promote", "split_shared", "split_register", "held", "spread")

OF_REGISTERS = ("WM", "WN", "BK", "split_shared", "split_register", "mixed", "held", "spread", "fragment_buffers", "pingpong", "register_budget")
"""What a thread's demand for registers rests on, and what there is: where the compiler spills, another value of one of these may help most."""

TELLING = (*OF_REGISTERS, "BM", "BN", "stages")
"""All that changes a kernel's main loop for the compiler; groups, slices of k and clusters hardly do."""


def decisions(plan: Plan) -> dict[str, int]:
    """The symbols that stand for a plan's decisions."""
    (bm, bn, bk), (wm, wn, wk) = plan.block, plan.warp
    chosen = (bm, bn, bk, wm, wn, wk, plan.stages, plan.fragment_buffers, plan.group, plan.split_k, plan.promote)
    specialised = {"cluster": plan.cluster, "pingpong": int(plan.consumers == "pingpong")} if plan.specialised else {}
    return dict(zip(DECISIONS, chosen)) | specialised | Way(plan.where, plan.loads).symbols


def budgets(numbers: Numbers, arch_number: int, skeleton: Skeleton | None = None) -> dict[str, Any]:
    """`numbers` with all that the constraints ask for."""
    skeleton = skeleton or PORTABLE
    return skeleton.registers(solved((*skeleton.tile_equations, *skeleton.pipeline_equations), numbers), arch_number)


def predictions(numbers: Numbers, skeleton: Skeleton | None = None) -> dict[str, Any]:
    """What `budgets` gives, with occupancy, traffic and time."""
    return solved((skeleton or PORTABLE).predictions, resources.resident(numbers))


# ---- enumeration


@dataclass(frozen=True)
class Space:
    """What became of all candidates.

    Attributes:
        candidates: how many there were.
        rejected: how many each constraint rejected, by its label; each candidate
            counts at the first that it breaks.
        columns: the symbols of those that remain.
        nearest: decisions of a rejected candidate that came furthest, where none remains.
        broken: the constraint that it breaks, with all others of those.
    """

    candidates: int
    rejected: dict[str, int]
    columns: Mapping[str, Any]
    nearest: dict[str, int] | None = None
    broken: Constraint | None = None

    @property
    def feasible(self) -> int:
        return len(self.columns["BM"]) if self.columns else 0


def enumerate_space(
    choices: Choices, fixed: Numbers, fragment: Fragment, arch_number: int,
    constraints: Sequence[Constraint] | None = None, skeleton: Skeleton | None = None,
) -> Space:
    """All candidates that `choices` leaves, pruned.

    Args:
        fixed: the constants of every candidate.
        constraints: those that count; None is all of the skeleton.
    """
    skeleton = skeleton or PORTABLE
    tiles, ways, pipelines, groups = skeleton.axes(choices, fragment)
    steps = (
        (tiles, skeleton.tile_equations, None), (ways, (), None), (pipelines, skeleton.pipeline_equations, arch_number), (groups, (), None),
    )
    widths = [len(next(iter(axes.values()))) for axes, _, _ in steps]
    candidates = int(np.prod(widths))
    rejected: dict[str, int] = {}
    columns: dict[str, Any] = {}
    waiting = list(skeleton.constraints if constraints is None else constraints)
    for number, (axes, equations, arch) in enumerate(steps):
        columns = crossed(columns, axes)
        known = solved(equations, {**fixed, **columns})
        if arch is not None:
            known = skeleton.registers(known, arch)
        columns |= {name: value for name, value in known.items() if name not in fixed and isinstance(value, np.ndarray)}
        ready = [one for one in waiting if all(name in known for name in one.variables)]
        waiting = [one for one in waiting if one not in ready]
        known, alive = {**fixed, **columns}, np.full(columns["BM"].shape, True)
        for constraint in ready:
            holds = alive & constraint.holds(known)
            broken = int(alive.sum() - holds.sum()) * int(np.prod(widths[number + 1 :]))
            if broken:
                rejected[constraint.label] = broken
            if not holds.any():
                left = {name: value[alive] for name, value in columns.items()}
                return Space(candidates, rejected, {}, _nearest(left, skeleton.decisions), constraint)
            alive = holds
        columns = {name: value[alive] for name, value in columns.items()}
    return Space(candidates, rejected, columns)


def crossed(columns: Mapping[str, Any], axes: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Every row of `columns` with every row of `axes`."""
    width = len(next(iter(axes.values())))
    if not columns:
        return dict(axes)
    length = len(next(iter(columns.values())))
    return {name: np.repeat(value, width) for name, value in columns.items()} | {
        name: np.tile(value, length) for name, value in axes.items()
    }


USUAL = {"BM": 128, "BN": 128, "BK": 32, "WM": 64, "WN": 32, "stages": 3, "fragment_buffers": 1, "promote": 128}


def _nearest(columns: Mapping[str, Any], decisions: Sequence[str]) -> dict[str, int]:
    """The candidate whose refusal a user would understand best: the one closest to a usual shape."""
    distance = sum(abs(np.log2(np.maximum(columns[name], 1) / usual)) for name, usual in USUAL.items() if name in columns)
    row = int(np.argmin(distance))
    return {name: int(columns[name][row]) for name in decisions if name in columns}


def _tiles(choices: Choices, fragment: Fragment) -> dict[str, np.ndarray]:
    fm, fn, fk = fragment.shape
    pairs = {
        axis: _extents(choices.block and choices.block[at], choices.warp and choices.warp[at], unit, choices.small)
        for axis, at, unit in (("m", 0, fm), ("n", 1, fragment.fetched_together * fn))
    }
    if choices.block or choices.warp:
        depths = [((choices.block or choices.warp)[2], (choices.warp or choices.block)[2])]
    else:
        depths = [(k, k) for k in BLOCK_K if k % fk == 0]
    rows = [(*m, *n, *k) for m in pairs["m"] for n in pairs["n"] for k in depths]
    return dict(zip(("BM", "WM", "BN", "WN", "BK", "WK"), np.array(rows).T))


def _extents(block: int | None, warp: int | None, unit: int, small: bool) -> list[tuple[int, int]]:
    """(block, warp) extents along one axis: whole warps of whole fragments, unless the spec fixes others."""
    if block and warp:
        return [(block, warp)]
    if block:
        # A block that no warp divides still makes a candidate, for a constraint to name.
        return [(block, w) for w in range(unit, block + 1, unit) if block % w == 0] or [(block, unit)]
    if warp:
        return [(b, warp) for b in range(warp, max(MAX_BLOCK, warp) + 1, warp)]
    least = -(-(LEAST_WARP // 2 if small else LEAST_WARP) // unit) * unit
    most = MAX_BLOCK // 2 if small else MAX_BLOCK
    return [(b, w) for b in range(least, most + 1, unit) for w in range(least, b + 1, unit) if b % w == 0]


def _pipelines(choices: Choices) -> dict[str, np.ndarray]:
    rows = [
        (promote, buffers, stages)
        for promote in choices.promote
        for buffers in ((choices.fragment_buffers,) if choices.fragment_buffers else (1, 2))
        for stages in ((choices.stages,) if choices.stages else STAGES)
    ]
    return dict(zip(("promote", "fragment_buffers", "stages"), np.array(rows).T))


def _ways(choices: Choices) -> dict[str, np.ndarray]:
    slices = (choices.split_k,) if choices.split_k else SLICES
    rows = [(count, *way.symbols.values()) for count in slices for way in choices.ways]
    return dict(zip(("split_k", *WAYS[0].symbols), np.array(rows).T))


def _preference(known: Numbers) -> tuple[np.ndarray, ...]:
    """The largest intensity (T3), then the least traffic with device memory (T13), the most threads (P1), the least
    shared memory, the smaller group, the taller tile. On AMD, where no timing says what fetches cost, before the threads:
    two wavefronts a SIMD, of which one multiplies while the other waits, then the least traffic of fragments (T4)."""
    alone = known["amd"] * (known["resident_blocks"] * known["warps"] < 2 * known["partitions"])
    fetched = known["amd"] * known["fetch_bytes"] / known["stage_flops"]
    return -known["intensity"], known["dram_bytes"], alone, fetched, -known["tlp"], known["shared_bytes"], known["group"], -known["BM"], -known["WM"]


def _axes(choices: Choices, fragment: Fragment) -> list[dict[str, np.ndarray]]:
    groups = {"group": np.array((choices.group,) if choices.group else GROUPS)}
    return [_tiles(choices, fragment), _ways(choices), _pipelines(choices), groups]


PORTABLE = Skeleton(
    "portable", DECISIONS, TILE_EQUATIONS, PIPELINE_EQUATIONS, registers.predict,
    (*traffic.BLOCK_EQUATIONS, *traffic.PROBLEM_EQUATIONS, TLP, *time.EQUATIONS), CONSTRAINTS, STEERING, _axes,
    (
        ("Resources", (*TILE_EQUATIONS, *PIPELINE_EQUATIONS)),
        ("Registers", (
            *registers.EQUATIONS, registers.DEMAND, registers.BUDGET, registers.MEANT_BLOCKS, registers.GRANTED,
            registers.REGISTERS, registers.UNEVEN,
        )),
        ("Occupancy", resources.OCCUPANCY_EQUATIONS),
        ("Traffic", (*traffic.BLOCK_EQUATIONS, *traffic.PROBLEM_EQUATIONS, TLP)),
        ("Time", time.EQUATIONS),
    ),
    _preference,
)


# ---- ranking


def ranked(space: Space, fixed: Numbers, skeleton: Skeleton | None = None) -> tuple[dict[str, Any], np.ndarray]:
    """The feasible candidates' predictions, and their order, best first.

    Times within TIE of the best count as equal to it, and the skeleton's preference orders those. The rest follow by time.
    """
    known = predictions({**fixed, **space.columns}, skeleton)
    length = len(space.columns["BM"])
    known = {name: np.broadcast_to(value, length) for name, value in known.items() if np.ndim(value) <= 1}
    seconds = known["seconds"]
    tied = seconds <= seconds.min() * (1 + TIE)
    first, *others = (skeleton or PORTABLE).preference(known)
    order = np.lexsort((*reversed(others), np.where(tied, first, 0), np.where(tied, 0, seconds)))
    return known, order


def pareto_front(known: Mapping[str, Any]) -> np.ndarray:
    """Rows no other beats in both intensity (T3) and threads (P1): one for each pair of values, the fastest."""
    order = np.lexsort((known["seconds"], -known["tlp"], -known["intensity"]))
    front, most = [], -1.0
    for row in order:
        if known["tlp"][row] > most:
            front.append(row)
            most = known["tlp"][row]
    return np.array(front)
