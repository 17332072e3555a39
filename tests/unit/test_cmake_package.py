"""`find_package(gemmgen)`: kernels that are generated while a project is configured, and what is built where gemmgen is not.

A program of a few lines stands for gemmgen, and what it generates are targets of no language, so that no compiler is looked for; one test in the
long tail has the real one.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from programs import need, run

from gemmgen import __version__
from gemmgen.paths import CMAKE

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]

STAND_IN = """#!{python}
# Writes a folder as gemmgen does, or refuses a spec that says so, and notes each call.
import json, pathlib, sys
words = sys.argv[1:]
if words == ["--version"]:
    print("gemmgen {version}")
    sys.exit()
pathlib.Path(__file__).with_name("calls.txt").open("a").write(" ".join(words[:-3]) + "\\n")
source, folder = pathlib.Path(words[-3]), pathlib.Path(words[-1])
if "wrong" in source.read_text():
    sys.exit("gemmgen: my.toml: [split] scheme: is unknown")
name = words[words.index("--name") + 1] if "--name" in words else source.read_text().split('"')[1]
folder.mkdir(parents=True, exist_ok=True)
(folder / "CMakeLists.txt").write_text(
    "cmake_minimum_required(VERSION 3.18)\\nproject(" + name + " LANGUAGES NONE)\\nadd_library(" + name + " INTERFACE)\\n"
    "target_include_directories(" + name + " INTERFACE ${{CMAKE_CURRENT_SOURCE_DIR}})\\n")
