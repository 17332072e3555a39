"""Matrices whose rows lie so far apart that no 32 bits hold an element's place, in memory that has nothing between them.

One small kernel of each design, and several questions to it at once: an access beside a row is a fault, so that what is read or written
of a last partial vector shows; sizes are ragged in every direction and of two tiles along m and n; elements are small integers, so
that what comes out is C or it is wrong; some elements are computed again; the second product finds the workspace of the first.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from assembled import assembled
from test_grouped_kernels import planned as grouped
from test_packed_batches import planned as packed
from test_small_products import LARGE
from test_strided_batches import portable, prepared
from ways import AMD_WAYS, HOPPER, SMALL_GROUPS, STRAIGHT, THIN, TINY, WAYS, plan_of, tailed

from gemmgen.emulate import EAGER_LOWEST, LAZY_HIGHEST, TOGETHER
from gemmgen.render import render
from gemmgen.run import allocated, counted, launch_all
from gemmgen.run.batch import Product, _given, sizes_of
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.split import joined, split

FAR = 1 << 32
"""Elements: the last row of each matrix begins behind as many."""

KERNELS = {
    "row scales": dict(scheme="scaled", tile=TINY),
    "row scales, transposed": dict(scheme="scaled", tile=TINY, layout="tt", loads="spread"),
    "shared, slices": WAYS["shared, grouped, slices"],
    "shared": dict(where="shared", tile=TINY, layout="nn"),
    "register, slices": WAYS["register, slices"],
    "register": dict(where="register", stages=2, tile=TINY, layout="tn"),
    "register, held": dict(gpu="rx9070xt", where="register", tile=TINY, layout="tn"),
    "register, held, straight": dict(gpu="mi300x", fragment={"shape": "m16n16k32"}, where="register", tile=TINY, layout="nt"),
    "straight": dict(STRAIGHT, tile={"block": [32, 32, 64], "warp": [32, 16, 16]}, stages=2),
    "straight, transposed, slices": WAYS["straight, transposed, slices"],
    "thin rows": dict(THIN, tile={"block": [4, 64, 128], "warp": [4, 32, 32]}, stages=3),
    "thin columns, slices": dict(THIN, tile={"block": [32, 16, 128], "warp": [16, 16, 64]}, stages=2, split_k=2),
    "thin rows, transposed": WAYS["thin rows, k together"],
    "FP32": WAYS["fp32, on Blackwell"],
    "warpgroups": SMALL_GROUPS,
    "warpgroups, slices, clusters": dict(HOPPER, tile={"block": [64, 32, 64], "warp": [64, 32, 64], "cluster": 2}, split_k=2, stages=3, layout="tt"),
    "warpgroups, row scales of whole rows": WAYS["warpgroups, row scales of whole rows"],
    "warpgroups, row scales of whole columns": dict(SMALL_GROUPS, scheme="scaled", layout="tn"),
    "warpgroups that split A": dict(SMALL_GROUPS, where="mixed"),
    "warpgroups that split A transposed": dict(SMALL_GROUPS, where="mixed", layout="tt"),
    "residues": WAYS["residues"],
    "residues by lanes": WAYS["residues by lanes, through registers"],
    "B as stored": dict(scheme="bf16x2_bb16", promote=32, tile=TINY),
    "tiles of k": dict(scheme="mixpert2_tile", promote=0, tile=TINY),
    "outliers fall back": WAYS["outliers fall back"],
    "mfma": dict(gpu="mi300x", fragment={"shape": "m16n16k32"}, tile=TINY, promote=64, layout="tt"),
    "wmma of RDNA3, row scales, slices": AMD_WAYS["wmma of RDNA3, row scales, slices"],
}


@cache
def made(name: str):
    plan = plan_of(**KERNELS[name])
    source = render(plan)
    return plan, source, EmulatorDevice(plan, source, assembled(source), schedule=TOGETHER)


def apart(rows: int, more: int) -> int:
    """A leading dimension, so many past a multiple of 4, at which the last of so many rows lies far away."""
    return -(-FAR // max(1, rows - 1) // 4) * 4 + 4 + more


def integers(plan, m: int, n: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A [M, K], B [K, N] and C [M, N], with an Inf in the last row, and in the last column what FP16 cannot hold, or an Inf, too."""
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    a *= np.exp2(rng.integers(0, 3, (m, 1)))
    b *= np.exp2(rng.integers(0, 3, n))
    a[-1, 2], b[k - 1, -1] = np.inf, LARGE if plan.scheme.word == "f16" and plan.scheme.normalize == "none" else -np.inf
    return a, b, rng.integers(1, 9, (m, n)).astype(np.float32)


