"""Rows as Parquet, and back."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from gemmgen.explore.row import SCHEMA_VERSION, Row, schema
from gemmgen.explore.store.places import Place, library

if TYPE_CHECKING:
    import pyarrow

VERSION_KEY, REPLACES_KEY = b"gemmgen_row", b"gemmgen_replaces"


def table_of(rows: Sequence[Row]) -> pyarrow.Table:
    """The rows as a table of the store's columns."""
    pyarrow = library("pyarrow")
    columns = schema()
    return pyarrow.Table.from_arrays([pyarrow.array([getattr(row, one.name) for row in rows], type=one.type) for one in columns], schema=columns)


def content_of(table: pyarrow.Table, *, replaces: Iterable[str] = (), statistics: bool = False) -> Any:
    """A table as the bytes of a Parquet file.

    Args:
        replaces: names of the files whose rows it holds.
        statistics: least and greatest values of each row group; they are worth their room in large files.
    """
    parquet = library("pyarrow.parquet")
    named = sorted(replaces)
    metadata = {VERSION_KEY: str(SCHEMA_VERSION).encode(), **(table.schema.metadata or {})}
    if named:
        metadata[REPLACES_KEY] = json.dumps(named).encode()
    sink = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata(metadata), sink, compression="zstd", write_statistics=statistics, store_schema=False,
                        write_page_checksum=True, row_group_size=1 << 17)
    return sink.getbuffer()


def read_table(place: Place, name: str) -> pyarrow.Table:
    """All of a file, its pages' checksums checked.

    Raises:
        OSError, pyarrow.ArrowException: it cannot be opened, or is no sound Parquet file.
    """
    parquet = library("pyarrow.parquet")
    with parquet.ParquetFile(place.open(name), page_checksum_verification=True) as file:
        return file.read(use_threads=False)


def replaced_by(place: Place, name: str) -> frozenset[str]:
    """The files whose rows a merged file holds.

    Raises:
        OSError, pyarrow.ArrowException: it cannot be opened, or is no sound Parquet file.
    """
    parquet = library("pyarrow.parquet")
    with parquet.ParquetFile(place.open(name)) as file:
        return frozenset(json.loads((file.metadata.metadata or {}).get(REPLACES_KEY, b"[]")))
