"""Kernels of FP64's residues against the reference in NumPy, bit for bit, and against themselves on other GPUs."""

from __future__ import annotations


import numpy as np
import pytest
from verifying import assert_bits, on_emulator, reference
from ways import AMD_WAYS, WAYS, plan_of

from gemmgen.catalog.element import F64
from gemmgen.catalog.gpu import GPUS
from gemmgen.designs.residues import norms
from gemmgen.emulate import EAGER_LOWEST, LAZY_HIGHEST, TOGETHER
from gemmgen.render import render
from gemmgen.run import Placement, gemm, strided
from gemmgen.run.batch import Product, batch
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.split import joined, split
from gemmgen.verify import Judge, digests
from gemmgen.verify.batch import QUESTIONS

MINE = {name: way for name, way in (WAYS | AMD_WAYS).items() if "FP64" in name}
LONG = pytest.mark.long


@pytest.mark.parametrize("name", [name if "warpgroups" in name else pytest.param(name, marks=LONG) for name in MINE])
def test_bits_and_counts_are_the_references(name):
    device, plan, source = on_emulator(plan_of(**MINE[name]), EAGER_LOWEST if "warpgroups" in name else TOGETHER)
    assert_bits(Judge(plan, source, None, device), 67, 9, 133)


def test_residues_of_fragments_of_two_elements_share_a_word():
    """Turing's fragments hold two: four residues of a word are of two fragments, and of no register behind the last."""
    plan = plan_of("residues14", "t4", promote=0, tile={"block": [24, 16, 64], "warp": [24, 16, 64]})
    assert plan.fragment.c.register_count == 2
    device, plan, source = on_emulator(plan)
    rng = np.random.default_rng(5)
    a, b = rng.uniform(-1, 1, (27, 9)), rng.uniform(-1, 1, (9, 17))
    assert (gemm(device, plan, source, a, b).c == reference(plan, a, b)).all()


@pytest.mark.parametrize("name", [
    "FP64 residues by lanes", "FP64 residues by warpgroups, cluster", "tensor memory, FP64 residues, pairs", pytest.param("mfma, FP64 residues", marks=LONG),
])
def test_long_sums_are_reduced_where_they_stand(name):
    """As after each 65536 k: here after two stages, twice, and a rest."""
    plan = plan_of(**MINE[name])
    short = 2 * plan.block[2]
    device, plan, source = on_emulator(plan, edit=lambda text: text.replace("constexpr int SEGMENT_K = 65536;", f"constexpr int SEGMENT_K = {short};"))
    assert f"SEGMENT_K = {short};" in source.text
    rng = np.random.default_rng(3)
    a, b = rng.uniform(-1, 1, (5, 2 * short + 22)), rng.uniform(-1, 1, (2 * short + 22, 3))
    assert (gemm(device, plan, source, a, b).c == reference(plan, a, b)).all()


def test_elements_before_a_larger_exponent_are_read_again(monkeypatch):
    """Of A, whose k is contiguous, and of B: spans of 256 k, of which none, the second or the third has the largest element, and a row a span of zeros."""
    monkeypatch.setattr(norms, "THREADS", 64)
    monkeypatch.setattr(norms, "HELD", 8)
    monkeypatch.setattr(norms, "LINES", 2)
    device, plan, source = on_emulator(plan_of(scheme="residues12", promote=0, tile={"block": [32, 32, 64], "warp": [16, 32, 64]}))
    rng = np.random.default_rng(6)
    a, b = rng.uniform(-1, 1, (4, 600)), rng.uniform(-1, 1, (600, 4))
    for rows in (a, b.T):
        rows[1:3] = rng.uniform(0.5, 1, (2, 600))
        rows[1, 256:] *= 2.0**-20
        rows[1, 300] = rows[2, 599] = 1.5
        rows[3, :256] = 0
    assert (gemm(device, plan, source, a, b).c == reference(plan, a, b)).all()


