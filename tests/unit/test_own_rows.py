"""Stores name rows, never files: paths planted in them open nothing, and what a study brings of its own travels with its trials."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from math import inf
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

from explored import plans, sizes, timed

from gemmgen import cache
from gemmgen.errors import GemmgenError, SpecError
from gemmgen.paths import SPECS
from gemmgen.spec import loads
from gemmgen.workshop import explore
from gemmgen.workshop.explore import own_rows
from gemmgen.workshop.explore import report as reporting
from gemmgen.workshop.explore.headline import verdict_of
from gemmgen.workshop.explore.own_rows import gpu_of, kept, row_name, without_paths
from gemmgen.workshop.explore.rebuilt import plan_of, spec_of, timed_whole
from gemmgen.workshop.explore.running import Running
from gemmgen.workshop.explore.store import Store, Writer
from gemmgen.workshop.explore.trial_row import Row, told
from gemmgen.workshop.explore.workers import OneProcess


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    """A cache folder of the test's own, no GPU, and neither JavaScript nor whole texts of kernels in reports."""
    monkeypatch.setenv("GEMMGEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(explore.running, "compiler_name", lambda arch: "none")
    monkeypatch.setattr(reporting, "_plotly", lambda: "plotly()")
    monkeypatch.setattr("gemmgen.render.render", lambda plan: SimpleNamespace(text=f"text of {plan.scheme.name} on {plan.gpu.name}"))
    own_rows._files_of.cache_clear()
    own_rows._laid.cache_clear()


def copied(folder: Path, kind: str, shipped: str, name: str, *changes: tuple[str, str]) -> Path:
    """A shipped row under another name."""
    text = (SPECS / kind / f"{shipped}.toml").read_text().replace(f'name = "{shipped}"', f'name = "{name}"')
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def own_study(folder: Path) -> Path:
    """A study of a scheme, a GPU and a matrix unit of one's own, all called `mine`, with half the SMs of an A100."""
    copied(folder / "schemes", "schemes", "half", "mine")
    unit = copied(folder / "units", "units", "ampere", "mine")
    half = ("sms = 108", "sms = 54"), ("312.0", "156.0"), ("= 19.5", "= 9.75")
    copied(folder / "gpus", "gpus", "a100", "mine", *half, ('matrix_unit = "ampere"', f"matrix_unit = '{unit}'"))
    path = folder / "own.toml"
    path.write_text('[study]\nname = "own"\ngpus = ["gpus/mine.toml"]\nsizes = [512]\ntrials = 3\ncompile = false\n\n[space.split]\n'
                    'scheme = "schemes/mine.toml"\n\n[space.tile]\nblock = [128, 128, 32]\nwarp = [64, 64, 32]\n')
    return path


@pytest.fixture
def tried(tmp_path):
    """(the store of such a study, its plans by hash), whose folder of files is gone."""
    found = explore.study(own_study(tmp_path / "of ada")).candidates()
    Running(found, tmp_path / "store", OneProcess()).run()
    hashes = {found.plan(at).hash for at in found.order[:3].tolist()}
    shutil.rmtree(tmp_path / "of ada")
    own_rows.GPUS._load.cache_clear()
    return tmp_path / "store", hashes


def test_a_studys_own_rows_travel_with_its_trials(tried, gemmgen, tmp_path):
    """Names and texts are kept, no path; plans, times and texts of kernels are the study's own, by every reader."""
    store, hashes = tried
    every = Store(store).rows()
    rows = [row for row in every if row.kind == "kernel"]
    assert {(row.scheme, row.gpu) for row in rows} == {("mine", "mine")} and {row.gpu for row in every if row.kind == "space"} == {"mine"}
    assert "of ada" not in "".join(json.dumps(row.as_dict(), default=str) for row in every)
    assert {plan_of(row).hash for row in rows} == {row.identity for row in rows} == hashes
    assert gpu_of(rows[0]).rates.sms == 54 and gpu_of(rows[0]).unit.name == "mine" and plan_of(rows[0]).scheme.name == "mine"
    for what in ("scheme", "gpu"):
        path = Path(spec_of(rows[0])[{"scheme": "split", "gpu": "target"}[what]][what])
        assert path.is_relative_to(tmp_path / "cache") and path.name == "mine.toml"
    verdict = verdict_of(rows[0], {})
    assert verdict and verdict.fp32_seconds > 1.5 * verdict_of(replace(rows[0], gpu="a100", extra="{}"), {}).fp32_seconds, "of half the SMs"
    assert "does not make it" not in (page := reporting.report(rows, against=reporting.Against(rows, "other"))) and "text of mine on mine" in page
    ran = gemmgen("study", "choose", store, "--kernels", 1, "--held-out", 0, "-o", tmp_path / "table.json")
    assert ran.code == 0, ran.err
    [kernel] = json.loads((tmp_path / "table.json").read_text())["kernels"].values()
    assert kernel["gpu"] == "mine" and kernel["identity"] in hashes


def test_an_own_scheme_of_a_shipped_gpu_and_no_file_at_all(tmp_path):
    copied(tmp_path, "schemes", "half", "mine")
    loaded = loads({"split": {"scheme": "mine.toml"}, "target": {"gpu": "a100"}}).model_copy(update={"folder": tmp_path})
    assert kept(loaded) == {"scheme": "0/mine.toml", "files": {"0/mine.toml": (tmp_path / "mine.toml").read_text()}}
    assert kept(loads({"split": {"scheme": "half"}})) == {} and (row_name("a/b.toml"), row_name("half")) == ("b", "half")
    spec = {"split": {"scheme": "/x/y.toml", "fallback": "z.toml", "promote": 3}, "target": {"gpu": "q/w.toml"}}
    assert without_paths(spec) == {"split": {"scheme": "y", "fallback": "z", "promote": 3}, "target": {"gpu": "w"}}
    assert spec["split"]["scheme"] == "/x/y.toml"


def test_a_prose_that_names_an_effort_is_no_short_timing():
    [row] = timed(plans(few=1), sizes(1), rival=None)
    assert timed_whole(replace(row, extra=told({"own": {"files": {"0/mine.toml": 'source = "effort"'}}})))
    assert not timed_whole(replace(row, extra=told({"effort": 0.1})))


def test_files_are_laid_again_where_the_cache_has_others_or_none(tried, monkeypatch, tmp_path):
    row = next(row for row in Store(tried[0]).rows() if row.kind == "kernel")
    [place] = {path.parents[1] for path in (Path(spec_of(row)["split"]["scheme"]),)}
    (place / "0" / "mine.toml").write_text("changed")
    own_rows._files_of.cache_clear()
    own_rows._laid.cache_clear()
    other = Path(spec_of(row)["split"]["scheme"])
    assert other.exists() and not other.is_relative_to(place)
    for folder in (None, Path("/proc/none")):
        monkeypatch.setattr(own_rows, "folder", lambda folder=folder: folder)
        own_rows._files_of.cache_clear()
        own_rows._laid.cache_clear()
        assert Path(spec_of(row)["split"]["scheme"]).exists()
    assert cache.folder() == tmp_path / "cache"


# ---- what others planted


PLANTED = ["{trap}", "../{name}", "trap.toml", "/etc/passwd", "/dev/zero.toml", "specs/gpus/h200", "<img src=x>.toml",
           "'; DROP TABLE trials; --.toml", "a\0.toml", "a" * 100_000 + ".toml", "\x1b[31m.toml", "file:///etc/passwd.toml", ""]


def planted(trap: Path) -> list[str]:
    return [one.format(trap=trap, name=trap.name) if "{" in one else one for one in PLANTED]


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """A sound file of a scheme and of a GPU that nobody may open: (scheme, GPU), in the current folder too."""
    for kind, shipped in (("schemes", "half"), ("gpus", "a100")):
        copied(tmp_path / kind, kind, shipped, "trap")
    monkeypatch.chdir(tmp_path / "gpus")
    opened: list[str] = []
    real = own_rows.GPUS.__class__._load_path

    def watched(table, path):
        if not (path.is_relative_to(SPECS) or path.is_relative_to(tmp_path / "cache")):
            opened.append(str(path))
        return real(table, path)

    from gemmgen.catalog.scheme import SCHEMES

    for table in (own_rows.GPUS, SCHEMES):
        monkeypatch.setattr(table, "_load", lambda path, table=table: watched(table, path))
    yield tmp_path / "schemes" / "trap.toml", tmp_path / "gpus" / "trap.toml"
    assert not opened


def usual() -> Row:
    return timed(plans(few=1), [(256, 256, 256)], rival=None)[0]


def test_no_path_of_a_row_is_opened(trap):
    for scheme in planted(trap[0]):
        for row in (replace(usual(), scheme=scheme), replace(usual(), scheme="", spec=told({"split": {"scheme": scheme}})),
                    replace(usual(), spec=told({"split": {"fallback": scheme}}))):
            if not scheme and row.scheme == scheme and "fallback" not in row.spec:
                continue  # without a scheme the model chooses one
            with pytest.raises(GemmgenError) as refusal:
                plan_of(row)
            assert len(str(refusal.value)) < 3000 and "\x1b" not in str(refusal.value) and refusal.value.needs
    for gpu in planted(trap[1]):
        row = replace(usual(), gpu=gpu)
        for ask in (plan_of, gpu_of, spec_of):
            with pytest.raises(SpecError, match="by what is no name") as refusal:
                ask(row)
            assert refusal.value.got == gpu and "never a path" in refusal.value.needs and refusal.value.remedy == "gemmgen list gpus"
        assert verdict_of(row, {}) is None
    for key, value in (("policy", "x.toml"), ("design", str(trap[0])), ("spec", told({"target": {"gpu": str(trap[1])}, "verify": {"x": 1}}))):
        changed = replace(usual(), **{key: value})
        if key == "spec":
            assert plan_of(changed).gpu.name == "h200"  # the column counts
        else:
            with pytest.raises(GemmgenError):
                plan_of(changed)


def filled(folder: Path, rows) -> Path:
    with Writer(folder, batch_rows=1000, batch_seconds=inf) as writer:
        for at, row in enumerate(rows):
            writer.add(replace(row, trial=f"t{at}"))
    return folder


def test_every_reader_of_a_store_with_planted_paths(trap, gemmgen, tmp_path):
    """All questions, the report beside another, choose and learn; right rows beside planted ones are answered, and nothing is written elsewhere."""
    right = timed(plans(few=2), sizes(3), rival=None)
    bad = [replace(usual(), gpu=gpu) for gpu in planted(trap[1])]
    bad += [replace(usual(), scheme=scheme, identity=f"s{at}") for at, scheme in enumerate(planted(trap[0]))]
    bad += [replace(usual(), extra=told({"own": {"gpu": str(trap[1]), "files": {str(trap[1]): ""}}}), identity="own")]
    store = filled(tmp_path / "store", [*right, *bad])
    other = filled(tmp_path / "other", bad)
    verbs = [("study", "ask", store, f"--{name}") for name in ("best", "frontier", "model", "first-choice", "verdicts")]
    verbs += [("study", "report", store, "-o", tmp_path / "x.html", "--against", other), ("study", "learn", store, "--gpu", "h200"),
              ("study", "choose", store, "--kernels", 2, "--held-out", 0, "-o", tmp_path / "x.json")]
    for verb in verbs:
        ran = gemmgen(*verb)
        assert ran.code == 0 and "\x1b" not in ran.out + ran.err and "Traceback" not in ran.err, (verb, ran.err[-2000:])
    assert "are left out: names a gpu by what is no name" in ran.err + ran.out
    assert {kernel["gpu"] for kernel in json.loads((tmp_path / "x.json").read_text())["kernels"].values()} == {"h200"}
    page = (tmp_path / "x.html").read_text()
    assert "<img src=x>" not in page and "does not make it: names a scheme by what is no name" in page
    ran = gemmgen("study", "choose", other, "--kernels", 1)
    assert ran.code == 2 and "has no kernel" in ran.err or "no name" in ran.err
    assert not (tmp_path / "cache" / "rows").exists()


def test_files_that_name_one_another_are_kept_once_each(tmp_path):
    """In a circle too, and two of one name; the quotes of a name are as they were."""
    (tmp_path / "other").mkdir()
    for place, text in (("a.toml", 'x = ["other/a.toml", "b.toml"]'), ("b.toml", "x = 'a.toml'"), ("other/a.toml", 'y = "../b.toml"')):
        (tmp_path / place).write_text(text)
    found = own_rows._kept((("scheme", tmp_path / "a.toml"), ("gpu", tmp_path / "b.toml"), ("fragment", tmp_path / "a.toml")))
    named = {name: found[name] for name in ("scheme", "gpu", "fragment")}
    assert named == {"scheme": "0/a.toml", "gpu": "1/b.toml", "fragment": "0/a.toml"}
    assert found["files"] == {"0/a.toml": 'x = ["../2/a.toml", "../1/b.toml"]', "1/b.toml": "x = '../0/a.toml'", "2/a.toml": 'y = "../1/b.toml"'}
    assert own_rows._kept(()) == {}


FOREIGN = {
    "no object": 5, "no files": {"scheme": "0/mine.toml"}, "empty": {"scheme": "0/mine.toml", "files": {}}, "of nothing": {"files": {"0/mine.toml": ""}},
    "out of its folder": {"scheme": "../mine.toml", "files": {"../mine.toml": ""}}, "from the root": {"scheme": "/mine.toml", "files": {"/mine.toml": ""}},
    "another key": {"scheme": "1/mine.toml", "files": {"0/mine.toml": ""}}, "no text": {"scheme": "0/mine.toml", "files": {"0/mine.toml": 5}},
    "no unicode": {"scheme": "0/mine.toml", "files": {"0/mine.toml": "\ud800"}}, "too large": {"scheme": "0/mine.toml", "files": {"0/mine.toml": "#" * 70_000}},
    "too many": {"scheme": "0/mine.toml", "files": {f"{at}/mine.toml": "" for at in range(9)}},
    "one of two out of its folder": {"scheme": "0/mine.toml", "files": {"0/mine.toml": "", "../mine.toml": ""}},
    "one of two too large": {"scheme": "0/mine.toml", "files": {"0/mine.toml": "", "1/mine.toml": "#" * 70_000}},
    "a line more": {"scheme": "0/mine.toml\n", "files": {"0/mine.toml\n": ""}}, "a list": {"scheme": ["0/mine.toml"], "files": {"0/mine.toml": ["x"]}},
}


@pytest.mark.parametrize("own", FOREIGN)
def test_files_that_no_study_keeps_are_refused(own, tmp_path):
    row = replace(usual(), extra=told({"own": FOREIGN[own]}))
    with pytest.raises(SpecError, match="own: is nothing that a study keeps") as refusal:
        spec_of(row)
    assert refusal.value.where.startswith(f"row {row.trial}") and refusal.value.needs
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_a_row_may_bring_eight_files_of_64_kib(tmp_path):
    files = {f"{at}/mine.toml": "#" * own_rows.MOST_BYTES if at == 5 else "" for at in range(8)}
    found = own_rows._files_of(told({"own": {"scheme": "0/mine.toml", "gpu": "5/mine.toml", "files": files}}))
    assert [found[what].read_text() == files[key] for what, key in (("scheme", "0/mine.toml"), ("gpu", "5/mine.toml"))] == [True, True]
    assert own_rows.MOST_BYTES == 1 << 16 and found["gpu"].is_relative_to(tmp_path / "cache" / "rows")


def test_what_a_row_brings_refers_to_nothing_else(trap):
    """Nor does it stand for a row of another name, and a file that is no row is refused by its table."""
    text = (SPECS / "gpus" / "a100.toml").read_text().replace('name = "a100"', 'name = "mine"')

    def brings(text: str, gpu: str = "mine", what: str = "gpu") -> Row:
        return replace(usual(), gpu=gpu, extra=told({"own": {what: "0/mine.toml", "files": {"0/mine.toml": text}}}))

    assert gpu_of(brings(text)).name == "mine"
    for name in ("/etc/unit.toml", str(trap[1]), "../../../trap.toml", "trap.toml"):
        for before, after in (('matrix_unit = "ampere"', f'matrix_unit = "{name}"'), ('vendor = "nvidia"', f'vendor = "nvidia"\ngeneration = "{name}"')):
            change = text.replace(before, after)
            with pytest.raises(SpecError, match="refers to a file that the row does not bring") as refusal:
                gpu_of(brings(change))
            assert refusal.value.got == name
    assert gpu_of(brings(text, "h200")).rates.sms == 132, "its name is another's: that one is shipped"
    for wrong in ("name = 5", "[", 'name = "other"', text.replace("sms = 108", "sms = -1"), "a = 1\0"):
        with pytest.raises(SpecError):
            gpu_of(brings(wrong))
