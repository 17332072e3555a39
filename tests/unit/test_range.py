"""What is promised of any data: where nothing is counted, every element is within the deterministic bound.

Over all of FP32's magnitudes, for every scheme on a unit of every rule, by the model of what a right kernel computes
(`emulate.core.product`); `verify` asks the same of kernels.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from gemmgen.catalog.scheme import SCHEMES, Scheme
from gemmgen.emulate.core.product import product
from gemmgen.plan import Plan
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.split import set_aside, split
from gemmgen.verify import oracles
from gemmgen.verify.bound import allowance, underflow, worst_case
from gemmgen.verify.expected import sequential
from gemmgen.verify.metrics import exact
from ways import SPLITTING, covering, pairs_of_units

GPUS = ("a100", "h100", "t4", "mi210", "mi300x", "rx7900xtx")


@cache
def plan_of(gpu: str, scheme: str) -> Plan:
    """A plan of small tiles with the scheme, on any unit that has its words."""
    warp = [64, 64, 32] if of_warpgroups(scheme) else [32, 32, 32]
    return solve(loads({"split": {"scheme": scheme}, "tile": {"block": [64, 64, 32], "warp": warp}, "target": {"gpu": gpu}}))


def of_warpgroups(scheme: str) -> bool:
    """Whether warpgroups alone have kernels of a scheme."""
    return not SCHEMES.get(scheme).uniform or SCHEMES.get(scheme).leading == "e4m3"


def pairs() -> list[tuple[str, str]]:
    words = {"t4": {"f16", "s8"}, "mi210": {"f16", "bf16"}, "rx7900xtx": {"f16", "bf16"}}
    # Residues lose nothing of an element but by its row; tests/unit/test_residues.py has their ranges.
    return [(gpu, name) for gpu in GPUS for name in SPLITTING if not SCHEMES.get(name).family.residues
            if (gpu == "h100" if of_warpgroups(name) else SCHEMES.get(name).leading in words.get(gpu, {"f16", "bf16", "tf32", "s8"}))
            or (SCHEMES.get(name).exact and gpu == "a100")]


def computed(plan: Plan, problem: oracles.Problem) -> np.ndarray:
    """What a right kernel computes before it repairs anything."""
    with np.errstate(all="ignore"):
        if not plan.fragment.on_matrix_unit:
            return sequential(problem.a, problem.b)
        return product(plan.scheme, plan.unit, problem.a, problem.b, promote=plan.promote, fragment_k=plan.fragment.shape[2])


def silent_violations(plan: Plan, problem: oracles.Problem, counted=lambda words: words.counted) -> tuple[int, int]:
    """How many elements are promised something, and of how many the promise is broken."""
    a, b = (split(x, plan.scheme, plan.launches.flushes_words) for x in (problem.a, np.ascontiguousarray(problem.b.T)))
    with np.errstate(all="ignore"):
        want, magnitude = exact(problem.a, problem.b), exact(np.abs(problem.a), np.abs(problem.b))
        error = np.abs(computed(plan, problem).astype(np.float64) - want)
    promised = ~counted(a)[:, None] & ~counted(b)[None, :] & (magnitude < 2.0**127)
    return int(promised.sum()), int((promised & ~(error <= allowance(plan, problem.a, problem.b, magnitude))).sum())


@pytest.mark.parametrize(("gpu", "scheme"), covering(pairs()))
def test_what_is_not_counted_is_within_the_bound(gpu, scheme):
    plan = plan_of(gpu, scheme)
    promised, broken = silent_violations(plan, oracles.all_ranges(plan, 1, (96, 96, 40)))
    assert promised > 500 and broken == 0


@pytest.mark.long
@pytest.mark.parametrize(("gpu", "scheme"), pairs())
def test_what_is_not_counted_is_within_the_bound_of_many(gpu, scheme):
    plan = plan_of(gpu, scheme)
    for seed, k in enumerate((1, 8, 33, 129, 400)):
        promised, broken = silent_violations(plan, oracles.all_ranges(plan, 10 + seed, (160, 160, k)))
        assert promised > 1000 and broken == 0, (seed, k)


# ---- data that used to pass in silence


def both(a: np.ndarray | float, b: np.ndarray | float, shape: tuple[int, int, int] = (5, 6, 64)) -> oracles.Problem:
    m, n, k = shape
    return oracles.Problem(np.broadcast_to(np.float32(a), (m, k)).astype(np.float32), np.broadcast_to(np.float32(b), (k, n)).astype(np.float32))


def integers(shape: tuple[int, ...], scale: int) -> np.ndarray:
    return np.ldexp(np.random.default_rng(0).integers(-127, 128, shape).astype(np.float32), scale)


DROPPED = ("ootomo", "ootomo8", "legemm", "ootomo_flushed")
SILENT = {
    "far below the words, everywhere": both(2.0**-26, 2.0**-26),
    "the same with two bits": both(3 * 2.0**-26, 3 * 2.0**-26),
    "small integers far below, against ordinary numbers": oracles.Problem(
        integers((5, 64), -30), np.random.default_rng(1).uniform(0.5, 1, (64, 6)).astype(np.float32)),
    "eleven bits below the normal range": both((1 + 2.0**-10) * 2.0**-16, (1 + 2.0**-10) * 2.0**-16),
}


@pytest.mark.parametrize("name", SILENT)
@pytest.mark.parametrize("scheme", DROPPED)
def test_elements_of_which_only_low_words_know_are_counted(scheme, name):
    """Their product is one that the scheme drops."""
    problem = SILENT[name]
    words = split(problem.a, SCHEMES.get(scheme))
    assert words.lossy == np.count_nonzero(problem.a)


@pytest.mark.parametrize("scheme", DROPPED)
def test_the_words_remainder_alone_does_not_tell(scheme):
    """What was counted before: only elements of which something is left over after all words."""
    plan = plan_of("a100", scheme)
    problem = SILENT["the same with two bits"]

    def by_remainder(words):
        return np.zeros(len(words.planes[0]), bool)  # both words together hold 3 * 2^-26 as it is

    held = split(problem.a, plan.scheme).planes
    assert (held[0] + held[1] * 2.0 ** -plan.scheme.words[1].scale == problem.a).all()
    assert silent_violations(plan, problem, by_remainder) == (30, 30)


def test_elements_that_row_scales_take_to_zero_are_counted():
    """2^163 below their row's largest, an element vanishes when it is scaled."""
    plan = plan_of("a100", "scaled")
    a = np.zeros((3, 32), np.float32)
    a[:, 0], a[:, 1:], a[2] = 1e30, 1e-20, 1e-20
    b = np.ones((32, 4), np.float32)
    b[0] = 0
    words = split(a, plan.scheme)
    assert words.is_lossy.sum(axis=1).tolist() == [31, 31, 0]
    assert silent_violations(plan, oracles.Problem(a, b))[1] == 0
    assert silent_violations(plan, oracles.Problem(a, b), lambda words: np.zeros(words.planes.shape[1], bool))[1] == 8


