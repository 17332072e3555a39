"""How fast batches of many sizes are: kernels beside cuBLAS and torch, cell by cell, in one interleaved run."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import exp, log
from typing import Any, NamedTuple

import numpy as np

from gemmgen import timing
from gemmgen.errors import SpecError
from gemmgen.timing.batches import NAMES, PADDED, SUITES, Cell, DeviceBatch, Multiplier, prepared, rivals, suited
from gemmgen.timing.racing import Stopwatch
from gemmgen.workshop.bench.measure import Notes, each, environment, names_of, require_gpu
from gemmgen.workshop.bench.statistics import Interval, paired


@dataclass(frozen=True)
class BatchRow:
    """One contender in one cell.

    Attributes:
        suite, label, batch, seed, max_mn, max_k: the cell's.
        flops: sum of 2 M N K.
        moved_bytes: A, B and C once each.
        kind: `kernel` or `rival`.
        rounds: seconds of one batch, a figure a round.
        host_seconds: median of the host's own time for one batch; where it is all of the time, the host binds.
        scaled: largest |C - C*| / (|A| |B|) of some matrices against FP64.
    """

    suite: str
    label: str
    batch: int
    seed: tuple[int, ...]
    max_mn: int | None
    max_k: int | None
    flops: int
    moved_bytes: int
    name: str
    kind: str
    rounds: tuple[float, ...]
    host_seconds: float
    scaled: float

    @property
    def cell(self) -> tuple[str, str, int]:
        return self.suite, self.label, self.batch

    @property
    def seconds(self) -> float:
        """Median of one batch."""
        return float(np.median(self.rounds))

    @property
    def spread(self) -> Interval:
        """(first, third) quartile."""
        return float(np.quantile(self.rounds, 0.25)), float(np.quantile(self.rounds, 0.75))

    @property
    def gflops(self) -> float:
        """BatchGEMM eq. 11: sum of 2 M N K over the time, / 1e9."""
        return self.flops / self.seconds / 1e9


@dataclass(frozen=True)
class BatchTable:
    """A run's outcome: where it ran, its rows, and what is missing and why."""

    device: str
    environment: dict[str, str]
    rows: tuple[BatchRow, ...]
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        out = asdict(self)
        for flat, row in zip(out["rows"], self.rows):
            flat |= {"seconds": row.seconds, "spread": row.spread, "gflops": row.gflops}
        return out | {
            "geometric_means": [mean._asdict() for mean in geometric_means(self.rows)],
            "worst": [worst._asdict() for worst in worst_cells(self.rows)],
        }


# ---- statistics


class Mean(NamedTuple):
    """Geometric mean of a kernel's speed against one rival over the cells of a suite that both ran in."""

    suite: str
    kernel: str
    rival: str
    ratio: float
    cells: int


class Worst(NamedTuple):
    """The cell of a suite where a kernel does worst against the best of its rivals there.

    Attributes:
        padding: whether rivals count that are given padded matrices.
    """

    suite: str
    kernel: str
    padding: bool
    label: str
    batch: int
    rival: str
    ratio: float


def by_cell(rows: Iterable[BatchRow]) -> dict[tuple[str, str, int], list[BatchRow]]:
    out: dict[tuple[str, str, int], list[BatchRow]] = {}
    for row in rows:
        out.setdefault(row.cell, []).append(row)
    return out


def ratio(rival: BatchRow, kernel: BatchRow) -> tuple[float, Interval]:
    """How much faster the kernel is: the median of the paired rounds' ratios, and its 95 % interval."""
    return paired(np.array(rival.rounds), np.array(kernel.rounds))


def _pairs(rows: Iterable[BatchRow]) -> list[tuple[BatchRow, BatchRow, float]]:
    """(kernel, rival, ratio) of every cell."""
    return [
        (kernel, rival, ratio(rival, kernel)[0])
        for field in by_cell(rows).values() for kernel in field if kernel.kind == "kernel" for rival in field if rival.kind == "rival"
    ]


