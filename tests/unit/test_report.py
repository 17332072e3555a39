"""The report's page: its data, and that nothing of the store becomes markup, script or a request."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser

import numpy as np
import pytest
from explored import AT, GPU, plans, row_of, sizes, timed

from gemmgen.catalog.gpu import GPUS
from gemmgen.cli import main
from gemmgen.errors import GemmgenError
from gemmgen.model.accuracy import DISTRIBUTIONS
from gemmgen.solve.contract import fp32_estimate
from gemmgen.verdict import OWN, VENDORS_OWN, plain_of
from gemmgen.workshop.choose.few import choose
from gemmgen.workshop.explore import report as reporting
from gemmgen.workshop.explore.headline import fp32_times, headline, verdict_of
from gemmgen.workshop.explore.report import MOST_POINTS, facts, rejected, report
from gemmgen.workshop.explore.store import Writer
from gemmgen.workshop.explore.trial_row import Row

HOSTILE = (
    "</script><script>document.title='owned'</script>", "<img src=x onerror=\"document.title='owned'\">", "<!--<script>", "' onclick='x", "@PLOTLY@ @DATA@",
    "<a href=\"https://example.com/x\">here</a>", "%{x} $x$ {{ x }}", "\u2028\u2029\u202e\x00\x1b[31m", "\ud800", "&lt;b&gt;", "]]>", "x" * 5000,
)


def hostile_rows() -> list[Row]:
    """Every text column of a row, in turn, as somebody with bad intentions would fill it."""
    rows = []
    for at, text in enumerate(HOSTILE):
        for kind, verdict in (("kernel", "timed"), ("rival", "timed"), ("kernel", "failed")):
            rows.append(Row(
                study=text, trial=f"{at}", kind=kind, verdict=verdict, kernel=text, gpu=text if at % 2 else GPU, m=64, n=64, k=64, layout=text[:40], at=AT,
                reason=text, writer=text, spec=json.dumps({"split": {"scheme": text}}), decided=json.dumps({text: text, "block": [1, text]}), identity=text[:9],
                scheme=text, design=text, policy=text, device=text, uuid=text, driver=text, compiler=text, data=text, seconds=1e-5 * (at + 1),
                predicted_seconds=1e-5, error=1e-7,
                extra=json.dumps({"rejected": {text: 3}}),
            ))
    return rows


class Page(HTMLParser):
    """Tags with their attributes, and what is inside scripts."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict]] = []
        self.scripts: list[str] = []
        self.title = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts[-1] += data
        if self._inside == "title":
            self.title += data

    @property
    def data(self) -> dict:
        return json.loads(self.scripts[0])


@pytest.fixture(autouse=True)
def small_plotly(monkeypatch, request):
    """Five megabytes of it are shown to be there once, in the browser's test."""
    monkeypatch.setattr(reporting, "_plotly", lambda: "plotly()")


def usual_rows() -> list[Row]:
    rows = timed(plans(), [(n, n, n) for n in (256, 1024, 4096)] + [(128, 4096, 4096)])
    rows += [row_of(plans()[0], (512, 512, 512), verdict="refused", reason=f"C10: shared memory: {240000 + at} bytes of 232448") for at in range(5)]
    return [*rows, row_of(plans()[1], (512, 512, 512), verdict="hung", reason="longer than 10 s", uuid="GPU-1", reference_seconds=1e-3)]


def test_nothing_of_the_store_becomes_markup():
    empty, page = Page(report([])), Page(report(hostile_rows(), title=HOSTILE[0]))
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in empty.tags] and len(page.scripts) == 3
    assert page.scripts[1:] == empty.scripts[1:] and page.title == HOSTILE[0]
    assert not any(name.startswith("on") or name in ("src", "href") for _, attributes in page.tags for name in attributes)
    assert "<" not in page.scripts[0]
    names = {one for values in page.data["points"] for one in values if isinstance(one, str)}
    assert HOSTILE[0] in names and not any("\u202e" in one or "\x00" in one or len(one) > 220 for one in names)


