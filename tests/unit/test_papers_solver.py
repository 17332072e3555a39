"""The papers' own optimisations as a choice of the tile, what a spec may ask of the kernel that they count, and the lists of bench/ablation.py."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from gemmgen.cli.explain import _beside as beside
from gemmgen.cli.explain import _latencies as given_latencies
from gemmgen.cli.explain import _modelled as modelled
from gemmgen.cli.explain import as_dict, text
from gemmgen.errors import GemmgenError, InfeasibleSpec, SpecError, UnknownName
from gemmgen.model import papers
from gemmgen.render import render
from gemmgen.solve import choices, explain, ranked, solve
from gemmgen.solve import papers as solver
from gemmgen.solve.papers import latencies, valued
from gemmgen.solve.request import requests
from gemmgen.catalog.gpu import GPUS
from gemmgen.spec import load, loads
from ways import plan_of

ROOT = Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location("ablation", ROOT / "bench" / "ablation.py")
ablation = importlib.util.module_from_spec(_SPEC)
sys.modules["ablation"] = ablation  # where pydantic looks its annotations up
_SPEC.loader.exec_module(ablation)


def asked(model: str, gpu: str, size: int = 4096, scheme: str = "", split=None, **more):
    solve_ = {"model": model} | more.pop("solve", {})
    return loads({
        "problem": {"m": size, "n": size, "k": size}, "split": {"scheme": scheme or model, "promote": 0} | (split or {}), "solve": solve_,
        "target": {"gpu": gpu}, **more,
    })


@cache
def explained(model: str, gpu: str, size: int = 4096):
    return explain(asked(model, gpu, size))


# ---- what they choose


def test_le_gemm_chooses_its_table_2():
    """On the MI210 as printed; on the A800 as printed comes first, and its two sums fill the register file."""
    mi210 = explained("legemm", "mi210")
    assert mi210.plan.block == (128, 128, 32) and mi210.plan.warp[:2] == (64, 64) and not mi210.passed
    a800 = explained("legemm", "a800")
    assert [one.tile.block for one in a800.passed] == [(128, 256, 32), (256, 128, 32)] and "register file" in a800.passed[0].why
    assert a800.plan.block[:2] == (128, 128) and a800.plan.stages == 2 and a800.plan.threads == 256
    spilling = solve(asked("legemm", "a800", build={"allow_spills": True}))
    assert (spilling.block, spilling.warp) == ((128, 256, 32), (64, 64, 32))


def test_choices_of_a_paper_end_where_its_tiles_end():
    """Though some of its tiles have no kernel; where none has, that is the refusal."""
    narrow = asked("legemm", "a800", split={"where": "prepass"}, tile={"group": 8, "split_k": 1}, pipeline={"loads": "async", "stages": 2})
    plans = list(choices(narrow))
    assert plans and plans[0].block[:2] == (128, 128) and explain(narrow).passed


def test_warps_of_a_block_hold_whole_fragments():
    """16 rows and 16 columns, since fragments of B come in pairs."""
    assert list(solver._warps((64, 128), 8, (16, 16))) == [(64, 16), (32, 32), (16, 64)]
    assert list(solver._warps((64, 64), 8, (16, 16))) == [(32, 16), (16, 32)]
    assert list(solver._warps((128, 128), 6, (16, 16))) == [] and list(solver._warps((32, 16), 1, (16, 16))) == [(32, 16)]


def test_le_gemm_takes_smaller_tiles_where_few_threads_are_at_work():
    """Eq. 12 of 128x256 at 1024 is 8,192 threads, of 64x64 65,536: an A800 is taken to want 55,296."""
    e = explain(asked("legemm", "a800", 1024))
    assert e.plan.block[:2] == (64, 64) and e.tile.values["T_TLP"] == 65536 and e.tile.objective == 48
    first = requests(asked("legemm", "a800", 1024, solve={"legemm": {"threshold": 0}}))[0].model.tiles[0]
    assert first.block == (128, 256, 32)
    few = requests(asked("legemm", "a800", 1024, solve={"legemm": {"threads": 128}}))[0].model.tiles[0]
    assert few.block[0] // few.warp[0] * few.block[1] // few.warp[1] == 4


def test_egemm_chooses_what_eq_8_gives():
    """On a T4: not Table 4's tile but one of ratio 170.7, in the kernel whose shared memory eq. 8 counts, the warp's k an instruction's."""
    e = explained("egemm", "t4")
    plan = e.plan
    assert (plan.block, plan.warp) == ((256, 128, 32), (64, 64, 8)) and e.tile.objective == pytest.approx(512 / 3)
    assert (plan.stages, plan.loads, plan.rows, plan.fragment_buffers) == (1, "spread", "padded", 1) and plan.shared_bytes == 55296
    assert e.ours is not None and e.ours.model["seconds"] < plan.model["seconds"]
    # eq. 7 of any plan counts an instruction's k, 8 of a T4's, however deep a warp's part is
    (bm, bn, bk), (wm, wn, wk), cycles = e.ours.block, e.ours.warp, e.request.model.given["T_LDS32"][0]
    assert wk > 8 and valued(e.request.model, e.ours)["T_mem2"] == pytest.approx(bm * bn * bk / (wm * wn * 8) * (wm + wn) / 4 * cycles)
    assert e.tile.values["T_mem1"] + e.tile.values["T_mem2"] <= e.tile.values["T_comp"]
    assert given_latencies(e) == {"T_HMMA": 8, "T_LDG128": 43.4176, "T_STS128": 8, "T_LDS32": 2}


