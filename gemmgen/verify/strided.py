"""What is asked of a strided batch besides what is asked of one product."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gemmgen.plan import Plan
from gemmgen.render import Source
from gemmgen.run import Device, Placement, Result, strided
from gemmgen.verify import complex
from gemmgen.verify.bound import share_of_worst
from gemmgen.verify.ends import drawn as drawn_ends

ORDER = (2, 0, 3, 1)
"""Of the products of the batch that is permuted."""


def questions(plan: Plan, source: Source, device: Device) -> tuple[str, list[str]]:
    """The largest share of the worst case that a product's error takes, and what is wrong; nothing where all is right.

    A ragged batch whose matrices are padded, misaligned and apart, with alpha and beta: every element is within the worst case, and
    memory between the matrices of C is as it was. A batch with whole tiles: the permuted batch has the same matrices, bit for bit,
    and so has each product alone; an operand that all share is read as each one's own. An empty batch is fine. On the emulator the
    ragged batch runs with warps and copies in either order.
    """
    if not plan.kind.plain:
        return of_kind(plan, source, device)
    bm, bn, bk = plan.block
    rng = np.random.default_rng(8)
    wrong: list[str] = []

    def drawn(*shape: int) -> np.ndarray:
        return plan.type.rounded(rng.uniform(-1, 1, shape))

    def run(a: np.ndarray, b: np.ndarray, of: list[int] | None = None, **options: Any) -> Result:
        """The batch; its products' vectors are those of the products `of` another one."""
        ends = drawn_ends(plan, a.shape[1], b.shape[2], len(a) if of is None else max(of, default=0) + 1)
        return strided(device, plan, source, a, b, ends=ends if of is None else taken(ends, of), **options)

    def taken(ends: dict[str, Any], of: list[int]) -> dict[str, Any]:
        return {name: value[of] if isinstance(value, np.ndarray) else value for name, value in ends.items()}

    def share(at: int, batch: int, *one: Any) -> float:
        """Of the worst case, what an element of product `at` takes at most."""
        ends = drawn_ends(plan, one[0].shape[0], one[1].shape[1], batch)
        return share_of_worst(plan, *one, ends={name: value[at] if isinstance(value, np.ndarray) else value for name, value in ends.items()})

    a, b, c = drawn(3, bm + 3, 2 * bk + 5), drawn(3, 2 * bk + 5, bn + 5), drawn(3, bm + 3, bn + 5)
    placed, alpha, beta = _placed(plan), -1.5, 0.5
    ragged = [run(a, b, c=c, alpha=alpha, beta=beta, placement=placed) for _ in _orders(device)]
    # NumPy's maximum is NaN where any share is; Python's is not.
    worst = float(np.max([share(at, len(a), *one, alpha, beta) for at, one in enumerate(zip(a, b, c, ragged[0].c))]))
    if not worst <= 1:
        wrong.append(f"{worst:.2g} of the worst case")
    if not all(one.intact for one in ragged):
        wrong.append("memory between the matrices of C was overwritten")
    if any(one.c.tobytes() != ragged[0].c.tobytes() for one in ragged):
        wrong.append("the order of warps decides bits")

    a, b = drawn(len(ORDER), bm + 4, bk + 4), drawn(len(ORDER), bk + 4, bn + 4)
    whole, order = run(a, b), list(ORDER)
    worst = float(np.max([worst, *(share(at, len(a), *one) for at, one in enumerate(zip(a, b, np.zeros_like(whole.c), whole.c)))]))
    if not worst <= 1:
        wrong.append(f"{worst:.2g} of the worst case where tiles are whole")
    if run(a[order], b[order], of=order).c.tobytes() != whole.c[order].tobytes():
        wrong.append("the permuted batch has other bits")
    if run(a[3:], b[3:], of=[3]).c.tobytes() != whole.c[3:].tobytes():
        wrong.append("a product alone has other bits")
    shared = run(a, b, strides=(None, 0)), run(a, np.broadcast_to(b[0], b.shape))
    if shared[0].c.tobytes() != shared[1].c.tobytes():
        wrong.append("a B that all share gives other bits")
    if run(a[:0], b[:0], of=[]).c.size:
        wrong.append("an empty batch has elements")
    return f"7 of up to {len(ORDER)} products, at most {worst:.2f} of the worst case; permuted, alone and with one B for all the same bits", wrong


