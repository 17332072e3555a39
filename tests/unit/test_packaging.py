"""What an installed gemmgen reads is what was installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import gemmgen
from gemmgen import paths

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """A wheel built from this checkout, without the network."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT, check=True, capture_output=True,
    )
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


def run_there(installed: Path, cwd: Path, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.slow
def test_the_wheel_renders_the_checkouts_bytes(installed, tmp_path, gemmgen):
    where = run_there(installed, tmp_path, "-c", (
        "import gemmgen.paths as p, gemmgen; print(gemmgen.__file__, p.TEMPLATES, p.SPECS, sep='\\n')"
    )).split()
    assert all(Path(path).is_relative_to(installed) for path in where), where
    spec = installed / "gemmgen" / "specs" / "kernels" / "sgemm_a100.toml"
    from_wheel = run_there(installed, tmp_path, "-m", "gemmgen", "build", "--source", str(spec))
    from_checkout = gemmgen("build", "--source", ROOT / "specs" / "kernels" / "sgemm_a100.toml").out
    assert from_wheel == from_checkout


def test_the_wheel_holds_every_template_spec_and_module(wheel):
    inside = set(zipfile.ZipFile(wheel).namelist())
    for folder, place in (("templates", "gemmgen/templates"), ("specs", "gemmgen/specs"), ("cmake", "gemmgen/cmake"), ("gemmgen", "gemmgen")):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert f"{place}/{path.relative_to(ROOT / folder)}" in inside
    assert not any(name.startswith(("tests/", "generated/", "bench/")) for name in inside)


def test_the_wheel_has_the_command_and_the_version(installed):
    [metadata] = installed.glob("*.dist-info")
    assert "gemmgen = gemmgen.cli:main" in (metadata / "entry_points.txt").read_text()
    assert f"Version: {gemmgen.__version__}" in (metadata / "METADATA").read_text()


def test_a_checkout_reads_its_own_files_and_no_copy():
    package = Path(gemmgen.__file__).resolve().parent
    if package.parent != ROOT:
        pytest.skip("gemmgen is not installed from this checkout in editable mode")
    assert not (package / "templates").exists() and not (package / "specs").exists()
    assert paths.TEMPLATES == ROOT / "templates" and paths.SPECS == ROOT / "specs"


def test_what_the_tests_import_comes_with_dev():
    """`make test` installs `[dev]`, so tests that lack a module there would be skipped wherever they run."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    def named(extra: str) -> set[str]:
        found = set()
        for requirement in extras[extra]:
            name, inner = re.match(r"([\w-]+)(?:\[([\w,-]+)\])?", requirement).groups()
            found |= set().union(*map(named, inner.split(","))) if name == "gemmgen" else {name}
        return found

    assert named("dev") >= {"hip-python", "matplotlib", "ziglang", "nvidia-cuda-nvrtc", "scikit-learn", "hypothesis", "pytest", "hatchling"}
