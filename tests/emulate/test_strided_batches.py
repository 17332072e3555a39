"""Strided batches on the emulator: every way of the warp-specialised design, products of several tiles, in either order of warps."""

from __future__ import annotations

import numpy as np
import pytest

from gemmgen.kinds.solves import BLOCK
from gemmgen.run import Placement, strided
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.verify import Judge, kinds
from verifying import judge_of, on_emulator
from ways import AMD_WAYS, TILE, tailed
from ways import WAYS as OF_ONE

SMALL = {"block": [64, 16, 32], "warp": [64, 16, 32]}
WAYS = {
    "packed words": {},
    "clusters": {"tile": {"cluster": 2}},
    "taking turns": {"pipeline": {"consumers": "pingpong"}},
    "side by side, transposed": {"problem": {"layout": "tt"}, "tile": {"block": [64, 32, 32]}},
    "A in registers": {"split": {"where": "mixed"}},
    "A in registers, transposed": {"split": {"where": "mixed"}, "problem": {"layout": "tn"}},
    "A in registers, clusters": {"split": {"where": "mixed"}, "tile": {"cluster": 2}, "problem": {"layout": "nt"}},
    "row scales": {"split": {"scheme": "scaled"}},
    "run scales": {"split": {"scheme": "run_scaled"}},
    "slices of k": {"problem": {"m": 64, "n": 64, "matrices": 2}, "tile": {"split_k": 2}},
    "slices of k in clusters": {"problem": {"m": 64, "n": 64, "matrices": 2}, "tile": {"split_k": 2, "cluster": 2}},
    "non-finite as they come": {"split": {"special": "fast"}},
    "32-bit words": {"split": {"scheme": "tf32x3", "promote": 32}, "tile": {"block": [64, 16, 16], "warp": [64, 16, 16]}},
    "odd groups of columns": {"tile": {"block": [64, 72, 32], "warp": [64, 72, 32]}},
}


PORTABLE = {
    "slices with row scales": {}, "tiles of k": {}, "shared, grouped, slices": {}, "register, slices": {"split_k": 2}, "packed integers, fewer of A": {},
    "eight k at a time": {}, "wmma": {}, "packed words through registers, two buffers": {},
    "mfma, row scales": {}, "mfma, register, slices": {"split_k": 2}, "mfma, tiles of k": {}, "wmma of RDNA3, row scales, slices": {}, "wmma of RDNA4": {}, "run scales": {},
}
"""Ways of the portable design whose kernels for one product have kernels for strided batches beside them, and what they have in place of those."""


def portable(way: str):
    """The plan of a way, for a batch."""
    usual = {"scheme": "ootomo", "gpu": "a100", "layout": "nn", "tile": TILE, "promote": 64, "split_k": 1, "where": "prepass", "fragment": {}}
    told = usual | {**OF_ONE, **AMD_WAYS}[way] | PORTABLE[way]
    split = {name: told[name] for name in ("scheme", "where", "promote", "run") if name in told}
    left = {name: value for name, value in told.items() if name not in usual | split}
    return solve(loads({
        "problem": {"kind": "strided", "layout": told["layout"], "m": 512, "n": 512, "k": 512, "matrices": 64},
        "split": split, "fragment": told["fragment"], "target": {"gpu": told["gpu"]},
        "tile": {**told["tile"], "split_k": told["split_k"]}, "pipeline": left | {"design": "strided"}, "build": {"allow_spills": True},
    }))


def planned(way: str):
    data = {
        "problem": {"kind": "strided", "m": 256, "n": 256, "k": 256, "matrices": 64}, "split": {"scheme": "ootomo", "promote": 64},
        "tile": {"cluster": 1, "split_k": 1, **SMALL}, "pipeline": {"stages": 3}, "fragment": {"policy": "wgmma"}, "target": {"gpu": "h100"},
        "build": {"allow_spills": True},
    }
    for section, more in WAYS[way].items():
        data[section] = data[section] | more
    return solve(loads(data))


@pytest.mark.parametrize("way", tailed(WAYS, {"packed words", "A in registers, clusters", "slices of k in clusters"}))
def test_a_batch_is_right_in_every_way(way):
    device, plan, source = on_emulator(planned(way))
    check = Judge(plan, source, device.binary, device).batch()
    assert check.passed, check.detail
    assert not sum(device.conflicts.values())


