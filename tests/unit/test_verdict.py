"""What a kernel is worth beside plain FP32: by hand, on GPUs whose FP16 products run at half rate, in libraries, and as every verb says it."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from gemmgen import road
from gemmgen.catalog.gpu import GPUS
from gemmgen.errors import InfeasibleSpec
from gemmgen.library import choice
from gemmgen.library.file import library_from
from gemmgen.library.tables import sgemm_estimate
from gemmgen.model import time
from gemmgen import verdict as verdicts
from gemmgen.verdict import FINER, LOSING, OWN, VENDORS_OWN, Verdict, accepts_fp32, plain_of, sgemm_seconds, summary, times, verdict
from gemmgen.model.accuracy import DISTRIBUTIONS, predicted
from gemmgen.solve.contract import EVERYWHERE, fp32_estimate
from gemmgen.spec import loads


def of(gpu: str, scheme: str = "scaled", size: int = 4096, **more):
    return verdict(road.plan({"problem": dict.fromkeys("mnk", size), "split": {"scheme": scheme}, "target": {"gpu": gpu}, **more}))


def made(seconds: float, fp32: float = 1.0, error: float = 0.5, scheme: str = "scaled", **more) -> Verdict:
    return Verdict("mine", 8, 4, 2, seconds, fp32, error=error, scheme=scheme, **more)


def test_sentences_by_hand():
    assert made(0.25).sentence == "on mine at 8 x 4 x 2: 4.0 x FP32 (predicted)"
    assert made(0.05, products=3, measured="a card").sentence == "on mine at 3 of 8 x 4 x 2: 20 x FP32 (measured on a card)"
    assert made(2.0).sentence == "use FP32: this kernel runs at 0.50 of its speed on mine at 8 x 4 x 2 (predicted)"
    assert made(2.0, error=FINER / 2).sentence == "on mine at 8 x 4 x 2: 0.50 x FP32 with 0.05 of its error (predicted)"
    assert made(1.0, scheme="fp32").sentence == "on mine at 8 x 4 x 2: plain FP32 itself (predicted)"
    assert made(2.0, scheme="fp32", fp32=1.0).sentence.startswith(f"use {OWN}: ")
    assert replace(made(2.0, scheme="fp32"), fp32=VENDORS_OWN).sentence.startswith("use the vendor's SGEMM: ")
    assert [times(ratio) for ratio in (0.5, 0.994, 0.995, 3.64, 9.94, 9.95, 20.4)] == ["0.50", "0.99", "1.0", "3.6", "9.9", "10", "20"]


def test_a_verdict_as_data():
    one = replace(made(0.3, products=2, measured="a card", error=1.23456), fp32="its own", scheme="a scheme")
    assert one.size == "2 of 8 x 4 x 2" and one.as_dict() == {
        "gpu": "mine", "m": 8, "n": 4, "k": 2, "products": 2, "seconds": 0.3, "fp32_seconds": 1.0, "ratio": 3.3333, "fp32": "its own",
        "error_over_fp32s": 1.2346, "loses": False, "how": "measured", "measured_on": "a card", "sentence": one.sentence,
    }
    other = made(2.0, error=inf).as_dict()
    assert [other[name] for name in ("error_over_fp32s", "loses", "how", "measured_on")] == [None, True, "predicted", None]


def test_what_loses():
    assert made(1 / (LOSING - 0.01)).loses and not made(1 / (LOSING + 0.01)).loses
    assert made(2.0, error=inf).loses and not made(2.0, error=FINER).loses
    even = made(1.0, fp32=LOSING)
    assert not even.loses and replace(even, error=FINER).sentence == even.sentence, "of times that are as good the error says nothing"


@pytest.mark.parametrize(("gpu", "ratio"), [("rtx4090", 0.70), ("rtx3090", 0.70), ("rtx5090", 0.70), ("a100", 3.2), ("h100", 4.17), ("mi300x", 2.5)])
def test_the_model_says_where_three_products_lose(gpu, ratio):
    found = of(gpu)
    assert found.ratio == pytest.approx(ratio, rel=0.03) and found.loses == (ratio < 1) and found.size == "4096 x 4096 x 4096"
    assert found.sentence.startswith("use FP32") == (ratio < 1)


def test_the_vendors_sgemm_counts_where_it_was_measured():
    """M24 by hand: 2.14 us and 15 ns for each of 256 k, work at 0.692 of 66.9 TFLOP/s, 4 MiB of C and 0.41 of A and B at 0.835 of 4.8 TB/s; 2 x 32^2 tiles are
    15.5 of each SM, which takes 16. A row times a matrix is one row of tiles, of whose work it takes 0.364."""
    h200 = GPUS.get("h200")
    start, work, memory = 2.14e-6 + 256 * 15e-9, 2 * 1024**3 / (0.692 * 66.9e12), 4 * 2**20 / (0.835 * 4.8e12)
    by_hand = start + work * 16 / (2048 / 132) + (1 + 0.82) * memory
    assert sgemm_seconds(h200, 1024, 1024, 1024) == pytest.approx(by_hand, rel=1e-3)
    assert sgemm_seconds(h200, 1024, 1024, 1024, 33) - start == pytest.approx(33 * (by_hand - start) * 2048 / 132 / 16, rel=3e-2)
    vector = sgemm_seconds(h200, 1, 1024, 1024)
    assert vector == pytest.approx(start + 0.364 * work / 16 / (64 / 132) / 2 + 0.41 * (1 + 2**-10) * memory + memory / 1024, rel=1e-3)
    assert sgemm_seconds(h200, 1024, 1, 1024) == vector < 0.7 * sgemm_seconds(h200, 2, 1024, 1024) + start
    assert sgemm_seconds(h200, 64, 64, 512) - sgemm_seconds(h200, 64, 64, 256) < sgemm_seconds(h200, 64, 64, 256) - sgemm_seconds(h200, 64, 64, 1)
    assert sgemm_seconds(GPUS.get("rtx4090"), 1024, 1024, 1024) is None, "what is taken over from Hopper is assumed"
    assert plain_of(h200, 512, 512, 512)[1] == VENDORS_OWN and plain_of(GPUS.get("rtx4090"), 512, 512, 512)[1] == OWN
    assert of("h200", "fp32", 512).sentence.startswith("use the vendor's SGEMM")


@pytest.mark.parametrize("gpu", ["h200", "h100", "rtx4090", "mi300x"])
def test_a_librarys_tables_have_the_same_sgemm(gpu):
    row = GPUS.get(gpu)
    known = {**time.sgemm_numbers(row), "batch": 1.0}
    for m, n, k, products in ((64, 64, 64, 1), (777, 1001, 513, 1), (512, 64, 511, 384), (4096, 4096, 4096, 1)):
        want = float(time.SGEMM_SECONDS.value({**known, "M": float(m), "N": float(n), "K": float(k), "batch": float(products)}))
        told = sgemm_estimate(row)
        assert float(told.seconds(m, n, k, products)) == pytest.approx(want - min(k, 256) * 15e-9, rel=1e-3)


def test_the_vendors_sgemm_is_that_of_the_gpus_row():
    """And Hopper's where a row has none: half of the share takes twice the time of a step."""
    h200 = GPUS.get("h200")
    sgemm, measured = h200.measured.sgemm, h200.measured
    slow = {name: getattr(sgemm, name).model_copy(update={"value": value}) for name, value in (("share", sgemm.share.value / 2), ("start_seconds", 9e-6))}
    own, none = (h200.model_copy(update={"measured": measured.model_copy(update={"sgemm": one})}) for one in (sgemm.model_copy(update=slow), None))
    usual, found = time.sgemm_numbers(h200), time.sgemm_numbers(own)
    assert (found["sgemm_start"], found["sgemm_step"]) == (9e-6, 2 * usual["sgemm_step"]) and time.sgemm_numbers(none) == usual
    assert {name for name in usual if usual[name] != found[name]} == {"sgemm_start", "sgemm_step"}
    assert [time.sgemm_measured(one) for one in (h200, own, none, GPUS.get("rtx4090"))] == [True, True, False, False]


