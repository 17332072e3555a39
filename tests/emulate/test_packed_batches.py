"""Batches on packed words, emulated: every way of the kernel, either order of warps, many products, none, and a batch that two kernels share."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from gemmgen import emulate, road
from gemmgen.abi import interface
from gemmgen.model.batch import divided
from gemmgen.run import Placement, allocated, arguments
from gemmgen.run.batch import Product, _given, batch, sizes_of
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.run.mixed import division, mixed
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.verify.batch import QUESTIONS, ragged
from verifying import on_emulator
from ways import tailed

SMALL, SQUARE = ({"block": [64, n, 32], "warp": [64, n, 32]} for n in (32, 64))
WAYS = {
    "packed words": {},
    "clusters": {"tile": {"cluster": 2}},
    "taking turns": {"pipeline": {"consumers": "pingpong"}},
    "taking turns in clusters of four": {"pipeline": {"consumers": "pingpong"}, "tile": {"cluster": 4}},
    "side by side, transposed": {"problem": {"layout": "tt"}, "tile": {"block": [64, 64, 32]}},
    "below one another": {"problem": {"layout": "nt"}, "tile": {"block": [128, 32, 32], "cluster": 2}},
    "pointers": {"problem": {"kind": "pointers", "layout": "tn"}},
    "non-finite as they come": {"split": {"special": "fast"}},
    "32-bit words": {"split": {"scheme": "tf32x3", "promote": 32}, "tile": {"block": [64, 16, 16], "warp": [64, 16, 16]}},
    "odd groups of columns": {"tile": {"block": [64, 72, 32], "warp": [64, 72, 32]}},
}


def planned(**sections):
    data = {
        "problem": {"kind": "grouped", "m": 256, "n": 256, "k": 256, "matrices": 64}, "split": {"scheme": "ootomo", "promote": 64},
        "tile": {"cluster": 1, **SMALL}, "pipeline": {"stages": 3}, "fragment": {"policy": "wgmma"}, "target": {"gpu": "h100"},
        "build": {"allow_spills": True},
    }
    return solve(loads({name: data.get(name, {}) | sections.get(name, {}) for name in {**data, **sections}}))


def prepared(**sections):
    return on_emulator(planned(**sections))


@pytest.mark.parametrize("way", tailed(WAYS, {
    "packed words", "taking turns", "side by side, transposed", "below one another", "non-finite as they come", "odd groups of columns",
}))
def test_a_batch_is_right_in_every_way_and_order(way):
    device, plan, source = prepared(**WAYS[way])
    for order in (emulate.LAZY_HIGHEST, emulate.EAGER_LOWEST):
        device.set_schedule(order)
        passed, told = QUESTIONS["batch"](device, plan, source)
        assert passed, told
    passed, told = QUESTIONS["empty"](device, plan, source)
    assert passed, told
    assert not sum(device.conflicts.values())


def test_either_order_of_warps_gives_the_same_bits():
    device, plan, source = prepared(tile={"cluster": 2})
    found = []
    for order in (emulate.LAZY_HIGHEST, emulate.EAGER_LOWEST):
        device.set_schedule(order)
        found.append(batch(device, plan, source, ragged(plan)))
    assert all(one.tobytes() == other.tobytes() for one, other in zip(found[0].products, found[1].products)) and found[0].status == found[1].status


def test_more_products_than_lanes_of_a_warp_are_told_apart():
    """Products of 1 x 1 x 1, whose results say which they are, more of them than a warp has lanes; every 50th has no C, every 7th no k."""
    device, plan, source = prepared()
    one = np.ones((1, 1), np.float32)
    products = [
        Product(one[:, :0] * 1, one[:0] * 1, one * at, beta=1.0) if at % 7 == 0 else Product(one[:0], one) if at % 50 == 1 else Product(one * at, one)
        for at in range(60)
    ]
    found = batch(device, plan, source, products)
    assert [c.tolist() for c in found.products] == [[] if at % 50 == 1 and at % 7 else [[float(at)]] for at in range(60)]
    assert found.intact


def test_with_alpha_zero_the_operands_are_not_looked_at():
    device, plan, source = prepared()
    a, b = np.full((70, 40), np.nan, np.float32), np.full((40, 70), np.inf, np.float32)
    c = np.arange(4900, dtype=np.float32).reshape(70, 70)
    placement = Placement((3, 5, 1), (4, 8, 12))
    found = batch(device, plan, source, [Product(a, b, c, alpha=0.0, beta=0.5, placement=placement), Product(c, c[:, :3])])
    assert (found.products[0] == c / 2).all() and found.intact and not any(value for name, value in found.status.items() if "nonfinite" in name)


def test_what_is_not_finite_is_repaired_from_its_own_operands_and_counted_once():
    device, plan, source = prepared(tile={"cluster": 2})
    rng = np.random.default_rng(2)
    products = [Product(*(rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((m, 40), (40, 68)))) for m in (68, 130, 9)]
    products[1].a[3, 5], products[2].b[7, 9] = np.inf, 1e6
    found = batch(device, plan, source, products)
    assert not np.isfinite(found.products[1][3]).any() and np.isfinite(np.delete(found.products[1], 3, axis=0)).all()
    assert np.abs(found.products[2] - products[2].a.astype(np.float64) @ products[2].b).max() < 1
    assert found.status["a_nonfinite"] == found.status["b_overflow"] == 1 and found.status["repaired"] == 68 + 9


def test_a_batch_that_two_kernels_share(monkeypatch):
    """Large products go to packed words, small ones to the grouped design, and each result to its place."""
    large = road.build(loads({
        "problem": {"kind": "grouped"}, "split": {"scheme": "ootomo", "promote": 64}, "tile": {"cluster": 1, **SQUARE}, "pipeline": {"stages": 3},
        "fragment": {"policy": "wgmma"}, "target": {"gpu": "h200"},
    }))
    small = road.build(loads({
        "problem": {"kind": "grouped"}, "split": {"scheme": "ootomo"}, "batch": {"walk": "workgroups", "tiles": [[32, 32, 32, 128]]}, "target": {"gpu": "h200"},
    }))
    # Of so few products no class gains what another kernel takes.
    monkeypatch.setattr("gemmgen.run.mixed.divided", lambda first, second, *each: divided(first, second, 0.0, 0.0))
    rng = np.random.default_rng(5)
    sizes = [(16, 16, 32), (192, 192, 96), (1, 1, 1), (20, 30, 64), (192, 256, 96)]
    products = [Product(*(rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((m, k), (k, n)))) for m, n, k in sizes]
    assert division(small.plan, large.plan, sizes_of(products)).tolist() == [False, True, False, False, True]
    devices = [EmulatorDevice(one.plan, one.source, one.binary) for one in (small, large)]
    found = mixed(devices, (small, large), products)
    for one, c in zip(products, found.products):
        assert np.abs(c - one.a.astype(np.float64) @ one.b).max() < 1e-5
    assert found.intact and found.status["a_nonfinite"] == 0


@pytest.mark.parametrize("cluster", [1, 2])
def test_every_turn_of_a_product_without_k_is_listed(cluster):
    """More turns than its only block of the split pass has threads, in the order of raster groups."""
    device, plan, source = prepared(tile={"cluster": cluster})
    rows, columns = 41, 29
    none = np.zeros((plan.block[0] * rows - 1, 0), np.float32)
    products = [Product(none, np.zeros((0, plan.block[1] * columns - 3), np.float32), np.broadcast_to(np.float32(0), (len(none), plan.block[1] * columns - 3)))]
    listed = plan.design.listed(plan, sizes_of(products))
    extents = listed.extents | source.interface.constants
    try:
        memory = allocated(device, source.interface, extents)
        held = SimpleNamespace(a=0, b=0, c=0, lda=1, ldb=columns * plan.block[1], ldc=columns * plan.block[1], buffers=[])
        given = _given(device, plan, products, [held], listed)
        launch = source.launches[0]
        assert launch.role == "split" and launch.blocks(extents) == 1
        device.launch(launch.symbol, 1, launch.threads, launch.shared_bytes, arguments(launch, given, memory))
        works = device.download(memory["works", 0], np.int32, 8 * extents["turns"]).reshape(-1, 8)
    finally:
        device.release()
    down, want = -(-rows // cluster), []
    for first in range(0, down, plan.group):
        group = range(first, min(first + plan.group, down))
        want += [(row * cluster * plan.block[0], column * plan.block[1], min(cluster, rows - row * cluster) - 1) for column in range(columns) for row in group]
    assert len(want) > launch.threads and works[:, [1, 2, 6]].tolist() == [list(one) for one in want]
    assert not works[:, [0, 3, 4, 5]].any()


def test_the_workspace_holds_what_the_list_says():
    plan = planned(tile={"cluster": 2, **SQUARE})
    listed = plan.design.listed(plan, np.array([[65, 70, 40], [0, 9, 9], [1, 1, 0], [64, 64, 65]]))
    # the longest k first; tiles of 64x64x32: 2x2 of 2 stages, none, 1x1 of none, 1x1 of 3 stages; a block of the split pass takes 128 rows and 64 k
    assert listed.rows["entry"].tolist() == [3, 0, 2]
    assert listed.extents == {"split_blocks": 4 + 2 + 1, "turns": 1 + 2 + 1, "a_stages": 3 + 4, "b_stages": 3 + 4}
    assert listed.rows["block"].tolist() == [0, 4, 6] and listed.rows["turn"].tolist() == [0, 1, 3] and listed.rows["a_stage"].tolist() == [0, 3, 7]
    lengths = interface(plan).laid_out(listed.extents | {"cluster": 2}).lengths
    assert lengths["a_words"] == 7 * 2 * 64 * 32 * 2 and lengths["works"] == 4 * 32
