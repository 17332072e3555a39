"""The few kernels that matter: sets, rules and dispatch tables, by hand and against all sets there are."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.optimize
from explored import GPU, plans, row_of, sizes, timed

from gemmgen import __version__, road
from gemmgen.catalog.gpu import GPUS
from gemmgen.cli import main
from gemmgen.errors import DeviceError, GemmgenError, InfeasibleSpec, SpecError, UnknownName
from gemmgen.library import dispatch
from gemmgen.library.cover import cost_of
from gemmgen.model.accuracy import DISTRIBUTIONS
from gemmgen.paths import SPECS
from gemmgen.workshop.choose import few
from gemmgen.workshop.choose import timed as choosing_timed
from gemmgen.workshop.choose.few import Costs, _leanings, best_set, choose, costs, exact, greedy
from gemmgen.workshop.choose.shapes import SHAPES, Shape, drawn, load_shapes, merged, parted, shapes_of
from gemmgen.workshop.explore.rebuilt import budgets, plan_of
from gemmgen.workshop.explore.store import Store, Writer
from gemmgen.workshop.explore.trial_row import Row
from gemmgen.workshop.fit.time_model import with_constants
from gemmgen.workshop.verbs.report import choice_text

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def plain_fp32():
    """Verdicts need a plan of plain FP32 at each shape, which takes longer than all else that is asked here."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(few, "plain_of", lambda gpu, m, n, k, layout: (1e-3, "plain FP32"))
        yield


def made(seconds, weights=None, layouts=None) -> Costs:
    """Costs of kernels that are nothing but their times, [kernels, shapes]."""
    seconds = np.array(seconds, float)
    kernels, shapes = seconds.shape
    layouts = layouts or ["nn"] * kernels
    rows = tuple(Row("s", f"t{at}", "kernel", "timed", f"kernel{at}", GPU, 1, 1, 1, layouts[at], identity=f"{at}") for at in range(kernels))
    where = tuple(Shape(at + 1, 1, 1, weight=(weights or [1] * shapes)[at]) for at in range(shapes))
    return Costs(GPU, rows, where, seconds, np.isfinite(seconds), (None,) * kernels)


# ---- sets


def test_the_regret_is_a_weighted_geometric_mean_by_hand():
    """One kernel is the best at the first shape and takes twice the time at the second, whose weight is 3 of 4: 2^(3/4)."""
    known = made([[1, 2], [9, 1]], [1, 3])
    assert cost_of(known.logs, known.weights, [0]) == pytest.approx(0.75 * np.log(2))


def test_greedy_takes_what_gains_most_and_the_programme_finds_better():
    """Alone, the kernel that is good everywhere gains most; the best two are the specialists, which greedy cannot take back to."""
    known = made([[1, 1, 8, 8], [8, 8, 1, 1], [2, 2, 2, 2]])
    first, best = greedy(known, 2), exact(known, 2)
    assert first.kernels[0] == 2 and first.cost == pytest.approx(np.log(2) / 2)
    assert best.kernels == (0, 1) and best.cost == pytest.approx(0) and best.least == best.cost
    assert first.least <= best.cost and best_set(known, 2).kernels == (0, 1)
    assert best_set(known, 2, "greedy").kernels[0] == 2
    assert greedy(known, 1).least == pytest.approx(np.log(2))  # of 3 log 2 without any, the best kernel alone gains 2


@pytest.mark.parametrize("seed", range(4))
def test_the_programme_finds_the_best_of_all_sets_and_greedys_bounds_hold(seed):
    draw = np.random.default_rng(seed)
    known = made(np.exp(draw.normal(0, 1, (9, 12))), list(draw.uniform(0.1, 3, 12)))
    for most in (1, 2, 3):
        least = min(cost_of(known.logs, known.weights, which) for which in combinations(range(9), most))
        found, first = exact(known, most), greedy(known, most)
        assert found.cost == pytest.approx(least, abs=1e-9) and len(found.kernels) <= most
        assert first.least <= least + 1e-9 and least <= first.cost + 1e-9
        nothing = float(known.logs.max(axis=0) @ known.weights)
        assert nothing - first.cost >= (1 - 1 / np.e) * (nothing - least) - 1e-9  # what greedy is sure to gain
    assert greedy(known, 9).cost == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("status, bound, least", [(0, 0.0, "cost"), (1, 0.01, "bound"), (1, -3.0, "greedy"), (1, 99.0, "cost")])
def test_a_set_is_proven_only_where_the_programme_came_to_its_end(monkeypatch, status, bound, least):
    """After a time-out (status 1) it tells a bound, and no more; a bound above the cost is none."""
    known = made([[1, 1, 8, 8], [8, 8, 1, 1.5], [2, 2, 2, 2], [9, 9, 9, 1]])
    given, asked = scipy.optimize.milp, []

    def milp(*arguments, options, **how):
        asked.append(options["time_limit"])
        found = given(*arguments, options=options, **how)
        found.status, found.mip_dual_bound = status, bound
        return found

    monkeypatch.setattr(scipy.optimize, "milp", milp)
    found, chosen = exact(known, 2, 7.0), best_set(known, 2, seconds=5.0)
    assert asked == [7.0, 5.0] and found.method == "exact" and 0 < found.cost < greedy(known, 2).cost
    assert found.least == {"cost": found.cost, "bound": 0.01, "greedy": 0.0}[least]
    assert chosen.least == {"cost": found.cost, "bound": max(0.01, greedy(known, 2).least), "greedy": greedy(known, 2).least}[least]
    monkeypatch.setattr(scipy.optimize, "milp", lambda *_, **how: type("None", (), {"x": None})())
    assert exact(known, 2) is None and best_set(known, 2) == greedy(known, 2)


