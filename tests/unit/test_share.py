"""`bench --share`, and the page that a folder of such files becomes: what is in a file and what is not, how far each is believed, and hostile ones."""

from __future__ import annotations

import copy
import getpass
import json
import re
import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from explored import plans

from gemmgen import __version__
from gemmgen.catalog.table import parse
from gemmgen.errors import SpecError, UnknownName
from gemmgen.paths import SPECS
from gemmgen.workshop import bench as benching
from gemmgen.workshop.bench import BatchRow, Row, Table, share
from gemmgen.workshop.bench.share import Share, as_json, folder, load, page, standing

COMMUNITY = SPECS.parent / "docs" / "community"
SIZE = (1024, 1024, 1024)
PRIVATE = "/home/ada/secret_project"


def kernel(name: str = "gemmgen_ootomo_wgmma_64x64x64_01234567", size=None, scheme: str = "ootomo", gpu: str = "h200"):
    plan = SimpleNamespace(scheme=SimpleNamespace(name=scheme), gpu=SimpleNamespace(name=gpu), layout="nn")
    return benching.Kernel("secret_project", plan, SimpleNamespace(name=name), SimpleNamespace(compiler="NVRTC 13.3"), size)


def share_of(table: Table, kernels):
    return share.share_of(table, share.made(kernels))


def row(name: str, kind: str = "kernel", detail: str = "gemmgen_ootomo_wgmma_64x64x64_01234567", size=SIZE, seconds: float = 1e-4) -> Row:
    return Row(size, name, kind, detail, 11, seconds, (0.9 * seconds, 1.1 * seconds), 1.0, ratio=3.0, relative_frobenius=2.12345678e-7, max_error=1.0, scaled=1e-8,
               clock_mhz=1700.0, power_w=650.0)


def table(*rows: Row, **environment: str) -> Table:
    said = {"driver": "580.1", "CUDA driver": "13000", "CUDA runtime": "13020", "cuBLAS": "130100", "cupy": "14", "power limit": "700.00 W"} | environment
    return Table("NVIDIA H200", said, -1.0, 1.0, rows, (f"{PRIVATE}: passed over",))


USUAL = (row("secret_project"), row("secret_project, main kernel", "main"), row("cublas-sgemm", "rival", PRIVATE), row("cublas-f16/3", "derived"),
         row("gemmul8-8", "rival", "8 moduli, fast"))


def shared(**more) -> dict:
    """A file's content."""
    return json.loads(as_json(share_of(table(*USUAL), [kernel()])[0])) | more


def made(*kernels: tuple[str, tuple[int, int, int], float, float], **more) -> Share:
    """A share of these: (scheme, size, seconds, error)."""
    results = [{"m": m, "n": n, "k": k, "kind": "kernel", "name": f"gemmgen_{scheme}", "scheme": scheme, "layout": "nn", "seconds": seconds, "first": seconds,
                "third": seconds, "rounds": 9, "ratio": 2.0, "error": error} for scheme, (m, n, k), seconds, error in kernels]
    return Share.model_validate(shared(results=results, **more))


# ---- what is written


def test_a_share_has_times_errors_and_versions_and_nothing_else():
    """Names of specs, details of rivals, notes, what is derived and main kernels stay here; numbers have six digits."""
    found, notes = share_of(table(*USUAL), [kernel()])
    assert notes == [] and [(one.kind, one.name, one.scheme) for one in found.results] == [
        ("kernel", "gemmgen_ootomo_wgmma_64x64x64_01234567", "ootomo"), ("rival", "cublas-sgemm", ""), ("rival", "gemmul8-8", "")]
    assert (found.device, found.gpu, found.driver, found.cuda, found.cublas, found.compiler, found.power_limit, found.gemmgen) == (
        "NVIDIA H200", "h200", "580.1", "13020", "130100", "NVRTC 13.3", 700.0, __version__)
    first = found.results[0]
    assert (first.seconds, first.first, first.third, first.rounds, first.ratio, first.error) == (1e-4, 9e-5, 1.1e-4, 11, 3.0, 2.12346e-7)
    text = as_json(found)
    assert Share.model_validate(json.loads(text)) == found and text.count("\n  {") == 3
    assert set(json.loads(text)) == {"format", "gemmgen", "day", "device", "gpu", "driver", "cuda", "cublas", "compiler", "power_limit", "low", "high", "results"}
    for private in ("secret", "home", "ada", "/", socket.gethostname(), getpass.getuser(), str(Path.cwd())):
        assert not re.search(rf"\b{re.escape(private)}\b" if private.isalpha() else re.escape(private), text)


