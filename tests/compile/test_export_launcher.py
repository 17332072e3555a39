"""What the exported launcher asks of the runtime: its host code as clang compiles it, loaded into this process, against a runtime
that calls back. No GPU, toolkit or C library is needed: `cuda_runtime.h` stands here with the few declarations that an export
uses, as `hip/hip_runtime.h` does in `test_hip_export`.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from test_hip_export import HEADER as HIP_HEADER

from gemmgen import export as exporter
from gemmgen.build import build, find_clang
from gemmgen.export import prose
from gemmgen.plan import Plan
from gemmgen.render import Source, render
from gemmgen.solve import solve
from gemmgen.spec import loads
from programs import run

CUDA_HEADER = """
#pragma once
#include <stddef.h>
#include <stdint.h>
#define CUDART_VERSION 12030
#if defined(__CUDACC__)
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __cluster_dims__(...)
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
struct uint4 { unsigned x, y, z, w; };
struct uint3 { unsigned x, y, z; };
extern const __device__ uint3 threadIdx, blockIdx, gridDim;
__device__ float2 make_float2(float, float);
__device__ float4 make_float4(float, float, float, float);
__device__ unsigned __shfl_sync(unsigned, unsigned, int);
__device__ uint4 make_uint4(unsigned, unsigned, unsigned, unsigned);
__device__ size_t __cvta_generic_to_shared(const void*);
__device__ float fmaf(float, float, float);
__device__ float fabsf(float);
__device__ unsigned __float_as_uint(float);
__device__ float __uint_as_float(unsigned);
__device__ int __ffs(int);
__device__ int __clz(int);
__device__ int min(int, int);
__device__ int max(int, int);
__device__ unsigned max(unsigned, unsigned);
__device__ void __syncthreads();
__device__ void __syncwarp();
__device__ void __threadfence();
__device__ unsigned __shfl_xor_sync(unsigned, unsigned, int);
__device__ int __any_sync(unsigned, int);
__device__ unsigned atomicAdd(unsigned*, unsigned);
__device__ unsigned long long atomicAdd(unsigned long long*, unsigned long long);
__device__ unsigned atomicMax(unsigned*, unsigned);
#else
#define __host__
#define __device__
#endif
typedef enum cudaError { cudaSuccess = 0, cudaErrorMemoryAllocation = 2 } cudaError_t;
typedef struct CUstream_st* cudaStream_t;
typedef enum { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 } cudaMemcpyKind;
typedef enum { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 } cudaFuncAttribute;
typedef enum { cudaLaunchAttributeProgrammaticStreamSerialization = 6 } cudaLaunchAttributeID;
typedef union { int programmaticStreamSerializationAllowed; char pad[64]; } cudaLaunchAttributeValue;
typedef struct { cudaLaunchAttributeID id; char pad[4]; cudaLaunchAttributeValue val; } cudaLaunchAttribute;
struct dim3 {
    unsigned x, y, z;
    constexpr __host__ __device__ dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
typedef struct {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute* attrs;
    unsigned numAttrs;
} cudaLaunchConfig_t;
extern "C" {
cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t);
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void*, void**);
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int);
cudaError_t cudaMemsetAsync(void*, int, size_t, cudaStream_t);
cudaError_t cudaMemcpyAsync(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaDriverGetVersion(int*);
cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t);
}
"""

BOTH = """
extern "C" {
int (*on_launch)(const void*, unsigned, unsigned, unsigned, unsigned, size_t, void*, void**, int);
int (*on_zero)(void*, int, size_t, void*);
int of_copies, of_waits, of_settings;
"""
CUDA = '#include "cuda_runtime.h"\n' + BOTH + """
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t stream) {
    return (cudaError_t)on_launch(kernel, grid.x, grid.y, grid.z, block.x, shared, stream, args, 0);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* how, const void* kernel, void** args) {
    const int overlaps = how->numAttrs == 1 && how->attrs[0].id == cudaLaunchAttributeProgrammaticStreamSerialization &&
                         how->attrs[0].val.programmaticStreamSerializationAllowed == 1;
    return (cudaError_t)on_launch(kernel, how->gridDim.x, how->gridDim.y, how->gridDim.z, how->blockDim.x,
                                  how->dynamicSmemBytes, how->stream, args, overlaps);
}
int allowed;
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int bytes) { allowed = bytes; return (cudaError_t)of_settings; }
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) { return (cudaError_t)on_zero(to, value, bytes, stream); }
cudaError_t cudaMemcpyAsync(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t) { return (cudaError_t)of_copies; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return (cudaError_t)of_waits; }
int driver = 13000;
cudaError_t cudaDriverGetVersion(int* version) { *version = driver; return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an error"; }
unsigned __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*) { return 1; }
}
"""
HIP = '#include "hip/hip_runtime.h"\n' + BOTH + """
hipError_t hipLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** args, size_t shared, hipStream_t stream) {
    return (hipError_t)on_launch(kernel, grid.x, grid.y, grid.z, block.x, shared, stream, args, 0);
}
hipError_t hipMemsetAsync(void* to, int value, size_t bytes, hipStream_t stream) { return (hipError_t)on_zero(to, value, bytes, stream); }
hipError_t hipMemcpyAsync(void*, const void*, size_t, hipMemcpyKind, hipStream_t) { return (hipError_t)of_copies; }
hipError_t hipStreamSynchronize(hipStream_t) { return (hipError_t)of_waits; }
const char* hipGetErrorString(hipError_t) { return "an error"; }
char __hip_fatbin[1];
void* module[1];
void** __hipRegisterFatBinary(const void*) { return module; }
void __hipUnregisterFatBinary(void**) {}
void __hipRegisterFunction(void**, const void*, char*, const char*, ...) {}
int __hipPopCallConfiguration(void*, void*, size_t*, void*) { return 1; }
int atexit(void (*)(void)) { return 0; }
}
"""
SMALL = {"block": [64, 64, 32], "warp": [32, 32, 32]}
CASES = {
    "a100": {"split": {"scheme": "ootomo"}, "tile": SMALL, "target": {"gpu": "a100"}},
    "a100, row scales": {"problem": {"layout": "tn"}, "split": {"scheme": "scaled"}, "tile": {**SMALL, "split_k": 2}, "target": {"gpu": "a100"}},
    "h100, two operands": {"split": {"scheme": "ootomo", "where": "prepass"}, "target": {"gpu": "h100"}, "fragment": {"policy": "wgmma"},
                           "tile": {"block": [64, 64, 64], "warp": [64, 64, 64], "cluster": 1}},
    "h100, B alone": {"split": {"scheme": "ootomo", "where": "mixed"}, "target": {"gpu": "h100"}, "fragment": {"policy": "wgmma"},
                      "tile": {"block": [64, 64, 64], "warp": [64, 64, 64], "cluster": 2}},
    "mi210": {"split": {"scheme": "ootomo"}, "tile": SMALL, "target": {"gpu": "mi210"}},
}
TYPES = {"pointer": ctypes.c_uint64, "long long": ctypes.c_int64, "int": ctypes.c_int32, "float": ctypes.c_float}
A, B, C, WORKSPACE, STREAM = 0x1000000, 0x2000000, 0x3000000, 0x4000000, 5
REFUSED = 719
"""The runtime's code of what it refuses."""


