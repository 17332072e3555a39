"""Results to share: what `bench --share` writes of a race, and the page that a folder of such files becomes, by GPU.

A file says which GPU, driver, compiler and version of gemmgen, and of each contender and size or batch the time and the error. Batches are those of the suites,
whose sizes are the same on every machine. It has no field for a path, a host or a person, and texts have the letters that names of GPUs, versions and
kernels have: so what is not meant to be shared has no place in it, and a text of somebody else's file is no markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import cache
from math import exp, inf, log
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from gemmgen import __version__
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.catalog.table import IDENTIFIER, Strict, parse
from gemmgen.drivers import named_in
from gemmgen.errors import SpecError
from gemmgen.files import read
from gemmgen.model.accuracy import DISTRIBUTIONS
from gemmgen.solve.contract import fp32_estimate
from gemmgen.timing.batches import Cell, cells
from gemmgen.workshop.bench.measure import Kernel
from gemmgen.workshop.bench.race_table import Table
from gemmgen.workshop.bench.statistics import BatchRow, Row
from gemmgen.workshop.explore.report.judged import roof

FORMAT = "gemmgen-share 1"
MOST_BYTES = 1 << 21
"""Of a file."""
MOST_STORED = 1 << 26
"""Of a bench.json."""
MOST_RESULTS = 4000
AGREE = 0.05
"""Two shares agree where their times differ by less, in the geometric mean of what both timed."""
PLAUSIBLE = 1.1
"""A kernel that is so much faster than the data sheet's rate of its words was not measured rightly."""
NAME = r"^[a-z][a-z0-9_]{0,159}$"
RIVAL = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*(/[0-9])?$"
Device = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 .+-]{0,79}$")]
"""As the driver calls it."""
Version = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 .+-]{0,39}$")]
Extent = Annotated[int, Field(ge=1, le=2**31 - 1)]
Seconds = Annotated[float, Field(gt=1e-9, lt=1e5, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, lt=1e9, allow_inf_nan=False)]


class Raced(Strict):
    """One contender at one place.

    Attributes:
        name: the kernel's, which its decisions make, or the rival's.
        scheme, layout: of a kernel; empty of a rival.
        seconds: median of one call with all its passes; first, third: its quartiles.
        rounds: of the race.
    """

    kind: Literal["kernel", "rival"]
    name: str
    scheme: Annotated[str, Field(pattern=f"{IDENTIFIER}|^$")] = ""
    layout: Literal["", "nn", "nt", "tn", "tt"] = ""
    seconds: Seconds
    first: Seconds
    third: Seconds
    rounds: Annotated[int, Field(ge=2, le=100_000)]

    @model_validator(mode="after")
    def _is_named(self) -> Raced:
        if not re.fullmatch(NAME if self.kind == "kernel" else RIVAL, self.name):
            raise ValueError(f"the name of a {self.kind}, in small letters and digits")
        return self


class Result(Raced):
    """One contender at one size.

    Attributes:
        ratio: speed against cuBLAS SGEMM in the same rounds.
        error: relative Frobenius, against FP64.
        clock_mhz, power_w: medians while it ran.
    """

    m: Extent
    n: Extent
    k: Extent
    ratio: Annotated[float, Field(gt=0, lt=1e6, allow_inf_nan=False)] | None = None
    error: Amount | None = None
    clock_mhz: Amount | None = None
    power_w: Amount | None = None

    @property
    def place(self) -> tuple[str, int, int, int]:
        """What is compared with other shares."""
        return self.name, self.m, self.n, self.k

    @property
    def tflops(self) -> float:
        """2 m n k / seconds / 1e12."""
        return 2e-12 * self.m * self.n * self.k / self.seconds

    @property
    def where(self) -> str:
        return f"{self.m} x {self.n} x {self.k}"


@cache
def _cells() -> dict[tuple[str, str, int], Cell]:
    """Of all suites, by their places."""
    return {(one.suite, one.label, one.batch): one for one in cells()}


