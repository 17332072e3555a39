"""Matrices whose rows lie so far apart that no 32 bits hold an element's place, in memory that has nothing between them.

One small kernel of each design, and several questions to it at once: an access beside a row is a fault, so that what is read or written
of a last partial vector shows; sizes are ragged in every direction and of two tiles along m and n; elements are small integers, so
that what comes out is C or it is wrong; some elements are computed again; the second product finds the workspace of the first.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from assembled import assembled
from test_grouped_kernels import planned as grouped
from test_packed_batches import planned as packed
from test_small_products import LARGE
from test_strided_batches import planned as warpgroups
from test_strided_batches import portable
from verifying import on_emulator
from ways import AMD_WAYS, HOPPER, SMALL_GROUPS, STRAIGHT, THIN, TINY, WAYS, plan_of, tailed

from gemmgen.designs.feature import PACKS_APART
from gemmgen.emulate import EAGER_LOWEST, LAZY_HIGHEST, TOGETHER
from gemmgen.emulate.core import strips
from gemmgen.kinds.solves import TRSM, Trsm
from gemmgen.kinds.triangles import LOWER, UPPER
from gemmgen.kinds.triangular import RIGHT
from gemmgen.views import ABSMAX_TILE_K
from gemmgen.render import render
from gemmgen.run import allocated, arguments, counted, launch_all
from gemmgen.run.batch import Product, _given, sizes_of
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.split import joined, split

FAR = 1 << 33
"""Elements: the last row of each matrix begins behind as many, so that a stage of k is more than 31 bits hold, too."""

INT = (1 << 31) - 16  # leading dimensions of products that have their own are of 32 bits

KERNELS = {
    "row scales": dict(scheme="scaled", tile=TINY),
    "row scales, transposed": dict(scheme="scaled", tile=TINY, layout="tt", loads="spread"),
    "shared, slices": WAYS["shared, grouped, slices"],
    "register, slices": dict(where="register", stages=3, layout="tt", split_k=2, tile=TINY),
    "register, held": dict(gpu="rx9070xt", where="register", tile=TINY, layout="tt"),
    "straight, slices": dict(STRAIGHT, tile={"block": [32, 32, 64], "warp": [32, 16, 16]}, stages=2, split_k=2),
    "thin rows": dict(THIN, tile={"block": [4, 64, 128], "warp": [4, 32, 32]}, stages=3),
    "thin columns, slices": dict(THIN, tile={"block": [32, 16, 128], "warp": [16, 16, 64]}, stages=2, split_k=2),
    "thin rows, transposed": WAYS["thin rows, k together"],
    "FP32": WAYS["fp32, on Blackwell"],
    "warpgroups": SMALL_GROUPS,
    "warpgroups, pairs": dict(HOPPER, tile={"block": [64, 24, 32], "warp": [64, 24, 32], "cluster": 1}, stages=2),
    "warpgroups, slices, clusters": dict(HOPPER, tile={"block": [64, 32, 64], "warp": [64, 16, 64], "cluster": 2}, split_k=2, stages=3, layout="tt"),
    "warpgroups, row scales of whole rows": WAYS["warpgroups, row scales of whole rows"],
    "warpgroups, row scales of whole rows and columns": dict(SMALL_GROUPS, scheme="scaled"),
    "warpgroups, integer words": WAYS["warpgroups, integer words"],
    "warpgroups that split A": dict(SMALL_GROUPS, where="mixed", split_k=3),
    "warpgroups that split A transposed": dict(SMALL_GROUPS, where="mixed", layout="tt"),
    "residues": WAYS["residues"],
    "residues by lanes": WAYS["residues by lanes, through registers"],
    "B as stored": dict(scheme="bf16x2_bb16", promote=32, tile=TINY),
    "tiles of k": dict(scheme="mixpert2_tile", promote=0, tile=TINY),
    "run scales": WAYS["run scales"],
    "run scales, k together": dict(scheme="run_scaled", run=256, tile=TINY, layout="nt"),
    "outliers fall back": WAYS["outliers fall back"],
    "mfma": dict(gpu="mi300x", fragment={"shape": "m16n16k32"}, tile=TINY, promote=64, layout="tt"),
    "wmma of RDNA3, row scales, slices": AMD_WAYS["wmma of RDNA3, row scales, slices"],
}
LATER = {"thin rows, transposed", "warpgroups, row scales of whole rows", "warpgroups that split A transposed", "mfma"}
"""Whose templates others have, too."""
BY_COLUMNS = {"straight, slices", "thin rows"}
"""Which read columns of B by vectors where their number is a multiple of 4."""


@cache
def made(name: str):
    return on_emulator(plan_of(**KERNELS[name]))


def apart(rows: int, more: int, limit: int) -> int:
    """A leading dimension, so many past a multiple of 4, at which the last of so many rows lies far away; of `limit` at most."""
    return min(-(-FAR // max(1, rows - 1) // 4) * 4, limit) + 4 + more


def integers(plan, m: int, n: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A [M, K], B [K, N] and C [M, N], with an Inf in the last row but one, and in some columns what FP16 cannot hold, or an Inf, too."""
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    a *= np.exp2(rng.integers(0, 3, (m, 1)))
    b *= np.exp2(rng.integers(0, 3, n))
    if k:
        a[-2, -1] = np.inf
        b[k - 1, odd_columns(plan, n)] = LARGE if plan.scheme.word == "f16" and plan.scheme.normalize == "none" else -np.inf
    if plan.fallback and k > 64:
        b[:, n - 2], b[0, n - 2] = 1, 2.0**14  # which stands out
    return a, b, rng.integers(1, 9, (m, n)).astype(np.float32)


