"""Floating-point operations rounded once, as the hardware rounds them.

numpy rounds float32 and float64 operations to nearest. What it does not offer
is built here from float64: a result that float64 cannot hold is first "rounded
to odd" (cut, with the last bit set when anything was cut off). Such a value
lies strictly between the same neighbours of any format at least two bits
narrower, so one more rounding, in any direction, gives the exact answer
(Boldo and Melquiond, 2008).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

CANONICAL_NAN = np.uint32(0x7FFFFFFF).view(np.float32)
_F16_NAN = np.uint16(0x7FFF).view(np.float16)
_SMALLEST_NORMAL = np.float32(2.0**-126)
_TWICE_SMALLEST = (np.float64(2.0**-126).view(np.uint64) << np.uint64(1)) - np.uint64(1)  # the bits of its magnitude, shifted left by one, less 1


def canonical(x: np.ndarray) -> np.ndarray:
    """Every NaN replaced by the one NVIDIA's units produce."""
    odd_one_out = x != x
    if not np.count_nonzero(odd_one_out):  # a third of the time of `any`; every instruction passes here
        return x
    if x.dtype == np.float32:
        return np.where(odd_one_out, CANONICAL_NAN, x)
    return np.where(odd_one_out, _F16_NAN if x.dtype == np.float16 else x.dtype.type(np.nan), x)


def flush(x: np.ndarray) -> np.ndarray:
    """Subnormal float32 values to zero of the same sign (`.ftz`)."""
    small = np.abs(x) < _SMALLEST_NORMAL
    return np.where(small, np.copysign(np.float32(0), x), x) if np.count_nonzero(small) else x


def two_sum(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x + y rounded to nearest, and what the rounding left, exactly (Knuth)."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def add_to_odd(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x + y in float64, rounded to odd. Sums of magnitude 2**1023 are not for it."""
    total, error = two_sum(x, y)
    bits = total.view(np.int64)
    fix = (error != 0) & ((bits & 1) == 0) & np.isfinite(total)
    if not fix.any():
        return total
    outward = (error > 0) == (total > 0)
    return (bits + np.where(fix, np.where(outward, 1, -1), 0)).view(np.float64)


def to_f32(x: np.ndarray, mode: str) -> np.ndarray:
    """float64 to float32, rounded `rn`, `rz`, `rm` or `rp`."""
    return _narrow(x, np.float32, mode)


def to_f16(x: np.ndarray, mode: str) -> np.ndarray:
    """float32 or float64 to float16, rounded `rn`, `rz`, `rm` or `rp`."""
    return canonical(_narrow(x, np.float16, mode))


def _narrow(x: np.ndarray, dtype: type, mode: str) -> np.ndarray:
    nearest = x.astype(dtype)
    if mode == "rn":
        return nearest
    wide = nearest.astype(x.dtype)
    zero, inf = dtype(0), dtype(np.inf)
    if mode == "rz":
        return np.where(np.abs(wide) > np.abs(x), np.nextafter(nearest, zero), nearest)
    if mode == "rm":
        return np.where(wide > x, np.nextafter(nearest, -inf), nearest)
    return np.where(wide < x, np.nextafter(nearest, inf), nearest)


def to_bf16(x: np.ndarray, mode: str) -> np.ndarray:
    """float32 to bfloat16 (as uint16), rounded `rn` or `rz`."""
    bits = x.view(np.uint32)
    if mode == "rn":
        bits = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    result = (bits >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FFF), result)


def to_tf32(x: np.ndarray, mode: str) -> np.ndarray:
    """float32 to tf32 (as uint32 with 13 zero bits): `rna` rounds ties away from zero."""
    bits = x.view(np.uint32)
    if mode == "rna":
        rounded = bits + np.uint32(0x1000)
    elif mode == "rn":
        rounded = bits + (np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1)))
    else:
        rounded = bits
    finite = np.where(np.isinf(x), bits, rounded & np.uint32(0xFFFFE000))
    return np.where(np.isnan(x), np.uint32(0x7FFFFFFF), finite)


