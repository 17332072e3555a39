"""Spec -> Plan, or the reason why not, with the equation that says so.

What the spec fixes is checked. What it leaves open is filled from the whole
space (`model/space.py`) by the least predicted time at the spec's sizes; the
interval of promotion by the error it leads to (`model/error.py`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from gemmgen.catalog.fragment import Fragment, candidates, shapes
from gemmgen.catalog.gpu import GPUS, Gpu
from gemmgen.catalog.scheme import SCHEMES, Scheme, preferred_scheme
from gemmgen.errors import InfeasibleSpec, SpecError, UnknownName
from gemmgen.model import space, specialised
from gemmgen.model.equation import Constraint, Equation, figure
from gemmgen.model.error import promote_for
from gemmgen.model.registers import ARCHITECTURAL, DEMAND, PREDICTED
from gemmgen.model.resources import ACCUMULATOR_REGISTERS, SHARED_BYTES, WARPS
from gemmgen.model.space import BLOCK_K, Choices, Skeleton, Way
from gemmgen.model.specialised import SPECIALISED, skeleton_of
from gemmgen.model.tensor_memory import COLUMNS
from gemmgen.plan import TENSOR_COLUMNS, Hints, Plan
from gemmgen.spec import FragmentChoice, LoadedSpec

SHOWN_BEST = 10
"""Candidates an explanation lists besides the chosen one."""

MOST_OF_A_WAY = 3
"""Choices of one way to shared memory, one after another: where the compiler refuses as many, the model errs about that way."""

COMPARED = ("block", "warp", "where", "loads", "stages", "fragment_buffers", "group", "split_k", "promote", "cluster", "consumers")


@dataclass(frozen=True)
class Candidate:
    """A feasible candidate as an explanation lists it."""

    block: tuple[int, int, int]
    warp: tuple[int, int, int]
    where: str
    loads: str
    stages: int
    fragment_buffers: int
    group: int
    split_k: int
    promote: int
    cluster: int
    consumers: str
    registers: int
    blocks_per_sm: int
    intensity: float
    threads: int
    seconds: float


@dataclass(frozen=True)
class Explanation:
    """How a plan came about.

    Attributes:
        numbers: every symbol of the model at the plan.
        candidates: how many there were; 1 where the spec leaves nothing open.
        feasible: how many satisfy every constraint.
        rejected: how many each inequality rejected, each candidate at the first it breaks.
        best: the feasible candidates with the least predicted time, the chosen one first.
        front: those no other beats in both intensity (T3) and threads at work (P1).
        tied: how many the model cannot tell from the fastest.
        solve_seconds: the whole of it.
        scheme_reason: why the scheme, where the spec leaves it open; else empty.
        weighed: predicted seconds of each policy's best plan, where the spec leaves the policy open.
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


def solve(loaded: LoadedSpec) -> Plan:
    """Decide everything the spec leaves open and check the whole.

    Raises:
        UnknownName: a scheme, GPU or fragment that no table holds.
        InfeasibleSpec: no kernel of this design satisfies the spec.
    """
    return next(_ranked(loaded)).plan


def choices(loaded: LoadedSpec) -> Iterator[Plan]:
    """The plans to try one after another, for whoever finds that the compiler refuses one: `solve`'s first.

    Each differs from all before it in what a compiler looks at (`space.TELLING`), and as long as there is such a plan in
    what the demand for registers rests on. What the spec fixes stays fixed, so a spec that leaves nothing of that open
    has one plan.

    Raises:
        UnknownName, InfeasibleSpec: as `solve`.
    """
    return (solution.plan for solution in _ranked(loaded))


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
    return solution.explained(start)


def alternatives(loaded: LoadedSpec, best: int, drawn: int, seed: int = 0) -> tuple[list[Plan], list[Plan]]:
    """The plans with the least predicted time, the chosen one first, and others drawn from all feasible ones.

    For measuring what the model's choice is worth.

    Raises:
        UnknownName, InfeasibleSpec: as `solve`.
    """
    import numpy as np

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
    for request in _requests(loaded):
        searched = space.enumerate_space(
            request.choices, request.constants, request.fragment, request.gpu.arch_number, skeleton=request.skeleton,
        )
        if searched.feasible:
            return explain(loaded)
        plan = request.plan(searched.nearest)
        numbers, broken = _numbers(plan), searched.broken
        error = refusal(broken, plan, numbers, loaded.place)
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
    numbers = _numbers(plan)
    broken = _first_broken(numbers, _certain(skeleton_of(plan.fragment), plan.allow_spills))
    if broken:
        raise refusal(broken, plan, numbers, place)


