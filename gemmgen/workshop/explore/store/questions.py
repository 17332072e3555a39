"""Questions that come ready-made: SQL texts beside this file, each with what it tells in its first lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).with_name("questions")


@dataclass(frozen=True)
class Question:
    """A question to a store.

    Attributes:
        name: such as `best`.
        tells: what its rows are.
        sql: its SELECT.
        parameters: names that have to be given.
    """

    name: str
    tells: str
    sql: str
    parameters: tuple[str, ...]


@cache
def questions() -> Mapping[str, Question]:
    """All of them by name."""
    found = {}
    for path in sorted(FOLDER.glob("*.sql")):
        text = path.read_text()
        head = re.match(r"(?:--.*\n)+", text)
        sql = text[head.end():] if head else text
        tells = re.sub(r"\n?-- ?", " ", head[0]).strip() if head else ""
        found[path.stem] = Question(path.stem, tells, text.strip(), tuple(dict.fromkeys(re.findall(r"\$(\w+)", sql))))
    return found
