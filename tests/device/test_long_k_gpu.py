"""Long k on a real GPU, in every split pass whose blocks hold a part of a row or column and share it with others of their cluster, or read it again.

    pytest tests/device/test_long_k_gpu.py -n 8

k has several chunks of a pass, and the last of 32 rows and columns that a cluster takes are 4. Elements are whole numbers times a power of two of their row or
column, and few enough bits long that every sum is exact: C has to be the exact product, whatever the scheme and its order of sums. Residues of FP32 are of
elements times a factor that is no power of two: their C may err by its rounding, which is nothing beside the words of another chunk.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from on_a_gpu import needs
from ways import SHARED_PASSES, plan_of

from gemmgen.build import build
from gemmgen.render import render
from gemmgen.run import cuda, gemm

pytestmark = pytest.mark.device
BITS = {"f32": (5, 4), "c64": (4, 3), "f64": (20, 16), "c128": (20, 16)}
"""Of elements of A and of B."""
M, N = 516, 1028


@cache
def product(element: str, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, B and C."""
    rng, parts = np.random.default_rng(k), 2 if element[0] == "c" else 1

    def whole(shape, bits, powers):
        values = [rng.integers(-(1 << bits), 1 << bits, shape, endpoint=True) * np.exp2(powers) for _ in range(parts)]
        return values[0] + 1j * values[1] if parts == 2 else values[0]

    a = whole((M, k), BITS[element][0], rng.integers(-20, 21, (M, 1)))
    b = whole((k, N), BITS[element][1], rng.integers(-20, 21, (1, N)))
    dtype = {"f32": np.float32, "c64": np.complex64, "f64": np.float64, "c128": np.complex128}[element]
    exact = a @ b
    assert np.array_equal(exact.astype(dtype), exact)
    return a.astype(dtype), b.astype(dtype), exact.astype(dtype)


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("name", SHARED_PASSES)
def test_products_of_whole_numbers_are_right(name, layout):
    plan = plan_of(**SHARED_PASSES[name], layout=layout)
    needs(plan)
    source = render(plan)
    device = cuda.CudaDevice(build(source))
    for k in (1000, 8192, 20004):
        a, b, want = product(SHARED_PASSES[name].get("type") or plan.scheme.element, k)
        found = gemm(device, plan, source, a, b).c
        rounding = 2.0**-22 * (np.abs(a).astype(float) @ np.abs(b)) if plan.scheme.family.residues and plan.scheme.element == "f32" else 0.0
        wrong = np.argwhere(~(np.abs(found - want) <= rounding))
        assert not len(wrong), f"k = {k}: {len(wrong)} elements, from {wrong[0]} to {wrong[-1]}"
