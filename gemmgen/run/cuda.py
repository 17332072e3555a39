"""A CUDA GPU as a device, through cupy. The only importer of cupy."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from gemmgen.build import Binary
from gemmgen.drivers import check_driver, extra, install, told as version_told
from gemmgen.catalog.gpu import arch_number
from gemmgen.errors import DeviceError
from gemmgen.run import KernelArguments, Target
from gemmgen.run.sensors import Sensors, open_sensors

_SCALARS = {"int": np.int32, "long long": np.int64, "float": np.float32, "double": np.float64}
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_WITHOUT_OPT_IN = 48 * 1024
"""Dynamic shared bytes that every kernel may have."""
_PLACE = "--device cuda"
_EMULATOR = "--device emulator"


def why_not(target: Target) -> DeviceError | None:
    """None when a GPU that runs `target`'s machine code is here, else the reason it cannot be used."""
    if reason := _no_gpu():
        return reason
    import cupy

    arch = target.arch
    capability = int(cupy.cuda.Device().compute_capability)
    # A cubin runs on its own compute capability and on later minor ones of the same major.
    # What is made for one target alone, sm_90a, runs on no other.
    number = arch_number(arch)
    alone = arch.endswith("a")
    if capability // 10 != number // 10 or capability < number or (alone and capability != number):
        return DeviceError(
            _PLACE, f"this GPU does not run {arch} machine code", got=f"sm_{capability}",
            needs=f"a GPU of compute capability {number // 10}.{number % 10 if alone else 'x'}",
            remedy=f"[target] gpu for this GPU, or {_EMULATOR}",
        )
    return None


def _no_gpu() -> DeviceError | None:
    """None when any GPU is here, else why there is none."""
    try:
        import cupy
    except ImportError as error:
        absent = error.name == "cupy"
        return DeviceError(
            _PLACE, "cupy is not installed" if absent else "cupy is installed and cannot be imported", got=_first_line(error),
            needs=f"cupy for CUDA {extra()[4:]}, with what it depends on", remedy=f"{install()}, or {_EMULATOR}",
        )
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # cupy's CUDARuntimeError, or whatever else it makes of a driver that is not there
        return _refusal(cupy, _first_line(error))
    return _refusal(cupy, "cudaErrorNoDevice: 0 GPUs") if count == 0 else None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _refusal(cupy: Any, status: str) -> DeviceError:
    """The error where cupy counts no GPU, and says why: `cudaErrorNoDevice: ...`."""
    if status.startswith("cudaErrorInsufficientDriver"):  # said of an old driver, and of none
        driver, runtime = cupy.cuda.runtime.driverGetVersion(), cupy.cuda.runtime.runtimeGetVersion()
        needs = f"NVIDIA's driver (libcuda.so.1), for CUDA {runtime // 1000} or later, as cupy's runtime is"
        if driver == 0:
            return DeviceError(
                _PLACE, "cupy is installed and there is no NVIDIA driver", got=status, needs=needs,
                remedy=f"install the driver; nvidia-smi then lists the GPU; or {_EMULATOR}",
            )
        return DeviceError(
            _PLACE, "the NVIDIA driver is too old for cupy's CUDA runtime", got=f"a driver for {version_told(driver)}", needs=needs,
            remedy=f"pip install 'gemmgen[cuda{driver // 1000}]', update the driver, or {_EMULATOR}",
        )
    return DeviceError(
        _PLACE, "no CUDA GPU answers", got=status, needs="a GPU that nvidia-smi lists and CUDA_VISIBLE_DEVICES does not hide",
        remedy=_EMULATOR,
    )


def _version(number: int) -> str:
    """`12.4` of 12040."""
    return f"{number // 1000}.{number % 1000 // 10}"


