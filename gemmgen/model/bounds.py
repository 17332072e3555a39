"""What each inequality leaves of one decision, in closed form.

With the GPU, the scheme and all other decisions put in, every equation that a
decision reaches is a function of one whole number. SymPy puts the numbers in,
exactly, and makes a quotient of two polynomials of each piece between two steps
(`ceil`, `floor`, `max`, `min`, `where` change on whole numbers that are found the same way), and
where the inequality changes sign is solved for: `stages <= floor(232448 / 65536) = 3`.

A decision that comes in whole fragments or warps is counted in those. An inequality that holds here and there has no bound but values, and many
of those are not told: what is told is right for every value, or it is not told, with the reason. As the model computes
with floating-point numbers, it is asked on either side of each end, and an end on which it rounds otherwise is not told either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

from gemmgen.model import resources
from gemmgen.model.equation import Constraint, Equation, Numbers, figure

if TYPE_CHECKING:
    import sympy

AXES = {
    "BM": ("WM", 1024), "BN": ("WN", 1024), "BK": ("FK", 256), "WM": ("FM", 512), "WN": ("FN", 512), "promote": ("FK", 1024),
    "stages": ("", 64), "fragment_buffers": ("", 2), "group": ("", 64), "split_k": ("", 64), "cluster": ("", 16),
}
"""The decisions that are counts or extents: of what each is a multiple, and how far it is looked at."""

TIED = {"BK": ("WK",)}
"""Symbols that go with a decision: a warp works through the whole stage."""

MOST_PIECES = 256
"""Pieces of a function between two steps, beyond which it is not solved for."""

MOST_VALUES = 16
"""Values of a decision that are listed one by one where an inequality holds here and there."""


class Unsolved(Exception):
    """Why there is no closed form."""


@dataclass(frozen=True)
class Bound:
    """What one inequality leaves of a decision.

    Attributes:
        decision: its symbol.
        constraint: the inequality.
        least, most: the values that satisfy it, all between them too; None: no bound on that side.
        values: those that satisfy it, where they are not all between two.
        form: how the bound comes about, `floor(232448 / 65536)`; for both sides, the least's first.
        reason: why there is no bound in closed form; empty where there is one.
    """

    decision: str
    constraint: Constraint
    least: int | None = None
    most: int | None = None
    values: tuple[int, ...] = ()
    form: str = ""
    reason: str = ""

    def __str__(self) -> str:
        """`stages <= floor(232448 / 65536) = 3   (C10: shared_bytes <= shared_bytes_per_block)`."""
        source = f"({self.constraint.number}: {self.constraint.form})"
        if self.reason:
            return f"{self.decision}: no bound, {self.reason}   {source}"
        if self.values or self.least == self.most:
            return f"{self.decision} = {' or '.join(map(str, self.values or [self.most]))}   {source}"
        if None not in (self.least, self.most):
            return f"{self.least} <= {self.decision} <= {self.most}   {source}"
        relation, value = ("<=", self.most) if self.least is None else (">=", self.least)
        return f"{self.decision} {relation} {f'{self.form} = ' if self.form else ''}{value}   {source}"


# ---- polynomials over the whole numbers, exactly


class _Quotient:
    """A quotient of two polynomials in one variable, by their coefficients, the constant first."""

    def __init__(self, over: tuple[Fraction, ...], under: tuple[Fraction, ...]):
        self.over, self.under = over, under

    @classmethod
    def of(cls, expression: sympy.Expr, x: sympy.Symbol) -> _Quotient:
        """What SymPy's expression is.

        Raises:
            Unsolved: it is no such quotient.
        """
        import sympy

        over, under = sympy.fraction(sympy.together(expression))
        try:
            parts = [tuple(map(_fraction, reversed(sympy.Poly(part, x).all_coeffs()))) for part in (over, under)]
        except (sympy.PolynomialError, TypeError, ValueError):
            raise Unsolved("it is no quotient of polynomials") from None
        return cls(*parts)

    def at(self, value: int) -> Fraction:
        under = _at(self.under, value)
        if not under:
            raise Unsolved(f"it divides by 0 at {value}")
        return _at(self.over, value) / under

    def signs(self, least: int, most: int) -> Iterator[tuple[int, int, int]]:
        """(from, to, sign), from `least` to `most`."""
        for first, last, under in _signs(self.under, least, most):
            if not under:
                raise Unsolved(f"it divides by 0 at {first}")
            yield from ((a, b, sign * under) for a, b, sign in _signs(self.over, first, last))

    def steps(self, least: int, most: int, whole: Callable[[Fraction], int]) -> Iterator[tuple[int, int, int]]:
        """(from, to, value) of `whole` of it, which is floor or ceil."""
        grows = _difference(_product(_shifted(self.over), self.under), _product(self.over, _shifted(self.under)))
        runs = [] if least == most else [run for run in _Quotient(grows, _product(self.under, _shifted(self.under))).signs(least, most - 1)]
        first = least
        while first <= most:
            last = next((b + 1 for a, b, _ in runs if a <= first <= b), first)  # it goes one way from first to last
            while first <= last:
                value, a, b = whole(self.at(first)), first, last
                while a < b:
                    middle = (a + b + 1) // 2
                    a, b = (middle, b) if whole(self.at(middle)) == value else (a, middle - 1)
                yield first, a, value
                first = a + 1


def _fraction(value: sympy.Expr) -> Fraction:
    if not value.is_Rational:
        raise ValueError(value)
    return Fraction(int(value.p), int(value.q))


def _at(polynomial: tuple[Fraction, ...], value: int | Fraction) -> Fraction:
    result = Fraction(0)
    for coefficient in reversed(polynomial):
        result = result * value + coefficient
    return result


def _signs(polynomial: tuple[Fraction, ...], least: int, most: int) -> Iterator[tuple[int, int, int]]:
    """(from, to, sign) over the whole numbers: where the differences have one sign it goes one way, so its sign changes once."""
    def sign(value: int) -> int:
        got = _at(polynomial, value)
        return (got > 0) - (got < 0)

    if least > most:
        return
    if len(polynomial) == 1:
        yield least, most, sign(least)
        return
    runs = [(a, b + 1) for a, b, _ in _signs(_difference(_shifted(polynomial), polynomial)[:-1] or (Fraction(0),), least, most - 1)]
    first = least
    while first <= most:
        last = next((b for a, b in runs if a <= first < b), first)
        while first <= last:
            now, a, b = sign(first), first, last
            while a < b:
                middle = (a + b + 1) // 2
                a, b = (middle, b) if sign(middle) == now else (a, middle - 1)
            yield first, a, now
            first = a + 1


def _shifted(polynomial: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    """Of x + 1."""
    result: tuple[Fraction, ...] = ()
    for coefficient in reversed(polynomial):
        result = tuple(a + b for a, b in zip((*result, Fraction(0)), (Fraction(0), *result))) or (Fraction(0),)
        result = (result[0] + coefficient, *result[1:])
    return result


def _product(one: tuple[Fraction, ...], other: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    result = [Fraction(0)] * (len(one) + len(other) - 1)
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            result[i + j] += a * b
    return tuple(result)


def _difference(one: tuple[Fraction, ...], other: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    width = max(len(one), len(other))
    return tuple((one[i] if i < len(one) else Fraction(0)) - (other[i] if i < len(other) else Fraction(0)) for i in range(width))


# ---- functions of one whole number, in pieces


Pieces = list[tuple[int, int, Any]]
"""(from, to, SymPy's expression in x): a function over the whole numbers, quotients of polynomials or roots of them."""

Runs = list[tuple[int, int]]
"""(from, to): whole numbers."""


@cache
def _x() -> sympy.Symbol:
    import sympy

    return sympy.Symbol("x", integer=True, positive=True)


@cache
def _quotient(expression: sympy.Expr) -> _Quotient:
    return _Quotient.of(expression, _x())


def _exact(value: Any) -> sympy.Rational:
    """A number as a fraction."""
    import sympy

    plain = value.item() if hasattr(value, "item") else value
    return sympy.Rational(*plain.as_integer_ratio()) if isinstance(plain, float) else sympy.Integer(int(plain))


class Reach:
    """What a decision reaches: every symbol as a function of it, the others as they are.

    Args:
        equations: in the order in which they are evaluated.
        numbers: every symbol's value.
        step, most: the decision is `step` times x, and x goes from 1 to `most`.
        tables: what no equation says of a symbol: `tables(name, value)` gives numbers that follow from it (the register model's slopes of a kind of loop).
    """

    def __init__(
        self, equations: Sequence[Equation], numbers: Numbers, decision: str, step: int, most: int,
        tables: Callable[[str, int], Mapping[str, Any]] | None = None,
    ):
        self.equations = {equation.symbol: equation for equation in equations}
        self.numbers, self.decision, self.step, self.most, self.tables = numbers, decision, step, most, tables
        self.moving = {decision, *TIED.get(decision, ())}
        self.known: dict[str, Pieces] = {name: [(1, most, step * _x())] for name in self.moving}
        for equation in equations:
            if self.moving.intersection(equation.variables):
                self.moving.add(equation.symbol)
                self.moving.update(tables(equation.symbol, 0) if tables else ())
        self.tabled = {name: one for one in self.moving for name in (tables(one, 0) if tables else ())}

    def of(self, name: str) -> Pieces:
        """A symbol's pieces.

        Raises:
            Unsolved: there are none.
        """
        if name not in self.known:
            if name not in self.moving:
                self.known[name] = [(1, self.most, _exact(self.numbers[name]))]
            elif name in self.tabled:
                source = self.tabled[name]
                self.known[name] = [(first, last, _exact(self.tables(source, int(value))[name])) for first, last, value in self.of(source)]
            else:
                self.known[name] = self.pieces(self.equations[name].expression, 1, self.most)
        return self.known[name]

    def pieces(self, expression: sympy.Expr, least: int, most: int) -> Pieces:
        """Those of an expression over any symbols.

        Raises:
            Unsolved: it has too many, or is none.
        """
        import sympy

        if expression.is_Symbol:
            return [(max(a, least), min(b, most), value) for a, b, value in self.of(expression.name) if a <= most and b >= least]
        found: Pieces = []
        if expression.is_Number:
            return [(least, most, _exact(float(expression)) if expression.is_Float else expression)]
        if isinstance(expression, sympy.Piecewise):
            left = [(least, most)]
            for value, condition in expression.args:
                here = [run for first, last in left for run in self.holding(condition, first, last)]
                found += [piece for run in here for piece in self.pieces(value, *run)]
                left = [run for first, last in left for run in _without([(a, b) for a, b in here if first <= a and b <= last], first, last)]
        else:
            for first, last, values in self._together(expression.args, least, most):
                found += _combined(expression, values, first, last)
        joined: Pieces = []
        for first, last, value in sorted(found, key=lambda piece: piece[0]):
            if value in (sympy.zoo, sympy.nan):
                raise Unsolved(f"it divides by 0 at {self.step * first}")
            if joined and joined[-1][2] == value:
                first = joined.pop()[0]
            joined.append((first, last, value))
        if len(joined) > MOST_PIECES:
            raise Unsolved(f"it has more than {MOST_PIECES} steps")
        return joined

    def _together(self, expressions: Sequence[sympy.Expr], least: int, most: int) -> Iterator[tuple[int, int, list[sympy.Expr]]]:
        """(from, to, the expressions' values): between all their steps."""
        each = [self.pieces(one, least, most) for one in expressions]
        starts = sorted({first for pieces in each for first, _, _ in pieces})
        places = [0] * len(each)
        for first, following in zip(starts, [*starts[1:], most + 1]):
            for at, pieces in enumerate(each):
                while pieces[places[at]][1] < first:
                    places[at] += 1
            yield first, following - 1, [pieces[place][2] for pieces, place in zip(each, places)]

    def holding(self, condition: sympy.Basic, least: int, most: int) -> Runs:
        """The values of x that satisfy a condition over any symbols.

        Raises:
            Unsolved: it cannot be solved for.
        """
        import sympy

        if least > most or condition == sympy.false:
            return []
        if condition == sympy.true:
            return [(least, most)]
        if isinstance(condition, sympy.Not):
            return _without(self.holding(condition.args[0], least, most), least, most)
        if isinstance(condition, sympy.And):
            runs = [(least, most)]
            for one in condition.args:
                runs = [run for first, last in runs for run in self.holding(one, first, last)]
            return runs
        if isinstance(condition, sympy.Or):
            runs = []
            for one in condition.args:
                runs = _joined([*runs, *(run for first, last in _without(runs, least, most) for run in self.holding(one, first, last))])
            return runs
        if isinstance(condition, sympy.ITE):
            which, then, other = condition.args
            return self.holding(sympy.Or(sympy.And(which, then), sympy.And(sympy.Not(which), other)), least, most)
        if not isinstance(condition, sympy.core.relational.Relational):
            raise Unsolved("it is no comparison")
        return _joined([
            (a, b) for first, last, (left, right) in self._together(condition.args, least, most)
            for a, b, sign in _squared(left - right).signs(first, last) if RELATIONS[condition.rel_op](sign)
        ])


RELATIONS: dict[str, Callable[[int], bool]] = {
    "<": lambda sign: sign < 0, "<=": lambda sign: sign <= 0, ">": lambda sign: sign > 0, ">=": lambda sign: sign >= 0,
    "==": lambda sign: sign == 0, "!=": lambda sign: sign != 0,
}
"""What the sign of the difference of two sides says."""


def _combined(expression: sympy.Expr, values: list[sympy.Expr], least: int, most: int) -> Pieces:
    """The pieces of one operation, whose operands are these where none of them has a step."""
    import sympy

    x = _x()
    if all(value.is_Number for value in values):
        return [(least, most, expression.func(*values))]
    if isinstance(expression, sympy.floor | sympy.ceiling):
        whole = (lambda value: value.__floor__()) if isinstance(expression, sympy.floor) else (lambda value: value.__ceil__())
        quotient = _quotient(values[0])
        if len(quotient.under) == 1 and all((one / quotient.under[0]).denominator == 1 for one in quotient.over):
            return [(least, most, values[0])]
        found = []
        for first, last, value in quotient.steps(least, most, whole):
            found.append((first, last, sympy.Integer(value)))
            if len(found) > MOST_PIECES:
                raise Unsolved(f"it has more than {MOST_PIECES} steps")
        return found
    if isinstance(expression, sympy.Max | sympy.Min):
        larger = isinstance(expression, sympy.Max)
        found = [(least, most, values[0])]
        for other in values[1:]:
            found = [
                (a, b, one if (sign >= 0) == larger else other)
                for first, last, one in found for a, b, sign in _quotient(one - other).signs(first, last)
            ]
        return found
    if isinstance(expression, sympy.Mod):
        return [(at, at, sympy.Mod(*(value.subs(x, at) for value in values))) for at in range(least, most + 1)]
    return [(least, most, expression.func(*values))]


def _squared(difference: sympy.Expr) -> _Quotient:
    """A quotient with the sign of this difference, of which one term may be a root: a * sqrt(p) + c has the sign of a**2 * p - c**2, where c < 0 < a.

    Raises:
        Unsolved: it has roots elsewhere.
    """
    import sympy

    x = _x()
    roots = [one for one in difference.atoms(sympy.Pow) if one.exp == sympy.S.Half and x in one.free_symbols]
    if not roots:
        return _quotient(difference)
    root = sympy.Dummy()
    rest = sympy.expand(difference.xreplace({roots[0]: root}))
    slope, constant = rest.coeff(root, 1), rest.coeff(root, 0)
    if len(roots) > 1 or x in slope.free_symbols | constant.free_symbols or not (slope > 0 and constant < 0):
        raise Unsolved("it has roots in more than one place")
    return _quotient(sympy.expand(slope**2) * roots[0].base - sympy.expand(constant**2))


def _joined(runs: Runs) -> Runs:
    """Runs in order, neighbours as one."""
    result: Runs = []
    for first, last in sorted(runs):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(last, result[-1][1]))
        else:
            result.append((first, last))
    return result


