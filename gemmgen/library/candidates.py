"""The kernels that a library may hold, with what the model tells of them: plans of every size, dispatch tables' kernels, those for BLAS's level 3."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gemmgen.abi import interface
from gemmgen.catalog.element import F32
from gemmgen.catalog.gpu import Gpu
from gemmgen.decisions import SUMS
from gemmgen.designs import designs_of
from gemmgen.errors import GemmgenError, InfeasibleSpec, UnknownName
from gemmgen.kinds import GEMM, kind_called, kind_of
from gemmgen.library.dispatch import Estimate, Table
from gemmgen.library.ends import FUSED
from gemmgen.library.file import LoadedLibrary
from gemmgen.library.routines import sized
from gemmgen.library.tables import pack_key
from gemmgen.plan import Plan
from gemmgen.solve import Ranked, ranked, solve
from gemmgen.solve.fallback import NONE as NO_FALLBACK
from gemmgen.solve.request import Request, requests
from gemmgen.solve.search import TIE
from gemmgen.solve.settled import settled_spec
from gemmgen.spec import Accuracy, FragmentChoice, LoadedSpec, Pipeline, Problem, Target, Tile, loads

MOST_TILES = 12
"""Tiles of one size whose best plans are candidates."""
ALIKE = 2
"""Of these, where a routine has one kernel for all sizes, those that share a warp's tile."""
SLOWEST = 1.5
"""How much longer than the best plan of its size such a plan may take."""
SMALL = 1024
"""Extents of a product whose operands L2 holds for a second pass."""
SEVERAL = 2
"""Products of a batch, of which a kernel of a routine takes any number: what it is chosen for is one."""
Size = tuple[int, int, int, int]
"""m, n, k, and how many such products."""
Group = tuple[str, str, str]
"""GPU, layout and type of elements, by name."""


@dataclass(frozen=True)
class Candidate:
    """A kernel that a library may hold.

    Attributes:
        place: what names it: a `[[use]]` of the file.
        seconds: [sizes], predicted, of all products of a size, inf where it is not for it; single: the same of one of them.
        strided: whether one launch takes a strided batch: it is for sizes of several products alone.
        routine: of one of BLAS's level 3 beside GEMM, what a spec's section [problem] says of it; sizes are then the most alike ones that the kind has.
        preferred: of which of the sizes it is the solver's own choice; alike: the same of kernels whose tiles have the same n and k, as those of one format.
        symbols: its decisions as the design's symbols.
        unpacked: whether its words are not those that the library packs, though they could be.
        element: name of the type of A, B and C.
        settled, loaded, estimate, label: of a dispatch table's: the plan itself, its spec, its time by the table, and what the table calls it.
    """

    place: str
    gpu: Gpu
    layout: str
    seconds: np.ndarray
    single: np.ndarray
    preferred: frozenset[int] = frozenset()
    request: Request | None = None
    symbols: tuple[tuple[str, int], ...] = ()
    settled: Plan | None = None
    loaded: LoadedSpec | None = None
    estimate: Estimate | None = None
    label: str = ""
    strided: bool = False
    routine: Mapping[str, Any] | None = None
    alike: frozenset[int] = frozenset()
    unpacked: bool = False
    element: str = F32.name

    @property
    def group(self) -> Group:
        """Of which kernels serve the same products."""
        return self.gpu.name, self.layout, self.element

    @cached_property
    def judged(self) -> np.ndarray:
        """[sizes] seconds, and a little more where it is not the solver's own choice: where the model cannot tell, that one counts as faster."""
        return self.seconds * self._leaning

    @cached_property
    def judged_single(self) -> np.ndarray:
        """The same of one product of a size."""
        return self.single * self._leaning

    @cached_property
    def _leaning(self) -> np.ndarray:
        found = np.full(len(self.seconds), 1 + TIE)
        found[list(self.preferred)] = 1
        return found

    def seconds_of(self, sizes: np.ndarray) -> np.ndarray:
        """[sizes] predicted, of [sizes, 4] in one launch each; of one that a spec and not a dispatch table gives."""
        return _seconds(self.request, [[value for _, value in self.symbols]], sizes.astype(float))[0]

    def real(self, sizes: np.ndarray) -> np.ndarray:
        """[sizes, 3 or 4] of m, n and k as those of the real products that are computed."""
        return np.column_stack([*self.plan.kind.extents(*sizes[:, :3].T), sizes[:, 3:]])

    @cached_property
    def plan(self) -> Plan:
        """Everything decided."""
        if self.settled:
            return self.settled
        plan = self.request.plan(dict(self.symbols))
        return plan if self.routine else _ended(plan)

    @property
    def spec(self) -> dict[str, Any]:
        """The sections of the spec that has this kernel alone, as dispatch tables have them."""
        return settled_spec(self.loaded or self.request.loaded, self.plan)

    @cached_property
    def format(self) -> str | None:
        """What kernels share that read B's packed words in one format; None where B is split on the way, or not packed."""
        return None if self.unpacked else pack_key(self.plan, interface(self.plan), "b")


