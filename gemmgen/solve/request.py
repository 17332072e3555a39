"""A spec with its names looked up: which fragments it leaves open, and what it fixes of each design's decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from gemmgen.batch import Batch
from gemmgen.catalog.epilogue import epilogue_of
from gemmgen.catalog.fragment import Fragment, candidates, shapes
from gemmgen.catalog.gpu import GPUS, Gpu
from gemmgen.catalog.input import F32
from gemmgen.catalog.output import all_outputs
from gemmgen.catalog.policy import UNAVAILABLE
from gemmgen.catalog.scheme import SCHEMES, Scheme, preferred_scheme
from gemmgen.catalog.unit import MatrixUnit
from gemmgen.designs import Asked, Choices, Design, Hints, all_decisions, all_designs, designs_of, owner_of, owners_of
from gemmgen.designs.design import refuse_batch
from gemmgen.designs.feature import SPLITS_APART, STORED_B
from gemmgen.designs.portable.design import LEAST_WARP
from gemmgen.decisions import SUMS, Decision
from gemmgen.errors import InfeasibleSpec, SpecError, UnknownName
from gemmgen.model.error import promote_for
from gemmgen.model.expressions import Objective, Required, objective, required
from gemmgen.plan import Plan
from gemmgen.solve import papers
from gemmgen.solve.contract import Contract, Short, contract
from gemmgen.solve.fallback import NONE as NO_FALLBACK
from gemmgen.spec import FragmentChoice, LoadedSpec, Spec

Own = TypeVar("Own", Required, Objective)

PLAIN, PLAIN_POLICY = "fp32", "fma"
"""The scheme and the policy of kernels without a matrix unit."""


@dataclass(frozen=True)
class Request:
    """A spec with its names looked up, for one fragment and one design.

    Attributes:
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
    batch: Batch | None = None
    required: tuple[Required, ...] = ()
    objective: Objective | None = None
    contract: Contract | None = None
    model: papers.Model | None = None

    @cached_property
    def constants(self) -> dict[str, Any]:
        """The symbols that no candidate changes."""
        found = self.design.constants(self.loaded.spec.problem.layout, self.scheme, self.fragment, self.gpu, self.hints)
        return found | (self.design.passes(self.scheme) if self.loaded.spec.split.fallback != NO_FALLBACK else {})

    @property
    def unit(self) -> MatrixUnit | None:
        """What multiplies; None for FP32 arithmetic."""
        return self.gpu.unit.of(self.scheme.leading, self.fragment.policy) if self.fragment.on_matrix_unit else None

    @property
    def compensated(self) -> bool:
        """Whether sums that leave the unit are compensated."""
        return self.choices[SUMS.name] == "compensated"

    @property
    def settled(self) -> bool:
        """Whether nothing is left to choose."""
        opened = [one for one in self.opened if one.name != "promote"]
        return not opened and len(self.choices.promote) == len(self.choices.ways) == 1

    @property
    def hints(self) -> Hints:
        problem = self.loaded.spec.problem
        return Hints(problem.m, problem.n, problem.k, 1 if problem.kind == "gemm" else problem.matrices)

    @property
    def opened(self) -> tuple[Decision, ...]:
        """The decisions that the spec leaves open."""
        return tuple(one for one in self.design.decisions if one.symbols and self.choices[one.name] is None)

    @property
    def asked(self) -> tuple[str, ...]:
        """The spec's own objective and inequalities, in words."""
        goal = (f"{'maximize' if self.objective.largest else 'minimize'} {self.objective.written}",) if self.objective else ()
        goal += (f"tile by {self.model.title}",) if self.model else ()
        return (*goal, *(f"require {one.written}" for one in self.required))

    def with_tile(self, tile: papers.Tile) -> Request:
        """The same with a tile of the model's fixed, and what comes with it where the spec leaves that open."""
        said = _fixed(self.loaded)
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
            layout=spec.problem.layout, scheme=self.scheme, fragment=design.instruction(self.fragment, known["block"], known["warp"]), gpu=self.gpu,
            special=spec.split.special, allow_spills=spec.build.allow_spills, hints=self.hints, where=way.where, loads=way.loads,
            designed=None if design is designs_of(self.fragment, spec.problem.kind, self.scheme.recombination.family)[0] else design.name,
            output=all_outputs()[spec.problem.c], epilogue=epilogue_of(spec.epilogue.do), asked=self.asked, batch=self.batch, **known, **more,
        )


