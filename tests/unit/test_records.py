"""bench/records.py: tables of docs/results are what their commands and queries make of committed data."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"


@pytest.fixture(scope="module")
def tool():
    found = importlib.util.spec_from_file_location("records", ROOT / "bench" / "records.py")
    module = importlib.util.module_from_spec(found)
    sys.modules["records"] = module  # its dataclass looks itself up there
    found.loader.exec_module(module)
    yield module
    del sys.modules["records"]


QUERY = """select n, format('{:.1f}', x) as "x, us", percent(x / 100) as share from (values (2, 1.25), (10, 30.0)) t(n, x) order by n"""
TABLE = """| n | x, us | share |
| --- | ---: | ---: |
| 2 | 1.2 | 1.2 % |
| 10 | 30.0 | 30 % |
"""


def page_of(tmp_path: Path, *parts: str) -> Path:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n" + "\n".join(parts) + "\nThe end.\n")
    return page


def test_only_a_records_own_block_is_written(tool, tmp_path):
    """The same lines before it are text, and stay; of two records with the same old lines each gets its own new ones."""
    pytest.importorskip("duckdb")
    records = [f"<!-- record:\nselect '{word}' as text\n-->\nold\n" for word in ("one", "two")]
    page = page_of(tmp_path, "old\n", *records)
    assert tool.main(["write", str(page)]) == 0
    assert page.read_text() == "# Title\n\nold\n\n" + "\n".join(r.replace("\nold", f"\n{w}") for r, w in zip(records, ("one", "two"))) + "\nThe end.\n"


@pytest.mark.parametrize("block", [TABLE, TABLE.replace("30.0", "30.1")], ids=["as made", "out of date"])
def test_a_querys_table_is_compared_and_written(tool, tmp_path, capsys, block):
    pytest.importorskip("duckdb")
    page = page_of(tmp_path, f"<!-- record:\n{QUERY}\n-->\n{block}", f"The same again: {block}")
    current = block == TABLE
    assert tool.main(["check", str(page)]) == (not current)
    printed = capsys.readouterr().out
    assert ("page.md:3" in printed and "+| 10 | 30.0 | 30 % |" in printed) != current and f"1 records, {int(not current)} out of date" in printed
    assert tool.main(["write", str(page)]) == 0 and tool.main(["check", str(page)]) == 0
    assert page.read_text() == "# Title\n\n" + f"<!-- record:\n{QUERY}\n-->\n{TABLE}\nThe same again: {block}\nThe end.\n"


def test_a_command_is_run_for_each_word_in_braces_and_queried_as_json(tool, tmp_path):
    pytest.importorskip("duckdb")
    (tmp_path / "say.py").write_text("import json, sys\nprint(json.dumps({'got': int(sys.argv[1])}))\n")
    command = f"python {tmp_path}/say.py {{3,5}}"
    page = page_of(tmp_path, f"<!-- record: {command}\nselect 'sum ' || sum(got) as text from output\n-->\nx\n")
    [record] = tool.records(page)
    assert tool.made(record) == "sum 8\n"


def test_a_commands_own_table_or_lines_are_taken(tool, tmp_path):
    printed = ["before", "| a | b |", "| --- | --- |", "| 1 | 1 |", "| 2 | 4 |", "| 3 | 9 |", "mean error  9 %", "after"]
    (tmp_path / "say.py").write_text(f"print(*{printed}, sep='\\n')\n")
    command = f"python {tmp_path}/say.py"
    comment = f"<!-- record: {command}\n-->\n"
    page = page_of(tmp_path, f"{comment}| a | b |\n| --- | --- |\n| 3 | 8 |\n| 1 | 1 |\n", f"{comment}```\nmean error  8 %\n```\n")
    table, lines = tool.records(page)
    assert tool.made(table) == "| a | b |\n| --- | --- |\n| 1 | 1 |\n| 3 | 9 |\n"  # the rows that the page has, in the command's order
    assert tool.made(lines) == "```\nmean error  9 %\n```\n"
    assert tool.out_of_date(lines).splitlines()[-2:] == ["-mean error  8 %", "+mean error  9 %"]


@pytest.mark.parametrize(("text", "said"), [
    ("<!-- record:\n-->\nx\n", "needs a command or a query"), ("<!-- record: python -c 0\n-->\n\n", "and a block"),
    ("text <!-- record: python -c 0 -->\nx\n", "does not begin a line"), ("<!-- record: python -c 0\nno end\n\n", "does not end"),
], ids=["nothing to make it", "no block", "in a line", "no end"])
def test_a_comment_that_is_no_record_is_an_error(tool, tmp_path, text, said):
    with pytest.raises(tool.RecordError, match=said):
        tool.records(page_of(tmp_path, text))


@pytest.mark.parametrize(("record", "said"), [
    ("<!-- record: python -c 'raise SystemExit(3)'\n-->\n| a |\n| --- |\n", "exits with 3"),
    ("<!-- record: python -c 0\n-->\n| a |\n| --- |\n", "prints no table"),
    ("<!-- record: python -c 'print(\"| a |\\n| --- |\\n| 1 |\")'\n-->\n| a |\n| --- |\n| 2 |\n", "prints no rows 2"),
    ("<!-- record: python -c 0\n-->\n```\nfound 3\n```\n", "prints no line"),
], ids=["command fails", "no table", "a row that is not printed", "no line"])
def test_a_record_that_cannot_be_made_is_out_of_date_and_stays(tool, tmp_path, capsys, record, said):
    page = page_of(tmp_path, record)
    before = page.read_text()
    assert tool.main(["check", str(page)]) == 1 and said in capsys.readouterr().out
    assert tool.main(["write", str(page)]) == 1 and page.read_text() == before


def test_a_wrong_query_is_told(tool, tmp_path, capsys):
    pytest.importorskip("duckdb")
    here = Path.cwd()
    assert tool.main(["check", str(page_of(tmp_path, "<!-- record:\nselect none_such\n-->\nx\n"))]) == 1
    assert "the query fails" in capsys.readouterr().out
    assert Path.cwd() == here  # queries run in the folder of results, and leave it


def test_records_of_committed_files_are_up_to_date(tool, capsys):
    pytest.importorskip("duckdb")
    assert tool.main(["check", "--quick"]) == 0, capsys.readouterr().out
    assert int(capsys.readouterr().out.split()[0]) >= 10


@pytest.mark.long
def test_all_records_are_up_to_date(tool, capsys):
    assert tool.main(["check"]) == 0, capsys.readouterr().out


def test_every_table_of_figures_has_a_command_or_a_record():
    """In its section, or before the first one, which speaks for the whole page."""
    made = re.compile(r"<!-- record|gemmgen [a-z]|pytest |bench/\w+\.py|make mutants|tests/unit/|By the same|by the commands above|\.(csv|txt|json)\)")
    bare = []
    for page in sorted(RESULTS.glob("*.md")):
        first, *sections = re.split(r"(?m)^(?=#{2,3} )", page.read_text())
        bare += [f"{page.name}: {section.splitlines()[0]}" for section in [first, *sections]
                 if re.search(r"(?m)^\| ---", section) and not made.search(section) and not made.search(first)]
    assert not bare
