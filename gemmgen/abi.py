"""What a plan's kernels agree on with whoever calls them: one table, derived from the plan once.

    interface = abi.interface(plan)

Buffers of the workspace, counters, launches and their parameters are data (`gemmgen.interface`). The kernels' signatures, every runner,
the exported C and the manifest read this table and nothing else, so that a parameter or a buffer is added in one place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial, singledispatch
from typing import Any

from gemmgen import views
from gemmgen.catalog.residues import SEGMENT_K
from gemmgen.catalog.scheme import Family, WideResidueWords
from gemmgen.designs.residues import norms
from gemmgen.interface import BATCH, COUNTER_BYTES, SOLVE, STATUS, TILES, Buffer, Counter, Counters, Grid, Interface, Launch, Line, Parameter, given
from gemmgen.naming import kernel_name
from gemmgen.plan import Plan
from gemmgen.views.memory import Operand

WHOLE_CLUSTER = "pass_cluster"
"""The constant that tells the blocks of a cluster in a pass over whole rows and columns."""
COUNTERS = {
    "a_status": ("a_lossy", "a_overflow", "a_nonfinite"),
    "b_status": ("b_lossy", "b_overflow", "b_nonfinite"),
    "repaired": ("repaired",),
}
"""What the kernels count, each an unsigned 64-bit integer, by kernel parameter and in this order.

lossy: finite elements below the words' normal range, and those whose words lose more than the scheme's own remainder.
overflow: finite elements that the leading word cannot hold.
nonfinite: elements that are Inf or NaN.
repaired: elements of C computed again in FP32.
"""

FALLBACK, FALLEN = "fallback", "fallen"
"""What the counters of a fallback's words begin with, and the counter of tiles that it took."""


def interface(plan: Plan) -> Interface:
    """The table of a plan's kernels."""
    if plan.launches.of_products:
        return _packed(plan) if plan.launches.packs_products else _grouped(plan)
    padded = {f"{name}_padded": (name, unit) for name, unit in zip("mnk", plan.block)}
    if plan.cluster > 1 and plan.split_k > 1:  # the last cluster may reach below C, and its blocks leave their parts, too
        padded["m_clusters"] = ("m", plan.block[0] * plan.cluster)
    counters = _counters(plan)
    return Interface(
        constants={"split_k": plan.split_k, "cluster": plan.cluster} | ({WHOLE_CLUSTER: plan.launches.whole_cluster} if plan.launches.splits_whole else {}),
        padded=padded, buffers=_buffers(plan, padded, counters),
        counters=counters, launches=tuple(_aliased(plan, launch) for launch in _launches(plan, counters)),
        tiles=partial(plan.kind.tiles.number, tile=(plan.block[0] * plan.cluster, plan.block[1])) if plan.kind.tiles else None,
        rounds=partial(plan.kind.rounds, contiguous=plan.kind.solves and plan.solved.k_contiguous) if plan.kind.in_rounds else None,
        largest=plan.kind.largest if plan.kind.solves else None,
    )


def _aliased(plan: Plan, launch: Launch) -> Launch:
    """The launch with the arguments that the plan's kind passes on in place of a parameter's own, and A's buffers in place of B's where those are its words."""
    def aliased(one: Parameter) -> Parameter:
        region = f"a_{one.region[2:]}" if plan.launches.shares_words and one.region and one.region.startswith("b_") else one.region
        return replace(one, argument=passed.get(one.argument, one.argument), region=region)

    # Extents of complex elements are not those of the real product, of which n is twice m.
    passed = {one: of for one, of in plan.kind.aliases.items() if plan.kind.reals == 1 or one not in ("m", "n", "k")}

    if not plan.kind.aliases or plan.kind.solves:  # of which each round tells
        return launch
    return replace(launch, lines=tuple(replace(line, parameters=tuple(map(aliased, line.parameters))) for line in launch.lines))


