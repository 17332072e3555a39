"""Every command that the documentation prints is one that its program takes, and names files that are there."""

from __future__ import annotations

import argparse
import ast
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import typer
from test_layering import ROOMS

from gemmgen import road
from gemmgen.catalog.fragment import find
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.policy import NAMES
from gemmgen.cli.app import app
from gemmgen.cli.inputs import problem_sizes
from gemmgen.cli.verb import renamed
from gemmgen.designs import all_decisions, all_designs
from gemmgen.errors import GemmgenError
from gemmgen.model import error
from gemmgen.naming import kernel_name
from gemmgen.paths import SPECS
from gemmgen.solve import solve
from gemmgen.spec import load
from gemmgen.workshop.bench import BASELINES, baselines

ROOT = SPECS.parent
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
SCRIPTS = sorted((ROOT / "bench").glob("*.py"))
STREAM = "STREAM"
PLACEHOLDERS = {"SPEC": "my.toml", "SPEC...": "my.toml", "CSV": "my.csv"}
OURS = re.compile(r"(?:[A-Z_]+=\S+ )*(?:gemmgen|python|make|pytest) |bench/\w+\.py ")
GEMMGEN = typer.main.get_command(app)
REFUSAL = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


def commands(text: str) -> list[str]:
    """The commands of a page, from fenced and indented blocks and from inline code; a line that ends in a backslash goes on."""
    text = re.sub(r"\\\n\s*", " ", text)
    fenced = [line for block in re.findall(r"^```\n(.*?)^```", text, re.S | re.M) for line in block.splitlines()]
    prose = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    indented = re.findall(r"^    (\S.*)$", prose, re.M)
    return [code for code in (*fenced, *indented, *re.findall(r"`([^`\n]+)`", prose)) if OURS.match(code)]


PRINTED = [(page.relative_to(ROOT), code) for page in PAGES for code in dict.fromkeys(commands(page.read_text()))]
# What a script says of itself: the lines of its docstring, with all that is optional.
PRINTED += [
    (script.relative_to(ROOT), line.replace("[", "").replace("]", ""))
    for script in SCRIPTS for line in commands(re.search(r'"""(.*?)"""', script.read_text(), re.S)[1].replace("\\\\\n", "\\\n"))
]


def strings(path: Path) -> list[str]:
    """The text of a module's strings, with `X` where a formatted one has a value."""
    def text(node: ast.AST) -> str:
        if isinstance(node, ast.JoinedStr):
            return "".join(text(part) for part in node.values)
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "X"

    tree = ast.parse(path.read_text())
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    return [text(node) for node in ast.walk(tree) if id(node) not in inner and (
        isinstance(node, ast.JoinedStr) or isinstance(node, ast.Constant) and isinstance(node.value, str))]


PROSE = set("and can dispatch does import in is kernel knows leaves lies makes raises reads runs uses would writes wrote".split())
"""Words that follow the product's name in sentences."""


class Taken(Exception):
    """A script's arguments, parsed."""


def parsed_by_script(script: str, arguments: list[str], monkeypatch) -> argparse.Namespace:
    """What a script of bench/ makes of its arguments, before it does anything. An abbreviated option does not count.

    Raises:
        SystemExit: the arguments are not the script's.
    """
    given = argparse.ArgumentParser.parse_args

    def parse_args(self, *rest, **more):
        self.allow_abbrev = False
        raise Taken(given(self, *rest, **more))

    if "cupy" not in sys.modules:
        monkeypatch.setitem(sys.modules, "cupy", ModuleType("cupy"))
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_args)
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    monkeypatch.syspath_prepend(ROOT / "bench")
    with pytest.raises(Taken) as taken:
        runpy.run_path(str(ROOT / script), run_name="__main__")
    return taken.value.args[0]


def there(path: str) -> bool:
    """Whether a file that a command reads is ours, or plainly the reader's own."""
    return bool(re.search("^my|/my", path)) or any(ROOT.glob(path))