def test_scripts_run_by_their_hashes_alone_and_nothing_may_be_asked_for():
    page = Page(report(usual_rows()))
    [policy] = [one["content"] for tag, one in page.tags if one.get("http-equiv") == "Content-Security-Policy"]
    allowed = re.search("script-src ([^;]*)", policy)[1].split()
    assert allowed == [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in page.scripts[1:]]
    assert policy.startswith("default-src 'none';") and "http" not in policy and "connect-src" not in policy


def test_what_a_page_knows_of_a_study():
    rows = usual_rows()
    page = Page(report(rows, title="mine")).data
    assert page["timed"] and page["shown"] == page["plottable"] == 36 and page["notes"] == []
    assert {one["verdict"]: one["count"] for one in page["verdicts"]} == {"timed": 36, "refused": 5, "hung": 1}
    assert page["rejected"][0] == {"gpu": GPU, "verdict": "refused", "reason": "C10: shared memory: 240000 bytes of 232448", "count": 5}
    first = dict(zip(page["columns"], page["points"][0]))
    assert first["tflops"] == pytest.approx(2e-12 * 256**3 / rows[0].seconds, rel=1e-4) and first["error"] == 2.1e-7 and first["cube"] is True
    assert first["decided"]["block"] == "64x64x64" and {one["label"] for one in page["sizes"]} == {
        "256 x 256 x 256 nn", "1024 x 1024 x 1024 nn", "4096 x 4096 x 4096 nn", "128 x 4096 x 4096 nn"}
    assert page["gpus"][0]["cards"] == 1 and page["gpus"][0]["reference"] == "+0.0 to +0.0 % of its median at the size, in 90 % of 1 trials"


def test_kernels_come_with_their_text_or_the_reason_why_not():
    rows = usual_rows()
    kernels = facts(rows)["kernels"]
    assert kernels and all(one["name"] in one["text"] and "Fastest of ootomo at" in one["where"] for one in kernels)
    shapes = {tuple([*plan.block[:2], *plan.warp[:2], *plan.fragment.shape[:2]]) for plan in plans()}
    assert len({tuple(one["tiles"]) for one in kernels} & shapes) > 1 and all(tuple(one["tiles"]) in shapes for one in kernels)
    other = [replace(row, identity="deadbeef" if row.kind == "kernel" else "") for row in rows]
    assert all(one["text"] is None and "another kernel" in one["why"] and one["tiles"] == [] for one in facts(other)["kernels"])
    unknown = [replace(row, scheme="nobody") for row in rows]
    assert all(one["text"] is None and "does not make it" in one["why"] for one in facts(unknown)["kernels"])


def test_a_dispatch_table_brings_its_rules_and_kernels():
    rows = usual_rows()
    table = choose(rows, 2, learn=False, decide="rules").table
    page = facts(rows, table)
    assert [one["label"] for one in page["kernels"]] == list(table.kernels) and page["rules"][0]["rules"][-1][0] == "otherwise"
    assert "one kernel for all" in page["rules"][0]["regret"]


def test_an_empty_store_one_point_and_one_without_times():
    assert facts([])["verdicts"] == [] and facts([])["points"] == [] and "No trials" in facts([])["about"]
    one = facts(timed(plans(few=1), [(256, 256, 256)], rival=None))
    assert len(one["points"]) == 1 and one["notes"] == []
    untimed = facts(timed(plans(few=2), sizes(3), verdict="compiled"))
    assert not untimed["timed"] and "Nothing was timed" in untimed["notes"][0] and len(untimed["points"]) == 6
    assert untimed["points"][0][untimed["columns"].index("tflops")] > 0


def test_where_some_were_timed_the_others_are_shown_as_predicted():
    """A kernel that was timed at a size has no predicted point there; one that was not has."""
    [one, *_] = plans()
    rows = timed(plans(few=2), [(256, 256, 256)], rival=None)
    rows += timed(plans(few=2), [(256, 256, 256), (512, 512, 512)], verdict="compiled", rival=None)
    page = facts(rows)
    times = [dict(zip(page["columns"], point)) for point in page["points"]]
    assert sorted((point["size"][:3], point["times"]) for point in times) == [("256", "measured")] * 2 + [("512", "predicted")] * 2
    assert page["timed"] and page["notes"] == ["2 of 4 kernels were not timed: their speeds are what the model predicts, and their points are hollow."]
    assert any("512 x 512 x 512" in kernel["where"] for kernel in page["kernels"])