def requests(loaded: LoadedSpec) -> list[Request]:
    """The spec with its names looked up, once for each policy and each design that it leaves open, and each scheme that gives the error it asks for."""
    spec, place = loaded.spec, loaded.place
    if spec.target.gpu is None:
        raise SpecError(f"{place}: [target] gpu", "is missing", needs="a name under specs/gpus, or a .toml file", remedy='gpu = "a100", or --gpu a100')
    gpu = GPUS.get(spec.target.gpu, where=f"{place}: [target] gpu", relative_to=loaded.folder)
    if _unless_auto(spec.target.vendor) not in (None, gpu.vendor):
        raise SpecError(
            f"{place}: [target] vendor", f"{gpu.name} is not {spec.target.vendor}'s", got=spec.target.vendor, needs=gpu.vendor, remedy="leave it out",
        )
    if not all_outputs()[spec.problem.c].serves(gpu.maker.platform):
        raise InfeasibleSpec(
            f"{place}: [problem] c", f"kernels for {gpu.name} have no C of this type", got=spec.problem.c,
            needs=f"functions of the type for {gpu.maker.platform}", remedy='c = "f32", or another gpu',
        )
    if (lacks := epilogue_of(spec.epilogue.do).lacks(gpu.maker.platform)) is not None:
        raise InfeasibleSpec(
            f"{place}: [epilogue] do", f"kernels for {gpu.name} have no such step", got=lacks,
            needs=f"functions of the step for {gpu.maker.platform}", remedy="leave it out, or another gpu",
        )
    if spec.problem.kind == "gemm":
        refuse_batch(spec, place)
    asked = contract(loaded, all_outputs()[spec.problem.c].roundoff)
    if spec.problem.b != F32.name and spec.problem.kind != "gemm":
        raise InfeasibleSpec(f"{place}: [problem] b", "batches have a B of FP32 alone", got=f"{spec.problem.b}, kind = {spec.problem.kind}",
                             needs=F32.name, remedy='b = "f32", or kind = "gemm"')
    if asked is None:
        name = preferred_scheme(gpu.unit, spec.problem.b).name if spec.split.scheme == "auto" else spec.split.scheme
        return _of_scheme(loaded, SCHEMES.get(name, where=f"{place}: [split] scheme", relative_to=loaded.folder), gpu, None)
    found, refused = [], []
    for scheme in schemes_for(spec.problem.b):
        try:
            found += _of_scheme(loaded, scheme, gpu, asked)
        except (InfeasibleSpec, UnknownName) as error:  # a shape that the scheme's words do not have is asked of no kernel
            refused.append(error)
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


def schemes_for(b: str) -> list[Scheme]:
    """The rows that take a B of this type."""
    return [scheme for scheme in SCHEMES.rows() if scheme.b == (None if b == F32.name else b)]


