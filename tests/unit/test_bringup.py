"""A bring-up finds out what was hidden in a made-up GPU, of which it sees launches and memory alone."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from fake_gpu import FakeGpu, FakeLimits, FakeRates, aligning, by_row, flushed, in_order, with_words

from gemmgen.catalog.conversion import decode
from gemmgen.catalog.fragment import FRAGMENTS, Fragment
from gemmgen.catalog.number import FORMATS
from gemmgen.catalog.unit import UNITS, MatrixUnit
from gemmgen.errors import DeviceError, SpecError
from gemmgen.workshop.bringup import bring_up, egemm, probe, unit_rules
from gemmgen.workshop.bringup import rates as measured_rates
from gemmgen.workshop.bringup.described import CUTS, Described, described
from gemmgen.workshop.bringup.dots import Dots
from gemmgen.workshop.bringup.dots import halves as halves_of
from gemmgen.workshop.bringup.egemm import profile, suited
from gemmgen.workshop.bringup.findings import changes
from gemmgen.workshop.bringup.fragments import row_text
from gemmgen.workshop.bringup.instruction import Instruction, probe_instruction
from gemmgen.workshop.bringup.maps import Maps, exact_words, find_maps, held_of
from gemmgen.workshop.bringup.named import instruction
from gemmgen.workshop.bringup.probe import Raw
from gemmgen.workshop.bringup.profiled import HYPOTHESES, profile_device
from gemmgen.workshop.bringup.rules import Traits, find_traits
from gemmgen.workshop.bringup.sums import Order, find_order
from gemmgen.workshop.bringup.unit_row import differences, text_of, unit_row
from gemmgen.workshop.bringup.unit_rules import AGAIN, EXTREMES, KINDS, Candidate, Found, _any, _nearest, every, predicted, prove, random_tiles

PROOF = 2000
F16, BF16, TF32 = "mma_m16n8k16_f16", "mma_m16n8k16_bf16", "mma_m16n8k8_tf32"
E4M3, E5M2, S8 = "mma_m16n8k32_e4m3", "mma_m16n8k32_e5m2", "mma_m16n8k32_s8"


def probed(gpu: FakeGpu, name: str, **more):
    with np.errstate(all="ignore"):
        one = probe_instruction(gpu, FRAGMENTS.get(name), PROOF, **more)
    assert one.error is None, str(one.error)
    return one


# ---------------------------------------------------------------- units that a row says

ROWS = {
    "V100's": (F16, Candidate("truncate", 4, 23)),
    "A100's": (F16, Candidate("truncate", 8, 24)),
    "H100's": (F16, Candidate("truncate", 16, 25)),
    "wider, blocks of four": (F16, Candidate("truncate", 4, 27)),
    "narrower, pairs": (F16, Candidate("truncate", 2, 21)),
    "blocks of three": (F16, Candidate("truncate", 3, 24)),
    "very narrow": (BF16, Candidate("truncate", 8, 11)),
    "very wide": (BF16, Candidate("truncate", 16, 36)),
    "tf32, wide": (TF32, Candidate("truncate", 4, 31)),
    "sums of few bits": (F16, Candidate("truncate", 16, 25, 20)),
    "H100's of 8 bits": (E4M3, Candidate("truncate", 32, 13, 13)),
    "Ada's of 8 bits": (E5M2, Candidate("truncate", 16, 13, 13)),
    "fewer bits of sums than of terms": (E4M3, Candidate("truncate", 32, 25, 14)),
    "MI300X's": (BF16, Candidate("floor", 8, 24)),
    "floor, wider": (F16, Candidate("floor", 4, 29)),
    "floor, narrow, tf32": (TF32, Candidate("floor", 8, 18)),
    "MI300X's of 8 bits": (E5M2, Candidate("floor_apart", 16, 24)),
    "even and odd apart, f16": (F16, Candidate("floor_apart", 8, 26)),
    "MI210's": (BF16, Candidate("tree", 4, flushes=True)),
    "a tree that keeps subnormal numbers": (BF16, Candidate("tree", 4)),
    "a tree of eight, f16": (F16, Candidate("tree", 8, flushes=True)),
    "MI100's": (F16, Candidate("exact", 4)),
    "exact, all at once": (BF16, Candidate("exact", 16)),
    "8 bits by FP16": (E4M3, Candidate("by_f16", 32, 25, inner=16)),
    "8 bits by FP16, in two": (E5M2, Candidate("by_f16", 16, 24, inner=4)),
}
FAST = ("A100's", "sums to nearest", "A: two registers", "A: the words of a register", "A: two lanes", "B: of integers", "an opaque type")
FEW = ("very narrow", "very wide", "terms downwards", "subnormal words flushed", "even k first", "B: words of a register", "C of a warpgroup")
"""Of what is hidden, what `make test-fast` looks for, and what `make test` besides."""


def hidden(names):
    """Parameters, of which `make test-all` alone runs the most."""
    return [pytest.param(name, marks=() if name in FAST else pytest.mark.slow if name in FEW else pytest.mark.long) for name in names]


@pytest.mark.parametrize("name", hidden(ROWS))
def test_a_hidden_row_is_found(name):
    fragment, rule = ROWS[name]
    gpu = FakeGpu(by_row(*rule[:3], inner=rule.inner, sum_bits=rule.sum_bits, flushes=rule.flushes))
    one = probed(gpu, fragment, egemm=fragment != F16)
    assert one.profile is None and 0 < one.seconds < 600, "EGEMM's workflow is for FP16, where it is asked for"
    assert one.found.fits and one.found.candidate == rule, (one.found.candidate, one.found.turns, one.found.same)
    assert one.maps.same_as(one.fragment) and one.order.block == rule.block
    assert one.found.agreeing == one.found.proof >= 0.8 * PROOF - 256 and not one.found.against
    carried = rule.fraction_bits == 11  # 8 products below 4 and a sum below 2 have 5 bits more: cut to 16 or to more is one
    assert [other.sum_bits for other in one.found.same] == list(range(16, 23)) * carried, one.found.same


MEASURED = np.load(Path(__file__).parents[1] / "data" / "tensor_core_dots.npz")
"""600 dot products each that GPUs returned; a block of products a set."""
SETS = sorted({name.rsplit("_", 1)[0] for name in MEASURED.files})
BITS = {"V100": 23, "A100": 24, "Ada": 24, "L40S": 24, "H100": 25, "B200": 25}


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in ("V100_fp16", "H100_tf32") else pytest.mark.slow) for name in SETS])
def test_what_gpus_returned_leaves_one_rule(name):
    """Of all that a row can say, told apart as a bring-up does it."""
    gpu, word = name.split("_")[0], {"fp16": "f16"}.get(name.split("_")[1], name.split("_")[1])
    a, b, c, d = (MEASURED[f"{name}_{x}"] for x in "abcd")
    a, b = exact_words(word, a), exact_words(word, b)
    live = every(word, a.shape[1])
    assert len(live) > 500
    with np.errstate(all="ignore"):
        for part in (slice(0, 60), slice(60, 600)):
            live = [one for one in live if np.array_equal(predicted(one, word, a[part], b[part], c[part]), d[part].view(np.uint32))]
    assert live == [Candidate("truncate", a.shape[1], BITS[gpu])]


# ---------------------------------------------------------------- units that no row says


def changed(inner, change):
    return lambda word, a, b, c: change(inner(word, a, b, c))


def nans(bits: int):
    return lambda d: np.where(np.isnan(d), np.uint32(bits).view(np.float32), d)


def largest(d):
    return np.where(np.isinf(d), np.copysign(np.float32(np.finfo(np.float32).max), d), d)


def away(x):
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


EVEN_FIRST = [*range(0, 16, 2), *range(1, 16, 2)]
LAST_FIRST = [*range(8, 16), *range(8)]


@dataclass
class Odd:
    """A unit that no row says: what each trait is to be found as, and whether its description explains it."""

    multiply: object
    traits: dict[str, object]
    order: str = ""
    word: str = F16
    explained: bool = True
    nearest: str = ""


def cut(bits: int, how: str) -> dict[str, object]:
    return {"bits": bits, "cut": how}


ODD = {
    "sums to nearest": Odd(aligning(25, 8, sums=np.rint), {"terms": cut(25, "zero"), "sum": cut(23, "nearest")}),
    "sums upwards": Odd(aligning(24, 4, sums=np.ceil), {"terms": cut(24, "zero"), "sum": cut(23, "up")}),
    "ties away from zero": Odd(aligning(24, 8, sums=away), {"sum": cut(23, "away")}),
    "terms to nearest": Odd(aligning(24, 16, terms=np.rint), {"terms": cut(24, "nearest"), "accumulator": cut(24, "nearest"), "sum": cut(23, "zero")}),
    "terms downwards": Odd(aligning(23, 8, terms=np.floor), {"terms": cut(23, "down"), "accumulator": cut(23, "down")}),
    "sums of 18 bits to nearest": Odd(aligning(24, 8, sums=np.rint, sum_bits=18), {"sum bits": 18, "sum": cut(18, "nearest")}),
    "subnormal words flushed": Odd(with_words(by_row("truncate", 8, 24), flushed), {"subnormal words": "flushed", "subnormal accumulator": "kept"}),
    "subnormal sums flushed": Odd(
        aligning(24, 8, flush_sums=True), {"subnormal words": "kept", "subnormal sums": "flushed", "subnormal products": "flushed"}, word=BF16),
    "subnormal accumulators flushed": Odd(
        aligning(24, 8, flush_sum_in=True), {"subnormal accumulator": "flushed", "subnormal sums": "kept"}, word=BF16),
    "even k first": Odd(in_order(by_row("truncate", 8, 24), EVEN_FIRST), {"terms": cut(24, "zero")}, "0 2 4 6 8 10 12 14; then 1 3 5 7 9 11 13 15"),
    "the later half first": Odd(in_order(by_row("truncate", 8, 25), LAST_FIRST), {}, "8 9 10 11 12 13 14 15; then 0 1 2 3 4 5 6 7"),
    "one after another, backwards": Odd(
        in_order(by_row("exact", 1), list(range(16))[::-1]), {}, "15; then 14; then 13; then 12; then 11; then 10; then 9; then 8; then 7; then 6; "
        "then 5; then 4; then 3; then 2; then 1; then 0", explained=False, nearest="exact"),
}  # fmt: skip


@pytest.mark.parametrize("name", hidden(ODD))
def test_what_no_row_says_is_described_and_contradicted(name):
    odd = ODD[name]
    one = probed(FakeGpu(odd.multiply), odd.word)
    assert not one.found.fits and one.rule is None
    assert {trait: one.traits.value(trait) for trait in odd.traits} == odd.traits
    assert one.order.text == odd.order if odd.order else one.order.in_turn
    assert one.found.candidate.rule == (odd.nearest or one.found.candidate.rule)
    assert bool(one.found.against) or not one.order.in_turn  # another order alone is told as such: a row says all but that
    if odd.explained:
        assert one.found.described and one.found.described.agreeing == one.found.described.proof > 0, one.found.described


@pytest.mark.long
def test_an_overflow_that_gives_no_inf_is_told_and_contradicts_the_rule():
    """A row says nothing of it, and is found all the same."""
    one = probed(FakeGpu(changed(by_row("truncate", 8, 24), largest)), BF16)
    assert one.found.fits and one.traits.value("overflow") == "the largest FP32 number"
    asked, right = one.found.kinds[EXTREMES]
    assert right < asked and {product["kind"] for product in one.found.against} == {EXTREMES}


@pytest.mark.slow
def test_the_bits_of_a_nan_are_told_and_no_rule_asks_for_them():
    one = probed(FakeGpu(changed(by_row("truncate", 16, 25), nans(0x7FC00000))), F16)
    assert one.found.fits and one.traits.found["NaN"].text == "0x7fc00000"
    assert one.traits.value("Inf") and one.traits.value("negative zeros") == "+0"


@pytest.mark.parametrize(("hidden_bits", "fits"), [(24, True), (23, False)])
def test_the_proof_decides_between_rules_that_were_not_told_apart(hidden_bits, fits):
    fragment = FRAGMENTS.get("mma_m16n8k8_f16")
    gpu = FakeGpu(by_row("truncate", 8, hidden_bits))
    raw = Raw(fragment, gpu.open(fragment))
    dots, order = Dots(raw, find_maps(raw)), Order((tuple(range(8)),), 0)
    found = Found(Candidate("truncate", 8, 26), True, [Candidate("tree", 8), Candidate("truncate", 8, 24)], 3, [], 0)
    with np.errstate(all="ignore"):
        prove(dots, order, Traits(), found, 2000)
    assert (found.fits, found.candidate, found.same) == (fits, Candidate("truncate", 8, 24), [])
    assert bool(found.against) != fits and found.described is None


def test_a_device_that_contradicts_itself_is_told_with_the_products():
    """Every second launch keeps a bit less of its terms: no row may rest on it."""
    fragment = FRAGMENTS.get("mma_m16n8k8_f16")
    turn = count()
    gpu = FakeGpu(lambda *products: by_row("truncate", 4, 24 if next(turn) % 2 else 23)(*products))
    steady = Raw(fragment, FakeGpu(by_row("truncate", 4, 24)).open(fragment))
    dots, order = Dots(Raw(fragment, gpu.open(fragment)), find_maps(steady)), Order((tuple(range(4)), tuple(range(4, 8))), 0)
    with np.errstate(all="ignore"):
        for asked, wavers in ((Dots(steady, dots.maps), False), (dots, True)):
            found = Found(Candidate("truncate", 4, 24), True, [], 1, [], 0)
            prove(asked, order, Traits(), found, 2000)
            of_itself = [one for one in found.against if one["kind"] == AGAIN]
            assert bool(of_itself) == wavers and found.fits != wavers
            assert all(one["d"] != one["rule"] and len(one["a"]) == 8 for one in of_itself) and len(of_itself) in ((1, 2, 3) if wavers else (0,))
            for one in found.against:  # each is a product of the instruction's, with what was said of it
                said = [said_of(Candidate("truncate", 4, bits), "f16", one) for bits in (24, 23)]
                assert one["rule"] in said and one["d"] in said


def test_random_products_are_held_against_a_rule_in_the_order_of_the_units_sums():
    fragment = FRAGMENTS.get("mma_m16n8k16_f16")
    raw = Raw(fragment, FakeGpu(in_order(by_row("truncate", 8, 24), EVEN_FIRST)).open(fragment))
    maps, halves_first = find_maps(raw), (tuple(range(8)), tuple(range(8, 16)))
    with np.errstate(all="ignore"):
        for steps, fits in ((tuple(EVEN_FIRST[:8]), tuple(EVEN_FIRST[8:])), True), (halves_first, False):
            found = Found(Candidate("truncate", 8, 24), True, [], 1, [], 0)
            prove(Dots(raw, maps), Order(steps, 0), Traits(), found, 2000)
            assert found.fits == fits and (found.agreeing == found.proof) == fits and found.proof > 1000


def said_of(rule: Candidate, word: str, shown: dict) -> str:
    """What a rule says of a product that a report shows."""
    a, b = (np.array([[int(digits, 16) for digits in shown[name]]], np.uint16) for name in "ab")
    c = np.array([int(shown["c"], 16)], np.uint32).view(np.float32)
    return f"{int(predicted(rule, word, a, b, c)[0]):08x}"


def test_products_that_contradict_a_rule_are_shown_as_the_device_was_asked():
    """Of a unit one bit wider than the rule: each shown product gives by the unit's own rule what the device returned, and by the nearest what that says."""
    fragment = FRAGMENTS.get("mma_m16n8k8_f16")
    wider, rule = Candidate("truncate", 8, 25), Candidate("truncate", 8, 24)
    raw = Raw(fragment, FakeGpu(by_row("truncate", 8, 25)).open(fragment))
    found = Found(rule, True, [], 1, [], 0)
    with np.errstate(all="ignore"):
        prove(Dots(raw, find_maps(raw)), Order((tuple(range(8)),), 0), Traits(), found, 2000)
        assert not found.fits and len(found.against) > 3
        for one in found.against:
            assert (said_of(wider, "f16", one), said_of(rule, "f16", one)) == (one["d"], one["rule"])
            assert one["d"] != one["rule"] and one["kind"] != AGAIN