class Placed:
    """Operands of one launch, far apart.

    Args:
        a, b, c: [batch, M, K], [batch, K, N], [batch, M, N]
        more: by how much each leading dimension is more than a multiple of 4; misalign: bytes, of each base.
    """

    def __init__(self, plan, device, a, b, c, more=(0, 0, 0), misalign=(0, 0, 0)):
        self.plan, self.device = plan, device
        stored = a if plan.layout[0] == "n" else a.transpose(0, 2, 1), b if plan.layout[1] == "n" else b.transpose(0, 2, 1), c
        kinds = None, plan.stored_b, plan.output
        self.given = {"batch": len(a), "m": a.shape[1], "n": b.shape[2], "k": a.shape[2]}
        for name, x, kind, extra, off in zip("abc", stored, kinds, more, misalign):
            ld = apart(x.shape[1], extra)
            stride = x.shape[1] * ld + 4 if len(x) > 1 else 0
            x = np.ascontiguousarray(x if kind is None else kind.stored(x))
            self.given |= {name: device.emulator.upload_rows(x, name=name, ld=ld, stride=stride, offset=off), f"ld{name}": ld, f"stride_{name}": stride}
        self.shape = c.shape

    def c(self) -> np.ndarray:
        raw = self.device.emulator.read_rows(self.given["c"], self.plan.output.dtype, self.shape, ld=self.given["ldc"], stride=self.given["stride_c"])
        return self.plan.output.values(raw)


PLACES = [((0, 0, 0), (0, 0, 0)), ((1, 2, 3), (0, 8, 4)), ((0, 0, 0), (4, 12, 8))]
"""Leading dimensions past a multiple of 4 and bases past 256 bytes: vectors, rows at odd places, odd bases."""


def wanted(plan, a, b, c, alpha, beta) -> np.ndarray:
    """C [M, N]: a sum of residues errs as the scheme does, all others are exact."""
    with np.errstate(invalid="ignore"):
        product = a @ b
        if plan.scheme.residues:
            sums = joined(split(a, plan.scheme), split(np.ascontiguousarray(b.T), plan.scheme), plan.scheme)
            product = np.where(np.isfinite(product), sums, product)
        return alpha * product + (beta * c if beta else 0)


def told(plan, operands) -> dict[str, int]:
    """What kernels count of several products' (A, B)."""
    found: dict[str, int] = {}
    for a, b in operands:
        for x, operand in (("a", a), ("b", np.ascontiguousarray(b.T))):
            words = split(operand, plan.scheme, plan.flushes_words, x if plan.design.packs_apart or not plan.scheme.alike else None)
            for kind in ("lossy", "overflow", "nonfinite"):
                found[f"{x}_{kind}"] = found.get(f"{x}_{kind}", 0) + getattr(words, kind)
        if plan.loads != "streamed":
            found["repaired"] = found.get("repaired", 0) + a.shape[0] + b.shape[1] - 1
    return found


def kept_right(plan, source, device, batch: int = 1, k: int | None = None) -> None:
    """Three products in one workspace, in every order of warps and copies, at places of every kind."""
    m, n, k = plan.block[0] + 3, plan.block[1] + 6, k or plan.block[2] * max(2, plan.split_k) + 13
    extents = source.interface.extents(m, n, k, batch)
    operands = []
    try:
        memory = allocated(device, source.interface, extents)
        for turn, (more, misalign) in enumerate(PLACES):
            alpha, beta = -0.5, (2.0, 0.0, -1.0)[turn]
            a, b, c = (np.stack(each) for each in zip(*(integers(plan, m, n, k, turn + 3 * entry) for entry in range(batch))))
            placed = Placed(plan, device, a, b, c if beta else np.full_like(c, np.nan), more, misalign)
            for buffer in source.interface.buffers:
                if buffer.zeroed_again and turn:
                    memory[buffer.name, 0] = device.zeros(buffer.bytes(extents), buffer.name)
            device.set_schedule((TOGETHER, LAZY_HIGHEST, EAGER_LOWEST)[turn])
            launch_all(device, source.interface, extents, placed.given | {"alpha": alpha, "beta": beta}, memory)
            found = placed.c()
            for entry in range(batch):
                assert np.array_equal(found[entry], wanted(plan, a[entry], b[entry], c[entry], alpha, beta), equal_nan=True), (turn, entry)
                operands.append((a[entry], b[entry]))
        status, want = counted(device, source.interface, memory), told(plan, operands)
        assert {name: status[name] for name in want} == want or plan.fallback
    finally:
        device.release()


