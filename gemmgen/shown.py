"""How a value shows itself: in one line on a console, as a table in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape


class Shown:
    """A value that tells what matters of it.

    A class of its own gives `_told`; a dataclass is made with `repr=False`, which else writes every field.
    """

    def _told(self) -> Mapping[str, object]:
        """What it is, by name, what matters most first; what is None or empty is left out."""
        raise NotImplementedError

    def _rows(self) -> list[tuple[str, str]]:
        return [(name, str(value)) for name, value in self._told().items() if value not in (None, "", ())]

    def __repr__(self) -> str:
        """One line."""
        return f"<{type(self).__name__}: {', '.join(f'{name} {value}' for name, value in self._rows())}>".replace("\n", " ")

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """A table, whose text is never markup."""
        left = "style='text-align:left'"
        rows = "".join(f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(value)}</td></tr>" for name, value in self._rows())
        return f"<table><caption {left}>gemmgen {escape(type(self).__name__)}</caption>{rows}</table>"


def shown_run(status: Mapping[str, int], seconds: float | None, intact: bool) -> dict[str, object]:
    """Of what ran: seconds on a GPU, counters that are not 0, and whether it wrote beside its elements."""
    counted = ", ".join(f"{name} {count}" for name, count in status.items() if count)
    return {"time": None if seconds is None else f"{seconds * 1e3:.4g} ms", "counted": counted, "wrote": None if intact else "outside the elements of C"}
