"""Random specs on the GPU: each ends in a verified kernel, or in a typed refusal.

GEMMGEN_EXAMPLES sets how many of each kind, GEMMGEN_SEED which; 10,000 and `-n 16` take minutes. The command for both vendors
is in tests/emulate/test_random_specs.py.
"""

from __future__ import annotations

import pytest
from test_gpu import local_gpu

from gemmgen.run.cuda import CudaDevice

pytest.importorskip("hypothesis")
from random_specs import BULK_GPUS, SEED, bulk_specs, check_many, examples, open_specs, specs  # noqa: E402

pytestmark = pytest.mark.device

SHARDS = 32
FIRST = 1000 + SEED
"""Other sequences than the emulator's."""


def on_gpu(plan, source, binary):
    return CudaDevice(binary)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_random_spec_ends_in_a_verified_kernel_or_a_typed_refusal(shard):
    outcomes = check_many(examples(10, SHARDS), FIRST + shard, specs(gpus=(local_gpu(),)), on_gpu)
    print(dict(outcomes))
    assert outcomes["verified"] and outcomes["refused"], outcomes


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_random_spec_of_the_other_design_does_so_too(shard):
    if local_gpu() not in BULK_GPUS:
        pytest.skip("this GPU has no wgmma")
    outcomes = check_many(examples(10, SHARDS), FIRST + shard, bulk_specs(gpus=(local_gpu(),)), on_gpu)
    print(dict(outcomes))
    assert outcomes["verified"] and outcomes["refused"], outcomes


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_random_spec_that_leaves_much_open_is_verified(shard):
    outcomes = check_many(examples(2, SHARDS), FIRST + shard, open_specs(specs(gpus=(local_gpu(),))), on_gpu)
    print(dict(outcomes))
    assert outcomes["verified"], outcomes