def test_a_problem_without_plain_fp32_has_no_verdict(monkeypatch):
    tiles = road.plan({"problem": {"kind": "grouped"}, "split": {"scheme": "ootomo"}, "target": {"gpu": "h200"}})
    assert tiles.batch.tiles and verdict(tiles) is None and "get tiles of their own" in verdicts.untold(tiles)
    for kind in ({}, {"kind": "strided", "matrices": 4}):
        unrated = road.plan({"problem": {"type": "f64", **kind}, "split": {"scheme": "residues14"}, "target": {"gpu": "l4"}})
        assert verdict(unrated) is None and verdicts.untold(unrated) == "none: l4's row has no rate of FP64 to compare with"
    monkeypatch.setattr(verdicts, "_plain", Mock(side_effect=InfeasibleSpec("spec", "has no kernel")))
    one, other = (road.plan({"split": {"scheme": "scaled"}, "target": {"gpu": gpu}}) for gpu in ("h200", "rtx4090"))
    assert verdicts.plain_seconds(one) == (verdicts.vendor_seconds(one), VENDORS_OWN) and verdict(other) is None


@pytest.mark.parametrize(("size", "faster", "slower"), [((4, 4096, 512), "nt", "nn"), ((4096, 8, 1000), "nn", "tn")])
def test_plain_fp32_of_a_layout_is_that_layouts_kernel(size, faster, slower):
    """Of few rows or columns: their kernels read the other operand faster where its k lies together."""
    found = {}
    for layout in (faster, slower):
        plain = road.plan({"problem": {"layout": layout, **dict(zip("mnk", size))}, "split": {"scheme": "fp32"}, "target": {"gpu": "a100"}})
        found[layout] = plain_of(GPUS.get("a100"), *size, layout)
        assert found[layout] == (float(plain.model["seconds"]), OWN)
    assert found[faster] < found[slower]


