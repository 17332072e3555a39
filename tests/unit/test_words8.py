"""Products and conversions of 8-bit words against what an H200 returned, and rules beside its own.

tests/data/words8_h200.npz: one instruction on chosen words, compiled by NVRTC 13 (`gemmgen.verify.unit_probe`): `KEY_a`, `KEY_b` [n, k] words, `KEY_c`,
`KEY_d` [n], for instructions KEY. `convert_*`: FP32 numbers and what `cvt` made of them; `widened_*`: FP16 bits of the words 0 to 255.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import frexp
from pathlib import Path

import numpy as np
import pytest

from gemmgen.catalog.conversion import decode, to_float8, to_integer
from gemmgen.catalog.unit import UNITS
from gemmgen.emulate.core import units
from gemmgen.errors import EmulationError
from broken_rows import assert_refused

HARDWARE = Path(__file__).parents[1] / "data" / "words8_h200.npz"
FLOAT8 = [(policy, word) for policy in ("mma", "wgmma") for word in ("e4m3", "e5m2")]


@cache
def recorded() -> dict[str, np.ndarray]:
    with np.load(HARDWARE) as sets:
        return dict(sets)


def products(key: str) -> tuple[np.ndarray, ...]:
    return tuple(recorded()[f"{key}_{name}"] for name in "abcd")


def bits(x):
    return np.ascontiguousarray(x).view(np.uint32)


def summed(unit, word, a, b, c):
    return units.dot(unit, word, decode(word, a), decode(word, b), c)


@pytest.mark.parametrize(("policy", "word"), FLOAT8)
def test_dot_returns_what_the_hardware_returned(policy, word):
    a, b, c, d = products(f"{policy}_{word}")
    unit = UNITS.get("hopper").of(word, policy)
    assert len(d) == 720 and unit.checked(word)
    assert np.array_equal(bits(summed(unit, word, a, b, c)), bits(d))
    whole = units.mma(unit, word, a[:, None], b[:, :, None], c[:, None, None])  # fragments of one element, the fast way
    assert np.array_equal(bits(whole[:, 0, 0]), bits(d))


@pytest.mark.parametrize(("policy", "word"), FLOAT8)
def test_a_neighbouring_rule_does_not_pass_for_the_hardware(policy, word):
    a, b, c, d = products(f"{policy}_{word}")
    hopper = UNITS.get("hopper")
    unit = hopper.of(word, policy)
    others = [unit.model_copy(update={"fraction_bits": unit.fraction_bits + off}) for off in (-1, 1)]
    others += [unit.model_copy(update={"block": {**unit.block, word: 16}}), hopper.of(word, {"mma": "wgmma", "wgmma": "mma"}[policy])]
    if policy == "wgmma":
        others += [unit.model_copy(update={"sum_bits": most}) for most in (12, 14, None)]
    else:
        others += [unit.model_copy(update={"rule": "truncate"})]  # 32 products and the accumulator at once
    for other in others:
        assert not np.array_equal(bits(summed(other, word, a, b, c)), bits(d)), other


@pytest.mark.parametrize("key", ["mma_s8", "mma_s8_sat", "mma8_s8", "wgmma_s8", "wgmma_s8_sat"])
def test_sums_of_integers_are_exact_and_wrap_or_stop(key):
    a, b, c, d = products(key)
    exact = (a.astype(np.int64) * b).sum(1) + c
    saturated = np.clip(exact, -(2**31), 2**31 - 1)
    assert (exact != saturated).any()
    assert np.array_equal(d, saturated if key.endswith("sat") else exact.astype(np.int32))
    got = units.integer_product(a.T[:, None], b.T[:, None], c[None, None], saturate=key.endswith("sat"))
    assert got.dtype == np.int32 and np.array_equal(got[0, 0], d)


def test_conversions_are_the_hardwares():
    known = recorded()
    x = known["convert_x"]
    for word in ("e4m3", "e5m2"):
        assert np.array_equal(to_float8(x, word), known[f"convert_{word}"])
        halves = decode(word, np.arange(256, dtype=np.uint8)).astype(np.float16)
        assert np.array_equal(np.where(np.isnan(halves), np.uint16(0x7FFF), halves.view(np.uint16)), known[f"widened_{word}"])
    assert np.array_equal(to_integer(x, symmetric=False), known["convert_s8"])
    number = ~np.isnan(x)  # of a NaN, cvt to INT32 gives 0 too
    assert np.array_equal(to_integer(x, "s32", symmetric=False)[number], known["convert_s32"][number])
    assert not known["convert_s32"][~number].any() and not known["convert_s8"][~number].any()


# ---- the rules again, over fractions


def floor_apart(a, b, c, bits_kept, least):
    """CDNA 3's sum of 16 products as its words say it: halves of even and odd k, exact fractions."""
    def exponent(x, smallest):
        return max(smallest, frexp(float(x))[1] - 1)

    def at(x, unit, way):
        whole = x / Fraction(2) ** unit
        return (int(whole) if way == "trunc" else whole.numerator // whole.denominator) * Fraction(2) ** unit

    sides = []
    for odd in range(2):
        pairs = [(x, y) for x, y in list(zip(a, b, strict=True))[odd::2] if x and y]
        top = max((exponent(x, least) + exponent(y, least) for x, y in pairs), default=None)
        sides.append((sum(at(x * y, top - bits_kept, "trunc") for x, y in pairs) if pairs else Fraction(0), top))
    tops = [top for _, top in sides if top is not None]
    top = max(tops, default=-10**4)
    dot = sum(at(total, top - bits_kept, "floor") for total, _ in sides)
    from_c = exponent(c, -126) if c else -126
    both = max(top, from_c)
    addend = Fraction(0) if from_c < both - bits_kept - 1 else at(c, both - bits_kept, "floor")
    total = at(dot, both - 32, "floor") + addend
    if not total:
        return np.float32(0)
    own = exponent(total, -126)
    return np.float32(float(at(total, own - 31, "floor")))


@pytest.mark.parametrize("word", ["e4m3fnuz", "e5m2fnuz"])
def test_cdna_3_sums_even_and_odd_k_apart(word):
    rng = np.random.default_rng(3)
    unit = UNITS.get("cdna3").of(word)
    form_least = {"e4m3fnuz": -7, "e5m2fnuz": -15}[word]
    a, b = (to_float8(rng.standard_normal((300, 16)) * np.exp2(rng.integers(-6, 6, (300, 16))), word) for _ in range(2))
    a[::5, 1::2] = 0
    c = (rng.standard_normal(300) * np.exp2(rng.integers(-40, 12, 300))).astype(np.float32)
    x, y = decode(word, a), decode(word, b)
    got = units.dot(unit, word, x, y, c)
    want = [floor_apart(*([Fraction(float(v)) for v in side] for side in (x[at], y[at])), Fraction(float(c[at])), 24, form_least) for at in range(300)]
    assert np.array_equal(bits(got), bits(np.array(want, np.float32)))
    plain = units.dot(unit.model_copy(update={"rule": "floor"}), word, x, y, c)
    assert not np.array_equal(bits(plain), bits(got))


# ---- rows


@pytest.mark.parametrize(("before", "after", "complaint"), [
    ("sum_bits = 13", "sum_bits = 23", "less than or equal to 22"),
    ('rule = "by_f16"', 'rule = "tree"', "fraction_bits with the rules that align"),
    ('rule = "by_f16"\nfraction_bits = 25', 'rule = "by_f16"\nfraction_bits = 24', "rule by_f16 with the fraction_bits of a unit"),
    ('rule = "by_f16"\nfraction_bits = 25', 'rule = "exact"\nsum_bits = 13', "sum_bits with rule truncate"),
    ('words = ["e4m3", "e5m2"]', 'words = ["f16"]', "words in block or in a variant, not in both; f16"),
    ('integers = ["s8"]', 'integers = ["s4"]', "integers"),
    ('integers = ["s8"]', 'flushes_subnormals = true', "flushes_subnormals with rule tree, of which alone"),
    ('block = 32\nsource = "what ptxas', 'block = 24\nsource = "what ptxas', "and a block of whole blocks of f16"),
    ('policies = ["mma"]', 'policies = ["dp4a"]', "policies"),
    ('verified = "131', 'unchecked = "no"\nverified = "131', "verified or unchecked, not both"),
])
def test_a_variant_that_cannot_be_is_refused(tmp_path, before, after, complaint):
    assert_refused(tmp_path, UNITS, "hopper", before, after, complaint)


@pytest.mark.parametrize(("unit", "word", "policy", "unchecked"), [
    ("ada", "f16", "mma", ""), ("ada", "s8", "mma", ""), ("ada", None, None, ""), ("ada", "e4m3", None, "after a published simulator"),
    ("ada", "e5m2", "mma", "after a published simulator"), ("blackwell", "e5m2", "mma", "after the machine code"),
    ("blackwell", "e5m2", "tcgen05", "after a published simulator"), ("hopper", "e4m3", "wgmma", ""), ("blackwell", "s8", "tcgen05", ""),
])
def test_a_words_rule_is_checked_where_its_variant_was(unit, word, policy, unchecked):
    one = UNITS.get(unit)
    assert one.checked(word, policy) is not bool(unchecked) and one.label(word, policy) == unit + (f", {unchecked}, not checked on hardware" if unchecked else "")


def test_a_unit_tells_its_words_and_their_rules():
    hopper, ampere = UNITS.get("hopper"), UNITS.get("ampere")
    assert hopper.words == ("f16", "bf16", "tf32", "s8", "e4m3", "e5m2") and ampere.words == ("f16", "bf16", "tf32", "s8")
    assert hopper.of("f16", "wgmma") is hopper and hopper.of("s8") is hopper
    assert hopper.of("e4m3") == hopper.of("e4m3", "wgmma") != hopper.of("e4m3", "mma")  # the first, if nobody says which
    assert hopper.of("e5m2", "wgmma").block["e5m2"] == 32
    with pytest.raises(EmulationError, match="no such words"):
        units.dot(ampere, "e4m3", np.ones((1, 32)), np.ones((1, 32)), np.ones(1))


def test_integer_products_of_many_columns_are_those_of_few():
    """Which are multiplied by pieces: 128 x 64 of 32 k at once, and here 16 columns more."""
    rng = np.random.default_rng(6)
    a, b, c = rng.integers(-128, 128, (32, 128, 2)).astype(np.int8), rng.integers(-128, 128, (32, 80, 2)).astype(np.int8), np.ones((128, 80, 2), np.int32)
    assert np.array_equal(units.integer_product(a, b, c), np.einsum("kmw,knw->mnw", a.astype(np.int32), b.astype(np.int32)) + 1)
