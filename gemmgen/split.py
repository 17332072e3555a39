"""The reference split: what the device's split kernel must produce, in NumPy.

Both follow the scheme's row; this one in FP64, where every step is exact, so
that it is a specification and not a second implementation of the rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch

import numpy as np

from gemmgen.catalog.conversion import to_integer
from gemmgen.catalog.element import ELEMENTS
from gemmgen.catalog.number import INTEGERS, Format
from gemmgen.catalog.residues import SEGMENT_K, Residues, WideResidues
from gemmgen.catalog.scheme import MOST_TILE_EXPONENT, OUTLIER, Family, ResidueWords, Runs, Scheme, Tiles, WideResidueWords, Word
from gemmgen.catalog.unit import MatrixUnit


def round_to(x: np.ndarray, form: Format, rounding: str) -> np.ndarray:
    """Round FP64 values that are exact in FP32 to a word format.

    Args:
        x: any shape; Inf and NaN pass through.
        form: the word's format; subnormal words are kept.
        rounding: a rounding of the scheme language.

    Returns:
        FP64 values on the word's grid, same shape. Nearest overflows to Inf,
        toward zero saturates. Of formats to which conversions saturate what is
        not finite is NaN, so that it shows in every sum.
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
    return np.where(finite, word, np.nan if form.saturates else x)


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


