"""No test is waited for without end: each has a limit, and what it started ends with the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
HANGS = """
import ctypes, subprocess, time

def test_in_python():
    time.sleep(60)

def test_in_a_child_of_a_child():
    subprocess.run(["sh", "-c", "sleep 61.5 & sleep 61.5; echo"], capture_output=True)

def test_that_leaves_one():
    subprocess.Popen(["setsid", "sleep", "61.5"])

def test_in_c():
    lock = ctypes.create_string_buffer(64)
    mutex = ctypes.CDLL(None).pthread_mutex_lock
    assert not mutex(lock)
    mutex(lock)

def test_after_them():
    pass
"""


def test_each_test_has_a_limit_and_long_ones_more(request):
    config, items = request.config, request.session.items
    assert int(config.getini("timeout")) == 300 and config.getini("timeout_func_only") is False and config.getini("timeout_method") == "signal"
    assert float(config.getini("faulthandler_timeout")) in (360, 1500) and config.getini("faulthandler_exit_on_timeout") is True
    limits = {bool(item.get_closest_marker("long")): item.get_closest_marker("timeout") for item in items if item.path.name != "test_limits.py"}
    assert True not in limits or 300 < limits[True].args[0] < 1500


@pytest.mark.slow
def test_what_hangs_fails_with_its_stack_and_leaves_nothing(tmp_path):
    """Of five tests one hangs in Python, one waits for a child, one in C, and one leaves a child."""
    (tmp_path / "test_hangs.py").write_text(HANGS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    limits = ("timeout=0.3", "timeout_method=signal", "faulthandler_timeout=1", "faulthandler_exit_on_timeout=true")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS / "support"), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "conftest", *(f"-o{one}" for one in limits), "test_hangs.py"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "3 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("Failed: Timeout (>0.3s)") >= 2 and "crashed while running 'test_hangs.py::test_in_c'" in done.stdout
    assert "in test_in_c" in done.stderr
    assert not [one for one in Path("/proc").glob("[0-9]*/cmdline") if one.read_bytes().endswith(b"sleep\x0061.5\x00")]
