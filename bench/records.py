"""Figures of docs/results that a command makes from committed data: whether the pages still have what it prints.

    python bench/records.py check [PAGE.md ...] [--quick]
    python bench/records.py write [PAGE.md ...]

A record is a comment of a page and the block of lines behind it, a Markdown table, a paragraph or a fenced block, up to the next empty line:

    <!-- record: gemmgen study learn docs/results/explore_h200 --gpu h200 --json
    select ... from output
    -->
    | rows | before | after |
    | --- | ---: | ---: |

The rest of the comment's first line is a command, which runs in the root of the tree; `python` and `gemmgen` are those of this interpreter, and $OUT is a folder
for what it writes besides. The lines that follow are SQL for DuckDB, which runs in docs/results and reads the command's JSON as `output` and any committed file by its
name; `percent(share)` is a macro for them. At least one of the two is there. Braces in a command stand for several, as in a shell (`--kernels {1,2,4}`), whose
outputs follow one another. The block is then

- with SQL: the rows as a Markdown table, or, of one column that is named `text`, as lines; numbers are written as the query formats them;
- without SQL, for a table: that table of the command's output which has the same header; of its rows those whose first cells the page has;
- without SQL, for a fenced block: consecutive lines of the command's output.

`check` prints a difference for each record that is out of date and exits with 1; `write` puts the present figures in. `--quick` leaves out records with a command.
No GPU is needed: what only a GPU makes is no record of this kind, and its section says the command that makes it.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
_RECORD = re.compile(r"^<!-- record:(?P<command>[^\n]*)\n(?P<query>(?:(?!-->).*\n)*?)-->\n(?P<block>(?:.+\n)*)", re.MULTILINE)

_PERCENT = "create macro percent(share) as if(abs(share) < 0.0995, format('{:.2g} %', 100 * share), format('{:.0f} %', 100 * share))"
"""For queries: a share with two digits, or whole percents from ten on."""


@dataclass(frozen=True)
class Record:
    """One record of a page: `line` is its comment's, `block` what stands behind it, lines with their ends."""

    page: Path
    line: int
    command: str
    query: str
    block: str

    @property
    def place(self) -> str:
        return f"{self.page.name}:{self.line}"


class RecordError(Exception):
    """A record that cannot be made, with its place and the reason."""


def records(page: Path) -> list[Record]:
    """The records of a page, in order.

    Raises:
        RecordError: a comment begins as a record and is none.
    """
    text = page.read_text()
    found = [
        Record(page, text.count("\n", 0, match.start()) + 1, match["command"].strip(), match["query"].strip(), match["block"])
        for match in _RECORD.finditer(text)
    ]
    if len(found) != len(re.findall(r"<!--\s*record", text)):
        raise RecordError(f"{page.name}: a record's comment does not begin a line with `<!-- record:`, or does not end in a line `-->`")
    for record in found:
        if not (record.command or record.query) or not record.block:
            raise RecordError(f"{record.place}: a record needs a command or a query, and a block of lines behind it")
    return found


