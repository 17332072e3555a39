"""A library as what is made of it: kernels that are chosen and compiled, as many at once as there are processors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gemmgen.build import Built, build
from gemmgen.catalog.gpu import GPUS, Gpu
from gemmgen.catalog.vendor import Vendor
from gemmgen.errors import ResourceError
from gemmgen.explore.dispatch import Estimate, Rule, estimated
from gemmgen.library.choice import Candidate, Choice, Pool, pool, weights
from gemmgen.library.file import LoadedLibrary
from gemmgen.library.kernel import Image, Kernel, finish_images, images
from gemmgen.library.tables import Rules
from gemmgen.plan import Plan
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import loads

OLDEST = 75
"""The first of NVIDIA's architectures that the compilers at hand know, for which portable kernels are compiled to PTX."""
FALLBACK_SIZE = 2048
"""Rows, columns and sum of the product that portable kernels are planned for."""
TRIES = 16
"""How often a choice is made anew because the compiler refuses kernels of it."""


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
    def shim(self) -> tuple[str, ...]:
        """What unmodified programs call it through: words of `gemmgen.library.file.SHIMS`."""
        return self.loaded.file.shim

    @property
    def archs(self) -> tuple[str, ...]:
        """Of the GPUs that it has kernels for, each once."""
        return tuple(dict.fromkeys(gpu.arch for gpu in self.loaded.gpus))

    @property
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
        portable = _portable_plans(library) if library.file.fallback else []
        found = pool(library, each, progress)
        choice, built = _accepted(found, portable, each, progress)
        progress("compile the kernel of epilogues")
        finish = tuple(finish_images(library_archs(library), f"sm_{OLDEST}" if library.file.fallback and not library.maker.code_per_arch else None))
    kernels, labels = [], {}
    for served in choice.kernels:
        stem = f"{served.plan.gpu.name}_{served.plan.layout}"
        number = sum(label.startswith(f"{stem}_") for label in labels.values()) + 1
        labels[served.plan.hash] = f"{stem}_{number}"
        kernels.append(Kernel(f"{stem}_{number}", built[served.plan.hash], _estimate(served.candidate, choice), served.reason))
    for plans in portable:
        one = built[plans[0].hash]
        name = f"portable_{plans[0].layout}" + (f"_{plans[0].gpu.limits.warp_size}" if library.maker.code_per_arch else "")
        others = tuple(built[plan.hash].binary for plan in plans[1:])
        kernels.append(Kernel(name, replace(one, others=others), None, "no other kernel serves the problem on this device", is_fallback=True))
    return Library(library, choice, tuple(kernels), finish, tuple(_rules(library, choice, labels)))


def library_archs(library: LoadedLibrary) -> list[str]:
    """Of its GPUs, each once."""
    return list(dict.fromkeys(gpu.arch for gpu in library.gpus))


def _accepted(
    found: Pool, portable: Sequence[Sequence[Plan]], each: Callable[..., Iterable[Any]], progress: Callable[[str], None],
) -> tuple[Choice, dict[str, Built]]:
    """(the first choice of which the compiler accepts all, its kernels and the portable ones by their plans' hashes)."""
    built: dict[str, Built] = {}
    refused: ResourceError | None = None
    for _ in range(TRIES):
        choice = found.choose()
        wanted = {plan.hash: plan for plan in (*(one.plan for one in choice.kernels), *(plan for plans in portable for plan in plans))}
        left = [plan for key, plan in wanted.items() if key not in built]
        if not left:
            return choice, built
        progress(f"compile {len(left)} kernels")
        for plan, result in zip(left, each(compiled, left)):
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


def _portable_plans(library: LoadedLibrary) -> list[list[Plan]]:
    """Of each layout the plans of the kernels that serve what no other does: one for all GPUs where a driver compiles them, else one for each architecture
    of those that share a text."""
    found = []
    for layout in library.file.layouts:
        for gpus in _portable_gpus(library):
            plans = [_portable_plan(gpu, layout) for gpu in gpus]
            found.append(list({plan.arch: plan for plan in plans}.values()))
    return found


def _portable_plan(gpu: Gpu, layout: str) -> Plan:
    size = dict.fromkeys("mnk", FALLBACK_SIZE)
    spec = {"problem": {"layout": layout, **size}, "split": {"scheme": "fp32"}, "fragment": {"policy": "fma"}, "target": {"gpu": gpu.name}}
    plan = solve(loads(spec, "portable kernel"))
    return replace(plan, gpu=gpu)


def _portable_gpus(library: LoadedLibrary) -> list[list[Gpu]]:
    """GPUs to plan portable kernels for, those together that run the same text."""
    if not library.maker.code_per_arch:
        rows = [gpu for gpu in GPUS.rows() if gpu.vendor == library.maker.name and gpu.arch_number >= OLDEST]
        return [[min(rows, key=lambda gpu: gpu.arch_number)]]
    widths: dict[int, list[Gpu]] = {}
    for gpu in {gpu.arch: gpu for gpu in reversed(library.gpus)}.values():
        widths.setdefault(gpu.limits.warp_size, []).append(gpu)
    return list(widths.values())


def _estimate(one: Candidate, choice: Choice) -> Estimate:
    """A kernel's time as the runtime knows it: fitted to the model's, but a dispatch table's own where one tells it."""
    if one.estimate is not None:
        return one.estimate
    sizes = np.array(choice.sizes)[:, :3]
    return estimated(one.judged_single, sizes, weights(choice.sizes), one.plan.block[:2], one.plan.split_k, one.gpu.rates.sms)


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
