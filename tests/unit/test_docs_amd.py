"""docs/amd.md quotes generated sources: every quoted line is in one of them."""

from __future__ import annotations

import re
import runpy
import sys

from gemmgen.paths import SPECS
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import load
from ways import PORTABLE

DOCS = SPECS.parent / "docs"


def test_what_the_page_shows_is_generated():
    texts = {gpu: render(solve(load(SPECS / "kernels" / "sgemm_portable.toml", gpu))).text for gpu in PORTABLE["sgemm_portable"]}
    blocks = re.findall(r"```cuda\n(.*?)```", (DOCS / "amd.md").read_text(), re.S)
    assert len(blocks) == 6
    for number, block in enumerate(blocks):
        lines = set(texts["a800" if number % 2 == 0 else "mi210"].splitlines())
        assert [line for line in block.splitlines() if line not in lines] == []


def test_the_page_and_the_readme_say_how_far_kernels_are_checked():
    plan = solve(load(SPECS / "kernels" / "sgemm_portable.toml", "mi210"))
    for path in (DOCS / "amd.md", DOCS / "results" / "amd.md", SPECS.parent / "README.md"):
        assert plan.standing in " ".join(path.read_text().replace("**", "").lower().replace(" amd ", " AMD ").split()), path.name


def test_le_gemms_place_is_what_the_script_prints(capsys, monkeypatch):
    script = SPECS.parent / "bench" / "rank.py"
    monkeypatch.setattr(sys, "argv", [str(script), str(SPECS / "kernels" / "legemm_mi210.toml")])
    runpy.run_path(str(script), run_name="__main__")
    first, own, best = capsys.readouterr().out.splitlines()
    plans, place = re.match(r"[\d,]+", first)[0], re.match(r"number (\d+) ", own)[1]
    times = [re.search(r"([\d.]+) ms", line)[1] for line in (own, best)]
    page = " ".join((DOCS / "results" / "amd.md").read_text().split())
    assert "breaks C28 of" in first and "block 128x128x32, warp 64x64" in own and "block 256x128x16, warp 64x64" in best
    assert f"among {plans} plans" in page and f"number {place}, predicted {times[0]} ms at 4096^3 against {times[1]} for" in page
