"""The error of a product by a scheme, predicted from the scheme's row, K, the unit, promotion and a distribution of data.

Three figures, each from numbered equations that go on from those of `model/error.py`:

- the **estimate** (E5-E18): what is measured, relative in the Frobenius norm, within a factor of four;
- the **gate** (E19): what a right kernel may show, statistically, given what data and sums are (`verify/bound.py` has the coefficients);
- the **worst case** (E20-E22): deterministic, relative to |A||B|, element by element.

Sources. What words leave out: MixPert eqs. 5 (mean) and 6 (worst case) for a product of segments, generalised to any words, and eq. 9 for what a shared
exponent shifts out: here the step of a word's smallest bit, on the binades of the data. Sums: Higham and Mary, "A New Approach to Probabilistic
Rounding Error Analysis" (SIAM J. Sci. Comput. 41, 2019), whose sqrt(n) u is E10 and E14 with the data's own constants, and the classical n u in E21; and
their "Sharper Probabilistic Backward Error Analysis for Basic Linear Algebra Kernels with Random Data" (SIAM J. Sci. Comput. 42, 2020): data of mean zero
err less, so a sum has a coherent and a random part. Cuts toward zero have a mean and add up in proportion to their number: E9 and E10.

Notation: u = 2^-24. The products a b of one element of C have the mean m and the mean square s; `sign_share` is m^2 / s: 0 on data of both signs, 9/16 on
U[0, 1]. C^2 is, in expectation, s K (K sign_share + 1 - sign_share): of that a share `coherence` is the mean's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, erf, inf, log, log2, sqrt
from typing import Any

import numpy as np

from gemmgen.catalog.element import ELEMENTS
from gemmgen.catalog.number import FORMATS, ROUNDINGS
from gemmgen.catalog.residues import SEGMENT_K
from gemmgen.catalog.scheme import Accumulator, Product, Scheme, Word
from gemmgen.catalog.unit import MatrixUnit
from gemmgen.model.equation import Equation, solved
from gemmgen.model.error import LN2, U, mean_cut

# ---- the data


@dataclass(frozen=True)
class Distribution:
    """What the elements of A and B are drawn from, each for itself.

    Attributes:
        binades: (e, share of the elements whose magnitude lies in [2^e, 2^(e+1))); in such a binade they are taken as spread evenly.
        sign_share: square of the mean product over the mean square of products.
        draw: (generator, shape) -> FP64.
        sequential: of what the equations give for FP32 sums one term after the other, the least that such sums show. On data of one sign, and where few
            terms of a sum are large, fewer roundings count. Measured: cuBLAS SGEMM and plain FP32 kernels on an H200 at 4096 and 8192
            (docs/results/frontier.md), and simulated from 128 to 16384, where the share falls with K.
    """

    name: str
    binades: tuple[tuple[int, float], ...]
    sign_share: float
    draw: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
    sequential: float = 1.0

    @cached_property
    def top(self) -> int:
        """The exponent of the largest elements."""
        return max(e for e, _ in self.binades)


def _below(x: float) -> float:
    """Share of a standard normal variable's magnitudes below x."""
    return erf(x / sqrt(2))


_UNIFORM = tuple((-j, 2.0**-j) for j in range(1, 61))
SPREAD = 20
DISTRIBUTIONS = {one.name: one for one in (
    Distribution("uniform", _UNIFORM, 0.0, lambda rng, shape: rng.uniform(-1, 1, shape)),
    Distribution("positive", _UNIFORM, 9 / 16, lambda rng, shape: rng.uniform(0, 1, shape), sequential=0.89),
    Distribution("normal", tuple((e, _below(2.0 ** (e + 1)) - _below(2.0**e)) for e in range(-60, 3)), 0.0, lambda rng, shape: rng.standard_normal(shape)),
    Distribution(
        "spread", tuple((e, 0.5 / SPREAD) for e in range(-SPREAD, SPREAD)), 0.0,
        lambda rng, shape: rng.choice([-1.0, 1.0], shape) * np.exp2(rng.uniform(-SPREAD, SPREAD, shape)), sequential=0.45,
    ),
)}
"""`uniform`: U[-1, 1]; `positive`: U[0, 1]; `normal`: the standard one; `spread`: either sign, the magnitude's logarithm even from 2^-20 to 2^20."""

