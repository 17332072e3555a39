"""Words of 8 bits and integers: what their bits stand for, and how FP32 becomes one of them."""

from __future__ import annotations

from bisect import bisect
from fractions import Fraction

import numpy as np
import pytest

from gemmgen.catalog.conversion import RAW, decode, nan_of, to_float8, to_integer, values_of
from gemmgen.catalog.number import FORMATS, INTEGERS, sum_type, word_bytes

FLOAT8 = [word for word, form in FORMATS.items() if form.bytes == 1]
# OCP 8-bit Floating Point Specification, table 1 and 2; AMD Instinct MI300 ISA guide: (largest, least normal, least subnormal, words that are NaN).
PUBLISHED = {
    "e4m3": (448.0, 2.0**-6, 2.0**-9, {0x7F, 0xFF}),
    "e5m2": (57344.0, 2.0**-14, 2.0**-16, {0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF}),
    "e4m3fnuz": (240.0, 2.0**-7, 2.0**-10, {0x80}),
    "e5m2fnuz": (57344.0, 2.0**-15, 2.0**-17, {0x80}),
}


def test_these_are_the_words_of_8_bits():
    assert set(FLOAT8) == set(PUBLISHED)
    assert {word: (word_bytes(word), sum_type(word)) for word in ("s8", "e4m3", "bf16", "tf32")} == {
        "s8": (1, "s32"), "e4m3": (1, "f32"), "bf16": (2, "f32"), "tf32": (4, "f32"),
    }
    assert (INTEGERS["s8"].least, INTEGERS["s8"].largest, INTEGERS["s32"].largest) == (-128, 127, 2**31 - 1)


def test_the_range_of_longer_words():
    """IEEE 754's binary16 and binary32; bfloat16 and tf32 have the exponents of the latter and fewer bits."""
    wanted = {"f16": (65504.0, 2.0**-14), "bf16": (float.fromhex("0x1.fep127"), 2.0**-126), "tf32": (float.fromhex("0x1.ffcp127"), 2.0**-126),
              "f32": (float(np.finfo(np.float32).max), 2.0**-126)}
    assert {word: (form.largest, 2.0**form.min_exponent) for word, form in FORMATS.items() if word not in FLOAT8} == wanted
    assert [(form.bias, form.bytes, form.saturates, form.specials) for word, form in FORMATS.items() if word not in FLOAT8] == [
        (15, 2, False, "ieee"), (127, 2, False, "ieee"), (127, 4, False, "ieee"), (127, 4, False, "ieee")]


@pytest.mark.parametrize("word", FLOAT8)
def test_the_format_is_the_published_one(word):
    largest, least_normal, least, nans = PUBLISHED[word]
    form, values = FORMATS[word], values_of(word).astype(np.float64)
    finite = values[np.isfinite(values)]
    assert (form.largest, 2.0**form.min_exponent, form.saturates) == (largest, least_normal, True)
    assert (finite.max(), finite.min(), finite[finite > 0].min()) == (largest, -largest, least)
    assert set(np.flatnonzero(np.isnan(values)).tolist()) == nans
    assert np.flatnonzero(np.isinf(values)).tolist() == ([0x7C, 0xFC] if word == "e5m2" else [])
    assert (np.signbit(values[0x80]) and values[0x80] == 0) == (not word.endswith("fnuz"))
    exponents = range(form.min_exponent, form.max_exponent + 1)
    assert {int(e) for e in np.floor(np.log2(finite[finite >= least_normal]))} == set(exponents)


@pytest.mark.parametrize("word", FLOAT8)
def test_a_word_comes_back_from_its_value(word):
    values = values_of(word)
    finite = np.isfinite(values)
    assert (to_float8(values[finite], word) == np.flatnonzero(finite)).all()


@pytest.mark.parametrize("word", FLOAT8)
def test_rounding_is_to_the_nearest_word_and_to_even(word):
    """Against the words on either side, by exact fractions."""
    values = values_of(word)
    words = [code for code in range(128) if np.isfinite(values[code])]
    known = [Fraction(float(values[code])) for code in words]
    rng = np.random.default_rng(1)
    middles = [float(x + y) / 2 for x, y in zip(known, known[1:])]
    tried = np.array([*middles, *np.nextafter(middles, 0), *np.nextafter(middles, 1e9), *np.exp2(rng.uniform(-20, 17, 100))])
    for x, got in zip(tried.tolist(), to_float8(tried, word).tolist(), strict=True):
        above = bisect(known, Fraction(x))
        distances = {words[at]: abs(Fraction(x) - known[at]) for at in (above - 1, above) if 0 <= at < len(known)}
        nearest = [code for code, distance in distances.items() if distance == min(distances.values())]
        assert got == next((code for code in nearest if code % 2 == 0), nearest[0]) or len(nearest) == 1 and got == nearest[0]
        mirrored = int(to_float8(np.float64(-x), word))
        assert mirrored == (got | 0x80 if got or not word.endswith("fnuz") else 0)


@pytest.mark.parametrize("word", FLOAT8)
def test_what_is_too_large_becomes_the_largest(word):
    top = int(to_float8(np.float64(PUBLISHED[word][0]), word))
    assert to_float8(np.array([np.inf, -np.inf, 1e30, -3e38], np.float32), word).tolist() == [top, top | 0x80] * 2
    assert to_float8(np.array([np.nan], np.float32), word).tolist() == [nan_of(FORMATS[word])]
    assert np.isnan(decode(word, np.array([nan_of(FORMATS[word])], np.uint8))).all()
    beyond = {"e4m3": [0x7F, 0xFF], "e5m2": [0x7C, 0xFC]}.get(word, [0x80, 0x80])  # NaN, but for e5m2, which has Inf
    assert to_float8(np.array([1e30, -1e30]), word, saturate=False).tolist() == beyond
    assert to_float8(np.array([1.001, -1.001]) * PUBLISHED[word][0], word, saturate=False).tolist() == [top, top | 0x80]


def test_integers_are_rounded_to_even_and_clamped():
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.4, 127.5, 300, -127.5, -127.6, -128.4, -1e30, np.inf, -np.inf, np.nan, -0.0], np.float32)
    assert to_integer(x).tolist() == [0, 2, 2, 0, -2, 126, 127, 127, 127, -127, -127, -127, -127, 127, -127, 0, 0]
    assert to_integer(x, symmetric=False).tolist() == [0, 2, 2, 0, -2, 126, 127, 127, 127, -128, -128, -128, -128, 127, -128, 0, 0]
    assert to_integer(x).dtype == np.int8 == RAW["s8"]
    assert to_integer(np.array([2.0**31, -(2.0**31)]), "s32").tolist() == [2**31 - 1, -(2**31) + 1]
    assert decode("s8", np.array([0x80, 0x7F, 0xFF], np.uint8)).tolist() == [-128.0, 127.0, -1.0]
