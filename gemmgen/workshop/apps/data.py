"""Data of applications: the shipped digits, scikit-learn's blobs, or drawn with NumPy alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmgen.demo import digits as shipped_digits
from gemmgen.errors import GemmgenError


def sklearn(module: str, where: str) -> Any:
    """A module of scikit-learn.

    Raises:
        GemmgenError: it is not installed.
    """
    from importlib import import_module

    try:
        return import_module(f"sklearn.{module}")
    except ImportError as error:
        raise GemmgenError(where, "scikit-learn is not installed; it brings the data and the reference", got=str(error).splitlines()[0],
                           needs="scikit-learn", remedy="pip install 'gemmgen[apps]', or --data drawn") from None


def standardised(x: np.ndarray) -> np.ndarray:
    """[rows, features] with mean 0 and deviation 1 of each feature, FP32; as the integers that pixels are, low words of a split would be 0."""
    deviation = x.std(axis=0)
    return np.divide(x - x.mean(axis=0), deviation, out=np.zeros(x.shape), where=deviation > 0).astype(np.float32)


def digits(count: int) -> tuple[np.ndarray, np.ndarray]:
    """The demonstration's handwritten digits: ([count, 64] standardised, FP32; [count] classes), again from the start beyond its 1797."""
    pixels, classes = shipped_digits()
    of = np.arange(count) % len(pixels)
    return standardised(pixels)[of], classes[of]


def blobs(count: int, features: int, clusters: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points around centres, overlapping: ([count, features] FP32, [count] whose centre), drawn in FP64.

    Centres have deviation 1 and points 4 around them, so that some points lie nearly as near to one centre as to another.
    """
    draw = np.random.default_rng(seed)
    centres, classes = draw.standard_normal((clusters, features)), draw.integers(0, clusters, count)
    points = np.empty((count, features), np.float32)
    for at in range(0, count, 4096):  # a part at a time: FP64 is twice as large
        part = classes[at : at + 4096]
        points[at : at + 4096] = centres[part] + 4 * draw.standard_normal((len(part), features))
    return points, classes.astype(np.int64)
