"""The candidates of a study: every feasible plan of every combination, as columns, ranked by the model.

Nothing is a Plan before it is asked for: a study has hundreds of thousands of candidates, and tries some hundreds.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from gemmgen.catalog.epilogue import epilogue_of, require_none
from gemmgen.catalog.output import all_outputs
from gemmgen.errors import GemmgenError, InfeasibleSpec
from gemmgen.model.accuracy import DISTRIBUTIONS, predicted
from gemmgen.plan import Plan
from gemmgen.solve import Ranked, ranked
from gemmgen.solve.request import Request, requests
from gemmgen.solve.settled import settled_spec
from gemmgen.workshop.explore.studies import Combination, Problem, Study


@dataclass(frozen=True)
class Refused:
    """A combination that has no candidates, and why."""

    combination: Combination
    error: GemmgenError


@dataclass(frozen=True)
class Part:
    """The candidates of one request of one combination.

    Attributes:
        combination: its number.
        problem: number of its problem.
        ranked: the columns.
        error: predicted, relative in the Frobenius norm, of the study's data.
    """

    combination: int
    problem: int
    ranked: Ranked
    error: float

    @property
    def request(self) -> Request:
        return self.ranked.request

    def __len__(self) -> int:
        return len(self.ranked.order)


@dataclass(frozen=True)
class Candidates:
    """All of a study.

    Attributes:
        combinations, problems: of the study, by number.
        count: how many there are before the model looks at them.
        rejected_on: of each GPU how many each inequality rejects, each candidate at the first that it breaks, and how many the study's own limit on the
            error.
        refused: combinations that no kernel can serve.
        least_error: of each listed scheme the least predicted error of its kernels, those beyond the study's limit included.
        seconds_taken: by enumerating and ranking.
        part, row: [N] of each candidate its part, and its row in the part's columns.
        seconds: [N] predicted.
        stratum: [N] candidates of one stratum compete: those of a problem, and where neither [accept] nor [accuracy] limits the error, of a scheme.
        order: [N] candidates, the best of each stratum first, then the second of each.
    """

    study: Study
    combinations: Sequence[Combination]
    problems: Sequence[Problem]
    parts: Sequence[Part]
    count: int
    rejected_on: Mapping[str, Counter[str]]
    refused: Sequence[Refused]
    least_error: Mapping[str, float]
    seconds_taken: float
    part: np.ndarray
    row: np.ndarray
    seconds: np.ndarray
    stratum: np.ndarray
    order: np.ndarray
    _plans: dict[int, Plan] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.part)

    @property
    def rejected(self) -> Counter[str]:
        """The same of all GPUs together."""
        return by_number(sum(self.rejected_on.values(), Counter()))

    def part_of(self, at: int) -> Part:
        return self.parts[self.part[at]]

    def problem_of(self, at: int) -> Problem:
        return self.problems[self.part_of(at).problem]

    @cached_property
    def families(self) -> tuple[tuple[str, str], ...]:
        """(scheme, design) of the candidates, by number."""
        return tuple(dict.fromkeys((one.request.scheme.name, one.request.design.name) for one in self.parts))

    @property
    def unserved(self) -> dict[str, str]:
        """Listed schemes without a candidate, and why."""
        served, found = {_listed(self.combinations[one.combination]) for one in self.parts}, {}
        limit = self.study.file.accept.relative_frobenius
        for one in self.combinations:
            if (scheme := _listed(one)) and scheme not in served and scheme in self.least_error and limit is not None:
                found[scheme] = f"its predicted error {self.least_error[scheme]:.1e} is above [accept] relative_frobenius = {limit:g}"
        for one in self.refused:
            if (scheme := _listed(one.combination)) and scheme not in served:
                found.setdefault(scheme, one.error.problem)
        return found

    def plan(self, at: int) -> Plan:
        """Everything decided."""
        if at not in self._plans:
            self._plans[at] = self.part_of(at).ranked.plan_at(int(self.row[at]))
        return self._plans[at]

    def spec(self, at: int) -> dict[str, Any]:
        """A spec of this plan alone, which fixes all that was decided."""
        return settled_spec(self.part_of(at).request.loaded, self.plan(at))

    def first(self, problem: int) -> int | None:
        """The model's first choice of a problem, whatever its error; None where the problem has no candidate."""
        of = np.array([part.problem == problem for part in self.parts], bool)
        mine = self.order[of[self.part[self.order]]] if len(self.parts) else self.order
        return int(mine[0]) if len(mine) else None

    @cached_property
    def pool(self) -> Pool:
        """What strategies know of them."""
        names = sorted({name for part in self.parts for name in part.ranked.columns} - {"seconds", "registers"})
        starts = np.searchsorted(self.part, np.arange(len(self.parts)))

        def features(rows: np.ndarray) -> np.ndarray:
            found = np.zeros((len(rows), len(names)))
            for number, part in enumerate(self.parts):
                mine = np.flatnonzero(self.part[rows] == number)
                for place, name in enumerate(names):
                    if len(mine) and name in part.ranked.columns:
                        found[mine, place] = part.ranked.columns[name][rows[mine] - starts[number]]
            return found

        problem = np.array([part.problem for part in self.parts], int)[self.part] if len(self) else np.zeros(0, int)
        error = np.array([part.error for part in self.parts])[self.part] if len(self) else np.zeros(0)
        numbers = {family: at for at, family in enumerate(self.families)}
        family = np.array([numbers[one.request.scheme.name, one.request.design.name] for one in self.parts], int)[self.part] if len(self) else problem
        listed = _numbered([_listed(self.combinations[one.combination]) for one in self.parts])[self.part] if len(self) else problem
        return Pool(problem, self.stratum, self.order, self.seconds, error, self.part, tuple(names), features, family, listed)


