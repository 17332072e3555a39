"""What every file keeps to, so that a diff fits a screen."""

from __future__ import annotations

from pathlib import Path

import pytest

import gemmgen
from gemmgen.paths import TEMPLATES

WIDEST = 160
PACKAGE = Path(gemmgen.__file__).parent
FILES = sorted({*TEMPLATES.rglob("*.j2"), *PACKAGE.rglob("*.j2"), *PACKAGE.rglob("*.py")})
BEING_REWRITTEN = {"naming.py", "solve.py", "plan.py", "export.py", "run/timing.py", "bench.py"}
"""Files, and the folders `model` and `emulate`, with wider lines, which leave this list as they are rewritten."""


def excused(path: Path) -> bool:
    inside = path.relative_to(PACKAGE) if path.is_relative_to(PACKAGE) else None
    return inside is not None and (inside.as_posix() in BEING_REWRITTEN or inside.parts[0] in ("model", "emulate"))


def too_wide(text: str) -> list[int]:
    """The numbers of the lines that are."""
    return [number for number, line in enumerate(text.splitlines(), 1) if len(line) > WIDEST]


def test_templates_and_designs_are_among_them():
    names = {path.name for path in FILES}
    assert {"gemm.j2", "kernel.j2", "output.j2", "render.py"} <= names and len(FILES) > 100
    assert too_wide("x" * 160 + "\n" + "x" * 161) == [2]


@pytest.mark.parametrize("path", [path for path in FILES if not excused(path)], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_line_is_wider_than_160(path):
    assert not too_wide(path.read_text()), path