@dataclass
class Launcher:
    """The exported functions, and what they asked for since `told` was last emptied; the runtime refuses all but the first `good` of it, if that is a number."""

    plan: Plan
    source: Source
    library: ctypes.CDLL
    told: list = field(default_factory=list)
    good: int | None = None

    def __post_init__(self) -> None:
        launches = {handle_of(self.library, self.plan, launch.role): launch for launch in self.source.launches}

        def on_launch(handle, x, y, z, threads, shared, stream, args, overlaps) -> int:
            launch = launches[handle]
            values = [ctypes.cast(args[i], ctypes.POINTER(TYPES[one.kind]))[0] for i, one in enumerate(launch.parameters)]
            self.told.append((launch.symbol, (x, y, z), threads, shared, stream, dict(zip(launch.params, values)), bool(overlaps)))
            return self.answer

        def on_zero(to, value, nbytes, stream) -> int:
            self.told.append(("zero", to, value, nbytes, stream))
            return self.answer

        call_back(self.library, on_launch, on_zero)

    @property
    def answer(self) -> int:
        """The runtime's, to what was asked for last."""
        return 0 if self.good is None or len(self.told) <= self.good else REFUSED

    def __call__(self, m: int, n: int, k: int, alpha: float = -0.5, beta: float = 2.0, name: str = "lab_gemm", code: int | None = None) -> list:
        """What is asked for by a product with distances of rows of 10000 and more; `code` is the call's, if it is not the runtime's last."""
        self.told.clear()
        wide, number, single, place = ctypes.c_int64, ctypes.c_int, ctypes.c_float, ctypes.c_void_p
        nbytes = ctypes.c_size_t(self.library.lab_gemm_workspace_bytes(m, n, k))
        returned = self.library[name](
            number(m), number(n), number(k), single(alpha), place(A), wide(10000), place(B), wide(10001), single(beta), place(C),
            wide(10002), place(WORKSPACE), nbytes, place(STREAM),
        )
        assert returned == (self.answer if code is None else code)
        return list(self.told)

    def expected(self, m: int, n: int, k: int, alpha: float = -0.5, beta: float = 2.0, same_b: bool = False) -> list:
        """The same by the plan: of `blocks` 0 there is no launch, and what follows nothing overlaps nothing."""
        work = self.source.interface.workspace(m, n, k)
        values = {
            "a": A, "b": B, "c": C, "lda": 10000, "ldb": 10001, "ldc": 10002, "m": m, "n": n, "k": k, "alpha": alpha, "beta": beta,
            "a_status": WORKSPACE, "b_status": WORKSPACE + 24, "repaired": WORKSPACE + 48,
            **{name: WORKSPACE + work.offsets[name] for name in ("a_words", "b_words", "a_absmax", "b_absmax", "parts", "arrived")},
        }
        told, before = [("zero", WORKSPACE, 0, work.zeroed, STREAM)], 0
        for launch in self.source.launches:
            blocks = (launch.blocks_same_b if same_b else launch.blocks)(self.source.interface.extents(m, n, k))
            if blocks:
                arguments = {name: values[name] for name in launch.params}
                told.append((launch.symbol, (blocks, 1, 1), launch.threads, launch.shared_bytes, STREAM, arguments, launch.overlaps and before > 0))
            before = blocks
        return told


