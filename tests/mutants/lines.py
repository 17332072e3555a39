"""Which lines of the program each test runs.

Every test runs in a process of its own, forked from one that has collected all tests and emptied the caches of gemmgen's functions: what a
test ran before it must not hide what this one runs. `sys.monitoring` tells the lines where Python has it (3.12), `sys.settrace` elsewhere.
"""

from __future__ import annotations

import ast
import base64
import ctypes
import faulthandler
import functools
import gc
import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

MOST_TESTS = 40
"""That a fault is tried on."""
MOST_SECONDS = 40.0
"""That those take together on the unaltered tree."""
FOLLOWED = "GEMMGEN_FOLLOWED"
"""Names the folder where Python programs that a test starts leave the lines that they ran."""
_TEMPLATE = re.compile(r"(?:^|/)((?:templates|gemmgen/designs)/.*\.j2)$")


class Lines:
    """The lines of a tree's program that run between `start` and `stop`, by file."""

    def __init__(self, root: Path):
        self.root, self.prefix = root, f"{root / 'gemmgen'}{os.sep}"
        self.seen: dict[str, set[int]] = {}
        self._ours: dict[object, set[int] | None] = {}

    def ours(self, code) -> bool:
        name = code.co_filename
        return name.startswith(self.prefix) or name.endswith(".j2")

    def start(self) -> None:
        if (monitoring := getattr(sys, "monitoring", None)) is None:
            threading.settrace(self._trace)
            sys.settrace(self._trace)
            return
        tool, events = monitoring.COVERAGE_ID, monitoring.events

        def begun(code, offset):
            if self.ours(code):
                monitoring.set_local_events(tool, code, events.LINE)
            return monitoring.DISABLE

        def line(code, number):
            self.seen.setdefault(code.co_filename, set()).add(number)
            return monitoring.DISABLE

        monitoring.use_tool_id(tool, "lines")
        monitoring.register_callback(tool, events.PY_START, begun)
        monitoring.register_callback(tool, events.LINE, line)
        monitoring.restart_events()  # lines that were heard of before are told once more
        monitoring.set_events(tool, events.PY_START)

    def _trace(self, frame, event, argument):
        code = frame.f_code
        if code not in self._ours:
            self._ours[code] = {line for _, _, line in code.co_lines() if line} if self.ours(code) else None
        if not (left := self._ours[code]):  # not ours, or seen whole
            return None
        seen = self.seen.setdefault(code.co_filename, set())

        def line(frame, event, argument):
            seen.add(frame.f_lineno)
            left.discard(frame.f_lineno)
            return line

        return line(frame, event, argument)

    def stop(self) -> None:
        if (monitoring := getattr(sys, "monitoring", None)) is None:
            sys.settrace(None)
            threading.settrace(None)
        elif monitoring.get_tool(monitoring.COVERAGE_ID) == "lines":
            monitoring.set_events(monitoring.COVERAGE_ID, 0)
            for event in (monitoring.events.PY_START, monitoring.events.LINE):  # code that ran keeps its local events
                monitoring.register_callback(monitoring.COVERAGE_ID, event, None)
            monitoring.free_tool_id(monitoring.COVERAGE_ID)

    def told(self) -> dict[str, list[int]]:
        """By path from the root; lines of a template are its own, not those of the code that Jinja made of it."""
        found: dict[str, list[int]] = {}
        for name, lines in self.seen.items():
            if not name.endswith(".j2"):
                found[os.path.relpath(name, self.root)] = sorted(lines)
            elif match := _TEMPLATE.search(name):  # from where the checkout lies that compiled it
                found[match[1]] = sorted({one for line in lines for one in _spans(match[1]).get(line, ())})
        return found


@functools.cache
def _spans(file: str) -> dict[int, range]:
    """By line of Jinja's code the lines of the template that it is made of: up to the next that has code."""
    environment = sys.modules["gemmgen.render"]._environment()
    name = file.removeprefix("templates/").removeprefix("gemmgen/")
    pairs = [*environment.get_template(name).debug_info]
    begins = sorted({line for line, _ in pairs} | {1 << 20})
    return {code: range(line, min(begins[begins.index(line) + 1], line + 400)) for line, code in pairs}