def _counters(plan: Plan) -> tuple[Counters, ...]:
    of = " or ".join(f"{one}'s" for one in plan.scheme.family.sharing.split(" or "))
    what = "parts of elements" if plan.kind.reals > 1 else "elements"
    meanings = {
        "lossy": f"finite {what} of {{}} that are not 0 and too small beside their {of} largest for any word" if plan.scheme.family.by_row
        else f"finite {what} of {{}} below the words' range, or that lose more than 2^-{plan.scheme.precision.bits}",
        "overflow": f"finite {what} of {{}} that the leading word cannot hold",
        "nonfinite": f"{what} of {{}} that are Inf or NaN",
    }

    def meaning(field: str) -> str:
        if field == FALLEN:
            return f"tiles of C, {plan.block[0]} x {plan.block[1]}, that fell back to {plan.fallback.scheme.name}"
        if field.startswith(FALLBACK):
            return f"the same of what the fallback's words cannot hold, once for each of its tiles: {field.removeprefix(FALLBACK + '_')}"
        operand, _, kind = field.partition("_")
        if kind:
            other = f", and of {'B' if operand == 'a' else 'A'} in its place," if plan.kind.exchanged else ""
            return meanings[kind].format(operand.upper() + other)
        return f"elements of C computed again in {plan.type.title}" if plan.special == "exact" else "always 0: special = fast"

    found, offset, all_fields = [], 0, dict(COUNTERS)
    if plan.fallback:
        all_fields |= {f"{FALLBACK}_{name}": tuple(f"{FALLBACK}_{field}" for field in COUNTERS[name]) for name in ("a_status", "b_status")}
        all_fields[FALLEN] = (FALLEN,)
    for name, fields in all_fields.items():
        found.append(Counters(name, offset, tuple(Counter(field, meaning(field)) for field in fields)))
        offset += COUNTER_BYTES * len(fields)
    return tuple(found)


def _buffer_pair(
    name: str, element: str, factor: int, zeroed: bool, meanings: tuple[str, ...], also: tuple[str, ...] = (), **more: Any,
) -> tuple[Buffer, ...]:
    """A buffer for A's rows and one for B's columns, `a_` and `b_` and the name; `also` are the extents that both have besides."""
    return tuple(
        Buffer(f"{x}_{name}", element, factor, (f"{outer}_padded", *also), zeroed, meaning, **more)
        for x, outer, meaning in zip("ab", "mn", meanings)
    )


def _buffers(plan: Plan, padded: Mapping[str, tuple[str, int]], counters: Sequence[Counters]) -> tuple[Buffer, ...]:
    scales = 4 if plan.scales.takes_maxima else 0
    tiles = [
        Buffer(f"{x}_scales", "float", 4, (f"{outer}_padded", "k_padded", *((BATCH,) if plan.launches.repeated else ())), False,
               f"2^-e of each {plan.scheme.family.tile_k} k of {whose}", per=plan.scheme.family.tile_k)
        for x, outer, whose in (("a", "m", "A's rows"), ("b", "n", "B's columns")) if plan.scheme.family.tile_k
    ]
    of_a, of_b = (sum(word.bytes for word in plan.words_of(operand)) for operand in "ab")
    before = [operand.name for operand in plan.launches.split_before]
    slices = plan.split_k if plan.split_k > 1 else 0
    rows = "m_clusters" if "m_clusters" in padded else "m_padded"
    none = "" if scales else "; none in this scheme"
    arrived = f"slices of k that have left their part, for each {plan.design.text.gatherer} of C"
    each = (BATCH,) if plan.launches.repeated else ()
    found_by_adding = not plan.launches.splits_whole  # blocks raise what others found
    lines = tuple(f"largest magnitudes of {whose}{none}" for whose in ("A's rows", "B's columns"))
    maxima = _buffer_pair("absmax", "unsigned int", scales, found_by_adding, lines, each, zeroed_again=found_by_adding)
    runs = _buffer_pair(
        "exponents", "int", 4, False, tuple(f"e of each {plan.scheme.family.run_k} k of {whose}, whose words are of 2^e times its elements"
                                            for whose in ("A's rows", "B's columns")),
        ("k_padded", *each), per=plan.block[2],  # room for one a stage, so that no extent of its own is needed
    ) if plan.scheme.family.run_k else ()
    found = (
        _status(counters),
        *(() if plan.launches.splits_whole else maxima),
        *(_buffer_pair(
            "energy", "unsigned long long", 8, True, ("of A's rows: elements that are not 0, and their leading words' squares", "the same of B's columns"),
            zeroed_again=True,
        ) if plan.fallback else ()),
        Buffer("arrived", "unsigned int", 4 * plan.numbers["sharers"] if slices else 0, (rows, "n_padded", *each), True,
               arrived if slices else f"{arrived}; none in this kernel", per=plan.block[0] * plan.block[1]),
        *(maxima if plan.launches.splits_whole else ()),
        Buffer("a_words", "unsigned char", of_a * ("a" in before) * (1 + plan.kind.twice), ("m_padded", "k_padded", *each), False,
               "A's words, packed" + ", and B's behind them" * plan.kind.twice),
        Buffer("b_words", "unsigned char", of_b * ("b" in before), ("n_padded", "k_padded", *each), False, "B's words, packed"),
        *tiles, *runs,
        *([
            Buffer("a_flags", "unsigned int", 4, ("m_padded",), False, "of rows of tiles: whether they fall back", per=plan.block[0]),
            Buffer("b_flags", "unsigned int", 4, ("n_padded",), False, "the same of columns of tiles", per=plan.block[1]),
        ] if plan.fallback else []),
        Buffer("parts", "float", 4 * slices, (rows, "n_padded", *each), False, "the sums of the slices of k"),
        *(_buffers_of_residues(plan) if plan.scheme.family.residues else ()),
    )
    return tuple(one for one in found if not (plan.launches.shares_words and one.name.startswith("b_")))


