"""The parts of the demonstration that decide what it says."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from gemmgen import demo
from gemmgen.solve import solve


@pytest.mark.slow
@pytest.mark.long  # scikit-learn takes seconds to import
def test_the_digits_are_scikit_learns():
    theirs = pytest.importorskip("sklearn.datasets").load_digits()
    for mine, own in zip(demo.digits(), (theirs.data, theirs.target), strict=True):
        assert mine.dtype == own.dtype and np.array_equal(mine, own)


def test_features_are_standardised_and_not_integers():
    z = demo._features()
    assert z.shape == (1797, 64) and z.dtype == np.float32
    varying = z.std(axis=0) > 0
    assert not z[:, ~varying].any() and 0 < (~varying).sum() < 8
    np.testing.assert_allclose(z[:, varying].mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(z[:, varying].std(axis=0), 1, rtol=1e-5)
    assert (z.astype(np.float16) != z).mean() > 0.5  # most values need their low word


def test_the_nearer_and_then_the_lower_index_comes_first():
    x = np.array([[0.0], [1.0], [-1.0], [1.0], [5.0], [2.0], [2.5]])
    found = demo._neighbours(x @ x.T, (x**2).sum(axis=1))
    assert found[0].tolist() == [1, 2, 3, 5, 6]
    assert found[1].tolist() == [3, 0, 5, 6, 2]


@pytest.mark.slow
@pytest.mark.parametrize(("present", "chosen"), [((), "a100"), (("a100", "rtx4090"), "rtx4090"), (("h100",), "h100")])
@pytest.mark.parametrize("name", ["sgemm_a100", "digits_ootomo", "digits_half"])
def test_the_specs_are_for_the_gpu_that_is_there(monkeypatch, name, present, chosen):
    monkeypatch.setattr("gemmgen.run.cuda.why_not", lambda gpu: None if gpu.name in present else "absent")
    assert solve(demo._shipped(name)).gpu.name == chosen


@pytest.mark.parametrize(("verified", "digits", "code"), [(True, True, 0), (False, True, 1), (True, False, 1)])
def test_both_parts_have_to_be_right(monkeypatch, capsys, verified, digits, code):
    monkeypatch.setattr(demo, "_verification", lambda: verified)
    monkeypatch.setattr(demo, "_digits", lambda: digits)
    assert demo.main() == code and capsys.readouterr().out.startswith("\ndemo FAILED in " if code else "\ndemo PASSED in ")


@pytest.mark.slow
@pytest.mark.parametrize(("verified", "wrong", "code"), [
    (True, {"ootomo": 0, "half": 3}, 0), (False, {"ootomo": 0, "half": 3}, 1),
    (True, {"ootomo": 1, "half": 3}, 1), (True, {"ootomo": 0, "half": 0}, 1),
])
def test_exit_code(monkeypatch, capsys, verified, wrong, code):
    """Wrong neighbours are made by moving some rows of the true Gram matrix far away."""
    def gram(scheme, z):
        exact = z.astype(np.float64) @ z.T.astype(np.float64)
        exact[: wrong[scheme]] *= -1
        found = type("Found", (), dict.fromkeys(("relative_frobenius", "max_error", "mred", "scaled"), 0.0))
        return "a device", exact, found

    monkeypatch.setattr(demo, "_verification", lambda: verified)
    monkeypatch.setattr(demo, "_gram", gram)
    assert demo.main() == code
    assert ("demo PASSED" if code == 0 else "demo FAILED") in capsys.readouterr().out


@pytest.mark.parametrize(("ootomo", "half", "right"), [(0.0, 0.5, True), (0.0, 0.0, False), (0.5, 0.5, False)])
def test_the_demonstration_wants_right_neighbours_of_one_scheme_and_wrong_ones_of_the_other(monkeypatch, capsys, ootomo, half, right):
    z = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)
    off = {"ootomo": ootomo, "half": half}

    def gram(scheme, z):
        exact = z.astype(np.float64) @ z.T.astype(np.float64)
        figures = SimpleNamespace(relative_frobenius=0.0, max_error=0.0, mred=0.0, scaled=0.0)
        return "a device", exact + off[scheme] * np.random.default_rng(1).standard_normal(exact.shape), figures

    monkeypatch.setattr(demo, "_features", lambda: z)
    monkeypatch.setattr(demo, "_gram", gram)
    assert demo._digits() is right
    assert ("0 of 150" in capsys.readouterr().out.split("ootomo")[1].splitlines()[0]) is (ootomo == 0)


@pytest.mark.slow
def test_the_demonstration_imports_no_package_that_make_demo_does_not_install():
    program = (
        "import sys, importlib.metadata as metadata, gemmgen.demo as demo\n"
        "import gemmgen.solve, gemmgen.build, gemmgen.emulate.ptx.emulator, gemmgen.run.emulator, gemmgen.verify, gemmgen.render\n"
        "demo._features(); demo.road.plan(demo._shipped('digits_half'))\n"
        "of = metadata.packages_distributions()\n"
        "print(*{name.lower() for module in list(sys.modules) for name in of.get(module.partition('.')[0], ())})"
    )
    loaded = set(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split())
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["demo"]]
    named = {re.match(r"[\w.-]+", one)[0].lower() for one in wanted}
    theirs = {"annotated-types", "markupsafe", "mpmath", "pydantic_core", "pydantic-core", "typing-inspection", "typing_extensions", "typing-extensions",
              "annotated-doc", "shellingham", "rich"}  # what those bring
    assert {"numpy", "pydantic"} <= loaded and loaded - named - theirs - {"gemmgen", "setuptools", "cupy-cuda13x", "cupy-cuda12x"} == set()
