"""Puts single faults into a copy of this tree, one at a time, and runs the tests that must see each.

    make mutants                                   every fault; the table goes to docs/results/mutants.md
    make mutants ARGS="--room split --jobs 2"      those of a room, two at a time
    make mutants ARGS="--only ID --only ID"        these alone
    make mutants ARGS=--check                      only whether each fault still finds what it changes
    make mutants ARGS="--table A.json B.json"      the table of several runs that wrote --json, none of them of all faults

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
    stale        `find` does not stand in the file exactly once
    broken       the fault was none: a test could not be loaded, or a template's text does not compile

The exit code is 0 where all are caught or equivalent, at most ALLOWED of them the latter.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "results" / "mutants.md"
VENDORS = ("nvidia", "amd", "both")
ALLOWED = 3
"""Equivalent faults that the list may hold."""

_LEFT_OUT = (".git", ".venv", "__pycache__", "build-out", "dist", ".pytest_cache", ".hypothesis")
_PYTEST = (sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", "--tb=short")
_SEEDS = "--hypothesis-seed=0"


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
    """What became of a fault: `state` as above, `how` the first line that a failing test gave as the reason."""

    mutant: Mutant
    state: str
    how: str = ""
    seconds: float = 0.0


@dataclass
class Tree:
    """A copy that faults are put into, and a build cache that only such copies use."""

    root: Path
    cache: Path

    def run(self, tests: Sequence[str], timeout: float | None, cache: Path | None = None, writes: bool = False) -> tuple[int, str]:
        """pytest's exit code and output; -1 where it took too long.

        Args:
            cache: of built kernels, instead of this tree's.
            writes: whether byte code is kept, as nothing that was compiled from an altered file may be.
        """
        environment = os.environ | {"PYTHONPATH": str(self.root), "GEMMGEN_CACHE": str(cache or self.cache)}
        environment |= {} if writes else {"PYTHONDONTWRITEBYTECODE": "1"}
        process = subprocess.Popen(
            [*_PYTEST, _SEEDS, *tests], cwd=self.root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return -1, ""
        finally:
            try:  # its own group: workers of a test that was stopped, too
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def read(folder: Path = Path(__file__).parent) -> list[Mutant]:
    """Every row.

    Raises:
        ValueError: a row is not as the head of this file says.
    """
    found: list[Mutant] = []
    for path in sorted(folder.glob("*.toml")):
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
    if twice := {mutant.id for mutant in found if sum(other.id == mutant.id for other in found) > 1}:
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


def copy(folder: Path) -> Tree:
    """A copy of the tree below `folder`."""
    shutil.copytree(ROOT, folder / "0" / "tree", ignore=shutil.ignore_patterns(*_LEFT_OUT), symlinks=True)
    return Tree(folder / "0" / "tree", folder / "cache")


def unaltered(tree: Tree, tests: Sequence[str]) -> str:
    """Runs the tests on the copy as it is; what is wrong, empty where all pass there."""
    where = subprocess.run(
        [sys.executable, "-c", "import gemmgen; print(gemmgen.__file__)"], cwd="/", env=os.environ | {"PYTHONPATH": str(tree.root)},
        capture_output=True, text=True, check=True,
    ).stdout.strip()
    if not Path(where).is_relative_to(tree.root):
        return f"gemmgen comes from {where}, not from the copy: no fault would be seen"
    code, output = tree.run(tests, None, writes=True)
    if code or re.search(r"\d+ skipped", output.splitlines()[-1]):
        return f"the unaltered tree fails or skips (pytest's code {code}):\n{output[-4000:]}"
    return ""


def attempt(tree: Tree, mutant: Mutant, timeout: float) -> Outcome:
    """Puts a fault into the copy, runs its tests and takes it out again."""
    path, started = tree.root / mutant.file, time.monotonic()
    text = path.read_text()
    if text.count(mutant.find) != 1:
        return Outcome(mutant, "stale", stale([mutant], tree.root)[mutant.id])
    kept = path.stat()
    # Kernels built before serve again, but what builds them and reads them must do its work.
    cache = Path(tempfile.mkdtemp(dir=tree.root.parent)) if mutant.file.startswith("gemmgen/build/") else None
    try:
        path.write_text(text.replace(mutant.find, mutant.replace))
        os.utime(path, (kept.st_atime, kept.st_mtime + 10))  # no byte code of the unaltered file is as new
        code, output = tree.run(mutant.tests, timeout, cache)
    finally:
        path.write_text(text)
        os.utime(path, (kept.st_atime, kept.st_mtime))
        if cache:
            shutil.rmtree(cache, ignore_errors=True)
    reasons = [line[1:].strip() for line in output.splitlines() if line.startswith("E  ")]
    how = "nothing came of it in time" if code == -1 else reasons[0] if reasons else ""
    if code == 0:
        state = "equivalent" if mutant.equivalent else "survived"
    elif code in (-1, 1):
        uncompiled = mutant.file.startswith("templates/") and "BuildError" in output
        state = "broken" if uncompiled else "survived" if mutant.equivalent else "caught"
        how = "it does not compile: " + how if uncompiled else "is called equivalent, and was caught: " + how if mutant.equivalent else how
    else:
        state, how = "broken", f"pytest's code {code}: {how or output[-300:]}"
    return Outcome(mutant, state, how[:200], time.monotonic() - started)


def tables(outcomes: Sequence[Outcome]) -> str:
    """By room and by vendor, then every fault."""
    states = ("caught", "survived", "equivalent", "stale", "broken")

    def summary(title: str, group: str) -> list[str]:
        rows = [f"| {title} | faults | {' | '.join(states)} | seconds |", "| --- |" + " ---: |" * (len(states) + 2)]
        names = list(dict.fromkeys(getattr(outcome.mutant, group) for outcome in outcomes))
        for name in [*names, None]:
            mine = [outcome for outcome in outcomes if name in (None, getattr(outcome.mutant, group))]
            counts = [sum(outcome.state == state for outcome in mine) for state in states]
            cells = [name or "**all**", len(mine), *counts, f"{sum(outcome.seconds for outcome in mine):.0f}"]
            rows.append(f"| {' | '.join(map(str, cells))} |")
        return rows

    def cell(text: str) -> str:
        return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")

    every = ["| fault | vendor | file | state | seconds |", "| --- | --- | --- | --- | ---: |"]
    for outcome in outcomes:
        mutant, state = outcome.mutant, outcome.state
        said = f"{state}: {cell(mutant.equivalent if state == 'equivalent' else outcome.how)}" if state != "caught" else state
        every.append(f"| {mutant.room}: {mutant.id} | {mutant.vendor} | `{mutant.file}` | {said} | {outcome.seconds:.0f} |")
    return "\n".join([*summary("room", "room"), "", *summary("vendor", "vendor"), "", *every]) + "\n"


HEAD = """# Mutants

