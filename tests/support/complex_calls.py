"""Products of complex integers through a library's C functions, and what calls of FP64 share with them."""

from __future__ import annotations

import ctypes

import numpy as np
from standin import Library

from gemmgen.catalog.element import C64, Element
from gemmgen.library.structures import Problem, sized

OK = 0
ROW, COLUMN = 0, 1
ON_DEVICE, POINTERS = 1, 4
PAD = 3


class Padded:
    """A call whose C lies in padded memory."""

    def run(self) -> np.ndarray:
        """[count, m, n] behind the call; what lies beside C is as it was."""
        assert self.library("gemm", ctypes.byref(self.problem), None, ctypes.c_size_t(0), None) == OK
        c = np.asarray(self.held_c)
        assert np.isnan(c[:, :, c.shape[2] - PAD :]).all()
        c = c[:, :, : c.shape[2] - PAD]
        return c if self.order == ROW else c.transpose(0, 2, 1)


class Call(Padded):
    """A product of integers [count, m, k] by [count, k, n], in padded memory whose other numbers are NaN; operands and C begin at a multiple of a part."""

    def __init__(self, library: Library, m=5, n=3, k=7, count=1, *, letters="nn", order=ROW, alpha=1 + 0j, beta=0j, element: Element = C64, flags=0, seed=1,
                 **more):
        rng = np.random.default_rng(seed)
        draw = lambda *shape: (rng.integers(-8, 9, shape) + 1j * rng.integers(-8, 9, shape)).astype(element.dtype)
        self.library, self.element, self.alpha, self.beta, self.order = library, element, alpha, beta, order
        self.a, self.b, self.before = draw(count, m, k), draw(count, k, n), draw(count, m, n)
        fields = {}
        for x, values, letter in (("a", self.a, letters[0]), ("b", self.b, letters[1]), ("c", self.before, "n")):
            stored = values.conj() if letter == "c" else values
            stored = stored.transpose(0, 2, 1) if (letter != "n") != (order == COLUMN) else stored
            padded = np.full((*stored.shape[:2], stored.shape[2] + PAD), complex(np.nan, np.nan), element.dtype)
            padded[:, :, : stored.shape[2]] = stored
            held = [library.put(one, misalign=element.part.bytes) for one in padded] if flags & POINTERS else library.put(padded, misalign=element.part.bytes)
            setattr(self, f"held_{x}", held)
            at = library.point_to(held) if flags & POINTERS else held
            fields |= {x: at.ctypes.data, f"ld{x}": padded.shape[2], f"stride_{x}": int(np.prod(padded.shape[1:]))}
        self.scalars = library.put(np.array([alpha, beta], element.dtype))
        fields |= {"alpha": self.scalars.ctypes.data, "beta": self.scalars[1:].ctypes.data}
        self.problem = sized(Problem, order=order, transpose_a="ntc".index(letters[0]), transpose_b="ntc".index(letters[1]), m=m, n=n, k=k, batch=count,
                             flags=flags, element=element.number, **(fields | more))

    def check(self, bias=0) -> None:
        """Every element, exactly: of integers there is no rounding."""
        want = self.alpha * (self.a @ self.b) + (self.beta * self.before if self.beta else 0) + bias
        assert (self.run() == want).all()
