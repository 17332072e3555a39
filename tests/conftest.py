"""Options and fixtures that several test folders share."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import os
import re
import signal
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# Every worker is busy already: threads of BLAS that wait for one another take a product's time many times over.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
gc.disable()  # until all tests are collected: nothing that they are made of is garbage

import pytest

from thinned import KEPT, left_out
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.vendor import VENDORS
from gemmgen.cli.verb import keep_memory
from gemmgen.run import why_not


LONG_SECONDS = 1200
"""That a test marked `long` may take, on a machine that does something else as well; others have the limit of pyproject.toml."""


def pytest_addoption(parser):
    parser.addoption("--require-gpu", action="store_true", help="fail if no test ran on a GPU")
    parser.addoption("--update-golden", action="store_true", help="rewrite generated/ and the schema as they are now")


def pytest_configure(config):
    config.addinivalue_line("markers", "device(vendor): needs a GPU, of NVIDIA's if none is said; skipped where there is none")
    config.pluginmanager.register(_DeviceRuns(config), "device-runs")
    keep_memory()  # as the command line does
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: children of children whose parent ends become ours, to be ended with ours
    if hasattr(config, "workerinput"):
        os.cpu_count = lambda: 1  # the others are the other workers': the emulator forks no more processes


def pytest_unconfigure():
    """End what tests started and left: it would keep the run's output open, and whoever reads that would wait for it."""
    for task in Path("/proc/self/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            if not Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].startswith(" Z"):
                os.kill(child, signal.SIGKILL)


COLLECTED = pytest.StashKey[list[pytest.Item]]()


class _DeviceRuns:
    """Counts the device tests that really ran; under xdist, those of all workers."""

    def __init__(self, config):
        self.required = config.getoption("--require-gpu")
        self.is_worker = hasattr(config, "workerinput")
        self.count = 0

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and not report.skipped and "device" in report.keywords:
            self.count += 1

    def pytest_sessionfinish(self, session):
        if self.missed:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        if self.missed:
            terminalreporter.write_line("--require-gpu: no device test ran", red=True)

    @property
    def missed(self) -> bool:
        return self.required and not self.is_worker and not self.count


@pytest.hookimpl(tryfirst=True)  # before `-m` leaves any out
def pytest_collection_modifyitems(config, items):
    config.stash[COLLECTED] = list(items)
    by_function: dict[str, list[pytest.Item]] = {}
    for item in items:
        if not item.get_closest_marker("long"):
            by_function.setdefault(f"{item.path.name}::{item.originalname}", []).append(item)
    for function, kept in KEPT.items():
        mine = by_function.get(function, [])
        for at in left_out([f"{item.path.name}::{item.name}" for item in mine], kept):
            mine[at].add_marker("long")
    for item in items:
        if item.get_closest_marker("long") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LONG_SECONDS))
    for item in items:
        if reason := _no_gpu(item):
            item.add_marker(pytest.mark.skip(reason=reason))


def _no_gpu(node: pytest.Item | pytest.Function) -> str:
    """Why a test of a GPU cannot run here; empty of one that can, and of others."""
    mark = node.get_closest_marker("device")
    return _why_not(mark.args[0] if mark.args else "nvidia") if mark else ""


@cache
def _why_not(vendor: str) -> str:
    assert vendor in VENDORS
    reasons = [why_not(row) for row in GPUS.rows() if row.vendor == vendor]
    return "" if None in reasons else reasons[0].problem


@pytest.fixture
def update_golden(request) -> bool:
    return request.config.getoption("--update-golden")


@pytest.hookimpl(trylast=True)  # when all parameters are known
def pytest_generate_tests(metafunc):
    """Of parameters marked `long`, no tests are made where `-m` would only leave them out again: they are more than half of all."""
    if metafunc._calls and _no_gpu(metafunc.definition):
        del metafunc._calls[1:]  # one is skipped for all
    if (metafunc.config.getoption("markexpr") or "").startswith("not long") and metafunc._calls:
        whole = metafunc.definition.get_closest_marker("long")
        kept = [] if whole else [one for one in metafunc._calls if not any(mark.name == "long" for mark in one.marks)]
        metafunc._calls = kept or metafunc._calls[:1]  # one at least: a function without parameters would be another test


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """What a file's own functions cached goes with its last test: emulated devices and their memory, GBs in all, which each fork would have to map."""
    if nextitem is None or nextitem.path != item.path:
        for value in vars(item.module).values():
            if getattr(value, "__module__", None) == item.module.__name__ and hasattr(value, "cache_clear"):
                value.cache_clear()


def pytest_collection_finish(session):
    gc.freeze()  # thousands of tests, and SymPy: nothing that is worth looking through again and again
    gc.enable()
    gc.set_threshold(50_000, 20, 20)  # a kernel's decoded instructions are many and live long: not to be looked through after every 700


def _lacks_a_package(path: Path) -> bool:
    """Whether a file of tests skips as a whole here, since it asks at its head for a package that is not installed."""
    return any(importlib.util.find_spec(name) is None for name in re.findall(r'^(?:\w+ = )?pytest\.importorskip\("(\w+)"', path.read_text(), re.M))


@pytest.fixture
def in_make_test(request) -> list[pytest.Item]:
    """The tests that `make test` runs; only where all files are collected, as it does."""
    items = request.config.stash[COLLECTED]
    files = {path for path in Path(__file__).parent.glob("*/test_*.py") if not _lacks_a_package(path)}
    if missing := sorted(files - {item.path for item in items}):
        pytest.skip(f"not all tests are collected: {missing[0].name} is not")
    return [item for item in items if not item.get_closest_marker("long")]


@dataclass(frozen=True)
class Ran:
    """What a command left."""

    code: int
    out: str
    err: str


@pytest.fixture
def gemmgen(capsys):
    """The command line, in this process: `gemmgen("build", "--source", "x.toml")` -> Ran."""
    from gemmgen.cli import main

    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def write_spec(tmp_path):
    """Write a spec file from its text; the A100 and Ootomo's scheme where it names none."""

    def write(text: str = "", name: str = "spec.toml"):
        if "[split]" not in text:
            text += '\n[split]\nscheme = "ootomo"\n'
        if "[target]" not in text:
            text += '\n[target]\ngpu = "a100"\n'
        path = tmp_path / name
        path.write_text(text)
        return path

    return write
