"""The notation of forms: read into SymPy, and printed as code.

A form is an expression in Python's syntax over symbols, numbers and FUNCTIONS.
It is read node by node from a list of what may stand there, and nothing in it is
ever evaluated as Python. What comes of it is a SymPy expression, in one of two
readings of the same tree:

- `evaluated`: with SymPy's usual order and simplifications, for typesetting and solving;
- as written: every operation stands where the form has it. Code is made of this one, because sums and products
  of floating-point numbers in another order give other last bits, and `ceil` of them may give another register.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import sympy


def _whole(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`function` with 64-bit integers for its results."""
    return lambda x: function(x).astype(np.int64) if isinstance(x, np.ndarray) else int(function(x))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ceil": _whole(np.ceil),
    "floor": _whole(np.floor),
    "max": lambda *values: reduce(np.maximum, values),
    "min": lambda *values: reduce(np.minimum, values),
    "sqrt": np.sqrt,
    "where": np.where,  # where(condition, then, otherwise)
}
"""What a form may call; arguments are numbers or columns."""

ARGUMENTS = {"ceil": (1, 1), "floor": (1, 1), "max": (1, 16), "min": (1, 16), "sqrt": (1, 1), "where": (3, 3)}
"""The least and the most arguments of each."""

OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.BitAnd: "&", ast.BitOr: "|",
}
RELATIONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


class Unreadable(Exception):
    """A form that is none.

    Attributes:
        at: the column where it stands, from 0.
        got: the part of the form.
    """

    def __init__(self, problem: str, at: int = 0, got: str | None = None, needs: str | None = None, remedy: str | None = None):
        super().__init__(problem)
        self.problem, self.at, self.got, self.needs, self.remedy = problem, at, got, needs, remedy


