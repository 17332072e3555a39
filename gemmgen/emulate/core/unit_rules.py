"""The rules of `catalog.unit`, each said twice: one block by definition, and one block of many warps at once.

Definitions take float64 arrays and say one step a line. Fast blocks work in float32,
int32 and float64 on long vectors, and name the warps whose numbers leave the range in
which that is exact; the definition decides those.
"""

from __future__ import annotations

from math import frexp, inf, ldexp, nextafter

import numpy as np

from gemmgen.catalog.number import FORMATS
from gemmgen.catalog.unit import MatrixUnit
from gemmgen.emulate.core.rounding import add_to_odd, canonical, flush, two_sum

Factor = tuple[np.ndarray, ...]
"""Values of a factor, and what a rule wants to know of them beforehand, all of one shape."""

_NO_EXPONENT = -20000  # of a zero: below every real one, and safe to add and to ldexp with
_FRACTION_BITS = FORMATS["f32"].fraction_bits


def exponent(x: np.ndarray, smallest: int) -> np.ndarray:
    """Exponent of x as m * 2**e, 1 <= |m| < 2, at least `smallest`."""
    return np.maximum(np.frexp(x)[1].astype(np.int32) - 1, smallest)


class Rule:
    """What one block of products does to an accumulator."""

    def __init__(self, unit: MatrixUnit, word: str):
        self.length, self.bits = unit.block[word], unit.fraction_bits
        self.sum_bits = unit.sum_bits or _FRACTION_BITS
        self.form, self.smallest = FORMATS[word], FORMATS[word].min_exponent
        self.flushes = bool(unit.flushes_subnormals)

    has_fast_blocks = True
    """Whether `fast_block` can be asked; else the definition computes all."""

    @property
    def bytes_at_once(self) -> int:
        """What `fast_block` works on for one element of c."""
        return 4 * self.length

    def one_block(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        """The definition: `[..., k]` and `[..., k]` float64 onto `[...]` float32."""
        raise NotImplementedError

    def factor(self, x: np.ndarray) -> tuple[Factor, np.ndarray | None]:
        """What `fast_block` is told of float32 factors, and which elements the definition must see to."""
        raise NotImplementedError

    def fast_block(self, a: Factor, b: Factor, c: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """One block of many warps.

        Args:
            a: each array `[k, m, 1, W]`; b: `[k, 1, n, W]`; c: `[m, n, W]` float32;
                or all with the last two axes turned.

        Returns:
            The new c, and the elements that the definition must see to, as c or None.
        """
        raise NotImplementedError


# ---------------------------------------------------------------- rules that align terms and cut them

_FLOOR = -100
"""The fast route raises the common exponent to at least this. With it, a
product too small for a normal float32 is below the last kept bit, so it is cut
to zero however float32 rounded it, and every scale below is a normal float32.
Where the floor changes a result, the definition decides."""
_WIDEST = 27
"""Fraction bits up to which 2**(bits - _FLOOR) is a float32 and a product of mantissas in such units an int32."""
_CEILING = 125
"""Above this exponent a product might overflow float32; the definition takes over."""
_ZERO = -1000  # exponent of a zero factor; a product with one stays below -600
_FLOAT64_BITS = FORMATS["f32"].fraction_bits + 29  # fraction bits of a float64


class Aligned(Rule):
    """What the rules of products that are aligned as whole numbers have in common."""

    def as_added(self, products: np.ndarray, c: np.ndarray, result: np.ndarray) -> np.ndarray:
        """`result` [...], but what IEEE addition gives where one of `products` [..., k] or `c` [...] is not finite."""
        special = ~(np.isfinite(products).all(-1) & np.isfinite(c))
        if special.any():
            result = np.where(special, (products.sum(-1) + c).astype(np.float32), result)
        return result + np.float32(0)  # -0 + 0 is +0

    def factor(self, x):
        exponents = _factor_exponents(x, self.smallest)
        return (x, exponents), exponents == 128


class Truncate(Aligned):
    """NVIDIA's rule.

    1. each product a*b is exact; its exponent is the sum of its factors' exponents
       (a subnormal factor has the smallest normal exponent), so a product of two
       mantissas in [1, 2) may be as large as 4 * 2**exponent;
    2. products and accumulator are aligned to the largest exponent among them and
       cut, toward zero, to `fraction_bits` bits after the binary point; a zero
       takes no part in choosing that exponent;
    3. the sum is exact, and is cut toward zero to FP32, or to fewer bits behind its binary point, `sum_bits`; an empty sum is +0;
    4. a block that holds an Inf or a NaN gives what IEEE addition gives.
    """

    @property
    def has_fast_blocks(self) -> bool:
        """Wider terms leave int32, and a scale float32."""
        return self.bits <= _WIDEST

    @property
    def sum_dtype(self) -> type[np.signedinteger]:
        """What can hold a block's sum of products."""
        return np.int32 if self.length * (2 - 2.0**-self.form.fraction_bits) ** 2 * 2**self.bits < 2**31 else np.int64

    def one_block(self, a, b, c):
        products = a * b
        exponents = np.where(products == 0, _NO_EXPONENT, exponent(a, self.smallest) + exponent(b, self.smallest))
        top = np.maximum(exponents.max(-1), np.where(c == 0, _NO_EXPONENT, exponent(c, -126)))
        total = np.trunc(np.ldexp(products, (self.bits - top)[..., None])).sum(-1)
        total = total + np.trunc(np.ldexp(c, self.bits - top))
        result = _toward_zero(np.ldexp(total, top - self.bits), self.sum_bits)
        return self.as_added(products, c, result)

    def fast_block(self, a, b, c):
        (a, exponents_a), (b, exponents_b) = a, b
        from_products = (exponents_a + exponents_b).max(0)
        from_c = _float_exponents(c)
        top = np.maximum(from_products, from_c)
        doubt = _out_of_range(from_products, from_c)
        if top.min() < _FLOOR:
            low = (top < _FLOOR) & ((c != 0) | (from_products > _ZERO + 400))
            doubt = low if doubt is None else doubt | low
            np.maximum(top, np.int16(_FLOOR), out=top)
        top = top.astype(np.int32)
        total = _aligned_sum(a, b, top, self.bits, self.sum_dtype)
        total = np.add(total, (c * _power(self.bits - top)).astype(np.int32), dtype=np.float64)
        whole = total.view(np.int64)
        whole &= np.int64(-1 << _FLOAT64_BITS - self.sum_bits)
        result = total.astype(np.float32)
        result *= _power(top - self.bits)
        return result, doubt


class ByF16(Rule):
    """What the compiler makes of 8-bit floating-point words where NVIDIA's unit has no instruction of them.

    1. words become FP16, which is exact; of every four k, which a register holds, the first two go to the first products of
       FP16 words, the others to the second;
    2. both are summed as `Truncate` sums FP16 words, the first from zero, the second onto that;
    3. the sum is added to the accumulator by FP32 arithmetic, to nearest.
    """

    has_fast_blocks = False

    def __init__(self, unit: MatrixUnit, word: str):
        super().__init__(unit, word)
        self.inner = Truncate(unit, "f16")

    def one_block(self, a, b, c):
        total = np.zeros_like(c)
        for half in range(2):
            left, right = (x.reshape(*x.shape[:-1], -1, 2, 2)[..., half, :].reshape(*x.shape[:-1], -1) for x in (a, b))
            for k in range(0, left.shape[-1], self.inner.length):
                step = slice(k, k + self.inner.length)
                total = canonical(self.inner.one_block(left[..., step], right[..., step], total))
        return c + total


_SUM_BITS = 31
"""Fraction bits of the floor rule's sum; the products' sum has one more when it meets the accumulator."""


class Floor(Aligned):
    """CDNA 3's rule.

    1. products as under `Truncate`; one of 2**128 or more is Inf;
    2. they are aligned to the largest exponent among them and cut, toward zero, to
       `fraction_bits` bits; their sum is exact;
    3. that sum and the accumulator (whose zero has the smallest exponent) are aligned to the
       larger of the two exponents and cut, downwards, to 32 bits and to `fraction_bits`;
    4. their sum is cut, downwards, to 31 bits after its own binary point and rounded to
       nearest to FP32; an empty sum is +0;
    5. Inf and NaN give what IEEE addition gives.
    """

    @property
    def has_fast_blocks(self) -> bool:
        """Wider sums leave int32, and a scale float32."""
        return self.bits <= _WIDEST and self.length << self.bits + 2 < 1 << 31

    def one_block(self, a, b, c):
        c = c.astype(np.float64)
        products = a * b
        products = np.where(np.abs(products) >= 2.0**128, np.copysign(np.inf, products), products)
        exponents = np.where(products == 0, _NO_EXPONENT, exponent(a, self.smallest) + exponent(b, self.smallest))
        dot, top = self._dot(products, exponents)
        from_c = np.where(c == 0, -126, exponent(c, -126))
        both = np.maximum(top, from_c)
        dot = np.ldexp(np.floor(np.ldexp(dot, top - self.bits - both + _SUM_BITS + 1)), -_SUM_BITS - 1)
        addend = np.ldexp(np.floor(np.ldexp(self._addend(c, both - from_c), self.bits - both)), -self.bits)
        total = np.ldexp(dot + addend, both)
        unit = exponent(total, -126) - _SUM_BITS
        result = np.ldexp(np.floor(np.ldexp(total, -unit)), unit).astype(np.float32)
        return self.as_added(products, c, result)

    def _dot(self, products: np.ndarray, exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The aligned products' sum in units of 2**(top - bits), and top."""
        top = exponents.max(-1)
        return np.trunc(np.ldexp(products, (self.bits - top)[..., None])).sum(-1), top

    def _addend(self, c: np.ndarray, below: np.ndarray) -> np.ndarray:
        """The accumulator, whose exponent is so much below the larger of both."""
        return c

    def fast_block(self, a, b, c):
        (a, exponents_a), (b, exponents_b) = a, b
        top = (exponents_a + exponents_b).max(0)
        from_c = _float_exponents(c)
        doubt = _out_of_range(top, from_c)
        if top.min() < _FLOOR:
            low = (top < _FLOOR) & ((top > _ZERO + 400) | ((from_c < _FLOOR) & (c != 0)))
            doubt = low if doubt is None else doubt | low
            np.maximum(top, np.int16(_FLOOR), out=top)
        both = np.maximum(top, from_c).astype(np.int32)
        top = top.astype(np.int32)
        # All in units of 2**(both - 32), where the sum is a whole number below 2**39.
        total = _aligned_sum(a, b, top, self.bits).astype(np.float64)
        total *= _power64(top - both + (_SUM_BITS + 1 - self.bits))
        np.floor(total, out=total)
        addend = c * _power64(self.bits - both)
        np.floor(addend, out=addend)
        addend *= 2.0 ** (_SUM_BITS + 1 - self.bits)
        total += addend
        total = _floor_32_bits(total)
        total *= _power64(both - (_SUM_BITS + 1))
        return total.astype(np.float32), doubt


class FloorApart(Floor):
    """CDNA 3's rule of 8-bit floating-point words, MMA-Sim's GTR-FDPA: `Floor` but for two things.

    1. products of even and of odd k have a largest exponent and a sum each; the two sums are aligned to the
       larger of those and cut, downwards, to `fraction_bits` bits before they are added;
    2. an accumulator that lies more than a bit below the last one kept does not count, where a negative one would count as -1.
    """

    has_fast_blocks = False

    def _dot(self, products, exponents):
        halves = [super(FloorApart, self)._dot(products[..., odd::2], exponents[..., odd::2]) for odd in range(2)]
        top = np.maximum(halves[0][1], halves[1][1])
        return sum(np.floor(np.ldexp(dot, own - top)) for dot, own in halves), top

    def _addend(self, c, below):
        return np.where(below > self.bits + 1, 0.0, c)


def _floor_32_bits(x: np.ndarray) -> np.ndarray:
    """float64 cut downwards to 32 significant bits, in place: a negative number's magnitude is rounded up."""
    raw = x.view(np.int64)
    raw += np.where(x < 0, np.int64((1 << 21) - 1), np.int64(0))
    raw &= np.int64(-1 << 21)
    return x


def _toward_zero(x: np.ndarray, bits: int) -> np.ndarray:
    """float64 to the next FP32 of so many fraction bits toward zero; from 2**128 on, Inf."""
    ulp = exponent(x, -126) - bits
    return np.ldexp(np.trunc(np.ldexp(x, -ulp)), ulp).astype(np.float32)


def _factor_exponents(x: np.ndarray, smallest: int) -> np.ndarray:
    """Exponents of float32 factors, int16; `_ZERO` for a zero, 128 for Inf and NaN."""
    bits = x.view(np.int32) & np.int32(0x7FFFFFFF)
    exponents = (bits >> np.int32(23)).astype(np.int16)
    exponents -= np.int16(127)
    np.maximum(exponents, np.int16(smallest), out=exponents)
    np.copyto(exponents, np.int16(_ZERO), where=bits == 0)
    return exponents


def _float_exponents(c: np.ndarray) -> np.ndarray:
    """Exponents of float32, int16; -127 for zeros and subnormals, 128 for Inf and NaN."""
    exponents = (c.view(np.int32) >> np.int32(23)).astype(np.int16) & np.int16(255)
    exponents -= np.int16(127)
    return exponents


def _out_of_range(from_products: np.ndarray, from_c: np.ndarray) -> np.ndarray | None:
    if from_products.max() > _CEILING or from_c.max() == 128:
        return (from_products > _CEILING) | (from_c == 128)
    return None


def _power(e: np.ndarray) -> np.ndarray:
    """2**e as float32, for int32 exponents of normal numbers."""
    return ((e + np.int32(127)) << np.int32(23)).view(np.float32)


def _power64(e: np.ndarray) -> np.ndarray:
    """2**e as float64."""
    return ((e.astype(np.int64) + 1023) << 52).view(np.float64)


def _aligned_sum(a: np.ndarray, b: np.ndarray, top: np.ndarray, bits: int, dtype: type[np.signedinteger] = np.int32) -> np.ndarray:
    """The products, each cut at 2**(top - bits) and so an int32, summed."""
    products = a * b
    products *= _power(bits - top)
    return np.add.reduce(products.astype(np.int32), 0, dtype=dtype)  # the cast truncates


# ---------------------------------------------------------------- rules that round to nearest


class Tree(Rule):
    """CDNA 2's rule: FP32 arithmetic to nearest, pair by pair, then onto the accumulator.

    Where the unit flushes, subnormal words and a subnormal accumulator come in as +0, and
    subnormal products and sums become a zero of their sign. Inf and NaN are IEEE's.
    """

    def one_block(self, a, b, c):
        terms = self._rounded(self._words(a) * self._words(b))
        while terms.shape[-1] > 1:
            pairs = terms.shape[-1] // 2
            sums = self._rounded(terms[..., 0 : 2 * pairs : 2] + terms[..., 1 : 2 * pairs : 2])
            terms = np.concatenate([sums, terms[..., 2 * pairs :]], axis=-1)
        return self._rounded(self._incoming(c).astype(np.float64) + terms[..., 0]).astype(np.float32)

    def _words(self, x):
        return np.where(np.abs(x) < 2.0**self.smallest, 0.0, x) if self.flushes else x

    def _incoming(self, c):
        return np.where(np.abs(c) < np.float32(2.0**-126), np.float32(0), c) if self.flushes else c

    def _rounded(self, x):
        """float64, of which one FP32 operation's exact result is enough to round it once."""
        x = x.astype(np.float32)
        return (flush(x) if self.flushes else x).astype(np.float64)

    def factor(self, x):
        return (self._words(x).astype(np.float32, copy=False),), None

    def fast_block(self, a, b, c):
        terms = self._settled(a[0] * b[0])
        while len(terms) > 1:
            pairs = len(terms) // 2
            sums = self._settled(terms[0 : 2 * pairs : 2] + terms[1 : 2 * pairs : 2])
            terms = np.concatenate([sums, terms[2 * pairs :]]) if len(terms) % 2 else sums
        return self._settled(self._incoming(c) + terms[0]), None

    def _settled(self, x):
        """Products of f16 words and their sums are multiples of 2**-48, which is nowhere near subnormal."""
        return flush(x) if self.flushes and self.smallest < -14 else x


class Exact(Rule):
    """CDNA 1's rule, E-FDPA of MMA-Sim 2.1.1: the exact sum of a block's products and the accumulator, rounded to nearest once.

    With one product to a block it is a fused multiply-add. A zero sum is +0 unless every
    term is -0; Inf and NaN are IEEE's.
    """

    @property
    def bytes_at_once(self) -> int:
        return 32

    def one_block(self, a, b, c):
        products, c = a * b, c.astype(np.float64)
        terms = np.concatenate([products, c[..., None]], axis=-1)
        result = np.array(terms.sum(-1), np.float32)
        finite = np.isfinite(terms).all(-1)
        result[finite] = [_to_odd(sum(map(int, each))) for each in np.ldexp(terms[finite], _FINEST).tolist()]
        return np.where(np.signbit(terms).all(-1) & (terms == 0).all(-1), np.float32(-0.0), result)

    def factor(self, x):
        return (x.astype(np.float64),), None

    def fast_block(self, a, b, c):
        total, errors = c.astype(np.float64), []
        for left, right in zip(a[0], b[0]):
            total, error = two_sum(total, left * right)
            if error.any():
                errors.append(error)
        if not errors:
            return total.astype(np.float32), None
        finite = np.isfinite(total)
        error, doubt = np.where(finite, errors[0], 0), None
        for more in errors[1:]:
            error, rest = two_sum(error, np.where(finite, more, 0))
            doubt = (rest != 0) if doubt is None else doubt | (rest != 0)
        total = np.where(error == 0, total, add_to_odd(total, error))  # -0 stays -0
        return total.astype(np.float32), doubt


_FINEST = 300
"""Every product of two words, and every FP32 number, is a multiple of 2**-_FINEST."""


def _to_odd(whole: int) -> float:
    """whole * 2**-_FINEST rounded to float64 to odd, so that one more rounding, to FP32, does no harm."""
    wide = whole / 2**_FINEST
    rest = whole - int(ldexp(wide, _FINEST))
    if rest and not int(ldexp(frexp(wide)[0], 53)) & 1:
        return nextafter(wide, inf if rest > 0 else -inf)
    return wide


RULES: dict[str, type[Rule]] = {"truncate": Truncate, "by_f16": ByF16, "floor": Floor, "floor_apart": FloorApart, "tree": Tree, "exact": Exact}
