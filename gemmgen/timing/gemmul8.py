"""GEMMul8 (RIKEN-RCCS, MIT licence) as a contender, where its user has it: Ozaki II on INT8 units, one library call a product.

Nothing of it is here. Its C++ templates are reached through a shim of three C functions, which is compiled against the user's header
and library when it is first asked for. The versions differ in whether `workSize` is a template and in the arguments with defaults, so
the shim names neither.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmgen.errors import BuildError, DeviceError, SpecError
from gemmgen.timing.contender import Contender
from gemmgen.timing.inputs import Inputs

NAME, HEADER = "gemmul8", "gemmul8.hpp"
LIBRARIES = ("libgemmul8.so", "libgemmul8.a")
PLACES = ("", "GEMMul8")  # of include and lib within a checkout: its first versions keep them one folder deeper
LEAST_MODULI, MOST_MODULI, USUAL_MODULI = 2, 20, 8
COMPILERS = (("nvcc", "-O2", "-std=c++20", "-Xcompiler", "-fPIC", "-lcublas", "-lcublasLt"), ("c++", "-O2", "-std=c++20", "-fPIC"))
"""Tried in this order, the first that is there: its headers declare the products for nvcc alone."""
WORK_SIZES = ("gemmul8::workSize<false>", "gemmul8::workSize")
"""As a template and as a plain function."""

SHIM = r"""
#include <gemmul8.hpp>
#include <cstddef>

