"""Results to share: what `bench --share` writes of a race, and the page that a folder of such files becomes, by GPU.

A file says which GPU, driver, compiler and version of gemmgen, and of each contender and size the time and the error. It has no field for a path, a host or a
person, and texts have the letters that names of GPUs, versions and kernels have: so what is not meant to be shared has no place in it, and a text of somebody
else's file is no markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from math import exp, inf, log
from pathlib import Path
from statistics import median
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gemmgen import __version__
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.catalog.table import IDENTIFIER, Strict, parse
from gemmgen.drivers import named_in
from gemmgen.errors import SpecError
from gemmgen.files import read
from gemmgen.model.accuracy import DISTRIBUTIONS
from gemmgen.solve.contract import fp32_estimate
from gemmgen.workshop.bench.measure import Kernel
from gemmgen.workshop.bench.race_table import Table
from gemmgen.workshop.bench.statistics import Row
from gemmgen.workshop.explore.report.judged import roof

FORMAT = "gemmgen-share 1"
MOST_BYTES = 1 << 21
"""Of a file."""
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


class Result(Strict):
    """One contender at one size.

    Attributes:
        name: the kernel's, which its decisions make, or the rival's.
        scheme, layout: of a kernel; empty of a rival.
        seconds: median of one product with all its passes; first, third: its quartiles.
        rounds: of the race.
        ratio: speed against cuBLAS SGEMM in the same rounds.
        error: relative Frobenius, against FP64.
        clock_mhz, power_w: medians while it ran.
    """

    m: Extent
    n: Extent
    k: Extent
    kind: Literal["kernel", "rival"]
    name: str
    scheme: Annotated[str, Field(pattern=f"{IDENTIFIER}|^$")] = ""
    layout: Literal["", "nn", "nt", "tn", "tt"] = ""
    seconds: Seconds
    first: Seconds
    third: Seconds
    rounds: Annotated[int, Field(ge=2, le=100_000)]
    ratio: Annotated[float, Field(gt=0, lt=1e6, allow_inf_nan=False)] | None = None
    error: Amount | None = None
    clock_mhz: Amount | None = None
    power_w: Amount | None = None

    @model_validator(mode="after")
    def _is_named(self) -> Result:
        if not re.fullmatch(NAME if self.kind == "kernel" else RIVAL, self.name):
            raise ValueError(f"the name of a {self.kind}, in small letters and digits")
        return self

    @property
    def place(self) -> tuple[str, int, int, int]:
        """What is compared with other shares."""
        return self.name, self.m, self.n, self.k

    @property
    def tflops(self) -> float:
        """2 m n k / seconds / 1e12."""
        return 2e-12 * self.m * self.n * self.k / self.seconds


class Share(Strict):
    """One race on one machine.

    Attributes:
        day: of the race, UTC.
        gpu: the row of specs/gpus that the kernels were made for, which the title must name if it names one.
        power_limit: of the card, in watts, where it says so.
        low, high: what inputs were drawn from, uniformly.
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
    results: Annotated[list[Result], Field(min_length=1, max_length=MOST_RESULTS)]

    @model_validator(mode="after")
    def _agree(self) -> Share:
        date.fromisoformat(self.day)
        if (row := titled(self.device)) not in (None, self.gpu):
            raise ValueError(f'gpu = "{row}", the row of an {self.device}')
        if len({one.place for one in self.results}) < len(self.results):
            raise ValueError("each contender once at a size")
        return self


def titled(device: str) -> str | None:
    """The row of specs/gpus that a driver's title names; None where it names none."""
    return named_in(device, GPUS.names())


# ---- writing


