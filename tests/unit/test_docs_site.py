"""The documentation as a site: built by Sphinx without a warning; every page opens on a phone and at a desk, no wider than the window, and asks no network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gemmgen.paths import SPECS

ROOT = SPECS.parent
DOCS = ROOT / "docs"
WIDTHS = (390, 1440)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The built site's folder; skips where Sphinx and what it needs are missing."""
    for module in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(module, reason="the documentation was not built: pip install 'gemmgen[docs]'")
    out = tmp_path_factory.mktemp("site")
    ran = subprocess.run(
        [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", "-d", str(out / "trees"), str(DOCS), str(out / "html")],
        cwd=ROOT, capture_output=True, text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return out / "html"


@pytest.mark.slow
def test_every_page_is_built_without_a_warning(site):
    built = {str(page.relative_to(site).with_suffix("")) for page in site.rglob("*.html")}
    assert {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md")} <= built
    front = (site / "index.html").read_text()
    assert 'href="tutorials/embed.html"' in front and "accuracy_speed.svg" in front
    texts = {page: page.read_text() for page in site.rglob("*.html")}
    assert [page.name for page, text in texts.items() if re.search(r'role="heading">|<pre>|<div class="table-wrapper', text)] == [], "out of the keyboard's reach"


@pytest.mark.slow
def test_the_gallery_has_every_steps_source(site):
    page = (site / "gallery.html").read_text()
    assert page.count("<details>") == 7 and page.count("__launch_bounds__") >= 8
    places = [page.index(word) for word in ("__launch_bounds__", "Step 2", "fp32_fma", "Step 3", "Step 8", "wgmma_fence")]
    assert places == sorted(places)


@pytest.mark.slow
def test_shared_results_stand_on_their_page(site):
    page = (site / "community.html").read_text()
    assert "NVIDIA H100 80GB HBM3" in page and "the only one of its kernels" in page and "results by GPU" not in page


@pytest.mark.slow
def test_links_on_the_site_lead_somewhere(site):
    """Also those to headings, and to what autodoc writes."""
    ids = {page: set(re.findall(r'id="([^"]+)"', page.read_text())) for page in site.rglob("*.html")}
    assert len(ids) > 60
    wrong = []
    for page in ids:
        for target in re.findall(r'href="([^"]+)"', page.read_text()):
            path, _, anchor = re.sub(r"\?v=\w+", "", target).partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            there = (page.parent / path).resolve() if path else page
            if not there.exists() or anchor and there.suffix == ".html" and anchor not in ids[there]:
                wrong.append((page.name, target))
    assert wrong == []


@pytest.mark.slow
def test_the_reference_has_the_roads_functions_with_their_docstrings(site):
    from gemmgen import road

    page = (site / "reference.html").read_text()
    for name in ("load", "plan", "explain", "render", "build", "multiply", "verify", "export", "library"):
        assert f'id="gemmgen.road.{name}"' in page and getattr(road, name).__doc__


FEW = ("index", "gallery", "kernels", "reference", "tutorials/embed", "results/papers", "community")
"""A page of each kind: the front, generated text, long tables, docstrings, code, a record."""


@pytest.mark.slow
@pytest.mark.parametrize("names", [FEW, pytest.param((), marks=pytest.mark.long)], ids=["few", "all"])
def test_no_page_is_wider_than_its_window(site, names):
    import browser as browsing

    pages = [site / f"{name}.html" for name in names] or sorted(
        page for page in site.rglob("*.html") if not page.relative_to(site).parts[0].startswith("_"))
    assert len(pages) > (5 if names else 60)
    wide = []
    with browsing.browser() as opened:
        for width in WIDTHS:
            browsing.emulated(opened, width, 900, False)
            for page in pages:
                opened.get(page.as_uri())
                over = opened.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
                if over > 0:
                    wide.append((str(page.relative_to(site)), width, over))
        asked = [address for address in browsing.requests(opened) if not address.startswith("file:")]
    assert wide == [] and asked == []


@pytest.mark.long
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_no_page_has_barriers(site, dark):
    """axe-core finds nothing serious, at a desk; in dark colours on a phone, on a page of each kind."""
    import browser as browsing

    checker, met = browsing.axe(), []
    pages = [site / f"{name}.html" for name in FEW] if dark else sorted(
        page for page in site.rglob("*.html") if not page.relative_to(site).parts[0].startswith("_"))
    with browsing.browser() as opened:
        browsing.emulated(opened, 390 if dark else 1440, 900, dark)
        for page in pages:
            opened.get(page.as_uri())
            met += [(str(page.relative_to(site)), *one) for one in browsing.barriers(opened, checker)]
    assert met == []


@pytest.mark.long
def test_a_barrier_is_seen(tmp_path):
    """A picture without words, grey on grey, and a control without a name."""
    import browser as browsing

    checker, page = browsing.axe(), tmp_path / "page.html"
    page.write_text("<!doctype html><html lang=en><title>t</title><main><h1>t</h1><p style='color:#aaa;background:#bbb'>grey</p><img src=data:,><button></button>")
    with browsing.browser() as opened:
        opened.get(page.as_uri())
        assert {rule for rule, *_ in browsing.barriers(opened, checker)} == {"color-contrast", "image-alt", "button-name"}
