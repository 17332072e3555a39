"""What the exported launcher of a batch asks of the runtime, as `test_export_launcher` has it for one product; and the example for AMD."""

from __future__ import annotations

import ctypes

import pytest
from test_export_launcher import HIP_HEADER, TYPES, WORKSPACE, call_back, handle_of, on_host

from gemmgen import export as exporter
from gemmgen.build import build
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
    library = on_host(plan, source, tmp_path, MORE)
    told, [launch] = [], source.launches
    handle = handle_of(library, plan, launch.role)

    def on_launch(kernel, x, y, z, threads, shared, stream, args, overlaps) -> int:
        values = [ctypes.cast(args[i], ctypes.POINTER(TYPES[one.kind]))[0] for i, one in enumerate(launch.parameters)]
        told.append((kernel == handle, (x, y, z), threads, shared, stream, dict(zip(launch.params, values))))
        return 0

    def on_zero(to, value, nbytes, stream) -> int:
        told.append((to, value, nbytes, stream))
        return 0

    place, size, wide = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64
    call_back(library, on_launch, on_zero)
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


@pytest.mark.parametrize("case", ["grouped, listed", "strided"])
def test_the_example_for_amd_is_clean(case, tmp_path):
    [gxx] = need("g++")
    plan = solve(loads({**CASES[case], "problem": {"m": 264, "n": 264, "k": 264, **CASES[case]["problem"]}}))
    source = render(plan)
    exporter.export(plan, source, build(source), tmp_path / "out", name="lab_gemm")
    (tmp_path / "hip").mkdir()
    (tmp_path / "hip" / "hip_runtime.h").write_text(HIP_HEADER + EVENTS)
    run(gxx, "-std=c++17", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I..", "example.cpp", cwd=tmp_path / "out")
