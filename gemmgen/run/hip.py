"""An AMD GPU as a device, through hip-python. The only importer of hip-python."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np

from gemmgen.build import Binary
from gemmgen.catalog.vendor import VENDORS
from gemmgen.errors import DeviceError
from gemmgen.run import KernelArguments, Target

MOST_THREADS = VENDORS["amd"].most_threads
"""Threads of one launch: HIP counts all of a grid's in 32 bits (hipModuleLaunchKernel)."""

_PLACE = "--device hip"
_EMULATOR = "--device emulator"
_POISON = 0xFF  # NaN as FP16 and FP32


class _Runtime:
    """hip-python, whose functions return a status before what they are asked for."""

    def __init__(self) -> None:
        try:
            from hip import hip
        except ImportError as error:
            raise DeviceError(
                _PLACE, "hip-python is not installed", got=str(error),
                remedy=f"pip install 'gemmgen[rocm]', of hip-python the version of your ROCm; or {_EMULATOR}",
            ) from None
        self.hip = hip

    def __call__(self, function: str, *args: Any) -> Any:
        """What `function` returns besides its status.

        Raises:
            DeviceError: the status is not success, or there is no ROCm.
        """
        try:
            status, *values = getattr(self.hip, function)(*args)
        except RuntimeError as error:  # the library, or a function in it, is not found
            raise DeviceError(
                _PLACE, "hip-python finds no ROCm that it can use", got=str(error),
                needs="ROCm's libamdhip64.so where the loader looks, of hip-python's own version",
                remedy=f"install ROCm, or set LD_LIBRARY_PATH to its lib folder; or {_EMULATOR}",
            ) from None
        except ValueError as error:  # a status that hip-python does not know
            raise _refusal(function, str(error)) from None
        if status != self.hip.hipError_t.hipSuccess:
            raise _refusal(function, status.name)
        return values[0] if values else None


def _refusal(function: str, status: str) -> DeviceError:
    """The error for a status that is not success."""
    if status == "hipErrorNoDevice":
        return DeviceError(
            _PLACE, "no AMD GPU answers", got=status, remedy=_EMULATOR,
            needs="a GPU that rocminfo lists, and the right to open /dev/kfd (groups render, video)",
        )
    if status == "hipErrorOutOfMemory":
        return DeviceError(_PLACE, "the GPU's memory is too small", got=status, remedy="smaller --m, --n, --k or matrices")
    return DeviceError(
        _PLACE, f"{function} failed", got=status, remedy=f"{_EMULATOR} shows which instruction of a kernel goes wrong"
    )


@dataclass(frozen=True)
class _Gpu:
    """A GPU of this machine.

    Attributes:
        number: as HIP counts them.
        name: as its maker calls it.
        target: its architecture and what is switched on there, as `gfx90a:sramecc+:xnack-`.
        wavefront_size: lanes.
        compute_units: how many there are.
    """

    number: int
    name: str
    target: str
    wavefront_size: int
    compute_units: int

    @property
    def arch(self) -> str:
        return self.target.partition(":")[0]


def _gpus(runtime: _Runtime) -> list[_Gpu]:
    found = []
    for number in range(runtime("hipGetDeviceCount")):
        told = runtime("hipGetDeviceProperties", number)
        found.append(_Gpu(number, _text(told.name), _text(told.gcnArchName), int(told.warpSize), int(told.multiProcessorCount)))
    return found


def driver_facts() -> dict[str, Any]:
    """What the driver tells of the first GPU without a measurement, under the names that rows of specs/gpus use where these have one.

    Raises:
        DeviceError: there is no GPU, or no hip-python.
    """
    runtime = _Runtime()
    gpus = _gpus(runtime)
    if not gpus:
        raise _refusal("hipGetDeviceCount", "hipErrorNoDevice")
    first = gpus[0]
    told = runtime("hipGetDeviceProperties", first.number)
    limits = {
        "threads_per_block": "maxThreadsPerBlock", "threads_per_sm": "maxThreadsPerMultiProcessor", "shared_bytes_per_block": "sharedMemPerBlock",
        "device_memory_bytes": "totalGlobalMem",
    }
    return {
        "title": first.name, "arch": first.arch, "warp_size": first.wavefront_size, "compute_units": first.compute_units, "sms": first.compute_units,
        **{name: int(value) for name, field in limits.items() if (value := getattr(told, field, 0))},
        **{name: value for name, value in (("l2_mib", getattr(told, "l2CacheSize", 0) / 2**20), ("boost_mhz", getattr(told, "clockRate", 0) / 1e3)) if value},
        "driver_version": runtime("hipDriverGetVersion"), "runtime_version": runtime("hipRuntimeGetVersion"),
    }