OF_BATCHES = {
    "FP64 by warpgroups": {"problem": {"type": "f64"}, "split": {"scheme": "residues12"},
                           "tile": {"block": [64, 32, 64], "warp": [64, 32, 64], "cluster": 2}, "target": {"gpu": "h200"}},
    "complex FP64 by warpgroups": {"problem": {"type": "c128", "layout": "cn"}, "split": {"scheme": "residues12"},
                                   "tile": {"block": [64, 32, 64], "warp": [64, 32, 64], "cluster": 1}, "target": {"gpu": "h200"}},
    "complex FP32 by lanes": {"problem": {"type": "c64"}, "split": {"scheme": "ootomo"}, "tile": {"block": [32, 32, 32], "warp": [16, 32, 32]},
                              "target": {"gpu": "a100"}},
    "FP64 by MFMA": {"problem": {"type": "f64", "layout": "tt"}, "split": {"scheme": "residues12"},
                     "tile": {"block": [32, 32, 64], "warp": [32, 32, 64]}, "target": {"gpu": "mi300x"}},
    "a triangle of FP64": {"problem": {"type": "f64", "kind": "syrk", "layout": "nt"}, "split": {"scheme": "residues12"},
                           "tile": {"block": [32, 32, 64], "warp": [16, 32, 64]}, "target": {"gpu": "a100"}},
    "FP64 in tensor memory": {"problem": {"type": "f64"}, "split": {"scheme": "residues12"}, "fragment": {"policy": "tcgen05"},
                              "tile": {"block": [128, 32, 64], "warp": [128, 32, 64], "cluster": 2}, "target": {"gpu": "b200"}},
    "complex FP64 in tensor memory": {"problem": {"type": "c128", "layout": "cn"}, "split": {"scheme": "residues12"}, "fragment": {"policy": "tcgen05"},
                                      "tile": {"block": [128, 32, 64], "warp": [128, 32, 64], "cluster": 1}, "target": {"gpu": "b200"}},
    "symm of FP32 in tensor memory": {"problem": {"type": "f32", "kind": "symm", "side": "right"}, "split": {"scheme": "residues6"},
                                      "fragment": {"policy": "tcgen05"}, "tile": {"block": [128, 32, 64], "warp": [128, 32, 64]}, "target": {"gpu": "b200"}},
    "complex FP32 by residues": {"problem": {"type": "c64", "layout": "tc"}, "split": {"scheme": "residues6"},
                                 "tile": {"block": [32, 32, 64], "warp": [16, 32, 64]}, "target": {"gpu": "a100"}},
}


def batch_of(name):
    sections = OF_BATCHES[name]
    problem = {"kind": "strided", **dict.fromkeys("mnk", 128), "matrices": 8, **sections["problem"]}
    return solve(loads({**sections, "problem": problem, "build": {"allow_spills": True}}))


def test_a_batch_by_warpgroups_has_the_bits_of_each_product():
    """The second product's rows have norms of their own, and the last one's tiles are those of other blocks than the first one's."""
    device, plan, source = on_emulator(batch_of("FP64 by warpgroups"))
    rng = np.random.default_rng(7)
    a, b = rng.uniform(-1, 1, (3, 66, 5)), rng.uniform(-1, 1, (3, 5, 3))
    a[1] *= 2.0**-600
    found = strided(device, plan, source, a, b, placement=Placement((1, 3, 2), (8, 16, 24), (5, 7, 9)))
    assert found.intact and all((found.c[at] == reference(plan, a[at], b[at])).all() for at in range(3))


OF_PRODUCTS = {
    **{name: sections for name, sections in OF_BATCHES.items() if "kind" not in sections["problem"] and sections["split"]["scheme"] != "ootomo"},
    "FP64 by lanes": {"problem": {"type": "f64", "layout": "nt"}, "split": {"scheme": "residues12"}, "tile": {"block": [32, 32, 64], "warp": [16, 32, 64]},
                      "target": {"gpu": "a100"}},
    "FP64 by WMMA": {"problem": {"type": "f64"}, "split": {"scheme": "residues12"}, "tile": {"block": [32, 32, 64], "warp": [16, 32, 64]},
                     "target": {"gpu": "rx7900xtx"}},
    "FP64 by MFMA of CDNA 2": {"problem": {"type": "f64"}, "split": {"scheme": "residues12"}, "tile": {"block": [32, 32, 64], "warp": [32, 32, 64]},
                               "target": {"gpu": "mi210"}},
    "FP32 by warpgroups": {"problem": {"type": "f32", "layout": "tn"}, "split": {"scheme": "residues6"},
                           "tile": {"block": [64, 32, 64], "warp": [64, 32, 64], "cluster": 2}, "target": {"gpu": "h200"}},
    "FP32 by lanes": {"problem": {"type": "f32"}, "split": {"scheme": "residues6"}, "tile": {"block": [32, 32, 64], "warp": [16, 32, 64]},
                      "target": {"gpu": "a100"}},
    "FP32 in tensor memory": {"problem": {"type": "f32"}, "split": {"scheme": "residues6"}, "fragment": {"policy": "tcgen05"},
                              "tile": {"block": [128, 32, 64], "warp": [128, 32, 64]}, "target": {"gpu": "b200"}},
}
"""Batches of residues whose products arrays of pointers locate, or each of which has a size of its own."""


