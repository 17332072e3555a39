"""Ready-made questions to a store, worked out by hand, and the verb that asks them."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from datetime import UTC, datetime
from math import exp, log, nan
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

from test_store import parquet_files

from gemmgen.cli import main
from gemmgen.errors import GemmgenError
from gemmgen.workshop.explore.headline import known
from gemmgen.workshop.explore.store import Store, Writer, compact, questions
from gemmgen.workshop.explore.trial_row import Row


def stored(folder, *rows: dict) -> Store:
    """A store of these: timed kernels on an H200 at 64x32x16, unless they say otherwise; each a minute after the one before."""
    given = {"study": "s", "kind": "kernel", "verdict": "timed", "gpu": "h200", "m": 64, "n": 32, "k": 16, "layout": "nn", "scheme": "ootomo"}
    with Writer(folder) as writer:
        for at, one in enumerate(rows):
            writer.add(Row(**{**given, "trial": f"t{at}", "kernel": f"k{at}", "at": datetime(2026, 1, 1, at // 60, at % 60, tzinfo=UTC), **one}))
    return Store(folder)


def answer(store: Store, question: str, *columns: str, **parameters: str) -> list[tuple]:
    return [tuple(one[column] for column in columns) for one in store.answer(question, **parameters).to_pylist()]


def test_the_best_is_the_fastest_that_was_timed_last(tmp_path):
    store = stored(
        tmp_path, {"seconds": 3e-6}, {"seconds": 2e-6, "error": 1e-7, "block": "64x64x32"}, {"seconds": 1e-6, "trial": "again"},
        {"seconds": None, "trial": "again", "verdict": "wrong"}, {"seconds": 1e-9, "kind": "reference"},
        {"seconds": 4e-6, "m": 128}, {"seconds": 5e-6, "layout": "tn"}, {"seconds": 6e-6, "gpu": "a100"},
        {"seconds": 1.0e-6, "kind": "rival", "kernel": "rough", "error": 2.1e-7}, {"seconds": 3.5e-6, "kind": "rival", "kernel": "slow", "error": 1e-9},
        {"seconds": 3e-6, "kind": "rival", "kernel": "fair", "error": 2e-7},
    )
    assert answer(store, "best", "gpu", "layout", "m", "kernel", "kernels", "rival") == [
        ("a100", "nn", 64, "k7", 1, None), ("h200", "nn", 64, "k1", 2, "fair"), ("h200", "nn", 128, "k5", 1, None), ("h200", "tn", 64, "k6", 1, None),
    ]
    [_, one, *_] = store.answer("best").to_pylist()
    assert one["microseconds"] == pytest.approx(2) and one["tflops"] == pytest.approx(2 * 64 * 32 * 16 / 2e-6 / 1e12) and one["block"] == "64x64x32"
    assert one["times_as_fast"] == pytest.approx(1.5) and one["error"] == 1e-7


def test_the_frontier_has_nothing_that_another_beats_in_both(tmp_path):
    store = stored(
        tmp_path, {"seconds": 1e-6, "error": 1e-3}, {"seconds": 2e-6, "error": 1e-3}, {"seconds": 2e-6, "error": 1e-5, "kind": "rival"},
        {"seconds": 2e-6, "error": 1e-4}, {"seconds": 3e-6, "error": 1e-5}, {"seconds": 4e-6, "error": 1e-6}, {"seconds": 9e-6, "error": 1e-2, "m": 8},
        {"seconds": 1e-9, "error": None}, {"seconds": 1e-9, "error": 1e-9, "verdict": "wrong"},
    )
    assert answer(store, "frontier", "m", "kernel", "kind") == [(8, "k6", "kernel"), (64, "k0", "kernel"), (64, "k2", "rival"), (64, "k5", "kernel")]


def test_the_model_against_measurement(tmp_path):
    store = stored(
        tmp_path, {"seconds": 2e-6, "predicted_seconds": 1e-6}, {"seconds": 1e-6, "predicted_seconds": 8e-6},
        {"seconds": 3e-6, "predicted_seconds": 1e-6, "scheme": "half"},
        {"seconds": 1e-6, "predicted_seconds": 1e-9, "kind": "rival"}, {"seconds": 1e-6},
    )
    [half, ootomo] = store.answer("model").to_pylist()
    assert (half["scheme"], half["kernels"], half["spread"]) == ("half", 1, 1) and half["geometric_mean"] == pytest.approx(3)
    assert ootomo["geometric_mean"] == pytest.approx((2 / 8) ** 0.5) and ootomo["worst"] == pytest.approx(1 / 8) and ootomo["of_kernel"] == "k1 64x32x16"
    assert ootomo["spread"] == pytest.approx(exp((log(2) - log(1 / 8)) / 2**0.5))


def test_what_the_first_choice_costs(tmp_path):
    store = stored(tmp_path, {"seconds": 4e-6, "predicted_seconds": 1e-6}, {"seconds": 2e-6, "predicted_seconds": 3e-6}, {"seconds": 1e-6})
    assert answer(store, "first-choice", "first_choice", "fastest", "times_the_fastest", "kernels", "times") == [
        ("k0", "k1", 2.0, 2, "measured")]


def test_where_nothing_was_timed_predictions_answer_and_where_some_were_both_do(tmp_path):
    """At m = 64 nothing is timed, at 128 one of two kernels is; refused and wrong kernels are no answer."""
    store = stored(
        tmp_path, {"verdict": "compiled", "predicted_seconds": 2e-6, "predicted_error": 1e-6},
        {"verdict": "right", "predicted_seconds": 3e-6, "predicted_error": 9e-7, "error": 1e-7},
        {"verdict": "modelled", "predicted_seconds": 4e-6, "error": 1e-6},
        {"verdict": "refused", "predicted_seconds": 1e-6, "predicted_error": 1e-9},
        {"m": 128, "seconds": 5e-6, "error": 1e-6, "predicted_seconds": 1e-6, "predicted_error": 1e-9},
        {"m": 128, "verdict": "compiled", "predicted_seconds": 2e-6, "predicted_error": 1e-8},
        {"m": 128, "verdict": "modelled", "seconds": None, "kind": "space", "scheme": "", "predicted_seconds": 1e-9, "predicted_error": 1e-9},
    )
    assert answer(store, "best", "m", "times", "kernel", "error", "kernels") == [
        (64, "predicted", "k0", 1e-6, 3), (128, "measured", "k4", 1e-6, 1), (128, "predicted", "k5", 1e-8, 1)]
    assert answer(store, "frontier", "m", "times", "kernel", "error") == [
        (64, "predicted", "k0", 1e-6), (64, "predicted", "k1", 1e-7), (128, "measured", "k4", 1e-6), (128, "predicted", "k5", 1e-8)]
    assert answer(store, "first-choice", "m", "times", "first_choice", "fastest", "times_the_fastest", "kernels") == [
        (64, "predicted", "k3", "k0", pytest.approx(2.0), 3), (128, "measured", "k4", "k4", 1.0, 1)]
    assert store.query("SELECT DISTINCT scheme FROM latest")["scheme"].to_pylist() == ["ootomo"], "what was rejected before it was tried is no trial"
    assert len(store.rows()) == 7


def test_a_kernel_that_was_timed_has_no_predicted_row(tmp_path):
    store = stored(
        tmp_path, {"identity": "a", "seconds": 5e-6, "predicted_seconds": 1e-6}, {"identity": "a", "verdict": "compiled", "predicted_seconds": 1e-6},
        {"identity": "b", "verdict": "compiled", "predicted_seconds": 2e-6}, {"identity": "a", "verdict": "compiled", "predicted_seconds": 3e-6, "m": 128},
    )
    assert answer(store, "best", "m", "times", "kernel", "kernels") == [(64, "measured", "k0", 1), (64, "predicted", "k2", 1), (128, "predicted", "k3", 1)]


@pytest.mark.parametrize("other", [{"identity": "b"}, {"gpu": "a100"}, {"m": 8}, {"n": 8}, {"k": 8}, {"layout": "tn"}], ids=lambda other: "".join(other))
def test_a_time_elsewhere_leaves_the_predicted_row(tmp_path, other):
    """Of another kernel or GPU, at another size or layout; of what was not timed, or is no kernel; for questions in SQL and for the report."""
    predicted = {"identity": "a", "verdict": "compiled", "predicted_seconds": 2e-6}
    store = stored(tmp_path, {"identity": "a", "seconds": 5e-6, **other}, predicted, {"identity": "a", "verdict": "right", "predicted_seconds": 3e-6, **other})
    expected = [("k0", "measured"), ("k1", "predicted")]
    assert sorted((row["kernel"], row["times"]) for row in store.query("SELECT * FROM known_times").to_pylist()) == expected
    assert sorted((row.kernel, "measured" if row.verdict == "timed" else "predicted") for row in known(store.rows())) == expected


@pytest.mark.parametrize("none", [{"seconds": None}, {"verdict": "wrong"}, {"kind": "rival"}, {"kind": "reference"}], ids=lambda none: "".join(map(str, *none.items())))
def test_what_is_no_time_of_the_kernel_leaves_the_predicted_row(tmp_path, none):
    store = stored(tmp_path, {"identity": "a", "seconds": 5e-6, **none}, {"identity": "a", "verdict": "compiled", "predicted_seconds": 2e-6})
    assert ("k1", "predicted") in [(row["kernel"], row["times"]) for row in store.query("SELECT * FROM known_times").to_pylist()]


def test_of_equal_times_the_smaller_error_and_then_the_name_decides(tmp_path):
    """Predicted times are often equal, and the answer must not change from one question to the next."""
    same = {"verdict": "compiled", "predicted_seconds": 1e-6}
    store = stored(tmp_path, {**same, "kernel": "b", "predicted_error": 1e-7}, {**same, "kernel": "a"}, {**same, "kernel": "c", "predicted_error": 1e-8},
                   {**same, "kernel": "d", "predicted_error": 1e-8}, {"m": 8, **same, "kernel": "z"}, {"m": 8, **same, "kernel": "y"})
    assert answer(store, "best", "m", "kernel") == [(8, "y"), (64, "c")]
    assert answer(store, "first-choice", "m", "first_choice", "fastest") == [(8, "y", "y"), (64, "a", "a")]


def test_the_model_is_held_against_the_compiler_and_the_emulator_where_nothing_was_timed(tmp_path):
    store = stored(
        tmp_path, {"verdict": "compiled", "registers": 100, "predicted_registers": 98}, {"verdict": "compiled", "registers": 90, "predicted_registers": 94},
        {"verdict": "right", "error": 2e-7, "predicted_error": 1e-7},
        {"verdict": "modelled", "scheme": "half", "predicted_registers": 98, "predicted_error": 1e-4},
        {"verdict": "refused", "registers": 255, "predicted_registers": 98},
    )
    [one] = store.answer("model").to_pylist()
    assert (one["scheme"], one["kernels"], one["compiled"], one["registers_off"], one["spread"]) == ("ootomo", 0, 2, 3.0, None)
    assert one["error_ratio"] == pytest.approx(2)


def test_versions_are_compared_by_predictions_where_nothing_was_timed_by_both(tmp_path):
    store = stored(tmp_path, *(
        {"generator": generator, "spec": f"s{at}", "verdict": "compiled", "predicted_seconds": seconds}
        for generator, times in (("1", (1e-6, 2e-6)), ("2", (0.5e-6, 2e-6))) for at, seconds in enumerate(times)))
    [one] = store.answer("changes", before="1", after="2").to_pylist()
    assert {name: one[name] for name in ("times", "candidates", "faster", "slower")} == {"times": "predicted", "candidates": 2, "faster": 1, "slower": 0}
    assert one["ratio"] == pytest.approx(0.5**0.5) and one["best_after"] == pytest.approx(0.5)


@pytest.mark.parametrize("name", [*(name for name in questions() if name not in ("changes", "studies", "verdicts")), "--where", "SQL"])
def test_a_question_that_has_nothing_says_what_would_give_it_something(tmp_path, capsys, name):
    stored(tmp_path, {"verdict": "refused"})
    asked = {"--where": ["--best", "--where", "m = 1"], "SQL": ["select * from trials where m = 1"]}.get(name, [f"--{name}"])
    assert main(["study", "ask", str(tmp_path), *asked]) == 0
    expected = {"--where": "--where m = 1 leaves no trial", "SQL": "the SQL selects none"}.get(name) or questions()[name].empty
    assert f"no row: {expected}" in " ".join(capsys.readouterr().err.split())


def test_what_changed_between_two_versions(tmp_path):
    old, new = {"generator": "1", "commit": "aaa1"}, {"generator": "2", "commit": "bbb1"}
    store = stored(
        tmp_path,
        *({**old, "spec": f"s{at}", "seconds": 1e-6, **more}
          for at, more in enumerate([{}, {}, {}, {"spread": 0.2}, {}, {}, {"verdict": "wrong", "seconds": None}])),
        *({**new, "spec": f"s{at}", **more} for at, more in enumerate([
            {"seconds": 1.02e-6}, {"seconds": 0.5e-6}, {"seconds": 2e-6}, {"seconds": 1.1e-6}, {"verdict": "refused"}, {"verdict": "wrong"},
            {"seconds": 7e-6}])),
        {**new, "spec": "s9", "seconds": 1e-9}, {**new, "spec": "s0", "seconds": 9e-6, "m": 128}, {"generator": "3", "spec": "s0", "seconds": 1e-9},
        {**old, "kind": "rival", "kernel": "r", "spec": "s0", "seconds": 2e-6}, {**new, "kind": "rival", "kernel": "r", "seconds": 1e-6},
    )
    for before, after in (("1", "2"), ("aaa", "bbb")):
        [one] = store.answer("changes", before=before, after=after).to_pylist()
        assert {name: one[name] for name in ("m", "candidates", "faster", "slower", "newly_refused", "newly_wrong", "newly_failing", "newly_right")} == {
            "m": 64, "candidates": 8, "faster": 2, "slower": 1, "newly_refused": 1, "newly_wrong": 1, "newly_failing": 0, "newly_right": 1}
        assert one["best_before"] == pytest.approx(1) and one["best_after"] == pytest.approx(0.5)
        assert one["ratio"] == pytest.approx((1.02 * 0.5 * 2 * 1.1 * 0.5) ** (1 / 5))


def test_how_trials_ended(tmp_path):
    refused = [{"verdict": "refused", "reason": f"C{at}: {at}.5 registers"} for at in range(3)]
    store = stored(tmp_path, {"seconds": 1e-6}, *refused, {"verdict": "refused", "reason": "spills"}, {"verdict": "hung", "gpu": "a100"})
    assert answer(store, "verdicts", "gpu", "verdict", "trials", "share", "of_this_reason", "reason") == [
        ("a100", "hung", 1, 1.0, 1, ""), ("h200", "refused", 4, 0.8, 3, "C#: # registers"), ("h200", "refused", 4, 0.8, 1, "spills"),
        ("h200", "timed", 1, 0.2, 1, ""),
    ]


def test_which_studies_there_are(tmp_path):
    store = stored(tmp_path, {"seconds": 1e-6}, {"verdict": "modelled"}, {"verdict": "died", "m": 1}, {"study": "t", "verdict": "refused"})
    assert answer(store, "studies", "study", "trials", "problems", "timed", "not_timed", "refused", "not_right") == [
        ("s", 3, 2, 1, 1, 0, 1), ("t", 1, 1, 0, 0, 1, 0)]


def drawn_rows(seed: int) -> list[dict]:
    """Rows of several GPUs, layouts, sizes that differ in one extent alone, kinds, verdicts, schemes and compilers; some trials twice, no two times equal."""
    draw, rows = np.random.default_rng(seed), []
    sizes = [(64, 32, 16), (16, 32, 64), (64, 16, 32), (64, 32, 17), (2**21, 2**21, 2**21)]  # the last one's product is 2^63
    for at in range(400):
        m, n, k = sizes[draw.integers(5)]
        one = {
            "gpu": str(draw.choice(["h200", "a100"])), "layout": str(draw.choice(["nn", "tn"])), "m": m, "n": n, "k": k,
            "study": str(draw.choice(["s", "t"])), "scheme": str(draw.choice(["ootomo", "half"])), "generator": str(draw.choice(["1", "2"])),
            "kind": str(draw.choice(["kernel"] * 5 + ["rival"] * 5 + ["reference", "space"])), "compiler": str(draw.choice(["nvrtc 12", "nvrtc 13"])),
            "verdict": str(draw.choice(["timed"] * 6 + ["wrong", "refused", "right", "died", "hung", "failed", "compiled", "modelled"])),
            "trial": f"t{draw.integers(350)}", "kernel": f"k{at}", "block": f"{at}x1x1", "reason": str(draw.choice(["", "C1: 5.5 B", "C22: 6 B", "spills"])),
            "seconds": float(np.exp(draw.normal(-12, 1))), "predicted_seconds": float(np.exp(draw.normal(-12, 1))), "error": float(10 ** draw.uniform(-8, -3)),
        }
        rows.append({**one, **{name: None for name in ("seconds", "predicted_seconds", "error") if draw.random() < 0.1}})
    return rows


@pytest.mark.parametrize("seed", range(2))
def test_questions_have_the_answers_that_python_works_out(tmp_path, seed):
    given = [{**one, "at": datetime(2026, 1, 1, at // 60, at % 60, tzinfo=UTC)} for at, one in enumerate(drawn_rows(seed))]
    store = stored(tmp_path, *given)
    newest = list({one["trial"]: one for one in given if one["kind"] != "space"}.values())  # the last of each trial
    timed = [one for one in newest if one["verdict"] == "timed" and one["seconds"]]
    untimed = [one | {"seconds": one["predicted_seconds"]} for one in newest
               if one["verdict"] in ("right", "compiled", "modelled") and one["kind"] == "kernel" and one["predicted_seconds"]]
    known = [(one | {"times": times}) for times, rows in (("measured", timed), ("predicted", untimed)) for one in rows]

    def by(rows, *names):
        groups: dict[tuple, list[dict]] = {}
        for one in rows:
            groups.setdefault(tuple(one[name] for name in names), []).append(one)
        return groups

    problem = ("gpu", "layout", "m", "n", "k")
    place = lambda one: (one["gpu"], one["layout"], one["m"] * one["n"] * one["k"], one["m"], one["n"], one["k"])  # noqa: E731
    expected = []
    for key, group in by(known, *problem, "times").items():
        kernels = [one for one in group if one["kind"] == "kernel"]
        if kernels:
            best = min(kernels, key=lambda one: one["seconds"])
            rivals = [one for one in group if one["kind"] == "rival" and one["error"] and best["error"] and one["error"] <= 2 * best["error"]]
            rival = min(rivals, key=lambda one: one["seconds"], default={"kernel": None, "seconds": nan})
            flops = 2.0 * best["m"] * best["n"] * best["k"]
            expected.append(((*place(best), best["times"]), best["kernel"], best["scheme"], best["block"], 1e6 * best["seconds"],
                             flops / best["seconds"] / 1e12, best["error"], len(kernels), rival["kernel"], rival["seconds"] / best["seconds"]))
    found = [((*place(one), one["times"]), one["kernel"], one["scheme"], one["block"], one["microseconds"], one["tflops"], one["error"],
              one["kernels"], one["rival"], nan if one["times_as_fast"] is None else one["times_as_fast"]) for one in store.answer("best").to_pylist()]
    assert len(found) > 8 and any(one[8] for one in found)
    assert [one[:4] + one[6:9] for one in found] == [one[:4] + one[6:9] for one in sorted(expected)]
    assert np.allclose([one[4:6] + one[9:] for one in found], [one[4:6] + one[9:] for one in sorted(expected)], rtol=1e-12, equal_nan=True)

    expected = []
    for group in by([one for one in known if one["error"] is not None], *problem, "times").values():
        expected += [((*place(one), one["times"]), one["seconds"], one["kernel"], one["kind"]) for one in group
                     if not any(other["seconds"] < one["seconds"] and other["error"] <= one["error"] for other in group)]
    found = store.answer("frontier").to_pylist()
    assert [((*place(one), one["times"]), one["kernel"], one["kind"]) for one in found] == [(one[0], *one[2:]) for one in sorted(expected)]
    assert np.allclose([one["microseconds"] for one in found], [1e6 * one[1] for one in sorted(expected)], rtol=1e-12)

    predicted = [one for one in timed if one["kind"] == "kernel" and one["predicted_seconds"]]
    expected = []
    for group in by(predicted, *problem).values():
        first, best = min(group, key=lambda one: one["predicted_seconds"]), min(group, key=lambda one: one["seconds"])
        expected.append((place(first), len(group), first["kernel"], best["kernel"], first["seconds"] / best["seconds"], 1e6 * first["seconds"]))
    found = [(place(one), one["kernels"], one["first_choice"], one["fastest"], one["times_the_fastest"], one["microseconds"])
             for one in store.answer("first-choice").to_pylist() if one["times"] == "measured"]
    assert [one[:4] for one in found] == [one[:4] for one in sorted(expected)] and any(one[2] != one[3] for one in found)
    assert np.allclose([one[4:] for one in found], [one[4:] for one in sorted(expected)], rtol=1e-12)

    found = store.answer("model").to_pylist()
    groups = by(predicted, "gpu", "scheme")
    assert [(one["gpu"], one["scheme"]) for one in found] == sorted(groups)
    for one in found:
        group = groups[one["gpu"], one["scheme"]]
        ratios = np.array([row["seconds"] / row["predicted_seconds"] for row in group])
        worst = int(np.abs(np.log(ratios)).argmax())
        assert one["kernels"] == len(group) and one["of_kernel"] == "{kernel} {m}x{n}x{k}".format(**group[worst])
        assert np.allclose([one[name] for name in ("geometric_mean", "spread", "of_5_percent", "of_95_percent", "worst")],
                           [exp(np.log(ratios).mean()), exp(np.log(ratios).std(ddof=1)), *np.quantile(ratios, [0.05, 0.95]), ratios[worst]], rtol=1e-12)

    tried = [one for one in given if one["kind"] != "space"]
    found = store.answer("studies").to_pylist()
    groups = by(tried, "study", "gpu")
    assert [(one["study"], one["gpu"]) for one in found] == sorted(groups)
    for one in found:
        group = groups[one["study"], one["gpu"]]
        count = lambda *verdicts: sum(row["verdict"] in verdicts for row in group)  # noqa: B023, E731
        assert [one[name] for name in ("trials", "problems", "timed", "not_timed", "refused", "not_right", "since", "until", "generators")] == [
            len(group), len(by(group, "m", "n", "k", "layout")), count("timed"), count("right", "compiled", "modelled"), count("refused"),
            count("wrong", "hung", "died", "failed"), min(row["at"] for row in group), max(row["at"] for row in group), "1 2"]

    found = store.answer("verdicts").to_pylist()
    groups, of_gpu = by(tried, "gpu", "verdict"), by(tried, "gpu")
    assert {(one["gpu"], one["verdict"]) for one in found} == set(groups)
    for one in found:
        group = groups[one["gpu"], one["verdict"]]
        known = Counter(re.sub(r"[0-9]+(\.[0-9]+)?", "#", row["reason"]) for row in group)
        assert one["trials"] == len(group) and one["share"] == pytest.approx(len(group) / len(of_gpu[one["gpu"],]))
        assert one["of_this_reason"] == known[one["reason"]]
    assert [(one["gpu"], -one["trials"]) for one in found] == sorted((one["gpu"], -one["trials"]) for one in found)


def test_a_verdict_tells_its_five_most_frequent_reasons(tmp_path):
    store = stored(tmp_path, *({"verdict": "wrong", "reason": "abcdefg"[at]} for at in range(7) for _ in range(at + 1)))
    assert answer(store, "verdicts", "reason", "of_this_reason") == [("g", 7), ("f", 6), ("e", 5), ("d", 4), ("c", 3)]


@pytest.mark.parametrize("name", questions())
def test_every_question_tells_what_it_is_and_answers_of_nothing(tmp_path, name):
    question = questions()[name]
    assert question.tells.endswith(".") and set(question.parameters) == ({"before", "after"} if name == "changes" else set())
    found = stored(tmp_path).answer(name, **dict.fromkeys(question.parameters, "1"))
    assert found.num_rows == 0 and found.column_names


def test_a_question_there_is_not(tmp_path):
    with pytest.raises(GemmgenError, match="unknown question"):
        stored(tmp_path).answer("bets")
    with pytest.raises(GemmgenError, match="needs other parameters"):
        stored(tmp_path).answer("changes", before="1")


def test_the_verb_prints_tables_json_and_csv(gemmgen, tmp_path):
    stored(tmp_path / "s", {"seconds": 3e-6, "kernel": 'a, "b"'}, {"seconds": 2.34567e-6, "m": 128}, {"verdict": "refused", "reason": "two\nlines"})
    ran = gemmgen("study", "ask", tmp_path / "s", "--best")
    assert (ran.code, ran.err) == (0, "") and ran.out.splitlines()[0].split()[:5] == ["gpu", "layout", "m", "n", "k"] and " 2.346 " in ran.out
    [one, other] = json.loads(gemmgen("study", "ask", tmp_path / "s", "--best", "--json").out)
    assert (one["kernel"], other["microseconds"], other["rival"]) == ('a, "b"', pytest.approx(2.34567), None)
    assert "wrote" in gemmgen("study", "ask", tmp_path / "s", "SELECT kernel, seconds, reason FROM trials", "--csv", tmp_path / "x.csv").out
    assert list(csv.reader((tmp_path / "x.csv").open(newline="")))[1:] == [['a, "b"', "3e-06", ""], ["k1", "2.34567e-06", ""], ["k2", "", "two\nlines"]]
    ran = gemmgen("study", "ask", tmp_path / "s", "FROM trials", "--rows", "1")
    assert len(ran.out.splitlines()) == 2 and "2 more rows" in ran.err and gemmgen("study", "ask", tmp_path / "s", "FROM trials", "--rows", "3").err == ""
    assert len(json.loads(gemmgen("study", "ask", tmp_path / "s", "FROM latest", "--json").out)) == 3
    assert json.loads(gemmgen("study", "ask", tmp_path / "s", "--json").out)[0]["trials"] == 3
    assert len(json.loads(gemmgen("study", "ask", tmp_path / "s", "--best", "--where", "m = 128", "--json").out)) == 1
    assert gemmgen("study", "ask", tmp_path / "s", "--best", "--sql").out.strip() == questions()["best"].sql
    sql = "SELECT 1.5::DECIMAL(9,2) a, [1, NULL] b, {'x': 1} c, sum(m) d, \"at\" e FROM trials GROUP BY ALL ORDER BY e LIMIT 1"
    values = json.loads(gemmgen("study", "ask", tmp_path / "s", sql, "--json").out)
    assert values == [{"a": 1.5, "b": [1, None], "c": {"x": 1}, "d": 64, "e": values[0]["e"]}] and values[0]["e"].startswith("2026-01-01T00:")


def test_the_verb_hands_a_question_what_it_is_asked_with(gemmgen, tmp_path, monkeypatch):
    """Versions in their order, of rows without a commit too; the rows of --where for --regret; and with --export-t4 what a merge did."""
    import pyarrow.parquet as parquet

    for generator, seconds in (("1", 4e-6), ("2", 1e-6)):
        row = {"seconds": seconds, "generator": generator, "kernel": "k"}
        stored(tmp_path / "s", row, row | {"m": 128})
    for path in parquet_files(tmp_path / "s"):
        parquet.write_table(parquet.read_table(path).drop_columns(["commit"]), path)
    for versions, ratio in ((("1", "2"), 0.25), (("2", "1"), 4)):
        found = json.loads(gemmgen("study", "ask", tmp_path / "s", "--changes", *versions, "--json").out)
        assert [(one["m"], one["ratio"], one["faster"]) for one in found] == [(64, pytest.approx(ratio), ratio < 1), (128, pytest.approx(ratio), ratio < 1)]
    asked = []
    monkeypatch.setattr("gemmgen.workshop.explore.regret.regret", lambda rows: asked.extend(row.m for row in rows) or 5)
    monkeypatch.setattr("gemmgen.workshop.verbs.results.regret_dict", lambda found: {"found": found})
    assert json.loads(gemmgen("study", "ask", tmp_path / "s", "--regret", "--where", "m > 64", "--json").out) == {"found": 5} and asked == [128, 128]
    done = json.loads(gemmgen("study", "ask", tmp_path / "s", "--merge", "--export-t4", tmp_path / "x.json", "--json").out)
    assert done == {"merged": {"files": 2, "into": 1, "rows": 4}, "exported": 4}
    monkeypatch.setattr(Store, "many_files", lambda self: True)
    assert f"gemmgen study ask {tmp_path / 's'} --merge" in gemmgen("study", "ask", tmp_path / "s", "--best").err


def test_the_verb_merges_and_tells_of_torn_files(gemmgen, tmp_path):
    for _ in range(3):
        stored(tmp_path / "s", {"seconds": 1e-6})
    parquet_files(tmp_path / "s")[0].write_bytes(b"")
    ran = gemmgen("study", "ask", tmp_path / "s", "--merge", "SELECT count(*) FROM trials")
    assert ran.code == 0 and "merged 2 files into 1" in ran.err and ran.err.count("is not whole") == 2 and ran.out.split()[-1] == "2"
    assert len(parquet_files(tmp_path / "s")) == 2


REFUSED = {
    ("nowhere",): "is no store of trials",
    ("s", "SELECT 1", "--best"): "one question at a time",
    ("s", "--best", "--frontier"): "one question at a time",
    ("s", "SELECT 1", "--sql"): "ready-made",
    ("s", "SELEC"): "cannot be answered",
    ("s", "DROP VIEW trials"): "not one SELECT",
    ("s", "--changes", "1", "0.9"): "no trials of",
    ("s", "--where", "x ="): "cannot be answered",
    ("s", "--with", "m=1"): "belongs to --import-t4",
    ("s", "--csv", "no/such/folder/x.csv"): "cannot be written",
    ("s", "--export-t4", "no/such/folder/x.json"): "cannot be written",
    ("s", "--import-t4", "nothing.json"): "cannot be read",
}


@pytest.mark.parametrize("arguments", REFUSED, ids=" ".join)
def test_the_verb_refuses(gemmgen, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    stored(tmp_path / "s", {"seconds": 1e-6, "generator": "1"})
    ran = gemmgen("study", "ask", *arguments, "--json")
    assert ran.code == 2 and ran.err == "" and REFUSED[arguments] in json.loads(ran.out)["problem"] and json.loads(ran.out)["needs"]


@pytest.mark.long
def test_a_million_rows(tmp_path):
    """Of bench/store.py's synthetic ones; answers are worked out again by pyarrow's own grouping."""
    import runpy

    import pyarrow.compute as pc

    bench = runpy.run_path(str(Path(__file__).parents[2] / "bench" / "store.py"))
    bench["filled"](tmp_path / "s", 1_000_000, 900_000, 20_000)
    before = Store(tmp_path / "s").answer("best")
    assert compact(tmp_path / "s").rows == 1_000_000
    store = Store(tmp_path / "s")
    assert store.answer("best").equals(before)
    assert sum({(one["gpu"], one["verdict"]): one["trials"] for one in store.answer("verdicts").to_pylist()}.values()) == 1_000_000
    rows = store.query("SELECT trial, kind, verdict, gpu, layout, m, n, k, seconds, \"at\" FROM trials")
    newest = rows.group_by("trial").aggregate([("at", "max")]).rename_columns({"at_max": "at"})
    timed = rows.join(newest, ["trial", "at"], join_type="inner").filter((pc.field("kind") == "kernel") & (pc.field("verdict") == "timed"))
    problem = ["gpu", "layout", "m", "n", "k"]
    least = timed.group_by(problem).aggregate([("seconds", "min")]).sort_by([(name, "ascending") for name in problem])
    found = before.filter(pc.field("times") == "measured").sort_by([(name, "ascending") for name in problem])
    assert found.num_rows == least.num_rows and found.select(problem).equals(least.select(problem).cast(found.select(problem).schema))
    assert pc.max(pc.abs(pc.subtract(found["microseconds"], pc.multiply(least["seconds_min"], 1e6)))).as_py() < 1e-9
