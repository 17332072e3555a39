"""The command line: what it prints, where, and the exit code it leaves."""

from __future__ import annotations

import ast
import ctypes
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from explored import GPU, plans, sizes, timed

from gemmgen import __version__, road
from gemmgen.catalog.fragment import FRAGMENTS, find
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.catalog.table import file_of
from gemmgen.cli import explain, guarded, libraries, output, show, verb
from gemmgen.cli.app import greeting
from gemmgen.cli.output import write_files
from gemmgen.cli.verb import GROUPS, RENAMED, VERBS, for_each, renamed, stem_of
from gemmgen.errors import EmulationError, GemmgenError, ResourceError
from gemmgen.model.accuracy import TOLD
from gemmgen.paths import SPECS
from gemmgen.render import render
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.solve import solve
from gemmgen.spec import load
from gemmgen.workshop.explore.store import Writer

# Small enough that a whole verification takes seconds.
TINY = '[split]\nscheme = "half"\n[tile]\nblock = [32, 32, 16]\nwarp = [32, 16, 16]\n'


def command(*arguments, **options) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "gemmgen", *map(str, arguments)], text=True, **options)


@pytest.fixture
def tiny(write_spec):
    return write_spec(TINY, "tiny.toml")


# ---- help


@pytest.mark.parametrize("verb", [*VERBS, *GROUPS])
def test_help_has_a_sentence_and_examples(gemmgen, monkeypatch, verb):
    monkeypatch.setenv("COLUMNS", "80")
    ran = gemmgen(*verb.split(), "--help")
    assert ran.code == 0 and (verb in VERBS or gemmgen(verb).out == ran.out)
    assert f"gemmgen {verb}" in ran.out.partition("Examples:")[2]
    *group, word = verb.split()
    [line] = [line for line in gemmgen(*group, "--help").out.partition("Examples:")[0].splitlines() if re.match(rf"  {word}  ", line)]
    assert line.endswith(".") and not line.endswith("...") and len(line) <= 80


IGNORED = {"list schema": {"as_json"}}
"""Parameters that a verb has and does nothing with: JSON schemas are JSON, asked for or not."""


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_reaches_what_a_verb_does(verb):
    """Each parameter is read, and an argument of a parameter's name is that parameter, or made of it."""
    function = ast.parse(textwrap.dedent(inspect.getsource(VERBS[verb].function))).body[0]
    of = {one.arg: {one.arg} for one in (*function.args.args, *function.args.kwonlyargs)}

    def read(node: ast.AST) -> set[str]:
        """Parameters that it is made of."""
        names = [one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)]
        return set().union(*(of.get(name, ()) for name in names))

    parameters = set(of)
    for node in ast.walk(ast.Module(function.body, [])):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                of |= {name.id: of.get(name.id, set()) | read(node.value) for name in ast.walk(target) if isinstance(name, ast.Name)}
    assert parameters - set().union(*map(read, function.body)) == IGNORED.get(verb, set())
    for call in (node for statement in function.body for node in ast.walk(statement) if isinstance(node, ast.Call)):
        for one in call.keywords:
            assert one.arg not in parameters or one.arg in read(one.value), f"{one.arg}={ast.unparse(one.value)}"


def test_help_lists_at_most_fourteen_verbs_under_headings_and_no_old_name(gemmgen):
    listed = gemmgen("--help").out.partition("\nKernel:\n")[2]
    verbs = re.findall(r"^  (\S+)  ", listed, re.M)
    assert sorted(verbs) == sorted({verb.split()[0] for verb in VERBS}) and len(verbs) <= 14
    assert not RENAMED.keys() & set(verbs)
    assert re.findall(r"^(\S.*):$", listed, re.M) == ["Library", "Design space", "GPU", "Start here, and look up"]


def test_gemmgen_alone_greets_with_commands_that_run(gemmgen):
    ran = gemmgen()
    assert (ran.code, ran.err, ran.out) == (0, "", greeting() + "\n")
    lines = [line for line in ran.out.splitlines() if line.startswith("  gemmgen ")]
    starts = [one.examples[0] for one in VERBS.values() if one.start]
    assert len(lines) == len(starts) == 3 and all(any(line.split("  ")[1] == start for start in starts) for line in lines)


@pytest.mark.parametrize(("old", "new", "verb"), [
    ("render x.toml -o y.cu", "build --source x.toml -o y.cu", "build --source"),
    ("gpus h100 --json", "list gpus h100 --json", "list gpus"),
    ("bringup --device cuda -o g/", "gpu probe --device cuda -o g/", "gpu probe"),
    ("bringup --from-row my.toml --quiet -o g/", "gpu from-row my.toml -o g/", "gpu from-row"),
    ("bringup -o g/ --from-row=my.toml", "gpu from-row -o g/ my.toml", "gpu from-row"),
    ("explore small_cpu --trials=4", "study run small_cpu --trials 4", "study run"), ("explore --regret store", "study ask --regret store", "study ask"),
    ("transform --library lab --output y.npy --levels l --kernels a,b -- ./p --output z", "tune --library lab --result y.npy --output l --levels a,b -- ./p --output z",
     "tune"),
    ("verify results", "verify results", ""), ("", "", ""),
])
def test_an_old_name_answers_with_the_new_one(old, new, verb):
    assert renamed(old.split()) == (new.split(), verb)


def test_a_note_names_the_new_verb_and_stdout_is_the_answers(gemmgen):
    old, new = gemmgen("schemes", "ootomo", "--json"), gemmgen("list", "schemes", "ootomo", "--json")
    assert (old.code, old.out, old.err) == (0, new.out, "note: this verb is now called: gemmgen list schemes\n") and new.err == ""
    assert gemmgen("learn", "--help").out.startswith("Usage: gemmgen study learn ")


def test_an_unknown_verb_is_told_with_the_nearest(gemmgen):
    for wrong, near in ((["verfy"], "'verify'"), (["probe"], "'gpu probe'"), (["list", "gpu"], "'gpus'"), (["study", "xyz"], None)):
        ran = gemmgen(*wrong, "x.toml")
        assert ran.code == 2 and f"unknown verb\n  got    '{wrong[-1]}'" in ran.err
        assert (f"did you mean {near}?" if near else "try    gemmgen study --help") in ran.err