def _buffers_of_residues(plan: Plan) -> tuple[Buffer, ...]:
    return _kept(plan.scheme.family, plan)


@singledispatch
def _kept(family: Family, plan: Plan) -> tuple[Buffer, ...]:
    """Factors of rows and columns, one over each behind, and what results leave modulo each number, for the blocks that there are at once; or
    sums of segments of k, where registers hold the rest."""
    kept = (
        Buffer("residues", "unsigned char", plan.numbers["kept_bytes"], (), False, "residues of the tiles that are at work, and sums of segments before")
        if plan.design.stays else
        Buffer("segments", "double", *_of_all_c(plan, 8), False, "sums of the segments of k before, where there are several", above_k=SEGMENT_K)
    )
    return *_of_lines(plan, "double", 16, ("factors of A's rows, and one over each", "factors of B's columns, and one over each")), kept


@_kept.register
def _(family: WideResidueWords, plan: Plan) -> tuple[Buffer, ...]:
    """Powers of two of rows and columns, and what results leave modulo each number: for the blocks that there are at once, or of all C."""
    return (
        *_of_lines(plan, "int", 4, ("log2 of what A's rows are multiplied by", "log2 of what B's columns are multiplied by")),
        Buffer("residues", "unsigned char", plan.numbers["kept_bytes"], (), False, "residues of the tiles that are at work")
        if plan.design.stays else Buffer("residues", "unsigned char", *_of_all_c(plan, len(plan.scheme.words)), False, "residues of C"),
    )


def _of_lines(plan: Plan, element: str, factor: int, meanings: tuple[str, str]) -> tuple[Buffer, ...]:
    """The buffers of scales: so many bytes for each row of A and column of B, of all products."""
    if plan.launches.packs_products:
        return tuple(
            Buffer(f"{x}_scales", element, factor * tile, (f"{x}_panels",), False, meaning) for x, tile, meaning in zip("ab", plan.block, meanings)
        )
    return _buffer_pair("scales", element, factor, False, meanings, (BATCH,) if plan.launches.repeated else ())


def _of_all_c(plan: Plan, factor: int) -> tuple[int, tuple[str, ...]]:
    """The factor and the extents of a buffer that has so many bytes for each element of all tiles of C."""
    if plan.launches.packs_products:
        return factor * plan.block[0] * plan.block[1], ("turns",)
    return factor, ("m_padded", "n_padded", *((BATCH,) if plan.launches.repeated else ()))


def _status(counters: Sequence[Counters]) -> Buffer:
    return Buffer(STATUS, "unsigned long long", COUNTER_BYTES * sum(len(one.fields) for one in counters), (), True, "the counters")


# ---- parameters


def _into(region: str, element: str, meaning: str, **qualifiers: bool) -> Parameter:
    """A pointer to the start of a buffer, by the buffer's name."""
    return Parameter(region, element, meaning, pointer=True, region=region, **qualifiers)


_SIZES = (given("m", "int", "rows of C"), given("n", "int", "columns of C"), given("k", "int", "the summed dimension"))
_FACTORS = (given("alpha", "float", "factor of A B"), given("beta", "float", "factor of what C held"))


