"""A CUDA GPU as what multiplies: levels are built kernels, errors are theirs, times are measured side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from gemmgen import timing
from gemmgen.build import Built, first_that_builds
from gemmgen.errors import BuildError, DeviceError, ResourceError
from gemmgen.run import why_not
from gemmgen.run.here import described
from gemmgen.timing import products
from gemmgen.workshop.programs.program import in_fp64
from gemmgen.workshop.tune.precisions import Level
from gemmgen.workshop.programs.program import Gemm
from gemmgen.workshop.tune.walk import Choice

ROUNDS, SLICE_MS, WARM_UP_SECONDS = 9, 10.0, 0.5


class Gpu:
    """The GPU that is here.

    Args:
        levels: those to build.
        progress: is told what is done.

    Attributes:
        levels: with the plans that the compiler accepted.
        left_out: why shapes of a level, or levels, are left out.

    Raises:
        DeviceError: no GPU is here, or it does not run their kernels.
        BuildError: the compiler is missing.
    """

    kind = "cuda"
    errors = "of the built kernels, on the GPU"
    times = "measured on the GPU, interleaved, split passes included; inputs uniform in [-1, 1], beta = 0"
    memory_bytes = 24 << 30

    def __init__(self, levels: Sequence[Level], progress: Callable[[str], None] = lambda text: None):
        reason = why_not(next(iter(levels[0].plans.values())))
        if reason is not None:
            raise reason
        self.xp, self.name = products.arrays(), timing.device_name()
        self._progress = progress
        self._built, self.left_out = _built(levels, progress)
        self.levels = tuple(
            replace(level, plans={shape: self._built[level.name, shape].plan for shape in level.plans if (level.name, shape) in self._built})
            for level in levels if any(name == level.name for name, _ in self._built)
        )
        self._multipliers: dict[Any, products.Multiplier] = {}
        self._contenders: dict[Any, dict[str, timing.Contender]] = {}
        self.sgemm_seconds = inf

    def array(self, x: np.ndarray) -> Any:
        return self.xp.asarray(x)

    def host(self, x: Any) -> np.ndarray:
        return self.xp.asnumpy(x)

    def exact(self, gemm: Gemm, a: Any, b: Any, c: Any | None) -> Any:
        return in_fp64(gemm, a, b, c)

    def product(self, gemm: Gemm, level: Level, a: Any, b: Any, c: Any | None) -> Any:
        key = level.name, gemm.shape
        if key not in self._multipliers:
            self._multipliers[key] = products.Multiplier(self._built[key])
        return self._multipliers[key](a, b, c, gemm.alpha, gemm.beta)

    def seconds(self, gemms: Sequence[Gemm], levels: Sequence[Level]) -> list[list[float]]:
        measured = {}
        shapes = tuple(dict.fromkeys(gemm.shape for gemm in gemms))
        for number, shape in enumerate(shapes, 1):
            self._progress(f"time {shape[0]}x{shape[1]}x{shape[2]} {shape[3]} ({number} of {len(shapes)})")
            kernels = {level.name: self._built[level.name, shape] for level in levels if (level.name, shape) in self._built}
            self._contenders[shape] = products.contenders(shape[:3], kernels)
            measured[shape] = products.raced(self._contenders[shape], rounds=ROUNDS, slice_ms=SLICE_MS, warm_up=WARM_UP_SECONDS)
        self.sgemm_seconds = sum(measured[gemm.shape][products.SGEMM] for gemm in gemms)
        return [[measured[gemm.shape].get(level.name, inf) for level in levels] for gemm in gemms]

    def together(self, gemms: Sequence[Gemm], levels: Sequence[Level], choices: Sequence[Choice]) -> dict[Choice | None, float]:
        """Seconds of all GEMMs one after the other, of each choice and, under None, of cuBLAS SGEMM, in one race; after `seconds`.

        Raises:
            DeviceError: a launch failed.
        """
        self._progress("time whole programs")
        names = {choice: " ".join(levels[level].name for level in choice) for choice in choices}
        chains = {
            name: products.chain(name, [self._contenders[gemm.shape][levels[level].name] for gemm, level in zip(gemms, choice)])
            for choice, name in names.items()
        }
        chains[products.SGEMM] = products.chain(products.SGEMM, [self._contenders[gemm.shape][products.SGEMM] for gemm in gemms])
        measured = products.raced(chains, rounds=ROUNDS, slice_ms=3 * SLICE_MS, warm_up=WARM_UP_SECONDS)
        return {**{choice: measured[name] for choice, name in names.items()}, None: measured[products.SGEMM]}


def _built(levels: Sequence[Level], progress: Callable[[str], None]) -> tuple[dict[Any, Built], tuple[str, ...]]:
    """Kernels by (level, shape), compiled side by side, and why others are none."""
    wanted = {(level.name, shape): spec for level in levels for shape, spec in level.specs.items() if shape in level.plans}
    def one(key: Any) -> Built | ResourceError | BuildError:
        try:
            return first_that_builds(wanted[key])
        except (ResourceError, BuildError) as error:
            return error

    with ThreadPoolExecutor(min(16, os.cpu_count() or 1, len(wanted))) as pool:  # the compiler runs outside the interpreter's lock
        results, made = pool.map(one, wanted), {}
        for number, key in enumerate(wanted, 1):
            progress(f"compile kernel {number} of {len(wanted)}")
            made[key] = next(results)
    refused = [error for error in made.values() if not isinstance(error, Built)]
    if len(refused) == len(made):
        raise refused[0]
    return ({key: built for key, built in made.items() if isinstance(built, Built)},
            tuple(f"{key[0]}: {error.problem}" for key, error in made.items() if not isinstance(error, Built)))


def gpu_here() -> str | None:
    """The catalog's name of the GPU that is here; None where none is, or none that the catalog knows."""
    from gemmgen.catalog.gpu import GPUS

    fitting = [row for row in GPUS.rows() if row.maker.checked.timed and why_not(row) is None]
    if not fitting:
        return None
    try:
        return described(timing.device_name(), fitting).name
    except DeviceError:
        return None