def test_kernels_of_ones_own_schemes_and_gpus_stay_here():
    rows = (*USUAL, row("mine", detail="gemmgen_mine_1"), row("other", detail="gemmgen_other_1"))
    found, notes = share_of(table(*rows), [kernel("gemmgen_other_1", gpu="mine"), kernel("gemmgen_mine_1", scheme="mine"), kernel()])
    assert found.gpu == "h200" and [one.name for one in found.results if one.kind == "kernel"] == ["gemmgen_ootomo_wgmma_64x64x64_01234567"]
    assert notes == ["mine is not shared: its scheme or GPU is your own", "other is not shared: its scheme or GPU is your own"]
    with pytest.raises(SpecError, match="has no kernel to share"):
        share_of(table(rows[-1]), [kernel("gemmgen_other_1", gpu="mine")])


def test_a_kernel_that_is_made_for_a_size_is_that_sizes():
    """With --solve-each-size and --vary one kernel may be there twice: it is shared once."""
    other = (2048,) * 3
    rows = (row("a"), row("a", size=other), row("b"), row("a", detail="gemmgen_half_1", size=other))
    found, _ = share_of(table(*rows), [kernel(size=SIZE), kernel("gemmgen_half_1", size=other, scheme="half"), kernel(size=other)])
    assert [(one.m, one.scheme) for one in found.results] == [(1024, "ootomo"), (2048, "ootomo"), (2048, "half")]


def test_what_the_machine_says_of_itself_is_shared_only_where_it_is_a_version():
    for field, said in (("driver", f"580 of {PRIVATE}"), ("CUDA runtime", "<b>13</b>"), ("cuBLAS", "x" * 50)):
        with pytest.raises(SpecError) as refusal:
            share_of(table(*USUAL, **{field: said}), [kernel()])
        assert refusal.value.where.startswith("--share")
    assert share_of(table(*USUAL, **{"power limit": "unknown"}), [kernel()])[0].power_limit is None


def test_the_command_writes_the_file_after_each_size(gemmgen, monkeypatch, tmp_path, write_spec):
    """An interrupted race leaves what it has; the file is only of single products."""
    path = tmp_path / "mine.json"

    def raced(kernels, sizes, *, measured, **how):
        measured(table(row("cublas-sgemm", "rival")))
        assert not path.exists(), "rivals alone are nothing to share"
        measured(table(*USUAL[:1]))
        assert len(load(path).results) == 1
        return table(*USUAL)

    monkeypatch.setattr(benching, "bench", raced)
    monkeypatch.setattr("gemmgen.workshop.bench.racers.racers", lambda *of: ([kernel()], []))
    spec = write_spec()
    ran = gemmgen("bench", spec, "--share", path)
    assert ran.code == 0 and len(load(path).results) == 3 and f"{path} may be shared" in ran.err
    assert str(spec) not in path.read_text() and spec.stem not in path.read_text()
    ran = gemmgen("bench", spec, "--share", path, "--frontier")
    assert ran.code == 2 and "--share" in ran.err


def test_a_title_that_names_another_row_is_no_claim():
    """Written or read; a title that names no row is held against the row that is claimed, and the standing says so."""
    for device, gpu in (("NVIDIA H200", "h100"), ("NVIDIA A100-SXM4-80GB", "a100"), ("NVIDIA H20", "h200")):
        with pytest.raises(SpecError, match=f"has kernels for {gpu}, timed on another GPU") as refusal:
            share_of(replace(table(*USUAL), device=device), [kernel(gpu=gpu)])
        assert refusal.value.got == device and refusal.value.remedy == f"--gpu {share.titled(device)}"
        with pytest.raises(SpecError, match="is not acceptable") as refusal:
            parse(Share, shared(device=device, gpu=gpu), "x.json")
        assert f'gpu = "{share.titled(device)}"' in refusal.value.needs
    assert share_of(replace(table(*USUAL), device="NVIDIA A100-SXM4-80GB"), [kernel(gpu="a100_80gb")])[0].gpu == "a100_80gb"
    unknown = made(("ootomo", SIZE, 1e-4, 2e-7), device="NVIDIA Q1")
    assert standing(unknown, [unknown]).endswith("; a GPU that no row describes, held against h200's data sheet")


# ---- batches, and a race that was run before


