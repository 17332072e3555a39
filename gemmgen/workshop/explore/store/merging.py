"""Many small files become a few, while others read and write the store.

A merged file names, in its metadata, the files whose rows it holds, with their sizes, and readers pass over those. So its appearance under its own name is
the one moment at which the rows move, and only then are the old files removed: wherever the process ends, every row is read once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gemmgen.workshop.explore.extras import library
from gemmgen.workshop.explore.store.listing import MERGED, TORN, Lister
from gemmgen.workshop.explore.store.parquet import VERSION_KEY, content_of, read_table, unfit
from gemmgen.workshop.explore.store.places import SMALL, Place, place_of
from gemmgen.workshop.explore.store.writer import stamp, writer_id
from gemmgen.workshop.explore.trial_row import schema

if TYPE_CHECKING:
    import pyarrow

MOST_ROWS = 250_000
"""After which a merged file is complete; they bound what is in memory."""
_AT_ONCE = 256
"""Files read ahead."""


@dataclass(frozen=True)
class Compacted:
    """What merging did.

    Attributes:
        merged: files that are gone, their rows being in `made`.
        made: the new files.
        rows: that moved.
        left: files that another merge, which did not end, had left; they are gone too.
        torn: files that are not whole, left as they are.
    """

    merged: int
    made: tuple[str, ...]
    rows: int
    left: int
    torn: tuple[str, ...]


def compact(store: str | Path, *, small: int = SMALL, most_rows: int = MOST_ROWS, note: Callable[[str], None] | None = None) -> Compacted:
    """Merge a store's small files. Readers and writers may be at work; in a folder a second merge is refused, in a bucket there must be none.

    Args:
        small: bytes below which a file is merged with others.
        most_rows: of a merged file.
        note: is told of files that are not whole.

    Raises:
        GemmgenError: another process merges, or files cannot be written or removed. No row is lost or doubled.
    """
    place = place_of(store)
    tell = note or (lambda text: None)
    merged, made, rows, torn = 0, [], 0, {}
    with place.alone():
        listing = Lister(place)()
        for name in listing.replaced:
            place.remove(name)
        torn.update(listing.torn)
        names = [name for name, size in listing.files.items() if size < small]
        for group, table in _groups(place, names, most_rows, torn):
            if len(group) > 1:
                name = f"{stamp()}-{writer_id()}{MERGED}"
                place.put(name, content_of(table, replaces={old: listing.files[old] for old in group}, statistics=True))
                for old in group:
                    place.remove(old)
                made.append(name)
                merged, rows = merged + len(group), rows + table.num_rows
    for name, why in torn.items():
        tell(f"{place.where}/{name} {TORN}: {why}")
    return Compacted(merged, tuple(made), rows, len(listing.replaced), tuple(torn))


def _groups(place: Place, names: Sequence[str], most_rows: int, torn: dict[str, str]) -> Iterator[tuple[list[str], pyarrow.Table]]:
    """Names of files, and their rows together. What proves damaged goes to `torn`."""
    arrow = library("pyarrow")
    group: list[str] = []
    tables: list[pyarrow.Table] = []
    rows, columns = 0, arrow.schema([])

    def read(name: str) -> pyarrow.Table | str:
        try:
            table = read_table(place, name)
            return unfit(table.schema) or _as_rows_have(table)
        except (OSError, ValueError, arrow.ArrowException) as error:
            return str(error)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for first in range(0, len(names), _AT_ONCE):
            ahead = names[first:first + _AT_ONCE]
            for name, table in zip(ahead, pool.map(read, ahead)):
                if isinstance(table, str):
                    torn[name] = table
                    continue
                both = _united(columns, table.schema)
                if group and (rows + table.num_rows > most_rows or both is None):
                    yield group, _together(tables)
                    group, tables, rows, both = [], [], 0, None
                columns = both or table.schema
                group.append(name)
                tables.append(table)
                rows += table.num_rows
    if group:
        yield group, _together(tables)


def _as_rows_have(table: pyarrow.Table) -> pyarrow.Table:
    """The table with the columns of Row in Row's types."""
    columns = {one.name: one.type for one in schema()}
    for at, one in enumerate(table.schema):
        if (wanted := columns.get(one.name, one.type)) != one.type:
            table = table.set_column(at, one.with_type(wanted), table.column(at).cast(wanted, safe=False))
    return table


def _united(columns: pyarrow.Schema, more: pyarrow.Schema) -> pyarrow.Schema | None:
    """The columns of both; None where they are of types that do not go together, as those that Row does not know may be."""
    arrow = library("pyarrow")
    try:
        return arrow.unify_schemas([columns, more.remove_metadata()], promote_options="permissive")
    except arrow.ArrowException:
        return None


def _together(tables: Sequence[pyarrow.Table]) -> pyarrow.Table:
    """One table with the columns of all, and the newest schema's version."""
    arrow = library("pyarrow")
    table = arrow.concat_tables(tables, promote_options="permissive").combine_chunks()
    newest = max((int((one.schema.metadata or {}).get(VERSION_KEY, b"0")) for one in tables), default=0)
    # Files of other versions may lack columns that have a value in every row of this one's.
    columns = [one.with_nullable(one.nullable or bool(column.null_count)) for one, column in zip(table.schema, table.columns)]
    return table.cast(arrow.schema(columns, metadata={VERSION_KEY: str(newest).encode()}))