def _without(runs: Runs, least: int, most: int) -> Runs:
    """What `runs` leave of least to most."""
    result, first = [], least
    for a, b in _joined(runs):
        if first < a:
            result.append((first, a - 1))
        first = b + 1
    return [*result, (first, most)] if first <= most else result


def bound(reach: Reach, constraint: Constraint, holds: Callable[[int], bool]) -> Bound | None:
    """What a constraint leaves of the reach's decision; None where the decision does not matter to it.

    Args:
        holds: what the model computes at a value of the decision.
    """
    if not reach.moving.intersection(constraint.variables):
        return None
    step = reach.step
    try:
        runs = reach.holding(constraint.expression, 1, reach.most)
        for end in {end for least, most in runs for end in (least - 1, least, most, most + 1)} & set(range(1, reach.most + 1)):
            if holds(step * end) != any(least <= end <= most for least, most in runs):
                raise Unsolved(f"it is rounded otherwise at {step * end}")
        if not runs:
            raise Unsolved("no value satisfies it beside those of the others")
        if len(runs) > 1:
            values = [step * value for least, most in runs for value in range(least, most + 1)]
            if len(values) > MOST_VALUES:
                raise Unsolved("it holds here and there")
            return Bound(reach.decision, constraint, values=tuple(values))
    except Unsolved as error:
        return Bound(reach.decision, constraint, reason=str(error))
    (least, most), = runs
    least, most = least if least > 1 else None, most if most < reach.most else None
    if least is most is None:
        return None
    form = "" if None not in (least, most) else _form(reach, constraint, least, most)
    return Bound(reach.decision, constraint, least and step * least, most and step * most, form=form)


