"""Which kernels a library holds: at most so many, of all GPUs and layouts together, that make its sizes fast.

For each GPU and layout the solver's plans at every size are candidates, the best one of each tile; the model tells what each of them takes at all
sizes. Each GPU and layout first gets the kernel that is best where a size weighs as much as there is to compute: large products must not suffer from
small ones. Kernels that take a strided batch in one launch are for batches alone, and each GPU and layout gets one of these next, where there is room.
Plain FP32 is a candidate like any other, where its error serves as well, and what it beats at every size is none.
Then what is made small is the geometric mean of times over the best known, every GPU and layout counting as much and a size by the square root
of its mean extent: the kernel that gains most is taken, again and again (`gemmgen.library.cover`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from gemmgen.catalog.element import ELEMENTS, F32
from gemmgen.catalog.gpu import Gpu
from gemmgen.errors import GemmgenError, InfeasibleSpec, SpecError, UnknownName
from gemmgen.library.candidates import Candidate, Group, Size, candidates_of, gpu_name, like, of_routine, of_table, retargeted, weights
from gemmgen.library.cover import greedy, over_best, unserved
from gemmgen.library.file import LoadedLibrary
from gemmgen.library.routines import ways_of
from gemmgen.plan import Plan
from gemmgen.solve.lookup import PLAIN
from gemmgen.verdict import LOSING, NATIVE, OWN, VENDORS_CGEMM, VENDORS_OWN, Verdict, accepts_fp32, error_over_fp32s, native_seconds, sgemm_seconds
from gemmgen.spec import LoadedSpec, loads

PLAIN_PLACE = "plain FP32"
"""What names the kernels that every library may take beside those of its file."""


@dataclass(frozen=True)
class Served:
    """What a chosen kernel is for.

    Attributes:
        sizes: of its GPU and layout, where no chosen kernel is faster.
        packed: whether it is there for products whose B is packed, besides.
    """

    candidate: Candidate
    plan: Plan
    sizes: tuple[Size, ...]
    packed: bool = False

    @property
    def reason(self) -> str:
        """In words."""
        if self.candidate.routine:
            return f"the best kernel of its routine for {len(self.sizes)} size{'s' * (len(self.sizes) != 1)} together"
        if not self.sizes:
            return "for products whose B is packed" if self.packed else "taken where the library is asked for it"
        shown = ", ".join(map(told, self.sizes[:3])) + (f" and {len(self.sizes) - 3} more" if len(self.sizes) > 3 else "")
        return f"predicted to be the fastest here at {shown}"


def told(size: Size) -> str:
    """`256 of 64x64x64`."""
    return (f"{size[3]} of " if size[3] > 1 else "") + "x".join(map(str, size[:3]))


@dataclass(frozen=True)
class Choice:
    """The kernels of a library.

    Attributes:
        sizes: that they were chosen for.
        kernels: in the order of GPUs and layouts, of each the one for most sizes first.
        candidates: how many there were.
        ratio: geometric mean of predicted time over that of the best candidate.
        least: the same, below which no set of so many kernels comes.
        refused: plans that the compiler refused, and why.
        left_out: (place, GPU, layout, why) where a spec has no kernel.
        notes: what is to be known of it, in words.
        verdicts: of the kernels of each GPU, type and the file's first layout together, at each size, beside plain FP32 or native FP64.
    """

    sizes: tuple[Size, ...]
    kernels: tuple[Served, ...]
    candidates: int
    ratio: float
    least: float
    refused: tuple[tuple[Plan, GemmgenError], ...] = ()
    left_out: tuple[tuple[str, str, str, str], ...] = ()
    relaxed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...] = ()


@dataclass
class Pool:
    """All candidates of a library; those that the compiler refuses are struck out, and the choice is made anew.

    Attributes:
        left_out, relaxed, notes: as `Choice` has them.
        routines: by GPU and way, candidates for one of BLAS's level 3, the best for all sizes first.
        plain: [sizes] seconds of gemmgen's fastest FP32 kernels, by their group, whether these are candidates or not.
    """

    library: LoadedLibrary
    candidates: list[Candidate]
    left_out: tuple[tuple[str, str, str, str], ...] = ()
    relaxed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    plain: Mapping[Group, np.ndarray] = field(default_factory=dict)
    routines: Mapping[tuple[str, ...], Sequence[Candidate]] = field(default_factory=dict)
    refused: dict[str, tuple[Plan, GemmgenError]] = field(default_factory=dict)

    def refuse(self, plan: Plan, error: GemmgenError) -> None:
        """Not to be chosen again."""
        self.refused[plan.hash] = (plan, error)

    def choose(self) -> Choice:
        """At most as many as the file allows.

        Raises:
            InfeasibleSpec: a GPU and layout has no candidate left. SpecError: there are more of these than kernels.
        """
        file, sizes = self.library.file, self.library.sizes
        of, elements = self.library, self.library.elements
        groups = [(gpu.name, layout, one.name) for gpu in of.gpus for layout in of.layouts for one in elements if layout in of.layouts_of(one)]
        if file.kernels_at_most < len(groups):
            raise SpecError(
                f"{self.library.place}: kernels_at_most", "is less than GPUs times layouts times types of elements, of which each needs a kernel",
                got=file.kernels_at_most, needs=f"at least {len(groups)}", remedy=f"kernels_at_most = {len(groups)}, or fewer gpus or layouts",
            )
        left = [one for one in self.candidates if not self.refused or one.plan.hash not in self.refused]
        lacking = next((group for group in groups if not any(one.group == group and not one.strided for one in left)), None)
        if lacking:
            raise self._nothing_for(*lacking)
        if file.packed:
            left = one_format(left, groups, sizes, max(1, file.kernels_at_most // len(groups)))
        logs, heavy = costs(left, groups, sizes, file.packed)
        large = [_best_of_large(left, logs, group, groups, sizes, strided) for strided in (False, True) for group in groups]
        first = [at for at in large if at is not None][: file.kernels_at_most]
        taken = greedy(logs, heavy, file.kernels_at_most, first)
        of = {group: [at for at in taken.kernels if left[at].group == group] for group in groups}
        kernels = []
        for mine in of.values():
            fastest = np.stack([left[at].judged for at in mine]).argmin(axis=0)
            served = [
                Served(left[at], left[at].plan, tuple(sizes[size] for size in np.flatnonzero(fastest == number)),
                       file.packed and bool(left[at].format))
                for number, at in enumerate(mine)
            ]
            kernels += sorted(served, key=lambda one: -len(one.sizes))
        verdicts = tuple(self._verdicts(kernels))
        kernels += self._of_routines()
        return Choice(
            sizes, tuple(kernels), len(self.candidates) + sum(map(len, self.routines.values())), float(np.exp(taken.cost)), float(np.exp(taken.least)),
            tuple(self.refused.values()), self.left_out, self.relaxed, (*self.notes, *(narrow(kernels) if file.shim else ())), verdicts,
        )

    def _of_routines(self) -> Iterator[Served]:
        """Of each of BLAS's level 3 that the file names, in each way, the best kernel that the compiler does not refuse.

        Raises:
            InfeasibleSpec: it refuses all.
        """
        for group, mine in self.routines.items():
            taken = next((one for one in mine if not self.refused or one.plan.hash not in self.refused), None)
            if taken is None:
                raise InfeasibleSpec(
                    f"{self.library.place}: routines", f"no [[use]] has a kernel for {' '.join(group)}", got="refused by the compiler" if mine else None,
                    needs="a kernel for each GPU and way", remedy="another [[use]], or a file without this routine",
                )
            yield Served(taken, taken.plan, like(self.library, taken.routine))

    def _verdicts(self, kernels: Sequence[Served]) -> Iterator[Verdict]:
        """What the chosen kernels are worth together at each size, beside the faster of gemmgen's FP32 kernels and the vendor's SGEMM, or native FP64."""
        for gpu, element in product(self.library.gpus, self.library.elements):
            layout = self.library.layouts_of(element)[0]
            mine = [one.candidate for one in kernels if one.candidate.group == (gpu.name, layout, element.name)]
            own = self.plain.get((gpu.name, layout, element.name))
            if element.is_usual and own is None:
                continue
            errors = [error_over_fp32s(one.plan) for one in mine]
            for at, (m, n, k, products) in enumerate(self.library.sizes):
                best = min(range(len(mine)), key=lambda number: mine[number].seconds[at])
                seconds = (sgemm_seconds if element.part.is_usual else native_seconds)(gpu, m, n * element.reals, k * element.reals, products)
                told = [(seconds, NATIVE if not element.part.is_usual else VENDORS_OWN if element.is_usual else VENDORS_CGEMM)] if seconds else []
                told += [(float(own[at]), OWN)] if element.is_usual else []
                fp32, whose = min(told, default=(math.inf, ""))
                if math.isfinite(fp32) and math.isfinite(mine[best].seconds[at]):
                    yield Verdict(gpu.name, m, n, k, float(mine[best].seconds[at]), fp32, whose, errors[best], mine[best].plan.scheme.name, products,
                                  element=element.title)

    def _nothing_for(self, gpu: str, layout: str, element: str) -> GemmgenError:
        mine = {one.plan.hash for one in self.candidates if self.refused and one.group == (gpu, layout, element)}
        refused = [error for key, (_, error) in self.refused.items() if key in mine]
        whys = [why for _, of, other, why in self.left_out if (of, other) == (gpu, layout)]
        return InfeasibleSpec(
            self.library.place, f"no [[use]] has a kernel for {gpu}, {layout}{'' if element == F32.name else f', {element}'}",
            got=refused[0].problem if refused else "; ".join(dict.fromkeys(whys)) or None,
            needs="a kernel for each GPU and layout", remedy='another [[use]] for it, such as scheme = "auto", or fewer gpus or layouts',
        )


def costs(candidates: Sequence[Candidate], groups: Sequence[Group], sizes: Sequence[Size], packed: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """([candidates, groups x columns] logarithms of seconds over the best, [groups x columns] weights).

    A column is a size, and with `packed` also each single product once more, whose B is packed. What a candidate is not for costs `cover.UNSERVED` times
    the slowest, so that each group gets a kernel first.
    """
    single = np.array([size[3] == 1 for size in sizes])
    again = single if packed and any(one.format for one in candidates) else np.zeros(len(sizes), bool)
    found = np.full((len(candidates), len(groups), len(sizes) + again.sum()), np.inf)
    for at, one in enumerate(candidates):
        words = np.where(bool(one.format), one.judged[again], np.inf) if again.any() else ()
        found[at, groups.index(one.group)] = np.concatenate([one.judged, words])
    logs = over_best(found)
    column = weights(sizes)
    heavy = np.tile(np.concatenate([column, column[again]]), len(groups))
    return logs.reshape(len(candidates), len(heavy)), heavy / heavy.sum()


def narrow(kernels: Sequence[Served]) -> tuple[str, ...]:
    """Notes of schemes whose words do not span FP32's range, which the data of unmodified programs may need."""
    found = {
        (one.candidate.place, one.plan.scheme.name): one.plan.scheme for one in kernels
        if ELEMENTS[one.candidate.element].part == F32 and not one.plan.scheme.precision.spans_fp32
    }
    return tuple(
        f"{place}: {name} has {scheme.leading} words, which hold no magnitude above {scheme.words_of('a')[0].largest:.4g} and lose what is small; "
        'programs that call through a shim may bring any of FP32\'s: scheme = "scaled", or [use.accuracy] as = "fp32"'
        for (place, name), scheme in found.items()
    )


