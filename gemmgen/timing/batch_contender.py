"""A built kernel as a contender of a race of batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmgen.errors import DeviceError, InfeasibleSpec
from gemmgen.timing.batches.contender import Multiplier
from gemmgen.timing.batches.device import DeviceBatch

if TYPE_CHECKING:
    from gemmgen.build import Built


class BatchKernel:
    """A kernel whose launches take a whole batch of products.

    Attributes:
        as_built: the built kernel, where this runs it with its own threshold and without an upload; else None.
    """

    def __init__(self, built: Built, threshold: int | None = None, upload_list: bool = False):
        from gemmgen.run import open_device

        self.name = built.source.name
        self.as_built = built if threshold is None and not upload_list else None
        self._plan, self._interface = built.plan, built.source.interface
        self._threshold = built.plan.own.threshold if threshold is None and built.plan.batch.tiles else threshold
        self._upload_list = upload_list and self._interface.asks("list")
        self._device: Any = open_device("cuda", built.plan, built.source, built.binary)

    def prepare(self, batch: DeviceBatch, set_index: int, entries: np.ndarray | None = None) -> Callable[[], None]:
        """
        Args:
            entries: of a grouped kernel, the numbers of the products that it multiplies; None for all.

        Raises:
            DeviceError: a kernel for products of one size gets several.
        """
        import cupy

        from gemmgen.run import allocated, arguments

        plan = self._plan
        if plan.kind.uniform and not batch.is_uniform:
            raise DeviceError(
                "bench", f"a kernel for problems of kind {plan.kind} has one size", got="a batch of several sizes", needs="kind = grouped",
            )
        sizes = np.stack([batch.m, batch.n, batch.k], axis=1).astype(np.int64)
        if entries is not None:
            sizes = sizes[entries]
        listed = plan.design.listed(plan, sizes, self._threshold)
        extents = listed.extents | self._interface.constants
        given: dict[str, Any] = {
            "batch": len(sizes), "threshold": self._threshold, "listed": len(listed.rows), "turns": extents["turns"],
            "list": cupy.asarray(np.ascontiguousarray(listed.rows).view(np.uint8)),
        }
        given |= plan.kind.arguments(batch.hosts[set_index], batch.held(set_index, entries))
        memory = allocated(self._device, self._interface, extents)
        calls = [_upload(listed.rows, given["list"])] if self._upload_list and len(listed.rows) else []
        follows = False  # one of these launches
        for launch in self._interface.launches:
            given["blocks"] = launch.blocks(extents)
            if given["blocks"]:
                calls.append(self._device.prepared(
                    launch.symbol, given["blocks"], launch.threads, launch.shared_bytes, arguments(launch, given, memory), launch.overlaps and follows,
                    direct=True,
                ))
            follows = given["blocks"] > 0
        return _together(calls)


class MixedKernels:
    """Two kernels that share a batch, as `gemmgen.run.mixed` divides it."""

    name = "mixed"

    def __init__(self, first: Built, second: Built):
        """Raises: SpecError: they cannot share a batch."""
        from gemmgen.run.mixed import check_pair

        check_pair(first.plan, second.plan)
        self._plans, self._kernels = (first.plan, second.plan), (BatchKernel(first), BatchKernel(second))

    def prepare(self, batch: DeviceBatch, set_index: int) -> Callable[[], None]:
        from gemmgen.run.mixed import division

        second = division(*self._plans, np.stack([batch.m, batch.n, batch.k], axis=1).astype(np.int64))
        calls = [
            kernel.prepare(batch, set_index, np.flatnonzero(mine)) for kernel, mine in zip(self._kernels, (~second, second)) if mine.any()
        ]
        return _together(calls)


def _together(calls: Sequence[Callable[[], None]]) -> Callable[[], None]:
    """One call that makes all of them; a single one as it is."""
    def enqueue() -> None:
        for call in calls:
            call()

    return calls[0] if len(calls) == 1 else enqueue


def _upload(rows: np.ndarray, place: Any) -> Callable[[], None]:
    """A call that enqueues the copy of a list from page-locked memory of the host to its place on the device."""
    import cupy

    runtime = cupy.cuda.runtime
    pinned = cupy.cuda.alloc_pinned_memory(rows.nbytes)
    np.frombuffer(pinned, rows.dtype, rows.size)[:] = rows.ravel()

    def copy() -> None:
        runtime.memcpyAsync(place.data.ptr, pinned.ptr, rows.nbytes, runtime.memcpyHostToDevice, cupy.cuda.get_current_stream().ptr)

    return copy


def contender(built: Built, threshold: int | None = None, upload_list: bool = False) -> Multiplier:
    """What multiplies a batch with this kernel.

    Args:
        threshold: threads at work from which on a tiling is parallel enough; None for the plan's.
        upload_list: whether a list of tiles that the host makes is copied to the device before every launch, as a program has
            to whose sizes change from call to call.

    Raises:
        InfeasibleSpec: it multiplies one pair of matrices a launch.
    """
    if not built.plan.launches.of_products:
        raise InfeasibleSpec("bench", "is given a kernel of one product", got=built.source.name, needs="one whose launch takes many",
                             remedy="gemmgen bench SPEC, without --suite and --batches")
    return BatchKernel(built, threshold, upload_list)
