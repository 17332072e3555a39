"""A CUDA GPU as a device, through cupy. The only importer of cupy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from gemmgen.build import Binary
from gemmgen.catalog.gpu import Gpu
from gemmgen.errors import DeviceError

_SCALARS = {"int": np.int32, "long long": np.int64, "float": np.float32}
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


def why_not(gpu: Gpu) -> DeviceError | None:
    """None when a GPU that runs `gpu`'s binaries is here, else the reason it cannot be used."""
    try:
        import cupy

        count = cupy.cuda.runtime.getDeviceCount()
    except ImportError:
        return DeviceError(
            "--device cuda", "cupy is not installed", remedy="pip install 'gemmgen[cuda-gpu]', or --device emulator"
        )
    except Exception as error:  # cupy raises CUDARuntimeError, or ImportError's kin for a missing driver
        return DeviceError(
            "--device cuda", "no CUDA GPU answers", got=str(error).splitlines()[0], remedy="--device emulator"
        )
    if count == 0:
        return DeviceError("--device cuda", "no CUDA GPU is present", remedy="--device emulator")
    capability = int(cupy.cuda.Device().compute_capability)
    # A cubin runs on its own compute capability and on later minor ones of the same major.
    if capability // 10 != gpu.arch_number // 10 or capability < gpu.arch_number:
        return DeviceError(
            "--device cuda", f"this GPU does not run {gpu.arch} machine code", got=f"sm_{capability}",
            needs=f"a GPU of compute capability {gpu.arch_number // 10}.x", remedy="[target] gpu for this GPU, or --device emulator",
        )
    return None


class CudaDevice:
    """Runs a Binary's cubin on the current CUDA device."""

    kind = "cuda"

    def __init__(self, binary: Binary):
        import cupy

        self._cupy = cupy
        self._module = cupy.cuda.function.Module()
        self._module.load(binary.cubin)
        properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
        self.name = properties["name"].decode()
        self._events: list[Any] = []

    def zeros(self, nbytes: int, name: str) -> Any:
        return self._cupy.zeros(max(nbytes, 1), self._cupy.uint8)

    def empty(self, nbytes: int, name: str) -> Any:
        """Poisoned, so that a read of what no kernel wrote shows: 0xff is NaN as FP16 and FP32."""
        return self._cupy.full(max(nbytes, 1), 0xFF, self._cupy.uint8)

    def upload(self, array: np.ndarray, name: str, misalign: int = 0) -> Any:
        buffer = self._cupy.full(array.nbytes + misalign + 4, 0xFF, self._cupy.uint8)
        view = buffer[misalign : misalign + array.nbytes]
        view.set(np.frombuffer(array.tobytes(), np.uint8))
        return view

    def prepared(self, symbol: str, blocks: int, threads: int, shared_bytes: int, args: Sequence[Any]) -> Callable[[], None]:
        """A launch with everything looked up, to be repeated."""
        function = self._module.get_function(symbol)
        if shared_bytes > 48 * 1024:
            self._cupy.cuda.driver.funcSetAttribute(function.ptr, _MAX_DYNAMIC_SHARED, shared_bytes)
        values = tuple(value if kind == "pointer" else _SCALARS[kind](value) for kind, value in args)
        return partial(function, (blocks,), (threads,), values, shared_mem=shared_bytes)

    def launch(self, symbol: str, blocks: int, threads: int, shared_bytes: int, args: Sequence[Any]) -> None:
        run = self.prepared(symbol, blocks, threads, shared_bytes, args)
        if not self._events:
            self._mark()
        run()
        self._last = self._cupy.cuda.Event()
        self._last.record()

    def _mark(self) -> None:
        event = self._cupy.cuda.Event()
        event.record()
        self._events.append(event)

    def download(self, buffer: Any, dtype: Any, count: int) -> np.ndarray:
        return np.frombuffer(self._cupy.asnumpy(buffer).tobytes(), dtype, count).copy()

    def seconds(self) -> float | None:
        """From before the first launch to after the last, with whatever lay between them."""
        if not self._events:
            return None
        self._last.synchronize()
        return self._cupy.cuda.get_elapsed_time(self._events[0], self._last) / 1e3

    def release(self) -> None:
        self._events.clear()
