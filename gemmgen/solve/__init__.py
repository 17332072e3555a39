"""Spec -> Plan, or the reason why not, with the equation that says so.

What the spec fixes is checked. What it leaves open is filled from the whole
space (`solve/search.py`) by the least predicted time at the spec's sizes; the
interval of promotion by the error it leads to (`model/error.py`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from itertools import chain, islice, product
from typing import Any

import numpy as np

from gemmgen.catalog.scheme import preferred_scheme
from gemmgen.designs import Design, Way, common
from gemmgen.errors import InfeasibleSpec
from gemmgen.model.equation import Constraint
from gemmgen.model.expressions import Required
from gemmgen.plan import Plan
from gemmgen.shown import Shown
from gemmgen.solve import search
from gemmgen.solve.papers import TIME, Passed, Tile
from gemmgen.solve.request import Request, requests
from gemmgen.solve.fallback import with_fallback
from gemmgen.spec import Egemm, Legemm, LoadedSpec

SHOWN_BEST = 10
"""Candidates an explanation lists besides the chosen one."""

MOST_OF_A_WAY = 3
"""Choices of one way to shared memory, one after another: where the compiler refuses as many, the model errs about that way."""


@dataclass(frozen=True)
class Candidate:
    """A feasible candidate as an explanation lists it.

    Attributes:
        decided: the design's decisions by name.
    """

    decided: Mapping[str, Any]
    registers: int
    blocks_per_sm: int
    intensity: float
    threads: int
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for `--json`."""
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "decided"}
        return dict(self.decided) | own


@dataclass(frozen=True, repr=False)
class Explanation(Shown):
    """How a plan came about. `gemmgen explain` prints it in words.

    Attributes:
        numbers: every symbol of the model at the plan.
        candidates: how many there were; 1 where the spec leaves nothing open.
        feasible: how many satisfy every constraint.
        rejected: how many each inequality rejected, each candidate at the first it breaks.
        best: the feasible candidates with the least predicted time, the chosen one first.
        front: those no other beats in both intensity (T3) and threads at work (P1).
        tied: how many the model cannot tell from the fastest, or how many are as good by the spec's own objective.
        solve_seconds: the whole of it.
        scheme_reason: why the scheme, where the spec leaves it open; else empty.
        weighed: predicted seconds of each policy's best plan, and of each design's that another package brings, where the spec leaves these open.
        request: the spec with its names looked up, for the plan's policy.
        tile: of a paper's model that chose it, None where none did; passed: those that it preferred and no kernel has.
        runner: the best candidate that a compiler would tell from the chosen one; None where there is none.
        ours: the plan that the predicted time chooses, beside a paper's; None where it has none, or no paper's model chose.
    """

    plan: Plan
    numbers: Mapping[str, Any]
    candidates: int
    feasible: int
    rejected: Mapping[str, int]
    best: tuple[Candidate, ...]
    front: tuple[Candidate, ...]
    tied: int
    solve_seconds: float
    scheme_reason: str
    weighed: Mapping[str, float]
    request: Request
    tile: Tile | None = None
    passed: tuple[Passed, ...] = ()
    ours: Plan | None = None
    runner: Candidate | None = None

    def _told(self) -> dict[str, Any]:
        known = self.numbers
        return {**self.plan._told(), "scheme because": self.scheme_reason, "predicted": f"{known['seconds'] * 1e3:.3g} ms, {known['tflops']:.1f} TFLOP/s",
                "takes": f"{known['registers']} registers a thread, {known['shared_bytes']} B of shared memory",
                "searched": f"{self.candidates} candidates, {self.feasible} feasible" if self.candidates > 1 else None}


def solve(loaded: LoadedSpec) -> Plan:
    """Decide everything the spec leaves open and check the whole.

    Raises:
        UnknownName: a scheme, GPU or fragment that no table holds.
        InfeasibleSpec: no kernel of this design satisfies the spec.
    """
    return with_fallback(loaded, next(_ranked(loaded)).plan, solve)


