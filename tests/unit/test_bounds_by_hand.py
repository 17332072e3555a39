"""The judge's bounds, held to products that err nearly as much as they allow and to numbers that are worked out by hand: a bound that is wider shows."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gemmgen.catalog.epilogue import epilogue_of
from gemmgen.catalog.output import all_outputs
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.model.accuracy import float_sums_worst, predicted, reach, split_worst
from gemmgen.model.error import U
from gemmgen.split import split
from gemmgen.verify import fixed, oracles
from gemmgen.verify.bound import TINIEST, _accumulation, _left, _size, _swallowed, allowance, bound, fallen, share_of_worst, underflow, worst_case
from gemmgen.verify.expected import AS_FP32, LEAST_SAMPLE, MARGIN, SAMPLE, Expected, computed, expected, sequential, shares
from gemmgen.verify.metrics import Errors, errors, exact, relative_frobenius, same_special
from ways import HOPPER, SMALL_GROUPS, TINY, can_multiply, plan_of


def share(plan, a, b, c) -> float:
    """The largest error of C over what is allowed it."""
    return float((np.abs(c - exact(a, b)) / allowance(plan, a, b, exact(np.abs(a), np.abs(b)))).max())


def small_terms(k: int, left: float, right: float) -> tuple[np.ndarray, np.ndarray]:
    """1 x 1, and k - 1 products of left and right."""
    a, b = np.full((2, k), left, np.float32), np.full((k, 3), right, np.float32)
    a[:, 0] = b[0] = 1
    return a, b


def test_a_sum_that_loses_every_term_is_nearly_the_worst_case():
    """FP32: 2^-24 is a tie that falls to 1. A truncating unit drops each of the eight terms of a block that lie below its last bit, 2^-24."""
    plain = plan_of(scheme="fp32", promote=0)
    a, b = small_terms(200, 2.0**-12, 2.0**-12)
    assert 0.95 < share(plain, a, b, sequential(a, b)) <= 1
    unit = plan_of(promote=0, tile=TINY)
    a, b = small_terms(1024, 2.0**-12 * (1 - 2.0**-11), 2.0**-12)
    c = computed(unit, a, b)
    assert (c == 1).all() and 0.65 < share(unit, a, b, c) <= 1


@pytest.mark.parametrize(("scheme", "most"), [("half", 0.9), ("bf16x3", 0.35), ("ootomo", 0.33)])
def test_elements_that_lie_between_two_words_are_nearly_the_worst_case(scheme, most):
    """One product each: the largest error of 300 elements a little above 1 times as many."""
    plan, rng = plan_of(scheme=scheme, promote=0, tile=TINY), np.random.default_rng(0)
    a, b = ((1 + rng.uniform(0, 0.01, 300)).astype(np.float32) for _ in "ab")
    assert most < share(plan, a[:, None], b[None, :], computed(plan, a[:, None], b[None, :])) <= 1


@pytest.mark.parametrize(("scheme", "k"), [("mixpert2", 1), ("mixpert4", 1), ("residues7", 1), ("mixpert2_tile", 32)])
def test_integer_words_between_two_places_are_nearly_the_worst_case(scheme, k):
    """Rows and columns that are constant: what is left of each element points one way."""
    plan, rng = plan_of(scheme=scheme, promote=0), np.random.default_rng(0)
    a, b = (np.repeat((1 + rng.uniform(0, 0.03, (200, 1))).astype(np.float32), k, axis=1) for _ in "ab")
    b = np.ascontiguousarray(b.T)
    assert 0.75 < share(plan, a, b, computed(plan, a, b)) <= 1


def test_what_integer_words_are_held_against_by_hand():
    a, b = np.float32([[1, -3, 2]]), np.float32([[2], [-5], [1]])
    assert fixed.reach(SCHEMES.get("mixpert2"), a, b) == 3 * 3 * 5
    assert fixed.reach(SCHEMES.get("residues7"), a, b) == pytest.approx(np.sqrt(14 * 30))
    a, b = (np.concatenate([x, np.zeros((30, 1)), np.float32([[4]])]).astype(np.float32) for x in (a.T, b))
    assert fixed.reach(SCHEMES.get("mixpert2_tile"), a.T, b) == 32 * (3 * 5 + 4 * 4)  # 32 k, and the last two


def test_what_alpha_beta_and_the_c_before_may_round():
    """Three roundings: two units in the last place are two thirds of what is allowed, whatever the sign."""
    plan = plan_of(scheme="fp32", promote=0)
    a, b, before = np.zeros((3, 0), np.float32), np.zeros((0, 2), np.float32), np.full((3, 2), 4.0, np.float32)
    for beta in (0.5, -2.0):
        c = beta * before.astype(np.float64) * (1 + 2 * U)
        assert share_of_worst(plan, a, b, before, c, 1.0, beta) == pytest.approx(2 / 3, rel=1e-6)
        assert share_of_worst(plan, a, b, before, c + 1, 1.0, beta) > 1e5
    one = np.ones((1, 1), np.float32)
    for alpha in (0.5, -3.0):  # the product's own k u and epilogue u beside them
        limit = abs(alpha) * (worst_case(plan, 1) + 3 * U)
        assert share_of_worst(plan, one, one, None, np.array([[alpha + limit / 2]]), alpha, 0.0) == pytest.approx(0.5, rel=1e-6)
        assert share_of_worst(plan, one, one, np.nan * one, np.array([[alpha]]), alpha, 0.0) == 0  # beta = 0 does not look at C
    assert np.isnan(share_of_worst(plan, one, one, None, np.array([[np.nan]])))


def test_what_a_c_of_16_bits_may_round():
    """Of beta C alone, half a unit in the last place of FP16 beside FP32's three."""
    plan = replace(plan_of(scheme="fp32", promote=0), output=all_outputs()["f16"])
    a, b, before = np.zeros((3, 0), np.float32), np.zeros((0, 2), np.float32), np.full((3, 2), 4.0, np.float32)
    assert share_of_worst(plan, a, b, before, -8 * (1 + np.full((3, 2), 2.0**-12)), 1.0, -2.0) == pytest.approx(2.0**-12 / (2.0**-11 + 3 * U), rel=1e-4)


