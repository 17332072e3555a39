"""Matrices of the user's own, from .npy files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gemmgen.cli.output import note
from gemmgen.errors import SpecError


def matrix(option: str, path: Path, *, quiet: bool = False) -> Any:
    """The matrix in a .npy file as float32.

    Nothing in the file is executed: pickled objects are refused.

    Raises:
        SpecError: missing, damaged, or not a matrix of real numbers.
    """
    import numpy as np

    where = f"{option} {path}"
    try:
        with path.open("rb") as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
    except OSError as error:
        raise SpecError(where, "cannot be read", got=error.strerror, needs="a .npy file", remedy="check the path") from None
    except (ValueError, EOFError, MemoryError, OverflowError) as error:
        raise SpecError(
            where, "is not a whole .npy file of numbers", got=str(error).splitlines()[0][:200],
            needs="a float32 matrix written by numpy.save", remedy="numpy.save(path, x.astype(numpy.float32))",
        ) from None
    if array.ndim != 2 or 0 in array.shape:
        raise SpecError(where, "is not a matrix", got=array.shape, needs="two dimensions, neither of them 0",
                        remedy="x.reshape(rows, columns)")
    if array.dtype.kind != "f" or array.dtype.itemsize not in (4, 8):
        raise SpecError(where, "holds another type", got=str(array.dtype), needs="float32, or float64 to be rounded to it",
                        remedy="x.astype(numpy.float32)")
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(array, dtype=np.float32)
    if array.dtype.itemsize == 8:
        beyond = int((np.isfinite(array) & ~np.isfinite(single)).sum())
        changed = int((np.isfinite(single) & (array != single)).sum())
        text = f"{changed} change" + (f" and {beyond} become Inf" if beyond else "")
        note(f"{where}: float64 rounded to float32; of {array.size} elements {text}", quiet)
    return single


def matrices(a: Path, b: Path, *, quiet: bool = False) -> tuple[Any, Any]:
    """A [M, K] and B [K, N].

    Raises:
        SpecError: either cannot be used, or they do not fit together.
    """
    left, right = matrix("--a", a, quiet=quiet), matrix("--b", b, quiet=quiet)
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
        if len(extents) not in (1, 3) or not all(x.isdecimal() and 0 < int(x) < 1 << 20 for x in extents):
            raise SpecError("--sizes", "is not a list of sizes", got=part, needs="4096 or 4096x4096x512, extents of 1 to 1048575",
                            remedy="--sizes 1024,4096x4096x512")
        numbers = [int(x) for x in extents]
        sizes.append(tuple(numbers * 3 if len(numbers) == 1 else numbers))
    return sizes
