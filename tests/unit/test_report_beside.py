"""Two stores side by side, the model's outliers and the roofs: what the report computes of all rows, by hand; and `study report`'s --against."""

from __future__ import annotations

import json
from datetime import timedelta

import numpy as np
import pytest
from explored import AT, GPU
from test_report import HOSTILE, Page, hostile_rows, small_plotly

from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.cli import main
from gemmgen.paths import SPECS
from gemmgen.workshop import explore as exploring
from gemmgen.workshop.explore import report as reporting
from gemmgen.workshop.explore.report import Against, judged, report
from gemmgen.workshop.explore.report.beside import ANY, beside, change, told_of
from gemmgen.workshop.explore.report.judged import intensity_of, model_of, roof, roofs
from gemmgen.workshop.explore.store import Writer
from gemmgen.workshop.explore.trial_row import Row

assert small_plotly


def row(seconds: float, m: int = 64, *, kernel: str = "k", gpu: str = GPU, verdict: str = "timed", **more) -> Row:
    known = {"scheme": "ootomo", "decided": json.dumps({"of": kernel}), "predicted_seconds": seconds, "seconds": seconds if verdict == "timed" else None}
    return Row("s", f"{kernel} {m}", more.pop("kind", "kernel"), verdict, kernel, gpu, m, 64, 64, more.pop("layout", "nn"), **{"at": AT, **known, **more})


def ratios(found: list, scheme: str | None = None) -> list[float]:
    return [round(one[3], 3) for one in found if scheme in (None, one[0])]


# ---- side by side


def test_the_fastest_of_each_side_are_compared_and_a_ratio_above_1_is_the_others():
    own = [row(4.0), row(2.0, kernel="q"), row(9.0, 128), row(1.0, kernel="cublas", kind="rival"), row(5.0, 512)]
    other = [row(1.0), row(3.0, kernel="q"), row(18.0, 128), row(1.0, 256)]
    found = beside(own, other)
    assert ratios(found["sizes"], ANY) == [2.0, 0.5] and [one[1].kernel + one[2].kernel for one in found["sizes"]] == ["qk", "kk"]
    assert ratios(found["kernels"]) == [4.0, 0.5, 0.667], "the largest change comes first"
    assert found["told"][0] == ("the fastest at each size: the other is 1 times as fast in the geometric mean of 2 pairs (measured); "
                                "1 faster, 1 slower, 0 equal; sizes of one side alone: 1 of the first, 1 of the other")
    assert beside(own, [])["told"] == ["the fastest at each size: none that both have", "equal kernels at equal sizes: none that both have"]


def test_a_gpu_that_both_have_is_compared_with_itself_and_other_gpus_with_each_other():
    own, other = [row(2.0), row(8.0, gpu="a100")], [row(1.0), row(1.0, gpu="h100")]
    assert sorted(ratios(beside(own, other)["sizes"], ANY)) == [2.0, 8.0]
    assert ratios(beside([row(8.0, gpu="a100")], [row(2.0)])["sizes"], ANY) == [4.0]
    assert beside([row(8.0, layout="nt")], [row(2.0)])["sizes"] == []


def test_measured_times_stand_beside_measured_ones_alone():
    """A size that one side measured and the other predicted has no pair; predicted ones of both pair, but not where both were measured."""
    assert beside([row(2.0)], [row(1.0, verdict="compiled")])["sizes"] == []
    found = beside([row(2.0, verdict="compiled")], [row(1.0, verdict="modelled")])
    assert ratios(found["sizes"], ANY) == [2.0] and "(predicted)" in found["told"][0]
    both = [row(8.0), row(1.0, kernel="q", verdict="compiled")], [row(4.0), row(1.0, kernel="q", verdict="compiled")]
    assert ratios(beside(*both)["sizes"], ANY) == [2.0] and "1 measured, the others predicted" in beside(*both)["told"][1]


@pytest.mark.parametrize(("ratio", "spread", "is_change"), [(1.01, None, 0), (1.03, None, 1), (0.97, None, -1), (1.05, 0.1, 0), (1.2, 0.1, 1)])
def test_times_within_their_spread_are_equal(ratio, spread, is_change):
    for pair in ((row(ratio, spread=spread), row(1.0)), (row(ratio), row(1.0, spread=spread))):
        [found] = [one for one in beside([pair[0]], [pair[1]])["sizes"] if one[0] == ANY]
        assert change(found) == is_change


@pytest.mark.parametrize(("alone", "told"), [((0, 0), ""), ((0, 2), "0 of the first, 2 of the other"), ((1, 0), "1 of the first, 0 of the other")])
def test_sizes_of_one_side_alone_are_told_whichever_side_it_is(alone, told):
    assert told_of("sizes", [(ANY, row(2.0), row(1.0), 2.0)], alone).partition("; sizes of one side alone: ")[2] == told