def odd_columns(plan, n: int) -> list[int]:
    """Columns that hold what words cannot: at each place of four neighbours, in the second tile along n, but not among the last."""
    first = plan.launches.batch_tiles[-1].n if plan.kind.batched and plan.batch and plan.batch.tiles else plan.block[1]
    return [column for column in (first, first + 5, first + 10, first + 15) if column < n - 4] or [0]


class Placed:
    """Operands of one launch, far apart.

    Args:
        a, b, c: [batch, M, K], [batch, K, N], [batch, M, N]
        more: by how much each leading dimension is more than a multiple of 4; misalign: bytes, of each base.
        uneven: by how much strides of a batch are more than whole rows; limit: of leading dimensions, nearly.
    """

    def __init__(self, plan, device, a, b, c, more=(0, 0, 0), misalign=(0, 0, 0), uneven=4, limit=FAR):
        self.plan, self.device = plan, device
        stored = a if plan.layout[0] == "n" else a.transpose(0, 2, 1), b if plan.layout[1] == "n" else b.transpose(0, 2, 1), c
        kinds = None, plan.inputs.stored_b, plan.output
        self.given = {"batch": len(a), "m": a.shape[1], "n": b.shape[2], "k": a.shape[2]}
        for name, x, kind, extra, off in zip("abc", stored, kinds, more, misalign):
            ld = apart(x.shape[1], extra, limit)
            stride = x.shape[1] * ld + uneven if len(x) > 1 else 0
            x = np.ascontiguousarray(x if kind is None else kind.stored(x))
            self.given |= {name: device.emulator.upload_rows(x, name=name, ld=ld, stride=stride, offset=off), f"ld{name}": ld, f"stride_{name}": stride}
        self.shape = c.shape

    def c(self) -> np.ndarray:
        raw = self.device.emulator.read_rows(self.given["c"], self.plan.output.dtype, self.shape, ld=self.given["ldc"], stride=self.given["stride_c"])
        return self.plan.output.values(raw)


PLACES = [((4, 0, 0), (0, 0, 0)), ((1, 2, 2), (0, 8, 0)), ((0, 0, 0), (4, 12, 8)), ((0, 0, 0), (0, 0, 0)), ((3, 1, 3), (0, 0, 4))]
"""Leading dimensions past a multiple of 4, and bases past 256 bytes: vectors, A's rows farther apart than C's; rows at odd places; odd bases."""
TURNS = [(-0.5, 0.0, 1), (-0.5, 0.0, 3), (-0.5, 0.0, 2), (0.0, -1.0, 2), (-0.5, 2.0, 0)]
"""Alpha, beta, and of k: nothing, all, less than a stage, a stage and part of one, which leaves a third slice nothing."""


