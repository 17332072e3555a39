"""Kernels whose sums are in tensor memory: their schedules, tiles one after the other, and what is put wrong in them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from gemmgen import emulate
from gemmgen.build import build
from gemmgen.errors import EmulationError
from gemmgen.render import render
from gemmgen.run import Placement, gemm, strided
from gemmgen.run.batch import Product, batch
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.verify import Judge, oracles, verify
from assembled import assembled
from verifying import assert_passed
from ways import sampled


AHEAD = emulate.Schedule("eager copies, highest warp first", "highest", "eager")
"""The warps that copy and multiply run as far ahead as barriers let them."""


PAIR = {"tile": {"cluster": 2}}


def rendered(n=32, group=32, k=32, **sections):
    split = {"scheme": "ootomo", "promote": 32} | sections.pop("split", {})
    plan = solve(loads({
        "split": split, "fragment": {"policy": "tcgen05"}, "target": {"gpu": "b200"},
        "tile": {"block": [128, n, k], "warp": [128, group, k], "cluster": 1, **sections.pop("tile", {})}, **sections,
    }))
    return plan, render(plan)


def kernel(**options):
    plan, source = rendered(**options)
    return plan, source, build(source)


def emulator(plan, source, binary):
    return EmulatorDevice(plan, source, binary, processes=1, schedule=emulate.LAZY_HIGHEST)


def assert_verified(plan, source, binary) -> None:
    size = (plan.block[0] + 5, plan.block[1] - 3, oracles.wrapping_k(plan) + 5)
    assert_passed(verify(plan, source, binary, emulator(plan, source, binary), size=size))


@pytest.mark.parametrize("options", sampled([
    {}, {"group": 16}, {"split": {"promote": 64}}, {"split": {"promote": 16}}, {"split": {"promote": 0}},
    {"split": {"scheme": "scaled"}}, {"split": {"scheme": "bf16x3"}, "k": 64}, {"split": {"scheme": "tf32x3"}, "k": 16},
    {"split": {"scheme": "ootomo4"}}, {"n": 48, "group": 16, "k": 16}, {"tile": {"split_k": 3}}, {"pipeline": {"stages": 2}},
    PAIR, PAIR | {"group": 16, "split": {"promote": 64}}, PAIR | {"split": {"scheme": "scaled"}}, PAIR | {"n": 64, "k": 64, "split": {"promote": 0}},
    PAIR | {"split": {"scheme": "bf16x6", "promote": 16}, "k": 16, "pipeline": {"stages": 2}}, {"tile": {"split_k": 3, "cluster": 2}},
    PAIR | {"split": {"scheme": "e4m3x6", "promote": 64}, "k": 64},
], 2), ids=str)
def test_kernels_are_right_around_the_unit(options):
    """A whole report."""
    assert_verified(*kernel(**options))


@pytest.mark.parametrize("options", [{}, PAIR], ids=["a block", "a pair"])
def test_what_copies_and_multiplies_may_run_ahead(options):
    plan, source, binary = kernel(**options)
    device = emulator(plan, source, binary)
    device.set_schedule(AHEAD)
    check = Judge(plan, source, binary, device).accuracy("ahead", oracles.uniform(plan, -1, 1, (128, 32, 256), 3)).check
    assert check.passed, check.detail


def with_blocks(source, most):
    """The source with launches of no more blocks where blocks stay."""
    launches = tuple(one if one.most_blocks is None else replace(one, most_blocks=most) for one in source.launches)
    return replace(source, interface=replace(source.interface, launches=launches))


@pytest.mark.parametrize("options", [{"n": 16, "group": 16}, PAIR], ids=["a block", "a pair"])
def test_blocks_that_work_off_several_tiles(options):
    """More tiles than SMs: buffers, stages and phases go on from one tile to the next."""
    plan, source, binary = kernel(**options)
    device = emulator(plan, source, binary)
    device.set_schedule(emulate.TOGETHER)
    judge = Judge(plan, with_blocks(source, 2), binary, device)
    check = judge.accuracy("tiles", oracles.uniform(plan, -1, 1, (131, 75, 100), 3)).check
    assert check.passed, check.detail


@pytest.mark.parametrize("stages", [3, 4])
def test_an_interval_of_two_stages_that_k_does_not_fill_is_moved_out_too(stages):
    """Whole numbers, so that a stage that is left out, or summed twice, shows; two warpgroups, each with columns of its own."""
    plan, source, binary = kernel(n=32, group=16, split={"promote": 64})
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((5, 32 * stages - 3), (32 * stages - 3, 32)))
    assert np.array_equal(Judge(plan, source, binary, emulator(plan, source, binary)).run(oracles.Problem(a, b)).c, a @ b)


@pytest.mark.parametrize("kind, tile, scheme", [
    ({"kind": "syrk", "uplo": "both", "layout": "nt"}, {}, "half"),
    pytest.param({"kind": "gemmt", "uplo": "upper"}, PAIR["tile"], "half", marks=pytest.mark.long),
    pytest.param({"kind": "syr2k", "layout": "tn"}, PAIR["tile"], "ootomo", marks=pytest.mark.long),
], ids=["syrk", "gemmt", "syr2k"])
def test_a_triangle_of_c_is_stored(kind, tile, scheme):
    """Small integers, so that every bit is known, in fours of an aligned C and one by one where the diagonal crosses them; the other triangle stays."""
    plan, source, binary = kernel(n=128, group=128, k=16, split={"scheme": scheme, "promote": 0}, tile=tile, problem=kind)
    rng, m = np.random.default_rng(3), 132 if kind["kind"] == "syrk" else 259
    a, b, c = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((m, 9), (9, m), (m, m)))
    device = emulator(plan, source, binary)
    device.set_schedule(emulate.TOGETHER)
    result = gemm(device, plan, source, a, None if plan.kind.one_operand else b, c, alpha=3.0, beta=-2.0)
    product = a @ a.T if plan.kind.one_operand else a @ b + (a @ b).T * plan.kind.twice
    assert (result.c == np.where(plan.kind.computed(m, m), 3 * product - 2 * plan.kind.read(c), c)).all()


OF_BATCHES = {"problem": {"kind": "strided", "m": 64, "n": 64, "k": 256, "matrices": 2}}


def test_products_of_a_batch_have_operands_scales_and_repairs_of_their_own():
    """By pairs: small integers whose scales differ from product to product, and an Inf of one of them."""
    plan, source, binary = kernel(**PAIR | {"split": {"scheme": "scaled"}} | OF_BATCHES)
    assert plan.launches.repeated and plan.design.name == "tensor_memory"
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-9, 10, shape).astype(np.float32) for shape in ((3, 133, 7), (3, 7, 36)))
    a *= np.exp2([0, 20, -20]).astype(np.float32)[:, None, None]
    a[1, 2, 3] = np.inf
    device = emulator(plan, source, binary)
    device.set_schedule(emulate.TOGETHER)
    result = strided(device, plan, source, a, b, placement=Placement(apart=(4, 8, 12)))
    with np.errstate(invalid="ignore"):
        assert np.array_equal(result.c, a @ b, equal_nan=True) and result.intact
    assert (result.status["a_nonfinite"], result.status["repaired"]) == (1, 36)


@pytest.mark.long
@pytest.mark.parametrize("options", [{"split": {"scheme": "run_scaled", "run": 256}}, {"tile": {"split_k": 2}}], ids=["run scales", "slices"])
def test_a_batch_of_one_size_is_right(options):
    plan, source, binary = kernel(**options | OF_BATCHES)
    check = Judge(plan, source, binary, emulator(plan, source, binary)).batch()
    assert check.passed, check.detail


@pytest.mark.long
@pytest.mark.parametrize("options", [
    {"problem": {"kind": "trmm", "uplo": "upper"}, "tile": {"cluster": 2}}, {"problem": {"kind": "symm", "side": "right"}, "split": {"scheme": "scaled"}},
    {"problem": {"kind": "trsm"}}, {"problem": {"type": "c64", "layout": "nt"}, "split": {"scheme": "run_scaled", "run": 256}},
    {"problem": {"type": "c64"}, "split": {"scheme": "mixpert1", "promote": 0}},
    {"problem": {"type": "c128"}, "split": {"scheme": "residues12", "promote": 0}, "tile": {"cluster": 2}},
    {"split": {"scheme": "residues6", "promote": 0}, "epilogue": {"do": ["bias", "relu"]}},
], ids=["trmm", "symm", "trsm", "c64", "c64, integers", "c128", "epilogue"])
def test_other_kinds_are_right(options):
    """Those whose operands are triangles, or complex."""
    assert_verified(*kernel(**options))


LISTED = {"problem": {"kind": "grouped", "m": 64, "n": 64, "k": 256, "matrices": 4}}


def listed(**sections):
    """A kernel of listed products, and three of them: of three rows of tiles, of no k, and of less than a tile with factors; and their right results."""
    plan, source = rendered(**PAIR | LISTED | sections)
    rng = np.random.default_rng(6)
    a, b, c = (rng.integers(-9, 10, shape).astype(np.float32) for shape in ((260, 40), (40, 36), (20, 9)))
    few, placement = b[:30, :9], Placement((3, 5, 1), (4, 8, 12))
    products = [Product(a, b), Product(a[:20, :0], few[:0], c, 1.0, 3.0), Product(a[:20, :30], few, c, -2.0, 0.5, placement)]
    return plan, source, products, [a @ b, 3 * c, c / 2 - 2 * a[:20, :30] @ few]


@pytest.mark.parametrize("policy", [{}, pytest.param({"tile": {"cluster": 1}}, marks=pytest.mark.long)], ids=["a pair", "a block"])
def test_listed_products_have_sizes_operands_and_factors_of_their_own(policy):
    """Small integers, so that every bit is known; the threads that copy and multiply run ahead of the turns' products."""
    plan, source, products, expected = listed(**policy)
    assert plan.design.name == "packed_tensor_memory"
    device = emulator(plan, source, assembled(source))
    device.set_schedule(AHEAD)
    found = batch(device, plan, source, products)
    assert all((c == right).all() for c, right in zip(found.products, expected)) and found.intact


