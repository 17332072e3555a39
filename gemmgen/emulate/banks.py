"""Shared-memory bank conflicts.

Shared memory has 32 banks of 4 bytes. One wavefront serves one word of each
bank. A warp's access of up to 4 bytes a lane is one phase; 8 bytes go half a
warp at a time, 16 bytes (and the rows of ldmatrix) a quarter. Each phase with
an active lane needs at least one wavefront; what it needs beyond that is
counted here.
"""

from __future__ import annotations

import numpy as np

BANKS, BANK_BYTES = 32, 4


class ConflictCounter:
    """Extra wavefronts by place.

    The CTAs of a strip nearly always use the same addresses, and loops repeat
    them, so a pattern is worked out once and remembered.

    Attributes:
        extra: extra wavefronts of each source line.
    """

    def __init__(self):
        self.extra: dict[str, int] = {}
        self._known: dict[tuple, int] = {}

    def count(self, place: str, addresses: np.ndarray, active: np.ndarray | None, size: int) -> None:
        """One access of a warp vector.

        Args:
            addresses: `[lanes, CTAs]`, byte addresses in the CTA's shared memory.
            active: `[lanes, CTAs]` bool, or None for all.
            size: bytes a lane.
        """
        alike = (addresses == addresses[:, :1]).all() and (
            active is None or (active == active[:, :1]).all()
        )
        extra = 0
        ctas = addresses.shape[1]
        for column in (0,) if alike else range(ctas):
            lanes = None if active is None else active[:, column]
            extra += self._pattern(addresses[:, column], lanes, size)
        if extra:
            self.extra[place] = self.extra.get(place, 0) + extra * (ctas if alike else 1)

    def _pattern(self, addresses: np.ndarray, active: np.ndarray | None, size: int) -> int:
        key = (size, addresses.tobytes(), None if active is None else active.tobytes())
        if key not in self._known:
            self._known[key] = extra_wavefronts(addresses, active, size)
        return self._known[key]


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
