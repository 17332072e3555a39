"""`gemmgen explain`: its fifteen lines, what they rest on, the folded equations, the page, and the picture of the frontier."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

from gemmgen import road
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.cli import explain as explaining
from gemmgen.cli.explain_page import page, roofline, roofs
from gemmgen.designs import Hints
from gemmgen.errors import InfeasibleSpec
from gemmgen.model.equation import Equation
from gemmgen.paths import SPECS
from gemmgen import picture
from gemmgen.solve import contract, search, why
from gemmgen.solve.frontier import Frontier, Point, frontier, spec_of
from gemmgen.solve.request import requests
from gemmgen.verdict import verdict
from gemmgen.spec import load, loads


def explained(name: str):
    return road.explain(SPECS / "kernels" / f"{name}.toml")


# ---- the time


CPU_SECONDS = 3.0
"""1.5 times what is allowed of an idle core: beside other programs the same work was seen to take that much longer."""


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(path.stem for path in (SPECS / "kernels").glob("*.toml")))
def test_every_shipped_spec_is_explained_in_seconds_and_twenty_lines(name):
    ran = subprocess.Popen([sys.executable, "-m", "gemmgen", "explain", name, *(["--gpu", "a100"] if name == "sgemm_portable" else [])], stdout=subprocess.PIPE, text=True)
    told = ran.stdout.read()
    _, status, used = os.wait4(ran.pid, 0)
    ran.returncode = os.waitstatus_to_exitcode(status)
    assert ran.returncode == 0 and 6 <= len(told.splitlines()) <= 20
    assert used.ru_utime + used.ru_stime < CPU_SECONDS


# ---- the lines


@pytest.mark.parametrize("name", ["sgemm_a100", "hopper", "accurate_h100", "batch_h200", "linear_gelu_h200", "mixpert4_outliers_h200", "legemm_chosen_a800"])
def test_an_explanation_has_at_most_twenty_lines_and_no_code(name):
    e = explained(name)
    told = explaining.short(e)
    keys = [line.split("  ")[0].strip() for line in told.splitlines()]
    assert 6 <= len(keys) <= 20 and {"kernel", "decided", "predicted", "takes", "error", "searched", "verdict"} <= set(keys)
    assert not re.search(r"\b[CRGTMEWP]\d+\b", told), "codes stand beside their equations alone"
    found = verdict(e.plan)
    assert told.endswith(found.sentence if found else "gemmgen bench --suite does")


def test_what_limits_a_kernel_adds_up_and_is_what_its_rates_say():
    """By hand: twice the matrix unit's rate saves half of its share, and shares of all rates are the whole time."""
    plan = explained("sgemm_a100").plan
    shares = dict(why.limits(plan))
    assert list(shares)[0] == "the matrix unit" and 0.9 < sum(shares.values()) < 1.1
    known = plan.design.constants_of(plan) | plan.design.encoded(plan)

    def seconds(**changed):
        return plan.design.predicted(plan.design.budgets({**known, **changed}, plan.gpu.registers))["seconds"]

    faster = seconds(tensor_fma_per_clock=known["tensor_fma_per_clock"] * 1.01) / seconds()
    assert 1 - faster == pytest.approx(shares["the matrix unit"] * 0.01, rel=0.05)
    small = road.plan({"problem": dict.fromkeys("mnk", 256), "split": {"scheme": "scaled"}, "target": {"gpu": "a100"}})
    shares = dict(why.limits(small))
    assert list(shares)[0] == "launches" and 0.9 < sum(shares.values()) < 1.1
    assert "the matrix unit" not in dict(why.limits(explained("fp32_a100").plan)), "FP32 units stand in for it"
    assert why.limits(explained("batch_h200").plan) == (), "its times come of a list of products"


def test_the_space_without_a_limit_is_looked_at_once_for_each_resource(monkeypatch):
    """Two constraints hold the registers: without either alone the other would reject the same."""
    loaded = loads({"split": {"scheme": "half", "where": "prepass"}, "tile": {"split_k": 1}, "target": {"gpu": "a100"}})
    e, looked, groups = road.explain(loaded), [], []
    enumerate_space = search.enumerate_space

    def enumerated(*given):
        looked.append({one.name for one in given[-1]})
        groups.append(given[1]["group"])
        return enumerate_space(*given)

    monkeypatch.setattr(search, "enumerate_space", enumerated)
    assert why.without(e) == [], "more shared memory saves no time, and more registers 1.4 %"
    assert groups == [e.plan.group] * 2, "of all groups the space is five times as large"
    every = {one.name for one in e.request.design.constraints}
    rejecting = {one.name for one in e.request.design.constraints if one.label in e.rejected}
    assert {"shared memory", "predicted to spill", "accumulators"} <= rejecting
    assert sorted(map(sorted, looked)) == sorted(map(sorted, (every - {"shared memory"}, every - {"predicted to spill", "accumulators"})))