def of_products(name, kind, schedule=EAGER_LOWEST):
    sections = OF_PRODUCTS[name]
    problem = {**dict.fromkeys("mnk", 128), "matrices": 8, **sections["problem"], "kind": kind}
    return on_emulator(solve(loads({**sections, "problem": problem, "build": {"allow_spills": True}})), schedule)


@LONG
@pytest.mark.parametrize("name", OF_PRODUCTS)
def test_products_of_one_size_have_the_strided_batchs_bits_however_they_are_told(name):
    """With alpha and beta, ragged, misaligned, and rows of the second product of another magnitude: where pointers locate them, which go from the last product
    to the first, and where each has a record."""
    device, plan, source = of_products(name, "strided")
    element, rng = plan.kind.element_of(plan.type), np.random.default_rng(7)
    a, b, c = (element.rounded(rng.uniform(-1, 1, shape) + (1j * rng.uniform(-1, 1, shape) if plan.kind.reals > 1 else 0))
               for shape in ((3, 66, 5), (3, 5, 3), (3, 66, 3)))
    a[1] *= 2.0**-30
    size = plan.type.bytes
    place = Placement((1, 3, 2), (size, 2 * size, 3 * size), (5, 7, 9))
    want = strided(device, plan, source, a, b, c, alpha=1.5, beta=-0.5, placement=place)
    for kind in ("pointers", "grouped")[:1 if plan.kind.reals > 1 else 2]:
        for schedule in (EAGER_LOWEST, LAZY_HIGHEST):
            found = batch(*of_products(name, kind, schedule), [Product(*each, 1.5, -0.5, place) for each in zip(a, b, c)])
            assert found.intact and found.status == want.status and np.stack(found.products).tobytes() == want.c.tobytes(), (kind, schedule)


@LONG
@pytest.mark.parametrize("name", [name for name in OF_PRODUCTS if "complex" not in name])
def test_a_batch_of_several_sizes_answers_the_judge(name):
    """Sizes of 0, one product without a C, one with alpha = 0, in either order of warps; and what is not finite is repaired from its own operands, once."""
    device, plan, source = of_products(name, "grouped")
    for schedule in (EAGER_LOWEST, LAZY_HIGHEST):
        device.set_schedule(schedule)
        for question in QUESTIONS.values():
            passed, told = question(device, plan, source)
            assert passed, told
    assert not sum(device.conflicts.values()) or plan.gpu.vendor == "amd"
    rng = np.random.default_rng(2)
    products = [Product(*(plan.type.rounded(rng.uniform(-1, 1, shape)) for shape in ((m, 40), (40, 68)))) for m in (68, 130, 9)]
    products[1].a[3, 5] = np.inf
    found = batch(device, plan, source, products)
    assert not np.isfinite(found.products[1][3]).any() and np.isfinite(np.delete(found.products[1], 3, axis=0)).all()
    assert (found.status["a_nonfinite"], found.status["repaired"]) == (1, 68)


@LONG
def test_sums_of_several_segments_are_each_products_own():
    """FP32's sums of segments of k wait in the workspace, in a part of each tile."""
    device, plan, source = of_products("FP32 by lanes", "grouped")
    rng = np.random.default_rng(3)
    products = [Product(*(rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((m, 8192 + 70), (8192 + 70, 3)))) for m in (2, 40)]
    found = batch(device, plan, source, products)
    for one, c in zip(products, found.products):
        assert (c == reference(plan, one.a, one.b)).all()


