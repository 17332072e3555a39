"""A built kernel as a contender of a race of batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmgen.errors import DeviceError, InfeasibleSpec
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
    """A kernel whose launches take a whole batch of products."""

    def __init__(self, built: Built, threshold: int | None = None):
        from gemmgen.run import open_device

        self.name = built.source.name
        self._plan, self._interface = built.plan, built.source.interface
        self._threshold = built.plan.own.threshold if threshold is None and built.plan.batch.tiles else threshold
        self._device: Any = open_device("cuda", built.plan, built.source, built.binary)

    def prepare(self, batch: DeviceBatch, set_index: int) -> Callable[[], None]:
        """Raises: DeviceError: a kernel for products of one size gets several."""
        import cupy

        from gemmgen.run import allocated, arguments

        plan = self._plan
        if plan.kind != "grouped" and not batch.is_uniform:
            raise DeviceError(
                "bench-batches", f"a kernel for problems of kind {plan.kind} has one size", got="a batch of several sizes", needs="kind = grouped",
            )
        sizes = np.stack([batch.m, batch.n, batch.k], axis=1).astype(np.int64)
        listed = plan.design.listed(plan, sizes, self._threshold)
        extents = listed.extents | self._interface.constants
        given: dict[str, Any] = {
            "batch": len(sizes), "threshold": self._threshold, "alpha": 1.0, "beta": 0.0, "listed": len(listed.rows), "turns": extents["turns"],
            "list": cupy.asarray(np.frombuffer(listed.rows.tobytes(), np.uint8)),
        }
        if plan.kind == "grouped":
            given["problems"] = batch.problems[set_index]
        else:
            m, n, k = map(int, sizes[0])
            given |= {"m": m, "n": n, "k": k, "lda": k, "ldb": n, "ldc": n}
            host = batch.hosts[set_index]
            for at, name in enumerate("abc"):
                given[name] = batch.pointers[set_index][at] if plan.kind == "pointers" else (batch.a, batch.b, batch.c)[at][set_index]
                given[f"stride_{name}"] = (int(host[name][1]) - int(host[name][0])) // 4 if len(host) > 1 else 0
        memory = allocated(self._device, self._interface, extents)
        calls: list[Callable[[], None]] = []
        for launch in self._interface.launches:
            given["blocks"] = launch.blocks(extents)
            if given["blocks"]:
                calls.append(self._device.prepared(
                    launch.symbol, given["blocks"], launch.threads, launch.shared_bytes, arguments(launch, given, memory), launch.overlaps and bool(calls),
                    direct=True,
                ))

        def enqueue() -> None:
            for call in calls:
                call()

        return calls[0] if len(calls) == 1 else enqueue


def contender(built: Built, threshold: int | None = None) -> BatchContender:
    """What multiplies a batch with this kernel.

    Args:
        threshold: threads at work from which on a tiling is parallel enough; None for the plan's.

    Raises:
        InfeasibleSpec: it multiplies one pair of matrices a launch.
    """
    if not getattr(getattr(built, "plan", None), "of_products", False):
        raise InfeasibleSpec("bench-batches", "is given a kernel of one product", got=built.source.name, needs="one whose launch takes many",
                             remedy="gemmgen bench, for kernels of one product")
    return BatchKernel(built, threshold)
