"""LAPACK's own test takes a library's functions for the BLAS's: results and error exits, of the library that computes on the CPU."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
import reference

import level3
import sblat3

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="the reference library needs gcc")
SERVED = sblat3.ROUTINES


def test_lapack_s_test_passes(tmp_path):
    (tmp_path / "lab.h").write_text(reference.header())
    passed, failed = sblat3.verdict(sblat3.built(tmp_path, reference.path(), "-DHOST_POINTERS"), SERVED)
    assert len(passed) == 2 * len(SERVED) and not failed, (passed, failed)


@pytest.fixture(scope="module")
def fortran(tmp_path_factory) -> tuple[ctypes.CDLL, ctypes.c_int]:
    """What the program of LAPACK's is linked with, and what its xerbla_ was told last."""
    folder = tmp_path_factory.mktemp("fortran")
    (folder / "lab.h").write_text(reference.header())
    (folder / "xerbla.c").write_text(sblat3.XERBLA)
    subprocess.run(["gcc", "-shared", "-fPIC", "xerbla.c", "-o", "libxerbla.so"], cwd=folder, check=True)
    told = ctypes.CDLL(str(folder / "libxerbla.so"), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(sblat3.wrapped(folder, reference.path(), "-DHOST_POINTERS"))), ctypes.c_int.in_dll(told, "fault")


@pytest.mark.parametrize("routine", SERVED)
def test_fortran_s_calls_are_blas_s(routine, fortran):
    """As tests/support/level3.py asks: arguments by reference, and xerbla_ told of the one at fault."""
    function, fault = getattr(fortran[0], f"{routine.lower()}_"), fortran[1]

    def run(one: level3.Call) -> int:
        fault.value = 0
        given = []
        for name in level3.ROUTINES[routine].arguments:
            value = one.value(name)
            given.append(ctypes.c_void_p(value.ctypes.data) if isinstance(value, np.ndarray) else ctypes.c_char_p(value.encode()) if isinstance(value, str)
                         else ctypes.byref(ctypes.c_float(value) if name in ("alpha", "beta") else ctypes.c_int(value)))
        function(*given)
        return fault.value

    assert not list(level3.faults(run, level3.some(routine, (0, 1, 3, 9, 33))))
    assert not list(level3.wrong_exits(run, routine))
