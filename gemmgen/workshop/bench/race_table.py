"""A bench's outcome as people read it, and as CSV there and back."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gemmgen.errors import SpecError
from gemmgen.timing import REFERENCE_ROWS
from gemmgen.workshop.bench.statistics import F16, SGEMM, BatchRow, Interval, Row, Size, best_rivals, by_cell, geometric_means, ratio, worst_cells


@dataclass(frozen=True)
class Table:
    """A bench's outcome: where it ran, how, its rows, of products or of batches, and what is missing.

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
    rows: tuple[Row, ...] | tuple[BatchRow, ...]
    notes: tuple[str, ...] = ()

    @property
    def batches(self) -> tuple[BatchRow, ...]:
        """The rows, where they are of batches."""
        return tuple(row for row in self.rows if isinstance(row, BatchRow))

    def as_dict(self) -> dict[str, Any]:
        out, rows = asdict(self), self.batches
        if not rows:
            return out
        for flat, row in zip(out["rows"], rows):
            flat |= {"seconds": row.seconds, "spread": row.spread, "gflops": row.gflops}
        return out | {"geometric_means": [mean._asdict() for mean in geometric_means(rows)], "worst": [worst._asdict() for worst in worst_cells(rows)]}


# ---- text


def by(size: Size) -> str:
    return "x".join(map(str, size))


def as_text(table: Table) -> str:
    """The table as people read it: ratios first."""
    told = ", ".join(f"{key} {value}" for key, value in table.environment.items())
    lines = [f"device  {table.device}" + (f"; {told}" if told else "")]
    lines += _of_batches(table.batches) if table.batches else _of_products(table)
    return "\n".join([*lines, *(f"note: {note}" for note in table.notes)])


def _of_products(table: Table) -> list[str]:
    head = ("m x n x k", "x SGEMM", "95 %", "x f16/3", "95 %", "TFLOP/s", "us", "quartiles", "rounds", "error", "max", "MHz", "W", "contender")
    *cells, names = zip(head, *(_cells(row) for row in table.rows if isinstance(row, Row)))
    return [
        f"uniform data in [{table.low:g}, {table.high:g}], rotating inputs, interleaved rounds; speed as 2 m n k / median time, total "
        "with the split pass but for lines of the main kernel alone",
        f"x SGEMM: speed against {SGEMM}; x f16/3: against three products of {F16}; medians of paired rounds with 95 % intervals",
        f"errors against FP64 on {REFERENCE_ROWS} evenly spaced rows of C, the first and the last included: relative "
        "Frobenius, and max |C - C*| / (|A| |B|)",
        "clock and power: medians while it ran; * where something other than the power cap slowed the GPU",
        "", *(f"{line}  {name}" for line, name in zip(aligned(list(zip(*cells))), names)),
    ]


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


def _of_batches(rows: Sequence[BatchRow]) -> list[str]:
    """Ratios, then microseconds of all, then what they come to."""
    lines = [
        "uniform data in [-1, 1], rotating sets, interleaved rounds; medians, of ratios the median of paired rounds; GFLOPS as sum of 2 M N K "
        "/ time (BatchGEMM eq. 11)",
        "times are what a program waits for, enqueueing included; host: the host's own part. Padding is not counted: rivals called padded are "
        "given matrices that were padded before",
    ]
    cells = by_cell(rows)
    names = list(dict.fromkeys(row.name for row in rows if row.kind == "rival"))
    kernels = list(dict.fromkeys(row.name for row in rows if row.kind == "kernel"))
    if kernels and names:
        lines += ["", *_ratios(rows, names)]
    lines += ["", "microseconds", *aligned(
        [("cell", "batch", *names, *kernels)]
        + [(f"{suite} {label}", str(batch), *_microseconds(field, [*names, *kernels])) for (suite, label, batch), field in cells.items()],
    )]
    means, worst = geometric_means(rows), worst_cells(rows)
    if means:
        lines += ["", "geometric means of the ratios", *aligned(
            [("ratio", "cells", "suite", "kernel", "against")] + [(f"{m.ratio:.2f}", str(m.cells), m.suite, m.kernel, m.rival) for m in means],
        )]
        lines += ["", "worst cells against the best rival there", *aligned(
            [("ratio", "cell", "batch", "kernel", "against", "padded rivals")]
            + [(f"{w.ratio:.2f}", f"{w.suite} {w.label}", str(w.batch), w.kernel, w.rival, "counted" if w.padding else "left out") for w in worst],
        )]
    return lines


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