def test_the_headline_is_the_best_kernel_with_fp32s_error_its_gain_what_binds_it_and_how_sure():
    rows = [replace(row, device="NVIDIA H200") for row in timed(plans(), [(256, 256, 256), (4096, 4096, 4096)], rival=4.0)]
    best = min((row for row in rows if row.kind == "kernel" and row.m == 4096), key=lambda row: row.seconds)
    rough = [replace(row, kernel="rough", identity="rough", seconds=row.seconds / 9, error=1e-3) for row in rows if row.kind == "kernel"]
    found = headline([*rows, *rough])
    assert found.row == best and found.verdict.ratio == pytest.approx(4.0) and "(measured on NVIDIA H200)" in found.verdict.sentence
    assert found.mean.startswith(f"on {GPU}: 4.0 x FP32 in the mean of 2 sizes") and found.bound[0][1] > 0.2
    assert found.sure.startswith("measured on NVIDIA H200: the median of 11 rounds, half of which lie within 2.0 %; the model is off by")
    told = facts([*rows, *rough])["headlines"]
    assert [one["gpu"] for one in told] == [GPU] and [name for name, _ in told[0]["facts"]] == [
        "kernel", "speed", "error", "bound by", "how sure", "all sizes"]
    assert headline(rough).row.kernel == "rough", "where no kernel has FP32's error the fastest stands there, and its error"

    untimed = timed(plans(few=2), [(4096, 4096, 4096)], verdict="compiled")
    found = headline(untimed)
    assert found.verdict.how == "predicted" and found.sure == f"predicted; the kernel is compiled, not run; no kernel of {GPU} was timed here"
    assert found.verdict.seconds == min(row.predicted_seconds for row in untimed)
    assert headline([]) is None and headline([replace(row, verdict="wrong") for row in untimed]) is None
    assert headline([replace(row, gpu="nobody", scheme="nobody") for row in untimed]).verdict is None


def test_a_headline_is_of_the_largest_size_and_there_of_the_error_before_the_time():
    rows = timed(plans(few=1), [(4096, 4096, 4096), (16384, 2048, 4096)], rival=4.0)
    found = headline(rows, judged=1)
    assert found.row.m == 16384 and "in the mean of 1 size (" in found.mean
    assert headline(rows, judged=0) == replace(found, mean="")
    assert headline([replace(row, n=4096) if row.m == 4096 else replace(row, m=4096, n=16384, k=2048) for row in rows], 1).row.n == 16384
    [best] = [row for row in rows if row.kind == "kernel" and row.m == 4096]
    guess = replace(best, verdict="compiled", kernel="guess", identity="guess", predicted_seconds=best.seconds / 2)
    rough = replace(best, kernel="rough", identity="rough", seconds=best.seconds / 9, error=1e-3)
    assert headline([best, guess], 1).row == best, "a measured time comes before a predicted one"
    assert headline([guess, rough]).row == guess, "and FP32's error before either"
    as_good = replace(rough, error=fp32_estimate(4096, DISTRIBUTIONS["uniform"]))
    assert headline([best, as_good]).row == as_good
    twice = [replace(best, seconds=2e-6, predicted_seconds=1e-6), replace(best, seconds=1e-6, predicted_seconds=2e-6)]
    assert headline(twice, 1).sure.endswith("; the model is off by 100 % in the mean of 2 timed kernels"), "what is off either way adds up"
    for verdict, told in (("modelled", "not compiled"), ("right", "judged right on the emulator")):
        assert headline([replace(guess, verdict=verdict)], 1).sure.startswith(f"predicted; the kernel is {told}; no kernel of ")


