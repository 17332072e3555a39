"""Products of which a triangle of one operand is read: BLAS's trmm, symm and hemm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gemmgen.errors import InfeasibleSpec, SpecError
from gemmgen.kinds.kind import Kind, Problem
from gemmgen.kinds.triangles import LOWER, UPPER, hermitian, require_complex
from gemmgen.model.equation import Equation

LEFT, RIGHT, NONUNIT, UNIT = "left", "right", "nonunit", "unit"


def stages(height: str) -> Equation:
    return Equation(
        "K6", "stages_k", f"ceil((ceil(K / BK) + {height} / BK) / 2 / split_k)", "stages a block", "on average: a tile's sum ends, or begins, at the diagonal",
    )


STAGES = {LEFT: stages("BM * cluster"), RIGHT: stages("BN")}


def triangle(x: np.ndarray, below: bool, unit: bool) -> np.ndarray:
    """The lower or upper triangle of a square x, zeros beside it.

    Args:
        unit: whether its diagonal is 1.
    """
    kept = np.tri(len(x), dtype=bool)
    x = np.where(kept if below else kept.T, x, np.zeros((), x.dtype))
    if unit:
        np.fill_diagonal(x, 1)
    return x


class OneTriangle(Kind):
    """C = alpha A B + beta C of a square A, or B, of which one triangle is read.

    Attributes:
        left: whether that is A.
        below: whether it is the lower triangle of A, or of B^T.
        conjugates: whether the other triangle is its conjugate.
    """

    conjugates = False

    def __init__(self, options: Mapping[str, str]):
        self.options = dict(options)
        self.left = options["side"] == LEFT
        self.below = (options["uplo"] == LOWER) == self.left
        self.operand, self.first = ("a", "m") if self.left else ("b", "n")
        self.aliases = {"k": self.first}

    def of(self, problem: Any) -> Kind:
        return type(self)(**{key: getattr(problem, key) or usual for key, usual in type(self)().options.items()})

    def check(self, problem: Any, place: str) -> None:
        if problem.uplo not in (None, LOWER, UPPER):
            raise InfeasibleSpec(
                f"{place}: [problem] uplo", f"kind {self.name} reads one triangle", got=problem.uplo, needs=f"{LOWER} or {UPPER}", remedy=f'uplo = "{LOWER}"',
            )
        super().check(problem, place)

    def whole(self, x: np.ndarray) -> np.ndarray:
        """The square operand as it is multiplied, A or B^T, of what memory holds."""
        raise NotImplementedError

    def completed(self, a: np.ndarray, b: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        a, b = super().completed(a, b)
        square = a if self.left else b
        if square.shape[0] != square.shape[1]:
            raise SpecError(self.operand, f"is not square, as kind {self.name} has it", got=square.shape, needs="as many rows as columns")
        return (self.whole(a), b) if self.left else (a, np.ascontiguousarray(self.whole(b.T).T))

    def embedded(self, a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> Problem:
        """A B is a part of [X .; A 0] [B; 0], of [0 A; . X] [0; B], and of the same from the right. What is not to be read is NaN, or very large."""
        part, other = (a, b) if self.left else (b.T, a.T)
        tall, k = part.shape
        size = k + tall
        at, rest = (slice(k, size), slice(0, k)) if self.below else (slice(0, tall), slice(tall, size))
        square, beside = np.zeros((size, size), a.dtype), np.zeros((size, other.shape[1]), a.dtype)
        square[at, rest], beside[rest] = part, other
        square[rest, rest] = np.resize(part, (k, k)) if part.size else 0
        kept = np.tri(size, k=-1 if self.options.get("diag") == UNIT else 0, dtype=bool)
        unread = ~(kept if self.below else kept.T)
        square[unread] = np.nan
        square[::2][unread[::2]] = np.finfo(a.dtype).max  # which a maximum would see, where it passes a NaN by
        around = ((k, 0) if self.below else (0, k), (0, 0))
        if self.left:
            return Problem(square, beside, None if c is None else np.pad(c, around))
        return Problem(np.ascontiguousarray(beside.T), np.ascontiguousarray(square.T), None if c is None else np.pad(c, around[::-1]))

    def part(self, c: np.ndarray, m: int, n: int) -> np.ndarray:
        if self.left:
            return c[len(c) - m:] if self.below else c[:m]
        return c[:, c.shape[1] - n:] if self.below else c[:, :n]


class Trmm(OneTriangle):
    """The other triangle is zero.

    Args:
        uplo: which triangle there is, as the formula reads the operand: of A^T, where the layout stores A transposed.
        side: `left` for A, `right` for B.
        diag: `unit` for a diagonal of ones, which is not read either.
    """

    name = "trmm"
    vendor_share = 0.5
    meaning = "one product of which A, or B, is a triangle"

    def __init__(self, uplo: str = LOWER, side: str = LEFT, diag: str = NONUNIT):
        super().__init__({"uplo": uplo, "side": side, "diag": diag})
        self.unit = diag == UNIT
        self.formula = f"C = alpha A B + beta C of the {uplo} triangle of {self.operand.upper()}{', whose diagonal is 1' if self.unit else ''}"
        tile = f"{self.first}0 + TILE_{self.first.upper()}"
        self.k_range = ("", tile) if self.below else (f"{self.first}0", "")
        self.given = {self.operand: f"kk == o ? {'1.0f' if self.unit else 'at(o, kk)'} : kk {'<' if self.below else '>'} o ? at(o, kk) : 0.0f"}
        self.longest_last = self.left and self.below
        self.equations = (STAGES[side],)

    def whole(self, x: np.ndarray) -> np.ndarray:
        return triangle(x, self.below, self.unit)


class Symm(OneTriangle):
    """The other triangle is that one's mirror image.

    Args:
        uplo: which triangle of the operand in memory is read, whatever the layout.
        side: `left` for A, `right` for B.
    """

    name = "symm"
    vendor_share = 1.0
    meaning = "one product of which A, or B, is symmetric, and one triangle of it is read"
    of_what = "symmetric"

    def __init__(self, uplo: str = LOWER, side: str = LEFT):
        super().__init__({"uplo": uplo, "side": side})
        self.layouts = ("nn", "nt") if self.left else ("nn", "tn")  # which of them the symmetric one is makes no difference
        self.formula = f"C = alpha A B + beta C of a {self.of_what} {self.operand.upper()}, of which the {uplo} triangle is read"
        self.given = {self.operand: f"kk {'<' if self.below else '>'} o ? at(o, kk) : at(kk, o)"}

    def whole(self, x: np.ndarray) -> np.ndarray:
        kept = np.where(np.tri(len(x), dtype=bool) if self.below else np.tri(len(x), dtype=bool).T, x, np.zeros((), x.dtype))
        return np.where(np.eye(len(x), dtype=bool), x, kept + kept.T)


class Hemm(Symm):
    """The other triangle is that one's conjugate, and the imaginary parts of the diagonal are not read: they count as 0."""

    name = "hemm"
    meaning = "one product of complex elements of which A, or B, is Hermitian, and one triangle of it is read"
    of_what = "Hermitian"
    conjugates = True

    def check(self, problem: Any, place: str) -> None:
        require_complex(self, problem, place, "symm")
        super().check(problem, place)

    def whole(self, x: np.ndarray) -> np.ndarray:
        return hermitian(x, self.below)

    def embedded(self, a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> Problem:
        """What is not to be read of the diagonal is NaN, too."""
        found = super().embedded(a, b, c)
        square = found.a if self.left else found.b
        if np.iscomplexobj(square):
            np.fill_diagonal(square, square.diagonal().real + complex(0, np.nan))
        return found


TRMM, SYMM, HEMM = Trmm(), Symm(), Hemm()
