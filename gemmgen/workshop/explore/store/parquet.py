"""Rows as Parquet, and back."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gemmgen.workshop.explore.extras import library
from gemmgen.workshop.explore.store.places import Place
from gemmgen.workshop.explore.trial_row import SCHEMA_VERSION, Row, schema

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
    return pyarrow.Table.from_arrays([pyarrow.array([getattr(row, one.name) for row in rows], type=one.type) for one in columns], schema=columns)


def content_of(table: pyarrow.Table, *, replaces: Mapping[str, int] | None = None, statistics: bool = False) -> Any:
    """A table as the bytes of a Parquet file.

    Args:
        replaces: bytes of the files whose rows it holds, by name.
        statistics: least and greatest values of each row group; they are worth their room in large files.

    Raises:
        pyarrow.ArrowException: a column that has a value in every row lacks one.
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


def unfit(columns: pyarrow.Schema) -> str:
    """Why a file with these columns is none of a store: a column of Row holds another type than Row says. Empty where all fit."""
    kinds = library("pyarrow.types")

    def fits(wanted: Any, there: Any) -> bool:
        there = there.value_type if kinds.is_dictionary(there) else there
        if kinds.is_null(there):
            return True
        if kinds.is_string(wanted):
            return kinds.is_primitive(there) or kinds.is_string(there) or kinds.is_large_string(there)
        if kinds.is_timestamp(wanted):
            return kinds.is_timestamp(there)
        return kinds.is_integer(there) and not kinds.is_uint64(there) or kinds.is_floating(wanted) and kinds.is_floating(there)

    wrong = [f"{one.name} is {there.type}" for one in schema() for there in columns if there.name.lower() == one.name and not fits(one.type, there.type)]
    version = (columns.metadata or {}).get(VERSION_KEY, b"0")
    wrong += [] if re.fullmatch(rb"[0-9]{1,9}", version) else [f"{VERSION_KEY.decode()} in its metadata is no number"]
    return f"its column {', '.join(wrong)}"[:500] if wrong else ""


def replaced_by(place: Place, name: str) -> dict[str, int]:
    """Bytes of the files whose rows a merged file holds, by name.

    Raises:
        OSError, ValueError, pyarrow.ArrowException: it cannot be opened, is no sound Parquet file, or tells something else.
    """
    parquet = library("pyarrow.parquet")
    with parquet.ParquetFile(place.open(name)) as file:
        found = json.loads((file.metadata.metadata or {}).get(REPLACES_KEY, b"{}"))
    if not isinstance(found, dict):
        raise ValueError("what it replaces is no table of names and sizes")
    return found
