"""What a right kernel's error is expected to be on the data at hand, and what FP32's own is.

A statistical bound that is derived from a scheme's row and K alone is two to twenty times the error that one measures: a
kernel that promotes half as often passes it. So the error is also simulated, on a sample of the rows of A and columns of B:
reference split, products and sums by the model of the matrix unit, promotion, slices of k and recombination in the order
that the plan says (`emulate.core.product`). The order of k within one instruction is the instruction's own, which changes bits, and of a long sum
of many elements not the size of the error.

**Few elements.** The root mean square of N errors whose fourth moment is kappa times their squared variance has the relative standard deviation
sqrt((kappa - 1) / N) / 2: 3 % of `ENOUGH` elements for kappa = 10. The ratio of two such figures has sqrt(2) times that, and `MARGIN` leaves it six.
Of fewer elements the simulation is repeated with other orders of k within each instruction, until it has seen as many errors, and the largest
figure counts. Of a short sum another order changes the size of errors, too: the k of an instruction that is not full may lie in one block of what the
unit sums at once, or in several.

FP32's own error, or FP64's where elements are of that type, is that of a sequential dot product, one fused multiply-add for each k: what the CUDA
cores compute.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from gemmgen.emulate.core.product import product
from gemmgen.catalog.element import F32, Element
from gemmgen.emulate.core.rounding import fma, fma_f64
from gemmgen.plan import Plan
from gemmgen.verify.bound import lost
from gemmgen.verify.metrics import relative_frobenius

MARGIN = 1.25
"""A measured error of random data over the largest simulated one, at most: a sample's noise, and the order of k inside an instruction."""
AS_FP32 = 2.0
"""Up to this many times FP32's own error counts as FP32's."""
SAMPLE = 48
"""Rows and columns that are simulated; more of one where there are fewer of the other."""
ENOUGH = SAMPLE**2
"""Elements that are simulated, one and the same in several orders where there are fewer."""
LEAST_SAMPLE = 400
"""Elements from which on a simulated error says what others will have."""


@dataclass(frozen=True)
class Expected:
    """Relative Frobenius errors on a sample of rows of A and columns of B.

    Attributes:
        simulated: of a right kernel, the largest of several orders of k where elements are few, beside what is lost of words that the unit takes for
            zero, which few elements decide; NaN where some element cannot be finite.
        fp32: of a sequential dot product of the elements' type.
    """

    rows: np.ndarray
    columns: np.ndarray
    simulated: float
    fp32: float

    @property
    def tells(self) -> bool:
        """Whether the simulated error says what that of another order of k will be."""
        return self.simulated > 0 and self.rows.size * self.columns.size >= LEAST_SAMPLE

    def against_fp32(self, c: np.ndarray, reference: np.ndarray) -> float:
        """How many times FP32's own error C's is, on the sample: 1 where neither errs, and Inf where FP32 alone is exact.

        Args:
            c: [M, N] computed.
            reference: [M, N] in the type of the elements' reference.
        """
        at = np.ix_(self.rows, self.columns)
        mine = relative_frobenius(c[at], reference[at])
        if mine == self.fp32:
            return 1.0
        return mine / self.fp32 if self.fp32 else np.inf


def expected(plan: Plan, a: np.ndarray, b: np.ndarray, seed: int = 0) -> Expected:
    """What is expected of A [M, K] B [K, N], of the plan's type and finite."""
    rng = np.random.default_rng(seed)
    m, n = a.shape[0], b.shape[1]
    most = (max(SAMPLE, ceil(ENOUGH / max(1, min(other, SAMPLE)))) for other in (n, m))
    rows, columns = (np.sort(rng.permutation(extent)[:count]) for extent, count in zip((m, n), most))
    whole, a, b = (a, b), np.ascontiguousarray(a[rows]), np.ascontiguousarray(b[:, columns])
    if not a.size or not b.size:
        return Expected(rows, columns, 0.0, 0.0)
    reference = plan.type.exact(a, b)
    elements, found = reference.size, []
    orders = ceil(ENOUGH / elements) if elements >= LEAST_SAMPLE and not plan.scheme.exact else 1
    with np.errstate(all="ignore"):
        own, want = sequential(a, b, plan.type), reference - lost(plan, a, b, reference)
        for at in range(orders):
            mine = own if plan.scheme.exact else of_part(plan, *whole, rows, columns, rng if at else None)
            found.append(relative_frobenius(mine, want))
    return Expected(rows, columns, max(found), relative_frobenius(own, reference))


