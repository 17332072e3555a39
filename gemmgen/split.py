"""The reference split: what the device's split kernel must produce, in NumPy.

Both follow the scheme's row; this one in FP64, where every step is exact, so
that it is a specification and not a second implementation of the rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gemmgen.catalog.conversion import to_integer
from gemmgen.catalog.number import INTEGERS, Format
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


MOST_TILE_EXPONENT = 149
"""A tile's scale is an FP32 number; with this exponent words are multiples of the smallest one, which are all there are."""


def row_exponents(x: np.ndarray, scheme: Scheme) -> np.ndarray:
    """log2 of the power of two that each row of `x` [rows, k] is multiplied by, [rows]. Words of a row that is `set_aside` are nobody's."""
    if scheme.normalize == "none" or x.shape[1] == 0:
        return np.zeros(x.shape[0], np.int64)
    largest = np.where(np.isfinite(x), np.abs(x), 0).max(axis=1).astype(np.float64)
    exponent = np.frexp(largest)[1].astype(np.int64) - 1
    return np.where(largest > 0, scheme.target_exponent - exponent, 0)


def in_tiles(x: np.ndarray, scheme: Scheme) -> np.ndarray:
    """`x` [rows, k] as [rows, tiles, tile_k], with zeros at the end."""
    rows, k = x.shape
    return np.pad(x, ((0, 0), (0, -k % scheme.tile_k))).reshape(rows, -1, scheme.tile_k)


def exponents(x: np.ndarray, scheme: Scheme) -> np.ndarray:
    """log2 of the powers of two that elements of `x` [rows, k] are multiplied by: [rows], or of tiles of k [rows, tiles]."""
    if not scheme.tiled:
        return row_exponents(x, scheme)
    tiles = in_tiles(x, scheme)
    return np.minimum(row_exponents(tiles.reshape(-1, scheme.tile_k), scheme), MOST_TILE_EXPONENT).reshape(tiles.shape[:2])


def of_elements(of_rows: np.ndarray, scheme: Scheme, k: int) -> np.ndarray:
    """What belongs to rows [rows], or to tiles of k [rows, tiles], as what each element has of it: [rows, 1] or [rows, k]."""
    return np.repeat(of_rows, scheme.tile_k, axis=1)[:, :k] if scheme.tiled else of_rows[:, None]


def set_aside(x: np.ndarray, scheme: Scheme) -> np.ndarray:
    """Rows of `x` [rows, k], or their tiles, that words cannot stand for, [rows] or [rows, tiles]: integers have no Inf and no NaN, so what such
    a row takes part in is computed from the operands themselves, or is NaN."""
    return ~np.isfinite(in_tiles(x, scheme) if scheme.tiled else x).all(axis=-1) & scheme.fixed


@dataclass(frozen=True)
class Words:
    """The words of one operand.

    Attributes:
        planes: [words, rows, k] in FP64, unscaled: word i as stored.
        exponents: [rows], log2 of each row's scale, or [rows, tiles] of each tile's.
        is_lossy, overflows, is_nonfinite: [rows, k], which elements the split kernel counts as what.
    """

    planes: np.ndarray
    exponents: np.ndarray
    is_lossy: np.ndarray
    overflows: np.ndarray
    is_nonfinite: np.ndarray

    @property
    def lossy(self) -> int:
        return int(self.is_lossy.sum())

    @property
    def overflow(self) -> int:
        return int(self.overflows.sum())

    @property
    def nonfinite(self) -> int:
        return int(self.is_nonfinite.sum())

    @property
    def counted(self) -> np.ndarray:
        """[rows], which rows hold an element that is counted as anything: of these nothing is promised."""
        return (self.is_lossy | self.overflows | self.is_nonfinite).any(axis=1)


