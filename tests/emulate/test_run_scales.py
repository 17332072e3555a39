"""Runs of k with scales of their own: sums that go through several units, and kernels' bits against the reference's."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from gemmgen.abi import COUNTERS
from gemmgen.emulate import EAGER_LOWEST, TOGETHER
from gemmgen.run import gemm
from gemmgen.split import split
from gemmgen.verify import Judge
from gemmgen.verify.bound import allowance
from gemmgen.verify.metrics import exact
from verifying import assert_bits, expected_bits, judge_of
from ways import AMD_WAYS, WAYS, plan_of, tailed

RUNS = [name for name, way in (WAYS | AMD_WAYS).items() if way.get("scheme") == "run_scaled"]
TENSOR = "tensor memory, pairs, run scales"


@cache
def of_way(name: str, schedule=TOGETHER) -> Judge:
    return judge_of(plan_of(**(WAYS | AMD_WAYS)[name]), schedule=schedule)


@pytest.mark.parametrize("name", tailed(RUNS, {TENSOR, "wmma of RDNA3, run scales"}))
def test_sums_go_from_unit_to_unit(name):
    """Runs that differ by few powers of two, whose bits the reference tells, and by more than a sum in one unit could."""
    judge = of_way(name, EAGER_LOWEST if "warpgroups" in name else TOGETHER)
    assert_bits(judge, 35, 9, 133)
    assert not judge.device.conflicts
    check = judge.runs()
    assert check.passed, check.detail


def product(name: str, a: np.ndarray, b: np.ndarray):
    judge = of_way(name)
    result = gemm(judge.device, judge.plan, judge.source, a, b)
    return judge.plan, result, allowance(judge.plan, a, b, exact(np.abs(a), np.abs(b)))


@pytest.mark.parametrize("name", ["run scales", "warpgroups, run scales", TENSOR, "mfma, run scales"])
def test_a_sum_survives_runs_that_it_meets_only_zeros_of(name):
    """Large elements of A meet zeros of B and the reverse: their scales are far from those of the small products that are C."""
    k, rng = 3 * 256 + 40, np.random.default_rng(5)
    a, b = (rng.uniform(0.5, 1, shape).astype(np.float32) for shape in ((5, k), (k, 20)))
    a[:, 256:512], b[256:512] = 0, 0
    a[:, 300], b[400] = 2.0**60, 2.0**-60
    a[2, 512:] *= np.float32(2.0**-100)
    b[512:, 3] *= np.float32(2.0**100)
    _, result, allowed = product(name, a, b)
    assert (np.abs(result.c - exact(a, b)) <= allowed).all()
    assert not result.status["repaired"], "no sum was lost on the way"


def test_a_slice_looks_at_its_own_runs():
    """The first two runs have one scale, and the two of the second slice have two."""
    a, b = np.ones((5, 1024), np.float32), np.ones((1024, 7), np.float32)
    a[:, 768:] = 8
    _, result, _ = product("warpgroups, run scales, slices", a, b)
    assert (result.c == 768 + 8 * 256).all()


@pytest.mark.parametrize("name", ["warpgroups, run scales, slices", TENSOR])
def test_a_slice_begins_in_a_run_that_is_far_from_the_first(name):
    """The second of two slices goes on in a run that is near the first one: between the units that its sum has lies more than FP32 holds."""
    a, b = (np.ones(shape, np.float32) for shape in ((5, 1024), (1024, 7)))
    a[:, 512:768], b[512:768] = 2.0**-110, 2.0**-90
    _, result, _ = product(name, a, b)
    assert (result.c == 768).all() and not result.status["repaired"]


@pytest.mark.parametrize("name", tailed(
    ["run scales", "warpgroups, run scales", "warpgroups, run scales, intervals", TENSOR], {"warpgroups, run scales, intervals", TENSOR}))
def test_no_finite_product_overflows(name):
    """From 2^-120 to 2^120 along k, up in A and down in B, and near FP32's largest number in all of A."""
    run = 256
    k, rng = 4 * run, np.random.default_rng(6)
    steps = np.repeat(np.exp2([-120.0, -40.0, 40.0, 120.0]), run)
    for of_a, of_b in ((steps, 1 / steps), (1 / steps, steps), (np.full(k, 2.0**126), np.full(k, 2.0**-10)), (steps, np.full(k, 2.0**-8))):
        a, b = ((rng.uniform(-1, 1, shape) * scale).astype(np.float32) for shape, scale in (((6, k), of_a), ((k, 5), of_b[:, None])))
        plan, result, allowed = product(name, a, b)
        assert np.isfinite(result.c).all() and (np.abs(result.c - exact(a, b)) <= allowed).all()
        assert result.status["repaired"] == 0