def _factors_of_c(plan: Plan) -> tuple[Parameter, ...]:
    """Those of complex numbers by their parts."""
    imaginary = (given(f"{one}_i", "float", f"imaginary part of {one}") for one in plan.kind.imaginary)
    return tuple(replace(one, element=plan.type.c_type) for one in (*_FACTORS, *imaginary))


def _strides(plan: Plan, names: str, counted: bool = True) -> tuple[Line, ...]:
    """Of a batch: elements from one matrix to the next, where no pointers tell, and how many there are, unless the kernel need not know."""
    if not plan.launches.repeated:
        return ()
    if plan.kind.indirect:
        return (Line((given(BATCH, "int", "products"),), "how many products there are"),) if counted else ()
    strides = [given(f"stride_{x}", "long long", f"elements from one {x.upper()} to the next") for x in names]
    if not counted:
        return (Line(tuple(strides), "elements from matrix to matrix"),)
    return (Line((*strides, given(BATCH, "int", "products")), "elements from matrix to matrix, and how many products there are"),)


def _matrix(plan: Plan, x: str, element: str, meaning: str, const: bool) -> Parameter:
    """An operand; of a batch that arrays of pointers locate, and whose schedule is a formula, `list_` and the operand: a pointer for each product."""
    if plan.launches.repeated and plan.kind.indirect:
        return Parameter(f"list_{x}", f"{'const ' * const}{element}* const", f"pointers to each product's {meaning}", pointer=True, restrict=True, argument=x)
    return given(x, element, meaning, pointer=True, const=const, restrict=True)


def _a(plan: Plan) -> tuple[Parameter, ...]:
    return _matrix(plan, "a", plan.inputs.elements_of("a"), "operand A", const=True), given("lda", "long long", "elements from one stored row of A to the next")


def _b(plan: Plan) -> tuple[Parameter, ...]:
    return _matrix(plan, "b", plan.inputs.elements_of("b"), "operand B", const=True), given("ldb", "long long", "the same of B")


def _ends(plan: Plan) -> tuple[Line, ...]:
    """What the epilogue is given; of a strided batch's vectors, how far they lie apart."""
    found = []
    for one in plan.epilogue.arguments:
        found.append(given(one.name, one.element, one.meaning, **({"pointer": True, "const": True, "restrict": True} if one.is_vector else {})))
        if one.is_vector and plan.launches.repeated:
            found.append(given(one.stride, "long long", f"elements from one product's {one.name} to the next one's; 0 where all share one"))
    return (Line(tuple(found), f"of the epilogue: {plan.epilogue.title}"),) if found else ()


def _c(plan: Plan) -> tuple[Parameter, ...]:
    return _matrix(plan, "c", plan.output.element, "result C", const=False), given("ldc", "long long", "the same of C")


def _words(operand: Operand, const: bool) -> Parameter:
    return _into(f"{operand.name}_words", "unsigned char", f"packed words of {operand.name.upper()}", const=const, restrict=True)


def _pair(name: str, element: str, meaning: str, const: bool, of: tuple[str, str] = ("A's rows", "B's columns")) -> tuple[Parameter, ...]:
    """The parameters for A and for B that point to buffers of theirs, `a_` and `b_` and the name; the meaning has {} for what of each they tell."""
    return tuple(_into(f"{x}_{name}", element, meaning.format(whose), const=const, restrict=True) for x, whose in zip("ab", of))


def _absmax(const: bool) -> tuple[Parameter, ...]:
    return _pair("absmax", "unsigned int", "largest magnitudes of {}", const)


def _energies(const: bool) -> tuple[Parameter, ...]:
    return _pair("energy", "unsigned long long", "elements and squares of {}", const)


def _flags(const: bool) -> tuple[Parameter, ...]:
    return _pair("flags", "unsigned int", "{} of tiles that fall back", const, ("rows", "columns"))


def _tile_scales(const: bool) -> tuple[Parameter, ...]:
    return _pair("scales", "float", "scales of tiles of k of {}", const)


def _run_exponents(const: bool) -> tuple[Parameter, ...]:
    return _pair("exponents", "int", "exponents of runs of k of {}", const)


