"""The reference split: what the device's split kernel must produce, in NumPy.

Both follow the scheme's row; this one in FP64, where every step is exact, so
that it is a specification and not a second implementation of the rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gemmgen.catalog.number import Format
from gemmgen.catalog.scheme import Scheme
from gemmgen.catalog.unit import MatrixUnit


def round_to(x: np.ndarray, form: Format, rounding: str) -> np.ndarray:
    """Round FP64 values that are exact in FP32 to a word format.

    Args:
        x: any shape; Inf and NaN pass through.
        form: the word's format; subnormal words are kept.
        rounding: a rounding of the scheme language.

    Returns:
        FP64 values on the word's grid, same shape. Nearest overflows to Inf,
        toward zero saturates.
    """
    finite = np.isfinite(x)
    safe = np.where(finite, x, 0.0)
    exponent = np.maximum(np.frexp(safe)[1].astype(np.int64) - 1, form.min_exponent)
    ulp = np.ldexp(1.0, (exponent - form.fraction_bits).astype(np.int64))
    if rounding == "nearest_even":
        word = np.rint(safe / ulp) * ulp
        word = np.where(np.abs(word) > form.largest, np.copysign(np.inf, safe), word)
    else:
        word = np.clip(np.trunc(safe / ulp) * ulp, -form.largest, form.largest)
        if rounding == "round_split":
            step = np.where(np.abs(word) == form.largest, np.ldexp(1.0, form.max_exponent - form.fraction_bits), ulp)
            bit_21 = (safe.astype(np.float32).view(np.uint32) >> np.uint32(2)) & np.uint32(1)
            word = word + np.where(bit_21 == 1, np.copysign(step, safe), 0.0)
            word = np.where(np.abs(word) > form.largest, np.copysign(np.inf, safe), word)
    return np.where(finite, word, x)


def cut(x: np.ndarray, bits: int) -> np.ndarray:
    """FP32 values rounded to `bits` significant bits, halves away from zero, as the device adds and masks."""
    low = 24 - bits
    raw = x.astype(np.float32).view(np.uint32) + np.uint32(1 << low - 1)
    return np.where(np.isfinite(x), (raw & np.uint32(-1 << low & 0xFFFFFFFF)).view(np.float32), x).astype(np.float64)


def row_exponents(x: np.ndarray, scheme: Scheme) -> np.ndarray:
    """log2 of the power of two that each row of `x` [rows, k] is multiplied by, [rows]."""
    if scheme.normalize == "none" or x.shape[1] == 0:
        return np.zeros(x.shape[0], np.int64)
    largest = np.where(np.isfinite(x), np.abs(x), 0).max(axis=1).astype(np.float64)
    exponent = np.frexp(largest)[1].astype(np.int64) - 1
    return np.where(largest > 0, scheme.target_exponent - exponent, 0)


@dataclass(frozen=True)
class Words:
    """The words of one operand.

    Attributes:
        planes: [words, rows, k] in FP64, unscaled: word i as stored.
        exponents: [rows], log2 of each row's scale.
        lossy, overflow, nonfinite: counts, as the split kernel counts them.
    """

    planes: np.ndarray
    exponents: np.ndarray
    lossy: int
    overflow: int
    nonfinite: int


def split(x: np.ndarray, scheme: Scheme) -> Words:
    """Split `x` [rows, k] FP32 into words: rows of A, or columns of B as rows.

    Raises:
        TypeError: x is not FP32.
    """
    if x.dtype != np.float32:
        raise TypeError(f"split takes float32, not {x.dtype}")
    exponents = row_exponents(x, scheme)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        # The device scales in FP32, where what falls below its range is rounded.
        element = np.ldexp(x.astype(np.float64), exponents[:, None]).astype(np.float32).astype(np.float64)
        rest, planes, overflow = element, [], None
        for word in scheme.words:
            scaled = _fp32(rest * 2.0**word.scale)
            if word.flush:
                scaled = np.where(np.abs(scaled) < 2.0**scheme.format.min_exponent, 0.0, scaled)
            planes.append(round_to(cut(scaled, word.bits) if word.bits else scaled, scheme.format, word.rounding))
            rest = _fp32(rest - planes[-1] * 2.0**-word.scale)
            if overflow is None:
                top_ulp = 2.0 ** (scheme.format.max_exponent - scheme.format.fraction_bits)
                overflow = ~(np.abs(rest) <= top_ulp)
        finite = np.isfinite(x)
        lossy = ~(np.abs(rest) <= np.abs(element) * 2.0**-scheme.bits)
    return Words(
        planes=np.stack(planes),
        exponents=exponents,
        lossy=int((finite & ~overflow & lossy).sum()),
        overflow=int((finite & overflow).sum()),
        nonfinite=int((~finite).sum()),
    )


def _fp32(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32).astype(np.float64)


def as_multiplied(words: Words, scheme: Scheme, unit: MatrixUnit) -> Words:
    """The words that the matrix unit multiplies: where it flushes, subnormal ones are zero."""
    if not unit.flushes_subnormals:
        return words
    return replace(words, planes=np.where(np.abs(words.planes) < 2.0**scheme.format.min_exponent, 0.0, words.planes))


def kept_products(a: Words, b: Words, scheme: Scheme) -> np.ndarray:
    """What the scheme computes, summed in FP64: [M, N] for A [M, K] and B^T [N, K]."""
    total = np.zeros((a.planes.shape[1], b.planes.shape[1]))
    for product in scheme.products:
        scale = scheme.words[product.a].scale + scheme.words[product.b].scale
        total += (a.planes[product.a] @ b.planes[product.b].T) * 2.0**-scale
    return np.ldexp(total, -(a.exponents[:, None] + b.exponents[None, :]))
