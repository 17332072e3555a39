"""cuBLAS as a contender, by the types of one cublasGemmEx."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmgen.errors import DeviceError
from gemmgen.timing.contender import Contender
from gemmgen.timing.inputs import Inputs


@dataclass(frozen=True)
class GemmEx:
    """The types of one cublasGemmEx.

    Attributes:
        operands: of A and B; converted beforehand, outside the timing.
        result: of C.
        scalars: of alpha and beta, which the compute type prescribes.
        compute: cublasComputeType_t.
        b_transposed: whether B is stored as [N, K], k contiguous in both operands, which is what the routine is fastest with.
    """

    operands: str
    result: str
    scalars: str
    compute: int
    b_transposed: bool = False


CUBLAS = {
    "cublas-sgemm": GemmEx("float32", "float32", "float32", 68),  # CUBLAS_COMPUTE_32F
    "cublas-tf32": GemmEx("float32", "float32", "float32", 77),  # CUBLAS_COMPUTE_32F_FAST_TF32
    "cublas-f16": GemmEx("float16", "float32", "float32", 68),
    "cublas-fast-f16": GemmEx("float32", "float32", "float32", 74),  # _32F_FAST_16F: cuBLAS may take half or TF32
    "cublas-hgemm": GemmEx("float16", "float16", "float16", 64),  # CUBLAS_COMPUTE_16F
    "cublas-dgemm": GemmEx("float64", "float64", "float64", 70),  # CUBLAS_COMPUTE_64F
    "cublas-int8": GemmEx("int8", "int32", "int32", 72, b_transposed=True),  # CUBLAS_COMPUTE_32I; operands as bytes of 127 times themselves
    "cublas-int8-nn": GemmEx("int8", "int32", "int32", 72),  # the same of row-major A and B
}
_CUDA_TYPES = {"float32": 0, "float64": 1, "float16": 2, "int8": 3, "int32": 10}  # cudaDataType: CUDA_R_32F, _64F, _16F, _8I, _32I
_DEFAULT_ALGORITHM = -1  # CUBLAS_GEMM_DEFAULT
_CUBLAS_WORKSPACE = 32 << 20  # what cuBLAS recommends for Hopper; with its own, a captured call allocates in the graph


def load_library() -> ctypes.CDLL:
    """The cuBLAS that cupy has loaded; called directly, since cupy's own wrapper refuses stream capture."""
    for version in (13, 12):
        try:
            return ctypes.CDLL(f"libcublas.so.{version}")
        except OSError:
            continue
    raise DeviceError("bench", "cuBLAS cannot be found", needs="libcublas.so.13 or .12", remedy="pip install nvidia-cublas")


class CupysHandle:
    """cupy's handle of cuBLAS, whose calls go to the stream that is current then and have a workspace of their own.

    Args:
        name: of the contender, as errors call it.

    Raises:
        DeviceError: cuBLAS is absent.
    """

    def __init__(self, name: str):
        import cupy
        from cupy.cuda import device as cupy_device

        self.name, self.value = name, ctypes.c_void_p(cupy_device.get_cublas_handle())  # first: it loads the library
        self.library, self.workspace = load_library(), cupy.empty(_CUBLAS_WORKSPACE, np.uint8)
        self._current = cupy.cuda.get_current_stream

    def call(self, function: Callable[..., int], *arguments: Any) -> None:
        """A function of the library, of the handle and these.

        Raises:
            DeviceError: cuBLAS refuses.
        """
        stream, workspace = (ctypes.c_void_p(one) for one in (self._current().ptr, self.workspace.data.ptr))
        status = (
            self.library.cublasSetStream_v2(self.value, stream)
            or self.library.cublasSetWorkspace_v2(self.value, workspace, ctypes.c_size_t(_CUBLAS_WORKSPACE))
            or function(self.value, *arguments)
            or self.library.cublasSetStream_v2(self.value, stream)  # which gives the handle its usual workspace back
        )
        if status:
            raise DeviceError("bench", f"{self.name} failed", got=f"cublasStatus {status}")


def cublas(kind: str, inputs: Inputs, name: str | None = None, add: bool = False) -> Contender:
    """One of CUBLAS: row-major C = A B as column-major C^T = B^T A^T.

    Args:
        name: in the table; None for `kind` itself.
        add: whether the product is added to what C holds.

    Raises:
        DeviceError: cuBLAS is absent; when it runs, that it refuses.
    """
    name, gemm = name or kind, CUBLAS[kind]
    handle = CupysHandle(name)
    m, n, k = inputs.size
    one, beta = np.ones(1, gemm.scalars), np.full(1, add, gemm.scalars)
    pairs, results = inputs.bytes(gemm.b_transposed) if gemm.operands == "int8" else inputs.operands(gemm.operands), inputs.results(gemm.result)
    given, returned = _CUDA_TYPES[gemm.operands], _CUDA_TYPES[gemm.result]

    def enqueue(index: int) -> None:
        (a, b), c = pairs[index % len(pairs)], results[index % len(pairs)]
        at_a, at_b, at_c = (ctypes.c_void_p(x.data.ptr) for x in (a, b, c))
        handle.call(
            handle.library.cublasGemmEx, int(gemm.b_transposed), 0, n, m, k, one.ctypes, at_b, given, k if gemm.b_transposed else n, at_a, given, k,
            beta.ctypes, at_c, returned, n, gemm.compute, _DEFAULT_ALGORITHM,
        )

    return Contender(name, enqueue, outputs=results, judged=gemm.result != "int32")