class BatchResult(Raced):
    """One contender in one batch of a suite.

    Attributes:
        host: seconds of the host's own part.
        error: largest |C - C*| / (|A| |B|) of some matrices against FP64.
    """

    suite: str
    label: str
    batch: int
    host: Annotated[float, Field(ge=0, lt=1e5, allow_inf_nan=False)]
    error: Amount

    @model_validator(mode="after")
    def _is_a_suites(self) -> BatchResult:
        if self.place[1:] not in _cells():
            raise ValueError("a batch of a suite of gemmgen bench")
        return self

    @property
    def place(self) -> tuple[str, str, str, int]:
        """What is compared with other shares."""
        return self.name, self.suite, self.label, self.batch

    @property
    def tflops(self) -> float:
        """Sum of 2 M N K / seconds / 1e12."""
        return 1e-12 * _cells()[self.place[1:]].flops / self.seconds

    @property
    def where(self) -> str:
        return _cells()[self.place[1:]].name


class Share(Strict):
    """One race on one machine.

    Attributes:
        day: of the race, UTC.
        gpu: the row of specs/gpus that the kernels were made for, which the title must name if it names one.
        power_limit: of the card, in watts, where it says so.
        low, high: what inputs were drawn from, uniformly.
        captured: whether batches were replayed from CUDA graphs: the GPU's time without the host's.
        results, batches: of single products or of batches.
    """

    format: Literal["gemmgen-share 1"]
    gemmgen: Version
    day: Annotated[str, Field(pattern=r"^20[0-9]{2}-[01][0-9]-[0-3][0-9]$")]
    device: Device
    gpu: Annotated[str, Field(pattern=IDENTIFIER)]
    driver: Version
    cuda: Version
    cublas: Version
    compiler: Version
    power_limit: Amount | None = None
    low: Literal[-1, 0]
    high: Literal[1]
    captured: bool = False
    results: Annotated[list[Result], Field(max_length=MOST_RESULTS)] = []
    batches: Annotated[list[BatchResult], Field(max_length=MOST_RESULTS)] = []

    @property
    def timed(self) -> Sequence[Result | BatchResult]:
        """Results of either kind."""
        return self.results or self.batches

    @model_validator(mode="after")
    def _agree(self) -> Share:
        if bool(self.results) == bool(self.batches):
            raise ValueError("results of single products, or of batches")
        date.fromisoformat(self.day)
        if (row := titled(self.device)) not in (None, self.gpu):
            raise ValueError(f'gpu = "{row}", the row of an {self.device}')
        if len({one.place for one in self.timed}) < len(self.timed):
            raise ValueError("each contender once at a size, or in a batch")
        return self


def titled(device: str) -> str | None:
    """The row of specs/gpus that a driver's title names; None where it names none."""
    return named_in(device, GPUS.names())


# ---- writing


class Origin(Strict):
    """What may be shared of a kernel that a table has.

    Attributes:
        called: its name in the table; name: its own, which its decisions make.
        size: the only one that it is made for.
    """

    called: str
    name: str
    scheme: str
    gpu: str
    layout: str
    compiler: str
    size: list[int] | None = None


class Made(Strict):
    """By what a table was made, and when: `bench --out` stores it beside the table, so that the table can be shared later."""

    gemmgen: str
    day: str
    captured: bool = False
    kernels: list[Origin]


def made(kernels: Sequence[Kernel], captured: bool = False) -> Made:
    """Of a race that is run now."""
    origins = [Origin(called=one.name, name=one.source.name, scheme=one.plan.scheme.name, gpu=one.plan.gpu.name, layout=one.plan.layout,
                      compiler=one.binary.compiler, size=list(one.size) if one.size else None) for one in kernels]
    return Made(gemmgen=__version__, day=f"{datetime.now(UTC):%Y-%m-%d}", captured=captured, kernels=origins)


def check(by: Made) -> None:
    """Before minutes are spent on a race.

    Raises:
        SpecError: it has no kernel that may be shared.
    """
    if not any(one.scheme in SCHEMES.names() and one.gpu in GPUS.names() for one in by.kernels):
        raise _nothing(", ".join(one.called for one in by.kernels) or "no kernel as it is built")


def _nothing(got: str) -> SpecError:
    return SpecError("--share", "has no kernel to share", got=got, needs="a kernel of a shipped scheme and GPU",
                     remedy="gemmgen bench sgemm_h100 --share results.json, of batches gemmgen bench batch_h200 --share results.json")