@pytest.mark.long
@pytest.mark.parametrize("name", OF_BATCHES)
def test_a_batch_answers_the_judge(name):
    device, plan, source = on_emulator(batch_of(name))
    check = Judge(plan, source, None, device).batch()
    assert check.passed, check.detail


def test_alpha_and_beta_are_one_fused_multiply_add_and_memory_beside_c_is_left_alone():
    device, plan, source = on_emulator(plan_of(**MINE["FP64 residues by lanes"]))
    rng = np.random.default_rng(4)
    a, b, c = (rng.uniform(-1, 1, shape) for shape in ((21, 40), (40, 19), (21, 19)))
    product = reference(plan, a, b)
    for alpha, beta, at in ((1.0, 0.0, 24), (-1.5, 0.0, 24), (3.0, 1 / 3, 24), (3.0, 1 / 3, 16)):  # bytes: two neighbours of C, together or apart
        found = gemm(device, plan, source, a, b, c if beta else None, alpha=alpha, beta=beta, placement=Placement((3, 5, 1), (8, 16, at)))
        want = alpha * product.astype(np.longdouble) + (np.float64(beta) * c if beta else 0)
        assert found.intact and (np.abs(found.c - want) <= np.spacing(np.abs(want.astype(np.float64)))).all()
        assert beta or (found.c == (alpha * product)).all()
    nothing = gemm(device, plan, source, np.full((3, 5), np.nan), np.ones((5, 2)), np.ones((3, 2)), alpha=0.0, beta=2.0)
    assert (nothing.c == 2).all() and nothing.status["repaired"] == 0
    assert (gemm(device, plan, source, np.zeros((3, 0)), np.zeros((0, 2))).c == 0).all()


def test_neighbours_along_k_are_read_together_where_they_lie_so():
    """Rows of A and of B^T that begin at 16 bytes, and whose last element has a neighbour that is not theirs; and rows of which every second begins so."""
    device, plan, source = on_emulator(plan_of("residues12", layout="nt", promote=0, tile={"block": [32, 32, 64], "warp": [16, 32, 64]}))
    a, b = (np.random.default_rng(5).uniform(-1, 1, shape) for shape in ((2, 29), (29, 2)))
    for beside in (1, 2):
        assert (gemm(device, plan, source, a, b, placement=Placement((beside, beside, 0))).c == reference(plan, a, b)).all()


def test_results_leave_fp64s_range_with_one_rounding():
    """Sums that are subnormal, that round to the smallest number or to nothing, and that overflow."""
    device, plan, source = on_emulator(plan_of(**MINE["FP64 residues by lanes"]))
    a, b = np.zeros((6, 40)), np.zeros((40, 3))
    a[:, 0], b[0] = [2.0**-600, 3 * 2.0**-600, 2.0**1000, 5e-324, -(2.0**-537), 1.0], [2.0**-475, 2.0**100, (1 + 2.0**-52) * 2.0**-538]
    a[0, 1], b[1, 0] = 2.0**-620, 2.0**-480
    found = gemm(device, plan, source, a, b)
    with np.errstate(over="ignore"):
        assert (found.c == F64.rounded(F64.exact(a, b))).all() and np.isinf(found.c).any() and found.status["repaired"] == np.isinf(found.c).sum()
    assert found.c[0, 0] == 5e-324 and found.c[4, 2] == -5e-324 and 0 < found.c[1, 0] < 2.0**-1070


def test_what_is_beyond_fp64_is_inf_where_nothing_is_computed_again():
    """Sums in the binade above FP64's last one, the largest number, and half of its last place and a quarter more; an Inf and a NaN are counted."""
    device, plan, source = on_emulator(plan_of(**MINE["FP64 residues by lanes"], special="fast"))
    a, b = np.zeros((7, 40)), np.zeros((40, 2))
    a[:, 0], a[3:5, 1] = [1.5 * 2.0**1023, -(2.0**1023), *[np.finfo(np.float64).max / 2] * 3, np.inf, np.nan], [2.0**969, 2.0**968]
    b[:2, 0], b[:, 1], b[9, 1] = 2, 1, -np.inf
    found = gemm(device, plan, source, a, b)
    with np.errstate(over="ignore"):
        want = F64.rounded(F64.exact(a[:5], b[:, :1]))[:, 0]
    assert np.isinf(want).tolist() == [True, True, False, True, False] and (found.c[:5, 0] == want).all()
    assert np.isnan(found.c[5:]).all() and np.isnan(found.c[:, 1]).all() and (found.status["a_nonfinite"], found.status["b_nonfinite"]) == (2, 1)