@pytest.mark.parametrize("way", tailed(PORTABLE, set(PORTABLE) - {"slices with row scales", "shared, grouped, slices"}))
def test_a_batch_is_right_in_every_way_of_the_portable_design(way):
    plan = portable(way)
    assert plan.design.name == "strided" and plan.launches.repeated
    device, _, source = on_emulator(plan)
    check = Judge(plan, source, device.binary, device).batch()
    assert check.passed, check.detail
    assert plan.fragment.interface.by_stride or not sum(device.conflicts.values())


def test_a_product_that_is_not_finite_is_repaired_from_its_own_operands_and_counted_once():
    device, plan, source = on_emulator(planned("packed words"))
    rng = np.random.default_rng(2)
    a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((3, 68, 40), (3, 40, 68)))
    a[1, 3, 5], b[2, 7, 9] = np.inf, 1e6
    result = strided(device, plan, source, a, b, placement=Placement(apart=(4, 8, 12)))
    want = a.astype(np.float64) @ b
    finite = np.isfinite(want)
    assert (np.isfinite(result.c) == finite).all() and np.abs(np.where(finite, result.c, 0) - np.where(finite, want, 0)).max() < 1
    assert np.abs(result.c[0] - want[0]).max() < 1e-5 and result.intact
    assert result.status["a_nonfinite"] == result.status["b_overflow"] == 1 and result.status["repaired"] == 2 * 68


@pytest.mark.long
def test_without_k_c_is_scaled():
    device, plan, source = on_emulator(planned("packed words"))
    c = np.arange(2 * 3 * 5, dtype=np.float32).reshape(2, 3, 5)
    result = strided(device, plan, source, np.zeros((2, 3, 0), np.float32), np.zeros((2, 0, 5), np.float32), c, beta=0.5)
    assert (result.c == c / 2).all() and result.intact


IN_SHORT = {"syrk ootomo wgmma tn", "syrk scaled wgmma nt both", "symm ootomo mma", "gemmt slices mma upper", "syr2k ootomo mma nt"}
OF_KINDS = [
    ("syrk", "scaled", "wgmma", {"layout": "nt", "uplo": "both"}), ("syr2k", "scaled", "mma", {"layout": "tn", "uplo": "upper"}),
    ("symm", "scaled", "wgmma", {"side": "right", "uplo": "upper"}), ("trmm", "ootomo", "mma", {"diag": "unit"}),
    *((kind, scheme, policy, more) for kind, more in (
        ("syrk", {"layout": "tn"}), ("syr2k", {"layout": "nt"}), ("gemmt", {"uplo": "upper"}), ("trmm", {"side": "right", "layout": "nt"}), ("symm", {}))
      for scheme, policy in (("ootomo", "wgmma"), ("ootomo", "mma"), ("slices", "wgmma"), ("slices", "mma"))),
]


@pytest.mark.parametrize(("kind", "scheme", "policy", "more"), [
    pytest.param(*one, marks=[] if " ".join((*one[:3], *one[3].values())) in IN_SHORT else pytest.mark.long, id=" ".join((*one[:3], *one[3].values())))
    for one in OF_KINDS
])
def test_a_batch_of_a_kind_is_right(kind, scheme, policy, more):
    """What each product has of a triangle, and nothing else; its words, maxima and slices are its own. What would repair a NaN that is read is left out."""
    tile = {"block": [64, 64, 32], "warp": [64, 64, 32] if policy == "wgmma" else [32, 32, 32], "split_k": 1 + (scheme == "slices")}
    plan = solve(loads({
        "problem": {"kind": kind, "m": 256, "n": 256, "k": 256, "matrices": 64, **more},
        "split": {"scheme": "scaled" if scheme == "slices" else scheme, "special": "fast" if kind in ("symm", "trmm") else "exact"},
        "fragment": {"policy": policy}, "tile": tile | ({"cluster": 2} if policy == "wgmma" else {}), "target": {"gpu": "h100" if policy == "wgmma" else "a100"},
        "build": {"allow_spills": True},
    }))
    assert plan.launches.repeated and plan.kind.batched
    check = judge_of(plan).batch()
    assert check.passed, check.detail


