"""Studies: their language, their candidates, and the strategies that choose among these."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from math import exp, inf
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

from gemmgen.cli import main
from gemmgen.errors import InfeasibleSpec, SpecError, UnknownName
from gemmgen.paths import SPECS
from gemmgen.solve import solve
from gemmgen.solve.request import requests
from gemmgen.solve.settled import settled_spec
from gemmgen.spec import loads
from gemmgen.workshop import explore
from gemmgen.workshop.explore import gpus, strategies
from gemmgen.workshop.explore import regret as replaying
from gemmgen.workshop.explore.regret import regret
from gemmgen.workshop.explore.running import Progress
from gemmgen.workshop.explore.space import Candidates, Pool, by_number, in_turn
from gemmgen.workshop.explore.store import Store
from gemmgen.workshop.explore.strategies import ETA, Ask, Outcome, strategy_called
from gemmgen.workshop.explore.studies import STRATEGIES, Problem, json_schema, load_study, study_from
from gemmgen.workshop.explore.trial_row import Row
from gemmgen.workshop.verbs import explore as verb
from gemmgen.workshop.verbs import results

SMALL = {"study": {"name": "one", "gpus": ["a100"], "sizes": [64]}, "space": {
    "split": {"scheme": "ootomo"}, "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}, "pipeline": {"stages": [2, 3]},
}}


def small(**sections):
    """SMALL with other sections."""
    return {**SMALL, **sections}


def with_space(**space):
    return small(space={**SMALL["space"], **space})


# ---- the language


@pytest.mark.parametrize("path", sorted((SPECS / "studies").glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_studies_are_read(path):
    study = load_study(path)
    assert study.name == path.stem and study.problems() and load_study(path.stem).file == study.file


def test_the_schema_is_kept(request):
    if request.config.getoption("--update-golden"):
        (SPECS / "study.schema.json").write_text(json.dumps(json_schema(), indent=2) + "\n")
    assert json.loads((SPECS / "study.schema.json").read_text()) == json_schema(), "gemmgen list schema --study > specs/study.schema.json"


def test_a_value_may_be_a_list_and_a_list_of_lists_where_a_value_is_one():
    study = study_from(with_space(tile={"block": [[64, 64, 32], [128, 64, 32]], "warp": [32, 32, 32]}, pipeline={"stages": [2, "auto"]}))
    assert study.listed["tile.block"] == [[64, 64, 32], [128, 64, 32]] and study.listed["tile.warp"] == [[32, 32, 32]]
    combinations = list(study.combinations())
    assert len(combinations) == 4 and {one.loaded.spec.pipeline.stages for one in combinations} == {2, None}
    assert all(dict(one.listed).keys() == {"tile.block", "pipeline.stages"} for one in combinations)


def test_sizes_are_cubes_or_triples():
    head = study_from({"study": {"name": "x", "sizes": [64, [1, 2, 3]], "gpus": ["a100"], "layouts": ["nn", "tn"]}})
    assert [(one.size, one.layout) for one in head.problems()] == [((64,) * 3, "nn"), ((64,) * 3, "tn"), ((1, 2, 3), "nn"), ((1, 2, 3), "tn")]


@pytest.mark.parametrize("data, where", [
    (small(study={"name": "x"}), "sizes"), (small(study={**SMALL["study"], "sizes": [0]}), "sizes"), (small(study={**SMALL["study"], "name": "X Y"}), "name"),
    (with_space(pipeline={"stages": [2, 300]}), "stages.1"), (with_space(split={"scheme": 3}), "scheme"), (with_space(split={"scheme": []}), "scheme"),
    (with_space(target={"gpu": "a100"}), "target"), (with_space(tile={"block": [[64, 64], [64, 64, 32]]}), "block.0"),
    (small(accept={"relative_frobenius": 2.0}), "relative_frobenius"), (small(study={**SMALL["study"], "strategy": "best"}), "strategy"),
    (with_space(tile={"block": 64}), "block"), (small(study={**SMALL["study"], "trials": 0}), "trials"),
])
def test_what_is_not_a_study_is_refused_with_its_place(data, where):
    with pytest.raises(SpecError) as caught:
        study_from(data)
    assert where in caught.value.where and caught.value.needs


def test_too_many_combinations_are_refused():
    study = study_from(small(space={"split": {"promote": list(range(64))}, "pipeline": {"stages": list(range(2, 65))}, "tile": {"group": [1, 2]}}))
    with pytest.raises(SpecError, match="too many combinations"):
        list(study.combinations())


def test_an_unknown_study_gets_a_suggestion():
    with pytest.raises(UnknownName) as caught:
        load_study("small_gpu")
    assert "small_cpu" in str(caught.value)


def test_a_study_with_other_values_is_the_same_but_for_them():
    path = SPECS / "studies" / "small_cpu.toml"
    study = explore.study(path).study
    other = study.with_(gpus=["h200"], compile=None, trials=7)
    assert (other.head.gpus, other.head.trials, other.head.compile) == (("h200",), 7, study.head.compile) and (other.place, other.folder) == (study.place, study.folder)
    assert other.head.model_copy(update={"gpus": study.head.gpus, "trials": study.head.trials}) == study.head
    assert other.file.model_copy(update={"study": study.file.study}) == study.file
    assert study.with_(compile=False).head.compile is False
    with pytest.raises(SpecError) as refused:
        study.with_(trials=-1)
    assert refused.value.where.startswith(study.place)


def test_a_study_is_kept_where_it_is_asked_to_be():
    study = explore.study(SMALL).study
    assert explore.study(study).study is study and explore.study(study).store == "explore-out/one"
    for place, store in (("s3://bucket//one", "s3://bucket//one"), (Path("a"), Path("a")), (Mock(__fspath__=lambda self: "b", spec=os.PathLike), Path("b"))):
        assert explore.study(study, place).store == store and type(explore.study(study, place).store) is type(store)


def test_a_study_without_a_gpu_needs_one_at_hand(monkeypatch):
    monkeypatch.setattr(gpus, "gpus_here", lambda: [])
    with pytest.raises(SpecError, match="no GPU"):
        study_from({"study": {"name": "x", "sizes": [64]}}).problems()


# ---- candidates


@pytest.fixture(scope="module")
def candidates():
    return explore.study(small(space={**SMALL["space"], "split": {"scheme": ["ootomo", "half"]}})).candidates()


def test_candidates_are_counted_and_ranked(candidates):
    assert len(candidates) == len(set(candidates.order.tolist())) == candidates.count - sum(candidates.rejected.values())
    first = [candidates.first(0), *candidates.order[:2]]
    assert first[0] == first[1]
    assert {candidates.plan(at).scheme.name for at in first} == {"ootomo", "half"}
    for stratum in set(candidates.stratum.tolist()):
        mine = [at for at in candidates.order if candidates.stratum[at] == stratum]
        fastest_after = np.minimum.accumulate(candidates.seconds[mine][::-1])[::-1]
        assert (candidates.seconds[mine] <= 1.02 * fastest_after).all()
    assert all(label[0] == "C" for label in candidates.rejected)


def test_the_first_candidate_is_what_solve_chooses():
    found = explore.study({"study": {"name": "x", "gpus": ["mi210"], "sizes": [1024]}, "space": {"split": {"scheme": "scaled"}}}).candidates()
    chosen = solve(loads({"problem": {"m": 1024, "n": 1024, "k": 1024}, "split": {"scheme": "scaled"}, "target": {"gpu": "mi210"}}))
    assert found.plan(int(found.order[0])).hash == chosen.hash


@pytest.mark.parametrize("gpu, space", [
    ("a100", {"split": {"scheme": "ootomo"}}), ("h200", {"split": {"scheme": "bf16x3", "promote": 64}}), ("mi210", {"split": {"scheme": "scaled"}}),
    ("a100", {"split": {"scheme": "ootomo"}, "tile": {"block": [64, 64, 32]}, "solve": {"require": ["stages >= 3"]}}),
    ("h200", {"split": {"scheme": "ootomo", "sums": "compensated"}, "fragment": {"policy": "mma"}, "tile": {"block": [64, 64, 32]}}),
])
def test_a_candidates_spec_has_its_plan_alone(gpu, space):
    found = explore.study({"study": {"name": "x", "gpus": [gpu], "sizes": [4096]}, "space": space}).candidates()
    for at in [*found.order[:3], *found.order[-3:]]:
        spec = found.spec(int(at))
        assert solve(loads(spec)).hash == found.plan(int(at)).hash and not {"solve", "accuracy"} & spec.keys()
        assert json.loads(json.dumps(spec)) == spec and all(request.settled for request in requests(loads(spec)))


def test_settled_names_of_files_are_from_the_root(tmp_path):
    (tmp_path / "mine.toml").write_text((SPECS / "schemes" / "half.toml").read_text().replace('name = "half"', 'name = "mine"'))
    loaded = loads({"split": {"scheme": "mine.toml"}, "target": {"gpu": "a100"}}).model_copy(update={"folder": tmp_path})
    found = settled_spec(loaded, plan := solve(loaded))
    assert found["split"]["scheme"] == str(tmp_path / "mine.toml") and found["target"]["gpu"] == "a100"
    own = loaded.model_copy(update={"spec": loaded.spec.model_copy(update={"target": loaded.spec.target.model_copy(update={"gpu": "gpu.toml"})})})
    assert settled_spec(own, plan)["target"]["gpu"] == str(tmp_path / "gpu.toml")


def test_a_limit_on_the_error_rejects_and_makes_schemes_compete():
    study = small(space={**SMALL["space"], "split": {"scheme": ["ootomo", "half"]}}, accept={"relative_frobenius": 1e-5})
    found = explore.study(study).candidates()
    assert found.rejected["[accept] relative_frobenius <= 1e-05"] > 0 and set(found.stratum.tolist()) == {0}
    assert {part.request.scheme.name for part in found.parts} == {"ootomo"}
    [error] = {part.error for part in found.parts}
    for limit, schemes in ((error, {"ootomo"}), (0.1, {"ootomo", "half"})):  # as much as the limit is within it
        found = explore.study({**study, "accept": {"relative_frobenius": limit}}).candidates()
        assert {part.request.scheme.name for part in found.parts} == schemes and set(found.stratum.tolist()) == {0}


def test_what_strategies_know_is_of_the_candidate_itself():
    """Of several parts: errors by the study's data and the interval of promotion, numbers by the candidate's own row."""
    study = small(study={**SMALL["study"], "sizes": [4096]}, space={**SMALL["space"], "split": {"scheme": "ootomo", "promote": [0, 64]}})
    found, other = (explore.study({**study, "study": {**study["study"], "data": data}}).candidates() for data in ("uniform", "positive"))
    assert len({part.error for part in (*found.parts, *other.parts)}) == 4
    rows = np.array([*found.order[:3], *found.order[-3:]])
    assert not {"seconds", "registers"} & {*found.pool.names} and len({int(found.part[at]) for at in rows}) > 1
    for at, own in zip(rows, found.pool.features(rows)):
        columns = found.part_of(at).ranked.columns
        assert own.tolist() == [columns[name][found.row[at]] if name in columns else 0 for name in found.pool.names]
        assert found.pool.error[at] == found.part_of(at).error
    found = explore.study(small(study={**SMALL["study"], "gpus": ["h200"]}, space={
        "split": {"scheme": "half"}, "tile": {"block": [64, 64, 64], "warp": [64, 64, 64]}, "pipeline": {"stages": 3}})).candidates()
    first = [found.part_of(at).request.design.name for at in found.order].index
    for design, other in (("specialised", "waits"), ("portable", "cluster")):
        [own] = found.pool.features(np.array([at := found.order[first(design)]]))
        told = dict(zip(found.pool.names, own.tolist()))
        assert told[other] == 0 and told["BM"] == 64 and other not in found.part_of(at).ranked.columns, "a number that its design does not have"


def test_a_policy_without_a_kernel_does_not_refuse_the_combination():
    found = explore.study(small(study={**SMALL["study"], "gpus": ["h200"]})).candidates()
    assert len(found) and not found.refused


def test_combinations_that_no_kernel_serves_are_told():
    found = explore.study(small(study={**SMALL["study"], "gpus": ["a100", "t4"]}, space={"split": {"scheme": ["half", "bf16x3"]},
                                                                                        "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}})).candidates()
    assert [(one.combination.problem.gpu, one.combination.told) for one in found.refused] == [("t4", "scheme = bf16x3")]
    with pytest.raises(InfeasibleSpec):
        explore.study(small(space={"tile": {"warp": [7, 7, 7]}})).candidates()


def test_strata_take_turns():
    assert in_turn(np.array([0, 0, 1, 0, 1]), np.array([3.0, 1, 9, 2, 8])).tolist() == [1, 4, 3, 2, 0]


# ---- GPUs


def test_gpus_are_told_apart_by_uuid(monkeypatch):
    answer = "GPU-aaa, NVIDIA H200, 9.0, 580\nGPU-bbb, NVIDIA H100 80GB HBM3, 9.0, 580\nGPU-ccc, Tesla T4, 7.5, 580\nGPU-ddd, GeForce GTX 1080, 6.1, 580\n"
    commands = []
    monkeypatch.setattr(gpus.subprocess, "run", lambda command, **more: commands.append(command) or type("Answer", (), {"stdout": answer}))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert gpus.gpus_here()[0] == gpus.Here("h200", "GPU-aaa", "NVIDIA H200", "580") and "--query-gpu=uuid,name,compute_cap,driver_version" in commands[0]
    assert [(one.name, one.uuid) for one in gpus.gpus_here()] == [("h200", "GPU-aaa"), ("h100", "GPU-bbb"), ("t4", "GPU-ccc")]
    for asked, left in (("1", ["GPU-bbb"]), ("GPU-c,0", ["GPU-ccc", "GPU-aaa"]), ("", []), ("2,4,0", ["GPU-ccc"]), ("1,GPU-,0", ["GPU-bbb"]), ("MIG-a,0", [])):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", asked)
        assert [one.uuid for one in gpus.gpus_here()] == left


def test_without_nvidia_smi_or_its_answer_there_is_no_gpu(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert gpus.gpus_here() == []
    monkeypatch.setattr(gpus.subprocess, "run", Mock(side_effect=[subprocess.CalledProcessError(9, "nvidia-smi"), subprocess.TimeoutExpired("nvidia-smi", 30)]))
    assert gpus.gpus_here() == gpus.gpus_here() == []


# ---- strategies


def test_of_no_candidates_nothing_is_known_and_nothing_is_asked():
    none = np.zeros(0, int)
    empty = Candidates(None, (), (), (), 0, {}, (), {}, 0.0, none, none, none, none, none)
    pool = empty.pool
    assert [len(one) for one in (pool.problem, pool.stratum, pool.order, pool.seconds, pool.error, pool.way, pool.family, pool.listed)] == [0] * 8
    assert len(empty) == 0 and empty.first(0) is None and pool.names == ()
    for name in STRATEGIES:
        assert strategy_called(name, pool, seed=1).ask() is None, name


def pool_of(count=60, strata=2, seed=0):
    """Candidates with one symbol of 60 values and two ways; the model's times, and nothing else, order them."""
    rng = np.random.default_rng(seed)
    features = np.stack([np.arange(count) % 30, rng.integers(0, 4, count)], axis=1).astype(float)
    seconds, stratum = rng.uniform(1, 2, count), np.arange(count) % strata
    return Pool(stratum, stratum, in_turn(stratum, seconds), seconds, np.full(count, 1e-6), np.arange(count) // 2 % 2, ("one", "two"),
                lambda rows: features[rows], np.zeros(count, int), np.zeros(count, int))


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_tries_each_candidate_once_and_ends(name):
    pool = pool_of(24)
    strategy, asked = strategy_called(name, pool, seed=3), []
    while (ask := strategy.ask()) is not None and len(asked) < 100:
        asked.append(ask)
        strategy.tell(ask, Outcome(float(pool.seconds[ask.at]), 1e-6))
    assert sorted(Counter(ask.at for ask in asked if ask.effort == min(one.effort for one in asked))) == list(range(24))
    assert len(asked) == len(set(asked))
    if name != "halving":
        assert len(asked) == 24


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_may_have_many_open_and_be_told_of_failures_in_any_order(name):
    pool = pool_of(20)
    strategy = strategy_called(name, pool)
    opened = [strategy.ask() for _ in range(12)]
    assert None not in opened and len({ask.at for ask in opened}) == 12
    for ask in reversed(opened):
        strategy.tell(ask, Outcome())
    assert strategy.ask() is not None


