"""Elements of FP64: exact references, residues by integers against exact arithmetic, what is promised of errors, and who is refused."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from fractions import Fraction
from math import inf, prod, sqrt

import numpy as np
import pytest
from ways import HOPPER, plan_of

from gemmgen import road
from gemmgen.abi import interface
from gemmgen.catalog import exactly
from gemmgen.catalog.element import F32, F64
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.output import USUAL
from gemmgen.catalog.residues import SEGMENT_K
from gemmgen.catalog.scheme import SCHEMES, Scheme, preferred_scheme
from gemmgen.cli.inputs import matrix
from gemmgen.designs.residues import norms
from gemmgen.designs.residues_portable import equations
from gemmgen.errors import GemmgenError, InfeasibleSpec, SpecError
from gemmgen.library.tables import check
from gemmgen.model.accuracy import DISTRIBUTIONS, predicted
from gemmgen.render import render
from gemmgen.run import converted
from gemmgen.solve import explain, solve
from gemmgen.solve.contract import fp64_estimate
from gemmgen.solve.lookup import schemes_for
from gemmgen.spec import loads
from gemmgen.split import joined, once_rounded, row_steps, split
from gemmgen.verdict import NATIVE, error_over_fp32s, native_seconds, verdict
from gemmgen.verify import Report, against_fp32, digests, fixed, oracles
from gemmgen.verify.bound import allowance
from gemmgen.verify.expected import sequential
from gemmgen.verify.metrics import relative_frobenius

NAMES = ("residues12", "residues13", "residues14", "residues15", "residues16")


def exact_value(x) -> Fraction:
    """Of an np.longdouble of 64 bits."""
    significand, exponent = np.frexp(x)
    return Fraction(int(np.ldexp(significand, 64))) * Fraction(2) ** (int(exponent) - 64)


def spread(rng, shape, powers):
    return rng.standard_normal(shape) * np.exp2(rng.integers(-powers, powers + 1, shape))


def spec(gpu="h200", scheme="residues14", **sections):
    problem = {"type": "f64"} | sections.pop("problem", {})
    return loads({"problem": problem, "split": {"scheme": scheme}, "target": {"gpu": gpu}} | sections)


# ---- exact references


def test_f64_by_hand():
    assert (F64.bytes, F64.roundoff, F64.tiniest, F64.c_type, F64.fused, F32.fused) == (8, 2.0**-53, 5e-324, "double", "fma", "fmaf")
    assert F64.exponents == (-1074, -1022, 1023) and F32.exponents == (-149, -126, 127) and F64.poison.dtype == np.float64
    a = np.array([[1 + 2.0**-52, -1.0, 2.0**-300]])
    assert F64.exact(a, np.array([[1 + 2.0**-52], [1 + 2.0**-51], [0.0]]))[0, 0] == np.longdouble(2.0**-104)


@pytest.mark.parametrize("powers", [0, 3, 30, 500])
def test_exact_products_are_rounded_once(powers):
    """Of sums that cancel, of rows of zeros, of subnormal elements, and of more k than FP64 sums exactly."""
    rng = np.random.default_rng(powers)
    a, b = spread(rng, (6, 70), powers), spread(rng, (70, 4), powers)
    a[0], a[1, 3], a[4] = 0, 5e-324, 2.0**-1060 * rng.integers(-50, 50, 70)
    a[2, :35], b[:35, 1] = -a[2, 35:], b[35:, 1]
    b[7, 1] *= 1 + 2.0**-40
    found = exactly.product(a, b)
    for i, j in np.ndindex(found.shape):
        want = sum(Fraction(x) * Fraction(y) for x, y in zip(a[i], b[:, j]))
        assert abs(exact_value(found[i, j]) - want) <= abs(want) / 2**64, (i, j)


def test_exact_products_of_long_sums_and_of_nothing():
    k = 3 * exactly.CHUNK + 5
    ones = np.full((1, k), 1 - 2.0**-53)
    assert exact_value(exactly.product(ones, ones.T)[0, 0]) == exact_value(np.longdouble(k) * (1 - np.longdouble(2) ** -52))
    assert exactly.product(np.zeros((2, 0)), np.zeros((0, 3))).tolist() == [[0] * 3] * 2
    with pytest.raises(ValueError, match="products of digits"):
        exactly.product(np.ones((1, exactly.MOST)), np.ones((exactly.MOST, 1)))
    wide = np.full((1, exactly.MOST // 40), 2.0**-900)  # more than 40 digits of one operand, three of the other
    wide[0, 0] = 1
    for a, b in ((wide, np.ones_like(wide).T), (np.ones_like(wide), wide.T)):
        with pytest.raises(ValueError, match="products of digits"):
            exactly.product(a, b)


def test_a_tie_of_the_rounding_goes_to_even_and_a_bit_far_below_breaks_it():
    one = np.array([[2.0**32, 2.0**-32, 2.0**-500]])
    for last, want in ((0.0, 2**96), (1.0, 2**96 + 2**33), (-1.0, 2**96)):
        assert exact_value(exactly.product(one, np.array([[2.0**64], [2.0**64], [last]]))[0, 0]) == want


def test_inf_and_nan_spread_as_in_fp64():
    a, b = np.array([[np.inf, 1], [np.nan, 1], [1e308, 1e308], [1.0, 2]]), np.array([[1.0, 0], [10, 1]])
    product, finite = F64.exact_or_special(a, b)
    assert product[0, 0] == inf and np.isnan(product[0, 1]) and np.isnan(product[1]).all() and product[2, 0] == inf
    assert finite.tolist() == [[False, False], [False, False], [False, True], [True, True]] and product[3].astype(float).tolist() == [21, 2]
    assert F64.same_special(np.array([[inf, np.nan], [np.nan, np.nan], [inf, 1e308], [21, 2]]), product, finite)


# ---- the system


def row(**changes):
    known = {"name": "mine", "title": "mine", "source": "test", "word": "s8", "normalize": "row", "own_promote": "never", "element": "f64",
             "moduli": SCHEMES.get("residues12").moduli}
    return Scheme(**(known | changes))


@pytest.mark.parametrize(("changes", "told"), [
    ({"moduli": SCHEMES.get("residues9").moduli}, "between 2\\^76 and 2\\^127"),
    ({"moduli": [*SCHEMES.get("residues12").moduli[:-1], 255 // 3]}, "255 and 85 have 85"),
    ({"element": "f32"}, "between 2\\^25 and 2\\^77"),
    ({"moduli": None, "words": [{"rounding": "nearest_even"}], "products": [{"a": 0, "b": 0, "into": "x"}]}, "residues alone hold as many bits"),
])
def test_a_row_that_is_no_system_for_fp64_is_refused(changes, told):
    with pytest.raises(ValueError, match=told):
        row(**changes)


@pytest.mark.parametrize("name", NAMES)
def test_the_constants_are_those_of_exact_arithmetic(name):
    system = SCHEMES.get(name).family.residues
    m = prod(system.moduli)
    # Integers stay so far below M / 2 that the quotient is right although each share is rounded to 32 bits.
    largest = 2 * (Fraction(system.target) + 2**15) ** 2
    assert largest <= m * (1 - Fraction(1, 2**18)) and sum(Fraction(255 * sum(pair.weights), 2**48) for pair in system.pairs) < Fraction(1, 2**19)
    assert largest >= m * (1 - Fraction(1, 2**16))
    assert system.target < 0x7F7F7F7F7F7F7F7F  # a digit's bias does not overflow
    most, power = system.square
    assert 2**61 <= most < 2**63 and most * 4**power <= system.target**2 < (most + 1) * 4**power
    assert [len(pair.weights) for pair in system.pairs] == [2] * (len(system.moduli) // 2) + [1] * (len(system.moduli) % 2)
    for at, pair in enumerate(system.pairs):
        for one, weight in zip(system.each[2 * at :], pair.weights):
            assert weight * pair.rest % one.m == 1 and weight * pair.rest % (m // one.m) == 0
        assert 255 * sum(pair.weights) < 2**26 and pair.rest * prod(one.m for one in system.each[2 * at :][: len(pair.weights)]) == m
        assert abs(Fraction(pair.share, 2**47) - Fraction(pair.rest, m)) <= Fraction(1, 2**48) and (pair.share < 2**32 or len(pair.weights) == 1)
        assert sum(limb << 32 * j for j, limb in enumerate(pair.limbs)) == pair.rest
    for one in system.each:
        digits = [((word >> 8 * j & 255) ^ 128) - 128 for word in (one.first_digits, one.last_digits) for j in range(4)]
        assert all((digit - 256**j) % one.m == 0 for j, digit in enumerate(digits))
    assert (sum(limb << 32 * j for j, limb in enumerate(system.negative_limbs)) + m) % 2**128 == 0


@pytest.mark.parametrize("name", NAMES)
def test_integers_come_back_from_their_residues(name):
    system, rng = SCHEMES.get(name).family.residues, np.random.default_rng(1)
    most = (system.target + 2**15) ** 2
    chosen = [0, 1, -1, most, -most, *(int(x * 2**53) * most // 2**53 for x in rng.uniform(-1, 1, 40))]
    assert system.whole(np.array([[c % p for c in chosen] for p in system.moduli])).tolist() == chosen


def test_powers_bring_norms_below_the_target_and_no_order_of_k_changes_them():
    system, rng = SCHEMES.get("residues14").family.residues, np.random.default_rng(3)
    x = spread(rng, (9, 300), 10)
    x[1], x[2, 7], x[5, 8] = 0, inf, np.nan
    x[3] *= 2.0**-1060
    x[4] *= 2.0**1005 / np.abs(x[4]).max()
    x[6], x[7] = 2.0**-1074, 0
    x[7, 9] = 5e-324
    powers = system.powers(x)
    assert powers[[1, 2, 5]].tolist() == [0, 0, 0]
    for line in (0, 3, 4, 6, 7, 8):
        norm = sqrt(sum(Fraction(value) ** 2 for value in x[line]) * Fraction(4) ** int(powers[line])) / system.target
        assert norm <= 1 and (norm > 0.5 * (1 - 2.0**-14) or line in (3, 6, 7)), line  # of subnormal rows the leading bits are 0
    assert (system.powers(rng.permuted(x, axis=1)) == powers).all()
    assert powers.dtype == np.int64 and row_steps(x, system)[0] == np.longdouble(2) ** -int(powers[0])


def test_powers_by_hand():
    """1 has the leading bits 2^15, whose bound is one more: (2^15 + 1)^2 4^n reaches the target's square at n = 39, so that 2^(39 + 15) is the power."""
    system = SCHEMES.get("residues14").family.residues
    assert system.powers(np.array([[1.0], [2.0], [0.5], [2.0**-1022]])).tolist() == [54, 53, 55, 1076]
    assert system.powers(np.array([[0.0, 0.0], [2.0**1023, 0], [2.0**1023, np.inf], [np.nan, 1]])).tolist() == [0, 54 - 1023, 0, 0]
    assert 2.0**54 < system.target < 2.0**55
    beyond = np.nextafter(system.target / 2.0**54, 2)  # whose leading bits alone are within the target
    assert system.powers(np.array([[beyond]])).tolist() == [53]