def reordered(plan: Plan, a: np.ndarray, b: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A and B with another order of k within each matrix instruction, zeros at the end of the last one among them."""
    depth = plan.fragment.shape[2]
    rest = -a.shape[1] % depth
    a, b = np.pad(a, ((0, 0), (0, rest))), np.pad(b, ((0, rest), (0, 0)))
    order = rng.permuted(np.arange(a.shape[1]).reshape(-1, depth), axis=1).ravel()
    return np.ascontiguousarray(a[:, order]), np.ascontiguousarray(b[order])


def sequential(a: np.ndarray, b: np.ndarray, element: Element = F32) -> np.ndarray:
    """A B by one fused multiply-add for each k, in order."""
    c, add = np.zeros((a.shape[0], b.shape[1]), element.dtype), fma if element == F32 else fma_f64
    for k in range(a.shape[1]):
        c = add(a[:, k, None], b[None, k, :], c)
    return c


def shares(plan: Plan, k: int, first: int = 0, last: int | None = None) -> list[list[np.ndarray]]:
    """Which of k elements are summed together: for each slice of k, for each warp that shares it, the indices of those from `first` to before `last`."""
    depth = max(1, -(-ceil(k / plan.block[2]) // plan.split_k)) * plan.block[2]  # k of a slice
    sharer = np.arange(k) // plan.warp[2] % plan.geometry.warps_k
    mine = [np.flatnonzero(sharer == warp) for warp in range(plan.geometry.warps_k)]
    last = k if last is None else last
    bounds = ((max(start, first), min(start + depth, last)) for start in range(0, k, depth))
    return [[one[(one >= start) & (one < stop)] for one in mine] for start, stop in bounds if start < stop]


def of_part(
    plan: Plan, a: np.ndarray, b: np.ndarray, rows: np.ndarray | None = None, columns: np.ndarray | None = None, rng: np.random.Generator | None = None,
) -> np.ndarray:
    """Some rows and columns, or all, of A B where it is a part of a product of the plan's kind (`Kind.embedded`), as that kind's tiles of C compute it: those
    that have a part of k of their own begin and end between zeros, where slices of k begin elsewhere and compensated sums go on moving.

    Args:
        rng: draws another order of k within each matrix instruction; None for the order that there is.
    """
    kind, (bm, bn, bk), (m, n) = plan.kind, plan.block, (a.shape[0], b.shape[1])
    rows, columns = np.arange(m) if rows is None else rows, np.arange(n) if columns is None else columns
    if not any(kind.k_range):
        a, b = np.ascontiguousarray(a[rows]), np.ascontiguousarray(b[:, columns])
        return computed(plan, *(reordered(plan, a, b, rng) if rng else (a, b)))
    whole = kind.embedded(a, b, None)
    a, b = kind.completed(whole.a, whole.b)
    if rng:
        a, b = reordered(plan, a, b, rng)
    places = kind.part(np.arange(a.shape[0] * b.shape[1]).reshape(a.shape[0], b.shape[1]), m, n)
    down, right = places[rows, 0] // b.shape[1], places[0, columns] % b.shape[1]  # where they stand in the whole C
    c, high = np.zeros((len(rows), len(columns)), plan.type.dtype), bm * plan.cluster
    for m0 in np.unique(down // high) * high:
        for n0 in np.unique(right // bn) * bn:
            first, last = kind.summed(m0, n0, (high, bn), a.shape[1])
            tile = down // high * high == m0, right // bn * bn == n0
            c[np.ix_(*tile)] = computed(
                plan, np.ascontiguousarray(a[down[tile[0]]]), np.ascontiguousarray(b[:, right[tile[1]]]), first // bk * bk, ceil(last / bk) * bk
            )
    return c


def computed(plan: Plan, a: np.ndarray, b: np.ndarray, first: int = 0, last: int | None = None) -> np.ndarray:
    """A B as the kernel's slices of k, and the warps that share those, compute it, added in their order, from k = `first` to before `last`.

    The last stage is filled up with zeros, so that compensated sums move as often as the kernel's do.
    """
    rest = -a.shape[1] % plan.block[2]
    a, b = np.pad(a, ((0, 0), (0, rest))), np.pad(b, ((0, rest), (0, 0)))
    c = np.zeros((a.shape[0], b.shape[1]), plan.type.dtype)
    for of_warps in shares(plan, a.shape[1], first, last):
        part = np.zeros_like(c)
        for mine in of_warps:
            # Runs of k are counted from the first, wherever a slice begins; its k are neighbours.
            part += product(
                plan.scheme, plan.unit if plan.fragment.on_matrix_unit else None, a, b, promote=plan.promote, fragment_k=plan.fragment.shape[2],
                compensated=plan.promotion.compensates, to_the_end=plan.promotion.to_the_end,
                part=slice(mine[0], mine[-1] + 1) if plan.scheme.family.run_k else mine,
            )
        c = c + part
    return c
