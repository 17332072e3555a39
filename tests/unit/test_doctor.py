"""What `gemmgen doctor` finds where things are missing, broken or hang, and first files of `gemmgen init`."""

from __future__ import annotations

import json
import subprocess
import time
from importlib import metadata
from pathlib import Path

import pytest

from gemmgen import doctor
from gemmgen.catalog.gpu import GPUS
from gemmgen.library import made
from gemmgen.library.file import load_library
from gemmgen.solve import solve
from gemmgen.spec import load
from gemmgen.verbs import doctor as doctor_verb
from gemmgen.verbs import init as init_verb
from gemmgen.workshop import explore

TRIED = ("a100", "mi300x", "rx7600")
"""GPUs of three vendors' lines for which first files are solved in every run; all others in long ones."""
gpus = pytest.mark.parametrize("gpu", [pytest.param(name, marks=[] if name in TRIED else pytest.mark.long) for name in GPUS.names()])


# ---- doctor


def test_a_probe_that_hangs_or_dies_is_a_line_of_the_report():
    begun = time.monotonic()
    found = doctor.probed({
        "fine": "print('{\"a\": 1}')", "hangs": "import time; time.sleep(60)", "dies": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
        "missing": "import ctypes; ctypes.CDLL('libnone.so.1')", "babbles": "print('hello')",
    }, seconds=1)
    assert time.monotonic() - begun < 20
    assert found["fine"] == {"a": 1} and found["hangs"] == {"problem": "does not answer within 1 s", "slow": True}
    assert found["dies"] == {"problem": "its library ends the process (signal 11)"} and found["babbles"] == {"problem": "says nothing"}
    assert found["missing"]["problem"].startswith("libnone.so.1: cannot open")


def test_all_probes_run_at_the_same_time_and_none_that_hangs_stays(monkeypatch):
    ended, kill = [], subprocess.Popen.kill
    monkeypatch.setattr(subprocess.Popen, "kill", lambda process: (ended.append(process), kill(process)))
    begun = time.monotonic()
    doctor.probed(dict.fromkeys("abc", "import time; time.sleep(60)"), seconds=1)
    assert time.monotonic() - begun < 2 and len(ended) == 3


def node(folder: Path, number: int, version: int) -> None:
    (folder / str(number)).mkdir(parents=True)
    (folder / str(number) / "properties").write_text(f"cpu_cores_count 0\ngfx_target_version {version}\n")


def test_gpus_are_known_by_their_titles_and_targets(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "KFD", tmp_path / "nodes")
    monkeypatch.setattr(doctor, "NVIDIA", tmp_path / "nvidia")
    for number, version in enumerate((0, 90010, 90402, 110000)):  # the first is a processor
        node(tmp_path / "nodes", number, version)
    (tmp_path / "nodes" / "9" / "properties").mkdir(parents=True)  # and the last cannot be read
    titles = ("NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA A100-SXM4-80GB", "NVIDIA A30", "NVIDIA Something 1")
    archs = ("sm_90", "sm_90", "sm_80", "sm_80", "sm_61")
    found, problems = doctor.gpus_of({"driver": 13000, "status": 0, "gpus": [{"title": title, "arch": arch} for title, arch in zip(titles, archs)]})
    assert [one["row"] for one in found[:5]] == ["h100", "h200", "a100_80gb", "a100", None] and not problems
    assert [one["own"] for one in found] == [True] * 3 + [False] * 5
    assert [(one["arch"], one["device"]) for one in found[5:]] == [("gfx90a", "hip"), ("gfx942", "hip"), ("gfx1100", "hip")]
    assert [GPUS.get(one["row"]).arch for one in found[5:]] == ["gfx90a", "gfx942", "gfx1100"]


@pytest.mark.parametrize(("cuda", "loaded", "told"), [
    ({"problem": "libcuda.so.1: cannot open"}, False, None), ({"problem": "libcuda.so.1: cannot open"}, True, "libcuda.so.1 fails: libcuda.so.1: cannot open"),
    ({"status": 100, "gpus": []}, True, "CUDA_VISIBLE_DEVICES"), ({"status": 100, "gpus": []}, False, None), ({"status": 803, "gpus": []}, False, "cuInit returns 803"),
])
def test_a_driver_that_fails_is_told_where_there_is_one(monkeypatch, tmp_path, cuda, loaded, told):
    monkeypatch.setattr(doctor, "KFD", tmp_path / "none")
    monkeypatch.setattr(doctor, "NVIDIA", tmp_path)
    if loaded:
        (tmp_path / "version").touch()
    found, problems = doctor.gpus_of(cuda)
    assert found == [] and (told in problems[0] if told else problems == [])


