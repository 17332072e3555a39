"""CUDA source to machine code with the real compiler, on a machine without a GPU.

These tests need NVRTC and fail without it; the `dev` extra brings it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import json
import mmap
import pickle
import random
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gemmgen.build import cuda, nvrtc
from gemmgen.cache import Cache
from gemmgen.build.cubin import read_cubin
from gemmgen.build.cuda import compile_cuda, find_compiler
from gemmgen.build.request import Request
from gemmgen.errors import BuildError, GemmgenError, ResourceError

SCALE = """\
extern "C" __global__ void __launch_bounds__(128) scale(float* x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= a;
}
"""

# 96 live values in the 64 registers that 1,024 threads leave to each.
SPILL = """\
extern "C" __global__ void __launch_bounds__(1024) spill(float* p, int n) {
    float v[96];
    #pragma unroll
    for (int i = 0; i < 96; i++) v[i] = p[i * 32 + threadIdx.x];
    for (int t = 0; t < n; t++) {
        #pragma unroll
        for (int i = 0; i < 96; i++) v[i] = v[i] * v[(i + 7) % 96] + v[(i + 31) % 96];
    }
    #pragma unroll
    for (int i = 0; i < 96; i++) p[i * 32 + threadIdx.x] = v[i];
}
"""

# Spills of double precision, which move 8 and 16 bytes at once, beside an indexed array.
SPILL_AND_STACK = """\
extern "C" __global__ void __launch_bounds__(1024) spill_and_stack(float* p, const int* q, int n) {
    float w[40];
    for (int i = 0; i < 40; i++) w[i] = p[i];
    double v[64];
    #pragma unroll
    for (int i = 0; i < 64; i++) v[i] = p[i * 32 + threadIdx.x];
    for (int t = 0; t < n; t++) {
        w[q[t]] += w[q[t + 1]];
        #pragma unroll
        for (int i = 0; i < 64; i++) v[i] = v[i] * v[(i + 7) % 64] + v[(i + 31) % 64];
    }
    #pragma unroll
    for (int i = 0; i < 64; i++) p[i * 32 + threadIdx.x] = v[i] + w[i % 40];
}
"""

STACK = """\
extern "C" __global__ void stack(float* p, const int* q, int n) {
    float v[40];
    for (int i = 0; i < 40; i++) v[i] = p[i];
    for (int t = 0; t < n; t++) v[q[t]] += v[q[t + 1]];
    for (int i = 0; i < 40; i++) p[i] = v[i];
}
"""

SHARED = """\
extern "C" __global__ void __launch_bounds__(256) shared(float* p) {
    __shared__ float s[1000];
    __shared__ double d[10];
    s[threadIdx.x] = p[threadIdx.x];
    if (threadIdx.x < 10) d[threadIdx.x] = p[5];
    __syncthreads();
    p[threadIdx.x] = s[999 - threadIdx.x] + d[threadIdx.x % 10];
    asm volatile("bar.sync 3, 64;");
    p[4] = s[4];
}
"""

DYNAMIC = """\
extern "C" __global__ void dynamic(float* p, int barrier) {
    extern __shared__ float s[];
    s[threadIdx.x] = p[threadIdx.x];
    asm volatile("bar.sync %0, 64;" :: "r"(barrier));
    p[threadIdx.x] = s[99 - threadIdx.x];
}
"""

CALL = """\
__noinline__ float work(float* p, int n) {
    float v[70];
    #pragma unroll
    for (int i = 0; i < 70; i++) v[i] = p[i * 32 + threadIdx.x];
    for (int t = 0; t < n; t++) {
        #pragma unroll
        for (int i = 0; i < 70; i++) v[i] = v[i] * v[(i + 7) % 70] + v[(i + 31) % 70];
    }
    float sum = 0;
    #pragma unroll
    for (int i = 0; i < 70; i++) sum += v[i];
    return sum;
}
extern "C" __global__ void __launch_bounds__(1024) call(float* p, int n) {
    p[0] = work(p, n) * work(p + 5, n + 1);
}
"""

MATRIX = """\
extern "C" __global__ void __launch_bounds__(128) matrix(float* c, const unsigned* a) {
    float d[32][4] = {};
    for (int k = 0; k < 64; k++) {
        #pragma unroll
        for (int j = 0; j < 32; j++)
            asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"
                         "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                         : "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
                         : "r"(a[k]), "r"(a[k + 64]), "r"(a[k * 32 + j]));
    }
    #pragma unroll
    for (int j = 0; j < 32; j++)
        for (int i = 0; i < 4; i++) c[(j * 4 + i) * 32 + threadIdx.x] = d[j][i];
}
"""

DIVIDE = """\
extern "C" __global__ void divide(double* p, float* q) {
    p[0] = p[1] / p[2];
    q[0] = sinf(q[1]) / q[2];
}
"""

ALL = "\n".join((SCALE, SPILL, SPILL_AND_STACK, STACK, SHARED, DYNAMIC, CALL, MATRIX, DIVIDE))
KERNELS = (
    "scale", "spill", "spill_and_stack", "stack", "shared", "dynamic", "call", "matrix", "divide",
)  # fmt: skip


@pytest.fixture(autouse=True)
def no_user_cache(monkeypatch):
    """No test reads or writes the cache of the person who runs it."""
    monkeypatch.setenv("GEMMGEN_CACHE", "off")


def refused(text: str, arch: str = "sm_80", **arguments) -> BuildError:
    with pytest.raises(BuildError) as caught:
        compile_cuda(text, arch, **arguments)
    return caught.value


# --- resources --------------------------------------------------------------------------------


def logged_resources(log: str) -> dict[str, dict[str, int]]:
    """What `ptxas -v` tells, by kernel; a kernel's functions follow it."""
    told = {}
    for block in log.split("Compiling entry function '")[1:]:
        used = re.search(r"Used (\d+) registers.*", block)
        line = used[0]

        def number(pattern: str, text: str) -> int:
            found = re.search(pattern, text)
            return int(found[1]) if found else 0

        told[block.partition("'")[0]] = {
            "registers": int(used[1]),
            "barriers": number(r"used (\d+) barriers", line),
            "static_shared_bytes": number(r"(\d+) bytes smem", line),
            "stack_bytes": number(r"(\d+) bytes cumulative stack", line),
            "spill_store_bytes": sum(map(int, re.findall(r"(\d+) bytes spill stores", block))),
            "spill_load_bytes": sum(map(int, re.findall(r"(\d+) bytes spill loads", block))),
            "constant_bytes": sum(map(int, re.findall(r"(\d+) bytes cmem", line))),
        }
    return told


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"])
def test_the_cubin_and_the_log_tell_the_same(arch):
    binary = compile_cuda(ALL, arch, cache=None, allow_spills=True)
    told = logged_resources(binary.log)
    assert set(told) == set(binary.kernels) == set(KERNELS)
    for name, numbers in told.items():
        read = dataclasses.asdict(binary.kernels[name])
        if not numbers["constant_bytes"]:  # not told from sm_90 on
            assert int(arch[3:].rstrip("a")) >= 90
            del numbers["constant_bytes"]
        assert {key: read[key] for key in numbers} == numbers, name

    kernels = binary.kernels
    assert kernels["spill"].spill_store_bytes > 200 < kernels["spill"].spill_load_bytes
    assert kernels["spill"].registers == 64
    assert kernels["call"].spill_bytes > 0  # in a function that the kernel calls
    assert (kernels["stack"].stack_bytes, kernels["stack"].spill_bytes) == (160, 0)
    assert kernels["shared"].static_shared_bytes == 1000 * 4 + 10 * 8
    assert kernels["shared"].barriers == 4
    assert (kernels["dynamic"].barriers, kernels["dynamic"].static_shared_bytes) == (16, 0)
    assert kernels["matrix"].registers > 128
    assert kernels["scale"].max_threads == (128, 1, 1)
    assert kernels["divide"].max_threads is None


