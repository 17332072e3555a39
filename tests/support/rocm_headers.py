"""ROCm's own headers, runtime and a clang, where a machine has them: for tests that compile and link exports as ROCm would.

They are looked for in the folder that $GEMMGEN_TEST_ROCM names, in `.rocm` beside the Makefile (`make rocm` fetches them), in /opt/rocm and
in the system.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEAST_CLANG = 19


@dataclass(frozen=True)
class Rocm:
    """What was found.

    Attributes:
        clang: the program; prefix: the folder with ROCm's `include`; runtime: libamdhip64 itself.
        libraries: folders for the programs and what they link.
    """

    clang: Path
    prefix: Path
    runtime: Path
    libraries: tuple[Path, ...]

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"LD_LIBRARY_PATH": ":".join(map(str, self.libraries))}

    def compile(self, folder: Path, *arguments: object) -> None:
        """A HIP source in a folder, warnings as errors."""
        command = [self.clang, "-x", "hip", "-nogpulib", f"--rocm-path={self.prefix}", "-D__HIP_PLATFORM_AMD__", "-std=c++17", f"-I{self.prefix}/include",
                   "-Wall", "-Wextra", "-Werror", *arguments]
        self.run(folder, *command)

    def run(self, folder: Path, *command: object, code: int = 0) -> str:
        done = subprocess.run([str(word) for word in command], cwd=folder, env=self.environment, capture_output=True, text=True)
        assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def need_rocm() -> Rocm:
    """What this machine has, or a skip that says which test did not happen."""
    found = _found()
    if not found:
        pytest.skip("NOT COMPILED: no headers of ROCm and clang 19 or later are here; `make rocm` fetches them where apt-get is")
    return found


@cache
def _found() -> Rocm | None:
    for prefix in _prefixes():
        libraries = [folder for folder in (prefix / "lib" / "x86_64-linux-gnu", prefix / "lib", *prefix.glob("lib/llvm*/lib"), *prefix.glob("llvm/lib"))
                     if folder.is_dir()]
        runtimes = [path for folder in libraries for path in sorted(folder.glob("libamdhip64.so*"))]
        clangs = sorted([*prefix.glob("llvm/bin/clang"), *prefix.glob("lib/llvm*/bin/clang")], reverse=True)
        if not (prefix / "include" / "hip" / "hip_runtime.h").is_file() or not runtimes:
            continue
        for clang in clangs:
            rocm = Rocm(clang, prefix, runtimes[0], tuple(libraries))
            done = subprocess.run([str(clang), "--version"], env=rocm.environment, capture_output=True, text=True)
            version = re.search(r"clang version (\d+)", done.stdout)
            if version and int(version[1]) >= LEAST_CLANG:
                return rocm
    return None


def _prefixes() -> Iterator[Path]:
    if asked := os.environ.get("GEMMGEN_TEST_ROCM"):
        yield Path(asked)
    yield from (ROOT / ".rocm" / "usr", Path("/opt/rocm"), Path("/usr"))
