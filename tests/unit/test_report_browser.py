"""The report in a real browser: every tab, the legend, a kernel's text; at a desk and on a phone, in light and dark; silent, and without a network."""

from __future__ import annotations

import re

import browser as browsing
import pytest
from explored import plans, sizes, timed
from test_report import hostile_rows, usual_rows

from gemmgen.workshop.explore.report import report

pytestmark = pytest.mark.slow
TABS = ("summary", "frontier", "sizes", "decisions", "model", "rejected", "kernels")


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


def test_the_report_in_a_browser(tmp_path):
    pages = {
        "usual": report(usual_rows(), title="usual"), "hostile": report(hostile_rows(), title="hostile"), "empty": report([], title="empty"),
        "untimed": report(timed(plans(few=1), [(256, 256, 256)], verdict="compiled"), title="untimed"),
    }
    mixed = timed(plans(few=1), [(256, 256, 256)], rival=None) + timed(plans()[1:3], [(256, 256, 256), (512, 512, 512)], verdict="compiled")
    pages |= {"mixed": report(mixed, title="mixed"), "long": report(timed(plans(few=1), sizes(300), rival=None), title="long")}
    others = pages.keys() - {"usual"}
    for name, text in pages.items():
        (tmp_path / f"{name}.html").write_text(text)
    with browsing.browser() as opened:
        opened.get((tmp_path / "usual.html").as_uri())
        told = {tab: clicked(opened, tab) for tab in TABS}
        assert "judged right, and timed" in told["summary"] and "C10: shared memory" in told["rejected"] and "within 10 %" in told["model"]
        assert "cublas-sgemm" in told["sizes"] and "measured on NVIDIA H200" in told["summary"] and "bound by" in told["summary"]

        clicked(opened, "sizes")
        column = lambda at: [one.text for one in opened.find_elements("css selector", f".tall tbody td:nth-child({at})")]  # noqa: E731
        speed = opened.find_elements("css selector", ".tall th button")[1]
        speed.click()
        down = [float(one.replace(",", "")) for one in column(2)]
        assert len(down) > 3 and down == sorted(down, reverse=True) and len(set(down)) > 3
        speed.click()
        assert [float(one.replace(",", "")) for one in column(2)] == down[::-1]
        opened.find_element("css selector", ".search input").send_keys("1024 NN")
        assert column(1) == ["1024 x 1024 x 1024 nn"] and "1 of 4 rows" in opened.find_element("css selector", ".search").text

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

        for width, dark, tabs in ((390, True, TABS), (390, False, ("frontier",))):
            browsing.emulated(opened, width, 844, dark)
            back, text = (opened.execute_script(f"return getComputedStyle(document.body).{name}") for name in ("backgroundColor", "color"))
            assert (lightness(back) < 60 < 180 < lightness(text)) if dark else (lightness(text) < 60 < 180 < lightness(back))
            for tab in tabs:
                clicked(opened, tab)
                assert overflow(opened) <= 0, tab
                drawn = opened.find_elements("css selector", ".plot .legendtext, .plot .xtick text")
                assert all((lightness(one.value_of_css_property("fill")) > 180) == dark for one in drawn[:3])
        for name in others:
            opened.get((tmp_path / f"{name}.html").as_uri())
            shown = {tab: clicked(opened, tab) for tab in (TABS if name == "hostile" else ("frontier", "sizes", "model", "summary"))}
            if name == "mixed":
                assert "hollow" in opened.find_element("id", "notes").text and {"measured", "predicted"} <= set(shown["sizes"].split())
                assert "cublas" not in shown["sizes"] and "rival" not in shown["sizes"].split("The fastest at each size")[1], "no column of dashes"
            if name == "long":
                clicked(opened, "sizes")
                assert opened.execute_script("return document.querySelectorAll('.tall tbody tr').length") == 300
                assert opened.execute_script("return document.documentElement.scrollHeight") < 2500, "a long table scrolls by itself"
            assert overflow(opened) <= 0 and opened.title == name, "a script of the store's would have set the title"
            assert ("The store is empty" in shown["summary"]) == (name == "empty")
            assert ("nothing to hold predictions against" in shown["model"]) == (name not in ("hostile", "mixed", "long"))
            assert not opened.find_elements("css selector", "#panel a, #panel img, .plot a:not(.modebar-btn), .plot img")
        assert browsing.console(opened) == []
        assert browsing.requests(opened) == [(tmp_path / f"{name}.html").as_uri() for name in ("usual", *others)]
