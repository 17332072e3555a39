"""Dispatch tables of a race of libraries' own kernels, and libraries of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gemmgen.errors import SpecError
from gemmgen.library.dispatch import Estimate
from gemmgen.library.file import library_from
from gemmgen.library.made import choose, estimates
from gemmgen.library.raced import NEAR, Raced, table

SIZES = [(64, 64, 64, 1), (256, 256, 256, 1), (512, 128, 64, 1), (1024, 1024, 64, 1), (2048, 2048, 256, 1), (512, 512, 64, 16)]


@pytest.fixture(scope="module")
def chosen():
    """A small library's choice, and what its manifest tells of its kernels."""
    library = library_from({
        "name": "few", "gpus": ["h200"], "layouts": ["nn"], "kernels_at_most": 4, "sizes": [list(size) for size in SIZES], "batched": True,
        "use": [{"scheme": "run_scaled"}, {"split": {"scheme": "bf16x6_apart", "where": "lane"}}],
    })
    choice = choose(library)
    told = [
        {"kernel": f"kernel_{at}", "plan": one.plan.hash, "gpu": "h200", "layout": "nn", "spec": json.loads(json.dumps(one.candidate.spec)),
         "estimate": estimate.model_dump(mode="json")}
        for at, (one, estimate) in enumerate(zip(choice.kernels, estimates(choice)))
    ]
    return choice, told


def rows_of(told, seconds):
    """A race in which kernel `at` takes seconds(at, size)."""
    found = []
    for m, n, k, products in SIZES:
        known = {one["kernel"]: seconds(at, (m, n, k, products)) for at, one in enumerate(told)
                 if not (one["spec"]["problem"].get("kind") == "strided" and products == 1)}
        found.append({"layout": "nn", "m": m, "n": n, "k": k, "products": products, "measured": known, "predicted": {name: 2e-6 for name in known}})
    return found


def test_a_manifests_spec_has_that_kernel_alone(chosen):
    """Otherwise a table of measured times would be of other kernels."""
    from gemmgen.library.candidates import _ended
    from gemmgen.solve import solve
    from gemmgen.spec import loads

    choice, told = chosen
    assert any(one.candidate.strided for one in choice.kernels) and any(one.plan.design.name == "straight" for one in choice.kernels)
    assert [_ended(solve(loads(one["spec"]))).hash for one in told] == [one.plan.hash for one in choice.kernels]


def test_a_library_of_a_races_table_takes_what_was_fastest(chosen, tmp_path):
    choice, told = chosen
    single = [at for at, one in enumerate(told) if one["spec"]["problem"].get("kind") != "strided"]
    winner, loser = single[-1], single[0]
    assert winner != loser

    def seconds(at, size):
        return size[3] * (2e-6 + size[0] * size[1] * size[2] * 1e-14) * (1 if at == winner else 3 if at == loser else 1.05)

    found, costs = table(told and [{"kernels": told}], rows_of(told, seconds), "a race")
    assert told[loser]["plan"] not in {one.identity for one in found.kernels.values()}, f"it is nowhere within {NEAR} of the fastest"
    assert costs["nn"].max() < 1.06
    (tmp_path / "race.json").write_text(found.model_dump_json(exclude_none=True))
    made = choose(library_from({
        "name": "few", "gpus": ["h200"], "layouts": ["nn"], "kernels_at_most": 4, "sizes": [list(size) for size in SIZES[:5]],
        "use": [{"table": str(tmp_path / "race.json")}],
    }))
    fastest = max(made.kernels, key=lambda one: len(one.sizes))
    assert fastest.plan.hash == choice.kernels[winner].plan.hash and len(fastest.sizes) == 5


