"""Whatever a user hands in that cannot be served: exit code 2, the place, what was got, what
is needed or what to try, no traceback, and no file left behind."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from gemmgen.build import choice
from gemmgen.solve import solve
from gemmgen.spec import load

# Compiles in a moment.
TINY = '[split]\nscheme = "half"\n[tile]\nblock = [32, 32, 16]\nwarp = [32, 16, 16]\n'


def check_refused(ran, *parts: str):
    assert ran.code == 2, ran.out + ran.err
    assert ran.out == ""
    assert "Traceback" not in ran.err
    assert "  needs  " in ran.err or "  try    " in ran.err, ran.err
    for part in parts:
        assert part in ran.err, f"{part!r} is not in:\n{ran.err}"


BAD_SPECS = {
    "unknown key": ("[pipeline]\nstage = 3", "spec.toml: [pipeline] stage: unknown key", "'stage'", "did you mean 'stages'?"),
    "unknown section": ("[pipelines]\nstages = 3", "pipelines: unknown key", "did you mean 'pipeline'?"),
    "unknown GPU": ('[target]\ngpu = "a1000"', "[target] gpu: unknown GPU", "'a1000'", "did you mean 'a100'?"),
    "unknown scheme": ('[split]\nscheme = "otomo"', "[split] scheme: unknown scheme", "'otomo'", "did you mean 'ootomo'?"),
    "unknown fragment": ('[fragment]\nshape = "m16n8k64"', "[fragment] shape: unknown f16 fragment", "'m16n8k64'", "m16n8k16"),
    "fragment that is none": ('[fragment]\nshape = "16x8"', "[fragment] shape", "'16x8'"),
    "unknown vendor": ('[target]\ngpu = "a100"\nvendor = "intel"', "[target] vendor", "'intel'", "nvidia"),
    "impossible tile": ("[tile]\nblock = [512, 512, 64]\nwarp = [64, 64, 64]", "[tile]", "needs  2048", "has    1024"),
    "tile of zero": ("[tile]\nblock = [0, 128, 32]", "[tile] block.0", "got    0", "greater than or equal to 1"),
    "wrong multiple": ("[tile]\nblock = [128, 128, 32]\nwarp = [40, 32, 32]", "[tile] warp", "got    40", "a multiple of 16", "warp m = 32"),
    "block of other warps": ("[tile]\nblock = [96, 128, 32]\nwarp = [64, 32, 32]", "[tile] block", "got    96", "block m = 64"),
    "block k that cannot be staged": ("[tile]\nblock = [128, 128, 24]", "[tile] block", "got    24", "one of 16, 32, 64, 128"),
    "warp k that is no piece": ("[tile]\nblock = [128, 128, 64]\nwarp = [64, 32, 48]", "[tile] warp", "got    48", "divides block k = 64"),
    "no stages": ("[pipeline]\nstages = 0", "[pipeline] stages", "got    0", "greater than or equal to 1"),
    "4000 stages": ("[pipeline]\nstages = 4000", "[pipeline] stages", "got    4000", "less than or equal to 64"),
    "stages that do not fit": ("[tile]\nblock = [64, 64, 32]\n[pipeline]\nstages = 60", "stages = 60 does not fit a100", "stages * (BM * ", "166912 B", "stages <="),
    "drifting promotion": ('[split]\nscheme = "ootomo"\npromote = 40\n[tile]\nblock = [128, 128, 32]', "[split] promote", "got    40", "promote ="),
    "drifting promotion, whatever the tile": ('[split]\nscheme = "ootomo"\npromote = 40', "[split] promote", "got    40", "promote ="),
    "negative size": ("[problem]\nm = -4", "[problem] m", "got    -4", "greater than or equal to 0"),
    "huge size": ("[problem]\nk = 4294967296", "[problem] k", "got    4294967296", "2147483647"),
    "wgmma where there is none": ('[fragment]\npolicy = "wgmma"', "[fragment] policy: a100 has no wgmma", "needs  sm_90a", "has    sm_80"),
    "a cluster without wgmma": ("[tile]\ncluster = 2", "[tile] cluster: kernels of policy mma have no such choice", "got    2", "leave it out"),
    "a cluster of three": ('[tile]\ncluster = 3\n[target]\ngpu = "h100"', "[tile] cluster", "got    3", "1, 2, 4 or 8"),
    "text for a number": ('[pipeline]\nstages = "three"', "[pipeline] stages", "'three'", "integer"),
    "number for a table": ("pipeline = 3", "pipeline", "got    3"),
    "float for an integer": ("[pipeline]\nstages = 3.0", "[pipeline] stages", "3.0", "integer"),
    "a name that injects C++": ('[split]\nscheme = "a\\"; system(\\"rm\\")//"', "[split] scheme", "system", "pattern"),
    "a name that leaves the folder": ('[split]\nscheme = "../../x"', "[split] scheme: unknown scheme", "'../../x'", "one of: "),
    "an absolute name": ('[target]\ngpu = "/etc/passwd"', "[target] gpu: unknown GPU", "'/etc/passwd'", "one of: "),
    "a row file that is not there": ('[split]\nscheme = "../../x.toml"', "x.toml: cannot be read", "No such file"),
    "a name with a line break": ('[target]\ngpu = "a100\\n"', "[target] gpu", "'a100\\n'", "pattern"),
    "truncated TOML": ("[pipeline]\nstages = ", "spec.toml: is not valid TOML", "Invalid value"),
    "a key twice": ("[pipeline]\nstages = 3\nstages = 4", "spec.toml: is not valid TOML", "overwrite"),
}


# Those after which the whole space is searched once more, for what would do instead.
SEARCHED = {"drifting promotion, whatever the tile"}


@pytest.mark.parametrize("text,parts", [
    pytest.param(text, parts, id=name, marks=pytest.mark.long if name in SEARCHED else ()) for name, (text, *parts) in BAD_SPECS.items()
])
def test_a_spec_that_cannot_be(gemmgen, write_spec, tmp_path, text, parts):
    spec = write_spec(text)
    out = tmp_path / "out"
    out.mkdir()
    check_refused(gemmgen("build", spec, "-o", out), *parts)
    check_refused(gemmgen("build", "--source", spec, "-o", out), *parts)
    as_json = gemmgen("verify", spec, "--json")
    assert as_json.code == 2 and json.loads(as_json.out)["where"]
    assert list(out.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "spec.toml"]


def test_an_empty_spec(gemmgen, tmp_path):
    (tmp_path / "x.toml").write_text("")
    check_refused(gemmgen("build", "--source", tmp_path / "x.toml"), "x.toml: [target] gpu: is missing")


@pytest.mark.parametrize(("content", "parts"), [
    (b"\x00\xff\xfe\x80" * 50, ("is not text", "byte 0xff at offset 1", "UTF-8")),
    ("[split]\nscheme = 'ootomo'".encode("utf-16"), ("is not text", "byte 0xff at offset 0")),
    (bytes(1000), ("is not valid TOML",)),
])
def test_a_file_that_is_no_toml(gemmgen, tmp_path, content, parts):
    path = tmp_path / "x.toml"
    path.write_bytes(content)
    check_refused(gemmgen("build", "--source", path), "x.toml", *parts)


def test_a_path_that_is_no_file(gemmgen, tmp_path):
    (tmp_path / "folder.toml").mkdir()
    check_refused(gemmgen("verify", tmp_path / "missing.toml"), "missing.toml: cannot be read", "No such file", "check the path")
    check_refused(gemmgen("verify", tmp_path / "folder.toml"), "folder.toml: cannot be read", "Is a directory")
    check_refused(gemmgen("verify", tmp_path), "is not a spec", "a .toml file")
    check_refused(gemmgen("verify", tmp_path / "kernel.cu"), "is not a spec", "'kernel.cu'")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_what_permissions_forbid(gemmgen, write_spec, tmp_path):
    spec = write_spec()
    (tmp_path / "shut").mkdir(mode=0o500)
    check_refused(gemmgen("build", "--source", spec, "-o", tmp_path / "shut"), "cannot be written", "Permission denied")
    spec.chmod(0)
    check_refused(gemmgen("build", "--source", spec), "spec.toml: cannot be read", "Permission denied")


@pytest.mark.parametrize("output", ["missing/x.cu", "spec.toml/x.cu", "spec.toml/"])
def test_a_place_that_cannot_be_written(gemmgen, write_spec, tmp_path, output):
    check_refused(gemmgen("build", "--source", write_spec(), "-o", f"{tmp_path}/{output}"), output.rstrip("/"), "cannot be written", "got ")
    assert [path.name for path in tmp_path.iterdir()] == ["spec.toml"]


def test_a_build_folder_that_is_none(gemmgen, write_spec, tmp_path):
    check_refused(gemmgen("build", write_spec(TINY), "-o", tmp_path / "spec.toml"), "spec.toml: cannot be written", "File exists")
    assert [path.name for path in tmp_path.iterdir()] == ["spec.toml"]


def test_a_device_is_not_replaced(gemmgen, write_spec):
    check_refused(gemmgen("build", "--source", write_spec(), "-o", "/dev/null"), "/dev/null: is not a regular file")
    assert not os.path.isfile("/dev/null")


def test_several_kernels_and_one_file(gemmgen, write_spec, tmp_path):
    ran = gemmgen("build", "--source", write_spec(), write_spec(name="other.toml"), "-o", tmp_path / "x.cu")
    check_refused(ran, "--output", "x.cu", "a folder")


# ---- the compiler


@pytest.fixture
def no_cache(monkeypatch):
    monkeypatch.setenv("GEMMGEN_CACHE", "off")


def test_a_source_the_compiler_refuses(gemmgen, write_spec, tmp_path, monkeypatch, no_cache):
    spec, honest = write_spec(TINY), choice.render

    def broken(plan):
        source = honest(plan)
        return replace(source, text=source.text + "this is no C++;\n")

    monkeypatch.setattr(choice, "render", broken)
    ran = gemmgen("build", spec, "-o", tmp_path / "out")
    assert ran.code == 2 and "Traceback" not in ran.err
    last = len(broken(solve(load(spec))).text.splitlines())
    assert f".cu:{last}: does not compile for sm_80" in ran.err and "got    'this is no C++;'" in ran.err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("library", ["/nonexistent", "/etc/passwd", "/"])
def test_a_compiler_that_is_none(gemmgen, write_spec, tmp_path, monkeypatch, no_cache, library):
    monkeypatch.setenv("GEMMGEN_NVRTC", library)
    ran = gemmgen("build", write_spec(), "-o", tmp_path / "out")
    check_refused(ran, f"{library}: cannot be loaded as NVRTC", "got ", "GEMMGEN_NVRTC")
    assert not (tmp_path / "out").exists()
    check_refused(gemmgen("verify", write_spec(), "--quiet"), "cannot be loaded as NVRTC")


# ---- matrices


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "good.npy"
    np.save(path, np.ones((4, 4), np.float32))
    return path


def _truncated(path):
    np.save(path, np.ones((100, 100), np.float32))
    path.write_bytes(path.read_bytes()[:-7])


def _huge(path):
    np.save(path, np.ones((2, 2), np.float32))
    path.write_bytes(path.read_bytes().replace(b"(2, 2), }            ", b"(2000000, 2000000), }"))


class _Bomb:
    def __reduce__(self):
        return (os._exit, (77,))


BAD_MATRICES = {
    "missing": (lambda path: None, "cannot be read", "No such file"),
    "a folder": (lambda path: path.mkdir(), "cannot be read", "Is a directory"),
    "empty": (lambda path: path.write_bytes(b""), "is not a whole .npy file"),
    "truncated": (_truncated, "is not a whole .npy file"),
    "a header that promises too much": (_huge, "is not a whole .npy file"),
    "text": (lambda path: path.write_text("1 2 3\n"), "is not a whole .npy file"),
    "a pickle": (lambda path: path.write_bytes(pickle.dumps(_Bomb())), "is not a whole .npy file"),
    "objects": (lambda path: np.save(path, np.array([[_Bomb()]], object), allow_pickle=True), "is not a whole .npy file", "Object arrays"),
    "integers": (lambda path: np.save(path, np.ones((4, 4), np.int64)), "holds another type", "int64", "astype"),
    "halves": (lambda path: np.save(path, np.ones((4, 4), np.float16)), "holds another type", "float16"),
    "complex": (lambda path: np.save(path, np.ones((4, 4), np.complex64)), "holds another type", "complex64"),
    "records": (lambda path: np.save(path, np.zeros((4, 4), [("x", "f4")])), "holds another type"),
    "a vector": (lambda path: np.save(path, np.ones(4, np.float32)), "is not a matrix", "(4,)", "two dimensions"),
    "no rows": (lambda path: np.save(path, np.ones((0, 4), np.float32)), "is not a matrix", "(0, 4)"),
    "another shape": (lambda path: np.save(path, np.ones((5, 3), np.float32)), "does not fit A", "(5, 3)", "[4, N]"),
}


@pytest.mark.parametrize("make,parts", [(make, parts) for make, *parts in BAD_MATRICES.values()], ids=BAD_MATRICES)
def test_a_matrix_that_cannot_be_used(gemmgen, write_spec, tmp_path, good, make, parts):
    path = tmp_path / "bad.npy"
    make(path)
    check_refused(gemmgen("verify", write_spec(), "--a", good, "--b", path), f"--b {path}", "got ", *parts)


# ---- arguments


@pytest.mark.parametrize(("arguments", "parts"), [
    (["--a", "x.npy"], ("--a, --b", "--a alone", "both matrices")),
    (["--b", "x.npy"], ("--a, --b", "--b alone", "both matrices")),
    (["--a", "x.npy", "--b", "x.npy", "--k", "3"], ("--m, --n, --k", "leave the sizes out")),
    (["--m", "-3"], ("--m", "got    -3", "1 to 2147483647")),
    (["--k", "0"], ("--k", "got    0", "1 to 2147483647")),
    (["--n", "many"], ("--n", "valid integer", "--help")),
    (["--device", "tpu"], ("--device", "'tpu'", "emulator", "--help")),
    (["--bogus"], ("No such option", "--bogus", "--help")),
])
def test_arguments_that_cannot_be(gemmgen, write_spec, arguments, parts):
    check_refused(gemmgen("verify", write_spec(), *arguments), *parts)


def test_a_verb_that_is_none(gemmgen):
    check_refused(gemmgen("verfy"), "verfy", "did you mean 'verify'?")
    check_refused(gemmgen("verify"), "SPEC", "gemmgen verify --help")


def test_a_gpu_that_is_not_there(gemmgen, write_spec, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    check_refused(gemmgen("verify", write_spec(TINY), "--device", "cuda", "--quiet"), "--device cuda", "cupy", "--device emulator")


@pytest.mark.slow
def test_a_real_process_says_the_same(write_spec):
    """The tests above call main(); this is the command as a shell runs it."""
    done = subprocess.run(
        [sys.executable, "-m", "gemmgen", "verify", str(write_spec("[pipeline]\nstages = 0"))], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ") and "stages" in done.stderr and "Traceback" not in done.stderr