def _best_of_large(
    candidates: Sequence[Candidate], logs: np.ndarray, group: Group, groups: Sequence[Group], sizes: Sequence[Size], strided: bool,
) -> int | None:
    """The candidate of a GPU and layout, for batches or not, that costs the least where a size weighs as much as there is to compute; None: there is none."""
    mine = [at for at, one in enumerate(candidates) if one.group == group and one.strided == strided]
    if not mine:
        return None
    start = groups.index(group) * (logs.shape[1] // len(groups))
    return mine[int((logs[mine, start : start + len(sizes)] @ weights(sizes) ** 6).argmin())]


def one_format(candidates: Sequence[Candidate], groups: Sequence[Group], sizes: Sequence[Size], each: int) -> list[Candidate]:
    """The candidates of each GPU and layout, of which those of one format pack B: the one with which `each` kernels cost the least.

    The others remain for products whose B is not packed: those that split on the way, those for strided batches, which packed words never reach, and
    those of other formats. Of kernels of the format that the model cannot tell apart, the solver's choice among tiles of its n and k counts as faster.
    """
    found = []
    for group in groups:
        mine = [one for one in candidates if one.group == group]
        formats: dict[str, list[int]] = {}
        for at, one in enumerate(mine):
            if not one.strided and one.format:
                formats.setdefault(one.format, []).append(at)
        logs, heavy = costs(mine, [group], sizes, packed=True)
        not_packed = unserved(logs[:, len(sizes) :])

        def cost(places: Sequence[int]) -> float:
            others = np.ones(len(mine), bool)
            others[places] = False
            seen = logs.copy()
            seen[others, len(sizes) :] = not_packed
            return greedy(seen, heavy, each).cost

        best = set(min(formats.values(), key=cost) if formats else ())
        found += [
            replace(one, preferred=one.alike) if at in best else replace(one, unpacked=True) if not one.strided and one.format else one
            for at, one in enumerate(mine)
        ]
    return found


# ---- candidates


def pool(
    library: LoadedLibrary, each: Callable[..., Iterable[Any]] = map, progress: Callable[[str], None] = lambda step: None,
) -> Pool:
    """All candidates; nothing is compiled. What a spec fixes of fragment and tile is left open on GPUs that do not have it.

    Args:
        each: `map`, or the same over threads.

    Raises:
        SpecError, UnknownName: a name in a dispatch table is none.
    """
    asked = [
        (place, retargeted(spec, gpu_name(library, gpu), layout), gpu, library.sizes, library.kinds)
        for gpu in library.gpus for layout in library.layouts for place, spec, names in library.specs
        if gpu.name in names and layout in library.layouts_of(spec.spec.problem.element)
    ]
    plain = loads({"split": {"scheme": PLAIN}}, PLAIN_PLACE)
    asked += [
        (PLAIN_PLACE, retargeted(plain, gpu_name(library, gpu), layout), gpu, library.sizes, library.kinds)
        for gpu in library.gpus if F32 in library.elements for layout in library.layouts_of(F32)
    ]
    found: list[Candidate] = []
    own: dict[Group, list[Candidate]] = {}
    left_out: list[tuple[str, str, str, str]] = []
    relaxed: dict[str, None] = {}
    answers = iter(each(_answer, asked))
    for number, (place, ways, gpu, *_) in enumerate(asked, 1):
        progress(f"candidates {number} of {len(asked)}")
        answer = next(answers)
        if place == PLAIN_PLACE:
            if not isinstance(answer, GemmgenError):
                own[gpu.name, ways[0][1].spec.problem.layout, F32.name] = answer[1]
            continue
        if isinstance(answer, GemmgenError):
            left_out.append((place, gpu.name, ways[0][1].spec.problem.layout, answer.problem))
            continue
        told, mine = answer
        found += mine
        if told:
            relaxed[f"{place} on {gpu.name}: {told}"] = None
    for place, table, names in library.tables:
        for gpu in library.gpus:
            if gpu.name in names:
                found += [one for layout in library.layouts_of(F32) for one in of_table(place, table, gpu, layout, library.sizes)]
    found, notes = _with_plain(library, found, own)
    seconds = {group: np.min([one.seconds for one in mine], axis=0) for group, mine in own.items()}
    ways = {
        (gpu.name, *way.values()): (gpu, way)
        for gpu in library.gpus for name in library.file.routines for element in library.elements for way in ways_of(name, element)
    }
    progress(f"candidates of {len(ways)} ways of routines") if ways else None
    routines = dict(zip(ways, each(lambda asked: of_routine(library, *asked), ways.values())))
    # Of other elements than FP32 there are kernels for some of the routines; of one that none has, the file asks for nothing.
    some = {way["kind"] for group, (_, way) in ways.items() if routines[group]}
    optional = {group for group, (_, way) in ways.items() if way.get("type", F32.name) != F32.name and (F32 in library.elements or way["kind"] in some)}
    lacking = {(group[0], group[1], ELEMENTS[ways[group][1]["type"]].title) for group in optional if not routines[group]}
    notes += [f"routines: there is no {kind} of {title} on {gpu}" for gpu, kind, title in sorted(lacking)]
    routines = {group: mine for group, mine in routines.items() if mine or group not in optional}
    return Pool(library, found, tuple(left_out), tuple(relaxed), tuple(notes), seconds, routines)


def _with_plain(library: LoadedLibrary, found: Sequence[Candidate], plain: Mapping[Group, Sequence[Candidate]]) -> tuple[list[Candidate], list[str]]:
    """(the candidates with plain FP32's and without those that it beats at every size, what is to be known of these).

    Kernels of FP64 stay, whatever native FP64 takes: a library has no other kernels of it. Where a use asks for less error than FP32 has, the file for the
    same bits everywhere, or a dispatch table's measured times decide, FP32 does not stand in.
    """
    tables = {name for _, _, names in library.tables for name in names}
    serves = {
        gpu.name: gpu.name not in tables and not library.file.reproducible and all(
            accepts_fp32(retargeted(spec, gpu_name(library, gpu), library.layouts_of(F32)[0])[0][1])
            for _, spec, names in library.specs if gpu.name in names and spec.spec.problem.type == F32.name
        ) for gpu in library.gpus
    }
    candidates, beaten = [], {}
    for one in found:
        own = plain.get(one.group, ()) if serves[one.gpu.name] else ()
        best = np.min([other.seconds for other in own], axis=0) if own else np.full(len(one.seconds), np.inf)
        served = np.isfinite(one.seconds)
        ratio = float((best[served] / one.seconds[served]).max(initial=0.0))
        if ratio >= LOSING or not served.any() or one.request and one.request.scheme.name == PLAIN:
            candidates.append(one)
        else:
            beaten.setdefault((one.place, one.gpu.name, one.layout), []).append(ratio)
    kept = {(one.place, one.gpu.name, one.layout) for one in candidates}
    notes = [
        f"{place} on {gpu}, {layout}: no kernel is taken: plain FP32 is predicted to be faster at every size, "
        f"these run at {max(ratios):.2f} of its speed at best"
        for (place, gpu, layout), ratios in beaten.items() if (place, gpu, layout) not in kept
    ]
    asked = {one.group for one in found if one.request and one.request.scheme.name == PLAIN}
    there = {one.group for one in found}  # where no use has a kernel, that is told, and nothing stands in
    more = [one for group, mine in plain.items() if serves[group[0]] and group in there - asked for one in mine]
    return [*candidates, *more], notes


def _answer(asked: tuple[str, Sequence[tuple[str, LoadedSpec]], Gpu, Sequence[Size], Sequence[str]]) -> tuple[str, list[Candidate]] | GemmgenError:
    """What `candidates_of` gives or raises."""
    try:
        return candidates_of(*asked)
    except (InfeasibleSpec, UnknownName) as error:
        return error


