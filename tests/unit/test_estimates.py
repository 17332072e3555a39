"""bench/estimates.py: which committed times it finds, and what it says of them."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from gemmgen.paths import SPECS


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("estimates", SPECS.parent / "bench" / "estimates.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def times(script):
    """Those of the vendor's routines in tables: no kernel is solved for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(script, "of_spec", lambda *args, **more: iter(()))
        return [*script.of_tables(["h200", "h100"]), *script.of_pages()]


def test_products_are_classed_by_their_extents(script):
    sizes = {"384 of 512 x 64 x 512": "batch", "384 of 512 x 512 x 64": "batch, short k", "16 x 4096 x 4096": "thin", "512^3": "small",
             "2048 x 2048 x 256": "short k", "4096^3": "middle", "8192^3": "large"}
    for text, of in sizes.items():
        assert script.shape(*script.sizes(text)) == of
        assert script.sizes(script.named(*script.sizes(text))) == script.sizes(text)
    assert script.sizes("m, of m x 4096 x 4096") is script.sizes("5275 to 5884") is None
    assert script._number("1,234.5") == 1234.5 and script._number("13.1 us") is None


def test_classes_are_told_by_hand(script):
    made = [script.Timed("one", "", 2.0, 2.0 * ratio) for ratio in (0.5, 0.9, 1.0, 1.2, 1.1)] + [script.Timed("other", "", 1.0, 3.0)]
    assert script.summary(made) == [["one", "5", "10 %", "38 %", "1.00", "40 %"], ["other", "1", "200 %", "200 %", "3.00", "0 %"]]


def test_every_table_of_the_vendors_times_is_found(times):
    """A page whose heads change is noticed: so many times at least, by class."""
    count = lambda text: sum(text in one.of for one in times)
    assert count("h200: SGEMM") >= 100 and count("h100: SGEMM") == 12 and count("the vendor's TRSM") >= 7 and count("the vendor's level 3") == 12
    assert count("native FP64") >= 10 and {one.size for one in times if "SGEMM" in one.of} >= {(512, 64, 512, 384), (64, 4096, 4096, 1)}
    by = {one.what: one for one in times}
    assert by["trsm at 64 of 256 x 256 x 256"].measured == pytest.approx(200.5e-6) and by["DGEMM at 16384 x 16384 x 16384"].measured < 0.18
    assert by["syrk at 4096 x 4096 x 4096"].measured == pytest.approx(1809e-6)


@pytest.mark.parametrize(("of", "median", "worst"), [
    ("h200: SGEMM", 0.10, 0.26), ("the vendor's TRSM", 0.08, 0.12), ("native FP64", 0.06, 0.12), ("the vendor's level 3", 0.15, 0.2),
])
def test_what_the_vendor_takes_is_predicted_as_it_was_measured(times, of, median, worst):
    """The median and the 90th percentile of a class: a constant that is off by a fifth shows."""
    errors = np.array([abs(one.ratio - 1) for one in times if of in one.of])
    assert np.median(errors) < median and np.quantile(errors, 0.9) < worst


@pytest.mark.parametrize(("scheme", "most"), [("bf16x6_apart", 0.1), ("run_scaled", 0.1)])
def test_short_sums_are_predicted_as_they_were_measured(script, scheme, most):
    """4096 x 4096 x 64, where work, C's way out and the end of a run are each a good part of the time."""
    row, *_ = [row for table in script.tables("small.md") for row in table if row.get("m x n x k") == "4096 x 4096 x 64"]
    [found] = script.of_scheme(scheme, 4096, 4096, 64, 1, 1e-6 * float(row[f"`{scheme}`"]))
    assert found.of.endswith("short k") and abs(found.ratio - 1) < most
