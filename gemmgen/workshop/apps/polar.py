"""Newton and Schulz's iteration to a matrix's polar factor, as the Muon optimiser steps: X becomes a X + (b S + c S^2) X of S = X X^T.

S and b S + c S^2 are symmetric, so that of two of a step's three products a triangle is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gemmgen.workshop.apps.matmul import Matmul
from gemmgen.workshop.apps.problem import App, Arrays, Figures, Problem, relative

COEFFICIENTS = 3.4445, -4.7750, 2.0315
"""Muon's: singular values from 1e-3 on come near 1 in five steps."""


def orthogonalised(matmul: Matmul, x: Any, steps: int) -> Any:
    """[rows, columns], of at most as many rows as columns: singular vectors of X, singular values near 1; X stays."""
    xp, (a, b, c) = matmul.xp, COEFFICIENTS
    x = x / xp.linalg.norm(x)
    for _ in range(steps):
        square = matmul.syrk(x, out=xp.empty((len(x), len(x)), x.dtype), both=True)
        mixed = matmul.syrk(square, out=square.copy(), alpha=c, beta=b, both=True)
        x = matmul(mixed, x, x, beta=a)
    return x


def make(sizes: Mapping[str, int], data: str, seed: int) -> Problem:
    x = np.random.default_rng(seed).standard_normal((sizes["rows"], sizes["columns"])).astype(np.float32)

    def run(matmul: Matmul, of: Arrays) -> Arrays:
        return {"x": orthogonalised(matmul, of["x"], sizes["steps"])}

    def judge(out: Arrays, exact: Arrays | None) -> Figures:
        assert exact is not None
        return {"error": relative(out["x"], exact["x"])}

    return Problem({"x": x}, run, judge)


APP = App(
    "polar", "Newton-Schulz iterations, as Muon's step", "Muon (Jordan et al. 2024)",
    sizes={"rows": 4096, "columns": 4096, "steps": 5}, small={"rows": 48, "columns": 96, "steps": 2}, data=("drawn",),
    figures={"error": "of what comes out, against FP64's, relative Frobenius"}, make=make,
)
