"""The store of trials: what is written is found again, whatever happens to writers, files and disks."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("duckdb")
pyarrow = pytest.importorskip("pyarrow")

from gemmgen.errors import GemmgenError
from gemmgen.workshop.explore.store import Store, Writer, compact, merging, parquet, places
from gemmgen.workshop.explore.store import writer as writing
from gemmgen.workshop.explore.store.listing import Lister
from gemmgen.workshop.explore.store.parquet import content_of, table_of
from gemmgen.workshop.explore.trial_row import Row, schema


def row(number: int = 0, **more) -> Row:
    """A timed trial, of that number of microseconds."""
    return Row(**{"study": "s", "trial": f"t{number:06d}", "kind": "kernel", "verdict": "timed", "kernel": f"k{number}", "gpu": "h200",
                  "m": 64, "n": 32, "k": 16, "layout": "nn", "seconds": 1e-6 * (number + 1), **more})


def fill(store, count: int, batch_rows: int = 4, first: int = 0, **more) -> None:
    with Writer(store, batch_rows=batch_rows) as writer:
        for number in range(first, first + count):
            writer.add(row(number, **more))


def numbers(store) -> list[int]:
    """Of all rows, each as often as it is there."""
    return sorted(int(trial[1:]) for trial in Store(store).query("SELECT trial FROM trials")["trial"].to_pylist())


def parquet_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet"))


def test_rows_come_back_as_they_went(tmp_path):
    rows = [row(1, spec='{"a": "ü\'"}', registers=255, error=1.5e-7), row(2, verdict="hung", seconds=None, reason="\n")]
    with Writer(tmp_path / "new" / "store", batch_rows=1) as writer:
        for one in rows:
            writer.add(one)
    found = Store(tmp_path / "new" / "store").rows()
    assert [one.as_dict() | {"writer": ""} for one in found] == [one.as_dict() for one in rows]
    assert {one.writer for one in found} == {writer.id}
    assert [one.trial for one in Store(tmp_path / "new" / "store").rows("verdict = ? AND m > ?", ["hung", 3])] == ["t000002"]


def test_nothing_was_tried_where_there_is_no_store_yet(tmp_path):
    assert Store(tmp_path / "none").trials() == set()
    with pytest.raises(GemmgenError, match="no store of trials"):
        Store(tmp_path / "none").rows()
    assert Store(tmp_path).rows() == []


def test_a_batch_is_written_by_number_by_time_and_at_the_end(tmp_path):
    slow, fast = Writer(tmp_path / "slow", batch_rows=100, batch_seconds=0), Writer(tmp_path / "fast", batch_rows=3, batch_seconds=3600)
    for number in range(4):
        slow.add(row(number))
        fast.add(row(number))
    assert numbers(tmp_path / "slow") == [0, 1, 2, 3] and slow.waiting == 0
    assert numbers(tmp_path / "fast") == [0, 1, 2] and fast.waiting == 1
    with pytest.raises(KeyboardInterrupt), fast:
        raise KeyboardInterrupt
    assert numbers(tmp_path / "fast") == [0, 1, 2, 3] and len(parquet_files(tmp_path / "fast")) == 2


def test_a_file_cut_to_any_length_is_noticed_and_the_others_are_read(tmp_path):
    fill(tmp_path, 8)
    last = parquet_files(tmp_path)[-1]
    content = last.read_bytes()
    for length in sorted({*range(64), *range(0, len(content), 19), *range(len(content) - 64, len(content))}, reverse=True):
        os.truncate(last, length)
        assert Lister(places.Folder(tmp_path))().torn.keys() == {last.name}, length
    notes: list[str] = []
    assert [one.trial for one in Store(tmp_path, note=notes.append).rows()] == ["t000000", "t000001", "t000002", "t000003"]
    assert len(notes) == 1 and last.name in notes[0] and "is not whole, and is left out" in notes[0]


@pytest.mark.parametrize("damage", ["zeros", "garbage", "pages", "footer", "text"])
def test_a_damaged_file_is_left_out_with_a_note(tmp_path, damage):
    fill(tmp_path, 8)
    store, notes = Store(tmp_path, note=lambda text: notes.append(text)), []
    last = parquet_files(tmp_path)[-1]
    whole = last.read_bytes()
    noise = b"\x8f\x13\xe7\x5a" * 100
    at = {"pages": 300, "footer": len(whole) - 1200}.get(damage)
    last.write_bytes({"zeros": bytes(len(whole)), "garbage": b"PAR1" + noise + b"\x20\0\0\0PAR1", "text": b"PAR1"}.get(damage)
                     or whole[:at] + noise + whole[at + len(noise):])
    assert [one.trial for one in store.rows()] == ["t000000", "t000001", "t000002", "t000003"]
    assert [last.name in note for note in notes] == [True]


def test_a_row_that_comes_late_is_written_with_those_that_wait_and_the_time_begins_anew(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(writing, "time", SimpleNamespace(monotonic=lambda: now[0]))
    writer, waiting = Writer(tmp_path, batch_rows=10, batch_seconds=5), []
    for number, now[0] in enumerate((1.0, 5.0, 6.0, 9.9, 10.0)):
        writer.add(row(number))
        waiting.append(writer.waiting)
    assert waiting == [1, 0, 1, 2, 0] and len(parquet_files(tmp_path)) == 2


def test_batches_of_one_moment_are_files_of_their_own_in_their_order(tmp_path, monkeypatch):
    """As where a clock stands still, or is set back."""
    monkeypatch.setattr(writing, "stamp", lambda: "20260101T000000.000000Z")
    fill(tmp_path, 12, batch_rows=1)
    assert [pyarrow.parquet.read_table(path)["trial"].to_pylist() for path in parquet_files(tmp_path)] == [[f"t{at:06d}"] for at in range(12)]


def test_what_is_no_whole_parquet_file_is_no_file_of_the_store(tmp_path):
    """Other programs leave hidden files, and files of other kinds."""
    fill(tmp_path, 3)
    [path] = parquet_files(tmp_path)
    for name in (f".{path.name}", "notes.txt"):
        (tmp_path / name).write_bytes(path.read_bytes())
    assert places.Folder(tmp_path).names() == {path.name: path.stat().st_size} and numbers(tmp_path) == [0, 1, 2]


def test_a_full_disk_keeps_the_batch_and_leaves_nothing_half(tmp_path):
    fill(tmp_path, 2)
    writer = Writer(tmp_path, batch_rows=2)
    writer.add(row(2))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))  # a write beyond fails, as on a full disk
    try:
        for number in (3, 4):
            with pytest.raises(GemmgenError) as caught:
                writer.add(row(number))
            assert caught.value.got == os.strerror(errno.EFBIG) and "room for" in caught.value.needs and caught.value.where == str(tmp_path)
            assert "flush()" in caught.value.remedy
        assert numbers(tmp_path) == [0, 1] and len(list(tmp_path.iterdir())) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    writer.close()
    assert numbers(tmp_path) == [0, 1, 2, 3, 4] and len(parquet_files(tmp_path)) == 2


@pytest.mark.parametrize("failing", ["fsync", "replace", "open"])
def test_whatever_fails_while_writing_nothing_half_is_seen(tmp_path, monkeypatch, failing):
    writer = Writer(tmp_path)
    writer.add(row(0))

    def fail(*rest, **more):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(places.os if failing != "open" else places, failing, fail, raising=failing != "open")
        with pytest.raises(GemmgenError, match="cannot be written"):
            writer.flush()
    assert list(tmp_path.iterdir()) == [] and writer.waiting == 1
    writer.flush()
    assert numbers(tmp_path) == [0]


def test_what_a_writer_writes_is_beside_its_name_until_it_is_whole(tmp_path, monkeypatch):
    """A process that is killed while it writes leaves nothing that a reader takes for a file of the store."""
    writer = Writer(tmp_path)
    writer.add(row(0))
    seen = []
    monkeypatch.setattr(places.os, "fsync", lambda number: seen.append(parquet_files(tmp_path)))
    writer.flush()
    assert seen[0] == [] and numbers(tmp_path) == [0]


def test_a_disk_that_is_really_full(tmp_path):
    """A file system of 64 KiB, where this user may mount one."""
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], capture_output=True, check=False).returncode:
        pytest.skip("mounting needs to be root")
    try:
        written, writer = 0, Writer(small, batch_rows=1)
        with pytest.raises(GemmgenError, match="No space left on device"):
            for number in range(100):
                writer.add(row(number, reason=os.urandom(4000).hex()))
                written += 1
        assert numbers(small) == list(range(written)) and not list(small.glob(".*"))
        parquet_files(small)[0].unlink()
        writer.flush()
        assert numbers(small) == list(range(1, written + 1))
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_row_that_fits_no_column_does_not_hold_up_the_others(tmp_path):
    writer = Writer(tmp_path)
    for one in (row(0), row(1, registers="many"), row(2, study=None), row(3, m=1 << 70), row(4)):
        writer.add(one)
    for trial in ("t000001", "t000002", "t000003"):
        with pytest.raises(GemmgenError, match=f"{trial}.*is left out"):
            writer.flush()
    writer.flush()
    assert numbers(tmp_path) == [0, 4]


def test_a_forked_process_is_another_writer(tmp_path):
    writer = Writer(tmp_path)
    writer.add(row(0))
    before, writer._pid = writer.id, -1  # what a fork would show it
    writer.add(row(1))
    assert writer.id != before and writer.waiting == 1
    writer._pid = -1
    writer.flush()  # what waits is the parent's, which writes it
    assert not writer.waiting and not any(tmp_path.iterdir())


WRITES = """
import sys
sys.path.insert(0, sys.argv[1])
from test_store import Writer, row
writer = Writer(sys.argv[2], batch_rows=5)
for number in range(*map(int, sys.argv[3:])):
    writer.add(row(number))
    if not writer.waiting:
        print(number + 1, flush=True)
