"""The table of everything that is numbered in the five papers: nothing is left out, and what it names is there."""

from __future__ import annotations

import re
import sys

import pytest

import gemmgen.cli.app  # noqa: F401: verbs register themselves
from gemmgen.cli.verb import VERBS
from gemmgen.paths import SPECS

ROOT = SPECS.parent
PAGE = ROOT / "docs" / "results" / "papers.md"
NUMBERED = {
    "LE-GEMM": {"eq.": 20, "algorithm": 1, "table": 6, "figure": 18},
    "EGEMM-TC": {"eq.": 10, "algorithm": 1, "table": 5, "figure": 12},
    "MixPert": {"eq.": 10, "table": 1, "figure": 12},
    "BatchGEMM": {"eq.": 12, "algorithm": 1, "table": 6, "figure": 11},
    "WMMAe": {"eq.": 8, "code": 6, "table": 1, "figure": 8},
}
"""How many of each a paper has."""
FILE = re.compile(r"[\w./-]+\.(?:py|toml|md|j2|cu|hip|txt|json|csv|svg)|[A-Z]+\.md")
NOT_MEASURED = "not measured: "


def tables() -> dict[str, list[list[str]]]:
    """Rows [number, what, where, how ours compares] by paper."""
    text = PAGE.read_text()
    found = {}
    for title, part in re.findall(r"^### ([\w-]+)\n\n\| number .*\n\| ---.*\n((?:\|.*\n)+)", text, re.M):
        found[title] = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in part.splitlines()]
    return found


ROWS = [(paper, *row) for paper, rows in tables().items() for row in rows]


def slug(heading: str) -> str:
    """A heading's anchor, as pages are shown."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def script_verbs() -> set[str]:
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        import papers
    finally:
        sys.path.remove(str(ROOT / "bench"))
    return set(papers.VERBS)


def missing(span: str) -> str:
    """Why what a span names is not there; nothing where it is."""
    words = span.split()
    if words[0] == "gemmgen":
        return "" if {words[1], " ".join(words[1:3])} & set(VERBS) else f"no verb {words[1]}"
    path, _, name = span.partition(":")
    if path == "bench/papers.py" and name:  # its verbs
        return "" if name in script_verbs() else f"bench/papers.py has no verb {name}"
    if not FILE.fullmatch(path):
        return "" if name == "" and re.fullmatch(r"\[\w+\] \w+( = .*)?|\w+ = .*", path) else f"neither a file nor a command: {span}"
    if not (ROOT / path).is_file():
        return f"no file {path}"
    text = (ROOT / path).read_text()
    defined = not name or re.search(rf"^\s*(?:def|class) {name}\b|^(?:.*, )?{name}\b(?:, \w+)* *(?::.*)?= ?", text, re.M)
    return "" if defined else f"{path} defines no {name}"


@pytest.mark.parametrize("paper", NUMBERED)
def test_every_number_of_a_paper_has_one_row(paper):
    wanted = [f"{kind} {number}" for kind, count in NUMBERED[paper].items() for number in range(1, count + 1)]
    assert sorted(row[0] for row in tables()[paper]) == sorted(wanted)


def test_the_table_is_of_the_five_papers():
    assert tables().keys() == NUMBERED.keys() and len(ROWS) == sum(sum(kinds.values()) for kinds in NUMBERED.values())


def test_what_the_table_names_is_there():
    """Files, names that they define, verbs; a row without any says why nothing was measured."""
    found = []
    for paper, number, _, where, compared in ROWS:
        spans = re.findall(r"`([^`]+)`", where)
        if not spans and not where.startswith(NOT_MEASURED):
            found.append(f"{paper} {number}: says neither where it is nor why it is not")
        found += [f"{paper} {number}: {told}" for span in [*spans, *re.findall(r"`([^`]+)`", compared)] if (told := missing(span))]
    assert not found, "\n".join(found)


def test_links_of_the_page_lead_somewhere():
    text = PAGE.read_text()
    for target in re.findall(r"\]\(([^)]+)\)", text):
        path, _, anchor = target.partition("#")
        page = (PAGE.parent / path).resolve() if path else PAGE
        assert page.exists(), target
        assert not anchor or anchor in {slug(heading) for heading in re.findall(r"^#+ (.*)$", page.read_text(), re.M)}, target


@pytest.mark.parametrize(("span", "told"), [
    ("gemmgen verify", ""), ("gemmgen verity", "no verb verity"), ("bench/papers.py:curves", ""), ("bench/papers.py:curve", "no verb"),
    ("gemmgen/split.py:round_to", ""), ("gemmgen/split.py:round_too", "defines no round_too"), ("specs/gpus/a1000.toml", "no file"),
    ("gemmgen/model/batch.py:WF", ""), ("gemmgen/model/batch.py:TLP", "defines no TLP"), ('[solve] model = "egemm"', ""), ("anything", "neither"),
])
def test_what_is_not_there_is_told(span, told):
    assert missing(span).find(told) >= 0 and bool(missing(span)) == bool(told)
