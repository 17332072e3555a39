"""Products of complex numbers, as products of real matrices: BLAS's cgemm."""

from __future__ import annotations

import numpy as np

from gemmgen.catalog.element import ELEMENTS, Element
from gemmgen.errors import SpecError
from gemmgen.kinds.kind import COMPLEX_LAYOUTS, Kind, Problem

BLOCKS = {
    # B's memory holds x + iy side by side; here o is a column of the real B and kk a row of it, whose lowest bits say the place in the block.
    "n": ("at(o ^ (kk & 1), kk >> 1)", "~o & kk & 1"),
    "t": ("at(o >> 1, kk ^ (o & 1))", "~o & kk & 1"),
    "c": ("at(o >> 1, kk ^ (o & 1))", "o & ~kk & 1"),
}
"""What the real B has at column `o` and row `kk`, by its layout, and where it is negative."""
ROWS = {"t": "at(2 * o + (kk & 1), kk >> 1)", "c": "kk & 1 ? -at(2 * o + 1, kk >> 1) : at(2 * o, kk >> 1)"}
"""The same of the real A at row `o` and column `kk`; one that is not transposed is read as it lies."""


class ComplexProduct(Kind):
    """C = alpha A B + beta C of complex A [M, K], B [K, N] and C [M, N], by the product of a real A [M, 2K] and a real B [2K, 2N].

    A and C are the complex matrices as they lie, real and imaginary parts side by side. Each element x + iy of B is a block of the real B:

        [ x  y]     rows 2p and 2p + 1,
        [-y  x]     columns 2j and 2j + 1

    so that a row of A times two columns of B is the real and the imaginary part of an element: eight real operations for each complex product and sum.

    Args:
        type: the elements' name.
        layout: of A and of B: n, t, or c for one that is stored conjugated and transposed.
    """

    meaning = "one product of complex matrices"
    layouts = COMPLEX_LAYOUTS
    reals = 2
    vendor_share = 1.0  # the vendor's CGEMM is taken to be as fast as SGEMM of the real product
    reads = "of the real matrix that stands for the complex one"

    def __init__(self, type: str = "c64", layout: str = "nn"):
        self.element, self.options = ELEMENTS[type], {"type": type, "layout": layout}
        self.name = f"{self.element.letter}gemm"
        self.given = {"b": "{} ? -{} : {}".format(BLOCKS[layout[1]][1], *2 * BLOCKS[layout[1]][:1])}
        if layout[0] != "n":
            self.given = {"a": ROWS[layout[0]], **self.given}
        conjugated = " and ".join(x for x, letter in zip("AB", layout) if letter == "c")
        self.formula = "C = alpha A B + beta C" + f", {conjugated} conjugated in memory," * bool(conjugated)

    def extents(self, m: int, n: int, k: int) -> tuple[int, int, int]:
        return m, 2 * n, 2 * k

    def stored_layout(self, layout: str) -> str:
        return layout.replace("c", "t")

    def layout_of(self, stored: str) -> str:
        return self.options["layout"]

    def element_of(self, part: Element) -> Element:
        return self.element

    def in_memory(self, x: np.ndarray, letter: str) -> np.ndarray:
        stored = super().in_memory(x.conj() if letter == "c" else x, letter)
        return np.ascontiguousarray(stored).view(self.element.part.dtype)

    def from_memory(self, c: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(c).view(self.element.dtype)

    # ---- what the judge compares with

    def completed(self, a: np.ndarray, b: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """The real A [M, 2K] and B [2K, 2N].

        Raises:
            SpecError: an operand is missing.
        """
        a, b = super().completed(a, b)
        (k, n), part = b.shape, self.element.part.dtype
        blocks = np.empty((k, 2, n, 2), part)
        blocks[:, 0, :, 0], blocks[:, 0, :, 1], blocks[:, 1, :, 0], blocks[:, 1, :, 1] = b.real, b.imag, -b.imag, b.real
        return self.in_memory(a, "n"), blocks.reshape(2 * k, 2 * n)

    def embedded(self, a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> Problem:
        """Of the real A [M, K] as pairs, and a complex element of B for each two rows: A B is the real parts of even columns of C, and the imaginary ones
        of odd columns. The other parts of C are NaN: real factors leave them apart."""
        if a.shape[1] % 2:
            a, b = np.pad(a, ((0, 0), (0, 1))), np.pad(b, ((0, 1), (0, 0)))
        whole = np.empty((b.shape[0] // 2, b.shape[1]), self.element.dtype)
        first, second = b[::2], b[1::2]
        odd = np.arange(b.shape[1]) % 2 == 1
        whole.real, whole.imag = np.where(odd, second, first), np.where(odd, first, -second)
        if c is not None:
            parts = np.full((c.shape[0], 2 * c.shape[1]), np.nan, c.dtype)
            parts[:, _columns(c.shape[1])] = c
            c = self.from_memory(parts)
        return Problem(self.from_memory(a), whole, c)

    def part(self, c: np.ndarray, m: int, n: int) -> np.ndarray:
        c = self.in_memory(c, "n") if np.iscomplexobj(c) else c
        return c[:, _columns(n)]


def _columns(n: int) -> np.ndarray:
    """The columns of a real C, of even columns of the complex one the real parts and of odd ones the imaginary parts."""
    return np.arange(n) * 2 + np.arange(n) % 2
