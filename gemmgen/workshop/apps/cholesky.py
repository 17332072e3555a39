"""Tiled Cholesky factorization (MixPert figures 8 to 10): behind each tile on the diagonal a triangular solve, and a product of which a triangle is computed.

With three tiles it has the four products that MixPert's figure 10 tunes: `gemmgen tune cholesky`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gemmgen.errors import SpecError
from gemmgen.workshop.apps import dense
from gemmgen.workshop.apps.matmul import Matmul
from gemmgen.workshop.apps.problem import App, Arrays, Figures, Problem, relative

SHOWN = 512
"""Rows of the factor whose error is told: the last, which depend on all products."""
NUGGET, LENGTH = 0.1, 0.1
"""What is added to a covariance's diagonal, and the distance over which a covariance falls to 1 / e."""


def covariance(n: int, seed: int) -> np.ndarray:
    """exp(-distance / LENGTH) [n, n] of random points of the unit cube, NUGGET added on the diagonal: symmetric and positive definite, FP32."""
    points, out = np.random.default_rng(seed).random((n, 3)), np.empty((n, n), np.float32)
    squares = (points**2).sum(axis=1)
    for at in range(0, n, 1024):
        rows = slice(at, at + 1024)
        distance = np.sqrt(np.maximum(squares[rows, None] + squares - 2 * points[rows] @ points.T, 0.0))
        out[rows] = np.exp(-distance / LENGTH)
    np.fill_diagonal(out, 1.0 + NUGGET)
    return out


def factored(matmul: Matmul, a: Any, tiles: int) -> Any:
    """L [n, n], lower, of A = L L^T, right-looking by square tiles; A stays.

    Raises:
        GemmgenError: a tile is not positive definite.
    """
    xp, lower, size = matmul.xp, a.copy(), len(a) // tiles
    at = [slice(size * tile, size * (tile + 1)) for tile in range(tiles)]
    for j in range(tiles):
        lower[at[j], at[j]] = dense.cholesky(xp, lower[at[j], at[j]])
        if j + 1 < tiles:
            end = size * (j + 1)
            below = matmul.solve(lower[at[j], at[j]], lower[end:, at[j]], side="right", transposed=True)
            matmul.syrk(below, out=lower[end:, end:], alpha=-1.0, beta=1.0)
    return xp.tril(lower)


def residual(xp: Any, lower: Any, a: Any) -> float:
    """||L L^T - A||_F / ||A||_F in FP64."""
    rest = norm = 0.0
    double = lower.astype(np.float64)
    for begin in range(0, len(a), 2048):
        part = a[begin : begin + 2048].astype(np.float64)
        rest += float(((double[begin : begin + 2048] @ double.T - part) ** 2).sum())
        norm += float((part**2).sum())
    return (rest / norm) ** 0.5


def make(sizes: Mapping[str, int], data: str, seed: int) -> Problem:
    n, tiles = sizes["n"], sizes["tiles"]
    if n % tiles:
        raise SpecError("--size", "do not fit each other", got=f"n={n}, tiles={tiles}", needs="tiles that divide n",
                        remedy=f"--size n={n - n % tiles or tiles}")
    a = covariance(n, 1 + seed)

    def run(matmul: Matmul, of: Arrays) -> Arrays:
        return {"lower": factored(matmul, of["a"], tiles)}

    def told(xp: Any, out: Arrays, of: Arrays) -> Arrays:
        return {"residual": residual(xp, out["lower"], of["a"]), "rows": out["lower"][-SHOWN:]}

    def judge(out: Arrays, exact: Arrays | None) -> Figures:
        assert exact is not None
        return {"residual": out["residual"], "error": relative(out["rows"], exact["rows"])}

    def beside() -> dict[str, Figures]:
        if data != "scipy":
            return {}
        whole = [dense.scipy_linalg("gemmgen app cholesky").cholesky(x, lower=True) for x in (a, a.astype(np.float64))]
        return {"SciPy FP32": {"residual": residual(np, whole[0], a), "error": relative(whole[0][-SHOWN:], whole[1][-SHOWN:])}}

    return Problem({"a": a}, run, judge, told=told, beside=beside, output="lower")


APP = App(
    "cholesky", "tiled Cholesky factorization of a covariance", "MixPert figures 8 to 10",
    sizes={"n": 16384, "tiles": 8}, small={"n": 96, "tiles": 3}, data=("scipy", "drawn"),
    figures={
        "residual": "||L L^T - A|| / ||A||, Frobenius, computed in FP64",
        "error": f"of the last rows of L, up to {SHOWN}, against FP64's, relative Frobenius",
    }, make=make,
)
