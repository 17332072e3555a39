"""What a test's program starts with: the vendor's library by ctypes, every function with its argument types, and counters of both sides."""

import ctypes
import json
import os
import sys

F32, F64, F16, C64, C128, COMPUTE_32F, COMPUTE_64F = 0, 1, 2, 4, 5, 68, 70
N, T = 0, 1
P, I32, I64, FLOAT = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_float

FORMS = {  # I: int, or int64_t of functions that end in _64; S: a stride; p: a pointer; i: an enumeration
    **{f"cublas{letter}gemm_v2": "pii III p pI pI p pI" for letter in "SDCZ"},
    **{f"cublas{letter}gemmStridedBatched": "pii III p pIS pIS p pIS I" for letter in "SDCZ"},
    **{f"cublas{letter}gemmBatched": "pii III p pI pI p pI I" for letter in "SDCZ"},
    "cublasCgemm3m": "pii III p pI pI p pI",
    "cublasZgemm3m": "pii III p pI pI p pI",
    "cublasCgemm3mStridedBatched": "pii III p pIS pIS p pIS I",
    "cublasCgemm3mBatched": "pii III p pI pI p pI I",
    "cublasSgemmEx": "pii III p piI piI p piI",
    "cublasCgemmEx": "pii III p piI piI p piI",
    "cublasCgemm3mEx": "pii III p piI piI p piI",
    "cublasGemmEx": "pii III p piI piI p piI ii",
    "cublasGemmStridedBatchedEx": "pii III p piIS piIS p piIS I ii",
    "cublasGemmBatchedEx": "pii III p piI piI p piI I ii",
}
GEMMS = [name + suffix for name in FORMS for suffix in ("", "_64")]
OPERATIONS = {N: 0, T: 1, 2: 2, 3: 3}


def as_hip():
    """From now on the functions are hipBLAS's and rocBLAS's."""
    gemm, strided, listed = (FORMS[name] for name in ("cublasSgemm_v2", "cublasSgemmStridedBatched", "cublasSgemmBatched"))
    FORMS.clear()
    for one in "SDCZ":
        FORMS.update({f"hipblas{one}gemm": gemm, f"hipblas{one}gemmStridedBatched": strided, f"hipblas{one}gemmBatched": listed})
        FORMS.update({f"rocblas_{one.lower()}gemm{end}": form for end, form in (("", gemm), ("_strided_batched", strided), ("_batched", listed))})
    GEMMS[:] = [name + suffix for name in FORMS for suffix in ("", "_64")]
    OPERATIONS.update({N: 111, T: 112, 2: 113, 3: 114})


def load(name="libcublas.so.13"):
    """The vendor's library; its functions are found in the order of symbols, so that a preloaded library's come first."""
    return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)


def typed(library, name):
    """A GEMM function of a library, with its types."""
    function = getattr(library, name)
    wide = I64 if name.endswith("_64") else I32
    function.argtypes = [{"p": P, "i": I32, "I": wide, "S": I64}[one] for one in FORMS[name.removesuffix("_64")].replace(" ", "")]
    return function


def array(*values, real=FLOAT):
    return (real * len(values))(*values)


def is_wide(name):
    """Whether the elements of a function, or their parts, are FP64."""
    return any(one in name for one in ("blasD", "blasZ", "_d", "_z"))


def is_complex(name):
    """Whether the elements of a function are complex."""
    return any(one in name for one in ("blasC", "blasZ", "_c", "_z"))


def element_of(name):
    """The type of elements by the number of the library."""
    return 2 * is_complex(name) + is_wide(name)


def pointers(*arrays):
    return (P * len(arrays))(*(ctypes.addressof(one) for one in arrays))


def create(library, stream=0, pointer_mode=0, math=0):
    """A handle."""
    handle = P()
    library.cublasCreate_v2(ctypes.byref(handle))
    library.cublasSetStream_v2(handle, P(stream))
    library.cublasSetPointerMode_v2(handle, pointer_mode)
    library.cublasSetMathMode(handle, math)
    return handle


def kernels(name="calls"):
    """Products that the library of kernels computed."""
    function = getattr(ctypes.CDLL(None), f"lab_{name}", None)
    if function is None:
        return 0
    function.restype = ctypes.c_longlong
    return function()


