"""Epilogues as rows: what a spec may ask, what it is given, what errors become on their way through, and what the judge finds behind them."""

from __future__ import annotations

import re
import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from ways import TINY, plan_of

from gemmgen import abi
from gemmgen.catalog import epilogue as rows
from gemmgen.catalog.epilogue import NONE, Epilogue, Step, epilogue_of
from gemmgen.catalog.output import BF16, all_outputs
from gemmgen.errors import InfeasibleSpec, SpecError
from gemmgen.library import ends as fused
from gemmgen.model.epilogue import costs
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.verify.ends import drawn, quiet, traced
from gemmgen.workshop.apps.matmul import Copied
from gemmgen.workshop.apps.specs import taken

SPEC = {"problem": {"m": 128, "n": 128, "k": 64}, "split": {"scheme": "ootomo", "where": "prepass"}, "fragment": {"policy": "mma"}, "tile": TINY,
        "pipeline": {"stages": 2}, "target": {"gpu": "a100"}}


SETTLED = """
[tile]
block = [32, 32, 32]
warp = [16, 16, 32]
[pipeline]
stages = 2
"""


def plan_with(*do: str):
    return replace(plan_of(tile=TINY), epilogue=epilogue_of(do))


# ---- what is asked


@pytest.mark.parametrize(("do", "told"), [(["bias", "bias"], "bias twice"), (["bais"], "bais")])
def test_a_spec_that_names_a_step_twice_or_one_that_is_not_there_is_refused(do, told):
    with pytest.raises(SpecError, match=told) as error:
        loads(SPEC | {"epilogue": {"do": do}})
    assert "[epilogue] do" in str(error.value)


@pytest.mark.parametrize("data", [
    {"problem": {"kind": "grouped"}, "split": {"scheme": "fp32"}, "target": {"gpu": "a100"}},
    {"problem": {"kind": "grouped"}, "split": {"scheme": "ootomo"}, "pipeline": {"design": "packed"}, "target": {"gpu": "h100"}},
], ids=["grouped", "packed"])
def test_products_that_are_told_one_by_one_have_no_arguments_for_steps(data):
    with pytest.raises(InfeasibleSpec, match="listed one by one") as error:
        solve(loads(data | {"epilogue": {"do": ["relu", "scale", "bias"]}}))
    assert "scale, bias" in str(error.value) and 'kind = "strided"' in str(error.value)
    assert solve(loads(data | {"epilogue": {"do": ["relu"]}})).epilogue.names == ["relu"]


def test_what_a_call_of_a_library_asks_behind_the_product_by_hand():
    """A bias or none, then no activation, ReLU, GELU or its approximation by tanh, by their numbers in the header."""
    x, bias = np.array([[-2.0, 1.0]]), np.array([1.0, 2.0])
    asked = [fused.STEP.values(x, one, np.array(number)) for one in (bias, np.array(None)) for number in range(4)]
    want = [(-1, 3), (0, 3), (-0.158655, 2.995950), (-0.158808, 2.996363), (-2, 1), (0, 1), (-0.045500, 0.841345), (-0.045402, 0.841192)]
    assert np.allclose(np.concatenate(asked), want, rtol=0, atol=1e-6)


def test_a_steps_functions_are_defined_before_they_are_called():
    for step in rows.SHIPPED:
        for text in map("\n".join, (step.functions or {}).values()):
            for name in re.findall(r"GG_DEVICE \w+ (\w+)\(", text):
                before, *again = re.split(rf"GG_DEVICE \w+ {name}\(", text)
                assert f"{name}(" not in before and len(again) == 1, (step.name, name)


def test_a_step_is_refused_on_a_platform_that_lacks_its_functions(monkeypatch):
    monkeypatch.setattr(rows, "SHIPPED", (*rows.SHIPPED, Step("mine", "mine", "mine({x})", np.sin, host="x", functions={"cuda": ("",)})))
    rows.all_steps.cache_clear()
    try:
        assert epilogue_of(("relu", "mine")).lacks("hip") == "mine" and epilogue_of(("relu", "mine")).lacks("cuda") is None
    finally:
        monkeypatch.undo()
        rows.all_steps.cache_clear()


