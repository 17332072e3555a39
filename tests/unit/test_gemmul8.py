"""GEMMul8 as a rival: its shim against stand-ins of its signatures on the CPU, and what is said where something is missing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from gemmgen.cli import main
from gemmgen.errors import BuildError, DeviceError, SpecError
from gemmgen.timing import gemmul8
from gemmgen.timing.gemmul8 import Gemmul8, Shim, asked
from gemmgen.workshop.bench import measure

COMPILER = [("c++", "-O0", "-std=c++20", "-fPIC")]
BLAS = """#pragma once
#include <cstddef>
#include <vector>
typedef struct handle *cublasHandle_t;
typedef struct lt *cublasLtHandle_t;
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
inline int cublasCreate(cublasHandle_t *handle) { *handle = reinterpret_cast<cublasHandle_t>(64); return 0; }
"""
# What a column-major product does, where the arguments are as its authors name them. C is multiplied by what was asked, so that a test sees it.
BODY = """{
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < m; i++) {
            T sum = 0;
            for (size_t l = 0; l < k; l++) sum += A[i + l * lda] * B[l + j * ldb];
            C[i + j * ldc] = *alpha * sum + *beta * C[i + j * ldc];
        }
    static_cast<char *>(work)[0] = static_cast<char>(num_moduli), static_cast<char *>(work)[1] = fastmode;
    if (num_moduli == 19) throw 1;
    return {};
}
"""
ARGUMENTS = """cublasHandle_t, cublasOperation_t, cublasOperation_t, size_t m, size_t n, size_t k, const T *alpha, const T *const A, size_t lda,
    const T *const B, size_t ldb, const T *beta, T *const C, size_t ldc, unsigned num_moduli, bool fastmode, void *const work"""
FIRST = BLAS + f"""namespace gemmul8 {{
size_t workSize(const size_t m, const size_t n, const size_t k, const unsigned num_moduli);
template <typename T> std::vector<double> gemm({ARGUMENTS});
template <> std::vector<double> gemm<float>({ARGUMENTS.replace("T *", "float *").replace("T *const", "float *const")});
}}
"""
FIRST_BODY = f"""#include "gemmul8.hpp"
namespace gemmul8 {{
size_t workSize(const size_t m, const size_t n, const size_t k, const unsigned num_moduli) {{ return m + 10 * n + 100 * k + 1000 * num_moduli; }}
template <> std::vector<double> gemm<float>({ARGUMENTS.replace("T *", "float *").replace("T *const", "float *const")}) {BODY.replace("T sum", "float sum")}
}}
"""
LATER = BLAS + f"""namespace gemmul8 {{
enum class Backend {{ INT8, FP8 }};
enum class Func {{ gemm, symm }};
template <bool is_Complex = false, Backend backend = Backend::INT8, Func FUNC = Func::gemm> size_t workSize(
    size_t m, size_t n, size_t k, int num_moduli, bool = false, bool = false, size_t * = nullptr, size_t * = nullptr, bool = false
) {{ return m + 10 * n + 100 * k + 1000 * num_moduli; }}
template <Backend backend = Backend::INT8, bool is_Complex = false, Func FUNC = Func::gemm> size_t workSize(
    size_t m, size_t n, size_t k, int num_moduli, bool = false, bool = false, size_t * = nullptr, size_t * = nullptr, bool = false
) {{ return workSize<is_Complex, backend, FUNC>(m, n, k, num_moduli); }}
template <typename TA, Backend backend = Backend::INT8, typename TB = TA, typename T = TA> std::vector<double> gemm(
    {ARGUMENTS.replace("const T *const A", "const TA *const A").replace("const T *const B", "const TB *const B").replace("unsigned", "int")},
    void *const = nullptr, void *const = nullptr, bool = false, bool = false, bool = false, bool = false) {BODY}
template <Backend backend, typename TA, typename TB = TA, typename T = TA> std::vector<double> gemm(
    {ARGUMENTS.replace("const T *const A", "const TA *const A").replace("const T *const B", "const TB *const B").replace("unsigned", "int")},
    void *const workA = nullptr, void *const = nullptr, bool = false, bool = false, bool = false, bool = false) {{ return {{}}; }}
template <typename T> std::vector<double> gemm(cublasLtHandle_t) {{ return {{}}; }}
}}
"""
needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")


def installed(folder, header, body='#include "gemmul8.hpp"\n', deeper="", library=True):
    """A stand-in's folder."""
    root = folder / deeper
    (root / "include").mkdir(parents=True)
    (root / "lib").mkdir()
    (root / "include" / gemmul8.HEADER).write_text(header)
    (root / "body.cpp").write_text(body)
    if library:
        subprocess.run(["c++", "-std=c++20", "-shared", "-fPIC", f"-I{root}/include", "-o", f"{root}/lib/libgemmul8.so", f"{root}/body.cpp"], check=True)
    return folder


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory):
    """The first version's signature, a folder deeper, and the latest one's."""
    return {
        "first": installed(tmp_path_factory.mktemp("first"), FIRST, FIRST_BODY, "GEMMul8"),
        "later": installed(tmp_path_factory.mktemp("later"), LATER),
    }


