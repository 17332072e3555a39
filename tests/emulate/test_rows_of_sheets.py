"""From a data sheet to a verified kernel, for GPUs that nobody here has seen: what docs/add-a-gpu.md says, and how long it takes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHEETS = sorted((Path(__file__).parents[1] / "data" / "sheets").glob("*.toml"))
SPEC = '[problem]\nm = 128\nn = 128\nk = 256\n[split]\nscheme = "{}"\n'


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["half", "bf16x3", "fp32"])
@pytest.mark.parametrize("sheet", SHEETS, ids=lambda path: path.stem)
def test_a_row_of_a_data_sheet_has_kernels_within_a_minute(gemmgen, tmp_path, sheet, scheme):
    """The row, from which on the minute counts; then a spec without a tile solves, builds and is verified. Processor time, as others may share the machine."""
    assert gemmgen("gpu", "from-row", sheet, "-o", tmp_path / "new").code == 0
    (tmp_path / "spec.toml").write_text(SPEC.format(scheme))
    start = sum(os.times()[:4])
    for verb, more in (("explain", []), ("build", ["-o", tmp_path / "built"]), ("verify", ["--device", "emulator"])):
        done = gemmgen(verb, tmp_path / "spec.toml", "--gpu", tmp_path / "new" / "new.toml", *more)
        assert done.code == 0, done.err
    assert "PASSED" in done.out and "emulator" in done.out
    assert sum(os.times()[:4]) - start < 60
