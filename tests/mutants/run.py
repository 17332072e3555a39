"""Puts single faults into a copy of this tree, one at a time, and runs the tests that must see each.

    make mutants                                   every fault whose verdict is not kept; the table goes to docs/results/mutants.md
    make mutants ARGS=--fresh                      those, too, whose verdict is of another text of the program
    make mutants ARGS="--room split --jobs 2"      those of a room, two at a time
    make mutants ARGS="--only ID --repeat 5"       this alone, kept or not, five times
    make mutants ARGS=--check                      only whether each fault still finds what it changes
    make mutants ARGS=--table                      only the table of what is kept
    make mutants ARGS="--merge FILE..."            add what other machines kept, then the table
    make mutants ARGS="--drawn 100 --seed 1"       other faults: drawn from the program's text, tried on the tests that run it (`drawn`)

A fault is a row of a TOML file beside this one, whose name is the room's:

    [[mutant]]
    id = "..."          unique
    vendor = "nvidia"   whose kernels it concerns: nvidia, amd or both
    file = "..."        from the root of the tree
    find = "..."        text that stands in the file exactly once
    replace = "..."     what stands there instead
    tests = ["..."]     pytest's names of the tests that must see it
    equivalent = "..."  only where no test can: the reason

The named tests run on the unaltered copy first and have to pass there. Then a fault is

    caught       a test failed, or nothing came of it in time
    survived     all of them passed
    equivalent   all of them passed, and the row says why they must
    luck         with --repeat: seen in some of the runs only
    stale        `find` does not stand in the file exactly once
    broken       the fault was none: a module or a template cannot be read, a template's text does not compile, or a named test
                 fails or is skipped on the unaltered copy

Verdicts are kept in kept.jsonl beside this file, a line a fault (`Known`). The exit code is 0 where all are caught or equivalent,
at most ALLOWED of them the latter.
"""

from __future__ import annotations

import argparse
import ast
import fcntl
import hashlib
import importlib
import importlib.metadata
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cache, cached_property
from itertools import groupby
from multiprocessing.connection import wait
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # where a test loads this file by its path
import drawn
import lines
from lines import adopt, end_children, used

sys.path.pop(0)
ROOT = Path(__file__).resolve().parents[2]
VENDORS = ("nvidia", "amd", "both")
STATES = ("caught", "survived", "equivalent", "luck", "stale", "broken")
GOOD = ("caught", "equivalent")
ALLOWED = 3
"""Equivalent faults that the list may hold."""
RULES = 1
"""Part of every key: another number where verdicts are reached in another way."""
MAP_SECONDS = 100.0
"""That a test may take while its lines are noted."""
DRAWN_SECONDS = 120.0
"""That a drawn fault's tests may take together."""
PROGRESS = 20.0
"""Seconds between two lines of progress."""
SHARE = 0.1
"""Of the kept verdicts that are of another text of the program, how many an ordinary run tries again."""

_LEFT_OUT = (".git", ".venv", ".venv-frameworks", ".rocm", "__pycache__", "build-out", "dist", ".pytest_cache", ".hypothesis")
_PROGRAM = ("gemmgen", "templates", "specs", "cmake", "bench")
_PYTEST = ("-x", "-q", "-n0", "-p", "no:cacheprovider", "--tb=short", "--hypothesis-seed=0")
_COMPILERS = ("cc", "gcc", "g++", "c++", "clang", "clang++", "nvcc", "hipcc", "gfortran")
_IMPORTED = (
    "numpy", "sympy", "pydantic", "jinja2", "typer", "pytest", "_pytest.assertion.rewrite", "xdist.plugin", "hypothesis", "hypothesis.strategies",
    "unittest.mock", "concurrent.futures", "http.server",
)
"""What a process that faults are forked from has imported: nothing of this tree, and nothing that starts threads."""


@dataclass(frozen=True)
class Mutant:
    """One fault, as a row gives it; `room` is its file's name."""

    id: str
    room: str
    vendor: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]
    equivalent: str = ""


@dataclass
class Outcome:
    """What became of a fault.

    Attributes:
        state: one of STATES.
        how: the first line that a failing test gave as the reason.
        seconds: of processor time, compilers and other children included.
        key: what the verdict hangs on (`Texts.key`).
        program: the digest of the program's text that it was reached with (`Texts.program`).
    """

    mutant: Mutant
    state: str
    how: str = ""
    seconds: float = 0.0
    key: str = ""
    program: str = ""


def read(root: Path = ROOT) -> list[Mutant]:
    """Every row of a tree.

    Raises:
        ValueError: a row is not as the head of this file says.
    """
    found: list[Mutant] = []
    for path in sorted((root / "tests" / "mutants").glob("*.toml")):
        for row in tomllib.loads(path.read_text()).get("mutant", []):
            row["tests"] = tuple(row.get("tests", ()))
            try:
                mutant = Mutant(room=path.stem, **row)
            except TypeError as error:
                raise ValueError(f"{path.name}: {row.get('id')}: {error}") from None
            if mutant.vendor not in VENDORS or not mutant.tests or mutant.find == mutant.replace:
                raise ValueError(f"{path.name}: {mutant.id}: a vendor of {VENDORS}, tests, and a change are needed")
            if any(test.startswith("tests/golden") for test in mutant.tests):
                raise ValueError(f"{path.name}: {mutant.id}: recorded text sees every change and understands none")
            found.append(mutant)
    if twice := [name for name, count in Counter(mutant.id for mutant in found).items() if count > 1]:
        raise ValueError(f"stand twice: {sorted(twice)}")
    return found


def stale(mutants: Iterable[Mutant], root: Path = ROOT) -> dict[str, str]:
    """What is wrong with the place of each fault that has lost it, by its id."""
    wrong = {}
    for mutant in mutants:
        path = root / mutant.file
        count = path.read_text().count(mutant.find) if path.is_file() else -1
        if count != 1:
            wrong[mutant.id] = f"{mutant.file} is not there" if count < 0 else f"{mutant.file} has {count} of {mutant.find!r}"
    return wrong


