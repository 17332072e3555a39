"""Chosen kernels timed at every shape, so that a choice of few is held against measurements alone: each shape one race, each time a row of a store."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from gemmgen import __version__, road
from gemmgen.build import Built
from gemmgen.errors import DeviceError, GemmgenError
from gemmgen.workshop.choose.few import Choice
from gemmgen.workshop.choose.shapes import Shape
from gemmgen.workshop.explore.rebuilt import Predictions, kernel_of, spec_of
from gemmgen.workshop.explore.trial_row import Row

ROUNDS, SLICE_MS = 3, 1.0
STUDY = "choose"


def timed(
    choice: Choice, gpu: str, shapes: Sequence[Shape], keep: Callable[[Row], None], *, seconds: float | None = None, rounds: int = ROUNDS,
    slice_ms: float = SLICE_MS, progress: Callable[[str], None] = lambda text: None,
) -> list[str]:
    """Race the chosen kernels of a GPU at each shape of their layout on the GPU here, until the time is up.

    Args:
        keep: is given each kernel's row at each shape.
        seconds: of all races; None for as long as they take.

    Returns:
        Notes: kernels that could not be built, shapes that the GPU refused or that there was no time for.

    Raises:
        DeviceError: no GPU is here that runs them.
    """
    from gemmgen.timing.environment import device_name, release_memory
    from gemmgen.workshop.bench.measure import require_timed

    rows = {kernel_of(row): row for at in choice.sets[gpu].kernels for row in (choice.costs[gpu].rows[at],)}
    with ThreadPoolExecutor() as pool:
        results, made = pool.map(_built, rows.values()), {}
        for number, name in enumerate(rows, 1):
            progress(f"compile kernel {number} of {len(rows)}")
            made[name] = next(results)
    notes = [f"{rows[name].kernel}: not built: {one.problem}" for name, one in made.items() if isinstance(one, GemmgenError)]
    built = {name: one for name, one in made.items() if not isinstance(one, GemmgenError)}
    for one in built.values():
        require_timed(one.plan, "gemmgen study choose --time")
    predictions, device, began = Predictions(), device_name(), time.perf_counter()
    for number, shape in enumerate(shapes):
        if seconds is not None and time.perf_counter() - began > seconds:
            return [*notes, f"no time was left for {len(shapes) - number} of {len(shapes)} shapes"]
        progress(f"{shape} ({number + 1} of {len(shapes)})")
        mine = {name: one for name, one in built.items() if one.plan.layout == shape.layout}
        try:
            taken = _raced(mine, shape.size, rounds, slice_ms)
        except DeviceError as error:
            notes.append(f"{shape}: {error.problem}: {error.got}")
            continue
        finally:
            release_memory()
        for name, found in taken.items():
            m, n, k = shape.size
            predicted = float(predictions.seconds(rows[name], np.array([shape.size]))[0])
            keep(replace(
                rows[name], study=STUDY, trial=f"{name} {shape}", verdict="timed", m=m, n=n, k=k, generator=__version__, device=device, data="U[-1, 1]",
                seconds=found, predicted_seconds=predicted, rounds=rounds, spread=None, reference_seconds=None, reason="", extra="{}",
            ))
    return notes


def _built(row: Row) -> Built | GemmgenError:
    try:
        return road.build(spec_of(row))
    except GemmgenError as error:
        return error


def _raced(built: Mapping[str, Built], size: tuple[int, int, int], rounds: int, slice_ms: float) -> dict[str, float]:
    """Median seconds of each kernel, in one race.

    Raises:
        DeviceError: the GPU refuses.
    """
    from gemmgen.timing.contender import generated
    from gemmgen.timing.inputs import Inputs
    from gemmgen.timing.products import raced

    inputs = Inputs(size)
    contenders = {name: generated(name, one.plan, one.source, one.binary, inputs) for name, one in built.items()}
    return raced(contenders, rounds=rounds, slice_ms=slice_ms, warm_up=0.0)