def test_a_product_of_lossy_words_is_held_to_its_words():
    """Elements that FP16's words hold to five digits: what the words give is right, as what A B is would be, and a little beside either is not."""
    plan, rng = plan_of(promote=0, tile=TINY), np.random.default_rng(0)
    a, b = (1.37e-6 * (1 + rng.uniform(0, 0.5, (4, 1)))).astype(np.float32), rng.uniform(1, 2, (1, 5)).astype(np.float32)
    by_words = computed(plan, a, b)
    assert np.abs(by_words / exact(a, b) - 1).max() > 1e-6 and share_of_worst(plan, a, b, None, by_words) <= 1 >= share_of_worst(plan, a, b, None, exact(a, b))
    assert share_of_worst(plan, a, b, None, by_words * 1.001) > 1


def test_what_an_epilogue_was_given_is_taken_out_of_c():
    plan, rng = replace(plan_of(scheme="fp32", promote=0), epilogue=epilogue_of(("bias",))), np.random.default_rng(0)
    a, b, bias = (rng.uniform(0.5, 1, shape).astype(np.float32) for shape in ((3, 8), (8, 2), 2))
    c = exact(a, b) + bias
    assert share_of_worst(plan, a, b, None, c, ends={"bias": bias}) <= 1 < share_of_worst(plan, a, b, None, c + 1e-4, ends={"bias": bias})