def test_integers_are_rounded_ties_to_even():
    system = SCHEMES.get("residues14").family.residues
    x = np.array([[1.5, -1.5, 2.5, 0.5, -0.5, 0.49999999999999994, 5e-324, 3.0]])
    assert system.integers(x, np.array([0])).tolist() == [[2, -2, 2, 0, 0, 0, 0, 3]]
    assert system.integers(x, np.array([9]))[0, :3].tolist() == [768, -768, 1280]


def test_one_rounding_is_that_of_fractions():
    """Normal, subnormal and at the ends of the range; ties to even."""
    rng = np.random.default_rng(5)
    for _ in range(2000):
        number, exponent = int(rng.integers(1, 1 << 62)) * int(rng.integers(1, 1 << 60)), int(rng.integers(-1230, 920))
        exact = Fraction(number) * Fraction(2) ** exponent
        try:
            want = exact.numerator / exact.denominator
        except OverflowError:
            want = inf
        assert once_rounded(number, exponent) == want and once_rounded(-number, exponent) == -want, (number, exponent)
    assert [once_rounded(n, e) for n, e in ((2**54 + 2, 0), (2**54 + 6, 0), (1, -1075), (3, -1075), (0, 5), (1, 1024))] == [
        2.0**54, 2.0**54 + 8, 0.0, 2.0**-1073, 0.0, inf]


