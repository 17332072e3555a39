"""Kernels for batches on packed words on a real GPU: every question of batches, many products, and a batch shared with another kernel."""

from __future__ import annotations

import numpy as np
import pytest

from gemmgen import road
from gemmgen.catalog.gpu import GPUS
from gemmgen.paths import SPECS
from gemmgen.run import cuda
from gemmgen.run.batch import BatchResult, Product, batch
from gemmgen.verify.batch import QUESTIONS
from on_a_gpu import needs

pytestmark = pytest.mark.device
WAYS = {
    "clusters": {"tile": {"block": [128, 128, 64], "warp": [64, 128, 64], "cluster": 2}},
    "taking turns": {"tile": {"block": [64, 128, 64], "warp": [64, 128, 64], "cluster": 1}, "problem": {"layout": "tt"}},
    "pointers": {"problem": {"kind": "pointers"}},
    "fast": {"split": {"special": "fast", "scheme": "half"}},
}


def built(**sections):
    needs(GPUS.get("h200"))
    data = {"problem": {"kind": "grouped"}, "split": {"scheme": "ootomo"}, "fragment": {"policy": "wgmma"}, "target": {"gpu": "h200"}}
    return road.build({name: data.get(name, {}) | sections.get(name, {}) for name in {**data, **sections}})


@pytest.mark.parametrize("way", WAYS)
def test_the_questions_of_batches(way):
    made = built(**WAYS[way])
    for question in QUESTIONS.values():
        passed, told = question(cuda.CudaDevice(made.binary), made.plan, made.source)
        assert passed, told


def drawn(count: int, most: int) -> list[Product]:
    rng = np.random.default_rng(3)
    return [
        Product(*(rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((m, k), (k, n)))) for m, n, k in rng.integers(1, most, (count, 3))
    ]


def assert_right(products: list[Product], found: BatchResult) -> None:
    for one, c in zip(products, found.products):
        magnitude = np.abs(one.a).astype(np.float64) @ np.abs(one.b)
        assert (np.abs(c - one.a.astype(np.float64) @ one.b) <= 2e-6 * magnitude + 1e-30).all()
    assert found.intact


def test_more_products_than_a_warp_looks_at_at_once():
    made, products = built(), drawn(1100, 150)
    assert_right(products, batch(cuda.CudaDevice(made.binary), made.plan, made.source, products))


def test_a_batch_shared_with_another_kernel():
    made, products = built(), drawn(200, 700)
    assert_right(products, road.multiply_batch(SPECS / "kernels/batch_listed_h200.toml", products, device="cuda", beside=made))
