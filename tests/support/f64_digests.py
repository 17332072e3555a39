"""Inputs in FP64 whose products by residues are the same bits on every GPU, and the SHA-256 of those bits."""

from __future__ import annotations

import hashlib

import numpy as np

SCHEME = "residues14"
SHAPE = (35, 21, 150)
"""(m, n, k): less than a tile of most kernels, and more stages than one."""
DIGESTS = {
    "uniform": "7f359912db685b32eea3f9810e9fbc591256fe9d5069345aada171b57b77b7f9",
    "spread": "bcbcf12454205b77c9417b204254593de2753a42e216401e58ac916d8c128cfc",
    "special": "705579d5e9b01217af49f539f21abe6ee6a47d93c648ef78247f88cff0eda8f7",
}


def inputs(name: str) -> tuple[np.ndarray, np.ndarray]:
    """A [M, K] and B [K, N]: from integers, which every version of NumPy draws alike.

    `uniform`: of [-1, 1); `spread`: times powers of two from 2^-500 to 2^500; `special`: with rows and columns of zeros, of subnormal numbers, of numbers
    whose sums leave FP64's range, and with an Inf and a NaN.
    """
    rng = np.random.Generator(np.random.PCG64(35))
    (m, n, k), most = SHAPE, 1 << 53
    a, b = (np.ldexp(rng.integers(-most, most, shape).astype(np.float64), -53) for shape in ((m, k), (k, n)))
    if name == "spread":
        a, b = (np.ldexp(x, rng.integers(-500, 501, x.shape)) for x in (a, b))
    if name == "special":
        a[1], b[:, 2] = 0, 0
        a[3], b[:, 4] = np.ldexp(a[3], -1060), np.ldexp(b[:, 4], 30)
        a[5], b[:, 6] = np.ldexp(a[5], 1020), np.ldexp(b[:, 6], 10)
        a[7, 9], b[11, 8] = np.inf, np.nan
    return a, b


def digest(c: np.ndarray) -> str:
    """SHA-256 of C's elements in order, little-endian; every NaN as one, since its other bits are each vendor's."""
    return hashlib.sha256(np.where(np.isnan(c), np.nan, c).astype("<f8").tobytes()).hexdigest()
