r"""Reads typeset equations back, for tests: LaTeX to the form that it means, in the syntax of an Equation.

It knows what stands in a formula and nothing of the printer, and takes `a \bmod b \cdot c` from left to right, as `a % b * c`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_TOKEN = re.compile(
    r"\\begin\{cases\}|\\end\{cases\}|\\text\{for\}\\:|\\text\{otherwise\}|\\mathrm\{(?:[^{}\\]|\\ )+\}|[A-Z]_\{[A-Z]\}"
    r"|\\[A-Za-z]+|\\\\|\d+(?:\.\d+)?|[A-Za-z]|[-+=<>^&,(){}]"
)
_RELATIONS = {"=": "==", "<": "<", ">": ">", r"\leq": "<=", r"\geq": ">=", r"\neq": "!="}
_FACTORS = {r"\cdot": "*", r"\bmod": "%"}


class Line(NamedTuple):
    r"""`symbol &= form = figure\ \text{unit} \tag{tag}`; sign and figure are None where no figure stands."""

    tag: str
    symbol: str
    form: str
    sign: str | None
    figure: float | None


@lru_cache(maxsize=None)
def read(latex: str) -> str:
    """The form of an expression or a condition.

    Raises:
        AssertionError: it is neither.
    """
    reader = _Reader(latex)
    form = reader.either()
    assert not reader.tokens, reader.tokens
    return form


def read_line(line: str) -> Line:
    """A row of `align*`, without the line break at its end.

    Raises:
        AssertionError: it is no such row.
    """
    matched = re.fullmatch(r"(.*?)(?:\\ \\text\{[^{}]*\})? \\tag\{(.*)\}", line)
    assert matched, line
    body, tag = matched.groups()
    left, _, right = body.partition(" &= ")
    reader = _Reader(right)
    form, sign, figure = reader.sum(), None, None
    if reader.tokens:
        sign, figure = reader.next(), float(eval(reader.sum()))
    assert not reader.tokens and sign in (None, "=", r"\approx"), line
    return Line(tag, _Reader(left).atom(), form, sign, figure)


class _Reader:
    """Recursive descent; each method reads one kind of expression from the tokens' front."""

    def __init__(self, latex: str) -> None:
        assert not (rest := _TOKEN.sub("", latex).strip()), f"what is {rest!r} in {latex!r}?"
        self.tokens = _TOKEN.findall(latex)

    def next(self) -> str:
        return self.tokens.pop(0)

    def at(self, *tokens: str) -> bool:
        return bool(self.tokens) and self.tokens[0] in tokens

    def skip(self, *tokens: str) -> None:
        for token in tokens:
            assert self.at(token), (token, self.tokens)
            self.next()

    def either(self) -> str:
        form = self.both()
        while self.at(r"\vee"):
            self.skip(r"\vee")
            form = f"({form} | {self.both()})"
        return form

    def both(self) -> str:
        form = self.relation()
        while self.at(r"\wedge"):
            self.skip(r"\wedge")
            form = f"({form} & {self.relation()})"
        return form

    def relation(self) -> str:
        form = self.sum()
        return f"({form} {_RELATIONS[self.next()]} {self.sum()})" if self.at(*_RELATIONS) else form

    def sum(self) -> str:
        form = "-" + self.product() if self.at("-") and self.next() else self.product()
        while self.at("+", "-"):
            form = f"{form} {self.next()} {self.product()}"
        return f"({form})"

    def product(self) -> str:
        form = self.power()
        while self.at(*_FACTORS):
            form = f"{form} {_FACTORS[self.next()]} {self.power()}"
        return form

    def power(self) -> str:
        base = self.atom()
        if not self.at("^"):
            return base
        self.skip("^")
        return f"({base} ** {self.group()})"

    def group(self, opening: str = "{", closing: str = "}") -> str:
        self.skip(opening)
        form = self.either()
        self.skip(closing)
        return form

    def atom(self) -> str:
        token = self.next()
        if re.fullmatch(r"\d.*|[A-Za-z]", token):
            return token
        if token.startswith(r"\mathrm"):
            return token[len(r"\mathrm{") : -1].replace(r"\ ", "_")
        if re.fullmatch(r"[A-Z]_\{[A-Z]\}", token):
            return token[0] + token[3]
        if token == r"\frac":
            return f"({self.group()} / {self.group()})"
        if token == r"\sqrt":
            return f"sqrt({self.group()})"
        if token in (r"\min", r"\max"):
            return token[1:] + self.arguments()
        if token == r"\left":
            return self.bracket()
        assert token == r"\begin{cases}", token
        return self.cases()

    def bracket(self) -> str:
        if self.at("("):
            self.skip("(")
            form = self.either()
            self.skip(r"\right", ")")
            return f"({form})"
        kind = self.next().removeprefix(r"\l")
        form = self.group()
        self.skip(r"\right", rf"\r{kind}")
        return f"{kind}({form})"

    def arguments(self) -> str:
        self.skip(r"\left", "(")
        forms = [self.either()]
        while self.at(","):
            self.skip(",")
            forms.append(self.either())
        self.skip(r"\right", ")")
        return f"({', '.join(forms)})"

    def cases(self) -> str:
        then = self.either()
        self.skip("&")
        if self.at(r"\text{otherwise}"):
            self.skip(r"\text{otherwise}", r"\end{cases}")
            return then
        self.skip(r"\text{for}\:")
        condition = self.either()
        self.skip(r"\\")
        return f"where({condition}, {then}, {self.cases()})"
