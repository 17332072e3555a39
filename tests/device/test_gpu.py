"""On a real GPU: the kernels the emulator passed, and the matrix unit it rests on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from verifying import assert_passed
from ways import SPLITTING, WAYS, plan_of

from gemmgen.build import build, compile_cuda
from gemmgen.catalog.fragment import FRAGMENTS
from gemmgen.catalog.gpu import GPUS
from gemmgen.emulate.core.units import dot
from gemmgen.render import render
from gemmgen.run import Placement, cuda, gemm
from gemmgen.run.here import cuda_gpus
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.verify import Judge, oracles, verify
from gemmgen.verify.unit_probe import probe_here

pytestmark = pytest.mark.device


def local_gpu() -> str:
    """The name of the row that describes this machine's GPU."""
    row = next((one.row for one in cuda_gpus()), None)
    if row is None or cuda.why_not(row) is not None:
        pytest.skip("no CUDA GPU that runs any of specs/gpus")
    return row.name


def prepared(scheme: str, layout: str = "nn", **split):
    plan = solve(loads({
        "problem": {"layout": layout}, "split": {"scheme": scheme, **split}, "target": {"gpu": local_gpu()},
    }))
    source = render(plan)
    return plan, source, build(source)


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("scheme", SPLITTING)
def test_every_scheme_and_layout_verifies(scheme, layout):
    plan, source, binary = prepared(scheme, layout)
    report = verify(plan, source, binary, cuda.CudaDevice(binary), size=(1031, 1013, 1029))
    assert_passed(report)


@pytest.mark.parametrize("name", WAYS)
def test_every_way_verifies(name):
    """Plans made for several GPUs, as this one runs them."""
    plan, here = plan_of(**WAYS[name]), GPUS.get(local_gpu())
    if not plan.fragment.runs_on(here.arch):
        pytest.skip(f"NOT RUN: {here.arch} has no {plan.fragment.policy}")
    plan = replace(plan, gpu=here)
    source = render(plan)
    binary = build(source)
    device = cuda.CudaDevice(binary)
    device.clusters_at_once = 2  # so that blocks that work off tiles get several
    report = verify(plan, source, binary, device, size=(331, 413, 1029))
    assert_passed(report)


def test_slices_of_k_repeat_bit_for_bit():
    """The parts are added up in the order of the slices, whichever block comes last."""
    plan = plan_of(gpu=local_gpu(), split_k=7)
    source = render(plan)
    binary = build(source)
    device = cuda.CudaDevice(binary)
    problem = oracles.uniform(plan, -1, 1, (200, 300, 5000), 0)
    first = gemm(device, plan, source, problem.a, problem.b).c
    assert all(np.array_equal(gemm(device, plan, source, problem.a, problem.b).c, first) for _ in range(20))


@pytest.mark.parametrize("size", [(0, 5, 7), (5, 0, 7), (5, 7, 0), (1, 1, 1), (1, 4099, 17), (4099, 1, 31), (2, 3, 65537), (127, 129, 33), (1999, 997, 1013)])
def test_any_size(size):
    plan, source, binary = prepared("ootomo")
    judge = Judge(plan, source, binary, cuda.CudaDevice(binary))
    check = judge.accuracy("size", oracles.uniform(plan, -1, 1, size, 3)).check
    assert check.passed, check.detail


def test_offsets_beyond_32_bits():
    """Operands whose leading dimension carries the last row past 2^31 elements."""
    plan, source, binary = prepared("ootomo")
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (3, 40)).astype(np.float32), rng.uniform(-1, 1, (40, 5)).astype(np.float32)
    c = gemm(cuda.CudaDevice(binary), plan, source, a, b, placement=Placement((1 << 30, 0, 0), (4, 0, 0))).c
    want = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(c - want).max() < 1e-5


def test_two_runs_agree_bit_for_bit():
    plan, source, binary = prepared("ootomo")
    problem = oracles.uniform(plan, -1, 1, (517, 389, 4099), 1)
    device = cuda.CudaDevice(binary)
    first, second = (gemm(device, plan, source, problem.a, problem.b).c for _ in range(2))
    assert np.array_equal(first.view(np.uint32), second.view(np.uint32))


