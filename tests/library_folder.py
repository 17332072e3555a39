"""A library's folder for tests on a GPU: the one that GEMMGEN_LIBRARY names, built with the C compiler at hand, and its Python package."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

VARIABLE = "GEMMGEN_LIBRARY"


@cache
def package() -> ModuleType:
    """The Python package of the library in the folder, with both shared libraries beside it.

    Skips the test where the variable is not set.
    """
    if not (told := os.environ.get(VARIABLE)):
        pytest.skip(f"NOT RUN: {VARIABLE} does not name a library's folder (gemmgen library LIB.toml -o DIR, with shim = [\"torch\", \"jax\"])")
    folder = Path(told).resolve()
    name = json.loads((folder / "manifest.json").read_text())["name"]
    target = folder / f"lib{name}.so"
    if not target.is_file():
        run("cc", "-std=c99", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Iinclude", f"src/{name}.c", "src/code.c", "-o", target.name, "-ldl", "-lpthread",
            cwd=folder)
    run(sys.executable, "python/build_wheel.py", cwd=folder)
    sys.path.insert(0, str(folder / "python"))
    return importlib.import_module(name)


def module(name: str) -> ModuleType:
    """`torch` or `jax` of it."""
    return importlib.import_module(f"{package().__name__}.{name}")


def run(*words: str, cwd: Path) -> None:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True)
    assert not done.returncode, done.stderr
