"""Products of FP64 matrices without a rounding: what the judge compares a C in FP64 with.

Each row of A and column of B becomes digits of `DIGIT_BITS` bits below its largest element's power of two, until none is left. Products of digits are
summed in FP64, where sums of `CHUNK` of them are exact, and those in INT64. The carries of these sums make digits again, of which the leading five
and whether any other is not 0 decide the one rounding, to `np.longdouble`.
"""

from __future__ import annotations

import numpy as np

DIGIT_BITS = 21
CHUNK = 1 << 53 - 2 * DIGIT_BITS
"""k whose products of two digits FP64 sums exactly."""
FRACTION = 53
"""Bits of an FP64 number's significand."""
MOST = 1 << 62 - 2 * DIGIT_BITS
"""Products of digits that INT64 sums exactly: K times the digits of a row."""
MASK = (1 << DIGIT_BITS) - 1
LEADING = 5
"""Digits that a rounding to 64 bits looks at, whatever the first of them is."""
NOWHERE = -5000
"""The power of two of rows of zeros: below FP64's."""


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A [M, K] B [K, N], both FP64 and finite: [M, N] np.longdouble, each element rounded once, where that type has 64 bits.

    Raises:
        ValueError: K times the digits of a row is more than `MOST`.
    """
    (m, k), n = a.shape, b.shape[1]
    (of_a, top_a), (of_b, top_b) = digits(a), digits(np.ascontiguousarray(b.T))
    if k * max(len(of_a), len(of_b)) > MOST:
        raise ValueError(f"exact sums of at most {MOST} products of digits, not {k * max(len(of_a), len(of_b))}")
    places = len(of_a) + len(of_b) - 1
    sums = np.zeros((places, m, n), np.int64)
    for i, left in enumerate(of_a):
        for j, right in enumerate(of_b):
            for at in range(0, k, CHUNK):
                sums[i + j] += (left[:, at : at + CHUNK] @ right[:, at : at + CHUNK].T).astype(np.int64)
    return _rounded(sums, top_a[:, None] + top_b[None, :] - DIGIT_BITS * (places + 1))


def digits(x: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Digits of the rows of `x` [rows, k], [rows, k] each in FP64 with the element's sign, and each row's power of two [rows]: digit j counts
    2^(top - DIGIT_BITS (j + 1))."""
    significand, exponent = np.frexp(x)
    magnitude = np.abs(np.ldexp(significand, FRACTION)).astype(np.int64)
    top = np.where(x == 0, NOWHERE, exponent).max(axis=1, initial=NOWHERE).astype(np.int64)
    below = np.where(x == 0, 0, top[:, None] - exponent)
    found = []
    for first in range(0, int((below + FRACTION).max(initial=1)), DIGIT_BITS):
        up = first + DIGIT_BITS - below - FRACTION  # how far the significand moves until this digit's last bit is the lowest
        low = (magnitude & (MASK >> np.clip(up, 0, DIGIT_BITS))) << np.clip(up, 0, DIGIT_BITS)
        found.append(np.copysign(np.where(up >= 0, low, magnitude >> np.clip(-up, 0, 62) & MASK), x))
    return found, top


def _rounded(sums: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """sum over p of `sums`[p] 2^(DIGIT_BITS (places - 1 - p)), times 2^`exponent`: [M, N]."""
    negative = _carried(sums)[0] < 0
    found = np.concatenate([_carried(np.where(negative, -sums, sums)), np.zeros((LEADING, *negative.shape), np.int64)])
    first = np.argmax(found != 0, axis=0)
    ahead = [np.take_along_axis(found, first[None] + i, 0)[0] for i in range(LEADING)]
    rest = (np.cumsum(found[::-1] != 0, axis=0)[::-1])  # digits from here on that are not 0
    after = np.take_along_axis(np.concatenate([rest, rest[-1:] * 0]), first[None] + LEADING, 0)[0] > 0
    # The first three make 43 to 63 bits, and half of the result's last place is no less than 2^20 of the other two's: what follows them is one bit there.
    high = (ahead[0] << 2 * DIGIT_BITS) + (ahead[1] << DIGIT_BITS) + ahead[2]
    low = (ahead[3] << DIGIT_BITS) + ahead[4] | after
    value = np.ldexp(high.astype(np.longdouble), 2 * DIGIT_BITS) + low.astype(np.longdouble)
    last = len(found) - 2 * LEADING - first  # digits behind those ahead
    return np.ldexp(np.where(negative, -value, value), (exponent + DIGIT_BITS * last).astype(np.int64))


def _carried(sums: np.ndarray) -> np.ndarray:
    """The same number as digits [places + 4, M, N] in [0, 2^DIGIT_BITS), the first negative where the number is."""
    found, carry = np.empty((len(sums) + 4, *sums.shape[1:]), np.int64), np.zeros(sums.shape[1:], np.int64)
    for place in range(len(found) - 1, -1, -1):
        carry = carry + (sums[place - 4] if place >= 4 else 0)
        found[place], carry = (carry & MASK, carry >> DIGIT_BITS) if place else (carry, 0)
    return found
