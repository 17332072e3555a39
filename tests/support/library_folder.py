"""A library's folder for tests on a GPU: the one that GEMMGEN_LIBRARY names, compiled with the C compiler at hand, and its Python package."""

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


@cache
def package() -> ModuleType:
    """The Python package of the library in the folder, with the compiled library beside it.

    Skips the test where the variable is not set.
    """
    if not (told := os.environ.get("GEMMGEN_LIBRARY")):
        pytest.skip('NOT RUN: GEMMGEN_LIBRARY does not name a library\'s folder (gemmgen library LIB.toml -o DIR, with shim = ["torch", "jax"])')
    return opened(Path(told).resolve())


def opened(folder: Path) -> ModuleType:
    """The same of any folder that `gemmgen library` wrote."""
    done = subprocess.run([sys.executable, "python/build_wheel.py"], cwd=folder, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    sys.path.insert(0, str(folder / "python"))
    return importlib.import_module(json.loads((folder / "manifest.json").read_text())["name"])


def module(name: str) -> ModuleType:
    """`torch` or `jax` of it."""
    return importlib.import_module(f"{package().__name__}.{name}")