def test_equal_kernels_have_equal_decisions_whatever_their_names():
    """Versions and GPUs name and hash the same decisions otherwise; without decisions the kernel's own name counts."""
    same = row(2.0, identity="1", kernel="a", decided='{"block":1}'), row(1.0, identity="2", kernel="b", decided='{"block":1}')
    assert ratios(beside([same[0]], [same[1]])["kernels"]) == [2.0]
    for one, other in ((row(2.0, kernel="a"), row(1.0, kernel="b")), (same[0], row(1.0, decided='{"block":1}', scheme="half")),
                       (same[0], row(1.0, decided='{"block":1}', design="straight")), (row(2.0, kernel="a", decided="{}"), row(1.0, kernel="b", decided="{}"))):
        assert beside([one], [other])["kernels"] == [] and beside([one], [other])["sizes"]


def test_schemes_have_pairs_of_their_own_where_there_are_several():
    own, other = [row(2.0), row(6.0, kernel="h", scheme="half")], [row(1.0), row(2.0, kernel="h", scheme="half")]
    found = beside(own, other)["sizes"]
    assert [(one[0], round(one[3], 3)) for one in found] == [(ANY, 2.0), ("half", 3.0), ("ootomo", 2.0)]
    assert [one[0] for one in beside(own[:1], other[:1])["sizes"]] == [ANY]


def test_kernels_that_ended_otherwise_are_counted_by_their_newest_rows():
    later = {"at": AT + timedelta(1)}
    own = [row(1.0), row(1.0, 128), row(1.0, 256, verdict="wrong"), row(1.0, 256, **later)]
    other = [row(1.0, verdict="wrong"), row(1.0, 128, verdict="wrong", **later), row(1.0, 128), row(1.0, 256), row(1.0, 512, verdict="hung")]
    assert beside(own, other)["verdicts"] == [["timed", "wrong", 2]]


def test_the_page_has_both_names_and_no_markup_of_the_others():
    rows = [row(1.0, gpu="one"), row(2.0, gpu="one", kernel="q")]
    page = Page(report(rows, title="now", against=Against(rows, "then", "today"))).data["beside"]
    assert page["names"] == ["today", "then"] and len(page["sizes"]) == 1 and page["sizes"][0][-2:] == [1.0, 0]
    assert Page(report(rows)).data["beside"] is None
    empty, hostile = Page(report([])), Page(report(hostile_rows(), against=Against(hostile_rows(), HOSTILE[0])))
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in empty.tags] and "<" not in hostile.scripts[0]
    assert hostile.data["beside"]["sizes"] and all("\x00" not in str(one) for one in hostile.data["beside"]["sizes"])


def test_the_command_compares_two_stores_or_two_conditions(tmp_path, capsys):
    for name, scale in (("before", 2.0), ("after", 1.0)):
        with Writer(tmp_path / name) as writer:
            for gpu in ("one", "two"):
                writer.add(row(scale * (3.0 if gpu == "one" else 1.0), gpu=gpu))
    page = tmp_path / "r.html"

    def told(*words: str) -> dict:
        assert main(["study", "report", *words, "-o", str(page), "--json"]) == 0
        return Page(page.read_text()).data["beside"]

    before, after = str(tmp_path / "before"), str(tmp_path / "after")
    assert told(before, "--against", after)["told"][0].startswith("the fastest at each size: the other is 2 times as fast in the geometric mean of 2 pairs")
    assert json.loads(capsys.readouterr().out)["against_rows"] == 2
    found = told(before, "--where", "gpu = 'one'", "--against", before, "--against-where", "gpu = 'two'")
    assert [one[-2] for one in found["sizes"]] == [3.0] and found["names"] == ["before, gpu = 'one'", "before, gpu = 'two'"]
    capsys.readouterr()
    assert [one[-2] for one in told(before, "--where", "gpu = 'one'", "--against", after)["sizes"]] == [2.0]
    assert json.loads(capsys.readouterr().out)["against_rows"] == 1, "the condition is of both"
    for words, what in ((["--against-where", "true"], "belongs to --against"), (["--against", str(tmp_path / "none")], "is no store of trials"),
                        (["--against", after, "--against-where", "1; drop table trials"], "cannot be answered")):
        capsys.readouterr()
        assert main(["study", "report", before, *words, "-o", str(page)]) == 2 and what in capsys.readouterr().err


def test_a_study_is_compared_from_python(tmp_path):
    """Of both stores, the same condition holds."""
    studies = []
    for name, scale in (("before", 2.0), ("after", 1.0)):
        studies.append(exploring.study({"study": {"name": name, "gpus": ["a100"], "sizes": [64]}}, tmp_path / name))
        with Writer(tmp_path / name) as writer:
            for m in (64, 128):
                writer.add(row(scale, m, gpu="one"))
    page = Page(studies[0].report(tmp_path / "r.html", "m = 64", studies[1]).read_text()).data
    assert [one[-2] for one in page["beside"]["sizes"]] == [2.0] and [name.split(",")[0] for name in page["beside"]["names"]] == ["before", "after"]
    assert "alone" not in page["beside"]["told"][0] and Page(studies[0].report(tmp_path / "r.html").read_text()).data["beside"] is None


# ---- the model's outliers


