"""Adding rows to a store that others write to as well."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from gemmgen.errors import GemmgenError
from gemmgen.workshop.explore.extras import library
from gemmgen.workshop.explore.store.parquet import content_of, table_of
from gemmgen.workshop.explore.store.places import SUFFIX, Place, place_of
from gemmgen.workshop.explore.trial_row import Row


def stamp() -> str:
    """The time, UTC, as file names begin: 20260131T235959.123456Z."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")


def writer_id() -> str:
    """Of a writer, unlike those of all processes of all machines."""
    return os.urandom(8).hex()


class Writer:
    """Adds rows to a store. Any number of writers share one: each writes files of its own, a file a batch, which appear whole.

    A batch is written with the row that completes it: by number, or since the last one is some seconds ago. So a process that is killed
    loses at most the batch that it was collecting. Threads may share a writer; a forked process gets an empty batch and an identity of its own.

    Args:
        store: a folder, made if it is not there, or a URI.
        batch_rows: rows of a file.
        batch_seconds: a row that comes later than that after the last file is written at once, with those that wait.

    Raises:
        GemmgenError: pyarrow is missing, or nothing serves such a URI.
    """

    def __init__(self, store: str | Path, batch_rows: int = 64, batch_seconds: float = 10):
        library("pyarrow")
        self.place: Place = place_of(store)
        self.batch_rows, self.batch_seconds = batch_rows, batch_seconds
        self._begin()

    def _begin(self) -> None:
        self._pid, self._lock = os.getpid(), threading.Lock()
        self._batch: list[Row] = []
        self._name, self._written, self._last = "", 0, time.monotonic()
        self.id = writer_id()

    def _own(self) -> None:
        """After a fork the batch is the parent's, which writes it."""
        if self._pid != os.getpid():
            self._begin()

    @property
    def waiting(self) -> int:
        """Rows that are not written yet."""
        return len(self._batch)

    def add(self, row: Row) -> None:
        """Add a row, whose `writer` is this one's unless it names another.

        Raises:
            GemmgenError: a batch cannot be written, as on a full disk. The row and its batch are kept: the next row, or `flush`, tries again.
        """
        self._own()
        with self._lock:
            self._batch.append(row if row.writer else replace(row, writer=self.id))
            if len(self._batch) >= self.batch_rows or time.monotonic() - self._last >= self.batch_seconds:
                self._write()

    def flush(self) -> None:
        """Write what waits.

        Raises:
            GemmgenError: as `add`.
        """
        self._own()
        with self._lock:
            self._write()

    def _write(self) -> None:
        if self._batch:
            # One name for a batch, however often it is tried: where a bucket had it after all, the next try replaces it.
            self._name = self._name or f"{stamp()}-{self.id}-{self._written:06d}{SUFFIX}"
            self.place.put(self._name, self._content())
            self._batch, self._name, self._written = [], "", self._written + 1
        self._last = time.monotonic()

    def _content(self) -> bytes:
        """The batch as a file.

        Raises:
            GemmgenError: a row holds what its column cannot; it is left out, so that the next try writes the others.
        """
        arrow = library("pyarrow")
        try:
            return content_of(table_of(self._batch))
        except (arrow.ArrowException, TypeError, OverflowError):
            for row in list(self._batch):
                try:
                    content_of(table_of([row]))
                except (arrow.ArrowException, TypeError, OverflowError) as error:
                    self._batch.remove(row)
                    raise GemmgenError(f"row of trial {row.trial!r}", "does not fit the store's columns, and is left out", got=str(error),
                                       needs="values of the types of gemmgen.workshop.explore.trial_row.Row") from None
            raise

    def close(self) -> None:
        """The same as `flush`, and nothing else needs closing."""
        self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