@dataclass(frozen=True)
class Pool:
    """What a strategy may know of candidates: columns of numbers, whether they are a study's or read from a store.

    Attributes:
        problem, stratum: [N] numbers; whoever compares candidates compares those of one stratum.
        order: [N] by the model, best first, in turn for each stratum.
        seconds, error: [N] predicted.
        way: [N] number of what is no figure: the scheme, the policy, the design.
        features: rows [R] -> [R, F], the values of the decisions' symbols.
        names: [F] the symbols.
        family: [N] number of the scheme and the design.
        listed: [N] number of the scheme, as the study lists it; equal where it lists none.
    """

    problem: np.ndarray
    stratum: np.ndarray
    order: np.ndarray
    seconds: np.ndarray
    error: np.ndarray
    way: np.ndarray
    names: tuple[str, ...]
    features: Callable[[np.ndarray], np.ndarray]
    family: np.ndarray
    listed: np.ndarray

    def __len__(self) -> int:
        return len(self.problem)


def _listed(combination: Combination) -> str:
    """The scheme that a combination names; empty where the error contract chooses."""
    spec = combination.loaded.spec
    return "" if spec.accuracy.asked else spec.split.scheme or ""


def _numbered(names: Sequence[str]) -> np.ndarray:
    numbers = {name: at for at, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] for name in names], int)


def by_number(rejected: Mapping[str, int]) -> Counter[str]:
    """Counts of rejected candidates with one line for each inequality: C7 has another text in some designs."""
    texts: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    for label, count in rejected.items():
        number, _, text = label.partition(" ")
        key = number if re.fullmatch(r"C\d+", number) else label
        counts[key] += count
        known = texts.setdefault(key, [])
        known += [one for one in text.split(" or else ") if key == number and one not in known]
    return Counter({" ".join(filter(None, (key, " or else ".join(texts[key])))): count for key, count in counts.items()})


