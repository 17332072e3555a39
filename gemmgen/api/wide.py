"""Products of float64 and of complex arrays in a GPU's memory: by kernels of their type, or by native arithmetic where that is faster."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from gemmgen.api.shapes import extents

WORTH_A_LIBRARY = 1024**3
"""Multiply-adds of real numbers from which on a library of such elements is looked for, or built: native arithmetic computes smaller products in less than
the passes take."""
ELEMENTS = {"float64": ("f64", 1), "complex64": ("c64", 4), "complex128": ("c128", 4)}
"""By the name of an array's type the type of elements, and how many multiply-adds of real numbers one of its has."""

Product = Callable[[Any, Any], Any]


def kind_of(x: Any) -> str:
    """`float64`: the name of an array's type."""
    return str(x.dtype).removeprefix("torch.")


def wide_product(
    a: Any, b: Any, native: Product, package: Callable[[str], ModuleType | None], chosen: Callable[..., Product], synchronize: Callable[[], None] | None,
) -> Product:
    """What multiplies arrays that lie as these two, of one of the types `ELEMENTS`.

    Args:
        package: the GPU's library of a type of elements, None where there is none; it notes why.
        chosen: the faster of both ways, by predictions or by times, as of products in FP32.
    """
    kind, (m, n, k, products) = kind_of(a), extents(a.shape, b.shape)
    element, reals = ELEMENTS[kind]
    if reals * m * n * k * products < WORTH_A_LIBRARY or (found := package(element)) is None:
        return native
    try:
        choice = found.select(m, n, k, batch=products, dtype=kind)
    except found.Error:  # no kernel serves it
        return native
    return chosen([choice], found.matmul, native, a, b, synchronize)
