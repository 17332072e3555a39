"""LDS and its bank conflicts, and scratch memory."""

from __future__ import annotations

from functools import cache, partial

import numpy as np

from gemmgen.emulate.amdgpu.target import Target
from gemmgen.emulate.core.banks import Banks, Phases
from gemmgen.emulate.core.memory import Fault, SharedMemory


class LocalMemory(SharedMemory):
    """LDS of the workgroups of a strip, one after the other."""

    name = "LDS"


_FOURS = {
    # of each 32 lanes, the fours that ds_read_b128 serves together
    "cdna2": ((0, 5), (1, 4), (2, 7), (3, 6)), "cdna3": ((0, 5), (1, 4), (2, 7), (3, 6)),
    "cdna4": ((0, 3, 5, 6), (1, 2, 4, 7)), "rdna3": ((0, 5), (1, 4), (2, 7), (3, 6)),
}  # fmt: skip


@cache
def phases(target: Target, kind: str, size: int) -> Phases:
    """The lanes that LDS serves together, by an access's kind and its bytes a lane.

    As many as ask for a word of each bank, one after the other, but for reads of 16 bytes, where fours
    of lanes are mixed. Measured on MI300X, MI350X, RX 9070 XT and W7900 (nod-ai/amd-shark-ai,
    docs/empirical-lds/lds_summary.md; for MI300X writes too, docs/amdgpu_kernel_optimization_guide.md).
    Assumed: MI200 is as MI300X; writes of the others go in the order of the lanes; an access of 12 bytes
    is like one of 16.
    """
    words = {1: 1, 2: 1, 4: 1, 8: 2}.get(size, 4)
    if words == 4 and kind == "read" and target.family in _FOURS:
        return tuple(
            tuple(first + 4 * four + i for four in fours for i in range(4))
            for first in range(0, target.wave, 32) for fours in _FOURS[target.family]
        )  # fmt: skip
    each = target.banks // words
    return tuple(tuple(range(first, min(first + each, target.wave))) for first in range(0, target.wave, each))


@cache
def banks_of(target: Target) -> Banks:
    """The banks of the target's LDS."""
    return Banks(target.banks, partial(phases, target))


class PrivateMemory:
    """Scratch memory of the lanes of a wave, where registers are spilled, undefined bits and all.

    Args:
        nbytes: of each lane.
        shape: (lanes, columns).
    """

    def __init__(self, nbytes: int, shape: tuple[int, int]):
        self.nbytes = nbytes
        words = -(-nbytes // 4), shape[0] * shape[1]
        self.data, self.undefined = np.zeros(words, np.uint32), np.full(words, 0xFFFFFFFF, np.uint32)

    def load(self, addresses: np.ndarray, lanes: np.ndarray, nbytes: int) -> tuple[np.ndarray, np.ndarray]:
        """`[n, words]` values and their undefined bits, of `[n]` lanes."""
        word, shift = self._places(addresses, nbytes, "read")
        field = np.uint32(0xFFFFFFFF if nbytes >= 4 else (1 << 8 * nbytes) - 1)
        at = [(word + i, lanes) for i in range(max(1, nbytes // 4))]
        return tuple(np.stack([array[each] >> shift & field for each in at], 1) for array in (self.data, self.undefined))

    def store(self, addresses, lanes, nbytes: int, values: np.ndarray, undefined: np.ndarray) -> None:
        word, shift = self._places(addresses, nbytes, "write")
        field = np.uint32(0xFFFFFFFF if nbytes >= 4 else (1 << 8 * nbytes) - 1) << shift
        for i in range(max(1, nbytes // 4)):
            for array, new in ((self.data, values), (self.undefined, undefined)):
                array[word + i, lanes] = array[word + i, lanes] & ~field | new[:, i] << shift & field

    def _places(self, addresses: np.ndarray, nbytes: int, verb: str) -> tuple[np.ndarray, np.ndarray]:
        wrong = (addresses < 0) | (addresses > self.nbytes - nbytes) | (addresses % min(nbytes, 4) != 0)
        if wrong.any():
            lane = int(np.argmax(wrong))
            raise Fault(
                f"a {verb} of {nbytes} bytes reaches outside scratch memory, or is not aligned", lane=lane,
                got=f"scratch memory + {int(addresses[lane])} of {self.nbytes} bytes",
            )  # fmt: skip
        return addresses // 4, (addresses % 4 * 8).astype(np.uint32)
