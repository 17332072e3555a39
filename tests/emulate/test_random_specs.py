"""1,000 random specs, and some for AMD: each ends in a kernel that is compiled and verified, or in a typed refusal."""

from __future__ import annotations

import pytest

from gemmgen.emulate import TOGETHER
from gemmgen.run.emulator import EmulatorDevice
from random_specs import bulk_specs, check_many, specs
from ways import AMD

SHARDS, EACH = 20, 50
EMULATED_AMD = tuple(name for name in AMD if name != "mi100")


def emulated(plan, source, binary):
    return EmulatorDevice(plan, source, binary, schedule=TOGETHER, processes=1)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_random_spec_ends_in_a_verified_kernel_or_a_typed_refusal(shard):
    outcomes = check_many(EACH, shard, specs(sides=(16, 16, 32, 32, 48)), emulated)
    assert sum(outcomes.values()) >= EACH
    assert outcomes["verified"] and outcomes["refused"], outcomes


@pytest.mark.parametrize("shard", range(8))
def test_a_random_spec_of_the_other_skeleton_does_so_too(shard):
    outcomes = check_many(EACH // 2, shard, bulk_specs(), emulated)
    assert outcomes["refused"] and outcomes["verified"] + outcomes["compiled"], outcomes


@pytest.mark.parametrize("shard", range(3))
def test_a_random_spec_for_amd_does_so_too(shard):
    outcomes = check_many(EACH // 2, shard, specs(sides=(32, 32, 64), gpus=EMULATED_AMD), emulated)
    assert outcomes["verified"] and outcomes["refused"], outcomes
