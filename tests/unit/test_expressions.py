"""A user's own expressions: what they mean, and what is refused before anything could be computed of it."""

from __future__ import annotations

import numpy as np
import pytest

from gemmgen.errors import SpecError
from gemmgen.designs import all_designs
from gemmgen.model import expressions
from gemmgen.model.expressions import ALIASES, objective, required
from gemmgen.solve import solve
from gemmgen.spec import loads

KNOWN = solve(loads({
    "split": {"scheme": "ootomo", "promote": 128, "where": "prepass"}, "target": {"gpu": "a100"},
    "tile": {"block": [128, 128, 32], "warp": [64, 32, 32], "group": 8, "split_k": 1}, "pipeline": {"stages": 3, "fragment_buffers": 1, "loads": "async"},
})).model


def holds(text: str) -> bool:
    return bool(required("U1", text, "here", KNOWN).holds(KNOWN))


@pytest.mark.parametrize(("text", "true"), [
    ("stages == 3", True), ("stages != 3", False), ("2 < stages <= 3", True), ("registers <= 128 and stages == 3", False),
    ("(registers <= 128) | (stages == 3)", True), ("registers <= 128 or stages == 3", True), ("not stages == 3", False), ("~(stages == 2)", True),
    ("block_m // 3 == 42", True), ("block_m / 3 > 42.6", True), ("block_m % 100 == 28", True), ("stages ** 2 == 9", True), ("-stages + 4 == 1", True),
    ("max(block_m, warp_n, 200) == 200", True), ("min(block_m, warp_n) == 32", True), ("ceil(stages / 2) == 2", True), ("floor(stages / 2) == 1", True),
    ("sqrt(block_m * 2) == 16", True), ("where(stages > 2, block_m, warp_m) == 128", True), ("where(stages > 2, stages == 2, stages == 3)", False),
    ("split_k == slices and blocks_per_sm == resident_blocks", True), ("threads == 256 and warps == 8", True), ("0 <= 1", True), ("stages ** 0.5 < 2", True),
])
def test_what_an_expression_means(text, true):
    assert holds(text) is true


def test_an_alias_stands_before_the_models_own_name():
    """`blocks_per_sm` is what shares an SM; the hardware's limit, which the model calls so, has another name."""
    assert objective("blocks_per_sm", True, "here", KNOWN).value(KNOWN) == KNOWN["resident_blocks"] == 1
    assert objective("most_blocks_per_sm", True, "here", KNOWN).value(KNOWN) == KNOWN["blocks_per_sm"] == 32


@pytest.mark.parametrize("text", [
    "__import__('os')", "__import__('os').system('true') > 0", "().__class__", "().__class__.__mro__[1] > 0", "stages.__class__ > 0", "stages[0] > 0",
    "lambda: 1", "(lambda: 1)() > 0", "f'{stages}' > 1", "'a' > 'b'", "b'a' > 1", "[1 for x in (1,)]", "{1: 2}", "{1}", "(1, 2)", "stages if 1 else 2", "(stages := 3) > 1",
    "stages in (1, 2)", "stages is 3", "await stages", "yield", "...", "None", "True", "1j > 0", "max(*stages) > 1", "max(stages, key=stages) > 1", "eval(stages) > 0", "ceil.x > 1",
    "stages @ 2 > 1", "stages << 2 > 1", "stages ^ 2 > 1", "stages;", "stages > 1; import os", "stages = 3", "import os", "", "   ", "**", "stages <", "\0", "stages > 1 # \n 2",
    "stages", "registers <= 128 & stages == 3", "(stages > 1) + 2 > 1", "stages > 1 > (stages > 2)", "where(stages, 1, 2) > 1", "where(stages > 1, 1, stages > 2)", "not stages",
    "max() > 1", "sqrt(1, 2) > 1", "where(stages > 1, 2) > 1", "1 / 0 > stages", "(0 - 1e15) ** 8 ** 0 / 0 > 1", "1e400 > stages", "-1e16 < stages", "9" * 300 + " > stages",
    "10**10**10 > 1", "stages ** 9 > 1", "((stages ** 3) ** 3) > 1", "2 ** stages > 1", "stages ** -9 > 1", "(10**8)**8 > 1", "stages ** 1e9 > 1",
    "stages > " + "-" * 300 + "1", "(" * 250 + "1" + ")" * 140 + " > 0", "ceil(" * 60 + "stages" + ")" * 60 + " > 0", "stages > 1" + " + 1" * 300, "x" * 500, "stages > " + "1+" * 150 + "1",
])
def test_what_is_refused(text):
    with pytest.raises(SpecError) as refused:
        required("U1", text, "spec.toml: [solve] require", KNOWN)
    assert refused.value.where.startswith("spec.toml: [solve] require") and refused.value.problem


@pytest.mark.parametrize("text", [
    "stages ** 8 > 0", "(stages ** 2) ** 4 > 0", "stages < 1000000000000000", "+" * 39 + "stages > 0", "stages > 1" + " " * 390,
])
def test_limits_may_be_reached(text):
    """A power of 8, 10^15, 40 operations within one another, 400 characters; one more of each is refused."""
    assert holds(text) is True
    more = {"stages ** 8": "stages ** 9", "** 4": "** 5", "1000000000000000": "1000000000000001", "+stages": "++stages", "stages > 1 ": "stages > 1  "}
    with pytest.raises(SpecError):
        holds(next(text.replace(old, new) for old, new in more.items() if old in text))


def test_an_unknown_symbol_is_told_with_its_place_and_what_is_close():
    with pytest.raises(SpecError) as refused:
        required("U1", "stages > 1 and regsters <= 128", "spec.toml: [solve] require", KNOWN)
    assert str(refused.value) == (
        "spec.toml: [solve] require, column 16: is no symbol of the model\n"
        "  got    'regsters'\n"
        "  needs  one of registers, other_registers, registers_per_sm\n"
        "  try    gemmgen explain --symbols lists them all"
    )


def test_an_objective_is_a_number_and_orders_columns():
    with pytest.raises(SpecError, match="condition"):
        objective("stages > 1", True, "here", KNOWN)
    columns = {"resident_blocks": np.array([2, 1, 0]), "intensity": np.array([3.0, 8.0, 9.0])}
    best = objective("blocks_per_sm * intensity", True, "here", columns)
    assert list(best.cost(columns)) == [-6, -8, 0]
    assert list(objective("intensity / blocks_per_sm", False, "here", columns).cost(columns)) == [1.5, 8, np.inf]
    assert list(objective("blocks_per_sm / blocks_per_sm", True, "here", columns).cost(columns)) == [-1, -1, np.inf], "what is not a number comes last"


def test_what_is_computed_does_not_wrap():
    """BM ** 8 of 256 is 2 ** 64, which 64-bit integers take for 0."""
    assert required("U1", "block_m ** 8 > 10 * block_m ** 7", "here", KNOWN).holds({"BM": np.array([256, 64])}).tolist() == [True, True]


def test_aliases_stand_for_symbols_of_every_design_that_has_them():
    for design in (one for one in all_designs() if "gemm" in one.kinds):  # one that is for batches alone searches nothing
        symbols = {one.symbol for _, group in design.equations.groups for one in group} | set(design.symbols)
        own = {"M", "N", "K", "FM", "FN", "FK", "sms", "blocks_per_sm"}
        missing = {alias.symbol for alias in ALIASES.values()} - symbols - own
        assert missing <= {"fragment_buffers", "cluster"}, missing
    assert all(one.meaning for one in ALIASES.values()) and set(expressions.names(KNOWN)) >= {"blocks_per_sm", "stages", "demand"}
