"""A library as what is made of it: kernels that are chosen and compiled, as many at once as there are processors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gemmgen.build import Built, build
from gemmgen.catalog.element import F32
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.vendor import Vendor
from gemmgen.errors import ResourceError
from gemmgen.library.candidates import Candidate, Group, between, gpu_name, weights
from gemmgen.library.choice import Choice, Pool, pool
from gemmgen.library.dispatch import Estimate, Rule, estimated
from gemmgen.library.file import LoadedLibrary
from gemmgen.library.kernel import Image, Kernel, finish_images, images
from gemmgen.library.routines import sized
from gemmgen.library.tables import Rules
from gemmgen.plan import Plan
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.solve.lookup import PLAIN, PLAIN_POLICY
from gemmgen.spec import loads

OLDEST = 75
"""The first of NVIDIA's architectures that the compilers at hand know, for which portable kernels are compiled to PTX."""
FALLBACK_SIZE = 2048
"""Rows, columns and sum of the product that portable kernels are planned for."""
FALLBACK_TILE = {"block": [64, 64, 16], "warp": [32, 64, 16]}
"""Of those that drivers compile when they are first called: small text, and shared memory and registers that any GPU has."""
TRIES = 16
"""How often a choice is made anew because the compiler refuses kernels of it."""
DRAWN = 150
"""Sizes beside the library's own that estimates are fitted to. With its own alone, what the estimates of a library for `h200` took was 2.4 % slower than
the best of its kernels by the model, over 6,000 sizes; with these 1.0 %."""


@dataclass(frozen=True)
class Library:
    """A library, ready to be written.

    Attributes:
        kernels: those that are made for a GPU first, then the portable ones.
        finish: machine code of the kernel of epilogues.
        rules: where a dispatch table decides.
    """

    loaded: LoadedLibrary
    choice: Choice
    kernels: tuple[Kernel, ...]
    finish: tuple[Image, ...]
    rules: tuple[Rules, ...] = ()

    @property
    def name(self) -> str:
        return self.loaded.name

    @property
    def guard(self) -> str:
        """The name as macros have it."""
        return self.name.upper()

    @property
    def maker(self) -> Vendor:
        return self.loaded.maker

    @property
    def reproducible(self) -> bool:
        """Whether C of alpha A B + beta C is the same bits on every GPU."""
        return self.loaded.file.reproducible

    @property
    def shim(self) -> tuple[str, ...]:
        """What unmodified programs call it through: words of `gemmgen.library.file.SHIMS`."""
        return self.loaded.file.shim

    @property
    def archs(self) -> tuple[str, ...]:
        """Of the GPUs that it has kernels for, each once."""
        return self.loaded.archs

    @cached_property
    def images(self) -> tuple[Image, ...]:
        """All machine code."""
        return (*(image for kernel in self.kernels for image in images(kernel)), *self.finish)

    @property
    def compilers(self) -> tuple[str, ...]:
        """Who made that."""
        return tuple(dict.fromkeys(kernel.built.binary.compiler for kernel in self.kernels))


def choose(library: LoadedLibrary, progress: Callable[[str], None] = lambda step: None) -> Choice:
    """The kernels that `made` tries first; nothing is compiled.

    Raises:
        SpecError, UnknownName, InfeasibleSpec: as `Pool.choose`.
    """
    with _workers() as each:
        return pool(library, each, progress).choose()


