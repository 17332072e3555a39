"""How `road.verify` walks through the rooms: what enters a file from outside, and what goes back to an earlier stop.

A *stop* is a room of `test_layering.ROOMS` from `spec` to `verify`; `road`, which calls one after another, is none. A *climb* is a call from a function of a
stop to a public function of an earlier stop: each pair of functions counts once. Methods and properties are plain access to the values that stops hand on,
and no climbs; nor is looking a name up in a module (`__getattr__`).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import gemmgen

PACKAGE = Path(gemmgen.__file__).parent
LOADING = "<module>"
"""The name of a module's own code."""


class Place(NamedTuple):
    """A function of the package: its file under the package, and its name with those of the classes and functions around it."""

    file: str
    name: str

    @property
    def room(self) -> str:
        return self.file.partition("/")[0].removesuffix(".py")

    @property
    def is_work(self) -> bool:
        """Whether it is a public function of a module."""
        return "." not in self.name and not self.name.startswith(("_", "<"))


def calls_of(walk: Callable[[], object]) -> Counter[tuple[Place, Place]]:
    """How often each function of the package calls each other one in another file, while `walk` runs; a call by way of foreign code is its caller's.

    A generator that goes on counts again, as a call does; loading a module counts as none.
    """
    found: Counter[tuple[Place, Place]] = Counter()
    known: dict[str, str | None] = {}

    def file_of(frame: FrameType) -> str | None:
        name = frame.f_code.co_filename
        if name not in known:
            path = Path(name)
            known[name] = path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else None
        return known[name]

    def seen(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or (file := file_of(frame)) is None:
            return
        caller = frame.f_back
        while caller is not None and file_of(caller) is None:
            caller = caller.f_back
        loading = LOADING in (frame.f_code.co_name, caller.f_code.co_name if caller else None)
        if caller is not None and not loading and (other := file_of(caller)) != file:
            found[Place(other, caller.f_code.co_qualname), Place(file, frame.f_code.co_qualname)] += 1

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        walk()
    finally:
        sys.setprofile(before)
    return found


def entered(calls: Counter[tuple[Place, Place]], files: Sequence[str]) -> Counter[tuple[Place, Place]]:
    """The calls that enter one of these files from outside of all of them."""
    return Counter({pair: count for pair, count in calls.items() if pair[1].file in files and pair[0].file not in files})


def climbs(calls: Counter[tuple[Place, Place]], stops: Sequence[str]) -> set[tuple[Place, Place]]:
    """The pairs of functions by which the walk goes back to an earlier stop."""
    return {
        (caller, called) for caller, called in calls
        if caller.room in stops and called.room in stops and stops.index(called.room) < stops.index(caller.room) and called.is_work
    }
