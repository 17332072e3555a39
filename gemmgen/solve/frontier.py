"""Every scheme's predicted error and time on a spec's GPU and sizes, and which of them no other beats in both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import inf
from typing import Any

from gemmgen.catalog.output import all_outputs
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.decisions import SUMS
from gemmgen.errors import GemmgenError, InfeasibleSpec, SpecError
from gemmgen.model.accuracy import DISTRIBUTIONS, predicted
from gemmgen.plan import Plan
from gemmgen.shown import Shown
from gemmgen.solve import solve
from gemmgen.solve.contract import Contract, contract
from gemmgen.solve.lookup import schemes_for
from gemmgen.spec import Accuracy, LoadedSpec


@dataclass(frozen=True)
class Point:
    """A scheme with an interval of promotion.

    Attributes:
        promote: k between promotions; 0 never.
        sums: how what is promoted is added up, as `[split] sums` says it.
        policy: of the fastest plan.
        errors: the estimate on each of `DISTRIBUTIONS`, by name; infinite where the words do not hold the data.
        figure: what is compared: the error over the one that the spec asks for, or the estimate on the spec's data.
        worst: the deterministic bound of |C - C*| / (|A||B|).
        seconds, tflops: of the fastest plan, predicted.
        beaten_by: a scheme that is as fast and errs as little, and more in one; empty on the frontier.
        meets: whether it gives the error that the spec asks for; None where it asks for none.
        sums_in_unit: whether a matrix unit sums, so that there is something to promote.
        chooses_sums: whether its design lets a spec say how sums are added up.
        word: the type of the scheme's leading words.
        file: how the spec names a scheme of the user's own; empty for shipped ones.
    """

    scheme: str
    promote: int
    policy: str
    errors: dict[str, float]
    figure: float
    worst: float
    seconds: float
    tflops: float
    beaten_by: str = ""
    meets: bool | None = None
    sums_in_unit: bool = True
    sums: str = "plain"
    chooses_sums: bool = False
    word: str = ""
    file: str = ""

    @property
    def told(self) -> str:
        """`scaled, 64`, or `scaled, 32, compensated`."""
        return ", ".join(map(str, filter(None, (self.scheme, self.promote, self.sums if self.sums != "plain" else ""))))

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for `--json`; what is infinite, or of integers not relative to |A||B|, is None."""
        errors = {name: value if value < inf else None for name, value in self.errors.items()}
        figure = self.figure if self.figure < inf else None
        return {
            "scheme": self.scheme, "promote": self.promote, "sums": self.sums, "policy": self.policy, "errors": errors, "figure": figure,
            "worst": self.worst if self.worst < inf else None,
            "seconds": self.seconds, "tflops": self.tflops, "beaten_by": self.beaten_by, "meets": self.meets,
        }


@dataclass(frozen=True, repr=False)
class Frontier(Shown):
    """What there is to choose from.

    Attributes:
        data: the distribution whose errors are compared where the spec asks for none.
        asked: what the spec asks of the error, in words; else empty.
        points: by predicted time.
        refused: (scheme, why it has no plan).
    """

    gpu: str
    size: tuple[int, int, int]
    data: str
    asked: str
    points: tuple[Point, ...]
    refused: tuple[tuple[str, str], ...]

    def _told(self) -> dict[str, Any]:
        best = {f"{one.scheme}, {one.promote}" if one.promote else one.scheme: f"{one.seconds * 1e3:.3g} ms, error {one.errors[self.data]:.1e}"
                for one in self.best}
        return {"gpu": self.gpu, "for": " x ".join(map(str, self.size)), "asked": self.asked, "points": len(self.points), **best, "no plan": len(self.refused)}

    @property
    def best(self) -> tuple[Point, ...]:
        """Those that hold the data and that no other beats."""
        return tuple(point for point in self.points if not point.beaten_by and point.figure < inf)

    @property
    def worth_running(self) -> tuple[Point, ...]:
        """Those that no other interval of the same scheme beats: as fast, erring as little on any data, and better in one of these."""
        return tuple(point for point in self.points if not any(
            other.scheme == point.scheme and _no_worse(other, point) and not _no_worse(point, other) for other in self.points
        ))


def _no_worse(one: Point, other: Point) -> bool:
    return one.seconds <= other.seconds and all(one.errors[name] <= other.errors[name] for name in one.errors)


