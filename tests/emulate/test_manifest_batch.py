"""The manifest of an exported batch alone, without plan or launcher, is enough to run its kernel; one with a queue twice in one workspace."""

from __future__ import annotations


import numpy as np
import pytest

import foreign_batch
from gemmgen.run.batch import Product, batch
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.solve import solve
from gemmgen.spec import loads
from test_manifest import exported

SIZES = ((20, 17, 9), (0, 5, 5), (16, 16, 0), (35, 33, 12))


@pytest.mark.parametrize(("kind", "walk", "layout", "more"), [
    ("grouped", "persistent", "nt", {"split": {"scheme": "ootomo"}, "target": {"gpu": "h200"}, "batch": {"tiles": [[32, 32, 32, 128], [64, 64, 32, 128]]}}),
    ("strided", "workgroups", "nn", {"split": {"scheme": "fp32"}, "target": {"gpu": "a800"}}),
    ("pointers", "workgroups", "tn", {"split": {"scheme": "fp32"}, "target": {"gpu": "a800"}}),
], ids=["grouped", "strided, listed", "pointers, listed"])
def test_the_manifest_is_enough_to_launch_a_batch(kind, walk, layout, more, tmp_path):
    plan = solve(loads({"problem": {"kind": kind, "layout": layout, "m": 264, "n": 264, "k": 264, "matrices": 64}, "build": {"allow_spills": True}, **more,
                        "batch": {"walk": walk} | more.get("batch", {})}))
    device, source, manifest = exported(plan, tmp_path / "out")
    rng, stays = np.random.default_rng(0), walk == "persistent"
    sizes = SIZES if kind == "grouped" else SIZES[:1] * 2
    asked = [(*(rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n))), 0.5, 0.0) for m, n, k in sizes]
    asked[0][0][1, 2] = np.inf
    want = batch(EmulatorDevice(plan, source, device.binary), plan, source, [Product(*one) for one in asked])
    got, status = foreign_batch.products(manifest, device, lambda buffer: buffer.address, asked, most_blocks=2, launches=1 + stays)
    for one, other in zip(got, want.products):
        assert np.array_equal(one.view(np.uint32), other.view(np.uint32))
    assert status == {name: (1 + stays) * value for name, value in want.status.items()} and status["a_nonfinite"] == 1 + stays
    device.release()