def wanted(plan, a, b, c, alpha, beta) -> np.ndarray:
    """C [M, N]: a sum of residues errs as the scheme does, all others are exact."""
    with np.errstate(invalid="ignore"):
        product = a @ b
        if plan.scheme.family.residues:
            sums = joined(split(a, plan.scheme), split(np.ascontiguousarray(b.T), plan.scheme), plan.scheme)
            product = np.where(np.isfinite(product), sums, product)
        return alpha * product + (beta * c if beta else 0)


def told(plan, operands) -> dict[str, int]:
    """What kernels count of several products' (A, B)."""
    found: dict[str, int] = {}
    for a, b in operands:
        for x, operand in (("a", a), ("b", np.ascontiguousarray(b.T))):
            words = split(operand, plan.scheme, plan.launches.flushes_words, x if plan.design.has(PACKS_APART) or not plan.scheme.alike else None)
            for kind in ("lossy", "overflow", "nonfinite"):
                found[f"{x}_{kind}"] = found.get(f"{x}_{kind}", 0) + getattr(words, kind)
        if plan.special == "exact":
            found["repaired"] = found.get("repaired", 0) + b.shape[1] + (a.shape[0] - 1) * len(odd_columns(plan, b.shape[1]))
    return found


def kept_right(device, plan, source, batch: int = 1, less: int = 1, places=PLACES) -> None:
    """Products in one workspace, at places of every kind, some that sum nothing; of slices, in every order of warps."""
    m, n, all_k = 2 * plan.block[0] - 1, 2 * plan.block[1] - less, 2 * plan.block[2] + 15
    operands = []
    try:
        memory = allocated(device, source.interface, source.interface.extents(m, n, all_k, batch))
        for turn, ((alpha, beta, part), (more, misalign)) in enumerate(zip(TURNS, places)):
            k = (0, all_k, plan.block[2] - 1, all_k if plan.fallback else plan.block[2] + 15)[part]
            extents = source.interface.extents(m, n, k, batch)
            a, b, c = (np.stack(each) for each in zip(*(integers(plan, m, n, k, turn + 3 * entry) for entry in range(batch))))
            if plan.fallback and turn == 1:
                beta = 2.0  # C of a tile that falls back is taken in once
            if alpha == 0:
                status = counted(device, source.interface, memory)
                a[:], b[:] = np.nan, np.nan  # not to be looked at
            if batch > 1 and turn == 2:  # the second product alone begins at an odd place
                misalign = (0, 0, 0)
            placed = Placed(plan, device, a, b, c if beta else np.full_like(c, np.nan), more, misalign, 2 if turn == 2 else 4)
            for buffer in source.interface.buffers:
                if buffer.zeroed_again and turn:
                    memory[buffer.name, 0] = device.zeros(buffer.bytes(extents), buffer.name)
            if plan.split_k > 1 and plan.gpu.vendor == "nvidia":  # the last slice is another each time
                device.set_schedule((TOGETHER, LAZY_HIGHEST, EAGER_LOWEST, TOGETHER, TOGETHER)[turn])
            launch_all(device, source.interface, extents, placed.given | {"alpha": alpha, "beta": beta}, memory)
            found = placed.c()
            for entry in range(batch):
                want = wanted(plan, a[entry], b[entry], c[entry], alpha, beta) if alpha else beta * c[entry]
                assert np.array_equal(found[entry], want, equal_nan=True), (turn, entry)
                operands.extend([(a[entry], b[entry])] * (turn < 3))
        want = told(plan, operands)
        if plan.fallback:
            assert status["fallen"] == 4  # of two products the tiles below one another that have the column that stands out
        else:
            assert {name: status[name] for name in want} == want
    finally:
        device.release()


