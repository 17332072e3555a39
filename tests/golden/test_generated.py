"""generated/ holds exactly what the shipped specs render to, byte for byte.

After a change that is meant to change kernels: pytest --update-golden, and read the diff.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.paths import PACKAGE, SPECS, TEMPLATES
from gemmgen.render import Source, render
import kernel_text
from ways import AMD_WAYS, LIKE_OTHERS, PORTABLE, WAYS, plan_of, shipped, solved

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "generated"
SHIPPED = shipped()


def file_of(name: str, source: Source) -> str:
    """Files are named after their specs, and after the GPU where a spec leaves it open."""
    return name.replace(", ", "_") + source.suffix


@pytest.mark.parametrize("name", SHIPPED)
def test_a_generated_file_is_what_its_spec_renders(name, update_golden):
    source = render(solved(SHIPPED[name]))
    golden = GENERATED / file_of(name, source)
    if update_golden:
        golden.parent.mkdir(exist_ok=True)
        golden.write_bytes(source.text.encode())
    assert golden.exists(), f"{golden.name} is missing: pytest --update-golden"
    assert golden.read_bytes() == source.text.encode(), f"{golden.name} is not up to date: pytest --update-golden"


NO_SUFFIX = SimpleNamespace(suffix="")
LOOKS = (kernel_text.misplaced, kernel_text.wide, kernel_text.degenerate, kernel_text.empty)


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.__name__)
def test_text_is_indented_and_says_nothing_that_says_nothing(look):
    assert not {path.name: found for path in GENERATED.iterdir() if (found := look(path.read_text()))}


@pytest.mark.parametrize("way", [*WAYS, *AMD_WAYS])
def test_so_is_the_text_of_every_way(way):
    text = render(plan_of(**(WAYS | AMD_WAYS)[way])).text
    for look in LOOKS:
        assert not look(text), look.__name__


@pytest.mark.parametrize(("look", "text"), [
    (kernel_text.misplaced, "void f() {\n    if (x)\n    y();\n}\n"),
    (kernel_text.misplaced, "void f() {\n    for (;;) {\n    y();\n    }\n}\n"),
    (kernel_text.misplaced, "void f() {\n        y();\n}\n"),
    (kernel_text.wide, "x" * 161),
    (kernel_text.degenerate, "chunk ^ (row / 1 & 7)"),
    (kernel_text.degenerate, "a_at + (0 * A_BYTES + i) / 16"),
    (kernel_text.degenerate, "for (int i = 0; i < n; i += 1)"),
    (kernel_text.empty, "void f() {\n\n    y();\n}\n"),
    (kernel_text.empty, "void f() {\n    y();\n\n}\n"),
])
def test_what_is_wrong_of_a_text_is_seen(look, text):
    assert look(text)


def test_nothing_else_is_there(update_golden):
    """What each file holds is another test's; here are their names, and the kernels' in their first lines."""
    stems = {file_of(name, NO_SUFFIX): name for name in SHIPPED}
    wanted = {path.name for path in GENERATED.iterdir() if path.stem in stems and path.suffix in (".cu", ".hip")}
    there = {path.name for path in GENERATED.iterdir()}
    if update_golden:
        for name in there - wanted:
            (GENERATED / name).unlink()
        there &= wanted
    assert there - wanted == set()
    kernels = {re.search(r"^// kernel +(\S+)", (GENERATED / name).read_text(), re.M)[1] for name in wanted}
    assert len(wanted) == len(kernels) == len(SHIPPED), "two specs render the same kernel, or a file is there twice"


def test_every_scheme_is_shown_on_the_a100_and_ootomo_on_every_kind_of_gpu():
    specs = [loaded.spec for loaded in SHIPPED.values()]
    shown = {(spec.split.scheme, spec.target.gpu) for spec in specs if spec.problem.layout == "nn"}
    levels = {row.name for row in SCHEMES.rows() if row.family.exact} - {"mixpert4"}  # of which one is as good as another
    warpgroups = {  # have instructions for words of several types and for FP8
        row.name for row in SCHEMES.rows() if not row.uniform or any(word not in (*GPUS.get("a100").unit.words, "f32") for word in row.types)
    }
    elsewhere = warpgroups | {"ootomo_b16"}
    assert {(scheme, "h200" if scheme in elsewhere else "a100") for scheme in SCHEMES.names() if scheme not in levels} <= shown
    assert {("ootomo", gpu) for gpu in ("h100", "rtx4090", "rtx5090")} <= shown


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "left_out"), [("1", LIKE_OTHERS), pytest.param("2", set(), marks=pytest.mark.long)], ids=["1", "2"])
def test_another_process_with_another_hash_seed_renders_the_same(seed, left_out, tmp_path):
    def rendered(gpu: str | None, paths: list[Path]) -> dict[str, str]:
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-m", "gemmgen", "build", "--source", "--json", *(["--gpu", gpu] if gpu else []), *map(str, paths)],
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
