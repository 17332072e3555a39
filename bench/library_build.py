"""What a library costs to make: seconds to generate it with an empty cache, seconds of gcc, bytes of the shared library.

    python bench/library_build.py specs/libraries/lab.toml

Seconds are of the clock, and in brackets of the processors, which other programs on the machine change little.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def timed(what: Callable[[], T]) -> tuple[T, str]:
    """(what it gives, its seconds in words)."""
    def used() -> float:
        return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))

    start, before = time.perf_counter(), used()
    found = what()
    return found, f"{time.perf_counter() - start:.1f} s ({used() - before:.1f} s)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", type=Path, help="a LIB.toml")
    parser.add_argument("-o", "--output", type=Path, help="where the folder is to stay")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["GEMMGEN_CACHE"] = f"{scratch}/cache"
        from gemmgen import road

        folder = asked.output or Path(scratch) / "folder"
        made, generated = timed(lambda: road.library(asked.library, folder))
        name, built = made.name, folder / f"lib{made.name}.so"
        command = ["gcc", "-std=gnu99", "-O2", "-fPIC", "-fvisibility=hidden", "-Iinclude", "-Isrc/code", "-shared", f"src/{name}.c", "src/code.c",
                   "-o", built.resolve(), "-ldl", "-lpthread"]
        _, compiled = timed(lambda: subprocess.run(command, cwd=folder, check=True))
        size = built.stat().st_size
        if asked.output:
            built.unlink()
    print(f"{name}: {len(made.choice.kernels)} kernels, {len(made.images)} files of machine code")
    print(f"generated in {generated}, on {len(os.sched_getaffinity(0))} processors")
    print(f"built by gcc in {compiled}")
    print(f"shared library of {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