@pytest.mark.parametrize("name", [
    row.name for row in FRAGMENTS.rows() if row.vendor == "nvidia" and row.policy in ("mma", "wgmma")
])
def test_an_instruction_is_as_its_model_says(name):
    """Of every word type, integers too."""
    row, gpu = FRAGMENTS.get(name), GPUS.get(local_gpu())
    if not row.runs_on(gpu.arch):
        pytest.skip(f"{gpu.arch} does not have it")
    assert probe_here(row, gpu).summary.endswith("dot products as modelled")


MMA = """
extern "C" __global__ void one_mma(const unsigned* a, const unsigned* b, const float* c, float* d, int count) {
    const int lane = threadIdx.x % 32, which = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (which >= count) return;
    const int row = lane >> 2, pair = lane & 3;
    const unsigned* A = a + (long long)which * 16 * 8;  // [16][16] halves as [16][8] words
    const unsigned* B = b + (long long)which * 8 * 8;   // [8 columns][16] halves
    const float* C = c + (long long)which * 16 * 8;
    float x[4] = {C[row * 8 + pair * 2], C[row * 8 + pair * 2 + 1], C[(row + 8) * 8 + pair * 2], C[(row + 8) * 8 + pair * 2 + 1]};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3])
        : "r"(A[row * 8 + pair]), "r"(A[(row + 8) * 8 + pair]), "r"(A[row * 8 + pair + 4]), "r"(A[(row + 8) * 8 + pair + 4]),
          "r"(B[row * 8 + pair]), "r"(B[row * 8 + pair + 4]));
    float* D = d + (long long)which * 16 * 8;
    D[row * 8 + pair * 2] = x[0], D[row * 8 + pair * 2 + 1] = x[1];
    D[(row + 8) * 8 + pair * 2] = x[2], D[(row + 8) * 8 + pair * 2 + 1] = x[3];
}
"""


def draws(rng, shape, kind):
    if kind == "uniform":
        return rng.uniform(-1, 1, shape)
    if kind == "positive":
        return rng.uniform(0, 1, shape)
    if kind == "spread":
        return rng.standard_normal(shape) * np.exp2(rng.integers(-14, 8, shape))
    return rng.standard_normal(shape) * np.exp2(rng.integers(-24, -10, shape))  # subnormals


@pytest.mark.parametrize("kind", ["uniform", "positive", "spread", "subnormal"])
def test_the_unit_model_is_the_hardware(kind):
    """100,000 random mma over the four kinds, every bit of every result."""
    import cupy

    gpu = GPUS.get(local_gpu())
    count = 25_000
    rng = np.random.default_rng(len(kind))
    a = draws(rng, (count, 16, 16), kind).astype(np.float16)
    b = draws(rng, (count, 8, 16), kind).astype(np.float16)
    c = (draws(rng, (count, 16, 8), kind) * np.exp2(rng.integers(-20, 5, (count, 16, 8)))).astype(np.float32)
    binary = compile_cuda(MMA, gpu.arch, name="one_mma.cu")
    module = cupy.cuda.function.Module()
    module.load(binary.code)
    d = cupy.empty((count, 16, 8), cupy.float32)
    inputs = [cupy.asarray(x) for x in (a.view(np.uint32), b.view(np.uint32), c)]
    module.get_function("one_mma")(((count + 7) // 8,), (256,), (*inputs, d, np.int32(count)))
    got = cupy.asnumpy(d)
    for at in range(0, count, 500):
        part = slice(at, at + 500)
        a32, b32 = a[part].astype(np.float32)[:, :, None, :], b[part].astype(np.float32)[:, None, :, :]
        want = dot(gpu.unit, "f16", a32, b32, c[part])
        wrong = want.view(np.uint32) != got[part].view(np.uint32)
        assert not wrong.any(), f"{wrong.sum()} of {wrong.size} elements differ"