def between(one: Candidate) -> Candidate:
    """Of a routine that solves the kernel of the products between blocks of unknowns: the same decisions, for one product."""
    loaded, own = one.request.loaded, one.request
    problem = Problem(layout=one.layout, type=loaded.spec.problem.type, **{extent: getattr(loaded.spec.problem, extent) for extent in "mnk"})
    asked = requests(loaded.model_copy(update={"spec": loaded.spec.model_copy(update={"problem": problem})}))
    same = next(each for each in asked if (each.scheme.name, each.fragment.name, each.design.name, each.choices.promote)
                == (own.scheme.name, own.fragment.name, own.design.name, own.choices.promote))
    return replace(one, request=same)


def _ended(plan: Plan) -> Plan:
    """With the end that calls ask for, of FP32; of one for batches, that it takes arrays of pointers, too."""
    plan = replace(plan, epilogue=FUSED) if plan.kind.element_of(plan.type).is_usual else plan
    return replace(plan, batch=replace(plan.batch, pointers=True)) if plan.batch else plan


def like(library: LoadedLibrary, routine: Mapping[str, Any]) -> tuple[Size, ...]:
    """What a routine's kernel is chosen for: of each of the library's sizes the product that is most like it."""
    kind = kind_of(Problem(**routine))
    return tuple(dict.fromkeys((*sized(kind, *size[:3]), 1) for size in library.sizes))


def weights(sizes: Sequence[Size]) -> np.ndarray:
    """[sizes]: the square root of the mean extent, as large products take most of a program's time and small ones are most of its calls."""
    return np.array([math.prod(size) ** (1 / 6) for size in sizes])


def candidates_of(
    place: str, ways: Sequence[tuple[str, LoadedSpec]], gpu: Gpu, sizes: Sequence[Size], kinds: Sequence[str] = (GEMM.name,),
) -> tuple[str, list[Candidate]]:
    """(what was left open, the candidates of the first of `ways` that has some).

    Raises:
        InfeasibleSpec, UnknownName: none has; the first one's reason.
    """
    refused: GemmgenError | None = None
    for told, loaded in ways:
        try:
            return told, _candidates(place, loaded, gpu, sizes, kinds)
        except (InfeasibleSpec, UnknownName) as error:
            refused = refused or error
    raise refused