# ---- the request


@dataclass(frozen=True)
class _Request:
    """A spec with its names looked up."""

    loaded: LoadedSpec
    scheme: Scheme
    gpu: Gpu
    fragment: Fragment
    choices: Choices

    @property
    def skeleton(self) -> Skeleton:
        return skeleton_of(self.fragment)

    @property
    def constants(self) -> dict[str, Any]:
        """The symbols that no candidate changes."""
        return specialised.constants_of(self.loaded.spec.problem.layout, self.scheme, self.fragment, self.gpu, self.hints)

    @property
    def settled(self) -> bool:
        """Whether nothing is left to choose."""
        choices = self.choices
        both = (choices.block, choices.warp, choices.stages, choices.group, choices.split_k)
        own = () if self.fragment.in_tensor_memory else (choices.cluster, choices.consumers) if self.skeleton is SPECIALISED else (choices.fragment_buffers,)
        return None not in (*both, *own) and len(choices.promote) == len(choices.ways) == 1

    @property
    def hints(self) -> Hints:
        problem = self.loaded.spec.problem
        return Hints(problem.m, problem.n, problem.k)

    def plan(self, decided: Mapping[str, int]) -> Plan:
        """The plan with these decisions; those not decided yet get any value."""
        spec, choices = self.loaded.spec, self.choices
        block = tuple(decided[name] for name in ("BM", "BN", "BK"))
        warp = tuple(decided[name] for name in ("WM", "WN", "WK"))
        way = Way.of(decided) if "held" in decided or "mixed" in decided else choices.ways[0]
        fragment = self.fragment
        count, over = divmod((block if fragment.in_tensor_memory else warp)[1], fragment.shape[1])
        if fragment.widest and count and not over:  # as few instructions as can be for the whole tile
            fragment = fragment.wide(max(times for times in range(1, fragment.widest + 1) if count % times == 0))
        turns = decided.get("pingpong", int(choices.consumers == "pingpong"))
        return Plan(
            layout=spec.problem.layout, scheme=self.scheme, fragment=fragment, gpu=self.gpu, where=way.where, loads=way.loads,
            promote=decided.get("promote", choices.promote[0]), special=spec.split.special, block=block, warp=warp,
            stages=decided.get("stages", choices.stages or 2),
            fragment_buffers=decided.get("fragment_buffers", choices.fragment_buffers or 1),
            group=decided.get("group", choices.group or 1), split_k=decided.get("split_k", choices.split_k or 1),
            allow_spills=spec.build.allow_spills, hints=self.hints,
            cluster=decided.get("cluster", choices.cluster or 1), consumers="pingpong" if turns else "cooperative",
        )


def _requests(loaded: LoadedSpec) -> list[_Request]:
    """The spec with its names looked up, once for each policy that it leaves open."""
    spec, place = loaded.spec, loaded.place
    if spec.target.gpu is None:
        raise SpecError(f"{place}: [target] gpu", "is missing", needs="a name under specs/gpus, or a .toml file", remedy='gpu = "a100", or --gpu a100')
    gpu = GPUS.get(spec.target.gpu, where=f"{place}: [target] gpu", relative_to=loaded.folder)
    if _unless_auto(spec.target.vendor) not in (None, gpu.vendor):
        raise SpecError(f"{place}: [target] vendor", f"{gpu.name} is not {spec.target.vendor}'s", got=spec.target.vendor, needs=gpu.vendor, remedy="leave it out")
    name = preferred_scheme(gpu.unit).name if spec.split.scheme == "auto" else spec.split.scheme
    scheme = SCHEMES.get(name, where=f"{place}: [split] scheme", relative_to=loaded.folder)
    requests, refused = [], []
    for fragment in _fragments(spec.fragment, scheme, gpu, place):
        try:
            requests.append(_request(loaded, scheme, gpu, fragment))
        except InfeasibleSpec as error:
            refused.append(error)
    if not requests:
        raise refused[-1]
    return requests


