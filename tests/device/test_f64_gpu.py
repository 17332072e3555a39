"""FP64 by residues on a real GPU: the judge's questions in every layout, and every bit of C beside the reference in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from on_a_gpu import answers, assert_right, judge_of, needs
from ways import HOPPER, plan_of

from gemmgen.build import build
from gemmgen.render import render
from gemmgen.run import Placement, cuda, gemm
from gemmgen.run.batch import Product, batch
from gemmgen.split import joined, split
from gemmgen.verify import Judge, digests

pytestmark = pytest.mark.device
KERNELS = {
    "mma": dict(scheme="residues14", promote=0, tile={"block": [128, 64, 64], "warp": [64, 32, 64]}),
    "wgmma": dict(HOPPER, scheme="residues14", promote=0, tile={"block": [128, 256, 128], "warp": [64, 256, 128], "cluster": 2}),
    "wgmma, alone": dict(HOPPER, scheme="residues16", promote=0, tile={"block": [64, 64, 128], "warp": [64, 64, 128], "cluster": 1}),
}


OF_FP32 = {
    "FP32, mma": dict(KERNELS["mma"], scheme="residues7"), "FP32, wgmma": dict(KERNELS["wgmma"], scheme="residues7"),
    "complex FP32, wgmma": dict(KERNELS["wgmma"], scheme="residues7", type="c64"),
}


def made(name: str, layout: str = "nn") -> Judge:
    return judge_of(plan_of(**(KERNELS | OF_FP32)[name], layout=layout))


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("name", KERNELS)
def test_every_question_is_answered(name, layout):
    judge = made(name, layout)
    assert_right([*answers(judge), judge.digest()])


def assert_references(judge: Judge, a: np.ndarray, b: np.ndarray) -> None:
    scheme = judge.plan.scheme
    want = joined(split(a, scheme), split(np.ascontiguousarray(b.T), scheme), scheme)
    assert (gemm(judge.device, judge.plan, judge.source, a, b).c == want).all()


@pytest.mark.parametrize("k", [1, 4099])
@pytest.mark.parametrize("name", KERNELS)
def test_every_bit_is_the_references(name, k):
    rng = np.random.default_rng(k)
    assert_references(made(name), *(rng.uniform(-1, 1, shape) * np.exp2(rng.integers(-40, 41, shape)) for shape in ((131, k), (k, 70))))


@pytest.mark.parametrize("name", KERNELS)
def test_sums_that_int32_would_not_hold_are_the_references(name):
    """Residues of one sign, in more k than 2^31 / 127^2: sums are reduced after each 65536."""
    k = 300_003
    judge, rows = made(name), np.array([1, 3, 5, 11, 13])[:, None] / 7
    assert_references(judge, np.repeat(rows, k, axis=1), np.repeat(rows[:3].T, k, axis=0))


@pytest.mark.parametrize("name", ["mma", "wgmma", "FP32, mma", "FP32, wgmma", "complex FP32, wgmma"])
def test_the_digests_are_the_published_ones(name):
    judge = made(name)
    for case in ("uniform", "spread", "special", digests.ASKED):
        assert digests.found(judge.device, judge.plan, judge.source, case) == digests.DIGESTS[digests.asked(judge.plan, case)], case


@pytest.mark.parametrize("kind", ["pointers", "grouped"])
@pytest.mark.parametrize("name", KERNELS)
def test_products_that_are_told_one_by_one_have_the_references_bits(name, kind):
    """Of one size with a pointer each, or of several sizes, one without k: alpha A B + beta C with A B as the reference has it, and nothing written beside C."""
    way = KERNELS[name]
    plan = plan_of(**way, problem={"type": "f64", "kind": kind, "matrices": 8})
    needs(plan)
    source = render(plan)
    binary = build(source)
    device = cuda.CudaDevice(binary)
    rng = np.random.default_rng(3)
    sizes = [(131, 70, 517)] * 5 if kind == "pointers" else [(131, 70, 517), (1, 1, 1), (300, 513, 1030), (40, 9, 0), (65, 129, 64)]
    products = [Product(rng.uniform(-1, 1, (m, k)), rng.uniform(-1, 1, (k, n)), placement=Placement((1, 3, 2), (8, 16, 24))) for m, n, k in sizes]
    found = batch(device, plan, source, products)
    assert found.intact and not any(found.status.values())
    for one, c in zip(products, found.products):
        want = joined(split(one.a, plan.scheme), split(np.ascontiguousarray(one.b.T), plan.scheme), plan.scheme) if one.sizes[2] else np.zeros_like(c)
        assert (c == want).all(), one.sizes