def batch(name: str, kind: str = "kernel", label: str = "module 8", number: int = 5, seconds: float = 2e-5, suite: str = "inception") -> BatchRow:
    return BatchRow(suite, label, number, (), None, None, 10**8, 10**6, name, kind, (seconds, 0.9 * seconds, 1.1 * seconds), 4.123456789e-6, 1.5e-7)


BATCHES = (batch("cublas-loop", "rival", seconds=9e-5), batch("torch-bmm-padded", "rival", seconds=5e-5), batch("secret_project"),
           batch("secret_project-8", seconds=1e-5), batch("mixed", seconds=1e-5))


def test_batches_are_shared_by_suite_and_kernel():
    """Contenders that are no kernel as it is built stay here: their names would be a spec's, and they are made by options."""
    found, notes = share_of(table(*BATCHES), [kernel()])
    assert notes == [f"{name} is not shared: it is no kernel as it is built" for name in ("secret_project-8", "mixed")]
    assert [(one.name, one.scheme, one.suite, one.label, one.batch) for one in found.batches] == [
        (name, scheme, "inception", "module 8", 5) for name, scheme in (("cublas-loop", ""), ("torch-bmm-padded", ""), (
            "gemmgen_ootomo_wgmma_64x64x64_01234567", "ootomo"))]
    one = found.batches[2]
    assert (one.seconds, one.first, one.third, one.rounds, one.host, one.error) == (2e-5, 1.9e-5, 2.1e-5, 3, 4.12346e-6, 1.5e-7) and not found.results
    text = as_json(found)
    assert Share.model_validate(json.loads(text)) == found and text.count("\n  {") == 3 and "secret" not in text and '"captured"' not in text
    with pytest.raises(SpecError, match="has no kernel to share"):
        share_of(table(*BATCHES), [kernel(scheme="mine")])


@pytest.mark.parametrize("change", [{"suite": "mine"}, {"label": "<b>"}, {"batch": 6}, {"host": float("inf")}, {"error": -1.0}, {"name": "gemmgen_x`"}], ids=str)
def test_a_batch_that_no_suite_has_is_refused(change):
    value = json.loads(as_json(share_of(table(*BATCHES), [kernel()])[0]))
    parse(Share, value, "x.json")
    value["batches"][2] |= change
    with pytest.raises(SpecError):
        parse(Share, value, "x.json")


def test_a_share_is_of_products_or_of_batches():
    value = json.loads(as_json(share_of(table(*BATCHES), [kernel()])[0]))
    for wrong in (value | {"results": shared()["results"]}, value | {"batches": []}, value | {"batches": 2 * value["batches"]}):
        with pytest.raises(SpecError):
            parse(Share, wrong, "x.json")


def test_the_page_has_the_fastest_kernel_of_each_batch_beside_the_fastest_rival():
    """Batches replayed from graphs are another table, and neither confirm nor contest those of programs."""
    def of(seconds: float, captured: bool = False) -> Share:
        rows = (*BATCHES[:2], batch("secret_project", seconds=seconds), batch("secret_project", label="module 2", number=3, seconds=1e-3))
        return share.share_of(table(*rows), share.made([kernel()], captured))[0]

    usual, near, replayed = of(2e-5), of(2.02e-5), of(1e-5, True)
    assert standing(usual, [usual, near, replayed]) == "confirmed by 1 other" and standing(replayed, [usual, replayed]) == "the only one of its kernels"
    lines = page([usual, near, replayed, made(("ootomo", SIZE, 1e-4, 2e-7))]).splitlines()
    flops = share._cells()["inception", "module 8", 5].flops
    assert (f"| inception module 8 x 5 | {1e-9 * flops / 2.01e-5:.0f} | 20.1 | 2.49 | torch-bmm-padded | 1.5e-07 | ootomo | 2 "
            "| `gemmgen_ootomo_wgmma_64x64x64_01234567` |") in lines
    tables = [number for number, line in enumerate(lines) if line.startswith(("| batch |", "| batch, from CUDA graphs |", "| m x n x k |"))]
    assert [lines[at].split("|")[1].strip() for at in tables] == ["m x n x k", "batch", "batch, from CUDA graphs"]
    assert [line.split("|")[1].strip() for line in lines[tables[1] + 2:tables[1] + 4]] == ["inception module 2 x 3", "inception module 8 x 5"]
    assert "| 1000 |  |  |" in lines[tables[1] + 2], "no rival ran there"
    assert sum("| 1 | 2 batches | [-1, 1] |" in line for line in lines) == 3
    slower = json.loads(as_json(usual))
    slower["batches"][2] |= {"name": "gemmgen_other", **{name: 1.5 * slower["batches"][2][name] for name in ("seconds", "first", "third")}}
    for some in (shares := [usual, Share.model_validate(slower)], shares[::-1]):
        [line] = [line for line in page(some).splitlines() if line.startswith("| inception module 8 x 5 |")]
        assert line.endswith("| 1 | `gemmgen_ootomo_wgmma_64x64x64_01234567` |")
    wild = of(1e-9 * 20)
    assert standing(wild, [wild]).startswith("not plausible: ") and "at inception module 8 x 5" in standing(wild, [wild])