def test_a_step_whose_functions_only_kernels_call_says_what_a_program_checks_it_by():
    with pytest.raises(ValueError, match="`host` is missing"):
        Step("mine", "mine", "mine({x})", np.sin, functions={"cuda": ("",)})


def test_an_application_refuses_a_kernel_whose_c_is_no_product():
    matmul = Copied("mine", loads(SPEC | {"epilogue": {"do": ["relu"]}}), "emulator")
    with pytest.raises(SpecError, match="applications take kernels that have no epilogue") as error:
        matmul(np.ones((8, 8), np.float32), np.ones((8, 8), np.float32))
    assert "[epilogue] do" in str(error.value) and "leave it out" in str(error.value)
    with pytest.raises(SpecError, match="applications take kernels that have C in FP32 alone"):
        taken(SimpleNamespace(plan=SimpleNamespace(output=BF16, epilogue=())))


# ---- what it is given


def test_a_call_gives_each_argument_in_its_shape_and_no_other():
    one = epilogue_of(("bias", "bias_m", "scale"))
    n, m = np.zeros(5, np.float32), np.zeros(3, np.float32)
    assert one.checked({"bias": n, "bias_m": m, "scale": 2}, 3, 5)["scale"] == 2.0
    for given, place, told in (
        ({"bias": n, "bias_m": m}, "scale", "is missing"), ({"bias": m, "bias_m": m, "scale": 1}, "bias", "shape (3,)"),
        ({"bias": n.astype(float), "bias_m": m, "scale": 1}, "bias", "float64"), ({"bias": n, "bias_m": m, "scale": 1, "beta": 1}, "beta", "not an argument"),
    ):
        with pytest.raises(SpecError) as error:
            one.checked(given, 3, 5)
        assert place in str(error.value).splitlines()[0] and told in str(error.value)
    each = np.zeros((4, 5), np.float32)
    assert epilogue_of(("bias",)).checked({"bias": each}, 3, 5, batch=4)["bias"] is each
    with pytest.raises(SpecError, match="takes no arguments"):
        NONE.checked({"bias": n}, 3, 5)


def test_parameters_of_the_kernel_are_the_arguments_and_strides_of_a_batch_s_vectors():
    names = [one.name for one in abi.interface(plan_with("bias", "relu", "scale")).launches[-1].parameters]
    assert names[names.index("beta") + 1:][:2] == ["bias", "scale"]
    batched = solve(loads({
        "problem": {"kind": "strided", "m": 256, "n": 256, "k": 256, "matrices": 8}, "split": {"scheme": "ootomo"}, "target": {"gpu": "a100"},
        "epilogue": {"do": ["bias", "scale"]},
    }))
    names = [one.name for one in abi.interface(batched).launches[-1].parameters]
    assert names[names.index("beta") + 1:][:3] == ["bias", "stride_bias", "scale"]


def test_identity_and_text_are_those_of_before_where_nothing_is_asked():
    plain, ended = plan_of(tile=TINY), plan_with("bias")
    assert "epilogue" not in plain.identity and ended.identity["epilogue"] == ["bias"] and plain.hash != ended.hash
    assert "ended" not in render(plain).text and "a bias for each column" in render(ended).text


# ---- what becomes of numbers, and of their errors


def test_steps_are_done_in_order():
    x, given = np.array([[-3.0, 1.0], [2.0, -5.0]]), {"bias": np.array([1, 2], np.float32), "scale": -2.0}
    assert np.array_equal(epilogue_of(("bias", "relu", "scale")).values(x, given), [[-0.0, -6], [-6, -0.0]])
    assert np.array_equal(epilogue_of(("scale", "relu", "bias")).values(x, given), [[7, 2], [1, 12]])


