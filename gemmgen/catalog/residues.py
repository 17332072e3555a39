"""Residue arithmetic: an integer known by what it leaves modulo several numbers, and the constants that reckoning so takes.

After Ozaki, Uchino and Imamura, "Ozaki Scheme II" (2025). With pairwise coprime moduli m_i of product M, a vector of residues stands for one
integer of (-M/2, M/2) (Chinese remainder theorem):

    c / M = frac( sum_i r_i w_i / m_i ),    w_i (M / m_i) = 1 modulo m_i,    frac to nearest: in [-1/2, 1/2)

where r_i is any number congruent to c modulo m_i. So residues of a product of integer matrices are the products of their residues, and
nothing is known of how large the integers were on the way: only |sum_k a b| < M/2 matters, and by Cauchy and Schwarz |sum_k a b| is at
most the product of the Euclidean norms of the row and the column. K is taken in segments of `SEGMENT_K`, whose results are joined each by itself and
added up. Each row of A and column of B is therefore scaled by a factor f that makes the norm of none of its segments larger than `target`, of which the
square is below M/2.

FP64 elements have residues of their own (`WideResidues`): a row has a power of two instead of a factor, and all of k is one sum. Both follow from the
bits of elements by integer arithmetic alone, which no order changes, so that every GPU finds the same. With W_i = w_i M / m_i, the integer itself is

    c = sum_i r_i W_i - q M,    q = sum_i r_i w_i / m_i to nearest

in 128 bits, and it is rounded once, to FP64. Two moduli at a time, of product p: with W_i = v_i M / p, where v_i = w_i p / m_i, a pair's two residues times
their v_i are one number of 32 bits first, so that half as many are multiplied by 128 bits (`Pair`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import gcd, isqrt, log2, prod

import numpy as np

LARGEST = 256
"""The largest modulus whose residues fit INT8."""
SLACK = 200
"""More than what rounding to integers adds to the norm of a segment: sqrt(SEGMENT_K) / 2."""
SEGMENT_K = 8192
"""k whose sums are joined by themselves: a longer row would have a larger norm and so fewer bits for each element. A multiple of every stage."""
FRACTION_BITS = 52
"""Bits of the fixed-point fraction c / M: FP64 holds them all."""
LOW_BITS = 20
"""Those of them that are summed apart, so that no sum of 32 bits overflows."""
SUM_BITS = 30
"""Sums over a segment are below 2^SUM_BITS in magnitude, so that one multiplication reduces them."""
QUOTIENT_BITS = 39
"""A sum's quotient is (sum * reciprocal) / 2^QUOTIENT_BITS, rounded down."""
NORM_BITS = 28
"""Of the integers whose squares' sum tells a row's norm: its largest element becomes one of [2^27, 2^28)."""
PART_BITS, DROPPED_BITS = 22, 6
"""Sums of squares are added up in three parts of PART_BITS bits, the last of 20, so that 256 threads do not overflow; their root is of what is left
without the last DROPPED_BITS."""
NORM_LOSS = 99
"""More than what such a norm loses: sqrt(SEGMENT_K) since elements are rounded down to integers, and 2^(DROPPED_BITS / 2) since the root is. Beside
2^27 it is less than 2^-20.3, so that with the cut of `FACTOR_BITS` a factor is too small by less than 2^-19."""
FACTOR_BITS = 20
"""Fraction bits of a row's factor: times an element of FP32 it is exact in FP64."""


