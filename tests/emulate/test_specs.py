"""Every shipped spec verifies on the emulator: what it declares can be built and is right."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gemmgen import emulate
from gemmgen.build import build
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.emulate import TOGETHER
from gemmgen.emulate.core.rounding import fma
from gemmgen.errors import EmulationError
from gemmgen.render import render
from gemmgen.run import Placement, gemm
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.solve import solve
from gemmgen.spec import load, loads
from gemmgen.verbs.init import Starter, starter
from gemmgen.verify import verify
from assembled import assembled
from verifying import assert_passed, assert_right_in_short, judge_of, on_emulator, report_of
from ways import IN_SHORT, covering, pairs_of_units, sampled, shipped, solved, tailed


def verified(loaded):
    """The report of a spec."""
    return report_of(solve(loaded))


def assert_right(plan, whole: bool):
    assert_passed(report_of(plan)) if whole else assert_right_in_short(plan)


in_short_or_whole = pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.long)], ids=["in short", "whole"])
SHIPPED = shipped()


@pytest.mark.parametrize("gpu", tailed(["a100", "mi300x", "h100"], {"mi300x", "h100"}))
def test_the_first_spec_that_init_writes_is_right_in_short(gpu, tmp_path):
    path = tmp_path / "kernel.toml"
    path.write_text(starter(Starter.kernel, GPUS.get(gpu), gpu, path))
    assert_right_in_short(solve(load(path)))


@pytest.mark.parametrize("name", tailed(SHIPPED, SHIPPED.keys() - IN_SHORT))
def test_a_shipped_spec_is_right_in_short(name):
    plan = solved(SHIPPED[name])
    if plan.launches.of_products:
        pytest.skip("a batch: what is asked of one product alone is not asked of it; test_every_shipped_spec_verifies asks the rest")
    if "uplo" in plan.kind.options:
        pytest.skip("a triangle, whose bits and counts test_kind_kernels asks")
    assert_right_in_short(plan, conflicts=name == "wmma_a100" or plan.where == "lane")


@pytest.mark.long  # rows of data sheets and three ways have their whole report made by `make test`
@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_spec_verifies(name):
    loaded = SHIPPED[name]
    plan = solve(loaded)
    report = verified(loaded)
    assert_passed(report)
    several = plan.batch and plan.batch.tiles  # which copy rows of any alignment, element by element where they must
    # The former's rows are read without conflicts, but not written; blocks of unknowns are solved by kernels of their own.
    if name != "wmma_a100" and plan.where != "lane" and not several and not plan.kind.solves:
        assert "0 bank conflicts" in report.checks[-1].detail


@pytest.mark.long  # `make test` asks the model of these, and the kernels of shipped specs
@pytest.mark.parametrize(("gpu", "scheme"), [pair for pair in pairs_of_units() if (on := GPUS.get(pair[0])).maker.checked.emulates(on.arch)])
def test_kernels_of_every_scheme_and_unit_say_what_they_lose_of_hard_data(gpu, scheme):
    """Rows and columns of every magnitude, Inf and NaN: each element is within the worst case, or its row or column counted."""
    row = SCHEMES.get(scheme)
    plan = solve(loads({
        "problem": {"type": row.element, "b": row.b or "f32", "m": 64, "n": 64, "k": 64}, "split": {"scheme": scheme}, "target": {"gpu": gpu},
        "build": {"allow_spills": True},
    }))
    judge = judge_of(plan)
    for check in (judge.range(), judge.special()):
        assert check.passed, f"{check.name}: {check.detail}"


@in_short_or_whole
@pytest.mark.parametrize(("scheme", "layout"), covering(itertools.product(["ootomo", "scaled", "fp32"], ["nt", "tn", "tt"])))
def test_the_other_layouts(scheme, layout, whole):
    """Both ways of reading each operand, for a scheme with and one without row scales, and for one without a matrix unit."""
    assert_right(solve(loads({
        "problem": {"layout": layout}, "split": {"scheme": scheme},
        "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}, "target": {"gpu": "a100"},
    })), whole)


@in_short_or_whole
@pytest.mark.parametrize("block_k, stages, buffers, promote", sampled([
    (16, 4, 1, 16), (16, 2, 1, 64), (32, 2, 2, 16), (64, 2, 1, 32), (64, 3, 2, 128), (128, 2, 1, 64), (128, 2, 2, 256),
], 4))
def test_every_depth_of_stage_and_place_of_promotion(block_k, stages, buffers, promote, whole):
    assert_right(solve(loads({
        "split": {"scheme": "ootomo", "promote": promote},
        "tile": {"block": [48, 64, block_k], "warp": [48, 16, block_k], "group": 3},
        "pipeline": {"stages": stages, "fragment_buffers": buffers}, "target": {"gpu": "h100"},
    })), whole)


@in_short_or_whole
@pytest.mark.parametrize("block_k, stages, buffers", sampled([(16, 4, 2), (32, 3, 1), (64, 2, 2), (128, 2, 1)], 2))
def test_every_depth_of_stage_on_the_cuda_cores(block_k, stages, buffers, whole):
    """Rows of 4 to 32 chunks, so every swizzle, with steps in a loop and unrolled."""
    plan = solve(loads({
        "split": {"scheme": "fp32"}, "tile": {"block": [48, 64, block_k], "warp": [48, 32, block_k], "group": 3},
        "pipeline": {"stages": stages, "fragment_buffers": buffers}, "target": {"gpu": "h100"},
    }))
    if not whole:
        return assert_right_in_short(plan)
    report = report_of(plan)
    assert_passed(report)
    assert report.device == "emulator (FP32 CUDA cores)"
    assert "0 bank conflicts" in report.checks[-1].detail


@pytest.mark.parametrize("layout, magnitude", [("nn", 0), ("tt", -70)])
def test_fp32_is_the_sequential_dot_product_bit_for_bit(layout, magnitude):
    """One fused multiply-add a k, in order; sums and operands below the normal range as well, and none is counted as lossy."""
    plan = solve(loads({
        "problem": {"layout": layout}, "split": {"scheme": "fp32"},
        "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}, "target": {"gpu": "a100"},
    }))
    device, _, source = on_emulator(plan)
    rng = np.random.default_rng(1)
    a, b = rng.uniform(-1, 1, (71, 83)).astype(np.float32), rng.uniform(-1, 1, (83, 45)).astype(np.float32)
    a, b = np.ldexp(a, magnitude), np.ldexp(b, magnitude)
    a[:, :5] = np.ldexp(a[:, :5], -65)
    result = gemm(device, plan, source, a, b)
    want = np.zeros((71, 45), np.float32)
    for k in range(83):
        want = fma(a[:, k, None], b[None, k, :], want)
    assert np.array_equal(result.c, want)
    assert not any(result.status.values())
    if magnitude:
        assert 0 < np.abs(want[want != 0]).min() < 2.0**-126 and 0 < np.abs(a).min() < 2.0**-126


def test_special_values_left_alone_when_asked():
    """`fast` repairs nothing, and the kernel then takes no operands to repair from."""
    loaded = loads({
        "split": {"scheme": "ootomo", "special": "fast"},
        "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}, "target": {"gpu": "a100"},
    })
    plan = solve(loaded)
    source = render(plan)
    assert "repaired" not in source.text
    report = verified(loaded)
    assert_passed(report)
    assert "fast" in next(check.detail for check in report.checks if check.name == "special")


def test_user_matrices_outside_the_range_are_told():
    """Data at 1e-7 loses its low words: not an error of the kernel, and never silent."""
    plan = solve(loads({
        "split": {"scheme": "ootomo"}, "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}, "target": {"gpu": "a100"},
    }))
    source = render(plan)
    binary = build(source)
    rng = np.random.default_rng(0)
    a = (1e-7 * rng.uniform(-1, 1, (40, 96))).astype(np.float32)
    b = rng.uniform(-1, 1, (96, 24)).astype(np.float32)
    report = verify(plan, source, binary, EmulatorDevice(plan, source, binary), a=a, b=b)
    mine = next(check for check in report.checks if check.name == "your matrices")
    assert "outside the scheme's range" in mine.detail
    assert report.status["a_lossy"] == a.size or report.status["a_lossy"] > 0.9 * a.size


def test_users_special_values_are_judged_by_kind():
    """Inf and NaN in a user's matrices: those elements must be what FP32 has, the others within their bound."""
    plan = solve(loads({
        "split": {"scheme": "ootomo"}, "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}, "target": {"gpu": "a100"},
    }))
    source = render(plan)
    binary = build(source)
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (20, 64)).astype(np.float32), rng.uniform(-1, 1, (64, 12)).astype(np.float32)
    a[3, 5], b[7, 2] = np.inf, np.nan
    report = verify(plan, source, binary, EmulatorDevice(plan, source, binary), a=a, b=b)
    assert_passed(report)
    assert report.errors.relative_frobenius < 1e-6


