"""Operands of a product: the library whose arrays they are, and NumPy's array of a list or of whatever else NumPy reads."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from gemmgen.errors import SpecError

EXAMPLE = "gemmgen.matmul([[1.0, 2.0]], [[3.0], [4.0]])"


def numpy() -> ModuleType:
    """NumPy, imported when it is first needed."""
    import numpy

    return numpy


def type_of(x: Any) -> str:
    """`torch.Tensor`: the library and the type."""
    return f"{type(x).__module__.partition('.')[0]}.{type(x).__qualname__}"


def home_of(x: Any, name: str) -> ModuleType:
    """The module whose `matmul` multiplies arrays of this type.

    Raises:
        SpecError: it is no array.
    """
    for home, kind in (("torch", "Tensor"), ("jax", "Array"), ("cupy", "ndarray")):
        if (loaded := sys.modules.get(home)) is not None and isinstance(x, getattr(loaded, kind, ())):
            return loaded
    if hasattr(x, "__array_namespace__") and not isinstance(x, numpy().ndarray):
        return x.__array_namespace__()
    if isinstance(x, list | tuple | int | float | complex) or hasattr(x, "__array__") or hasattr(x, "__array_interface__"):
        return numpy()
    raise SpecError(f"matmul: {name}", "is no array", got=type_of(x), needs="an array of NumPy, CuPy, torch, JAX or the array API, or lists of numbers",
                    remedy=_as_array(x, name))


def _as_array(x: Any, name: str) -> str:
    """What makes an array of it."""
    if hasattr(x, "toarray"):  # a sparse matrix
        return f"{name}.toarray()"
    try:
        memoryview(x)
    except TypeError:
        return f"list({name})" if isinstance(x, Iterable) and not isinstance(x, str | dict) else EXAMPLE
    return f"numpy.frombuffer({name}, 'float32')" if isinstance(x, bytes | bytearray) else f"numpy.asarray({name})"


def refuse_two_libraries(a: Any, b: Any, homes: list[ModuleType]) -> None:
    """
    Raises:
        SpecError: a and b are of two libraries.
    """
    if homes[0] is homes[1]:
        return
    # NumPy's array becomes the other's, as that one may lie in a GPU's memory.
    name, home = ("a", homes[1]) if homes[0] is numpy() else ("b", homes[0])
    raise SpecError("matmul: a, b", "are arrays of two libraries", got=f"{type_of(a)} and {type_of(b)}", needs="arrays of one library on one device",
                    remedy=f"{'jax.numpy' if home.__name__ == 'jax' else home.__name__}.asarray({name})")


def as_numpy(x: Any, name: str) -> Any:
    """NumPy's array of numbers of it; of NumPy's own arrays and of their subclasses, the same.

    Raises:
        SpecError: it has other things than numbers, masked ones, or rows of several lengths.
    """
    where, np = f"matmul: {name}", numpy()
    try:
        array = np.asarray(x) if isinstance(x, np.memmap) else np.asanyarray(x)
    except (ValueError, TypeError, RuntimeError) as error:  # rows of several lengths; tensors in a list that NumPy cannot read
        raise SpecError(where, "is no array of numbers", got=str(error), needs="rows of one length",
                        remedy=f"zeros at the ends of {name}'s shorter rows") from None
    fields, is_raw = array.dtype.names, array.dtype.type is np.void  # bfloat16 and the like are of kind V, too
    if array.dtype.kind not in "biufcV" or is_raw:
        remedy = f"{name}[{fields[0]!r}]" if fields else f"{name}.view('float32')" if is_raw else f"numpy.asarray({name}, 'float32')"
        raise SpecError(where, "is no array of numbers", got=array.dtype, needs="numbers", remedy=remedy)
    if np.ma.is_masked(array):
        raise SpecError(where, "has masked elements, which a product would count", got=f"{array.mask.sum()} masked", needs="numbers everywhere",
                        remedy=f"{name}.filled(0)")
    return array


def check_dense(a: Any, b: Any) -> None:
    """
    Raises:
        SpecError: torch multiplies no such tensors: one is nested and the other is not, or one is quantized.
    """
    for x, other, name in ((a, b, "a"), (b, a, "b")):
        if x.is_nested and not other.is_nested:
            raise SpecError(f"matmul: {name}", "is nested and the other is not", got="a nested tensor", needs="both nested, or none",
                            remedy=f"torch.nested.to_padded_tensor({name}, 0.0)")
        if x.is_quantized:
            raise SpecError(f"matmul: {name}", "is quantized", got=x.dtype, needs="numbers", remedy=f"{name}.dequantize()")


def check_devices(a: Any, b: Any) -> None:
    """
    Raises:
        SpecError: a and b are two devices.
    """
    if a != b:
        raise SpecError("matmul: a, b", "are on two devices", got=f"{a} and {b}", needs="arrays on one device", remedy="a copy of one on the other's device")


def refuse_truth(a: Any) -> None:
    """
    Raises:
        SpecError: tensors of torch are of its type bool, which it has no product for.
    """
    if str(a.dtype) == "torch.bool":
        raise SpecError("matmul: a, b", "are of a type that torch has no product for", got=a.dtype, needs="numbers",
                        remedy="gemmgen.matmul(a.float(), b.float())")
