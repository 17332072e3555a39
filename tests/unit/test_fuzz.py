"""Damaged specs, rows, matrices and cache entries: each ends in an exit code (tests/support/fuzz.py)."""

from __future__ import annotations

import pytest

import fuzz

QUICK = {"spec": 12, "gpu": 20, "scheme": 20, "fragment": 15, "unit": 15, "spec with a gpu": 15, "spec with a scheme": 15, "matrix": 30, "cache": 8}


@pytest.mark.slow
@pytest.mark.parametrize("kind", fuzz.KINDS)
def test_whatever_is_read_ends_in_an_exit_code(kind):
    ends, faults = fuzz.check_many({kind: QUICK[kind]}, seed=0)
    assert not faults, "\n\n".join(faults)
    assert sum(ends.values()) == QUICK[kind]


@pytest.mark.long
@pytest.mark.parametrize("kind", fuzz.KINDS)
def test_of_several_thousand_too(kind):
    ends, faults = fuzz.check_many({kind: 40 * QUICK[kind]}, seed=1)
    assert not faults, "\n\n".join(faults)
    assert {end for _, end in ends} >= ({"2"} if kind == "matrix" else {"0"} if kind == "cache" else {"0", "2"})


def broken(monkeypatch, behaviour):
    """A command line that does something else, for the guard to see."""
    monkeypatch.setattr("gemmgen.cli.main", behaviour)
    return fuzz.case("matrix", 0)


def test_a_traceback_would_be_seen(monkeypatch):
    def raising(arguments):
        raise ValueError("slipped through")
    assert "slipped through" in broken(monkeypatch, raising)


def test_a_hang_would_be_seen(monkeypatch):
    def spinning(arguments):
        while True:
            pass
    monkeypatch.setattr(fuzz, "MOST_SECONDS", 0.2)
    assert "TimeoutError" in broken(monkeypatch, spinning)


def test_a_wait_would_be_seen(monkeypatch):
    import time

    monkeypatch.setattr(fuzz, "MOST_SECONDS", 0.02)
    assert "TimeoutError" in broken(monkeypatch, lambda arguments: time.sleep(3600))


def test_what_is_taken_without_bound_would_be_seen(monkeypatch):
    monkeypatch.setattr(fuzz, "MOST_MEMORY", 1 << 28)
    assert "MemoryError" in broken(monkeypatch, lambda arguments: len(bytearray(1 << 33)))


def test_another_exit_code_and_a_silent_refusal_would_be_seen(monkeypatch):
    assert "exit code 3" in broken(monkeypatch, lambda arguments: 3)
    assert "without a reason" in broken(monkeypatch, lambda arguments: 2)


def test_a_file_of_a_refused_request_would_be_seen(monkeypatch):
    import sys
    from pathlib import Path

    def leaving(arguments):
        Path("left.cu").write_text("half")
        print("error: no", file=sys.stderr)
        return 2
    assert "left ['left.cu']" in broken(monkeypatch, leaving)


def test_a_case_is_the_same_each_time(tmp_path):
    for kind in ("spec", "gpu", "matrix"):
        import random

        for folder in ("a", "b"):
            (tmp_path / kind / folder).mkdir(parents=True)
            fuzz.KINDS[kind](random.Random(f"{kind} 7"), tmp_path / kind / folder)
        [first, second] = [{path.name: path.read_bytes() for path in (tmp_path / kind / folder).iterdir()} for folder in ("a", "b")]
        assert first == second