def geometric_means(rows: Iterable[BatchRow]) -> list[Mean]:
    """Of each suite, kernel and rival."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for kernel, rival, faster in _pairs(rows):
        found.setdefault((kernel.suite, kernel.name, rival.name), []).append(log(faster))
    return [Mean(*key, exp(sum(logs) / len(logs)), len(logs)) for key, logs in found.items()]


def best_rivals(rows: Iterable[BatchRow], padding: bool = True) -> list[tuple[BatchRow, BatchRow, float]]:
    """(kernel, the rival that it does worst against, ratio) of every cell.

    Args:
        padding: whether rivals count that are given padded matrices.
    """
    found: dict[tuple[Any, str], tuple[BatchRow, BatchRow, float]] = {}
    for kernel, rival, faster in _pairs(rows):
        key = kernel.cell, kernel.name
        if (padding or rival.name not in PADDED) and (key not in found or faster < found[key][2]):
            found[key] = kernel, rival, faster
    return list(found.values())


def worst_cells(rows: Iterable[BatchRow]) -> list[Worst]:
    """Of each suite and kernel, with padded rivals and without."""
    rows = list(rows)
    out: dict[tuple[str, str, bool], Worst] = {}
    for padding in (True, False):
        for kernel, rival, faster in best_rivals(rows, padding):
            key = kernel.suite, kernel.name, padding
            if key not in out or faster < out[key].ratio:
                out[key] = Worst(*key, kernel.label, kernel.batch, rival.name, faster)
    return list(out.values())


# ---- the bench


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
    measured: Callable[[BatchTable], None] = lambda table: None,
) -> BatchTable:
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

    def measure(table: BatchTable, cell: Cell, left: Callable[[], float | None], warm_up: float) -> BatchTable:
        every = {**{name: field[name] for name in suited(against, cell.products, captured)}, **kernels}
        with timing.refusals(), watch.stream:
            entries = prepared(every, DeviceBatch(cell.products), lambda text: note(f"{cell.name}: {text}"))
            timing.race(entries, rounds=rounds, slice_ms=slice_ms, warm_up=warm_up, seconds=left(), watch=watch, captured=captured)
        return replace(table, rows=(*table.rows, *(_row(cell, entry, "kernel" if entry.name in kernels else "rival") for entry in entries)))

    table = BatchTable(timing.device_name(), environment(), (), tuple(note))
    return each({cell.name: cell for cell in cells}, table, measure, note=note, seconds=seconds, progress=progress, measured=measured)


def _row(cell: Cell, entry: timing.Contender, kind: str) -> BatchRow:
    most_mn, most_k = cell.bounds or (None, None)
    return BatchRow(
        suite=cell.suite, label=cell.label, batch=cell.batch, seed=cell.seed, max_mn=most_mn, max_k=most_k, flops=cell.flops,
        moved_bytes=cell.moved_bytes, name=entry.name, kind=kind, rounds=tuple(entry.seconds),
        host_seconds=float(np.median(entry.host_seconds)), scaled=entry.scaled,
    )


# ---- text


def as_text(table: BatchTable) -> str:
    """The table as people read it: ratios first, then microseconds of all, then what they come to."""
    told = ", ".join(f"{key} {value}" for key, value in table.environment.items())
    lines = [
        f"device  {table.device}" + (f"; {told}" if told else ""),
        "uniform data in [-1, 1], rotating sets, interleaved rounds; medians, of ratios the median of paired rounds; GFLOPS as sum of 2 M N K "
        "/ time (BatchGEMM eq. 11)",
        "times are what a program waits for, enqueueing included; host: the host's own part. Padding is not counted: rivals called padded are "
        "given matrices that were padded before",
    ]
    cells = by_cell(table.rows)
    names = list(dict.fromkeys(row.name for row in table.rows if row.kind == "rival"))
    kernels = list(dict.fromkeys(row.name for row in table.rows if row.kind == "kernel"))
    if kernels and names:
        lines += ["", *_ratios(table.rows, names)]
    lines += ["", "microseconds", *aligned(
        [("cell", "batch", *names, *kernels)]
        + [(f"{suite} {label}", str(batch), *_microseconds(field, [*names, *kernels])) for (suite, label, batch), field in cells.items()],
    )]
    means, worst = geometric_means(table.rows), worst_cells(table.rows)
    if means:
        lines += ["", "geometric means of the ratios", *aligned(
            [("ratio", "cells", "suite", "kernel", "against")] + [(f"{m.ratio:.2f}", str(m.cells), m.suite, m.kernel, m.rival) for m in means],
        )]
        lines += ["", "worst cells against the best rival there", *aligned(
            [("ratio", "cell", "batch", "kernel", "against", "padded rivals")]
            + [(f"{w.ratio:.2f}", f"{w.suite} {w.label}", str(w.batch), w.kernel, w.rival, "counted" if w.padding else "left out") for w in worst],
        )]
    return "\n".join([*lines, *(f"note: {note}" for note in table.notes)])


def _ratios(rows: Sequence[BatchRow], names: Sequence[str]) -> list[str]:
    """A line for each cell and kernel: its speed against the best rival there and against each."""
    table: list[tuple[str, ...]] = [(
        "cell", "batch", "x best", "95 %", "best rival", "GFLOPS", "us", "quartiles", "host us", "error", *(f"x {short(name)}" for name in names), "kernel",
    )]
    for kernel, best, faster in best_rivals(rows):
        field = {row.name: row for row in rows if row.cell == kernel.cell}
        low, high = ratio(best, kernel)[1]
        first, third = kernel.spread
        table.append((
            f"{kernel.suite} {kernel.label}", str(kernel.batch), f"{faster:.2f}", f"{low:.2f}-{high:.2f}", short(best.name), f"{kernel.gflops:.0f}",
            f"{kernel.seconds * 1e6:.1f}", f"{first * 1e6:.1f}-{third * 1e6:.1f}", f"{kernel.host_seconds * 1e6:.1f}", f"{kernel.scaled:.1e}",
            *(f"{ratio(field[name], kernel)[0]:.2f}" if name in field else "" for name in names), kernel.name,
        ))
    return aligned(table)


def short(name: str) -> str:
    """A rival's name for the head of a column."""
    return name.removeprefix("cublas-")