def _of_scheme(loaded: LoadedSpec, scheme: Scheme, gpu: Gpu, asked: Contract | None) -> list[Request]:
    """The requests of one scheme.

    Raises:
        InfeasibleSpec: it has none; `Short` where it does not give the error that is asked.
    """
    spec, place = loaded.spec, loaded.place
    if (takes := scheme.b or F32.name) != spec.problem.b:
        has = ", ".join(row.name for row in schemes_for(spec.problem.b))
        raise InfeasibleSpec(
            f"{place}: [split] scheme", f"takes a B of {takes}", got=f"{scheme.name}, [problem] b = {spec.problem.b}", needs="a scheme for B's type", has=has,
            remedy=f'[problem] b = "{takes}", or scheme = "{preferred_scheme(gpu.unit, spec.problem.b).name}"',
        )
    requests, found, refused = [], [], []
    family = scheme.recombination.family
    fragments = [(fragment, designs_of(fragment, spec.problem.kind, family)) for fragment in _fragments(spec.fragment, scheme, gpu, place)]
    refused += [_kindless(spec.problem.kind, fragment, scheme, place) for fragment, designs in fragments if not designs]
    sizes = Hints(spec.problem.m, spec.problem.n, spec.problem.k)
    # Whom all designs refuse is told by the one that is asked for, or else by one that serves any sizes.
    ways = [(scheme, fragment, design) for fragment, designs in fragments for design in designs]
    ways += [] if asked else _plain_ways(spec, gpu, sizes)
    ways.sort(key=lambda way: (way[2].name == spec.pipeline.design, not way[2].is_narrow))
    for suits in (True, False):  # a design that is not meant for such sizes serves those who ask for what it alone has
        for of_words, fragment, design in ways:
            if requests or design.suits(sizes) is not suits:
                continue
            try:
                found.append(_request(loaded, of_words, gpu, fragment, design, asked))
            except InfeasibleSpec as error:
                refused.insert(len(refused) if suits or design.name == spec.pipeline.design else 0, error)
        requests = found
    if not requests:
        raise min((error for error in refused if isinstance(error, Short)), key=lambda error: error.times, default=refused[-1])
    return requests


def _plain_ways(spec: Spec, gpu: Gpu, sizes: Hints) -> list[tuple[Scheme, Fragment, Design]]:
    """Plain FP32, where the scheme is open and a design of it is for such sizes: memory binds there, and no word need be split."""
    plain = SCHEMES.get(PLAIN)
    if spec.problem.b != F32.name or spec.split.scheme != "auto" or spec.fragment.shape is not None:
        return []
    if _unless_auto(spec.fragment.policy) not in (None, PLAIN_POLICY):
        return []
    usable = [row for row in candidates(gpu.vendor, plain.leading, PLAIN_POLICY) if row.runs_on(gpu.arch)][:1]
    return [(plain, row, one) for row in usable for one in designs_of(row, spec.problem.kind) if one.is_narrow and one.suits(sizes)]


def _kindless(kind: str, fragment: Fragment, scheme: Scheme, place: str) -> InfeasibleSpec:
    family = scheme.recombination.family
    serving = owners_of(kind, family)
    if not designs_of(fragment, family=family) or not serving:
        policies = [policy for policy in owners_of("gemm", family) if shapes(fragment.vendor, scheme.word, policy)]
        return InfeasibleSpec(
            f"{place}: [split] scheme", f"there are no kernels for the {family} of such a scheme on policy {fragment.policy}, for [problem] kind = {kind}",
            got=scheme.name, needs=f"policy {' or '.join(policies or owners_of('gemm', family))}, and kind = gemm",
            remedy="another scheme, or a GPU that has it",
        )
    return InfeasibleSpec(
        f"{place}: [problem] kind", f"there are no kernels for such problems on policy {fragment.policy}", got=kind,
        needs=f"policy {' or '.join(serving)}" if serving else "a design for it", remedy='policy = "auto", or kind = "gemm"',
    )