@pytest.mark.parametrize("name", NAMES)
def test_c_is_the_exact_sum_of_integers_rounded_once(name):
    scheme, rng = SCHEMES.get(name), np.random.default_rng(6)
    a, b = spread(rng, (5, 90), 200), np.ascontiguousarray(spread(rng, (90, 4), 200).T)
    b[3] = np.inf
    words = split(a, scheme), split(b, scheme)
    found, system = joined(*words, scheme), scheme.family.residues
    of_a, of_b = (system.integers(np.where(np.isfinite(x), x, 0), system.powers(x)).astype(object) for x in (a, b))
    for i, j in np.ndindex(5, 3):
        want = Fraction(sum(of_a[i] * of_b[j])) * Fraction(2) ** -int(words[0].exponents[i] + words[1].exponents[j])
        assert found[i, j] == want.numerator / want.denominator
    assert np.isnan(found[:, 3]).all() and words[1].nonfinite == 90 and words[1].is_lossy[3].sum() == 0
    assert (words[0].is_lossy == ((of_a == 0) & (a != 0))).all() and words[0].lossy > 0
    with pytest.raises(TypeError, match="float64, not float32"):
        split(np.zeros((1, 1), np.float32), scheme)


# ---- errors


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("data", ["uniform", "positive", "spread"])
def test_the_error_is_as_predicted_and_within_both_bounds(name, data):
    scheme, rng, k = SCHEMES.get(name), np.random.default_rng(4), 700
    a, b = (DISTRIBUTIONS[data].draw(rng, shape) for shape in ((40, k), (k, 30)))
    c, reference = joined(split(a, scheme), split(np.ascontiguousarray(b.T), scheme), scheme), F64.exact(a, b)
    error, estimate = relative_frobenius(c, reference), predicted(scheme, GPUS.get("h200").unit, k, 0, DISTRIBUTIONS[data]).estimate
    assert estimate / 4 < error < estimate * 4
    assert error < 2 * fixed.error_norm(scheme, a, b, reference) / np.linalg.norm(reference) and error < 2 * fixed.relative(scheme, k)
    assert (np.abs(c - reference) <= fixed.worst(scheme, None, k) * fixed.reach(scheme, a, b)).all()
    assert (np.abs(c - reference) <= allowance(plan_of(name, promote=0), a, b, F64.exact(np.abs(a), np.abs(b)))).all()


def test_bounds_are_in_fp64s_last_places():
    """Sixteen moduli hold all of U[-1, 1]: what is left is C's rounding, and a bound of FP32's would let 2^-24 through."""
    scheme = SCHEMES.get("residues16")
    assert 2.0**-53 < fixed.worst(scheme, None, 4096) < 2.0**-52 and fixed.rounding(scheme) == 2.0**-52
    assert fixed.worst(SCHEMES.get("residues14"), None, 4096) == pytest.approx(64 * 2 / SCHEMES.get("residues14").family.residues.target + 2.0**-53, rel=1e-3)
    tiny = np.full((1, 1), 2.0**-600)
    assert allowance(plan_of("residues14", promote=0), tiny, tiny, F64.exact(tiny, tiny))[0, 0] < 2.0**-1073


def test_the_sum_one_after_another_is_fp64s():
    a, b = np.array([[1.0, 2.0**-53, 2.0**-53]]), np.ones((3, 1))
    assert sequential(a, b, F64)[0, 0] == 1.0 and sequential(a, b, F64).dtype == np.float64
    assert sequential(np.float32([[1, 2.0**-25]]), np.float32([[1], [1]])).dtype == np.float32


def test_oracles_draw_fp64():
    plan = plan_of("residues14", promote=0)
    assert (oracles.uniform(plan, -1, 1, (40, 30, 20), 1).b.astype(np.float32) != oracles.uniform(plan, -1, 1, (40, 30, 20), 1).b).all()
    ranged = oracles.all_ranges(plan).a
    assert np.abs(ranged[ranged != 0]).min() < 2.0**-1060 and np.abs(ranged).max() > 2.0**1000
    probes = oracles.probes(plan)
    assert probes.a.dtype == np.float64 and np.abs(probes.a[2]).max() < 2.0**-1021 and np.abs(probes.a[4]).max() > 2.0**1000


