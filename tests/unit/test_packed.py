"""Batches on packed words: who gets them, the host's list, what is refused, and how a batch is divided between two kernels."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gemmgen import abi, road
from gemmgen.catalog.gpu import GPUS
from gemmgen.errors import InfeasibleSpec, SpecError
from gemmgen.interface import WORKSPACE_ALIGNMENT
from gemmgen.model.batch import divided
from gemmgen.paths import SPECS
from gemmgen.render import render
from gemmgen.run import mixed
from gemmgen.run.batch import BatchResult, Product
from gemmgen.run.mixed import check_pair, division
from gemmgen.solve import explain, solve
from gemmgen.spec import loads
from gemmgen.workshop.fit.time_model import with_constants

KERNELS = SPECS / "kernels"
US = 1e-6


def asked(**sections):
    data = {"problem": {"kind": "grouped"}, "split": {"scheme": "ootomo"}, "fragment": {"policy": "wgmma"}, "target": {"gpu": "h200"}}
    return loads({name: data.get(name, {}) | sections.get(name, {}) for name in {**data, **sections}})


BLACKWELL = {"fragment": {"policy": "tcgen05"}, "target": {"gpu": "b200"}}


def test_who_asks_for_tensor_memory_gets_packed_words_and_who_leaves_it_open_does_not():
    assert solve(asked(**BLACKWELL)).design.name == "packed_tensor_memory"
    assert solve(asked(**BLACKWELL, problem={"kind": "pointers"})).launches.packs_products
    assert solve(asked(**BLACKWELL | {"fragment": {"policy": "auto"}})).design.name == "grouped"
    assert solve(asked(**BLACKWELL, problem={"kind": "strided"})).design.name == "tensor_memory"


def test_who_asks_for_warpgroups_gets_packed_words_and_who_leaves_it_open_does_not():
    assert solve(asked()).design.name == "packed"
    assert solve(asked(problem={"kind": "pointers"})).launches.packs_products
    assert solve(asked(fragment={"policy": "auto"})).design.name == "grouped"
    assert solve(asked(fragment={"policy": "auto"}, pipeline={"design": "packed"})).design.name == "packed"
    assert solve(asked(problem={"kind": "strided"})).design.name == "specialised"


@pytest.mark.parametrize(("gpu", "warp_m"), [({}, 64), (BLACKWELL, 128)], ids=["h200", "b200"])
def test_the_main_kernel_is_the_strided_ones_but_for_its_list(gpu, warp_m):
    """Whatever the schedules ask, both have the same pipeline and output: what they differ in is said in schedules."""
    tile = {"tile": {"block": [128, 128, 64], "warp": [warp_m, 128, 64], "cluster": 2, "split_k": 1}, "pipeline": {"stages": 3}, **gpu}
    grouped, strided = solve(asked(**tile)), solve(asked(problem={"kind": "strided"}, **tile))
    assert grouped.design.template == strided.design.template and {**grouped.numbers, "strides": 1} == {"strides": 1, **strided.numbers}
    assert grouped.hash != strided.hash and grouped.design.text.schedule != strided.design.text.schedule


@pytest.mark.parametrize(("sections", "where"), [
    ({"batch": {"walk": "workgroups"}}, "[batch] walk"), ({"batch": {"tiles": [[64, 64, 32, 128]]}}, "[batch] tiles"),
    ({"batch": {"threshold": 5}}, "[batch] threshold"), ({"batch": {"tlp": "workgroup"}}, "[batch] tlp"), ({"tile": {"split_k": 2}}, "[tile] split_k"),
    ({"split": {"scheme": "scaled"}}, "[split] scheme"), ({"split": {"scheme": "mixpert2_tile"}}, "[split] scheme"), ({"split": {"where": "mixed"}}, "[fragment] policy"),
    ({"pipeline": {"loads": "async"}}, "[fragment] policy"), ({"target": {"gpu": "a100"}}, "[fragment] policy"),
    (BLACKWELL | {"split": {"scheme": "run_scaled"}}, "[split] scheme"), (BLACKWELL | {"pipeline": {"consumers": "pingpong"}}, "[fragment] policy"),
    (BLACKWELL | {"batch": {"walk": "persistent"}}, "[batch] walk"), (BLACKWELL | {"epilogue": {"do": ["bias"]}}, "[epilogue] do"),
])
def test_what_it_does_not_have_is_refused(sections, where):
    with pytest.raises(InfeasibleSpec) as caught:
        solve(asked(**sections))
    assert where in str(caught.value) and ("[batch]" not in where or caught.value.problem == "is a choice of kernels with several tiles")


def test_export_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(SpecError, match="packed first"):
        road.export(KERNELS / "batch_packed_h200.toml", tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_an_explanation_tells_the_batch():
    explained = explain(asked())
    told = explained.plan.design.told_of(explained.plan)
    assert told["batch"].startswith("grouped: ") and "longest k first" in told["walk"] and "x" in told["tiles"]


# ---- the host's list


def test_places_follow_one_another_without_gaps_in_any_batch():
    """Sums over random batches: each product's blocks, turns and stages begin where those before it end, and the last ends at the extents."""
    plan, rng = solve(asked(tile={"block": [128, 128, 64], "warp": [64, 128, 64], "cluster": 2})), np.random.default_rng(1)
    for _ in range(20):
        sizes = rng.integers(0, 700, (rng.integers(1, 60), 3))
        listed = plan.design.listed(plan, sizes)
        places = dict.fromkeys(("block", "turn", "a_stage", "b_stage"), 0)
        last = None
        for row in listed.rows:
            m, n, k = map(int, sizes[row["entry"]])
            rows, columns, stages = -(-m // 128), -(-n // 128), -(-k // 64)
            assert m and n and {name: int(row[name]) for name in places} == places and (last is None or stages <= last)
            last = stages
            places["block"] += max(1, (rows + columns) * stages)
            places["turn"] += -(-rows // 2) * columns
            places["a_stage"] += rows * stages
            places["b_stage"] += columns * stages
        assert tuple(listed.extents.values()) == tuple(places.values())
        assert len(listed.rows) == np.count_nonzero((sizes[:, 0] > 0) & (sizes[:, 1] > 0))


def test_an_empty_batch_needs_no_launch():
    plan = solve(asked())
    table = abi.interface(plan)
    for sizes in (np.zeros((0, 3), np.int64), np.array([[0, 5, 5], [5, 0, 5]])):
        extents = plan.design.listed(plan, sizes).extents | table.constants
        assert [one.blocks(extents) for one in table.launches] == [0, 0] and table.laid_out(extents).bytes == WORKSPACE_ALIGNMENT


def test_a_batch_beyond_32_bits_is_refused():
    plan = solve(asked())
    with pytest.raises(SpecError, match="more"):
        plan.design.listed(plan, np.full((9, 3), 2**31 - 5000))
    bm, bn, _ = plan.block  # 2^24 turns each, of which 128 products have one more than 31 bits count
    full = np.array([[bm * plan.cluster << 12, bn << 12, 0]] * 128)
    assert plan.design.listed(plan, full[1:]).extents["turns"] == 127 << 24
    with pytest.raises(SpecError, match="more turns than") as caught:
        plan.design.listed(plan, full)
    assert caught.value.got == 2**31


def test_struct_and_text_agree():
    text = render(solve(asked())).text
    assert "sizeof(Placed) == 32" in text and "sizeof(Work) == 32" in text and abi.WORK_BYTES == 32


# ---- two kernels


def test_a_batch_is_divided_where_that_gains_what_another_class_takes():
    told = GPUS.get("h200").measured.batches
    each = told.pass_seconds.value, told.class_seconds.value
    assert each == (6e-6, 25e-6)
    second = np.array([10, 40.0]) * US
    assert divided(np.array([80, 20.0]) * US, second, *each).tolist() == [True, True]  # 100 in the first, 56 in the second, 61 divided
    assert divided(np.array([80, 1.0]) * US, second, *each).tolist() == [True, False]  # 81, 56, 42
    assert divided(np.array([15, 40.0]) * US, second, *each).tolist() == [False, False]  # 55, 56, 81
    assert divided(np.zeros(0), np.zeros(0), *each).tolist() == []


def test_large_products_go_to_packed_words_and_small_ones_do_not():
    small, large = road.plan(KERNELS / "batch_listed_h200.toml"), road.plan(KERNELS / "batch_packed_h200.toml")
    sizes = np.array([[1024, 1024, 1024]] * 20 + [[64, 64, 512]] * 2000 + [[0, 9, 9], [9, 9, 0]])
    assert division(small, large, sizes).tolist() == [True] * 20 + [False] * 2002
    # rows of C that do not begin at 16 bytes make packed words dearer
    one, other = large.design.each_seconds(large, np.array([[512, 512, 256], [512, 513, 256]]))
    assert other - one > 0.5 * 512 * 513 * 1.26 / (132 * 1.74e9)


def test_rows_that_do_not_begin_at_16_bytes_take_what_the_policys_constants_say():
    plan = solve(asked(**BLACKWELL))
    sizes = np.array([[512, 513, 256]])
    [before], [after] = (
        plan.design.each_seconds(replace(plan, gpu=with_constants(plan.gpu, {("tcgen05", "uneven_store_cycles"): cycles})), sizes) for cycles in (1, 11)
    )
    known = plan.model
    assert after - before == pytest.approx(10 * 512 * 513 / (known["sms"] * known["clock_hz"]))


def test_a_batch_of_a_b200_is_divided_as_one_of_an_h200():
    """Large products go to tensor memory, small ones to the grouped design."""
    small = solve(asked(**BLACKWELL | {"fragment": {"policy": "auto"}}))
    sizes = np.array([[1024, 1024, 1024]] * 40 + [[16, 16, 64]] * 2000)
    assert division(small, solve(asked(**BLACKWELL)), sizes).tolist() == [True] * 40 + [False] * 2000


@pytest.mark.parametrize(("seconds", "intact", "whole"), [
    ((0.25, 0.5), (True, True), 0.75), ((0.25, None), (True, False), None), ((None, 0.5), (False, True), None),
])
def test_a_shared_batch_has_both_kernels_counters_times_and_faults(monkeypatch, seconds, intact, whole):
    """And products in the order in which they were given; each kernel is asked for those that the division gives it."""
    products = [Product(np.full((1, 1), at, np.float32), np.ones((1, 1), np.float32)) for at in range(5)]
    second = np.array([False, True, True, False, True])
    asked: dict[tuple[str, str, str], list[float]] = {}
    checked = []

    def batch(device, plan, source, mine):
        which = len(asked)
        asked[device, plan, source] = [float(one.a[0, 0]) for one in mine]
        counts = ({"a_lossy": 1, "b_lossy": 20}, {"a_lossy": 300, "repaired": 4000})[which]
        return BatchResult(tuple(one.a for one in mine), counts, seconds[which], intact[which])

    monkeypatch.setattr(mixed, "check_pair", lambda *plans: checked.append((set(plans), len(asked))))
    monkeypatch.setattr(mixed, "division", lambda *given: second if given[:2] == ("first plan", "second plan") else ~second)
    monkeypatch.setattr(mixed, "batch", batch)
    found = mixed.mixed(("one", "other"), [SimpleNamespace(plan=f"{name} plan", source=f"{name} source") for name in ("first", "second")], products)
    assert [float(c[0, 0]) for c in found.products] == [0, 1, 2, 3, 4] and checked == [({"first plan", "second plan"}, 0)]
    assert asked == {("one", "first plan", "first source"): [0, 3], ("other", "second plan", "second source"): [1, 2, 4]}
    assert found.status == {"a_lossy": 301, "b_lossy": 20, "repaired": 4000} and (found.seconds, found.intact) == (whole, all(intact))


@pytest.mark.parametrize("other", [{"problem": {"kind": "pointers"}}, {"problem": {"layout": "nt"}}, {"split": {"special": "fast"}}])
def test_kernels_that_differ_in_more_than_speed_share_no_batch(other):
    with pytest.raises(SpecError, match="share"):
        check_pair(solve(asked()), solve(asked(**other)))
