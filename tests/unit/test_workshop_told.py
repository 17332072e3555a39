"""What programs of the workshop tell and take, by numbers counted by hand: the verbs' texts, the tuner's sizes, a report's rows, processes of a bring-up."""

from __future__ import annotations

import json
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from types import SimpleNamespace
from uuid import UUID

import numpy as np
import pytest

from gemmgen.errors import EXIT_OK, EXIT_USAGE, BuildError, InfeasibleSpec, SpecError
from gemmgen.workshop.apps import problem as apps
from gemmgen.workshop.apps.race import Outcome
from gemmgen.workshop.apps.race import Row as AppRow
from gemmgen.workshop.bench import SGEMM, BatchRow, Row, Table, measure, worst_cells
from gemmgen.workshop.bench.measured_frontier import Verdict
from gemmgen.workshop.bench.plots import _ratios
from gemmgen.workshop.bench.statistics import best_rivals
from gemmgen.workshop.bringup import kernels, processes
from gemmgen.workshop.explore import report, running, workers
from gemmgen.workshop.explore.store.questions import questions
from gemmgen.workshop.explore.trial_row import Row as TrialRow
from gemmgen.workshop.explore.trial_row import row_from
from gemmgen.workshop.programs.program import Gemm
from gemmgen.workshop.tune import engine, precisions, told
from gemmgen.workshop.tune.walk import Found, Question, Walk
from gemmgen.workshop.verbs import apps as app_verb
from gemmgen.workshop.verbs import bench as bench_verb
from gemmgen.workshop.verbs import explore, results
from gemmgen.workshop.verbs import report as report_verb
from gemmgen.workshop.verbs import tune as tune_verb


def words(text: str) -> list[str]:
    """Of each line its words, one blank between them."""
    return [" ".join(line.split()) for line in text.splitlines()]


# ---------------------------------------------------------------- explore


def refused(problem, told, why):
    return SimpleNamespace(combination=SimpleNamespace(problem=SimpleNamespace(told=problem), told=told, listed={}), error=InfeasibleSpec("a place", why))


class Space(SimpleNamespace):
    def __len__(self):
        return 1200


def test_a_space_is_told_by_its_counts():
    head = SimpleNamespace(title="a title", emulate=False, compile=True)
    space = Space(
        study=SimpleNamespace(name="mine", head=head, strategy="model"), problems=[1, 2], combinations=[1, 2, 3], count=5000, seconds_taken=1.234,
        rejected=Counter({"small": 800, "large": 3000}),
        refused=[refused("p1", "x", "no kernel"), refused("p2", "", "no kernel"), refused("p3", "", "no kernel"), refused("p4", "", "no kernel"),
                 refused("p5", "y", "no words")],
    )
    estimate = {"trials": 1000, "left": 990, "seconds": 120.0, "timed": ["h200", "a100"], "measured": True}
    lines = words(explore.space_text(space, estimate, {}, "model"))
    assert lines == [
        "study mine: a title", "space 2 of GPU, size and layout, 3 with all choices of listed values",
        "candidates 5,000; the model rejects 3,800; 1,200 remain, ranked in 1.23 s",
        "trials 1,000 by strategy model, timed on h200, a100; 990 to do, about 2 min (by the stored trials)", "",
        "rejected", "3,000 large", "800 small", "", "combinations that no kernel serves", "4 no kernel: p1, x; p2; p3 ...", "1 no words: p5, y",
    ]
    head.title, head.emulate, space.refused = "", True, space.refused[:3]
    lines = words(explore.space_text(space, estimate | {"timed": [], "measured": False}, {}, "model"))
    assert lines[0] == "study mine" and "judged on the emulator, not timed;" in lines[3] and lines[3].endswith("(a guess: nothing is stored yet)")
    assert lines[-1] == "3 no kernel: p1, x; p2; p3"
    head.emulate, space.rejected, space.refused = False, Counter(), []
    lines = words(explore.space_text(space, estimate | {"timed": []}, {}, "model"))
    assert len(lines) == 4 and "compiled, not timed;" in lines[3]
    head.compile, space.refused = False, [refused("p1", "x", "no kernel"), refused("p2", "", "no words")]
    left = {"half": "its error", "x": "no kernel", **{f"s{at}": "slow" for at in range(6)}}
    lines = words(explore.space_text(space, estimate | {"timed": []}, left, "cover"))
    assert "by strategy cover, not compiled;" in lines[3] and lines[4] == "left out half (its error); x (no kernel); s0, s1, s2, s3 and 2 more (slow)"
    assert lines[5:] == ["", "combinations that no kernel serves", "1 no words: p2"], "what was left out is said once"


def test_regret_is_plain_data():
    found = SimpleNamespace(counts=(1, 4), problems=2, rows=30, largest=20, best="model", table={"model": (0.5, 0.25)})
    assert results.regret_dict(found) == {"counts": [1, 4], "problems": 2, "rows": 30, "largest": 20, "best": "model", "regret": {"model": [0.5, 0.25]}}