# ---------------------------------------------------------------- traits and orders, each asked alone

NARROW = "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32"
AT_ONCE = Order((tuple(range(8)),), 0)


@cache
def dots_of(name: str, multiply) -> Dots:
    fragment = instruction(name, "sm_90")
    steady = find_maps(Raw(fragment, FakeGpu(by_row("exact", 16)).open(fragment)))
    return Dots(Raw(fragment, FakeGpu(multiply).open(fragment)), steady)


def negative_zeros(inner):
    """The same, but for a sum of nothing but negative zeros, which stays one."""
    def multiply(word, a, b, c):
        x, y = decode(word, a)[:, :, None], decode(word, b).transpose(0, 2, 1)[:, None]
        d = inner(word, a, b, c)
        return np.where(((x * y == 0) & np.signbit(x * y)).all(-1) & (c == 0) & np.signbit(c), np.float32(-0.0), d)

    return multiply


def flushed_on_the_left(inner):
    return lambda word, a, b, c: inner(word, flushed(word, a), b, c)


def flushed_products(inner):
    """Of two normal words a subnormal product alone is taken for zero."""
    def multiply(word, a, b, c):
        product = np.abs(decode(word, a).astype(np.float64) @ decode(word, b).astype(np.float64))
        return np.where((c == 0) & (product < 2.0**-126), np.float32(0), inner(word, a, b, c))

    return multiply


