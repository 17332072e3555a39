"""`study report --watch` draws again while a store grows, and --open shows the page."""

from __future__ import annotations

import json
import webbrowser

import pytest
from explored import plans, row_of
from test_report import Page, small_plotly

from gemmgen.cli import main
from gemmgen.workshop.explore.store import Writer
from gemmgen.workshop.verbs import report as verb

assert small_plotly


@pytest.fixture
def slept(monkeypatch):
    """Calls that stand for what happens while the command sleeps; after the last, Ctrl-C. Gives the seconds that it slept."""
    seconds: list[float] = []

    def during(*happens):
        left = list(happens)

        def sleep(each: float) -> None:
            seconds.append(each)
            if not left:
                raise KeyboardInterrupt
            left.pop(0)()

        monkeypatch.setattr(verb.time, "sleep", sleep)
        return seconds

    return during


def test_a_watched_store_is_drawn_when_it_has_new_rows_and_the_last_page_is_still(tmp_path, capsys, slept):
    """First there is no store at all; a look at an unchanged one draws nothing; Ctrl-C ends it in order."""
    store, page, seen = tmp_path / "store", tmp_path / "r.html", []

    def add(n: int) -> None:
        with Writer(store) as writer:
            writer.add(row_of(plans(few=1)[0], (n, n, n), gpu="one", predicted_seconds=1e-5))

    def look() -> None:
        told = Page(page.read_text()).data
        seen.append((told["live"], told["plottable"], page.stat().st_mtime_ns))

    def again(n: int) -> None:
        look()
        add(n)

    seconds = slept(lambda: again(64), look, lambda: again(128))
    assert main(["study", "report", str(store), "--watch", "-o", str(page)]) == 0
    look()
    assert [one[:2] for one in seen] == [(verb.EACH, 0), (verb.EACH, 1), (verb.EACH, 1), (0.0, 2)] and seconds == [verb.EACH] * 4
    assert seen[1][2] == seen[2][2] > seen[0][2]
    printed = capsys.readouterr()
    assert printed.err.count("Ctrl-C ends it") == 1 and "0 rows in" in printed.err and "1 rows in" in printed.err and "2 rows" in printed.out


def test_slow_pages_are_drawn_less_often(tmp_path, slept, monkeypatch):
    clock = iter([0.0, 3.0, 3.0, 3.0])
    monkeypatch.setattr(verb.time, "perf_counter", lambda: next(clock, 3.0))
    seconds = slept()
    page = tmp_path / "r.html"
    assert main(["study", "report", str(tmp_path / "none"), "--watch", "-o", str(page), "--json"]) == 0 and seconds == [30]


def test_a_store_that_is_not_there_is_refused_but_watched(tmp_path, capsys, slept):
    assert main(["study", "report", str(tmp_path / "none"), "-o", str(tmp_path / "r.html")]) == 2
    capsys.readouterr()
    slept()
    assert main(["study", "report", str(tmp_path / "none"), "-o", str(tmp_path / "r.html"), "--watch", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 0


class Desktop:
    def __init__(self):
        self.asked: list[str] = []

    def open(self, address: str) -> bool:
        self.asked.append(address)
        return True


def test_the_page_is_opened_once_where_a_browser_is(tmp_path, capsys, monkeypatch, slept):
    """A browser of the terminal would take it over: it counts as none."""
    def add(n: int) -> None:
        with Writer(tmp_path / "store") as writer:
            writer.add(row_of(plans(few=1)[0], (n, n, n), gpu="one"))

    add(64)
    page, desktop = tmp_path / "a page.html", Desktop()
    words = ["study", "report", str(tmp_path / "store"), "-o", str(page), "--open"]
    monkeypatch.setattr(webbrowser, "get", lambda: desktop)
    assert main(words) == 0 and desktop.asked == [page.as_uri()]
    slept(lambda: add(128))
    assert main([*words, "--watch"]) == 0 and len(desktop.asked) == 2
    assert "no browser" not in capsys.readouterr().err

    def none() -> None:
        raise webbrowser.Error("none")

    for get in (none, lambda: webbrowser.GenericBrowser("true")):
        monkeypatch.setattr(webbrowser, "get", get)
        assert main(words) == 0 and f"no browser is here: open {page} in one" in capsys.readouterr().err