def test_worst_cases_by_hand():
    """FP32: k roundings, and alpha's. Ootomo on Ampere: 8 k at once, each step an ulp and nine terms' last bits, where main's words have a little more than
    |A||B|; a correction sums up to 2 + 2^-9, of which eight terms lose bits, and 2^-11 of that counts."""
    fp32, unit = plan_of(scheme="fp32", promote=0), plan_of(promote=0, tile=TINY)
    assert worst_case(fp32, 100) == pytest.approx(101 * U, rel=1e-9) and worst_case(fp32, 1) == pytest.approx(2 * U, rel=1e-9)
    step, lost = 2.0**-23 + 9 * 2.0**-24, 2 * 2.0**-22 + 2.0**-44 + 2.0**-22
    low_step = 2 * (1 + 2.0**-11) ** 2 * (2.0**-23 + 8 * 2.0**-24)
    for k, steps in ((8, 1), (9, 2), (64, 8)):
        assert float_sums_worst(unit.scheme, unit.unit, k, 0) == pytest.approx(steps * (step + 2.0**-10 * low_step), rel=1e-6)
        assert worst_case(unit, k) == pytest.approx(lost + steps * (step + 2.0**-10 * low_step) + 2 * U, rel=1e-6)
    assert split_worst(unit.scheme) == pytest.approx(lost)
    moving = plan_of(promote=64, tile=TINY)  # the low products stay: of 128 k sixteen steps
    for k, low, moves in ((64, 8, 1), (128, 16, 2)):
        assert worst_case(moving, k) == pytest.approx(lost + 8 * step + low * low_step * 2.0**-10 + (1 + 2.0**-11) ** 2 * moves * U + 2 * U, rel=1e-6)
    moved = predicted(unit.scheme, unit.unit, 128, 64, compensated=True).worst - predicted(unit.scheme, unit.unit, 128, 64).worst
    assert moved == pytest.approx((1 + 2.0**-11) ** 2 * (U + 0.4 * U * 4.5 * (1 + U)), rel=1e-6)  # a rounding more, and the mean of eight steps' cuts


@pytest.mark.parametrize(("scheme", "of"), [
    ("ootomo", {"main": (1 + 2.0**-11) ** 2, "correction": 2 * (1 + 2.0**-11) ** 2}), ("fp32", {"main": 1}),
    ("bf16x6_apart", {"main": (1 + 2.0**-8) ** 2, "small": 2.0**-7 * (1 + 2.0**-8) ** 2 + 3 * 2.0**-16}), ("tf32x3_apart", {"small": 2.0**-10}),
    ("e4m3x6", {"main": 1.2832}),
])
def test_what_a_sum_of_words_may_come_to(scheme, of):
    """By hand, and of elements a little above and below 1, whose words differ most from what they are taken from: nearly as much, and never more."""
    scheme = SCHEMES.get(scheme)
    for name, want in of.items():
        accumulator = next(one for one in scheme.accumulators if one.name == name)
        assert reach(scheme, accumulator) == pytest.approx(want, rel=1e-3)
        near = (1 + np.linspace(-0.07, 0.07, 20001)).astype(np.float32)
        halves = [split(near[None, :], scheme, operand=operand) for operand in "ab"]
        words = [np.abs(one.planes[:, 0]) / np.ldexp(near, one.exponents[0]) for one in halves]
        found = max(sum(words[0][p.a] * words[1][p.b] for p in scheme.products if p.into == name))
        assert 0.9 * want < found <= reach(scheme, accumulator)


def test_a_long_sum_of_remainders_is_nearly_its_worst_case():
    """1 + 2^-8 twice leaves most of 2^-8 each; 8191 smaller products leave theirs below the last bit of that. A bound of |A||B| times as many steps is
    91 times as wide."""
    plan, left = plan_of(scheme="bf16x6_apart", promote=64, tile=TINY), 1 + 2.0**-8 * (1 - 2.0**-8)
    a, b = np.full((1, 8192), 2.0**-10 * left, np.float32), np.full((8192, 1), 2.0**-10 * left, np.float32)
    a[0, 0] = b[0, 0] = left
    assert 0.15 < share(plan, a, b, computed(plan, a, b)) <= 1
    assert worst_case(plan, 1 << 14) < 1300 * U


