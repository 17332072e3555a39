"""The folder that another project embeds, for AMD: its one source through clang for the device and for the host,
its launcher run against a runtime that only notes what it is asked, and its CMake file read by CMake.

ROCm is not needed: `hip/hip_runtime.h` stands here with the few declarations that the export uses, as ROCm has
them, and with the global names that ROCm's own header brings and a kernel's text must live beside.
"""

from __future__ import annotations

import json
import re
import struct
import subprocess
from pathlib import Path

import pytest
from gemmgen import export as exporter
from gemmgen.build import build, compile_hip, find_clang, read_code_object
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import loads
from programs import need, run

HEADER = """
#pragma once
#include <stddef.h>
#include <stdint.h>
#if defined(__HIP__)
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __forceinline__ inline __attribute__((always_inline))
struct float4 { float x, y, z, w; };
struct uint4 { unsigned x, y, z, w; };
__host__ __device__ uint4 make_uint4(unsigned, unsigned, unsigned, unsigned);
__device__ float fmaf(float, float, float);
__device__ float fabsf(float);
__device__ unsigned __float_as_uint(float);
__device__ float __uint_as_float(unsigned);
__device__ int __ffs(int);
__device__ int __clz(int);
__host__ __device__ int min(int, int);
__host__ __device__ int max(int, int);
#else
#define __host__
#define __device__
#endif
#define HIP_NODISCARD [[nodiscard]]
typedef enum HIP_NODISCARD hipError_t { hipSuccess = 0, hipErrorInvalidValue = 1, hipErrorOutOfMemory = 2 } hipError_t;
typedef struct ihipStream_t* hipStream_t;
typedef enum hipMemcpyKind { hipMemcpyHostToHost, hipMemcpyHostToDevice, hipMemcpyDeviceToHost } hipMemcpyKind;
struct dim3 {
    uint32_t x, y, z;
    constexpr __host__ __device__ dim3(uint32_t x = 1, uint32_t y = 1, uint32_t z = 1) : x(x), y(y), z(z) {}
};
extern "C" {
hipError_t hipLaunchKernel(
    const void* function_address, dim3 numBlocks, dim3 dimBlocks, void** args, size_t sharedMemBytes, hipStream_t stream);
hipError_t hipMalloc(void** ptr, size_t size);
hipError_t hipFree(void* ptr);
hipError_t hipMemset(void* dst, int value, size_t sizeBytes);
hipError_t hipMemcpy(void* dst, const void* src, size_t sizeBytes, hipMemcpyKind kind);
hipError_t hipMemsetAsync(void* dst, int value, size_t sizeBytes, hipStream_t stream);
hipError_t hipMemcpyAsync(void* dst, const void* src, size_t sizeBytes, hipMemcpyKind kind, hipStream_t stream);
hipError_t hipStreamCreate(hipStream_t* stream);
hipError_t hipStreamDestroy(hipStream_t stream);
hipError_t hipStreamSynchronize(hipStream_t stream);
const char* hipGetErrorString(hipError_t hipError);
hipError_t hipGetDeviceCount(int* count);
}
#if defined(__cplusplus)
template <class T>
hipError_t hipMalloc(T** ptr, size_t size) { return hipMalloc((void**)ptr, size); }
#endif
"""
CASES = {
    "mi210": {"split": {"scheme": "ootomo"}, "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}, "target": {"gpu": "mi210"}},
    "mi300x": {"problem": {"layout": "tt"}, "split": {"scheme": "scaled"}, "target": {"gpu": "mi300x"},
               "tile": {"block": [64, 64, 32], "warp": [32, 32, 32], "split_k": 2}},
    "mi355x": {"split": {"scheme": "fp32"}, "tile": {"block": [64, 64, 16], "warp": [32, 32, 16]}, "target": {"gpu": "mi355x"}},
    "rx7900xtx": {"problem": {"layout": "nt"}, "split": {"scheme": "bf16x3", "where": "register"}, "target": {"gpu": "rx7900xtx"},
                  "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}},
}
FURTHER = {"mi210": ["gfx942"], "mi300x": ["gfx90a"], "mi355x": ["gfx908"], "rx7900xtx": []}


@pytest.fixture(scope="module", params=CASES)
def made(request, tmp_path_factory):
    """(folder, plan, source) of an export with `hip/hip_runtime.h` beside it."""
    plan = solve(loads({**CASES[request.param], "build": {"allow_spills": True}}))
    source = render(plan)
    folder = tmp_path_factory.mktemp(request.param)
    further = [compile_hip(source.text, arch, name=source.file_name, allow_spills=True) for arch in FURTHER[request.param]]
    exporter.export(plan, source, build(source), folder / "out", others=further, name="lab_gemm")
    (folder / "rocm" / "hip").mkdir(parents=True)
    (folder / "rocm" / "hip" / "hip_runtime.h").write_text(HEADER)
    return folder / "out", plan, source


def clang(folder: Path, arch: str, *arguments: object) -> None:
    """As hipcc would call it where it is called as the folder says: default warnings, which are errors here, and the headers above."""
    [standard] = re.findall(r"hipcc (-std=\S+) -O3", (folder / "README.md").read_text())
    program = find_clang().driver
    own = Path(program[0]).parent / "lib" / "include"  # freestanding: stdint.h and stddef.h are clang's own
    run(*program, "-x", "hip", "-nogpuinc", "-nogpulib", "--target=x86_64-unknown-linux-gnu", f"--offload-arch={arch}", standard,
        "-O1", "-ffreestanding", "-nostdinc", "-isystem", own, f"-I{folder.parent / 'rocm'}", "-I.", "-Werror", "-fuse-cuid=none",
        *arguments, cwd=folder)


def test_the_code_objects_are_of_the_architectures_that_the_manifest_tells(made):
    folder, plan, source = made
    manifest = json.loads((folder / "manifest.json").read_text())
    assert [one["arch"] for one in manifest["code_objects"]] == [plan.arch, *FURTHER[plan.gpu.name]]
    for one in manifest["code_objects"]:
        kernels = read_code_object((folder / one["file"]).read_bytes())
        assert {name: used.registers for name, used in kernels.items()} == {
            name: told["registers"] for name, told in one["kernels"].items()
        }
        assert all(used.wavefront_size == plan.lanes for used in kernels.values())
    assert len({(folder / one["file"]).read_bytes() for one in manifest["code_objects"]}) == len(manifest["code_objects"])


def test_the_source_compiles_for_the_device_beside_rocms_names(made, tmp_path):
    folder, plan, _ = made
    for arch in (plan.arch, *FURTHER[plan.gpu.name]):
        clang(folder, arch, "--cuda-device-only", "--no-gpu-bundle-output", "-S", "-o", tmp_path / "kernel.s", "lab_gemm.hip")
        assert f"amdhsa--{arch}" in (tmp_path / "kernel.s").read_text()


RUNTIME = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lab_gemm.h"

char __hip_fatbin[1];
typedef struct { uint32_t x, y, z; } dim;
static struct { const void* handle; const char* name; } kernels[8];
static int known;

void** __hipRegisterFatBinary(const void* data) { (void)data; return (void**)kernels; }
void __hipUnregisterFatBinary(void** modules) { (void)modules; }
void __hipRegisterFunction(void** modules, const void* handle, char* name, const char* device_name, ...)
{
    (void)modules, (void)name;
    kernels[known].handle = handle, kernels[known++].name = device_name;
}
int __hipPopCallConfiguration(dim* grid, dim* block, size_t* shared, void** stream)
{
    return grid || block || shared || stream;
}
const char* hipGetErrorString(int error) { return error == 2 ? "out of memory" : "no error"; }
int hipMemsetAsync(void* target, int value, size_t bytes, void* stream)
{
    printf("zero %p %d %zu %p\n", target, value, bytes, stream);
    return 0;
}
int hipMemcpyAsync(void* target, const void* source, size_t bytes, int kind, void* stream)
{
    (void)target, (void)source;
    printf("copy %zu %d %p\n", bytes, kind, stream);
    return 0;
}
int hipStreamSynchronize(void* stream) { printf("wait %p\n", stream); return 0; }

static int refuse;
int hipLaunchKernel(const void* handle, dim grid, dim block, void** args, size_t shared, void* stream)
{
    const char* types = NULL;
    for (int i = 0; i < known; ++i)
        if (kernels[i].handle == handle) {
            printf("launch %s %u %u %u", kernels[i].name, grid.x, grid.y, grid.z);
            printf(" %u %u %u %zu %p", block.x, block.y, block.z, shared, stream);
            types = TYPES(kernels[i].name);
        }
    for (int i = 0; types[i]; ++i) {
        uint64_t value = 0;
        memcpy(&value, args[i], types[i] == '8' ? 8 : 4);
        printf(" %llx", (unsigned long long)value);
    }
    printf("\n");
    return refuse;
}

int main(void)
{
    const float* const a = (const float*)0x1000000;
    const float* const b = (const float*)0x2000000;
    float* const c = (float*)0x3000000;
    void* const work = (void*)0x4000000, *const stream = (void*)0x5;
    lab_gemm_status status;
    const size_t bytes = lab_gemm_workspace_bytes(67, 41, 101);
    if (lab_gemm(67, 41, 101, -0.5f, a, 200, b, 201, 2.0f, c, 202, work, bytes, stream)) return 1;
    if (lab_gemm_read_status(work, stream, &status)) return 2;
    if (lab_gemm(67, 41, 101, 1.0f, a, 200, b, 201, 2.0f, c, 202, work, bytes - 1, stream) != lab_gemm_BAD_WORKSPACE_BYTES) return 3;
    refuse = 2;
    if (lab_gemm(67, 41, 101, 1.0f, a, 200, b, 201, 2.0f, c, 202, work, bytes, stream) != 2) return 4;
    return strcmp(lab_gemm_error_string(2), "out of memory") || strcmp(lab_gemm_error_string(-12), "workspace: NULL, or not aligned");
}
"""


def test_the_launcher_asks_the_runtime_for_what_the_source_tells(made, tmp_path):
    folder, plan, source = made
    [gcc] = need("gcc")
    clang(folder, plan.arch, "--cuda-host-only", "-fPIC", "-c", "-o", tmp_path / "launcher.o", "lab_gemm.hip")
    sizes = {"pointer": "8", "long long": "8", "int": "4", "float": "4"}
    types = {f"lab_gemm_kernel_{launch.role}": "".join(sizes[one.kind] for one in launch.parameters) for launch in source.launches}
    chosen = " : ".join(f'!strcmp(name, "{symbol}") ? "{codes}"' for symbol, codes in types.items())
    (tmp_path / "runtime.c").write_text(f"#define TYPES(name) ({chosen} : NULL)\n" + RUNTIME)
    run(gcc, "-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{folder}", "runtime.c", "launcher.o", "-o", "program", cwd=tmp_path)
    told = [line.split() for line in run(tmp_path / "program").splitlines()]

    m, n, k = 67, 41, 101
    work = source.interface.workspace(m, n, k)
    base = 0x4000000
    assert told[0] == ["zero", hex(base), "0", str(work.zeroed), "0x5"]
    pointers = {
        "a": 0x1000000, "b": 0x2000000, "c": 0x3000000, "a_status": base, "b_status": base + 24, "repaired": base + 48,
        **{name: base + work.offsets[name] for name in ("a_words", "b_words", "a_absmax", "b_absmax", "parts", "arrived")},
    }
    numbers = {"m": m, "n": n, "k": k, "lda": 200, "ldb": 201, "ldc": 202}
    floats = {name: struct.unpack("<I", struct.pack("<f", value))[0] for name, value in (("alpha", -0.5), ("beta", 2.0))}
    for launch, line in zip(source.launches, told[1:]):
        blocks = launch.blocks(source.interface.extents(m, n, k))
        assert line[:10] == ["launch", f"lab_gemm_kernel_{launch.role}", str(blocks), "1", "1", str(launch.threads), "1", "1", "0", "0x5"]
        assert [int(value, 16) for value in line[10:]] == [{**pointers, **numbers, **floats}[name] for name in launch.params]
    rest = told[1 + len(source.launches) :]
    assert rest[:2] == [["copy", "56", "2", "0x5"], ["wait", "0x5"]]
    assert [line[0] for line in rest[2:]] == ["zero", "launch"], "what is refused ends the call, and its code is the runtime's"


def test_the_example_is_a_program_against_rocms_header(made):
    folder, plan, _ = made
    [gxx] = need("g++")
    run(gxx, "-std=c++17", "-D__HIP_PLATFORM_AMD__", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{folder.parent / 'rocm'}", "-I.",
        "example.cpp", cwd=folder)


READER = """
foreach(command add_library set_target_properties target_include_directories target_link_libraries add_executable enable_testing
        add_test install find_package project set_tests_properties target_compile_definitions)
  cmake_language(EVAL CODE "
    function(${command})
      string(REPLACE \\";\\" \\",\\" told \\"\\${ARGV}\\")
      message(\\"${command} \\${told}\\")
    endfunction()")
endforeach()
set(PROJECT_NAME lab_gemm)
set(PROJECT_VERSION 0.1.0)
set(CMAKE_CURRENT_BINARY_DIR ${OUT})
include(${FOLDER}/CMakeLists.txt)
message("kernel_architectures ${kernel_architectures} CMAKE_HIP_ARCHITECTURES ${CMAKE_HIP_ARCHITECTURES}")
"""


def test_cmake_reads_its_file(made, tmp_path):
    """By a script that notes the commands: to run them, CMake would look for ROCm."""
    folder, plan, source = made
    [cmake] = need("cmake")
    (tmp_path / "reader.cmake").write_text(READER)
    done = subprocess.run(
        [cmake, f"-DFOLDER={folder}", f"-DOUT={tmp_path}", "-P", "reader.cmake"], cwd=tmp_path, capture_output=True, text=True,
    )
    assert done.returncode == 0, done.stderr
    told = done.stderr
    archs = [plan.arch, *FURTHER[plan.gpu.name]]
    for wanted in (
        "project lab_gemm,VERSION,0.1.0,LANGUAGES,CXX,HIP", "find_package hip,REQUIRED,HINTS,/opt/rocm",
        "add_library lab_gemm,lab_gemm.hip,lab_gemm.h", f"HIP_ARCHITECTURES,{','.join(archs)},HIP_STANDARD,17",
        "target_link_libraries lab_gemm,PUBLIC,hip::host",
        f"kernel_architectures {';'.join(archs)} CMAKE_HIP_ARCHITECTURES {';'.join(archs)}",
    ):
        assert wanted in told, told
    [installed] = re.findall(r"^install FILES,(manifest.*),DESTINATION,share/lab_gemm$", told, re.M)
    assert set(installed.split(",")) <= {path.name for path in folder.iterdir()}, "what is installed is there"
    assert "find_dependency(hip HINTS /opt/rocm)" in (tmp_path / "lab_gemmConfig.cmake").read_text()
