"""Exported folders in other people's builds: CMake projects of every kind, two libraries in one program, a wrong architecture."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
import test_export_batch as batch
from programs import need, run
from test_export import AMD, CASES, exported, toolkit

from gemmgen import road
from gemmgen.build import read_cubin
from gemmgen.catalog.gpu import GPUS

pytestmark = pytest.mark.slow

CASE = "fp32-tt"  # the kernels that compile fastest


def failing(*command, cwd):
    """The error text of a command that has to fail."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True)
    assert done.returncode, command
    return done.stdout + done.stderr


def test_one_file_of_c_has_the_sizes_of_two_libraries_of_one_plan(tmp_path):
    [gcc] = need("gcc")
    for name in ("one", "two"):
        exported(tmp_path / name, CASE, name)
    (tmp_path / "both.c").write_text('#include "one/one.cu"\n#include "two/two.cu"\n'
                                     "int main(void) { return one_workspace_bytes(8, 8, 8) != two_workspace_bytes(8, 8, 8); }\n")
    run(gcc, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Ione", "-Itwo", "both.c", "-o", "both", cwd=tmp_path)
    run(tmp_path / "both")


@pytest.mark.long
def test_two_libraries_of_one_plan_are_linked_into_one_program_or_included_by_one_file(tmp_path):
    nvcc, nm, cxx = need("nvcc", "nm", "g++")
    for name in ("one", "two"):
        exported(tmp_path / name, CASE, name)
        run(nvcc, "-std=c++17", "-arch=sm_80", "-O0", "-c", f"{name}.cu", "-o", f"../{name}.o", cwd=tmp_path / name)
    (tmp_path / "both.cu").write_text('#include "one/one.cu"\n#include "two/two.cu"\n'
                                      "int main() { return one_workspace_bytes(8, 8, 8) != two_workspace_bytes(8, 8, 8); }\n")
    run(nvcc, "-std=c++17", "-arch=sm_80", "-O0", "-Ione", "-Itwo", "both.cu", "-o", "both", cwd=tmp_path)
    (tmp_path / "main.cpp").write_text('#include "one/one.h"\n#include "two/two.h"\n'
                                       "int main() { return one_workspace_bytes(8, 8, 8) != two_workspace_bytes(8, 8, 8); }\n")
    library = toolkit() / "lib64"
    run(cxx, "main.cpp", "one.o", "two.o", f"-L{library}", "-lcudart", f"-Wl,-rpath,{library}", "-o", "linked", cwd=tmp_path)
    run(tmp_path / "linked")
    run(tmp_path / "both")
    defined = [{line.split()[-1] for line in run(nm, tmp_path / f"{name}.o").splitlines() if " T " in line} for name in ("one", "two")]
    assert defined[0] and not defined[0] & defined[1]


@pytest.mark.parametrize(("case", "arch", "told"), [
    ("ootomo-nn", "sm_75", "lab_gemm is for sm_80 and later: nvcc -arch=sm_80"),
    ("wgmma-nt", "sm_90", "lab_gemm is for sm_90a alone: nvcc -gencode arch=compute_90a,code=sm_90a"),
])
def test_a_wrong_architecture_is_told_with_the_right_flag(case, arch, told, tmp_path):
    [nvcc] = need("nvcc")
    folder = exported(tmp_path / "out", case)
    assert told in failing(nvcc, "-std=c++17", f"-arch={arch}", "-c", "lab_gemm.cu", cwd=folder)


STRICT = ("-std=c++17", "--Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-Werror")
BATCHES = [case for case, spec in batch.CASES.items() if GPUS.get(spec["target"]["gpu"]).vendor == "nvidia"]


def targets(*archs):
    return [f"-gencode=arch=compute_{arch[3:]},code={arch}" for arch in archs]


@pytest.mark.parametrize("case", [
    "ootomo-nn", *(pytest.param(case, marks=pytest.mark.long) for case in (*CASES, *BATCHES) if case != "ootomo-nn" and case not in AMD)])
def test_nvcc_and_its_host_compiler_have_nothing_to_say(case, tmp_path):
    """Front ends alone; the kernels of other schemes are test_warnings.py's."""
    [nvcc] = need("nvcc")
    folder = (exported if case in CASES else batch.exported)(tmp_path / "out", case)
    arch = json.loads((folder / "manifest.json").read_text())["target"]["arch"]
    run(nvcc, *STRICT, *targets(arch), "-fdevice-syntax-only", "-c", "lab_gemm.cu", "-o", "front.o", cwd=folder)


@pytest.mark.long
def test_one_source_is_compiled_for_all_architectures_and_each_has_its_cubin(tmp_path):
    [nvcc] = need("nvcc")
    spec = {"split": {"scheme": "fp32"}, "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}, "target": {"gpu": "a100"}}
    road.export(spec, tmp_path / "out", name="lab_gemm", archs=["sm_90", "sm_89"])
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    archs = ["sm_80", "sm_89", "sm_90"]
    assert [one["arch"] for one in manifest["code_objects"]] == archs
    for one in manifest["code_objects"]:
        code = (tmp_path / "out" / one["file"]).read_bytes()
        assert b".visible .entry" not in code
        assert {symbol: used.registers for symbol, used in read_cubin(code).items()} == {
            symbol: used["registers"] for symbol, used in one["kernels"].items()}
    (tmp_path / "kept").mkdir()
    run(nvcc, *STRICT, *targets(*archs), "--keep", "--keep-dir", tmp_path / "kept", "-c", "lab_gemm.cu", cwd=tmp_path / "out")
    made = [read_cubin(path.read_bytes()) for path in (tmp_path / "kept").glob("*.cubin")]
    assert len(made) == 3 and all(set(kernels) == {f"lab_gemm_kernel_{launch['role']}" for launch in manifest["launches"]} for kernels in made)
    older = failing(nvcc, "-std=c++17", "-arch=sm_75", "-c", "lab_gemm.cu", cwd=tmp_path / "out")
    assert "lab_gemm is for sm_80 and later" in older


HOST = """cmake_minimum_required(VERSION 3.18)
project(host LANGUAGES C CXX)
{before}
add_subdirectory(lab)
enable_language(CUDA)
if(NOT CMAKE_CUDA_ARCHITECTURES)
  message(FATAL_ERROR "no CMAKE_CUDA_ARCHITECTURES is left to the host")
endif()
file(WRITE ${{CMAKE_BINARY_DIR}}/own.c "#include <lab_gemm.h>\\nsize_t own(void) {{ return lab_gemm_workspace_bytes(8, 8, 8); }}\\n")
add_library(own SHARED ${{CMAKE_BINARY_DIR}}/own.c)
target_link_libraries(own PRIVATE lab_gemm)
install(TARGETS own DESTINATION lib)
"""


@pytest.mark.long
def test_a_host_project_keeps_its_settings_its_install_and_its_symbols(tmp_path):
    cmake, nm, _, _ = need("cmake", "nm", "nvcc", "g++")
    exported(tmp_path / "lab", CASE)
    (tmp_path / "CMakeLists.txt").write_text(HOST.format(before="set(CMAKE_CUDA_RUNTIME_LIBRARY Static)"))
    run(cmake, "-S", ".", "-B", "build", cwd=tmp_path)
    run(cmake, "--build", "build", cwd=tmp_path)
    run(cmake, "--install", "build", "--prefix", tmp_path / "prefix", cwd=tmp_path)
    assert [path.name for path in (tmp_path / "prefix").rglob("*") if path.is_file()] == ["libown.so"]
    library = tmp_path / "prefix" / "lib" / "libown.so"
    seen = {line.split()[-1] for line in run(nm, "-D", "--defined-only", library).splitlines()}
    assert "own" in seen and not {name for name in seen if "lab_gemm" in name}
    assert "cudart" not in run("ldd", library)  # the host said Static


@pytest.mark.long
def test_a_shared_library_shows_its_functions_alone_and_the_example_is_skipped_without_a_gpu(tmp_path):
    cmake, nm, ctest, _, _ = need("cmake", "nm", "ctest", "nvcc", "g++")
    exported(tmp_path / "lab", CASE)
    run(cmake, "-S", "lab", "-B", "build", "-DBUILD_SHARED_LIBS=ON", cwd=tmp_path)
    run(cmake, "--build", "build", cwd=tmp_path)
    seen = {line.split()[-1] for line in run(nm, "-D", "--defined-only", tmp_path / "build" / "liblab_gemm.so").splitlines()}
    assert {name for name in seen if "lab_gemm" in name} == {
        "lab_gemm", "lab_gemm_workspace_bytes", "lab_gemm_same_b", "lab_gemm_read_status", "lab_gemm_error_string"}
    told = run(ctest, "--test-dir", "build", env=os.environ | {"CUDA_VISIBLE_DEVICES": "", "LD_LIBRARY_PATH": str(toolkit() / "lib64")}, cwd=tmp_path)
    assert "Skipped" in told and "100% tests passed" in told


def test_nothing_is_kept_for_a_product_without_elements(tmp_path):
    [gcc] = need("gcc")
    folder = exported(tmp_path / "out")
    (folder / "none.c").write_text('#include "lab_gemm.cu"\n'
                                   "int main(void) { return lab_gemm_workspace_bytes(0, 4096, 4096) > 4096 || lab_gemm_workspace_bytes(4096, 0, 4096) > 4096"
                                   " || lab_gemm_workspace_bytes(0, 1, 1) == 0; }\n")
    run(gcc, "-std=c99", "-Wall", "-Wextra", "-Werror", "none.c", "-o", "none", cwd=folder)
    run(folder / "none")


def test_what_is_shipped_has_no_ptx_in_it(tmp_path):
    """A third of the bytes, and the same resources."""
    spec = {"split": {"scheme": "fp32"}, "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}, "target": {"gpu": "a100"}}
    kernel = road.build(spec)
    road.export(kernel, tmp_path / "out", name="lab_gemm")
    shipped = (tmp_path / "out" / "lab_gemm.cubin").read_bytes()
    assert b".visible .entry" in kernel.binary.code and b".visible .entry" not in shipped and 2 * len(shipped) < len(kernel.binary.code)
    assert read_cubin(shipped) == read_cubin(kernel.binary.code)
