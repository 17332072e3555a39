"""Compiler logs -> errors a person can act on."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from gemmgen.build.request import Request
from gemmgen.errors import BuildError

_LOC = re.compile(r"^\s*\.loc\s+\d+\s+([1-9]\d*)")  # PTX and AMDGPU assembly alike; 0 is no line


@dataclass(frozen=True)
class Dialect:
    """How a compiler words its errors. The first three to match have a group `message`.

    Attributes:
        front_end: an error in the source, with groups `file`, `line` and perhaps `column`.
        assembler: one in the assembly, with `line`.
        elsewhere: one without a place.
        quotation: the line of source, its group 1, that a compiler quotes below an error.
        next_report: where the report that follows begins.
    """

    front_end: re.Pattern
    assembler: re.Pattern
    elsewhere: re.Pattern
    quotation: re.Pattern
    next_report: re.Pattern


def refusal(
    dialect: Dialect, log: str, assembly: str, request: Request, remedy: Callable[[str], str | None]
) -> BuildError:
    """The error for a source that did not compile: the first diagnostic, the line it
    points at, and how many there are. The whole log is attached as a note.

    Args:
        dialect: the compiler's.
        log: what it printed, with the source's name as the request has it.
        assembly: what the assembler refused, if the compiler got that far.
        request: what was asked.
        remedy: what to try against a message, if anything.
    """
    if found := list(dialect.front_end.finditer(log)):
        first = found[0]
        where = ":".join(first[part] for part in ("file", "line", "column") if first.groupdict().get(part))
        got = _quoted(dialect, log, first.end())
    elif found := list(dialect.assembler.finditer(log)):
        first = found[0]
        where, got = _behind(assembly, int(first["line"]), request.name)
    elif found := list(dialect.elsewhere.finditer(log)):
        first, where, got = found[0], request.name, None
    else:
        first, where, got = None, request.name, None
    message = first["message"].strip() if first else log or "no reason was given"
    count = f" (the first of {len(found)} errors)" if len(found) > 1 else ""
    error = BuildError(
        where, f"does not compile for {request.arch}: {message}{count}", got=got, remedy=remedy(message)
    )
    error.add_note(log)
    return error


def _quoted(dialect: Dialect, log: str, start: int) -> str | None:
    """The line of source that the diagnostic ending at `start` quotes."""
    following = dialect.next_report.search(log, start)
    quotation = dialect.quotation.search(log, start, following.start() if following else len(log))
    return quotation[1].strip() if quotation else None


def _behind(assembly: str, line: int, name: str) -> tuple[str, str | None]:
    """The place in the source that a line of assembly comes from, and that line."""
    lines = assembly.splitlines()[:line]
    if len(lines) < line:
        return name, None
    place = next((found[1] for text in reversed(lines) if (found := _LOC.match(text))), None)
    return f"{name}:{place}" if place else name, lines[-1].strip()
