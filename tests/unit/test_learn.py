"""The time model's constants fitted to a store: found again where they are known, and held against rows that were not fitted to."""

from __future__ import annotations

import json
import sys
import tomllib
from dataclasses import replace

import numpy as np
import pytest
from explored import GPU, plans, sizes, timed

from gemmgen.catalog.generation import Constant, merged
from gemmgen.catalog.gpu import GPUS
from gemmgen.cli import main
from gemmgen.errors import GemmgenError, UnknownName
from gemmgen.workshop.explore.rebuilt import Predictions
from gemmgen.workshop.explore.store import Writer
from gemmgen.workshop.fit import time_model as learning
from gemmgen.workshop.fit.least import Least
from gemmgen.workshop.fit.time_model import LEAST_ROWS, PRIOR, Errors, Fitted, Learnt, with_constants, _constants, learn

TRUE = {("wgmma", "sustained_f16_tflops"): 480.0, ("wgmma", "split_a_cycles"): 650.0, ("", "launch_seconds"): 4.5e-6, ("straight", "launch_seconds"): 2e-6}
"""A GPU that sustains less, and whose launches take longer, than its row says."""


@pytest.fixture(scope="module")
def other():
    return with_constants(GPUS.get(GPU), TRUE)


@pytest.fixture(scope="module")
def rows(other):
    return timed(plans(), sizes(30), noise=0.03, gpu=other)


@pytest.fixture(scope="module")
def found(rows):
    return learn(rows, GPU)


def test_known_constants_are_found_again(found):
    by_place = {one.place: one for one in found.constants}
    for place in (("wgmma", "sustained_f16_tflops"), ("straight", "launch_seconds"), ("", "launch_seconds")):
        assert abs(np.log(by_place[place].after / TRUE[place])) < 0.2 < abs(np.log(by_place[place].before / TRUE[place]))


def test_rows_that_were_held_out_are_told_better(found):
    assert found.helped and set(found.errors) == {"fitted", "new kernels", "new sizes"}
    for one in found.errors.values():
        assert one.after < 0.05 < one.before and abs(one.lean_after) < 0.03
    assert found.rows == found.errors["fitted"].rows == found.kernels * found.sizes  # every kernel was timed at every size
    assert found.errors["new kernels"].rows == 2 * 30 and found.errors["new sizes"].rows == 8 * 6
    assert found.kernels == 6 and found.sizes == 24  # a fifth of 8 kernels and of 30 sizes are held out


def test_the_lines_are_a_gpus_row(found):
    """Appended to a row they give the GPU that was learnt."""
    own = tomllib.loads(found.lines)["measured"]
    base = GPUS.get(GPU)
    measured = type(base.measured).model_validate(merged(base.measured.model_dump(), own))
    assert {place: one.value for place, one, _ in _constants(measured)} == {place: one.value for place, one, _ in _constants(found.gpu.measured)}
    assert all(one.source.startswith("fitted to ") for one in (measured.wgmma.sustained_f16_tflops, measured.launch_seconds))


def test_few_rows_move_constants_less_than_many(rows, found):
    """A constant is held to what it is as by one measurement: 24 rows of one kernel leave more of it than 240 of eight."""
    few = learn(rows[:LEAST_ROWS], GPU, held_out=0)
    place = ("wgmma", "sustained_f16_tflops")
    few_moved, all_moved = (abs(np.log(next((one.after for one in what.constants if one.place == place), 650.0) / 650.0)) for what in (few, found))
    assert few_moved < all_moved
    assert all(one.deviation <= PRIOR for one in few.constants)
    assert all(abs(np.log(one.after / one.before)) < 0.5 for one in few.constants if one.place not in TRUE)
    assert all(low.low <= one.value <= low.high for _, one, low in _constants(few.gpu.measured))


def test_a_gpu_without_rows_keeps_its_prior_and_says_so(rows):
    for what, gpu in (([], "a100"), (rows, "a100"), (rows[: LEAST_ROWS - 1], GPU), ([replace(row, verdict="right", seconds=None) for row in rows], GPU)):
        one = learn(what, gpu)
        assert not one.constants and not one.helped and "the prior holds" in one.reason and one.gpu == GPUS.get(gpu) and one.lines == ""
        assert (one.rows, one.kernels, one.sizes) == (LEAST_ROWS - 1 if len(what) == LEAST_ROWS - 1 else 0, 0, 0)  # nothing was fitted to any
    assert "assumed)" in learn([], "a100").reason and "fitted" in learn([], GPU).reason
    with pytest.raises(UnknownName):
        learn(rows, "a1000")