TOLD = {"uniform": "U[-1, 1]", "positive": "U[0, 1]", "normal": "N(0, 1)", "spread": "2^-20..2^20"}
"""How tables call them."""


# ---- the equations

TERMS_CUT = 0.35
"""Of the terms that are aligned to a sum, those that lose bits where cuts of the sum itself are given back: simulated, FP16 words, every 32 to 128 k."""

COHERENCE = Equation("E5", "coherence", "K * sign_share / (K * sign_share + 1 - sign_share)", "", "Higham and Mary 2020: the mean's share of C^2")
SCATTERED = Equation("E6", "scattered", "1 / (K * sign_share + 1 - sign_share)", "", "K times the mean square of products over C^2")
STEPS = Equation("E7", "steps", "products * ceil(chunk / unit_block)", "", "roundings of an accumulator before it is emptied: once a block of a word product")
CHUNKS = Equation("E8", "chunks", "ceil(K / chunk)", "", "how often it is emptied")
CUT_COHERENT = Equation(
    "E24", "cut_coherent",
    "cut / (2 * ln2) * (steps + 1) / 2 + term_cut * unit_block / (4 * ln2) * (steps * signed_products / products + 1) / 2"
    " * max(0, 1 - term_slack / chunk)**2", "",
    "of data of one sign, relative to the sum: cuts of the sum and of the terms aligned to it all point one way",
)
SUM_COHERENT = Equation(
    "E9", "sum_coherent",
    "where(to_nearest > 0, u * sqrt(steps / (24 * ln2 * chunks)) + downwards * steps / (4 * ln2) + swallowed,"
    " max(cut_coherent - mean_cut, mean_cut - cut_coherent))", "",
    "of data of one sign, relative to the sum: roundings to nearest add up in squares; of cuts remains what compensated sums are not given back",
)
SUM_RANDOM = Equation(
    "E10", "sum_random",
    "where(to_nearest > 0, u * sqrt(((steps + 1) / 2 + levels * products) / (8 * ln2)) + downwards * steps / (4 * ln2),"
    " where(mean_cut > 0, sqrt((cut / (2 * ln2))**2 * (steps**2 - 1) / 12"
    f" + (cut**2 + {TERMS_CUT} * term_cut**2 * unit_block) * (steps + 1) / (16 * ln2)),"
    " sqrt((cut / (2 * ln2))**2 * (steps + 1) * (2 * steps + 1) / 6"
    " + (cut**2 + term_cut**2 * unit_block * max(0, 1 - term_slack / sqrt(chunk))) * (steps + 1) / (16 * ln2))))", "",
    "of data of both signs: the sum wanders, and cuts point one way as long as it keeps its sign (E2 for few steps, too), unless their mean is given back",
)
PROMOTED_COHERENT = Equation(
    "E11", "promotion_coherent",
    "where(promoted > 0, where(chunks > 1, u * where(compensated > 0, sqrt(1 / (8 * ln2)) + 2**-16 * chunks, sqrt(chunks / (24 * ln2))), 0), 0)", "",
    "Higham and Mary 2019: additions to nearest outside the unit, of data of one sign; compensated, the last one alone is rounded, and few others",
)
PROMOTED_RANDOM = Equation(
    "E12", "promotion_random",
    "where(promoted > 0, where(chunks > 1, u * where(compensated > 0, sqrt(1 / (8 * ln2)) + 2**-16 * chunks, sqrt((chunks + 1) / (16 * ln2))), 0), 0)", "",
    "E11 of data of both signs",
)
SUMS = (STEPS, CHUNKS, CUT_COHERENT, SUM_COHERENT, SUM_RANDOM, PROMOTED_COHERENT, PROMOTED_RANDOM)
"""Evaluated once for each accumulator."""

