"""The bench: which contenders run at which size, for how long, and what of them goes into the table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from gemmgen import timing
from gemmgen.build import Binary
from gemmgen.catalog.element import F32
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.input import INPUTS, Input
from gemmgen.errors import DeviceError, GemmgenError, SpecError, UnknownName
from gemmgen.plan import Plan
from gemmgen.render import Source
from gemmgen.timing import gemmul8
from gemmgen.timing.batches import NAMES, SUITES, Cell, DeviceBatch, Multiplier, prepared, rivals, suited
from gemmgen.timing.gemmul8 import Gemmul8
from gemmgen.timing.racing import Stopwatch
from gemmgen.workshop.bench.race_table import Table, by
from gemmgen.workshop.bench.statistics import DERIVED, F16, F16_THIRD, SGEMM, BatchRow, Row, Size, Timed, derived, rows_at

TRITON = {f"triton-{precision}": precision for precision in ("tf32x3", "bf16x6", "bf16x3", "ieee")}
BASELINES = (*timing.CUBLAS, *DERIVED, *TRITON)
USUAL = (SGEMM, "cublas-tf32", F16, F16_THIRD)
DATA = {"both": (-1.0, 1.0), "positive": (0.0, 1.0)}
"""What inputs are drawn from, uniformly: both signs, or one."""

WARM_UP_SECONDS = 2.0
RACE_SHARE = 0.8  # of a size's share of the time; the rest is for its inputs, its tuning and its errors


@dataclass(frozen=True)
class Kernel:
    """A built kernel to time.

    Attributes:
        name: in the table.
        size: the only size it is made for; None for every size.
    """

    name: str
    plan: Plan
    source: Source
    binary: Binary
    size: Size | None = None


# ---- choosing


def baselines(text: str) -> tuple[str, ...]:
    """`cublas-sgemm,triton-ieee` as names; an empty text is none.

    Raises:
        UnknownName: one is not known.
    """
    return names_of("--against", "baseline", text, BASELINES)


def names_of(option: str, kind: str, text: str, known: Iterable[str]) -> tuple[str, ...]:
    """An option's names between commas, each once.

    Raises:
        UnknownName: one is not known.
    """
    names = [name.strip() for name in text.split(",")] if text.strip() else []
    for name in names:
        if name not in known:
            raise UnknownName(option, kind, name, known)
    return tuple(dict.fromkeys(names))


def timed_baselines(against: Sequence[str]) -> tuple[str, ...]:
    """Those that really run for the asked ones: a derived line needs what it derives from."""
    names = [DERIVED[name][0] if name in DERIVED else name for name in against]
    return tuple(dict.fromkeys(names))


# ---- the GPU


_GPU_REMEDY = "a machine with a GPU that runs these kernels, and pip install 'gemmgen[cuda13]' or 'gemmgen[cuda12]'"


def require_timed(plan: Plan, where: str) -> None:
    """That this machine's GPU can run and time a kernel.

    Raises:
        DeviceError: no CUDA GPU, or it cannot run it, or the kernel is for another vendor's.
    """
    from gemmgen.run import cuda

    if not plan.gpu.maker.checked.timed:
        raise DeviceError(
            where, "times kernels beside cuBLAS and Triton, on NVIDIA's GPUs alone", got=plan.gpu.name,
            remedy="gemmgen verify SPEC --device hip, which prints the seconds of a run",
        )
    reason = cuda.why_not(plan)
    if reason is not None:
        reason.where, reason.remedy = where, _GPU_REMEDY
        raise reason


def require_gpu(where: str) -> None:
    """That a GPU is here on which kernels are timed, whichever of the catalog's.

    Raises:
        DeviceError: none is.
    """
    from gemmgen.run import cuda

    reasons = [cuda.why_not(row) for row in GPUS.rows() if row.maker.checked.timed]
    if None not in reasons:
        reason = reasons[0]
        assert reason is not None
        reason.where, reason.remedy = where, _GPU_REMEDY
        raise reason


# ---- the bench


Found, Place = TypeVar("Found"), TypeVar("Place")


class Notes(list[str]):
    """What a table has to say beside its rows, each once."""

    def __call__(self, text: str) -> None:
        if text not in self:
            self.append(text)


def environment() -> dict[str, str]:
    return timing.versions() | {"power limit": timing.conditions().get("power.limit", "unknown")}


def each(
    places: Mapping[str, Place], found: Found, measure: Callable[[Found, Place, Callable[[], float | None], float], Found], *, note: Notes,
    seconds: float | None, progress: Callable[[str], None], measured: Callable[[Found], None],
) -> Found:
    """Measure at each place in turn, whatever the GPU refuses at others.

    Args:
        places: sizes or batches, by name.
        measure: of what was found so far, a place, a call that gives the seconds left for its race (None: no limit), and the seconds of warm-up: both together.
        seconds: for all places.
        measured: is given what was found so far, after each place.

    Raises:
        DeviceError: nothing could be measured.
    """
    until = time.perf_counter() + seconds if seconds else None
    warm_up, done, refused = WARM_UP_SECONDS, 0, None
    for number, (name, place) in enumerate(places.items()):
        progress(f"{name} ({number + 1} of {len(places)})")
        began = time.perf_counter()
        share = (until - began) / (len(places) - number) if until else None

        def left(began: float = began, share: float | None = share) -> float | None:
            return None if share is None else max(RACE_SHARE * share - (time.perf_counter() - began), 0.01)

        try:
            found = measure(found, place, left, warm_up)
            warm_up, done = 0.0, done + 1  # it stays warm from here on
        except DeviceError as error:
            refused = error.with_traceback(None)
            refused.__cause__ = refused.__context__ = None  # whose frames hold the inputs
            note(f"{name}: {error.problem}: {error.got}")
        timing.release_memory()
        found = replace(cast(Any, found), notes=tuple(note))
        measured(found)
    if refused and not done:
        raise refused
    return found


@dataclass
class _Run:
    """What all sizes of one bench share."""

    kernels: Sequence[Kernel]
    against: Sequence[str]
    low: float
    high: float
    rounds: int
    slice_ms: float
    errors: bool
    main_kernel: bool
    sensors: Any
    rivals: Any
    libraries: Sequence[tuple[Gemmul8, gemmul8.Shim]]
    note: Notes
    b: Input


def bench(
    kernels: Sequence[Kernel], sizes: Sequence[Size], *, against: Sequence[str] = USUAL, rounds: int = 15,
    slice_ms: float = 30.0, seconds: float | None = None, low: float = -1.0, high: float = 1.0, errors: bool = True,
    main_kernel: bool = True, notes: Sequence[str] = (), progress: Callable[[str], None] = lambda text: None,
    measured: Callable[[Table], None] = lambda table: None, libraries: Sequence[Gemmul8] = (),
) -> Table:
    """Time `kernels` and the baselines at each size.

    Args:
        sizes: (m, n, k) each.
        against: names of BASELINES.
        rounds: times each contender runs, for about `slice_ms`.
        seconds: what it may take, but for Triton's compiling; slices and rounds are cut to fit, with a margin.
        low, high: uniform inputs between them, drawn in FP64 and rounded.
        errors: also compute each contender's error on the same data.
        main_kernel: also time each kernel without its split pass.
        notes: what the caller has to say in the table.
        measured: is given the table so far, after each size.
        libraries: rivals whose library the user has.

    Raises:
        DeviceError: no CUDA GPU, it cannot run one of the kernels, or nothing could be measured.
        SpecError, BuildError: a library is not there, or cannot be called.
    """
    for kernel in kernels:
        require_timed(kernel.plan, "bench")
    note, b = Notes(notes), type_of_b([kernel.plan for kernel in kernels])
    if not b.is_usual:
        note(f"B holds {b.title} numbers, which cuBLAS and others get as FP32")
    run = _Run(
        kernels, against, low, high, rounds, slice_ms, errors, main_kernel, timing.sensors_here(), compiled_triton(against, sizes, progress, note),
        opened(libraries, progress), note, b,
    )

    def measure(table: Table, size: Size, left: Callable[[], float | None], warm_up: float) -> Table:
        return replace(table, rows=(*table.rows, *_measure(run, size, left, warm_up)))

    table = Table(timing.device_name(), environment(), low, high, ())
    return each({by(size): size for size in sizes}, table, measure, note=note, seconds=seconds, progress=progress, measured=measured)


def type_of_b(plans: Sequence[Plan]) -> Input:
    """Of the elements of B in a race of these kernels: FP32, or the one other type that some of them read.

    Raises:
        SpecError: they read two other types.
    """
    found = {plan.inputs.stored_b.name: plan.inputs.stored_b for plan in plans if not plan.inputs.stored_b.is_usual}
    if len(found) > 1:
        raise SpecError("[problem] b", "is of different types in one race", got=", ".join(sorted(found)), needs="one type beside FP32",
                        remedy="a race for each")
    return next(iter(found.values()), INPUTS[F32.name])


def compiled_triton(against: Sequence[str], sizes: Sequence[Size], progress: Callable[[str], None], note: Callable[[str], None]) -> Any:
    """The module of Triton's kernels, compiled; None where nobody asks for it or it is not installed."""
    asked = [name for name in against if name in TRITON]
    if not asked:
        return None
    try:
        from gemmgen.timing import rivals
    except ImportError as error:
        note(absent(asked, error))
        return None
    progress(f"compile {', '.join(asked)}")
    for told in rivals.compile_all([TRITON[name] for name in asked], sizes):
        note(f"triton: {told}")
    return rivals


