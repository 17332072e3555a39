"""What every file keeps to: lines that fit a screen, and no test that cannot fail."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import gemmgen
from gemmgen.paths import TEMPLATES

WIDEST = 160
PACKAGE = Path(gemmgen.__file__).parent
FILES = sorted({*TEMPLATES.rglob("*.j2"), *PACKAGE.rglob("*.j2"), *PACKAGE.rglob("*.py")})


def too_wide(text: str) -> list[int]:
    """The numbers of the lines that are."""
    return [number for number, line in enumerate(text.splitlines(), 1) if len(line) > WIDEST]


def test_templates_and_designs_are_among_them():
    names = {path.name for path in FILES}
    assert {"gemm.j2", "kernel.j2", "output.j2", "render.py"} <= names and len(FILES) > 100
    assert too_wide("x" * 160 + "\n" + "x" * 161) == [2]


def test_no_line_is_wider_than_160():
    assert not {str(path): lines for path in FILES if (lines := too_wide(path.read_text()))}


# ---- errors


PLACE_SECOND = re.compile(r'(?:Error|Spec)\(\s*f?"[^"\n]*",\s*f"\{(?:\w+\.)?place\}')
"""An error whose problem stands where its place does: both are text, so that no type tells them apart."""


def test_the_place_of_an_error_is_its_first_argument():
    assert PLACE_SECOND.search('InfeasibleSpec(\n    "too many", f"{place}: [tile]", got=1)')
    assert not PLACE_SECOND.search('SpecError(f"{self.place}: [tile]", f"{n} is")')
    assert not {str(path): found[0] for path in FILES if path.suffix == ".py" and (found := PLACE_SECOND.search(path.read_text()))}


# ---- tests that cannot fail


TOLERANCES, WIDEST_TOLERANCE = ("atol", "rtol", "rel", "abs"), 0.5
TESTS = sorted(Path(__file__).parents[1].rglob("*.py"))


def _number(node: ast.expr) -> float:
    """The largest number of an expression of constants and conditions; 0 where it has none."""
    if isinstance(node, ast.IfExp):
        return max(_number(node.body), _number(node.orelse))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) else 0


CALLED = {"allclose", "isclose", "assert_allclose", "approx", "raises", "warns", "search", "match", "skipif"}
"""Of the calls that are looked at, the function's last name."""


