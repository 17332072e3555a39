"""The notation of forms: read into SymPy, and compiled.

A form is an expression in Python's syntax over symbols, numbers and FUNCTIONS.
Its tree is checked node by node against a list of what may stand there; nothing else is compiled or read. There are two readings:

- SymPy's, with its usual order and simplifications, for typesetting and solving;
- code, in which every operation stands where the form has it, because sums and products
  of floating-point numbers in another order give other last bits, and `ceil` of them may give another register.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import sympy


def _whole(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`function` with 64-bit integers for its results."""
    return lambda x: function(x).astype(np.int64) if isinstance(x, np.ndarray) else int(function(x))


def _least(*values: Any) -> Any:
    try:
        return reduce(np.minimum, values)
    except OverflowError:  # a Python integer beyond NumPy's, as a batch of many huge products has
        return min(values)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ceil": _whole(np.ceil),
    "floor": _whole(np.floor),
    "max": lambda *values: reduce(np.maximum, values),
    "min": _least,
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

    def __init__(self, problem: str, at: int, got: str | None = None, needs: str | None = None, remedy: str | None = None):
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


def checked(form: str) -> ast.expr:
    """The form's tree.

    Raises:
        Unreadable: the text is no form.
    """
    node = parsed(form)
    is_condition(node)
    return node


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


def read(form: str) -> sympy.Basic:
    """The form as SymPy orders and simplifies it.

    Raises:
        Unreadable: the text is no form.
    """
    return _built(checked(form))


def _built(node: ast.expr) -> sympy.Basic:
    """A checked node."""
    import sympy

    match node:
        case ast.Constant(value=int()):
            return sympy.Integer(node.value)
        case ast.Constant():
            return sympy.Float(node.value)
        case ast.Name(name):
            return symbol(name)
        case ast.UnaryOp(op, operand):
            inner = _built(operand)
            return -inner if isinstance(op, ast.USub) else inner if isinstance(op, ast.UAdd) else sympy.Not(inner)
        case ast.BoolOp(op, values):
            return (sympy.And if isinstance(op, ast.And) else sympy.Or)(*map(_built, values))
        case ast.Compare(left, ops, comparators):
            sides = [_built(side) for side in (left, *comparators)]
            return sympy.And(*(sympy.Rel(*pair, RELATIONS[type(op)]) for op, pair in zip(ops, zip(sides, sides[1:]))))
        case ast.Call(ast.Name("where"), args):
            return _either(*map(_built, args))
        case ast.Call(ast.Name(name), args):
            called = {"ceil": sympy.ceiling, "floor": sympy.floor, "max": sympy.Max, "min": sympy.Min, "sqrt": sympy.sqrt}[name]
            return called(*map(_built, args))
    left, right = _built(node.left), _built(node.right)
    match node.op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            return left / right
        case ast.FloorDiv():
            return sympy.floor(left / right)
        case ast.Mod():
            return sympy.Mod(left, right)
        case ast.Pow():
            return left**right
    return (sympy.And if isinstance(node.op, ast.BitAnd) else sympy.Or)(left, right)


def _either(condition: sympy.Basic, then: sympy.Basic, other: sympy.Basic) -> sympy.Basic:
    """`where` for SymPy, which has a case distinction for numbers but not for conditions."""
    import sympy

    if isinstance(then, sympy.Expr):
        return sympy.Piecewise((then, condition), (other, True))
    return (condition & then) | (~condition & other)


# ---- code


class _Elementwise(ast.NodeTransformer):
    """A checked tree that takes columns where Python's own words take one truth value: `and`, `or`, `not`, and comparisons in a chain."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:  # noqa: N802 (ast's own naming, as below)
        both = ast.BitAnd() if isinstance(node.op, ast.And) else ast.BitOr()
        return reduce(lambda left, right: ast.BinOp(left, both, right), map(self.visit, node.values))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:  # noqa: N802
        self.generic_visit(node)
        return ast.Compare(node.operand, [ast.Eq()], [ast.Constant(False)]) if isinstance(node.op, ast.Invert | ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:  # noqa: N802
        sides = [self.visit(side) for side in (node.left, *node.comparators)]
        pairs = (ast.Compare(left, [op], [right]) for op, left, right in zip(node.ops, sides, sides[1:]))
        return reduce(lambda left, right: ast.BinOp(left, ast.BitAnd(), right), pairs)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:  # noqa: N802
        """A whole quotient is an integer, as what `floor` gives is."""
        self.generic_visit(node)
        return ast.Call(ast.Name("floor", ast.Load()), [ast.BinOp(node.left, ast.Div(), node.right)], []) if isinstance(node.op, ast.FloorDiv) else node


def code(form: str, names: Sequence[str], functions: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    """The form as a function of these symbols, numbers or columns, in their order: every operation in the order in which the form has it.

    Raises:
        Unreadable: the text is no form.
    """
    function = ast.Lambda(ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, []), _Elementwise().visit(checked(form)))
    return eval(compile(ast.fix_missing_locations(ast.Expression(function)), form, "eval"), {"__builtins__": {}, **functions})


def degree(node: ast.AST, degrees: Mapping[str, float]) -> float:
    """The degree of a checked tree as a polynomial in some symbols, infinite where it is none.

    Args:
        degrees: of those symbols and of what rests on them; of all others it is 0.
    """
    def of(one: ast.AST) -> float:
        return degree(one, degrees)

    match node:
        case ast.Name(name):
            return degrees.get(name, 0)
        case ast.UnaryOp(ast.USub(), operand):
            return of(operand)
        case ast.BinOp(left, ast.Add() | ast.Sub(), right):
            return max(of(left), of(right))
        case ast.BinOp(left, ast.Mult(), right):
            return of(left) + of(right)
        case ast.BinOp(left, ast.Div(), right) if not of(right):
            return of(left)
        case ast.Call(ast.Name("where"), [condition, then, other]) if not of(condition):
            return max(of(then), of(other))
    return inf if any(map(of, ast.iter_child_nodes(node))) else 0