def test_rows_that_agree_with_the_row_change_little():
    exact = learn(timed(plans(few=4), sizes(20), noise=0.0), GPU)
    assert all(abs(np.log(one.after / one.before)) < 0.02 for one in exact.constants)


def test_what_is_brief_or_of_another_version_is_not_learnt_from(rows, found):
    odd = [replace(row, extra='{"effort":0.1}', seconds=1.0) for row in rows] + [replace(row, scheme="nobody", identity="x", seconds=1.0) for row in rows]
    assert learn(odd, GPU).rows == 0
    assert learn([*rows, *odd], GPU).rows == found.rows


def test_every_constant_of_a_row_is_known_with_its_bounds():
    measured = GPUS.get(GPU).measured
    sections = ("", "wgmma", "straight", "thin", "residues", "batches", "sgemm")
    names = {(section, name) for section in sections for name in type(getattr(measured, section) if section else measured).model_fields
             if isinstance(getattr(getattr(measured, section) if section else measured, name), Constant)}
    assert {place for place, _, _ in _constants(measured)} == names and len(names) > 30


def test_predictions_with_a_gpus_constants_are_those_of_its_plans(other):
    [plan] = plans(few=1)
    row = timed([plan], sizes(3), rival=None)[0]
    for gpu in (GPUS.get(GPU), other):
        told = Predictions(gpu).seconds(row, np.array(sizes(3)))
        for seconds, (m, n, k) in zip(told, sizes(3)):
            assert seconds == replace(plan, gpu=gpu, hints=replace(plan.hints, m=m, n=n, k=k)).model["seconds"]