def test_a_report_says_whose_error_it_is():
    assert against_fp32(1.4, "FP64") == "as FP64" and against_fp32(3.0, "FP64") == "3.0 times FP64's" and against_fp32(1.0) == "as FP32"
    assert Report.__dataclass_fields__["element"].default == "FP32"


# ---- plans


def test_nobody_names_a_scheme_and_fourteen_moduli_are_taken():
    plan = solve(loads({"problem": {"type": "f64"}, "target": {"gpu": "h200"}}))
    assert (plan.scheme.name, plan.type, plan.output.name, plan.inputs.stored_b.name, plan.design.name) == ("residues14", F64, "f64", "f64", "residues")
    assert preferred_scheme(plan.gpu.unit, element="f64").name == "residues14" and plan.identity["type"] == "f64"
    assert all(predicted(SCHEMES.get("residues14"), None, k, 0, DISTRIBUTIONS[data]).estimate < fp64_estimate(k, DISTRIBUTIONS[data])
               for k in (256, 4096, 65536) for data in ("uniform", "normal"))
    assert [one.name for one in schemes_for("f32", "f64")] == list(NAMES) and not {one.name for one in schemes_for("f32")} & set(NAMES)


@pytest.mark.parametrize(("asked", "name"), [
    ({"as": "fp64", "data": "uniform"}, "residues14"), ({"relative_frobenius": 1e-12}, "residues12"), ({"relative_frobenius": 2e-16}, "residues15"),
    ({"relative_frobenius": 5e-17}, "residues16"),
])
def test_a_contract_chooses_the_moduli(asked, name):
    assert solve(loads({"problem": {"type": "f64"}, "accuracy": asked, "target": {"gpu": "h200"}})).scheme.name == name


def test_a_kernel_tells_its_workspace_before_it_runs():
    for plan, residues in ((plan_of("residues14", promote=0), 14 * 512 * 384), (plan_of("residues14", promote=0, **HOPPER, tile={"block": [128, 128, 128], "warp": [64, 128, 128]}),
                                                                     14 * 132 * 128 * 128)):
        told = interface(plan)
        work = told.workspace(500, 380, 70)
        assert work.lengths["residues"] == residues and work.lengths["a_scales"] == 4 * 512
        element = {one.name: one.type for launch in told.launches for one in launch.parameters}
        assert (element["a"], element["c"], element["alpha"], element["a_scales"]) == ("const double*", "double*", "double", "const int*")
    assert converted("double", 0.1) == 0.1


def test_passes_compute_in_fp64_where_that_is_cheap():
    """GeForce has next to none, and AMD no conversion to 64 bits: there elements become integers by integer arithmetic, and alpha and beta alone multiply."""
    for gpu, cheap, converted in (("a100", True, True), ("b200", True, True), ("b300", False, False), ("rtx4090", False, False), ("mi300x", True, False)):
        assert GPUS.get(gpu).rates.computes_f64 == cheap, gpu
        tile, policy = {"block": [64, 32, 64], "warp": [32, 32, 64]}, GPUS.get(gpu).portable_policy
        text = render(plan_of("residues14", gpu, promote=0, tile=tile, fragment={"policy": policy})).text
        lines = [line for line in text.splitlines() if "fma(" in line and "double fma(" not in line and "__uint_as_float" not in line]
        assert all("alpha" in line or "sum = fma(" in line for line in lines) and "sqrt" not in text
        assert ("__double2ll_rn(scaled)" in text) == converted and ("significand << up" in text) != converted, gpu


def test_times_are_those_of_fp64():
    """Elements are read twice, for norms and residues; 14 residues are written, and 8 bytes of each element of C."""
    for plan in (solve(spec(problem=dict.fromkeys("mnk", 16384))), plan_of("residues14", promote=0, size=16384)):
        assert plan.model["split_bytes"] == 2 * 16384**2 * (2 * 8 + 14)
        assert plan.model["dram_bytes"] > 16384**2 * (8 + 2 * 14)
    for size, measured in ((2048, 0.365e-3), (4096, 1.983e-3), (8192, 13.105e-3), (16384, 103.909e-3)):  # on an H200: docs/results/f64.md
        assert 0.85 < solve(spec(problem=dict.fromkeys("mnk", size))).model["seconds"] / measured < 1.1, size


def test_what_a_join_moves_takes_device_memorys_time():
    """By hand, of an H200's 132 blocks of 128 x 256: 8 bytes of C for each element, and 14 residues, which L2 does not hold beside others' and operands."""
    tile = {"tile": {"block": [128, 256, 128], "warp": [64, 256, 128], "cluster": 2}}
    known = solve(spec(problem=dict.fromkeys("mnk", 2048), **tile)).model
    assert known["join_bytes"] == 128 * 256 * (8 + 14) and known["kept_bytes"] == 132 * 128 * 256 * 14 > known["l2_size"]
    assert known["join_cycles"] == pytest.approx(128 * 256 * (90 + 12 * 14) / 128 + known["join_bytes"] * 132 * known["clock_hz"] / known["dram_rate"])
    narrow = {"tile": {"block": [64, 128, 128], "warp": [64, 64, 128]}}
    found = [solve(spec(problem=dict.fromkeys("mnk", size), **narrow)).model for size in (256, 2048)]
    assert [one["join_bytes"] for one in found] == [64 * 128 * 8, 64 * 128 * (8 + 14)] and found[1]["kept_bytes"] < found[1]["l2_size"]


