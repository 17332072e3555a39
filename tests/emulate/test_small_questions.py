"""Small products, again: what two of them share, in which order they run, and where operands end.

As in `test_small_products` answers are known to the last bit.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from assembled import assembled
from test_small_products import WAYS, integers
from verifying import QUESTIONS, expected_bits
from ways import HOPPER, SMALL_GROUPS, TINY, plan_of

from gemmgen.emulate import EAGER_LOWEST, LAZY_HIGHEST, TOGETHER
from gemmgen.render import render
from gemmgen.run import allocated, arguments, gemm
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.split import split
from gemmgen.verify import Judge

ORDERS = {
    "portable": dict(stages=3),
    "portable, through registers": dict(loads="spread", fragment_buffers=1),
    "warpgroups": SMALL_GROUPS,
    "warpgroups, after two stages": dict(SMALL_GROUPS, promote=128),
    "warpgroups in clusters": dict(HOPPER, tile={"block": [64, 32, 64], "warp": [64, 32, 64], "cluster": 2}, stages=3),
    "mfma": dict(gpu="mi210", fragment_buffers=2),
    "wmma of RDNA4": dict(gpu="rx9070xt", fragment_buffers=1),
}
SCALED = {"portable": dict(scheme="scaled"), "mfma": dict(gpu="mi300x", scheme="scaled", promote=64)}


KNOWN = {  # sums that are rounded before they are added up
    "three sums, slices": dict(scheme="f16x6", promote=32, split_k=3, tile=TINY),
    "compensated": dict(scheme="tf32x3", promote=32, sums="compensated", layout="tt", tile=TINY),
}


@cache
def built(name: str, table: str):
    plan = plan_of(**(WAYS if table == "WAYS" else globals()[table])[name])
    source = render(plan)
    return plan, source, assembled(source)


@cache
def device_of(name: str, table: str) -> EmulatorDevice:
    """One that has decoded the kernel; what it returns does not depend on what it ran before (test_specs)."""
    return EmulatorDevice(*built(name, table), schedule=TOGETHER)


@pytest.mark.parametrize("name", ORDERS)
def test_both_orders_of_warps_and_copies_give_the_reference(name):
    """Enough k for every stage to be filled again, and more than a block of C."""
    plan, source, binary = built(name, "ORDERS")
    a, b, _ = integers(70, 33, (2 * plan.stages + 1) * plan.block[2] + 5)
    for schedule in (LAZY_HIGHEST, EAGER_LOWEST):
        c = gemm(EmulatorDevice(plan, source, binary, schedule=schedule), plan, source, a, b).c
        assert np.array_equal(c, a @ b), schedule.name


@pytest.mark.parametrize("name", KNOWN)
def test_a_right_kernel_gives_the_bits_that_are_known(name):
    plan, source, binary = built(name, "KNOWN")
    judge = Judge(plan, source, binary, device_of(name, "KNOWN"))
    for question in ("probes", "permutation"):
        check = QUESTIONS[question](judge)
        assert check.passed, check.detail


@pytest.mark.parametrize("name", ["portable, slices", "warpgroups, slices", "portable, row scales"])
def test_a_second_product_finds_its_workspace_as_the_first_did(name):
    """What counts slices is as the next launch wants it; maxima are cleared before each."""
    plan, source, binary = built(name, "WAYS")
    device = EmulatorDevice(plan, source, binary, schedule=TOGETHER)
    m, n, k = 70, 66, 150
    extents = source.interface.extents(m, n, k)
    memory = allocated(device, source.interface, extents)
    given = {"m": m, "n": n, "k": k, "lda": k, "ldb": n, "ldc": n, "alpha": 1.0, "beta": 0.0}
    for seed in (0, 1, 2):
        rng = np.random.default_rng(seed)
        a, b = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((m, k), (k, n)))
        given |= {"a": device.upload(a, "a"), "b": device.upload(b, "b"), "c": device.upload(np.full((m, n), np.nan, np.float32), "c")}
        for buffer in source.interface.buffers:
            if buffer.zeroed_again:
                memory[buffer.name, 0] = device.zeros(buffer.bytes(extents), buffer.name)
        for launch in source.launches:
            device.launch(launch.symbol, launch.blocks(extents), launch.threads, launch.shared_bytes, arguments(launch, given, memory))
        assert np.array_equal(device.download(given["c"], np.float32, m * n).reshape(m, n), a @ b)


@pytest.mark.parametrize("name", WAYS)
def test_no_row_beyond_the_edge_is_read(name):
    """Rows on 16 bytes, in blocks that they do not fill: the emulator knows where a matrix ends."""
    plan, source, binary = built(name, "WAYS")
    a, b, _ = integers(68, 28, 44)
    result = gemm(device_of(name, "WAYS"), plan, source, a, b)
    assert np.array_equal(result.c, a @ b) and result.intact


@pytest.mark.parametrize("name", ["portable, split before shared memory", "portable, split behind shared memory", "warpgroups that split A",
                                  "warpgroups that split A transposed", "mfma, register"])
def test_elements_are_counted_once_however_many_blocks_share_them(name):
    """Blocks that share a stage take turns: fewer stages than blocks, and so many that each has several turns."""
    plan, source, binary = built(name, "WAYS")
    for m, n, k in ((70, 130, 40), (40, 70, 331)):  # rows that begin at 16 bytes, and rows that do not
        a, b = np.full((m, k), 1e6, np.float32), np.full((k, n), 1.0, np.float32)
        b[3::50, :] = 1e5
        status = gemm(device_of(name, "WAYS"), plan, source, a, b).status
        assert status["a_overflow"] == a.size and status["b_overflow"] == (b > 1).sum()


@pytest.mark.parametrize("name", ["warpgroups that split A", "warpgroups that split A transposed"])
def test_no_bank_conflicts_where_a_is_split_on_its_way(name):
    plan, source, binary = built(name, "WAYS")
    device = EmulatorDevice(plan, source, binary, schedule=TOGETHER)
    gemm(device, plan, source, *integers(64, 64, 128)[:2])
    assert not device.conflicts


def same_bits(name: str, a: np.ndarray, b: np.ndarray) -> None:
    """C of a kernel that scales rows, against the scheme on the unit."""
    plan, source, binary = built(name, "SCALED")
    result = gemm(device_of(name, "SCALED"), plan, source, a, b)
    assert np.array_equal(result.c.view(np.uint32), expected_bits(plan, a, b).view(np.uint32))
    assert not result.status["a_overflow"] and not result.status["repaired"]


@pytest.mark.parametrize("name", SCALED)
def test_rows_of_subnormal_numbers(name):
    """Each with an element as near to a power of two as there is one, which must not round up beyond the words."""
    rng = np.random.default_rng(1)
    largest = np.exp2(-np.arange(126, 147.0))[:, None]
    a = rng.uniform(-1, 1, (21, 50)) * largest
    a[:, :1] = largest - 2.0**-149
    same_bits(name, a.astype(np.float32), (rng.uniform(-1, 1, (50, 9)) * 2.0**90).astype(np.float32))


@pytest.mark.parametrize("name", SCALED)
def test_the_largest_of_a_row_may_be_anywhere(name):
    """It stands alone at every k in turn, and far above the others."""
    rng = np.random.default_rng(2)
    a, b = rng.uniform(1, 2, (70, 70)).astype(np.float32), rng.uniform(-1, 1, (70, 9)).astype(np.float32)
    a[np.arange(70), np.arange(70)] *= np.float32(2.0**20)
    same_bits(name, a, b)


@pytest.mark.parametrize("name", SCALED)
def test_sums_below_the_normal_range_are_rounded_once(name):
    """Where both scales together are 2^-127: a sum of scaled words below 1 leaves a subnormal number, whose last bit tells whether
    it was rounded on the way."""
    rng = np.random.default_rng(3)
    a, b = np.zeros((21, 18)), np.zeros((18, 19))
    a[:, 0], b[1, :] = 2.0**-50, 2.0**-49  # the largest of each row and column, which meet nothing
    a[:, 2:], b[2:, :] = rng.uniform(-1, 1, (21, 16)) * 2.0**-70, rng.uniform(-1, 1, (16, 19)) * 2.0**-61
    same_bits(name, a.astype(np.float32), b.astype(np.float32))


COUNTED = {
    "portable": dict(stages=3), "row scales": dict(scheme="scaled"), "three words": dict(scheme="bf16x6"),
    "split on the way": dict(where="register", loads="async"),
    "mfma that flushes": dict(gpu="mi210"), "mfma that flushes, row scales": dict(gpu="mi210", scheme="scaled"), "warpgroups": SMALL_GROUPS,
}


@pytest.mark.parametrize("name", COUNTED)
def test_what_is_counted_of_every_magnitude(name):
    """Of each operand lossy, overflowing and non-finite elements, as the reference split counts them: on both sides of every limit."""
    plan, source, binary = built(name, "COUNTED")
    form, rng = plan.scheme.format, np.random.default_rng(5)
    limits = np.array([plan.scheme.precision.lowest(plan.launches.flushes_words), form.min_exponent, form.max_exponent + 1, form.min_exponent - form.fraction_bits])
    a = np.ldexp(rng.uniform(1, 2, (40, 70)), np.clip(limits[rng.integers(0, 4, (40, 70))] + rng.integers(-3, 3, (40, 70)), -149, 127))
    b = np.ldexp(rng.integers(0, 64, (70, 30)) * 2.0**-6, rng.integers(-149, 127, (70, 30)))
    a[3], a[5, 2], a[6, 3], b[4, 5] = 0, np.inf, np.nan, -np.inf
    a[7, 0], b[0, 6] = 3e38, 1e38  # far above the rest of their row and column
    a, b = (np.where(np.isfinite(x), np.clip(x, -3.4e38, 3.4e38), x).astype(np.float32) for x in (a, b))
    status = gemm(device_of(name, "COUNTED"), plan, source, a, b).status
    words = {"a": split(a, plan.scheme, plan.launches.flushes_words), "b": split(np.ascontiguousarray(b.T), plan.scheme, plan.launches.flushes_words)}
    want = {f"{x}_{kind}": getattr(words[x], kind) for x in "ab" for kind in ("lossy", "overflow", "nonfinite")}
    assert {key: status[key] for key in want} == want
    assert want["a_lossy"] > 100 and want["b_lossy"] > 100 and want["a_nonfinite"] == 2 and want["b_nonfinite"] == 1