def test_with_table_4_s_budget_egemm_chooses_table_4_s_tile():
    """With 144 KB of registers and fast shared memory eq. 8 admits no larger block."""
    e = explain(asked("egemm", "t4", solve={"egemm": {"register_bytes": 144 * 1024, "T_STS128": 4.0, "T_LDS32": 1.0}}))
    assert (e.plan.block, e.plan.warp) == ((128, 128, 32), (64, 32, 8)) and e.plan.shared_bytes == 36 * 1024
    assert e.request.model.given["T_LDS32"] == (1.0, "the spec") and e.request.model.given["T_LDG128"][1] == "EGEMM-TC's Table 3"


def test_latencies_are_those_of_the_row():
    """A T4's matrix unit takes 1,024 multiply-adds in 8 clocks, its shared memory 64 B, its L2 750 GB/s over 40 SMs at 1,590 MHz."""
    found = {name: value for name, (value, _) in latencies(GPUS.get("t4")).items()}
    assert found == {"T_HMMA": 8, "T_STS128": 8, "T_LDS32": 2, "T_LDG128": pytest.approx(512 / (750e9 / 40 / 1590e6))}
    assert latencies(GPUS.get("h200"))["T_LDG128"][1] == "h200's row"


def test_slow_loads_leave_no_tile():
    with pytest.raises(InfeasibleSpec, match="allow no tile") as error:
        solve(asked("egemm", "t4", solve={"egemm": {"T_LDG128": 400.0}}))
    assert "T_LDG128 = 400" in str(error.value) and "[solve.egemm]" in str(error.value)


def test_what_the_spec_fixes_of_the_tile_stays():
    plan = solve(asked("egemm", "t4", tile={"block": [128, 256, 16]}, pipeline={"stages": 2, "rows": "swizzled"}))
    assert plan.block == (128, 256, 16) and (plan.stages, plan.rows) == (2, "swizzled")
    with pytest.raises(InfeasibleSpec, match="allow no tile"):
        solve(asked("egemm", "t4", tile={"block": [192, 128, 32]}))


# ---- what they refuse