def _request(loaded: LoadedSpec, scheme: Scheme, gpu: Gpu, fragment: Fragment, design: Design, asked: Contract | None) -> Request:
    spec, place = loaded.spec, loaded.place
    if spec.pipeline.design not in ("auto", design.name):
        raise InfeasibleSpec(
            f"{place}: [pipeline] design", f"kernels of policy {fragment.policy} are not of this design", got=spec.pipeline.design,
            needs=" or ".join(one.name for one in designs_of(fragment, spec.problem.kind, scheme.recombination.family)),
            remedy='design = "auto", or another policy',
        )
    _refuse_words(scheme, design, fragment, spec.problem.kind, place)
    if spec.split.sums == "compensated":
        _refuse_compensated(scheme, design, fragment, spec.problem.kind, place)
    if fragment.on_matrix_unit and (unknown := [word for word in scheme.types if word not in gpu.unit.words]):
        raise InfeasibleSpec(
            f"{place}: [split] scheme", f"how {gpu.name}'s matrix unit rounds {unknown[0]} is not known",
            got=scheme.name, needs=f"a row of specs/units/{gpu.matrix_unit}.toml for {unknown[0]}: bounds and emulation rest on it",
            has=", ".join(sorted(gpu.unit.block)), remedy="another scheme, or another gpu",
        )
    if fragment.on_matrix_unit and gpu.unit.of(scheme.leading, fragment.policy).rule == "by_f16":
        raise InfeasibleSpec(
            f"{place}: [fragment] policy",
            f"{gpu.name} has no {fragment.policy} instruction of its own for {scheme.leading}: the compiler makes FP16 of such words",
            got=fragment.policy, needs=f"a policy whose instructions multiply {scheme.leading}, where FP16 words would be as fast and more accurate",
            remedy="a scheme of FP16 words, or another gpu",
        )
    if spec.fragment.shape is None:
        fragment = design.preferred([row for row in candidates(gpu.vendor, scheme.leading, fragment.policy) if row.runs_on(gpu.arch)], fragment)
    promote = spec.split.promote
    sums = spec.split.sums if spec.split.sums != "auto" else SUMS.usual
    if asked:
        promote, sums = _interval(asked, loaded, scheme, gpu, fragment, design)
    elif promote is None and sums == "compensated":
        # What is left is the unit's own error, which grows with the interval; but of cuts the larger part is given back.
        promote = (2 if gpu.unit.of(scheme.leading, fragment.policy).rounds_to_nearest else 4) * fragment.shape[2]
    elif promote is None and not fragment.on_matrix_unit:
        promote = 0
    elif promote is None:
        promote = promote_for(scheme, gpu.unit.of(scheme.leading, fragment.policy), fragment.shape[2], spec.problem.k)
        promote = promote and design.promote(promote, scheme, spec.tile.block, spec.problem.k, fragment)
    if promote and not fragment.on_matrix_unit:
        raise InfeasibleSpec(
            f"{place}: [split] promote", f"the sums of {scheme.name} are in FP32 registers already", got=promote,
            needs="0: promotion moves sums out of a matrix unit, which truncates", remedy="promote = 0",
        )
    if scheme.largest_k is not None and spec.problem.k > scheme.largest_k:
        raise InfeasibleSpec(
            f"{place}: [problem] k", f"INT32 sums of {scheme.name} could overflow", got=spec.problem.k, needs=f"at most {scheme.largest_k}",
            remedy="products of parts of K that add up, with beta = 1, or another scheme",
        )
    if promote and scheme.fixed:
        raise InfeasibleSpec(
            f"{place}: [split] promote", f"the sums of {scheme.name} are integers, and exact", got=promote,
            needs="0: promotion moves sums out of a matrix unit that truncates", remedy="promote = 0",
        )
    batch = None if spec.problem.kind == "gemm" else design.batch(spec, gpu, scheme, fragment, place)
    fixed = _fixed(loaded) | (design.settled(batch) if batch else {})
    ways = design.ways(Asked(place, gpu, fragment, fixed, tuple(_foreign(fixed, design)), spec.problem.kind))
    stages = design.stages(gpu)
    request = Request(loaded, scheme, gpu, fragment, design, batch=batch, contract=asked, choices=Choices(
        fixed={one.name: one.usual for one in design.own if one.quiet} | ({"stages": stages} if stages else {}) | fixed
        | ({SUMS.name: sums} if SUMS in design.own else {}), promote=(promote,), ways=ways,
        small=spec.problem.m * spec.problem.n * (1 if spec.problem.kind == "gemm" else spec.problem.matrices) < (2 * LEAST_WARP) ** 2 * gpu.rates.sms,
    ))
    return replace(request, required=tuple(_required(request)), objective=_objective(request), model=papers.model_of(request))


