"""Over FP32's whole range of magnitudes, on the GPU: what is not counted is within the deterministic bound, for every scheme."""

from __future__ import annotations

import pytest
from test_gpu import local_gpu
from ways import FP32_SCHEMES

from gemmgen.build import first_that_builds
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.errors import InfeasibleSpec
from gemmgen.run.cuda import CudaDevice
from gemmgen.spec import loads
from gemmgen.verify import Judge

pytestmark = pytest.mark.device


@pytest.mark.parametrize("where", ["prepass", "shared", "register", "mixed"])
@pytest.mark.parametrize("policy", ["auto", "mma"])
@pytest.mark.parametrize("scheme", [row.name for row in FP32_SCHEMES if not row.b])
def test_what_is_not_counted_is_within_the_bound(scheme, policy, where):
    asked = {} if where == "prepass" and policy == "auto" else {"where": where}
    try:
        kernel = first_that_builds(loads({
            "split": {"scheme": scheme, **asked}, "fragment": {} if SCHEMES.get(scheme).exact else {"policy": policy}, "target": {"gpu": local_gpu()},
        }))
    except InfeasibleSpec as refusal:
        pytest.skip(f"refused: {refusal.problem}")
    judge = Judge(kernel.plan, kernel.source, kernel.binary, CudaDevice(kernel.binary))
    for seed, k in enumerate((1, 37, 333)):
        check = judge.range(seed=seed, shape=(420, 410, k))
        assert check.passed, check.detail
        print(check.detail)
    if kernel.plan.scheme.family.run_k:
        check = judge.runs()
        assert check.passed, check.detail
