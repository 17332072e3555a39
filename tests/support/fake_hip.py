"""A stand-in for hip-python and the GPUs behind it.

`FakeHip` has the functions that the driver uses, with hip-python's signatures and return values, over device
memory that it holds itself. It is strict where a GPU would go wrong in silence: a copy must lie inside one
allocation, an argument must be where the code object wants it, a block must fit its kernel's launch bound.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from types import ModuleType, SimpleNamespace

import numpy as np

from gemmgen.build import Binary, CodeObjectResources, read_code_object
from gemmgen.build.code_object import Argument
from gemmgen.catalog.unit import MatrixUnit
from gemmgen.emulate import TOGETHER, Buffer
from gemmgen.emulate.amdgpu import AmdEmulator
from gemmgen.run import hip

MI210 = ("AMD Instinct MI210", "gfx90a:sramecc+:xnack-", 64, 104)
APU = ("AMD Radeon Graphics", "gfx1036", 32, 2)


class Status(IntEnum):
    hipSuccess = 0
    hipErrorOutOfMemory = 2
    hipErrorNoDevice = 100
    hipErrorInvalidImage = 200
    hipErrorNotFound = 500
    hipErrorLaunchFailure = 719
    hipErrorInvalidValue = 1


class FunctionAttribute(IntEnum):
    HIP_FUNC_ATTRIBUTE_NUM_REGS = 4


class MemcpyKind(IntEnum):
    hipMemcpyHostToDevice = 1
    hipMemcpyDeviceToHost = 2


@dataclass
class Launched:
    """One launch: `kernarg` is the segment as the hardware would read it."""

    symbol: str
    blocks: int
    threads: int
    shared_bytes: int
    kernarg: bytes
    kernel: CodeObjectResources


@dataclass
class FakeHip:
    """What `from hip import hip` gives.

    Attributes:
        gpus: (name, gcnArchName, wavefront size, compute units) of each.
        refuse: function -> the status it returns instead of working.
        execute: runs a launch over `memory`; None leaves memory as it is.
        memory: allocations, by address.
        calls: functions in the order they were called.
        launches: kernels, likewise.
        assemblies: of each kernel, by its symbol, the text that it was assembled from.
    """

    gpus: tuple = (MI210,)
    refuse: dict[str, Status] = field(default_factory=dict)
    execute: Callable[[FakeHip, Launched], None] | None = None
    memory: dict[int, np.ndarray] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    launches: list[Launched] = field(default_factory=list)
    modules: list[bytes] = field(default_factory=list)
    device: int | None = None
    assemblies: dict[str, str] = field(default_factory=dict)
    hipError_t = Status
    hipMemcpyKind = MemcpyKind
    hipFunction_attribute = FunctionAttribute
    _next: int = 0x7F0000000000

    def __getattribute__(self, name: str):
        found = super().__getattribute__(name)
        if not name.startswith("hip") or isinstance(found, type):
            return found

        def function(*args):
            self.calls.append(name)
            status = self.refuse.get(name)
            return (status, None) if status else found(*args)

        return function

    # ---- devices

    def hipGetDeviceCount(self):
        return (Status.hipSuccess if self.gpus else Status.hipErrorNoDevice), len(self.gpus)

    def hipGetDeviceProperties(self, device):
        name, arch, lanes, units = self.gpus[device]
        return Status.hipSuccess, SimpleNamespace(
            name=name.encode(), gcnArchName=arch, warpSize=lanes, multiProcessorCount=units,  # text and bytes: both exist
        )

    def hipSetDevice(self, device):
        self.device = device
        return (Status.hipSuccess,)

    def hipDriverGetVersion(self):
        return Status.hipSuccess, 70253211

    def hipRuntimeGetVersion(self):
        return Status.hipSuccess, 70253211

    # ---- memory

    def hipMalloc(self, size):
        address = self._next
        self._next += (size // 4096 + 2) * 4096  # never neighbours
        self.memory[address] = np.full(size, 0x5A, np.uint8)
        return Status.hipSuccess, address

    def hipFree(self, address):
        del self.memory[address]
        return (Status.hipSuccess,)

    def view(self, address: int, size: int) -> np.ndarray:
        """Device memory, inside one allocation."""
        for base, content in self.memory.items():
            if base <= address and address + size <= base + content.size:
                return content[address - base : address - base + size]
        raise AssertionError(f"{size} bytes at {address:#x} are not inside one allocation")

    def hipMemset(self, address, value, size):
        self.view(address, size)[:] = value
        return (Status.hipSuccess,)

    def hipMemcpy(self, target, source, size, kind):
        if kind == MemcpyKind.hipMemcpyHostToDevice:
            self.view(target, size)[:] = np.ascontiguousarray(source).reshape(-1).view(np.uint8)[:size]
        else:
            target.reshape(-1).view(np.uint8)[:size] = self.view(source, size)
        return (Status.hipSuccess,)

    # ---- kernels

    def hipModuleLoadData(self, image):
        self.modules.append(image)
        return Status.hipSuccess, len(self.modules) - 1

    def hipModuleGetFunction(self, module, name):
        kernels = read_code_object(self.modules[module])
        found = kernels.get(name.decode())
        return (Status.hipSuccess if found else Status.hipErrorNotFound), (name.decode(), found)

    def hipModuleLaunchKernel(self, function, gx, gy, gz, bx, by, bz, shared_bytes, stream, params, extra):
        symbol, kernel = function
        assert (gy, gz, by, bz) == (1, 1, 1, 1) and stream is None and extra is None
        assert 0 < gx and 0 < bx <= kernel.max_flat_workgroup_size and bx % kernel.wavefront_size == 0
        kernarg = bytearray(kernel.kernarg_bytes)
        values = (ctypes.c_void_p * len(kernel.arguments)).from_address(params)
        for argument, value in zip(kernel.arguments, values, strict=True):
            kernarg[argument.offset : argument.offset + argument.size] = ctypes.string_at(value, argument.size)
        launched = Launched(symbol, gx, bx, shared_bytes, bytes(kernarg), kernel)
        self.launches.append(launched)
        if self.execute:
            self.execute(self, launched)
        return (Status.hipSuccess,)

    def hipFuncGetAttribute(self, attribute, function):
        assert attribute == FunctionAttribute.HIP_FUNC_ATTRIBUTE_NUM_REGS
        return Status.hipSuccess, function[1].registers

    def hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(self, function, threads, shared_bytes):
        return (Status.hipErrorInvalidValue, None) if shared_bytes > 65536 else (Status.hipSuccess, 2048 // threads)

    def hipDeviceSynchronize(self):
        return (Status.hipSuccess,)

    # ---- events: they count what came before them

    def hipEventCreate(self):
        return Status.hipSuccess, {"after": None}

    def hipEventRecord(self, event, stream):
        event["after"] = len(self.launches)
        return (Status.hipSuccess,)

    def hipEventSynchronize(self, event):
        return (Status.hipSuccess,)

    def hipEventElapsedTime(self, start, stop):
        return Status.hipSuccess, 0.5 * (stop["after"] - start["after"])  # ms: half of one a launch

    def hipEventDestroy(self, event):
        event.clear()
        return (Status.hipSuccess,)


def emulating(unit: MatrixUnit) -> Callable[[FakeHip, Launched], None]:
    """`execute` of a GPU with this matrix unit: launches run on the emulator, over what memory holds."""

    @cache
    def decoded(assembly: str) -> AmdEmulator:
        return AmdEmulator(assembly, unit, schedule=TOGETHER, processes=1)

    def execute(fake: FakeHip, launched: Launched) -> None:
        emulator = decoded(fake.assemblies[launched.symbol])
        try:
            buffers = []  # each with the memory that it stands for, from a pointer to the end of its allocation

            def value(argument: Argument) -> Buffer | bytes:
                raw = launched.kernarg[argument.offset : argument.offset + argument.size]
                if argument.kind != "global_buffer":
                    return raw
                address = int.from_bytes(raw, "little")
                [base] = [base for base, content in fake.memory.items() if base <= address < base + content.size]
                content = fake.memory[base][address - base :]
                buffers.append((emulator.upload(content, name=hex(address), offset=address - base), content))
                return buffers[-1][0]

            args = [value(argument) for argument in launched.kernel.arguments]
            emulator.launch(launched.symbol, (launched.blocks, 1, 1), (launched.threads, 1, 1), launched.shared_bytes, args)
            for buffer, content in buffers:
                content[:] = emulator.read(buffer, np.uint8, content.shape)
        finally:
            emulator.forget()

    return execute


def learning(fake: FakeHip) -> Callable[[Binary], hip.HipDevice]:
    """The driver's own way to open a device, from which `fake` learns the assembly of what is loaded."""
    real = hip.open_device

    def open_device(binary: Binary) -> hip.HipDevice:
        fake.assemblies.update(dict.fromkeys(binary.kernels, binary.assembly))
        return real(binary)

    return open_device


def install(monkeypatch, fake: FakeHip) -> FakeHip:
    """`from hip import hip` gives `fake` from now on."""
    package = ModuleType("hip")
    package.hip = fake
    monkeypatch.setitem(sys.modules, "hip", package)
    monkeypatch.setattr(hip, "open_device", learning(fake))
    return fake