def test_a_device_reads_its_binary_once_and_keeps_products_apart(monkeypatch):
    """What a device returns does not depend on what it ran before, be that a larger product or one that failed."""
    plan = solve(loads({
        "split": {"scheme": "scaled"}, "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}, "target": {"gpu": "a100"},
    }))
    source = render(plan)
    binary = assembled(source)
    read = []
    parsed = emulate.ptx.emulator._parsed
    monkeypatch.setattr(emulate.ptx.emulator, "_parsed", lambda text: read.append(text) or parsed(text))
    rng = np.random.default_rng(0)
    problems = [
        [rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((m, k), (k, n))] for m, n, k in ((70, 9, 40), (5, 66, 33))
    ]
    problems[1][0][2, 3] = np.inf  # counted in the status, repaired

    def product(device, a, b):
        result = gemm(device, plan, source, a, b)
        return result.c.tobytes(), result.status, result.intact

    fresh = [product(EmulatorDevice(plan, source, binary), *problem) for problem in problems]
    assert read and fresh[0][1] != fresh[1][1]
    device = EmulatorDevice(plan, source, binary)
    assert [product(device, *problem) for problem in problems] == fresh
    once = len(read)
    device.set_schedule(TOGETHER)
    with monkeypatch.context() as broken, pytest.raises(EmulationError, match="outside its buffer"):
        broken.setattr(EmulatorDevice, "empty", lambda self, nbytes, name: self.emulator.alloc(nbytes - 16, name=name))
        product(device, *problems[0])
    assert [product(device, *problem) for problem in problems] == fresh
    assert device.emulator.schedule is TOGETHER
    assert len(read) == once


@pytest.mark.parametrize(("m", "n", "k", "scheme"), covering(
    (*size, scheme) for size in ((0, 5, 7), (5, 0, 7), (5, 7, 0), (0, 0, 0), (1, 1, 1), (7, 11, 13), (97, 1, 1), (1, 131, 2)) for scheme in ("scaled", "fp32")
))
def test_any_size_even_none(m, n, k, scheme):
    """Empty, single and prime extents: C = alpha A B + beta C, and nothing else written."""
    plan = solve(loads({
        "split": {"scheme": scheme}, "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}, "target": {"gpu": "a100"},
    }))
    rng = np.random.default_rng(m + n + k)
    a, b, c = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n)))
    result = gemm(*on_emulator(plan), a, b, c, alpha=2.0, beta=-0.5, placement=Placement((1, 2, 3), (4, 8, 12)))
    want = 2.0 * (a.astype(np.float64) @ b.astype(np.float64)) - 0.5 * c.astype(np.float64)
    assert result.c.shape == (m, n) and result.intact
    assert np.abs(result.c - want).max(initial=0.0) < 1e-5