def test_an_error_that_is_asked_for_is_predicted_once_for_each_scheme_and_interval(monkeypatch):
    """Of all policies and designs together."""
    asked = []
    predicted = contract.predicted
    monkeypatch.setattr(contract, "predicted", lambda *given: asked.append((given[0].name, *given[2:])) or predicted(*given))
    contract._reached.cache_clear()
    loaded = loads({"accuracy": {"as": "fp32"}, "target": {"gpu": "a100"}, "problem": {"k": 4321}})
    found = list(requests(loaded))
    assert len(found) > 10 and len(asked) == len(set(asked)) > 100
    assert [one.scheme for one in requests(loaded)] == [one.scheme for one in found] and len(asked) == len(set(asked))
    asked_of, ootomo, unit = replace(found[0].contract, data=("uniform",)), SCHEMES.get("ootomo"), found[0].unit
    coarse = unit.model_copy(update={"fraction_bits": 10})
    assert asked_of.times(ootomo, coarse, 64) > asked_of.times(ootomo, unit, 64), "of two units of one name"


def test_the_runner_up_is_another_kernel_and_no_faster():
    # Of the first the second best differs in what a compiler does not look at, of the other in its tile.
    for e in (explained("hopper"), road.explain({"problem": dict.fromkeys("mnk", 512), "split": {"scheme": "scaled"}, "target": {"gpu": "rtx4090"}})):
        choice, seconds = why.runner_up(e)
        assert e.runner.decided != e.best[0].decided and choice and seconds >= float(e.numbers["seconds"]) * 0.98
        assert any(word in choice for word in ("block", "stages", "warpgroup", "mma"))
    assert explaining._slower(1.04, 1.0) == "4 % slower" and explaining._slower(1.001, 1.0) == "as fast"


def test_a_smaller_products_choice_is_told_as_far_as_it_differs(monkeypatch):
    e = explained("sgemm_a100")
    asked = []

    def other(**changed):
        plan = SimpleNamespace(
            hash="another", decided={"stages": 9}, design=e.plan.design, scheme=e.plan.scheme, block=(16, 32, 64), model={"seconds": 3.0})
        return lambda loaded: asked.append(loaded) or SimpleNamespace(**{**vars(plan), **changed})

    monkeypatch.setattr(why, "_differing", lambda plan, decided: f"{len(decided)} decision")
    design, scheme = SimpleNamespace(name="another"), SimpleNamespace(name="mine")
    for changed, told in (({}, "1 decision"), ({"design": design}, "design another, block 16x32x64"), ({"scheme": scheme}, "scheme mine, 1 decision"),
                          ({"design": design, "scheme": scheme}, "scheme mine, design another, block 16x32x64")):
        monkeypatch.setattr(why, "solve", other(**changed))
        assert why.smaller(e) == [why.Change("a product of 1024 x 1024 x 1024", told, 3.0)]
    assert asked[-1].spec.problem.extents == (1024, 1024, 1024)
    monkeypatch.setattr(why, "solve", other(hash=e.plan.hash))
    assert why.smaller(e) == []

    def refuse(loaded):
        raise InfeasibleSpec("spec", "no")

    monkeypatch.setattr(why, "solve", refuse)
    assert why.smaller(e) == []


def test_what_would_change_a_choice():
    """More registers let a thread have two buffers on an A100; a smaller product gets another tile."""
    found = why.why(explained("sgemm_a100"))
    assert found.changes[0].what == "more registers a thread" and "2 fragment buffers" in found.changes[0].then
    assert found.changes[0].seconds < 0.98 * explained("sgemm_a100").numbers["seconds"]
    small = found.changes[-1]
    other = road.plan({"problem": dict.fromkeys("mnk", 1024), "split": {"scheme": "ootomo"}, "target": {"gpu": "a100"}})
    assert small.what == "a product of 1024 x 1024 x 1024" and f"group {other.group}" in small.then or str(other.block[0]) in small.then
    assert why.why(explained("batch_h200")).changes == ()