WORDS = Equation(
    "E13", "words_error", "sqrt(words_bias**2 + words_scatter**2 * scattered)", "",
    "MixPert eqs. 5 and 9 for any words: what both operands' words leave out and products dropped; of rounding to nearest it has no mean",
)
UNIT_SUMS = Equation(
    "E14", "sums_error", "sqrt(coherence * sums_coherent**2 + (1 - coherence) * sums_random**2 + scattered * low_sums**2)", "",
    "E9-E12 of all accumulators, each times its share of C",
)
RECOMBINED = Equation(
    "E15", "recombination_error", "u * sqrt(last_roundings / (8 * ln2))", "", "sums of accumulators are added up in FP32; the last addition's rounding counts",
)
STORED = Equation("E16", "stored_error", "output_roundoff * sqrt(1 / (8 * ln2))", "", "C's type, where it is not FP32")
ESTIMATE = Equation(
    "E17", "estimate", "sqrt(words_error**2 + sums_error**2 + recombination_error**2 + stored_error**2)", "", "independent; relative in the Frobenius norm",
)
MULTIPLE = Equation("E18", "of_fp32", "estimate / fp32_estimate", "", "E17 over that of a sequential FP32 dot product on the same data")
ESTIMATES = (COHERENCE, SCATTERED, WORDS, UNIT_SUMS, RECOMBINED, STORED, ESTIMATE)

GATE = Equation(
    "E19", "gate", "safety * sqrt(coherence * coherent**2 + scattered * random**2) + output_roundoff", "",
    "verify/bound.py: E17 with every mean at the bottom of its binade, twice: what a right kernel may show",
)
SPLIT_WORST = Equation("E20", "split_worst", "remainder_a + remainder_b + remainder_a * remainder_b + dropped_worst", "", "MixPert eq. 6 for any words")
SUM_WORST = Equation(
    "E21", "sum_worst",
    "where(cuts > 0, steps * max(min(reach, 1) * (2 * sum_u + (unit_block + 1) * term_cut), reach * (2 * sum_u + unit_block * term_cut)),"
    " reach * ((steps + levels) * u + where(floors > 0, steps * (2**-31 + 2**-32) + (unit_block + 1) * term_cut, 0)))"
    " + where(promoted > 0, reach * ((chunks + compensated) * u + mean_cut * (1 + u)), 0)", "",
    "Higham and Mary's n u: every rounding of an accumulator at its worst, and those of promotion, of sums as large as their words (`reach`)",
)
WORST = Equation(
    "E22", "worst", "split_worst + sums_worst + (roundings + 1) * u + output_roundoff * (1 + split_worst + sums_worst + (roundings + 1) * u)", "",
    "of |C - C*| / (|A||B|), element by element, in range",
)
RESIDUES_LEFT = Equation(
    "E23", "words_scatter", "sqrt(2 * min(K, segment_k) / 12) / residue_target", "",
    "of residues: an element is rounded to a whole number of steps, of which the norm of its segment of a row has `residue_target`, in both operands",
)
PREDICTED = (COHERENCE, SCATTERED, *SUMS, *ESTIMATES[2:], SPLIT_WORST, SUM_WORST, WORST)
"""What `predicted` evaluates."""
EQUATIONS = (*PREDICTED, RESIDUES_LEFT, MULTIPLE, GATE)

DOWNWARDS = 1.5 * 2.0**-32
"""Mean of what the floor rule cuts off a step's sum: half of 2^-31 of it, and half of 2^-32 of what it adds."""
SELDOM = 1e-9
"""Shares of elements that are left out."""
_EVEN = sqrt(3 / 7)
"""Root mean square of the power of two below a number that is spread evenly from 0 to a power of two, over the number's own."""
_EVEN_MEAN = 2 / 3
"""The same of means."""


# ---- the words


