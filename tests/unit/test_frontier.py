"""The measured frontier: what is worth running, what no other beats, whether a contract's choice is kept; on the emulator and on made-up figures."""

from __future__ import annotations

import weakref
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gemmgen import road, timing
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.input import USUAL
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.cli import main
from gemmgen.cli.output import Progress
from gemmgen.errors import DeviceError
from gemmgen.model.accuracy import DISTRIBUTIONS
from gemmgen.solve.contract import EVERYWHERE, contract
from gemmgen.solve.frontier import Frontier, Point, frontier
from gemmgen.spec import loads
from gemmgen.workshop.bench import F16, F16_THIRD, SGEMM
from gemmgen.workshop.bench import measured_frontier as benching
from gemmgen.workshop.bench.measured_frontier import Entry, Frontiers, judged
from gemmgen.workshop.bench.plots import measured_frontier_image
from gemmgen.workshop.bench.racers import frontier_racers, solved_for

SIZE = (512, 256, 4096)
ASKED = contract(loads({"accuracy": {"as": "fp32"}, "target": {"gpu": "h200"}}))


def entry(name, seconds, *errors, kind="kernel", scaled=0.0):
    return Entry(name, kind, (seconds,) * 5, dict(zip(EVERYWHERE, errors)), {data: scaled for data in EVERYWHERE})


ENTRIES = [
    entry("half", 1.0, 1e-4, 1e-4, float("nan")), entry("fast", 2.0, 9e-7, 9e-7, 9e-7), entry("near", 2.09, 5e-7, 5e-7, 5e-7),
    entry("fine", 2.2, 1e-7, 1e-7, 1e-7), entry("slow", 5.0, 1e-7, 1e-7, 1e-7), entry(F16_THIRD, 0.5, kind="derived"),
    entry(SGEMM, 8.0, 1e-6, 1e-6, 1e-6, kind="rival"),
]


def test_what_no_other_beats_is_told_for_each_kind_of_data():
    found = judged(ENTRIES, SIZE, ASKED, "fast")
    assert [one.name for one in found.entries] == [F16_THIRD, "half", "fast", "near", "fine", "slow", SGEMM]
    at = {one.name: found.best_on(one) for one in found.entries}
    assert at["half"] == EVERYWHERE[:2]  # on the spread it leaves NaN
    assert at["fast"] == at["near"] == at["fine"] == EVERYWHERE
    assert at["slow"] == at[SGEMM] == at[F16_THIRD] == ()  # a derived line has no error, and beats nobody
    assert found.beaten(found.entries[5], "uniform") == "fine" and found.beaten(found.entries[1], "spread") == ""


@pytest.mark.parametrize("picked, kept, slower", [("fast", True, 1.0), ("near", True, 1.045), ("fine", False, 1.1), ("slow", False, 2.5), ("half", False, 0.5)])
def test_a_contract_is_kept_where_the_choice_errs_no_more_than_sgemm_and_is_within_5_percent(picked, kept, slower):
    verdict = judged(ENTRIES, SIZE, ASKED, picked).verdict
    assert verdict.kept == kept and verdict.slower[0] == pytest.approx(slower) and verdict.meeting == ("fast", "near", "fine", "slow")
    assert ("NOT KEPT" in verdict.text) != kept
    assert verdict.excess["uniform"] == pytest.approx(dict((one.name, one.error("uniform")) for one in ENTRIES)[picked] / 1e-6)


def test_an_error_above_sgemms_on_any_data_breaks_it():
    for at in range(3):
        errors = [5e-7] * 3
        errors[at] = 1.01e-6
        assert not judged([*ENTRIES, entry("one", 1.5, *errors)], SIZE, ASKED, "one").verdict.kept


