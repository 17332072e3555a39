"""The error of schemes with words that are integers.

Such words keep an element to a last place that its whole row of A or column of B shares, so all that they leave out is told relative to the
largest elements. With p_i and q_j the largest magnitudes of row i and column j, and R_l what is left of one at most over it behind word l
(`Precision.remainder`; R_0 = 1), an element of C misses no more than

    K p_i q_j ( sum over missing terms (l, m) of R_l R_m + R_A R_B of both rests + roundings )

(`Precision.missing`). Products of integers are exact and so are their INT32 sums, as long as they do not overflow (`Family.largest_k`). Each sum is
rounded to FP32 once, where it is converted, and once more where it is recombined. Of schemes that have floating-point words as well, the
sums of those err as others' do, relative to |A||B|, which is no more than K p_i q_j.

**Statistical.** What an integer leaves is spread evenly over half a last place to either side: 1/sqrt(12) of that place in the root mean square,
whatever the element; what a floating-point word leaves is its rounding rule's share of what it is taken from. Summed over the elements of C,

    ||E||_F^2 = sum over missing terms (l, m) of sum_k ( sum_i d_ikl^2 ) ( sum_j e_kjm^2 ) + roundings

where d and e are the root mean squares of what is left behind word l of A and word m of B, and of l = 0 the elements themselves. It is doubled like
the others' (`bound.safety`).

**Tiles.** Where each 32 k of a row or column have an exponent of their own, all this holds tile by tile, and errors add up: p_i and q_j are then the
largest magnitudes of the tile, and K p_i q_j is the sum of such figures over the tiles (`reach`). Beside that the tiles' numbers are added in FP32, a
rounding each, which is no more than u of what `reach` tells at worst, and grows with the root of their number in a statistical view, as promotion does.

**Residues** (`gemmgen.catalog.residues`) stand for integers of which a row has one last place too: 1 / f_i of row i of A, which is |a_i| / T but for less
than 2^-19 that the factor f_i is too small by. |a_i| is the Euclidean norm of the row, or of its largest segment of k, and T the target. Half of that place is
lost of an element, and sum_k |a_ik| <= sqrt(K) |a_i|, so with the norms of whole rows and columns

    |C - C*| <= |a_i| |b_j| ( sqrt(K) / T + K / (4 T^2) + segments * 2^-41 + u )

Sums modulo each m are exact. The fraction that stands for the result of a segment is off by 2^-53 for each of a residue, times M = 2 T^2; C is
rounded to FP32 once. The statistical gate is the one above, of which the places say all.

**Residues of FP64 elements** have powers of two in place of factors, found from bounds of norms that are off by 2^-15: one of the integers is less than
2 |a_i| / T (1 + 2^-14). All of k is one sum, which is exact, and u = 2^-53:

    |C - C*| <= |a_i| |b_j| ( sqrt(K) step + K step^2 / 4 + u ),    step = 2 (1 + 2^-14) / T
"""

from __future__ import annotations

from functools import singledispatch
from math import ceil, sqrt

import numpy as np

from gemmgen.catalog.element import ELEMENTS
from gemmgen.catalog.residues import FACTOR_BITS, FRACTION_BITS, LARGEST, LEADING_BITS, SEGMENT_K
from gemmgen.catalog.scheme import Family, ResidueWords, Scheme, Tiles, WideResidueWords, Word
from gemmgen.catalog.unit import MatrixUnit
from gemmgen.model.accuracy import float_sums_worst, split_worst
from gemmgen.model.error import U
from gemmgen.split import exponents, in_tiles, of_elements, row_steps

EVEN = 12**-0.5
"""Root mean square of what is spread evenly, over its width."""


OFFSETS_LEFT = 0.25
"""A tile's number is rounded while it is up to 774 places too small for the offsets that are still to come: beside 2^12 places, the least that a
product of largest elements has, less than this."""
SMALLEST_SCALE = 2.0**-150
"""Products of two tiles' scales up to here are 0 in FP32."""


def tiles(scheme: Scheme, k: int) -> int:
    """Of k with an exponent of their own; 0 where rows have one."""
    return scheme.family.tiles(k)