def test_extras_are_those_of_the_package_with_versions(monkeypatch):
    there = {"numpy": "2.0", "nvidia-cuda-nvrtc": "13.3"}

    def version(name):
        if name not in there:
            raise metadata.PackageNotFoundError(name)
        return there[name]

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(metadata, "requires", lambda name: [
        "numpy<3,>=1.26", "nvidia-cuda-nvrtc<14,>=13.0; extra == 'cuda13'", "cupy-cuda13x>=13.6; extra == 'cuda13'", "pytest>=8; extra == 'dev'",
        "hip-python>=6.2; (platform_machine == 'pdp11') and extra == 'rocm'", "gemmgen[cuda13]; extra == 'all'",
        "nvidia-cuda-nvrtc<14,>=13.0; extra == 'cuda'"])
    assert doctor.extras() == {"": {"numpy": "2.0"}, "cuda13": {"nvidia-cuda-nvrtc": "13.3", "cupy-cuda13x": None}}
    monkeypatch.setattr(metadata, "requires", lambda name: version("gemmgen"))
    assert doctor.extras() == {}


H100 = {"device": "cuda", "title": "NVIDIA H100", "arch": "sm_90", "row": "h100", "own": True}
MINE = {"device": "cuda", "title": "NVIDIA X", "arch": "sm_61", "row": None, "own": False}
MI300X = {"device": "hip", "title": "AMD GPU", "arch": "gfx942", "row": "mi300x", "own": False}
NVRTC = {"for": "NVIDIA", "name": "NVRTC 13.3", "ready": True, "problem": None, "try": None, "archs": ["sm_75", "sm_90"]}
CLANG = {"for": "AMD", "name": "clang", "ready": False, "problem": "was not found", "try": "pip install 'gemmgen[rocm]'", "archs": []}
EXTRAS = {"cuda12": {"cupy-cuda12x": None}, "cuda13": {"cupy-cuda13x": "13.6"}, "rocm": {"hip-python": None}}


@pytest.mark.parametrize(("gpus", "compilers", "driver", "typed"), [
    ([], [NVRTC], None, ["gemmgen verify scaled_a100"]),
    ([], [NVRTC | {"ready": False, "archs": []}], None, ["pip install 'gemmgen[cuda13]'", "gemmgen verify scaled_a100"]),
    ([], [NVRTC | {"ready": None, "archs": []}], None, ["gemmgen verify scaled_a100"]),  # it was too slow to answer
    ([H100], [NVRTC], 13000, ["gemmgen init kernel --gpu h100 -o my_kernel.toml"]),
    ([H100], [NVRTC], 12040, ["pip install 'gemmgen[cuda12]'", "gemmgen init kernel --gpu h100 -o my_kernel.toml"]),
    ([MINE], [NVRTC], 13000, ["pip install --upgrade 'gemmgen[cuda13]'", "gemmgen gpu probe --device cuda -o my_gpu/"]),
    ([MI300X], [NVRTC], None, ["pip install 'gemmgen[rocm]'", "gemmgen init kernel --gpu mi300x -o my_kernel.toml"]),
    ([H100, MINE], [NVRTC], 13000, ["gemmgen init kernel --gpu h100 -o my_kernel.toml"]),  # the first of a kind of device
    # One compiler that is there, or compiles for the GPU, is enough.
    ([], [NVRTC, CLANG], None, ["gemmgen verify scaled_a100"]), ([], [CLANG, NVRTC], None, ["gemmgen verify scaled_a100"]),
    ([H100], [CLANG, NVRTC], 13000, ["gemmgen init kernel --gpu h100 -o my_kernel.toml"]),
    ([H100], [CLANG], None, ["pip install --upgrade 'gemmgen[cuda13]'", "gemmgen init kernel --gpu h100 -o my_kernel.toml"]),
])
def test_what_to_type_next(gpus, compilers, driver, typed):
    steps = doctor.next_steps({"gpus": gpus, "compilers": compilers, "cuda_driver": driver, "extras": EXTRAS})
    assert [one["type"] for one in steps] == typed and all(one["why"] for one in steps)