def test_a_programme_that_ends_with_a_worse_set_leaves_greedys_and_its_bound(monkeypatch):
    """Nothing is less sure than either said, and no bound is above the cost."""
    known = made([[1, 1, 8, 8], [8, 8, 1, 1.5], [2, 2, 2, 2], [9, 9, 9, 1]])
    first = greedy(known, 2)
    assert 0 <= first.least < first.cost
    for told, least in ((first.cost + 0.5, first.cost), (0.5 * (first.least + first.cost), 0.5 * (first.least + first.cost)), (-1.0, first.least)):
        monkeypatch.setattr(few, "exact", lambda *given, told=told: replace(first, kernels=(3,), cost=first.cost + 1, least=told, method="exact"))
        assert best_set(known, 2) == replace(first, least=least)


def test_without_scipy_the_greedy_set_serves_unless_the_programme_is_asked_for(monkeypatch):
    known = made([[1, 1, 8, 8], [8, 8, 1, 1.5], [2, 2, 2, 2], [9, 9, 9, 1]])

    def missing(*given):
        raise GemmgenError("scipy", "is not installed")

    monkeypatch.setattr(few, "exact", missing)
    assert best_set(known, 2) == best_set(known, 2, "greedy") == greedy(known, 2)
    with pytest.raises(GemmgenError, match="is not installed"):
        best_set(known, 2, "exact")


def test_what_is_said_of_a_stores_times_and_errors():
    known = made([[1.0, 2.0], [3.0, np.inf]])
    for measured, errors, told in (
        ([[True, True], [True, False]], (1e-7, 2e-7), ["mine: all 3 times were measured"]),
        ([[True, True], [False, False]], (1e-7, 1e-6), ["mine: 2 of 3 times were measured; for the others the model stands in, with constants"]),
        ([[False, False], [False, False]], (1e-7, None),
         ["mine: nothing was timed at these shapes; all times are the model's, with constants"]),
        ([[True, True], [True, False]], (1e-7, 1.1e-6),
         ["mine: all 3 times were measured", "mine: kernels differ in their error, from 1.0e-07 to 1.1e-06; --error says how large it may be"]),
    ):
        assert few._notes("mine", replace(known, measured=np.array(measured), error=errors), "constants") == told


def test_constants_are_fitted_where_that_helps_and_else_are_the_rows_own(monkeypatch):
    row, own = row_of(plans()[0], (64, 64, 64)), (None, "the constants of the GPU's row")
    answer = SimpleNamespace(gpu="fitted", rows=12, helped=True)
    monkeypatch.setattr(few, "learnt", lambda rows, gpu: answer if gpu.name == GPU and rows == [row] else None)
    assert few._model([row], True) == ("fitted", "constants fitted to 12 rows") and few._model([row], False) == own
    answer.helped = False
    assert few._model([row], True) == own

    def refuse(rows, gpu):
        raise GemmgenError("store", "too few rows")

    monkeypatch.setattr(few, "learnt", refuse)
    assert few._model([row], True) == own


def test_each_layout_gets_a_kernel_first_or_the_request_is_refused():
    inf = np.inf
    known = made([[1, 1, 1, inf], [1.1, 3, 9, inf], [inf, inf, inf, 1]], layouts=["nn", "nn", "nt"])
    known = replace(known, shapes=(*known.shapes[:3], Shape(9, 9, 9, "nt")))
    assert set(greedy(known, 2).kernels) == {0, 2}
    with pytest.raises(SpecError, match="layouts") as refusal:
        best_set(known, 1)
    assert refusal.value.remedy == "--kernels 2"


# ---- times


def test_what_was_not_timed_is_predicted_and_leans_as_the_kernel_does():
    """A GPU on which every kernel takes 1.3 times as long as predicted: what the model tells of other sizes takes that, too."""
    shapes, measured = [Shape(*one) for one in sizes(12)], [Shape(*one) for one in sizes(12, seed=2)]
    rows = [replace(row, seconds=1.3 * row.predicted_seconds) for row in timed(plans(few=2), [one.size for one in measured], rival=None)]
    found = costs(rows, GPU, shapes)
    assert not found.measured.any()
    truth = np.array([row.seconds for row in timed(plans(few=2), [one.size for one in shapes], noise=0, rival=None)]).reshape(2, 12)
    assert np.abs(np.log(found.seconds / (1.3 * truth))).max() < 0.03
    both = costs(rows, GPU, [*shapes, *measured])
    assert both.measured.sum() == 24 and both.seconds[0, 12] == pytest.approx(rows[0].seconds)


def test_how_much_the_model_is_off_is_the_kernels_and_the_shapes():
    """The third kernel is slower by 0.3 than the first at each shape, and every kernel by 0.4 at the second: that tells the place where it was not timed."""
    logs = np.array([[0.1, 0.5, 0.2], [0.1, 0.5, 0.2], [0.4, np.nan, 0.5]])
    np.testing.assert_allclose(_leanings(logs, few=0.0), [[0.1, 0.5, 0.2], [0.1, 0.5, 0.2], [0.4, 0.8, 0.5]], atol=1e-3)
    once = _leanings(np.array([[0.9, np.nan], [0.3, 0.3]]))  # one measurement of three does not speak for its kernel and shape
    assert 0.5 < once[0, 0] < 0.9 and 0.5 < once[0, 1] < once[0, 0] and not _leanings(np.full((2, 2), np.nan)).any()


def test_errors_verdicts_and_gpus_say_which_kernels_may_be_chosen():
    rows = timed(plans(few=3), sizes(3), rival=None)
    rows = [replace(row, error=1e-3) if row.identity == rows[0].identity else row for row in rows]
    shapes = [Shape(*one) for one in sizes(3)]
    kept = [len(costs(rows, GPU, shapes, **limit).rows) for limit in ({}, {"error": 1e-6}, {"error": 1e-3}, {"error": 0.99e-3})]
    assert kept == [3, 2, 3, 2]  # an error as large as the limit is within it
    assert len(costs([replace(row, verdict="wrong") if row.identity == rows[0].identity else row for row in rows], GPU, shapes).rows) == 2
    with pytest.raises(SpecError, match="layout") as refusal:
        costs(rows, GPU, [Shape(1, 2, 3, "tt")])
    assert "--layout" in refusal.value.remedy
    with pytest.raises(SpecError, match="no kernel"):
        choose([replace(row, verdict="hung") for row in rows])


