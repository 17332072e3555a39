"""A product of a grouped batch as kernels read it from memory: one 64-byte structure each."""

from __future__ import annotations

import numpy as np

PROBLEM = np.dtype([
    ("a", np.uint64), ("b", np.uint64), ("c", np.uint64), ("lda", np.int32), ("ldb", np.int32), ("ldc", np.int32),
    ("m", np.int32), ("n", np.int32), ("k", np.int32), ("alpha", np.float32), ("beta", np.float32), ("reserved", np.int32, 2),
])
"""C [M, N] = alpha A [M, K] B [K, N] + beta C, row major: addresses on the device, leading dimensions and extents in elements."""
