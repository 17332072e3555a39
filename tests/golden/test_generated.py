"""generated/ holds exactly what the shipped specs render to, byte for byte.

After a change that is meant to change kernels: pytest --update-golden, and read the diff.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gemmgen.catalog.scheme import SCHEMES
from gemmgen.paths import SPECS
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import load

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "generated"
KERNELS = sorted((SPECS / "kernels").glob("*.toml"))


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_a_generated_file_is_what_its_spec_renders(path, update_golden):
    source = render(solve(load(path)))
    golden = GENERATED / source.file_name
    if update_golden:
        golden.parent.mkdir(exist_ok=True)
        golden.write_bytes(source.text.encode())
    assert golden.exists(), f"{golden.name} is missing: pytest --update-golden"
    assert golden.read_bytes() == source.text.encode(), f"{golden.name} is not up to date: pytest --update-golden"


def test_nothing_else_is_there(update_golden):
    wanted = {render(solve(load(path))).file_name for path in KERNELS}
    there = {path.name for path in GENERATED.iterdir()}
    if update_golden:
        for name in there - wanted:
            (GENERATED / name).unlink()
        there &= wanted
    assert there - wanted == set()
    assert len(wanted) == len(KERNELS), "two specs render the same kernel"


def test_every_scheme_is_shown_on_the_a100_and_ootomo_on_every_kind_of_gpu():
    plans = [solve(load(path)) for path in KERNELS]
    shown = {(plan.scheme.name, plan.gpu.name) for plan in plans if plan.layout == "nn"}
    assert {(scheme, "a100") for scheme in SCHEMES.names()} <= shown
    assert {("ootomo", gpu) for gpu in ("h100", "rtx4090", "rtx5090")} <= shown


def test_another_process_with_another_hash_seed_renders_the_same(tmp_path):
    def rendered(seed: str) -> dict[str, str]:
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-m", "gemmgen", "render", "--json", *map(str, KERNELS)],
            cwd=tmp_path, env=environment, check=True, capture_output=True, text=True,
        )
        return {one["kernel"]: one["text"] for one in json.loads(done.stdout)}

    here = {source.name: source.text for source in (render(solve(load(path))) for path in KERNELS)}
    assert rendered("1") == rendered("2") == here