def test_kernels_of_batches_in_a_table_are_for_batches(chosen, tmp_path):
    _, told = chosen
    strided = next(at for at, one in enumerate(told) if one["spec"]["problem"].get("kind") == "strided")
    rows = rows_of(told, lambda at, size: size[3] * 4e-6 if at != strided else 9e-6)
    found, _ = table([{"kernels": told}], rows, "a race")
    (tmp_path / "race.json").write_text(found.model_dump_json(exclude_none=True))
    made = choose(library_from({
        "name": "few", "gpus": ["h200"], "layouts": ["nn"], "kernels_at_most": 4, "sizes": [list(size) for size in SIZES], "batched": True,
        "use": [{"table": str(tmp_path / "race.json")}],
    }))
    of = {size: one for one in made.kernels for size in one.sizes}
    assert of[SIZES[5]].candidate.strided and of[SIZES[5]].plan.batch.pointers and not of[SIZES[0]].candidate.strided


def test_other_layouts_take_the_times_of_the_first(chosen):
    _, told = chosen
    found, costs = table([{"kernels": told}], rows_of(told, lambda at, size: 1e-6 * size[3]), "a race", stand_for=("tn",))
    layouts = {one.layout: one for one in found.parts}
    assert layouts.keys() == {"nn", "tn"} and costs.keys() == {"nn"}
    of = {layout: [one for one in found.kernels.values() if one.layout == layout] for layout in layouts}
    assert [one.estimate for one in of["tn"]] == [one.estimate for one in of["nn"]]
    assert {one.spec["problem"].get("layout", "nn") for one in of["tn"]} == {"tn"}
    assert not {one.identity for one in of["tn"]} & {one.identity for one in of["nn"]}


def test_what_was_not_timed_counts_as_predicted_but_never_as_the_fastest():
    row = {"layout": "nn", "m": 64, "n": 64, "k": 64, "products": 1, "measured": {"a": 2e-6}, "predicted": {"a": 1e-6, "b": 1e-6}}
    other = {**row, "m": 128, "measured": {"a": 4e-6, "b": 1e-6}}
    found = Raced([row, other])
    assert found.names == ["a", "b"] and found.best.tolist() == [2e-6, 1e-6]
    assert found.seconds.tolist() == [[2e-6, 4e-6], [2e-6, 1e-6]], "b's prediction is right, and no less than what the fastest took"
    sixth = Raced([{**row, "predicted": {"a": 1e-6, "b": 3e-6}}, {**other, "measured": {"a": 4e-6, "b": 6e-6}}] + [row] * 4)
    assert sixth.seconds[1, 0] == pytest.approx(18e-6), "b takes six times what is predicted where it was timed, once"


def test_an_estimate_is_of_one_product_of_several():
    """A kernel that takes one product in a launch takes as many launches."""
    sizes = [(m, n, k) for m in (64, 256, 1024) for n in (64, 512) for k in (64, 256)]
    seconds = {size: 2e-6 + 1e-12 * size[0] * size[1] * (1 + size[2] / 64) for size in sizes}
    rows = [{"layout": "nn", "m": size[0], "n": size[1], "k": size[2], "products": count, "measured": {"a": count * seconds[size]},
             "predicted": {"a": count * seconds[size]}} for size in sizes for count in (4, 32)]
    (estimate,), over = Raced(rows).estimates([{"spec": {}, "estimate": {"tile": [64, 64], "slices": 1, "sms": 132}}])
    found = estimate.seconds(*np.array(sizes, float).T) / np.array([*seconds.values()])
    assert 0.5 < found.min() and found.max() < 2, found
    raced, flat = Raced(rows), Estimate(tile=(64, 64), slices=1, sms=132, launch=1e-6, wave=0, step=0, operand=0, output=0)
    for kind, launches in ((None, [4, 32]), ("strided", [1, 1])):
        told = raced.told([flat], [{"spec": {"problem": {"kind": kind}} if kind else {}}])
        assert told[0].tolist() == pytest.approx([1e-6 * count for count in launches] * len(sizes)), kind


