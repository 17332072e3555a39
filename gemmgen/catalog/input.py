"""Types of B's elements: FP32, and the 16-bit types of words, which a scheme that says so (`Scheme.b`) takes as they are stored.

A has the plan's own type of elements (`gemmgen.catalog.element`). Programs give B as FP32 values; what a kernel reads is `stored`. What turns
an element into FP32 in a kernel is what does so for words of that type.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmgen.catalog import element
from gemmgen.catalog.conversion import RAW, decode
from gemmgen.catalog.number import FORMATS
from gemmgen.errors import SpecError


@dataclass(frozen=True)
class Input:
    """One type of B's elements.

    Attributes:
        name: as specs and schemes write it.
        title: in words, for a kernel's header.
        element: the C type of an element in memory.
        dtype: NumPy's for the same bytes.
        widen: C, the float that the element `{x}` stands for.
    """

    name: str
    title: str
    element: str
    dtype: np.dtype
    widen: str

    @property
    def is_usual(self) -> bool:
        """Whether a spec that says nothing has it."""
        return self.name == F32.name

    @property
    def bytes(self) -> int:
        """Of an element."""
        return self.dtype.itemsize

    def stored(self, x: np.ndarray) -> np.ndarray:
        """FP32 values to elements of `dtype`, same shape, each rounded to nearest, ties to even; too large ones become Inf, and NaN stays one."""
        x = np.asarray(x, np.float32)
        if self.is_usual:
            return x
        if self.name == "f16":
            with np.errstate(over="ignore", invalid="ignore"):
                return x.astype(np.float16).view(self.dtype)
        bits = x.view(np.uint32)
        rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
        return np.where(np.isnan(x), 0x7FFF, rounded).astype(self.dtype)

    def values(self, stored: np.ndarray) -> np.ndarray:
        """The FP32 values that elements of `dtype` stand for, same shape."""
        return stored if self.is_usual else decode(self.name, stored)

    def rounded(self, x: np.ndarray) -> np.ndarray:
        """FP32 values as B holds them."""
        return self.values(self.stored(x))

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


F32 = Input(element.F32.name, element.F32.title, element.F32.c_type, element.F32.dtype, "{x}")
INPUTS = {one.name: one for one in (
    F32, Input("f16", "FP16", "unsigned short", RAW["f16"], "widen_low({x})"), Input("bf16", "BF16", "unsigned short", RAW["bf16"], "widen_low({x})"),
)}