@pytest.mark.parametrize("gpu", ["a100", "h100", "t4", "mi210", "mi300x", "rx7900xtx"])
def test_the_worst_case_is_one_whatever_the_data(gpu):
    """Data made to lose: magnitudes over 2^24, ties between words, sums that cancel, one large product before and behind many small ones."""
    rng = np.random.default_rng(7)
    for scheme in ("bf16x6_apart", "bf16x3", "ootomo", "tf32x3_apart"):
        if not can_multiply(gpu, scheme):
            continue
        plan, k = plan_of(scheme=scheme, gpu=gpu, promote=64), 192
        a, b = (rng.choice([-1.0, 1.0], (4, k)) * np.exp2(-rng.uniform(0, 12, (4, k))) for _ in "ab")
        a[1], b[1] = np.exp2(-rng.integers(0, 13, k)) * (1 + 2.0**-8 + 2.0**-12), np.exp2(-rng.integers(0, 13, k)) * (1 + 2.0**-9 - 2.0**-12)
        a[2], a[2, 1::2], b[2] = np.repeat(a[2, ::2], 2), -a[2, ::2], np.repeat(b[2, ::2], 2)
        a[3], b[3], a[3, -1], b[3, -1] = 2.0**-12 * (1 - 2.0**-11), 2.0**-12, 1, 1
        b = np.ascontiguousarray(b.T)
        a, b = a.astype(np.float32), b.astype(np.float32)
        assert 1e-3 < share_of_worst(plan, a, b, None, computed(plan, a, b)) <= 1


def test_what_leaves_fp32s_range_by_hand(monkeypatch):
    """Eight steps of three products: FP32's smallest number each, and nine terms cut at 2^-24 of the smallest normal one."""
    assert TINIEST == 2.0**-149
    assert underflow(plan_of(scheme="bf16x3", tile=TINY), 64) == 3 * 8 * (2.0**-149 + 9 * 2.0**-150)
    assert underflow(plan_of(scheme="bf16x3", tile=TINY), 65) == 3 * 16 * (2.0**-149 + 9 * 2.0**-150)  # two intervals of 64 k
    assert underflow(plan_of(scheme="bf16x3", tile=TINY), 7) == 3 * (2.0**-149 + 9 * 2.0**-150)
    assert underflow(plan_of(scheme="fp32", promote=0), 64) == 64 * 2.0**-150
    # RDNA3 rounds after every k; MI200 flushes four products, their sums and the accumulator, four k at once.
    assert underflow(plan_of(scheme="bf16x6", gpu="rx7900xtx", promote=0), 64) == 6 * 64 * 2.0**-150
    flushing = plan_of(scheme="bf16x6", gpu="mi210", promote=0)
    assert underflow(flushing, 64) == 6 * 16 * 9 * 2.0**-126
    assert underflow(plan_of(scheme="bf16x6", gpu="mi300x", promote=0), 64) == 6 * 8 * (2.0**-149 + 9 * 2.0**-150)  # CDNA 3 cuts nine terms, too
    monkeypatch.setattr(type(flushing), "unit", flushing.unit.model_copy(update={"flushes_subnormals": False}))
    assert underflow(flushing, 64) == 6 * 16 * 4 * 2.0**-149  # a tree that keeps subnormal numbers rounds each of four sums


def test_whose_tiles_fall_back_by_hand():
    """Tiles of two rows of A and of three columns of B: the last row of the second, and the second column of the last, which is narrow."""
    a, b = (np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32) for shape in ((5, 400), (400, 5)))
    a[3, 7], b[5, 4] = 3e4, -3e4
    assert np.argwhere(~fallen(SimpleNamespace(scheme=SCHEMES.get("mixpert1"), block=(2, 3, 32)), a, b)).tolist() == [
        [row, column] for row in (0, 1, 4) for column in (0, 1, 2)
    ]


