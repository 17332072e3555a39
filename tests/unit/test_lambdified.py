"""The committed code of the forms: what SymPy writes of them today, and bit for bit what they say."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gemmgen.model.equation import Equation
from gemmgen.model.built.lambdified import CODE
from gemmgen.model.notation import FUNCTIONS

_FILE = Path(__file__).resolve().parents[2] / "bench" / "lambdify.py"
_SPEC = importlib.util.spec_from_file_location("lambdify", _FILE)
lambdify = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(lambdify)
FORMS = sorted({one.form for one in lambdify.statements()})


def test_the_file_is_what_the_forms_say(request):
    text = lambdify.rendered(lambdify.statements())
    if request.config.getoption("--update-golden"):
        lambdify.FILE.write_text(text)
    assert lambdify.FILE.read_text() == text, "python bench/lambdify.py writes it anew"
    assert sorted(CODE) == FORMS


@pytest.mark.parametrize("kind", ["whole", "real", "mixed"])
def test_code_computes_the_bits_that_the_form_says(kind):
    """In the order in which it is written, of 64-bit integers and FP64 alike: another order rounds otherwise, and `ceil` may give another register."""
    draw = np.random.default_rng(5)
    for form in FORMS:
        equation, columns = Equation("", "", form, "", ""), {}
        for at, name in enumerate(equation.variables):
            whole = kind == "whole" or kind == "mixed" and at % 2 == 0
            columns[name] = draw.integers(1, 300, 500) * draw.integers(0, 2, 500) if whole else draw.uniform(-3, 300, 500)
        with np.errstate(all="ignore"):
            said = eval(form, {"__builtins__": {}, **FUNCTIONS}, columns)
            got = CODE[form](*columns.values())
        assert said.dtype == got.dtype, form
        assert np.array_equal(said, got, equal_nan=said.dtype.kind == "f"), form


def test_another_order_is_other_bits():
    """What SymPy's own order of terms would change: the test above can fail."""
    form, columns = "a + b + c", {"a": np.array([0.1]), "b": np.array([0.2]), "c": np.array([0.3])}
    assert eval(form, {}, columns) != eval("b + c + a", {}, columns)
    assert Equation("", "", form, "", "")._code(*columns.values()) == eval(form, {}, columns)


def test_solving_imports_no_sympy():
    program = (
        "import sys\nfrom gemmgen.solve import solve\nfrom gemmgen.spec import loads\n"
        "for gpu in ('a100', 'h100', 'b200', 'mi300x'):\n    solve(loads({'target': {'gpu': gpu}}))\n"
        "print('sympy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split() == ["False"]