def _factors(plan: Plan, const: bool) -> tuple[Parameter, ...]:
    meaning = "powers of two of {}" if plan.scheme.family.wide else "factors of {}, and one over each"
    return _pair("scales", plan.scheme.family.scale_type, meaning, const)


def _row_scales(plan: Plan, found: bool = False) -> tuple[Line, ...]:
    """What a kernel reads of the scales of rows and columns, or finds itself; nothing where there are none, or tiles of k have them."""
    if plan.scheme.family.residues:
        return (Line(_factors(plan, const=not found)),)
    return (Line(_absmax(const=not found)),) if plan.scales.takes_maxima else ()


def _counted(counters: Counters) -> Parameter:
    meaning = "counters: " + ", ".join(field.name for field in counters.fields)
    return Parameter(counters.name, "unsigned long long", meaning, pointer=True, restrict=True, region=STATUS, offset=counters.offset)


def _packed_stages(plan: Plan, operand: Operand) -> str:
    outer, words = operand.outer.upper(), "MODULI" if plan.scheme.family.residues else "WORDS"
    return f"packed stages [{operand.outer} / BLOCK_{outer}][k / BLOCK_K][{words}][BLOCK_{outer}][BLOCK_K]"


# ---- launches


def _over(plan: Plan, operands: Sequence[Operand], tile_outer: int, tile_k: int, padded: bool = False) -> Grid:
    """The blocks of a kernel whose first blocks take A and whose others take B, or all B; of a batch, all matrices of each."""
    end = "_padded" if padded else ""
    return (1 + plan.kind.twice) * tuple(((operand.outer + end, tile_outer), ("k" + end, tile_k), *_each(plan)) for operand in operands)


def _whole(plan: Plan, operands: Sequence[Operand]) -> Grid:
    """The same of a kernel whose blocks take whole rows or columns, all in whole clusters."""
    return tuple(((operand.outer + "_padded", plan.launches.whole_taken(operand)), (WHOLE_CLUSTER, 1), *_each(plan)) for operand in operands)


def _runs(plan: Plan, operands: Sequence[Operand]) -> Grid:
    """The same of a kernel whose blocks take runs of k, each as a whole."""
    return tuple(
        ((f"{operand.outer}_padded", plan.launches.run_outer(operand)), ("k", plan.scheme.family.run_k), *_each(plan)) for operand in operands
    )


def _each(plan: Plan) -> tuple[tuple[str, int], ...]:
    """The factor of a grid that has blocks for each product of a batch."""
    return ((BATCH, 1),) if plan.launches.repeated else ()


def _launches(plan: Plan, counters: Sequence[Counters]) -> tuple[Launch, ...]:
    name = kernel_name(plan)
    counted = {one.name: _counted(one) for one in counters}
    launches: list[Launch] = []
    if plan.kind.solves:
        launches.append(_solve(plan, f"{name}_{SOLVE}"))
    if plan.launches.finds_norms:
        grid = tuple(((one.outer, norms.LINES), ("k", views.WHOLE_K), *_each(plan)) for one in plan.launches.split_before)
        launches.append(_norms(
            f"{name}_norms", grid, Line((*_a(plan), *_b(plan))), Line((*_SIZES, *_factors(plan, const=False))), *_strides(plan, "ab"),
        ))
    if plan.scales.takes_maxima and not plan.launches.splits_whole:
        launches.append(Launch(
            symbol=f"{name}_absmax", role="absmax", meaning="the largest magnitude of each row of A and column of B",
            grid=_over(plan, plan.launches.split_before, plan.launches.absmax_outer, views.ABSMAX_TILE_K), threads=views.SPLIT_THREADS, shared_bytes=0,
            lines=(Line((*_a(plan), *_b(plan))), Line((*_SIZES, *_absmax(const=False))), *_strides(plan, "ab")),
        ))
    if plan.launches.split_before:
        launches.append(_split(plan, f"{name}_split", counted))
    if plan.fallback:
        launches.append(Launch(
            symbol=f"{name}_flags", role="flags", meaning="which rows and columns of tiles of C fall back",
            grid=((("m_padded", plan.block[0]),), (("n_padded", plan.block[1]),)), threads=plan.lanes, shared_bytes=0,
            lines=(Line(tuple(one for one in _SIZES if one.name != "k")), Line(_absmax(const=True)), Line(_energies(const=True)), Line(_flags(const=False))),
        ))
    launches.append(_gemm(plan, name, counted))
    if plan.fallback:
        launches.append(_fallback(plan, f"{name}_{FALLBACK}", counted))
    return tuple(launches)