def test_the_report_says_each_part_in_a_line(monkeypatch):
    value = {
        "gemmgen": "0.1.0", "place": "/x", "python": "3.12.1", "system": "Linux x86_64", "processors": 1, "cuda_driver": 12040, "gpus": [H100, MINE, MI300X],
        "compilers": [NVRTC, CLANG],
        "host": {"cc": "/usr/bin/cc"}, "extras": {"": {"numpy": "2.0"}, "cuda12": {"cupy-cuda12x": None, "nvidia-cuda-nvrtc-cu12": "12.4"}},
        "settings": {"GEMMGEN_CACHE": "off"}, "problems": ["bad"], "next": [{"type": "gemmgen verify x", "why": "since"}],
    }
    assert doctor_verb.text(value).splitlines() == [
        "gemmgen        0.1.0 in /x", "Python         3.12.1, Linux x86_64, 1 processor", "driver         NVIDIA's, for CUDA 12.4",
        "GPU            NVIDIA H100 (sm_90), described by h100", "GPU            NVIDIA X (sm_61), which no file of specs/gpus describes",
        "GPU            AMD GPU (gfx942), planned for as mi300x, which has its target",
        "for NVIDIA     NVRTC 13.3, sm_75 to sm_90", "for AMD        clang was not found; pip install 'gemmgen[rocm]'", "for libraries  cc", "needs          numpy 2.0",
        "[cuda12]       missing cupy-cuda12x; has nvidia-cuda-nvrtc-cu12 12.4", "setting        GEMMGEN_CACHE=off", "problem        bad", "", "Type next:",
        "  gemmgen verify x", "      since",
    ]
    assert doctor_verb.text(value | {"gpus": [], "cuda_driver": 0}).splitlines()[2:4] == ["driver         no CUDA driver", "GPU            none"]


def test_the_report_has_what_the_probes_answer(monkeypatch):
    answers = {"cuda": {"driver": 13000, "status": 0, "gpus": [{"title": "NVIDIA H100", "arch": "sm_90"}]},
               "NVRTC": {"name": "NVRTC 13.3", "archs": ["sm_75", "sm_90"], "path": "/x/libnvrtc.so"},
               "clang": {"problem": CLANG["problem"], "try": CLANG["try"]}}
    monkeypatch.setattr(doctor, "probed", lambda programs: {name: answers[name] for name in programs})
    monkeypatch.setattr(doctor, "extras", lambda: {})
    monkeypatch.setattr(doctor, "KFD", Path("/nowhere"))
    monkeypatch.setattr(doctor.shutil, "which", lambda name: f"/bin/{name}" if name != "gcc" else None)
    monkeypatch.setenv("GEMMGEN_MINE", "1")
    value = doctor.diagnosed()
    assert value["host"] == {name: f"/bin/{name}" for name in ("cc", "clang", "cmake", "hipcc")}
    assert value["gpus"] == [H100] and value["cuda_driver"] == 13000
    assert value["compilers"] == [NVRTC | {"path": "/x/libnvrtc.so"}, CLANG | {"path": None}]
    assert value["settings"]["GEMMGEN_MINE"] == "1" and all(name.startswith("GEMMGEN_") for name in value["settings"])
    assert value["problems"] == ["gemmgen is not installed as a package: which extras are missing is not known"]
    answers["NVRTC"], answers["cuda"] = {"problem": "does not answer within 1 s", "slow": True}, {"problem": "libcuda.so.1: cannot open"}
    monkeypatch.setattr(doctor, "NVIDIA", Path("/nowhere"))
    value = doctor.diagnosed()
    assert value["compilers"][0] == NVRTC | {"name": "NVRTC", "ready": None, "path": None, "problem": "does not answer within 1 s", "archs": []}
    assert (value["gpus"], value["cuda_driver"]) == ([], None)


def test_a_part_that_is_broken_is_a_problem_and_no_crash(monkeypatch):
    def broken(*given):
        raise RuntimeError("no such luck")

    for name in ("probed", "gpus_of", "extras"):
        monkeypatch.setattr(doctor, name, broken)
    value = doctor.diagnosed()
    assert [problem.partition(" cannot")[0] for problem in value["problems"][:3]] == ["drivers and compilers", "GPUs", "packages"]
    assert "RuntimeError: no such luck" in value["problems"][0] and value["next"] and "no such luck" in doctor_verb.text(value)