@pytest.mark.parametrize("name", tailed(KERNELS, LATER))
def test_a_product_of_rows_that_are_far_apart(name):
    kept_right(*made(name), less=4 if name in BY_COLUMNS else 1)


@pytest.mark.parametrize("name", sorted(BY_COLUMNS))
def test_columns_that_a_vector_would_pass(name):
    """Of a B whose columns vectors read where they are a multiple of 4: here they are not, while rows begin at multiples of 16 bytes. Once C's alone do not."""
    device, plan, source = made(name)
    assert "put_four(c + row * ldc + first_column" in source.text  # rows of C that begin so leave by vectors
    kept_right(device, plan, source, less=1, places=[PLACES[0], ((0, 0, 2), (0, 8, 0)), *PLACES[2:]])


def test_the_largest_of_rows_that_are_longer_than_a_block_reads():
    """Rows and columns of which the first part is read by vectors; the largest of each is anywhere, the last element of all among them."""
    device, plan, source = made("row scales")
    m, n, k = 2 * plan.launches.absmax_outer - 1, 37, ABSMAX_TILE_K + 15
    rng = np.random.default_rng(4)
    a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    a[np.arange(m), rng.integers(0, k, m)] *= np.arange(2, m + 2)
    a[-1, -1] = b[-1, -1] = -9e4
    extents = source.interface.extents(m, n, k)
    try:
        for more, misalign in PLACES[:3]:
            memory = allocated(device, source.interface, extents)
            given = Placed(plan, device, a[None], b[None], np.zeros((1, 1, 1), np.float32), more, misalign).given | {"n": n}
            launch = source.launches[0]
            assert launch.role == "absmax"
            device.launch(launch.symbol, launch.blocks(extents), launch.threads, launch.shared_bytes, arguments(launch, given, memory))
            for name, want in (("a_absmax", abs(a).max(1)), ("b_absmax", abs(b).max(0))):
                assert np.array_equal(device.download(memory[name, 0], np.float32, len(want)), want)
    finally:
        device.release()


@pytest.mark.parametrize(("kind", "layout"), [(Trsm(UPPER, RIGHT), "nn"), (Trsm(UPPER), "tn"), (Trsm(LOWER), "nn")],
                         ids=["right", "left, transposed", "left"])
def test_a_block_of_unknowns_whose_rows_are_far_apart(kind, layout):
    """Of the triangle and of the right-hand sides, of which a second thread block has the last few."""
    plan = replace(plan_of(tile=TINY, layout=layout), kind=kind)
    device, _, source = on_emulator(plan, processes=1)
    rng, size, others = np.random.default_rng(6), 21, TRSM.own.systems + 5
    t = np.tril(rng.integers(0, 9, (size, size)) == 0, -1) + np.diag(rng.choice((-2.0, 1.0), size))
    x = rng.integers(-4, 5, (size, others)).astype(np.float64)
    c, order = t @ x, slice(None) if kind.below else slice(None, None, -1)
    t, x, c = t[order, order], x[order], c[order]
    if not kind.left:
        t, x, c = t.T, x.T, c.T
    stored = t if layout == "nn" else t.T
    given = {"m": c.shape[0], "n": c.shape[1], "k": size, "alpha": 1.0, "beta": 0.0}
    try:
        for name, matrix in ((kind.operand, stored), ("c", c)):
            given[f"ld{name}"] = apart(len(matrix), 1, FAR)
            given[name] = device.emulator.upload_rows(np.ascontiguousarray(matrix, np.float32)[None], name=name, ld=given[f"ld{name}"])
        (launch,) = source.interface.launches_of(solves=True)
        blocks = launch.blocks(given)
        device.launch(launch.symbol, blocks, launch.threads, launch.shared_bytes, arguments(launch, given, {}))
        assert blocks == 2 and np.array_equal(device.emulator.read_rows(given["c"], np.float32, (1, *c.shape), ld=given["ldc"])[0], x)
    finally:
        device.release()


