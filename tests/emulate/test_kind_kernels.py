"""Kernels of kinds of products that leave tiles, k or elements out: what is computed, what is not, and what is counted."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from assembled import assembled
from verifying import on_emulator
from ways import TINY, plan_of

from gemmgen.catalog.element import ELEMENTS
from gemmgen.catalog.output import all_outputs
from gemmgen.emulate import SCHEDULES, TOGETHER
from gemmgen.kinds import GEMM, Kind
from gemmgen.kinds.complex import OfComplex
from gemmgen.kinds.solves import BLOCK, TRSM, Trsm
from gemmgen.kinds.triangles import BOTH, LOWER, UPPER, Gemmt, Syr2k, Syrk
from gemmgen.kinds.triangular import LEFT, RIGHT, UNIT, Symm, Trmm
from gemmgen.render import render
from gemmgen.run import gemm
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.unused import without_unused
from gemmgen.verify import Judge, kinds, oracles
from gemmgen.verify.expected import computed, expected, of_part
from gemmgen.verify.metrics import relative_frobenius

WAYS = {
    "mma": dict(stages=3), "mma, slices": dict(split_k=2), "mma, split before shared memory": dict(where="shared"),
    "mma, split behind shared memory": dict(where="register", stages=2), "mma, row scales": dict(scheme="scaled"),
    "mma, row scales, slices": dict(scheme="scaled", split_k=2),
    "mfma": dict(gpu="mi300x", fragment={"shape": "m16n16k32"}),
}
WAYS = {name: way | {"tile": TINY} for name, way in WAYS.items()} | {"fma": dict(scheme="fp32", promote=0)}


def late(*parameters):
    """For `make test-all`: other ways show the kind, and other kinds the way."""
    return pytest.param(*parameters, marks=pytest.mark.long)


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


WGMMA = dict(gpu="h200", fragment={"policy": "wgmma"}, tile={"block": [64, 64, 32], "warp": [64, 64, 32], "cluster": 2, "group": 2}, promote=32, stages=3)
FLAT = {"block": [16, 32, 16], "warp": [16, 16, 16]}
OF_TRIANGLES = WAYS | {
    "wgmma": WGMMA, "wgmma, row scales": WGMMA | dict(scheme="scaled"), "wgmma, slices": WGMMA | dict(split_k=2),
    "wgmma, turns": WGMMA | dict(consumers="pingpong", tile=WGMMA["tile"] | {"cluster": 1}),
    "wgmma, tiles of k": WGMMA | dict(scheme="mixpert2_tile", promote=0),
    "wgmma, residues": WGMMA | dict(scheme="residues8", promote=0, tile={"block": [64, 64, 64], "warp": [64, 64, 64], "cluster": 2}),
    "mma, residues": dict(scheme="residues8", promote=0, tile={"block": [64, 64, 64], "warp": [32, 32, 64]}),
}


@cache
def made(way: str, kind: Kind, **more):
    return on_emulator(replace(plan_of(**OF_TRIANGLES[way] | more), kind=kind))


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


@pytest.mark.parametrize("uplo", [LOWER, UPPER])
def test_the_tiles_of_a_triangle_count_every_row_and_column_once(uplo):
    """Those on the diagonal, as no other row or column of tiles is whole: here of three."""
    device, plan, source = made("mma, split before shared memory", Gemmt(uplo))
    a, b = np.ones((3 * plan.block[0], 8), np.float32), np.ones((8, 3 * plan.block[1]), np.float32)
    a[:: plan.block[0], 0] = b[7, :: plan.block[1]] = 1e-12
    status = gemm(device, plan, source, a, b).status
    assert (status["a_lossy"], status["b_lossy"]) == (3, 3)


SIDE = dict(zip(OF_TRIANGLES, (LOWER, UPPER, BOTH) * len(OF_TRIANGLES)))
"""One triangle for each way, in turn; the other ones are of two ways besides."""


@pytest.mark.parametrize(("way", "uplo"), [late(*one) if one[0] == "wgmma, row scales" else one for one in SIDE.items()] + [
    ("wgmma", LOWER), ("wgmma", BOTH), ("mma", UPPER)])
def test_syrk_is_right_on_every_way(way, uplo):
    device, plan, source = made(way, Syrk(uplo), layout="tn" if uplo == UPPER else "nt")
    assert plan.cluster == OF_TRIANGLES[way].get("tile", {}).get("cluster", 1) and not source.interface.asks("b") and not source.interface.asks("n")
    assert plan.launches.shares_words == (plan.where == "prepass" and plan.words_of("a") == plan.words_of("b"))
    right, told = kinds.question(plan, source, device)
    assert right, told


@pytest.mark.parametrize(("way", "uplo", "layout"), [("wgmma", UPPER, "nn"), ("wgmma, turns", LOWER, "tt"), ("mma, slices", UPPER, "tn"), ("mfma", LOWER, "nn")])
def test_gemmt_is_right(way, uplo, layout):
    device, plan, source = made(way, Gemmt(uplo), layout=layout)
    assert source.interface.asks("b") and not source.interface.asks("n")
    right, told = kinds.question(plan, source, device)
    assert right, told


@pytest.mark.parametrize(("way", "uplo"), [("wgmma", LOWER), ("wgmma, row scales", BOTH), ("mma", UPPER)])
def test_what_is_not_finite_is_computed_again_where_it_is_computed(way, uplo):
    """An Inf in one row of A: FP32 has Inf or NaN in a row and a column of C, of which half is computed, and the others stay."""
    device, plan, source = made(way, Syrk(uplo), layout="tn" if uplo == UPPER else "nt")
    m, k = 2 * plan.block[0] + 3, plan.block[2] + 1
    a = np.random.default_rng(7).integers(1, 5, (m, k)).astype(np.float32)
    a[plan.block[0] + 6, 3], a[5, 1], a[5, 2] = np.inf, np.inf, -np.inf
    result = gemm(device, plan, source, a, None, np.full((m, m), 7, np.float32), alpha=1.0, beta=0.0)
    computed = plan.kind.computed(m, m)
    with np.errstate(invalid="ignore"):
        want = np.where(computed, a @ a.T, 7)
    assert np.array_equal(result.c, want, equal_nan=True)
    half = np.tri(m, dtype=bool)
    assert result.status["repaired"] == (~np.isfinite(want) & (half.T if uplo == UPPER else half)).sum() and result.status["b_nonfinite"] == 0


@pytest.mark.parametrize("way", ["wgmma", "mma"])
def test_no_k_and_no_rows(way):
    device, plan, source = made(way, Syrk(LOWER), layout="nt")
    c = np.arange(35 * 35, dtype=np.float32).reshape(35, 35)
    for a, alpha in ((np.zeros((35, 0), np.float32), 2.0), (np.full((35, 9), np.nan, np.float32), 0.0)):
        result = gemm(device, plan, source, a, None, c, alpha=alpha, beta=3.0)
        assert (result.c == np.where(np.tri(35, dtype=bool), 3 * c, c)).all() and result.intact
    assert gemm(device, plan, source, np.zeros((0, 9), np.float32), None).c.shape == (0, 0)


@pytest.mark.parametrize("uplo", [LOWER, UPPER, BOTH])
def test_pairs_of_a_c_that_is_aligned(uplo):
    """Whole tiles are stored without a question, and tiles on the diagonal in pairs but where these cross it: small integers, so that every bit is known."""
    device, plan, source = made("wgmma", Syrk(uplo), layout="tn" if uplo == UPPER else "nt")
    rng, m = np.random.default_rng(3), 3 * plan.block[0]
    a, c = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((m, 40), (m, m)))
    for beta in (0.0, -2.0):
        result = gemm(device, plan, source, a, None, c, alpha=3.0, beta=beta)
        assert (result.c == np.where(plan.kind.computed(m, m), 3 * (a @ a.T) + beta * plan.kind.read(c), c)).all()


READ = [
    ("mma", Trmm(LOWER), "nn"), ("mma, slices", Trmm(UPPER, LEFT, UNIT), "tn"), ("wgmma", Trmm(LOWER, LEFT, UNIT), "nt"), ("wgmma", Trmm(UPPER, RIGHT), "nn"),
    ("wgmma, slices", Trmm(UPPER), "nn"), ("wgmma, row scales", Trmm(LOWER, RIGHT), "nt"), ("mma, row scales", Trmm(UPPER), "tt"),
    ("mfma", Trmm(LOWER, RIGHT, UNIT), "nn"), ("fma", Trmm(UPPER, RIGHT), "nn"), ("wgmma", Symm(LOWER), "nn"), ("wgmma, row scales", Symm(UPPER, RIGHT), "tn"),
    ("mma", Symm(UPPER), "nt"), ("mfma", Symm(LOWER, RIGHT), "nn"),
]


@pytest.mark.parametrize(("way", "kind", "layout"), READ, ids=["-".join((way, one.name, *one.options.values())) for way, one, _ in READ])
def test_a_triangle_of_an_operand_is_read(way, kind, layout):
    """NaN in the other one, which is not."""
    device, plan, source = made(way, kind, layout=layout)
    right, told = kinds.question(plan, source, device)
    assert right, told


@pytest.mark.parametrize("way", ["mma, row scales", "wgmma, row scales"])
def test_a_row_of_c_is_a_row_of_b_that_compensated_sums_have_in_a_short_last_interval(way):
    """Of two stages, of which k leaves one: that sum moves once more, or stays where it is."""
    device, plan, source = made(way, GEMM, sums="compensated", promote=64)
    problem = oracles.permutation(plan)
    k = problem.a.shape[1]
    assert problem.a[-1, -1] and -(-k // plan.block[2]) % plan.promotion.promote_stages == 1
    asked = Judge(plan, source, device.binary, device).bits("permutation", problem)
    assert asked.passed, asked.detail


SUMS_MOVE_ON = [  # beside whose tiles of C the parts of k begin and end that they sum
    ("mma, row scales", Trmm(LOWER), "nn"), ("mma, row scales", Trmm(LOWER, RIGHT), "nt"), ("mma, row scales, slices", Trmm(UPPER), "tn"),
    ("wgmma, row scales", Trmm(UPPER), "nn"), ("mma, row scales", OfComplex("c64", "nn", Trmm(LOWER)), "nn"),
    ("mma, row scales", OfComplex("c64", "nn", Trmm(LOWER, RIGHT)), "nn"),
]


@pytest.mark.parametrize(("way", "kind", "layout"), SUMS_MOVE_ON, ids=["-".join((way, one.name, *one.options.values())) for way, one, _ in SUMS_MOVE_ON])
def test_a_row_of_c_is_a_row_of_b_where_compensated_sums_move_on_between_zeros(way, kind, layout):
    """The part of k that the judge looks at ends within an interval of promotion; the tile's own goes on, as its kind says, and gives back once more."""
    device, plan, source = made(way, kind, layout=layout, sums="compensated", promote=96 if way.startswith("wgmma") else 64)
    drawn = map(partial(oracles.permutation, plan), range(1, 40))
    # Where it makes a difference in the second tile of rows, or of a cluster.
    problem = next(one for one in drawn if (computed(plan, one.a, one.b) != one.expected)[-7:].any())
    asked = Judge(plan, source, device.binary, device).bits("permutation", problem)
    assert asked.passed, asked.detail