"""


def started_writer(store: Path, first: int, end: int) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", WRITES, str(Path(__file__).parent), str(store), str(first), str(end)], stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_writers_at_once_and_one_that_is_killed(tmp_path):
    """Real processes; meanwhile this one reads and merges."""
    lasting, killed = started_writer(tmp_path, 0, 200), started_writer(tmp_path, 1000, 100_000)
    promised = 0
    for line in killed.stdout:
        promised = int(line)
        if promised >= 1050:
            killed.send_signal(signal.SIGKILL)
            break
    killed.wait()
    seen = 0
    while lasting.poll() is None:
        compact(tmp_path)
        found = numbers(tmp_path)
        assert len(set(found)) == len(found) >= seen
        seen = len(found)
        time.sleep(0.1)
    assert lasting.returncode == 0
    found = numbers(tmp_path)
    mine, others = [one for one in found if one < 1000], [one for one in found if one >= 1000]
    assert mine == list(range(200))  # it did not end with close(), but with a full batch
    assert others == list(range(1000, 1000 + len(others))) and 1000 + len(others) >= promised
    killed.stdout.close(), lasting.stdout.close()
    done = compact(tmp_path)
    assert len(parquet_files(tmp_path)) == 1 and numbers(tmp_path) == found and not done.torn


def test_merging_keeps_rows_order_and_what_is_not_whole(tmp_path):
    fill(tmp_path, 10)
    fill(tmp_path, 2, first=10)
    before = Store(tmp_path).rows()
    torn = tmp_path / "20000101T000000.000000Z-a-000000.parquet"
    torn.write_bytes(b"")
    notes: list[str] = []
    done = compact(tmp_path, note=notes.append)
    assert (done.merged, done.rows, done.left, done.torn) == (4, 12, 0, (torn.name,)) and len(notes) == 1
    assert {path.name for path in parquet_files(tmp_path)} == {torn.name, *done.made}
    assert Store(tmp_path).rows() == before
    assert compact(tmp_path).made == ()


def test_merged_files_have_at_most_so_many_rows(tmp_path):
    fill(tmp_path, 20)
    done = compact(tmp_path, most_rows=8)
    assert (done.merged, len(done.made)) == (4, 2) and len(parquet_files(tmp_path)) == 3 and numbers(tmp_path) == list(range(20))


def test_what_is_large_is_left_as_it_is(tmp_path):
    """A file of exactly so many bytes is none that is smaller."""
    fill(tmp_path, 3)
    fill(tmp_path, 600, batch_rows=600, first=3)
    *small, large = sorted(parquet_files(tmp_path), key=lambda path: path.stat().st_size)
    fill(tmp_path, 3, first=603)
    assert len(small) == 1 and compact(tmp_path, small=large.stat().st_size).merged == 2
    assert large.exists() and len(parquet_files(tmp_path)) == 2 and numbers(tmp_path) == list(range(606))


def test_a_merged_file_has_the_newest_version():
    pyarrow = pytest.importorskip("pyarrow")
    tables = [pyarrow.table({"a": [1]}).replace_schema_metadata(of) for of in ({parquet.VERSION_KEY: b"3"}, {parquet.VERSION_KEY: b"12"}, None)]
    assert merging._together(tables).schema.metadata == {parquet.VERSION_KEY: b"12"}


def test_nobody_is_told_of_a_damaged_file_whose_rows_a_merged_one_has(tmp_path):
    """As a merge leaves it that was ended before it removed its files."""
    fill(tmp_path, 8)
    old = {path: path.stat().st_size for path in parquet_files(tmp_path)}
    compact(tmp_path)
    for path, size in old.items():
        path.write_bytes(b"x" * size)
    notes: list[str] = []
    store = Store(tmp_path, note=notes.append)
    assert len(store.trials()) == 8 and not notes and not store.listing().torn and store.listing().replaced == {path.name for path in old}


@pytest.mark.parametrize("removed", range(4))
def test_merging_that_ends_anywhere_loses_and_doubles_nothing(tmp_path, monkeypatch, removed):
    fill(tmp_path, 12)
    left = [removed]

    def remove(self, name, given=places.Folder.remove):
        if not left[0]:
            raise InterruptedError
        left[0] -= 1
        given(self, name)

    with monkeypatch.context() as patch, contextlib.suppress(InterruptedError):
        patch.setattr(places.Folder, "remove", remove)
        compact(tmp_path)
    assert len(parquet_files(tmp_path)) == 4 - removed and numbers(tmp_path) == list(range(12))
    fill(tmp_path, 1, first=12)
    done = compact(tmp_path)
    assert done.left == 3 - removed and len(parquet_files(tmp_path)) == 1 and numbers(tmp_path) == list(range(13))


def test_merging_that_cannot_write_removes_nothing(tmp_path, monkeypatch):
    fill(tmp_path, 12)

    def put(self, name, content):
        raise places.cannot_write(self.where, OSError(errno.ENOSPC, "full"), len(content))

    monkeypatch.setattr(places.Folder, "put", put)
    with pytest.raises(GemmgenError, match="cannot be written"):
        compact(tmp_path)
    assert len(parquet_files(tmp_path)) == 3 and numbers(tmp_path) == list(range(12))


def test_a_merged_file_that_is_damaged_replaces_nothing(tmp_path):
    fill(tmp_path, 8)
    old = {path: path.read_bytes() for path in parquet_files(tmp_path)}
    [made] = compact(tmp_path).made
    for path, content in old.items():
        path.write_bytes(content)
    assert numbers(tmp_path) == list(range(8))
    os.truncate(tmp_path / made, 100)
    assert numbers(tmp_path) == list(range(8))


def test_one_process_merges_at_a_time(tmp_path):
    fill(tmp_path, 8)
    with places.Folder(tmp_path).alone(), pytest.raises(GemmgenError, match="merged by another process"):
        compact(tmp_path)
    assert compact(tmp_path).merged == 2


def test_what_a_killed_writer_left_unfinished_is_swept_away_a_day_later(tmp_path):
    fill(tmp_path, 1)
    old, new = tmp_path / ".a.parquet.unfinished", tmp_path / ".b.parquet.unfinished"
    for path in (old, new):
        path.write_bytes(b"PAR1")
    os.utime(old, (0, 0))
    compact(tmp_path)
    assert not old.exists() and new.exists() and numbers(tmp_path) == [0]


def test_a_file_that_is_merged_away_while_it_is_asked_for(tmp_path, monkeypatch):
    fill(tmp_path, 8)
    store, given = Store(tmp_path), Store._connected

    def connected(self, listing):
        monkeypatch.setattr(Store, "_connected", given)
        made = given(self, listing)
        compact(tmp_path)
        return made

    monkeypatch.setattr(Store, "_connected", connected)
    assert len(store.rows()) == 8


def test_a_listing_that_missed_a_merge_is_repeated(tmp_path, monkeypatch):
    """It shows neither the files that are gone nor the one that came meanwhile."""
    fill(tmp_path, 8)
    given, calls = places.Folder.names, []

    def names(self):
        calls.append(0)
        found = given(self)
        if len(calls) == 2:
            compact(tmp_path)
            return {}
        return found

    monkeypatch.setattr(places.Folder, "names", names)
    assert len(Lister(places.Folder(tmp_path))().files) == 1


def test_a_question_is_interrupted_until_it_hears(tmp_path):
    """One that is interrupted before it begins hears nothing of it."""
    heard = threading.Semaphore(0)
    store = Store(tmp_path, seconds=0.05)

    def asked(connection):
        return [heard.acquire(timeout=2) for _ in range(3)]  # it begins behind the second

    began = time.monotonic()
    with pytest.raises(GemmgenError, match="took more than 0.05 s"):
        store._within(SimpleNamespace(interrupt=heard.release), asked)
    assert time.monotonic() - began < 1.8


def test_columns_of_other_versions(tmp_path, monkeypatch):
    """None of the files is taken for a damaged one, which would be read to its end before each question."""
    monkeypatch.setattr(Store, "_damaged", lambda store, listing: pytest.fail("a sound file is looked at for damage"))
    fill(tmp_path, 1)
    newer = table_of([row(1)]).append_column("colour", pyarrow.array(["red"])).replace_schema_metadata({"gemmgen_row": "9"})
    (tmp_path / "20300101T000000.000000Z-a-000000.parquet").write_bytes(content_of(newer))
    older = table_of([row(2)]).drop_columns(["registers", "policy", "at", "promote", "stages", "split_k"])
    (tmp_path / "20200101T000000.000000Z-a-000000.parquet").write_bytes(content_of(older))
    for merged in (False, True):
        store = Store(tmp_path)
        assert store.query("SELECT colour FROM trials ORDER BY trial")["colour"].to_pylist() == [None, "red", None]
        [one] = store.rows("trial = 't000002'")
        assert one.policy == "" and one.registers is None and one.at.year == 1970 and (one.promote, one.stages, one.split_k) == (0, 0, 1)
        assert len(parquet_files(tmp_path)) == (1 if merged else 3)
        compact(tmp_path)
    [path] = parquet_files(tmp_path)
    assert pyarrow.parquet.read_metadata(path).metadata[b"gemmgen_row"] == b"9"
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "a.parquet").write_bytes(content_of(older.drop_columns(["study"])))
    assert set(Store(tmp_path / "b").query("SELECT * FROM trials").column_names) == set(schema().names)


@pytest.mark.parametrize("name", ["it's", "a[b]*c?", "x=1", "ü ä"])
def test_folders_of_any_name(tmp_path, name):
    fill(tmp_path / name, 5)
    assert numbers(tmp_path / name) == list(range(5))
    assert set(Store(tmp_path / name).query("SELECT * FROM trials").column_names) == set(schema().names)


SELECTS = [
    "SELECT count(*) FROM trials", "FROM trials", "DESCRIBE trials", "SUMMARIZE trials", "VALUES (1)", "WITH a AS (SELECT 1) FROM a",
    "SELECT * FROM range(3)", "SELECT 1 UNION ALL SELECT 2", "SELECT 'COPY_QUERY_NODE', 'x' AS \"type\"", "SELECT 1 -- done",
]
NO_SELECTS = {
    "COPY (SELECT 1) TO 'FILE'": "not one SELECT", "SELECT 1; SELECT 2": "not one SELECT", "": "not one SELECT", "SET threads = 1": "not one SELECT",
    "CREATE TABLE x (y INT)": "not one SELECT", "ATTACH 'FILE'": "not one SELECT", "INSTALL httpfs": "not one SELECT",
    "WITH a AS (COPY (SELECT 1) TO 'FILE') SELECT 1": "more than select|cannot be answered",
    "SELECT (WITH a AS (COPY (SELECT 1) TO 'FILE') SELECT 1)": "more than select|cannot be answered",
    "SELECT * FROM query('WITH a AS (COPY (SELECT 1) TO ''FILE'') SELECT 1')": "reads from query",
    "SELECT * FROM read_csv('/etc/passwd')": "reads from read_csv", "SELECT * FROM trials, glob('/etc/*')": "reads from glob",
    "SELECT * FROM (SELECT * FROM read_text('/etc/passwd'))": "reads from read_text", "SELECT * FROM '/etc/passwd.csv'": "cannot be answered",
    "SELECT nothing FROM trials": "cannot be answered", "SELEC": "cannot be answered", "SELECT 'x'::INT FROM trials": "cannot be answered",
    "SELECT * FROM row": "cannot be answered",
}


@pytest.mark.parametrize("sql", SELECTS)
def test_what_selects_is_answered(tmp_path, sql):
    fill(tmp_path, 1)
    assert Store(tmp_path).query(sql).num_rows


@pytest.mark.parametrize("sql", NO_SELECTS)
def test_sql_that_does_more_or_is_wrong_is_refused(tmp_path, sql):
    fill(tmp_path, 1)
    file = parquet_files(tmp_path)[0]
    before = file.read_bytes()
    with pytest.raises(GemmgenError, match=NO_SELECTS[sql]) as caught:
        Store(tmp_path).query(sql.replace("FILE", str(file)))
    if "WITH" in sql:  # an older DuckDB's parser does not know it
        assert caught.value.problem != "cannot be answered" or "Parser Error" in caught.value.needs
    assert caught.value.needs
    assert file.read_bytes() == before and numbers(tmp_path) == [0]


def test_files_beside_the_store_cannot_be_read(tmp_path):
    fill(tmp_path / "other", 1)
    fill(tmp_path / "store", 1)
    with pytest.raises(GemmgenError, match="cannot be answered") as caught:
        Store(tmp_path / "store").query(f"SELECT * FROM '{parquet_files(tmp_path / 'other')[0]}'")
    assert "Permission Error" in caught.value.needs


def test_a_condition_on_the_rows_that_count(tmp_path):
    fill(tmp_path, 9)
    assert Store(tmp_path, where="seconds > 5e-6 -- slow ones").query("SELECT count(*) AS c FROM trials")["c"].to_pylist() == [4]
    with pytest.raises(GemmgenError, match="cannot be answered"):
        Store(tmp_path, where="colour = 1").rows()


def test_a_store_that_is_written_to_is_read_anew(tmp_path):
    fill(tmp_path, 3)
    store = Store(tmp_path)
    assert len(store.trials()) == 3
    fill(tmp_path, 3, first=3)
    assert len(store.trials()) == 6
    compact(tmp_path)
    assert len(store.trials()) == 6


def test_a_bucket(tmp_path):
    """fsspec's memory stands for one."""
    pytest.importorskip("fsspec")
    bucket = f"memory://{tmp_path.name}/store"
    assert Store(bucket).trials() == set()
    fill(bucket, 10)
    assert numbers(bucket) == list(range(10)) and len(Store(bucket).listing().files) == 3
    done = compact(bucket)
    assert done.merged == 3 and numbers(bucket) == list(range(10))
    writer = Writer(bucket)
    writer.place.put("20000101T000000.000000Z-a-000000.parquet", b"PAR1")
    assert numbers(bucket) == list(range(10)) and len(Store(bucket).listing().torn) == 1


