"""The configuration tuner (MixPert 3.4): which precision each GEMM of a program may have, for an error of its output.

    from gemmgen.workshop import tune

    tuned = tune.tune(tune.recorded(function, inputs), 1e-5, gpu="h100")
    tuned = tune.tune("my_program.py", 1e-5, gpu="h100")
    print(tuned.levels_of(tuned.choice), tuned.error(tuned.choice))

    tune.tune(4096, 4096, 4096, accuracy="fp32", budget="2 min")     # one product: `gemmgen.workshop.explore.product`

A program is profiled: the time of each GEMM at each level, and the error of the final output where that GEMM alone is at
that level. Then the search walks (`gemmgen.workshop.tune.walk`), and every combination that it takes was run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from numbers import Integral
from typing import TYPE_CHECKING, Any, overload

from gemmgen.errors import DeviceError, SpecError
from gemmgen.shown import Shown
from gemmgen.workshop.tune.engine import Engine, Simulation, Timed
from gemmgen.workshop.tune.precisions import USUAL, YARDSTICK, Level, levels_for
from gemmgen.workshop.programs.program import Gemm, Program
from gemmgen.workshop.programs.recorded import Recorded, load_program, recorded
from gemmgen.workshop.tune.runs import EXACT, Runs
from gemmgen.workshop.tune.walk import Choice, Found, Question, search

if TYPE_CHECKING:
    from gemmgen.workshop.explore.product import TunedProduct
    from gemmgen.workshop.explore.running import Progress

__all__ = [
    "DEVICES", "USUAL", "Gemm", "Level", "Profile", "Program", "Recorded", "Tuned", "check_threshold", "load_program", "profile", "recorded",
    "tune", "tuned_program",
]

SGEMM = "cublas-sgemm"
DEVICES = ("auto", "cuda", "model", "emulator")

@dataclass(frozen=True, repr=False)
class Tuned(Shown):
    """What a tuner found.

    Attributes:
        program: what was tuned.
        gpu: the catalog's name.
        device, errors, times: what multiplied, and how errors and times came about.
        levels: from the cheapest on; choices are places in it.
        left_out: schemes that are no levels here, and why.
        question: the profile: seconds and errors by GEMM and level, and the threshold.
        found: the search's answer.
        uniform: (level, seconds, error) of each level that every GEMM can have.
        sgemm_seconds: of cuBLAS SGEMM for all GEMMs, where it was measured.
        together: measured seconds of all GEMMs one after the other, by `chosen`, `greedy`, `highest`, `exhaustive` and cublas-sgemm;
            empty where nothing was measured.
        runs: of the program, beside the profile's.
    """

    program: Program
    gpu: str
    device: str
    errors: str
    times: str
    levels: tuple[Level, ...]
    left_out: tuple[str, ...]
    question: Question
    found: Found
    uniform: tuple[tuple[str, float, float], ...]
    sgemm_seconds: float | None
    together: Mapping[str, float]
    runs: int

    def _told(self) -> dict[str, object]:
        found = self.choice
        chosen = {"seconds": self.seconds(found), "error": self.error(found), **self.levels_of(found)} if found else {"chosen": "no level meets the threshold"}
        return {"program": self.program.name, "gpu": self.gpu, "threshold": self.question.threshold, **chosen}

    @property
    def choice(self) -> Choice | None:
        """What is recommended; None where no level meets the threshold."""
        return self.found.choice

    @property
    def choices(self) -> dict[str, Choice]:
        """Those that reports tell, by name."""
        walk, whole = self.found.walk, self.found.whole
        every = {"chosen": self.choice, "greedy": walk.choice, "highest": walk.highest, "exhaustive": whole.choice if whole else None}
        return {name: choice for name, choice in every.items() if choice is not None}

    def levels_of(self, choice: Choice) -> dict[str, str]:
        """The level of each GEMM, by their names."""
        return {gemm.name: self.levels[level].name for gemm, level in zip(self.program.gemms, choice)}

    def error(self, choice: Choice) -> float:
        """The output's, ||X - X*||_F / ||X*||_F against FP64."""
        return self.question.error(choice)

    def seconds(self, choice: Choice) -> float:
        """Of all GEMMs together."""
        return self.question.time(choice)

    @property
    def fp32_seconds(self) -> float | None:
        """Of all GEMMs in plain FP32, where that is among the levels."""
        return next((seconds for name, seconds, _ in self.uniform if name == YARDSTICK), None)

    def as_dict(self) -> dict[str, Any]:
        """For `--json`: Inf stands where a level cannot be had."""
        question, whole = self.question, self.found.whole
        return {
            "program": self.program.name, "title": self.program.title, "output": self.program.output, "gpu": self.gpu, "device": self.device,
            "errors": self.errors, "times": self.times, "threshold": question.threshold, "levels": [level.name for level in self.levels],
            "left_out": list(self.left_out), "floor": question.floor, "runs": self.runs, "meets": self.choice is not None,
            "gemms": [
                {
                    "name": gemm.name, "m": gemm.m, "n": gemm.n, "k": gemm.k, "op": gemm.op, "alpha": gemm.alpha, "beta": gemm.beta,
                    "fed_by": [self.program.gemms[feeder].name for feeder in gemm.fed_by],
                    "level": None if self.choice is None else self.levels[self.choice[at]].name,
                    "seconds": {level.name: question.seconds[at][i] for i, level in enumerate(self.levels)},
                    "alone": {level.name: question.alone[at][i] for i, level in enumerate(self.levels)},
                }
                for at, gemm in enumerate(self.program.gemms)
            ],
            "choices": {
                name: {"levels": self.levels_of(choice), "seconds": self.seconds(choice), "error": self.error(choice)}
                for name, choice in self.choices.items()
            },
            "steps": [
                {
                    "lowered": self.program.gemms[step.gemm].name, "raised": None if step.raised is None else self.program.gemms[step.raised].name,
                    "levels": self.levels_of(step.choice), "seconds": step.seconds, "error": step.error, "kept": step.kept,
                }
                for step in self.found.walk.steps
            ],
            "uniform": [{"level": name, "seconds": seconds, "error": error} for name, seconds, error in self.uniform],
            "combinations": None if whole is None else {"all": whole.combinations, "run": whole.run},
            "sgemm_seconds": self.sgemm_seconds, "together": dict(self.together),
        }


