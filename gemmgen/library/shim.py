"""The preload library: unmodified programs' FP32 GEMMs, taken from the vendor's BLAS.

A C99 library that defines the vendor's GEMM functions and is loaded before the vendor's own (`LD_PRELOAD`), and an audit library
(`LD_AUDIT`) for programs that look these functions up by hand. Both are text here: nothing of CUDA or HIP is needed to build them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gemmgen.catalog.vendor import VENDORS
from gemmgen.errors import GemmgenError
from gemmgen.files import read
from gemmgen.render import render_text

FOLDER = "shim"
"""Of a library's folder, where its sources lie."""
RECIPE = f"{FOLDER}/shim.json"
"""What it is built from."""
MOST_RECIPE = 1 << 16
FLAGS = ("-std=gnu99", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra")
"""Of both: the dynamic linker's functions are GNU's."""
PRELOAD_FLAGS = ("-Wl,--hash-style=both", "-Wl,-rpath,$ORIGIN", "-Wl,-z,defs")
"""The audit library reads the table of DT_HASH."""
AUDIT_FLAGS = ("-ffreestanding", "-fno-stack-protector", "-fno-tree-loop-distribute-patterns", "-nostdlib")
"""It has no C library in its namespace."""

REASONS = {
    "HANDLE": "the handle is not one",
    "TYPES": "an operand or the result is not FP32",
    "COMPUTE": "the compute type is not FP32",
    "MATH_MODE": "the math mode asks for something else",
    "ALGORITHM": "an algorithm is asked for",
    "OPERATION": "an operation is neither n, t nor c",
    "POINTER_MODE": "alpha and beta are vectors",
    "POINTERS": "a batch of pointers on the device",
    "DESCRIPTOR": "a descriptor cannot be read",
    "SIZES": "descriptors disagree",
    "LAYOUT": "a matrix is in neither row nor column order",
    "LAYOUT_ATTRIBUTE": "a matrix has an attribute that is not known",
    "ATTRIBUTE": "an attribute is not known",
    "EPILOGUE": "an epilogue that is not known",
    "BIAS": "a bias of another kind",
    "OTHER_C": "C is read and is not D",
    "NO_SCALARS": "alpha or beta is missing",
    "EMPTY": "there is nothing to multiply",
    "NO_CONTEXT": "no device is current",
    "OTHER_DEVICE": "the stream is of another device",
    "LEVEL": "the file of levels says so",
    "FALLBACK": "no kernel made for this device serves it",
    "UNPREDICTED": "no time is known for this device",
    "SLOWER": "the vendor's is predicted to be faster",
    "REFUSED": "the library refuses it",
    "CAPTURE": "the stream's capture cannot go on",
    "NO_MEMORY": "there is no memory for a workspace",
}
"""Why a call is passed on, in the log's words."""


class Library(Protocol):
    """What is read of a library of kernels here: its name in C, the name of its macros, and whose GPUs it is for."""

    name: str
    guard: str
    vendor: str


@dataclass(frozen=True)
class Function:
    """One of the vendor's: its name, and the stem of the library that has it."""

    name: str
    library: str


@dataclass(frozen=True)
class Interface:
    """A vendor's BLAS.

    Attributes:
        name: of the preload library after the library's own name, and what LIB.toml calls it.
        sources: C files of it, beside core.c.
        forms: (macro of these files, name of a function of that form), each with a `_64` beside it.
        defined: functions that the preload library defines; needed: others that it calls.
        versions: numbers of the vendor's libraries, the first to be tried first.
        driver: of the driver's library, its names, whether a context is a pointer, and (field of core.c, function, whether it may be missing).
    """

    name: str
    sources: tuple[str, ...]
    forms: tuple[tuple[str, str], ...]
    defined: tuple[Function, ...]
    needed: tuple[Function, ...]
    versions: tuple[str, ...]
    driver: Mapping[str, Any]

    @property
    def libraries(self) -> tuple[str, ...]:
        """Stems of the vendor's libraries."""
        return tuple(dict.fromkeys(one.library for one in self.defined))


def _functions(library: str, *names: str) -> tuple[Function, ...]:
    return tuple(Function(name, library) for name in names)


_CUBLAS = (("SGEMM", "cublasSgemm_v2"), ("STRIDED", "cublasSgemmStridedBatched"), ("BATCHED", "cublasSgemmBatched"), ("SGEMM_EX", "cublasSgemmEx"),
           ("GEMM_EX", "cublasGemmEx"), ("STRIDED_EX", "cublasGemmStridedBatchedEx"), ("BATCHED_EX", "cublasGemmBatchedEx"))

INTERFACES: dict[str, Interface] = {row.name: row for row in (
    Interface(
        name="cublas", forms=_CUBLAS, sources=("cublas.c", "cublaslt.c"),
        defined=(*_functions("libcublas", *(f"{name}{suffix}" for _, name in _CUBLAS for suffix in ("", "_64")), "cublasDestroy_v2"),
                 *_functions("libcublasLt", "cublasLtMatmul", "cublasLtDestroy")),
        needed=(*_functions("libcublas", "cublasGetStream_v2", "cublasGetPointerMode_v2", "cublasGetMathMode"),
                *_functions("libcublasLt", "cublasLtMatmulDescGetAttribute", "cublasLtMatrixLayoutGetAttribute", "cublasLtMatmulDescCreate",
                            "cublasLtMatmulDescDestroy", "cublasLtMatrixLayoutCreate", "cublasLtMatrixLayoutDestroy")),
        versions=("13", "12", "11"),
        driver={
            "sonames": ("libcuda.so.1", "libcuda.so"), "context_is_pointer": 1,
            "functions": (
                ("take", "cuMemAlloc_v2", 0), ("give", "cuMemFree_v2", 0), ("wait", "cuStreamSynchronize", 0), ("wait_for_all", "cuCtxSynchronize", 0),
                ("context", "cuCtxGetCurrent", 0), ("context_of", "cuStreamGetCtx", 0), ("capture", "cuStreamGetCaptureInfo_v2", 0),
                ("exchange_mode", "cuThreadExchangeStreamCaptureMode", 0), ("object", "cuUserObjectCreate", 0),
                ("retain", "cuGraphRetainUserObject", 0), ("stream_id", "cuStreamGetId", 1),
            ),
        },
    ),
)}
"""Those that there is a preload library for."""

FOR_VENDOR = {"nvidia": "cublas"}
"""The interface of a library for a vendor's GPUs."""


def interface_of(library: Library) -> Interface:
    """The vendor's BLAS that programs for this library's GPUs call."""
    return INTERFACES[FOR_VENDOR[VENDORS[library.vendor].name]]


def _strings(words: tuple[str, ...]) -> str:
    return ", ".join(f'"{word}"' for word in words)


def preload_name(name: str, interface: Interface) -> str:
    """`liblab_cublas.so`."""
    return f"lib{name}_{interface.name}.so"


def audit_name(name: str) -> str:
    """`liblab_audit.so`."""
    return f"lib{name}_audit.so"


def files(library: Library) -> dict[str, bytes]:
    """The preload library's and the audit library's sources, by path inside the library's folder, and what they are built from."""
    interface = interface_of(library)
    values = {
        "name": library.name, "guard": library.guard, "interface": interface, "reasons": REASONS, "versions": _strings(interface.versions),
        "libraries": _strings(tuple(f"{one}.so" for one in interface.libraries)), "shim": preload_name(library.name, interface),
        "driver": {**interface.driver, "sonames": _strings(interface.driver["sonames"])},
    }
    texts = {file: render_text(f"library/shim/{file}.j2", **values) for file in ("core.h", "core.c", *interface.sources, "audit.c")}
    recipe = {
        "name": library.name, "guard": library.guard, "interface": interface.name,
        "preload": {"file": preload_name(library.name, interface), "sources": ["core.c", *interface.sources], "flags": [*FLAGS, *PRELOAD_FLAGS]},
        "audit": {"file": audit_name(library.name), "sources": ["audit.c"], "flags": [*FLAGS, *AUDIT_FLAGS]},
    }
    return {RECIPE: f"{json.dumps(recipe, indent=2)}\n".encode(), **{f"{FOLDER}/{file}": text.encode() for file, text in texts.items()}}


@dataclass(frozen=True)
class Built:
    """A library's folder whose shim is built: its name, the prefix of its environment variables, and paths of the three libraries."""

    name: str
    guard: str
    kernels: Path
    preload: Path
    audit: Path


def recipe_of(folder: Path) -> dict[str, Any]:
    """What a library's folder says of its shim.

    Raises:
        GemmgenError: it is no such folder, or has no shim.
    """
    try:
        recipe = json.loads(read(folder / RECIPE, MOST_RECIPE))
        for part in ("preload", "audit"):
            if not all(isinstance(one, str) for one in (recipe["name"], recipe["guard"], recipe[part]["file"], *recipe[part]["sources"])):
                raise TypeError(part)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise GemmgenError(str(folder), "is no library with a preload library", needs=f"a folder with {RECIPE}",
                           remedy='gemmgen library LIB.toml -o DIR, with shim = ["cublas"] in LIB.toml') from None
    return recipe


def kernels_of(folder: Path, name: str) -> Path | None:
    """The library of kernels, where it has been built: in the folder, or where CMake puts it."""
    return next((path for path in (folder / f"lib{name}.so", folder / "build" / f"lib{name}.so") if path.exists()), None)


def build(folder: Path, *, compiler: str = "gcc") -> Built:
    """Build what is not built yet: the kernels' library by CMake, the preload and the audit library beside it by the C compiler.

    Raises:
        GemmgenError: the folder has no shim, or a tool is missing or fails.
    """
    folder = folder.resolve()
    recipe = recipe_of(folder)
    name = recipe["name"]
    if kernels_of(folder, name) is None:
        _run(["cmake", "-S", str(folder), "-B", str(folder / "build"), "-DBUILD_SHARED_LIBS=ON"], folder)
        _run(["cmake", "--build", str(folder / "build")], folder)
    kernels = kernels_of(folder, name)
    if kernels is None:
        raise GemmgenError(str(folder), f"has no lib{name}.so after CMake built it", remedy=f"build it by hand, into {folder}/build")
    made = {}
    for part in ("preload", "audit"):
        made[part] = kernels.parent / recipe[part]["file"]
        sources = [folder / FOLDER / source for source in recipe[part]["sources"]]
        inputs = [*sources, folder / FOLDER / "core.h", *([kernels] if part == "preload" else [])]
        if made[part].exists() and all(made[part].stat().st_mtime >= path.stat().st_mtime for path in inputs):
            continue
        linked = [f"-I{folder}", f"-I{folder / 'include'}", f"-I{folder / FOLDER}", f"-L{kernels.parent}", f"-l{name}", "-ldl", "-lpthread"]
        # Into place at once: another process may be doing the same.
        unfinished = made[part].with_suffix(".unfinished")
        _run([compiler, *recipe[part]["flags"], *map(str, sources), *(linked if part == "preload" else []), "-o", str(unfinished),
              f"-Wl,-soname,{made[part].name}"], folder)
        unfinished.replace(made[part])
    return Built(name, recipe["guard"], kernels, made["preload"], made["audit"])


def _run(command: list[str], folder: Path) -> None:
    if not shutil.which(command[0]):
        raise GemmgenError(command[0], "is not installed", needs=f"it to build {folder}", remedy=f"install {command[0]}")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GemmgenError(" ".join(command[:3]), f"fails in {folder}", got=(done.stderr or done.stdout).strip()[-2000:] or None)