TRAITS = {
    "sums, ties to even": (aligning(24, 8, sums=np.rint), {"sum": cut(23, "nearest")}),
    "sums, ties away": (aligning(24, 8, sums=away), {"sum": cut(23, "away")}),
    "sums downwards": (aligning(24, 8, sums=np.floor), {"sum": cut(23, "down")}),
    "terms, ties to even": (
        aligning(24, 8, terms=np.rint), {"terms": cut(24, "nearest"), "terms after": cut(24, "nearest"), "accumulator": cut(24, "nearest")}),
    "terms, ties away": (aligning(24, 8, terms=away), {"terms": cut(24, "away"), "terms after": cut(24, "away"), "accumulator": cut(24, "away")}),
    "terms upwards": (aligning(24, 8, terms=np.ceil), {"terms": cut(24, "up")}),
    "one bit fewer": (aligning(23, 8), {"terms": cut(23, "zero"), "sum bits": 23}),
    "one bit more": (aligning(25, 8), {"terms": cut(25, "zero"), "sum bits": 23}),
    "sums of 22 bits": (aligning(24, 8, sum_bits=22), {"sum bits": 22, "sum": cut(22, "zero"), "terms": cut(24, "zero")}),
    "sums of 18 bits, ties away": (aligning(24, 8, sums=away, sum_bits=18), {"sum bits": 18, "sum": cut(18, "away")}),
    "sums flushed": (aligning(24, 8, flush_sums=True), {"subnormal sums": "flushed", "subnormal products": "flushed", "subnormal accumulator": "otherwise"}),
    "accumulators flushed": (aligning(24, 8, flush_sum_in=True), {"subnormal accumulator": "flushed", "subnormal sums": "kept", "subnormal products": "kept"}),
    "words flushed": (with_words(aligning(24, 8), flushed), {"subnormal words": "flushed", "subnormal sums": "kept", "subnormal accumulator": "kept"}),
    "words of A flushed": (flushed_on_the_left(aligning(24, 8)), {"subnormal words": "kept on one side"}),
    "products flushed": (flushed_products(aligning(24, 8)), {"subnormal products": "flushed", "subnormal sums": "kept"}),
    "the largest number": (changed(aligning(24, 8), largest), {"overflow": "the largest FP32 number", "negative zeros": "+0"}),
    "negative zeros": (negative_zeros(aligning(24, 8)), {"negative zeros": "-0", "overflow": "Inf", "Inf": True, "subnormal words": "kept"}),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAITS)
def test_a_trait_is_told_and_the_unit_described_by_it(name):
    """A description that its own traits give returns what the unit does, bit for bit, and no unit is described by another's."""
    multiply, traits = TRAITS[name]
    dots = dots_of(NARROW, multiply)
    with np.errstate(all="ignore"):
        found = find_traits(dots, AT_ONCE)
        assert {trait: found.value(trait) for trait in traits} == traits
        unit = described(AT_ONCE, found, dots.form)
        other = described(AT_ONCE, find_traits(dots_of(NARROW, aligning_24), AT_ONCE), dots.form)
        wrong = differing = 0
        for kinds, a, b, c in random_tiles(dots, 3000, 3):
            a[-1], b[-1], c[-1] = 0, ONE, np.float32([1.5 * 2.0**-128, -1.5 * 2.0**-126] * 8)[:, None]
            a[-1, :, 0] = LEAST_NORMAL
            if name == "the largest number":
                a[-1], b[-1], c[-1] = LARGEST_POWER, ONE, -np.float32(np.finfo(np.float32).max)
            checked = kinds != KINDS.index(EXTREMES)
            checked[-1] = True
            d, words = dots.tiles(a, b, c), (decode("bf16", a)[:, :, None], decode("bf16", b).transpose(0, 2, 1)[:, None])
            wrong += int((unit(*words, c)[checked] != d[checked]).sum())
            differing += int((other(*words, c)[checked] != d[checked]).sum())
    assert name in NOT_DESCRIBED or wrong == 0 < differing


ONE, LEAST_NORMAL, LARGEST_POWER = 0x3F80, 0x0080, 0x7F00
"""bfloat16: 1, 2^-126 and 2^127."""
NOT_DESCRIBED = ("words of A flushed", "products flushed", "negative zeros")
aligning_24 = aligning(24, 8)


