"""`gemmgen study ask`: what a store of trials holds."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gemmgen.cli.output import emit, emit_json, note, write_paths
from gemmgen.cli.verb import SPACE, Json, verb
from gemmgen.errors import EXIT_OK, SpecError

if TYPE_CHECKING:
    from gemmgen.workshop.explore.regret import Regret

SHOWN = 200
"""Rows that a person's table has by default."""


@verb(
    SPACE,
    "gemmgen study ask study.store --best",
    "gemmgen study ask study.store --frontier --where \"gpu = 'h200' and m = 4096\" --csv frontier.csv",
    "gemmgen study ask study.store \"select scheme, count(*), min(seconds) from trials where verdict = 'timed' group by scheme\"",
    "gemmgen study ask s3://bucket/study --changes 0.1.0 0.2.0 --json",
    "gemmgen study ask study.store --export-t4 study.t4.json",
    name="study ask", was={"results": {}, "explore --regret": {}},
)
def results(
    store: Annotated[str, typer.Argument(metavar="STORE", help="A folder, or a bucket's URI such as s3://bucket/folder.")],
    sql: Annotated[str | None, typer.Argument(metavar="[SQL]", help="One SELECT, in DuckDB's SQL, of trials, or of latest: each trial's newest row.")] = None,
    best: Annotated[bool, typer.Option("--best", help="The fastest kernel of each GPU, layout and size.")] = False,
    frontier: Annotated[bool, typer.Option("--frontier", help="Error against time, without what something else is better in both.")] = False,
    model: Annotated[bool, typer.Option("--model", help="Measured time over predicted, by GPU and scheme.")] = False,
    first_choice: Annotated[bool, typer.Option("--first-choice", help="The model's first choice against the fastest.")] = False,
    changes: Annotated[tuple[str, str] | None, typer.Option("--changes", metavar="BEFORE AFTER", help=(
        "What is faster, slower, newly refused or wrong between two versions of gemmgen, or commits."))] = None,
    verdicts: Annotated[bool, typer.Option("--verdicts", help="How trials ended, and why.")] = False,
    regret: Annotated[bool, typer.Option("--regret", help=(
        "Replay every strategy on the measurements, and report how far its best is behind the best of all."))] = False,
    studies: Annotated[bool, typer.Option("--studies", help="Which studies the store holds; the default.")] = False,
    where: Annotated[str, typer.Option("--where", metavar="CONDITION", help="In SQL: the only rows that count, for ready-made questions too.")] = "",
    show_sql: Annotated[bool, typer.Option("--sql", help="Print a ready-made question's SQL instead of its answer.")] = False,
    table: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write the answer there, as CSV.")] = None,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Rows that the printed table has at most; --csv and --json have all.")] = SHOWN,
    seconds: Annotated[float, typer.Option("--seconds", min=0.001, max=1e6, help="What a question may take.")] = 60.0,
    memory: Annotated[int, typer.Option("--memory", metavar="MIB", min=16, max=1 << 24, help="What a question and its answer may take.")] = 4096,
    merge: Annotated[bool, typer.Option("--merge", help="First merge the store's small files; others may read and write it meanwhile.")] = False,
    import_t4: Annotated[Path | None, typer.Option("--import-t4", metavar="FILE", help=(
        "First add the results of a T4 file, as Kernel Tuner writes them."))] = None,
    facts: Annotated[list[str] | None, typer.Option("--with", metavar="NAME=VALUE", help=(
        "What the T4 file does not say of its results, such as gpu=h200, m=4096, kernel=clblast."))] = None,
    export_t4: Annotated[Path | None, typer.Option("--export-t4", metavar="FILE", help="Write the rows as T4 results, instead of an answer.")] = None,
    as_json: Json = False,
) -> int:
    """Ask a store of trials.

    Questions are SQL, or one of the ready-made ones; they can only read the
    store. Files that are not whole, as after a crash, are left out with a note.
    """
    from gemmgen.workshop.explore.store import Store, compact
    from gemmgen.workshop.explore.store.questions import questions

    asked = {"best": best, "frontier": frontier, "model": model, "first-choice": first_choice, "changes": changes, "verdicts": verdicts, "regret": regret,
             "studies": studies}
    names = [name for name, given in asked.items() if given]
    if len(names) + bool(sql) > 1:
        raise SpecError("gemmgen study ask", "answers one question at a time", got=", ".join([*(["SQL"] if sql else []), *(f"--{name}" for name in names)]),
                        needs="one of them", remedy="gemmgen study ask --help")
    if regret:
        return _regret(store, where, as_json)
    name = "" if sql else names[0] if names else "studies"
    parameters = dict(zip(("before", "after"), changes or ()))
    if show_sql:
        if sql:
            raise SpecError("--sql", "prints a ready-made question", got="SQL of your own", needs="--best or another", remedy="gemmgen study ask --help")
        emit_json({"question": name, "sql": questions()[name].sql}) if as_json else emit(questions()[name].sql)
        return EXIT_OK

    def tell(text: str) -> None:
        note(text, quiet=as_json)

    if facts and not import_t4:
        raise SpecError("--with", "belongs to --import-t4", got=", ".join(facts), needs="--import-t4 FILE", remedy="gemmgen study ask --help")
    done: dict[str, Any] = {}
    if import_t4:
        from gemmgen.workshop.explore.store.t4 import import_file

        done["imported"] = import_file(import_t4, store, _facts(facts or []))
        tell(f"{done['imported']} results of {import_t4} are in {store}")
    if merge:
        merged = compact(store, note=tell)
        done["merged"] = {"files": merged.merged, "into": len(merged.made), "rows": merged.rows}
        tell(f"merged {merged.merged} files into {len(merged.made)}")
    opened = Store(store, where=where, note=tell, seconds=seconds, memory=memory << 20)
    if export_t4:
        from gemmgen.workshop.explore.store.t4 import export_file

        done["exported"] = export_file(opened, export_t4)
        emit_json(done) if as_json else emit(f"wrote {export_t4}: {done['exported']} results")
        return EXIT_OK
    answer = opened.answer(name, **parameters) if name else opened.query(sql or "")
    if not answer.num_rows:
        if changes:
            _told_apart(opened, changes)
        tell(f"no row: {_why_empty(opened, name, where)}")
    if opened.many_files():
        tell(f"{store} has many small files, of which each takes time: gemmgen study ask {store} --merge")
    if table:
        write_paths({table: _csv(answer)})
    if as_json:
        emit_json([dict(zip(answer.column_names, map(_plain, one))) for one in _lines(answer)])
    elif table:
        emit(f"wrote {table}: {answer.num_rows} rows")
    else:
        emit(_text(answer, rows))
        if answer.num_rows > rows:
            tell(f"{answer.num_rows - rows} more rows: --rows, --csv FILE or --json")
    return EXIT_OK


