"""k nearest neighbours (EGEMM figure 12b, MixPert figure 8): one product of queries and points gives all distances."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import Any

import numpy as np

from gemmgen.workshop.apps.data import blobs, digits, sklearn
from gemmgen.workshop.apps.matmul import Matmul
from gemmgen.workshop.apps.problem import App, Arrays, Figures, Problem, differing

PART = 128
"""Points of whose distances the least is kept."""


def neighbours(matmul: Matmul, queries: Any, points: Any, count: int) -> Any:
    """The nearest points of each query, [queries, count], the nearest first and the first of equals.

    Args:
        queries: [queries, features]; points: [points, features].
    """
    distances = matmul(queries, points, op="nt", alpha=-2.0)
    distances += (points * points).sum(axis=1)
    return nearest(matmul.xp, distances, count)


def nearest(xp: Any, distances: Any, count: int) -> Any:
    """The columns of the least distances of each row, [rows, count], the least first and the first of equals; distances [rows, points] are lost."""
    (asked, points), rows = distances.shape, xp.arange(len(distances))
    width = gcd(points, PART)
    count_parts = points // width
    parts, flat = distances.reshape(-1, width), distances.ravel()  # the same memory
    least = parts.min(axis=1).reshape(-1, count_parts)  # the one pass over all; after it a neighbour costs a part
    of_least, found = least.ravel(), xp.empty((asked, count), np.int64)
    for at in range(count):
        part = rows * count_parts + least.argmin(axis=1)
        place = part * width + parts.take(part, axis=0).argmin(axis=1)
        found[:, at] = place - rows * points
        flat[place] = np.inf
        of_least[part] = parts.take(part, axis=0).min(axis=1)
    return found


def voted(classes: np.ndarray, found: np.ndarray) -> np.ndarray:
    """The class that most of each query's neighbours have, [queries], the smallest of equals."""
    votes = np.zeros((len(found), int(classes.max()) + 1), np.int64)
    for column in found.T:
        votes[np.arange(len(found)), classes[column]] += 1
    return votes.argmax(axis=1)


def make(sizes: Mapping[str, int], data: str, seed: int) -> Problem:
    count, asked, nearest = sizes["points"], sizes["queries"], sizes["neighbours"]
    both, classes = digits(count + asked) if data == "digits" else blobs(count + asked, sizes["features"], 10, seed)
    points, queries = both[:count], both[count:]

    def run(matmul: Matmul, of: Arrays) -> Arrays:
        return {"neighbours": neighbours(matmul, of["queries"], of["points"], nearest)}

    def judge(out: Arrays, exact: Arrays | None) -> Figures:
        assert exact is not None
        wrong = voted(classes, out["neighbours"]) != classes[count:]
        return {"wrong neighbours": differing(out["neighbours"], exact["neighbours"]), "wrong classes": f"{int(wrong.sum())} of {asked}"}

    def beside() -> dict[str, Figures]:
        if data == "drawn":
            return {}
        model = sklearn("neighbors", "gemmgen app knn").KNeighborsClassifier(nearest, algorithm="brute").fit(points.astype(np.float64), classes[:count])
        return {"scikit-learn FP64": {"wrong classes": f"{int((model.predict(queries.astype(np.float64)) != classes[count:]).sum())} of {asked}"}}

    return Problem({"points": points, "queries": queries}, run, judge, beside=beside)


APP = App(
    "knn", "k nearest neighbours by brute force", "EGEMM figure 12b, MixPert figure 8",
    sizes={"points": 16384, "queries": 16384, "features": 1024, "neighbours": 8},
    small={"points": 256, "queries": 64, "features": 64, "neighbours": 5}, data=("digits", "drawn"),
    figures={
        "wrong neighbours": "places in the lists of neighbours that hold another point than in FP64",
        "wrong classes": "queries whose neighbours' vote is not their class",
    }, make=make,
)
