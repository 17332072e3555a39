"""The reference library: the C interface of a library of kernels on the CPU, tests/support/reference_library.c, compiled once a process."""

from __future__ import annotations

import ctypes
import importlib
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace

from gemmgen.catalog.vendor import Frameworks
from gemmgen.library import python
from gemmgen.library.interface import ABI
from gemmgen.render import render_text

NAME = "lab"
SOURCE = Path(__file__).with_name("reference_library.c")
FLAGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers", "-fvisibility=hidden", "-fPIC", "-shared")
VALUES = {"abi": ABI, "version_number": 100, "largest_extent": 2**31 - 1, "alignment": 256, "least_driver": 12000, "least_driver_told": "12.0", "reproducible": False}
"""What the header is rendered with, but for its names."""


def header() -> str:
    """The text of lab.h."""
    return render_text("library/header.h.j2", name=NAME, guard=NAME.upper(), **VALUES)


@cache
def folder() -> Path:
    """A folder with lab.h and liblab.so, of this process until it ends.

    Raises:
        RuntimeError: there is no gcc, or it refuses the source; its words are in the message.
    """
    if not shutil.which("gcc"):
        raise RuntimeError("the reference library needs gcc")
    kept.append(held := tempfile.TemporaryDirectory(prefix="reference-library-"))
    path = Path(held.name)
    (path / f"{NAME}.h").write_text(header())
    done = subprocess.run(
        ["gcc", *FLAGS, f"-I{path}", str(SOURCE), "-o", str(path / f"lib{NAME}.so"), "-lm"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return path


kept: list[tempfile.TemporaryDirectory] = []


def path() -> Path:
    """liblab.so."""
    return folder() / f"lib{NAME}.so"


def load() -> ctypes.CDLL:
    """It, with the types of its counters set: lab_calls, lab_packed_calls, lab_sgemm_calls, lab_pack_calls, lab_taken."""
    library = ctypes.CDLL(str(path()))
    for counter in ("calls", "packed_calls", "sgemm_calls", "pack_calls", "taken"):
        getattr(library, f"{NAME}_{counter}").restype = ctypes.c_longlong
    return library


HOST = SimpleNamespace(name="host", arch_prefix="cpu", frameworks=Frameworks(dlpack_type=1, torch_device="cpu", xla_platform="cpu"))
"""What a vendor's row says of how frameworks name its devices, of the CPU."""


@cache
def package() -> Path:
    """A folder for sys.path with the Python package `lab` of the reference library."""
    home = folder()
    for name, content in python.files(SimpleNamespace(name=NAME, guard=NAME.upper(), shim=("torch", "jax"), maker=HOST, compilers=())).items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(content)
    return home / "python"


@cache
def compile_xla() -> Path:
    """liblab_xla.so in the package.

    Raises:
        RuntimeError: gcc refuses the source.
    """
    source = package() / NAME / "_xla.c"
    target = source.with_name(f"lib{NAME}_xla.so")
    done = subprocess.run(["gcc", *FLAGS, str(source), "-o", str(target)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return target


def imported(module: str = NAME) -> ModuleType:
    """`lab`, or a module of it such as `lab.torch`."""
    if str(package()) not in sys.path:
        sys.path.insert(0, str(package()))
    return importlib.import_module(module)