def frontier(loaded: LoadedSpec) -> Frontier:
    """Solve the spec with every shipped scheme and, where the spec names a file, the user's own; promoted as gemmgen would, never, as seldom as the
    error allows that the spec asks for, and compensated.

    Whatever else the spec fixes stays fixed, but for the scheme.

    Raises:
        SpecError, UnknownName: the spec, or its GPU, will not do.
        InfeasibleSpec: no scheme has a plan.
    """
    problem = loaded.spec.problem
    asked = contract(loaded, all_outputs()[problem.c].roundoff)
    data = asked.data[0] if asked else loaded.spec.accuracy.data
    plans: dict[tuple[str, int, str], Plan] = {}
    files: dict[str, str] = {}
    refused: list[tuple[str, GemmgenError]] = []
    own = loaded.spec.split.scheme if loaded.spec.split.scheme.endswith(".toml") else ""
    named = [scheme.name for scheme in schemes_for(problem.b, problem.part.name)]
    if own:
        scheme = SCHEMES.get(own, where=f"{loaded.place}: [split] scheme", relative_to=loaded.folder)
        files = {scheme.name: own}
        named = [*(name for name in named if name != scheme.name), scheme.name]
    for name in named:
        called = files.get(name, name)
        try:
            usual = solve(with_scheme(loaded, called))
        except InfeasibleSpec as error:
            refused.append((name, error))
            continue
        plans[name, usual.promote, usual.sums] = usual
        for promote, sums in _others(asked, usual, loaded.spec.split.sums) if loaded.spec.split.promote is None else ():
            try:
                other = solve(with_scheme(loaded, called, promote, sums))
                plans.setdefault((name, other.promote, other.sums), other)
            except InfeasibleSpec:  # the kernels of this design do not promote so
                continue
    if not plans:
        raise refused[-1][1]
    found = (replace(_point(plan, asked, data), file=files.get(plan.scheme.name, "")) for plan in plans.values())
    points = sorted(found, key=lambda point: (point.seconds, point.figure))
    return Frontier(
        next(iter(plans.values())).gpu.name, (problem.m, problem.n, problem.k), data, asked.text if asked else "",
        tuple(replace(point, beaten_by=_better(point, points)) for point in points), tuple((name, error.problem) for name, error in refused),
    )


def joined(found: Sequence[Frontier]) -> Frontier:
    """The frontiers of several specs as one, such as of elements of FP32 and of FP64: a point is beaten by any of them.

    Raises:
        SpecError: they are of different GPUs, sizes or data, or ask for an error.
    """
    first, *others = found
    if others and (first.asked or any((one.gpu, one.size, one.data, one.asked) != (first.gpu, first.size, first.data, "") for one in others)):
        told = [f"{one.gpu}, {'x'.join(map(str, one.size))}, {one.data}{', ' * bool(one.asked)}{one.asked}" for one in found]
        raise SpecError("--plot", "one picture cannot show these frontiers", got="; ".join(told),
                        needs="one GPU, one size, one data, and no demand in [accuracy]", remedy="a call for each spec")
    points = sorted((point for one in found for point in one.points), key=lambda point: (point.seconds, point.figure))
    return replace(first, points=tuple(replace(point, beaten_by=_better(point, points)) for point in points), refused=sum((one.refused for one in found), ()))


def with_scheme(loaded: LoadedSpec, scheme: str, promote: int | None = None, sums: str | None = None) -> LoadedSpec:
    """The spec with a scheme in place of an error that it asks for."""
    update = {"scheme": scheme} | ({} if promote is None else {"promote": promote}) | ({} if sums is None else {"sums": sums})
    split = loaded.spec.split.model_copy(update=update)
    return loaded.model_copy(update={"spec": loaded.spec.model_copy(update={"split": split, "accuracy": Accuracy()})})


def spec_of(loaded: LoadedSpec, point: Point) -> LoadedSpec:
    """The spec with a point of its frontier decided: the scheme, the interval, and how sums are added up where its design has that choice."""
    return with_scheme(loaded, point.file or point.scheme, point.promote, point.sums if point.chooses_sums else None)


def _others(asked: Contract | None, plan: Plan, sums: str) -> Iterator[tuple[int | None, str]]:
    """Intervals of promotion, and how sums are added up, beside the plan's own.

    Args:
        sums: what the spec says of the latter; `auto` leaves it open.
    """
    if not plan.fragment.on_matrix_unit:
        return
    intervals = asked.intervals(plan.fragment.shape[2]) if asked else ()
    meeting = (promote for promote in intervals if asked and asked.times(plan.scheme, plan.unit, promote, plan.promotion.compensates) <= 1)
    for promote in (0, *islice(meeting, 1)) if sums != "compensated" else ():
        yield promote, sums
    if sums == "auto" and any(map(plan.promotion.promotes, plan.scheme.accumulators)) and SUMS in plan.design.own:
        yield None, "compensated"


def _point(plan: Plan, asked: Contract | None, data: str) -> Point:
    unit, k = plan.unit if plan.fragment.on_matrix_unit else None, plan.hints.k
    found = {
        name: predicted(plan.scheme, unit, k, plan.promote, each, plan.output.roundoff, plan.promotion.compensates) for name, each in DISTRIBUTIONS.items()
    }
    figure = asked.times(plan.scheme, unit, plan.promote, plan.promotion.compensates) if asked else found[data].estimate
    return Point(
        plan.scheme.name, plan.promote, plan.fragment.policy, {name: one.estimate for name, one in found.items()}, figure, found[data].worst,
        float(plan.model["seconds"]), float(plan.model["tflops"]), meets=figure <= 1 if asked else None,
        sums_in_unit=plan.fragment.on_matrix_unit, sums=plan.sums, chooses_sums=SUMS in plan.design.own, word=plan.scheme.leading,
    )


def _better(point: Point, points: Sequence[Point]) -> str:
    """A point that is no slower and errs no more, and less in one, the first of `points`; empty where there is none."""
    for other in points:
        if other.seconds <= point.seconds and other.figure <= point.figure and (other.seconds, other.figure) != (point.seconds, point.figure):
            return other.told
    return ""