@pytest.mark.parametrize("kind", [Trmm(LOWER), Trmm(UPPER, RIGHT), OfComplex("c64", "nn", Trmm(UPPER))], ids=["left", "right", "complex"])
def test_what_is_expected_of_tiles_that_have_parts_of_k_is_summed_in_their_slices(kind):
    """Bit for bit what the kernel computes, and not what slices of a whole k would: a slice of the triangle's k has other elements."""
    device, plan, source = on_emulator(replace(plan_of(scheme="scaled", layout="nn", split_k=4, tile=FLAT), kind=kind))
    problem = oracles.uniform(plan, -1, 1, (37, 29, 37), 5)
    c, whole = Judge(plan, source, device.binary, device).run(problem).c, problem.a.astype(np.float64) @ problem.b
    assert (c == of_part(plan, problem.a, problem.b)).all() and (c != computed(plan, problem.a, problem.b)).any()
    some = np.array([0, 3, 17, 36]), np.array([1, 2, 28])
    assert (c[np.ix_(*some)] == of_part(plan, problem.a, problem.b, *some)).all()
    assert (of_part(plan, problem.a, problem.b, rng=np.random.default_rng(1)) != c).any()  # another order of k
    assert 1 <= expected(plan, problem.a, problem.b).simulated / relative_frobenius(c, whole) < 1.1