@dataclass(frozen=True)
class WordSizes:
    """What the words of an operand leave, on a distribution.

    Attributes:
        mean: of D_i, what word i - 1 leaves (of the element itself, i = 0), in the direction of x, relative to the mean of |x|.
        rms: root mean square of the same, relative to that of x.
        lost, lost_mean: root mean square, and mean, of what a unit that flushes takes for zero, relative likewise.
        in_range: whether the words hold the largest elements.
    """

    mean: tuple[float, ...]
    rms: tuple[float, ...]
    lost: float
    lost_mean: float
    in_range: bool


def _tops(scheme: Scheme, data: Distribution) -> Iterator[tuple[int, int, float]]:
    """(e, top, share): so many elements have magnitudes in [2^e, 2^(e+1)), and exponents of the largest one of theirs.

    Of rows that is taken as the data's own. A tile's is what the largest of so many drawn is: with F the share of elements below 2^(top+1), that of
    the n - 1 others is F(top)^(n-1) - F(top - 1)^(n-1), and F(top)^(n-1) beside an element of that binade itself.
    """
    if not scheme.family.tile_k:
        yield from ((e, data.top, share) for e, share in data.binades)
        return
    binades = sorted(data.binades)
    below = dict(zip((e for e, _ in binades), np.cumsum([share for _, share in binades])))
    others = scheme.family.tile_k - 1
    for e, share in data.binades:
        yield e, e, share * below[e] ** others
        for top, of_top in binades:
            if top > e and (found := share * (below[top] ** others - (below[top] - of_top) ** others)) > SELDOM:
                yield e, top, found


def word_sizes(scheme: Scheme, unit: MatrixUnit | None, data: Distribution, operand: str = "a") -> WordSizes:
    """Sizes of the words of an operand, and of what is left, binade by binade.

    A word leaves its rounding rule's share of its last place: relative to what it holds, but no less than its smallest step, which
    is where MixPert's eq. 9 and FP16's subnormal numbers come in. What is left of an FP32 number is a multiple of its last place, so it is nothing
    where the words reach further.
    """
    return _word_sizes(scheme, bool(unit and unit.flushes_subnormals), data, operand)


@lru_cache(maxsize=1024)  # a search asks at every interval of promotion, and the answer depends on none
def _word_sizes(scheme: Scheme, flushes: bool, data: Distribution, operand: str) -> WordSizes:
    words = scheme.words_of(operand, packed_alike=scheme.alike)
    count = len(words)
    if scheme.exact:
        return WordSizes((1.0, *[0.0] * count), (1.0, *[0.0] * count), 0.0, 0.0, True)
    absolute = np.zeros(count + 1)  # sums over binades of |.| and of squares
    squares = np.zeros(count + 1)
    lost = lost_mean = 0.0
    for e, top, share in _tops(scheme, data):
        exponent = e + (scheme.target_exponent - top if scheme.normalize != "none" else 0)
        back = 2.0 ** (top - data.top) if scheme.family.tile_k else 1.0  # sizes are told as the largest of all is scaled
        left = [(1.5 * 2.0**exponent, sqrt(7 / 3) * 2.0**exponent, 2.0 ** (exponent + 1))]  # (mean, rms, worst) of D
        for word in words:
            mean, rms, worst = left[word.source]
            rule, ulp, step = _grid(word)
            first = word.source == 0
            lowest = -inf if word.fixed else word.format.min_exponent  # integers are never flushed
            if first and word.flush and exponent < lowest:
                left.append((mean, rms, worst))  # it stays in the residual
                continue
            if flushes and not word.fixed and rms:
                threshold, most = 2.0 ** (lowest - word.scale), 2.0 ** (exponent + 1) if first else sqrt(3) * rms
                if most <= threshold:  # the whole of it
                    lost, lost_mean = lost + share * rms**2, lost_mean + share * mean
                elif not first:  # of what is spread evenly from 0 to `most`, the part below the threshold
                    lost, lost_mean = lost + share * threshold**3 / (3 * most), lost_mean + share * (threshold**2 / (2 * most) if mean else 0.0)
            if scheme.stores(operand):
                left.append((0.0, 0.0, 0.0))
                continue
            wide = 2.0**exponent if first else rms * _EVEN  # the power of two that an ulp is relative to
            wide_mean, wide_worst = (2.0**exponent, 2.0**exponent) if first else (mean * _EVEN_MEAN, worst)
            mean = min(rule.mean * max(ulp * wide_mean, step), mean) if mean else 0.0
            rms = min(rule.rms * max(ulp * wide, step), rms)
            worst = min(rule.worst * max(ulp * wide_worst, step), worst)
            left.append((0.0, 0.0, 0.0) if worst < 2.0 ** (exponent - 23) else (mean, rms, worst))
        absolute += share * back * np.array([mean for mean, _, _ in left])
        squares += share * back**2 * np.array([rms**2 for _, rms, _ in left])
    top = scheme.target_exponent if scheme.normalize in ("row", "run") else data.top
    return WordSizes(
        tuple(absolute / absolute[0]), tuple(np.sqrt(squares / squares[0])), sqrt(lost / squares[0]), lost_mean / absolute[0],
        all(word.fixed or top <= word.format.max_exponent for word in words if word.source == 0),
    )


