"""HPL-AI (MixPert figures 8 and 9): a system of equations solved in FP64 by LU factors in FP32 and GMRES.

The matrix is diagonally dominant, as HPL-AI's is, so that no pivots are needed. Blocks of columns are factored, and all that is left gets a product
subtracted, in place: the whole cost where n is large. GMRES then brings the solution to FP64; a result is valid below a scaled residual of 16.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gemmgen.workshop.apps.dense import scipy_linalg, triangular_solved, unpivoted_lu
from gemmgen.workshop.apps.matmul import Matmul
from gemmgen.workshop.apps.problem import App, Arrays, Figures, Problem

MOST_ITERATIONS = 50
CYCLE = 1e-5
"""What a cycle of GMRES leaves of a residual: near what FP32 factors can tell apart."""
SHOWN = 512
"""Rows and columns of the product of the factors whose error is told."""
VALID = 16.0
"""HPL's bound on the scaled residual."""


def factored(matmul: Matmul, a: Any, block: int) -> Any:
    """L and U of A [n, n] in one FP32 matrix, without pivots, right-looking by blocks of so many columns."""
    lu, n, xp = a.astype(matmul.dtype), len(a), matmul.xp
    for at in range(0, n, block):
        end = min(at + block, n)
        tile = lu[at:end, at:end]
        unpivoted_lu(xp, tile)
        if end < n:
            one = xp.eye(end - at, dtype=lu.dtype)  # inverses of small tiles make solves of long ones products, too
            lu[at:end, end:] = matmul(triangular_solved(xp, tile, one, lower=True, unit=True), lu[at:end, end:])
            lu[end:, at:end] = matmul(lu[end:, at:end], triangular_solved(xp, tile, one, lower=False))
            matmul(lu[end:, at:end], lu[at:end, end:], out=lu[end:, end:], alpha=-1.0, beta=1.0)
    return lu


def largest_row(a: Any) -> float:
    """The largest sum of a row's magnitudes."""
    return max(float(abs(a[at : at + 2048]).sum(axis=1).max()) for at in range(0, len(a), 2048))


def scaled_residual(rest: Any, x: Any, b: Any, norm: float, eps: float = 2.0**-53) -> float:
    """HPL's: max |b - A x| / (eps (|A| max |x| + max |b|) n).

    Args:
        rest: b - A x in FP64; norm: |A|, the largest row's; eps: the relative error of one rounding, FP64's.
    """
    return float(abs(rest).max() / (eps * (norm * abs(x).max() + abs(b).max()) * len(b)))


def solved(xp: Any, a: Any, b: Any, lu: Any) -> tuple[Any, int, float]:
    """(x [n] of A x = b in FP64, iterations, scaled residual) by restarted GMRES with the factors as preconditioner.

    The factors are applied in FP32, so one cycle gains what FP32 can tell apart; the next begins with the residual in FP64. It ends where the scaled
    residual is below a tenth of VALID, or after MOST_ITERATIONS.
    """
    norm, iterations = largest_row(a), 0

    def preconditioned(r: Any) -> Any:
        scale = abs(r).max()  # residuals fall below FP32's range of magnitudes
        y = triangular_solved(xp, lu, (r / scale).astype(lu.dtype)[:, None], lower=True, unit=True)
        return triangular_solved(xp, lu, y, lower=False)[:, 0].astype(np.float64) * scale

    x = preconditioned(b)
    while True:
        rest = b - a @ x
        residual = scaled_residual(rest, x, b, norm)
        if residual < VALID / 10 or iterations == MOST_ITERATIONS or not np.isfinite(residual):
            return x, iterations, residual
        step, taken = cycle(xp, lambda v: preconditioned(a @ v), preconditioned(rest), MOST_ITERATIONS - iterations)
        x, iterations = x + step, iterations + taken


