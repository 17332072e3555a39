"""The error that is predicted of every scheme, the one that is simulated, and specs that ask for an error instead of a scheme."""

from __future__ import annotations

import ast
import itertools
import json
from dataclasses import replace
from math import inf, isfinite
from types import SimpleNamespace

import numpy as np
import pytest

from gemmgen import road
from gemmgen.catalog.element import F32
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.output import all_outputs
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.catalog.unit import UNITS
from gemmgen.emulate.core.product import product
from gemmgen.decisions import SUMS
from gemmgen.errors import InfeasibleSpec, SpecError
from gemmgen.model import accuracy
from gemmgen.model.accuracy import DISTRIBUTIONS, predicted, word_sizes
from gemmgen import picture
from gemmgen.solve import solve
from gemmgen.solve.contract import EVERYWHERE, ROUNDED, Contract, Short, contract, fp32_estimate, tf32_estimate
from gemmgen.solve.promotion import promotion
from gemmgen.solve.request import requests
from gemmgen.solve.frontier import Frontier, Point, _better, _others, _point, joined, with_scheme
from gemmgen.spec import loads
from gemmgen.split import of_elements, split
from gemmgen.verify.bound import bound, lost
from gemmgen.verify.expected import sequential
from gemmgen.verify.fixed import reach
from gemmgen.verify.metrics import errors

from ways import FP32_SCHEMES, can_multiply, covering, sampled

FACTOR = 4
ROWS = 12
UNIT_NAMES = ("hopper", "ampere", "cdna1", "cdna2", "cdna3", "rdna3")


def simulated(scheme, unit, data: str, k: int, promote: int):
    """(errors, gate, prediction) of a right kernel's arithmetic, beside what a unit that flushes loses of the words."""
    rng = np.random.default_rng(k)
    a, b = (DISTRIBUTIONS[data].draw(rng, shape).astype(np.float32) for shape in ((ROWS, k), (k, ROWS)))
    on_unit = not scheme.exact
    plan = SimpleNamespace(
        scheme=scheme, promote=promote, promotion=SimpleNamespace(compensates=False, promotes=lambda acc: bool(promote) and acc.promoted),
        fragment=SimpleNamespace(on_matrix_unit=on_unit), unit=unit,
        gpu=SimpleNamespace(unit=unit), output=all_outputs()["f32"], type=F32,
        launches=SimpleNamespace(flushes_words=on_unit and bool(unit.flushes_subnormals)),
    )
    c = product(scheme, unit, a, b, promote=promote) if on_unit else sequential(a, b)
    reference, magnitude = F32.exact(a, b), reach(scheme, a, b) if scheme.family.by_row else F32.exact(np.abs(a), np.abs(b))
    missing = lost(plan, a, b, reference)
    gate = bound(plan, a, b, reference).beside(missing, reference, magnitude)
    return errors(c, reference, magnitude), gate, predicted(scheme, unit if on_unit else None, k, promote, DISTRIBUTIONS[data])


# ---- the estimate, and what is simulated

CASES = [
    (scheme.name, unit, data, k, promote)
    for scheme, unit, data, k, promote in itertools.product(FP32_SCHEMES, UNIT_NAMES, DISTRIBUTIONS, (96, 1024, 4096, 16384), (0, 64))
    if not scheme.b and ((unit, promote) == ("hopper", 0) if scheme.exact else scheme.leading in UNITS.get(unit).block) and (k < 16384 or unit == "hopper")
]


@pytest.mark.parametrize(("scheme", "unit", "data", "k", "promote"), covering(CASES))
def test_the_simulated_error_is_within_the_bounds_and_near_the_estimate(scheme, unit, data, k, promote):
    scheme, unit = SCHEMES.get(scheme), UNITS.get(unit)
    with np.errstate(all="ignore"):
        found, gate, prediction = simulated(scheme, unit, data, k, promote)
    sizes = word_sizes(scheme, None if scheme.exact else unit, DISTRIBUTIONS[data])
    if not sizes.in_range:
        assert prediction.estimate == inf
        return
    assert found.relative_frobenius <= gate.relative_frobenius
    if scheme.precision.whole_range or data != "spread":  # elements below the words' range are counted, and no bound speaks of them
        assert found.scaled <= gate.scaled
    if data in ("uniform", "positive"):
        assert found.relative_frobenius <= FACTOR * prediction.estimate
        # What is lost of words that few elements have is an expectation, which a small sample may miss.
        assert found.relative_frobenius >= prediction.estimate / FACTOR or sizes.lost


