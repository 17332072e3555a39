"""Plots of a store, as plotly figures: for notebooks, or a page of one's own. The report draws its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gemmgen.errors import UnknownName
from gemmgen.workshop.explore.extras import library
from gemmgen.workshop.explore.headline import error_of, known, seconds_of
from gemmgen.workshop.explore.trial_row import Row, possible

if TYPE_CHECKING:
    import plotly.graph_objects


def figure(name: str, rows: Sequence[Row], title: str = "") -> plotly.graph_objects.Figure:
    """A plot of rows; points with a predicted time are hollow.

    Args:
        name: one of FIGURES.

    Raises:
        UnknownName: there is no such plot. GemmgenError: plotly is missing.
    """
    if name not in FIGURES:
        raise UnknownName("study.figure", "plot", name, FIGURES)
    x, y, axes, chosen = FIGURES[name]
    graphs = library("plotly.graph_objects")
    made, series = graphs.Figure(), {}
    for row in chosen([row for row in known(rows) if row.kind != "reference"]):
        if x(row) is not None and y(row) is not None:
            series.setdefault((row.gpu, row.scheme if row.kind == "kernel" else row.kernel), []).append(row)
    several = len({gpu for gpu, _ in series}) > 1
    for (gpu, scheme), mine in sorted(series.items()):
        made.add_scatter(
            x=[x(row) for row in mine], y=[y(row) for row in mine], mode="markers", name=_plain(f"{gpu} {scheme}" if several else scheme),
            text=[_plain(f"{row.kernel} at {row.m} x {row.n} x {row.k} {row.layout}") for row in mine], hovertemplate="%{text}<br>%{x:.4g}, %{y:.3g}",
            marker={"symbol": ["circle" if row.verdict == "timed" else "circle-open" for row in mine]},
        )
    times = {row.verdict == "timed" for mine in series.values() for row in mine}
    told = {frozenset({True}): "measured", frozenset({False}): "predicted"}.get(frozenset(times), "hollow: predicted")
    across, up, logarithmic = axes
    made.update_layout(title={"text": _plain(f"{title} ({told})" if times else f"{title}: no kernel has a time")})
    made.update_xaxes(title_text=across, **({"type": "log"} if "x" in logarithmic else {}))
    made.update_yaxes(title_text=up, **({"type": "log"} if "y" in logarithmic else {}))
    return made


def _plain(text: str) -> str:
    """plotly reads marks in its texts."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _tflops(row: Row) -> float | None:
    seconds = seconds_of(row)
    return 2e-12 * row.m * row.n * row.k / seconds if seconds else None


def _edge(row: Row) -> float:
    return float(row.m * row.n * row.k) ** (1 / 3)


def _predicted(row: Row) -> float | None:
    return 1e6 * row.predicted_seconds if row.predicted_seconds is not None and possible("predicted_seconds", row.predicted_seconds) else None


def _measured(row: Row) -> float | None:
    return 1e6 * row.seconds if row.verdict == "timed" and row.seconds else None


def _fastest(rows: Sequence[Row]) -> list[Row]:
    """Of each scheme or rival at each size; measured times come before predicted ones."""
    best: dict[Any, Row] = {}
    for row in rows:
        key = row.gpu, row.kind, row.scheme if row.kind == "kernel" else row.kernel, row.m, row.n, row.k, row.layout
        if key not in best or (row.verdict != "timed", seconds_of(row)) < (best[key].verdict != "timed", seconds_of(best[key])):
            best[key] = row
    return sorted(best.values(), key=_edge)


Value = Callable[[Row], float | None]
FIGURES: dict[str, tuple[Value, Value, tuple[str, str, str], Callable[[Sequence[Row]], Sequence[Row]]]] = {
    "frontier": (_tflops, error_of, ("TFLOP/s", "relative error", "y"), lambda rows: rows),
    "sizes": (_edge, _tflops, ("cube root of m n k", "TFLOP/s", "x"), _fastest),
    "model": (_predicted, _measured, ("predicted, µs", "measured, µs", "xy"), lambda rows: rows),
}
"""Plots by name: what stands across and up, both axes' titles, which of them are logarithmic, and the rows."""
