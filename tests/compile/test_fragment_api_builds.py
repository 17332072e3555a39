"""Fragments with nvcuda::wmma's names, and the uses of headers, compile for every row, and compilers have nothing to say of them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from gemmgen.build import compile_cuda, compile_hip, find_clang
from gemmgen.catalog.fragment import FRAGMENTS
from gemmgen.fragment_header import corrected, fragment_header
from gemmgen.fragment_uses import FP32, SPACES, USES, WORDS, sizes_of, use

ROWS = {row.name: row for row in FRAGMENTS.rows() if row.b and not row.in_tensor_memory}
FIRST = ("mma_m16n8k8_tf32", "rdna4_m16n16k16_bf16")
STRICT = ("-Werror", "-Wall", "-Wextra")

KERNEL = """
using namespace NAME::SPACE;
extern "C" __attribute__((global))WORK void everything(const VALUE* a, const VALUE* b, VALUE* c, const Word* words, int ld) {
    fragment<matrix_a, M, N, K, Word, row_major> fa;
    fragment<matrix_b, M, N, K, Word, row_major> fb;
    fragment<accumulator, M, N, K, VALUE> fc;
    load_matrix_sync(fc, c, N, mem_col_major);
    load_matrix_sync(fa, a, ld);
    load_matrix_sync(fb, b, ld);
    mma_sync(fc, fa, fb, fc);
    load_matrix_sync(fa, words, ld);
    load_vector(fb, b);
    mma_rn_sync(fc, fa, fb, fc);
    mma_rz_sync(fc, fa, fb, fc);
    set_ij(fa, 1, 2, 3);
    fill_fragment(fb, 1);
    generate(fc, [](int i, int j) { return VALUE(i + j); });
    mma_sync(fc, fa, fb, fc);
    store_vector(c + M * N, fc, mem_row_major);
    store_matrix_sync(c, fc, M, mem_col_major);
}
"""


def spaces_of(row):
    return SPACES if corrected(row) else (WORDS,)


def everything(row, space: str) -> str:
    m, n, k = row.shape
    words = {"NAME": row.name, "SPACE": space, "VALUE": "int" if row.word == "s8" else "float"}
    words["WORK"] = f" __attribute__((amdgpu_flat_work_group_size({row.threads}, {row.threads})))" if row.archs else ""
    text = KERNEL
    for name, value in words.items():
        text = text.replace(name, value)
    extents = f"constexpr int M = {m}, N = {max(16, n)}, K = {k};\n"
    return fragment_header(row) + extents + text


def compiled(row, text: str):
    if row.archs:
        return compile_hip(text, row.archs[-1], options=STRICT)
    binary = compile_cuda(text, f"sm_{max(row.min_arch, 80)}")
    assert "warning" not in binary.log, binary.log
    return binary


@pytest.mark.parametrize(("row", "space"), [
    pytest.param(row, space, id=f"{row.name}-{space}", marks=() if row.name in FIRST and space == FP32 else pytest.mark.long)
    for row in ROWS.values() for space in spaces_of(row)
])
def test_all_there_is_compiles(row, space):
    assert compiled(row, everything(row, space)).kernels["everything"].spill_bytes == 0


@pytest.mark.long
@pytest.mark.parametrize(("row", "name", "space"), [
    pytest.param(row, name, space, id=f"{row.name}-{name}-{space}")
    for row in ROWS.values() if corrected(row) for name in USES for space in ((FP32,) if name == "batched" else SPACES)
    if sizes_of(row) or name not in ("householder", "givens", "scan")
])
def test_every_use_compiles(row, name, space):
    assert compiled(row, use(name, row, space)).kernels


CUDA = """
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __forceinline__ inline __attribute__((always_inline))
struct uint3 { unsigned x, y, z; };
struct uint4 { unsigned x, y, z, w; };
struct float4 { float x, y, z, w; };
extern const __device__ uint3 threadIdx, blockDim;
__device__ unsigned long __cvta_generic_to_shared(const void*);
__device__ float fmaf(float, float, float);
__device__ float fabsf(float);
__device__ float __uint_as_float(unsigned);
__device__ unsigned __float_as_uint(float);
"""
"""Of CUDA's headers, what a fragment's header uses."""


@pytest.mark.parametrize("name", ["mma_m16n8k16_f16", "wgmma_m64n8k16_f16"])
def test_the_host_reads_it_too(name, tmp_path):
    """A compiler of CUDA reads a source twice, once for the host, where no architecture is named and `map` is as constant. A second inclusion does no harm."""
    header = fragment_header(FRAGMENTS.get(name)) * 2

    def read(text: str, *options: str) -> str:
        (tmp_path / "host.cu").write_text(text)
        done = find_clang().compile(("-std=c++17", *options, "host.cu"), tmp_path)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    named = ["-D__CUDA_ARCH__=900", "-D__CUDA_ARCH_FEAT_SM90_ALL"]
    for target, right in ((named[:0], True), (["-D__CUDA_ARCH__=750"], False), (named[:1], name[0] == "m"), (named, True)):
        left = read(header.replace("#error", "refused"), "-x", "c++", "-E", "-P", *target)
        assert (left.count("refused"), left.count(f"namespace {name} {{")) == (int(not right), 1), target
    body = f"using namespace {name};\nstatic_assert(A::map(0, 0).lane == 0 && sizeof(C) == 4 * C::elements);\n"
    read(CUDA + header + body, "-x", "cuda", "--cuda-host-only", "-nocudainc", "-nocudalib", "--cuda-gpu-arch=sm_90a", "-Wno-unknown-cuda-version",
         "-fsyntax-only")


@pytest.mark.long
@pytest.mark.parametrize("name", ["mma_m16n8k16_f16", "mma_m16n8k32_s8", "wmma_m16n16k16_f16", "fma_m16n32k8_f16"])
def test_nvcc_reads_it_for_the_host_too(name, tmp_path):
    """nvcc compiles a source twice; the device's arithmetic is not there the first time."""
    if not shutil.which("nvcc"):
        pytest.skip("no nvcc")
    row = ROWS[name]
    (tmp_path / "user.cu").write_text(everything(row, WORDS))
    done = subprocess.run(
        ["nvcc", "-std=c++17", "-arch=sm_80", "--Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra", "-c", "user.cu", "-o", "user.o"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )
    assert done.returncode == 0, done.stderr