def made(library: LoadedLibrary, progress: Callable[[str], None] = lambda step: None) -> Library:
    """Choose kernels and compile them; what the compiler refuses for its spills is replaced by what is best without it.

    Raises:
        SpecError, UnknownName, InfeasibleSpec: as `Pool.choose`.
        BuildError: the compiler is missing, or refuses a source.
        ResourceError: it refuses too many kernels, one after another.
    """
    with _workers() as each:
        portable = _portable_plans(library) if library.has_portable else []
        found = pool(library, each, progress)
        choice, built = _accepted(found, portable, each, progress)
        progress("compile the kernel of epilogues")
        finish = tuple(finish_images(library.archs, f"sm_{OLDEST}" if portable and not library.maker.files.code_per_arch else None, library.elements))
    kernels, labels = [], {}
    for served, estimate in zip(choice.kernels, estimates(choice)):
        if served.plan.hash in labels:  # another GPU of the same architecture has it already
            continue
        of = "_".join(value for key, value in served.candidate.routine.items() if key not in ("layout", "type")) + "_" if served.candidate.routine else ""
        of += "" if served.candidate.element == F32.name else f"{served.candidate.element}_"
        stem = f"{served.plan.gpu.name}_{of}{served.candidate.layout}"
        number = sum(label.startswith(f"{stem}_") for label in labels.values()) + 1
        labels[served.plan.hash] = f"{stem}_{number}"
        kernels.append(Kernel(f"{stem}_{number}", built[served.plan.hash], estimate, served.reason, packs_b=not served.candidate.unpacked))
    for plan in portable:
        label = f"portable_{plan.layout}" + (f"_{plan.arch}" if library.maker.files.code_per_arch else "")
        kernels.append(Kernel(label, built[plan.hash], None, "no other kernel serves the problem on this device", is_fallback=True))
    return Library(library, choice, tuple(kernels), finish, tuple(_rules(library, choice, labels)))


def _accepted(
    found: Pool, portable: Sequence[Plan], each: Callable[..., Iterable[Any]], progress: Callable[[str], None],
) -> tuple[Choice, dict[str, Built]]:
    """(the first choice of which the compiler accepts all, its kernels and the portable ones by their plans' hashes)."""
    built: dict[str, Built] = {}
    refused: ResourceError | None = None
    for _ in range(TRIES):
        choice = found.choose()
        wanted = {plan.hash: plan for plan in (*(one.plan for one in choice.kernels), *portable)}
        left = [plan for key, plan in wanted.items() if key not in built]
        if not left:
            return choice, built
        results = iter(each(compiled, left))
        for number, plan in enumerate(left, 1):
            progress(f"compile kernel {number} of {len(left)}")
            result = next(results)
            if isinstance(result, ResourceError):
                found.refuse(plan, result)
                refused = result
            else:
                built[plan.hash] = result
    raise refused


def compiled(plan: Plan) -> Built | ResourceError:
    """A plan's kernels, without lines of the source; or why the compiler refuses them."""
    source = render(plan)
    try:
        return Built(plan, source, build(source, line_info=False))
    except ResourceError as error:
        return error


def _portable_plans(library: LoadedLibrary) -> list[Plan]:
    """The kernels that serve what no other does: of each layout one for all GPUs where their drivers compile it, else one for each architecture."""
    return [_portable_plan(gpu, layout, library.maker.files.code_per_arch) for layout in library.layouts_of(F32) for gpu in _portable_gpus(library)]


def _portable_plan(gpu: str, layout: str, per_arch: bool) -> Plan:
    size = dict.fromkeys("mnk", FALLBACK_SIZE)
    return solve(loads({
        "problem": {"layout": layout, **size}, "split": {"scheme": PLAIN}, "fragment": {"policy": PLAIN_POLICY}, "target": {"gpu": gpu},
        "tile": {} if per_arch else FALLBACK_TILE, "build": {"allow_spills": True},  # some registers in memory are better than no kernel
    }, "portable kernel"))


def _portable_gpus(library: LoadedLibrary) -> list[str]:
    """GPUs to plan portable kernels for, as specs name them."""
    if library.maker.files.code_per_arch:
        return [gpu_name(library, gpu) for gpu in {gpu.arch: gpu for gpu in reversed(library.gpus)}.values()]
    rows = [gpu for gpu in GPUS.rows() if gpu.vendor == library.maker.name and gpu.arch_number >= OLDEST]
    return [min(rows, key=lambda gpu: gpu.arch_number).name]