@pytest.mark.parametrize("rows", [USUAL, BATCHES], ids=["products", "batches"])
def test_a_race_that_was_run_before_is_shared_from_its_file(gemmgen, monkeypatch, tmp_path, write_spec, rows):
    """As it would have been then: with the day and the version of the race, without a GPU, and without the spec's name."""
    from gemmgen.workshop.bench import measure

    monkeypatch.setattr(measure, "require_gpu", lambda where: pytest.fail("a GPU was asked for"))
    raced = lambda *of, measured, **how: measured(table(*rows)) or table(*rows)  # noqa: E731
    monkeypatch.setattr(benching, "bench", raced)
    monkeypatch.setattr(benching, "bench_batches", raced)
    one = kernel()
    monkeypatch.setattr("gemmgen.workshop.bench.racers.racers", lambda *of: ([one], []))
    monkeypatch.setattr("gemmgen.workshop.bench.racers.batch_racers", lambda *of: ({"secret_project": SimpleNamespace(as_built=one), "mixed": object()}, []))
    more = ["--suite", "inception", "--captured"] if rows is BATCHES else []
    ran = gemmgen("bench", write_spec(), *more, "--out", tmp_path, "--share", tmp_path / "then.json", "--quiet")
    assert ran.code == 0
    then, source = load(tmp_path / "then.json"), tmp_path / ("batches.json" if rows is BATCHES else "bench.json")
    assert then.captured == (rows is BATCHES) and len(then.timed) == 3
    kept = json.loads(source.read_text())
    kept["made"] |= {"gemmgen": "0.0.9", "day": "2026-01-02"}
    source.write_text(json.dumps(kept))
    ran = gemmgen("bench", source, "--share", tmp_path / "now.json")
    assert ran.code == 0 and f"wrote {tmp_path / 'now.json'}" in ran.out
    assert load(tmp_path / "now.json") == then.model_copy(update={"gemmgen": "0.0.9", "day": "2026-01-02"})
    for words, got in ((["--rounds", 3], "--rounds"), ([source], "2 SPECs")):
        ran = gemmgen("bench", source, "--share", tmp_path / "no.json", *words)
        assert ran.code == 2 and got in ran.err and f"gemmgen bench {source} --share" in ran.err and not (tmp_path / "no.json").exists()
    ran = gemmgen("bench", source)
    assert ran.code == 2 and "no --share" in ran.err
    for wrong in ({key: kept[key] for key in kept if key != "made"}, kept | {"rows": [{"suite": 1}]}, kept | {"rows": [{"size": 1}]}, kept | {"low": "x"},
                  kept | {"low": float("nan")}, kept | {"high": float("inf")}, kept | {"low": -0.5}, kept | {"high": [1]},
                  kept | {"device": 3}, kept | {"made": {**kept["made"], "kernels": 3}}, kept | {"made": {**kept["made"], "day": "today"}}, [1]):
        source.write_text(json.dumps(wrong))
        ran = gemmgen("bench", source, "--share", tmp_path / "no.json")
        assert ran.code == 2 and "error" in ran.err and not (tmp_path / "no.json").exists(), wrong


@pytest.mark.parametrize(("contenders", "got"), [({}, "no kernel as it is built"), ({"mixed": object()}, "no kernel as it is built"),
                                                 ({"mine": SimpleNamespace(as_built=kernel(scheme="mine"))}, "mine")])