@pytest.mark.parametrize("scheme", ["bf16x3", "bf16x6", "tf32x3", "fp32"])
def test_products_below_fp32s_range_are_in_the_promise(scheme):
    plan = plan_of("a100", scheme)
    problem = both(1e-25, 1e-25)
    assert not split(problem.a, plan.scheme).counted.any()
    assert silent_violations(plan, problem) == (30, 0)
    magnitude = exact(np.abs(problem.a), np.abs(problem.b))
    assert (magnitude > worst_case(plan, 64) * magnitude).all() and computed(plan, problem).max() == 0


def test_words_of_fp16_lose_nothing_below_fp32s_range():
    assert {underflow(plan_of("a100", scheme), 4096) for scheme in ("ootomo", "scaled", "half", "markidis")} == {0.0}
    plan = plan_of("a100", "bf16x3")
    assert underflow(plan, 1) < underflow(plan, 4096) < 4096 * 2.0**-145
    flushed = plan_of("mi210", "bf16x3")
    assert underflow(flushed, 64) > 2.0**20 * underflow(plan, 64)


# ---- where the scheme's range begins


@pytest.mark.parametrize(("scheme", "kept", "flushed"), [
    ("ootomo", -14, -3), ("ootomo8", -14, -6), ("legemm", -14, -4), ("scaled", -3, 8), ("markidis", -4, 6), ("half", -14, -14),
    ("bf16x3", -118, -110), ("bf16x6", -110, -102), ("bf16x9", -110, -102), ("tf32x3", -115, -104), ("ootomo_flushed", -14, -3), ("f16x6", -14, 8),
    ("scaled_f16x6", -14, 8), ("fp32", None, None),
])
def test_where_elements_begin_to_count(scheme, kept, flushed):
    """By hand: what the last word's smallest step leaves, as a share of the element."""
    row = SCHEMES.get(scheme)
    assert row.precision.lowest() == kept
    assert row.precision.lowest(flushes=True) == flushed


@pytest.mark.parametrize("flushes", [False, True])
@pytest.mark.parametrize("scheme", [name for name in SPLITTING if SCHEMES.get(name).normalize == "none" and name != "fp32"])
def test_nothing_in_range_counts_and_everything_far_below_does(scheme, flushes):
    row = SCHEMES.get(scheme)
    rng = np.random.default_rng(2)
    low, high = row.precision.lowest(flushes), row.format.max_exponent - 1
    inside = np.ldexp(rng.uniform(1, 2, 20000), rng.integers(low, high, 20000)).astype(np.float32)
    assert split(inside[None], row, flushes).lossy == 0
    below = np.ldexp(rng.uniform(1, 1.99, 2000), rng.integers(max(low - 40, -149), row.format.min_exponent, 2000)).astype(np.float32)
    assert split(below[None], row, flushes).lossy == np.count_nonzero(below)
    if low > row.format.min_exponent and not flushes:  # just below, some are
        near = np.ldexp(rng.uniform(1, 2, 20000), low - 1).astype(np.float32)
        assert 0 < split(near[None], row, flushes).lossy < 20000


