"""Words as they are stored, and what they stand for, in NumPy: the reference of every conversion that kernels make.

Conversions to words of 8 bits are to nearest, ties to even, and saturate: PTX's `cvt.rn.satfinite` of `e4m3x2` and `e5m2x2`, AMD's
`v_cvt_pk_fp8_f32` and `v_cvt_pk_bf8_f32` of what is clamped before. Integers are rounded likewise and clamped.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from gemmgen.catalog.number import FORMATS, INTEGERS, Format

RAW = {
    "f16": np.dtype(np.uint16), "bf16": np.dtype(np.uint16), "tf32": np.dtype(np.uint32), "s8": np.dtype(np.int8),
    **{word: np.dtype(np.uint8) for word, form in FORMATS.items() if form.bytes == 1},
}
"""How a word type is stored; tf32 lies in the upper 19 bits of 32."""


def decode(word: str, raw: np.ndarray) -> np.ndarray:
    """Stored words as the float32 values they stand for, same shape.

    The 13 low bits of a tf32 word are not looked at, as in the hardware.
    """
    if word == "f16":
        return raw.view(np.float16).astype(np.float32)
    if word == "bf16":
        return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if word == "tf32":
        return (raw & np.uint32(0xFFFFE000)).view(np.float32)
    if word in INTEGERS:
        return raw.view(RAW[word]).astype(np.float32)
    return values_of(word)[raw.view(np.uint8)]


def encode(word: str, x: np.ndarray) -> np.ndarray:
    """FP32 values as words of 16 floating-point bits, uint16 of the same shape: to nearest, ties to even; too large ones become Inf, and NaN stays one."""
    x = np.asarray(x, np.float32)
    if word == "f16":
        with np.errstate(over="ignore", invalid="ignore"):
            return x.astype(np.float16).view(RAW[word])
    bits = x.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(x), 0x7FFF, rounded).astype(RAW[word])


@cache
def values_of(word: str) -> np.ndarray:
    """What each of the 256 words of an 8-bit floating-point format stands for, float32; NaN and Inf among them."""
    form = FORMATS[word]
    codes = np.arange(128)
    field, fraction = codes >> form.fraction_bits, codes & (1 << form.fraction_bits) - 1
    normal = np.ldexp(1.0 + fraction * 2.0**-form.fraction_bits, field - form.bias)
    subnormal = np.ldexp(fraction * 2.0**-form.fraction_bits, form.min_exponent)
    positive = np.where(field == 0, subnormal, normal)
    if form.specials == "ieee":
        positive = np.where(positive > form.largest, np.where(fraction == 0, np.inf, np.nan), positive)
    elif form.specials == "nan":
        positive[127] = np.nan
    both = np.concatenate([positive, -positive]).astype(np.float32)
    if form.specials == "unsigned_zero":
        both[128] = np.nan
    both.flags.writeable = False
    return both


def nan_of(form: Format) -> int:
    """The 8 bits that conversions make of a NaN: PTX's canonical one, 0x7f; where -0's bits are the NaN, those."""
    return 0x80 if form.specials == "unsigned_zero" else 0x7F


def to_float8(x: np.ndarray, word: str, *, saturate: bool = True) -> np.ndarray:
    """FP32 or FP64 values to 8-bit floating-point words, uint8 of the same shape.

    To nearest, ties to even; what is larger than the largest finite word, Inf too, becomes that; NaN stays one. Subnormal words are kept.

    Args:
        saturate: False: what is rounded to something larger becomes Inf, or NaN in formats without it.
    """
    form, x = FORMATS[word], _wide(x)
    bound = form.largest * (1 if saturate else 4)
    safe = np.where(np.isnan(x), 0.0, np.clip(x, -bound, bound))
    exponent = np.where(safe == 0, form.min_exponent, np.maximum(np.frexp(safe)[1] - 1, form.min_exponent))
    fraction = np.rint(np.abs(np.ldexp(safe, form.fraction_bits - exponent))).astype(np.int64)  # with the leading 1, if normal
    code = (exponent - form.min_exponent << form.fraction_bits) + fraction  # a carry runs into the exponent, as it should
    top = (form.max_exponent - form.min_exponent + 2 << form.fraction_bits) - (2 if form.specials == "nan" else 1)
    code = np.where(code > top, top + 1 if form.specials == "ieee" else nan_of(form), code)
    negative = np.signbit(safe) & ((code > 0) | (form.specials != "unsigned_zero"))
    return np.where(np.isnan(x), nan_of(form), code | negative.astype(np.int64) << 7).astype(np.uint8)


def _wide(x: np.ndarray) -> np.ndarray:
    """FP64, of any NaN without a word."""
    with np.errstate(invalid="ignore"):
        return np.asarray(x, np.float64)


def to_integer(x: np.ndarray, word: str = "s8", *, symmetric: bool = True) -> np.ndarray:
    """FP32 or FP64 values to the nearest integers, ties to even, clamped.

    Args:
        symmetric: clamp to [-127, 127] of s8, so that every word has a negative; else to the type's range, [-128, 127], as PTX's `cvt.rni.sat.s8.f32` does.

    Returns:
        int8 (int32 of `s32`), same shape; NaN gives 0.
    """
    form = INTEGERS[word]
    whole = np.rint(np.where(np.isnan(x), 0.0, _wide(x)))
    return np.clip(whole, -form.largest if symmetric else form.least, form.largest).astype(f"i{form.bytes}")