def test_the_judges_figures():
    assert (MARGIN, AS_FP32, SAMPLE, LEAST_SAMPLE) == (1.25, 2.0, 48, 400)
    found = errors(np.float32([[3, 0]]), np.array([[2.0, 0]]), np.array([[4.0, 0]]))
    assert found == Errors(relative_frobenius=0.5, max_error=0.2, mred=0.25, scaled=0.25)  # 0 / 0 is no error
    assert errors(np.float32([[1]]), np.zeros((1, 1)), np.zeros((1, 1))) == Errors(relative_frobenius=np.inf, max_error=1.0, mred=np.inf, scaled=np.inf)


def test_fp32s_own_error_is_the_measure():
    """Of the sample alone: 1 where neither errs, Inf where FP32 is exact and C is not."""
    one, twice = np.eye(2), 2 * np.eye(2)
    found = Expected(np.array([0]), np.array([0]), 0.0, 0.0)
    assert found.against_fp32(one, one) == 1 and found.against_fp32(twice, one) == np.inf
    assert Expected(np.array([0]), np.array([0]), 0.0, 0.25).against_fp32(twice, np.array([[1.0, 9], [9, 9]])) == 4


@pytest.mark.parametrize(("scheme", "gpu", "both", "one"), [
    ("bf16x3", "a100", 7.3, 22.4), ("half", "a100", 3.1, 3.4), ("fp32", "a100", 2.8, 3.0), ("ootomo", "mi300x", 4.2, 4.7), ("mixpert2", "a100", 2.0, 2.2),
    ("mixpert2_tile", "a100", 2.0, 2.2), ("bf16x6", "rx7900xtx", 3.3, 4.4), ("residues7", "a100", 4.3, 8.9),
])
def test_how_wide_the_statistical_bound_is(scheme, gpu, both, one):
    """Over what is simulated, of data of both signs and of one: recorded, so that a bound that grows wider, or narrower, shows."""
    plan = plan_of(scheme=scheme, gpu=gpu, promote=0)
    for low, wide in ((-1, both), (0, one)):
        problem = oracles.uniform(plan, low, 1, (48, 48, 512), 3)
        ratio = bound(plan, problem.a, problem.b, exact(problem.a, problem.b)).relative_frobenius / expected(plan, problem.a, problem.b).simulated
        assert ratio == pytest.approx(wide, rel=0.05)


BYTES = HOPPER | {"tile": {"block": [64, 32, 128], "warp": [64, 32, 128], "cluster": 1}, "stages": 3}