def _grid(word: Word) -> tuple[Any, float, float]:
    """(rounding rule in ulp, ulp relative to a number's power of two, the smallest step of an element) of a word."""
    if word.fixed:
        return ROUNDINGS["nearest_even"], 0.0, 2.0**-word.scale
    form = word.format
    rule, bits = (ROUNDINGS["nearest_even"], word.bits - 1) if word.bits else (ROUNDINGS[word.rounding], form.fraction_bits)
    return rule, 2.0**-bits, 2.0 ** (form.min_exponent - form.fraction_bits - word.scale)


@dataclass(frozen=True)
class ProductSizes:
    """What the words of both operands are and leave: [0] of A, [1] of B."""

    scheme: Scheme
    sides: tuple[WordSizes, WordSizes]

    def mean(self, product: Product) -> float:
        """Of a product of words, in the direction of the product of the elements; a word is about as large as what it is taken from."""
        p, q = self._sources(product)
        return self.sides[0].mean[p] * self.sides[1].mean[q]

    def rms(self, product: Product) -> float:
        p, q = self._sources(product)
        return self.sides[0].rms[p] * self.sides[1].rms[q]

    def signed(self, product: Product) -> bool:
        """Whether both words have a sign on average where the elements have one."""
        p, q = self._sources(product)
        return self.sides[0].mean[p] > 0 and self.sides[1].mean[q] > 0

    def _sources(self, product: Product) -> tuple[int, int]:
        of_a, of_b = (self.scheme.words_of(operand) for operand in "ab")
        return of_a[product.a].source, of_b[product.b].source


def product_sizes(scheme: Scheme, unit: MatrixUnit | None, data: Distribution) -> ProductSizes:
    of_a = word_sizes(scheme, unit, data, "a")
    return ProductSizes(scheme, (of_a, of_a if scheme.alike else word_sizes(scheme, unit, data, "b")))


# ---- the sums