def driver_facts() -> dict[str, Any]:
    """What the driver tells of the current GPU without a measurement, under the names that rows of specs/gpus use where these have one.

    Raises:
        DeviceError: there is no GPU, or no cupy.
    """
    if reason := _no_gpu():
        raise reason
    import cupy

    runtime = cupy.cuda.runtime
    told = runtime.getDeviceProperties(cupy.cuda.Device().id)
    rates = cupy.cuda.Device().attributes  # since CUDA 13 clocks are no properties
    megahertz = rates.get("MemoryClockRate", 0) / 1e3
    facts = {
        "title": told["name"].decode(), "arch": f"sm_{told['major']}{told['minor']}", "sms": told["multiProcessorCount"], "warp_size": told["warpSize"],
        "threads_per_block": told["maxThreadsPerBlock"], "threads_per_sm": told["maxThreadsPerMultiProcessor"],
        "blocks_per_sm": told.get("maxBlocksPerMultiProcessor"), "registers_per_sm": told["regsPerMultiprocessor"],
        "shared_bytes_per_sm": told["sharedMemPerMultiprocessor"], "shared_bytes_per_block": told.get("sharedMemPerBlockOptin"),
        "shared_bytes_reserved_per_block": told.get("reservedSharedMemPerBlock"), "l2_mib": told["l2CacheSize"] / 2**20,
        "device_memory_bytes": told["totalGlobalMem"], "boost_mhz": rates.get("ClockRate", 0) / 1e3,
        "dram_gb_per_s": 2 * megahertz * rates.get("GlobalMemoryBusWidth", 0) / 8e3,
        "driver_version": _version(runtime.driverGetVersion()), "runtime_version": _version(runtime.runtimeGetVersion()),
    }
    return {name: value for name, value in facts.items() if value}


def sensors() -> Sensors | None:
    """Of the current GPU; None where they cannot be read."""
    import cupy

    return open_sensors(cupy.cuda.Device().pci_bus_id)


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = [("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_int), ("rest", ctypes.c_byte * 60)]


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        *((f"{what}_{axis}", ctypes.c_uint) for what in ("grid", "block") for axis in "xyz"), ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(_Attribute)), ("attribute_count", ctypes.c_uint),
    ]


_CLUSTER_DIMENSION, _PROGRAMMATIC_STREAM_SERIALIZATION = 4, 6  # CUlaunchAttributeID
_REGISTERS, _NON_PORTABLE_CLUSTERS = 4, 14  # CUfunction_attribute


class _Direct:
    """A launch by the driver's own call: it takes attributes, and a third of the host's time that cupy's does.

    Args:
        overlaps: with the attribute of a programmatic dependent launch.
        cluster: blocks of a cluster.
    """

    def __init__(self, cupy: Any, function: Any, blocks: int, threads: int, shared_bytes: int, args: Sequence[Any], overlaps: bool, cluster: int = 1):
        self._cupy, self._function = cupy, function  # which keeps its module loaded
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._buffers = [value for kind, value in args if kind == "pointer"]  # kept alive
        # an array, or an address, as cupy's own launch takes them
        self._arguments = KernelArguments([
            (kind, value.data.ptr if kind == "pointer" and hasattr(value, "data") else value) for kind, value in args
        ])
        asked = [_Attribute(_PROGRAMMATIC_STREAM_SERIALIZATION, value=1)] * overlaps
        asked += [_Attribute(_CLUSTER_DIMENSION, value=cluster, rest=(1, 0, 0, 0, 1))] * (cluster > 1)  # y and z
        self._attributes = (_Attribute * max(1, len(asked)))(*asked)
        self._config = _Config(blocks, 1, 1, threads, 1, 1, shared_bytes, None, self._attributes, len(asked))

    def point(self, at: int, address: int) -> None:
        """Have argument `at`, a pointer, be this address from the next launch on."""
        self._arguments.point(at, address)

    def __call__(self) -> None:
        self._config.stream = self._cupy.cuda.get_current_stream().ptr
        status = self._driver.cuLaunchKernelEx(ctypes.byref(self._config), ctypes.c_void_p(self._function.ptr), self._arguments.array, None)
        if status:
            raise DeviceError("launch", "the driver refused it", got=f"CUresult {status}")


def open_device(binary: Binary) -> CudaDevice:
    """
    Raises:
        DeviceError: the driver is too old for the machine code.
    """
    import cupy

    check_driver(binary.compiler, cupy.cuda.runtime.driverGetVersion(), _PLACE)
    return CudaDevice(binary)


