"""B of FP16 or BF16 as it is stored: what rows, plans, predictions and programs make of it. What kernels compute is asked in tests/emulate."""

from __future__ import annotations

import numpy as np
import pytest

from gemmgen import abi
from gemmgen.catalog.input import INPUTS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.catalog.unit import UNITS
from gemmgen.emulate.core.product import product
from gemmgen.errors import InfeasibleSpec, SpecError
from gemmgen.model.accuracy import DISTRIBUTIONS, predicted
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.solve.lookup import schemes_for
from gemmgen.spec import loads
from gemmgen.split import split
from gemmgen.timing import Inputs
from gemmgen.verify.metrics import exact, relative_frobenius
from gemmgen.workshop.bench.measure import type_of_b

STORED = [row.name for row in SCHEMES.rows() if row.b]


def planned(b="f16", scheme="ootomo_b16", gpu="h200", kind="gemm", **sections):
    return solve(loads({"problem": {"b": b, "kind": kind}, "split": {"scheme": scheme}, "target": {"gpu": gpu}, **sections}))


@pytest.mark.parametrize("b", ["f16", "bf16"])
def test_elements_round_to_the_nearest_and_come_back(b):
    kind = INPUTS[b]
    every = np.arange(1 << 16, dtype=np.uint16)
    values = kind.values(every)
    finite = ~np.isnan(values)
    assert (kind.stored(values)[finite] == every[finite]).all() and np.isnan(kind.rounded(values)[~finite]).all()
    one, last = np.float32(1), np.float32(2.0 ** (1 - kind.bits))
    assert kind.rounded(one + last / 2) == one and kind.rounded(one + last * np.float32(1.5)) == one + 2 * last  # ties to even
    assert np.isinf(kind.rounded(np.float32(3.4e38)))
    assert np.isnan(kind.rounded(np.array([0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF], np.uint32).view(np.float32))).all()  # bits that a carry would change
    kind.require(values)
    with pytest.raises(SpecError, match="values that are no") as refused:
        kind.require(np.float32([[1, 1 + 2.0**-12]]))
    assert refused.value.remedy


@pytest.mark.parametrize("name", STORED)
def test_the_words_of_a_stored_b_leave_nothing(name):
    scheme = SCHEMES.get(name)
    kind = INPUTS[scheme.b]
    assert scheme.precision.remainder(1, "b") == 0 and scheme.precision.bits == scheme.precision.bits_of(len(scheme.words)) and not scheme.precision.dropped
    every = kind.values(np.arange(1 << 16, dtype=np.uint16))[None, :]
    words = split(every, scheme, operand="b")
    finite = np.isfinite(every)
    assert (words.planes[0][finite] == every[finite]).all() and not words.lossy and not words.overflow and words.nonfinite == (~finite).sum()
    subnormal = finite & (every != 0) & (np.abs(every) < 2.0**scheme.format.min_exponent)
    assert (split(every, scheme, flushes=True, operand="b").is_lossy == subnormal).all()


@pytest.mark.parametrize("data", ["uniform", "positive", "normal"])
@pytest.mark.parametrize("name", STORED)
def test_the_error_is_what_is_predicted(name, data):
    scheme, unit, k = SCHEMES.get(name), UNITS.get("hopper"), 1024
    rng = np.random.default_rng(1)
    a, b = (DISTRIBUTIONS[data].draw(rng, shape).astype(np.float32) for shape in ((24, k), (k, 24)))
    b = INPUTS[scheme.b].rounded(b)
    found = relative_frobenius(product(scheme, unit, a, b, promote=64), exact(a, b))
    prediction = predicted(scheme, unit, k, 64, DISTRIBUTIONS[data])
    assert prediction.estimate / 4 <= found <= 1.25 * prediction.estimate and found < prediction.worst


