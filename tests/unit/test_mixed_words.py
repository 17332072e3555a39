"""FP16 words with integer words beside them: plans, texts and refusals. What kernels compute is asked with the other specs'."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest

from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES, Scheme
from gemmgen.catalog.unit import UNITS
from gemmgen.designs import design_called
from gemmgen.emulate.core.product import product
from gemmgen.errors import InfeasibleSpec
from gemmgen.model.accuracy import DISTRIBUTIONS, predicted
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.verify.metrics import exact, relative_frobenius



def planned(scheme="f16_s8", gpu="h200", policy="wgmma", block=(128, 128, 64), warp=(64, 128, 64), promote=64, where="prepass", k=4096):
    return solve(loads({
        "problem": {"k": k}, "split": {"scheme": scheme, "promote": promote, "where": where}, "fragment": {"policy": policy},
        "tile": {"block": list(block), "warp": list(warp)}, "target": {"gpu": gpu},
    }))


def test_each_type_has_its_instruction_its_rows_and_its_place():
    plan = planned()
    assert [(rows.type, rows.fragment.shape, rows.bytes, rows.step_chunks, rows.suffix) for rows in plan.staging.rows_of.values()] == [
        ("f16", (64, 128, 16), 128, 2, ""), ("s8", (64, 128, 32), 64, 2, "_s8"),
    ]
    a, _ = plan.operands
    assert [plan.packing.word_place(a, i) for i in range(4)] == [0, 128 * 128, 128 * (128 + 64), 128 * 256]
    assert plan.packing.packed_stage_bytes(a) == 128 * 256
    text = render(plan).text
    assert "m64n128k16.f32.f16.f16" in text and "m64n128k32.s32.s8.s8" in text and "(float)acc_correction" in text


def test_integers_stand_beside_words_of_16_bits_alone():
    """A lane's registers hold two of these and four integers each; of TF32 they would hold one."""
    row = (SCHEMES.folder / "f16_s8.toml").read_text()
    mixed, wide = (Scheme.model_validate(tomllib.loads(row.replace('word = "f16"', f'word = "{word}"'))) for word in ("f16", "tf32"))
    assert [design_called("specialised").mixes(scheme) for scheme in (mixed, wide, SCHEMES.get("ootomo"))] == [True, False, False]


def test_the_model_weighs_each_product_by_its_rate():
    three, two = map(planned, ("ootomo", "f16_s8"))
    for symbol in ("tensor_cycles", "unit_seconds"):
        assert three.model[symbol] / two.model[symbol] == pytest.approx(1.5)
    assert three.model["stage_bytes"] == two.model["stage_bytes"]  # two words of 2 bytes; one of 2 and two of 1
    assert two.model["fetch_bytes"] / three.model["fetch_bytes"] == pytest.approx(4 / 6)


@pytest.mark.parametrize(("more", "complaint"), [
    ({"gpu": "a100", "policy": "mma"}, "have no words of several types: f16, s8"),
    ({"block": (128, 128, 16), "warp": (64, 128, 16)}, "no swizzle for rows of this length"),
    ({"block": (128, 72, 64), "warp": (64, 72, 64)}, "do not all cover warps of this width"),
    ({"promote": 16}, "promotion falls between two instructions"),
    ({"where": "mixed"}, "A cannot be split on its way to the registers"),
    ({"k": 70000}, "INT32 sums of f16_s8 could overflow"),
])
def test_what_it_does_not_have_is_refused(more, complaint):
    with pytest.raises(InfeasibleSpec, match=complaint) as caught:
        planned(**more)
    assert caught.value.remedy


@pytest.mark.parametrize(("data", "error"), [("uniform", 1.7e-6), ("normal", 7e-6), ("positive", 2.2e-7)])
def test_its_error_is_what_is_predicted(data, error):
    scheme, unit, k = SCHEMES.get("f16_s8"), UNITS.get("hopper"), 1024
    rng = np.random.default_rng(1)
    a, b = (DISTRIBUTIONS[data].draw(rng, shape).astype(np.float32) for shape in ((24, k), (k, 24)))
    found = relative_frobenius(product(scheme, unit, a, b, promote=64), exact(a, b))
    estimate = predicted(scheme, unit, k, 64, DISTRIBUTIONS[data]).estimate
    assert estimate == pytest.approx(error, rel=0.1)
    assert estimate / 4 <= found <= 1.1 * estimate


@pytest.mark.parametrize(("k", "data", "taken"), [(16384, "uniform", True), (8192, "uniform", False), (16384, None, False)])
def test_who_asks_for_fp32s_error_gets_it_where_it_has_that(k, data, taken):
    """Sequential FP32 errs by 1.6e-6 at 8192 and 2.3e-6 at 16384 on U[-1, 1]; this by 1.7e-6, but on magnitudes from 2^-20 to 2^20 by 3.4e-6."""
    asked = {"as": "fp32"} | ({"data": data} if data else {})
    plan = solve(loads({
        "problem": {"m": k, "n": k, "k": k}, "accuracy": asked, "fragment": {"policy": "wgmma"}, "target": {"gpu": "h200"},
    }))
    assert (plan.scheme.name == "f16_s8") is taken


def test_the_gpus_that_have_kernels_are_told():
    from gemmgen.cli.show import scheme_costs, scheme_gpus

    assert {gpu.name for gpu in scheme_gpus(SCHEMES.get("f16_s8"))} == {"gh200", "h100", "h20", "h200"}
    assert {gpu.name for gpu in scheme_gpus(SCHEMES.get("ootomo"))} == set(GPUS.names())
    assert scheme_costs(SCHEMES.get("f16_s8"))["h200"] == 2
