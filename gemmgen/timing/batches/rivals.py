"""What kernels for batches race against: cuBLAS in every form a program can call it in, and torch.bmm.

All take FP32 operands and multiply them in FP32 (no TF32). Products without elements are left out where
the form allows it. Forms of one size are given matrices padded with zeros beforehand, outside the timing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from gemmgen.errors import DeviceError
from gemmgen.timing.batches import native
from gemmgen.timing.batches.cells import Product
from gemmgen.timing.batches.contender import Multiplier
from gemmgen.timing.batches.device import DeviceBatch
from gemmgen.timing.blas import load_library

STREAMS = 16
_WORKSPACE = 32 << 20  # what cuBLAS recommends for Hopper; with one's own, a captured call allocates nothing


def _checked(name: str, call: Callable[[], int]) -> Callable[[], None]:
    """The call, with a DeviceError for whatever it answers but 0."""
    def enqueue() -> None:
        status = call()
        if status:
            raise DeviceError("bench", f"{name} failed", got=f"cublasStatus {status}")

    return enqueue


class _Handle:
    """A cuBLAS handle of its own on one stream, with a workspace."""

    def __init__(self, stream: int):
        import cupy
        from cupy.cuda import device as cupy_device

        cupy_device.get_cublas_handle()  # which loads the library
        self.library = load_library()
        self.stream, self.value = stream, ctypes.c_void_p()
        self.workspace = cupy.empty(_WORKSPACE, np.uint8)
        status = (
            self.library.cublasCreate_v2(ctypes.byref(self.value))
            or self.library.cublasSetStream_v2(self.value, ctypes.c_void_p(stream))
            or self.library.cublasSetWorkspace_v2(self.value, ctypes.c_void_p(self.workspace.data.ptr), ctypes.c_size_t(_WORKSPACE))
        )
        if status:
            raise DeviceError("bench", "cuBLAS gives no handle", got=f"cublasStatus {status}")

    def function(self, name: str) -> Any:
        """A function of the library.

        Raises:
            DeviceError: this cuBLAS has none of this name.
        """
        try:
            return getattr(self.library, name)
        except AttributeError:
            raise DeviceError("bench", f"this cuBLAS has no {name}", needs="cuBLAS 12.5 or later") from None


class _Cublas:
    """Keeps a handle for the stream that is current, from one batch to the next."""

    name = ""

    def __init__(self) -> None:
        self._handle: _Handle | None = None

    def handle(self) -> _Handle:
        import cupy

        stream = cupy.cuda.get_current_stream().ptr
        if self._handle is None or self._handle.stream != stream:
            self._handle = _Handle(stream)
        return self._handle


def _address(function: Any) -> ctypes.c_void_p:
    return ctypes.cast(function, ctypes.c_void_p)


class Loop(_Cublas):
    """cublasSgemm for each product, one after the other, enqueued from C; from Python where no C compiler is here."""

    name = "cublas-loop"

    def prepare(self, batch: DeviceBatch, set_index: int) -> Callable[[], None]:
        handle, host, compiled = self.handle(), batch.hosts[set_index], native.library()
        gemm = handle.function("cublasSgemm_v2")
        if compiled:
            return _checked(self.name, partial(compiled.loop, _address(gemm), handle.value, host.ctypes.data, len(host)))
        one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
        calls = [
            (handle.value, 0, 0, n, m, k, ctypes.byref(one), ctypes.c_void_p(int(p["b"])), n, ctypes.c_void_p(int(p["a"])), k,
             ctypes.byref(zero), ctypes.c_void_p(int(p["c"])), n)
            for p, (m, n, k) in zip(host, batch.products) if m and n
        ]
        return _checked(self.name, lambda: next((status for call in calls if (status := gemm(*call))), 0))


class Streams(_Cublas):
    """The same products round robin over STREAMS streams, each with a handle of its own, from C."""

    name = "cublas-streams"

    def __init__(self) -> None:
        super().__init__()
        self._side: tuple[Any, ...] | None = None

    def prepare(self, batch: DeviceBatch, set_index: int) -> Callable[[], None]:
        import cupy

        compiled, host = native.library(), batch.hosts[set_index]
        if not compiled:
            raise DeviceError("bench", "no C compiler is here", needs="cc, gcc, clang or nvcc: its loop is compiled")
        if self._side is None:
            streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(STREAMS)]
            handles = [_Handle(stream.ptr) for stream in streams]
            events = [cupy.cuda.Event(disable_timing=True) for _ in range(STREAMS + 1)]
            driver = ctypes.CDLL("libcuda.so.1")
            arrays = [(ctypes.c_void_p * STREAMS)(*values) for values in (
                [handle.value.value for handle in handles], [stream.ptr for stream in streams], [event.ptr for event in events[:STREAMS]],
            )]
            self._side = streams, handles, events, driver, arrays
        _, handles, events, driver, arrays = self._side
        call = partial(
            compiled.spread, _address(handles[0].function("cublasSgemm_v2")), _address(driver.cuEventRecord), _address(driver.cuStreamWaitEvent),
            *arrays, STREAMS, cupy.cuda.get_current_stream().ptr, events[STREAMS].ptr, host.ctypes.data, len(host),
        )
        return _checked(self.name, call)


class Graph:
    """Another rival's work, captured once as a CUDA graph for each batch and set, and launched again."""

    def __init__(self, inner: Loop | Streams, name: str):
        self.inner, self.name = inner, name

    def prepare(self, batch: DeviceBatch, set_index: int) -> Callable[[], None]:
        import cupy

        call, stream = self.inner.prepare(batch, set_index), cupy.cuda.get_current_stream()
        call()  # what it loads and allocates, it does outside the capture
        stream.synchronize()
        stream.begin_capture()
        try:
            call()
        finally:
            graph = stream.end_capture()
        return partial(graph.launch, stream)