def choices(loaded: LoadedSpec) -> Iterator[Plan]:
    """The plans to try one after another, for whoever finds that the compiler refuses one: `solve`'s first.

    Each differs from all before it in what a compiler looks at (`Design.telling`), and as long as there is such a plan in
    what the demand for registers rests on. What the spec fixes stays fixed, so a spec that leaves nothing of that open
    has one plan.

    Raises:
        UnknownName, InfeasibleSpec: as `solve`.
    """
    return (with_fallback(loaded, solution.plan, solve) for solution in _ranked(loaded))


def explain(loaded: LoadedSpec, refused: int = 0) -> Explanation:
    """Solve and tell how.

    Args:
        refused: how many of `choices` the compiler refuses; the next one is explained.

    Raises:
        UnknownName, InfeasibleSpec: as `solve`.
        IndexError: there are no more choices.
    """
    start = time.perf_counter()
    solution = next(islice(_ranked(loaded), refused, None), None)
    if solution is None:
        raise IndexError(f"{loaded.place}: no more than {refused} choices")
    told = solution.explained(start)
    if solution.tile:
        told = replace(told, tile=solution.tile, passed=solution.passed, ours=_by_time(loaded))
    return replace(told, plan=with_fallback(loaded, told.plan, solve))


def _by_time(loaded: LoadedSpec) -> Plan | None:
    """What the predicted time chooses where a paper's model did; None where nothing is feasible."""
    asked = loaded.spec.solve.model_copy(update={"model": TIME, "egemm": Egemm(), "legemm": Legemm()})
    try:
        return next(_ranked(loaded.model_copy(update={"spec": loaded.spec.model_copy(update={"solve": asked})}))).plan
    except InfeasibleSpec:
        return None


def alternatives(loaded: LoadedSpec, best: int, drawn: int, seed: int = 0) -> tuple[list[Plan], list[Plan]]:
    """The plans with the least predicted time, the chosen one first, and others drawn from all feasible ones.

    For measuring what the model's choice is worth.

    Raises:
        UnknownName, InfeasibleSpec: as `solve`.
    """
    solution = next(_ranked(loaded))
    if solution.order is None:
        return [solution.plan], []
    rest = np.random.default_rng(seed).permutation(np.asarray(solution.order[best:]))[:drawn]
    return [solution.plan_at(at) for at in solution.order[:best]], [solution.plan_at(at) for at in rest]


def judged(loaded: LoadedSpec) -> Explanation:
    """`explain`, but strict: what the spec fixes must satisfy every inequality, predicted ones too.

    Raises:
        UnknownName, InfeasibleSpec: as `solve`; the problem names the inequality and its numbers.
    """
    errors = []
    for request in requests(loaded):
        if request.batch and request.batch.tiles:  # the batch tells all tiles, and no search has them as its axes
            plan = request.plan({})
            broken, numbers = _broken(plan, request.design.constraints, request.required)
        else:
            searched = search.enumerate_space(
                request.design, request.choices, request.constants, request.fragment, request.gpu.registers,
                (*request.design.constraints, *request.required),
            )
            if broken := searched.broken:
                plan = request.plan(searched.nearest)
                numbers = plan.model
        if not broken:
            return explain(loaded)
        error = broken.refusal(plan, numbers, loaded.place)
        error.problem += f"; it breaks {broken.number}, {broken.form}: {broken.filled(numbers)}"
        errors.append(error)
    raise errors[-1]


def check(plan: Plan, place: str = "plan") -> None:
    """Every constraint of the design on a plan whose maker asked for it.

    That the compiler will spill is a prediction, so it does not refuse here:
    the build tells.

    Raises:
        InfeasibleSpec: the first constraint that the plan breaks.
    """
    broken, numbers = _broken(plan, plan.design.certain(plan.allow_spills))
    if broken:
        raise broken.refusal(plan, numbers, place)


# ---- deciding


