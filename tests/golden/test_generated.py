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
from gemmgen.paths import PACKAGE, SPECS, TEMPLATES
from gemmgen.render import render
from ways import LIKE_OTHERS, PORTABLE, shipped, solved

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "generated"
SHIPPED = shipped()


@pytest.mark.parametrize("name", SHIPPED)
def test_a_generated_file_is_what_its_spec_renders(name, update_golden):
    source = render(solved(SHIPPED[name]))
    golden = GENERATED / source.file_name
    if update_golden:
        golden.parent.mkdir(exist_ok=True)
        golden.write_bytes(source.text.encode())
    assert golden.exists(), f"{golden.name} is missing: pytest --update-golden"
    assert golden.read_bytes() == source.text.encode(), f"{golden.name} is not up to date: pytest --update-golden"


def test_nothing_else_is_there(update_golden):
    wanted = {render(solved(loaded)).file_name for loaded in SHIPPED.values()}
    there = {path.name for path in GENERATED.iterdir()}
    if update_golden:
        for name in there - wanted:
            (GENERATED / name).unlink()
        there &= wanted
    assert there - wanted == set()
    assert len(wanted) == len(SHIPPED), "two specs render the same kernel"


def test_every_scheme_is_shown_on_the_a100_and_ootomo_on_every_kind_of_gpu():
    plans = [solved(loaded) for loaded in SHIPPED.values()]
    shown = {(plan.scheme.name, plan.gpu.name) for plan in plans if plan.layout == "nn"}
    assert {(scheme, "a100") for scheme in SCHEMES.names()} <= shown
    assert {("ootomo", gpu) for gpu in ("h100", "rtx4090", "rtx5090")} <= shown


@pytest.mark.parametrize(("seed", "left_out"), [("1", LIKE_OTHERS), pytest.param("2", set(), marks=pytest.mark.long)], ids=["1", "2"])
def test_another_process_with_another_hash_seed_renders_the_same(seed, left_out, tmp_path):
    def rendered(gpu: str | None, paths: list[Path]) -> dict[str, str]:
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-m", "gemmgen", "render", "--json", *(["--gpu", gpu] if gpu else []), *map(str, paths)],
            cwd=tmp_path, env=environment, check=True, capture_output=True, text=True,
        )
        found = json.loads(done.stdout)
        return {one["kernel"]: one["text"] for one in (found if isinstance(found, list) else [found])}

    folder = SPECS / "kernels"
    calls = [(None, [path for path in sorted(folder.glob("*.toml")) if path.stem not in {*PORTABLE, *left_out}])]
    calls += [(gpu, [folder / f"{name}.toml"]) for name, gpus in PORTABLE.items() for gpu in gpus if f"{name}, {gpu}" not in left_out]
    here = {source.name: source.text for source in (render(solved(loaded)) for name, loaded in SHIPPED.items() if name not in left_out)}
    assert {name: text for gpu, paths in calls for name, text in rendered(gpu, paths).items()} == here


def test_one_spec_serves_two_vendors():
    """No field of it is a vendor's, and the algorithm's text asks for none."""
    plans = {gpu: solved(SHIPPED[f"sgemm_portable, {gpu}"]) for gpu in PORTABLE["sgemm_portable"]}
    assert {plan.gpu.vendor for plan in plans.values()} == {"nvidia", "amd"}
    assert {plan.block for plan in plans.values()} == {(128, 128, 32)}
    algorithm = [TEMPLATES / "gemm.j2", *(TEMPLATES / "lib").rglob("*.j2"), *(PACKAGE / "designs").rglob("*.j2")]
    assert len(algorithm) > 10
    for path in algorithm:
        assert not any(word in path.read_text() for word in (".vendor", "nvidia", "amd", "plan.arch", ".policy")), path.name