def on_host(plan: Plan, source: Source, folder: Path, more: str = "") -> ctypes.CDLL:
    """The host code of the export in folder / "out", with a runtime that calls back.

    Args:
        more: what else CUDA declares.
    """
    amd = plan.gpu.vendor == "amd"
    header = folder / ("hip/hip_runtime.h" if amd else "cuda_runtime.h")
    header.parent.mkdir(exist_ok=True)
    header.write_text(HIP_HEADER if amd else CUDA_HEADER.replace("__device__ int __ffs(int);", "__device__ int __ffs(int);" + more))
    (folder / "runtime.cpp").write_text(HIP if amd else CUDA)
    (folder / "string.h").write_text(
        '#pragma once\n#include <stddef.h>\nextern "C" { void *memcpy(void *, const void *, size_t); void *memset(void *, int, size_t); }\n')
    found = find_clang()
    own = Path(found.driver[0]).parent / "lib" / "include"  # freestanding: stdint.h and stddef.h are clang's own
    host = (*found.driver, "--driver-mode=g++", f"--target={platform.machine()}-unknown-linux-gnu", "-std=c++17", "-O1", "-fPIC",
            "-ffreestanding", "-nostdinc", "-isystem", own, f"-I{folder}", "-Wall", "-c")
    kind = ("-x", "hip", "-nogpuinc", f"--offload-arch={plan.arch}", "-fuse-cuid=none") if amd else (
        "-x", "cuda", "-nocudainc", "-D__CUDACC__", "-include", "cuda_runtime.h", f"--cuda-gpu-arch={plan.arch}",
        "-Wno-unknown-cuda-version", "-Wno-unused-function")
    run(*host, *kind, "-nogpulib", "--cuda-host-only", "-o", folder / "launcher.o", folder / "out" / f"lab_gemm{source.suffix}")
    run(*host, "-x", "c++", "-o", folder / "runtime.o", folder / "runtime.cpp")
    run(*found.linker, "-shared", folder / "launcher.o", folder / "runtime.o", "-o", folder / "launcher.so")
    return ctypes.CDLL(str(folder / "launcher.so"))


