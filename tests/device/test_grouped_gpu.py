"""Kernels for batches on a real GPU: every question of batches, and a ragged batch whose tiles outnumber the blocks."""

from __future__ import annotations

import pytest

from gemmgen.build import build
from gemmgen.catalog.gpu import GPUS
from gemmgen.render import render
from gemmgen.run import cuda
from gemmgen.run.batch import batch
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.verify.batch import QUESTIONS
from on_a_gpu import needs
from test_packed_gpu import assert_right, drawn

pytestmark = pytest.mark.device
CASES = [
    (kind, walk, scheme, layout)
    for kind, walk, scheme, layout in (
        ("grouped", "persistent", "ootomo", "nn"), ("grouped", "workgroups", "ootomo", "tt"), ("grouped", "workgroups", "fp32", "nn"),
        ("grouped", "persistent", "fp32", "nt"), ("pointers", "persistent", "bf16x3", "tn"), ("strided", "workgroups", "ootomo", "nn"),
    )
]


def prepared(kind: str, walk: str, scheme: str, layout: str):
    needs(GPUS.get("h100"))
    plan = solve(loads({
        "problem": {"kind": kind, "layout": layout}, "split": {"scheme": scheme}, "batch": {"walk": walk}, "pipeline": {"design": "grouped"},
        "target": {"gpu": "h100"},
    }))
    source = render(plan)
    return plan, source, build(source)


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_the_questions_of_batches(case):
    plan, source, binary = prepared(*case)
    for question in QUESTIONS.values():
        passed, told = question(cuda.CudaDevice(binary), plan, source)
        assert passed, told


@pytest.mark.parametrize("case", CASES[:4], ids="-".join)
def test_more_tiles_than_blocks_and_more_products_than_a_list(case):
    plan, source, binary = prepared(*case)
    products = drawn(600, 200)
    assert_right(products, batch(cuda.CudaDevice(binary), plan, source, products))
