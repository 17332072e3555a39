"""On a real GPU: every rival multiplies batches of many sizes, as it is and captured, and a whole bench holds together."""

from __future__ import annotations

import numpy as np
import pytest
from one_by_one import OneByOne

from gemmgen import timing
from gemmgen.timing.batches import NAMES, BatchReference, Cell, DeviceBatch, Product, cells, prepared, rivals, suited
from gemmgen.timing.batches.cells import routed
from gemmgen.timing.racing import Stopwatch
from gemmgen.workshop import bench as benching

pytestmark = pytest.mark.device

MANY = (Product(1, 1, 1), Product(0, 64, 32), Product(37, 501, 130), Product(128, 16, 1024), Product(500, 33, 17), Product(64, 0, 8), Product(49, 192, 192))
ONE = (Product(96, 64, 40),) * 20
BATCHES = {"many": MANY, "one": ONE, "experts": tuple(Product(m, 96, 64) for m in routed((1,), 300, "zipf"))}


def entries(products, names=NAMES):
    """(the stopwatch, the batch, what is ready and right, what was told of the others, where each has C of its own)."""
    watch, told, field = Stopwatch(), [], rivals()
    with watch.stream:
        batch = DeviceBatch(products, sets=3)
        found = prepared({name: field[name] for name in suited(names, products)}, batch, told.append)
    return watch, batch, found, told, {name: getattr(one, "result", None) for name, one in field.items()}


@pytest.mark.parametrize("which", BATCHES)
@pytest.mark.parametrize("name", NAMES)
def test_a_rival_is_right_wherever_it_runs(name, which):
    """Whatever the sizes, empty products among them; each set is multiplied, nothing beside the matrices is touched."""
    if not suited([name], BATCHES[which]):
        pytest.skip("is for batches of other sizes")
    _, _, found, told, _ = entries(BATCHES[which], [name])
    if told and "is wrong" not in told[0]:
        pytest.skip(told[0])
    assert not told and [entry.name for entry in found] == [name] and found[0].scaled < 6e-7


def test_rivals_are_timed_and_the_one_enqueued_product_by_product_is_bound_by_its_host():
    watch, _, found, *_ = entries((Product(16, 16, 16),) * 100, ["cublas-loop", "cublas-graph", "cublas-strided"])
    timing.race(found, rounds=3, slice_ms=1.0, watch=watch, captured=False)
    at = {entry.name: entry for entry in found}
    assert set(at) == {"cublas-loop", "cublas-graph", "cublas-strided"}
    assert all(len(entry.seconds) == 3 and 1e-6 < min(entry.seconds) and max(entry.seconds) < 0.1 for entry in found)
    assert all(0 < host <= 1.5 * taken for entry in found for host, taken in zip(entry.host_seconds, entry.seconds))


@pytest.mark.parametrize("which", ["many", "one"])
def test_captured_rivals_multiply(which):
    """What a graph replays is what was asked for, in each set."""
    watch, batch, found, told, owned = entries(BATCHES[which], suited(NAMES, BATCHES[which], captured=True))
    assert "cublas-loop" in {entry.name for entry in found} and not any("wrong" in one for one in told)
    with watch.stream:
        for entry in found:
            graph = watch.graph(entry.enqueue, entry.sets)
            assert BatchReference(batch).scaled_error(lambda at, graph=graph: graph.launch(watch.stream), owned[entry.name]) < 6e-7, entry.name
    timing.race(found, rounds=2, slice_ms=0.5, watch=watch, captured=True)
    assert all(1e-7 < taken < 0.1 for entry in found for taken in entry.seconds)


def test_a_whole_bench():
    wanted = [*cells(["inception"])[:1], Cell("uniform", "64x48x32", (Product(64, 48, 32),) * 12)]
    table = benching.bench_batches({"ours": OneByOne()}, wanted, rounds=3, slice_ms=0.5)
    names = [[row.name for row in table.rows if row.suite == suite] for suite in ("inception", "uniform")]
    assert names[0][-1] == names[1][-1] == "ours" and "cublas-loop" in names[0] and "cublas-strided" in names[1]
    assert all(np.isfinite(row.gflops) and row.scaled < 1e-6 for row in table.rows)
    assert benching.from_csv(benching.as_csv(table))[1] == table.rows and "geometric means" in benching.as_text(table)
    assert {worst.kernel for worst in benching.worst_cells(table.rows)} == {"ours"}
