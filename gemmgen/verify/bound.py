"""The error a correct kernel may show, derived from scheme, K and promotion.

Notation: u = 2^-24; tau = 2^-23 is the unit's final truncation to FP32, phi =
2^-fraction_bits its truncation of each aligned term, q the products it sums at
once; P the k between promotions (K without); C* the exact result, S1 = |A||B|,
S2 = sum_k a_k^2 b_k^2.

**Statistical.** The terms a_k b_k of one element are taken as draws with mean
mu and variance sigma^2. After n of them the partial sum's square is, in
expectation, n^2 mu^2 + n sigma^2: a coherent part (n/K) C and a random part
sqrt(n/K S2). Every truncation is toward zero, so within one accumulation they
add up; over separate accumulations the coherent parts add up and the random
parts only in squares. Summed over the elements of C,

    ||E||_F^2 <= SAFETY^2 ( coherent^2 max(0, ||C*||_F^2 - sum S2) + random^2 sum S2 )

which needs the scheme, K, P and the unit, and of the data only two sums.
Without a matrix unit every term is added in FP32, to nearest: K roundings that point
either way, so that they add up in squares throughout.

SAFETY covers that the magnitudes of the partial sums are expectations and that
mantissas are not spread evenly.

**Deterministic.** The same steps with every rounding at its worst, relative to
|A||B| and element by element; it always holds and is only reported: a bound of
K times an ulp lets a dropped product through.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, sqrt

import numpy as np

from gemmgen.catalog.scheme import Accumulator, Scheme
from gemmgen.catalog.unit import MatrixUnit
from gemmgen.plan import Plan

U = 2.0**-24  # FP32's unit roundoff, to nearest
TRUNCATED = 2.0**-23
SAFETY = 2.0


@dataclass(frozen=True)
class Bound:
    """What the errors of one product may be.

    Attributes:
        relative_frobenius: statistical; the measured figure must not exceed it.
        scaled: deterministic, of |C - C*| / (|A||B|); holds element by element.
        coherent, random: the two coefficients of the statistical bound.
    """

    relative_frobenius: float
    scaled: float
    coherent: float
    random: float


def _word_statistics(scheme: Scheme, index: int) -> tuple[float, float]:
    """(mean, rms) of word `index`'s share of x, relative to |x|, for even low bits."""
    if index == 0:
        return 1.0, 1.0
    if scheme.exact:
        return 0.0, 0.0
    worst = 1.0
    for word in scheme.words[: index - 1]:
        worst *= word.left(scheme.format).worst
    rule = scheme.words[index - 1].left(scheme.format)
    # A remainder of the first word is up to one ulp of x; a later one's is as
    # much smaller again. Its size varies with where x lies in its binade: by
    # 1 at the bottom, which is the safe side.
    return rule.mean * worst, rule.rms * worst


def _split_terms(scheme: Scheme) -> tuple[float, float]:
    """(coherent, random) error of one product a b from what the words leave out.

    Both operands' remainders count once each, and each dropped product.
    """
    count = len(scheme.words)
    mean, rms = _word_statistics(scheme, count)
    coherent, square = 2 * mean, 2 * rms**2
    for i, j in scheme.dropped:
        (mean_i, rms_i), (mean_j, rms_j) = _word_statistics(scheme, i), _word_statistics(scheme, j)
        coherent += mean_i * mean_j
        square += (rms_i * rms_j) ** 2
    return coherent, sqrt(square)


def _accumulation(k: int, chunk: int, products: int, unit: MatrixUnit, word: str) -> tuple[float, float]:
    """(coherent, random) error of summing `products` word products over k in the unit, in chunks.

    Relative to C and to sqrt(S2). Each step truncates the running sum to FP32
    and each of its q terms at the sum's magnitude; the terms of a coherent sum
    share its sign, those of a random one do not.
    """
    q = unit.block[word]
    phi = 2.0**-unit.fraction_bits
    steps = max(1, ceil(chunk / q))
    chunks = max(1, ceil(k / chunk))
    fractions = np.minimum(np.arange(1, steps + 1) * q / max(k, 1), 1.0)
    coherent_step = products * (TRUNCATED / 2 + q * phi / 2)
    random_step = products * TRUNCATED / 2
    scatter = products * phi * sqrt(q / 3)
    # A bias within the chunk is a sum; separate chunks' random biases are not.
    coherent = chunks * coherent_step * fractions.sum()
    random = sqrt(chunks) * random_step * np.sqrt(fractions).sum()
    random = sqrt(random**2 + chunks * scatter**2 * fractions.sum())
    return float(coherent), float(random)


