"""Stages of trials that go wrong, by the size that they are asked for: as `Running(stages=...)` takes them."""

from __future__ import annotations

import os
import signal
import time

from gemmgen.workshop.explore import trial

ILLEGAL = r'extern "C" __global__ void illegal(int* p) { p[(1ll << 45) + threadIdx.x] = 1; }'
ENDLESS = r'extern "C" __global__ void endless(volatile int* p) { while (p[0] == 0) {} }'


def compiled(task, probed=True):
    """m = 1 raises, 2 ends by a signal, 3 never ends, 4 leaves without a word; others are as they are."""
    if task.size[0] == 1:
        raise RuntimeError("planted")
    if task.size[0] == 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    if task.size[0] == 3:
        time.sleep(1e6)
    if task.size[0] == 4:
        os._exit(0)
    return {"verdict": "compiled", "reason": "", "compile_seconds": 0.01}, b""


def slow(task, probed=True):
    """Some time for each, so that a worker can be killed meanwhile."""
    time.sleep(0.1)
    return {"verdict": "compiled", "reason": "", "compile_seconds": 0.1}, b""


def timed(task):
    """On a GPU: m = 256 reads an illegal address, 512 never ends; others are as they are."""
    source, name = {256: (ILLEGAL, "illegal"), 512: (ENDLESS, "endless")}.get(task.size[0], ("", ""))
    if not source:
        return trial.timed(task)
    own = trial._timed

    def bad(task, here):
        kernel = here.cupy.RawKernel(source, name)
        kernel((1,), (32,), (here.cupy.zeros(8, here.cupy.int32),))
        here.cupy.cuda.runtime.deviceSynchronize()
        return own(task, here)

    trial._timed = bad
    try:
        return trial.timed(task)
    finally:
        trial._timed = own
