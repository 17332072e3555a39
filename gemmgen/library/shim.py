"""The preload library: unmodified programs' products in FP32, FP64 and complex numbers of either, taken from the vendor's BLAS.

A C99 library that defines the vendor's functions of level 3 and is loaded before the vendor's own (`LD_PRELOAD`), and an audit library
(`LD_AUDIT`) for programs that look these functions up by hand. Both are text here: nothing of CUDA or HIP is needed to build them.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from gemmgen.catalog.element import C64, C128, ELEMENTS, F32, F64, Element
from gemmgen.catalog.table import read_toml, shipped
from gemmgen.errors import GemmgenError, SpecError, did_you_mean
from gemmgen.export.manifest import MANIFEST
from gemmgen.files import read, unfinished
from gemmgen.render import render_text

FOLDER = "shim"
"""Of a library's folder, where its sources lie."""
RECIPE = f"{FOLDER}/shim.json"
"""What it is built from."""
MOST_RECIPE = 1 << 16
COMPILE = ("-std=gnu99", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra")
"""Of both: the dynamic linker's functions are GNU's."""
PRELOAD_LINK = ("-Wl,--hash-style=both", "-Wl,-z,defs")
"""The audit library reads the table of DT_HASH."""
AUDIT_COMPILE = ("-ffreestanding", "-fno-stack-protector", "-fno-tree-loop-distribute-patterns")
AUDIT_LINK = ("-nostdlib",)
"""It has no C library in its namespace."""

REASONS = {
    "HANDLE": "the handle is not one",
    "TYPES": "operands and the result are not all of one type that kernels have",
    "COMPUTE": "the compute type is not the operands'",
    "MATH_MODE": "the math mode asks for something else",
    "ALGORITHM": "an algorithm is asked for",
    "OPERATION": "an operation is neither n, t nor c",
    "STANDS": "a side, a triangle or a diagonal is none of its values",
    "VERSION": "the vendor's function has other arguments",
    "POINTER_MODE": "alpha and beta are vectors",
    "DESCRIPTOR": "a descriptor cannot be read",
    "SIZES": "descriptors disagree",
    "LAYOUT": "a matrix is in neither row nor column order",
    "LAYOUT_ATTRIBUTE": "a matrix has an attribute that is not known",
    "ATTRIBUTE": "an attribute is not known",
    "EPILOGUE": "an epilogue that the kernels do not have",
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
    """What is read of a library of kernels here: its name in C, the name of its macros, what unmodified programs are to call it
    through, and whether its C is the same bits on every GPU."""

    @property
    def name(self) -> str: ...

    @property
    def guard(self) -> str: ...

    @property
    def shim(self) -> tuple[str, ...]: ...

    @property
    def reproducible(self) -> bool: ...


@dataclass(frozen=True)
class Function:
    """One of the vendor's: its name, and the stem of the library that has it."""

    name: str
    library: str


@dataclass(frozen=True)
class Form:
    """A function that the preload library defines: the macro of its form, its name, and its elements where they follow from the name."""

    macro: str
    name: str
    element: Element


@dataclass(frozen=True)
class Interface:
    """A vendor's BLAS.

    Attributes:
        name: of the preload library, after the library's own name.
        words: what asks for it in LIB.toml.
        sources: C files of it, beside core.c.
        forms: of each of these files by its stem, its functions, each with a `_64` beside it.
        defined: functions that the preload library defines; needed: others that it calls.
        versions: numbers of the vendor's libraries, the first to be tried first.
        driver: of the driver's library, its names, whether a context is a pointer, and (field of core.c, function, whether it may be missing).
    """

    name: str
    words: tuple[str, ...]
    sources: tuple[str, ...]
    forms: Mapping[str, Sequence[Form]]
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


def _wide(forms: Sequence[Form]) -> tuple[str, ...]:
    return tuple(f"{form.name}{suffix}" for form in forms for suffix in ("", "_64"))


def _forms(*told: tuple[str, str], element: Element = F32) -> tuple[Form, ...]:
    return tuple(Form(*one, element) for one in told)


def _gemms(gemm: str, strided: str, batched: str) -> tuple[Form, ...]:
    """Those of every type of elements, whose letter each name has."""
    return tuple(Form(macro, name.format(element.letter.upper() if "blas_" not in name else element.letter), element)
                 for element in ELEMENTS.values() for macro, name in (("GEMM", gemm), ("STRIDED", strided), ("BATCHED", batched)))


def _systems(batched: str) -> tuple[Form, ...]:
    """Triangular systems of arrays of pointers, of every type of elements."""
    return tuple(Form("TRSM_BATCHED", batched.format(one.letter if "blas_" in batched else one.letter.upper()), one) for one in ELEMENTS.values())


_KINDS = {
    **dict.fromkeys((F32, F64), ("SYRK", "SYR2K", "SYRKX", "SYMM", "TRMM", "TRSM")),
    **dict.fromkeys((C64, C128), ("SYRK", "SYR2K", "SYRKX", "SYMM", "TRMM", "TRSM", "HEMM", "HERK", "HER2K")),
}
"""Of level 3 beside GEMM, by elements."""


def _level3(name: str, **strided: str) -> tuple[Form, ...]:
    """Those of every type of elements: `name` has {letter} and {kind}, and `strided` what strided batches' have in its place."""
    return tuple(
        Form(f"{kind}{suffix}", text.format(letter=element.letter if "blas_" in text else element.letter.upper(), kind=kind.lower()), element)
        for element, kinds in _KINDS.items() for suffix, text in (("", name), *((f"_{one.upper()}", text) for one, text in strided.items())) for kind in kinds
    )


_CUBLAS = (
    *_gemms("cublas{}gemm_v2", "cublas{}gemmStridedBatched", "cublas{}gemmBatched"),
    *_forms(("SGEMM_EX", "cublasSgemmEx"), ("GEMM_EX", "cublasGemmEx"), ("STRIDED_EX", "cublasGemmStridedBatchedEx"), ("BATCHED_EX", "cublasGemmBatchedEx")),
    *_systems("cublas{}trsmBatched"),
    *(Form(one.macro, one.name.removesuffix("_v2") if one.macro == "SYRKX" else one.name, one.element) for one in _level3("cublas{letter}{kind}_v2")),
    *_forms(("GEMM", "cublasCgemm3m"), ("STRIDED", "cublasCgemm3mStridedBatched"), ("BATCHED", "cublasCgemm3mBatched"), ("SGEMM_EX", "cublasCgemmEx"),
            ("SGEMM_EX", "cublasCgemm3mEx"), element=C64),
    *_forms(("GEMM", "cublasZgemm3m"), element=C128),
)
_HIPBLAS = (
    *_gemms("hipblas{}gemm", "hipblas{}gemmStridedBatched", "hipblas{}gemmBatched"),
    *_level3("hipblas{letter}{kind}", strided="hipblas{letter}{kind}StridedBatched"),
    *_systems("hipblas{}trsmBatched"),
)
_ROCBLAS = (
    *_gemms("rocblas_{}gemm", "rocblas_{}gemm_strided_batched", "rocblas_{}gemm_batched"),
    *_level3("rocblas_{letter}{kind}", strided="rocblas_{letter}{kind}_strided_batched"),
    *_systems("rocblas_{}trsm_batched"),
)
_DRIVER = (("take", "cuMemAlloc_v2", "hipMalloc"), ("give", "cuMemFree_v2", "hipFree"), ("wait", "cuStreamSynchronize", "hipStreamSynchronize"),
           ("wait_for_all", "cuCtxSynchronize", "hipDeviceSynchronize"), ("context", "cuCtxGetCurrent", "hipGetDevice"),
           ("context_of", "cuStreamGetCtx", "hipStreamGetDevice"), ("capture", "cuStreamGetCaptureInfo_v2", "hipStreamGetCaptureInfo_v2"),
           ("exchange_mode", "cuThreadExchangeStreamCaptureMode", "hipThreadExchangeStreamCaptureMode"),
           ("object", "cuUserObjectCreate", "hipUserObjectCreate"), ("retain", "cuGraphRetainUserObject", "hipGraphRetainUserObject"),
           ("stream_id", "cuStreamGetId", "hipStreamGetId"))
_OPTIONAL = ("stream_id",)

INTERFACES = (
    Interface(
        name="cublas", words=("cublas",), sources=("cublas.c", "cublaslt.c"), forms={"cublas": _CUBLAS},
        defined=(*_functions("libcublas", *_wide(_CUBLAS), "cublasDestroy_v2"), *_functions("libcublasLt", "cublasLtMatmul", "cublasLtDestroy")),
        needed=(*_functions("libcublas", "cublasGetStream_v2", "cublasGetPointerMode_v2", "cublasGetMathMode"),
                *_functions("libcublasLt", "cublasLtMatmulDescGetAttribute", "cublasLtMatrixLayoutGetAttribute", "cublasLtMatmulDescCreate",
                            "cublasLtMatmulDescDestroy", "cublasLtMatrixLayoutCreate", "cublasLtMatrixLayoutDestroy")),
        versions=("13", "12", "11"),
        driver={"sonames": ("libcuda.so.1", "libcuda.so"), "context_is_pointer": 1,
                "functions": [(field, cuda, int(field in _OPTIONAL)) for field, cuda, _ in _DRIVER]},
    ),
    Interface(
        name="hipblas", words=("hipblas", "rocblas"), sources=("hipblas.c", "rocblas.c"), forms={"hipblas": _HIPBLAS, "rocblas": _ROCBLAS},
        defined=(*_functions("libhipblas", *_wide(_HIPBLAS), "hipblasDestroy"), *_functions("librocblas", *_wide(_ROCBLAS), "rocblas_destroy_handle")),
        needed=(*_functions("libhipblas", "hipblasGetStream", "hipblasGetPointerMode", "hipblasGetMathMode"),
                *_functions("librocblas", "rocblas_get_stream", "rocblas_get_pointer_mode", "rocblas_get_math_mode")),
        versions=("5", "4", "3", "2", "1", "0"),
        driver={"sonames": ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"), "context_is_pointer": 0,
                "functions": [(field, hip, int(field in _OPTIONAL)) for field, _, hip in _DRIVER]},
    ),
)
"""Those that there is a preload library for."""


def interface_of(library: Library) -> Interface | None:
    """The vendor's BLAS whose programs are to call this library; None where none is asked for."""
    return next((one for one in INTERFACES if set(one.words) & set(library.shim)), None)


def _strings(words: tuple[str, ...]) -> str:
    return ", ".join(f'"{word}"' for word in words)


def preload_name(name: str, interface: Interface) -> str:
    """`liblab_cublas.so`."""
    return f"lib{name}_{interface.name}.so"


def audit_name(name: str) -> str:
    """`liblab_audit.so`."""
    return f"lib{name}_audit.so"


def files(library: Library) -> dict[str, bytes]:
    """The preload library's and the audit library's sources, by path inside the library's folder, and what they are built from.

    Nothing where the library asks for no preload library.
    """
    interface = interface_of(library)
    if interface is None:
        return {}
    recipe: dict[str, Any] = {
        "name": library.name, "guard": library.guard, "interface": interface.name,
        "preload": {"file": preload_name(library.name, interface), "sources": ["core.c", *interface.sources], "compile": list(COMPILE),
                    "link": list(PRELOAD_LINK)},
        "audit": {"file": audit_name(library.name), "sources": ["audit.c"], "compile": [*COMPILE, *AUDIT_COMPILE], "link": list(AUDIT_LINK)},
    }
    values = {
        "name": library.name, "guard": library.guard, "interface": interface, "reasons": REASONS, "versions": _strings(interface.versions),
        "libraries": _strings(tuple(f"{one}.so" for one in interface.libraries)), "shim": preload_name(library.name, interface),
        "driver": {**interface.driver, "sonames": _strings(interface.driver["sonames"])}, "preload": recipe["preload"], "audit": recipe["audit"],
        "least_gain": int(not library.reproducible),  # 0 takes every call that a kernel serves, on each GPU
    }
    texts = {file: render_text(f"library/shim/{file}.j2", **values)
             for file in ("core.h", "core.c", "forms.h", *interface.sources, "audit.c", "CMakeLists.txt")}
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
            words = [recipe["name"], recipe["guard"], recipe[part]["file"], *(word for key in ("sources", "compile", "link") for word in recipe[part][key])]
            if not all(isinstance(word, str) for word in words):
                raise TypeError(part)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise _refusal(folder) from None
    return recipe


def _stands_before(path: Path) -> list[str]:
    """Which vendors' BLAS the preload library of a library's file stands before; nothing where it asks for none."""
    try:
        asked = read_toml(path).get("shim", [])
    except SpecError:
        return []
    return [word for one in INTERFACES for word in one.words if word in asked]


def _refusal(folder: Path) -> GemmgenError:
    """Why a place has no preload library; the remedy is the command that makes one."""
    known = shipped("libraries")
    having = {name: words for name, path in known.items() if (words := _stands_before(path))}
    named = ", ".join(f"{name} ({', '.join(words)})" for name, words in having.items())
    problem, got, before = "is no library with a preload library", None, ""
    if folder.suffix == ".toml" and folder.is_file():
        problem, source, place = "is the file of a library, which is not made yet", str(folder), folder.with_suffix("")
        before = "" if _stands_before(folder) else f'shim = ["cublas"] in {folder}, then '
    else:
        close = did_you_mean(folder.name, having)
        source = folder.name if folder.name in having else close.split("'")[1] if close else "lab"
        place = folder
        if not folder.exists():
            problem = "is no folder"
            got = "a shipped library without a preload library" if folder.name in known and folder.name not in having else None
        if folder.exists() and not (source == folder.name and (folder / MANIFEST).is_file()) or got:  # what is there may be of use
            place = next(one for number in count(1) if not (one := Path(source if number == 1 else f"{source}_{number}")).exists())
    return GemmgenError(str(folder), problem, got=got, needs=f"a folder with {RECIPE}; shipped libraries that have one: {named}",
                        remedy=f"{before}gemmgen library {shlex.quote(source)} -o {shlex.quote(str(place))}")


def kernels_of(folder: Path, name: str) -> Path | None:
    """The library of kernels, where it has been built: in the folder, or where CMake puts it."""
    return next((path for path in (folder / f"lib{name}.so", folder / "build" / f"lib{name}.so") if path.exists()), None)


def build(folder: Path, *, compiler: str = "gcc") -> Built:
    """Build what is not built yet: the kernels' library, and the preload and the audit library beside it.

    Raises:
        GemmgenError: the folder has no shim, or a tool is missing or fails.
    """
    recipe = recipe_of(folder)
    folder = folder.resolve()
    name = recipe["name"]
    if kernels_of(folder, name) is None:
        _build_kernels(folder, recipe, compiler)
    kernels = kernels_of(folder, name)
    if kernels is None:
        build = folder / "build"
        raise GemmgenError(str(folder), f"has no lib{name}.so after CMake built it", got=", ".join(sorted(path.name for path in build.glob("*.*"))) or None,
                           needs=f"{build / f'lib{name}.so'}", remedy=f"rm -r {shlex.quote(str(build))}, then the same command again")
    made = {}
    for part in ("preload", "audit"):
        made[part] = kernels.parent / recipe[part]["file"]
        sources = [folder / FOLDER / source for source in recipe[part]["sources"]]
        inputs = [*(folder / FOLDER).iterdir(), *([kernels] if part == "preload" else [])]
        if made[part].exists() and all(made[part].stat().st_mtime >= path.stat().st_mtime for path in inputs):
            continue
        linked = [f"-I{folder}", f"-I{folder / 'include'}", f"-L{kernels.parent}", "-Wl,-rpath,$ORIGIN", f"-l{name}", "-ldl", "-lpthread"]
        # Into place at once: another process may be doing the same.
        with unfinished(made[part], folder=True) as beside:
            _run([compiler, "-shared", *recipe[part]["compile"], *map(str, sources), *recipe[part]["link"], *(linked if part == "preload" else []),
                  f"-Wl,-soname,{made[part].name}", "-o", str(beside / made[part].name)], folder)
            (beside / made[part].name).replace(made[part])
    return Built(name, recipe["guard"], kernels, made["preload"], made["audit"])


def _build_kernels(folder: Path, recipe: Mapping[str, Any], compiler: str) -> None:
    """Into the folder's `build`; by the compiler alone where there is no CMake."""
    name, place = recipe["name"], folder / "build"
    if shutil.which("cmake"):
        _run(["cmake", "-S", str(folder), "-B", str(place), f"-D{recipe['guard']}_SHARED=ON", f"-D{recipe['guard']}_SHIM=OFF"], folder)
        _run(["cmake", "--build", str(place), "--target", name], folder)
        return
    place.mkdir(exist_ok=True)
    sources = folder / "src"
    _run([compiler, "-shared", *COMPILE, f"-I{folder / 'include'}", f"-I{sources}", f"-I{sources / 'code'}", str(sources / f"{name}.c"),
          str(sources / "code.c"), "-ldl", "-lpthread", "-o", str(place / f"lib{name}.so")], folder)


def _run(command: list[str], folder: Path) -> None:
    if not shutil.which(command[0]):
        raise GemmgenError(command[0], "is not installed", needs=f"it to build {folder}", remedy=f"install {command[0]}")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GemmgenError(" ".join(command[:3]), f"fails in {folder}", got=(done.stderr or done.stdout).strip()[-2000:] or f"exit code {done.returncode}",
                           needs="a C compiler and tools that build it", remedy=f"look at what it says, of: {shlex.join(command)}")