def mark_text(folder: Path) -> None:
    """Has Jinja tell the line of each piece of text, which it tells of statements and expressions alone; that code is kept in a folder of its own."""
    import jinja2
    import jinja2.compiler

    class Marking(jinja2.compiler.CodeGenerator):
        def visit_Output(self, node, frame):
            self.newline(node)
            super().visit_Output(node, frame)

    made = jinja2.Environment.__init__

    def make(environment, *arguments, **options):
        made(environment, *arguments, **options)
        environment.bytecode_cache = jinja2.FileSystemBytecodeCache(str(folder))

    jinja2.Environment.__init__, jinja2.Environment.code_generator_class = make, Marking


def follow(root: Path, folder: Path) -> None:
    """Of a Python program that a test starts: leaves the lines that it ran when it ends."""
    import atexit

    lines = Lines(root)
    lines.start()

    def leave() -> None:
        lines.stop()
        handle, _ = tempfile.mkstemp(dir=folder, suffix=".json")
        with os.fdopen(handle, "w") as file:
            json.dump(lines.told(), file)

    atexit.register(leave)


SITE = """import os, sys
from pathlib import Path
if {key!r} in os.environ:
    sys.path.append({here!r})
    import lines
    sys.path.remove({here!r})
    lines.follow(Path({root!r}), Path(os.environ[{key!r}]))
"""


# ---- processes


def used() -> float:
    """Seconds of processor time of children that ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def adopt(follow: bool = True) -> None:
    """Grandchildren whose parent ends become this process's; and this ends with its own parent, if it is to follow."""
    library = ctypes.CDLL(None)
    library.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    if follow:
        library.prctl(1, signal.SIGTERM, 0, 0, 0)  # PR_SET_PDEATHSIG


def end_children() -> None:
    """Ends every child, and theirs, which become ours when it goes, in sessions of their own or not."""
    while children := [int(pid) for pid in filter(str.isdigit, os.listdir("/proc")) if _parent(pid) == os.getpid()]:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        for pid in children:
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                pass