What `make mutants` found: single faults put into templates, rows, models, judges, emulators and exports, and whether the tests
that should see each do. [How](../mutants.md). Seconds are wall time, the tests' start included, on whatever else the machine did.

"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="ID", help="this fault; may be given several times")
    parser.add_argument("--room", action="append", help="the faults of this room; may be given several times")
    parser.add_argument("--jobs", type=int, default=1, help="copies of the tree that work side by side")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that a fault's tests may take")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every outcome there, too")
    parser.add_argument("--table", type=Path, nargs="+", metavar="FILE", help="run nothing: the table of what earlier runs wrote with --json")
    parser.add_argument("--check", action="store_true", help="only look whether each fault finds its place, and its tests are there")
    options = parser.parse_args()
    mutants = read()
    if wrong := stale(mutants) | lost_tests(mutants):
        print(*(f"stale: {name}: {problem}" for name, problem in wrong.items()), sep="\n", file=sys.stderr)
    if options.check:
        print(f"{len(mutants)} faults, {len(wrong)} stale")
        return bool(wrong)
    if options.table:
        found = [told for path in options.table for told in json.loads(path.read_text())]
        known = {told["mutant"]["id"]: Outcome(**{**told, "mutant": _as_read(told["mutant"])}) for told in found}
        if missing := [mutant.id for mutant in mutants if mutant.id not in known or known[mutant.id].mutant != mutant]:
            print(*(f"not tried, or changed since: {name}" for name in missing), sep="\n", file=sys.stderr)
            return 2
        return told_of([known[mutant.id] for mutant in mutants], whole=True, parts=len(options.table))
    chosen = [
        mutant for mutant in mutants
        if (not options.only or mutant.id in options.only) and (not options.room or mutant.room in options.room)
    ]
    if unknown := {*(options.only or ())} - {mutant.id for mutant in mutants} or {*(options.room or ())} - {mutant.room for mutant in mutants}:
        print(f"there is no {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="gemmgen-mutants-") as scratch:
        outcomes = work(chosen, Path(scratch), options.jobs, options.timeout)
    if outcomes is None:
        return 2
    if options.json:
        options.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1) + "\n")
    return told_of(outcomes, whole=chosen == mutants)


def _as_read(row: dict) -> Mutant:
    return Mutant(**{**row, "tests": tuple(row["tests"])})


def told_of(outcomes: Sequence[Outcome], whole: bool, parts: int = 1) -> bool:
    """Prints the table, writes it where it is the whole list's, and of how many runs it is; whether anything is wrong."""
    text = tables(outcomes)
    print(text)
    if whole:
        TABLE.write_text(HEAD + (f"Put together from {parts} runs, each of a part of the list.\n\n" if parts > 1 else "") + text)
    good = all(outcome.state in ("caught", "equivalent") for outcome in outcomes)
    return not good or sum(outcome.state == "equivalent" for outcome in outcomes) > ALLOWED


def work(mutants: Sequence[Mutant], scratch: Path, jobs: int, timeout: float) -> list[Outcome] | None:
    """Every fault's outcome, in order; None where the unaltered tree does not pass."""
    tests = list(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
    print(f"{len(mutants)} faults; {len(tests)} names of tests, first on the unaltered tree", file=sys.stderr)
    first = copy(scratch)
    if problem := unaltered(first, tests):
        print(problem, file=sys.stderr)
        return None
    trees: queue.Queue[Tree] = queue.Queue()
    trees.put(first)
    for job in range(1, jobs):  # with the byte code of the unaltered files
        trees.put(Tree(shutil.copytree(first.root, scratch / str(job) / "tree", symlinks=True), first.cache))

    def one(mutant: Mutant) -> Outcome:
        tree = trees.get()
        try:
            outcome = attempt(tree, mutant, timeout)
        finally:
            trees.put(tree)
        print(f"{outcome.state:10} {mutant.room}: {mutant.id} ({outcome.seconds:.0f} s) {outcome.how}", file=sys.stderr, flush=True)
        return outcome

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, mutants))


if __name__ == "__main__":
    sys.exit(main())