@needs_compiler
@pytest.mark.parametrize(("version", "number"), [("first", "float"), ("later", "float"), ("later", "double")])
def test_either_signature_is_called(stand_ins, version, number):
    """A row-major product of three different extents, where a turned argument shows, and no caller's type decides."""
    shim = Shim(stand_ins[version], "--rival", COMPILER, number)
    dtype = {"float": np.float32, "double": np.float64}[number]
    size = m, n, k = 3, 5, 7
    assert shim.work_bytes(size, 8) == n + 10 * m + 100 * k + 8000  # of the column-major product, n by m
    rng = np.random.default_rng(0)
    a, b, c, work = rng.integers(-9, 9, (m, k)).astype(dtype), rng.integers(-9, 9, (k, n)).astype(dtype), np.zeros((m, n), dtype), np.zeros(2, np.int8)
    shim.multiply(size, *(one.ctypes.data for one in (a, b, c)), 8, False, work.ctypes.data)
    assert (c == a @ b).all() and work.tolist() == [8, 0]
    shim.multiply(size, *(one.ctypes.data for one in (a, b, c)), 9, True, work.ctypes.data)
    assert work.tolist() == [9, 1]
    with pytest.raises(DeviceError, match="gemm failed") as caught:
        shim.multiply(size, *(one.ctypes.data for one in (a, b, c)), 19, True, work.ctypes.data)
    assert "exception" in str(caught.value)


def test_what_a_rival_is_linked_with_comes_after_it(monkeypatch):
    commands = []
    monkeypatch.setattr(gemmul8.shutil, "which", lambda name: f"/x/{name}")
    monkeypatch.setattr(gemmul8.subprocess, "run", lambda command, **how: commands.append(command) or SimpleNamespace(returncode=0))
    with pytest.raises(BuildError, match="does not load"):
        gemmul8._loaded(Path("/r/include"), Path("/r/lib/libgemmul8.so"), "--rival", gemmul8.COMPILERS, "float")
    [[program, *options]] = commands
    assert program == "/x/nvcc" and options[-5:] == ["/r/lib/libgemmul8.so", "-lcublas", "-lcublasLt", "-Xlinker", "-rpath=/r/lib"]
    assert not any(one.startswith("-l") for one in options[:-5]) and "-I/r/include" in options


@needs_compiler
def test_a_contender_has_its_workspace_once_and_its_error_is_judged(stand_ins, monkeypatch):
    """On NumPy's memory in place of the GPU's."""
    class Array(np.ndarray):
        data = property(lambda self: SimpleNamespace(ptr=self.ctypes.data))

    made = []

    def empty(count, kind):
        made.append(np.zeros(count, kind).view(Array))
        return made[-1]

    monkeypatch.setitem(__import__("sys").modules, "cupy", SimpleNamespace(empty=empty, uint8=np.uint8))
    rng = np.random.default_rng(0)
    inputs = SimpleNamespace(size=(2, 3, 4), sets=2, a=[rng.random((2, 4), np.float32).view(Array) for _ in range(2)],
                             b=[rng.random((4, 3), np.float32).view(Array) for _ in range(2)], c=[np.zeros((2, 3), np.float32).view(Array) for _ in range(2)])
    rival = Gemmul8(stand_ins["later"], 9, fast=False)
    one = gemmul8.contender(rival, Shim(rival.path, rival.where, COMPILER), inputs)
    for index in (0, 1, 2):
        one.enqueue(index)
    assert [np.allclose(c, a @ b) for a, b, c in zip(inputs.a, inputs.b, inputs.c)] == [True, True]
    assert len(made) == 1 and (made[0][0], made[0][1], made[0].size) == (9, 0, 3 + 10 * 2 + 100 * 4 + 1000 * 9)
    assert (one.name, one.capturable, one.judged, one.detail) == ("gemmul8-9-accurate", False, True, "9 moduli, accurate")