def test_each_of_two_operands_in_a_batch_of_syr2k_has_its_own_rows_scales_and_counters():
    """A launch splits both operands of all products by one function: leading dimensions and sizes of numbers differ, and an Inf is B's of the last product."""
    plan = solve(loads({
        "problem": {"kind": "syr2k", "layout": "nt", "m": 256, "n": 256, "k": 256, "matrices": 64}, "split": {"scheme": "scaled"},
        "fragment": {"policy": "mma"}, "tile": {"block": [64, 64, 32], "warp": [32, 32, 32], "split_k": 1}, "target": {"gpu": "a100"},
    }))
    assert plan.kind.twice and plan.launches.repeated
    rng = np.random.default_rng(5)
    a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((2, 70, 40), (2, 40, 70)))
    a[0], b[1] = a[0] * 2**20, b[1] * 2**-20
    right = np.tril(a.astype(np.float64) @ b + (a.astype(np.float64) @ b).transpose(0, 2, 1))
    b[1, 3, 5] = np.inf
    result = strided(*on_emulator(plan), a, b, np.zeros((2, 70, 70), np.float32), placement=Placement((3, 5, 1), (4, 8, 12)))
    reached = np.zeros((2, 70, 70), bool)
    reached[1, 5], reached[1, :, 5] = True, True
    assert (np.isfinite(result.c) == ~np.tril(reached)).all() and result.intact
    off = np.where(reached, 0, np.where(np.isfinite(result.c), result.c, 0) - right)
    assert (np.abs(off).max((1, 2)) <= 1e-5 * np.abs(right).max((1, 2))).all()
    assert (result.status["a_nonfinite"], result.status["b_nonfinite"]) == (0, 1)


def test_persistent_blocks_count_the_tiles_of_a_triangle_in_each_product():
    """Three rows of tiles, of which two thirds are computed: a turn past the last tile of a product is the next one's first."""
    plan = solve(loads({
        "problem": {"kind": "syrk", "layout": "nt", "m": 256, "n": 256, "k": 256, "matrices": 64}, "split": {"scheme": "ootomo"},
        "fragment": {"policy": "wgmma"}, "tile": {"block": [64, 64, 32], "warp": [64, 64, 32], "cluster": 1, "split_k": 1}, "target": {"gpu": "h100"},
        "build": {"allow_spills": True},
    }))
    a = np.random.default_rng(6).uniform(-1, 1, (2, 130, 8)).astype(np.float32)
    result = strided(*on_emulator(plan), a, None, np.full((2, 130, 130), 7, np.float32))
    right = a.astype(np.float64) @ a.transpose(0, 2, 1)
    assert np.abs(np.tril(result.c - right)).max() < 1e-5 and (result.c[:, ~np.tri(130, dtype=bool)] == 7).all() and result.intact


def of_systems(**more) -> tuple:
    plan = solve(loads({
        "problem": {"kind": "trsm", "m": 512, "n": 512, "k": 512, "matrices": 64, **more}, "split": {"scheme": "ootomo", "where": "prepass", "promote": 64},
        "tile": TILE | {"split_k": 1}, "pipeline": {"stages": 3}, "target": {"gpu": "a100"}, "build": {"allow_spills": True},
    }))
    return on_emulator(plan)


@pytest.mark.parametrize(("problem", "shared"), [
    ({}, False), pytest.param({"side": "right", "uplo": "upper", "diag": "unit", "layout": "nt"}, True, marks=pytest.mark.long),
], ids=["left", "right, one triangle for all"])
def test_systems_of_a_batch_are_solved_together(problem, shared):
    """Small integers, so that every bit is known: two systems of two blocks of unknowns and of right-hand sides, each with what is its own."""
    device, plan, source = of_systems(**problem)
    rng, size, kind = np.random.default_rng(8), BLOCK + 9, plan.kind
    t = np.tril(rng.integers(0, 60, (2, size, size)) == 0, -1) * rng.choice((-1.0, 1.0), (2, size, size)).astype(np.float32)
    t[:, :, np.arange(size) % 7 > 0] = 0  # few unknowns serve others, so that they stay small
    t[:, np.arange(size), np.arange(size)] = 1 if kind.unit else rng.choice((-2, 1), (2, size))
    if shared:
        t[1] = t[0]
    x = rng.integers(-4, 5, (2, size, 35)).astype(np.float32)
    c = t @ x
    if shared:
        t[1] = np.nan
    order = slice(None) if kind.below else slice(None, None, -1)
    t, x, c = t[:, order, order], x[:, order], c[:, order]
    a, b, c = (t, None, c) if kind.left else (None, t.swapaxes(1, 2), c.swapaxes(1, 2))
    result = strided(device, plan, source, a, b, c, placement=Placement((3, 5, 1), (4, 8, 12), (7, 9, 11)), strides=(0, 0) if shared else (None, None))
    assert (result.c == (x if kind.left else x.swapaxes(1, 2))).all() and result.intact and not any(result.status.values())


@pytest.mark.long
def test_a_batch_of_systems_is_asked_what_one_is_and_more():
    device, plan, source = of_systems()
    right, told = kinds.question(plan, source, device)
    assert right, told
