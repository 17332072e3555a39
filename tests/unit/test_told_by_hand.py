"""What rooms tell and pass on, by hand: every branch of the functions between the command line and the kernels, with stand-ins for what takes time."""

from __future__ import annotations

import ctypes
import importlib
import io
import json
import os
import pickle
import re
import sys
import warnings
from contextlib import nullcontext
from dataclasses import fields, replace
from inspect import signature
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import gemmgen.verify as judging
from gemmgen import demo, errors, export as exporter, road, timing
from gemmgen.batch import PROBLEM
from gemmgen.catalog.element import F32
from gemmgen.catalog.fragment import find
from gemmgen.catalog.generation import standing
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.input import INPUTS
from gemmgen.catalog.output import USUAL
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.catalog.vendor import VENDORS
from gemmgen.cli import explain, output, show
from gemmgen.cli.inputs import batch_sizes, numbers_of, problem_sizes
from gemmgen.errors import DeviceError, GemmgenError, NotEmulated, SpecError, UnknownName
from gemmgen.export import batch as of_exports, contents, prose
from gemmgen.kinds.batches import GROUPED, POINTERS, STRIDED
from gemmgen.library.dropped import Logged, Settings
from gemmgen.render import render
from gemmgen.run import Placement, mixed
from gemmgen.run.batch import BatchResult, Product, refuse_overlap, sizes_of
from gemmgen.verdict import Verdict
from gemmgen.timing import batch_contender, blas, environment, gemmul8, products, racing, reference
from gemmgen.spec import MAX_EXTENT
from gemmgen.timing.batches.device import HeldSet
from gemmgen.verbs import build as build_verbs, rows
from gemmgen.verbs.explain import explain as explain_verb
from gemmgen.verbs.export import export as export_verb
from gemmgen.verbs.library import library as library_verb
from gemmgen.verbs.run import run as run_verb
from gemmgen.verbs.run import text as told_of_a_run
from gemmgen.verbs.verify import verify as verify_verb
from gemmgen.verify import batch as of_batches, oracles, unit_probe
from gemmgen.verify.metrics import Errors
from gemmgen.verify.record import file_name
from ways import plan_of
import numpy_cupy

# ---- errors


