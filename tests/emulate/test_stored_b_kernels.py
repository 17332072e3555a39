"""Kernels that read B of FP16 or BF16 as it is stored: every bit, every count, and what is computed again from the operands."""

from __future__ import annotations

import numpy as np
import pytest
from verifying import assert_bits, judge_of
from ways import HOPPER, SMALL_GROUPS, TENSOR_MEMORY, plan_of, tailed

from gemmgen.verify import Judge, oracles

KERNELS = {
    "warpgroups": dict(SMALL_GROUPS, scheme="ootomo_b16"),
    "warpgroups, k together": dict(SMALL_GROUPS, scheme="bf16x3_bb16", layout="nt"),
    "warpgroups that split A": dict(SMALL_GROUPS, scheme="ootomo_b16", where="mixed", layout="nt"),
    "warpgroups in clusters": dict(
        HOPPER, scheme="bf16x2_bb16", layout="tn", stages=3, tile={"block": [64, 32, 32], "warp": [64, 32, 32], "cluster": 2}, promote=32),
    "tensor memory": dict(TENSOR_MEMORY, scheme="ootomo_b16"),
    "tensor memory, pairs, k together": dict(
        TENSOR_MEMORY, scheme="bf16x3_bb16", layout="nt", promote=32, tile={"block": [128, 32, 32], "warp": [128, 16, 32], "cluster": 2}),
    "portable": dict(scheme="ootomo_b16", layout="tt"),
    "portable, two buffers": dict(scheme="bf16x2_bb16", layout="tn", fragment_buffers=2, promote=32),
    "portable, through registers": dict(scheme="ootomo_b16", layout="nt", loads="spread"),
    "mfma": dict(gpu="mi300x", scheme="ootomo_b16", layout="nt"),
    "mfma that flushes": dict(gpu="mi210", scheme="ootomo_b16"),
}


def of_kernel(name: str) -> Judge:
    return judge_of(plan_of(**KERNELS[name]))


@pytest.mark.parametrize("name", tailed(KERNELS, {"tensor memory", "tensor memory, pairs, k together"}))
def test_bits_and_counts_are_the_schemes_on_the_unit(name):
    assert_bits(of_kernel(name))


@pytest.mark.parametrize("name", tailed(["warpgroups", "portable", "mfma that flushes", "tensor memory"], {"tensor memory"}))
def test_each_product_special_values_and_every_magnitude(name):
    """Subnormal elements of B are words like others, but for a unit that takes them for zero, where they count as lossy."""
    judge = of_kernel(name)
    for check in (judge.bits("probes", oracles.probes(judge.plan)), judge.special(), judge.range()):
        assert check.passed, check.detail


def test_odd_sizes_strides_and_misaligned_elements():
    judge = of_kernel("warpgroups, k together")
    check = judge.edges()
    assert check.passed, check.detail


def test_values_that_b_cannot_hold_are_refused():
    judge = of_kernel("portable")
    with pytest.raises(Exception, match="no FP16 numbers"):
        judge.run(oracles.Problem(np.ones((3, 4), np.float32), np.full((4, 5), 1 / 3, np.float32)))
