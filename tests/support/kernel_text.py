"""What generated C looks like: its indentation, and arithmetic that does nothing."""

from __future__ import annotations

import re

INDENT = 4
WIDEST = 160
_STRING = re.compile(r'"(?:\\.|[^"\\])*"')
_CONTROL = re.compile(r"(for|if|while|else)\b")
DEGENERATE = re.compile(
    r"/ 1\b|% 1\b|\* 1\b|\+ 0\b(?!x)|[(\[ ]0 \* |\+= 1\b|& 0\b(?!x)|< 1; \+\+|every 1\b|\b1 x 1 |(?<!x )\b1 (stages|rows|words|floats|warps|sets|warpgroups)\b"
)


def misplaced(text: str) -> list[tuple[int, str]]:
    """Lines that begin a statement, or a comment before one, elsewhere than the braces and loops around them ask.

    The body of a brace stands four columns to the right of the line that opens it, and what an `if` or a loop without braces governs
    four to the right of that. Lines that go on with a statement stand anywhere to the right of where it began; those of the
    preprocessor stand at the left edge.
    """
    found: list[tuple[int, str]] = []
    opened: list[int] = []  # columns of the lines that opened a brace
    governed: int | None = None  # the column that the line before asks for
    brackets, begun = 0, True  # open round brackets; whether the next line begins a statement
    for number, line in enumerate(text.splitlines(), 1):
        code = _STRING.sub('""', line).split("//")[0].strip()
        column = len(line) - len(line.lstrip())
        if not line.strip() or line.startswith("#") or code.startswith(("namespace", "}  // namespace")) or line.startswith("}  // namespace"):
            continue
        inner = opened[-1] + INDENT if opened else 0
        if begun:
            wanted = governed if governed is not None else inner
            if code.startswith("}"):
                wanted = opened[-1] if opened else 0
            if column != wanted and not (code == "" and brackets):
                found.append((number, line))
            start = column
        elif column < start:
            found.append((number, line))
        if not code:
            continue
        for mark in re.findall(r"[{}]", code):
            if mark == "{":
                opened.append(start if begun or code.endswith("{") else column)
            elif opened:
                opened.pop()
        brackets += code.count("(") - code.count(")")
        if begun and _CONTROL.match(code.removeprefix("} ")) and brackets == 0 and code[-1] not in ";{}":
            governed, begun = column + INDENT, True
        else:
            begun = brackets == 0 and code[-1] in ";{}:" or code.startswith("template")
            if begun:
                governed = None
    return found


def wide(text: str) -> list[tuple[int, str]]:
    return [(number, line) for number, line in enumerate(text.splitlines(), 1) if len(line) > WIDEST]


def degenerate(text: str) -> list[tuple[int, str]]:
    """Lines with arithmetic or words that say nothing."""
    return [(number, line) for number, line in enumerate(text.splitlines(), 1) if DEGENERATE.search(line)]


def empty(text: str) -> list[tuple[int, str]]:
    """Blank lines inside braces at their very ends, and doubled ones."""
    lines = text.splitlines()
    return [
        (number + 1, lines[number - 1]) for number in range(1, len(lines) - 1)
        if not lines[number] and (
            not lines[number - 1] or lines[number - 1].endswith("{") and not lines[number - 1].startswith("namespace")
            or lines[number + 1].lstrip().startswith("}") and "namespace" not in lines[number + 1]
        )
    ]
