"""What is asked of a kind that solves triangular systems, besides what is asked of its products.

The oracle substitutes in the type of the elements' reference. Of what came out, X, the residual R = alpha C - T X is held to what each step may leave of it,
element by element:

    |R| <= sum of the products' own worst cases + u (BLOCK + 4 + 3 s) (|T| |X| + |alpha C|)

where s products serve an element at most, and substitution in a block rounds each of its terms once; of complex elements each part's twice, and a division
takes a few more. So X is the exact solution of a system that differs from the given one by that much: the solve is backward stable. |X - X*| <= |T^-1| |R|
follows, and is looked at, too. Besides, the residual's norm is held to that of the elements' own substitution and the products' statistical bounds together.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from gemmgen.catalog.element import Element
from gemmgen.kinds.solves import BLOCK
from gemmgen.plan import Plan
from gemmgen.render import Source
from gemmgen.run import Device, Placement, gemm, strided
from gemmgen.verify.bound import allowance, bound, lost

ROUNDED = 1.5
"""How much larger than the elements' own residual that of substitution in another order may be: a factor of 1 but for chance."""


def substituted(t: np.ndarray, c: np.ndarray, dtype: np.dtype | type = np.float32) -> np.ndarray:
    """X [size, others] of T X = C by substitution, of a lower triangle T [size, size]."""
    t, rest, x = t.astype(dtype), c.astype(dtype), np.empty(c.shape, dtype)
    with np.errstate(all="ignore"):
        for j in range(len(t)):
            x[j] = rest[j] / t[j, j]
            rest[j + 1 :] -= np.outer(t[j + 1 :, j], x[j])
    return x


def question(plan: Plan, source: Source, device: Device) -> tuple[bool, str]:
    """Whether ragged systems of up to four blocks are solved; and the numbers behind it, in a line.

    Of a mild condition, with a complex alpha where elements are; of a condition beyond the type's range with a small solution, which an inverse would miss;
    with alpha = 0, which reads nothing; without unknowns or right-hand sides; and with zeros on the diagonal, Inf and NaN, which the elements' own
    substitution has in the same places. Of a kernel for batches, several at once.
    """
    rng, wrong, worst, beside, forward = np.random.default_rng(12), [], 0.0, 0.0, 0.0
    of = plan.kind.element_of(plan.type)
    ill = 73 if plan.type.bytes == 4 else 137
    for size, others, alpha, mild in ((3 * BLOCK + 45, 21, -1.5 + 0.5j * (of.reals > 1), True), (ill, 33, 1.0, False), (0, 3, 1.0, True), (3, 0, 1.0, True)):
        alpha = alpha if np.iscomplex(alpha) else alpha.real
        t = _triangle(rng, of, size, mild, plan.kind.unit)
        c = _drawn(rng, of, size, others) if mild else of.rounded(of.widened(t) @ _drawn(rng, of, size, others))
        x, intact = _solved(plan, source, device, t, c, alpha)
        if not intact:
            wrong.append("elements beside C were written")
        if not x.size:
            continue
        wanted = alpha * of.widened(c)
        residual = wanted - of.widened(t) @ of.widened(x)
        limit, scatter, fallen = _limits(plan, t, x, wanted)
        share = float((np.abs(residual + fallen) / limit).max())
        inverse = np.abs(substituted(t, np.eye(size), np.complex128 if of.reals > 1 else np.float64))
        apart = float((np.abs(x - substituted(t, wanted, of.reference)) / (inverse @ (limit + np.abs(fallen)))).max())
        own = of.widened(substituted(t, (alpha * c).astype(of.dtype), of.dtype))
        of_own = float(np.linalg.norm(wanted - of.widened(t) @ own))
        norm = float(np.linalg.norm(residual + fallen))
        worst, forward = max(worst, share), max(forward, apart)
        beside = max(beside, float(np.linalg.norm(residual)) / of_own)
        if not share <= 1:
            wrong.append(f"a residual of {share:.2g} of the worst case")
        if not apart <= 1:
            wrong.append(f"{apart:.2g} of the worst case beside the exact solution")
        if not norm <= sqrt((ROUNDED * of_own) ** 2 + scatter**2):
            wrong.append(f"a residual of {norm / of_own:.2g} times {plan.type.title}'s own")
    wrong += _without_reading(plan, source, device) + _special(plan, source, device) + _in_either_order(plan, source, device)
    wrong += _together(plan, source, device) if plan.launches.repeated else []
    return not wrong, "; ".join(wrong) or (
        f"residuals of at most {worst:.2f} of the worst case, {beside:.2f} times {plan.type.title}'s own; {forward:.2f} of the worst case beside the exact "
        "solution"
    )