# ---- equations without what a reader skips


@pytest.mark.parametrize(("form", "folded"), [
    ("where(x > 0, 4, y * z)", "2 * 3"), ("x * y + z", "3"), ("y - x", "2"), ("x - y", "0 - 2"), ("o * y + z * o", "2 + 3"),
    ("max(x, where(y > 1, z, 9))", "max(0, 3)"), ("(y + z) * (y - x)", "(2 + 3) * 2"), ("y / o", "2 / 1"), ("x * (y + z)", "0"),
])
def test_folded_forms(form, folded):
    equation = Equation("", "s", form, "", "")
    numbers = {"x": 0, "y": 2, "z": 3, "o": 1}
    assert equation.folded(numbers) == folded and eval(folded, {"max": max}) == equation.value(numbers)


def test_the_whole_explanation_has_no_case_that_does_not_hold(gemmgen):
    told = gemmgen("explain", SPECS / "kernels" / "sgemm_a100.toml", "--full").out
    assert "where(0" not in told and " * 0 " not in told
    assert "slices of k: slices cost a way through L2; they are for tiles that leave SMs idle" in told, "a constraint's number has its sentence"


# ---- the page


class Outline(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "line", "rect", "circle"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("line", "rect", "circle"):
            assert self.open.pop() == tag


def test_a_page_stands_alone(gemmgen, tmp_path):
    ran = gemmgen("explain", SPECS / "kernels" / "sgemm_rtx4090.toml", "--html", tmp_path / "x.html")
    assert ran.out.endswith(f"wrote {tmp_path / 'x.html'}\n")
    text, seen = (tmp_path / "x.html").read_text(), Outline()
    seen.feed(text)
    assert not seen.open and not any({"src", "href"} & attrs.keys() for _, attrs in seen.tags), "it asks for nothing"
    assert [attrs["aria-label"] for tag, attrs in seen.tags if tag == "svg"] == ["roofline", "tiles"]
    assert 'class="verdict loses">use FP32: ' in text
    frames, points, lines = [[attrs for tag, attrs in seen.tags if tag == one] for one in ("rect", "circle", "line")]
    left, top, wide, high = (float(frames[0][one]) for one in ("x", "y", "width", "height"))  # of the roofline, whose frame comes first
    assert points and all(left < float(one["cx"]) < left + wide and top < float(one["cy"]) < top + high for one in points)
    assert lines and all(left - 1 < float(one[f"x{end}"]) < left + wide + 1 and top < float(one[f"y{end}"]) < top + high + 1 for one in lines for end in (1, 2))
    block, first, *_, instruction = frames[1:]
    assert {(one["x"], one["y"]) for one in (block, first, instruction)} == {("40.0", "24.0")}, "tiles begin at the block's corner"
    assert sum(tag == "details" for tag, _ in seen.tags) > 8 and sum(tag == "tr" for tag, _ in seen.tags) > 3


def test_what_comes_from_a_spec_is_text():
    assert "<script" not in page(explained("sgemm_a100"), "<script>alert(1)</script>") and "&lt;script&gt;" in page(explained("sgemm_a100"), "<script>")


def test_the_roofs_are_the_units():
    e = explained("sgemm_a100")
    assert roofs(e.plan, e.numbers) == pytest.approx({"FP32 units": 19.5, "matrix unit": 2e-12 * 108 * 1.3395e9 * 1024 / 3})
    assert list(roofs(explained("fp32_a100").plan, e.numbers)) == ["FP32 units"]
    drawn = roofline(e)
    top, low = (float(one) for one in re.findall(r'<text x="4" y="[0-9.]+">([^<]+)<', drawn))
    high = float(re.search(r'<rect [^>]*height="([0-9.]+)"', drawn)[1])
    _, fp32, matrix = (float(one) for one in re.findall(r'<line [^>]*y2="(-?[0-9.]+)"', drawn))
    lanes, unit = roofs(e.plan, e.numbers).values()
    assert (fp32 - matrix) / high == pytest.approx(math.log(unit / lanes) / math.log(top / low), rel=0.03), "as far apart as the axis says"
    *others, own = re.findall(r'<circle [^>]*r="([0-9]+)" fill="([^"]+)"', drawn)
    assert own == ("6", "#009E73") and others and set(others) == {("3", "#bbb")}, "the kernel stands out"


@pytest.mark.parametrize(("moved", "least"), [((2e9, 1e9), 3e9), ((2e9, 0.0), 2e9), ((1e6, 1e6), 4 * 3 * 4096**2)])
def test_the_roofline_reaches_eight_times_as_far_as_the_kernel(moved, least):
    """FLOP a byte of what kernel and split pass move, of each matrix once at least."""
    e = explained("sgemm_a100")
    known = dict(e.numbers) | dict(zip(("dram_bytes", "split_bytes"), moved))
    plan = replace(e.plan, hints=Hints(4096, 4096, 4096))
    drawn = roofline(SimpleNamespace(plan=plan, numbers=known, best=e.best))
    ridge = max(roofs(plan, known).values()) / (plan.gpu.rates.dram_gb_per_s * 1e-3)
    intensity = 2 * 4096**3 / least
    assert f'text-anchor="end">{8 * max(intensity, ridge):.3g}</text>' in drawn


# ---- the frontier


def test_a_scheme_of_ones_own_is_on_the_frontier(gemmgen, tmp_path, monkeypatch):
    (tmp_path / "mine.toml").write_text((SCHEMES.folder / "ootomo.toml").read_text().replace('name = "ootomo"', 'name = "mine"'))
    spec = tmp_path / "spec.toml"
    spec.write_text('[split]\nscheme = "mine.toml"\n[tile]\nblock = [64, 64, 32]\nwarp = [32, 32, 32]\n[target]\ngpu = "a100"\n')
    found = frontier(load(spec))
    mine = [point for point in found.points if point.scheme == "mine"]
    assert mine and {point.file for point in mine} == {"mine.toml"} and not any(point.file for point in found.points if point.scheme != "mine")
    assert {(point.promote, point.seconds) for point in mine} == {(point.promote, point.seconds) for point in found.points if point.scheme == "ootomo"}
    assert road.plan(spec_of(load(spec), mine[0])).scheme.name == "mine"
    monkeypatch.setattr(road, "frontier", {load(spec): found}.__getitem__)  # seconds, and found above
    assert "mine" in gemmgen("explain", spec, "--frontier").out


def test_the_frontiers_names_are_apart_and_each_nearest_to_its_own_point():
    pytest.importorskip("matplotlib")
    picture.drawing()
    import matplotlib.pyplot as plt

    points = [Point(f"scheme{at}", 0, "mma", {}, 1e-7 * (1 + (8 - at) / 10), 1.0, 1e-3 * (1 + at / 30), 1.0, word="f16") for at in range(8)]
    points += [replace(points[0], scheme="twin"), Point("slow", 0, "fma", {}, 2e-6, 1.0, 2e-3, 1.0, beaten_by="scheme0", word="f32"),
               Point("mine", 0, "mma", {}, 3e-6, 1.0, 1.5e-3, 1.0, beaten_by="scheme0", word="f16", file="mine.toml")]
    figure, axis = plt.subplots(figsize=(9, 6))
    labels = picture.drawn_frontier(axis, Frontier("a100", (64, 64, 64), "uniform", "", tuple(points), ()))
    texts = [one.get_text() for one in labels]
    assert "scheme0, twin" in texts and "mine" in texts and "slow" not in texts and len(texts) >= 8
    renderer = figure.canvas.get_renderer()
    boxes = [picture._text_box(one, renderer) for one in labels]
    assert not any(one.overlaps(other) for at, one in enumerate(boxes) for other in boxes[at + 1:])
    legend = axis.get_legend()
    assert {one.get_text() for one in legend.get_texts()} == {"FP16 words", "FP32 units", "your own scheme"}
    assert not any(legend.get_window_extent(renderer).overlaps(box) for box in boxes)
    plt.close(figure)


def test_frontier_alone_and_options_that_make_no_sense(gemmgen, tmp_path):
    spec = tmp_path / "spec.toml"
    spec.write_text('[tile]\nblock = [64, 64, 32]\n[fragment]\npolicy = "mma"\n[target]\ngpu = "t4"\n')
    assert gemmgen("explain", spec, "--frontier").out.startswith("frontier: every scheme on t4")
    assert gemmgen("explain", spec, spec, "--html", tmp_path / "x.html").code == 2
    assert loads({"target": {"gpu": "t4"}}).spec.split.scheme == "auto"
