"""The scheme without a matrix unit: what is decided, predicted and bounded for it."""

from __future__ import annotations

import numpy as np
import pytest
from banks import bank_ways
from ways import AMD, AMD_WAYS, NVIDIA
from ways import plan_of as way_of

from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.emulate.core.rounding import fma
from gemmgen.errors import InfeasibleSpec
from gemmgen.model import time
from gemmgen.naming import kernel_name
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.split import split
from gemmgen.verify import oracles
from gemmgen.verify.bound import U, bound, worst_case
from gemmgen.verify.metrics import errors, exact


def plan_of(gpu: str = "a100", promote="auto", warp=(32, 32, 32), buffers: int = 1):
    return solve(loads({
        "split": {"scheme": "fp32", "promote": promote}, "tile": {"block": [128, 64, warp[2]], "warp": list(warp), "group": 8},
        "pipeline": {"stages": 2, "fragment_buffers": buffers, "loads": "async"}, "target": {"gpu": gpu},
    }, "here"))


# ---- deciding


def test_there_is_nothing_to_promote():
    assert plan_of().promote == plan_of(promote=0).promote == 0
    with pytest.raises(InfeasibleSpec, match="in FP32 registers already") as refused:
        plan_of(promote=64)
    assert refused.value.where == "here: [split] promote" and refused.value.remedy == "promote = 0"


def spec(gpu: str, **sections):
    return loads({"split": {"scheme": "fp32", **sections.pop("split", {})}, "target": {"gpu": gpu}, **sections})


def test_loads_through_registers_stand_together():
    """Spread between multiply-adds they would have the steps unrolled, which takes the registers of two blocks."""
    assert solve(spec("t4")).loads == "grouped"
    assert solve(spec("rtx4090", split={"where": "shared"})).loads == "grouped"
    assert solve(spec("a100")).loads == "async"
    assert solve(spec("a100", pipeline={"loads": "spread"}, split={"where": "shared"})).loads == "spread"


def test_what_needs_a_matrix_unit_is_refused():
    with pytest.raises(InfeasibleSpec, match="no mma fragment of f32 is known"):
        solve(spec("a100", fragment={"policy": "mma"}))
    with pytest.raises(InfeasibleSpec, match="not filled by lanes") as refused:
        solve(spec("a100", split={"where": "register"}))
    assert 'where = "prepass" or "shared"' in refused.value.remedy
    assert solve(spec("a100", fragment={"policy": "fma"})) == solve(spec("a100"))


def test_no_matrix_unit_has_to_know_the_word():
    for gpus, engine in ((NVIDIA, "FP32 CUDA core"), (AMD, "FP32 VALU lane")):
        for gpu in map(GPUS.get, gpus):
            assert "f32" not in gpu.unit.block and "f32" not in gpu.rates.tensor_fma_per_clock
            assert solve(spec(gpu.name)).fragment.interface.engine == engine


@pytest.mark.parametrize(("gpu", "shape"), [("mi100", "m32n32k4"), ("mi300x", "m32n32k4"), ("rx7900xtx", "m16n32k4"), ("rx9070xt", "m16n32k4")])
def test_on_amd_it_goes_by_the_wavefront(gpu, shape):
    """Tiles through registers, two stages, one fragment buffer, and the fragment of as many lanes."""
    plan = solve(spec(gpu))
    assert plan == solve(spec(gpu, fragment={"policy": "fma", "shape": shape})) and plan.fragment.shape_name == shape
    assert (plan.loads, plan.stages, plan.fragment_buffers, plan.promote) == ("grouped", 2, 1, 0)
    assert plan.where in ("prepass", "shared") and plan.fragment.threads == plan.lanes


@pytest.mark.parametrize(("keys", "where", "problem"), [
    ({"split": {"where": "register"}}, "[split] where", "not filled by lanes"),
    ({"split": {"promote": 64}}, "[split] promote", "in FP32 registers already"),
    ({"pipeline": {"loads": "async"}}, "[pipeline] loads", "load tiles through registers"),
    ({"pipeline": {"loads": "spread"}}, "[pipeline] loads", "load tiles through registers"),
    ({"pipeline": {"fragment_buffers": 2}}, "[pipeline] fragment_buffers", "leaves no room for a second buffer"),
    ({"fragment": {"policy": "mfma"}}, "[fragment] policy", "no mfma fragment of f32 is known for amd"),
    ({"fragment": {"shape": "m16n32k4"}}, "[fragment]", "mi300x does not have m16n32k4"),
    ({"tile": {"warp": [32, 48, 32], "block": [64, 96, 32]}}, "[tile] warp", "whole number of fragments"),
])
def test_what_amd_does_not_have_is_refused(keys, where, problem):
    with pytest.raises(InfeasibleSpec, match=problem) as refused:
        solve(spec("mi300x", **keys))
    assert where in refused.value.where and refused.value.remedy


def test_a_matrix_unit_does_not_take_its_policy():
    with pytest.raises(InfeasibleSpec, match="no fma fragment of f16 is known for amd"):
        solve(loads({"split": {"scheme": "ootomo"}, "fragment": {"policy": "fma"}, "target": {"gpu": "mi300x"}}, "here"))