@pytest.mark.parametrize(("scheme", "options", "coherent", "random", "relative", "scaled", "least"), [
    ("ootomo", {"promote": 64}, 28.944, 8.6706, 117.78, 106.493, 0), ("bf16x3", {"promote": 0}, 195, 232.22, 798.1, 1594, 412.5),
    ("bf16x6", {"gpu": "mi300x", "promote": 64}, 7.9217, 4.9287, 32.276, 67.5359, 1056),
    ("bf16x6", {"gpu": "mi210", "promote": 0}, 5.9498, 7.5425, 24.371, 311.76, 2.2649e10),
    ("ootomo", {"gpu": "rx7900xtx", "promote": 0}, 5.1402, 7.0671, 21.081, 214.586, 0), ("fp32", {"promote": 0}, 4.8362, 5.8737, 19.798, 201, 100),
    ("half", {"promote": 64}, 28.828, 6688.7, 2550.9, 16481, 0), ("mixpert2", {"promote": 0}, 5, 1024, 191.72, 1041.2, 0),
    ("mixpert2_tile", {"promote": 0}, 5.0772, 1024, 191.76, 1048.2, 1.835e6), ("residues7", {"promote": 0}, 2, 2.078, 8.1736, 2.3817, 0),
    ("run_scaled", {"promote": 64}, 28.949, 8.6898, 117.8, 106.493, 6), ("e4m3x6", BYTES, 29055, 17237, 1.1836e5, 1.05737e6, 0), ("ootomo", SMALL_GROUPS | {"sums": "compensated"}, 16.17, 5.7561, 65.808, 62.7605, 0),
], ids=["promoted", "truncated", "floor", "tree", "exact", "no unit", "one word", "integers", "tiles", "residues", "runs", "bytes", "compensated"])
def test_the_parts_of_each_rules_bound(scheme, options, coherent, random, relative, scaled, least):
    """Of 200 k, one of every way that units add and sums move on: in units of 2^-24, of what underflows 2^-149; recorded to five digits, since most terms
    are too small to be seen in the whole."""
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0, 1, (3, 200)).astype(np.float32), rng.uniform(0, 1, (200, 2)).astype(np.float32)
    b[5] = -b[5]
    plan = plan_of(scheme=scheme, **options)
    found = bound(plan, a, b, exact(a, b))
    got = [each / U for each in (found.coherent, found.random, found.relative_frobenius, found.scaled)] + [underflow(plan, 200) / TINIEST]
    assert got == pytest.approx([coherent, random, relative, scaled, least], rel=1e-4)
    # What is lost besides is added: relative to |A||B| the largest, to C the whole.
    lost, magnitude = np.float64([[0, 3e-3], [0, 0], [4e-3, 0]]), np.float64([[1, 2], [0, 1], [1, 1]])
    more = found.beside(lost, np.full((3, 2), 0.5), magnitude)
    assert (more.scaled - found.scaled, more.relative_frobenius - found.relative_frobenius) == pytest.approx((4e-3, 5e-3 / np.sqrt(1.5)))
    assert found.beside(0.0, lost, magnitude) is found and found.beside(lost, 0 * lost, magnitude).relative_frobenius == np.inf


def test_a_product_that_is_zero_may_not_err():
    """Unless its terms cancel."""
    plan, one = plan_of(scheme="fp32", promote=0), np.ones((2, 2), np.float32)
    opposite = np.float32([[1, 1], [-1, -1]])
    assert bound(plan, 0 * one, one, np.zeros((2, 2))).relative_frobenius == 0
    assert bound(plan, one, opposite, np.zeros((2, 2))).relative_frobenius == np.inf
    assert relative_frobenius(one, 0 * one) == np.inf and relative_frobenius(0 * one, 0 * one) == 0
    for fp32, wrong, want in ((0.5, 0.5, 1), (0.5, 1.0, 2), (0.0, 0.0, 1), (0.0, 0.5, np.inf)):
        assert Expected(np.arange(2), np.arange(2), 0.0, fp32).against_fp32(one * (1 + wrong), one) == want
    with_inf, finite = np.float64([[1e300, 1]]), np.array([[False, True]])
    for c, same in (([np.inf, 1], True), ([np.inf, np.inf], False), ([1, 1], False), ([-np.inf, 1], False)):
        assert same_special(np.float32([c]), with_inf, finite) == same