class CudaDevice:
    """Runs a Binary's cubin on the current CUDA device."""

    kind = "cuda"
    clusters_at_once = None

    def __init__(self, binary: Binary):
        import cupy

        self._cupy = cupy
        self._module = cupy.cuda.function.Module()
        self._module.load(binary.code)
        properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
        self.name = properties["name"].decode()
        self._events: list[Any] = []
        self._copied: tuple[Any, int, Any] = (None, -1, None)  # page-locked memory, its bytes, as many on the device

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

    def address(self, buffer: Any) -> int:
        return buffer.data.ptr

    def part(self, buffer: Any, nbytes: int) -> Any:
        return buffer[nbytes:]

    def prepared(
        self, symbol: str, blocks: int, threads: int, shared_bytes: int, args: Sequence[Any], overlaps: bool = False, *, direct: bool = False,
    ) -> Callable[[], None]:
        """A launch with everything looked up, to be repeated.

        Args:
            overlaps: it may start while the launch before it still runs (programmatic dependent launch).
            direct: by the driver's own call, for timings in which the host's time shows.
        """
        function = self._module.get_function(symbol)
        if shared_bytes:  # the driver counts the kernel's static shared memory, too, so that less than the usual limit may need leave
            self._cupy.cuda.driver.funcSetAttribute(function.ptr, _MAX_DYNAMIC_SHARED, shared_bytes)
        if overlaps or direct:
            return _Direct(self._cupy, function, blocks, threads, shared_bytes, args, overlaps)
        values = tuple(value if kind == "pointer" else _SCALARS[kind](value) for kind, value in args)
        return partial(function, (blocks,), (threads,), values, shared_mem=shared_bytes)

    def launch(self, symbol: str, blocks: int, threads: int, shared_bytes: int, args: Sequence[Any], overlaps: bool = False) -> None:
        run = self.prepared(symbol, blocks, threads, shared_bytes, args, overlaps)
        if not self._events:
            self._mark()
        run()
        self._last = self._cupy.cuda.Event()
        self._last.record()

    def registers(self, symbol: str) -> int:
        """32-bit registers of a thread, as loaded."""
        return self._cupy.cuda.driver.funcGetAttribute(_REGISTERS, self._module.get_function(symbol).ptr)

    def takes(self, symbol: str, blocks: int, threads: int, shared_bytes: int = 0, cluster: int = 1, opt_in: bool = True) -> bool:
        """Whether a launch is not refused, of a kernel that takes one pointer, which is null.

        Args:
            cluster: blocks of a cluster.
            opt_in: ask for more dynamic shared memory than a launch gets by itself.
        """
        driver = self._cupy.cuda.driver
        function = self._module.get_function(symbol)
        try:
            if opt_in and shared_bytes > _WITHOUT_OPT_IN:
                driver.funcSetAttribute(function.ptr, _MAX_DYNAMIC_SHARED, shared_bytes)
            if cluster > 1:
                driver.funcSetAttribute(function.ptr, _NON_PORTABLE_CLUSTERS, 1)
            _Direct(self._cupy, function, blocks, threads, shared_bytes, [("pointer", 0)], False, cluster)()
        except (DeviceError, driver.CUDADriverError):
            return False
        self._cupy.cuda.get_current_stream().synchronize()
        return True

    def resident(self, symbol: str, threads: int, shared_bytes: int = 0) -> int:
        """How many such blocks an SM holds at once, by the driver's occupancy query; 0 where it refuses such a block."""
        driver = self._cupy.cuda.driver
        function = self._module.get_function(symbol)
        try:
            if shared_bytes:
                driver.funcSetAttribute(function.ptr, _MAX_DYNAMIC_SHARED, shared_bytes)
            return driver.occupancyMaxActiveBlocksPerMultiprocessor(function.ptr, threads, shared_bytes)
        except driver.CUDADriverError:
            return 0

    def series(self, symbol: str, blocks: int, threads: int, args: Sequence[Sequence[Any]], overlaps: bool = False) -> float:
        """Launches with nothing between them, one for each list of arguments; seconds from the first call to the end of all, seen from the host.

        Args:
            overlaps: each may start while the one before still runs.
        """
        runs = [self.prepared(symbol, blocks, threads, 0, one, overlaps and at > 0, direct=True) for at, one in enumerate(args)]
        stream = self._cupy.cuda.get_current_stream()
        stream.synchronize()
        start = time.perf_counter()
        for run in runs:
            run()
        stream.synchronize()
        return time.perf_counter() - start

    def copy_seconds(self, nbytes: int, to_device: bool) -> float:
        """What a copy between page-locked memory of the host and the device takes."""
        cuda = self._cupy.cuda
        if self._copied[1] != nbytes:
            self._copied = cuda.alloc_pinned_memory(nbytes), nbytes, self._cupy.empty(nbytes, self._cupy.uint8)
        host, _, here = self._copied
        stream = cuda.get_current_stream()
        events = cuda.Event(), cuda.Event()
        events[0].record()
        if to_device:
            here.data.copy_from_host_async(host.ptr, nbytes, stream)
        else:
            here.data.copy_to_host_async(host.ptr, nbytes, stream)
        events[1].record()
        events[1].synchronize()
        return cuda.get_elapsed_time(*events) / 1e3

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