def _parent(pid: str) -> int:
    try:
        return int(Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # has ended meanwhile
        return 0


# ---- the map


def packed(lines: dict[str, list[int]]) -> str:
    """The lines of each file as the bits of a number, as text."""
    bits = {file: f"{sum(1 << line for line in set(numbers)):x}" for file, numbers in lines.items()}
    return base64.b85encode(zlib.compress(json.dumps(bits).encode(), 6)).decode()


class Mapper:
    """pytest's plugin that runs the collected tests, many at a time, and notes the lines of each.

    Args:
        root: of the copy that they run in.
        folder: for what they leave.
        note: keeps a line of the map.
        key: what a test's entry hangs on, by its file.
        noted: names of tests that have theirs.
        files: whose tests are collected.
        jobs: how many run at a time.
        timeout: seconds that a test may take.
        told: the descriptor that progress goes to.
    """

    def __init__(self, root: Path, folder: Path, note: Callable[..., None], key: dict[str, str], noted: set[str], jobs: int, timeout: float, told: int):
        self.root, self.folder, self.note, self.key, self.noted = root, folder, note, key, noted
        self.jobs, self.timeout, self.told = jobs, timeout, told

    def tell(self, text: str) -> None:
        os.write(self.told, f"{text}\n".encode())

    def pytest_runtestloop(self, session) -> bool:
        items = [item for item in session.items if item.nodeid not in self.noted]
        items.sort(key=lambda item: "/unit/" in item.nodeid)  # longer ones first
        self.tell(f"map: {len(items)} tests of {len(session.items)} to run, {session.testsfailed} files cannot be collected")
        # What was solved and read while tests were collected is solved and read again by each.
        gc.unfreeze()
        for cached in [one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper)]:
            if str(getattr(cached, "__module__", "")).startswith("gemmgen"):
                cached.cache_clear()
        gc.collect()
        gc.freeze()
        (self.folder / "templates").mkdir()
        mark_text(self.folder / "templates")
        (self.folder / "site").mkdir()
        (self.folder / "site" / "sitecustomize.py").write_text(SITE.format(key=FOLLOWED, here=str(Path(__file__).parent), root=str(self.root)))
        os.environ["PYTHONPATH"] = f"{self.folder / 'site'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        context = multiprocessing.get_context("fork")
        begun, ended = context.Value("i", 0), context.Value("i", 0)
        workers = [context.Process(target=self._work, args=(number, items, begun, ended)) for number in range(min(self.jobs, len(items)))]
        for worker in workers:
            worker.start()
        began, last = time.monotonic(), time.monotonic()
        while any(worker.is_alive() for worker in workers):
            time.sleep(0.2)
            if time.monotonic() > last + 20:
                last = time.monotonic()
                self.tell(f"map: {ended.value} of {len(items)} tests, {last - began:.0f} s")
        self.tell(f"map: {ended.value} of {len(items)} tests, {time.monotonic() - began:.0f} s")
        if ended.value == len(items):
            for file in {item.nodeid.partition("::")[0] for item in session.items} | {*self.key}:
                self.note(id=file, key=f"whole {self.key[file]}")
        return True

    def _work(self, number: int, items: list, begun, ended) -> None:
        folder = self.folder / str(number)
        adopt()
        while True:
            with begun.get_lock():
                at, begun.value = begun.value, begun.value + 1
            if at >= len(items):
                return
            item = items[at]
            shutil.rmtree(folder, ignore_errors=True)
            (folder / "lines").mkdir(parents=True)
            began = time.monotonic()
            pid = os.fork()
            if not pid:
                self._test(item, folder)
            while not (done := os.waitpid(pid, os.WNOHANG))[0] and time.monotonic() < began + self.timeout:
                time.sleep(0.005)
            end_children()
            self._keep(item, folder, time.monotonic() - began, done)
            with ended.get_lock():
                ended.value += 1

    def _test(self, item, folder: Path) -> None:
        """The child: one test, and no way back."""
        try:
            os.setsid()
            from _pytest.runner import runtestprotocol

            os.environ |= {"TMPDIR": str(folder), FOLLOWED: str(folder / "lines")}
            tempfile.tempdir = None
            factory = item.config._tmp_path_factory
            factory._given_basetemp, factory._basetemp = folder / "p", None
            faulthandler.enable((folder / "fault").open("w"))
            lines = Lines(self.root)
            lines.start()
            reports = runtestprotocol(item, nextitem=None, log=False)
            lines.stop()
            failed, skipped = any(one.failed for one in reports), any(one.skipped for one in reports)
            state = "failed" if failed else "skipped" if skipped else "passed"
            why = next((one.longreprtext[-600:] for one in reports if one.failed), "")
            (folder / "ran.new").write_text(json.dumps({"state": state, "why": why, "lines": lines.told()}))
            (folder / "ran.new").rename(folder / "ran")
        except BaseException:  # noqa: BLE001, the process ends here
            (folder / "died").write_text(traceback.format_exc())
        finally:
            os._exit(0)

    def _keep(self, item, folder: Path, seconds: float, ended: tuple[int, int]) -> None:
        """Notes what a test left; `ended` is its process, and its status, or 0 and 0 where it was not awaited."""
        if (folder / "ran").is_file():
            ran = json.loads((folder / "ran").read_text())
        elif not ended[0]:
            ran = {"state": "late", "why": "", "lines": {}}
        else:
            left = [(folder / name).read_text() for name in ("died", "fault") if (folder / name).is_file()]
            why = "".join(left)[:600] or f"its process ended with {os.waitstatus_to_exitcode(ended[1])}"
            ran = {"state": "died", "why": why, "lines": {}}
        lines = {file: {*numbers} for file, numbers in ran["lines"].items()}
        for path in (folder / "lines").glob("*.json"):
            try:
                for file, numbers in json.loads(path.read_text()).items():
                    lines.setdefault(file, set()).update(numbers)
            except ValueError:  # ended while it wrote
                pass
        file = item.nodeid.partition("::")[0]
        self.note(id=item.nodeid, key=f"{self.key[file]} {item.nodeid}", state=ran["state"], why=ran["why"], seconds=round(seconds, 2),
                  lines=packed({name: sorted(numbers) for name, numbers in lines.items()}) if ran["state"] == "passed" else "")