def test_a_measured_time_is_held_against_a_measured_fp32_alone():
    """cuBLAS at the size, or a timed kernel of scheme fp32; else both are predicted, however long the kernel took."""
    [row, *_] = timed(plans(few=1), [(1024, 1024, 1024)], rival=None)
    row = replace(row, seconds=1.0, predicted_seconds=1e-4)
    assert verdict_of(row, {}).seconds == 1e-4 and verdict_of(row, {}).how == "predicted"
    few = verdict_of(replace(row, gpu="a100", m=4, n=4096, k=512, layout="nt", verdict="compiled"), {})
    assert few.fp32_seconds == plain_of(GPUS.get("a100"), 4, 4096, 512, "nt")[0] < plain_of(GPUS.get("a100"), 4, 4096, 512)[0]
    fp32s = fp32_estimate(1024, DISTRIBUTIONS["uniform"])
    for error, predicted, share in ((3 * fp32s, 1.0, 3.0), (None, 2 * fp32s, 2.0), (None, None, 1.0), (float("nan"), None, 1.0)):
        assert verdict_of(replace(row, error=error, predicted_error=predicted), {}).error == pytest.approx(share)
    plain = replace(row, scheme="fp32", seconds=3.0, identity="plain")
    rival = Row("s", "t", "rival", "timed", "cublas-sgemm", GPU, 1024, 1024, 1024, "nn", seconds=2.0, device="NVIDIA H200")
    for rows, ratio, whose in (([plain], 3.0, OWN), ([plain, rival], 2.0, VENDORS_OWN)):
        found = verdict_of(row, fp32_times(rows))
        assert (found.seconds, found.ratio, found.fp32, found.how) == (1.0, ratio, whose, "measured on NVIDIA H200")
    assert [*fp32_times([replace(plain, layout="nt")])] == [(1024, 1024, 1024, "nt")], "a layout is measured by itself"
    assert fp32_times([replace(plain, verdict="compiled"), replace(rival, kernel="cublas-tf32"), replace(rival, seconds=None)]) == {}


def test_what_was_tried_names_every_scheme_and_why_others_were_left_out():
    """A study that ran twice has two rows of what the model rejected; the newest counts, and an inequality has one line."""
    space = Row("s", "1", "space", "modelled", "", GPU, 0, 0, 0, "", at=AT,
                extra=json.dumps({"rejected": {"C7 threads <= 512": 5}, "left_out": {"half": "old"}}))
    later = replace(space, trial="2", at=AT + timedelta(1), extra=json.dumps(
        {"rejected": {"C7 threads <= 512": 6, "C7 threads <= most": 1}, "left_out": {"half": "its error"}}))
    rows = timed(plans(few=2), [(256, 256, 256)], rival=None)
    for given in ([*rows, space, later], [later, space, *rows]):
        page = facts(given)
        assert page["schemes"] == [[GPU, "ootomo", 2, 2, 2.1e-7, ""], [GPU, "half", 0, 0, None, "its error"]]
        assert [(one["reason"], one["count"]) for one in page["rejected"]] == [("C7 threads <= 512 or else threads <= most", 7)]


def test_numbers_that_are_none_are_left_out():
    row = timed(plans(few=1), [(256, 256, 256)], rival=None)[0]
    odd = [replace(row, seconds=value) for value in (float("nan"), float("inf"), 0.0, -1.0)]
    odd += [replace(row, error=float("nan"), predicted_seconds=float("inf")), replace(row, decided="[]"), replace(row, decided="{")]
    page = Page(report(odd)).data
    assert len(page["points"]) == 3 and page["points"][0][page["columns"].index("error")] is None


