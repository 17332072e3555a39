"""The road from a declared spec to a report, for the verbs and the demo."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmgen.cli.output import Progress

if TYPE_CHECKING:
    from gemmgen.build import Binary
    from gemmgen.plan import Plan
    from gemmgen.render import Source
    from gemmgen.run import Device
    from gemmgen.spec import LoadedSpec
    from gemmgen.verify import Report


@dataclass(frozen=True)
class Built:
    """A kernel, ready to run."""

    plan: Plan
    source: Source
    binary: Binary


def planned(path: str | Path) -> tuple[Plan, Source]:
    """A spec file's plan and source."""
    from gemmgen.render import render
    from gemmgen.solve import solve
    from gemmgen.spec import load

    plan = solve(load(path))
    return plan, render(plan)


def built(loaded: LoadedSpec, progress: Progress) -> Built:
    """Decide, render and compile."""
    progress.step("decide")
    from gemmgen.build import build
    from gemmgen.render import render
    from gemmgen.solve import solve

    plan = solve(loaded)
    source = render(plan)
    progress.step("compile")
    return Built(plan, source, build(source))


def opened(kernel: Built, kind: str, progress: Progress) -> Device:
    """The device to run `kernel` on; it tells `progress` of its blocks where it can."""
    from gemmgen.run import open_device

    device: Any = open_device(kind, kernel.plan, kernel.source, kernel.binary)
    if device.kind == "emulator":
        device.progress = progress.blocks
    return device


def verified(
    kernel: Built, kind: str, progress: Progress, *, size: tuple[int | None, int | None, int | None] = (None, None, None),
    **matrices: Any,
) -> Report:
    """Every check, on the device asked for.

    Args:
        size: (m, n, k) of the headline product; None is the default, each for itself.
        matrices: the user's own `a` and `b`, float32.
    """
    from gemmgen.verify import default_size, verify

    device = opened(kernel, kind, progress)
    usual = default_size(kernel.plan, device.kind)
    try:
        return verify(
            kernel.plan, kernel.source, kernel.binary, device, progress=progress.step,
            size=tuple(asked or default for asked, default in zip(size, usual)), **matrices,
        )
    finally:
        device.release()
        progress.clear()
