"""Kernel text without the helper functions and constants that nothing in it names.

Templates bring what some plans need; a compiler that is told to warn of everything takes the text of each as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import chain

_ASIDE = re.compile(r"//.*|\"[^\"]*\"")  # comments, and what inline assembly says
_NAME = re.compile(r"[A-Za-z_]\w*")
_TEMPLATE = "template <"
_FUNCTION = re.compile(r"GG_DEVICE [^(]*?(\w+)\(")
_CONSTANT = re.compile(r"constexpr (\w+) (?P<list>[^;{]*);(?P<told>.*)$")
_ONE = re.compile(r"(\w+) = ")


def without_unused(text: str) -> str:
    """The text, without functions (`GG_DEVICE`) and constants (`constexpr`) of a namespace that nothing else names.

    A function goes with the comment on it. One of several functions of a name stays as long as anything calls one of them.
    """
    lines = [line.rstrip() for line in text.split("\n")]
    names = cache(lambda line: _NAME.findall(_ASIDE.sub("", line)))  # of most lines several times, as some go in each turn
    while True:
        named = Counter(chain.from_iterable(map(names, lines)))
        named.subtract(chain.from_iterable(map(_defined, lines)))
        kept = list(_kept(lines, {name for name, count in named.items() if count <= 0}))
        if kept == lines:
            return "\n".join(kept)
        lines = kept


def _defined(line: str) -> list[str]:
    """The names that a line at a namespace's level defines."""
    if not line.startswith(("GG_DEVICE ", "constexpr ")):
        return []
    if function := _FUNCTION.match(line):
        return [function[1]]
    if constant := _CONSTANT.match(line):
        return _ONE.findall(constant["list"])
    return []


def _kept(lines: list[str], unused: set[str]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line, start = lines[at], at
        if line.startswith(("//", _TEMPLATE)):  # what stands on a function goes with it
            while lines[at].startswith(("//", _TEMPLATE)):
                at += 1
        names = _defined(lines[at])
        if not names or not unused.intersection(names):
            at = max(at, start + 1)
            yield from lines[start:at]
        elif _FUNCTION.match(lines[at]):
            if not _ASIDE.sub("", lines[at]).rstrip().endswith("}"):
                at = lines.index("}", at)
            at += 1
            if not lines[at] and start and not lines[start - 1]:  # one blank line is enough
                at += 1
        else:
            constant = _CONSTANT.match(lines[at])
            yield from lines[start:at]
            if left := [one for one in constant["list"].split(", ") if _ONE.match(one)[1] not in unused]:
                yield f"constexpr {constant[1]} {', '.join(left)};{constant['told']}"
            at += 1
