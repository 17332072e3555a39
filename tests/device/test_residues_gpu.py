"""Residues on a real GPU, whose blocks hold a part of a long row or column and read it again: the bits of the reference in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from ways import HOPPER, plan_of

from gemmgen.build import build
from gemmgen.render import render
from gemmgen.run import cuda, gemm
from gemmgen.split import joined, split

pytestmark = pytest.mark.device
TILE = {"block": [128, 256, 128], "warp": [64, 256, 128], "cluster": 2}


@pytest.mark.parametrize("k", [1000, 8192, 16384, 20004])
@pytest.mark.parametrize("made_for", [1024, 16384])
@pytest.mark.parametrize("layout", ["nn", "tn", "nt"])
def test_bits_are_the_references(layout, made_for, k):
    plan = plan_of(**HOPPER, scheme="residues8", promote=0, tile=TILE, stages=4, layout=layout, size=made_for)
    if reason := cuda.why_not(plan):
        pytest.skip(f"NOT RUN: {reason.problem}")
    source, rng = render(plan), np.random.default_rng(k)
    a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((516, k), (k, 1028)))
    a[3, : k // 2] *= 1000
    want = joined(split(a, plan.scheme), split(np.ascontiguousarray(b.T), plan.scheme), plan.scheme)
    assert np.array_equal(gemm(cuda.CudaDevice(build(source)), plan, source, a, b).c, want)
