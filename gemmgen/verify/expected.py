"""What a right kernel's error is expected to be on the data at hand, and what FP32's own is.

A statistical bound that is derived from a scheme's row and K alone is two to twenty times the error that one measures: a
kernel that promotes half as often passes it. So the error is also simulated, on a sample of the rows of A and columns of B:
reference split, products and sums by the model of the matrix unit, promotion, slices of k and recombination in the order
that the plan says (`emulate.core.product`). The order of k within one instruction is the instruction's own, which changes bits and
not the size of the error.

FP32's own error is that of a sequential dot product, one fused multiply-add for each k: what the CUDA cores compute.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from gemmgen.emulate.core.product import product
from gemmgen.emulate.core.rounding import fma
from gemmgen.plan import Plan
from gemmgen.verify.bound import lost
from gemmgen.verify.metrics import exact, relative_frobenius

MARGIN = 1.25
"""A measured error of random data over the simulated one, at most: a sample's noise, and the order of k inside an instruction."""
AS_FP32 = 2.0
"""Up to this many times FP32's own error counts as FP32's."""
SAMPLE = 48
"""Rows and columns that are simulated."""


@dataclass(frozen=True)
class Expected:
    """Relative Frobenius errors on a sample of rows of A and columns of B.

    Attributes:
        simulated: of a right kernel, beside what is lost of words that the unit takes for zero, which few elements decide;
            NaN where some element cannot be finite.
        fp32: of a sequential FP32 dot product.
    """

    rows: np.ndarray
    columns: np.ndarray
    simulated: float
    fp32: float

    def against_fp32(self, c: np.ndarray, reference: np.ndarray) -> float:
        """How many times FP32's own error C's is, on the sample: 1 where neither errs, and Inf where FP32 alone is exact.

        Args:
            c: [M, N] computed.
            reference: [M, N] FP64.
        """
        at = np.ix_(self.rows, self.columns)
        mine = relative_frobenius(c[at], reference[at])
        if mine == self.fp32:
            return 1.0
        return mine / self.fp32 if self.fp32 else np.inf


def expected(plan: Plan, a: np.ndarray, b: np.ndarray, seed: int = 0) -> Expected:
    """What is expected of A [M, K] B [K, N], FP32 and finite."""
    rng = np.random.default_rng(seed)
    rows, columns = (np.sort(rng.permutation(extent)[:SAMPLE]) for extent in (a.shape[0], b.shape[1]))
    a, b = np.ascontiguousarray(a[rows]), np.ascontiguousarray(b[:, columns])
    if not a.size or not b.size:
        return Expected(rows, columns, 0.0, 0.0)
    reference = exact(a, b)
    with np.errstate(all="ignore"):
        own = sequential(a, b)
        mine = own if plan.scheme.exact else computed(plan, a, b)
    return Expected(rows, columns, relative_frobenius(mine, reference - lost(plan, a, b, reference)), relative_frobenius(own, reference))


def sequential(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A B by one fused FP32 multiply-add for each k, in order."""
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        c = fma(a[:, k, None], b[None, k, :], c)
    return c


def shares(plan: Plan, k: int) -> list[list[np.ndarray]]:
    """Which of k elements are summed together: for each slice of k, for each warp that shares it, their indices."""
    depth = max(1, -(-ceil(k / plan.block[2]) // plan.split_k)) * plan.block[2]  # k of a slice
    sharer = np.arange(k) // plan.warp[2] % plan.warps_k
    return [
        [start + np.flatnonzero(sharer[start : start + depth] == warp) for warp in range(plan.warps_k)] for start in range(0, k, depth)
    ]


def computed(plan: Plan, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A B as the kernel's slices of k, and the warps that share those, compute it, added in their order.

    The last stage is filled up with zeros, so that compensated sums move as often as the kernel's do.
    """
    rest = -a.shape[1] % plan.block[2]
    a, b = np.pad(a, ((0, 0), (0, rest))), np.pad(b, ((0, rest), (0, 0)))
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for of_warps in shares(plan, a.shape[1]):
        part = np.zeros_like(c)
        for mine in of_warps:
            part += product(
                plan.scheme, plan.unit if plan.fragment.on_matrix_unit else None, a[:, mine], b[mine], promote=plan.promote,
                fragment_k=plan.fragment.shape[2], compensated=plan.compensates,
            )
        c = c + part
    return c