def share_of(table: Table, by: Made) -> tuple[Share, list[str]]:
    """(what of a race may be shared, notes on what is left out).

    Left out are a kernel's time without its split pass, what is derived from another's time, names of specs, notes, kernels of schemes or GPUs of one's own,
    whose names only their owner should publish, and of batches contenders that are no kernel as it is built: with another threshold, an upload, or two at once.

    Raises:
        SpecError: nothing is left, a name cannot be shared, or kernels are made for another GPU than they were timed on.
    """
    known: dict[tuple[str, tuple[int, ...] | None], Origin] = {}
    for one in by.kernels:
        known |= {(one.called, None): one, (one.name, tuple(one.size) if one.size else None): one}
    notes: list[str] = []
    first: Origin | None = None
    found: dict[tuple[Any, ...], Raced] = {}
    for row in table.rows:
        if row.kind not in ("kernel", "rival"):
            continue
        name, scheme, layout = row.name, "", ""
        if row.kind == "kernel":
            kernel = known.get((row.name, None)) if isinstance(row, BatchRow) else known.get((row.detail, row.size)) or known.get((row.detail, None))
            if kernel is None or kernel.scheme not in SCHEMES.names() or kernel.gpu not in GPUS.names():
                why = "it is no kernel as it is built" if kernel is None and isinstance(row, BatchRow) else "its scheme or GPU is your own"
                if (text := f"{row.name} is not shared: {why}") not in notes:
                    notes.append(text)
                continue
            first = first or kernel
            name, scheme, layout = kernel.name, kernel.scheme, kernel.layout
        one = {"kind": row.kind, "name": name, "scheme": scheme, "layout": layout,
               **{what: _short(value) for what, value in zip(("seconds", "first", "third"), (row.seconds, *row.spread))}}
        result: Raced
        if isinstance(row, BatchRow):
            result = parse(BatchResult, one | {"suite": row.suite, "label": row.label, "batch": row.batch, "rounds": len(row.rounds),
                                               "host": _short(row.host_seconds), "error": _short(row.scaled)}, "--share")
            found.setdefault((name, *row.cell), result)
        else:
            result = parse(Result, one | {"m": row.size[0], "n": row.size[1], "k": row.size[2], "rounds": row.rounds, **{
                what: _short(value) for what, value in (("ratio", row.ratio), ("error", row.relative_frobenius), ("clock_mhz", row.clock_mhz),
                                                        ("power_w", row.power_w))}}, "--share")
            found.setdefault((name, *row.size), result)
    if first is None:
        raise _nothing("; ".join(notes) or "rivals alone")
    if (title := titled(table.device)) not in (None, first.gpu):
        raise SpecError("--share", f"has kernels for {first.gpu}, timed on another GPU", got=table.device,
                        needs=f"kernels for {title}, whose title it is", remedy=f"--gpu {title}")
    said = table.environment
    inputs = {what: int(value) if value in (-1, 0, 1) else value for what, value in (("low", table.low), ("high", table.high))}
    watts = re.match(r"[0-9]+(\.[0-9]+)?", said.get("power limit", ""))
    value = {
        "format": FORMAT, "gemmgen": by.gemmgen, "day": by.day, "device": table.device, "gpu": first.gpu,
        "driver": said.get("driver", "unknown"), "cuda": said.get("CUDA runtime", "unknown"), "cublas": said.get("cuBLAS", "unknown"),
        "compiler": first.compiler, "power_limit": float(watts[0]) if watts else None, **inputs,
        "captured": by.captured, "batches" if table.batches else "results": [one.model_dump() for one in found.values()],
    }
    return parse(Share, value, "--share"), notes


