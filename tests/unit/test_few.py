"""bench/few.py: the kernels that it has raced are those that it says."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from gemmgen.solve import solve
from gemmgen.spec import loads

PATH = Path(__file__).resolve().parents[2] / "bench" / "few.py"


@pytest.fixture
def few():
    found = importlib.util.spec_from_file_location("few", PATH)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_kernels_that_the_model_does_not_tell_apart_are_told_once_a_tile(few, tmp_path, monkeypatch):
    """Each spec has one plan, the kernel of its name, which is predicted to be nearly as fast as the best."""
    out = tmp_path / "few.json"
    monkeypatch.setattr(sys, "argv", ["few.py", "alike", "--scheme", "scaled", "--policy", "wgmma", "--gpu", "h200", "--hint", "4096", "--within", "1.05",
                                      "--shapes", "4096x4096x4096,64x128x256", "-o", str(out)])
    assert few.main() == 0
    told = json.loads(out.read_text())
    assert told["gpu"] == "h200" and told["shapes"] == [[4096] * 3, [64, 128, 256]]
    plans = [solve(loads(one["spec"])) for one in told["kernels"][:6]]
    assert [plan.hash for plan in plans] == [one["identity"] for one in told["kernels"][:6]]
    seconds = [plan.model["seconds"] for plan in plans]
    assert len(told["kernels"]) > 6 and max(seconds) <= 1.05 * min(seconds)
    assert len({(plan.block[:2], plan.warp[:2], plan.numbers["cluster"], plan.numbers["pingpong"], plan.split_k) for plan in plans}) == len(plans)
