"""One numbered equation: evaluated, printed with its numbers and typeset from one statement.

The statement is `form`, an expression in the notation of `model/notation.py`. SymPy reads it for typesetting and solving, in an order of its own; its value
comes of code that computes it as written, of numbers and of whole columns of numbers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmgen.model.notation import FUNCTIONS, code, read

if TYPE_CHECKING:
    import sympy

Numbers = Mapping[str, Any]
"""Values of symbols by name: numbers, or columns of them that go together."""


_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_NO_SYMBOLS = {*FUNCTIONS, "and", "or", "not"}


@dataclass(frozen=True)
class Equation:
    """`symbol = form`.

    Attributes:
        number: how documents cite it.
        symbol: what it computes.
        form: the right-hand side as people write it.
        unit: of the value.
        source: the paper's equation it follows, or why it holds.
        tex: how the symbol is typeset, where its name will not do.
    """

    number: str
    symbol: str
    form: str
    unit: str
    source: str
    tex: str = ""

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """The symbols of the form, in the order they first stand there."""
        return tuple(dict.fromkeys(name for name in _NAME.findall(self.form) if name not in _NO_SYMBOLS))

    def value(self, numbers: Numbers) -> Any:
        """The number, or the column, for values of its symbols by name."""
        result = _code(self.form, self.variables)(*(numbers[name] for name in self.variables))
        if isinstance(result, np.ndarray) and result.ndim:
            return result
        plain = result.item() if hasattr(result, "item") else result
        return int(plain) if isinstance(plain, float) and plain.is_integer() else plain

    def shown(self, numbers: Numbers) -> str:
        """`98304 B = stages * (BM + BN) = 3 * (128 + 128)  (source)`, as messages print it."""
        unit = f" {self.unit}" if self.unit else ""
        return f"{figure(self.value(numbers))}{unit} = {self.form} = {self.filled(numbers)}  ({self.source})"

    def filled(self, numbers: Numbers) -> str:
        """The form with numbers for its symbols, to six digits, so that the four that are printed of its value come out of it."""
        return _NAME.sub(lambda name: name[0] if name[0] in _NO_SYMBOLS else figure(numbers[name[0]], 6), self.form)

    def folded(self, numbers: Numbers) -> str:
        """`filled`, without what a reader skips: a case that does not hold, a product with 0, a sum with 0, a factor of 1."""
        return ast.unparse(_Folded(numbers).visit(ast.parse(self.form, mode="eval").body))

    # ---- symbolic

    @cached_property
    def expression(self) -> sympy.Basic:
        """The form as SymPy orders and simplifies it."""
        return read(self.form)

    @cached_property
    def latex(self) -> str:
        """`symbol = form`, typeset."""
        return f"{self.tex or typeset(self.symbol)} = {_printed(self.expression)}"


@cache
def _code(form: str, variables: tuple[str, ...]) -> Callable[..., Any]:
    """Designs share forms, and each is compiled once."""
    return code(form, variables, FUNCTIONS)


class _Folded(ast.NodeTransformer):
    """A form with numbers for its symbols; names stand for figures, so that they are printed as they are."""

    def __init__(self, numbers: Numbers):
        self._numbers = numbers

    def _value(self, node: ast.expr) -> Any:
        return eval(compile(ast.fix_missing_locations(ast.Expression(node)), "form", "eval"), {"__builtins__": {}, **FUNCTIONS}, dict(self._numbers))

    def visit_Name(self, node: ast.Name) -> ast.Name:  # noqa: N802 (ast's own naming)
        return node if node.id in _NO_SYMBOLS else ast.Name(figure(self._numbers[node.id], 6))

    def visit_Call(self, node: ast.Call) -> ast.expr:  # noqa: N802
        if isinstance(node.func, ast.Name) and node.func.id == "where":
            condition, then, other = node.args
            return self.visit(then if self._value(condition) else other)
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:  # noqa: N802
        if not isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
            return self.generic_visit(node)
        left, right = self._value(node.left), self._value(node.right)
        if isinstance(node.op, ast.Mult) and 0 in (left, right):
            return ast.Name("0")
        neutral = int(isinstance(node.op, ast.Mult))
        if right == neutral:
            return self.visit(node.left)
        return self.visit(node.right) if left == neutral and not isinstance(node.op, ast.Sub) else self.generic_visit(node)


def _printed(expression: sympy.Basic) -> str:
    """LaTeX with a dot between factors, as names are words, and brackets around products of which a remainder is taken."""
    import sympy
    from sympy.printing.latex import LatexPrinter
    from sympy.printing.precedence import PRECEDENCE

    class Printer(LatexPrinter):
        def _print_Mod(self, expr: sympy.Mod, exp: str | None = None) -> str:  # noqa: N802 (SymPy's own naming)
            of, by = (self.parenthesize(part, PRECEDENCE["Mul"]) for part in expr.args)
            return rf"{of} \bmod {by}"

    names = {one: typeset(one.name) for one in expression.free_symbols}
    # What SymPy makes of a case distinction within a condition.
    expression = expression.replace(sympy.ITE, lambda condition, then, other: (condition & then) | (~condition & other))
    return Printer({"mul_symbol": "dot", "symbol_names": names}).doprint(expression)


def typeset(name: str) -> str:
    r"""A symbol's name in LaTeX: `BM` as `B_{M}`, `shared_bytes` as `\mathrm{shared\ bytes}`."""
    tile = re.fullmatch(r"([BWF])([MNK])", name)
    if tile:
        return f"{tile[1]}_{{{tile[2]}}}"
    return name if len(name) == 1 else rf"\mathrm{{{name.replace('_', chr(92) + ' ')}}}"