@pytest.mark.parametrize("block", [2, 0])
def test_near_ties_lie_about_half_a_place_of_the_accumulator(block):
    """On it, above and below; what else a product sums is far smaller, and of the same step."""
    order = Order(((0, 1), (2, 3)), block)
    words, others, c = unit_rules._near_ties(np.random.default_rng(0), SimpleNamespace(form=FORMATS["bf16"], depth=4, largest=100, word="bf16"), order, 400)
    products = np.abs(decode("bf16", words).astype(np.float64) * decode("bf16", others))
    large, half = products[:, ::2].max(1), np.spacing(np.abs(c)).astype(np.float64) / 2
    assert {*np.sign(large - half)} == {-1, 0, 1} and (np.abs(large / half - 1) < 2.0**-5).all()
    assert (products[:, 1::2].max(1) < large).all() and (np.count_nonzero(products[:, :2], axis=1) % 2 == 0).all()
    assert {*np.sign(c)} == {-1, 1} and (products[:, 0] > 0).any() and (products[:, 2] > 0).any()


def test_what_is_described_is_told_in_words():
    order, form = Order(((0, 1),), 0), FORMATS["bf16"]
    assert Described(order, form, (24, "zero"), (24, "zero"), (23, "nearest"), (False, False, False), False).text == (
        f"as described (terms {CUTS['zero']} at 24 bits; sums {CUTS['nearest']} at 23; steps: {order.text})")
    assert Described(order, form, (24, "up"), (25, "down"), (22, "zero"), (True, False, True), True).text == (
        f"as described (terms {CUTS['up']} at 24 bits; the accumulator {CUTS['down']} at 25; sums {CUTS['zero']} at 22; subnormal words as zero; "
        f"subnormal sums as zero; no Inf, but the largest number; steps: {order.text})")


def test_a_described_unit_saturates_on_both_sides_and_flushes_what_it_is_said_to():
    """One step of two k: sums beyond the largest number either way, and subnormal words, accumulators and sums one by one."""
    def unit(flushed=(False, False, False), saturates=True):
        return Described(Order(((0, 1),), 0), FORMATS["bf16"], (24, "zero"), (24, "zero"), (23, "zero"), flushed, saturates)

    far = np.array([[2.0**127, 2.0**127], [-(2.0**127), -(2.0**127)]])
    most = float(FORMATS["f32"].largest)
    assert unit()(far, np.ones(2), np.zeros(2)).tolist() == [most, -most]
    assert unit(saturates=False)(far, np.ones(2), np.zeros(2)).tolist() == [np.inf, -np.inf]
    small = 2.0**-127
    cases = (np.array([small, 0.0]), 0.0), (np.array([0.0, 0.0]), small), (np.array([2.0**-126, 0.0]), -small)  # a word, an accumulator, a sum
    for flushed in ((False, False, False), (True, False, False), (False, True, False), (False, False, True)):
        found = [float(unit(flushed)(a, np.ones(2), np.float32(c))) for a, c in cases]
        word, accumulator, sums = flushed
        assert found == [0.0 if word or sums else small, 0.0 if accumulator or sums else small, 2 * small if accumulator else 0.0 if sums else small]


def test_orders_that_no_row_says():
    """Steps of unlike sizes have no block; answers that name no order, and units that change their order, fit no row."""
    assert Order(((0, 1), (2, 3), (4,)), 0).block == 2 and Order(((0, 1, 2),), 0).block == 3
    assert Order(((0, 1), (2,), (3, 4)), 0).block is None is Order(((0,), (1, 2)), 0).block
    assert [Order(steps, 0).text for steps in (((0, 1), (2, 3)), ((0, 1, 2),), ((0, 2), (1, 3)), ((0, 1), (2,), (3, 4)))] == [
        "2 at once, in turn of k", "3 at once, all of an instruction's", "0 2; then 1 3", "0 1; then 2; then 3 4"]
    after = {(0, 1), (1, 2), (2, 0)}  # each after the one before it, all around

    def terms(asked, c):
        assert all(2.0**-20 <= x for one in asked for x in map(abs, one.values())), "a product of normal words, however few their exponents are"
        return np.float32([min(x for x in one.values() if x > 0) * (tuple(one) in after) for one in asked])

    around = find_order(SimpleNamespace(depth=3, largest=20, span=40, terms=terms))
    assert not around.consistent and around.block is None
    whole = find_traits(dots_of(NARROW, aligning_24), AT_ONCE)
    assert described(around, whole, FORMATS["bf16"]) is None is described(AT_ONCE, Traits(), FORMATS["bf16"])
    whole.add("terms after", cut(23, "zero"), "", "", 0)
    assert described(AT_ONCE, whole, FORMATS["bf16"]) is None


def test_every_rule_that_a_row_can_say_is_tried():
    """Up to the ends that the schema of a row allows, and no random product of sums that cancel leaves its sum far from zero."""
    tried = every("e4m3", 64)
    assert {one.fraction_bits for one in tried if one.rule == "floor"} == set(range(8, 41))
    assert {one.sum_bits for one in tried} == {None, *range(8, 23)} and {one.inner for one in tried} == {None, 1, 2, 4, 8, 16, 32}
    assert {one.inner for one in every("e4m3", 32)} == {None, 1, 2, 4, 8, 16}  # FP16 words are half as many
    assert not any(one.rule == "floor_apart" for one in every("f16", 3)) and any(one.rule == "floor_apart" for one in every("f16", 2))
    dots = dots_of(NARROW, aligning_24)
    [(kinds, a, b, c)] = random_tiles(dots, 2000, 0)
    at = kinds == KINDS.index("sums that cancel")
    assert at.any() and (c[at] == -(decode("bf16", a[at]) @ decode("bf16", b[at]))).all()


def test_as_many_random_tiles_are_drawn_as_were_asked_for():
    """Few ones too, of the first kinds; and each is of words of its type, of which TF32 has no last 13 bits."""
    dots = dots_of(NARROW, aligning_24)
    for tiles in (1, 4, 7, 40):
        drawn = np.concatenate([kinds for kinds, *_ in random_tiles(dots, 16 * 8 * tiles - 1, 0)])
        assert len(drawn) == tiles and np.ptp(np.bincount(drawn, minlength=len(KINDS))) <= 1
    assert not (_any(np.random.default_rng(0), "tf32", (9, 16, 64)) & 0x1FFF).any()


def test_dot_products_that_were_asked_are_counted_and_not_the_tiles_around_them():
    dots = dots_of(NARROW, aligning_24)
    m, n, k = dots.raw.fragment.shape
    for count_of in (1, min(m, n), min(m, n) + 1):
        before = dots.asked
        dots.values(np.ones((count_of, k)), np.ones((count_of, k)), np.zeros(count_of))
        assert dots.asked - before == count_of
    before = dots.asked
    dots.tiles(np.zeros((3, m, k), np.uint16), np.zeros((3, k, n), np.uint16), np.zeros((3, m, n), np.float32))
    assert dots.asked - before == 3 * m * n


def test_many_tiles_are_asked_in_parts_and_none_is_left_out(monkeypatch):
    dots, rng = dots_of(NARROW, aligning_24), np.random.default_rng(2)
    m, n, k = dots.raw.fragment.shape
    a, b = (exact_words(dots.word, rng.integers(-8, 9, shape).astype(np.float32)) for shape in ((9, m, k), (9, k, n)))
    whole, c = dots.tiles(a, b, np.zeros((9, m, n), np.float32)), np.arange(9 * m * n, dtype=np.float32).reshape(9, m, n)
    monkeypatch.setattr(probe, "MOST_TILES", 4)
    assert np.array_equal(dots.tiles(a, b, np.zeros((9, m, n), np.float32)), whole) and np.array_equal(dots.tiles(a * 0, b, c), c)


