"""Types of B's elements: that of A's, and the 16-bit types of words beside an A of FP32, which a scheme that says so (`Scheme.b`) takes as they are stored.

A has the plan's own type of elements (`gemmgen.catalog.element`). Programs give B as values of that type; what a kernel reads is `stored`. What turns
an element into FP32 in a kernel is what does so for words of that type.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmgen.catalog.conversion import RAW, decode, encode
from gemmgen.catalog.element import F32, F64, Element, Stored
from gemmgen.catalog.number import FORMATS
from gemmgen.errors import SpecError


@dataclass(frozen=True)
class Input(Stored):
    """One type of B's elements.

    Attributes:
        widen: C, the float that the element `{x}` stands for.
    """

    widen: str

    def stored(self, x: np.ndarray) -> np.ndarray:
        """FP32 values to elements of `dtype`, same shape, each rounded to nearest, ties to even; too large ones become Inf, and NaN stays one."""
        return np.asarray(x, self.dtype) if self.is_usual else encode(self.name, x)

    def values(self, stored: np.ndarray) -> np.ndarray:
        """The FP32 values that elements of `dtype` stand for, same shape."""
        return stored if self.is_usual else decode(self.name, stored)

    def require(self, x: np.ndarray, name: str = "b") -> None:
        """
        Raises:
            SpecError: some value of `x` is no number of this type.
        """
        if self.is_usual:
            return
        wrong = ~((held := self.rounded(x)) == x) & ~(np.isnan(held) & np.isnan(x))
        if wrong.any():
            raise SpecError(
                name, f"holds {wrong.sum()} values that are no {self.title} numbers", got=repr(x[wrong][0]), needs=f"{self.title}, as the kernel reads it",
                remedy=f'round it first, or a scheme that splits B, with [problem] b = "{F32.name}"',
            )

    @property
    def bits(self) -> int:
        """Significant bits of a normal number."""
        return FORMATS[self.name].fraction_bits + 1


USUAL, WIDE = (Input(one.name, one.title, one.c_type, one.dtype, "{x}") for one in (F32, F64))
INPUTS = {one.name: one for one in (
    USUAL, Input("f16", "FP16", "unsigned short", RAW["f16"], "widen_low({x})"), Input("bf16", "BF16", "unsigned short", RAW["bf16"], "widen_low({x})"),
)}


def input_of(element: Element, b: str | None) -> Input:
    """The type of B beside an A of these elements.

    Args:
        b: another than A's, as schemes name it; None for A's.
    """
    return INPUTS[b] if b else WIDE if element == F64 else USUAL
