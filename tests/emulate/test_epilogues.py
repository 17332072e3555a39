"""What becomes of an element before it is stored, in every way that kernels store: small integers, whose answers are known to the last bit."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from test_small_products import LARGE, WAYS, integers
from verifying import judge_of, on_emulator
from ways import AMD_WAYS, HOPPER, TILE, TINY, covering, plan_of
from ways import WAYS as ALL_WAYS

from gemmgen.catalog.epilogue import epilogue_of
from gemmgen.catalog.output import all_outputs
from gemmgen.run import Placement, gemm, strided
from gemmgen.run.batch import Product, batch
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.verify import Judge

ALL = ("bias", "bias_m", "relu", "scale")
"""Every kind of argument."""
STORES = {name: WAYS[name] for name in (
    "portable", "portable, slices", "portable, row scales", "straight", "straight, slices", "thin columns, slices", "warpgroups", "warpgroups, slices",
    "warpgroups, row scales", "mfma", "wmma of RDNA4",
)} | {
    "residues": ALL_WAYS["residues"], "residues by lanes": ALL_WAYS["residues by lanes"],
    "fp32": dict(scheme="fp32", promote=0, where="shared", loads="spread", tile={"block": [32, 64, 32], "warp": [16, 32, 32]}, layout="nt"), "VALU": AMD_WAYS["VALU"],
    "warpgroups, pairs": dict(HOPPER, tile={"block": [64, 24, 32], "warp": [64, 24, 32], "cluster": 1}, stages=2),
    "warpgroups, most sums": dict(
        HOPPER, tile={"block": [128, 128, 32], "warp": [128, 128, 32], "cluster": 1}, stages=2, scheme="bf16x6", promote=32),
}


@cache
def made(name: str, do: tuple[str, ...] = ALL, special: str = "exact"):
    return on_emulator(replace(plan_of(**STORES[name], special=special), epilogue=epilogue_of(do)))


def vectors(m: int, n: int) -> dict:
    rng = np.random.default_rng(m * n)
    return {"bias": rng.integers(-20, 20, n).astype(np.float32), "bias_m": rng.integers(-20, 20, m).astype(np.float32), "scale": 0.5}


def ended(x: np.ndarray, bias: np.ndarray, bias_m: np.ndarray, scale: float) -> np.ndarray:
    return np.maximum(x + bias + bias_m[:, None], 0) * scale


CASES = {
    "whole": dict(size=(128, 192, 64), alpha=-0.5, beta=0.0), "ragged": dict(size=(65, 31, 41), alpha=1.0, beta=0.0),
    "added": dict(size=(65, 70, 41), alpha=3.0, beta=-0.5), "unaligned": dict(size=(64, 64, 41), alpha=2.0, beta=-1.0, placement=((1, 2, 3), (4, 8, 12))),
}


@pytest.mark.parametrize(("name", "case"), list(itertools.product(STORES, CASES)))
def test_each_element_is_ended_once_with_its_row_s_and_column_s_arguments(name, case):
    (m, n, k), alpha, beta = (CASES[case][key] for key in ("size", "alpha", "beta"))
    a, b, c = integers(m, n, k)
    given = vectors(m, n)
    result = gemm(*made(name), a, b, c if beta else None, alpha=alpha, beta=beta, ends=given, placement=Placement(*CASES[case].get("placement", ())))
    rounded = 1e-2 if "residues" in name else 0  # six residues hold 19 bits, and factors are no powers of two
    assert np.allclose(result.c, ended(alpha * (a @ b) + beta * c, **given), rtol=0, atol=rounded) and result.intact


@pytest.mark.parametrize("name", ["portable", "warpgroups", "straight, slices", "residues by lanes"])
def test_a_sum_over_no_k_and_one_that_nothing_is_taken_of_are_ended_too(name):
    given = vectors(65, 31)
    for alpha, k in ((0.0, 41), (1.0, 0)):
        _, _, c = integers(65, 31, 41)
        a, b = np.full((65, k), np.nan, np.float32), np.full((k, 31), np.inf, np.float32)
        assert np.array_equal(gemm(*made(name), a, b, c, alpha=alpha, beta=2.0, ends=given).c, ended(2 * c, **given))


@pytest.mark.parametrize(("name", "beta"), covering(itertools.product(
    ["portable", "portable, slices", "straight", "warpgroups", "warpgroups, slices", "mfma", "wmma of RDNA4"], [0.0, 2.0],
)))
def test_elements_that_are_computed_again_are_ended_like_others(name, beta):
    a, b, c = integers(64, 64, 41)
    a[3, 7], b[5, 9] = LARGE, -LARGE
    b[7, :], a[:, 5] = np.where(b[7, :] == 0, 1, b[7, :]), np.where(a[:, 5] == 0, 1, a[:, 5])
    a[3, 5] = b[7, 9] = 0.0  # the two do not meet, or a sum would round
    given = vectors(64, 64)
    result = gemm(*made(name), a, b, c if beta else None, alpha=-0.5, beta=beta, ends=given)
    assert np.array_equal(result.c, ended(-0.5 * (a @ b) + (2 * c if beta else 0), **given))
    assert result.status["repaired"] == 64 + 64 - 1


@pytest.mark.parametrize("name", ["portable", "warpgroups", "mfma"])
def test_a_nan_goes_through_relu_and_minus_inf_becomes_0(name):
    a, b, _ = integers(64, 64, 41)
    a[1, 0], a[2, 0], a[3, 0], b[0, :] = np.nan, -np.inf, np.inf, 1
    c = gemm(*made(name, ("relu",)), a, b).c
    assert np.isnan(c[1]).all() and (c[2] == 0).all() and np.isposinf(c[3]).all()
    assert np.array_equal(c[4:], np.maximum(a[4:] @ b, 0))


@pytest.mark.parametrize("step", ["gelu", "gelu_tanh"])
@pytest.mark.parametrize("name", ["fp32", "VALU"])
def test_gelu_is_within_what_its_row_says(name, step):
    """Of numbers over the whole range: products by 1 are exact where nothing is split."""
    dense, wide = np.linspace(-12, 12, 3001), np.concatenate([sign * np.exp2(np.linspace(-149, 127, 500)) for sign in (1, -1)])
    x = np.concatenate([dense, wide, [np.inf, -np.inf, np.nan]]).astype(np.float32)[:, None]
    device, plan, source = made(name, (step,))
    c = gemm(device, plan, source, x, np.ones((1, 1), np.float32)).c
    want, (_, own) = plan.epilogue.values(x, {}), plan.epilogue.error(x, {})
    finite = np.isfinite(x)
    assert (np.abs(c[finite] - want[finite]) <= own[finite] + 2.0**-149).all()
    assert np.isposinf(c[-3]) and np.isnan(c[-2:]).all()


@pytest.mark.parametrize("data", [
    {"tile": {"cluster": 1, "split_k": 1, "block": [64, 16, 32], "warp": [64, 16, 32]}, "fragment": {"policy": "wgmma"}, "target": {"gpu": "h100"}},
    {"tile": {**TINY, "split_k": 2}, "pipeline": {"design": "strided"}, "target": {"gpu": "a100"}},
    {"tile": TILE, "pipeline": {"design": "strided"}, "target": {"gpu": "mi210"}},
], ids=["warpgroups", "portable, slices", "mfma"])
def test_products_of_a_strided_batch_have_vectors_of_their_own_or_one(data):
    plan = solve(loads({
        "problem": {"kind": "strided", "m": 256, "n": 256, "k": 256, "matrices": 64}, "split": {"scheme": "ootomo", "promote": 64, "where": "prepass"},
        "epilogue": {"do": ALL}, "build": {"allow_spills": True}, **data,
    }))
    device, _, source = on_emulator(plan)
    # Nothing is added to the second C, which ends between four neighbours that are stored together, nor to the third, which ends within them.
    for n, beta, extra in ((31, -1.0, 0), (36, 0.0, 0), (34, 0.0, 2)):
        of = [integers(65, n, k) for k in (40, 40, 40)]
        a, b, c = (np.stack([one[at] * (1 + number) for number, one in enumerate(of)]) for at in range(3))
        given = vectors(65, n)
        each = given | {"bias": np.stack([given["bias"] + i for i in range(3)])}
        for ends in (given, each):
            result = strided(device, plan, source, a, b, c, alpha=2.0, beta=beta, ends=ends, placement=Placement((0, 0, extra)))
            want = [ended(2 * a[i] @ b[i] + beta * c[i], **ends | {"bias": np.broadcast_to(ends["bias"], (3, n))[i]}) for i in range(3)]
            assert np.array_equal(result.c, np.stack(want)) and result.intact
    assert Judge(plan, source, None, device).batch().passed


@pytest.mark.parametrize("data", [
    {"problem": {"kind": "grouped"}, "split": {"scheme": "fp32"}, "target": {"gpu": "a100"}},
    {"problem": {"kind": "grouped"}, "split": {"scheme": "ootomo"}, "pipeline": {"design": "packed"}, "fragment": {"policy": "wgmma"},
     "tile": {"cluster": 1, "block": [64, 16, 32], "warp": [64, 16, 32]}, "target": {"gpu": "h100"}},
], ids=["grouped", "packed"])
def test_steps_without_arguments_end_products_that_are_told_one_by_one(data):
    plan = solve(loads({"epilogue": {"do": ["relu"]}, "build": {"allow_spills": True}, **data}))
    device, _, source = on_emulator(plan)
    products = [Product(*integers(m, n, k), alpha=-2.0, beta=beta) for m, n, k, beta in ((33, 17, 20, 0.0), (64, 16, 32, 0.0), (70, 40, 9, 1.0))]
    found = batch(device, plan, source, products)
    for one, c in zip(products, found.products):
        assert np.array_equal(c, np.maximum(one.alpha * (one.a @ one.b) + one.beta * one.c, 0))


def test_tiles_that_another_kernel_computes_are_ended_by_it():
    plan = plan_of(**ALL_WAYS["outliers fall back"])
    do = epilogue_of(("bias", "scale"))
    plan = replace(plan, epilogue=do, fallback=replace(plan.fallback, epilogue=do))
    judge = judge_of(plan)
    check = judge.outliers()
    assert check.passed, check.detail


@pytest.mark.parametrize("other", [("bias",), ("relu", "bias"), ("bias", "gelu")])
def test_the_judge_finds_another_end(other):
    """A kernel of bias and ReLU is none of a plan that leaves ReLU out, has them in the other order, or another activation."""
    device, plan, source = made("portable", ("bias", "relu"))
    assert Judge(plan, source, None, device).edges().passed
    assert not Judge(replace(plan, epilogue=epilogue_of(other)), source, None, device).edges().passed


@pytest.mark.parametrize(("name", "c_type"), list(itertools.product(["portable", "straight", "warpgroups", "mfma", "wmma of RDNA4"], ["f16", "bf16"])))
def test_a_c_of_16_bits_is_the_sum_rounded_once(name, c_type):
    """Ties, numbers beyond the type, a NaN; and C is read back as what it holds."""
    output = all_outputs()[c_type]
    plan = replace(plan_of(**STORES[name]), output=output)
    device, _, source = on_emulator(plan)
    a, b, c = integers(64, 64, 41)
    a *= 37
    a[5], a[6, 0], b[0, :] = 0, np.nan, 1
    a[5, 0] = 65520.0 if c_type == "f16" else 2.0**15
    result = gemm(device, plan, source, a, b, c, beta=0.125)
    with np.errstate(invalid="ignore"):
        want = output.rounded((a.astype(np.float64) @ b + 0.125 * output.rounded(c)).astype(np.float32))
    assert np.array_equal(result.c, want, equal_nan=True) and result.intact
    assert np.isinf(result.c[5]).all() == (c_type == "f16") and np.isnan(result.c[6]).all()