def test_a_seed_repeats_what_is_drawn():
    def asked(name, seed):
        strategy = strategy_called(name, pool_of(), seed)
        found = []
        for _ in range(6):
            found.append(strategy.ask().at)
            strategy.tell(Ask(found[-1]), Outcome(1.0, 1e-6))
        return found

    for name in ("random", "tpe", "nsga2"):
        assert asked(name, 1) == asked(name, 1) != asked(name, 2)


def test_tpe_looks_at_times_alone_and_nsga2_at_errors_first_too():
    values = {name: strategy_called(name, pool_of())._values(Outcome(exp(1), exp(-2))) for name in ("tpe", "nsga2")}
    assert values == {"tpe": [pytest.approx(1.0)], "nsga2": [pytest.approx(-2.0), pytest.approx(1.0)]}


def test_the_model_goes_best_first_in_turn():
    pool = pool_of()
    strategy = strategy_called("model", pool)
    asked = [strategy.ask().at for _ in range(4)]
    assert asked == pool.order[:4].tolist() and {int(pool.stratum[at]) for at in asked[:2]} == {0, 1}


def test_covering_gives_schemes_equal_shares_their_frontier_first_and_then_each_design():
    """One problem, schemes a (candidates 0 to 4) and b (5 to 7). Of a, 1 is the fastest, 3 slower and more accurate, 2 slower and no better, 4 of a design of
    its own; all are slower than b's."""
    seconds = np.array([8, 5, 6, 7, 9, 1, 2, 3.0])
    error = np.array([1e-6, 1e-6, 1e-6, 1e-7, 1e-6, 1e-5, 1e-5, 1e-5])
    zero, listed, family = np.zeros(8, int), np.array([0] * 5 + [1] * 3), np.array([0, 0, 0, 0, 1, 2, 2, 2])
    pool = Pool(zero, zero, np.argsort(seconds), seconds, error, family, (), lambda rows: rows, family, listed)
    assert strategies.covering(pool).tolist() == [1, 5, 3, 6, 4, 7, 2, 0]