@pytest.mark.parametrize("error", [
    GemmgenError("here", "is wrong", got=0, needs="a", has="b", remedy="c"), UnknownName("here", "scheme", "ootomi", ["egemm", "ootomo"]),
    errors.ResourceError("k", "spills"), NotEmulated("--device", "is not there", has="nothing"),
], ids=lambda error: type(error).__name__)
def test_an_error_comes_back_whole_from_another_process(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and vars(again) == vars(error) and str(again) == str(error) and again.args == error.args
    assert (errors.EXIT_OK, errors.EXIT_FAILED, errors.EXIT_USAGE) == (0, 1, 2)
    assert again.exit_code == (1 if isinstance(error, errors.ResourceError) else 2)


def test_an_errors_parts_are_lines_and_absent_ones_are_left_out():
    error = SpecError("here", "is wrong", got=0, needs="a", has="b", remedy="c")
    assert str(error) == "here: is wrong\n  got    0\n  needs  a\n  has    b\n  try    c"
    assert error.as_dict() == {"error": "SpecError", "where": "here", "problem": "is wrong", "got": "0", "needs": "a", "has": "b", "try": "c"}
    assert str(SpecError("here", "is wrong")) == "here: is wrong" and set(SpecError("here", "is wrong").as_dict()) == {"error", "where", "problem"}
    named = UnknownName("here", "scheme", "ootomi", ["ootomo", "egemm"])
    assert (named.problem, named.needs, named.remedy) == ("unknown scheme", "one of: egemm, ootomo", "did you mean 'ootomo'?")
    assert UnknownName("here", "scheme", "zzz", ["egemm"]).remedy is None
    assert "a value of type int that is too large to show" in str(SpecError("here", "is wrong", got=10**5000))
    obeyed = SpecError("a\x1b[31m", "y\u202ez", got="\x07\ud800", needs="\r")
    assert str(obeyed) == "a\\x1b[31m: y\\u202ez\n  got    '\\x07\\ud800'\n  needs  \\r", "shown, and neither obeyed nor left out"
    long = SpecError("x" * 4000, "y" * 4001, got="z" * 499).as_dict()
    assert long["where"] == "x" * 4000 and long["problem"] == "y" * 4000 + "... (4001 characters)" and len(long["got"]) == 499
    assert SpecError("x", "y", got="z" * 501).as_dict()["got"] == "z" * 500 + "... (501 characters)"


# ---- the command line's output


class Terminal(io.StringIO):
    encoding = "utf-8"

    def __init__(self, is_one=True):
        super().__init__()
        self.is_one = is_one

    def isatty(self):
        return self.is_one


@pytest.mark.parametrize(("terminal", "quiet", "written"), [
    (True, False, "\r\x1b[Kx.toml: compiling\r\x1b[Kx.toml: compiling (3 of 8 blocks of split), 38 %\r\x1b[Kx.toml: compiling (8 of 8 blocks of gemm), 100 %\r\x1b[K"),
    (True, True, ""), (False, False, "x.toml: compiling\n"), (False, True, ""),
])
def test_progress_is_one_line_on_a_terminal_and_a_line_a_step_elsewhere(monkeypatch, terminal, quiet, written):
    monkeypatch.setattr(sys, "stderr", Terminal(terminal))
    monkeypatch.setattr(output, "OFTEN", 0)
    monkeypatch.setenv("COLUMNS", "80")
    progress = output.Progress("x.toml", quiet)
    progress.step("compiling")
    progress.blocks("sgemm_0123abcd_split", 3, 8)
    progress.blocks("sgemm_0123abcd", 8, 8)
    progress.clear()
    assert sys.stderr.getvalue() == written


@pytest.mark.parametrize(("terminal", "settings", "coloured"), [
    (True, {}, True), (False, {}, False), (True, {"NO_COLOR": "1"}, False), (True, {"TERM": "dumb"}, False), (True, {"TERM": "xterm", "NO_COLOR": ""}, True),
])
def test_colours_are_for_terminals_that_want_them(monkeypatch, terminal, settings, coloured):
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    stream = Terminal(terminal)
    assert output.shown(output.paint("right", output.GREEN, stream), stream) == ("\x1b[32mright\x1b[0m" if coloured else "right")


def test_an_output_that_nobody_reads_or_no_disk_holds(monkeypatch, tmp_path):
    class Closed(Terminal):
        error: OSError = BrokenPipeError()

        def write(self, text):
            raise self.error

        def fileno(self):
            raise OSError

    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(output.ReaderGone):
        output.emit("text")
    monkeypatch.setattr(Closed, "error", OSError(28, "No space left on device"))
    with pytest.raises(GemmgenError) as refused:
        output.emit("text")
    assert (refused.value.where, refused.value.got) == ("standard output", "No space left on device")
    with open(tmp_path / "out", "w") as file:  # what Python writes on its way out goes nowhere
        monkeypatch.setattr(Closed, "fileno", lambda closed: file.fileno())
        with pytest.raises(GemmgenError):
            output.emit("text")
        file.write("more")
    assert (tmp_path / "out").read_text() == ""


def test_notes_and_errors_go_where_they_are_read(capsys):
    output.note("a thing")
    output.note("another", quiet=True)
    output.emit_error(SpecError("here", "is wrong"), as_json=False)
    assert capsys.readouterr() == ("", "note: a thing\nerror: here: is wrong\n")
    output.emit_error(SpecError("here", "is wrong"), as_json=True)
    ran = capsys.readouterr()
    assert json.loads(ran.out)["where"] == "here" and ran.err == ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with output.warnings_as_notes():
            warnings.warn("the cache is odd", errors.CacheWarning, stacklevel=1)
            warnings.warn("something else", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "note: the cache is odd\n"


def test_files_of_a_spec_are_written_only_where_rows_may_be(tmp_path):
    with pytest.raises(GemmgenError, match="is named as a spec"):
        output.write_files(tmp_path, {"a.txt": "1", "b.toml": "2"})
    assert os.listdir(tmp_path) == []
    assert output.write_files(tmp_path, {"b.toml": "2", "in/c.bin": b"3"}, rows=True) == {"b.toml": tmp_path / "b.toml", "in/c.bin": tmp_path / "in/c.bin"}
    assert (tmp_path / "b.toml").read_text() == "2" and (tmp_path / "in/c.bin").read_bytes() == b"3"
    with pytest.raises(GemmgenError, match="is not a regular file"):
        output.write_paths({tmp_path / "in": "4"})
    assert [output.is_folder(one) for one in (tmp_path, tmp_path / "b.toml", "a\0b", tmp_path / "none")] == [True, False, False, False]


# ---- options


def test_lists_of_numbers_at_their_bounds():
    assert problem_sizes("1048575") == [(1048575,) * 3] and problem_sizes("1x2x3") == [(1, 2, 3)]
    for wrong in ("1048576", "0", "1x2", "1x2x3x4", "", "1,,2", "-1", "1x0x3", "12345678"):
        with pytest.raises(SpecError, match="is not a list of sizes"):
            problem_sizes(wrong)
    assert batch_sizes("8,256 1") == [8, 256, 1] and batch_sizes("") == [] and batch_sizes("9999999") == [9999999]
    for wrong in ("0", "08", "10000000", "x"):
        with pytest.raises(SpecError, match="is not a list of numbers of products"):
            batch_sizes(wrong)
    assert numbers_of("--n", "0,999999999") == [0, 999999999]
    with pytest.raises(SpecError) as refused:
        numbers_of("--n", "1,1000000000")
    assert (refused.value.where, refused.value.got, refused.value.remedy) == ("--n", "1000000000", "--n 30000,45000")


# ---- rows as text


@pytest.mark.parametrize(("name", "range_", "words", "cost", "made"), [
    ("fp32", "FP32's", "1 f32", "no unit", "A0B0"), ("half", "2^-14 to 2^16", "1 f16", "1", "A0B0"),
    ("mixpert1_tile", "any tile of 32 k; in it from 2^-14 of its largest", "2 s8", "1 to 60", "A1B1 A1B0 A0B1 A0B0"),
    ("residues6", "any row; in it from 2^-24 of its norm", "6 s8", "1.5 to 90", "A0B0 A1B1 A2B2 A3B3 A4B4 A5B5"),
    ("e4m3x6", "any row; in it from 2^-5 of its largest", "3 e4m3", "3", "A2B0 A1B1 A0B2 A1B0 A0B1 A0B0"),
    ("bf16x3_bb16", "2^-110 to 2^128", "3 bf16; B 1 bf16", "3 to 6", "A2B0 A1B0 A0B0"), ("f16_s8", None, "1 f16+2 s8", "2", "A2B1 A1B2 A0B0"),
])
def test_a_scheme_in_the_table_of_all(name, range_, words, cost, made):
    scheme = SCHEMES.get(name)
    assert (show.scheme_words(scheme), show.scheme_cost(scheme), show.products(scheme)) == (words, cost, made)
    assert range_ is None or show.scheme_range(scheme) == range_


def test_the_table_of_schemes_tells_who_has_them():
    rows = {line.split()[0]: " ".join(line.split()) for line in show.schemes_text([SCHEMES.get(name) for name in ("ootomo", "f16_s8", "tf32x3")]).splitlines()
            if line}
    assert rows["ootomo"] == "ootomo 2 f16 22 3 2 7.2e-07 2^-14 to 2^16 3 all" and rows["f16_s8"].endswith(" 2 gh200 h100 h20 h200")
    assert rows["tf32x3"].endswith(" all but " + " ".join(sorted(gpu.name for gpu in GPUS.rows() if gpu not in show.scheme_gpus(SCHEMES.get("tf32x3")))))
    costs = show.scheme_costs(SCHEMES.get("mixpert2"))
    assert (costs["a100"], costs["rtx4090"], costs["mi210"]) == (3.0, 1.5, 6.0)  # six products, of 2, 4 and 1 times FP16's rate


@pytest.mark.parametrize(("name", "lines"), [
    ("ootomo", {"word 0": "f16, nearest_even", "word 1": "f16, nearest_even, holds 2^11 times the rest", "dropped": "A1B1",
                "sum main": "unscaled, promoted to FP32 registers, of A0B0", "sum correction": "2^11 too large, of A1B0 A0B1",
                "promotion": "the authors' own: fragment", "bits": "22"}),
    ("ootomo_flushed", {"word 0": "f16, nearest_even, 0 where it would be subnormal", "word 1": "f16, nearest_even, holds 2^11 times the rest"}),
    ("ootomo_b16", {"word 1 of A": "f16, nearest_even, holds 2^11 times the rest", "word 0 of B": "f16, as stored", "dropped": "none"}),
    ("f16_s8", {"word 1": "s8, nearest_even, holds the element", "word 2": "s8, nearest_even, holds 2^12 times what word 0 leaves"}),
    ("residues6", {"word 0": "s8, residue modulo 256 of the element as an integer", "sum of_253": "unscaled, of A2B2"}),
])
def test_everything_about_one_scheme(name, lines):
    told = dict(line.split("  ", 1) for line in show.scheme_text(SCHEMES.get(name)).splitlines())
    assert {key: told[key].strip() for key in lines} == lines


def test_instructions_places_and_widths():
    mfma, wgmma, mma = (find(name, "here") for name in ("mfma_m32n32k8_f16", "wgmma_m64n8k16_f16", "mma_m16n8k16_f16"))
    assert [show.needs(one) for one in (mfma, wgmma, mma)] == ["gfx908 gfx90a gfx942 gfx950", "sm_90a alone", "sm_80"]
    assert [show.widths(one) for one in (mfma, wgmma, mma)] == ["32", "8 to 256 in steps of 8", "8"]
    assert show._depths(mfma) == "8, in kernels 16 by 2 instructions, of which a lane holds whole 16-byte chunks"
    many = SimpleNamespace(archs=("a", "b", "c", "d", "e"))
    assert show.needs(many) == "a to e" and show.needs(SimpleNamespace(archs=many.archs[:4])) == "a b c d"
    assert show.widths(SimpleNamespace(shape=(64, 8, 32), widest=32, sparse_from=128)) == "8 to 256 in steps of 8, 16 above 128"
    assert show.operand_places(SimpleNamespace(in_tensor_memory=True)) == "shared memory, C tensor memory"
    assert show.facts({"a": 1, "longer": {"b": 2}}) == "a       1\n\nlonger\n  b  2" and show.facts({"a": 1}, width=3) == "a    1"
    assert show._held_again(SimpleNamespace(copies=2)) == ", the first of 2 that hold it" and show._held_again(SimpleNamespace(copies=1)) == ""
    refusal = SimpleNamespace(as_dict=lambda: {"x": 1}, __str__=None)
    assert show.refused_facts([]) == {} and show.refused_facts([refusal]) == {"refused": [{"x": 1}]}
    assert show.refused_lines(["one", "two"]) == ["refused    one", "           two"]


def test_a_record_says_what_the_unit_returned_and_who_would_like_to_have_it():
    def told(unit, kind):
        return show.record({"matrix_unit": {"model": "cdna3", **unit}, "device": {"kind": kind}}, Path("x.json")).splitlines()

    assert told({"summary": "8 of 8"}, "hip") == [
        "unit       cdna3: 8 of 8", "record     x.json", "           please attach it to an issue of the project: it has what no one there can measure"]
    assert told({"error": {"where": "probe", "problem": "failed"}}, "emulator") == ["unit       cdna3: not probed: probe: failed", "record     x.json"]


def test_a_report_tells_what_failed_was_counted_and_is_worse_than_fp32():
    occupancy = SimpleNamespace(blocks=1, fraction=0.0625, limited_by="threads")
    resources = SimpleNamespace(registers=99, shared_bytes=4096, spill_bytes=16, occupancy=occupancy)
    checks = [SimpleNamespace(name="c", passed=False, detail="x\ny"), SimpleNamespace(name="longer", passed=True, detail="z")]
    judged = SimpleNamespace(
        kernel="k", device="d", resources=resources, checks=checks, standing="compiled", unverified="", errors=Errors(1e-7, 1e-6, 1e-7, 1e-8),
        bound=SimpleNamespace(relative_frobenius=5e-7), of_fp32={"U": 1.5, "V": 20.4}, status={"a_lossy": 3, "b_lossy": 0}, seconds=None, size=(1, 2, 3),
        passed=True, promises="half", sample=None, smaller="", verdict=None, element="FP32")
    kernel = SimpleNamespace(plan=SimpleNamespace(summary="s", gpu=SimpleNamespace(limits=SimpleNamespace(registers_per_thread=255))), refused=["r1", "r2"])
    lines = show.report(kernel, judged, 7.4).splitlines()
    assert lines[1:5] == ["decided    s", "refused    r1", "           r2", "device     d"]
    assert "16 B spilled, 1 block an SM (6.25 % occupancy, by threads)" in lines[5]
    assert lines[6:9] == ["checks     FAILED c       x", " " * 26 + "y", "           ok     longer  z"]
    assert lines[9] == "standing   compiled" and lines[11] == "accuracy   U as FP32 (1.50); V 20 times FP32's" and lines[12] == "counted    a_lossy 3"
    assert lines[13:] == ["PASSED as what scheme half promises: V 20 times FP32's, in 7 s"]
    judged.sample, judged.smaller = SimpleNamespace(told="4 of 9 blocks"), "the size is smaller"
    assert show.report(kernel, judged, 7.4).splitlines()[9:11] == [
        "blocks     4 of 9 blocks of C, whole k, corners and edges among them; --whole computes all", "size       the size is smaller"]
    judged.sample, judged.smaller = None, ""
    judged.of_fp32, judged.status = {"U": 1.5}, {}
    assert show.report(kernel, judged, 7.4).splitlines()[12:] == ["PASSED as FP32, in 7 s"]
    judged.passed = False
    assert show.report(kernel, judged, 7.6).splitlines()[12:] == ["FAILED, in 8 s"]
    judged.unverified = "no model"
    assert show.report(kernel, judged, 7.4).splitlines()[-1] == "NOT VERIFIED: no model, never run; resources were checked, numbers were not"


# ---- explanations


def test_an_equations_line():
    one = SimpleNamespace(number="E1", symbol="x", unit="B", form="a + b", variables=("a", "b"), value=lambda known: known["a"] + known["b"],
                          folded=lambda known: "1 + 2")
    assert explain._line(one, {"a": 1, "b": 2}) == ("E1", "x = 3 B", "= a + b\n= 1 + 2")
    assert explain._line(one, {"a": 1}) is None
    one.unit = ""
    assert explain._line(one, {"a": 1, "b": 2})[1] == "x = 3"
    assert explain._equations("t", [("E1", "x = 3", "= a\n= 1"), ("E10", "y", "= b")]) == "t\n  E1   x = 3\n         = a\n         = 1\n  E10  y\n         = b"
    searched = SimpleNamespace(candidates=1)
    assert explain._searched(searched) == "nothing: the spec leaves nothing open"
    searched.candidates, searched.feasible, searched.solve_seconds = 2, 1, 0.126
    assert explain._searched(searched) == "2 candidates, 1 feasible, in 0.13 s"
    assert (explain._error(1.25e-7), explain._error(float("inf")), explain._error(float("inf"), "of rows")) == ("1.2e-07", "out of range", "of rows")
    point = SimpleNamespace(sums_in_unit=True, promote=64, sums="compensated")
    assert explain._promotion(point) == "64 compensated" and explain._promotion(SimpleNamespace(sums_in_unit=False)) == ""
    found = SimpleNamespace(gpu="g", size=(1, 2, 3), data="d", asked="", points=[SimpleNamespace(as_dict=lambda: {"p": 1})], refused=[("half", "why")])
    assert explain.frontier_dict(found) == {
        "gpu": "g", "size": [1, 2, 3], "data": "d", "asked": "", "points": [{"p": 1}], "refused": [{"scheme": "half", "problem": "why"}]}


# ---- runs of programs


def test_a_program_runs_with_the_preload_librarys_defaults():
    """A record that was made without an option names the places that a call of the preload library by itself sees."""
    asked = signature(run_verb).parameters
    assert {one.name: asked[one.name].default for one in fields(Settings)} == {one.name: one.default for one in fields(Settings)}


def test_what_a_programs_run_took_and_passed_on():
    taken = {"count": 3, "taken": True, "kernel": "sgemm", "reason": ""}
    passed = {"count": 2, "taken": False, "kernel": "", "reason": "too small"}
    assert told_of_a_run(Logged(())).startswith("taken      no call reached the preload library")
    assert told_of_a_run(Logged((taken,))).splitlines() == ["taken    3 of 3 calls", "  sgemm  3"]
    assert [line.split() for line in told_of_a_run(Logged((taken, passed))).splitlines()] == [
        ["taken", "3", "of", "5", "calls"], ["sgemm", "3"], ["passed", "on", "2"], ["too", "small", "2"]]
    from gemmgen.library.dropped import COUNTED

    nothing = dict.fromkeys(COUNTED, 0)
    assert told_of_a_run(Logged((taken | {"checked": 3} | nothing,))).splitlines()[-1].split(None, 1)[1] == "3, nothing counted"
    some = nothing | {COUNTED[0]: 7}
    assert told_of_a_run(Logged((taken | {"checked": 3} | some,))).splitlines()[-1].split(None, 1)[1] == f"3, {COUNTED[0]} 7"


# ---- verify


@pytest.fixture
def judged(monkeypatch):
    """The verb `verify` with a road that builds nothing; what it was asked is in `calls`."""
    state = SimpleNamespace(calls=[], kind="emulator", recorded=True, passed=True, failed=False, unverified="")

    def verify(kernel, **how):
        how.pop("progress")
        state.calls.append(how)
        return SimpleNamespace(as_dict=lambda: {"passed": state.passed}, passed=state.passed, failed=state.failed, unverified=state.unverified,
                               device_kind=state.kind)

    plan = SimpleNamespace(arch="gfx942", gpu=SimpleNamespace(name="mi300x", maker=SimpleNamespace(checked=SimpleNamespace(recorded=True))), hash="abcd")
    loaded = SimpleNamespace(spec=SimpleNamespace(verify=SimpleNamespace(require="scheme"), problem=SimpleNamespace(type="f32")))
    monkeypatch.setattr(road, "load", lambda path, gpu, layout: state.calls.append((path.name, gpu, layout)) or loaded)
    monkeypatch.setattr(road, "build", lambda loaded, progress: SimpleNamespace(plan=plan, refused=[]))
    monkeypatch.setattr(road, "verify", verify)
    monkeypatch.setattr(road, "record", lambda kernel, report, progress: {"recorded": True})
    monkeypatch.setattr(show, "report", lambda kernel, report, seconds: f"the report, in {seconds:.0f} s")
    monkeypatch.setattr("gemmgen.verbs.verify.time", SimpleNamespace(perf_counter=iter(range(100, 1000, 5)).__next__))
    monkeypatch.setattr(show, "record", lambda record, path: f"kept in {path}")
    state.plan = plan
    return state


@pytest.mark.parametrize(("passed", "failed", "unverified", "code"), [
    (True, False, "", 0), (False, True, "", 1), (False, False, "nothing here", 2), (False, True, "nothing here", 1),
])
def test_the_exit_code_of_a_verification(judged, passed, failed, unverified, code):
    judged.passed, judged.failed, judged.unverified = passed, failed, unverified
    assert verify_verb([Path("x.toml")]) == code


def test_what_verify_asks_for(judged, tmp_path):
    x = [Path("x.toml")]
    verify_verb(x, n=5)
    assert judged.calls[-2:] == [("x.toml", None, None), {"device": "auto", "size": (None, 5, None), "require": "scheme", "whole": False}]
    verify_verb(x, m=1, k=MAX_EXTENT, device="hip", require="fp32", gpu="h100", layout="tn")
    assert judged.calls[-2:] == [("x.toml", "h100", "tn"), {"device": "hip", "size": (1, None, MAX_EXTENT), "require": "fp32", "whole": False}]
    a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    own = {"a": tmp_path / "a.npy", "b": tmp_path / "b.npy"}
    verify_verb(x, **own)
    assert np.array_equal(judged.calls[-1]["a"], a) and np.array_equal(judged.calls[-1]["b"], b) and judged.calls[-1]["size"] == (None, None, None)
    for wrong, where in (({"m": 0}, "--m"), ({"n": -1}, "--n"), ({"k": MAX_EXTENT + 1}, "--k"), ({"a": own["a"]}, "--a, --b"), ({"b": own["a"]}, "--a, --b"),
                         *((own | {name: 1}, "--m, --n, --k") for name in "mnk")):
        with pytest.raises(SpecError) as refused:
            verify_verb(x, **wrong)
        assert refused.value.where == where
    assert [refused_with(verify_verb, x, **{name: own[name]}).got for name in "ab"] == ["--a alone", "--b alone"]
    with pytest.raises(SpecError, match="one file cannot take several records"):
        verify_verb([*x, *x], save=Path("r.json"))


@pytest.mark.parametrize(("kind", "save", "unverified", "kept"), [
    ("hip", None, "", "gemmgen-hip-mi300x-abcd.json"), ("hip", "r.json", "", "r.json"), ("emulator", "r.json", "", "r.json"),
    ("emulator", "r.json", "no model", None), ("emulator", None, "", None),
])
def test_a_record_is_kept_of_runs_on_amds_gpus_and_where_it_is_asked_for(judged, capsys, monkeypatch, tmp_path, kind, save, unverified, kept):
    monkeypatch.chdir(tmp_path)
    judged.kind, judged.unverified = kind, unverified
    verify_verb([Path("x.toml")], save=save and Path(save))
    assert os.listdir(tmp_path) == ([kept] if kept else [])
    assert capsys.readouterr().out == "the report, in 5 s\n" + (f"kept in {kept}\n" if kept else "")
    assert not kept or json.loads((tmp_path / kept).read_text()) == {"recorded": True}
    judged.plan.gpu.maker.checked.recorded = False
    if save:
        with pytest.raises(SpecError, match="is for the record of an AMD kernel's run"):
            verify_verb([Path("x.toml")], save=Path(save))


# ---- the road


def test_what_nothing_here_can_run_is_judged_by_its_resources(monkeypatch):
    cleared = []

    def absent(*of, **how):
        raise NotEmulated("--device", "has no model")

    watcher = SimpleNamespace(step=lambda text: None, clear=lambda: cleared.append(True))
    monkeypatch.setattr(road, "build", lambda *of, **how: SimpleNamespace(plan=1, source=2, binary=3))
    monkeypatch.setattr(road, "open_device", absent)
    monkeypatch.setattr(judging, "resources_only", lambda *given: given)
    assert road.verify("x", require="scheme", progress=watcher) == (1, 2, 3, "has no model") and cleared == [True]


def test_a_record_is_of_the_device_that_the_report_is_of(monkeypatch):
    opened, released = [], []
    device = SimpleNamespace(facts=lambda: {"name": "d"}, release=lambda: released.append(True))
    monkeypatch.setattr(road, "open_device", lambda kernel, kind, progress: opened.append((kernel.plan, kind)) or device)
    monkeypatch.setattr("gemmgen.verify.record.record", lambda *given: given)
    report, kernel = SimpleNamespace(device_kind="hip"), SimpleNamespace(plan=1, binary=2)
    assert road.record(kernel, report) == (1, 2, report, {"name": "d"})
    assert opened == [(1, "hip")] and released == [True]
    assert file_name(SimpleNamespace(gpu=SimpleNamespace(name="mi210"), hash="12")) == "gemmgen-hip-mi210-12.json"


def test_a_tables_rules_are_those_of_its_gpu_and_first_layout(monkeypatch):
    from gemmgen.library import dispatch

    asked = []
    monkeypatch.setattr(dispatch, "select", lambda *given: asked.append(given[1:]) or SimpleNamespace(spec={"a": 1}))
    monkeypatch.setattr(dispatch, "load_table", lambda path: tables[path.name])

    def table(*parts):
        made = object.__new__(dispatch.Table)
        object.__setattr__(made, "parts", [SimpleNamespace(gpu=gpu, layout=layout) for gpu, layout in parts])
        return made

    tables = {"both": table(("h100", "tn"), ("h100", "nn"), ("a100", "tt")), "one": table(("h100", "tn"), ("h100", "tt"))}
    assert road.chosen(tables["one"], 1, 2, 3) == {"a": 1} and asked[-1] == ("h100", "tn", 1, 2, 3)
    road.chosen("one", 1, 2, 3, layout="tt")
    assert asked[-1] == ("h100", "tt", 1, 2, 3)
    for gpu, layout in (("h100", "nn"), ("a100", "tt")):
        road.chosen(Path("both"), 4, 5, 6, gpu=gpu)
        assert asked[-1] == (gpu, layout, 4, 5, 6)
    with pytest.raises(SpecError) as refused:
        road.chosen(tables["both"], 1, 2, 3)
    assert refused.value.got == "a100, h100" and refused.value.remedy == "gpu='a100'"


def test_a_product_by_a_tables_rule_and_its_device_is_released(monkeypatch):
    from gemmgen.library import dispatch

    released, built = [], []
    monkeypatch.setattr(road, "chosen", lambda table, m, n, k: (m, n, k))
    monkeypatch.setattr(road, "build", lambda kernel: built.append(kernel) or SimpleNamespace(plan=1, source=2))
    monkeypatch.setattr(road, "open_device", lambda kernel, device: SimpleNamespace(name=device, release=lambda: released.append(device)))
    monkeypatch.setattr("gemmgen.run.gemm", lambda device, *given, **how: (device.name, given[:2], given[4], how))
    a, b = np.zeros((2, 3), np.float32), np.zeros((3, 5), np.float32)
    assert road.multiply(object.__new__(dispatch.Table), a, b, alpha=2.0, device="hip") == ("hip", (1, 2), None, {"alpha": 2.0, "beta": 0.0, "ends": {}})
    assert built == [(2, 5, 3)] and released == ["hip"]


def test_the_demonstration_verifies_what_it_built(monkeypatch, capsys):
    kernel, report = SimpleNamespace(plan=1, source=2), SimpleNamespace(passed=False)
    monkeypatch.setattr(demo, "_shipped", lambda name: name)
    monkeypatch.setattr(road, "build", lambda spec, progress: kernel if spec in ("sgemm_a100", "digits_half") else None)
    monkeypatch.setattr(road, "verify", lambda one, progress: report if one is kernel else None)
    monkeypatch.setattr(show, "report", lambda one, found, seconds: f"report of {found.passed}")
    assert demo._verification() is False and capsys.readouterr().out.endswith("report of False\n")
    z = np.array([[1.0, 2.0], [3.0, -4.0], [0.5, 0.0]], np.float32)
    monkeypatch.setattr(road, "open_device", lambda one, progress: SimpleNamespace(name="d"))
    monkeypatch.setattr("gemmgen.run.gemm", lambda device, plan, source, a, b: SimpleNamespace(c=(a @ b + 1).astype(np.float32)))
    name, gram, found = demo._gram("half", z)
    assert name == "d" and np.array_equal(gram, z @ z.T + 1)
    assert found.relative_frobenius == pytest.approx(3 / np.linalg.norm(z @ z.T)) and found.scaled == pytest.approx(1 / 0.25)


# ---- judging


def test_what_probe_and_report_say_without_a_device(monkeypatch):
    plan = SimpleNamespace(arch="gfx942", gpu=SimpleNamespace(maker=SimpleNamespace(checked=SimpleNamespace(recorded=True))), standing="never run")
    monkeypatch.setattr(judging, "resources", lambda *of: SimpleNamespace())
    monkeypatch.setattr(judging.Judge, "resources", lambda judge: judging.Check("resources", True, "few"))
    monkeypatch.setattr(judging, "verdict", lambda plan: None)
    report = judging.resources_only(plan, SimpleNamespace(name="k"), None, "no model")
    assert (report.kernel, report.arch, report.device, report.device_kind, report.unverified, report.standing) == (
        "k", "gfx942", "none", "none", "no model", "never run")
    assert not report.passed and not report.failed and not report.as_fp32 and report.errors is None and [one.name for one in report.checks] == ["resources"]
    assert judging.standing(plan, SimpleNamespace(kind="hip", name="MI300X")).endswith("run on MI300X")
    assert judging.standing(plan, SimpleNamespace(kind="emulator")) == "never run"
    plan.gpu.maker.checked.recorded = False
    assert judging.standing(plan, SimpleNamespace(kind="cuda", name="B200")) == "compiled, resources checked; run on B200"
    plan.standing = None
    assert judging.standing(plan) == judging.standing(plan, SimpleNamespace(kind="cuda", name="H200")) == ""


@pytest.mark.parametrize(("kind", "stays", "size"), [
    ("emulator", False, (77, 57, 1029)), ("emulator", True, (141, 73, 293)), ("cuda", False, (1031, 1013, 4099)), ("hip", True, (2571, 1533, 4099)),
])
def test_the_size_of_the_headline_product(kind, stays, size, monkeypatch):
    """With three stages of 32 and no promotion 8 of them: 256; with promotion every 1024 2304. Shorter where the emulator would take longer than 15 s."""
    plan = SimpleNamespace(block=(64, 64, 32), design=SimpleNamespace(stays=stays), promote=0, stages=3,
                           scheme=SimpleNamespace(family=SimpleNamespace(run_k=None, residues=None)), kind=SimpleNamespace(reals=2))
    of_k = 15.0 / 1024
    monkeypatch.setattr(judging, "seconds", lambda plan, size, processes: of_k * size[2] / processes)
    assert oracles.wrapping_k(plan) == 256 or stays
    m, n, k = real = size if not (kind == "emulator" and stays) else (141, 73, 261)
    assert judging.default_size(plan, kind) == (m, (n + 1) // 2, (k + 1) // 2), "of complex numbers"
    plan.kind.reals = 1
    assert judging.default_size(plan, kind) == real
    if (kind, stays) == ("emulator", False):
        for of_k, k in ((15.0 / 1023, 517), (15.0 / 512, 517), (15.0 / 511, 261), (1.0, 261)):
            assert judging.default_size(plan, kind) == (77, 57, k)
        plan.block = (64, 64, 64)
        assert judging.default_size(plan, kind) == (77, 57, 517), "every stage is used again"
        plan.block, of_k = (64, 64, 32), 15.0 / 1024
    plan.promote, plan.stages = 1024, 5
    assert oracles.wrapping_k(plan) == 11 * 32 + 2048 and judging.default_size(plan, "emulator")[2] == 2405
    plan.promote = 65536
    assert oracles.wrapping_k(plan) == 11 * 32 + 131072
    plan.promote = 65537
    with pytest.raises(SpecError) as refused:
        oracles.wrapping_k(plan)
    assert refused.value.remedy == "promote = 65536, or 0, which is never"


@pytest.mark.parametrize(("moduli", "stages", "wrapping"), [(7, 2, 3), (7, 10, 3), (7, 11, 4), (16, 7, 3), (3, 7, 5)])
def test_residues_fill_the_ring_of_stages_once_for_each_modulus(moduli, stages, wrapping):
    """Twice and one more by all k together, and by three stages of k at least."""
    family = SimpleNamespace(run_k=None, residues=SimpleNamespace(moduli=range(moduli)))
    plan = SimpleNamespace(block=(64, 64, 128), promote=0, stages=stages, scheme=SimpleNamespace(family=family))
    assert oracles.wrapping_k(plan) == wrapping * 128


def test_outliers_lie_in_the_second_tile_each_way():
    plan = plan_of()
    bm, bn, bk = plan.block
    problem = oracles.outliers(plan)
    assert problem.a.shape == (bm + 5, 300) and problem.b.shape == (300, bn + 3) and 3 * bk + 7 < 300
    assert [tuple(at)[0] for at in np.argwhere(np.abs(problem.a) > 1)] == [bm + 2] and [tuple(at)[1] for at in np.argwhere(np.abs(problem.b) > 1)] == [bn + 1]
    assert problem.a.max() == 3e4 and problem.b.min() == -3e3


def test_no_special_value_is_beyond_the_range_of_words_toward_zero():
    problem = oracles.special_values(plan_of())
    assert problem.a.shape == (19, plan_of().block[2] + 9) and problem.b.shape[1] == 23
    assert (problem.a[2, 5], problem.a[3, 7], problem.b[9, 4], problem.b[5, 3]) == (np.inf, -np.inf, np.inf, 0)
    assert np.isnan(problem.a[5, 1]) and np.isnan(problem.b[11, 6]) and np.isnan(problem.a).sum() == np.isnan(problem.b).sum() == 1
    assert (problem.a[7, 0], problem.a[8, 3], problem.b[4, 9]) == (np.float32(1e6), np.float32(-3e38), np.float32(7e4))
    zero = oracles.special_values(plan_of(scheme="legemm"))
    if SCHEMES.get("legemm").words_of("a")[0].rounding != "nearest_even":
        assert np.abs(zero.a[np.isfinite(zero.a)]).max() <= 1


@pytest.mark.parametrize(("ratio", "words"), [
    (0.5, "as FP32"), (2.0, "as FP32"), (2.01, "2.0 times FP32's"), (9.96, "10.0 times FP32's"), (10.4, "10 times FP32's"), (np.inf, "where FP32 is exact"),
    (np.nan, "not comparable with FP32's"),
])
def test_an_error_over_fp32s(ratio, words):
    assert judging.against_fp32(ratio) == words
    required = judging._required({"U": ratio}, "U")
    assert required.passed == (ratio <= 2) and required.detail == f"U {words} ({ratio:.2f}); at most 2 times its own error is required"
    assert not judging._required({}, "U").passed and judging._required({}, "U").detail.startswith("nothing to compare")
    assert not judging._required({"V": 1.0}, "U").passed


# ---- the unit's probe


def test_a_probe_launches_a_block_a_tile_and_asks_for_a_gpu_that_has_the_instruction(monkeypatch):
    fragment = find("mma_m16n8k16_f16", "here")
    names, a, b, c = unit_probe.tiles(fragment)
    calls = []

    class Device:
        def upload(self, array, name):
            calls.append((name, array.shape))
            return name

        def empty(self, nbytes, name):
            calls.append((name, nbytes))
            return name

        def launch(self, *given):
            calls.append(given)

        def download(self, buffer, dtype, count):
            assert (buffer, 4 * count) == calls[3]
            return np.arange(count, dtype=dtype)

        def release(self):
            calls.append("released")

    monkeypatch.setattr(unit_probe, "why_not", lambda gpu: DeviceError("--device", "is absent") if gpu.name == "a100" else None)
    monkeypatch.setattr(unit_probe, "open_on", lambda gpu, binary: Device())
    built = []
    monkeypatch.setattr(unit_probe, "build", lambda source: built.append(source.arch) or source)
    found = unit_probe.probe_here(fragment, GPUS.get("h100"))
    assert built == ["sm_90"]
    assert calls == [("a", a.shape), ("b", b.shape), ("c", c.shape), ("d", c.nbytes),
                     ("unit_probe", len(names), 32, 0, [("pointer", name) for name in "abcd"]), "released"]
    assert np.array_equal(found.d.ravel(), np.arange(c.size)) and found.modelled.shape == c.shape
    with pytest.raises(DeviceError, match="is absent"):
        unit_probe.probe_here(fragment, GPUS.get("a100"))
    with pytest.raises(SpecError) as refused:
        unit_probe.probe_here(fragment, GPUS.get("mi300x"))
    assert refused.value.needs == "sm_80 or newer" and refused.value.got == "mma_m16n8k16_f16 on mi300x, gfx942"
    told = found.as_dict()
    assert told["shape"] == [16, 8, 16] and told["word"] == "f16" and len(told["tiles"]) == len(names)
    opened = []
    monkeypatch.setattr(unit_probe, "open_device", lambda kind, plan, source, binary: opened.append((kind, plan, source.arch)) or Device())
    calls.clear()
    mfma = find("mfma_m32n32k8_f16", "here")
    plan = SimpleNamespace(fragment=mfma, arch="gfx942", gpu=GPUS.get("mi300x"))
    assert unit_probe.probe_unit(plan, "emulator").fragment.builtin == mfma.builtin and opened == [("emulator", plan, "gfx942")] and calls[-1] == "released"
    wrong = unit_probe.Tiles(fragment, ("all",), a[:1], b[:1], c[:1], np.ones((1, 1, 2), np.float32), np.zeros((1, 1, 2), np.float32))
    assert wrong.summary == "0 of 2 dot products as modelled; others in: all"


# ---- timing


def test_cublas_is_the_newest_of_two_and_absent_otherwise(monkeypatch):
    def having(*versions):
        def load(name):
            if name not in versions:
                raise OSError(name)
            return name

        monkeypatch.setattr(blas.ctypes, "CDLL", load)

    having("libcublas.so.12", "libcublas.so.13")
    assert blas.load_library() == "libcublas.so.13"
    having("libcublas.so.12")
    assert blas.load_library() == "libcublas.so.12"
    having()
    with pytest.raises(DeviceError, match="cannot be found"):
        blas.load_library()


def test_what_times_were_taken_with(monkeypatch):
    cupy = numpy_cupy.install(monkeypatch)
    cupy.__version__, freed = "14.2.0", []

    def version(handle, number):
        number._obj.value = 130401
        return 0

    cupy.cuda.runtime.driverGetVersion, cupy.cuda.runtime.runtimeGetVersion = lambda: 13020, lambda: 13010
    cupy.cuda.Device = lambda: SimpleNamespace(id=3, pci_bus_id="0000:1B:00.0")
    cupy.cuda.runtime.getDeviceProperties = lambda at: {"name": f"GPU {at}".encode()}
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_all_blocks=lambda: freed.append(True))
    monkeypatch.setattr(environment, "load_library", lambda: SimpleNamespace(cublasGetVersion_v2=version))
    monkeypatch.setattr(environment, "conditions", lambda: {"driver_version": "580.1"})
    monkeypatch.setattr(environment, "open_sensors", lambda bus: f"sensors of {bus}")
    assert environment.versions() == {"driver": "580.1", "CUDA driver": "13020", "CUDA runtime": "13010", "cuBLAS": "130401", "cupy": "14.2.0"}
    monkeypatch.setattr(environment, "conditions", dict)
    assert environment.versions()["driver"] == "unknown"
    assert environment.device_name() == "GPU 3" and environment.sensors_here() == "sensors of 0000:1B:00.0"
    environment.release_memory()
    assert freed == [True]


def test_products_are_raced_anew_and_the_median_is_told(monkeypatch):
    asked = []

    def race(contenders, **how):
        asked.append(how)
        for at, one in enumerate(contenders):
            one.seconds += [1.0 + at, 5.0 + at, 2.0 + at]

    monkeypatch.setattr(products, "race", race)
    one, other = (timing.Contender(name, lambda index: None, seconds=[9.0]) for name in "ab")
    assert products.raced({"a": one, "b": other}, rounds=3, slice_ms=2.5, warm_up=0.5) == {"a": 2.0, "b": 3.0}
    assert asked == [{"rounds": 3, "slice_ms": 2.5, "warm_up": 0.5}]
    done = []
    parts = [timing.Contender(name, lambda index, name=name: done.append((name, index))) for name in "ab"]
    products.chain("both", parts).enqueue(4)
    assert done == [("a", 4), ("b", 5)]


def test_an_estimate_and_an_error_are_those_of_one_contender(monkeypatch):
    class Watch:
        stream = open(os.devnull)

        def one(self, enqueue):
            return enqueue(0)

    cupy, order = numpy_cupy.install(monkeypatch), []
    monkeypatch.setattr(racing, "Stopwatch", Watch)
    monkeypatch.setattr(cupy.cuda, "Device", lambda: SimpleNamespace(synchronize=lambda: order.append("inputs are there")))
    assert racing.estimate(lambda index: order.append("ran") or 2.5 + index) == 2.5
    assert order == ["inputs are there", "ran"]
    monkeypatch.setattr(reference, "Reference", lambda inputs: SimpleNamespace(accuracy=lambda one: reference.Accuracy(1.0, 2.0, 3.0)))
    assert reference.error_of(None, None) == 1.0


# ---- batches


def test_the_products_that_batches_are_asked_with():
    tiles = (SimpleNamespace(m=8, n=6, k=4), SimpleNamespace(m=4, n=2, k=3))
    asked = of_batches.ragged(SimpleNamespace(kind=GROUPED, launches=SimpleNamespace(batch_tiles=tiles), type=F32))
    assert [one.sizes for one in asked] == [
        (11, 5, 13), (7, 1, 11), (8, 6, 4), (4, 2, 3), (9, 9, 9), (1, 1, 1), (5, 130, 7), (0, 4, 9), (9, 0, 3), (17, 12, 0), (40, 3, 33), (64, 64, 70)]
    factors = [(1.0, 0.0), (-1.5, 0.0), (0.75, 2.0)] * 4
    factors[-2] = (0.0, 1.5)
    assert [(one.alpha, one.beta) for one in asked] == factors and all((one.c is None) == (one.beta == 0) for one in asked)
    assert [one.placement for one in asked[:4]] == [Placement(), Placement((1, 3, 1), (4, 8, 12)), Placement(), Placement((3, 3, 1), (12, 8, 12))]
    alike = of_batches.ragged(SimpleNamespace(kind=POINTERS, launches=SimpleNamespace(batch_tiles=tiles), type=F32))
    assert {(one.sizes, one.alpha, one.beta, one.placement) for one in alike} == {((9, 11, 6), -1.5, 2.0, Placement((3, 5, 1), (4, 8, 12)))} and len(alike) == 5
    even = of_batches._even((30, 20, 40), 1)
    assert even.sizes == (30, 20, 40) and {*np.unique(even.a * 16)} == {*np.unique(even.b * 16)} == {*range(8, 16)}


@pytest.mark.parametrize(("kind", "sizes"), [(GROUPED, [(0, 5, 3), (4, 0, 2), (0, 0, 0)]), (STRIDED, [(0, 5, 3)] * 2)], ids=str)
def test_an_empty_batch_is_one_of_no_products_and_one_of_empty_ones(monkeypatch, kind, sizes):
    asked = []

    def batch(device, plan, source, products):
        asked.append([one.sizes for one in products])
        return BatchResult(tuple(np.zeros(one.sizes[:2]) for one in products), {}, None, True)

    monkeypatch.setattr(of_batches, "batch", batch)
    assert of_batches.nothing(None, SimpleNamespace(kind=kind, type=F32), None)[0] and asked == [[], sizes]


def test_products_that_overlap_are_named_as_they_were_given():
    """C of [2, 3] with a leading dimension of 8 beside another in the same rows, and from an element of its own on."""
    def problems(*of):
        made = np.zeros(len(of), PROBLEM)
        for at, (m, n, ldc, c) in enumerate(of):
            made[at]["m"], made[at]["n"], made[at]["ldc"], made[at]["c"] = m, n, ldc, c
        return made

    for fine in (((2, 3, 8, 0), (2, 3, 8, 12)), ((2, 3, 8, 0), (2, 5, 8, 12)), ((2, 3, 8, 0), (2, 3, 3, 44)),
                 ((0, 3, 8, 0), (2, 3, 8, 0)), ((2, 0, 0, 0), (2, 3, 8, 0)), ()):
        refuse_overlap(problems(*fine))
    for wrong, named in (
        (((0, 5, 8, 0), (2, 3, 8, 0), (2, 6, 8, 12)), "products 1 and 2"), (((2, 3, 8, 0), (5, 0, 8, 0), (2, 3, 8, 8)), "products 0 and 2"),
        (((2, 3, 3, 40), (2, 3, 8, 0)), "products 1 and 0"), (((2, 3, 8, 0), (2, 3, 9, 12)), "products 0 and 1"),
        (((1, 3, 3, 0), (1, 1, 3, 8)), "products 0 and 1"),
    ):
        with pytest.raises(SpecError) as refused:
            refuse_overlap(problems(*wrong))
        assert refused.value.got == named


def test_what_kernels_for_products_of_one_size_are_told():
    problems = np.zeros(3, PROBLEM)
    for at in range(3):
        for name, value in {"m": 3, "n": 5, "k": 7, "lda": 9, "ldb": 0, "ldc": 11, "alpha": 1.5, "beta": -2.0}.items():
            problems[at][name] = value
        problems[at]["a"], problems[at]["b"], problems[at]["c"] = 1000 + 400 * at, 5000 - 80 * at, 4 * at
    one = {"m": 3, "n": 5, "k": 7, "alpha": 1.5, "beta": -2.0, "lda": 9, "ldb": 1, "ldc": 11}
    held = SimpleNamespace(first=lambda x: f"first {x}", pointers=lambda x: f"list of {x}")
    assert POINTERS.arguments(problems, held) == one | {x: f"list of {x}" for x in "abc"}
    first = {x: f"first {x}" for x in "abc"}
    assert STRIDED.arguments(problems, held) == one | first | {"stride_a": 100, "stride_b": -20, "stride_c": 1}
    assert STRIDED.arguments(problems[:1], held) == one | first | dict.fromkeys(("stride_a", "stride_b", "stride_c"), 0)
    none = STRIDED.arguments(problems[:0], held)
    assert (none["m"], none["lda"], none["ldc"], none["alpha"], none["stride_b"]) == (0, 1, 1, 0.0, 0)
    assert sizes_of([]).shape == (0, 3)


def test_counters_of_two_kernels_are_added_up_and_only_pairs_share_a_batch():
    assert mixed._summed([{"lossy": 1, "a": 2}, {"lossy": 3, "b": 4}]) == {"lossy": 4, "a": 2, "b": 4} and mixed._summed([]) == {}
    plan = SimpleNamespace(kind=GROUPED, layout="nn", output=SimpleNamespace(title="FP32"), special="exact")
    mixed.check_pair(plan, plan)
    for change, told in (({"kind": POINTERS}, "one for problems of kind pointers"),
                         ({"layout": "tn"}, "layout nn and tn"), ({"output": SimpleNamespace(title="FP16")}, "output FP32 and FP16"),
                         ({"special": "fast"}, "special exact and fast")):
        with pytest.raises(SpecError) as refused:
            mixed.check_pair(plan, SimpleNamespace(**{**vars(plan), **change}))
        assert refused.value.got == told


# ---- what bounds are of, exports, rivals


def test_each_operand_is_split_as_its_own_words(monkeypatch):
    plan, asked = plan_of(scheme="ootomo_b16"), []
    bounds = sys.modules["gemmgen.verify.bound"]
    monkeypatch.setattr(bounds, "split", lambda x, scheme, operand=None: asked.append((operand, x.shape)) or SimpleNamespace(lossy=0))
    list(bounds.held_to(plan, np.ones((2, 3), np.float32), np.ones((3, 5), np.float32), np.zeros((2, 5))))
    assert asked == [("a", (2, 3)), ("b", (5, 3))]


def test_kernels_without_a_matrix_unit_run_on_what_has_another_unit():
    archs = exporter.possible_archs(plan_of(scheme="fp32", promote=0))
    assert archs[0] == "sm_80" and {"sm_86", "sm_89", "sm_90"} <= {*archs} and archs == sorted(archs, key=lambda arch: int(arch[3:].rstrip("a")))
    assert "sm_75" not in archs and "gfx942" not in archs
    amd = exporter.possible_archs(plan_of(gpu="mi210", scheme="fp32", promote=0))
    assert {"gfx90a", "gfx942"} <= {*amd} and not [arch for arch in amd if not arch.startswith("gfx9")], "of 64 lanes, as the kernel"


def test_an_export_has_its_own_architecture_first_and_the_others_by_age():
    plan = plan_of(scheme="fp32", promote=0)
    assert exporter.target_archs(plan, ["sm_100", "sm_90", "sm_80", "sm_86", "sm_90"]) == ["sm_80", "sm_86", "sm_90", "sm_100"]
    later = replace(plan, gpu=GPUS.get("h100"))
    assert later.arch == "sm_90" and exporter.target_archs(later, ["sm_120", "sm_100"]) == ["sm_90", "sm_100", "sm_120"]


def test_an_export_gets_name_archs_and_refusals(monkeypatch):
    one = SimpleNamespace(arch="sm_80")
    built = SimpleNamespace(plan=1, source=2, binary=one, others=(SimpleNamespace(arch="sm_90"),), refused=[SimpleNamespace(as_dict=lambda: {"r": 1})])
    monkeypatch.setattr(road, "build", lambda kernel, gpu, layout, archs: asked.append((kernel, gpu, layout, archs("plan"))) or built)
    monkeypatch.setattr(road, "replace", lambda source, arch: f"source for {arch}")
    monkeypatch.setattr("gemmgen.build.without_line_info", lambda source, binary: f"{source}, {binary.arch}")
    monkeypatch.setattr(exporter, "target_archs", lambda plan, archs: (plan, *archs))
    monkeypatch.setattr(exporter, "export", lambda *given, **how: (given, how))
    asked = []
    assert road.export("x.toml", "out", "h100", name="good", force=True, archs=["sm_90"], layout="tn") == (
        (1, 2, "source for sm_80, sm_80", Path("out")), {"others": ["source for sm_90, sm_90"], "name": "good", "force": True, "refused": [{"r": 1}]})
    assert asked == [("x.toml", "h100", "tn", ("plan", "sm_90"))]
    assert road.export("x.toml", "out")[1] == {"others": ["source for sm_90, sm_90"], "name": None, "force": False, "refused": [{"r": 1}]}


@pytest.mark.parametrize(("text", "moduli", "fast"), [
    ("gemmul8=/x", 8, True), ("gemmul8=/x,moduli=2", 2, True), ("gemmul8=/x,moduli=20,accurate", 20, False), ("gemmul8=/x,accurate,fast", 8, True),
])
def test_a_rivals_moduli_and_mode(text, moduli, fast):
    found = gemmul8.asked(text)
    assert (found.path, found.moduli, found.fast) == (Path("/x"), moduli, fast)
    assert found.name == f"gemmul8-{moduli}" + ("" if fast else "-accurate") and found.where == "--rival gemmul8=/x"


@pytest.mark.parametrize("text", ["gemmul8", "gemmul8=", "other=/x", "gemmul8=/x,moduli=1", "gemmul8=/x,moduli=21", "gemmul8=/x,modulus=8", "gemmul8=/x,8",
                                  "gemmul8=/x,moduli=0008", "gemmul8=/x,moduli=", "gemmul8=/x,moduli=²", "gemmul8=/x,"])
def test_a_rival_that_cannot_be_read(text):
    with pytest.raises(SpecError) as refused:
        gemmul8.asked(text)
    assert "moduli=N (2 to 20)" in refused.value.needs


# ---- Triton, with NumPy in its place


class Whole(np.ndarray):
    """Numbers of a block, which are cast by `to`."""

    def to(self, dtype):
        return self.astype(dtype)


class Pointer:
    """A place in a flat array, or a block of places."""

    def __init__(self, memory, at=0):
        self.memory, self.at = memory, at

    def __add__(self, offset):
        return Pointer(self.memory, self.at + offset)


@pytest.fixture
def rivals(monkeypatch):
    """`gemmgen.timing.rivals`, of modules that compute on the host."""
    state = SimpleNamespace(tile=0, launches=[])

    class Language:
        int64, float32, constexpr = np.int64, np.float32, int
        program_id = staticmethod(lambda axis: state.tile)
        cdiv = staticmethod(lambda a, b: -(-a // b))
        arange = staticmethod(lambda start, end: np.arange(start, end).view(Whole))
        zeros = staticmethod(np.zeros)

        @staticmethod
        def load(pointer, mask=True, other=np.nan):
            mask = np.broadcast_to(mask, pointer.at.shape)
            assert mask.all() or other == 0.0
            return np.where(mask, pointer.memory[np.where(mask, pointer.at, 0)], other)  # an IndexError out of bounds

        @staticmethod
        def store(pointer, values, mask=True):
            mask = np.broadcast_to(mask, pointer.at.shape)
            pointer.memory[pointer.at[mask]] = values[mask]

        @staticmethod
        def dot(a, b, total, input_precision):
            return total + a @ b

    class Jit:
        def __init__(self, function):
            self.function = function

        def __getitem__(self, grid):
            def launch(a, b, c, *sizes, num_warps, num_stages, **how):
                state.launches.append((grid, num_warps, num_stages, how))
                for state.tile in range(grid[0]):
                    self.function(*(Pointer(np.asarray(x).reshape(-1)) for x in (a, b, c)), *sizes, **how)
            return launch

    language = ModuleType("triton.language")
    vars(language).update({name: getattr(Language, name) for name in dir(Language) if not name.startswith("__")})
    triton, torch = ModuleType("triton"), ModuleType("torch")
    triton.jit, triton.cdiv, triton.language, triton.__version__ = Jit, Language.cdiv, language, "3.5"
    torch.as_tensor, torch.zeros = lambda x, device: np.asarray(x), lambda shape, device: np.zeros(shape, np.float32)
    torch.cuda = SimpleNamespace(
        synchronize=lambda: None, stream=lambda here: nullcontext(), ExternalStream=lambda at: f"stream {at}", default_stream=lambda: "default")
    for name, module in {"torch": torch, "triton": triton, "triton.language": language}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "gemmgen.timing.rivals", raising=False)
    numpy_cupy.install(monkeypatch)
    yield SimpleNamespace(module=importlib.import_module("gemmgen.timing.rivals"), state=state, torch=torch)
    sys.modules.pop("gemmgen.timing.rivals", None)
    vars(sys.modules["gemmgen.timing"]).pop("rivals", None)  # else the package would go on with this one


@pytest.mark.parametrize(("size", "even"), [
    ((8, 16, 8), True), ((45, 30, 21), False), ((48, 16, 24), True), ((40, 16, 12), False), ((8, 8, 8), False), ((36, 16, 8), True),
])
def test_tritons_kernel_multiplies_whole_blocks_and_ragged_ones(rivals, size, even):
    m, n, k = size
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (m, k)).astype(np.float32), rng.integers(-3, 4, (k, n)).astype(np.float32)
    c = np.full((m, n), np.nan, np.float32)
    rivals.module._launch(a, b, c, size, "tf32x3", rivals.module.Config(4, 16, 8, 2, 3) if size != (8, 16, 8) else rivals.module.Config(8, 8, 4, 2, 3))
    assert np.array_equal(c, a @ b)
    [(grid, warps, stages, how)] = rivals.state.launches
    assert (warps, stages, how["EVEN"], how["PRECISION"], how["GROUP_M"]) == (2, 3, even, "tf32x3", 8)
    assert grid == ((2,) if size == (8, 16, 8) else (-(-m // 4) * -(-n // 16),))


def test_every_variant_that_triton_compiles_has_one_small_product(rivals):
    module = rivals.module
    assert [module._stand_in(extent, 32) for extent in (64, 48, 33)] == [256, 272, 257]
    assert module.Config(64, 128, 32, 4, 3).label == "64x128x32, 4 warps, 3 stages"
    jobs = module.jobs_for(["ieee", "tf32x3"], [(4096,) * 3, (8192,) * 3, (4096, 4096, 4095)])
    assert len(jobs) == len(set(jobs)) == 2 * 2 * len(module.CONFIGS)
    assert {(job[0], job[2]) for job in jobs} == {(name, size) for name in ("ieee", "tf32x3") for size in ((256,) * 3, (256, 256, 257))}
    job = ("ieee", module.Config(8, 16, 4, 1, 1), (8, 16, 4))
    assert module._compiled(job) == "" and rivals.state.launches[0][0] == (1,)

    def refuses(error):
        def synchronize():
            raise error
        rivals.torch.cuda.synchronize = synchronize

    refuses(ValueError("too much shared memory\nmore"))
    assert module._compiled(job) == "ieee, 8x16x4, 1 warps, 1 stages: too much shared memory"
    refuses(KeyError())
    assert module._compiled(job) == "ieee, 8x16x4, 1 warps, 1 stages: KeyError"


def test_what_does_not_compile_is_told(rivals, monkeypatch):
    module, asked = rivals.module, []

    class Pool:
        def __init__(self, workers, mp_context):
            asked.append((workers, mp_context.get_start_method()))

        def __enter__(self):
            return self

        def __exit__(self, *details):
            return False

        def map(self, function, jobs):
            if len(asked) > 1:
                raise module.BrokenProcessPool("died")
            return ["", "this one", ""]

    monkeypatch.setattr(module, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(module.os, "cpu_count", lambda: 3)
    assert module.compile_all(["ieee"], [(64, 64, 64)]) == ["this one"] and asked == [(3, "spawn")]
    assert module.compile_all(["ieee"], [(64, 64, 64)]) == ["compiling side by side failed, the tuner compiles instead: died"]
    monkeypatch.setattr(module.os, "cpu_count", lambda: 99)
    module.compile_all(["ieee"], [(64, 64, 64)])
    module.compile_all(["ieee", "tf32"], [(64, 64, 64)])
    assert [workers for workers, _ in asked[2:]] == [len(module.CONFIGS), 12]


def test_tritons_fastest_configuration_races(rivals, monkeypatch):
    module = rivals.module
    configs = (module.Config(4, 8, 4, 1, 1), module.Config(8, 8, 8, 2, 2), module.Config(8, 8, 4, 4, 4))
    monkeypatch.setattr(module, "CONFIGS", configs)
    monkeypatch.setattr(module, "TUNED_EXTENT", 8)
    inputs = timing.Inputs((12, 8, 4))
    asked = []

    def estimate(enqueue):
        asked.append(None)
        if len(asked) == 1:
            raise ValueError("no memory\nmore")
        enqueue(0)
        return {2: 3.0, 3: 2.0}[len(asked)]

    monkeypatch.setattr(timing, "estimate", estimate)
    one = module.triton_matmul("triton-ieee", "ieee", inputs)
    assert one.name == "triton-ieee" and one.detail == "8x8x4, 4 warps, 4 stages, Triton 3.5"
    assert [launch[0] for launch in rivals.state.launches] == [(1,), (1,)]
    for at in range(inputs.sets + 1):
        one.enqueue(at)
        np.testing.assert_allclose(one.outputs[at % inputs.sets], np.asarray(inputs.a[at % inputs.sets]) @ np.asarray(inputs.b[at % inputs.sets]), rtol=1e-5)
        one.outputs[at % inputs.sets][...] = np.nan
    asked.clear()
    monkeypatch.setattr(module, "CONFIGS", configs[:1])
    with pytest.raises(DeviceError) as refused:
        module.triton_matmul("triton-ieee", "ieee", inputs)
    assert refused.value.got == "no memory" and refused.value.needs == "a Triton with ieee"


# ---- the other verbs, on a road that does nothing


def refused_with(call, *given, **options):
    with pytest.raises(SpecError) as refused:
        call(*given, **options)
    return refused.value


def test_what_fragments_is_asked_together(capsys, tmp_path, monkeypatch):
    name = "mma_m16n8k16_f16"
    for options, where, got in (
        ({"header": True}, "--header", "no NAME"), ({"name": name, "header": True, "as_json": True}, "--header", "--json"),
        ({"use": "scan"}, "--use", "no NAME"),
        ({"name": name, "use": "scan", "header": True}, "--use", "--header"), ({"name": name, "use": "scan", "as_json": True}, "--use", "--json"),
        ({"name": name, "space": "wmma"}, "--space", "wmma"), ({"name": name, "output": Path("x")}, "--output", "x"), ({"probe": "h100"}, "--probe", "no NAME"),
        ({"name": name, "probe": "h100", "header": True}, "--probe", "--header"),
    ):
        error = refused_with(rows.fragments, **options)
        assert (error.where, error.got) == (where, got)
    asked = []
    monkeypatch.setattr("gemmgen.fragment_uses.use", lambda use, fragment, space: asked.append((use, fragment.name, space)) or f"// {use}\n")
    for use, space, taken in (("scan", "", "wmma"), ("batched", "", "tcec"), ("scan", "tcec", "tcec")):
        rows.fragments(name, use=use, space=space)
        assert asked[-1] == (use, name, taken) and capsys.readouterr().out == f"// {use}\n"
    rows.fragments(name, use="scan", output=tmp_path / "x.cu")
    assert (tmp_path / "x.cu").read_text() == "// scan\n" and capsys.readouterr().out == f"wrote {tmp_path / 'x.cu'}\n"
    monkeypatch.setattr(unit_probe, "probe_here", lambda fragment, gpu: SimpleNamespace(summary=f"{fragment.name} on {gpu.name}", as_dict=lambda: {"x": 1}))
    rows.fragments(name, probe="h100")
    assert capsys.readouterr().out == f"{name} on h100\n"
    rows.fragments(name, probe="h100", as_json=True)
    assert json.loads(capsys.readouterr().out) == {"x": 1}


def test_tables_and_their_json(capsys):
    def printed(call, *given, **options):
        call(*given, **options)
        return capsys.readouterr().out

    line = next(line for line in printed(rows.gpus).splitlines() if line.startswith("h100 ")).split()
    gpu = GPUS.get("h100")
    assert line[:4] == ["h100", "2022", "sm_90", "hopper"] and line[4:8] == [str(gpu.rates.sms), "989.4", "3352.0", "80.0"]
    assert " ".join(line[8:14]) == f"{len(SCHEMES.names())} of {len(SCHEMES.names())} 53 of 54" and "2018  sm_75" in printed(rows.gpus)
    assert [one["name"] for one in json.loads(printed(rows.gpus, as_json=True))] == GPUS.names()
    assert json.loads(printed(rows.gpus, "h100", as_json=True))["name"] == "h100"
    assert [one["name"] for one in json.loads(printed(rows.schemes, as_json=True))] == SCHEMES.names() and printed(rows.schemes).startswith("name ")
    facts = json.loads(printed(rows.schemes, "ootomo", True))
    assert (facts["bits"], facts["dropped"], facts["range"], facts["costs"]["a100"]) == (22, [{"a": 1, "b": 1}], "2^-14 to 2^16", 3.0)
    assert facts["accumulators"] == [{"name": "main", "scale": 0, "promoted": True}, {"name": "correction", "scale": 11, "promoted": False}]
    assert printed(rows.schemes, "ootomo").startswith("name            ootomo\n") and "a100" in facts["gpus"]
    assert facts["bound"] == pytest.approx(7.15e-7, rel=1e-3)
    importlib.import_module("gemmgen.cli.app")  # a schema is registered by its verb
    schemas = [json.loads(printed(rows.schema, **how)) for how in ({}, {"study": True}, {"library": True})]
    assert len({json.dumps(one, sort_keys=True) for one in schemas}) == 3 and "target" in schemas[0]["properties"] and "target" not in schemas[2]["properties"]
    assert refused_with(rows.schema, study=True, library=True).where == "--study, --library"


def test_what_explain_is_asked(capsys, monkeypatch, tmp_path):
    state = SimpleNamespace(asked=False, refused=["r"], calls=[])
    loaded = SimpleNamespace(spec=SimpleNamespace(accuracy=state))
    monkeypatch.setattr(road, "load", lambda path, gpu, layout: state.calls.append((path.name, gpu, layout)) or loaded)
    monkeypatch.setattr(road, "frontier", lambda loaded: "front")
    monkeypatch.setattr("gemmgen.build.choice.explained", lambda loaded: ("found", []))
    monkeypatch.setattr("gemmgen.solve.judged", lambda loaded: f"judged {loaded}")
    monkeypatch.setattr("gemmgen.picture.frontier_image", lambda found, suffix: f"{found} as {suffix}".encode())
    for name, told in {"text": lambda one: f"all of {one}", "short": lambda one: f"text of {one}", "latex": lambda one: f"latex of {one}", "as_dict": lambda one: {"of": one},
                       "frontier_text": lambda found: f"frontier {found}", "frontier_dict": lambda found: {"front": found},
                       "with_candidate": lambda loaded, candidate: f"with {candidate}"}.items():
        monkeypatch.setattr(explain, name, told)

    def printed(**options):
        assert explain_verb([Path("x.toml")], **options) == 0
        return capsys.readouterr().out.rstrip("\n")

    assert printed() == "text of found" and printed(latex=True) == "latex of found" and state.calls == [("x.toml", None, None)] * 2
    assert printed(candidate=["a=1"], gpu="h100", layout="tn") == "text of judged with ['a=1']" and state.calls[-1] == ("x.toml", "h100", "tn")
    assert printed(frontier=True) == "frontier front" and printed(frontier=True, latex=True) == "latex of found"
    assert printed(full=True) == "all of found" and printed(full=True, frontier=True) == "all of found\n\nfrontier front"
    picture = tmp_path / "x.svg"
    monkeypatch.setattr("gemmgen.solve.frontier.joined", lambda found: found[0])
    assert printed(plot=picture) == f"frontier front\nwrote {picture}" and picture.read_text() == "front as .svg"
    assert json.loads(printed(as_json=True)) == {"of": "found"} and json.loads(printed(as_json=True, latex=True)) == {"of": "found", "latex": "latex of found"}
    assert json.loads(printed(as_json=True, frontier=True)) == {"of": "found", "frontier": {"front": "front"}}
    state.asked = True
    assert printed() == "text of found"
    assert refused_with(explain_verb, None).where == "gemmgen explain" and refused_with(explain_verb, [Path("x")], plot=Path("x.doc")).got == "x.doc"
    monkeypatch.setattr("gemmgen.solve.frontier.joined", lambda found: "and".join(found))
    assert explain_verb([Path("x"), Path("y")], plot=picture) == 0 and picture.read_text() == "frontandfront as .svg"
    assert capsys.readouterr().out.count("wrote") == 1
    assert refused_with(explain_verb, [Path("x")] * 2, html=Path("x.html")).problem == "one page cannot explain several specs"
    monkeypatch.setattr(explain, "symbols", lambda: ["s"])
    monkeypatch.setattr(explain, "symbols_text", lambda: "all symbols")
    assert explain_verb(symbols=True) == 0 and capsys.readouterr().out == "all symbols\n"
    assert explain_verb(symbols=True, as_json=True) == 0 and json.loads(capsys.readouterr().out) == ["s"]


def test_what_library_is_asked(capsys, monkeypatch):
    from gemmgen.cli import libraries
    from gemmgen.library import made

    found, calls = SimpleNamespace(choice=SimpleNamespace(notes=["n1"])), []
    monkeypatch.setattr(road, "load_library", lambda source: SimpleNamespace(name="lab"))
    monkeypatch.setattr(road, "library", lambda loaded, output, force, progress: calls.append((loaded.name, output, force)) or found)
    monkeypatch.setattr(made, "choose", lambda loaded, step: found.choice)
    monkeypatch.setattr(libraries, "choice_text", lambda loaded, choice: f"chosen for {loaded.name}")
    monkeypatch.setattr(libraries, "choice_value", lambda choice: {"notes": choice.notes})
    monkeypatch.setattr(libraries, "text", lambda found, output: f"wrote {output}")
    monkeypatch.setattr(libraries, "value", lambda found, output: {"folder": str(output)})
    for options, out, err in (
        ({"dry_run": True}, "chosen for lab\n", "note: n1\n"), ({"output": Path("o"), "force": True}, "wrote o\n", "note: n1\n"),
        ({"output": Path("o"), "quiet": True}, "wrote o\n", ""), ({"dry_run": True, "quiet": True}, "chosen for lab\n", ""),
    ):
        assert library_verb(Path("l.toml"), **options) == 0 and capsys.readouterr() == (out, err)
    assert calls == [("lab", Path("o"), True), ("lab", Path("o"), False)]
    for options, value in (({"dry_run": True}, {"name": "lab", "notes": ["n1"]}), ({"output": Path("o")}, {"folder": "o"})):
        assert library_verb(Path("l.toml"), as_json=True, **options) == 0
        ran = capsys.readouterr()
        assert json.loads(ran.out) == value and ran.err == ""
    assert refused_with(library_verb, Path("l.toml")).remedy == "-o lab"
    assert refused_with(library_verb, Path("l.toml"), output=Path("o"), dry_run=True).problem.startswith("stands beside --dry-run")


def test_a_library_is_made_and_written_where_it_is_asked_for(monkeypatch):
    calls = []
    monkeypatch.setattr(road, "load_library", lambda source: f"loaded {source}")
    monkeypatch.setattr("gemmgen.library.made.made", lambda loaded, step: calls.append((loaded, step)) or "made")
    monkeypatch.setattr("gemmgen.library.write", lambda found, folder, force: calls.append((found, folder, force)))
    watcher = SimpleNamespace(step="the step")
    assert road.library("l.toml", "out", force=True, progress=watcher) == "made"
    assert calls == [("loaded l.toml", "the step"), ("made", Path("out"), True)]
    road.library("l.toml", "out", progress=watcher)
    assert calls[-1] == ("made", Path("out"), False)


@pytest.fixture
def made_kernel(monkeypatch):
    """A kernel that `road.render` and `road.build` give whatever they are asked for; what they were is in `calls`."""
    plan = SimpleNamespace(hash="abcd", as_dict=lambda: {"p": 1}, gpu=SimpleNamespace(maker=VENDORS["nvidia"]), standing=None)
    launch = SimpleNamespace(symbol="k", grid=((("m", 64),),), threads=128, shared_bytes=7, params=("a", "b"))
    source = SimpleNamespace(name="k", arch="sm_80", hash="ffff", text="code\n", suffix=".cu", launches=[launch])
    binary = SimpleNamespace(arch="sm_80", compiler="c", from_cache=True, seconds=1.5, assembly="asm", code=b"bin")
    state = SimpleNamespace(plan=plan, source=source, binary=binary, others=(), refused=[], calls=[])
    monkeypatch.setattr(road, "render", lambda path, gpu, layout: state.calls.append((path.name, gpu, layout)) or state)
    monkeypatch.setattr(road, "build", lambda path, gpu, layout, archs=None, progress=None: state.calls.append((path.name, gpu, layout)) or state)
    monkeypatch.setattr(show, "kernel_facts", lambda *of: [])
    monkeypatch.setattr(show, "build_table", lambda kernel: "the table")
    monkeypatch.setattr("gemmgen.verdict.verdict", lambda plan: None)
    return state


def test_what_render_prints_and_writes(made_kernel, capsys, tmp_path):
    x = [Path("x.toml")]
    assert build_verbs.build(x, source=True) == 0 and capsys.readouterr().out == "code\n"
    build_verbs.build(x, gpu="h100", layout="tn", as_json=True, source=True)
    told = json.loads(capsys.readouterr().out)
    assert made_kernel.calls[-1] == ("x.toml", "h100", "tn") and (told["text"], told["file"], told["sha256"], told["arch"]) == ("code\n", None, "ffff", "sm_80")
    assert told["launches"] == [{"symbol": "k", "grid": [[["m", 64]]], "threads": 128, "shared_bytes": 7, "params": ["a", "b"]}]
    build_verbs.build(x, output=str(tmp_path / "one.cu"), source=True)
    assert capsys.readouterr().out == f"wrote {tmp_path / 'one.cu'}\n" and (tmp_path / "one.cu").read_text() == "code\n"
    build_verbs.build(x, output=str(tmp_path), as_json=True, source=True)
    assert "text" not in json.loads(capsys.readouterr().out) and (tmp_path / "x.cu").is_file()
    build_verbs.build([Path("x.toml"), Path("y.toml")], output=f"{tmp_path}/new/", source=True)
    assert sorted(os.listdir(tmp_path / "new")) == ["x.cu", "y.cu"]
    assert refused_with(build_verbs.build, x * 2, output="one.cu", source=True).remedy == "-o one.cu/"
    capsys.readouterr()
    refusals = [SimpleNamespace(plan=made_kernel.plan, as_dict=lambda: {"r": 1}), SimpleNamespace(plan=None, as_dict=lambda: {"r": 2})]
    made_kernel.refused = refusals
    build_verbs.build(x, source=True)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("note: x.toml: printed, though the compiler") and second.startswith("note: x.toml: passed over, since the compiler")
    build_verbs.build(x, as_json=True, source=True)
    ran = capsys.readouterr()
    assert ran.err == "" and json.loads(ran.out)["refused"] == [{"r": 1}, {"r": 2}]


def test_what_build_writes(made_kernel, capsys, tmp_path):
    assert build_verbs.build([Path("x.toml")], str(tmp_path), gpu="h100", layout="tn") == 0
    files = [tmp_path / f"x_h100_tn{suffix}" for suffix in (".cu", ".ptx", ".cubin")]
    assert capsys.readouterr().out == f"the table\nwrote      {files[0]}\n           {files[1]}\n           {files[2]}\n"
    assert [file.read_bytes() for file in files] == [b"code\n", b"asm", b"bin"] and made_kernel.calls == [("x.toml", "h100", "tn")]
    build_verbs.build([Path("x.toml")], str(tmp_path), as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told == {"kernel": "k", "arch": "sm_80", "compiler": "c", "from_cache": True, "seconds": 1.5, "kernels": [], "plan": {"p": 1}, "verdict": None,
                    "files": [str(tmp_path / f"x{suffix}") for suffix in (".cu", ".ptx", ".cubin")]}


def test_what_export_tells(made_kernel, capsys, monkeypatch):
    calls = []
    monkeypatch.setattr(road, "export", lambda kernel, output, name, force: calls.append((output, name, force)) or [Path("o/a.h"), Path("o/b")])
    monkeypatch.setattr(exporter, "default_name", lambda plan: "its_own")
    assert export_verb(Path("x.toml"), Path("o"), gpu="h100", layout="tn") == 0 and capsys.readouterr().out == "wrote      o/a.h\n           o/b\n"
    assert export_verb(Path("x.toml"), Path("o"), name="good", force=True, as_json=True) == 0
    told = json.loads(capsys.readouterr().out)
    assert calls == [(Path("o"), None, False), (Path("o"), "good", True)] and made_kernel.calls == [("x.toml", "h100", "tn"), ("x.toml", None, None)]
    assert told == {"name": "good", "kernel": "k", "arch": "sm_80", "compiler": "c", "files": ["o/a.h", "o/b"], "plan": {"p": 1}, "verdict": None}
    made_kernel.others = (SimpleNamespace(arch="sm_90"),)
    export_verb(Path("x.toml"), Path("o"), as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["name"], told["archs"]) == ("its_own", ["sm_80", "sm_90"])
    assert refused_with(export_verb, Path("x.toml"), Path("o"), name="no name")


# ---- kernels of batches, timed


@pytest.mark.parametrize(("given", "tiles", "taken"), [(None, (1,), 77), (5, (1,), 5), (0, (1,), 0), (None, (), None), (5, (), 5)])
def test_the_threshold_of_a_batchs_kernel_is_the_plans_where_none_is_given(monkeypatch, given, tiles, taken):
    monkeypatch.setattr("gemmgen.run.open_device", lambda *of: of)
    plan = SimpleNamespace(own=SimpleNamespace(threshold=77), batch=SimpleNamespace(tiles=tiles))
    for list_asked, upload in ((True, True), (True, False), (False, True)):
        interface = SimpleNamespace(asks=lambda name: name == "list" and list_asked)
        built = SimpleNamespace(plan=plan, source=SimpleNamespace(name="k", interface=interface), binary="code")
        one = batch_contender.BatchKernel(built, given, upload)
        assert one._threshold == taken and one._upload_list == (list_asked and upload) and one._device == ("cuda", plan, built.source, "code")


def test_a_rival_has_eight_moduli_and_is_fast_unless_asked_otherwise():
    assert gemmul8.Gemmul8(Path("/x")).name == "gemmul8-8"
    done = []
    batch_contender._together([lambda: done.append(1), lambda: done.append(2)])()
    single = [lambda: done.append(3)]
    assert done == [1, 2] and batch_contender._together(single) is single[0]
    batch_contender._together([])()
    assert done == [1, 2]


@pytest.mark.parametrize(("kind", "wanted"), [
    (GROUPED, {"problems": "problems 1"}), (POINTERS, {"a": "pa", "b": "pb", "c": "pc", "m": 3, "ldb": 9}),
    (STRIDED, {"a": "a 1", "b": "b 1", "c": "c 1", "k": 7, "stride_c": 5}),
])
def test_a_batchs_kernel_gets_the_set_that_it_is_prepared_for(monkeypatch, kind, wanted):
    numpy_cupy.install(monkeypatch)
    given = []
    device = SimpleNamespace(prepared=lambda *launch, direct: given.append((launch, direct)) or (lambda: None))
    monkeypatch.setattr("gemmgen.run.open_device", lambda *of: device)
    monkeypatch.setattr("gemmgen.run.allocated", lambda device, interface, extents: extents)
    monkeypatch.setattr("gemmgen.run.arguments", lambda launch, values, memory: (dict(values), memory))
    launch = SimpleNamespace(symbol="k", blocks=lambda extents: extents["turns"], threads=32, shared_bytes=7, overlaps=True)
    interface = SimpleNamespace(asks=lambda what: False, constants={"chunk": 4}, launches=[launch])
    listed = SimpleNamespace(rows=np.zeros(2, np.int32), extents={"turns": 5})
    asked = []
    plan = SimpleNamespace(own=SimpleNamespace(threshold=9), batch=SimpleNamespace(tiles=(1,)), kind=kind, design=SimpleNamespace(
        listed=lambda plan, sizes, threshold: asked.append((sizes.tolist(), threshold)) or listed))
    kernel = batch_contender.BatchKernel(SimpleNamespace(plan=plan, source=SimpleNamespace(name="k", interface=interface), binary=None))
    hosts = np.zeros(2, PROBLEM)
    for name, value in {"m": 3, "n": 5, "k": 7, "ldb": 9}.items():
        hosts[name] = value
    hosts["c"] = 100, 120
    batch = SimpleNamespace(m=[3, 3], n=[5, 5], k=[7, 7], is_uniform=True, problems=["", "problems 1"], hosts=[None, hosts],
                            pointers=["", ("pa", "pb", "pc")], a=["", "a 1"], b=["", "b 1"], c=["", "c 1"])
    batch.held = lambda at, entries: HeldSet(batch, at, entries)
    kernel.prepare(batch, 1)
    [((symbol, blocks, threads, shared, (values, memory), overlaps), direct)] = given
    assert (symbol, blocks, threads, shared, overlaps, direct) == ("k", 5, 32, 7, False, True) and memory == {"turns": 5, "chunk": 4}
    assert asked == [([[3, 5, 7]] * 2, 9)] and {name: values[name] for name in wanted} == wanted
    assert (values["batch"], values["threshold"], values["listed"], values["turns"], values["blocks"]) == (2, 9, 2, 5, 5)
    batch.is_uniform = False
    if kind is GROUPED:
        kernel.prepare(batch, 1)
    else:
        with pytest.raises(DeviceError, match="has one size"):
            kernel.prepare(batch, 1)


def test_nvidia_smi_is_asked_for_its_words_and_not_for_ever(monkeypatch):
    asked = []
    monkeypatch.setattr(environment.subprocess, "run", lambda command, **how: asked.append((command, how)) or SimpleNamespace(stdout="a, b, c, d, e, f\n"))
    assert len(environment.conditions()) == 6
    [(command, how)] = asked
    assert how == {"capture_output": True, "text": True, "timeout": 10, "check": True}
    assert command == ["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,power.draw,power.limit,temperature.gpu", "--format=csv,noheader"]


def test_a_record_holds_plan_device_kernels_report_and_unit(monkeypatch):
    from dataclasses import dataclass

    @dataclass
    class Used:
        registers: int
        arguments: tuple

    record = sys.modules["gemmgen.verify.record"]
    monkeypatch.setattr(record, "_matrix_unit", lambda plan, kind: (plan, kind))
    plan = SimpleNamespace(as_dict=lambda: {"p": 1})
    report = SimpleNamespace(device_kind="hip", as_dict=lambda: {"passed": True})
    told = record.record(plan, SimpleNamespace(compiler="c", kernels={"k": Used(5, ("a",))}), report, {"name": "d"})
    assert told.pop("generator").startswith("gemmgen ") and told.pop("schema_version") == 1, "who reads records goes by it"
    assert told == {"plan": {"p": 1}, "device": {"kind": "hip", "name": "d"}, "compiler": "c", "kernels": {"k": {"registers": 5}}, "report": {"passed": True},
                    "matrix_unit": (plan, "hip")}
    tiles = SimpleNamespace(summary="2 of 2", as_dict=lambda: {"word": "f16"})
    monkeypatch.undo()
    monkeypatch.setattr(record, "probe_unit", lambda plan, kind: tiles)
    scalar = SimpleNamespace(gpu=SimpleNamespace(unit=SimpleNamespace(name="cdna3")), fragment=SimpleNamespace(on_matrix_unit=False, instruction="v_fma"))
    assert record._matrix_unit(scalar, "hip") == {"model": "v_fma", "summary": "2 of 2", "word": "f16"}


# ---- exports


def test_launches_and_memory_of_an_export_as_c():
    """Three slices of k, one block a tile of 64 x 64; words of 2 bytes, two an element; parts of 4 bytes, three an element."""
    plan = plan_of(split_k=3)
    told = contents.template_values(plan, render(plan), ["sm_80", "sm_90"], "good")
    split, gemm = told["launches"]
    words = "gg_tiles(at->m_padded, 64) * gg_tiles(at->k_padded, 32)"
    assert (split["blocks"], split["blocks_same_b"], gemm["blocks"]) == (
        f"{words} + {words.replace('m_', 'n_')}", words, "gg_tiles(m, 64) * gg_tiles(n, 64) * 3")
    assert (split["threads"], gemm["threads"], gemm["blocks_same_b"], told["keeps_b"], told["overlapping"]) == (256, 128, None, True, False)
    sizes = {one["name"]: one["size"] for one in told["regions"]}
    assert sizes["status"] == "56" and sizes["a_words"] == "4 * (uint64_t)at->m_padded * (uint64_t)at->k_padded"
    assert sizes["arrived"] == "4 * (uint64_t)at->m_padded * (uint64_t)at->n_padded / 4096" and sizes["parts"].startswith("12 * (uint64_t)at->m_padded")
    assert [one["name"] for one in told["regions"] if one["last_zeroed"]] == ["arrived"]
    assert told["status_bytes"] == 56 and told["padded"] == [("m_padded", "m", 64), ("n_padded", "n", 64), ("k_padded", "k", 32)]
    assert told["target"]["nvcc_archs"] == "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90"
    assert told["target"]["arch_numbers"] == "80 90"
    assert told["target"]["wrong_arch"] == "defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800" and told["guard"] == "GOOD"
    example = told["example"]
    assert (example["m"], example["n"], example["k"], example["safety"], example["overflow"]) == (300, 200, 500, 2.0, 1)
    assert example["overflow_text"].endswith("was counted") and told["pad"]("abc", 5) == "  " and told["pad"]("abcdef", 5) == " "
    alone = contents.template_values(plan, render(plan), ["sm_80"], "good")["target"]
    assert alone["nvcc_archs"] == "-arch=sm_80" and contents._wrong_arch(SimpleNamespace(arch="sm_90a", fragment=SimpleNamespace(arch="sm_90a")), "x") == {
        "wrong_arch": "defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)",
        "wrong_arch_told": "x is for sm_90a alone: nvcc -gencode arch=compute_90a,code=sm_90a"}


def test_strides_and_types_of_an_exports_functions():
    assert contents._batch_text(True)["stride_declared"]["b"] == ", int64_t stride_b" and contents._batch_text(True)["stride_passed"]["c"] == ", stride_c"
    single = contents._batch_text(False)
    assert single["stride_passed"] == dict.fromkeys("abc", "") and single["batch_declared"] == single["batch_passed"] == "" and not single["batched"]
    usual, halves = (contents._of_stored_b(plan_of(**how)) for how in ({}, {"scheme": "ootomo_b16"}))
    assert (usual["b_type"], usual["b_data"], halves["b_type"], halves["b_data"], halves["b_told"]) == (
        "float", "b", "uint16_t", "given_b", ", B given as FP16")
    text = "gg_a GG_B before\n// kernels gg_a\nafter gg_a(GG_B) agg_a"
    assert contents._called_apart(text, "// kernels gg_a", "good", "GOOD") == "gg_a GG_B before\n// kernels gg_a\nafter good_gg_a(GOOD_GG_B) agg_a"
    assert contents._extent("m") == "m" and contents._extent("m_padded") == "at->m_padded"


@pytest.mark.parametrize(("kind", "walk", "names", "refused"), [
    (GROUPED, "persistent", "problems batch workspace workspace_bytes stream", "problems batch workspace workspace_bytes"),
    (STRIDED, "workgroups", "m n k alpha a lda stride_a b ldb stride_b beta c ldc stride_c batch list count workspace workspace_bytes stream",
     "m n k a lda b ldb c ldc stride_c batch list count workspace workspace_bytes"),
    (POINTERS, "persistent", "m n k alpha a lda b ldb beta c ldc batch workspace workspace_bytes stream",
     "m n k a lda b ldb c ldc batch workspace workspace_bytes"),
])
def test_arguments_of_a_batchs_function_and_which_can_be_refused(kind, walk, names, refused):
    plan = SimpleNamespace(kind=kind, type=F32, batch=SimpleNamespace(walk=walk, tiles=(1,)), own=SimpleNamespace(listed=64))
    told = of_exports.arguments(plan, "good")
    assert [one.name for one in told] == names.split() and [one.name for one in told if one.code] == refused.split()
    assert all(one.code in (None, one.name.upper()) for one in told) and told[0].declared == ("const good_problem *problems" if kind is GROUPED else "int m")
    values = {code: value for code, value, _ in of_exports.codes(plan, "good", "2^31 - 1", 77)}
    assert all(values[f"BAD_{name.upper()}"] == -1 - names.split().index(name) for name in refused.split())
    assert (values["TOO_LARGE"], values["LIST_TOO_SMALL"], values.get("OVERLAP"), values.get("BAD_COUNT") == -31) == (
        -100, -101, None if kind is STRIDED else -102, walk == "persistent")
    assert of_exports.entry(plan, "good") == ("good" if walk == "persistent" else "good_listed") and of_exports.serves(plan)
    assert of_exports.products_of_a_list(plan) == (64 if kind is GROUPED else None)
    assert ("leaves the queue zero" in of_exports.zero_rule(plan)) == (walk == "persistent")
    assert any("the 77 that are needed" in meaning for *_, meaning in of_exports.codes(plan, "good", "x", 77))


def test_parameters_fill_lines_up_to_their_width():
    parts = ["x" * 40, "y" * (of_exports.WIDTH - 43), "z"]
    assert of_exports._filled(parts, 4) == f"{parts[0]}, {parts[1]},\n    z"
    assert of_exports._filled([parts[0], parts[1] + "y", "z"], 2) == f"{parts[0]},\n  {parts[1]}y, z" and of_exports._filled(["a"], 4) == "a"


@pytest.mark.parametrize(("x", "told"), [(1.0, 1.0), (1.001, 1.01), (9.991, 10.0), (1.23e-7, 1.23e-7), (1.2301e-7, 1.24e-7), (999.0, 999.0), (999.1, 1000.0)])
def test_figures_of_a_header_are_rounded_up(x, told):
    assert prose.rounded_up(x) == pytest.approx(told, rel=1e-12)


def test_operands_of_another_type_are_converted_once(monkeypatch):
    numpy_cupy.install(monkeypatch)
    inputs = timing.Inputs((4, 6, 2))
    for convert in (lambda: inputs.operands("float64"), lambda: inputs.operands("float16"), inputs.bytes, lambda: inputs.bytes(False)):
        assert convert() is convert()
    assert inputs.operands("float32")[0][0] is inputs.a[0] and [x.dtype.name for x in inputs.operands("float16")[1]] == ["float16"] * 2
    assert [x.shape for x in inputs.bytes()[0]] == [(4, 2), (6, 2)] and [x.shape for x in inputs.bytes(False)[0]] == [(4, 2), (2, 6)]
    assert inputs.results("float32") is inputs.c and [(x.shape, x.dtype.name) for x in inputs.results("int32")] == [((4, 6), "int32")] * inputs.sets
    assert inputs.b_for(INPUTS[F32.name]) is inputs.b and refused_with(inputs.b_for, INPUTS.get("f16")).got == "f16"


# ---- what words leave


def test_what_words_of_small_elements_lose_is_told_where_it_is_asked_for():
    """By hand: FP16 words of 2^-26 are 0, of a unit that flushes none all of it is lost; 1 is kept whole."""
    plan = plan_of(scheme="markidis")
    a, b = np.array([[2.0**-26], [1.0]], np.float32), np.array([[3.0]], np.float32)
    lost = sys.modules["gemmgen.verify.bound"].lost
    assert not plan.launches.flushes_words and lost(plan, a, b, a.astype(float) @ b) == 0.0
    assert lost(plan, a, b, a.astype(float) @ b, lossy=True).tolist() == [[3 * 2.0**-26], [0.0]]
    beyond = np.array([[1e30], [1.0]], np.float32)
    assert lost(plan_of(), beyond, b, beyond.astype(float) @ b, lossy=True).tolist() == [[0.0], [0.0]]  # a word of Inf: C is computed again


def test_what_is_lost_widens_both_bounds():
    made = judging.Bound(1.0, 2.0, 3.0, 4.0)
    reference, magnitude = np.array([[3.0, 4.0]]), np.array([[10.0, 0.0]])
    assert made.beside(0.0, reference, magnitude) is made and made.beside(np.zeros((1, 2)), reference, magnitude) is made
    wider = made.beside(np.array([[-0.5, 0.0]]), reference, magnitude)
    assert wider == judging.Bound(1.0 + 0.5 / 5, 2.0 + 0.05, 3.0, 4.0)
    assert made.beside(np.array([[0.5, 0.0]]), np.zeros((1, 2)), magnitude).relative_frobenius == np.inf


# ---- a batch on a device, by a kernel of the host


class Memory:
    """A device whose memory is the host's, with as many bytes before a buffer as it is to be misaligned."""

    def __init__(self):
        self.released = 0

    def upload(self, array, name, misalign=0):
        place = np.zeros(misalign // 4 + array.size + 1, np.float32)[misalign // 4 :] if array.dtype == np.float32 else array.copy()
        if array.dtype == np.float32:
            place[: array.size] = array.ravel()
        return place

    def empty(self, nbytes, name):
        return np.zeros(nbytes, np.uint8)

    def address(self, buffer):
        return buffer.ctypes.data

    def download(self, buffer, dtype, count):
        return buffer[:count].copy()

    def seconds(self):
        return 1.5

    def release(self):
        self.released += 1


def multiplied(given, kind, layout):
    """What a kernel does with the arguments of a batch."""
    def matrix(address, rows, columns, ld, transposed=False):
        if transposed:
            return matrix(address, columns, rows, ld).T
        flat = np.frombuffer((ctypes.c_float * ((rows - 1) * ld + columns)).from_address(int(address)), np.float32)
        return np.lib.stride_tricks.as_strided(flat, (rows, columns), (4 * ld, 4))

    for at in range(given["batch"]):
        one = given["problems"][at] if kind is GROUPED else given
        a, b, c = (one[x] if kind is GROUPED else given[x][at] if kind is POINTERS else given[x].ctypes.data + 4 * at * given[f"stride_{x}"] for x in "abc")
        m, n, k = (int(one[x]) for x in "mnk")
        left, right = matrix(a, m, k, int(one["lda"]), layout[0] == "t"), matrix(b, k, n, int(one["ldb"]), layout[1] == "t")
        out = matrix(c, m, n, int(one["ldc"]))
        out[...] = one["alpha"] * (left @ right) + (one["beta"] * out if one["beta"] else 0)


@pytest.mark.parametrize("layout", ["nn", "tn", "nt", "tt"])
@pytest.mark.parametrize("kind", [GROUPED, POINTERS, STRIDED], ids=str)
def test_a_batchs_matrices_are_where_its_kernel_is_told(monkeypatch, kind, layout):
    of_run, given, rng = sys.modules["gemmgen.run.batch"], [], np.random.default_rng(0)
    sizes = [(3, 5, 4), (2, 7, 3), (4, 1, 6)] if kind is GROUPED else [(3, 5, 4)] * 3
    products = []
    for at, (m, n, k) in enumerate(sizes):
        a, b, c = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n)))
        own = at if kind is GROUPED else 1
        products.append(Product(a, b, c if own else None, 1.5 + own, 0.5 * own, Placement((own, 2, 3), (4 * own, 8, 12), (own, 0, 2))))

    def launch_all(device, interface, extents, arguments, memory):
        given.append((arguments, extents, memory))
        multiplied(arguments, kind, layout)
        if spoils:
            first = arguments["problems"][0]["c"] if kind is GROUPED else arguments["c"][0] if kind is POINTERS else arguments["c"].ctypes.data
            ctypes.c_float.from_address(int(first) + 4 * products[0].sizes[1]).value = 7.0  # behind the first row

    monkeypatch.setattr(of_run, "allocated", lambda device, interface, extents: "memory")
    monkeypatch.setattr(of_run, "launch_all", launch_all)
    monkeypatch.setattr(of_run, "counted", lambda device, interface, memory: {"lossy": 3})
    asked = []
    listed = SimpleNamespace(rows=np.arange(6, dtype=np.int32), extents={"turns": 4})
    design = SimpleNamespace(listed=lambda plan, sizes, threshold: asked.append((sizes.tolist(), threshold)) or listed)
    plan = SimpleNamespace(
        kind=kind, layout=layout, output=USUAL, type=F32, own=SimpleNamespace(threshold=9), batch=SimpleNamespace(tiles=(1,)), design=design,
        launches=SimpleNamespace(repeated=False))
    source = SimpleNamespace(interface=SimpleNamespace(constants={"chunk": 2}))
    for spoils in (False, True):
        device = Memory()
        found = of_run.batch(device, plan, source, products, threshold=0 if spoils else None)
        assert found.intact is not spoils and found.status == {"lossy": 3} and found.seconds == 1.5 and device.released == 1
        for one, c in zip(products, found.products, strict=True):
            assert np.array_equal(c, one.alpha * (one.a @ one.b) + (one.beta * one.c if one.beta else 0))
    assert asked == [([list(size) for size in sizes], 9), ([list(size) for size in sizes], 0)]
    arguments, extents, memory = given[0]
    assert (arguments["batch"], arguments["listed"], arguments["turns"], arguments["threshold"]) == (3, 6, 4, 9) and extents == {"turns": 4, "chunk": 2}
    plan.batch.tiles = ()
    spoils = False
    of_run.batch(Memory(), plan, source, products)
    assert asked[-1][1] is None and memory == "memory"
    if kind is not GROUPED:
        other = Product(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32))
        with pytest.raises(SpecError) as refused:
            of_run.batch(Memory(), plan, source, [*products, other])
        assert refused.value.got == "2 sizes"


def test_a_schemes_gpus_and_a_rounding_of_c():
    assert show.scheme_gpus(SCHEMES.get("fp32")) == list(GPUS.rows())
    bounds = sys.modules["gemmgen.verify.bound"]
    usual = plan_of()
    rounded = replace(usual, output=replace(usual.output, roundoff=2.0**-11))
    plain = bounds.worst_case(usual, 64)
    assert bounds.worst_case(rounded, 64) == pytest.approx(plain + 2.0**-11 * (1 + plain), rel=1e-3)
    whole = plan_of(scheme="mixpert2", promote=0)
    plain = bounds.worst_case(whole, 64)
    assert bounds.worst_case(replace(whole, output=rounded.output), 64) == plain + 2.0**-11 * (1 + plain)


def test_one_gpu_tells_its_schemes_its_verdict_and_what_is_measured(capsys):
    """Of a GPU at 4096^3: the fastest kernel with FP32's error, beside plain FP32; a user's own row, too, by its file."""
    rows.gpus("rtx5080")
    told = {line[:14].strip(): line[15:] for line in capsys.readouterr().out.splitlines() if line}
    assert re.fullmatch(r"residues7: on rtx5080 at 4096 x 4096 x 4096: (0\.9\d|1\.0) x FP32 \(predicted\)", told["verdict"])
    assert told["schemes"] == "all but f16_s8" and told["times"].startswith("0 of 54 constants") and "not checked on hardware" in told["rounding"]
    rows.gpus(str(GPUS.folder / "rx9070xt.toml"), as_json=True)
    facts = json.loads(capsys.readouterr().out)
    assert {"residues8", "mixpert1_tile", "e4m3x6"} <= {*facts["schemes"]} and "tf32x3" not in facts["schemes"]
    assert (facts["verdict"]["m"], facts["verdict"]["scheme"], facts["verdict"]["how"], facts["year"]) == (4096, "run_scaled", "predicted", 2025)


def test_what_of_a_gpus_times_is_measured():
    """Every constant counts once, those of policies and designs among them; what is taken over from another generation is assumed."""
    found = GPUS.get("h200").measured
    assert standing(found) == (53, 54) and found.wgmma is not None
    assert standing(found.model_copy(update={"wgmma": None})) == (37, 37)  # 16 and one assumed of 17 less
    assert standing(GPUS.get("rx9070xt").measured) == (0, 54) and standing(GPUS.get("b200").measured) == (0, 64)


def test_a_map_of_worth_is_told_and_drawn(capsys, monkeypatch, tmp_path):
    made, asked = (Verdict("h200", 256, 256, 256, 1.0, 4.0, scheme="scaled"),), []
    monkeypatch.setattr("gemmgen.verdict.worth", lambda gpus, progress: asked.append([one.name for one in gpus]) or made)
    monkeypatch.setattr("gemmgen.cli.show.worth_text", lambda found, gpus: f"{len(found)} of {len(gpus)}")
    monkeypatch.setattr("gemmgen.picture.worth_image", lambda found, suffix: f"{len(found)} as {suffix}".encode())
    rows.gpus("h200", worth=True)
    rows.gpus(None, worth=True)
    assert capsys.readouterr().out == f"1 of 1\n1 of {len(GPUS.rows())}\n" and asked == [["h200"], [one.name for one in GPUS.rows()]]
    picture = tmp_path / "worth.svg"
    rows.gpus("h200", worth=True, plot=picture)
    assert capsys.readouterr().out == f"1 of 1\n{'wrote':<{show.LABEL}}{picture}\n" and picture.read_text() == "1 as .svg"
    rows.gpus("h200", worth=True, as_json=True)
    [told] = json.loads(capsys.readouterr().out)
    assert told == {"scheme": "scaled", **json.loads(json.dumps(made[0].as_dict()))}
    assert refused_with(rows.gpus, "h200", worth=True, plot=Path("worth.doc")).got == "worth.doc" and refused_with(rows.gpus, plot=picture).where == "--plot"


def test_a_map_of_worth_has_a_cell_for_each_gpu_and_size(monkeypatch):
    pytest.importorskip("matplotlib")
    from gemmgen import picture

    monkeypatch.setattr(picture, "content", lambda figure, suffix: figure)
    made = [Verdict(gpu, size, size, size, 1.0, ratio, scheme=scheme) for gpu, size, ratio, scheme in (
        ("h200", 4096, 4.0, "scaled"), ("h200", 256, 0.5, "fast"), ("a100", 256, 1.0, "other"))]
    axis = picture.worth_image(made, ".svg").axes[0]
    assert [[one.get_text() for one in side.get_ticklabels()] for side in (axis.xaxis, axis.yaxis)] == [["256", "4096"], ["h200", "a100"]]
    [shades] = [np.ma.filled(one.get_array(), 9.0).tolist() for one in axis.images]
    assert shades == [[-1.0, 2.0], [0.0, 9.0]], "a doubling is one step, and what nobody serves is blank"
    assert {(one.get_position(), one.get_text().partition(" ")[2], one.get_color()) for one in axis.texts} == {
        ((1, 0), "scaled", "white"), ((0, 0), "fast", "black"), ((0, 1), "other", "black")}


def test_the_map_of_worth_tells_memory_and_standing():
    made = Verdict("h200", 4096, 4096, 4096, 1.0, 4.0, scheme="scaled"), Verdict("h200", 256, 256, 256, 2.0, 1.0, scheme="bf16x6")
    head, line, *rest = show.worth_text(made, [GPUS.get("h200"), GPUS.get("h100")]).splitlines()
    assert head.split() == ["gpu", "year", "GB/s", "GiB", "256^3", "4096^3", "times"]
    assert line.split() == ["h200", "2024", "4800", "141", "0.50", "bf16x6", "4.0", "scaled", "53", "of", "54"] and rest[0] == ""
