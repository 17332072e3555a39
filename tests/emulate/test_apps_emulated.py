"""Applications over generated kernels, in small on the emulator."""

from __future__ import annotations

import numpy as np
import pytest

from gemmgen.workshop import apps
from gemmgen.workshop.apps import matmul as who

SMALL = {"split": {"scheme": "ootomo"}, "tile": {"block": [16, 16, 32], "warp": [16, 16, 32], "split_k": 1}, "pipeline": {"stages": 2}}
WIDE = {"problem": {"type": "f64"}, "split": {"scheme": "residues14"}, "tile": {"block": [32, 32, 64], "warp": [32, 16, 64]}, "pipeline": {"stages": 2}}
OF_F64 = "hpl", "qr"
BATCH = {"split": {"scheme": "ootomo"}, "batch": {"tiles": [[32, 32, 32, 128]]}}
LEAST = {
    "kmeans": {"points": 64, "features": 32, "iterations": 1}, "knn": {"points": 64, "queries": 32}, "mlp": {"batch": 32, "width": 32, "outputs": 32}, "lu": {"n": 64}, "hpl": {"n": 40, "block": 24},
    "qr": {"n": 40, "block": 24}, "cholesky": {"n": 48},
    "bert": {"inner": 64}, "llm": {}, "inception": {}, "graph": {"points": 48, "features": 32}, "polar": {"rows": 32, "columns": 48, "steps": 1},
}
BOUNDS = {
    "kmeans": {"over FP64's": 1e-6}, "knn": {}, "mlp": {"over FP64's": 1e-6, "error": 2e-6},
    "lu": {"scaled residual": 16, "GMRES iterations": 3, "factors' error": 4e-7},
    "hpl": {"scaled residual": 16}, "qr": {"residual": 2e-15, "orthogonality": 2e-15}, "cholesky": {"residual": 4e-7, "error": 4e-7}, "bert": {"error": 4e-7, "largest": 4e-6}, "llm": {"error": 1e-6, "attention": 1e-6},
    "inception": {"error": 4e-7, "largest": 4e-6}, "graph": {}, "polar": {"error": 2e-6},
}
"""What the type's own figures are below, too, but for sums that cancel."""


def ran(name, by, sizes):
    outcome = apps.run(name, by=by, sizes=sizes, data="drawn", device="emulator")
    assert outcome.device.startswith("emulator") and all(row.seconds is None for row in outcome.rows)
    return outcome


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long) if name == "qr" else name for name in apps.NAMES])
def test_an_application_errs_as_its_type_with_generated_kernels(name):
    by = WIDE if name in OF_F64 else BATCH if name == "inception" else SMALL
    outcome = ran(name, [by], LEAST[name])
    vendor, own = outcome.rows[:2]
    assert own.by == by["split"]["scheme"] and own.kernels and outcome.calls and set(own.figures) == set(outcome.app.figures)
    for row in (vendor, own):
        assert all(abs(row.figures[figure]) <= bound for figure, bound in BOUNDS[name].items()), row
        assert all(str(row.figures[figure]).startswith("0 of ") for figure in row.figures if figure in ("other cluster", "wrong neighbours", "other filter"))


@pytest.mark.long
@pytest.mark.parametrize("name", ["kmeans", "knn", "mlp", "lu", "cholesky", "bert", "llm", "inception"])
def test_one_half_word_costs_what_a_user_sees(name):
    """The figures tell a scheme of 11 bits from FP32: by its errors, its iterations or its residual."""
    half = {**(BATCH if name == "inception" else SMALL), "split": {"scheme": "half"}}
    vendor, own = ran(name, [half], {}).rows
    figure = {"kmeans": "over FP64's", "lu": "factors' error", "cholesky": "residual", "knn": None}.get(name, "error")
    if figure:
        assert abs(own.figures[figure]) > 10 * abs(vendor.figures[figure])


@pytest.mark.long
def test_levels_are_chosen_for_each_product():
    outcome = apps.run("cholesky", by=[], sizes={"n": 96}, device="emulator", threshold=1e-4)
    assert len(outcome.levels) == 4 and "half" in outcome.levels.values()
    assert 1e-6 < outcome.rows[-1].figures["error"] <= 1e-4


def test_a_spec_file_multiplies(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text('[split]\nscheme = "ootomo"\n[tile]\nblock = [16, 16, 32]\nwarp = [16, 16, 32]\nsplit_k = 1\n[pipeline]\nstages = 2\n')
    matmul = apps.multiplier(str(path), device="emulator")
    draw = np.random.default_rng(0)
    a, b, c = (draw.standard_normal(shape).astype(np.float32) for shape in ((20, 33), (24, 33), (40, 24)))
    part, before = c[10:30], c.copy()
    matmul(a, b, op="nt", out=part, alpha=-2.0, beta=0.5)
    np.testing.assert_allclose(part, 0.5 * before[10:30] - 2 * a @ b.T, rtol=1e-5, atol=1e-4)
    assert np.array_equal(c[:10], before[:10]) and np.array_equal(c[30:], before[30:])
    assert matmul.calls == {who.Shape(20, 24, 33, "nt"): 1}
    matmul.release()
