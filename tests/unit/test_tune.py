"""The tuner: programs, the rule that walks, what it is compared with, and what it says to bad input."""

from __future__ import annotations

import dataclasses
import json
from itertools import product
from math import inf
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from gemmgen.build import Built
from gemmgen.errors import BuildError, DeviceError, InfeasibleSpec, SpecError, UnknownName
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.timing import Contender
from gemmgen.workshop import tune
from gemmgen.workshop.apps import cholesky
from gemmgen.workshop.programs import recorded
from gemmgen.workshop.programs.recorded import load_program
from gemmgen.workshop.programs.program import Gemm, behind
from gemmgen.workshop.tune import on_gpu
from gemmgen.workshop.tune import precisions as levels_module
from gemmgen.workshop.tune.engine import emulated, simulated
from gemmgen.workshop.tune.precisions import levels_for
from gemmgen.workshop.tune.runs import EXACT, Memory, Runs
from gemmgen.workshop.tune.walk import Question, Step, exhaustive, frontier, greedy, refined, search


@pytest.fixture(autouse=True, scope="module")
def _each_kernel_decided_once():
    """Tests share their specs, and to decide a small kernel takes a second."""
    kept = {}

    def once(spec):
        key = spec.model_dump_json()
        if key not in kept:
            kept[key] = solve(spec)
        return kept[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gemmgen.workshop.tune.precisions.solve", once)
        yield


# ---- the search, on planted profiles


def planted(seconds, alone, threshold, fed_by=None, floor=0.0, error=None):
    """A question whose errors add as squares, unless another rule is given; and the choices that are run."""
    ran = []

    def by_squares(choice):
        ran.append(choice)
        return (floor**2 + sum(own[level] ** 2 - floor**2 for own, level in zip(alone, choice))) ** 0.5

    asked = error or by_squares
    return Question(seconds, alone, floor, fed_by or [()] * len(seconds), threshold, asked), ran


def best(question):
    """The fastest combination that holds, by trying all."""
    every = product(*(range(len(own)) for own in question.seconds))
    return min((c for c in every if question.time(c) < inf and question.meets(c)), key=question.time, default=None)


def test_the_largest_share_is_lowered_first_and_until_the_threshold():
    question, ran = planted([[1, 2], [3, 6], [2, 4]], [[0.5, 0.1], [0.5, 0.1], [0.5, 0.1]], 0.6)
    walk = greedy(question)
    assert walk.highest == (1, 1, 1) == ran[0]
    assert ran[1] == (1, 0, 1)  # the second has the largest share
    assert [step.kept for step in walk.steps] == [True, False, False] and walk.choice == (1, 0, 1)
    assert [step.gemm for step in walk.steps] == [1, 2, 0]


def test_a_predecessor_is_raised_where_that_pays():
    """The first is lowered, having the largest share; then the second fails, until the first, now shorter, is raised again."""
    seconds, alone = [[5, 6], [1, 5.5]], [[0.3, 0.1], [0.4, 0.1]]
    question, _ = planted(seconds, alone, 0.45, fed_by=[(), (0,)])
    walk = greedy(question)
    assert walk.steps == (
        Step(0, None, (0, 1), pytest.approx(0.1**0.5), 10.5, True), Step(1, None, (0, 0), pytest.approx(0.5), 6, False),
        Step(1, 0, (1, 0), pytest.approx(0.17**0.5), 7, True), Step(0, None, (0, 0), pytest.approx(0.5), 6, False),
    )
    assert walk.choice == (1, 0) == best(question)


def test_one_that_is_no_predecessor_or_takes_longer_is_not_raised():
    seconds, alone = [[5, 6], [1, 5.5]], [[0.3, 0.1], [0.4, 0.1]]
    assert greedy(planted(seconds, alone, 0.45)[0]).choice == (0, 1)  # nothing feeds the second
    for first in (5.6, 5.5):  # longer than the second, and as long
        assert greedy(planted([[first, 6], [1, 5.5]], alone, 0.45, fed_by=[(), (0,)])[0]).choice == (0, 1)


def test_an_exchange_that_makes_the_program_slower_is_not_tried():
    question, ran = planted([[4, 9], [3, 5]], [[0.3, 0.1], [0.4, 0.1]], 0.45, fed_by=[(), (0,)])
    assert greedy(question).choice == (0, 1)
    assert (1, 0) not in ran  # 12 where it has 9
    question, ran = planted([[4, 7], [3, 6]], [[0.3, 0.1], [0.4, 0.1]], 0.45, fed_by=[(), (0,)])
    assert greedy(question).choice == (0, 1) and (1, 0) not in ran  # 10, as it has
    question, ran = planted([[4, 5], [3, 9]], [[0.3, 0.1], [0.4, 0.1]], 0.4, fed_by=[(), (0,)])
    assert greedy(question).choice == (0, 1) and (0, 0) not in ran  # which lowers the predecessor


def test_what_could_not_be_lowered_is_tried_again_after_an_exchange():
    """The first fits only where the second is high and the third is low, which an exchange brings about."""
    holds = {(1, 1, 1), (1, 0, 1), (1, 1, 0), (0, 1, 0)}
    question, _ = planted([[5, 10], [3, 9], [1, 8]], [[0.3, 0.1]] * 3, 0.5, [(), (), (1,)], error=lambda choice: 0.4 if choice in holds else 0.6)
    assert greedy(question).choice == (0, 1, 0)


def test_the_frontier_finds_what_single_steps_do_not():
    """Three equal GEMMs: one at the lowest level and two high is faster than all in the middle."""
    question, _ = planted([[1, 3, 3.2]] * 3, [[0.9, 0.5, 0.05]] * 3, 0.91)
    walk = greedy(question)
    assert question.time(walk.choice) == 9 and question.time(best(question)) == pytest.approx(7.4)
    assert question.time(refined(question, walk.choice)) == pytest.approx(7.4)
    assert frontier(question)[0] == (0, 0, 0)
    assert frontier(planted([[1, 2], [1, 3]], [[0.5, 0.1]] * 2, 1)[0]) == [(0, 0), (1, 0), (1, 1)]  # (0, 1) errs as (1, 0) and takes longer


def test_what_is_run_lies_near_the_threshold_by_its_estimate(monkeypatch):
    by_chance = [planted([[1, 2]], [[alone, 0.1]], 0.45, error=lambda choice: 0.2)[0] for alone in (0.67, 0.68)]
    assert [refined(question, (1,)) for question in by_chance] == [(0,), (1,)]  # 1.5 times the threshold is 0.675
    assert exhaustive(planted([[1, 1]], [[0.3, 0.1]], 0.4)[0]).choice == (1,)  # of as fast ones the more accurate
    assert planted([[1]], [[0.5]], 1, floor=0.3)[0].estimate((0,)) == pytest.approx(0.5)  # the floor counts once
    both, _ = planted([[1, 2]] * 2, [[0.55, 0.1]] * 2, 0.45, error=lambda choice: 0.2 if choice in ((0, 0), (1, 1)) else 1.0)
    assert search(both).choice == (1, 1) and search(both).whole.choice == (0, 0)  # what is found whole is for comparison
    monkeypatch.setitem(refined.__globals__, "MOST_TRIED", 3)
    ran = []
    never, _ = planted([[1, 2, 3, 4]] * 2, [[0.4, 0.3, 0.2, 0.1]] * 2, 0.45, error=lambda choice: ran.append(choice) or 1.0)
    assert refined(never, (3, 3)) == (3, 3) and len(ran) == 3
    whole = frontier(planted([[1, 2, 3, 4, 5]], [[0.5, 0.4, 0.3, 0.2, 0.1]], 1)[0])
    monkeypatch.setitem(refined.__globals__, "MOST_KEPT", 3)
    assert whole == [(0,), (1,), (2,), (3,), (4,)]
    assert frontier(planted([[1, 2, 3, 4, 5]], [[0.5, 0.4, 0.3, 0.2, 0.1]], 1)[0]) == whole[::2]  # evenly, from the fastest to the most accurate


@pytest.mark.parametrize("seed", range(40))
def test_what_is_found_holds_and_the_whole_search_is_exact(seed):
    draw = np.random.default_rng(seed)
    count, levels = int(draw.integers(1, 5)), int(draw.integers(1, 6))
    seconds = draw.uniform(1, 10, (count, levels)).tolist()
    alone = (10.0 ** draw.uniform(-7, -3, (count, levels))).tolist()
    fed_by = [tuple(range(at)) for at in range(count)]
    question, _ = planted(seconds, alone, 10.0 ** draw.uniform(-6, -3), fed_by)
    found, right = search(question), best(question)
    if right is None:
        assert found.choice is None and found.whole.choice is None
        return
    assert question.meets(found.choice) and question.time(found.whole.choice) == question.time(right)
    assert question.time(found.choice) <= 1.1 * question.time(right)


def test_a_threshold_that_nothing_meets_is_told_and_one_met_by_chance_is_found():
    question, _ = planted([[1, 2]] * 2, [[0.5, 0.1]] * 2, 0.01)
    found = search(question)
    assert found.choice is None and found.walk.choice is None and found.walk.highest == (1, 1) and found.whole.choice is None
    lucky, _ = planted([[1, 2]] * 2, [[0.5, 0.1]] * 2, 0.12, error=lambda choice: 0.11 if choice == (1, 0) else 0.2)
    assert search(lucky).choice is None  # its estimate is hopeless, so it is not run
    near, _ = planted([[1, 2]] * 2, [[0.15, 0.1]] * 2, 0.12, error=lambda choice: 0.11 if choice == (1, 0) else 0.2)
    assert search(near).choice == (1, 0)


def test_levels_that_cannot_be_had_and_errors_that_are_not_finite_are_not_chosen():
    question, _ = planted([[inf, 2, 3], [1, inf, 3]], [[inf, 0.2, 0.1], [inf, inf, 0.1]], 0.3)
    assert question.ladder(0) == (1, 2) and search(question).choice == (1, 2)
    never, _ = planted([[1, 2]], [[0.2, 0.1]], 0.3, error=lambda choice: float("nan"))
    assert search(never).choice is None


def test_what_misses_the_threshold_by_no_number_is_neither_kept_nor_a_step():
    """Of two GEMMs the second's fast level gives NaN at the output."""
    def error(choice):
        return float("nan") if choice[1] == 0 else 0.1

    question, _ = planted([[1, 2], [1, 4]], [[0.1, 0.05], [inf, 0.05]], 0.3, error=error)
    assert not question.meets((0, 0)) and question.meets((0, 1)) and search(question).choice == (0, 1)
    question, _ = planted([[1, 2], [1, 4]], [[0.1, 0.05], [0.1, 0.05]], 0.3, error=error)
    found = search(question)
    assert found.choice == (0, 1) and found.whole.choice == (0, 1) and found.whole.run == 3
    assert [(step.choice, step.kept) for step in found.walk.steps] == [((1, 0), False), ((0, 1), True)]


def test_what_is_found_equals_the_threshold_and_is_never_slower():
    question, ran = planted([[1, 2]], [[0.5, 0.1]], 0.5)
    assert question.meets((0,)) and search(question).choice == (0,)
    question, _ = planted([[1, 2], [1, 2]], [[0.5, 0.1], [0.4, 0.1]], 0.45, error=lambda choice: 0.2 if choice != (0, 0) else 1.0)
    assert all(refined(question, equal) == equal for equal in ((1, 0), (0, 1)))  # the other takes as long
    assert refined(question, (1, 1)) in ((1, 0), (0, 1)) and question.time(refined(question, (1, 1))) == 3


def test_an_output_with_an_element_that_is_no_number_has_an_infinite_error(chain, monkeypatch):
    profiled = tune.profile(chain, gpu="a100", device="model", levels=["half", "ootomo"])
    given, half = tune.Simulation.product, profiled.levels[0]

    def product_with_nan(self, gemm, level, *rest):
        found = given(self, gemm, level, *rest).copy()
        if level is half:
            found[-1, -1] = np.nan
        return found

    monkeypatch.setattr(tune.Simulation, "product", product_with_nan)
    runs = Runs(profiled.program, profiled.levels, profiled.engine)
    count = len(profiled.program.gemms)
    assert runs.error((0,) * count) == inf and 0 < runs.error((1,) * count) < 1e-5
    assert runs.alone(0, 0) == inf and runs.error((EXACT,) * count) < 1e-6


def test_a_dominated_level_is_no_step_of_the_rule():
    question, _ = planted([[1, 2, 3, 4]], [[0.5, 0.6, 0.2, 0.1999]], 1.0)
    assert question.ladder(0) == (0, 2)


def test_a_program_of_five_is_not_searched_whole():
    assert search(planted([[1, 2]] * 5, [[0.5, 0.1]] * 5, 1.0)[0]).whole is None


# ---- programs of files


PERCEPTRON = Path(__file__).resolve().parents[2] / "examples" / "perceptron.py"
CHAIN = '''"""A chain."""
import numpy as np

def inputs(n=32):
    draw = np.random.default_rng(1)
    return {name: draw.uniform(-1, 1, shape).astype(np.float32) for name, shape in (("x", (n, 48)), ("w", (48, n)), ("v", (n, n)))}

def program(matmul, of):
    h = matmul(of["x"], of["w"])
    return matmul(np.maximum(h, 0), of["v"], h, op="nt", alpha=0.5, beta=-2.0)
'''


@pytest.fixture
def chain(tmp_path):
    path = tmp_path / "chain.py"
    path.write_text(CHAIN)
    return path


def tiled(n):
    """The application's program of three tiles."""
    return cholesky.make({"n": n, "tiles": 3}, "drawn", 0).program("cholesky", "three tiles")


def test_shapes_and_what_feeds_what():
    assert [gemm.fed_by for gemm in load_program(PERCEPTRON, sizes={"batch": 8}).gemms] == [(), (0,), (1,)]
    gemms = tiled(96).gemms
    assert [gemm.fed_by for gemm in gemms] == [(), (), (), (0, 1, 2)] and {gemm.shape for gemm in gemms} == {(32, 32, 32, "nt")}
    assert {(gemm.alpha, gemm.beta) for gemm in gemms} == {(-1.0, 1.0)}


def test_what_is_behind_a_result_is_followed_through():
    gemms = [Gemm("a", 1, 1, 1), Gemm("b", 1, 1, 1, fed_by=(0,)), Gemm("c", 1, 1, 1, fed_by=(1,)), Gemm("d", 1, 1, 1)]
    assert behind(gemms) == [{0}, {0, 1}, {0, 1, 2}, {3}]


def test_a_chain_is_computed_as_it_reads(chain):
    loaded = load_program(chain)
    assert loaded.gemms[1] == Gemm("call1", 32, 32, 32, "nt", 0.5, -2.0, (0,)) and (loaded.name, loaded.title) == ("chain", "A chain")
    levels, _ = levels_for(loaded.gemms, "a100", ["fp32"])
    runs = Runs(loaded, levels, tune.Simulation("a100"))
    x, w, v = (loaded.inputs[name].astype(np.float64) for name in "xwv")
    h = x @ w
    np.testing.assert_allclose(runs._reference, 0.5 * np.maximum(h, 0) @ v.T - 2 * h, rtol=1e-12, atol=1e-12)
    assert 0 < runs.error((EXACT, EXACT)) < 1e-7 and runs.error((0, 0)) < 1e-6


@pytest.mark.parametrize(("before", "after", "problem"), [
    ("def inputs", "def others", "lacks a function"), ("def program", "program = 3\ndef other", "lacks a function"), ("import numpy as np", "import", "cannot be run"),
    ('of["v"], h', 'of["q"], h', "cannot be run"), ("n=32", "n", "cannot be run"), ('of["w"])', 'of["v"])', "do not fit"), ("float32", "float64", "not a matrix of float32"),
])
def test_a_bad_program_is_refused(chain, before, after, problem):
    assert before in CHAIN
    chain.write_text(CHAIN.replace(before, after, 1))
    with pytest.raises(SpecError) as raised:
        load_program(chain)
    assert "chain" in raised.value.where and problem in raised.value.problem and raised.value.needs and raised.value.got and raised.value.remedy


def test_sizes_and_files_of_ones_own(chain, monkeypatch):
    assert load_program(chain, sizes={"n": 16}).gemms[0].shape == (16, 16, 48, "nn")
    monkeypatch.setattr(recorded, "MAX_EXTENT", 16)
    assert load_program(chain, sizes={"n": 16}).gemms and load_program(chain, sizes={"n": 1}).gemms[0].shape == (1, 1, 48, "nn")
    for bad, error in (({"m": 3}, UnknownName), ({"n": 0}, SpecError), ({"n": 17}, SpecError)):
        with pytest.raises(error, match="--size"):
            load_program(chain, sizes=bad)
    for name in ("none", "none.py", "chain.toml"):
        with pytest.raises(SpecError, match=name):
            load_program(chain.with_name(name))


def test_the_perceptron_is_three_layers():
    program = load_program(PERCEPTRON, sizes={"batch": 8, "inputs": 16, "hidden": 24, "outputs": 4})
    assert [gemm.shape for gemm in program.gemms] == [(8, 24, 16, "nn"), (8, 24, 24, "nn"), (8, 4, 24, "nn")]
    x, *w = (program.inputs[name].astype(np.float64) for name in ("x", "w1", "w2", "w3"))
    for weight, bias in zip(w, ("b1", "b2")):
        x = np.maximum(x @ weight + program.inputs[bias], 0)
    np.testing.assert_allclose(program.function(lambda a, b: a @ b, program.inputs), x @ w[2], rtol=1e-4, atol=1e-5)


def test_a_covariance_is_that_of_points_in_the_unit_cube():
    points = np.random.default_rng(3).random((4, 3))
    distance = np.linalg.norm(points[:, None] - points, axis=2)
    np.testing.assert_allclose(cholesky.covariance(4, 3), np.exp(-distance / 0.1) + 0.1 * np.eye(4), rtol=1e-6)
    whole = cholesky.covariance(1100, 0)  # in parts
    assert np.abs(whole - whole.T).max() < 1e-6 and np.linalg.eigvalsh(whole.astype(np.float64)).min() > 0.05


# ---- products at levels


@pytest.mark.parametrize("scheme", ["half", "ootomo", "bf16x3", "scaled"])
def test_simulated_products_err_as_those_of_the_matrix_unit(scheme):
    plan = levels_for([Gemm("c", 96, 96, 512)], "h100", [scheme])[0][0].plans[96, 96, 512, "nn"]
    draw = np.random.default_rng(1)
    a, b = (draw.uniform(-1, 1, shape).astype(np.float32) for shape in ((96, 512), (512, 96)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    by_simulation, by_unit = (np.linalg.norm(f(plan, a, b) - exact) / np.linalg.norm(exact) for f in (simulated, emulated))
    assert 0.2 * by_unit < by_simulation < 1.3 * by_unit  # what the unit cuts off is left out


def test_levels_are_in_the_order_of_their_cost_and_refusals_are_told():
    gemms = [Gemm("layer", 512, 512, 512)]
    levels, _ = levels_for(gemms, "a100", ["fp32", "ootomo", "half"])
    assert [level.name for level in levels] == ["half", "ootomo", "fp32"]
    with pytest.raises(UnknownName, match="--levels"):
        levels_for(gemms, "a100", ["halve"])
    with pytest.raises(SpecError, match="twice"):
        levels_for(gemms, "a100", ["half", "half"])
    with pytest.raises(InfeasibleSpec, match="none serves"):
        levels_for(gemms, "t4", ["tf32x3"])
    some, left_out = levels_for(gemms, "t4", ["half", "tf32x3"])
    assert [level.name for level in some] == ["half"] and left_out[0].startswith("tf32x3: ")


def test_a_levels_cost_counts_each_gemm_of_a_shape(monkeypatch):
    """Of two levels the one that is cheaper for the shapes, each taken once, is dearer for the program, which multiplies one of them three times."""
    seconds = {("half", 8): 1.0, ("half", 16): 5.0, ("ootomo", 8): 2.0, ("ootomo", 16): 3.0}
    monkeypatch.setattr(levels_module, "solve", lambda spec: SimpleNamespace(model={"seconds": seconds[spec.spec.split.scheme, spec.spec.problem.m]}))
    monkeypatch.setattr(levels_module, "seconds_of", lambda plan, reads_c: plan.model["seconds"])
    gemms = [Gemm(f"g{at}", m, 8, 8) for at, m in enumerate((8, 16, 8, 8))]
    for named in (["half", "ootomo"], ["ootomo", "half"]):
        assert [level.name for level in levels_for(gemms, "a100", named)[0]] == ["half", "ootomo"]
        assert [level.name for level in levels_for(gemms[:2], "a100", named)[0]] == ["ootomo", "half"]
    monkeypatch.setattr(levels_module, "seconds_of", lambda plan, reads_c: -plan.model["seconds"] if reads_c else plan.model["seconds"])
    for beta, cheapest in ((0.0, "half"), (0.5, "ootomo"), (1.0, "ootomo")):
        assert levels_for([Gemm("g", 8, 8, 8, beta=beta)], "a100", ["half", "ootomo"])[0][0].name == cheapest, "C is read where beta is not 0"


def test_sums_are_rounded_where_a_kernel_promotes():
    """2^24, then 1 and 1 in the next two intervals: FP32 takes neither, and what is summed before it is rounded takes both."""
    interval = 32
    a, b = np.zeros((1, 3 * interval), np.float32), np.zeros((3 * interval, 1), np.float32)
    a[0, ::interval] = b[::interval, 0] = 4096, 1, 1
    for promote, wanted in ((interval, 2.0**24), (0, 2.0**24 + 2)):
        plan = solve(loads({"split": {"scheme": "half", "promote": promote}, "target": {"gpu": "a100"}}))
        assert plan.promote == promote and simulated(plan, a, b) == wanted


def test_a_level_that_a_gemm_cannot_have_is_none_for_all_and_runs_are_those_of_a_search(chain, monkeypatch):
    given = tune.Simulation.seconds
    monkeypatch.setattr(tune.Simulation, "seconds", lambda self, gemms, levels: [
        [inf if (at, level.name) == (1, "half") else seconds for level, seconds in zip(levels, own)] for at, own in enumerate(given(self, gemms, levels))])
    profile = tune.profile(chain, gpu="a100", device="model", levels=["half", "ootomo", "fp32"])
    assert [name for name, _, _ in profile.uniform] == [level.name for level in profile.levels if level.name != "half"] and len(profile.uniform) == 2
    assert profile.alone[1][[level.name for level in profile.levels].index("half")] == inf
    first, again, other = profile.tuned(1e-4), profile.tuned(1e-4), profile.tuned(1e-2)
    assert first.runs > 0 and again.runs == 0 and first.runs + other.runs <= 9 and first.choice == again.choice


def test_memory_forgets_what_was_used_longest_ago():
    memory, made = Memory(2000), []

    def get(key):
        return memory.get(key, lambda: made.append(key) or np.zeros(1000, np.uint8))

    for key in "abacab":
        get(key)
    assert made == ["a", "b", "c", "b"]


# ---- the tuner


THREE = ["half", "bf16x3", "ootomo"]


@pytest.fixture(scope="module")
def profiles():
    return {
        "mlp": tune.profile(load_program(PERCEPTRON, sizes=dict.fromkeys(("batch", "inputs", "hidden", "outputs"), 64)), gpu="h100", device="model", levels=THREE),
        "cholesky": tune.profile(tiled(192), gpu="h100", device="model", levels=THREE),
    }


@pytest.mark.parametrize("name", ["mlp", "cholesky"])
@pytest.mark.parametrize("threshold", [1e-3, 3e-5, 3e-6, 1e-6])
def test_shipped_programs_meet_thresholds_within_a_tenth_of_the_best(profiles, name, threshold):
    tuned = profiles[name].tuned(threshold)
    assert tuned.error(tuned.choice) <= threshold
    assert tuned.seconds(tuned.choice) <= 1.1 * tuned.seconds(tuned.found.whole.choice)
    assert tuned.seconds(tuned.choice) <= tuned.seconds(tuned.found.walk.choice)
    every = product(range(3), repeat=len(tuned.program.gemms))
    right = min(tuned.seconds(choice) for choice in every if tuned.error(choice) <= threshold)
    assert tuned.seconds(tuned.found.whole.choice) == right
    assert tuned.as_dict()["meets"] and json.dumps(tuned.as_dict())


def test_errors_alone_add_as_squares(profiles):
    question = profiles["mlp"].tuned(1e-3).question
    for choice in ((0, 0, 0), (1, 1, 1), (0, 1, 2), (2, 1, 0)):
        assert question.error(choice) == pytest.approx(question.estimate(choice), rel=0.25)


def test_a_threshold_below_every_level_is_refused(profiles):
    tuned = profiles["mlp"].tuned(1e-9)
    assert tuned.choice is None and set(tuned.choices) == {"highest"} and not tuned.as_dict()["meets"]


def test_a_run_reuses_what_did_not_change(profiles, monkeypatch):
    runs, multiplied = profiles["cholesky"].runs, []
    given = tune.Simulation.product
    monkeypatch.setattr(tune.Simulation, "product", lambda self, gemm, *rest: multiplied.append(gemm.name) or given(self, gemm, *rest))
    runs._errors.clear()
    runs.memory = Memory(1 << 30)
    runs.error((0, 1, 2, 0))
    runs.error((0, 1, 2, 1))
    assert multiplied == ["call0", "call1", "call2", "call3", "call3"]
    runs.error((0, 1, 1, 1))
    assert multiplied[5:] == ["call2", "call3"]


def test_the_emulators_unit_serves_small_programs(chain):
    tuned = tune.tune(chain, 1e-4, gpu="a100", device="emulator", levels=["half", "ootomo"])
    assert tuned.error(tuned.choice) <= 1e-4 and tuned.device == "emulator of a100" and tuned.found.whole is not None
    for kind, multiplied, said in (("emulator", emulated, "by the model of the matrix unit"), ("model", simulated, "simulated, without")):
        engine = tune.Simulation("a100", kind)
        assert engine._multiply is multiplied and engine.errors.startswith(said) and engine.name == f"{kind} of a100"
    with pytest.raises(SpecError, match="too slow"):
        tune.tune(load_program(PERCEPTRON, sizes={"batch": 4096}), 1e-4, gpu="h100", device="emulator", levels=["half"])


def test_arguments_that_cannot_be(chain):
    for arguments, error in (
        ({"threshold": 0.0}, SpecError), ({"threshold": float("nan")}, SpecError), ({"device": "gpu"}, SpecError), ({"gpu": "h1000"}, UnknownName),
    ):
        with pytest.raises(error):
            tune.tune(chain, **{"threshold": 1e-3, "gpu": "a100", "device": "model", "levels": ["half"], **arguments})
    with pytest.raises(SpecError, match="--gpu"):
        tune.tune(chain, 1e-3, device="model")


class OnFakeGpu:
    """A multiplier whose kernels are simulated."""

    def __init__(self, built):
        self.plan = built.plan

    def __call__(self, a, b, c, alpha, beta):
        of = [np.ascontiguousarray(x if op == "n" else x.T) for x, op in zip((a, b), self.plan.layout)]
        return (np.float32(alpha) * simulated(self.plan, *of) + (0 if c is None else np.float32(beta) * c)).astype(np.float32)


@pytest.fixture
def fake_gpu(monkeypatch):
    """A GPU that simulates, in place of cupy and its kernels; gives what was raced."""
    races = []

    def raced(timed, **how):
        races.append(list(timed))
        return {name: 1e-3 * (1 + at) for at, name in enumerate(timed)}

    monkeypatch.setattr(on_gpu, "why_not", lambda plan: None)
    monkeypatch.setattr("gemmgen.run.why_not", lambda plan: None)
    monkeypatch.setattr(on_gpu.timing, "device_name", lambda: "NVIDIA H100 of paper")
    monkeypatch.setattr(on_gpu, "first_that_builds", lambda spec: Built(levels_module.solve(spec), None, None))
    monkeypatch.setattr(on_gpu.products, "arrays", lambda: np)
    monkeypatch.setattr(on_gpu.products, "Multiplier", OnFakeGpu)
    monkeypatch.setattr(on_gpu.products, "contenders", lambda size, kernels: {name: Contender(name, None) for name in (*kernels, "cublas-sgemm")})
    monkeypatch.setattr(on_gpu.products, "raced", raced)
    monkeypatch.setattr(on_gpu.Gpu, "host", lambda self, x: x)
    return races


def test_each_gemm_of_a_chain_of_choices_has_its_own_level(monkeypatch):
    device = object.__new__(on_gpu.Gpu)
    gemms, names, chains = [Gemm("first", 2, 3, 4), Gemm("second", 5, 6, 7)], ["a", "b"], {}
    device._progress, device._contenders = lambda text: None, {gemm.shape: {name: f"{gemm.name} at {name}" for name in (*names, "cublas-sgemm")} for gemm in gemms}
    monkeypatch.setattr(on_gpu.products, "chain", lambda name, parts: chains.setdefault(name, parts))
    monkeypatch.setattr(on_gpu.products, "raced", lambda timed, **how: {name: float(at) for at, name in enumerate(timed)})
    found = device.together(gemms, [SimpleNamespace(name=name) for name in names], [(0, 1)])
    assert found == {(0, 1): 0.0, None: 1.0}
    assert chains == {"a b": ["first at a", "second at b"], "cublas-sgemm": ["first at cublas-sgemm", "second at cublas-sgemm"]}


def test_kernels_that_the_compiler_refuses_are_left_out_unless_all_are(monkeypatch):
    def builds(spec):
        if spec == "bad":
            raise BuildError("NVRTC", "refuses")
        return Built(spec, None, None)

    monkeypatch.setattr(on_gpu, "first_that_builds", builds)
    level = SimpleNamespace(name="half", specs={1: "good", 2: "bad", 3: "none"}, plans={1: 0, 2: 0})
    built, left_out = on_gpu._built([level], lambda text: None)
    assert list(built) == [("half", 1)] and left_out == ("half: refuses",)
    with pytest.raises(BuildError, match="refuses"):
        on_gpu._built([SimpleNamespace(name="half", specs={2: "bad"}, plans={2: 0})], lambda text: None)
    monkeypatch.setattr(on_gpu, "why_not", lambda plan: DeviceError("CUDA", f"does not run {plan}"))
    monkeypatch.setattr(on_gpu.products, "arrays", lambda: pytest.fail("goes on"))
    with pytest.raises(DeviceError, match="does not run the first plan"):
        on_gpu.Gpu([SimpleNamespace(name="half", specs={1: "good"}, plans={1: "the first plan", 2: "another"})])


@dataclasses.dataclass(frozen=True)
class Level:
    name: str
    specs: dict
    plans: dict


def test_a_level_keeps_the_shapes_of_its_kernels_and_goes_with_the_last(monkeypatch, fake_gpu):
    def builds(spec):
        if spec == "bad":
            raise BuildError("NVRTC", "refuses")
        return Built(f"plan of {spec}", None, None)

    monkeypatch.setattr(on_gpu, "first_that_builds", builds)
    told = []
    levels = [Level("half", {1: "good", 2: "bad"}, {1: 0, 2: 0}), Level("ootomo", {1: "bad"}, {1: 0}), Level("tf32", {1: "other"}, {1: 0})]
    device = on_gpu.Gpu(levels, told.append)
    assert device.levels == (Level("half", {1: "good", 2: "bad"}, {1: "plan of good"}), Level("tf32", {1: "other"}, {1: "plan of other"}))
    assert device.left_out == ("half: refuses", "ootomo: refuses") and told == [f"compile kernel {at} of 4" for at in range(1, 5)]
    assert device.name == "NVIDIA H100 of paper" and device.sgemm_seconds == inf


def test_a_gemm_without_a_kernel_takes_for_ever_and_equal_ones_are_timed_once(monkeypatch, fake_gpu):
    device = object.__new__(on_gpu.Gpu)
    told = []
    device._progress, device._contenders = told.append, {}
    gemms = [Gemm("first", 2, 3, 4), Gemm("second", 5, 6, 7), Gemm("third", 2, 3, 4)]
    device._built = {("a", gemms[0].shape): "k0", ("a", gemms[1].shape): "k1", ("b", gemms[1].shape): "k2"}
    asked = []
    monkeypatch.setattr(on_gpu.products, "contenders", lambda size, kernels: asked.append((size, kernels)) or [*kernels, "cublas-sgemm"])
    found = device.seconds(gemms, [SimpleNamespace(name="b"), SimpleNamespace(name="a")])
    assert found == [[inf, 0.001], [0.001, 0.002], [inf, 0.001]] and device.sgemm_seconds == pytest.approx(0.002 + 0.003 + 0.002)
    assert asked == [((2, 3, 4), {"a": "k0"}), ((5, 6, 7), {"b": "k2", "a": "k1"})] and told == ["time 2x3x4 nn (1 of 2)", "time 5x6x7 nn (2 of 2)"]


def test_on_a_gpu_levels_are_built_kernels_and_choices_race_together(fake_gpu, gemmgen, tmp_path):
    out = tmp_path / "out.json"
    same = [part for name in ("batch", "inputs", "hidden", "outputs") for part in ("--size", f"{name}=64")]
    ran = gemmgen("tune", PERCEPTRON, *same, "--gpu", "h100", "--device", "auto", "--levels", ",".join(THREE), "--threshold", "1e-2,1e-5", "-o", out, "--quiet")
    assert ran.code == 0 and "NVIDIA H100 of paper" in ran.out and "measured on the GPU" in ran.out and "x cuBLAS SGEMM" in ran.out
    assert fake_gpu == [[*THREE, "cublas-sgemm"], ["half half half", "ootomo ootomo ootomo", "bf16x3 bf16x3 bf16x3", "cublas-sgemm"]]
    loose, tight = json.loads(out.read_text())
    assert loose["together"] == {"chosen": 0.001, "greedy": 0.001, "highest": 0.002, "exhaustive": 0.001, "cublas-sgemm": 0.004}
    assert tight["together"]["chosen"] == 0.003 and loose["sgemm_seconds"] == pytest.approx(0.012)
    assert on_gpu.gpu_here() == "h100"


def test_what_is_known_is_not_run_again_and_a_zero_output_is_refused():
    engine = SimpleNamespace(memory_bytes=1 << 20, xp=np, array=np.asarray, host=np.asarray, exact=lambda gemm, a, b, c: a @ b)

    def run(runner):
        x = runner.input("x")
        return runner.gemm(0, x, x, None)

    one = SimpleNamespace(name="p", output="y", gemms=(Gemm("y", 2, 2, 2),), inputs={"x": np.full((2, 2), 0.3, np.float32)}, run=run)
    runs = Runs(one, [], engine)
    assert runs.error((EXACT,)) == runs.error((EXACT,)) and runs.count == 1
    for value, problem in ((0, "output of zeros"), (np.inf, "not finite"), (np.nan, "not finite")):
        one.inputs = {"x": np.full((2, 2), value, np.float32)}
        with pytest.raises(SpecError, match=problem):
            Runs(one, [], engine)


# ---- programs of functions


def layers(matmul, inputs):
    hidden = np.maximum(matmul(inputs["x"], inputs["w"]) + 0.5, 0)
    other = matmul(inputs["x"], inputs["w"], alpha=2.0)
    joined = np.concatenate([hidden[:, :8], other[:, 8:]], axis=1)
    again = matmul(joined, inputs["v"])
    return matmul(again, inputs["v"], again, op="nt", beta=0.25)


@pytest.fixture
def inputs():
    draw = np.random.default_rng(5)
    return {name: draw.uniform(-1, 1, shape).astype(np.float32) for name, shape in (("x", (24, 40)), ("w", (40, 16)), ("v", (16, 16)))}


def test_a_function_is_recorded_with_what_feeds_what(inputs):
    program = tune.recorded(layers, inputs)
    assert [gemm.fed_by for gemm in program.gemms] == [(), (), (0, 1), (2,)]
    assert program.gemms[3] == Gemm("call3", 24, 16, 16, "nt", 1.0, 0.25, (2,)) and program.gemms[1].alpha == 2.0
    tuned = tune.tune(program, 1e-4, gpu="a100", device="model", levels=["half", "ootomo"])
    assert f"gpu a100, threshold 0.0001, seconds {tuned.seconds(tuned.choice)}, error " in repr(tuned) and len(repr(tuned)) < 500
    assert all(f"{gemm} {level}" in repr(tuned) for gemm, level in tuned.levels_of(tuned.choice).items())
    assert "no level meets the threshold" in repr(dataclasses.replace(tuned, found=dataclasses.replace(tuned.found, choice=None)))
    assert tuned.error(tuned.choice) <= 1e-4
    assert tuned.error((0, 0, 0, 0)) > 1e-4 > tuned.error((1, 1, 1, 1))


def test_what_a_function_does_to_a_result_in_place_stays_its_own():
    """Results of recorded calls are copies, also when they are replayed: the second run has the operands of the first."""
    def function(matmul, inputs):
        first = matmul(inputs["x"], inputs["x"])
        second = matmul(first, inputs["x"])
        first *= 3
        return matmul(first, second)

    program = tune.recorded(function, {"x": np.eye(4, dtype=np.float32) * 2})
    assert [gemm.fed_by for gemm in program.gemms] == [(), (0,), (0, 1)]


def test_functions_that_cannot_be_replayed_are_refused(inputs):
    draw, count = np.random.default_rng(), iter(range(100))
    for function, problem in (
        (lambda matmul, given: given["x"], "calls no product"),
        (lambda matmul, given: matmul(given["x"], given["v"]), "do not fit"),
        (lambda matmul, given: matmul(given["x"], given["w"][:, 0]), "no matrix"),
        (lambda matmul, given: matmul(given["x"], given["w"], op="nm"), "unknown op"),
        (lambda matmul, given: matmul(given["x"] * np.float32(draw.random()), given["w"]), "does not do the same"),
        (lambda matmul, given: matmul(given["x"][: 1 + next(count)], given["w"]), "calls other products"),
        (lambda matmul, given: float(matmul(given["x"], given["w"])[0, 0]), "returns no matrix"),
        (lambda matmul, given: matmul(given["x"], given["w"])[0], "returns no matrix"),
        (lambda matmul, given: matmul(given["x"], given["w"], np.zeros((16, 24), np.float32)), "do not fit"),
        (lambda matmul, given: matmul(given["x"], given["w"], np.zeros((24, 15), np.float32)), "do not fit"),
    ):
        with pytest.raises(SpecError) as raised:
            tune.recorded(function, inputs, name="f")
        assert problem in raised.value.problem and raised.value.where == ("f: call 0" if problem in ("do not fit", "no matrix", "unknown op") else "f")
    with pytest.raises(SpecError, match="float32"):
        tune.recorded(layers, {"x": np.zeros((2, 2))})


# ---- the command


def test_the_command_tells_the_choice_and_writes_it(gemmgen, chain, tmp_path):
    ran = gemmgen("tune", chain, "--gpu", "a100", "--threshold", "1e-2,1e-5,1e-12", "--device", "model", "--levels", "half,ootomo", "-o", tmp_path / "out.json", "--quiet")
    assert ran.code == 2 and ran.err == ""  # nothing meets the last one
    assert "GEMMs" in ran.out and "fed by" in ran.out and "predicted by the model, not measured" in ran.out
    assert "no combination of levels meets it" in ran.out and "whole      4 combinations" in ran.out
    loose, middle, tight = json.loads((tmp_path / "out.json").read_text())
    assert loose["choices"]["chosen"]["levels"] == {"call0": "half", "call1": "half"} and tight["meets"] is False
    assert middle["choices"]["chosen"]["error"] <= 1e-5 and "ootomo" in middle["choices"]["chosen"]["levels"].values()
    one = json.loads(gemmgen("tune", chain, "--gpu", "a100", "--threshold", "1e-2", "--device", "model", "--levels", "half", "--json").out)
    assert one["threshold"] == 1e-2 and one["gemms"][1]["fed_by"] == ["call0"]


def test_the_command_reads_sizes(gemmgen, chain):
    ran = gemmgen("tune", chain, "--gpu", "a100", "--threshold", "1", "--device", "model", "--levels", "half", "--size", "n=16", "--json", "--no-exhaustive")
    value = json.loads(ran.out)
    assert ran.code == 0 and value["gemms"][0]["m"] == 16 and value["combinations"] is None


@pytest.mark.parametrize(("arguments", "place"), [
    (["--threshold", "x"], "--threshold"), (["--threshold", "-1"], "--threshold"), (["--threshold", "1e-3,inf"], "--threshold"),
    (["--threshold", "1", "--size", "n"], "--size"), (["--threshold", "1", "--size", "q=3"], "--size"), (["--threshold", "1", "--levels", "q"], "--levels"),
    ([], "gemmgen tune"),
])
def test_the_command_refuses_bad_arguments(gemmgen, chain, arguments, place):
    ran = gemmgen("tune", chain, *arguments, "--gpu", "a100", "--device", "model", "--quiet", "--json")
    assert ran.code == 2 and json.loads(ran.out)["where"].startswith(place)


def test_a_program_over_a_library_names_what_it_writes(gemmgen, monkeypatch):
    monkeypatch.setattr("gemmgen.workshop.verbs.tune._transform", lambda *given: pytest.fail("ran"))
    refused = gemmgen("tune", "--library", "lab", "--threshold", "1e-3", "--json", "./program")
    assert refused.code == 2 and json.loads(refused.out)["where"] == "--result"


def test_the_command_tunes_an_application_by_the_products_of_its_run(gemmgen):
    told = json.loads(gemmgen("tune", "bert", "--threshold", "1e-3", "--gpu", "h100", "--device", "model", "--levels", "half,ootomo", "--size", "tokens=16", "--json").out)
    assert [(one["m"], one["n"], one["k"], one["op"]) for one in told["gemms"]] == [(16, 128, 32, "nt"), (16, 32, 128, "nt")]
    assert told["gemms"][1]["fed_by"] == [told["gemms"][0]["name"]] and told["meets"]
    refused = gemmgen("tune", "kmeans", "--threshold", "1e-3", "--gpu", "h100")
    assert refused.code == 2 and "result is one matrix" in refused.err


def test_which_gpu_is_here(monkeypatch):
    """By its name among those whose code it runs; the first of them where its name tells none, and none where no row fits or no device answers."""
    def here(name, fitting=("h100", "h200")):
        def device_name():
            if not name:
                raise DeviceError("cuda", "no device")
            return name

        monkeypatch.setattr(on_gpu, "why_not", lambda row: None if row.name in fitting else "another")
        monkeypatch.setattr(on_gpu.timing, "device_name", device_name)
        return on_gpu.gpu_here()

    assert [here(name) for name in ("NVIDIA H200", "NVIDIA H100 80GB HBM3", "NVIDIA X", "")] == ["h200", "h100", "h100", None]
    assert here("NVIDIA H200", fitting=()) is None and here("AMD Instinct MI300X", fitting=("mi300x",)) is None  # another vendor's is not timed


def test_a_product_that_adds_is_predicted_with_the_c_that_it_reads():
    """In seconds of an engine without a GPU and in the order of levels: M26 more."""
    gemms = [Gemm("c", 4096, 4096, 256, "nn", 1.0, beta, ()) for beta in (0.0, 0.5)]
    levels, _ = levels_for(gemms, "h200", ["half"])
    [[without], [reads]] = tune.Simulation("h200").seconds(gemms, levels)
    assert without == float(levels[0].plans[gemms[0].shape].model["seconds"]) and reads - without == pytest.approx(2.2 * 4 * 4096**2 / (0.835 * 4.8e12))