@pytest.mark.parametrize("gpu", ["a100", "rtx4090"])
def test_what_integers_do_not_hold_is_counted_and_subnormal_elements_count_as_they_are(gpu):
    """Of elements far below their row's norm, at half of one integer, a place above it, and of subnormal ones beside normal ones; made integers by FP64
    and, of a GPU that has next to none, by integers."""
    device, plan, source = on_emulator(plan_of(**{**MINE["FP64 residues by lanes"], "gpu": gpu}))
    rng, scheme = np.random.default_rng(8), plan.scheme
    a, b = (rng.uniform(-1, 1, shape) * np.exp2(rng.integers(-90, 91, shape)) for shape in ((40, 70), (70, 20)))
    a[3] *= 2.0**-900
    a[4, :7] = [2.0**-1000, 2.0**-1030, 2.0**-1062, 5e-324, 3 * 2.0**-1073, 0, -(2.0**-1061)]
    a[4, 7:] = 0
    half = 2.0 ** -(int(scheme.family.residues.powers(np.array([[1.0, *[0.0] * 69]]))[0]) + 1)
    a[5] = [1, half, -half, np.nextafter(half, 1), half / 2, *[0] * 65]
    words = split(a, scheme), split(np.ascontiguousarray(b.T), scheme)
    assert scheme.family.residues.powers(a)[5] == -np.log2(half) - 1 and words[0].is_lossy[5].tolist()[1:5] == [True, True, False, True]
    result = gemm(device, plan, source, a, b)
    assert (result.c == joined(*words, scheme)).all() and words[0].lossy > 100
    assert [result.status[f"{x}_{what}"] for x in "ab" for what in ("lossy", "nonfinite")] == [words[0].lossy, 0, words[1].lossy, 0]


def test_ties_of_the_last_rounding():
    """2^54 and 2 is a tie, which goes to even, unless something is left far below it; so is half of the smallest number beside a subnormal one.

    Where larger elements that meet nothing are in the row and the column, half of a last place lies among an integer's lower 64 bits.
    """
    device, plan, source = on_emulator(plan_of(**MINE["FP64 residues by lanes"]))
    a, b = np.zeros((12, 40)), np.zeros((40, 6))
    a[:4, 0], a[:4, 1], a[:4, 2] = 1, [2, 6, 2, 2], np.array([0, 0, 1, -1]) * 2.0**-6  # 66 bits below the largest
    a[4:8], a[8:] = a[:4] * 2.0**-500, a[:4]
    a[8:, 0], a[8:, 9] = 2.0**27, 2.0**40
    b[:3, 0] = 2.0**54, 1, 2.0**-6
    b[:3, 1] = np.array([2.0**54, 2.0**20, 2.0**-6]) * 2.0**-596  # 2^-500 times 2 of the second is 2^-1075
    b[:3, 2], b[10, 2] = [2.0**27, 1, 2.0**-6], 2.0**40
    b[:, 3:] = -b[:, :3]
    found = gemm(device, plan, source, a, b).c
    assert (found[:4, 0] - 2.0**54).tolist() == (found[8:, 2] - 2.0**54).tolist() == [0, 8, 4, 0]
    assert ((found[4:8, 1] - 2.0**-1042) / 5e-324).tolist() == [0, 2, 1, 0]
    assert (found[:, 3:] == -found[:, :3]).all()


SCHEME, OF_FP32 = "residues14", "residues7"
TARGETS = ("a100", "h200", "mi300x", *(pytest.param(gpu, marks=LONG) for gpu in ("rtx4090", "b200", "rtx5090", "mi210", "mi355x", "rx7900xtx", "rx9070xt")))


def assert_digests(device, plan, source, cases=("spread", digests.ASKED)):
    for case in cases:
        assert digests.found(device, plan, source, case) == digests.DIGESTS[digests.asked(plan, case)], case


@pytest.mark.parametrize(("gpu", "type"), [
    (gpu, "f64") if isinstance(gpu, str) else pytest.param(*gpu.values, "f64", marks=LONG) for gpu in TARGETS
] + [pytest.param(gpu if isinstance(gpu, str) else gpu.values[0], type, marks=() if (gpu, type) == ("h200", "f32") else LONG)
     for type in ("c128", "f32", "c64") for gpu in TARGETS])