@pytest.mark.parametrize(("gpu", "scheme", "k"), [
    ("h200", "residues14", 300), ("a100", "residues14", 300), ("h200", "residues8", 300), ("a100", "residues8", SEGMENT_K + 300), ("b200", "residues8", 300),
])
def test_a_batch_has_words_and_powers_of_each_product(gpu, scheme, k):
    """Eight products: buffers, passes and traffic are eight times those of one, but for the residues of blocks that stay."""
    block, warp = {"h200": ([64, 64, 64], [64, 64, 64]), "a100": ([64, 64, 64], [32, 32, 64]), "b200": ([128, 64, 64], [128, 64, 64])}[gpu]
    sizes = {"m": 200, "n": 100, "k": k, "type": SCHEMES.get(scheme).element}
    kinds = ({}, {"kind": "strided", "matrices": 8})
    one, batch = (solve(spec(gpu, scheme=scheme, problem=sizes | more, tile={"block": block, "warp": warp})) for more in kinds)
    alone, table = interface(one), interface(batch)
    lengths = [found.workspace(200, 100, k, *count).lengths for found, count in ((alone, ()), (table, (8,)))]
    for name in ("a_words", "b_words", "a_scales", "b_scales", "segments" if k > SEGMENT_K else "residues"):
        times = 1 if name == "residues" and batch.design.stays else 8
        assert lengths[1][name] == times * lengths[0][name] > 0, name
    assert [launch.role for launch in table.launches] == ["norms", "split", "gemm"][batch.launches.splits_whole :]
    for launch, other in list(zip(table.launches, alone.launches))[:-1]:
        assert launch.blocks(table.extents(200, 100, k, 8)) == 8 * other.blocks(alone.extents(200, 100, k))
    assert batch.model["plane_bytes"] == 8 * one.model["plane_bytes"] and batch.model["blocks"] == 8 * one.model["blocks"]
    moduli, read = len(batch.scheme.words), 16 if scheme == "residues14" else 4
    for known in (one.model, batch.model):  # with what L2 does not keep of the residues, or without
        assert known["split_bytes"] in (known["plane_bytes"] / moduli * (read + moduli), known["plane_bytes"] / moduli * read)


def test_sums_of_segments_of_all_products_are_written_and_read():
    """Two segments of eight products: 16 bytes for each element of C beside its own 4."""
    known = {"c_bytes": 4, "batch": 8, "M": 200, "N": 100, "l2_size": 1e9, "total_bytes": 8, "segment_k": 64, "K": 65, **dict.fromkeys(
        ("plane_bytes", "waves", "wave_products", "wave_rows", "wave_columns", "BM", "BN", "moduli"), 0)}
    assert equations.DRAM_BYTES.value(known) == 8 * 200 * 100 * (4 + 16)


@pytest.mark.parametrize(("type", "gpu", "policy"), [
    ("f32", "b200", "tcgen05"), ("f64", "b200", "tcgen05"), ("c128", "gb200", "tcgen05"), ("c64", "h200", "wgmma"), ("f32", "b300", "mma"), ("f32", "mi300x", "mfma"),
])
def test_residues_have_batches(type, gpu, policy):
    problem = {"kind": "strided", "type": type, **dict.fromkeys("mnk", 128)}
    plan = solve(spec(gpu, scheme="residues8" if type in ("f32", "c64") else "residues14", problem=problem, fragment={"policy": policy}))
    assert plan.launches.repeated and (plan.fragment.policy, plan.kind.asked) == (policy, "strided")


def test_triangles_of_fp64_have_batches():
    assert solve(spec(problem={"kind": "syrk", "layout": "nt", "matrices": 8, **dict.fromkeys("mnk", 128)})).launches.repeated


@pytest.mark.parametrize("gpu", ["h200", "a100"])
def test_residues_of_a_triangle_are_fp64s(gpu):
    """Norms of FP32's rows are sums over all of the stored matrix, which reads what TRMM must not."""
    asked = {"problem": {"kind": "trmm", "m": 200, "n": 70, "k": 200}, "split": {"scheme": "residues8"}, "target": {"gpu": gpu}}
    with pytest.raises(InfeasibleSpec, match="norms of rows are those of a whole FP32 matrix, and kind trmm reads a triangle"):
        solve(loads(asked))
    assert solve(loads(asked | {"problem": asked["problem"] | {"type": "f64"}, "split": {"scheme": "residues12"}})).kind.name == "trmm"


@pytest.mark.parametrize(("sections", "told"), [
    ({"problem": {"kind": "trmm", "matrices": 3}}, ("[problem] kind", "trsm, strided, pointers or grouped; syr2k and trmm of single products")),
    *(({"problem": {"kind": "grouped", "type": type}}, ("[problem] kind", "hold alpha and beta as real numbers", 'kind = "strided"')) for type in ("c64", "c128")),
    ({"problem": {"kind": "grouped"}, "tile": {"split_k": 2}}, ("[tile] split_k", "without slices of k")),
    ({"problem": {"kind": "grouped"}, "batch": {"walk": "workgroups"}}, ("[batch] walk", "kernels with several tiles")),
    ({"problem": {"kind": "syr2k", "layout": "nt", "matrices": 3}}, ("[problem] kind", "do not compute products of this kind")),
    ({"problem": {"b": "f16"}}, ("[problem] b", "a B of the same type")),
    ({"problem": {"c": "f16"}}, ("[problem] c", "store C in the same type")),
    ({"epilogue": {"do": ["relu"]}}, ("[epilogue] do", "steps compute in FP32")),
    ({"scheme": "residues8"}, ("[split] scheme", 'type = "f32", or scheme = "residues14"')),
    ({"problem": {"type": "f32"}}, ("[split] scheme", 'type = "f64"')),
    ({"tile": {"split_k": 2}}, ("[tile] split_k", "slices of k are not for residues")),
])
def test_what_fp64_does_not_serve_is_refused_with_the_reason(sections, told):
    with pytest.raises((InfeasibleSpec, SpecError)) as error:
        solve(spec(**sections))
    assert all(part in f"{error.value}" for part in told), error.value