def _regret(store: str, where: str, as_json: bool) -> int:
    """`study ask --regret`: the exit code; raises as `explore.regret.regret`."""
    from gemmgen.workshop.explore.regret import regret
    from gemmgen.workshop.explore.store import Store

    found = regret(Store(store, where=where).rows())
    emit_json(regret_dict(found)) if as_json else emit(regret_text(found))
    return EXIT_OK


def regret_text(found: Regret) -> str:
    """The table of regret, in percent."""
    from gemmgen.cli.show import table

    rows = [(name, *(f"{100 * value:.2f} %" if value < float("inf") else "-" for value in values)) for name, values in found.table.items()]
    return "\n".join([
        f"regret after so many trials of each of {found.problems} problems, over the best of {found.rows} timed kernels "
        f"(at most {found.largest} of a problem), geometric mean",
        "", table(("strategy", *map(str, found.counts)), rows), "", f"least regret: {found.best}",
    ])


def regret_dict(found: Regret) -> dict[str, Any]:
    """The same as plain data."""
    return {"counts": list(found.counts), "problems": found.problems, "rows": found.rows, "largest": found.largest, "best": found.best,
            "regret": {name: list(values) for name, values in found.table.items()}}


def _facts(given: list[str]) -> dict[str, str]:
    """`m=4096` each, by name.

    Raises:
        SpecError: anything else.
    """
    for one in given:
        if not one.partition("=")[0] or "=" not in one:
            raise SpecError("--with", "is not a name and a value", got=one, needs="NAME=VALUE", remedy="--with gpu=h200")
    return dict(one.split("=", 1) for one in given)


def _why_empty(store: Any, name: str, where: str) -> str:
    """What would give an answer rows."""
    from gemmgen.workshop.explore.store.questions import questions

    if where and not store.query("SELECT count(*) AS rows FROM trials")["rows"][0].as_py():
        return f"--where {where} leaves no trial; without it the question is of all"
    return questions()[name].empty if name else "the SQL selects none"


def _told_apart(store: Any, versions: tuple[str, str]) -> None:
    """Both versions are there.

    Raises:
        SpecError: one of them is not.
    """
    there = store.query("SELECT DISTINCT generator, commit FROM trials ORDER BY ALL").to_pylist()
    for version in versions:
        if not any(version and (version == one["generator"] or (one["commit"] or "").startswith(version)) for one in there):
            raise SpecError("--changes", "names a version that the store has no trials of", got=version,
                            has=", ".join(" ".join(filter(None, (one["generator"], (one["commit"] or "")[:12]))) for one in there) or "no trials",
                            needs="a version of gemmgen, or the beginning of a commit", remedy="gemmgen study ask STORE --studies")


def _plain(value: Any) -> Any:
    """A value of an answer as JSON has it."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _lines(answer: Any) -> list[tuple[Any, ...]]:
    """The rows of an answer as values of Python.

    Raises:
        SpecError: a column holds what Python has no value for, such as an infinite time.
    """
    columns = []
    for name, column in zip(answer.column_names, answer.columns):
        try:
            columns.append(column.to_pylist())
        except (ValueError, OverflowError) as error:  # pyarrow's own are of these
            raise SpecError("SQL", f"answers with values of {column.type} that cannot be shown", got=f"column {name}: {error}",
                            needs="values that Python has, such as times of the years 1 to 9999", remedy=f'{name}::VARCHAR in place of {name}') from None
    return list(zip(*columns))


def _csv(answer: Any) -> str:
    """A header and a line a row; an absent value is empty."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(answer.column_names)
    lines.writerows([_plain(value) for value in one] for one in _lines(answer))
    return text.getvalue()


def _text(answer: Any, most: int) -> str:
    """A table for a person, its numbers short."""
    from gemmgen.cli.show import table

    return table(answer.column_names, [[_cell(value) for value in one] for one in _lines(answer.slice(0, most))])


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    plain = _plain(value)
    if isinstance(plain, float):
        return float(f"{plain:.4g}")
    return "-" if plain is None else " ".join(plain.split()) if isinstance(plain, str) else plain
