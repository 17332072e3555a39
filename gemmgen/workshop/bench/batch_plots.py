"""Pictures of a run of batches: ratio, latency and GFLOPS over the batch size, a panel for each range."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from gemmgen.workshop.bench.batches import BatchRow, by_cell, ratio
from gemmgen.workshop.bench.plots import drawing, saved

Curve = dict[str, list[tuple[float, float]]]


def plot_batches(device: str, rows: Iterable[BatchRow], folder: Path) -> list[Path]:
    """Draw ratio-SUITE.png, where a kernel ran, latency-SUITE.png and gflops-SUITE.png into `folder`.

    Raises:
        DeviceError: matplotlib is not installed.
    """
    drawing()
    rows, out = list(rows), []
    for suite in dict.fromkeys(row.suite for row in rows):
        mine = [row for row in rows if row.suite == suite]
        if {row.kind for row in mine} == {"kernel", "rival"}:
            out.append(_draw(device, mine, _ratios, "speed against each rival, paired rounds", folder / f"ratio-{suite}.png", level=1.0))
        out.append(_draw(device, mine, _of(lambda row: row.seconds * 1e6), "microseconds of a batch", folder / f"latency-{suite}.png"))
        out.append(_draw(device, mine, _of(lambda row: row.gflops), "GFLOPS, sum of 2 M N K / t", folder / f"gflops-{suite}.png"))
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


def _draw(
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
        curves: Curve = {}
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
