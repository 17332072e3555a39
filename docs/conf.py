"""Sphinx's configuration of the documentation: `make docs`.

Pages are Markdown (MyST). Links that lead out of docs/ name files of the tree, and become plain text on the site.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

project = "gemmgen"
author = copyright = "the gemmgen authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "results/*_h200"]
html_theme = "furo"
html_title = "gemmgen"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
myst_heading_anchors = 4
myst_enable_extensions = ["html_image"]
suppress_warnings = ["misc.highlighting_failure", "myst.xref_ambiguous"]
highlight_language = "text"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
nitpicky = False

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def inside(docname: str, text: str) -> str:
    """A page whose links all lead to other pages: those to ARCHITECTURE.md to its page here, those to other files of the tree become their names."""
    folder = (ROOT / "docs" / docname).parent

    def one(match: re.Match[str]) -> str:
        image, said, path, anchor = match.groups()
        if "://" in path or image:
            return match[0]
        there = Path(os.path.normpath(folder / path))
        if there == ROOT / "ARCHITECTURE.md":
            return f"[{said}]({os.path.relpath(ROOT / 'docs' / 'architecture.md', folder)}{anchor or ''})"
        if (ROOT / "docs") in there.parents and there.suffix == ".md":
            return match[0]
        name = there.relative_to(ROOT)
        return said if str(name) in said else f"{said} (`{name}`)" if said.strip("`") != there.name else f"`{name}`"

    return LINK.sub(one, text)


def with_kernels(text: str) -> str:
    """The gallery, with each step's spec and the kernels that the tool renders of it."""
    from gallery import lines_of_code, steps

    sections = text.split("\n## ")
    for step in steps():
        number = step.spec.stem.partition("_")[0]
        [at] = [at for at, section in enumerate(sections) if section.startswith(f"Step {number}:")]
        sections[at] += (
            f"\n```toml\n{step.spec.read_text()}```\n\n<details><summary>The generated source, {lines_of_code(step.text)} lines of code</summary>\n\n"
            f"```cuda\n{step.text}```\n\n</details>\n"
        )
    return "\n## ".join(sections)


def with_results(text: str) -> str:
    """The page of shared results, with the tables of the files in docs/community."""
    from gemmgen.workshop.bench.share import folder, page

    return text.replace("<!-- results by GPU -->", page(folder(ROOT / "docs" / "community")))


def read(app: Any, docname: str, source: list[str]) -> None:
    source[0] = inside(docname, source[0])
    if docname == "gallery":
        source[0] = with_kernels(source[0])
    if docname == "community":
        source[0] = with_results(source[0])


def included(app: Any, relative_path: Path, parent: str, content: list[str]) -> None:
    """ARCHITECTURE.md, whose links start at the root of the tree."""
    content[0] = inside(parent, re.sub(r"\]\(docs/", "](", content[0]))


WITHOUT_A_MOUSE = {
    'role="heading">': 'role="heading" aria-level="2">', "<pre>": '<pre tabindex="0">', '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
}
"""What Sphinx leaves out: the level of the navigation's captions, and the keyboard's way into code and tables that scroll."""


def accessible(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    for part in ("body", "furo_navigation_tree"):
        for old, new in WITHOUT_A_MOUSE.items():
            context[part] = context.get(part, "").replace(old, new)


def setup(app: Any) -> None:
    app.connect("source-read", read)
    app.connect("include-read", included)
    app.connect("html-page-context", accessible, priority=900)  # behind the theme, which makes the navigation