@pytest.mark.parametrize("data", ["uniform", "positive", "normal"])
@pytest.mark.parametrize("scheme", [row.name for row in SCHEMES.rows() if not (row.exact or row.family.residues or row.b)])
def test_words_are_as_large_as_the_split_makes_them(scheme, data):
    """Of the reference split: what the words leave, and each of them, in the root mean square."""
    row = SCHEMES.get(scheme)
    x = DISTRIBUTIONS[data].draw(np.random.default_rng(1), (64, 512)).astype(np.float32)
    words = split(x, row)
    # Tiles of k have scales of their own, of which what words leave is scaled back to be told beside the elements.
    scales = of_elements(words.exponents, row, x.shape[1])
    rest = np.ldexp(x.astype(np.float64), scales)
    back = -scales if row.family.tile_k else 0
    size, sizes = np.sqrt((np.ldexp(rest, back) ** 2).mean()), word_sizes(row, None, DISTRIBUTIONS[data])
    # Of normal data a row's largest lies in either of two binades, and with it the last place of all its integers.
    near = 0.6 if row.family.by_row and data == "normal" else 0.35
    rests = [rest]
    for word, plane in zip(words.words, words.planes):
        rests.append(rests[word.source] - plane * 2.0**-word.scale)
    for rest, rms in zip(rests, sizes.rms, strict=True):
        left = np.sqrt((np.ldexp(rest, back) ** 2).mean()) / size
        assert left == pytest.approx(rms, rel=near) if rms else left < 2.0**-26  # the last bits of FP32 numbers are not evenly spread


def test_estimates_by_hand():
    """Sequential FP32 at 4096: 2^-24 sqrt(4097 / (16 ln 2)); on U[0, 1] roundings count in squares of what is summed: a third and not a half."""
    fp32 = SCHEMES.get("fp32")
    assert predicted(fp32, None, 4096, 0).estimate == pytest.approx(1.1456e-6, rel=1e-3)
    assert predicted(fp32, None, 4096, 0, DISTRIBUTIONS["positive"]).estimate == pytest.approx(0.89 * 9.35e-7, rel=1e-2)  # which is what is measured of it
    assert predicted(fp32, None, 4096, 0).worst == pytest.approx(4097 * 2.0**-24, rel=1e-6)
    # One FP16 word: two operands, each 2^-10 sqrt(1 / 12) sqrt(3 / 7) off.
    assert predicted(SCHEMES.get("half"), GPUS.get("h100").unit, 64, 0).estimate == pytest.approx(2**0.5 * 2.0**-10 * (1 / 12 * 3 / 7) ** 0.5, rel=1e-2)


def test_what_a_distribution_is():
    for data in DISTRIBUTIONS.values():
        assert sum(share for _, share in data.binades) == pytest.approx(1, abs=1e-3)
        x = np.abs(data.draw(np.random.default_rng(0), (4096,)))
        for e, share in data.binades:
            assert ((x >= 2.0**e) & (x < 2.0 ** (e + 1))).mean() == pytest.approx(share, abs=0.03)
        a, b = (data.draw(np.random.default_rng(seed), (1 << 16,)) for seed in (1, 2))
        assert (a * b).mean() ** 2 / (a**2 * b**2).mean() == pytest.approx(data.sign_share, abs=0.05)


@pytest.mark.parametrize("unit", UNIT_NAMES)
def test_longer_sums_err_more_and_promotion_helps(unit):
    unit, scheme = UNITS.get(unit), SCHEMES.get("ootomo")
    for data in DISTRIBUTIONS.values():
        if word_sizes(scheme, unit, data).in_range:
            grown = [predicted(scheme, unit, k, 0, data).estimate for k in (64, 1024, 16384)]
            assert grown == sorted(grown)
            worst = [predicted(scheme, unit, k, 64, data).worst for k in (64, 1024, 16384)]
            assert worst == sorted(worst)
    if not unit.rounds_to_nearest:
        assert predicted(scheme, unit, 4096, 64).estimate < predicted(scheme, unit, 4096, 0).estimate / 5


def test_numbers_of_equations_are_their_own():
    from gemmgen.model import error

    numbers = [one.number for one in (*error.EQUATIONS, *accuracy.EQUATIONS)]
    assert sorted(numbers, key=lambda number: int(number[1:])) == [f"E{at}" for at in range(1, 25)]


