"""NVRTC, NVIDIA's run-time compiler, as a library: CUDA C++ -> PTX and cubin.

It needs no GPU, no driver, no CUDA toolkit and no host compiler; the wheel
`nvidia-cuda-nvrtc` brings it, or a toolkit does.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import hashlib
import importlib.util
import mmap
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gemmgen.cache import Cache
from gemmgen.drivers import driver_version, install
from gemmgen.build.elf import Elf
from gemmgen.errors import BuildError
from gemmgen.files import unfinished

_BUILD_ID = (b"GNU", 3)  # the note's owner and NT_GNU_BUILD_ID
_OLDEST_ARCH = 75  # the first whose matrix units and machine code gemmgen knows
_SINCE = {88: (13, 0), 100: (12, 8), 103: (12, 9), 107: (13, 5), 110: (13, 0), 120: (12, 8), 121: (12, 9)}
"""The CUDA that first compiles for an architecture; those that are not here are older than any NVRTC that is used."""

_int_p = ctypes.POINTER(ctypes.c_int)
_size_p = ctypes.POINTER(ctypes.c_size_t)
_program = ctypes.c_void_p
_strings = ctypes.POINTER(ctypes.c_char_p)
_text = ctypes.c_char_p

_SIGNATURES: dict[str, tuple] = {
    "nvrtcVersion": (_int_p, _int_p),
    "nvrtcGetNumSupportedArchs": (_int_p,),
    "nvrtcGetSupportedArchs": (_int_p,),
    "nvrtcCreateProgram": (
        ctypes.POINTER(_program), _text, _text, ctypes.c_int, _strings, _strings,
    ),
    "nvrtcDestroyProgram": (ctypes.POINTER(_program),),
    "nvrtcCompileProgram": (_program, ctypes.c_int, _strings),
    "nvrtcGetProgramLogSize": (_program, _size_p),
    "nvrtcGetProgramLog": (_program, _text),
    "nvrtcGetPTXSize": (_program, _size_p),
    "nvrtcGetPTX": (_program, _text),
    "nvrtcGetCUBINSize": (_program, _size_p),
    "nvrtcGetCUBIN": (_program, _text),
}  # fmt: skip
_BUNDLED_HEADERS = "nvrtcInstallBundledHeaders"  # since 13.3


@dataclass(frozen=True)
class Output:
    """What one run of the compiler left.

    Attributes:
        ok: whether the source compiled.
        cubin: the machine code; empty where there is none.
        ptx: the PTX; present, too, where only the assembler refused it.
        log: diagnostics, and the assembler's account of resources.
    """

    ok: bool
    cubin: bytes
    ptx: str
    log: str


@dataclass(frozen=True)
class Compiler:
    """A loaded NVRTC. Threads may share it: compiles run in parallel.

    Attributes:
        path: the library's file.
        version: (major, minor) of CUDA.
        archs: every architecture it compiles for, each like `sm_80`.
        identity: names this build of NVRTC, the same wherever it is installed.
    """

    path: Path
    version: tuple[int, int]
    archs: tuple[str, ...]
    identity: str
    _library: ctypes.CDLL = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        return f"NVRTC {self.version[0]}.{self.version[1]}"

    @property
    def bundles_headers(self) -> bool:
        """Whether it brings the CUDA headers, as 13.3 and later do."""
        return hasattr(self._library, _BUNDLED_HEADERS)

    def remedy(self, arch: str) -> str | None:
        """The NVRTC that compiles for an architecture that this one does not know; None where that is not known."""
        found = re.fullmatch(r"sm_(\d+)[af]?", arch)
        since = _SINCE.get(int(found[1])) if found else None
        if since is None or since <= self.version:
            return None
        return "NVRTC {}.{} or later: {}, or set GEMMGEN_NVRTC to such a libnvrtc.so".format(*since, install())

    def run(self, text: str, name: str, options: Sequence[str]) -> Output:
        """Compile `text`, a file called `name`, with exactly these options.

        A source that the compiler refuses is an Output that is not ok.

        Raises:
            BuildError: NVRTC cannot even begin.
        """
        program = _program()
        _check(
            self._library,
            self._library.nvrtcCreateProgram(
                ctypes.byref(program), text.encode(), name.encode(), 0, None, None
            ),
        )
        try:
            encoded = (_text * len(options))(*(option.encode() for option in options))
            status = self._library.nvrtcCompileProgram(program, len(options), encoded)
            log = self._text(program, "ProgramLog").strip()
            return Output(
                ok=not status,
                cubin=self._part(program, "CUBIN"),
                ptx=self._text(program, "PTX"),
                log=log or _message(self._library, status),
            )
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _text(self, program: ctypes.c_void_p, part: str) -> str:
        # Zero bytes stand at the end, and in a log between front end and assembler.
        return self._part(program, part).replace(b"\0", b"").decode(errors="replace")

    def _part(self, program: ctypes.c_void_p, part: str) -> bytes:
        """One result; empty where the compiler did not get that far."""
        size = ctypes.c_size_t()
        if getattr(self._library, f"nvrtcGet{part}Size")(program, ctypes.byref(size)):
            return b""
        buffer = ctypes.create_string_buffer(max(size.value, 1))
        if getattr(self._library, f"nvrtcGet{part}")(program, buffer):
            return b""
        return buffer.raw[: size.value]

    def headers(self, cache: Cache | None) -> Path | None:
        """The folder with this compiler's own CUDA headers, unpacked when first needed.

        It lies in the cache, or, without a usable one, in a temporary folder that
        goes with the process. None for a compiler that brings no headers.

        Raises:
            BuildError: the headers cannot be unpacked anywhere.
        """
        if not self.bundles_headers:
            return None
        headers = cache.own_folder("headers") if cache else None
        if headers is not None:
            digest = hashlib.sha256(self.identity.encode()).hexdigest()[:8]
            folder = headers / "nvrtc-{}.{}-{}".format(*self.version, digest)
            with contextlib.suppress(OSError, BuildError):
                return self._unpack_once(folder)
        return _temporary_headers(self)

    def _unpack_once(self, folder: Path) -> Path:
        # The folder gets its name when it is complete, so its existence means completeness.
        if folder.is_dir():
            return folder
        try:
            with unfinished(folder, folder=True) as beside:
                self.unpack_headers(beside)
                beside.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster
                raise
        return folder

    def unpack_headers(self, folder: Path) -> None:
        """Write the bundled headers (26 MB) below `folder`."""
        install = getattr(self._library, _BUNDLED_HEADERS)
        install.argtypes = (_text, ctypes.c_uint, _strings)
        reason = _text()
        if status := install(os.fsencode(folder), 0, ctypes.byref(reason)):
            detail = (reason.value or b"").decode(errors="replace")
            raise BuildError(
                self.name,
                "could not unpack its CUDA headers",
                got=detail or _message(self._library, status),
                remedy="free some disk space, or point GEMMGEN_CACHE at a writable folder",
            )


def find_compiler() -> Compiler:
    """The NVRTC to use: `$GEMMGEN_NVRTC` (a library's path), else the one of the
    `nvidia-*` wheels, else a toolkit's (`$CUDA_HOME`, `$CUDA_PATH`, /usr/local/cuda).

    Of several, the first whose machine code this machine's driver loads is taken;
    without a driver, the first. The library is loaded once a process.

    Raises:
        BuildError: there is none, or it cannot be loaded.
    """
    asked = os.environ.get("GEMMGEN_NVRTC")
    if asked:
        return _load(Path(asked).expanduser().absolute())
    there = [path for path in _candidates() if path.is_file()]
    newest = driver_version() // 1000
    loaded = [path for path in there if not newest or int(path.name.rpartition(".")[2]) <= newest]
    if there:
        return _load((loaded or there)[0].resolve())
    raise BuildError(
        "NVRTC",
        "was not found; it compiles CUDA kernels, with or without a GPU",
        needs="libnvrtc.so of CUDA 12.4 or later: of the wheels nvidia-cuda-nvrtc and nvidia-cuda-nvrtc-cu12, or of a CUDA toolkit",
        remedy=f"{install()}, or set GEMMGEN_NVRTC to a libnvrtc.so",
    )


def _candidates() -> Iterator[Path]:
    wheels = importlib.util.find_spec("nvidia")
    for folder in (wheels.submodule_search_locations or ()) if wheels else ():
        yield Path(folder, "cu13/lib/libnvrtc.so.13")
        yield Path(folder, "cuda_nvrtc/lib/libnvrtc.so.12")
    for toolkit in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        for library in ("libnvrtc.so.13", "libnvrtc.so.12"):
            if toolkit:
                yield Path(toolkit, "lib64", library)
                yield Path(toolkit, "lib", library)


@functools.cache
def _load(path: Path) -> Compiler:
    try:
        build = _build_id(path)  # first, because it is safe on a file that ends too early
        library = ctypes.CDLL(str(path))
        for function, arguments in _SIGNATURES.items():
            getattr(library, function).argtypes = arguments
        library.nvrtcGetErrorString.restype = _text
    except (OSError, AttributeError, BuildError) as error:
        raise BuildError(
            str(path),
            "cannot be loaded as NVRTC",
            got=error.problem if isinstance(error, BuildError) else str(error),
            remedy=f"{install()}, or set GEMMGEN_NVRTC to a whole libnvrtc.so",
        ) from None
    major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    _check(library, library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    version = (major.value, minor.value)
    _check(library, library.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    numbers = (ctypes.c_int * count.value)()
    _check(library, library.nvrtcGetSupportedArchs(numbers))
    _load_builtins(path, version)
    return Compiler(
        path=path,
        version=version,
        archs=_arch_names([number for number in numbers if number >= _OLDEST_ARCH], version),
        identity="NVRTC {}.{} build {}".format(*version, build),
        _library=library,
    )


def _arch_names(numbers: Sequence[int], version: tuple[int, int]) -> tuple[str, ...]:
    """NVRTC lists plain numbers. Features of one chip need `a` (sm_90 and later),
    those of one family `f` (sm_100 and later, since CUDA 12.9)."""
    names = []
    for number in numbers:
        names.append(f"sm_{number}")
        if number >= 90:
            names.append(f"sm_{number}a")
        if number >= 100 and version >= (12, 9):
            names.append(f"sm_{number}f")
    return tuple(names)


def _build_id(path: Path) -> str:
    """The linker's identifier of a library, or its size where it has none."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            raise BuildError(str(path), "is empty")
        elf = Elf(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), str(path))
    number = next((content for owner, kind, content in elf.notes() if (owner, kind) == _BUILD_ID), None)
    return f"of {size} bytes" if number is None else bytes(number).hex()


def _load_builtins(path: Path, version: tuple[int, int]) -> None:
    """NVRTC opens its built-in functions by bare name, and some wheels leave no trace of
    where they are. Loaded before, they are found. If they are missing, NVRTC says so."""
    builtins = path.with_name("libnvrtc-builtins.so.{}.{}".format(*version))
    with contextlib.suppress(OSError):
        ctypes.CDLL(str(builtins))


@functools.cache
def _temporary_headers(compiler: Compiler) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="gemmgen-headers-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    compiler.unpack_headers(folder)
    return folder


def _message(library: ctypes.CDLL, status: int) -> str:
    return library.nvrtcGetErrorString(status).decode() if status else ""


def _check(library: ctypes.CDLL, status: int) -> None:
    if status:
        raise BuildError("NVRTC", "failed", got=_message(library, status))
