"""A batch on the GPU: rotating sets of its matrices, and everything that kernels and libraries want to be told of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gemmgen.batch import PROBLEM
from gemmgen.catalog.element import F32
from gemmgen.errors import DeviceError
from gemmgen.timing.batches.cells import Product
from gemmgen.timing.inputs import SLAB_BYTES, set_count

ALIGNED = 64
"""Elements at whose multiples a matrix begins, as matrices of cudaMalloc would: 256 bytes."""


def places(lengths: Sequence[int]) -> tuple[np.ndarray, int]:
    """(where each matrix begins, length of all), in elements of one array that holds them one after the other."""
    rounded = [-(-length // ALIGNED) * ALIGNED for length in lengths]
    ends = np.cumsum([0, *rounded])
    return ends[:-1].astype(np.int64), int(ends[-1])


def padded_extents(products: Sequence[Product]) -> Product:
    """(M, N, K) that hold every product of a batch: the largest of each."""
    return Product(*(max((product[at] for product in products), default=0) for at in range(3)))


class DeviceBatch:
    """Row-major FP32 operands of a batch, uniform in [low, high], in several sets; alpha is 1, beta 0.

    Attributes:
        products: their sizes, [count].
        sets: how many copies of all matrices rotate.
        a, b, c: of each set, all its matrices in one array, those of product i from `places_a[i]` on, and so on.
        hosts: of each set, PROBLEM [count] in host memory.
        problems: the same on the device, as bytes.
        pointers: of each set, (A, B, C) addresses [count] each, uint64 on the device.
        m, n, k: sizes [count], int32 in host memory.

    Args:
        sets: None for as many as exceed L2 four times, 2 to 8.

    Raises:
        cupy's OutOfMemoryError: the GPU cannot hold them.
    """

    def __init__(self, products: Sequence[Product], *, sets: int | None = None, low: float = -1.0, high: float = 1.0, l2_bytes: int | None = None):
        import cupy

        self.products = tuple(products)
        sizes = np.array(self.products, np.int32).reshape(-1, 3)
        self.m, self.n, self.k = (np.ascontiguousarray(sizes[:, at]) for at in range(3))
        self.places_a, length_a = places([m * k for m, n, k in self.products])
        self.places_b, length_b = places([k * n for m, n, k in self.products])
        self.places_c, length_c = places([m * n for m, n, k in self.products])
        if sets is None:
            if l2_bytes is None:
                l2_bytes = int(cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["l2CacheSize"])
            sets = set_count(F32.bytes * (length_a + length_b + length_c), l2_bytes, self.free_bytes())
        self.sets = sets
        draw = cupy.random.default_rng(0)
        self.a = [self._uniform(draw, length_a, low, high) for _ in range(sets)]
        self.b = [self._uniform(draw, length_b, low, high) for _ in range(sets)]
        self.c = [cupy.empty(length_c, F32.dtype) for _ in range(sets)]
        self.hosts = [self._problems(at) for at in range(sets)]
        self.problems = [cupy.asarray(host.view(np.uint8)) for host in self.hosts]
        self.pointers = [tuple(cupy.asarray(np.ascontiguousarray(host[name])) for name in "abc") for host in self.hosts]

    @staticmethod
    def free_bytes() -> int:
        """Of the GPU's memory that nothing holds."""
        import cupy

        return int(cupy.cuda.runtime.memGetInfo()[0] + cupy.get_default_memory_pool().free_bytes())

    @staticmethod
    def _uniform(draw: Any, length: int, low: float, high: float) -> Any:
        """Drawn in FP64 and rounded: FP32 generators leave a 2^-23 grid that flatters a split."""
        import cupy

        out = cupy.empty(length, F32.dtype)
        for at in range(0, length, SLAB_BYTES // 8):
            part = out[at : at + SLAB_BYTES // 8]
            part[...] = low + (high - low) * draw.random(part.shape)
        return out

    def _problems(self, at: int) -> np.ndarray:
        out = np.zeros(len(self.products), PROBLEM)
        for name, array, starts in (("a", self.a[at], self.places_a), ("b", self.b[at], self.places_b), ("c", self.c[at], self.places_c)):
            out[name] = np.uint64(array.data.ptr) + np.uint64(F32.bytes) * starts.astype(np.uint64)
        out["m"], out["n"], out["k"] = self.m, self.n, self.k
        out["lda"], out["ldb"], out["ldc"] = self.k, self.n, self.n
        out["alpha"], out["beta"] = 1.0, 0.0
        return out

    def held(self, at: int, entries: np.ndarray | None = None) -> HeldSet:
        """Set `at` as kernels are told of it.

        Args:
            entries: numbers of the products that a kernel multiplies; None for all.
        """
        return HeldSet(self, at, entries)

    @property
    def is_uniform(self) -> bool:
        """Whether all products have one size; the matrices then lie at even distances."""
        return len(set(self.products)) == 1

    @property
    def gaps(self) -> int:
        """Elements of a set's C that belong to no product."""
        return int(self.c[0].size) - sum(m * n for m, n, _ in self.products)

    def matrices(self, at: int, number: int) -> tuple[Any, Any, Any]:
        """(A [M, K], B [K, N], C [M, N]) of product `number` in set `at`, views."""
        m, n, k = self.products[number]
        i, j, l = (int(starts[number]) for starts in (self.places_a, self.places_b, self.places_c))
        return (self.a[at][i : i + m * k].reshape(m, k), self.b[at][j : j + k * n].reshape(k, n), self.c[at][l : l + m * n].reshape(m, n))

    @cached_property
    def padded(self) -> Padded:
        """The same products as one size; made when it is asked for first.

        Raises:
            DeviceError: the memory that is free does not hold them.
        """
        return Padded(self)


class Padded:
    """A batch's products in matrices of its largest extents, zeros around them, in as many sets.

    Attributes:
        extents: (M, N, K).
        a, b, c: of each set, [count, M, K], [count, K, N] and [count, M, N].
        pointers: of each set, (A, B, C) addresses [count] each, uint64 on the device.
    """

    def __init__(self, batch: DeviceBatch):
        import cupy

        m, n, k = self.extents = padded_extents(batch.products)
        count = len(batch.products)
        needed = F32.bytes * batch.sets * count * (m * k + k * n + m * n)
        if needed > batch.free_bytes() // 2:
            raise DeviceError("bench", "the batch padded to its largest product is too large", got=f"{needed} bytes",
                              needs=f"at most half of the {batch.free_bytes()} that are free")
        self.a = [cupy.zeros((count, m, k), F32.dtype) for _ in range(batch.sets)]
        self.b = [cupy.zeros((count, k, n), F32.dtype) for _ in range(batch.sets)]
        self.c = [cupy.zeros((count, m, n), F32.dtype) for _ in range(batch.sets)]
        for at in range(batch.sets):
            for number, (rows, columns, depth) in enumerate(batch.products):
                a, b, _ = batch.matrices(at, number)
                self.a[at][number, :rows, :depth] = a
                self.b[at][number, :depth, :columns] = b
        self.pointers = [
            tuple(cupy.asarray(x.data.ptr + F32.bytes * np.arange(count, dtype=np.uint64) * (x.size // max(count, 1))) for x in arrays)
            for arrays in zip(self.a, self.b, self.c)
        ]


@dataclass(frozen=True)
class HeldSet:
    """One set of a batch's matrices, as `gemmgen.kinds.kind.Held` asks for it."""

    batch: DeviceBatch
    at: int
    entries: np.ndarray | None = None

    def records(self) -> Any:
        import cupy

        return self.batch.problems[self.at] if self.entries is None else cupy.asarray(self.batch.hosts[self.at][self.entries].view(np.uint8))

    def pointers(self, operand: str) -> Any:
        return self.batch.pointers[self.at]["abc".index(operand)]

    def first(self, operand: str) -> Any:
        return getattr(self.batch, operand)[self.at]