@pytest.mark.parametrize(("loaded", "told"), [
    (asked("egemm", "t4", scheme="ootomo"), "counts 2 words of two bytes, 4 products"),
    (asked("legemm", "a800", scheme="egemm"), "counts 2 words of two bytes, 3 products and 2 sums"),
    (asked("egemm", "a100", scheme="tf32x3"), "counts 2 words of two bytes"),
    (asked("legemm", "a800", scheme="fp32"), "is not about kernels of policy fma"),
    (asked("legemm", "h200", fragment={"policy": "wgmma"}), "is not about kernels of policy wgmma and design specialised"),
    (asked("egemm", "mi210"), "count instructions that mi210 does not have"),
    (asked("egemm", "rx7900xtx"), "count instructions that rx7900xtx does not have"),
], ids=["words", "sums", "bytes", "no matrix unit", "warpgroups", "waves of 64", "another instruction"])
def test_a_model_that_is_not_about_it_is_refused(loaded, told):
    with pytest.raises(InfeasibleSpec, match=told) as error:
        solve(loaded)
    assert "try" in str(error.value)


@pytest.mark.parametrize("section", [
    {"model": "egemm", "egemm": {"T_HMMA": 0.0}}, {"model": "egemm", "egemm": {"T_LDS32": 1e9}}, {"model": "egemm", "egemm": {"T_LDS32": float("inf")}},
    {"model": "egemm", "egemm": {"warps": 0}}, {"model": "legemm", "legemm": {"threads": 31}}, {"model": "legemm", "egemm": {"T_HMMA": 8.0}},
    {"egemm": {"T_HMMA": 8.0}}, {"model": "egemm", "maximize": "intensity"}, {"model": "ours"}, {"model": "legemm", "legemm": {"T_HMMA": 8.0}},
])
def test_values_out_of_range_or_of_another_model_are_refused(section):
    with pytest.raises(SpecError):
        loads({"split": {"scheme": "egemm"}, "solve": section, "target": {"gpu": "t4"}})


def test_a_study_is_not_narrowed_by_a_model():
    with pytest.raises(InfeasibleSpec, match="a study tries all tiles"):
        ranked(requests(asked("egemm", "t4"))[0])


# ---- what is told


def test_both_choices_are_told_beside_each_other():
    e = explained("legemm", "a800")
    told = "\n\n".join(beside(e))
    assert modelled(e) == {
        "model": "LE-GEMM's eqs. 12 to 17: eq. 15, FLOP a byte of global memory, where eq. 12 has 55296 threads at work, is 96",
        "given": "register_bytes = 262144 (a800's row), shared_bytes = 166912 (a800's row), Work_num = 256 (as BatchGEMM has them), T_threads = 32 (a800's row),"
                 " threshold = 55296 (a800's row)",
    }
    assert "LE-GEMM's eqs. 12 to 17 beside the predicted time" in told and "no kernel: the accumulators leave no room" in told
    assert "\n  legemm  mma     128x128x64" in told and "\n  ours    mma     128x128x32" in told
    for name, plan in (("legemm", e.plan), ("ours", e.ours)):  # milliseconds stand last
        line = next(line for line in told.splitlines() if line.startswith(f"  {name} "))
        assert float(line.split()[-1]) == round(1e3 * float(plan.model["seconds"]), 3)
    assert valued(e.request.model, e.ours)["T_ratio"] == 96 and "tile by LE-GEMM's eqs. 12 to 17" in render(e.plan).text


@pytest.mark.long
def test_an_explanation_has_both_choices():
    e = explained("legemm", "a800")
    told, data = text(e), as_dict(e)["model"]
    assert all(part in told for part in beside(e)) and "\nmodel      LE-GEMM's eqs. 12 to 17: eq. 15" in told
    assert data["taken"]["block"] == [128, 128, 64] and tuple(data["ours"]["block"]) == (128, 128, 32) and data["passed"][0]["block"] == [128, 256, 32]
    assert data["of_ours"] == valued(e.request.model, e.ours)


@pytest.mark.long
def test_latencies_that_a_model_was_given_are_told():
    told = text(explain(asked("egemm", "t4", tile={"group": 4, "split_k": 1})))
    assert "EGEMM eq. 5" in told and "the paper prints no latencies" not in told


def test_without_a_model_nothing_is_told_of_one():
    e = explain(plan_spec())
    assert e.tile is None and "beside the predicted time" not in text(e) and "model" not in as_dict(e) and modelled(e) == {} == given_latencies(e)