def test_other_contracts_are_held_against_their_own_figures():
    for table, picked, kept in ({"relative_frobenius": 6e-7}, "near", True), ({"relative_frobenius": 6e-7}, "fast", False), ({"as": "tf32"}, "half", False):
        asked = contract(loads({"accuracy": table, "target": {"gpu": "h200"}}))
        assert judged(ENTRIES[:-1], SIZE, asked, picked).verdict.kept == kept
    asked = contract(loads({"accuracy": {"scaled": 1e-6}, "target": {"gpu": "h200"}}))
    assert not judged([entry("a", 1.0, 0, 0, 0, scaled=2e-6), entry("b", 2.0, 0, 0, 0, scaled=5e-7)], SIZE, asked, "a").verdict.kept
    assert judged([entry("a", 1.0, 0, 0, 0, scaled=2e-6), entry("b", 2.0, 0, 0, 0, scaled=5e-7)], SIZE, asked, "b").verdict.kept


def test_the_limits_themselves_keep_a_contract():
    def verdict(excess, slower):
        return benching.Verdict("as fp32", "x", {"uniform": excess}, ("y",), (slower, (1.0, 1.1)))

    assert verdict(1.0, 1.05).kept and not verdict(1.0, 1.0501).kept and not verdict(1.0001, 1.0).kept
    asked = contract(loads({"accuracy": {"scaled": 1e-6}, "target": {"gpu": "h200"}}))
    none = judged([entry("a", 1.0, 0, 0, 0, scaled=float("nan"))], SIZE, asked, "a").verdict
    assert not none.kept and all(value == float("inf") for value in none.excess.values())


def test_nothing_to_hold_it_against_is_no_verdict():
    assert judged(ENTRIES[:-1], SIZE, ASKED, "fast").verdict is None  # no SGEMM ran
    assert judged(ENTRIES, SIZE, ASKED, "").verdict is None
    none = judged([replace(ENTRIES[0]), ENTRIES[-1]], SIZE, ASKED, "half").verdict
    assert none.slower is None and not none.kept and "no scheme gives" in none.text
    assert Frontiers("a GPU", {}, (judged(ENTRIES, SIZE, ASKED, ""), judged(ENTRIES, SIZE, ASKED, "near"))).kept  # what was not judged is not broken


def test_a_time_is_the_median_of_the_rounds():
    assert Entry("a", "kernel", (1.0, 9.0, 2.0), {}, {}).seconds == 2.0


def test_the_table_and_its_json():
    import json

    from gemmgen.cli.output import json_text

    more = {"fine": {"predicted": (1.1, {"uniform": 2e-7})}, "near": {"rounds": (2.0, 2.05, 2.09, 2.1, 2.2)}}
    entries = [replace(each, **more.get(each.name, {})) for each in ENTRIES]
    one = judged(entries, (5120, 2560, 40960), ASKED, "near")
    text = benching.as_text(Frontiers("a GPU", {"driver": "1"}, (one,), ("told",)))
    line = next(line for line in text.splitlines() if line.startswith("fine"))
    assert line.split() == ["fine", "2200000.0", "0.5", "3.64", "0.23", "1.0e-07*", "1.0e-07*", "1.0e-07*", "0.50", "2.00"]
    assert "1.0e-04*" in text and "not finite" in text and "note: told" in text and "picks near" in text and text.count("5120x2560x40960") == 1
    slow = next(line for line in text.splitlines() if line.startswith("slow"))
    assert line.index("1.0e-07*") == slow.index("1.0e-07 ") and not any(each.endswith(" ") for each in text.splitlines())  # digits stand below digits
    back = benching.from_json(json_text(Frontiers("a GPU", {"driver": "1"}, (one,), ("told",)).as_dict()))
    assert benching.as_text(back) == text and back.kept and not replace(back, sizes=(one, judged(ENTRIES, SIZE, ASKED, "slow"))).kept
    broken = Frontiers("a GPU", {}, (judged(entries, (5120, 2560, 40960), ASKED, "half"),))
    assert "inf on" in benching.as_text(broken) == benching.as_text(benching.from_json(json_text(broken.as_dict())))
    flat = json.loads(json_text(Frontiers("a GPU", {}, (one,)).as_dict()))
    assert {name: set(each["beaten_by"]) for each in flat["sizes"][0]["entries"] if (name := each["name"]) in ("fine", F16_THIRD)} == {
        "fine": set(EVERYWHERE), F16_THIRD: set()}
    assert flat["sizes"][0]["contract"]["kept"] and flat["sizes"][0]["entries"][5]["beaten_by"]["uniform"] == "fine"