def vendor(library, name):
    """Calls of a function that reached the vendor's library."""
    count = library.stand_in_calls
    count.restype = ctypes.c_longlong
    return count(name.encode())


def driver(name="libcuda.so.1"):
    library = ctypes.CDLL(name)
    library.stand_in_counted.restype = ctypes.c_longlong
    library.stand_in_context.argtypes = [P]
    library.stand_in_capture.argtypes = [P, I32, ctypes.c_ulonglong, P]
    library.stand_in_destroy_graph.argtypes = [P]
    library.counted = lambda what: library.stand_in_counted(what.encode())
    return library


def arguments(name, handle, *, m=5, n=6, k=7, ta=N, tb=N, alpha=2.0, beta=0.5, types=(F32, F32, F32), compute=COMPUTE_32F, algo=-1, batch=2, seed=1):
    """(arguments, C, what keeps them alive) of any of the functions, of products of these sizes."""
    def filled(count, shift):
        return array(*(((index * 7 + shift * seed) % 11 - 5) / 4 for index in range(parts * count)), real=real)

    real = ctypes.c_double if is_wide(name) or types in ((F64,) * 3, (C128,) * 3) else FLOAT
    parts = 2 if is_complex(name) or types in ((C64,) * 3, (C128,) * 3) else 1
    form = FORMS[name.removesuffix("_64")]
    strided, listed = "S" in form, "atched" in name and "S" not in form
    products = batch if "atched" in name else 1
    lda, ldb, ldc = (k if ta else m) + 1, (n if tb else k) + 2, m + 3
    sizes = lda * (m if ta else k), ldb * (k if tb else n), ldc * n
    a, b, c = (filled(size * max(products, 1), shift) for shift, size in enumerate(sizes, 1))
    scalars = [array(*([one.real, one.imag][:parts]), real=real) for one in (alpha, beta)]
    lists = [pointers(*((real * 1).from_buffer(one, ctypes.sizeof(real) * parts * size * i) for i in range(products))) for one, size in zip((a, b, c), sizes)] if listed else []
    operands = lists or (a, b, c)

    def operand(at, ld):
        return [operands[at], *([types[at]] if "i" in form[5:] else []), ld, *([sizes[at]] if strided else [])]

    given = [handle, OPERATIONS[ta], OPERATIONS[tb], m, n, k, scalars[0], *operand(0, lda), *operand(1, ldb), scalars[1], *operand(2, ldc)]
    given += [batch] if "atched" in name else []
    given += [compute, algo] if name.startswith("cublasGemm") else []
    return [ctypes.addressof(one) if isinstance(one, ctypes.Array) else one for one in given], c, (a, b, c, scalars, lists)


def tell(**what):
    print(json.dumps(what))


class Problem(ctypes.Structure):
    """lab_problem."""

    _fields_ = [
        ("size", ctypes.c_size_t), ("order", I32), ("transpose_a", I32), ("transpose_b", I32), ("epilogue", I32),
        *((name, I64) for name in ("m", "n", "k", "lda", "ldb", "ldc", "batch", "stride_a", "stride_b", "stride_c")),
        *((name, P) for name in ("a", "b", "c", "alpha", "beta", "bias")),
        ("flags", ctypes.c_uint32), ("kernel", I32), ("largest_error", ctypes.c_double),
        *((name, I32) for name in ("kind", "uplo", "side", "diag", "element"))]

    def told(self):
        return {name: getattr(self, name) or 0 for name, _ in self._fields_ if name != "size"} | {"sized": self.size == ctypes.sizeof(self)}


def watch():
    """What the preload library asks of the library of kernels, where watching.c is between them."""
    library = ctypes.CDLL(None)
    for name, kind in (("problem", ctypes.POINTER(Problem)), ("run", ctypes.POINTER(Problem)), ("selects", ctypes.c_longlong),
                       ("gemms", ctypes.c_longlong), ("memory", P), ("bytes", ctypes.c_size_t), ("stream", P), ("mode", I32)):
        getattr(library, f"watched_{name}").restype = kind
    return library


def noted(library, count):
    """What the vendor's library was given by its last call, which it noted in place of computing it."""
    library.stand_in_given.restype = ctypes.POINTER(ctypes.c_longlong)
    return library.stand_in_given()[:count]
