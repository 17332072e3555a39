"""The routines of BLAS's level 3 that a library may have kernels for: their kinds of products, and how the operands of each may stand.

The C interface has a number for each kind. Those of `LEVEL3` have kernels: their launches run once, in the order of the ABI table, or in the rounds of a
triangular system (templates/library/runtime/solves.c.j2). A kind whose launches are others needs its own way through the runtime, and then its name here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from gemmgen.catalog.element import F32, Element
from gemmgen.kinds import GEMM, Kind, kind_called, kind_of
from gemmgen.kinds.triangles import LOWER, UPPER
from gemmgen.kinds.triangular import LEFT, NONUNIT, RIGHT, UNIT
from gemmgen.spec import Problem

NUMBERS = {name: number for number, name in enumerate(("gemm", "syrk", "syr2k", "gemmt", "symm", "trmm", "trsm", "hemm", "herk", "her2k"))}
"""The header's, templates/library/header.h.j2, by the name of a kind."""
LEVEL3 = tuple(NUMBERS)[1:]
"""Kinds beside gemm that a library may have kernels of; those from hemm on are of complex elements."""
CHOICES = {"uplo": (LOWER, UPPER), "side": (LEFT, RIGHT), "diag": (NONUNIT, UNIT)}
"""What a routine's letters may say, in the order of the header's numbers."""


def number(kind: Kind) -> int:
    """The header's number of a kind; a batch is one of GEMM."""
    return NUMBERS.get(kind.asked, NUMBERS[GEMM.name])


def stands(kind: Kind) -> tuple[int, int, int]:
    """Whether the triangle is the upper one, A stands on the right, and its diagonal is 1; 0 of what the kind has no choice of."""
    return tuple(values.index(kind.options[key]) if key in kind.options else 0 for key, values in CHOICES.items())


def ways_of(name: str, element: Element = F32) -> Iterator[dict[str, Any]]:
    """Sections [problem] of every way in which BLAS's routine of a kind may find its operands of a type, without sizes.

    BLAS transposes no operand beside one that stands on a side. A Hermitian matrix has complex elements: of others there is no way.
    """
    if element.reals == 1 and (kind_called(name).hermitian or getattr(kind_called(name), "conjugates", False)):
        return
    keys = [key for key in CHOICES if key in kind_called(name).options]
    for values in product(*(CHOICES[key] for key in keys)):
        asked = {"kind": name, **dict(zip(keys, values))}
        kind = kind_of(Problem(**asked, type=element.name))
        beside = {LEFT: 1, RIGHT: 0}.get(kind.options.get("side"))
        for layout in kind.layouts:
            if beside is None or layout[beside] == "n":
                yield asked | {"layout": layout} | ({} if element.is_usual else {"type": element.name})


def sized(kind: Kind, m: int, n: int, k: int) -> tuple[int, int, int]:
    """The sizes of the kind's product that is most like an m x n x k one."""
    found = {"m": m, "n": n, "k": k}
    found |= {extent: found[other] for extent, other in kind.aliases.items() if extent in found}
    return found["m"], found["n"], found["k"]
