"""The fragment headers of instructions that a warpgroup issues: they compile, and prove their maps as they do."""

from __future__ import annotations

import re

import pytest

from gemmgen.build import compile_cuda
from gemmgen.catalog.fragment import FRAGMENTS, find
from gemmgen.errors import BuildError
from gemmgen.fragment_header import fragment_header

NAMES = [row.name for row in FRAGMENTS.rows() if row.policy == "wgmma"]
WIDE = ["wgmma_m64n128k16_f16", "wgmma_m64n256k16_bf16", "wgmma_m64n160k8_tf32"]

# C = A B + A' B of one warpgroup: A in registers and, with the same words, in shared memory.
KERNEL = """
using namespace %s;
extern "C" __global__ void __launch_bounds__(128) product(const float* x, const float* y, float* out) {
    __shared__ __align__(1024) unsigned char tiles[2][256 * %d];
    constexpr int words = 16 / sizeof(Word);  // of a chunk
    A a;
    C c;
    foreach_ij(a, [&](int index, int i, int k) { a.set(index, x[i * A::columns + k]); });
    for (int n = lane_id(); n < C::columns; n += 128)
        for (int k = 0; k < A::columns; ++k)
            *(Word*)(tiles[0] + place<%d>(n, k / words) + k %% words * sizeof(Word)) = to_word(y[k * C::columns + n]);
    foreach_ij(a, [&](int index, int i, int k) {
        *(Word*)(tiles[1] + place<%d>(i, k / words) + k %% words * sizeof(Word)) = a.get(index);
    });
    fence_shared();
    __syncthreads();
    fence();
    multiply_add(c, a, descriptor<%d>(tiles[0]), false);
    multiply_add(c, descriptor<%d>(tiles[1]), descriptor<%d>(tiles[0]));
    commit();
    wait<0>();
    foreach_ij(c, [&](int index, int i, int j) { out[i * C::columns + j] = c.get(index); });
}
"""


def source(name: str, row_bytes: int) -> str:
    return fragment_header(find(name, "here")) + KERNEL % (name, *[row_bytes] * 6)


@pytest.mark.parametrize("row_bytes", [32, 64, 128])
@pytest.mark.parametrize("name", NAMES + WIDE)
def test_the_primitives_compile(name, row_bytes):
    binary = compile_cuda(source(name, row_bytes), "sm_90a", name=f"{name}_test.cu")
    row = find(name, "here")
    assert binary.assembly.count(row.instruction) == 2
    assert binary.kernels["product"].spill_bytes == 0


def test_another_architecture_is_refused_with_a_word():
    with pytest.raises(BuildError, match="needs sm_90a"):
        compile_cuda(source(NAMES[0], 64), "sm_90", cache=None)


@pytest.mark.parametrize("name", NAMES + WIDE)
def test_the_header_keeps_to_its_lines(name):
    text = fragment_header(find(name, "here"))
    assert text == fragment_header(find(name, "here")) and "#include" not in text
    picture = re.compile(r"//     ( *\d+:\d+)+")
    assert all(line == line.rstrip() and (len(line) <= 120 or picture.fullmatch(line)) for line in text.splitlines())