def _drawn(rng: np.random.Generator, of: Element, *shape: int) -> np.ndarray:
    """Elements of U[-1, 1], of complex ones both parts."""
    x = rng.uniform(-1, 1, shape)
    return of.rounded(x + 1j * rng.uniform(-1, 1, shape) if of.reals > 1 else x)


def _triangle(rng: np.random.Generator, of: Element, size: int, mild: bool, unit: bool) -> np.ndarray:
    """[size, size], lower, with what is not to be read left as zeros: `_solved` puts NaN there."""
    t = np.tril(of.widened(_drawn(rng, of, size, size)))
    if mild:
        t = t / sqrt(max(size, 1)) / 2
        turned = np.exp(1j * rng.uniform(0, 2 * np.pi, size)) if of.reals > 1 else rng.choice((-1, 1), size)
        np.fill_diagonal(t, rng.uniform(1, 2, size) * turned)
    if unit:
        np.fill_diagonal(t, 1)
    return of.rounded(t)


def _solved(plan: Plan, source: Source, device: Device, t: np.ndarray, c: np.ndarray, alpha: complex) -> tuple[np.ndarray, bool]:
    """What the kernel makes of T X = alpha C, of a lower T whose order its kind may turn round; and whether nothing else was written."""
    x, intact = _all_solved(plan, source, device, t[None], c[None], alpha)
    return x[0], intact


def _all_solved(
    plan: Plan, source: Source, device: Device, t: np.ndarray, c: np.ndarray, alpha: complex, stride: int | None = None,
) -> tuple[np.ndarray, bool]:
    """The same of a batch, [batch, size, size] and [batch, size, others].

    Args:
        stride: 0 where all systems have the first one's triangle.
    """
    kind, bytes = plan.kind, plan.type.bytes
    given = t.copy()
    given[:, *np.triu_indices(t.shape[1], 0 if kind.unit else 1)] = np.nan
    if not kind.below:
        given, c = given[:, ::-1, ::-1], c[:, ::-1]
    a, b, c = (given, None, c) if kind.left else (None, given.swapaxes(1, 2), c.swapaxes(1, 2))
    placed = Placement((3, 5, 1), (bytes, 2 * bytes, 3 * bytes), (7, 9, 11))
    if plan.launches.repeated:
        result = strided(device, plan, source, a, b, c, alpha=alpha, placement=placed, strides=(stride, stride))
    else:
        result = gemm(device, plan, source, *(None if x is None else x[0] for x in (a, b, c)), alpha=alpha, placement=placed)
    found = result.c.reshape(c.shape)
    x = found if kind.left else found.swapaxes(1, 2)
    return (x if kind.below else x[:, ::-1]), result.intact


