"""torch's products in FP32 itself, whatever the program allows other products."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def fp32_of(torch: ModuleType, kind: str) -> Iterator[None]:
    """torch's FP32 products on such a device are FP32."""
    try:
        allowed = torch.get_float32_matmul_precision()
    except RuntimeError:  # the program uses `fp32_precision`
        with _fp32_by_backend(torch.backends.mkldnn.matmul if kind == "cpu" else torch.backends.cuda.matmul):
            yield
        return
    try:
        torch.set_float32_matmul_precision("highest")
        yield
    finally:
        torch.set_float32_matmul_precision(allowed)


@contextmanager
def _fp32_by_backend(backend: Any) -> Iterator[None]:
    allowed = backend.fp32_precision
    try:
        backend.fp32_precision = "ieee"
        yield
    finally:
        backend.fp32_precision = "none"  # as torch.backends.fp32_precision says
        if backend.fp32_precision != allowed:
            backend.fp32_precision = allowed
