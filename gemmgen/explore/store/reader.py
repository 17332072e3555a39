"""Questions to a store, in SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmgen.errors import GemmgenError, UnknownName
from gemmgen.explore.row import Row, schema
from gemmgen.explore.store.listing import TORN, Lister, Listing
from gemmgen.explore.store.parquet import read_table
from gemmgen.explore.libraries import library
from gemmgen.explore.store.places import SMALL, Folder, place_of
from gemmgen.explore.store.questions import questions
from gemmgen.explore.store.select import check_select, refused

if TYPE_CHECKING:
    import duckdb
    import pyarrow

MANY_FILES = 500
"""Small files, of which each costs a question about a millisecond."""
LATEST = """
    WITH again AS MATERIALIZED (SELECT trial FROM trials GROUP BY trial HAVING count(*) > 1)
    SELECT * FROM trials WHERE NOT EXISTS (FROM again WHERE again.trial = trials.trial)
    UNION ALL SELECT * FROM (
        SELECT * FROM trials WHERE trial IN (FROM again) QUALIFY row_number() OVER (PARTITION BY trial ORDER BY "at" DESC) = 1
    )
"""
"""The newest row of each trial; in two parts, since few are there twice and the rest need no sorting."""
_TRIES = 5
"""How often a question is asked again because files of it were merged away meanwhile, or proved damaged."""
_WITHOUT = {"autoinstall_known_extensions": False, "autoload_known_extensions": False, "allow_community_extensions": False}


class Store:
    """What was tried, to be asked.

    SQL is DuckDB's, of the view `trials`, which has the columns of gemmgen.explore.row.Row and those that a newer gemmgen wrote, and of `latest`,
    which has the newest row of each trial alone. It is run without access to other files, the network or extensions, and can only select.

    Args:
        store: a folder or a URI.
        where: a condition, in SQL, on the rows that count.
        note: is told of files that are left out.
        threads: of a question; default: as many as there are CPUs.
    """

    def __init__(self, store: str | Path, where: str = "", note: Callable[[str], None] | None = None, threads: int | None = None):
        self.place = place_of(store)
        self.where, self.threads = where, threads
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

    def many_files(self) -> bool:
        """Whether merging them would make questions noticeably faster."""
        return self._listing is not None and sum(size < SMALL for size in self._listing.files.values()) > MANY_FILES

    def query(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> pyarrow.Table:
        """What one SELECT gives.

        Args:
            parameters: for `?`, or by name for `$name`.

        Raises:
            GemmgenError: the SQL is wrong, is no SELECT, or asks for more than the store; or the store cannot be read.
        """
        duck, arrow = library("duckdb"), library("pyarrow")
        of_the_sql = (duck.ParserException, duck.CatalogException, duck.BinderException, duck.NotSupportedError, duck.PermissionException, duck.DataError)
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
            except (duck.Error, OSError, arrow.ArrowException) as error:
                # A file may have gone since it was listed, or be damaged between a sound beginning and end: only reading it shows that.
                self.close()
                if not left or not (self._gone(listing) or not isinstance(error, of_the_sql) and self._damaged(listing)):
                    raise refused(sql, error) from None
        raise AssertionError

    def answer(self, question: str, **parameters: str) -> pyarrow.Table:
        """What a ready-made question gives.

        Args:
            question: one of `questions()`.
            parameters: those that it names.

        Raises:
            GemmgenError: there is no such question, or it needs other parameters; and as `query`.
        """
        known = questions()
        if question not in known:
            raise UnknownName("Store.answer", "question", question, known)
        asked = known[question]
        if set(asked.parameters) != parameters.keys():
            raise GemmgenError(f"question {question}", "needs other parameters", got=", ".join(sorted(parameters)) or "none",
                               needs=", ".join(asked.parameters) or "none")
        return self.query(asked.sql, parameters)

    def rows(self, where: str = "", parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[Row]:
        """Trials as rows, oldest files first.

        Args:
            where: a condition in SQL.
            parameters: of the condition.
        """
        names = ", ".join(f'"{one.name}"' for one in fields(Row))
        table = self.query(f"SELECT {names} FROM trials" + (f" WHERE {where}" if where else ""), parameters)
        columns = []
        for one in fields(Row):
            values = table[one.name].to_pylist()
            if table[one.name].null_count and "None" not in str(one.type):  # an older file lacks columns of today's
                values = [_absent(one) if value is None else value for value in values]
            columns.append(values)
        return [Row(*values) for values in zip(*columns)]

    def trials(self) -> set[str]:
        """The identities of what was tried; none where there is no store yet."""
        return set(self.query("SELECT DISTINCT trial FROM trials")["trial"].to_pylist()) if self.place.exists() else set()

    def close(self) -> None:
        """Let go of what the last question loaded; the next loads it again."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _gone(self, listing: Listing) -> bool:
        """Whether files were merged away since they were listed."""
        return not listing.files.keys() <= self.place.names().keys()

    def _damaged(self, listing: Listing) -> bool:
        """Read all files to their ends, after something could not be read; whether one of them is no longer counted."""
        duck, arrow = library("duckdb"), library("pyarrow")
        found = False
        with duck.connect(":memory:", config=_WITHOUT) as connection:
            for name, size in listing.files.items():
                try:
                    read_table(self.place, name)
                    if self._native:
                        connection.sql(f"SELECT * FROM {self._read_parquet([name])}").to_arrow_table()
                except FileNotFoundError:
                    found = True
                except (OSError, ValueError, arrow.ArrowException, duck.Error) as error:
                    self._lister.torn(name, size, str(error))
                    found = True
        return found

    @property
    def _native(self) -> bool:
        """Whether DuckDB itself reads the files: not in buckets, nor in a folder whose name it would take for a pattern."""
        return isinstance(self.place, Folder) and not set("*?[") & set(str(self.place.path))

    def _read_parquet(self, names: Sequence[str]) -> str:
        return f"read_parquet({_sql([self._path(name) for name in names])}, union_by_name = true, hive_partitioning = false)"

    def _path(self, name: str) -> str:
        return f"{self.place.path}/{name}"

    def _connected(self, listing: Listing) -> duckdb.DuckDBPyConnection:
        """A database that has nothing but the view."""
        duck, arrow = library("duckdb"), library("pyarrow")
        connection = duck.connect(":memory:", config=_WITHOUT | ({"threads": self.threads} if self.threads else {}))
        for setting in ("python_enable_replacements = false", "parquet_metadata_cache = true"):
            connection.execute(f"SET {setting}")
        stored = "stored"
        if listing.files and self._native:
            stored = self._read_parquet(list(listing.files))
            connection.execute(f"SET allowed_paths = {_sql([self._path(name) for name in listing.files])}")
        else:
            connection.register(stored, self._dataset(list(listing.files)) if listing.files else schema().empty_table())
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        there = {name for name, *_ in connection.execute(f"DESCRIBE SELECT * FROM {stored}").fetchall()}
        kinds = {arrow.string(): "VARCHAR", arrow.int64(): "BIGINT", arrow.float64(): "DOUBLE"}
        lacking = [f"NULL::{kinds.get(one.type, 'TIMESTAMPTZ')} AS \"{one.name}\"" for one in schema() if one.name not in there]
        every = f"SELECT {', '.join(['*', *lacking])} FROM {stored}"
        where = f" WHERE ({self.where}\n)" if self.where else ""
        if where:
            check_select(f"SELECT * FROM trials{where}")
        connection.execute(f"CREATE VIEW trials AS SELECT * FROM ({every}){where}")
        connection.execute(f"CREATE VIEW latest AS {LATEST}")
        return connection

    def _dataset(self, names: Sequence[str]) -> Any:
        """The files as pyarrow reads them, with the columns of all."""
        arrow, datasets, parquet = library("pyarrow"), library("pyarrow.dataset"), library("pyarrow.parquet")
        schemas = []
        for name in names:
            with parquet.ParquetFile(self.place.open(name)) as file:
                schemas.append(file.schema_arrow)
        return datasets.dataset([self._path(name) for name in names], schema=arrow.unify_schemas(schemas, promote_options="permissive"),
                                format="parquet", filesystem=getattr(self.place, "files", None))


def _absent(column: Field[Any]) -> Any:
    """What a row has where its file has no such column: the default, and of what has none, nothing and the year 1970."""
    return column.default if column.default is not MISSING else {"str": "", "int": 0}.get(str(column.type), datetime.fromtimestamp(0, UTC))


def _sql(values: Sequence[str]) -> str:
    """A list of strings as SQL."""
    return "[" + ", ".join("'" + value.replace("'", "''") + "'" for value in values) + "]"
