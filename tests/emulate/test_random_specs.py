"""Random specs, for NVIDIA and for AMD, fixed to the last decision and left open: each ends in a kernel that is compiled and
verified, or in a typed refusal.

GEMMGEN_EXAMPLES sets how many of each kind, instead of those few, and GEMMGEN_SEED which. 2,000 for AMD on the emulator, and on
NVIDIA's GPU where there is one:

    GEMMGEN_EXAMPLES=2000 python -m pytest -n auto -k "amd or gpu" tests/emulate/test_random_specs.py tests/device/test_random_specs_gpu.py
"""

from __future__ import annotations

import pytest

from gemmgen.emulate import TOGETHER
from gemmgen.run.emulator import EmulatorDevice
from random_specs import SEED, bulk_specs, check_many, examples, open_specs, specs, tensor_memory_specs
from ways import AMD

SHARDS = 20
EMULATED_AMD = tuple(name for name in AMD if name != "mi100")
SIDES, AMD_SIDES = (16, 16, 32, 32, 48), (32, 32, 64)


def emulated(plan, source, binary):
    return EmulatorDevice(plan, source, binary, schedule=TOGETHER, processes=1)


def shards(few, *, drawn):
    """So many shards at least, or all of them where GEMMGEN_EXAMPLES asks for many, for `make test-all`; and one of a few specs."""
    count = SHARDS if examples(0) else few
    return pytest.mark.parametrize(("shard", "each"), [
        pytest.param(count, drawn[0], id="few"), *(pytest.param(shard, drawn[1], id=str(shard), marks=pytest.mark.long) for shard in range(count)),
    ])


@shards(SHARDS, drawn=(5, examples(50, SHARDS)))
def test_a_random_spec_ends_in_a_verified_kernel_or_a_typed_refusal(shard, each):
    outcomes = check_many(each, SEED + shard, specs(sides=SIDES), emulated)
    assert sum(outcomes.values()) >= each
    assert outcomes["verified"] and outcomes["refused"], outcomes


@shards(8, drawn=(5, examples(25, SHARDS)))
def test_a_random_spec_of_the_other_design_does_so_too(shard, each):
    outcomes = check_many(each, SEED + shard, bulk_specs(), emulated)
    assert outcomes["refused"] and outcomes["verified"] + outcomes["compiled"], outcomes


@shards(2, drawn=(3, examples(10, SHARDS)))
def test_a_random_spec_with_sums_in_tensor_memory_does_so_too(shard, each):
    outcomes = check_many(each, SEED + shard, tensor_memory_specs(), emulated)
    assert outcomes["verified"], outcomes


@shards(3, drawn=(5, examples(25, 2 * SHARDS)))
def test_a_random_spec_for_amd_does_so_too(shard, each):
    outcomes = check_many(each, SEED + shard, specs(sides=AMD_SIDES, gpus=EMULATED_AMD), emulated)
    assert outcomes["verified"] and outcomes["refused"], outcomes


@shards(4, drawn=(1, examples(6, 2 * SHARDS)))
def test_a_random_spec_for_amd_that_leaves_much_open_is_verified(shard, each):
    """The search finds what builds, unless what is fixed cannot be."""
    outcomes = check_many(each, SEED + shard, open_specs(specs(sides=AMD_SIDES, gpus=EMULATED_AMD)), emulated)
    assert outcomes["verified"], outcomes


@shards(4, drawn=(1, examples(6, SHARDS)))
def test_a_random_spec_that_leaves_much_open_is_verified(shard, each):
    outcomes = check_many(each, SEED + shard, open_specs(specs(sides=SIDES)), emulated)
    assert outcomes["verified"] + outcomes["compiled"], outcomes
