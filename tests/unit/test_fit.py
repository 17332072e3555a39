"""Least squares with a prior: unknowns found again, past steps, within bounds, and shared by the rows of several targets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gemmgen.catalog.gpu import GPUS
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.workshop.fit.least import Unknown, changed, drawn, least, value
from gemmgen.workshop.fit.register_model import Compiled, asked, model_of, moved


def test_an_unknown_is_its_prior_and_so_many_deviations_within_its_bounds():
    plain, relative = Unknown((("a",),), 10.0, 2.0, low=7.0, high=20.0), Unknown((("a",),), 10.0, np.log(2), relative=True, low=5.0)
    assert (plain.at(1), plain.at(-3), plain.limits) == (12.0, 7.0, (-1.5, 5.0))
    assert relative.at(1) == pytest.approx(20) and relative.at(-9) == 5.0 and relative.limits[0] == pytest.approx(-1)
    low, high = (Unknown((("a",),), 7.0, 2.0, low=7.0, high=high).limits for high in (9.0, 7.0))  # a prior on its bound is within, or no fit could begin there
    assert low == (-1e-9, 1.0) and high == (-1e-9, 1e-9)
    assert least([Unknown((("a",),), 7.0, 2.0, low=7.0)], lambda by: 3.0 - by).moved[0] > 0.5


def test_many_measurements_lead_an_unknown_from_its_prior_and_one_does_so_less():
    one = Unknown((("a",),), 0.0, 1.0)
    far, near = (least([one], lambda by, count=count: np.full(count, 2.0) - by).moved[0] for count in (100, 1))
    assert far == pytest.approx(2, abs=0.05) and 0.5 < near < 1.5
    assert least([one], lambda by: np.zeros(3)).deviations[0] == pytest.approx(1)  # what no measurement depends on stays as open as it was


@pytest.mark.parametrize("off", [3.0, -3.0])
def test_a_step_is_passed_where_it_is_said_that_there_are_some(off):
    def errors(by):
        return np.full(9, 0.0 if abs(by[0]) > 1.5 and by[0] > -2.5 else off)

    one, below, above = (Unknown((("a",),), 0.0, 1.0, low=low, high=high) for low, high in ((-1.0, np.inf), (-2.0, 1.0), (-1.0, 2.0)))
    assert least([one], errors).moved[0] == 0 and 1.5 < least([one], errors, stepped=True).moved[0] <= 2
    assert -2 <= least([below], errors, stepped=True).moved[0] < -1.5 and 1.5 < least([above], errors, stepped=True).moved[0] <= 2, "on a bound, too"


def test_a_value_of_a_row_is_changed_in_a_copy_alone():
    row = GPUS.get("a100").registers
    other = changed(row, ("slopes", "per_sum", 2), 7.5)
    assert value(other, ("slopes", "per_sum", 2)) == 7.5 != value(row, ("slopes", "per_sum", 2))
    assert changed(other, ("slopes", "per_sum", 2), value(row, ("slopes", "per_sum", 2))) == row


def test_a_share_of_names_is_drawn_with_all_that_have_them():
    names = np.array(list("aabbccddee"))
    held = drawn(names, 0.4, np.random.default_rng(1))
    assert held.sum() == 4 and all(len(set(held[names == name])) == 1 for name in names)


def test_targets_share_a_slope_and_have_offsets_of_their_own():
    """Two compilers that keep 8 and 20 registers more, and both a tenth less for each register of sums."""
    gpu = GPUS.get("a100")
    specs = [{"tile": {"block": [64, 64, 32], "warp": [warp, 32, 32]}, "split": {"scheme": scheme}} for scheme in ("ootomo", "half") for warp in (16, 32, 64)]
    numbers = [asked(solve(loads({**one, "split": {**one["split"], "where": "prepass", "promote": 0}, "pipeline": {"fragment_buffers": 1},
                                  "target": {"gpu": "a100"}, "build": {"allow_spills": True}}))) for one in specs]
    loops = sorted({int(one["loop"]) for one in numbers})
    hidden = {}
    for target, more in (("first", 8.0), ("second", 20.0)):
        table = gpu.registers
        for loop in loops:
            table = changed(table, ("offset", loop), value(table, ("offset", loop)) + more)
            table = changed(table, ("slopes", "per_sum", loop), 0.9 * value(table, ("slopes", "per_sum", loop)))
        hidden[target] = table
    rows = [replace(row, registers=int(model_of([row])(hidden[row.target])["registers"][0]))
            for target in hidden for row in (Compiled({}, "portable", "", one, 0, 0, target) for one in numbers)]
    for loop in loops:
        mine = [row for row in rows if row.loop == loop]
        now = {path: value(gpu.registers, path) for path in (("offset", loop), ("slopes", "per_sum", loop))}
        unknowns = [Unknown((("offset", loop),), now["offset", loop], 30.0, rows=(target,)) for target in hidden]
        unknowns.append(Unknown((("slopes", "per_sum", loop),), now["slopes", "per_sum", loop], 0.5))
        found = moved(mine, dict.fromkeys(hidden, gpu.registers), unknowns)
        offsets = [value(found[target], ("offset", loop)) for target in hidden]
        assert 10.5 < offsets[1] - offsets[0] < 13.5  # 12
        assert len({value(found[target], ("slopes", "per_sum", loop)) for target in hidden}) == 1
        for row in mine:
            assert abs(model_of([row])(found[row.target])["registers"][0] - row.registers) <= 2
