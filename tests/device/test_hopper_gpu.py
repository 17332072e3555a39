"""The emulator's Hopper kernels on a real one: the same bits, or the emulator is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from gemmgen.build import compile_cuda
from gemmgen.catalog.gpu import GPUS
from gemmgen.run import cuda
from hopper_gemm import CASES, Problem
from on_a_gpu import needs

pytestmark = pytest.mark.device


@pytest.mark.parametrize("name", CASES)
def test_a_persistent_gemm_has_the_bits_the_emulator_says(name):
    needs(GPUS.get("h100"))
    case = CASES[name]
    problem = Problem.of(case)
    device = cuda.CudaDevice(compile_cuda(case.text, "sm_90a", allow_spills=True))
    a, b = (device.upload(array, name) for array, name in zip(problem.packed(case), "ab", strict=True))
    out = device.empty(4 * len(problem.a) * len(problem.b), "c")
    scalars = [("int", value) for value in problem.scalars]
    arguments = [("pointer", a), ("pointer", b), ("pointer", out), *scalars]
    device.launch("k", case.ctas, problem.threads, problem.shared_bytes, arguments)
    got = device.download(out, np.float32, len(problem.a) * len(problem.b))
    assert (got.reshape(len(problem.a), -1) == problem.expected(case)).all()