def lost_tests(mutants: Iterable[Mutant], root: Path = ROOT) -> dict[str, str]:
    """Names of tests that stand in no file, by the id of the fault."""
    wrong = {}
    for mutant in mutants:
        for test in mutant.tests:
            file, _, name = test.partition("::")
            path, function = root / file, name.partition("[")[0]
            if not path.is_file() or (function and f"def {function}(" not in path.read_text()):
                wrong[mutant.id] = test
    return wrong


# ---- what a verdict hangs on


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


class Texts:
    """Digests of a tree's texts, of which keys are made."""

    def __init__(self, root: Path):
        self.root = root
        self._data = {path: path.read_bytes().decode(errors="replace") for path in _files(root / "tests") if path.suffix != ".py"}
        self._needed: dict[tuple[str, ...], str] = {}
        self._words: dict[str, tuple[str, list[str]]] = {}

    @cached_property
    def program(self) -> str:
        """Of all that is no test."""
        paths = [path for folder in _PROGRAM for path in _files(self.root / folder)]
        return _digest(part for path in paths for part in (str(path.relative_to(self.root)), path.read_bytes().decode(errors="replace")))

    def key(self, mutant: Mutant) -> str:
        """What a verdict hangs on: the altered file, the named tests and what these need of tests/."""
        text = (self.root / mutant.file).read_text().replace(mutant.find, mutant.replace)
        return _digest([str(RULES), mutant.file, text, mutant.equivalent and "equivalent", *mutant.tests, self.needed(mutant.tests)])

    def passing(self, test: str) -> str:
        """What it hangs on that a test passes on the unaltered tree: the whole program, and what the test needs of tests/."""
        return _digest([str(RULES), test, self.program, self.needed((test,))])

    def needed(self, tests: tuple[str, ...]) -> str:
        """Of the named functions' files, less the other tests in these, and of what they need of tests/.

        That is conftest.py, every module that is imported from tests/, and every other file of tests/ whose name or folder stands in one of these.
        """
        if tests not in self._needed:
            named: dict[Path, set[str]] = {}
            for test in tests:
                file, _, name = test.partition("::")
                named.setdefault(self.root / file, set()).add(re.split(r"::|\[", name)[0])
            left = [(path, _less_other_tests(path, names)) for path, names in named.items()]
            # What conftest.py imports of tests/ is the list of thinned tests, which decides nothing here: no marker is asked for.
            common = self.root / "tests" / "conftest.py"
            parts, seen = [common.read_text() if common.is_file() else ""], {*named}
            while left:
                path, text = left.pop()
                digest, modules = self._words_of(text)
                parts.append(f"{path.relative_to(self.root)} {digest}")
                for module in modules:
                    for other in {self.root / "tests" / "support" / f"{module}.py", path.parent / f"{module}.py"} - seen:
                        if other.is_file():
                            seen.add(other)
                            left.append((other, other.read_text()))
            self._needed[tests] = _digest(sorted(parts))
        return self._needed[tests]

    def _words_of(self, text: str) -> tuple[str, list[str]]:
        """A digest of a text and the other files of tests/ that it names, and the modules that it imports."""
        if text not in self._words:
            words, modules = {*re.findall(r"\w+", text)}, re.findall(r"^\s*(?:from|import) (\w+)", text, re.M)
            data = [content for path, content in self._data.items() if path.parent.name in words or path.name in text or
                    re.search(rf"""["']{re.escape(path.stem)}["']""", text)]
            self._words[text] = _digest([text, *data]), modules
        return self._words[text]


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and not {"__pycache__", "mutants"} & {*path.parts[len(folder.parts):]}]


def _less_other_tests(path: Path, names: set[str]) -> str:
    """A file's text without the functions that are tests and not among these; whole where a name is empty."""
    lines, tests = _tests_in(path)
    lines = [*lines]
    for name, first, end in tests if "" not in names else ():
        if name not in names:
            lines[first:end] = [""] * (end - first)
    return "\n".join(filter(None, lines))


@cache
def _tests_in(path: Path) -> tuple[list[str], list[tuple[str, int, int]]]:
    """A file's lines, and name, first and last line of each test."""
    text = path.read_text() if path.is_file() else ""
    tests = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return text.splitlines(), [(node.name, min([node.lineno, *(one.lineno for one in node.decorator_list)]) - 1, node.end_lineno) for node in tests]


