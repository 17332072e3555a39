"""The library of this machine's GPU: an installed one, or one that is built once and kept in the cache.

A kept library lies in `libraries/<GPU>-<accuracy>-cuda<driver>-<version>` of the cache folder, which only its user can write. It is written beside its
final name and moved there, under a lock, so that of several processes one builds and all find it whole.
"""

from __future__ import annotations

import atexit
import fcntl
import importlib
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from gemmgen import __version__
from gemmgen.cache import USER_CACHE
from gemmgen.drivers import check_driver
from gemmgen.build.nvrtc import find_compiler
from gemmgen.catalog.element import ELEMENTS, F32, Element
from gemmgen.catalog.gpu import GPUS, Gpu
from gemmgen.errors import GemmgenError
from gemmgen.files import unfinished
from gemmgen.kinds.kind import COMPLEX_LAYOUTS
from gemmgen.library import python
from gemmgen.library.file import library_from
from gemmgen.library.interface import ABI
from gemmgen.run.here import Here
from gemmgen.solve import solve
from gemmgen.solve.lookup import PLAIN
from gemmgen.spec import loads
from gemmgen.verdict import verdict

INSTALLED = {"nvidia": "gemmgen_blas", "amd": "gemmgen_blas_rocm"}
"""By vendor the module of the ready library's wheel (`specs/libraries/gemmgen_blas.toml` and `gemmgen_blas_rocm.toml`)."""
SIZES = ([256] * 3, [1024] * 3, [4096] * 3, [8192] * 3, [64, 4096, 4096], [4096, 64, 4096], [512, 512, 8192], [256, 256, 256, 64])
"""What kernels are chosen for. For an H200 that takes 7 s of a core, and for a library's usual 30 sizes 23 s."""
ASKED = ([512] * 3, [4096] * 3)
"""Sizes whose fastest schemes are those of the library."""
KERNELS = 16
"""At most."""
ASKED_LARGE = ([2048] * 3, [8192] * 3)
SIZES_LARGE = ([1024] * 3, [2048] * 3, [4096] * 3, [8192] * 3, [4096, 4096, 512], [512, 4096, 4096])
BATCHES_LARGE = ([512, 512, 512, 32], [1024, 1024, 1024, 16])
KERNELS_OF_REALS, KERNELS_OF_PAIRS = 12, len(COMPLEX_LAYOUTS)
"""The same of libraries of FP64 and of complex numbers, which are for large products and, of FP64, batches of them; of complex numbers each layout has one
kernel, which takes a batch product by product."""
SAME_BITS = "reproducible"
NOTHING = "nothing"
"""The file of a folder without a library, as none would be faster than the GPU's own arithmetic of the type: what takes seconds to find out."""


def recipe(gpu: Gpu) -> dict[str, Any] | None:
    """The LIB.toml of a GPU's library, of FP32's accuracy; None where no scheme is predicted to be faster than the GPU's own FP32.

    Raises:
        GemmgenError: the solver has nothing for this GPU.
    """
    plans = [solve(loads({"problem": dict(zip("mnk", size)), "accuracy": {"as": "fp32"}, "target": {"gpu": gpu.name}})) for size in ASKED]
    schemes = dict.fromkeys(plan.scheme.name for plan in plans if plan.scheme.name != PLAIN)
    if not schemes:
        return None
    return {
        "name": _name(gpu), "gpus": [gpu.name], "kernels_at_most": KERNELS, "sizes": [list(size) for size in SIZES], "shim": ["torch", "jax"],
        "use": [{"scheme": name} for name in schemes],
    }


def recipe_of(gpu: Gpu, element: Element) -> dict[str, Any] | None:
    """The LIB.toml of a GPU's library of FP64 or of complex numbers, of their accuracy; None where native arithmetic is predicted to be faster, or nothing is
    known of it.

    Raises:
        GemmgenError: the solver has nothing for this GPU.
    """
    accuracy = {"as": element.part.title.lower()}
    problems = [{"problem": {"type": element.name, **dict(zip("mnk", size))}, "accuracy": accuracy, "target": {"gpu": gpu.name}} for size in ASKED_LARGE]
    plans = [plan for plan in map(solve, map(loads, problems)) if (told := verdict(plan)) is not None and not told.loses]
    if not plans:
        return None
    return {
        "name": _name(gpu, element.name), "gpus": [gpu.name], "kernels_at_most": KERNELS_OF_REALS if element.reals == 1 else KERNELS_OF_PAIRS,
        "sizes": [list(size) for size in (SIZES_LARGE + BATCHES_LARGE if element.reals == 1 else SIZES_LARGE)], "batched": element.reals == 1,
        "use": [{"scheme": name, "type": element.name} for name in dict.fromkeys(plan.scheme.name for plan in plans)],
    }