def test_an_error_is_told_of_the_data_that_is_worst():
    plan = road.plan({"problem": dict.fromkeys("mnk", 4096), "split": {"scheme": "bf16x3"}, "target": {"gpu": "a100"}})
    each = {name: predicted(plan.scheme, plan.unit, 4096, plan.promote, DISTRIBUTIONS[name]).estimate / fp32_estimate(4096, DISTRIBUTIONS[name])
            for name in EVERYWHERE}
    assert verdict(plan).error == max(each.values()) > 2 * min(each.values()), each
    kept = road.plan({"problem": dict.fromkeys("mnk", 4096), "split": {"scheme": "bf16x6", "sums": "compensated"}, "target": {"gpu": "a100"}})
    assert verdict(kept).error < 0.7 * verdicts.error_over_fp32s(replace(kept, sums="plain")), "compensated sums err less"
    half, full = (road.plan({"problem": {"c": c}, "split": {"scheme": "scaled"}, "target": {"gpu": "a100"}}) for c in ("f16", "f32"))
    assert verdicts.error_over_fp32s(half) > 100 * verdicts.error_over_fp32s(full), "C is rounded to FP16"
    none, one = (verdicts.error_over_fp32s(replace(plan, hints=replace(plan.hints, k=k))) for k in (0, 1))
    assert none == one


def test_sizes_that_lose_are_told_once():
    lost = [replace(made(2.0), m=size) for size in (1, 2, 3, 4)]
    assert summary([*lost[:3], made(0.5)]).endswith("use FP32 at 1 x 4 x 2, 2 x 4 x 2, 3 x 4 x 2")
    assert summary([*lost, made(0.5)]).endswith("; use FP32 at 1 x 4 x 2, 2 x 4 x 2, 3 x 4 x 2 and 1 more")


@pytest.mark.parametrize("kind", ["strided", "gemm"])
def test_all_products_of_a_batch_are_held_against_as_many(kind):
    """On a GPU without the vendor's times: the FP32 kernel of the same kind for the same number of products."""
    problem = {"kind": kind, "m": 384, "n": 128, "k": 512} | ({"matrices": 96} if kind == "strided" else {})
    plan, plain = (road.plan({"problem": problem, "split": {"scheme": scheme}, "target": {"gpu": "a100"}}) for scheme in ("scaled", "fp32"))
    found = verdict(plan)
    assert (found.products, found.fp32, found.fp32_seconds) == (problem.get("matrices", 1), OWN, float(plain.model["seconds"]))
    assert found.seconds == float(plan.model["seconds"])


def test_the_yardstick_has_the_problem_of_the_kernel():
    problem = {"m": 16384, "n": 3072, "k": 768, "layout": "tn", "c": "f16"}
    plan = road.plan({"problem": problem, "epilogue": {"do": ["bias", "relu"]}, "target": {"gpu": "h200"}})
    own = verdicts.plain_plan(plan)
    assert (own.scheme.name, own.layout, own.output.name, own.epilogue.names, own.hints) == ("fp32", "tn", "f16", plan.epilogue.names, plan.hints)
    assert verdict(plan).fp32 == OWN, "the vendor's product has no epilogue"