@pytest.mark.long
@pytest.mark.parametrize("options", [
    PAIR, {}, PAIR | {"problem": {"kind": "pointers", "layout": "nt"}}, PAIR | {"split": {"scheme": "bf16x6", "promote": 0}, "k": 16},
    PAIR | {"split": {"special": "fast", "scheme": "ootomo", "promote": 64}, "group": 16},
], ids=str)
def test_a_batch_of_listed_products_is_right(options):
    """Ragged ones, in another order, none, and special values of one among others."""
    plan, source, binary = kernel(**LISTED | options)
    check = Judge(plan, source, binary, emulator(plan, source, binary))
    for question in (*check.of_batches.values(), check.special):
        assert (one := question()).passed, one.detail


SABOTAGE_OF_LISTS = [
    ('asm volatile("griddepcontrol.wait;" ::: "memory");  // the split kernel writes the turns', "", "griddepcontrol.wait"),
    ("work.m0 += rank * BLOCK_M;", "", "wrong"),
    ("work.a_stage += min(rank, work.below) * work.count;", "", "wrong"),
    ("const float alpha = product.alpha, beta = product.beta;", "const float alpha = 1.0f, beta = product.beta;", "wrong"),
    ("(long long)work.b_stage * (CLUSTER * B_STAGE)", "(long long)work.b_stage * B_STAGE", "wrong"),
]