def worst(scheme: Scheme, unit: MatrixUnit | None = None, k: int = 1, promote: int = 0, compensated: bool = False) -> float:
    """Largest error of an element of C over K times the largest magnitudes of its row of A and column of B, or over the sum of such figures over tiles;
    of residues over their norms.

    Args:
        unit, promote, compensated: what sums floating-point words, how often it is moved on, and how; of no matter where all words are integers.
        k: K.
    """
    return _worst(scheme.family, unit, k, promote, compensated)


@singledispatch
def _worst(family: Family, unit: MatrixUnit | None, k: int, promote: int, compensated: bool) -> float:
    scheme = family.scheme
    of_a, of_b = (scheme.words_of(operand) for operand in "ab")
    # Every product of words, as the sums take them in, is no larger than what the words before them leave.
    converted = sum(
        scheme.precision.remainder(of_a[p.a].source, "a") * scheme.precision.remainder(of_b[p.b].source, "b") for p in scheme.products if of_a[p.a].fixed
    )
    summed = 0.0 if family.exact else float_sums_worst(scheme, unit, k, promote, compensated)
    return split_worst(scheme) + (converted + (scheme.family.recombination.roundings + 1) * (1 + 2.0**-5)) * U + summed


@_worst.register
def _(family: Tiles, unit: MatrixUnit | None, k: int, promote: int, compensated: bool) -> float:
    return split_worst(family.scheme) + (family.moved.roundings * (1 + OFFSETS_LEFT) + family.tiles(k) + 1) * (1 + 2.0**-5) * U


@_worst.register
def _(family: ResidueWords, unit: MatrixUnit | None, k: int, promote: int, compensated: bool) -> float:
    step = (1 + 2.0 ** (1 - FACTOR_BITS)) / family.residues.target  # over the norm
    joining = ceil(k / SEGMENT_K) * len(family.scheme.words) * LARGEST * 2.0 ** -(FRACTION_BITS + 1) * 2 * (1 + 2.0**-10)
    lost = sqrt(k) * step + k * step**2 / 4 + joining
    return lost + U * (1 + lost)


@_worst.register
def _(family: WideResidueWords, unit: MatrixUnit | None, k: int, promote: int, compensated: bool) -> float:
    step = 2 * (1 + 2.0 ** (2 - LEADING_BITS)) / family.residues.target  # over the norm
    left = step * sqrt(k) + k * step**2 / 4
    return left + ELEMENTS[family.scheme.element].roundoff * (1 + left)


def underflow(scheme: Scheme, k: int) -> float:
    """What an element of C may miss because the scales of tiles multiply to less than FP32 has, or their sums are subnormal."""
    count = tiles(scheme, k)
    largest = scheme.family.tile_k * 2.0 ** (2 * (scheme.target_exponent + 1)) if count else 0.0
    return count * (SMALLEST_SCALE * largest + 2.0**-149)