@pytest.mark.parametrize("name", KERNELS)
def test_a_product_of_rows_that_are_far_apart(name):
    kept_right(*made(name))


BATCHES = {
    "warpgroups": lambda: warpgroups("slices of k in clusters"),
    "warpgroups that split A": lambda: warpgroups("A in registers, transposed"),
    "warpgroups, row scales": lambda: warpgroups("row scales"),
    "row scales, slices": lambda: portable("slices with row scales"),
    "slices": lambda: portable("shared, grouped, slices"),
    "tiles of k, mfma": lambda: portable("mfma, tiles of k"),
}


def warpgroups(way: str):
    return prepared(way)[0]


@pytest.mark.parametrize("name", BATCHES)
def test_matrices_of_a_batch_that_are_far_apart(name):
    plan = BATCHES[name]()
    source = render(plan)
    kept_right(plan, source, EmulatorDevice(plan, source, assembled(source)), batch=2)


OF_PRODUCTS = {
    "listed": lambda: grouped("listed"), "held": lambda: grouped("held"), "lanes": lambda: grouped("lanes stay"), "pointers": lambda: grouped("pointers"),
    "strided": lambda: grouped("strided"), "mfma": lambda: grouped("mfma"), "packed": lambda: whole(packed(tile={"cluster": 2})),
    "packed, transposed": lambda: whole(packed(problem={"kind": "pointers", "layout": "tt"})),
}


def whole(plan):
    source = render(plan)
    return plan, source, assembled(source)


@pytest.mark.parametrize("name", OF_PRODUCTS)
def test_products_of_a_batch_whose_rows_are_far_apart(name):
    plan, source, binary = OF_PRODUCTS[name]()
    device = EmulatorDevice(plan, source, binary, schedule=TOGETHER, processes=1)
    tile = plan.batch_tiles[-1]
    like = (tile.m + 3, tile.n + 6, tile.k + 13)
    sizes = [like, (tile.m + 1, 5, 2 * tile.k + 9), (7, tile.n + 2, 9)] if plan.kind == "grouped" else [like] * 3
    try:
        data = [integers(plan, *size, seed) for seed, size in enumerate(sizes)]
        products = [Product(*one, -0.5, 2.0) for one in data]
        if plan.kind == "strided":
            one = Placed(plan, device, *(np.stack(each) for each in zip(*data)))
            placed, entries = [one] * 3, range(3)
        else:
            placed = [Placed(plan, device, *(x[None] for x in one), *PLACES[at if plan.kind == "grouped" else 0]) for at, one in enumerate(data)]
            entries = [0] * 3
        held = [SimpleNamespace(
            **{x: device.address(one.given[x]) + 4 * at * one.given[f"stride_{x}"] for x in "abc"}, **{f"ld{x}": one.given[f"ld{x}"] for x in "abc"},
            buffers=[one.given[x] for x in "abc"],
        ) for one, at in zip(placed, entries)]
        threshold = plan.own.threshold if plan.batch.tiles else None
        listed = plan.design.listed(plan, sizes_of(products), threshold)
        extents = listed.extents | source.interface.constants
        memory = allocated(device, source.interface, extents)
        given = _given(device, plan, products, held, listed) | {"threshold": threshold}
        for schedule in (LAZY_HIGHEST, EAGER_LOWEST):
            device.set_schedule(schedule)
            launch_all(device, source.interface, extents, given, memory)
        for one, at, (a, b, c) in zip(placed, entries, data):  # C went through the product twice
            assert np.array_equal(one.c()[at], wanted(plan, a, b, wanted(plan, a, b, c, -0.5, 2.0), -0.5, 2.0), equal_nan=True)
        status, want = counted(device, source.interface, memory), told(plan, [(a, b) for a, b, _ in data * 2])
        assert {name: status[name] for name in want} == want
    finally:
        device.release()