def test_numbers_of_a_kernel_are_those_of_its_sizes_and_of_the_registers_that_it_has():
    [plan], sides = plans(few=1), np.array([[512, 256, 64], [0, 8, 1]])
    told = {registers: budgets(plan, sides, registers) for registers in (None, 0, 77)}
    assert [told[None][name].tolist() for name in "MNK"] == [[512, 1], [256, 8], [64, 1]]
    assert told[77]["registers"] == 77 and told[None]["registers"] == told[0]["registers"] == plan.predicted_registers, "the model's, where nobody compiled it"


@pytest.mark.parametrize("turned", [False, True])
def test_a_kernels_error_is_the_largest_that_it_was_seen_to_have(turned):
    """At any size, whatever the order of rows: measured, and predicted where nobody looked. One whose error is not finite may not be chosen at all."""
    shapes = [Shape(*one) for one in sizes(3)]
    rows = [replace(row, error=error, predicted_error=predicted) for row, (error, predicted) in zip(
        timed(plans(few=1), sizes(3), rival=None), ((2e-6, 9.0), (None, 3e-5), (1e-7, 1e-9)), strict=True)]
    rows = rows[::-1] if turned else rows
    assert costs(rows, GPU, shapes).error == (3e-5,)
    assert len(costs(rows, GPU, shapes, error=3e-5).rows) == 1
    for limit in (2.9e-5, 1e-7):
        with pytest.raises(SpecError, match="may be chosen"):
            costs(rows, GPU, shapes, error=limit)
    for bad in (np.inf, np.nan):
        known = [replace(rows[0], error=bad), *rows[1:]]
        assert costs(known, GPU, shapes).error == (max(one.error if one.error is not None else one.predicted_error for one in known[1:]),)
    unknown = [replace(row, error=None, predicted_error=None) for row in rows]
    assert costs(unknown, GPU, shapes).error == (None,)
    with pytest.raises(SpecError, match="may be chosen"):
        costs(unknown, GPU, shapes, error=1.0)


def test_a_time_is_the_median_of_all_of_the_kernel_at_the_size():
    plan, size, other = plans(few=1)[0], (512, 512, 512), (512, 512, 1024)
    for times, wanted in (([5e-6, 1e-6, 2e-6], 2e-6), ([4e-6, 1e-6, 2e-6, 9e-6], 3e-6), ([7e-6], 7e-6)):
        rows = [row_of(plan, size, verdict="timed", seconds=one) for one in times] + [row_of(plan, other, verdict="timed", seconds=1.0)]
        found = costs(rows, GPU, [Shape(*size)])
        assert found.seconds.tolist() == [[wanted]] and found.measured.all()


def test_kernels_of_other_layouts_than_the_shapes_are_no_candidates():
    plan, size = plans()[0], (64, 96, 32)
    rows = [row_of(plan, size, layout=layout, identity=layout, trial=layout, verdict="timed", seconds=seconds, error=1e-7)
            for layout, seconds in (("nt", 1e-6), ("nn", 2e-6), ("tn", 3e-6))]
    found = costs(rows, GPU, [Shape(*size)])
    assert [row.layout for row in found.rows] == ["nn"] and found.seconds.tolist() == [[2e-6]] and found.best.tolist() == [2e-6]
    both = made([[1, 4, 7], [2, 3, np.inf]])
    assert both.best.tolist() == [1, 3, 7] and made([[1, np.inf], [2, np.inf]]).best.tolist() == [1, np.inf]


def test_a_brief_time_counts_only_where_no_whole_one_is():
    rows = timed(plans(few=1), sizes(2), rival=None)
    brief = [replace(row, seconds=5 * row.seconds, extra='{"effort":0.1}') for row in rows]
    shapes = [Shape(*one) for one in sizes(2)]
    assert costs([*rows, *brief], GPU, shapes).seconds == pytest.approx(costs(rows, GPU, shapes).seconds)
    assert costs([rows[0], *brief], GPU, shapes).seconds[0, 1] == pytest.approx(5 * rows[1].seconds)


# ---- rules


def test_rules_by_hand():
    """Small m wants one kernel, deep k of the others a second: two thresholds, each at the first round number from the shape before it on."""
    where = np.array([[m, 1000, k] for m in (50, 100, 1000, 2000) for k in (60, 3000)])
    takes = np.array([0 if m <= 100 else 1 if k > 64 else 2 for m, _, k in where])
    found = dispatch.learnt(np.where(np.arange(3)[:, None] == takes, 0.0, 1.0), where, np.full(8, 1 / 8), 8)
    assert found == [({"m": 104}, 0), ({"k": 60}, 2), ({}, 1)]


def test_rules_of_a_list_serve_each_shape_as_the_tree_did():
    """As many rules as there is room for give every shape of its own its best kernel, and fewer never do better than more."""
    draw = np.random.default_rng(4)
    where, cost = np.array(sizes(40)), draw.uniform(0, 1, (5, 40))
    weights, regrets = np.full(40, 1 / 40), []
    for most in (1, 4, 12, 60):
        rules = [dispatch.Rule(at_most=bounds, kernel=f"k{kernel}") for bounds, kernel in dispatch.learnt(cost, where, weights, most, 0.0)]
        assert len(rules) <= most and not rules[-1].at_most
        taken = [next(int(rule.kernel[1:]) for rule in rules if rule.holds({"m": m, "n": n, "k": k, "mn": m * n})) for m, n, k in where.tolist()]
        regrets.append(cost[taken, np.arange(40)].mean() - cost.min(axis=0).mean())
    assert regrets == sorted(regrets, reverse=True) and regrets[-1] < 0.02 < regrets[0]


@pytest.mark.parametrize(("few", "thresholds"), [(1, [32, 96]), (2, [32, 96]), (3, [48, 80])])
def test_each_side_of_a_threshold_has_so_many_shapes(few, thresholds):
    """Of eight, the first two or the last two want another kernel than the rest."""
    where = np.array([[m, 100, 100] for m in range(16, 129, 16)])
    for two, threshold in zip((2, 6), thresholds):
        first = np.arange(8) < two
        rules = dispatch.learnt(np.array([~first, first], float), where, np.full(8, 1 / 8), 2, few=few)
        assert rules[0][0] == {"m": threshold}