@pytest.mark.parametrize("products", [1, 2])
def test_more_weight_goes_where_estimates_took_the_wrong_kernel(products):
    """One form cannot tell a's times at all sizes; what decides is its time where it wins. Two products are a batch already."""
    rng = np.random.default_rng(2)
    rows = []
    for m in (64, 96, 128, 256, 512, 1024, 2048):
        known = {"a": 1e-6 + 1e-12 * m * m * (1 + m / 512), "b": 3e-6 + 1e-12 * m * m * (1 + 0.2 * rng.random())}
        rows.append({"layout": "nn", "m": m, "n": m, "k": 64, "products": products, "measured": known, "predicted": known})
    kind = {1: "gemm", 2: "strided"}[products]
    told = [{"spec": {"problem": {"kind": kind}}, "estimate": {"tile": [64, 64], "slices": 1, "sms": 132}}] * 2
    found, over = Raced(rows).estimates(told)
    # By estimates of equal weight one product takes a kernel that needs 1.3 % more than the fastest.
    assert over.max() == pytest.approx(1) and all(isinstance(one, Estimate) for one in found)


def test_both_decisions_of_an_estimate_count():
    """Of a constant estimate of 5 us: what a library takes beside its fastest kernel, and what a preload library does beside the faster of it and SGEMM."""
    own, vendor, predicted = [4e-6, 8e-6, 4e-6, 8e-6, 8e-6], [6e-6, 6e-6, 6e-6, 6e-6, None], [7e-6, 7e-6, 4e-6, 4e-6, None]
    rows = [{"layout": "nn", "m": 64 * at, "n": 64, "k": 64, "products": 1, "measured": {"a": mine, "b": 4e-6}, "predicted": {"a": mine, "b": 4e-6}}
            | ({"sgemm": sgemm, "sgemm_predicted": told} if sgemm else {}) for at, (mine, sgemm, told) in enumerate(zip(own, vendor, predicted), 1)]
    flat = Estimate(tile=(64, 64), slices=1, sms=132, launch=5e-6, wave=0, step=0, operand=0, output=0)
    over, taken, passed = Raced(rows)._over([flat, flat.model_copy(update={"launch": 6e-6})], [{"spec": {}}] * 2)
    assert over.tolist() == pytest.approx([1, 2, 1, 2, 2]) and taken.tolist() == [0] * 5
    assert passed.tolist() == pytest.approx([1, 8 / 6, 6 / 4, 1, 1]), "right, taken at a loss, passed on at a loss, right, and no vendor"


def test_more_weight_goes_where_estimates_took_what_the_vendor_multiplies_faster():
    """A kernel takes longer of one product than its form has it beside the others', and SGEMM's time lies between."""
    rows = []
    for at in (1, 2, 4, 8, 16, 24, 32):
        seconds = 3e-6 + 1e-12 * (64 * at) ** 2
        rows.append({"layout": "nn", "m": 64 * at, "n": 64 * at, "k": 64, "products": 1, "measured": {"a": seconds}, "predicted": {"a": seconds},
                     "sgemm": 3 * seconds, "sgemm_predicted": 3 * seconds})
    rows.append({**rows[4], "m": 1000, "measured": {"a": 6e-6}, "sgemm": 4.8e-6, "sgemm_predicted": 4.8e-6})
    raced, kernels = Raced(rows), [{"spec": {}, "estimate": {"tile": [64, 64], "slices": 1, "sms": 132}}]
    found, _ = raced.estimates(kernels)
    alone, _ = Raced([{key: value for key, value in row.items() if not key.startswith("sgemm")} for row in rows]).estimates(kernels)
    assert raced._over(alone, kernels)[2][-1] == pytest.approx(1.25) and (raced._over(found, kernels)[2] == 1).all()


def test_a_kernel_that_no_manifest_tells_is_refused(chosen):
    _, told = chosen
    with pytest.raises(SpecError, match="whose spec is in no library's manifest"):
        table([{"kernels": [{**one, "spec": None} for one in told]}], rows_of(told, lambda at, size: 1e-6), "a race")