@dataclass(frozen=True)
class Profile:
    """A program's profile on a GPU, from which it is tuned for any threshold.

    Attributes:
        seconds: [gemm][level], Inf where a level cannot be had.
        alone, floor: errors of the output as `search.Question` has them.
        uniform: as `Tuned` has it.
    """

    program: Program
    gpu: str
    engine: Engine
    levels: tuple[Level, ...]
    left_out: tuple[str, ...]
    seconds: list[list[float]]
    alone: list[list[float]]
    floor: float
    uniform: tuple[tuple[str, float, float], ...]
    runs: Runs

    def tuned(self, threshold: float, *, exhaustive: bool = True, progress: Callable[[str], None] = lambda text: None) -> Tuned:
        """Choose a level for each GEMM; arguments as `tune`.

        Raises:
            SpecError: the threshold is no positive number.
        """
        check_threshold(threshold)
        program, engine, before = self.program, self.engine, self.runs.count
        question = Question(self.seconds, self.alone, self.floor, [gemm.fed_by for gemm in program.gemms], threshold, self.runs.error)
        progress(f"search for {threshold:g}")
        found = search(question, exhaustive)
        return Tuned(
            program, self.gpu, engine.name, engine.errors, engine.times, self.levels, self.left_out, question, found, self.uniform,
            engine.sgemm_seconds if isinstance(engine, Timed) else None, {}, self.runs.count - before,
        )

    def raced(self, tuned: Sequence[Tuned]) -> list[Tuned]:
        """The same with the times of whole programs, of all choices of all of them in one race; as they are where nothing measures.

        Raises:
            DeviceError: a launch failed.
        """
        engine, choices = self.engine, dict.fromkeys(choice for one in tuned for choice in one.choices.values())
        if not isinstance(engine, Timed) or not choices:
            return list(tuned)
        measured = engine.together(self.program.gemms, self.levels, list(choices))
        return [
            replace(one, together={name: measured[choice] for name, choice in one.choices.items()} | {SGEMM: measured[None]}) for one in tuned
        ]


def check_threshold(threshold: float) -> None:
    """Raises: SpecError: it is no positive number."""
    if not (isfinite(threshold) and threshold > 0):
        raise SpecError("--threshold", "is out of range", got=threshold, needs="a positive number, as 1e-6", remedy="--threshold 1e-6")


def profile(
    program: Program | str | os.PathLike[str], *, gpu: str | None = None, device: str = "auto", levels: Sequence[str] = (),
    progress: Callable[[str], None] = lambda text: None,
) -> Profile:
    """Time each GEMM at each level, and run the program with one GEMM at a level and the others exact.

    Args:
        program: what `load_program` or `recorded` gave, or a .py file.
        gpu: a name under specs/gpus or a .toml file; None for the GPU that is here.
        device: `cuda` measures on the GPU; `model` predicts times and simulates errors in NumPy; `emulator` predicts times and
            computes errors by the model of the matrix unit; `auto` is cuda where a GPU runs the kernels, else model.
        levels: schemes by name or .toml files; none for the usual.

    Raises:
        SpecError, UnknownName: an argument or the program is not acceptable.
        InfeasibleSpec: the GPU serves no level for a GEMM.
        DeviceError, BuildError: the asked GPU or the compiler is not there.
    """
    if device not in DEVICES:
        raise SpecError("--device", "is unknown", got=device, needs=", ".join(DEVICES), remedy="--device auto")
    if isinstance(program, str | os.PathLike):
        program = load_program(program)
    gpu = gpu or _here(device)
    made, left_out = levels_for(program.gemms, gpu, levels, progress=progress)
    engine, made, refused = _engine(device, gpu, made, progress)
    seconds = engine.seconds(program.gemms, made)
    progress("run in FP64")
    runs = Runs(program, made, engine)
    count = len(program.gemms)
    alone = []
    for at, gemm in enumerate(program.gemms):
        progress(f"profile {gemm.name} ({at + 1} of {count})")
        alone.append([runs.alone(at, level) if isfinite(seconds[at][level]) else inf for level in range(len(made))])
    every = [(i,) * count for i in range(len(made)) if all(isfinite(own[i]) for own in seconds)]
    uniform = tuple((made[choice[0]].name, sum(own[choice[0]] for own in seconds), runs.error(choice)) for choice in every)
    return Profile(program, gpu, engine, made, (*left_out, *refused), seconds, alone, runs.error((EXACT,) * count), uniform, runs)


