"""The models of matrix units: against hardware, and the fast route against the definition."""

from pathlib import Path

import numpy as np
import pytest

from gemmgen.catalog.unit import UNITS
from gemmgen.emulate.core import units
from gemmgen.errors import EmulationError

HARDWARE = Path(__file__).parents[1] / "data" / "tensor_core_dots.npz"
SETS = [
    ("V100", "volta", "fp16", "f16"),
    ("A100", "ampere", "fp16", "f16"),
    ("A100", "ampere", "bf16", "bf16"),
    ("A100", "ampere", "tf32", "tf32"),
    ("Ada", "ada", "fp16", "f16"),
    ("Ada", "ada", "bf16", "bf16"),
    ("L40S", "ada", "tf32", "tf32"),
    ("H100", "hopper", "fp16", "f16"),
    ("H100", "hopper", "bf16", "bf16"),
    ("H100", "hopper", "tf32", "tf32"),
    ("B200", "blackwell", "fp16", "f16"),
    ("B200", "blackwell", "bf16", "bf16"),
    ("B200", "blackwell", "tf32", "tf32"),
]
MODELS = [("volta", "f16"), ("turing", "f16")] + [
    (unit, word) for unit in ("ampere", "hopper", "blackwell", "cdna3") for word in ("f16", "bf16", "tf32")
] + [(unit, word) for unit in ("cdna1", "cdna2", "rdna3") for word in ("f16", "bf16")]


def bits(x):
    return np.ascontiguousarray(x, np.float32).view(np.uint32)


def encode(word, values):
    """float32 values, cut to the word type, as raw words."""
    values = np.asarray(values, np.float32)
    if word == "f16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16).view(np.uint16)
    raw = values.view(np.uint32)
    return (raw >> 16).astype(np.uint16) if word == "bf16" else raw & np.uint32(0xFFFFE000)


@pytest.mark.parametrize(("gpu", "unit", "file_word", "word"), SETS)
def test_dot_returns_what_the_hardware_returned(gpu, unit, file_word, word):
    with np.load(HARDWARE) as sets:
        a, b, c, d = (sets[f"{gpu}_{file_word}_{name}"] for name in "abcd")
    assert len(d) == 600
    assert int((bits(units.dot(UNITS.get(unit), word, a, b, c)) != bits(d)).sum()) == 0


@pytest.mark.parametrize(("gpu", "unit", "file_word", "word"), SETS)
def test_a_neighbouring_rule_does_not_pass_for_the_hardware(gpu, unit, file_word, word):
    row = UNITS.get(unit)
    with np.load(HARDWARE) as sets:
        a, b, c, d = (sets[f"{gpu}_{file_word}_{name}"] for name in "abcd")
    for off in (-1, 1):
        other = row.model_copy(update={"fraction_bits": row.fraction_bits + off})
        assert (bits(units.dot(other, word, a, b, c)) != bits(d)).any()


def fragments(case, word, k, rng, warps=7):
    """A [W, 16, k], B [W, k, 8] raw words and C [W, 16, 8] of one kind of data."""
    shape_a, shape_b, shape_c = (warps, 16, k), (warps, k, 8), (warps, 16, 8)
    normal = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    a, b, c = normal(*shape_a), normal(*shape_b), normal(*shape_c)
    wide = 12 if word == "f16" else 60
    if case == "spread":
        a *= np.exp2(rng.integers(-wide, wide, shape_a)).astype(np.float32)
        b *= np.exp2(rng.integers(-wide, wide, shape_b)).astype(np.float32)
        c *= np.exp2(rng.integers(-2 * wide, 2 * wide, shape_c)).astype(np.float32)
    elif case == "extreme":
        with np.errstate(over="ignore"):
            a = a * np.exp2(rng.integers(-140, 127, shape_a)).astype(np.float32)
            b = b * np.exp2(rng.integers(-140, 127, shape_b)).astype(np.float32)
            c = c * np.exp2(rng.integers(-140, 127, shape_c)).astype(np.float32)
    elif case == "zeros":
        a[rng.random(shape_a) < 0.7] = 0
        b[rng.random(shape_b) < 0.7] = -0.0
        c[rng.random(shape_c) < 0.5] = -0.0
        c[rng.random(shape_c) < 0.1] = 1e-42
        c[rng.random(shape_c) < 0.1] = 2.0**-110
        a[0] = 0
        c[1] = 0
    elif case == "special":
        for x in (a, b, c):
            for value in (np.inf, -np.inf, np.nan):
                x[rng.random(x.shape) < 0.01] = value
        c[2, 0, 0] = np.inf
    elif case == "cancel":
        a[..., 1::2] = -a[..., ::2]
        b[:, 1::2] = b[:, ::2]
        b *= np.exp2(rng.integers(-3, 3, shape_b)).astype(np.float32)
    elif case == "subnormal":
        a = a * np.float32(2.0**-20 if word == "f16" else 2.0**-128)
    elif case == "largest":
        a[:] = 65504 if word == "f16" else 3.3e38
        b[:] = -65504 if word == "f16" else 3.3e38
        c[:] = 3.4e38
        c[::2] = -3.4e38
    elif case == "integers":  # the largest mantissas, whose sums come nearest to overflow
        a[:], b[:] = 2047 / 1024, 2047 / 1024
        c[:] = 1.9999999
    elif case == "tiny":  # beside the smallest exponents that terms are aligned to
        a, b = a * np.float32(2.0**-60), b * np.float32(2.0**-60)
        c[:] = 0
    return encode(word, a), encode(word, b), c