def test_every_gpu_gives_the_same_bits(gpu, type):
    """Of both vendors, by any instruction, tile and order of blocks: the digests are committed."""
    by_warpgroups = {"fragment": {"policy": "wgmma"}, "tile": {"block": [64, 32, 128], "warp": [64, 32, 128], "cluster": 1}}
    by_lanes = {"fragment": {"policy": GPUS.get(gpu).portable_policy}, "tile": {"block": [64, 32, 64], "warp": [32, 32, 64]}}
    scheme = SCHEME if type in ("f64", "c128") else OF_FP32
    assert_digests(*on_emulator(plan_of(scheme, gpu, promote=0, type=type, **(by_warpgroups if gpu == "h200" else by_lanes))))


@pytest.mark.parametrize(("type", "layout"), [
    ("f64", "nt"), ("f64", "tt"), pytest.param("f64", "tn", marks=LONG),
    *(pytest.param("f32", layout, marks=LONG) for layout in ("nt", "tn", "tt")),
    *(pytest.param(type, layout, marks=LONG) for type in ("c128", "c64") for layout in ("nt", "tn", "tt", "cn", "nc", "cc")),
])
def test_every_layout_gives_the_same_bits(type, layout):
    scheme = SCHEME if type in ("f64", "c128") else OF_FP32
    tile = {"block": [32, 64, 64], "warp": [32, 32, 64]}
    assert_digests(*on_emulator(plan_of(scheme, layout=layout, promote=0, type=type, tile=tile, stages=2)), (digests.ASKED,))


@LONG
@pytest.mark.parametrize(("type", "scheme", "case"), digests.DIGESTS)
def test_every_published_digest_is_what_a_kernel_gives(type, scheme, case):
    assert_digests(*on_emulator(plan_of(scheme, promote=0, type=type, tile={"block": [64, 32, 64], "warp": [32, 32, 64]})), (case,))


def test_the_reference_has_the_same_bits():
    """But where elements are computed again, one multiply-add after another; and of complex elements, of the real product that stands for theirs."""
    for type, scheme in (("f64", SCHEME), ("c128", SCHEME), ("f32", OF_FP32), ("c64", OF_FP32)):
        plan = plan_of(scheme, promote=0, type=type)
        for case in ("uniform", "spread"):
            a, b, *_ = digests.inputs(type, case)
            assert digests.digest(reference(plan, *plan.kind.completed(a, b))) == digests.DIGESTS[type, scheme, case]


def test_what_has_a_digest_is_asked_for_it():
    assert digests.asked(plan_of(SCHEME, promote=0)) == ("f64", SCHEME, digests.ASKED)
    assert digests.asked(plan_of(SCHEME, promote=0, type="c128"), "spread") == ("c128", SCHEME, "spread")
    assert digests.asked(plan_of("residues8", promote=0)) == ("f32", "residues8", digests.ASKED)
    for way in (dict(scheme=SCHEME, promote=0, special="fast"), dict()):
        assert digests.asked(plan_of(**way)) is None
    assert digests.asked(of_kind("syrk, lower", "a100")) is None


def test_a_digest_sees_one_rounding_more():
    """alpha A B rounded before beta C joins it, which every bound allows."""
    rounded = lambda text: text.replace("fma(alpha, product[e], beta * was[e])", "__dadd_rn(__dmul_rn(alpha, product[e]), beta * was[e])")
    device, plan, source = on_emulator(plan_of(**MINE["FP64 residues by lanes"]), edit=rounded)
    check = Judge(plan, source, None, device).digest()
    assert source.text != render(plan).text and not check.passed and digests.DIGESTS[digests.asked(plan)] in check.detail


