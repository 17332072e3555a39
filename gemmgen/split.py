"""The reference split: what the device's split kernel must produce, in NumPy.

Both follow the scheme's row; this one in FP64, where every step is exact, so
that it is a specification and not a second implementation of the rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gemmgen.catalog.conversion import to_integer
from gemmgen.catalog.number import INTEGERS, Format
from gemmgen.catalog.residues import FACTOR_BITS, MARGIN, SEGMENT_K, Residues
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
    """log2 of the power of two that each row of `x` [rows, k] is multiplied by, [rows]. Words of a row that is `set_aside` are nobody's."""
    if scheme.normalize == "none" or x.shape[1] == 0:
        return np.zeros(x.shape[0], np.int64)
    largest = np.where(np.isfinite(x), np.abs(x), 0).max(axis=1).astype(np.float64)
    exponent = np.frexp(largest)[1].astype(np.int64) - 1
    return np.where(largest > 0, scheme.target_exponent - exponent, 0)


def row_factors(x: np.ndarray, residues: Residues) -> np.ndarray:
    """What each row of `x` [rows, k] is multiplied by before it is rounded to integers, [rows] FP64 of `FACTOR_BITS` fraction bits.

    It brings the largest Euclidean norm of the row's segments to the target or little below. NaN of a row that holds an Inf or a NaN, 1 of zeros.
    """
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        segments = [(x[:, at : at + SEGMENT_K].astype(np.float64) ** 2).sum(axis=1) for at in range(0, x.shape[1], SEGMENT_K)]
        squares = np.max(segments, axis=0) if segments else np.zeros(x.shape[0])  # of NaN none is larger
        factors = float(residues.target) / (np.sqrt(squares) * MARGIN)
        cut = (factors.view(np.uint64) & np.uint64(-1 << 52 - FACTOR_BITS & 0xFFFFFFFFFFFFFFFF)).view(np.float64)
    return np.where(squares == 0, 1.0, np.where(np.isfinite(squares), cut, np.nan))


def row_steps(x: np.ndarray, residues: Residues) -> np.ndarray:
    """What one of the integers of a row stands for, [rows] FP64: one over its factor."""
    return 1.0 / row_factors(x, residues)


def set_aside(x: np.ndarray, scheme: Scheme) -> np.ndarray:
    """Rows of `x` [rows, k] that words cannot stand for, [rows]: integers have no Inf and no NaN, so what such a row takes part in is
    computed from the operands themselves, or is NaN."""
    return ~np.isfinite(x).all(axis=1) & scheme.fixed


@dataclass(frozen=True)
class Words:
    """The words of one operand.

    Attributes:
        planes: [words, rows, k] in FP64, unscaled: word i as stored.
        exponents: [rows], log2 of each row's scale; 0 of residues, which have `steps`.
        is_lossy, overflows, is_nonfinite: [rows, k], which elements the split kernel counts as what.
        steps: [rows], of residues what one of a row's integers stands for; None of other words.
    """

    planes: np.ndarray
    exponents: np.ndarray
    is_lossy: np.ndarray
    overflows: np.ndarray
    is_nonfinite: np.ndarray
    steps: np.ndarray | None = None

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
    if scheme.residues:
        return _split_residues(x, scheme)
    exponents = row_exponents(x, scheme)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        # The device scales in FP32, where what falls below its range is rounded, but never to zero: it is to be counted.
        element = np.ldexp(x.astype(np.float64), exponents[:, None]).astype(np.float32).astype(np.float64)
        element = np.where((element == 0) & (x != 0), 2.0**-149, element)
        rest, left, planes, overflow = element, element, [], None
        if scheme.fixed:
            return _split_fixed(x, element, exponents, scheme, operand)
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
        planes=np.stack(planes), exponents=exponents, is_lossy=finite & ~overflow & lossy, overflows=finite & overflow, is_nonfinite=~finite,
    )


def _split_fixed(x: np.ndarray, element: np.ndarray, exponents: np.ndarray, scheme: Scheme, operand: str | None) -> Words:
    """Into integers. Lossy are elements that are not 0 and of which no word holds anything; of rows set aside none is. Their words, which
    nobody uses, are 0, and the lowest where an element is not finite."""
    finite, kept = np.isfinite(x), ~set_aside(x, scheme)[:, None]
    rest, planes = np.where(kept, element, 0.0), []
    for word in scheme.words_of(operand) if operand else scheme.words:
        planes.append(to_integer(rest * 2.0**word.scale).astype(np.float64))
        rest = rest - planes[-1] * 2.0**-word.scale
    held = np.where(finite, np.stack(planes), -INTEGERS[scheme.word].largest)
    return Words(planes=held, exponents=exponents, is_lossy=kept & (x != 0) & ~np.any(planes, axis=0), overflows=np.zeros(x.shape, bool), is_nonfinite=~finite)


def _split_residues(x: np.ndarray, scheme: Scheme) -> Words:
    """Into residues of integers. Lossy are elements that are not 0 and whose integer is; of rows set aside none is, and nobody uses their words."""
    factors, finite, kept = row_factors(x, scheme.residues), np.isfinite(x), ~set_aside(x, scheme)[:, None]
    with np.errstate(invalid="ignore"):
        integers = np.where(kept, np.rint(np.where(kept, x.astype(np.float64) * factors[:, None], 0.0)), 0.0).astype(np.int64)
    return Words(
        planes=scheme.residues.of(integers).astype(np.float64), exponents=np.zeros(x.shape[0], np.int64), is_lossy=kept & (x != 0) & (integers == 0),
        overflows=np.zeros(x.shape, bool), is_nonfinite=~finite, steps=1.0 / factors,
    )


def joined(a: Words, b: Words, scheme: Scheme) -> np.ndarray:
    """What a scheme of residues computes of A [M, K] and B^T [N, K], bit for bit: [M, N] FP32. Sums of products are exact in FP64."""
    residues, total = scheme.residues, np.zeros((a.planes.shape[1], b.planes.shape[1]))
    for at in range(0, a.planes.shape[2], SEGMENT_K):
        left, right = a.planes[:, :, at : at + SEGMENT_K], b.planes[:, :, at : at + SEGMENT_K]
        total += residues.joined(np.stack([(left[i] @ right[i].T).astype(np.int64) % m for i, m in enumerate(residues.moduli)]))
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        return (total * (a.steps * residues.unit)[:, None] * b.steps[None, :]).astype(np.float32)


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
    if scheme.residues:
        return joined(a, b, scheme).astype(np.float64)
    sums = {acc.name: np.zeros((a.planes.shape[1], b.planes.shape[1])) for acc in scheme.accumulators}
    for product in scheme.products:
        sums[product.into] += a.planes[product.a] @ b.planes[product.b].T
    total = scheme.recombination.combine(sums, lambda so_far, factor, own: so_far * factor + own)
    return np.ldexp(total, -(a.exponents[:, None] + b.exponents[None, :]))