@dataclass(frozen=True)
class _Solution:
    """A request's best plan, and, unless nothing was left open, the space it comes from.

    Attributes:
        known: the predictions of all feasible candidates; order: theirs, best first.
        weighed: predicted seconds by policy, and by the design that another package brings, of all that were solved for.
        tile: of a paper's model that chose it; passed: those that the model preferred.
    """

    request: Request
    plan: Plan
    searched: search.Space | None = None
    known: Mapping[str, Any] | None = None
    order: Sequence[int] | None = None
    weighed: Mapping[str, float] = field(default_factory=dict)
    tile: Tile | None = None
    passed: tuple[Passed, ...] = ()

    @property
    def seconds(self) -> float:
        if self.known is None:
            return float(self.plan.model["seconds"])
        return float(self.known["seconds"][self.order[0]])  # the same, and all candidates' were computed at once

    @property
    def rank(self) -> tuple[float, float]:
        """What makes a policy's best plan better than another's: the spec's own objective, then the predicted time."""
        objective = self.request.objective
        return float(objective.cost(self.plan.model)) if objective else 0.0, self.seconds

    @property
    def scheme_reason(self) -> str:
        if self.request.contract:
            asked = self.request.contract
            figure = asked.told(self.plan.scheme, self.request.unit, self.plan.promote, self.plan.promotion.compensates)
            return f"the fastest of those that give {asked.text}; {figure}"
        if self.request.loaded.spec.split.scheme != "auto":
            return ""
        spec = self.request.loaded.spec
        preferred = preferred_scheme(self.plan.gpu.unit, spec.problem.b, spec.problem.part.name, spec.accuracy.reproducible)
        if self.plan.scheme.name == preferred.name:
            return preferred.reason
        return f"no word need be split where memory binds; {preferred.name} is predicted slower"

    def plan_at(self, at: int) -> Plan:
        """The plan of a candidate."""
        return _plan_at(self.request, self.known, at)

    def explained(self, start: float) -> Explanation:
        numbers, design = self.plan.model, self.plan.design
        if self.order is None:
            one = (_candidate(design, numbers),)
            return Explanation(self.plan, numbers, 1, 1, {}, one, one, 1, time.perf_counter() - start, self.scheme_reason, self.weighed, self.request)
        known = self.known
        rows = [_row(known, at) for at in self.order[:SHOWN_BEST]]
        front = [_row(known, at) for at in search.pareto_front(known)]
        objective = self.request.objective
        if objective:
            cost = np.broadcast_to(objective.cost(known), len(known["seconds"]))
            tied = int((cost == cost.min()).sum())
        else:
            tied = int((known["seconds"] <= known["seconds"].min() * (1 + search.TIE)).sum())
        others = _unlike(known, np.asarray(self.order), _row(known, self.order[0]), design.telling)
        return Explanation(
            runner=_candidate(design, _row(known, others[0])) if len(others) else None,
            plan=self.plan, numbers=numbers, candidates=self.searched.candidates, feasible=self.searched.feasible,
            rejected=self.searched.rejected, best=tuple(_candidate(design, row) for row in rows),
            front=tuple(_candidate(design, row) for row in front), tied=tied,
            solve_seconds=time.perf_counter() - start, scheme_reason=self.scheme_reason, weighed=self.weighed,
            request=self.request,
        )


def _plan_at(request: Request, known: Mapping[str, Any], at: int) -> Plan:
    return request.plan({name: int(known[name][at]) for name in request.design.symbols}, predicted_registers=int(known["registers"][at]))


def _ranked(loaded: LoadedSpec) -> Iterator[_Solution]:
    """All solutions, of all policies that the spec leaves open, each the fastest of those unlike all before it (`choices`)."""
    heads, refused = [], []
    for request in requests(loaded):
        solutions = _solutions(request)
        try:
            heads.append((next(solutions), solutions))
        except InfeasibleSpec as error:
            refused.append(error.with_traceback(None))
    if not heads:
        raise refused[-1]
    while heads:
        ranks = [solution.rank for solution, _ in heads]
        at = ranks.index(min(ranks))
        solution, others = heads[at]
        yield replace(solution, weighed={_way_told(one): seconds for (one, _), (_, seconds) in zip(heads, ranks)})
        following = next(others, None)
        heads[at:at + 1] = [(following, others)] if following else []


