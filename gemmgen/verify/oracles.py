"""Problems whose answers are known, chosen so that a wrong kernel cannot pass.

Random data cannot show a dropped low product: it hides below the rounding of
the sum. The oracles here isolate each part of a kernel and ask for exact bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from gemmgen.catalog.element import F64
from gemmgen.catalog.number import INTEGERS
from gemmgen.catalog.scheme import Scheme
from gemmgen.emulate.core.product import SPARE_BITS
from gemmgen.errors import SpecError
from gemmgen.plan import Plan
from gemmgen.split import kept, split
from gemmgen.verify.bound import lost
from gemmgen.verify.expected import computed, of_part, shares


@dataclass(frozen=True)
class Problem:
    """A product to compute and what must come out.

    Attributes:
        a: [M, K] of the plan's type.
        b: [K, N] likewise.
        expected: [M, N] likewise, that must come out bit for bit (zeros of either
            sign count as equal), or None for an oracle judged by a bound.
        mask: [M, N], where `expected` is known; None is everywhere.
        promise: what is said of elements that came out as expected.
    """

    a: np.ndarray
    b: np.ndarray
    expected: np.ndarray | None = None
    mask: np.ndarray | None = None
    promise: str = "all exact"


MOST_PROMOTE = 1 << 16
"""k between promotions up to which a kernel can be judged: questions of twice that take less than a gigabyte, and half a minute on the emulator."""


def wrapping_k(plan: Plan) -> int:
    """A k for which every stage is used again and again, promotion fires more than once and a run of k with scales of its own ends.

    Of residues, for which a kernel fills its stages with all k once for each modulus, the ring of stages is as often used again by fewer k.

    Raises:
        SpecError: promotion is so seldom that no question can wait for it.
    """
    if plan.promote > MOST_PROMOTE:
        raise SpecError(
            "[split] promote", "is too large for a kernel to be verified: each question is of sums that are promoted twice", got=plan.promote,
            needs=f"0, or at most {MOST_PROMOTE}", remedy=f"promote = {MOST_PROMOTE // plan.block[2] * plan.block[2]}, or 0, which is never",
        )
    family = plan.scheme.family
    stages = max(3, ceil((2 * plan.stages + 1) / len(family.residues.moduli))) if family.residues else max(8, 2 * plan.stages + 1)
    least = stages * plan.block[2] + 2 * plan.promote
    return max(least, family.run_k + 2 * plan.block[2]) if family.run_k else least


def uniform(plan: Plan, low: float, high: float, shape: tuple[int, int, int], seed: int) -> Problem:
    """U[low, high], drawn in FP64 and rounded: FP32 generators leave a 2^-23
    grid, on which a split loses less than it does on real data."""
    rng = np.random.default_rng(seed)
    m, n, k = shape
    return Problem(
        plan.type.rounded(rng.uniform(low, high, (m, k))), plan.inputs.stored_b.rounded(plan.type.rounded(rng.uniform(low, high, (k, n))))
    )


def permutation(plan: Plan, seed: int = 1) -> Problem:
    """A permutation times B: every row of C is a row of B, bit for bit.

    B's elements have as many bits as the scheme carries, so nothing is lost on
    the way, and an element taken from a wrong place cannot be missed. Each row
    of A and column of B has a power of two of its own, which a kernel that
    normalises must take out again.

    A compensated sum is given back what truncation takes on average, also one that has lost nothing, unless it has `SPARE_BITS`
    (`emulate.core.product.given_back`). So there every second column of B has that many bits fewer, and comes out bit for bit. Elements of the
    others differ from B's by `plan.promotion.mean_cut` of them and a rounding at most; what they are bit for bit, the arithmetic of the sums says. One
    element of A a row is not 0, so no order of k changes that.
    """
    rng = np.random.default_rng(seed)
    k, n = wrapping_k(plan) + 3, max(1, plan.block[1] - 3)
    order = np.resize(rng.permutation(k), plan.block[0] + 7)  # a tile may have more rows than there are k
    order[-1] = k - 1  # of the stage that is not full
    rows = np.arange(len(order))
    a = np.zeros((len(order), k), plan.type.dtype)
    a[rows, order] = scale = plan.type.rounded(np.exp2(rows % 5 - 2))
    bits = plan.inputs.stored_b.bits if plan.scheme.b else plan.scheme.precision.bits_of(plan.scheme.precision.rest("b"), "b")
    mantissa = rng.integers(1 << (bits - 1), 1 << bits, (k, n))
    if plan.promotion.mean_cut:
        mantissa[:, ::2] &= -1 << max(0, bits - (24 - SPARE_BITS))
    sign = rng.choice([-1.0, 1.0], (k, n))
    b = plan.type.rounded(sign * mantissa * 2.0**-bits * np.exp2(np.arange(n) % 3 - 1))
    # A word that saturates at half a last place of another leaves something, and factors that are no powers of two leave some of every element.
    if not plan.scheme.precision.chain or plan.scheme.family.residues:
        rows = plan.type.rounded(_kept(plan, a, b))
    else:
        rows = plan.type.rounded(scale[:, None] * b[order] - lost(plan, a, b, plan.type.exact(a, b)))
    if not plan.promotion.mean_cut:
        return Problem(a, b, rows)
    given = of_part(plan, a, b)
    rows[:, 1::2] = given[:, 1::2]
    given_back = f"{plan.promotion.mean_cut:.1e} of them that is given back"
    return Problem(a, b, rows, promise=f"rows of B of up to {24 - SPARE_BITS} bits exact, others but for {given_back}")


def _kept(plan: Plan, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What the scheme's products of the words that the unit multiplies sum up to, exactly: [M, N] of A [M, K] and B [K, N]."""
    return kept(a, b, plan.scheme, plan.unit)


