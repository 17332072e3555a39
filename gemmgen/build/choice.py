"""Spec -> the fastest kernel that the compiler accepts.

The model predicts what spills, and near the limit it errs. Where the spec leaves
the tile or anything else of the main loop open (`solve.choices`), a choice that
the compiler refuses for its spills is passed over for the next one:

    kernel = first_that_builds(load("my.toml"))
    kernel.binary, kernel.refused

The build cache keeps machine code that spills like any other, under a key of the
source, the compiler and its options, so that the next run compiles nothing to pass
over it, and those that do not compile (`first_not_refused`) learn of it, too. A
mark of the kernel's name only says that looking there is worth a rendering.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from gemmgen.build import build
from gemmgen.build.binary import Binary
from gemmgen.build.reference import accepting
from gemmgen.cache import USER_CACHE, Cache
from gemmgen.errors import BuildError, ResourceError
from gemmgen.naming import kernel_name
from gemmgen.plan import Plan
from gemmgen.render import Source, render
from gemmgen.shown import Shown
from gemmgen.solve import Explanation, choices, explain
from gemmgen.spec import LoadedSpec

TRIES = 8
"""Choices of the model that are compiled at most; where the first was refused, the second to the fourth was seen to build (docs/results/builds.md)."""


@dataclass(frozen=True)
class Refusal:
    """A choice of the model that the compiler refused.

    Attributes:
        kernel: its name.
        error: what was refused of it.
    """

    plan: Plan
    kernel: str
    error: ResourceError

    def __str__(self) -> str:
        return f"{self.plan.summary}: {self.error.problem}: {self.error.has}"

    def as_dict(self) -> dict[str, Any]:
        """For `--json` and manifests."""
        plan = self.plan
        return {
            "kernel": self.kernel, **{name: list(value) if isinstance(value, tuple) else value for name, value in plan.decided.items()},
            "problem": self.error.problem, "has": self.error.has,
        }


@dataclass(frozen=True, repr=False)
class Planned(Shown):
    """A spec's plan and source, as far as earlier builds tell.

    Attributes:
        refused: choices that come before it and that the compiler refused then. Where no choice is left, the plan is the
            first of them.
    """

    plan: Plan
    source: Source
    refused: tuple[Refusal, ...] = ()

    def _told(self) -> dict[str, Any]:
        return {"kernel": self.source.name, **self.plan._told(), "refused": len(self.refused) or None}


@dataclass(frozen=True, repr=False)
class Built(Shown):
    """A kernel, ready to run.

    Attributes:
        others: the same for further architectures.
        refused: choices that come before it and that the compiler refuses.
    """

    plan: Plan
    source: Source
    binary: Binary
    others: tuple[Binary, ...] = ()
    refused: tuple[Refusal, ...] = ()

    def _told(self) -> dict[str, Any]:
        used = self.binary.kernels[self.source.name]
        return {"kernel": self.source.name, **self.plan._told(), "compiler": self.binary.compiler, "registers": used.registers,
                "refused": len(self.refused) or None}


def first_that_builds(
    loaded: LoadedSpec, *, archs: Callable[[Plan], Sequence[str]] | None = None, cache: Cache | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Built:
    """Decide, render and compile; where the compiler refuses a choice for its spills, the next one.

    Args:
        archs: all architectures to compile a plan for, its own first; None is its own alone.
        cache: as `build`.
        progress: is told what is done.

    Raises:
        UnknownName, InfeasibleSpec, BuildError: as `solve` and `build`.
        ResourceError: the spec's one choice spills, or each that was tried, of which there are at most TRIES.
    """
    refused: list[Refusal] = []
    progress("decide")
    for plan in _considered(loaded):
        source = render(plan)
        progress(f"compile choice {len(refused) + 1}: the compiler refused the others" if refused else "compile")
        try:
            binary, *others = [build(replace(source, arch=arch), cache=cache) for arch in (archs(plan) if archs else [source.arch])]
        except ResourceError as error:
            refused.append(Refusal(plan, source.name, error))
            continue
        return Built(plan, source, binary, tuple(others), tuple(refused))
    first, tiles = refused[0].error, refused[0].plan.batch and refused[0].plan.batch.tiles
    remedy = f"{'[batch] tiles with a smaller last one' if tiles else '[tile] with a smaller warp'}, or [build] allow_spills = true"
    known = ""
    if others := accepting(refused[0].kernel):
        known = f"; or GEMMGEN_NVRTC=.../libnvrtc.so of another NVRTC: {', '.join(others)} accept{'s' * (len(others) == 1)} {refused[0].kernel}"
    if len(refused) == 1:  # a spec of several tiles has no warp's tile to make smaller
        raise ResourceError(first.where, first.problem, needs=first.needs, has=first.has, remedy=f"{remedy if tiles else first.remedy}{known}") from first
    raise ResourceError(
        f"{loaded.place}: {'[batch] tiles' if tiles else '[tile]'}", f"the compiler refuses {len(refused)} choices of the model, one after another",
        needs=first.needs, has="; ".join(map(str, refused)), remedy=f"{remedy}{known}",
    )


def _considered(loaded: LoadedSpec) -> Iterator[Plan]:
    """Choices of the model that are compiled one after another, TRIES at most.

    Of the second half each has a smaller warp's tile than all before: where so many are refused, a thread holds too many sums.
    """
    found, smallest = 0, inf
    for plan in choices(loaded):
        size = plan.warp[0] * plan.warp[1]
        if found >= TRIES // 2 and size >= smallest:
            continue
        found, smallest = found + 1, min(smallest, size)
        yield plan
        if found == TRIES:
            return


def first_not_refused(loaded: LoadedSpec, *, cache: Cache | None = None) -> Planned:
    """Decide and render, and pass over choices that the compiler at hand is known to refuse. Nothing is compiled.

    Raises:
        UnknownName, InfeasibleSpec: as `solve`.
    """
    refused: list[Refusal] = []
    for plan in _considered(loaded):
        source = render(plan)
        if (error := _refused_before(source, cache)) is None:
            return Planned(plan, source, tuple(refused))
        refused.append(Refusal(plan, source.name, error))
    plan = refused[0].plan
    return Planned(plan, render(plan), tuple(refused))


def explained(loaded: LoadedSpec, *, cache: Cache | None = None) -> tuple[Explanation, tuple[Refusal, ...]]:
    """How the plan of `first_not_refused` came about, and what it passes over.

    Raises:
        UnknownName, InfeasibleSpec: as `solve`.
    """
    explanation = explain(loaded)
    # Rendering takes a third of an explanation's time.
    if not (cache or USER_CACHE).is_marked_refused(kernel_name(explanation.plan)) or _refused_before(render(explanation.plan), cache) is None:
        return explanation, ()
    planned = first_not_refused(loaded, cache=cache)
    passed = 0 if planned.plan == planned.refused[0].plan else len(planned.refused)
    return (explain(loaded, passed) if passed else explanation), planned.refused


def _refused_before(source: Source, cache: Cache | None) -> ResourceError | None:
    """What the compiler refused of a source, if an earlier build found that; None where it accepted it, or nobody asked it."""
    try:
        build(source, cache=cache, only_kept=True)
    except ResourceError as error:
        return error
    except BuildError:
        return None
    return None