def test_many_rows_are_thinned_and_it_is_said():
    """Every rival, the fastest of each scheme at each size and the frontier stay; the page says so, and counts are of all rows."""
    draw = np.random.default_rng(2)
    row = timed(plans(few=1), [(256, 256, 256)], rival=None)[0]
    some, seconds, errors = sizes(10), np.exp(draw.normal(-10, 1, 20_000)), np.exp(draw.normal(-15, 1, 20_000))
    rows = [Row("s", str(at), "kernel", "timed", f"k{at}", GPU, *some[at % 10], "nn", at=AT, scheme="ab"[at % 2], seconds=float(one), error=float(error),
                decided=row.decided) for at, (one, error) in enumerate(zip(seconds, errors))]
    rows += [Row("s", f"r{at}", "rival", "timed", "cublas-sgemm", GPU, *one, "nn", at=AT, seconds=1e-3) for at, one in enumerate(some)]
    page = facts(rows)
    assert page["shown"] == MOST_POINTS and page["plottable"] == 20_010 and "4,000 of 20,010 points" in page["notes"][0]
    points = [dict(zip(page["columns"], one)) for one in page["points"]]
    assert sum(one["kind"] == "rival" for one in points) == 10 and page["verdicts"][0]["count"] == 20_010
    for at in range(10):
        best = rows[at + 10 * int(np.argmin(seconds[at::10]))]
        assert any(one["kernel"] == best.kernel for one in points)
    of = sorted((one.seconds, one.error, one.kernel) for one in rows[0:20_000:10])
    least, front = np.inf, set()
    for _, error, name in of:
        if error < least:
            least, _ = error, front.add(name)
    assert len(front) > 3 and front <= {one["kernel"] for one in points}


def test_candidates_that_never_were_trials_count_as_rejected():
    """A row may bring how many candidates each inequality refused before any was tried."""
    rows = [Row("s", "t", "kernel", "failed", "", GPU, 1, 1, 1, "nn", reason="x", extra=json.dumps({"rejected": {"C10 shared memory": 7000}})),
            Row("s", "t", "kernel", "failed", "", GPU, 1, 1, 1, "nn", reason="x", extra='{"rejected": [1]}')]
    assert [(one["reason"], one["count"]) for one in rejected(rows)] == [("C10 shared memory", 7000), ("x", 2)]
    told = facts([*rows, Row("s", "space", "space", "modelled", "", GPU, 1, 1, 1, "nn", extra=json.dumps({"rejected": {"C10 shared memory": 1}}))])
    assert told["verdicts"] == [{"verdict": "failed", "meaning": "another error, named by the reason", "count": 2}] and told["rejected"][0]["count"] == 7001
    assert told["rejected"][0]["verdict"] == "by the model"
    many = [Row("s", "t", "kernel", "failed", "", GPU, 1, 1, 1, "nn", reason="e" * at) for at in range(1, 60)]
    assert rejected(many)[-1]["reason"] == "19 other reasons" and rejected(many)[-1]["count"] == 19


def test_the_command_writes_a_page(tmp_path, capsys):
    writer = Writer(tmp_path / "store")
    for row in timed(plans(few=2), [(256, 256, 256)]):
        writer.add(row)
    writer.close()
    assert main(["study", "report", str(tmp_path / "store"), "-o", str(tmp_path / "r.html"), "--where", "kind = 'kernel'"]) == 0
    assert "2 rows" in capsys.readouterr().out and Page((tmp_path / "r.html").read_text()).title == "store"
    assert main(["study", "report", str(tmp_path / "none")]) == 2
    assert "is no store of trials" in capsys.readouterr().err


def test_without_plotly_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setitem(__import__("sys").modules, "plotly.offline", None)
    with pytest.raises(GemmgenError) as refusal:
        report([])
    assert refusal.value.remedy == "pip install 'gemmgen[explore]'"


def test_how_much_a_reference_kernel_varies():
    """From the 5th to the 95th percentile over the median of each size; seconds of another size are no spread, and impossible ones count nowhere."""
    row = Row("s", "t", "kernel", "timed", "k", GPU, 64, 64, 64, "nn", uuid="GPU-1", driver="580.1")
    rows = [replace(row, m=m, reference_seconds=scale * (1 + at / 100)) for m, scale in ((64, 1.0), (128, 7.0)) for at in range(101)]
    told = reporting._gpu([*rows, replace(row, reference_seconds=float("nan")), replace(row, uuid="GPU-2")], GPU)
    assert told["reference"] == "-30.0 to +30.0 % of its median at the size, in 90 % of 202 trials"
    assert (told["cards"], told["driver"], told["trials"], told["timed"]) == (2, "580.1", 204, 204)
    assert reporting._gpu([row], GPU)["reference"] == "–"