# ---- the contract


def asking(gpu: str = "h100", k: int = 4096, split=None, **asked):
    return loads({"accuracy": asked, "target": {"gpu": gpu}, "problem": {"k": k}, **({"split": split} if split else {})})


@pytest.mark.parametrize(("gpu", "asked"), covering(itertools.product(["mi300x", "mi210", "a100", "h100"], [
    {"as": "fp32"}, {"as": "tf32"}, {"relative_frobenius": 5e-7}, {"scaled": 3e-5}, {"relative_frobenius": 1e-6, "data": "positive"},
])))
def test_what_is_chosen_gives_the_error_and_nothing_faster_does(gpu, asked):
    loaded = asking(gpu, **asked)
    plan, agreed = solve(loaded), contract(loaded)
    unit = plan.unit if plan.fragment.on_matrix_unit else None
    assert agreed.times(plan.scheme, unit, plan.promote, plan.promotion.compensates) <= 1
    seconds = plan.model["seconds"]
    for scheme in FP32_SCHEMES:
        for promote in (None, 0):
            try:
                other = solve(asking(gpu, split={"scheme": scheme.name} | ({} if promote is None else {"promote": promote})))
            except InfeasibleSpec:
                continue
            on_unit = other.unit if other.fragment.on_matrix_unit else None
            if agreed.times(scheme, on_unit, other.promote, other.promotion.compensates) <= 1:
                assert seconds <= other.model["seconds"] * 1.0001, (scheme.name, promote)


def test_looser_errors_are_no_slower():
    taken = [solve(asking("a100", relative_frobenius=error)) for error in (2e-7, 1e-6, 1e-5, 1e-3)]
    seconds = [plan.model["seconds"] for plan in taken]
    assert seconds == sorted(seconds, reverse=True)
    assert taken[-1].scheme.name == "half" and taken[-1].promote == 0


@pytest.mark.parametrize("k", sampled([4096, 256, 16384], 1))
def test_as_fp32_holds_whole_rows_of_fp32(k):
    """No scheme whose words overflow on the spread; its own error and not more on each of the three."""
    plan = solve(asking("a100", k=k, **{"as": "fp32"}))
    assert plan.scheme.precision.whole_range or plan.scheme.format.max_exponent == 127
    for data in ("uniform", "positive", "spread"):
        unit = plan.unit if plan.fragment.on_matrix_unit else None
        assert predicted(plan.scheme, unit, k, plan.promote, DISTRIBUTIONS[data]).estimate <= fp32_estimate(k, DISTRIBUTIONS[data])


def test_an_interval_that_the_spec_fixes_stays():
    assert solve(asking(relative_frobenius=1e-6, split={"promote": 32})).promote == 32
    with pytest.raises(InfeasibleSpec, match="no scheme reaches this on rx9070xt"):
        solve(asking("rx9070xt", relative_frobenius=1e-8, split={"promote": 0}, k=1 << 20))


def test_what_nobody_reaches_is_refused_with_the_best():
    with pytest.raises(InfeasibleSpec) as refused:
        solve(asking(relative_frobenius=1e-9))
    error = refused.value
    assert error.where == "spec: [accuracy] relative_frobenius" and error.got == 1e-9 and error.needs == "relative_frobenius <= 1e-09 on U[-1, 1]"
    unit = GPUS.get("h100").unit
    best = min(
        predicted(row, unit.of(row.leading, "wgmma"), 4096, promote).estimate for row in FP32_SCHEMES if not (row.exact or row.b) for promote in (16, 32, 64)
    )
    assert error.has.startswith("at best ") and float(error.has.split(": ")[1].split()[0]) == pytest.approx(best, rel=0.3) and error.remedy


def promoting(sums="auto", promote=None, on_unit=True, to_nearest=False, choice=True, run_k=None, design=lambda wanted: wanted):
    """What the interval of promotion is decided of: a fragment with k = 16 and a sum of 4096; the design takes `design` of what it is asked."""
    return SimpleNamespace(
        spec=SimpleNamespace(split=SimpleNamespace(sums=sums, promote=promote), tile=SimpleNamespace(block="a block"),
                             problem=SimpleNamespace(extents=(64, 128, 4096))),
        place="spec", fragment=SimpleNamespace(on_matrix_unit=on_unit, shape=(8, 4, 16)), unit=SimpleNamespace(rounds_to_nearest=to_nearest),
        scheme=SimpleNamespace(name="mine", family=SimpleNamespace(run_k=run_k)),
        design=SimpleNamespace(own=(SUMS,) if choice else (), promote=lambda wanted, scheme, block, k, fragment: design(wanted) if (block, k) == (
            "a block", 4096) else None),
    )


