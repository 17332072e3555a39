"""Writes gemmgen/model/built/lambdified.py: the code that SymPy's lambdify makes of every form of the model.

    python bench/lambdify.py

Run it after a form was changed; a test compares the file with what this writes.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable
from pathlib import Path

from gemmgen.designs import all_designs, common
from gemmgen.kinds import all_kinds
from gemmgen.kinds.triangles import UPPER, Syrk
from gemmgen.kinds.triangular import RIGHT, Trmm
from gemmgen.model import accuracy, bounds, epilogue, error, papers, time
from gemmgen.model.built import lambdified
from gemmgen.model.equation import Constraint, Equation

FILE = Path(lambdified.__file__)
WIDTH = 150
HEAD = '''"""Built by bench/lambdify.py, do not edit: the model's forms as SymPy's lambdify writes them, by form."""

# ruff: noqa
from gemmgen.model.notation import FUNCTIONS

ceil, floor, max, min, sqrt, where = (FUNCTIONS[name] for name in ("ceil", "floor", "max", "min", "sqrt", "where"))

CODE = {
'''
MIDDLE = '''}

# The largest number of stages that C10 leaves, solved for by SymPy, by design.
MOST_STAGES = {
'''


def statements() -> list[Equation | Constraint]:
    """All that is evaluated: of every design and the kinds of products that it computes, of the error that promotion decides, of the papers."""
    of_kinds = (one.of(kind) for one in all_designs() for kind in (*all_kinds().values(), Syrk(UPPER), Trmm(side=RIGHT)) if not kind.plain and one.computes(kind))
    own = [one for design in (*all_designs(), *of_kinds) for group in (
        *(group for _, group in design.equations.groups), design.equations.tiles, design.equations.pipeline, design.equations.launch,
        design.equations.predictions, design.constraints,
    ) for one in group]
    return [*own, *error.EQUATIONS, *accuracy.EQUATIONS, *epilogue.EQUATIONS, *papers.PAPERS, papers.EGEMM_BALANCE, time.SGEMM_SECONDS, time.NATIVE_SECONDS,
            *most_stages().values()]


def most_stages() -> dict[str, Equation]:
    """What C10 leaves of the stages, by design, where it is linear in them."""
    found = {one.name: bounds.most(one.equations.pipeline, common.SHARED_MEMORY, "stages") for one in all_designs() if common.SHARED_MEMORY in one.constraints}
    return {name: bound for name, bound in found.items() if bound}


def rendered(statements: Iterable[Equation | Constraint]) -> str:
    """The file's text, each form once, in the order of the statements."""
    forms = {one.form: one for one in statements}
    return HEAD + "".join(f"    # {one.number}\n{_broken(repr(form))}: (\n{_broken(one.lambdified)}\n    ),\n" for form, one in forms.items()) + (
        MIDDLE + "".join(f"    {name!r}:\n{_broken(repr(one.form))},\n" for name, one in most_stages().items()) + "}\n"
    )


def _broken(text: str) -> str:
    """Text of a bracket or of a string literal in lines of WIDTH, cut at spaces."""
    if not text.startswith(("'", '"')):
        return textwrap.fill(text, WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8, break_long_words=False, break_on_hyphens=False)
    lines = textwrap.wrap(text[1:-1], WIDTH - 8, break_long_words=False, break_on_hyphens=False, drop_whitespace=False)
    body = "\n    ".join(f'"{line}"' for line in lines)
    return f"    {body}" if len(lines) == 1 else f"    (\n    {body})"


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    text = rendered(statements())
    FILE.write_text(text)
    print(f"{FILE}: {text.count('lambda ')} forms")