def split(x: np.ndarray, scheme: Scheme, flushes: bool = False, operand: str | None = None) -> Words:
    """Split `x` [rows, k] FP32 into words: rows of A, or columns of B as rows.

    Args:
        flushes: whether the matrix unit takes subnormal words for zero: what it so loses is counted with the rest.
        operand: `a` or `b`: no more words than this operand is packed into; None is all.

    Raises:
        TypeError: x is not FP32.
    """
    if x.dtype != np.float32:
        raise TypeError(f"split takes float32, not {x.dtype}")
    scales = exponents(x, scheme)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        # The device scales in FP32, where what falls below its range is rounded, but never to zero: it is to be counted.
        element = np.ldexp(x.astype(np.float64), of_elements(scales, scheme, x.shape[1])).astype(np.float32).astype(np.float64)
        element = np.where((element == 0) & (x != 0), 2.0**-149, element)
        rest, left, planes, overflow = element, element, [], None
        if scheme.fixed:
            return _split_fixed(x, element, scales, scheme, operand)
        # A leading word below its normal range has too few bits, and low words whose products are dropped then hold the rest.
        lossy = (element != 0) & (np.abs(element) < 2.0**scheme.format.min_exponent) & (not scheme.exact)
        for count, word in enumerate(scheme.words, 1):
            scaled = _fp32(rest * 2.0**word.scale)
            if word.flush:
                scaled = _flushed(scaled, scheme)
            planes.append(round_to(cut(scaled, word.bits) if word.bits else scaled, scheme.format, word.rounding))
            rest = _fp32(rest - planes[-1] * 2.0**-word.scale)
            left = _fp32(left - (_flushed(planes[-1], scheme) if flushes else planes[-1]) * 2.0**-word.scale)
            if overflow is None:
                top_ulp = 2.0 ** (scheme.format.max_exponent - scheme.format.fraction_bits)
                overflow = ~(np.abs(rest) <= top_ulp)
            if count in scheme.checkpoints:
                lossy |= ~(np.abs(left) <= np.abs(element) * 2.0 ** -scheme.bits_of(count))
        finite = np.isfinite(x)
    return Words(
        planes=np.stack(planes), exponents=scales, is_lossy=finite & ~overflow & lossy, overflows=finite & overflow, is_nonfinite=~finite,
    )


def _split_fixed(x: np.ndarray, element: np.ndarray, scales: np.ndarray, scheme: Scheme, operand: str | None) -> Words:
    """Into integers. Lossy are elements that are not 0 and of which no word holds anything; of rows set aside none is. Their words, which
    nobody uses, are 0, and the lowest where an element is not finite."""
    finite, kept = np.isfinite(x), ~of_elements(set_aside(x, scheme), scheme, x.shape[1])
    rest, planes = np.where(kept, element, 0.0), []
    for word in scheme.words_of(operand) if operand else scheme.words:
        planes.append(to_integer(rest * 2.0**word.scale).astype(np.float64))
        rest = rest - planes[-1] * 2.0**-word.scale
    held = np.where(finite, np.stack(planes), -INTEGERS[scheme.word].largest)
    return Words(planes=held, exponents=scales, is_lossy=kept & (x != 0) & ~np.any(planes, axis=0), overflows=np.zeros(x.shape, bool), is_nonfinite=~finite)


def _flushed(x: np.ndarray, scheme: Scheme) -> np.ndarray:
    """What is below the words' normal range taken for zero."""
    return np.where(np.abs(x) < 2.0**scheme.format.min_exponent, 0.0, x)


def _fp32(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32).astype(np.float64)


def as_multiplied(words: Words, scheme: Scheme, unit: MatrixUnit) -> Words:
    """The words that the matrix unit multiplies: where it flushes, subnormal ones are zero."""
    if not unit.flushes_subnormals or scheme.fixed:
        return words
    return replace(words, planes=_flushed(words.planes, scheme))


def kept_products(a: Words, b: Words, scheme: Scheme) -> np.ndarray:
    """What the scheme computes, summed in FP64: [M, N] for A [M, K] and B^T [N, K]."""
    if scheme.tiled:
        a, b = (_scaled_back(one, scheme) for one in (a, b))
    sums = {acc.name: np.zeros((a.planes.shape[1], b.planes.shape[1])) for acc in scheme.accumulators}
    for product in scheme.products:
        sums[product.into] += a.planes[product.a] @ b.planes[product.b].T
    total = scheme.recombination.combine(sums, lambda so_far, factor, own: so_far * factor + own)
    return total if scheme.tiled else np.ldexp(total, -(a.exponents[:, None] + b.exponents[None, :]))


def _scaled_back(words: Words, scheme: Scheme) -> Words:
    """Words of tiles times what each stands for, so that those of all tiles add up."""
    return replace(words, planes=np.ldexp(words.planes, -of_elements(words.exponents, scheme, words.planes.shape[2])))
