"""The road that the owner of an AMD GPU takes, to its end: the driver, every check, and the record that is left.

The GPU is a stand-in that runs launches on the emulator; all else is what runs on a real one.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import fake_rocm
import numpy as np
import pytest
from fake_hip import APU, MI210, FakeHip, Status, emulating, install
from schema_check import violations

from gemmgen.build import build
from gemmgen.catalog.gpu import GPUS
from gemmgen.emulate.core import units
from gemmgen.paths import SPECS
from gemmgen.render import render
from gemmgen.run import Placement, gemm, hip
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.solve import solve
from gemmgen.spec import load, loads
from gemmgen.verify.unit_probe import probe_unit

TEXT = '[split]\nscheme = "ootomo"\n[tile]\nblock = [64, 64, 32]\nwarp = [32, 32, 32]\n[target]\ngpu = "mi210"\n'
SIZE = ("--m", 33, "--n", 40, "--k", 70)
SCHEMA = json.loads((SPECS / "record.schema.json").read_text())


@pytest.fixture
def spec(write_spec):
    return write_spec(TEXT, "tiny.toml")


@pytest.fixture
def gpu(monkeypatch) -> FakeHip:
    return install(monkeypatch, FakeHip(gpus=(APU, MI210), execute=emulating(GPUS.get("mi210").unit)))


def test_a_product_through_the_driver_is_the_emulators_bit_for_bit(gpu, spec):
    plan = solve(load(spec))
    source = render(plan)
    binary = build(source)
    rng = np.random.default_rng(0)
    a, b, c = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((67, 101), (101, 41), (67, 41)))
    a[3, 4], b[5, 6] = 1e6, np.inf
    how = {"alpha": -0.5, "beta": 2.0, "placement": Placement((3, 5, 1), (4, 8, 12))}
    want = gemm(EmulatorDevice(plan, source, binary), plan, source, a, b, c, **how)
    got = gemm(hip.open_device(binary), plan, source, a, b, c, **how)
    assert np.array_equal(got.c.view(np.uint32), want.c.view(np.uint32)) and got.intact and want.intact
    assert got.status == want.status and got.status["a_overflow"] == got.status["b_nonfinite"] == 1
    assert got.seconds == pytest.approx(0.5e-3 * len(source.launches)) and want.seconds is None
    assert not gpu.memory


def test_verify_on_a_gpu_reports_and_leaves_a_record(gpu, spec, gemmgen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = solve(load(spec))
    ran = gemmgen("verify", spec, "--device", "hip", *SIZE)
    assert ran.code == 0, ran.out + ran.err
    file = f"gemmgen-hip-mi210-{plan.hash}.json"
    assert "run on AMD Instinct MI210 (gfx90a:sramecc+:xnack-)" in ran.out and "never run" not in ran.out
    assert f"record     {file}\n" in ran.out and "attach it to an issue of the project" in ran.out
    assert "dot products as modelled" in ran.out

    record = json.loads((tmp_path / file).read_text())
    assert violations(record, SCHEMA, SCHEMA) == []
    assert record["device"] | {"hip_python_version": ""} == {
        "kind": "hip", "name": "AMD Instinct MI210", "target": "gfx90a:sramecc+:xnack-", "wavefront_size": 64, "compute_units": 104,
        "driver_version": 70253211, "runtime_version": 70253211, "hip_python_version": "",
    }
    assert record["plan"]["hash"] == plan.hash and record["report"]["passed"] and record["report"]["seconds"] > 0
    assert record["kernels"].keys() == set(build(render(plan)).kernels)
    names = [check["name"] for check in record["report"]["checks"]]
    assert names == ["resources", "probes", "permutation", "edges", "groups", "special", "range", "U[0, 1]", "U[-1, 1]"]
    assert all(tile["as_modelled"] == tile["elements"] for tile in record["matrix_unit"]["tiles"])

    told = json.loads(gemmgen("verify", spec, *SIZE, "--json", "--save", tmp_path / "mine.json").out)  # auto finds the GPU
    assert told["saved"] == str(tmp_path / "mine.json")
    again = json.loads((tmp_path / "mine.json").read_text())
    assert again["report"] == {key: value for key, value in told.items() if key != "saved"}
    assert again["matrix_unit"] == record["matrix_unit"], "the probe is the same each time"


def test_the_emulators_answer_goes_into_the_same_file_if_asked(spec, gemmgen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = gemmgen("verify", spec, "--device", "emulator", *SIZE, "--save", "here.json")
    assert ran.code == 0, ran.out + ran.err
    assert "never run on AMD hardware" in ran.out and "attach" not in ran.out
    record = json.loads((tmp_path / "here.json").read_text())
    assert violations(record, SCHEMA, SCHEMA) == []
    assert record["device"]["kind"] == "emulator" and record["report"]["seconds"] is None
    tiles = record["matrix_unit"]["tiles"]
    assert all(tile["as_modelled"] == tile["elements"] for tile in tiles)
    # What the file holds is enough to judge the model by.
    m, n, k = record["matrix_unit"]["shape"]
    shapes = {"a": (m, k), "b": (k, n), "c": (m, n), "d": (m, n)}
    types = {"a": np.uint16, "b": np.uint16, "c": np.uint32, "d": np.uint32}

    def stored(x: str) -> np.ndarray:
        numbers = [np.frombuffer(bytes.fromhex(tile[x]), np.dtype(types[x]).newbyteorder(">")) for tile in tiles]
        return np.stack(numbers).astype(types[x]).reshape(-1, *shapes[x])

    model = units.mma(GPUS.get("mi210").unit, "f16", stored("a"), stored("b"), stored("c").view(np.float32))
    assert np.array_equal(model.view(np.uint32), stored("d"))


@pytest.mark.long
def test_nothing_is_left_where_nobody_asked_and_no_gpu_ran(spec, gemmgen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(os.listdir(tmp_path))
    assert gemmgen("verify", spec, "--device", "emulator", *SIZE).code == 0
    assert sorted(os.listdir(tmp_path)) == before


def test_save_is_for_one_amd_kernel(spec, gemmgen, write_spec):
    ran = gemmgen("verify", spec, spec, "--save", "x.json")
    assert ran.code == 2 and "one file cannot take several records" in ran.err
    ran = gemmgen("verify", write_spec(), "--save", "x.json")
    assert ran.code == 2 and "--save" in ran.err and "'sm_80'" in ran.err


@pytest.mark.long
def test_a_probe_that_fails_loses_no_report(gpu, spec, gemmgen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    real = FakeHip.hipModuleLaunchKernel

    def launch(self, function, *args):
        return (Status.hipErrorLaunchFailure,) if function[0] == "unit_probe" else real(self, function, *args)

    monkeypatch.setattr(FakeHip, "hipModuleLaunchKernel", launch)
    ran = gemmgen("verify", spec, "--device", "hip", *SIZE, "--save", "x.json")
    assert ran.code == 0 and "not probed: --device hip: hipModuleLaunchKernel failed" in ran.out
    record = json.loads((tmp_path / "x.json").read_text())
    assert violations(record, SCHEMA, SCHEMA) == []
    assert record["matrix_unit"]["error"]["got"] == "hipErrorLaunchFailure"


def test_a_kernel_that_the_gpu_cannot_launch_is_an_error_and_not_a_report(gpu, spec, gemmgen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gpu.refuse = {"hipModuleLaunchKernel": Status.hipErrorLaunchFailure}
    ran = gemmgen("verify", spec, "--device", "hip", *SIZE, "--json")
    assert ran.code == 2 and json.loads(ran.out)["got"] == "hipErrorLaunchFailure"
    assert not gpu.memory, "what was allocated is given back"


@pytest.mark.parametrize(("gpu_name", "scheme"), [
    ("mi210", "ootomo"), ("mi300x", "tf32x3"), ("mi300x", "bf16x3"), ("rx7900xtx", "ootomo"), ("rx9070xt", "bf16x3"),
])
def test_the_probe_tells_one_model_of_a_unit_from_another(gpu_name, scheme):
    plan = solve(loads({"split": {"scheme": scheme}, "target": {"gpu": gpu_name}, "build": {"allow_spills": True}}))
    tiles = probe_unit(plan, "emulator")
    assert tiles.summary.endswith("dot products as modelled") and not np.isnan(tiles.d).any()
    others = [
        replace(tiles, modelled=units.mma(row.unit, tiles.fragment.word, tiles.a, tiles.b, tiles.c)) for row in GPUS.rows()
        if tiles.fragment.word in row.unit.block and (row.unit.rule, row.unit.block[tiles.fragment.word]) != (
            plan.gpu.unit.rule, plan.gpu.unit.block[tiles.fragment.word])
    ]
    assert others and all("; others in: " in other.summary for other in others)


@pytest.mark.parametrize("gpu_name", ["mi210", "rx9070xt"])
def test_the_probe_of_plain_fp32_is_of_multiply_adds_in_order(gpu_name):
    """By the fragment of as many lanes; and sums in another order would be told."""
    plan = solve(loads({"split": {"scheme": "fp32"}, "target": {"gpu": gpu_name}}))
    tiles = probe_unit(plan, "emulator")
    assert tiles.fragment.name == plan.fragment.name and not np.isnan(tiles.d).any()
    assert tiles.summary == f"{tiles.d.size} of {tiles.d.size} dot products as modelled"
    a, b = tiles.a.view(np.float32).astype(np.float64), tiles.b.view(np.float32).astype(np.float64)
    once = replace(tiles, modelled=(a @ b + tiles.c).astype(np.float32))
    assert "others in: terms of one size, terms far apart" in once.summary


def test_the_probe_shows_whether_subnormal_words_are_flushed():
    plan = solve(loads({"split": {"scheme": "ootomo"}, "target": {"gpu": "mi210"}, "build": {"allow_spills": True}}))
    tiles = probe_unit(plan, "emulator")
    kept = plan.gpu.unit.model_copy(update={"flushes_subnormals": None})
    other = replace(tiles, modelled=units.mma(kept, "f16", tiles.a, tiles.b, tiles.c))
    wrong = [name for tile, name in enumerate(tiles.names) if other.agreeing(tile) != tiles.d[tile].size]
    assert wrong == ["subnormal words", "subnormal words on both sides", "subnormal sums"]


def test_the_real_hip_python_takes_the_road_too(spec, tmp_path):
    """With hip-python itself, over a libamdhip64.so that leads to the same stand-in: a process of its own, as the
    library stays loaded."""
    if platform.machine() != "x86_64":
        pytest.skip("NOT RUN: hip-python has no wheel for this processor")
    fake_rocm.make_library(tmp_path)
    folders = os.pathsep.join(map(str, (Path(fake_rocm.__file__).parent, *sys.path)))
    done = subprocess.run(
        [sys.executable, fake_rocm.__file__, "verify", spec, "--device", "hip", *map(str, SIZE), "--save", tmp_path / "record.json"],
        env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": folders}, capture_output=True, text=True,
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stdout + done.stderr
    record = json.loads((tmp_path / "record.json").read_text())
    assert violations(record, SCHEMA, SCHEMA) == []
    assert record["report"]["passed"] and record["device"]["target"] == "gfx90a:sramecc+:xnack-"
    assert record["device"]["hip_python_version"] == metadata.version("hip-python")
    assert all(tile["as_modelled"] == tile["elements"] for tile in record["matrix_unit"]["tiles"])
    called = {name.replace("R0600", "") for name in fake_rocm.SIGNATURES}
    assert called == set(done.stderr.splitlines()[-1].split()[1:]), "the library has no function that the driver does without"


@pytest.mark.parametrize("gpu", ["mi210", "a100"])
def test_alpha_and_beta_may_be_whole_numbers(gpu):
    """A kernel's parameter is a float, and an emulator given an int would take its bits."""
    plan = solve(loads({
        "split": {"scheme": "half"}, "tile": {"block": [32, 32, 32], "warp": [32, 32, 32]},
        "pipeline": {"stages": 2, "fragment_buffers": 1}, "target": {"gpu": gpu},
    }))
    source = render(plan)
    device = EmulatorDevice(plan, source, build(source), processes=1)
    a, b, c = np.full((4, 8), 1, np.float32), np.full((8, 4), 1, np.float32), np.full((4, 4), 1, np.float32)
    for alpha, beta, value in ((2, 0, 16), (2, 3, 19), (np.int64(2), np.float64(1), 17), (True, False, 8), (0.1, 0, np.float32(0.1) * 8)):
        assert (gemm(device, plan, source, a, b, c, alpha=alpha, beta=beta).c == np.float32(value)).all(), (alpha, beta)
