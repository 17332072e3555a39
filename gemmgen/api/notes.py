"""What `gemmgen.matmul` says once a process: which way it took, and why."""

from __future__ import annotations

import sys
import warnings

from gemmgen.api.wide import ELEMENTS
from gemmgen.errors import Notice

_noted: set[str] = set()


def note(about: str, text: str) -> None:
    """Warn once a process of each thing, at the line that called this package."""
    if about in _noted:
        return
    _noted.add(about)
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __package__.partition(".")[0]:
        level, frame = level + 1, frame.f_back
    warnings.warn(f"gemmgen.matmul: {text}", Notice, stacklevel=level)


def note_type(kind: str, own: str) -> None:
    """Of arrays of another type than float32, and the name of the library that multiplies them."""
    if kind in ELEMENTS:
        told = "FP64" if kind == "float64" else kind
        note(kind, f"{kind} arrays are multiplied by {own} in {told}; kernels of {told} take those of CuPy and torch in a GPU's memory")
    elif kind != "float32":
        note(kind, f"{kind} arrays are multiplied by {own} in {kind}, as libraries of kernels take float32 alone; convert both for these")


def note_no_gpu(own: str) -> None:
    """Of arrays on the CPU."""
    note("no GPU", f"the arrays are in no GPU's memory: {own} multiplies them on the CPU")


def note_refused(error: Exception, own: str) -> None:
    """Of products that the library of kernels does not serve."""
    note(f"refused {error}", f"{own} multiplies, as the library of kernels does not: {error}")