@dataclass(frozen=True)
class Modulus:
    """What reckoning modulo `m` takes.

    Attributes:
        weight: w / m in units of 2^-FRACTION_BITS.
        reciprocal: of `m`, in units of 2^-QUOTIENT_BITS, rounded up: the quotient of any number below 2^(SUM_BITS + 1) + 2 m is exact.
        offset: a multiple of `m` that no sum is below the negative of.
        digits: what digit j of a number in base 256 counts, modulo `m`, of least magnitude.

    A sum x of digits is reduced in FP32: `start` + x is an integer of [2^23, 2^24), and fma(start + x, inverse, whole) is one, too, rounded once: since
    start * inverse is all but an integer, x / m is rounded to nearest. Of start + x less m times the quotient, both as the bits of FP32, the last byte is
    that of the residue.
    """

    m: int
    weight: int
    reciprocal: int
    offset: int
    digits: tuple[int, ...]

    @cached_property
    def _quotient(self) -> tuple[float, int]:
        """(a number of FP32 beside 1 / m, an integer of [2^23 + 2^17, 2^24 - 2^17] whose product with it is all but an integer).

        An integer i that leaves j modulo m has i * inverse = a whole number + j / m + i * error, which is nearly whole beside i = -j / (m * error).
        """
        least, most, found = 9 << 20, 15 << 20, []
        bits = np.float32(1 / self.m).view(np.int32)
        for inverse in np.array([bits - 1, bits, bits + 1]).astype(np.int32).view(np.float32):
            error = Fraction(float(inverse)) - Fraction(1, self.m)
            for j in range(-3, 4):
                about = min(most, max(least, round(-j / (self.m * error))))
                one = about - (about - j) % self.m
                product = one * Fraction(float(inverse))
                found.append((abs(product - round(product)), float(inverse), one))
        return min(found)[1:]

    @property
    def inverse(self) -> str:
        """1 / m, or the number beside it, as a literal of FP32 without its suffix."""
        return self._quotient[0].hex()

    @property
    def start(self) -> int:
        """The integer that sums of digits begin with."""
        return self._quotient[1]

    @property
    def whole(self) -> int:
        """What quotients are added to, of [2^23 + 2^22, 2^23 + 2^22 + 256)."""
        first, product = 3 << 22, round(self.start * Fraction(self._quotient[0]))
        return first + (self.start * pow(self.m, -1, 256) - first - product) % 256

    @property
    def high(self) -> int:
        """The weight's leading bits."""
        return self.weight >> LOW_BITS

    @property
    def low(self) -> int:
        """Its last `LOW_BITS`."""
        return self.weight & ((1 << LOW_BITS) - 1)

    @property
    def first_digits(self) -> int:
        """The first four of its digits as the bytes of one word."""
        return sum((digit & 255) << 8 * j for j, digit in enumerate(self.digits[:4]))


