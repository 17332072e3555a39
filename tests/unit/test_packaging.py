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


@pytest.mark.long
@pytest.mark.parametrize("extra", ["cuda12", "cuda13"])
def test_the_wheel_and_an_extra_are_all_that_a_first_look_needs(wheel, tmp_path, extra):
    """In a clean environment: a shipped spec is verified without a GPU, and arrays are multiplied."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    clean = tmp_path / "venv" / "bin"
    done = subprocess.run([clean / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel}[{extra}]"],
                          capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"pip cannot install gemmgen[{extra}]: {done.stderr.strip().splitlines()[-1:]}")
    environment = {"PATH": os.environ["PATH"], "GEMMGEN_CACHE": str(tmp_path / "cache")}
    verified = subprocess.run([clean / "gemmgen", "verify", "sgemm_a100", "--m", "64", "--n", "64", "--k", "128"], cwd=tmp_path, env=environment,
                              capture_output=True, text=True)
    assert verified.returncode == 0 and "PASSED" in verified.stdout, verified.stderr
    program = "import gemmgen; print(gemmgen.matmul([[1.0, 2.0]], [[3.0], [4.0]]).tolist()); print(gemmgen.explain('sgemm_a100.toml').plan.arch)"
    (tmp_path / "sgemm_a100.toml").write_text((ROOT / "specs" / "kernels" / "sgemm_a100.toml").read_text())
    told = subprocess.run([clean / "python", "-W", "ignore", "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["[[11.0]]", "sm_80"]
    version = "import gemmgen.build.nvrtc as n; print(n.find_compiler().version[0])"
    assert subprocess.run([clean / "python", "-c", version], env=environment, capture_output=True, text=True, check=True).stdout.strip() == extra[4:]


def test_extras_of_earlier_releases_still_have_what_they_had():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras["cuda-gpu"] == ["gemmgen[cuda13]"] and extras["hip-gpu"] == ["gemmgen[rocm]"]
    for old, new in (("cuda", "cuda13"), ("hip", "rocm")):
        assert extras[old] == extras[new][:1] and len(extras[new]) == 2
    assert [one.partition(">")[0] for extra in ("cuda12", "cuda13") for one in extras[extra]] == [
        "nvidia-cuda-nvrtc-cu12", "cupy-cuda12x", "nvidia-cuda-nvrtc", "cupy-cuda13x"]


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
