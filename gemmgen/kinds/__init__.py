"""The kinds of products: one product, a triangle of one, batches, and those that other packages bring by entry points of the group `gemmgen.kinds`.

`Kind` states what a kind must have; docs/add-a-kind.md adds one.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from gemmgen.catalog.brought import with_brought
from gemmgen.kinds.batches import GROUPED, POINTERS, STRIDED
from gemmgen.kinds.complex import ComplexProduct, OfComplex
from gemmgen.kinds.kind import GEMM, Kind, Problem, Tiles, require_plain
from gemmgen.kinds.solves import TRSM
from gemmgen.kinds.triangles import GEMMT, HER2K, HERK, SYR2K, SYRK
from gemmgen.kinds.triangular import HEMM, SYMM, TRMM

__all__ = [
    "ComplexProduct", "GEMM", "GEMMT", "GROUPED", "HEMM", "HER2K", "HERK", "OfComplex", "POINTERS", "STRIDED", "SYMM", "SYR2K", "SYRK", "TRMM", "TRSM",
    "Kind", "Problem", "Tiles", "all_kinds", "kind_called", "kind_of", "require_plain",
]

OF_COMPLEX = (SYRK, HERK, SYR2K, HER2K, GEMMT, TRMM, TRSM, SYMM, HEMM)
"""The kinds of `triangles`, `triangular` and `solves` that have complex elements, too."""
ENTRY_POINTS = "gemmgen.kinds"


@cache
def all_kinds() -> dict[str, Kind]:
    """The kinds by name: those of this package, then those that other packages bring.

    Raises:
        GemmgenError: two have one name.
    """
    shipped = (GEMM, SYRK, HERK, SYR2K, HER2K, GEMMT, TRMM, TRSM, SYMM, HEMM, STRIDED, POINTERS, GROUPED)
    return with_brought(shipped, ENTRY_POINTS, "kinds of products", "your kind")


def kind_called(name: str) -> Kind:
    """The kind of that name, which there is."""
    return all_kinds()[name]


def kind_of(problem: Any) -> Kind:
    """The kind that a spec's section [problem] asks for, with what the section decides of it."""
    found = kind_called(problem.kind)
    if found == GEMM and problem.element.reals > 1:
        return ComplexProduct(problem.type, problem.layout)
    if found == STRIDED and problem.element.reals > 1:
        return ComplexProduct(problem.type, problem.layout).strided()
    if found == POINTERS and problem.element.reals > 1:
        return ComplexProduct(problem.type, problem.layout).listed()
    if found in OF_COMPLEX and problem.element.reals > 1:
        return OfComplex(problem.type, problem.layout, found.of(problem)).of_batch(problem)
    return found.of(problem).of_batch(problem)
