"""What an installed gemmgen reads is what was installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
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


FIRST_STEPS_SECONDS = 300
"""On two idle cores, pip's downloads not counted."""
PRODUCTS = """
import warnings
import numpy, gemmgen
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    a, b = [[1.0, 2.0]], [[3.0], [4.0]]
    single = gemmgen.matmul(numpy.float32(a), numpy.float32(b))
    double = gemmgen.matmul(a, b)
    batch = gemmgen.matmul(numpy.ones((3, 4, 5), numpy.float32), numpy.ones((5, 2), numpy.float32))
print(single.dtype, single.tolist(), double.dtype, double.tolist(), batch.shape, (batch == 5).all(), len(told))
print(gemmgen.explain("kernel.toml").plan.arch)
"""
PROGRAM = """
#include <stdio.h>
#include <string.h>
#include "library.h"

int main(void)
{
    library_problem problem;
    library_target target;
    library_choice choice;
    memset(&problem, 0, sizeof problem), memset(&target, 0, sizeof target), memset(&choice, 0, sizeof choice);
    problem.size = sizeof problem, target.size = sizeof target, choice.size = sizeof choice;
    problem.m = problem.n = problem.k = 4096;
    problem.lda = problem.ldb = problem.ldc = 4096;
    strcpy(target.arch, "sm_80"), target.units = 108;
    const int code = library_select(&problem, &target, &choice);
    printf("%s, fallback %d, %.1f\\n", library_error_string(code), choice.is_fallback, choice.sgemm_seconds / choice.seconds);
    return code;
}
"""


@pytest.mark.long
@pytest.mark.parametrize("extra", ["cuda12", "cuda13"])
def test_the_wheel_and_an_extra_are_all_that_first_steps_need(wheel, tmp_path, extra):
    """In a clean environment, each step as README.md or the step before says it: a GPU is not needed, and no file of the checkout."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    clean, work = tmp_path / "venv" / "bin", tmp_path / "work"
    done = subprocess.run([clean / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel}[{extra}]"],
                          capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"pip cannot install gemmgen[{extra}]: {done.stderr.strip().splitlines()[-1:]}")
    work.mkdir()
    environment = {"PATH": f"{clean}:{os.environ['PATH']}", "GEMMGEN_CACHE": str(tmp_path / "cache")}
    began = time.monotonic()

    def step(*command: str) -> str:
        ran = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
        assert not ran.returncode, f"{' '.join(command)}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout

    def following(told: str) -> list[str]:
        return [line.removeprefix("next").split() for line in told.splitlines() if line.startswith("next")][-1]

    assert "Type next:" in step("gemmgen", "doctor")
    told = step("gemmgen", "init", "kernel", "--gpu", "a100")
    assert "verdict" in step("gemmgen", "explain", "kernel.toml")
    assert "PASSED as FP32" in step(*following(told))
    assert step("python", "-c", PRODUCTS).split("\n")[:2] == ["float32 [[11.0]] float64 [[11.0]] (3, 4, 2) True 2", "sm_80"]
    told = step("gemmgen", "init", "library", "--gpu", "a100")
    assert following(told)[-1] == "--dry-run" and "verdict" in step(*following(told))
    step("sh", "-c", " ".join(following(step("gemmgen", "library", "library.toml", "-o", "library"))))
    (work / "program.c").write_text(PROGRAM)
    step("cc", "program.c", "-Ilibrary/include", "library/build/liblibrary.a", "-ldl", "-lpthread", "-o", "program")
    assert step("./program").startswith("no error, fallback 0, ")
    assert time.monotonic() - began < FIRST_STEPS_SECONDS
    version = "import gemmgen.build.nvrtc as n; print(n.find_compiler().version[0])"
    assert step("python", "-c", version).strip() == extra[4:]


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


def test_what_lies_in_the_package_comes_before_what_lies_beside_it(tmp_path, monkeypatch):
    """As a wheel has it."""
    monkeypatch.setattr(paths, "PACKAGE", tmp_path / "gemmgen")
    assert paths._shipped("specs") == tmp_path / "specs"
    (tmp_path / "gemmgen" / "specs").mkdir(parents=True)
    assert paths._shipped("specs") == tmp_path / "gemmgen" / "specs"


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
