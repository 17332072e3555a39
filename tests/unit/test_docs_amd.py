"""docs/amd.md quotes generated sources: every quoted line is in one of them."""

from __future__ import annotations

import re

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