def opened(libraries: Sequence[Gemmul8], progress: Callable[[str], None]) -> list[tuple[Gemmul8, gemmul8.Shim]]:
    """Each with its library, which is loaded once.

    Raises:
        SpecError, BuildError: one is not there, or cannot be called.
    """
    shims: dict[str, gemmul8.Shim] = {}
    for rival in libraries:
        if str(rival.path) not in shims:
            progress(f"compile a shim for {rival.path}")
            shims[str(rival.path)] = gemmul8.Shim(rival.path, rival.where)
    return [(rival, shims[str(rival.path)]) for rival in libraries]


def absent(asked: Sequence[str], error: ImportError) -> str:
    """The line that tells that Triton's contenders did not run."""
    return f"{', '.join(asked)}: not timed: {error.name or error} is not installed (pip install torch triton)"


def _measure(run: _Run, size: Size, left: Callable[[], float | None], warm_up: float) -> list[Row]:
    """One size: errors of all on the same data, then the race.

    Raises:
        DeviceError: the GPU refuses.
    """
    with timing.refusals():
        inputs = timing.Inputs(size, run.low, run.high, b=run.b)
        field = _contenders(run, size, inputs)
        reference = timing.Reference(inputs) if run.errors else None
        accuracies = {
            contender.name: reference.accuracy(contender) for kind, contender in field if reference and kind != "main" and contender.judged
        }
        del reference
    timing.race([contender for _, contender in field], rounds=run.rounds, slice_ms=run.slice_ms, warm_up=warm_up, seconds=left(), sensors=run.sensors)
    return rows_at(size, derived([
        Timed(contender.name, kind, np.array(contender.seconds), contender.detail, contender.samples, accuracies.get(contender.name))
        for kind, contender in field
    ], run.against))


