"""The error of schemes whose words are integers.

Such words keep an element to a last place that its whole row of A or column of B shares, so all that they leave out is told relative to the
largest elements. With p_i and q_j the largest magnitudes of row i and column j, r_A and r_B what the words leave of one at most over it
(`Scheme.remainder`), and R_l the same after l words, an element of C misses no more than

    K p_i q_j ( r_A + r_B + r_A r_B + sum over dropped products (l, m) of R_l R_m + roundings )

Products are exact and so are their INT32 sums, as long as they do not overflow (`Scheme.largest_k`). Each sum is rounded to FP32 once, where
it is converted, and once more where it is recombined.

**Statistical.** What a word leaves is spread evenly over half a last place to either side: 1/sqrt(12) of that place in the root mean square,
whatever the element. Summed over the elements of C,

    ||E||_F^2 = sum_ik a_ik^2 sum_j s_j^2 + sum_i s_i^2 sum_kj b_kj^2 + K sum over dropped of sum_i w_il^2 sum_j w_jm^2 + roundings

where s are the root mean squares of what all words leave and w that of a word, both of a row's or column's own scale. It is doubled like the
others' (`bound.SAFETY`).

**Tiles.** Where each 32 k of a row or column have an exponent of their own, all this holds tile by tile, and errors add up: p_i and q_j are then the
largest magnitudes of the tile, and K p_i q_j is the sum of such figures over the tiles (`reach`). Beside that the tiles' numbers are added in FP32, a
rounding each, which is no more than u of what `reach` tells at worst, and grows with the root of their number in a statistical view, as promotion does.
"""

from __future__ import annotations

from math import ceil, sqrt

import numpy as np

from gemmgen.catalog.scheme import Scheme
from gemmgen.model.error import U
from gemmgen.split import exponents, in_tiles

EVEN = 12**-0.5
"""Root mean square of what is spread evenly, over its width."""


OFFSETS_LEFT = 0.25
"""A tile's number is rounded while it is up to 774 places too small for the offsets that are still to come: beside 2^12 places, the least that a
product of largest elements has, less than this."""
SMALLEST_SCALE = 2.0**-150
"""Products of two tiles' scales up to here are 0 in FP32."""


def tiles(scheme: Scheme, k: int) -> int:
    """Of k with an exponent of their own; 0 where rows have one."""
    return ceil(max(k, 1) / scheme.tile_k) if scheme.tiled else 0


def worst(scheme: Scheme, k: int = 1) -> float:
    """Largest error of an element of C over K times the largest magnitudes of its row of A and column of B, or of the sum over tiles of such."""
    of_a, of_b = (scheme.remainder(len(scheme.words_of(operand))) for operand in "ab")
    lost = of_a + of_b + of_a * of_b + sum(scheme.remainder(i) * scheme.remainder(j) for i, j in scheme.dropped)
    # Every product of words, as the sums take them in, is no larger than what the words before them leave.
    converted = sum(scheme.remainder(p.a) * scheme.remainder(p.b) for p in scheme.products)
    if scheme.tiled:
        return lost + (scheme.moved.roundings * (1 + OFFSETS_LEFT) + tiles(scheme, k) + 1) * (1 + 2.0**-5) * U
    return lost + (converted + (scheme.recombination.roundings + 1) * (1 + 2.0**-5)) * U


def underflow(scheme: Scheme, k: int) -> float:
    """What an element of C may miss because the scales of tiles multiply to less than FP32 has, or their sums are subnormal."""
    largest = scheme.tile_k * 2.0 ** (2 * (scheme.target_exponent + 1)) if scheme.tiled else 0.0
    return tiles(scheme, k) * (SMALLEST_SCALE * largest + 2.0**-149)


def reach(a: np.ndarray, b: np.ndarray, scheme: Scheme | None = None) -> np.ndarray:
    """K times the largest magnitudes of each row of A [M, K] and column of B [K, N], [M, N]; of tiles of k the sum of such figures.

    Args:
        scheme: None takes rows and columns as a whole.
    """
    if scheme is not None and scheme.tiled:
        of_a, of_b = (np.abs(in_tiles(x, scheme)).max(axis=2, initial=0.0).astype(np.float64) for x in (a, np.ascontiguousarray(b.T)))
        return scheme.tile_k * of_a @ of_b.T
    rows, columns = (np.abs(x).max(axis=axis, initial=0.0).astype(np.float64) for x, axis in ((a, 1), (b, 0)))
    return a.shape[1] * rows[:, None] * columns[None, :]