@pytest.mark.parametrize("word", ["f16", "bf16", "tf32", "e4m3", "e5m2"])
def test_a_power_of_two_is_a_product_of_words_of_which_the_first_is_normal(word):
    form = FORMATS[word]
    for exponent in range(2 * form.min_exponent - form.fraction_bits, 2 * form.max_exponent):
        first, rest = halves_of(-(2.0**exponent), form)
        assert first * rest == -(2.0**exponent) and form.min_exponent <= np.log2(first) <= form.max_exponent, exponent
        assert np.array_equal(decode(word, exact_words(word, np.float32([first, rest]))), np.float32([first, rest]))
    assert halves_of(0.0, form) == (0.0, 0.0)


def test_the_nearest_rule_is_by_all_that_was_asked():
    """Two rules that a device is right by in turns: the one of the more products, whenever these were asked."""
    dots, rng = dots_of(NARROW, aligning_24), np.random.default_rng(0)
    a, b = ((rng.integers(0, 1 << 16, (3000, 8), np.uint16) & 0x81FF | 0x3F00) for _ in range(2))
    c = rng.uniform(-1, 1, 3000).astype(np.float32)
    with np.errstate(all="ignore"):
        for bits in (20, 23):
            before = predicted(Candidate("truncate", 8, bits), "bf16", a, b, c)
            found = _nearest(dots, AT_ONCE, [], [(a, b, c, before)], 0, [], 0)
            assert found.candidate == Candidate("truncate", 8, bits) and not found.fits
        assert _nearest(dots, AT_ONCE, [], [], 0, [], 0).candidate == Candidate("truncate", 8, 24)  # the device's own


# ---------------------------------------------------------------- maps


def swapped(bits: tuple[int, int], part: int):
    """Places with two bits of a lane (part 0), register (1) or word (2) exchanged."""
    def move(place):
        number, (low, high) = place[part], bits
        one, other = number >> low & 1, number >> high & 1
        number ^= (one ^ other) * (1 << low | 1 << high)
        return tuple(number if at == part else value for at, value in enumerate(place))

    return move


def lane_and_register(place):
    """Bit 0 of the lane and bit 0 of the register exchanged."""
    lane, register, word = place
    return lane & ~1 | register & 1, register & ~1 | lane & 1, word


def halves(place):
    """The two words of a register exchanged: lane 0 no longer holds element (0, 0)."""
    lane, register, word = place
    return lane, register, 1 - word


def turned(place):
    """Lanes counted on from lane 3: no bits say that."""
    lane, register, word = place
    return (lane + 3) % 32, register, word


def exchanged(place):
    """Lanes 5 and 6 exchanged: every bit of a lane by itself adds what it did."""
    lane, register, word = place
    return {5: 6, 6: 5}.get(lane, lane), register, word


MAPS = {
    "A: two bits of a lane": (F16, {"a": swapped((0, 3), 0)}, True),
    "A: two registers": (BF16, {"a": swapped((0, 1), 1)}, True),
    "A: a bit of the lane and one of the register": (F16, {"a": lane_and_register}, True),
    "B: two bits of a lane": (E4M3, {"b": swapped((1, 4), 0)}, True),
    "B: of integers": (S8, {"b": swapped((0, 2), 0)}, True),
    "B: words of a register": (E5M2, {"b": swapped((0, 1), 2)}, True),
    "C: registers": (F16, {"c": swapped((0, 1), 1), "a": lane_and_register}, True),
    "C of a warpgroup": ("wgmma_m64n8k16_f16", {"c": swapped((5, 6), 0), "a": swapped((2, 5), 0)}, True),
    "an opaque type": ("wmma_m16n16k16_f16", {"a": swapped((0, 4), 0), "c": swapped((1, 2), 1)}, True),
    "A: the words of a register": (F16, {"a": halves}, False),
    "A: two lanes": (BF16, {"a": exchanged}, False),
    "B: lanes counted from another": (TF32, {"b": turned}, False),
    "an opaque type, lanes counted from another": ("wmma_m16n16k16_f16", {"b": turned}, False),
}


def hidden_elements(gpu: FakeGpu, fragment: Fragment) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return gpu.open(fragment).maps


def same_instruction(maps, real) -> bool:
    """Whether one permutation each of rows, columns and k makes the maps found of those hidden."""
    axes = {"a": ("i", "k"), "b": ("k", "j"), "c": ("i", "j")}
    names: dict[str, dict[int, int]] = {"i": {}, "j": {}, "k": {}}
    for operand, (rows, columns) in real.items():
        held = getattr(maps, operand)
        for axis, known, found in zip(axes[operand], (rows, columns), (held.rows, held.columns)):
            for x, y in zip(known.reshape(-1).tolist(), found.reshape(-1).tolist()):
                if names[axis].setdefault(x, y) != y:
                    return False
    return all(len(set(table.values())) == len(table) for table in names.values())


@pytest.mark.parametrize("name", hidden(MAPS))
def test_a_hidden_map_is_found(name):
    fragment, moved, fits = FRAGMENTS.get(MAPS[name][0]), *MAPS[name][1:]
    gpu = FakeGpu(by_row("exact", 16), moved)
    maps = find_maps(Raw(fragment, gpu.open(fragment)))
    assert same_instruction(maps, hidden_elements(gpu, fragment))
    assert maps.fits == fits and bool(maps.complaints) != fits
    assert not maps.same_as(fragment)
    if fits:  # as a row of the catalog that proves itself
        assert all((held := getattr(maps, label)) is None or held.bits.prove(*held.extents) is None for label in "abc")


