"""What is asked of a kind of product besides what is asked of A B."""

from __future__ import annotations

import numpy as np

from gemmgen.plan import Plan
from gemmgen.render import Source
from gemmgen.run import Device, Placement, gemm
from gemmgen.verify import complex, solves
from gemmgen.verify.bound import share_of_worst


def question(plan: Plan, source: Source, device: Device) -> tuple[bool, str]:
    """Whether all of C is right, of ragged products of up to three tiles each way; and the numbers behind it, in a line.

    With alpha and beta: each element that the kind computes is within the worst case of the product that it is, the others are as they were, bit for bit.
    With beta = 0 C is not read: the others are still NaN. A C whose triangle is stored twice is symmetric, bit for bit.
    """
    if plan.kind.solves:
        return solves.question(plan, source, device)
    if plan.kind.reals > 1:
        return complex.question(plan, source, device)
    kind, element, (bm, bn, bk) = plan.kind, plan.type, plan.block
    rng, worst, wrong, count = np.random.default_rng(12), 0.0, [], 0
    for (m, n, k), alpha, beta in (((bm + 3, bn + 5, 2 * bk + 5), -1.5, 0.5), ((2 * bm + 1, bn - 1, bk + 1), 1.0, 0.0), ((3, 2, 5), 2.0, 0.0)):
        given_a, given_b = (element.rounded(rng.uniform(-1, 1, shape)) for shape in ((m, k), (k, n)))
        given = kind.filled(given_a, plan.inputs.stored_b.rounded(given_b))
        a, b = kind.completed(given.a, given.b)
        shape = a.shape[0], b.shape[1]
        before, computed = plan.output.rounded(element.rounded(rng.uniform(-1, 1, shape))) if beta else None, kind.computed(*shape)
        # Elements of less than a word of memory: tiles end where words do, as the emulator knows no parts of a word.
        beside = 1 if plan.output.dtype().itemsize >= 4 else shape[1] % 2
        result = gemm(device, plan, source, given.a, given.b, before, alpha=alpha, beta=beta,
                      placement=Placement((3, 5, beside), (element.bytes, 2 * element.bytes, 3 * element.bytes)))
        old = plan.output.rounded(np.full(shape, element.poison)) if before is None else before
        added = None if before is None else kind.read(before)
        c = np.where(computed, result.c, alpha * element.exact(a, b) + (beta * added if beta else 0))
        share = share_of_worst(plan, a, b, added, c, alpha, beta)
        worst, count = max(worst, share), count + int(computed.sum())
        if not share <= 1:
            wrong.append(f"{share:.2g} of the worst case")
        if not result.intact or result.c[~computed].tobytes() != old[~computed].tobytes():
            wrong.append("elements that are not computed were written")
        if kind.mirrored and result.c.tobytes() != np.ascontiguousarray(result.c.T).tobytes():
            wrong.append("C is not symmetric")
    return not wrong, "; ".join(wrong) or f"{count} elements, at most {worst:.2f} of the worst case; no others are written"
