"""Libraries of kernels on a stand-in for the driver: compiled by gcc, launched into the emulator.

Device memory is the host's. Each launch uploads the memory that its pointers lie in, runs the kernel, and brings the memory back.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import unittest.mock
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from gemmgen.catalog.element import ELEMENTS, Element
from gemmgen.emulate import TOGETHER
from gemmgen.library import kernel as kernel_module
from gemmgen.library import tables
from gemmgen.library.interface import ABI
from gemmgen.library.kernel import FINISH, Image, Kernel, finish_source, finish_symbol, images
from gemmgen.render import render_text
from gemmgen.run.emulator import EmulatorDevice
from assembled import assembled

GCC = shutil.which("gcc")
FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Wshadow", "-Wmissing-prototypes", "-Wstrict-prototypes", "-Werror", "-pedantic", "-fPIC", "-shared", "-fvisibility=hidden")
LARGEST_EXTENT = 2**31 - 1 - 4096
FINISH_KINDS = ("pointer", "long long", "long long", "pointer", "long long", "long long", "pointer", "pointer", "float", "pointer", "int", "int", "int", "int")
FINISHES = {finish_symbol(one): one for one in ELEMENTS.values()}
POISON = 0xFF
NAME, GUARD = "lab", "LAB"


def finish_kinds(element: Element) -> list[str]:
    """The parameters of a kernel of epilogues: only FP32's has an activation, and complex numbers have beta's imaginary part in its place."""
    kinds = [element.c_type if one == "float" else one for one in FINISH_KINDS[:-1]]
    return [*kinds, *(["int"] if element.is_usual else [element.c_type] if element.reals > 1 else [])]


def written(folder: Path, kernels: Sequence[Kernel], *, platform: str, finish: Sequence, rules: Sequence = (), extra: str = "") -> list[str]:
    """The library's files in a folder, and what is to be compiled of them.

    Args:
        extra: a preprocessor line for the top of the runtime.
    """
    names = {"name": NAME, "guard": GUARD}
    header = render_text("library/header.h.j2", **names, abi=ABI, version_number=10203, largest_extent=LARGEST_EXTENT, alignment=256, least_driver=12000,
                         least_driver_told="12.0", reproducible=False)
    rows = tables.rows(kernels, name=NAME, finish=finish, rules=rules)
    runtime = render_text("library/runtime.c.j2", **names, platform=f"library/platform/{platform}.j2")
    (folder / f"{NAME}.h").write_text(header)
    (folder / "tables.h").write_text(render_text("library/tables.h.j2", **names, rows=rows))
    (folder / "runtime.c").write_text(extra + runtime)
    lines = [".section .rodata"]
    for image in (*(image for kernel in kernels for image in images(kernel)), *finish):
        (folder / image.file).write_bytes(image.content)
        symbol = f"{NAME}_code_{image.stem}"
        lines += [f".globl {symbol}", f".hidden {symbol}", ".balign 64", f"{symbol}:", f'.incbin "{image.file}"']
    (folder / "code.S").write_text("\n".join([*lines, '.section .note.GNU-stack,"",@progbits', ""]))
    return ["runtime.c", "code.S"]


class Library:
    """A library of kernels and its stand-in driver, loaded into this process.

    Args:
        folder: where to build it.
        archs: of the kernel of epilogues.
        emulates: whether launches run; else they are counted.
        optimised: gcc's option; it warns of more with -O2.

    Attributes:
        c: the library's functions.
        driver: what tests set and read of the stand-in.
    """

    def __init__(self, folder: Path, kernels: Sequence[Kernel], *, archs: Sequence[str], platform: str = "cuda",
                 rules: Sequence = (), emulates: bool = True, arch: str | None = None, optimised: str = "-O0"):
        driver = folder / "libdriver.so"
        hip = ["-DHIP"] if platform == "hip" else []
        source = Path(__file__).parent / "standin_driver.c"
        flags = ["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-O0", "-Wall", "-Werror", *hip, "-fPIC", "-shared"]
        subprocess.run([GCC, *flags, str(source), "-o", str(driver)], check=True)
        extra = f'#define {GUARD}_DRIVER_FILES "{driver}"\n'
        # What never runs on a GPU needs no machine code: what launches run is the assembly.
        finish = [Image(f"{FINISH}_{one}", one, ".bin", b"\0") for one in archs]
        with unittest.mock.patch.object(kernel_module, "without_line_info", lambda source, binary: binary):
            files = written(folder, kernels, platform=platform, finish=finish, rules=rules, extra=extra)
        subprocess.run([GCC, *FLAGS, optimised, *files, "-o", "lib.so", "-ldl", "-lpthread"], check=True, cwd=folder)
        self.kernels, self.folder = kernels, folder
        self.driver = ctypes.CDLL(str(driver))
        self.c = ctypes.CDLL(str(folder / "lib.so"))
        for name in ("error_string", "kernel_name"):
            getattr(self.c, f"{NAME}_{name}").restype = ctypes.c_char_p
        if arch is not None:
            self.current(arch)
        self._memory: dict[int, np.ndarray] = {}
        self._lists: set[int] = set()
        self._devices: dict[str, EmulatorDevice] = {}
        self._archs = archs
        self.launched: list[tuple[str, int]] = []
        self.errors: list[BaseException] = []
        kind = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint, ctypes.c_uint, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p,
            ctypes.POINTER(ctypes.c_void_p))
        self._callback = kind(self._on_launch)  # kept as long as the driver may call it
        if emulates:
            ctypes.c_void_p.in_dll(self.driver, "standin_on_launch").value = ctypes.cast(self._callback, ctypes.c_void_p).value

    # ---- the stand-in

    def __getitem__(self, name: str) -> int:
        """A counter or setting of the stand-in, an int or a long."""
        return self._place(name).value

    def __setitem__(self, name: str, value: int) -> None:
        self._place(name).value = value

    def _place(self, name: str) -> Any:
        long = name in ("launches", "fills", "taken", "given", "loaded", "asked", "overlapped", "pools", "modules", "retained", "filled_bytes", "taken_bytes", "most_pool")
        return (ctypes.c_long if long else ctypes.c_int).in_dll(self.driver, f"standin_{name}")

    def current(self, arch: str, units: int = 4, device: int = 0) -> None:
        """What the device is that is current."""
        self["current"], self["units"] = device, units
        if arch.startswith("sm_"):
            self["major"], self["minor"] = divmod(int(arch[3:]), 10)
        else:
            (ctypes.c_char * 256).in_dll(self.driver, "standin_arch").value = arch.encode()

    # ---- memory

    def put(self, array: np.ndarray, misalign: int = 0) -> np.ndarray:
        """A copy in memory that kernels may use; 4 bytes behind it are poisoned."""
        place = self.empty(array.nbytes + 4, misalign)
        held = place[: array.nbytes].view(array.dtype).reshape(array.shape)
        held[...] = array
        return held

    def point_to(self, matrices: Sequence[np.ndarray]) -> np.ndarray:
        """An array of pointers to memory of `put` in memory of its own, which kernels read."""
        found = self.put(np.array([one.ctypes.data for one in matrices], np.uint64))
        self._lists.add(found.ctypes.data)
        return found

    def empty(self, nbytes: int, misalign: int = 0) -> np.ndarray:
        """Poisoned bytes at a multiple of 256, and `misalign`."""
        memory = np.full(nbytes + 512, POISON, np.uint8)
        start = -memory.ctypes.data % 256 + misalign
        found = memory[start : start + nbytes]
        self._memory[found.ctypes.data] = found
        return found

    def _holding(self, address: int) -> tuple[int, int]:
        """Where the memory begins that an address lies in, and its bytes: a test's, or what the pool gave."""
        known = [*((base, memory.nbytes) for base, memory in self._memory.items()), *([self._pool] if self._pool else [])]
        for beyond in (0, 1):  # a buffer without bytes may lie at the end
            for base, nbytes in known:
                if base <= address < base + nbytes + beyond:
                    return base, nbytes
        raise ValueError(f"a pointer into nowhere: {address:#x}")

    @property
    def _pool(self) -> tuple[int, int] | None:
        base = ctypes.c_void_p.in_dll(self.driver, "standin_last_taken").value
        return (base, self["taken_bytes"]) if base else None

    # ---- launches

    def _device(self, symbol: str) -> tuple[EmulatorDevice | Any, Sequence[str]]:
        if symbol in FINISHES:
            if FINISH not in self._devices:
                source = finish_source(self._archs[0], list({one.element.name: one.element for one in self.kernels}.values()))
                binary = assembled(source)
                plan = self.kernels[0].built.plan
                package, name = plan.gpu.maker.checked.emulator
                self._devices[FINISH] = getattr(import_module(package), name)(binary.assembly, plan.gpu.unit, source=source.text, source_name=source.file_name, schedule=TOGETHER)
            return self._devices[FINISH], finish_kinds(FINISHES[symbol])
        for kernel in self.kernels:
            for launch in kernel.built.source.launches:
                if launch.symbol == symbol:
                    built = kernel.built
                    if built.source.name not in self._devices:
                        self._devices[built.source.name] = EmulatorDevice(built.plan, built.source, built.binary)
                    return self._devices[built.source.name].emulator, [one.kind for one in launch.parameters]
        raise ValueError(f"no kernel of the library's: {symbol}")

    def _on_launch(self, code, symbol, blocks, threads, shared_bytes, overlaps, stream, parameters) -> int:
        try:
            symbol = symbol.decode()
            self.launched.append((symbol, blocks))
            emulator, kinds = self._device(symbol)
            kind_of = {"pointer": ctypes.c_uint64, "long long": ctypes.c_longlong, "int": ctypes.c_int, "float": ctypes.c_float, "double": ctypes.c_double}
            values = [kind_of[kind].from_address(parameters[i]).value for i, kind in enumerate(kinds)]
            emulator.forget()
            there: dict[int, Any] = {}

            def address(value: int) -> int:
                """In the emulator's memory, where an array of pointers holds such addresses, too."""
                base, nbytes = self._holding(value)
                if base not in there:
                    held = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(base))
                    copy = held.copy()
                    if base in self._lists:
                        pointers = copy[: nbytes // 8 * 8].view(np.uint64)
                        pointers[...] = [one and address(int(one)) for one in pointers]
                    there[base] = emulator.upload(copy, name=f"memory {len(there)}", offset=base % 256), held
                return there[base][0].address + value - base

            args = [address(value) if kind == "pointer" and value else value for kind, value in zip(kinds, values)]
            options = {"overlaps": True} if overlaps else {}
            emulator.launch(symbol, (blocks, 1, 1), (threads, 1, 1), shared_bytes, args, **options)
            for base, (buffer, held) in there.items():
                if base not in self._lists:
                    held[...] = emulator.read(buffer, np.uint8, (held.size,))
            return 0
        except BaseException as error:  # which C would swallow
            self.errors.append(error)
            return 700

    # ---- calls

    def __call__(self, function: str, *args: Any) -> int:
        """A function of the library's; an error in a launch is raised."""
        code = getattr(self.c, f"{NAME}_{function}")(*args)
        if self.errors:
            raise self.errors.pop()
        return code