def of_kind(plan: Plan, source: Source, device: Device) -> tuple[str, list[str]]:
    """The same of a kind whose products are others than those of a given A and B: each computed element is within the worst case, and no other is written.

    The permuted batch has the same matrices, bit for bit, and so has each product alone, and one of complex elements with a B that all share; an empty batch
    is fine. Complex elements have complex alpha and beta.
    """
    kind, (bm, bn, bk), rng, wrong = plan.kind, plan.block, np.random.default_rng(8), []
    element, pairs = kind.element_of(plan.type), kind.reals > 1
    alpha, beta = (factor if name in kind.imaginary else factor.real for name, factor in (("alpha", -1.5 + 0.5j), ("beta", 0.5 - 2j)))

    def drawn(*shape: int) -> np.ndarray:
        return element.rounded(rng.uniform(-1, 1, shape) + (1j * rng.uniform(-1, 1, shape) if pairs else 0))

    given = [kind.filled(drawn(bm // 2 + 3, bk // kind.reals + 5), drawn(bk // kind.reals + 5, bn // 2 + 5)) for _ in ORDER]
    a, b = np.stack([one.a for one in given]), None if given[0].b is None else np.stack([one.b for one in given])
    whole = [kind.multiplied(one.a, one.b) for one in given]
    m, n = len(whole[0][0]), whole[0][1].shape[1]
    c, computed = drawn(len(ORDER), m, n), kind.computed(m, n)
    placed, worst = _placed(plan), 0.0

    def run(of: list[int], *, all_b: np.ndarray | None = b, **options: Any) -> Result:
        return strided(
            device, plan, source, a[of], None if all_b is None else all_b[of], c[of], alpha=alpha, beta=beta, placement=placed, **options,
        )

    order = list(ORDER)
    ragged = [run(list(range(len(order)))) for _ in _orders(device)]
    for at, (first, second) in enumerate(whole):
        added = kind.read(c[at])
        found = np.where(computed, ragged[0].c[at], alpha * element.exact(first, second) + beta * element.widened(added))
        share = complex.share_of_worst(plan, [(alpha, first, second)], added, found, beta) if pairs else share_of_worst(
            plan, first, second, added, found, alpha, beta)
        worst = float(np.max([worst, share]))
    if not worst <= 1:
        wrong.append(f"{worst:.2g} of the worst case")
    if not all(one.intact for one in ragged) or ragged[0].c[:, ~computed].tobytes() != c[:, ~computed].tobytes():
        wrong.append("elements that are not computed were written")
    if any(one.c.tobytes() != ragged[0].c.tobytes() for one in ragged):
        wrong.append("the order of warps decides bits")
    if run(order).c.tobytes() != ragged[0].c[order].tobytes():
        wrong.append("the permuted batch has other bits")
    if run([3]).c.tobytes() != ragged[0].c[3:].tobytes():
        wrong.append("a product alone has other bits")
    if pairs and b is not None and run(order, strides=(None, 0)).c.tobytes() != run(order, all_b=np.broadcast_to(b[order[0]], b.shape)).c.tobytes():
        wrong.append("a B that all share gives other bits")
    if run([]).c.size:
        wrong.append("an empty batch has elements")
    return f"{len(ORDER)} products, at most {worst:.2f} of the worst case; permuted and alone the same bits", wrong


def _placed(plan: Plan) -> Placement:
    """Matrices that are padded, misaligned and apart."""
    size = plan.type.bytes
    return Placement((3, 5, 1), (size, 2 * size, 3 * size), (7, 9, 11))


def _orders(device: Any) -> Iterator[None]:
    """Iterates once for each order in which a device can run warps; of a GPU there is one."""
    if device.kind != "emulator":
        yield None
        return
    from gemmgen import emulate

    before = device.schedule
    for order in (emulate.LAZY_HIGHEST, emulate.EAGER_LOWEST):
        device.set_schedule(order)
        yield None
    device.set_schedule(before)
