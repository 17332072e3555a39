"""The store of trials: what is written is found again, whatever happens to writers, files and disks."""

from __future__ import annotations

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

from gemmgen.errors import GemmgenError
from gemmgen.explore.row import Row
from gemmgen.explore.store import Store, Writer


def row(number: int = 0, **more) -> Row:
    """A timed trial, of that number of microseconds."""
    return Row(**{"study": "s", "trial": f"t{number:06d}", "kind": "kernel", "verdict": "timed", "kernel": f"k{number}", "gpu": "h200",
                  "m": 64, "n": 32, "k": 16, "layout": "nn", "seconds": 1e-6 * (number + 1), **more})


def fill(store, count: int, batch_rows: int = 4, first: int = 0, **more) -> None:
    with Writer(store, batch_rows=batch_rows) as writer:
        for number in range(first, first + count):
            writer.add(row(number, **more))


def test_rows_come_back_as_they_went(tmp_path):
    rows = [row(1, spec='{"a": "ü\'"}', registers=255, error=1.5e-7), row(2, verdict="hung", seconds=None, reason="\n")]
    with Writer(tmp_path / "new" / "store", batch_rows=1) as writer:
        for one in rows:
            writer.add(one)
    found = Store(tmp_path / "new" / "store").rows()
    assert [one.as_dict() | {"writer": ""} for one in found] == [one.as_dict() for one in rows]
    assert {one.writer for one in found} == {writer.id}


def test_nothing_was_tried_where_there_is_no_store_yet(tmp_path):
    assert Store(tmp_path / "none").trials() == set()
    with pytest.raises(GemmgenError, match="no store of trials"):
        Store(tmp_path / "none").rows()
    assert Store(tmp_path).rows() == []