def _promotion(k: int, chunk: int) -> tuple[float, float]:
    """(coherent, random) error of adding the chunks up in FP32, to nearest."""
    chunks = max(1, ceil(k / chunk))
    fractions = np.arange(1, chunks + 1) / chunks
    rms = U / sqrt(3)
    return float(rms * sqrt((fractions**2).sum())), float(rms * sqrt(fractions.sum()))


def _chunks(plan: Plan, k: int) -> list[tuple[Accumulator, int, int, float]]:
    """For each accumulator: itself, its word products, the k it sums inside the unit, its share.

    An accumulator at 2^-scale holds sums that are smaller by as much.
    """
    return [
        (acc, sum(p.into == acc.name for p in plan.scheme.products),
         plan.promote if plan.promotes(acc) else max(k, 1), 2.0**-acc.scale)
        for acc in plan.scheme.accumulators
    ]


def bound(plan: Plan, a: np.ndarray, b: np.ndarray, reference: np.ndarray) -> Bound:
    """The bound for A [M, K] B [K, N] = `reference` [M, N] (FP64)."""
    scheme, k = plan.scheme, a.shape[1]
    coherent, random = _split_terms(scheme)
    square = random**2
    for acc, products, chunk, share in _chunks(plan, k):
        on_unit = plan.fragment.on_matrix_unit
        c, r = _accumulation(k, chunk, products, plan.gpu.unit, scheme.word) if on_unit else _promotion(k, 1)
        coherent, square = coherent + share * c, square + (share * r) ** 2
        if plan.promotes(acc):
            c, r = _promotion(k, chunk)
            coherent, square = sqrt(coherent**2 + c**2), square + r**2
    epilogue = len(scheme.accumulators) * U  # recombination, alpha
    coherent, random = sqrt(coherent**2 + epilogue**2), sqrt(square + epilogue**2)
    return Bound(
        relative_frobenius=SAFETY * _relative(coherent, random, a, b, reference),
        scaled=worst_case(plan, k), coherent=coherent, random=random,
    )


def worst_case(plan: Plan, k: int) -> float:
    """The deterministic bound of |C - C*| / (|A||B|), for elements in the scheme's range."""
    scheme = plan.scheme
    worst = _split_worst(scheme) + len(scheme.accumulators) * U
    for acc, products, chunk, share in _chunks(plan, k):
        on_unit = plan.fragment.on_matrix_unit
        worst += share * _accumulation_worst(k, chunk, products, plan.gpu.unit, scheme.word) if on_unit else max(k, 1) * U
        if plan.promotes(acc):
            worst += ceil(max(k, 1) / chunk) * U
    return worst


def _relative(coherent: float, random: float, a: np.ndarray, b: np.ndarray, reference: np.ndarray) -> float:
    """sqrt(coherent^2 (||C||^2 - sum S2)+ + random^2 sum S2) / ||C||."""
    norm = float((reference**2).sum())
    squares = float((a.astype(np.float64) ** 2).sum(axis=0) @ (b.astype(np.float64) ** 2).sum(axis=1))
    if norm == 0.0:
        return 0.0 if squares == 0.0 else inf
    return sqrt((coherent**2 * max(0.0, norm - squares) + random**2 * squares) / norm)


def _split_worst(scheme: Scheme) -> float:
    """Largest error of one product, relative to |a b|."""
    rest = scheme.remainder(len(scheme.words))
    return 2 * rest + rest**2 + sum(scheme.remainder(i) * scheme.remainder(j) for i, j in scheme.dropped)


def _accumulation_worst(k: int, chunk: int, products: int, unit: MatrixUnit, word: str) -> float:
    q = unit.block[word]
    steps = max(1, ceil(min(chunk, max(k, 1)) / q))
    return products * steps * (TRUNCATED + (q + 1) * 2.0**-unit.fraction_bits)