def _solutions(request: Request) -> Iterator[_Solution]:
    """Of one request, its best first: where a paper's model chooses, those of its tiles, one after another.

    Raises:
        InfeasibleSpec: there is none.
    """
    if request.model is None:
        yield from _checked(request) if request.choices.settle(request.design.decisions) else _chosen(request)
        for smaller in request.with_smaller_tiles():
            with suppress(InfeasibleSpec):
                yield from _checked(smaller)
        return
    passed: list[Passed] = []
    first: InfeasibleSpec | None = None
    for tile in request.model.tiles:
        narrowed = request.with_tile(tile)
        try:
            for solution in _checked(narrowed) if narrowed.choices.settle(narrowed.design.decisions) else _chosen(narrowed):
                yield replace(solution, tile=tile, passed=tuple(passed))
                first = first or InfeasibleSpec(request.loaded.place, "there is no more")
        except InfeasibleSpec as error:
            first = first or error
            passed.append(Passed(tile, error.problem))
    if passed and len(passed) == len(request.model.tiles):
        raise first


def _way_told(one: _Solution) -> str:
    """The policy, with the design where that is not the policy's usual one, and the scheme where an error is asked for."""
    plan = one.plan
    return (f"{plan.scheme.name} " if one.request.contract else "") + plan.fragment.policy + (f" {plan.designed}" if plan.designed else "")


def _broken(plan: Plan, constraints: Sequence[Constraint], required: Sequence[Required] = ()) -> tuple[Constraint | None, Mapping[str, Any]]:
    """The first inequality that a plan breaks, None for none, and the numbers that show it.

    Args:
        constraints: of the design; what they leave out has no traffic or time, which `required` may ask for.
    """
    broken = next((one for one in constraints if not one.holds(plan.numbers)), None)
    if broken or not required:
        return broken, plan.numbers
    return next((one for one in required if not one.holds(plan.model)), None), plan.model


def _checked(request: Request) -> Iterator[_Solution]:
    """The plan of a spec that leaves nothing open."""
    plan = request.plan({})
    broken, numbers = _broken(plan, plan.design.certain(plan.allow_spills), request.required)
    if broken:
        raise broken.refusal(plan, numbers, request.loaded.place)
    yield _Solution(request, replace(plan, predicted_registers=int(plan.numbers["registers"])))


def _chosen(request: Request) -> Iterator[_Solution]:
    """The best candidate, and then the best of those unlike all before it (`choices`)."""
    design = request.design
    decisions = dict.fromkeys((*design.symbols, *design.telling, *design.of_registers))
    seen: list[dict[str, Any]] = []
    tried: Counter[Way] = Counter()
    for searched in _spaces(request):
        known, ranked = search.ranked(design, searched, request.constants, request.objective)
        for names in (design.of_registers, design.telling):
            order = ranked
            for row in seen:
                order = _unlike(known, order, row, names)
            while len(order):
                order = _fresh_way_first(design, known, order, tried)
                yield _Solution(request, _plan_at(request, known, order[0]), searched, known, order)
                seen.append({name: known[name][order[0]].item() for name in decisions})
                tried[design.way_of(seen[-1])] += 1
                order = _unlike(known, order, seen[-1], names)


def _spaces(request: Request) -> Iterator[search.Space]:
    """What is feasible, held to fewer and fewer of the constraints that only steer a choice.

    Raises:
        InfeasibleSpec: when all were asked for and none held a candidate.
    """
    fixed, design = request.constants, request.design
    allow_spills = request.loaded.spec.build.allow_spills
    # What the spec fixes may leave nothing that surely fits the registers: then the build decides.
    # Slices that the spec asks for need no reason.
    wanted = tuple(one for one in design.constraints if not (request.choices["split_k"] and one is common.FEW_TILES))
    sparing = tuple(one for one in wanted if one is common.FEW_TILES or one not in design.steering)
    levels = wanted, sparing, design.certain(False), design.certain(allow_spills)
    usual, small = [request.choices], [] if request.choices.small else [replace(request.choices, small=True)]
    # Smaller warps take fewer registers and less shared memory: they may have what the spec requires; else they come where nothing usual fits.
    turns = product(levels, usual + small) if request.required else chain(product(levels, usual), product(levels, small))
    broken: search.Space | None = None
    found = False
    for constraints, choices in turns:
        if choices.small and not request.choices.small and found:
            continue
        searched = search.enumerate_space(design, choices, fixed, request.fragment, request.gpu.registers, (*constraints, *request.required))
        if searched.feasible:
            found = True
            yield searched
        elif choices is request.choices:
            broken = searched
    if not found:
        plan = request.plan(broken.nearest)
        raise broken.broken.refusal(plan, plan.numbers, request.loaded.place)
    # Last, for whoever finds that the compiler refuses all of these: warps as small as those of small products, which surely fit the registers.
    if not request.choices.small:
        smaller = search.enumerate_space(
            design, replace(request.choices, small=True), fixed, request.fragment, request.gpu.registers, (*wanted, *request.required))
        if smaller.feasible:
            yield smaller