def overlaps_rounds(plan: Plan) -> bool:
    """Whether the first launch of a round of a kind that solves may start while the round before still runs. The pass splits the triangle meanwhile, and waits
    for X alone."""
    of = plan.launches
    first = not (of.repeated or plan.fallback or plan.scheme.family.residues) and (of.splits_whole or not plan.scales.takes_maxima)
    return plan.kind.solves and plan.design.stays and first and len(of.split_before) == 2


def _solve(plan: Plan, symbol: str) -> Launch:
    """A kernel whose blocks take some right-hand sides each, of a block of unknowns: k is its size. Of a batch, all systems' one after another."""
    triangle, own = (_a if plan.solved.name == "a" else _b)(plan), plan.kind.own
    alpha = tuple(one for one in _factors_of_c(plan) if one.name.startswith("alpha"))
    return Launch(
        symbol=symbol, role=SOLVE,
        meaning=f"a block of unknowns, by substitution in {plan.type.title} with the triangle of {plan.solved.name.upper()} on the diagonal",
        grid=(((plan.kind.beside, own.systems * (plan.kind.reals if plan.kind.left else 1)), *_each(plan)),), threads=own.threads,
        shared_bytes=0 if plan.geometry.static_shared else own.shared_bytes, overlaps=overlaps_rounds(plan),
        lines=(
            Line(triangle), Line(_c(plan)), Line((given(plan.kind.beside, "int", "right-hand sides"), _SIZES[2], *alpha)),
            *_strides(plan, f"{plan.solved.name}c", counted=False),
        ),
    )


def _fallback(plan: Plan, symbol: str, counted: Mapping[str, Parameter]) -> Launch:
    """A kernel like any that splits its operands itself, which is told of the flags, and counts apart."""
    own = {**counted, **{f"{x}_status": replace(counted[f"{FALLBACK}_{x}_status"], name=f"{x}_status") for x in "ab"}}
    launch = _gemm(plan.fallback, symbol, own)
    return replace(
        launch, role=FALLBACK, meaning=f"the tiles of C that the main kernel leaves, by {plan.fallback.scheme.name}",
        lines=(Line(_flags(const=True), "which tiles to compute"), *launch.lines, Line((counted[FALLEN],))),
    )


def _norms(symbol: str, grid: Grid, *lines: Line) -> Launch:
    meaning = "the power of two of each row of A and column of B, by its Euclidean norm"
    return Launch(symbol=symbol, role="norms", meaning=meaning, grid=grid, threads=norms.THREADS, shared_bytes=0, lines=lines)


def _split_shared(plan: Plan) -> int:
    """Bytes of dynamic shared memory of the split pass: elements of residues wait there until their row's norm is found, where one pass does both."""
    whole = plan.scheme.family.residues and plan.launches.splits_whole
    return plan.launches.whole_shared if whole and not plan.geometry.static_shared else 0


def _kept_results(plan: Plan) -> Line:
    """What results leave modulo each number, or sums of segments of k, for the main kernel."""
    if plan.design.stays or plan.scheme.family.wide:
        residues = _into("residues", "unsigned char", "residues of the tiles that are at work", restrict=True)
        return Line((residues,), "[blocks]: [modulus][tile]" + ", and sums of segments" * (not plan.scheme.family.wide))
    return Line((_into("segments", "double", "sums of the segments of k before", restrict=True),), "[blocks of C][elements of a thread][THREADS]")


