"""A sample of C's blocks: which blocks of which launch compute it, what shows when they are others, and what `verify` samples."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gemmgen import road
from gemmgen.run import gemm
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.verify import Judge, oracles, sample
from gemmgen.verify.sample import ELEMENT, Sample, affordable, blocks, drawn, seconds, why_not

TINY = {"tile": {"block": [32, 32, 16], "warp": [32, 16, 16], "group": 2}, "target": {"gpu": "a100"}, "fragment": {"policy": "mma"}}
SIZE = 150, 110, 40
"""Five by four tiles, ragged."""
KINDS = {
    "prepass": {"split": {"scheme": "half", "where": "prepass"}}, "scaled": {"split": {"scheme": "scaled"}},
    "shared": {"split": {"scheme": "ootomo", "where": "shared"}},
    "slices": {"split": {"scheme": "half", "where": "prepass"}, "tile": {**TINY["tile"], "split_k": 2}},
    "tt": {"split": {"scheme": "half"}, "problem": {"layout": "tt"}},
    "residues": {"split": {"scheme": "residues8"}, "tile": {"block": [32, 32, 32], "warp": [16, 16, 32], "group": 2}},
}


def kernel(name: str):
    built = road.build(TINY | KINDS[name])
    return built, EmulatorDevice(built.plan, built.source, built.binary)


@pytest.mark.parametrize("name", KINDS)
def test_the_blocks_of_a_sample_compute_its_tiles_and_nothing_else(name):
    """The same bits as in the whole product, with no block too many and none that reads what no block wrote."""
    built, device = kernel(name)
    assert why_not(built.plan) == ""
    problem = oracles.uniform(built.plan, -1, 1, SIZE, 3)
    whole = gemm(device, built.plan, built.source, problem.a, problem.b)
    some = drawn(built.plan, SIZE)
    assert {0, 4} <= set(some.rows) and {0, 3} <= set(some.columns) and (some.blocks, some.of) == (12, 20) and some.told == "sampled 12 of 20 blocks"
    result, part = Judge(built.plan, built.source, built.binary, device, some).sampled(problem)
    assert result.intact and result.c.tobytes() == some.part(whole.c).tobytes() and device.only == {}
    assert part.a.shape == (len(some.places(0)), 40) and part.b.shape == (40, len(some.places(1)))
    main = blocks(built.plan, some)[built.source.name]
    assert len(main) == 12 * built.plan.split_k == len(set(main))


def test_a_tile_that_is_written_to_anothers_place_shows():
    built, device = kernel("prepass")
    some, problem = drawn(built.plan, SIZE), oracles.uniform(built.plan, -1, 1, SIZE, 3)
    device.only = blocks(built.plan, replace(some, rows=(0, 1, 2, 3, 4)))
    result = gemm(device, built.plan, built.source, problem.a, problem.b)
    assert not some.untouched(result.c)
    judged = Judge(built.plan, built.source, built.binary, device, some)
    check = judged.accuracy("U", problem).check
    assert check.passed and "sampled 12 of 20 blocks" in check.detail and "150x110x40" in check.detail


def test_corners_and_edges_are_in_every_sample():
    some = Sample((150, 110, 40), (32, 32), (0, 2, 4), (0, 3))
    assert some.places(0).tolist() == [*range(32), *range(64, 96), *range(128, 150)] and some.places(1).tolist() == [*range(32), *range(96, 110)]
    plan = road.plan(TINY | KINDS["prepass"])
    for rows, columns in ((1, 1), (2, 5), (40, 60)):
        size = rows * 32 - 5, columns * 32 - 7, 16
        found = drawn(plan, size)
        assert {0, rows - 1} <= set(found.rows) and {0, columns - 1} <= set(found.columns) and len(found.rows) <= 4 and len(found.columns) <= 3


def test_what_cannot_be_run_block_by_block_is_told_and_made_smaller():
    stays = road.plan({"split": {"scheme": "ootomo"}, "fragment": {"policy": "wgmma"}, "target": {"gpu": "h100"}})
    usual = (269, 137, 645)
    some, size, why = affordable(stays, (4096, 4096, 4096), usual, most=1e-3)
    assert some is None and size == usual and why.startswith("269 x 137 x 645 in place of 4096 x 4096 x 4096: blocks stay") and "--whole" in why
    assert affordable(stays, usual, usual, most=1e-3) == (None, usual, ""), "the usual size is always computed"
    listed = road.plan({"problem": {"kind": "grouped"}, "split": {"scheme": "ootomo"}, "target": {"gpu": "h200"}})
    assert "list of all products" in why_not(listed)


def test_the_budget_decides_between_all_blocks_a_sample_and_less():
    plan = road.plan(TINY | KINDS["prepass"])
    usual = (45, 25, 1029)
    whole = seconds(plan, (4096, 4096, 4096), processes=1)
    some, size, why = affordable(plan, (4096, 4096, 4096), usual)
    assert whole > 60 and some.blocks == 12 and size == (4096, 4096, 4096) and not why and seconds(plan, size, some) < 60
    assert affordable(plan, (100, 100, 100), usual) == (None, (100, 100, 100), "")
    fewer, _, _ = affordable(plan, (4096, 4096, 4096), usual, most=0.99 * seconds(plan, size, some))
    assert fewer.blocks == 6
    assert affordable(plan, (4096, 4096, 1 << 30), usual)[2].startswith("45 x 25 x 1029 in place of")


def test_estimates_grow_with_the_work():
    plan = road.plan(TINY | KINDS["prepass"])
    one, deep = seconds(plan, (32, 32, 1024), processes=1), seconds(plan, (32, 32, 4096), processes=1)
    assert deep == pytest.approx(4 * one, rel=0.05)
    few, many = (seconds(plan, (32 * edge, 32 * edge, 4096), processes=1) for edge in (16, 32))
    assert 3.4 * few < many <= 4 * few, "each block of each run costs, beside what a strip does"
    assert seconds(plan, (32 * 64, 32 * 64, 512), processes=8) < seconds(plan, (32 * 64, 32 * 64, 512), processes=1) / 4


def test_an_estimate_has_the_split_pass_of_what_is_read(monkeypatch):
    """Of all rows of A and columns of B, or of those that a sample's blocks read; three times, as the product is run."""
    plans = [road.plan(TINY | KINDS[name]) for name in ("prepass", "shared")]
    some = SimpleNamespace(blocks=4, places=lambda which: range((20, 7)[which]))
    whole = [[seconds(plan, (50, 30, 64), one) for plan in plans] for one in (None, some)]
    monkeypatch.setattr(sample, "ELEMENT", 0.0)
    for lines, before, one in zip((80, 27), whole, (None, some)):
        passes = [was - seconds(plan, (50, 30, 64), one) for plan, was in zip(plans, before)]
        assert passes == [pytest.approx(3 * ELEMENT * lines * 64), 0.0]


