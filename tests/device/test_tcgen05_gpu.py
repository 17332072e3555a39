"""Kernels whose sums are in tensor memory on a B200: right, and with the bits that the emulator says.

    python -m pytest tests/device/test_tcgen05_gpu.py

Where all of them pass, `assumed` in specs/units/blackwell.toml has an answer.
"""

from __future__ import annotations

import numpy as np
import pytest

from gemmgen.build import build
from gemmgen.catalog.gpu import GPUS
from gemmgen.paths import SPECS
from gemmgen.render import render
from gemmgen.run import cuda, gemm
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.solve import solve
from gemmgen.spec import load, loads
from gemmgen.verify import verify
from on_a_gpu import needs
from ways import TENSOR_MEMORY, WAYS, plan_of

pytestmark = pytest.mark.device


@pytest.fixture(autouse=True)
def on_a_b200():
    needs(GPUS.get("b200"))


@pytest.mark.parametrize("name", ["blackwell_b200", "residues8_b200", "f64_b200"])
def test_a_shipped_kernel_passes(name):
    plan = solve(load(SPECS / "kernels" / f"{name}.toml"))
    source = render(plan)
    binary = build(source)
    report = verify(plan, source, binary, cuda.CudaDevice(binary))
    assert report.passed, report.as_dict()
    assert report.seconds and report.standing.startswith("compiled, resources checked; run on")


@pytest.mark.parametrize("sections", [
    {"split": {"scheme": "run_scaled"}}, {"problem": {"kind": "strided", "m": 512, "n": 512, "k": 512, "matrices": 64}},
    {"problem": {"kind": "syrk", "layout": "nt", "uplo": "both"}}, {"problem": {"kind": "syr2k", "layout": "tn"}}, {"problem": {"kind": "trmm"}},
    {"problem": {"kind": "trsm"}}, {"problem": {"type": "c64"}}, {"split": {"scheme": "mixpert4"}}, {"split": {"scheme": "residues6"}, "problem": {"k": 8192 * 2 + 100}},
    {"split": {"scheme": "residues14"}, "problem": {"type": "c128"}},
    {"problem": {"kind": "grouped"}, "split": {"scheme": "ootomo"}}, {"problem": {"kind": "pointers"}, "split": {"scheme": "bf16x6"}},
], ids=["runs", "strided", "syrk", "syr2k", "trmm", "trsm", "c64", "integers", "residues", "c128", "grouped", "pointers"])
def test_runs_batches_and_kinds_pass(sections):
    plan = solve(loads({"split": {"scheme": "scaled"}, "fragment": {"policy": "tcgen05"}, "target": {"gpu": "b200"}} | sections))
    source = render(plan)
    binary = build(source)
    report = verify(plan, source, binary, cuda.CudaDevice(binary))
    assert report.passed, report.as_dict()


SCHEMES = {scheme: dict(TENSOR_MEMORY, scheme=scheme, promote=32) for scheme in ("half", "bf16x3", "tf32x3", "ootomo4", "e4m3x6")}


@pytest.mark.parametrize("name", [*(way for way in WAYS if way.startswith("tensor memory")), *SCHEMES])
def test_the_gpu_and_the_emulator_give_the_same_bits(name):
    plan = plan_of(**(WAYS | SCHEMES)[name])
    source = render(plan)
    binary = build(source)
    rng = np.random.default_rng(0)
    a, b = (plan.type.rounded(rng.uniform(-1, 1, shape)) for shape in ((150, 300), (300, 70)))
    expected, found = (gemm(device, plan, source, a, b).c for device in (EmulatorDevice(plan, source, binary), cuda.CudaDevice(binary)))
    assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))