class Known:
    """What earlier runs found, a line of JSON each (`_line`), in a file that runs append to and that may be joined with another's.

    Of several lines with one key the last counts. When the file is written anew, lines whose key no row has any more go; after a run of
    --only or --room those of the faults that it tried.
    """

    def __init__(self, path: Path):
        self.path = path

    def read(self, *others: Path) -> dict[str, dict]:
        """Each line by its key; this file's before those of the others."""
        lines: list[dict] = []
        for path in (*others, self.path):
            for line in path.read_text().splitlines() if path.is_file() else ():
                try:
                    lines.append(json.loads(line))
                except ValueError:  # the end of what a machine that fell over was writing, or a mark of a merge
                    pass
        return {line["key"]: line for line in lines if isinstance(line, dict) and "key" in line}

    def add(self, **line: object) -> None:
        """Appends a line, whole or not at all, whoever else does."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._alone(), self.path.open("a") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def tidy(self, keys: Iterable[str], *others: Path, of: Iterable[str] | None = None) -> None:
        """Writes the file anew, by the faults' ids, with no key but these.

        Args:
            of: the ids of the faults whose other keys go, those that a run tried; None for every fault's.
        """
        with self._alone():
            kept, keys = self.read(*others), set(keys)
            tried = {line["id"] for line in kept.values()} if of is None else set(of)
            lines = sorted((line for key, line in kept.items() if key in keys or line["id"] not in tried), key=lambda line: (line["id"], line["key"]))
            new = self.path.with_suffix(".new")
            new.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
            new.replace(self.path)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


# ---- one run of tests, in a process forked from one that has imported what is not ours


@dataclass
class Ran:
    """What a run of tests told.

    Attributes:
        code: pytest's, or -1 where it took too long and -2 where the process died.
        passed, skipped: names of tests.
        failed: by name what failed: the `reason`, `unread` where a module or a template could not be read.
        refused: what compilers said of the files that they refused, by the test.
        seconds: of processor time.
        wall: seconds.
        output: its end.
    """

    code: int = -2
    passed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: dict[str, dict] = field(default_factory=dict)
    refused: dict[str, list[str]] = field(default_factory=dict)
    seconds: float = 0.0
    wall: float = 0.0
    output: str = ""


class _Watch:
    """pytest's plugin that fills a `Ran`, and notes what compilers refuse: those on the PATH (`Tree.shims`), zig's clang, NVRTC."""

    def __init__(self, ran: Ran, refused: Path):
        self.ran, self.file, self.here, self.unread = ran, refused, 0, False

    def refuse(self, told: str) -> None:
        with self.file.open("a") as file:
            file.write(f"{told}\f")

    def install(self) -> None:
        import jinja2

        run, handled = subprocess.run, jinja2.Environment.handle_exception

        def ran(*arguments, **options):
            done = run(*arguments, **options)
            if done.returncode and isinstance(done.args, (list, tuple)) and [*map(os.fspath, done.args[1:2])] in (["c++"], ["cc"], ["clang"], ["ld.lld"]):
                self.refuse(done.stderr.decode(errors="replace") if isinstance(done.stderr, bytes) else done.stderr or "")
            return done

        def handle(environment, source=None):
            self.unread |= isinstance(sys.exc_info()[1], jinja2.TemplateError)
            return handled(environment, source)

        subprocess.run, jinja2.Environment.handle_exception = ran, handle

    def nvrtc(self) -> None:
        try:  # tests import it while they run: the first kernel of a run would be refused unseen
            module = importlib.import_module("gemmgen.build.nvrtc")
        except Exception:  # the test that needs it meets that, too
            return
        if module.Compiler.run.__module__ == __name__:
            return
        run = module.Compiler.run

        def ran(compiler, *arguments, **options):
            output = run(compiler, *arguments, **options)
            if not output.ok:
                self.refuse(output.log)
            return output

        module.Compiler.run = ran

    def pytest_runtest_logstart(self, nodeid, location):
        self.nvrtc()
        self.here, self.unread = len(self.refusals()), False

    def refusals(self) -> list[str]:
        """The first error of each, without places and numbers, which differ from run to run."""
        texts = self.file.read_text(errors="replace").split("\f")[:-1] if self.file.exists() else []
        errors = [re.search(r".*(?:error|undefined).*", text, re.I) for text in texts]
        return [re.sub(r"\S*/\S*|\d+", "", error[0])[:200] if error else "" for error in errors]

    def pytest_runtest_makereport(self, item, call):
        error = call.excinfo and call.excinfo.value
        while error is not None:
            self.unread |= isinstance(error, (SyntaxError, ImportError))
            error = error.__cause__

    def pytest_runtest_logreport(self, report):
        if report.failed:
            reasons = [line[1:].strip() for line in report.longreprtext.splitlines() if line.startswith("E  ")]
            self.ran.failed.setdefault(report.nodeid, {"reason": reasons[0] if reasons else report.longreprtext[-200:], "unread": self.unread})
        elif report.skipped:
            self.ran.skipped.append(report.nodeid)
        elif report.when == "call":
            self.ran.passed.append(report.nodeid)

    def pytest_runtest_logfinish(self, nodeid, location):
        if refused := self.refusals()[self.here:]:
            self.ran.refused[nodeid] = refused


def copied(root: Path, to: Path) -> Path:
    """A copy of a tree, without what was built in it."""
    return Path(shutil.copytree(root, to, ignore=shutil.ignore_patterns(*_LEFT_OUT), symlinks=True))


@dataclass
class Tree:
    """A copy that faults are put into, and a cache of built kernels that only such copies use.

    Attributes:
        folder: the copy is in its `tree`, and all that tests leave in its `t`.
    """

    folder: Path
    cache: Path
    files: int = 0

    @property
    def root(self) -> Path:
        return self.folder / "tree"

    def shims(self) -> None:
        """Compilers that note what they refuse, to be first on the PATH."""
        (self.folder / "bin").mkdir()
        for name in _COMPILERS:
            if path := shutil.which(name):
                shim = self.folder / "bin" / name
                said = f'"{self.folder}/said.$$"'
                shim.write_text(
                    f'#!/bin/sh\n"{path}" "$@" 2>{said}\ncode=$?\ncat {said} >&2\n'
                    f'[ $code = 0 ] || {{ cat {said}; printf "\\f"; }} >>"{self.folder}/refused"\nrm {said}\nexit $code\n')
                shim.chmod(0o755)

    def run(self, tests: Sequence[str], timeout: float, fault: tuple[str, str] | None = None, stops: bool = True, plugins: Sequence[object] = ()) -> Ran:
        """Runs tests in a process of its own, all of whose children are ended with it.

        Args:
            tests: their names, and pytest's options.
            fault: a file, and the text that it has meanwhile.
            stops: whether the first failure ends the run.
            plugins: further ones of pytest's.
        """
        self.files += 1
        temporary, path = self.folder / "t", fault and self.root / fault[0]
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        for left in ("refused", "ran", "output"):
            (self.folder / left).unlink(missing_ok=True)
        # Kernels built before serve again, but what builds them and reads them must do its work.
        built = temporary / "cache" if fault and fault[0].startswith("gemmgen/build/") else self.cache
        began, spent = time.monotonic(), used()
        before = path and (path.read_bytes(), path.stat())
        try:
            if before:
                path.write_text(fault[1])
                os.utime(path, (before[1].st_atime, before[1].st_mtime + 10 + self.files))  # no byte code of this file is as new, or of another fault
            pid = os.fork()
            if not pid:
                self._become(tests, built, temporary, stops, plugins)
            while not (done := os.waitpid(pid, os.WNOHANG))[0] and time.monotonic() < began + timeout:
                time.sleep(0.01)
        finally:
            end_children()
            if before:
                path.write_bytes(before[0])
                os.utime(path, (before[1].st_atime, before[1].st_mtime))
        ran = Ran(**json.loads((self.folder / "ran").read_text())) if done[0] and (self.folder / "ran").exists() else Ran(-2 if done[0] else -1)
        ran.output = (self.folder / "output").read_text(errors="replace")[-4000:] if (self.folder / "output").exists() else ""
        ran.seconds, ran.wall = used() - spent, time.monotonic() - began
        return ran

    def _become(self, tests: Sequence[str], built: Path, temporary: Path, stops: bool, plugins: Sequence[object]) -> None:
        """The child: pytest, and no way back."""
        code = 70
        try:
            os.setsid()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            output = os.open(self.folder / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for target, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, output), (2, output)):
                os.dup2(source, target)
            os.chdir(self.root)
            os.environ |= {
                "PYTHONPATH": os.pathsep.join(filter(None, (str(self.root), os.environ.get("PYTHONPATH")))),
                "GEMMGEN_CACHE": str(built), "TMPDIR": str(temporary), "OPENBLAS_NUM_THREADS": "1",
                "HYPOTHESIS_STORAGE_DIRECTORY": str(temporary / "h"), "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            }
            os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
            sys.dont_write_bytecode, tempfile.tempdir = False, None
            os.cpu_count = lambda: 1  # the others have faults of their own
            sys.path[0] = str(self.root)
            sys.modules["__main__"] = types.ModuleType("__main__")  # what a spawned process would import
            for name in ("drawn", "lines"):  # those of the copy may have the fault
                sys.modules.pop(name, None)
            ran, pytest = Ran(), importlib.import_module("pytest")
            watch = _Watch(ran, self.folder / "refused")
            watch.install()
            options = [one for one in _PYTEST if stops or one != "-x"]
            code = int(pytest.main([*options, f"--basetemp={temporary / 'p'}", *tests], plugins=[watch, *plugins]))
            ran.code = code
            if (ours := sys.modules.get("gemmgen")) and not Path(ours.__file__).is_relative_to(self.root):
                raise SystemExit(f"gemmgen comes from {ours.__file__}, not from the copy: no fault would be seen")
            (self.folder / "ran").write_text(json.dumps(vars(ran)))
        except BaseException as error:  # whatever it was, this process ends here
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def _serve(connection, tree: Tree, root: Path) -> None:
    """A worker: makes its copy, and runs what it is asked to, until it is ended."""
    adopt()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    copied(root, tree.root)
    tree.shims()
    while True:
        connection.send(tree.run(*connection.recv()))


def _leave(*_) -> None:
    """Ends a process by an exception, which ends its children and removes its copies on the way."""
    raise SystemExit(128 + signal.SIGTERM)


# ---- the faults of a run


class Work:
    """Runs the unaltered tests that are not known to pass, and each fault as soon as its own have.

    Args:
        texts: of a copy that nobody alters.
        scratch: where further copies go.
        built: folder of what is kept from run to run: which tests pass on the unaltered tree, and built kernels.
        known: where verdicts go.
        timeout: seconds that a fault's tests may take at most.
        repeat: how often each fault is tried.
    """

    least = 60.0
    """Seconds that a fault's tests may take, however short they are on the unaltered tree."""

    def __init__(self, texts: Texts, scratch: Path, built: Path, known: Known, timeout: float, repeat: int):
        self.root, self.texts, self.scratch, self.built, self.known, self.timeout, self.repeat = texts.root, texts, scratch, built, known, timeout, repeat
        self.passed = Known(built / "passed.jsonl")
        self.outcomes: dict[str, Outcome] = {}
        self.processes: list[multiprocessing.Process] = []

    def do(self, mutants: Sequence[Mutant], jobs: int, expected: dict[str, float]) -> dict[str, Outcome]:
        """Each fault's outcome, by its id."""
        wrong = stale(mutants, self.root)
        for name, problem in wrong.items():
            self.outcomes[name] = Outcome(next(one for one in mutants if one.id == name), "stale", problem)
        todo = sorted((one for one in mutants if one.id not in wrong), key=lambda one: -expected.get(one.id, 0.0))
        tests = list(dict.fromkeys(test for one in todo for test in one.tests))
        state = self._passes(tests)
        unknown = sorted(test for test in tests if state[test] is None)
        batches = [[*names] for _, names in groupby(unknown, key=lambda test: test.partition("::")[0])]  # of one file each
        asked = [batch[at:at + 6] for batch in batches for at in range(0, len(batch), 6)]
        print(f"{len(todo)} faults; of {len(tests)} names of tests {len(unknown)} run on the unaltered tree first", file=sys.stderr, flush=True)
        if not todo:
            return self.outcomes
        workers = self._start(max(1, min(jobs, len(todo) + len(asked))))
        free, busy = list(workers), {}
        try:
            while todo or asked or busy:
                while free:
                    ready = next((one for one in todo if all(state[test] is not None for test in one.tests)), None)
                    if ready is not None:
                        todo.remove(ready)
                        if bad := next((test for test in ready.tests if not state[test]["good"]), None):
                            self._tell(Outcome(ready, "broken", f"{bad}: {state[bad]['how']}"))
                            continue
                        text = (self.root / ready.file).read_text().replace(ready.find, ready.replace)
                        limit = min(self.timeout, self.least + 10 * sum(state[test]["wall"] for test in ready.tests))
                        job, request = ("fault", ready, []), self._request(ready.tests, limit, (ready.file, text))
                    elif asked:
                        names = asked.pop(0)
                        job, request = ("tests", names, []), (names, 6 * self.timeout, None, False)
                    else:
                        break
                    worker = free.pop()
                    worker.send(request)
                    busy[worker] = job, request
                self._progress(len(todo))
                for worker in wait(busy, PROGRESS) if busy else ():  # none is, where what was left is broken
                    (kind, what, before), request = busy.pop(worker)
                    ran = worker.recv()
                    if kind == "tests":
                        state |= self._passing(what, ran)
                    else:
                        before.append(self._judge(what, ran, state))
                        if len(before) < self.repeat:
                            worker.send(request)
                            busy[worker] = (kind, what, before), request
                            continue
                        self._tell(_together(before))
                    free.append(worker)
        finally:
            for process in self.processes:
                process.terminate()
            for process in self.processes:
                process.join(60)
                process.kill()  # where it has not ended yet
        return self.outcomes

    def _passes(self, tests: Sequence[str]) -> dict[str, dict | None]:
        """What is known of each test on the unaltered tree."""
        passed = self.passed.read()
        return {test: passed.get(self.texts.passing(test)) for test in tests}

    def _request(self, tests: Sequence[str], limit: float, fault: tuple[str, str]) -> tuple:
        """What a worker is asked for a fault: the arguments of `Tree.run`."""
        return tests, limit, fault

    def _progress(self, left: int) -> None:
        """Hears how many faults have not begun."""

    def _start(self, jobs: int) -> list:
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # else it starts them as it is imported
        named = (self.root / "pyproject.toml").read_text()
        for name in _IMPORTED:
            package = name.partition(".")[0].strip("_")
            if package not in sys.stdlib_module_names and package not in named:  # another tree, whose tests do not need it
                continue
            try:
                importlib.import_module(name)
            except ImportError:
                pass
        assert len(os.listdir("/proc/self/task")) == 1, "a process with threads cannot be forked"
        context, connections = multiprocessing.get_context("fork"), []
        for job in range(jobs):
            tree = Tree(self.scratch / str(job), self.built / "cache")
            ours, theirs = context.Pipe()
            self.processes.append(context.Process(target=_serve, args=(theirs, tree, self.root), daemon=False))
            self.processes[-1].start()
            theirs.close()
            connections.append(ours)
        return connections

    def _passing(self, names: Sequence[str], ran: Ran) -> dict[str, dict]:
        """What a run on the unaltered tree says of each name; kept where it passes."""
        found = {}
        for name in names:
            def mine(nodes: Iterable[str], name=name) -> list[str]:
                return [node for node in nodes if node == name or node.startswith((name + "[", name + "::"))]

            passed, skipped, failed = mine(ran.passed), mine(ran.skipped), mine(ran.failed)
            good = bool(passed) and not skipped and not failed
            how = "" if good else "fails on the unaltered tree: " + ran.failed[failed[0]]["reason"] if failed else "is skipped on the unaltered tree" \
                if skipped else f"does not run on the unaltered tree: {ran.output[-300:]}"
            refused = {node: ran.refused[node] for node in mine(ran.refused)}
            found[name] = {"good": good, "how": how, "wall": round(ran.wall, 1), "refused": refused, "items": len(passed)}
            if good:
                self.passed.add(id=name, key=self.texts.passing(name), **found[name])
            else:
                print(f"{name} {how}", file=sys.stderr, flush=True)
        return found

    def _judge(self, mutant: Mutant, ran: Ran, state: dict[str, dict]) -> Outcome:
        refused = {node: told for test in mutant.tests for node, told in state[test]["refused"].items()}
        name, failure = next(iter(ran.failed.items()), ("", {"reason": "", "unread": False}))
        how, verdict = failure["reason"], "caught"
        if ran.code == 0:
            verdict, how = "equivalent" if mutant.equivalent else "survived", ""
        elif ran.code in (-1, -2):
            how = "nothing came of it in time" if ran.code == -1 else f"the process ended: {ran.output[-200:]}"
            if "no fault would be seen" in ran.output:
                raise RuntimeError(ran.output)
        elif ran.code != 1:
            verdict, how = "broken", f"pytest's code {ran.code}: {how or ran.output[-300:]}"
        elif failure["unread"]:
            verdict, how = "broken", f"cannot be read: {how}"
        elif not mutant.file.endswith(".py") and {*ran.refused.get(name, ())} - {*refused.get(name, ())}:
            verdict, how = "broken", f"does not compile: {how}"
        if verdict == "caught" and mutant.equivalent:
            verdict, how = "survived", f"is called equivalent, and was caught: {how}"
        return Outcome(mutant, verdict, " ".join(how.split())[:120], ran.seconds, self.key(mutant), self.texts.program)

    def key(self, mutant: Mutant) -> str:
        """What a verdict hangs on."""
        return self.texts.key(mutant)

    def _tell(self, outcome: Outcome) -> None:
        self.outcomes[outcome.mutant.id] = outcome
        if outcome.key:
            self.known.add(**_line(outcome))
        print(f"{outcome.state:10} {outcome.mutant.room}: {outcome.mutant.id} ({outcome.seconds:.1f} s) {outcome.how}", file=sys.stderr, flush=True)