@pytest.mark.parametrize(("options", "decided"), [
    ({}, (48, "plain")), ({"sums": "plain"}, (48, "plain")), ({"promote": 0}, (0, "plain")), ({"promote": 32, "sums": "compensated"}, (32, "compensated")),
    ({"sums": "compensated"}, (64, "compensated")), ({"sums": "compensated", "to_nearest": True}, (32, "compensated")), ({"on_unit": False}, (0, "plain")),
    ({"design": lambda wanted: wanted + 16}, (64, "plain")),
])
def test_an_interval_that_no_error_asks_for(options, decided, monkeypatch):
    asked = []
    monkeypatch.setattr("gemmgen.solve.promotion.promote_for", lambda *given: asked.append(given) or 48)
    case = promoting(**options)
    assert promotion(case, None) == decided and all(one == (case.scheme, case.unit, 16, 4096) for one in asked)
    monkeypatch.setattr("gemmgen.solve.promotion.promote_for", lambda *given: 0)  # what the error needs none for, no design promotes
    assert promotion(promoting(design=lambda wanted: 7), None) == (0, "plain")


FIGURES = {(0, "plain"): 9.0, (64, "plain"): 3.0, (32, "plain"): 1.0, (16, "plain"): 0.5, (64, "compensated"): 0.7, (32, "compensated"): 0.1}


