"""A spec with its names looked up: which fragments it leaves open, and what it fixes of each design's decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from gemmgen.batch import Batch
from gemmgen.catalog.epilogue import epilogue_of
from gemmgen.catalog.fragment import Fragment, candidates
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.output import output_of
from gemmgen.catalog.scheme import SCHEMES, Scheme, preferred_scheme, with_runs
from gemmgen.catalog.unit import MatrixUnit
from gemmgen.decisions import SUMS, Decision
from gemmgen.designs import Asked, Choices, Design, Hints, all_designs, designs_of
from gemmgen.designs.design import refuse_batch
from gemmgen.designs.portable.design import LEAST_WARP
from gemmgen.errors import InfeasibleSpec, UnknownName
from gemmgen.kinds import Kind, kind_of
from gemmgen.model.expressions import Objective, Required, objective, required
from gemmgen.plan import Plan
from gemmgen.solve import papers
from gemmgen.solve.applicable import OF_KERNEL, OF_KIND, OF_PROMOTION, OF_SCHEME, OF_TARGET, Case, first, refuse
from gemmgen.solve.contract import Contract, Short, contract
from gemmgen.solve.fallback import NONE as NO_FALLBACK
from gemmgen.solve.lookup import fixed, foreign, fragments, gpu_of, plain_ways, schemes_for
from gemmgen.solve.promotion import promotion
from gemmgen.spec import LoadedSpec

Own = TypeVar("Own", Required, Objective)


@dataclass(frozen=True)
class Request:
    """A spec with its names looked up, for one fragment and one design.

    Attributes:
        constants: the symbols that no candidate changes, with their values.
        batch: what the spec says of a batch; None of one product.
        required: the spec's own inequalities.
        objective: what the spec asks to be largest or smallest; None: the predicted time is to be the least.
        contract: what it asks of the error, in place of a scheme.
        model: the paper's model that it lets choose the tile; None: the objective or the predicted time does.
    """

    loaded: LoadedSpec
    scheme: Scheme
    gpu: Gpu
    fragment: Fragment
    design: Design
    choices: Choices
    constants: Mapping[str, Any]
    batch: Batch | None = None
    required: tuple[Required, ...] = ()
    objective: Objective | None = None
    contract: Contract | None = None
    model: papers.Model | None = None

    @property
    def unit(self) -> MatrixUnit | None:
        """What multiplies; None for FP32 arithmetic."""
        return self.gpu.unit.of(self.scheme.leading, self.fragment.policy) if self.fragment.on_matrix_unit else None

    @property
    def compensated(self) -> bool:
        """Whether sums that leave the unit are compensated."""
        return self.choices[SUMS.name] == "compensated"

    @property
    def kind(self) -> Kind:
        """Of product."""
        return kind_of(self.loaded.spec.problem).on(self.gpu, self.loaded.spec.problem)

    @property
    def settled(self) -> bool:
        """Whether nothing is left to choose."""
        return self.choices.settle(self.design.decisions)

    @property
    def hints(self) -> Hints:
        """The sizes that a plan is made for."""
        return _hints(self.loaded)

    @property
    def opened(self) -> tuple[Decision, ...]:
        """The decisions that the spec leaves open."""
        return self.choices.opened(self.design.decisions)

    @property
    def asked(self) -> tuple[str, ...]:
        """The spec's own objective and inequalities, in words."""
        goal = (f"{'maximize' if self.objective.largest else 'minimize'} {self.objective.written}",) if self.objective else ()
        goal += (f"tile by {self.model.title}",) if self.model else ()
        return (*goal, *(f"require {one.written}" for one in self.required))

    def with_tile(self, tile: papers.Tile) -> Request:
        """The same with a tile of the model's fixed, and what comes with it where the spec leaves that open."""
        said = fixed(self.loaded)
        more = {name: value for name, value in tile.fixed.items() if name not in said}
        of_way = {name: more.pop(name) for name in ("where", "loads") if name in more}
        ways = tuple(dict.fromkeys(replace(way, **of_way) for way in self.choices.ways))
        return replace(self, choices=replace(self.choices, fixed={**self.choices.fixed, **more, "block": tile.block, "warp": tile.warp}, ways=ways))

    def with_smaller_tiles(self) -> Iterator[Request]:
        """The same with smaller tiles of its batch, the largest first; nothing where the spec says the tiles, or the design has one alone."""
        if self.batch and self.batch.tiles and not self.loaded.spec.batch.tiles:
            for batch in self.design.smaller(self.batch, self.fragment, self.gpu.limits.warp_size):
                yield replace(self, batch=batch, choices=replace(self.choices, fixed={**self.choices.fixed, **self.design.settled(batch)}))

    def plan(self, symbols: Mapping[str, int], **more: Any) -> Plan:
        """The plan with these decisions; those not decided yet get what the spec says, or any value."""
        spec, design = self.loaded.spec, self.design
        usual = {one.name: self.choices[one.name] if self.choices[one.name] is not None else one.usual for one in design.decisions if one.symbols}
        usual["promote"] = self.choices.promote[0]
        known = usual | {one.name: one.decoded(symbols) for one in design.decisions if one.symbols and all(name in symbols for name in one.symbols)}
        way = design.way_of(symbols) if all(name in symbols for name in design.way_names) else self.choices.ways[0]
        return Plan(
            layout=self.kind.stored_layout(spec.problem.layout), scheme=self.scheme, gpu=self.gpu,
            fragment=design.instruction(self.fragment, known["block"], known["warp"], known.get("cluster", 1)),
            special=spec.split.special, allow_spills=spec.build.allow_spills, hints=self.hints, where=way.where, loads=way.loads,
            designed=None if design is designs_of(self.fragment, self.kind, self.scheme.family.sums)[0] else design.name, type=spec.problem.part,
            output=output_of(spec.problem.part, spec.problem.c), epilogue=epilogue_of(spec.epilogue.do), asked=self.asked,
            kind=self.kind, batch=self.batch, **known, **more,
        )