/* Row-major C = A B is column-major C^T = B^T A^T. A status of 1000 is an exception. */
extern "C" int gemmgen_open(void **handle) { return static_cast<int>(cublasCreate(reinterpret_cast<cublasHandle_t *>(handle))); }
extern "C" int gemmgen_bytes(size_t m, size_t n, size_t k, int moduli, size_t *bytes) {
    try { *bytes = GEMMGEN_WORK_SIZE(n, m, k, moduli); return 0; } catch (...) { return 1000; }
}
extern "C" int gemmgen_multiply(
    void *handle, size_t m, size_t n, size_t k, const GEMMGEN_NUMBER *a, const GEMMGEN_NUMBER *b, GEMMGEN_NUMBER *c, int moduli, int fast, void *work) {
    const GEMMGEN_NUMBER one = 1, zero = 0;
    try {
        gemmul8::gemm<GEMMGEN_NUMBER>(
            static_cast<cublasHandle_t>(handle), CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, b, n, a, k, &zero, c, n, moduli, fast != 0, work);
        return 0;
    } catch (...) { return 1000; }
}
"""
SIGNATURE = (
    "gemmul8::gemm<float>(cublasHandle_t, op, op, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc, num_moduli, fastmode, work) and "
    "gemmul8::workSize(m, n, k, num_moduli)"
)
_HAVE_IT = "git clone https://github.com/RIKEN-RCCS/GEMMul8, make there, and give that folder"


@dataclass(frozen=True)
class Gemmul8:
    """What `--rival gemmul8=PATH` asks for.

    Attributes:
        path: a checkout that was built, a prefix with include and lib, or the library itself.
        moduli: how many, at least 2.
        fast: whether operands are scaled by norms of rows, without the product that its accurate mode first makes.
    """

    path: Path
    moduli: int = USUAL_MODULI
    fast: bool = True

    @property
    def name(self) -> str:
        """As the table says it: `gemmul8-8`, or `gemmul8-8-accurate`."""
        return f"{NAME}-{self.moduli}{'' if self.fast else '-accurate'}"

    @property
    def where(self) -> str:
        return f"--rival {NAME}={self.path}"


def asked(text: str) -> Gemmul8:
    """`gemmul8=PATH,moduli=8,fast` as what it asks for; the path has no comma.

    Raises:
        SpecError: it is something else.
    """
    form = f"{NAME}=PATH, and behind it ,moduli=N ({LEAST_MODULI} to {MOST_MODULI}) and ,fast or ,accurate"
    name, equals, rest = text.partition("=")
    path, *options = rest.split(",")
    if name != NAME or not equals or not path:
        raise SpecError("--rival", "names no library that is known", got=text, needs=form,
                        remedy=f"--rival {NAME}=/opt/GEMMul8; rivals that need no library: --against")
    moduli, fast = USUAL_MODULI, True
    for option in options:
        key, _, value = option.partition("=")
        if option in ("fast", "accurate"):
            fast = option == "fast"
        elif key == "moduli" and value.isascii() and value.isdigit() and len(value) < 4 and LEAST_MODULI <= int(value) <= MOST_MODULI:
            moduli = int(value)
        else:
            raise SpecError(f"--rival {NAME}={path}", "cannot be read", got=option, needs=form,
                            remedy=f"--rival {NAME}={path},moduli={USUAL_MODULI},fast")
    return Gemmul8(Path(path), moduli, fast)


# ---- its files


def files(path: Path, where: str) -> tuple[Path, Path]:
    """(folder of its header, its library).

    Raises:
        SpecError: there is no such path, or one of them is not there.
    """
    if not path.exists():
        raise SpecError(where, "is no path", got=str(path), needs="GEMMul8's folder, or its library", remedy=_HAVE_IT)
    if path.is_file():
        roots, libraries = (path.parent, path.parent.parent), [path]
    else:
        roots = tuple(path / place for place in PLACES)
        libraries = [root / folder / name for root in roots for folder in ("lib", "lib64", "") for name in LIBRARIES]
    headers = [root / folder for root in roots for folder in ("include", "")]
    header = next((folder for folder in headers if (folder / HEADER).is_file()), None)
    library = next((file for file in libraries if file.is_file()), None)
    for found, what, tried in ((header, f"header {HEADER}", headers), (library, f"library {' or '.join(LIBRARIES)}", [one.parent for one in libraries])):
        if found is None:
            raise SpecError(where, f"has no {what}", got=str(path), needs="one of " + ", ".join(dict.fromkeys(map(str, tried))), remedy=_HAVE_IT)
    return header.resolve(), library.resolve()


# ---- the shim


class Shim:
    """The library's product of FP32 or FP64, as three C functions.

    Args:
        path: as of `Gemmul8`.
        where: named by messages.
        compilers: (program, its options) to try.
        number: the C type of the elements, `float` or `double`.

    Raises:
        SpecError: the library's files are not there.
        BuildError: no compiler is here, or none compiles the shim: a version of another signature; or what comes of it does not load.
    """

    def __init__(self, path: Path, where: str, compilers: Sequence[Sequence[str]] = COMPILERS, number: str = "float"):
        header, library = files(path, where)
        self._c = _loaded(header, library, where, compilers, number)
        pointer, extent, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        self._c.gemmgen_open.argtypes = [ctypes.POINTER(pointer)]
        self._c.gemmgen_bytes.argtypes = [extent, extent, extent, number, ctypes.POINTER(extent)]
        self._c.gemmgen_multiply.argtypes = [pointer, extent, extent, extent, pointer, pointer, pointer, number, number, pointer]
        self._where, self._handle = where, pointer()
        self._served("cublasCreate", self._c.gemmgen_open(ctypes.byref(self._handle)))

    def _served(self, call: str, status: int) -> None:
        if status:
            raise DeviceError(self._where, f"{call} failed", got="a C++ exception" if status == 1000 else f"cublasStatus {status}",
                              remedy="other moduli or sizes, or leave it out")

    def work_bytes(self, size: tuple[int, int, int], moduli: int) -> int:
        """Of the workspace of a product of (m, n, k)."""
        found = ctypes.c_size_t()
        self._served("workSize", self._c.gemmgen_bytes(*size, moduli, ctypes.byref(found)))
        return found.value

    def multiply(self, size: tuple[int, int, int], a: int, b: int, c: int, moduli: int, fast: bool, work: int) -> None:
        """Put C [M, N] = A [M, K] B [K, N] on the library's stream, the default one; row major, of the shim's type.

        Args:
            a, b, c, work: addresses of the library's kind of memory.
        """
        self._served("gemm", self._c.gemmgen_multiply(self._handle, *size, a, b, c, moduli, int(fast), work))


def _loaded(header: Path, library: Path, where: str, compilers: Sequence[Sequence[str]], number: str) -> ctypes.CDLL:
    """The shim, compiled into a folder that is gone again when this returns."""
    here = [(shutil.which(name), options) for name, *options in compilers if shutil.which(name)]
    if not here:
        names = ", ".join(name for name, *_ in compilers)
        raise BuildError(where, "is reached through a shim, and no compiler for it is here", got=f"{names}: none on the PATH",
                         needs="the CUDA toolkit's nvcc", remedy="put nvcc on the PATH")
    program, options = here[0]
    compiles = [option for option in options if not option.startswith("-l")]
    refusals: list[str] = []
    with tempfile.TemporaryDirectory(prefix="gemmgen-") as folder:
        source, binary = Path(folder) / "shim.cu", Path(folder) / "shim.so"
        source.write_text(SHIM)
        language = [] if Path(str(program)).name == "nvcc" else ["-x", "c++"]
        runtime = ["-Xlinker", f"-rpath={library.parent}"] if library.suffix != ".a" else []
        for work_size in WORK_SIZES:
            command = [str(program), *compiles, f"-DGEMMGEN_WORK_SIZE={work_size}", f"-DGEMMGEN_NUMBER={number}", f"-I{header}", "-shared", "-o", str(binary)]
            command += [*language, str(source)]
            if language:
                command += ["-x", "none"]
            command += [str(library), *(option for option in options if option not in compiles), *runtime]
            try:
                done = subprocess.run(command, capture_output=True, timeout=600, text=True, errors="replace")
            except (OSError, subprocess.SubprocessError) as error:
                raise BuildError(where, f"{program} does not run", got=str(error), needs="a compiler of C++20",
                                 remedy="another nvcc first on the PATH") from None
            if not done.returncode:
                break
            refusals.append(done.stderr)
        else:
            told = min(refusals, key=lambda text: source.name in text)  # what the linker refuses, where either way compiles
            errors = [line for line in told.splitlines() if "error" in line or "undefined" in line or "cannot find" in line]
            remedy = "nvcc on the PATH: its header may be for that alone" if language else "a version of GEMMul8 with these, built with this toolkit"
            raise BuildError(where, f"is no GEMMul8 that {Path(str(program)).name} can call", got="; ".join(errors[:3]) or told[-300:],
                             needs=SIGNATURE, has=str(header / HEADER), remedy=remedy)
        try:
            return ctypes.CDLL(str(binary))
        except OSError as error:
            raise BuildError(where, "does not load", got=str(error), needs=f"{library.name} and what it was linked with",
                             remedy="LD_LIBRARY_PATH with the CUDA toolkit's lib64") from None


# ---- the contender


def contender(rival: Gemmul8, shim: Shim, inputs: Inputs) -> Contender:
    """Its product, on a workspace that is allocated here.

    Raises:
        DeviceError: it refuses the size.
    """
    import cupy

    work = cupy.empty(max(shim.work_bytes(inputs.size, rival.moduli), 1), cupy.uint8)

    def at(array: Any) -> int:
        return array.data.ptr

    def enqueue(index: int) -> None:
        which = index % inputs.sets
        shim.multiply(inputs.size, at(inputs.a[which]), at(inputs.b[which]), at(inputs.c[which]), rival.moduli, rival.fast, at(work))

    mode = "fast" if rival.fast else "accurate"
    return Contender(rival.name, enqueue, outputs=inputs.c, detail=f"{rival.moduli} moduli, {mode}", capturable=False)