@pytest.mark.parametrize(("predicted", "measured", "told"), [
    ({"uniform": 3e-7}, 2e-7, "1.50"), ({"uniform": np.inf}, 2e-7, ""), ({"positive": 3e-7}, 2e-7, ""), ({"uniform": 3e-7}, 0.0, ""), ({"uniform": 3e-7}, np.inf, "")])
def test_errors_are_compared_where_both_are_numbers(predicted, measured, told):
    assert benching._ratio(SimpleNamespace(predicted=(1.0, predicted), error={"uniform": measured}.get)) == told


@pytest.fixture(scope="module")
def small():
    """(spec, frontier) of two schemes at a size for the emulator."""
    from gemmgen.solve import frontier as solving

    spec = {"accuracy": {"as": "fp32"}, "target": {"gpu": "a100"}, "problem": {"m": 32, "n": 32, "k": 256}}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(solving, "schemes_for", lambda b, element: [SCHEMES.get(name) for name in ("half", "scaled")])
        return spec, frontier(loads(spec))


def test_promotions_that_another_beats_are_not_run(small):
    _, found = small
    point = next(point for point in found.points if point.scheme == "scaled")
    slower = replace(point, promote=7, seconds=2 * point.seconds)
    better = replace(point, promote=8, seconds=2 * point.seconds, errors={name: value / 2 for name, value in point.errors.items()})
    other = replace(point, scheme="other", promote=9, seconds=3 * point.seconds)
    run = replace(found, points=(point, slower, better, other)).worth_running
    assert [one.promote for one in run] == [point.promote, 8, 9]
    assert {one.scheme for one in found.worth_running} == {"half", "scaled"}


def test_on_the_emulator(small):
    """Errors of real kernels, times as predicted: FP16 alone does not hold the spread, scaled words do, and the contract takes these."""
    spec, found = small
    rng, entries, picked = np.random.default_rng(0), [], "scaled"
    data = {name: tuple(DISTRIBUTIONS[name].draw(rng, shape).astype(np.float32) for shape in ((32, 256), (256, 32))) for name in EVERYWHERE}

    def errors(product, held=dict.fromkeys(EVERYWHERE, 0.0)):
        exact = {name: a.astype(float) @ b.astype(float) for name, (a, b) in data.items() if held[name] < np.inf}
        return {name: float(np.linalg.norm(product(*data[name]) - c) / np.linalg.norm(c)) for name, c in exact.items()}

    for point in {point.scheme: point for point in found.worth_running if point.scheme == "half" or point.meets}.values():
        kernel = road.build({**{key: spec[key] for key in ("target", "problem")}, "split": {"scheme": point.scheme, "promote": point.promote}})
        of = errors(lambda a, b, kernel=kernel: road.multiply(kernel, a, b, device="emulator").c, point.errors)
        entries.append(Entry(point.told, "kernel", (point.seconds,) * 5, of, {}, (point.seconds, point.errors)))
        picked = point.told if point.scheme == "scaled" else picked

    def sequential(a, b):
        sums = np.zeros((32, 32), np.float32)
        for k in range(256):
            sums += a[:, k, None] * b[k]
        return sums

    one = judged([*entries, Entry(SGEMM, "rival", (1e-3,) * 5, errors(sequential), {})], (32, 32, 256), ASKED, picked)
    assert one.verdict.kept, one.verdict.text
    half = next(each for each in one.entries if each.name.startswith("half"))
    assert half.error("spread") == np.inf and 1e-6 < half.error("uniform") < 1e-3 and half.name not in one.verdict.meeting