def requests(loaded: LoadedSpec) -> list[Request]:
    """The spec with its names looked up, once for each policy and each design that it leaves open, and each scheme that gives the error it asks for."""
    spec, place, gpu = loaded.spec, loaded.place, gpu_of(loaded)
    case = Case(place, spec, gpu)
    refuse(OF_TARGET, case)
    case.kind.check(spec.problem, place)
    if not case.kind.batched:
        refuse_batch(spec, place)
    asked = contract(loaded, output_of(spec.problem.part, spec.problem.c).roundoff)
    if asked is None:
        preferred = preferred_scheme(gpu.unit, spec.problem.b, spec.problem.part.name, spec.accuracy.reproducible)
        name = preferred.name if spec.split.scheme == "auto" else spec.split.scheme
        return _of_scheme(loaded, SCHEMES.get(name, where=f"{place}: [split] scheme", relative_to=loaded.folder), gpu, None)
    found, refused = [], []
    for scheme in schemes_for(spec.problem.b, spec.problem.part.name):
        try:
            found += _of_scheme(loaded, scheme, gpu, asked)
        except (InfeasibleSpec, UnknownName) as error:  # a shape that the scheme's words do not have is asked of no kernel
            # A traceback's frames refer to this list, and those that called them to gigabytes of candidates, until Python looks for cycles.
            refused.append(error.with_traceback(None))
    if found:  # of those that are predicted to be as fast, the first is taken
        return sorted(found, key=lambda one: asked.times(one.scheme, one.unit, one.choices.promote[0], one.compensated))
    short = [error for error in refused if isinstance(error, Short)]
    if not short:
        raise refused[-1]
    best = min(short, key=lambda error: error.times)
    raise InfeasibleSpec(
        f"{place}: [accuracy] {asked.key}", f"no scheme reaches this on {gpu.name} at k = {asked.k}", got=asked.asked, needs=asked.text,
        has=f"at best {best.figure}", remedy="a larger error, or gemmgen explain --frontier with a spec that asks for none",
    )