@pytest.mark.parametrize(("options", "changed", "decided"), [
    ({}, {}, (32, "plain")), ({"sums": "compensated"}, {}, (64, "compensated")), ({"choice": False, "sums": "compensated"}, {(32, "compensated"): 2.0},
                                                                                 2.0),
    ({}, {(32, "plain"): 1.1, (16, "plain"): 1.2}, (64, "compensated")), ({"choice": False}, {(32, "plain"): 1.1, (16, "plain"): 1.2}, 1.1),
    ({"promote": 16}, {}, (16, "plain")), ({"promote": 64}, {(64, "compensated"): 2.0}, 2.0), ({"promote": 64, "sums": "plain"}, {}, 3.0),
    ({"on_unit": False}, {}, 9.0), ({"on_unit": False}, {(0, "plain"): 1.0}, (0, "plain")),
    ({"design": lambda wanted: wanted // 2}, {}, (32, "plain")), ({"design": lambda wanted: 64}, {(64, "compensated"): 8.0, (32, "compensated"): 5.0}, 3.0),
    ({"run_k": 1024}, {}, (32, "plain")), ({"run_k": 1024}, {(0, "plain"): 0.5}, (32, "plain")), ({"run_k": 1024, "promote": 0}, {(0, "plain"): 0.5}, (0, "plain")),
    ({"run_k": 1024, "choice": False}, {(32, "plain"): 2.0}, 2.0),
    ({"run_k": 1024, "on_unit": False}, {}, (32, "plain")), ({"run_k": 1024, "on_unit": False, "sums": "compensated"}, {}, (32, "compensated")),
    ({"run_k": 1024, "on_unit": False}, {(32, "plain"): 1.5}, 1.5),
])
def test_the_first_interval_that_gives_the_error_asked_or_the_least_error_that_there_is(options, changed, decided):
    """`decided` is what is taken, or the figure of the refusal: the least of those that were tried."""
    known, seen = FIGURES | changed, []
    case = promoting(**options)
    unit = case.unit if case.fragment.on_matrix_unit else None

    def key(scheme, on, promote, compensated):
        assert (scheme, on) == (case.scheme, unit)
        return promote, "compensated" if compensated else "plain"

    def times(*given):
        seen.append(key(*given))
        return known[seen[-1]]

    asked = SimpleNamespace(key="scaled", asked=1e-9, text="so little", times=times, told=lambda *given: str(key(*given)), promotions=lambda k, chosen: [
        one for one in FIGURES if one[1] == "plain" or chosen] if k == 16 else [])
    if isinstance(decided, tuple):
        assert promotion(case, asked) == decided
    else:
        with pytest.raises(Short) as refused:
            promotion(case, asked)
        error = refused.value
        assert error.times == min(known[one] for one in seen) == decided and known[ast.literal_eval(error.figure)] == decided
        assert (error.where, error.got, error.needs) == ("spec: [accuracy] scaled", 1e-9, "so little")
    assert len(seen) == len(set(seen)), "none is predicted twice"


@pytest.mark.parametrize(("asked", "needs"), [
    ({"relative_frobenius": -1e-6}, "greater than 0"), ({"relative_frobenius": 0.0}, "greater than 0"),
    ({"relative_frobenius": float("nan")}, "a finite number"),
    ({"relative_frobenius": inf}, "a finite number"), ({"relative_frobenius": 1.0}, "less than 1"), ({"relative_frobenius": "1e-6"}, "a valid number"),
    ({"scaled": -1.0}, "greater than 0"), ({"as": "fp16"}, "'fp32', 'tf32', 'fp32-rounded' or 'fp64'"), ({"as": 32}, "'fp32', 'tf32', 'fp32-rounded' or 'fp64'"),
    ({"as": "fp32", "scaled": 1e-5}, "one of relative_frobenius, scaled and as"),
    ({"data": "gaussian", "scaled": 1e-5}, "'uniform', 'positive', 'normal' or 'spread'"),
    ({"mean": 1e-6}, ""),
])
def test_errors_that_cannot_be_asked_for(asked, needs):
    with pytest.raises(SpecError) as refused:
        asking(**asked)
    assert "accuracy" in refused.value.where and needs in (refused.value.needs or "")


def test_a_scheme_and_an_error_are_not_both_asked_for():
    with pytest.raises(SpecError) as refused:
        asking(split={"scheme": "ootomo"}, **{"as": "fp32"})
    error = refused.value
    assert error.where == "spec: [accuracy] as" and error.got == "scheme = 'ootomo', as = 'fp32'" and error.needs and error.remedy
    assert asking(split={"scheme": "auto"}, **{"as": "fp32"}).spec.split.scheme == "auto"


def test_c_of_fewer_bits_counts():
    agreed, ootomo, unit = contract(asking(relative_frobenius=1e-5), 2.0**-11), SCHEMES.get("ootomo"), UNITS.get("hopper")
    assert predicted(ootomo, unit, 4096, 64, output_roundoff=2.0**-11).estimate == pytest.approx(2.07e-4, rel=1e-2) and agreed.times(ootomo, unit, 64) > 20


def test_rounding_alone():
    """2^-24 sqrt(1 / (8 ln 2)) is 2.53e-8: what FP64 products rounded to FP32 show."""
    rng = np.random.default_rng(0)
    x = F32.exact(rng.uniform(-1, 1, (64, 256)).astype(np.float32), rng.uniform(-1, 1, (256, 64)).astype(np.float32))
    assert np.linalg.norm(x.astype(np.float32) - x) / np.linalg.norm(x) == pytest.approx(ROUNDED / 1.25, rel=0.1)
    assert ROUNDED == pytest.approx(3.164e-8, rel=1e-3)  # by hand: 1.25 * 2^-24 over the root of 5.5452


# ---- what a GPU measured (docs/results/frontier.md)


def test_coarse_sums_are_promoted_after_every_one():
    """Where an instruction is one sum of 13 bits; on Ada it is two."""
    assert road.plan({"split": {"scheme": "e4m3x6"}, "target": {"gpu": "h200"}}).promote == 32
    assert road.plan({"split": {"scheme": "e4m3x6"}, "target": {"gpu": "rtx4090"}}).promote == 64


@pytest.mark.parametrize("name, promote, measured", [
    ("uniform", 32, 5.4e-5), ("positive", 32, 4.4e-5), ("spread", 32, 7.2e-5), ("uniform", 0, 3.1e-3), ("positive", 0, 6.6e-2), ("spread", 0, 7.3e-4),
])
def test_coarse_sums_err_as_an_h200_does(name, promote, measured):
    """Never promoted they stop growing, which is less than was predicted of them."""
    unit = UNITS.get("hopper").of("e4m3", "wgmma")
    found = predicted(SCHEMES.get("e4m3x6"), unit, 4096, promote, DISTRIBUTIONS[name])
    assert 0.7 * measured < found.estimate < (1.2 if promote else 25) * measured and found.worst > measured


@pytest.mark.parametrize("k, sgemm", [(4096, {"uniform": 1.14e-6, "positive": 8.4e-7, "spread": 5.3e-7}), (8192, {"uniform": 1.6e-6, "positive": 1.2e-6, "spread": 7.4e-7})])
def test_what_an_fp32_sum_shows_is_asked_and_no_more(k, sgemm):
    """cuBLAS SGEMM on an H200: the contract allows no more than that, and not much less."""
    asked = contract(loads({"accuracy": {"as": "fp32"}, "target": {"gpu": "h200"}, "problem": {"k": k}}))
    for name, measured in sgemm.items():
        assert 0.9 * measured < asked.most(name) < 1.02 * measured, name
    assert asked.times(SCHEMES.get("mixpert_triangle"), UNITS.get("hopper"), 0) > 1.5  # which errs twice as much on the spread
    assert asked.times(SCHEMES.get("scaled"), UNITS.get("hopper"), 64) < 0.7


# ---- the frontier

CHAINED = {row.name for row in FP32_SCHEMES if not row.b and can_multiply("mi300x", row.name)}
"""Schemes that have kernels on every matrix unit."""


def test_the_frontier_marks_what_another_beats():
    found = road.frontier({"target": {"gpu": "mi300x"}})
    assert {point.scheme for point in found.points} == CHAINED and not found.asked
    best = found.best
    assert best[0].scheme == "half" and [point.seconds for point in best] == sorted(point.seconds for point in best)
    assert [point.figure for point in best] == sorted((point.figure for point in best), reverse=True)
    for point in found.points:
        mine = (point.seconds, point.figure)
        beaten = [one for one in found.points if one.seconds <= mine[0] and one.figure <= mine[1] and (one.seconds, one.figure) != mine]
        assert bool(beaten) == bool(point.beaten_by) and point.meets is None
    assert all(isfinite(point.errors["uniform"]) for point in found.points) and not all(isfinite(point.errors["spread"]) for point in found.points)


def test_the_chosen_one_is_on_the_frontier_of_what_meets():
    loaded = asking("a100", **{"as": "fp32"})
    found, plan = road.frontier(loaded), road.plan(loaded)
    meeting = [point for point in found.points if point.meets]
    assert meeting[0].seconds == plan.model["seconds"] and meeting[0].scheme == plan.scheme.name
    assert all((point.figure <= 1) == point.meets for point in found.points)


def test_fp32_itself_gives_the_error_of_fp32():
    """Its figure over the one asked is 1, which is enough."""
    loaded = loads({"accuracy": {"as": "fp32"}, "fragment": {"policy": "fma"}, "target": {"gpu": "a100"}})
    assert [one.scheme.name for one in requests(loaded)] == ["fp32"]
    asked = contract(loaded)
    assert asked.times(SCHEMES.get("fp32"), None, 0) == 1


def test_what_has_no_plan_is_told():
    found = road.frontier({"tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}, "target": {"gpu": "t4"}})
    assert found.points and {name for name, _ in found.refused} >= {"bf16x3", "bf16x6", "tf32x3"} and all(why for _, why in found.refused)


def test_explain_tells_the_frontier(gemmgen, tmp_path):
    path, picture = tmp_path / "mine.toml", tmp_path / "frontier.png"
    path.write_text('[accuracy]\nas = "fp32"\n[target]\ngpu = "mi300x"\n')
    told = gemmgen("explain", path, "--frontier").out
    assert told.startswith("frontier: every scheme on mi300x at 4096x4096x4096"), "and nothing else"
    assert "the fastest of those that give as fp32 on U[-1, 1], U[0, 1], 2^-20..2^20" in gemmgen("explain", path).out
    drawn = json.loads(gemmgen("explain", path, "--plot", picture, "--json").out)
    assert picture.read_bytes().startswith(b"\x89PNG") and {point["scheme"] for point in drawn["frontier"]["points"]} == CHAINED
    ran = gemmgen("explain", path, "--plot", tmp_path / "frontier.toml")
    assert ran.code == 2 and ran.err.startswith("error: --plot: is no picture")


def test_the_table_of_schemes(gemmgen):
    lines = {line.split()[0]: line for line in gemmgen("list", "schemes").out.splitlines() if line}
    assert "2^-14 to 2^16" in lines["ootomo"] and lines["ootomo"].split()[-2:] == ["3", "all"] and "7.2e-07" in lines["ootomo"]
    assert "no unit" in lines["fp32"] and "FP32's" in lines["fp32"]
    facts = json.loads(gemmgen("list", "schemes", "tf32x3", "--json").out)
    assert facts["costs"]["h100"] == 6 and "t4" not in facts["gpus"] and facts["bound"] == pytest.approx(7.15e-7, rel=1e-3)  # MixPert eq. 6, for one product


# ---- what a contract compares, and the points of a frontier


def contract_of(k=4096, roundoff=0.0, **asked):
    return contract(loads({"problem": {"k": k}, "accuracy": asked, "target": {"gpu": "a100"}}), roundoff)


def test_a_contract_is_about_the_data_that_is_said():
    assert contract_of() is None
    assert contract_of(**{"as": "fp32"}).data == EVERYWHERE and contract_of(**{"as": "fp32", "data": "uniform"}).data == ("uniform",)
    assert contract_of(relative_frobenius=1e-6).data == ("uniform",) and contract_of(relative_frobenius=1e-6, data="spread").data == ("spread",)
    empty = contract_of(k=0, roundoff=0.25, **{"as": "fp32"})  # its error is that of one product
    assert (empty.k, empty.roundoff) == (1, 0.25) and all(empty.most(name) > 0 for name in EVERYWHERE)


def test_a_contract_tries_the_cheapest_promotion_first():
    asked = contract_of(relative_frobenius=1e-6)
    assert asked.intervals(16) == [0, 256, 128, 64, 32, 16] and asked.intervals(2) == [0, 256, 128, 64, 32, 16, 8, 4, 2]
    plain = [(0, "plain"), (256, "plain"), (128, "plain")]
    assert asked.promotions(128, False) == plain and asked.promotions(128, True) == [*plain, (256, "compensated")]


def test_scaled_is_held_against_the_worst_case_and_others_against_the_estimate():
    scheme, unit = SCHEMES.get("ootomo"), GPUS.get("a100").unit
    for roundoff in (0.0, 2.0**-11):
        found = predicted(scheme, unit, 4096, 64, DISTRIBUTIONS["uniform"], roundoff)
        assert contract_of(roundoff=roundoff, scaled=1e-3).reached(scheme, unit, 64) == [("uniform", found.worst, 1e-3)]
        assert contract_of(roundoff=roundoff, relative_frobenius=1e-6).reached(scheme, unit, 64) == [("uniform", found.estimate, 1e-6)]
        assert found.worst > 2 * found.estimate


def test_of_several_data_the_one_that_is_worst_beside_what_is_asked_decides(monkeypatch):
    asked = contract_of(**{"as": "fp32"})
    monkeypatch.setattr(Contract, "reached", lambda *_: [("uniform", 3e-7, 1e-6), ("positive", 1e-7, 2e-7), ("spread", 2e-7, 1e-6)])
    assert asked.times(SCHEMES.get("ootomo"), None, 0) == 0.5
    assert asked.told(SCHEMES.get("ootomo"), None, 64) == "ootomo, promote 64: 1e-07 on U[0, 1] (2e-07 asked)"


def test_one_word_of_tf32_by_hand():
    """On U[-1, 1] the error of an element has 2^-20 / 12 times the mean of 2^(2 e) as its square, relative to 1/3: 2^-20 / 28; both operands err."""
    assert tf32_estimate(4096, DISTRIBUTIONS["uniform"]) == pytest.approx(2.0**-10 * (2 / 28) ** 0.5)


def point(scheme, seconds, error, figure=0.0, **more):
    return Point(scheme, more.pop("promote", 0), "mma", dict.fromkeys(DISTRIBUTIONS, error), figure or error, 1e-6, seconds, 1.0, **more)


def test_what_of_a_frontier_is_worth_running():
    """A point is beaten by an interval of its own scheme that is as fast and errs less, or as good and faster; never by its equal, or by another scheme."""
    slow, fast, fine, same = point("a", 2.0, 1e-7, promote=64), point("a", 1.0, 3e-7), point("a", 1.0, 2e-7, promote=128), point("a", 1.0, 2e-7, promote=256)
    other, nothing = point("b", 3.0, 1e-6), point("c", 0.5, inf)
    found = Frontier("a100", (1, 1, 1), "uniform", "", (nothing, fast, fine, same, slow, other), ())
    assert found.worth_running == (nothing, fine, same, slow, other)
    assert found.best == (fast, fine, same, slow, other)  # as made here nobody is beaten; what holds no data is no choice
    beaten = [_better(one, found.points[1:]) for one in found.points[1:]]
    assert beaten == ["a, 128", "", "", "", "a"]
    assert nothing.as_dict()["figure"] is None and fast.as_dict()["figure"] == 3e-7 and replace(nothing, worst=inf).as_dict()["worst"] is None and fast.as_dict()["worst"] == 1e-6


def test_frontiers_of_several_specs_are_one():
    """Of FP32 and FP64: a point is beaten by the other's; what one picture cannot compare is refused."""
    fine, fast, slow = point("residues14", 3.0, 1e-15), point("half", 1.0, 1e-4), point("ootomo", 3.5, 1e-7)
    one, other = (Frontier("h200", (2, 2, 2), "uniform", "", points, refused) for points, refused in (((fast, slow), (("a", "no"),)), ((fine,), (("b", "no"),))))
    both = joined([one, other])
    assert [(each.scheme, each.beaten_by) for each in both.points] == [("half", ""), ("residues14", ""), ("ootomo", "residues14")]
    assert both.refused == (("a", "no"), ("b", "no")) and joined([replace(one, asked="as fp32")]).points == one.points
    for change in ({"gpu": "h100"}, {"size": (2, 2, 4)}, {"data": "normal"}, {"asked": "as fp64"}):
        for pair in ([one, replace(other, **change)], [replace(one, **change), other]):
            with pytest.raises(SpecError, match="cannot show these frontiers"):
                joined(pair)


def test_a_frontiers_picture_has_milliseconds_and_every_error_that_is_one(monkeypatch):
    pytest.importorskip("matplotlib")
    slow, fast, nothing = point("a", 4e-3, 2e-7, figure=0.5), point("b", 1e-3, 3e-7, promote=64, figure=2.0), point("c", 5e-4, inf)
    beaten = point("d", 5e-3, 4e-7, figure=3.0, beaten_by="b, 64")
    monkeypatch.setattr(picture, "content", lambda figure, suffix: figure)
    for asked in ("", "as fp32 on U[-1, 1]"):
        axis = picture.frontier_image(Frontier("a100", (64, 32, 16), "positive", asked, (nothing, fast, slow, beaten), ()), ".svg").axes[0]
        line, *marks = [one.get_xydata().tolist() for one in axis.lines]
        assert line == [[1.0, 2.0], [4.0, 0.5]] and marks == [[[1.0, 2.0]], [[4.0, 0.5]], [[5.0, 3.0]]]
        assert [one.get_text() for one in axis.texts] == ["b, 64", "a"], "of those that no other beats"
        assert axis.get_title().startswith("64x32x16, a100, predicted")
        assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log") and axis.get_xlabel().startswith("ms")
        assert axis.get_ylabel() == ("error over that asked: as fp32 on U[-1, 1]" if asked else "estimated relative Frobenius error on U[0, 1]")


def test_another_scheme_keeps_what_the_spec_says_of_its_sums():
    loaded = loads({"split": {"scheme": "ootomo", "promote": 64, "sums": "plain"}, "target": {"gpu": "a100"}})
    split = [with_scheme(loaded, "scaled", *rest).spec.split for rest in ((), (32, "compensated"), (0,))]
    assert [(one.scheme, one.promote, one.sums) for one in split] == [("scaled", 64, "plain"), ("scaled", 32, "compensated"), ("scaled", 0, "plain")]


def test_what_a_frontier_tries_beside_the_usual_plan():
    plan = solve(loads({
        "split": {"scheme": "ootomo", "where": "prepass"}, "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}, "fragment": {"policy": "mma"},
        "target": {"gpu": "a100"},
    }))
    assert list(_others(None, plan, "auto")) == [(0, "auto"), (None, "compensated")]
    assert list(_others(None, plan, "plain")) == [(0, "plain")] and list(_others(None, plan, "compensated")) == []
    seldom = list(_others(contract_of(relative_frobenius=1e-5), plan, "plain"))
    assert seldom == [(0, "plain"), (0, "plain")]  # never promoting is enough
    coarse = replace(plan, output=replace(plan.output, roundoff=2.0**-11))
    assert _point(coarse, None, "uniform").errors["uniform"] > 100 * _point(plan, None, "uniform").errors["uniform"]
