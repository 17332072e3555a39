"""Products of which one operand is a triangle: BLAS's trmm."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmgen.errors import SpecError
from gemmgen.kinds.kind import Kind, Problem
from gemmgen.kinds.triangles import LOWER, UPPER
from gemmgen.model.equation import Equation

LEFT, RIGHT, NONUNIT, UNIT = "left", "right", "nonunit", "unit"


def stages(height: str) -> Equation:
    return Equation(
        "K6", "stages_k", f"ceil((ceil(K / BK) + {height} / BK) / 2 / split_k)", "stages a block", "on average: a tile's sum ends, or begins, at the diagonal",
    )


STAGES = {LEFT: stages("BM * cluster"), RIGHT: stages("BN")}


class Trmm(Kind):
    """C = alpha A B + beta C, of which A or B is square, and zero on one side of its diagonal.

    Args:
        uplo: which triangle of that operand there is, as the formula reads it: of A^T, where the layout stores A transposed.
        side: `left` for A, `right` for B.
        diag: `unit` for a diagonal of ones, which is not read either.
    """

    name = "trmm"
    meaning = "one product of which A, or B, is a triangle"

    def __init__(self, uplo: str = LOWER, side: str = LEFT, diag: str = NONUNIT):
        self.options = {"uplo": uplo, "side": side, "diag": diag}
        self.left, self.lower, self.unit = side == LEFT, uplo == LOWER, diag == UNIT
        operand, first = ("a", "m") if self.left else ("b", "n")
        self.formula = f"C = alpha A B + beta C of the {uplo} triangle of {operand.upper()}{', whose diagonal is 1' if self.unit else ''}"
        self.aliases = {"k": first}
        self.until = self.left == self.lower  # k goes up to the diagonal, and not on from there
        self.k_range = ("", f"{first}0 + TILE_{first.upper()}") if self.until else (f"{first}0", "")
        kept = "kk < o" if self.until else "kk > o"
        self.given = {operand: f"kk == o ? {'1.0f' if self.unit else 'x'} : {kept} ? x : 0.0f"}
        self.longest_last = self.left and self.lower
        self.equations = (STAGES[side],)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process makes it anew."""
        return type(self), tuple(self.options.values())

    def of(self, problem: Any) -> Kind:
        return type(self)(problem.uplo or LOWER, problem.side or LEFT, problem.diag or NONUNIT)

    def triangle(self, x: np.ndarray) -> np.ndarray:
        """A square operand as it is multiplied: nothing is read of the other triangle."""
        kept = np.tri(*x.shape, dtype=bool)
        x = np.where(kept if self.lower else kept.T, x, np.zeros((), x.dtype))
        if self.unit:
            np.fill_diagonal(x, 1)
        return x

    def completed(self, a: np.ndarray, b: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        a, b = super().completed(a, b)
        square = a if self.left else b
        if square.shape[0] != square.shape[1]:
            raise SpecError("a" if self.left else "b", f"is not square, as kind {self.name} has it", got=square.shape, needs="as many rows as columns")
        return (self.triangle(a), b) if self.left else (a, self.triangle(b))

    def embedded(self, a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> Problem:
        """A B is a part of [X 0; A 0] [B; 0], of [0 A; 0 X] [0; B], and of the same from the right. What is not to be read is NaN."""
        (m, k), n = a.shape, b.shape[1]
        part, other = (a, b) if self.left else (b.T, a.T)
        size, tall = k + part.shape[0], part.shape[0]
        square = np.full((size, size), np.nan, a.dtype)
        beside = np.zeros((size, other.shape[1]), a.dtype)
        below = self.lower if self.left else not self.lower  # `part` is A, or B^T, whose triangle is the other one
        at, rest = (slice(k, size), slice(0, k)) if below else (slice(0, tall), slice(tall, size))
        square[at, rest], square[at, at], beside[rest] = part, 0, other
        square[rest, rest] = np.resize(part, (k, k)) if part.size else 0
        kept = np.tri(size, k=-1 if self.unit else 0, dtype=bool)
        square[~(kept if below else kept.T)] = np.nan
        around = ((size - tall, 0) if below else (0, size - tall), (0, 0))
        if self.left:
            return Problem(square, beside, None if c is None else np.pad(c, around))
        return Problem(np.ascontiguousarray(beside.T), np.ascontiguousarray(square.T), None if c is None else np.pad(c, around[::-1]))

    def part(self, c: np.ndarray, m: int, n: int) -> np.ndarray:
        below = self.lower if self.left else not self.lower
        if self.left:
            return c[len(c) - m:] if below else c[:m]
        return c[:, c.shape[1] - n:] if below else c[:, :n]


TRMM = Trmm()
