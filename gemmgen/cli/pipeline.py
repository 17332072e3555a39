"""The road from a declared spec to a report, for the verbs and the demo."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmgen.cli.output import Progress
from gemmgen.errors import GemmgenError, SpecError

if TYPE_CHECKING:
    from gemmgen.bench import Kernel
    from gemmgen.build import Built, Planned
    from gemmgen.run import Device
    from gemmgen.spec import LoadedSpec
    from gemmgen.verify import Report, Require


MOST_EMULATED = 1 << 36
"""Multiply-adds of a product: the emulator does some 10^6 to 10^7 a second."""


def planned(path: str | Path, gpu: str | None = None) -> Planned:
    """A spec file's plan and source, for `gpu` instead of its own where one is given; nothing is compiled."""
    from gemmgen.build import first_not_refused
    from gemmgen.spec import load

    return first_not_refused(load(path, gpu))


def built(loaded: LoadedSpec, progress: Progress) -> Built:
    """Decide, render and compile."""
    from gemmgen.build import first_that_builds

    return first_that_builds(loaded, progress=progress.step)


def opened(kernel: Built, kind: str, progress: Progress) -> Device:
    """The device to run `kernel` on; it tells `progress` of its blocks where it can."""
    from gemmgen.run import open_device

    device: Any = open_device(kind, kernel.plan, kernel.source, kernel.binary)
    if device.kind == "emulator":
        device.progress = progress.blocks
    return device


def verified(
    kernel: Built, kind: str, progress: Progress, *, size: tuple[int | None, int | None, int | None] = (None, None, None),
    require: Require = "scheme", **matrices: Any,
) -> Report:
    """Every check, on the device asked for; that of resources alone where nothing can run the kernel.

    Args:
        size: (m, n, k) of the headline product; None is the default, each for itself.
        require: `scheme`, or `fp32` where its errors have to be FP32's.
        matrices: the user's own `a` and `b`, float32.
    """
    from gemmgen.errors import NotEmulated
    from gemmgen.verify import default_size, resources_only, verify

    try:
        device = opened(kernel, kind, progress)
    except NotEmulated as error:
        progress.clear()
        return resources_only(kernel.plan, kernel.source, kernel.binary, error.problem)
    usual = default_size(kernel.plan, device.kind)
    size = tuple(asked or default for asked, default in zip(size, usual))
    try:
        check_affordable(matrices["a"].shape[:1] + matrices["b"].shape[::-1] if matrices else size, device.kind)
        return verify(kernel.plan, kernel.source, kernel.binary, device, progress=progress.step, size=size, require=require, **matrices)
    finally:
        device.release()
        progress.clear()


def check_affordable(size: tuple[int, int, int], kind: str) -> None:
    """Whether a product is one that this machine can check.

    Args:
        size: (m, n, k).
        kind: of the device.

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
    if kind == "emulator" and m * n * k > MOST_EMULATED:
        raise SpecError("--m, --n, --k", "are too large to be emulated", got=shown, needs="m n k of at most 2^36, which take hours",
                        remedy="smaller --m, --n, --k or matrices, or a GPU")


def recorded(kernel: Built, report: Report, progress: Progress) -> dict[str, Any]:
    """The record of an AMD kernel's report, with what the matrix unit it was made on returns."""
    from gemmgen.verify.record import record

    progress.step("matrix unit")
    device: Any = opened(kernel, report.device_kind, progress)
    try:
        return record(kernel.plan, kernel.binary, report, device.facts())
    finally:
        device.release()
        progress.clear()


def solved_for(loaded: LoadedSpec, size: tuple[int, int, int]) -> LoadedSpec:
    """The same spec with hints for another size."""
    problem = loaded.spec.problem.model_copy(update=dict(zip("mnk", size)))
    return loaded.model_copy(update={"spec": loaded.spec.model_copy(update={"problem": problem})})


def racers(
    specs: Sequence[Path], sizes: Sequence[tuple[int, int, int]], each_size: bool, progress: Progress, gpu: str | None = None,
) -> tuple[list[Kernel], list[str]]:
    """(what specs give to time, what the compiler refused and why), compiled side by side.

    Args:
        gpu: for all of them, instead of their own.
        each_size: solve each spec once more for every size, for a kernel that runs only there.

    Raises:
        GemmgenError: a spec cannot be read, or none of the kernels can be built.
    """
    from gemmgen.bench import Kernel, by
    from gemmgen.build import first_that_builds
    from gemmgen.spec import load

    stems = [path.stem for path in specs]
    names = [path.stem if stems.count(path.stem) == 1 else str(path) for path in specs]
    jobs = [
        (name, solved_for(loaded, size) if size else loaded, size)
        for name, loaded in zip(names, (load(path, gpu) for path in specs)) for size in (sizes if each_size else (None,))
    ]

    def prepared(job: tuple[str, LoadedSpec, tuple[int, int, int] | None]) -> Built | GemmgenError:
        try:
            return first_that_builds(job[1])
        except GemmgenError as error:
            return error

    progress.step(f"decide and compile {len(jobs)} kernel{'s' * (len(jobs) > 1)}")
    with ThreadPoolExecutor(min(16, os.cpu_count() or 1, len(jobs))) as pool:  # the compiler runs outside the interpreter's lock
        made = list(pool.map(prepared, jobs))
    kernels, notes, errors = [], [], []
    for (name, _, size), one in zip(jobs, made):
        what = f"{name} for {by(size)}" if size else name
        if isinstance(one, GemmgenError):
            errors.append(one)
            notes.append(f"{what}: not built: {one.where}: {one.problem}")
        else:
            kernels.append(Kernel(name, one.plan, one.source, one.binary, size))
            notes += [f"{what}: passed over: {refusal}" for refusal in one.refused]
    if not kernels:
        raise errors[0]
    return kernels, notes