def _refuse_words(scheme: Scheme, design: Design, fragment: Fragment, kind: str, place: str) -> None:
    """Not every design multiplies words of several types, or splits B into other words than A.

    Raises:
        InfeasibleSpec: the scheme has such words, and the design does not.
    """
    for able, what in (
        (lambda one: scheme.uniform or one.mixes(scheme), f"words of several types: {', '.join(scheme.types)}"),
        (lambda one: scheme.b is None or one.has(STORED_B), f"B of {scheme.b} as it is stored"),
        (lambda one: scheme.alike or scheme.b or one.has(SPLITS_APART), "other words of B than of A"),
    ):
        if not able(design):
            serving = [one.name for one in all_designs() if able(one) and kind in one.kinds]
            raise InfeasibleSpec(
                f"{place}: [split] scheme", f"kernels of policy {fragment.policy} and design {design.name} have no {what}", got=scheme.name,
                needs=f"a scheme without, or design {' or '.join(serving)}" if serving else "a scheme without",
                remedy=f'design = "{serving[0]}" on a GPU that has it, or another scheme' if serving else "another scheme",
            )


def _refuse_compensated(scheme: Scheme, design: Design, fragment: Fragment, kind: str, place: str) -> None:
    """Sums are compensated as they leave a matrix unit that rounds them, by designs that have the choice.

    Raises:
        InfeasibleSpec: they are FP32 sums in registers, or integers, or the design has no such choice.
    """
    able = [one.name for one in all_designs() if SUMS in one.own and kind in one.kinds]
    if not fragment.on_matrix_unit:
        problem, needs = f"the sums of {scheme.name} are in FP32 registers already", "a scheme whose words a matrix unit multiplies"
    elif scheme.fixed:
        problem, needs = f"the sums of {scheme.name} are integers, and exact", "a scheme of floating-point words"
    elif SUMS not in design.own:
        problem, needs = f"kernels of policy {fragment.policy} and design {design.name} have no such choice", "a design that has it"
    else:
        return
    raise InfeasibleSpec(
        f"{place}: [split] sums", problem, got="compensated", needs=needs, has=f"design {' or '.join(able)}" if able else f"none for kind = {kind}",
        remedy='sums = "plain"',
    )


def _interval(asked: Contract, loaded: LoadedSpec, scheme: Scheme, gpu: Gpu, fragment: Fragment, design: Design) -> tuple[int, str]:
    """The first interval of promotion, and how its sums are added up, the cheapest first, with which the scheme gives the error that is asked.

    Raises:
        Short: there is none.
    """
    split, unit = loaded.spec.split, gpu.unit.of(scheme.leading, fragment.policy) if fragment.on_matrix_unit else None
    tried: dict[tuple[int, str], float] = {}
    for wanted, sums in asked.promotions(fragment.shape[2], unit is not None and SUMS in design.own):
        if split.sums not in ("auto", sums):
            continue
        if split.promote is not None:
            wanted = split.promote
        elif unit is None:
            wanted = 0
        elif sums == SUMS.usual:
            wanted = wanted and design.promote(wanted, scheme, loaded.spec.tile.block, loaded.spec.problem.k, fragment)
        if (wanted, sums) not in tried:
            tried[wanted, sums] = asked.times(scheme, unit, wanted, sums == "compensated")
        if tried[wanted, sums] <= 1:
            return wanted, sums
    nearest = min(tried, key=tried.__getitem__)
    error = Short(f"{loaded.place}: [accuracy] {asked.key}", f"scheme {scheme.name} does not reach this", got=asked.asked, needs=asked.text)
    error.times, error.figure = tried[nearest], asked.told(scheme, unit, nearest[0], nearest[1] == "compensated")
    raise error


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
            remedy="another symbol, or another policy: gemmgen explain --symbols tells whose they are",
        )
    return own


