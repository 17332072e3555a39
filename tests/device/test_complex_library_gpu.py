"""Complex numbers through a library on a real GPU: every order by its C functions, arrays of torch and CuPy, `gemmgen.matmul`, a program's cuBLAS calls."""

from __future__ import annotations

import importlib
import subprocess
import sys

import numpy as np
import pytest

import gemmgen
from gemmgen import api, library
from gemmgen.catalog.element import C64, C128
from gemmgen.kinds.kind import COMPLEX_LAYOUTS
from gemmgen.library import python, shim
from gemmgen.library.file import library_from
from gemmgen.library.made import made
from standin import GCC
from test_gpu import local_gpu

pytestmark = [pytest.mark.device, pytest.mark.skipif(GCC is None, reason="a C compiler builds the library")]
WITHIN = {"complex64": 1e-6, "complex128": 1e-14}
"""Of relative Frobenius errors at k = 517, which these kernels and cuBLAS's both keep."""
types = pytest.mark.parametrize("element", [C64, C128], ids=["c64", "c128"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("complex") / "pairs"
    data = {"name": "pairs", "gpus": [local_gpu()], "kernels_at_most": 18, "shim": ["cublas"], "batched": False, "sizes": [[512] * 3, [2048] * 3],
            "use": [{"scheme": "run_scaled", "type": "c64"}, {"scheme": "residues14", "type": "c128"}]}
    library.write(made(library_from(data)), place)
    return place


@pytest.fixture(scope="module")
def pairs(folder):
    sys.path.insert(0, str(python.compile_in_place(folder)))
    return importlib.import_module("pairs")


def drawn(element, *shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape)).astype(element.dtype)


def close(got, want, within: float) -> None:
    """Relative in the Frobenius norm, of each part."""
    want = np.asarray(want, np.complex128)
    assert np.linalg.norm(got.real - want.real) <= within * np.linalg.norm(want) and np.linalg.norm(got.imag - want.imag) <= within * np.linalg.norm(want)


@types
@pytest.mark.parametrize("order", ["row", "column"])
@pytest.mark.parametrize("letters", COMPLEX_LAYOUTS)
def test_every_order_with_complex_factors_beside_cublas(pairs, letters, order, element):
    """By the C function, with rows longer than the matrices; column major cuBLAS computes the same memory."""
    cupy = pytest.importorskip("cupy")
    from cupy_backends.cuda.libs import cublas
    m, n, k = 131, 70, 517
    a, b, old = drawn(element, m, k, seed=1), drawn(element, k, n, seed=2), drawn(element, m, n, seed=3)
    alpha, beta = (np.array([one], element.dtype) for one in (2 - 1j, 0.5j))
    want, fields, held = alpha * (a.astype(np.complex128) @ b) + beta * old, {}, {}
    for x, values, letter in (("a", a, letters[0]), ("b", b, letters[1]), ("c", old, "n")):
        stored = values.conj() if letter == "c" else values
        stored = stored.T if (letter != "n") != (order == "column") else stored
        held[x] = cupy.full((stored.shape[0], stored.shape[1] + 3), np.nan, element.dtype)
        held[x][:, : stored.shape[1]] = cupy.asarray(stored)
        fields |= {x: held[x].data.ptr, f"ld{x}": held[x].shape[1]}
    problem = pairs._c.Problem(order=int(order == "column"), transpose_a="ntc".index(letters[0]), transpose_b="ntc".index(letters[1]), m=m, n=n, k=k,
                               element=element.number, alpha=alpha.ctypes.data, beta=beta.ctypes.data, **fields)
    before = held["c"].copy()
    assert pairs._c.run(problem, None, None, 0, cupy.cuda.get_current_stream().ptr) == 0

    def found():
        c = held["c"].get()
        assert np.isnan(c[:, -3:]).all()
        return c[:, :-3] if order == "row" else c[:, :-3].T

    close(found(), want, WITHIN[element.dtype.name])
    if order == "column":
        held["c"][:] = before
        gemm, ops = {"c": cublas.cgemm, "z": cublas.zgemm}[element.letter], ["ntc".index(letter) for letter in letters]
        gemm(cupy.cuda.device.get_cublas_handle(), *ops, m, n, k, alpha.ctypes.data, fields["a"], fields["lda"], fields["b"], fields["ldb"], beta.ctypes.data,
             fields["c"], fields["ldc"])
        close(found(), want, WITHIN[element.dtype.name])


@types
def test_batches_pointers_scalars_on_the_device_and_what_is_not_read(pairs, element):
    cupy = pytest.importorskip("cupy")
    within = WITHIN[element.dtype.name]
    a, b, old = drawn(element, 3, 65, 130, seed=4), drawn(element, 3, 130, 33, seed=5), drawn(element, 3, 65, 33, seed=6)
    x, y = cupy.asarray(a), cupy.asarray(b)
    close(pairs.matmul(x, y).get(), a.astype(np.complex128) @ b, within)
    scalars, c = cupy.asarray(np.array([2 - 1j, 0.5j], element.dtype)), cupy.asarray(old)
    lists = [cupy.asarray(np.array([one[i].data.ptr for i in range(3)], np.uint64)) for one in (x, y, c)]
    problem = pairs._c.Problem(m=65, n=33, k=130, lda=130, ldb=33, ldc=33, batch=3, element=element.number, flags=1 | 4, alpha=scalars.data.ptr,
                               beta=scalars[1:].data.ptr, **{name: one.data.ptr for name, one in zip("abc", lists)})
    assert pairs._c.run(problem, None, None, 0, cupy.cuda.get_current_stream().ptr) == 0
    close(c.get(), (2 - 1j) * (a.astype(np.complex128) @ b) + 0.5j * old, within)
    c.fill(np.nan)
    close(pairs.matmul(x, y, c).get(), a.astype(np.complex128) @ b, within)
    nothing = pairs.matmul(cupy.full_like(x[0], np.nan), y[0], cupy.asarray(old[0]), alpha=0, beta=1j).get()
    assert np.array_equal(nothing, (1j * old[0]).astype(element.dtype))
    empty = pairs.matmul(x[0][:, :0].copy(), y[0][:0].copy(), cupy.asarray(old[0]), beta=-1).get()
    assert np.array_equal(empty, -old[0])
    a[0, 3, 4] = np.inf
    with np.errstate(invalid="ignore"):
        want = a[0].astype(np.complex128) @ b[0]
    assert (np.isfinite(pairs.matmul(cupy.asarray(a[0]), y[0]).get()) == np.isfinite(want)).all()


@types
def test_torchs_conjugates_and_gemmgen_matmul(pairs, element, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(api, "_chosen", lambda choices, own, vendor, a, b, synchronize: own)
    a, b = (torch.as_tensor(drawn(element, 700, 700, seed=seed), device="cuda") for seed in (7, 8))
    for x, y in ((a.mH, b), (a, b.mH), (a.mH, b.mH), (a.T.conj().T, b.T)):
        want = (x.resolve_conj().to(torch.complex128) @ y.resolve_conj().to(torch.complex128)).cpu().numpy()
        close(pairs.matmul(x, y).cpu().numpy(), want, WITHIN[element.dtype.name])
        close(gemmgen.matmul(x, y).cpu().numpy(), want, WITHIN[element.dtype.name])
    a.requires_grad_()
    gemmgen.matmul(a, b).abs().sum().backward()
    assert a.grad.shape == a.shape and a.grad.dtype == a.dtype


PROGRAM = """
import cupy
import numpy as np
from cupy_backends.cuda.libs import cublas
worst = 0
for kind, gemm, batched in (("complex64", cublas.cgemm, cublas.cgemmStridedBatched), ("complex128", cublas.zgemm, cublas.zgemmStridedBatched)):
    parts = [cupy.random.RandomState(seed).uniform(-1, 1, (2, 700, 700)) for seed in range(4)]
    a, b = parts[0] + 1j * parts[1], parts[2] + 1j * parts[3]
    a, b, c = a.astype(kind), b.astype(kind), cupy.empty((2, 700, 700), kind)
    one, zero = np.array([1], kind), np.array([0], kind)
    handle = cupy.cuda.device.get_cublas_handle()
    for op in (0, 1, 2):
        gemm(handle, op, 0, 700, 700, 700, one.ctypes.data, a.data.ptr, 700, b.data.ptr, 700, zero.ctypes.data, c.data.ptr, 700)
        x, y = a[0].get().T, b[0].get().T
        want = (x, x.T, x.conj().T)[op] @ y
        worst = max(worst, np.linalg.norm(c[0].get().T - want) / np.linalg.norm(want) * (1 if kind == "complex64" else 1e8))
    batched(handle, 0, 2, 700, 700, 700, one.ctypes.data, a.data.ptr, 700, 490000, b.data.ptr, 700, 490000, zero.ctypes.data, c.data.ptr, 700, 490000, 2)
    want = np.stack([x.T @ y.conj() for x, y in zip(a.get(), b.get())])
    worst = max(worst, np.linalg.norm(c.get().transpose(0, 2, 1) - want) / np.linalg.norm(want) * (1 if kind == "complex64" else 1e8))
print(float(worst))
"""


def test_a_programs_complex_products_are_taken(folder):
    """`cublasCgemm`, `cublasZgemm` and their strided batches, whatever is predicted."""
    pytest.importorskip("cupy")
    shim.build(folder)
    done = subprocess.run([sys.executable, "-m", "gemmgen", "run", "--library", str(folder), "--min-gain", "0", "--", sys.executable, "-c", PROGRAM],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 1e-5 and "8 of 8 calls" in done.stderr, done.stderr