def test_fp64s_error_is_not_asked_of_fp32():
    with pytest.raises(InfeasibleSpec, match="no element of f32 has such an error"):
        solve(loads({"accuracy": {"as": "fp64"}, "target": {"gpu": "h200"}}))


@pytest.mark.parametrize(("type", "figure", "name", "asked"), [("f64", 1e-12, "residues12", "residues14"), ("f32", 3e-8, "residues8", "residues7")])
def test_the_same_bits_everywhere_are_those_of_residues(type, figure, name, asked):
    spec = {"accuracy": {"reproducible": True}, "target": {"gpu": "mi300x"}, "problem": {"type": type}}
    plan = solve(loads(spec))
    assert plan.scheme.name == asked and (type == "f64" or "same bits" in explain(loads(spec)).scheme_reason)
    assert solve(loads(spec | {"accuracy": {"reproducible": True, "relative_frobenius": figure}})).scheme.name == name


@pytest.mark.parametrize(("sections", "got"), [
    *(({"split": {"scheme": scheme}}, "residues6, residues7, residues8, residues9") for scheme in ("mixpert4", "fp32")),
    ({"problem": {"kind": "trsm"}}, "kind = trsm"), ({"epilogue": {"do": ["bias", "relu"]}}, "bias, relu"),
])
def test_what_rounds_in_an_order_of_its_own_is_not_the_same_bits_everywhere(sections, got):
    spec = {"accuracy": {"reproducible": True}, "target": {"gpu": "h200"}} | sections
    with pytest.raises(InfeasibleSpec) as error:
        solve(loads(spec))
    assert error.value.where.endswith("[accuracy] reproducible") and got in f"{error.value}"
    solve(loads(spec | {"accuracy": {}}))


def test_schemes_whose_c_is_the_same_bits_everywhere():
    assert {row.name for row in SCHEMES.rows() if row.family.reproducible} == {*NAMES, *(f"residues{count}" for count in (6, 7, 8, 9))}


def test_libraries_take_a_kernel_whose_matrices_are_all_fp64():
    plan = plan_of("residues14", promote=0)
    built = type("Built", (), {"plan": plan, "source": render(plan)})
    check(type("Kernel", (), {"label": "mine", "built": built}))
    built.plan = replace(plan, output=USUAL)
    with pytest.raises(GemmgenError, match="C of another type than A") as error:
        check(type("Kernel", (), {"label": "mine", "built": built}))
    assert error.value.needs == "FP64 in and out"


def test_a_verdict_is_beside_native_fp64():
    """M25 by hand: 6 us, 40 ns for each of 512 k, 2^37 operations at 0.8 of 66.9 TFLOP/s, 128 MiB at 0.835 of 4.8 TB/s."""
    gpu = GPUS.get("h200")
    assert native_seconds(gpu, 4096, 4096, 4096) == pytest.approx(26.48e-6 + 2.0**37 / (0.8 * 66.9e12) + 2.0**27 / (gpu.measured.dram_efficiency.value * 4.8e12))
    plan = solve(spec())
    found = verdict(plan)
    assert found.fp32 == NATIVE and "x FP64" in found.sentence and 0.3 < error_over_fp32s(plan) < 2
    slow = verdict(solve(spec("rtx4090")))
    assert slow.ratio > 10 > 2 > found.ratio and not slow.loses
    assert verdict(replace(plan, gpu=gpu.model_copy(update={"rates": gpu.rates.model_copy(update={"f64_tflops": None})}))) is None


def test_a_users_matrix_stays_fp64(tmp_path, capsys):
    np.save(tmp_path / "a.npy", np.full((2, 2), 1 / 3))
    assert matrix("--a", tmp_path / "a.npy", element=F64)[0, 0] == 1 / 3 and capsys.readouterr().err == ""
    assert matrix("--a", tmp_path / "a.npy")[0, 0] == np.float32(1 / 3) and "rounded" in capsys.readouterr().err
    np.save(tmp_path / "b.npy", np.array([[1 / 3, 0.1, 0.5, 1e300, np.inf, np.nan]]))
    assert np.isinf(matrix("--a", tmp_path / "b.npy")).sum() == 2 and "of 6 elements 2 change and 1 become Inf" in capsys.readouterr().err
    np.save(tmp_path / "c.npy", np.ones((1, 1), np.float32))
    assert matrix("--a", tmp_path / "c.npy") == 1 and capsys.readouterr().err == "", "of its own type nothing is rounded"


@pytest.mark.parametrize(("type", "case", "given"), [
    ("f64", "spread", "8eae655cf2a58446"), ("f64", "special", "1779c579fdbc592c"), ("f64", "everything", "faeaa6e5e27e5fb0"),
    ("c128", "special", "c4730e7ad353093e"), ("c128", "everything", "335db7650039e78a"),
    ("f32", "spread", "0c282b4f220c37ce"), ("f32", "special", "05ed892172a3c3c8"), ("f32", "everything", "e610066871cd58a2"),
    ("c64", "special", "d78f31d54fa7e5a9"), ("c64", "everything", "d54100868385cc4a"),
])
def test_a_published_digest_is_of_these_inputs(type, case, given):
    """Of others every right kernel would be called wrong."""
    *matrices, alpha, beta = digests.inputs(type, case)
    assert hashlib.sha256(b"".join(np.ascontiguousarray(x).tobytes() for x in matrices if x is not None)).hexdigest().startswith(given)
    reals = (-1 / 3, 0.7) if case == "everything" else (1, 0)
    imaginary = (0.3, -0.1) if type[0] == "c" and case == "everything" else (0, 0)
    assert ((alpha.real, beta.real), (alpha.imag, beta.imag)) == (reals, imaginary)


