"""Kernels for batches, run from what the compiler made of them: every kind, walk, vendor and arithmetic, and what a fault of each would show."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from assembled import assembled

from gemmgen import spec
from gemmgen.emulate import EAGER_LOWEST, LAZY_HIGHEST, TOGETHER
from gemmgen.errors import EmulationError, SpecError
from gemmgen.render import render
from gemmgen.run.batch import Product, batch
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.solve import solve
from gemmgen.split import split
from gemmgen.verify.batch import QUESTIONS, ragged

MATRIX = [[32, 32, 32, 128], [64, 64, 32, 128]]
LANES = [[16, 16, 16, 128], [32, 32, 16, 128]]
CASES = {
    "listed": ("a100", "ootomo", "grouped", "workgroups", "nn", MATRIX), "every tile": ("a100", "ootomo", "grouped", "workgroups", "nn", None), "stays": ("h200", "ootomo", "grouped", "persistent", "nt", MATRIX),
    "held": ("t4", "ootomo", "grouped", "persistent", "tn", MATRIX), "table 3": ("a100", "fp32", "grouped", "workgroups", "nn", None),
    "lanes stay": ("t4", "fp32", "grouped", "persistent", "tt", LANES), "strided": ("a100", "ootomo", "strided", "persistent", "nn", MATRIX),
    "pointers": ("rtx4090", "bf16x3", "pointers", "workgroups", "nn", MATRIX), "tf32": ("a100", "tf32x3", "grouped", "persistent", "tn", MATRIX),
    "mfma": ("mi210", "ootomo", "grouped", "workgroups", "nn", MATRIX), "wmma": ("rx7900xtx", "ootomo", "pointers", "persistent", "nt", MATRIX),
    "valu": ("mi300x", "fp32", "grouped", "persistent", "nn", LANES),
    "unlike tiles": ("a100", "ootomo", "grouped", "workgroups", "nn", [[16, 32, 32, 128], [32, 32, 64, 128]]),
}
MORE = {"unlike tiles": {"promote": 64}}
"""Of a split: these tiles have more threads than chunks, one column of fragments in a warp and two, and one or two stages between promotions."""


def planned(name):
    gpu, scheme, kind, walk, layout, tiles = CASES[name]
    data = {"problem": {"kind": kind, "layout": layout, "m": 64, "n": 64, "k": 64}, "split": {"scheme": scheme} | MORE.get(name, {}), "target": {"gpu": gpu},
            "batch": {"walk": walk}}
    if tiles:
        data["batch"]["tiles"] = tiles
    plan = solve(spec.loads(data))
    source = render(plan)
    return plan, source, assembled(source)


def opened(plan, source, binary, schedule=TOGETHER):
    return EmulatorDevice(plan, source, binary, schedule=schedule, processes=1)


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_kernel_for_batches_is_right_under_both_schedules(name):
    plan, source, binary = planned(name)
    for question in QUESTIONS.values():
        passed, told = question(opened(plan, source, binary), plan, source)
        assert passed, told
    products = ragged(plan)
    first, second = (batch(opened(plan, source, binary, schedule), plan, source, products) for schedule in (LAZY_HIGHEST, EAGER_LOWEST))
    assert [c.tobytes() for c in first.products] == [c.tobytes() for c in second.products] and first.status == second.status


def few(plan):
    """Products on the smallest and the largest tile, ragged, and one without elements."""
    rng = np.random.default_rng(2)
    tile = plan.batch.tiles[-1]
    sizes = [(5, 7, 9), (tile.m + 1, tile.n, 5), (0, 3, 2)] if not plan.kind.uniform else [(21, 19, 9)] * 3
    return [Product(*(rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((m, k), (k, n)))) for m, n, k in sizes]


@pytest.mark.parametrize("name", ["listed", "stays", "lanes stay", "strided", "mfma"])
def test_few_products_are_right_under_both_schedules(name):
    plan, source, binary = planned(name)
    products = few(plan)
    found = [batch(opened(plan, source, binary, schedule), plan, source, products, threshold=0) for schedule in (LAZY_HIGHEST, EAGER_LOWEST)]
    for one, *c in zip(products, *(each.products for each in found)):
        assert np.allclose(c[0], one.a @ one.b, atol=1e-5) and c[0].tobytes() == c[1].tobytes()
    assert all(each.intact for each in found)


@pytest.mark.parametrize("name", ["listed", "mfma"])
def test_elements_whose_words_overflow_are_computed_again(name):
    """Inf and what FP16 does not hold, in the first and the last row of a tile."""
    plan, source, binary = planned(name)
    products = few(plan)
    products[1].a[[0, -1], 2] = np.inf, 1e30
    found = batch(opened(plan, source, binary), plan, source, products, threshold=0)
    for one, c in zip(products, found.products):
        a, b = np.float64(one.a), np.float64(one.b)
        wanted, terms = a @ b, abs(a) @ abs(b)
        finite = np.isfinite(wanted)  # an element is off by an ulp of its largest term, of which a sum may leave little
        assert np.array_equal(c[~finite], wanted[~finite]) and (abs(c[finite] - wanted[finite]) <= 1e-5 * terms[finite]).all()
    assert found.status["repaired"] == 2 * products[1].sizes[1]


def test_a_list_of_more_products_than_shared_memory_holds_goes_on():
    plan, source, binary = planned("stays")
    rng = np.random.default_rng(1)
    products = [Product(*(rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((m, 3), (3, 2)))) for m in np.where(np.arange(plan.own.listed + 9) % 24, 0, 3)]
    found = batch(opened(plan, source, binary), plan, source, products)
    assert all(np.allclose(c, one.a @ one.b, atol=1e-5) for one, c in zip(products, found.products))


def test_the_queue_is_left_as_the_next_launch_wants_it():
    plan, source, binary = planned("stays")
    device = opened(plan, source, binary)
    from gemmgen.run import allocated

    kept = {}
    original = allocated

    def once(device, interface, extents):
        kept.update(original(device, interface, extents) if not kept else {})
        return dict(kept)

    import gemmgen.run.batch as module

    module.allocated, device.release = once, lambda: None
    try:
        first, second = (batch(device, plan, source, few(plan)) for _ in range(2))
        queue = device.download(kept["queue", 0], np.uint32, 2)
    finally:
        module.allocated = original
    assert [c.tobytes() for c in first.products] == [c.tobytes() for c in second.products] and not queue.any()


def test_a_k_that_keys_of_a_list_do_not_hold():
    """2^20 and more, of a product that sums nothing: it is still worked off behind those with larger tiles, by one block."""
    plan, source, binary = planned("stays")
    device = opened(plan, source, binary)
    device.clusters_at_once = 1
    tile, long, c = plan.batch.tiles[1], 2 << 20, np.ones((1, 1), np.float32)
    products = [Product(np.ones((tile.m, 5), np.float32), np.ones((5, tile.n), np.float32)),
                Product(np.zeros((1, long), np.float32), np.zeros((long, 1), np.float32), c, 0.0, 2.0)]
    found = batch(device, plan, source, products, threshold=0)
    assert (found.products[0] == 5).all() and found.products[1] == 2


@pytest.mark.parametrize("name", ["stays", "held"])
def test_a_block_that_works_off_all_tiles_counts_each_element_once(name):
    """Tiles that count what words lose of one operand, of both and of none follow one another, in the same stages of shared memory."""
    plan, source, binary = planned(name)
    device = opened(plan, source, binary)
    device.clusters_at_once = 1
    tile, rng = plan.batch.tiles[0], np.random.default_rng(3)
    products = []
    for m, n, k in [(4 * tile.m, 9, tile.k + 3), (7, 4 * tile.n, tile.k + 3)][: 2 if not plan.kind.uniform else 1]:
        a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((m, k), (k, n)))
        for x in (a, b):
            x[rng.random(x.shape) < 0.5] = 1e-9
        products.append(Product(a, b))
    found = batch(device, plan, source, products, threshold=1 << 30)
    for x, operand in (("a", [one.a for one in products]), ("b", [one.b.T for one in products])):
        assert found.status[f"{x}_lossy"] == sum(split(np.ascontiguousarray(one), plan.scheme).lossy for one in operand) > 0, x


@pytest.mark.parametrize("name", ["stays", "strided"])
def test_blocks_choose_the_tiling_that_the_model_does(name):
    """At thresholds that a level just meets and just misses; an edit of the text has the kernel count its turns."""
    plan, source, _ = planned(name)
    end = "    end_queue(works);\n"
    text = source.text.replace(end, "    if (threadIdx.x == 0 && blockIdx.x == 0) atomicAdd(repaired, (u64)works.base);\n" + end)
    assert text != source.text
    source = replace(source, text=text)
    device = opened(plan, source, assembled(source))
    sizes = [(64, 70, 3)] * 3 if plan.kind.strides else [(64, 64, 3), (0, 64, 3), (70, 33, 1), (64, 65, 2)]
    products = [Product(np.ones((m, k), np.float32), np.ones((k, n), np.float32)) for m, n, k in sizes]
    parallel = plan.design.tiling(plan, np.array(sizes), 0).tlp_of
    turns = []
    for threshold in (parallel[0], parallel[0] + 1, parallel[-1] + 1):
        found = batch(device, plan, source, products, threshold=threshold)
        turns.append(len(plan.design.listed(plan, np.array(sizes), threshold).rows))
        assert found.status["repaired"] == turns[-1]
    assert turns[0] < turns[1] == turns[2]


def test_products_of_several_sizes_are_refused_by_a_kernel_of_one():
    plan, source, binary = planned("pointers")
    one, other = (Product(np.ones((m, 2), np.float32), np.ones((2, 2), np.float32)) for m in (2, 3))
    with pytest.raises(SpecError, match="one size"):
        batch(opened(plan, source, binary), plan, source, [one, other])


FAULTS = {
    "a tile's rows are another's": ("listed", "{product_at(works.from, one.entry), one.m0, one.n0, one.tile}", "{product_at(works.from, one.entry), one.m0, 0, one.tile}"),
    "a turn is left out": ("stays", "works.turn = (int)atomicAdd(works.queue, 1u) + works.blocks;", "works.turn = (int)atomicAdd(works.queue, 1u) + works.blocks + 1;"),
    "no wait for the words": ("listed", "            __syncthreads();  // everyone's is, and so are the words", "            // everyone's is, and so are the words"),
    "no wait for the copies": ("listed", "cp_async_wait<STAGES - 2>();  // this thread's part of the next stage", "// this thread's part of the next stage"),
    "the other warps stay": ("table 3", "if ((int)threadIdx.x >= 128) return;", ""),
    "the last columns are another's": ("listed", "&& columns > beside(x)) *element = alpha", ") *element = alpha"),
    "the sort is none": ("stays", "if ((first < second) == ((low & size) == 0))", "if (false)"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_noticed(name):
    case, text, wrong = FAULTS[name]
    plan, source, _ = planned(case)
    assert text in source.text
    source = replace(source, text=source.text.replace(text, wrong), allow_spills=True)
    binary = assembled(source)
    if name == "the sort is none":  # the order of the batch decides nothing but when tiles are worked off, unless sizes of tiles are mixed
        products = ragged(plan)
        products = [products[2], products[0], products[3], products[1]]
    else:
        products = ragged(plan)
    noticed = False
    for schedule in (LAZY_HIGHEST, EAGER_LOWEST):
        try:
            found = batch(opened(plan, source, binary, schedule), plan, source, products, threshold=0)
        except EmulationError:
            noticed = True
            break
        right = all(np.allclose(c, one.alpha * (one.a @ one.b) + (one.beta * one.c if one.beta else 0), atol=1e-4, equal_nan=False)
                    for one, c in zip(products, found.products))
        noticed = noticed or not right or not found.intact
        if noticed:
            break
    assert noticed
