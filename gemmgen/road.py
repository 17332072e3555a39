"""The road as a library, a line a stop: what the command line and the demo walk, and a program of your own may.

    from gemmgen import road

    report = road.verify("sgemm_a100")
    print(report.passed, report.errors.relative_frobenius)
    road.export("sgemm_a100", "third_party/sgemm")

Where a function takes a spec, it takes the path of a .toml file, a dictionary of its sections, or what `load` gave.
Where it takes a kernel, it takes the same, or what `build` gave: so build once what you use twice. `multiply` takes a dispatch table, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gemmgen.errors import NotEmulated, SpecError

if TYPE_CHECKING:
    import numpy as np

    from gemmgen.build import Built, Planned
    from gemmgen.library.dispatch import Table
    from gemmgen.library.file import LoadedLibrary
    from gemmgen.library.made import Library
    from gemmgen.plan import Plan
    from gemmgen.run import Device, Result
    from gemmgen.run.batch import BatchResult, Product
    from gemmgen.solve import Explanation
    from gemmgen.solve.frontier import Frontier
    from gemmgen.spec import LoadedSpec
    from gemmgen.verify import Report, Require

    Spec = str | os.PathLike[str] | Mapping[str, Any] | LoadedSpec
    Kernel = Spec | Built

__all__ = [
    "NOBODY", "Watcher", "build", "check_affordable", "chosen", "explain", "export", "frontier", "library", "load", "load_library", "multiply",
    "multiply_batch", "open_device", "plan", "record", "render", "verify",
]

MOST_EMULATED = 1 << 36
"""Multiply-adds of a product: the emulator does some 10^6 to 10^7 a second."""


def __dir__() -> list[str]:
    return __all__


class Watcher(Protocol):
    """A function that gets the name of each step as it begins."""

    def step(self, text: str) -> None: ...
    def blocks(self, symbol: str, done: int, total: int) -> None: ...
    def clear(self) -> None: ...


class _Nobody:
    def step(self, text: str) -> None: ...
    def blocks(self, symbol: str, done: int, total: int) -> None: ...
    def clear(self) -> None: ...


NOBODY: Watcher = _Nobody()


# ---- the stops


def load(spec: Spec, gpu: str | None = None, layout: str | None = None) -> LoadedSpec:
    """A spec, checked.

    Args:
        gpu: instead of its own: a name under specs/gpus, or a .toml file.
        layout: instead of its own: `nn`, `nt`, `tn` or `tt`.

    Raises:
        SpecError: the file or a value in it is not acceptable.
    """
    from gemmgen import spec as specs

    if not (gpu is None or isinstance(gpu, str)):
        raise SpecError("gpu", "is no name", got=type(gpu).__name__, needs="a name under specs/gpus, or a .toml file", remedy='gpu="a100"')
    if isinstance(spec, specs.LoadedSpec):
        loaded = spec.on(gpu)
    elif isinstance(spec, Mapping):
        loaded = specs.loads(dict(spec)).on(gpu)
    elif isinstance(spec, str | os.PathLike):
        loaded = specs.load(Path(spec), gpu)
    else:
        raise SpecError("spec", "is no spec", got=type(spec).__name__, needs="a .toml file, the name of a shipped spec, or a mapping", remedy='"scaled_a100"')
    return loaded.laid_out(layout)


def plan(spec: Spec, gpu: str | None = None, layout: str | None = None) -> Plan:
    """Everything decided; nothing is compiled.

    Raises:
        SpecError, UnknownName, InfeasibleSpec: the spec, or what it asks for, cannot be.
    """
    from gemmgen.solve import solve

    return solve(load(spec, gpu, layout))


def explain(spec: Spec, gpu: str | None = None) -> Explanation:
    """The plan, and how it came about.

    Raises:
        SpecError, UnknownName, InfeasibleSpec: as `plan`.
    """
    from gemmgen.solve import explain as explained

    return explained(load(spec, gpu))


def frontier(spec: Spec, gpu: str | None = None) -> Frontier:
    """Every scheme's predicted error and time on the spec's GPU and sizes; seconds of solving.

    Raises:
        SpecError, UnknownName, InfeasibleSpec: as `plan`; the last where no scheme has a plan.
    """
    from gemmgen.solve.frontier import frontier as found

    return found(load(spec, gpu))


def render(spec: Spec, gpu: str | None = None, layout: str | None = None) -> Planned:
    """Plan and source; nothing is compiled, and a choice that the compiler at hand is known to refuse is passed over.

    Raises:
        SpecError, UnknownName, InfeasibleSpec: as `plan`.
    """
    from gemmgen.build import first_not_refused

    return first_not_refused(load(spec, gpu, layout))


def build(
    spec: Kernel, gpu: str | None = None, *, layout: str | None = None, archs: Callable[[Plan], Iterable[str]] | None = None, progress: Watcher = NOBODY,
) -> Built:
    """Plan, source and machine code, compiled or from the cache.

    Args:
        archs: the architectures to compile a plan for, its own first; None for that alone.

    Raises:
        SpecError, UnknownName, InfeasibleSpec: as `plan`.
        BuildError, ResourceError: the compiler is missing, or refuses every choice.
    """
    from gemmgen.build import Built, first_that_builds

    if isinstance(spec, Built):
        return spec
    return first_that_builds(load(spec, gpu, layout), progress=progress.step, **({"archs": archs} if archs else {}))


def open_device(kernel: Kernel, device: str = "auto", *, progress: Watcher = NOBODY) -> Device:
    """What runs a kernel: `cuda`, `hip`, `emulator`, or `auto`: a GPU if there is one, else the emulator.

    Whoever opens it releases it (`Device.release`).

    Raises:
        DeviceError, NotEmulated: it is not there, or does not run such kernels.
    """
    from gemmgen import run

    built = build(kernel, progress=progress)
    opened: Any = run.open_device(device, built.plan, built.source, built.binary)
    if opened.kind == "emulator":
        opened.progress = progress.blocks
    return opened


def chosen(table: Table | str | os.PathLike[str], m: int, n: int, k: int, *, gpu: str | None = None, layout: str | None = None) -> dict[str, Any]:
    """The spec of the kernel that a dispatch table of `gemmgen study choose` takes for a product, [m, k] by [k, n].

    Args:
        table: what `gemmgen.library.dispatch.load_table` gave, or the path of such a file.
        gpu: None for the table's only one.
        layout: None for nn, or the first that the table has for the GPU.

    Raises:
        SpecError: the file is no table, or the table has no rules for the GPU and layout.
    """
    from gemmgen.library.dispatch import Table, load_table, select

    known = table if isinstance(table, Table) else load_table(Path(table))
    gpus = sorted({part.gpu for part in known.parts})
    if gpu is None and len(gpus) > 1:
        raise SpecError("dispatch table", "is for several GPUs", got=", ".join(gpus), needs="the name of one", remedy=f"gpu={gpus[0]!r}")
    named = gpu or gpus[0]
    layouts = [part.layout for part in known.parts if part.gpu == named]
    return select(known, named, layout or ("nn" if "nn" in layouts or not layouts else layouts[0]), m, n, k).spec


def multiply(
    kernel: Kernel | Table, a: np.ndarray, b: np.ndarray, c: np.ndarray | None = None, *, alpha: complex = 1.0, beta: complex = 0.0, device: str = "auto",
    **ends: np.ndarray | float,
) -> Result:
    """alpha A B + beta C, and of that what the kernel's epilogue makes, with the kernels' counters: one product, for a look.

    Programs that multiply for a living embed an `export`.

    Args:
        kernel: or a dispatch table of one GPU, whose rules take one (`chosen`).
        a, b, c: [M, K], [K, N] and [M, N], of the kernel's type: float32, float64, complex64 or complex128.
        ends: the epilogue's arguments by name, such as `bias` [N], FP32.

    Raises:
        SpecError: shapes or types do not fit, or an argument of the epilogue is missing or unknown.
        Others as `build`, `chosen` and `open_device`.
    """
    from gemmgen.library.dispatch import Table
    from gemmgen.run import check_array, gemm

    for name, x in (("a", a), ("b", b), ("c", c)):
        if x is not None:
            check_array(name, x)
    built = build(chosen(kernel, a.shape[0], b.shape[1], a.shape[1]) if isinstance(kernel, Table) else kernel)
    opened = open_device(built, device)
    try:
        return gemm(opened, built.plan, built.source, a, b, c, alpha=alpha, beta=beta, ends=ends)
    finally:
        opened.release()


def multiply_batch(kernel: Kernel, products: Sequence[Product], *, device: str = "auto", beside: Kernel | None = None) -> BatchResult:
    """alpha A B + beta C of each product of a batch, for a look; of a kernel whose spec asks for a batch that is no strided one without tiles.

    Args:
        beside: another kernel for grouped batches, which gets the products that the model says it is faster with.

    Raises:
        SpecError: shapes or types do not fit, two products write one place, or the kernel is for one product; others as `build` and `open_device`.
    """
    from gemmgen.run.batch import batch
    from gemmgen.run.mixed import mixed

    built = build(kernel)
    if not (built.plan.launches.of_products or built.plan.kind.indirect):
        raise SpecError("multiply_batch", "is given a kernel of another kind", got=f"kind {built.plan.kind}", needs='[problem] kind = "grouped" or "pointers"',
                        remedy="road.multiply for one product, gemmgen.run.strided for a strided batch")
    opened = [open_device(built, device)]
    try:
        if beside is None:
            return batch(opened[0], built.plan, built.source, products)
        other = build(beside)
        opened.append(open_device(other, device))
        return mixed(opened, (built, other), products)
    finally:
        for one in opened:
            one.release()


def verify(
    kernel: Kernel, gpu: str | None = None, *, device: str = "auto", size: tuple[int | None, int | None, int | None] = (None, None, None),
    a: np.ndarray | None = None, b: np.ndarray | None = None, require: Require | None = None, whole: bool = False, progress: Watcher = NOBODY,
) -> Report:
    """Every check on a kernel; that of resources alone where nothing here can run it.

    On the emulator, products that would take more than a minute are computed in part: some blocks of C, all corners among them, with
    their whole k (`Report.sample`). Where a kernel's blocks cannot be run by themselves, smaller products are (`Report.smaller`).

    Args:
        size: (m, n, k) of the headline product; None is the default, each for itself.
        a, b: [M, K] and [K, N] of the kernel's type for the headline product instead of random data.
        require: `scheme`, or `fp32` where its errors have to be FP32's; None for what the spec says.
        whole: compute all blocks, however long it takes.

    Raises:
        SpecError: the matrices do not fit this machine, or emulating them would take hours; others as `build` and `open_device`.
    """
    from gemmgen.build import Built
    from gemmgen.verify import default_size, resources_only
    from gemmgen.verify import verify as judged
    from gemmgen.verify.sample import affordable

    if require is None:
        require = "scheme" if isinstance(kernel, Built) else load(kernel, gpu).spec.verify.require
    built = build(kernel, gpu, progress=progress)
    try:
        opened = open_device(built, device, progress=progress)
    except NotEmulated as error:
        progress.clear()
        return resources_only(built.plan, built.source, built.binary, error.problem)
    usual = default_size(built.plan, opened.kind)
    size = tuple(asked or default for asked, default in zip(size, usual))
    given = a is not None and b is not None
    try:
        size = a.shape[:1] + b.shape[::-1] if given else size
        check_affordable(size, opened.kind, whole)
        sample, size, smaller = (None, size, "") if whole or opened.kind != "emulator" else affordable(built.plan, size, usual)
        if smaller and given:
            a, b = a[: size[0], : size[2]], b[: size[2], : size[1]]
        return judged(
            built.plan, built.source, built.binary, opened, progress=progress.step, size=size, require=require, a=a, b=b, sample=sample, smaller=smaller,
        )
    finally:
        opened.release()
        progress.clear()


def record(kernel: Built, report: Report, *, progress: Watcher = NOBODY) -> dict[str, Any]:
    """The record of a report, with what the matrix unit it was made on returns: of vendors of whom none was ever run here."""
    from gemmgen.verify.record import record as recorded

    progress.step("matrix unit")
    opened: Any = open_device(kernel, report.device_kind, progress=progress)
    try:
        return recorded(kernel.plan, kernel.binary, report, opened.facts())
    finally:
        opened.release()
        progress.clear()


def export(
    kernel: Kernel, directory: str | os.PathLike[str], gpu: str | None = None, *, name: str | None = None, force: bool = False, archs: Iterable[str] = (),
    layout: str | None = None,
) -> list[Path]:
    """Write the folder that another project embeds; all of it, or nothing.

    Args:
        name: prefix of the C functions and name of the library.
        force: put the files into a folder that holds others.
        archs: further architectures to compile for; a `Built` has its own.
        layout: instead of the spec's; a `Built` has its own.

    Returns:
        The files, sorted.

    Raises:
        SpecError: the name, or an architecture, will not do.
        GemmgenError: the folder holds something else, or cannot be written; others as `build`.
    """
    from gemmgen import export as exporter
    from gemmgen.build import without_line_info

    if name is not None:
        exporter.check_name(name)  # before the compiler is started
    built = build(kernel, gpu, layout=layout, archs=lambda made: exporter.target_archs(made, archs))
    refused = [refusal.as_dict() for refusal in built.refused]
    binary, *others = [without_line_info(replace(built.source, arch=one.arch), one) for one in (built.binary, *built.others)]
    return exporter.export(built.plan, built.source, binary, Path(directory), others=others, name=name, force=force, refused=refused)


def library(
    source: str | os.PathLike[str] | Mapping[str, Any] | LoadedLibrary, directory: str | os.PathLike[str], *, force: bool = False,
    progress: Watcher = NOBODY,
) -> Library:
    """Write a library of kernels behind one C interface, which another project builds with a C compiler; all of it, or nothing.

    Args:
        source: a LIB.toml, a dictionary of its sections, or what `load_library` gave.
        force: put the files into a folder that holds others.

    Raises:
        SpecError, UnknownName, InfeasibleSpec: the file, or what it names, will not do, or a GPU and layout has no kernel.
        BuildError, ResourceError: the compiler is missing, or refuses too many kernels.
        GemmgenError: the folder holds something else, or cannot be written.
    """
    from gemmgen.library import write
    from gemmgen.library.made import made

    loaded = load_library(source)
    found = made(loaded, progress.step)
    write(found, Path(directory), force=force)
    return found


def load_library(source: str | os.PathLike[str] | Mapping[str, Any] | LoadedLibrary) -> LoadedLibrary:
    """A LIB.toml, checked.

    Raises:
        SpecError, UnknownName: the file, a value in it, or a file that it names is not acceptable.
    """
    from gemmgen.library import file

    if isinstance(source, file.LoadedLibrary):
        return source
    return file.library_from(source) if isinstance(source, Mapping) else file.load_library(Path(source))


def check_affordable(size: tuple[int, int, int], kind: str, whole: bool = True) -> None:
    """Whether a product is one that this machine can check.

    Args:
        size: (m, n, k).
        kind: of the device.
        whole: whether all blocks of C are computed.

    Raises:
        SpecError: its matrices do not fit the memory, or emulating it would take hours.
    """
    m, n, k = size
    shown = f"{m} x {n} x {k}"
    held, memory = 12 * (m * k + k * n) + 28 * m * n, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if held > memory:
        raise SpecError("--m, --n, --k", "are too large for this machine's memory", got=shown,
                        needs=f"{held / 1e9:.3g} GB, for the matrices and their check in FP64", has=f"{memory / 1e9:.3g} GB",
                        remedy="smaller --m, --n, --k or matrices")
    if whole and kind == "emulator" and m * n * k > MOST_EMULATED:
        raise SpecError("--m, --n, --k", "are too large to be emulated", got=shown, needs="m n k of at most 2^36, which take hours",
                        remedy="leave --whole out, smaller --m, --n, --k or matrices, or a GPU")
