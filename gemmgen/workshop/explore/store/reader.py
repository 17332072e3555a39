"""Questions to a store, in SQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import MISSING, Field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmgen.errors import GemmgenError, UnknownName
from gemmgen.workshop.explore.extras import library
from gemmgen.workshop.explore.store.listing import TORN, Lister, Listing
from gemmgen.workshop.explore.store.parquet import read_table, unfit
from gemmgen.workshop.explore.store.places import SMALL, Folder, place_of
from gemmgen.workshop.explore.store.questions import questions
from gemmgen.workshop.explore.store.select import check_select, refused
from gemmgen.workshop.explore.trial_row import ERRORS, LIMITS, Row, schema

if TYPE_CHECKING:
    import duckdb
    import pyarrow

SECONDS, MEMORY = 60.0, 4 << 30
"""What a question may take, and the bytes that it and its answer may."""
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
KNOWN_TIMES = """
    WITH timed AS MATERIALIZED (
        SELECT DISTINCT identity, gpu, m, n, k, layout FROM latest WHERE kind = 'kernel' AND verdict = 'timed' AND seconds > 0 AND identity <> ''
    )
    SELECT *, CASE verdict WHEN 'timed' THEN 'measured' ELSE 'predicted' END AS times,
           CASE verdict WHEN 'timed' THEN seconds ELSE predicted_seconds END AS known_seconds,
           CASE verdict WHEN 'timed' THEN error ELSE coalesce(error, predicted_error) END AS known_error
    FROM latest AS untimed
    WHERE (verdict = 'timed' AND seconds > 0) OR (verdict IN ('modelled', 'compiled', 'right') AND kind = 'kernel' AND predicted_seconds > 0 AND NOT EXISTS (
        FROM timed WHERE timed.identity = untimed.identity AND timed.gpu = untimed.gpu AND timed.m = untimed.m AND timed.n = untimed.n AND timed.k = untimed.k
        AND timed.layout = untimed.layout
    ))
"""
"""Of `latest` the rows with a measured time, and with a predicted one those of kernels that were not timed there: `times` says which."""
_TRIES = 5
"""How often a question is asked again because files of it were merged away meanwhile, or proved damaged."""
_WITHOUT = {"autoinstall_known_extensions": False, "autoload_known_extensions": False, "allow_community_extensions": False}


class _Unfit(Exception):
    """Files hold columns of other types, and count no more from now on."""


class Store:
    """What was tried, to be asked.

    SQL is DuckDB's, of the view `trials`, which has the columns of `gemmgen.workshop.explore.trial_row` and those that a newer gemmgen wrote, of `latest`,
    which has the newest row of each trial alone, and of `known_times`, which adds to `latest` the time that a kernel is known by. `every_row` has the rows
    of what was rejected before it became a trial as well. SQL is run without access to other files, the network or extensions, and can only select.

    Args:
        store: a folder or a URI.
        where: a condition, in SQL, on the rows that count.
        note: is told of files that are left out.
        threads: of a question; default: as many as there are CPUs.
        seconds, memory: what a question may take, and the bytes that it and its answer may have: one that is endless ends with an error.
    """

    def __init__(
        self, store: str | Path, where: str = "", note: Callable[[str], None] | None = None, threads: int | None = None, seconds: float = SECONDS,
        memory: int = MEMORY,
    ):
        self.place = place_of(store)
        self.where, self.threads, self.seconds, self.memory = where, threads, seconds, memory
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
            GemmgenError: the SQL is wrong, is no SELECT, asks for more than the store, or takes more than `seconds` or `memory`; or the store
                cannot be read.
        """
        duck, arrow = library("duckdb"), library("pyarrow")
        of_the_sql = (duck.ParserException, duck.CatalogException, duck.BinderException, duck.NotSupportedError, duck.PermissionException, duck.DataError)

        def of_a_file(error: Exception) -> bool:
            return not isinstance(error, of_the_sql) or "while reading file" in str(error)

        check_select(sql)
        for left in reversed(range(_TRIES)):
            listing = self.listing()
            if self._connection is None or listing != self._listing:
                self.close()
            try:
                if self._connection is None:
                    self._connection, self._listing = self._connected(listing), listing
                return self._within(self._connection, lambda connection: self._answer(connection.sql(sql, params=parameters or None), sql))
            except _Unfit:
                self.close()
            except (duck.Error, OSError, arrow.ArrowException) as error:
                if "Out of Memory Error" in str(error):
                    raise self._too_much(sql) from None
                # A file may have gone since it was listed, or be damaged between a sound beginning and end: only reading it shows that.
                self.close()
                if not left or not (self._gone(listing) or of_a_file(error) and self._damaged(listing)):
                    raise refused(sql, error) from None
        raise AssertionError

    def _within(self, connection: duckdb.DuckDBPyConnection, asked: Callable[[duckdb.DuckDBPyConnection], pyarrow.Table]) -> pyarrow.Table:
        """The answer, asked for in a thread of its own: DuckDB would look at neither the clock nor Ctrl-C before it has ended."""
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(asked, connection)
            try:
                end = time.monotonic() + self.seconds
                while time.monotonic() < end and not answer.done():
                    wait([answer], min(0.1, self.seconds))  # and then look for Ctrl-C
                if not answer.done():
                    raise GemmgenError("SQL", f"took more than {self.seconds:g} s, and was ended", needs=f"an answer within {self.seconds:g} s",
                                       remedy="a question that ends, a narrower WHERE, or gemmgen study ask --seconds for more time")
            finally:
                while not answer.done():  # again, since one that comes before the question begins is not heard
                    connection.interrupt()
                    wait([answer], 0.05)
            return answer.result()

    def _answer(self, found: duckdb.DuckDBPyRelation | None, sql: str) -> pyarrow.Table:
        """All of an answer, as long as it is no larger than `memory`."""
        reader = getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader
        batches, size = [], 0
        with reader(1 << 16) as answer:
            for batch in answer:
                size += batch.nbytes
                if size > self.memory:
                    raise self._too_much(sql)
                batches.append(batch)
            return library("pyarrow").Table.from_batches(batches, answer.schema)

    def _too_much(self, sql: str) -> GemmgenError:
        limit = f"{self.memory >> 20} MiB"
        return GemmgenError("SQL", f"takes more than {limit} of memory", got=sql, needs=f"a question whose sums and answer fit into {limit}",
                            remedy="fewer columns, a LIMIT, a narrower WHERE, or gemmgen study ask --memory for more")

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
        table = self.query(f"SELECT {names} FROM every_row" + (f" WHERE {where}" if where else ""), parameters)
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
                    if why := unfit(read_table(self.place, name).schema):
                        raise ValueError(why)
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
        limits = (f"memory_limit = '{self.memory >> 10}KiB'", "temp_directory = ''")  # without a folder nothing fills the disk instead
        for setting in ("python_enable_replacements = false", "parquet_metadata_cache = true", *limits):
            connection.execute(f"SET {setting}")
        stored = "stored"
        if listing.files and self._native:
            stored = self._read_parquet(list(listing.files))
            connection.execute(f"SET allowed_paths = {_sql([self._path(name) for name in listing.files])}")
        else:
            connection.register(stored, self._dataset(list(listing.files)) if listing.files else schema().empty_table())
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        there = {name.lower(): kind for name, kind, *_ in connection.execute(f"DESCRIBE SELECT * FROM {stored}").fetchall()}
        kinds = {arrow.string(): "VARCHAR", arrow.int64(): "BIGINT", arrow.float64(): "DOUBLE"}
        wanted = {one.name: kinds.get(one.type, "TIMESTAMP WITH TIME ZONE") for one in schema()}
        if any(name in there and not _holds(kind, there[name]) for name, kind in wanted.items()) and self._damaged(listing):
            connection.close()
            raise _Unfit
        columns = [_column(name, kind, there.get(name)) for name, kind in wanted.items()]
        columns += [_quoted(name) for name in there if name not in wanted]
        possible = [f"coalesce({name} BETWEEN {LIMITS[name][0]} AND {LIMITS[name][1]}, true)" for name in "mnk" if name in there]
        every = f"SELECT {', '.join(columns)} FROM {stored} WHERE {' AND '.join(possible) or 'true'}"
        where = f" WHERE ({self.where}\n)" if self.where else ""
        if where:
            check_select(f"SELECT * FROM trials{where}")
        connection.execute(f"CREATE VIEW every_row AS SELECT * FROM ({every}){where}")
        connection.execute("CREATE VIEW trials AS SELECT * FROM every_row WHERE kind IS DISTINCT FROM 'space'")
        connection.execute(f"CREATE VIEW latest AS {LATEST}")
        connection.execute(f"CREATE VIEW known_times AS {KNOWN_TIMES}")
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


