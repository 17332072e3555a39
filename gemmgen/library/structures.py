"""The structures of a library's C interface, for programs in Python that load one by ctypes."""

from __future__ import annotations

import ctypes
from typing import Any, TypeVar


class Problem(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t), *((one, ctypes.c_int32) for one in ("order", "transpose_a", "transpose_b", "epilogue")),
        *((one, ctypes.c_int64) for one in ("m", "n", "k", "lda", "ldb", "ldc", "batch", "stride_a", "stride_b", "stride_c")),
        *((one, ctypes.c_void_p) for one in ("a", "b", "c", "alpha", "beta", "bias")), ("flags", ctypes.c_uint32), ("kernel", ctypes.c_int32),
        ("largest_error", ctypes.c_double), *((one, ctypes.c_int32) for one in ("kind", "uplo", "side", "diag", "element")),
    ]


class Target(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("arch", ctypes.c_char * 24), ("units", ctypes.c_int32)]


class Choice(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t), ("kernel", ctypes.c_int32), ("is_fallback", ctypes.c_int32), ("name", ctypes.c_char_p), ("reason", ctypes.c_char_p),
        ("workspace_bytes", ctypes.c_size_t), ("workspace_bytes_packed", ctypes.c_size_t),
        *((one, ctypes.c_double) for one in ("seconds", "sgemm_seconds", "error", "worst_case")),
    ]


class Status(ctypes.Structure):
    _fields_ = [(one, ctypes.c_uint64) for one in ("a_lossy", "a_overflow", "a_nonfinite", "b_lossy", "b_overflow", "b_nonfinite", "repaired")]


class Packed(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t), ("operand", ctypes.c_int32), ("format", ctypes.c_int32), ("rows", ctypes.c_int64), ("columns", ctypes.c_int64),
        ("order", ctypes.c_int32), ("reserved", ctypes.c_int32), ("memory", ctypes.c_void_p), ("bytes", ctypes.c_size_t),
    ]


Kind = TypeVar("Kind", bound=ctypes.Structure)


def sized(kind: type[Kind], /, **fields: Any) -> Kind:
    """With its own size in the first field, as the library asks."""
    return kind(size=ctypes.sizeof(kind), **fields)