def _candidates(place: str, loaded: LoadedSpec, gpu: Gpu, sizes: Sequence[Size], kinds: Sequence[str]) -> list[Candidate]:
    """Those of one spec; the first of equal ones.

    Schemes and intervals of promotion are those of the spec's own sizes: what the error is must not hang on which kernel a size gets.

    Raises:
        InfeasibleSpec, UnknownName: it has none.
    """
    every, singly = np.array(sizes, float), np.array([(*size[:3], 1) for size in sizes], float)
    found: dict[Any, tuple[Request, dict[tuple[int, ...], tuple[set[int], set[int]]]]] = {}
    for variant in _variants(loaded, [{"kind": kind} for kind in kinds]):
        for at, (m, n, k, products) in enumerate(sizes):
            if (products > 1) != kind_called(variant.spec.problem.kind).batched:
                continue
            hinted = variant.spec.problem.model_copy(update={"m": m, "n": n, "k": k, "matrices": products})
            for space in _spaces(variant.model_copy(update={"spec": variant.spec.model_copy(update={"problem": hinted})})):
                one = space.request
                if one.batch and one.batch.tiles:  # whose products are told one by one, which the runtime does not
                    continue
                key = (one.batch is not None, one.scheme.name, one.fragment.name, one.design.name, one.choices.promote, _reads_once(one))
                rows = found.setdefault(key, (one, {}))[1]
                for row in _best_of_tiles(space.columns, space.order):
                    preferred, alike = rows.setdefault(tuple(int(space.columns[name][row]) for name in one.design.symbols), (set(), set()))
                    alike.add(at)
                    if row == space.order[0]:
                        preferred.add(at)
    if not found:
        raise InfeasibleSpec(place, "has no kernel for any of the library's sizes", got=loaded.place, needs="a size that its scheme serves",
                             remedy="other sizes, or another scheme")
    candidates = []
    for one, rows in found.values():  # one pass and two are different kernels
        single, strided = _seconds(one, list(rows), singly), one.batch is not None
        seconds = np.where(every[:, 3] > 1, _seconds(one, list(rows), every), np.inf) if strided else single * every[:, 3]
        for at, (row, (preferred, alike)) in enumerate(rows.items()):
            symbols = tuple(zip(one.design.symbols, row))
            layout = one.loaded.spec.problem.layout
            candidates.append(
                Candidate(place, gpu, layout, seconds[at], single[at], frozenset(preferred), one, symbols, strided=strided, alike=frozenset(alike),
                          element=loaded.spec.problem.type)
            )
    return candidates


def of_routine(library: LoadedLibrary, gpu: Gpu, way: Mapping[str, Any]) -> list[Candidate]:
    """Kernels for one of BLAS's level 3 in one way, of every use that has some, the best for all sizes first; their `seconds` are of what `like` gives.

    A size weighs as its mean extent to 1.5: a kernel stands alone for its way, and small products stay with the vendor.
    """
    sizes, found = np.array(like(library, way), float), []
    for place, spec, names in library.for_routines:
        if gpu.name not in names or spec.spec.problem.type != way.get("type", F32.name):
            continue
        for _, loaded in retargeted(spec, gpu_name(library, gpu), way["layout"]):
            mine: list[Candidate] = []
            for products in (SEVERAL, 1) if library.batched else (1,):
                with suppress(InfeasibleSpec, UnknownName):
                    mine = mine or list(_of_way(place, loaded, gpu, way, sizes, products))
            found += mine
            if mine:
                break
    if not found:
        return []
    cost = np.log(np.stack([one.seconds for one in found])) @ weights(sizes) ** 3
    return [found[at] for at in _of_several_warps(np.argsort(cost, kind="stable"), [_warp(one.symbols) for one in found])]


def _of_way(place: str, loaded: LoadedSpec, gpu: Gpu, way: Mapping[str, Any], sizes: np.ndarray, products: int) -> Iterator[Candidate]:
    """Those of one spec. One kernel serves all sizes: none finds row scales and splits in one pass, which suits large ones.

    Args:
        products: above 1 kernels whose launches take a strided batch; a single product is a batch of one.
    """
    small = dict(zip("mnk", sized(kind_of(Problem(**way)), *(SMALL,) * 3))) | ({"matrices": products} if products > 1 else {})
    for variant in _variants(loaded, [way]):
        hinted = variant.spec.problem.model_copy(update=small)
        for space in _spaces(variant.model_copy(update={"spec": variant.spec.model_copy(update={"problem": hinted})})):
            one = space.request
            rows = np.column_stack([space.columns[name][space.order] for name in one.design.symbols]).astype(int)
            found = _seconds(one, rows, sizes)
            known = [tuple(zip(one.design.symbols, row)) for row in rows.tolist()]
            for at in _of_several_warps(np.argsort(np.log(found) @ weights(sizes) ** 3, kind="stable"), list(map(_warp, known))):
                yield Candidate(place, gpu, way["layout"], found[at], found[at], request=one, symbols=known[at], routine=way,
                                element=loaded.spec.problem.type)


