"""A bench's outcome as people read it, and as CSV there and back."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gemmgen.errors import SpecError
from gemmgen.timing import REFERENCE_ROWS
from gemmgen.workshop.bench.statistics import F16, SGEMM, Interval, Row, Size


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
        f"errors against FP64 on {REFERENCE_ROWS} evenly spaced rows of C, the first and the last included: relative "
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