@overload
def tune(
    program: Program | str | os.PathLike[str], threshold: float, *, gpu: str | None = None, device: str = "auto", levels: Sequence[str] = (),
    exhaustive: bool = True, progress: Callable[[str], None] = lambda text: None,
) -> Tuned: ...


@overload
def tune(
    m: int, n: int, k: int, *, accuracy: str | float = "fp32", budget: str | float = "2 min", gpu: str | None = None, layout: str = "nn",
    store: str | os.PathLike[str] | None = None, again: bool = False, workers: int | None = None,
    progress: Callable[[Progress], None] = lambda progress: None,
) -> TunedProduct: ...


def tune(*what: Any, **how: Any) -> Tuned | TunedProduct:
    """Tune a product, given as its three extents, or a program.

    `tune(m, n, k, accuracy="fp32", budget="2 min")` finds the fastest kernel of one product and keeps the answer for the next call; arguments and errors as
    `gemmgen.workshop.explore.product.tuned`. `tune(program, threshold)` chooses a level for each GEMM of a program; as `tuned_program`.

    Raises:
        SpecError: what is given is neither; others as these functions.
    """
    if not what and not {"m", "program"} & how.keys() or len(what) > 2 and not all(isinstance(one, Integral) for one in what):
        raise SpecError("tune", "is asked for neither a product nor a program", got=", ".join(map(repr, what)) or "nothing",
                        needs="three integers m, n, k; or a program and a threshold", remedy='tune(4096, 4096, 4096), or tune("my_program.py", 1e-5)')
    if what and isinstance(what[0], Integral) or not what and "m" in how:
        from gemmgen.workshop.explore.product import tuned

        return tuned(*what, **how)
    return tuned_program(*what, **how)


def tuned_program(
    program: Program | str | os.PathLike[str], threshold: float, *, gpu: str | None = None, device: str = "auto", levels: Sequence[str] = (),
    exhaustive: bool = True, progress: Callable[[str], None] = lambda text: None,
) -> Tuned:
    """Choose a level for each GEMM so that the output's error is at most `threshold`.

    Args:
        threshold: of ||X - X*||_F / ||X*||_F of the output, X* in FP64 (MixPert eq. 10).
        exhaustive: whether programs of up to four GEMMs are also searched whole.
        program, gpu, device, levels: as `profile`.

    Raises:
        SpecError: the threshold is no positive number; others as `profile`.
    """
    check_threshold(threshold)
    profiled = profile(program, gpu=gpu, device=device, levels=levels, progress=progress)
    return profiled.raced([profiled.tuned(threshold, exhaustive=exhaustive, progress=progress)])[0]


def _here(device: str) -> str:
    """The GPU of this machine, for who named none.

    Raises:
        SpecError: there is none.
    """
    from gemmgen.workshop.tune.on_gpu import gpu_here

    here = gpu_here() if device in ("auto", "cuda") else None
    if here is None:
        raise SpecError("--gpu", "is not given", needs="a GPU to tune for, since none is here", remedy="--gpu h100, or see gemmgen list gpus")
    return here


def _engine(device: str, gpu: str, levels: tuple[Level, ...], progress: Callable[[str], None]) -> tuple[Engine, tuple[Level, ...], tuple[str, ...]]:
    """What multiplies, the levels that it serves, and why others are left out."""
    from gemmgen.run import why_not

    plan = next(iter(levels[0].plans.values()))
    if device == "cuda" and not plan.gpu.maker.checked.timed:
        raise DeviceError("--device cuda", "runs no kernels of this vendor", got=gpu, needs="a GPU of NVIDIA's", remedy="--device model")
    if device == "cuda" or device == "auto" and plan.gpu.maker.checked.timed and why_not(plan) is None:
        from gemmgen.workshop.tune.on_gpu import Gpu

        opened = Gpu(levels, progress)
        return opened, opened.levels, opened.left_out
    return Simulation(gpu, "emulator" if device == "emulator" else "model"), levels, ()