@pytest.mark.parametrize("do", [("gelu",), ("gelu_tanh",), ("bias", "relu"), ("scale", "gelu"), ("bias_m", "scale")])
def test_no_two_results_are_farther_apart_than_the_slope_says(do):
    one, rng = epilogue_of(do), np.random.default_rng(0)
    x = rng.uniform(-6, 6, (40, 50))
    given = drawn(replace(plan_of(tile=TINY), epilogue=one), 40, 50)
    given |= {"scale": 3.0} if "scale" in given else {}
    slope, own = one.error(x, given)
    for step in (1e-3, 0.1, 3.0):
        assert (np.abs(one.values(x + step, given) - one.values(x, given)) <= slope * step * (1 + 1e-9)).all()
    assert (own >= 0).all() and (own <= 2e-5).all()


def test_an_error_grows_by_the_slope_of_every_later_step():
    """Of x + bias, times -4: what the addition errs by is four times as large behind the scale, whose sign has no part in it."""
    slope, own = epilogue_of(("bias", "scale")).error(np.array([[3.0, -8.0]]), {"bias": np.array([1, 2], np.float32), "scale": -4.0})
    assert slope.tolist() == [[4, 4]] and own.tolist() == [[rows.U * (4 * 4 + 16), rows.U * (4 * 8 + 24)]]


@pytest.mark.parametrize("do", [("gelu",), ("bias", "gelu_tanh"), ("scale", "relu")])
def test_sums_below_the_normal_range_are_found_behind_what_rounds_them(do):
    """Half of an odd number of FP32's smallest steps is no such number."""
    plan = plan_with(*do)
    right, given = np.ldexp(np.array([[-979279.0, 1.0, 3.0, 4194303.0]]), -149), quiet(plan, 1, 4)
    c = plan.epilogue.values(right, given).astype(np.float32)
    kept = right if "relu" not in do else np.maximum(right, 0)
    assert (c != plan.epilogue.values(right, given)).any() == ("scale" not in do)
    assert np.array_equal(np.where(kept == 0, 0, traced(plan, c, right, given)), kept)
    assert (np.abs(traced(plan, c + np.float32(2.0**-140), right, given) - right) > 2.0**-142).all()


def test_a_vector_that_is_not_there_adds_what_changes_no_zero():
    assert rows.Argument("bias", "n", "what is added", optional=True).at("i", "j") == "(bias ? bias[j] : -0.0f)"
    assert rows.Argument("bias", "m", "what is added").at("i", "j") == "bias[i]"


def test_the_steepest_point_of_gelu_is_near_its_row_s_slope():
    x = np.linspace(-8, 8, 160001)[None]
    for name in ("gelu", "gelu_tanh"):
        steepest = np.abs(np.diff(epilogue_of((name,)).values(x, {}))).max() / 1e-4
        assert 1.125 < steepest < rows.STEEPEST_GELU


@pytest.mark.parametrize("do", [("bias",), ("bias", "relu"), ("gelu",), ("bias", "gelu_tanh", "scale"), ("bias_m", "scale")])
def test_a_right_sum_is_found_behind_each_epilogue_and_a_wrong_one_is_not_hidden(do):
    plan, rng = plan_with(*do), np.random.default_rng(1)
    right = rng.uniform(0.5, 4, (30, 20))
    given = drawn(plan, 30, 20) | quiet(plan, 30, 20)
    c = plan.epilogue.values(right, given).astype(np.float32)
    assert (np.abs(traced(plan, c, right, given) - right) <= 2.0**-24 * 8).all()
    off = plan.epilogue.values(right + 1e-3, given).astype(np.float32)
    assert (np.abs(traced(plan, off, right, given) - right) > 5e-4).all()
    # Below -3/4 GELU falls, and what is explained lies on the other side.
    if do == ("gelu",):
        falling = np.full((1, 1), -1.5)
        assert traced(plan, plan.epilogue.values(falling - 0.01, {}).astype(np.float32), falling, {})[0, 0] < -1.5