def _split(plan: Plan, symbol: str, counted: Mapping[str, Parameter]) -> Launch:
    before, scaled = plan.launches.split_before, plan.scheme.normalize == "row"
    tiles, whole = plan.launches.split_tile, plan.launches.splits_whole

    found = "the factors" if plan.scheme.family.residues else "the largest magnitudes"

    def over(operands: Sequence[Operand]) -> Grid:
        return _runs(plan, operands) if plan.scheme.family.run_k else _over(plan, operands, *tiles, padded=True)

    return Launch(
        symbol=symbol, role="split", meaning=f"{found} of rows and columns, and operands into words" if whole else "operands into words",
        grid=_whole(plan, before) if whole else over(before), threads=views.SPLIT_THREADS, shared_bytes=_split_shared(plan),
        lines=(
            Line((*_a(plan), *_b(plan))), Line(_SIZES), Line(tuple(_words(operand, const=False) for operand in before)),
            *_row_scales(plan, found=whole), *([Line(_tile_scales(const=False))] if plan.scheme.family.tile_k else []),
            *([Line(_run_exponents(const=False))] if plan.scheme.family.run_k else []),
            *([Line(_energies(const=False))] if plan.fallback else []),
            Line(tuple(counted[f"{x}_status"] for x in ("ab" if plan.kind.twice else [operand.name for operand in before]))),
            *_strides(plan, "ab" if plan.kind.twice else "".join(operand.name for operand in before)),
        ),
        same_b=None if scaled or plan.launches.shares_words or plan.kind.one_operand or plan.kind.in_rounds
        or plan.kind.twice or plan.kind.reals > 1 else over(
            [operand for operand in before if operand.name == "a"]),
        cluster=plan.launches.whole_cluster if whole else 1, overlaps=overlaps_rounds(plan),
    )


def _gemm(plan: Plan, symbol: str, counted: Mapping[str, Parameter]) -> Launch:
    before, sliced = plan.launches.packed, plan.split_k > 1
    inside = tuple(counted[f"{operand.name}_status"] for operand in plan.operands if operand not in before)
    lines = [Line((_words(operand, const=True),), _packed_stages(plan, operand)) for operand in before]
    lines.extend(_row_scales(plan))
    if plan.scheme.family.tile_k:
        lines.append(Line(_tile_scales(const=True), f"of tiles [outer / BLOCK][k / {plan.scheme.family.tile_k}][BLOCK]"))
    if plan.scheme.family.run_k:
        lines.append(Line(_run_exponents(const=True), f"of runs of {plan.scheme.family.run_k} k [outer / BLOCK][runs][BLOCK]"))
    if plan.fallback:
        lines.append(Line(_flags(const=True), "tiles that another kernel computes"))
    if plan.scheme.family.residues:
        lines.append(_kept_results(plan))
    if plan.launches.takes_operands:
        lines.append(Line(_a(plan), "the operands themselves, for elements the" if before else "the operands themselves"))
        lines.append(Line(_b(plan), f"words cannot carry{', and A' if inside else ''}" if before else ""))
    lines.append(Line((*_c(plan), *_SIZES, *_factors_of_c(plan))))
    lines.extend(_ends(plan))
    lines.extend(_strides(plan, "abc" if plan.launches.takes_operands else "c", counted=plan.design.stays))  # else a block's number tells its product
    if inside:
        lines.append(Line(inside))
    if sliced:
        lines.append(Line((_into("parts", "float", "the sums of the slices of k"),), plan.design.text.parts))
        lines.append(Line((_into("arrived", "unsigned int", "slices that have left theirs, for each part of C"),)))
    if plan.special == "exact":
        lines.append(Line((counted["repaired"],)))
    return Launch(
        symbol=symbol, role="gemm", meaning="the product of the words, and C",
        grid=((
            *(((TILES, 1),) if plan.kind.tiles else (("m", plan.block[0] * plan.cluster), ("n", plan.block[1]))), *((("split_k", 1),) if sliced else ()),
            *((("cluster", 1),) if plan.cluster > 1 else ()), *_each(plan),
        ),),
        threads=plan.threads, shared_bytes=0 if plan.geometry.static_shared else plan.shared_bytes, lines=tuple(lines),
        most_blocks=plan.launches.most_blocks, cluster=plan.cluster, overlaps=plan.design.stays and not plan.fallback,
    )


# ---- batches whose kernel has several tiles