def test_verify_says_what_it_sampled(monkeypatch, gemmgen, write_spec):
    monkeypatch.setattr(sample, "SECONDS", 0.0)
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # many processors have done with all blocks within the budget
    monkeypatch.setattr("gemmgen.verify.sample.affordable.__defaults__", (0.5,))
    spec = write_spec('[split]\nscheme = "half"\n[tile]\nblock = [32, 32, 16]\nwarp = [32, 16, 16]\n')
    ran = gemmgen("verify", spec, "--device", "emulator", "--m", "1000", "--n", "900", "--k", "48")
    assert ran.code == 0, ran.out
    assert "blocks     sampled 12 of 928 blocks of C" in ran.out and "1000x900x48, sampled 12 of 928 blocks: relative Frobenius" in ran.out
    report = road.verify(road.build(spec), device="emulator", size=(1000, 900, 48))
    assert report.as_dict()["sample"] == {"blocks": 12, "of": 928, "sentence": "sampled 12 of 928 blocks"} and report.passed
    assert np.isfinite(report.errors.relative_frobenius)


def test_a_pass_needs_all_that_its_blocks_read():
    """Whichever of a block's lines somebody needs: an earlier pass, whose blocks may have fewer lines, writes something for each."""
    plan = SimpleNamespace(launches=SimpleNamespace(split_before=(SimpleNamespace(name="a"), SimpleNamespace(name="b"))))
    launch, lines = SimpleNamespace(grid=((("m", 8), ("k", 32)), (("n", 4), ("k", 32)))), {"a": {11, 30}, "b": {1}}
    assert [*sample._of_pass(plan, launch, {"m": 20, "n": 5, "k": 40}, lines)] == [2, 3, 6, 7]  # of A's three times two blocks, then of B's
    assert lines == {"a": {*range(8, 16), 30}, "b": {0, 1, 2, 3}}