def test_thresholds_are_numbers_of_four_binary_digits_and_never_smaller():
    values = np.arange(1, 5000)
    found = dispatch.rounded_up(values)
    digits = np.maximum(0, np.log2(found).astype(int) - 3)
    assert (found >= values).all() and (found <= values * 1.13 + 1).all() and (found >> digits << digits == found).all()
    assert dispatch.rounded_up(np.array([4096, 4097, 100])).tolist() == [4096, 4608, 104]


# ---- estimates


def test_an_estimate_by_hand():
    """1000 x 300 x 130 in tiles of 128 x 64 and 2 slices: 8 x 5 x 2 = 80 blocks on 24 SMs, 4 waves, of 65 k each."""
    one = dispatch.Estimate(tile=(128, 64), slices=2, sms=24, launch=3e-6, wave=1e-6, step=1e-8, operand=1e-12, output=2e-12)
    by_hand = 3e-6 + 4 * (1e-6 + 65e-8) + 1e-12 * (1000 * 130 + 130 * 300) + 2e-12 * 300_000
    assert float(one.seconds(1000, 300, 130)) == pytest.approx(by_hand, rel=1e-12)
    assert one.seconds(np.array([1000, 1]), np.array([300, 1]), np.array([130, 1])).shape == (2,)
    assert str(one) == "3 + waves (1 + 10 k / 2000) + 1 (m + n) k / 10^6 + 2 m n / 10^6 us, waves = ceil(ceil(m / 128) ceil(n / 64) 2 / 24)"