@pytest.mark.parametrize(("output", "own"), [("f32", 16 * rows.U), ("f16", 16 * rows.U + 2.0**-11 * (2 * 8 + 16))], ids=["f32", "f16"])
def test_a_sum_is_as_far_off_as_c_is_beyond_what_the_epilogue_and_the_rounding_of_c_may_err_by(output, own):
    """8 times 2: the scale's rounding, and that of a C of 16 bits."""
    plan, right, given = replace(plan_with("scale"), output=all_outputs()[output]), np.array([[8.0]]), {"scale": 2.0}
    for off, found in ((0.9 * own, 8), (-0.9 * own, 8), (own + 2e-3, 8 + 1e-3), (-own - 2e-3, 8 - 1e-3)):
        assert traced(plan, 16 + np.array([[off]]), right, given)[0, 0] == pytest.approx(found, abs=1e-7)


def test_special_values_behind_an_epilogue_are_those_that_it_makes():
    plan = plan_with("relu")
    right = np.array([[np.nan, np.inf, -np.inf, 1e39, 2.0, 2.0]])
    c = np.array([[np.nan, np.inf, 0.0, np.inf, np.nan, 2.0]], np.float32)
    found = traced(plan, c, right, {})
    assert np.array_equal(found, [[np.nan, np.inf, -np.inf, np.inf, np.nan, 2.0]], equal_nan=True)
    assert np.array_equal(traced(plan, np.array([[1.0, 5.0, -np.inf, 7.0, 2.0, 2.0]], np.float32), right, {})[0, :4], [0, 0, 0, 0])


def test_without_an_epilogue_c_is_what_was_summed():
    c = np.zeros((2, 2), np.float32)
    assert traced(plan_of(tile=TINY), c, np.ones((2, 2)), {}) is c


# ---- what it costs


def test_what_it_takes_in_a_kernel_and_as_one_of_its_own():
    known = {"M": 1000, "N": 2000, "f32_fma_per_clock": 128, "sms": 100, "clock_hz": 1e9, "launch_seconds": 5e-6, "dram_rate": 1e12}
    found = costs(epilogue_of(("bias", "bias_m", "relu")), known)
    assert found["end_bytes"] == 4 * (1000 + 2000)
    assert found["end_seconds"] == pytest.approx(6 * 2e6 / (128 * 100 * 1e9))
    assert found["apart_seconds"] == pytest.approx(5e-6 + (16e6 + 12000) / 1e12)
    of_columns, of_rows = (costs(epilogue_of((name,)), {**known, "batch": 3})["end_bytes"] for name in ("bias", "bias_m"))
    assert (of_columns, of_rows) == (3 * 4 * 2000, 3 * 4 * 1000)
    assert costs(Epilogue((rows.GELU,)), {**known, "batch": 3})["end_seconds"] == pytest.approx(3 * 32 * 2e6 / 12.8e12)


def test_explain_tells_what_it_does_and_takes(gemmgen, write_spec):
    told = gemmgen("explain", write_spec('[epilogue]\ndo = ["bias", "gelu_tanh"]\n' + SETTLED), "--full").out
    assert "a bias for each column, then GELU by tanh" in told and "Y1" in told and "as a kernel behind it" in told
    assert "Y1" not in gemmgen("explain", write_spec(SETTLED), "--full").out


def test_the_benchmark_tells_how_much_of_a_launch_is_saved():
    path = Path(__file__).parents[2] / "bench" / "epilogue.py"
    if not path.is_file():
        pytest.skip("no bench/ in this distribution")
    saved = runpy.run_path(str(path))["saved"]
    assert [saved({"plain": 10.0, "plain + finish": 14.0, "fused": fused}) for fused in (10.0, 11.0, 14.0, 16.0)] == [1, 0.75, 0, -0.5]


def test_an_epilogue_is_absent_where_all_of_its_steps_are():
    optional, other = replace(rows.RELU, absent="!on"), replace(rows.RELU, absent="count == 0")
    assert Epilogue((optional, other)).absent == "!on && count == 0"
    assert not Epilogue((optional, rows.RELU)).absent and not any(one.absent for one in rows.SHIPPED) and NONE.absent == ""
