"""What the exported launcher of a batch asks of the runtime, as `test_export_launcher` has it for one product; and the example for AMD."""

from __future__ import annotations

import ctypes
import platform
from pathlib import Path

import pytest
from test_export_launcher import CUDA, CUDA_HEADER, HIP, HIP_HEADER, TYPES, WORKSPACE

from gemmgen import export as exporter
from gemmgen.build import build, find_clang
from gemmgen.export import batch
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import loads
from programs import need, run

SMALL = [[32, 32, 32, 128], [32, 64, 32, 128]]
CASES = {
    "grouped": {"problem": {"kind": "grouped"}, "split": {"scheme": "ootomo"}, "batch": {"tiles": SMALL}, "target": {"gpu": "h200"}},
    "grouped, listed": {"problem": {"kind": "grouped"}, "split": {"scheme": "fp32"}, "batch": {"walk": "workgroups"}, "target": {"gpu": "mi210"}},
    "strided": {"problem": {"kind": "strided"}, "split": {"scheme": "fp32"}, "target": {"gpu": "mi210"}},
    "pointers, listed": {"problem": {"kind": "pointers"}, "split": {"scheme": "ootomo"}, "batch": {"walk": "workgroups", "tiles": SMALL}, "target": {"gpu": "h200"}},
}
EVENTS = """
#if defined(__cplusplus)
typedef struct ihipEvent_t* hipEvent_t;
extern "C" {
hipError_t hipEventCreate(hipEvent_t*);
hipError_t hipEventDestroy(hipEvent_t);
hipError_t hipEventRecord(hipEvent_t, hipStream_t);
hipError_t hipEventSynchronize(hipEvent_t);
hipError_t hipEventElapsedTime(float*, hipEvent_t, hipEvent_t);
}
#endif
"""
MORE = """
__device__ void __syncwarp();
__device__ int __popc(unsigned);
__device__ unsigned __ballot_sync(unsigned, int);
__device__ unsigned __shfl_sync(unsigned, unsigned, int);
"""
PROBLEMS, LIST, STREAM, COUNT = 0x100000, 0x200000, 5, 77


@pytest.mark.parametrize("case", CASES)
def test_a_batch_is_one_launch_of_what_the_plan_says(case, tmp_path):
    plan = solve(loads({**CASES[case], "problem": {"m": 264, "n": 264, "k": 264, "matrices": 64, **CASES[case]["problem"]}, "build": {"allow_spills": True}}))
    source = render(plan)
    exporter.export(plan, source, build(source), tmp_path / "out", name="lab_gemm")
    library, handle = loaded(plan, source, tmp_path)
    told, [launch] = [], source.launches

    def on_launch(kernel, x, y, z, threads, shared, stream, args, overlaps) -> int:
        values = [ctypes.cast(args[i], ctypes.POINTER(TYPES[one.kind]))[0] for i, one in enumerate(launch.parameters)]
        told.append((kernel == handle, (x, y, z), threads, shared, stream, dict(zip(launch.params, values))))
        return 0

    def on_zero(to, value, nbytes, stream) -> int:
        told.append((to, value, nbytes, stream))
        return 0

    place, number, size, wide = ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t, ctypes.c_int64
    kept = [ctypes.CFUNCTYPE(ctypes.c_int, place, *(number,) * 4, size, place, ctypes.POINTER(place), ctypes.c_int)(on_launch),
            ctypes.CFUNCTYPE(ctypes.c_int, place, ctypes.c_int, size, place)(on_zero)]
    for name, function in zip(("on_launch", "on_zero"), kept):
        place.in_dll(library, name).value = ctypes.cast(function, place).value
    library.lab_gemm_workspace_bytes.restype = size
    nbytes, work = library.lab_gemm_workspace_bytes(), source.interface.workspace(0, 0, 0)
    assert nbytes == work.bytes
    assert library.lab_gemm_prepare(place(WORKSPACE), size(nbytes), place(STREAM)) == 0 and told == [(WORKSPACE, 0, work.zeroed, STREAM)]
    told.clear()

    stays, single, kind = plan.batch.walk == "persistent", ctypes.c_float, plan.kind
    values = {"problems": PROBLEMS, "batch": 9, "list": LIST, "m": 70, "n": 60, "k": 50, "alpha": -0.5, "beta": 2.0, "a": 1 << 20, "b": 1 << 21, "c": 1 << 22,
              "lda": 1000, "ldb": 1001, "ldc": 1002, "stride_a": 100_000, "stride_b": 0, "stride_c": 100_002}
    rows = ctypes.c_int64(COUNT)
    if kind.uniform:
        assert library.lab_gemm_tiles(70, 60, 9, None, wide(0), ctypes.byref(rows)) == 0 and rows.value >= 9
    kinds = dict.fromkeys(("lda", "ldb", "ldc", "stride_a", "stride_b", "stride_c"), wide) | dict.fromkeys(("m", "n", "k", "batch"), ctypes.c_int) | {
        "alpha": single, "beta": single}

    def called(**changed) -> int:
        order = [one.name for one in batch.arguments(plan, "lab_gemm")]
        given = {**values, **changed, "count": rows.value, "workspace": WORKSPACE, "workspace_bytes": nbytes, "stream": STREAM}
        ways = {**kinds, "count": wide, "workspace_bytes": size}
        return library[batch.entry(plan, "lab_gemm")](*(ways.get(name, place)(given[name]) for name in order))

    assert called() == 0
    blocks = launch.most_blocks if stays else rows.value
    wanted = {**values, "blocks": blocks, "threshold": plan.own.threshold, "queue": WORKSPACE + work.offsets.get("queue", 0),
              "a_status": WORKSPACE, "b_status": WORKSPACE + 24, "repaired": WORKSPACE + 48}
    assert told == [(True, (blocks, 1, 1), launch.threads, launch.shared_bytes, STREAM, {name: wanted[name] for name in launch.params})]
    told.clear()
    rows.value = 0
    assert called(batch=0) == 0 and not told
    assert called(batch=-1) < 0 and not told


