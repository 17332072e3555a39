"""NumPy in cupy's place: arrays with addresses, streams that do nothing, and a cuBLAS that multiplies matrices of the host."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace

import numpy as np

_TYPES = {0: np.float32, 1: np.float64, 2: np.float16, 3: np.int8, 10: np.int32}  # cudaDataType


class Array(np.ndarray):
    """An array that tells its address as cupy's do."""

    @property
    def data(self):  # noqa: D102
        return SimpleNamespace(ptr=self.ctypes.data)


def array(x, dtype=None):
    """An array of this kind, which shares memory where it can."""
    return np.asarray(x, dtype).view(Array)


def install(monkeypatch, l2_bytes: int = 1 << 10) -> SimpleNamespace:
    """Put the stand-in where `import cupy` finds it."""
    def default_rng(seed):
        draw = np.random.default_rng(seed)
        return SimpleNamespace(random=lambda shape: array(draw.random(shape)))

    device = SimpleNamespace(get_cublas_handle=lambda: 1)
    cuda = SimpleNamespace(
        Device=lambda: SimpleNamespace(id=0, synchronize=lambda: None), get_current_stream=lambda: SimpleNamespace(ptr=0), device=device,
        runtime=SimpleNamespace(getDeviceProperties=lambda at: {"l2CacheSize": l2_bytes}, memGetInfo=lambda: (1 << 30, 1 << 30)),
    )
    names = ("float16", "float32", "float64", "uint8", "uint16", "uint32", "int8", "int32", "nan", "where", "exp2", "rint", "isfinite", "maximum", "linalg")
    cupy = SimpleNamespace(
        **{name: getattr(np, name) for name in names}, cuda=cuda, random=SimpleNamespace(default_rng=default_rng), asarray=array, asnumpy=np.asarray,
        empty=lambda shape, dtype=np.float32: array(np.empty(shape, dtype)), ascontiguousarray=lambda x: array(np.ascontiguousarray(x)),
        get_default_memory_pool=lambda: SimpleNamespace(free_bytes=lambda: 0, free_all_blocks=lambda: None),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    monkeypatch.setitem(sys.modules, "cupy.cuda.device", device)
    return cupy


def _at(pointer, dtype, columns: int, rows: int, leading: int) -> np.ndarray:
    """A column-major matrix [rows, columns] at an address."""
    address = pointer.value if isinstance(pointer, ctypes.c_void_p) else pointer.data
    count = leading * (columns - 1) + rows
    flat = np.frombuffer((ctypes.c_byte * (count * np.dtype(dtype).itemsize)).from_address(address), dtype)
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (flat.itemsize, leading * flat.itemsize))


class Cublas:
    """cuBLAS's functions, of the host's memory."""

    def cublasSetStream_v2(self, handle, stream):  # noqa: N802
        return 0

    def cublasSetWorkspace_v2(self, handle, place, count):  # noqa: N802
        return 0

    def cublasGemmEx(self, handle, op_a, op_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, compute, algorithm):  # noqa: N802
        shapes = (k, m) if op_a else (m, k), (n, k) if op_b else (k, n)
        if lda < shapes[0][0] or ldb < shapes[1][0] or ldc < m:
            return 7  # CUBLAS_STATUS_INVALID_VALUE
        left, right = _at(a, _TYPES[a_type], *shapes[0][::-1], lda), _at(b, _TYPES[b_type], *shapes[1][::-1], ldb)
        scalar = np.int32 if compute == 72 else np.float16 if compute == 64 else np.float64 if compute == 70 else np.float32
        factors = [float(np.frombuffer((ctypes.c_byte * np.dtype(scalar).itemsize).from_address(one.data), scalar)[0]) for one in (alpha, beta)]
        out = _at(c, _TYPES[c_type], n, m, ldc)
        product = (left.T if op_a else left).astype(np.float64) @ (right.T if op_b else right).astype(np.float64)
        out[...] = factors[0] * product + (factors[1] * out if factors[1] else 0)
        return 0
