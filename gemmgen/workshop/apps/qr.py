"""Householder's QR factorization in blocks, in FP64 or in FP32: each block of columns by cuSOLVER's or LAPACK's geqrf, the columns right of it by products.

The reflectors of a block are I - V T V^T, with T^-1 = the upper triangle of V^T V above 1 / tau (Puglisi 1992), so that T is not formed but solved with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gemmgen.workshop.apps.matmul import InNumpy, Matmul
from gemmgen.workshop.apps.problem import App, Arrays, Figures, Problem

SHOWN = 512
"""Columns of A and of Q whose errors are told: the last, which all products went into."""


def factored(matmul: Matmul, a: Any, block: int) -> tuple[Any, Any]:
    """(R, with V below its diagonal, [n, n], tau [n]) of A [n, n] in the matmul's type, as LAPACK's geqrf has them, by blocks of so many columns."""
    xp, n = matmul.xp, len(a)
    qr, tau = a.astype(matmul.dtype), xp.empty(n, matmul.dtype)
    for at in range(0, n, block):
        end = min(at + block, n)
        columns, tau[at:end] = xp.linalg.qr(qr[at:, at:end], mode="raw")
        qr[at:, at:end] = columns.T
        if end < n:
            reflected(matmul, *reflectors(matmul, qr, tau, slice(at, end)), qr[at:, end:], transposed=True)
    return qr, tau


def reflectors(matmul: Matmul, qr: Any, tau: Any, of: slice) -> tuple[Any, Any]:
    """(V [n - first, columns], unit lower, and T^-1 [columns, columns], upper) of some columns; tau is 0 where a column needs no reflector."""
    xp = matmul.xp
    v = xp.tril(qr[of.start :, of], -1)
    width = v.shape[1]
    v[xp.arange(width), xp.arange(width)] = 1
    inverse = matmul(v, v, op="tn")
    with np.errstate(divide="ignore"):
        inverse[xp.arange(width), xp.arange(width)] = 1 / tau[of]
    return v, inverse


def reflected(matmul: Matmul, v: Any, inverse: Any, c: Any, *, transposed: bool) -> None:
    """C [rows, columns] becomes Q C, or Q^T C, of Q = I - V T V^T."""
    inner = matmul(v, c, op="tn")
    matmul.solve(inverse, inner, lower=False, transposed=transposed)
    matmul(v, inner, out=c, alpha=-1.0, beta=1.0)


def told(xp: Any, out: Arrays, of: Arrays, block: int) -> dict[str, float]:
    """The errors of Q R and of Q^T Q, computed in FP64 of the reflectors as they are stored."""
    matmul, n = InNumpy("FP64", np.float64, xp), len(of["a"])
    qr, tau, last = out["qr"].astype(np.float64), out["tau"].astype(np.float64), slice(max(0, n - SHOWN), None)
    blocks = [slice(at, min(at + block, n)) for at in range(0, n, block)]
    pairs = [(one.start, *reflectors(matmul, qr, tau, one)) for one in blocks]
    product = xp.triu(qr)[:, last].copy()
    unit = xp.eye(n)[:, last].copy()
    turned = unit.copy()
    for first, v, inverse in reversed(pairs):
        for c in (product, turned):
            reflected(matmul, v, inverse, c[first:], transposed=False)
    for first, v, inverse in pairs:
        reflected(matmul, v, inverse, turned[first:], transposed=True)
    norm = xp.linalg.norm
    right = of["a"][:, last]
    return {"residual": float(norm(product - right) / norm(right)), "orthogonality": float(norm(turned - unit) / norm(unit))}


def make(sizes: Mapping[str, int], data: str, seed: int) -> Problem:
    n, block = sizes["n"], sizes["block"]
    a = np.random.default_rng(seed).random((n, n)) - 0.5

    def run(matmul: Matmul, of: Arrays) -> Arrays:
        return dict(zip(("qr", "tau"), factored(matmul, of["a"], block)))

    def whole(matmul: Matmul, of: Arrays) -> Arrays:
        columns, tau = matmul.xp.linalg.qr(of["a"].astype(matmul.dtype), mode="raw")
        return {"qr": columns.T, "tau": tau}

    def judge(out: Arrays, exact: Arrays | None) -> Figures:
        return dict(out)

    return Problem({"a": a}, run, judge, told=lambda xp, out, of: told(xp, out, of, block), has_exact=False, others={"geqrf": whole})


APP = App(
    "qr", "Householder QR in blocks", "LAPACK's geqrf", sizes={"n": 16384, "block": 1024}, small={"n": 96, "block": 32}, data=("drawn",),
    figures={
        "residual": f"||Q R - A|| / ||A||, Frobenius, of the last columns, up to {SHOWN}, computed in FP64",
        "orthogonality": "||Q^T Q - I|| / ||I|| of as many columns, likewise",
    }, make=make, types=("f64", "f32"),
)