def test_shipped_specs_go_by_their_names(gemmgen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert gemmgen("build", "--source", "scaled_a100").out == render(solve(load(SPECS / "kernels" / "scaled_a100.toml"))).text
    rows = {row["name"]: row for row in json.loads(gemmgen("list", "specs", "--json").out)}
    assert {path.stem for folder in ("kernels", "libraries", "studies") for path in (SPECS / folder).glob("*.toml")} == set(rows)
    assert all(Path(row["file"]).is_file() for row in rows.values()) and rows["lab"]["kind"] == "library"
    about = "FP32-accurate GEMM for the A100: what the README shows."
    assert rows["sgemm_a100"]["about"] == about and re.search(f"^sgemm_a100 .*{re.escape(about)}$", gemmgen("list", "specs").out, re.M)
    for wrong, told in (("scaled_a10", "did you mean 'scaled_a100'?"), ("specs/kernels/scaled_a100.toml", "scaled_a100, the name of a shipped spec"),
                        ("nothing_like_it", "gemmgen list specs"), ("scaled_a100.tml", "is not a spec")):
        ran = gemmgen("verify", wrong)
        assert ran.code == 2 and told in ran.err, wrong
    for folder in ("lab", "nothing_shipped"):
        (tmp_path / folder).mkdir()
    assert file_of("lab", "library", "libraries") == SPECS / "libraries" / "lab.toml", "what gemmgen library lab -o lab wrote hides no spec"
    assert "is not a spec" in gemmgen("verify", "nothing_shipped").err
    (tmp_path / "scaled_a100.toml").write_text(TINY + '[target]\ngpu = "a100"\n')
    assert gemmgen("build", "--source", "scaled_a100.toml").out == render(solve(load(tmp_path / "scaled_a100.toml"))).text  # the user's own


def test_a_shell_completes_verbs_gpus_and_specs():
    def completed(words: str) -> set[str]:
        environment = os.environ | {"_GEMMGEN_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
        return set(subprocess.run([sys.executable, "-c", "from gemmgen.cli import main; main([])"], env=environment, capture_output=True, text=True).stdout.split())

    assert completed("gemmgen ve") == {"verify"} and completed("gemmgen study re") == {"report"}
    assert completed("gemmgen explain --gpu h1") == {"h100"} and completed("gemmgen verify scaled_a") == {"scaled_a100"}


def test_version(gemmgen):
    assert gemmgen("--version").out.strip() == f"gemmgen {__version__}"


def test_help_imports_nothing_heavy():
    program = (
        "import sys; from gemmgen.cli import main\n"
        f"for verb in {list(VERBS)}: main([*verb.split(), '--help'])\n"
        "print('HEAVY', *{'numpy', 'sympy', 'jinja2', 'sklearn', 'rich', 'gemmgen.spec', 'gemmgen.build'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "HEAVY"


# ---- render


def test_render_prints_the_source(gemmgen, tiny):
    ran = gemmgen("build", "--source", tiny)
    assert (ran.code, ran.out, ran.err) == (0, render(solve(load(tiny))).text, "")


def test_render_into_a_file_a_folder_and_a_new_folder(gemmgen, tiny, tmp_path):
    source = render(solve(load(tiny)))
    (tmp_path / "there").mkdir()
    for output, expected in (
        (tmp_path / "x.cu", tmp_path / "x.cu"),
        (tmp_path / "there", tmp_path / "there" / "tiny.cu"),
        (f"{tmp_path}/new/", tmp_path / "new" / "tiny.cu"),
    ):
        ran = gemmgen("build", "--source", tiny, "-o", output)
        assert (ran.code, ran.out) == (0, f"wrote {expected}\n")
        assert expected.read_text() == source.text
        assert [path.name for path in expected.parent.iterdir() if path.name.startswith(".")] == []


def test_files_of_two_specs_of_one_name_or_of_another_gpu_tell_which(gemmgen, tiny, tmp_path):
    other = tmp_path / "other" / "tiny.toml"
    other.parent.mkdir()
    other.write_text(Path(tiny).read_text().replace('"half"', '"ootomo"'))
    assert gemmgen("build", "--source", tiny, other, "-o", f"{tmp_path}/two/").code == 0
    hashes = {solve(load(path)).hash for path in (tiny, other)}
    assert {path.name for path in (tmp_path / "two").iterdir()} == {f"tiny_{one}.cu" for one in hashes} and len(hashes) == 2
    assert gemmgen("build", "--source", tiny, "--gpu", "h100", "-o", f"{tmp_path}/gpu/").code == 0
    assert [path.name for path in (tmp_path / "gpu").iterdir()] == ["tiny_h100.cu"]


def test_another_layout_than_the_specs(gemmgen, tiny, tmp_path):
    turned = render(solve(load(tiny).laid_out("tt"))).text
    assert gemmgen("build", "--source", tiny, "--layout", "tt").out == turned != gemmgen("build", "--source", tiny).out
    assert gemmgen("build", "--source", tiny, "--gpu", "h100", "--layout", "tt", "-o", f"{tmp_path}/out/").code == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["tiny_h100_tt.cu"]
    ran = gemmgen("export", tiny, "--layout", "xx", "-o", tmp_path / "no")
    assert ran.code == 2 and "--layout: is unknown" in ran.err and "nn, nt, tn, tt" in ran.err and not (tmp_path / "no").exists()


def test_render_json(gemmgen, tiny):
    plan = solve(load(tiny))
    value = json.loads(gemmgen("build", "--source", tiny, "--json").out)
    assert value["text"] == render(plan).text
    assert value["plan"]["hash"] == plan.hash
    assert [launch["symbol"] for launch in value["launches"]][-1] == value["kernel"]
    assert value["launches"][-1]["grid"] == [[["m", 32], ["n", 32]]]
    path = tiny.parent / "out.cu"
    written = json.loads(gemmgen("build", "--source", tiny, "--json", "-o", path).out)
    assert written == {**{key: part for key, part in value.items() if key != "text"}, "file": str(path)} and path.read_text() == value["text"]


def test_several_specs_are_each_served(gemmgen, tiny, tmp_path):
    ran = gemmgen("build", "--source", tiny, tmp_path / "missing.toml", tiny, "--json")
    assert ran.code == 2
    good, bad, again = json.loads(ran.out)
    assert good == again and "text" in good
    assert bad["error"] == "SpecError" and "missing.toml" in bad["where"]


# ---- build


def test_build_writes_three_files_and_tells_resources(gemmgen, tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("GEMMGEN_CACHE", str(tmp_path / "cache"))
    name = render(solve(load(tiny))).name
    ran = gemmgen("build", tiny, "-o", tmp_path / "out")
    assert ran.code == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"tiny.cu", "tiny.ptx", "tiny.cubin"}
    assert (tmp_path / "out" / "tiny.cubin").read_bytes().startswith(b"\x7fELF")
    assert f".visible .entry {name}" in (tmp_path / "out" / "tiny.ptx").read_text()
    assert "NVRTC" in ran.out and " s\n" in ran.out
    for word in ("registers", "static B", "dynamic B", "spilled B", "stack B", "occupancy", "split", "gemm"):
        assert word in ran.out
    again = json.loads(gemmgen("build", tiny, "-o", tmp_path / "out", "--json").out)
    assert again["from_cache"] is True and again["seconds"] > 0  # that it took to build it
    assert [kernel["role"] for kernel in again["kernels"]] == ["split", "gemm"]
    assert again["kernels"][-1]["dynamic_shared_bytes"] == again["plan"]["shared_bytes"]
    assert "from the cache" in gemmgen("build", tiny, "-o", tmp_path / "out").out


def test_build_for_amd_writes_hip_assembly_and_code_object(gemmgen, write_spec, tmp_path):
    tiny = write_spec('[split]\nscheme = "half"\n[tile]\nblock = [64, 64, 32]\nwarp = [32, 32, 32]\n')
    ran = gemmgen("build", tiny, "--gpu", "mi210", "-o", tmp_path / "out")
    assert ran.code == 0, ran.err
    written = {path.suffix: path for path in (tmp_path / "out").iterdir()}
    assert set(written) == {".hip", ".s", ".co"}
    assert written[".co"].read_bytes().startswith(b"\x7fELF") and '.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"' in written[".s"].read_text()
    assert "clang" in ran.out and ran.out.count("never run on AMD hardware") == 1
    told = json.loads(gemmgen("build", tiny, "--gpu", "mi210", "-o", tmp_path / "out", "--json").out)
    for done in ("compiled", "resources read from the code object", "every instruction executed by an interpreter", "layouts checked", "never run on AMD hardware"):
        assert done in told["standing"]
    assert told["standing"] in ran.out
    assert all(kernel["dynamic_shared_bytes"] == 0 and kernel["sgprs"] > 0 for kernel in told["kernels"])
    assert "standing" not in json.loads(gemmgen("build", tiny, "-o", tmp_path / "out", "--json").out)


# ---- tables


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "table"), [("gpus", GPUS), ("schemes", SCHEMES), ("fragments", FRAGMENTS)])
def test_tables_list_and_tell(gemmgen, verb, table):
    listing = gemmgen("list", verb).out
    rows = json.loads(gemmgen("list", verb, "--json").out)
    assert [row["name"] for row in rows] == table.names()
    assert all(name in listing for name in table.names())
    for at, name in enumerate(table.names()[:: len(table.names()) // 2]):  # in turn as text and as JSON
        ran = gemmgen("list", verb, name, *["--json"] * (at % 2))
        assert json.loads(ran.out)["name"] == name if at % 2 else table.get(name).source in ran.out


def test_a_file_can_be_told_of_too(gemmgen, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text((SCHEMES.folder / "ootomo.toml").read_text().replace('"ootomo"', '"mine"'))
    assert json.loads(gemmgen("list", "schemes", path, "--json").out)["dropped"] == [{"a": 1, "b": 1}]


def test_the_lane_grid_is_the_map(gemmgen):
    out = gemmgen("list", "fragments", "mma_m16n8k16_f16").out
    grid = [line.replace(":", " ").split() for line in out.partition("A [m, k]")[2].splitlines()[1:17]]
    held = FRAGMENTS.get("mma_m16n8k16_f16").a
    assert [len(line) for line in grid] == [32] * 16
    for i, line in enumerate(grid):
        for j, (lane, element) in enumerate(zip(line[::2], line[1::2], strict=True)):
            assert held.element(int(lane), int(element) // 2, int(element) % 2) == (i, j)


def test_a_wide_instruction_is_told_by_its_own_name(gemmgen):
    listing = next(line for line in gemmgen("list", "fragments").out.splitlines() if line.startswith("wgmma_m64n8k16_f16"))
    for part in ("8 to 256 in steps of 8", "128", "A registers or shared memory, B shared memory", "sm_90a alone"):
        assert part in listing, part
    out = gemmgen("list", "fragments", "wgmma_m64n24k16_f16").out
    assert "wgmma.mma_async.sync.aligned.m64n24k16.f32.f16.f16" in out
    grid = out.partition("C [m, n], 64x24")[2].partition("descriptor")[0]
    strips = [[line.split() for line in part.splitlines()[1:65]] for part in grid.split("columns ")[1:]]
    held = find("wgmma_m64n24k16_f16", "here").c
    assert [[len(line) for line in strip] for strip in strips] == [[16] * 64, [8] * 64]
    for i, (left, right) in enumerate(zip(*strips, strict=True)):
        for j, cell in enumerate(left + right):
            lane, element = map(int, cell.split(":"))
            assert held.element(lane, element) == (i, j)
    told = out.partition("descriptor of a tile")[2]
    for part in ("address  0 to 13", "swizzle  62 to 63", "1: rows of 128 B", "0x4000004000010000", "B [k, n]"):
        assert (part in told) == (part != "B [k, n]"), part
    assert json.loads(gemmgen("list", "fragments", "wgmma_m64n24k16_f16", "--json").out)["shape"] == [64, 24, 16]
    for wrong in ("wgmma_m64n12k16_f16", "wgmma_m64n264k16_f16", "mma_m16n16k16_f16"):
        assert "unknown fragment" in gemmgen("list", "fragments", wrong).err


def test_a_fragment_as_a_header(gemmgen):
    ran = gemmgen("list", "fragments", "mma_m16n8k16_f16", "--header")
    assert ran.code == 0 and "foreach_ij" in ran.out
    assert gemmgen("list", "fragments", "--header").code == 2


# ---- verify


@pytest.mark.slow
def test_verify_end_to_end(gemmgen, tiny):
    ran = gemmgen("verify", tiny, "--device", "emulator", "--m", 33, "--n", 40, "--k", 50)
    assert ran.code == 0, ran.out
    labels = [line.split()[0] for line in ran.out.splitlines() if not line.startswith(" ")]
    assert labels[:6] == ["kernel", "decided", "device", "resources", "checks", "errors"]
    assert "emulator (ampere matrix unit)" in ran.out and "33x40x50: relative Frobenius" in ran.out
    assert ran.out.splitlines()[-1].startswith("PASSED as what scheme half promises: U[0, 1] ")
    assert "tiny.toml: probes\n" in ran.err
    assert "\x1b" not in ran.out + ran.err and "\r" not in ran.err


class FakeReport:
    """Stands in for a verification, which takes seconds."""

    passed = True
    unverified = ""
    device_kind = "emulator"

    def as_dict(self):
        return {"passed": self.passed, "errors": {"relative_frobenius": float("nan")}}


@pytest.fixture
def judged(monkeypatch):
    """Replaces the judgement; returns the calls and what to answer."""
    calls: list[dict] = []
    answer: list[object] = [FakeReport()]

    def verify(plan, source, binary, device, **options):
        calls.append(options)
        if isinstance(answer[0], BaseException):
            raise answer[0]
        return answer[0]

    monkeypatch.setattr("gemmgen.verify.verify", verify)
    monkeypatch.setattr("gemmgen.cli.show.report", lambda plan, report, seconds: "a report")
    return calls, answer


def test_verify_json_is_one_object_and_silent(gemmgen, tiny, judged):
    ran = gemmgen("verify", tiny, "--device", "emulator", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out) == {"passed": True, "errors": {"relative_frobenius": None}}  # JSON has no NaN
    assert len(json.loads(gemmgen("verify", tiny, tiny, "--json").out)) == 2


@pytest.mark.parametrize(("unverified", "failed", "code"), [("no such device", False, 2), ("no such device", True, 1), ("", True, 1)])
def test_the_exit_code_says_whether_a_kernel_that_cannot_run_is_wrong_besides(gemmgen, tiny, judged, unverified, failed, code):
    report = FakeReport()
    report.passed, report.unverified, report.failed = False, unverified, failed
    judged[1][0] = report
    assert gemmgen("verify", tiny, "--device", "emulator").code == code


def test_verify_quiet_says_nothing_on_stderr(gemmgen, tiny, judged):
    assert gemmgen("verify", tiny, "--device", "emulator", "--quiet").err == ""
    assert gemmgen("verify", tiny, "--device", "emulator").err == "tiny.toml: decide\ntiny.toml: compile\n"


def test_verify_takes_sizes_one_by_one(gemmgen, tiny, judged):
    calls, _ = judged
    gemmgen("verify", tiny, "--device", "emulator", "--n", 77)
    gemmgen("verify", tiny, "--device", "emulator", "--m", 5, "--n", 6, "--k", 7)
    assert calls[0]["size"][1] == 77 and calls[0]["size"][2] >= 1024
    assert calls[1]["size"] == (5, 6, 7)


def test_verify_takes_a_users_matrices(gemmgen, tiny, tmp_path, judged):
    """FP64 is rounded, with a note; byte order and memory order do not matter; Inf and NaN are data."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((20, 50)), rng.standard_normal((50, 30)).astype(">f4")
    a[0, :3] = np.inf, np.nan, 1e300
    np.save(tmp_path / "a.npy", np.asfortranarray(a))
    np.save(tmp_path / "b.npy", b)
    ran = gemmgen("verify", tiny, "--device", "emulator", "--a", tmp_path / "a.npy", "--b", tmp_path / "b.npy")
    assert ran.code == 0
    [given] = judged[0]
    assert given["a"].dtype == given["b"].dtype == np.float32
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(given["a"], a.astype(np.float32))
    np.testing.assert_array_equal(given["b"], b)
    assert "float64 rounded to float32; of 1000 elements 997 change and 1 become Inf" in ran.err


@pytest.mark.parametrize(("answer", "code"), [
    (type("Failed", (FakeReport,), {"passed": False})(), 1),
    (EmulationError("x.cu:1", "read of memory nothing wrote"), 1),
    (ResourceError("x.cu", "spills"), 1),
    (GemmgenError("x", "is wrong use"), 2),
    (KeyboardInterrupt(), 130),
    (MemoryError("Unable to allocate 70 TiB"), 2),
])
@pytest.mark.parametrize("flag", [[], ["--json"]])
def test_exit_codes_tell_a_wrong_kernel_from_wrong_use(gemmgen, tiny, judged, answer, code, flag):
    judged[1][0] = answer
    ran = gemmgen("verify", tiny, "--device", "emulator", *flag)
    assert ran.code == code
    assert "Traceback" not in ran.out + ran.err
    if flag and code != 130:
        assert json.loads(ran.out)


def test_errors_go_to_stderr_or_as_json_to_stdout(gemmgen):
    plain, as_json = gemmgen("list", "gpus", "a1000"), gemmgen("list", "gpus", "a1000", "--json")
    assert plain.code == as_json.code == 2
    assert (plain.out, as_json.err) == ("", "")
    assert plain.err.startswith("error: gemmgen list gpus: unknown GPU\n  got    'a1000'\n  needs  one of: a10, a100, ")
    assert json.loads(as_json.out)["try"] == "did you mean 'a100'?"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_speaks_json(gemmgen, tiny, tmp_path, judged, monkeypatch, verb):
    """What it does and what it refuses, on stdout, and nothing beside it."""
    monkeypatch.setenv("GEMMGEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("gemmgen.workshop.verbs.bench._plotted", lambda table, folder: [folder / "speed.png"])  # else it takes a GPU, or matplotlib
    arguments = {
        "verify": [tiny, "--device", "emulator"], "build": [tiny, "-o", tmp_path / "built"], "export": [tiny, "-o", tmp_path / "exported"],
        "explain": [tiny], "bench": ["--plot", tmp_path / "bench.csv"],
        **{f"list {table}": [] for table in ("gpus", "schemes", "fragments", "schema", "specs")},
        "tune": ["mlp", "--threshold", "0.1", "--gpu", "a100", "--size", "batch=16", "--levels", "half", "--device", "model"],
        "library": [tmp_path / "lab.toml", "--dry-run"], "study ask": [tmp_path, "VALUES (1)"], "study run": ["small_cpu", "--dry-run"],
        "study choose": [tmp_path / "trials", "--kernels", "1"],
        "gpu probe": ["--device", "emulator", "--gpu", "a100", "--only", "mma_m8n8k16_s8", "--products", "100", "-o", tmp_path / "found"],
        "gpu profile": ["--device", "emulator", "--gpu", "a100", "--only", "mma_m16n8k8_f16", "--draws", "50"],
        "app": ["kmeans", "--device", "emulator"], "doctor": [], "init": ["kernel", "--gpu", "a100", "-o", tmp_path / "first.toml"],
        "study report": [tmp_path / "trials", "-o", tmp_path / "report.html"], "study learn": [tmp_path / "trials", "--gpu", GPU],
    }
    (tmp_path / "lab.toml").write_text(
        'name = "lab"\ngpus = ["a100"]\nlayouts = ["nn"]\nkernels_at_most = 1\nsizes = [[512, 512, 512]]\n[[use]]\nscheme = "half"\n')
    if verb in ("study choose", "study report", "study learn"):
        with Writer(tmp_path / "trials") as writer:
            for row in timed(plans(few=2), sizes(6)):
                writer.add(row)
    if verb not in ("run", "gpu from-row"):  # test_drop_in and test_from_row have those
        ran = gemmgen(*verb.split(), *arguments[verb], "--json")
        assert (ran.code, ran.err) == (0, "")
        assert json.loads(ran.out)
    refused = gemmgen(*verb.split(), "--json", "--no-such-option")
    assert (refused.code, refused.err) == (2, "")
    assert "--no-such-option" in json.loads(refused.out)["problem"]


def test_schema_and_typeset_equations_are_the_same_in_json(gemmgen, tiny):
    assert gemmgen("list", "schema", "--json").out == gemmgen("list", "schema").out
    assert json.loads(gemmgen("explain", tiny, "--latex", "--json").out)["latex"] + "\n" == gemmgen("explain", tiny, "--latex").out


# ---- progress


class Clock:
    """Seconds that pass when they are told to."""

    now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(output, "time", Clock())
    monkeypatch.setattr(output.Progress, "_watch", lambda self: None)
    return output.time


def test_steps_that_are_counted_tell_their_share_and_what_is_left(capsys, clock):
    progress = output.Progress("lab")
    for number, seconds in enumerate((2, 2, 6, 4), 1):
        progress.step(f"compile kernel {number} of 4")
        clock.now += seconds
    progress.step("write")
    progress.clear()
    # The second and the third follow too soon after a line.
    assert capsys.readouterr().err == "lab: compile kernel 1 of 4\nlab: compile kernel 4 of 4, 75 %, 10 s, about 3 s left\nlab: write\n"


def test_a_launch_tells_its_blocks_and_what_is_left_of_it(capsys, clock):
    progress = output.Progress("x")
    progress.step("probes")
    clock.now += 8  # of a launch before
    for done in (0, 1, 3):
        progress.blocks("gemmgen_a_01234567_split", done, 4)
        clock.now += 3
    progress.blocks("gemmgen_a_01234567", 1, 8)
    clock.now += 6
    progress.blocks("gemmgen_a_01234567", 2, 8)
    progress.clear()
    assert capsys.readouterr().err.splitlines() == [
        "x: probes", "x: probes (0 of 4 blocks of split)", "x: probes (3 of 4 blocks of split), 75 %, 6 s, about 2 s left",
        "x: probes (2 of 8 blocks of gemm), 25 %, 6 s, about 18 s left"]


def test_a_launch_begins_with_none_of_its_blocks_done():
    """Else the launch before it stays on the line as whole, with no time left, until the first of this one's blocks have run."""
    device, said = object.__new__(EmulatorDevice), []
    device.progress, device.only, device.schedule, device.conflicts = lambda *given: said.append(given), {"sampled": (0, 5, 7)}, None, {}
    device._emulator = SimpleNamespace(launch=lambda *given, progress, **options: progress(2, 4) or SimpleNamespace(conflict_sites={}))
    for symbol in ("whole", "sampled"):
        device.launch(symbol, 9, 32, 0, [])
    assert said == [("whole", 0, 9), ("whole", 2, 4), ("sampled", 0, 3), ("sampled", 2, 4)]
    device.progress = None
    device._emulator = SimpleNamespace(launch=lambda *given, progress, **options: SimpleNamespace(conflict_sites={}))
    device.launch("silent", 9, 32, 0, [])


def test_a_silent_step_is_told_now_and_then_until_its_command_ends(capsys, monkeypatch):
    monkeypatch.setattr(output, "EACH", 0.3)
    def program():
        progress = output.Progress("x")
        progress.step("compile")
        time.sleep(1.1)
        raise GemmgenError("here", "is wrong")

    assert guarded(program) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == lines[1] == "x: compile" and 3 <= lines.index("error: here: is wrong") <= 5
    time.sleep(0.5)
    assert capsys.readouterr().err == "" and not output.Progress._live


def test_a_command_that_mostly_ends_soon_is_silent_until_it_does_not(capsys, monkeypatch, tmp_path):
    def wait(path):
        time.sleep({"soon": 0, "late": 0.2}[path.stem])
        return "done", {}, 0

    assert for_each([Path("soon.toml")], False, wait, step="decide") == 0 and capsys.readouterr() == ("done\n", "")
    monkeypatch.setattr(output, "EACH", 0.05)
    assert for_each([Path("late.toml")], False, wait, step="decide") == 0 and "late.toml: decide\n" in capsys.readouterr().err
    assert for_each([Path("late.toml")], False, wait) == for_each([Path("late.toml")], True, wait, step="decide") == 0 and capsys.readouterr().err == ""


@pytest.mark.parametrize("verb", VERBS)
def test_a_verbs_progress_has_a_subject_is_as_quiet_as_asked_and_gone_before_the_answer(verb):
    """`Progress(subject, quiet)`; a verb leaves the line of its last step to nobody else."""
    function = VERBS[verb].function
    module = ast.parse(inspect.getsource(inspect.getmodule(function)))
    for body in (node for node in ast.walk(module) if isinstance(node, ast.FunctionDef) and node.name in (function.__name__, "_time")):
        calls = [node for node in ast.walk(body) if isinstance(node, ast.Call) and ast.unparse(node.func) == "Progress"]
        silent = [one.arg for one in ast.walk(body) if isinstance(one, ast.arg) and one.arg in ("quiet", "as_json")]
        for call in calls:
            subject, quiet = call.args
            assert not set(silent) & {one.id for one in ast.walk(subject) if isinstance(one, ast.Name)}
            assert ast.unparse(quiet) == " or ".join(sorted(silent, reverse=True))
        if verb != "verify":  # which has one a spec, and `for_each` to end them
            assert bool(calls) <= any(ast.unparse(node) == "progress.clear()" for node in ast.walk(body))


def test_what_a_verb_does_unasked():
    """Nobody who types a verb alone gets JSON, silence, a folder that is written over, or less than the whole answer."""
    defaults = {f"{verb} {name}": one.default for verb in VERBS for name, one in inspect.signature(VERBS[verb].function).parameters.items()}
    assert {name for name, value in defaults.items() if value is True} == {"run audit", "bench main_kernel", "study choose learn", "tune exhaustive"}
    assert {name: value for name, value in defaults.items() if isinstance(value, int | float) and not isinstance(value, bool)} == {
        "app rounds": 7, "app seed": 0, "gpu from-row kernels": 0, "gpu probe seed": 0, "gpu profile draws": 10_000, "gpu profile seed": 0, "run min_gain": 1,
        "run frames": 1, "study ask rows": 200, "study ask seconds": 60, "study ask memory": 4096, "study choose kernels": 8, "study choose seed": 1,
        "study learn seed": 1, "study report seed": 1, "tune period": 0,
    }


def test_why_a_program_could_not_write_its_log(tmp_path, monkeypatch):
    from gemmgen.verbs import run

    (tmp_path / "there").write_text("")
    places = [tmp_path / "there", tmp_path / "new", tmp_path, Path("/dev/null"), tmp_path / "no" / "new"]
    assert [run._not_written(path) for path in places] == [None, None, "is a folder", "is no regular file", "is in no folder"]
    monkeypatch.setattr(run.os, "access", lambda path, how: False)  # which root never meets
    assert [run._not_written(path) for path in places[:2]] == ["may not be written", "is in a folder that may not be written"]


def test_quiet_progress_says_nothing(capsys, clock):
    progress = output.Progress("x", quiet=True)
    progress.step("a 1 of 2")
    clock.now += 60
    progress.blocks("k", 1, 2)
    progress.clear()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("seconds", "told"), [(89, "89 s"), (120, "2 min"), (5399, "90 min"), (9000, "2.5 h")])
def test_durations_by_hand(seconds, told):
    assert output.duration(seconds) == told


# ---- a terminal, a pipe, a full disk


def test_a_line_goes_on_below_the_start_of_its_last_column():
    text = "kernel     one\nchecks     ok     resources    " + "word " * 12 + "\n" + "x" * 90 + "\n  a " + "b " * 40
    lines = output.fitted(text, 60).splitlines()
    assert lines[0] == "kernel     one" and lines[1].startswith("checks     ok     resources    word") and lines[2].startswith(" " * 31 + "word")
    assert "x" * 90 in lines and all(len(line) <= 60 for line in lines if "x" not in line) and lines[-1].startswith("    b")
    assert " ".join(output.fitted(text, 60).split()) == " ".join(text.split()) and output.fitted(text, 200) == text


def test_a_table_on_a_narrow_terminal_goes_on_within_its_columns(monkeypatch):
    rows = [("a", 5, "one two three four five six"), ("b", 1234567, "seven")]
    monkeypatch.setattr(show, "columns", lambda: 34)
    assert show.table(("name", "count", "words"), rows).splitlines() == [
        "name    count  words", "a           5  one two three four", "               five six", "b     1234567  seven"]
    monkeypatch.setattr(show, "columns", lambda: 10)
    assert show.table(("name", "count", "words"), rows).splitlines()[2:5] == ["               two", "               three", "               four"]  # no word is cut
    monkeypatch.setattr(show, "columns", lambda: 80)
    assert show.table(("name", "count", "words"), rows).splitlines()[1] == "a           5  one two three four five six"


def on_a_terminal(*arguments: object, env: dict[str, str]) -> str:
    """What a command prints there; it is read meanwhile, as a terminal holds no more than some KiB."""
    leader, follower = os.openpty()
    reader = subprocess.Popen(["cat"], stdin=leader, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    command(*arguments, stdout=follower, env=env)
    os.close(follower)
    os.close(leader)
    return reader.communicate()[0]


@pytest.mark.slow
def test_text_is_as_wide_as_a_terminal_and_source_and_json_are_not(tiny):
    def columns(*arguments: object) -> int:
        return max(map(len, on_a_terminal(*arguments, env=os.environ | {"COLUMNS": "70", "NO_COLOR": "1"}).splitlines()))

    assert columns("list", "schemes", "ootomo") <= 70 < columns("list", "schemes", "ootomo", "--json")
    assert columns("build", "--source", tiny) > 70


@pytest.mark.slow
def test_colour_only_on_a_terminal_and_never_with_no_color():
    def told(**extra: str) -> str:
        return on_a_terminal("list", "gpus", env={key: value for key, value in os.environ.items() if key != "NO_COLOR"} | {"TERM": "xterm"} | extra)

    assert "\x1b[" in told()
    assert "\x1b[" not in (plain := told(NO_COLOR="1")) and "h200" in plain
    assert "\x1b[" not in told(TERM="dumb")
    assert "\x1b[" not in command("list", "gpus", capture_output=True).stdout


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_error(tiny):
    read, write = os.pipe()
    os.close(read)
    done = command("build", "--source", tiny, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert done.returncode == 141 and re.fullmatch(r"(tiny\.toml: .*, \d+ s\n)*", done.stderr), "no more than how long it has taken"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_a_message(tiny):
    with open("/dev/full", "w") as full:
        done = command("build", "--source", tiny, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert "standard output: cannot be written" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
def test_an_interrupt_is_no_traceback(tiny):
    running = subprocess.Popen(
        [sys.executable, "-m", "gemmgen", "verify", str(tiny), "--device", "emulator", "--k", "100000"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        # A test run started in the background ignores interrupts, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while "probes" not in (line := running.stderr.readline()):
        assert line, "it ended before it began"
    time.sleep(0.3)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to every process of the command
    out, err = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "Traceback" not in out + err


# ---- files


def test_files_are_whole_or_absent(tmp_path):
    (tmp_path / "b").mkdir()
    with pytest.raises(GemmgenError, match="not a regular file"):
        write_files(tmp_path, {"a": "x" * 10, "b": "y"})
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_files(tmp_path, {"link": "new"})
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"


def test_files_get_the_usual_permissions(tmp_path):
    write_files(tmp_path / "new" / "folder", {"a": b"1"})
    (tmp_path / "usual").touch()
    assert (tmp_path / "new" / "folder" / "a").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_an_explanations_sentences_tell_its_numbers():
    """Milliseconds and TFLOPS of one product, tables whose first row is the plan, and blocks that shrink as registers grow."""
    e = road.explain({"problem": dict.fromkeys("mnk", 1024), "split": {"scheme": "half"}, "target": {"gpu": "h200"}, "tile": {"block": [128, 128, 64]}})
    told = explain.text(e)
    milliseconds, tflops = map(float, re.search(r"([0-9.]+) ms \(([0-9.]+) TFLOPS\) for 1024x1024x1024", told).groups())
    assert milliseconds * tflops == pytest.approx(2 * 1024**3 * 1e-9, rel=0.05)
    weighed = dict(part.split(" ")[:2] for part in re.search(r"weighed +(.*)", told)[1].split(", "))
    assert float(weighed[e.plan.fragment.policy]) == milliseconds == min(map(float, weighed.values()))
    assert f"{e.candidates} candidates, {e.feasible} feasible, in " in told and f"{e.tied} candidates lie within 2 % of the fastest" in told
    best, front = (re.search(rf"^{title}.*\n((?:  .*\n)+)", told, re.M)[1].splitlines()[1:] for title in ("best by", "front of"))
    assert (len(best), len(front)) == (len(e.best), len(e.front)) and float(best[0].split()[-1]) == milliseconds
    assert [float(line.split()[-1]) for line in front] == [round(1e3 * one.seconds, 3) for one in e.front]
    steps = [tuple(map(int, one)) for one in re.findall(r"registers <= (\d+) +-> (\d+) block", told)]
    threads, file = e.plan.threads, e.plan.gpu.limits.registers_per_sm
    assert steps and all(registers * threads * blocks <= file and blocks <= e.plan.gpu.limits.blocks_per_sm for registers, blocks in steps)


def test_a_frontiers_row_tells_milliseconds_and_whether_it_meets():
    point = SimpleNamespace(scheme="half", promote=64, sums="plain", sums_in_unit=True, policy="mma", seconds=2.5e-3, tflops=123.44, worst=3e-4,
                            errors=dict.fromkeys(TOLD, 1e-4), meets=True, beaten_by="")
    found = SimpleNamespace(points=(point,), best=(point,), asked="as fp32", gpu="h200", size=(1, 2, 3), data="uniform", refused=())
    row = explain.frontier_text(found).splitlines()[2].split()
    assert row[:5] == ["half", "64", "mma", "2.5", "123.4"] and row[-1] == "yes" and row[-2] == "3.0e-04"
    assert "never" == explain._promotion(SimpleNamespace(sums_in_unit=True, promote=0, sums="plain"))


def test_a_reports_figures_by_hand():
    resources = SimpleNamespace(registers=99, shared_bytes=4096, spill_bytes=0, occupancy=SimpleNamespace(blocks=2, fraction=0.125, limited_by="registers"))
    errors = SimpleNamespace(relative_frobenius=1e-7, max_error=2e-6, mred=3e-7, scaled=4e-8)
    judged = SimpleNamespace(kernel="k", device="d", resources=resources, checks=[SimpleNamespace(name="c", passed=True, detail="x")], standing="", unverified="",
                             errors=errors, bound=SimpleNamespace(relative_frobenius=5e-7), of_fp32={}, status={}, seconds=2e-3, size=(1000, 2000, 500),
                             passed=True, promises="half", sample=None, smaller="", verdict=None, element="FP32")
    plan = SimpleNamespace(summary="s", gpu=SimpleNamespace(limits=SimpleNamespace(registers_per_thread=255)))
    told = show.report(SimpleNamespace(plan=plan, refused=[]), judged, 1.0)
    assert "time       2.000 ms for 1000x2000x500, 1.0 TFLOPS, from one run" in told
    assert show.scheme_range(SCHEMES.get("half")).endswith(" to 2^16")  # FP16's largest number lies just below
    assert "99 of 255 registers, 4096 B shared, no spills, 2 blocks an SM (12.5 % occupancy, by registers)" in told
    assert "relative Frobenius 1.00e-07 (bound 5.00e-07), max 2.0e-06, MRED 3.0e-07, scaled 4.0e-08" in told


def test_a_librarys_machine_code_in_megabytes_and_bytes(monkeypatch):
    images = [SimpleNamespace(content=b"x" * 1_500_000), SimpleNamespace(content=b"y" * 1_000_000)]
    library = SimpleNamespace(images=images, kernels=(), loaded=None, choice=None, name="l", archs=("sm_80",), compilers=())
    monkeypatch.setattr(libraries, "choice_text", lambda *of: "the choice")
    monkeypatch.setattr(libraries, "choice_value", lambda choice: {})
    assert libraries.text(library, Path("a b")).splitlines() == ["wrote      a b", "code       2 files of machine code, 2.50 MB", "the choice",
                                                                  "next       cmake -S 'a b' -B 'a b/build' && cmake --build 'a b/build'"]
    assert libraries.value(library, Path("out"))["code_bytes"] == 2_500_000


def test_numbers_of_a_table_stand_to_the_right():
    assert show.table(("name", "count"), [("a", 5), ("longer", 1234567)]).splitlines() == ["name      count", "a             5", "longer  1234567"]
    assert show.table(("name", "count"), [("a", 5), ("b", "-")]).splitlines() == ["name  count", "a     5", "b     -"]


def test_files_are_named_after_spec_gpu_and_layout_and_by_the_plan_where_two_are_alike():
    a, b, other = Path("x/a.toml"), Path("y/b.toml"), Path("z/a.toml")
    plan = SimpleNamespace(hash="0123abcd")
    assert [stem_of(a, specs, None, None, plan) for specs in ([a], [a, b], [a, b, other])] == ["a", "a", "a_0123abcd"]
    assert [stem_of(a, [a, b], gpu, layout, plan) for gpu, layout in (("h100", None), (None, "tn"), ("rows/my.toml", "tt"))] == ["a_h100", "a_tn", "a_my_tt"]


def test_shared_memory_of_either_kind_limits_what_is_resident():
    """On an H100, whose SM has 228 KiB: four blocks of 56 KiB and 1 KiB of the system each."""
    used = SimpleNamespace(registers=32, static_shared_bytes=16 << 10, spill_bytes=0, stack_bytes=None)
    gpu = GPUS.get("h100")
    launch = SimpleNamespace(symbol="k", role="gemm", threads=128, shared_bytes=40 << 10)
    plan = SimpleNamespace(gpu=SimpleNamespace(limits=gpu.limits, maker=SimpleNamespace(files=SimpleNamespace(register_kinds=()))), summary="s")
    source, binary = SimpleNamespace(launches=[launch], name="k"), SimpleNamespace(kernels={"k": used}, from_cache=True, arch="sm_90", compiler="c", seconds=1.0)
    [row] = show.kernel_facts(plan, source, binary)
    assert (row["blocks_per_sm"], row["limited_by"], row["occupancy"]) == (4, "shared memory", 0.25)  # 5 by its dynamic one alone
    used.static_shared_bytes, used.registers = 0, 128  # 65536 registers hold 4 such blocks
    launch.shared_bytes = 0
    assert show.kernel_facts(plan, source, binary)[0]["blocks_per_sm"] == 4
    used.static_shared_bytes, launch.shared_bytes = 1024, 2048
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gemmgen.verify.standing", lambda plan: "")
        patch.setattr("gemmgen.verdict.verdict", lambda plan: None)
        told = show.build_table(SimpleNamespace(plan=plan, source=source, binary=binary, refused=[])).splitlines()[-1].split()
    assert told == ["gemm", "128", "128", "1024", "2048", "0", "unbounded", "25", "%,", "4", "a", "SM,", "by", "registers"]


def test_explain_tells_what_is_stored_added_up_and_left_to_another_kernel(gemmgen, write_spec):
    fixed = '[tile]\nblock = [64, 64, 64]\nwarp = [64, 64, 64]\n[target]\ngpu = "h100"\n'
    told = {
        "fallback   fp32 for tiles of C with outliers: block ": '[split]\nscheme = "mixpert1"\nfallback = "fp32"\n',
        "operands   A of FP32, B of FP16 as stored\n": '[problem]\nb = "f16"\n[split]\nscheme = "ootomo_b16"\n',
        ", compensated sums\n": '[split]\nscheme = "ootomo"\nsums = "compensated"\n',
    }
    for line, spec in told.items():
        assert line in gemmgen("explain", write_spec(spec + fixed)).out, line


@pytest.mark.parametrize(("problem", "told"), [
    ('kind = "syrk"\nuplo = "both"\nlayout = "tn"', "syrk: the lower triangle of C = alpha A A^T + beta C, stored to the upper one too"),
    ('kind = "gemmt"\nuplo = "upper"', "gemmt: the upper triangle of C = alpha A B + beta C"),
    ('kind = "trmm"\nuplo = "upper"\nside = "right"\ndiag = "unit"', "trmm: C = alpha A B + beta C of the upper triangle of B, whose diagonal is 1"),
    ('kind = "symm"\nside = "right"', "symm: C = alpha A B + beta C of a symmetric B, of which the lower triangle is read"),
    ('kind = "strided"', "strided: many of one size, whose matrices lie a stride apart"),
    ('kind = "gemm"', ""),
])
def test_explain_says_what_a_kernel_computes(write_spec, problem, told):
    """Each key of [problem] that decides it, in the short explanation and in the whole one."""
    path = write_spec(f'[problem]\n{problem}\n[split]\nscheme = "scaled"\n[tile]\nblock = [64, 64, 32]\nwarp = [32, 32, 32]\n[target]\ngpu = "a100"\n')
    e = road.explain(path)
    for text in (explain.short(e), explain.text(e)):
        [line] = [line.removeprefix("computes").strip() for line in text.splitlines() if line.startswith("computes")] or [""]
        assert line == told and not re.search("^scale|^scheme", text, re.M)


def test_explain_says_how_far_a_scale_reaches(write_spec):
    for run in (256, 1024):
        path = write_spec(f'[split]\nscheme = "run_scaled"\nrun = {run}\n[target]\ngpu = "h200"\n')
        told = explain.short(road.explain(path))
        assert f"scales     one for every {run} k of a row of A and of a column of B\n" in told and len(told.splitlines()) <= 20


def test_what_becomes_of_a_command_is_its_exit_code(capsys):
    """130 as shells have it of Ctrl-C, 2 where memory is short, else what the command or its error says."""
    from gemmgen.cli import guarded
    from gemmgen.errors import GemmgenError

    def ends(error):
        def program():
            raise error

        return program

    assert guarded(lambda: 1) == 1 and guarded(ends(KeyboardInterrupt())) == 130 and capsys.readouterr().err == "interrupted\n"
    assert guarded(ends(MemoryError("8 GiB"))) == 2 and "memory" in capsys.readouterr().err
    assert guarded(ends(GemmgenError("here", "is refused")), as_json=True) == 2 and json.loads(capsys.readouterr().out)["where"] == "here"


def test_json_has_null_for_what_is_no_number_at_any_depth():
    from gemmgen.cli.output import json_text

    value = {"a": [1.0, float("inf")], "b": (float("nan"), {"c": -float("inf")}), "d": 1}
    assert json.loads(json_text(value)) == {"a": [1.0, None], "b": [None, {"c": None}], "d": 1}


def test_freed_memory_is_kept_where_the_allocator_can(gemmgen, monkeypatch):
    """Fresh pages of a space of candidates took the kernel a third of an explanation's time."""
    asked = []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(mallopt=lambda option, value: asked.append((option, value))))
    verb.keep_memory.cache_clear()
    assert gemmgen("explain", "sgemm_a100").code == 0 and asked == [(-3, 2**25), (-1, 2**30)], "M_MMAP_THRESHOLD, whose most this is, and M_TRIM_THRESHOLD"
    for absent in (AttributeError, OSError):
        def refuses(name, absent=absent):
            raise absent

        monkeypatch.setattr(ctypes, "CDLL", refuses)
        verb.keep_memory.cache_clear()
        verb.keep_memory()