class Grouped(_Cublas):
    """cublasSgemmGroupedBatched: a group for each product; neighbours of one size share theirs."""

    name = "cublas-grouped"

    def prepare(self, batch: DeviceBatch, set_index: int) -> Callable[[], None]:
        import cupy

        handle = self.handle()
        function = handle.function("cublasSgemmGroupedBatched")
        host = batch.hosts[set_index]
        whole = host[(host["m"] > 0) & (host["n"] > 0)]
        if not len(whole):
            return lambda: None
        groups = [(size, len(list(same))) for size, same in groupby(zip(whole["m"].tolist(), whole["n"].tolist(), whole["k"].tolist()))]
        m, n, k = (np.array([size[at] for size, _ in groups], np.int32) for at in range(3))
        counts, plain = np.array([count for _, count in groups], np.int32), np.zeros(len(groups), np.int32)
        one, zero = np.ones(len(groups), np.float32), np.zeros(len(groups), np.float32)
        a, b, c = (cupy.asarray(np.ascontiguousarray(whole[name])) for name in "abc")  # addresses are read on the device, all else on the host
        kept = (m, n, k, counts, plain, one, zero, a, b, c)
        at = [ctypes.c_void_p(x.ctypes.data) for x in kept[:7]] + [ctypes.c_void_p(x.data.ptr) for x in kept[7:]]
        m_, n_, k_, counts_, plain_, one_, zero_, a_, b_, c_ = at
        call = partial(function, handle.value, plain_, plain_, n_, m_, k_, one_, b_, n_, a_, k_, zero_, c_, n_, len(groups), counts_)
        enqueue = _checked(self.name, call)
        enqueue.kept = kept  # type: ignore[attr-defined]
        return enqueue


class Batched(_Cublas):
    """cublasSgemmBatched on matrices padded to the largest; the padding is not timed."""

    name = "cublas-batched-padded"

    def prepare(self, batch: DeviceBatch, set_index: int) -> Callable[[], None]:
        handle, padded = self.handle(), batch.padded
        m, n, k = padded.extents
        a, b, c = (ctypes.c_void_p(x.data.ptr) for x in padded.pointers[set_index])
        one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
        call = partial(
            handle.function("cublasSgemmBatched"), handle.value, 0, 0, n, m, k, ctypes.byref(one), b, n, a, k, ctypes.byref(zero), c, n,
            len(batch.products),
        )
        return _checked(self.name, call)

    @staticmethod
    def result(batch: DeviceBatch, set_index: int, number: int) -> Any:
        m, n, _ = batch.products[number]
        return batch.padded.c[set_index][number, :m, :n]


