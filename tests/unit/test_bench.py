"""What of the bench needs no GPU: its statistics, its table, its answers to bad input."""

from __future__ import annotations

import numpy as np
import pytest

from gemmgen.bench import BASELINE, Table, _row, as_text, median_interval
from gemmgen.cli.inputs import problem_sizes
from gemmgen.errors import SpecError


def test_the_interval_covers_the_median_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(2000):
        low, high = median_interval(np.sort(rng.exponential(1.0, 15)))
        hits += low <= np.log(2) <= high
    assert 0.93 < hits / 2000 < 0.999


@pytest.mark.parametrize("count", [2, 3, 5, 6, 15, 40])
def test_the_interval_lies_within_the_data_and_holds_the_median(count):
    ordered = np.sort(np.random.default_rng(count).normal(size=count))
    low, high = median_interval(ordered)
    assert ordered[0] <= low <= np.median(ordered) <= high <= ordered[-1]


def test_a_row_pairs_the_rounds():
    """A chip that slows down from round to round slows both; the ratio does not move."""
    slowing = np.array([1.0, 2.0, 4.0])
    row = _row((100, 200, 300), "ours", slowing / 3, slowing, 1e-7)
    assert row.ratio == pytest.approx(3.0)
    assert row.interval == pytest.approx((3.0, 3.0))
    assert row.tflops == pytest.approx(2 * 100 * 200 * 300 / (2 / 3) / 1e12)


def test_the_table_tells_device_conditions_and_ratios_first():
    base = np.array([2.0, 2.0])
    rows = tuple(_row((64, 64, 64), name, seconds, base, 1e-7) for name, seconds in ((BASELINE, base), ("ours", base / 2)))
    text = as_text(Table("A GPU", {0: {"clocks.sm": "1000 MHz"}}, 2, -1, 1, rows))
    assert "A GPU" in text and "1000 MHz" in text
    assert [line.split()[5] for line in text.splitlines()[-2:]] == ["1.00", "2.00"]


def test_sizes():
    assert problem_sizes("64,128x32x7") == [(64, 64, 64), (128, 32, 7)]
    for text in ("", "4k", "1x2", "0", "-3", "1,,2", "99999999"):
        with pytest.raises(SpecError) as caught:
            problem_sizes(text)
        assert "--sizes" in str(caught.value) and "try" in str(caught.value)
