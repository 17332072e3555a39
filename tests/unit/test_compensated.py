"""Compensated sums: `[split] sums = "compensated"`."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from gemmgen.catalog.scheme import SCHEMES
from gemmgen.catalog.unit import UNITS
from gemmgen.emulate.core.product import given_back, leading, product
from gemmgen.errors import InfeasibleSpec
from gemmgen.model.accuracy import DISTRIBUTIONS, predicted
from gemmgen.model.error import U, mean_cut
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.solve.frontier import frontier
from gemmgen.spec import loads
from gemmgen.verify import oracles
from gemmgen.verify.bound import bound
from gemmgen.verify.metrics import exact, relative_frobenius

HOPPER = UNITS.get("hopper")


def spec(size=8192, gpu="h200", **sections):
    return loads({"problem": dict.fromkeys("mnk", size), "target": {"gpu": gpu}, **sections})


KERNEL = {
    "tile": {"block": [128, 128, 64], "warp": [64, 128, 64], "cluster": 1, "group": 8, "split_k": 1},
    "pipeline": {"stages": 3, "consumers": "cooperative"}, "fragment": {"policy": "wgmma"},
}


def settled(**split):
    return solve(spec(split={"scheme": "ootomo", "promote": 32} | split, **KERNEL))


COMPENSATED = settled(sums="compensated")


@pytest.mark.parametrize("name, fragment_k, promote, most", [
    ("ootomo", 16, 64, 1e-7), ("f16x6", 16, 32, 6.5e-8), ("bf16x6_apart", 16, 64, 8e-8), ("tf32x3_apart", 8, 32, 1e-7), ("tf32x3", 8, 16, 1.2e-7),
])
def test_the_error_of_compensated_sums(name, fragment_k, promote, most):
    rng = np.random.default_rng(4)
    a, b = rng.uniform(-1, 1, (20, 4096)).astype(np.float32), rng.uniform(-1, 1, (4096, 20)).astype(np.float32)
    errors = [
        relative_frobenius(product(SCHEMES.get(name), HOPPER, a, b, promote=promote, fragment_k=fragment_k, compensated=how), exact(a, b))
        for how in (True, False)
    ]
    assert errors[0] < most < errors[1]
    told = predicted(SCHEMES.get(name), HOPPER, 4096, promote, compensated=True)
    assert told.estimate / 2 < errors[0] < told.estimate * 2
    assert told.worst > predicted(SCHEMES.get(name), HOPPER, 4096, promote).worst


def test_the_estimate_hardly_grows_with_k():
    figures = [predicted(SCHEMES.get("ootomo"), HOPPER, k, 32, DISTRIBUTIONS["uniform"], compensated=True).estimate for k in (1024, 1 << 14)]
    assert figures[1] < 1.1 * figures[0]


def test_the_gate_follows():
    rng = np.random.default_rng(5)
    a, b = rng.uniform(-1, 1, (9, 4096)).astype(np.float32), rng.uniform(-1, 1, (4096, 9)).astype(np.float32)
    assert bound(COMPENSATED, a, b, exact(a, b)).relative_frobenius < 0.8 * bound(settled(), a, b, exact(a, b)).relative_frobenius


def test_what_moves_and_what_stays_add_up():
    x = np.random.default_rng(6).standard_normal(1000).astype(np.float32)
    high = leading(x)
    assert np.array_equal(high + (x - high), x) and (np.abs(x - high) <= np.abs(x) / 128).all() and (np.abs(high) <= np.abs(x)).all()


def test_sums_that_are_exact_stay_exact():
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-100, 101, shape).astype(np.float32) for shape in ((16, 1000), (1000, 16)))
    assert np.array_equal(product(SCHEMES.get("ootomo"), HOPPER, a, b, promote=32, compensated=True), a @ b)


def test_what_the_unit_cuts_on_average_is_given_back():
    rng = np.random.default_rng(8)
    for data, share in (("uniform", 0.75), ("positive", 0.6)):  # of one sign, cuts of terms add up, too, and are not given back
        a, b = (DISTRIBUTIONS[data].draw(rng, shape).astype(np.float32) for shape in ((24, 1024), (1024, 24)))
        own, want = product(SCHEMES.get("ootomo"), HOPPER, a, b, promote=64, compensated=True), exact(a, b)
        less = own.astype(np.float64) / (1 + COMPENSATED.promotion.mean_cut * 5 / 3)  # every 64 k in place of 32
        assert relative_frobenius(own, want) < share * relative_frobenius(less, want)


def test_nothing_is_given_back_where_nothing_is_cut():
    promoted = SCHEMES.get("ootomo").accumulators[0]
    assert mean_cut(SCHEMES.get("ootomo"), UNITS.get("cdna3"), promoted, 64) == 0 == settled().promotion.mean_cut < COMPENSATED.promotion.mean_cut
    coarse, bytes_of = UNITS.get("hopper").of("e4m3", "wgmma"), SCHEMES.get("e4m3x6")  # sums end where terms do: what is cut there has no mean
    assert coarse.rule == "truncate" and coarse.sum_bits and not any(mean_cut(bytes_of, coarse, one, 64) for one in bytes_of.accumulators)
    rest, total = np.float32([0, 3, 2.0**-24]), np.float32([1000, 1.5, 1])
    assert np.array_equal(given_back(rest, total, 1e-7) == rest, [True, True, False])


@pytest.mark.parametrize("name, promote, cuts", [("ootomo", 64, 2.5), ("tf32x3_apart", 32, 2.5), ("tf32x3", 32, 2.5 + 2 * 1.5)])
def test_low_products_cut_what_there_is_by_then(name, promote, cuts):
    scheme = SCHEMES.get(name)
    assert mean_cut(scheme, HOPPER, scheme.accumulators[0], promote) == pytest.approx(0.6 * U * cuts)


def test_sums_of_low_products_stay():
    for name in ("bf16x6_apart", "tf32x3_apart"):
        scheme = SCHEMES.get(name)
        assert [(acc.name, acc.scale, acc.promoted) for acc in scheme.accumulators] == [("main", 0, True), ("small", 0, False)]
        assert [step.accumulator.name for step in scheme.family.recombination.steps] == ["small", "main"]


def test_plain_sums_go_unsaid():
    plain = settled()
    assert plain.sums == "plain" and plain.hash == settled(sums="plain").hash != COMPENSATED.hash
    assert "sums" not in plain.identity and COMPENSATED.identity["sums"] == "compensated"
    assert "sums" not in plain.summary and "compensated sums" in COMPENSATED.summary
    assert plain.numbers["accumulator_registers"] == COMPENSATED.numbers["accumulator_registers"]


def test_the_unit_goes_on_from_what_stays():
    text, plain = render(COMPENSATED).text, render(settled()).text
    assert "acc_main[i][j][r] = fmaf(high, -one, acc_main[i][j][r]);" in text and "issue(stages + slot * STAGE_BYTES, first, first + 2);" in text
    assert "high" not in plain.partition("const auto promote")[2].partition("};")[0]


def test_the_interval_where_none_is_said():
    assert solve(spec(split={"scheme": "ootomo", "sums": "compensated"})).promote == 64
    assert solve(spec(split={"scheme": "tf32x3", "sums": "compensated"})).promote == 32
    assert solve(spec(gpu="mi300x", split={"scheme": "ootomo", "sums": "compensated"})).promote == 32  # to nearest: no cut has a mean


@pytest.mark.parametrize("more", [{"promote": 0}, {"promote": 16}])
def test_sums_that_do_not_move_are_not_compensated(more):
    with pytest.raises(InfeasibleSpec, match="sums that leave the matrix unit") as told:
        settled(sums="compensated", **more)
    assert told.value.where.endswith("[split] sums")


def test_other_designs_have_no_such_choice():
    with pytest.raises(InfeasibleSpec):
        solve(spec(gpu="b200", split={"scheme": "ootomo", "sums": "compensated"}, fragment={"policy": "tcgen05"}))


def test_the_contract_takes_them_where_plain_sums_do_not_do():
    close, usual = (solve(spec(accuracy={"relative_frobenius": asked}, **KERNEL)) for asked in (1e-7, 3e-7))
    assert (close.scheme.name, close.promote, close.sums) == ("run_scaled", 64, "compensated") and usual.sums == "plain"
    with pytest.raises(InfeasibleSpec, match="no scheme reaches this") as told:
        solve(spec(accuracy={"relative_frobenius": 1e-7}, split={"sums": "plain"}, **KERNEL))
    assert "plain" not in str(told.value.has)


def test_the_frontier_lists_them():
    points = {point.told: point for point in frontier(spec(**KERNEL | {"tile": {"block": [128, 128, 64]}})).points}
    point = points["ootomo, 64, compensated"]
    assert point.errors["uniform"] < 1e-7 < points["ootomo, 64"].errors["uniform"] and point.beaten_by in ("", "run_scaled, 64, compensated")
    assert point.seconds == pytest.approx(points["ootomo, 64"].seconds, rel=1e-3) and points["ootomo, 64"].beaten_by and point.as_dict()["sums"] == "compensated"


@pytest.mark.parametrize("compensates", [False, True])
def test_sets_of_a_probe_hold_every_term_once_and_lie_within_an_interval_where_sums_are_compensated(monkeypatch, compensates):
    monkeypatch.setattr(oracles, "shares", lambda plan, k: [[np.arange(k)]])
    plan = SimpleNamespace(promote=16, promotion=SimpleNamespace(compensates=compensates))
    sets = oracles._summed_together(plan, 64, np.random.default_rng(1))
    assert sorted(sets.ravel()) == list(range(64)) and compensates == all(len({*(one // 16)}) == 1 for one in sets)