@pytest.mark.parametrize(("way", "kind"), [("wgmma", Trmm(UPPER)), ("mma, row scales", Symm(LOWER)), ("wgmma", Symm(UPPER, RIGHT))],
                         ids=["trmm", "symm, scaled", "symm, right"])
def test_what_is_computed_again_reads_a_triangle_too(way, kind):
    device, plan, source = made(way, kind, layout="nn")
    m, rng = plan.block[0] + 7, np.random.default_rng(4)
    square, other = rng.integers(1, 5, (m, m)).astype(np.float32), rng.integers(1, 5, (m, m)).astype(np.float32)
    kept = np.tri(m, dtype=bool)
    square[~(kept if kind.options["uplo"] == LOWER else kept.T)] = np.nan
    at = (m - 31, 3) if kind.options["uplo"] == LOWER else (3, m - 31)
    square[at], other[5, 6] = np.inf, np.inf
    a, b = (square, other) if kind.left else (other, square)
    result = gemm(device, plan, source, a, b)
    with np.errstate(invalid="ignore"):
        want = np.matmul(*kind.completed(a, b))
    assert np.array_equal(np.isnan(result.c), np.isnan(want)) and np.array_equal(np.isinf(result.c), np.isinf(want))
    finite = np.isfinite(want)
    assert result.status["repaired"] == (~finite).sum() and np.allclose(result.c[finite], want[finite], rtol=1e-6)