class Strided(_Cublas):
    """cublasSgemmStridedBatched; batches of one size only."""

    name = "cublas-strided"

    def prepare(self, batch: DeviceBatch, set_index: int) -> Callable[[], None]:
        handle, (m, n, k), count = self.handle(), batch.products[0], len(batch.products)
        a, b, c = (ctypes.c_void_p(x[set_index].data.ptr) for x in (batch.a, batch.b, batch.c))
        strides = [ctypes.c_longlong(int(x[1]) if count > 1 else 0) for x in (batch.places_a, batch.places_b, batch.places_c)]
        one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
        call = partial(
            handle.function("cublasSgemmStridedBatched"), handle.value, 0, 0, n, m, k, ctypes.byref(one), b, n, strides[1], a, k, strides[0],
            ctypes.byref(zero), c, n, strides[2], count,
        )
        return _checked(self.name, call)


class TorchBmm:
    """torch.bmm with TF32 off, on matrices padded to the largest; as they are where all have one size."""

    def __init__(self, padded: bool):
        self.padded, self.name = padded, "torch-bmm-padded" if padded else "torch-bmm"
        self.result = Batched.result if padded else None

    def prepare(self, batch: DeviceBatch, set_index: int) -> Callable[[], None]:
        import cupy

        try:
            import torch
        except ImportError as error:
            raise DeviceError("bench", f"{error.name or error} is not installed", remedy="pip install torch") from None
        torch.backends.cuda.matmul.allow_tf32 = False
        stream = torch.cuda.ExternalStream(cupy.cuda.get_current_stream().ptr)
        a, b, c = (torch.as_tensor(x, device="cuda") for x in self._arrays(batch, set_index))

        def enqueue() -> None:
            with torch.cuda.stream(stream):  # left current, torch would go on with it after its owner has destroyed it
                torch.bmm(a, b, out=c)

        return enqueue

    def _arrays(self, batch: DeviceBatch, at: int) -> tuple[Any, Any, Any]:
        if self.padded:
            return batch.padded.a[at], batch.padded.b[at], batch.padded.c[at]
        (m, n, k), count = batch.products[0], len(batch.products)
        if batch.gaps or any(int(array[at].size) != count * size for array, size in ((batch.a, m * k), (batch.b, k * n))):
            raise DeviceError("bench", "torch.bmm takes matrices that lie one after the other", needs="sizes of A, B and C that are multiples of 64")
        return batch.a[at].reshape(count, m, k), batch.b[at].reshape(count, k, n), batch.c[at].reshape(count, m, n)


def rivals() -> dict[str, Multiplier]:
    """All of them by name, new; to be kept from one batch to the next, as their handles and streams are."""
    every: list[Multiplier] = [
        Loop(), Streams(), Graph(Loop(), "cublas-graph"), Graph(Streams(), "cublas-graph-streams"), Grouped(), Batched(), TorchBmm(padded=True),
        Strided(), TorchBmm(padded=False),
    ]
    return {rival.name: rival for rival in every}


NAMES = tuple(rivals())
PADDED = ("cublas-batched-padded", "torch-bmm-padded")
"""Whose padding is not counted; for batches of many sizes."""
ONE_SIZE = ("cublas-strided", "torch-bmm")
"""For batches of one size, where nothing is padded."""


GRAPHS = ("cublas-graph", "cublas-graph-streams")
"""Graphs of others: what those are where everything is captured."""


def suited(names: Iterable[str], products: Sequence[Product], captured: bool = False) -> list[str]:
    """Those of NAMES that take such a batch as it is, or where sizes differ, padded.

    Args:
        captured: whether each will be captured as a CUDA graph.
    """
    absent = (PADDED if len(set(products)) == 1 else ONE_SIZE) + (GRAPHS if captured else ())
    return [name for name in names if name not in absent]
