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


class BatchKernel:
    """A kernel of the grouped design, whose launch takes a whole batch."""

    def __init__(self, built: Built, threshold: int | None = None, upload_list: bool = False):
        from gemmgen.run import open_device

        self.name = built.source.name
        self._plan, self._launch = built.plan, built.source.launches[-1]
        self._interface = built.source.interface
        self._threshold = built.plan.own.threshold if threshold is None else threshold
        self._upload_list = upload_list and built.plan.batch.walk == "workgroups"
        self._device: Any = open_device("cuda", built.plan, built.source, built.binary)

    def prepare(self, batch: DeviceBatch, set_index: int) -> Callable[[], None]:
        """Raises: DeviceError: a kernel for products of one size gets several."""
        import cupy

        from gemmgen.run import allocated, arguments
        from gemmgen.run.batch import one_size_arguments

        plan, launch = self._plan, self._launch
        if plan.kind != "grouped" and not batch.is_uniform:
            raise DeviceError(
                "bench-batches", f"a kernel for problems of kind {plan.kind} has one size", got="a batch of several sizes", needs="kind = grouped",
            )
        sizes = np.stack([batch.m, batch.n, batch.k], axis=1).astype(np.int64)
        given: dict[str, Any] = {"batch": len(sizes), "threshold": self._threshold, "blocks": launch.most_blocks}
        upload: Callable[[], None] | None = None
        if plan.batch.walk == "workgroups":
            rows = listed(plan.batch.tiles, sizes, plan.design.tiling(plan, sizes, self._threshold))
            given |= {"blocks": len(rows), "list": cupy.asarray(rows)}
            if self._upload_list and len(rows):
                upload = _upload(rows, given["list"])
        if plan.kind == "grouped":
            given["problems"] = batch.problems[set_index]
        else:
            given |= one_size_arguments(plan.kind, batch.hosts[set_index])
            given |= dict(zip("abc", batch.pointers[set_index] if plan.kind == "pointers" else (x[set_index] for x in (batch.a, batch.b, batch.c))))
        if not given["blocks"]:
            return lambda: None
        memory = allocated(self._device, self._interface, {})
        launched = self._device.prepared(
            launch.symbol, given["blocks"], launch.threads, launch.shared_bytes, arguments(launch, given, memory), direct=True,
        )
        if upload is None:
            return launched

        def enqueue() -> None:
            upload()
            launched()

        return enqueue


def _upload(rows: np.ndarray, place: Any) -> Callable[[], None]:
    """A call that enqueues the copy of a list from page-locked memory of the host to its place on the device."""
    import cupy

    runtime = cupy.cuda.runtime
    pinned = cupy.cuda.alloc_pinned_memory(rows.nbytes)
    np.frombuffer(pinned, rows.dtype, rows.size)[:] = rows.ravel()

    def copy() -> None:
        runtime.memcpyAsync(place.data.ptr, pinned.ptr, rows.nbytes, runtime.memcpyHostToDevice, cupy.cuda.get_current_stream().ptr)

    return copy


def contender(built: Built, threshold: int | None = None, upload_list: bool = False) -> BatchContender:
    """What multiplies a batch with this kernel.

    Args:
        threshold: threads at work from which on a tiling is parallel enough; None for the plan's.
        upload_list: whether a list of tiles that the host makes is copied to the device before every launch, as a program has
            to whose sizes change from call to call.

    Raises:
        InfeasibleSpec: it multiplies one pair of matrices a launch.
    """
    if built.plan.batch is None or not built.plan.batch.tiles:
        raise InfeasibleSpec("bench-batches", "is given a kernel of one product", got=built.source.name, needs="one whose launch takes many",
                             remedy="gemmgen bench, for kernels of one product")
    return BatchKernel(built, threshold, upload_list)
