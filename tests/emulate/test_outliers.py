"""Planted outliers: their tiles fall back, the others do not, and C is left alone where another kernel writes it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from verifying import judge_of
from ways import plan_of

from gemmgen.abi import COUNTERS
from gemmgen.export import prose
from gemmgen.verify import oracles
from gemmgen.verify.bound import fallen

PLAN = dict(scheme="mixpert1", fallback="fp32", promote=0, tile={"block": [32, 32, 32], "warp": [32, 32, 32]}, stages=2)


def test_tiles_with_outliers_fall_back_and_no_others():
    judge = judge_of(plan_of(**PLAN))
    check = judge.outliers()
    assert check.passed, check.detail


def test_what_c_held_is_taken_in_once():
    """Both kernels read C where beta is not 0; each element is one kernel's."""
    plan = plan_of(**PLAN)
    judge, problem = judge_of(plan), oracles.outliers(plan)
    c = np.random.default_rng(5).uniform(-1, 1, (problem.a.shape[0], problem.b.shape[1])).astype(np.float32) * 1e4
    result, mask = judge.run(problem, c=c, alpha=1.0, beta=2.0), fallen(plan, problem.a, problem.b)
    want = problem.a.astype(np.float64) @ problem.b + 2.0 * c
    assert mask.any() and not mask.all()
    assert np.abs(result.c - want).max() < 1e-5 * np.abs(want).max()
    assert result.status["fallen"] == mask[::32, ::32].sum()


def test_tiles_of_the_fallback_may_be_parts_of_the_main_kernels(monkeypatch):
    """Four along m and along n: each looks at the flags of the tile that it is a part of, and the first of them alone counts that tile."""
    monkeypatch.setattr("gemmgen.solve.fallback.LARGEST", 16)
    plan = plan_of(**PLAN | {"fallback": "ootomo", "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}}, size=4000)
    assert plan.fallback.block[:2] == (16, 16)
    problem = oracles.outliers(plan)
    result, mask = judge_of(plan).run(problem), fallen(plan, problem.a, problem.b)
    want = problem.a.astype(np.float64) @ problem.b
    assert mask.any() and not mask.all() and np.abs(result.c - want).max() < 1e-5 * np.abs(want).max()
    assert result.status["fallen"] == mask[::64, ::64].sum()


def test_a_row_stands_out_from_one_element_on():
    """1 and 63 elements of which integers of eight bits hold nothing have a sum of squares of 64 each; one more is one too many."""
    plan = plan_of(**PLAN)
    a, b = np.zeros((33, 70), np.float32), np.ones((70, 9), np.float32)
    a[3, :64], a[3, 5] = 1e-6, 1
    for count, wanted in ((64, 0), (65, 1)):
        a[3, :count] = np.where(a[3, :count] == 0, np.float32(1e-6), a[3, :count])
        assert judge_of(plan).run(oracles.Problem(a, b)).status["fallen"] == fallen(plan, a, b)[::32].any(axis=1).sum() == wanted


def test_rows_and_columns_that_are_not_finite_do_not_stand_out():
    """Their words are 0 but for those of what is not finite, and their elements are computed again; the tiles stay the main kernel's."""
    rng = np.random.default_rng(7)
    a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((33, 2000), (2000, 35)))
    a[2, 5], b[39, 34] = np.inf, np.nan
    result = judge_of(plan_of(**PLAN)).run(oracles.Problem(a, b))
    with np.errstate(invalid="ignore"):
        want = a @ b
    finite = np.isfinite(want)
    assert np.array_equal(result.c[~finite], want[~finite], equal_nan=True) and np.abs(result.c[finite] - want[finite]).max() < 0.5
    assert result.status["fallen"] == 0 and result.status["repaired"] == (~finite).sum() == 35 + 32


def test_what_the_fallback_loses_is_counted_in_each_tile_that_falls_back():
    """FP16 words hold little of rows of 1e-10, which the integers hold: a column beside an outlier's errs, and the counters that the bound names tell."""
    plan = plan_of(**PLAN | {"scheme": "mixpert4", "fallback": "ootomo"})
    k = 300
    stages = -(-k // plan.fallback.block[2])
    rng = np.random.default_rng(2)
    a, b = ((rng.uniform(0.5, 1, shape) * rng.choice([-1, 1], shape)).astype(np.float32) for shape in ((3, k), (k, 32 * stages + 2)))
    a *= np.float32(1e-10)
    b[7, -1] = 1000.0  # the last tile's first stage has its turn to be counted after all that there are
    judge = judge_of(plan)
    result = judge.run(oracles.Problem(a, b))
    error, reach = np.abs(result.c - a.astype(np.float64) @ b), k * np.abs(a).max(axis=1)[:, None] * np.abs(b).max(axis=0)[None, :]
    limit = max(one.scaled for one in (prose.coefficients(plan, k), prose.coefficients(replace(plan, fallback=None), k))) * reach
    assert result.status["fallen"] == 1 and (error[:, -2] > 10 * limit[:, -2]).any() and (error[:, :-2] <= limit[:, :-2]).all()
    assert not any(result.status[name] for names in COUNTERS.values() for name in names)
    assert {name for name in prose.voiding(plan) if result.status[name]} == {"fallback_a_lossy"}
    assert result.status["fallback_a_lossy"] == a.size
