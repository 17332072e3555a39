"""An exported kernel of FP64 elements: its C interface, its prose and its example speak of doubles."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gemmgen.build import Binary
from gemmgen.catalog.output import BF16
from gemmgen.errors import SpecError
from gemmgen.export import export
from gemmgen.render import render
from ways import plan_of


def folder_of(tmp_path, **more):
    plan = plan_of("residues12", promote=0, tile={"block": [32, 32, 64], "warp": [16, 16, 64]}, stages=2, **more)
    source = render(plan)
    resources = {launch.symbol: SimpleNamespace(registers=100, static_shared_bytes=0, spill_store_bytes=0, spill_load_bytes=0) for launch in source.launches}
    binary = Binary(arch=plan.arch, code=b"\x7fELF", assembly="", kernels=resources, compiler="NVRTC 13.5", log="", key="", source_name=source.file_name,
                    from_cache=False, seconds=0.0)
    export(plan, source, binary, tmp_path / "dgemm", name="my_dgemm")
    return tmp_path / "dgemm"


def test_the_interface_and_its_prose_are_fp64s(tmp_path):
    folder = folder_of(tmp_path, layout="tn")
    header, manifest = (folder / "my_dgemm.h").read_text(), json.loads((folder / "manifest.json").read_text())
    assert "int m, int n, int k, double alpha, const double *a, int64_t lda, const double *b, int64_t ldb,\n    double beta, double *c, int64_t ldc," in header
    assert "C = alpha A B + beta C in FP64" in header and "below 2^1023" in header and "2^-1074" in header and "FP32" not in header.replace("FP32's own", "")
    assert "the same bits on every GPU" in header and manifest["computes"].startswith("C = alpha A B + beta C in FP64")
    assert "FP64" in (folder / "README.md").read_text() and "Description: FP64 matrix" in (folder / "my_dgemm.pc").read_text()
    launcher = (folder / "my_dgemm.cu").read_text()
    assert "float alpha" not in launcher and "double alpha" in launcher


def test_the_example_draws_and_compares_doubles(tmp_path):
    text = (folder_of(tmp_path) / "example.cpp").read_text()
    assert "std::vector<double> product(" in text and "long double exact = 0" in text and "std::vector<float>" not in text and "sizeof(float)" not in text
    if (compiler := shutil.which("g++")) is None:
        pytest.skip("needs g++")
    stand_in = """#pragma once
#include <cstddef>
typedef int cudaError_t; typedef void* cudaStream_t; enum { cudaSuccess, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
template <class T> int cudaMalloc(T**, size_t); int cudaFree(void*); int cudaMemset(void*, int, size_t); int cudaMemcpy(void*, const void*, size_t, int);
int cudaStreamCreate(cudaStream_t*); int cudaStreamDestroy(cudaStream_t); const char* cudaGetErrorString(int); int cudaGetDeviceCount(int*);
"""
    (tmp_path / "cuda_runtime.h").write_text(stand_in)
    (tmp_path / "cuda_runtime_api.h").write_text(stand_in)
    subprocess.run([compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{tmp_path}", "example.cpp"], cwd=tmp_path / "dgemm", check=True)


def test_a_c_of_another_type_than_a_is_refused(tmp_path):
    with pytest.raises(SpecError, match="exported C has C in FP32 alone"):
        export(replace(plan_of("ootomo"), output=BF16), None, None, tmp_path)
