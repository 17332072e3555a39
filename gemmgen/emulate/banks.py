"""Shared-memory bank conflicts.

Shared memory has 32 banks of 4 bytes. One wavefront serves one word of each
bank. A warp's access of up to 4 bytes a lane is one phase; 8 bytes go half a
warp at a time, 16 bytes (and the rows of ldmatrix) a quarter. Each phase with
an active lane needs at least one wavefront; what it needs beyond that is
counted here.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

BANKS, BANK_BYTES = 32, 4


class ConflictCounter:
    """Extra wavefronts by place.

    The CTAs of a strip nearly always use the same addresses, so one of them
    stands for all.

    Args:
        ctas: how many there are in each vector, next to one another for each warp.

    Attributes:
        extra: extra wavefronts of each source line.
    """

    def __init__(self, ctas: int):
        self.ctas = ctas
        self.extra: dict[str, int] = {}

    def count(self, place: str, addresses: np.ndarray, active: np.ndarray | None, size: int) -> None:
        """One access of a warp vector.

        Args:
            addresses: `[lanes, columns]`, byte addresses in the CTA's shared memory.
            active: `[lanes, columns]` bool, or None for all.
            size: bytes a lane.
        """
        columns = addresses.shape[1]
        alike = self._alike(addresses) and (active is None or self._alike(active))
        step = self.ctas if alike else 1
        extra = 0
        for column in range(0, columns, step):
            lanes = None if active is None else active[:, column].tobytes()
            extra += step * _pattern(addresses[:, column].tobytes(), lanes, size)
        if extra:
            self.extra[place] = self.extra.get(place, 0) + extra

    def _alike(self, x: np.ndarray) -> bool:
        """Whether `[lanes, columns]` is the same in all CTAs, for each warp."""
        if x.shape[1] % self.ctas:  # some CTAs take no part
            return False
        x = x.reshape(len(x), -1, self.ctas)
        return bool((x == x[:, :, :1]).all())


@lru_cache(maxsize=1 << 14)
def _pattern(addresses: bytes, active: bytes | None, size: int) -> int:
    """`extra_wavefronts`, of which loops and launches ask the same again and again."""
    lanes = None if active is None else np.frombuffer(active, bool)
    return extra_wavefronts(np.frombuffer(addresses, np.int64), lanes, size)


def extra_wavefronts(addresses: np.ndarray, active: np.ndarray | None, size: int) -> int:
    """Wavefronts beyond the least number, for one warp.

    Args:
        addresses: `[lanes]` byte addresses; active: `[lanes]` bool or None; size: bytes a lane.
    """
    lanes = np.arange(len(addresses)) if active is None else np.flatnonzero(active)
    words_each = max(1, size // BANK_BYTES)
    phase_lanes = 32 // words_each
    extra = 0
    for first in range(0, len(addresses), phase_lanes):
        here = addresses[lanes[(lanes >= first) & (lanes < first + phase_lanes)]]
        if len(here):
            words = np.unique((here // BANK_BYTES)[:, None] + np.arange(words_each))
            extra += int(np.bincount(words % BANKS).max()) - 1
    return extra