@pytest.mark.slow
def test_a_compiler_that_is_none_is_no_crash(gemmgen, monkeypatch, tmp_path):
    monkeypatch.setenv("GEMMGEN_NVRTC", str(tmp_path / "libnvrtc.so"))
    monkeypatch.setenv("GEMMGEN_HIPCC", "none")
    monkeypatch.setattr(doctor, "SECONDS", 20)  # this machine may be busy
    monkeypatch.setattr(doctor.probed, "__defaults__", (20,))
    ran = gemmgen("doctor", "--json")
    value = json.loads(ran.out)
    assert (ran.code, ran.err) == (0, "") and [one["ready"] for one in value["compilers"]] == [False, False]
    assert all(one["problem"] and one["try"] for one in value["compilers"]) and value["next"]


# ---- init


def test_a_first_file_is_written_once_and_for_this_machines_gpu(gemmgen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "gpus_here", lambda: [MINE, H100])
    ran = gemmgen("init", "kernel")
    assert ran.out == "wrote kernel.toml for the NVIDIA H100 SXM5 80 GB\nnext  gemmgen verify kernel.toml\n" and ran.err == ""
    assert load("kernel.toml").spec.target.gpu == "h100"
    before = Path("kernel.toml").read_text()
    again = gemmgen("init", "kernel", "--gpu", "a100")
    assert again.code == 2 and "exists" in again.err and "-o my_kernel.toml" in again.err and Path("kernel.toml").read_text() == before
    monkeypatch.setattr(doctor, "gpus_here", lambda: [MINE])
    ran = gemmgen("init", "library", "-o", "9 Lives.toml", "--json")
    assert json.loads(ran.out) == {"file": "9 Lives.toml", "gpu": "a100", "next": "gemmgen library '9 Lives.toml' --dry-run"} and ran.err == ""
    assert load_library("9 Lives.toml").name == "my_9_lives"
    for path, name in ((f"{60 * 'x'}.toml", 40 * "x"), (f"{60 * '9'}.toml", f"my_{37 * '9'}")):  # as long as a library's name may be
        assert gemmgen("init", "library", "-o", path).code == 0 and load_library(path).name == name
    assert "note: no GPU that gemmgen knows is here: written for the a100" in gemmgen("init", "study").err
    assert gemmgen("init", "study", "-o", "x.tml").code == 2 and "did you mean 'h100'" in gemmgen("init", "study", "--gpu", "h10", "-o", "y.toml").err
    assert not Path("y.toml").exists()


def test_a_first_file_may_be_for_a_gpus_file(gemmgen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "specs").mkdir()
    (tmp_path / "mine.toml").write_text((GPUS.folder / "a100.toml").read_text().replace('name = "a100"', 'name = "mine"'))
    assert gemmgen("init", "kernel", "--gpu", "mine.toml", "-o", "specs/first.toml").code == 0
    assert load("specs/first.toml").spec.target.gpu == "../mine.toml"
    assert gemmgen("build", "--source", "specs/first.toml", "-o", "x.cu").code == 0


def written(what: str, gpu: str, folder: Path) -> Path:
    path = folder / f"{what}.toml"
    path.write_text(init_verb.starter(init_verb.Starter(what), GPUS.get(gpu), gpu, path))
    return path


@pytest.mark.slow
@gpus
def test_a_first_kernel_is_solved_with_the_accuracy_of_fp32(gpu, tmp_path):
    plan = solve(load(written("kernel", gpu, tmp_path)))
    assert plan.gpu.name == gpu and plan.hints.m == 4096


@pytest.mark.slow
@gpus
def test_a_first_study_has_candidates(gpu, tmp_path):
    found = explore.study(written("study", gpu, tmp_path)).candidates()
    assert len(found) >= 40 and not found.refused and len(found.problems) == 3


@pytest.mark.slow
@gpus
def test_a_first_library_has_kernels_of_every_layout(gpu, tmp_path):
    choice = made.choose(load_library(written("library", gpu, tmp_path)))
    assert {one.plan.layout for one in choice.kernels} == {"nn", "nt", "tn", "tt"}