@dataclass(frozen=True)
class Residues:
    """A system of residues.

    Attributes:
        moduli: pairwise coprime; odd, or 256, so that residues of least magnitude are numbers of INT8.
    """

    moduli: tuple[int, ...]

    def refusal(self) -> str | None:
        """What is asked of moduli that are no such system; None where they are one."""
        if any(not 2 < m <= LARGEST or m % 2 == 0 and m != LARGEST for m in self.moduli):
            return f"moduli that are odd and below {LARGEST}, or {LARGEST}: their residues of least magnitude are numbers of INT8"
        shared = next(((p, q) for p, q in combinations(self.moduli, 2) if gcd(p, q) > 1), None)
        if shared:
            return f"moduli without a common factor; {shared[0]} and {shared[1]} have {gcd(*shared)}"
        if not 2.0**12 <= self.target < 2.0**38:
            return "moduli whose product lies between 2^25 and 2^77"
        return None

    @cached_property
    def product(self) -> int:
        """M."""
        return prod(self.moduli)

    @cached_property
    def target(self) -> int:
        """The norm that rows of integers are scaled to, before they are rounded; twice the square of it, rounded, is below M."""
        return isqrt((self.product - 1) // 2) - SLACK

    @property
    def bits(self) -> float:
        """log2 of the norm of a row in units of what is left of an element at most."""
        return log2(2 * self.target)

    @property
    def digits(self) -> int:
        """Digits of an integer in base 256, each of [-128, 127], so that the largest that four have is 0x7f7f7f7f."""
        return next(count for count in range(4, 9) if self.target <= 127 * (256**count - 1) // 255)

    @property
    def bias(self) -> int:
        """What makes the digits of base 256 bytes without a sign: 128 for each of the first four."""
        return 0x80808080

    @property
    def unit(self) -> float:
        """M in units of 2^-FRACTION_BITS: what one of a fraction's units stands for, as FP64."""
        return float(np.ldexp(float(self.product), -FRACTION_BITS))

    @property
    def unit_text(self) -> str:
        """The same as a literal."""
        return self.unit.hex()

    segment_k, factor_bits, fraction_bits, low_bits, quotient_bits = SEGMENT_K, FACTOR_BITS, FRACTION_BITS, LOW_BITS, QUOTIENT_BITS
    norm_bits, part_bits, dropped_bits, norm_loss = NORM_BITS, PART_BITS, DROPPED_BITS, NORM_LOSS

    def factors(self, x: np.ndarray) -> np.ndarray:
        """What each row of `x` [rows, k] FP32 is multiplied by before it is rounded to integers, [rows] FP64 of `FACTOR_BITS` fraction bits.

        It brings the largest Euclidean norm of the row's segments to the target or little below. NaN of a row that holds an Inf or a NaN, 1 of zeros.
        The norm is a sum of squares of integers, |x| in units of a power of two that the row's largest element decides, rounded down: no order of k
        changes it.
        """
        largest = np.abs(x).max(axis=1, initial=0.0)  # of NaN none is larger
        aside = ~np.isfinite(largest)
        up = NORM_BITS - np.frexp(np.where(aside, 0, largest))[1].astype(np.int64)
        whole = np.ldexp(np.where(aside[:, None], 0, np.abs(x)).astype(np.float64), up[:, None]).astype(np.int64)
        squares, most = whole * whole, np.zeros(len(x), np.int64)
        for at in range(0, x.shape[1], SEGMENT_K):
            segment = squares[:, at : at + SEGMENT_K]
            high, low = (segment >> NORM_BITS).sum(axis=1), (segment & (1 << NORM_BITS) - 1).sum(axis=1)
            most = np.maximum(most, (high << NORM_BITS - DROPPED_BITS) + (low >> DROPPED_BITS))
        roots = np.array([isqrt(int(one) + 1) for one in most], np.float64)
        found = np.ldexp(float(self.target) / (roots * 2.0 ** (DROPPED_BITS / 2) + NORM_LOSS), up)
        cut = (found.view(np.uint64) & np.uint64(-1 << 52 - FACTOR_BITS & 0xFFFFFFFFFFFFFFFF)).view(np.float64)
        return np.where(aside, np.nan, np.where(largest == 0, 1.0, cut))

    @cached_property
    def each(self) -> tuple[Modulus, ...]:
        """What reckoning modulo each takes."""
        found = []
        for m in self.moduli:
            others = self.product // m
            weight = pow(others, -1, m)
            digits = tuple((pow(256, j, m) + m // 2) % m - m // 2 for j in range(self.digits))
            found.append(Modulus(
                m=m, weight=((weight << FRACTION_BITS + 1) // m + 1) // 2, reciprocal=-(-(1 << QUOTIENT_BITS) // m), offset=-(-(1 << SUM_BITS) // m) * m,
                digits=digits,
            ))
        return tuple(found)

    def of(self, integers: np.ndarray) -> np.ndarray:
        """[moduli, ...] residues of least magnitude, of int64 [...]; of 256 those of [-128, 127]."""
        return np.stack([(integers + m // 2) % m - m // 2 for m in self.moduli])

    def joined(self, residues: np.ndarray) -> np.ndarray:
        """c / M in units of 2^-FRACTION_BITS [...], int64, from numbers [moduli, ...] in [0, m): as the device sums them.

        A residue of 0 everywhere gives 0; otherwise the fraction is off by at most a half of each residue.
        """
        total = sum(one.weight * row.astype(np.int64) for one, row in zip(self.each, residues))
        half = 1 << FRACTION_BITS - 1
        return (total + half) % (2 * half) - half


WIDE_SEGMENT_K = 1 << 16
"""k after which the INT32 sums of FP64's residues are reduced where they stand: below 2^SUM_BITS."""
WIDE_SLACK = 1 << 15
"""More than what rounding to integers adds to the norm of a row of any K: sqrt(K) / 2."""
WIDE_MARGIN = 18
"""Integers are 2^-WIDE_MARGIN of M or more away from M / 2, so that the quotient q is found from shares of 32 bits."""
LIMBS = 4
"""Of 32 bits, which the joined integer has: 128 bits."""
LEADING_BITS = 16
"""Bits of a significand that its row's norm is bounded by."""
BIAS, FRACTION = 1023, 52
"""Of FP64: what exponents are stored with, and bits behind the leading one."""


SHARE_BITS = 47
"""Of the fixed-point share of M that one of a pair's numbers is: 2^SHARE_BITS over a product of two moduli is below 2^32."""


@dataclass(frozen=True)
class Pair:
    """Two moduli, or the last of an odd number, joined first: residues r_i count v_i each, a number below 2^26, and that number M / p.

    Attributes:
        weights: v_i.
        rest: M / p.
        share: of M, 1 / p in units of 2^-SHARE_BITS, to nearest.
    """

    weights: tuple[int, ...]
    rest: int
    share: int

    @property
    def limbs(self) -> tuple[int, ...]:
        """Of M / p, the lowest first."""
        return limbs_of(self.rest)


@dataclass(frozen=True)
class WideModulus(Modulus):
    """What reckoning modulo `m` takes where elements are FP64."""

    @property
    def last_digits(self) -> int:
        """The last four of its digits as the bytes of one word."""
        return sum((digit & 255) << 8 * j for j, digit in enumerate(self.digits[4:8]))


def limbs_of(number: int) -> tuple[int, ...]:
    """The lowest 128 bits of an integer, 32 at a time, the lowest first."""
    return tuple(number >> 32 * j & 0xFFFFFFFF for j in range(LIMBS))


@dataclass(frozen=True)
class WideResidues(Residues):
    """A system of residues for FP64 elements, whose integers have up to 63 bits and a sign."""

    segment_k, digits, leading_bits, share_bits = WIDE_SEGMENT_K, 8, LEADING_BITS, SHARE_BITS

    def refusal(self) -> str | None:
        found = super().refusal()
        if found and "product lies" not in found:
            return found
        return None if 2.0**76 <= self.product < 2.0**127 else "moduli whose product lies between 2^76 and 2^127 for elements of f64"

    @cached_property
    def target(self) -> int:
        return isqrt((self.product >> 1) - (self.product >> WIDE_MARGIN)) - WIDE_SLACK

    @cached_property
    def square(self) -> tuple[int, int]:
        """(C, p): C 4^p is the square of the target, rounded down, 2^61 <= C < 2^63."""
        p = ((self.target**2).bit_length() - 62) // 2
        return self.target**2 >> 2 * p, p

    @property
    def negative_limbs(self) -> tuple[int, ...]:
        """Of -M."""
        return limbs_of(-self.product)

    @cached_property
    def each(self) -> tuple[WideModulus, ...]:
        return tuple(WideModulus(**{**vars(one), "weight": 0}) for one in super().each)

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """Of neighbouring moduli."""
        found = []
        for at in range(0, len(self.moduli), 2):
            both = self.moduli[at : at + 2]
            p = prod(both)
            weights = tuple(pow(self.product // m, -1, m) * (p // m) for m in both)
            found.append(Pair(weights, self.product // p, ((2 << SHARE_BITS) // p + 1) // 2))
        return tuple(found)

    def powers(self, x: np.ndarray) -> np.ndarray:
        """log2 of what each row of `x` [rows, k] FP64 is multiplied by before it is rounded to integers, [rows]; 0 of rows of zeros, and of those that
        hold an Inf or a NaN.

        With E the largest exponent of a row and h the leading bits of a significand, |x| < t 2^(E - 15), t = (h >> E - e) + 1: the sum of t^2 bounds the
        square of the norm.
        """
        bits = np.ascontiguousarray(x, np.float64).view(np.uint64) & np.uint64((1 << 63) - 1)
        exponent = (bits >> np.uint64(FRACTION)).astype(np.int64)
        leading = (bits >> np.uint64(FRACTION + 1 - LEADING_BITS) & np.uint64((1 << LEADING_BITS - 1) - 1)).astype(np.int64)
        leading += (exponent > 0).astype(np.int64) << LEADING_BITS - 1
        exponent = np.where(bits == 0, 0, np.maximum(exponent, 1))
        top = exponent.max(axis=1, initial=0)
        bounds = np.where(bits == 0, 0, (leading >> np.minimum(top[:, None] - exponent, 31)) + 1)
        squares, (most, power) = (bounds * bounds).sum(axis=1).astype(object), self.square
        up = np.array([next(n for n in range(31, -2, -1) if (s << 2 * n if n >= 0 else -(-s // 4)) <= most) if s else 0 for s in squares], np.int64)
        found = power + up + BIAS + LEADING_BITS - 1 - top
        return np.where((top == 0) | (top > 2 * BIAS), 0, found)

    def integers(self, x: np.ndarray, powers: np.ndarray) -> np.ndarray:
        """`x` [rows, k] FP64 and finite times 2^`powers` [rows], rounded to int64, ties to even: sums of one sign would add up what other ties leave."""
        significand, exponent = np.frexp(x)
        magnitude = np.abs(np.ldexp(significand, FRACTION + 1)).astype(np.int64)
        up = exponent - (FRACTION + 1) + powers[:, None]
        down = np.clip(-up, 1, 62)
        kept = np.where(up >= 0, magnitude << np.clip(up, 0, 62), (magnitude + (np.int64(1) << down - 1) - 1 + (magnitude >> down & 1)) >> down)
        return np.where(x < 0, -kept, kept)

    def whole(self, residues: np.ndarray) -> np.ndarray:
        """The integers [...], Python's, that leave numbers [moduli, ...] in [0, m): as the device joins them."""
        numbers = residues.astype(np.int64).astype(object)
        joined = [sum(weight * row for weight, row in zip(pair.weights, numbers[2 * at :])) for at, pair in enumerate(self.pairs)]
        total = sum(pair.rest * one for pair, one in zip(self.pairs, joined))
        return total - (sum(pair.share * one for pair, one in zip(self.pairs, joined)) + (1 << SHARE_BITS - 1) >> SHARE_BITS) * self.product