def test_what_cannot_be_shared_is_said_before_the_race(gemmgen, monkeypatch, tmp_path, write_spec, contenders, got):
    monkeypatch.setattr(benching, "bench_batches", lambda *of, **how: pytest.fail("raced"))
    monkeypatch.setattr(benching, "bench", lambda *of, **how: pytest.fail("raced"))
    monkeypatch.setattr("gemmgen.workshop.bench.racers.batch_racers", lambda *of: (contenders, []))
    monkeypatch.setattr("gemmgen.workshop.bench.racers.racers", lambda *of: ([kernel(scheme="mine")], []))
    ran = gemmgen("bench", write_spec(), "--suite", "inception", "--share", tmp_path / "x.json")
    assert ran.code == 2 and "has no kernel to share" in ran.err and got in ran.err and "gemmgen bench batch_h200 --share" in ran.err
    ran = gemmgen("bench", write_spec(), "--share", tmp_path / "x.json")
    assert ran.code == 2 and "has no kernel to share" in ran.err and "secret_project" in ran.err


# ---- what is read


@pytest.mark.parametrize("change", [
    {"format": "gemmgen-share 2"}, {"device": "<script>alert(1)</script>"}, {"device": "[x](https://example.com)"}, {"device": "a | b"}, {"driver": "`x`"},
    {"compiler": "NVRTC\n# title"}, {"gpu": "../../etc/passwd"}, {"day": "2026-13-40"}, {"day": "2026-02-30"}, {"host": "here"}, {"results": []},
    {"power_limit": float("inf")}, {"low": -2}, {"device": "NVIDIA H200\n"},
], ids=str)
def test_a_file_that_could_not_have_been_written_is_refused(change, tmp_path):
    (tmp_path / "x.json").write_text(json.dumps(shared(**change)))
    with pytest.raises((SpecError, UnknownName)) as refusal:
        folder(tmp_path)
    assert refusal.value.where.startswith("x.json"), "its name, and not where it lies"


@pytest.mark.parametrize("change", [
    {"name": "</td><img src=x>"}, {"name": "gemmgen_x`y"}, {"name": "Gemmgen"}, {"name": "cublas-sgemm"}, {"kind": "rival"}, {"kind": "main"}, {"seconds": 0.0},
    {"seconds": float("nan")}, {"seconds": "1"}, {"m": 0}, {"m": 2**31}, {"error": -1.0}, {"scheme": "'; drop table x"}, {"layout": "xx"}, {"path": PRIVATE},
], ids=str)
def test_a_result_that_could_not_have_been_written_is_refused(change, tmp_path):
    value = shared()
    value["results"][0] |= change
    (tmp_path / "x.json").write_text(json.dumps(value))
    with pytest.raises((SpecError, UnknownName)):
        folder(tmp_path)


def test_files_that_are_none(tmp_path):
    for text in ("", "[]", "{", "[" * 100_000, '{"format": 1}', "\xff"):
        (tmp_path / "x.json").write_text(text, encoding="latin-1")
        with pytest.raises(SpecError):
            folder(tmp_path)
    (tmp_path / "x.json").write_text(" " * (share.MOST_BYTES + 1))
    with pytest.raises(SpecError, match="cannot be read as shared results"):
        folder(tmp_path)
    twice = shared()
    twice["results"] += copy.deepcopy(twice["results"][:1])
    (tmp_path / "x.json").write_text(json.dumps(twice))
    with pytest.raises(SpecError, match="is not acceptable"):
        folder(tmp_path)


# ---- how far it is believed


def test_standings_by_hand():
    usual = ("ootomo", SIZE, 1e-4, 2e-7)
    mine = made(usual)
    copied = made(usual, day="2026-01-01")
    near, far, another = made(("ootomo", SIZE, 1.04e-4, 2e-7)), made(("ootomo", SIZE, 1.5e-4, 2e-7)), made(("half", SIZE, 1e-4, 2e-4))
    elsewhere = made(("ootomo", (512,) * 3, 1e-4, 2e-7))
    assert standing(mine, [mine, copied, another, elsewhere]) == "the only one of its kernels"
    assert standing(mine, [mine, near]) == "confirmed by 1 other" and standing(mine, [mine, near, near, far]) == "confirmed by 2 others"
    assert standing(mine, [mine, far]) == "contested: 33 % faster than 1 other" and standing(far, [mine, far]) == "contested: 50 % slower than 1 other"
    old = made(usual, gemmgen="0.0.9")
    assert standing(old, [old]) == f"the only one of its kernels; of another version than {__version__}"
    wild = made(("ootomo", (4096,) * 3, 1e-5, 2e-7))
    assert standing(wild, [wild]).startswith("not plausible: 42 times the data sheet's rate at 4096 x 4096 x 4096; ")


