"""What is asked of a product of complex numbers besides what is asked of the real one: both parts of every element, with complex factors."""

from __future__ import annotations

import numpy as np

from gemmgen.plan import Plan
from gemmgen.render import Source
from gemmgen.run import Device, Placement, gemm
from gemmgen.verify.bound import allowance, held_to


def share_of_worst(
    plan: Plan, a: np.ndarray, b: np.ndarray, before: np.ndarray | None, c: np.ndarray, alpha: complex = 1.0, beta: complex = 0.0,
) -> float:
    """How much of the worst case the largest error of a part of C = alpha A B + beta C is; more than 1, or NaN, is an error.

    C is compared with A B by complex arithmetic in the type of the reference, which knows nothing of the blocks that kernels make of B's elements. What a
    part of the product may be off by is the real product's; a factor's imaginary part brings in what the other part may be off by.

    Args:
        a, b: [M, K] and [K, N] of the plan's elements, finite.
        before: [M, N], C before it; None where beta is 0, which does not look at it.
        c: [M, N], what came out.
    """
    kind, part = plan.kind, plan.type
    real = kind.completed(a, b)
    magnitude = part.exact(np.abs(real[0]), np.abs(real[1]))
    held, c = (parts(kind.element.widened(x)) for x in (np.zeros(c.shape) if before is None or beta == 0 else before, c))
    rounded = 6 * part.roundoff  # the products with four factors' parts, and their sums, round once each
    limit = _scaled(alpha, allowance(plan, *real, magnitude) + rounded * magnitude) + _scaled(beta, rounded * np.abs(held)) + 2 * part.tiniest
    product, as_reals = kind.element.exact(a, b), part.exact(*real)
    share = np.inf
    for want in held_to(plan, *real, as_reals):
        moved = parts(product) + (want - as_reals)  # by what the matrix unit takes for zero
        right = alpha * _joined(moved) + beta * _joined(held)
        share = min(share, float((np.abs(c - parts(right)) / limit).max(initial=0.0)))
    return share


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
    behind it, in a line. With alpha = 0 the operands, and with beta = 0 C, are NaN. Nothing is written beside C."""
    element, (bm, bn, bk) = plan.kind.element_of(plan.type), plan.block
    rng, worst, wrong, count = np.random.default_rng(13), 0.0, [], 0

    def drawn(*shape: int) -> np.ndarray:
        return element.rounded(rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape))

    for (m, n, k), alpha, beta in (
        ((bm + 3, bn // 2 + 3, bk + 3), -1.5 + 0.5j, 0.5 - 2j), ((2 * bm + 1, bn // 2 - 1, bk // 2 + 1), 1, 0), ((3, 2, 5), 2j, 0), ((3, 5, 4), 1, 1j),
        ((7, 3, 0), 1 + 1j, -1j), ((5, 3, 4), 0, 1 - 3j),
    ):
        a, b, before = drawn(m, k), drawn(k, n), drawn(m, n) if beta else None
        given = [np.full_like(x, np.nan) for x in (a, b)] if alpha == 0 else (a, b)
        size = plan.type.bytes
        result = gemm(device, plan, source, *given, before, alpha=alpha, beta=beta, placement=Placement((3, 5, 1), (size, 2 * size, 3 * size)))
        share = share_of_worst(plan, a, b, before, result.c, alpha, beta)
        worst, count = max(worst, share), count + m * n
        if not share <= 1:
            wrong.append(f"{m}x{n}x{k} alpha {alpha} beta {beta}: {share:.2g} of the worst case")
        if not result.intact:
            wrong.append(f"{m}x{n}x{k}: memory beside C was overwritten")
    return not wrong, "; ".join(wrong) or f"{count} complex elements, both parts, at most {worst:.2f} of the worst case"