def test_covering_reaches_every_size_and_every_scheme_with_few_trials():
    problem, listed = (axis.ravel() for axis in np.meshgrid(np.repeat(np.arange(4), 5), np.arange(3), indexing="ij"))
    count = len(problem)
    zero, ones = np.zeros(count, int), np.ones(count)
    pool = Pool(problem, problem, in_turn(problem, ones), ones, ones, zero, (), lambda rows: rows, listed, listed)
    order = strategies.covering(pool)
    first = order[:4]
    assert set(problem[first].tolist()) == {0, 1, 2, 3} and set(listed[first].tolist()) == {0, 1, 2}
    assert sorted(Counter(zip(problem[order[:24]].tolist(), listed[order[:24]].tolist())).values()) == [2] * 12 and sorted(order.tolist()) == list(range(count))


def test_covering_keeps_the_models_order_where_times_are_nearly_equal():
    found = explore.study(SMALL).candidates()
    front = [at for at in strategies.covering(found.pool) if found.part_of(at).request.design.name == found.part_of(found.order[0]).request.design.name]
    assert front[0] == found.order[0] and front[2:] == [at for at in found.order if at in set(front[2:])]


LISTED = {"study": {**SMALL["study"], "sizes": [4096]}, "space": {
    "split": {"scheme": ["ootomo", "half", "scaled", "e4m3x6"]}, "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}}}


def test_the_default_covers_every_listed_scheme_and_tells_what_is_left_out_and_why(tmp_path, capsys):
    """Nothing is compiled, so that a study of many candidates takes seconds. Without a scheme's name no row stands in a table."""
    limited = {**LISTED, "accept": {"relative_frobenius": 1e-6}}
    found = explore.study(limited).candidates()
    assert explore.study(limited).study.strategy == "cover"
    left = strategies.left_out(found, "cover", 40)
    assert left["half"].startswith("its predicted error 2.6e-04 is above") and "e4m3" in left["e4m3x6"] and {"ootomo", "scaled"}.isdisjoint(left)
    one = strategies.left_out(found, "model", 1)
    assert {"ootomo", "scaled"} & {name for name, why in one.items() if "in the 1 trials of strategy model" in why}
    path = tmp_path / "s.toml"
    path.write_text("""[study]
name = "listed"
gpus = ["a100"]
sizes = [4096]
trials = 9
compile = false
[space.split]
scheme = ["ootomo", "half", "scaled"]
[space.tile]
block = [64, 64, 32]
[accept]
relative_frobenius = 1e-6
""")
    assert main(["study", "run", str(path), "--store", str(tmp_path / "s")]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "left out half (its predicted error 2.6e-04 is above [accept] relative_frobenius = 1e-06)" in told
    assert "schemes 5 ootomo, 4 scaled" in told or "schemes 5 scaled, 4 ootomo" in told
    rows = Store(tmp_path / "s").rows("kind = 'kernel'")
    assert {row.verdict for row in rows} == {"modelled"} and all(row.scheme and row.design and row.block and row.kernel and row.decided != "{}" for row in rows)
    assert main(["study", "run", str(path), "--store", str(tmp_path / "s"), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["kept"] == 9 and again["left_out"].keys() == {"half"} and sum(again["schemes"].values()) == 9
    for question in ("--best", "--frontier", "--first-choice", "--verdicts", "--studies"):
        assert main(["study", "ask", str(tmp_path / "s"), question, "--json"]) == 0
        assert json.loads(capsys.readouterr().out), question


def test_an_inequality_with_two_texts_is_one():
    found = by_number({"C7 threads <= 512": 3, "C10 a <= b": 5, "C7 threads <= most": 4, "[accept] x": 1})
    assert found == {"C7 threads <= 512 or else threads <= most": 7, "C10 a <= b": 5, "[accept] x": 1}
    assert by_number(Counter(found) + Counter({"C7 threads <= 512": 1})) == Counter(found) + Counter({"C7 threads <= 512 or else threads <= most": 1})


def test_halving_lets_the_better_third_rise_and_failures_never():
    pool = pool_of(18, strata=1)
    strategy, asked = strategy_called("halving", pool), Counter()
    seconds = {at: inf if at % 2 else 1 + at / 100 for at in range(18)}
    while (ask := strategy.ask()) is not None:
        asked[round(ask.effort * ETA**2), ask.at] += 1
        strategy.tell(ask, Outcome(seconds[ask.at], 1e-6))
    rungs = {effort: {at for (of, at) in asked if of == effort} for effort in (1, ETA, ETA**2)}
    assert len(rungs[1]) == 18 and 6 <= len(rungs[ETA]) <= 9 and 2 <= len(rungs[ETA**2]) <= 4
    assert 0 in rungs[ETA**2] and not any(at % 2 for at in rungs[ETA])
    strategy, first = strategy_called("halving", pool), []
    for _ in range(4):  # of three that are known one goes on
        first.append(strategy.ask())
        strategy.tell(first[-1], Outcome(1 + first[-1].at))
    assert [round(one.effort * ETA**2) for one in first] == [1, 1, 1, ETA] and first[3].at == min(one.at for one in first[:3])
    strategy, efforts = strategy_called("halving", pool), set()
    while (ask := strategy.ask()) is not None:
        efforts.add(ask.effort)
        strategy.tell(ask, Outcome())
    assert efforts == {1 / ETA**2}
    strategy, efforts = strategy_called("halving", pool_of(60, strata=1)), Counter()
    while (ask := strategy.ask()) is not None:
        efforts[round(ask.effort * ETA**2, 6)] += 1
        strategy.tell(ask, Outcome(1 + ask.at))
    assert {*efforts} == {1, ETA, ETA**2} and efforts[ETA**2] >= ETA, "nothing is timed again after a whole timing"


class FakeOptuna:
    """Optuna's part that a sampler is asked through: it suggests what is put into `next`, and keeps what it is told."""

    class distributions:  # noqa: N801
        IntDistribution = CategoricalDistribution = staticmethod(lambda *bounds: bounds)

    def __init__(self):
        self.told, self.next = [], {}
        self.logging = SimpleNamespace(set_verbosity=lambda level: None, ERROR=0)

    def create_study(self, directions, sampler):
        return SimpleNamespace(ask=lambda distributions: SimpleNamespace(params=dict(self.next)), tell=lambda trial, values: self.told.append(values))


@pytest.mark.parametrize(("directions", "told"), [(1, [0.0]), (2, [np.log(1e-6), 0.0])])
def test_a_sampler_gets_the_nearest_candidate_and_is_told_logarithms(monkeypatch, directions, told):
    optuna = FakeOptuna()
    monkeypatch.setattr(strategies, "library", lambda name: optuna)
    features = np.array([[0.0, 5], [1, 5], [2, 5], [0, 5], [1, 5], [2, 5]])
    zero = np.zeros(6, int)
    pool = Pool(zero, zero, np.arange(6), np.ones(6), np.ones(6), np.array([0, 0, 0, 1, 1, 1]), ("one", "two"), lambda rows: features[rows], zero, zero)
    sampler = strategies.Sampled(pool, lambda optuna, seed: None, directions)
    assert sampler._spaces[0].distributions == {"one": (0, 2), "way": ([0, 1],)}  # what does not vary is not suggested
    asked = []
    for one, way in ((2, 1), (2, 1), (0, 0), (0, 0)):
        optuna.next = {"one": one, "way": way}
        asked.append(sampler.ask())
    assert [ask.at for ask in asked] == [5, 4, 0, 1]
    sampler.tell(asked[1], Outcome(1.0, 1e-6))
    sampler.tell(asked[0], Outcome())
    assert optuna.told == [pytest.approx(told), [50.0] * directions]  # a failure is worse than all times and errors
    sampler.tell(asked[2], Outcome(1.0, 0.0))
    sampler.tell(asked[3], Outcome(np.nan, np.nan))
    assert optuna.told[2][-1] == 0 and optuna.told[3] == [50.0] * directions
    assert directions == 1 or optuna.told[2][0] < np.log(1e-30)  # no error is better than all others


def test_an_unknown_strategy_is_refused():
    with pytest.raises(UnknownName, match="strategy"):
        strategy_called("best", pool_of())


# ---- regret


def measured(count=30, **more):
    """Rows of one problem, of which the model ranks the fastest third."""
    return [
        Row(study="x", trial=str(at), kind="kernel", verdict="timed", kernel=f"k{at}", gpu="h200", m=64, n=64, k=64, layout="nn", identity=str(at),
            seconds=1.0 + (at * 7 % count) / count, predicted_seconds=1.0 + (at * 7 % count + 2) % count / count, error=1e-6, spread=0.0, rounds=9,
            decided=json.dumps({"block": [at % 5, 8, 8], "stages": at % 3, "where": "prepass"}), **more) for at in range(count)
    ]


def test_regret_replays_stored_rows():
    found = regret(measured(), counts=(1, 4, 16, 64), strategies=("model", "random"))
    assert found.counts == (1, 4, 16) and found.problems == 1 and found.rows == found.largest == 30
    model = found.table["model"]
    assert model[0] == pytest.approx(28 / 30) and model[1] == pytest.approx(0.0) and found.best in found.table
    assert all(later <= earlier + 1e-12 for earlier, later in zip(found.table["random"], found.table["random"][1:]))


def test_a_short_timing_takes_what_every_trial_takes_and_its_share_of_the_rest(monkeypatch):
    """A ninth of a timing takes 0.14 + 0.86 / 9 of a trial: four fit into one, and eight into two."""
    rows = [replace(row, seconds=1 / (at + 1)) for at, row in enumerate(measured(12))]
    asks = iter([Ask(at, 1 / 9) for at in range(12)])
    monkeypatch.setattr(replaying, "strategy_called", lambda *of: SimpleNamespace(ask=lambda: next(asks, None), tell=lambda *of: None))
    assert replaying._replayed("any", rows, (1, 2), 0) == [rows[3].seconds, rows[7].seconds]


def test_what_is_replayed_where_nothing_is_named(monkeypatch):
    """Each strategy that a store's rows can serve, five times where it draws; it is told each trial's time and error."""
    begun, told = [], []

    def called(name, pool, seed):
        begun.append((name, seed))
        asks = iter(map(Ask, range(len(pool))))
        return SimpleNamespace(ask=lambda: next(asks, None), tell=lambda ask, outcome: told.append((ask.at, outcome)))

    monkeypatch.setattr(replaying, "strategy_called", called)
    rows = [replace(row, error=(1e-6, None)[at % 2]) for at, row in enumerate(measured(130))]
    found = regret(rows)
    assert found.counts == (1, 2, 4, 8, 16, 32, 64, 128) and {*found.table} == {*STRATEGIES} - {"all"}
    assert begun == [(name, seed) for name in found.table for seed in range(1 if name == "model" else 5)]
    assert told[:2] == [(0, Outcome(rows[0].seconds, 1e-6)), (1, Outcome(rows[1].seconds, inf))]


def test_problems_of_other_data_are_others_and_few_rows_are_none():
    rows = measured(24)
    assert regret(rows, counts=(1,), strategies=("model",)).problems == 1
    for other in ({"layout": "tn"}, {"data": "another"}):
        others = [replace(row, identity=f"o{row.identity}", **other) for row in rows]
        assert regret(rows + others, counts=(1,), strategies=("model",)).problems == 2
    with pytest.raises(SpecError, match="too little"):
        regret(measured(23) + others[:1])
    larger = [replace(row, m=128) for row in measured(30)]
    found = regret(rows + larger, counts=(1, 27, 30, 31), strategies=("model",))
    assert (found.counts, found.largest, found.rows) == ((1, 27, 30), 30, 54), "numbers of trials up to the largest problem's"
    assert found.table["model"][-1] == pytest.approx(0.0)
    one, other = (regret(part, counts=(1,), strategies=("model",)).table["model"][0] for part in (rows, larger))
    assert one != other and 1 + found.table["model"][0] == pytest.approx(((1 + one) * (1 + other)) ** 0.5), "the geometric mean"
    again = [replace(row, seconds=0.1) for row in rows]
    assert regret(rows + again, counts=(1,), strategies=("model",)).table["model"][0] == one, "a kernel counts once, by its first row"
    assert len({regret(rows, counts=(1,), strategies=("random",), seeds=seeds).table["random"] for seeds in (1, 2, 3)}) == 3


def test_the_best_strategy_and_the_noise_of_a_short_timing_by_hand():
    def best(**table):
        return sys.modules[regret.__module__].Regret((1, 2), 1, 1, 1, table).best

    assert best(model=(inf, 0.0), random=(0.5, 0.5)) == "model" and best(model=(inf, 0.5), random=(0.9, 0.5)) == "random"
    assert best(random=(0.1, 0.1), model=(0.1, 0.1)) == "model"
    row = replace(measured(1)[0], spread=0.135, rounds=9)
    assert sys.modules[regret.__module__]._noise(row, 1.0) == 0 and sys.modules[regret.__module__]._noise(replace(row, spread=0.0), 0.25) == 0
    assert sys.modules[regret.__module__]._noise(row, 4 / 9) == pytest.approx(0.1 / (2 / 3) * 1.25 / 2)
    assert sys.modules[regret.__module__]._noise(row, 1 / 9) == pytest.approx(0.1 * 3 * 1.25 / 3**0.5)  # three rounds at the least


def test_rows_that_are_replayed_are_candidates_by_their_scheme_and_design():
    row = measured(1)[0]
    pool = replaying.pool_of([row, replace(row, design="another"), replace(row, scheme="another"), replace(row, seconds=9.0)])
    assert pool.family.tolist() == [0, 1, 2, 0] and len({*pool.way.tolist()}) == 3 and pool.way[0] == pool.way[3]


def test_regret_leaves_out_what_does_not_count():
    changes = ({"verdict": "wrong"}, {"kind": "rival"}, {"extra": '{"effort":0.1111}'}, {"gpu": "h100"})
    others = [replace(measured(1)[0], seconds=0.1, identity=f"other {at}", **change) for at, change in enumerate(changes)]
    assert regret(measured() + others, counts=(1,), strategies=("model",)).rows == 30
    with pytest.raises(SpecError, match="too little"):
        regret(measured(5))


# ---- the command


def run(capsys, *arguments):
    code = main(["study", "run", *arguments])
    return code, *capsys.readouterr()


def test_a_dry_run_tells_the_space(capsys, tmp_path):
    code, out, _ = run(capsys, "small_cpu", "--dry-run", "--store", str(tmp_path / "none"))
    assert code == 0 and "248; the model rejects 75; 173 remain" in out and "C12" in out and "by strategy model" in out and not (tmp_path / "none").exists()
    out_text = out
    code, out, _ = run(capsys, "small_cpu", "--dry-run", "--json", "--store", str(tmp_path))
    told = json.loads(out)
    counts = [int(line.split()[0].replace(",", "")) for line in out_text.partition("rejected\n")[2].splitlines()]
    assert counts == sorted(counts, reverse=True) and sum(counts) == 75
    assert told["remain"] == 173 and told["estimate"]["trials"] == 4 and told["estimate"]["left"] == 4
    path = tmp_path / "s.toml"
    path.write_text('[study]\nname = "s"\ngpus = ["a100", "t4"]\nsizes = [64]\n[space.split]\nscheme = "half"\n[space.tile]\nblock = [64, 64, 32]\n')
    for options, problems in ((("--gpu", "h200"), 1), (("--no-compile",), 2)):
        code, out, _ = run(capsys, str(path), "--dry-run", "--json", "--store", str(tmp_path), *options)
        assert code == 0 and json.loads(out)["problems"] == problems


class Space(SimpleNamespace):
    """40 candidates of a study of two GPUs, of which one is at hand."""

    def __len__(self):
        return 40


def test_an_estimate_by_hand():
    space = Space(study=SimpleNamespace(head=SimpleNamespace(trials=100, seconds=None, emulate=False, compile=True), gpus=lambda: ["h200", "a100"]))
    pool = SimpleNamespace(compilers=4, gpus={"h200": 2})
    times = [("kernel", 3.0, 1.0, 0.5), ("kernel", 5.0, 2.0, 1.0), ("rival", None, None, None)]
    known = [SimpleNamespace(kind=kind, compile_seconds=compile_, judge_seconds=judge, time_seconds=time) for kind, compile_, judge, time in times]
    found = verb.estimated(space, pool, None, None, known)
    assert found == {"trials": 40, "left": 38, "compile_seconds": 38.0, "run_seconds": 38 * 2.25 / 2, "seconds": 42.75, "timed": ["h200"], "measured": True}
    assert verb.estimated(space, pool, 10, 3.0, known) | {"compile_seconds": 0, "run_seconds": 0} == {
        "trials": 10, "left": 8, "compile_seconds": 0, "run_seconds": 0, "seconds": 3.0, "timed": ["h200"], "measured": True}
    space.study.head.emulate, pool.gpus = True, {}
    assert verb.estimated(space, pool, None, None, known)["run_seconds"] == 38 * 1.5 / 4
    assert [verb._span(one) for one in (None, 89, 120, 5399, 9000)] == ["-", "89 s", "2 min", "90 min", "2.5 h"]


def test_progress_by_hand():
    problem = Problem("h200", 1024, 2048, 512, "nn")
    row = Row(study="x", trial="t", kind="kernel", verdict="timed", kernel="fast", gpu="h200", m=1024, n=2048, k=512, layout="nn", seconds=2e-5,
              reference_seconds=3e-5, error=2e-7, predicted_seconds=1e-5)
    progress = Progress(300, done=120, kept=20, verdicts=Counter(timed=80, compiled=15, right=1, refused=4), seconds=12.0, left=120.0, best={problem: row})
    assert verb._state(progress) == "120 of 300 trials; 4 refused; best 107 TFLOPS at h200 1024x2048x512 nn; 2 min left"
    told = verb.progress_text(progress, "there").splitlines()
    assert told[1].split(maxsplit=1)[1].startswith("120 of 300, 20 of them before;") and told[1].endswith(": 80 timed, 15 compiled, 4 refused, 1 right")
    assert told[-1].split() == ["h200", "1024x2048x512", "nn", "fast", "20", "107.4", "1.500", "2e-07"]
    progress.best = {problem: replace(row, seconds=None, error=None, predicted_error=3e-7)}
    assert "; best 10 us predicted at" in verb._state(progress)
    assert verb.progress_text(progress, "there").splitlines()[-1].split() == ["h200", "1024x2048x512", "nn", "fast", "10", "3e-07", "predicted"]
    progress.best = {problem: replace(row, seconds=None), replace(problem, m=2048): replace(row, m=2048)}  # one of the two is timed: its time is told
    assert "; best 215 TFLOPS at h200 2048x2048x512 nn;" in verb._state(progress)
    lines = verb.progress_text(progress, "there").splitlines()
    assert "microseconds" in lines[-4] or "microseconds" in lines[-3]
    assert [line.split()[4:] for line in lines[-2:]] == [["-", "-", "-", "2e-07"], ["20", "214.7", "1.500", "2e-07"]]
    found = SimpleNamespace(problems=2, rows=30, largest=20, counts=(1, 4), best="model", table={"model": (0.125, inf)})
    assert results.regret_text(found).splitlines()[3].split() == ["model", "12.50", "%", "-"]


def test_an_interrupted_study_has_an_exit_code_of_its_own(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(gpus, "gpus_here", lambda: [])
    for interrupted, code in ((True, 130), (False, 0)):
        monkeypatch.setattr("gemmgen.workshop.explore.running.Running", lambda *given, **more: SimpleNamespace(run=lambda: Progress(4, interrupted=interrupted)))
        assert run(capsys, "small_cpu", "--store", str(tmp_path), "--workers", "0")[0] == code


def test_nothing_to_explore_is_a_message(capsys):
    code, _, err = run(capsys)
    assert code == 2 and "STUDY" in err and "gemmgen study run --help" in err
    code, _, err = run(capsys, "small_cpu", "--store", "/dev/null/x", "--workers", "0")
    assert code == 2 and "error" in err


def test_the_schema_of_studies_is_printed(capsys):
    assert main(["list", "schema", "--study"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema()


def test_a_study_explores(tmp_path, monkeypatch):
    monkeypatch.setattr(gpus, "gpus_here", lambda: [])
    monkeypatch.setattr("gemmgen.workshop.explore.running.STAGES", {"compiled": "bad_trials:slow", "timed": "", "emulated": "", "first_to_build": ""})
    monkeypatch.setattr("gemmgen.workshop.explore.workers.Child", InHere)
    progress = explore.study(SMALL).run(tmp_path / "store", trials=3, workers=0)
    assert progress.done == 3 and progress.verdicts == {"compiled": 3}
    assert explore.study(SMALL).run(tmp_path / "store", trials=4, workers=0).kept == 3


class InHere:
    """A child that is none."""

    def __init__(self, env=None):
        pass

    def call(self, target, *args, seconds):
        return {"verdict": "compiled", "reason": "", "kernel": "k"}, b""

    def stop(self):
        pass