def places(x: np.ndarray, scheme: Scheme, index: int) -> np.ndarray:
    """The last place of word `index` of each row of `x` [rows, k], [rows]; of each tile, [rows, tiles]."""
    return np.ldexp(1.0, -scheme.words[index].scale - exponents(x, scheme))


def error_norm(scheme: Scheme, a: np.ndarray, b: np.ndarray, reference: np.ndarray) -> float:
    """Expected Frobenius norm of the error of A [M, K] B [K, N] = `reference`, FP32 and finite."""
    k = scheme.tile_k if scheme.tiled else a.shape[1]  # that share an exponent
    operands = {"a": a, "b": np.ascontiguousarray(b.T)}
    elements = {name: in_tiles(x, scheme) if scheme.tiled else x[:, None, :] for name, x in operands.items()}
    squares = {name: (x.astype(np.float64) ** 2).sum(axis=(0, 2)) for name, x in elements.items()}

    def left(operand: str, words: int) -> np.ndarray:
        """[tiles], or [1] of whole rows: sum over rows of the mean square of what the first `words` words leave; of none, of the elements themselves."""
        if words == 0:
            return squares[operand] / max(k, 1)
        return ((EVEN * places(operands[operand], scheme, words - 1).reshape(len(operands[operand]), -1)) ** 2).sum(axis=0)

    counts = {operand: len(scheme.words_of(operand)) for operand in "ab"}
    square = squares["a"] * left("b", counts["b"]) + squares["b"] * left("a", counts["a"])
    square = float((square + k * sum(left("a", i) * left("b", j) for i, j in scheme.dropped)).sum())
    return sqrt(square + (rounding(scheme) * float(np.linalg.norm(reference))) ** 2 + _added(scheme, operands["a"], operands["b"], reference) ** 2)


def _added(scheme: Scheme, a: np.ndarray, b: np.ndarray, reference: np.ndarray) -> float:
    """Expected Frobenius norm of the roundings of additions of tiles: `accuracy`'s E11 of what has one sign, E12 of the rest, and a tile's own."""
    count, norm = tiles(scheme, a.shape[1]), float((reference**2).sum())
    if not count:
        return 0.0
    squares = float((a.astype(np.float64) ** 2).sum(axis=0) @ (b.astype(np.float64) ** 2).sum(axis=0))
    coherent, random = added(count)
    return sqrt(coherent**2 * max(0.0, norm - squares) + (random**2 + (scheme.moved.roundings * U) ** 2) * squares)


def added(count: int) -> tuple[float, float]:
    """Root mean squares of `count` FP32 additions' roundings, of a sum of one sign and of one that wanders, relative to the sum."""
    return U / sqrt(3) * sqrt(count / 3), U / sqrt(3) * sqrt((count + 1) / 2)


def rounding(scheme: Scheme) -> float:
    """Of conversions, recombination and alpha, relative to C. All but the first sum's are of what is smaller."""
    return (scheme.recombination.roundings + 2) * U


def relative(scheme: Scheme, k: int = 1) -> float:
    """Expected relative error of data spread evenly in [-1, 1], whose largest elements are at the bottom of their binade: no row has worse places."""
    def left(words: int) -> float:
        """Root mean square over that of the elements, 3^-1/2 of the largest."""
        return 1.0 if words == 0 else sqrt(3) * EVEN * 2.0 ** -(scheme.words[words - 1].scale + scheme.target_exponent)

    of_a, of_b = (left(len(scheme.words_of(operand))) for operand in "ab")
    square = of_a**2 + of_b**2 + sum((left(i) * left(j)) ** 2 for i, j in scheme.dropped) + rounding(scheme) ** 2
    return sqrt(square + (added(tiles(scheme, k))[1] ** 2 if scheme.tiled else 0.0))
