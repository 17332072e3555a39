"""Residues: rows that prove themselves, constants against exact arithmetic, what a scheme of them computes and promises."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import numpy as np
import pytest

from gemmgen.abi import interface
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.residues import SEGMENT_K, Residues
from gemmgen.catalog.scheme import SCHEMES, Scheme
from gemmgen.errors import GemmgenError, InfeasibleSpec
from gemmgen.model.accuracy import DISTRIBUTIONS, predicted
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.split import joined, split
from gemmgen.verify import fixed
from gemmgen.verify.metrics import exact, relative_frobenius
from ways import sampled

NAMES = ("residues6", "residues7", "residues8", "residues9")


def row(**changes):
    known = {"name": "mine", "title": "mine", "source": "test", "word": "s8", "normalize": "row", "own_promote": "never", "moduli": [256, 255, 253, 251]}
    return Scheme(**(known | changes))


@pytest.mark.parametrize(("changes", "told"), [
    ({"moduli": [256, 255, 253, 85]}, "255 and 85 have 85"),
    ({"moduli": [256, 255, 253, 254]}, "odd and below 256"),
    ({"moduli": [257, 256, 255, 253]}, "odd and below 256"),
    ({"moduli": [256, 255]}, "product lies between"),
    ({"normalize": "none"}, "with moduli"),
    ({"word": "f16"}, "with moduli"),
    ({"words": [{"rounding": "nearest_even"}], "products": [{"a": 0, "b": 0, "into": "x"}]}, "moduli alone"),
])
def test_a_row_that_is_no_system_of_residues_is_refused(changes, told):
    with pytest.raises(ValueError, match=told):
        row(**changes)


@pytest.mark.parametrize("moduli", [
    *(SCHEMES.get(name).moduli for name in NAMES), (256, 255, 253, 251, 247, 233, 199, 193), (256, 255, 253, 251, 247, 233, 211, 193),
], ids=lambda moduli: str(len(moduli)))
def test_integers_have_the_digits_that_hold_their_norm_and_no_more(moduli):
    """Of [-128, 127] each: 0x7f7f7f7f is the largest of four, and one of eight moduli has its target between that and 2^31."""
    system = Residues(tuple(moduli))
    most = [sum(127 << 8 * j for j in range(count)) for count in (system.digits - 1, system.digits)]
    assert system.refusal() is None and system.target <= most[1] and (system.digits == 4 or system.target > most[0])
    assert all(len(one.digits) == system.digits for one in system.each)
    for integer in (system.target, -system.target):
        digits, left = [], integer
        for _ in range(system.digits):
            digits.append((left + 128) % 256 - 128)
            left = (left - digits[-1]) // 256
        assert left == 0
        for one in system.each:
            assert (sum(digit * part for digit, part in zip(digits, one.digits)) - integer) % one.m == 0


@pytest.mark.parametrize("name", NAMES)
def test_words_and_products_follow_from_the_moduli(name):
    scheme = SCHEMES.get(name)
    count = len(scheme.moduli)
    assert [(p.a, p.b) for p in scheme.products] == [(i, i) for i in range(count)]
    assert len(scheme.words_of("a")) == len(scheme.words_of("b")) == len(scheme.accumulators) == count
    assert scheme.family.recombination.family == "residues" and scheme.family.exact and scheme.family.largest_k is None
    assert scheme.precision.bits == {6: 24, 7: 28, 8: 32, 9: 36}[count]  # as the table of GEMMul8 has them


@pytest.mark.parametrize("name", NAMES)
def test_the_constants_are_those_of_exact_arithmetic(name):
    system = SCHEMES.get(name).family.residues
    m = prod(system.moduli)
    # Rounded rows of the target's norm keep every sum over a segment below half of M.
    assert 2 * (Fraction(system.target) + Fraction(np.ceil(np.sqrt(SEGMENT_K) / 2))) ** 2 < m
    for one in system.each:
        others = m // one.m
        w = Fraction(one.weight * one.m, 2**52)
        assert round(w) * others % one.m == 1 and abs(w - round(w)) <= Fraction(one.m, 2**53)
        assert (one.high << 20) + one.low == one.weight
        assert one.offset % one.m == 0 and one.offset >= 2**30
        assert all((digit - 256**j) % one.m == 0 and -128 <= digit <= 127 for j, digit in enumerate(one.digits))
    assert sum(255 * one.low for one in system.each) < 2**32 and SEGMENT_K * 128**2 < 2**30


@pytest.mark.parametrize("name", NAMES)
def test_the_quotient_of_any_sum_is_exact(name):
    """At the ends of every interval, where rounding down could go wrong first."""
    for one in SCHEMES.get(name).family.residues.each:
        most = (one.offset + 2**30) // one.m
        quotients = np.unique(np.r_[np.arange(0, most, 99991), most - 1, most])
        for ends in (quotients * one.m, quotients * one.m + one.m - 1):
            assert (((ends * one.reciprocal) >> 39) == ends // one.m).all()


@pytest.mark.parametrize("name", NAMES)
def test_integers_come_back_from_their_residues(name):
    """To half a residue's unit of the fraction, and 0 as 0."""
    system, rng = SCHEMES.get(name).family.residues, np.random.default_rng(1)
    m = prod(system.moduli)
    most = (system.target + 46) ** 2
    chosen = [0, 1, -1, most, -most, *(int(x * m) // 2 for x in rng.uniform(-0.99, 0.99, 40))]
    found = system.joined(np.array([[c % p for c in chosen] for p in system.moduli]))
    assert found[0] == 0
    for c, fraction in zip(chosen, found):
        assert abs(Fraction(int(fraction), 2**52) - Fraction(c, m)) <= Fraction(len(system.moduli) * 255, 2**53)


def test_residues_are_of_least_magnitude_and_fit_int8():
    integers = np.random.default_rng(2).integers(-(2**35), 2**35, 1000)
    for m, plane in zip(SCHEMES.get("residues9").moduli, SCHEMES.get("residues9").family.residues.of(integers)):
        assert ((plane - integers) % m == 0).all() and plane.min() >= -128 and plane.max() <= 127 and (np.abs(plane) * 2 <= m).all()


@pytest.mark.parametrize("m", sorted({one.m for name in NAMES for one in SCHEMES.get(name).family.residues.each} - {256}))
def test_a_sum_of_digits_leaves_its_residue_in_the_last_byte_of_fp32s_bits(m):
    """Of all sums that five digits come to: up to five products of [-128, 128] and [-128, 127]."""
    one = Residues((m, 256)).each[0]
    sums = np.arange(-(1 << 17), (1 << 17) + 1)
    start, quotient = one.start + sums, np.rint((one.start + sums) * float.fromhex(one.inverse) + one.whole)  # rounded in FP64 before: by 2^-29 at most
    assert float(np.float32(float.fromhex(one.inverse))) == float.fromhex(one.inverse)
    for held in (start, quotient):
        assert held.min() >= 1 << 23 and held.max() < 1 << 24  # FP32 holds integers there, and no others
    bits = [held.astype(np.float32).view(np.uint32) for held in (start, quotient)]
    residues = (bits[0] - bits[1] * np.uint32(m)).astype(np.uint8).view(np.int8)
    assert np.array_equal(residues, Residues((m, 256)).of(sums)[0])


def test_a_rows_factor_is_by_the_norm_of_its_largest_segment():
    system, rng = SCHEMES.get("residues8").family.residues, np.random.default_rng(3)
    x = rng.standard_normal((6, 2 * SEGMENT_K + 5)).astype(np.float32)
    x[1] = 0
    x[2, 7] = np.inf
    x[3] *= np.float32(2.0**-140)
    x[4, SEGMENT_K:] = 0
    factors = system.factors(x)
    assert factors[1] == 1 and np.isnan(factors[2])
    for line in (0, 3, 4, 5):
        norms = [np.linalg.norm(x[line, at : at + SEGMENT_K].astype(np.float64)) for at in range(0, x.shape[1], SEGMENT_K)]
        assert 1 - 2.0**-19 < factors[line] * max(norms) / system.target <= 1
        assert factors[line].view(np.uint64) & np.uint64(0xFFFFFFFF) == 0  # cut, so that products with FP32 are exact


def test_no_order_of_k_changes_a_factor():
    """Nor does what is 0; of elements of many magnitudes, whose squares FP64 sums to other bits in every order."""
    system, rng = SCHEMES.get("residues8").family.residues, np.random.default_rng(6)
    x = (rng.uniform(-1, 1, (4, SEGMENT_K)) * np.exp2(rng.integers(-30, 1, (4, SEGMENT_K)))).astype(np.float32)
    factors = system.factors(x)
    assert all((system.factors(x[:, rng.permutation(SEGMENT_K)]) == factors).all() for _ in range(3))
    assert (system.factors(np.concatenate([x[:, ::-1], 0 * x], axis=1)) == factors).all()


@pytest.mark.parametrize("data", ["equal", "one above all", "subnormal", "smallest", "largest"])
def test_a_factor_is_within_2_to_the_minus_19_of_its_norms(data):
    """Where elements rounded down to integers lose most: K small ones beside one, and each alone. Exact arithmetic, of the last bit of FP32 and of the first."""
    x = np.full((1, SEGMENT_K), 1.0, np.float32)
    if data == "one above all":
        x[0, 1:] = np.float32(2.0**-27 * (1 - 2.0**-24))
    x *= np.float32({"subnormal": 2.0**-140, "smallest": 2.0**-149, "largest": 2.0**127}.get(data, 1.0))
    square = sum(Fraction(float(one)) ** 2 for one in set(x[0].tolist()) for _ in [0] * int((x[0] == one).sum()))
    for name in NAMES:
        system = SCHEMES.get(name).family.residues
        ratio = Fraction(float(system.factors(x)[0])) ** 2 * square / Fraction(system.target) ** 2
        assert (1 - Fraction(1, 2**19)) ** 2 < ratio <= 1


def test_no_norm_is_below_the_exact_one():
    """Of elements that lose three quarters of a unit each, beside one that decides the unit: in some of these rows the cut of the factor hides nothing."""
    system = SCHEMES.get("residues8").family.residues
    first, other = np.linspace(1, 2, 200, endpoint=False).astype(np.float32), np.float32((1 - 2.0**-24) * 2.0**-5)
    x = np.full((len(first), SEGMENT_K), other)
    x[:, 0] = first
    ratios = [Fraction(float(factor)) ** 2 * (Fraction(float(one)) ** 2 + (SEGMENT_K - 1) * Fraction(float(other)) ** 2)
              for factor, one in zip(system.factors(x), first)]
    assert max(ratios) <= system.target**2


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("data", ["uniform", "positive", "spread"])
def test_the_error_is_as_predicted_and_within_both_bounds(name, data):
    scheme, rng, k = SCHEMES.get(name), np.random.default_rng(4), 700
    a, b = (DISTRIBUTIONS[data].draw(rng, shape).astype(np.float32) for shape in ((40, k), (k, 30)))
    c = joined(split(a, scheme), split(np.ascontiguousarray(b.T), scheme), scheme)
    reference = exact(a, b)
    error, estimate = relative_frobenius(c, reference), predicted(scheme, GPUS.get("h200").unit, k, 0, DISTRIBUTIONS[data]).estimate
    assert estimate / 4 < error < estimate * 4
    assert error < 2 * fixed.error_norm(scheme, a, b, reference) / np.linalg.norm(reference)
    assert (np.abs(c - reference) <= fixed.worst(scheme, None, k) * fixed.reach(scheme, a, b)).all()


def test_long_rows_keep_their_bits():
    """The error does not grow behind a segment."""
    scheme, rng = SCHEMES.get("residues7"), np.random.default_rng(5)
    errors = []
    for segments in (1, 3):
        a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((12, segments * SEGMENT_K), (segments * SEGMENT_K, 12)))
        errors.append(relative_frobenius(joined(split(a, scheme), split(np.ascontiguousarray(b.T), scheme), scheme), exact(a, b)))
    assert 0.7 < errors[1] / errors[0] < 1.4


def test_elements_of_which_nothing_remains_are_counted():
    scheme = SCHEMES.get("residues6")
    x = np.array([[1, 1e-9, 0, -1e-9], [1, np.nan, 1e-30, 0]], np.float32)
    words = split(x, scheme)
    assert words.is_lossy.tolist() == [[False, True, False, True], [False] * 4]
    assert words.nonfinite == 1


def spec(**sections):
    return loads({"split": {"scheme": "residues8"}, "target": {"gpu": "h200"}} | sections)


def test_the_kernel_is_of_the_design_for_residues():
    plan = solve(spec())
    assert plan.design.name == "residues" and plan.designed is None and plan.numbers["kept_bytes"] == 132 * plan.block[0] * plan.block[1] * 16


@pytest.mark.parametrize("gpu", ["t4", "a100", "rtx4090", "rtx5090", "b200", "mi100", "mi210", "mi300x", "mi355x", "rx7900xtx"])
def test_matrix_instructions_of_both_vendors_have_kernels(gpu):
    """In registers of which three hold an element, whatever the number of moduli."""
    fixed = {"tile": {"block": [64, 64, 64], "warp": [32, 32, 64]}}
    few, many = (solve(spec(split={"scheme": name}, target={"gpu": gpu}, **fixed)) for name in ("residues6", "residues9"))
    assert few.design.name == many.design.name == "residues_portable" and few.where == "prepass"
    assert few.numbers["accumulator_registers"] + few.numbers["kept_registers"] == 3 * few.geometry.elements == 3 * 1024 / few.lanes
    assert few.numbers["demand"] == many.numbers["demand"] and 9 * few.model["stages_k"] == 6 * many.model["stages_k"]
    assert few.packing.stage_bytes(few.operands[0]) * 6 == few.packing.packed_stage_bytes(few.operands[0])


@pytest.mark.parametrize("gpu", ["h200", "a100", "mi300x"])
def test_one_launch_comes_before_the_main_kernel(gpu):
    """It finds factors and splits; shared memory holds what it reads, for which CUDA is told of it."""
    plan = solve(spec(target={"gpu": gpu}))
    split, main = interface(plan).launches
    assert (split.role, main.role) == ("split", "gemm") and plan.model["launches" if gpu != "h200" else "split_passes"] == (1 if gpu == "h200" else 2)
    assert split.shared_bytes == (0 if gpu == "mi300x" else plan.launches.whole_shared) and split.same_b is None
    const = {one.name: one.const for one in (*split.parameters, *main.parameters) if one.name.endswith("_scales")}
    assert const == {"a_scales": True, "b_scales": True} and {one.name: one.const for one in split.parameters if one.name == "a_scales"} == {"a_scales": False}
    assert [one.name for one in interface(plan).buffers if one.zeroed_again] == []


def test_sums_of_segments_have_a_place_only_where_there_are_several():
    table = interface(solve(spec(target={"gpu": "a100"}, tile={"block": [64, 32, 64], "warp": [32, 32, 64]})))
    lengths = [table.workspace(100, 100, k).lengths["segments"] for k in (0, SEGMENT_K, SEGMENT_K + 1)]
    assert lengths == [0, 0, 8 * 128 * 128]


@pytest.mark.parametrize(("sections", "needs"), [
    ({"tile": {"split_k": 2}}, "1"),
    ({"tile": {"split_k": 2}, "target": {"gpu": "mi300x"}}, "1"),
    ({"tile": {"block": [256, 128, 64], "warp": [128, 64, 64]}, "target": {"gpu": "a100"}}, "and about"),
    ({"split": {"scheme": "residues8", "where": "mixed"}}, "prepass"),
    ({"split": {"scheme": "residues8", "where": "shared"}, "target": {"gpu": "a100"}}, "prepass"),
    ({"split": {"scheme": "residues8", "promote": 64}, "target": {"gpu": "a100"}}, "promote = 0"),
])
def test_what_has_no_kernels_is_refused_with_what_has(sections, needs):
    with pytest.raises(GemmgenError) as refused:
        solve(spec(**sections))
    assert isinstance(refused.value, InfeasibleSpec) and needs in str(refused.value) and refused.value.where.startswith("spec: [")


@pytest.mark.parametrize(("asked", "k", "found"), [(1e-7, 1024, "residues7"), (3e-8, 16384, "residues8"), (2.6e-8, 16384, "residues9")])
def test_the_contract_takes_as_many_moduli_as_it_needs(asked, k, found):
    """Among the schemes of residues: fewer do not reach it."""
    unit = GPUS.get("h200").unit
    reaching = [name for name in NAMES if predicted(SCHEMES.get(name), unit, k, 0).estimate <= asked]
    assert reaching[0] == found


@pytest.mark.parametrize(("name", "tflops"), [("residues8", (114, 149, 168, 152))])
def test_times_are_within_a_tenth_of_those_measured_on_an_h200(name, tflops):
    """Of products of 2048 to 16384, total with the passes; of several races the middle (docs/results/residues.md)."""
    for size, measured in zip((2048, 4096, 8192, 16384), tflops):
        plan = solve(spec(split={"scheme": name}, problem=dict.fromkeys("mnk", size)))
        # As measured. At 2048 a tile of 128 x 256 is slower: the residues of C that it keeps displace those of the operands from L2.
        assert (plan.block, plan.stages) == (((128, 128, 128), 7) if size == 2048 else ((128, 256, 128), 4)) and plan.cluster == 2
        assert 0.9 <= measured / plan.model["tflops"] <= 1.1


@pytest.mark.parametrize("size", sampled([4096, 8192], 1))
def test_where_a_faster_scheme_gives_fp32_it_is_taken_instead(size):
    plan = solve(loads({"accuracy": {"as": "fp32"}, "target": {"gpu": "h200"}, "problem": dict.fromkeys("mnk", size), "fragment": {"policy": "wgmma"}}))
    assert (plan.scheme.name, plan.promote) == ("run_scaled", 64)


def test_moduli_may_be_any_coprime_ones():
    system = Residues((251, 247, 241, 239))
    assert system.refusal() is None and Residues((15, 9, 251, 241)).refusal() is not None


@pytest.mark.parametrize("gpu", ["h200", "a100", "mi300x", "rx9070xt"])
@pytest.mark.parametrize("k", [64, 4096, 1 << 20])
def test_what_blocks_of_a_pass_hold_together_is_no_longer_than_a_segment(gpu, k):
    """Norms are a segment's, and whole chunks make one."""
    launches = solve(loads({"problem": {"m": 4096, "n": 4096, "k": k}, "split": {"scheme": "residues8"}, "target": {"gpu": gpu}})).launches
    held = {launches.whole_floats * 256 // launches.whole_rows, launches.whole_floats * 256 // 32 * launches.whole_cluster}
    assert all(SEGMENT_K % chunk == 0 for chunk in held) and launches.whole_floats >= 4