@pytest.fixture
def gpu(monkeypatch):
    """A race in which everybody takes what its name says."""
    seen = SimpleNamespace(drawn=[], judged=[], races=[], asked=[], types=[], contenders=[], alive=[], steps=[])
    monkeypatch.setattr("gemmgen.run.cuda.why_not", seen.asked.append)
    takes = {SGEMM: 8.0, F16: 1.0, "cublas-int8": 0.5}

    def inputs(size, b, **drawn):
        seen.drawn.append(drawn)
        seen.types.append(b)
        seen.steps.append("inputs")
        return SimpleNamespace(size=size, drawn=drawn)

    def race(contenders, **options):
        seen.races.append(([one.name for one in contenders], options))
        for one in contenders:
            one.seconds = [takes.get(one.name, 2.0)] * 5

    def accuracy(contender):
        seen.judged.append(contender.name)
        return timing.Accuracy(1e-6 if contender.name == SGEMM else 5e-7, 0.0, 1e-8)

    def generated(name, plan, source, binary, inputs):
        if name == "broken":
            raise DeviceError("bench", "the GPU refuses it", got="too many")
        made = timing.Contender(name, lambda index: None, detail="kernel_name")
        seen.contenders.append(weakref.ref(made))
        return made

    def release():
        seen.steps.append("released")
        seen.alive.append(sum(one() is not None for one in seen.contenders))

    for name, value in {
        "Inputs": inputs, "race": race, "versions": lambda: {"driver": "1.2"}, "device_name": lambda: "A GPU", "conditions": dict,
        "release_memory": release, "refusals": nullcontext, "generated": generated, "Reference": lambda inputs: SimpleNamespace(accuracy=accuracy),
        "cublas": lambda name, inputs: timing.Contender(name, lambda index: None, judged=name != "cublas-int8"),
    }.items():
        monkeypatch.setattr(timing, name, value)
    return seen


def candidate(told, spread=1e-7):
    plan = SimpleNamespace(gpu=GPUS.get("h200"), inputs=SimpleNamespace(stored_b=USUAL))
    point = SimpleNamespace(told=told, seconds=1.0, errors={"uniform": 1e-7, "positive": 1e-7, "spread": spread})
    return benching.Candidate(point, SimpleNamespace(plan=plan, source=None, binary=None))


def test_everything_is_judged_on_three_kinds_of_data_and_raced_on_the_last(gpu):
    so_far = []
    field = ([candidate("a, 64"), candidate("half", np.inf), candidate("broken")], ASKED, "a, 64")
    found = benching.run({SIZE: field, (64, 64, 64): field}, against=(SGEMM, F16_THIRD, "cublas-int8/8"), rounds=5, seconds=100, measured=so_far.append)
    assert gpu.drawn[:3] == [{"octaves": 20}, {"low": 0.0, "high": 1.0}, {}]
    assert gpu.judged[:11] == [SGEMM, F16, "a, 64", *[SGEMM, F16, "a, 64", "half"] * 2]  # half does not hold the spread, and integers are not judged
    assert [names for names, _ in gpu.races] == [[SGEMM, F16, "cublas-int8", "a, 64", "half"]] * 2
    assert gpu.races[0][1]["warm_up"] > 0 == gpu.races[1][1]["warm_up"] and 35 < gpu.races[0][1]["seconds"] <= 40
    assert {one.name: one.seconds for one in found.sizes[0].entries} == {
        "cublas-int8": 0.5, F16: 1.0, "a, 64": 2.0, "half": 2.0, F16_THIRD: 3.0, "cublas-int8/8": 4.0, SGEMM: 8.0,
    }
    assert found.kept and found.sizes[0].verdict.meeting == ("a, 64",) and found.sizes[0].verdict.excess["spread"] == 0.5
    assert found.notes == ("broken at 512x256x4096: the GPU refuses it: too many", "broken at 64x64x64: the GPU refuses it: too many")
    assert [len(one.sizes) for one in so_far] == [1, 2]
    assert len(gpu.asked) == 6 and gpu.types == [USUAL] * 6 and (gpu.races[0][1]["rounds"], gpu.races[0][1]["slice_ms"]) == (5, 10.0)
    assert gpu.steps == [*["released", "inputs"] * 3, "released"] * 2 and not any(gpu.alive)  # no contender holds the memory of inputs that are gone
    assert (found.device, found.environment) == ("A GPU", {"driver": "1.2", "power limit": "unknown"})
    own, rival = (next(one for one in found.sizes[0].entries if one.name == name) for name in ("a, 64", SGEMM))
    assert own.predicted == (1.0, field[0][0].point.errors) and rival.predicted is None
    assert own.errors == dict.fromkeys(EVERYWHERE, 5e-7) and own.scaled == dict.fromkeys(EVERYWHERE, 1e-8)
    benching.run({SIZE: field}, against=(SGEMM,), rounds=3, slice_ms=2.0)
    assert (gpu.races[2][1]["rounds"], gpu.races[2][1]["slice_ms"], gpu.races[2][1]["seconds"]) == (3, 2.0, None)


