"""What a matrix unit returns, bit for bit.

Two routes to the same bits. `dot` says the rule in float64, one sentence a
line, and is the definition; it is compared with products returned by real
GPUs. `mma` computes whole fragments for many warps at once in float32 and
int32, and falls back on `dot` for the few warps whose numbers leave the range
in which that is exact; tests hold the two together.

The rule (`rule = "truncate"`, one block after the other):

1. each product a*b is exact; its exponent is the sum of its factors' exponents
   (a subnormal factor has the smallest normal exponent), so a product of two
   mantissas in [1, 2) may be as large as 4 * 2**exponent;
2. products and accumulator are aligned to the largest exponent among them and
   cut, toward zero, to `fraction_bits` bits after the binary point; a zero
   takes no part in choosing that exponent;
3. the sum is exact, and is cut toward zero to FP32; an empty sum is +0;
4. a block that holds an Inf or a NaN gives what IEEE addition gives, NaN being
   the canonical 0x7fffffff.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmgen.catalog.unit import MatrixUnit
from gemmgen.errors import EmulationError

CANONICAL_NAN = np.uint32(0x7FFFFFFF).view(np.float32)
_NO_EXPONENT = -20000  # of a zero: below every real one, and safe to add and to ldexp with


@dataclass(frozen=True)
class Word:
    """How a word type is stored and read.

    Attributes:
        raw: dtype of the stored word; tf32 lies in the upper 19 bits of 32.
        smallest: exponent of the smallest normal number.
    """

    raw: np.dtype
    smallest: int


WORDS = {
    "f16": Word(np.dtype(np.uint16), -14),
    "bf16": Word(np.dtype(np.uint16), -126),
    "tf32": Word(np.dtype(np.uint32), -126),
}


def decode(word: str, raw: np.ndarray) -> np.ndarray:
    """Stored words as the float32 values they stand for.

    The 13 low bits of a tf32 word are not looked at, as in the hardware.
    """
    if word == "f16":
        return raw.view(np.float16).astype(np.float32)
    if word == "bf16":
        return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return (raw & np.uint32(0xFFFFE000)).view(np.float32)


def _parameters(unit: MatrixUnit, word: str) -> tuple[int, int]:
    """(block length, fraction bits), or the reason why there are none."""
    if unit.rule != "truncate":
        raise EmulationError(
            f"matrix unit {unit.name}", "no model of this rule", got=unit.rule, needs="truncate"
        )
    if word not in unit.block:
        raise EmulationError(
            f"matrix unit {unit.name}",
            "the unit has no such words",
            got=word,
            needs="one of: " + ", ".join(sorted(unit.block)),
        )
    return unit.block[word], unit.fraction_bits


# ---------------------------------------------------------------- the definition


def dot(unit: MatrixUnit, word: str, a, b, c) -> np.ndarray:
    """sum_k a_k b_k + c as the unit computes it, block after block.

    Args:
        a, b: `[..., k]` float32, holding values of the word type.
        c: `[...]` float32, the accumulator.

    Returns:
        `[...]` float32.

    Raises:
        EmulationError: the unit has no such words.
    """
    block, bits = _parameters(unit, word)
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    smallest = WORDS[word].smallest
    result = np.asarray(c, np.float32)
    for k in range(0, a.shape[-1], block):
        result = _one_block(a[..., k : k + block], b[..., k : k + block], result, smallest, bits)
    return result


def _one_block(a, b, c, smallest: int, bits: int) -> np.ndarray:
    c = c.astype(np.float64)
    with np.errstate(all="ignore"):
        products = a * b
        exponents = _exponent(a, smallest) + _exponent(b, smallest)
        exponents = np.where(products == 0, _NO_EXPONENT, exponents)
        top = np.maximum(exponents.max(-1), np.where(c == 0, _NO_EXPONENT, _exponent(c, -126)))
        total = np.trunc(np.ldexp(products, (bits - top)[..., None])).sum(-1)
        total = total + np.trunc(np.ldexp(c, bits - top))
        result = _toward_zero(np.ldexp(total, top - bits))
        special = ~(np.isfinite(products).all(-1) & np.isfinite(c))
        if special.any():
            ieee = (products.sum(-1) + c).astype(np.float32)
            result = np.where(special, ieee, result)
    return np.where(np.isnan(result), CANONICAL_NAN, result + np.float32(0))  # -0 + 0 is +0


def _exponent(x, smallest: int) -> np.ndarray:
    """Exponent of x as m * 2**e, 1 <= |m| < 2, at least `smallest`."""
    return np.maximum(np.frexp(x)[1].astype(np.int32) - 1, smallest)


def _toward_zero(x) -> np.ndarray:
    """float64 to the next FP32 toward zero; from 2**128 on, Inf."""
    ulp = _exponent(x, -126) - 23
    return np.ldexp(np.trunc(np.ldexp(x, -ulp)), ulp).astype(np.float32)


# ---------------------------------------------------------------- many warps at once

_FLOOR = -100
"""The fast route raises the common exponent to at least this. With it, a
product too small for a normal float32 is below the last kept bit, so it is cut
to zero however float32 rounded it, and every scale below is a normal float32.
Where the floor changes a result, the warp is computed again by `dot`."""
_CEILING = 125
"""Above this exponent a product might overflow float32; `dot` takes over."""
_ZERO = -1000  # exponent of a zero factor; a product with one stays below -600
_KEEP_24_BITS = np.int64(-1 << 29)  # of a float64's 53
_CHUNK_BYTES = 1 << 17  # products worked on together: they and their exponents stay in the L2 cache


def mma(unit: MatrixUnit, word: str, a, b, c) -> np.ndarray:
    """D = A B + C for many warps, bit-identical to `dot`.

    Args:
        a: `[W, m, k]` raw words (uint16; uint32 for tf32).
        b: `[W, k, n]` raw words.
        c: `[W, m, n]` float32.

    Returns:
        `[W, m, n]` float32.
    """
    columns = mma_columns(
        unit,
        word,
        np.ascontiguousarray(np.transpose(a, (2, 1, 0))),
        np.ascontiguousarray(np.transpose(b, (1, 2, 0))),
        np.ascontiguousarray(np.transpose(c, (1, 2, 0))),
    )
    return np.ascontiguousarray(np.transpose(columns, (2, 0, 1)))


def mma_columns(unit: MatrixUnit, word: str, a, b, c) -> np.ndarray:
    """`mma` with the warps in the last axis, where long vectors want them.

    Args:
        a: `[k, m, W]` raw words, contiguous.
        b: `[k, n, W]` raw words, contiguous.
        c: `[m, n, W]` float32, contiguous.

    Returns:
        `[m, n, W]` float32.
    """
    block, bits = _parameters(unit, word)
    a, b = decode(word, a), decode(word, b)
    if block * (2 - 2**-10) ** 2 * 2**bits >= 2**31:  # int32 could not hold a block's sum
        return _by_dot(unit, word, a, b, c)
    smallest = WORDS[word].smallest
    # Whichever is longer makes the vectors: the warps or the columns.
    turned = b.shape[1] > b.shape[2]
    result, elements = (_turn(c), (0, 2)) if turned else (np.array(c, np.float32), (0, 1))
    left = a[:, :, :, None] if turned else a[:, :, None]
    right = _turn(b)[:, None] if turned else b[:, None]
    with np.errstate(all="ignore"):
        exponents_left, exponents_right = _factor_exponents(left, smallest), _factor_exponents(right, smallest)
        doubtful = (exponents_left == 128).any((0, 1)) | (exponents_right == 128).any((0, 1))
        doubtful = doubtful.any(-1 if turned else 0)
        rows = max(1, _CHUNK_BYTES // (4 * block * b.shape[1] * b.shape[2]))
        for m in range(0, a.shape[1], rows):
            part = slice(m, m + rows)
            for k in range(0, a.shape[0], block):
                step = slice(k, k + block)
                result[part], doubt = _fast_block(
                    left[step, part], right[step], exponents_left[step, part], exponents_right[step],
                    result[part], bits, elements,
                )  # fmt: skip
                if doubt is not None:
                    doubtful |= doubt
    result = _turn(result) if turned else result
    if doubtful.any():
        result[..., doubtful] = _by_dot(
            unit, word, a[..., doubtful], b[..., doubtful], c[..., doubtful]
        )
    return result


def _turn(x: np.ndarray) -> np.ndarray:
    """A copy of `[..., n, W]` as `[..., W, n]`, or back."""
    return x.swapaxes(-1, -2).copy()


def _factor_exponents(x, smallest: int) -> np.ndarray:
    """Exponents of float32 factors, int16; `_ZERO` for a zero, 128 for Inf and NaN."""
    bits = x.view(np.int32) & np.int32(0x7FFFFFFF)
    exponents = (bits >> np.int32(23)).astype(np.int16)
    exponents -= np.int16(127)
    np.maximum(exponents, np.int16(smallest), out=exponents)
    np.copyto(exponents, np.int16(_ZERO), where=bits == 0)
    return exponents


def _fast_block(a, b, exponents_a, exponents_b, c, bits: int, elements: tuple[int, int]):
    """One block of products onto c.

    Args:
        a, exponents_a: `[k, m, 1, W]`; b, exponents_b: `[k, 1, n, W]`; c: `[m, n, W]`;
            or all with the last two axes turned.
        elements: where m and n are in c.

    Returns:
        The new c, and `[W]` bool of the warps that `dot` must decide
        (None when there are none).
    """
    from_products = (exponents_a + exponents_b).max(0)
    from_c = (c.view(np.int32) >> np.int32(23)).astype(np.int16) & np.int16(255)
    from_c -= np.int16(127)
    top = np.maximum(from_products, from_c)
    doubt = None
    if from_products.max() > _CEILING or from_c.max() == 128:
        doubt = ((from_products > _CEILING) | (from_c == 128)).any(elements)
    if top.min() < _FLOOR:
        low = ((top < _FLOOR) & ((c != 0) | (from_products > _ZERO + 400))).any(elements)
        doubt = low if doubt is None else doubt | low
        np.maximum(top, np.int16(_FLOOR), out=top)
    top = top.astype(np.int32)
    up = ((np.int32(bits + 127) - top) << np.int32(23)).view(np.float32)  # 2**(bits - top)
    down = ((top + np.int32(127 - bits)) << np.int32(23)).view(np.float32)  # 2**(top - bits)

    products = a * b
    products *= up
    total = np.add.reduce(products.astype(np.int32), 0, dtype=np.int32)  # the cast truncates
    total = np.add(total, (c * up).astype(np.int32), dtype=np.float64)
    whole = total.view(np.int64)
    whole &= _KEEP_24_BITS
    result = total.astype(np.float32)
    result *= down
    return result, doubt


def _by_dot(unit: MatrixUnit, word: str, a, b, c) -> np.ndarray:
    """`[k, m, W]`, `[k, n, W]` float32 and `[m, n, W]` through the definition."""
    a, b = np.moveaxis(a, 0, -1), np.moveaxis(b, 0, -1)
    return dot(unit, word, a[:, None], b[None], c)
