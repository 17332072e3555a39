"""Complex products on a real GPU: both parts with complex factors in every layout, the judge's questions, and torch's own products."""

from __future__ import annotations

import numpy as np
import pytest
from on_a_gpu import answers, assert_right, judge_of
from ways import HOPPER, plan_of

from gemmgen.kinds.kind import COMPLEX_LAYOUTS
from gemmgen.run import gemm
from gemmgen.verify import Judge, complex as of_complex, digests

pytestmark = pytest.mark.device
WGMMA = dict(HOPPER, tile={"block": [128, 128, 64], "warp": [64, 128, 64], "cluster": 2})
KERNELS = {
    "mma": dict(type="c64"), "mma, runs": dict(type="c64", scheme="run_scaled"), "fma": dict(type="c64", scheme="fp32", promote=0, tile={}),
    "wgmma, runs": dict(WGMMA, type="c64", scheme="run_scaled"),
    "wgmma, residues": dict(HOPPER, type="c64", scheme="residues8", promote=0, tile={"block": [128, 256, 128], "warp": [64, 256, 128], "cluster": 2}),
    "wgmma, FP64": dict(HOPPER, type="c128", scheme="residues14", promote=0, tile={"block": [128, 256, 128], "warp": [64, 256, 128], "cluster": 2}),
}


def made(name: str, layout: str = "nn", problem: dict | None = None) -> Judge:
    return judge_of(plan_of(**KERNELS[name], layout=layout, problem=problem))


@pytest.mark.parametrize("layout", COMPLEX_LAYOUTS)
@pytest.mark.parametrize("name", KERNELS)
def test_both_parts_are_right_with_complex_factors(name, layout):
    judge = made(name, layout)
    right, told = of_complex.question(judge.plan, judge.source, judge.device)
    assert right, told


@pytest.mark.parametrize("name", KERNELS)
def test_every_question_is_answered(name):
    assert_right(answers(made(name, "cn")))


def test_the_digests_are_the_published_ones():
    judge = made("wgmma, FP64")
    for case in ("uniform", "spread", "special", digests.ASKED):
        assert digests.found(judge.device, judge.plan, judge.source, case) == digests.DIGESTS[digests.asked(judge.plan, case)], case


def test_a_large_product_is_torchs():
    torch = pytest.importorskip("torch")
    judge, rng = made("wgmma, runs"), np.random.default_rng(1)
    a, b = ((rng.uniform(-1, 1, (1531, 1531)) + 1j * rng.uniform(-1, 1, (1531, 1531))).astype(np.complex64) for _ in "ab")
    want = torch.from_numpy(a).to(torch.complex128) @ torch.from_numpy(b).to(torch.complex128)
    found = gemm(judge.device, judge.plan, judge.source, a, b).c
    assert np.linalg.norm(found - want.numpy()) < 1e-6 * np.linalg.norm(want.numpy())


TRIANGLES = {
    "herk, both": ("cn", {"kind": "herk", "uplo": "both"}), "herk, lower": ("nc", {"kind": "herk"}), "herk, upper": ("nc", {"kind": "herk", "uplo": "upper"}),
    "syrk": ("tn", {"kind": "syrk", "uplo": "both"}), "gemmt": ("cc", {"kind": "gemmt", "uplo": "upper"}), "hemm": ("nc", {"kind": "hemm"}),
    "hemm, right": ("nn", {"kind": "hemm", "side": "right", "uplo": "upper"}), "symm": ("nt", {"kind": "symm"}),
    "her2k, both": ("cn", {"kind": "her2k", "uplo": "both"}), "her2k": ("nc", {"kind": "her2k"}), "syr2k": ("nt", {"kind": "syr2k", "uplo": "upper"}),
    "trmm": ("cn", {"kind": "trmm", "uplo": "upper"}), "trmm, right": ("nc", {"kind": "trmm", "side": "right", "diag": "unit"}),
}


@pytest.mark.parametrize("kind", TRIANGLES)
@pytest.mark.parametrize("name", KERNELS)
def test_triangles_are_right(name, kind):
    layout, problem = TRIANGLES[kind]
    if name in ("mma, runs", "wgmma, runs") and problem["kind"] == "trmm":
        pytest.skip("NOT RUN: such kernels sum all k")
    judge = made(name, layout, problem)
    right, told = of_complex.question(judge.plan, judge.source, judge.device)
    assert right, told


def test_a_large_her2k_is_torchs():
    torch = pytest.importorskip("torch")
    judge, rng = made("wgmma, runs", "nc", {"kind": "her2k"}), np.random.default_rng(3)
    a, b = ((rng.uniform(-1, 1, (1531, 2047)) + 1j * rng.uniform(-1, 1, (1531, 2047))).astype(np.complex64) for _ in "ab")
    alpha, lower = 0.5 - 2j, np.tri(1531, dtype=bool)
    half = alpha * (torch.from_numpy(a).to(torch.complex128) @ torch.from_numpy(b).to(torch.complex128).mH)
    want = (half + half.mH).numpy()
    found = gemm(judge.device, judge.plan, judge.source, a, np.ascontiguousarray(b.conj().T), alpha=alpha).c
    assert np.linalg.norm((found - want)[lower]) < 1e-6 * np.linalg.norm(want[lower]) and not found.diagonal().imag.any()


def test_a_large_herk_is_torchs():
    torch = pytest.importorskip("torch")
    judge, rng = made("wgmma, runs", "nc", {"kind": "herk", "uplo": "both"}), np.random.default_rng(2)
    a = (rng.uniform(-1, 1, (1531, 2047)) + 1j * rng.uniform(-1, 1, (1531, 2047))).astype(np.complex64)
    wide = torch.from_numpy(a).to(torch.complex128)
    want = (wide @ wide.mH).numpy()
    found = gemm(judge.device, judge.plan, judge.source, a, None).c
    assert np.linalg.norm(found - want) < 1e-6 * np.linalg.norm(want) and not found.diagonal().imag.any() and (found == found.conj().T).all()