def test_resources_are_read_again_from_the_cubin():
    binary = compile_cuda(SHARED, "sm_80", cache=None)
    assert read_cubin(binary.code) == binary.kernels


def test_spills_are_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(ResourceError) as caught:
        compile_cuda(SPILL + SCALE, "sm_80", name="gemm.cu", cache=Cache(tmp_path))
    allowed = compile_cuda(
        SPILL + SCALE, "sm_80", name="gemm.cu", cache=Cache(tmp_path), allow_spills=True
    )
    spill = allowed.kernels["spill"]
    assert str(caught.value) == (
        "gemm.cu: kernel spill: spills registers to memory on sm_80\n"
        "  needs  0 B of spill stores and loads\n"
        f"  has    64 registers a thread, {spill.spill_store_bytes} B of spill stores, "
        f"{spill.spill_load_bytes} B of spill loads, a stack of {spill.stack_bytes} B\n"
        "  try    a smaller warp tile, fewer accumulators, or allow spills in the spec"
    )
    assert allowed.from_cache  # what was built is kept, whatever the caller thinks of it
    with pytest.raises(ResourceError):  # and the cache lets no spill through
        compile_cuda(SPILL + SCALE, "sm_80", name="gemm.cu", cache=Cache(tmp_path))


def test_a_stack_without_spills_is_accepted():
    assert compile_cuda(STACK, "sm_80", cache=None).kernels["stack"].stack_bytes == 160


