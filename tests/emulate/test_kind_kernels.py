"""Kernels of kinds of products that leave tiles, k or elements out: what is computed, what is not, and what is counted."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from types import ModuleType

import numpy as np
import pytest
from assembled import assembled
from ways import AMD_WAYS, plan_of

from gemmgen.emulate import TOGETHER
from gemmgen.kinds import GEMM, Kind
from gemmgen.paths import SPECS
from gemmgen.render import render
from gemmgen.run import gemm
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.verify import kinds

WAYS = {
    "mma": dict(stages=3), "mma, slices": dict(split_k=2), "mma, split before shared memory": dict(where="shared"),
    "mma, split behind shared memory": dict(where="register", stages=2), "mma, row scales": dict(scheme="scaled"), "fma": dict(scheme="fp32", promote=0),
    "mfma": AMD_WAYS["mfma"],
}


class Lower(Kind):
    """C = A B of an A that is a lower triangle: a tile's sum ends with its last row."""

    name = "lower"
    k_range = "", "m0 + BLOCK_M"
    counts = "n0 == 0", "m0 + BLOCK_M >= m"


class Upper(Kind):
    name = "upper"
    k_range = "m0", ""
    counts = "n0 == 0", "m0 == 0"


class Band(Kind):
    """A tile's sum has the k of its own rows alone."""

    name = "band"
    k_range = "m0", "m0 + BLOCK_M"
    counts = "n0 == 0", "m0 + BLOCK_M >= m"


def syrk() -> Kind:
    """The kind of docs/add-a-kind.md."""
    [text, *_] = re.findall(r"^```python\n(.*?)^```$", (SPECS.parent / "docs" / "add-a-kind.md").read_text(), re.S | re.M)
    module = ModuleType("gemmgen_syrk")
    exec(text, module.__dict__)
    return module.KIND


SYRK = syrk()


@cache
def made(way: str, kind: Kind, **more):
    plan = replace(plan_of(**WAYS[way], **({} if kind.plain or not kind.aliases else {"layout": "nt"})), kind=kind)
    source = render(plan)
    return EmulatorDevice(plan, source, assembled(source), schedule=TOGETHER), plan, source


@pytest.mark.parametrize("way", ["mma", "mma, slices", "mma, split behind shared memory"])
@pytest.mark.parametrize("kind", [Lower(), Upper(), Band()], ids=str)
def test_a_tile_sums_the_k_that_its_kind_gives_it(kind, way):
    """Small integers, so that every bit is known: of A, which has no zeros, only whole stages of the tile's own k are in its sums."""
    device, plan, source = made(way, kind)
    bm, bn, bk = plan.block
    m, n, k = 2 * bm + 5, bn + 3, 2 * bm + 5
    rng = np.random.default_rng(1)
    a, b = (rng.integers(1, 9, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    first = np.arange(m)[:, None] // bm * bm if kind.k_range[0] else np.zeros((m, 1), int)
    last = (np.arange(m)[:, None] // bm + 1) * bm if kind.k_range[1] else np.full((m, 1), k)
    at = np.arange(k)[None, :]
    want = np.where((at >= first // bk * bk) & (at < -(-last // bk) * bk), a, 0) @ b
    assert (gemm(device, plan, source, a, b).c == want).all()


@pytest.mark.parametrize("kind", [Lower(), Upper()], ids=str)
def test_what_words_cannot_hold_is_counted_once(kind):
    """By the tile of B's columns that has every k, where other tiles have that k, too, and where they leave it out; of A by one of its row's tiles."""
    device, plan, source = made("mma, split before shared memory", kind)
    bm, bn, _ = plan.block
    a, b = np.ones((2 * bm, 2 * bm), np.float32), np.ones((2 * bm, 2 * bn), np.float32)
    b[0, bn + 1] = b[-1, bn + 1] = a[-1, bm] = 1e-12
    status = gemm(device, plan, source, a, b).status
    assert (status["b_lossy"], status["a_lossy"]) == (2, 1)


@pytest.mark.parametrize("way", WAYS)
def test_a_kind_of_another_package_is_right_on_every_way(way):
    device, plan, source = made(way, SYRK)
    assert device.name and plan.kind is SYRK and "tiles_above" in source.text and not source.interface.asks("b") and not source.interface.asks("n")
    right, told = kinds.question(plan, source, device)
    assert right, told


def test_fewer_blocks_are_launched():
    _, plan, source = made("mma", SYRK)
    bm, bn, _ = plan.block
    rows, columns = 8 * bm, 8 * bn
    size = max(rows, columns)
    main = source.launches[-1]
    whole = -(-size // bm) * -(-size // bn)
    blocks = main.blocks(source.interface.extents(size, size, 64))
    assert blocks == SYRK.tiles.number(size, size, plan.block) < whole and main.blocks(source.interface.extents(0, 0, 64)) == 0
    assert replace(plan, kind=GEMM).model["tiles"] == whole or plan.hints.m != size
    assert plan.hash != replace(plan, kind=GEMM).hash