def plan_spec():
    return loads({"split": {"scheme": "egemm", "promote": 0}, "target": {"gpu": "t4"}, "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}})


# ---- the kernel that they count


def test_table_4_is_a_spec():
    plan = solve(load(ROOT / "specs" / "kernels" / "egemm_table4_t4.toml"))
    assert (plan.block, plan.warp, plan.shared_bytes, plan.threads) == ((128, 128, 32), (64, 32, 8), 36 * 1024, 256)
    assert plan.geometry.k_steps == 4 and plan.geometry.piece_steps == 1


@pytest.mark.parametrize("block_k", [16, 32, 64, 128])
def test_padded_rows_touch_each_bank_once(block_k):
    """Eight neighbouring rows of 16 bytes at any chunk, as ldmatrix reads them, lie in 32 different banks."""
    row_bytes, rows_a_line = 2 * block_k, max(1, 64 // block_k)
    for chunk in range(row_bytes // 16):
        for first in range(0, 32, 8):
            places = [row * row_bytes + row // rows_a_line * 16 + chunk * 16 for row in range(first, first + 8)]
            assert len({place // 4 % 32 + word for place in places for word in range(4)}) == 32 or len({place // 16 % 8 for place in places}) == 8
    plan = plan_of(tile={"block": [32, 32, block_k], "warp": [16, 16, block_k]}, rows="padded", loads="async", stages=2, fragment_buffers=1, promote=0)
    assert plan.shared_bytes == 2 * 2 * 2 * 32 * (row_bytes + 16 // rows_a_line)


def test_the_traffic_of_table_2():
    """A warp of 64x32 in a stage of 32: A's words 2 x 2 w_m w_k bytes, twice where each product fetches; C 4 w_m w_n there and back for every 8 of k."""
    def fetched(caching: str) -> float:
        plan = solve(loads({
            "split": {"scheme": "egemm", "promote": 0}, "fragment": {"policy": "mma", "shape": "m16n8k8"}, "target": {"gpu": "h200"},
            "tile": {"block": [128, 128, 32], "warp": [64, 32, 8], "group": 8},
            "pipeline": {"stages": 1, "loads": "waited", "fragment_buffers": 1, "rows": "padded", "fragment_caching": caching},
        }))
        return plan.model["fetch_bytes"] / plan.model["warps"]

    assert fetched("all") == 2 * 2 * (64 + 32) * 32
    assert fetched("sums") == 2 * fetched("all")
    assert fetched("none") == fetched("sums") + 2 * 4 * 64 * 32 * 32 / 8
    assert papers.EGEMM[0].value({"WM": 64, "WN": 32, "WK": 32, "FK": 8}) == 4 * 64 * 32 * 32 / 8


BASE = {
    "split": {"scheme": "egemm", "promote": 0}, "fragment": {"policy": "mma"}, "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]},
    "pipeline": {"stages": 2, "loads": "async", "fragment_buffers": 1}, "target": {"gpu": "a100"},
}


@pytest.mark.parametrize(("change", "told"), [
    ({"tile": {"warp": [32, 32, 8]}}, "C62"), ({"tile": {"warp": [32, 32, 48]}}, "C62"),
    ({"pipeline": {"stages": 1}}, "C63"),
    ({"tile": {"block": [64, 64, 64], "warp": [32, 32, 32]}, "pipeline": {"fragment_buffers": 2}}, "C64"),
    ({"tile": {"block": [64, 64, 64], "warp": [32, 32, 32]}, "pipeline": {"fragment_caching": "sums"}}, "C64"),
    ({"split": {"where": "register"}, "pipeline": {"rows": "padded"}}, "C65"),
    ({"fragment": {"policy": "wmma"}, "pipeline": {"rows": "padded"}}, "C65"),
    ({"pipeline": {"fragment_caching": "sums", "fragment_buffers": 2}}, "C66"),
    ({"pipeline": {"fragment_caching": "none"}, "split": {"promote": 32}}, "C67"),
    ({"pipeline": {"loads": "waited", "fragment_buffers": 2}}, "C68"),
])
def test_what_such_a_kernel_cannot_be_is_refused(change, told):
    data = {section: BASE.get(section, {}) | change.get(section, {}) for section in BASE}
    with pytest.raises(InfeasibleSpec) as error:
        solve(loads(data))
    request = requests(loads(data))[0]
    broken = next(one for one in request.design.constraints if one.number == told)
    plan = request.plan({})
    assert not broken.holds(plan.numbers) and error.value.problem == broken.refusal(plan, plan.numbers, "").problem
    assert error.value.remedy


@pytest.mark.parametrize("data", [
    {"split": {"scheme": "ootomo"}, "pipeline": {"stages": 1}, "fragment": {"policy": "wgmma"}, "target": {"gpu": "h100"}},
    {"split": {"scheme": "egemm"}, "pipeline": {"stages": 1}, "target": {"gpu": "mi210"}},
    {"split": {"scheme": "ootomo"}, "pipeline": {"rows": "padded"}, "fragment": {"policy": "wgmma"}, "target": {"gpu": "h100"}},
    {"split": {"scheme": "fp32"}, "pipeline": {"fragment_caching": "sums"}, "target": {"gpu": "a100"}},
])
def test_other_designs_have_no_such_choice(data):
    with pytest.raises(InfeasibleSpec):
        solve(loads(data))


def test_a_plan_that_says_nothing_of_it_is_the_one_it_was():
    plan = plan_of()
    assert "rows" not in plan.identity and "fragment_caching" not in plan.identity
    assert plan.hash == replace(plan, rows="swizzled", fragment_caching="all").hash != replace(plan, rows="padded").hash


# ---- the lists


@pytest.mark.long
@pytest.mark.parametrize("path", sorted((ROOT / "specs" / "ablations").glob("*.toml")), ids=lambda path: path.stem)
def test_every_step_of_a_list_has_a_plan(path):
    found = ablation.read(path)
    plans = ablation.solved(found, "h200", 4096)
    assert not [str(plan) for plan in plans.values() if isinstance(plan, GemmgenError)]
    assert all(step.name in ablation.plans_table(found, plans) for step in found.step)


@pytest.mark.parametrize("path", sorted((ROOT / "specs" / "ablations").glob("*.toml")), ids=lambda path: path.stem)
def test_every_step_of_a_list_is_a_spec(path):
    found = ablation.read(path)
    assert all(ablation.spec_of(found, step, "h200", 4096).spec.target.gpu == "h200" for step in found.step)


def test_a_list_that_is_none_is_refused(tmp_path):
    good = (ROOT / "specs" / "ablations" / "choice.toml").read_text()
    for bad, error in ((good.replace('faster = "time, egemm, mma"', 'faster = "nonesuch"'), UnknownName),
                       (good.replace('name = "time, egemm"', 'name = "egemm\'s model"'), SpecError), (good.replace("told =", "tell =", 1), SpecError)):
        path = tmp_path / "list.toml"
        path.write_text(bad)
        with pytest.raises(error):
            ablation.read(path)


def test_speeds_and_claims_are_told():
    found = ablation.Ablation(
        title="t", base={}, step=(ablation.Step(name="slow", told="x"), ablation.Step(name="fast", told="y"), ablation.Step(name="none", told="z")),
        claim=(ablation.Claim(told="c", faster="fast", slower="slow", reported=1.5), ablation.Claim(told="d", faster="none", slower="slow")),
    )
    kernel = {"block": "128x128x32", "registers": 100, "spilled": 0}
    document = {"sizes": [1000], "refused": {"none at 1000": "it spills"}, "kernels": {"1000": {"slow": kernel, "fast": kernel}},
                "seconds": {"1000": {ablation.BASELINE: 1e-4, "slow": 4e-5, "fast": 2e-5}}}
    lines = ablation.speeds_table(found, document).splitlines()
    assert lines[3:] == ["| slow | 128x128x32 | 100 | 0 | 50.0 |  |", "| fast | 128x128x32 | 100 | 0 | 100.0 | 2.00 |",
                         "| none |  |  |  | refused: it spills |  |"]
    assert ablation.claims_table(found, document).splitlines()[2:] == ["| c | fast / slow | 1.5 | 2.00 |", "| d | none / slow |  | not measured |"]