def product_rivals(
    against: Sequence[str], triton: Any, libraries: Sequence[tuple[Gemmul8, gemmul8.Shim]], inputs: timing.Inputs,
) -> Iterator[tuple[str, Callable[[], timing.Contender]]]:
    """(name, what makes the contender) of all rivals at one size."""
    for name in timed_baselines(against):
        if name in timing.CUBLAS:
            yield name, partial(timing.cublas, name, inputs)
        elif triton:
            yield name, partial(triton.triton_matmul, name, TRITON[name], inputs)
    for rival, shim in libraries:
        yield rival.name, partial(gemmul8.contender, rival, shim, inputs)


def made(
    kind: str, makers: Iterable[tuple[str, Callable[[], timing.Contender]]], size: Size, note: Callable[[str], None],
) -> list[tuple[str, timing.Contender]]:
    """(kind, contender) of those that run at one size; why others do not is noted."""
    out = []
    for name, make in makers:
        try:
            out.append((kind, make()))
        except GemmgenError as error:
            note(f"{name} at {by(size)}: {error.problem}: {error.got}")
    return out


def _contenders(run: _Run, size: Size, inputs: timing.Inputs) -> list[tuple[str, timing.Contender]]:
    """(kind, contender) of all that run at one size."""
    out = made("rival", product_rivals(run.against, run.rivals, run.libraries, inputs), size, run.note)
    for kernel in run.kernels:
        if kernel.size not in (None, size):
            continue
        parts = (kernel.plan, kernel.source, kernel.binary, inputs)
        out.append(("kernel", timing.generated(kernel.name, *parts)))
        if run.main_kernel and len(kernel.source.launches) > 1:
            out.append(("main", timing.generated(f"{kernel.name}, main kernel", *parts, main_only=True)))
    return out


