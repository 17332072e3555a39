"""Kernels for batches on a real GPU: every question of batches, and a ragged batch whose tiles outnumber the blocks."""

from __future__ import annotations

import numpy as np
import pytest

from gemmgen.build import build
from gemmgen.catalog.gpu import GPUS
from gemmgen.render import render
from gemmgen.run import cuda
from gemmgen.run.batch import Product, batch
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.verify.batch import QUESTIONS

pytestmark = pytest.mark.device
CASES = [
    (kind, walk, scheme, layout)
    for kind, walk, scheme, layout in (
        ("grouped", "persistent", "ootomo", "nn"), ("grouped", "workgroups", "ootomo", "tt"), ("grouped", "workgroups", "fp32", "nn"),
        ("grouped", "persistent", "fp32", "nt"), ("pointers", "persistent", "bf16x3", "tn"), ("strided", "workgroups", "ootomo", "nn"),
    )
]


def prepared(kind: str, walk: str, scheme: str, layout: str):
    if reason := cuda.why_not(GPUS.get("h100")):
        pytest.skip(f"NOT RUN: {reason.problem}")
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
    rng = np.random.default_rng(3)
    products = [Product(*(rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((m, k), (k, n)))) for m, n, k in rng.integers(1, 200, (600, 3))]
    found = batch(cuda.CudaDevice(binary), plan, source, products)
    for one, c in zip(products, found.products):
        magnitude = np.abs(one.a).astype(np.float64) @ np.abs(one.b)
        assert (np.abs(c - one.a.astype(np.float64) @ one.b) <= 2e-6 * magnitude + 1e-30).all()
    assert found.intact
