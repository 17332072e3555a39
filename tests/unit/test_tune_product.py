"""One product tuned by one call, and a study as an object: the same files as the command's, answers that are kept, tables and plots."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

from explored import GPU, plans, timed

import gemmgen
from gemmgen.cli import main
from gemmgen.errors import GemmgenError, InfeasibleSpec, SpecError, UnknownName
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.workshop import explore
from gemmgen.workshop.explore import product
from gemmgen.workshop.explore.figures import FIGURES, figure
from gemmgen.workshop.explore.gpus import Here
from gemmgen.workshop.explore.product import UNTIMED_TRIALS, seconds_asked
from gemmgen.workshop.explore.store import Writer


@pytest.fixture(autouse=True)
def nothing_is_compiled(monkeypatch, tmp_path):
    """A machine without compiler and GPU, and a cache of its own."""
    monkeypatch.setattr(product, "compiler_name", lambda arch: "")
    monkeypatch.setattr(product, "gpus_here", lambda: [])
    monkeypatch.setenv("GEMMGEN_CACHE", str(tmp_path / "cache"))


def test_a_product_is_tuned_by_one_call_and_the_answer_is_kept(tmp_path, monkeypatch):
    progress = []
    tuned = gemmgen.tune(512, 256, 1024, gpu="a100", progress=progress.append)
    assert not tuned.kept and not tuned.measured and progress[-1].done == UNTIMED_TRIALS
    rows = tuned.study.rows("kind = 'kernel'")
    assert tuned.seconds == min(row.predicted_seconds for row in rows)
    assert str(tuned.study.store).startswith(str(tmp_path / "cache" / "tuned" / "a100_512x256x1024"))
    assert max(row.predicted_seconds for row in rows) < 1.1 * tuned.seconds, "slower schemes wait"
    plan = solve(loads(tuned.spec))
    assert plan.hash == tuned.plan.hash == tuned.row.identity and (plan.hints.m, plan.hints.n, plan.hints.k) == (512, 256, 1024)
    chosen = solve(loads({"problem": {"m": 512, "n": 256, "k": 1024}, "accuracy": {"as": "fp32"}, "target": {"gpu": "a100"}}))
    assert tuned.seconds == pytest.approx(float(chosen.model["seconds"]), rel=0.02), "schemes that give the error compete in time"
    assert tuned.verdict.how == "predicted" and "x FP32" in str(tuned) and "predicted, modelled" in str(tuned)
    for value, words in ((tuned, f"kernel {tuned.row.kernel}, time "), (tuned.study, "gpus a100, sizes 1, store ")):
        assert words in repr(value) and "\n" not in repr(value) and len(repr(value)) < 500 and value._repr_html_().count("<tr>") >= 3

    monkeypatch.setattr(explore.Explored, "run", lambda *given, **how: pytest.fail("an answer that is kept is not looked for"))
    again = gemmgen.tune(512, 256, 1024, gpu="a100")
    assert again.kept and again.row == tuned.row and "kept from an earlier call" in str(again)
    for other in ({"accuracy": 1e-6}, {"layout": "nt"}, {"again": True}, {"gpu": "h200"}):
        with pytest.raises(pytest.fail.Exception):
            gemmgen.tune(512, 256, 1024, **{"gpu": "a100", **other})
    monkeypatch.setattr(product, "__version__", "another")
    with pytest.raises(pytest.fail.Exception):
        gemmgen.tune(512, 256, 1024, gpu="a100")


def test_on_a_gpu_measured_times_alone_decide_and_the_budget_bounds_the_study(tmp_path, monkeypatch):
    asked = {}

    def run(self, **how):
        asked.update(head=self.study.head, how=how)
        with Writer(tmp_path / "s") as writer:
            rows = [row for row in timed(plans(few=3), [(512, 256, 1024)]) if row.kind == "kernel"]
            rows[1] = replace(rows[1], seconds=rows[1].seconds / 100, verdict="timed")
            rows[2] = replace(rows[2], seconds=None, predicted_seconds=1e-9, verdict="compiled")
            for row in rows:
                writer.add(replace(row, study=self.study.name, generator=gemmgen.__version__))
            asked["fastest"] = rows[1].kernel

    monkeypatch.setattr(product, "gpus_here", lambda: [Here(GPU, "GPU-1", "NVIDIA H200", "1")])
    monkeypatch.setattr(product, "compiler_name", lambda arch: "NVRTC")
    monkeypatch.setattr(explore.Explored, "run", run)
    tuned = gemmgen.tune(512, 256, 1024, accuracy=1e-6, budget="1.5 min", store=tmp_path / "s")
    assert tuned.measured and tuned.row.kernel == asked["fastest"]
    head = asked["head"]
    assert (head.seconds, head.gpus, head.compile, head.rivals, head.strategy) == (90.0, (GPU,), True, ("cublas-sgemm",), "model")
    assert tuned.study.study.file.accept.relative_frobenius == 1e-6 and asked["how"]["workers"] is None


def test_an_answer_is_of_its_own_product_and_timed_where_its_gpu_is(tmp_path, monkeypatch):
    """Several products share a store. On a machine with another GPU, or without a compiler, no process compiles."""
    asked, verdict = [], {"verdict": "timed"}

    def run(self, **how):
        head = self.study.head
        asked.append((head.rivals, head.trials, how["workers"]))
        with Writer(tmp_path / "s") as writer:
            [row] = timed(plans(few=1), [(8, 8, 8)], rival=None)
            writer.add(replace(row, k=len(asked), study=self.study.name, generator=gemmgen.__version__, **verdict))

    def tune(k, **more):
        return gemmgen.tune(8, 8, k, store=tmp_path / "s", workers=3, **more)

    monkeypatch.setattr(product, "gpus_here", lambda: [Here(GPU, "GPU-1", "NVIDIA H200", "1")])
    monkeypatch.setattr(product, "compiler_name", lambda arch: "NVRTC")
    monkeypatch.setattr(explore.Explored, "run", run)
    assert not tune(8).kept and tune(8).kept and asked == [(("cublas-sgemm",), product.MOST_TRIALS, 3)]
    assert not tune(8, layout="nt").kept and asked[1:] == [((), product.MOST_TRIALS, 3)], "cuBLAS is raced in layout nn"
    assert not tune(8, gpu="a100").kept and asked[2:] == [((), UNTIMED_TRIALS, 0)]
    verdict |= {"verdict": "compiled", "seconds": None, "predicted_seconds": 1e-6}
    with pytest.raises(GemmgenError, match="found no kernel that is right"):
        tune(16)
    monkeypatch.setattr(product, "compiler_name", lambda arch: "")
    with pytest.raises(GemmgenError, match="found no kernel that is right"):
        tune(24)
    assert [workers for *_, workers in asked[3:]] == [3, 0]


def test_a_store_without_a_right_kernel_is_an_error_with_its_place(tmp_path, monkeypatch):
    def run(self, **how):
        with Writer(tmp_path / "s") as writer:
            for row in timed(plans(few=2), [(8, 8, 8)], verdict="refused"):
                writer.add(replace(row, study=self.study.name, generator=gemmgen.__version__))

    monkeypatch.setattr(explore.Explored, "run", run)
    with pytest.raises(GemmgenError, match="found no kernel that is right") as refusal:
        gemmgen.tune(8, 8, 8, gpu=GPU, store=tmp_path / "s")
    assert str(tmp_path / "s") in refusal.value.remedy


@pytest.mark.parametrize("given, error, told", [
    ({}, SpecError, "no GPU that the catalog knows is here"), ({"gpu": "h900"}, UnknownName, "h200"), ({"gpu": "a100", "budget": "soon"}, SpecError, "2 min"),
    ({"gpu": "a100", "accuracy": 1e-30}, InfeasibleSpec, "no scheme reaches this"), ({"gpu": "a100", "accuracy": "fp33"}, SpecError, "fp32"),
    ({"gpu": "a100", "layout": "xx"}, SpecError, "layouts"),
])
def test_what_cannot_be_tuned_is_refused(given, error, told):
    with pytest.raises(error) as refusal:
        gemmgen.tune(8, 8, 8, **given)
    assert told in str(refusal.value)


def test_a_budget_is_seconds_or_a_number_with_its_unit():
    assert [seconds_asked(one) for one in ("2 min", "90s", " 0.5 h ", 7, 0.1)] == [120.0, 90.0, 1800.0, 7.0, 0.1]
    for bad in ("", "min", "2", "-1 s", "2 days", 0, -3, float("nan"), float("inf"), 10**400, True):
        with pytest.raises(SpecError, match="is no time"):
            seconds_asked(bad)


def test_tune_still_takes_a_program(monkeypatch):
    from gemmgen.workshop import tune

    monkeypatch.setattr(tune, "tuned_program", lambda *what, **how: (what, how))
    assert gemmgen.tune("mlp", 1e-5, gpu="h100") == (("mlp", 1e-5), {"gpu": "h100"}) and gemmgen.tune(program="mlp", threshold=1.0)[1]["threshold"] == 1.0


STUDY = {"study": {"name": "mine", "gpus": ["a100"], "sizes": [512], "trials": 4, "compile": False}, "space": {
    "split": {"scheme": ["ootomo", "half"]}, "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}}}


def test_a_study_as_an_object_runs_resumes_answers_and_reports(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    study = explore.study(STUDY)
    with pytest.raises(GemmgenError, match="is no store of trials"):
        study.resume()
    assert study.run().done == 4 and study.resume(trials=6).kept == 4
    assert (tmp_path / "explore-out" / "mine").is_dir(), "the command's own place"
    best = study.table("best")
    assert type(best).__module__.startswith("pyarrow") and best["times"].to_pylist() == ["predicted"]
    assert study.table("SELECT count(*) AS c FROM latest", where="scheme = 'half'").to_pylist() == [{"c": 3}] and len(study.rows("scheme = 'half'")) == 3
    assert main(["study", "ask", "explore-out/mine", "--best", "--json"]) == 0 and best["kernel"][0].as_py() in capsys.readouterr().out
    other = explore.study(STUDY, store=tmp_path / "other")
    assert other.run().kept == 0 and other.store == tmp_path / "other"


def test_plots_have_measured_points_full_and_predicted_ones_hollow():
    rows = timed(plans(few=2), [(256, 256, 256)]) + timed(plans()[2:3], [(256, 256, 256), (512, 512, 512)], verdict="compiled")
    found = figure("frontier", rows, "t<i>le &lt;")
    assert "t&lt;i&gt;le &amp;lt; (" in found.layout.title.text and "hollow: predicted" in found.layout.title.text
    points = {one.name: list(one.marker.symbol) for one in found.data}
    hovered = next(one for one in found.data if one.name == "ootomo")
    assert f"{rows[0].kernel} at 256 x 256 x 256 nn" in hovered.text and hovered.hovertemplate == "%{text}<br>%{x:.4g}, %{y:.3g}"
    for state, told in (("timed", "t (measured)"), ("compiled", "t (predicted)")):
        assert figure("frontier", [row for row in rows if row.verdict == state], "t").layout.title.text == told
    assert {one.name for one in figure("frontier", [rows[0], replace(rows[0], gpu="a100", scheme="<b>")]).data} == {f"{GPU} ootomo", "a100 &lt;b&gt;"}
    assert sorted(points["ootomo"]) == ["circle"] * 2 + ["circle-open"] * 2 and points["cublas-sgemm"] == ["circle"]
    sizes = {one.name: one for one in figure("sizes", rows[::-1]).data}["ootomo"]
    assert list(sizes.x) == pytest.approx([256, 512]) and list(sizes.marker.symbol) == ["circle", "circle-open"]
    best = max(2e-12 * 256**3 / row.seconds for row in rows if row.kind == "kernel" and row.verdict == "timed")
    assert sizes.y[0] == pytest.approx(best)
    told = {"frontier": ("TFLOP/s", None, "relative error", "log"), "sizes": ("cube root of m n k", "log", "TFLOP/s", None),
            "model": ("predicted, µs", "log", "measured, µs", "log")}
    drawn = {name: figure(name, rows).layout for name in FIGURES}
    assert {name: (one.xaxis.title.text, one.xaxis.type, one.yaxis.title.text, one.yaxis.type) for name, one in drawn.items()} == told
    [model] = figure("model", rows).data
    assert len(model.x) == 2 and figure("model", rows[-2:], "t").layout.title.text == "t: no kernel has a time"
    predicted, measured, *_ = FIGURES["model"]
    row = replace(rows[0], seconds=3e-6, predicted_seconds=2e-6)
    assert [measured(one) for one in (row, replace(row, verdict="wrong"), replace(row, seconds=None))] == [pytest.approx(3), None, None]
    assert [predicted(one) for one in (row, replace(row, predicted_seconds=None), replace(row, predicted_seconds=-1.0))] == [pytest.approx(2), None, None]
    with pytest.raises(UnknownName) as refusal:
        figure("frontiers", rows)
    assert all(name in str(refusal.value) for name in FIGURES)


@pytest.mark.parametrize("other", [
    {"gpu": "a100"}, {"scheme": "half"}, {"m": 8}, {"n": 8}, {"k": 8}, {"layout": "tn"}, {"kind": "rival", "kernel": "cublas-sgemm"}], ids=lambda other: "".join(other))
def test_a_plot_over_sizes_has_a_point_for_each_scheme_size_and_layout(other):
    """The fastest of those that agree in all of it; a measured time comes before a predicted one that is less."""
    fast, slow = timed(plans(few=2), [(256, 256, 256)], rival=None)
    slow, fast = (replace(row, seconds=seconds) for row, seconds in ((slow, 3e-6), (fast, 2e-6)))
    predicted = replace(fast, verdict="compiled", seconds=None, predicted_seconds=1e-7)
    elsewhere = replace(slow, **other)
    chosen = FIGURES["sizes"][3]
    assert chosen([slow, fast, predicted]) == chosen([predicted, fast, slow]) == [fast]
    assert {id(row) for row in chosen([slow, fast, elsewhere])} == {id(fast), id(elsewhere)}


def test_importing_what_tunes_a_product_loads_no_heavy_library():
    code = ("import sys; import gemmgen.workshop.explore.product, gemmgen.workshop.explore.figures; "
            "print([n for n in ('duckdb', 'pyarrow', 'plotly') if n in sys.modules])")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
