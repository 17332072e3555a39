"""Every message a user can meet, in one shape: what went wrong, where, what was
got, what is needed, what there is, and what to try.

An error is a value with named parts, so the command line can print it for a
person (`str(error)`) or for a program (`error.as_dict()`), and a sweep can keep
it as a typed result.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable

EXIT_OK = 0
EXIT_FAILED = 1  # a kernel was built and is not right: verification, resources
EXIT_USAGE = 2  # the request itself cannot be served

SHOWN = 500
"""Characters of an offending value that a message shows."""
MOST = 4000
"""Characters of any other part of a message."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal obeys instead of showing it, and halves of pairs of surrogates, which cannot be printed."""


def shortened(text: str, most: int = MOST) -> str:
    """`text` as a message shows it: no longer than that, and nothing in it that a terminal obeys."""
    if len(text) > most:
        text = f"{text[:most]}... ({len(text)} characters)"
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def _told(value: object, form: Callable[[object], str]) -> str:
    """An offending value as text, whatever it is."""
    try:
        return shortened(form(value), SHOWN)
    except (ValueError, RecursionError):  # an integer of thousands of digits, tables within tables
        return f"a value of type {type(value).__name__} that is too large to show"


def did_you_mean(got: object, known: Iterable[str]) -> str | None:
    """The remedy for a name that is nearly one of the known; None where it is none of them."""
    close = difflib.get_close_matches(str(got)[:SHOWN], list(known), n=1)  # its time grows with the product of the lengths
    return f"did you mean {close[0]!r}?" if close else None


class GemmgenError(Exception):
    """Base of every error gemmgen raises on purpose.

    Args:
        where: the place, as a person would point at it (`specs/x.toml: [tile] block`).
        problem: one sentence, lower case, no full stop.
        got: the offending value.
        needs: what would be required, with its equation where there is one.
        has: what is available instead.
        remedy: what to type or change.
    """

    exit_code = EXIT_USAGE

    def __init__(
        self,
        where: str,
        problem: str,
        *,
        got: object = None,
        needs: str | None = None,
        has: str | None = None,
        remedy: str | None = None,
    ):
        self.where = str(where)
        self.problem = problem
        self.got = got
        self.needs = needs
        self.has = has
        self.remedy = remedy
        super().__init__(where, problem)

    def __str__(self) -> str:
        lines = [f"{shortened(self.where)}: {shortened(self.problem)}"]
        if self.got is not None:
            lines.append(f"  got    {_told(self.got, repr)}")
        for label, text in (("needs", self.needs), ("has", self.has), ("try", self.remedy)):
            if text is not None:
                lines.append(f"  {label:<6} {shortened(text)}")
        return "\n".join(lines)

    def __reduce__(self):  # survives the trip back from a worker process
        return (_rebuild, (type(self), self.__dict__.copy()))

    def as_dict(self) -> dict:
        """The same parts for `--json`; absent parts are left out."""
        parts = {
            "error": type(self).__name__,
            "where": self.where,
            "problem": self.problem,
            "got": None if self.got is None else _told(self.got, str),
            "needs": self.needs,
            "has": self.has,
            "try": self.remedy,
        }
        return {key: shortened(value) for key, value in parts.items() if value is not None}


def _rebuild(cls: type, state: dict) -> GemmgenError:
    error = cls.__new__(cls)
    Exception.__init__(error, state["where"], state["problem"])
    error.__dict__.update(state)
    return error


class SpecError(GemmgenError):
    """A file or value the user wrote cannot be understood."""


class UnknownName(SpecError):
    """A name that no table holds. The message lists the table itself."""

    def __init__(self, where: str, kind: str, got: str, known: Iterable[str]):
        known = sorted(known)
        super().__init__(where, f"unknown {kind}", got=got, needs="one of: " + ", ".join(known), remedy=did_you_mean(got, known))


class InfeasibleSpec(GemmgenError):
    """A well-formed spec that no kernel can satisfy on its target."""


class BuildError(GemmgenError):
    """The compiler is missing or refused the source."""


class ResourceError(GemmgenError):
    """The compiled kernel uses what it must not: spills, or more than predicted."""

    exit_code = EXIT_FAILED


class EmulationError(GemmgenError):
    """The emulated machine met something it must not pass over: an access out
    of bounds, a read of memory nothing wrote, a barrier some warps miss, an
    instruction it does not know."""

    exit_code = EXIT_FAILED


class DeviceError(GemmgenError):
    """The asked device is absent or failed."""


class NotEmulated(DeviceError):
    """The emulator has no model of the kernel's instructions."""


class Notice(UserWarning):
    """Something is computed in another way than was asked for, or takes long once; the result is right."""


class CacheWarning(UserWarning):
    """Something in the cache is not as gemmgen leaves it, and was not used."""
