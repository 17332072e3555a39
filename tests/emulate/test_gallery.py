"""The kernels of docs/gallery.md: the table is what the tool says, and each kernel computes what it should."""

from __future__ import annotations

import re
import runpy

import numpy as np
import pytest

from assembled import ptx_of
from gemmgen.catalog.unit import UNITS
from gemmgen.emulate import Emulator
from gemmgen.paths import SPECS
from gemmgen.solve import solve
from gemmgen.spec import load
from verifying import assert_passed, assert_right_in_short, report_of
from ways import tailed

ROOT = SPECS.parent
FOLDER = ROOT / "examples" / "gallery"
BY_HAND = (FOLDER / "1_by_hand.cu").read_text()
RENDERED = [path.stem for path in sorted(FOLDER.glob("*.toml"))]


def multiplied(text: str) -> float:
    """The largest error of three ragged products of whole numbers by a kernel with the interface of step 1."""
    rng = np.random.default_rng(0)
    worst = 0.0
    with Emulator(ptx_of(text, "sm_90", "by_hand.cu"), UNITS.get("hopper"), source=text, processes=1) as emulator:
        for m, n, k in ((16, 16, 16), (37, 21, 50), (5, 70, 3)):
            a, b = (rng.integers(-8, 9, shape).astype(np.float32) for shape in ((m, k), (k, n)))
            given = [emulator.upload(a, name="a"), emulator.upload(b, name="b")]
            c = emulator.alloc(4 * m * n, name="c")
            emulator.launch("by_hand", (-(-m // 16) * -(-n // 16), 1, 1), (256, 1, 1), 0, [*given, c, m, n, k])
            worst = max(worst, float(np.abs(emulator.read(c, np.float32, (m, n)) - a @ b).max()))
    return worst


def test_the_kernel_by_hand_is_right():
    assert len(BY_HAND.splitlines()) <= 40 and multiplied(BY_HAND) == 0


@pytest.mark.parametrize(("before", "after"), [("i < TILE", "i < TILE - 1"), ("k0 + x < k ?", "true ?"), ("k0 += TILE", "k0 += 2 * TILE")])
def test_a_wrong_one_by_hand_would_be_noticed(before, after):
    assert BY_HAND.count(before) == 1
    try:
        assert multiplied(BY_HAND.replace(before, after)) > 0
    except Exception as error:
        assert "outside" in str(error)


@pytest.mark.parametrize("name", tailed(RENDERED, {"3_one_word", "5_two_stages", "6_prepass", "7_promotion"}))
def test_a_step_computes_its_schemes_bits_with_the_resources_of_its_plan(name):
    assert_right_in_short(solve(load(FOLDER / f"{name}.toml")), "resources")


@pytest.mark.long
@pytest.mark.parametrize("name", RENDERED)
def test_a_step_passes_every_question(name):
    assert_passed(report_of(solve(load(FOLDER / f"{name}.toml"))))


def test_the_pages_table_is_what_the_tool_says():
    gallery = runpy.run_path(str(ROOT / "docs" / "gallery.py"))
    page = (ROOT / "docs" / "gallery.md").read_text()
    table = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in page.splitlines() if re.match(r"\| (step|\d_)", line)]
    assert table == [gallery["HEAD"], *gallery["rows"]()]
    assert len(table) == 9 and [row[0] for row in table[1:]] == [path.stem for path in sorted((*FOLDER.glob("*.cu"), *FOLDER.glob("*.toml")))]
