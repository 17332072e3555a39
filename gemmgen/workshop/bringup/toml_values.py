"""Values as TOML, on one line, for the rows that a bring-up writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any


def told(value: Any, number: Callable[[Any], str] = str) -> str:
    """A string, a truth, a number, a list or a table of these.

    Args:
        number: how numbers are written.
    """
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {told(inner, number)}" for name, inner in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(told(inner, number) for inner in value) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else number(value)