def _microseconds(field: Iterable[BatchRow], names: Sequence[str]) -> list[str]:
    at = {row.name: f"{row.seconds * 1e6:.1f}" for row in field}
    return [at.get(name, "") for name in names]


def aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table; the first row is its head."""
    widths = [max(len(line[at]) for line in cells) for at in range(len(cells[0]))]
    return ["  ".join(text.rjust(width) for text, width in zip(line, widths)) for line in cells]


# ---- files


COLUMNS = (
    "device", "suite", "label", "batch", "seed", "max_mn", "max_k", "flops", "moved_bytes", "name", "kind", "seconds", "seconds_q1", "seconds_q3",
    "gflops", "host_seconds", "scaled", "rounds",
)


def as_csv(table: BatchTable) -> str:
    """The rows as CSV with every digit; `seed` and `rounds`, the seconds of each, have spaces between their numbers."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in table.rows:
        flat: dict[str, Any] = asdict(row) | {"device": table.device, "seconds": row.seconds, "gflops": row.gflops}
        flat |= dict(zip(("seconds_q1", "seconds_q3"), row.spread))
        flat |= {name: " ".join(map(str, flat[name])) for name in ("seed", "rounds")}
        writer.writerow(flat)
    return out.getvalue()


def from_csv(text: str, place: str = "CSV") -> tuple[str, tuple[BatchRow, ...]]:
    """(device, rows) of what `as_csv` wrote.

    Raises:
        SpecError: it is something else.
    """
    remedy = "gemmgen bench-batches SPEC... --out DIR writes DIR/batches.csv"
    reader = csv.DictReader(io.StringIO(text))
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise SpecError(place, "is not a table of gemmgen bench-batches", got=",".join(reader.fieldnames or ())[:80],
                        needs="the columns " + ",".join(COLUMNS), remedy=remedy)
    rows, device = [], ""
    for number, line in enumerate(reader, 2):
        try:
            rows.append(_from_line(line))
            device = line["device"]
        except (ValueError, TypeError, AttributeError) as error:
            raise SpecError(f"{place}: line {number}", "cannot be read", got=str(error), needs="a line that gemmgen bench-batches wrote",
                            remedy=remedy) from None
    for (suite, label, batch), field in by_cell(rows).items():
        if len({len(row.rounds) for row in field}) > 1:
            raise SpecError(place, f"has contenders with different numbers of rounds in {suite} {label} x {batch}",
                            got=sorted(len(row.rounds) for row in field), needs="as many of each: ratios pair them", remedy=remedy)
    if not rows:
        raise SpecError(place, "has no rows", needs="at least one", remedy=remedy)
    return device, tuple(rows)


def _from_line(line: Mapping[str, str]) -> BatchRow:
    rounds = tuple(map(float, line["rounds"].split()))
    if not rounds or not all(0 < taken < float("inf") for taken in rounds):
        raise ValueError(f"rounds {line['rounds'][:80]!r}")
    return BatchRow(
        line["suite"], line["label"], int(line["batch"]), tuple(map(int, line["seed"].split())), int(line["max_mn"]) if line["max_mn"] else None,
        int(line["max_k"]) if line["max_k"] else None, int(line["flops"]), int(line["moved_bytes"]), line["name"], line["kind"], rounds,
        float(line["host_seconds"]), float(line["scaled"]),
    )