def all_ranges(plan: Plan, seed: int = 7, shape: tuple[int, int, int] = (53, 45, 37)) -> Problem:
    """Rows of A and columns of B of every magnitude that the elements' type has, and of every kind that is known to be hard.

    Where the scheme's words end, rows end, too: what lies above overflows, and `special_values` asks for that.

    Args:
        shape: (m, n, k).
    """
    rng = np.random.default_rng(seed)
    # Integers have no exponent: their rows are of any magnitude of the elements'.
    least, normal, largest_exponent = plan.type.exponents
    first = plan.scheme.words_of("a")[0]
    (m, n, k), most = shape, largest_exponent if plan.scheme.family.by_row else first.format.max_exponent
    fraction_bits = INTEGERS[first.type].bits - 2 if first.fixed else first.format.fraction_bits
    # Elements of the kinds below are less than 2^3 times their row's power of two.
    top = largest_exponent - 3 if plan.scheme.precision.whole_range else min(124, most - 3)
    exact_from = normal if plan.scheme.family.by_row else plan.scheme.precision.lowest(plan.launches.flushes_words) or normal
    half = (1 - normal) // 2 - 1  # of the exponents of normal numbers: products stay among those

    def lines(count: int) -> np.ndarray:
        powers = np.rint(np.linspace(least, top, count)).astype(int)
        # Half of the lines lie where the scheme promises something and products are normal numbers.
        powers[1::2] = np.rint(np.linspace(max(exact_from, -half), min(top, half - 2), len(powers[1::2])))
        made = np.zeros((count, k))
        for line, power in enumerate(rng.permutation(powers)):
            made[line] = np.ldexp(_KINDS[line % len(_KINDS)](rng, k, fraction_bits), power)
        largest = np.ldexp(rng.uniform(0.5, 1, k), most - 1)  # near half of the word's largest
        made[rng.integers(count)] = largest if plan.scheme.precision.whole_range or most < 100 else np.ldexp(largest, -60)
        return plan.type.rounded(made)

    of_a, of_b = lines(m), np.ascontiguousarray(lines(n).T)
    return Problem(of_a, plan.inputs.stored_b.rounded(of_b))


