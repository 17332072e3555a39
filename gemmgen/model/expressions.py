"""A user's own inequalities and objective: expressions over the model's symbols, read as the model's own forms are.

`[solve] require = ["registers <= 128"]` and `maximize = "blocks_per_sm * intensity"` are text from a file that anybody may have written. It is read from a
list of what may stand in a form (`model/notation.py`), never as Python, with limits on its length, its depth, its numbers and its powers, so that
neither reading nor SymPy nor the numbers can be made to take long. What it computes is in FP64, so nothing wraps.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from gemmgen.errors import InfeasibleSpec, SpecError
from gemmgen.model.equation import Constraint, Equation, Numbers
from gemmgen.model.notation import FUNCTIONS, Unreadable, code, is_condition, parsed

MOST_CHARACTERS = 400
MOST_DEPTH = 40
"""Operations within operations."""
LARGEST_NUMBER = 10**15
LARGEST_POWER = 8
"""Of powers of powers their product."""


@dataclass(frozen=True)
class Alias:
    """A symbol of the model by a user's word.

    Attributes:
        name: what a user writes.
        symbol: the model's.
    """

    name: str
    symbol: str
    unit: str
    meaning: str


ALIASES = {one.name: one for one in (
    Alias("m", "M", "", "rows of C, as the spec hints"),
    Alias("n", "N", "", "columns of C"),
    Alias("k", "K", "", "the summed dimension"),
    Alias("block_m", "BM", "", "rows of a block's tile"),
    Alias("block_n", "BN", "", "columns of a block's tile"),
    Alias("block_k", "BK", "", "k of a stage"),
    Alias("warp_m", "WM", "", "rows of a warp's tile, or of a warpgroup's"),
    Alias("warp_n", "WN", "", "columns of a warp's tile"),
    Alias("fragment_m", "FM", "", "rows of one matrix instruction"),
    Alias("fragment_n", "FN", "", "columns of one matrix instruction"),
    Alias("fragment_k", "FK", "", "k of one matrix instruction"),
    Alias("stages", "stages", "", "shared-memory buffers of the main loop"),
    Alias("fragment_buffers", "fragment_buffers", "", "register buffers of fragments"),
    Alias("group", "group", "", "block rows of C that are worked on together"),
    Alias("slices", "split_k", "", "slices of k that different blocks sum"),
    Alias("promote", "promote", "", "k between moves of the sums into FP32 registers; 0 never"),
    Alias("cluster", "cluster", "", "blocks of a cluster, where the design has them"),
    Alias("warps", "warps", "", "warps of a block"),
    Alias("threads", "threads", "", "threads of a block"),
    Alias("registers", "registers", "", "registers a thread, as predicted"),
    Alias("shared_bytes", "shared_bytes", "B", "shared memory of a block"),
    Alias("blocks_per_sm", "resident_blocks", "", "blocks that share an SM or CU"),
    Alias("most_blocks_per_sm", "blocks_per_sm", "", "blocks that the hardware lets share one"),
    Alias("occupancy", "occupancy", "", "the share of an SM's threads in use"),
    Alias("intensity", "intensity", "FLOP a byte", "of a stage, by what it reads through L2"),
    Alias("tiles", "tiles", "", "tiles of C"),
    Alias("sms", "sms", "", "SMs or CUs of the GPU"),
    Alias("seconds", "seconds", "s", "predicted time at the spec's sizes, the split pass with it"),
    Alias("tflops", "tflops", "TFLOP/s", "predicted rate"),
    Alias("l2_bytes", "l2_bytes", "B", "what is read through L2"),
    Alias("dram_bytes", "dram_bytes", "B", "what passes device memory"),
    Alias("split_seconds", "split_seconds", "s", "predicted time of the split pass"),
)}
"""What a user calls the model's symbols; all others go by the model's own names, as `gemmgen explain` prints them."""

_FLOATING = FUNCTIONS | {"ceil": np.ceil, "floor": np.floor}


class _Own:
    """How a user's expression is computed: in FP64, in which a product of the largest symbols has room."""

    form: str

    @cached_property
    def _computed(self) -> tuple[tuple[str, ...], Any]:
        tree = ast.parse(self.form, mode="eval").body
        exponents = {id(node.right) for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and id(node) not in exponents:
                node.value = float(node.value)
        equation = Equation("", "", ast.unparse(tree), "", "")
        return equation.variables, code(equation.form, equation.variables, _FLOATING)

    def computed(self, numbers: Numbers) -> Any:
        """The number or the column; not a number where it divides 0 by 0.

        Raises:
            ArithmeticError: the numbers within it alone cannot be computed.
        """
        names, code = self._computed
        with np.errstate(all="ignore"):
            return code(*(np.asarray(numbers[name], dtype=float)[()] for name in names))


@dataclass(frozen=True)
class Required(_Own, Constraint):
    """An inequality that the spec asks for.

    Attributes:
        written: in the user's words, on one line.
    """

    written: str = ""

    def holds(self, numbers: Numbers) -> Any:
        return self.computed(numbers)

    @property
    def label(self) -> str:
        return f"{self.number} {self.written}"


@dataclass(frozen=True)
class Objective(_Own, Equation):
    """What the spec asks to be as large as possible, or as small.

    Attributes:
        written: in the user's words, on one line.
        largest: whether the largest is best.
    """

    written: str = ""
    largest: bool = True

    def value(self, numbers: Numbers) -> Any:
        return self.computed(numbers)

    def cost(self, numbers: Numbers) -> Any:
        """What a search makes as small as possible: what is not a number comes last."""
        value = np.asarray(self.computed(numbers), dtype=float)
        return np.where(np.isnan(value), np.inf, -value if self.largest else value)


Own = TypeVar("Own", bound=_Own)


def required(number: str, text: str, place: str, known: Collection[str]) -> Required:
    """An inequality of the spec.

    Args:
        number: how it is cited, `U1`.
        place: of the text, as a person would point at it.
        known: the model's symbols.

    Raises:
        SpecError: it is no condition, names a symbol that is not known, or is beyond the limits.
    """
    form, written = _form(text, place, known, condition=True)

    def refusal(plan: Any, numbers: Numbers, _: str) -> InfeasibleSpec:
        return InfeasibleSpec(
            place, "no plan satisfies it beside the other inequalities", got=written, has=f"{own.filled(plan.model)}, of the plan that comes nearest",
            needs=f"{number}, {form}", remedy="a weaker inequality, or leave more of the plan open",
        )

    own = Required(number, "required by the spec", form, "the spec requires it", refusal, written)
    return _tried(own, place)


def objective(text: str, largest: bool, place: str, known: Collection[str]) -> Objective:
    """What the spec maximises or minimises.

    Raises:
        SpecError: as `required`; it is no number.
    """
    form, written = _form(text, place, known, condition=False)
    return _tried(Objective("U0", "objective", form, "", "the spec's own", written=written, largest=largest), place)


def _tried(own: Own, place: str) -> Own:
    """It, once computed: numbers on their own may come to no number."""
    try:
        own.computed(dict.fromkeys(own.variables, 1.0))
    except ArithmeticError:
        raise SpecError(place, "numbers in it cannot be computed", got=own.written, needs="no division by 0, and no result beyond 10^308") from None
    return own


def _form(text: str, place: str, known: Collection[str], condition: bool) -> tuple[str, str]:
    """The text over the model's own symbols, and as it is, on one line."""
    if len(text) > MOST_CHARACTERS:
        raise SpecError(place, "is too long", got=text, needs=f"at most {MOST_CHARACTERS} characters", has=f"{len(text)}", remedy="several inequalities")
    try:
        tree = parsed(text)
        _measure(tree)
        if is_condition(tree) != condition:
            raise Unreadable(
                f"is a {'number' if condition else 'condition'}", 0, text, "an inequality, as registers <= 128" if condition else "a number, as intensity",
            )
    except Unreadable as error:
        raise SpecError(
            f"{place}, column {error.at + 1}", error.problem, got=error.got, needs=error.needs, remedy=error.remedy,
        ) from None
    written = ast.unparse(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in FUNCTIONS:
            node.id = _symbol(node.id, f"{place}, column {node.col_offset + 1}", known)
    return ast.unparse(tree), written


def names(known: Collection[str]) -> list[str]:
    """What a user may write, where the model knows these symbols."""
    return sorted({name for name, alias in ALIASES.items() if alias.symbol in known} | {name for name in known if name not in ALIASES})


def _symbol(name: str, place: str, known: Collection[str]) -> str:
    symbol = ALIASES[name].symbol if name in ALIASES else name
    if symbol in known:
        return symbol
    usable = names(known)
    close = difflib.get_close_matches(name, usable, n=3, cutoff=0.5)
    raise SpecError(
        place, "is no symbol of the model", got=name, needs=f"one of {', '.join(close or [one for one in usable if one in ALIASES])}",
        remedy="gemmgen explain --symbols lists them all",
    )


def _measure(node: ast.expr, depth: int = 0, power: float = 1) -> None:
    """Refuses what would take long: deep trees, large numbers, large powers.

    Raises:
        Unreadable: it would.
    """
    at = getattr(node, "col_offset", 0)
    if depth > MOST_DEPTH:
        raise Unreadable("lies too deep", at, None, f"at most {MOST_DEPTH} operations within each other", "several inequalities")
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not abs(node.value) <= LARGEST_NUMBER:
        raise Unreadable("is too large", at, str(node.value)[:40], f"numbers up to {LARGEST_NUMBER:.0e}")
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        exponent = node.right.operand if isinstance(node.right, ast.UnaryOp) and isinstance(node.right.op, ast.USub) else node.right
        if not (isinstance(exponent, ast.Constant) and isinstance(exponent.value, int | float) and exponent.value * power <= LARGEST_POWER):
            raise Unreadable("is too large a power", at, ast.unparse(node)[:60], f"a number of at most {LARGEST_POWER} as exponent, powers of powers together")
        power *= max(1, exponent.value)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            _measure(child, depth + 1, power)