class Only:
    """pytest's plugin that leaves the named tests, in this order; names that no test has are passed over."""

    def __init__(self, tests: Iterable[str]):
        self.place = {test: place for place, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list) -> None:
        items[:] = sorted((item for item in items if item.nodeid in self.place), key=lambda item: self.place[item.nodeid])


class Map:
    """Which tests of a tree run a line.

    Args:
        root: of the tree.
        entries: the lines of the map's file that are of this tree.
    """

    def __init__(self, root: Path, entries: Iterable[dict]):
        self.root = root
        self.seconds: dict[str, float] = {}
        self.states: dict[str, int] = {}
        self._bits: dict[str, dict[str, int]] = {}
        numbers: dict[str, int] = {}
        for entry in entries:
            self.states[entry["state"]] = self.states.get(entry["state"], 0) + 1
            if entry["state"] == "passed":
                self.seconds[entry["id"]] = entry["seconds"]
                for file, bits in json.loads(zlib.decompress(base64.b85decode(entry["lines"]))).items():
                    if bits not in numbers:
                        numbers[bits] = int(bits, 16)
                    self._bits.setdefault(file, {})[entry["id"]] = numbers[bits]
        self._texts = {file: (root / file).read_text() for file in self._bits if (root / file).is_file()}
        self._named: dict[str, set[str]] = {}
        self._place = {test: place for place, test in enumerate(sorted(self.seconds, key=lambda test: (self.seconds[test], test)))}
        self._by_function: dict[tuple[str, str], list[str]] = {}
        for test in self.seconds:
            path, _, name = test.partition("::")
            self._by_function.setdefault((path, re.split(r"::|\[", name)[0]), []).append(test)

    def running(self, file: str, first: int, last: int) -> set[str]:
        """The tests that run one of a file's lines."""
        mask = (1 << last + 1) - (1 << first)
        return {test for test, bits in self._bits.get(file, {}).items() if bits & mask}

    def of(self, file: str, first: int, last: int, body: tuple[int, int] | None = None, names: Iterable[str] = ()) -> set[str]:
        """The tests that run a changed text, recorded text of kernels left aside for templates.

        A default counts as run by those that run its function, and what is assigned at import by those that run a line with its name; where
        no test does either, by those that run any line of the file.
        """
        found = self.running(file, *body) if body else self.running(file, first, first) or self.running(file, first, last)
        for name in names:
            found |= self._naming(name, file, first)
        if not found and (names or body):
            found = {*self._bits.get(file, ())}
        return {test for test in found if not (file.endswith(".j2") and test.startswith("tests/golden"))}

    def _naming(self, name: str, file: str, line: int) -> set[str]:
        if name not in self._named:
            word, found = re.compile(rf"\b{re.escape(name)}\b"), set()
            for other, text in self._texts.items():
                if name in text:
                    mask = sum(1 << number for number, line in enumerate(text.splitlines(), 1) if word.search(line))
                    found |= {test for test, bits in self._bits[other].items() if bits & mask}
            for (path, function), tests in self._by_function.items():
                if word.search(_functions(self.root / path).get(function, "")):
                    found.update(tests)
            self._named[name] = found
        return self._named[name]

    def chosen(self, tests: Iterable[str]) -> list[str]:
        """The cheapest of some tests, cheapest first; of one function's cases each later one counts as dearer, so that others have their turn."""
        order, cases, price = sorted(tests, key=self._place.__getitem__), {}, {}
        for test in order:
            function = test.partition("[")[0]
            cases[function] = cases.get(function, 0) + 1
            price[test] = (self.seconds[test] + 0.1) * ((cases[function] + 1) // 2)
        taken, seconds = [], 0.0
        for test in sorted(order, key=price.get):
            if len(taken) < MOST_TESTS and (not taken or seconds + self.seconds[test] <= MOST_SECONDS):
                taken.append(test)
                seconds += self.seconds[test]
        return sorted(taken, key=self._place.__getitem__)


@functools.cache
def _functions(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    text = path.read_text()
    lines = text.splitlines()
    return {node.name: "\n".join(lines[node.lineno - 1:node.end_lineno]) for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
