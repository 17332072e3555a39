"""The frontier of all schemes as a picture, and what every picture needs."""

from __future__ import annotations

import math
from io import BytesIO
from typing import Any

from gemmgen.errors import DeviceError
from gemmgen.model.accuracy import TOLD
from gemmgen.solve.frontier import Frontier

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


def frontier_image(found: Frontier, suffix: str) -> bytes:
    """Predicted error against predicted time, a point a scheme; those that no other beats are joined.

    Args:
        suffix: of `IMAGES`.

    Raises:
        DeviceError: matplotlib is not installed.
    """
    drawing()
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(9, 6))
    best = found.best
    axis.plot([1e3 * point.seconds for point in best], [point.figure for point in best], color="black", linewidth=1)
    for point in found.points:
        at = (1e3 * point.seconds, point.figure)
        if math.isfinite(at[1]):
            axis.plot(*at, marker="o", color="C7" if point.beaten_by else "black", markerfacecolor="none" if point.beaten_by else None)
            axis.annotate(point.told, at, textcoords="offset points", xytext=(5, 3), fontsize=7, color="C7" if point.beaten_by else "black")
    axis.set(xscale="log", yscale="log", title=f"{'x'.join(map(str, found.size))}, {found.gpu}, predicted", xlabel="ms, split pass included",
             ylabel=f"error over that asked: {found.asked}" if found.asked else f"estimated relative Frobenius error on {TOLD[found.data]}")
    axis.grid(alpha=0.3)
    return content(figure, suffix)


def content(figure: Any, suffix: str) -> bytes:
    """A figure as a file's content; it is closed."""
    import matplotlib.pyplot as plt

    figure.tight_layout()
    image = BytesIO()
    with plt.rc_context({"svg.fonttype": "none"}):  # text as text: an outline for every letter makes files large
        figure.savefig(image, dpi=130, format=suffix[1:])
    plt.close(figure)
    return image.getvalue()