def cycle(xp: Any, operator: Callable[[Any], Any], r: Any, most: int) -> tuple[Any, int]:
    """One cycle of GMRES: (d [n] that makes |r - operator(d)| small, iterations), until it is CYCLE of |r| or after `most`."""
    norm = float(xp.linalg.norm(r))
    basis, columns = [r / norm], []
    while True:
        w, column = operator(basis[-1]), []
        for v in basis:  # modified Gram-Schmidt
            column.append(float(v @ w))
            w -= column[-1] * v
        column.append(float(xp.linalg.norm(w)))
        columns.append(column)
        count = len(columns)
        hessenberg = np.zeros((count + 1, count))
        for at, one in enumerate(columns):
            hessenberg[: len(one), at] = one
        right = np.zeros(count + 1)
        right[0] = norm
        weights = np.linalg.lstsq(hessenberg, right, rcond=None)[0]
        if count == most or column[-1] == 0 or np.linalg.norm(hessenberg @ weights - right) <= CYCLE * norm:
            return sum(float(weight) * v for weight, v in zip(weights, basis)), count
        basis.append(w / column[-1])


def make(sizes: Mapping[str, int], data: str, seed: int) -> Problem:
    n, block = sizes["n"], sizes["block"]
    draw = np.random.default_rng(seed)
    a = draw.random((n, n), np.float32).astype(np.float64)  # which FP32 holds, so that factors tell their own error
    a -= 0.5
    a[np.arange(n), np.arange(n)] = [np.float32(abs(row).sum()) for row in a]
    b = draw.random(n, np.float32).astype(np.float64) - 0.5

    def run(matmul: Matmul, of: Arrays) -> Arrays:
        lu = factored(matmul, of["a"], block)
        x, iterations, residual = solved(matmul.xp, of["a"], of["b"], lu)
        return {"x": x, "iterations": iterations, "residual": residual, "lu": lu}

    def told(xp: Any, out: Arrays, of: Arrays) -> Arrays:
        return {"iterations": out["iterations"], "residual": out["residual"], "error": factors_error(xp, out["lu"], of["a"])}

    def judge(out: Arrays, exact: Arrays | None) -> Figures:
        return {"scaled residual": out["residual"], "GMRES iterations": out["iterations"], "factors' error": out["error"]}

    def beside() -> dict[str, Figures]:
        if data != "scipy":
            return {}
        linalg = scipy_linalg("gemmgen app lu")
        x = linalg.lu_solve(linalg.lu_factor(a.astype(np.float32)), b.astype(np.float32)).astype(np.float64)
        return {"SciPy FP32, pivots, not refined": {"scaled residual": scaled_residual(b - a @ x, x, b, largest_row(a))}}

    return Problem({"a": a, "b": b}, run, judge, told=told, has_exact=False, beside=beside)


def factors_error(xp: Any, lu: Any, a: Any) -> float:
    """||L U - A||_F / ||A||_F of the last rows and columns, in FP64: those that all products went into."""
    n, last = len(lu), slice(max(0, len(lu) - SHOWN), None)
    places = xp.arange(n)
    row, column = places[last, None], places[None, :]
    left = xp.where(column < row, lu[last].astype(np.float64), 0.0) + (column == row)
    right = xp.where(column.T <= row.T, lu[:, last].astype(np.float64), 0.0)
    return float(xp.linalg.norm(left @ right - a[last, last]) / xp.linalg.norm(a[last, last]))


APP = App(
    "lu", "HPL-AI: LU in FP32, GMRES in FP64", "MixPert figures 8 and 9",
    sizes={"n": 16384, "block": 1024}, small={"n": 96, "block": 32}, data=("scipy", "drawn"),
    figures={
        "scaled residual": f"HPL's, of the solution in FP64; valid below {VALID:g}", "GMRES iterations": "until it is a tenth of that",
        "factors' error": f"||L U - A|| / ||A||, Frobenius, of the last rows and columns, up to {SHOWN}",
    }, make=make,
)
