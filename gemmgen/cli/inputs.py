"""Matrices of the user's own, from .npy files."""

from __future__ import annotations

import math
import os
import re
import warnings
from pathlib import Path
from typing import Any, BinaryIO

from gemmgen.cli.output import note
from gemmgen.errors import SpecError
from gemmgen.files import opened
from gemmgen.catalog.element import F32, Element
from gemmgen.spec import MAX_EXTENT


MOST_BYTES = 1 << 36
"""Of a matrix: 131072 x 131072 in float32, more than any GPU of the catalog holds of three."""


def matrix(option: str, path: Path, *, quiet: bool = False, element: Element = F32) -> Any:
    """The matrix in a .npy file in the elements' type.

    Nothing in the file is executed, and nothing is read before its header agrees with its length.

    Raises:
        SpecError: missing, damaged, too large, or not a matrix of numbers, or of complex ones where elements are real.
    """
    import numpy as np

    where = f"{option} {path}"
    try:
        with opened(path) as file:
            length = os.fstat(file.fileno()).st_size
            shape, columns_first, dtype = _header(file)
            if shape is not None and dtype.hasobject:
                raise ValueError("Object arrays hold pickles, which are not read")
            _check_matrix(where, shape, dtype, element)
            nbytes, held = math.prod(shape) * dtype.itemsize, length - file.tell()
            if nbytes != held:
                raise ValueError(f"{held} bytes of data, where its header says {nbytes}")
            if nbytes > MOST_BYTES:
                raise SpecError(where, "is too large", got=f"{nbytes} bytes", needs=f"at most {MOST_BYTES}", remedy="a part of it")
            array = np.fromfile(file, dtype, math.prod(shape)).reshape(shape, order="F" if columns_first else "C")
    except OSError as error:
        raise SpecError(where, "cannot be read", got=error.strerror, needs="a .npy file", remedy="check the path") from None
    except ValueError as error:
        raise SpecError(
            where, "is not a whole .npy file of numbers", got=str(error).partition("\n")[0][:200],
            needs=f"a {element.dtype} matrix written by numpy.save", remedy=f"numpy.save(path, x.astype(numpy.{element.dtype}))",
        ) from None
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(array, dtype=element.dtype)
    if array.dtype.itemsize > element.bytes:
        beyond = int((np.isfinite(array) & ~np.isfinite(single)).sum())
        changed = int((np.isfinite(single) & (array != single)).sum())
        text = f"{changed} change" + (f" and {beyond} become Inf" if beyond else "")
        note(f"{where}: {array.dtype} rounded to {element.dtype}; of {array.size} elements {text}", quiet)
    return single


def _header(file: BinaryIO) -> tuple[Any, bool, Any]:
    """Shape, whether columns come first, and type, as the file's header tells them.

    Raises:
        ValueError: it is none.
    """
    import numpy as np

    try:
        version = np.lib.format.read_magic(file)
        readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in readers:  # 3.0 is for names of fields, which numbers have not
            raise ValueError(f"version {'.'.join(map(str, version))} of the format")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers that Python 2 wrote
            return readers[version](file)
    except OSError:
        raise
    except Exception as error:  # numpy evaluates the header as a Python literal; what that raises for hostile ones it does not say
        raise ValueError(str(error) or type(error).__name__) from None


def _check_matrix(where: str, shape: Any, dtype: Any, element: Element) -> None:
    if len(shape) != 2 or not all(type(extent) is int and 0 < extent <= MAX_EXTENT for extent in shape):
        raise SpecError(where, "is not a matrix", got=shape, needs=f"two dimensions, of 1 to {MAX_EXTENT}", remedy="x.reshape(rows, columns)")
    reals, others = 2 if dtype.kind == "c" else 1, "float32, float64, complex64 or complex128" if element.reals > 1 else "float32 or float64"
    if dtype.kind not in "fc" or reals > element.reals or dtype.itemsize // reals not in (4, 8) or dtype.subdtype:
        raise SpecError(where, "holds another type", got=str(dtype), needs=f"{others}, which become {element.dtype}",
                        remedy=f"{'x.real' if reals > element.reals else 'x'}.astype(numpy.{element.dtype})")


def matrices(a: Path, b: Path, *, quiet: bool = False, element: Element = F32) -> tuple[Any, Any]:
    """A [M, K] and B [K, N] in the elements' type.

    Raises:
        SpecError: either cannot be used, or they do not fit together.
    """
    left, right = matrix("--a", a, quiet=quiet, element=element), matrix("--b", b, quiet=quiet, element=element)
    if left.shape[1] != right.shape[0]:
        raise SpecError(f"--b {b}", "does not fit A", got=right.shape,
                        needs=f"[{left.shape[1]}, N], because A is {list(left.shape)}",
                        remedy="numpy.ascontiguousarray(b.T), if it is stored transposed")
    return left, right


def problem_sizes(text: str) -> list[tuple[int, int, int]]:
    """`1024,4096x512x64`, or with blanks between, as (m, n, k) each.

    Raises:
        SpecError: anything else.
    """
    sizes = []
    for part in (word for chunk in text.split(",") for word in chunk.split() or [""]):
        extents = part.split("x")
        if len(extents) not in (1, 3) or not all(re.fullmatch("[0-9]{1,7}", x) and 0 < int(x) < 1 << 20 for x in extents):
            raise SpecError("--sizes", "is not a list of sizes", got=part, needs="4096 or 4096x4096x512, extents of 1 to 1048575",
                            remedy="--sizes 1024,4096x4096x512")
        numbers = [int(x) for x in extents]
        sizes.append(tuple(numbers * 3 if len(numbers) == 1 else numbers))
    return sizes


def batch_sizes(text: str) -> list[int]:
    """`8,256` as numbers of products; an empty text is none.

    Raises:
        SpecError: anything else.
    """
    return numbers_of("--batches", text, "numbers of products", "8,16,256", "[1-9][0-9]{0,6}")


def numbers_of(option: str, text: str, what: str = "numbers", example: str = "30000,45000", form: str = "[0-9]{1,9}") -> list[int]:
    """An option's numbers between commas; an empty text is none.

    Raises:
        SpecError: anything else.
    """
    words = text.replace(",", " ").split()
    for word in words:
        if not re.fullmatch(form, word):
            raise SpecError(option, f"is not a list of {what}", got=word, needs=example, remedy=f"{option} {example}")
    return [int(word) for word in words]