def test_spills_that_the_cubin_does_not_mark_are_not_passed_over():
    recursive = """
        __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
        extern "C" __global__ void k(int* p) { *p = fib(*p); }
    """
    error = refused(recursive, cache=None)
    assert "disagree about resources" in str(error)
    assert "no recursion" in error.remedy


# --- output -----------------------------------------------------------------------------------


def test_every_listed_architecture_compiles():
    listed = find_compiler().archs
    assert {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a", "sm_121"} <= set(
        listed
    )
    assert listed == cuda.ARCHS
    for arch in listed:
        binary = compile_cuda(SCALE, arch, cache=None)
        assert binary.arch == arch
        assert f".target {arch}\n" in binary.assembly
        assert set(binary.kernels) == {"scale"}


def test_no_accepted_architecture_is_left_out():
    compiler = find_compiler()
    candidates = [f"sm_{n}{s}" for n in range(75, 125) for s in ("", "a", "f")]
    empty = "#error reached"
    accepted = {
        arch
        for arch in candidates
        if "reached" in compiler.run(empty, "k.cu", [f"-arch={arch}"]).log
    }
    assert accepted == set(compiler.archs)


def test_the_parts_of_a_binary(tmp_path):
    binary = compile_cuda(SCALE, "sm_80", name="split/scale.cu", cache=None)
    assert binary.code.startswith(b"\x7fELF")
    assert ".visible .entry scale(" in binary.assembly
    assert "\0" not in binary.assembly
    assert re.fullmatch(r"NVRTC \d+\.\d+", binary.compiler)
    assert re.fullmatch(r"[0-9a-f]{64}", binary.key)
    assert (binary.arch, binary.source_name, binary.from_cache) == (
        "sm_80",
        "split/scale.cu",
        False,
    )
    assert binary.seconds > 0
    assert pickle.loads(pickle.dumps(binary)) == binary
    assert hash(binary) == hash(dataclasses.replace(binary))


def test_line_information_names_the_source_and_no_folder_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    binary = compile_cuda(SCALE, "sm_80", name="scale.cu", cache=Cache(tmp_path / "cache"))
    assert re.findall(r"^\s*\.file\s+(.*)$", binary.assembly, re.M) == ['1 "scale.cu"']
    assert re.search(r"^\s*\.loc\s+1 3 ", binary.assembly, re.M)  # the multiplication
    for folder in (tmp_path, Path.home(), find_compiler().path.parent):
        assert str(folder) not in binary.assembly
        assert str(folder).encode() not in binary.code


def test_a_warning_does_not_stop_a_build():
    binary = compile_cuda(SCALE.replace("int i", "int unused; int i"), "sm_80", cache=None)
    assert '"unused" was declared but never referenced' in binary.log


# --- refusals ---------------------------------------------------------------------------------


def test_an_unknown_architecture_lists_the_known_ones():
    for arch in ("sm_81", "80", "sm_70", "sm_90f", "compute_80", ""):
        error = refused(SCALE, arch)
        assert error.got == arch
        assert "sm_80, " in error.needs and "sm_90a" in error.needs


def test_a_syntax_error_points_at_its_line():
    broken = SCALE.replace("x[i] *= a;", "x[i] *= b;") + "int y = ;\n"
    error = refused(broken, name="gemm.cu")
    assert str(error) == (
        'gemm.cu:3: does not compile for sm_80: identifier "b" is undefined (the first of 2 errors)'
        "\n  got    'if (i < n) x[i] *= b;'"
    )
    assert "expected an expression" in error.__notes__[0]  # the whole log travels along
    assert "/gemmgen/" not in error.__notes__[0]


def test_the_source_line_is_quoted_below_an_explanation():
    overloads = "float f(float*);\nfloat f(int*);\n" + SCALE.replace("*= a", "= f(a)")
    error = refused(overloads)
    assert error.where == "kernel.cu:5"
    assert error.got == "if (i < n) x[i] = f(a);"