def _form(reach: Reach, constraint: Constraint, least: int | None, most: int | None) -> str:
    """How a bound comes about where the inequality is one comparison: solved for x where that is linear in x or in its inverse, or what it is beyond a step."""
    import sympy

    relation = constraint.expression
    if not isinstance(relation, sympy.LessThan | sympy.GreaterThan):
        return ""
    last, beyond = (most, most + 1) if least is None else (least, least - 1)
    sides = [reach.pieces(side, 1, reach.most) for side in relation.args]
    there = [next((a, b, value) for a, b, value in pieces if a <= beyond <= b) for pieces in sides]
    if not all(a <= last <= b for a, b, _ in there):
        return ""
    left, right = (value for _, _, value in there)
    if _x() in right.free_symbols:
        left, right = left - right, sympy.Integer(0)
    rounded, times = "floor" if least is None else "ceil", f"{reach.step} * " if reach.step > 1 else ""
    try:
        quotient = _quotient(left)
    except Unsolved:
        quotient = None
    if quotient and (len(quotient.over), len(quotient.under)) == (2, 1):
        constant, slope = (one / quotient.under[0] for one in quotient.over)
        return f"{times}{rounded}({_minus(right, constant)} / {_said(slope)})"
    if quotient and len(quotient.under) == 2 and len(quotient.over) <= 2 and not quotient.under[0]:
        slope, constant = (one / quotient.under[1] for one in (*quotient.over, Fraction(0))[:2])
        return f"{times}{rounded}({_said(slope)} / {_minus(right, constant)})"
    return f"{times}{rounded}({_root(_squared(left - right).over, min(last, beyond))})"