def _of_scheme(loaded: LoadedSpec, scheme: Scheme, gpu: Gpu, asked: Contract | None) -> list[Request]:
    """The requests of one scheme.

    Raises:
        InfeasibleSpec: it has none; `Short` where it does not give the error that is asked.
    """
    spec, place = loaded.spec, loaded.place
    case = Case(place, spec, gpu, scheme)
    refuse(OF_SCHEME, case)
    scheme = with_runs(scheme, spec.split.run)
    requests, found, refused = [], [], []
    usable = [(fragment, designs_of(fragment, case.kind, case.family)) for fragment in fragments(spec.fragment, scheme, gpu, place)]
    refused += [first(OF_KIND, replace(case, fragment=fragment)) for fragment, designs in usable if not designs]
    sizes = _hints(loaded)
    # Whom all designs refuse is told by the one that is asked for, or else by one that serves any sizes.
    ways = [(scheme, fragment, design) for fragment, designs in usable for design in designs]
    ways += [] if asked else plain_ways(spec, gpu, sizes)
    ways.sort(key=lambda way: (way[2].name == spec.pipeline.design, not way[2].is_narrow))
    for suits in (True, False):  # a design that is not meant for such sizes serves those who ask for what it alone has
        for of_words, fragment, design in ways:
            if requests or design.suits(sizes) is not suits:
                continue
            try:
                found.append(_request(loaded, of_words, gpu, fragment, design, asked))
            except InfeasibleSpec as error:
                refused.insert(len(refused) if suits or design.name == spec.pipeline.design else 0, error.with_traceback(None))
        requests = found
    if not requests:
        raise min((error for error in refused if isinstance(error, Short)), key=lambda error: error.times, default=refused[-1])
    return requests


def _hints(loaded: LoadedSpec) -> Hints:
    problem = loaded.spec.problem
    kind = kind_of(problem)
    return Hints(*problem.extents, kind.products(problem), kind.strides, kind.reals)


def _constants(loaded: LoadedSpec, scheme: Scheme, gpu: Gpu, fragment: Fragment, design: Design) -> dict[str, Any]:
    """The symbols that no candidate changes."""
    found = design.constants(kind_of(loaded.spec.problem).stored_layout(loaded.spec.problem.layout), scheme, fragment, gpu, _hints(loaded))
    return found | (design.passes(scheme) if loaded.spec.split.fallback != NO_FALLBACK else {})


def _request(loaded: LoadedSpec, scheme: Scheme, gpu: Gpu, fragment: Fragment, design: Design, asked: Contract | None) -> Request:
    spec, place = loaded.spec, loaded.place
    case = Case(place, spec, gpu, scheme, fragment, design)
    refuse(OF_KERNEL, case)
    if spec.fragment.shape is None:
        fragment = design.preferred([row for row in candidates(gpu.vendor, scheme.leading, fragment.policy) if row.runs_on(gpu.arch)], fragment)
    case = replace(case, fragment=fragment)
    promote, sums = promotion(case, asked)
    refuse(OF_PROMOTION, replace(case, promote=promote))
    batch = design.batch(spec, gpu, scheme, fragment, place) if case.kind.batched else None
    known = fixed(loaded) | (design.settled(batch) if batch else {})
    ways = design.ways(Asked(place, gpu, fragment, known, tuple(foreign(known, design)), case.kind))
    stages = design.stages(gpu)
    constants = _constants(loaded, scheme, gpu, fragment, design)
    request = Request(loaded, scheme, gpu, fragment, design, constants=constants, batch=batch, contract=asked, choices=Choices(
        fixed={one.name: one.usual for one in design.own if one.quiet} | ({"stages": stages} if stages else {}) | known
        | ({SUMS.name: sums} if SUMS in design.own else {}), promote=(promote,), ways=ways,
        small=spec.problem.m * spec.problem.n * case.kind.products(spec.problem) < (2 * LEAST_WARP) ** 2 * gpu.rates.sms,
    ))
    return replace(request, required=tuple(_required(request)), objective=_objective(request), model=papers.model_of(request))


def _required(request: Request) -> Iterator[Required]:
    for at, text in enumerate(request.loaded.spec.solve.require, 1):
        place = f"{request.loaded.place}: [solve] require {at}"
        yield _served(required(f"U{at}", text, place, _symbols(request)), request, place)


def _objective(request: Request) -> Objective | None:
    asked = request.loaded.spec.solve
    for key, text in (("maximize", asked.maximize), ("minimize", asked.minimize)):
        if text:
            place = f"{request.loaded.place}: [solve] {key}"
            return _served(objective(text, key == "maximize", place, _symbols(request)), request, place)
    return None


def _symbols(request: Request) -> set[str]:
    """Those of any design's model."""
    return set(request.constants).union(*(design.known_symbols for design in all_designs()))


def _served(own: Own, request: Request, place: str) -> Own:
    """The expression, if the request's design has all its symbols."""
    missing = [name for name in own.variables if name not in request.constants and name not in request.design.known_symbols]
    if missing:
        raise InfeasibleSpec(
            place, f"kernels of policy {request.fragment.policy} have no such symbol", got=missing[0], needs="a symbol of their model",
            remedy="another symbol, or another policy: gemmgen explain --symbols lists them with their policies",
        )
    return own