def handle_of(library: ctypes.CDLL, plan: Plan, role: str) -> int:
    """What stands for a kernel on the host: of CUDA the function that launches it, of HIP a variable."""
    symbol = f"lab_gemm_kernel_{role}"
    if plan.gpu.vendor == "amd":
        return ctypes.addressof(ctypes.c_char.in_dll(library, symbol))
    return ctypes.cast(library[f"__device_stub__{symbol}"], ctypes.c_void_p).value


def call_back(library: ctypes.CDLL, on_launch: Callable[..., int], on_zero: Callable[..., int]) -> None:
    """Has the runtime ask these functions, which live as long as the library."""
    pointer, number, size = ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t
    library.asked = [
        ctypes.CFUNCTYPE(ctypes.c_int, pointer, *(number,) * 4, size, pointer, ctypes.POINTER(pointer), ctypes.c_int)(on_launch),
        ctypes.CFUNCTYPE(ctypes.c_int, pointer, ctypes.c_int, size, pointer)(on_zero),
    ]
    for name, function in zip(("on_launch", "on_zero"), library.asked):
        pointer.in_dll(library, name).value = ctypes.cast(function, pointer).value
    library.lab_gemm_workspace_bytes.restype = size


def loaded(case: dict, folder: Path) -> Launcher:
    """The export, its host code loaded; text and machine code are a real kernel's."""
    plan = solve(loads({**case, "build": {"allow_spills": True}}))
    source = render(plan)
    exporter.export(plan, source, build(source), folder / "out", name="lab_gemm")
    return Launcher(plan, source, on_host(plan, source, folder))


@pytest.fixture(scope="module", params=CASES)
def launcher(request, tmp_path_factory) -> Launcher:
    return loaded(CASES[request.param], tmp_path_factory.mktemp("launcher"))


@pytest.mark.parametrize("size", [(67, 41, 101), (500, 700, 333), (1, 1, 1), (9000, 8900, 64)])
def test_a_product_is_the_plans_launches(launcher, size):
    assert launcher(*size) == launcher.expected(*size)


def test_with_alpha_0_no_operand_is_split_and_k_is_none(launcher):
    """C must be scaled all the same, and by a kernel that reads neither operand."""
    told = launcher(67, 41, 101, alpha=0.0)
    assert told == launcher.expected(67, 41, 0, alpha=0.0)
    assert [one[0] for one in told] == ["zero", launcher.source.launches[-1].symbol] and told[-1][5]["k"] == 0


def test_a_grid_of_one_row_of_blocks_too_many_has_no_workspace(launcher):
    plan, (most, _) = launcher.plan, prose.largest_grid(launcher.plan, launcher.source)
    n, told, about = plan.block[1] << 14, [], most // (plan.split_k << 14)
    for rows in range(about - 2, about + 3):
        extents = launcher.source.interface.extents(plan.block[0] * rows, n, 1)
        blocks = max(replace(launch, most_blocks=None).blocks(extents) for launch in launcher.source.launches)
        told.append(launcher.library.lab_gemm_workspace_bytes(plan.block[0] * rows, n, 1) > 0)
        assert told[-1] == (blocks <= most)
    assert True in told and False in told


def test_where_c_is_empty_nothing_is_launched(launcher):
    for m, n in ((0, 5), (5, 0)):
        assert [one[0] for one in launcher(m, n, 7)] == ["zero"]


def test_b_is_split_unless_it_is_said_to_be_the_same(launcher):
    """`_same_b` takes A's blocks alone, `lab_gemm` after it all of them again; a scheme of row scales has no such function."""
    keeps = any(launch.same_b is not None for launch in launcher.source.launches)
    assert hasattr(launcher.library, "lab_gemm_same_b") == keeps
    whole = launcher.expected(500, 700, 333)
    assert launcher(500, 700, 333) == whole
    if keeps:
        rest = launcher.expected(500, 700, 333, same_b=True)
        assert rest != whole
        assert launcher(500, 700, 333, name="lab_gemm_same_b") == rest
        assert launcher(500, 700, 333) == whole


