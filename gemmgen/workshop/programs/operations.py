"""What a program does between its GEMMs: a closed list of operations, computed in FP64 and rounded once.

Each works on NumPy's arrays and cupy's alike. A tile's Cholesky factor and triangular solve are split in halves down to
leaves that the host factors, so that nearly all of the work is FP64 products where the arrays are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Shape = tuple[int, int]
LEAF = 128
"""Rows of a tile that the host factors or inverts at once."""


@dataclass(frozen=True)
class Operation:
    """One operation of a host.

    Attributes:
        takes: how many matrices; None for any number from one on.
        needs: what the shapes have to be, for messages.
        shape: (shapes, grid, at) -> the result's shape; None where they do not fit.
        compute: (module of the arrays, matrices in FP64, grid, at) -> the result in FP64.
        places: whether it takes `grid` and `at`.
    """

    meaning: str
    takes: int | None
    needs: str
    shape: Callable[[Sequence[Shape], Shape | None, Shape | None], Shape | None]
    compute: Callable[[Any, Sequence[Any], Shape | None, Shape | None], Any]
    places: bool = False


def _same(shapes: Sequence[Shape], grid: Shape | None, at: Shape | None) -> Shape | None:
    return shapes[0] if len(set(shapes)) == 1 else None


def _row_added(shapes: Sequence[Shape], grid: Shape | None, at: Shape | None) -> Shape | None:
    return shapes[0] if shapes[1] == (1, shapes[0][1]) else None


def _tile_shape(shapes: Sequence[Shape], grid: Shape | None, at: Shape | None) -> Shape | None:
    [(rows, columns)] = shapes
    assert grid is not None and at is not None
    fits = rows % grid[0] == 0 and columns % grid[1] == 0 and at[0] < grid[0] and at[1] < grid[1]
    return (rows // grid[0], columns // grid[1]) if fits else None


def _square(shapes: Sequence[Shape], grid: Shape | None, at: Shape | None) -> Shape | None:
    return shapes[0] if shapes[0][0] == shapes[0][1] else None


def _solved(shapes: Sequence[Shape], grid: Shape | None, at: Shape | None) -> Shape | None:
    of, lower = shapes
    return of if lower == (of[1], of[1]) else None


def _order(count: int) -> int:
    """Rows of a triangle of `count` tiles; 0 where there is none."""
    order = int(((8 * count + 1) ** 0.5 - 1) / 2)
    return order if order * (order + 1) // 2 == count else 0


def _triangle(shapes: Sequence[Shape], grid: Shape | None, at: Shape | None) -> Shape | None:
    order, (rows, columns) = _order(len(shapes)), shapes[0]
    return (order * rows, order * rows) if order and rows == columns and len(set(shapes)) == 1 else None


def _tile(xp: Any, of: Sequence[Any], grid: Shape | None, at: Shape | None) -> Any:
    [x] = of
    assert grid is not None and at is not None
    rows, columns = x.shape[0] // grid[0], x.shape[1] // grid[1]
    return x[at[0] * rows : (at[0] + 1) * rows, at[1] * columns : (at[1] + 1) * columns]


def _assembled(xp: Any, of: Sequence[Any], grid: Shape | None, at: Shape | None) -> Any:
    order, size = _order(len(of)), of[0].shape[0]
    out = xp.zeros((order * size, order * size), np.float64)
    for i in range(order):
        for j in range(i + 1):
            out[i * size : (i + 1) * size, j * size : (j + 1) * size] = of[i * (i + 1) // 2 + j]
    return out


def _on_host(x: Any) -> np.ndarray:
    return x if isinstance(x, np.ndarray) else x.get()


def cholesky(xp: Any, a: Any) -> Any:
    """The lower factor L [n, n] of A = L L^T in FP64; NaN everywhere where A is not positive definite."""
    n = a.shape[0]
    if n <= LEAF:
        try:
            return xp.asarray(np.linalg.cholesky(_on_host(a)))
        except np.linalg.LinAlgError:
            return xp.full((n, n), np.nan)
    half, out = n // 2, xp.zeros((n, n), np.float64)
    out[:half, :half] = cholesky(xp, a[:half, :half])
    out[half:, :half] = lower_solved(xp, a[half:, :half], out[:half, :half])
    out[half:, half:] = cholesky(xp, a[half:, half:] - out[half:, :half] @ out[half:, :half].T)
    return out


def lower_solved(xp: Any, a: Any, lower: Any) -> Any:
    """X [m, n] of X L^T = A in FP64, for a lower triangular L [n, n]."""
    n = lower.shape[0]
    if n <= LEAF:
        try:
            return a @ xp.asarray(np.linalg.inv(_on_host(lower)).T)
        except np.linalg.LinAlgError:
            return xp.full(a.shape, np.nan)
    half = n // 2
    left = lower_solved(xp, a[:, :half], lower[:half, :half])
    right = lower_solved(xp, a[:, half:] - left @ lower[half:, :half].T, lower[half:, half:])
    return xp.concatenate([left, right], axis=1)


OPERATIONS = {
    "relu": Operation("max(x, 0) of each element", 1, "one matrix", _same, lambda xp, of, grid, at: xp.maximum(of[0], 0.0)),
    "tanh": Operation("tanh(x) of each element", 1, "one matrix", _same, lambda xp, of, grid, at: xp.tanh(of[0])),
    "add": Operation("the sum of two matrices", 2, "two matrices of one shape", _same, lambda xp, of, grid, at: of[0] + of[1]),
    "add_row": Operation("a row added to each row, as a bias is", 2, "[m, n] and [1, n]", _row_added, lambda xp, of, grid, at: of[0] + of[1]),
    "tile": Operation(
        "of a matrix cut evenly into a grid, the tile at a place", 1, "extents that the grid divides, and a place inside it", _tile_shape, _tile, True,
    ),
    "lower_tiles": Operation(
        "tiles put together row by row as a lower triangle", None, "1, 3, 6, 10 ... square tiles of one shape", _triangle, _assembled,
    ),
    "cholesky": Operation("the lower factor L of A = L L^T", 1, "a square matrix", _square, lambda xp, of, grid, at: cholesky(xp, of[0])),
    "solve_lower": Operation("X of X L^T = A, of A and L", 2, "[m, n] and [n, n]", _solved, lambda xp, of, grid, at: lower_solved(xp, *of)),
}
