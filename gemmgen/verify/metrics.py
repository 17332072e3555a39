"""How far a computed C lies from the exact one.

Four figures, since no single one serves: a relative error of one element is
unbounded where the sum cancels, and a norm hides a wrong element.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from gemmgen.catalog import element
from gemmgen.catalog.output import USUAL, Output


@dataclass(frozen=True)
class Errors:
    """Errors of C [M, N] against FP64, or of FP64 against np.longdouble.

    Attributes:
        relative_frobenius: ||C - C*||_F / ||C*||_F (MixPert eq. 10).
        max_error: max |C - C*| / (|C| + |C*|) (LE-GEMM eq. 19).
        mred: mean |C - C*| / |C*| (LE-GEMM eq. 20).
        scaled: max |C - C*| / (|A| |B|), the figure that cancellation cannot inflate.
    """

    relative_frobenius: float
    max_error: float
    mred: float
    scaled: float

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


exact, same_special = element.F32.exact, element.F32.same_special
"""Of FP32, for whom no plan tells the type of elements."""


def exact_or_special(a: np.ndarray, b: np.ndarray, output: Output = USUAL) -> tuple[np.ndarray, np.ndarray]:
    """A B [M, N] in FP64, and which of its elements are finite as FP32 and as the type of C (`Element.exact_or_special`)."""
    return element.F32.exact_or_special(a, b, output.rounded)


def relative_frobenius(c: np.ndarray, reference: np.ndarray) -> float:
    """||C - C*||_F / ||C*||_F; 0 where both vanish."""
    difference, norm = np.linalg.norm(c.astype(np.float64) - reference), np.linalg.norm(reference)
    if norm == 0:
        return 0.0 if difference == 0 else float(np.inf)
    return float(difference / norm)


def errors(c: np.ndarray, reference: np.ndarray, magnitude: np.ndarray) -> Errors:
    """The four figures.

    Args:
        c: [M, N] computed.
        reference: [M, N] in the type of the elements' reference.
        magnitude: [M, N], |A| |B| in the same.

    NaN in `c` gives NaN, which meets no bound.
    """
    c = c.astype(np.float64)
    difference = np.abs(c - reference)

    def ratio(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
        """0 / 0 counts as no error, x / 0 as Inf."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where((top == 0) & (bottom == 0), 0.0, top / bottom)

    return Errors(
        relative_frobenius=relative_frobenius(c, reference),
        max_error=float(ratio(difference, np.abs(c) + np.abs(reference)).max(initial=0.0)),
        mred=float(ratio(difference, np.abs(reference)).mean()) if c.size else 0.0,
        scaled=float(ratio(difference, magnitude).max(initial=0.0)),
    )