def test_what_the_runtime_refuses_ends_the_call_and_its_code_comes_back(launcher):
    """Whatever comes first; a launch that may overlap is tried once more as a plain one, which does or tells why."""
    whole = launcher.expected(500, 700, 333)
    try:
        for launcher.good in range(len(whole)):
            refused = whole[launcher.good]
            again = [(*refused[:-1], False)] if refused[0] != "zero" and refused[-1] else []
            assert launcher(500, 700, 333) == [*whole[: launcher.good + 1], *again]
    finally:
        launcher.good = None
    of = {name: ctypes.c_int.in_dll(launcher.library, f"of_{name}") for name in ("copies", "waits", "settings")}
    if launcher.plan.gpu.vendor == "nvidia":  # more shared memory than every kernel has must be allowed before a launch
        first = next(at for at, one in enumerate(whole) if one[0] != "zero" and one[3])
        of["settings"].value = REFUSED
        try:
            assert launcher(500, 700, 333, code=REFUSED) == whole[:first]
        finally:
            of["settings"].value = 0
    counts, read = ctypes.create_string_buffer(256), launcher.library.lab_gemm_read_status
    told = launcher.library.lab_gemm_error_string
    told.restype = ctypes.c_char_p
    for copies, waits in ((0, 0), (1, 0), (0, 2), (1, 2)):
        of["copies"].value, of["waits"].value = copies, waits
        assert read(ctypes.c_void_p(WORKSPACE), ctypes.c_void_p(STREAM), counts) == (copies or waits)
    for places in ((None, counts), (ctypes.c_void_p(WORKSPACE), None)):
        assert read(places[0], ctypes.c_void_p(STREAM), places[1]) == -12, "a pointer that is NULL is no workspace's"
    assert told(1) == told(REFUSED) == b"an error" and told(-1000) == b"not a code of lab_gemm"
    assert b"NULL" in told(-12) and b"grid" in told(-100), "its own codes have words of their own"


def test_launches_overlap_from_the_first_driver_that_captures_them(launcher):
    if launcher.plan.gpu.vendor == "amd":
        return
    driver = ctypes.c_int.in_dll(launcher.library, "driver")
    whole = launcher.expected(500, 700, 333)
    for driver.value in (12029, 12030, 13000):
        overlaps = driver.value >= 12030
        assert launcher(500, 700, 333) == [(*one[:-1], one[-1] and overlaps) if one[0] != "zero" else one for one in whole]


SYSTEMS = {
    "left": {"problem": {"kind": "trsm", "m": 1024, "n": 512, "k": 1024}, "split": {"scheme": "ootomo"}, "tile": SMALL, "target": {"gpu": "a100"}},
    "right, row scales": {"problem": {"kind": "trsm", "side": "right", "layout": "nt", "m": 512, "n": 1024, "k": 1024}, "split": {"scheme": "scaled"}, "tile": SMALL,
                          "target": {"gpu": "a100"}},
    "right, a batch": {"problem": {"kind": "trsm", "side": "right", "m": 512, "n": 1024, "k": 1024, "matrices": 9}, "split": {"scheme": "scaled"}, "tile": SMALL,
                       "target": {"gpu": "a100"}},
    "left, overlapping": {"problem": {"kind": "trsm", "m": 512, "n": 512, "k": 512}, "split": {"scheme": "ootomo"}, "target": {"gpu": "h100"},
                          "fragment": {"policy": "wgmma"}, "tile": {"block": [64, 64, 64], "warp": [64, 64, 64], "cluster": 2}},
    "left, complex": {"problem": {"kind": "trsm", "type": "c64", "layout": "cn", "m": 512, "n": 512, "k": 512}, "split": {"scheme": "scaled"}, "tile": SMALL,
                      "target": {"gpu": "a100"}},
    "right, complex": {"problem": {"kind": "trsm", "type": "c64", "side": "right", "m": 512, "n": 512, "k": 512}, "split": {"scheme": "scaled"}, "tile": SMALL,
                       "target": {"gpu": "a100"}},
}


