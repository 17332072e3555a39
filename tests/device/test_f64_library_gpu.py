"""FP64 through a library on a real GPU: C's bits by its Python interface, `gemmgen.matmul`, and a program's cuBLAS calls taken by the preload library."""

from __future__ import annotations

import importlib
import subprocess
import sys

import numpy as np
import pytest

import gemmgen
from gemmgen import api, library
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.library import python, shim
from gemmgen.library.file import library_from
from gemmgen.library.made import made
from gemmgen.split import joined, split
from standin import GCC
from test_gpu import local_gpu

pytestmark = [pytest.mark.device, pytest.mark.skipif(GCC is None, reason="a C compiler builds the library")]
SCHEME = "residues14"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("f64") / "wide"
    data = {"name": "wide", "gpus": [local_gpu()], "layouts": ["nn", "nt", "tn", "tt"], "kernels_at_most": 8, "routines": ["syrk"], "shim": ["cublas"],
            "batched": False, "sizes": [[512] * 3, [2048] * 3], "use": [{"scheme": SCHEME}]}
    library.write(made(library_from(data)), place)
    return place


@pytest.fixture(scope="module")
def wide(folder):
    sys.path.insert(0, str(python.compile_in_place(folder)))
    return importlib.import_module("wide")


def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    scheme = SCHEMES.get(SCHEME)
    return joined(split(a, scheme), split(np.ascontiguousarray(b.T), scheme), scheme)


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape)


@pytest.mark.parametrize("turned", ["nn", "nt", "tn", "tt"])
def test_every_bit_is_the_references(wide, turned):
    cupy = pytest.importorskip("cupy")
    a, b = drawn(131, 517, seed=1), drawn(517, 70, seed=2)
    x, y = (cupy.asfortranarray(cupy.asarray(one)) if way == "t" else cupy.asarray(one) for one, way in zip((a, b), turned))
    assert (wide.matmul(x, y).get() == reference(a, b)).all()
    scalars = cupy.asarray([1 / 3, -0.5])
    old = drawn(131, 70, seed=3)
    c = wide.matmul(x, y, cupy.asarray(old), alpha=scalars[:1], beta=scalars[1:]).get()
    np.testing.assert_allclose(c, reference(a, b) / 3 - old / 2, rtol=1e-14, atol=1e-14)


def test_batches_packed_operands_triangles_and_special_values(wide):
    cupy = pytest.importorskip("cupy")
    a, b = drawn(3, 65, 130, seed=4), drawn(3, 130, 33, seed=5)
    assert (wide.matmul(cupy.asarray(a), cupy.asarray(b)).get() == np.stack([reference(*both) for both in zip(a, b)])).all()
    packed = wide.pack(cupy.asarray(b[0]), hint=65)
    assert (wide.matmul(cupy.asarray(a[0]), packed).get() == reference(a[0], b[0])).all()
    assert (np.tril(wide.level3("syrk", cupy.asarray(a[0])).get()) == np.tril(reference(a[0], a[0].T))).all()
    a[0, 3, 4], b[0, 7, 6] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        want = a[0] @ b[0]
    assert (np.isfinite(wide.matmul(cupy.asarray(a[0]), cupy.asarray(b[0])).get()) == np.isfinite(want)).all()


def test_gemmgen_matmul_of_float64(monkeypatch):
    cupy = pytest.importorskip("cupy")
    monkeypatch.setattr(api, "_chosen", lambda choices, own, vendor, a, b, synchronize: own)
    a, b = (cupy.asarray(drawn(1100, 1024, seed=seed)) for seed in (6, 7))
    c = gemmgen.matmul(a, b.T)
    assert c.dtype == np.float64 and float(abs(c - cupy.matmul(a, b.T)).max()) < 1e-12
    torch = pytest.importorskip("torch")
    x, y = torch.as_tensor(a.get(), device="cuda"), torch.as_tensor(b.get(), device="cuda")
    assert gemmgen.matmul(x, y.T).dtype == torch.float64 and (gemmgen.matmul(x, y.T).cpu().numpy() == c.get()).all()
    x.requires_grad_()
    gemmgen.matmul(x, y.T).sum().backward()
    assert x.grad.shape == x.shape


PROGRAM = """
import cupy, cupy.cublas, json
import numpy as np
a, b = (cupy.asarray(cupy.random.RandomState(seed).uniform(-1, 1, (2048, 2048))) for seed in (1, 2))
c = a @ b
want = a.get() @ b.get()
half, square = cupy.cublas.syrk("N", a).get(), a.get() @ a.get().T
off = min(abs(kept(half) - kept(square)).max() for kept in (np.tril, np.triu))  # the triangle that CuPy asks for
print(json.dumps(float(max(abs(c.get() - want).max(), off))))
"""


def test_a_programs_dgemm_and_dsyrk_are_taken(folder, tmp_path):
    """By `cublasDgemm` and `cublasDsyrk` of CuPy, whatever is predicted."""
    pytest.importorskip("cupy")
    shim.build(folder)
    done = subprocess.run([sys.executable, "-m", "gemmgen", "run", "--library", str(folder), "--min-gain", "0", "--", sys.executable, "-c", PROGRAM],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 1e-12 and "2 of 2 calls" in done.stderr, done.stderr
