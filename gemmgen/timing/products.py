"""Matrices that lie on the GPU, multiplied by built kernels; and the time of products of one size, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gemmgen.build import Built
from gemmgen.catalog.epilogue import require_none
from gemmgen.run import arguments, check_sums
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


PREPARED = 256
"""Kinds of products whose launches a Multiplier keeps prepared: of one size, leading dimensions and factors, wherever they lie."""


class Multiplier:
    """A built kernel, with its split pass, for matrices on the GPU. Launches go to cupy's current stream, the same one for all calls.

    Raises:
        SpecError: the kernel has an epilogue.
    """

    def __init__(self, built: Built):
        require_none(built.plan.epilogue, "matrices are multiplied by kernels that have")
        self._plan, self._interface = built.plan, built.source.interface
        self._device = CudaDevice(built.binary)
        self._space: Any = None
        self._prepared: dict[Any, list[tuple[list[Any], list[Any]]]] = {}

    def __call__(self, a: Any, b: Any, c: Any | None, alpha: float, beta: float) -> Any:
        """alpha op(A) op(B) + beta C, as a new array [M, N], when the GPU is done.

        Args:
            a, b: of the plan's type, row major as its layout says they are stored.
            c: [M, N] of that type, left as it is; None where beta is 0.

        Raises:
            DeviceError: the GPU refused.
        """
        import cupy

        m = a.shape[0] if self._plan.layout[0] == "n" else a.shape[1]
        n = b.shape[1] if self._plan.layout[1] == "n" else b.shape[0]
        a, b = cupy.ascontiguousarray(a), cupy.ascontiguousarray(b)
        with refusals():
            out = cupy.full((m, n), cupy.nan, self._plan.type.dtype) if c is None else c.copy()
            self.into(out, a, b, alpha, beta if c is not None else 0.0)
            cupy.cuda.get_current_stream().synchronize()  # so that a refusal shows here
        return out

    def into(self, out: Any, a: Any, b: Any, alpha: float = 1.0, beta: float = 0.0) -> None:
        """out = alpha op(A) op(B) + beta out, put on the current stream; nothing waits.

        Args:
            out: [M, N] of the plan's type, whose rows are contiguous, maybe a part of a larger matrix; [batch, M, N] of a kernel for strided batches.
            a, b: likewise, as the plan's layout says they are stored.

        Raises:
            cupy's errors: the GPU refused (`gemmgen.timing.refusals`).
        """
        k = a.shape[-1] if self._plan.layout[0] == "n" else a.shape[-2]
        self._put(out, {"a": a, "b": b, "c": out}, k, alpha, beta)

    def solve(self, c: Any, triangle: Any, alpha: complex = 1.0) -> None:
        """C [M, N] becomes X of A X = alpha C, or of X B = alpha C, as the kernel's kind has it; put on the current stream, and nothing waits.

        Args:
            c: of the plan's type, whose rows are contiguous, maybe a part of a larger matrix; [batch, M, N] of a kernel for strided batches.
            triangle: likewise, as the plan's layout says it is stored.

        Raises:
            cupy's errors: the GPU refused (`gemmgen.timing.refusals`).
        """
        self._put(c, {self._plan.solved.name: triangle, "c": c}, triangle.shape[-1], alpha, 0.0)

    def _put(self, out: Any, operands: dict[str, Any], k: int, alpha: float, beta: float) -> None:
        size = self._plan.type.bytes
        strides = {f"ld{name}": x.strides[-2] // size if x.shape[-2] > 1 else x.shape[-1] for name, x in operands.items()}
        strides |= {f"stride_{name}": x.strides[0] // size for name, x in operands.items() if len(x.shape) == 3}
        key = (*out.shape, k, tuple(strides.items()), alpha, beta)
        if key not in self._prepared:
            if len(self._prepared) == PREPARED:
                del self._prepared[next(iter(self._prepared))]
            self._prepared[key] = self._parts(*out.shape[-2:], k, strides, alpha, beta, out.shape[0] if len(out.shape) == 3 else 1)
        for cleared, launches in self._prepared[key]:
            for piece in cleared:
                piece.fill(0)
            for launch, pointers in launches:
                for at, operand, offset in pointers:
                    launch.point(at, operands[operand].data.ptr + offset)
                launch()

    def _parts(
        self, m: int, n: int, k: int, strides: dict[str, int], alpha: float, beta: float, batch: int = 1,
    ) -> list[tuple[list[Any], list[Any]]]:
        """Each round, of a product the only one: what has to be zero before, and launches, each with which of its arguments point how far into an operand."""
        import cupy

        check_sums(self._plan, k)
        interface = self._interface
        work = interface.workspace(m, n, k, batch)
        if self._space is None or self._space.size < work.bytes:  # launches on one stream share it; older ones keep theirs
            self._space = cupy.empty(max(work.bytes, 1), cupy.uint8)
        memory = {
            (buffer.name, offset): self._space[work.offsets[buffer.name] + offset :]
            for buffer in interface.buffers for offset in interface.places(buffer)
        }
        call = {"a": 0, "b": 0, "c": 0, "stride_a": m * k, "stride_b": k * n, "stride_c": m * n, **strides, "m": m, "n": n, "k": k, "alpha": alpha,
                "beta": beta, "batch": batch}
        first = [self._space[: work.zeroed]] if work.zeroed else []
        if not interface.rounds:
            pointers = {name: (name, 0) for name in "abc"}
            return [(first, self._launches(interface.launches, interface.extents(m, n, k, batch), call, memory, pointers))]
        again = [
            self._space[work.offsets[one.name] : work.offsets[one.name] + work.lengths[one.name]]
            for one in interface.buffers if one.zeroed_again and work.lengths[one.name]
        ]
        found = []
        for one in interface.rounds(m, n, k, alpha, beta):
            given = one.given(call, lambda operand, elements: self._plan.type.bytes * elements)
            pointers = {name: (of, given[name]) for name, (of, _, _) in one.at.items()}
            cleared = [] if one.solves and found else again if found else first
            launches = self._launches(
                interface.launches_of(one.solves), interface.extents(one.m, one.n, one.k, batch), given | dict.fromkeys("abc", 0), memory, pointers,
                follows=bool(found) and not cleared,
            )
            found.append((cleared, launches))
        return found

    def _launches(
        self, launches: Any, extents: Any, given: Any, memory: Any, pointers: Any, follows: bool = False,
    ) -> list[tuple[Any, list[tuple[int, str, int]]]]:
        found = []
        for launch in launches:
            if blocks := launch.blocks(extents):
                args = arguments(launch, {**given, "blocks": blocks}, memory)
                prepared = self._device.prepared(
                    launch.symbol, blocks, launch.threads, launch.shared_bytes, args, launch.overlaps and follows, direct=True,
                )
                found.append((prepared, [(at, *pointers[one.argument]) for at, one in enumerate(launch.parameters) if one.argument in pointers]))
            follows = blocks > 0
        return found


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
