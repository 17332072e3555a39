"""Elements: what a number of A, B and C is, and the last form of a sum. A row each.

Types in which B or C are stored are rows on top of it (`Stored`; `gemmgen.catalog.input`, `gemmgen.catalog.output`): each says how its numbers
become elements and back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gemmgen.catalog import exactly


@dataclass(frozen=True)
class Element:
    """One type of numbers.

    Attributes:
        name: as specs write it.
        title: in words.
        c_type: its C type.
        dtype: NumPy's.
        reference: NumPy's type of what the judge compares C with: FP64 for FP32, where products of two elements are exact; np.longdouble for
            FP64, to which exact results are rounded.
        letter: BLAS's, the first of a routine's name.
        number: in the C interface of a library, `problem.element`.
    """

    name: str
    title: str
    c_type: str
    dtype: np.dtype
    reference: np.dtype
    letter: str
    number: int

    reals: ClassVar[int] = 1
    """Real numbers in an element, which lie one behind the other."""

    @property
    def part(self) -> Element:
        """The type of these numbers, which kernels compute with."""
        return self

    @property
    def is_usual(self) -> bool:
        """Whether a spec that says nothing has it."""
        return self.name == F32.name

    @property
    def bytes(self) -> int:
        """Of one element."""
        return self.dtype.itemsize

    @property
    def fused(self) -> str:
        """C's function x y + z of it, with one rounding."""
        return "fma" if self.bytes == 8 else "fmaf"

    @property
    def roundoff(self) -> float:
        """Half a unit in the last place of 1: the relative error of one rounding to nearest."""
        return float(np.finfo(self.dtype).eps) / 2

    @property
    def tiniest(self) -> float:
        """The smallest positive element."""
        return float(np.finfo(self.dtype).smallest_subnormal)

    @property
    def exponents(self) -> tuple[int, int, int]:
        """log2 of the smallest element, of the smallest normal one, and of the largest one's power of two."""
        told = np.finfo(self.dtype)
        return int(np.log2(self.tiniest)), int(told.minexp), int(told.maxexp) - 1

    @property
    def poison(self) -> np.generic:
        """What lies where no kernel may read or write: NaN."""
        return self.dtype.type(np.nan)

    def rounded(self, x: np.ndarray) -> np.ndarray:
        """Numbers as elements, same shape: each rounded to nearest, ties to even, too large ones Inf."""
        return np.asarray(x).astype(self.dtype)

    def widened(self, x: np.ndarray) -> np.ndarray:
        """Elements in the type of the reference, same shape."""
        return x.astype(self.reference)

    def exact(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """A [M, K] B [K, N] in the type of the reference: products are exact, and each sum errs by its roundoff. Of `Wide` elements sums are exact."""
        return self.widened(a) @ self.widened(b)

    def exact_or_special(
        self, a: np.ndarray, b: np.ndarray, as_stored: Callable[[np.ndarray], np.ndarray] = lambda x: x,
    ) -> tuple[np.ndarray, np.ndarray]:
        """A B [M, N] in the type of the reference, and [M, N], which of its elements are finite; what is beyond the type's range is Inf.

        Inf and NaN in the operands spread as arithmetic of this type has them.

        Args:
            as_stored: elements to what C holds of them, whose range may be smaller.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            product = self.exact(a, b)
            held = as_stored(self.rounded(product))
            return np.where(np.isfinite(held), product, held), np.isfinite(held)

    def same_special(self, c: np.ndarray, product: np.ndarray, finite: np.ndarray) -> bool:
        """Whether every element of C that cannot be finite is the Inf or NaN that this type has there, and no other is.

        Args:
            c: [M, N] computed.
            product, finite: [M, N] each, as `exact_or_special` gives them.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            want = self.rounded(product)[~finite]
        got = c[~finite]
        return bool(np.isfinite(c[finite]).all() and np.array_equal(got, want, equal_nan=True))

    def finite(self, x: np.ndarray) -> np.ndarray:
        """The elements with zeros in place of Inf and NaN, same shape."""
        return np.where(np.isfinite(x), x, self.dtype.type(0))


class Wide(Element):
    """A type whose products no type of NumPy's holds: they are computed in integers."""

    def exact(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """A [M, K] B [K, N] in the type of the reference, each element rounded once. What an Inf or a NaN takes part in is the one that sums have."""
        in_rows, in_columns = ~np.isfinite(a).all(axis=1), ~np.isfinite(b).all(axis=0)
        product = exactly.product(self.finite(a), self.finite(b))
        if in_rows.any() or in_columns.any():
            with np.errstate(invalid="ignore", over="ignore"):
                product = np.where(in_rows[:, None] | in_columns[None, :], self.widened(a) @ self.widened(b), product)
        return product


class Complex(Element):
    """Complex numbers, real parts first: `c_type` is that of a part."""

    reals = 2

    @property
    def part(self) -> Element:
        return next(one for one in (F32, F64) if one.c_type == self.c_type)

    def exact(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """A [M, K] B [K, N] in the type of the reference: each part as exact as products of the parts' type are."""
        part = self.part
        found = np.empty((a.shape[0], b.shape[1]), self.reference)
        found.real = part.exact(np.hstack([a.real, -a.imag]), np.vstack([b.real, b.imag]))
        found.imag = part.exact(np.hstack([a.real, a.imag]), np.vstack([b.imag, b.real]))
        return found


F32 = Element("f32", "FP32", "float", np.dtype(np.float32), np.dtype(np.float64), "s", 0)
F64 = Wide("f64", "FP64", "double", np.dtype(np.float64), np.dtype(np.longdouble), "d", 1)
C64 = Complex("c64", "complex FP32", "float", np.dtype(np.complex64), np.dtype(np.complex128), "c", 2)
C128 = Complex("c128", "complex FP64", "double", np.dtype(np.complex128), np.dtype(np.clongdouble), "z", 3)
ELEMENTS = {one.name: one for one in (F32, F64, C64, C128)}


@dataclass(frozen=True)
class Stored:
    """How B or C lies in memory.

    Attributes:
        name: as specs and schemes write it.
        title: in words, for a kernel's header.
        element: the C type of an element in memory.
        dtype: NumPy's for the same bytes.
    """

    name: str
    title: str
    element: str
    dtype: np.dtype | type[np.generic]

    @property
    def is_usual(self) -> bool:
        """Whether it is a type of operands as well: no conversion stands between the two."""
        return self.name in ELEMENTS

    @property
    def bytes(self) -> int:
        """Of an element."""
        return np.dtype(self.dtype).itemsize

    def rounded(self, x: np.ndarray) -> np.ndarray:
        """FP32 values as such elements hold them."""
        return self.values(self.stored(x))
