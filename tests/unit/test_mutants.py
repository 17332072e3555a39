"""The list of faults that `make mutants` tries: each finds its place, names tests that are there, and is well formed; and the
runner tells one outcome from another."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jinja2
import pytest

FOLDER = Path(__file__).resolve().parents[1] / "mutants"


def _runner():
    found = importlib.util.spec_from_file_location("mutants_run", FOLDER / "run.py")
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module  # where dataclasses look
    found.loader.exec_module(module)
    return module


runner = _runner()
MUTANTS = runner.read()


def test_every_fault_finds_its_place():
    assert runner.stale(MUTANTS) == {}


def test_every_named_test_is_there():
    assert runner.lost_tests(MUTANTS) == {}


def test_the_list_is_of_all_rooms_and_both_vendors():
    assert len(MUTANTS) >= 120
    assert {mutant.room for mutant in MUTANTS} == {
        "catalog", "split", "model", "solve", "templates", "build", "emulate", "run", "verify", "export", "bench", "cli", "tune", "store", "explore_study",
        "explore_report", "bringup", "bringup_rows", "library", "library_choice", "library_python", "drop_in", "apps", "epilogue", "kinds", "workshop", "front", "f64",
        "complex", "mutants",
    }
    assert all(sum(mutant.vendor == vendor for mutant in MUTANTS) >= 15 for vendor in runner.VENDORS)
    assert sum(bool(mutant.equivalent) for mutant in MUTANTS) <= runner.ALLOWED


ROW = '[[mutant]]\nid = "x"\nvendor = "both"\nfile = "code.py"\nfind = "1"\nreplace = "2"\ntests = ["test_code.py"]\n'


def test_rows_that_cannot_be_are_refused(tmp_path):
    (tmp_path / "tests/mutants").mkdir(parents=True)
    for text, complaint in (
        (ROW * 2, "stand twice"), (ROW.replace('"2"', '"1"'), "a change"), (ROW.replace("both", "intel"), "a vendor"),
        (ROW + "other = 1\n", "other"), (ROW.replace("test_code.py", "tests/golden/test_generated.py"), "recorded text"),
        (ROW.replace('"test_code.py"', ""), "tests"),
    ):
        (tmp_path / "tests/mutants/room.toml").write_text(text)
        with pytest.raises(ValueError, match=complaint):
            runner.read(tmp_path)


# ---- what a verdict hangs on


def _made_up(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


FILES = {
    "gemmgen__a_dot_py": "x = 1\n", "gemmgen__b_dot_py": "y = 1\n", "tests__conftest_dot_py": "import thinned\n", "tests__support__thinned_dot_py": "z = 1\n",
    "tests__unit__test_a_dot_py": "from helper import h\n\n\ndef test_one():\n    h()\n\n\n@mark\ndef test_two():\n    pass\n",
    "tests__support__helper_dot_py": 'import deeper\nh = "stand_in"\n', "tests__support__deeper_dot_py": "d = 'data.txt'\n", "tests__support__other_dot_py": "o = 1\n",
    "tests__support__stand_in__c_dot_c": "int c;\n", "tests__support__data_dot_txt": "1\n", "tests__support__others_dot_txt": "1\n",
}


@pytest.mark.parametrize(("file", "verdict", "passing"), [
    ("gemmgen__a_dot_py", True, True), ("gemmgen__b_dot_py", False, True), ("tests__conftest_dot_py", True, True), ("tests__support__thinned_dot_py", False, False),
    ("tests__support__helper_dot_py", True, True), ("tests__support__deeper_dot_py", True, True), ("tests__support__other_dot_py", False, False),
    ("tests__support__stand_in__c_dot_c", True, True), ("tests__support__data_dot_txt", True, True), ("tests__support__others_dot_txt", False, False),
])
def test_a_key_holds_the_altered_file_and_all_that_its_tests_need(file, verdict, passing, tmp_path):
    mutant = runner.Mutant("x", "room", "both", "gemmgen/a.py", "1", "2", ("tests/unit/test_a.py::test_one",))

    def keys(root):
        texts = runner.Texts(root)
        return texts.key(mutant), texts.passing(mutant.tests[0])

    before = keys(_made_up(tmp_path / "before", **FILES))
    after = keys(_made_up(tmp_path / "after", **FILES | {file: FILES[file] + "\n# more\n"}))
    assert (before[0] != after[0], before[1] != after[1]) == (verdict, passing)


def test_a_key_holds_the_named_test_and_not_the_one_beside_it(tmp_path):
    root, file = _made_up(tmp_path, **FILES), tmp_path / "tests/unit/test_a.py"

    def key(*tests, text=file.read_text(), **changes):
        file.write_text(text)
        runner._tests_in.cache_clear()
        row = {"id": "x", "room": "room", "vendor": "both", "file": "gemmgen/a.py", "find": "1", "replace": "2"} | changes
        return runner.Texts(root).key(runner.Mutant(**row, tests=tests))

    one, whole, text = "tests/unit/test_a.py::test_one[p]", "tests/unit/test_a.py", file.read_text()
    assert key(one) == key(one, text=text.replace("@mark", "@other").replace("pass", "fail")) == key(one, id="y", vendor="amd")
    assert len({key(one), key(one, text=text.replace("h()", "g()")), key("tests/unit/test_a.py::test_one"), key(one, whole), key(one, replace="3"),
                key(one, equivalent="so")}) == 6
    assert key(whole) != key(whole, text=text.replace("pass", "fail"))


def test_verdicts_of_two_machines_are_put_together_and_what_is_half_written_is_not_read(tmp_path):
    mine, theirs = runner.Known(tmp_path / "kept.jsonl"), runner.Known(tmp_path / "theirs.jsonl")
    mine.add(id="b", key="1", state="survived")
    mine.add(id="b", key="1", state="caught")
    theirs.add(id="b", key="1", state="broken")
    theirs.add(id="a", key="2", state="caught")
    theirs.add(id="c", key="of a row that is gone", state="caught")
    with mine.path.open("a") as file:
        file.write('<<<<<<< mine\n{"id": "d", "key": "3", "sta\n[1]\n')
    assert {line["id"]: line["state"] for line in mine.read().values()} == {"b": "caught"}
    mine.tidy(["2"], theirs.path, of=["a"])  # b was not tried, nor is c of a row any more: both lines stay
    assert [line["id"] for line in mine.read().values()] == ["a", "b", "c"]
    mine.tidy(["1", "2", "3"], theirs.path)
    assert [(line["id"], line["state"]) for line in map(json.loads, mine.path.read_text().splitlines())] == [("a", "caught"), ("b", "caught")]


def test_a_verdict_that_changes_from_run_to_run_is_luck():
    mutant = runner.Mutant("x", "room", "both", "code.py", "1", "2", ("test.py",))
    told = [runner._together([runner.Outcome(mutant, state, seconds=number) for number, state in enumerate(states)]) for states in (
        ("caught", "survived", "caught"), ("caught", "caught"))]
    assert [(one.state, one.seconds, one.how) for one in told] == [("luck", 1, "caught 2 of 3 times, survived 1 of 3 times"), ("caught", 0.5, "")]
    assert "| room: x | `code.py` | luck |" in runner.tables(told[:1])


# ---- whole runs, on a made-up tree


CODE = "def f():\n    return 1\n\n\ndef g():\n    return 1\n"
TESTS = '''import subprocess
import sys
from pathlib import Path

import jinja2
import pytest

HERE = Path(__file__).parents[2]


def test_f():
    from code_under_test import f
    assert f() < 3


def test_g():
    import code_under_test


def test_c(tmp_path):
    done = subprocess.run(["gcc", HERE / "templates/t.c", "-o", tmp_path / "t"], capture_output=True)
    assert (done.returncode or subprocess.run([tmp_path / "t"]).returncode) == 3
    assert subprocess.run(["gcc", "no such file"], capture_output=True).returncode


def test_template():
    try:
        text = jinja2.Environment(undefined=jinja2.StrictUndefined).from_string((HERE / "templates/t.j2").read_text()).render(a=1)
    except jinja2.TemplateError:
        text = ""
    assert text == "1"


def test_kernel():
    from gemmgen.build import nvrtc  # which no test before this one has imported
    assert nvrtc.Compiler().run((HERE / "templates/k.j2").read_text()).ok


def test_skipped():
    pytest.skip("no reason")


def test_red():
    assert 0
'''
NVRTC = """class Output:
    log = "k.cu(1): error: expected an expression"

    def __init__(self, ok):
        self.ok = ok


