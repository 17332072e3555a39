"""Foreign programs that tests call, compilers above all."""

from __future__ import annotations

import re
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


class Example:
    """A built example of an export, of which the host's stand-in for the GPU is told by the environment what to get wrong."""

    def __init__(self, folder: Path):
        self.program = folder / "example"

    def __call__(self, **settings: str) -> subprocess.CompletedProcess:
        return subprocess.run([self.program], capture_output=True, text=True, check=False, env=settings)

    def assert_right(self, checks: int) -> None:
        """Without a fault so many checks pass; without a device it says so."""
        right = self()
        assert (right.returncode, right.stdout.count("ok "), right.stdout.count("FAILED")) == (0, checks, 0), right.stdout + right.stderr
        assert self(NO_DEVICE="1").returncode == 77

    def assert_fails(self, fault: int) -> str:
        """What it prints with this fault, of which it says that it failed."""
        wrong = self(FAULT=str(fault))
        assert wrong.returncode == 1 and "FAILED" in wrong.stdout, (fault, wrong.stdout)
        return wrong.stdout


def small(example: Path, m: int, n: int, k: int) -> None:
    """Gives an exported example other extents, with which it takes no time even where it is compiled without optimisation."""
    text, found = re.subn(r"constexpr int M = \d+, N = \d+, K = \d+;", f"constexpr int M = {m}, N = {n}, K = {k};", example.read_text())
    assert found == 1
    example.write_text(text)


def run(*command: object, cwd: Path | None = None, env: dict | None = None) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True)
    assert not done.returncode, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