def test_a_gpu_of_ones_own_is_the_yardsticks_too(tmp_path):
    slow = (GPUS.folder / "a100.toml").read_text().replace('name = "a100"', 'name = "slow"').replace("f32_tflops = 19.5", "f32_tflops = 9.75")
    (tmp_path / "slow.toml").write_text(slow.replace("f32_tflops = 9.75", "f32_tflops = 9.75\nf32_fma_per_clock = 32"))
    assert of(str(tmp_path / "slow.toml")).ratio > 1.5 * of("a100").ratio
    (tmp_path / "a100.toml").write_text((tmp_path / "slow.toml").read_text().replace('name = "slow"', 'name = "a100"'))
    assert of(str(tmp_path / "a100.toml")).ratio == of(str(tmp_path / "slow.toml")).ratio, "a row of one's own may have a shipped one's name"


@pytest.mark.parametrize(("kind", "share", "products"), [({"kind": "syrk", "layout": "nt"}, 2, 1), ({"kind": "strided", "matrices": 40}, 1, 40)])
def test_of_a_triangle_native_fp64_computes_half_and_of_a_batch_every_product(kind, share, products):
    problem = {**kind, "type": "f64", **dict.fromkeys("mnk", 1024)}
    plan = road.plan({"problem": problem, "split": {"scheme": "residues14"}, "target": {"gpu": "h200"}})
    assert verdicts.plain_seconds(plan) == (verdicts.native_seconds(plan.gpu, 1024, 1024, 1024, products) / share, verdicts.NATIVE)
    assert verdict(plan).products == products


def test_integers_are_weighed_where_an_error_as_fp32s_is_asked_for():
    """On GeForce, whose FP16 products with FP32 sums run at half rate."""
    even = road.plan({"accuracy": {"as": "fp32", "data": "uniform"}, "target": {"gpu": "rtx4090"}})
    assert even.scheme.family.exact and verdict(even).ratio > 1.1
    assert road.plan({"accuracy": {"as": "fp32"}, "target": {"gpu": "rtx4090"}}).scheme.name == "fp32", "no scheme that holds all data is faster"


def test_whether_fp32_may_stand_in():
    def asked(**sections):
        return loads({"target": {"gpu": "a100"}, **sections})

    assert accepts_fp32(asked(split={"scheme": "scaled"})) and accepts_fp32(asked(accuracy={"as": "fp32"}))
    assert not accepts_fp32(asked(accuracy={"as": "fp32-rounded"})) and not accepts_fp32(asked(split={"scheme": "residues8"}))


def test_a_summary_tells_the_mean_and_where_fp32_is_faster():
    mine = [made(0.25), made(1.0), replace(made(4.0), m=1), replace(made(4.0), m=2)]
    assert summary(mine) == "on mine: 0.71 x FP32 in the mean of 4 sizes (predicted); use FP32 at 1 x 4 x 2, 2 x 4 x 2"
    assert summary([replace(mine[0], measured="a card"), mine[0]]) == "on mine: 4.0 x FP32 in the mean of 2 sizes (measured on a card at 1, else predicted)"
    assert summary(mine[2:], "no") == "on mine: 0.25 x FP32 in the mean of 2 sizes (predicted); no at 1 x 4 x 2, 2 x 4 x 2"


def test_a_map_of_worth_has_the_fastest_kernel_that_is_not_plain_fp32(monkeypatch, tmp_path):
    """Of several kernels of a scheme the fastest counts; where nothing can be made, or plain FP32 alone, there is no cell."""
    (tmp_path / "mine.toml").write_text((GPUS.folder / "a100.toml").read_text().replace('name = "a100"', 'name = "mine"'))
    asked, steps = [], []

    def explain(loaded):
        spec = loaded.spec
        asked.append((spec.target.gpu, spec.problem.m, spec.problem.n, spec.problem.k, getattr(spec.accuracy, "as")))
        if spec.problem.m == 1024:
            raise InfeasibleSpec("spec", "has no kernel")
        others = {"scaled by mma": 3.0, "scaled by wmma": 5.0, "bf16x6 by mma": 4.0}
        return SimpleNamespace(weighed={"fp32 by simt": 1.0, **(others if spec.problem.m != 4096 else {})})

    monkeypatch.setattr(verdicts, "explain", explain)
    monkeypatch.setattr(verdicts, "plain_of", lambda gpu, m, n, k: (6.0, f"of {gpu.name} {m} {n} {k}"))
    own = str(tmp_path / "mine.toml")
    found = verdicts.worth([GPUS.get("h200"), GPUS.get(own)], progress=steps.append)
    assert asked == [(gpu, size, size, size, "fp32") for gpu in ("h200", own) for size in (256, 1024, 4096, 16384)]
    assert found == [Verdict(gpu, size, size, size, 3.0, 6.0, f"of {gpu} {size} {size} {size}", 1.0, "scaled")
                     for gpu in ("h200", "mine") for size in (256, 16384)]
    assert steps[:2] == ["h200, size 1 of 4", "h200, size 2 of 4"] and len(steps) == 8