@pytest.mark.parametrize("name", [name for name in AMD_WAYS if name.startswith("VALU")])
def test_amds_swizzle_parts_what_a_phase_reads(name):
    """Counted from the maps: of each four rows, as lanes read them together, none meets another in a bank."""
    plan = way_of(**AMD_WAYS[name])
    assert bank_ways(plan) == 1
    for held, axis in ((plan.fragment.a, 0), (plan.fragment.b, 1)):
        for first in range(0, plan.lanes, plan.staging.line_chunks):
            for register in range(0, 16, 4):
                for step in range(plan.geometry.k_steps):
                    rows = {held.element(lane, register)[axis] for lane in range(first, first + plan.staging.line_chunks)}
                    places = {row: row * plan.staging.row_chunks + (step ^ (row // plan.staging.swizzle_rows & plan.staging.swizzle_mask)) for row in rows}
                    assert len({place % plan.staging.line_chunks for place in places.values()}) == len(rows)


def test_a_warp_may_be_one_fragment_of_b_wide():
    """Where one ldmatrix brings two fragments of B, warps are a multiple of both; here a fragment comes alone."""
    assert plan_of(warp=(16, 32, 16)).geometry.tiles_n == 1
    with pytest.raises(InfeasibleSpec, match="whole number of fragments") as refused:
        plan_of(warp=(32, 16, 32))
    assert "multiple of 32" in refused.value.needs


def test_the_name_says_how():
    assert kernel_name(plan_of()).startswith("gemmgen_fp32_fma_")


def test_the_source_names_no_matrix_unit():
    text = render(plan_of()).text
    assert "matrix unit" not in text.partition("namespace")[2] and "mma" not in text.replace(kernel_name(plan_of()), "")
    assert "fmaf(a[4 * i + k]" in text


# ---- predicting


def test_a_plan_and_the_model_agree():
    for warp in ((32, 32, 16), (64, 32, 32), (32, 64, 64)):
        for buffers in (1, 2):
            plan = plan_of(warp=warp, buffers=buffers)
            known = plan.model
            assert known["fragment_registers"] == plan.numbers["fragment_registers"] == buffers * (warp[0] + warp[1] // 2)
            assert known["accumulator_registers"] == plan.numbers["accumulator_registers"]
            assert (known["loop"] > 0) == plan.geometry.unrolls_steps == (buffers == 2)
            assert bank_ways(plan) == 1


def test_what_each_lane_fetches():
    """Eight lanes read each element of A and four each of B: 16 bytes a lane for 16 multiply-adds a lane and k."""
    known = plan_of(warp=(64, 32, 32)).model
    assert known["warps"] == 4
    assert known["fetch_bytes"] == 4 * (64 * 8 + 32 * 4) * 32 * 4


def test_the_cuda_cores_stand_in_for_the_matrix_units():
    h100 = GPUS.get("h100")
    rates, units = time.rate_numbers(h100, "f32"), time.rate_numbers(h100, "f16")
    assert rates["tensor_fma_per_clock"] == h100.rates.f32_fma_per_clock == 128
    assert rates["clock_hz"] / units["clock_hz"] == pytest.approx(h100.rates.boost_mhz / h100.rates.tensor_boost_mhz)
    assert not time.efficiency(h100, "f32").measured and time.efficiency(h100, "f16").measured
    for gpu in map(GPUS.get, NVIDIA):
        assert 0.4 < solve(spec(gpu.name)).model["tflops"] / gpu.rates.f32_tflops < 1
    for gpu in map(GPUS.get, AMD):
        reached = solve(spec(gpu.name)).model["tflops"] / gpu.rates.f32_tflops
        assert 0.4 < reached < gpu.measured.fma_efficiency.value


@pytest.mark.parametrize(("scheme", "gpu"), [("tf32x3", "h100"), ("ootomo", "a100")])
def test_words_of_any_type_are_multiplied_as_fast_as_fp32_on_cuda_cores(scheme, gpu):
    """So three products take three times as long."""
    plan = way_of(scheme, gpu, fragment={"policy": "fma"}, promote="auto")
    assert 0.1 < plan.model["tflops"] / plan.gpu.rates.f32_tflops < 1 / len(plan.scheme.products) == 1 / 3


# ---- the error


def sequential(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        c = fma(a[:, k, None], b[None, k, :], c)
    return c


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 64, 1000, 5000])
@pytest.mark.parametrize("low", [-1, 0])
def test_the_bound_is_that_of_a_sequential_sum(low, k):
    """Above what FP32 errs by, and not far above; sums that are cut break it."""
    plan = plan_of()
    problem = oracles.uniform(plan, low, 1, (40, 30, k), 3)
    reference, magnitude = exact(problem.a, problem.b), exact(np.abs(problem.a), np.abs(problem.b))
    found = errors(sequential(problem.a, problem.b), reference, magnitude)
    limit = bound(plan, problem.a, problem.b, reference)
    assert found.relative_frobenius <= limit.relative_frobenius <= 8 * found.relative_frobenius
    assert found.scaled <= limit.scaled == worst_case(plan, k) == (k + 1) * U
    if k >= 1000:
        cut = np.zeros_like(reference, np.float32)
        for at in range(k):
            cut = fma(problem.a[:, at, None], problem.b[None, at, :], cut, "rz")
        assert errors(cut, reference, magnitude).relative_frobenius > limit.relative_frobenius


def test_nothing_is_lost_in_the_split():
    x = np.array([[1.0, -1e-40, 2.0**-149, 3.4028235e38, np.inf, np.nan, 1 / 3, 0.0]], np.float32)
    words = split(x, SCHEMES.get("fp32"))
    assert np.array_equal(words.planes[0].astype(np.float32), x, equal_nan=True)
    assert (words.lossy, words.overflow, words.nonfinite) == (0, 0, 2)
