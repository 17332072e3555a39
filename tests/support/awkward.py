"""Numbers and loops that both machines of the emulator are asked about."""

from __future__ import annotations

import math

import numpy as np

TINY, LARGEST = 2.0**-149, (2 - 2.0**-23) * 2.0**127
AWKWARD = np.array(
    [
        0.0, -0.0, 1.0, -1.0, TINY, -TINY, 3 * TINY, 2.0**-126, 2.0**-127, LARGEST, -LARGEST, math.inf,
        -math.inf, math.nan, 1 + 2.0**-23, 1 - 2.0**-24, 2.0**-12, 1 + 2.0**-12, 2.0**24, 2.0**24 + 2,
        1.5, 0.1, -3.3333333, 65504, 65519.996, 65520, 65536, 2.0**-24, 2.0**-25, 2.0**-25 * 1.0000001,
        6.1e-5, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 2.5, -2.5, 3.5, 2147483648.0, 4294967296.0, 1e-30, 1e30,
    ],
    np.float32,
)  # fmt: skip


def sums_of_uneven_loops(a: np.ndarray) -> list[int]:
    """What 480 threads, of which 400 have an element, sum of `a` [>= 11] in loops whose length differs between neighbours, and that some leave early."""
    found = []
    for i in range(480):
        total = 0
        for j in range(i % 7 + i // 96):
            total += a[j] if (i + j) & 1 else -2 * j
            if total > 1000:
                break
        found.append(total if i < 400 else -1)
    return found
