"""Products of which a triangle of C is computed: BLAS's syrk, and gemmt."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gemmgen.errors import InfeasibleSpec
from gemmgen.kinds.kind import Kind, Problem, Tiles
from gemmgen.model.equation import Constraint, Equation, Numbers

LOWER, UPPER, BOTH = "lower", "upper", "both"

FUNCTIONS = """// The tiles of a triangle: each row of them has EACH tiles more than the row above, and the first EACH - less.
constexpr int EACH = TILE_M / TILE_N;
// Tiles of the rows above.
GG_DEVICE long long tiles_above(int row, int less) { return (long long)row * (EACH * (row + 1) - 2 * less) / 2; }
// The row of tile `place`: the last one with no more than `place` tiles above it.
GG_DEVICE int row_of(int place, int less) {
    int row = 0;
#pragma unroll
    for (int step = 1 << 14; step > 0; step /= 2)
        if (tiles_above(row + step, less) <= place) row += step;
    return row;
}
// Tiles are worked off as those of a whole C are: a raster group of GROUP_ROWS rows, down each column of tiles that all of its rows have before the
// next, and then what lower rows have more, row by row.
GG_DEVICE Tile tile_in_triangle(int place, int tiles_m, int less) {
    const int first = row_of(place, less) / GROUP_ROWS * GROUP_ROWS, rows = min(GROUP_ROWS, tiles_m - first);
    const int in_group = place - (int)tiles_above(first, less), common = EACH * (first + 1) - less;
    if (in_group < rows * common || rows == 1) return {first + in_group % rows, in_group / rows};
    const int more = in_group - rows * common, below = row_of(more, 0);
    return {first + 1 + below, common + more - (int)tiles_above(below, 0)};
}
"""
AT = {
    LOWER: """GG_DEVICE Tile tile_at(int place, int tiles_m, int tiles_n) { return tile_in_triangle(place, tiles_m, 0); }
""",
    UPPER: """// The last row of tiles of an upper triangle is the first one here, from right to left.
GG_DEVICE Tile tile_at(int place, int tiles_m, int tiles_n) {
    const Tile tile = tile_in_triangle(place, tiles_m, tiles_m * EACH - tiles_n);
    return {tiles_m - 1 - tile.row, tiles_n - 1 - tile.column};
}
""",
}
COUNT = {
    LOWER: "TILE_M / TILE_N * tiles_m * (tiles_m + 1) / 2 - (TILE_M / TILE_N * tiles_m - tiles_n)",
    UPPER: "TILE_M / TILE_N * tiles_m * (tiles_m + 1) / 2 - (TILE_M / TILE_N * tiles_m - tiles_n) * tiles_m",
}


def number(m: int, n: int, tile: tuple[int, int], upper: bool) -> int:
    """Tiles of C [m, m] that touch a triangle; a tile's height is a multiple of its width.

    Args:
        n: m.
        tile: (TILE_M, TILE_N).
    """
    each, rows = tile[0] // tile[1], -(-m // tile[0])
    less = each * rows - -(-n // tile[1])
    return each * rows * (rows + 1) // 2 - less * (rows if upper else 1)


def not_square(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    """The refusal of a spec whose tile breaks the constraint K1."""
    side = max(plan.block[:2])
    return InfeasibleSpec(
        f"{place}: [tile] block", f"kind {plan.kind.name} has square tiles: those of rows and of columns meet on the diagonal", got=plan.block[:2],
        needs="equal sides", remedy=f"block = [{side}, {side}, {plan.block[2]}]",
    )


SQUARE = Constraint("K1", "square tiles", "BM == BN", "A's words serve as B's, and tiles end where the diagonal does", not_square)
ROWS = Equation("K2", "triangle_rows", "ceil(M / (BM * cluster))", "rows of tiles", "of C, as many as a cluster has together")
SHORT = Equation("K3", "triangle_short", "cluster * triangle_rows - ceil(N / BN)", "columns of tiles", "by which whole clusters are more than C")
TWICE = Equation("K7", "stages_k", "ceil(2 * ceil(K / BK) / split_k)", "stages a block", "of one product, then of the other")
BLOCKS = Equation("K5", "blocks", "tiles * split_k", "blocks", "a tile each, or a slice of k of it; those of whole clusters are in K4")


def tiles_equation(upper: bool) -> Equation:
    short = "triangle_short * triangle_rows" if upper else "triangle_short"
    return Equation(
        "K4", "tiles", f"batch * cluster * (cluster * triangle_rows * (triangle_rows + 1) / 2 - {short})", "tiles of C",
        "that touch the triangle, in whole clusters: each row of clusters has as many more than the one before as a cluster has blocks",
    )


class Triangle(Kind):
    """A product whose C is square, and of which one triangle is computed.

    Args:
        uplo: which one; `both`: the lower one, which is stored to the upper one too.
    """

    words = "A B"
    aliases = {"n": "m"}
    among = (LOWER, UPPER)
    constraints = (SQUARE,)

    def __init__(self, uplo: str = LOWER):
        self.options = {"uplo": uplo}
        self.upper, self.mirrored = uplo == UPPER, uplo == BOTH
        side = UPPER if self.upper else LOWER
        self.formula = f"the {side} triangle of C = alpha {self.words} + beta C{', stored to the upper one too' if self.mirrored else ''}"
        self.tiles = Tiles(partial(number, upper=self.upper), COUNT[side], FUNCTIONS + AT[side])
        self.stored = "row <= column" if self.upper else "column <= row"
        self.whole = "m0 + BLOCK_M <= n0 + 1" if self.upper else "n0 + BLOCK_N <= m0 + 1"
        # Of the rows of A that a row of tiles has, the tile on the diagonal counts what words cannot hold; so does it of the columns of B.
        self.counts = "n0 == m0", "n0 == m0"
        self.equations = (ROWS, SHORT, tiles_equation(self.upper), BLOCKS)

    def of(self, problem: Any) -> Kind:
        return type(self)(problem.uplo or LOWER)

    def check(self, problem: Any, place: str) -> None:
        if (problem.uplo or LOWER) not in self.among:
            raise InfeasibleSpec(
                f"{place}: [problem] uplo", f"A B is not symmetric in kind {self.name}", got=problem.uplo, needs=" or ".join(self.among),
                remedy='uplo = "lower"',
            )
        super().check(problem, place)

    def computed(self, m: int, n: int) -> np.ndarray:
        return np.ones((m, n), bool) if self.mirrored else np.tri(m, n, dtype=bool).T if self.upper else np.tri(m, n, dtype=bool)

    def read(self, c: np.ndarray) -> np.ndarray:
        return np.tril(c) + np.tril(c, -1).T if self.mirrored else c

    def part(self, c: np.ndarray, m: int, n: int) -> np.ndarray:
        return c[:m, m:] if self.upper else c[n:, :n]

    def embedded(self, a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> Problem:
        """The rows of A [M, K] and the columns of B [K, N] again and again: A B stands in a corner of C [M + N, M + N], and in part elsewhere."""
        m, n = a.shape[0], b.shape[1]
        rows, columns = (np.arange(m + n), np.arange(-m, n)) if self.upper else (np.arange(-n, m), np.arange(m + n))
        return Problem(a[rows % max(m, 1)] if m else np.zeros((n, a.shape[1]), a.dtype), b[:, columns % max(n, 1)] if n else np.zeros((a.shape[1], m), b.dtype),
                       self.around(c, m, n))

    def around(self, c: np.ndarray | None, m: int, n: int) -> np.ndarray | None:
        """Zeros around a C [M, N] that is a part of this kind's."""
        return None if c is None else np.pad(c, ((0, n), (m, 0)) if self.upper else ((n, 0), (0, m)))


