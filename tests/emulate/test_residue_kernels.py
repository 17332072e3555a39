"""Kernels of residues against the reference in NumPy, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from gemmgen.catalog.residues import SEGMENT_K
from gemmgen.emulate import TOGETHER
from gemmgen.render import render
from gemmgen.run import gemm
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.split import joined, split
from gemmgen.verify import Judge
from assembled import assembled
from verifying import assert_bits
from ways import WAYS, plan_of

SMALL = {"small": WAYS["residues"], "five digits": WAYS["residues, two beside each other"]}


def made(name: str):
    plan = plan_of(**SMALL[name])
    source = render(plan)
    return EmulatorDevice(plan, source, assembled(source), schedule=TOGETHER), plan, source


@pytest.mark.parametrize("name", SMALL)
def test_bits_and_counts_are_the_references(name):
    device, plan, source = made(name)
    assert_bits(Judge(plan, source, None, device), 67, 9, 133)


@pytest.mark.long
def test_segments_of_k_are_joined_and_added():
    """Three of them, of which the last is short; a row has elements in the last alone."""
    device, plan, source = made("small")
    rng, k = np.random.default_rng(3), 2 * SEGMENT_K + 70
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, k), (k, 3)))
    a[1, : 2 * SEGMENT_K] = 0
    want = joined(split(a, plan.scheme), split(np.ascontiguousarray(b.T), plan.scheme), plan.scheme)
    assert (gemm(device, plan, source, a, b).c == want).all()