def test_the_command_prints_lines_of_a_row(rows, tmp_path, capsys):
    writer = Writer(tmp_path / "store")
    for row in rows:
        writer.add(row)
    writer.close()
    assert main(["study", "learn", str(tmp_path / "store"), "--gpu", GPU]) == 0
    told = capsys.readouterr().out
    assert tomllib.loads(told)["measured"]["wgmma"]["sustained_f16_tflops"]["value"] < 600 and "# new kernels:" in told
    assert main(["study", "learn", str(tmp_path / "store"), "--gpu", "t4", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["constants"] == [] and "the prior holds" in value["reason"]


def test_without_scipy_it_is_said_how_to_get_it(rows, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(GemmgenError) as refusal:
        learn(rows, GPU)
    assert refusal.value.remedy == "pip install 'gemmgen[explore]'"


# ---- which rows are fitted, with the fit replaced by one that takes no time


@pytest.fixture
def fits(rows, other, monkeypatch):
    """[rows] which ones each fit saw. Times are half of what the GPU's row predicts, and 1.5 times what the fitted one does."""
    seen = []
    monkeypatch.setattr(learning, "_told", list)
    monkeypatch.setattr(learning, "_groups", lambda known: np.array([row.seconds for row in known]))
    monkeypatch.setattr(learning, "_predicted", lambda seconds, gpu, count: seconds * (1 / 1.5 if gpu is other else 2))
    monkeypatch.setattr(learning, "_mattering", lambda *arguments: [])
    monkeypatch.setattr(learning, "_fit", lambda gpu, constants, off, which: (seen.append(which), (other, {}))[1])
    return seen


def test_kernels_and_sizes_that_are_held_out_are_drawn_by_the_seed(rows, fits):
    one = learn(rows, GPU)
    for error in one.errors.values():
        assert np.allclose([error.before, error.after, error.lean_before, error.lean_after], np.log([2, 1.5, 0.5, 1.5]))
    learn(rows, GPU, seed=2)
    assert len(fits[0]) == 8 * 30 and (fits[0] != fits[1]).any()
    alike = [replace(row, m=64, n=64, k=at + 1) for at, row in enumerate(rows[:30])]
    assert learn(alike, GPU).sizes == 24  # sizes that differ in k alone are different


def test_hardly_enough_rows_are_all_fitted_and_too_many_are_drawn_from(rows, fits, monkeypatch):
    least = learn(rows[:LEAST_ROWS], GPU, held_out=0)  # of one kernel, at one size each
    assert (least.rows, least.reason) == (LEAST_ROWS, "")
    few = learn(rows[:28], GPU)  # a fifth of them held out would leave 22
    assert few.rows == 28 and set(few.errors) == {"fitted"}
    enough = learn(rows[:30], GPU)
    assert enough.rows == LEAST_ROWS and enough.errors["new sizes"].rows == 6
    monkeypatch.setattr(learning, "MOST_ROWS", 40)
    many = learn(rows, GPU, held_out=0)
    assert many.rows == 40 and many.kernels > 2  # and not the first 40, which are of two


def test_held_out_rows_alone_say_whether_a_fit_helped():
    better, worse, same = Errors(10, 0.2, 0.1, 0, 0), Errors(5, 0.1, 0.2, 0, 0), Errors(5, 0.1, 0.1, 0, 0)

    def helped(constants=(Fitted(("", "launch_seconds"), 1, 2, 0.1, "fitted"),), **errors):
        return Learnt(GPUS.get(GPU), "", 1, 1, 1, constants, {name.replace("_", " "): one for name, one in errors.items()}).helped

    assert helped(fitted=better) and not helped(fitted=worse) and not helped(fitted=better, constants=())
    assert helped(fitted=worse, new_kernels=better) and not helped(fitted=better, new_kernels=worse) and not helped(fitted=better, new_sizes=same)
    assert Learnt(GPUS.get(GPU), "", 1, 1, 1, (Fitted(("", "launch_seconds"), 1, 2, 0.1, "fitted"),), {}).as_dict()["constants"] == [
        {"section": "", "name": "launch_seconds", "before": 1, "after": 2, "deviation": 0.1, "source_before": "fitted"}]
    assert helped(new_kernels=better, new_sizes=worse) and not helped(new_kernels=worse, new_sizes=replace(better, rows=4))  # each row counts alike


@pytest.mark.parametrize(("moved", "kept"), [(0.5, True), (-0.5, False), (20.0, True)])
def test_a_fit_is_kept_where_it_tells_the_rows_better_and_within_bounds(monkeypatch, moved, kept):
    """Of a GPU that sustains the most that is possible."""
    gpu, place = GPUS.get(GPU), ("wgmma", "sustained_f16_tflops")
    constants = [one for one in _constants(gpu.measured) if one[0] == place]
    asked = []
    monkeypatch.setattr(learning, "least", lambda unknowns, errors: asked.append(errors(np.zeros(1))) or Least(np.array([moved]) / PRIOR, np.array([0.02])))
    low, high = constants[0][2].low, constants[0][2].high

    def off(trial):
        return np.array([0.0, np.log(high / trial.measured.wgmma.sustained_f16_tflops.value)])

    fitted, told = learning._fit(gpu, constants, off, np.array([False, True]))
    value = fitted.measured.wgmma.sustained_f16_tflops.value
    assert len(asked[0]) == 1  # a row that was seen
    assert told == ({place: 0.01} if kept else {}) and low <= value <= high
    assert value == (pytest.approx(min(high, constants[0][1].value * np.exp(moved)), rel=1e-3) if kept else constants[0][1].value)


def test_a_fit_asks_for_what_matters_to_the_rows_it_sees_and_is_not_led_by_a_few():
    gpu, place = GPUS.get(GPU), ("", "launch_seconds")
    before = gpu.measured.launch_seconds.value

    def off(trial):
        return np.concatenate([[0.0], np.append(np.full(30, 0.3), [5.0, 5.0, 5.0]) - np.log(trial.measured.launch_seconds.value / before)])

    seen = np.arange(34) > 0
    constants = learning._mattering(gpu, off, off(gpu), seen)
    assert [one for one, _, _ in constants] == [place] and not learning._mattering(gpu, off, off(gpu), ~seen)
    fitted, _ = learning._fit(gpu, constants, off, seen)
    assert 0.25 < np.log(fitted.measured.launch_seconds.value / before) < 0.36  # the mean is 0.73


def test_a_kernel_of_two_gpus_has_a_plan_on_each():
    row, predictions = timed(plans(few=1), sizes(1), rival=None)[0], Predictions()
    assert [predictions.plan(replace(row, gpu=gpu)).gpu.name for gpu in (GPU, "h100", GPU)] == [GPU, "h100", GPU]