def share_of(table: Table, kernels: Sequence[Kernel]) -> tuple[Share, list[str]]:
    """(what of a race of single products may be shared, notes on what is left out).

    Left out are a kernel's time without its split pass, what is derived from another's time, names of specs, notes, and kernels of schemes or GPUs of one's
    own, whose names only their owner should publish.

    Raises:
        SpecError: nothing is left, a name cannot be shared, or kernels are made for another GPU than they were timed on.
    """
    known = {(kernel.source.name, kernel.size): kernel for kernel in kernels}
    notes: list[str] = []
    first: Kernel | None = None
    found: dict[tuple[str, int, int, int], Result] = {}
    for row in table.rows:
        if not isinstance(row, Row) or row.kind not in ("kernel", "rival"):
            continue
        name, scheme, layout = row.name, "", ""
        if row.kind == "kernel":
            kernel = known.get((row.detail, row.size)) or known.get((row.detail, None))
            if kernel is None or kernel.plan.scheme.name not in SCHEMES.names() or kernel.plan.gpu.name not in GPUS.names():
                if (text := f"{row.name} is not shared: its scheme or GPU is your own") not in notes:
                    notes.append(text)
                continue
            first = first or kernel
            name, scheme, layout = row.detail, kernel.plan.scheme.name, kernel.plan.layout
        one = {"m": row.size[0], "n": row.size[1], "k": row.size[2], "kind": row.kind, "name": name, "scheme": scheme, "layout": layout,
               "rounds": row.rounds, **{what: _short(value) for what, value in (
                   ("seconds", row.seconds), ("first", row.spread[0]), ("third", row.spread[1]), ("ratio", row.ratio),
                   ("error", row.relative_frobenius), ("clock_mhz", row.clock_mhz), ("power_w", row.power_w))}}
        found.setdefault((name, *row.size), parse(Result, one, "--share"))
    if first is None:
        raise SpecError("--share", "has no kernel to share", got="; ".join(notes) or "rivals alone", needs="a kernel of a shipped scheme and GPU",
                        remedy="gemmgen bench specs/kernels/sgemm_h100.toml --share results.json")
    if (row := titled(table.device)) not in (None, first.plan.gpu.name):
        raise SpecError("--share", f"has kernels for {first.plan.gpu.name}, timed on another GPU", got=table.device,
                        needs=f"kernels for {row}, whose title it is", remedy=f"--gpu {row}")
    said = table.environment
    watts = re.match(r"[0-9]+(\.[0-9]+)?", said.get("power limit", ""))
    value = {
        "format": FORMAT, "gemmgen": __version__, "day": f"{datetime.now(UTC):%Y-%m-%d}", "device": table.device, "gpu": first.plan.gpu.name,
        "driver": said.get("driver", "unknown"), "cuda": said.get("CUDA runtime", "unknown"), "cublas": said.get("cuBLAS", "unknown"),
        "compiler": first.binary.compiler, "power_limit": float(watts[0]) if watts else None, "low": int(table.low), "high": int(table.high),
        "results": [one.model_dump() for one in found.values()],
    }
    return parse(Share, value, "--share"), notes


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def as_json(share: Share) -> str:
    """A line for each fact and each result, so that a person can read what is shared."""
    facts = share.model_dump(exclude_defaults=True)
    results = ",\n".join(f"  {json.dumps(one, allow_nan=False)}" for one in facts.pop("results"))
    return json.dumps(facts, indent=1, allow_nan=False).removesuffix("\n}") + f',\n "results": [\n{results}\n ]\n}}\n'


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
    for one in share.results:
        if (times := _times_roof(share, one)) > PLAUSIBLE:
            told.append(f"not plausible: {times:.2g} times the data sheet's rate at {one.m} x {one.n} x {one.k}")
            break
    mine = {one.place: one.seconds for one in share.results if one.kind == "kernel"}
    apart = []
    for other in others:
        theirs = {one.place: one.seconds for one in other.results}
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


def _times_roof(share: Share, one: Result) -> float:
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
            kernels = [result for result in one.results if result.kind == "kernel"]
            watts = "" if one.power_limit is None else f"{one.power_limit:.0f}"
            lines.append(f"| {one.day} | {one.gemmgen} | {one.driver} | {one.compiler} | {one.cuda} | {watts} "
                         f"| {len({result.name for result in kernels})} | {len({(result.m, result.n, result.k) for result in kernels})} "
                         f"| [{one.low}, {one.high}] | {standing(one, mine)} |")
        parts += [*lines, "", *_fastest(mine), ""]
    return "\n".join(parts) or "No results yet."


def _fastest(shares: Sequence[Share]) -> list[str]:
    """Of each size the kernel with the least time, the median of all plausible ones in shares, among those with FP32's error where there are some."""
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
    return lines
