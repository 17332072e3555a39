"""Shared memory as NVIDIA's asynchronous proxy sees it too, local memory, and where PTX's state spaces lie among generic addresses."""

from __future__ import annotations

import numpy as np

from gemmgen.emulate.core.memory import Fault, SharedMemory

LOCAL_WINDOW = 1 << 46
"""Where a thread's local memory lies among generic addresses."""
PARAM_WINDOW = 1 << 48
"""Where the kernel's parameters lie among them: only a tensor map is looked for there."""


class CtaMemory(SharedMemory):
    """Shared memory of the CTAs of a strip, which bulk copies and wgmma reach by a way of their own, the asynchronous proxy.

    Args:
        proxies: whether to keep `writers`.

    Attributes:
        writers: for each 16 bytes, the thread of the CTA, plus one, that wrote there by
            an ordinary store and has not yet executed fence.proxy.async; else 0. It is empty
            where nothing reads shared memory but ordinary instructions.
    """

    def __init__(self, ctas: int, nbytes: int, proxies: bool):
        super().__init__(ctas, nbytes)
        self.writers = np.zeros(ctas * self.pitch // 16 if proxies else 0, np.uint16)

    def land_range(self, offset: int, values: np.ndarray) -> None:
        super().land_range(offset, values)
        if len(self.writers):
            self.writers[offset >> 4 : offset + len(values) >> 4] = 0

    def wrote(self, offsets: np.ndarray, threads: np.ndarray) -> None:
        """Ordinary stores by these threads of their CTAs, `[n]`, none across a multiple of 16 bytes."""
        if len(self.writers):
            self.writers[offsets >> 4] = threads + 1

    def fence(self, ctas: np.ndarray, threads: np.ndarray) -> None:
        """`[n]` threads order their stores before what the asynchronous proxy does next."""
        if not len(self.writers):
            return
        writers = self.writers.reshape(-1, self.pitch // 16)
        for cta in np.unique(ctas):
            if writers[cta].any():
                fenced = np.zeros(1 << 11, bool)
                fenced[threads[ctas == cta] + 1] = True
                writers[cta][fenced[writers[cta]]] = 0

    def load_async(self, offsets: np.ndarray) -> np.ndarray:
        """16 bytes at each of `[n]` offsets, read by the asynchronous proxy."""
        values = self.load(offsets, 16)
        if (unfenced := self.writers[offsets >> 4] != 0).any():
            first = int(np.argmax(unfenced))
            raise Fault(
                "shared memory is read by the asynchronous proxy that an ordinary store wrote",
                lane=first,
                got=f"{self.describe(int(offsets[first]))}, written by thread {self.writers[offsets[first] >> 4] - 1}",
                needs="fence.proxy.async by the thread that wrote, then a barrier",
            )
        return values


class ThreadMemory(SharedMemory):
    """Local memory of the threads of a warp, one after the other: what a thread indexes at run time, or spills.

    Args:
        threads: how many.
        nbytes: of each.
    """

    name = "local memory"

    def __init__(self, threads: int, nbytes: int):
        super().__init__(threads, nbytes)
        self.base = np.arange(threads) * self.pitch
