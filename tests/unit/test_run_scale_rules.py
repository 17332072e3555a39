"""Scales of runs of k: words, sums, bounds, plans and refusals. What kernels compute is asked in tests/emulate/test_run_scales.py."""

from __future__ import annotations

import re
from math import ceil

import numpy as np
import pytest

from gemmgen import abi
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import RUNS, SCHEMES, Scheme, with_runs
from gemmgen.emulate.core.product import product
from gemmgen.errors import InfeasibleSpec, SpecError
from gemmgen.export import prose
from gemmgen.library.tables import packs
from gemmgen.model.accuracy import DISTRIBUTIONS, predicted
from gemmgen.render import render
from gemmgen.solve import explain, solve
from gemmgen.spec import loads
from gemmgen.split import exponents, kept_products, split
from gemmgen.verify.bound import allowance, underflow, worst_case
from gemmgen.verify.metrics import exact, relative_frobenius

ROW = SCHEMES.get("run_scaled")


def planned(gpu="h200", **sections):
    said = {"split": {"scheme": "run_scaled"} | sections.pop("split", {}), "target": {"gpu": gpu}, **sections}
    return solve(loads(said))


def test_each_run_has_the_exponent_of_its_largest_finite_element():
    x = np.full((2, 2 * 1024 + 3), 0.75, np.float32)
    x[0, 1024:2048] *= np.float32(2.0**30)
    x[0, 2049], x[0, 2050] = np.inf, np.nan
    x[1, :1024] = 0
    x[1, 2048:] *= np.float32(2.0**-140)
    assert exponents(x, ROW).tolist() == [[15, -15, 15], [0, 15, 155]]
    words = split(x, ROW)
    assert (words.lossy, words.overflow, words.nonfinite) == (0, 0, 2)
    assert words.planes[0, 0, 1024] == words.planes[0, 0, 0] == 0.75 * 2**15


def test_words_of_runs_hold_what_rows_of_any_magnitude_do():
    rng = np.random.default_rng(0)
    k = 2 * 1024 + 500
    scales = np.repeat(np.exp2([-100.0, 0.0, 90.0]), 1024)[:k]
    a, b = ((rng.uniform(0.5, 1, (5, k)) * one).astype(np.float32) for one in (scales, 1 / scales))
    of_a, of_b = split(a, ROW, operand="a"), split(b, ROW, operand="b")
    want = exact(a, b.T.copy())
    assert of_a.lossy == of_b.lossy == 0
    assert np.abs(kept_products(of_a, of_b, ROW) / want - 1).max() < 2.0**-20
    assert relative_frobenius(product(ROW, GPUS.get("h200").unit, a, b.T.copy(), promote=64), want) < 3e-7


def test_a_slice_of_k_has_the_words_of_the_whole():
    """`part` is summed alone, in units of the runs that it lies in: a run's largest element may lie outside of it."""
    rng = np.random.default_rng(1)
    row, unit = with_runs(ROW, 256), GPUS.get("h200").unit
    a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((3, 600), (600, 4)))
    a[:, 100] = 2.0**12
    part = product(row, unit, a, b, promote=64, part=slice(192, 448))
    assert relative_frobenius(part, exact(a[:, 192:448], b[192:448])) < 1e-5
    assert not np.array_equal(part, product(row, unit, np.ascontiguousarray(a[:, 192:448]), b[192:448], promote=64))


@pytest.mark.parametrize("compensated", [False, True])
def test_scales_change_no_bit_of_a_sum(compensated):
    """Powers of two of whole runs: the sums are the same numbers in other units."""
    rng = np.random.default_rng(2)
    row, unit, k = with_runs(ROW, 256), GPUS.get("h200").unit, 700
    a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((5, k), (k, 4)))
    powers = np.repeat(np.exp2([13.0, -40.0, 7.0]), 256)[:k].astype(np.float32)
    plain, moved = (product(row, unit, x, y, promote=64, compensated=compensated) for x, y in ((a, b), (a * powers, b / powers[:, None])))
    assert np.array_equal(plain, moved)