def _warp(symbols: Sequence[tuple[str, int]]) -> tuple[int, ...]:
    """A warp's tile, which decides about registers."""
    return tuple(value for name, value in symbols if name in ("WM", "WN"))


def _of_several_warps(order: Iterable[int], warps: Sequence[tuple[int, ...]]) -> list[int]:
    """The first MOST_TILES of an order, but no more of a warp's tile than ALIKE: where the compiler refuses one for its registers it refuses all."""
    taken: dict[tuple[int, ...], int] = {}
    found = []
    for at in order:
        if len(found) < MOST_TILES and taken.get(warps[at], 0) < ALIKE:
            taken[warps[at]] = taken.get(warps[at], 0) + 1
            found.append(int(at))
    return found


def _spaces(loaded: LoadedSpec) -> Iterator[Ranked]:
    """What each design has for a spec, of those that have something: the scheme's integers may not hold a sum so long, and a design not have the scheme."""
    try:
        asked = requests(loaded)
    except InfeasibleSpec:
        return
    for one in asked:
        with suppress(InfeasibleSpec):
            yield ranked(one)


def _variants(loaded: LoadedSpec, problems: Sequence[Mapping[str, Any]]) -> Iterator[LoadedSpec]:
    """The spec with scheme, policy, promotion and sums as its own sizes decide them, once for each policy that it leaves open and each kind of problem.

    Args:
        problems: what a section [problem] says of a kind.

    Raises:
        InfeasibleSpec, UnknownName: it has no kernel.
    """
    if loaded.spec.split.fallback != NO_FALLBACK:
        raise InfeasibleSpec(f"{loaded.place}: [split] fallback", "libraries have no kernels with a fallback of their own", got=loaded.spec.split.fallback,
                             needs="none", remedy='fallback = "none", or gemmgen export')
    for one in requests(loaded):
        scheme = loaded.spec.split.scheme if loaded.spec.split.scheme != "auto" else one.scheme.name
        sums = one.choices[SUMS.name]  # what is usual is not said: designs that have no choice of it serve, too
        pinned = {"sums": sums} if sums not in (None, SUMS.usual) else {}
        split = loaded.spec.split.model_copy(update={"scheme": scheme, "promote": one.choices.promote[0], **pinned})
        fragment = loaded.spec.fragment.model_copy(update={"policy": one.fragment.policy})
        for problem in problems:
            accuracy = Accuracy(reproducible=loaded.spec.accuracy.reproducible)
            changes = {"split": split, "fragment": fragment, "accuracy": accuracy, "problem": loaded.spec.problem.model_copy(update=problem)}
            # Of a batch each design is asked: those that a spec which leaves them open gets have products told one by one.
            asked = kind_of(changes["problem"])
            designs = [design.name for design in designs_of(one.fragment, asked, one.scheme.family.sums)] if asked.batched else []
            for design in designs or [loaded.spec.pipeline.design]:
                pipeline = loaded.spec.pipeline.model_copy(update={"design": design})
                yield loaded.model_copy(update={"spec": loaded.spec.model_copy(update={**changes, "pipeline": pipeline})})


def _best_of_tiles(columns: Mapping[str, np.ndarray], order: np.ndarray) -> list[int]:
    """Rows: the best of each n and k of a tile, which is what packed words are laid out by; no more than MOST_TILES, nor slower than SLOWEST allows."""
    within = order[columns["seconds"][order] <= SLOWEST * columns["seconds"][order[0]]]
    _, first = np.unique(columns["BN"][within].astype(np.int64) << 32 | columns["BK"][within], return_index=True)
    return [int(within[at]) for at in np.sort(first)[:MOST_TILES]]