def _line(outcome: Outcome) -> dict:
    return {
        "id": outcome.mutant.id, "key": outcome.key, "program": outcome.program, "state": outcome.state, "seconds": round(outcome.seconds, 1),
        "how": "" if outcome.state == "caught" else outcome.how,
    }


def _together(outcomes: Sequence[Outcome]) -> Outcome:
    """Of several runs of one fault: their verdict where it is one."""
    last = outcomes[-1]
    if len(counts := Counter(one.state for one in outcomes)) > 1:
        last.state, last.how = "luck", ", ".join(f"{state} {count} of {len(outcomes)} times" for state, count in counts.items())
    last.seconds = sum(one.seconds for one in outcomes) / len(outcomes)
    return last


# ---- what is told of it


def tables(outcomes: Sequence[Outcome], untried: Sequence[Mutant] = (), program: str = "") -> str:
    """Counts by room and by vendor, every fault that is not caught, and the slowest."""

    def summary(title: str, group: str) -> list[str]:
        rows = [f"| {title} | faults | {' | '.join(STATES)} | not tried | seconds |", "| --- |" + " ---: |" * (len(STATES) + 3)]
        every = [*((outcome.mutant, outcome) for outcome in outcomes), *((mutant, None) for mutant in untried)]
        for name in [*sorted({getattr(mutant, group) for mutant, _ in every}), None]:
            mine = [outcome for mutant, outcome in every if name in (None, getattr(mutant, group))]
            done = [outcome for outcome in mine if outcome]
            counts = [sum(outcome.state == state for outcome in done) for state in STATES]
            cells = [name or "**all**", len(mine), *counts, len(mine) - len(done), f"{sum(outcome.seconds for outcome in done):.0f}"]
            rows.append(f"| {' | '.join(map(str, cells))} |")
        return rows

    def cell(text: str) -> str:
        return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")

    def listed(title: str, some: Iterable[Outcome]) -> list[str]:
        rows = [
            f"| {one.mutant.room}: {cell(one.mutant.id)} | `{one.mutant.file}` | {one.state} | {one.seconds:.0f} |"
            f" {cell({'equivalent': one.mutant.equivalent, 'caught': ''}.get(one.state, one.how))} |" for one in some
        ]
        return ["", f"## {title}", "", "| fault | file | state | seconds | reason |", "| --- | --- | --- | ---: | --- |", *rows] if rows else []

    elsewhere = sum(outcome.program != program for outcome in outcomes if outcome.program)
    head = f"{len(outcomes) - elsewhere} verdicts are of this text of the program (digest {program}), {elsewhere} of another text, " \
        "in which the fault's own file and its tests were the same."
    slowest = sorted(outcomes, key=lambda one: -one.seconds)[:25]
    return "\n".join([
        head, "", *summary("room", "room"), "", *summary("vendor", "vendor"),
        *listed("Not caught", (one for one in outcomes if one.state != "caught")), *listed("The slowest", slowest),
    ]) + "\n"