def candidates(study: Study) -> Candidates:
    """Enumerate and rank all; nothing is compiled.

    Raises:
        SpecError, UnknownName: the study, or a name in it, will not do.
        InfeasibleSpec: every combination is refused; the first one's reason.
    """
    start = time.perf_counter()
    combinations, problems = list(study.combinations()), study.problems()
    numbers = {problem: at for at, problem in enumerate(problems)}
    parts: list[Part] = []
    refused: list[Refused] = []
    least_error: dict[str, float] = {}
    rejected: dict[str, Counter[str]] = {problem.gpu: Counter() for problem in problems}
    count = 0
    limit = study.file.accept.relative_frobenius
    for at, combination in enumerate(combinations):
        require_none(epilogue_of(combination.loaded.spec.epilogue.do), "studies try kernels that have")
        try:
            found = requests(combination.loaded)
        except InfeasibleSpec as error:
            refused.append(Refused(combination, error))
            continue
        errors: list[GemmgenError] = []
        for request in found:
            try:
                space = ranked(request)
            except InfeasibleSpec as error:
                errors.append(error)
                continue
            count += space.candidates
            rejected[combination.problem.gpu].update(space.rejected)
            error_of = _error(request, study.head.data)
            least_error[_listed(combination)] = min(error_of, least_error.get(_listed(combination), inf))
            if limit is not None and error_of > limit:
                rejected[combination.problem.gpu][f"[accept] relative_frobenius <= {limit:g}"] += len(space.order)
                continue
            parts.append(Part(at, numbers[combination.problem], space, error_of))
        if len(errors) == len(found):
            refused.append(Refused(combination, errors[-1]))
    if not parts and refused and not any(rejected.values()):
        raise refused[0].error
    part, row, seconds, key = (np.concatenate(columns) if parts else np.zeros(0, kind) for columns, kind in (
        ([np.full(len(one), number) for number, one in enumerate(parts)], int), ([np.arange(len(one)) for one in parts], int),
        ([one.ranked.columns["seconds"] for one in parts], float), ([_monotone(one.ranked) for one in parts], float),
    ))
    strata: dict[Any, int] = {}
    of_part = [
        strata.setdefault((one.problem, one.request.scheme.name if limit is None and _listed(combinations[one.combination]) else ""), len(strata))
        for one in parts
    ]
    stratum = np.array(of_part, int)[part] if parts else np.zeros(0, int)
    return Candidates(
        study, combinations, problems, parts, count, {gpu: by_number(one) for gpu, one in rejected.items()}, refused, least_error,
        time.perf_counter() - start, part, row, seconds, stratum, in_turn(stratum, key),
    )


def _monotone(space: Ranked) -> np.ndarray:
    """[rows] a key by which the candidates of one request stand in its order, and beside those of others by their predicted time."""
    key = np.empty(len(space.order))
    key[space.order] = np.maximum.accumulate(space.columns["seconds"][space.order])
    return key + 1e-12 * key * _places(space.order)


def _places(order: np.ndarray) -> np.ndarray:
    """Of each row its place in the order."""
    places = np.empty(len(order), int)
    places[order] = np.arange(len(order))
    return places


def in_turn(stratum: np.ndarray, key: np.ndarray) -> np.ndarray:
    """All rows: the least key of each stratum, then the second of each.

    Args:
        stratum, key: [N].
    """
    by_stratum = np.lexsort((key, stratum))
    sorted_strata = stratum[by_stratum]
    starts = np.searchsorted(sorted_strata, sorted_strata)
    rank = np.arange(len(by_stratum)) - starts
    return by_stratum[np.argsort(rank, kind="stable")]


def _error(request: Request, data: str) -> float:
    """The error that the model predicts of a request's kernels; infinite where the words do not hold the data."""
    loaded, promote = request.loaded.spec, request.choices.promote[0]
    roundoff = all_outputs()[loaded.problem.c].roundoff
    return float(predicted(request.scheme, request.unit, loaded.problem.k, promote, DISTRIBUTIONS[data], roundoff, request.compensated).estimate)