@pytest.mark.parametrize("case", SYSTEMS)
def test_a_system_is_its_rounds(case, tmp_path):
    """Each with its own part of the operands, all in the workspace of the largest product; what is cleared again before a product is not the status."""
    launcher = loaded(SYSTEMS[case], tmp_path)
    plan, interface = launcher.plan, launcher.source.interface
    x, wide, number, place, reals = plan.solved.name, ctypes.c_int64, ctypes.c_int, ctypes.c_void_p, plan.kind.reals
    single = ctypes.c_float if reals == 1 else lambda one: (ctypes.c_float * 2)(one.real, one.imag)
    batch, apart = 1 + 2 * interface.batched, {"stride_a": 1 << 33, "stride_b": 1 << 34, "stride_c": -(1 << 35)}
    at = {"a": A, "b": B, "c": C, "lda": 10000, "ldb": 10000, "ldc": 10002, "batch": batch, **apart}
    strided = {name: [wide(apart[f"stride_{name}"])] if interface.batched else [] for name in "abc"}
    batched = [number(batch)] if interface.batched else []
    for unknowns, others, alpha in ((1300, 70, -0.5), (256, 5, -0.5), (1030, 3, 0.0), (700, 0, 1.0), (0, 7, 1.0)):
        alpha = alpha if reals == 1 else alpha * (1 - 3j)
        m, n = (unknowns, others) if plan.kind.left else (others, unknowns)
        work = interface.workspace(m, reals * n, reals * unknowns, batch)
        assert launcher.library.lab_gemm_workspace_bytes(m, n, *batched) == work.bytes
        launcher.told.clear()
        call = (number(m), number(n), single(alpha), place(at[x]), wide(at[f"ld{x}"]), *strided[x], place(C), wide(at["ldc"]), *strided["c"], *batched,
                place(WORKSPACE), ctypes.c_size_t(work.bytes), place(STREAM))
        assert launcher.library.lab_gemm(*call) == 0
        wanted, products = [("zero", WORKSPACE, 0, work.zeroed, STREAM)], 0
        again = next((work.offsets[one.name] for one in interface.buffers if one.zeroed_again), None)
        for number_of, one in enumerate(interface.rounds(m, reals * n, 0, alpha, 0.0) if m and n else ()):
            if not one.solves:
                if products and again is not None:
                    wanted.append(("zero", WORKSPACE + again, 0, work.zeroed - again, STREAM))
                products += 1
            given = one.given(at | {ld: reals * at[ld] for ld in ("lda", "ldb", "ldc")}, lambda operand, elements: operand + 4 * elements)
            if alpha == 0:
                given[x] = 0
            before = number_of > 0 and (one.solves or again is None)  # the round before, where no memory is set in between
            for launch in interface.launches_of(one.solves):
                blocks = launch.blocks(interface.extents(one.m, one.n, one.k, batch))
                arguments = {
                    p.name: given[p.argument] if p.argument else WORKSPACE + work.offsets[p.region] + p.offset for p in launch.parameters}
                wanted.append((launch.symbol, (blocks, 1, 1), launch.threads, launch.shared_bytes, STREAM, arguments, launch.overlaps and before > 0))
                before = blocks
        told = [tuple({name: value or 0 for name, value in part.items()} if isinstance(part, dict) else part for part in line) for line in launcher.told]
        assert told == wanted, (unknowns, others, alpha)
        for launcher.good in range(len(wanted)):
            launcher.told.clear()
            code = launcher.library.lab_gemm(*call)
            assert (code, len(launcher.told)) == (REFUSED, launcher.good + 1 + bool(wanted[launcher.good][-1] is True)), launcher.good
        launcher.good = None
    for unknowns, others in ((5, 70), (300, 3)):  # rows as long as they are, and shorter by one
        m, n = (unknowns, others) if plan.kind.left else (others, unknowns)
        nbytes = launcher.library.lab_gemm_workspace_bytes(m, n, *batched)
        for short, short_c, code in ((0, 0, 0), (1, 0, -5), (0, 1, -8 if batched else -7)):
            launcher.told.clear()
            found = launcher.library.lab_gemm(
                number(m), number(n), single(1 if reals == 1 else 1 + 0j), place(at[x]), wide(unknowns - short), *strided[x], place(C), wide(n - short_c),
                *strided["c"], *batched, place(WORKSPACE), ctypes.c_size_t(nbytes), place(STREAM))
            assert (found, bool(launcher.told)) == (code, code == 0), (m, n, short, short_c)