def _limits(plan: Plan, t: np.ndarray, x: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    """What the residual may be: [size, others] element by element; what products may add to its norm; and what their words lose, where a unit flushes some."""
    kind, part, reals = plan.kind, plan.type, plan.kind.reals
    reach = (np.abs(t).astype(np.float64) @ np.abs(x).astype(np.float64) + np.abs(wanted)).astype(np.float64)
    limit, fallen, squares, steps = np.full(x.shape, reals * len(t) * part.tiniest), np.zeros(x.shape, np.result_type(x, np.float64)), 0.0, 0

    def of_elements(parts: np.ndarray) -> np.ndarray:
        """Of what is known of a product's parts, of its elements, as the system has them."""
        parts = np.asarray(parts, np.float64)
        joined = parts[:, ::2] + 1j * parts[:, 1::2] if reals > 1 else parts
        return joined if kind.left else joined.T

    for first, known, end in kind.steps(len(t)):
        rows, a, b = slice(known, end), t[known:end, first:known], x[first:known]
        a, b = kind.between.real_of(*((a, b) if kind.left else (np.ascontiguousarray(b.T), np.ascontiguousarray(a.T))))
        product, magnitude = part.exact(a, b), part.exact(np.abs(a), np.abs(b))
        off = allowance(plan, a, b, magnitude)
        words = np.broadcast_to(lost(plan, a, b, product, lossy=not plan.scheme.family.by_row), product.shape)
        limit[rows] += np.abs(of_elements(off)) + np.abs(of_elements(words))
        if plan.launches.flushes_words:
            fallen[rows] += of_elements(words)
        scatter = bound(plan, a, b, product).relative_frobenius * float(np.linalg.norm(product)) + float(np.linalg.norm(words))
        squares, steps = squares + scatter**2, steps + 1
    rounded = BLOCK + 4 + 3 * steps if reals == 1 else sqrt(2) * (2 * BLOCK + 16 + 6 * steps)
    return limit + part.roundoff * rounded * reach, sqrt(squares), fallen


def _without_reading(plan: Plan, source: Source, device: Device) -> list[str]:
    """alpha = 0: X is 0, whatever the operands hold."""
    size, of = BLOCK + 5, plan.kind.element_of(plan.type)
    x, _ = _solved(plan, source, device, np.full((size, size), np.nan, of.dtype), np.full((size, 3), np.nan, of.dtype), 0.0)
    return [] if not x.any() and not np.isnan(x).any() else ["with alpha = 0 something was read"]


def _together(plan: Plan, source: Source, device: Device) -> list[str]:
    """Of two blocks of unknowns and of right-hand sides: each system has the bits that it has alone, whatever its place, and all may share a triangle."""
    rng, order, size, of = np.random.default_rng(15), [2, 0, 1], BLOCK + 9, plan.kind.element_of(plan.type)
    t = np.stack([_triangle(rng, of, size, True, plan.kind.unit) for _ in order])
    c = _drawn(rng, of, len(order), size, plan.kind.own.systems + 1)
    whole, intact = _all_solved(plan, source, device, t, c, -1.5)
    wrong = [] if intact else ["elements between the systems of a batch were written"]
    for at, one in enumerate(whole):
        if _solved(plan, source, device, t[at], c[at], -1.5)[0].tobytes() != one.tobytes():
            wrong.append("a system alone has other bits than in a batch")
    if _all_solved(plan, source, device, t[order], c[order], -1.5)[0].tobytes() != whole[order].tobytes():
        wrong.append("the permuted batch has other bits")
    shared = _all_solved(plan, source, device, t, c, -1.5, 0)[0], _all_solved(plan, source, device, t[[0, 0, 0]], c, -1.5)[0]
    if shared[0].tobytes() != shared[1].tobytes():
        wrong.append("a triangle that all share gives other bits")
    if _all_solved(plan, source, device, t[:0], c[:0], -1.5)[0].size:
        wrong.append("an empty batch has elements")
    return wrong


def _in_either_order(plan: Plan, source: Source, device: Any) -> list[str]:
    """On the emulator: the same bits whichever warps run first, of two parts of a block."""
    if device.kind != "emulator":
        return []
    from gemmgen import emulate

    rng, before, found = np.random.default_rng(14), device.schedule, []
    of, size = plan.kind.element_of(plan.type), 2 * plan.kind.own.part - 5
    t, c = _triangle(rng, of, size, True, plan.kind.unit), _drawn(rng, of, size, 3)
    for schedule in (emulate.LAZY_HIGHEST, emulate.EAGER_LOWEST):
        device.set_schedule(schedule)
        found.append(_solved(plan, source, device, t, c, 1.0)[0].tobytes())
    device.set_schedule(before)
    return [] if found[0] == found[1] else ["X depends on the order in which warps run: a race"]


def _special(plan: Plan, source: Source, device: Device) -> list[str]:
    """Inf and NaN where the elements' own substitution has them: in columns of C; and of a diagonal with a zero, in the last row of a block and in the middle
    of one. Of complex elements an Inf and a NaN are alike, since the order of a division's steps decides between them."""
    of, part = plan.kind.element_of(plan.type), plan.kind.own.part
    size = BLOCK if plan.special == "fast" else BLOCK + part + 3  # products by such kernels repair nothing
    near = 1e-2 if plan.scheme.precision.bits < 16 else 1e-4 if plan.type.bytes == 4 else 1e-10
    rng, wrong = np.random.default_rng(13), []
    for zero in (None, BLOCK - 1, part + 7):
        t, c = _triangle(rng, of, size, True, plan.kind.unit), _drawn(rng, of, size, 5)
        c[part + 1, 1], c[3, 2], c[size - 2, 3] = np.inf, np.nan, -np.inf
        if zero is not None:
            if plan.kind.unit:
                continue
            t[zero, zero] = 0
        x, _ = _solved(plan, source, device, t, c, 1.0)
        want = substituted(t, c, of.dtype)
        finite = np.isfinite(want)
        alike = np.array_equal(np.isfinite(x), finite) and (of.reals > 1 or np.array_equal(np.isnan(x), np.isnan(want)) and
                                                            np.array_equal(x[np.isinf(x)], want[np.isinf(want)]))
        if not alike or not np.allclose(x[finite], want[finite], rtol=near, atol=min(near, 1e-4)):
            wrong.append(f"Inf and NaN are not as in {plan.type.title}{f', of a zero in row {zero} of the diagonal' if zero else ''}")
    return wrong