def verb_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that the first words name, of a group its verb, and what follows."""
    verb, rest = GEMMGEN.commands[words[0]], words[1:]
    while hasattr(verb, "commands") and rest:
        verb, rest = verb.commands[rest[0]], rest[1:]
    return verb, rest


def check(code: str, monkeypatch, *, old_names: bool = False) -> None:
    """Raises whatever a command's own program would complain of; of an old name, unless those are allowed."""
    words = [PLACEHOLDERS.get(word, word) for word in shlex.split(code, comments=True)]
    while re.fullmatch(r"[A-Z_]+=\S+", words[0]):
        name = words.pop(0).partition("=")[0]
        files = [path for folder in ("gemmgen", "tests") for path in (ROOT / folder).rglob("*.py")]
        assert any(re.search(rf"environ\W+(get\W+)?{name}", path.read_text()) for path in files), name
    program, *arguments = words
    if program == "make":
        arguments = [word for word in arguments if not re.match(r"[A-Z]+=", word)]
        assert all(re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M) for target in arguments)
    elif program == "pytest":
        assert all((ROOT / word).exists() for word in arguments if word.startswith("tests/"))
    elif program == "gemmgen":
        arguments, new = renamed(arguments)
        assert not new or old_names, new
        if arguments[0].startswith("--"):  # of the program itself
            assert arguments[0] in {option for one in GEMMGEN.params for option in one.opts} | {"--help"}
            return
        verb, arguments = verb_of(arguments)
        alone = not arguments  # the verb is spoken of, and need not have what it asks for
        given = verb.make_context(verb.name, list(arguments), resilient_parsing=alone).params
        assert all(there(word) for word in arguments if word.endswith(".toml")), arguments
        if given.get("sizes"):
            problem_sizes(given["sizes"]), baselines(given["against"] or "")
        if given.get("gpu"):
            GPUS.get(given["gpu"])
        if verb.name == "fragments" and given.get("name"):
            find(given["name"], code)
    else:
        script, *arguments = arguments if program == "python" else words
        given = parsed_by_script(script, arguments, monkeypatch)
        if isinstance(getattr(given, "sizes", None), str):
            problem_sizes(given.sizes)
        if getattr(given, "gpu", None):
            GPUS.get(given.gpu)
        assert all(there(word) for word in arguments if word.startswith(("specs/", "bench/", "docs/"))), arguments


def test_every_page_is_looked_at():
    pages = {str(page) for page, _ in PRINTED}
    assert pages >= {"README.md", *(f"docs/{name}.md" for name in ("amd", "bench", "catalog", "export", "model"))}
    assert pages >= {f"docs/results/{name}.md" for name in ("amd", "h100", "hopper", "papers")}
    assert pages >= {f"bench/{script.name}" for script in SCRIPTS}
    assert len(PRINTED) > 60
    assert commands("Text `make x` and\n\n    gemmgen list gpus \\\n        --json\n\n```\npython y.py\n```\n") == ["python y.py", "gemmgen list gpus  --json", "make x"]


@pytest.mark.parametrize("page", sorted({page for page, _ in PRINTED}), ids=str)
def test_a_printed_command_runs(page, monkeypatch):
    for there, code in PRINTED:
        if there == page:
            with monkeypatch.context() as patched:
                check(code, patched, old_names=page.name == "CHANGELOG.md")  # it tells what was


# ---- messages and docstrings

def messages() -> list[tuple[str, str]]:
    """(module, command) of every command that a string of a module names."""
    return sorted({
        (str(path.relative_to(ROOT)), found) for path in sorted((ROOT / "gemmgen").rglob("*.py")) for text in strings(path)
        for found in re.findall(r"(?<![\w/.~-])gemmgen(?: [a-z][a-z-]*)+(?: [A-Z./\w-]+)*(?: --[a-z-]+(?: [A-Z]+)?)*", text)
    })


def test_a_message_names_verbs_and_options_of_today():
    wrong, found = [], messages()
    for path, told in found:
        words = told.split()[1:]
        if words[0] in PROSE:
            continue
        try:
            verb, rest = verb_of(words)
            options = {option for one in verb.params for option in (*one.opts, *one.secondary_opts)} | {"--help"}
            wrong += [(path, told, word) for word in rest if re.match("--[a-z]", word) and word.rstrip(".") not in options]
        except KeyError as unknown:
            wrong.append((path, told, str(unknown)))
    assert len(found) > 150 and wrong == []


@pytest.mark.parametrize("wrong", [
    "gemmgen bench my.toml --sizes 64,...", "gemmgen bench my.toml --solve-every-size", "gemmgen verify specs/kernels/none.toml", "gemmgen verity my.toml",
    "gemmgen build my.toml --source --gpu a1000", "gemmgen list fragments mma_m16n8k17_f16", "make tests", "pytest tests/none", "python bench/sanitize.py --size 4096",
    "bench/papers.py draw --policy wgmma", "bench/papers.py roofline bench/none.json", "python bench/none.py", "GEMMGEN_NONE=1 gemmgen list gpus",
    "gemmgen gpus", "gemmgen study asks",
])
def test_a_wrong_one_is_found(wrong, monkeypatch):
    with pytest.raises((AssertionError, FileNotFoundError, GemmgenError, KeyError, REFUSAL, SystemExit)):
        check(wrong, monkeypatch)


# ---- tables that say what another place says


def rows(page: str, *start: str) -> list[list[str]]:
    """The cells of a page's tables, row by row, of those rows whose first cell begins with one of these."""
    lines = (ROOT / page).read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if line.startswith("|")]
    return [row for row in cells if row[0].startswith(start)]