CASES = (
    "normal", "spread", "extreme", "zeros", "special", "cancel", "subnormal", "largest", "integers",
)  # fmt: skip


# Fewer warps than columns, and more: two orders of the dimensions.
@pytest.mark.parametrize(("warps", "case", "unit", "word"), [
    pytest.param(warps, case, *model, marks=() if warps == (7, 9, 1)[at % 3] else pytest.mark.long)
    for warps in (1, 7, 9) for at, case in enumerate(CASES) for model in MODELS
])
def test_fragments_equal_dots_bit_for_bit(unit, word, case, warps):
    for k in (8, 16) if word != "tf32" else (4, 8):
        assert_dots(UNITS.get(unit), word, case, k, warps)


def assert_dots(row, word, case, k, warps):
    a, b, c = (x[:warps] for x in fragments(case, word, k, np.random.default_rng(k), max(warps, 7)))
    given = c.copy()
    left, right = units.decode(word, a)[:, :, None], units.decode(word, b).transpose(0, 2, 1)
    want = units.dot(row, word, left, right[:, None], c)
    got = units.mma(row, word, a, b, c)
    assert got.dtype == np.float32
    assert (bits(got) == bits(want)).all()
    assert (bits(c) == bits(given)).all()


@pytest.mark.parametrize("wide", [26, 27, 28, 36])
@pytest.mark.parametrize(("unit", "block"), [("hopper", 8), ("cdna3", 8), ("cdna3", 1)])
def test_units_that_keep_more_bits_than_the_fast_route_holds(unit, block, wide):
    """No unit of the catalogue does; `bringup` may measure one."""
    for word, case in (("f16", "integers"), ("bf16", "spread"), ("bf16", "tiny")):
        assert_dots(UNITS.get(unit).model_copy(update={"fraction_bits": wide, "block": {word: block}, "variants": ()}), word, case, 16, 7)


def test_the_fast_route_is_taken():
    """Else the test above would compare `dot` with itself."""
    rng = np.random.default_rng(0)
    calls = []
    original, units._by_dot = units._by_dot, lambda *args: calls.append(1) or original(*args)
    try:
        for case in ("normal", "cancel", "integers"):
            for word in ("f16", "bf16", "tf32"):
                for warps in (7, 9):
                    for unit in [name for name, of in MODELS if of == word]:
                        units.mma(UNITS.get(unit), word, *fragments(case, word, 8, rng, warps))
    finally:
        units._by_dot = original
    assert not calls


def test_a_unit_without_the_words_says_so():
    with pytest.raises(EmulationError, match="no such words") as error:
        units.dot(UNITS.get("volta"), "tf32", np.ones((1, 4)), np.ones((1, 4)), np.ones(1))
    assert "f16" in str(error.value)


def test_sums_of_integers_wrap_around():
    a, b, ends = np.full((1, 2, 4), -1, np.int8), np.full((1, 3, 4), 127, np.int8), np.iinfo(np.int32)
    for a, c, want in ((a, ends.min, ends.max - 507), (-a, ends.max, ends.min + 507)):
        assert (units.mma(UNITS.get("ampere"), "s8", a, b.transpose(0, 2, 1), np.full((1, 2, 3), c, np.int32)) == want).all()


def test_zero_sums_are_positive_and_nan_is_canonical():
    row = UNITS.get("ampere")
    ones = np.ones((1, 8), np.float32)
    minus_zero = np.array([-0.0], np.float32)
    assert bits(units.dot(row, "f16", 0 * ones, ones, minus_zero))[0] == 0
    assert bits(units.dot(row, "f16", ones * np.float32(np.inf), 0 * ones, minus_zero))[0] == 0x7FFFFFFF
    assert bits(units.dot(row, "f16", ones, ones, np.array([-np.inf], np.float32)))[0] == 0xFF800000