@pytest.mark.parametrize("name", ["run scales", "warpgroups, run scales"])
def test_one_operand_jumps_from_run_to_run(name):
    """By more than a power of two of FP32 holds, up or down, while the other operand's scale stays."""
    k, rng = 2 * 256, np.random.default_rng(9)
    for first, second in ((-95, 40), (40, -95)):
        steps = np.ldexp(rng.uniform(0.5, 1, (5, k)).astype(np.float32), np.repeat([first, second], 256))
        for a, b in ((steps, np.ones((k, 3), np.float32)), (np.ones((3, k), np.float32), np.ascontiguousarray(steps.T))):
            _, result, allowed = product(name, a, b)
            assert (np.abs(result.c - exact(a, b)) <= allowed).all() and result.status["repaired"] == 0, (first, second)


@pytest.mark.parametrize("k", [40, 256 + 40])
@pytest.mark.parametrize("name", ["run scales", "warpgroups, run scales"])
def test_a_sum_whose_unit_is_far_from_1_all_along(name, k):
    """All runs have one scale, so that the sum changes its unit at the end alone: by more than a power of two of FP32 holds, either way."""
    rng = np.random.default_rng(8)
    for of_a, of_b in ((-65, -60), (-60, -65), (55, 60), (60, 55), (-100, 5), (5, 100)):
        a, b = (np.ldexp(rng.uniform(0.5, 1, shape).astype(np.float32), e) for shape, e in (((6, k), of_a), ((k, 5), of_b)))
        plan, result, allowed = product(name, a, b)
        assert (np.abs(result.c - exact(a, b)) <= allowed).all() and result.status["repaired"] == 0, (of_a, of_b)


@pytest.mark.parametrize("name", ["run scales", "warpgroups, run scales"])
def test_counters_and_special_values_are_those_of_each_run(name):
    """An Inf or a NaN has no part in its run's scale; an element is lossy beside the largest of its own run alone."""
    k, rng = 2 * 256 + 9, np.random.default_rng(7)
    a, b = (rng.uniform(0.5, 1, shape).astype(np.float32) for shape in ((5, k), (k, 6)))
    a[0, 300], a[1, 3], b[40, 2] = np.inf, np.nan, -np.inf
    a[2, :256] *= np.float32(2.0**-50)
    a[3, 10] = 2.0**-40
    plan, result, _ = product(name, a, b)
    for operand, x in (("a", a), ("b", np.ascontiguousarray(b.T))):
        words = split(x, plan.scheme, operand=operand)
        assert [result.status[field] for field in COUNTERS[f"{operand}_status"]] == [words.lossy, words.overflow, words.nonfinite]
    assert result.status["a_lossy"] == 1
    with np.errstate(invalid="ignore"):
        want = a.astype(np.float64) @ b.astype(np.float64)
    assert np.array_equal(np.isfinite(result.c), np.isfinite(want)) and np.isnan(result.c[1]).all() and (result.c[0, [0, 1, 3]] == np.inf).all()


def test_other_fp16_words_have_run_scales_too(tmp_path):
    """One word, and three: the row says what words there are."""
    for words, products in (("[{ rounding = 'nearest_even' }]", "[{ a = 0, b = 0, into = 'main' }]"), (
        "[{ rounding = 'nearest_even' }, { rounding = 'nearest_even', scale = 11 }, { rounding = 'nearest_even', scale = 22 }]",
        "[{ a = 2, b = 0, into = 'least' }, { a = 0, b = 2, into = 'least' }, { a = 1, b = 1, into = 'least' }, { a = 1, b = 0, into = 'low' },"
        " { a = 0, b = 1, into = 'low' }, { a = 0, b = 0, into = 'main' }]",
    )):
        row = tmp_path / "mine.toml"
        row.write_text(f'name = "mine"\ntitle = "mine"\nsource = "mine"\nword = "f16"\nnormalize = "run"\ntile_k = 256\nown_promote = "fragment"\n'
                       f"words = {words}\nproducts = {products}\n")
        from gemmgen.spec import loads
        from gemmgen.solve import solve

        plan = solve(loads({
            "split": {"scheme": str(row), "promote": 64}, "tile": {"block": [32, 32, 32], "warp": [16, 16, 32]}, "target": {"gpu": "a100"},
            "build": {"allow_spills": True},
        }))
        judge = judge_of(plan)
        assert_bits(judge, 20, 9, 40)
        rng = np.random.default_rng(1)
        a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((9, 600), (600, 5)))
        assert np.array_equal(gemm(judge.device, plan, judge.source, a, b).c, expected_bits(plan, a, b))
