"""Whether SQL only selects. DuckDB has no connection that may read files and write none, so what a question may hold is listed here."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cache
from typing import Any

from gemmgen.errors import GemmgenError
from gemmgen.workshop.explore.extras import library

NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
"""What a statement may be made of; COPY and INSERT hide in WITH as well."""
FUNCTIONS = frozenset({"unnest", "range", "generate_series", "json_each", "json_tree"})
"""Functions that FROM may call; others open files, or run SQL that they are given as text."""


def check_select(sql: str) -> None:
    """Let through one SELECT that reads nothing but tables and views.

    Raises:
        GemmgenError: it is another statement, or several, or no SQL, or opens files.
    """
    duck = library("duckdb")
    try:
        statements = duck.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duck.StatementType.SELECT:
            kinds = ", ".join(one.type.name for one in statements) or "nothing"
            raise GemmgenError("SQL", "is not one SELECT", got=sql, needs="one SELECT (or DESCRIBE, SUMMARIZE, VALUES), since a store is only read", has=kinds)
        with _parser(os.getpid()).cursor() as parser:
            tree = json.loads(parser.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchone()[0])
    except duck.Error as error:
        raise refused(sql, error) from None
    except RecursionError:
        raise GemmgenError("SQL", "is nested too deeply", got=sql, needs="a query of fewer levels") from None
    if tree["error"]:
        raise GemmgenError("SQL", "is not one SELECT", got=sql, needs="a statement that DuckDB's json_serialize_sql takes", has=tree["error_message"])
    for part in _parts(tree):
        kind = str(part.get("type", ""))
        if kind.endswith("_NODE") and kind not in NODES:
            raise GemmgenError("SQL", "does more than select", got=sql, needs="SELECT alone, in WITH as well, since a store is only read", has=kind)
        if kind == "TABLE_FUNCTION" and (name := str(part["function"].get("function_name", "")).lower()) not in FUNCTIONS:
            raise GemmgenError("SQL", f"reads from {name}(), and not from the store", got=sql,
                               needs=f"the view trials; of functions after FROM: {', '.join(sorted(FUNCTIONS))}")


@cache
def _parser(process: int) -> Any:
    """A database without anything, to parse with: starting one takes longer than most questions."""
    return library("duckdb").connect(":memory:", config={"threads": 1})


def refused(sql: str, error: Exception) -> GemmgenError:
    """What DuckDB says of a query."""
    return GemmgenError("SQL", "cannot be answered", got=sql, needs=str(error).strip(),
                        remedy="gemmgen study ask STORE \"describe trials\" lists the columns; quote \"at\", which is a word of SQL")


def _parts(tree: Any) -> Iterator[dict[str, Any]]:
    """All objects of a JSON value."""
    left = [tree]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            yield one
            left += one.values()
        elif isinstance(one, list):
            left += one