def recipe_of_same_bits(gpu: Gpu, element: Element) -> dict[str, Any]:
    """The LIB.toml of a GPU's library whose C is the same bits on every GPU, however fast native arithmetic is."""
    usual = element.part == F32
    return {
        "name": _name(gpu, element.name, SAME_BITS), "gpus": [gpu.name], "kernels_at_most": KERNELS_OF_REALS if element.reals == 1 else KERNELS_OF_PAIRS,
        "sizes": [list(size) for size in (SIZES if usual else SIZES_LARGE)], "reproducible": True, "shim": ["torch"] if element == F32 else [],
        "use": [{"scheme": "residues7" if usual else "residues14", "type": element.name}],
    }


def package(
    gpu: Here, progress: Callable[[str], None] = lambda step: None, element: str = F32.name, which: str = "",
) -> ModuleType | None:
    """The Python package of a library of a type's accuracy for a GPU of this machine: the installed one, the kept one, or a new one.

    Args:
        progress: gets each step while a library is built.
        element: the type of the arrays, by its name; installed libraries are of FP32.
        which: empty, or SAME_BITS: of kernels whose C is the same bits on every GPU.

    Returns:
        None where no library would be faster than the GPU's own arithmetic of the type.

    Raises:
        GemmgenError: no row of specs/gpus describes the GPU, a compiler is missing, or the driver does not load what it makes.
    """
    row = gpu.row
    if row is None:
        raise GemmgenError(gpu.title, f"is described by no row of specs/gpus, nor is another GPU of {gpu.arch}",
                           needs=", ".join(sorted({one.arch for one in GPUS.rows()})), remedy="gemmgen gpu probe, which measures the GPU and writes such a row")
    if element == F32.name and not which and (found := _installed(gpu, row)) is not None:
        return found
    folder, name = _folder(gpu, row, element, which), _name(row, element, which)
    with _locked(folder):
        if not (folder / NOTHING).is_file() and not (folder / "python" / name / "__init__.py").is_file():
            told = (recipe_of_same_bits(row, ELEMENTS[element]) if which else recipe(row) if element == F32.name else recipe_of(row, ELEMENTS[element]))
            _build(told, gpu, folder, progress)
    return None if (folder / NOTHING).is_file() else _imported(folder, name)


def _name(gpu: Gpu, element: str = F32.name, which: str = "") -> str:
    return f"gemmgen_{gpu.name}" + ("" if element == F32.name else f"_{element}") + (f"_{which}" if which else "")


def _installed(gpu: Here, row: Gpu) -> ModuleType | None:
    """The ready library, where its wheel is installed, the driver loads it and it has kernels for the GPU."""
    name = INSTALLED[row.vendor]
    if importlib.util.find_spec(name) is None:
        return None
    found = importlib.import_module(name)
    with suppress(ImportError, found.Error):
        if not 0 < gpu.driver < found._c.LEAST_DRIVER and not found.select(4096, 4096, 4096, on=found.target(gpu.arch, gpu.units)).is_fallback:
            return found
    return None


def _folder(gpu: Here, row: Gpu, element: str, which: str) -> Path:
    """Where the library of a GPU is, or is to be."""
    driver = f"-cuda{gpu.driver // 1000}.{gpu.driver % 1000 // 10}" if gpu.driver else ""
    kept = USER_CACHE.own_folder("libraries")
    accuracy = ELEMENTS[element].title.lower().replace(" ", "-") + (f"-{which}" if which else "")
    return (kept or _temporary()) / f"{row.name}-{accuracy}{driver}-{__version__}-{ABI}"


@cache
def _temporary() -> Path:
    """A folder of this process, for whoever has no cache."""
    folder = Path(tempfile.mkdtemp(prefix="gemmgen-libraries-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Alone among the processes that are about to build a library."""
    number = os.open(folder.with_name(f".{folder.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def _build(told: dict[str, Any] | None, gpu: Here, folder: Path, progress: Callable[[str], None]) -> None:
    """Make the library in its folder.

    Args:
        told: None where there is to be none.

    Raises:
        GemmgenError: a compiler is missing or refuses it, or the driver does not load what it makes.
    """
    from gemmgen.library import write
    from gemmgen.library.made import made

    if told is not None and gpu.driver:
        check_driver(find_compiler().name, gpu.driver, gpu.title)
    with unfinished(folder, folder=True) as beside:
        if told is None:
            (beside / NOTHING).touch()
        else:
            write(made(library_from(told, f"library of {told['gpus'][0]}"), progress), beside, force=True)
            progress("compile the library with cc")
            python.compile_in_place(beside)
        if folder.exists():  # of another build of this version, and no library
            shutil.rmtree(folder)
        beside.rename(folder)


def _imported(folder: Path, name: str) -> ModuleType:
    """A library's package as the module of its name, from its folder alone."""
    if name in sys.modules:
        return sys.modules[name]
    place = folder / "python" / name
    spec = importlib.util.spec_from_file_location(name, place / "__init__.py", submodule_search_locations=[str(place)])
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