HEAD = """# Mutants

What `make mutants` found: single faults put into templates, rows, models, judges, emulators and exports, and whether the tests
that should see each do ([method and keys](../mutants.md)). Seconds are processor time, compilers and the start of the tests included.
`make mutants ARGS=--table` writes this page from `tests/mutants/kept.jsonl`.

"""


# ---- drawn faults


@dataclass(frozen=True)
class Drawn(Mutant):
    """A fault that was drawn.

    Attributes:
        operator: what kind of change it is.
        line: the first changed one.
        before, after: the changed lines.
        running: how many tests run them.
    """

    operator: str = ""
    line: int = 0
    before: str = ""
    after: str = ""
    running: int = 0


def as_row(root: Path, file: str, change: drawn.Change, tests: Sequence[str], running: int) -> Drawn:
    """A drawn fault as a row of the list would give it: with as many whole lines around it as stand in the file once."""
    text = (root / file).read_text()
    data, new = text.encode(), change.applied(text)
    first = data.rfind(b"\n", 0, change.start) + 1
    last = (data.find(b"\n", change.end) + 1 or len(data) + 1) - 1
    start, end = len(data[:first].decode()), len(data[:last].decode())
    more = len(new) - len(text)
    before, after = text[start:end], new[start:end + more]
    while (text.find(text[start:end]), text.find(text[start:end], start + 1)) != (start, -1):
        start = max(text.rfind("\n", 0, max(start - 1, 0)) + 1, 0)
        end = text.find("\n", end + 1) if text.find("\n", end + 1) >= 0 else len(text)
    at = data[:change.start].decode()
    return Drawn(
        id=f"{file}:{change.line}:{len(at) - at.rfind(chr(10))} {change.operator}: {change.new}"[:160].replace("\n", " "),
        room=drawn.room_of(file), vendor="both", file=file, find=text[start:end], replace=new[start:end + more], tests=tuple(tests),
        operator=change.operator, line=change.line, before=before, after=after, running=running,
    )


