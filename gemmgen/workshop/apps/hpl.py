"""HPL: a system of equations solved by LU factors with partial pivots, in FP64 or in FP32, and not refined.

Blocks of columns are factored by cuSOLVER (LAPACK without a GPU), rows change places, and all that is left gets a product subtracted, in place. The next
block is updated first and factored beside the rest of the product.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gemmgen.workshop.apps import dense
from gemmgen.workshop.apps.lu import VALID, largest_row, scaled_residual
from gemmgen.workshop.apps.matmul import SPARE, Matmul
from gemmgen.workshop.apps.problem import App, Arrays, Figures, Problem


def factored(matmul: Matmul, a: Any, block: int) -> tuple[Any, Any]:
    """(L and U of P A in one matrix [n, n] of the matmul's type, [n] the rows of A in the order of P A), right-looking by blocks of so many columns."""
    xp, n = matmul.xp, len(a)
    lu, order, ahead = a.astype(matmul.dtype), xp.arange(n), dense.Ahead(xp)
    moved = dense.pivoted_lu(xp, lu[:, :block])
    for at in range(0, n, block):
        end, after, (to, source) = min(at + block, n), min(at + 2 * block, n), moved
        for columns in (slice(end, after), slice(after, n)):
            both, upper, rest = lu[at:, columns], lu[at:end, columns], lu[end:, columns]
            if upper.size:
                both[to] = both[source]
                matmul.solve(lu[at:end, at:end], upper, unit=True)
                matmul.spare = SPARE if columns.start == after else 0  # for the next block's factors
                matmul(lu[end:, at:end], upper, out=rest, alpha=-1.0, beta=1.0)
                if columns.stop == after:
                    with ahead:
                        moved = dense.pivoted_lu(xp, lu[end:, end:after])
        for before in (lu[at:, :at], order[at:]):
            before[to] = before[source]
        ahead.join()
    return lu, order


def solution(xp: Any, lu: Any, b: Any, block: int) -> Any:
    """x [n] of L U x = b, in their type: small triangles are solved for, and what is left of b gets products subtracted."""
    x, n = b.copy(), len(b)
    starts = range(0, n, block)
    for lower, order in ((True, starts), (False, reversed(starts))):
        for at in order:
            here, rest = slice(at, at + block), slice(at + block, None) if lower else slice(0, at)
            x[here] = dense.triangular_solved(xp, lu[here, here], x[here][:, None], lower=lower, unit=lower)[:, 0]
            x[rest] -= lu[rest, here] @ x[here]
    return x


def make(sizes: Mapping[str, int], data: str, seed: int) -> Problem:
    n, block = sizes["n"], sizes["block"]
    draw = np.random.default_rng(seed)
    a, b = (draw.random(shape) - 0.5 for shape in ((n, n), n))

    def run(matmul: Matmul, of: Arrays) -> Arrays:
        lu, order = factored(matmul, of["a"], block)
        return {"x": solution(matmul.xp, lu, of["b"].astype(matmul.dtype)[order], block)}

    def whole(matmul: Matmul, of: Arrays) -> Arrays:
        xp = matmul.xp
        lu, pivots = dense.solver(xp, "gemmgen app hpl").lu_factor(xp.array(of["a"], matmul.dtype, order="F"), overwrite_a=True, check_finite=False)
        return {"x": solution(xp, lu, of["b"].astype(matmul.dtype)[dense.order_of(xp, pivots, n)], block)}

    def told(xp: Any, out: Arrays, of: Arrays) -> Arrays:
        x = out["x"].astype(np.float64)
        return {"residual": scaled_residual(of["b"] - of["a"] @ x, x, of["b"], largest_row(of["a"]), float(np.finfo(out["x"].dtype).eps) / 2)}

    def judge(out: Arrays, exact: Arrays | None) -> Figures:
        return {"scaled residual": out["residual"]}

    return Problem({"a": a, "b": b}, run, judge, told=told, has_exact=False, others={"getrf": whole})


APP = App(
    "hpl", "HPL: LU with partial pivots", "HPL (Petitet et al.)", sizes={"n": 16384, "block": 2048}, small={"n": 96, "block": 32}, data=("drawn",),
    figures={"scaled residual": f"HPL's, of the solution, with half of the type's epsilon; valid below {VALID:g}"}, make=make, types=("f64", "f32"),
)
