"""Products of which a triangle of C is computed: BLAS's syrk, herk, syr2k and her2k, and gemmt."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gemmgen.catalog.element import F32
from gemmgen.errors import InfeasibleSpec
from gemmgen.kinds.kind import Kind, Problem, Tiles
from gemmgen.model.equation import Constraint, Equation, Numbers

LOWER, UPPER, BOTH = "lower", "upper", "both"

FUNCTIONS = """// The tiles of a triangle: each row of them has EACH tiles more than the row above, and the first EACH - less.
constexpr int EACH = %s;
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
    if (in_group < rows * common || rows == 1) return {first + in_group %% rows, in_group / rows};
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
    LOWER: "{each} * tiles_m * (tiles_m + 1) / 2 - ({each} * tiles_m - tiles_n)",
    UPPER: "{each} * tiles_m * (tiles_m + 1) / 2 - ({each} * tiles_m - tiles_n) * tiles_m",
}


def number(m: int, n: int, tile: tuple[int, int], upper: bool, reals: int = 1) -> int:
    """Tiles of C [m, m] that touch a triangle; `reals` times a tile's height is a multiple of its width.

    Args:
        n: m, or so many real columns: `reals` m.
        tile: (TILE_M, TILE_N), of real columns.
    """
    each, rows = reals * tile[0] // tile[1], -(-m // tile[0])
    less = each * rows - -(-n // tile[1])
    return each * rows * (rows + 1) // 2 - less * (rows if upper else 1)


def not_square(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    """The refusal of a spec whose tile breaks the constraint K1."""
    side = max(plan.block[:2])
    return InfeasibleSpec(
        f"{place}: [tile] block", f"kind {plan.kind.name} has square tiles: those of rows and of columns meet on the diagonal", got=plan.block[:2],
        needs="equal sides", remedy=f"block = [{side}, {side}, {plan.block[2]}]",
    )


def not_halved(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    """The same of complex elements, whose tiles have two real columns for each element."""
    rows = plan.block[0]
    return InfeasibleSpec(
        f"{place}: [tile] block", f"kind {plan.kind.name} has tiles of as many real columns as rows, or twice as many: tiles end where the diagonal does",
        got=plan.block[:2], needs=f"{rows} or {2 * rows} columns", remedy=f"block = [{rows}, {rows}, {plan.block[2]}]",
    )


SQUARE = Constraint("K1", "square tiles", "BM == BN", "A's words serve as B's, and tiles end where the diagonal does", not_square)
HALVED = Constraint(
    "K1", "tiles of whole rows", "(BN == BM) | (BN == 2 * BM)",
    "a row of tiles begins where a column of tiles does: an element has two real columns", not_halved,
)
ROWS = Equation("K2", "triangle_rows", "ceil(M / (BM * cluster))", "rows of tiles", "of C, as many as a cluster has together")
TWICE = Equation("K7", "stages_k", "ceil(2 * ceil(K / BK) / split_k)", "stages a block", "of one product, then of the other")
BLOCKS = Equation("K5", "blocks", "tiles * split_k", "blocks", "a tile each, or a slice of k of it; those of whole clusters are in K4")


def tiles_equations(upper: bool, reals: int) -> tuple[Equation, Equation]:
    each = "cluster" if reals == 1 else f"({reals} * cluster * BM / BN)"
    short = "triangle_short * triangle_rows" if upper else "triangle_short"
    return (
        Equation("K3", "triangle_short", f"{each} * triangle_rows - ceil(N / BN)", "columns of tiles", "by which whole clusters are more than C"),
        Equation(
            "K4", "tiles", f"batch * cluster * ({each} * triangle_rows * (triangle_rows + 1) / 2 - {short})", "tiles of C",
            "that touch the triangle, in whole clusters: each row of clusters has as many more than the one before as a cluster has blocks"
            + ", by two real columns an element" * (reals > 1),
        ),
    )


def require_complex(kind: Kind, problem: Any, place: str, real: str) -> None:
    """
    Args:
        real: the kind that does the same of real elements.

    Raises:
        InfeasibleSpec: the elements of a spec's section [problem] are real.
    """
    if problem.element.reals == 1:
        raise InfeasibleSpec(
            f"{place}: [problem] kind", f"kind {kind.name} is of complex elements", got=f"{kind.name}, type = {problem.type}", needs='type = "c64" or "c128"',
            remedy=f'type = "c64", or kind = "{real}"',
        )


def hermitian(x: np.ndarray, below: bool) -> np.ndarray:
    """The Hermitian matrix of which x [size, size] has one triangle: the other one is its conjugate, and the imaginary parts of the diagonal are 0.

    Args:
        below: whether it is the lower triangle.
    """
    kept = np.tri(len(x), k=-1, dtype=bool)
    kept = np.where(kept if below else kept.T, x, np.zeros((), x.dtype))
    return np.where(np.eye(len(x), dtype=bool), x.real, kept + kept.conj().T).astype(x.dtype)


class Triangle(Kind):
    """A product whose C is square, and of which one triangle is computed.

    Args:
        uplo: which one; `both`: the lower one, which is stored to the upper one too.
        reals: real numbers in an element, each a column of the real C that kernels compute.
    """

    words = "A B"
    aliases = {"n": "m"}
    among = (LOWER, UPPER)
    mirror = "stored"

    def __init__(self, uplo: str = LOWER, reals: int = 1):
        self.options = {"uplo": uplo}
        self.upper, self.mirrored = uplo == UPPER, uplo == BOTH
        side = UPPER if self.upper else LOWER
        self.formula = f"the {side} triangle of C = alpha {self.words} + beta C{f', {self.mirror} to the upper one too' if self.mirrored else ''}"
        each = "TILE_M / TILE_N" if reals == 1 else f"{reals} * TILE_M / TILE_N"
        self.tiles = Tiles(partial(number, upper=self.upper, reals=reals), COUNT[side].format(each=each), FUNCTIONS % each + AT[side])
        if reals == 1:
            self.stored = "row <= column" if self.upper else "column <= row"
            self.whole = "m0 + BLOCK_M <= n0 + 1" if self.upper else "n0 + BLOCK_N <= m0 + 1"
            # Of the rows of A that a row of tiles has, the tile on the diagonal counts what words cannot hold; so does it of the columns of B.
            self.counts = "n0 == m0", "n0 == m0"
        else:  # of which a pass counts
            self.stored = f"row <= column / {reals}" if self.upper else f"column / {reals} <= row"
        self.constraints = (SQUARE if reals == 1 else HALVED,)
        self.equations = (ROWS, *tiles_equations(self.upper, reals), BLOCKS)

    def of(self, problem: Any) -> Kind:
        return type(self)(problem.uplo or LOWER)

    def of_complex(self, type: str) -> Kind:
        return self.__class__(self.options["uplo"], reals=2)

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


class Hermitian(Triangle):
    """A triangle of a C of complex numbers that is Hermitian: the imaginary parts of its diagonal are 0, and not read.

    Attributes:
        of_reals: the kind that does the same of real elements.
    """

    of_reals = ""
    mirror = "stored conjugated"
    layouts = ("nc", "cn")
    hermitian = True

    def check(self, problem: Any, place: str) -> None:
        require_complex(self, problem, place, self.of_reals)
        super().check(problem, place)

    def read(self, c: np.ndarray) -> np.ndarray:
        return hermitian(c, below=True) if self.mirrored else np.where(np.eye(len(c), dtype=bool), c.real, c)


class Herk(Hermitian, Syrk):
    """C = alpha A A^H + beta C, alpha and beta real."""

    name, of_reals = "herk", "syrk"
    meaning = "a triangle of A A^H, of one operand of complex elements; alpha and beta are real"
    words = "A A^H"

    def completed(self, a: np.ndarray, b: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        return a, np.ascontiguousarray(a.conj().T)

    def embedded(self, a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> Problem:
        return super().embedded(a, b.conj(), c)


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

    def of(self, problem: Any) -> Kind:
        return super().of(problem) if problem.type == F32.name else Syr2kInTurn(problem.uplo or LOWER)

    def of_complex(self, type: str) -> Kind:
        return Syr2kInTurn(self.options["uplo"], reals=2)

    def completed(self, a: np.ndarray, b: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        a, b = super().completed(a, b)
        rows, columns = self.turned(a, b)
        return np.concatenate([a, rows], 1), np.concatenate([b, columns])

    def turned(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A and B of the second product."""
        return np.ascontiguousarray(b.T), np.ascontiguousarray(a.T)

    def embedded(self, a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> Problem:
        """Of [0; A] [B 0] and its mirror image, A B is the part below and to the left; of [A; 0] [0 B] that above and to the right."""
        m, n = a.shape[0], b.shape[1]
        rows, columns = ((0, n), (m, 0)) if self.upper else ((n, 0), (0, m))
        return Problem(np.pad(a, (rows, (0, 0))), np.pad(b, ((0, 0), columns)), self.around(c, m, n))

    def filled(self, a: np.ndarray, b: np.ndarray) -> Problem:
        """Of which both products are seen in every element."""
        return Triangle.embedded(self, a, b, None)


class Syr2kInTurn(Syr2k):
    """The same by two rounds of the kernels of one product: of FP64, whose residues are of one product, and of complex elements, whose B is blocks."""

    twice = False
    exchanged = True

    def __init__(self, uplo: str = LOWER, reals: int = 1):
        Triangle.__init__(self, uplo, reals)

    def of(self, problem: Any) -> Kind:
        return type(self)(problem.uplo or LOWER)

    def of_complex(self, type: str) -> Kind:
        return self.__class__(self.options["uplo"], reals=2)

    def terms(self, a: np.ndarray, b: np.ndarray | None, alpha: complex = 1.0) -> list[tuple[complex, np.ndarray, np.ndarray]]:
        a, b = Kind.completed(self, a, b)
        return [(alpha, a, b), (complex(alpha).conjugate() if self.hermitian else alpha, *self.turned(a, b))]


class Her2k(Hermitian, Syr2kInTurn):
    """C = alpha A B + conj(alpha) B^H A^H + beta C, beta real."""

    name, of_reals = "her2k", "syr2k"
    meaning = "a triangle of alpha A B and its conjugate transpose, of complex elements; beta is real"
    words = "A B + conj(alpha) B^H A^H"

    def turned(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.ascontiguousarray(b.conj().T), np.ascontiguousarray(a.conj().T)


SYRK, HERK, GEMMT, SYR2K, HER2K = Syrk(), Herk(), Gemmt(), Syr2k(), Her2k()
