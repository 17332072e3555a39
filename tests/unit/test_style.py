"""What every file keeps to, so that a diff fits a screen."""

from __future__ import annotations

from pathlib import Path

import pytest

import gemmgen
from gemmgen.paths import TEMPLATES

WIDEST = 160
PACKAGE = Path(gemmgen.__file__).parent
FILES = sorted({*TEMPLATES.rglob("*.j2"), *PACKAGE.rglob("*.j2"), *PACKAGE.rglob("*.py")})


def too_wide(text: str) -> list[int]:
    """The numbers of the lines that are."""
    return [number for number, line in enumerate(text.splitlines(), 1) if len(line) > WIDEST]


def test_templates_and_designs_are_among_them():
    names = {path.name for path in FILES}
    assert {"gemm.j2", "kernel.j2", "output.j2", "render.py"} <= names and len(FILES) > 100
    assert too_wide("x" * 160 + "\n" + "x" * 161) == [2]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_line_is_wider_than_160(path):
    assert not too_wide(path.read_text()), path