@needs_compiler
def test_a_library_is_opened_once_for_all_its_lines(stand_ins, monkeypatch):
    monkeypatch.setattr(gemmul8, "COMPILERS", COMPILER)
    opened, made = [], Shim
    monkeypatch.setattr(gemmul8, "Shim", lambda path, where: opened.append(path) or made(path, where, COMPILER))
    path = stand_ins["later"]
    found = measure.opened([Gemmul8(path, 7), Gemmul8(path, 8)], lambda text: None)
    assert len(opened) == 1 and [rival.moduli for rival, _ in found] == [7, 8]


# ---- what is asked, and what is missing


def test_what_a_line_asks():
    assert asked("gemmul8=/opt/g") == Gemmul8(gemmul8.Path("/opt/g"), 8, True)
    assert [asked(f"gemmul8=/opt/g,moduli={moduli}").moduli for moduli in (2, 20)] == [2, 20]
    assert asked("gemmul8=/opt/g,moduli=14,accurate") == Gemmul8(gemmul8.Path("/opt/g"), 14, False)
    assert asked("gemmul8=a/b=c,fast").path == gemmul8.Path("a/b=c")


@pytest.mark.parametrize("text", [
    "gemmul8", "gemmul8=", "gemmul9=/opt", "=x", "", "gemmul8=x,moduli=1", "gemmul8=x,moduli=21", "gemmul8=x,moduli=eight", "gemmul8=x,moduli=" + "9" * 5000,
    "gemmul8=x,", "gemmul8=x,quick", "gemmul8=x,fast=1", "gemmul8=x,moduli=²",
])
def test_a_line_that_cannot_be_read(text):
    with pytest.raises(SpecError) as caught:
        asked(text)
    told = str(caught.value)
    assert all(part in told for part in ("--rival", "got", "needs", "gemmul8=PATH", "try")) and len(told) < 1500


def refusal(call):
    with pytest.raises((SpecError, BuildError)) as caught:
        call()
    told = str(caught.value)
    assert told.startswith("--rival") and all(f"  {part}" in told for part in ("got", "needs", "try"))
    return told


def test_what_is_missing_is_told(tmp_path, capsys):
    assert "is no path" in refusal(lambda: Shim(tmp_path / "none", "--rival"))
    assert "has no header gemmul8.hpp" in refusal(lambda: Shim(tmp_path, "--rival"))
    folder = installed(tmp_path / "unbuilt", LATER, library=False)
    assert "has no library libgemmul8.so or libgemmul8.a" in refusal(lambda: Shim(folder, "--rival"))
    (folder / "lib" / "libgemmul8.a").write_text("")
    assert "none on the PATH" in refusal(lambda: Shim(folder, "--rival", [("no-such-nvcc", "-O2")]))

    assert main(["bench", "specs/kernels/hopper.toml", "--rival", f"gemmul8={tmp_path / 'none'}"]) == 2
    assert "is no path" in capsys.readouterr().err


@needs_compiler
@pytest.mark.parametrize("header, said", [
    (BLAS + "namespace gemmul8 { size_t workSize(size_t); }", "is no GEMMul8"),
    (BLAS, "is no GEMMul8"),
    ("#error a version that is no more", "a version that is no more"),
])
def test_a_signature_that_is_not_known(tmp_path, header, said):
    folder = installed(tmp_path, header, "int nothing;")
    told = refusal(lambda: Shim(folder, "--rival", COMPILER))
    assert said in told and "num_moduli, fastmode, work" in told


@needs_compiler
def test_a_library_without_what_its_header_declares(tmp_path):
    """Which shows when it is loaded; a library in the header's own folder is found too."""
    folder = installed(tmp_path, FIRST, "int nothing;")
    assert "does not load" in refusal(lambda: Shim(folder / "lib" / "libgemmul8.so", "--rival", COMPILER))