KINDS = {
    "syrk, lower": {"kind": "syrk", "uplo": "lower", "layout": "nt"}, "syrk, both": {"kind": "syrk", "uplo": "both", "layout": "tn"},
    "gemmt, upper": {"kind": "gemmt", "uplo": "upper", "layout": "nn"}, "symm, left": {"kind": "symm", "layout": "nt"},
    "syr2k, both": {"kind": "syr2k", "uplo": "both", "layout": "tn"}, "syr2k, upper": {"kind": "syr2k", "uplo": "upper", "layout": "nt"},
    "trmm, left": {"kind": "trmm", "layout": "nn"}, "trmm, right": {"kind": "trmm", "side": "right", "uplo": "upper", "diag": "unit", "layout": "nt"},
    "symm, right": {"kind": "symm", "side": "right", "uplo": "upper", "layout": "nn"},
}


def of_kind(name: str, gpu: str):
    tile = {"block": [64, 64, 128], "warp": [64, 64, 128], "cluster": 1} if gpu == "h200" else {"block": [32, 32, 64], "warp": [16, 16, 64]}
    return solve(loads({"problem": {"type": "f64", **KINDS[name]}, "split": {"scheme": "residues12"}, "target": {"gpu": gpu}, "tile": tile}))


@pytest.mark.parametrize("name", ["syrk, both", "gemmt, upper", "symm, left",
                                  *(pytest.param(name, marks=pytest.mark.long) for name in ("symm, right", "trmm, left", "trmm, right"))])
def test_triangles_have_the_bits_of_the_whole_product(name):
    """Of two tiles each way; elements of the other triangle are as they were, or those of this one, and an Inf is repaired where it is computed."""
    plan = of_kind(name, "a100")
    device, plan, source = on_emulator(plan)
    rng = np.random.default_rng(6)
    a, b = rng.uniform(-1, 1, (20, 12)), rng.uniform(-1, 1, (12, 19))
    a[5, 3] = np.inf  # a row in which what is not to be read of a symmetric A is NaN
    given = plan.kind.embedded(a, b, None)
    whole = plan.kind.completed(given.a, given.b)
    with np.errstate(invalid="ignore"):
        want = np.where(np.isfinite(whole[0] @ whole[1]), reference(plan, *whole), F64.exact(*whole).astype(np.float64))
    found = gemm(device, plan, source, given.a, given.b)
    computed = plan.kind.computed(*want.shape)
    assert np.array_equal(found.c[computed], want[computed], equal_nan=True) and np.isnan(found.c[~computed]).all() and found.intact
    assert found.status["repaired"] == (np.tri(*want.shape, dtype=bool) if plan.kind.mirrored else computed)[~np.isfinite(want)].sum()


@pytest.mark.long
def test_two_products_are_added_each_with_its_own_bits():
    plan = of_kind("syr2k, upper", "a100")
    device, plan, source = on_emulator(plan)
    rng = np.random.default_rng(7)
    a, b, c = rng.uniform(-1, 1, (20, 12)), rng.uniform(-1, 1, (12, 20)), rng.uniform(-1, 1, (20, 20))
    found, upper = gemm(device, plan, source, a, b, c, beta=2.0), plan.kind.computed(20, 20)
    want = (reference(plan, a, b) + 2 * c) + reference(plan, np.ascontiguousarray(b.T), np.ascontiguousarray(a.T))
    assert np.array_equal(found.c[upper], want[upper]) and np.array_equal(found.c[~upper], c[~upper])


@pytest.mark.long
@pytest.mark.parametrize("gpu", ["a100", "h200"])
@pytest.mark.parametrize("name", KINDS)
def test_the_judge_passes_triangles(name, gpu):
    device, plan, source = on_emulator(of_kind(name, gpu), EAGER_LOWEST if gpu == "h200" else TOGETHER)
    check = Judge(plan, source, None, device).whole()
    assert check.passed, check.detail


@pytest.mark.parametrize("fault", ["", "small elements are lost"])
def test_graded_and_cancelling_data_ask_for_every_bit_of_small_elements(fault):
    """Elements 2^-30 of their row's largest are 0 in the wrong kernel, and nothing counts them."""
    change = (lambda text: text.replace("return (u64)__double2ll", "return scaled * scaled < 0x1p52 ? 0 : (u64)__double2ll")) if fault else (lambda text: text)
    device, plan, source = on_emulator(plan_of(**MINE["FP64 residues by lanes"]), edit=change)
    assert (source.text != render(plan).text) == bool(fault)
    check = Judge(plan, source, None, device).graded()
    assert check.passed != bool(fault), check.detail
    assert Judge(plan, source, None, device).digest().passed != bool(fault)