def _request(loaded: LoadedSpec, scheme: Scheme, gpu: Gpu, fragment: Fragment) -> _Request:
    spec, place = loaded.spec, loaded.place
    if fragment.on_matrix_unit and scheme.word not in gpu.unit.block:
        raise InfeasibleSpec(
            f"{place}: [split] scheme", f"how {gpu.name}'s matrix unit rounds {scheme.word} is not known",
            got=scheme.name, needs=f"a row of specs/units/{gpu.matrix_unit}.toml for {scheme.word}: bounds and emulation rest on it",
            has=", ".join(sorted(gpu.unit.block)), remedy="another scheme, or another gpu",
        )
    promote = spec.split.promote
    if promote is None:
        promote = promote_for(scheme, gpu.unit, fragment.shape[2], spec.problem.k)
        if promote and fragment.from_shared:
            promote = min(promote, hidden_promote(scheme, spec.tile.block, spec.problem.k))
    if promote and not fragment.on_matrix_unit:
        raise InfeasibleSpec(
            f"{place}: [split] promote", f"the sums of {scheme.name} are in FP32 registers already", got=promote,
            needs="0: promotion moves sums out of a matrix unit, which truncates", remedy="promote = 0",
        )
    where, loads = _unless_auto(spec.split.where), _unless_auto(spec.pipeline.loads)
    if fragment.in_tensor_memory:
        ways = tuple(way for way in space.bulk_ways(where, loads) if way.where == "prepass")
        if not ways or spec.pipeline.fragment_buffers == 2 or (spec.tile.cluster or 1) > 1 or spec.pipeline.consumers == "pingpong":
            raise InfeasibleSpec(
                f"{place}: [fragment] policy", f"{fragment.policy} does not go with this pipeline",
                got=f"where = {spec.split.where}, loads = {spec.pipeline.loads}, fragment_buffers = {spec.pipeline.fragment_buffers or 'auto'}, "
                    f"cluster = {spec.tile.cluster or 'auto'}, consumers = {spec.pipeline.consumers}",
                needs="where = prepass, loads = bulk, no second fragment buffer, no clusters, no turns: one thread multiplies what a copy brings",
                remedy='leave them "auto", or policy = "mma"',
            )
    elif fragment.from_shared:
        ways = space.bulk_ways(where, loads)
        if not ways or spec.pipeline.fragment_buffers == 2:
            raise InfeasibleSpec(
                f"{place}: [fragment] policy", f"{fragment.policy} does not go with this pipeline",
                got=f"where = {spec.split.where}, loads = {spec.pipeline.loads}, fragment_buffers = {spec.pipeline.fragment_buffers or 'auto'}",
                needs="where = prepass or mixed, loads = bulk, no second fragment buffer: its operands stay in shared memory",
                remedy='leave them "auto", or policy = "mma"',
            )
    else:
        asked = {
            "[split] where": where == "mixed" and where, "[pipeline] loads": loads == "bulk" and loads,
            "[tile] cluster": spec.tile.cluster != 1 and spec.tile.cluster, "[pipeline] consumers": _unless_auto(spec.pipeline.consumers),
        }
        for key, value in asked.items():
            if value:
                raise InfeasibleSpec(
                    f"{place}: {key}", f"kernels of policy {fragment.policy} have no such choice", got=value,
                    needs="policy = wgmma, and a GPU that has it", has=gpu.arch, remedy="leave it out",
                )
        ways = space.held_ways(where, loads) if gpu.vendor == "amd" else space.ways(where, loads, gpu.async_copies, held="spread" if fragment.on_matrix_unit else "grouped")
    if not ways:
        raise InfeasibleSpec(
            f"{place}: [pipeline] loads", f"kernels for {gpu.name} load tiles through registers, where the compiler puts it", got=loads,
            needs="grouped", has=gpu.arch, remedy='loads = "grouped", or leave it out',
        )
    return _Request(loaded, scheme, gpu, fragment, Choices(
        block=spec.tile.block, warp=spec.tile.warp, stages=spec.pipeline.stages or (2 if gpu.vendor == "amd" else None),
        fragment_buffers=spec.pipeline.fragment_buffers, group=spec.tile.group, split_k=spec.tile.split_k, promote=(promote,),
        small=spec.problem.m * spec.problem.n < (2 * space.LEAST_WARP) ** 2 * gpu.rates.sms,
        ways=ways, cluster=spec.tile.cluster, consumers=_unless_auto(spec.pipeline.consumers),
    ))


HIDDEN_PROMOTE = 64
"""Warpgroups hide the promotion of each stage of FP16 words behind other products: seldom is no faster (measured)."""


def hidden_promote(scheme: Scheme, block: tuple[int, int, int] | None, k: int) -> int:
    """The interval that costs nothing in the warp-specialised skeleton: a stage, or less where k is short."""
    stage = block[2] if block else HIDDEN_PROMOTE * 2 // scheme.format.bytes
    while stage > 16 and stage > k:
        stage //= 2
    return stage


def _unless_auto(word: str) -> str | None:
    return None if word == "auto" else word


