"""A bring-up of the GPU at hand, which is told nothing of it: the maps and the matrix unit's row that it finds are those that ship.

    python -m pytest -q -n0 -s tests/device/test_bringup_gpu.py

`GEMMGEN_BRINGUP_PRODUCTS` asks for another number of random products an instruction; `GEMMGEN_BRINGUP_OUT` is a folder for the rows and reports.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gemmgen.catalog.gpu import GPUS, arch_number, generation
from gemmgen.catalog.unit import UNITS
from gemmgen.solve import solve
from gemmgen.spec import load
from gemmgen.workshop.bringup import REPORT, bring_up, instructions_of
from gemmgen.workshop.bringup.egemm import suited
from gemmgen.workshop.bringup.probe import GpuMachine
from gemmgen.workshop.bringup.profiled import profile_device

pytestmark = pytest.mark.device("nvidia")


@pytest.fixture(scope="module")
def brought():
    session, told, files = bring_up(GpuMachine("cuda"), "here", products=int(os.environ.get("GEMMGEN_BRINGUP_PRODUCTS", 1_000_000)))
    if folder := os.environ.get("GEMMGEN_BRINGUP_OUT"):
        for name, text in files.items():
            (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / name).write_text(text)
    print("\n" + files["report.md"])
    print("\n".join(f"{one.fragment.name}: {one.seconds:.2f} s" for one in session.instructions), f"\n{told['seconds']} s")
    return session, told, files


def test_every_instruction_is_probed_to_the_end(brought):
    session, _, files = brought
    assert session.instructions and not [str(one.error) for one in session.instructions if one.error]
    assert REPORT in files


def test_maps_are_the_shipped_rows(brought):
    assert [one.fragment.name for one in brought[0].instructions if not one.maps.same_as(one.fragment)] == []


def test_egemms_workflow_leaves_the_shipped_rule():
    """As the paper concludes; and of all rules the one that the row says."""
    machine = GpuMachine("cuda")
    found = profile_device(machine, suited(instructions_of(machine.arch)), 10_000)
    assert found.printed.single_21 == found.printed.draws and "d_FLOAT" in found.printed.verdict
    if found.row is None:
        pytest.skip("no row ships for this GPU")
    assert found.row in found.rules and all(one.agreeing["d_ROW"] == one.draws for one in found.kinds)


def test_sums_are_the_shipped_rows(brought):
    session, told, _ = brought
    if session.unit is None:
        pytest.skip("no row ships for this GPU")
    assert told["shipped"]["differences"] == [] and told["left_out_of_the_unit"] == []
    wrong = {one.fragment.name: (one.found.agreeing, one.found.proof) for one in session.instructions if one.found and one.found.agreeing != one.found.proof}
    assert not wrong
    assert all(one.whole[0] == one.whole[1] for one in session.instructions if one.whole)


def test_the_rows_are_the_shipped_ones_key_by_key(brought, tmp_path):
    session, _, files = brought
    name = generation(arch_number(session.machine.arch))
    if name is None:
        pytest.skip("no row ships for this GPU")
    (tmp_path / "here.toml").write_text(files["units/here.toml"])
    found, shipped = UNITS.get(str(tmp_path / "here.toml")), UNITS.get(name)

    def told(unit):
        by = {(word, policy): one for one in unit.variants for word in one.words for policy in one.policies or (None,)}
        variants = {key: (one.rule, one.fraction_bits, one.sum_bits, one.block) for key, one in by.items()}
        return unit.rule, unit.fraction_bits, unit.sum_bits, unit.block, set(unit.integers), variants

    assert told(found) == told(shipped)


def test_egemms_verdict_is_reproduced(brought):
    [profile] = [one.profile for one in brought[0].instructions if one.profile]
    assert profile.verdict.startswith("half multiplication with single-precision accumulation")
    assert profile.single < profile.draws and profile.passing > 1


@pytest.fixture(scope="module")
def hidden(tmp_path_factory):
    """The command as a user has it, on a GPU whose rows nobody has: no GPU of its target, no matrix unit and no generation of its arch."""
    arch = GpuMachine("cuda").arch
    name = generation(arch_number(arch))
    gone = [f"gpus/{row.name}" for row in GPUS.rows() if row.arch == arch] + ([f"units/{name}", f"generations/{name}"] if name else [])
    folder = tmp_path_factory.mktemp("bringup") / "my_gpu"
    ran = subprocess.run(
        [sys.executable, "-m", "gemmgen", "gpu", "probe", "--device", "cuda", "-o", str(folder), "--json", "--quiet"], capture_output=True, text=True,
        env={**os.environ, "GEMMGEN_HIDE": ",".join(gone)}, timeout=900, check=False,
    )
    told = json.loads(ran.stdout or "{}")
    assert ran.returncode == 0, (ran.stderr[-2000:], [one for one in told.get("values", {}).items() if one[1]["standing"] == "not found"])
    return folder, told


def test_a_hidden_gpu_ends_in_verified_kernels_within_ten_minutes(hidden):
    folder, told = hidden
    assert told["seconds"] < 600 and told["shipped"] is None
    gpu = GPUS.get(str(folder / "my_gpu.toml"))
    lines = [line for line in (folder / "my_gpu.toml").read_text().partition("[limits]")[2].splitlines() if "=" in line]
    assert not [line for line in lines if "# assumed" in line]
    kernels = {name: one for name, one in told["values"].items() if name.startswith("kernel ")}
    assert len(kernels) >= 10 and all(one["how"].startswith("verified") and isinstance(one["value"], float) for one in kernels.values())
    plan = solve(load(folder / "specs" / "ootomo_1024x1024x1024.toml"))
    assert plan.gpu == gpu


def test_the_models_tell_kernels_that_they_were_not_fitted_to(hidden):
    values = hidden[1]["values"]
    assert values["registers error"]["value"] <= 0.05
    assert values["time error of new kernels"]["value"] <= 0.15 and values["time error of new sizes"]["value"] <= 0.15
