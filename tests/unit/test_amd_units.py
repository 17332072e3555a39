"""AMD's matrix units: each rule written down again over exact fractions, and what sets it apart from its neighbours."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest

from gemmgen.catalog.unit import UNITS
from gemmgen.emulate.core import units
from broken_rows import assert_refused

SMALLEST = {"f16": -14, "bf16": -126, "tf32": -126}
DIGITS = {"f16": 11, "bf16": 8, "tf32": 11}
MODELS = [(row.name, word) for row in UNITS.rows() if row.rule != "truncate" for word in row.block]


# ---- the rules over fractions; floats appear only where a number comes in or goes out


def binade(x: Fraction, smallest: int) -> int:
    """e of 2**e <= |x| < 2**(e + 1), at least `smallest`."""
    if x == 0:
        return smallest
    e = abs(x).numerator.bit_length() - x.denominator.bit_length()
    return max(smallest, e if abs(x) >= Fraction(2) ** e else e - 1)


def at(x: Fraction, e: int, rounded) -> Fraction:
    """x rounded to a multiple of 2**e."""
    return rounded(x / Fraction(2) ** e) * Fraction(2) ** e


def fp32(x: Fraction) -> Fraction:
    """To nearest, ties to even (which is what Python's round does)."""
    return at(x, binade(x, -126) - 23, round)


def flushed(x: Fraction, smallest: int = -126) -> Fraction:
    return Fraction(0) if abs(x) < Fraction(2) ** smallest else x


def tree(a, b, c, smallest, block):
    a, b, c = [flushed(x, smallest) for x in a], [flushed(x, smallest) for x in b], flushed(c)
    for k in range(0, len(a), block):
        terms = [flushed(fp32(x * y)) for x, y in zip(a[k : k + block], b[k : k + block])]
        while len(terms) > 1:
            terms = [flushed(fp32(x + y)) for x, y in zip(terms[::2], terms[1::2])]
        c = flushed(fp32(c + terms[0]))
    return c


def exact(a, b, c, smallest, block):
    for k in range(0, len(a), block):
        c = fp32(c + sum(x * y for x, y in zip(a[k : k + block], b[k : k + block])))
    return c


def floored(a, b, c, smallest, block):
    for k in range(0, len(a), block):
        pairs = [(x * y, binade(x, smallest) + binade(y, smallest)) for x, y in zip(a[k : k + block], b[k : k + block]) if x * y]
        top = max((e for _, e in pairs), default=-1000)
        dot = sum(at(product, top - 24, int) for product, _ in pairs)  # int cuts toward zero
        both = max(top, binade(c, -126))
        total = at(Fraction(dot), both - 32, floor) + at(c, both - 24, floor)
        c = fp32(at(total, binade(total, -126) - 31, floor))
    return c


AGAIN = {"tree": tree, "exact": exact, "floor": floored}


# ---- data


def words(word: str, rng: np.random.Generator, count: int, spread: int) -> np.ndarray:
    """Random words as float32, exponents spread over so many binades below 1, some of them subnormal or zero."""
    digits, smallest = DIGITS[word], SMALLEST[word]
    mantissa = rng.integers(1 << (digits - 1), 1 << digits, count).astype(np.float64)
    x = rng.choice([-1.0, 1.0], count) * np.ldexp(mantissa, rng.integers(-spread, 1, count) - digits)
    x = np.where(rng.random(count) < 0.05, 0.0, x)
    unit = 2.0 ** (smallest - digits + 1)
    return np.where(np.abs(x) < 2.0**smallest, np.trunc(x / unit) * unit, x).astype(np.float32)


def cases(word: str, length: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    for spread, size in ((2, 0), (6, -3), (20, 2), (26, -30), (120, -100), (135, -130)):
        a, b = (words(word, rng, 40 * length, spread).reshape(40, length) for _ in "ab")
        c = (rng.standard_normal(40) * 2.0 ** (size + rng.integers(-10, 10, 40))).astype(np.float32)
        yield a, b, c
        a, b = a.copy(), b.copy()
        a[:, 1::2], b[:, 1::2] = a[:, ::2], -b[:, ::2]  # what cancels leaves the accumulator alone
        yield a, b, c


@pytest.mark.parametrize(("unit", "word"), MODELS)
def test_dot_is_the_rule_over_fractions(unit, word):
    row = UNITS.get(unit)
    length = 2 * max(4, row.block[word])
    for a, b, c in cases(word, length):
        got = units.dot(row, word, a, b, c)
        for i in range(len(c)):
            fractions = [Fraction(float(x)) for x in a[i]], [Fraction(float(x)) for x in b[i]], Fraction(float(c[i]))
            want = AGAIN[row.rule](*fractions, SMALLEST[word], row.block[word])
            assert Fraction(float(got[i])) == want, (a[i], b[i], c[i])


@pytest.mark.parametrize(("unit", "word"), MODELS)
def test_a_neighbouring_rule_does_not_pass(unit, word):
    row = UNITS.get(unit)
    other_block = {word: row.block[word] // 2 or 2}
    others = [row.model_copy(update={"block": other_block})]
    others += [row.model_copy(update={"fraction_bits": row.fraction_bits + off}) for off in (-1, 1)] if row.fraction_bits else []
    others += [row.model_copy(update={"flushes_subnormals": None})] if row.flushes_subnormals else []
    every = [case for case in cases(word, 16)]
    for other in others:
        assert any((units.dot(row, word, *case) != units.dot(other, word, *case)).any() for case in every), other


# ---- special values


@pytest.mark.parametrize(("unit", "word"), MODELS)
@pytest.mark.parametrize(("a", "b", "c", "want"), [
    (np.inf, 1, 0, np.inf), (np.inf, -1, 1e30, -np.inf), (np.inf, 0, 0, np.nan), (np.nan, 0, 0, np.nan), (1, 1, np.inf, np.inf),
    (np.inf, 1, -np.inf, np.nan), (0, 0, -np.inf, -np.inf), (0, 0, np.nan, np.nan), (0, 5, 0, 0), (0, 5, 2.5, 2.5),
])
def test_special_values(unit, word, a, b, c, want):
    row, length = UNITS.get(unit), 16
    left, right = np.ones((1, length), np.float32), np.zeros((1, length), np.float32)
    left[0, 3], right[0, 3] = a, b
    got = units.dot(row, word, left, right, np.array([c], np.float32))
    np.testing.assert_array_equal(got, np.array([want], np.float32))
    if np.isnan(want):
        assert got.view(np.uint32)[0] == 0x7FFFFFFF


@pytest.mark.parametrize(("unit", "word"), MODELS)
def test_sums_beyond_fp32_are_infinite(unit, word):
    row = UNITS.get(unit)
    largest = np.full((1, row.block[word]), 65504 if word == "f16" else 2.0**64, np.float32)
    got = units.dot(row, word, largest, largest, np.array([3.4e38], np.float32))
    assert got[0] == (np.float32(3.4e38) if word == "f16" else np.inf)


def test_a_product_beyond_fp32_is_infinite_on_cdna3_even_where_another_cancels_it():
    x = np.array([[2.0**64, 2.0**64, 0, 0]], np.float32)
    y = np.array([[2.0**64, -(2.0**64), 0, 0]], np.float32)
    zero = np.zeros(1, np.float32)
    assert np.isnan(units.dot(UNITS.get("cdna3"), "bf16", x, y, zero)[0])
    assert units.dot(UNITS.get("cdna1"), "bf16", x, y, zero)[0] == 0


# ---- what sets the rules apart


def one(unit: str, word: str, a, b, c: float = 0.0) -> float:
    return float(units.dot(UNITS.get(unit), word, np.array([a], np.float32), np.array([b], np.float32), np.array([c], np.float32))[0])


def test_cdna2_adds_pairs_before_quads_before_the_accumulator():
    """1 + 2^-24 is a tie that falls to 1, as often as it is met; two such parts together are an ulp."""
    small = 2.0**-12
    a, b = [1, small, small, small], [1, small, small, small]
    assert one("cdna2", "f16", a, b) == 1 + 2.0**-23  # (1 + 2^-24) + (2^-24 + 2^-24)
    assert one("rdna3", "f16", a, b) == 1  # one after the other
    assert one("cdna1", "f16", a, b) == 1 + 2.0**-22  # 3 * 2^-24 beyond 1 is a tie that falls to the even 2^-22
    pairs = UNITS.get("cdna2").model_copy(update={"block": {"bf16": 2}})  # the older bf16 instructions
    args = [np.array([x], np.float32) for x in (a, b)]
    assert units.dot(pairs, "bf16", *args, np.zeros(1, np.float32))[0] == 1 + 2.0**-23
    late = [small, small, small, small], [small, small, small, small], 1.0
    assert one("cdna2", "bf16", *late) == 1 + 2.0**-22 and one("rdna3", "bf16", *late) == 1


@pytest.mark.parametrize("word", ["f16", "bf16"])
def test_only_cdna2_flushes_subnormal_words(word):
    largest_subnormal = 2.0 ** SMALLEST[word] * (1 - 2.0 ** -(DIGITS[word] - 1))
    factor = 1.0 if word == "f16" else 2.0**100
    for unit in sorted({name for name, of in MODELS if of == word}):
        for a, b in (([largest_subnormal] * 4, [factor] * 4), ([-factor] * 4, [largest_subnormal] * 4)):
            assert (one(unit, word, a, b) == 0) == (unit == "cdna2"), unit
        assert one(unit, word, [2.0 ** SMALLEST[word]] * 4, [factor] * 4) != 0


def test_cdna2_flushes_fp32_on_the_way():
    tiny = 2.0**-130
    assert one("cdna2", "f16", [0] * 4, [0] * 4, tiny) == 0 != one("cdna3", "f16", [0] * 4, [0] * 4, tiny)
    half = 2.0**-65
    assert one("cdna2", "bf16", [half] * 4, [half] * 4) == 0 != one("cdna1", "bf16", [half] * 4, [half] * 4)  # a product
    normal = 2.0**-63
    difference = [normal, normal, 0, 0], [normal * (1 + 2.0**-7), -normal, 0, 0]  # 2^-133, of two normal products
    assert one("cdna2", "bf16", *difference) == 0 and one("cdna1", "bf16", *difference) == 2.0**-133
    result = units.dot(UNITS.get("cdna2"), "f16", np.zeros((1, 4)), np.zeros((1, 4)), np.array([-tiny], np.float32))
    assert result.view(np.uint32)[0] == 0  # what comes in loses its sign


def test_cdna3_cuts_downwards():
    """Below 2^-32 of the accumulator a positive sum loses and a negative one gains: here just enough to make a tie."""
    a, b = 2.0**-12 * (2 - 2.0**-8), 2.0**-13  # a b = 2^-24 - 2^-33
    odd = 1 + 2.0**-23
    assert one("cdna3", "f16", [-a], [b], odd) == 1.0 and one("cdna1", "f16", [-a], [b], odd) == odd
    assert one("cdna3", "f16", [a], [b], -odd) == -odd


# ---- rows


@pytest.mark.parametrize(("name", "before", "after", "complaint"), [
    ("cdna2", 'rule = "tree"', 'rule = "tree"\nfraction_bits = 24', "fraction_bits with the rules that align"),
    ("cdna3", "fraction_bits = 24", "", "fraction_bits with the rules that align"),
    ("cdna3", "fraction_bits = 24", "fraction_bits = 24\nflushes_subnormals = true", "of which alone it is known"),
    ("cdna3", 'rule = "floor"', 'rule = "nearest"', "'truncate', 'by_f16', 'floor', 'floor_apart', 'tree' or 'exact'"),
    ("cdna1", 'verified = ""', 'verified = "an MI100"', "verified or unchecked"),
])
def test_a_wrong_row_is_refused(tmp_path, name, before, after, complaint):
    assert_refused(tmp_path, UNITS, name, before, after, complaint)


def test_no_amd_row_claims_to_be_checked():
    said = {row.name: row.label("f16") for row in UNITS.rows() if row.rule != "truncate"}
    assert said["cdna2"] == "cdna2, after a published simulator, not checked on hardware"
    assert said["rdna4"] == "rdna4, assumed, not checked on hardware"
    assert all("not checked on hardware" in label for label in said.values()) and len(said) == 6
