"""Matrices that lie on the GPU, multiplied by built kernels; and the time of products of one size, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gemmgen.build import Built
from gemmgen.run import arguments
from gemmgen.run.cuda import CudaDevice
from gemmgen.timing.blas import cublas
from gemmgen.timing.contender import Contender, generated
from gemmgen.timing.inputs import Inputs
from gemmgen.timing.racing import race, refusals

SGEMM = "cublas-sgemm"


def arrays() -> Any:
    """The module of arrays on the GPU: cupy."""
    import cupy

    return cupy


class Multiplier:
    """A built kernel, with its split pass, for matrices on the GPU."""

    def __init__(self, built: Built):
        self._plan, self._interface = built.plan, built.source.interface
        self._device = CudaDevice(built.binary)

    def __call__(self, a: Any, b: Any, c: Any | None, alpha: float, beta: float) -> Any:
        """alpha op(A) op(B) + beta C in FP32, as a new array [M, N].

        Args:
            a, b: FP32, row major as the plan's layout says they are stored.
            c: [M, N] FP32, left as it is; None where beta is 0.

        Raises:
            DeviceError: the GPU refused.
        """
        import cupy

        (m, k), layout = a.shape if self._plan.layout[0] == "n" else a.shape[::-1], self._plan.layout
        n = b.shape[1] if layout[1] == "n" else b.shape[0]
        a, b = cupy.ascontiguousarray(a), cupy.ascontiguousarray(b)
        with refusals():
            out = cupy.full((m, n), cupy.nan, cupy.float32) if c is None else c.copy()
            extents, work = self._interface.extents(m, n, k), self._interface.workspace(m, n, k)
            space = cupy.empty(max(work.bytes, 1), cupy.uint8)
            space[: work.zeroed].fill(0)
            memory = {
                (buffer.name, offset): space[work.offsets[buffer.name] + offset :]
                for buffer in self._interface.buffers for offset in self._interface.places(buffer)
            }
            given = {
                "a": a, "b": b, "c": out, "m": m, "n": n, "k": k, "lda": a.shape[1], "ldb": b.shape[1], "ldc": n, "alpha": alpha,
                "beta": beta if c is not None else 0.0, "stride_a": m * k, "stride_b": k * n, "stride_c": m * n, "batch": 1,
            }
            for launch in self._interface.launches:
                if blocks := launch.blocks(extents):
                    args = arguments(launch, given, memory)
                    self._device.prepared(launch.symbol, blocks, launch.threads, launch.shared_bytes, args)()
            cupy.cuda.get_current_stream().synchronize()  # the workspace goes back to the pool
        return out


def contenders(size: tuple[int, int, int], kernels: Mapping[str, Built]) -> dict[str, Contender]:
    """The kernels and cuBLAS SGEMM by name, on rotating inputs of one size.

    Raises:
        DeviceError: the GPU's memory is too small, or cuBLAS is absent.
    """
    with refusals():
        inputs = Inputs(size)
        return {
            **{name: generated(name, built.plan, built.source, built.binary, inputs) for name, built in kernels.items()},
            SGEMM: cublas(SGEMM, inputs),
        }


def chain(name: str, parts: Sequence[Contender]) -> Contender:
    """Products one after the other, as one thing to time."""
    def enqueue(index: int) -> None:
        for offset, part in enumerate(parts):
            part.enqueue(index + offset)

    return Contender(name, enqueue)


def raced(timed: Mapping[str, Contender], *, rounds: int, slice_ms: float, warm_up: float) -> dict[str, float]:
    """Median seconds of each, from one interleaved race.

    Raises:
        DeviceError: a launch failed.
    """
    for one in timed.values():
        one.seconds.clear()
    race(list(timed.values()), rounds=rounds, slice_ms=slice_ms, warm_up=warm_up)
    return {name: float(np.median(one.seconds)) for name, one in timed.items()}
