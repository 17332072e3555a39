"""Rows out of the seconds of rounds: medians, quartiles, and paired ratios with their intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import ceil, exp, log, sqrt
from typing import Any, NamedTuple

import numpy as np

from gemmgen.run.sensors import Sample, throttle_names
from gemmgen.timing import Accuracy
from gemmgen.timing.batches import PADDED

SGEMM, F16, F16_THIRD = "cublas-sgemm", "cublas-f16", "cublas-f16/3"
DERIVED = {F16_THIRD: (F16, 3), "cublas-int8/4": ("cublas-int8", 4), "cublas-int8/8": ("cublas-int8", 8)}
"""Lines that are so many times the time of another: what as many products of words would take at its speed."""
Size = tuple[int, int, int]
Interval = tuple[float, float]


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
    accuracy: Accuracy | None = None


def derived(entries: Sequence[Timed], against: Sequence[str]) -> list[Timed]:
    """The entries, and behind each the lines of so many times its time, where these are asked."""
    out: list[Timed] = []
    for entry in entries:
        out.append(entry)
        for name, (base, times) in DERIVED.items():
            if entry.name == base and name in against:
                out.append(Timed(name, "derived", times * entry.seconds, f"{times} x the time of {base}", entry.samples))
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


# ---- batches


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
