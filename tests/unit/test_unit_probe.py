"""What a matrix unit is asked with, and how its answers are told: numbers by hand, no kernel."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from gemmgen.catalog.fragment import FRAGMENTS
from gemmgen.catalog.number import FORMATS
from gemmgen.emulate.core import units
from gemmgen.errors import DeviceError
from gemmgen.verify import record, unit_probe
from gemmgen.verify.unit_probe import Tiles

ROW = next(row for row in FRAGMENTS.rows() if row.word == "f16" and row.on_matrix_unit)


def test_answers_are_compared_bit_for_bit_and_told_by_tile():
    c = np.zeros((2, 1, 2), np.float32)
    d, want = c.copy(), c.copy()
    d[1, 0] = 1.0, -0.0
    want[1, 0] = 1.0, 0.0
    found = Tiles(ROW, ("first", "second"), c, c, c, d, want)
    assert [found.agreeing(at) for at in (0, 1)] == [2, 1] and found.summary == "3 of 4 dot products as modelled; others in: second"
    assert Tiles(ROW, ("first", "second"), c, c, c, d, d).summary == "4 of 4 dot products as modelled"
    told = found.as_dict()["tiles"][1]
    assert (told["asks"], told["d"], told["elements"], told["as_modelled"]) == ("second", "3f80000080000000", 2, 1)  # the highest digit first
    unknown = Tiles(ROW, ("first", "second"), c, c, c, d, None)
    assert unknown.agreeing(1) is None and unknown.summary == "no model of f16 words to compare with"


@pytest.mark.parametrize("word", ["f16", "bf16", "e4m3"])
def test_words_are_of_either_sign_and_of_the_exponents_asked_for(word):
    form, raw = FORMATS[word], unit_probe._RAW[word]

    def numbers(exponents):
        found = unit_probe.drawn(np.random.default_rng(1), form, raw, (40, 40), exponents)
        return np.asarray(units.decode(word, found), np.float64)

    usual = numbers((-2, 1))
    assert (usual < 0).any() and (usual > 0).any() and set(np.floor(np.log2(np.abs(usual))).ravel()) == {-2, -1, 0, 1}
    fractions = np.unique(np.abs(usual) / 2.0 ** np.floor(np.log2(np.abs(usual))))
    few = 1 << min(form.fraction_bits, 7)  # fractions of more bits do not all come
    assert np.unique(np.floor(fractions * few)).tolist() == list(range(few, 2 * few))
    assert not numbers("zero").any() and np.abs(numbers("subnormal")).max() < 2.0**form.min_exponent and numbers("subnormal").any()
    wide = np.abs(numbers((-1000, 1000)))
    largest = form.max_exponent - (form.specials == "nan")  # of which every fraction is a number
    assert np.isfinite(wide).all() and wide.min() >= 2.0**form.min_exponent and wide.max() >= 2.0**largest


def test_integers_reach_the_ends_of_their_sums():
    row = next(row for row in FRAGMENTS.rows() if row.word in ("s8", "i8"))
    names, a, b, c = unit_probe.tiles(row)
    at = {name: number for number, name in enumerate(names)}
    product = a.astype(np.int64) @ b.astype(np.int64)
    total = product + c
    assert not total[at["sums that cancel"]].any() and (a[at["the least word"]] == -128).all() and (b[at["the least word"]] == -128).all()
    assert (total[at["sums that wrap around"]] > 2**31 - 1).any() and (total[at["sums that wrap around below"]] < -(2**31)).any()


def test_sums_of_floats_cancel_and_terms_are_far_apart():
    row = next(row for row in FRAGMENTS.rows() if row.word == "f16" and row.on_matrix_unit)
    names, a, b, c = unit_probe.tiles(row)
    left, right = (units.decode("f16", x).astype(np.float64) for x in (a, b))
    total = np.abs(left @ right + c) / (np.abs(left) @ np.abs(right) + np.abs(c))
    assert total[names.index("sums that cancel")].max() < 2.0**-24 and total[names.index("terms of one size")].max() > 0.1
    size = np.abs(left[names.index("terms far apart")])
    assert size.max() / size.min() > 2.0**20


@pytest.mark.parametrize(("word", "has_products"), [("f16", False), ("bf16", True)])
def test_sums_are_subnormal_where_products_can_be(word, has_products):
    """No product of FP16 numbers is a subnormal FP32 number: C alone is one."""
    names, a, b, c = unit_probe.tiles(next(row for row in FRAGMENTS.rows() if row.word == word and row.on_matrix_unit))
    at = names.index("subnormal sums")
    products = np.abs(units.decode(word, a[at]).astype(np.float64)) @ np.abs(units.decode(word, b[at]).astype(np.float64))
    assert products.all() == products.any() == has_products and products.max() < 2.0**-126 and 0 < np.abs(c[at]).max() < 2.0**-126


def test_without_a_unit_each_k_is_a_fused_multiply_add_in_order():
    fragment = SimpleNamespace(on_matrix_unit=False, shape=(1, 1, 3))
    a, b, c = (np.array([x], np.float32) for x in ([[1.0, 2.0**24, -(2.0**24)]], [[1.0], [1.0], [1.0]], [[0.0]]))
    assert unit_probe.modelled(None, fragment, a.view(np.uint32), b.view(np.uint32), c)[0, 0, 0] == 0.0  # 1 is lost in 2^24
    back = [x[..., ::-1].copy() if x is a else x for x in (a, b, c)]
    assert unit_probe.modelled(None, fragment, back[0].view(np.uint32), back[1].view(np.uint32), back[2])[0, 0, 0] == 1.0


def test_a_probe_that_fails_is_an_error_in_the_record(monkeypatch):
    def fails(*given):
        assert given == (plan, "hip")
        raise DeviceError("probe", "failed", got="status 1")

    monkeypatch.setattr(record, "probe_unit", fails)
    plan = SimpleNamespace(gpu=SimpleNamespace(unit=SimpleNamespace(name="cdna3")), fragment=SimpleNamespace(on_matrix_unit=True))
    told = record._matrix_unit(plan, "hip")
    assert told["model"] == "cdna3" and told["error"]["problem"] == "failed" and "summary" not in told
