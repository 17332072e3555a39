"""Questions to a store, in SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmgen.errors import GemmgenError
from gemmgen.explore.row import Row, row_from, schema
from gemmgen.explore.store.listing import TORN, Lister, Listing
from gemmgen.explore.store.places import Folder, library, place_of
from gemmgen.explore.store.select import check_select, refused

if TYPE_CHECKING:
    import duckdb
    import pyarrow

MANY_FILES = 1000
"""Small files of which each costs a question about a millisecond."""
_TRIES = 5
"""How often a question is asked again because files of it were merged away meanwhile, or proved damaged."""
_WITHOUT = {"autoinstall_known_extensions": False, "autoload_known_extensions": False, "allow_community_extensions": False}
_OPTIONAL = frozenset(one for one, kind in Row.__annotations__.items() if "None" in kind)


class Store:
    """What was tried, to be asked.

    SQL is DuckDB's, of the view `trials`, which has the columns of gemmgen.explore.row.Row and those that a newer gemmgen wrote. It is run
    without access to other files, the network or extensions, and can only select.

    Args:
        store: a folder or a URI.
        where: a condition, in SQL, on the rows that count.
        note: is told of files that are left out.
    """

    def __init__(self, store: str | Path, where: str = "", note: Callable[[str], None] | None = None):
        self.place = place_of(store)
        self.where = where
        self._note = note or (lambda text: None)
        self._lister = Lister(self.place)
        self._listing: Listing | None = None
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._noted: set[str] = set()

    def listing(self) -> Listing:
        """The files that count now.

        Raises:
            GemmgenError: there is no such store, or it cannot be read.
        """
        if not self.place.exists():
            raise GemmgenError(self.place.where, "is no store of trials", needs="a folder or bucket that a study wrote to")
        found = self._lister()
        for name, why in found.torn.items():
            if name not in self._noted:
                self._noted.add(name)
                self._note(f"{self.place.where}/{name} {TORN}: {why}")
        return found

    def query(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> pyarrow.Table:
        """What one SELECT gives.

        Args:
            parameters: for `?`, or by name for `$name`.

        Raises:
            GemmgenError: the SQL is wrong, is no SELECT, or asks for more than the store; or the store cannot be read.
        """
        duck = library("duckdb")
        check_select(sql)
        for left in reversed(range(_TRIES)):
            listing = self.listing()
            if self._connection is None or listing != self._listing:
                self.close()
            try:
                if self._connection is None:
                    self._connection, self._listing = self._connected(listing), listing
                found = self._connection.sql(sql, params=parameters or None)
                return getattr(found, "to_arrow_table", found.fetch_arrow_table)()
            except (duck.Error, OSError) as error:
                # A file may have gone since it was listed, or be damaged between a sound beginning and end: only reading it shows that.
                self.close()
                if not left or not self._may_be_a_files(error) or not self._lister.look_closer(listing):
                    raise refused(sql, error) from None
        raise AssertionError

    def rows(self, where: str = "", parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[Row]:
        """Trials as rows, oldest files first.

        Args:
            where: a condition in SQL.
            parameters: of the condition.
        """
        table = self.query("SELECT * FROM trials" + (f" WHERE {where}" if where else ""), parameters)
        # An older file lacks columns of today's: those have their defaults.
        return [row_from({name: value for name, value in one.items() if value is not None or name in _OPTIONAL}) for one in table.to_pylist()]

    def trials(self) -> set[str]:
        """The identities of what was tried; none where there is no store yet."""
        return set(self.query("SELECT DISTINCT trial FROM trials")["trial"].to_pylist()) if self.place.exists() else set()

    def close(self) -> None:
        """Let go of what the last question loaded; the next loads it again."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    @staticmethod
    def _may_be_a_files(error: Exception) -> bool:
        duck = library("duckdb")
        return not isinstance(error, (duck.ParserException, duck.CatalogException, duck.BinderException))

    def _connected(self, listing: Listing) -> duckdb.DuckDBPyConnection:
        """A database that has nothing but the view."""
        duck, arrow = library("duckdb"), library("pyarrow")
        connection = duck.connect(":memory:", config=_WITHOUT)
        for setting in ("python_enable_replacements = false", "parquet_metadata_cache = true"):
            connection.execute(f"SET {setting}")
        stored = "stored"
        if listing.files and isinstance(self.place, Folder) and not set("*?[") & set(str(self.place.path)):
            paths = [str(self.place.path / name) for name in listing.files]
            connection.execute(f"SET allowed_paths = {_sql(paths)}")
            connection.execute("SET enable_external_access = false")
            stored = f"read_parquet({_sql(paths)}, union_by_name = true, hive_partitioning = false)"
        else:  # a bucket, or a folder whose name DuckDB would take for a pattern
            connection.execute("SET enable_external_access = false")
            connection.register(stored, self._dataset(list(listing.files)) if listing.files else schema().empty_table())
        connection.execute("SET lock_configuration = true")
        there = {name for name, *_ in connection.execute(f"DESCRIBE SELECT * FROM {stored}").fetchall()}
        kinds = {arrow.string(): "VARCHAR", arrow.int64(): "BIGINT", arrow.float64(): "DOUBLE"}
        lacking = [f"NULL::{kinds.get(one.type, 'TIMESTAMPTZ')} AS \"{one.name}\"" for one in schema() if one.name not in there]
        every = f"SELECT {', '.join(['*', *lacking])} FROM {stored}"
        where = f" WHERE ({self.where}\n)" if self.where else ""
        check_select(f"SELECT * FROM trials{where}")
        connection.execute(f"CREATE VIEW trials AS SELECT * FROM ({every}){where}")
        return connection

    def _dataset(self, names: Sequence[str]) -> Any:
        """The files as pyarrow reads them, with the columns of all."""
        arrow, datasets, parquet = library("pyarrow"), library("pyarrow.dataset"), library("pyarrow.parquet")
        schemas = []
        for name in names:
            with parquet.ParquetFile(self.place.open(name)) as file:
                schemas.append(file.schema_arrow)
        folder = str(self.place.path)
        return datasets.dataset([f"{folder}/{name}" for name in names], schema=arrow.unify_schemas(schemas, promote_options="permissive"),
                                format="parquet", filesystem=getattr(self.place, "files", None))


def _sql(values: Sequence[str]) -> str:
    """A list of strings as SQL."""
    return "[" + ", ".join("'" + value.replace("'", "''") + "'" for value in values) + "]"