def test_an_error_of_the_assembler_points_at_the_line_behind_the_ptx():
    wrong = SCALE.replace("if (i", 'asm volatile("mma.bogus %0;" :: "r"(n));\n    if (i')
    error = refused(wrong)
    assert error.where == "kernel.cu:3"
    assert "'.bogus'" in error.problem
    assert error.got.startswith("mma.bogus %r")


def test_an_instruction_of_one_chip_names_the_architecture_that_has_it():
    source = 'extern "C" __global__ void k() { asm volatile("wgmma.fence.sync.aligned;"); }'
    compile_cuda(source, "sm_90a", cache=None)
    assert "compile for sm_90a" in refused(source, "sm_90").remedy


def test_too_much_static_shared_memory():
    error = refused(SHARED.replace("s[1000]", "s[20000]"))
    assert "too much shared data" in error.problem
    assert "dynamic" in error.remedy


def test_a_missing_header():
    error = refused('#include "nowhere.h"\n' + SCALE)
    assert error.where == "kernel.cu:1"
    assert error.got == '#include "nowhere.h"'
    assert "-I" in error.remedy


def test_a_source_without_kernels():
    for text in ("", "__device__ int f() { return 1; }"):
        assert "defines no kernel" in refused(text).problem


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"options": ["--bogus"]}, "--bogus"),
        ({"options": ["--ptxas-options=-bogus"]}, "bogus"),
        ({"options": ["-arch=sm_90"]}, "-arch=sm_90"),
        ({"options": ["-dlto"]}, "-dlto"),
        ({"options": "-G"}, "a list of strings"),
        ({"options": ["-DX=\0"]}, "not text"),
        ({"name": "/etc/kernel.cu"}, "relative path"),
        ({"name": 'a "b".cu'}, "relative path"),
        ({"name": ""}, "relative path"),
        ({"text": SCALE + "// \ud800"}, "not text"),
    ],
)
def test_requests_that_cannot_be_served(arguments, told):
    assert told in str(refused(**{"text": SCALE, "cache": None, **arguments}))


def test_truncated_cubins_are_build_errors():
    cubin = compile_cuda(SHARED, "sm_120a", cache=None).code
    for size in [*range(0, 200), *range(200, len(cubin), 41), len(cubin) - 1]:
        with pytest.raises(BuildError):
            read_cubin(cubin[:size])


def test_damaged_cubins_are_build_errors_or_harmless():
    cubin = compile_cuda(SPILL, "sm_90a", cache=None, allow_spills=True).code
    chance = random.Random(1)
    for _ in range(500):
        bad = bytearray(cubin)
        for _ in range(20):
            bad[chance.randrange(len(bad))] = chance.randrange(256)
        try:
            read_cubin(bytes(bad))
        except BuildError:
            pass


# --- the compiler itself ----------------------------------------------------------------------


def test_no_compiler_says_what_to_install(monkeypatch):
    monkeypatch.delenv("GEMMGEN_NVRTC", raising=False)
    monkeypatch.setattr(nvrtc, "_candidates", lambda: iter([Path("/nowhere/libnvrtc.so.13")]))
    error = refused(SCALE)
    assert "was not found" in str(error)
    assert "pip install 'gemmgen[cuda13]'" in error.remedy
    assert "GEMMGEN_NVRTC" in error.remedy


def test_the_compiler_the_environment_names_is_the_one_used(monkeypatch, tmp_path):
    there = find_compiler()
    link = tmp_path / "libnvrtc.so"
    link.symlink_to(there.path)
    monkeypatch.setenv("GEMMGEN_NVRTC", str(link))
    assert find_compiler().path == link
    assert find_compiler().identity == there.identity  # so both share their cache entries
    assert find_compiler() is find_compiler()


def test_the_wheel_comes_before_a_toolkit(monkeypatch):
    monkeypatch.setenv("CUDA_HOME", "/opt/toolkit")
    monkeypatch.setenv("CUDA_PATH", "/opt/other")
    paths = list(map(str, nvrtc._candidates()))
    toolkits = [path for path in paths if not path.startswith(tuple(map(str, importlib.util.find_spec("nvidia").submodule_search_locations)))]
    assert toolkits == [f"{place}/{folder}/libnvrtc.so.{version}" for place in ("/opt/toolkit", "/opt/other", "/usr/local/cuda") for version in (13, 12)
                        for folder in ("lib64", "lib")]
    wheel = next(i for i, path in enumerate(paths) if path.endswith("cu13/lib/libnvrtc.so.13"))
    assert wheel < paths.index("/opt/toolkit/lib64/libnvrtc.so.13")
    assert paths.index("/opt/toolkit/lib64/libnvrtc.so.13") < paths.index(
        "/usr/local/cuda/lib64/libnvrtc.so.13"
    )


