"""Epilogues on a real GPU: the judge's questions to each store of kernels with every kind of argument, and the shipped spec's whole report."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ways import HOPPER, STRAIGHT, TINY, plan_of

from gemmgen import road
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
    plan = replace(plan_of(**KERNELS[name]), epilogue=epilogue_of(do), output=all_outputs()[c])
    if reason := cuda.why_not(plan):
        pytest.skip(f"NOT RUN: {reason.problem}")
    source = render(plan)
    binary = build(source)
    return Judge(plan, source, binary, cuda.CudaDevice(binary))


@pytest.mark.parametrize("do", [("bias", "bias_m", "relu", "scale"), ("bias", "gelu"), ("gelu_tanh",)], ids="+".join)
@pytest.mark.parametrize("name", KERNELS)
def test_every_question_is_answered(name, do):
    judge = made(name, do)
    checks = [judge.edges(), judge.groups(), judge.special(), judge.range(), judge.bits("probes", oracles.probes(judge.plan)),
              judge.accuracy("U[0, 1]", oracles.uniform(judge.plan, 0, 1, (1031, 1013, 2051), 6)).check]
    assert all(check.passed for check in checks), [f"{check.name}: {check.detail}" for check in checks if not check.passed]


@pytest.mark.parametrize("c", ["f16", "bf16"])
@pytest.mark.parametrize("name", ["portable", "warpgroups"])
def test_a_c_of_16_bits_is_the_sum_rounded(name, c):
    judge = made(name, ("bias", "relu"), c)
    checks = [judge.edges(), judge.special(), judge.accuracy("U[-1, 1]", oracles.uniform(judge.plan, -1, 1, (515, 517, 1027), 6)).check]
    assert all(check.passed for check in checks), [f"{check.name}: {check.detail}" for check in checks if not check.passed]


def test_a_fused_layer_has_the_plain_kernel_s_sums():
    """Bit for bit where the end rounds nothing."""
    judge = made("warpgroups", ("relu",))
    plan = replace(judge.plan, epilogue=epilogue_of(()))
    source = render(plan)
    problem = oracles.uniform(plan, -1, 1, (1031, 1013, 2051), 3)
    plain = gemm(cuda.CudaDevice(build(source)), plan, source, problem.a, problem.b).c
    assert np.array_equal(judge.run(problem).c, np.maximum(plain, 0))


def test_the_shipped_layer_passes():
    path = SPECS / "kernels" / "linear_gelu_h200.toml"
    if reason := cuda.why_not(road.plan(path)):
        pytest.skip(f"NOT RUN: {reason.problem}")
    report = road.verify(path, device="cuda")
    assert report.passed, [f"{check.name}: {check.detail}" for check in report.checks if not check.passed]
