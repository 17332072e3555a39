"""Whole kernels, built for an A100 and run with the arithmetic of AMD's matrix units: judged right, and wrong without a product."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gemmgen.emulate.core.product import product
from gemmgen.run import gemm
from gemmgen.verify import oracles

from amd_units import plan_on
from verifying import assert_passed, judge_of, on_emulator, report_of
from ways import covering

KERNELS = [
    ("cdna1", "ootomo", 0), ("cdna3", "ootomo", 0), ("cdna3", "tf32x3", 64), ("rdna3", "ootomo", 64),
    ("cdna2", "ootomo", 0), ("cdna2", "ootomo_flushed", 64), ("cdna2", "scaled", 64), ("cdna2", "markidis", 0), ("cdna2", "bf16x6", 0),
]


@pytest.mark.parametrize(("unit", "scheme", "promote"), [
    pytest.param(*one, marks=() if one == ("cdna2", "ootomo", 0) else pytest.mark.long) for one in KERNELS
])
def test_a_kernel_is_judged_right(unit, scheme, promote, tmp_path):
    assert_passed(report_of(plan_on(unit, scheme, tmp_path, promote)))


@pytest.mark.parametrize(("scale", "scheme"), covering(itertools.product([1.0, 1e-3], ["ootomo", "ootomo_flushed", "scaled"])))
def test_a_dropped_product_is_found_however_much_the_unit_flushes(scheme, scale, tmp_path):
    plan = plan_on("cdna2", scheme, tmp_path)
    into = plan.scheme.products[0].into
    statement = f"multiply_add(acc_{into}[i][j], a_fragments[buffer][1][i], b_fragments[buffer][0][j]);"
    drawn = oracles.uniform(plan, -1, 1, (40, 37, 300), 0)
    problem = oracles.Problem(drawn.a * np.float32(scale), drawn.b)

    def without(text: str) -> str:
        assert statement in text
        return text.replace(statement, "")

    assert judge_of(plan).accuracy("data", problem).check.passed
    assert not judge_of(plan, without).accuracy("data", problem).check.passed


@pytest.mark.parametrize(("unit", "scheme", "promote"), [*KERNELS, ("rdna3", "bf16x6", 128)])
def test_a_kernel_computes_what_the_scheme_does_on_the_unit(unit, scheme, promote, tmp_path):
    """Bit for bit, without any of its code."""
    plan = plan_on(unit, scheme, tmp_path, promote)
    problem = oracles.uniform(plan, -1, 1, (70, 61, 301), 3)
    c = gemm(*on_emulator(plan), problem.a, problem.b).c
    want = product(plan.scheme, plan.gpu.unit, problem.a, problem.b, promote=promote, fragment_k=plan.fragment.shape[2])
    assert (c.view(np.uint32) == want.view(np.uint32)).all()
