"""Products of complex numbers, as products of real matrices: BLAS's cgemm, and the kinds of triangles of complex numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gemmgen.catalog.element import ELEMENTS, Element
from gemmgen.interface import Round
from gemmgen.kinds.batches import POINTERS, STRIDED
from gemmgen.kinds.kind import COMPLEX_LAYOUTS, GEMM, LAYOUTS, Kind, Problem
from gemmgen.kinds.triangular import stages

BLOCKS = {
    # B's memory holds x + iy side by side; here o is a column of the real B and kk a row of it, whose lowest bits say the place in the block.
    "n": ("at(o ^ (kk & 1), kk >> 1)", "~o & kk & 1"),
    "t": ("at(o >> 1, kk ^ (o & 1))", "~o & kk & 1"),
    "c": ("at(o >> 1, kk ^ (o & 1))", "o & ~kk & 1"),
}
"""What the real B has at column `o` and row `kk`, by its layout, and where it is negative."""
ROWS = {"n": "at(o, kk)", "t": "at(2 * o + (kk & 1), kk >> 1)", "c": "kk & 1 ? -at(2 * o + 1, kk >> 1) : at(2 * o, kk >> 1)"}
"""The same of the real A at row `o` and column `kk`; one that is not transposed is read as it lies."""

BESIDE = {"a": ("nc",), "b": ("cn",)}
"""Layouts that complex elements have besides those of real ones, by the operand of which a triangle is read."""


def block(part: str, negative: str) -> str:
    """C, the part of an element of B that the real B has somewhere, and where it is negative."""
    return f"{negative} ? -{part} : {part}"


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
    operand: str | None = None  # of which a triangle is read
    vendor_share = 1.0  # the vendor's CGEMM is taken to be as fast as SGEMM of the real product
    reads = "of the real matrix that stands for the complex one"

    def __init__(self, type: str = "c64", layout: str = "nn"):
        self.element, self.options = ELEMENTS[type], {"type": type, "layout": layout}
        self.name = f"{self.element.letter}gemm"
        self.given = {"b": block(*BLOCKS[layout[1]])}
        if layout[0] != "n":
            self.given = {"a": ROWS[layout[0]], **self.given}
        conjugated = " and ".join(x for x, letter in zip("AB", layout) if letter == "c")
        self.formula = "C = alpha A B + beta C" + f", {conjugated} conjugated in memory," * bool(conjugated)

    @property
    def asked(self) -> str:
        return (POINTERS if self.indirect else STRIDED).name if self.batched and self._whole else self.name[1:]

    @property
    def _whole(self) -> bool:
        """Whether it is C = alpha A B + beta C itself."""
        return self.operand is None and not self.tiles

    def strided(self) -> Kind:
        found = super().strided()
        if self._whole:
            found.meaning = "products of complex matrices of one size, which lie a stride apart"
        return found

    def listed(self) -> Kind:
        found = super().listed()
        found.meaning = "products of complex matrices of one size, whose addresses are in an array of pointers"
        return found

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

    def multiplied(self, a: np.ndarray, b: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        return super().completed(a, b)

    def framed(self, a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> Problem:
        """`embedded` of complex A [M, K], B [K, N] and C [M, N]."""
        return Problem(a, b, c)

    def filled(self, a: np.ndarray, b: np.ndarray) -> Problem:
        return Problem(a, b)

    def completed(self, a: np.ndarray, b: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """The real A [M, 2K] and B [2K, 2N].

        Raises:
            SpecError: an operand is missing, or no kernel serves its shape.
        """
        return self.real_of(*self.multiplied(a, b))

    def real_of(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
        return self.framed(self.from_memory(a), whole, c)

    def part(self, c: np.ndarray, m: int, n: int) -> np.ndarray:
        c = self.in_memory(c, "n") if np.iscomplexobj(c) else c
        return self.part_of(c.reshape(len(c), -1, 2), m, n).reshape(m, 2 * n)[:, _columns(n)]

    def part_of(self, c: np.ndarray, m: int, n: int) -> np.ndarray:
        """The part A B of a C [rows, columns, 2] of both parts of elements, of what `framed` makes of A [M, K] and B [K, N]."""
        return c


class OfComplex(ComplexProduct):
    """A kind of products of which a triangle of C is computed, or one of an operand read, of complex elements.

    Args:
        type: the elements' name.
        layout: of A and of B.
        kind: the kind, as real elements have it.
    """

    def __init__(self, type: str, layout: str, kind: Kind):
        super().__init__(type, layout)
        self.of_reals = one = kind.of_complex(type)
        self.options = {**self.options, **one.options}
        self.name, self.meaning, self.aliases = self.element.letter + one.name, one.meaning, one.aliases
        self.formula = one.formula if one.one_operand else self.formula.replace(GEMM.formula, one.formula)
        self.vendor_share, self.longest_last, self.hermitian, self.exchanged = one.vendor_share, one.longest_last, one.hermitian, one.exchanged
        self.tiles, self.stored, self.mirrored, self.equations, self.constraints = one.tiles, one.stored, one.mirrored, one.equations, one.constraints
        self.operand, self.left = getattr(one, "operand", None), getattr(one, "left", False)
        if one.solves:  # parts of the triangle are multiplied, by kernels of one product
            self.solves, self.below, self.unit, self.beside, self.own, self.steps = True, one.below, one.unit, one.beside, one.own, one.steps
            self.vendor_chain, self.vendor_few, self.vendor_together = one.vendor_chain, one.vendor_few, one.vendor_together
            self.layouts = one.layouts
            return
        self.layouts = one.layouts = COMPLEX_LAYOUTS if one.layouts == LAYOUTS else one.layouts + BESIDE.get(self.operand, ())
        if self.operand == "a":
            self.given = {**self.given, "a": self._in_triangle("kk >> 1", "o", ROWS[layout[0]], "at(kk >> 1, 2 * o + (kk & 1))", "kk & 1", "-{0}")}
            self.k_range = tuple(end and f"2 * ({end})" for end in one.k_range)
            self.equations = (stages("2 * BM * cluster"),) if any(one.k_range) else ()
        elif self.operand == "b":
            part, negative = BLOCKS[layout[1]]
            self.given = {**self.given, "b": self._in_triangle(
                "kk >> 1", "(o >> 1)", block(part, negative), "at(kk ^ (o & 1), o >> 1)", "(o ^ kk) & 1", "o & 1 ? -{0} : {0}", "~o & kk & 1 ? -{0} : {0}",
            )}
            self.k_range = one.k_range

    def __reduce__(self) -> tuple[Any, ...]:
        """The real kind's C is another one in it: it is made of the options again."""
        return _made, (self.options["type"], self.options["layout"], type(self.of_reals), tuple(self.of_reals.options.values()), self.batched)

    def _in_triangle(self, k: str, row: str, read: str, mirrored: str, imaginary: str, conjugated: str, symmetric: str = "{0}") -> str:
        """C, what stands for an element of the operand of which a triangle is read.

        Args:
            k, row: its column and its row in the complex operand: of B^T, where that is B.
            read: what it is where memory has it.
            mirrored: the part of the element at its column and row in its place.
            imaginary: whether it is an imaginary part.
            conjugated: the imaginary part of the conjugated mirror image, of `mirrored`.
            symmetric: likewise of one that is not conjugated, or a real part.
        """
        one, inside = self.of_reals, "<" if self.of_reals.below else ">"
        if "diag" in one.options:
            diagonal = f"({imaginary}) ? 0.0f : 1.0f" if one.unit else read
            return f"({k}) == {row} ? ({diagonal}) : ({k}) {inside} {row} ? ({read}) : 0.0f"
        other = symmetric.format(mirrored)
        if not one.conjugates:
            return f"({k}) {inside} {row} || ({k}) == {row} ? ({read}) : ({other})"
        conjugate = f"({k}) == {row} ? 0.0f : {conjugated.format(mirrored)}"
        return f"({k}) {inside} {row} ? ({read}) : ({imaginary}) ? ({conjugate}) : ({mirrored})"

    # ---- what a spec may ask of it

    def check(self, problem: Any, place: str) -> None:
        self.of_reals.check(problem, place)

    # ---- kinds that solve: their rounds are of elements, and launches of parts

    def rounds(self, m: int, n: int, k: int, alpha: complex, beta: float, contiguous: bool) -> list[Round]:
        if not self.solves:
            return super().rounds(m, n, k, alpha, beta, contiguous)
        return [
            replace(one, n=self.reals * one.n, k=self.reals * one.k,
                    at={name: (of, row, self.reals * column) for name, (of, row, column) in one.at.items()})
            for one in self.of_reals.rounds(m, n // self.reals, k, alpha, beta, contiguous)
        ]

    @property
    def between(self) -> Kind:
        return ComplexProduct(self.options["type"], self.options["layout"])

    def largest(self, m: int, n: int) -> tuple[int, int, int]:
        return self.extents(*self.of_reals.largest(m, n // self.reals))

    def whole(self, x: np.ndarray) -> np.ndarray:
        return self.of_reals.whole(x)

    # ---- what the judge compares with

    def multiplied(self, a: np.ndarray, b: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        return self.of_reals.completed(a, b)

    def terms(self, a: np.ndarray, b: np.ndarray | None, alpha: complex = 1.0) -> list[tuple[complex, np.ndarray, np.ndarray]]:
        return self.of_reals.terms(a, b, alpha)

    def framed(self, a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> Problem:
        return self.of_reals.embedded(a, b, c)

    def filled(self, a: np.ndarray, b: np.ndarray) -> Problem:
        return self.of_reals.filled(a, b)

    def part_of(self, c: np.ndarray, m: int, n: int) -> np.ndarray:
        return self.of_reals.part(c, m, n)

    def read(self, c: np.ndarray) -> np.ndarray:
        return self.of_reals.read(c)

    def computed(self, m: int, n: int) -> np.ndarray:
        return self.of_reals.computed(m, n)


def _made(type: str, layout: str, kind: type[Kind], options: tuple[str, ...], batched: bool) -> Kind:
    found = OfComplex(type, layout, kind(*options))
    return found.strided() if batched else found


def _columns(n: int) -> np.ndarray:
    """The columns of a real C, of even columns of the complex one the real parts and of odd ones the imaginary parts."""
    return np.arange(n) * 2 + np.arange(n) % 2