@pytest.mark.parametrize(("change", "needed"), [
    ({"tile_k": None}, "with normalize"), ({"normalize": "row"}, "with normalize"), ({"tile_k": 32}, "with normalize"),
    ({"word": "bf16"}, "words of f16 alone"),
    ({"target_exponent": 16}, "target_exponent below 15"), ({"tile_k": 100}, "256, 512, 1024 or 2048"),
])
def test_a_row_that_could_not_be_right_is_refused(change, needed):
    with pytest.raises(ValueError, match=needed):
        Scheme.model_validate(ROW.model_dump(exclude_none=True) | change)


def test_a_spec_says_how_long_runs_are():
    assert [planned(split={"run": run}).scheme.tile_k for run in RUNS] == list(RUNS)
    assert planned().scheme is ROW and planned(split={"run": 512}).hash != planned().hash
    assert with_runs(ROW, 512).family.run_k == 512 and ROW.family.run_k == 1024


@pytest.mark.parametrize(("sections", "error", "place"), [
    ({"split": {"scheme": "ootomo", "run": 512}}, SpecError, "[split] run"), ({"split": {"promote": 0}}, InfeasibleSpec, "[split] promote"),
    ({"split": {"promote": 16}}, InfeasibleSpec, "[split] promote"), ({"split": {"run": 256, "promote": 512}}, InfeasibleSpec, "[split] promote"),
    ({"split": {"where": "mixed"}}, InfeasibleSpec, "[split] where"), ({"fragment": {"policy": "fma"}}, InfeasibleSpec, "[split] scheme"),
    ({"problem": {"kind": "grouped"}}, InfeasibleSpec, "[split] scheme"), ({"pipeline": {"design": "straight"}}, InfeasibleSpec, "[split] scheme"),
    ({"problem": {"m": 256, "n": 256, "k": 8192}, "fragment": {"policy": "wgmma"}, "split": {"promote": 128},
      "tile": {"block": [64, 64, 64], "warp": [64, 64, 64], "split_k": 4}}, InfeasibleSpec, "[tile] split_k"),
])
def test_what_no_kernel_serves_is_refused_where_it_is_said(sections, error, place):
    with pytest.raises(error) as raised:
        planned(**sections)
    assert place in str(raised.value)


@pytest.mark.parametrize(("layout", "rows", "columns"), [("nn", 8, 8), ("tt", 8, 8)])
def test_one_pass_reads_each_operand_once(layout, rows, columns):
    """A warp takes a run where k is contiguous, a block as many neighbours as it holds where it is not; nothing is zeroed but counters."""
    plan = planned(problem={"layout": layout})
    table = abi.interface(plan)
    assert [launch.role for launch in table.launches] == ["split", "gemm"] and plan.model["split_passes"] == 1
    assert table.launches[0].grid == ((("m_padded", rows), ("k", 1024)), (("n_padded", columns), ("k", 1024)))
    assert table.launches[0].blocks_same_b(table.extents(300, 500, 2049)) == ceil(384 / rows) * 3
    assert [one.name for one in table.buffers if one.zeroed and one.bytes(table.extents(64, 64, 64))] == ["status"]
    made = {one.name: one.bytes(table.extents(300, 500, 2049)) for one in table.buffers}
    assert made["a_exponents"] >= 384 * 3 * 4 and made["b_exponents"] >= 512 * 3 * 4
    assert packs(plan, table, "a") and packs(plan, table, "b")


def test_another_gpus_lanes_take_a_run_too():
    plan = planned("mi300x")
    assert abi.interface(plan).launches[0].grid[0][0] == ("m_padded", 4)


def test_sums_share_units_up_to_what_fp32_holds():
    """2^24 products below 2^30, and two units that differ by four times as much as an exponent from the first run's."""
    near, usual = ROW.family.near, ROW.family.usual
    assert 2 * usual <= 126, "the product of a row's and a column's power of two is a normal number"
    assert 24 + 30 + 4 * near < 127 and -(2 * 24 + 11) - 4 * near >= -149
    assert 24 + 30 + 4 * (near + 1) > 127 or -(2 * 24 + 11) - 4 * (near + 1) < -135
    assert f"most = last ? {usual} : {near};" in render(planned()).text