def parsed(form: str) -> ast.expr:
    """The form's tree, of which nothing is checked but the syntax.

    Raises:
        Unreadable: the text is no expression.
    """
    try:
        return ast.parse(form, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        at = max(0, (getattr(error, "offset", None) or 1) - 1)
        raise Unreadable("is not an expression", at, form[at:at + 20] or form, "symbols, numbers, operators, comparisons and functions") from None


def is_condition(node: ast.expr) -> bool:
    """Whether a node of a form is true or false, and not a number.

    Raises:
        Unreadable: a node that no form has, or a condition where a number belongs, or the other way round.
    """
    match node:
        case ast.Constant(value=int() | float()) if not isinstance(node.value, bool):
            return False
        case ast.Name():
            return False
        case ast.BinOp(left, op, right) if type(op) in OPERATORS:
            logical = isinstance(op, ast.BitAnd | ast.BitOr)
            for side in (left, right):
                _expect(side, logical, f"{'a condition' if logical else 'a number'} on either side of {OPERATORS[type(op)]}")
            return logical
        case ast.UnaryOp(ast.USub() | ast.UAdd(), operand):
            _expect(operand, False, "a number after the sign")
            return False
        case ast.UnaryOp(ast.Invert() | ast.Not(), operand):
            _expect(operand, True, "a condition to negate")
            return True
        case ast.BoolOp(_, values):
            for value in values:
                _expect(value, True, "conditions beside `and` and `or`")
            return True
        case ast.Compare(left, ops, comparators) if all(type(op) in RELATIONS for op in ops):
            for side in (left, *comparators):
                _expect(side, False, "numbers to compare")
            return True
        case ast.Call(ast.Name(name), args, []) if name in FUNCTIONS and not any(isinstance(one, ast.Starred) for one in args):
            least, most = ARGUMENTS[name]
            if not least <= len(args) <= most:
                raise Unreadable(
                    f"{name} takes {least if least == most else f'{least} to {most}'} argument{'s' * (most > 1)}", node.col_offset, ast.unparse(node),
                )
            if name != "where":
                for one in args:
                    _expect(one, False, f"numbers in {name}(...)")
                return False
            _expect(args[0], True, "a condition as the first argument of where")
            kind = is_condition(args[1])
            _expect(args[2], kind, "both values of where a number, or both a condition")
            return kind
    raise Unreadable(
        "stands in no expression", getattr(node, "col_offset", 0), ast.unparse(node)[:60],
        f"symbols, numbers, {' '.join(OPERATORS.values())}, {' '.join(RELATIONS.values())}, and, or, not, {', '.join(FUNCTIONS)}",
    )


def _expect(node: ast.expr, condition: bool, needs: str) -> None:
    if is_condition(node) != condition:
        raise Unreadable(
            f"is a {'number' if condition else 'condition'}", node.col_offset, ast.unparse(node)[:60], needs,
            "brackets around each comparison: & and | bind more tightly" if condition else None,
        )


def symbol(name: str) -> sympy.Symbol:
    """SymPy's symbol of that name: a real number and nothing more.

    Flags are 0, offsets negative and shares no whole numbers, and SymPy leaves out every branch that its assumptions exclude.
    """
    import sympy

    return sympy.Symbol(name, real=True)


def read(form: str, evaluated: bool) -> sympy.Basic:
    """The form as SymPy has it.

    Args:
        evaluated: whether SymPy orders and simplifies what it reads; otherwise all stands as written.

    Raises:
        Unreadable: the text is no form.
    """
    node = parsed(form)
    is_condition(node)
    return _built(node, evaluated)


def _built(node: ast.expr, evaluated: bool) -> sympy.Basic:
    """A checked node. Where nothing is evaluated, sums and products have two terms each, in the order of the form."""
    import sympy

    def made(kind: type, *args: sympy.Basic) -> sympy.Basic:
        """SymPy has no other way to keep it from ordering conditions and alternatives."""
        return kind(*args) if evaluated else sympy.Basic.__new__(kind, *args)

    def arithmetic(kind: type, *args: sympy.Basic) -> sympy.Expr:
        return kind(*args) if evaluated else kind(*args, evaluate=False)

    def negative(value: sympy.Expr) -> sympy.Expr:
        return -value if value.is_Number else arithmetic(sympy.Mul, sympy.S.NegativeOne, value)

    def quotient(left: sympy.Expr, right: sympy.Expr) -> sympy.Expr:
        return arithmetic(sympy.Mul, left, arithmetic(sympy.Pow, right, sympy.S.NegativeOne))

    match node:
        case ast.Constant(value=int()):
            return sympy.Integer(node.value)
        case ast.Constant():
            return sympy.Float(node.value)
        case ast.Name(name):
            return symbol(name)
        case ast.UnaryOp(op, operand):
            inner = _built(operand, evaluated)
            return negative(inner) if isinstance(op, ast.USub) else inner if isinstance(op, ast.UAdd) else made(sympy.Not, inner)
        case ast.BoolOp(op, values):
            return made(sympy.And if isinstance(op, ast.And) else sympy.Or, *(_built(value, evaluated) for value in values))
        case ast.Compare(left, ops, comparators):
            sides = [_built(side, evaluated) for side in (left, *comparators)]
            pairs = [sympy.Rel(*pair, RELATIONS[type(op)], evaluate=evaluated) for op, pair in zip(ops, zip(sides, sides[1:]))]
            return pairs[0] if len(pairs) == 1 else made(sympy.And, *pairs)
        case ast.Call(ast.Name("where"), [condition, then, other]):
            return _either(*(_built(one, evaluated) for one in (condition, then, other)), made)
        case ast.Call(ast.Name("sqrt"), [of]):
            return arithmetic(sympy.Pow, _built(of, evaluated), sympy.S.Half)
        case ast.Call(ast.Name("ceil" | "floor" as name), [of]):
            return arithmetic(sympy.ceiling if name == "ceil" else sympy.floor, _built(of, evaluated))
        case ast.Call(ast.Name(name), args):
            values = [_built(one, evaluated) for one in args]
            return values[0] if len(values) == 1 else made(sympy.Max if name == "max" else sympy.Min, *values)
    left, right = _built(node.left, evaluated), _built(node.right, evaluated)
    match node.op:
        case ast.Add():
            return arithmetic(sympy.Add, left, right)
        case ast.Sub():
            return arithmetic(sympy.Add, left, negative(right))
        case ast.Mult():
            return arithmetic(sympy.Mul, left, right)
        case ast.Div():
            return quotient(left, right)
        case ast.FloorDiv():
            return arithmetic(sympy.floor, quotient(left, right))
        case ast.Mod():
            return arithmetic(sympy.Mod, left, right)
        case ast.Pow():
            return arithmetic(sympy.Pow, left, right)
    return made(sympy.And if isinstance(node.op, ast.BitAnd) else sympy.Or, left, right)


def _either(condition: sympy.Basic, then: sympy.Basic, other: sympy.Basic, made: Callable[..., sympy.Basic]) -> sympy.Basic:
    """`where` for SymPy, which has a case distinction for numbers but not for conditions."""
    import sympy
    from sympy.functions.elementary.piecewise import ExprCondPair

    if isinstance(then, sympy.Expr):
        return made(sympy.Piecewise, made(ExprCondPair, then, condition), made(ExprCondPair, other, sympy.true))
    return made(sympy.Or, made(sympy.And, condition, then), made(sympy.And, made(sympy.Not, condition), other))


# ---- code


def code(names: Sequence[str], expression: sympy.Basic) -> str:
    """SymPy's `lambda` of an expression, over these symbols and FUNCTIONS: every operation in the order in which the expression has it."""
    from sympy.utilities.lambdify import lambdastr

    head, _, body = lambdastr([symbol(name) for name in names], expression, printer=_printer()).partition(":")
    return f"{', '.join(head.split(','))}: {body.strip()[1:-1]}"


def _printer() -> Any:
    """SymPy's printer of Python, with the forms' functions and with the terms of sums and products where they stand."""
    from sympy import S
    from sympy.printing.precedence import PRECEDENCE
    from sympy.printing.pycode import PythonCodePrinter

    class Printer(PythonCodePrinter):
        def _joined(self, sign: str, left: Any, right: Any, level: int) -> str:
            """From left to right, so what stands on the right needs brackets where it binds as tightly."""
            return f"{self.parenthesize(left, level, strict=True)} {sign} {self.parenthesize(right, level)}"

        def _divides(self, factor: Any) -> bool:
            return factor.is_Pow and factor.exp == -1

        def _print_Add(self, expr: Any) -> str:  # noqa: N802 (SymPy's own naming, as below)
            *left, right = expr.args
            left = left[0] if len(left) == 1 else expr.func(*left, evaluate=False)
            if right.is_Mul and len(right.args) == 2 and right.args[0] == -1 and not self._divides(right.args[1]):
                return self._joined("-", left, right.args[1], PRECEDENCE["Add"])
            if right.is_Number and right < 0:
                return self._joined("-", left, -right, PRECEDENCE["Add"])
            return self._joined("+", left, right, PRECEDENCE["Add"])

        def _print_Mul(self, expr: Any) -> str:  # noqa: N802
            *left, right = expr.args
            if left == [-1] and not self._divides(right):
                return f"-{self.parenthesize(right, PRECEDENCE['Mul'])}"
            left = left[0] if len(left) == 1 else expr.func(*left, evaluate=False)
            if self._divides(right):
                return self._joined("/", left, right.base, PRECEDENCE["Mul"])
            return self._joined("*", left, right, PRECEDENCE["Mul"])

        def _print_Pow(self, expr: Any, **_: Any) -> str:  # noqa: N802
            if expr.exp == S.Half:
                return f"sqrt({self._print(expr.base)})"
            return f"{self.parenthesize(expr.base, PRECEDENCE['Pow'])}**{self.parenthesize(expr.exp, PRECEDENCE['Pow'])}"

        def _print_Mod(self, expr: Any) -> str:  # noqa: N802
            return self._joined("%", *expr.args, PRECEDENCE["Mul"])

        def _print_Float(self, expr: Any) -> str:  # noqa: N802
            return repr(float(expr))

        def _print_Piecewise(self, expr: Any) -> str:  # noqa: N802
            (then, condition), (other, _) = expr.args
            return f"where({self._print(condition)}, {self._print(then)}, {self._print(other)})"

        def _called(self, name: str, expr: Any) -> str:
            return f"{name}({', '.join(self._print(one) for one in expr.args)})"

        def _print_floor(self, expr: Any) -> str:
            return self._called("floor", expr)

        def _print_ceiling(self, expr: Any) -> str:
            return self._called("ceil", expr)

        def _print_Max(self, expr: Any) -> str:  # noqa: N802
            return self._called("max", expr)

        def _print_Min(self, expr: Any) -> str:  # noqa: N802
            return self._called("min", expr)

        def _print_Relational(self, expr: Any) -> str:  # noqa: N802
            return f"{self._print(expr.lhs)} {expr.rel_op} {self._print(expr.rhs)}"

        def _print_And(self, expr: Any) -> str:  # noqa: N802
            return self._both("&", expr)

        def _print_Or(self, expr: Any) -> str:  # noqa: N802
            return self._both("|", expr)

        def _print_Not(self, expr: Any) -> str:  # noqa: N802
            return f"({self._print(expr.args[0])}) == False"

        def _both(self, sign: str, expr: Any) -> str:
            return f" {sign} ".join(f"({self._print(one)})" for one in expr.args)

    return Printer({"fully_qualified_modules": False})
