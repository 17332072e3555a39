"""Stores that nobody who means well wrote: values that no trial has, columns of other types, text for terminals, and questions without an end."""

from __future__ import annotations

import _thread
import json
import signal
import threading
import time
from datetime import UTC, datetime
from math import inf, nan

import numpy as np
import pytest

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

from explored import plans, row_of, sizes, timed
from test_store import fill, parquet_files

from gemmgen.errors import GemmgenError
from gemmgen.workshop.choose.shapes import shapes_of
from gemmgen.workshop.explore import report as reporting
from gemmgen.workshop.explore.store import Store, Writer, compact, questions
from gemmgen.workshop.explore.store.parquet import content_of, table_of
from gemmgen.workshop.explore.trial_row import LIMITS, SCHEMA_VERSION, Row, possible

ENDLESS = "WITH RECURSIVE a(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM a) SELECT count(*) FROM a"


@pytest.fixture(autouse=True)
def small_plotly(monkeypatch):
    monkeypatch.setattr(reporting, "_plotly", lambda: "plotly()")


def made(number: int = 0, **more) -> Row:
    return row_of(plans(few=1)[0], (64, 32, 16 + number), **{"trial": f"t{number}", "verdict": "timed", "seconds": 1e-6, "error": 1e-7, **more})


def put(folder, rows, **columns) -> None:
    """A file of rows, some of whose columns are what is given instead."""
    table = table_of(rows)
    for name, values in columns.items():
        table = table.set_column(table.schema.get_field_index(name), name, values)
    folder.mkdir(exist_ok=True)
    (folder / f"2030{len(list(folder.iterdir())):04}-a.parquet").write_bytes(content_of(table))


def test_what_no_trial_can_have_counts_as_absent_and_no_error_as_none(tmp_path):
    values = (1e-6, 5e-324, nan, inf, -1e-6, 0.0, None)
    put(tmp_path, [made(at, seconds=value, error=value, spread=value, registers=number)
                   for at, (value, number) in enumerate(zip(values, (1, 2**62, -1, 0, None, 2**31 - 1, 2**31)))])
    put(tmp_path, [made(10, m=-1), made(11, n=2**31), made(12, k=2**31 - 1), made(13, m=0)])
    store = Store(tmp_path)
    rows = store.rows()
    assert [row.trial for row in rows] == ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t12", "t13"]
    assert [row.seconds for row in rows[:7]] == [1e-6, None, None, None, None, None, None]
    assert [row.error for row in rows[:7]] == [1e-6, 5e-324, inf, inf, inf, 0.0, None]  # what is not a number is no small error
    assert [row.spread for row in rows[:7]] == [1e-6, 5e-324, None, None, None, 0.0, None]
    assert [row.registers for row in rows[:7]] == [1, None, None, 0, None, 2**31 - 1, None]
    for name, (low, high) in LIMITS.items():
        assert possible(name, low) and possible(name, high) and not any(possible(name, value) for value in (nan, None, -1, -inf))
    assert [one.size for one in shapes_of(rows[-2:])] == [(64, 32, 2**31 - 1)]
    assert store.answer("best")["microseconds"].to_pylist() == [pytest.approx(1)] * 3


def test_a_rows_numbers_have_limits_and_defaults_that_stores_keep():
    limits = {
        "m n k promote stages split_k predicted_registers registers spills shared_bytes blocks_per_sm rounds": (0, 2_147_483_647),
        "predicted_seconds seconds reference_seconds": (1e-12, 1e9), "predicted_error error scaled": (0, inf),
        "spread clock_mhz power_w solve_seconds compile_seconds judge_seconds time_seconds": (0, 1e9),
    }
    assert LIMITS == {name: pair for names, pair in limits.items() for name in names.split()}
    for name, (low, high) in LIMITS.items():
        assert not possible(name, np.nextafter(low, -1)) and possible(name, high) and (high == inf or not possible(name, np.nextafter(float(high), inf)))
    row = Row("s", "t", "kernel", "timed", "k", "h200", 1, 2, 3, "nn")
    assert (row.promote, row.stages, row.split_k, SCHEMA_VERSION) == (0, 0, 1, 1)