def test_rivals_agree_everywhere_and_confirm_nothing():
    one, other = shared(), shared()
    other["results"] = [result | {"seconds": 1.01 * result["seconds"], "name": "gemmgen_other" if result["kind"] == "kernel" else result["name"]}
                        for result in other["results"]]
    mine = Share.model_validate(one)
    assert standing(mine, [mine, Share.model_validate(other)]) == "the only one of its kernels"


def test_the_page_has_each_gpu_and_the_fastest_kernel_with_fp32s_error():
    """Its time is the median of the files that have it; a faster kernel without FP32's error stands where no other is."""
    shares = [made(("ootomo", SIZE, seconds, 2e-7), ("half", SIZE, 1e-5, 2e-4), ("half", (64, 64, 64), 1e-5, 2e-4)) for seconds in (1e-4, 1.1e-4, 5e-4)]
    text = page([*shares, made(("ootomo", SIZE, 1e-3, 2e-7), device="NVIDIA A100-SXM4-40GB", gpu="a100", power_limit=None)])
    assert [line for line in text.splitlines() if line.startswith("###")] == ["### NVIDIA A100-SXM4-40GB", "### NVIDIA H200"]
    lines = text.partition("### NVIDIA H200")[2].splitlines()
    assert "| 1024 x 1024 x 1024 | 19.5 | 110 | 2.00 | 2.0e-07 | ootomo | 3 | `gemmgen_ootomo` |" in lines
    assert "| 64 x 64 x 64 | 0.0524 | 10 | 2.00 | 2.0e-04 | half | 3 | `gemmgen_half` |" in lines
    assert [sum(word in line for line in lines) for word in ("| confirmed by 1 other |", "| contested: ")] == [2, 1]
    assert page([]) == "No results yet."


@pytest.mark.parametrize("error", [2e-4, None])
def test_a_kernel_has_fp32s_error_where_all_files_say_so(error):
    """One file has it with FP32's error, another with a larger one or none: the slower kernel with FP32's error in all files leads."""
    shares = [made(("ootomo", SIZE, 1e-4, 2e-7), ("half", SIZE, 1e-5, 2e-7)), made(("ootomo", SIZE, 1e-4, 2e-7), ("half", SIZE, 1e-5, error))]
    for some in (shares, shares[::-1]):
        [line] = [line for line in page(some).splitlines() if line.startswith("| 1024 x 1024 x 1024 |")]
        assert line.endswith("| ootomo | 2 | `gemmgen_ootomo` |")


def test_files_of_one_kernel_count_by_their_median_time_and_their_largest_error():
    found = [made(("ootomo", SIZE, seconds, error), ("half", SIZE, 2e-4, 2e-7)) for seconds, error in ((1e-4, 1e-7), (9e-4, 3e-7), (1.1e-4, 2e-7))]
    [line] = [line for line in page(found).splitlines() if line.startswith("| 1024 x 1024 x 1024 |")]
    assert "| 110 |" in line and line.endswith("| 3.0e-07 | ootomo | 3 | `gemmgen_ootomo` |")


def test_a_time_that_is_not_plausible_leads_no_table():
    """The other results of its file count."""
    wild = made(("ootomo", (4096,) * 3, 1e-5, 2e-7), ("ootomo", SIZE, 1e-4, 2e-7))
    lines = page([wild]).splitlines()
    assert any("not plausible: 42 times" in line for line in lines)
    assert any(line.startswith("| 1024 x 1024 x 1024 |") for line in lines) and not any(line.startswith("| 4096 x 4096 x 4096 |") for line in lines)
    [line] = [line for line in page([wild, made(("ootomo", (4096,) * 3, 1e-3, 2e-7))]).splitlines() if line.startswith("| 4096 x 4096 x 4096 |")]
    assert "| 1000 |" in line and "| 1 | `gemmgen_ootomo` |" in line


def test_the_files_of_the_site_are_sound():
    found = folder(COMMUNITY)
    assert found and all(word not in page(found) for word in ("not plausible", "<", "](", "\\"))
    assert (COMMUNITY.parent / "community.md").read_text().count("<!-- results by GPU -->") == 1


def test_a_shared_kernels_name_is_its_plans():
    """Names of real kernels are acceptable."""
    from gemmgen.naming import kernel_name

    assert all(re.fullmatch(share.NAME, kernel_name(plan)) for plan in plans(few=2)) and all(
        re.fullmatch(share.RIVAL, name) for name in (*benching.BASELINES, "gemmul8-8-accurate"))
