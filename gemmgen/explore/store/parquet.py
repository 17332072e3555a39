"""Rows as Parquet, and back."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gemmgen.explore.row import SCHEMA_VERSION, Row, schema
from gemmgen.explore.libraries import library
from gemmgen.explore.store.places import Place

if TYPE_CHECKING:
    import pyarrow

VERSION_KEY, REPLACES_KEY = b"gemmgen_row", b"gemmgen_replaces"


def table_of(rows: Sequence[Row]) -> pyarrow.Table:
    """The rows as a table of the store's columns.

    Raises:
        TypeError, OverflowError, pyarrow.ArrowException: a row has a value that its column cannot hold.
    """
    pyarrow = library("pyarrow")
    columns = schema()
    table = pyarrow.Table.from_arrays([pyarrow.array([getattr(row, one.name) for row in rows], type=one.type) for one in columns], schema=columns)
    if lacking := [one.name for one, column in zip(columns, table.columns) if column.null_count and not one.nullable]:
        raise TypeError(f"no value for {', '.join(lacking)}")
    return table


def content_of(table: pyarrow.Table, *, replaces: Mapping[str, int] | None = None, statistics: bool = False) -> Any:
    """A table as the bytes of a Parquet file.

    Args:
        replaces: bytes of the files whose rows it holds, by name.
        statistics: least and greatest values of each row group; they are worth their room in large files.
    """
    parquet = library("pyarrow.parquet")
    metadata = {VERSION_KEY: str(SCHEMA_VERSION).encode(), **(table.schema.metadata or {})}
    if replaces:
        metadata[REPLACES_KEY] = json.dumps(dict(replaces)).encode()
    sink = io.BytesIO()
    with parquet.ParquetWriter(sink, table.schema, compression="zstd", write_statistics=statistics, store_schema=False, write_page_checksum=True) as file:
        file.write_table(table, row_group_size=1 << 17)
        file.add_key_value_metadata(metadata)
    return sink.getbuffer()


def read_table(place: Place, name: str) -> pyarrow.Table:
    """All of a file, its pages' checksums checked.

    Raises:
        OSError, pyarrow.ArrowException: it cannot be opened, or is no sound Parquet file.
    """
    parquet = library("pyarrow.parquet")
    with parquet.ParquetFile(place.open(name), page_checksum_verification=True) as file:
        return file.read(use_threads=False)


def replaced_by(place: Place, name: str) -> dict[str, int]:
    """Bytes of the files whose rows a merged file holds, by name.

    Raises:
        OSError, pyarrow.ArrowException: it cannot be opened, or is no sound Parquet file.
    """
    parquet = library("pyarrow.parquet")
    with parquet.ParquetFile(place.open(name)) as file:
        return dict(json.loads((file.metadata.metadata or {}).get(REPLACES_KEY, b"{}")))
