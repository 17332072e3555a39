"""The frontier of all schemes as a picture, and what every picture needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from io import BytesIO
from typing import Any

from gemmgen.errors import DeviceError
from gemmgen.model.accuracy import TOLD
from gemmgen.solve.frontier import Frontier, Point
from gemmgen.verdict import Verdict, times

IMAGES = (".png", ".svg", ".pdf")
"""What a picture of one's own may end in."""


def drawing() -> None:
    """Make matplotlib ready to draw into files.

    Raises:
        DeviceError: it is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise DeviceError("--plot", "matplotlib is not installed", needs="matplotlib 3.9 or later",
                          remedy="pip install 'gemmgen[plot]'") from None
    matplotlib.use("Agg")


FAMILIES = (
    ("FP16 words", "f16", "#0072B2"), ("bfloat16 words", "bf16", "#009E73"), ("tf32 words", "tf32", "#56B4E9"), ("integers", "s8", "#D55E00"),
    ("FP8 words", "e4m3", "#CC79A7"), ("FP32 units", "f32", "#000000"),
)
"""Of schemes, by their leading words: colours that eyes of all kinds tell apart (Okabe and Ito)."""
OWN_SCHEME = "your own scheme", "#E69F00"


def frontier_image(found: Frontier, suffix: str) -> bytes:
    """Predicted error against predicted time, a point a scheme, coloured by its words; those that no other beats are joined and named.

    Args:
        suffix: of `IMAGES`.

    Raises:
        DeviceError: matplotlib is not installed.
    """
    drawing()
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(9, 6))
    drawn_frontier(axis, found)
    return content(figure, suffix)


def drawn_frontier(axis: Any, found: Frontier) -> list[Any]:
    """Draws it; the labels."""
    best, named = found.best, []
    axis.plot([1e3 * point.seconds for point in best], [point.figure for point in best], color="0.6", linewidth=1, zorder=1)
    for point in found.points:
        if not math.isfinite(point.figure):
            continue
        title, colour = _family(point)
        on = point in best
        axis.plot(1e3 * point.seconds, point.figure, marker="o", markersize=8 if on else 4, color=colour, alpha=1 if on else 0.45, linestyle="none",
                  label=title, zorder=3 if on else 2)
        if on or point.file or point.scheme == "fp32":
            named.append((point.told, 1e3 * point.seconds, point.figure))
    if any(math.isfinite(point.figure) and point.figure > 0 for point in found.points):
        axis.set_yscale("log")
    axis.set(xscale="log", title=f"{'x'.join(map(str, found.size))}, {found.gpu}, predicted: left and down is better", xlabel="ms, split pass included",
             ylabel=f"error over that asked: {found.asked}" if found.asked else f"estimated relative Frobenius error on {TOLD[found.data]}")
    axis.margins(0.12)
    for formatter in (axis.xaxis.set_major_formatter, axis.xaxis.set_minor_formatter):
        formatter(lambda value, place: f"{value:g}")
    axis.tick_params(axis="x", which="both", labelsize=8)
    axis.grid(alpha=0.3)
    handles, titles = axis.get_legend_handles_labels()
    once = dict(zip(titles, handles))
    axis.legend(once.values(), once.keys(), fontsize=8, loc="upper right")
    return labelled(axis, named)


def worth_image(found: Sequence[Verdict], suffix: str) -> bytes:
    """The map of worth: a row a GPU, a column a size, each cell as many times plain FP32's speed as its number says; blue where that is more than FP32.

    Args:
        suffix: of `IMAGES`.

    Raises:
        DeviceError: matplotlib is not installed.
    """
    drawing()
    import matplotlib.pyplot as plt
    from matplotlib.colors import TwoSlopeNorm

    gpus, sizes = list(dict.fromkeys(one.gpu for one in found)), sorted({one.m for one in found})
    cells = {(one.gpu, one.m): one for one in found}
    shades = [[math.log2(cells[gpu, size].ratio) if (gpu, size) in cells else math.nan for size in sizes] for gpu in gpus]
    figure, axis = plt.subplots(figsize=(1.6 + 1.35 * len(sizes), 1.2 + 0.31 * len(gpus)))
    axis.imshow(shades, cmap="RdBu", norm=TwoSlopeNorm(0, -2, 3), aspect="auto")
    for row, gpu in enumerate(gpus):
        for column, size in enumerate(sizes):
            if one := cells.get((gpu, size)):
                axis.text(column, row, f"{times(one.ratio)} {one.scheme}", ha="center", va="center", fontsize=7,
                          color="white" if abs(shades[row][column]) > 1.6 else "black")
    axis.set_xticks(range(len(sizes)), [f"{size}" for size in sizes], fontsize=8)
    axis.set_yticks(range(len(gpus)), gpus, fontsize=8)
    axis.set(xlabel="rows, columns and sum", title="times plain FP32's speed, predicted")
    return content(figure, suffix)


def _family(point: Point) -> tuple[str, str]:
    """(name, colour) of what a point's scheme is made of."""
    if point.file:
        return OWN_SCHEME
    return next(((title, colour) for title, word, colour in FAMILIES if word == point.word), (point.word or "schemes", "0.4"))