def stored(path: Path) -> tuple[Table, Made]:
    """A bench.json or batches.json that `bench --out` wrote.

    Raises:
        SpecError: it cannot be read, is something else, or was written by a version that did not store what made it.
    """
    needs, remedy = "a bench.json or batches.json that gemmgen bench --out wrote", "gemmgen bench SPEC --out DIR --share FILE"
    try:
        value = json.loads(read(path, MOST_STORED))
        by, rows = value["made"], value["rows"]
        table = Table(value["device"], value["environment"], value["low"], value["high"], (), tuple(value["notes"]))
        several = TypeAdapter(list[BatchRow] if rows and "suite" in rows[0] else list[Row]).validate_python(rows)
        texts = [table.device, *table.environment, *table.environment.values()]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("the device, or what it says of itself")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        got = f"without {error}" if isinstance(error, KeyError) else "rows" if isinstance(error, ValidationError) else getattr(error, "strerror", None)
        raise SpecError(str(path), "cannot be read as a race", got=got or str(error)[:200], needs=needs, remedy=remedy) from None
    return replace(table, rows=tuple(several)), parse(Made, by, f"{path}: made")


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def as_json(share: Share) -> str:
    """A line for each fact and each result, so that a person can read what is shared."""
    facts = share.model_dump(exclude_defaults=True)
    kind = "results" if share.results else "batches"
    results = ",\n".join(f"  {json.dumps(one, allow_nan=False)}" for one in facts.pop(kind))
    return json.dumps(facts, indent=1, allow_nan=False).removesuffix("\n}") + f',\n "{kind}": [\n{results}\n ]\n}}\n'


# ---- reading