class _DrawnWork(Work):
    """Tries drawn faults on tests that the map says pass, and writes the survivors as it goes."""

    least = 20.0

    def __init__(self, *arguments, covered: lines.Map, survivors: Path, before: dict[str, Outcome]):
        super().__init__(*arguments)
        self.covered, self.survivors, self.before = covered, survivors, before
        self.began = self.last = time.monotonic()

    def key(self, mutant: Mutant) -> str:
        return drawn_key(self.root, mutant)

    def _passes(self, tests: Sequence[str]) -> dict[str, dict | None]:
        return {test: {"good": True, "how": "", "wall": self.covered.seconds[test], "refused": {}} for test in tests}

    def _request(self, tests: Sequence[str], limit: float, fault: tuple[str, str]) -> tuple:
        # A fault may change the names of tests: their cases are what the program lists.
        files = dict.fromkeys(test.partition("::")[0] for test in tests)
        return ["-m", "not long", *files], limit, fault, True, (lines.Only(tests),)

    def _judge(self, mutant: Mutant, ran: Ran, state: dict[str, dict]) -> Outcome:
        outcome = super()._judge(mutant, ran, state)
        if outcome.state == "broken" and mutant.file.endswith(".py") and ran.code in (1, 2):  # it compiles: what fails is its import
            outcome.state = "caught"
        return outcome

    def _tell(self, outcome: Outcome) -> None:
        self.outcomes[outcome.mutant.id] = outcome
        self.known.add(**_line(outcome))
        if outcome.state != "caught":
            print(f"{outcome.state:10} {outcome.mutant.id} ({outcome.seconds:.1f} s) {outcome.how}", file=sys.stderr, flush=True)

    def _progress(self, left: int) -> None:
        if time.monotonic() < self.last + PROGRESS:
            return
        self.last = time.monotonic()
        counts = Counter(one.state for one in self.outcomes.values())
        told = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        print(f"{self.last - self.began:.0f} s: {left} faults are left; {told}", file=sys.stderr, flush=True)
        self.write()

    def all(self, rows: Sequence[Drawn], jobs: int, again: bool) -> None:
        """Tries each whose verdict is not kept."""
        kept = {} if again else self.known.read()
        known = {one.id: line for one in rows if (line := kept.get(self.key(one)))}
        print(f"{len(known)} of {len(rows)} verdicts are kept", file=sys.stderr, flush=True)
        before = self.before
        self.before = before | {one.id: Outcome(one, *(known[one.id][name] for name in ("state", "how", "seconds", "key", "program")))
                                for one in rows if one.id in known}
        self.do([one for one in rows if one.id not in known], jobs, {})
        for name, outcome in (self.before | self.outcomes).items():  # whatever was tried before
            if name in before and outcome.state == "survived" and before[name].mutant.tests != outcome.mutant.tests:
                outcome.mutant = replace(outcome.mutant, tests=before[name].mutant.tests + outcome.mutant.tests)

    def write(self) -> None:
        """The faults that no test caught, a line of JSON each."""
        rows = [one for one in {**self.before, **self.outcomes}.values() if one.state in ("survived", "unseen")]
        rows.sort(key=lambda one: (one.mutant.file, one.mutant.line))
        new = self.survivors.with_suffix(".new")
        new.write_text("".join(json.dumps({
            "file": one.mutant.file, "line": one.mutant.line, "operator": one.mutant.operator, "state": one.state, "before": one.mutant.before,
            "after": one.mutant.after, "running": one.mutant.running, "tests": one.mutant.tests, "find": one.mutant.find, "replace": one.mutant.replace,
        }, ensure_ascii=False) + "\n" for one in rows))
        new.replace(self.survivors)


