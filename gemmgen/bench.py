"""How fast: generated kernels beside cuBLAS, in one interleaved run, as ratios.

Times are total: the split pass and every other kernel of the Source counted.
Ratios are paired, round by round, and their interval is the median's
distribution-free 95 % interval over the rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import ceil, sqrt
from typing import Any

import numpy as np

from gemmgen.build import Binary
from gemmgen.errors import DeviceError
from gemmgen.plan import Plan
from gemmgen.render import Source

BASELINE = "cuBLAS SGEMM"


@dataclass(frozen=True)
class Row:
    """One contender at one size.

    Attributes:
        size: (m, n, k).
        seconds: median of one product.
        spread: (first, third) quartile of it.
        tflops: 2 m n k / seconds / 1e12.
        ratio: speed against the baseline, the median of the paired rounds.
        interval: 95 % interval of the ratio.
        relative_frobenius: error against FP64 on the bench's own data; None for none asked.
    """

    size: tuple[int, int, int]
    name: str
    seconds: float
    spread: tuple[float, float]
    tflops: float
    ratio: float
    interval: tuple[float, float]
    relative_frobenius: float | None = None


@dataclass(frozen=True)
class Table:
    """A bench's outcome: where it ran, under which conditions, and its rows."""

    device: str
    conditions: dict[int, dict[str, str]]
    rounds: int
    low: float
    high: float
    rows: tuple[Row, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def bench(
    kernels: Sequence[tuple[str, Plan, Source, Binary]], sizes: Sequence[tuple[int, int, int]], *,
    rounds: int = 15, slice_ms: float = 30.0, low: float = -1.0, high: float = 1.0, errors: bool = True,
    progress: Callable[[str], None] = lambda text: None,
) -> Table:
    """Time `kernels` and cuBLAS's SGEMM, TF32 and FP16 at each size.

    Args:
        kernels: (name in the table, plan, source, binary).
        sizes: (m, n, k) each.
        rounds: times each contender runs, for about `slice_ms`.
        low, high: uniform inputs between them, drawn in FP64 and rounded.
        errors: also compute each contender's error on the same data.

    Raises:
        DeviceError: no CUDA GPU, or it cannot run one of the kernels.
    """
    from gemmgen.run import cuda, timing

    for _, plan, _, _ in kernels:
        reason = cuda.why_not(plan.gpu)
        if reason is not None:
            reason.where = "bench"
            raise reason
    rows: list[Row] = []
    conditions: dict[int, dict[str, str]] = {}
    for size in sizes:
        progress("x".join(map(str, size)))
        inputs = timing.Inputs(size, low, high)
        contenders = [timing.cublas(name, inputs) for name in timing.CUBLAS]
        contenders += [timing.generated(name, plan, source, binary, inputs) for name, plan, source, binary in kernels]
        timing.race(contenders, rounds=rounds, slice_ms=slice_ms)
        conditions[len(rows)] = timing.conditions()
        base = np.array(next(c.seconds for c in contenders if c.name == BASELINE))
        for contender in contenders:
            error = timing.error_of(contender, inputs) if errors else None
            rows.append(_row(size, contender.name, np.array(contender.seconds), base, error))
    device = next(iter(conditions.values()), {}).get("name", "")
    return Table(device or timing.device_name(), conditions, rounds, low, high, tuple(rows))


def _row(size: tuple[int, int, int], name: str, seconds: np.ndarray, base: np.ndarray, error: float | None) -> Row:
    median = float(np.median(seconds))
    ratios = np.sort(base / seconds)
    m, n, k = size
    return Row(
        size=size, name=name, seconds=median,
        spread=(float(np.quantile(seconds, 0.25)), float(np.quantile(seconds, 0.75))),
        tflops=2.0 * m * n * k / median / 1e12, ratio=float(np.median(ratios)),
        interval=median_interval(ratios), relative_frobenius=error,
    )


def median_interval(ordered: np.ndarray) -> tuple[float, float]:
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


def as_text(table: Table) -> str:
    """The table as people read it: ratios first."""
    lines = [f"device  {table.device}"]
    for at, state in table.conditions.items():
        if state:
            lines.append(
                f"        at {_by(table.rows[at].size)}: SM clock {state.get('clocks.sm')}, power {state.get('power.draw')} of "
                f"{state.get('power.limit')}, {state.get('temperature.gpu')} C, driver {state.get('driver_version')}"
            )
    lines.append(
        f"{table.rounds} interleaved rounds, uniform data in [{table.low:g}, {table.high:g}], rotating inputs, "
        "total time with the split pass"
    )
    width = max(len(row.name) for row in table.rows)
    lines.append(f"{'m x n x k':>20}  {'x SGEMM':>8}  {'95 %':>13}  {'TFLOP/s':>8}  {'us':>10}  {'quartiles':>19}  {'error':>8}  kernel")
    for row in table.rows:
        error = "" if row.relative_frobenius is None else f"{row.relative_frobenius:.1e}"
        quartiles = f"{row.spread[0] * 1e6:.1f}-{row.spread[1] * 1e6:.1f}"
        lines.append(
            f"{_by(row.size):>20}  {row.ratio:>8.2f}  {row.interval[0]:>6.2f}-{row.interval[1]:<6.2f}  {row.tflops:>8.1f}  "
            f"{row.seconds * 1e6:>10.1f}  {quartiles:>19}  {error:>8}  {row.name:<{width}}".rstrip()
        )
    return "\n".join(lines)


def _by(size: tuple[int, int, int]) -> str:
    return " x ".join(map(str, size))


def plot(table: Table, path: str) -> None:
    """Speed against size, and error against speed, as an image.

    Raises:
        DeviceError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise DeviceError("--plot", "matplotlib is not installed", remedy="pip install 'gemmgen[plot]'") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (speed, plane) = plt.subplots(1, 2, figsize=(13, 5))
    for name in dict.fromkeys(row.name for row in table.rows):
        mine = [row for row in table.rows if row.name == name]
        extent = [(row.size[0] * row.size[1] * row.size[2]) ** (1 / 3) for row in mine]
        speed.plot(extent, [row.tflops for row in mine], marker="o", label=name)
        if all(row.relative_frobenius for row in mine):
            plane.scatter([row.tflops for row in mine], [row.relative_frobenius for row in mine], label=name)
    speed.set(xlabel="(m n k)^(1/3)", ylabel="TFLOP/s, total", xscale="log", yscale="log", title=table.device)
    plane.set(xlabel="TFLOP/s, total", ylabel="relative Frobenius error", xscale="log", yscale="log", title="error against speed")
    speed.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