def _grouped(plan: Plan) -> Interface:
    """One launch, which needs no workspace but for its counters."""
    counters = _counters(plan)
    counted = {one.name: _counted(one) for one in counters}
    lines = _products(plan)
    stays = plan.batch.walk == "persistent"
    if stays:
        lines.append(Line((
            given("blocks", "int", "blocks of the launch"), given("threshold", "int", "threads at work from which on a tiling is parallel enough"),
        )))
        lines.append(Line((_into("queue", "unsigned int", "tiles that are taken, and blocks that have ended"),)))
    else:
        lines.append(Line((
            given("list", "Listed", "a tile for each block: product, first row and column, number of the tile", pointer=True, const=True, restrict=True),
        )))
    lines.append(Line(tuple(counted[name] for name in COUNTERS if name != "repaired")))
    if plan.special == "exact":
        lines.append(Line((counted["repaired"],)))
    launch = Launch(
        symbol=kernel_name(plan), role="gemm", meaning="all products", grid=((("turns", 1),),), threads=plan.threads,
        shared_bytes=0 if plan.geometry.static_shared else plan.shared_bytes, lines=tuple(lines), most_blocks=plan.numbers["blocks_at_once"] if stays else None,
    )
    queue = Buffer(
        "queue", "unsigned int", 8, (), True, "tiles that blocks have taken, and blocks that have ended; the last one leaves zeros for the next launch",
    )
    status = _status(counters)
    return Interface(constants={}, padded={}, buffers=(status, queue) if stays else (status,), counters=counters, launches=(launch,))


def _products(plan: Plan) -> list[Line]:
    """How a kernel is told of products, each with its own matrices, and how many there are."""
    return plan.kind.lines((_a(plan), _b(plan), _c(plan)), (*_SIZES, *_FACTORS), given(BATCH, "int", "products"))


# ---- batches whose words are packed first

WORK_BYTES = 32
"""What a turn of the main kernel's blocks is, as the split pass writes it."""


def _packed(plan: Plan) -> Interface:
    """A pass that packs the words of all products and lists their tiles, and a launch that works off that list."""
    counters = _counters(plan)
    counted = {one.name: _counted(one) for one in counters}
    name, a_b = kernel_name(plan), plan.launches.split_before
    works = _into("works", "Work", "the tiles of all products, a turn each")
    listed = (
        given("list", "Placed", "the products that have a C, the longest first", pointer=True, const=True, restrict=True),
        given("listed", "int", "how many those are"),
    )
    residues, whole = plan.scheme.family.residues, plan.launches.splits_whole
    split = Launch(
        symbol=f"{name}_split", role="split", meaning="operands of all products into words, and the list of tiles",
        grid=((("split_blocks", 1),),), threads=views.SPLIT_THREADS, shared_bytes=_split_shared(plan),
        cluster=plan.launches.whole_cluster if whole else 1, lines=(
            *_products(plan), Line(listed), Line((works,)), Line(tuple(_words(operand, const=False) for operand in a_b)),
            *(_row_scales(plan, found=whole) if residues else ()), Line(tuple(counted[f"{operand.name}_status"] for operand in a_b)),
        ),
    )
    main = Launch(
        symbol=name, role="gemm", meaning="the products of the words, and every C",
        grid=((("turns", 1), *((("cluster", 1),) if plan.cluster > 1 else ())),), threads=plan.threads,
        shared_bytes=0 if plan.geometry.static_shared else plan.shared_bytes, lines=(
            *_products(plan), Line((works, given("turns", "int", "turns")), "tiles of C, in clusters" if plan.cluster > 1 else "tiles of C"),
            *(Line((_words(operand, const=True),), _packed_stages(plan, operand)) for operand in a_b),
            *((Line(listed[:1]), *_row_scales(plan), _kept_results(plan)) if residues else ()),
            *([Line((counted["repaired"],))] if plan.special == "exact" else []),
        ),
        most_blocks=plan.launches.most_blocks, cluster=plan.cluster, overlaps=plan.design.stays,
    )
    buffers = (
        _status(counters), Buffer("works", "Work", WORK_BYTES, ("turns",), False, "the tiles of all products"),
        *(Buffer(f"{one.name}_words", "unsigned char", plan.packing.packed_stage_bytes(one), (f"{one.name}_stages",), False,
                 f"{one.name.upper()}'s words, packed") for one in a_b),
        *(_buffers_of_residues(plan) if residues else ()),
    )
    constants = {"cluster": plan.cluster} | ({WHOLE_CLUSTER: plan.launches.whole_cluster} if whole else {})
    launches = [split, main]
    if plan.launches.finds_norms:
        launches.insert(0, _norms(f"{name}_norms", ((("norm_blocks", 1),),), *_products(plan), Line(listed), Line(_factors(plan, const=False))))
    return Interface(constants=constants, padded={}, buffers=buffers, counters=counters, launches=tuple(launches))