@cache
def installed() -> str:
    """Python and every package: where one is missing, tests are skipped and their lines run by none."""
    return _digest([sys.version, *sorted(f"{one.name} {one.version}" for one in importlib.metadata.distributions())])


def drawn_key(root: Path, mutant: Mutant) -> str:
    """What a drawn fault's verdict hangs on: the altered file, the tests' names and their files."""
    files = sorted({test.partition("::")[0] for test in mutant.tests})
    text = (root / mutant.file).read_text().replace(mutant.find, mutant.replace)
    return _digest([str(RULES), installed(), mutant.file, text, *mutant.tests, *((root / file).read_text() for file in files)])


def mapped(texts: Texts, scratch: Path, built: Path, jobs: int, chosen: str) -> lines.Map:
    """Which tests run which lines, of the test files that a pattern matches: what is not noted yet is found out first."""
    root, known = texts.root, Known(built / "map.jsonl")
    files = [str(path.relative_to(root)) for path in sorted((root / "tests").glob("*/test_*.py"))]
    key = {file: _digest([installed(), texts.passing(file)]) for file in files if fnmatch(file, chosen)}
    noted = known.read()
    if missing := [file for file in key if f"whole {key[file]}" not in noted]:
        done = {line["id"] for line in noted.values() if line["key"].startswith(tuple(key[file] for file in missing))}
        tree = Tree(scratch / "map", built / "cache")
        copied(root, tree.root)
        tree.shims()
        for name in _IMPORTED:
            try:
                importlib.import_module(name)
            except ImportError:
                pass
        told = os.dup(2)
        adopt(follow=False)
        with tempfile.TemporaryDirectory(prefix="gm-") as folder:  # paths of sockets are short
            plugin = lines.Mapper(tree.root, Path(folder), known.add, {file: key[file] for file in missing}, done, jobs, MAP_SECONDS, told)
            ran = tree.run(["-m", "not long", "--continue-on-collection-errors", "--capture=sys", *missing], 7200, stops=False, plugins=[plugin])
        os.close(told)
        shutil.rmtree(tree.folder)
        if ran.code not in (0, 1, 5):
            raise SystemExit(f"the map was not made (pytest's code {ran.code}):\n{ran.output}")
        noted = known.read()
    current = tuple(key.values())
    return lines.Map(root, (line for line in noted.values() if line["key"].startswith(current) and "state" in line))


def _with_drawn(options: argparse.Namespace, root: Path, scratch: Path) -> int:
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    built = root / "build-out" / "mutants"
    built.mkdir(parents=True, exist_ok=True)
    texts = Texts(copied(root, scratch / "first"))
    covered = mapped(texts, scratch, built, options.jobs, options.tests)
    states = ", ".join(f"{count} {state}" for state, count in sorted(covered.states.items()))
    print(f"map: {states}; {sum(covered.seconds.values()):.0f} s one after another", file=sys.stderr, flush=True)
    if options.map_only:
        return 0
    rows, changes, known = [], {}, Known(built / "drawn.jsonl")

    def running(file: str, change: drawn.Change) -> set[str]:
        return covered.of(file, change.line, change.last, change.body, change.names)

    for file, change in drawn.draw(texts.root, options.drawn, options.seed, options.room or (), options.files):
        tests = running(file, change)
        rows.append(as_row(texts.root, file, change, covered.chosen(tests), len(tests)))
        changes[rows[-1].id] = change
    print(f"{len(rows)} faults are drawn", file=sys.stderr, flush=True)
    found = {one.id: Outcome(one, "unseen", "no test runs the line") for one in rows if not one.tests}
    survivors, limit = built / "survivors.jsonl", min(options.timeout, DRAWN_SECONDS)
    work = _DrawnWork(texts, scratch, built, known, limit, 1, covered=covered, survivors=survivors, before=found)
    try:
        work.all([one for one in rows if one.tests], options.jobs, options.again)
        found = work.before | work.outcomes
        more = [replace(one, tests=tuple(covered.chosen(running(one.file, changes[one.id]) - {*one.tests})))
                for one in rows if found[one.id].state == "survived" and one.running > len(one.tests)]
        print(f"{len(more)} survivors are tried on other tests that run them", file=sys.stderr, flush=True)
        work = _DrawnWork(texts, scratch / "more", built, known, limit, 1, covered=covered, survivors=survivors, before=found)
        work.all(more, options.jobs, options.again)
    finally:
        work.write()
        found = work.before | work.outcomes
        print(drawn_table([one for one in rows if one.id in found], found))
        print(f"survivors: {survivors}")
    return 0