@pytest.mark.parametrize(("way", "uplo"), [
    ("mma", LOWER), ("wgmma", UPPER), late("wgmma, slices", BOTH), ("mma, slices", UPPER), late("wgmma, row scales", LOWER), ("mfma", BOTH), ("fma", LOWER),
])
def test_two_products_in_one_triangle(way, uplo):
    """Small integers, so that every bit is known; and an Inf, by which both products are computed again."""
    device, plan, source = made(way, Syr2k(uplo), layout="tn" if uplo == UPPER else "nt")
    rng, m, k = np.random.default_rng(5), 2 * plan.block[0] + 7, 3 * plan.block[2] + 5
    a, b, c = (rng.integers(-5, 6, shape).astype(np.float32) for shape in ((m, k), (k, m), (m, m)))
    result = gemm(device, plan, source, a, b, c, alpha=2.0, beta=-1.0)
    assert (result.c == np.where(plan.kind.computed(m, m), 2 * (a @ b + (a @ b).T) - plan.kind.read(c), c)).all() and not any(result.status.values())
    if plan.scheme.exact:
        return
    a[9, 2] = b[3, 70] = np.inf
    result = gemm(device, plan, source, a, b, np.zeros_like(c))
    with np.errstate(invalid="ignore"):
        want = np.matmul(*plan.kind.completed(a, b))
    assert np.array_equal(np.where(plan.kind.computed(m, m), want, 0), result.c, equal_nan=True)
    assert (result.status["a_nonfinite"], result.status["b_nonfinite"]) == (1, 1)