class Compiler:
    def run(self, text):
        return Output("return 1" in text)
"""
HANGS = "import subprocess, pathlib; pathlib.Path({!r}).write_text(str(subprocess.Popen(['sleep', '60'], start_new_session=True).pid))\n    import time; time.sleep(60)"
FAULTS = {  # file, find, replace, test, reason of equivalence: state
    "seen": ("code_under_test.py", "f():\n    return 1", "f():\n    return 4", "f", "", "caught"),
    "not seen": ("code_under_test.py", "f():\n    return 1", "f():\n    return 2", "f", "", "survived"),
    "cannot be seen": ("code_under_test.py", "f():\n    return 1", "f():\n    return 0", "f", "0 is below 3, too", "equivalent"),
    "said to be so": ("code_under_test.py", "f():\n    return 1", "f():\n    return 5", "f", "5 is not", "survived"),
    "another name": ("code_under_test.py", "def f", "def h", "f", "", "broken"),
    "no Python": ("code_under_test.py", "def g", "g", "g", "", "broken"),
    "without end": ("code_under_test.py", "f():\n    return 1", "f():\n    HANGS", "f", "", "caught"),
    "no longer there": ("code_under_test.py", "return 5", "return 6", "f", "", "stale"),
    "other C": ("templates/t.c", "3", "4", "c", "", "caught"),
    "no C": ("templates/t.c", "3;", "3 +;", "c", "", "broken"),
    "another text": ("templates/t.j2", "a", "a + 1", "template", "", "caught"),
    "undefined": ("templates/t.j2", "a", "b", "template", "", "broken"),
    "no template": ("templates/t.j2", "}}", "", "template", "", "broken"),
    "no kernel": ("templates/k.j2", "return 1", "return", "kernel", "", "broken"),
    "no test": ("templates/t.j2", "{{", "{{ 1 +", "skipped", "", "broken"),
    "a red test": ("templates/t.j2", "{{", "{{ 2 +", "red", "", "broken"),
}


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc: nothing refuses C")
def test_outcomes_are_told_apart_kept_and_tried_again_only_after_a_change(tmp_path):
    root = _made_up(
        tmp_path / "root", code_under_test_dot_py=CODE, tests__unit__test_it_dot_py=TESTS, templates__t_dot_c="int main(void) { return 3; }\n",
        templates__t_dot_j2="{{ a }}", templates__k_dot_j2="return 1", gemmgen__build__nvrtc_dot_py=NVRTC, docs__results__mutants_dot_md="",
        pyproject_dot_toml="[dependency-groups]\ntests = ['pytest-xdist', 'hypothesis']\n[tool.pytest.ini_options]\ntestpaths = ['tests']\n",
        tests__mutants__room_dot_toml="".join(
            "[[mutant]]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in {
                "id": name, "vendor": "both", "file": file, "find": find, "replace": replace.replace("HANGS", HANGS.format(str(tmp_path / "pid"))),
                "tests": [f"tests/unit/test_it.py::test_{test}"], **({"equivalent": reason} if reason else {}),
            }.items()) for name, (file, find, replace, test, reason, _) in FAULTS.items()),
    )

    for package in ("gemmgen", "gemmgen/build"):
        (root / package / "__init__.py").touch()

    def run(*arguments) -> tuple[int, dict[str, str], str]:
        done = subprocess.run([sys.executable, FOLDER / "run.py", "--root", root, "--timeout", "3", *arguments], capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stderr
        tried = dict(reversed(line.split(" room: ")) for line in done.stderr.splitlines() if " room: " in line)
        return done.returncode, {name.partition(" (")[0]: state.strip() for name, state in tried.items()}, done.stderr

    states = {name: fault[-1] for name, fault in FAULTS.items()}
    code, tried, told = run("--jobs", "2")
    assert code == 1 and tried == {name: state for name, state in states.items() if state != "stale"}, told
    kept = {line["id"]: line for line in map(json.loads, (root / "tests/mutants/kept.jsonl").read_text().splitlines())}
    assert {name: line["state"] for name, line in kept.items()} == {name: tried[name] for name in tried if name not in ("no test", "a red test")}
    assert "16 | 4 | 2 | 1 | 0 | 1 | 8 | 0 |" in (root / "docs/results/mutants.md").read_text()
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()  # a session of its own is no way out
    (root / "templates/t.c").write_text("int main(void) { return 3 + 0; }\n")
    rows = (root / "tests/mutants/room.toml").read_text().replace("[[", "\0[[").split("\0")
    (root / "tests/mutants/room.toml").write_text("".join(row for row in rows if 'id = "seen"' in row or 'id = "other C"' in row))
    code, tried, told = run("--only", "seen")
    keys = {line["id"]: line["key"] for line in map(json.loads, (root / "tests/mutants/kept.jsonl").read_text().splitlines())}
    assert (code, tried) == (0, {"seen": "caught"}) and keys == {name: line["key"] for name, line in kept.items()}, told
    code, tried, told = run()
    assert (code, tried) == (0, {"other C": "caught"}), told  # its file is another now
    assert {json.loads(line)["id"] for line in (root / "tests/mutants/kept.jsonl").read_text().splitlines()} == {"seen", "other C"}


def test_a_tree_that_is_not_the_one_asked_for_is_no_ground(tmp_path):
    """No fault could be seen in it."""
    ran = runner.Ran(-2, output="gemmgen comes from elsewhere: no fault would be seen")
    mutant = runner.Mutant("x", "room", "both", "a.py", "1", "2", ("test.py",))
    work = runner.Work(runner.Texts(tmp_path), tmp_path, tmp_path, runner.Known(tmp_path / "kept.jsonl"), 1, 1)
    with pytest.raises(RuntimeError, match="no fault would be seen"):
        work._judge(mutant, ran, {"test.py": {"refused": {}}})


# ---- faults that are drawn


@pytest.mark.parametrize(("operator", "text", "after"), [
    ("comparison", "x = a < b", ["x = a <= b"]),
    ("comparison", "x = (a) not in (b)", ["x = (a) in (b)"]),
    ("comparison", "x = a == b >= c", ["x = a != b >= c", "x = a == b > c"]),
    ("comparison", "x = a is not b", ["x = a is b"]),
    ("arithmetic", "x = a + b - c", ["x = a + b + c", "x = a - b - c"]),
    ("arithmetic", 'x = a + "s"', []),
    ("and, or", "x = a and b or c", ["x = a and b and c", "x = a or b or c"]),
    ("condition", "if not a:\n    b = [c for d in e if f]", ["if a:\n    b = [c for d in e if f]", "if not a:\n    b = [c for d in e if not (f)]"]),
    ("condition", "while True:\n    x = a if b else c", ["while True:\n    x = a if not (b) else c"]),
    ("constant", "x = [0x1f, é, -7, True]", ["x = [0x1f, é, -8, True]", "x = [0x20, é, -7, True]"]),
    ("returned", "def f():\n    return a * b", ["def f():\n    return (a)", "def f():\n    return (b)"]),
    ("returned", "def f():\n    return a, b, c", ["def f():\n    return b, a, c"]),
    ("arguments", "f(a, b(c), d)\ng(a, a)\ng(*a, b)\nmax(a, b)", ["f(b(c), a, d)\ng(a, a)\ng(*a, b)\nmax(a, b)"]),
    ("statement", "def f(x):\n    y = 1\n    x = y\n    x += y\n    g()", [
        "def f(x):\n    y = 1\n    pass\n    x += y\n    g()",
        "def f(x):\n    y = 1\n    x = y\n    pass\n    g()", "def f(x):\n    y = 1\n    x = y\n    x += y\n    pass"]),
    ("guard", "def f():\n    if a:\n        raise b\n    if c:\n        d = 1", ["def f():\n    pass\n    if c:\n        d = 1"]),
    ("default", "def f(a=True, *, b=3, c=None):\n    pass", ["def f(a=False, *, b=3, c=None):\n    pass", "def f(a=True, *, b=4, c=None):\n    pass"]),
    ("default", "class A:\n    a: bool = False", ["class A:\n    a: bool = True"]),
    ("min, max", "x = min(a, b)", ["x = max(a, b)"]),
    ("any, all", "x = all(a)", ["x = any(a)"]),
    ("index", "x = a[b:c + d]", ["x = a[(b) + 1:c + d]", "x = a[b:(c + d) + 1]"]),
    ("key", 'x = {"a": b, "c": d}\ny = x["c"]\nz = x.get("a")', [
        'x = {"a": b, "c": d}\ny = x["c"]\nz = x.get(\'c\')', 'x = {"a": b, "c": d}\ny = x[\'a\']\nz = x.get("a")']),
])
def test_each_change_of_python_is_drawn(operator, text, after):
    found = [change.applied(text) for change in runner.drawn.python_changes(text) if change.operator == operator]
    assert sorted(found) == after


def test_what_no_test_can_see_is_not_drawn():
    text = '''"""1 < 2"""  # 1 < 2
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    x = 1


class A:
    a: Literal[1] = f"{b + 1}"

    @cache(maxsize=1)
    def f(self, x: Literal[2]) -> Literal[3]:
        """1 < 2"""
        raise Exit(f(1), 2 < 3)

    def __repr__(self):
        return a + b

    def g(self):
        x = UnknownName(option(help=text(1, 2), needs=a < b))
        return CacheWarning(1, 2)
'''
    assert [change.operator for change in runner.drawn.python_changes(text)] == []


@pytest.mark.parametrize(("operator", "text", "after"), [
    ("comparison", "a < b; c<d> e; // f < g\n", ["a <= b; c<d> e; // f < g\n"]),
    ("comparison", "%% if a >= b\n/* c == d\ne == f */\n<# g == h #>\n", ["%% if a > b\n/* c == d\ne == f */\n<# g == h #>\n"]),
    ("comparison", "<% if a // b == c %>x<% endif %>\n%# a == b\n", ["<% if a // b != c %>x<% endif %>\n%# a == b\n"]),
    ("arithmetic", 'x = a + ${ b - c };\ns = "d + e";\n', ['x = a + ${ b + c };\ns = "d + e";\n', 'x = a - ${ b - c };\ns = "d + e";\n']),
    ("and, or", "if (a && b || c) {\n%% if a and b\n", [
        "if (a && b && c) {\n%% if a and b\n", "if (a && b || c) {\n%% if a or b\n", "if (a || b || c) {\n%% if a and b\n"]),
    ("extents", 'x = é + work.m * k0 + k; "\\n"\n', ['x = é + work.m * k0 + m; "\\n"\n', 'x = é + work.n * k0 + k; "\\n"\n']),
    ("leading dimensions", "x = lda;\n", ["x = ldb;\n"]),
    ("constant", '#include <x1>\nx1 = 3u + 1.5f; "4"\n', ['#include <x1>\nx1 = 4u + 1.5f; "4"\n']),
    ("index", "x[i] = y[4];\nfloat z[${n}];\n[&](int i) {}\n", ["x[i + 1] = y[4];\nfloat z[${n}];\n[&](int i) {}\n"]),
    ("guard", "    if (a(b)) return;\n", ["    ;\n"]),
    ("guard", "    if (a(b)) c();\n", ["    if (1) c();\n"]),
    ("guard", "    } else if (a) {\n", []),
    ("barrier", "    __syncthreads();\n    ${ hw.barrier() }();\nint wait_for(int a) { return 1; }\n", [
        "    ;\n    ${ hw.barrier() }();\nint wait_for(int a) { return 1; }\n", "    __syncthreads();\n    ;\nint wait_for(int a) { return 1; }\n"]),
])
def test_each_change_of_a_template_is_drawn(operator, text, after):
    found = [change.applied(text) for change in runner.drawn.template_changes(text) if change.operator == operator]
    assert sorted(found) == after


DRAWN_FROM = {
    "gemmgen__solve__a_dot_py": "def f(x, y=1):\n    return x + y\n\n\ndef g(x, y=1):\n    return x + y\n" * 3,
    "gemmgen__api__b_dot_py": "x = 1 < 2\ny = 3 + 4\n" * 9,
    "gemmgen__cache_dot_py": "x = 1\n", "templates__c_dot_j2": "a < b;\n" * 9, "templates__page_dot_md_dot_j2": "a < b\n",
}


def test_one_seed_draws_the_same_faults_evenly_and_each_is_one_change_that_a_row_can_hold(tmp_path):
    root = _made_up(tmp_path, **DRAWN_FROM)

    def drawn(count, seed, *rest):
        return [*runner.drawn.draw(root, count, seed, *rest)]

    assert drawn(12, 1) == drawn(12, 1) != drawn(12, 2)
    count = {file: sum(name == file for name, _ in drawn(16, 1)) for file in ("gemmgen/api/b.py", "gemmgen/solve/a.py", "templates/c.j2")}
    assert count == {"gemmgen/api/b.py": 8, "gemmgen/solve/a.py": 4, "templates/c.j2": 4}  # newer rooms are drawn from twice as often
    assert {name for name, _ in drawn(5, 1, ["templates"])} == {"templates/c.j2"}
    assert {name for name, _ in drawn(5, 1, (), "*/solve/*")} == {"gemmgen/solve/a.py"}
    every = drawn(1000, 1)
    assert len(every) == len({(name, change.start, change.end, change.new) for name, change in every}) < 1000
    for file, change in every:
        text, row = (root / file).read_text(), runner.as_row(root, file, change, ["tests/unit/test_a.py"], 1)
        assert text.count(row.find) == 1 and text.replace(row.find, row.replace) == change.applied(text) != text
        assert row.before in row.find and row.after in row.replace and text.splitlines()[row.line - 1] in row.before


def test_a_change_that_is_no_python_is_not_drawn():
    compiles = runner.drawn.compiles
    assert not compiles("a.py", "def f():\n    return x +\n") and not compiles("a.py", "return 1\n") and compiles("a.j2", "x +")


def _covered(root, seconds=None, **running):
    """A map of tests to the lines of gemmgen/a.py that they run."""
    lines = runner.lines
    names = {name: f"tests/{'golden' if name == 'recorded' else 'unit'}/test_a.py::test_{name}" for name in running}
    return lines.Map(root, [{"id": names[name], "state": "passed", "seconds": (seconds or {}).get(name, 1.0), "lines": lines.packed(found)}
                            for name, found in running.items()] + [{"id": "red", "state": "failed", "seconds": 1.0, "lines": ""}])


def test_the_map_finds_the_tests_that_run_a_line_a_default_and_a_name(tmp_path):
    root = _made_up(tmp_path, gemmgen__a_dot_py="X = 1\nY = 2\n\n\ndef f(\n    a=3,\n):\n    return X\n", gemmgen__b_dot_py="def g():\n    return 1\n",
                    tests__unit__test_a_dot_py="def test_y():\n    assert Y\n")
    covered = _covered(root, f={"gemmgen/a.py": [8]}, g={"gemmgen/b.py": [2], "templates/t.j2": [1]}, y={},
                       recorded={"templates/t.j2": [1, 2], "gemmgen/b.py": [1]})

    def of(*where, **more):
        return {test.rpartition("_")[2] for test in covered.of(*where, **more)}

    assert of("gemmgen/a.py", 8, 8) == {"f"} and of("gemmgen/a.py", 7, 8) == {"f"} and of("gemmgen/a.py", 7, 7) == set()
    assert of("gemmgen/a.py", 6, 6, body=(8, 8)) == {"f"}
    assert of("gemmgen/a.py", 1, 1, names=["X"]) == {"f"} and of("gemmgen/a.py", 2, 2, names=["Y"]) == {"y"} and of("gemmgen/a.py", 2, 2, names=["Z"]) == {"f"}
    assert of("gemmgen/b.py", 1, 2) == {"recorded"} and of("templates/t.j2", 1, 1) == {"g"}  # recorded text tells nothing of a template
    assert covered.states == {"passed": 4, "failed": 1}


def test_lines_of_a_template_are_its_own_and_only_where_they_are_rendered(tmp_path, monkeypatch):
    root = _made_up(tmp_path, templates__lib__t_dot_j2="%% if x\none\ntwo ${x}\n%% else\nthree\n%% endif\nfour\n%% macro f()\nfive\n%% endmacro\nsix\n", elsewhere_dot_j2="a\n")
    monkeypatch.setattr(jinja2.Environment, "__init__", jinja2.Environment.__init__)
    monkeypatch.setattr(jinja2.Environment, "code_generator_class", jinja2.Environment.code_generator_class)
    runner.lines.mark_text(tmp_path)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([root / "templates", root]), line_statement_prefix="%%", variable_start_string="${", variable_end_string="}")
    monkeypatch.setitem(sys.modules, "gemmgen.render", SimpleNamespace(_environment=lambda: environment))
    runner.lines._spans.cache_clear()
    found = {}
    for x in (True, False):
        lines = runner.lines.Lines(root)
        lines.start()
        environment.get_template("lib/t.j2").render(x=x)
        environment.get_template("elsewhere.j2").render()
        lines.stop()
        found[x] = lines.told()
    runner.lines._spans.cache_clear()
    assert {file for told in found.values() for file in told} == {"templates/lib/t.j2"}
    taken = {x: {2, 3, 5, 7, 9, 11} & {*told["templates/lib/t.j2"]} for x, told in found.items()}
    assert taken == {True: {2, 3, 7, 11}, False: {5, 7, 11}}


def test_the_cheapest_tests_are_chosen_and_not_the_cases_of_one_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(runner.lines, "MOST_TESTS", 4)
    names = {f"a[{number}]": 0.1 * number for number in range(1, 6)} | {"b": 0.8, "c": 1.0, "d": 40.0}
    covered = _covered(tmp_path, seconds=names, **{name: {} for name in names})
    chosen = [[name.rpartition("_")[2] for name in covered.chosen(one for one in covered.seconds if one[-1] in some)] for some in ("]bc", "bd", "d")]
    assert chosen == [["a[1]", "a[2]", "a[3]", "b"], ["b"], ["d"]]  # d is past MOST_SECONDS


DRAWN_TESTS = """import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from gemmgen import a


