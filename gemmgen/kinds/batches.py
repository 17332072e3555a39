"""Batches: many products in one launch, of one size or of a size each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gemmgen.interface import Line, Parameter, given
from gemmgen.kinds.kind import Held, Kind

SIZES = ("m", "n", "k")
FACTORS = ("alpha", "beta")
PITCHES = ("lda", "ldb", "ldc")
STRIDES = tuple(given(f"stride_{x}", "long long", f"elements from one product's {x.upper()} to the next one's") for x in "abc")


class OfOneSize(Kind):
    """Products that share sizes, leading dimensions, alpha and beta."""

    batched = True

    def arguments(self, problems: np.ndarray, held: Held) -> dict[str, Any]:
        first = problems[0] if len(problems) else np.zeros((), problems.dtype)
        sizes = {name: int(first[name]) for name in SIZES} | {name: float(first[name]) for name in FACTORS}
        return sizes | {name: max(int(first[name]), 1) for name in PITCHES}


class Strided(OfOneSize):
    name = "strided"
    meaning = "many of one size, whose matrices lie a stride apart"
    strides = True
    fields = ("a", "b", "c", "stride_a", "stride_b", "stride_c", *PITCHES, *SIZES, *FACTORS, "batch")

    def lines(self, matrices: Sequence[tuple[Parameter, ...]], sizes: tuple[Parameter, ...], batch: Parameter) -> list[Line]:
        return [*map(Line, matrices), Line(STRIDES), Line((*sizes, batch))]

    def arguments(self, problems: np.ndarray, held: Held) -> dict[str, Any]:
        element = problems.dtype["alpha"].itemsize
        strides = {
            f"stride_{x}": (int(problems[x][1]) - int(problems[x][0])) // element if len(problems) > 1 else 0 for x in "abc"
        }
        return super().arguments(problems, held) | strides | {x: held.first(x) for x in "abc"}


class Pointers(OfOneSize):
    name = "pointers"
    meaning = "many of one size, whose addresses are in an array of pointers"
    indirect = True
    fields = ("a", "b", "c", *PITCHES, *SIZES, *FACTORS, "batch")

    def lines(self, matrices: Sequence[tuple[Parameter, ...]], sizes: tuple[Parameter, ...], batch: Parameter) -> list[Line]:
        told = [Line((replace(one, element=f"{one.element}*", const=False, restrict=False), *rest)) for one, *rest in matrices]
        return [*told, Line((*sizes, batch))]

    def arguments(self, problems: np.ndarray, held: Held) -> dict[str, Any]:
        return super().arguments(problems, held) | {x: held.pointers(x) for x in "abc"}


class Grouped(Kind):
    name = "grouped"
    meaning = "many, each with a size, matrices, leading dimensions and factors of its own"
    batched = True
    uniform = False
    fields = ("problems", "batch")

    def lines(self, matrices: Sequence[tuple[Parameter, ...]], sizes: tuple[Parameter, ...], batch: Parameter) -> list[Line]:
        return [Line((given("problems", "Problem", "the products, 64 bytes each", pointer=True, const=True, restrict=True), batch))]

    def arguments(self, problems: np.ndarray, held: Held) -> dict[str, Any]:
        return {"problems": held.records()}


STRIDED, POINTERS, GROUPED = Strided(), Pointers(), Grouped()