def add(x: np.ndarray, y: np.ndarray, mode: str = "rn") -> np.ndarray:
    """x + y in float32."""
    if mode == "rn":
        return x + y
    return _directed_sum(x.astype(np.float64), y.astype(np.float64), mode)


def _directed_sum(x: np.ndarray, y: np.ndarray, mode: str) -> np.ndarray:
    """x + y of float64, rounded once to float32, in a mode other than `rn`."""
    total = add_to_odd(x, y)
    result = to_f32(total, mode)
    if mode == "rm":  # an exact zero sum is -0 when rounding down, unless both are +0
        zero = (total == 0) & ~((x == 0) & (y == 0) & ~(np.signbit(x) | np.signbit(y)))
        result = np.where(zero, np.float32(-0.0), result)
    return result


def multiply(x: np.ndarray, y: np.ndarray, mode: str = "rn") -> np.ndarray:
    """x * y in float32; a product of two float32 is exact in float64."""
    if mode == "rn":
        return x * y
    return to_f32(x.astype(np.float64) * y.astype(np.float64), mode)


def fma(x: np.ndarray, y: np.ndarray, z: np.ndarray, mode: str = "rn") -> np.ndarray:
    """x * y + z in float32, rounded once."""
    product = x.astype(np.float64) * y
    if mode != "rn":
        return _directed_sum(product, z.astype(np.float64), mode)
    total = np.atleast_1d(product + z)
    # Rounding twice is wrong only where float64 landed on a tie of float32; the
    # 29 bits that a normal float32 drops tell, a subnormal one is taken as doubtful.
    bits = total.view(np.uint64)
    tie = (bits & np.uint64(0x1FFFFFFF)) == 0x10000000
    # A zero is none, and wraps around: products of float32 do not underflow in float64, and a sum that is zero is exact.
    subnormal = (bits << np.uint64(1)) - np.uint64(1) < _TWICE_SMALLEST
    if np.count_nonzero(tie) or np.count_nonzero(subnormal):
        total = add_to_odd(*np.broadcast_arrays(product, z.astype(np.float64)))
    return total.astype(np.float32)


def fma_f16(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """x * y + z in float16, rounded once to nearest."""
    product = x.astype(np.float64) * y.astype(np.float64)
    return add_to_odd(product, z.astype(np.float64)).astype(np.float16)


def fma_f64(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """x * y + z in float64, rounded once to nearest.

    By error-free sums and products of float64 (Boldo and Melquiond, 2008), which need a product that neither
    overflows nor loses low bits; lanes outside that range are computed with exact fractions, one at a time.
    """
    x, y, z = np.broadcast_arrays(*(np.atleast_1d(value) for value in (x, y, z)))
    product = x * y
    # A product of finite numbers beyond the range is no Inf before it is added: an Inf that it meets stays, whatever its sign.
    rough = np.where(np.isinf(z) & np.isfinite(x) & np.isfinite(y), z, product + z)
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    usual = finite & (np.maximum(np.abs(x), np.abs(y)) < 2.0**500) & (np.abs(z) < 2.0**1000) & (np.abs(product) > 2.0**-900)
    exact_zero = (x == 0) | (y == 0)  # then `rough` is the answer
    rest = _product_error(x, y, product)
    high, low = two_sum(z, rest)
    total, left = two_sum(product, high)
    result = np.where(usual, total + add_to_odd(low, left), rough)
    for lane in zip(*np.nonzero(finite & ~usual & ~exact_zero)):
        a, b, c = (float(value[lane]) for value in (x, y, z))
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        if exact:
            try:
                result[lane] = exact.numerator / exact.denominator
            except OverflowError:
                result[lane] = np.inf if exact > 0 else -np.inf
    return result


def _product_error(x: np.ndarray, y: np.ndarray, product: np.ndarray) -> np.ndarray:
    """x * y - product, exactly, where nothing of it under- or overflows (Dekker)."""
    (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)
    return ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low


def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """float64 as two numbers of at most 26 bits each (Veltkamp)."""
    scaled = x * 134217729.0  # 2**27 + 1
    high = scaled - (scaled - x)
    return high, x - high
