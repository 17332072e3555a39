"""Errors of what is timed, against FP64 on the GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmgen.timing.contender import Contender
from gemmgen.timing.inputs import SLAB_BYTES, Inputs

REFERENCE_ROWS = 256


@dataclass(frozen=True)
class Accuracy:
    """Errors of C's sampled rows against FP64; NaN where any element of the whole C is not finite.

    Attributes:
        relative_frobenius: ||C - C*||_F / ||C*||_F (MixPert eq. 10).
        max_error: max |C - C*| / (|C| + |C*|) (LE-GEMM eq. 19).
        scaled: max |C - C*| / (|A| |B|), the figure that cancellation cannot inflate.
    """

    relative_frobenius: float
    max_error: float
    scaled: float


def sampled_rows(m: int, count: int = REFERENCE_ROWS) -> np.ndarray:
    """Rows of C that errors are computed on: the first, the last, and evenly spaced ones between; all where there are few."""
    return np.unique(np.linspace(0, m - 1, min(m, count)).round().astype(int))


class Reference:
    """FP64 products of sampled rows of the first input set, computed on the GPU once for each layout."""

    def __init__(self, inputs: Inputs, rows: int = REFERENCE_ROWS):
        self._inputs = inputs
        self.rows = sampled_rows(inputs.size[0], rows)
        self._known: dict[str, tuple[Any, Any]] = {}

    def product(self, layout: str) -> tuple[Any, Any]:
        """(A B, |A| |B|) of the sampled rows."""
        import cupy

        if layout not in self._known:
            m, n, k = self._inputs.size
            a, b = self._inputs.a[0], self._inputs.b[0]
            a = (a if layout[0] == "n" else a.reshape(k, m).T)[cupy.asarray(self.rows)].astype(cupy.float64)
            b = b if layout[1] == "n" else b.reshape(n, k).T
            exact, magnitude = (cupy.empty((len(self.rows), n), cupy.float64) for _ in range(2))
            step = max(1, SLAB_BYTES // (8 * k))
            for at in range(0, n, step):
                slab = b[:, at : at + step].astype(cupy.float64)
                exact[:, at : at + step] = a @ slab
                magnitude[:, at : at + step] = abs(a) @ abs(slab)
            self._known[layout] = exact, magnitude
        return self._known[layout]

    def accuracy(self, contender: Contender) -> Accuracy:
        """Of the product that the contender computes now."""
        import cupy

        exact, magnitude = self.product(contender.layout)
        whole = contender.outputs[0]
        whole.fill(cupy.nan)
        contender.enqueue(0)
        if not bool(cupy.isfinite(whole).all()):
            return Accuracy(float("nan"), float("nan"), float("nan"))
        c = whole[cupy.asarray(self.rows)].astype(cupy.float64)
        difference = abs(c - exact)
        tiny = np.finfo(np.float64).tiny  # 0 / 0 is no error
        return Accuracy(
            float(cupy.linalg.norm(difference) / cupy.linalg.norm(exact)),
            float((difference / cupy.maximum(abs(c) + abs(exact), tiny)).max()),
            float((difference / cupy.maximum(magnitude, tiny)).max()),
        )


def error_of(contender: Contender, inputs: Inputs) -> float:
    """||C - C*||_F / ||C*||_F on sampled rows of the first input set, against an FP64 product on the GPU."""
    return Reference(inputs).accuracy(contender).relative_frobenius
