"""A built kernel as a contender of a race of batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmgen.errors import DeviceError, InfeasibleSpec
from gemmgen.model.batch import listed
from gemmgen.timing.batches.contender import BatchContender
from gemmgen.timing.batches.device import DeviceBatch

if TYPE_CHECKING:
    from gemmgen.build import Built


class OneByOne:
    """cupy's product of each matrix, one after the other: right and slow, what the race itself is tried with."""

    name = "one by one"

    def prepare(self, batch: DeviceBatch, set_index: int) -> Callable[[], None]:
        import cupy

        triples = [batch.matrices(set_index, number) for number in range(len(batch.products))]
        whole = [(a, b, c) for a, b, c in triples if c.size]

        def enqueue() -> None:
            for a, b, c in whole:
                cupy.matmul(a, b, out=c)

        return enqueue


class BatchKernel:
    """A kernel of the grouped design, whose launch takes a whole batch."""

    def __init__(self, built: Built, threshold: int | None = None):
        from gemmgen.run import open_device

        self.name = built.source.name
        self._plan, self._launch = built.plan, built.source.launches[-1]
        self._interface = built.source.interface
        self._threshold = built.plan.own.threshold if threshold is None else threshold
        self._device: Any = open_device("cuda", built.plan, built.source, built.binary)

    def prepare(self, batch: DeviceBatch, set_index: int) -> Callable[[], None]:
        """Raises: DeviceError: a kernel for products of one size gets several."""
        import cupy

        from gemmgen.run import allocated, arguments

        plan, launch = self._plan, self._launch
        if plan.kind != "grouped" and not batch.is_uniform:
            raise DeviceError(
                "bench-batches", f"a kernel for problems of kind {plan.kind} has one size", got="a batch of several sizes", needs="kind = grouped",
            )
        sizes = np.stack([batch.m, batch.n, batch.k], axis=1).astype(np.int64)
        given: dict[str, Any] = {"batch": len(sizes), "threshold": self._threshold, "alpha": 1.0, "beta": 0.0}
        blocks = launch.most_blocks
        if plan.batch.walk == "workgroups":
            rows = listed(plan.batch.tiles, sizes, plan.design.tiling(plan, sizes, self._threshold))
            blocks, given["list"] = len(rows), cupy.asarray(rows)
        if plan.kind == "grouped":
            given["problems"] = batch.problems[set_index]
        else:
            m, n, k = map(int, sizes[0])
            given |= {"m": m, "n": n, "k": k, "lda": k, "ldb": n, "ldc": n}
            host = batch.hosts[set_index]
            for at, name in enumerate("abc"):
                given[name] = batch.pointers[set_index][at] if plan.kind == "pointers" else (batch.a, batch.b, batch.c)[at][set_index]
                given[f"stride_{name}"] = (int(host[name][1]) - int(host[name][0])) // 4 if len(host) > 1 else 0
        given["blocks"] = blocks
        if not blocks:
            return lambda: None
        memory = allocated(self._device, self._interface, {})
        return self._device.prepared(launch.symbol, blocks, launch.threads, launch.shared_bytes, arguments(launch, given, memory), direct=True)


def contender(built: Built, threshold: int | None = None) -> BatchContender:
    """What multiplies a batch with this kernel.

    Args:
        threshold: threads at work from which on a tiling is parallel enough; None for the plan's.

    Raises:
        InfeasibleSpec: it multiplies one pair of matrices a launch.
    """
    batch = getattr(getattr(built, "plan", None), "batch", None)
    if batch is None or not batch.tiles:
        raise InfeasibleSpec("bench-batches", "is given a kernel of one product", got=built.source.name, needs="one whose launch takes many",
                             remedy="gemmgen bench, for kernels of one product")
    return BatchKernel(built, threshold)
