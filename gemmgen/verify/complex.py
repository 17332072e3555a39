"""What is asked of a product of complex numbers besides what is asked of the real one: both parts of every element, with complex factors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as product_of

import numpy as np

from gemmgen.plan import Plan
from gemmgen.render import Source
from gemmgen.run import Device, Placement, gemm
from gemmgen.verify.bound import allowance, held_to


def share_of_worst(
    plan: Plan, terms: Sequence[tuple[complex, np.ndarray, np.ndarray]], before: np.ndarray | None, c: np.ndarray, beta: complex = 0.0,
) -> float:
    """How much of the worst case the largest error of a part of C = alpha A B + beta C is; more than 1, or NaN, is an error.

    C is compared with products by complex arithmetic in the type of the reference, which knows nothing of the blocks that kernels make of B's elements. What a
    part of the product may be off by is the real product's; a factor's imaginary part brings in what the other part may be off by.

    Args:
        terms: (alpha, A [M, K], B [K, N]) of the plan's elements, finite: the products that C sums (`Kind.terms`).
        before: [M, N], what is added of C, finite; None where beta is 0, which does not look at it.
        c: [M, N], what came out.
    """
    kind, part = plan.kind, plan.type
    held, c = (parts(kind.element.widened(x)) for x in (np.zeros(c.shape) if before is None else before, c))
    rounded = (6 + kind.exchanged) * part.roundoff  # the products with four factors' parts, and their sums, round once each, and a C that is added to again
    limit, wanted = _scaled(beta, rounded * np.abs(held)) + 2 * part.tiniest, []
    for alpha, a, b in terms:
        real = kind.real_of(a, b)
        magnitude, as_reals, product = part.exact(np.abs(real[0]), np.abs(real[1])), part.exact(*real), kind.element.exact(a, b)
        limit = limit + _scaled(alpha, allowance(plan, *real, magnitude) + rounded * magnitude)
        # Moved by what the matrix unit takes for zero.
        wanted.append([alpha * _joined(parts(product) + (want - as_reals)) for want in held_to(plan, *real, as_reals)])
    shares = (float((np.abs(c - parts(sum(products) + beta * _joined(held))) / limit).max(initial=0.0)) for products in product_of(*wanted))
    return min(np.inf, *shares)  # a NaN is less than nothing


def parts(x: np.ndarray) -> np.ndarray:
    """[M, 2N], real and imaginary parts side by side, in the type of the reference."""
    x = np.asarray(x)
    return np.stack([x.real, x.imag], axis=2).reshape(x.shape[0], 2 * x.shape[1])


def _joined(x: np.ndarray) -> np.ndarray:
    return x[:, ::2] + 1j * x[:, 1::2]


def _scaled(factor: complex, x: np.ndarray) -> np.ndarray:
    """Magnitudes [M, 2N] of parts, as a complex factor's parts bring them together."""
    other = x.reshape(x.shape[0], -1, 2)[:, :, ::-1].reshape(x.shape)
    return abs(complex(factor).real) * x + abs(complex(factor).imag) * other


def question(plan: Plan, source: Source, device: Device) -> tuple[bool, str]:
    """Whether both parts of all of C are right, of ragged products of up to three tiles each way, with complex alpha and beta, and of no k; and the numbers
    behind it, in a line. With alpha = 0 the operands, and with beta = 0 C, are NaN. Nothing is written beside C.

    Of a kind that leaves elements of C out these are as they were, bit for bit. A Hermitian C has real alpha and beta; the imaginary parts of its diagonal
    are NaN before and 0 after it, and one that is stored twice is its own conjugate transpose, bit for bit.
    """
    kind, element, (bm, bn, bk) = plan.kind, plan.kind.element_of(plan.type), plan.block
    rng, worst, wrong, count = np.random.default_rng(13), 0.0, [], 0

    def drawn(*shape: int) -> np.ndarray:
        return element.rounded(rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape))

    for (m, n, k), alpha, beta in (
        ((bm + 3, bn // 2 + 3, bk + 3), -1.5 + 0.5j, 0.5 - 2j), ((2 * bm + 1, bn // 2 - 1, bk // 2 + 1), 1, 0), ((3, 2, 5), 2j, 0), ((3, 5, 4), 1, 1j),
        ((7, 3, 0), 1 + 1j, -1j), ((5, 3, 4), 0, 1 - 3j),
    ):
        alpha, beta = (factor if name in kind.imaginary else factor.real or factor.imag for name, factor in (("alpha", alpha), ("beta", beta)))
        problem = kind.filled(drawn(m, k), drawn(k, n))
        terms = kind.terms(problem.a, problem.b, alpha)
        shape = terms[0][1].shape[0], terms[0][2].shape[1]
        before, computed = drawn(*shape) if beta else None, kind.computed(*shape)
        if kind.hermitian and before is not None:
            np.fill_diagonal(before, before.diagonal().real + complex(0, np.nan))
        given = [None if x is None else np.full_like(x, np.nan) if alpha == 0 else x for x in (problem.a, problem.b)]
        size = plan.type.bytes
        result = gemm(device, plan, source, *given, before, alpha=alpha, beta=beta, placement=Placement((3, 5, 1), (size, 2 * size, 3 * size)))
        added = None if before is None else kind.read(before)
        with np.errstate(invalid="ignore"):
            right = sum(factor * element.exact(a, b) for factor, a, b in terms) + (0 if added is None else beta * element.widened(added))
        share = share_of_worst(plan, terms, added, np.where(computed, result.c, right), beta)
        worst, count = max(worst, share), count + int(computed.sum())
        told = f"{shape[0]}x{shape[1]}x{terms[0][1].shape[1]} alpha {alpha} beta {beta}"
        old = kind.from_memory(np.full((shape[0], 2 * shape[1]), plan.type.poison)) if before is None else before
        if not share <= 1:
            wrong.append(f"{told}: {share:.2g} of the worst case")
        if not result.intact:
            wrong.append(f"{told}: memory beside C was overwritten")
        if result.c[~computed].tobytes() != old[~computed].tobytes():
            wrong.append(f"{told}: elements that are not computed were written")
        if kind.hermitian and result.c.diagonal().imag.any():
            wrong.append(f"{told}: imaginary parts of C's diagonal are not 0")
        if kind.mirrored and (result.c != (result.c.conj() if kind.hermitian else result.c).T).any():
            wrong.append(f"{told}: C is not {'Hermitian' if kind.hermitian else 'symmetric'}")
    return not wrong, "; ".join(wrong) or f"{count} complex elements, both parts, at most {worst:.2f} of the worst case"
