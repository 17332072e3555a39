"""Pictures of a bench's rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmgen.model.accuracy import TOLD
from gemmgen.solve.contract import EVERYWHERE
from gemmgen.picture import content, drawing
from gemmgen.workshop.bench.race_table import by
from gemmgen.workshop.bench.statistics import SGEMM, BatchRow, Row, by_cell, ratio

if TYPE_CHECKING:
    from gemmgen.workshop.bench.measured_frontier import Frontiers

SPEED_NAME, ERROR_NAME = "speed.png", "error.png"


def plot(device: str, rows: Iterable[Row] | Iterable[BatchRow], folder: Path) -> list[Path]:
    """Draw TFLOP/s against size and error against speed, or of batches ratio, latency and GFLOPS over the batch size, into `folder`.

    Raises:
        DeviceError: matplotlib is not installed.
    """
    drawing()
    every = list(rows)
    if batches := [row for row in every if isinstance(row, BatchRow)]:
        return _plot_batches(device, batches, folder)
    rows = [row for row in every if isinstance(row, Row)]
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
    return saved(figure, path)


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
    return saved(figure, path)


def saved(figure: Any, path: Path) -> Path:
    """Write a figure and close it."""
    import matplotlib.pyplot as plt

    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


# ---- batches


def _plot_batches(device: str, rows: Sequence[BatchRow], folder: Path) -> list[Path]:
    """Draw ratio-SUITE.png, where a kernel ran, latency-SUITE.png and gflops-SUITE.png into `folder`."""
    out = []
    for suite in dict.fromkeys(row.suite for row in rows):
        mine = [row for row in rows if row.suite == suite]
        if {row.kind for row in mine} == {"kernel", "rival"}:
            out.append(_draw_cells(device, mine, _ratios, "speed against each rival, paired rounds", folder / f"ratio-{suite}.png", level=1.0))
        out.append(_draw_cells(device, mine, _of(lambda row: row.seconds * 1e6), "microseconds of a batch", folder / f"latency-{suite}.png"))
        out.append(_draw_cells(device, mine, _of(lambda row: row.gflops), "GFLOPS, sum of 2 M N K / t", folder / f"gflops-{suite}.png"))
    return out


def _of(value: Callable[[BatchRow], float]) -> Callable[[Sequence[BatchRow]], dict[str, float]]:
    """A figure of each contender of a cell."""
    return lambda field: {row.name: value(row) for row in field}


def _ratios(field: Sequence[BatchRow]) -> dict[str, float]:
    """Of each kernel against each rival; the kernel is named where several ran."""
    kernels, others = ([row for row in field if row.kind == kind] for kind in ("kernel", "rival"))
    return {
        other.name if len(kernels) == 1 else f"{kernel.name} / {other.name}": ratio(other, kernel)[0] for kernel in kernels for other in others
    }


def _draw_cells(
    device: str, rows: Sequence[BatchRow], figures: Callable[[Sequence[BatchRow]], dict[str, float]], ylabel: str, path: Path,
    level: float | None = None,
) -> Path:
    """Ranges of the paper side by side over the batch size; cells of another suite one beside the other in one panel."""
    import matplotlib.pyplot as plt

    cells = by_cell(rows)
    ranges = {row.label: (row.max_mn, row.max_k) for row in rows if row.max_mn}
    across = len({most_k for _, most_k in ranges.values()}) or 1
    panels = list(ranges) or [""]
    down = -(-len(panels) // across)
    more = (0.0, 0.0) if ranges else (4.0, 2.0)  # room for the names of cells
    figure, axes = plt.subplots(down, across, figsize=(4.5 * across + more[0], 3.2 * down + more[1]), squeeze=False, sharey=True)
    kernels = {row.name for row in rows if row.kind == "kernel"}
    colours: dict[str, str] = {}
    for axis, label in zip(axes.flat, panels):
        curves: dict[str, list[tuple[float, float]]] = {}
        for at, (cell, field) in enumerate(cells.items()):
            if not ranges or cell[1] == label:
                for name, figure_of in figures(field).items():
                    curves.setdefault(name, []).append((cell[2] if ranges else at, figure_of))
        for name, points in curves.items():
            colour = colours.setdefault(name, f"C{len(colours) % 10}")
            axis.plot(*zip(*sorted(points)), label=name, color=colour, linewidth=2.2 if name in kernels else 1.1, marker="o", markersize=3,
                      linestyle="-" if ranges else "none")
        if level is not None:
            axis.axhline(level, color="black", linewidth=0.8)
        axis.set(yscale="log")
        axis.grid(alpha=0.3)
        if ranges:
            axis.set(xscale="log", title=f"M, N to {ranges[label][0]}, K to {ranges[label][1]}", xlabel="products in the batch")
            sizes = sorted({row.batch for row in rows if row.label == label})
            axis.set_xticks(sizes, [str(size) for size in sizes])
            axis.set_xticks([], minor=True)
        else:
            axis.set_xticks(range(len(cells)), [f"{label} x {batch}" for _, label, batch in cells], rotation=60, ha="right", fontsize=7)
    for axis in axes.flat[len(panels):]:
        axis.set_visible(False)
    for row_of_axes in axes:
        row_of_axes[0].set_ylabel(ylabel, fontsize=8)
    axes[0][-1].legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.02, 1))
    figure.suptitle(device)
    return saved(figure, path)


# ---- the frontier


def measured_frontier_image(found: Frontiers, suffix: str) -> bytes:
    """Measured error against measured time: a panel for each size and kind of data, a point a scheme or rival; those that no other beats are joined.

    Args:
        suffix: of `gemmgen.picture.IMAGES`.

    Raises:
        DeviceError: matplotlib is not installed.
    """
    drawing()
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(found.sizes), len(EVERYWHERE), figsize=(6 * len(EVERYWHERE), 5 * len(found.sizes)), squeeze=False)
    for line, one in zip(axes, found.sizes):
        for axis, data in zip(line, EVERYWHERE):
            best = [entry for entry in one.entries if data in one.best_on(entry)]
            axis.plot([1e3 * entry.seconds for entry in best], [entry.error(data) for entry in best], color="black", linewidth=1)
            for entry in one.entries:
                at, colour = (1e3 * entry.seconds, entry.error(data)), "C3" if entry.kind == "rival" else "black" if entry in best else "C7"
                if entry.kind == "derived":  # a time without an error
                    axis.axvline(at[0], color="C3", linewidth=0.8, linestyle="--")
                    axis.annotate(entry.name, (at[0], 0.02), xycoords=("data", "axes fraction"), rotation=90, fontsize=6, color="C3")
                elif 0 < at[1] < math.inf:
                    axis.plot(*at, marker="s" if entry.kind == "rival" else "o", color=colour, markerfacecolor=None if entry in best else "none")
                    axis.annotate(entry.name, at, textcoords="offset points", xytext=(5, 3), fontsize=6, color=colour)
            axis.set(xscale="log", yscale="log", title=f"{by(one.size)}, {TOLD[data]}", xlabel="ms, split pass included")
            axis.grid(alpha=0.3)
        line[0].set_ylabel("relative Frobenius error against FP64")
    figure.suptitle(f"{found.device}, measured")
    return content(figure, suffix)