def test_a_line_is_told_at_most_so_often(monkeypatch):
    now, said = [100.0], []
    monkeypatch.setattr(explore.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(explore, "tell", said.append)
    monkeypatch.setattr(explore, "_state", str)
    monkeypatch.setattr(explore.sys, "stderr", SimpleNamespace(isatty=lambda: False))
    with explore.showing(False, "mine") as shown:
        for at in (0, explore.EACH_LINE - 1, explore.EACH_LINE, explore.EACH_LINE + 1, 2 * explore.EACH_LINE - 1, 2 * explore.EACH_LINE):
            now[0] = 100.0 + at
            shown(at)
    assert said == [f"mine: {explore.EACH_LINE}", f"mine: {2 * explore.EACH_LINE}"]
    with explore.showing(True, "mine") as shown:
        now[0] = 1e9
        shown(0)
    assert len(said) == 2


def trial(at, seconds, error, kind="kernel", scheme="ootomo", kernel="k", m=64):
    return TrialRow(study="s", trial=str(at), kind=kind, verdict="timed", kernel=kernel, gpu="a100", m=m, n=64, k=64, layout="nn", seconds=seconds, error=error,
                    scheme=scheme)


def test_a_report_keeps_frontiers_and_draws_the_rest_once():
    rows = [trial(at, 10.0 + at, 1.0) for at in range(40)]
    rows[17] = trial(17, 30.0, 0.1)  # slow and accurate
    rows[23] = trial(23, 60.0, 0.1)  # as accurate, and slower
    rows[30] = trial(30, 1e3, None, kind="rival", scheme="", kernel="sgemm")
    rows[31] = trial(31, 9e2, None, kind="rival", scheme="", kernel="sgemm")
    rows[35] = trial(35, 500.0, 5.0, scheme="half")
    for most in (4, 12, 39):
        kept = [int(row.trial) for row in report.thinned(rows, 1, most)]
        assert kept == sorted(set(kept)) and len(kept) == most and {0, 17, 31, 35} <= {*kept}
    assert report.thinned(rows, 1, 40) == rows and report.thinned(rows, 1, 12) != report.thinned(rows, 2, 12)
    assert [int(row.trial) for row in report.thinned(rows, 1, 2)] == [0, 35]


def test_a_reports_scheme_has_the_least_error_of_its_right_kernels():
    rows = [trial(at, 1.0, error) for at, error in enumerate((3e-7, 1e-7, None, 2e-7))]
    rows += [replace(trial(4, 1.0, 1e-9), verdict="wrong"), trial(5, 1.0, 1e-9, kind="rival"), trial(6, 1.0, None, scheme="half")]
    assert [one[:5] for one in report._schemes(rows)] == [["a100", "ootomo", 5, 4, 1e-7], ["a100", "half", 1, 1, None]]


def test_a_reports_kernel_is_told_with_its_largest_error(monkeypatch):
    """Of the sizes where it is its scheme's fastest."""
    monkeypatch.setattr(report, "_text", lambda row: (f"text at {row.m}", "", []))
    rows = [trial(at, 1e-6, error, m=m) for at, (m, error) in enumerate([(512, 2e-7), (64, 3e-7), (128, 1e-7)])]
    rows += [trial(3, 2e-6, 9e-7, m=64, kernel="slower"), trial(4, 1e-6, None, m=256), trial(5, 1e-6, 1.0, kind="rival", m=64)]
    [one], _ = report._kernels(rows, rows, None)
    assert one["told"] == "ootomo, 0.524 to 4.19 TFLOP/s, error 3.0e-07" and one["text"] == "text at 64"
    assert one["where"].startswith("Fastest of ootomo at 64") and one["name"] == "k"


def test_a_studys_reference_is_a_spec_by_name_or_file(tmp_path):
    problem = SimpleNamespace(layout="tn", size=(48, 32, 16), gpu="h200")
    study = SimpleNamespace(head=SimpleNamespace(reference="mine.toml"), folder=tmp_path, place="study.toml")
    with pytest.raises(SpecError, match="is no spec that is there"):
        running.reference_spec(study, problem)
    (tmp_path / "mine.toml").write_text('[split]\nscheme = "half"\n[target]\ngpu = "a100"\n[problem]\nm = 7\nlayout = "nn"\n')
    found = running.reference_spec(study, problem)
    assert found["problem"] == {"layout": "tn", "m": 48, "n": 32, "k": 16} and found["target"] == {"gpu": "h200"} and found["split"]["scheme"] == "half"
    name = next((running.SPECS / "kernels").glob("*.toml")).stem
    study.head.reference = name
    assert running.reference_spec(study, problem)["problem"]["k"] == 16


def test_the_compiler_and_the_commit_of_a_row(monkeypatch):
    import subprocess

    monkeypatch.setattr("gemmgen.build.find_clang", lambda: SimpleNamespace(name="a clang"))
    monkeypatch.setattr("gemmgen.build.find_compiler", lambda: SimpleNamespace(name="an NVRTC"))
    assert [running.compiler_name(arch) for arch in ("gfx942", "sm_80", "")] == ["a clang", "an NVRTC", ""]
    monkeypatch.setattr("gemmgen.build.find_compiler", lambda: (_ for _ in ()).throw(BuildError("nvrtc", "is not there")))
    assert running.compiler_name("sm_80") == ""
    monkeypatch.setattr(subprocess, "run", lambda command, **how: SimpleNamespace(stdout="0123456789ab\n"))
    assert running.commit() == "0123456789ab"
    for error in (OSError(), subprocess.CalledProcessError(128, "git")):
        monkeypatch.setattr(subprocess, "run", lambda command, error=error, **how: (_ for _ in ()).throw(error))
        assert running.commit() == ""


# ---------------------------------------------------------------- choose, learn, report, transform


def test_what_was_learnt_is_lines_of_a_row():
    one = SimpleNamespace(rows=12, before=0.25, after=0.125, lean_before=-0.1, lean_after=0.05)
    constant = SimpleNamespace(place=("wgmma", "x"), before=2.0, after=2.5, deviation=0.5)
    found = SimpleNamespace(reason="", gpu=SimpleNamespace(name="h200", title="H200"), rows=100, kernels=8, sizes=20, device="", errors={"fitted": one},
                            constants=[constant], helped=True, lines="x = 1")
    assert words(report_verb.learnt_text(found)) == [
        "# h200: 100 times of 8 kernels at 20 sizes on an H200", "# fitted: 12 rows: mean error 25.0 % before, 12.5 % after; mean -10.0 %, +5.0 %",
        "# value before, and how far the rows leave it open:", "# wgmma.x 2 -> 2.5 +- 50 %", "", "x = 1"]
    found.helped, found.device = False, "a GPU"
    lines = words(report_verb.learnt_text(found))
    assert lines[0].endswith("on an a GPU") and lines[2] == "# the rows that were held out are predicted no better: keep the row as it is" and len(lines) == 7
    found.constants = ()
    assert words(report_verb.learnt_text(found))[2:] == ["# no constants predict these rows better than the row's own"]
    found.reason = "too few rows"
    assert report_verb.learnt_text(found) == "# h200: nothing was fitted: too few rows"


@pytest.mark.parametrize(("ratio", "text"), [(1.0, "0 %"), (1.0123, "1.2 %"), (1.0999, "10 %"), (1.104, "10 %"), (2.5, "150 %")])
def test_a_regret_is_a_percentage(ratio, text):
    assert report_verb._percent(ratio) == text


@pytest.mark.parametrize(("text", "share"), [("0", 0.0), ("0.25", 0.25), ("0.9", 0.9), ("0.91", None), ("-0.1", None), ("nan", None)])
def test_a_share_to_hold_out_leaves_shapes(text, share):
    if share is None:
        with pytest.raises(SpecError, match="no share"):
            report_verb._held_out(text)
    else:
        assert report_verb._held_out(text) == share


def transformed(choice, highest=(0, 0)):
    calls = tuple(SimpleNamespace(ordinal=at, routine="sgemm", m=5 + at, n=6, k=7, layout="nt", batch=1, site=f"s{at}") for at in range(2))
    question = Question([[1e-6, np.inf, 8e-6], [2e-6, 3e-6, 4e-6]], [[1e-5, np.inf, 0.0], [2e-5, 3e-5, 0.0]], 0.0, [[], [0]], 1e-4, lambda one: 0.5 + sum(one))
    levels = ("kernel a", "kernel b", "vendor")

    def seconds(one=None):
        return question.time(one if one is not None else (2, 2))

    found = Found(choice, Walk(highest, choice))
    return SimpleNamespace(calls=calls, levels=levels, question=question, found=found, text=choice and "text", error=1.5e-5, runs=9, seconds=seconds)


def test_a_transformed_program_is_told():
    lines = words(tune_verb.text(transformed((0, 1))))
    assert lines[0] == "program 2 GEMMs, run 9 times" and "0 5x6x7 nt 1e-05 - 0" in lines and "1 6x6x7 nt 2e-05 3e-05 0" in lines
    at = lines.index("call chosen")
    assert [line for line in lines[at + 1 :] if line and "--" not in line] == [
        "0 a", "1 b", "error 1.5e-05 of at most 0.0001", "predicted 4 microseconds of GEMMs, 3 times as fast as the vendor's"]
    refused = words(tune_verb.text(transformed(None, (1, 0))))
    assert refused[-1] == "refused no choice of levels meets 0.0001; the most accurate reaches 1.5"
    value = tune_verb.value(transformed((0, 1)))
    assert (value["seconds"], value["vendor_seconds"], value["runs"], value["error"]) == (pytest.approx(4e-6), pytest.approx(1.2e-5), 9, 1.5e-5)
    assert [(one["ordinal"], one["m"], one["n"], one["k"], one["level"]) for one in value["calls"]] == [(0, 5, 6, 7, "kernel a"), (1, 6, 6, 7, "kernel b")]
    none = tune_verb.value(transformed(None))
    assert none["seconds"] is None and none["vendor_seconds"] == pytest.approx(1.2e-5) and none["calls"][0]["level"] is None


def test_a_transformed_programs_levels_are_written_where_it_has_a_choice(monkeypatch, tmp_path, capsys):
    made = iter([transformed((0, 1)), transformed(None, (1, 0))])
    monkeypatch.setattr("gemmgen.library.shim.build", lambda library: f"built {library}")
    asked = []
    monkeypatch.setattr("gemmgen.workshop.tune.transformed.transformed", lambda *given, **how: asked.append((given, how)) or next(made))

    def tuned(thresholds=(1e-4,)):
        return tune_verb._transform("lab", ["program", "--x"], "c.npy", thresholds, None, "a, b,", 7, tmp_path / "levels", True, True)

    assert tuned() == EXIT_OK and (tmp_path / "levels").read_text() == "text"
    (tmp_path / "levels").unlink()
    assert tuned() == EXIT_USAGE and not (tmp_path / "levels").exists() and capsys.readouterr().out.count('"runs": 9') == 2
    [(given, how), _] = asked
    assert given == ("built lab", ["program", "--x"], "c.npy", 1e-4) and (how["kernels"], how["period"], how["reference"]) == (["a", "b"], 7, None)
    with pytest.raises(SpecError, match="is one number with --library"):
        tuned((1e-4, 1e-5))


def test_values_of_an_answer_are_plain_in_json_and_short_in_a_table():
    at = datetime(2026, 1, 2, 3, 4, 5, 678)
    values = [Decimal("64.00"), Decimal("1.50"), at, {1: Decimal(2)}, (None, True, b"x"), 1.23456789, None, "two\nlines", UUID(int=5)]
    assert json.dumps([results._plain(one) for one in values]) == (
        '[64, 1.5, "2026-01-02T03:04:05.000678", {"1": 2}, [null, true, "b\'x\'"], 1.23456789, null, "two\\nlines", "00000000-0000-0000-0000-000000000005"]')
    assert [results._cell(one) for one in values[:3] + values[5:8]] == [64, 1.5, "2026-01-02 03:04:05", 1.235, "-", "two lines"]
    store = SimpleNamespace(query=lambda sql: {"rows": [SimpleNamespace(as_py=lambda: count)]})
    for count, name, where, told in (
        (0, "best", "m = 5", "--where m = 5 leaves no trial"), (2, "best", "m = 5", "nothing"), (2, "", "m = 5", "the SQL"), (0, "", "", "the SQL"),
    ):
        found = results._why_empty(store, name, where)
        assert found == questions()["best"].empty if told == "nothing" else found.startswith(told)


def test_a_version_is_a_whole_number_or_the_beginning_of_a_commit():
    """Of one store's versions each is asked for beside others; a row of another program has neither."""
    there = [{"generator": "1.2", "commit": "abcdef0123456789"}, {"generator": "1.3", "commit": None}, {"generator": None, "commit": None}]
    store = SimpleNamespace(query=lambda sql: SimpleNamespace(to_pylist=lambda: there))
    for versions in (("1.2", "1.3"), ("abc", "1.3"), ("1.3", "abcdef0123456789")):
        results._told_apart(store, versions)
    for versions, wrong in ((("1.2", "1"), "1"), (("bcd", "1.3"), "bcd"), (("1.2", ""), "")):
        with pytest.raises(SpecError, match="no trials of") as refusal:
            results._told_apart(store, versions)
        assert (refusal.value.got, refusal.value.has) == (wrong, "1.2 abcdef012345, 1.3, ")


def test_facts_of_an_import_are_names_and_values():
    assert results._facts(["a=1", "b=", "c=x=y"]) == {"a": "1", "b": "", "c": "x=y"}
    for bad in ("a", "=1", ""):
        with pytest.raises(SpecError, match="is not a name and a value"):
            results._facts(["a=1", bad])


@pytest.mark.parametrize(("text", "pair"), [("", (0, 0)), ("30,7", (30, 7)), (" 3, 4", (3, 4)), ("0,0", (0, 0)), ("1", None), ("1,2,3", None), ("-1,2", None),
                                             (f"{bench_verb.MOST_OTHERS},0", (bench_verb.MOST_OTHERS, 0)), (f"0,{bench_verb.MOST_OTHERS + 1}", None)])
def test_others_are_a_pair_of_numbers(text, pair):
    if pair is None:
        with pytest.raises(SpecError, match="pair of numbers"):
            bench_verb._others(text)
    else:
        assert bench_verb._others(text) == pair


# ---------------------------------------------------------------- bench


def batch_row(name, kind, rounds, label="a", flops=10**9):
    return BatchRow("suite", label, 8, (1, 2), None, None, flops, 10**6, name, kind, tuple(rounds), 1e-6, 1e-7)


def test_the_worst_cell_is_that_of_the_least_ratio_against_the_best_rival():
    rows = [batch_row("ours", "kernel", (2.0,) * 3), batch_row("slow", "rival", (6.0,) * 3), batch_row("fast", "rival", (3.0,) * 3),
            batch_row("ours", "kernel", (2.0,) * 3, "b"), batch_row("fast", "rival", (2.5,) * 3, "b"), batch_row("ours", "kernel", (1.0,) * 3, "c"),
            batch_row("fast", "rival", (4.0,) * 3, "c")]
    assert [(kernel.label, rival.name, ratio) for kernel, rival, ratio in best_rivals(rows)] == [("a", "fast", 1.5), ("b", "fast", 1.25), ("c", "fast", 4.0)]
    assert [(one.label, one.rival, one.ratio, one.padding) for one in worst_cells(rows)] == [("b", "fast", 1.25, True), ("b", "fast", 1.25, False)]
    told_ = Table("A GPU", {}, -1.0, 1.0, tuple(rows), ("a note",)).as_dict()
    first = told_["rows"][0]
    assert (first["seconds"], first["gflops"], first["spread"]) == (2.0, 0.5, (2.0, 2.0))
    assert told_["geometric_means"][0]["ratio"] == pytest.approx(3.0) and told_["worst"][0]["label"] == "b"
    products = Table("A GPU", {"driver": "1"}, -1.0, 1.0, (Row((1, 2, 3), "a", "kernel", "", 9, 2.5, (2.0, 3.0), 12.0),)).as_dict()
    assert products["rows"][0]["size"] == (1, 2, 3) and "worst" not in products


def test_ratios_name_the_kernel_where_there_are_several():
    ours, theirs, third = (batch_row(name, kind, (seconds,) * 3) for name, kind, seconds in (("a", "kernel", 2.0), ("b", "kernel", 1.0), ("r", "rival", 4.0)))
    assert _ratios([ours, third]) == {"r": 2.0} and _ratios([ours, theirs, third]) == {"a / r": 2.0, "b / r": 4.0} and _ratios([third]) == {}


def test_a_verdict_in_words():
    one = Verdict("fp32", "mine", {"uniform": 0.5, "spread": 1.0}, ("fastest", "slowest"), (1.05, (1.0, 1.1)))
    assert one.kept and one.text.startswith("contract fp32: picks mine: error over that allowed 0.50 on ") and "1.00 on " in one.text
    assert one.text.endswith("; its time 1.050 (1.000-1.100) of that of fastest, the fastest that gives what is asked: kept")
    assert replace(one, slower=(1.051, (1.0, 1.1))).text.endswith(": NOT KEPT") and not replace(one, excess={"uniform": 1.01}).kept
    none = replace(one, meeting=(), slower=None)
    assert not none.kept and none.text.endswith("; no scheme gives what is asked: NOT KEPT")


@pytest.mark.parametrize("errors", [True, False])
def test_errors_are_computed_where_they_are_asked_for(monkeypatch, errors):
    from contextlib import nullcontext

    from gemmgen import timing

    field = [(kind, SimpleNamespace(name=name, judged=judged, seconds=[2.0, 4.0], detail="", samples=()))
             for kind, name, judged in (("kernel", "ours", True), ("main", "main", True), ("rival", "integers", False), ("rival", SGEMM, True))]
    monkeypatch.setattr(timing, "refusals", nullcontext)
    monkeypatch.setattr(timing, "Inputs", lambda size, low, high, b: (size, low, high, b))
    monkeypatch.setattr(timing, "Reference", lambda inputs: SimpleNamespace(accuracy=lambda one: timing.Accuracy(1.0, 2.0, 3.0)))
    races = []
    monkeypatch.setattr(timing, "race", lambda contenders, **how: races.append(([one.name for one in contenders], how)))
    monkeypatch.setattr(measure, "_contenders", lambda run, size, inputs: field if inputs == (size, -1.0, 2.0, "b") else [])
    run = SimpleNamespace(low=-1.0, high=2.0, b="b", errors=errors, rounds=2, slice_ms=5.0, sensors=None, against=())
    rows = measure._measure(run, (1, 2, 3), lambda: 7.0, 0.5)
    assert [(row.name, row.relative_frobenius) for row in rows] == [("ours", 1.0 if errors else None), ("main", None), ("integers", None),
                                                                  (SGEMM, 1.0 if errors else None)]
    assert races == [(["ours", "main", "integers", SGEMM], {"rounds": 2, "slice_ms": 5.0, "warm_up": 0.5, "seconds": 7.0, "sensors": None})]
    assert rows[0].seconds == 3.0 and rows[0].ratio == 1.0


# ---------------------------------------------------------------- tune and apps


def test_a_gemms_shape_and_spec_have_its_sides_in_their_places():
    assert Gemm("g", 3, 5, 7, "tn").shape == (3, 5, 7, "tn")
    problem = precisions.spec_of("half", (48, 32, 16, "nt"), "a100").spec
    assert (problem.problem.m, problem.problem.n, problem.problem.k, problem.problem.layout, problem.split.scheme) == (48, 32, 16, "nt", "half")


@pytest.mark.parametrize(("text", "found"), [
    ("n=1234567890", {"n": 1234567890}), ("n=12345678901", None), ("n", None), ("n=", None), ("n=-1", None), ("n=\u0663", None),
])
def test_sizes_have_ten_digits_at_most(text, found):
    if found is None:
        with pytest.raises(SpecError, match="is not a name and a number"):
            told.sizes(["m=5", text])
    else:
        assert told.sizes(["m=5", text]) == {"m": 5, **found}


def test_a_races_choices_are_told_once_beside_sgemm():
    def tuned(names, **together):
        return SimpleNamespace(choices={name: (0,) for name in names}, levels_of=lambda choice: {"a": "half", "b": "fp32"}, together=together)

    one = tuned(("chosen", "greedy"), **{"chosen": 2e-6, "greedy": 2e-6, "cublas-sgemm": 5e-6})
    lines = words(told.race_text([one, one]))
    assert lines[-2:] == ["half fp32 2 2.5", "cublas-sgemm 5 1"] and len([line for line in lines if line.startswith("half")]) == 1
    assert told.race_text([tuned(("chosen",))]) == "" == told.race_text([tuned((), **{"cublas-sgemm": 5e-6})])
    assert told.race_text([tuned(("chosen",), chosen=1e-6)]) == ""


def test_a_choices_times_are_told_over_its_own():
    """How many times as fast as all at their most accurate level, as plain FP32 and as cuBLAS."""
    highest, chosen = (1,), (0,)
    tuned = SimpleNamespace(
        question=SimpleNamespace(threshold=1e-3), found=Found(chosen, Walk(highest, chosen), None), program=SimpleNamespace(gemms=[SimpleNamespace(name="g")]),
        choice=chosen, choices={"chosen": chosen, "highest": highest}, levels_of=lambda choice: {"g": ("half", "fp32")[choice[0]]},
        seconds=lambda choice: (2e-6, 8e-6)[choice[0]], error=lambda choice: (1e-4, 1e-7)[choice[0]], fp32_seconds=12e-6, sgemm_seconds=3e-6)
    lines = [line.split() for line in told.tuned_text(tuned).splitlines()]
    [head] = [line for line in lines if "microseconds" in line]
    rows = [line[-6:] for line in lines if line and line[-1] in ("0.0001", "1e-07")]
    assert " ".join(head) == "g microseconds x highest x fp32 x cuBLAS SGEMM error"
    assert rows == [["half", "2", "4", "6", "1.5", "0.0001"], ["fp32", "8", "1", "1.5", "0.375", "1e-07"]]


@pytest.mark.parametrize(("method", "least", "proven"), [("exact", 0.2, True), ("exact", 0.1, False), ("greedy", 0.2, False), ("greedy", 0.1, False)])
def test_a_set_is_called_proven_where_a_programme_proved_it(method, least, proven):
    """A bound that a greedy set reaches is no proof that anybody gave."""
    one = SimpleNamespace(kernels=(0,), cost=0.2, least=least, method=method)
    choice = SimpleNamespace(notes=(), sets={"h200": one}, costs={"h200": SimpleNamespace(rows=[1, 2], shapes=[1])}, verdicts={},
                             table=SimpleNamespace(parts=(), kernels={}))
    text = report_verb.choice_text(choice)
    assert ("proven by an integer programme" in text) == proven and ("no set of so many has less than" in text) != proven


def test_a_stored_row_of_another_version_has_what_this_one_knows():
    row = trial(1, 2.0, None)
    assert row_from({**row.as_dict(), "another": 7}) == row


def test_the_emulator_is_asked_for_products_of_a_size(monkeypatch):
    asked = []
    monkeypatch.setattr("gemmgen.emulate.core.product.product", lambda scheme, unit, a, b, **how: asked.append((a.shape, b.shape, how)) or "C")
    plan = SimpleNamespace(scheme=SimpleNamespace(exact=False), unit=None, promote=64, fragment=SimpleNamespace(shape=(16, 8, 4)),
                           promotion=SimpleNamespace(compensates=False, to_the_end=True))
    a, b = np.zeros((4, 8)), np.zeros((8, 2))
    monkeypatch.setattr(engine, "MOST_EMULATED", 64)
    assert engine.emulated(plan, a, b) == "C" and asked == [((4, 8), (8, 2), {"promote": 64, "fragment_k": 4, "compensated": False, "to_the_end": True})]
    monkeypatch.setattr(engine, "MOST_EMULATED", 63)
    with pytest.raises(SpecError, match="too slow") as refusal:
        engine.emulated(plan, a, b)
    assert refusal.value.got == "a GEMM of 4 x 2 x 8"


def test_what_ran_an_application_is_the_first_that_says_so():
    from gemmgen.workshop.apps.matmul import Matmul
    from gemmgen.workshop.apps.race import _device, _told, told

    kernel = SimpleNamespace(plan=SimpleNamespace(scheme=SimpleNamespace(name="half"), fragment=SimpleNamespace(policy="mma")))
    assert told(SimpleNamespace(kernels=[kernel, kernel])) == ("half by mma",)
    plain, other, last = (SimpleNamespace(device_name=name) for name in (Matmul.device_name, "an emulator", "another"))
    assert _device([plain, other, last], False) == "an emulator" and _device([plain, plain], False) == Matmul.device_name
    problem = SimpleNamespace(run=lambda matmul, inputs: {"c": inputs["a"] + 1}, told=lambda xp, out, inputs: {"c": out["c"], "n": 3})
    told_ = _told(problem, SimpleNamespace(xp=np, host=lambda x: x * 10), {"a": np.ones(2)})
    assert told_["c"].tolist() == [20.0, 20.0] and told_["n"] == 3


def test_a_bench_tells_the_power_limit(monkeypatch):
    from gemmgen import timing

    monkeypatch.setattr(timing, "versions", lambda: {"driver": "1"})
    for told_, limit in (({"power.limit": "700 W"}, "700 W"), ({}, "unknown")):
        monkeypatch.setattr(timing, "conditions", lambda told_=told_: told_)
        assert measure.environment() == {"driver": "1", "power limit": limit}


def test_stored_decisions_are_numbers_and_words():
    from gemmgen.workshop.explore import regret

    decided = {"block": [64, 32], "stages": 3, "loads": "bulk", "where": "lane", "none": None}
    assert regret._numbers(decided) == {"block0": 64.0, "block1": 32.0, "stages0": 3.0} and regret._words(decided) == ("loads=bulk", "where=lane")
    rows = [replace(trial(at, 1.0, None), decided=text, predicted_seconds=seconds, predicted_error=error) for at, (text, seconds, error) in enumerate((
        ('{"stages": 3, "where": "lane"}', 2.0, 0.5), ('{"stages": 2, "group": 4, "where": "lane"}', None, None), ('{"where": "shared"}', 1.0, 0.25)))]
    pool = regret.pool_of(rows)
    assert pool.names == ("group0", "stages0") and pool.features(np.array([1, 0, 2])).tolist() == [[4, 2], [0, 3], [0, 0]]
    assert pool.order.tolist() == [2, 0, 1] and pool.seconds.tolist() == [2.0, np.inf, 1.0] and pool.error.tolist() == [0.5, np.inf, 0.25]
    assert pool.way.tolist() == [0, 0, 1] and len(pool) == 3


@pytest.mark.parametrize(("text", "most", "shown"), [
    ("plain", 5, "plain"), ("plain text", 5, "plain…"), ("a\tb", 9, "a b"), ("a\x1bb\n", 9, "a b "), ("ä", 9, "ä"), ("a\ud800", 9, "a "), (12.5, 9, "12.5"),
])
def test_a_page_shows_no_control_characters(text, most, shown):
    assert report._clean(text, most) == shown


def test_a_question_that_takes_too_much_tells_the_limit_in_mib():
    from gemmgen.workshop.explore.store import Store

    error = Store._too_much(SimpleNamespace(memory=3 << 20), "SELECT 1")
    assert error.problem == "takes more than 3 MiB of memory" and error.got == "SELECT 1" and error.needs.endswith("fit into 3 MiB")


def test_batches_and_products_have_plots_of_their_own(monkeypatch, tmp_path):
    from gemmgen.workshop.bench import plots

    pytest.importorskip("matplotlib")
    drawn = []
    monkeypatch.setattr(plots, "_draw_cells", lambda device, rows, of, title, path, **how: drawn.append((path.name, len(rows), how)) or path)
    monkeypatch.setattr(plots, "_draw_speed", lambda device, rows, looks, path: path)
    monkeypatch.setattr(plots, "_draw_errors", lambda device, rows, looks, path: path)
    both = [batch_row("a", "kernel", (2.0,)), batch_row("r", "rival", (4.0,)), replace(batch_row("r", "rival", (4.0,)), suite="other")]
    assert [path.name for path in plots._plot_batches("A GPU", both, tmp_path)] == [
        "ratio-suite.png", "latency-suite.png", "gflops-suite.png", "latency-other.png", "gflops-other.png"]
    assert drawn[0] == ("ratio-suite.png", 2, {"level": 1.0}) and drawn[3] == ("latency-other.png", 1, {})
    assert plots._of(lambda row: row.seconds)(both[:2]) == {"a": 2.0, "r": 4.0}


def test_ranges_of_a_suite_are_panels_over_the_batch_and_other_cells_stand_side_by_side(monkeypatch, tmp_path):
    """Three ranges of two inner extents are two panels by two, of which the last stays empty."""
    from gemmgen.workshop.bench import plots

    pytest.importorskip("matplotlib")
    figures = []
    monkeypatch.setattr(plots, "saved", lambda figure, path: figures.append(figure) or path)

    def rows(labels, batches):
        return [replace(batch_row(name, kind, (seconds * batch,)), label=label, batch=batch, max_mn=most and most[0], max_k=most and most[1])
                for label, most in labels.items() for batch in batches for name, kind, seconds in (("a", "kernel", 2.0), ("r", "rival", 4.0))]

    seconds = plots._of(lambda row: row.seconds)
    ranges = {"small": (64, 32), "deep": (64, 256), "wide": (128, 32)}
    assert plots._draw_cells("A GPU", rows(ranges, (8, 2)), seconds, "s", tmp_path / "x.png", level=1.0) == tmp_path / "x.png"
    [figure] = figures
    assert [axis.get_visible() for axis in figure.axes] == [True, True, True, False] and figure.axes[1].get_subplotspec().colspan.start == 1
    assert [axis.get_title() for axis in figure.axes[:3]] == ["M, N to 64, K to 32", "M, N to 64, K to 256", "M, N to 128, K to 32"]
    for axis in figure.axes[:3]:
        assert [(*map(list, line.get_data()), line.get_linestyle(), line.get_linewidth()) for line in axis.lines[:2]] == [
            ([2, 8], [4.0, 16.0], "-", 2.2), ([2, 8], [8.0, 32.0], "-", 1.1)]
        assert list(axis.lines[2].get_ydata()) == [1.0, 1.0] and [tick.get_text() for tick in axis.get_xticklabels()] == ["2", "8"]
        assert axis.get_xscale() == axis.get_yscale() == "log" and axis.lines[0].get_color() != axis.lines[1].get_color()
    assert [axis.get_ylabel() for axis in figure.axes] == ["s", "", "s", ""] and figure.get_suptitle() == "A GPU"
    plots._draw_cells("A GPU", rows({"one": None, "two": None}, (3,)), seconds, "s", tmp_path / "y.png")
    [axis] = figures[1].axes
    assert [(*map(list, line.get_data()), line.get_linestyle()) for line in axis.lines] == [([0, 1], [6.0, 6.0], "None"), ([0, 1], [12.0, 12.0], "None")]
    assert [tick.get_text() for tick in axis.get_xticklabels()] == ["one x 3", "two x 3"] and axis.get_xscale() == "linear"


def test_ctrl_c_is_put_off_in_the_main_thread_alone():
    """No other thread may set a signal's handler."""
    def seen():
        with workers._ctrl_c_for_us():
            return signal.getsignal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with ThreadPoolExecutor(1) as pool:
        assert seen() is signal.SIG_IGN and pool.submit(seen).result(60) is before is signal.getsignal(signal.SIGINT)


def test_a_process_that_has_ended_has_no_number():
    from gemmgen.workshop.explore.child import Child

    child, ended = Child(), []
    assert child.pid is None
    child._process = SimpleNamespace(pid=7, poll=lambda: ended[0] if ended else None)
    assert child.pid == 7
    ended.append(0)
    assert child.pid is None
    done = []
    child._process = SimpleNamespace(kill=lambda: done.append("killed"), wait=lambda: done.append("waited"))
    child._line = SimpleNamespace(close=lambda: done.append("closed"))
    child.stop()
    child.stop()
    assert done == ["killed", "waited", "closed"] and child.pid is None


def test_others_products_lie_at_the_cube_root_of_their_sides(monkeypatch, tmp_path):
    from contextlib import nullcontext

    from gemmgen.workshop.bench import plots

    pytest.importorskip("matplotlib")
    drawn = []
    axis = SimpleNamespace(plot=lambda x, y, **look: drawn.append((x, y, look)), set=lambda **how: None, set_xlabel=lambda text: None, grid=lambda **how: None,
                           set_xticks=lambda *ticks, **how: drawn.append(ticks), legend=lambda **how: None)
    monkeypatch.setattr("matplotlib.pyplot.subplots", lambda **how: (nullcontext(), axis))
    monkeypatch.setattr(plots, "saved", lambda figure, path: path)
    rows = [Row(size, "a", "kernel", "", 9, 1.0, (1.0, 1.0), tflops) for size, tflops in (((64,) * 3, 5.0), ((8, 1, 1), 3.0), ((32,) * 3, 4.0))]
    assert plots._draw_speed("A GPU", rows, {"a": plots._look("a", 0, "kernel")}, tmp_path) == tmp_path
    (square, speeds, look), (other, others, loose), ticks, none = drawn
    assert (square, speeds, look["linestyle"], look["label"]) == ([32, 64], [4.0, 5.0], "-", "a") and ticks == ([32, 64], ["32", "64"]) and none == ([],)
    assert (other, others, loose["linestyle"], loose["markerfacecolor"]) == ([2.0], [3.0], "none", "none") and loose["color"] == look["color"]
    assert plots._look("cublas-sgemm", 3, "rival")["color"] == "black" and plots._look("b", 13, "derived") == {
        "color": "C3", "linestyle": "--", "linewidth": 1.1, "marker": "s", "markersize": 4}


def test_an_error_is_relative_to_what_is_exact():
    assert apps.relative(np.array([3.0, 0.0]), np.array([2.0, 0.0])) == 0.5 and apps.relative(np.array([2.0, 0.0]), np.array([4.0, 0.0])) == 0.5


@pytest.mark.parametrize(("value", "text"), [
    (12345.678901234, "12345.6789"), (-10.0, "-10"), (9.87654, "9.877"), (0.01, "0.01"), (0.00999, "9.99e-03"), (7, "7"), ("-", "-"),
])
def test_a_figure_has_its_digits(value, text):
    assert app_verb.shown(value) == text


def test_an_applications_table_by_hand():
    from gemmgen.workshop.apps.matmul import Shape

    app = SimpleNamespace(name="lu", title="a title", papers="a paper", figures={"error": "how far", "unused": "not there"})
    rows = (AppRow("vendor", 4e-3, 3e-3, {"error": 1e-7}), AppRow("ours", 2e-3, 1.5e-3, {"error": 2e-6}, ("half by mma", "scaled by wgmma")))
    calls = {Shape(side, side, side, "nn"): times for side, times in ((8, 1), (16, 1), (4, 100), (2, 1), (1, 1), (32, 2))}
    outcome = Outcome(app, "A GPU", {"n": 64, "steps": 3}, "drawn", rows, {"other": {"error": 3e-5}}, calls, ("a note",), {"one": "half"})
    text = app_verb.text(outcome)
    lines = words(text)
    assert "products 2 of 32x32x32 nn, 100 of 4x4x4 nn, 1 of 16x16x16 nn, 1 of 8x8x8 nn and 2 other sizes" in lines
    assert {"sizes n 64, steps 3", "data drawn", "device A GPU", "kernels ours: half by mma, scaled by wgmma", "levels one half"} <= {*lines}
    assert {"vendor 4 3 1 1.00e-07", "ours 2 1.5 2 2.00e-06", "other - - - 3.00e-05"} <= {*lines} and text.endswith("\n\nerror: how far\na note")
    value = outcome.as_dict()
    assert value["products"][0] == {**Shape(8, 8, 8, "nn")._asdict(), "times": 1} and value["rows"][1]["seconds"] == 2e-3 and value["levels"] == {"one": "half"}
    few = dict(list(calls.items())[:4])
    untimed = replace(outcome, rows=tuple(replace(row, seconds=None, products=None) for row in rows), levels=None, beside={}, calls=few)
    lines = words(app_verb.text(untimed))
    assert "vendor 1.00e-07" in lines and not any("other sizes" in line for line in lines) and untimed.as_dict()["levels"] is None


# ---------------------------------------------------------------- processes of a bring-up


def test_processes_answer_in_order_and_the_gpu_has_one_of_its_own(monkeypatch):
    made, stopped = [], []

    class Fake:
        def __init__(self, environment=None):
            self.environment = environment
            made.append(self)

        def stop(self):
            stopped.append(self)

    monkeypatch.setattr(processes, "Child", Fake)
    monkeypatch.setattr(processes, "answered", lambda child, target, args, seconds: ("value", (child.environment, target, args, seconds)))
    with processes.Processes(2) as pool:
        assert [one.environment and one.environment["CUDA_VISIBLE_DEVICES"] for one in made] == ["", "", None]
        assert pool.begin("m:f", 1, 2, seconds=3.0).result()[1][1:] == ("m:f", (1, 2), 3.0)
        assert [answer[1][2] for answer in pool.all("m:g", [(at, "x") for at in range(7)])] == [(at, "x") for at in range(7)]
        assert pool.on_gpu("m:h", 5) == ("value", (None, "m:h", (5,), processes.STAGE_SECONDS))
    assert set(map(id, stopped)) == set(map(id, made)) and len(stopped) == 3
    for cores, count in ((1, 1), (2, 1), (9, 8)):
        monkeypatch.setattr(processes.os, "sched_getaffinity", lambda pid, cores=cores: set(range(cores)))
        with processes.Processes() as pool:
            assert pool.count == count


def test_a_chosen_kernel_is_verified_in_words(monkeypatch):
    from gemmgen import road

    checks = [SimpleNamespace(name="edges", passed=True, detail="fine"), SimpleNamespace(name="bits", passed=False, detail="7 differ")]
    report_ = SimpleNamespace(checks=checks, passed=False, errors=None, unverified="nothing ran")
    monkeypatch.setattr(road, "verify", lambda spec, device: report_ if device == "emulator" else None)
    assert kernels.verified({}, "emulator") == (False, "bits: 7 differ")
    report_.checks = checks[:1]
    assert kernels.verified({}, "emulator") == (False, "nothing ran")
    report_.passed = True
    assert kernels.verified({}, "emulator") == (True, "1 checks")
    report_.errors = SimpleNamespace(relative_frobenius=2.34e-7)
    assert kernels.verified({}, "emulator") == (True, "1 checks, error 2.3e-07")