@pytest.mark.parametrize("before, after, problem", sampled(SABOTAGE_OF_LISTS, 1))
def test_sabotage_of_lists_is_found(before, after, problem):
    plan, source, products, expected = listed()
    assert source.text.count(before) == 1
    wrong = replace(source, text=source.text.replace(before, after))
    binary, found = assembled(wrong), []
    for schedule in (emulate.LAZY_HIGHEST, AHEAD):
        device = emulator(plan, wrong, binary)
        device.set_schedule(schedule)
        try:
            result = batch(device, plan, wrong, products)
            found += [] if result.intact and all((c == right).all() for c, right in zip(result.products, expected)) else ["wrong"]
        except EmulationError as error:
            found.append(str(error))
    assert any(re.search(problem, one, re.DOTALL) for one in found), found


SABOTAGE = [
    ("mbarrier_wait(emptied + buffer * 8, buffer_phase);", "", "deadlock|known to be done|more arrivals|not have read yet"),
    ("tcgen05_commit(filled + buffer * 8);", "mbarrier_arrive(filled + buffer * 8);", "no commit covers"),
    ("multiply_add(sums, a_at + (A_BYTES", "multiply_add(sums + 256, a_at + (A_BYTES", "not allocated"),
    ("tcgen05_commit(filled + buffer * 8);", "tcgen05_commit(emptied + buffer * 8);", "deadlock|more arrivals"),
    ("tcgen05_commit(filled + buffer * 8);", "tcgen05_commit(filled);", "deadlock|more arrivals|known to be done"),
    ("for (int i = 0; i < STAGES; ++i) mbarrier_wait(free + i * 8, i < slot ? phase : phase ^ 1);", "", "a CTA ends while the arrival of a tcgen05.commit"),
    ("mbarrier_wait(free + slot * 8, phase);", "", "in flight|overwritten while|more arrivals|so many bytes"),
    ("if (multiplies) tcgen05_dealloc(sums);", "", "ends while tensor memory is allocated"),
    ("(lane / 32 * 32 << 16)", "(lane / 64 * 64 << 16)", "lanes of tensor memory that are another one's"),
    ("mbarrier_wait(taken, tile_phase);", "", "deadlock|known to be done|not have read yet|more arrivals"),
    ("            tcgen05_fence_before_sync();\n            __syncwarp", "            __syncwarp", "not have read yet.*fence::before_thread_sync"),
    ("filled + buffer * 8, phase);\n                tcgen05_fence_after_sync();", "filled + buffer * 8, phase);", "known to be done.*fence::after_thread_sync"),
    ('        "tcgen05.wait::ld.sync.aligned;\\n"\n', "", "a tcgen05.ld may not have written yet"),
    ("mbarrier_wait(full + slot * 8, phase);", "mbarrier_wait(full + slot * 8, phase ^ 1);", "nothing has written|in flight|deadlock"),
    ("u32 buffer_phase = 1;", "u32 buffer_phase = 0;", "deadlock"),
    ("buffer = 0, buffer_phase ^= 1;", "buffer = 0;", "deadlock|not have read yet"),
    ("tcgen05_fence_after_sync();\n                tile_phase ^= 1;", "tcgen05_fence_after_sync();", "deadlock|known to be done"),  # of a block's second tile
    ("tcgen05_fence_after_sync();\n                            tile_phase ^= 1;", "tcgen05_fence_after_sync();", "deadlock|not have read yet"),
    ("                        if (first == 0 && index == 0) {",
     "                        tcgen05_commit(free + slot * 8);\n                        if (first == 0 && index == 0) {", "deadlock|more arrivals|overwritten while"),
    ("tcgen05_commit(free + slot * 8);", "if (index + 2 == work.count) tcgen05_commit(complete);\n                    tcgen05_commit(free + slot * 8);",
     "deadlock|more arrivals|known to be done"),
    ("constexpr int COLUMNS = 128;", "constexpr int COLUMNS = 64;", "not allocated"),
    ('"r"(columns), "n"(COLUMNS)', '"r"(columns), "n"(COLUMNS / 2)', "not one whole allocation"),
    ("if (multiplies) tcgen05_dealloc(sums);", "if (thread / 32 == 0) tcgen05_dealloc(sums);", "another warp than took it"),
    ("constexpr int BUFFER = 1 * BLOCK_N;", "constexpr int BUFFER = 1 * BLOCK_N / 2;", "not have read yet|error|worst case|bound"),
    ("0x8000402000010000ull", "0x4000402000010000ull", "has not yet filled|nothing has written|swizzle|bound"),  # as of rows of 128 bytes
    ("0x8000402000010000ull", "0x8000401000010000ull", "error|worst case|bound"),  # eight rows every 256 bytes
    ('"r"(0x08080010u)', '"r"(0x08040010u)', "nothing has written"),  # 16 columns of 32
    ("index > 0 || step > 0", "step > 0", "error|worst case|bound"),
    ("(k + BLOCK_K - 1) / BLOCK_K;", "k / BLOCK_K;", "error|worst case|bound"),
]
FIRST, LAST = "tcgen05_fence_before_sync();\n    cluster_barrier();", "__syncwarp();\n    cluster_barrier();"
SABOTAGE_OF_PAIRS = [
    ("mbarrier_arrive_at(full + slot * 8, 0);", "", "deadlock"),
    ("rank == 0 ? 2 : 1", "1", "nothing has written|in flight|more arrivals|overwritten while"),
    ("WARPGROUPS * 4 * CLUSTER);  // every", "WARPGROUPS * 4);  // every", "need not have read yet|more arrivals|deadlock"),
    ("mbarrier_arrive_at(barrier, 0)", "mbarrier_arrive_at(barrier, rank)", "deadlock|more arrivals"),
    ('"h"((u16)((1 << CLUSTER) - 1))', '"h"((u16)1)', "deadlock"),
    ('"h"((u16)((1 << CLUSTER) - 1))', '"h"((u16)2)', "deadlock"),
    (FIRST, FIRST.replace("cluster_barrier", "__syncthreads"), "nothing has initialised|may not be initialised|not allocated|need not be allocated"),
    (LAST, LAST.replace("cluster_barrier", "__syncthreads"), "given back that another warp need not have read|has ended|ends while|still be signalling"),
    (" + rank * B_BYTES;", ";", "0 exact|error|worst case|bound|promised"),
    ("b_from + word * CLUSTER * B_BYTES", "b_from + word * B_BYTES", "error|worst case|bound|promised"),
    ("b_from += (CLUSTER * B_STAGE)", "b_from += B_STAGE", "error|worst case|bound|promised"),
    ("BLOCK_N / CLUSTER * ROW_BYTES", "BLOCK_N * ROW_BYTES", "outside|in flight|so many bytes|deadlock|error|worst case|bound"),
    ("work.count > 0 && rank == 0", "work.count > 0", "deadlock|known to be done|more arrivals"),
    ("if (rank > 0) {", "if (rank > 2) {", "issued by the second of them"),
    ("const int block_m = row * CLUSTER + rank;", "const int block_m = row * CLUSTER;", "error|worst case|bound|promised"),
    ("work.panel_m = min(block_m, blocks_m - 1);", "work.panel_m = block_m;", "outside its buffer"),
    ("mbarrier_wait(full + slot * 8, phase);\n                    if (rank > 0) {",
     "if (rank == 0) mbarrier_wait(full + slot * 8, phase);\n                    if (rank > 0) {", "deadlock|nothing has written|in flight|more arrivals"),
    ("mbarrier_wait(free + slot * 8, phase);", "if (rank == 0) mbarrier_wait(free + slot * 8, phase);", "more arrivals|overwritten while|in flight"),
    ("mbarrier_expect_tx(arrival, STAGE_BYTES);", "mbarrier_expect_tx(arrival, STAGE_BYTES - rank * B_BYTES);", "deadlock|so many bytes|more arrivals|in flight"),
]


