"""A stand-in for ROCm itself: a libamdhip64.so whose functions lead to a FakeHip, so that the real hip-python runs.

    LD_LIBRARY_PATH=folder python fake_rocm.py verify SPEC --device hip

is `gemmgen verify ...` on a machine with an MI210 that the emulator stands in for; `make_library(folder)` comes first.
"""

from __future__ import annotations

import ctypes
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
from fake_hip import APU, MI210, FakeHip, MemcpyKind, Status, emulating, learning
from programs import run

from gemmgen.build import find_clang
from gemmgen.catalog.gpu import GPUS
from gemmgen.cli import main
from gemmgen.run import hip

LIBRARY = "libamdhip64.so"
_TYPES = {"p": ("void*", ctypes.c_void_p), "z": ("unsigned long", ctypes.c_size_t), "i": ("int", ctypes.c_int)}
SIGNATURES = {
    "hipGetDeviceCount": "p", "hipGetDevicePropertiesR0600": "pi", "hipSetDevice": "i",
    "hipDriverGetVersion": "p", "hipRuntimeGetVersion": "p",
    "hipMalloc": "pz", "hipFree": "p", "hipMemset": "piz", "hipMemcpy": "ppzi",
    "hipModuleLoadData": "pp", "hipModuleGetFunction": "ppp", "hipModuleLaunchKernel": "piiiiiiippp",
    "hipEventCreate": "p", "hipEventRecord": "pp", "hipEventSynchronize": "p", "hipEventElapsedTime": "ppp", "hipEventDestroy": "p",
}
"""As hip/hip_runtime_api.h has them: p a pointer, z a size, i 32 bits."""
_NAME, _WARP_SIZE, _UNITS, _ARCH = 0, 308, 388, 1160
"""Bytes from the start of a hipDeviceProp_tR0600 to name, warpSize, multiProcessorCount and gcnArchName."""


def make_library(folder: Path) -> None:
    """Write the library; each of its functions calls what `lead` puts in its slot."""
    lines = []
    for name, signature in SIGNATURES.items():
        types = ", ".join(_TYPES[code][0] for code in signature)
        params = ", ".join(f"{_TYPES[code][0]} x{i}" for i, code in enumerate(signature))
        values = ", ".join(f"x{i}" for i in range(len(signature)))
        lines.append(f"int (*to_{name})({types});\nint {name}({params}) {{ return to_{name}({values}); }}\n")
    (folder / "rocm.c").write_text("".join(lines))
    clang = find_clang()
    run(*clang.driver, "-ffreestanding", "-nostdinc", "-fPIC", "-O1", "-c", "rocm.c", "-o", "rocm.o", cwd=folder)
    run(*clang.linker, "-shared", "-soname", LIBRARY, "rocm.o", "-o", LIBRARY, cwd=folder)


class _Rocm:
    """FakeHip with C's conventions: results through pointers, handles in place of objects."""

    def __init__(self, fake: FakeHip):
        self.fake = fake
        self._handles: list[Any] = [None]  # none is NULL

    def _new(self, value: Any) -> int:
        self._handles.append(value)
        return len(self._handles) - 1

    def _out(self, kind: Any, pointer: int, answer: tuple) -> int:
        status, value = answer
        if status == Status.hipSuccess:
            kind.from_address(pointer).value = value
        return status

    def hipGetDeviceCount(self, count):
        return self._out(ctypes.c_int, count, self.fake.hipGetDeviceCount())

    def hipDriverGetVersion(self, version):
        return self._out(ctypes.c_int, version, self.fake.hipDriverGetVersion())

    def hipRuntimeGetVersion(self, version):
        return self._out(ctypes.c_int, version, self.fake.hipRuntimeGetVersion())

    def hipGetDevicePropertiesR0600(self, properties, device):
        status, told = self.fake.hipGetDeviceProperties(device)
        for at, value in ((_NAME, told.name), (_ARCH, told.gcnArchName.encode())):
            ctypes.memmove(properties + at, value + b"\0", len(value) + 1)
        for at, value in ((_WARP_SIZE, told.warpSize), (_UNITS, told.multiProcessorCount)):
            ctypes.c_int.from_address(properties + at).value = value
        return status

    def hipSetDevice(self, device):
        return self.fake.hipSetDevice(device)[0]

    def hipMalloc(self, pointer, size):
        return self._out(ctypes.c_void_p, pointer, self.fake.hipMalloc(size))

    def hipFree(self, address):
        return self.fake.hipFree(address)[0]

    def hipMemset(self, address, value, size):
        return self.fake.hipMemset(address, value, size)[0]

    def hipMemcpy(self, target, source, size, kind):
        host = target if kind == MemcpyKind.hipMemcpyDeviceToHost else source
        array = np.frombuffer((ctypes.c_ubyte * size).from_address(host), np.uint8)
        operands = (array, source) if host is target else (target, array)
        return self.fake.hipMemcpy(*operands, size, kind)[0]

    def hipModuleLoadData(self, module, image):
        header = ctypes.string_at(image, 64)  # of an ELF file, whose section headers come last
        sections, each, count = (int.from_bytes(header[at : at + size], "little") for at, size in ((40, 8), (58, 2), (60, 2)))
        status, value = self.fake.hipModuleLoadData(ctypes.string_at(image, sections + each * count))
        return self._out(ctypes.c_void_p, module, (status, self._new(value)))

    def hipModuleGetFunction(self, function, module, name):
        status, value = self.fake.hipModuleGetFunction(self._handles[module], ctypes.string_at(name))
        return self._out(ctypes.c_void_p, function, (status, self._new(value)))

    def hipModuleLaunchKernel(self, function, *rest):
        return self.fake.hipModuleLaunchKernel(self._handles[function], *rest)[0]

    def hipEventCreate(self, event):
        status, value = self.fake.hipEventCreate()
        return self._out(ctypes.c_void_p, event, (status, self._new(value)))

    def hipEventRecord(self, event, stream):
        return self.fake.hipEventRecord(self._handles[event], stream)[0]

    def hipEventSynchronize(self, event):
        return self.fake.hipEventSynchronize(self._handles[event])[0]

    def hipEventElapsedTime(self, milliseconds, start, stop):
        return self._out(ctypes.c_float, milliseconds, self.fake.hipEventElapsedTime(self._handles[start], self._handles[stop]))

    def hipEventDestroy(self, event):
        return self.fake.hipEventDestroy(self._handles[event])[0]


def lead(fake: FakeHip) -> list[Any]:
    """Have the library's functions call `fake`; what is returned keeps them alive."""
    library, rocm, kept = ctypes.CDLL(LIBRARY), _Rocm(fake), []

    def guarded(function):
        def call(*args) -> int:
            try:
                return int(function(*args))
            except BaseException:  # nothing may leave a callback
                traceback.print_exc()
                return Status.hipErrorLaunchFailure

        return call

    for name, signature in SIGNATURES.items():
        kept.append(ctypes.CFUNCTYPE(ctypes.c_int, *(_TYPES[code][1] for code in signature))(guarded(getattr(rocm, name))))
        ctypes.c_void_p.in_dll(library, f"to_{name}").value = ctypes.cast(kept[-1], ctypes.c_void_p).value
    return kept


if __name__ == "__main__":
    gpu = FakeHip(gpus=(APU, MI210), execute=emulating(GPUS.get("mi210").unit))
    callbacks = lead(gpu)
    hip.open_device = learning(gpu)
    code = main(sys.argv[1:])
    assert not gpu.memory, "memory was not given back"
    print("calls", *sorted(set(gpu.calls)), file=sys.stderr)
    sys.exit(code)