class Stop(Exception):
    pass


@pytest.mark.parametrize(("way", "graded", "digest"), [
    ({}, False, False), ({"type": "c64"}, True, False), ({"scheme": "residues8", "promote": 0, "type": "c64"}, True, True),
    ({"scheme": "residues13", "promote": 0}, True, True), ({"scheme": "residues13", "promote": 0, "type": "c128"}, True, True),
    ({"scheme": "residues13", "promote": 0, "special": "fast"}, True, False),
])
def test_graded_data_and_digests_are_asked_of_what_has_them(way, graded, digest, monkeypatch):
    from gemmgen import verify as judging

    class Asked:
        of_batches = {}

        def __init__(self, *given):
            pass

        def accuracy(self, *given):
            raise Stop

        def __getattr__(self, name):
            return lambda *given: None

    asked = []
    monkeypatch.setattr(judging, "Judge", Asked)
    for name in ("probes", "permutation"):
        monkeypatch.setattr(judging.oracles, name, lambda plan: None)
    plan = plan_of(**way)
    with pytest.raises(Stop):
        judging.verify(plan, None, None, type("Device", (), {"kind": "cuda"}), size=(4, 4, 4), progress=asked.append)
    assert (asked.count("graded"), asked.count("digest")) == (graded, digest) and asked.count("range") == 1


@pytest.mark.parametrize(("way", "rest"), [({"scheme": "residues14", "promote": 0}, 2.0**-30), ({"type": "c64"}, 2.0**-14)])
def test_graded_data_fall_span_and_cancel(way, rest):
    """Rows of A fall and columns of B rise, each of four reaches twice; then they span as much without order; of every second one pairs cancel."""
    problem = oracles.graded(plan_of(**way))
    for lines, sign in ((problem.a, -1), (problem.b.T, 1)):
        powers = np.floor(np.log2(abs(lines[:, ::2])))
        spans = powers.max(axis=1) - powers.min(axis=1)
        for at, reach in enumerate((0, 0, 9, 9, 20, 20, 40, 40) * 2):
            assert reach - 4 <= spans[at] <= reach + 1
            steps = np.diff(powers[at])
            if reach > 9:
                assert ((sign * steps < -1).any()) == (at >= 8)  # against the order of those that fall or rise
    pairs = problem.a[1::2, ::2].astype(np.longdouble) + problem.a[1::2, 1::2]
    np.testing.assert_allclose(abs(pairs / problem.a[1::2, ::2]), rest, rtol=1e-2)
    assert np.array_equal(problem.b[::2, 1::2], problem.b[1::2, 1::2])


@pytest.mark.parametrize("type", ["float32", "float64"])
def test_a_digest_knows_one_nan(type):
    """Whatever its sign and payload, and a 0 with a sign from one without."""
    c = np.array([[1.0, np.nan]], type)
    other = c.copy()
    other.view(np.uint8)[0, -1] ^= 0x80
    assert np.isnan(other[0, 1]) and other.tobytes() != c.tobytes() and digests.digest(other) == digests.digest(c) != digests.digest(-c)
    assert digests.digest(0 * c[:, :1]) != digests.digest(-0.0 * c[:, :1])


def test_fp64_and_complex_elements_take_registers_to_be_stored():
    """On NVIDIA, by compiled kernels: FP64's at least 80, complex ones' 84; complex FP32's 60, and 10 more than are predicted, and 0.4 for each that holds
    sums of several moduli beside two fragment buffers."""
    least = {(0, 0, 1): 80, (0, 0, 2): 84, (8, 0, 1): 0, (8, 0, 2): 60, (0, 1, 2): 0, (8, 1, 2): 0}
    assert {one: equations.LEAST_STORE.value(dict(zip(("total_bytes", "amd", "reals"), one))) for one in least} == least
    known = dict.fromkeys(equations.DEMAND.variables, 0) | {"generation": 30.0, "least_store": 80}
    assert equations.DEMAND.value(known) == 80 and equations.DEMAND.value(known | {"generation": 90.0, "turn_registers": 7}) == 97
    guards = {(0, 0, 1, 1): 0, (0, 0, 2, 2): 0, (8, 0, 1, 1): 0, (8, 0, 1, 2): 20, (8, 0, 2, 1): 10, (8, 0, 2, 2): 30, (0, 1, 2, 2): 0, (8, 1, 2, 2): 0}
    known = dict.fromkeys(equations.UNEVEN.variables, 0) | {"WM": 64, "WN": 32}
    assert {
        one: equations.UNEVEN.value(known | dict(zip(("total_bytes", "amd", "reals", "fragment_buffers"), one), kept_registers=50 if one[0] else 0))
        for one in guards
    } == guards
    # Where a loop's demand may be squeezed, what stores take may not: they fit a budget as they are.
    squeezed = known | {"least_store": 80, "squeeze": 11, "fragment_buffers": 1, "reals": 1}
    assert [equations.UNEVEN.value(squeezed | {"demand": demand}) for demand in (80, 85, 91, 120)] == [11, 6, 0, 0]


FILE = dict(register_allocation_unit=256, warp_size=32, registers_per_sm=65536, threads=256)
SPARE = dict(register_budget=255, spare_kept=0.4, kept_registers=0, total_bytes=0, amd=0, launch_share=168, loop=0, fragment_registers=40, accumulator_registers=64)


