"""The measured map of wmma fragments, measured again on this GPU.

Memory is loaded with 0, 1, ..., 255, so that the number a lane finds in x[e]
tells which element it holds there (WMMAe, Code 2).
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from gemmgen.build import compile_cuda, find_compiler
from gemmgen.catalog.fragment import FRAGMENTS
from gemmgen.catalog.gpu import GPUS
from gemmgen.fragment_header import fragment_header
from gemmgen.run import cuda

pytestmark = pytest.mark.device

ROW = FRAGMENTS.get("wmma_m16n16k16_f16")

LOADED = """
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

template <class Fragment>
__device__ void tell(const Fragment& f, int* out) {
    for (int e = 0; e < f.num_elements; ++e) out[threadIdx.x * f.num_elements + e] = int(float(f.x[e]));
}

#define DUMP(name, use, layout)                                                      \\
    extern "C" __global__ void name(const half* words, const float* sums, int* out) { \\
        wmma::fragment<wmma::use, 16, 16, 16, half, wmma::layout> f;                 \\
        wmma::load_matrix_sync(f, words, 16);                                        \\
        tell(f, out);                                                                \\
    }
DUMP(a_row_major, matrix_a, row_major)
DUMP(a_col_major, matrix_a, col_major)
DUMP(b_row_major, matrix_b, row_major)
DUMP(b_col_major, matrix_b, col_major)

#define DUMP_SUMS(name, layout)                                                      \\
    extern "C" __global__ void name(const half* words, const float* sums, int* out) { \\
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> f;                      \\
        wmma::load_matrix_sync(f, sums, 16, wmma::layout);                           \\
        tell(f, out);                                                                \\
    }
DUMP_SUMS(c_row_major, mem_row_major)
DUMP_SUMS(c_col_major, mem_col_major)
"""

MULTIPLIED = """
using namespace wmma_m16n16k16_f16;

extern "C" __global__ void multiplied(const float* x, const float* y, float* out) {
    A a;
    B b;
    C c;
    foreach_ij(a, [&](int index, int i, int j) { a.set(index, x[i * 16 + j]); });
    foreach_ij(b, [&](int index, int i, int j) { b.set(index, y[i * 16 + j]); });
    multiply_add(c, a, b);
    foreach_ij(c, [&](int index, int i, int j) { out[i * 16 + j] = c.get(index); });
}
"""


def toolkit_headers() -> list[str]:
    """Where mma.h lies for an NVRTC that brings no headers of its own (before 13.3)."""
    if find_compiler().version >= (13, 3):
        return []
    root = Path(os.environ.get("CUDA_HOME") or "/usr/local/cuda") / "include"
    if not (root / "mma.h").is_file():
        pytest.skip("NVRTC brings no headers and no CUDA toolkit is installed")
    return [f"-I{root}", f"-I{root / 'cccl'}"]


def arch() -> str:
    """An architecture of specs/gpus that this machine's GPU runs."""
    for gpu in GPUS.rows():
        if gpu.vendor == "nvidia" and cuda.why_not(gpu) is None and gpu.arch_number >= ROW.min_arch:
            return gpu.arch
    pytest.skip(f"no CUDA GPU from sm_{ROW.min_arch} on")


@pytest.fixture(scope="module")
def launch():
    """launch(source, symbol, arrays, shape, dtype): one warp, the last argument of the kernel being the result."""
    import cupy

    modules = {}

    def run(text: str, symbol: str, arrays, shape, dtype):
        if text not in modules:
            modules[text] = cupy.cuda.function.Module()
            modules[text].load(compile_cuda(text, arch(), name="wmma_map.cu", options=toolkit_headers()).code)
        out = cupy.full(shape, -1, dtype)
        modules[text].get_function(symbol)((1,), (32,), (*map(cupy.asarray, arrays), out))
        return cupy.asnumpy(out)

    return run


@pytest.mark.parametrize("layout", ["row_major", "col_major"])
@pytest.mark.parametrize("operand", ["a", "b", "c"])
def test_a_loaded_fragment_is_what_the_row_says(launch, operand, layout):
    held = getattr(ROW, operand)
    numbers = np.arange(256)
    got = launch(
        LOADED, f"{operand}_{layout}", (numbers.astype(np.float16), numbers.astype(np.float32)),
        (32, held.elements), np.int32,
    )
    wrong = [
        f"lane {lane} x[{index}]: element {divmod(value, 16)[:: 1 if layout == 'row_major' else -1]}, the row says {(i, j)}"
        for lane, register, packed, i, j in held.foreach_ij()
        for index in [register * held.packed_count + packed]
        for value in [int(got[lane, index])]
        if value != (i * 16 + j if layout == "row_major" else j * 16 + i)
    ]
    assert not wrong, "\n".join([f"{len(wrong)} of {got.size} differ", *wrong])


def test_fragments_filled_by_the_header_multiply(launch):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 10, (16, 16)).astype(np.float32) for _ in range(2))
    got = launch(fragment_header(ROW) + MULTIPLIED, "multiplied", (a, b), (16, 16), np.float32)
    assert np.array_equal(got, a @ b)