def estimates(choice: Choice) -> list[Estimate]:
    """Each kernel's time as the runtime knows it: fitted to the model's, but a dispatch table's own where one tells it.

    Of those that take batches in one launch, to batches alone, more and fewer products than those of the library's sizes among them. Of the others to
    the library's sizes and to more, drawn among these; where a kernel is far from the fastest, it matters little how far.
    """
    sizes = np.array([size[:3] for size in choice.sizes])
    drawn = _drawn(sizes)
    every, heavy = np.concatenate([sizes, drawn]), weights([*choice.sizes, *((*size, 1) for size in drawn.tolist())])
    found: dict[int, Estimate] = {}
    seconds: dict[int, np.ndarray] = {}
    for number, served in enumerate(choice.kernels):
        one = served.candidate
        if one.estimate is not None:
            found[number] = one.estimate
        elif one.routine:
            kind = served.plan.kind
            own = {sized(kind, *map(int, size)) for size in every}
            if kind.solves:
                rounds = [each for size in own for each in kind.rounds(*kind.extents(*size), 1.0, 0.0, True) if not each.solves]
                one, own = between(one), {(each.m, each.n // kind.reals, each.k // kind.reals) for each in rounds}
            own = np.array([(*size, 1) for size in sorted(own)])
            found[number] = _fitted(one, own, one.seconds_of(own), weights(own))
        elif one.strided:
            batches = np.array(sorted({(*size[:3], max(2, size[3] * times // 4)) for size in choice.sizes if size[3] > 1 for times in (1, 4, 16)}))
            found[number] = _fitted(one, batches, one.seconds_of(batches), weights(batches))
        else:
            seconds[number] = np.concatenate([one.judged_single, one.seconds_of(np.column_stack([drawn, np.ones(len(drawn), int)]))])
    least: dict[Group, np.ndarray] = {}
    for number, own in seconds.items():
        one = choice.kernels[number].candidate
        group = one.group
        least[group] = np.minimum(least.get(group, np.inf), own)
    for number, own in seconds.items():
        one = choice.kernels[number].candidate
        near = np.divide(least[one.group], own, where=np.isfinite(own), out=np.zeros(len(own)))
        found[number] = _fitted(one, every, own, heavy * near**2)
    return [found[number] for number in range(len(choice.kernels))]


def _fitted(one: Candidate, sizes: np.ndarray, seconds: np.ndarray, heavy: np.ndarray) -> Estimate:
    served = np.isfinite(seconds)
    return estimated(seconds[served], one.real(sizes[served]), heavy[served], one.plan.block[:2], one.plan.split_k, one.gpu.rates.sms)


def _drawn(sizes: np.ndarray) -> np.ndarray:
    """[DRAWN, 3]: extents between the least and the largest of [sizes, 3], evenly on a logarithmic scale, of which every other size has multiples of 32."""
    low, high = np.log(sizes.min()), np.log(sizes.max())
    found = np.exp(np.random.default_rng(0).uniform(low, high, (DRAWN, 3)))
    found[::2] = np.maximum(np.rint(found[::2] / 32) * 32, 1)
    return np.rint(found).astype(int)


def _rules(library: LoadedLibrary, choice: Choice, labels: dict[str, str]) -> Iterator[Rules]:
    """The parts of dispatch tables that decide by rules, as far as the library has all kernels that they name and no others."""
    for place, table, _ in library.tables:
        hashes = {one.label: one.plan.hash for served in choice.kernels if (one := served.candidate).place == place and one.label}
        for part in table.parts:
            group = [one for one in choice.kernels if (one.candidate.gpu.name, one.candidate.layout) == (part.gpu, part.layout)]
            named = {rule.kernel for rule in part.rules}
            if part.decided_by == "rules" and group and named <= hashes.keys() and all(one.candidate.place == place for one in group):
                rules = tuple(Rule(at_most=dict(rule.at_most), kernel=labels[hashes[rule.kernel]]) for rule in part.rules)
                yield Rules(GPUS.get(part.gpu).arch, part.layout, rules)


@contextmanager
def _workers() -> Iterator[Callable[..., Iterable[Any]]]:
    """`map` over threads, as many as there are processors: compilers and NumPy work beside one another."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with ThreadPoolExecutor(count) as workers:
        yield workers.map