BATCHES = {
    "warpgroups": lambda: warpgroups("slices of k in clusters"),
    "warpgroups that split A": lambda: warpgroups("A in registers, transposed"),
    "warpgroups, row scales": lambda: warpgroups("row scales"),
    "row scales, slices": lambda: portable("slices with row scales"),
    "slices": lambda: portable("shared, grouped, slices"),
    "tiles of k": lambda: portable("tiles of k"),
    "run scales": lambda: portable("run scales"),
    "warpgroups, run scales": lambda: warpgroups("run scales"),
    "tiles of k, mfma": lambda: portable("mfma, tiles of k"),
}


@pytest.mark.parametrize("name", tailed(BATCHES, {"slices", "tiles of k, mfma", "warpgroups, row scales"}))
def test_matrices_of_a_batch_that_are_far_apart(name):
    kept_right(*on_emulator(BATCHES[name]()), batch=2)


OF_PRODUCTS = {
    "listed": lambda: grouped("listed"), "held": lambda: grouped("held"), "lanes": lambda: grouped("lanes stay"), "pointers": lambda: grouped("pointers"),
    "strided": lambda: grouped("strided"), "mfma": lambda: grouped("mfma"), "packed": lambda: whole(packed(tile={"cluster": 2})),
    "packed, transposed": lambda: whole(packed(problem={"kind": "pointers", "layout": "tt"})),
}


def whole(plan):
    source = render(plan)
    return plan, source, assembled(source)


@pytest.mark.parametrize("name", tailed(OF_PRODUCTS, {"mfma", "packed, transposed"}))
def test_products_of_a_batch_whose_rows_are_far_apart(name):
    plan, source, binary = OF_PRODUCTS[name]()
    device = EmulatorDevice(plan, source, binary, schedule=TOGETHER, processes=1)
    tile = plan.launches.batch_tiles[-1]
    sizes = [(5, tile.n + 6, tile.k + 13)] * 3  # one row of tiles and several columns
    if not plan.kind.uniform:  # the last but one of alpha 0, the last without k
        sizes = [(tile.m + 3, tile.n + 6, tile.k + 13), (tile.m + 1, 5, 2 * tile.k + 9), (7, tile.n + 2, 9), (9, 5, 11), (5, 9, 0)]
    try:
        data = [integers(plan, *size, seed) for seed, size in enumerate(sizes)]
        alphas = [0.0 if size[2] == 11 else -0.5 for size in sizes]
        for (a, b, _), alpha in zip(data, alphas):
            if not alpha:
                a[:], b[:] = np.nan, np.nan
        products = [Product(*one, alpha, 2.0) for one, alpha in zip(data, alphas)]
        if plan.kind.strides:
            one = Placed(plan, device, *(np.stack(each) for each in zip(*data)), limit=INT)
            placed, entries = [one] * 3, [0, 1, 2]
        else:
            placed = [Placed(plan, device, *(x[None] for x in one), *PLACES[at % 3 if not plan.kind.uniform else 0], limit=INT) for at, one in enumerate(data)]
            entries = [0] * len(data)
        held = [SimpleNamespace(
            **{x: device.address(one.given[x]) + 4 * at * one.given[f"stride_{x}"] for x in "abc"}, **{f"ld{x}": one.given[f"ld{x}"] for x in "abc"},
            buffers=[one.given[x] for x in "abc"],
        ) for one, at in zip(placed, entries)]
        threshold = plan.own.threshold if plan.batch.tiles else None
        listed = plan.design.listed(plan, sizes_of(products), threshold)
        extents = listed.extents | source.interface.constants
        memory = allocated(device, source.interface, extents)
        given = _given(device, plan, products, held, listed) | {"threshold": threshold}
        for schedule in (LAZY_HIGHEST, TOGETHER):
            device.set_schedule(schedule)
            launch_all(device, source.interface, extents, given, memory)
        for one, at, alpha, (a, b, c) in zip(placed, entries, alphas, data):  # C went through the product twice
            want = wanted(plan, a, b, wanted(plan, a, b, c, alpha, 2.0), alpha, 2.0) if alpha else 4 * c
            assert np.array_equal(one.c()[at], want, equal_nan=True)
        status, want = counted(device, source.interface, memory), told(plan, [(a, b) for (a, b, _), alpha in zip(data, alphas) if alpha and a.size] * 2)
        assert {name: status[name] for name in want} == want
    finally:
        device.release()