def test_an_instruction_without_a_row_is_probed_by_its_mnemonic():
    fragment = instruction("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", "sm_90")
    assert (fragment.name, fragment.shape, fragment.word) == ("mma_m16n8k8_bf16", (16, 8, 8), "bf16")
    gpu = FakeGpu(by_row("exact", 8), {"a": lane_and_register, "c": swapped((0, 3), 0)})
    maps = find_maps(Raw(fragment, gpu.open(fragment)))
    assert maps.fits and not maps.same_as(fragment) and not maps.numbered and same_instruction(maps, hidden_elements(gpu, fragment))
    assert row_text(maps, "a test").startswith('name = "mma_m16n8k8_bf16"')
    assert instruction("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "sm_90") is FRAGMENTS.get(F16) is instruction(F16, "sm_90")


@pytest.mark.parametrize("name", ["wgmma_m64n16k16_f16", pytest.param("wgmma_m64n24k16_bf16", marks=pytest.mark.long)])
def test_a_wider_instruction_is_its_rows(name):
    fragment = instruction(name, "sm_90")
    gpu = FakeGpu(by_row("exact", 16))
    maps = find_maps(Raw(fragment, gpu.open(fragment)))
    assert maps.same_as(fragment) and not maps.same_as(FRAGMENTS.get("wgmma_m64n8k16_f16"))
    other = FakeGpu(by_row("exact", 16), {"c": swapped((0, 1), 1)})
    assert not find_maps(Raw(fragment, other.open(fragment))).same_as(fragment)


def test_maps_are_a_rows_where_every_row_and_every_column_is():
    fragment = FRAGMENTS.get(F16)
    maps = find_maps(Raw(fragment, FakeGpu(by_row("exact", 16)).open(fragment)))
    assert maps.same_as(fragment)
    for name in "abc":
        held = getattr(maps, name)
        for axis in ("rows", "columns"):
            assert not replace(maps, **{name: replace(held, **{axis: getattr(held, axis)[::-1]})}).same_as(fragment), (name, axis)
    three = np.arange(24).reshape(8, 3, 1)
    assert held_of(*np.divmod(three, 3), (8, 3)).odd == "registers that are no power of two"


@pytest.mark.parametrize("name", [
    "mma.sync.aligned.m16n8k8.row.col.s32.bf16.bf16.s32", "mma.sync.aligned.m16n8k12.row.col.f32.f16.f16.f32", "mma.sync.aligned.m2n2k2.row.col.f32.f16.f16.f32",
    "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64", "mma.sync.aligned.m512n8k8.row.col.f32.f16.f16.f32", "wgmma.of.any.kind",
])  # fmt: skip
def test_a_mnemonic_that_tells_no_registers_is_refused(name):
    with pytest.raises(SpecError, match="--only: is") as refusal:
        instruction(name, "sm_90")
    of_shape = any(shape in name for shape in ("m16n8k12", "m2n2k2", "m512n8k8"))
    assert ("powers of two up to 256" in refusal.value.needs) == of_shape and refusal.value.remedy == "gemmgen list fragments"


@pytest.mark.long
def test_sums_are_found_through_a_hidden_map():
    one = probed(FakeGpu(by_row("truncate", 4, 22), {"a": swapped((0, 3), 0), "b": turned}), F16)
    assert one.found.fits and one.found.candidate == Candidate("truncate", 4, 22) and not one.maps.fits


# ---------------------------------------------------------------- rows and reports


def turned_out(name: str, rule: Candidate) -> Instruction:
    return Instruction(FRAGMENTS.get(name), found=Found(rule, True, [], 1, [], 0))


def test_what_instructions_are_becomes_one_row(tmp_path):
    """Words of the commonest rule in `block`, the others as variants; a shallow instruction that sums otherwise is told."""
    known = [
        turned_out(F16, Candidate("truncate", 16, 25)), turned_out("mma_m16n8k8_f16", Candidate("truncate", 8, 25)),
        turned_out("wgmma_m64n8k16_f16", Candidate("truncate", 16, 25)), turned_out(BF16, Candidate("truncate", 8, 25)),
        turned_out(TF32, Candidate("truncate", 8, 27)), turned_out(E4M3, Candidate("by_f16", 32, 25, inner=16)),
        turned_out("wgmma_m64n8k32_e4m3", Candidate("truncate", 32, 13, 13)),
    ]
    found = unit_row(known)
    assert found.block == {"f16": 16, "bf16": 8} and not found.left_out
    (tmp_path / "hidden.toml").write_text(text_of(found, "hidden", "a test", ['verified = "a test"']))
    row = UNITS.get(str(tmp_path / "hidden.toml"))
    assert {(one.words, one.policies): (one.rule, one.fraction_bits, one.sum_bits, one.block) for one in row.variants} == {
        (("tf32",), ()): ("truncate", 27, None, 8), (("e4m3",), ("mma",)): ("by_f16", 25, None, 32), (("e4m3",), ("wgmma",)): ("truncate", 13, 13, 32),
    }
    other = unit_row([*known, turned_out("mma_m16n8k8_f16", Candidate("truncate", 4, 25))])
    assert len(other.left_out) == 1 and other.left_out[0].startswith("mma_m16n8k8_f16: rule truncate, block 4")


def test_the_catalogs_row_is_held_against_what_was_found():
    maps = Maps(FRAGMENTS.get(F16), None, None, None, True, True, 0)
    known = [turned_out(F16, Candidate("truncate", 16, 25)), turned_out("mma_m16n8k8_f16", Candidate("truncate", 8, 25)), turned_out(TF32, Candidate("tree", 8))]
    for one in known:
        one.maps = maps
    assert differences(known, UNITS.get("hopper")) == [f"{TF32}: rule tree, block 8; the row says rule truncate, block 8, fraction_bits 25"]
    assert len(differences(known, UNITS.get("ampere"))) == 3
    known[2].found.same = [Candidate("truncate", 8, 25)]  # which no product told from what was found
    assert differences(known, UNITS.get("hopper")) == []
    assert "flushes_subnormals = true" in text_of(unit_row([turned_out(F16, Candidate("tree", 4, flushes=True))]), "hidden", "a test", [])


@pytest.mark.parametrize(("steps", "consistent", "block"), [
    (((0, 1), (2, 3)), True, 2), (((0, 1), (2,)), True, 2), (((0,), (1, 2, 3), (4, 5)), True, 3), (((0, 1), (2, 3)), False, 2)])
def test_rules_are_told_apart_in_steps_as_long_as_the_longest(steps, consistent, block, monkeypatch):
    class Told(Exception):
        pass

    def asked(word, size):
        raise Told(word, size)

    monkeypatch.setattr(unit_rules, "every", asked)
    with pytest.raises(Told) as found:
        unit_rules.tell_apart(SimpleNamespace(word="f16", asked=0), Order(steps, 1, consistent))
    assert found.value.args == ("f16", block)


def test_words_that_no_row_can_say_are_left_out_with_the_reason(tmp_path):
    """Of the instructions of one type of words the deepest counts that tells something."""
    shallow, deep = Instruction(FRAGMENTS.get("mma_m8n8k16_s8"), whole=(10, 10)), Instruction(FRAGMENTS.get("mma_m16n8k32_s8"))
    refused = Instruction(FRAGMENTS.get(BF16), error=DeviceError("GPU", "hangs", got="nothing", needs="an answer"))
    known = [turned_out(F16, Candidate("truncate", 16, 25)), deep, shallow, refused, Instruction(FRAGMENTS.get(TF32))]
    found = unit_row(known)
    first = str(refused.error).splitlines()[0]
    assert "\n" in str(refused.error) and found.integers == ("s8",) and found.block == {"f16": 16}
    assert found.left_out == (f"bf16 by mma: {first}", "tf32 by mma: no rule of a row gives what it returns")
    text = text_of(found, "hidden", "a test", ['verified = "a test"'])
    assert text.endswith("\n") and [line for line in text.splitlines() if line.startswith(("#", "integers"))] == [
        'integers = ["s8"]', *(f"# left out: {one}" for one in found.left_out)]
    (tmp_path / "hidden.toml").write_text(text)
    assert UNITS.get(str(tmp_path / "hidden.toml")).integers == ("s8",)
    deep.whole = 10, 9
    other = unit_row(known)
    assert other.integers == () and "s8 by mma: no rule of a row gives what it returns" in other.left_out
    assert "integers" not in text_of(other, "hidden", "a test", [])
    alone = unit_row([shallow])
    assert (alone.main, alone.integers, text_of(alone, "hidden", "a test", [])) == (None, ("s8",), None), "a row says a rule"


def test_what_differs_is_of_words_that_the_row_has_and_that_were_probed_to_the_end():
    maps, hopper = Maps(FRAGMENTS.get(F16), None, None, None, True, True, 0), UNITS.get("hopper")
    silent, wrong = Instruction(FRAGMENTS.get(F16)), Instruction(FRAGMENTS.get("mma_m16n8k32_s8"), whole=(10, 9))
    wrong.traits = SimpleNamespace(found={"sums": SimpleNamespace(text="wrap around never")})
    assert differences([silent, wrong], hopper) == [], "nothing is known of their maps"
    silent.maps = wrong.maps = maps
    [said, sums] = differences([silent, wrong], hopper)
    assert said.startswith(f"{F16}: no row says what it returns; the row says rule truncate, block 16")
    assert sums == "mma_m16n8k32_s8: sums wrap around never; the row says exact, and wrapping around"
    wrong.whole = 10, 10
    assert differences([wrong], hopper) == []
    silent.error = DeviceError("GPU", "hangs")
    foreign = Instruction(FRAGMENTS.get("rdna3_m16n16k16_f16"), maps=maps)
    assert differences([silent], hopper) == []
    assert differences([foreign], hopper.model_copy(update={"block": {}, "variants": (), "integers": ()})) == []


def test_changes_are_told_and_what_is_the_same_is_not():
    def report(device, **values):
        return {"device": device, "values": {name: {"value": value} for name, value in values.items()}}

    before = report("one", bits=24, bits_kept=(1, 2), gone=3)
    assert changes(json.loads(json.dumps(before)), report("one", bits=25, bits_kept=(1, 2), new="x")) == [
        "bits: was 24, is 25", "gone: was 3, and was not sought", "new: new, x"]
    assert changes(before, before) == [] and "the device was one, and is two" in changes(before, report("two", **{}))


# ---------------------------------------------------------------- the whole


@dataclass
class Whole:
    told: dict = field(default_factory=dict)
    files: dict = field(default_factory=dict)


def whole(gpu: FakeGpu, names: tuple[str, ...], before: str | None = None) -> Whole:
    with np.errstate(all="ignore"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(measured_rates, "WARMTH", 0.0)
        patch.setattr(measured_rates, "SUSTAINED", 0.0)
        _, told, files = bring_up(gpu, "hidden", products=PROOF, chosen=[FRAGMENTS.get(name) for name in names], before=before)
    return Whole(told, files)


def by_word(rules):
    return lambda word, a, b, c: rules[word](word, a, b, c)


LIMITS = {"sms": 77, "warp_size": 32, "shared_bytes_per_sm": 123456, "threads_per_sm": 1536, "l2_mib": 33.5}
HELD = FakeLimits(shared_bytes_per_sm=123456, shared_bytes_per_block=100000, threads_per_sm=1536)


@pytest.mark.long
def test_rows_are_written_and_a_second_time_tells_what_changed(tmp_path):
    rules = {"f16": by_row("truncate", 8, 24), "s8": by_row("exact", 1)}
    first = whole(FakeGpu(by_word(rules), told=LIMITS, limits=HELD), ("mma_m16n8k8_f16", S8))
    (tmp_path / "unit.toml").write_text(first.files["units/hidden.toml"].replace('name = "hidden"', 'name = "unit"'))

    row = UNITS.get(str(tmp_path / "unit.toml"))
    assert (row.rule, row.fraction_bits, row.block, row.integers, row.variants) == ("truncate", 24, {"f16": 8}, ("s8",), ())
    assert f"{sum(count for _, (count, _) in list(first.told['instructions'][0]['rule']['random'].items())[:-1])} random products" in row.verified
    for name, value in LIMITS.items():
        assert f"\n{name} = {value}" in first.files["hidden.toml"]
        assert first.told["values"][f"gpu {name}"]["standing"] == ("told" if name in ("warp_size", "l2_mib") else "measured")
    assert first.told["values"]["gpu registers_per_thread"]["standing"] == "measured"
    assert first.told["changed"] is None and first.told["shipped"]["unit"] == "hopper"
    assert any(S8 not in one and "the row says rule truncate, block 8, fraction_bits 25" in one for one in first.told["shipped"]["differences"])

    rules["f16"] = by_row("truncate", 8, 25)
    second = whole(FakeGpu(by_word(rules), told=LIMITS | {"sms": 78}, limits=HELD, rates=FakeRates(sms=78)), ("mma_m16n8k8_f16", S8), before=first.files["report.json"])
    changed = second.told["changed"]
    assert "gpu sms: was 77, is 78" in changed and "unit mma_m16n8k8_f16 fraction_bits: was 24, is 25" in changed
    assert not any(S8 in one or "shared_bytes" in one for one in changed) and not second.told["shipped"]["differences"]
    assert "## What changed since the last time" in second.files["report.md"]
    assert json.loads(second.files["report.json"])["values"]["gpu sms"]["value"] == 78


@pytest.mark.long
def test_words_and_interfaces_that_sum_otherwise_become_variants(tmp_path):
    rules = {
        "f16": by_row("truncate", 16, 25), "bf16": by_row("truncate", 8, 25), "tf32": by_row("truncate", 8, 27), "e4m3": by_row("by_f16", 32, 25, inner=16),
    }
    found = whole(FakeGpu(by_word(rules)), (F16, "mma_m16n8k8_f16", BF16, TF32, E4M3))
    (tmp_path / "hidden.toml").write_text(found.files["units/hidden.toml"])

    row: MatrixUnit = UNITS.get(str(tmp_path / "hidden.toml"))
    assert row.block == {"f16": 16, "bf16": 8}
    assert {one.words: (one.rule, one.fraction_bits, one.block) for one in row.variants} == {("tf32",): ("truncate", 27, 8), ("e4m3",): ("by_f16", 25, 32)}
    assert not found.told["left_out_of_the_unit"]


@pytest.mark.long
def test_a_row_of_a_fragment_is_written_where_its_map_is_new(tmp_path):
    gpu = FakeGpu(by_row("truncate", 16, 25), {"a": swapped((0, 3), 0)})
    found = whole(gpu, (F16, BF16))
    (tmp_path / f"{F16}.toml").write_text(found.files[f"fragments/{F16}.toml"])
    row = FRAGMENTS.get(str(tmp_path / f"{F16}.toml"))
    assert row.map_source == "measured" and row.a != FRAGMENTS.get(F16).a and row.c == FRAGMENTS.get(F16).c
    plain = whole(FakeGpu(by_row("truncate", 16, 25)), (F16,))
    assert not any(name.startswith("fragments/") for name in plain.files)


def test_integers_that_stop_at_their_ends_are_told():
    def stops(word, a, b, c):
        return np.clip(a.astype(np.int64) @ b.astype(np.int64) + c, -(2**31), 2**31 - 1).astype(np.int32)

    def stops_below(word, a, b, c):
        exact = a.astype(np.int64) @ b.astype(np.int64) + c
        return np.where(exact < -(2**31), -(2**31), exact).astype(np.int32)

    for unit, told in ((stops, "stop at the ends of INT32"), (stops_below, "are not exact")):
        one = probed(FakeGpu(unit), S8)
        assert one.traits.value("sums") == told and not unit_row([one]).integers
        assert differences([one], UNITS.get("hopper")) == [f"{S8}: sums {told}; the row says exact, and wrapping around"]
    one = probed(FakeGpu(stops), S8)
    assert one.whole[0] != one.whole[1] and one.traits.value("sums") == "stop at the ends of INT32"
    for exact in ((5, 5), None):  # as the row says, and not probed to the end
        assert differences([replace(one, whole=exact)], UNITS.get("hopper")) == []


@pytest.mark.parametrize(("multiply", "problem"), [
    (lambda word, a, b, c: c, "has another number of rows"),
    (lambda word, a, b, c: 2 * by_row("exact", 16)(word, a, b, c), "sums that no one word of A and one of B can give"),
    (lambda word, a, b, c: 1.5 * by_row("exact", 16)(word, a, b, c), "sums that no one word of A and one of B can give"),
], ids=["no product", "twice it", "half as much again"])
def test_no_product_of_matrices_is_refused(multiply, problem):
    """Whole numbers of words that there are not, too."""
    one = probe_instruction(FakeGpu(multiply), FRAGMENTS.get(F16), PROOF)
    assert one.maps is None and one.error.problem == problem and one.error.got is not None


# ---------------------------------------------------------------- EGEMM-TC's workflow


def in_half(word, a, b, c):
    """Products and sums of FP16, rounded each."""
    x, y = a.view(np.float16), b.view(np.float16)
    return (x[:, :, :1] * y[:, :1] + x[:, :, 1:2] * y[:, 1:2]).astype(np.float32)


def test_a_sum_is_right_to_21_bits_where_it_is_less_than_four_last_places_off(monkeypatch):
    """Of FP32's 23 bits of fraction two are hidden; the largest distance and the first draw that differs are told."""
    class Off:
        depth = 4

        def ask(self, a, b, c):
            x, y = (words.view(np.float16).astype(np.float32) for words in (a, b))
            self.single = x[:, 0] * y[:, 0] + x[:, 1] * y[:, 1]
            return (self.single.view(np.int32) + np.int32([0, 3, -3, 4, -4, 0, 7, 1])).view(np.float32)

    found = profile(dots := Off(), AT_ONCE, draws=8)
    assert (found.single, found.single_21, found.worst) == (2, 5, 7) and found.example[1] == dots.single[1] < found.example[2]
    assert found.passing < found.of and found.verdict.startswith("neither primitive") and "5 are d_FLOAT up to 21" in found.verdict
    asked = []
    monkeypatch.setattr(egemm, "every", lambda word, block: asked.append((word, block)) or [])
    for steps in (((0, 1, 2, 3),), ((0,), (1, 2, 3))):  # where steps are of unlike sizes, the rules are those of the largest
        profile(dots, Order(steps, 0), draws=8)
    assert asked == [("f16", 4), ("f16", 3)]
    monkeypatch.setattr(egemm, "every", lambda word, block: [SimpleNamespace(unit=lambda word, off=off: off) for off in (0, 3, -3, 4, -4, 8)])

    def off_by(places, word, left, right, c):
        x, y = left.astype(np.float32), right.astype(np.float32)
        return ((x[:, 0] * y[:, 0] + x[:, 1] * y[:, 1]).view(np.int32) + np.int32(places)).view(np.float32)

    monkeypatch.setattr(egemm.units, "dot", off_by)
    assert profile(dots, AT_ONCE, draws=8).passing == 3
    words = [x.view(np.float16)[:, :2] for x in egemm.drawn(4, 1000, 1)[:2]]
    assert all(0 <= x.min() < 0.5 and 31.5 < x.max() < 33 for x in words), "the paper's words are of [0, 32)"


@pytest.mark.parametrize(("multiply", "verdict"), [
    (by_row("truncate", 8, 24), "half multiplication with single-precision accumulation: all 10000 sums are identical to d_FLOAT bit-wisely up to 21 mantissa bits"),
    pytest.param(in_half, "all 10000 sums are d_HALF", marks=pytest.mark.long),
    pytest.param(by_row("truncate", 8, 14), "neither primitive", marks=pytest.mark.long),
])
def test_egemms_profiling_says_what_it_prints(multiply, verdict):
    fragment = FRAGMENTS.get("mma_m16n8k8_f16")
    maps = find_maps(Raw(fragment, FakeGpu(by_row("truncate", 8, 24)).open(fragment)))
    found = profile(Dots(Raw(fragment, FakeGpu(multiply).open(fragment)), maps), AT_ONCE)
    assert found.verdict.startswith(verdict)
    if "21 mantissa" in verdict:
        assert found.single < found.draws == found.single_21 and 1 < found.passing < found.of
        half, single, unit = found.example
        assert half != single != unit and abs(single - unit) < abs(single - half)
        assert f"{found.passing} of the {found.of} rules" in found.overlooked[0]


def half_throughout(word, a, b, c):
    """Products and sums of FP16, rounded each, of all k and the accumulator."""
    x, y, total = a.view(np.float16), b.view(np.float16), c.astype(np.float16)
    for k in range(x.shape[2]):
        total = total + x[:, :, k, None] * y[:, k, None, :]
    return total.astype(np.float32)


def profiled_on(multiply, draws=300):
    return profile_device(FakeGpu(multiply), FRAGMENTS.get("mma_m16n8k8_f16"), draws, seed=3)


@pytest.mark.parametrize(("multiply", "printed", "verdict", "so"), [
    (by_row("truncate", 8, 24), "half multiplication with single", "rule truncate, block 8, fraction_bits 24, bit for bit on all 900 draws", "are not d_FLOAT: the verdict"),
    (half_throughout, "all 300 sums are d_HALF", "none of the ", "300 of the 300 full sums are not d_FLOAT"),
    pytest.param(by_row("tree", 4), "half multiplication with single", "rule tree, block 4, bit for bit", "every sum is rounded to nearest", marks=pytest.mark.long),
    pytest.param(by_row("truncate", 8, 14), "neither primitive", "rule truncate, block 8, fraction_bits 14", "are not d_FLOAT", marks=pytest.mark.long),
])
def test_the_workflow_on_a_device_says_more_than_the_papers(multiply, printed, verdict, so):
    found = profiled_on(multiply)
    assert printed in found.printed.verdict and found.verdict.startswith(verdict) and so in found.consequence
    told = found.as_dict()
    assert [one["agreeing"].keys() for one in told["kinds"]] == [HYPOTHESES.keys()] * 3
    first = told["kinds"][0]["agreeing"]  # the same draws as the paper's test
    assert (first["d_HALF"], first["d_FLOAT"]) == (told["printed"]["half"], told["printed"]["single"])
    text = found.as_text()
    assert found.verdict in text and found.printed.verdict in text and found.printed.design in text


@pytest.mark.long
def test_only_the_printed_draws_let_d_float_pass():
    """Sums of more bits than FP32's: two products show nothing of them, an accumulator and more products do; and the catalog's row is contradicted."""
    found = profiled_on(by_row("truncate", 8, 28))
    assert found.printed.single_21 == found.printed.draws and "scheme egemm" in found.printed.design
    assert found.kinds[2].agreeing["d_FLOAT"] < found.kinds[2].draws and 28 in {one.fraction_bits for one in found.rules}
    assert found.row.text == "rule truncate, block 16, fraction_bits 25" and "the catalog's row says rule truncate, block 16" in found.verdict


def test_profiling_takes_the_librarys_fragment_where_there_is_one():
    rows = [FRAGMENTS.get(name) for name in (S8, "mma_m16n8k8_f16", "wmma_m16n16k16_f16")]
    assert suited(rows).name == "wmma_m16n16k16_f16" and suited(rows[:2]).name == "mma_m16n8k8_f16" and suited(rows[:1]) is None