def loaded(plan, source, folder: Path) -> tuple[ctypes.CDLL, int]:
    """The launcher's host code with a runtime that calls back, and what stands for its kernel."""
    amd, suffix = plan.gpu.vendor == "amd", source.suffix
    header = folder / ("hip/hip_runtime.h" if amd else "cuda_runtime.h")
    header.parent.mkdir(exist_ok=True)
    header.write_text(HIP_HEADER if amd else CUDA_HEADER.replace("__device__ int __ffs(int);", "__device__ int __ffs(int);" + MORE))
    (folder / "runtime.cpp").write_text(HIP if amd else CUDA)
    found = find_clang()
    own = Path(found.driver[0]).parent / "lib" / "include"
    host = (*found.driver, "--driver-mode=g++", f"--target={platform.machine()}-unknown-linux-gnu", "-std=c++17", "-O1", "-fPIC", "-ffreestanding", "-nostdinc",
            "-isystem", own, f"-I{folder}", "-Wall", "-c")
    (folder / "string.h").write_text(
        '#pragma once\n#include <stddef.h>\nextern "C" { void *memcpy(void *, const void *, size_t); void *memset(void *, int, size_t); }\n')
    kind = ("-x", "hip", "-nogpuinc", f"--offload-arch={plan.arch}", "-fuse-cuid=none") if amd else (
        "-x", "cuda", "-nocudainc", "-D__CUDACC__", "-include", "cuda_runtime.h", f"--cuda-gpu-arch={plan.arch}", "-Wno-unknown-cuda-version",
        "-Wno-unused-function")
    run(*host, *kind, "-nogpulib", "--cuda-host-only", "-o", folder / "launcher.o", folder / "out" / f"lab_gemm{suffix}")
    run(*host, "-x", "c++", "-o", folder / "runtime.o", folder / "runtime.cpp")
    run(*found.linker, "-shared", folder / "launcher.o", folder / "runtime.o", "-o", folder / "launcher.so")
    library, symbol = ctypes.CDLL(str(folder / "launcher.so")), f"lab_gemm_kernel_{source.launches[0].role}"
    handle = ctypes.addressof(ctypes.c_char.in_dll(library, symbol)) if amd else ctypes.cast(library[f"__device_stub__{symbol}"], ctypes.c_void_p).value
    return library, handle


@pytest.mark.parametrize("case", ["grouped, listed", "strided"])
def test_the_example_for_amd_is_clean(case, tmp_path):
    [gxx] = need("g++")
    plan = solve(loads({**CASES[case], "problem": {"m": 264, "n": 264, "k": 264, **CASES[case]["problem"]}}))
    source = render(plan)
    exporter.export(plan, source, build(source), tmp_path / "out", name="lab_gemm")
    (tmp_path / "hip").mkdir()
    (tmp_path / "hip" / "hip_runtime.h").write_text(HIP_HEADER + EVENTS)
    run(gxx, "-std=c++17", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I..", "example.cpp", cwd=tmp_path / "out")