LAST = {
    "row scales, slices": lambda: plan_of(**WAYS["slices with row scales"]),
    "straight": lambda: plan_of(**KERNELS["straight, slices"]),
    "warpgroups, slices": lambda: plan_of(**dict(SMALL_GROUPS, split_k=2)),
    "warpgroups, row scales of whole rows": lambda: plan_of(**KERNELS["warpgroups, row scales of whole rows"]),
}


class OfTheEnd(EmulatorDevice):
    """Has the last megabyte of a large buffer alone, and runs of each grid the blocks that `blocks` tells."""

    def zeros(self, nbytes: int, name: str):
        return self.emulator.alloc_end(nbytes, 1 << 20, name=name, fill=0)

    def empty(self, nbytes: int, name: str):
        return self.emulator.alloc_end(nbytes, 1 << 20, name=name)


def run_of_each(monkeypatch, device, source, extents, given, memory, blocks) -> None:
    """Every launch, with a block for each turn, of which those that `blocks(launch, of all)` lists are run."""
    for launch in source.launches:
        count = replace(launch, most_blocks=None).blocks(extents)
        chosen = [range(at, at + launch.cluster) for at in blocks(launch, count)]
        monkeypatch.setattr(strips, "partition", lambda *_: chosen)
        device.launch(launch.symbol, count, launch.threads, launch.shared_bytes, arguments(launch, {**given, "blocks": count}, memory))