TURNS = (1, 15, 3, 13, 0, 2, 14, 4, 12, 8, 5, 11, 6, 10, 7, 9)
"""Sixteenths of a turn around a point, right and up first, in which its name is tried."""


def labelled(axis: Any, named: Sequence[tuple[str, float, float]]) -> list[Any]:
    """Names beside points, each nearest to its own one, none over another one, a point, a line or the legend; a line leads to those that had to move.

    Args:
        named: (name, x, y), in the axis's units; those of one place get one label.
    """
    import numpy as np

    axis.figure.tight_layout()  # before places are taken: it moves them
    renderer = axis.figure.canvas.get_renderer()
    axis.figure.canvas.draw()
    legend = axis.get_legend()
    taken = [legend.get_window_extent(renderer)] if legend else []
    # Points, and lines as points two pixels apart.
    points = [axis.transData.transform((line.get_xdata()[0], line.get_ydata()[0])) for line in axis.lines if len(line.get_xdata()) == 1]
    ends = [axis.transData.transform(np.column_stack([line.get_xdata(), line.get_ydata()])) for line in axis.lines if len(line.get_xdata()) > 1]
    drawn = [at for path in ends for one, other in zip(path, path[1:]) for at in np.linspace(one, other, 2 + int(np.hypot(*(other - one)) // 2))]
    together: dict[tuple[float, float], list[str]] = {}
    for name, x, y in named:
        together.setdefault((x, y), []).append(name)
    places, inside, found = [axis.transData.transform(at) for at in together], axis.get_window_extent(renderer), []
    for number, (at, names) in enumerate(together.items()):
        for distance, turn in ((distance, turn) for distance in (10, 20, 34, 50, 68, 88) for turn in TURNS):
            dx, dy = distance * math.cos(turn * math.pi / 8), distance * math.sin(turn * math.pi / 8)
            made = axis.annotate(
                ", ".join(names) if len({name.partition(",")[0] for name in names}) == len(names) else " / ".join(names), at, textcoords="offset points",
                xytext=(dx, dy), fontsize=8, va="center", ha="left" if dx > 1 else "right" if dx < -1 else "center",
                arrowprops={"arrowstyle": "-", "color": "0.5", "linewidth": 0.6} if distance > 10 else None,
            )
            box = _text_box(made, renderer)
            away = [math.hypot(max(box.x0 - x, 0, x - box.x1), max(box.y0 - y, 0, y - box.y1)) for x, y in places]
            free = inside.fully_containsx(box.x0) and inside.fully_containsx(box.x1) and inside.fully_containsy(box.y0) and inside.fully_containsy(box.y1)
            if free and min(away) == away[number] and not any(box.overlaps(other) for other in taken) and not any(
                    box.padded(2).contains(*point) for point in points) and not any(box.contains(*point) for point in drawn):
                taken.append(box.padded(1))
                found.append(made)
                break
            made.remove()
    return found


def _text_box(label: Any, renderer: Any) -> Any:
    """Of an annotation's text without its line."""
    from matplotlib.text import Text

    label.update_positions(renderer)
    return Text.get_window_extent(label, renderer)


def content(figure: Any, suffix: str) -> bytes:
    """A figure as a file's content; it is closed."""
    import matplotlib.pyplot as plt

    figure.tight_layout()
    image = BytesIO()
    with plt.rc_context({"svg.fonttype": "none"}):  # text as text: an outline for every letter makes files large
        figure.savefig(image, dpi=130, format=suffix[1:])
    plt.close(figure)
    return image.getvalue()
