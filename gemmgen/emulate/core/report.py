"""The text of an emulated instruction: its parts, where in the source it came from, and how an error says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gemmgen.emulate.core.memory import Fault
from gemmgen.errors import EmulationError


_LONGEST = 200  # characters quoted of an instruction


def split_outside(text: str, separator: str) -> list[str]:
    """The parts of an instruction's text between separators that stand outside brackets and braces."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        if char in "{[(":
            depth += 1
        elif char in "}])":
            depth -= 1
        elif char == separator and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return parts


class Statement(Protocol):
    """One instruction, as a reader of its text knows it: its line of the source, 0 when unknown, and
    the lines at which that was inlined."""

    text: str
    line: int
    callers: tuple[int, ...]


@dataclass(frozen=True)
class Source:
    """The text that was compiled, as far as it is known.

    Attributes:
        name: how messages call the file.
        lines: its text, or empty.
        group, member: what the GPU's maker calls a block and a thread.
    """

    name: str
    lines: tuple[str, ...] = ()
    group: str = "CTA"
    member: str = "thread"

    def place(self, statement: Statement) -> str:
        """`kernel.cu:12`."""
        return f"{self.name}:{statement.line}" if statement.line else self.name

    def site(self, statement: Statement) -> str:
        """`kernel.cu:12, inlined at line 40`."""
        return self.place(statement) + "".join(f", inlined at line {line}" for line in statement.callers)

    def where(self, entry: str, statement: Statement) -> str:
        """`kernel.cu:12 (entry gemm, inlined at line 40)`."""
        inlined = "".join(f", inlined at line {line}" for line in statement.callers)
        return f"{self.place(statement)} (entry {entry}{inlined})"

    def quote(self, statement: Statement) -> str:
        """The instruction, and the source line it stems from."""
        text = statement.text
        if len(text) > _LONGEST:  # the registers of a wgmma fill lines
            text = f"{text[:_LONGEST]} ..."
        text = f"`{text}`"
        if 0 < statement.line <= len(self.lines):
            text += f" from `{self.lines[statement.line - 1].strip()}`"
        return text

    def located(
        self,
        entry: str,
        statement: Statement,
        fault: Fault,
        cta: tuple[int, ...] | None,
        thread: tuple[int, ...] | None,
    ) -> EmulationError:
        """A fault as the error a person reads."""
        problem = fault.problem
        if cta is not None:
            problem += f", in {self.group} {cta}, {self.member} {thread}"
        return EmulationError(
            self.where(entry, statement),
            problem,
            got=fault.got,
            needs=fault.needs,
            has=self.quote(statement),
            remedy=fault.remedy,
        )