def _root(polynomial: tuple[Fraction, ...], least: int) -> str:
    """Where it is 0 between a whole number and the next, with the polynomial, of which the largest power's factor is 1."""
    a, b = Fraction(least), Fraction(least + 1)
    for _ in range(40):
        middle = (a + b) / 2
        a, b = (middle, b) if (_at(polynomial, middle) > 0) == (_at(polynomial, a) > 0) else (a, middle)
    terms = [(coefficient / polynomial[-1], ("", "x")[power] if power < 2 else f"x**{power}") for power, coefficient in enumerate(polynomial)][::-1]
    text = "".join(
        f" {'-' if factor < 0 else '+'} {' * '.join(filter(None, ('' if abs(factor) == 1 and power else _said(abs(factor)), power)))}"
        for factor, power in terms if factor
    )
    return f"{_said(a)}, where {text.removeprefix(' + ')} = 0"


def _said(value: Any) -> str:
    return figure(float(value), 6)


def _minus(right: Any, constant: Any) -> str:
    if not constant:
        return _said(right)
    return f"({_said(right)} {'-' if constant > 0 else '+'} {_said(abs(constant))})"


# ---- of a plan


def bounds(
    equations: Sequence[Equation], constraints: Sequence[Constraint], numbers: Numbers, decision: str, holds: Callable[[Constraint, int], bool],
    looked_up: Callable[[str, Any], dict[str, Any]] | None = None,
) -> list[Bound]:
    """What each constraint leaves of a decision, the others as they are; those to which it does not matter, and that leave it free, are left out.

    Args:
        equations: in the order in which they are evaluated.
        numbers: every symbol's value at a plan.
        decision: a key of AXES.
        holds: whether a constraint holds in the model's own numbers with another value of the decision.
        looked_up: the symbols that a table tells for a symbol and its value, of models with such tables.
    """
    tables = looked_up and cache(looked_up)
    unit, most = AXES[decision]
    step = int(numbers[unit]) * (int(numbers.get("fetched_together", 1)) if unit == "FN" else 1) if unit else 1
    reach = Reach(equations, numbers, decision, step, most // step, tables)
    found = (bound(reach, one, lambda value, one=one: bool(holds(one, value))) for one in constraints)
    return [one for one in found if one]


def occupancy_steps(numbers: Numbers) -> list[tuple[int, int]]:
    """(registers, blocks) by R7 and R8: up to so many registers a thread, so many blocks share an SM; the fewest blocks first, at least one.

    Raises:
        Unsolved: there is no closed form.
    """
    most = int(numbers["registers_per_thread"])
    reach = Reach((resources.REGISTERS_PER_WARP, resources.BLOCKS_BY_REGISTERS), numbers, "registers", 1, most)
    steps: dict[int, int] = {}
    for _, last, blocks in reach.of("blocks_by_registers"):
        steps[int(blocks)] = last
    return sorted(((last, blocks) for blocks, last in steps.items() if blocks), reverse=True)
