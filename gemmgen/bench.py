"""How fast: generated kernels beside their rivals, in one interleaved run, as ratios.

Times are total: the split pass and every other kernel of the Source counted;
the main kernel alone is a line of its own. Ratios are paired, round by round,
and their interval is the median's distribution-free 95 % interval over the
rounds. Errors are of the same data, against FP64.
"""

from __future__ import annotations

import csv
import io
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import ceil, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from gemmgen.build import Binary
from gemmgen.errors import DeviceError, GemmgenError, SpecError, UnknownName
from gemmgen.plan import Plan
from gemmgen.render import Source
from gemmgen.run import timing
from gemmgen.run.sensors import Sample, throttle_names

SGEMM, F16, F16_THIRD = "cublas-sgemm", "cublas-f16", "cublas-f16/3"
TRITON = {f"triton-{precision}": precision for precision in ("tf32x3", "bf16x6", "bf16x3", "ieee")}
BASELINES = (*timing.CUBLAS, F16_THIRD, *TRITON)
USUAL = (SGEMM, "cublas-tf32", F16, F16_THIRD)
DATA = {"both": (-1.0, 1.0), "positive": (0.0, 1.0)}
"""What inputs are drawn from, uniformly: both signs, or one."""

WARM_UP_SECONDS = 2.0
RACE_SHARE = 0.8  # of a size's share of the time; the rest is for its inputs, its tuning and its errors
Size = tuple[int, int, int]
Interval = tuple[float, float]


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


@dataclass(frozen=True)
class Row:
    """One contender at one size.

    Attributes:
        size: (m, n, k).
        kind: `kernel`, `main` (a kernel without its split pass), `rival`, or `derived` from another row's times.
        detail: the kernel's name, or the rival's configuration.
        rounds: how many it ran.
        seconds: median of one product.
        spread: (first, third) quartile of it.
        tflops: 2 m n k / seconds / 1e12.
        ratio: speed against cuBLAS SGEMM, the median of the paired rounds; None where that did not run.
        interval: 95 % interval of the ratio.
        f16_ratio, f16_interval: the same against three products of cuBLAS in FP16.
        relative_frobenius, max_error, scaled: errors against FP64 on the bench's own data (timing.Accuracy); None where none was computed.
        clock_mhz, power_w: medians of what the sensors told while it ran; None where they told nothing.
        throttles: everything that slowed the GPU at one of those moments.
    """

    size: Size
    name: str
    kind: str
    detail: str
    rounds: int
    seconds: float
    spread: Interval
    tflops: float
    ratio: float | None = None
    interval: Interval | None = None
    f16_ratio: float | None = None
    f16_interval: Interval | None = None
    relative_frobenius: float | None = None
    max_error: float | None = None
    scaled: float | None = None
    clock_mhz: float | None = None
    power_w: float | None = None
    throttles: str = ""


@dataclass(frozen=True)
class Table:
    """A bench's outcome: where it ran, how, its rows, and what is missing.

    Attributes:
        device: the GPU's name.
        environment: versions and limits, as they are printed.
        low, high: uniform data between them.
        notes: what was asked for and is not in the rows, and why.
    """

    device: str
    environment: dict[str, str]
    low: float
    high: float
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


# ---- choosing


def baselines(text: str) -> tuple[str, ...]:
    """`cublas-sgemm,triton-ieee` as names; an empty text is none.

    Raises:
        UnknownName: one is not known.
    """
    names = [name.strip() for name in text.split(",")] if text.strip() else []
    for name in names:
        if name not in BASELINES:
            raise UnknownName("--against", "baseline", name, BASELINES)
    return tuple(dict.fromkeys(names))


def timed_baselines(against: Sequence[str]) -> tuple[str, ...]:
    """Those that really run for the asked ones: a derived line needs what it derives from."""
    names = [F16 if name == F16_THIRD else name for name in against]
    return tuple(dict.fromkeys(names))


# ---- statistics


