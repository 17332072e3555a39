"""From a data sheet to a verified kernel, for GPUs that nobody here has seen: what docs/add-a-gpu.md says, how long it takes, and which schemes they have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gemmgen import road
from gemmgen.errors import InfeasibleSpec
from ways import SPLITTING, can_multiply

SHEETS = sorted((Path(__file__).parents[1] / "data" / "sheets").glob("*.toml"))
SPEC = '[problem]\nm = 128\nn = 128\nk = 256\n[split]\nscheme = "{}"\n'
TIMED = ("jetson_agx_orin", "rtx4060ti", "mi300a")
"""Of each vendor, and of a target that no other row has."""


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["half", "bf16x3", "fp32"])
@pytest.mark.parametrize("sheet", [sheet for sheet in SHEETS if sheet.stem in TIMED], ids=lambda path: path.stem)
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


SAMPLE = (("dgx_spark", "tf32x3"), ("a10", "e4m3x6"))
"""One that is verified, of a new target; and one that is refused."""
EVERY = [(sheet.stem, scheme) for sheet in SHEETS for scheme in SPLITTING] + [(gpu, scheme) for gpu in ("rx9060xt", "rx9070xt") for scheme in SPLITTING]


@pytest.mark.parametrize(("gpu", "scheme"), [pytest.param(*one, marks=() if one in SAMPLE else pytest.mark.long) for one in EVERY])
def test_a_minimal_spec_is_verified_or_says_why_not(gpu, scheme):
    """A GPU and a scheme, all else left open: it is verified on the emulator, or refused because the matrix unit does not multiply such words.

    A kernel of a policy that is not emulated has its resources checked, and its report says so.
    """
    spec = {"problem": {"m": 128, "n": 128, "k": 256}, "split": {"scheme": scheme}, "target": {"gpu": gpu}}
    if not can_multiply(gpu, scheme):
        with pytest.raises(InfeasibleSpec) as caught:
            road.verify(spec, device="emulator")
        assert caught.value.needs and caught.value.remedy and "a row" not in caught.value.needs
        return
    report = road.verify(spec, device="emulator")
    failed = [f"{check.name}: {check.detail}" for check in report.checks if not check.passed]
    assert report.passed or not road.plan(spec).design.checked.emulated and not failed, failed