def test_the_type_is_told_and_part_of_the_name():
    plan, other = planned(), planned("bf16", "bf16x2_bb16")
    assert plan.identity["b"] == "f16" and other.identity["b"] == "bf16" and "b" not in planned("f32", "ootomo").identity
    text = render(plan).text
    assert "\n// words     2 and 1 x f16, " in text and "\n// words     2 and 1 x bf16, " in render(other).text
    assert "B given as FP16" in text and "const unsigned short* __restrict__ b" in text and "const float* __restrict__ a" in text
    [b] = {one.type for launch in abi.interface(plan).launches for one in launch.parameters if one.name == "b"}
    assert b == "const unsigned short*"


def test_a_stage_in_front_of_tensor_memory_has_one_word_of_b():
    """Worked out by hand: of a tile of 128 x 64 two words of A and one of B, each of 32 k and 2 B."""
    tile = {"block": [128, 64, 32], "warp": [128, 64, 32], "cluster": 1}
    plan = planned(gpu="b200", fragment={"policy": "tcgen05"}, tile=tile)
    assert (plan.design.name, plan.model["stage_bytes"]) == ("tensor_memory", 32 * 2 * (2 * 128 + 64))
    known = plan.design.constants_of(plan)
    assert [known[words] for words in ("words_a", "words_b", "words")] == [2, 1, 2]


def test_the_pass_over_b_moves_half_of_what_fp32_is():
    two, three = planned().model, planned("f32", "ootomo").model
    assert two["split_bytes"] < three["split_bytes"] and two["seconds"] < three["seconds"]


@pytest.mark.parametrize(("b", "name"), [("f16", "ootomo_b16"), ("bf16", "bf16x3_bb16")])
def test_a_spec_need_not_name_the_scheme(b, name):
    assert planned(b, "auto").scheme.name == name
    assert {row.b for row in schemes_for(b)} == {b} and {row.b for row in schemes_for("f32")} == {None}


def test_a_contract_weighs_the_schemes_of_its_b():
    plan = solve(loads({"problem": {"b": "bf16"}, "accuracy": {"relative_frobenius": 1e-5}, "fragment": {"policy": "wgmma"}, "target": {"gpu": "h200"}}))
    assert plan.scheme.name == "bf16x2_bb16"


@pytest.mark.parametrize(("asked", "complaint"), [
    ({"b": "f32"}, "takes a B of f16"), ({"b": "bf16"}, "takes a B of f16"), ({"scheme": "ootomo"}, "takes a B of f32"),
    ({"kind": "strided"}, "batches have a B of FP32 alone"),
    ({"kind": "symm", "gpu": "b200", "fragment": {"policy": "tcgen05"}}, "kind symm has a B of FP32 alone"),
])
def test_what_it_does_not_have_is_refused(asked, complaint):
    with pytest.raises(InfeasibleSpec, match=complaint) as refused:
        planned(**asked)
    assert refused.value.remedy


@pytest.mark.parametrize("where", ["shared", "register"])
def test_kernels_that_split_themselves_refuse_it(where):
    with pytest.raises(InfeasibleSpec, match="read FP32") as refused:
        solve(loads({"problem": {"b": "f16"}, "split": {"scheme": "ootomo_b16", "where": where}, "target": {"gpu": "a100"}}))
    assert refused.value.remedy


def test_a_race_has_one_type_of_b_beside_fp32():
    stored, other, plain = planned(), planned("bf16", "bf16x2_bb16"), planned("f32", "ootomo")
    assert type_of_b([plain, plain]).is_usual and type_of_b([plain, stored, stored]) == INPUTS["f16"]
    with pytest.raises(SpecError, match="different types in one race") as refused:
        type_of_b([stored, plain, other])
    assert refused.value.remedy
    inputs = object.__new__(Inputs)  # needs no GPU
    inputs.type_of_b, inputs.b = INPUTS["f16"], ["values"]
    inputs.__dict__["stored_b"] = ["bits"]
    assert inputs.b_for(INPUTS["f32"]) == ["values"] and inputs.b_for(INPUTS["f16"]) == ["bits"]
    with pytest.raises(SpecError, match="not the type of B in this race"):
        inputs.b_for(INPUTS["bf16"])
