"""bench/blat3.py: LAPACK's questions and answers, and cuBLAS's functions as Fortran calls them; cuBLAS is a BLAS of the CPU here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import reference

import sblat3

BENCH = Path(__file__).resolve().parents[2] / "bench"
if not BENCH.is_dir():
    pytest.skip("no bench/ in this distribution", allow_module_level=True)

SUMMARY = """ SGEMM       PASSED THE TESTS OF ERROR-EXITS
 SGEMM       ERROR-EXIT TESTS:       28 RUN,        0 FAILED
 SGEMM       PASSED THE COMPUTATIONAL TESTS ( 17496 CALLS)
 SGEMMTR     PASSED THE TESTS OF ERROR-EXITS
 SGEMMTR     COMPLETED THE COMPUTATIONAL TESTS (  5832 CALLS)
 ******* BUT WITH MAXIMUM TEST RATIO   21.00 - SUSPECT *******
 SGEMMTR     COMPUTATIONAL TESTS:     5832 RUN,       10 FAILED
 ******* SSYMM       FAILED THE TESTS OF ERROR-EXITS *******
 SSYMM       PASSED THE COMPUTATIONAL TESTS (  1296 CALLS)
 SSYRK       PASSED THE COMPUTATIONAL TESTS (   324 CALLS)
"""
ASKED = """16.0     THRESHOLD VALUE OF TEST RATIO
6                 NUMBER OF VALUES OF N
0 1 2 3 5 9       VALUES OF N
3                 NUMBER OF VALUES OF ALPHA
SGEMM      T PUT F FOR NO TEST. SAME COLUMNS.
SGEMMTR    T PUT F FOR NO TEST. SAME COLUMNS.
SSKEWSYMM  T PUT F FOR NO TEST. SAME COLUMNS.
"""


@pytest.fixture
def blat3(monkeypatch):
    monkeypatch.syspath_prepend(BENCH)
    return import_module("blat3")


def test_a_routine_passes_by_both_lines_and_no_other(blat3):
    found = blat3.verdicts(SUMMARY, ["SGEMM", "SGEMMTR", "SSYMM", "SSYRK", "STRSM"])
    assert {name: (one.results, one.exits, one.calls, one.passes) for name, one in found.items()} == {
        "SGEMM": (True, True, 17496, True), "SGEMMTR": (False, True, 0, False), "SSYMM": (True, False, 1296, False), "SSYRK": (True, False, 324, False),
        "STRSM": (False, False, 0, False)}
    assert found["SGEMMTR"].complaints == ("SGEMMTR     COMPUTATIONAL TESTS:     5832 RUN,       10 FAILED",)
    assert found["SSYMM"].complaints == ("******* SSYMM       FAILED THE TESTS OF ERROR-EXITS *******",)


def test_questions_have_our_extents_and_routines_of_cublas_s(blat3):
    asked = blat3.questions(ASKED, (0, 33))
    assert asked.splitlines()[1:3] == ["2", "0 33"] and asked.splitlines()[0] == ASKED.splitlines()[0]
    assert blat3.tested(asked) == ["SGEMM", "SGEMMTR"] and "SSKEWSYMM  F PUT" in asked
    assert [*map(blat3.function_of, ("ZHER2K", "SGEMMTR"))] == ["cublasZher2k_v2", "cublasSsyrkx"]


def test_a_log_s_calls_are_counted_by_function(blat3):
    lines = [{"routine": "cublasSgemm_v2", "count": 5, "taken": True}, {"routine": "cublasSgemm_v2", "count": 2, "taken": False}]
    assert blat3.taken(blat3.dropped.Logged((*lines, {"routine": "cublasSsyrkx", "count": 1, "taken": False}))) == {"cublasSgemm_v2": (5, 7), "cublasSsyrkx": (0, 1)}


CALLS = """
import ctypes, json, sys
sys.path[:0] = PATHS
import numpy as np
import level3
fault = ctypes.c_int.in_dll(ctypes.CDLL("./libxerbla.so", mode=ctypes.RTLD_GLOBAL), "fault")
fortran = ctypes.CDLL("./cublas.so")
def runs(name):
    function = getattr(fortran, name)
    def run(one):
        given = []
        fault.value = 0
        for argument in level3.ROUTINES[one.routine].arguments:
            value = one.value(argument)
            given.append(ctypes.c_void_p(value.ctypes.data) if isinstance(value, np.ndarray) else ctypes.c_char_p(value.lower().encode()) if isinstance(value, str)
                         else ctypes.byref(ctypes.c_float(value) if argument in ("alpha", "beta") else ctypes.c_int(value)))
        function(*given)
        return fault.value
    return run
for routine in level3.ROUTINES:
    run = runs({"SGEMMT": "sgemmtr_"}.get(routine, routine.lower() + "_"))
    print(json.dumps([*level3.faults(run, level3.some(routine, (0, 1, 3, 9))), *level3.wrong_exits(run, routine)][:3]))
"""


@pytest.mark.parametrize("letters", ["s,d", "q", ""])
def test_letters_are_those_of_programs(blat3, monkeypatch, capsys, letters):
    monkeypatch.setattr(sys, "argv", ["blat3.py", "--run", "programs", "--letters", letters])
    with pytest.raises(SystemExit):
        blat3.main()
    assert "--letters: some of sdcz" in capsys.readouterr().err


@pytest.mark.skipif(not shutil.which("gcc"), reason="cublas.c needs gcc")
def test_fortran_s_calls_reach_cublas_and_errors_xerbla(blat3, tmp_path):
    """In a process of its own, where a BLAS of the CPU is found as libcublas.so.13."""
    (tmp_path / "lab.h").write_text(reference.header())
    blas = sblat3.wrapped(tmp_path, reference.path(), "-DHOST_POINTERS")
    (tmp_path / "xerbla.c").write_text(sblat3.XERBLA)
    for source, target in ((tmp_path / "xerbla.c", "libxerbla.so"), (BENCH / "blat3/cublas.c", "cublas.so"), (BENCH / "blat3/host.c", "libcublas.so.13")):
        subprocess.run(["gcc", "-std=gnu99", "-Wall", "-Wextra", "-Werror", "-Wno-strict-prototypes", "-shared", "-fPIC", str(source), "-o",
                        str(tmp_path / target), "-ldl"], check=True)
    (tmp_path / "libcuda.so.1").symlink_to("libcublas.so.13")
    done = subprocess.run([sys.executable, "-c", CALLS.replace("PATHS", repr([str(Path(sblat3.__file__).parent), *filter(None, sys.path)]))], cwd=tmp_path, check=False,
                          capture_output=True, text=True, env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "BLAT3_BLAS": str(blas)})
    assert not done.returncode, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [[]] * 7
