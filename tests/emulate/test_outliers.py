"""Planted outliers: their tiles fall back, the others do not, and C is left alone where another kernel writes it."""

from __future__ import annotations

import numpy as np
from test_sabotage import judge_of
from ways import plan_of

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