def test_times_that_python_has_not(tmp_path, gemmgen):
    put(tmp_path, [made(0), made(1)], at=pyarrow.array([2**62, 0], pyarrow.timestamp("us", tz="UTC")))
    assert [row.at for row in Store(tmp_path).rows()] == [datetime.fromtimestamp(0, UTC)] * 2
    assert gemmgen("study", "ask", tmp_path).code == 0
    ran = gemmgen("study", "ask", tmp_path, "SELECT 'infinity'::TIMESTAMP AS t", "--json")
    assert ran.code == 2 and "cannot be shown" in json.loads(ran.out)["problem"] and json.loads(ran.out)["try"] == "t::VARCHAR in place of t"
    assert json.loads(gemmgen("study", "ask", tmp_path, "SELECT 1 AS a, 2 AS b", "--json").out) == [{"a": 1, "b": 2}]


OTHER_TYPES = {
    "seconds": pyarrow.array(["fast"]), "m": pyarrow.array([64], pyarrow.uint64()), "gpu": pyarrow.array([b"h200"]), "at": pyarrow.array([True]),
}


@pytest.mark.parametrize("column", OTHER_TYPES)
def test_a_file_whose_column_is_of_another_type_is_left_out_with_a_note(tmp_path, column):
    put(tmp_path, [made(0)])
    put(tmp_path, [made(1)], **{column: OTHER_TYPES[column]})
    put(tmp_path, [made(2)])
    notes: list[str] = []
    assert [row.trial for row in Store(tmp_path, note=notes.append).rows()] == ["t0", "t2"]
    assert len(notes) == 1 and f"its column {column} is {OTHER_TYPES[column].type}" in notes[0] and "20300001-a.parquet" in notes[0]
    done = compact(tmp_path, note=notes.append)
    assert done.merged == 2 and done.torn == ("20300001-a.parquet",) and len(Store(tmp_path).rows()) == 2


def test_columns_that_hold_the_same_in_another_way_are_read(tmp_path):
    put(tmp_path, [made(0)])
    put(
        tmp_path, [made(1)], m=pyarrow.array([64], pyarrow.int16()), error=pyarrow.array([0.5], pyarrow.float32()),
        registers=pyarrow.array([None]), spread=pyarrow.array([3]), block=pyarrow.array([5]),
        gpu=pyarrow.array(["h200"]).dictionary_encode(), at=pyarrow.array([10**9 + 1], pyarrow.timestamp("ns")),
    )
    for _ in range(2):
        [_, row] = Store(tmp_path).rows()
        assert (row.m, row.error, row.registers, row.spread, row.block, row.gpu, row.at.second) == (64, 0.5, None, 3.0, "5", "h200", 1)
        compact(tmp_path)
    assert len(parquet_files(tmp_path)) == 1


def test_columns_of_nobody_may_be_of_any_type_in_each_file(tmp_path):
    for at, colour in enumerate(("red", 3, "blue")):
        (tmp_path / f"2030000{at}-a.parquet").write_bytes(content_of(table_of([made(at)]).append_column("colour", pyarrow.array([colour]))))
    assert Store(tmp_path).query("SELECT colour FROM trials ORDER BY trial")["colour"].to_pylist() == ["red", "3", "blue"]
    put(tmp_path, [made(9)])
    assert compact(tmp_path).merged == 2 and len(Store(tmp_path).rows()) == 4


@pytest.mark.parametrize("metadata", [{"gemmgen_row": "no number"}, {"gemmgen_replaces": "5"}])
def test_metadata_that_tells_something_else(tmp_path, metadata):
    fill(tmp_path, 1)
    name = "20300101-a-merged.parquet" if "gemmgen_replaces" in metadata else "20300101-a.parquet"
    (tmp_path / name).write_bytes(content_of(table_of([made(1)]).replace_schema_metadata(metadata)))
    fill(tmp_path, 1, first=2)
    assert compact(tmp_path).torn == (name,)


def poisoned(folder):
    """A study with a value that none has, or a text that none would write, in every column in turn; beside rows that are right."""
    rows = timed(plans(few=2), sizes(3))
    bad, [plan], right = [], plans(few=1), {"verdict": "timed", "seconds": 1e-5, "error": 1e-7}
    for name, (low, _) in LIMITS.items():
        for value in (5e-324, -1.0, nan, inf) if isinstance(low, float) else (-1, 2**62):
            bad.append(row_of(plan, (256, 256, 256), **{**right, name: value, "trial": f"{name} {value}"}))
    texts = ("study", "kernel", "reason", "scheme", "design", "policy", "block", "device", "decided", "spec", "extra", "layout", "identity", "gpu", "verdict")
    for name in texts:
        for text in ("\x1b[31mred\x1b]0;title\x07\u202e\n", '{"tile": 5, "rejected": [1]}', "9" * 400):
            bad.append(row_of(plan, (256, 256, 256), **{**right, name: text, "trial": f"{name} {text[:3]}"}))
    with Writer(folder, batch_rows=1000, batch_seconds=inf) as writer:
        for row in (*rows, *bad):
            writer.add(row)
    put(folder, [made(1)], seconds=OTHER_TYPES["seconds"])


