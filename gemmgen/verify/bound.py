"""The error a correct kernel may show, derived from scheme, K and promotion.

Notation: u = 2^-24; tau = 2^-23 is a truncating unit's final truncation to FP32, phi =
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
either way, so that they add up in squares throughout. So do those of a unit that rounds its
accumulator to nearest, once a block of q. A tree's inner sums are q times smaller, and there are
as many a level. The floor rule cuts products toward zero, once each and not at the running sum's
magnitude, and each step's sum downwards, which in one direction adds up whatever the data's signs.

SAFETY covers that the magnitudes of the partial sums are expectations and that
mantissas are not spread evenly. Errors of elements of one row, or of one column, have what the words leave of it in common, so that of M N
errors no more than min(M, N) need be independent. The mean of d squares exceeds its expectation chi^2_d / d times, of which Wilson and Hilferty
give (1 - 2 / (9 d) + z sqrt(2 / (9 d)))^3 at z standard deviations: below d = 16 that is more than SAFETY^2 (`safety`).

**Deterministic.** The same steps with every rounding at its worst, of sums as large as
their words allow (`model.accuracy.reach`, with the proof), relative to |A||B| and element by
element, and beside that what products and sums lose that leave FP32's normal range, an
absolute figure (`underflow`). It holds wherever no element is counted, and every kernel is
held to it; it is not enough alone, since a bound of K times an ulp lets a dropped product through.

**Integer words** keep elements relative to the largest of their row, and their sums are exact: `verify.fixed` has their bounds, of which
`scaled` and `worst_case` are relative to K times the largest elements in place of |A||B|.

**Flushed words.** A unit that takes subnormal words for zero loses what they hold, and that
depends on the data: next to nothing on U[1, 2], everything on elements of 1e-5. So there the words are
taken from the reference split, and `lost` is what the products of those the unit multiplies
fall short of C*. Both bounds hold for the distance to C* - lost, which a dropped product exceeds on any data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil, inf, log2, sqrt
from types import MappingProxyType
from typing import Any

import numpy as np

from gemmgen.catalog.number import FORMATS
from gemmgen.catalog.scheme import Accumulator, Scheme
from gemmgen.catalog.unit import MatrixUnit
from gemmgen.model.accuracy import DOWNWARDS, GATE, full_sums, predicted
from gemmgen.model.error import LN2, U
from gemmgen.plan import Plan
from gemmgen.split import kept, row_exponents, split, stands_out
from gemmgen.verify import fixed
from gemmgen.verify.ends import traced

TRUNCATED = 2.0**-23
TO_NEAREST = U / sqrt(3)
"""Root mean square of one rounding to nearest."""
TINIEST = 2.0**-149
"""FP32's smallest number: twice what rounding to nearest leaves below its normal range."""
SAFETY = 2.0
FAR = 5.0
"""Standard deviations that a right kernel stays within: it does not once in three million products."""


@dataclass(frozen=True)
class Bound:
    """What the errors of one product may be.

    Attributes:
        relative_frobenius: statistical; the measured figure must not exceed it.
        scaled: deterministic, of |C - C*| / (|A||B|); holds element by element, but for `underflow`.
        coherent, random: the two coefficients of the statistical bound.
    """

    relative_frobenius: float
    scaled: float
    coherent: float
    random: float

    def beside(self, lost: np.ndarray | float, reference: np.ndarray, magnitude: np.ndarray) -> Bound:
        """What the whole error may be, where `lost` [M, N] of the reference is lost before anything is summed.

        Args:
            reference: [M, N] FP64.
            magnitude: [M, N], |A| |B| in FP64.
        """
        if not np.any(lost):
            return self
        norm, share = np.linalg.norm(reference), np.abs(lost)[magnitude > 0] / magnitude[magnitude > 0]
        return replace(
            self, scaled=self.scaled + float(share.max(initial=0.0)),
            relative_frobenius=self.relative_frobenius + (float(np.linalg.norm(lost) / norm) if norm else inf),
        )


def safety(m: int, n: int) -> float:
    """SAFETY for errors of an [M, N] product, or more of few rows or columns."""
    spread = 2 / (9 * max(1, min(m, n)))
    return max(SAFETY, (1 - spread + FAR * sqrt(spread)) ** 1.5)


