"""LAPACK's test of the level 3 BLAS, sblat3.f, against a library's functions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

SOURCE, PROGRAM = "GEMMGEN_SBLAT3_SOURCE", "GEMMGEN_SBLAT3"
ROUTINES = ("SGEMM", "SSYMM", "STRMM", "STRSM", "SSYRK", "SSYR2K")
"""What the program tests."""
MORE = ("sgemmtr_", "sskewsymm_", "sskewsyr2k_")
"""What newer versions of the program test besides, and are not asked for."""
XERBLA = """#include <stddef.h>
int fault;
void xerbla_(const char *routine, const int *argument, size_t length);
void xerbla_(const char *routine, const int *argument, size_t length) { (void)routine, (void)length, fault = -*argument; }
"""
"""A program's xerbla_, which keeps minus the argument at fault."""
QUESTIONS = """'sblat3.out'
6
'SBLAT3.SNAP'
-1
F
F
T
16.0
8
0 1 2 3 5 9 33 65
4
0.0 1.0 0.7 -1.3
4
0.0 1.0 1.3 -0.4
"""
"""What the program is asked before its routines: extents, alphas and betas, threshold of its ratio of errors."""


def built(folder: Path, library: Path, *flags: str) -> Path:
    """The program in a folder that holds lab.h, linked with a library, which it looks for beside itself.

    Skips the test where there is neither a program nor a way to make it.
    """
    if told := os.environ.get(PROGRAM):
        program = folder / "xblat3s"
        shutil.copy(told, program)
        program.chmod(0o755)
    else:
        source = os.environ.get(SOURCE)
        if not source or not shutil.which("gfortran"):
            pytest.skip(f"NOT RUN: {SOURCE} does not name LAPACK's BLAS/TESTING/sblat3.f, or there is no gfortran; or {PROGRAM} names what they made")
        program = compiled(folder, Path(source))
    wrapped(folder, library, *flags)
    return program


def wrapped(folder: Path, library: Path, *flags: str) -> Path:
    """libsgemm.so: BLAS as Fortran calls it, by a library whose lab.h lies in the folder."""
    made = folder / "libsgemm.so"
    done = subprocess.run(
        ["gcc", "-std=gnu99", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared", *flags, f"-I{folder}", str(Path(__file__).with_name("blas.c")),
         str(library), "-o", str(made), f"-Wl,-rpath,{library.parent}", "-ldl"], capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return made


def compiled(folder: Path, source: Path) -> Path:
    """The program; sgemm_ and the others come from libsgemm.so beside it, whose xerbla_ the dynamic linker leads to the program's own."""
    empty = folder / "empty.c"
    empty.write_text("".join(f"void {name.lower()}_(void);\nvoid {name.lower()}_(void) {{}}\n" for name in ROUTINES))
    program = folder / "xblat3s"
    for command in (
        ["gcc", "-shared", "-fPIC", str(empty), "-o", str(folder / "libsgemm.so"), "-Wl,-soname,libsgemm.so"],
        ["gfortran", "-O1", "-w", "-static-libgfortran", "-static-libgcc", "-rdynamic", *(f"-Wl,--defsym={name}=0" for name in MORE), "-o", str(program),
         str(source), f"-L{folder}", "-lsgemm", "-Wl,-rpath,$ORIGIN"],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        assert not done.returncode, done.stderr
    return program


def verdict(program: Path, routines: Sequence[str]) -> tuple[list[str], list[str]]:
    """Runs it on some of its routines: (lines of what passed, lines of what failed). A routine that passes has two lines: its error exits, its results."""
    width = 11 if b"A11, L2" in program.read_bytes() else 6  # of a name in its format, which grew with LAPACK's versions
    asked = QUESTIONS + "".join(f"{name:<{width}} {'T' if name in routines else 'F'}\n" for name in ROUTINES)
    done = subprocess.run([str(program)], input=asked, cwd=program.parent, capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stdout[-2000:] + done.stderr[-2000:]
    lines = [line.strip() for line in (program.parent / "sblat3.out").read_text().splitlines() if any(name in line for name in routines)]
    return [line for line in lines if "PASSED" in line], [
        line for line in lines if re.search("FAIL|SUSPECT|NOT DETECTED", line) and not re.search(r"\b0 FAILED", line)]