def test_a_picture_has_rivals_as_squares_and_a_line_through_what_no_other_beats(monkeypatch):
    """A kernel that another beats is hollow; an error that is no number has no point."""
    pytest.importorskip("matplotlib")
    from matplotlib.axes import Axes

    drawn, plot = {}, Axes.plot

    def seen(axis, x, y, **look):
        drawn.setdefault(id(axis), []).append((x, y, look.get("marker"), look.get("markerfacecolor"), look["color"]))
        return plot(axis, x, y, **look)

    monkeypatch.setattr(Axes, "plot", seen)
    image = measured_frontier_image(Frontiers("a GPU", {}, (judged(ENTRIES, SIZE, ASKED, "near"),)), ".svg")
    assert image.startswith(b"<?xml") and b"measured" in image
    line, *points = (panels := dict(zip(EVERYWHERE, drawn.values())))["spread"]
    assert line[:2] == ([2e3, 2.09e3, 2.2e3], [9e-7, 5e-7, 1e-7])
    assert points == [(2e3, 9e-7, "o", None, "black"), (2.09e3, 5e-7, "o", None, "black"), (2.2e3, 1e-7, "o", None, "black"),
                      (5e3, 1e-7, "o", "none", "C7"), (8e3, 1e-6, "s", "none", "C3")]
    assert [len(panels[data]) for data in EVERYWHERE] == [7, 7, 6]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"device": "x"}', '{"device": 1, "environment": {}, "notes": [], "sizes": [{"size": [1, 2]}]}'])
def test_what_is_no_frontier_is_refused(tmp_path, capsys, text):
    path = tmp_path / "frontier.json"
    path.write_text(text)
    assert main(["bench", "--plot", str(path)]) == 2
    told = capsys.readouterr().err
    assert "is not what gemmgen bench --frontier wrote" in told and "try" in told


@pytest.mark.parametrize("kept", [True, False])
def test_the_exit_code_says_whether_the_contract_was_kept(gemmgen, monkeypatch, write_spec, kept):
    monkeypatch.setattr("gemmgen.workshop.bench.racers.frontier_racers", lambda *of: ({}, []))
    monkeypatch.setattr(benching, "run", lambda fields, **how: SimpleNamespace(kept=kept, as_dict=lambda: {"kept": kept}))
    assert gemmgen("bench", write_spec(), "--frontier", "--json").code == (0 if kept else 1)


@pytest.mark.parametrize("drawn", [True, False])
def test_a_frontier_is_saved_as_soon_as_it_is_measured_and_then_drawn(gemmgen, monkeypatch, write_spec, tmp_path, drawn):
    found, out = SimpleNamespace(kept=True, as_dict=lambda: {"kept": True}), tmp_path / "out"

    def run(fields, *, measured, **how):
        assert not [*out.iterdir()]
        measured(found)
        assert {path.name: path.read_text() for path in out.iterdir()} == {"frontier.json": '{\n  "kept": true\n}\n', "frontier.txt": "a table\n"}
        return found

    def draw(one, suffix):
        if not drawn:
            raise DeviceError("matplotlib", "is not installed")
        return f"a picture {suffix}".encode()

    monkeypatch.setattr("gemmgen.workshop.bench.racers.frontier_racers", lambda *of: ({}, []))
    monkeypatch.setattr(benching, "run", run)
    monkeypatch.setattr(benching, "as_text", lambda one: "a table")
    monkeypatch.setattr("gemmgen.workshop.bench.plots.measured_frontier_image", draw)
    done = gemmgen("bench", write_spec(), "--frontier", "--out", str(out))
    assert done.code == 0 and done.out == "a table\n" and ("frontier.svg: not drawn: is not installed" in done.err) != drawn
    assert {path.name for path in out.iterdir()} == {"frontier.json", "frontier.txt", *["frontier.svg"] * drawn}