def test_a_place_that_has_folders_gets_them_made(tmp_path):
    """A disk by its URI; and what is no file, or no Parquet, is no file of the store."""
    bucket = f"local://{tmp_path}/not/there/yet/"
    fill(bucket, 3)
    (tmp_path / "not/there/yet/folder.parquet").mkdir()
    (tmp_path / "not/there/yet/notes.txt").write_text("none")
    place = places.place_of(bucket)
    assert isinstance(place, places.Bucket) and numbers(bucket) == [0, 1, 2] and len(place.names()) == 1
    [name] = place.names()
    place.remove(name)
    place.remove(name)  # which is gone already
    assert not place.exists() and Store(bucket).trials() == set()


@pytest.mark.parametrize("merged", [False, True])
def test_a_bucket_that_failed_after_all_had_the_batch(tmp_path, monkeypatch, merged):
    """A batch has one name, however often it is written, so that it is there once. Merged in between, it may be there twice, and is not lost."""
    pytest.importorskip("fsspec")
    bucket = f"memory://{tmp_path.name}/again{merged}"
    writer, given = Writer(bucket), places.Bucket.put
    writer.add(row(0))

    def put(self, name, content):
        given(self, name, content)
        raise places.cannot_write(self.where, OSError("the answer was lost"), len(content))

    with monkeypatch.context() as patch:
        patch.setattr(places.Bucket, "put", put)
        with pytest.raises(GemmgenError, match="cannot be written"):
            writer.flush()
    if merged:
        fill(bucket, 1, first=2)
        assert compact(bucket).merged == 2
    writer.add(row(1))
    writer.flush()
    assert numbers(bucket) == ([0, 0, 1, 2] if merged else [0, 1]) and len(Store(bucket).listing().files) == 1 + merged
    assert Store(bucket).query("SELECT count(*) AS c FROM latest")["c"].to_pylist() == [2 + merged]