# ---- batches


CAPTURED = "everything was captured: times are those of CUDA graphs of all sets, the GPU's without the host's"


def suites(text: str) -> tuple[str, ...]:
    """`paper,uniform` as names.

    Raises:
        UnknownName: one is not of SUITES.
    """
    return names_of("--suite", "suite", text, SUITES)


def batch_rivals(text: str) -> tuple[str, ...]:
    """`cublas-loop,cublas-grouped` as names; `all` is every one, an empty text none.

    Raises:
        UnknownName: one is not known.
    """
    return NAMES if text.strip() == "all" else names_of("--against", "rival", text, NAMES)


def bench_batches(
    kernels: Mapping[str, Multiplier], cells: Sequence[Cell], *, against: Sequence[str] = NAMES, rounds: int = 11, slice_ms: float = 3.0,
    seconds: float | None = None, captured: bool = False, notes: Sequence[str] = (), progress: Callable[[str], None] = lambda text: None,
    measured: Callable[[Table], None] = lambda table: None,
) -> Table:
    """Time kernels and rivals in each cell.

    Args:
        kernels: by the names that the table gives them; may be none.
        against: of NAMES.
        rounds: times each contender runs, for about `slice_ms`.
        seconds: what it may take; slices and rounds are cut to fit, with a margin.
        captured: replay everything from CUDA graphs: the GPU's time without the host's.
        notes: what the caller has to say in the table.
        measured: is given the table so far, after each cell.

    Raises:
        DeviceError: no CUDA GPU, or nothing could be measured.
    """
    require_gpu("bench")
    note = Notes([*notes, *([CAPTURED] if captured else [])])
    watch, field = Stopwatch(), rivals()

    def measure(table: Table, cell: Cell, left: Callable[[], float | None], warm_up: float) -> Table:
        every = {**{name: field[name] for name in suited(against, cell.products, captured)}, **kernels}
        with timing.refusals(), watch.stream:
            entries = prepared(every, DeviceBatch(cell.products), lambda text: note(f"{cell.name}: {text}"))
            timing.race(entries, rounds=rounds, slice_ms=slice_ms, warm_up=warm_up, seconds=left(), watch=watch, captured=captured)
        return replace(table, rows=(*table.rows, *(_batch_row(cell, entry, "kernel" if entry.name in kernels else "rival") for entry in entries)))

    table = Table(timing.device_name(), environment(), -1.0, 1.0, (), tuple(note))
    return each({cell.name: cell for cell in cells}, table, measure, note=note, seconds=seconds, progress=progress, measured=measured)


def _batch_row(cell: Cell, entry: timing.Contender, kind: str) -> BatchRow:
    most_mn, most_k = cell.bounds or (None, None)
    return BatchRow(
        suite=cell.suite, label=cell.label, batch=cell.batch, seed=cell.seed, max_mn=most_mn, max_k=most_k, flops=cell.flops,
        moved_bytes=cell.moved_bytes, name=entry.name, kind=kind, rounds=tuple(entry.seconds),
        host_seconds=float(np.median(entry.host_seconds)), scaled=entry.scaled,
    )
