"""One numbered equation: symbolic, so that it can be evaluated, printed with
its numbers and typeset from one statement."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import sympy


@dataclass(frozen=True)
class Equation:
    """`symbol = form`.

    Attributes:
        number: how documents cite it.
        symbol: what it computes.
        form: the right-hand side as people write it; `expression` is its symbolic value.
        unit: of the value.
        source: the paper's equation it follows, or why it holds.
    """

    number: str
    symbol: str
    form: str
    unit: str
    source: str

    @cached_property
    def expression(self) -> sympy.Expr:
        names = set(re.findall(r"[A-Za-z_]\w*", self.form))
        symbols = {name: sympy.Symbol(name, integer=True, positive=True) for name in names}
        return sympy.sympify(self.form, locals=symbols)

    def value(self, numbers: Mapping[str, int]) -> int | float:
        """The number, for values of its symbols by name."""
        result = self.expression.subs({s: numbers[s.name] for s in self.expression.free_symbols})
        return int(result) if result.is_Integer else float(result)

    def shown(self, numbers: Mapping[str, int]) -> str:
        """`98304 B = stages * (BM + BN) = 3 * (128 + 128)  (source)`, as messages print it."""
        filled = re.sub(r"[A-Za-z_]\w*", lambda name: str(numbers[name[0]]), self.form)
        return f"{self.value(numbers)} {self.unit} = {self.form} = {filled}  ({self.source})"
