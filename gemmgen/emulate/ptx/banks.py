"""The banks of NVIDIA's shared memory.

There are 32. A warp's access of up to 4 bytes a lane is one phase; 8 bytes go half
a warp at a time, 16 bytes (and the rows of ldmatrix) a quarter.
"""

from __future__ import annotations

from functools import cache

from gemmgen.emulate.core.banks import BANK_BYTES, Banks, Phases


@cache
def phases(kind: str, size: int) -> Phases:
    """So many consecutive lanes in each phase that they ask for 32 words, or all 32; reads and writes alike."""
    each = 32 // max(1, size // BANK_BYTES)
    return tuple(tuple(range(first, first + each)) for first in range(0, 32, each))


BANKS = Banks(32, phases)