def _holds(kind: str, stored: str) -> bool:
    """Whether values of a column's type in a file are some of that type of a row."""
    integers = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
    held = {"BIGINT": integers, "DOUBLE": ("DOUBLE", "FLOAT", *integers)}.get(kind, (kind,))
    return stored in (*held, '"NULL"') or kind.startswith("TIMESTAMP") and stored.startswith("TIMESTAMP") and not stored.endswith("]")


def _column(name: str, kind: str, stored: str | None) -> str:
    """A column of `trials` in SQL: of its type, and without values that are none (`LIMITS` of gemmgen.workshop.explore.trial_row)."""
    quoted = _quoted(name)
    if stored is None:
        return f"NULL::{kind} AS {quoted}"
    value = quoted if stored == kind else f"TRY_CAST({quoted} AS {kind})"
    if name in ERRORS:
        value = f"CASE WHEN {value} >= 0 AND NOT isnan({value}) THEN {value} WHEN {quoted} IS NOT NULL THEN 'inf'::DOUBLE END"
    elif name in LIMITS and name not in ("m", "n", "k"):  # rows without a size that can be are left out
        value = f"CASE WHEN {value} BETWEEN {LIMITS[name][0]!r} AND {LIMITS[name][1]!r} THEN {value} END"
    elif kind.startswith("TIMESTAMP"):
        value = f"CASE WHEN {value} BETWEEN '0001-01-02 00:00:00+00' AND '9999-12-30 00:00:00+00' THEN {value} END"  # what Python has
    return f"{value} AS {quoted}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _absent(column: Field[Any]) -> Any:
    """What a row has where its file has no such column: the default, and of what has none, nothing and the year 1970."""
    return column.default if column.default is not MISSING else {"str": "", "int": 0}.get(str(column.type), datetime.fromtimestamp(0, UTC))


def _sql(values: Sequence[str]) -> str:
    """A list of strings as SQL."""
    return "[" + ", ".join("'" + value.replace("'", "''") + "'" for value in values) + "]"