@pytest.mark.parametrize(("way", "kind", "c"), [("mma", Syrk(BOTH), "f16"), ("wgmma", Gemmt(UPPER), "bf16")], ids=["f16", "bf16"])
def test_a_triangle_of_16_bits(way, kind, c):
    device, plan, source = on_emulator(replace(made(way, kind, layout="nt")[1], output=all_outputs()[c]))
    right, told = kinds.question(plan, source, device)
    assert right, told


@pytest.mark.parametrize(("way", "kind", "layout"), [("mma", Trsm(LOWER), "nn"), late("wgmma, row scales", Trsm(UPPER, RIGHT, UNIT), "nt")],
                         ids=["mma-lower-left-nonunit", "wgmma, row scales-upper-right-unit"])
def test_triangular_systems_are_solved(way, kind, layout):
    device, plan, source = made(way, kind, layout=layout)
    solved, told = kinds.question(plan, source, device)
    assert solved, told


@pytest.mark.parametrize(("way", "kind", "layout"), [
    ("wgmma, slices", Trsm(UPPER, RIGHT), "nn"), ("mma, slices", Trsm(LOWER, LEFT, UNIT), "tn"), ("mfma", Trsm(UPPER), "nn"), ("fma", Trsm(LOWER, RIGHT), "nt"),
    ("mma, split before shared memory", Trsm(LOWER, RIGHT), "nn"), late("wgmma, residues", Trsm(UPPER), "tn"),
])
def test_a_system_of_two_ragged_blocks(way, kind, layout):
    """Small integers and diagonals of ones and twos, so that every bit is known: substitution takes each element of the triangle once, and in its place."""
    device, plan, source = made(way, kind, layout=layout)
    rng, size = np.random.default_rng(8), BLOCK + TRSM.own.part + 19
    t = np.tril(rng.integers(0, 60, (size, size)) == 0, -1) * rng.choice((-1.0, 1.0), (size, size)).astype(np.float32)
    t[:, np.arange(size) % 7 > 0] = 0  # few unknowns serve others, so that they stay small
    np.fill_diagonal(t, 1 if kind.unit else rng.choice((-2, 1), size))
    x = rng.integers(-4, 5, (size, 5)).astype(np.float32)
    c = t @ x
    order = slice(None) if kind.below else slice(None, None, -1)
    t, x, c = t[order, order], x[order], c[order]
    a, b, c = (t, None, c) if kind.left else (None, np.ascontiguousarray(t.T), np.ascontiguousarray(c.T))
    result = gemm(device, plan, source, a, b, np.ascontiguousarray(c), alpha=1.0)
    assert (result.c == (x if kind.left else x.T)).all() and result.intact and not any(result.status.values())