def _fragments(choice: FragmentChoice, scheme: Scheme, gpu: Gpu, place: str) -> list[Fragment]:
    """The fragments that the spec leaves open: one for each policy, the widest along k."""
    asked = _unless_auto(choice.policy)
    if asked or scheme.word == "f32":
        return [_fragment(asked or "fma", choice.shape, scheme, gpu, place)]
    if gpu.vendor == "amd":
        return [_fragment(gpu.portable_policy, choice.shape, scheme, gpu, place)]
    portable = shapes(gpu.vendor, scheme.word, "mma")
    found = []
    if choice.shape is None or choice.shape not in portable:
        for policy in ("wgmma", "tcgen05"):
            known = shapes(gpu.vendor, scheme.word, policy)
            if any(row.runs_on(gpu.arch) for row in known.values()) and (choice.shape is None or choice.shape in known):
                found.append(_fragment(policy, choice.shape, scheme, gpu, place))
    if choice.shape is None or not found:
        found.append(_fragment("mma", choice.shape, scheme, gpu, place))
    return found


def _targets(fragment: Fragment) -> str:
    """Which targets have it, in words."""
    return " or ".join(fragment.archs) if fragment.archs else f"sm_{fragment.min_arch} or newer"


def _fragment(policy: str, shape: str | None, scheme: Scheme, gpu: Gpu, place: str) -> Fragment:
    known = shapes(gpu.vendor, scheme.word, policy)
    if policy == "rocwmma":
        raise InfeasibleSpec(
            f"{place}: [fragment] policy", "there are no kernels on rocWMMA's fragments", got=policy,
            needs="rocWMMA's headers, which come with ROCm alone: without them no such kernel could be compiled or checked here",
            remedy=f'policy = "{gpu.portable_policy}", on the matrix instructions themselves',
        )
    if not known:
        raise InfeasibleSpec(
            f"{place}: [fragment] policy", f"no {policy} fragment of {scheme.word} is known for {gpu.vendor}", got=policy,
            needs=f"a row under specs/fragments for {scheme.word}", remedy="another scheme" if scheme.word == "f32" else 'policy = "auto"',
        )
    if shape is not None and shape not in known:
        raise UnknownName(f"{place}: [fragment] shape", f"{scheme.word} fragment of {gpu.vendor}", shape, known)
    usable = [row for row in candidates(gpu.vendor, scheme.word, policy) if row.runs_on(gpu.arch) and shape in (None, row.shape_name)]
    if usable:  # of those that differ in n alone, the first can be made as wide as a tile
        return max(usable, key=lambda row: (row.shape[0] * row.shape[2], row.shape[0], -row.shape[1], -(row.instructions or 1)))
    least = min(known.values(), key=lambda row: row.min_arch or 0)
    portable = policy == gpu.portable_policy
    raise InfeasibleSpec(
        f"{place}: [fragment] {'shape' if portable or shape else 'policy'}",
        f"{gpu.name} does not have {shape}" if shape
        else f"{gpu.name} has no {'matrix instruction' if portable else policy} for {scheme.word}",
        got=shape or (None if portable else policy),
        needs=least.arch or _targets(known[shape] if shape else least), has=gpu.arch,
        remedy="another gpu" if portable else 'another gpu, or policy = "auto"',
    )


# ---- deciding


def _numbers(plan: Plan) -> dict[str, Any]:
    fixed = specialised.constants_of(plan.layout, plan.scheme, plan.fragment, plan.gpu, plan.hints)
    return space.budgets(fixed | space.decisions(plan), plan.gpu.arch_number, skeleton_of(plan.fragment))


