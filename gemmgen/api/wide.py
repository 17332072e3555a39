"""Products of float64 arrays in a GPU's memory: by kernels of FP64, or by native FP64 where that is faster."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from gemmgen.api.shapes import extents

WORTH_A_LIBRARY = 1024**3
"""Multiply-adds of a product from which on a library of FP64 is looked for, or built: smaller ones native FP64 computes in less than the passes take."""

Product = Callable[[Any, Any], Any]


def wide_product(
    a: Any, b: Any, native: Product, package: Callable[[str], ModuleType | None], chosen: Callable[..., Product], synchronize: Callable[[], None] | None,
) -> Product:
    """What multiplies arrays that lie as these two.

    Args:
        package: the GPU's library of a type of elements, None where there is none; it notes why.
        chosen: the faster of both ways, by predictions or by times, as of products in FP32.
    """
    m, n, k, products = extents(a.shape, b.shape)
    if m * n * k * products < WORTH_A_LIBRARY or (found := package("f64")) is None:
        return native
    try:
        choice = found.select(m, n, k, batch=products, dtype="float64")
    except found.Error:  # no kernel serves it
        return native
    return chosen([choice], found.matmul, native, a, b, synchronize)
