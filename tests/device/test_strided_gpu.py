"""Strided batches on a real GPU: the batch's questions, and the exported example."""

from __future__ import annotations


import pytest

from gemmgen.build import first_that_builds
from gemmgen.catalog.gpu import GPUS
from gemmgen.run import cuda
from gemmgen.spec import loads
from gemmgen.verify import Judge
from on_a_gpu import needs
from test_export_gpu import assert_example_passes

pytestmark = pytest.mark.device


def prepared(layout: str, where: str):
    needs(GPUS.get("h100"))
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
    assert_example_passes(prepared(layout, "prepass"), 3 * 4 + 3, tmp_path / "out")


@pytest.mark.parametrize("problem", [
    {"kind": "syrk", "layout": "nt", "uplo": "both"}, {"kind": "syr2k", "layout": "tn"}, {"kind": "gemmt", "uplo": "upper"}, {"kind": "trmm", "side": "right"},
    {"kind": "symm", "uplo": "upper"},
], ids=lambda problem: problem["kind"])
@pytest.mark.parametrize("scheme", ["ootomo", "scaled"])
def test_a_batch_of_a_kind_is_right(scheme, problem):
    needs(GPUS.get("h100"))
    kernel = first_that_builds(loads({
        "problem": {**dict.fromkeys("mnk", 512), "matrices": 64, **problem}, "split": {"scheme": scheme}, "target": {"gpu": "h100"},
    }))
    check = Judge(kernel.plan, kernel.source, kernel.binary, cuda.CudaDevice(kernel.binary)).batch()
    assert check.passed, check.detail
