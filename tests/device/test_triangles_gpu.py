"""Triangles of C on a real GPU: the judge's questions to kernels of each kind, side and way, and the shipped specs' whole reports."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from on_a_gpu import answers, assert_right, assert_verified, judge_of
from ways import HOPPER, plan_of

from gemmgen.kinds.solves import Trsm
from gemmgen.kinds.triangles import BOTH, LOWER, UPPER, Gemmt, Syr2k, Syrk
from gemmgen.kinds.triangular import LEFT, RIGHT, UNIT, Symm, Trmm
from gemmgen.paths import SPECS
from gemmgen.run import gemm
from gemmgen.verify import Judge, oracles
from test_gpu import local_gpu

pytestmark = pytest.mark.device
SQUARE = {"block": [128, 128, 64], "warp": [64, 128, 64]}
KERNELS = {
    "portable": dict(stages=3), "portable, slices": dict(split_k=2, stages=3), "split behind shared memory": dict(where="register", stages=2),
    "warpgroups": HOPPER | dict(tile=SQUARE | {"cluster": 1}), "clusters": HOPPER | dict(tile=SQUARE | {"cluster": 2}),
    "turns": HOPPER | dict(tile={"block": [64, 64, 64], "warp": [64, 64, 64], "cluster": 2}, consumers="pingpong"),
    "slices": HOPPER | dict(tile={"block": [64, 64, 64], "warp": [64, 64, 64], "cluster": 2}, split_k=2, stages=3),
    "row scales": HOPPER | dict(scheme="scaled", tile=SQUARE | {"cluster": 2}),
    "residues": HOPPER | dict(scheme="residues8", promote=0, tile={"block": [64, 64, 128], "warp": [64, 64, 128], "cluster": 2}),
}


def made(name: str, kind) -> Judge:
    return judge_of(replace(plan_of(**KERNELS[name], layout="tn" if kind == Symm(LOWER, RIGHT) else "nt"), kind=kind))


@pytest.mark.parametrize("kind", [Syrk(LOWER), Syrk(UPPER), Syrk(BOTH), Gemmt(LOWER), Gemmt(UPPER)], ids=lambda kind: f"{kind}-{kind.options['uplo']}")
@pytest.mark.parametrize("name", KERNELS)
def test_every_question_is_answered(name, kind):
    judge = made(name, kind)
    assert_right([judge.whole(), *answers(judge, (1031, 1013, 2051))])


@pytest.mark.parametrize("kind", [Trmm(LOWER), Trmm(UPPER, LEFT, UNIT), Trmm(LOWER, RIGHT), Symm(UPPER), Symm(LOWER, RIGHT), Syr2k(LOWER), Syr2k(BOTH)],
                         ids=lambda kind: "-".join((kind.name, *kind.options.values())))
@pytest.mark.parametrize("name", ["portable", "portable, slices", "clusters", "slices", "row scales"])
def test_kinds_that_a_pass_splits_before(name, kind):
    judge = made(name, kind)
    checks = [judge.whole(), judge.edges(), judge.special(), judge.range(), judge.bits("probes", oracles.probes(judge.plan)),
              judge.accuracy("U[0, 1]", oracles.uniform(judge.plan, 0, 1, (1031, 513, 1027), 6)).check]
    assert_right(checks)


@pytest.mark.parametrize("kind", [Trsm(LOWER), Trsm(UPPER), Trsm(LOWER, RIGHT), Trsm(UPPER, RIGHT, UNIT)],
                         ids=lambda kind: "-".join((kind.name, *kind.options.values())))
@pytest.mark.parametrize("name", ["portable", "portable, slices", "split behind shared memory", "clusters", "slices", "row scales", "residues"])
def test_triangular_systems(name, kind):
    """Residuals of ragged systems, and Inf and NaN; of each side stored either way."""
    plan = replace(plan_of(**KERNELS[name], layout={LOWER: "nn", UPPER: "tn" if kind.left else "nt"}[kind.options["uplo"]]), kind=kind)
    assert_right([judge_of(plan).whole()])


@pytest.mark.parametrize("m", [4096, 5000])
@pytest.mark.parametrize("uplo", [LOWER, UPPER, BOTH])
def test_every_tile_of_a_large_triangle_is_there_and_no_other_element_is_written(uplo, m):
    """Small integers, so that every bit is known."""
    judge = made("clusters", Syrk(uplo))
    a = np.random.default_rng(1).integers(-4, 5, (m, 96)).astype(np.float32)
    c = np.random.default_rng(2).integers(-9, 9, (m, m)).astype(np.float32)
    result = gemm(judge.device, judge.plan, judge.source, a, None, c, alpha=2.0, beta=-1.0)
    want = np.where(judge.plan.kind.computed(m, m), 2 * (a @ a.T) - judge.plan.kind.read(c), c)
    assert (result.c == want).all() and result.intact


@pytest.mark.parametrize("name", ["syrk_h200", "syrk_a100", "syr2k_h200", "trmm_h200", "trsm_h200", "symm_a100"])
def test_the_shipped_kernels_pass(name):
    assert_verified(SPECS / "kernels" / f"{name}.toml")


@pytest.mark.parametrize("scheme", ["ootomo", "scaled"])
@pytest.mark.parametrize("problem", [{}, {"side": "right", "uplo": "upper", "layout": "nt", "diag": "unit"}], ids=["left", "right"])
def test_batches_of_systems_pass(problem, scheme):
    spec = {"problem": {"kind": "trsm", "m": 1024, "n": 1024, "k": 1024, "matrices": 16, **problem}, "split": {"scheme": scheme, "where": "prepass"},
            "target": {"gpu": local_gpu()}}
    assert_verified(spec)


@pytest.mark.parametrize(("type", "scheme", "size"), [
    ("f64", "residues14", 1024), ("c64", "ootomo", 1024), ("c64", "run_scaled", 1024), ("c128", "residues14", 1024), ("f32", "ootomo", 2048), ("f32", "ootomo", 8192),
])
@pytest.mark.parametrize("problem", [{}, {"side": "right", "uplo": "upper", "layout": "nt", "diag": "unit"}], ids=["left", "right"])
def test_systems_of_other_elements_and_thread_blocks_pass(type, scheme, size, problem):
    """Of complex elements of a conjugated triangle."""
    if type[0] == "c":
        problem = problem | {"layout": "nc" if problem else "cn"}
    spec = {"problem": {"kind": "trsm", "type": type, "m": size, "n": size, "k": size, **problem}, "split": {"scheme": scheme}, "target": {"gpu": local_gpu()}}
    assert_verified(spec)
