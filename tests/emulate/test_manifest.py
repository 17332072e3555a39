"""An export's manifest alone, without plan or launcher, is enough to run its kernels."""

from __future__ import annotations

import json

import numpy as np
import pytest

import foreign
from gemmgen.build import build
from gemmgen.export import export
from gemmgen.render import render
from gemmgen.run import gemm
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.solve import solve
from gemmgen.spec import loads
from ways import sampled

BLOCK = {"block": [64, 64, 32], "warp": [32, 32, 32]}
GROUP = {"block": [64, 16, 32], "warp": [64, 16, 32]}  # of a warpgroup


def exported(plan, folder):
    """A device with a plan's kernel, its source, and the manifest of its export."""
    source = render(plan)
    binary = build(source)
    export(plan, source, binary, folder)
    return EmulatorDevice(plan, source, binary), source, json.loads((folder / "manifest.json").read_text())


@pytest.mark.parametrize(("scheme", "layout", "special", "more"), sampled([
    ("ootomo", "nn", "exact", {"tile": BLOCK}),
    ("scaled", "tt", "fast", {"tile": BLOCK}),
    ("ootomo", "nt", "fast", {"tile": {**BLOCK, "split_k": 2}}),
    ("ootomo", "nt", "exact", {"tile": {**GROUP, "cluster": 2, "split_k": 2}, "target": {"gpu": "h100"}}),
    ("scaled", "tn", "exact", {"tile": {**GROUP, "cluster": 1}, "target": {"gpu": "h100"}}),
    ("ootomo", "nn", "exact", {"tile": BLOCK, "target": {"gpu": "mi210"}}),
    ("scaled", "tt", "fast", {"tile": {**BLOCK, "split_k": 2}, "target": {"gpu": "rx7900xtx"}}),
], 3), ids=["ootomo", "scaled", "slices", "clusters and slices", "warpgroups", "CDNA", "RDNA, slices"])
def test_the_manifest_is_enough_to_launch(scheme, layout, special, more, tmp_path):
    fragment = {"a100": {"policy": "mma"}, "h100": {"policy": "wgmma"}}.get(more.get("target", {"gpu": "a100"})["gpu"], {})
    plan = solve(loads({
        "problem": {"layout": layout}, "split": {"scheme": scheme, "special": special}, "fragment": fragment,
        "target": {"gpu": "a100"}, "build": {"allow_spills": True}, **more,
    }))
    device, source, manifest = exported(plan, tmp_path / "out")

    rng = np.random.default_rng(0)
    a, b, c = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((70, 50), (50, 45), (70, 45)))
    a[3, 4], b[5, 6] = 1e6, np.inf
    want = gemm(EmulatorDevice(plan, source, device.binary), plan, source, a, b, c, alpha=0.5, beta=2.0)
    got, status = foreign.product(manifest, device, lambda buffer: buffer.address, a, b, c, 0.5, 2.0)
    assert np.array_equal(got.view(np.uint32), want.c.view(np.uint32))
    assert status == want.status
    assert status["b_nonfinite"] == 1 and (scheme == "scaled" or status["a_overflow"] == 1)
    device.release()


def test_a_wrong_offset_in_the_manifest_would_show(tmp_path):
    """The test above can fail: the regions' sizes matter."""
    plan = solve(loads({"split": {"scheme": "ootomo"}, "tile": BLOCK, "target": {"gpu": "a100"}}))
    device, _, manifest = exported(plan, tmp_path / "out")
    next(r for r in manifest["workspace"]["regions"] if r["name"] == "a_words")["factor"] //= 2
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (70, 50)).astype(np.float32), rng.uniform(-1, 1, (50, 45)).astype(np.float32)
    want = a.astype(np.float64) @ b.astype(np.float64)
    got, _ = foreign.product(manifest, device, lambda buffer: buffer.address, a, b, np.zeros((70, 45), np.float32), 1.0, 0.0)
    assert not np.abs(got - want).max() < 1e-3
    device.release()


@pytest.mark.long
@pytest.mark.parametrize("more", [{"layout": "nn"}, {"side": "right", "layout": "nt", "uplo": "lower"}], ids=["left", "right"])
def test_the_manifest_is_enough_to_solve_a_system(more, tmp_path):
    """Of three blocks: the largest product has two of known unknowns."""
    plan = solve(loads({"problem": {"kind": "trsm", **dict.fromkeys("mnk", 1024), **more}, "split": {"scheme": "ootomo"}, "tile": BLOCK, "target": {"gpu": "a100"},
                        "build": {"allow_spills": True}}))
    device, source, manifest = exported(plan, tmp_path / "out")
    rng, size = np.random.default_rng(3), 2 * 256 + 20
    t = np.tril(rng.uniform(-1, 1, (size, size)) / 40 + np.eye(size)).astype(np.float32)
    c = rng.uniform(-1, 1, (size, 5) if plan.kind.left else (5, size)).astype(np.float32)
    x = foreign.system(manifest, device, lambda buffer: buffer.address, t, c, -0.5)
    device.release()
    want = np.linalg.solve(t.astype(float), -0.5 * c) if plan.kind.left else np.linalg.solve(t.T.astype(float), -0.5 * c.T).T
    assert np.abs(x - want).max() < 2e-6


@pytest.mark.long
@pytest.mark.parametrize("problem", [{"kind": "trmm", "side": "right", "layout": "nt"}, {"kind": "syr2k", "layout": "tn"}], ids=["trmm", "syr2k"])
def test_the_manifest_is_enough_to_launch_a_kind(problem, tmp_path):
    """What is no argument of the product has the value of the one that `aliases` names."""
    plan = solve(loads({"problem": {**dict.fromkeys("mnk", 256), **problem}, "split": {"scheme": "scaled"}, "tile": BLOCK, "target": {"gpu": "a100"},
                        "build": {"allow_spills": True}}))
    device, source, manifest = exported(plan, tmp_path / "out")
    rng = np.random.default_rng(4)
    shapes = ((70, 50), (50, 50)) if problem["kind"] == "trmm" else ((70, 50), (50, 70))
    a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes)
    c = rng.uniform(-1, 1, (70, shapes[1][1])).astype(np.float32)
    want = gemm(EmulatorDevice(plan, source, device.binary), plan, source, a, b, c, alpha=0.5, beta=2.0)
    got, status = foreign.product(manifest, device, lambda buffer: buffer.address, a, b, c, 0.5, 2.0)
    assert np.array_equal(got.view(np.uint32), want.c.view(np.uint32)) and status == want.status
    device.release()
