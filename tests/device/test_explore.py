"""Studies on a GPU: what is timed, and kernels that take the context with them or never end."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gemmgen.workshop import explore
from gemmgen.workshop.explore.gpus import gpus_here
from gemmgen.workshop.explore.running import Running
from gemmgen.workshop.explore.trial_row import row_from
from gemmgen.workshop.explore.workers import Cluster, OneProcess

for package in ("distributed", "duckdb", "pyarrow"):
    pytest.importorskip(package, reason=f"NOT RUN: {package}, of gemmgen[explore], is not installed")

pytestmark = pytest.mark.device("nvidia")


def rows_of(store):
    import pyarrow.parquet

    return [row_from(one) for file in sorted(store.glob("*.parquet")) for one in pyarrow.parquet.read_table(file).to_pylist()]


def small(sizes, **more):
    here = gpus_here()
    if not here:
        pytest.skip("a GPU that the catalog does not know")
    return explore.study({
        "study": {"name": "planted", "gpus": [here[0].name], "sizes": sizes, "trials": len(sizes), "trial_seconds": 30, **more},
        "space": {"split": {"scheme": "ootomo"}, "fragment": {"policy": "mma"}},
    })


@pytest.mark.parametrize("pool", [OneProcess, lambda: Cluster(workers=2)], ids=["process", "cluster"])
def test_a_bad_kernel_costs_one_trial(tmp_path, monkeypatch, pool):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1] / "support"), str(Path(explore.__file__).parents[2]), *sys.path[1:]]))
    own = pool()
    try:
        progress = Running(small([256, 512, 1024, 768], trial_seconds=10).candidates(), tmp_path / "store", own, stages={"timed": "bad_trials:timed"}).run()
    finally:
        own.close()
    rows = {row.m: row for row in rows_of(tmp_path / "store") if row.kind == "kernel"}
    assert progress.done == 4
    assert {m: row.verdict for m, row in rows.items()} == {256: "died", 512: "hung", 1024: "timed", 768: "timed"}
    assert "context is lost" in rows[256].reason and rows[1024].seconds > 0 and rows[1024].uuid.startswith("GPU-")


def test_times_stand_beside_a_reference(tmp_path):
    study = small([1024], trials=3, rivals=["cublas-sgemm"])
    progress = study.run(tmp_path / "store")
    rows = rows_of(tmp_path / "store")
    assert progress.done == 3 and sum(row.kind == "kernel" for row in rows) == 3
    assert {row.kind for row in rows} - {"space"} == {"kernel", "reference", "rival"}
    for row in rows:
        assert row.kind == "space" or row.verdict in ("timed", "refused") and (row.verdict == "refused" or row.kind == "reference" or row.reference_seconds > 0)
