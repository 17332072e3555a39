"""Random specs on the GPU: each ends in a verified kernel, or in a typed refusal.

GEMMGEN_EXAMPLES sets how many, GEMMGEN_SEED which; 10,000 and `-n 16` take minutes.
"""

from __future__ import annotations

import os

import pytest
from test_gpu import local_gpu

from gemmgen.run.cuda import CudaDevice

pytest.importorskip("hypothesis")
from random_specs import BULK_GPUS, bulk_specs, check_many, specs  # noqa: E402

pytestmark = pytest.mark.device

EXAMPLES = int(os.environ.get("GEMMGEN_EXAMPLES", "320"))
SEED = int(os.environ.get("GEMMGEN_SEED", "1000"))
SHARDS = 32


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_random_spec_ends_in_a_verified_kernel_or_a_typed_refusal(shard):
    outcomes = check_many(-(-EXAMPLES // SHARDS), SEED + shard, specs(gpus=(local_gpu(),)), lambda plan, source, binary: CudaDevice(binary))
    print(dict(outcomes))
    assert outcomes["verified"] and outcomes["refused"], outcomes


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_random_spec_of_the_other_skeleton_does_so_too(shard):
    if local_gpu() not in BULK_GPUS:
        pytest.skip("this GPU has no wgmma")
    device = lambda plan, source, binary: CudaDevice(binary)  # noqa: E731
    outcomes = check_many(-(-EXAMPLES // SHARDS), SEED + shard, bulk_specs(gpus=(local_gpu(),)), device)
    print(dict(outcomes))
    assert outcomes["verified"] and outcomes["refused"], outcomes
