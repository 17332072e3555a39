"""A level for each product of an application, as `gemmgen tune` chooses them (MixPert 3.4)."""

from __future__ import annotations

from collections.abc import Callable

from gemmgen.errors import SpecError
from gemmgen.workshop import tune
from gemmgen.workshop.apps.problem import App, Problem


def chosen_levels(
    app: App, problem: Problem, threshold: float, *, gpu: str | None, on_gpu: bool, progress: Callable[[str], None] = lambda text: None,
) -> dict[str, str]:
    """The level of each call of a run, in order: the fastest with which the problem's output has at most that relative error.

    Raises:
        SpecError: its calls are not the same in every run, or no level meets the threshold; others as `gemmgen.workshop.tune.tune`.
    """
    program = problem.program(app.name, app.title, "--threshold")
    tuned = tune.tune(program, threshold, gpu=gpu or "a100", device="cuda" if on_gpu else "emulator", exhaustive=False, progress=progress)
    if tuned.choice is None:
        raise SpecError("--threshold", "is met by no level", got=threshold, has=f"{tuned.error(tuned.found.walk.highest):.3g} of the most accurate",
                        needs="a larger error", remedy="--threshold 1e-5")
    return tuned.levels_of(tuned.choice)
