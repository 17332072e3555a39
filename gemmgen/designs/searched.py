"""How a design is searched: the axes of its candidates, and which of them wins."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from gemmgen.catalog.fragment import Fragment
from gemmgen.designs.asked import Choices
from gemmgen.designs.modelled import Modelled
from gemmgen.model.equation import Numbers


class Searched(Modelled):
    """The search of a design.

    Attributes:
        order: in words, which of the candidates wins that the model cannot tell apart; {symbol} stands for an equation's number.
        of_registers: the symbols that a thread's demand for registers rests on, and what there is of them: where the compiler spills, another
            value of one of these may help most.
        telling: all that changes a kernel's main loop for the compiler; groups and slices of k hardly do.
    """

    order: str = ""
    of_registers: tuple[str, ...] = ("WM", "WN", "BK", "register_budget")

    @cached_property
    def telling(self) -> tuple[str, ...]:
        return (*self.of_registers, "BM", "BN", "stages")

    def axes(self, choices: Choices, fragment: Fragment) -> list[dict[str, np.ndarray]]:
        """The steps in which candidates are enumerated: tiles; ways and slices; pipelines; groups."""
        raise NotImplementedError

    def preference(self, known: Numbers) -> tuple[np.ndarray, ...]:
        """Keys that order candidates whose times the model cannot tell apart, the first weighing most."""
        raise NotImplementedError

    def binding(self, known: Numbers) -> str | None:
        """What limits the main kernel, in words; None where the model does not tell."""
        return None

    @cached_property
    def order_told(self) -> str:
        """`order` with the equations' numbers."""
        return self.order.format_map({symbol: one.number for symbol, one in self.equations.all.items()})
