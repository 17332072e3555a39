"""The Python package of a library: a binding over its C interface, operators for torch and JAX, and the recipe of a wheel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gemmgen import __version__
from gemmgen import drivers
from gemmgen.errors import GemmgenError
from gemmgen.interface import WORKSPACE_ALIGNMENT
from gemmgen.export import prose
from gemmgen.library.interface import ABI
from gemmgen.render import render_text

if TYPE_CHECKING:
    from gemmgen.library.made import Library

COMMON = {"init.py": "__init__.py", "c.py": "_c.py", "arrays.py": "_arrays.py", "level3.py": "_level3.py"}
"""Files of every package by their templates' stems."""
OF_SHIM = {"torch": {"torch.py": "torch.py"}, "jax": {"jax.py": "jax.py", "xla.c": "_xla.c"}}
"""Those of what a library asks for."""
BESIDE = ("pyproject.toml", "build_wheel.py", "README.md")


def files(library: Library) -> dict[str, bytes]:
    """Texts by their paths in the library's folder, all of them below `python/`.

    The package finds lib<name>.so beside itself, in the library's folder, or where the environment's <GUARD>_LIBRARY says.

    Args:
        library: `name`, `guard`, `shim`, `maker` and `compilers` are what they tell.
    """
    maker = library.maker
    values = {
        "name": library.name, "guard": library.guard, "shims": library.shim, "version": __version__, "abi": ABI,
        "largest_extent": prose.LARGEST_EXTENT, "alignment": WORKSPACE_ALIGNMENT, "arch_prefix": maker.arch_prefix,
        "distribution": distribution(library), "least_driver": drivers.least_driver(library.compilers) or 0,
        "dlpack_type": maker.frameworks.dlpack_type, "torch_device": maker.frameworks.torch_device, "xla_platform": maker.frameworks.xla_platform,
    }
    inside = COMMON | {stem: path for shim in library.shim for stem, path in OF_SHIM.get(shim, {}).items()}
    found = {f"python/{library.name}/{path}": stem for stem, path in inside.items()} | {f"python/{path}": path for path in BESIDE}
    return {path: render_text(f"library/python/{stem}.j2", **values).encode() for path, stem in found.items()}


def distribution(library: Library) -> str:
    """The name of its wheel: `lab-cu13` of a library whose machine code NVRTC 13 made, which drivers for CUDA 13 and later load."""
    least = drivers.least_driver(library.compilers) or 0
    return library.name.replace("_", "-") + library.maker.frameworks.wheel_suffix.format(major=least // 1000)


def _recipe(folder: Path, *words: str) -> str:
    """What `python/build_wheel.py` of a library's folder prints.

    Raises:
        GemmgenError: there is no C compiler, or it refuses the library.
    """
    done = subprocess.run([sys.executable, *words], cwd=folder / "python", capture_output=True, text=True, check=False)
    if done.returncode:
        raise GemmgenError(f"{folder}/python/build_wheel.py", "cannot compile the library", got=done.stderr.strip()[-2000:] or None,
                           needs="a C compiler: gcc or clang as cc, or what CC in the environment names", remedy="install gcc, or CC=clang")
    return done.stdout


def compile_in_place(folder: Path) -> Path:
    """The package in a library's folder with the library compiled into it: a folder for Python's path.

    Raises:
        GemmgenError: there is no C compiler, or it refuses the library.
    """
    _recipe(folder, "build_wheel.py")
    return folder / "python"


def wheel(folder: Path) -> Path:
    """The wheel of a library's folder, built into its `dist`.

    Raises:
        GemmgenError: there is no C compiler, or it refuses the library.
    """
    place = folder.resolve() / "dist"
    place.mkdir(exist_ok=True)
    return place / _recipe(folder, "-c", "import sys, build_wheel; print(build_wheel.build_wheel(sys.argv[1]))", str(place)).split()[-1]
