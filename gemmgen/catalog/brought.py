"""What other packages add to the rows and objects that ship: Python finds it by an entry point."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import TypeVar

from gemmgen.errors import GemmgenError

One = TypeVar("One")


def with_brought(shipped: Sequence[One], group: str, what: str, where: str) -> dict[str, One]:
    """By name, each thing that ships, then each that other packages bring, by the name of its entry point.

    Args:
        group: of the entry points.
        what: the things, in a refusal.
        where: whose `name` is to be another, in its remedy.

    Raises:
        GemmgenError: two have one name.
    """
    found = [*shipped, *(point.load() for point in sorted(entry_points(group=group), key=lambda point: point.name))]
    names = [one.name for one in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise GemmgenError(what, "two have one name", got=", ".join(sorted(twice)), needs="a name for each", remedy=f"another `name` in {where}")
    return dict(zip(names, found))
