"""k-means by Lloyd's iteration (EGEMM figure 12a, LE-GEMM figures 15 and 16, MixPert figure 8), two products a turn.

Distances are |x|^2 - 2 x c + |c|^2, of which the middle is a product of points and centres; new centres are sums of points, a product of the points and of
who belongs to whom.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gemmgen.workshop.apps.data import blobs, digits, sklearn
from gemmgen.workshop.apps.matmul import Matmul
from gemmgen.workshop.apps.problem import App, Arrays, Figures, Problem, differing


def nearest(matmul: Matmul, points: Any, centres: Any) -> Any:
    """The nearest centre of each point, [points], the first of equals.

    Args:
        points: [points, features]; centres: [clusters, features].
    """
    distances = matmul(points, centres, op="nt", alpha=-2.0)
    distances += (centres * centres).sum(axis=1)
    return distances.argmin(axis=1)


def lloyd(matmul: Matmul, points: Any, centres: Any, iterations: int) -> tuple[Any, Any]:
    """(centres [clusters, features], the nearest centre of each point [points]) after so many turns; a centre without points stays."""
    xp, clusters = matmul.xp, matmul.xp.arange(centres.shape[0])
    member = xp.empty((points.shape[0], centres.shape[0]), points.dtype)
    for _ in range(iterations):
        labels = nearest(matmul, points, centres)
        xp.equal(labels[:, None], clusters, out=member)
        counts = xp.zeros(centres.shape[0], points.dtype)
        xp.add.at(counts, labels, 1)
        counts = counts[:, None]
        centres = xp.where(counts > 0, matmul(member, points, op="tn") / xp.maximum(counts, 1), centres)
    return centres, nearest(matmul, points, centres)


def inertia(points: np.ndarray, centres: np.ndarray, labels: np.ndarray) -> float:
    """The sum of squared distances to the points' centres, in FP64."""
    total = 0.0
    for at in range(0, len(points), 4096):
        total += float(((points[at : at + 4096].astype(np.float64) - centres.astype(np.float64)[labels[at : at + 4096]]) ** 2).sum())
    return total


def make(sizes: Mapping[str, int], data: str, seed: int) -> Problem:
    count, clusters, turns = sizes["points"], sizes["clusters"], sizes["iterations"]
    points = digits(count)[0] if data == "digits" else (
        sklearn_blobs(count, sizes["features"], clusters, seed) if data == "blobs" else blobs(count, sizes["features"], clusters, seed)[0]
    )
    first = points[np.random.default_rng(seed).choice(count, clusters, replace=count < clusters)]

    def run(matmul: Matmul, of: Arrays) -> Arrays:
        centres, labels = lloyd(matmul, of["points"], of["centres"], turns)
        return {"centres": centres, "labels": labels}

    def judge(out: Arrays, exact: Arrays | None) -> Figures:
        assert exact is not None
        own, least = (inertia(points, one["centres"], one["labels"]) for one in (out, exact))
        return {"inertia": own, "over FP64's": own / least - 1 if least else 0.0, "other cluster": differing(out["labels"], exact["labels"])}

    def beside() -> dict[str, Figures]:
        if data == "drawn":
            return {}
        fitted = sklearn("cluster", "gemmgen app kmeans").KMeans(
            clusters, init=first.astype(np.float64), n_init=1, max_iter=turns, tol=0.0, algorithm="lloyd",
        ).fit(points.astype(np.float64))
        return {"scikit-learn FP64": {"inertia": float(fitted.inertia_)}}

    return Problem({"points": points, "centres": first}, run, judge, beside=beside)


def sklearn_blobs(count: int, features: int, clusters: int, seed: int) -> np.ndarray:
    """scikit-learn's blobs [count, features], FP32: clusters that overlap."""
    made = sklearn("datasets", "gemmgen app kmeans").make_blobs(count, features, centers=clusters, cluster_std=8.0, random_state=seed)
    return made[0].astype(np.float32)


APP = App(
    "kmeans", "k-means, Lloyd's iteration", "EGEMM figure 12a, LE-GEMM figures 15 and 16, MixPert figure 8",
    sizes={"points": 16384, "features": 1024, "clusters": 1024, "iterations": 10}, small={"points": 128, "features": 64, "clusters": 10, "iterations": 2},
    data=("digits", "blobs", "drawn"),
    figures={
        "inertia": "sum of squared distances to the nearest centre, computed in FP64", "over FP64's": "inertia over that of the same program in FP64, less 1",
        "other cluster": "points that are in another cluster than in FP64",
    }, make=make,
)
