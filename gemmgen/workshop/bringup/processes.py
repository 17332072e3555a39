"""Many processes that solve and compile, and one that has the GPU: stages of kernels, each in a process that may die of it."""

from __future__ import annotations

import os
import queue
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from gemmgen.workshop.explore.child import Child
from gemmgen.workshop.explore.workers import Answer, answered

STAGE_SECONDS = 120.0
"""That one stage of one kernel may take."""
_QUIET = {"CUDA_VISIBLE_DEVICES": "", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Of a process that only solves and compiles: no GPU, and one processor."""


class Processes:
    """The processes of a bring-up; a context.

    Args:
        count: that solve and compile; None for as many as there are processors, less one that feeds the GPU.
    """

    def __init__(self, count: int | None = None):
        self.count = count or max(1, len(os.sched_getaffinity(0)) - 1)
        self._threads = ThreadPoolExecutor(self.count)
        self._idle: queue.SimpleQueue[Child] = queue.SimpleQueue()
        self._children = [Child(_QUIET) for _ in range(self.count)]
        for child in self._children:
            self._idle.put(child)
        self._gpu = Child()

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)
        for child in (*self._children, self._gpu):
            child.stop()

    def begin(self, target: str, *args: Any, seconds: float = STAGE_SECONDS) -> Future[Answer]:
        """`module:function` of `args` in one of the processes, as soon as one is idle."""
        return self._threads.submit(self._one, target, args, seconds)

    def all(self, target: str, each: Iterable[Sequence[Any]], seconds: float = STAGE_SECONDS) -> Iterator[Answer]:
        """Of each `args` its answer, in their order, as it comes; all are begun at once."""
        begun = [self.begin(target, *args, seconds=seconds) for args in each]
        return (one.result() for one in begun)

    def on_gpu(self, target: str, *args: Any, seconds: float = STAGE_SECONDS) -> Answer:
        """Likewise in the process that has the GPU."""
        return answered(self._gpu, target, args, seconds)

    def _one(self, target: str, args: Sequence[Any], seconds: float) -> Answer:
        child = self._idle.get()
        try:
            return answered(child, target, tuple(args), seconds)
        finally:
            self._idle.put(child)