@pytest.mark.parametrize(("equation", "numbers", "value"), [
    (equations.TURN_REGISTERS, dict(total_bytes=0, amd=0), 7), (equations.TURN_REGISTERS, dict(total_bytes=8, amd=0), 0),
    (equations.TURN_REGISTERS, dict(total_bytes=0, amd=1), 0),
    # 2 blocks of 256 threads fit an SM with 121 to 128 registers, 3 with 80, and 1 with more than 128.
    (equations.LAUNCH_SHARE, FILE | dict(demand=120.5), 128), (equations.LAUNCH_SHARE, FILE | dict(demand=79.2), 80),
    (equations.LAUNCH_SHARE, FILE | dict(demand=80.5), 128), (equations.LAUNCH_SHARE, FILE | dict(demand=128.5), 256),
    (equations.LAUNCH_SHARE, FILE | dict(threads=480, demand=90.0), 136),
    # Stores take 108 where few are held, 72 more than sums; an unrolled loop fetches half of a step's fragments ahead; the launch leaves no more.
    (equations.REGISTERS, SPARE | dict(demand=90.2), 108), (equations.REGISTERS, SPARE | dict(demand=90.2, accumulator_registers=8), 91),
    (equations.REGISTERS, SPARE | dict(demand=140.2, loop=1), 161), (equations.REGISTERS, SPARE | dict(demand=140.2, loop=2), 141),
    (equations.REGISTERS, SPARE | dict(demand=160.2, loop=1), 168), (equations.REGISTERS, SPARE | dict(demand=250.0, loop=1, launch_share=256), 255),
    (equations.REGISTERS, SPARE | dict(demand=140.2, loop=1, total_bytes=8, kept_registers=50), 161),
    (equations.REGISTERS, SPARE | dict(demand=90.2, loop=1, amd=1), 91),
])
def test_what_fp64s_loop_holds_and_what_it_takes_where_registers_are_left(equation, numbers, value):
    assert equation.value(numbers) == value


@pytest.mark.parametrize(("gpu", "kind", "type_", "said"), [
    ("b200", "gemm", "c128", 2), ("b200", "trmm", "c128", 1), ("l40s", "trmm", "c128", 2), ("b200", "trmm", "f64", 2), ("b200", "trsm", "c128", 2),
])
def test_blocks_of_the_norms_that_an_sm_holds(gpu, kind, type_, said):
    problem = {"kind": kind, "type": type_, **dict.fromkeys("mnk", 256)}
    assert norms.blocks(solve(road.load({"problem": problem, "split": {"scheme": "residues14"}, "target": {"gpu": gpu}}))) == said


@pytest.mark.parametrize(("matrices", "element", "others"), [(1, "f64", 48), (4, "f64", 56), (4, "f32", 48)])
def test_a_tile_of_a_batch_leaves_registers_for_which_product_it_is_of(matrices, element, others):
    """With 192 sums of a thread ptxas spilled: 240 hold no more than 48 others."""
    problem = {"kind": "strided", "type": element, **dict.fromkeys("mnk", 4096), "matrices": matrices}
    plan = solve(road.load({"problem": problem, "split": {"scheme": "residues14" if element == "f64" else "residues8"}, "target": {"gpu": "h200"}}))
    assert plan.numbers["other_registers"] == others and plan.numbers["accumulator_registers"] + others <= plan.numbers["register_budget"]


def launched(gpu, scheme, kind, role):
    problem = {"kind": kind, "type": "f64" if scheme == "residues14" else "f32", **dict.fromkeys("mnk", 256), "matrices": 4}
    plan = solve(road.load({"problem": problem, "split": {"scheme": scheme}, "target": {"gpu": gpu}}))
    return plan, next(one for one in interface(plan).launches if one.role == role)


@pytest.mark.parametrize("kind", ["strided", "grouped"])
@pytest.mark.parametrize(("gpu", "scheme", "takes"), [("h200", "residues14", False), ("h200", "residues8", True), ("mi300x", "residues8", False)])
def test_elements_wait_in_shared_memory_where_one_pass_does_all(gpu, scheme, takes, kind):
    """FP64's second pass reads them again: nothing of its text names dynamic shared memory."""
    plan, split = launched(gpu, scheme, kind, "split")
    assert split.shared_bytes == (plan.launches.whole_shared if takes else 0)
    assert ("extern __shared__" in render(plan).text.split(f"{split.symbol}(")[1].split('extern "C"')[0]) == takes


@pytest.mark.parametrize(("type_", "layout", "matrices", "split", "norms"), [
    ("f64", "nn", 1, 3, 2), ("c128", "nn", 1, 3, 2), ("c128", "nc", 1, 3, 2), ("c128", "nn", 4, 2, 1), ("f64", "nn", 4, 2, 2),
    ("c64", "nn", 1, 3, None), ("c64", "nt", 1, 2, None), ("c64", "nc", 1, 2, None), ("c64", "nn", 4, 1, None), ("c64", "nt", 4, 1, None),
    ("f32", "nt", 1, 3, None),
])
def test_how_many_blocks_of_a_pass_the_compiler_leaves_registers_for(type_, layout, matrices, split, norms):
    problem = {"type": type_, "layout": layout, **dict.fromkeys("mnk", 1024), **({"kind": "strided", "matrices": 4} if matrices > 1 else {})}
    scheme = "residues8" if type_ in ("f32", "c64") else "residues14"
    text = render(solve(road.load({"problem": problem, "split": {"scheme": scheme}, "target": {"gpu": "l40s"}}))).text
    found = {role: int(blocks) for blocks, role in re.findall(r"__launch_bounds__\(\d+, (\d)\)\s+\w+_(split|norms)\(", text)}
    assert found == {"split": split} | ({"norms": norms} if norms else {})
