"""What a store says of a GPU in five lines: the best kernel with FP32's error, what it is worth beside plain FP32, what binds it, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, isfinite, log
from typing import Any

from gemmgen.errors import GemmgenError
from gemmgen.model.accuracy import DISTRIBUTIONS
from gemmgen.solve.contract import fp32_estimate
from gemmgen.solve.lookup import PLAIN
from gemmgen.verdict import OWN, VENDORS_OWN, Verdict, plain_of, summary
from gemmgen.solve.why import limits
from gemmgen.workshop.explore.own_rows import gpu_of
from gemmgen.workshop.explore.rebuilt import kernel_of, plan_of
from gemmgen.workshop.explore.trial_row import Row, possible

MOST_JUDGED = 24
"""Sizes that are held against plain FP32: one that nobody timed FP32 at costs a solve."""
SGEMM = "cublas-sgemm"
UNTIMED = ("modelled", "compiled", "right")
"""Verdicts of kernels that are known by their predicted time."""
Shape = tuple[int, int, int, str]
"""m, n, k, layout."""


def seconds_of(row: Row) -> float | None:
    """The time that a row is known by: measured, of a kernel that was not timed the predicted one; None of a kernel that is none, and of impossible times."""
    found = row.seconds if row.verdict == "timed" else row.predicted_seconds if row.kind == "kernel" and row.verdict in UNTIMED else None
    return found if possible("seconds", found) else None


def known(rows: Iterable[Row]) -> list[Row]:
    """Rows with a time. A row with a predicted time is left out where its kernel was timed at that size."""
    rows = [row for row in rows if seconds_of(row) is not None]
    timed = {_place(row) for row in rows if row.verdict == "timed"}
    return [row for row in rows if row.verdict == "timed" or _place(row) not in timed]


def _place(row: Row) -> tuple[Any, ...]:
    return row.gpu, kernel_of(row), row.m, row.n, row.k, row.layout


def fp32_times(rows: Iterable[Row]) -> dict[Shape, tuple[float, str, str]]:
    """Of each size at which plain FP32 was timed, by gemmgen's kernel or cuBLAS: (the least seconds, whose, the device)."""
    times: dict[Shape, tuple[float, str, str]] = {}
    for row in rows:
        whose = VENDORS_OWN if row.kind == "rival" and row.kernel == SGEMM else OWN if row.kind == "kernel" and row.scheme == PLAIN else ""
        if whose and row.verdict == "timed" and row.seconds:
            shape = row.m, row.n, row.k, row.layout
            times[shape] = min(times.get(shape, (float("inf"), "", "")), (row.seconds, whose, row.device))
    return times


def verdict_of(row: Row, fp32: Mapping[Shape, tuple[float, str, str]]) -> Verdict | None:
    """A row's kernel beside plain FP32: both measured, or both predicted; None where there is no plain FP32 to compare with.

    Args:
        fp32: as `fp32_times` gives it.
    """
    shape, measured = (row.m, row.n, row.k, row.layout), row.verdict == "timed"
    try:
        if measured and shape in fp32:
            seconds, (plain, whose, device) = row.seconds, fp32[shape]
        else:
            seconds, device = row.predicted_seconds, ""
            plain, whose = plain_of(gpu_of(row), *shape)
    except GemmgenError:
        return None
    if not seconds:
        return None
    error = error_of(row)
    return Verdict(row.gpu, *shape[:3], seconds, plain, whose, error / _fp32s(row) if error else 1.0, row.scheme, measured=device)


def error_of(row: Row) -> float | None:
    """Measured, else predicted; None where it is not known."""
    found = row.error if row.error is not None else row.predicted_error
    return found if found is not None and isfinite(found) and found > 0 else None


def _fp32s(row: Row) -> float:
    return fp32_estimate(row.k, DISTRIBUTIONS["uniform"])


@dataclass(frozen=True)
class Headline:
    """Of one GPU.

    Attributes:
        row: of the fastest kernel at the largest size, among those with FP32's error where there are some.
        verdict: of it; None where there is no plain FP32 to compare with.
        mean: the best kernels of all sizes beside plain FP32, in a line; empty likewise.
        bound: shares of the predicted time by resource, the largest first.
        sure: what the times rest on, in a line.
    """

    row: Row
    verdict: Verdict | None
    mean: str
    bound: tuple[tuple[str, float], ...]
    sure: str


def headline(rows: Sequence[Row], judged: int = MOST_JUDGED) -> Headline | None:
    """Of the rows of one GPU; None where no kernel has a time.

    Args:
        judged: sizes that `mean` is of at most, the largest; 0 leaves it empty.
    """
    best: dict[Shape, Row] = {}
    for row in known(rows):
        shape = row.m, row.n, row.k, row.layout
        if row.kind == "kernel" and (shape not in best or _rank(row) < _rank(best[shape])):
            best[shape] = row
    if not best:
        return None
    fp32 = fp32_times(rows)
    largest = sorted(best, key=lambda shape: (-shape[0] * shape[1] * shape[2], shape))
    verdicts = [found for shape in largest[:judged] if (found := verdict_of(best[shape], fp32))]
    first = best[largest[0]]
    try:
        bound = limits(plan_of(first))
    except GemmgenError:  # a kernel of another version
        bound = ()
    return Headline(first, verdict_of(first, fp32), summary(verdicts) if verdicts else "", bound, _sure(rows, first))


def _rank(row: Row) -> tuple[bool, bool, float]:
    """FP32's error comes first, then measured times, then the least."""
    error = error_of(row)
    return error is None or error > _fp32s(row), row.verdict != "timed", seconds_of(row) or float("inf")


def _sure(rows: Sequence[Row], row: Row) -> str:
    logs = [log(one.seconds / one.predicted_seconds) for one in rows if one.kind == "kernel" and one.verdict == "timed" and possible("seconds", one.seconds)
            and possible("predicted_seconds", one.predicted_seconds)]
    off = f"the model is off by {100 * (exp(sum(map(abs, logs)) / len(logs)) - 1):.0f} % in the mean of {len(logs):,} timed kernels" if logs else ""
    if row.verdict == "timed":
        rounds = f"the median of {row.rounds} rounds" if row.rounds else "one time"
        spread = f", half of which lie within {100 * row.spread:.1f} %" if row.spread is not None else ""
        return "; ".join(filter(None, (f"measured on {row.device or row.gpu}: {rounds}{spread}", off)))
    judged = {"modelled": "not compiled", "compiled": "compiled, not run", "right": "judged right on the emulator"}[row.verdict]
    return f"predicted; the kernel is {judged}; " + (off or f"no kernel of {row.gpu} was timed here")