@pytest.mark.parametrize("damage", ["missing", "folder", "empty", "text", "truncated", "other"])
def test_a_damaged_library_is_a_build_error(damage, monkeypatch, tmp_path):
    whole, library = find_compiler().path, tmp_path / "libnvrtc.so"
    if damage == "folder":
        library.mkdir()
    elif damage == "empty":
        library.write_bytes(b"")
    elif damage == "text":
        library.write_text("not found\n")
    elif damage == "truncated":  # loading it would kill the process
        with whole.open("rb") as file:
            library.write_bytes(file.read(1 << 20))
    elif damage == "other":  # a library, but not NVRTC
        library.symlink_to(next(whole.parent.glob("libnvrtc-builtins.so.*")))
    monkeypatch.setenv("GEMMGEN_NVRTC", str(library))
    error = refused(SCALE)
    assert error.where == str(library)
    assert "cannot be loaded" in error.problem
    assert "pip install 'gemmgen[cuda13]'" in error.remedy


# --- the cache --------------------------------------------------------------------------------


def test_the_second_build_comes_from_the_cache(tmp_path):
    cache = Cache(tmp_path)
    start = time.perf_counter()
    first = compile_cuda(SCALE, "sm_80", cache=cache)
    assert 0 < first.seconds <= time.perf_counter() - start
    second = compile_cuda(SCALE, "sm_80", cache=cache)
    assert (first.from_cache, second.from_cache) == (False, True)
    assert second == first
    assert (second.log, second.seconds) == (first.log, first.seconds)


def test_the_key_holds_all_that_determines_the_bytes(tmp_path):
    built = [
        compile_cuda(SCALE, "sm_80", cache=None),
        compile_cuda(SCALE + "\n", "sm_80", cache=None),
        compile_cuda(SCALE, "sm_86", cache=None),
        compile_cuda(SCALE, "sm_80", cache=None, name="other.cu"),
        compile_cuda(SCALE, "sm_80", cache=None, options=["-use_fast_math"]),
    ]
    assert len({binary.key for binary in built}) == len(built)
    assert compile_cuda(SCALE, "sm_80", cache=Cache(tmp_path)).key == built[0].key
    compiler = find_compiler()
    build = re.fullmatch(r"NVRTC \d+\.\d+ build ([0-9a-f]{16,})", compiler.identity)  # a rebuilt library of the same size is another compiler
    with compiler.path.open("rb") as library, mmap.mmap(library.fileno(), 0, access=mmap.ACCESS_READ) as bytes_of:
        assert bytes_of.rfind(bytes.fromhex(build[1])) > 0
    request = Request(SCALE, "sm_80", "kernel.cu", ())
    other = dataclasses.replace(find_compiler(), identity="NVRTC 13.9 build 00")
    keys = [request.key(compiler, cuda._options(request, True)) for compiler in (find_compiler(), other)]
    assert keys[0] == built[0].key != keys[1]


