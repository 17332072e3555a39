"""Every shipped spec by older and newer NVRTCs: each builds, is passed on to its next choice, or is refused with the reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gemmgen.build import reference

WHEELS = {
    "12.4": "nvidia-cuda-nvrtc-cu12==12.4.*", "12.9": "nvidia-cuda-nvrtc-cu12==12.9.*", "13.0": "nvidia-cuda-nvrtc==13.0.*", "newest": "nvidia-cuda-nvrtc",
}
FOLDER = "GEMMGEN_TEST_NVRTCS"
"""Names a folder with a folder of each version; without it pip installs the wheels into pytest's cache."""

UNKNOWN = {"12.4": {"sm_100", "sm_120"}}
"""GPUs of shipped specs that came after a compiler."""
SPILLS = {"12.4": {"batch_packed_low_h200", "mixpert1_h200", "mixpert4_h200", "mixpert4_outliers_h200", "mixpert_triangle_h200"}}
"""Specs of which every choice that is tried spills. CUDA 12.4 gives warpgroups that take turns with tiles fewer registers than they ask for."""


def library(version: str, cache: Path) -> Path:
    """The NVRTC of a version. Skips where pip cannot install it."""
    folder = Path(os.environ[FOLDER], version) if FOLDER in os.environ else cache / version
    if FOLDER not in os.environ and not folder.exists():
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), WHEELS[version]], capture_output=True, text=True,
        )
        if done.returncode:
            pytest.skip(f"pip cannot install {WHEELS[version]}: {done.stderr.strip().splitlines()[-1:]}; name a folder by {FOLDER}")
    found = sorted(folder.glob("nvidia/*/lib/libnvrtc.so.1[23]"))
    assert found, f"{folder} has no libnvrtc"
    return found[0]


@pytest.fixture(scope="module", params=WHEELS)
def answer(request):
    """(version, what tests/support/compiled_with.py says of it)."""
    path = library(request.param, request.config.cache.mkdir("nvrtc"))
    support = Path(__file__).parents[1] / "support"
    environment = os.environ | {"GEMMGEN_NVRTC": str(path), "PYTHONPATH": os.pathsep.join([str(support.parents[1]), str(support)])}
    done = subprocess.run([sys.executable, str(support / "compiled_with.py")], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return request.param, json.loads(done.stdout)


@pytest.mark.long
def test_every_shipped_spec_builds_or_is_refused_with_the_reason(answer):
    version, told = answer
    outcomes = told["outcomes"]
    assert len(outcomes) > 80 and (version == "newest" or told["name"] == f"NVRTC {version}")
    errors = {name: one["error"] for name, one in outcomes.items() if "error" in one}
    unknown = {name for name, one in outcomes.items() if one["arch"] in UNKNOWN.get(version, ())}
    assert unknown == {name for name, error in errors.items() if error["error"] == "BuildError"} and bool(unknown) == (version in UNKNOWN)
    for name in unknown:
        assert told["name"] in errors[name]["problem"] and errors[name]["try"].startswith("NVRTC 12.8 or later: pip install"), errors[name]
    spilt = {name for name, error in errors.items() if error["error"] == "ResourceError"}
    assert spilt == SPILLS.get(version, set()) and set(errors) == unknown | spilt
    for name, one in outcomes.items():
        assert "error" in one or one["allows"] or not one["spills"], (name, one)
        assert "pinned" not in one or one["pinned"]["error"] == "ResourceError", (name, one)


@pytest.mark.long
def test_what_compilers_accept_of_what_others_refuse_is_recorded(answer, request):
    """gemmgen/build/reference.json, which errors tell from; `--update-golden` with each compiler writes it."""
    version, told = answer
    found = {kernel: accepted for one in told["outcomes"].values() for kernel, accepted in one.get("kernels", {}).items()}
    record = json.loads(reference.RECORD.read_text())
    if request.config.getoption("--update-golden"):
        kernels = record.keys() | {kernel for kernel, accepted in found.items() if not accepted}
        own = {kernel: {told["name"]: found[kernel]} if kernel in found else {} for kernel in kernels}
        record = {kernel: dict(sorted((record.get(kernel, {}) | own[kernel]).items())) for kernel in sorted(kernels)}
        reference.RECORD.write_text(json.dumps(record, indent=2) + "\n")
    assert {kernel for kernel, accepted in found.items() if not accepted} <= record.keys()
    for kernel, compilers in record.items():
        if kernel in found and (told["name"] in compilers or version != "newest"):  # a newer one than the record's need not be in it
            assert compilers.get(told["name"]) == found[kernel], kernel
