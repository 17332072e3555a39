"""Shared-memory bank conflicts.

Shared memory has banks of 4 bytes. One wavefront serves one word of each
bank. An access is divided into phases of some lanes each. Each phase with
an active lane needs at least one wavefront; what it needs beyond that is
counted here. How many banks there are, and which lanes make a phase, is the GPU's: `Banks`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

BANK_BYTES = 4

Phases = Sequence[Sequence[int]]
"""The lanes of each phase."""


@dataclass(frozen=True)
class Banks:
    """How a GPU serves accesses to shared memory.

    Attributes:
        count: of banks.
        phases: of an access, by its kind (`read`, `write`) and its bytes a lane.
    """

    count: int
    phases: Callable[[str, int], Phases]


class ConflictCounter:
    """Extra wavefronts by place.

    The CTAs of a strip nearly always use the same addresses, so one of them
    stands for all.

    Args:
        ctas: how many there are in each vector, next to one another for each warp.
        banks: of the GPU.

    Attributes:
        extra: extra wavefronts of each source line.
    """

    def __init__(self, ctas: int, banks: Banks):
        self.ctas, self.banks = ctas, banks
        self.extra: dict[str, int] = {}

    def count(
        self, place: str, addresses: np.ndarray, active: np.ndarray | None, size: int, kind: str = "read"
    ) -> None:
        """One access of a warp vector.

        Args:
            addresses: `[lanes, columns]`, byte addresses in the CTA's shared memory.
            active: `[lanes, columns]` bool, or None for all.
            size: bytes a lane.
            kind: `read` or `write`.
        """
        alike = self.ctas > 1 and self._alike(addresses) and (active is None or self._alike(active))
        step = self.ctas if alike else 1
        lanes = None if active is None else active[:, ::step].tobytes()
        extra = step * _extra(addresses[:, ::step].tobytes(), lanes, -(-addresses.shape[1] // step), size, self.banks, kind)
        if extra:
            self.extra[place] = self.extra.get(place, 0) + extra

    def _alike(self, x: np.ndarray) -> bool:
        """Whether `[lanes, columns]` is the same in all CTAs, for each warp."""
        if x.shape[1] % self.ctas:  # some CTAs take no part
            return False
        x = x.reshape(len(x), -1, self.ctas)
        return np.count_nonzero(x != x[:, :, :1]) == 0


@lru_cache(maxsize=1 << 12)
def _extra(addresses: bytes, active: bytes | None, warps: int, size: int, banks: Banks, kind: str) -> int:
    """`extra_wavefronts` of warps side by side, of which loops and launches ask the same again and again."""
    places = _by_warp(np.frombuffer(addresses, np.int64), warps)
    lanes = [None] * warps if active is None else _by_warp(np.frombuffer(active, bool), warps)
    return sum(often * _of_warp(place, on, size, banks, kind) for (place, on), often in Counter(zip(places, lanes, strict=True)).items())


def _by_warp(x: np.ndarray, warps: int) -> list[bytes]:
    """The bytes of each warp, of `[lanes * warps]` elements whose warps are side by side in each lane."""
    whole = x.reshape(-1, warps).T.tobytes()
    size = len(whole) // warps
    return [whole[at : at + size] for at in range(0, len(whole), size)]


@lru_cache(maxsize=1 << 14)
def _of_warp(addresses: bytes, active: bytes | None, size: int, banks: Banks, kind: str) -> int:
    """The same of one warp, whose pattern other warps have, too."""
    lanes = None if active is None else np.frombuffer(active, bool)
    return extra_wavefronts(np.frombuffer(addresses, np.int64), lanes, size, banks, kind)


def extra_wavefronts(
    addresses: np.ndarray, active: np.ndarray | None, size: int, banks: Banks, kind: str = "read"
) -> int:
    """Wavefronts beyond the least number, for one warp.

    Args:
        addresses: `[lanes]` byte addresses; active: `[lanes]` bool or None; size: bytes a lane.
        kind: `read` or `write`.
    """
    words_each = max(1, size // BANK_BYTES)
    extra = 0
    for phase in banks.phases(kind, size):
        lanes = np.asarray(phase)
        lanes = lanes[lanes < len(addresses)]
        here = addresses[lanes if active is None else lanes[active[lanes]]]
        if len(here):
            words = np.unique((here // BANK_BYTES)[:, None] + np.arange(words_each))
            extra += int(np.bincount(words % banks.count).max()) - 1
    return extra
