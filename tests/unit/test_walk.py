"""How far control climbs back on the way of `road.verify`: to an earlier stop, and into the look-up of a spec's names."""

from __future__ import annotations

import pytest

from gemmgen import road
from gemmgen.verdict import verdict
from test_layering import ROOMS
from walked import Place, calls_of, climbs, entered

STOPS = tuple(room for room in ROOMS if room in {"spec", "plan", "solve", "naming", "abi", "render", "build", "run", "verify"})
"""The stops of ARCHITECTURE.md, and the names and the ABI that they are told by, in the order of the rooms."""
REQUEST = tuple(f"solve/{name}.py" for name in ("request", "lookup", "applicable", "promotion"))
"""What turns a spec into requests: look-up, refusals, promotion."""
SPEC = {
    "problem": {"m": 40, "n": 24, "k": 40}, "split": {"scheme": "half"}, "fragment": {"policy": "mma"}, "tile": {"block": [32, 32, 32], "warp": [16, 16, 32]},
    "target": {"gpu": "a100"},
}


@pytest.mark.slow
def test_verify_climbs_seldom_and_looks_names_up_once():
    """Two designs serve such a spec, so that two plans are compared."""
    verdict(road.plan(SPEC))  # tables are read before anything is counted, and plain FP32 has its plan, which is another spec's
    calls = calls_of(lambda: road.verify(SPEC, size=(40, 24, 40)))
    found = climbs(calls, STOPS)
    assert {(one.room, other.room, other.name) for one, other in found} == {
        ("abi", "naming", "kernel_name"), ("build", "render", "render"), ("build", "solve", "choices"), ("render", "abi", "interface"),
        ("verify", "run", "gemm"),
    } and len(found) <= 6
    inside = entered(calls, REQUEST)
    assert {other.name for _, other in inside} == {"requests", "Request.plan"} and sum(inside.values()) <= 4


def test_what_counts_as_a_climb():
    solve, plan, method = Place("solve/__init__.py", "solve"), Place("plan.py", "made"), Place("plan.py", "Plan.hash")
    verify, hidden, foreign = Place("verify/bound.py", "bound"), Place("solve/search.py", "_nearest"), Place("model/error.py", "promote_for")
    calls = {(verify, solve): 3, (solve, plan): 1, (verify, method): 9, (verify, hidden): 1, (verify, foreign): 1, (solve, verify): 1}
    assert climbs(calls, STOPS) == {(verify, solve), (solve, plan)}
    assert sum(entered(calls, ["solve/__init__.py", "solve/search.py"]).values()) == 4


def test_calls_are_counted_by_file():
    calls = calls_of(lambda: road.load(SPEC))
    assert calls[Place("road.py", "load"), Place("spec.py", "loads")] == 1
    assert not any(one.file == other.file for one, other in calls)