def test_half_of_a_file_is_taken_out_of_a_bucket(tmp_path):
    """And the message is of the write, whether or not that could be done."""
    bucket, removed = places.Bucket(f"local://{tmp_path}/there"), []

    @contextlib.contextmanager
    def half(path):
        def write(content):
            raise OSError(errno.EIO, "the line broke")

        yield SimpleNamespace(write=write)

    def gone(path):
        removed.append(path)
        raise OSError(errno.EIO, "the line is still broken")

    bucket.files = SimpleNamespace(type_name="s3", open_output_stream=half, delete_file=gone)
    with pytest.raises(GemmgenError, match="cannot be written") as refused:
        bucket.put("a.parquet", b"x" * 10)
    assert removed == [f"{tmp_path}/there/a.parquet"] and refused.value.got == "the line broke" and "10 B" in refused.value.needs


def test_a_place_that_nothing_serves():
    with pytest.raises(GemmgenError, match="no place for a store") as caught:
        Store("nothing://there")
    assert "s3://bucket/folder" in caught.value.needs


@pytest.mark.parametrize("package", ["pyarrow", "duckdb"])
def test_a_missing_package_is_told_with_the_extra(tmp_path, monkeypatch, package):
    fill(tmp_path, 1)
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(GemmgenError) as caught:
        Writer(tmp_path) if package == "pyarrow" else Store(tmp_path).rows()
    assert caught.value.remedy == "pip install 'gemmgen[explore]'"