@dataclass(frozen=True)
class _Solution:
    """A request's best plan, and, unless nothing was left open, the space it comes from.

    Attributes:
        known: the predictions of all feasible candidates; order: theirs, best first.
        weighed: predicted seconds by policy, of all that were solved for.
    """

    request: _Request
    plan: Plan
    searched: space.Space | None = None
    known: Mapping[str, Any] | None = None
    order: Sequence[int] | None = None
    weighed: Mapping[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return float(specialised.model(self.plan)["seconds"])

    @property
    def scheme_reason(self) -> str:
        return preferred_scheme(self.plan.gpu.unit).reason if self.request.loaded.spec.split.scheme == "auto" else ""

    def plan_at(self, at: int) -> Plan:
        """The plan of a candidate."""
        return _plan_at(self.request, self.known, at)

    def explained(self, start: float) -> Explanation:
        numbers = specialised.model(self.plan)
        if self.order is None:
            one = (_candidate(numbers),)
            return Explanation(self.plan, numbers, 1, 1, {}, one, one, 1, time.perf_counter() - start, self.scheme_reason, self.weighed)
        known = self.known
        rows = [_row(known, at) for at in self.order[:SHOWN_BEST]]
        front = [_row(known, at) for at in space.pareto_front(known)]
        tied = int((known["seconds"] <= known["seconds"].min() * (1 + space.TIE)).sum())
        return Explanation(
            plan=self.plan, numbers=numbers, candidates=self.searched.candidates, feasible=self.searched.feasible,
            rejected=self.searched.rejected, best=tuple(map(_candidate, rows)), front=tuple(map(_candidate, front)), tied=tied,
            solve_seconds=time.perf_counter() - start, scheme_reason=self.scheme_reason, weighed=self.weighed,
        )


def _plan_at(request: _Request, known: Mapping[str, Any], at: int) -> Plan:
    row = _row(known, at)
    made = request.plan({name: int(row[name]) for name in request.skeleton.decisions})
    return replace(made, predicted_registers=int(row["registers"]))


def _ranked(loaded: LoadedSpec) -> Iterator[_Solution]:
    """All solutions, of all policies that the spec leaves open, each the fastest of those unlike all before it (`choices`)."""
    heads, refused = [], []
    for request in _requests(loaded):
        solutions = _checked(request) if request.settled else _chosen(request)
        try:
            heads.append((next(solutions), solutions))
        except InfeasibleSpec as error:
            refused.append(error)
    if not heads:
        raise refused[-1]
    while heads:
        seconds = [solution.seconds for solution, _ in heads]
        at = seconds.index(min(seconds))
        solution, others = heads[at]
        yield replace(solution, weighed={one.plan.fragment.policy: its for (one, _), its in zip(heads, seconds)})
        following = next(others, None)
        heads[at:at + 1] = [(following, others)] if following else []


def _checked(request: _Request) -> Iterator[_Solution]:
    """The plan of a spec that leaves nothing open."""
    choices = request.choices
    plan = request.plan(dict(zip(space.DECISIONS, (*choices.block, *choices.warp))))
    check(plan, request.loaded.place)
    yield _Solution(request, replace(plan, predicted_registers=int(_numbers(plan)["registers"])))


def _chosen(request: _Request) -> Iterator[_Solution]:
    """The best candidate, and then the best of those unlike all before it (`choices`)."""
    fixed, skeleton = request.constants, request.skeleton
    allow_spills = request.loaded.spec.build.allow_spills
    # What the spec fixes may leave nothing that surely fits the registers: then the build decides.
    # Slices that the spec asks for need no reason.
    wanted = tuple(one for one in skeleton.constraints if not (request.choices.split_k and one is space.FEW_TILES))
    sparing = tuple(one for one in wanted if one not in PREDICTED)
    seen: list[dict[str, Any]] = []
    for constraints in (wanted, sparing, _certain(skeleton, False), _certain(skeleton, allow_spills)):
        searched = space.enumerate_space(request.choices, fixed, request.fragment, request.gpu.arch_number, constraints, skeleton)
        if not searched.feasible:
            continue
        known, ranked = space.ranked(searched, fixed, skeleton)
        for telling in (space.OF_REGISTERS, space.TELLING):
            names = [name for name in telling if name in known]
            order = ranked
            for row in seen:
                order = _unlike(known, order, row, names)
            while len(order):
                order = _fresh_way_first(known, order, seen)
                yield _Solution(request, _plan_at(request, known, order[0]), searched, known, order)
                seen.append(_row(known, order[0]))
                order = _unlike(known, order, seen[-1], names)
    if not seen:
        plan = request.plan(searched.nearest)
        raise refusal(searched.broken, plan, _numbers(plan), request.loaded.place)


def _unlike(known: Mapping[str, Any], order: np.ndarray, row: Mapping[str, Any], names: Sequence[str]) -> np.ndarray:
    """Those of `order` that differ from a candidate in one of these symbols."""
    return order[np.logical_or.reduce([known[name][order] != row[name] for name in names])]


def _fresh_way_first(known: Mapping[str, Any], order: np.ndarray, seen: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """`order` with the best candidate first whose way to shared memory was not tried MOST_OF_A_WAY times already, if there is one."""
    tried = Counter(Way.of(row) for row in seen)
    names = [name for name in (*space.WAYS[0].symbols, *space.BULK_WAYS[0].symbols) if name in known]
    fresh = order
    for way, times in tried.items():
        if times >= MOST_OF_A_WAY:
            fresh = _unlike(known, fresh, way.symbols, names)
    if not len(fresh):
        return order
    return np.concatenate([fresh[:1], order[order != fresh[0]]])


def _certain(skeleton: Skeleton, allow_spills: bool) -> tuple[Constraint, ...]:
    """The constraints that no kernel can break, without what is only predicted."""
    doubtful = {one.number for one in skeleton.steering} | ({"C11"} if allow_spills else set())
    return tuple(one for one in skeleton.constraints if one.number not in doubtful)


def _first_broken(numbers: Mapping[str, Any], constraints: Sequence[Constraint]) -> Constraint | None:
    return next((one for one in constraints if not one.holds(numbers)), None)


def _row(known: Mapping[str, Any], at: int) -> dict[str, Any]:
    return {name: value[at].item() for name, value in known.items() if getattr(value, "ndim", 0)}


def _candidate(row: Mapping[str, Any]) -> Candidate:
    way = Way.of(row)
    row = {"fragment_buffers": 1, "cluster": 1} | dict(row)
    return Candidate(
        block=(int(row["BM"]), int(row["BN"]), int(row["BK"])), warp=(int(row["WM"]), int(row["WN"]), int(row["WK"])),
        where=way.where, loads=way.loads,
        **{name: int(row[name]) for name in COMPARED[4:-1]}, consumers="pingpong" if row.get("pingpong") else "cooperative",
        registers=int(row["registers"]),
        blocks_per_sm=int(row["resident_blocks"]), intensity=float(row["intensity"]), threads=int(row["tlp"]),
        seconds=float(row["seconds"]),
    )


# ---- refusals: for each constraint what to tell


def refusal(broken: Constraint, plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    """The message for a plan that breaks a constraint."""
    return _REFUSALS[broken.number](plan, numbers, place)


def _equation(plan: Plan, portable: Equation) -> Equation:
    """The equation of the plan's own skeleton for what `portable` gives in the portable one."""
    every = (equation for _, group in skeleton_of(plan.fragment).equations for equation in group)
    return next(equation for equation in every if equation.symbol == portable.symbol)


def _block_k(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [tile] block", "block k cannot be staged", got=plan.block[2],
        needs=f"one of {', '.join(map(str, BLOCK_K))}: rows of whole 16-byte chunks that the swizzle can permute",
        remedy="block k = 32",
    )


def _warp_k(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    (wm, wn, wk), bk = plan.warp, plan.block[2]
    return InfeasibleSpec(
        f"{place}: [tile] warp", "warp k differs from block k", got=wk, needs=f"{bk}: a warp works through the whole stage",
        remedy=f"warp = [{wm}, {wn}, {bk}]",
    )


def _whole_fragments(axis: int) -> Callable[[Plan, Mapping[str, Any], str], InfeasibleSpec]:
    def message(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
        name, extent, unit = "mn"[axis], plan.warp[axis], plan.fragment.shape[axis] * (plan.fragment.fetched_together if axis else 1)
        return InfeasibleSpec(
            f"{place}: [tile] warp", f"warp {name} is not a whole number of fragments", got=extent,
            needs=f"a multiple of {unit} ({plan.fragment.name})", remedy=f"warp {name} = {max(unit, extent // unit * unit)}",
        )
    return message


def _whole_warps(axis: int) -> Callable[[Plan, Mapping[str, Any], str], InfeasibleSpec]:
    def message(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
        name, block, warp = "mn"[axis], plan.block[axis], plan.warp[axis]
        return InfeasibleSpec(
            f"{place}: [tile] block", f"block {name} is not a whole number of warps", got=block,
            needs=f"a multiple of warp {name} = {warp}", remedy=f"block {name} = {max(warp, block // warp * warp)}",
        )
    return message


def _threads(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    if plan.specialised:
        return InfeasibleSpec(
            f"{place}: [tile]", "too many warpgroups in a block", got=plan.multiplying_groups, needs="at most 3 that multiply",
            remedy="larger warps or a smaller block",
        )
    return InfeasibleSpec(
        f"{place}: [tile]", "too many threads in a block",
        needs=f"{plan.threads} = ({WARPS.form}) * {numbers['warp_size']} = {WARPS.filled(numbers)} * {numbers['warp_size']}",
        has=f"{plan.gpu.limits.threads_per_block} on {plan.gpu.name}", remedy="larger warps or a smaller block",
    )


def _fragment_buffers(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    fk, bk = plan.fragment.shape[2], plan.block[2]
    return InfeasibleSpec(
        f"{place}: [pipeline] fragment_buffers", "two fragment buffers need an even number of steps in a stage",
        got=2, needs=f"block k a multiple of {2 * fk}", has=f"block k = {bk}", remedy=f"block k = {2 * fk}, or fragment_buffers = 1",
    )


def _promotion(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    fk, bk, promote = plan.fragment.shape[2], plan.block[2], plan.promote
    nearest = min((p for p in range(fk, max(2 * promote, bk) + bk, fk) if bk % p == 0 or p % bk == 0),
                  key=lambda p: abs(p - promote))
    return InfeasibleSpec(
        f"{place}: [split] promote", "promotion falls between two instructions or drifts against the stages",
        got=promote, needs=f"0, or a multiple of {fk} that divides block k = {bk} or is a multiple of it",
        remedy=f"promote = {nearest}",
    )


def _shared_memory(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    limit = plan.gpu.limits.shared_bytes_per_block
    fits = limit // (plan.shared_bytes // plan.stages)
    remedy = f"stages <= {fits}" if fits >= 2 else "a smaller block"
    if plan.block[2] > BLOCK_K[0]:
        remedy += f", or block k = {plan.block[2] // 2}"
    return InfeasibleSpec(
        f"{place}: [pipeline]", f"stages = {plan.stages} does not fit {plan.gpu.name}", needs=_equation(plan, SHARED_BYTES).shown(numbers),
        has=f"{limit} B of shared memory a block", remedy=remedy,
    )


def _accumulators(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [tile] warp", "the accumulators leave no room in the register file",
        needs=f"{_equation(plan, ACCUMULATOR_REGISTERS).shown(numbers)}, and about {figure(numbers['other_registers'] + numbers['fragment_registers'] * plan.specialised)} more",
        has=f"{numbers['register_budget']} registers a thread at {plan.threads} threads on {plan.gpu.name}",
        remedy=f"a smaller warp tile, {'promote = 0, ' if plan.promote and plan.where != 'mixed' else ''}or [build] allow_spills = true",
    )


def _spills(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [tile] warp", "the compiler is predicted to spill registers", needs=f"{DEMAND.shown(numbers)}" + (f", and {figure(numbers['uneven'])} to be safe with such a loop" if numbers["uneven"] else ""),
        has=f"{numbers['register_budget']} registers a thread at {plan.threads} threads on {plan.gpu.name}, "
            f"and {figure(numbers['squeeze'])} that the compiler can save",
        remedy="a smaller warp tile, or fragment_buffers = 1",
    )


def _sums_that_move(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [tile] warp", "the compiler is predicted to move sums between register files in every step",
        needs=f"{DEMAND.shown(numbers)}, of which {figure(numbers['waiting'])} wait in accumulation registers",
        has=f"{ARCHITECTURAL} registers for the rest", remedy="a smaller warp tile, or fragment_buffers = 1",
    )


def _no_async(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [pipeline] loads", f"{plan.gpu.name} has no asynchronous copies", got=plan.loads,
        needs=f"sm_{plan.gpu.maker.first_async} or newer", has=plan.gpu.arch,
        remedy='split where = "shared" or "prepass"' if plan.where == "register" else 'loads = "spread"',
    )


def _held_stages(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [pipeline] stages", f"loads = {plan.loads!r} takes turns with two stages", got=plan.stages,
        needs="2: the next tile waits in registers", remedy="stages = 2" + (', or loads = "async"' if plan.where == "prepass" else ""),
    )


def _shared_async(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [pipeline] loads", "what is split before shared memory passes through registers", got=plan.loads,
        needs="spread or grouped, where split where = shared", remedy='loads = "spread"',
    )


def _register_held(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [pipeline] loads", "what is split behind shared memory is copied there as it is", got=plan.loads,
        needs="async, where split where = register", remedy='loads = "async"',
    )


def _scaled_in_kernel(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [split] where", f"{plan.scheme.name} scales rows, so a pass over the operands comes first", got=plan.where,
        needs="prepass, where the scheme's normalize = row", remedy='where = "prepass"',
    )


def _not_by_lanes(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [split] where", f"fragments of {plan.fragment.policy} are not filled by lanes", got=plan.where,
        needs="policy = mma, where operands are split in registers", remedy='where = "prepass" or "shared", or policy = "mma"',
    )


def _rows_of_lines(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    operand = next(one for one in plan.operands if not one.k_contiguous and one.tile % 32)
    return InfeasibleSpec(
        f"{place}: [tile] block", f"block {operand.outer} is no whole number of 128-byte lines of FP32", got=operand.tile,
        needs=f"a multiple of 32: operand {operand.name} is stored along {operand.outer} and split in registers",
        remedy=f"block {operand.outer} = {-(-operand.tile // 32) * 32}, or another split",
    )


def _single_step(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [pipeline] fragment_buffers", "a tile that passes through registers leaves no room for a second buffer", got=plan.fragment_buffers,
        needs="1, or a matrix unit and block k of at least two instructions", remedy="fragment_buffers = 1",
    )


def _many_tiles(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [tile] split_k", "the tiles of C fill the GPU without slices of k", got=plan.split_k,
        needs=f"fewer than {plan.gpu.rates.sms} tiles", has=f"{numbers['tiles']} tiles", remedy="split_k = 1",
    )


def _outside_the_fit(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [tile] warp", "the register model does not reach so far", got=max(plan.warp[:2]),
        needs="at most 128; with promotion after every instruction also smaller ones for more products, and two instructions a stage", remedy="a smaller tile",
    )


def _row_bytes(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    size = plan.scheme.format.bytes
    return InfeasibleSpec(
        f"{place}: [tile] block", "the matrix unit has no swizzle for rows of this length", got=f"{plan.row_bytes} B: block k = {plan.block[2]}",
        needs=f"32, 64 or 128 B: block k = {32 // size}, {64 // size} or {128 // size}", remedy=f"block k = {128 // size}",
    )


def _turns(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [pipeline] consumers", "warpgroups that take turns compute a tile each", got=f"warp {plan.warp[0]}x{plan.warp[1]} of block {plan.block[0]}x{plan.block[1]}",
        needs="warp = block", remedy=f'warp = {list(plan.block)}, or consumers = "cooperative"',
    )


def _mixed(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [split] where", "A cannot be split on its way to the registers here", got=f"layout {plan.layout}, {plan.scheme.name}, block k = {plan.block[2]}",
        needs="A stored along k (layout nn or nt), 16-bit words, no row scales, and a stage of an even number of instructions",
        remedy='where = "prepass"',
    )


def _wide_instruction(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [tile] warp", "one matrix instruction needs more registers than a thread has when the block starts", got=plan.warp[1],
        needs=f"min(n, 256) / 2 + {specialised.LEAST_OTHERS} registers" + (", and 4 for A" if plan.where == "mixed" else ""),
        has=f"{plan.launch_registers}, with {plan.threads} threads", remedy="a narrower warp tile, or fewer warpgroups",
    )


def _one_instruction(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    (bm, bn, bk), fm = plan.block, plan.fragment.shape[0]
    return InfeasibleSpec(
        f"{place}: [tile] block", "a tile is not one instruction", got=f"block {bm}x{bn}, warp {plan.warp[0]}x{plan.warp[1]}",
        needs=f"block m = warp m = {fm}, a row of C for each lane of tensor memory, and block n of at most 256",
        remedy=f"block = [{fm}, {min(bn, 256)}, {bk}], warp m = {fm}",
    )


def _tensor_memory(plan: Plan, numbers: Mapping[str, Any], place: str) -> InfeasibleSpec:
    least = int(numbers["columns"]) // plan.block[1]
    return InfeasibleSpec(
        f"{place}: [tile] block", f"the sums do not fit the tensor memory of {plan.gpu.name}", got=plan.block[1],
        needs=_equation(plan, COLUMNS).shown(numbers), has=f"{TENSOR_COLUMNS} columns", remedy=f"block n <= {TENSOR_COLUMNS // least // 16 * 16}",
    )


_REFUSALS: dict[str, Callable[[Plan, Mapping[str, Any], str], InfeasibleSpec]] = {
    "C1": _block_k, "C2": _warp_k, "C3": _whole_fragments(0), "C4": _whole_fragments(1), "C5": _whole_warps(0),
    "C6": _whole_warps(1), "C7": _threads, "C8": _fragment_buffers, "C9": _promotion, "C10": _shared_memory,
    "C11": _accumulators, "C12": _spills, "C13": _outside_the_fit, "C14": _no_async, "C15": _held_stages,
    "C16": _shared_async, "C17": _register_held, "C18": _scaled_in_kernel, "C19": _not_by_lanes, "C20": _rows_of_lines,
    "C21": _single_step, "C22": _many_tiles, "C23": _row_bytes, "C24": _turns, "C25": _mixed, "C26": _one_instruction, "C27": _tensor_memory,
    "C28": _sums_that_move, "C29": _wide_instruction,
}