# ---- libraries


def library(gpu: str, use, **more):
    return library_from({"name": "mine", "gpus": [gpu], "layouts": ["nn"], "kernels_at_most": 2, "sizes": [[2048] * 3, [4096] * 3], "use": use, **more})


def test_a_library_never_takes_what_loses():
    chosen = choice.pool(library("rtx4090", [{"scheme": "scaled"}])).choose()
    assert {one.plan.scheme.name for one in chosen.kernels} == {"fp32"} and not any(one.loses for one in chosen.verdicts)
    [note] = chosen.notes
    assert note.startswith("library: [[use]] 1 on rtx4090, nn: no kernel is taken: plain FP32 is predicted to be faster") and "0.69" in note


def test_a_library_takes_fp32_as_any_other_candidate():
    pool = choice.pool(library("a100", [{"scheme": "scaled"}], sizes=[[64] * 3, [4096] * 3]))
    chosen = {one.plan.scheme.name: one.sizes for one in pool.choose().kernels}
    assert chosen == {"fp32": ((64, 64, 64, 1),), "scaled": ((4096, 4096, 4096, 1),)}
    told = {one.m: one for one in pool.choose().verdicts}
    assert told[64].plain and told[64].ratio == pytest.approx(1) and told[4096].ratio > 3


def test_fp32_does_not_stand_in_where_less_error_is_asked_for():
    found = choice.pool(library("rtx4090", [{"scheme": "residues8"}]))
    assert {one.plan.scheme.name for one in found.choose().kernels} == {"residues8"} and not found.notes
    assert found.choose().verdicts[1].ratio < LOSING, "and the verdict says what it costs"


def test_fp32_stands_in_for_no_use_without_a_kernel():
    with pytest.raises(InfeasibleSpec) as caught:
        choice.pool(library("t4", [{"scheme": "bf16x3"}])).choose()
    assert "no [[use]] has a kernel" in caught.value.problem


# ---- verbs


@pytest.fixture
def losing(write_spec):
    return write_spec('[split]\nscheme = "half"\n[problem]\nm = 16\nn = 16\nk = 16\n[tile]\nblock = [32, 32, 16]\nwarp = [32, 16, 16]\n', "losing.toml")


SENTENCE = "use FP32: this kernel runs at "


def test_build_and_export_say_it(gemmgen, losing, tmp_path):
    built = gemmgen("build", losing, "-o", tmp_path / "built").out
    assert f"\nverdict    {SENTENCE}" in built
    assert json.loads(gemmgen("build", losing, "-o", tmp_path / "built", "--json").out)["verdict"]["loses"] is True
    assert f"\nverdict    {SENTENCE}" in gemmgen("export", losing, "-o", tmp_path / "one").out
    assert json.loads(gemmgen("export", losing, "-o", tmp_path / "one", "--json").out)["verdict"]["sentence"].startswith(SENTENCE)


def test_a_librarys_dry_run_says_it(gemmgen, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\ngpus = ["rtx4090"]\nlayouts = ["nn"]\nkernels_at_most = 1\nsizes = [[1024, 1024, 1024], [4096, 4096, 4096]]\n'
                    '[[use]]\nscheme = "scaled"\n')
    ran = gemmgen("library", path, "--dry-run")
    assert "\nverdict    on rtx4090: " in ran.out and "plain FP32 would be faster with a larger kernels_at_most at 1024 x 1024 x 1024" in ran.out
    assert "no kernel is taken: plain FP32" in ran.err
    value = json.loads(gemmgen("library", path, "--dry-run", "--json").out)
    assert [one["m"] for one in value["verdicts"]] == [1024, 4096]


