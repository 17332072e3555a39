"""What asks for BLAS's level 3 (tests/support/level3.py): a right library has no fault, and each way to misread a call is one."""

from __future__ import annotations

import ctypes
import shutil
from dataclasses import replace

import numpy as np
import pytest
import reference

import level3

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="the reference library needs gcc")
SERVED = ("SGEMM", "SSYMM", "STRMM", "STRSM", "SSYRK", "SSYR2K", "SGEMMT")
EXTENTS = (1, 3, 9)
ROOM = 1024


def run(one: level3.Call) -> int:
    """By the library that computes on the CPU, in memory that a misread call stays in."""
    given = []
    held = {name: np.full(3 * ROOM, np.nan, np.float32) for name in one.stored}
    for name, x in one.stored.items():
        held[name][ROOM : ROOM + x.size] = x.ravel()
    for name in level3.ROUTINES[one.routine].arguments:
        value = one.value(name)
        given.append(ctypes.c_void_p(held[name][ROOM:].ctypes.data) if name in held else ctypes.c_char(value.encode()) if isinstance(value, str)
                     else ctypes.byref(ctypes.c_float(value)) if name in ("alpha", "beta") else ctypes.c_int(value))
    code = getattr(reference.load(), f"lab_{one.routine.lower()}")(*given, None)
    for name, x in one.stored.items():
        x[...] = held[name][ROOM : ROOM + x.size].reshape(x.shape)
    return code


@pytest.mark.parametrize("routine", SERVED)
def test_a_right_library_has_no_fault(routine):
    assert not list(level3.faults(run, level3.calls(routine, (0, 1, 3, 9))))
    assert not list(level3.wrong_exits(run, routine))


def misread(routine: str, change) -> list[str]:
    """Faults of a library that has a call changed before it computes it."""
    def wrong(one: level3.Call) -> int:
        return run(replace(one, **change(one)))
    return list(level3.faults(wrong, level3.calls(routine, EXTENTS, (0.7,), (0.0, -0.4))))


@pytest.mark.parametrize(("routine", "letter"), [(routine, letter) for routine in SERVED for letter in level3.ROUTINES[routine].letters])
def test_a_letter_that_is_read_as_the_other_one_is_a_fault(routine, letter):
    of = level3.ROUTINES[routine].letters[letter]
    assert misread(routine, lambda one: {"letters": one.letters | {letter: of[1 - of.index(one.letters[letter])]}})


def numbers() -> list[tuple[str, str]]:
    """(routine, what may be misread of it)."""
    found = []
    for routine in SERVED:
        of = level3.ROUTINES[routine]
        found += [(routine, one) for one in ("alpha", "beta", "lda", "ldb", "ldc") if one in of.arguments]
        found += [(routine, one) for one in ("exchanged", "beside", *(["triangle"] if "uplo" in of.letters and "side" not in of.letters else []))]
    return found


@pytest.mark.parametrize(("routine", "wrong"), numbers())
def test_a_number_that_is_misread_is_a_fault(routine, wrong):
    of = level3.ROUTINES[routine]
    if wrong in ("alpha", "beta"):
        assert misread(routine, lambda one: {wrong: np.float32(-getattr(one, wrong))})
    elif wrong.startswith("ld"):
        assert misread(routine, lambda one: {"ld": one.ld | {wrong: one.ld[wrong] - 1}})
    elif wrong == "exchanged":
        x, y = of.extents[:2]
        assert misread(routine, lambda one: {"extents": one.extents | {x: one.extents[y], y: one.extents[x]}})
    else:
        def writes(one: level3.Call) -> int:
            code = run(one)
            c = one.stored[of.writes]
            if wrong == "beside" or len(c) > 1:
                c[(0, -1) if wrong == "beside" else (-1, 0) if one.letters["uplo"] == "L" else (0, 1)] = 0
            return code
        assert list(level3.faults(writes, level3.calls(routine, EXTENTS, (0.7,), (0.0,))))


def test_solving_is_judged_by_its_residual():
    def solved(one: level3.Call) -> int:
        a, b = one._op("a", "trans"), one.alpha * one.given["b"]
        x = np.linalg.solve(a, b) if one.letters["side"] == "L" else np.linalg.solve(a.T, b.T).T
        one.stored["b"][:, : len(x)] = x.T
        return 0

    assert not list(level3.faults(solved, level3.calls("STRSM", (1, 3, 33))))

    def worse(one: level3.Call) -> int:
        solved(one)
        one.stored["b"][0, 0] *= np.float32(1 + 1e-4)
        return 0

    assert list(level3.faults(worse, level3.calls("STRSM", (1, 3), (0.7,))))