@pytest.mark.parametrize(("type", "layout", "problem"), [
    ("c128", "nc", {"side": "right"}), ("f64", "tn", {"uplo": "upper"}), ("c64", "nn", {"diag": "unit"}),
])
def test_a_block_of_unknowns_of_larger_elements(type, layout, problem):
    """Of two parts and two thread blocks, by the kernel that solves alone: small integers, so that every bit is known, and a divisor without an inverse."""
    element = ELEMENTS[type]
    wide = dict(scheme="residues12", promote=0, tile={"block": [32, 32, 64], "warp": [16, 16, 64]}, stages=2)
    plan = plan_of(**(wide if element.part.bytes == 8 else dict(tile=TINY)), type=type, layout=layout, problem={"kind": "trsm", **problem})
    kind, source = plan.kind, render(plan)
    head, solver, rest = source.text.partition('extern "C" __global__')
    body, closing, after = rest.partition("\n}\n")
    source = replace(source, text=without_unused(head + solver + body + closing + after[after.rindex("}  // namespace"):]))
    rng, size, others = np.random.default_rng(8), 2 * kind.own.part - 5, kind.own.systems + 1
    units = np.array([1.0, -1.0] + [1j, -1j, 1 + 1j] * (element.reals > 1))
    t = np.tril(rng.integers(0, 12, (size, size)) == 0, -1) * rng.choice(units, (size, size))
    t[np.arange(size) % 4 > 1] = 0  # few unknowns serve others, so that they stay small
    t += np.diag(np.where(np.arange(size) < kind.own.part, units[-1], rng.choice(units, size)))
    if kind.unit:
        np.fill_diagonal(t, 1)
    else:
        t[5, :5], t[5, 5] = 0, 2.0**20 * element.part.tiniest * units[-1]
    x = rng.integers(-3, 4, (size, others)) * 1.0
    if element.reals > 1:
        x = x + 1j * rng.integers(-3, 4, (size, others))
    order = slice(None) if kind.below else slice(None, None, -1)
    c, t, x = (t @ x)[order], t[order, order], x[order]
    read = np.tril(np.ones(t.shape, bool), -kind.unit) if kind.below else np.triu(np.ones(t.shape, bool), kind.unit)
    t, c, x = np.where(read, t, np.nan), c, x * (alpha := 2j if element.reals > 1 else -2.0)
    t, c, x = (np.ascontiguousarray(one if kind.left else one.T).astype(element.dtype) for one in (t, c, x))
    device = EmulatorDevice(plan, source, assembled(source), schedule=TOGETHER, processes=1)
    result = gemm(device, plan, source, *((t, None) if kind.left else (None, t)), c, alpha=alpha)
    assert (result.c == x).all() and result.intact


@pytest.mark.long
@pytest.mark.parametrize(("way", "kind", "layout"), [("mma", Trsm(LOWER), "nn"), ("wgmma", Trsm(UPPER, RIGHT), "nn"), ("mfma", Trsm(UPPER, RIGHT, UNIT), "nt")])
def test_a_block_of_unknowns_is_the_same_in_every_schedule(way, kind, layout):
    """Of three parts, the last one ragged: a barrier that is not there would show."""
    device, plan, source = made(way, kind, layout=layout)
    rng, size = np.random.default_rng(3), 2 * TRSM.own.part + 19
    t = (rng.uniform(-1, 1, (size, size)) / 8 + np.eye(size)).astype(np.float32)
    c = rng.uniform(-1, 1, (size, 35) if kind.left else (35, size)).astype(np.float32)
    operands = (t, None) if kind.left else (None, t)
    want = gemm(device, plan, source, *operands, c, alpha=0.5).c
    for schedule in SCHEDULES:
        assert (gemm(*on_emulator(plan, schedule), *operands, c, alpha=0.5).c == want).all(), schedule


def test_a_solve_counts_what_its_products_split():
    """An element of the triangle once, where a product takes it; one of a block's own triangle not; an unknown once for each product that takes it."""
    device, plan, source = made("mma", Trsm(LOWER), layout="nn")
    size = 2 * BLOCK + 9
    t, c = np.eye(size, dtype=np.float32), np.ones((size, 3), np.float32)
    t[BLOCK + 1, 5] = t[2 * BLOCK + 3, 7] = t[30, 20] = 1e-12
    c[BLOCK - 1, 2] = 1e-12
    status = gemm(device, plan, source, t, None, c).status
    assert (status["a_lossy"], status["b_lossy"]) == (2, 2)


@pytest.mark.parametrize(("kind", "layout"), [(Syrk(LOWER), "nt"), late(Gemmt(UPPER), "nn")], ids=["syrk", "gemmt"])
def test_scales_of_runs_of_k(kind, layout):
    """Of one operand, whose words serve twice, one is split."""
    device, plan, source = on_emulator(replace(plan_of(scheme="run_scaled", layout=layout), kind=kind))
    right, told = kinds.question(plan, source, device)
    assert right, told