def _fixed(loaded: LoadedSpec) -> dict[str, Any]:
    """The decisions that a spec fixes, by name."""
    found = {one.name: getattr(getattr(loaded.spec, one.section), one.name) for one in all_decisions()}
    return {name: value for name, value in found.items() if value not in (None, "auto")}


def _foreign(fixed: Mapping[str, Any], design: Design) -> Iterator[tuple[Decision, str]]:
    """What of that a design does not have, each with a policy whose kernels do.

    A number that means as much as not having the choice is no matter; a word asks for a design that knows it.
    """
    for one in all_decisions():
        value = fixed.get(one.name)
        lacks = value not in design.values_of(one) if one.words else one.name not in {own.name for own in design.decisions}
        if value is not None and lacks and (one.words or value != one.neutral):
            yield one, owner_of(one, value)


def _unless_auto(word: str) -> str | None:
    return None if word == "auto" else word


def _fragments(choice: FragmentChoice, scheme: Scheme, gpu: Gpu, place: str) -> list[Fragment]:
    """The fragments that the spec leaves open: one for each policy, the widest along k."""
    asked = _unless_auto(choice.policy)
    if asked or scheme.exact:
        return [_fragment(asked or "fma", choice.shape, scheme, gpu, place)]
    portable = shapes(gpu.vendor, scheme.leading, gpu.portable_policy)
    found = []
    if choice.shape is None or choice.shape not in portable:
        for policy in gpu.maker.preferred_policies:
            known = shapes(gpu.vendor, scheme.leading, policy)
            if any(row.runs_on(gpu.arch) for row in known.values()) and (choice.shape is None or choice.shape in known):
                found.append(_fragment(policy, choice.shape, scheme, gpu, place))
    if choice.shape is None or not found:
        found.append(_fragment(gpu.portable_policy, choice.shape, scheme, gpu, place))
    return found


def _targets(fragment: Fragment) -> str:
    """Which targets have it, in words."""
    return " or ".join(fragment.archs) if fragment.archs else f"sm_{fragment.min_arch} or newer"


def _fragment(policy: str, shape: str | None, scheme: Scheme, gpu: Gpu, place: str) -> Fragment:
    known = shapes(gpu.vendor, scheme.leading, policy)
    if (unavailable := UNAVAILABLE.get(policy)) is not None:
        raise InfeasibleSpec(
            f"{place}: [fragment] policy", unavailable.problem, got=policy, needs=unavailable.needs,
            remedy=f'policy = "{gpu.portable_policy}", {unavailable.remedy}',
        )
    if not known:
        raise InfeasibleSpec(
            f"{place}: [fragment] policy", f"no {policy} fragment of {scheme.leading} is known for {gpu.vendor}", got=policy,
            needs=f"a row under specs/fragments for {scheme.leading}", remedy="another scheme" if scheme.exact else 'policy = "auto"',
        )
    if shape is not None and shape not in known:
        raise UnknownName(f"{place}: [fragment] shape", f"{scheme.leading} fragment of {gpu.vendor}", shape, known)
    usable = [row for row in candidates(gpu.vendor, scheme.leading, policy) if row.runs_on(gpu.arch) and shape in (None, row.shape_name)]
    if usable:  # of those that differ in n alone, the first can be made as wide as a tile
        return max(usable, key=lambda row: (row.shape[0] * row.shape[2], row.shape[0], -row.shape[1], -(row.instructions or 1)))
    least = min(known.values(), key=lambda row: row.min_arch or 0)
    portable = policy == gpu.portable_policy
    raise InfeasibleSpec(
        f"{place}: [fragment] {'shape' if portable or shape else 'policy'}",
        f"{gpu.name} does not have {shape}" if shape
        else f"{gpu.name} has no {'matrix instruction' if portable else policy} for {scheme.leading}",
        got=shape or (None if portable else policy),
        needs=least.arch or _targets(known[shape] if shape else least), has=gpu.arch,
        remedy="another gpu" if portable else 'another gpu, or policy = "auto"',
    )