def test_slices_share_units_that_lie_as_near():
    """The unit that a slice begins in is two steps from the first run's, and a step from its own next, which is one from the first run's as all others are:
    it is three steps from any, which are no more than twice `near`. Each step is asked besides."""
    text = render(planned(problem={"m": 256, "n": 256, "k": 8192}, tile={"split_k": 4})).text
    step = int(re.search(r"most = last \? 60 : (\d+), step = behind_run\(runs, run, apart, last\);", text).group(1))
    assert 3 * step <= 2 * ROW.family.near < 3 * (step + 1)
    assert "return by > most || by < -most || step > most || step < -most;" in text


def test_the_bound_counts_what_joins_where_runs_end():
    plan, short = planned(), planned(split={"run": 256})
    at = {run: worst_case(one, 8192) for run, one in ((1024, plan), (256, short))}
    assert at[256] - at[1024] == pytest.approx((32 - 8) * 2.0**-24, rel=0.05)
    assert underflow(plan, 2048) == pytest.approx((2048 / 64 + 2 * 2) * 2.0**-149)
    a = np.full((1, 2048), 2.0**-70, np.float32)
    assert allowance(plan, a, np.ascontiguousarray(a.T), exact(a, a.T.copy())).item() < 2.0**-126, "no scale of the row takes part in it"


def test_the_error_predicted_is_ootomos_and_compensation_keeps_it():
    unit = GPUS.get("h200").unit
    spread = DISTRIBUTIONS["spread"]
    assert predicted(SCHEMES.get("ootomo"), unit, 4096, 64, spread).estimate > 3 * predicted(ROW, unit, 4096, 64, spread).estimate
    plain, compensated = (predicted(ROW, unit, 16384, 64, compensated=which).estimate for which in (False, True))
    assert compensated < 1.2e-7 < plain


@pytest.mark.parametrize("k", [1024, 8192])
def test_a_contract_takes_run_scales_where_they_are_fastest(k):
    told = explain(loads({"accuracy": {"as": "fp32"}, "problem": {"m": 4096, "n": 4096, "k": k}, "target": {"gpu": "h200"}}))
    assert told.plan.scheme.name == "run_scaled"
    assert told.weighed["scaled wgmma"] > told.weighed["run_scaled wgmma"]


def test_a_header_tells_what_a_run_holds():
    text = prose.range_text(planned(), ["sm_90a"])
    assert "Each run of 1024 k of a row of A" in text and "2^-28 of the largest of its run of 1024 k" in re.sub(r"\s+\* ", " ", text)


@pytest.mark.parametrize("cluster, reader", [(1, "0"), (2, "rank")], ids=["1", "2"])
def test_the_lane_that_reads_a_unit_frees_the_stage(cluster, reader):
    """Its arrival orders its own read before the next write; between a read of another lane and that arrival would stand a `__syncwarp` alone."""
    text = render(planned(tile={"cluster": cluster})).text
    released = re.search(r"const auto release = .*?\};", text, re.S).group()
    assert ("thread % 32 == 0" if cluster == 1 else "mbarrier_arrive_at(free + which * 8, thread % 32)") in released
    assert f"unit = unit_told(units + slot, thread % 32, {reader})" in text and "lane == reader ? *unit : 0, reader)" in text
    assert text.count("units[") == 1 and text.count("units + slot") == 1


def test_zeros_of_a_short_run_are_no_loss_to_look_for():
    """Otherwise each warp with a zero behind a short run examines all of its elements; schemes without runs pad rarely, and have an instruction less."""
    for scheme, there in (("run_scaled", True), ("ootomo", False)):
        text = render(planned(split={"scheme": scheme})).text
        assert ("least = min(least, bits - 1)," in text and "least >= __float_as_uint(0x1p-14f) - 1 &&" in text) is there


def test_a_run_ends_however_short_it_is():
    """The model charged a sum of 64 k a sixteenth of a run's end, and slices of k theirs likewise."""
    tile = {"block": [128, 128, 64], "warp": [64, 128, 64], "cluster": 1, "split_k": 1}
    ends = {k: float(planned(problem={"m": 4096, "n": 4096, "k": k}, tile=tile).model["run_cycles"]) for k in (64, 1024, 1088, 4096)}
    assert ends[64] == ends[1024] > 0 and ends[1088] == 2 * ends[64] and ends[4096] == 4 * ends[64]
