"""The report in a real browser: every tab, the legend, a kernel's text; on a phone, at a desk and on a wall, in light and dark; silent, without a network."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from math import prod

import browser as browsing
import pytest
from explored import plans, sizes, timed
from test_report import HOSTILE, hostile_rows, usual_rows

from gemmgen.workshop.explore.report import Against, facts, report

pytestmark = pytest.mark.slow
MOST_WALKED = 40
"""Controls of a tab that are walked."""
LONG = 300
"""Rows of a table that scrolls by itself."""
TABS = ("summary", "frontier", "sizes", "map", "roofline", "decisions", "model", "rejected", "kernels", "beside")


def lightness(colour: str) -> float:
    """Mean of red, green and blue, 0 to 255."""
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3


def clicked(opened, tab: str) -> str:
    """The text of a tab's panel, once that is shown."""
    opened.find_element("id", f"tab-{tab}").click()
    panel = opened.find_element("id", "panel")
    assert panel.get_attribute("aria-labelledby") == f"tab-{tab}"
    return panel.text


def overflow(opened) -> int:
    """Pixels by which the page is wider than the window."""
    return opened.execute_script("return document.documentElement.scrollWidth - window.innerWidth")


@pytest.mark.parametrize("others", [("empty", "hostile"), pytest.param(("untimed", "mixed", "long"), marks=pytest.mark.long)], ids=["main", "more"])
def test_the_report_in_a_browser(tmp_path, others):
    usual = usual_rows()
    odd = replace(usual[0], seconds=9 * usual[0].seconds, kernel="the_odd_one", identity="odd", error=1e-9)
    other = [replace(row, seconds=row.seconds and row.seconds / 2) for row in usual]
    pages = {
        "usual": report([*usual, odd], title="usual", against=Against(other, "after", "before")), "empty": report([], title="empty"),
        "hostile": report(hostile_rows(), title="hostile", against=Against(hostile_rows(), HOSTILE[1])), "live": report(usual[:1], title="live", live=0.5),
        "untimed": report(timed(plans(few=1), [(256, 256, 256)], verdict="compiled"), title="untimed"),
    }
    mixed = timed(plans(few=1), [(256, 256, 256)], rival=None) + timed(plans()[1:3], [(256, 256, 256), (512, 512, 512)], verdict="compiled")
    pages |= {"mixed": report(mixed, title="mixed")}
    if "long" in others:
        pages["long"] = report(timed(plans(few=1), sizes(LONG), rival=None), title="long")
    page = tmp_path / "page.html"  # one address for all: the browser compiles plotly's 5 MB again for each other one, 0.7 s
    with browsing.browser() as opened:
        def shows(name: str) -> None:
            page.write_text(pages[name])
            opened.get(page.as_uri())

        shows("usual")
        told = {tab: clicked(opened, tab) for tab in TABS}
        assert "judged right, and timed" in told["summary"] and "C10: shared memory" in told["rejected"] and "within 10 %" in told["model"]
        assert "cublas-sgemm" in told["sizes"] and "measured on NVIDIA H200" in told["summary"] and "bound by" in told["summary"]

        assert "the other is 2 times as fast in the geometric mean of 4 pairs" in told["beside"] and "TFLOP/s, after" in told["beside"]
        assert "the_odd_one" in told["model"] and "Outliers" in told["model"] and "the_odd_one" in told["frontier"]
        assert "beaten in both by gemmgen_ootomo" in told["frontier"] and "% of it" in told["roofline"]

        clicked(opened, "sizes")
        column = lambda at: [line[at - 1] for line in cells(opened)]  # noqa: E731
        speed = opened.find_elements("css selector", ".tall th button")[1]
        speed.click()
        down = [float(one.replace(",", "")) for one in column(2)]
        assert len(down) > 3 and down == sorted(down, reverse=True) and len(set(down)) > 3
        speed.click()
        assert [float(one.replace(",", "")) for one in column(2)] == down[::-1]
        opened.find_element("css selector", ".search input").send_keys("1024 NN")
        assert column(1) == ["1024 x 1024 x 1024 nn"] and "1 of 4 rows" in opened.find_element("css selector", ".search").text

        maps(opened, usual)
        keys(opened)
        for tab in ("summary", "frontier", "map", "beside", "kernels"):
            walked(opened, tab)
        operated(opened)

        clicked(opened, "frontier")
        visible = "return document.querySelectorAll('.plot .scatterlayer .trace').length"
        before = opened.execute_script(visible)
        assert before == 3  # frontier, the scheme, SGEMM
        opened.find_elements("css selector", ".legendtoggle")[-1].click()
        from selenium.webdriver.support.ui import WebDriverWait
        WebDriverWait(opened, 5).until(lambda page: page.execute_script(visible) == before - 1)

        clicked(opened, "kernels")
        first = opened.find_elements("css selector", "details")[0]
        assert not first.find_element("css selector", "pre").is_displayed()
        first.find_element("css selector", "summary").click()
        assert "// kernel" in first.find_element("css selector", "pre").text
        bm, bn, wm, wn, *_ = tiles = facts(usual)["kernels"][0]["tiles"]
        assert len(first.find_elements("css selector", "svg rect")) == (bm // wm) * (bn // wn) + 1 and f"{tiles[0]} x {tiles[1]} elements of C" in first.text

        for width, dark, tabs in ((390, True, TABS), (390, False, ("frontier",)), (2560, False, ("map", "sizes", "beside"))):
            browsing.emulated(opened, width, 844, dark)
            back, text = (opened.execute_script(f"return getComputedStyle(document.body).{name}") for name in ("backgroundColor", "color"))
            assert (lightness(back) < 60 < 180 < lightness(text)) if dark else (lightness(text) < 60 < 180 < lightness(back))
            for tab in tabs:
                clicked(opened, tab)
                assert overflow(opened) <= 0, tab
                unreached = ".wide:not([tabindex='0'][role='region'][aria-label]), .wide[aria-label='undefined']"  # but by a mouse
                assert not opened.find_elements("css selector", unreached), tab
                drawn = opened.find_elements("css selector", ".plot .legendtext, .plot .xtick text")
                assert all((lightness(one.value_of_css_property("fill")) > 180) == dark for one in drawn[:3])
        for name in others:
            shows(name)
            shown = {tab: clicked(opened, tab) for tab in (TABS[:-1] if name == "hostile" else ("frontier", "sizes", "model", "summary"))}
            if name == "mixed":
                assert "hollow" in opened.find_element("id", "notes").text and {"measured", "predicted"} <= set(shown["sizes"].split())
                assert "cublas" not in shown["sizes"] and "rival" not in shown["sizes"].split("The fastest at each size")[1], "no column of dashes"
            if name == "long":
                clicked(opened, "sizes")
                assert opened.execute_script("return document.querySelectorAll('.tall tbody tr').length") == LONG
                assert opened.execute_script("return document.documentElement.scrollHeight") < 2500, "a long table scrolls by itself"
            assert overflow(opened) <= 0 and opened.title == name, "a script of the store's would have set the title"
            assert ("The store is empty" in shown["summary"]) == (name == "empty")
            assert ("nothing to hold predictions against" in shown["model"]) == (name not in ("hostile", "mixed", "long"))
            assert not opened.find_elements("css selector", "#panel a, #panel img, .plot a:not(.modebar-btn), .plot img")
            if name == "hostile":
                clicked(opened, "beside")
        shows("live")
        live(opened)
        assert browsing.console(opened) == []
        assert set(browsing.requests(opened)) == {page.as_uri()}


@pytest.mark.long
@pytest.mark.parametrize("name", ["usual", "empty", "hostile", "untimed"])
def test_the_report_has_no_barriers(tmp_path, name):
    """axe-core finds nothing serious in any tab, in light and dark, on a phone and at a desk."""
    usual, checker = usual_rows(), browsing.axe()
    rows = {"usual": usual, "empty": [], "hostile": hostile_rows(), "untimed": timed(plans(few=1), [(256, 256, 256)], verdict="compiled")}[name]
    against = Against([replace(row, seconds=row.seconds and row.seconds / 2) for row in usual], "after", "before") if name == "usual" else None
    page = tmp_path / "page.html"
    page.write_text(report(rows, title=name, against=against))
    with browsing.browser() as opened:
        opened.get(page.as_uri())
        met = []
        for width, dark in ((390, True), (1440, False)):
            browsing.emulated(opened, width, 900, dark)
            for tab in TABS if against else TABS[:-1]:
                clicked(opened, tab)
                met += [(tab, width, *one) for one in browsing.barriers(opened, checker)]
    assert met == []


def chosen(opened, label: str, value: str) -> None:
    """Choose an entry of a list above the panel."""
    from selenium.webdriver.support.ui import Select

    [found] = [one for one in opened.find_elements("css selector", "#filters label") if one.text.startswith(label)]
    Select(found.find_element("css selector", "select")).select_by_visible_text(value)


def cells(opened) -> list[list[str]]:
    """The rows of the panel's last table."""
    return opened.execute_script("""
      return [...[...document.querySelectorAll(".tall")].at(-1).querySelectorAll("tbody tr")].map(
        (line) => [...line.querySelectorAll("td")].map((cell) => cell.innerText));""")


def maps(opened, rows) -> None:
    """Over m and n the fastest; over two decisions the geometric mean of the share of the best; of one scheme; drawn as a heat map."""
    kernels = [row for row in rows if row.kind == "kernel" and row.verdict == "timed"]
    clicked(opened, "map")
    assert opened.execute_script("return document.querySelectorAll('.plot .heatmaplayer .hm').length") == 1
    fastest = {}
    for row in kernels:
        fastest[row.m, row.n, row.k] = max(fastest.get((row.m, row.n, row.k), 0), row.tflops)
    found = {(line[0], line[1]): float(line[2]) for line in cells(opened)}
    assert found == {(str(m), str(n)): pytest.approx(best, rel=6e-3) for (m, n, _), best in fastest.items()}
    chosen(opened, "k", "4096")
    assert {(line[0], line[1]) for line in cells(opened)} == {("4096", "4096"), ("128", "4096")}, "one slice of the third"
    chosen(opened, "Across", "block")
    chosen(opened, "Down", "stages")
    chosen(opened, "Colour", "share of the best")
    shares: dict = {}
    for row in kernels:
        cell = shares.setdefault((row.block, str(row.stages)), {})
        cell[row.m, row.n, row.k] = max(cell.get((row.m, row.n, row.k), 0), row.tflops)
    found = {(line[0], line[1]): float(line[2]) for line in cells(opened)}
    assert len(found) > 4 and found == {
        place: pytest.approx(prod(best / fastest[size] for size, best in cell.items()) ** (1 / len(cell)), rel=6e-3) for place, cell in shares.items()}
    chosen(opened, "Colour", "times the best rival's speed")
    assert max(float(line[2]) for line in cells(opened)) == pytest.approx(3 * max(found.values()), rel=0.02)
    address = opened.current_url
    opened.get("about:blank")
    opened.get(address)
    assert "times the best rival's speed" in opened.find_element("id", "panel").text, "the address brings back what was looked at"


def keys(opened) -> None:
    """Arrows, Home and End walk the tabs, and the focus goes with them."""
    from selenium.webdriver.common.keys import Keys

    clicked(opened, "summary")
    for key, tab in ((Keys.ARROW_LEFT, TABS[-1]), (Keys.ARROW_RIGHT, TABS[0]), (Keys.END, TABS[-1]), (Keys.HOME, TABS[0]), (Keys.ARROW_RIGHT, TABS[1])):
        opened.switch_to.active_element.send_keys(key)
        assert opened.switch_to.active_element.get_attribute("id") == f"tab-{tab}"
        assert opened.find_element("id", "panel").get_attribute("aria-labelledby") == f"tab-{tab}"


CONTROLS = "a[href], button, select, input, summary, [tabindex='0']"
WALK = f"""
const shown = (one) => one.getClientRects().length && getComputedStyle(one).visibility === "visible" && !one.disabled && one.tabIndex >= 0;
const controls = [...document.querySelectorAll({CONTROLS!r})].filter(shown), look = (one) => getComputedStyle(one);
controls[0].focus();
window.walked = [];
document.addEventListener("focusin", window.follow = ({{ target }}) => window.walked.push(
  [controls.indexOf(target), look(target).outlineStyle === "none" ? 0 : parseFloat(look(target).outlineWidth), target.outerHTML.slice(0, 200)]));
return controls.length;"""
POINTED = """
document.removeEventListener("focusin", window.follow);
return [...document.querySelectorAll("body *")].filter((one) => getComputedStyle(one).cursor === "pointer" && one.getClientRects().length
  && !one.closest("a, button, select, input, label, summary, .plot") && !one.querySelector("a, button, select, input, summary")).map((one) => one.outerHTML);"""


def walked(opened, tab: str) -> None:
    """Tab reaches every control of the page in the order in which they stand, each with a visible outline; Shift and Tab go back; nothing else is clickable."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    clicked(opened, tab)
    count = min(opened.execute_script(WALK), MOST_WALKED)
    ActionChains(opened).send_keys(Keys.TAB * (count - 1)).key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
    found = opened.execute_script("return window.walked")
    assert count > 2 and [at for at, _, _ in found] == [*range(1, count), count - 2], (tab, found)
    assert not [one for one in found if one[1] < 2] and opened.execute_script(POINTED) == [], tab


def operated(opened) -> None:
    """Enter sorts a table and opens a kernel, an arrow chooses in a list."""
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select

    clicked(opened, "sizes")
    before = [one.get_attribute("aria-sort") for one in opened.find_elements("css selector", ".tall th")]
    opened.find_elements("css selector", ".tall th button")[1].send_keys(Keys.ENTER)
    after = [one.get_attribute("aria-sort") for one in opened.find_elements("css selector", ".tall th")]
    assert after != before and after[1] in ("ascending", "descending")
    clicked(opened, "map")
    across = lambda: opened.find_element("css selector", "#filters select")  # noqa: E731
    before = Select(across()).first_selected_option.text
    across().send_keys(Keys.ARROW_DOWN)
    assert Select(across()).first_selected_option.text != before
    across().send_keys(Keys.ARROW_UP)
    assert Select(across()).first_selected_option.text == before
    clicked(opened, "kernels")
    first = opened.find_elements("css selector", "details")[0]
    for shown in (True, False):
        first.find_element("css selector", "summary").send_keys(Keys.ENTER)
        assert (first.get_attribute("open") is not None) == shown


def live(opened) -> None:
    """A live page loads itself again, with the tab that was looked at, until it is paused."""
    from selenium.webdriver.support.ui import WebDriverWait

    clicked(opened, "rejected")
    opened.execute_script("window.marked = true")
    WebDriverWait(opened, 10).until(lambda page: page.execute_script("return !window.marked && document.readyState === 'complete'"))
    assert opened.find_element("id", "panel").get_attribute("aria-labelledby") == "tab-rejected"
    opened.find_element("id", "live").click()
    opened.execute_script("window.marked = true")
    time.sleep(0.8)  # it would have loaded itself after 0.5
    assert opened.execute_script("return window.marked") is True