@pytest.mark.parametrize("name", LAST)
def test_the_last_tile_of_a_product_whose_workspace_passes_32_bits(name, monkeypatch):
    """C has so many rows that words and parts of sums lie behind 2^31 elements; of all blocks those of the last tile are run."""
    plan = LAST[name]()
    source = render(plan)
    device = OfTheEnd(plan, source, assembled(source), schedule=TOGETHER, processes=1)
    tile, kept = plan.block[0], 512
    tiles = (1 << 31) // (plan.block[0] * plan.block[1] * plan.split_k) + 5
    m, n, k = tiles * tile - 3, plan.block[1] - 3, plan.block[2] * plan.split_k - 5
    a, b, c = integers(plan, kept, n, k, 0)
    extents = source.interface.extents(m, n, k)
    first = m - kept
    try:
        memory = allocated(device, source.interface, extents)
        upload = device.emulator.upload_rows
        given = {"m": m, "n": n, "k": k, "alpha": -0.5, "beta": 2.0}
        given |= {"a": upload(a[None], name="a", ld=k, origin=first * k), "lda": k} if plan.layout[0] == "n" else {
            "a": upload(np.ascontiguousarray(a.T)[None], name="a", ld=m, origin=first), "lda": m}
        stored = b if plan.layout[1] == "n" else np.ascontiguousarray(b.T)
        given |= {"b": upload(stored[None], name="b", ld=stored.shape[1]), "ldb": stored.shape[1]}
        given |= {"c": upload(c[None], name="c", ld=n, origin=first * n), "ldc": n}

        def blocks(launch, count):
            if launch.role == "gemm":
                return [count // plan.split_k * (one + 1) - 1 for one in range(plan.split_k)]
            of_a = replace(launch, grid=launch.grid[:1]).blocks(extents)
            return range(of_a - max(4, 2 * of_a // tiles) // launch.cluster * launch.cluster, count, launch.cluster)

        run_of_each(monkeypatch, device, source, extents, given, memory, blocks)
        found = device.emulator.read_rows(given["c"], np.float32, (1, kept, n), ld=n, origin=first * n)[0]
        rows = slice(kept - tile + 3, kept)
        assert np.array_equal(found[rows], wanted(plan, a, b, c, -0.5, 2.0)[rows], equal_nan=True)
    finally:
        device.release()


@pytest.mark.parametrize("name", ["row scales, slices", "warpgroups"])
def test_the_last_product_of_a_batch_whose_workspace_passes_32_bits(name, monkeypatch):
    """As above, of more than a million products."""
    plan = BATCHES[name]() if name != "warpgroups" else warpgroups("slices of k")
    source = render(plan)
    device = OfTheEnd(plan, source, assembled(source), schedule=TOGETHER, processes=1)
    m, n, k = plan.block[0] - 3, plan.block[1] - 5, plan.block[2] * plan.split_k - 5
    count = (1 << 31) // (plan.block[0] * plan.block[1] * plan.split_k) + 5
    a, b, c = integers(plan, m, n, k, 0)
    extents = source.interface.extents(m, n, k, count)
    try:
        memory = allocated(device, source.interface, extents)
        given = {"batch": count, "m": m, "n": n, "k": k, "alpha": -0.5, "beta": 2.0}
        for x, matrix, layout in (("a", a, plan.layout[0]), ("b", b, plan.layout[1]), ("c", c, "n")):
            stored = np.ascontiguousarray(matrix if layout == "n" else matrix.T)
            origin = (count - 1) * (stored.size + 4)
            given[x] = device.emulator.upload_rows(stored[None], name=x, ld=stored.shape[1], origin=origin)
            given |= {f"ld{x}": stored.shape[1], f"stride_{x}": stored.size + 4}

        def blocks(launch, of_all):
            if launch.role == "gemm":
                return range(of_all - plan.split_k, of_all)
            each = [replace(launch, grid=(one,)).blocks(extents) for one in launch.grid]
            ends = [sum(each[: at + 1]) for at in range(len(each))]
            return [at for end, own in zip(ends, each) for at in range(end - own // count, end)]

        run_of_each(monkeypatch, device, source, extents, given, memory, blocks)
        found = device.emulator.read_rows(given["c"], np.float32, (1, m, n), ld=n, origin=(count - 1) * (c.size + 4))[0]
        assert np.array_equal(found, wanted(plan, a, b, c, -0.5, 2.0), equal_nan=True)
    finally:
        device.release()


def test_the_last_product_of_a_list_whose_packed_words_pass_32_bits(monkeypatch):
    """The first product, with alpha 0, has a k so long that the words of the second lie past 2^31 bytes."""
    plan, source, binary = whole(packed())
    device = OfTheEnd(plan, source, binary, schedule=TOGETHER, processes=1)
    (bm, bn, bk), least = plan.block, min(plan.packing.packed_stage_bytes(operand) for operand in plan.operands)
    long = bk * ((1 << 31) // least + 5)
    a, b, c = integers(plan, bm - 3, bn + 5, bk + 9, 0)
    empty = np.zeros((), np.float32)
    first = Product(np.broadcast_to(empty, (1, long)), np.broadcast_to(empty, (long, 1)), np.ones((1, 1), np.float32), 0.0, 1.0)
    products = [first, Product(a, b, c, -0.5, 2.0)]
    listed = plan.design.listed(plan, sizes_of(products), None)
    extents = listed.extents | source.interface.constants
    try:
        memory = allocated(device, source.interface, extents)
        buffers = {name: device.emulator.upload(x, name=name) for name, x in (("a", a), ("b", b), ("c", c))}
        places = {name: device.address(buffer) for name, buffer in buffers.items()}
        of_last = SimpleNamespace(**places, lda=bk + 9, ldb=bn + 5, ldc=bn + 5, buffers=list(buffers.values()))
        of_long = SimpleNamespace(a=0, b=0, c=device.address(device.zeros(4, "c of the long one")), lda=long, ldb=1, ldc=1, buffers=[])
        given = _given(device, plan, products, [of_long, of_last], listed)

        def blocks(launch, count):
            return range(int(listed.rows["turn" if launch.role == "gemm" else "block"][-1]), count)

        assert listed.rows["entry"].tolist() == [0, 1]
        run_of_each(monkeypatch, device, source, extents, given, memory, blocks)
        assert np.array_equal(device.emulator.read(buffers["c"], np.float32, c.shape), wanted(plan, a, b, c, -0.5, 2.0), equal_nan=True)
    finally:
        device.release()
