"""The graph of nearest neighbours: of each point the nearest others, from the points' Gram matrix, of which a triangle is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gemmgen.workshop.apps.data import blobs, digits
from gemmgen.workshop.apps.knn import nearest
from gemmgen.workshop.apps.matmul import Matmul
from gemmgen.workshop.apps.problem import App, Arrays, Figures, Problem, differing


def graph(matmul: Matmul, points: Any, count: int) -> Any:
    """The nearest other points of each point [points, features]: [points, count], the nearest first."""
    xp, n = matmul.xp, len(points)
    distances = matmul.syrk(points, out=xp.empty((n, n), points.dtype), alpha=-2.0, both=True)
    distances += (points * points).sum(axis=1)
    distances[xp.arange(n), xp.arange(n)] = np.inf
    return nearest(xp, distances, count)


def make(sizes: Mapping[str, int], data: str, seed: int) -> Problem:
    points = (digits(sizes["points"]) if data == "digits" else blobs(sizes["points"], sizes["features"], 10, seed))[0]

    def run(matmul: Matmul, of: Arrays) -> Arrays:
        return {"neighbours": graph(matmul, of["points"], sizes["neighbours"])}

    def judge(out: Arrays, exact: Arrays | None) -> Figures:
        assert exact is not None
        return {"wrong neighbours": differing(out["neighbours"], exact["neighbours"])}

    return Problem({"points": points}, run, judge)


APP = App(
    "graph", "graph of nearest neighbours from a Gram matrix", "the first step of t-SNE and UMAP",
    sizes={"points": 16384, "features": 1024, "neighbours": 8}, small={"points": 96, "features": 64, "neighbours": 5}, data=("digits", "drawn"),
    figures={"wrong neighbours": "places in the lists of neighbours that hold another point than in FP64"}, make=make,
)