def lost(plan: Plan, a: np.ndarray, b: np.ndarray, reference: np.ndarray, lossy: bool = False) -> np.ndarray | float:
    """What the words of A and B that the unit multiplies fall short of `reference`, [M, N]; 0 where it flushes none.

    Args:
        a, b: [M, K] and [K, N] FP32.
        reference: [M, N], A B in FP64.
        lossy: of a unit that flushes none, too: words of few bits hold little of an element far below the largest of its row.

    0 too for elements that no words can hold: the epilogue repairs those.
    """
    if not plan.launches.flushes_words and not lossy:
        return 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        rest = reference - kept(a, b, plan.scheme, plan.unit)
    return np.where(np.isfinite(rest), rest, 0.0)


def held_to(plan: Plan, a: np.ndarray, b: np.ndarray, reference: np.ndarray) -> Iterator[np.ndarray]:
    """What A B [M, N] is to be near: `reference` less what the unit flushes, and where words of some elements are lossy, the products of all words.

    Data of ordinary magnitudes has few such elements, and in a sum of many products they do not show. In one of few they may, and their bound is not kept.

    Args:
        a, b: [M, K] and [K, N] FP32 and finite.
        reference: [M, N], A B in FP64.
    """
    yield reference - lost(plan, a, b, reference)
    if not plan.scheme.family.by_row and any(split(x, plan.scheme, operand=which).lossy for which, x in (("a", a), ("b", np.ascontiguousarray(b.T)))):
        yield reference - lost(plan, a, b, reference, lossy=True)


def _left(scheme: Scheme, index: int, operand: str) -> tuple[float, float]:
    """(mean, rms) of what word `index` - 1 of an operand leaves of x, relative to |x|, for even low bits; of index 0, of x itself.

    Behind integers over the largest element of the row.
    """
    if index == 0:
        return 1.0, 1.0
    word = scheme.words_of(operand)[index - 1]
    if word.exact or scheme.stores(operand):
        return 0.0, 0.0
    if word.fixed:
        return 0.0, scheme.precision.remainder(index, operand) / sqrt(3)
    # A remainder of the first word is up to one ulp of x; a later one's is as
    # much smaller again. Its size varies with where x lies in its binade: by
    # 1 at the bottom, which is the safe side.
    worst = scheme.precision.remainder(word.source, operand)
    return word.left.mean * worst, word.left.rms * worst


def _split_terms(scheme: Scheme) -> tuple[float, float]:
    """(coherent, random) error of one product a b from what the words leave out.

    Both operands' remainders count once each, and each dropped product.
    """
    coherent = square = 0.0
    for p, q in scheme.precision.missing:
        (mean_p, rms_p), (mean_q, rms_q) = _left(scheme, p, "a"), _left(scheme, q, "b")
        coherent += mean_p * mean_q
        square += (rms_p * rms_q) ** 2
    return coherent, sqrt(square)


def _accumulation(k: int, chunk: int, scheme: Scheme, accumulator: Accumulator, unit: MatrixUnit) -> tuple[float, float]:
    """(coherent, random) error of summing an accumulator's word products over k in the unit, in chunks.

    Relative to C and to sqrt(S2). Each step truncates the running sum to FP32
    and each of its q terms at the sum's magnitude; the terms of a coherent sum
    share its sign, those of a random one do not.
    """
    q, products = unit.block[accumulator.word], _count(scheme, accumulator)
    steps = max(1, ceil(chunk / q))
    chunks = max(1, ceil(k / chunk))
    fractions = np.minimum(np.arange(1, steps + 1) * q / max(k, 1), 1.0)
    if unit.rounds_to_nearest:
        coherent, random = _to_nearest(max(k, 1), products, unit, q, fractions, chunks)
        return coherent + _swallowed(scheme, accumulator, steps), random
    phi, truncated, products = 2.0**-unit.fraction_bits, TRUNCATED, full_sums(scheme, accumulator, unit, chunk)
    if unit.sum_bits:
        # Terms end where sums end. A term has so many bits that only one `spare` binades below the largest loses any: of even numbers few do.
        spare = unit.fraction_bits - 2 * scheme.format.fraction_bits
        truncated, q = 2.0**-unit.sum_bits, q * min(1.0, 2.0**-spare * (1 + spare * LN2))
    coherent_step = products * (truncated / 2 + q * phi / 2)
    random_step = products * truncated / 2
    scatter = products * phi * sqrt(q / 3)
    # A bias within the chunk is a sum; separate chunks' random biases are not.
    coherent = chunks * coherent_step * fractions.sum()
    random = sqrt(chunks) * random_step * np.sqrt(fractions).sum()
    random = sqrt(random**2 + chunks * scatter**2 * fractions.sum())
    return float(coherent), float(random)