def sensors() -> None:
    """None are read."""


def _text(value: str | bytes) -> str:
    """hip-python gives a C string as text or, in older versions, as bytes."""
    return value.decode() if isinstance(value, bytes) else value


def _suited(runtime: _Runtime, arch: str) -> _Gpu:
    """The first GPU that runs `arch` machine code: of that very architecture, whatever is switched on there.

    Raises:
        DeviceError: there is none.
    """
    gpus = _gpus(runtime)
    for gpu in gpus:
        if gpu.arch == arch:
            return gpu
    if not gpus:
        raise _refusal("hipGetDeviceCount", "hipErrorNoDevice")
    raise DeviceError(
        _PLACE, f"no GPU here runs {arch} machine code",
        got=", ".join(f"{gpu.name} ({gpu.target}, wavefronts of {gpu.wavefront_size})" for gpu in gpus),
        needs=f"a GPU of {arch}", remedy=f"[target] gpu, or --gpu, for this GPU; or {_EMULATOR}",
    )


def _hip_python_version() -> str:
    try:
        return metadata.version("hip-python")
    except metadata.PackageNotFoundError:  # importable, yet not installed by pip
        return "unknown"


def why_not(target: Target) -> DeviceError | None:
    """None when a GPU that runs `target`'s machine code is here, else the reason it cannot be used."""
    try:
        _suited(_Runtime(), target.arch)
    except DeviceError as error:
        return error
    return None


def open_device(binary: Binary) -> HipDevice:
    return HipDevice(binary)


@dataclass(frozen=True)
class _Buffer:
    """Device memory; the address is the view's, which need not be that of an allocation."""

    address: int
    nbytes: int