def test_the_page_on_speed_knows_every_baseline():
    assert {name.strip("`") for names, *_ in rows("docs/bench.md", "`") for name in names.split(", ")} == set(BASELINES)


# ---- the pages that tell where things are


def cells_of(page: str, heading: str) -> list[list[str]]:
    """The rows of the first table below a heading."""
    table = re.search(r"(?:^\|.*\n)+", (ROOT / page).read_text().partition(f"\n## {heading}\n")[2], re.M)[0]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines()[2:]]


def test_the_architecture_names_every_room_in_the_order_of_imports():
    told = [name for names, _ in cells_of("ARCHITECTURE.md", "Rooms") for name in re.findall("`(.*?)`", names)]
    assert told == list(filter(None, ROOMS))


@pytest.mark.parametrize(("page", "few"), [("ARCHITECTURE.md", 20), ("docs/your-first-change.md", 30)])
def test_the_files_that_a_page_on_the_tree_names_are_there(page, few):
    text = (ROOT / page).read_text()
    names = re.findall(r"`([\w./*-]+(?:/[\w.*-]*|\.(?:py|j2|toml|md)))`", text)
    assert len(names) > few
    assert [name for name in names if not name.startswith("my_") and not list(ROOT.glob(name.rstrip("/")))] == []


def test_the_drawing_of_the_way_names_files_that_are_there():
    drawing = re.search(r"^```\n(.*?)^```$", (ROOT / "ARCHITECTURE.md").read_text(), re.S | re.M)[1]
    names = re.findall(r"(?<![\w/*])([a-z]+(?:/|\.py))", drawing)
    assert {"spec.py", "solve/", "render.py", "build/", "run/", "verify/", "emulate/"} <= set(names)
    assert [name for name in names if not (ROOT / "gemmgen" / name).exists() and not (ROOT / name).exists()] == []


def anchors(text: str) -> set[str]:
    """What a page's headings are called in links."""
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", text, re.M)}


def test_a_link_leads_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            path, _, anchor = target.partition("#")
            if "://" in target:
                continue
            there = page.parent / path if path else page
            assert there.exists(), (page, target)
            assert not anchor or anchor in anchors(there.read_text()), (page, target)


def glossary() -> dict[str, list[str]]:
    lines = [line.strip("|").split(" | ") for line in (ROOT / "docs" / "glossary.md").read_text().splitlines() if line.startswith("|")]
    return {cells[0].strip(): cells[1:] for cells in lines[2:]}


def test_the_glossary_is_in_alphabetical_order():
    terms = [term.lower().replace("_", " ") for term in glossary()]
    assert terms == sorted(set(terms))


def test_the_glossary_has_every_decision_design_and_policy():
    found = glossary()
    assert {one.name for one in all_decisions()} <= set(found)
    assert {word.name for one in all_decisions() for word in one.words} <= set(re.findall(r"`(\w+)`", " ".join(cell for cells in found.values() for cell in cells)))
    assert {f"`{name}`" for name in (*NAMES, *(one.name for one in all_designs()))} <= set(re.findall(r"`\w+`", " ".join(found["policy"] + found["design"])))


def test_the_page_on_kernels_has_every_design():
    table = (ROOT / "docs" / "kernels.md").read_text().partition("has one of these designs")[2].partition("A design's template")[0]
    assert sorted(re.findall(r"^\| `(\w+)`", table, re.M)) == sorted(one.name for one in all_designs())


def test_the_glossarys_words_have_entries():
    found = set(glossary())
    told = [word for cells in glossary().values() for word in re.findall(r"(?<![\w*])\*([a-z][^*]*)\*(?![\w*])", cells[0])]
    assert len(told) > 20
    assert [word for word in told if not found & {word, word.removesuffix("s"), word.replace("slices", "slice")}] == []


def cells_of_model() -> list[list[str]]:
    """The table of equations."""
    return rows("docs/model.md", *"RGFTMWBECSQD")


def test_the_page_on_the_model_tells_where_every_equation_is():
    told = {f"{letter}{number}" for letter, first, last in re.findall(r"([A-Z])(\d+)(?:-[A-Z](\d+))?", " ".join(row[0] for row in cells_of_model()))
            for number in range(int(first), int(last or first) + 1)}
    told |= {f"{paper} eq. {number}" for row in cells_of_model() for paper, first, last in re.findall(r"(\w+) eqs\. (\d+)-(\d+)", row[0])
             for number in range(int(first), int(last) + 1)}
    equations = [*error.EQUATIONS, *(one for design in all_designs() for _, group in design.equations.groups for one in group)]
    needed = {one.number for one in (*equations, *(one for design in all_designs() for one in design.constraints))}
    assert len(needed) > 100
    assert needed - told == set()


