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

**Residues** (`gemmgen.catalog.residues`) stand for integers of which the row has one last place too, 1 / f_i = |a_i| / T of row i of A, where |a_i| is the
Euclidean norm of its largest segment and T the target, but for 2^-20 that the factor f_i is rounded down by. Half of that is lost of an element, and sum_k |a_ik| <= sqrt(K) |a_i|, so

    |C - C*| <= |a_i| |b_j| ( sqrt(K) / T + K / (4 T^2) + 2^-41 + u )

for each segment, and with K in place of its length and the norms of whole rows and columns for all of them. Sums modulo each m are exact. The fraction that stands
for the result of all of them is off by 2^-53 for each of a residue, times M = 2 T^2, in each segment; the result is rounded to FP32 once. The statistical gate is the one above, of which the scales say all.
"""

from __future__ import annotations

from math import ceil, sqrt

import numpy as np

from gemmgen.catalog.scheme import Scheme
from gemmgen.model.error import U
from gemmgen.catalog.residues import FACTOR_BITS, FRACTION_BITS, LARGEST, SEGMENT_K
from gemmgen.split import row_exponents, row_steps

EVEN = 12**-0.5
"""Root mean square of what is spread evenly, over its width."""


def worst(scheme: Scheme, k: int) -> float:
    """Largest error of an element of C over K times the largest magnitudes of its row of A and column of B; of residues over their norms."""
    if scheme.residues:
        step = (1 + 2.0 ** (1 - FACTOR_BITS)) / scheme.residues.target  # over the norm
        joining = ceil(k / SEGMENT_K) * len(scheme.words) * LARGEST * 2.0 ** -(FRACTION_BITS + 1) * 2 * (1 + 2.0**-10)
        lost = sqrt(k) * step + k * step**2 / 4 + joining
        return lost + U * (1 + lost)
    of_a, of_b = (scheme.remainder(len(scheme.words_of(operand))) for operand in "ab")
    lost = of_a + of_b + of_a * of_b + sum(scheme.remainder(i) * scheme.remainder(j) for i, j in scheme.dropped)
    # Every product of words, as the sums take them in, is no larger than what the words before them leave.
    converted = sum(scheme.remainder(p.a) * scheme.remainder(p.b) for p in scheme.products)
    return lost + (converted + (scheme.recombination.roundings + 1) * (1 + 2.0**-5)) * U


def reach(scheme: Scheme, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """K times the largest magnitudes of each row of A [M, K] and column of B [K, N], [M, N]; of residues the product of their norms."""
    if scheme.residues:
        norms = [np.sqrt((x.astype(np.float64) ** 2).sum(axis=axis)) for x, axis in ((a, 1), (b, 0))]
        return norms[0][:, None] * norms[1][None, :]
    rows, columns = (np.abs(x).max(axis=axis, initial=0.0).astype(np.float64) for x, axis in ((a, 1), (b, 0)))
    return a.shape[1] * rows[:, None] * columns[None, :]


def places(x: np.ndarray, scheme: Scheme, index: int) -> np.ndarray:
    """The last place of word `index` of each row of `x` [rows, k], [rows]."""
    if scheme.residues:
        return row_steps(x, scheme.residues)
    return np.ldexp(1.0, -scheme.words[index].scale - row_exponents(x, scheme))


def error_norm(scheme: Scheme, a: np.ndarray, b: np.ndarray, reference: np.ndarray) -> float:
    """Expected Frobenius norm of the error of A [M, K] B [K, N] = `reference`, FP32 and finite."""
    turned, k = np.ascontiguousarray(b.T), a.shape[1]
    squares = {"a": float((a.astype(np.float64) ** 2).sum()), "b": float((b.astype(np.float64) ** 2).sum())}
    operands = {"a": a, "b": turned}

    def left(operand: str, words: int) -> float:
        """Sum over rows of the mean square of what the first `words` words leave; of none, of the elements themselves."""
        if words == 0:
            return squares[operand] / max(k, 1)
        return float(((EVEN * places(operands[operand], scheme, words - 1)) ** 2).sum())

    counts = {operand: len(scheme.words_of(operand)) for operand in "ab"}
    square = squares["a"] * left("b", counts["b"]) + squares["b"] * left("a", counts["a"])
    square += k * sum(left("a", i) * left("b", j) for i, j in scheme.dropped)
    return sqrt(square + (rounding(scheme) * float(np.linalg.norm(reference))) ** 2)


def rounding(scheme: Scheme) -> float:
    """Of conversions, recombination and alpha, relative to C. All but the first sum's are of what is smaller."""
    return (scheme.recombination.roundings + 2) * U


def relative(scheme: Scheme, k: int) -> float:
    """Expected relative error of data spread evenly in [-1, 1], whose largest elements are at the bottom of their binade: no row has worse places."""
    if scheme.residues:
        return sqrt(2 * (EVEN * sqrt(min(k, SEGMENT_K)) / scheme.residues.target) ** 2 + rounding(scheme) ** 2)
    def left(words: int) -> float:
        """Root mean square over that of the elements, 3^-1/2 of the largest."""
        return 1.0 if words == 0 else sqrt(3) * EVEN * 2.0 ** -(scheme.words[words - 1].scale + scheme.target_exponent)

    of_a, of_b = (left(len(scheme.words_of(operand))) for operand in "ab")
    return sqrt(of_a**2 + of_b**2 + sum((left(i) * left(j)) ** 2 for i, j in scheme.dropped) + rounding(scheme) ** 2)
