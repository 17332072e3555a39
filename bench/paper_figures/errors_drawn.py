"""Pictures of what `errors` measured: histograms of errors, and the plane of speed and error."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from paper_figures.common import saved
from paper_figures.errors import HISTOGRAM_SIZE, HISTOGRAMS, SIGNED, resolved

from gemmgen.errors import DeviceError
from gemmgen.picture import drawing, labelled


def plot(document: dict, folder: Path) -> list[Path]:
    """Draw what the document holds.

    Raises:
        DeviceError: matplotlib is not installed, or a contestant of the histograms was not measured.
    """
    drawing()
    drawn = []
    if document["histograms"]:
        drawn.append(_draw_histograms(document, folder / "histograms.png"))
    if document["plane"]:
        drawn.append(_draw_plane(document, folder / "plane.png"))
    return drawn


def histogram_of(document: dict, name: str, kind: str, reference: str) -> dict:
    """A stored histogram.

    Raises:
        DeviceError: there is none of that contestant.
    """
    for row in document["histograms"]:
        if (row["contestant"], row["error"], row["reference"]) == (name, kind, reference):
            return row
    raise DeviceError(
        f"{name}: histogram", "was not measured", got=f"{kind} error against {reference}",
        has="; ".join(sorted({row["contestant"] for row in document["histograms"]})) or "no contestant at all",
        remedy=f"measure with --sizes {HISTOGRAM_SIZE}",
    )


def _draw_histograms(document: dict, path: Path) -> Path:
    """One column a contestant, one row a kind of error, against FP64. All but plain half share an axis."""
    import matplotlib.pyplot as plt

    names = [resolved(name, promotion, document["own"]) for name, promotion in HISTOGRAMS]
    figure, axes = plt.subplots(len(SIGNED), len(names), figsize=(2.7 * len(names), 5.6), squeeze=False)
    for line, (kind, (label, _)) in zip(axes, SIGNED.items()):
        found = [histogram_of(document, name, kind, "FP64") for name in names]
        reach = max(row["edges"][-1] for name, row in zip(names, found) if not name.startswith("half"))
        for axis, name, row in zip(line, names, found):
            edges, counts = np.array(row["edges"]), np.array(row["counts"])
            density = counts / counts.sum() / np.diff(edges)
            axis.stairs(density[1:-1], edges[1:-1], fill=True)  # the end bins hold what lies beyond: told in words
            axis.text(0.98, 0.95, f"{(counts[0] + counts[-1]) / counts.sum():.1%} beyond", fontsize=7,
                      transform=axis.transAxes, ha="right", va="top")
            axis.set_title(name, fontsize=9)
            axis.set_xlabel(label, fontsize=7)
            axis.ticklabel_format(style="sci", scilimits=(-2, 2))
            axis.tick_params(labelsize=7)
            if not name.startswith("half"):
                axis.set_xlim(-reach, reach)
        line[0].set_ylabel("density", fontsize=7)
    title = f"error of each element at {HISTOGRAM_SIZE}^3 against FP64, {document['device']}; half has its own scale"
    figure.suptitle(title, fontsize=10)
    figure.tight_layout()
    return saved(figure, path)


FLOOR = 1e-8
"""What errs less is drawn here, as a triangle with its error beside it: FP64 would flatten all the rest."""


def _draw_plane(document: dict, path: Path) -> Path:
    """Error against speed, a panel for each size (LE-GEMM figure 18)."""
    import matplotlib.pyplot as plt

    sizes = sorted({row["size"] for row in document["plane"]})
    figure, axes = plt.subplots(1, len(sizes), figsize=(11 * len(sizes), 9), squeeze=False)
    panels = [(axis, [row for row in document["plane"] if row["size"] == size]) for axis, size in zip(axes[0], sizes)]
    bases = list(dict.fromkeys(row["contestant"].split(",")[0] for row in document["plane"]))
    for axis, rows in panels:
        for row in rows:
            _point(axis, row, bases)
        axis.set(xscale="log", yscale="log", title=f"{rows[0]['size']}^3, {document['device']}")
        axis.set_xlabel("TFLOP/s, 2 M N K / t, split pass included")
        axis.set_ylabel("relative Frobenius error against FP64")
        axis.margins(0.12)
    for axis, rows in panels:
        labelled(axis, [(_name(row), row["tflops"], _height(row)) for row in rows])
    return saved(figure, path)


def _point(axis: Any, row: dict, bases: Sequence[str]) -> None:
    """Squares are cuBLAS, circles ours, one colour a scheme; hollow where the unit's sums are never promoted."""
    base, _, promotion = row["contestant"].partition(", ")
    library = base.startswith("cuBLAS")
    colour = "black" if library else f"C{bases.index(base) % 10}"
    axis.plot(
        row["tflops"], _height(row), markersize=5.5, marker="v" if row["relative_frobenius"] < FLOOR else "s" if library else "o", linestyle="none",
        color=colour, markerfacecolor="none" if promotion == "none" else colour,
    )


def _height(row: dict) -> float:
    return max(row["relative_frobenius"], FLOOR)


def _name(row: dict) -> str:
    below = row["relative_frobenius"] < FLOOR
    return row["contestant"] + (f" ({row['relative_frobenius']:.0e})" if below else "")