def test_one_spec_at_a_time(capsys):
    assert main(["bench", "specs/kernels/hopper.toml", "specs/kernels/half_a100.toml", "--frontier"]) == 2
    assert "one SPEC" in capsys.readouterr().err


def test_what_runs_is_what_a_row_is_told_of_and_one_row_is_the_contracts(tmp_path, monkeypatch):
    jobs = []
    monkeypatch.setattr("gemmgen.workshop.bench.racers._built", lambda loaded, progress: jobs.extend(loaded) or [SimpleNamespace(refused=())] * len(loaded))
    for where in ("frontier", "request"):
        monkeypatch.setattr(f"gemmgen.solve.{where}.schemes_for", lambda b, element: [SCHEMES.get("scaled")])
    spec = tmp_path / "spec.toml"
    text = '''[accuracy]
as = "fp32"
[fragment]
policy = "wgmma"
[tile]
block = [128, 128, 64]
warp = [64, 128, 64]
cluster = 1
[pipeline]
stages = 3
[target]
gpu = "h200"
'''
    spec.write_text(text)
    fields, _ = frontier_racers(spec, [(4096, 4096, 4096)], Progress("bench", quiet=True))
    [(candidates, _, picked)] = fields.values()
    plans = [road.plan(one) for one in jobs]
    assert [(plan.scheme.name, plan.promote, plan.sums) for plan in plans] == [(one.point.scheme, one.point.promote, one.point.sums) for one in candidates]
    assert {plan.sums for plan in plans} == {"plain", "compensated"}
    assert [one.point.told for one in candidates].count(picked) == 1
    choice = road.plan(solved_for(road.load(spec), (4096, 4096, 4096)))
    assert [(one.point.scheme, one.point.promote, one.point.sums) for one in candidates if one.point.told == picked] == [
        (choice.scheme.name, choice.promote, choice.sums)]


def test_an_interval_is_worth_running_unless_another_of_its_scheme_is_as_good_in_all():
    """Slower and better on one kind of data alone is worth it; slower and as good is not, nor is a slower one of which another scheme says nothing."""
    def point(scheme, promote, seconds, **errors):
        return Point(scheme, promote, "mma", errors, 1.0, 1.0, seconds, 1.0)

    fast, mixed, slow, other = (point("scaled", 0, 1.0, a=1.0, b=9.0), point("scaled", 64, 2.0, a=2.0, b=1.0), point("scaled", 32, 3.0, a=2.0, b=1.0),
                                point("ootomo", 0, 9.0, a=9.0, b=9.0))
    assert Frontier.worth_running.fget(SimpleNamespace(points=(fast, mixed, slow, other))) == (fast, mixed, other)


def test_a_design_that_has_no_choice_of_sums_is_not_asked_for_one(tmp_path, monkeypatch):
    jobs = []
    monkeypatch.setattr("gemmgen.workshop.bench.racers._built", lambda loaded, progress: jobs.extend(loaded) or [SimpleNamespace(refused=())] * len(loaded))
    for where in ("frontier", "request"):
        monkeypatch.setattr(f"gemmgen.solve.{where}.schemes_for", lambda b, element: [SCHEMES.get("residues8")])
    spec = tmp_path / "spec.toml"
    spec.write_text('[target]\ngpu = "h200"\n')  # which asks for no error, and is held to FP32's
    frontier_racers(spec, [(4096, 4096, 4096)], Progress("bench", quiet=True))
    assert {road.plan(one).scheme.name for one in jobs} == {"residues8"}
    jobs.clear()
    monkeypatch.setattr("gemmgen.solve.frontier.Frontier.worth_running", ())
    [(candidates, asked, picked)] = frontier_racers(spec, [(4096, 4096, 4096)], Progress("bench", quiet=True))[0].values()
    assert len(jobs) == len(candidates) == 1 and picked == candidates[0].point.told and asked.asked == "fp32"  # the choice runs in any case