@pytest.mark.parametrize(("kind", "share", "chain"), [("syrk", 0.5, 0.0), ("syr2k", 1.0, 0.0), ("trmm", 0.5, 0.0), ("symm", 1.0, 0.0), ("trsm", 0.5, 2.7e-7)])
def test_a_kind_is_compared_with_the_vendor_s_routine(kind, share, chain):
    """Of SGEMM's time that share, as a library's runtime has it."""
    layout, n = ("nt" if kind in ("syrk", "syr2k") else "nn"), 4096 if kind in ("syrk", "syr2k") else 1024
    problem = {"kind": kind, "layout": layout, "m": 4096, "n": n, "k": 4096}
    plan = road.plan({"problem": problem, "split": {"scheme": "scaled"}, "target": {"gpu": "h200"}})
    start = time.sgemm_numbers(plan.gpu)["sgemm_start"] + 256 * 15e-9
    whole = sgemm_seconds(plan.gpu, 4096, n, 4096)
    assert verdicts.vendor_seconds(plan) == pytest.approx(start + share * (whole - start) + chain * 4096)  # a system has 4096 unknowns
    assert verdict(plan).fp32_seconds <= verdicts.vendor_seconds(plan)
    many = road.plan({"problem": problem | {"matrices": 3}, "split": {"scheme": "scaled"}, "target": {"gpu": "h200"}})
    whole, together = sgemm_seconds(plan.gpu, 4096, n, 4096, 3), 2.2 if kind == "trsm" else 1
    assert verdicts.vendor_seconds(many) == pytest.approx(start + together * (share * (whole - start) + chain * 4096))


@pytest.mark.parametrize(("side", "m", "n", "matrices", "waits"), [
    ("right", 1, 4096, None, 0.2), ("right", 2, 4096, None, 0.35), ("right", 4, 4096, None, 0.35), ("right", 5, 4096, None, 1), ("right", 4, 4096, 2, 1),
    ("left", 4096, 1, None, 1), ("left", 4, 4096, None, 1)])
def test_the_vendor_has_few_rows_of_right_hand_sides_as_columns(side, m, n, matrices, waits):
    """So that its unknowns wait less; of one system alone."""
    size = m if side == "left" else n
    problem = {"kind": "trsm", "side": side, "layout": "nn", "m": m, "n": n, "k": size} | ({"matrices": matrices} if matrices else {})
    plan = road.plan({"problem": problem, "split": {"scheme": "scaled"}, "target": {"gpu": "h200"}})
    start, whole = time.sgemm_numbers(plan.gpu)["sgemm_start"] + min(size, 256) * 15e-9, sgemm_seconds(plan.gpu, m, n, size, matrices or 1)
    assert verdicts.vendor_seconds(plan) == pytest.approx(start + (2.2 if matrices else 1) * (0.5 * (whole - start) + waits * 2.7e-7 * size))


@pytest.mark.parametrize(("problem", "scheme", "reads", "computed", "each"), [
    ({"kind": "gemm"}, "scaled", 2.2, 1, 4), ({"kind": "syrk", "layout": "nt"}, "scaled", 2.2, 0.5, 4),
    ({"kind": "strided", "matrices": 3}, "scaled", 2.2, 3, 4),
    ({"type": "f64"}, "residues14", 1, 1, 8),
])
def test_a_c_that_is_read_takes_both_longer(problem, scheme, reads, computed, each):
    """M26 by hand: its bytes at 0.835 of 4.8 TB/s, and as many times that by the kernel."""
    plan = road.plan({"problem": problem | dict.fromkeys("mnk", 1024), "split": {"scheme": scheme}, "target": {"gpu": "h200"}})
    without, found, once = verdict(plan), verdict(plan, True), computed * each * 2**20 / (0.835 * 4.8e12)
    assert found.seconds - without.seconds == pytest.approx(reads * once)
    assert found.fp32_seconds - without.fp32_seconds == pytest.approx((2.2 if found.fp32 == OWN else 1) * once)
    assert verdicts.seconds_of(plan, True) == found.seconds and verdicts.seconds_of(plan) == without.seconds == float(plan.model["seconds"])


def test_products_behind_pointers_have_no_routine_of_the_vendor_to_be_compared_with():
    assert verdicts.vendor_seconds(road.plan({"problem": {"kind": "pointers"}, "split": {"scheme": "ootomo"}, "target": {"gpu": "h200"}})) is None
