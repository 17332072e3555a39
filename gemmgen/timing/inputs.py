"""Rotating inputs on a GPU, so that its cache does not serve the same matrices."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from gemmgen.catalog.element import F32
from gemmgen.catalog.input import USUAL, Input
from gemmgen.errors import SpecError

SLAB_BYTES = 1 << 30
"""Of FP64 that is held at a time where a matrix is drawn or multiplied in it."""


def set_count(set_bytes: int, l2_bytes: int, free_bytes: int) -> int:
    """Input sets to rotate: so many that together they exceed L2 four times, 2 to 8, in a quarter of the memory that is free.

    The rest is for the rivals' converted operands and for packed words.
    """
    enough = max(2, min(8, -(-4 * l2_bytes // max(set_bytes, 1))))
    return max(1, min(enough, free_bytes // 4 // max(set_bytes, 1)))


class Inputs:
    """Rotating input sets on the GPU for one size, FP32, with C of each; other types as rivals ask for them.

    Args:
        size: (m, n, k).
        low, high: uniform data between them.
        l2_bytes: cache to exceed; None for this GPU's.
        b: type of B's elements. Its numbers are what all contenders multiply; those that read B in that type get `stored_b`.
        octaves: where it is not 0, numbers of either sign instead, whose magnitudes' logarithms are even from 2^-octaves to 2^octaves.
    """

    def __init__(self, size: tuple[int, int, int], low: float = -1.0, high: float = 1.0, l2_bytes: int | None = None, octaves: int = 0,
                 b: Input = USUAL):
        import cupy

        m, n, k = size
        self.size = size
        if l2_bytes is None:
            l2_bytes = int(cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["l2CacheSize"])
        free = cupy.cuda.runtime.memGetInfo()[0] + cupy.get_default_memory_pool().free_bytes()
        self.sets = set_count(F32.bytes * (m * k + k * n + m * n), l2_bytes, free)
        draw = cupy.random.default_rng(0)
        self.a = [self._drawn(draw, (m, k), low, high, octaves) for _ in range(self.sets)]
        self.type_of_b = b
        self.b = [self._drawn(draw, (k, n), low, high, octaves, b) for _ in range(self.sets)]
        self.c = [cupy.empty((m, n), cupy.float32) for _ in range(self.sets)]

    @staticmethod
    def _drawn(draw: Any, shape: tuple[int, int], low: float, high: float, octaves: int, of: Input = USUAL) -> Any:
        """Drawn in FP64 and rounded: FP32 generators leave a 2^-23 grid that flatters a split. Then to numbers of type `of`, to nearest even."""
        import cupy

        out = cupy.empty(shape, cupy.float32)
        step = max(1, SLAB_BYTES // (8 * shape[1]))
        for at in range(0, shape[0], step):
            rows = out[at : at + step]
            if octaves:
                rows[...] = cupy.where(draw.random(rows.shape) < 0.5, -1.0, 1.0) * cupy.exp2(octaves * (2 * draw.random(rows.shape) - 1))
            else:
                rows[...] = low + (high - low) * draw.random(rows.shape)
            if of.name == "f16":
                rows[...] = rows.astype(cupy.float16)
            elif not of.is_usual:
                bits = rows.view(cupy.uint32)
                bits[...] = bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000
        return out

    @cached_property
    def stored_b(self) -> list[Any]:
        """B of each set as elements of its type."""
        import cupy

        if self.type_of_b.is_usual:
            return self.b
        if self.type_of_b.name == "f16":
            return [b.astype(cupy.float16).view(cupy.uint16) for b in self.b]
        return [(b.view(cupy.uint32) >> 16).astype(cupy.uint16) for b in self.b]

    def b_for(self, wanted: Input) -> list[Any]:
        """B of each set as a kernel reads it.

        Raises:
            SpecError: the kernel reads another type than that of B's numbers here.
        """
        if wanted not in (USUAL, self.type_of_b):
            raise SpecError("[problem] b", "is not the type of B in this race", got=wanted.name, needs=self.type_of_b.name,
                            remedy="kernels of one type of B, beside those that read FP32")
        return self.b if wanted.is_usual else self.stored_b

    def operands(self, dtype: str) -> list[tuple[Any, Any]]:
        """(A, B) of each set in another type; converted once, and kept."""
        kept: dict[str, list[tuple[Any, Any]]] = self.__dict__.setdefault("_operands", {})
        if dtype not in kept:
            kept[dtype] = [(a.astype(dtype, copy=False), b.astype(dtype, copy=False)) for a, b in zip(self.a, self.b)]
        return kept[dtype]

    def bytes(self, b_transposed: bool = True) -> list[tuple[Any, Any]]:
        """(A [M, K], B^T [N, K], or B [K, N]) of each set as the nearest integers of 127 times the elements, int8; converted once, and kept."""
        import cupy

        kept: dict[bool, list[tuple[Any, Any]]] = self.__dict__.setdefault("_bytes", {})
        if b_transposed not in kept:
            kept[b_transposed] = [
                tuple(cupy.ascontiguousarray(cupy.rint(127 * x).clip(-127, 127).astype(cupy.int8)) for x in (a, b.T if b_transposed else b))
                for a, b in zip(self.a, self.b)
            ]
        return kept[b_transposed]

    def results(self, dtype: str) -> list[Any]:
        """C of each set: the FP32 ones, which all share, or new ones."""
        import cupy

        m, n, _ = self.size
        return self.c if dtype == "float32" else [cupy.empty((m, n), dtype) for _ in self.c]
