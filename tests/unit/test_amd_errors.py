"""Schemes on AMD's matrix units: what flushing does to them, and bounds that hold on any data and let no product be dropped."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES, preferred_scheme
from gemmgen.catalog.unit import UNITS
from gemmgen.emulate.core.product import product
from gemmgen.model import error
from gemmgen.split import as_multiplied, kept_products, split
from gemmgen.verify.bound import bound, lost
from gemmgen.verify.metrics import errors, exact

from amd_units import UNITS as ON_UNITS
from amd_units import plan_on
from ways import covering

DATA = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "both": lambda rng, shape: rng.uniform(-1, 1, shape),
    "positive": lambda rng, shape: rng.uniform(0, 1, shape),
    "small": lambda rng, shape: 1e-3 * rng.standard_normal(shape),
}
M, N, K = 24, 24, 384


def operands(kind: str, k: int = K, seed: int = 0, m: int = M, n: int = N) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return DATA[kind](rng, (m, k)).astype(np.float32), DATA[kind](rng, (k, n)).astype(np.float32)


def frobenius(scheme: str, unit: str, kind: str, promote: int = 0) -> float:
    a, b = operands(kind)
    c = product(SCHEMES.get(scheme), UNITS.get(unit), a, b, promote=promote)
    return errors(c, exact(a, b), exact(np.abs(a), np.abs(b))).relative_frobenius


# ---- the split


def test_a_flushed_word_is_never_subnormal_and_its_residual_has_what_it_lacks():
    scheme = SCHEMES.get("ootomo_flushed")
    rng = np.random.default_rng(0)
    x = (rng.choice([-1, 1], (50, 40)) * np.exp2(rng.uniform(-24, 4, (50, 40)))).astype(np.float32)
    high, low = split(x, scheme).planes
    assert not ((high != 0) & (np.abs(high) < 2.0**-14)).any()
    small = np.abs(x) < 2.0**-14
    assert small.any() and (high[small] == 0).all()
    assert (np.abs(x - high - low * 2.0**-11)[small] <= 2.0**-11 * np.abs(x[small])).all()
    plain = split(x, SCHEMES.get("ootomo")).planes
    assert (plain[:, ~small] == np.stack([high, low])[:, ~small]).all() and (plain[0][small] != 0).any()


def test_the_words_a_unit_multiplies():
    scheme = SCHEMES.get("half")
    words = split(np.array([[2.0**-14, 2.0**-15, -(2.0**-24), 1.0, np.inf]], np.float32), scheme)
    assert as_multiplied(words, scheme, UNITS.get("cdna3")) is words
    assert as_multiplied(words, scheme, UNITS.get("cdna2")).planes.tolist() == [[[2.0**-14, 0, 0, 1, np.inf]]]
    scaled = split(np.array([[1, 2.0**-34]], np.float32), SCHEMES.get("scaled"))  # a row's scale leaves small elements subnormal words, too
    small = scaled.planes[0, 0, 1]
    assert 0 < small < 2.0**-14 and as_multiplied(scaled, SCHEMES.get("scaled"), UNITS.get("cdna2")).planes[0, 0, 1] == 0


# ---- what flushing does


def test_plain_splits_lose_their_low_words_on_a_unit_that_flushes():
    for scheme in ("markidis", "egemm"):
        assert frobenius(scheme, "cdna2", "both") > 50 * frobenius(scheme, "cdna3", "both")
    for scheme in ("ootomo", "legemm", "half"):
        assert frobenius(scheme, "cdna2", "small") > 1e-2 > 30 * frobenius(scheme, "cdna3", "small")


@pytest.mark.parametrize("unit", ON_UNITS)
def test_scales_are_what_survives_flushing_on_any_data(unit):
    for kind in DATA:
        assert frobenius("scaled", unit, kind, promote=128) < 4e-7, kind
    for kind in ("normal", "both", "positive"):  # near 1, flushing the leading word is enough
        assert frobenius("ootomo_flushed", unit, kind, promote=128) < 2.5e-7, kind
    assert frobenius("ootomo_flushed", "cdna2", "both", 128) < 0.25 * frobenius("ootomo", "cdna2", "both", 128)


def test_the_preferred_scheme_keeps_what_the_unit_would_flush():
    chosen = {row.name: preferred_scheme(row) for row in UNITS.rows()}
    assert {name for name, (scheme, _) in chosen.items() if scheme != "ootomo"} == {"cdna2"}
    assert chosen["cdna2"].name == "scaled" and "subnormal words for zero" in chosen["cdna2"].reason
    assert all(SCHEMES.get(scheme).word in UNITS.get(name).block for name, (scheme, _) in chosen.items())


def test_le_gemms_gain_over_markidis_is_an_mi210s():
    """LE-GEMM's average reductions of Max_error and MRED (eqs. 19, 20) on U[-1, 1]: 74.82 and 178.93 on the MI210,
    2.78 and 1.75 on the A800. Max_error is that of one element, so it takes many draws to be steady."""

    def gains(gpu: str) -> np.ndarray:
        ratios = []
        for seed in range(10):
            a, b = operands("both", 96, seed, 96, 96)
            c = {scheme: product(SCHEMES.get(scheme), GPUS.get(gpu).unit, a, b) for scheme in ("markidis", "legemm")}
            found = {scheme: errors(x, exact(a, b), exact(np.abs(a), np.abs(b))) for scheme, x in c.items()}
            ratios.append([getattr(found["markidis"], what) / getattr(found["legemm"], what) for what in ("max_error", "mred")])
        return np.exp(np.mean(np.log(ratios), axis=0))

    on_mi210, on_a800 = gains("mi210"), gains("a800")
    assert (on_mi210 > 30).all() and (on_mi210 < 400).all()
    assert (on_a800 > 0.7).all() and (on_a800 < 4).all()


# ---- bounds


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "scheme"), covering([
    *itertools.product(ON_UNITS, ("half", "markidis", "legemm", "ootomo", "scaled", "bf16x6")), ("cdna2", "ootomo_flushed"),
]))
def test_a_right_kernel_meets_the_bound_on_any_data_and_one_without_a_product_does_not(unit, scheme, tmp_path):
    for promote in (0, 128):
        plan = plan_on(unit, scheme, tmp_path, promote)
        # The last but one: a leading word with a low one, or the only product.
        drop = plan.scheme.products[-2:-1] or plan.scheme.products
        without = plan.scheme.model_copy(update={"products": tuple(p for p in plan.scheme.products if p not in drop)})
        for kind in DATA:
            if kind == "small" and scheme == "markidis":
                continue  # beyond its range: all low words are subnormal, and on a unit that flushes nothing is left to drop
            a, b = operands(kind)
            reference, magnitude = exact(a, b), exact(np.abs(a), np.abs(b))
            flushed = lost(plan, a, b, reference)
            apart = bound(plan, a, b, reference)
            whole = apart.beside(flushed, reference, magnitude)
            c = product(plan.scheme, plan.gpu.unit, a, b, promote=promote)
            near, found = errors(c, reference - flushed, magnitude), errors(c, reference, magnitude)
            assert near.relative_frobenius <= 0.5 * apart.relative_frobenius and near.scaled <= 0.5 * apart.scaled, (kind, promote)
            assert found.relative_frobenius <= whole.relative_frobenius and found.scaled <= whole.scaled
            assert (whole == apart) == (unit != "cdna2")
            if without.products:
                less = product(without, plan.gpu.unit, a, b, promote=promote)
                assert errors(less, reference - flushed, magnitude).relative_frobenius > 2 * apart.relative_frobenius, (kind, promote)


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "k"), [("rdna3", 2048), ("rdna3", 8192), ("cdna2", 16384)])
def test_small_terms_of_one_sign_that_a_long_sum_swallows(unit, k, tmp_path):
    """Markidis' low words are all positive here, and all products share one sum."""
    plan = plan_on(unit, "markidis", tmp_path)
    a, b = operands("positive", k, 0, 8, 8)
    reference = exact(a, b)
    c = product(plan.scheme, plan.gpu.unit, a, b)
    near = errors(c, reference - lost(plan, a, b, reference), reference)
    assert near.relative_frobenius <= bound(plan, a, b, reference).relative_frobenius


