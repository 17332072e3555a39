"""Strided batches on a real GPU: the batch's questions, and the exported example."""

from __future__ import annotations

import subprocess

import pytest

from gemmgen.build import first_that_builds
from gemmgen.catalog.gpu import GPUS
from gemmgen.export import export
from gemmgen.run import cuda
from gemmgen.spec import loads
from gemmgen.verify import Judge
from test_export_gpu import compiled_for, nvcc

pytestmark = pytest.mark.device


def prepared(layout: str, where: str):
    if reason := cuda.why_not(GPUS.get("h100")):
        pytest.skip(f"NOT RUN: {reason.problem}")
    kernel = first_that_builds(loads({
        "problem": {"kind": "strided", "layout": layout, "m": 1024, "n": 1024, "k": 256, "matrices": 256}, "split": {"scheme": "ootomo", "where": where},
        "target": {"gpu": "h100"},
    }))
    return kernel.plan, kernel.source, kernel.binary


@pytest.mark.parametrize(("layout", "where"), [("nn", "prepass"), ("tt", "prepass"), ("nt", "mixed"), ("tn", "mixed"), ("tn", "prepass")])
def test_a_batch_is_right(layout, where):
    plan, source, binary = prepared(layout, where)
    device = cuda.CudaDevice(binary)
    device.clusters_at_once = 2
    check = Judge(plan, source, binary, device).batch()
    assert check.passed, check.detail


@pytest.mark.parametrize("layout", ["nn", "tt"])
def test_the_example_passes(layout, tmp_path):
    plan, source, binary = prepared(layout, "prepass")
    export(plan, source, binary, tmp_path / "out", name="lab_gemm")
    nvcc(*compiled_for(plan), "lab_gemm.cu", "example.cpp", "-o", "example", cwd=tmp_path / "out")
    done = subprocess.run([tmp_path / "out" / "example"], capture_output=True, text=True)
    assert not done.returncode, done.stdout + done.stderr
    assert done.stdout.count("ok ") == 3 * 4 + 3


@pytest.mark.parametrize("problem", [
    {"kind": "syrk", "layout": "nt", "uplo": "both"}, {"kind": "syr2k", "layout": "tn"}, {"kind": "gemmt", "uplo": "upper"}, {"kind": "trmm", "side": "right"},
    {"kind": "symm", "uplo": "upper"},
], ids=lambda problem: problem["kind"])
@pytest.mark.parametrize("scheme", ["ootomo", "scaled"])
def test_a_batch_of_a_kind_is_right(scheme, problem):
    if reason := cuda.why_not(GPUS.get("h100")):
        pytest.skip(f"NOT RUN: {reason.problem}")
    kernel = first_that_builds(loads({
        "problem": {**dict.fromkeys("mnk", 512), "matrices": 64, **problem}, "split": {"scheme": scheme}, "target": {"gpu": "h100"},
    }))
    check = Judge(kernel.plan, kernel.source, kernel.binary, cuda.CudaDevice(kernel.binary)).batch()
    assert check.passed, check.detail