def _sum_numbers(
    scheme: Scheme, unit: MatrixUnit | None, accumulator: Accumulator, promote: int, k: int, sizes: ProductSizes, compensated: bool,
) -> dict[str, Any]:
    """The symbols of SUMS for an accumulator; no unit: FP32 arithmetic."""
    own = [product for product in scheme.products if product.into == accumulator.name]
    # The numbers of tiles are added up as plain promoted sums are.
    tile_k = scheme.family.tile_k
    promote, compensated = (tile_k, False) if tile_k else (promote, compensated)
    promoted = tile_k or bool(promote) and accumulator.promoted and unit is not None
    chunk = min(promote, k) if promoted else min(k, scheme.family.run_k or k)
    block = unit.block[accumulator.word] if unit else 1
    cuts, floors = bool(unit) and unit.rule == "truncate", bool(unit) and unit.rule == "floor"
    # A product of two words has so many bits after the point; what is aligned to a sum less than `slack` times as large loses none.
    slack = 2.0 ** (unit.fraction_bits - 2 * FORMATS[accumulator.word].fraction_bits) if unit and unit.fraction_bits else 1.0
    signed = sum(map(sizes.signed, own))
    steps = len(own) * ceil(chunk / block)
    sum_bits = unit.sum_bits or 23 if unit else 23
    sum_u = 2.0 ** -(sum_bits + 1)
    largest = max(map(sizes.mean, own)) or 1.0
    shares = [sizes.mean(p) / largest for p in own] if signed else []
    # `verify/bound.py`: blocks below half an ulp of the sum are lost whole, which has a sign where they have one. Sums of a whole block are seldom
    # much below their mean.
    halves = U * steps / len(own)
    swallowed = sum(
        min(share / 4, halves**2 / (12 * share) * min(1.0, halves / share) ** (block - 1)) for share in shares if 0 < share < 1
    ) if unit and not cuts else 0.0
    return {
        "u": U, "ln2": LN2, "K": k, "chunk": chunk,
        "reach": reach(scheme, accumulator), "products": full_sums(scheme, accumulator, unit if promoted else None, chunk),
        "signed_products": signed, "unit_block": block, "promoted": int(promoted), "compensated": int(compensated),
        "to_nearest": int(not cuts), "cuts": int(cuts), "floors": int(floors), "term_cut": 2.0**-unit.fraction_bits if cuts or floors else 0.0,
        # The sum of terms that were cut at 2^-fraction_bits has no more bits below FP32's last place than that: of one bit half a place is half as often cut.
        # Where sums end where their terms do, it is those of several terms that lose bits: of as many as a wandering sum is larger than a term.
        "cut": sum_u * (1 - 2.0 ** (sum_bits - unit.fraction_bits) / (sqrt(block) if unit.sum_bits else 1)) if cuts else 0.0, "sum_u": sum_u,
        "term_slack": slack, "levels": ceil(log2(block)) if unit and unit.rule == "tree" else 0,
        "downwards": DOWNWARDS if floors else 0.0, "swallowed": swallowed,
        "mean_cut": mean_cut(scheme, unit, accumulator, promote) if unit and promoted and compensated else 0.0,
    }


def reach(scheme: Scheme, accumulator: Accumulator) -> float:
    """What an accumulator may sum up to at most, over |A||B|: E21 is relative to it.

    Word i - 1 is what D_s, which it is taken from, has more than D_i, which it leaves: |w| <= 2^scale (|D_s| + |D_i|), of which `Precision.remainder` has
    the largest over |x|. So products of remainders alone, such as `small` of `bf16x6_apart`, sum up to no more than they are worth.

    That each step of E21 is then a bound:

    - A unit that cuts brings each term and the accumulator to fewer bits and cuts their sum, all toward zero. So no running sum is larger than the sum
      of its terms' magnitudes, at most `reach`, and no error of an earlier step makes it larger. The sum's cut is less than 2 `sum_u` of it. Terms are cut
      at `term_cut` of the largest power of two among them and the accumulator; the one that has it loses nothing, as products and sums have no
      more bits than that. So `unit_block` terms of `unit_block` + 1 lose bits. Where `reach` is little more than 1, the one that is counted beside them
      is more than what words have beyond |A||B|.
    - Additions to nearest: n roundings lose no more than n u of the sum of magnitudes, whatever n is (Jeannerod and Rump, SIAM J. Matrix Anal. Appl. 34,
      2013). A tree's inner sums, and the terms of a floor's blocks, are of different products each, so that a level, and a cut, counts once for all k.
    - What is promoted is such a sum, and additions outside the unit round it to nearest.
    """
    def largest(index: int, operand: str) -> float:
        word = scheme.words_of(operand)[index]
        return 2.0**word.scale * (scheme.precision.remainder(word.source, operand) + scheme.precision.remainder(index + 1, operand))

    return sum(largest(p.a, "a") * largest(p.b, "b") for p in scheme.products if p.into == accumulator.name)


