"""Foreign programs that tests call, compilers above all."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def need(*tools: str) -> list[str]:
    """Paths of tools, or a skip that says which test did not happen."""
    paths = [shutil.which(tool) for tool in tools]
    if missing := [tool for tool, path in zip(tools, paths) if not path]:
        pytest.skip(f"NOT COMPILED: no {', '.join(missing)} on PATH")
    return paths


def run(*command: object, cwd: Path | None = None, env: dict | None = None) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True)
    assert not done.returncode, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
