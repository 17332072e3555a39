"""An application run by several who multiply: what each costs on a GPU, in turns, and what comes out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

import numpy as np

from gemmgen.catalog.element import F32
from gemmgen.errors import SpecError
from gemmgen.workshop.apps.matmul import ByCall, InNumpy, Matmul, Shape, gpu_here, multiplier
from gemmgen.workshop.apps.problem import App, Figures, Problem

ROUNDS, WARM_UPS = 7, 2
USUAL = {"f32": "ootomo", "f64": "as-fp64"}
"""Who multiplies elements of a type where nobody is named."""
OF_PRODUCTS = "_into", "_batch", "_syrk", "_solve"
"""The methods of a `Matmul` whose time is that of products, solves among them."""


@dataclass(frozen=True)
class Row:
    """What one who multiplies made of an application.

    Attributes:
        by: who multiplies.
        kernels: schemes and policies of the kernels that were built for it, as `scaled by wgmma`.
        seconds: of a run on a GPU, the median of all rounds; None where nothing was timed.
        products: seconds of that in products, from one run in which each was timed by itself; None of a vendor's whole program, too.
        figures: what a user looks at.
    """

    by: str
    seconds: float | None
    products: float | None
    figures: Figures
    kernels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """An application's table.

    Attributes:
        device: what ran it; sizes, data: what of.
        rows: each who multiplied, the reference first: the vendor's on a GPU, NumPy's elsewhere; then whole programs of the vendor's.
        beside: figures of other programs.
        calls: the products of one run and how often.
        levels: of each call, where a threshold asked for them.
        type: of the elements.
    """

    app: App
    device: str
    sizes: Mapping[str, int]
    data: str
    rows: tuple[Row, ...]
    beside: Mapping[str, Figures]
    calls: Mapping[Shape, int]
    notes: tuple[str, ...] = ()
    levels: Mapping[str, str] | None = None
    type: str = F32.name

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "app": self.app.name, "title": self.app.title, "papers": self.app.papers, "device": self.device, "type": self.type,
            "sizes": dict(self.sizes), "data": self.data,
            "rows": [asdict(row) for row in self.rows], "beside": {name: dict(figures) for name, figures in self.beside.items()},
            "products": [{**shape._asdict(), "times": times} for shape, times in self.calls.items()], "notes": list(self.notes),
            "levels": None if self.levels is None else dict(self.levels),
        }


def run(
    app: App, *, by: Sequence[str | Mapping[str, Any]] | None = None, sizes: Mapping[str, int] | None = None, data: str | None = None, device: str = "auto",
    gpu: str | None = None, rounds: int = ROUNDS, seed: int = 0, threshold: float | None = None, type: str | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Run an application, and where a CUDA GPU does so, time it.

    Args:
        by: who multiplies, as `gemmgen.workshop.apps.matmul.multiplier` takes it; None for USUAL's. The vendor's product runs beside them in any case.
        sizes: in place of the application's own.
        data: where its data come from.
        rounds: of the race on a GPU.
        type: of elements, one of the application's; None for its first.
        threshold: also choose a level for each call so that the error of what comes out is at most this (`gemmgen.workshop.tune`).

    Raises:
        SpecError, UnknownName, InfeasibleSpec, DeviceError, BuildError: an argument is not acceptable, or cannot be served here.
    """
    if rounds < 1:
        raise SpecError("--rounds", "is out of range", got=rounds, needs="1 or more", remedy="leave it out")
    on_gpu = device in ("auto", "cuda") and gpu_here() is not None
    chosen = app.sized(sizes or {}, small=not on_gpu)
    progress("data")
    source = app.sourced(data, small=not on_gpu)
    problem = app.make(chosen, source, seed)
    element = app.typed(type)
    who = [multiplier(one, device=device, gpu=gpu, type=element) for one in ([USUAL[element]] if by is None else by)]
    levels = None
    if threshold is not None:
        from gemmgen.workshop.apps.tuned import chosen_levels

        levels = chosen_levels(app, problem, threshold, gpu=gpu or gpu_here(), on_gpu=on_gpu, progress=progress)
        made = {level: multiplier(level, device=device, gpu=gpu) for level in dict.fromkeys(levels.values())}
        who.append(ByCall(f"levels for {threshold:g}", [made[level] for level in levels.values()]))
    who = [multiplier("vendor", device=device, type=element) if on_gpu else multiplier("numpy", type=element), *who]
    try:
        return replace(_raced(app, problem, chosen, source, who, on_gpu, rounds, levels, progress), type=element)
    finally:
        for one in who:
            one.release()