def full_sums(scheme: Scheme, accumulator: Accumulator, unit: MatrixUnit | None, chunk: int) -> float:
    """How many roundings of an accumulator's full size a block of all its products costs: one for each product.

    Of coarse sums that are emptied after every block, products come from the smallest to the largest into an empty accumulator, and each rounding
    is as large as the sum is by then.
    """
    own = [product for product in scheme.products if product.into == accumulator.name]
    if unit is None or not unit.sum_bits or chunk > unit.block[accumulator.word]:
        return float(len(own))
    of_a, of_b = (scheme.words_of(operand) for operand in "ab")
    sizes = np.maximum.accumulate([scheme.precision.remainder(of_a[p.a].source, "a") * scheme.precision.remainder(of_b[p.b].source, "b") for p in own])
    return float((sizes / sizes[-1]).sum())


# ---- what is predicted


def split_worst(scheme: Scheme) -> float:
    """Largest error of one product a b that words and dropped products leave, relative to |a b|, in range: E20."""
    return float(SPLIT_WORST.value(_worst_numbers(scheme)))


def float_sums_worst(scheme: Scheme, unit: MatrixUnit | None, k: int, promote: int, compensated: bool = False) -> float:
    """Largest error of the sums that are not integers, relative to |A||B|: E21, each times its share of C."""
    sizes = product_sizes(scheme, unit, DISTRIBUTIONS["uniform"])  # of signs alone, which the worst case does not ask for
    return sum((
        scheme.family.recombination.share(acc)
        * float(solved((*SUMS, SUM_WORST), _sum_numbers(scheme, unit, acc, promote, max(k, 1), sizes, compensated))["sum_worst"])
        for acc in scheme.accumulators if acc.type == "f32"
    ), 0.0)


def _worst_numbers(scheme: Scheme) -> dict[str, float]:
    """The symbols of E20: terms of a rest with an element, and of two rests."""
    def worst(among: Callable[[int, int], bool]) -> float:
        return sum((scheme.precision.remainder(p, "a") * scheme.precision.remainder(q, "b") for p, q in scheme.precision.missing if among(p, q)), 0.0)

    return {
        "remainder_a": worst(lambda p, q: q == 0), "remainder_b": worst(lambda p, q: p == 0), "dropped_worst": worst(lambda p, q: p > 0 and q > 0),
    }


@dataclass(frozen=True)
class Prediction:
    """The error of a scheme, predicted.

    Attributes:
        estimate: relative in the Frobenius norm (E17); infinite where the words do not hold the data.
        worst: of |C - C*| / (|A||B|), element by element (E22).
        numbers: every symbol of the equations, those of the sum of the largest contribution for SUMS.
    """

    estimate: float
    worst: float
    numbers: dict[str, Any]