SABOTAGE_OF_RESIDUES = [
    ("mbarrier_wait(emptied + buffer * 8, buffer_phase);", "", "deadlock|known to be done|more arrivals|not have read yet"),
    ("mbarrier_wait(filled + buffer * 8, phase);", "", "nothing has written|known to be done|deadlock|more arrivals"),
    ("filled + buffer * 8, phase);\n                        tcgen05_fence_after_sync();", "filled + buffer * 8, phase);", "known to be done.*fence::after_thread_sync"),
    ("tcgen05_commit(filled + buffer * 8);", "mbarrier_arrive(filled + buffer * 8);", "no commit covers"),
    ("tcgen05_commit(free + slot * 8);", "mbarrier_arrive(free + slot * 8);", "overwritten while|no commit covers"),
    ("tell(emptied + buffer * 8);", "", "deadlock"),
    ("tell(emptied + buffer * 8);", "mbarrier_arrive(emptied + buffer * 8);", "more arrivals|not have read yet|deadlock"),
    ("!begins || step > 0", "1", "added to tensor memory that nothing has written"),
    ("sums + buffer * BUFFER, a_at", "sums + (BUFFERS - 1) * BUFFER, a_at", "nothing has written|known to be done|not have read yet"),
    ("+ buffer * BUFFER + piece * 16", "+ buffer * BUFFER + BLOCK_N + piece * 16", "not allocated|known to be done|nothing has written"),
    ("const Modulus by = modulus_of(modulus);", "const Modulus by = modulus_of(0);", "worst case|bound"),
    ("a_from += MODULI * A_STAGE;", "a_from += A_STAGE;", "worst case|bound"),
    ("mbarrier_expect_tx(arrival, STAGE_BYTES);", "mbarrier_expect_tx(arrival, A_STAGE);", "so many bytes|more arrivals|in flight|deadlock"),
    ('"setp.ne.b32 p, %4, 0;\\n"', '"setp.ne.b32 p, %4, 2;\\n"', "added to tensor memory that nothing has written"),
    ("ends = index + 1 == end || (index + 1) % SUM_STAGES == 0;", "ends = (index + 1) % SUM_STAGES == 0;", "deadlock"),
    ('"r"(0x080804a0u)', '"r"(0x08080420u)', "worst case|bound"),  # A's bytes without a sign
    ("| (u64)((address & 0x3ffff) >> 4)", "| (u64)((address & 0x1ffff) >> 5)", "swizzle pattern|worst case|outside|nothing has written|in flight"),
]


@pytest.mark.parametrize("of, before, after, problem", sampled([
    *(({}, *one) for one in SABOTAGE), *((PAIR, *one) for one in SABOTAGE_OF_PAIRS),
], 4) + [pytest.param({"split": {"scheme": "residues6", "promote": 0}}, *one, marks=pytest.mark.long) for one in SABOTAGE_OF_RESIDUES])
def test_sabotage_is_found(of, before, after, problem):
    """By one of the schedules that `verify` runs. Two tiles for a block, or a pair, and a k that stages do not fill."""
    plan, source = rendered(**of)
    assert source.text.count(before) == 1
    wrong = with_blocks(replace(source, text=source.text.replace(before, after)), 2)
    binary = assembled(wrong)
    found = []
    for schedule in (*emulate.SCHEDULES, AHEAD):
        device = emulator(plan, wrong, binary)
        device.set_schedule(schedule)
        try:
            check = Judge(plan, wrong, binary, device).accuracy("sabotage", oracles.uniform(plan, -1, 1, (300, 32, 250), 3)).check
            found += [] if check.passed else [check.detail]
        except EmulationError as error:
            found.append(str(error))
    assert any(re.search(problem, one, re.DOTALL) for one in found), found