def test_outliers_lie_far_from_their_designs_median_and_come_furthest_first():
    draw = np.random.default_rng(3)
    usual = [row(float(ratio), at + 1, kernel=f"{design}{at}", design=design, predicted_seconds=1.0)
             for design, middle in (("wide", 1.0), ("slow", 2.0)) for at, ratio in enumerate(middle * np.exp(draw.normal(0, 0.02, 30)))]
    odd = [row(1.5, 400, kernel="odd", design="wide", predicted_seconds=1.0), row(0.9, 400, kernel="fast", design="slow", predicted_seconds=1.0)]
    none = [row(9.0, verdict="compiled"), row(9.0, kind="rival"), row(9.0, predicted_seconds=None), row(float("nan"), predicted_seconds=1.0)]
    found = model_of([*usual, *odd, *none])
    assert [one[0].kernel for one in found["outliers"]] == ["fast", "odd"] and found["more"] == 0
    assert found["outliers"][1][1] == pytest.approx(1.5) and found["outliers"][0][2] == pytest.approx(2 / 0.9, rel=0.02)
    assert [(name, count) for name, count, *_ in found["designs"]] == [("slow", 31), ("wide", 31), ("all", 62)]
    flat = [row(1.0 if at else 1.09, at + 1, kernel=str(at), predicted_seconds=1.0) for at in range(9)]
    assert model_of(flat)["outliers"] == [], "within 10 % nothing is far"
    assert model_of([])["designs"] == []


def test_the_models_figures_by_hand():
    """Errors are the mean of |log|, the bias of the log: 1.2 and 1 / 1.2 have the first alone."""
    [one] = model_of([row(1.2, 1, predicted_seconds=1.0, design="d"), row(1.0, 2, predicted_seconds=1.2, design="d")])["designs"]
    assert one == ["d", 2, pytest.approx(1.2), pytest.approx(1.0), 0.0]
    assert model_of([row(1.05, 1, predicted_seconds=1.0), row(1.2, 2, predicted_seconds=1.0)])["designs"][0][4] == 0.5


def test_a_page_names_outliers_of_all_rows_and_says_how_many_it_leaves_out(monkeypatch):
    monkeypatch.setattr(judged, "MOST_OUTLIERS", 2)
    rows = [row(1.0, at + 1, kernel=f"k{at}", predicted_seconds=1.0, design="d") for at in range(20)]
    rows += [row(3.0 + at, 900, kernel=f"odd{at}", predicted_seconds=1.0, design="d") for at in range(3)]
    told = reporting._model(rows)
    assert [one[0] for one in told["outliers"]] == ["odd2", "odd1"] and told["more"] == 1 and told["outliers"][0][3:] == [1e6, 5e6, 5.0, 5.0]


# ---- the roofline


def test_roofs_by_hand():
    """An A100: 108 SMs at 1410 MHz, 1024 FP16 multiply-adds each, 3 products; 19.5 TFLOP/s of FP32."""
    a100 = GPUS.get("a100")
    assert roof(a100, SCHEMES.get("ootomo")) == pytest.approx(2e-6 * 108 * 1410 * 1024 / 3) and roof(a100, SCHEMES.get("fp32")) == 19.5
    mixed = SCHEMES.get("f16_s8")  # each product at the rate of its own words
    words = [mixed.accumulator(one.into).word for one in mixed.products]
    h200 = GPUS.get("h200")
    rates = h200.rates.tensor_fma_per_clock
    assert len(set(words)) == 2 and roof(h200, mixed) == pytest.approx(
        2e-6 * h200.rates.sms * h200.rates.tensor_boost_mhz / sum(1 / rates[word] for word in words))
    found = roofs("a100", ["fp32", "ootomo", "e4m3x6", "nobody"])
    assert found["memory"] == pytest.approx(a100.rates.dram_gb_per_s / 1000) and [name for name, _ in found["units"]] == ["ootomo", "fp32"], "no FP8 there"


def test_a_name_in_a_store_opens_no_file():
    """Rows may name GPUs and schemes by the paths of files, which a report does not read."""
    assert roofs(str(SPECS / "gpus" / "a100.toml"), ["ootomo"]) is None
    assert roofs("a100", [str(SPECS / "schemes" / "ootomo.toml")])["units"] == []


def test_flop_a_byte_by_hand():
    assert intensity_of(row(1.0)) == pytest.approx(2 * 64**3 / (4 * 3 * 64**2))
    assert intensity_of(row(1.0, scheme="residues14")) == pytest.approx(intensity_of(row(1.0)) / 2), "elements of 8 bytes"
    assert intensity_of(row(1.0, scheme="nobody")) == intensity_of(row(1.0)) and intensity_of(row(1.0, 0)) == 0
    assert reporting._point(row(1.0), 0)["intensity"] == pytest.approx(intensity_of(row(1.0)), rel=1e-4)
    assert [name for name, _ in reporting._gpu([row(1.0)], GPU)["roofs"]["units"]] == ["ootomo", "fp32"], "plain FP32's roof is always there"