def vacuous(text: str) -> Iterator[tuple[int, str]]:
    """Lines of a test's text that hold whatever the program does, and why."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assert):
            test, parts = node.test, [*ast.walk(node.test)]
            shown = isinstance(test, (ast.Tuple, ast.List)) and any(not isinstance(one, ast.Starred) for one in test.elts)
            if shown or isinstance(test, (ast.Dict, ast.Lambda, ast.GeneratorExp, ast.JoinedStr)) or isinstance(test, ast.Constant) and test.value:
                yield node.lineno, "what is asserted is true by itself"
            if any(isinstance(one, ast.BoolOp) and isinstance(one.op, ast.Or) and any(isinstance(value, ast.Constant) and value.value for value in one.values)
                   for one in [test, *(test.values if isinstance(test, ast.BoolOp) else ())]):
                yield node.lineno, "one side of `or` is always true"
            for one in parts:
                if not isinstance(one, ast.Compare):
                    continue
                if isinstance(one.ops[0], (ast.Eq, ast.Is, ast.LtE, ast.GtE)) and type(one.left) is type(one.comparators[0]) and not any(
                    isinstance(each, ast.Call) for each in ast.walk(one)  # two calls may give two values
                ) and ast.dump(one.left) == ast.dump(one.comparators[0]):
                    yield node.lineno, "a thing is compared with itself"
                if isinstance(one.ops[0], (ast.GtE, ast.In)) and re.fullmatch(r"len\(.*\) >= 0|'' in .*", ast.unparse(one)):
                    yield node.lineno, "every text and list is so"
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in CALLED:
            name, options = ast.unparse(node.func), {option.arg: option.value for option in node.keywords}
            if any(_number(value) > WIDEST_TOLERANCE for option, value in options.items() if option in TOLERANCES):
                yield node.lineno, "the tolerance is as wide as the number"
            if name == "pytest.raises" and "match" not in options and ast.unparse(node.args[0]) in ("Exception", "BaseException"):
                yield node.lineno, "any error will do"
            pattern = options.get("match") if name in ("pytest.raises", "pytest.warns") else node.args[0] if name in ("re.search", "re.match") else None
            if isinstance(pattern, ast.Constant) and isinstance(pattern.value, str) and re.search(pattern.value, ""):
                yield node.lineno, "the pattern matches every text"
            if name == "pytest.mark.skipif" and isinstance(node.args[0], ast.Constant) and node.args[0].value:
                yield node.lineno, "it is always skipped"
        elif isinstance(node, ast.ExceptHandler) and (node.type is None or ast.unparse(node.type) in ("Exception", "BaseException", "AssertionError")):
            if all(isinstance(one, (ast.Pass, ast.Continue)) for one in node.body):
                yield node.lineno, "whatever fails is passed over"
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Compare):
            yield node.lineno, "a comparison that nobody asserts"


@pytest.mark.parametrize("text", [
    "assert (x == 1, 'text')", "assert [x]", "assert 'text'", "assert x == 1 or True", "assert a[0] == a[0]", "assert len(x) >= 0", "assert '' in x",
    "np.allclose(x, y, atol=1e25)", "np.allclose(x, y, atol=1e-5 if z else 1e25)", "pytest.approx(3, rel=1)", "pytest.raises(Exception)",
    "pytest.raises(ValueError, match='.*')", "pytest.raises(ValueError, match='')", "re.search('(a)?', x)", "pytest.mark.skipif(True, reason='')",
    "try:\n    f()\nexcept Exception:\n    pass", "try:\n    f()\nexcept:\n    pass", "x == 1",
])
def test_what_cannot_fail_is_found(text):
    assert [*vacuous(text)]


@pytest.mark.parametrize("text", [
    "assert x == 1, 'text'", "assert 0, 'never here'", "assert f(x) == f(x)", "assert (x or 1) == 2", "np.allclose(x, y, atol=1e-5)", "run(abs=3)",
    "pytest.raises(Exception, match='so')", "pytest.approx(15.98, abs=0.4)", "re.search('a+', x)", "pytest.mark.skipif(x, reason='')",
    "try:\n    f()\nexcept KeyError:\n    pass",
])
def test_what_can_fail_is_let_be(text):
    assert not [*vacuous(text)]


def test_no_test_is_one_that_cannot_fail():
    found = {f"{path.name}:{line}": why for path in TESTS for line, why in vacuous(path.read_text())}
    assert len(TESTS) > 150 and not found


# ---- sentences of the documentation


ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
VAGUE = re.compile(r"(?:how|here|there|this|below|above|record|figures|docs|link|more|(?:how|what|where|which|why)\b.*)", re.I)
"""Texts of links that do not name their target."""


def prose(text: str) -> str:
    """A page without blocks of code, code in lines and comments."""
    for code in (r"^```.*?^```$", r"^    .*?$", r"<!--.*?-->", r"`[^`]*`"):
        text = re.sub(code, "", text, flags=re.S | re.M)
    return text


def vague_links(text: str) -> list[str]:
    return [said for said in (" ".join(one.split()) for one in re.findall(r"\[([^\]]+)\]\(", text)) if VAGUE.fullmatch(said)]


def verbs_of_telling(text: str) -> list[str]:
    """Sentences in which a thing tells something, or is told."""
    return [sentence for sentence in re.split(r"(?<=[.:;|])\s", prose(text)) if re.search(r"\b(?:tells|told)\b", sentence, re.I)]


def test_a_links_text_names_its_target():
    assert not {str(page): vague for page in PAGES if (vague := vague_links(page.read_text()))}


def test_no_page_tells():
    """A page's subject does, has or prints something: records are of their time and may still tell."""
    assert not {str(page): found for page in PAGES if page.parent.name != "results" and (found := verbs_of_telling(page.read_text()))}


def test_vague_sentences_are_found():
    assert vague_links("x ([how](a.md)), [here](b), [what falls short](c), [batch record](d), [however](e), [`what`](f)") == ["how", "here", "what falls short"]
    assert len(verbs_of_telling("The row tells it. A `told` value.\n\n    tells\n\n```\nis told\n```\nIt was told: so. Nobody does.")) == 2