def reach(scheme: Scheme, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """K times the largest magnitudes of each row of A [M, K] and column of B [K, N], [M, N]; of tiles of k the sum of such figures, of residues the
    product of their norms."""
    return _reach(scheme.family, a, b)


@singledispatch
def _reach(family: Family, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    rows, columns = (np.abs(x).max(axis=axis, initial=0.0).astype(np.float64) for x, axis in ((a, 1), (b, 0)))
    return a.shape[1] * rows[:, None] * columns[None, :]


@_reach.register
def _(family: Tiles, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    of_a, of_b = (np.abs(in_tiles(x, family.scheme)).max(axis=2, initial=0.0).astype(np.float64) for x in (a, np.ascontiguousarray(b.T)))
    return family.tile_k * of_a @ of_b.T


@_reach.register
def _(family: ResidueWords, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    element = ELEMENTS[family.scheme.element]
    norms = [np.sqrt((element.widened(x) ** 2).sum(axis=axis)) for x, axis in ((a, 1), (b, 0))]
    return norms[0][:, None] * norms[1][None, :]


def places(x: np.ndarray, scheme: Scheme, word: Word) -> np.ndarray:
    """The last place of an integer word of each row of `x` [rows, k], [rows, 1], or of each element as its tile has it, [rows, k]; of residues what one
    of the integers stands for."""
    return _places(scheme.family, x, word)


@singledispatch
def _places(family: Family, x: np.ndarray, word: Word) -> np.ndarray:
    return np.ldexp(1.0, -word.scale - of_elements(exponents(x, family.scheme), family.scheme, x.shape[1]))


@_places.register
def _(family: ResidueWords, x: np.ndarray, word: Word) -> np.ndarray:
    return row_steps(x, family.residues)[:, None]


def error_norm(scheme: Scheme, a: np.ndarray, b: np.ndarray, reference: np.ndarray) -> float:
    """Expected Frobenius norm of the error of A [M, K] B [K, N] = `reference`, FP32 and finite, but for that of floating-point sums."""
    operands = {"a": a, "b": np.ascontiguousarray(b.T)}
    element = ELEMENTS[scheme.element]

    def left(operand: str, index: int) -> np.ndarray:
        """[K], sums over rows of the mean square of what is left behind word `index` - 1; of 0, of the elements themselves."""
        x = operands[operand]
        if index == 0:
            return (element.widened(x) ** 2).sum(axis=0)
        word = scheme.words_of(operand)[index - 1]
        if word.fixed:
            return np.broadcast_to(((EVEN * places(x, scheme, word)) ** 2).sum(axis=0), x.shape[1])
        return left(operand, word.source) * word.left.rms**2

    square = sum(float(left("a", p) @ left("b", q)) for p, q in scheme.precision.missing)
    return sqrt(square + (rounding(scheme) * float(np.linalg.norm(reference))) ** 2 + _added(scheme, operands["a"], operands["b"], reference) ** 2)


def _added(scheme: Scheme, a: np.ndarray, b: np.ndarray, reference: np.ndarray) -> float:
    """Expected Frobenius norm of the roundings of additions of tiles: `accuracy`'s E11 of what has one sign, E12 of the rest, and a tile's own."""
    count, norm = tiles(scheme, a.shape[1]), float((reference**2).sum())
    if not count:
        return 0.0
    squares = float((a.astype(np.float64) ** 2).sum(axis=0) @ (b.astype(np.float64) ** 2).sum(axis=0))
    coherent, random = added(count)
    return sqrt(coherent**2 * max(0.0, norm - squares) + (random**2 + (scheme.family.moved.roundings * U) ** 2) * squares)


def added(count: int) -> tuple[float, float]:
    """Root mean squares of `count` FP32 additions' roundings, of a sum of one sign and of one that wanders, relative to the sum."""
    return U / sqrt(3) * sqrt(count / 3), U / sqrt(3) * sqrt((count + 1) / 2)


def rounding(scheme: Scheme) -> float:
    """Of conversions, recombination and alpha, relative to C. All but the first sum's are of what is smaller."""
    return (scheme.family.recombination.roundings + 2) * ELEMENTS[scheme.element].roundoff


def relative(scheme: Scheme, k: int = 1) -> float:
    """Expected relative error of data spread evenly in [-1, 1], whose largest elements are at the bottom of their binade: no row has worse places.
    That of floating-point sums is not in it. Of residues it depends on K."""
    return _relative(scheme.family, k)


@singledispatch
def _relative(family: Family, k: int) -> float:
    scheme = family.scheme

    def left(operand: str, index: int) -> float:
        """Root mean square over that of the elements, 3^-1/2 of the largest."""
        if index == 0:
            return 1.0
        word = scheme.words_of(operand)[index - 1]
        if word.fixed:
            return sqrt(3) * EVEN * 2.0 ** -(word.scale + scheme.target_exponent)
        return left(operand, word.source) * word.left.rms

    square = sum((left("a", p) * left("b", q)) ** 2 for p, q in scheme.precision.missing) + rounding(scheme) ** 2
    count = family.tiles(k)
    return sqrt(square + (added(count)[1] ** 2 if count else 0.0))


@_relative.register
def _(family: ResidueWords, k: int) -> float:
    return sqrt(2 * (EVEN * sqrt(min(k, SEGMENT_K)) / family.residues.target) ** 2 + rounding(family.scheme) ** 2)


@_relative.register
def _(family: WideResidueWords, k: int) -> float:
    return sqrt(2 * (2 * EVEN * sqrt(k) / family.residues.target) ** 2 + rounding(family.scheme) ** 2)