@dataclass(frozen=True)
class Ranked:
    """All feasible candidates of a request.

    Attributes:
        candidates: how many there were before the constraints.
        rejected: how many each inequality rejected, each candidate at the first that it breaks.
        columns: of each candidate the design's symbols, `seconds` and `registers`, predicted.
        order: rows of the columns, best first.
    """

    request: Request
    candidates: int
    rejected: Mapping[str, int]
    columns: Mapping[str, np.ndarray]
    order: np.ndarray

    def plan_at(self, at: int) -> Plan:
        """The plan of a row."""
        return _plan_at(self.request, self.columns, at)


def ranked(request: Request) -> Ranked:
    """The whole space of a request, for whoever tries more of it than the best.

    Raises:
        InfeasibleSpec: nothing is feasible.
    """
    design = request.design
    if request.model:
        raise InfeasibleSpec(
            f"{request.loaded.place}: [solve] model", "a study tries all tiles, and no model chooses among them", got=request.model.name,
            needs="time", remedy="leave [solve] model out, or fix [tile] block and warp",
        )
    if request.choices.settle(request.design.decisions):
        plan = next(_checked(request)).plan
        numbers = plan.model
        columns = {name: np.array([numbers[name]]) for name in (*design.symbols, "registers", "seconds")}
        return Ranked(request, 1, {}, columns, np.zeros(1, int))
    searched = next(_spaces(request))
    known, order = search.ranked(design, searched, request.constants, request.objective)
    # A study keeps millions of them: copies of what it needs, not views that hold everything else.
    columns = {name: known[name].astype(np.int32) for name in (*design.symbols, "registers") if name in known} | {"seconds": known["seconds"].copy()}
    return Ranked(request, searched.candidates, searched.rejected, columns, order)


def _unlike(known: Mapping[str, Any], order: np.ndarray, row: Mapping[str, Any], names: Sequence[str]) -> np.ndarray:
    """Those of `order` that differ from a candidate in one of these symbols."""
    alike = np.arange(len(order))  # fewer after each name: most candidates differ in one of the first
    for name in names:
        alike = alike[known[name][order[alike]] == row[name]]
    return np.delete(order, alike)


def _fresh_way_first(design: Design, known: Mapping[str, Any], order: np.ndarray, tried: Mapping[Way, int]) -> np.ndarray:
    """`order` with the best candidate first whose way to shared memory was not tried MOST_OF_A_WAY times already, if there is one."""
    fresh = order
    for way, times in tried.items():
        if times >= MOST_OF_A_WAY and design.way_names:
            fresh = _unlike(known, fresh, design.way_symbols(way), design.way_names)
    if not len(fresh):
        return order
    return np.concatenate([fresh[:1], order[order != fresh[0]]])


def _row(known: Mapping[str, Any], at: int) -> dict[str, Any]:
    return {name: value[at].item() for name, value in known.items() if getattr(value, "ndim", 0)}


def _candidate(design: Design, row: Mapping[str, Any]) -> Candidate:
    return Candidate(
        design.decoded(row), registers=int(row["registers"]), blocks_per_sm=int(row["resident_blocks"]), intensity=float(row["intensity"]),
        threads=int(row["tlp"]), seconds=float(row["seconds"]),
    )