def _to_nearest(k: int, products: int, unit: MatrixUnit, q: int, fractions: np.ndarray, chunks: int) -> tuple[float, float]:
    """The same for a unit that rounds its accumulator to nearest after each step, where it has summed that fraction of k."""
    coherent, random = chunks * (fractions**2).sum(), chunks * fractions.sum()
    if unit.rule == "tree":
        # k / 2^level sums of 2^level terms each.
        coherent += sum(2.0**level / k for level in range(1, _levels(q) + 1))
        random += _levels(q)
    coherent, random = TO_NEAREST * sqrt(products * coherent), TO_NEAREST * sqrt(products * random)
    if unit.rule == "floor":
        phi = 2.0**-unit.fraction_bits
        coherent += products * (phi + chunks * DOWNWARDS * fractions.sum())
        random = sqrt(random**2 + products * phi**2) + products * chunks * DOWNWARDS * np.sqrt(fractions).sum()
    return float(coherent), float(random)


def _swallowed(scheme: Scheme, accumulator: Accumulator, steps: int) -> float:
    """Coherent error of products that are too small for the accumulator they are added to.

    A term below half an ulp of a sum is lost whole, and where such terms have one sign, as the
    low words of a split toward zero have on data of one sign, that is no longer random. Half an ulp
    is up to u n times the mean of a step's leading terms after n of N steps. Of terms spread evenly up to
    twice their mean, `share` of the leading ones', that swallows (u N)^2 / (12 share) of the whole sum;
    simulated, never more than a quarter of the terms.
    """
    means = {operand: [_left(scheme, word.source, operand)[0] * 2.0**word.scale for word in scheme.words_of(operand)] for operand in "ab"}
    shares = [means["a"][p.a] * means["b"][p.b] for p in scheme.products if p.into == accumulator.name]
    return sum(min(share / 4, (U * steps) ** 2 / (12 * share)) for share in shares if share > 0)


def _levels(q: int) -> int:
    """Levels of a tree of q."""
    return ceil(log2(q))


def _promotion(k: int, chunk: int) -> tuple[float, float]:
    """(coherent, random) error of adding the chunks up in FP32, to nearest."""
    chunks = max(1, ceil(k / chunk))
    fractions = np.arange(1, chunks + 1) / chunks
    return float(TO_NEAREST * sqrt((fractions**2).sum())), float(TO_NEAREST * sqrt(fractions.sum()))


def _count(scheme: Scheme, accumulator: Accumulator) -> int:
    """How many word products an accumulator takes."""
    return sum(product.into == accumulator.name for product in scheme.products)


def _size(scheme: Scheme, accumulator: Accumulator) -> float:
    """The largest of an accumulator's products of words over |a b|: what sums of remainders alone lose is relative to that, unless words are scaled up."""
    def word(index: int, operand: str) -> float:
        one = scheme.words_of(operand)[index]
        return 2.0**one.scale * (scheme.precision.remainder(one.source, operand) if one.source else 1.0)

    return max(word(p.a, "a") * word(p.b, "b") for p in scheme.products if p.into == accumulator.name)


def _chunks(plan: Plan, k: int) -> list[tuple[Accumulator, int, float]]:
    """For each accumulator: itself, the k it sums inside the unit, and its share: what its sum is multiplied by in the end."""
    # The k of sums that join the others in the end, or where a run of k ends; not there where the next one's scales are the same.
    stays = min(max(k, 1), plan.scheme.family.run_k or k) if plan.promotion.compensates else k
    return [
        (acc, plan.promote if plan.promotion.promotes(acc) else max(stays, 1), plan.scheme.family.recombination.share(acc))
        for acc in plan.scheme.accumulators
    ]


def _epilogue(scheme: Scheme) -> float:
    """Error of recombination and of alpha, a rounding each."""
    return (scheme.family.recombination.roundings + 1) * U