def _raced(
    app: App, problem: Problem, sizes: Mapping[str, int], data: str, who: Sequence[Matmul], on_gpu: bool, rounds: int, levels: Mapping[str, str] | None,
    progress: Callable[[str], None],
) -> Outcome:
    xp = who[0].xp
    exact = None
    if problem.has_exact:
        progress("FP64")
        in_fp64 = InNumpy("FP64", np.float64, xp)
        exact = _told(problem, in_fp64, {name: in_fp64.array(x) for name, x in problem.inputs.items()})
    inputs = {name: who[0].array(x) for name, x in problem.inputs.items()}
    figures: list[Figures] = []
    for number, one in enumerate(who, 1):
        progress(f"{one.name} ({number} of {len(who)})")
        figures.append(problem.judge(_told(problem, one, inputs), exact))
    programs = [(one.name, problem, one) for one in who] + [(name, replace(problem, run=run), who[0]) for name, run in problem.others.items()]
    calls, products = dict(who[0].calls), [None] * len(programs)  # type: Any
    seconds: list[Any] = list(products)
    for name, whole, one in programs[len(who) :]:
        progress(name)
        figures.append(problem.judge(_told(whole, one, inputs), exact))
    if on_gpu:
        progress("race")
        products[: len(who)] = [_of_products(problem, one, inputs) for one in who]
        seconds = _timed([program[1:] for program in programs], inputs, rounds)
    beside = problem.beside()
    kernels = [told(one) for one in who] + [()] * len(problem.others)
    rows = tuple(Row(name, *each) for (name, _, _), *each in zip(programs, seconds, products, figures, kernels))
    return Outcome(app, _device(who, on_gpu), sizes, data, rows, beside, calls, problem.notes, levels)


def told(matmul: Matmul) -> tuple[str, ...]:
    """Each kind of kernels that were built, once."""
    return tuple(dict.fromkeys(f"{one.plan.scheme.name} by {one.plan.fragment.policy}" for one in matmul.kernels))


def _told(problem: Problem, matmul: Matmul, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What a run by `matmul` tells, on the host."""
    told = problem.told(matmul.xp, problem.run(matmul, inputs), inputs)
    return {name: matmul.host(x) if hasattr(x, "shape") else x for name, x in told.items()}


def _device(who: Sequence[Matmul], on_gpu: bool) -> str:
    if on_gpu:
        from gemmgen import timing

        return timing.device_name()
    return next((one.device_name for one in who if one.device_name != Matmul.device_name), Matmul.device_name)


def _timed(programs: Sequence[tuple[Problem, Matmul]], inputs: Mapping[str, Any], rounds: int) -> list[float]:
    """Median seconds of a run of each program, in turns, in an order drawn anew for each round; from the program's first call to the GPU's last."""
    import random

    draw, found = random.Random(0), [[] for _ in programs]  # type: Any
    for turn in range(WARM_UPS + rounds):
        for at in draw.sample(range(len(programs)), len(programs)):
            seconds = _once(*programs[at], inputs)
            if turn >= WARM_UPS:
                found[at].append(seconds)
    return [median(one) for one in found]


def _once(problem: Problem, one: Matmul, inputs: Mapping[str, Any]) -> float:
    """Wall seconds of a run, of which nothing is left on the GPU before and after."""
    cuda = one.xp.cuda
    cuda.Device().synchronize()
    begin = time.perf_counter()
    problem.run(one, inputs)
    cuda.Device().synchronize()
    return time.perf_counter() - begin


def _of_products(problem: Problem, one: Matmul, inputs: Mapping[str, Any]) -> float:
    """Seconds between events around each product of a run, added up."""
    cuda, marks, inside = one.xp.cuda, [], []  # type: Any

    def marked(call: Callable[..., Any]) -> Callable[..., Any]:
        def inner(*args: Any, **options: Any) -> Any:
            if inside:  # one that is made of others
                return call(*args, **options)
            begin, end = cuda.Event(), cuda.Event()
            inside.append(call)
            begin.record()
            result = call(*args, **options)
            end.record()
            inside.clear()
            marks.append((begin, end))
            return result

        return inner

    plain = {name: getattr(one, name) for name in OF_PRODUCTS}
    try:
        for name, call in plain.items():
            setattr(one, name, marked(call))
        problem.run(one, inputs)
    finally:
        for name in plain:
            delattr(one, name)
    cuda.Device().synchronize()
    return sum(cuda.get_elapsed_time(*mark) for mark in marks) / 1e3