@cache
def printed(command: str) -> str:
    """What a command prints, or one after the other those that its braces stand for; each is run once.

    Raises:
        RecordError: it does not exit with 0.
    """
    if braces := re.search(r"\{([^{}]*)\}", command):
        return "".join(printed(command[: braces.start()] + word + command[braces.end() :]) for word in braces[1].split(","))
    with tempfile.TemporaryDirectory() as out:
        words = [os.path.expandvars(word) if word != "$OUT" else out for word in shlex.split(command)]
        head = {"python": [sys.executable], "gemmgen": [sys.executable, "-m", "gemmgen"]}.get(words[0], [words[0]])
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "200", "NO_COLOR": "1"}
        done = subprocess.run([*head, *words[1:]], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RecordError(f"`{command}` exits with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def asked(query: str, output: str | None) -> str:
    """A query's rows as a Markdown table, or as lines where its one column is named `text`.

    Args:
        output: JSON, which the query reads as `output`.

    Raises:
        RecordError: the query fails.
    """
    import duckdb

    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        if output is not None:
            (Path(folder) / "output.json").write_text(output)
            connection.execute(f"create view output as from read_json('{folder}/output.json', maximum_object_size = 100000000)")
        connection.execute(_PERCENT)
        os.chdir(RESULTS)
        try:
            cursor = connection.execute(query)
            names, rows = [column[0] for column in cursor.description], cursor.fetchall()
        except duckdb.Error as error:
            raise RecordError(f"the query fails: {error}") from None
        finally:
            os.chdir(here)
    if names == ["text"]:
        return "".join(f"{row[0]}\n" for row in rows)
    numeric = [all(re.fullmatch(r"[-+−]?[\d.,]+(e[-+]?\d+)?( %)?|", _cell(row[column])) for row in rows) for column in range(len(names))]
    head = [f"| {' | '.join(names)} |", f"| {' | '.join('---:' if right and index else '---' for index, right in enumerate(numeric))} |"]
    return "".join(f"{line}\n" for line in [*head, *(f"| {' | '.join(map(_cell, row))} |" for row in rows)])


def _cell(value: object) -> str:
    return "" if value is None else str(value)


def _tables(text: str) -> Iterator[list[str]]:
    """The Markdown tables of a text, each as its lines."""
    table: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            table.append(line.rstrip())
        elif table:
            yield table
            table = []


def made(record: Record) -> str:
    """What the record's block should be.

    Raises:
        RecordError: the command or the query fails, or the output has no such table or lines.
    """
    output = printed(record.command) if record.command else None
    if record.query:
        return asked(record.query, output)
    lines = record.block.splitlines()
    if lines[0].startswith("```"):
        wanted, there = lines[1:-1], output.splitlines()
        starts = [start for start in range(len(there)) if there[start : start + len(wanted)] == wanted]
        if not starts:  # of a block that is out of date, as many lines from the one with its first words on
            starts = [start for start, line in enumerate(there) if line.split()[:2] == wanted[0].split()[:2]]
        if not starts:
            raise RecordError(f"`{record.command}` prints no line {wanted[0]!r}")
        return "\n".join([lines[0], *there[starts[0] : starts[0] + len(wanted)], lines[-1]]) + "\n"
    for table in _tables(output):
        if table[0].split() == lines[0].split():
            wanted = [_first(line) for line in lines[2:]]
            if missing := set(wanted) - {_first(row) for row in table[2:]}:
                raise RecordError(f"`{record.command}` prints no rows {', '.join(sorted(missing))} under the header {lines[0]}")
            return "\n".join([*table[:2], *(row for row in table[2:] if _first(row) in wanted)]) + "\n"
    raise RecordError(f"`{record.command}` prints no table with the header {lines[0]}")


def _first(row: str) -> str:
    """The first cell of a row of a Markdown table."""
    return row.split("|")[1].strip()


def out_of_date(record: Record) -> str:
    """The difference between a page's block and what its record makes, empty where there is none.

    Raises:
        RecordError: as `made`.
    """
    lines, wanted = record.block.splitlines(), made(record).splitlines()
    return "\n".join(difflib.unified_diff(lines, wanted, f"{record.place}, as it stands", "as it is made now", lineterm="", n=0))


def rewrite(page: Path) -> int:
    """Puts the present figures into a page; how many of its records changed.

    Raises:
        RecordError: as `made`; the page stays as it is.
    """
    text, changed = page.read_text(), 0
    for record in reversed(records(page)):
        try:
            block = made(record)
        except RecordError as error:
            raise RecordError(f"{record.place}: {error}") from None
        if block != record.block:
            comment = "\n".join(text.split("\n")[: record.line - 1])
            start = text.index(record.block, text.index("-->\n", len(comment)))
            text, changed = text[:start] + block + text[start + len(record.block) :], changed + 1
    if changed:
        page.write_text(text)
    return changed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("check", "write"))
    parser.add_argument("pages", nargs="*", type=Path, help="pages of docs/results; all by default")
    parser.add_argument("--quick", action="store_true", help="only records that are a query of committed files")
    options = parser.parse_args(arguments)
    pages, wrong, count = options.pages or sorted(RESULTS.glob("*.md")), 0, 0
    for page in pages:
        if options.verb == "write":
            count += len(records(page))
            try:
                if changed := rewrite(page):
                    print(f"{page.name}: {changed} records written")
            except RecordError as error:
                print(error)
                wrong += 1
            continue
        for record in records(page):
            if options.quick and record.command:
                continue
            count += 1
            try:
                difference = out_of_date(record)
            except RecordError as error:
                difference = f"{record.place}: {error}"
            if difference:
                wrong += 1
                print(difference)
    print(f"{count} records, {wrong} {'out of date' if options.verb == 'check' else 'pages not written'}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