@cache
def one():
    return a.f(1)


def test_first():
    assert one()


def test_second():
    assert one() == [3]


@pytest.mark.parametrize("x", a.f(1))  # while tests are collected
def test_third(x):
    assert a.f(1) == [x]


def test_elsewhere():
    code = "import sys; sys.path.insert(0, '.'); from gemmgen import a; print(a.h(1))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2]).stdout == "[0]\\n"


def test_red():
    a.g(1)
    assert 0


def test_gone():
    import os

    os._exit(3)
"""


@pytest.mark.slow
def test_drawn_faults_are_tried_on_the_tests_that_run_them_and_survivors_are_written(tmp_path):
    text = "from functools import cache\n\n\n@cache\ndef f(x):\n    return [x + 2]\n\n\ndef g(x):\n    return [x + 2]\n\n\ndef h(x):\n    return [x - 1]\n"
    root = _made_up(tmp_path / "root", gemmgen__a_dot_py=text, tests__unit__test_it_dot_py=DRAWN_TESTS,
                    pyproject_dot_toml="[tool.pytest.ini_options]\nmarkers = ['long']\n")
    (root / "gemmgen/__init__.py").touch()

    done = subprocess.run([sys.executable, FOLDER / "run.py", "--root", root, "--jobs", "1", "--drawn", "99"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    noted = map(json.loads, (root / "build-out/mutants/map.jsonl").read_text().splitlines())
    entries = {line["id"].rpartition("_")[2]: line for line in noted if "state" in line}
    covered = runner.lines.Map(root, entries.values())
    assert {name: line["state"] for name, line in entries.items()} == {
        "first": "passed", "second": "passed", "third[3]": "passed", "elsewhere": "passed", "red": "failed", "gone": "died"}
    assert entries["gone"]["why"] == "its process ended with 3" and entries["first"]["why"] == ""
    running = [sorted(test.rpartition("_")[2] for test in covered.of("gemmgen/a.py", line, line)) for line in (6, 10, 14)]
    assert running == [["first", "second", "third[3]"], [], ["elsewhere"]]  # each alone runs what caches held
    rows = [json.loads(line) for line in (root / "build-out/mutants/survivors.jsonl").read_text().splitlines()]
    assert {row["line"] for row in rows} == {10} and {row["state"] for row in rows} == {"unseen"}, done.stdout
    assert "| a | 6 | 4 | 0 | 2 | 0 | 0 % |" in done.stdout