def test_the_kernel_that_pages_name_is_the_specs():
    names = [kernel_name(solve(load(SPECS / "kernels" / f"{name}.toml"))) for name in ("sgemm_a100", "scaled_a100")]
    assert f"\nkernel     {names[1]}\n" in (ROOT / "README.md").read_text()
    for page in PAGES:
        if page.parent.name != "results":  # records are of their time
            for told in re.findall(r"gemmgen_(?:ootomo|scaled)_mma_\w+", page.read_text()):
                assert told in names, page.name


# ---- the cookbook

COOKBOOK = (ROOT / "docs" / "cookbook.md").read_text()
RECIPES = re.findall(r"^## (.*)\n(?:(?!^## ).*\n)*?```toml\n((?:.*\n)*?)```", COOKBOOK, re.M)


def test_the_cookbooks_recipes_are_found():
    assert len(RECIPES) == COOKBOOK.count("```toml") == 8


@pytest.mark.slow
@pytest.mark.parametrize(("title", "text"), RECIPES, ids=[title[:30] for title, _ in RECIPES])
def test_a_recipes_spec_has_a_plan(title, text):
    spec = tomllib.loads(text)
    made = road.plan(spec)
    assert made.gpu.name == spec["target"]["gpu"]
    if "rows of A" in title:
        assert made.design.name == "thin"
    if "registers" in title:
        assert made.predicted_registers <= 128
    if "bias" in title.lower():
        assert made.output.name == "f16" and [step.name for step in made.epilogue.steps] == ["bias", "relu"]


@pytest.mark.slow
def test_the_cookbooks_python_runs(capsys):
    for text in re.findall(r"^```python\n(.*?)^```$", COOKBOOK, re.S | re.M):
        exec(text, {})
    assert "block" in capsys.readouterr().out


# ---- the first page


README = (ROOT / "README.md").read_text()


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.S | re.M)


def test_the_readme_is_short_and_has_what_a_visitor_looks_for():
    assert len(README.splitlines()) <= 90
    assert {"make demo", "make test"} <= set(commands(README)) and "docs/pictures/accuracy_speed.svg" in README
    assert [len(blocks(README, language)) for language in ("toml", "python", "c")] == [1, 1, 1]


def test_the_readmes_spec_is_the_shipped_one():
    [told] = blocks(README, "toml")
    first, rest = told.split("\n", 1)
    shipped = (ROOT / first.removeprefix("# ")).read_text()
    assert rest.strip() == "".join(line for line in shipped.splitlines(keepends=True) if not line.startswith("#")).strip()


@pytest.mark.slow
def test_the_readmes_calls_are_right(tmp_path, monkeypatch):
    """The call from Python is made, and a C compiler takes the one from C with the header that the call before has exported."""
    for name in ("specs", "templates"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    [python], [call] = blocks(README, "python"), blocks(README, "c")
    found: dict = {}
    exec(python, found)
    exact = found["a"].astype(np.float64) @ found["b"]
    assert np.linalg.norm(found["c"] - exact) < 5e-7 * np.linalg.norm(exact)
    include, body = call.split("\n", 1)
    program = f"""#include <stdio.h>
        {include}
        int main(void) {{
            int m = 1, n = 1, k = 1; float *a = 0, *b = 0, *c = 0; void *workspace = 0; {STREAM} stream = 0;
            {body}
            return code; }}"""
    header = (tmp_path / "third_party" / "sgemm" / "sgemm.h").read_text()
    kind = re.search(r"(\w[\w ]*\*?) ?stream\)", header)[1]
    (tmp_path / "call.c").write_text(program.replace(STREAM, kind))
    ran = subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-Ithird_party/sgemm", "call.c"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.long
def test_the_readmes_verdict_is_what_the_command_prints(gemmgen):
    [told] = re.findall(r"^```\n(kernel .*?)^```$", README, re.S | re.M)
    printed = gemmgen("verify", str(ROOT / "specs" / "kernels" / "scaled_a100.toml"), "--device", "emulator").out
    for line in told.splitlines():
        assert line.partition(", in ")[0] in printed, line


def test_the_readmes_picture_is_drawn_of_the_records(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "bench")
    import front_picture

    assert front_picture.drawn() == (ROOT / "docs" / "pictures" / "accuracy_speed.svg").read_text()
    found = {point.name: point for point in front_picture.points((ROOT / "docs" / "results" / "frontier_h200.txt").read_text())}
    assert len(found) > 50 and found["cublas-sgemm"] == front_picture.Point("cublas-sgemm", 44.5, 1.1e-6)
    assert found["scaled, 64"].error == 2.9e-7 and set(front_picture.LABELS) <= {*found, "gemmul8-8"}
    assert front_picture.gemmul8((ROOT / "docs" / "results" / "residues.md").read_text()) == front_picture.Point("gemmul8-8", 99.4, 3e-8)
    assert front_picture.down(1e-7) < front_picture.down(1e-6) and front_picture.across(200) > front_picture.across(100)