class Gemmt(Triangle):
    name = "gemmt"
    vendor_share = 0.5
    meaning = "a triangle of one product whose C is square, as of A B that is known to be symmetric"


class Syrk(Triangle):
    """C = alpha A A^T + beta C; the layout says whether A is stored or A^T."""

    name = "syrk"
    vendor_share = 0.5
    meaning = "a triangle of A A^T, of one operand"
    words = "A A^T"
    layouts = ("nt", "tn")  # B is A's memory, read the other way
    aliases = {"b": "a", "ldb": "lda", "n": "m"}
    among = (LOWER, UPPER, BOTH)

    def completed(self, a: np.ndarray, b: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        return a, np.ascontiguousarray(a.T)

    def embedded(self, a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> Problem:
        """Of the rows [B^T; A], A B is the part of C below and to the left; of [A; B^T] that above and to the right."""
        m, n = a.shape[0], b.shape[1]
        return Problem(np.concatenate([a, b.T] if self.upper else [b.T, a]), None, self.around(c, m, n))


class Syr2k(Triangle):
    """C = alpha (A B + B^T A^T) + beta C; BLAS's B is B^T here, stored as A is."""

    name = "syr2k"
    vendor_share = 1.0
    meaning = "a triangle of A B + B^T A^T, which is symmetric"
    words = "(A B + B^T A^T)"
    layouts = ("nt", "tn")
    among = (LOWER, UPPER, BOTH)
    twice = True

    def __init__(self, uplo: str = LOWER):
        super().__init__(uplo)
        self.equations = (*self.equations, TWICE)

    def completed(self, a: np.ndarray, b: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        a, b = super().completed(a, b)
        return np.concatenate([a, b.T], 1), np.concatenate([b, a.T])

    def embedded(self, a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> Problem:
        """Of [0; A] [B 0] and its mirror image, A B is the part below and to the left; of [A; 0] [0 B] that above and to the right."""
        m, n = a.shape[0], b.shape[1]
        rows, columns = ((0, n), (m, 0)) if self.upper else ((n, 0), (0, m))
        return Problem(np.pad(a, (rows, (0, 0))), np.pad(b, ((0, 0), columns)), self.around(c, m, n))


SYRK, GEMMT, SYR2K = Syrk(), Gemmt(), Syr2k()
