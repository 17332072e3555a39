"""Questions that come ready-made: SQL texts beside this file. The comment before each says what it tells, and after `Empty:` why an answer may have no row
and what would give it one."""

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
        empty: why it may have none, and what to type then.
        sql: its SELECT.
        parameters: names that have to be given.
    """

    name: str
    tells: str
    empty: str
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
        tells, _, empty = " ".join(re.findall(r"(?m)^-- ?(.*)$", head[0] if head else "")).partition(" Empty: ")
        found[path.stem] = Question(path.stem, tells, empty, text.strip(), tuple(dict.fromkeys(re.findall(r"\$(\w+)", sql))))
    return found
