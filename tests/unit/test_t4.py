"""T4, the common format of auto-tuning results: out, in, and both."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")
jsonschema = pytest.importorskip("jsonschema")

from test_store import numbers, row

from gemmgen import __version__
from gemmgen.errors import GemmgenError
from gemmgen.workshop.explore.store import Store, Writer
from gemmgen.workshop.explore.store.t4 import INVALIDITY, export_file, import_file, t4_rows
from gemmgen.workshop.explore.trial_row import VERDICTS

DATA = Path(__file__).parents[1] / "data" / "t4"
SCHEMA = json.loads((DATA / "results-schema.json").read_text())
FACTS = {"gpu": "a100", "m": "4096", "n": "4096", "k": "4096", "layout": "nn"}


def exported(tmp_path, rows) -> tuple[int, dict]:
    with Writer(tmp_path / "out") as writer:
        for one in rows:
            writer.add(one)
    count = export_file(Store(tmp_path / "out"), tmp_path / "t4.json")
    return count, json.loads((tmp_path / "t4.json").read_text())


def test_every_verdict_is_exported_as_the_schema_says_or_has_no_word_there(tmp_path):
    rows = [row(at, verdict=verdict, seconds=1e-3 if verdict == "timed" else None, compile_seconds=0.5) for at, verdict in enumerate(VERDICTS)]
    count, content = exported(tmp_path, rows)
    assert count == len(INVALIDITY) == len(VERDICTS) - 2
    jsonschema.Draft202012Validator(SCHEMA).validate(content)
    assert {one["invalidity"] for one in content["results"]} == {"correct", "compile", "correctness", "timeout", "runtime"}
    for one in content["results"]:
        assert one["correctness"] == (one["invalidity"] == "correct") and one["times"]["compilation_time"] == 500
    [timed] = [one for one in content["results"] if one["measurements"] and one["measurements"][0]["name"] == "time"]
    assert timed["measurements"][0] == {"name": "time", "value": 1, "unit": "ms"} and timed["times"]["runtimes"] == [1] and timed["objectives"] == ["time"]
    assert content["metadata"] == {"autotuner": "gemmgen", "autotuner_version": __version__, "timeunit": "milliseconds", "device": "h200"}


def test_what_was_exported_comes_back(tmp_path):
    rows = [
        row(1, spec='{"a":1}', scheme="ootomo", block="64x64x32", stages=3, registers=255, error=1.5e-7, rounds=21, spread=0.01, clock_mhz=1980.0,
            generator="1", reason="ü", compile_seconds=0.25, judge_seconds=2.0, kind="reference", split_k=2, device="H200",
            at=datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)),
        row(2, verdict="hung", seconds=None, kind="rival", predicted_seconds=3e-6),
    ]
    exported(tmp_path, rows)
    assert import_file(tmp_path / "t4.json", tmp_path / "in") == 2
    for before, after in zip(Store(tmp_path / "out").rows(), Store(tmp_path / "in").rows()):
        for name, value in before.as_dict().items():
            assert getattr(after, name) == (pytest.approx(value, rel=1e-12) if isinstance(value, float) else value), name


def test_a_file_of_kernel_tuner(tmp_path):
    content = json.loads((DATA / "kernel_tuner.json").read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(content)
    assert import_file(DATA / "kernel_tuner.json", tmp_path, FACTS | {"kernel": "clblast"}) == 5
    rows = sorted(Store(tmp_path).rows(), key=lambda one: one.at)
    assert [one.verdict for one in rows] == ["timed", "timed", "refused", "failed", "refused"]
    first = rows[0]
    assert (first.kind, first.kernel, first.gpu, first.m, first.study) == ("rival", "clblast", "a100", 4096, "kernel_tuner")
    assert first.seconds == pytest.approx(9.513571428571428e-3)
    assert first.compile_seconds == pytest.approx(0.4125) and first.judge_seconds == pytest.approx(3.25e-3)
    assert json.loads(first.decided) == {"block_size_x": 64, "tile_size_x": 1, "use_shared": 0}
    assert json.loads(first.extra)["t4"] == {"GFLOP/s": pytest.approx(14446.62, rel=1e-6)}
    assert first.at == datetime(2026, 1, 31, 12, 0, 1, 250_000, tzinfo=UTC)
    assert len({one.trial for one in rows}) == 5
    import_file(DATA / "kernel_tuner.json", tmp_path, FACTS | {"kernel": "clblast"})
    assert len(Store(tmp_path).trials()) == 5  # the same are the same


def t4(**more) -> dict:
    configuration = {"gpu": "a100", "m": 1, "n": 2, "k": 3, "layout": "nn"}
    result = {"configuration": configuration, "times": {"runtimes": [3, 1, 2]}, "invalidity": "correct", "correctness": 1, **more}
    return {"schema_version": "1.0.0", "results": [result]}


def read(tmp_path, content, **facts):
    path = tmp_path / "x.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return list(t4_rows(path, facts))


def test_what_a_file_says_in_other_ways(tmp_path):
    [one] = read(tmp_path, t4())
    assert one.seconds == pytest.approx(2e-3) and one.verdict == "timed" and one.kernel == "x"
    [one] = read(tmp_path, t4(times={"runtimes": [9, 1, 2]}))
    assert one.seconds == pytest.approx(2e-3), "the median"
    [one] = read(tmp_path, t4() | {"metadata": {"timeunit": "nanoseconds", "device": "A100"}})
    assert one.seconds == pytest.approx(2e-9) and one.device == "A100"
    [one] = read(tmp_path, t4(times={}, measurements=[{"name": "time", "value": 5, "unit": "us"}], timestamp="2026-01-02 03:04:05"))
    assert one.seconds == pytest.approx(5e-6) and one.at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    [one] = read(tmp_path, t4(times={"compilation_time": 7}, measurements=[{"name": "time", "value": 5, "unit": "us"}]) | {"metadata": {"timeunit": "ns"}})
    assert (one.seconds, one.compile_seconds) == (pytest.approx(5e-6), pytest.approx(7e-9)), "a measurement's own unit, and the file's of what has none"
    [one] = read(tmp_path, t4(times={}))
    assert one.verdict == "right" and one.seconds is None
    measured = [{"name": "time", "value": "TimeoutConfig", "unit": "ms"}, {"name": "registers", "value": 7}]
    [one] = read(tmp_path, t4(invalidity="timeout", correctness=0, measurements=measured))
    assert one.verdict == "hung" and one.seconds is None and one.registers == 7
    [one] = read(tmp_path, t4(), gpu="h100", m="7", error="1e-6")
    assert (one.gpu, one.m, one.error) == ("h100", 7, 1e-6)


REFUSED = {
    "[1": "x.json: is not JSON", "[" * 100_000: "x.json: is not JSON", "3": "x.json: is of another type", "{}": "results: is missing",
    '{"results": [3]}': r"results\[0\]: is of another type", '{"results": [], "schema_version": "2.0.0"}': "schema_version: is not one that gemmgen reads",
    **{json.dumps(t4(**more)): match for more, match in (
        ({"configuration": None}, r"results\[0\].configuration: is missing"), ({"configuration": {}}, "does not tell gpu"),
        ({"configuration": {"gpu": "a", "m": 1.5, "n": 1, "k": 1, "layout": "nn"}}, "does not tell m"),
        ({"configuration": {"gpu": "a", "m": -1, "n": 1, "k": 1, "layout": "nn"}}, "does not tell m"),
        ({"configuration": {"gpu": "a", "m": 1 << 63, "n": 1, "k": 1, "layout": "nn"}}, "does not tell m"),
        ({"measurements": [{"name": "time", "value": 10**400, "unit": "ms"}]}, r"measurements\[0\]: is not a time"),
        ({"configuration": {"gpu": "a", "m": True, "n": 1, "k": 1, "layout": "nn"}}, "does not tell m"),
        ({"times": []}, r"results\[0\].times: is of another type"),
        ({"invalidity": "fine"}, "invalidity: is none of T4's"), ({"invalidity": []}, "invalidity: is none of T4's"),
        ({"correctness": "1"}, "correctness: is not a number"), ({"correctness": True}, "correctness: is not a number"), ({"correctness": 0}, "correctness: contradicts"), ({"correctness": 0.5}, "correctness: contradicts"),
        ({"measurements": [{"name": "time", "value": "x", "unit": "ms"}]}, r"measurements\[0\]: is not a time"),
        ({"measurements": [{"name": "time", "value": float("nan"), "unit": "ms"}]}, r"measurements\[0\]: is not a time"),
        ({"measurements": [{"name": "time", "value": True, "unit": "ms"}]}, r"measurements\[0\]: is not a time"),
        ({"measurements": [{"name": "time", "value": 1, "unit": "h"}]}, r"measurements\[0\]: has no unit"),
        ({"measurements": [{"name": "time", "value": 1}]}, r"measurements\[0\]: has no unit"),
        ({"measurements": [{"value": 1}]}, r"measurements\[0\].name: is missing"),
        ({"measurements": [{"name": "verdict", "value": "nice"}]}, "a verdict that is none"),
        ({"times": {"runtimes": [1, "x"]}}, "runtimes: is not a time"), ({"times": {"compilation": "x"}}, "compilation_time: is not a time"),
        ({"timestamp": "yesterday"}, "timestamp: is not a time"), ({"timestamp": 3}, "timestamp: is of another type"),
    )},
}


@pytest.mark.parametrize("content", REFUSED, ids=lambda content: REFUSED[content].replace("\\", ""))
def test_what_a_row_cannot_hold_is_refused_with_its_place(tmp_path, content):
    with pytest.raises(GemmgenError, match=REFUSED[content]) as caught:
        read(tmp_path, content)
    assert caught.value.needs


def test_facts_that_no_column_holds(tmp_path):
    with pytest.raises(GemmgenError, match="--with colour: is no column"):
        read(tmp_path, t4(), colour="red")
    with pytest.raises(GemmgenError, match="--with m: is not a number"):
        read(tmp_path, t4(), m="many")


def test_a_file_with_a_fault_adds_nothing(tmp_path):
    content = t4()
    content["results"].append({})
    (tmp_path / "x.json").write_text(json.dumps(content))
    with pytest.raises(GemmgenError, match=r"results\[1\]"):
        import_file(tmp_path / "x.json", tmp_path / "store")
    assert Store(tmp_path / "store").trials() == set()


def test_the_verb_exports_and_imports(gemmgen, tmp_path):
    exported(tmp_path, [row(1), row(2)])
    ran = gemmgen("study", "ask", tmp_path / "out", "--where", "trial = 't000002'", "--export-t4", tmp_path / "one.json")
    assert ran.code == 0 and "1 results" in ran.out
    ran = gemmgen("study", "ask", tmp_path / "new", "--import-t4", tmp_path / "one.json", "SELECT trial FROM trials")
    assert ran.code == 0 and ran.out.split() == ["trial", "t000002"] and numbers(tmp_path / "new") == [2]
    ran = gemmgen("study", "ask", tmp_path / "new", "--import-t4", DATA / "kernel_tuner.json", *(f"--with={name}={value}" for name, value in FACTS.items()))
    assert ran.code == 0 and "5 results" in ran.err
    assert gemmgen("study", "ask", tmp_path / "new", "--import-t4", DATA / "kernel_tuner.json", "--with", "m").code == 2