def bound(plan: Plan, a: np.ndarray, b: np.ndarray, reference: np.ndarray) -> Bound:
    """The bound for A [M, K] B [K, N] = `reference` [M, N] (in the type of the elements' reference)."""
    scheme, k = plan.scheme, a.shape[1]
    coherent, random = (0.0, 0.0) if scheme.family.by_row else _split_terms(scheme)
    square = random**2
    for acc, chunk, share in _chunks(plan, k):
        if acc.type != "f32":  # integers: exact
            continue
        on_unit = plan.fragment.on_matrix_unit
        c, r = _accumulation(k, chunk, scheme, acc, plan.unit) if on_unit else _promotion(k * _count(scheme, acc), 1)
        if on_unit and not plan.unit.rounds_to_nearest and not scheme.family.by_row:
            share *= _size(scheme, acc)
        coherent, square = coherent + share * c, square + (share * r) ** 2
        if plan.promotion.promotes(acc):
            c, r = (TO_NEAREST, TO_NEAREST) if plan.promotion.compensates else _promotion(k, chunk)
            coherent, square = sqrt(coherent**2 + c**2), square + r**2
            if scheme.family.run_k and not plan.promotion.compensates:  # the others join where a run ends
                c, r = _promotion(k, scheme.family.run_k)
                coherent, square = sqrt(coherent**2 + c**2), square + r**2
    if scheme.family.by_row:
        # What words leave is relative to rows, and so is not told by two coefficients of the data; these are of evenly spread data.
        norm, each = float(np.linalg.norm(reference)), fixed.relative(scheme, k)
        found = safety(*reference.shape) * fixed.error_norm(scheme, a, b, reference)
        sums = _gate(coherent, sqrt(square), 0.0, a, b, reference) if not scheme.family.exact else 0.0
        return Bound(
            relative_frobenius=(found / norm if norm else inf if found else 0.0) + sums + plan.output.roundoff, scaled=worst_case(plan, k),
            coherent=sqrt(coherent**2 + fixed.rounding(scheme) ** 2 + fixed.added(fixed.tiles(scheme, k))[0] ** 2), random=sqrt(square + each**2),
        )
    epilogue = _epilogue(scheme)
    coherent, random = sqrt(coherent**2 + epilogue**2), sqrt(square + epilogue**2)
    return Bound(
        relative_frobenius=_gate(coherent, random, plan.output.roundoff, a, b, reference),
        scaled=worst_case(plan, k), coherent=coherent, random=random,
    )


def worst_case(plan: Plan, k: int) -> float:
    """The deterministic bound of |C - C*| / (|A||B|), for elements in the scheme's range: E22; of integer words over `fixed.reach`."""
    unit = plan.unit if plan.fragment.on_matrix_unit else None
    if plan.scheme.family.by_row:
        worst = fixed.worst(plan.scheme, unit, max(k, 1), plan.promote, plan.promotion.compensates)
        return worst + plan.output.roundoff * (1 + worst)
    return predicted(plan.scheme, unit, k, plan.promote, output_roundoff=plan.output.roundoff, compensated=plan.promotion.compensates).worst


def underflow(plan: Plan, k: int) -> float:
    """What an element of C may miss beside `worst_case` because products, sums or itself leave FP32's normal range.

    An absolute figure; where rows are scaled it holds of the sums in the unit, before the scales are taken out. Words of FP16
    never get there: their products are multiples of 2^-48; nor do those of FP8. Sums of subnormal FP32 numbers are exact, so promotion adds nothing.
    """
    scheme, unit = plan.scheme, plan.unit
    if not plan.fragment.on_matrix_unit:
        return max(k, 1) * TINIEST / 2 * sum(_count(scheme, acc) * scheme.family.recombination.share(acc) for acc in scheme.accumulators)
    total = fixed.underflow(scheme, k) + _below_range(plan, k)
    for acc, chunk, share in _chunks(plan, k):
        if acc.type != "f32" or 2 * (FORMATS[acc.word].min_exponent - FORMATS[acc.word].fraction_bits) >= -126:
            continue
        q = unit.block[acc.word]
        cut = (q + 1) * 2.0 ** (-126 - (unit.fraction_bits or 0))  # of terms that are aligned to a subnormal accumulator
        step = {"truncate": TINIEST + cut, "floor": TINIEST + cut, "tree": q * TINIEST, "exact": TINIEST / 2}[unit.rule]
        if unit.flushes_subnormals:
            step = (2 * q + 1) * 2.0**-126  # of products, sums and the accumulator that comes in
        steps = ceil(max(k, 1) / chunk) * ceil(min(chunk, max(k, 1)) / q)
        total += share * _count(scheme, acc) * steps * step
    return total


def _below_range(plan: Plan, k: int) -> float:
    """What sums lose where they stand for themselves, since units of runs of k are too far apart: a rounding of FP32's smallest number for each that
    moves out of the unit, and of what joins it where a run ends."""
    family = plan.scheme.family
    return (ceil(k / plan.promote) + 2 * family.runs(k)) * TINIEST if family.run_k else 0.0


