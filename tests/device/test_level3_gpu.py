"""BLAS's level 3 on a GPU as LAPACK's sblat3 asks for it, whole: through a library's C functions, and through the preload library before cuBLAS."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import level3
import sblat3
from gemmgen import library
from gemmgen.library import dropped, shim
from gemmgen.library.file import library_from
from gemmgen.library.made import made
from standin import GCC
from test_gpu import local_gpu

pytestmark = [pytest.mark.device, pytest.mark.skipif(GCC is None, reason="a C compiler builds the library")]
ROUTINES = ("SGEMM", "SSYMM", "STRMM", "STRSM", "SSYRK", "SSYR2K", "SGEMMT")
PRELOADED = ("SSYMM", "STRMM", "STRSM", "SSYRK", "SSYR2K")
SUPPORT = Path(level3.__file__).parent


@cache
def built(scheme: str, place: Path) -> shim.Built:
    """A library for the GPU at hand, or the one whose folder GEMMGEN_LIBRARY names."""
    if given := os.environ.get("GEMMGEN_LIBRARY"):
        return shim.build(Path(given))
    data = {"name": "lab", "gpus": [local_gpu()], "kernels_at_most": 4, "use": [{"scheme": scheme}], "sizes": [(1024,) * 3], "batched": False,
            "routines": ["syrk", "syr2k", "gemmt", "symm", "trmm", "trsm"], "shim": ["cublas"]}
    library.write(made(library_from(data)), place / scheme)
    return shim.build(place / scheme)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("level3")


class Arena:
    """Arrays of a call in one piece of the GPU's memory, so that a call copies twice."""

    def __init__(self):
        import cupy

        self.cupy, self.memory = cupy, cupy.empty(1 << 24, cupy.uint8)

    def run(self, one: level3.Call, enqueue) -> int:
        """`enqueue(places)` is given the address of each operand."""
        places, end = {}, 0
        for name, x in one.stored.items():
            places[name] = end + 4  # not at a multiple of 16 bytes
            end += -(-(x.nbytes + 4) // 256) * 256
        host = np.zeros(end, np.uint8)
        for name, x in one.stored.items():
            host[places[name] : places[name] + x.nbytes] = np.ascontiguousarray(x).view(np.uint8).ravel()
        self.memory[:end].set(host)
        code = enqueue({name: self.memory.data.ptr + at for name, at in places.items()})
        back = self.memory[:end].get()
        for name, x in one.stored.items():
            x[...] = back[places[name] : places[name] + x.nbytes].view(np.float32).reshape(x.shape)
        return code


@pytest.mark.parametrize("routine", ROUTINES)
@pytest.mark.parametrize("scheme", ["given"] if os.environ.get("GEMMGEN_LIBRARY") else ["scaled", "ootomo"])
def test_a_library_s_routine_is_blas_s(scheme, routine, place):
    one, arena = built(scheme, place), Arena()
    function = getattr(ctypes.CDLL(str(one.kernels)), f"{one.name}_{routine.lower()}")

    def run(one: level3.Call) -> int:
        def enqueue(places: dict[str, int]) -> int:
            given = []
            for name in level3.ROUTINES[routine].arguments:
                value = one.value(name)
                given.append(ctypes.c_void_p(places[name]) if name in places else ctypes.c_char(value.encode()) if isinstance(value, str)
                             else ctypes.byref(ctypes.c_float(value)) if name in ("alpha", "beta") else ctypes.c_int(value))
            return function(*given, None)
        return arena.run(one, enqueue)

    extents = level3.EXTENTS if routine not in ("SGEMM", "SGEMMT") else (0, 1, 3, 9, 65)
    assert not list(level3.faults(run, level3.calls(routine, extents)))
    assert not list(level3.wrong_exits(run, routine))
    if routine == "STRSM":  # of several blocks of unknowns
        assert not list(level3.faults(run, level3.calls(routine, (300, 1100), (-1.3,))))


@pytest.mark.parametrize("scheme", ["given"] if os.environ.get("GEMMGEN_LIBRARY") else ["scaled"])
def test_lapack_s_own_program_passes(scheme, place, tmp_path):
    """sblat3.f, where GEMMGEN_SBLAT3_SOURCE names it and there is gfortran: results and error exits of every routine."""
    one = built(scheme, place)
    header = next(parent / "include" / "lab.h" for parent in one.kernels.parents if (parent / "include" / "lab.h").exists())
    (tmp_path / "lab.h").write_text(header.read_text())
    passed, failed = sblat3.verdict(sblat3.built(tmp_path, one.kernels), sblat3.ROUTINES)
    assert len(passed) == 2 * len(sblat3.ROUTINES) and not failed, (passed, failed)


PROGRAM = """
import ctypes, json, sys
sys.path[:0] = ALL_PATHS
import numpy as np
import level3
from test_level3_gpu import Arena

arena = Arena()
import cupy
from gemmgen.timing.blas import load_library
cupy.cuda.device.get_cublas_handle()
vendor, blas = load_library(), ctypes.CDLL(None)
handle = ctypes.c_void_p()
assert vendor.cublasCreate_v2(ctypes.byref(handle)) == 0
P, I = ctypes.c_void_p, ctypes.c_int
LETTERS = {"side": "LR", "uplo": "LU", "trans": "NT", "diag": "NU"}

def runs(on_device):
    assert vendor.cublasSetPointerMode_v2(handle, int(on_device)) == 0
    def run(one):
        def enqueue(places):
            given, kept = [handle], []
            for name in level3.ROUTINES[one.routine].arguments:
                value = one.value(name)
                if name in places:
                    given.append(P(places[name]))
                elif name in LETTERS:
                    given.append(I(LETTERS[name].index(value)))
                elif name in ("alpha", "beta"):
                    kept.append(cupy.array([value], cupy.float32) if on_device else ctypes.c_float(value))
                    given.append(P(kept[-1].data.ptr) if on_device else ctypes.byref(kept[-1]))
                else:
                    given.append(I(value))
            if one.routine == "STRMM":
                given += given[-2:]
            code = getattr(blas, f"cublas{one.routine.capitalize()}_v2")(*given)
            cupy.cuda.Device().synchronize()
            return code
        return arena.run(one, enqueue)
    return run

found = {}
for routine in ALL_ROUTINES:
    for on_device in (False, True):
        found[f"{routine} {on_device}"] = list(level3.faults(runs(on_device), level3.calls(routine, (1, 2, 9, 65), ALL_ALPHAS[routine], (0.0, -0.4))))[:5]
print(json.dumps(found))
"""


@pytest.mark.parametrize("gain", ["0", "1e9"], ids=["taken", "passed on"])
def test_cublas_s_routines_under_the_preload_library_are_blas_s(gain, place, tmp_path):
    """With scalars of the host and of the device. cuBLAS itself answers the same questions, which shows that they are those of a BLAS."""
    log = tmp_path / "log.jsonl"
    settings = dropped.environment(built("scaled", place), dropped.Settings(log=log, min_gain=float(gain)), os.environ)
    program = PROGRAM.replace("ALL_PATHS", repr([str(Path(__file__).parent), str(SUPPORT), *filter(None, sys.path)]))
    # That alpha = 0 lets no NaN of A or B through, no page of cuBLAS's says.
    alphas = {routine: (0.0, 0.7) if gain == "0" and routine != "STRSM" else (0.7, -1.3) for routine in PRELOADED}
    program = program.replace("ALL_ROUTINES", repr(PRELOADED)).replace("ALL_ALPHAS", repr(alphas))
    done = subprocess.run([sys.executable, "-c", program], env=settings, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {f"{routine} {on_device}": [] for routine in PRELOADED for on_device in (False, True)}
    lines = [line for line in dropped.read_log(log).lines if "kind" in line]
    assert {line["kind"] for line in lines if line["taken"]} == ({"symm", "trmm", "trsm", "syrk", "syr2k"} if gain == "0" else set())
