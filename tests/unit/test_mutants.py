"""The list of faults that `make mutants` tries: each finds its place, names tests that are there, and is well formed; and the
runner tells one outcome from another."""

from __future__ import annotations

import importlib.util
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
        "explore_report", "bringup", "bringup_rows", "library", "library_choice", "library_python", "drop_in",
    }
    assert all(sum(mutant.vendor == vendor for mutant in MUTANTS) >= 15 for vendor in runner.VENDORS)
    assert sum(bool(mutant.equivalent) for mutant in MUTANTS) <= runner.ALLOWED


ROW = '[[mutant]]\nid = "x"\nvendor = "both"\nfile = "code.py"\nfind = "1"\nreplace = "2"\ntests = ["test_code.py"]\n'


def test_rows_that_cannot_be_are_refused(tmp_path):
    for text, complaint in (
        (ROW * 2, "stand twice"), (ROW.replace('"2"', '"1"'), "a change"), (ROW.replace("both", "intel"), "a vendor"),
        (ROW + "other = 1\n", "other"), (ROW.replace("test_code.py", "tests/golden/test_generated.py"), "recorded text"),
        (ROW.replace('"test_code.py"', ""), "tests"),
    ):
        (tmp_path / "room.toml").write_text(text)
        with pytest.raises(ValueError, match=complaint):
            runner.read(tmp_path)


CODE, TEST = "def f():\n    return 1\n", "from code_under_test import f\n\n\ndef test_f():\n    assert f() < 3\n"


@pytest.mark.slow
@pytest.mark.parametrize(("find", "replace", "equivalent", "state"), [
    ("return 1", "return 4", "", "caught"), ("return 1", "return 2", "", "survived"), *(pytest.param(*one, marks=pytest.mark.long) for one in (
        ("return 1", "return 2", "2 is below 3, too", "equivalent"), ("return 1", "return 4", "said to be", "survived"),
        ("def f", "def g", "", "broken"), ("return 5", "return 6", "", "stale"), ("return 1", "while True: pass", "", "caught"),
    )),
])
def test_outcomes_are_told_apart_and_the_tree_is_as_before(find, replace, equivalent, state, tmp_path):
    tree = runner.Tree(tmp_path / "tree", tmp_path / "cache")
    tree.root.mkdir()
    (tree.root / "code_under_test.py").write_text(CODE)
    (tree.root / "test_it.py").write_text(TEST)
    mutant = runner.Mutant("x", "room", "both", "code_under_test.py", find, replace, ("test_it.py",), equivalent)
    outcome = runner.attempt(tree, mutant, timeout=5 if "while" in replace else 60)
    assert outcome.state == state, outcome
    assert (tree.root / "code_under_test.py").read_text() == CODE
    assert f"| {state}" in runner.tables([outcome])


@pytest.mark.slow
def test_a_copy_in_which_a_test_fails_or_is_skipped_is_no_ground(tmp_path, monkeypatch):
    tree = runner.copy(tmp_path)
    (tree.root / "tests/unit/test_made_up.py").write_text("import pytest\ndef test_x(): assert 0\ndef test_y(): pytest.skip('no')\ndef test_z(): pass\n")
    assert "fails or skips" in runner.unaltered(tree, ["tests/unit/test_made_up.py::test_x"])
    assert "fails or skips" in runner.unaltered(tree, ["tests/unit/test_made_up.py::test_y"])
    assert runner.unaltered(tree, ["tests/unit/test_made_up.py::test_z"]) == ""