def in_tiles(x: np.ndarray, scheme: Scheme) -> np.ndarray:
    """`x` [rows, k] as [rows, tiles, tile_k] or [rows, runs, run_k], with zeros at the end."""
    (rows, k), shared_k = x.shape, scheme.family.shared_k
    return np.pad(x, ((0, 0), (0, -k % shared_k))).reshape(rows, -(-k // shared_k), shared_k)


def exponents(x: np.ndarray, scheme: Scheme) -> np.ndarray:
    """log2 of the powers of two that elements of `x` [rows, k] are multiplied by: [rows], or of tiles or runs of k [rows, tiles]."""
    return _exponents(scheme.family, x)


@singledispatch
def _exponents(family: Family, x: np.ndarray) -> np.ndarray:
    return row_exponents(x, family.scheme)


@_exponents.register
def _(family: Tiles, x: np.ndarray) -> np.ndarray:
    tiles = in_tiles(x, family.scheme)
    return np.minimum(row_exponents(tiles.reshape(-1, family.tile_k), family.scheme), MOST_TILE_EXPONENT).reshape(tiles.shape[:2])


@_exponents.register
def _(family: Runs, x: np.ndarray) -> np.ndarray:
    runs = in_tiles(x, family.scheme)
    return row_exponents(runs.reshape(-1, family.run_k), family.scheme).reshape(runs.shape[:2])


def of_elements(of_rows: np.ndarray, scheme: Scheme, k: int) -> np.ndarray:
    """What belongs to rows [rows], or to tiles or runs of k [rows, tiles], as what each element has of it: [rows, 1] or [rows, k]."""
    return np.repeat(of_rows, scheme.family.shared_k, axis=1)[:, :k] if of_rows.ndim == 2 else of_rows[:, None]


def row_steps(x: np.ndarray, residues: Residues) -> np.ndarray:
    """What one of the integers of a row stands for, [rows] FP64, or np.longdouble of FP64 elements: one over its factor."""
    return np.ldexp(np.longdouble(1), -residues.powers(x)) if isinstance(residues, WideResidues) else 1.0 / residues.factors(x)


def set_aside(x: np.ndarray, scheme: Scheme) -> np.ndarray:
    """Rows of `x` [rows, k], or their tiles, that words cannot stand for, [rows] or [rows, tiles]: integers have no Inf and no NaN, so what such
    a row takes part in is computed from the operands themselves, or is NaN."""
    return ~np.isfinite(_sharing(scheme.family, x)).all(axis=-1) & scheme.family.exact


@singledispatch
def _sharing(family: Family, x: np.ndarray) -> np.ndarray:
    """`x` [rows, k] with elements that share an exponent along the last axis."""
    return x


@_sharing.register
def _(family: Tiles, x: np.ndarray) -> np.ndarray:
    return in_tiles(x, family.scheme)


def stands_out(words: Words, x: np.ndarray) -> np.ndarray:
    """Which rows of `x` [rows, k] have elements that stand out so far that integer words keep little of the others, [rows].

    MixPert's eq. 9 counts the bits that a shared exponent shifts out of each element. What they come to for C is the words' error beside the row's norm,
    which this bounds: squares of the leading words tell that norm, and are exact sums in any order.

    Args:
        words: of `x`.
    """
    finite = np.isfinite(x).all(axis=1)
    return finite & ((words.planes[0] ** 2).sum(axis=1) < 4**OUTLIER * (x != 0).sum(axis=1))


@dataclass(frozen=True)
class Words:
    """The words of one operand.

    Attributes:
        words: what the scheme says of each.
        planes: [words, rows, k] in FP64, unscaled: word i as stored.
        exponents: [rows], log2 of each row's scale, or [rows, tiles] of each tile's or run's; 0 of residues, which have `steps`.
        is_lossy, overflows, is_nonfinite: [rows, k], which elements the split kernel counts as what.
        steps: [rows], of residues what one of a row's integers stands for; None of other words.
    """

    words: tuple[Word, ...]
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
    """Split `x` [rows, k] of the scheme's type of elements into words: rows of A, or columns of B as rows.

    Args:
        flushes: whether the matrix unit takes subnormal words for zero: what it so loses is counted with the rest.
        operand: `a` or `b`: no more words than this operand is packed into; None is all, of a scheme whose operands have the same.

    Raises:
        TypeError: x is of another type.
        ValueError: no operand is named, and A and B have other words.
    """
    if x.dtype != ELEMENTS[scheme.element].dtype:
        raise TypeError(f"split takes {ELEMENTS[scheme.element].dtype}, not {x.dtype}")
    if operand is None and not scheme.alike:
        raise ValueError(f"the words of A and B of {scheme.name} differ: whose are asked for?")
    words = scheme.words_of(operand or "a", packed_alike=operand is None)
    return _split(scheme.family, x, words, flushes, operand or "a")


@singledispatch
def _split(family: Family, x: np.ndarray, words: tuple[Word, ...], flushes: bool, operand: str) -> Words:
    """Into floating-point words or digits, of elements that are scaled by their exponents."""
    scheme = family.scheme
    scales = exponents(x, scheme)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        # The device scales in FP32, where what falls below its range is rounded, but never to zero: it is to be counted.
        element = np.ldexp(x.astype(np.float64), of_elements(scales, scheme, x.shape[1])).astype(np.float32).astype(np.float64)
        element = np.where((element == 0) & (x != 0), 2.0**-149, element)
        return (_split_by_row if family.by_row else _split_floating)(x, element, scales, scheme, words, flushes, operand)


def _split_floating(
    x: np.ndarray, element: np.ndarray, scales: np.ndarray, scheme: Scheme, words: tuple[Word, ...], flushes: bool, operand: str,
) -> Words:
    """Into floating-point words. What is left is held against the element itself."""
    left, planes, overflow = [(element, element)], [], None  # of each word what it leaves, and with words as they are multiplied
    first = words[0]
    # A leading word below its normal range has too few bits, and low words whose products are dropped then hold the rest.
    lossy = (element != 0) & (np.abs(element) < 2.0**first.format.min_exponent) & (not first.exact and not scheme.stores(operand))
    for count, word in enumerate(words, 1):
        rest, multiplied = left[word.source]
        planes.append(_floating(rest, word))
        rest = _fp32(rest - planes[-1] * 2.0**-word.scale)
        multiplied = _fp32(multiplied - (_flushed(planes[-1], word) if flushes else planes[-1]) * 2.0**-word.scale)
        left.append((rest, multiplied))
        if overflow is None:
            overflow = ~(np.abs(rest) <= 2.0 ** (word.format.max_exponent - word.format.fraction_bits))
        if count in scheme.precision.checkpoints_of(operand):
            lossy |= ~(np.abs(multiplied) <= np.abs(element) * 2.0 ** -scheme.precision.bits_of(count, operand))
    finite = np.isfinite(x)
    return Words(
        words=words, planes=np.stack(planes), exponents=scales, is_lossy=finite & ~overflow & lossy, overflows=finite & overflow,
        is_nonfinite=~finite,
    )


def _floating(rest: np.ndarray, word: Word) -> np.ndarray:
    """A floating-point word of what it is taken from."""
    scaled = _fp32(rest * 2.0**word.scale)
    if word.flush:
        scaled = _flushed(scaled, word)
    return round_to(cut(scaled, word.bits) if word.bits else scaled, word.format, word.rounding)


def _split_by_row(
    x: np.ndarray, element: np.ndarray, scales: np.ndarray, scheme: Scheme, words: tuple[Word, ...], flushes: bool, operand: str,
) -> Words:
    """Into words of which some are integers. Lossy are elements that are not 0 and of which no word holds anything; of rows set aside none is.
    Integer words of an element that is not finite are the lowest, and of rows set aside, whose words nobody uses, otherwise 0."""
    finite, kept = np.isfinite(x), ~of_elements(set_aside(x, scheme), scheme, x.shape[1])
    left, planes = [np.where(kept, element, 0.0)], []
    for word in words:
        rest = left[word.source]
        if word.fixed:
            planes.append(to_integer(rest * 2.0**word.scale, word.type).astype(np.float64))
        else:
            planes.append(_floating(rest, word))
        left.append(rest - planes[-1] * 2.0**-word.scale)
    multiplied = [_flushed(plane, word) if flushes and not word.fixed else plane for plane, word in zip(planes, words)]
    lossy = kept & finite & (x != 0) & ~np.any(multiplied, axis=0)
    held = [np.where(np.isnan(rest := left[word.source]) | ~kept & ~finite, -INTEGERS[word.type].largest, plane) if word.fixed else plane
            for plane, word in zip(planes, words)]
    return Words(
        words=words, planes=np.stack(held), exponents=scales, is_lossy=lossy, overflows=np.zeros(x.shape, bool), is_nonfinite=~finite,
    )


@_split.register
def _(family: ResidueWords, x: np.ndarray, words: tuple[Word, ...], flushes: bool, operand: str) -> Words:
    """Into residues of integers. Lossy are elements that are not 0 and whose integer is; of rows set aside none is, and nobody uses their words."""
    factors, finite, kept = family.residues.factors(x), np.isfinite(x), ~set_aside(x, family.scheme)[:, None]
    with np.errstate(invalid="ignore"):
        integers = np.where(kept, np.rint(np.where(kept, x.astype(np.float64) * factors[:, None], 0.0)), 0.0).astype(np.int64)
    return Words(
        words=words, planes=family.residues.of(integers).astype(np.float64), exponents=np.zeros(x.shape[0], np.int64),
        is_lossy=kept & (x != 0) & (integers == 0),
        overflows=np.zeros(x.shape, bool), is_nonfinite=~finite, steps=1.0 / factors,
    )


@_split.register
def _(family: WideResidueWords, x: np.ndarray, words: tuple[Word, ...], flushes: bool, operand: str) -> Words:
    """The same of FP64 elements; exponents are their rows' powers of two."""
    finite, kept = np.isfinite(x), ~set_aside(x, family.scheme)[:, None]
    powers = family.residues.powers(x)
    integers = family.residues.integers(np.where(kept, x, 0.0), powers)
    return Words(
        words=words, planes=family.residues.of(integers).astype(np.float64), exponents=powers, is_lossy=kept & (x != 0) & (integers == 0),
        overflows=np.zeros(x.shape, bool), is_nonfinite=~finite,
    )


def joined(a: Words, b: Words, scheme: Scheme) -> np.ndarray:
    """What a scheme of residues computes of A [M, K] and B^T [N, K], bit for bit: [M, N] of its elements. Sums of products are exact in FP64."""
    return _joined(scheme.family, a, b)


@singledispatch
def _joined(family: ResidueWords, a: Words, b: Words) -> np.ndarray:
    scheme = family.scheme
    residues, total = scheme.family.residues, np.zeros((a.planes.shape[1], b.planes.shape[1]))
    for at in range(0, a.planes.shape[2], SEGMENT_K):
        left, right = a.planes[:, :, at : at + SEGMENT_K], b.planes[:, :, at : at + SEGMENT_K]
        total += residues.joined(np.stack([(left[i] @ right[i].T).astype(np.int64) % m for i, m in enumerate(residues.moduli)]))
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        return (total * (a.steps * residues.unit)[:, None] * b.steps[None, :]).astype(np.float32)


@_joined.register
def _(family: WideResidueWords, a: Words, b: Words) -> np.ndarray:
    left = np.stack([(a.planes[i] @ b.planes[i].T).astype(np.int64) % m for i, m in enumerate(family.residues.moduli)])
    exponents = -(a.exponents[:, None] + b.exponents[None, :])
    rows = [[once_rounded(number, int(e)) for number, e in zip(*row)] for row in zip(family.residues.whole(left), exponents)]
    found = np.array(rows, np.float64).reshape(exponents.shape)
    aside = a.is_nonfinite.any(axis=1)[:, None] | b.is_nonfinite.any(axis=1)[None, :]
    return np.where(aside, np.nan, found)


def once_rounded(number: int, exponent: int) -> float:
    """`number` 2^`exponent` as an FP64 number: to nearest, ties to even, also where that is subnormal; Inf beyond the range."""
    drop = max(abs(number).bit_length() - 53, -1074 - exponent)
    magnitude = abs(number)
    if drop > 0:
        kept, rest, half = magnitude >> drop, magnitude & ((1 << drop) - 1), 1 << drop - 1
        magnitude, exponent = kept + (rest > half or rest == half and kept & 1), exponent + drop
    if magnitude and magnitude.bit_length() + exponent > 1024:
        return float("-inf" if number < 0 else "inf")
    return float(np.ldexp(float(-magnitude if number < 0 else magnitude), exponent))


def _flushed(x: np.ndarray, word: Word) -> np.ndarray:
    """What is below the word's normal range taken for zero."""
    return np.where(np.abs(x) < 2.0**word.format.min_exponent, 0.0, x)


def _fp32(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32).astype(np.float64)


def as_multiplied(words: Words, scheme: Scheme, unit: MatrixUnit) -> Words:
    """The words that the matrix unit multiplies: where it flushes, subnormal ones are zero."""
    if not unit.flushes_subnormals or scheme.family.exact:
        return words
    return replace(words, planes=np.stack([plane if word.fixed else _flushed(plane, word) for plane, word in zip(words.planes, words.words)]))


def kept(a: np.ndarray, b: np.ndarray, scheme: Scheme, unit: MatrixUnit) -> np.ndarray:
    """What the scheme's products of the words that the unit multiplies sum up to in FP64: [M, N] of A [M, K] and B [K, N], its elements."""
    of_a, of_b = (as_multiplied(split(x, scheme, operand=operand), scheme, unit) for operand, x in (("a", a), ("b", np.ascontiguousarray(b.T))))
    return kept_products(of_a, of_b, scheme)


def kept_products(a: Words, b: Words, scheme: Scheme) -> np.ndarray:
    """What the scheme computes, summed in FP64: [M, N] for A [M, K] and B^T [N, K]."""
    return _kept_products(scheme.family, a, b)


@singledispatch
def _kept_products(family: Family, a: Words, b: Words) -> np.ndarray:
    return np.ldexp(_recombined(family.scheme, a, b), -(a.exponents[:, None] + b.exponents[None, :]))


@_kept_products.register(Tiles)
@_kept_products.register(Runs)
def _(family: Tiles | Runs, a: Words, b: Words) -> np.ndarray:
    return _recombined(family.scheme, *(_scaled_back(one, family.scheme) for one in (a, b)))


@_kept_products.register
def _(family: ResidueWords, a: Words, b: Words) -> np.ndarray:
    return joined(a, b, family.scheme).astype(np.float64)


def _recombined(scheme: Scheme, a: Words, b: Words) -> np.ndarray:
    """The sums of words' products [M, N], as the scheme puts them together."""
    sums = {acc.name: np.zeros((a.planes.shape[1], b.planes.shape[1])) for acc in scheme.accumulators}
    for product in scheme.products:
        sums[product.into] += a.planes[product.a] @ b.planes[product.b].T
    return scheme.family.recombination.combine(sums, lambda so_far, factor, own: so_far * factor + own)


def _scaled_back(words: Words, scheme: Scheme) -> Words:
    """Words of tiles or runs times what each stands for, so that those of all tiles add up."""
    return replace(words, planes=np.ldexp(words.planes, -of_elements(words.exponents, scheme, words.planes.shape[2])))