def figure(value: Any, least: int = 4) -> str:
    """A number as messages print it: whole numbers in full, others to so many digits, or to as many as tell them from a whole one."""
    if float(value).is_integer() and abs(value) < 1e15:
        return str(int(value))
    return next(text for digits in range(least, 18) if not (text := f"{float(value):.{digits}g}").lstrip("-").isdecimal())


def typeset_figure(value: Any) -> str:
    r"""`= 98304`, or `\approx 1.145 \cdot 10^{-6}` where the figure is a rounded one."""
    text = figure(value)
    sign = "=" if float(text) == value else r"\approx"
    digits, _, exponent = text.partition("e")
    return f"{sign} {digits}" + (rf" \cdot 10^{{{int(exponent)}}}" if exponent else "")


@dataclass(frozen=True)
class Constraint:
    """`needs <= has`, or another relation, that every candidate must satisfy.

    Attributes:
        number: how documents and rejections cite it.
        name: a few words for tables.
        form: the relation, in the syntax of an Equation.
        reason: why the kernel or the hardware asks for it.
        refusal: (plan, numbers, place) -> the error for a plan that breaks it.
    """

    number: str
    name: str
    form: str
    reason: str
    refusal: Callable[[Any, Numbers, str], Exception] | None = None

    @cached_property
    def _equation(self) -> Equation:
        return Equation(self.number, self.name, self.form, "", self.reason)

    @property
    def variables(self) -> tuple[str, ...]:
        return self._equation.variables

    def holds(self, numbers: Numbers) -> Any:
        """Whether the numbers satisfy it, or a column that says which of them do."""
        return self._equation.value(numbers)

    def filled(self, numbers: Numbers) -> str:
        """The relation with numbers for its symbols."""
        return self._equation.filled(numbers)

    @property
    def label(self) -> str:
        """`C5 shared_bytes <= shared_bytes_per_block`: how a rejection is counted."""
        return f"{self.number} {self.form}"

    @property
    def expression(self) -> sympy.Basic:
        """The form as SymPy orders and simplifies it."""
        return self._equation.expression

    @cached_property
    def latex(self) -> str:
        """The form, typeset."""
        return _printed(self.expression)


def solved(equations: tuple[Equation, ...], numbers: Numbers) -> dict[str, Any]:
    """`numbers`, and the value of each equation in turn under its symbol."""
    known = dict(numbers)
    for equation in equations:
        known[equation.symbol] = equation.value(known)
    return known