def test_a_damaged_entry_is_built_again(tmp_path):
    cache = Cache(tmp_path)
    first = compile_cuda(SCALE, "sm_80", cache=cache)
    entry = cache.path(first.key)
    whole = entry.read_bytes()
    for damaged in (whole[:-1], whole[: len(whole) // 2], b"", whole.replace(b"scale", b"scalf")):
        entry.write_bytes(damaged)
        again = compile_cuda(SCALE, "sm_80", cache=cache)
        assert not again.from_cache
        assert again == first
        assert compile_cuda(SCALE, "sm_80", cache=cache).from_cache


def test_without_a_usable_cache(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    for cache in (None, Cache(tmp_path / "file"), Cache("/proc/gemmgen")):
        for _ in range(2):
            assert not compile_cuda(SCALE, "sm_80", cache=cache).from_cache
    monkeypatch.setenv("GEMMGEN_CACHE", str(tmp_path / "file"))
    assert not compile_cuda(SCALE, "sm_80").from_cache


def test_files_that_the_key_does_not_know_are_not_cached(tmp_path):
    (tmp_path / "value.h").write_text("#define VALUE 2")
    text = '#include "value.h"\n' + SCALE.replace("*= a", "*= VALUE")
    for including, options in (
        (text, ["-I" + str(tmp_path)]),
        (text.replace("value.h", f"{tmp_path}/value.h"), []),
    ):
        for _ in range(2):
            binary = compile_cuda(including, "sm_80", options=options, cache=Cache(tmp_path / "c"))
            assert not binary.from_cache


# --- headers ----------------------------------------------------------------------------------

HALF = """#include <cuda_fp16.h>
#include <cuda/std/algorithm>
extern "C" __global__ void half_add(half* x, unsigned n) {
    x[n] = __hadd(x[n], half(cuda::std::min(n, 7u)));  // with line information, names a header
}
"""


def test_bundled_headers(tmp_path):
    cache = Cache(tmp_path)
    binary = compile_cuda(HALF, "sm_80", cache=cache)
    assert str(tmp_path) not in binary.assembly
    assert str(tmp_path).encode() not in binary.code
    assert compile_cuda(HALF, "sm_80", cache=cache).from_cache
    folders = [path.name for path in (tmp_path / "headers").iterdir()]
    assert len(folders) == 1 and folders[0].startswith("nvrtc-")

    error = refused(HALF.replace("x[n] =", "x[n].y ="), cache=cache)
    assert str(tmp_path) not in str(error)
    without = compile_cuda(HALF, "sm_80", cache=None)  # headers in a temporary folder
    assert without == binary


# --- processes and threads --------------------------------------------------------------------

CHILD = """
import hashlib, json, pathlib, sys, time
before = "libcuda.so" in pathlib.Path("/proc/self/maps").read_text()  # an interpreter may be started with it
from gemmgen.build import compile_cuda, find_compiler
from gemmgen.cache import Cache

find_compiler()
folder, text = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).read_text()
(folder / f"ready-{sys.argv[3]}").touch()
while not all((folder / f"ready-{n}").exists() for n in "12"):
    time.sleep(0.001)
binary = compile_cuda(text, "sm_80", cache=Cache(folder / "cache"))
maps = pathlib.Path("/proc/self/maps").read_text()
print(json.dumps({
    "cubin": hashlib.sha256(binary.code).hexdigest(),
    "ptx": hashlib.sha256(binary.assembly.encode()).hexdigest(),
    "driver": not before and "libcuda.so" in maps,
    "compiler": "libnvrtc.so" in maps,
}))
"""


@pytest.mark.parametrize("text", [SCALE + SHARED, HALF], ids=["plain", "headers"])
def test_two_processes_with_one_empty_cache(text, tmp_path):
    (tmp_path / "kernel.cu").write_text(text)
    children = []
    for number in "12":
        (tmp_path / f"cwd{number}").mkdir()
        children.append(
            subprocess.Popen(
                [sys.executable, "-c", CHILD, tmp_path, tmp_path / "kernel.cu", number],
                cwd=tmp_path / f"cwd{number}",  # bytes must not depend on it
                stdout=subprocess.PIPE,
            )
        )
    told = [json.loads(child.communicate(timeout=60)[0]) for child in children]
    assert [child.returncode for child in children] == [0, 0]
    here = compile_cuda(text, "sm_80", cache=Cache(tmp_path / "cache"))
    assert here.from_cache
    assert told[0] == told[1]
    assert told[0]["cubin"] == hashlib.sha256(here.code).hexdigest()
    assert not told[0]["driver"]
    assert told[0]["compiler"]
    assert not list((tmp_path / "cache").rglob(".unfinished-*"))


def test_threads_share_a_compiler(tmp_path):
    jobs = [
        (text, arch)
        for text in (SCALE, SHARED, STACK, DYNAMIC, "int broken = ;")
        for arch in ("sm_80", "sm_90a")
    ]

    def build(job):
        try:
            return compile_cuda(*job, cache=Cache(tmp_path))
        except GemmgenError as error:
            return str(error)

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(build, jobs * 2))
    alone = [build(job) for job in jobs]
    assert together == alone * 2


def test_importing_the_room_is_cheap():
    script = (
        "import sys, gemmgen.build\n"
        "print([m for m in ('ctypes', 'numpy', 'gemmgen.build.nvrtc') if m in sys.modules])"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert told.stdout == "[]\n"