def test_a_third_word_of_a_larger_scale_is_not_hidden_behind():
    """A dropped product that supposes the second word's remainder small is counted by that remainder."""
    row = SCHEMES.get("bf16x6")
    assert row.precision.checkpoints_of("a") == (3,)
    words = [word.model_copy(update={"scale": scale}) for word, scale in zip(row.words, (0, 0, 40))]
    odd = Scheme.model_construct(**dict(row) | {"words": tuple(words)})  # a copy would have what is remembered of the row
    assert odd.precision.checkpoints_of("a") == (2, 3)
    x = np.float32(2.0**-120 + 2.0**-136 + 2.0**-140)
    assert split(np.array([[x]], np.float32), odd).lossy == 1


# ---- the check that verify makes of it, by wrong answers


def test_a_promise_that_is_broken_shows():
    plan = plan_of("a100", "ootomo")
    for wrong in (replace(plan, scheme=SCHEMES.get("half")),):
        problem = oracles.all_ranges(plan, 1, (96, 96, 40))
        off = np.abs(computed(wrong, problem) - exact(problem.a, problem.b))
        magnitude = exact(np.abs(problem.a), np.abs(problem.b))
        with np.errstate(invalid="ignore"):
            assert (off > allowance(plan, problem.a, problem.b, magnitude)).sum() > 500


# ---- hard data on every unit

def hard(plan: Plan, k: int = 70) -> oracles.Problem:
    """Rows of A and columns of B of one kind each: mixed magnitudes, subnormals, what overflows, cancels, stands out, is -0, Inf or NaN, ends words."""
    rng = np.random.default_rng(3)
    even = rng.uniform(-1, 1, k)
    outlier, infinite, none = even.copy(), even.copy(), even.copy()
    outlier[5], infinite[7], none[9] = 1e30, np.inf, np.nan
    halves = rng.uniform(0.5, 1, k // 2)
    ends = [sign * 2.0 ** (power + rng.integers(-1, 2)) for power, sign in zip(np.resize((0, -11, -14, -24, -8, -22), k), np.resize((1, -1, 1), k))]
    lines = [
        even * np.exp2(rng.integers(-40, 40, k)), even * np.exp2(rng.integers(-12, 12, k)), even * 2.0**-130, np.full(k, 2.0**-149), even * 2.0**120,
        even * 7e4, np.concatenate([halves, -halves]), np.resize((1.0, -1 - 2.0**-23), k), outlier, infinite, none, np.full(k, -0.0), np.array(ends), even,
    ]
    a = np.array(lines).astype(np.float32)
    return oracles.Problem(a, plan.inputs.stored_b.rounded(np.ascontiguousarray(a[rng.permutation(len(a))].T)))


@pytest.mark.parametrize(("gpu", "scheme"), covering((gpu, name) for gpu, name in pairs_of_units() if not SCHEMES.get(name).family.residues))
def test_hard_data_is_within_the_bound_or_counted_or_repaired(gpu, scheme):
    """None silent: nothing that a counter of the promise tells, and no sum that overflowed, which kernels compute again."""
    plan = solve(loads({
        "problem": {"b": SCHEMES.get(scheme).b or "f32"}, "split": {"scheme": scheme}, "target": {"gpu": gpu}, "build": {"allow_spills": True},
    }))
    problem = hard(plan)
    a, b = (split(x, plan.scheme, plan.launches.flushes_words, operand=of) for of, x in (("a", problem.a), ("b", np.ascontiguousarray(problem.b.T))))
    finite_a, finite_b = np.isfinite(problem.a).all(axis=1), np.isfinite(problem.b).all(axis=0)
    told = [~finite if plan.scheme.family.by_row or plan.scheme.exact else one.counted for one, finite in ((a, finite_a), (b, finite_b))]
    assert all((one.counted | finite)[at].all() for one, finite in ((a, finite_a), (b, finite_b)) for at in [~finite])
    clean = oracles.Problem(np.where(finite_a[:, None], problem.a, np.float32(0)), np.where(finite_b, problem.b, np.float32(0)))
    with np.errstate(all="ignore"):
        want, magnitude, c = exact(clean.a, clean.b), exact(np.abs(clean.a), np.abs(clean.b)), computed(plan, clean).astype(np.float64)
        fine = np.abs(c - want) <= allowance(plan, clean.a, clean.b, magnitude)
    promised = ~told[0][:, None] & ~told[1][None, :]
    silent = promised & ~fine & np.isfinite(c)
    assert not silent.any(), f"rows and columns {np.argwhere(silent)[:5].tolist()}"
    assert (fine | (magnitude >= 2.0**127))[promised].all() and promised.any()


@pytest.mark.parametrize(("scheme", "aside"), [("ootomo", [False] * 3), ("scaled", [False] * 3), ("mixpert1", [False, True, True])])
def test_only_integer_words_have_rows_set_aside(scheme, aside):
    """Floating-point words have an Inf and a NaN of their own, whatever scales their rows have."""
    assert set_aside(np.float32([[1, 2], [np.inf, 1], [1, np.nan]]), SCHEMES.get(scheme)).tolist() == aside