PAIRS = {"spread": ("seconds_q1", "seconds_q3"), "interval": ("ratio_low", "ratio_high"), "f16_interval": ("f16_low", "f16_high")}
COLUMNS = (
    "device", "m", "n", "k", "name", "kind", "detail", "rounds", "seconds", "seconds_q1", "seconds_q3", "tflops", "ratio", "ratio_low",
    "ratio_high", "f16_ratio", "f16_low", "f16_high", "relative_frobenius", "max_error", "scaled", "clock_mhz", "power_w", "throttles",
)


BATCH_COLUMNS = (
    "device", "suite", "label", "batch", "seed", "max_mn", "max_k", "flops", "moved_bytes", "name", "kind", "seconds", "seconds_q1", "seconds_q3",
    "gflops", "host_seconds", "scaled", "rounds",
)


def as_csv(table: Table) -> str:
    """The rows as CSV with every digit; what is absent is an empty field. A batch's `seed` and `rounds`, in seconds, are numbers between spaces."""
    out = io.StringIO()
    writer = csv.DictWriter(out, BATCH_COLUMNS if table.batches else COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in table.rows:
        flat: dict[str, Any] = asdict(row) | {"device": table.device}
        if isinstance(row, BatchRow):
            flat |= {"seconds": row.seconds, "gflops": row.gflops, **dict(zip(("seconds_q1", "seconds_q3"), row.spread))}
            flat |= {name: " ".join(map(str, flat[name])) for name in ("seed", "rounds")}
        else:
            flat |= dict(zip("mnk", flat.pop("size")))
            for pair, names in PAIRS.items():
                flat |= dict(zip(names, flat.pop(pair) or (None, None)))
        writer.writerow(flat)
    return out.getvalue()


def from_csv(text: str, place: str = "CSV") -> tuple[str, tuple[Any, ...]]:
    """(device, rows) of what `as_csv` wrote: each a Row, or each a BatchRow.

    Raises:
        SpecError: it is something else.
    """
    remedy = "gemmgen bench SPEC... --out DIR writes DIR/bench.csv, of batches DIR/batches.csv"
    reader = csv.DictReader(io.StringIO(text))
    read = {COLUMNS: _from_line, BATCH_COLUMNS: _batch_from_line}.get(tuple(reader.fieldnames or ()))
    if read is None:
        raise SpecError(place, "is not a table of gemmgen bench", got=",".join(reader.fieldnames or ())[:80],
                        needs="the columns " + ",".join(COLUMNS) + "; of batches " + ",".join(BATCH_COLUMNS), remedy=remedy)
    rows: list[Any] = []
    device = ""
    for number, line in enumerate(reader, 2):
        try:
            rows.append(read(line))
            device = line["device"]
        except (ValueError, TypeError, AttributeError) as error:
            raise SpecError(f"{place}: line {number}", "cannot be read", got=str(error), needs="a line that gemmgen bench wrote", remedy=remedy) from None
    if not rows:
        raise SpecError(place, "has no rows", needs="at least one", remedy=remedy)
    for (suite, label, batch), field in by_cell(row for row in rows if isinstance(row, BatchRow)).items():
        if len({len(row.rounds) for row in field}) > 1:
            raise SpecError(place, f"has contenders with different numbers of rounds in {suite} {label} x {batch}",
                            got=sorted(len(row.rounds) for row in field), needs="as many of each: ratios pair them", remedy=remedy)
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


def _batch_from_line(line: Mapping[str, str]) -> BatchRow:
    rounds = tuple(map(float, line["rounds"].split()))
    if not rounds or not all(0 < taken < float("inf") for taken in rounds):
        raise ValueError(f"rounds {line['rounds'][:80]!r}")
    return BatchRow(
        line["suite"], line["label"], int(line["batch"]), tuple(map(int, line["seed"].split())), int(line["max_mn"]) if line["max_mn"] else None,
        int(line["max_k"]) if line["max_k"] else None, int(line["flops"]), int(line["moved_bytes"]), line["name"], line["kind"], rounds,
        float(line["host_seconds"]), float(line["scaled"]),
    )
