"""The list of faults that `make mutants` tries: each finds its place, names tests that are there, and is well formed; and the
runner tells one outcome from another."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

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
        "complex",
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
