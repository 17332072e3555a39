"""The questions to a kernel for batches: those to any kernel, put to one product among others, and three of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmgen.plan import Plan
from gemmgen.render import Source
from gemmgen.run import Device, Placement, Result
from gemmgen.run.batch import BatchResult, Product, batch
from gemmgen.verify.bound import share_of_worst

BESIDE = ((3, 5, 2), (37, 41, 20))
"""(m, n, k) of the products that stand beside the one in question."""

Answer = tuple[bool, str]
"""Whether all is right, and the numbers behind it in a line."""


def among_others(device: Device, plan: Plan, source: Source, a: np.ndarray, b: np.ndarray, **options: Any) -> Result:
    """One product of a batch: the others must neither change it nor be counted with it.

    Args:
        a, b: [M, K] and [K, N].
        options: as `run.gemm` takes them.
    """
    asked = Product(a, b, options.get("c"), options.get("alpha", 1.0), options.get("beta", 0.0), options.get("placement", Placement()))
    if not plan.kind.uniform:
        others = [_even(size, seed, asked.a.dtype) for seed, size in enumerate(BESIDE)]
    else:  # all of one size, and with the same factors and places
        like = _even(asked.sizes, 0, asked.a.dtype)
        others = [Product(like.a, like.b, None if asked.c is None else np.ones_like(asked.c), asked.alpha, asked.beta, asked.placement)]
    result = batch(device, plan, source, [*others[:1], asked, *others[1:]])
    return Result(result.products[1], result.status, result.seconds, result.intact)


def every_tile(device: Device, plan: Plan, source: Source) -> Answer:
    """A batch of which every product has sizes, factors, leading dimensions and alignments of its own: all within the worst case."""
    products, used = ragged(plan), set()
    worst, failed = 0.0, []
    for threshold in (0, None) if plan.batch.tiles else (None,):  # each on the largest tile that it can have, and as the plan has it
        found = batch(device, plan, source, products, threshold=threshold)
        for at, (one, c) in enumerate(zip(products, found.products)):
            share = share_of_worst(plan, one.a, one.b, one.c, c, one.alpha, one.beta)
            worst = max(worst, share)
            if not share <= 1:
                failed.append(f"product {at} of {'x'.join(map(str, one.sizes))}: {share:.2g} of the worst case")
        if not found.intact:
            failed.append("memory beside a C was overwritten")
        used |= set(plan.design.tiling(plan, np.array([one.sizes for one in products]), threshold).tile if plan.batch.tiles else (0,))
    tiles = ", ".join(plan.launches.batch_tiles[tile].name for tile in sorted(used) if tile >= 0)
    return not failed, "; ".join(failed) or f"{len(products)} products on tiles {tiles}, at most {worst:.2f} of the worst case"


def any_order(device: Device, plan: Plan, source: Source) -> Answer:
    """The same products in another order: bitwise the same matrices and the same counts."""
    products = ragged(plan)
    first = batch(device, plan, source, products)
    order = np.random.default_rng(9).permutation(len(products))
    second = batch(device, plan, source, [products[at] for at in order])
    differ = [int(at) for place, at in enumerate(order) if first.products[at].tobytes() != second.products[place].tobytes()]
    if differ:
        return False, f"products {', '.join(map(str, sorted(differ)[:5]))} depend on the order of the batch"
    if first.status != second.status:
        return False, f"counted {second.status}, not {first.status}"
    return True, f"{len(products)} products in another order give the same bits"


def nothing(device: Device, plan: Plan, source: Source) -> Answer:
    """A batch without products, and one of empty ones."""
    none: BatchResult = batch(device, plan, source, [])
    sizes = [(0, 5, 3), (0, 5, 3)] if plan.kind.uniform else [(0, 5, 3), (4, 0, 2), (0, 0, 0)]
    empty = batch(device, plan, source, [_even(size, 0, plan.type.dtype) for size in sizes])
    fine = not none.products and all(c.size == 0 for c in empty.products) and empty.intact
    return fine, "a batch of no products and one of empty ones do nothing" if fine else "an empty batch wrote something"


QUESTIONS = {"batch": every_tile, "order": any_order, "empty": nothing}
"""By name."""


def ragged(plan: Any, seed: int = 8) -> list[Product]:
    """Products that use every tile of a plan, its edges, k of no stage, one and several, and the corners of BLAS; of one size where the kernel has one."""
    rng = np.random.default_rng(seed)
    tiles = plan.launches.batch_tiles
    sizes = [(tile.m + 3, tile.n - 1, 2 * tile.k + 5) for tile in tiles] + [(tile.m, tile.n, tile.k) for tile in tiles]
    sizes += [(2 * tiles[-1].m + 1, tiles[-1].n + 7, 3 * tiles[-1].k), (1, 1, 1), (5, 130, 7), (0, 4, 9), (9, 0, 3), (17, 12, 0), (40, 3, 33), (64, 64, 70)]
    if plan.kind.uniform:
        sizes = [(tiles[-1].m + 5, tiles[-1].n + 9, tiles[-1].k + 3)] * 5
    found, size = [], plan.type.bytes
    for at, (m, n, k) in enumerate(sizes):
        alpha, beta = (1.0, 0.0) if at % 3 == 0 else (-1.5, 0.0) if at % 3 == 1 else (0.75, 2.0)
        if at == len(sizes) - 2 and not plan.kind.uniform:
            alpha, beta = 0.0, 1.5
        placement = Placement() if at % 2 == 0 else Placement((at % 4, 3, 1), (size * (at % 4), 2 * size, 3 * size))
        if plan.kind.uniform:
            alpha, beta, placement = -1.5, 2.0, Placement((3, 5, 1), (size, 2 * size, 3 * size))
        a, b, c = (plan.type.rounded(rng.uniform(-1, 1, shape)) for shape in ((m, k), (k, n), (m, n)))
        found.append(Product(a, b, c if beta else None, alpha, beta, placement))
    return found


def _even(sizes: tuple[int, int, int], seed: int, dtype: Any = np.float32) -> Product:
    """A product of which no element is lossy in any scheme's words."""
    m, n, k = sizes
    rng = np.random.default_rng(seed)
    a, b = ((rng.integers(8, 16, shape) / 16).astype(dtype) for shape in ((m, k), (k, n)))
    return Product(a, b)