def test_nothing_is_lost_where_the_unit_keeps_subnormals(tmp_path):
    a, b = operands("small")
    assert lost(plan_on("cdna3", "ootomo", tmp_path), a, b, exact(a, b)) == 0.0
    plan = plan_on("cdna2", "ootomo", tmp_path)
    words = [as_multiplied(split(x, plan.scheme), plan.scheme, plan.gpu.unit) for x in (a, np.ascontiguousarray(b.T))]
    np.testing.assert_array_equal(exact(a, b) - lost(plan, a, b, exact(a, b)), kept_products(*words, plan.scheme))


# ---- promotion


def test_promotion_where_the_unit_rounds_to_nearest():
    """One product in the promoted sum: after 4 or 8 terms at once no promotion is called for, after each one it is."""
    ootomo, scaled = SCHEMES.get("ootomo"), SCHEMES.get("scaled")
    chosen = {unit: [error.promote_for(scheme, UNITS.get(unit), 16, 4096) for scheme in (ootomo, scaled)] for unit in ON_UNITS}
    assert chosen == {"cdna1": [0, 256], "cdna2": [0, 256], "cdna3": [0, 256], "rdna3": [256, 256]}
    assert error.promote_for(SCHEMES.get("half"), UNITS.get("cdna2"), 16, 4096) == 0


@pytest.mark.slow
@pytest.mark.parametrize("unit", ON_UNITS)
def test_the_predicted_error_is_the_simulated_one(unit):
    """Of what promotion decides, on U[-1, 1] with four words' accuracy, so that the split adds nothing."""
    scheme, k = SCHEMES.get("ootomo4"), 2048
    a, b = operands("both", k)
    if unit == "cdna2":
        scheme = SCHEMES.get("scaled")
    for promote in (0, 256):
        known = error.error_numbers(scheme, UNITS.get(unit), promote or k, k)
        known = error.solved(error.EQUATIONS, known)
        expected = known["error"] if promote else known["unit_error"]
        found = errors(product(scheme, UNITS.get(unit), a, b, promote=promote), exact(a, b), exact(np.abs(a), np.abs(b)))
        assert found.relative_frobenius == pytest.approx(expected, rel=0.3), promote