def test_importing_the_store_loads_neither():
    program = "import sys, gemmgen.workshop.explore.store\nprint('loaded', *{'pyarrow', 'duckdb', 'numpy', 'fsspec'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split() == ["loaded"]


@pytest.mark.parametrize("uri", ["nowhere://key:secret@bucket/x", "nowhere://key:sec/ret@bucket/x", "nowhere://key@bucket/x"])
def test_keys_of_a_uri_are_told_in_no_message(uri):
    """Neither as the store's name nor by the library that refuses the URI."""
    with pytest.raises(GemmgenError, match="no place for a store") as refused:
        places.place_of(uri + "/")
    told = str(refused.value) + json.dumps(refused.value.as_dict())
    assert refused.value.where == "nowhere://bucket/x" and not re.search("key|sec|ret", told)
    assert places._without_keys("s3://bucket/a@b and s3://bucket/c") == "s3://bucket/a@b and s3://bucket/c"


def test_the_smallest_parquet_file_is_whole():
    magic, end = places.MAGIC, (20).to_bytes(4, "little") + places.MAGIC
    assert [places._sound(magic, end, size) for size in (31, 32, 33)] == [False, True, True]  # 4 + 20 + 8 bytes
    assert not places._sound(b"PARX", end, 32) and not places._sound(magic, end[:4] + b"PARX", 32)


def test_versions_of_rows_have_up_to_nine_digits():
    fits = [parquet.unfit(schema().with_metadata({parquet.VERSION_KEY: version})) == "" for version in (b"1", b"123456789", b"1234567890", b"x", b"")]
    assert fits == [True, True, False, False, False]
