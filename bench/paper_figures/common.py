"""What the parts share: files that a measuring verb writes, tables, and pictures that come out the same each time."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gemmgen.errors import SpecError


def progress(text: str) -> None:
    print(f"papers: {text}", file=sys.stderr, flush=True)


def writable(path: Path) -> None:
    """Try the file before minutes are spent.

    Raises:
        SpecError: it cannot be written.
    """
    try:
        path.touch()
    except OSError as error:
        raise SpecError(str(path), "cannot be written", got=error.strerror) from None


def read(path: Path) -> str:
    """A file's text.

    Raises:
        SpecError: it cannot be read.
    """
    try:
        return path.read_text()
    except (OSError, ValueError) as error:
        raise SpecError(str(path), "cannot be read", got=str(error)) from None


def load(path: Path, form: str, verb: str) -> dict:
    """What `papers.py VERB` wrote.

    Args:
        form: its "format".

    Raises:
        SpecError: it is not that.
    """
    wants = f"a file that `papers.py {verb}` wrote"
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SpecError(str(path), "cannot be read", got=str(error), needs=wants) from None
    if not isinstance(document, dict) or document.get("format") != form:
        raise SpecError(str(path), f"is not {wants}", needs=f'"format": "{form}"')
    return document


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def saved(figure: Any, path: Path) -> Path:
    """Write the figure; an .svg has its text as text, and the same bytes each time."""
    import matplotlib
    import matplotlib.pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "gemmgen"}):
        figure.savefig(path, dpi=120, **({"metadata": {"Date": None}} if path.suffix == ".svg" else {}))
    plt.close(figure)
    return path