def drawn_table(rows: Sequence[Drawn], found: dict[str, Outcome]) -> str:
    """Counts by room and by kind of change."""
    states = ("caught", "survived", "unseen", "broken")

    def part(title: str, of: Callable[[Drawn], str]) -> list[str]:
        table = [f"| {title} | faults | {' | '.join(states)} | of those tried and not broken, survived |", "| --- |" + " ---: |" * (len(states) + 2)]
        for name in [*sorted({of(one) for one in rows}), None]:
            mine = Counter(found[one.id].state for one in rows if name in (None, of(one)))
            tried = mine["caught"] + mine["survived"]
            table.append(f"| {name or '**all**'} | {sum(mine.values())} | {' | '.join(str(mine[state]) for state in states)} | "
                         f"{100 * mine['survived'] / tried if tried else 0:.0f} % |")
        return table

    languages = {True: "Python", False: "template"}
    return "\n".join([
        *part("room", lambda one: one.room), "", *part("change", lambda one: f"{one.operator}, {languages[one.file.endswith('.py')]}")])


def told_of(mutants: Sequence[Mutant], outcomes: dict[str, Outcome], root: Path, texts: Texts, whole: bool) -> bool:
    """Prints the table, writes it where it is the whole list's; whether anything is wrong."""
    done = [outcomes[mutant.id] for mutant in mutants if mutant.id in outcomes]
    untried = [mutant for mutant in mutants if mutant.id not in outcomes]
    text = tables(done, untried, texts.program)
    print(text)
    if whole and (page := root / "docs" / "results" / "mutants.md").parent.is_dir():
        page.write_text(HEAD + text)
    return bool(untried) or not all(one.state in GOOD for one in done) or sum(one.state == "equivalent" for one in done) > ALLOWED


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="ID", help="this fault, whatever is kept of it; may be given several times")
    parser.add_argument("--room", action="append", help="the faults of this room (of drawn ones a folder or module of gemmgen/, or templates); may be "
                        "given several times")
    parser.add_argument("--drawn", type=int, default=0, metavar="N", help="try N faults that are drawn from the program's text, none of the list")
    parser.add_argument("--seed", type=int, default=0, help="of the draw: the same text and seed draw the same faults")
    parser.add_argument("--files", default="*", metavar="GLOB", help="draw from the files whose path matches")
    parser.add_argument("--tests", default="*", metavar="GLOB", help="try drawn faults on tests of the files whose path matches")
    parser.add_argument("--map-only", action="store_true", help="only note which lines each test runs, which --drawn does first where it is not noted")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="copies of the tree that work side by side; the cores")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that a fault's tests may take at most")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="try each fault so often, and say where its verdict hangs on luck")
    parser.add_argument("--fresh", action="store_true", help="try again what is kept of another text of the program")
    parser.add_argument("--again", action="store_true", help="try again whatever is kept")
    parser.add_argument("--table", action="store_true", help="run nothing: the table of what is kept")
    parser.add_argument("--merge", type=Path, nargs="+", default=[], metavar="FILE", help="run nothing: take in what other machines kept, then the table")
    parser.add_argument("--check", action="store_true", help="only look whether each fault finds its place, and its tests are there")
    parser.add_argument("--root", type=Path, default=ROOT, help="of another tree with a tests/mutants")
    options = parser.parse_args()
    root = options.root.resolve()
    if options.check:
        mutants = read(root)
        wrong = stale(mutants, root) | lost_tests(mutants, root)
        print(*(f"stale: {name}: {problem}" for name, problem in wrong.items()), sep="\n", file=sys.stderr)
        print(f"{len(mutants)} faults, {len(wrong)} stale")
        return bool(wrong)
    signal.signal(signal.SIGTERM, _leave)
    if options.drawn or options.map_only:
        with tempfile.TemporaryDirectory(prefix="gm-") as scratch:
            return _with_drawn(options, root, Path(scratch))
    with tempfile.TemporaryDirectory(prefix="gm-") as scratch:  # short: paths of sockets are
        return _with_copy(options, root, Path(scratch))


def _with_copy(options: argparse.Namespace, root: Path, scratch: Path) -> int:
    only_table = options.table or bool(options.merge)
    texts = Texts(root if only_table else copied(root, scratch / "first"))  # else what is edited meanwhile would be in the keys
    mutants = read(texts.root)
    wrong = stale(mutants, texts.root) | lost_tests(mutants, texts.root)
    if unknown := {*(options.only or ())} - {mutant.id for mutant in mutants} or {*(options.room or ())} - {mutant.room for mutant in mutants}:
        print(f"there is no {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    known = Known(root / "tests" / "mutants" / "kept.jsonl")
    keys = {mutant.id: texts.key(mutant) for mutant in mutants if mutant.id not in wrong}
    if only_table:
        known.tidy(keys.values(), *options.merge)
    kept = known.read()
    found = {
        mutant.id: Outcome(mutant, line["state"], line["how"], line["seconds"], line["key"], line["program"])
        for mutant in mutants if (line := kept.get(keys.get(mutant.id, "")))
    }
    chosen = [
        mutant for mutant in mutants
        if only_table or (not options.only or mutant.id in options.only) and (not options.room or mutant.room in options.room)
    ]
    if not only_table:
        valid = {mutant.id for mutant in chosen if mutant.id in found and found[mutant.id].state in GOOD}
        older = sorted(name for name in valid if found[name].program != texts.program)
        again = {mutant.id for mutant in chosen} if options.again or options.only or options.repeat > 1 else set(
            older if options.fresh else random.Random(texts.program).sample(older, int(len(older) * SHARE)))
        todo = [mutant for mutant in chosen if mutant.id in again or mutant.id not in valid]
        print(f"{len(chosen) - len(todo)} of {len(chosen)} verdicts are kept", file=sys.stderr)
        work = Work(texts, scratch, root / "build-out" / "mutants", known, options.timeout, options.repeat)
        new = work.do(todo, options.jobs, {name: one.seconds for name, one in found.items()})
        for name in sorted(again & valid):
            if new[name].state != found[name].state:
                print(f"{name} was kept as {found[name].state}, and is {new[name].state}", file=sys.stderr)
        found |= new
        now, rows = Texts(root), read(root)  # what was edited meanwhile may have verdicts from another run
        part = {mutant.id for mutant in chosen} if options.only or options.room else None
        known.tidy({*keys.values(), *(now.key(mutant) for mutant in rows if not stale([mutant], root))}, of=part)
    return told_of(chosen, found, root, texts, whole=chosen == mutants)


if __name__ == "__main__":
    sys.exit(main())