def far_runs(plan: Plan, seed: int = 8, shape: tuple[int, int] = (53, 45)) -> Problem:
    """Rows of A and columns of B whose runs of k differ by up to so many powers of two, from few to more than a sum in FP32 goes through in one unit; large
    ones of A meet small ones of B, and some are zeros, the first among them.

    Args:
        shape: (m, n); of k it has three runs and a half.
    """
    rng, run = np.random.default_rng(seed), plan.scheme.family.run_k
    k = 3 * run + run // 2 + 5

    def lines(count: int, sign: int) -> np.ndarray:
        reaches = np.array((0, 2, 9, 18, 40, 100))[np.arange(count) * 6 // count, None]
        powers = np.rint(sign * reaches * np.sin(np.arange(4)[None, :] * 2.5 + 1) + rng.integers(-1, 2, (count, 4)))
        scales = np.where(rng.random((count, 4)) < 0.1, 0.0, np.exp2(powers))
        return plan.type.rounded(rng.choice([-1, 1], (count, k)) * rng.uniform(0.5, 1, (count, k)) * np.repeat(scales, run, axis=1)[:, :k])

    return Problem(lines(shape[0], 1), np.ascontiguousarray(lines(shape[1], -1).T))


def graded(plan: Plan, seed: int = 9, shape: tuple[int, int] = (24, 18)) -> Problem:
    """Rows of A that fall by up to 2^40 along k and columns of B that rise by as much, so that products which count alike come from the ends of both; rows
    and columns whose exponents span as much in no order; and on every second row and column pairs that cancel but for half of the type's bits.

    After the matrices by which arXiv 2509.23565 tells FP64's products apart.

    Args:
        shape: (m, n); of k it has two stages and a rest.
    """
    rng, k = np.random.default_rng(seed), 2 * plan.block[2] + 10
    rest = 2.0**-30 if plan.type == F64 else 2.0**-14

    def lines(count: int, sign: int) -> np.ndarray:
        at, where = np.arange(count), np.tile(np.arange(k) // 2 * 2, (count, 1))
        where[at // 8 == 1] = np.repeat(rng.integers(0, k, ((at // 8 == 1).sum(), k // 2)), 2, axis=1)
        falls = np.exp2(-np.rint(sign * np.array((0, 9, 20, 40))[at // 2 % 4][:, None] * where / k))
        found = rng.choice([-1, 1], (count, k)) * rng.uniform(0.5, 1, (count, k)) * falls
        found[1::2, 1::2] = found[1::2, ::2] * (-1 - rest if sign > 0 else 1)
        return plan.type.rounded(found)

    return Problem(lines(shape[0], 1), np.ascontiguousarray(lines(shape[1], -1).T))


def _even(rng: np.random.Generator, k: int, bits: int) -> np.ndarray:
    return rng.uniform(-1, 1, k)


def _constant(rng: np.random.Generator, k: int, bits: int) -> np.ndarray:
    return np.full(k, 1 + rng.integers(0, 1 << 23) * 2.0**-23)


def _ties(rng: np.random.Generator, k: int, bits: int) -> np.ndarray:
    """Half an ulp of the word beyond it, of one sign."""
    return 1 + (2 * rng.integers(0, 1 << bits - 1, k) + 1) * 2.0 ** -(bits + 1)


def _integers(rng: np.random.Generator, k: int, bits: int) -> np.ndarray:
    return rng.integers(-127, 128, k) * 2.0**-6


def _short(rng: np.random.Generator, k: int, bits: int) -> np.ndarray:
    """As many bits as a word has."""
    return rng.choice([-1, 1], k) * (1 + rng.integers(0, 1 << bits, k) * 2.0**-bits)


def _cancelling(rng: np.random.Generator, k: int, bits: int) -> np.ndarray:
    half = rng.uniform(0.5, 2, k // 2 + 1)
    return np.stack([half, -half * (1 + 2.0**-20)], axis=1).ravel()[:k]


def _one_huge(rng: np.random.Generator, k: int, bits: int) -> np.ndarray:
    return np.where(np.arange(k) == k // 2, 1.9, rng.uniform(-1, 1, k) * 2.0**-12)


def _wide(rng: np.random.Generator, k: int, bits: int) -> np.ndarray:
    """Lognormal: elements of one line differ by many powers of two."""
    return np.minimum(np.exp2(rng.normal(-6, 4, k)), 4) * rng.choice([-1, 1], k)


_KINDS = (_even, _constant, _ties, _integers, _short, _cancelling, _one_huge, _wide)


def _low_places(count: int, bits: int) -> list[int]:
    """The powers of two that the low words of a probe are, behind a leading word of 1 to 1.375 and `bits` - 2 places.

    With two words the low one is half a last place, a tie that falls to the even leading word; with more, a quarter, and the next a tie again.
    """
    return [-(bits + 1)] if count < 3 else [-(bits + 2), -(2 * bits + 3)]


def beyond_the_sum(scheme: Scheme) -> set[tuple[int, int]]:
    """Products (word of A, word of B) of probes whose last place lies more than 24 bits below the largest that goes into the same sum."""
    words = scheme.words_of("a")
    bits, low = words[0].format.fraction_bits, _low_places(len(words), words[0].format.fraction_bits)
    first, last = [0, *low], [2 - bits, *low]
    largest = {one.into: max(first[other.a] + first[other.b] for other in scheme.products if other.into == one.into) for one in scheme.products}
    return {
        (one.a, one.b) for one in scheme.products
        if (one.a, one.b) != (0, 0) and last[one.a] + last[one.b] < largest[one.into] + 2 - 24  # a probe's sums stay under 4 of the largest
    }


def _summed_together(plan: Plan, k: int, rng: np.random.Generator) -> np.ndarray:
    """[sets, 4], k in sets of four that one warp sums in one slice of k, in any order; where sums are compensated, within one interval of promotion, too.

    What a set sums up to is small beside its terms. Sums of parts of k are rounded to FP32, each as large as a term, before they are added up; and what
    stays of a compensated sum is added last, as large as what moved of it.
    """
    groups = [mine for of_warps in shares(plan, k) for mine in of_warps]
    if plan.promotion.compensates:
        groups = [mine[at : at + plan.promote] for mine in groups for at in range(0, len(mine), plan.promote)]
    return rng.permutation(np.concatenate([rng.permutation(mine)[: len(mine) // 4 * 4].reshape(-1, 4) for mine in groups]))


def probes(plan: Plan, seed: int = 2) -> Problem:
    """Pairs that isolate the products of low words.

    Let p_i(x) be the sum of x's first i words. Then

        [x, x, p_i(x), p_i(x)] . [y, -p_j(y), -y, p_j(y)] = (x - p_i(x)) (y - p_j(y))

    of which a scheme returns just what its kept products of words from i and j
    on make up: lo(x) y, x lo(y), lo(x) lo(y), and 0 where lo lo is dropped. x has
    one bit a word, so everything is exact in FP32 and inside the unit and must
    come out bit for bit. The k positions are strewn over all stages, steps and
    lanes.

    Where a scheme keeps products that a sum's 24 bits cannot hold beside the
    largest (`beyond_the_sum`), nobody can see those in C. Then x and y end with
    the words of the one product that their pair isolates, and those are left out.
    """
    if plan.scheme.family.by_row:
        return _of_integers(plan, seed)
    rng = np.random.default_rng(seed)
    scheme = plan.scheme
    of_a, of_b = (scheme.words_of(operand) for operand in "ab")
    count, bits = max(len(of_a), len(of_b)), of_a[0].format.fraction_bits
    kinds = [(i, j) for i in range(len(of_a)) for j in range(len(of_b)) if (i, j) != (0, 0)] or [(0, 0)]
    hidden = beyond_the_sum(scheme)
    if hidden:
        kinds = [(one.a, one.b) for one in scheme.products if (one.a, one.b) not in {(0, 0), *hidden}]
    m = n = 24 * len(kinds) if count < 3 else 8 * len(kinds)
    k = wrapping_k(plan)
    positions = _summed_together(plan, k, rng)
    sets = len(positions)
    # Leading words stay below 1.375, so that two products stay under 4, where FP32 resolves 2^-22.
    lows, step = np.exp2(_low_places(count, bits)), 2.0 ** -(bits - 2)
    kind_of = np.arange(m) % len(kinds)
    ends = np.array(kinds)[kind_of] if hidden else np.full((m, 2), len(lows))
    low_of = np.concatenate([[0], np.cumsum(lows)])[ends]  # [m, 2], of x and y
    x = (1.0 + rng.integers(0, max(1, int(0.375 / step)), m) * step + low_of[:, 0]).astype(np.float32)
    # A stored B has no low word.
    y = (1.0 + rng.integers(0, max(1, int(0.375 / step)), n) * step + (0.0 if scheme.b else low_of[:, 1])).astype(np.float32)

    def leading(values: np.ndarray, operand: str) -> np.ndarray:
        """p_i of each value, [words, values]."""
        words = split(values[:, None], plan.scheme, operand=operand)
        shares = [p[:, 0] * 2.0**-w.scale for p, w in zip(words.planes, words.words)]
        sums = np.concatenate([np.zeros((1, len(values))), np.cumsum(shares, axis=0)])
        return np.ldexp(sums, -words.exponents.ravel())

    p_x, p_y = leading(x, "a"), leading(y, "b")
    a, b = np.zeros((m, k)), np.zeros((k, n))
    for row in range(m):
        i, j = kinds[kind_of[row]]
        p, q = p_x[i][row], p_y[j][row]
        a[row, positions[row * sets // m]] = (x[row], x[row], p, p)
        b[positions, row] = (y[row], -q, -y[row], q)
    a, b = plan.type.rounded(a), plan.type.rounded(b)
    return Problem(a, b, plan.type.rounded(_kept(plan, a, b)), kind_of[:, None] == kind_of[None, :])


def _of_integers(plan: Plan, seed: int) -> Problem:
    """Any data will do where words are integers: their sums are exact, so each element is known to the last bit, and no product of words is
    too small to change it. Of floating-point words beside them the sums are exact, too, where the elements are an integer of the row and
    a multiple of the smallest last place. Three rows and columns more: of zeros, of subnormal numbers, and of numbers near FP32's largest.
    """
    rng = np.random.default_rng(seed)
    m, n, k = plan.block[0] + 5, plan.block[1] + 3, wrapping_k(plan) + 3
    a, b = (plan.type.rounded(rng.uniform(-1, 1, shape)) if plan.scheme.family.exact else _of_two_digits(plan, rng, shape) for shape in ((m, k), (k, n)))
    a[1], b[:, 2] = 0, 0
    # Slices of k are added before the scales are taken out, and not after, which in FP32's subnormal range are other bits.
    tiny = plan.type.dtype.type(2.0 ** (plan.type.exponents[1] if plan.split_k == 1 else -100))
    a[2] *= tiny
    b[:, 3] *= tiny
    a[4] *= plan.type.dtype.type(2.0 ** (plan.type.exponents[2] - 17))
    return Problem(a, b, computed(plan, a, b))


def _of_two_digits(plan: Plan, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Elements of one binade: an integer of the scaled row, of either sign, and up to 3/8 of a leading word's last place of the last word's."""
    scheme, words = plan.scheme, plan.scheme.words_of("a")
    top, smallest = scheme.target_exponent, max(word.scale for word in words if word.fixed)
    most = int(0.375 * 2.0 ** (smallest + top - words[0].format.fraction_bits))
    whole = rng.integers(1 << top, 2 << top, shape) * rng.choice([-1.0, 1.0], shape)
    return ((whole + rng.integers(-most, most + 1, shape) * 2.0**-smallest) * 2.0**-top).astype(np.float32)


LEAST_OUTLIER_K = 300
"""Of fewer elements the largest makes up too much of the row for its words to be poor beside it (`split.stands_out`)."""


def outliers(plan: Plan, seed: int = 8) -> Problem:
    """U[-1, 1] of two tiles of C each way, with an element of some rows of A and columns of B that is far larger than the others."""
    rng = np.random.default_rng(seed)
    problem = uniform(plan, -1, 1, (plan.block[0] + 5, plan.block[1] + 3, max(plan.block[2] * 3 + 7, LEAST_OUTLIER_K)), seed)
    problem.a[plan.block[0] + 2, rng.integers(problem.a.shape[1])] = 3e4
    problem.b[rng.integers(problem.b.shape[0]), plan.block[1] + 1] = -3e3
    return problem


def special_values(plan: Plan, seed: int = 3) -> Problem:
    """Inf, NaN, and where the scheme can know of it elements beyond the word's range.

    A scheme that rounds toward zero saturates beyond its range: it counts such
    elements but cannot repair them, so they are left out here.
    """
    rng = np.random.default_rng(seed)
    m, n, k = 19, 23, plan.block[2] + 9
    a, b = (plan.type.rounded(rng.uniform(-1, 1, shape)) for shape in ((m, k), (k, n)))
    a[2, 5], a[3, 7], a[5, 1] = np.inf, -np.inf, np.nan
    b[5, 3], b[9, 4], b[11, 6] = 0.0, np.inf, np.nan
    if plan.scheme.words_of("a")[0].rounding == "nearest_even":
        a[7, 0], a[8, 3], b[4, 9] = 1e6, -3e38, 7e4
    return Problem(a, plan.inputs.stored_b.rounded(b))