def predicted(
    scheme: Scheme, unit: MatrixUnit | None, k: int, promote: int, data: Distribution = DISTRIBUTIONS["uniform"], output_roundoff: float = 0.0,
    compensated: bool = False,
) -> Prediction:
    """The error of a product over k, on matrices of a distribution.

    Args:
        unit: the matrix unit that multiplies; None for FP32 arithmetic, one fused multiply-add after the other.
        promote: k between moves of the promoted accumulators into FP32 registers; 0 never.
        output_roundoff: of C's type; 0 of FP32.
        compensated: whether sums leave the unit by their leading bits, so that additions do not round, and the rest stays in it.
    """
    k = max(k, 1)
    if scheme.family.residues:
        return _of_residues(scheme, k, data, output_roundoff)
    sizes = product_sizes(scheme, unit, data)
    of_a, of_b = sizes.sides
    bias = sum(side.lost_mean for side in sizes.sides) + sum(of_a.mean[p] * of_b.mean[q] for p, q in scheme.precision.missing)
    scatter = sum(side.lost**2 for side in sizes.sides) + sum((of_a.rms[p] * of_b.rms[q]) ** 2 for p, q in scheme.precision.missing)
    coherent = low = worst = 0.0
    random: list[float] = []
    leading: dict[str, Any] = {}
    for accumulator in scheme.accumulators:
        share, own = scheme.family.recombination.share(accumulator), [p for p in scheme.products if p.into == accumulator.name]
        exact = accumulator.type != "f32"  # integers: what is left is the conversion's rounding, and of tiles of k that of adding them up
        known = solved((*SUMS, SUM_WORST), _sum_numbers(scheme, None if exact else unit, accumulator, promote, k, sizes, compensated))
        inside = (known["sum_coherent"], known["sum_random"], known["sum_worst"]) if not exact else (0.0, U, U)
        of_one_sign, of_both = sqrt(inside[0] ** 2 + known["promotion_coherent"] ** 2), sqrt(inside[1] ** 2 + known["promotion_random"] ** 2)
        if unit is None and not exact:
            of_one_sign, of_both = data.sequential * of_one_sign, data.sequential * of_both
        worst += share * inside[2]
        # `share` takes the words' scales out of the sum, and these sizes are relative to x.
        coherent += of_one_sign * sum(map(sizes.mean, own))
        if any(p.a == p.b == 0 for p in own):
            leading, random = known, [*random, of_both]
        else:
            low += (of_both * sqrt(sum(sizes.rms(p) ** 2 for p in own))) ** 2
    # Where a run of k ends the other sums join the promoted one, which is as large as it is by then; a compensated one's rest, which is small.
    roundings, joined = scheme.family.recombination.roundings, scheme.family.runs(k) if scheme.family.run_k else 1
    last = min(roundings, 1)
    numbers = leading | {
        "sign_share": data.sign_share, "words_bias": bias, "words_scatter": sqrt(scatter),
        "sums_coherent": coherent, "sums_random": sqrt(sum(each**2 for each in random)), "low_sums": sqrt(low),
        "roundings": roundings * joined, "last_roundings": last if compensated else last * (joined + 1) / 2, "output_roundoff": output_roundoff,
        "sums_worst": worst, **_worst_numbers(scheme),
    }
    numbers = solved((*ESTIMATES, SPLIT_WORST, WORST), numbers)
    # Behind integer words no element's error is relative to |A||B|: `verify/fixed.py` has their worst case.
    in_range = all(side.in_range for side in sizes.sides)
    return Prediction(float(numbers["estimate"]) if in_range else inf, inf if scheme.family.by_row else float(numbers["worst"]), numbers)


POWERS_OF_TWO = sqrt(3 / log(4))
"""A power of two leaves 1/2 to all of the target to a row's norm: the root mean square of the target over the norm, where its logarithm is even."""


def _of_residues(scheme: Scheme, k: int, data: Distribution, output_roundoff: float) -> Prediction:
    """Of integers whose last place is relative to a row's norm: on any distribution the same. Their sums are exact, and C is rounded once, to its elements'
    type."""
    wide = scheme.family.wide
    numbers = {"K": k, "segment_k": k if wide else SEGMENT_K, "residue_target": float(scheme.family.residues.target) / (POWERS_OF_TWO if wide else 1.0)}
    numbers |= solved((RESIDUES_LEFT,), numbers) | {
        "u": ELEMENTS[scheme.element].roundoff, "ln2": LN2, "sign_share": data.sign_share, "words_bias": 0.0, "sums_coherent": 0.0, "sums_random": 0.0,
        "low_sums": 0.0, "roundings": 0,
        "last_roundings": 1, "output_roundoff": output_roundoff, "sums_worst": 0.0, **_worst_numbers(scheme),
    }
    numbers = solved((*ESTIMATES, SPLIT_WORST, WORST), numbers)
    return Prediction(float(numbers["estimate"]), inf, numbers)