def test_terms_of_a_batch_are_those_of_all_its_products():
    """3 tiles a product at 2 slices, 5 products on 8 SMs: 30 blocks are 4 waves."""
    terms = dispatch.Estimate.terms((64, 32), 2, 8, 100, 60, 7, 5)
    assert terms.tolist() == [1, -(-2 * 2 * 2 * 5 // 8), 5 * 4, (100 * 7 + 7 * 60) * 5, 100 * 60 * 5]


def test_estimates_decide_among_kernels_of_the_layout_and_gpu():
    def kernel(layout, launch, gpu="h200"):
        estimate = dispatch.Estimate(tile=(64, 64), slices=1, sms=8, launch=launch, wave=0, step=0, operand=0, output=0)
        return dispatch.Kernel(name=layout, identity=str(launch), gpu=gpu, layout=layout, estimate=estimate, spec={})

    kernels = {"a": kernel("nn", 3.0), "b": kernel("nt", 1.0), "c": kernel("nn", 2.0), "d": kernel("nn", 1.0, "h100")}
    parts = [dispatch.Part(gpu=gpu, layout=layout, decided_by="estimates", rules=[{"kernel": label}])
             for gpu, layout, label in (("h200", "nn", "a"), ("h200", "nt", "b"), ("h100", "nn", "d"))]
    table = dispatch.Table(title="t", kernels=kernels, parts=parts)
    assert [dispatch.select(table, one.gpu, one.layout, 1, 1, 1).identity for one in parts] == ["2.0", "1.0", "1.0"]
    assert [[label for _, label in dispatch.as_lines(table, one)] for one in parts] == [["a", "c"], ["b"], ["d"]]


def test_rules_that_change_nothing_are_left_out_from_the_end():
    rules = [({"m": 1}, 0), ({"m": 2}, 1), ({"m": 3}, 2), ({}, 2)]
    assert dispatch._without_idle(rules) == [({"m": 1}, 0), ({"m": 2}, 1), ({}, 2)]


def test_coefficients_are_found_again_and_are_not_negative():
    true = dispatch.Estimate(tile=(128, 64), slices=2, sms=24, launch=3e-6, wave=1e-6, step=1e-8, operand=1e-12, output=0.0)
    where = np.array(sizes(60))
    seconds = true.seconds(*where.T) * np.exp(np.random.default_rng(1).normal(0, 0.01, 60))
    found = dispatch.estimated(seconds, where, np.full(60, 1 / 60), (128, 64), 2, 24)
    assert np.abs(np.log(found.seconds(*where.T) / true.seconds(*where.T))).max() < 0.02
    assert abs(np.log(found.step / true.step)) < 0.02 and abs(np.log(found.launch / true.launch)) < 0.1


# ---- the whole


@pytest.fixture(scope="module")
def choice():
    fast = GPUS.get(GPU)
    slow = with_constants(fast, {("wgmma", "turn_cycles"): 900.0, ("", "launch_seconds"): 4e-6})
    return choose(timed(plans(), sizes(40), gpu=slow), 4, held_out=[Shape(*one) for one in sizes(30, seed=7)], decide="rules", learn=False)


def test_a_choice_is_worth_its_kernels(choice):
    [part] = choice.table.parts
    assert len(choice.sets[GPU].kernels) <= 4 and {rule.kernel for rule in part.rules} <= set(choice.table.kernels)
    assert 1 <= part.regret.chosen <= part.regret.rules <= part.regret.worst and part.regret.chosen < part.regret.alone
    assert part.regret.chosen <= part.regret.estimates < part.regret.alone and part.held_out.estimates < part.held_out.alone
    assert part.regret.rules < part.regret.alone and part.held_out.rules < part.held_out.alone
    assert part.regret.shapes == 40 and part.held_out.shapes == 30 and part.regret.measured == 1 and part.held_out.measured == 0
    assert "320 times were measured" in choice.notes[0]


def test_what_decides_is_what_has_the_smaller_regret_where_it_was_not_chosen():
    """Times that are an estimate to the last digit, of kernels with other tiles: rules come near, estimates are right everywhere."""
    where, rows = sizes(60), timed(plans(few=6), sizes(60), rival=None)
    exact_times = {plan.hash: dispatch.Estimate(
        tile=plan.block[:2], slices=plan.split_k, sms=132, launch=3e-6, wave=2e-6, step=2e-12 * plan.block[0] * plan.block[1], operand=1e-12, output=0.0,
    ) for plan in plans(few=6)}
    rows = [replace(row, seconds=float(exact_times[row.identity].seconds(row.m, row.n, row.k))) for row in rows]
    found = choose(rows, 3, [Shape(*one) for one in where], learn=False).table.parts[0]
    assert found.decided_by == "estimates" and found.held_out.estimates < found.held_out.rules
    asked = choose(rows, 3, [Shape(*one) for one in where], learn=False, decide="rules").table.parts[0]
    assert asked.decided_by == "rules" and asked.regret == found.regret.model_copy(update={"worst": asked.regret.worst})


def test_what_decides_is_told_a_line_each():
    rules = [dispatch.Rule(at_most=at_most, kernel=kernel) for at_most, kernel in (({"m": 64}, "a"), ({"m": 128, "n": 64, "k": 32}, "b"), ({}, "c"))]
    part = SimpleNamespace(gpu="mine", layout="nt", rules=rules, decided_by="rules")
    kernels = {label: SimpleNamespace(gpu=gpu, layout=layout, estimate=f"estimate of {label}") for label, gpu, layout in (
        ("a", "mine", "nt"), ("b", "other", "nt"), ("c", "mine", "nn"), ("d", "mine", "nt"))}
    table = SimpleNamespace(kernels=kernels)
    lines = dispatch.as_text(table, part).splitlines()
    assert [line.rsplit("  ", 1) for line in lines] == [[f"{str(rule):<{max(len(str(one)) for one in rules)}}", rule.kernel] for rule in rules]
    assert dispatch.as_lines(table, part) == [(str(rule), rule.kernel) for rule in rules]
    part.decided_by = "estimates"
    assert dispatch.as_text(table, part) == "a  estimate of a\nd  estimate of d"


def test_shapes_held_out_by_a_share_are_not_learnt_from():
    """Held-out times that make one kernel the best at these alone change the figure, and not the rules that it is of."""
    rows, shapes = timed(plans(few=3), sizes(20), rival=None), [Shape(*one) for one in sizes(20)]
    _, unseen = parted(shapes, 0.25, 1)
    assert [len(part) for part in parted(shapes, 1.0, 1)] == [1, 19]  # one at least is learnt from
    odd = {one.size for one in unseen}
    names = [row.identity for row in rows[::20]]
    swapped = [replace(row, seconds=row.seconds * (0.01 if row.identity == names[-1] else 1)) if (row.m, row.n, row.k) in odd else row for row in rows]
    plain, other = (choose(one, 1, learn=False).table.parts[0] for one in (rows, swapped))
    assert plain.held_out.shapes == 5 and plain.held_out.rules < 3 < other.held_out.rules


def test_a_store_without_times_says_so():
    found = choose(timed(plans(few=2), sizes(4), verdict="modelled"), 1)
    assert "nothing was timed" in found.notes[0] and found.table.parts[0].regret.measured == 0


def test_two_gpus_have_rules_and_kernels_of_their_own():
    rows = timed(plans(few=2), sizes(3), rival=None)
    both = choose([*rows, *(replace(row, gpu="h100") for row in rows)], 2)
    assert [part.gpu for part in both.table.parts] == ["h100", GPU]
    for part in both.table.parts:
        assert all(both.table.kernels[rule.kernel].gpu == part.gpu for rule in part.rules)
        assert plan_of(rows[0]).hash in {one.identity for one in both.table.kernels.values()} | {row.identity for row in rows}
    lines = choice_text(both).splitlines()
    regrets = [at for at, line in enumerate(lines) if line.startswith("regret ")]
    assert len(regrets) == 2 and lines.index(next(line for line in lines if line.startswith(GPU))) in range(*regrets)  # each below its own GPU
    with pytest.raises(SpecError, match="several GPUs"):
        road.chosen(both.table, 1, 2, 3)


# ---- what a choice is made of, by hand


def test_shapes_near_named_ones_have_their_layouts_and_share_their_weights():
    near = few.around([Shape(1000, 2000, 4000, "nt", 3.0), Shape(1, 1, 1, "tn", 1.0)], 1)
    assert [one.layout for one in near] == ["nt"] * 16 + ["tn"] * 16 and [one.weight for one in near] == [3 / 16] * 16 + [1 / 16] * 16
    assert min(min(one.size) for one in near) == 1 and near != few.around([Shape(1000, 2000, 4000, "nt", 3.0), Shape(1, 1, 1, "tn", 1.0)], 2)
    logs = np.log([np.array(one.size) / (1000, 2000, 4000) for one in few.around([Shape(1000, 2000, 4000)] * 100, 1)])
    assert np.abs(logs.mean(axis=0)).max() < 0.05 and np.abs(logs.std(axis=0) - 0.6).max() < 0.05


def test_the_heaviest_shapes_are_held_against_plain_fp32(monkeypatch):
    """The fastest of the chosen kernels at each; measured times only against measured ones; an error as a multiple of FP32's own on U[-1, 1]."""
    rows = tuple(row_of(plans()[0], (1, 1, 1), identity=name, scheme=name) for name in ("left out", "one", "other"))
    shapes = tuple(Shape(m, 2, 0, "nt", weight) for m, weight in ((10, 1), (20, 4), (30, 2), (40, 3)))
    seconds, measured = np.array([[1.0] * 4, [7.0, 6.0, 5.0, 4.0], [8.0, 3.0, 9.0, 2.0]]), np.array([[True] * 4, [False] * 4, [True] * 4])
    every = Costs(GPU, rows, shapes, seconds, measured, (1.0, None, 6e-7))
    monkeypatch.setattr(few, "MOST_JUDGED", 3)
    monkeypatch.setattr(few, "fp32_times", lambda known: {(m, 2, 0, "nt"): (12.0, "measured", "a card") for m in (20, 30)} if known == ["rows"] else {})
    monkeypatch.setattr(few, "fp32_estimate", lambda k, data: 2e-7 if (k, data) == (0, DISTRIBUTIONS["uniform"]) else 1.0)

    def plain(gpu, m, n, k, layout):
        if m == 40:
            raise GemmgenError("plain FP32", "there is none")
        return 10.0, f"predicted for {gpu.name} {m} {n} {k} {layout}"

    monkeypatch.setattr(few, "plain_of", plain)
    found = list(few._verdicts(["rows"], every, few.Chosen((1, 2), 0.0, 0.0, "greedy")))
    assert [(one.gpu, one.m, one.n, one.k, one.seconds, one.fp32_seconds, one.fp32, one.measured, one.scheme) for one in found] == [
        (GPU, 20, 2, 0, 3.0, 12.0, "measured", "a card", "other"), (GPU, 30, 2, 0, 5.0, 10.0, f"predicted for {GPU} 30 2 0 nt", "", "one")]
    assert [one.error for one in found] == pytest.approx([3.0, 1.0])


def test_a_regret_by_hand():
    """Of two chosen kernels and a third; the rules take the first for m = 1, the estimates the second everywhere."""
    known = replace(made([[1.0, 2.0, 4.0], [2.0, 4.0, 1.0], [3.0, 1.0, 9.0]], [1, 2, 1]), measured=np.array([[True] * 3, [False, True, False], [True] * 3]))
    estimate = {"tile": (64, 64), "slices": 1, "sms": 8, "wave": 0.0, "step": 0.0, "operand": 0.0, "output": 0.0}
    kernels = {label: {"identity": identity, "gpu": gpu, "layout": layout, "estimate": {**estimate, "launch": launch}} for (
        label, identity, gpu, layout, launch) in (
            ("a", "0", GPU, "nn", 2.0), ("b", "1", GPU, "nn", 1.0), ("c", "0", "another", "nn", 0.5), ("d", "2", GPU, "nt", 0.5))}
    part = {"gpu": GPU, "layout": "nn", "rules": [{"at_most": {"m": 1}, "kernel": "a"}, {"at_most": {}, "kernel": "b"}]}
    found = few._regret(known, part, kernels, known.shapes)
    assert found == pytest.approx({
        "shapes": 3, "measured": 2 / 3, "chosen": 2 ** 0.5, "rules": 2.0, "estimates": 32 ** 0.25, "worst": 4.0, "alone": 2.0})
    assert few._regret(known, part, kernels, known.shapes, [0])["chosen"] == pytest.approx(2.0)  # a set that is told


def test_kernels_of_another_version_are_estimated_by_what_their_rows_tell(monkeypatch):
    known = made([[1.0, 2.0]])
    monkeypatch.setattr(dispatch, "estimated", lambda *of: of[3:])
    row = row_of(plans()[0], (1, 1, 1), identity="of another", decided="{", spec="{", block="96x48x16", split_k=100)
    assert few._estimate(row, known, 0) == ([96, 48], 64, 132) and few._estimate(replace(row, block="", split_k=0), known, 0) == ([128, 128], 1, 132)
    own = row_of(plans()[2], (1, 1, 1))
    assert few._estimate(own, known, 0) == (plans()[2].block[:2], 4, 132)


def test_what_rules_are_learnt_by_and_which_shapes_are_held_out(monkeypatch):
    """16 shapes can be parted; rules are learnt by named shapes and those near them, with three shapes on a side where there are more than 32."""
    seen, parts = [], []
    monkeypatch.setattr(dispatch, "learnt", lambda *of, few: seen.append((of[0].shape[1], of[3], few)) or [({}, 0)])
    monkeypatch.setattr(few, "parted", lambda shapes, share, seed: parts.append((len(shapes), share, seed)) or parted(shapes, share, seed))
    seeds, around = [], few.around
    monkeypatch.setattr(few, "around", lambda shapes, seed: seeds.append(seed) or around(shapes, seed))
    rows = timed(plans(few=1), sizes(16), rival=None)
    assert choose(rows, 2, held_out=0.5, seed=7, learn=False).table.parts[0].held_out.shapes == 8
    assert choose(rows, 2, [Shape(*one) for one in sizes(15)], held_out=0.5, seed=7, learn=False).table.parts[0].held_out is None
    assert choose(rows, 1, [Shape(1, 1, 1)], learn=False).table.parts[0].held_out is None
    assert parts == [(16, 0.5, 7)] and seeds == [7, 7, 7, 1]
    assert [one[1:] for one in seen] == [(6, 3), (6, 3), (6, 3), (3, 1)] and seen[0][0] == 16 * 17


def test_shapes_that_kernels_are_chosen_by_are_not_held_out():
    shapes = [Shape(*one) for one in sizes(3)]
    others = [shapes[1], Shape(7, 8, 9), replace(shapes[0], layout="nt")]
    found = choose(timed(plans(few=1), sizes(3), rival=None), 1, held_out=others, layout="nn", learn=False)
    assert found.notes[0] == f"{GPU}: 2 of the held-out shapes are among those that kernels are chosen by, and were left out"
    assert found.table.parts[0].held_out.shapes == 1


def test_a_choice_as_data():
    one = few.Chosen((1,), float(np.log(3)), float(np.log(2)), "exact")
    verdict = SimpleNamespace(as_dict=lambda: "a verdict")
    table = SimpleNamespace(model_dump=lambda **how: how)
    found = few.Choice({GPU: one}, {GPU: made([[1, 2, 3], [2, 3, 4]])}, table, ("a note",), {GPU: (verdict,)}).as_dict()
    assert found == {
        "sets": {GPU: {"kernels": 1, "of": 2, "shapes": 3, "method": "exact", "ratio": pytest.approx(3), "no_set_has_less": pytest.approx(2)}},
        "notes": ["a note"], "verdicts": {GPU: ["a verdict"]}, "table": {"mode": "json", "exclude_none": True}}


# ---- tables


@pytest.mark.parametrize(("layouts", "asked", "taken"), [(("tn", "nn"), None, "nn"), (("tt", "tn"), None, "tt"), (("tt", "tn"), "tn", "tn"), ((), None, "nn")])
def test_a_product_is_taken_for_nn_or_the_first_layout_that_a_table_has(choice, monkeypatch, layouts, asked, taken):
    [part] = choice.table.parts
    table = choice.table.model_copy(update={"parts": tuple(part.model_copy(update={"layout": layout}) for layout in layouts)})
    monkeypatch.setattr(dispatch, "select", lambda table, *of: SimpleNamespace(spec=of))
    assert road.chosen(table, 5, 3, 7, gpu=GPU, layout=asked) == (GPU, taken, 5, 3, 7)


def test_a_table_survives_its_file_and_selects_by_its_first_rule_that_holds(choice, tmp_path):
    path = tmp_path / "dispatch.json"
    path.write_text(json.dumps(choice.table.model_dump(mode="json", exclude_none=True)))
    table = dispatch.load_table(path)
    assert table == choice.table
    [part] = table.parts
    by_estimates = table.model_copy(update={"parts": (part.model_copy(update={"decided_by": "estimates"}),)})
    for m, n, k in sizes(10, seed=5):
        least = dispatch.select(by_estimates, GPU, "nn", m, n, k)
        assert all(float(least.estimate.seconds(m, n, k)) <= float(one.estimate.seconds(m, n, k)) for one in table.kernels.values())
        held = next(rule for rule in part.rules if rule.holds({"m": m, "n": n, "k": k, "mn": m * n}))
        assert dispatch.select(table, GPU, "nn", m, n, k) is table.kernels[held.kernel]
        assert road.plan(road.chosen(table, m, n, k)).hash == table.kernels[held.kernel].identity
    with pytest.raises(SpecError, match="no rules"):
        dispatch.select(table, GPU, "tt", 1, 1, 1)


@pytest.mark.parametrize("broken", [
    lambda value: value["parts"][0]["rules"][-1].update(at_most={"m": 5}), lambda value: value["parts"][0]["rules"][-1].update(kernel="k999"),
    lambda value: value["parts"].append(value["parts"][0]), lambda value: value.update(gemmgen_dispatch=2), lambda value: value.update(more=1),
    lambda value: value["parts"][0]["rules"][0].update(at_most={"l2": 5}), lambda value: value["kernels"].clear(),
], ids=["no last rule", "unknown kernel", "twice the same", "another version", "unknown key", "unknown measure", "no kernels"])
def test_a_table_that_cannot_be_is_refused(choice, tmp_path, broken):
    value = choice.table.model_dump(mode="json", exclude_none=True)
    broken(value)
    path = tmp_path / "dispatch.json"
    path.write_text(json.dumps(value))
    with pytest.raises(SpecError):
        dispatch.load_table(path)


def test_the_schema_is_the_tables_and_holds_one(choice):
    import jsonschema

    schema = json.loads((SPECS / "dispatch.schema.json").read_text())
    assert schema == dispatch.json_schema()
    jsonschema.validate(choice.table.model_dump(mode="json", exclude_none=True), schema)


def test_a_table_multiplies(monkeypatch):
    """`road.multiply` builds the kernel that the rules take, and no other."""
    found = choose(timed(plans(few=2), sizes(3), rival=None), 2)
    seen = []
    monkeypatch.setattr(road, "build", lambda kernel: seen.append(kernel) or (_ for _ in ()).throw(InterruptedError))
    with pytest.raises(InterruptedError):
        road.multiply(found.table, np.zeros((5, 7), np.float32), np.zeros((7, 3), np.float32))
    assert seen == [road.chosen(found.table, 5, 3, 7)]


# ---- shapes


def test_shipped_shapes_are_what_the_script_computes():
    found = importlib.util.spec_from_file_location("bench_shapes", ROOT / "bench" / "shapes.py")
    script = sys.modules[found.name] = importlib.util.module_from_spec(found)  # dataclasses look their module up
    found.loader.exec_module(script)
    assert set(SHAPES.names()) == set(script.FILES)
    for name, computed in script.FILES.items():
        assert (SPECS / "shapes" / f"{name}.toml").read_text() == computed()
    llama = {(one.m, one.n, one.k) for one in load_shapes("transformers") if "Llama 3 8B, 512" in one.name}
    assert llama == {(512, 4096, 4096), (512, 1024, 4096), (512, 14336, 4096), (512, 4096, 14336), (512, 128256, 4096)}
    last = load_shapes("hpl")[30]
    assert last.size == (256, 256, 256) and sum(one.weight for one in load_shapes("hpl")[:31]) == pytest.approx(1, abs=1e-3)


def test_shapes_of_a_table(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("# of a program\nm,n,k,layout,weight\n16,32,64,nt,2\n16,32,64,nt,3\n1,2,3,,\n")
    found = merged(load_shapes(path))
    assert found == [Shape(16, 32, 64, "nt", 5.0), Shape(1, 2, 3)] and merged(found, "nn")[0].layout == "nn"
    path.write_text("m,n,k,name\n16,32,64,first\n16,32,65,\n")
    assert [one.name for one in load_shapes(path)] == ["first", ""]


@pytest.mark.parametrize("text", [
    "m,n\n1,2\n", "m,n,k\n", "m,n,k\n1,2,0\n", "m,n,k,layout\n1,2,3,xx\n", "m,n,k,weight\n1,2,3,-1\n", "m,n,k,weight\n1,2,3,nan\n", "m,n,k\n1,2\n",
    "m,n,k\n1,2,2147483648\n", "m,n,k,weight\n1,2,3,2e12\n", "m,n,k,more\n1,2,3,4\n",
])
def test_a_table_of_what_is_no_shape_is_refused(tmp_path, text):
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(SpecError):
        load_shapes(path)


def test_a_row_that_is_no_shape_is_named_by_its_line(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("m,n,k\n1,2,3\n1,2,0\n")
    with pytest.raises(SpecError) as refusal:
        load_shapes(path)
    assert refusal.value.where == f"{path}: row 3"


def test_sizes_of_a_store_are_those_of_its_kernels_that_compute_something():
    row = row_of(plans()[0], (5, 6, 7))
    assert shapes_of([row, replace(row, k=0), replace(row, kind="rival", m=9), replace(row, layout="nt"), row]) == [Shape(5, 6, 7), Shape(5, 6, 7, "nt")]


def test_a_share_of_shapes_is_rounded():
    assert [len(part) for part in parted([Shape(*one) for one in sizes(9)], 0.2, 1)] == [7, 2]


def test_unknown_shapes_list_those_there_are():
    with pytest.raises(UnknownName, match="unknown"):
        load_shapes("transformer")
    with pytest.raises(UnknownName):
        load_shapes("drawn:10000")  # as many as a file may have, and more


# ---- the command


@pytest.fixture
def store(tmp_path):
    with_rows = tmp_path / "store"
    writer = Writer(with_rows)
    for row in timed(plans(few=3), sizes(20)):
        writer.add(row)
    writer.close()
    return str(with_rows)


def test_the_command_tells_regrets_and_rules(store, tmp_path, capsys):
    assert main(["study", "choose", store, "--kernels", "2", "-o", str(tmp_path / "d.json")]) == 0
    told = capsys.readouterr().out
    assert "2 of 3 kernels for 20 shapes" in told and "one kernel for all" in told and "held out" in told and "% by estimates" in told
    table = dispatch.load_table(tmp_path / "d.json")
    assert table.parts[0].rules
    for label, kernel in table.kernels.items():
        assert f"{label}  {kernel.name} ({kernel.gpu}, {kernel.layout}, error {kernel.error:.1e})" in told
    assert main(["study", "choose", store, "--kernels", "2", "--held-out", "0", "--shapes", "hpl", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["sets"][GPU]["shapes"] == 93 and "held_out" not in value["table"]["parts"][0] and "nothing was timed at these shapes" in value["notes"][0]


def test_chosen_kernels_are_timed_at_every_shape_and_kept_as_rows(store, tmp_path, monkeypatch, capsys):
    """One kernel is not built, one shape is refused, and after a second there is no time left: the others' times are the next choice's."""
    monkeypatch.setattr("gemmgen.workshop.bench.measure.require_timed", lambda *arguments: None)
    monkeypatch.setattr("gemmgen.timing.environment.device_name", lambda: "a GPU")
    monkeypatch.setattr("gemmgen.timing.environment.release_memory", lambda: None)
    names = [plan.hash for plan in plans(few=3)]

    def build(row):
        return InfeasibleSpec("spec", "spills") if row.identity == names[2] else SimpleNamespace(plan=plan_of(row))

    asked, freed = [], []
    monkeypatch.setattr("gemmgen.timing.environment.release_memory", lambda: freed.append("freed"))

    def raced(built, size, rounds, slice_ms):
        asked.append((len(built), rounds, slice_ms))
        if size[0] == 300:
            raise DeviceError("GPU", "out of memory")
        return {name: size[0] * 1e-6 + names.index(name) for name in built}

    monkeypatch.setattr(choosing_timed, "_built", build)
    monkeypatch.setattr(choosing_timed, "_raced", raced)
    old = {"spread": 0.5, "reference_seconds": 1.0, "reason": "old", "extra": '{"effort":0.1}', "generator": "old", "data": "old", "rounds": 1}
    chosen = SimpleNamespace(sets={GPU: SimpleNamespace(kernels=(2, 0, 1))}, costs={
        GPU: SimpleNamespace(rows=[row_of(plan, (1, 1, 1), **old) for plan in plans(few=3)])})
    shapes, found = [Shape(size, 64, 64) for size in (100, 300, 200)], []
    notes = choosing_timed.timed(chosen, GPU, shapes, found.append)
    assert [note.partition(": ")[2] for note in notes] == ["not built: spills", "out of memory: None"]
    assert {(row.identity, row.m, row.seconds, row.device, row.verdict) for row in found} == {
        (name, m, m * 1e-6 + at, "a GPU", "timed") for at, name in enumerate(names[:2]) for m in (100, 200)}
    assert len({row.predicted_seconds for row in found}) == 4 == len({row.trial for row in found})  # of one trial only the newest row counts
    assert {(row.study, row.generator, row.data, row.rounds, row.spread, row.reference_seconds, row.reason, row.extra) for row in found} == {
        ("choose", __version__, "U[-1, 1]", 3, None, None, "", "{}")}
    assert asked == [(2, 3, 1.0)] * 3 and len(freed) == 3
    assert choosing_timed.timed(chosen, GPU, [Shape(100, 64, 64, "nt")], found.append, rounds=5, slice_ms=2.0) == notes[:1] and asked[3] == (0, 5, 2.0)
    clock = iter((0.0, 1.0, 2.0))
    monkeypatch.setattr(choosing_timed, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    found.clear()
    assert choosing_timed.timed(chosen, GPU, shapes, found.append, seconds=1.5)[-1] == "no time was left for 2 of 3 shapes" and {row.m for row in found} == {100}
    monkeypatch.undo()
    monkeypatch.setattr(choosing_timed, "timed", lambda choice, gpu, shapes, keep, **more: keep(replace(choice.costs[gpu].rows[0], m=len(shapes))) or ["a note"])
    assert main(["study", "choose", store, "--kernels", "1", "--method", "greedy", "--held-out", "0", "--time", str(tmp_path / "times")]) == 0
    assert "a note" in capsys.readouterr().err and [row.m for row in Store(tmp_path / "times").rows()] == [20]


def test_drawn_shapes_are_spread_by_their_logarithms_and_half_of_them_are_multiples():
    shapes = load_shapes("drawn:200")
    assert len({one.size for one in shapes}) == 200 and shapes == drawn(200)
    assert all(64 <= side <= 8192 for one in shapes for side in one.size) and all(np.prod([float(side) for side in one.size]) <= 1 << 36 for one in shapes)
    assert all(side % 64 == 0 for one in shapes[1::2] for side in one.size) and not all(side % 64 == 0 for one in shapes[::2] for side in one.size)
    assert 500 < np.median([one.m for one in shapes]) < 1000  # of the logarithms the middle is 724


@pytest.mark.parametrize("more, problem", [
    (["--held-out", "0.95"], "no share"), (["--shapes", "nothing"], "unknown distribution"),
    (["--gpu", "t4"], "none that the store has"), (["--shapes", "transformers"], "layout"),
])
def test_the_command_refuses_with_a_remedy(store, capsys, more, problem):
    assert main(["study", "choose", store, *more]) == 2
    assert problem in capsys.readouterr().err