@pytest.mark.parametrize(("kind", "layout"), [("her2k", "nc"), ("syr2k", "tn")])
def test_two_products_are_two_rounds(kind, layout, tmp_path):
    """In one workspace; the second round has A and B exchanged, adds to C, and clears no counters. Without a product there is one."""
    launcher = loaded({"problem": {"kind": kind, "type": "c64", "layout": layout, "m": 512, "n": 512, "k": 512}, "target": {"gpu": "a100"},
                       "split": {"scheme": "scaled"}}, tmp_path)
    interface, beta = launcher.source.interface, 2.0 + 1j * (kind == "syr2k")
    wide, number, place, pair = ctypes.c_int64, ctypes.c_int, ctypes.c_void_p, ctypes.c_float * 2
    at = {"a": A, "b": B, "c": C, "lda": 10000, "ldb": 10001, "ldc": 10002}
    for m, k, alpha in ((67, 41, 0.5 - 2j), (67, 0, 0.5 - 2j), (67, 41, 0j), (0, 41, 1 + 0j)):
        nbytes, depth = interface.workspace(m, 2 * m, 2 * k).bytes, 2 * k if alpha else 0
        work = interface.workspace(m, 2 * m, depth)
        assert launcher.library.lab_gemm_workspace_bytes(m, k) == nbytes
        launcher.told.clear()
        call = (number(m), number(k), pair(alpha.real, alpha.imag), place(A), wide(10000), place(B), wide(10001),
                pair(beta.real, beta.imag) if kind == "syr2k" else ctypes.c_float(beta.real), place(C), wide(10002), place(WORKSPACE),
                ctypes.c_size_t(nbytes), place(STREAM))
        assert launcher.library.lab_gemm(*call) == 0
        wanted = [("zero", WORKSPACE, 0, work.zeroed, STREAM)]
        again = min((work.offsets[one.name] for one in interface.buffers if one.zeroed_again), default=None)
        for index, one in enumerate(interface.rounds(m, 2 * m, depth, alpha, beta) if m else ()):
            if index and again is not None:
                wanted.append(("zero", WORKSPACE + again, 0, work.zeroed - again, STREAM))
            given, before = one.given({**at, **{x: 2 * at[x] for x in ("lda", "ldb", "ldc")}}, lambda operand, elements: operand + elements), 0
            for launch in interface.launches:
                if blocks := launch.blocks(interface.extents(m, 2 * m, depth)):
                    arguments = {p.name: given[p.argument] if p.argument else WORKSPACE + work.offsets[p.region] + p.offset for p in launch.parameters}
                    wanted.append((launch.symbol, (blocks, 1, 1), launch.threads, launch.shared_bytes, STREAM, arguments, launch.overlaps and before > 0))
                before = blocks
        assert launcher.told == wanted, (m, k, alpha)
        for launcher.good in range(len(wanted)):
            launcher.told.clear()
            assert (launcher.library.lab_gemm(*call), len(launcher.told)) == (REFUSED, launcher.good + 1), launcher.good
        launcher.good = None


def test_a_triangle_s_product_is_told_what_it_has_no_argument_for(tmp_path):
    """k, which is m, where alpha is 0 as well: no words are made then, and the kernel itself reads none."""
    case = {"problem": {"kind": "trmm", "m": 512, "n": 512, "k": 512}, "split": {"scheme": "ootomo"}, "tile": SMALL, "target": {"gpu": "a100"}}
    launcher = loaded(case, tmp_path)
    wide, number, single, place = ctypes.c_int64, ctypes.c_int, ctypes.c_float, ctypes.c_void_p
    for alpha, k in ((-0.5, 67), (0.0, 0)):
        launcher.told.clear()
        nbytes = ctypes.c_size_t(launcher.library.lab_gemm_workspace_bytes(67, 41))
        assert launcher.library.lab_gemm(number(67), number(41), single(alpha), place(A), wide(10000), place(B), wide(10001), single(2.0), place(C), wide(10002),
                                         place(WORKSPACE), nbytes, place(STREAM)) == 0
        wanted = [line if line[0] == "zero" else (*line[:5], line[5] | {"k": 67}, line[6]) for line in launcher.expected(67, 41, k, alpha)]
        assert launcher.told == wanted
