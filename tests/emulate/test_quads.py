"""Tiles of C that warpgroups store in fours: whole ones with and without C added, edges beside them, and products that are computed again.

Small integers, so that every bit is known; a column of `LARGE` has products that are not finite, and is computed again.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from test_small_products import LARGE, integers
from test_strided_batches import planned
from verifying import on_emulator
from ways import HOPPER, SMALL_GROUPS, plan_of

from gemmgen.library.ends import FUSED
from gemmgen.run import Placement, gemm, strided

WIDE = dict(HOPPER, tile={"block": [64, 48, 32], "warp": [64, 48, 32], "cluster": 1}, stages=2)
WAYS = {
    "six in runs of four": WIDE,
    "twelve in runs of two": dict(HOPPER, tile={"block": [128, 48, 32], "warp": [128, 48, 32], "cluster": 1}, stages=2),
    "slices": dict(SMALL_GROUPS, split_k=2),
    "compensated": dict(WIDE, promote=32, sums="compensated"),
    "pairs": dict(HOPPER, tile={"block": [64, 24, 32], "warp": [64, 24, 32], "cluster": 1}, stages=2),
}


@cache
def made(name: str, special: str = "exact"):
    return on_emulator(plan_of(**WAYS[name], special=special))


@pytest.mark.parametrize("name", WAYS)
def test_one_of_four_that_is_computed_again_leaves_the_rest_of_its_tile_as_it_is(name):
    """In four of five tiles another of a lane's four sums, in other lanes: C is added once to what is computed again and to what is not."""
    device, plan, source = made(name)
    m, width = plan.block[:2]
    a, b, c = integers(m, 5 * width, 37)
    again = [2, width + 5, 2 * width + 12, 3 * width + 15]  # even and odd columns, of the first and of the second eight of sixteen
    b[5, again] = LARGE
    for beta in (0.5, 0.0):
        result = gemm(device, plan, source, a, b, c, alpha=-2.0, beta=beta, placement=Placement((0, 0, 4)))
        assert np.array_equal(result.c, -2 * (a @ b) + beta * c) and result.intact and result.status["repaired"] == 4 * m


@pytest.mark.parametrize(("down", "right", "placement"), [
    (-1, 0, ()), (1, 4, ()), (0, -4, ()), (0, -1, ((0, 0, 1),)), (0, 1, ((0, 0, 3),)), (0, 0, ((0, 0, 2),)), (0, 0, ((0, 0, 0), (0, 0, 8))), (-63, -12, ()),
])
def test_an_edge_of_c_beside_whole_tiles(down, right, placement):
    """Rows that begin on 16 bytes or not; the emulator knows where C ends, and what lies between its rows stays."""
    device, plan, source = made("six in runs of four")
    a, b, c = integers(plan.block[0] + down, 2 * plan.block[1] + right, 37)
    for beta in (0.5, 0.0):
        result = gemm(device, plan, source, a, b, c, alpha=-2.0, beta=beta, placement=Placement(*placement))
        assert np.array_equal(result.c, -2 * (a @ b) + beta * c) and result.intact


@pytest.mark.parametrize(("down", "right"), [(-1, 0), (0, -2)])
def test_an_edge_of_c_beside_whole_tiles_in_pairs(down, right):
    device, plan, source = made("pairs")
    a, b, _ = integers(plan.block[0] + down, 2 * plan.block[1] + right, 37)
    result = gemm(device, plan, source, a, b, alpha=-2.0)
    assert np.array_equal(result.c, -2 * (a @ b)) and result.intact


def test_nothing_is_looked_at_where_nothing_is_computed_again():
    device, plan, source = made("six in runs of four", "fast")
    a, b, c = integers(*plan.block[:2], 37)
    b[5, 9] = np.inf
    for beta in (0.5, 0.0):
        result = gemm(device, plan, source, a, b, c, alpha=-2.0, beta=beta)
        finite = np.arange(plan.block[1]) != 9
        assert np.array_equal(result.c[:, finite], -2 * (a @ b[:, finite]) + beta * c[:, finite]) and not np.isfinite(result.c[:, 9]).any()


def test_each_product_of_a_batch_has_its_own_c_added():
    device, plan, source = on_emulator(planned("packed words"))
    a, b, c = map(np.stack, zip(*(integers(64, 32, k) for k in (40, 40, 40))))
    a *= np.array([1, 2, 4], np.float32)[:, None, None]
    c += np.array([0, 9, 18], np.float32)[:, None, None]
    b[1, 5, 20] = LARGE
    result = strided(device, plan, source, a, b, c, alpha=-2.0, beta=0.5, placement=Placement((0, 0, 4), (0, 0, 0), (0, 0, 8)))
    assert np.array_equal(result.c, -2 * (a @ b) + 0.5 * c) and result.intact and result.status["repaired"] == 64


@pytest.mark.parametrize("down", [0, -3])
def test_a_call_ends_whole_tiles_and_edges_as_it_asks(down):
    """With a bias, ReLU, both or nothing, which a call says when it runs."""
    device, plan, source = fused()
    m, n = plan.block[0] + down, 2 * plan.block[1]
    a, b, c = integers(m, n, 37)
    b[5, 9] = LARGE
    bias = (np.arange(n) % 23 - 11).astype(np.float32)
    for given, activation, beta in itertools.product((None, bias), (0, 1), (0.0, 0.5)):
        result = gemm(device, plan, source, a, b, c, alpha=-2.0, beta=beta, ends={"bias": given, "activation": activation})
        wanted = -2 * (a @ b) + beta * c + (0 if given is None else bias)
        assert np.array_equal(result.c, np.maximum(wanted, 0) if activation else wanted) and result.intact, (activation, beta)


@cache
def fused():
    return on_emulator(replace(plan_of(**WIDE), epilogue=FUSED))