class HipDevice:
    """Runs a Binary's code object on the first GPU of its architecture.

    An access out of bounds is not an error that can be caught: ROCm ends the process and says so.

    Raises:
        DeviceError: here and from every method, whatever the runtime refuses.
    """

    kind = "hip"
    clusters_at_once = None

    def __init__(self, binary: Binary):
        self._runtime = _Runtime()
        self._gpu = _suited(self._runtime, binary.arch)
        self._runtime("hipSetDevice", self._gpu.number)
        self._module = self._runtime("hipModuleLoadData", binary.code)
        self.name = f"{self._gpu.name} ({self._gpu.target})"
        self._allocated: list[int] = []
        self._events: list[Any] = []  # before the first launch, after the last

    def facts(self) -> dict[str, Any]:
        """What the GPU and the software that drives it are, as a record of a run keeps it."""
        return {
            "name": self._gpu.name, "target": self._gpu.target, "wavefront_size": self._gpu.wavefront_size,
            "compute_units": self._gpu.compute_units, "driver_version": self._runtime("hipDriverGetVersion"),
            "runtime_version": self._runtime("hipRuntimeGetVersion"), "hip_python_version": _hip_python_version(),
        }

    def zeros(self, nbytes: int, name: str) -> _Buffer:
        return self._filled(nbytes, 0)

    def empty(self, nbytes: int, name: str) -> _Buffer:
        """Poisoned, so that a read of what no kernel wrote shows."""
        return self._filled(nbytes, _POISON)

    def _filled(self, nbytes: int, byte: int) -> _Buffer:
        nbytes = max(nbytes, 1)
        address = int(self._runtime("hipMalloc", nbytes))
        self._allocated.append(address)
        self._runtime("hipMemset", address, byte, nbytes)
        return _Buffer(address, nbytes)

    def address(self, buffer: _Buffer) -> int:
        return buffer.address

    def part(self, buffer: _Buffer, nbytes: int) -> _Buffer:
        return _Buffer(buffer.address + nbytes, buffer.nbytes - nbytes)

    def upload(self, array: np.ndarray, name: str, misalign: int = 0) -> _Buffer:
        around = self._filled(array.nbytes + misalign + 4, _POISON)
        view = _Buffer(around.address + misalign, array.nbytes)
        if array.nbytes:
            to_device = self._runtime.hip.hipMemcpyKind.hipMemcpyHostToDevice
            self._runtime("hipMemcpy", view.address, np.ascontiguousarray(array), view.nbytes, to_device)
        return view

    def launch(self, symbol: str, blocks: int, threads: int, shared_bytes: int, args: Sequence[Any], overlaps: bool = False) -> None:
        if blocks * threads > MOST_THREADS:
            raise DeviceError(_PLACE, "HIP does not launch so many threads", got=f"{blocks} blocks of {threads}",
                              needs=f"at most {MOST_THREADS} threads in all", remedy="smaller --m, --n, --k or matrices")
        function = self._runtime("hipModuleGetFunction", self._module, symbol.encode())
        arguments = KernelArguments([(kind, value.address if kind == "pointer" else value) for kind, value in args])
        if not self._events:
            self._events = [self._runtime("hipEventCreate") for _ in range(2)]
            self._runtime("hipEventRecord", self._events[0], None)
        # The runtime copies the values before it returns, each to where the code object says.
        self._runtime(
            "hipModuleLaunchKernel", function, blocks, 1, 1, threads, 1, 1, shared_bytes, None, arguments.addresses, None,
        )
        self._runtime("hipEventRecord", self._events[1], None)

    def registers(self, symbol: str) -> int:
        """32-bit vector registers of a lane, as loaded."""
        function = self._runtime("hipModuleGetFunction", self._module, symbol.encode())
        return self._runtime("hipFuncGetAttribute", self._runtime.hip.hipFunction_attribute.HIP_FUNC_ATTRIBUTE_NUM_REGS, function)

    def takes(self, symbol: str, blocks: int, threads: int, shared_bytes: int = 0, cluster: int = 1, opt_in: bool = True) -> bool:
        """Whether a launch is not refused, of a kernel that takes one pointer, which is null. There are no clusters, and shared memory needs no opt-in."""
        if cluster > 1:
            return False
        try:
            self.launch(symbol, blocks, threads, shared_bytes, [("pointer", _Buffer(0, 0))])
            self._runtime("hipDeviceSynchronize")
        except DeviceError:
            return False
        return True

    def resident(self, symbol: str, threads: int, shared_bytes: int = 0) -> int:
        """How many such blocks a CU holds at once, by the driver's occupancy query; 0 where it refuses such a block."""
        function = self._runtime("hipModuleGetFunction", self._module, symbol.encode())
        try:
            return self._runtime("hipModuleOccupancyMaxActiveBlocksPerMultiprocessor", function, threads, shared_bytes)
        except DeviceError:
            return 0

    def series(self, symbol: str, blocks: int, threads: int, args: Sequence[Sequence[Any]], overlaps: bool = False) -> float:
        """Launches one after another, one for each list of arguments; seconds from the first call to the end of all. None overlaps another."""
        start = time.perf_counter()
        for one in args:
            self.launch(symbol, blocks, threads, 0, one)
        self._runtime("hipDeviceSynchronize")
        return time.perf_counter() - start

    def copy_seconds(self, nbytes: int, to_device: bool) -> None:
        """Not measured."""
        return None

    def download(self, buffer: _Buffer, dtype: Any, count: int) -> np.ndarray:
        array = np.empty(count, dtype)
        if array.nbytes > buffer.nbytes:
            raise DeviceError(
                _PLACE, "more is asked of a buffer than it holds", got=f"{array.nbytes} B", needs=f"at most {buffer.nbytes} B"
            )
        if array.nbytes:
            from_device = self._runtime.hip.hipMemcpyKind.hipMemcpyDeviceToHost
            self._runtime("hipMemcpy", array, buffer.address, array.nbytes, from_device)
        return array

    def seconds(self) -> float | None:
        """From before the first launch to after the last, with whatever lay between them."""
        if not self._events:
            return None
        self._runtime("hipEventSynchronize", self._events[1])
        return self._runtime("hipEventElapsedTime", *self._events) / 1e3

    def release(self) -> None:
        """Give all memory back. After a failed kernel every call fails: that was told when the first one did."""
        for event in self._events:
            self._runtime.hip.hipEventDestroy(event)
        for address in self._allocated:
            self._runtime.hip.hipFree(address)
        self._events, self._allocated = [], []