def allowance(plan: Plan, a: np.ndarray, b: np.ndarray, magnitude: np.ndarray, repaired: bool = False) -> np.ndarray:
    """What each element of A B [M, N] may be off by, where no element of its row of A and column of B is counted.

    Args:
        a, b: [M, K] and [K, N] of the plan's type.
        magnitude: [M, N], |A| |B| in the type of its reference.
        repaired: whether elements may have been computed again by a dot product of that type.
    """
    if plan.fallback:
        others = allowance(replace(plan, fallback=None), a, b, magnitude, repaired)
        return np.where(fallen(plan, a, b), allowance(plan.fallback, a, b, magnitude, repaired), others)
    k, scheme = a.shape[1], plan.scheme
    relative, absolute = worst_case(plan, k), underflow(plan, k)
    if scheme.family.by_row:
        magnitude = fixed.reach(scheme, a, b)
    elif scheme.b:
        # A unit aligns the product of a subnormal word as if that were the smallest normal number, and cuts it there. Such an element of A is counted;
        # a stored B's is a number like others.
        magnitude = plan.type.exact(np.abs(a), plan.type.rounded(np.where(b == 0, 0, np.maximum(np.abs(b), 2.0**scheme.format.min_exponent))))
    if scheme.normalize == "row" and absolute:
        scales = row_exponents(a, scheme)[:, None] + row_exponents(np.ascontiguousarray(b.T), scheme)[None, :]
        absolute = np.ldexp(absolute, -scales)
    if repaired:
        own = k * plan.type.roundoff
        relative, absolute = max(relative, own + plan.output.roundoff * (1 + own)), np.maximum(absolute, k * plan.type.tiniest / 2)
    return relative * magnitude + absolute + plan.type.tiniest + plan.output.tiniest  # the last two are C's own rounding, and recombination's


def fallen(plan: Plan, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[M, N], which elements of C another kernel computes: tiles with a row of A [M, K] or column of B [K, N] that stands out."""
    found = []
    for operand, x, tile in (("a", a, plan.block[0]), ("b", np.ascontiguousarray(b.T), plan.block[1])):
        rows = stands_out(split(x, plan.scheme, operand=operand), x)
        tiles = np.pad(rows, (0, -len(rows) % tile)).reshape(-1, tile).any(axis=1)
        found.append(np.repeat(tiles, tile)[: len(rows)])
    return found[0][:, None] | found[1][None, :]


def share_of_worst(
    plan: Plan, a: np.ndarray, b: np.ndarray, before: np.ndarray | None, c: np.ndarray, alpha: float = 1.0, beta: float = 0.0,
    ends: Mapping[str, Any] = MappingProxyType({}),
) -> float:
    """How much of the worst case the largest error of C = alpha A B + beta C is; more than 1, or NaN, is an error.

    Args:
        a, b: [M, K] and [K, N] of the plan's type.
        before: [M, N], C before it; None where beta is 0, which does not look at it.
        c: [M, N], what came out.
        ends: what the plan's epilogue was given.
    """
    product, magnitude = plan.type.exact(a, b), plan.type.exact(np.abs(a), np.abs(b))
    old = np.zeros(c.shape) if before is None or beta == 0 else plan.type.widened(plan.output.rounded(before))
    # alpha, beta and their sum round once each; a C that a second round adds to, once more.
    rounded = (3 + plan.kind.exchanged) * plan.type.roundoff * (abs(alpha) * magnitude + np.abs(beta * old))
    limit = abs(alpha) * allowance(plan, a, b, magnitude) + rounded + plan.type.tiniest + plan.output.roundoff * np.abs(beta * old) + plan.output.tiniest
    for want in held_to(plan, a, b, product):
        right = alpha * want + beta * old
        share = float((np.abs(traced(plan, c, right, ends) - right) / limit).max(initial=0.0))
        if share <= 1:
            break
    return share


def _gate(coherent: float, random: float, roundoff: float, a: np.ndarray, b: np.ndarray, reference: np.ndarray) -> float:
    """E19: safety sqrt(coherent^2 (||C||^2 - sum S2)+ + random^2 sum S2) / ||C||, and C's own rounding."""
    norm = float((reference**2).sum())
    squares = float((a.astype(np.float64) ** 2).sum(axis=0) @ (b.astype(np.float64) ** 2).sum(axis=1))
    if norm == 0.0:
        return 0.0 if squares == 0.0 else inf
    return float(GATE.value({
        "coherence": max(0.0, norm - squares) / norm, "scattered": squares / norm, "coherent": coherent, "random": random,
        "safety": safety(*reference.shape), "output_roundoff": roundoff,
    }))