def median_interval(ordered: np.ndarray) -> Interval:
    """The order statistics that enclose the median with at least 95 % confidence.

    From the normal approximation of the binomial; with fewer than six values
    no two of them do, and the range is given.

    Args:
        ordered: [rounds], ascending.
    """
    count = len(ordered)
    reach = ceil(0.98 * sqrt(count))
    first = max(0, count // 2 - reach)
    last = min(count - 1, (count - 1) // 2 + reach)
    return float(ordered[first]), float(ordered[last])


def paired(base: np.ndarray, seconds: np.ndarray) -> tuple[float, Interval]:
    """How much faster than `base`: the median of the rounds' ratios, and its 95 % interval."""
    ratios = np.sort(base / seconds)
    return float(np.median(ratios)), median_interval(ratios)


@dataclass(frozen=True)
class Timed:
    """What a race left of one contender.

    Attributes:
        seconds: [rounds], of one product.
    """

    name: str
    kind: str
    seconds: np.ndarray
    detail: str = ""
    samples: Sequence[Sample] = ()
    accuracy: timing.Accuracy | None = None


def derived(entries: Sequence[Timed], against: Sequence[str]) -> list[Timed]:
    """The entries, and behind cuBLAS in FP16 the line of three times its time, where that is asked."""
    out: list[Timed] = []
    for entry in entries:
        out.append(entry)
        if entry.name == F16 and F16_THIRD in against:
            out.append(Timed(F16_THIRD, "derived", 3 * entry.seconds, f"3 x the time of {F16}", entry.samples))
    return out


def rows_at(size: Size, entries: Sequence[Timed]) -> list[Row]:
    """The rows of one size. Ratios pair the rounds, so all entries have the same."""
    at = {entry.name: entry.seconds for entry in entries}
    sgemm, f16 = at.get(SGEMM), at.get(F16)
    return [_row(size, entry, sgemm, None if f16 is None else 3 * f16) for entry in entries]


def _row(size: Size, entry: Timed, sgemm: np.ndarray | None, three_f16: np.ndarray | None) -> Row:
    median = float(np.median(entry.seconds))
    ratio, interval = paired(sgemm, entry.seconds) if sgemm is not None else (None, None)
    f16_ratio, f16_interval = paired(three_f16, entry.seconds) if three_f16 is not None else (None, None)
    bits = 0
    for sample in entry.samples:
        bits |= sample.throttles
    m, n, k = size
    return Row(
        size=size, name=entry.name, kind=entry.kind, detail=entry.detail, rounds=len(entry.seconds), seconds=median,
        spread=(float(np.quantile(entry.seconds, 0.25)), float(np.quantile(entry.seconds, 0.75))),
        tflops=2.0 * m * n * k / median / 1e12, ratio=ratio, interval=interval, f16_ratio=f16_ratio, f16_interval=f16_interval,
        **(asdict(entry.accuracy) if entry.accuracy else {}),
        clock_mhz=float(np.median([s.clock_mhz for s in entry.samples])) if entry.samples else None,
        power_w=float(np.median([s.power_w for s in entry.samples])) if entry.samples else None,
        throttles=throttle_names(bits),
    )


# ---- the bench


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
    warm_up: float = WARM_UP_SECONDS
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def bench(
    kernels: Sequence[Kernel], sizes: Sequence[Size], *, against: Sequence[str] = USUAL, rounds: int = 15,
    slice_ms: float = 30.0, seconds: float | None = None, low: float = -1.0, high: float = 1.0, errors: bool = True,
    main_kernel: bool = True, notes: Sequence[str] = (), progress: Callable[[str], None] = lambda text: None,
    measured: Callable[[Table], None] = lambda table: None,
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

    Raises:
        DeviceError: no CUDA GPU, it cannot run one of the kernels, or nothing could be measured.
    """
    from gemmgen.run import cuda

    for kernel in kernels:
        if not kernel.plan.gpu.maker.timed:
            raise DeviceError(
                "bench", "times kernels beside cuBLAS and Triton, on NVIDIA's GPUs alone", got=kernel.plan.gpu.name,
                remedy="gemmgen verify SPEC --device hip, which tells the seconds of a run",
            )
        reason = cuda.why_not(kernel.plan)
        if reason is not None:
            reason.where, reason.remedy = "bench", "a machine with a GPU that runs these kernels, and pip install 'gemmgen[cuda-gpu]'"
            raise reason
    run = _Run(kernels, against, low, high, rounds, slice_ms, errors, main_kernel, timing.sensors_here(), None, notes=list(notes))
    run.rivals = _triton(run, sizes, progress)
    device = timing.device_name()
    environment = timing.versions() | {"power limit": timing.conditions().get("power.limit", "unknown")}
    until = time.perf_counter() + seconds if seconds else None
    table = Table(device, environment, low, high, ())
    refused: GemmgenError | None = None
    for number, size in enumerate(sizes):
        progress(by(size))
        share = (until - time.perf_counter()) / (len(sizes) - number) if until else None
        try:
            rows = _measure(run, size, share)
        except DeviceError as error:
            refused, rows = error.with_traceback(None), []
            refused.__cause__ = refused.__context__ = None  # whose frames hold the inputs
            run.note(f"{by(size)}: {error.problem}: {error.got}")
        timing.release_memory()
        table = replace(table, rows=(*table.rows, *rows), notes=tuple(run.notes))
        measured(table)
    if not table.rows and refused:
        raise refused
    return table


def _triton(run: _Run, sizes: Sequence[Size], progress: Callable[[str], None]) -> Any:
    """The module of Triton's kernels, compiled; None where nobody asks for it or it is not installed."""
    asked = [name for name in run.against if name in TRITON]
    if not asked:
        return None
    try:
        from gemmgen.run import rivals
    except ImportError as error:
        run.note(absent(asked, error))
        return None
    progress(f"compile {', '.join(asked)}")
    for told in rivals.compile_all([TRITON[name] for name in asked], sizes):
        run.note(f"triton: {told}")
    return rivals


def absent(asked: Sequence[str], error: ImportError) -> str:
    """The line that tells that Triton's contenders did not run."""
    return f"{', '.join(asked)}: not timed: {error.name or error} is not installed (pip install torch triton)"


def _measure(run: _Run, size: Size, share: float | None) -> list[Row]:
    """One size: errors of all on the same data, then the race.

    Raises:
        DeviceError: the GPU refuses.
    """
    started = time.perf_counter()
    with timing.refusals():
        inputs = timing.Inputs(size, run.low, run.high)
        field_ = _contenders(run, size, inputs)
        reference = timing.Reference(inputs) if run.errors else None
        accuracies = {
            contender.name: reference.accuracy(contender) for kind, contender in field_ if reference and kind != "main"
        }
        del reference
    left = RACE_SHARE * share - (time.perf_counter() - started) if share else None
    timing.race(
        [contender for _, contender in field_], rounds=run.rounds, slice_ms=run.slice_ms, warm_up=run.warm_up,
        seconds=None if left is None else max(left, 0.1), sensors=run.sensors,
    )
    run.warm_up = 0.0  # it stays warm from here on
    return rows_at(size, derived([
        Timed(contender.name, kind, np.array(contender.seconds), contender.detail, contender.samples, accuracies.get(contender.name))
        for kind, contender in field_
    ], run.against))


def _contenders(run: _Run, size: Size, inputs: timing.Inputs) -> list[tuple[str, timing.Contender]]:
    """(kind, contender) of all that run at one size."""
    out = []
    for name in timed_baselines(run.against):
        if name in timing.CUBLAS:
            out.append(("rival", timing.cublas(name, inputs)))
        elif run.rivals:
            try:
                out.append(("rival", run.rivals.triton_matmul(name, TRITON[name], inputs)))
            except DeviceError as error:
                run.note(f"{name} at {by(size)}: {error.problem}: {error.got}")
    for kernel in run.kernels:
        if kernel.size not in (None, size):
            continue
        parts = (kernel.plan, kernel.source, kernel.binary, inputs)
        out.append(("kernel", timing.generated(kernel.name, *parts)))
        if run.main_kernel and len(kernel.source.launches) > 1:
            out.append(("main", timing.generated(f"{kernel.name}, main kernel", *parts, main_only=True)))
    return out


# ---- text


def by(size: Size) -> str:
    return "x".join(map(str, size))


def as_text(table: Table) -> str:
    """The table as people read it: ratios first."""
    told = ", ".join(f"{key} {value}" for key, value in table.environment.items())
    lines = [
        f"device  {table.device}" + (f"; {told}" if told else ""),
        f"uniform data in [{table.low:g}, {table.high:g}], rotating inputs, interleaved rounds; speed as 2 m n k / median time, total "
        "with the split pass but for lines of the main kernel alone",
        f"x SGEMM: speed against {SGEMM}; x f16/3: against three products of {F16}; medians of paired rounds with 95 % intervals",
        f"errors against FP64 on {timing.REFERENCE_ROWS} evenly spaced rows of C, the first and the last included: relative "
        "Frobenius, and max |C - C*| / (|A| |B|)",
        "clock and power: medians while it ran; * where something other than the power cap slowed the GPU",
        "",
    ]
    head = ("m x n x k", "x SGEMM", "95 %", "x f16/3", "95 %", "TFLOP/s", "us", "quartiles", "rounds", "error", "max", "MHz", "W", "contender")
    cells = [head, *(_cells(row) for row in table.rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(head))]
    for line in cells:
        padded = [text.rjust(width) for text, width in zip(line[:-1], widths)]
        lines.append("  ".join([*padded, line[-1]]))
    lines += [f"note: {note}" for note in table.notes]
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    slowed = "*" if set(filter(None, row.throttles.split(", "))) - {"power cap"} else ""
    return (
        by(row.size), _number(row.ratio, ".2f"), _between(row.interval, ".2f"), _number(row.f16_ratio, ".2f"),
        _between(row.f16_interval, ".2f"), f"{row.tflops:.1f}", f"{row.seconds * 1e6:.1f}",
        _between((row.spread[0] * 1e6, row.spread[1] * 1e6), ".1f"), str(row.rounds), _number(row.relative_frobenius, ".1e"),
        _number(row.scaled, ".1e"), _number(row.clock_mhz, ".0f") + slowed, _number(row.power_w, ".0f"), row.name,
    )


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _between(pair: Interval | None, form: str) -> str:
    return "" if pair is None else f"{pair[0]:{form}}-{pair[1]:{form}}"


# ---- files


PAIRS = {"spread": ("seconds_q1", "seconds_q3"), "interval": ("ratio_low", "ratio_high"), "f16_interval": ("f16_low", "f16_high")}
COLUMNS = (
    "device", "m", "n", "k", "name", "kind", "detail", "rounds", "seconds", "seconds_q1", "seconds_q3", "tflops", "ratio", "ratio_low",
    "ratio_high", "f16_ratio", "f16_low", "f16_high", "relative_frobenius", "max_error", "scaled", "clock_mhz", "power_w", "throttles",
)


def as_csv(table: Table) -> str:
    """The rows as CSV with every digit; what is absent is an empty field."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in table.rows:
        flat: dict[str, Any] = asdict(row) | {"device": table.device} | dict(zip("mnk", row.size))
        del flat["size"]
        for pair, names in PAIRS.items():
            flat |= dict(zip(names, flat.pop(pair) or (None, None)))
        writer.writerow(flat)
    return out.getvalue()


def from_csv(text: str, place: str = "CSV") -> tuple[str, tuple[Row, ...]]:
    """(device, rows) of what `as_csv` wrote.

    Raises:
        SpecError: it is something else.
    """
    reader = csv.DictReader(io.StringIO(text))
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise SpecError(place, "is not a table of gemmgen bench", got=",".join(reader.fieldnames or ())[:80],
                        needs="the columns " + ",".join(COLUMNS), remedy="gemmgen bench SPEC... --out DIR writes DIR/bench.csv")
    rows, device = [], ""
    for number, line in enumerate(reader, 2):
        try:
            rows.append(_from_line(line))
            device = line["device"]
        except (ValueError, TypeError) as error:
            raise SpecError(f"{place}: line {number}", "cannot be read", got=str(error), needs="a line that gemmgen bench wrote",
                            remedy="gemmgen bench SPEC... --out DIR") from None
    if not rows:
        raise SpecError(place, "has no rows", needs="at least one", remedy="gemmgen bench SPEC... --out DIR")
    return device, tuple(rows)


def _from_line(line: Mapping[str, str]) -> Row:
    def number(name: str) -> float | None:
        return float(line[name]) if line[name] else None

    def pair(name: str) -> Any:
        ends = tuple(number(column) for column in PAIRS[name])
        return None if None in ends else ends

    return Row(
        size=(int(line["m"]), int(line["n"]), int(line["k"])), name=line["name"], kind=line["kind"], detail=line["detail"],
        rounds=int(line["rounds"]), seconds=float(line["seconds"]), spread=pair("spread"), tflops=float(line["tflops"]),
        ratio=number("ratio"), interval=pair("interval"), f16_ratio=number("f16_ratio"), f16_interval=pair("f16_interval"),
        relative_frobenius=number("relative_frobenius"), max_error=number("max_error"), scaled=number("scaled"),
        clock_mhz=number("clock_mhz"), power_w=number("power_w"), throttles=line["throttles"],
    )


# ---- plots


SPEED_NAME, ERROR_NAME = "speed.png", "error.png"


def plot(device: str, rows: Iterable[Row], folder: Path) -> list[Path]:
    """Draw TFLOP/s against size, and error against speed, into `folder`.

    Raises:
        DeviceError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise DeviceError("--plot", "matplotlib is not installed", needs="matplotlib 3.9 or later",
                          remedy="pip install 'gemmgen[plot]'") from None
    matplotlib.use("Agg")
    rows = list(rows)
    names = list(dict.fromkeys(row.name for row in rows))
    looks = {name: _look(name, at, next(row.kind for row in rows if row.name == name)) for at, name in enumerate(names)}
    return [_draw_speed(device, rows, looks, folder / SPEED_NAME), _draw_errors(device, rows, looks, folder / ERROR_NAME)]


def _look(name: str, at: int, kind: str) -> dict[str, Any]:
    """Kernels stand out; what nobody can call as it is (derived, main kernel alone) is dashed."""
    dashed = kind in ("main", "derived")
    return {
        "color": "black" if name == SGEMM else f"C{at % 10}", "linestyle": "--" if dashed else "-",
        "linewidth": 2.2 if kind == "kernel" else 1.1, "marker": "o" if kind in ("kernel", "main") else "s", "markersize": 4,
    }


def _draw_speed(device: str, rows: Sequence[Row], looks: Mapping[str, dict[str, Any]], path: Path) -> Path:
    """Square products as lines, others as loose points at the cube root of m n k."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(9, 6))
    ticks = set()
    for name, look in looks.items():
        mine = sorted((row for row in rows if row.name == name), key=lambda row: row.size)
        square = [row for row in mine if len(set(row.size)) == 1]
        other = [row for row in mine if len(set(row.size)) > 1]
        axis.plot([row.size[0] for row in square], [row.tflops for row in square], label=name, **look)
        axis.plot([math.cbrt(math.prod(row.size)) for row in other], [row.tflops for row in other],
                  **look | {"linestyle": "none", "markerfacecolor": "none"})
        ticks |= {row.size[0] for row in square}
    axis.set(xscale="log", yscale="log", title=device, ylabel="TFLOP/s, 2 m n k / t, split pass included")
    axis.set_xlabel("n of square products; hollow: others, at the cube root of m n k")
    if ticks:
        axis.set_xticks(sorted(ticks), [str(tick) for tick in sorted(ticks)])
        axis.set_xticks([], minor=True)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7)
    return _saved(figure, path)


def _draw_errors(device: str, rows: Sequence[Row], looks: Mapping[str, dict[str, Any]], path: Path) -> Path:
    """A panel for each of the largest sizes, square ones first, four at most; what leaves no error is left out."""
    import matplotlib.pyplot as plt

    with_error = [row for row in rows if row.relative_frobenius and math.isfinite(row.relative_frobenius)]
    largest = sorted({row.size for row in with_error}, key=lambda size: (len(set(size)) > 1, -math.prod(size)))[:4]
    sizes = sorted(largest, key=math.prod) or [rows[0].size]
    figure, axes = plt.subplots(1, len(sizes), figsize=(5.5 * len(sizes), 5.5), squeeze=False, sharey=True)
    for axis, size in zip(axes[0], sizes):
        for row in with_error:
            if row.size == size:
                axis.plot(row.tflops, row.relative_frobenius, label=row.name, **looks[row.name] | {"linestyle": "none", "markersize": 7})
        axis.set(xscale="log", yscale="log", title=f"{by(size)}, {device}", xlabel="TFLOP/s, split pass included")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("relative Frobenius error against FP64")
    handles = {label: handle for axis in axes[0] for handle, label in zip(*axis.get_legend_handles_labels())}
    if handles:
        axes[0][-1].legend(handles.values(), handles.keys(), fontsize=7)
    return _saved(figure, path)


def _saved(figure: Any, path: Path) -> Path:
    import matplotlib.pyplot as plt

    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path
