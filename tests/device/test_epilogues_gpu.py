"""Epilogues on a real GPU: the judge's questions to each store of kernels with every kind of argument, and the shipped spec's whole report."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from on_a_gpu import answers, assert_right, assert_verified, judge_of
from ways import HOPPER, STRAIGHT, TINY, plan_of

from gemmgen.build import build
from gemmgen.catalog.epilogue import epilogue_of
from gemmgen.catalog.output import all_outputs
from gemmgen.paths import SPECS
from gemmgen.render import render
from gemmgen.run import cuda, gemm
from gemmgen.verify import Judge, oracles

pytestmark = pytest.mark.device
PORTABLE = dict(stages=3)
WARPGROUPS = dict(HOPPER, tile={"block": [128, 128, 64], "warp": [64, 128, 64], "cluster": 2})
KERNELS = {
    "portable": PORTABLE, "portable, slices": dict(split_k=2, tile=TINY), "straight": dict(STRAIGHT, tile={"block": [32, 32, 64], "warp": [32, 16, 16]}, stages=2),
    "warpgroups": WARPGROUPS, "warpgroups, slices": dict(HOPPER, tile={"block": [64, 64, 64], "warp": [64, 64, 64], "cluster": 1}, split_k=2, stages=3),
    "residues": dict(HOPPER, scheme="residues8", promote=0, tile={"block": [128, 64, 128], "warp": [64, 64, 128], "cluster": 1}),
}


def made(name: str, do: tuple[str, ...], c: str = "f32") -> Judge:
    return judge_of(replace(plan_of(**KERNELS[name]), epilogue=epilogue_of(do), output=all_outputs()[c]))


@pytest.mark.parametrize("do", [("bias", "bias_m", "relu", "scale"), ("bias", "gelu"), ("gelu_tanh",)], ids="+".join)
@pytest.mark.parametrize("name", KERNELS)
def test_every_question_is_answered(name, do):
    assert_right(answers(made(name, do), (1031, 1013, 2051)))


@pytest.mark.parametrize("c", ["f16", "bf16"])
@pytest.mark.parametrize("name", ["portable", "warpgroups"])
def test_a_c_of_16_bits_is_the_sum_rounded(name, c):
    judge = made(name, ("bias", "relu"), c)
    checks = [judge.edges(), judge.special(), judge.accuracy("U[-1, 1]", oracles.uniform(judge.plan, -1, 1, (515, 517, 1027), 6)).check]
    assert_right(checks)


def test_a_fused_layer_has_the_plain_kernel_s_sums():
    """Bit for bit where the end rounds nothing."""
    judge = made("warpgroups", ("relu",))
    plan = replace(judge.plan, epilogue=epilogue_of(()))
    source = render(plan)
    problem = oracles.uniform(plan, -1, 1, (1031, 1013, 2051), 3)
    plain = gemm(cuda.CudaDevice(build(source)), plan, source, problem.a, problem.b).c
    assert np.array_equal(judge.run(problem).c, np.maximum(plain, 0))


def test_the_shipped_layer_passes():
    assert_verified(SPECS / "kernels" / "linear_gelu_h200.toml")
