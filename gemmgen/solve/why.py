"""Why a plan is as fast as it is: what limits it, the runner-up, and what would change the choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gemmgen.designs.modelled import Modelled
from gemmgen.errors import GemmgenError
from gemmgen.plan import Plan
from gemmgen.solve import Explanation, search, solve
from gemmgen.solve.frontier import with_scheme

RESOURCES: Mapping[str, tuple[tuple[str, ...], int]] = {
    "the matrix unit": (("tensor_fma_per_clock",), 1), "power": (("unit_rate",), 1), "FP32 units": (("f32_fma_per_clock",), 1),
    "shared memory": (("shared_bytes_per_clock",), 1), "L2": (("l2_bytes_per_clock",), 1), "device memory": (("dram_rate", "once_rate"), 1),
    "launches": (("launch_seconds", "one_launch_seconds", "overlap_seconds", "pass_seconds", "cluster_seconds"), -1),
    "memory latency": (("memory_cycles", "start_cycles", "turn_cycles_each", "split_a_cycles", "group_gap", "split_wait"), -1),
    "instruction issue": (("cycles_per_instruction", "stage_instructions"), -1),
    "stores of C": (("tile_cycles", "store_cycles", "store_cycles_per_element"), -1),
}
"""What a predicted time may hang on: its symbols, and whether more of them is faster (1) or slower (-1)."""
STEP = 1e-3
LEAST_SHARE = 0.03
"""Of the predicted time, what is worth telling."""
SHARED, REGISTERS, TENSOR = "shared memory", "more registers a thread", "tensor memory"
MOVABLE = {"shared memory": SHARED, "predicted to spill": REGISTERS, "accumulators": REGISTERS, "tensor memory": TENSOR}
"""Names of the constraints that more of a resource would move, and that resource; the others are what the kernels are."""
GROUP = "group"
WORTH = 0.02
"""Of the predicted time, what a choice without one of them must save to be told."""


@dataclass(frozen=True)
class Change:
    """What would change the choice.

    Attributes:
        what: that has to change, in words.
        then: the choice, as far as it differs from the plan's, in words.
        seconds: predicted for it.
    """

    what: str
    then: str
    seconds: float


@dataclass(frozen=True)
class Why:
    """
    Attributes:
        limits: of the predicted time, the shares that resources take, the largest first: how many per cent of it one per cent more of a rate saves, by 100.
        runner: (what of the next best choice differs, its predicted seconds); None where there is none.
        changes: what would change the choice.
    """

    limits: tuple[tuple[str, float], ...]
    runner: tuple[str, float] | None
    changes: tuple[Change, ...]

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "limits": dict(self.limits), "runner_up": {"choice": self.runner[0], "seconds": self.runner[1]} if self.runner else None,
            "changes": [{"what": one.what, "then": one.then, "seconds": one.seconds} for one in self.changes],
        }


def why(e: Explanation) -> Why:
    """Of an explained plan."""
    return Why(limits(e.plan), runner_up(e), (*without(e), *smaller(e)))


def limits(plan: Plan) -> tuple[tuple[str, float], ...]:
    """Shares of the predicted time by resource; none where the design's times come another way than by its equations."""
    if type(plan.design).resources is not Modelled.resources or type(plan.design).model is not Modelled.model:
        return ()
    known = plan.design.constants_of(plan) | plan.design.encoded(plan)

    def seconds(**changed: float) -> float:
        return float(plan.design.predicted(plan.design.budgets({**known, **changed}, plan.gpu.registers))["seconds"])

    whole = seconds()
    found = {}
    for name, (symbols, sign) in RESOURCES.items():
        own = {symbol: known[symbol] * (1 + sign * STEP) for symbol in symbols if symbol in known and known[symbol]}
        found[name if plan.fragment.on_matrix_unit or name != "the matrix unit" else "FP32 units"] = (whole / seconds(**own) - 1) / STEP if own else 0.0
    shares = [(name, share) for name, share in found.items() if share >= LEAST_SHARE]
    return tuple(sorted(shares, key=lambda one: -one[1]))


def _differing(plan: Plan, decided: Mapping[str, Any]) -> str:
    """In words, what of these decisions the plan has otherwise."""
    other = [one for one in plan.design.decisions if one.name in decided and decided[one.name] != getattr(plan, one.name)]
    return ", ".join(one.told(decided[one.name]) for one in other)


def runner_up(e: Explanation) -> tuple[str, float] | None:
    """The fastest that a compiler would tell from the plan: another tile, other stages, or another policy."""
    found = []
    if e.runner:
        found.append((_differing(e.plan, e.runner.decided), e.runner.seconds))
    own = float(e.numbers["seconds"])
    others = sorted((seconds, name) for name, seconds in e.weighed.items() if seconds > own)
    if others:
        found.append((others[0][1], others[0][0]))
    return min(found, key=lambda one: one[1], default=None)


def without(e: Explanation) -> list[Change]:
    """The choice without each resource's limit that rejected candidates, where it saves time."""
    if not e.rejected or e.request.model or e.request.objective or e.request.settled:
        return []
    request, found = e.request, []
    # Groups decide when blocks run and take no resource: with all of them the space is five times as large.
    grouped = GROUP in request.design.symbols
    choices = replace(request.choices, fixed={**request.choices.fixed, GROUP: e.plan.group}) if grouped else request.choices
    every = (*request.design.constraints, *request.required)
    for resource in dict.fromkeys(MOVABLE[one.name] for one in every if one.name in MOVABLE and one.label in e.rejected):
        space = search.enumerate_space(
            request.design, choices, request.constants, request.fragment, request.gpu.registers,
            [one for one in every if MOVABLE.get(one.name) != resource],
        )
        if not space.feasible:
            continue
        known, order = search.ranked(request.design, space, request.constants)
        best = next((at for at in order if known["resident_blocks"][at] > 0), None)
        if best is None or float(known["seconds"][best]) > (1 - WORTH) * float(e.numbers["seconds"]):
            continue
        row = {name: int(known[name][best]) for name in request.design.symbols}
        decided = {name: value for name, value in request.design.decoded(row).items() if name in ("block", "warp", "stages", "fragment_buffers")}
        then = _differing(e.plan, decided)
        needs, has = int(known["shared_bytes"][best]), request.constants["shared_bytes_per_block"]
        what = f"{needs} B of shared memory a block in place of {has}" if resource == SHARED else resource
        found.append(Change(what, then, float(known["seconds"][best])))
    return sorted(found, key=lambda one: -one.seconds)


def smaller(e: Explanation) -> list[Change]:
    """The choice for a product whose extents are a quarter, where it is another."""
    if e.request.settled or e.request.batch:
        return []
    size = {name: max(1, extent // 4) for name, extent in zip("mnk", e.plan.hints.asked)}
    # An error that the spec asks for has led to the scheme, which stays.
    loaded = with_scheme(e.request.loaded, e.plan.scheme.name) if e.request.contract else e.request.loaded
    try:
        other = solve(loaded.model_copy(update={"spec": loaded.spec.model_copy(update={"problem": loaded.spec.problem.model_copy(update=size)})}))
    except GemmgenError:
        return []
    if other.hash == e.plan.hash:
        return []
    told = _differing(e.plan, other.decided)
    if other.design.name != e.plan.design.name:
        told = f"design {other.design.name}, block {'x'.join(map(str, other.block))}"
    if other.scheme.name != e.plan.scheme.name:
        told = f"scheme {other.scheme.name}, {told}"
    return [Change("a product of " + " x ".join(map(str, size.values())), told, float(other.model["seconds"]))]