def _seconds(request: Request, rows: Sequence[Sequence[int]] | np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """[rows, sizes] predicted, of calls whose counters nobody reads; inf where a single pass would read operands for which two are taken.

    Args:
        rows: [rows][symbols] of the request's design.
        sizes: [sizes, 4] of m, n, k and products.
    """
    values = np.array(rows)
    sizes = np.column_stack([*request.kind.extents(*sizes[:, :3].T), sizes[:, 3:]])  # of the real products
    known = {**request.constants, **{name: np.repeat(values[:, at], len(sizes)) for at, name in enumerate(request.design.symbols)}}
    known |= {name: np.tile(sizes[:, at], len(rows)) for at, name in enumerate(("M", "N", "K", "batch"))}
    found = request.design.predicted(request.design.budgets(known, request.gpu.registers))["seconds"]
    found = np.broadcast_to(found, len(rows) * len(sizes)).reshape(len(rows), len(sizes)) + _zeroing(request, values)[:, None]
    return np.where(request.design.large_enough(request.gpu, *sizes[:, :3].T), found, np.inf) if _reads_once(request) else found


def _reads_once(request: Request) -> bool:
    return request.design.splits_whole(request.scheme, request.gpu, request.hints)


def _zeroing(request: Request, values: np.ndarray) -> np.ndarray:
    """[rows] seconds of the operation before the passes that sets maxima, and what slices of k count by, to zero; 0 of kernels with neither."""
    sliced = values[:, request.design.symbols.index("split_k")] > 1
    raised = request.scheme.family.takes_maxima and not _reads_once(request)
    return np.where(sliced | raised, request.gpu.measured.launch_seconds.value, 0.0)


def gpu_name(library: LoadedLibrary, gpu: Gpu) -> str:
    """How a spec names a GPU of the library: files from the root on."""
    asked = library.file.gpus[[one.name for one in library.gpus].index(gpu.name)]
    return str(((library.folder or Path()) / asked).resolve()) if asked.endswith(".toml") else asked


def retargeted(spec: LoadedSpec, gpu: str, layout: str) -> list[tuple[str, LoadedSpec]]:
    """The spec for a GPU and layout, and then the same with less and less fixed, each with what was left open.

    On the spec's own GPU what it fixes stays fixed.
    """
    target = Target(gpu=gpu)
    problem = spec.spec.problem.model_copy(update={"layout": layout})
    whole = spec.model_copy(update={"spec": spec.spec.model_copy(update={"target": target, "problem": problem})})
    if spec.spec.target.gpu == gpu:
        return [("", whole)]
    split = whole.spec.split.model_copy(update={"where": type(whole.spec.split).model_fields["where"].default})
    opened = {"fragment": FragmentChoice()}
    wider = {**opened, "tile": Tile(), "pipeline": Pipeline(), "split": split}
    return [
        ("", whole), *((told, whole.model_copy(update={"spec": whole.spec.model_copy(update=changes)})) for told, changes in (
            ("its fragment is not there, and was left open", opened), ("its fragment, tile and pipeline are not there, and were left open", wider),
        )),
    ]


def of_table(place: str, table: Table, gpu: Gpu, layout: str, sizes: Sequence[Size]) -> Iterator[Candidate]:
    """A dispatch table's kernels for a GPU and layout, with the times that its estimates tell."""
    for label, kernel in table.kernels.items():
        if (kernel.gpu, kernel.layout) != (gpu.name, layout):
            continue
        loaded = loads({name: dict(section) for name, section in kernel.spec.items()}, f"{place}: {label}")
        plan = _ended(solve(loaded))
        strided = plan.batch is not None
        *extents, products = np.array(sizes, float).T
        single = np.maximum(kernel.estimate.seconds(*extents), 1e-9)
        together = np.maximum(kernel.estimate.seconds(*extents, products), 1e-9)
        seconds = np.where(products > 1, together, np.inf) if strided else single * products
        yield Candidate(place, gpu, layout, seconds, single, settled=plan, loaded=loaded, estimate=kernel.estimate, label=label, strided=strided)