def load(path: Path) -> Share:
    """A file that `bench --share` wrote.

    Raises:
        SpecError: it cannot be read, or is something else.
    """
    try:
        value = json.loads(read(path, MOST_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise SpecError(path.name, "cannot be read as shared results", got=getattr(error, "strerror", None) or str(error)[:200],
                        needs="the JSON that gemmgen bench --share writes", remedy="gemmgen bench SPEC --share FILE") from None
    return parse(Share, value, path.name)


def folder(path: Path) -> list[Share]:
    """All shares of a folder, by their files' names.

    Raises:
        SpecError: as `load`.
    """
    return [load(one) for one in sorted(path.glob("*.json"))]


# ---- the page


def standing(share: Share, others: Sequence[Share]) -> str:
    """How far a share is to be believed: whether others of the same GPU, timing the same, agree; and what is wrong with it by itself."""
    told = []
    for one in share.timed:
        if (times := _times_roof(share, one)) > PLAUSIBLE:
            told.append(f"not plausible: {times:.2g} times the data sheet's rate at {one.where}")
            break
    mine: dict[Any, float] = {one.place: one.seconds for one in share.timed if one.kind == "kernel"}
    apart = []
    for other in others:
        theirs: dict[Any, float] = {one.place: one.seconds for one in other.timed} if other.captured == share.captured else {}
        logs = [log(seconds / theirs[place]) for place, seconds in mine.items() if place in theirs]
        if any(logs):  # times that are equal to the last digit are a copy's, or its own
            apart.append(sum(logs) / len(logs))
    agreeing = sum(abs(one) <= AGREE for one in apart)
    if agreeing:
        told.append(f"confirmed by {agreeing} other{'s' if agreeing > 1 else ''}")
    elif apart:
        off = exp(median(apart))
        told.append(f"contested: {100 * abs(off - 1):.0f} % {'slower' if off > 1 else 'faster'} than {len(apart)} other{'s' if len(apart) > 1 else ''}")
    else:
        told.append("the only one of its kernels")
    if share.gemmgen != __version__:
        told.append(f"of another version than {__version__}")
    if titled(share.device) is None:
        told.append(f"a GPU that no row describes, held against {share.gpu}'s data sheet")
    return "; ".join(told)


def _times_roof(share: Share, one: Result | BatchResult) -> float:
    """Speed over what the data sheet allows the scheme; 0 where that is not known."""
    if share.gpu not in GPUS.names() or one.scheme not in SCHEMES.names():
        return 0.0
    try:
        return one.tflops / roof(GPUS.get(share.gpu), SCHEMES.get(one.scheme))
    except KeyError:
        return 0.0


def page(shares: Sequence[Share]) -> str:
    """Markdown: for each GPU its shares with their standing, and the fastest kernel at each size."""
    by_device: dict[str, list[Share]] = {}
    for one in shares:
        by_device.setdefault(one.device, []).append(one)
    parts = []
    for device, mine in sorted(by_device.items()):
        lines = [f"### {device}", "", "| day | gemmgen | driver | compiler | CUDA | W | kernels | sizes | inputs | standing |",
                 "| --- | --- | --- | --- | --- | ---: | ---: | ---: | --- | --- |"]
        for one in sorted(mine, key=lambda one: one.day, reverse=True):
            kernels = [result for result in one.timed if result.kind == "kernel"]
            watts = "" if one.power_limit is None else f"{one.power_limit:.0f}"
            lines.append(f"| {one.day} | {one.gemmgen} | {one.driver} | {one.compiler} | {one.cuda} | {watts} "
                         f"| {len({result.name for result in kernels})} | {len({result.where for result in kernels})}{' batches' if one.batches else ''} "
                         f"| [{one.low}, {one.high}] | {standing(one, mine)} |")
        parts += [*lines, "", *_fastest([one for one in mine if one.results])]
        for captured in (False, True):
            parts += _fastest_batches([one for one in mine if one.batches and one.captured == captured], captured)
    return "\n".join(parts) or "No results yet."


def _fastest(shares: Sequence[Share]) -> list[str]:
    """Of each size the kernel with the least time, the median of all plausible ones in shares, among those with FP32's error where there are some."""
    if not shares:
        return []
    times: dict[tuple[int, int, int], dict[str, list[Result]]] = {}
    for share in shares:
        for one in share.results:
            if one.kind == "kernel" and _times_roof(share, one) <= PLAUSIBLE:
                times.setdefault((one.m, one.n, one.k), {}).setdefault(one.name, []).append(one)
    lines = ["| m x n x k | TFLOP/s | µs | x SGEMM | error | scheme | shares | kernel |", "| --- | ---: | ---: | ---: | ---: | --- | ---: | --- |"]
    for (m, n, k), kernels in sorted(times.items(), key=lambda one: (one[0][0] * one[0][1] * one[0][2], one[0])):
        fp32 = fp32_estimate(k, DISTRIBUTIONS["uniform"])
        name, of = min(kernels.items(), key=lambda one: (
            max(result.error if result.error is not None else inf for result in one[1]) > fp32, median(result.seconds for result in one[1])))
        seconds, ratios = median(one.seconds for one in of), [one.ratio for one in of if one.ratio is not None]
        errors = [one.error for one in of if one.error is not None]
        lines.append(f"| {m} x {n} x {k} | {2e-12 * m * n * k / seconds:.3g} | {1e6 * seconds:.4g} | {f'{median(ratios):.2f}' if ratios else ''} "
                     f"| {f'{max(errors):.1e}' if errors else ''} | {of[0].scheme} | {len(of)} | `{name}` |")
    return [*lines, ""]


def _fastest_batches(shares: Sequence[Share], captured: bool) -> list[str]:
    """Of each batch the kernel with the least time, the median of all plausible ones in shares, beside the fastest rival of the same races."""
    if not shares:
        return []
    times: dict[tuple[str, str, int], dict[str, list[tuple[BatchResult, BatchResult | None]]]] = {}
    for share in shares:
        rivals: dict[tuple[str, str, int], BatchResult] = {}
        for one in sorted((one for one in share.batches if one.kind == "rival"), key=lambda one: one.seconds):
            rivals.setdefault(one.place[1:], one)
        for one in share.batches:
            if _times_roof(share, one) <= PLAUSIBLE and one.kind == "kernel":
                times.setdefault(one.place[1:], {}).setdefault(one.name, []).append((one, rivals.get(one.place[1:])))
    what = "batch, from CUDA graphs" if captured else "batch"
    lines = [f"| {what} | GFLOP/s | µs | x fastest rival | rival | error | scheme | shares | kernel |",
             "| --- | ---: | ---: | ---: | --- | ---: | --- | ---: | --- |"]
    for place, kernels in sorted(times.items(), key=lambda one: list(_cells()).index(one[0])):
        name, of = min(kernels.items(), key=lambda one: median(result.seconds for result, _ in one[1]))
        seconds, ratios = median(one.seconds for one, _ in of), [rival.seconds / one.seconds for one, rival in of if rival is not None]
        against = ", ".join(sorted({rival.name for _, rival in of if rival is not None}))
        lines.append(f"| {_cells()[place].name} | {1e-9 * _cells()[place].flops / seconds:.0f} | {1e6 * seconds:.4g} "
                     f"| {f'{median(ratios):.2f}' if ratios else ''} | {against} | {max(one.error for one, _ in of):.1e} | {of[0][0].scheme} | {len(of)} "
                     f"| `{name}` |")
    return [*lines, ""]
