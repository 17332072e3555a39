"""A level for each product of an application, as `gemmgen tune` chooses them (MixPert 3.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gemmgen.errors import SpecError
from gemmgen.workshop import tune
from gemmgen.workshop.apps.matmul import Matmul, Shape
from gemmgen.workshop.apps.problem import App, Problem


class Recording(Matmul):
    """A matmul over the one that `gemmgen.workshop.tune.recorded` hands a function."""

    def __init__(self, called: Callable[..., Any]):
        super().__init__("recorded")
        self._called = called

    def __call__(self, a: Any, b: Any, c: Any | None = None, **how: Any) -> Any:
        self.dtype = a.dtype  # FP64 where the tuner computes the exact result
        return super().__call__(a, b, c, **how)

    def _into(self, out: Any, a: Any, b: Any, shape: Shape, alpha: float, beta: float) -> None:
        c = None if beta == 0.0 else np.ascontiguousarray(out)
        out[...] = self._called(np.ascontiguousarray(a), np.ascontiguousarray(b), c, op=shape.op, alpha=alpha, beta=None if c is None else beta)


def function_of(problem: Problem) -> Callable[..., np.ndarray]:
    """A problem's run as `gemmgen.workshop.tune.recorded` takes functions: (multiplication, inputs) -> the output."""
    output = problem.output
    assert output is not None

    def function(called: Callable[..., Any], inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.ascontiguousarray(problem.run(Recording(called), inputs)[output])

    return function


def chosen_levels(
    app: App, problem: Problem, threshold: float, *, gpu: str | None, on_gpu: bool, progress: Callable[[str], None] = lambda text: None,
) -> dict[str, str]:
    """The level of each call of a run, in order: the fastest with which the problem's output has at most that relative error.

    Raises:
        SpecError: its calls are not the same in every run, or no level meets the threshold; others as `gemmgen.workshop.tune.tune`.
    """
    if problem.output is None:
        raise SpecError("--threshold", f"cannot be asked of {app.name}", needs="an application whose result is one matrix, by the same products in every run",
                        remedy="--by with a scheme")

    program = tune.recorded(function_of(problem), problem.inputs, app.name, app.title)
    tuned = tune.tune(program, threshold, gpu=gpu or "a100", device="cuda" if on_gpu else "emulator", exhaustive=False, progress=progress)
    if tuned.choice is None:
        raise SpecError("--threshold", "is met by no level", got=threshold, has=f"{tuned.error(tuned.found.walk.highest):.3g} of the most accurate",
                        needs="a larger error", remedy="--threshold 1e-5")
    return tuned.levels_of(tuned.choice)
