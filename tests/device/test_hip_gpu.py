"""AMD kernels on an AMD GPU. Nobody has run these yet."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gemmgen.build import build
from gemmgen.catalog.gpu import GPUS
from gemmgen.export import export
from gemmgen.paths import SPECS
from gemmgen.render import render
from gemmgen.run import gemm, hip, why_not
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.verify import verify
from gemmgen.verify.unit_probe import probe_unit
from programs import need, run
from schema_check import violations

pytestmark = pytest.mark.device("amd")


def here() -> str:
    """The name of a GPU row that this machine has."""
    return next(row.name for row in GPUS.rows() if row.vendor == "amd" and why_not(row) is None)


def kernel(scheme: str = "ootomo"):
    plan = solve(loads({"split": {"scheme": scheme}, "target": {"gpu": here()}, "build": {"allow_spills": True}}))
    source = render(plan)
    return plan, source, build(source)


@pytest.mark.parametrize("scheme", ["ootomo", "scaled", "bf16x3", "half"])
def test_every_check_passes(scheme):
    plan, source, binary = kernel(scheme)
    report = verify(plan, source, binary, hip.open_device(binary), size=(1031, 1013, 1029))
    assert report.passed, report.as_dict()
    assert report.seconds and "run on" in report.standing


def test_the_gpu_and_the_emulator_give_the_same_bits():
    plan, source, binary = kernel()
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (150, 300)).astype(np.float32), rng.uniform(-1, 1, (300, 140)).astype(np.float32)
    emulated = gemm(EmulatorDevice(plan, source, binary), plan, source, a, b)
    run_here = gemm(hip.open_device(binary), plan, source, a, b)
    assert np.array_equal(run_here.c.view(np.uint32), emulated.c.view(np.uint32))


@pytest.mark.parametrize("scheme", ["ootomo", "bf16x3"])
def test_the_matrix_unit_is_as_its_model_says(scheme):
    plan, *_ = kernel(scheme)
    assert probe_unit(plan, "hip").summary.endswith("dot products as modelled")


def test_verify_leaves_a_record(gemmgen, write_spec, tmp_path):
    spec = write_spec(f'[split]\nscheme = "ootomo"\n[target]\ngpu = "{here()}"\n[build]\nallow_spills = true\n')
    ran = gemmgen("verify", spec, "--device", "hip", "--save", tmp_path / "record.json")
    assert ran.code == 0, ran.out + ran.err
    schema = json.loads((SPECS / "record.schema.json").read_text())
    assert violations(json.loads((tmp_path / "record.json").read_text()), schema, schema) == []


def test_the_exported_example_runs(tmp_path):
    hipcc, _, _ = need("hipcc", "g++", "ar")
    plan, source, binary = kernel()
    export(plan, source, binary, tmp_path / "out", name="lab_gemm")
    run(hipcc, "-std=c++17", "-O3", f"--offload-arch={plan.arch}", "-c", "lab_gemm.hip", cwd=tmp_path / "out")
    run(hipcc, "-I.", "example.cpp", "lab_gemm.o", "-o", "example", cwd=tmp_path / "out")
    assert "FAILED" not in run(tmp_path / "out" / "example")