def test_every_verb_on_a_poisoned_store(tmp_path, gemmgen, monkeypatch):
    monkeypatch.setattr(reporting, "MOST_KERNELS", 2)
    folder = tmp_path / "s"
    poisoned(folder)
    store = Store(folder)
    assert all(store.answer(name).num_rows for name in questions() if name not in ("changes", "model"))
    verbs = [("study", "ask", folder, "--verdicts"), ("study", "ask", folder, "FROM trials"), ("study", "ask", folder, "--export-t4", tmp_path / "x.json"),
             ("study", "report", folder, "-o", tmp_path / "x.html"), ("study", "choose", folder, "--kernels", 2, "--held-out", 0, "--gpu", "h200", "--layout", "nn"),
             ("study", "learn", folder, "--gpu", "h200"), ("study", "ask", folder, "--regret"), ("study", "ask", folder, "--merge")]
    with np.errstate(all="ignore"):
        for verb in verbs:
            ran = gemmgen(*verb)
            assert ran.code in (0, 2), (verb, ran.err)
            assert ran.code == 0 or "Error" not in ran.err.partition("\n")[0] and "  needs  " in ran.err, (verb, ran.err)
            assert not set("\x1b\x07\u202e\x9b") & set(ran.out + ran.err), verb
    assert r"\x1b[31mred\x1b]0;title\x07\u202e" in gemmgen("study", "ask", folder, "SELECT kernel FROM trials").out
    assert "is string" in gemmgen("study", "ask", folder).err


def test_a_question_without_an_end_is_ended_with_its_limit(tmp_path, gemmgen):
    fill(tmp_path, 1)
    store, start = Store(tmp_path, seconds=0.2), time.monotonic()
    with pytest.raises(GemmgenError, match="took more than 0.2 s, and was ended") as caught:
        store.query(ENDLESS)
    assert time.monotonic() - start < 5 and "--seconds" in caught.value.remedy and store.query("SELECT 1 AS a")["a"].to_pylist() == [1]
    with pytest.raises(GemmgenError, match="took more than"):
        Store(tmp_path, where=f"m < ({ENDLESS})", seconds=0.2).rows()
    ran = gemmgen("study", "ask", tmp_path, ENDLESS, "--seconds", "0.2")
    assert ran.code == 2 and "took more than 0.2 s" in ran.err


@pytest.mark.parametrize("sql", ["SELECT list(range) FROM range(1000000000)", "SELECT * FROM range(1000000000000)"], ids=["sums", "answer"])
def test_a_question_that_takes_too_much_memory_is_ended_with_its_limit(tmp_path, gemmgen, sql):
    fill(tmp_path, 1)
    ran = gemmgen("study", "ask", tmp_path, sql, "--memory", "16")
    assert ran.code == 2 and "takes more than 16 MiB of memory" in ran.err and "--memory" in ran.err


def test_what_a_statement_may_be_made_of_is_listed(monkeypatch):
    """A part that DuckDB will know one day, and this list does not, is no SELECT."""
    from gemmgen.workshop.explore.store import select

    select.check_select("SELECT 1 UNION SELECT 2")
    monkeypatch.setattr(select, "NODES", frozenset({"SELECT_NODE"}))
    select.check_select("SELECT 1")
    with pytest.raises(GemmgenError, match="does more than select") as refusal:
        select.check_select("SELECT 1 UNION SELECT 2")
    assert refusal.value.has == "SET_OPERATION_NODE"


def test_ctrl_c_ends_a_question(tmp_path):
    fill(tmp_path, 1)
    store = Store(tmp_path, seconds=20)
    store.query("SELECT 1")  # what is imported and opened first is done: the interrupt finds the question, and no callback that drops it
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell inherits that SIGINT is ignored
    try:
        threading.Timer(0.3, _thread.interrupt_main).start()
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            store.query(ENDLESS)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - start < 10
    assert len(parquet_files(tmp_path)) == 1