def test_what_an_accumulator_swallows_and_who_sums_which_k():
    """(u N)^2 / (12 share) of 2^20 steps: 1 / 3072 where products are of one size, twice 1 / 1536 of two halves; of more steps a quarter of the terms."""
    for scheme, at, few in (("bf16x3", 0, 1 / 3072), ("legemm", 0, 1 / 3072), ("legemm", 1, 2 / 1536), ("ootomo", 1, 0)):
        scheme = SCHEMES.get(scheme)
        assert _swallowed(scheme, scheme.accumulators[at], 1 << 20) == pytest.approx(few)
        assert _swallowed(scheme, scheme.accumulators[at], 1 << 40) == (0.25 if few else 0)
    assert fixed.added(3) == pytest.approx((U / np.sqrt(3), U * np.sqrt(2 / 3)))
    two = SimpleNamespace(block=(64, 64, 32), warp=(32, 32, 16), split_k=2, geometry=SimpleNamespace(warps_k=2))  # four stages of 100 k, two a slice
    k = np.arange(100)
    want = [[k[(k // 64 == part) & (k // 16 % 2 == warp)].tolist() for warp in range(2)] for part in range(2)]
    assert [[mine.tolist() for mine in of_warps] for of_warps in shares(two, 100)] == want


def test_nothing_is_left_of_an_operand_that_is_stored_as_words():
    """Of A, which is split, the bound has what its words leave; of B what it is."""
    stored, apart = SCHEMES.get("bf16x2_bb16"), SCHEMES.get("bf16x3")
    assert _left(stored, 1, "b") == (0.0, 0.0) and _left(stored, 0, "b") == (1.0, 1.0)
    assert all(2.0**-10 < _left(one, 1, x)[1] < 2.0**-8 for one, x in ((stored, "a"), (apart, "a"), (apart, "b")))  # to nearest: the mean is 0


@pytest.mark.parametrize(("operand", "gpu"), [("a", "a100"), ("b", "b200"), ("a", "mi300x")])
def test_a_slice_of_k_has_the_scales_of_whole_rows(operand, gpu):
    """The largest element, 1, is in the first slice: integer words hold multiples of 2^-13 of the elements in the other two."""
    plan = plan_of("mixpert1", gpu, promote=0, split_k=3, tile={"block": [32, 32, 32], "warp": [32, 32, 32]})
    row = np.zeros((1, 3 * 32), np.float32)
    row[0, 0], row[0, 40], row[0, 70] = 1.0, 2.0**-14 * 0.75, 2.0**-10 + 2.0**-15
    ones = np.ones((1, 3 * 32), np.float32)
    a, b = (row, ones.T) if operand == "a" else (ones, row.T)
    assert computed(plan, a, np.ascontiguousarray(b)) == 1 + 2.0**-10


def test_warps_that_share_a_stage_sum_each_k_once():
    """Four warps of 16 k each, and stages of 64: ones of 150 k are 150, also where slices end within them."""
    plan = plan_of("half", where="lane", loads="direct", stages=2, split_k=2, promote=0, tile={"block": [16, 8, 64], "warp": [16, 8, 16]})
    assert plan.geometry.warps_k == 4
    assert (computed(plan, np.ones((1, 150), np.float32), np.ones((150, 2), np.float32)) == 150).all()


@pytest.mark.parametrize(("name", "small"), [("bf16x6_apart", 2.0**-8), ("tf32x3_apart", 2.0**-11), ("ootomo", 1.0), ("f16_s8", 1.0)])
def test_a_sum_of_remainders_loses_what_they_are_worth(name, small):
    """Of one ulp of the word before; scaled up they are as large as it. So the sum that is never promoted counts for little, however long it is."""
    scheme = SCHEMES.get(name)
    sizes = {one.name: _size(scheme, one) for one in scheme.accumulators if one.type == "f32"}
    assert sizes.pop("main", 1.0) == 1.0 and set(sizes.values()) <= {small}
    if small < 1:
        plan = plan_of(name, gpu="h200", promote=64, fragment={"policy": "wgmma"}, tile={"block": [64, 64, 32], "warp": [64, 64, 32]})
        a, b = (np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32) for shape in ((4, 4096), (4096, 4)))
        found = bound(plan, a, b, a.astype(float) @ b.astype(float))
        (apart,) = [one for one in scheme.accumulators if one.name != "main"]
        alone = _accumulation(4096, 4096, scheme, apart, plan.unit)[1]
        assert small * alone < found.random < 2 * small * alone + 6e-7 < alone / 4