(folder / (name + ".h")).write_text("// " + source.read_text())
(folder / "manifest.json").write_text(json.dumps({{"generator": "gemmgen", "name": name}}, indent=2))
"""

HOST = """cmake_minimum_required(VERSION 3.18)
project(host LANGUAGES NONE)
find_package(gemmgen 0.1 REQUIRED)
{calls}
get_target_property(folder {target} INTERFACE_INCLUDE_DIRECTORIES)
message(STATUS "taken from <${{folder}}>")
"""


class Project:
    """A CMake project with a stand-in for gemmgen in its folder."""

    def __init__(self, folder: Path, calls: str, target: str = "lab", spec: str = 'scheme = "ootomo"\n'):
        self.folder = folder
        self.spec = folder / "my.toml"
        self.program = folder / "bin" / "gemmgen"
        self.program.parent.mkdir()
        self.program.write_text(STAND_IN.format(python=sys.executable, version=__version__))
        self.program.chmod(0o755)
        self.spec.write_text(spec)
        (folder / "CMakeLists.txt").write_text(HOST.format(calls=calls, target=target))
        [self.cmake] = need("cmake")

    def configure(self, command: str | None = None, fails: bool = False, package: Path = CMAKE, path: Path | None = None) -> str:
        """What CMake says, of its own and of errors.

        Args:
            command: GEMMGEN_COMMAND; None is the stand-in.
            path: a folder before those of the PATH.
        """
        done = subprocess.run(
            [self.cmake, "-S", ".", "-B", "build", f"-Dgemmgen_DIR={package}", f"-DGEMMGEN_COMMAND={self.program if command is None else command}"],
            cwd=self.folder, capture_output=True, text=True, env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}"} if path else None)
        assert bool(done.returncode) == fails, done.stdout + done.stderr
        return done.stdout + " ".join(done.stderr.split())  # which CMake breaks where it likes

    @property
    def watched(self) -> set[str]:
        """Names of .toml files that a build looks at before it does anything."""
        build = self.folder / "build"
        rules = "".join(path.read_text() for path in build.glob("CMakeFiles/Makefile.cmake")) or (build / "build.ninja").read_text()
        return set(re.findall(r"\b\w+\.toml\b", rules))

    @property
    def calls(self) -> list[str]:
        noted = self.program.with_name("calls.txt")
        return noted.read_text().splitlines() if noted.exists() else []


def test_a_kernel_is_generated_once_and_again_when_its_spec_changes(tmp_path):
    project = Project(tmp_path, "gemmgen_generate(lab SPEC my.toml GPU h200 LAYOUT tn ARCHS sm_89 sm_90)")
    told = project.configure()
    assert f"taken from <{tmp_path}/build/gemmgen/lab>" in told and "generating lab" in told
    assert project.calls == ["export --name lab --gpu h200 --layout tn --arch sm_89 --arch sm_90"]
    assert "generating" not in project.configure() and len(project.calls) == 1
    project.spec.write_text('scheme = "scaled"\n')
    assert "generating" in project.configure() and len(project.calls) == 2
    assert project.watched == {"my.toml"}, "the build itself looks at the spec"


def test_a_kernel_is_generated_again_for_another_call_another_version_and_where_it_is_not_whole(tmp_path):
    project = Project(tmp_path, "gemmgen_generate(lab SPEC my.toml LAYOUT nt)")
    project.configure()
    file, program = tmp_path / "CMakeLists.txt", project.program
    for change in (
        lambda: file.write_text(file.read_text().replace("LAYOUT nt", "LAYOUT tt")),
        lambda: program.write_text(program.read_text().replace(f"gemmgen {__version__}", "gemmgen 99.0")),
        (tmp_path / "build" / "gemmgen" / "lab" / "manifest.json").unlink,
    ):
        change()
        assert "generating" in project.configure()
    assert "generating" not in project.configure()
    assert project.calls == [f"export --name lab --layout {layout}" for layout in ("nt", "tt", "tt", "tt")]


def test_another_name_and_files_that_a_spec_names(tmp_path):
    (tmp_path / "gpu.toml").write_text("sms = 1\n")
    project = Project(tmp_path, "gemmgen_generate(lab SPEC my.toml NAME my_sgemm DEPENDS gpu.toml)")
    project.configure()
    assert project.calls == ["export --name my_sgemm"] and (tmp_path / "build" / "gemmgen" / "lab" / "my_sgemm.h").exists()
    (tmp_path / "gpu.toml").write_text("sms = 2\n")
    project.configure()
    assert len(project.calls) == 2 and project.watched == {"my.toml", "gpu.toml"}


def test_a_library_is_called_as_its_file_says(tmp_path):
    project = Project(tmp_path, "gemmgen_library(kernels LIB my.toml)", target="kernels", spec='name = "lab"\n')
    assert f"taken from <{tmp_path}/build/gemmgen/kernels>" in project.configure()
    assert project.calls == ["library"]


def test_without_gemmgen_what_is_committed_is_built_and_told(tmp_path):
    project = Project(tmp_path, "gemmgen_generate(lab SPEC my.toml COMMITTED third_party/lab)")
    run(project.program, "export", "--name", "lab", "my.toml", "-o", "third_party/lab", cwd=tmp_path)
    assert "WARNING" not in project.configure().upper().replace("WNO", "")
    for command in ("OFF", "/nowhere/gemmgen"):
        told = project.configure(command)
        assert f"taken from <{tmp_path}/third_party/lab>" in told and "built from what is committed" in told
    # With it, what is committed is held against what the spec gives now.
    project.spec.write_text('scheme = "scaled"\n')
    told = project.configure()
    assert "third_party/lab is not what" in told and f"gemmgen export --name lab {tmp_path}/my.toml -o {tmp_path}/third_party/lab" in told
    assert f"taken from <{tmp_path}/build/gemmgen/lab>" in told


@pytest.mark.parametrize(("call", "command", "told"), [
    ("gemmgen_generate(lab SPEC my.toml)", "OFF", "the target lab has no COMMITTED folder: pip install"),
    ("gemmgen_generate(lab SPEC my.toml COMMITTED none)", "OFF", "nothing is committed in"),
    ("gemmgen_generate(lab SPEC other.toml)", None, "other.toml, for the target lab, is not there"),
    ("gemmgen_generate(lab SPEC wrong.toml)", None, "[split] scheme: is unknown The command was:"),
    ("gemmgen_generate(lab)", None, "SPEC <file.toml> is missing"),
    ("gemmgen_generate(lab SPEC my.toml KIND static)", None, "unknown or without a value: KIND;static"),
    ("gemmgen_library(lab)", None, "LIB <file.toml> is missing"),
])
def test_what_cannot_be_is_told(call, command, told, tmp_path):
    project = Project(tmp_path, call)
    (tmp_path / "wrong.toml").write_text("wrong\n")
    assert told in project.configure(command, fails=True)


def test_a_committed_folder_of_another_name_is_refused(tmp_path):
    project = Project(tmp_path, "gemmgen_generate(lab SPEC my.toml COMMITTED old)")
    run(project.program, "export", "--name", "other", "my.toml", "-o", "old", cwd=tmp_path)
    assert "holds the library other, not lab" in project.configure("OFF", fails=True)


def test_the_file_works_as_a_copy_in_the_project(tmp_path):
    """So that a project can be configured where no gemmgen is."""
    project = Project(tmp_path, "gemmgen_generate(lab SPEC my.toml COMMITTED third_party/lab)")
    run(project.program, "export", "--name", "lab", "my.toml", "-o", "third_party/lab", cwd=tmp_path)
    text = (tmp_path / "CMakeLists.txt").read_text().replace("find_package(gemmgen 0.1 REQUIRED)", "include(own.cmake)")
    (tmp_path / "CMakeLists.txt").write_text(text)
    (tmp_path / "own.cmake").write_text((CMAKE / "gemmgen-config.cmake").read_text())
    assert "third_party/lab>" in project.configure("OFF")


def test_the_package_tells_the_version_and_the_command_line_its_folder(gemmgen):
    text = (CMAKE / "gemmgen-config-version.cmake").read_text()
    assert f"set(PACKAGE_VERSION {re.match(r'[0-9.]+', __version__)[0]})" in text
    assert gemmgen("--cmake-dir").out.strip() == str(CMAKE)


def script(tmp_path: Path, text: str) -> str:
    """What a CMake script prints."""
    (tmp_path / "script.cmake").write_text(text)
    [cmake] = need("cmake")
    done = subprocess.run([cmake, "-P", "script.cmake"], cwd=tmp_path, capture_output=True, text=True, check=True)
    return done.stderr


@pytest.mark.parametrize(("asked", "takes"), [
    ("0.1", "TRUE TRUE"), ("0.1.0", "TRUE TRUE"), ("0.1.1", "FALSE FALSE"), ("0.2", "FALSE FALSE"), ("0.0.9", "FALSE FALSE"), ("1.1", "FALSE FALSE"),
])
def test_which_versions_a_project_may_ask_for(asked, takes, tmp_path):
    major, minor = asked.split(".")[:2]
    told = script(tmp_path, f'set(PACKAGE_FIND_VERSION {asked})\nset(PACKAGE_FIND_VERSION_MAJOR {major})\nset(PACKAGE_FIND_VERSION_MINOR {minor})\n'
                            f'include({CMAKE}/gemmgen-config-version.cmake)\nmessage("${{PACKAGE_VERSION_COMPATIBLE}} ${{PACKAGE_VERSION_EXACT}}")\n')
    assert told.strip() == takes


def test_sources_of_every_language_are_held_against_what_is_committed(tmp_path):
    """And headers; machine code is not, which depends on the compiler."""
    names = ("lab.cu", "lab.hip", "src/lab.c", "include/lab.h")
    for name in (*names, "lab.cubin", "README.md"):
        (tmp_path / "lab" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "lab" / name).write_text(name)
    told = script(tmp_path, f'include({CMAKE}/gemmgen-config.cmake)\n_gemmgen_sources({tmp_path}/lab found)\nmessage("${{found}}")\n')
    assert dict(line.split() for line in told.splitlines() if line) == {name: hashlib.sha256(name.encode()).hexdigest() for name in names}


def test_where_gemmgen_is_looked_for(tmp_path):
    """As a command of several words; along the PATH; in the environment that the package is installed in; else as a module of the Python at hand."""
    project = Project(tmp_path, "gemmgen_generate(lab SPEC my.toml)")
    project.configure(f"env;{project.program}")
    assert len(project.calls) == 1
    shutil.rmtree(tmp_path / "build")
    project.configure("", path=project.program.parent)
    assert len(project.calls) == 2
    shutil.rmtree(tmp_path / "build")
    installed = tmp_path / "lib" / "python3" / "site-packages" / "gemmgen" / "cmake"
    shutil.copytree(CMAKE, installed)
    project.configure("", package=installed)
    assert len(project.calls) == 3
    shutil.rmtree(tmp_path / "build")
    project.program.rename(project.program.with_name("it"))
    for name, text in (("gemmgen", "echo another program 1.0"), ("python3", f'shift 2; exec {tmp_path}/bin/it "$@"')):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    project.configure("", path=project.program.parent)
    assert len(project.calls) == 4


@pytest.mark.long
def test_the_real_one_builds_a_program(tmp_path):
    cmake, _, _ = need("cmake", "nvcc", "g++")
    (tmp_path / "my.toml").write_text('[split]\nscheme = "fp32"\n[tile]\nblock = [64, 64, 32]\nwarp = [32, 32, 32]\n[target]\ngpu = "a100"\n')
    (tmp_path / "main.c").write_text('#include "lab_gemm.h"\nint main(void) { return lab_gemm_workspace_bytes(8, 8, 8) == 0; }\n')
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(host LANGUAGES C CXX)\nfind_package(gemmgen REQUIRED)\n"
        "gemmgen_generate(lab_gemm SPEC my.toml COMMITTED committed)\nadd_executable(main main.c)\ntarget_link_libraries(main PRIVATE lab_gemm)\n")
    call = f"env;PYTHONPATH={ROOT};{sys.executable};-m;gemmgen"
    for command in (call, "OFF"):
        build = tmp_path / f"build_{command == 'OFF'}"
        run(cmake, "-S", ".", "-B", build, f"-Dgemmgen_DIR={CMAKE}", f"-DGEMMGEN_COMMAND={command}", cwd=tmp_path)
        run(cmake, "--build", build, cwd=tmp_path)
        run(build / "main")
        if command != "OFF":
            (build / "gemmgen" / "lab_gemm").rename(tmp_path / "committed")
