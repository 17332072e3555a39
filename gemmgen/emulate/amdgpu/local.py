"""LDS and its bank conflicts, and scratch memory."""

from __future__ import annotations

import numpy as np

from gemmgen.emulate.amdgpu.target import Target
from gemmgen.emulate.banks import Banks, ConflictCounter, consecutive
from gemmgen.emulate.memory import Fault, SharedMemory


class LocalMemory(SharedMemory):
    """LDS of the workgroups of a strip, one after the other."""

    name = "LDS"


def conflict_counter(target: Target, workgroups: int) -> ConflictCounter:
    """Counts as `banks` says, over the target's banks."""
    return ConflictCounter(workgroups, Banks(target.banks, lambda kind, size: consecutive(target.wave, size)))


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
