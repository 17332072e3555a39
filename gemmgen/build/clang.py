"""clang and lld with the amdgcn target, as programs: from the wheel `ziglang`, or from ROCm.

Zig is a compiler for another language that carries all of clang and lld inside
one file, `zig clang` and `zig ld.lld`. Its wheel needs no root, no ROCm and no
GPU, and neither writes anything but what it is asked for.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gemmgen.errors import BuildError

INSTALL = "pip install 'gemmgen[rocm]'"

_TARGET = "amdgcn-amd-amdhsa"
_ARCH = re.compile(r"^\s+(gfx9(?:08|0a|42|50)|gfx1[12]\d\d)$", re.M)  # those with a matrix unit
_VERSION = re.compile(r"^(.*\bclang) version (\S+)")

# Where hipcc or clang's other name stands, seen from there: LLVM's own programs.
_LLVM = ("", "../llvm/bin", "../lib/llvm/bin")


@dataclass(frozen=True)
class Clang:
    """A clang and the lld that belongs to it.

    Attributes:
        name: what people call it, as `clang 22.1.8 (zig 0.17.0)`.
        identity: names this build of both, the same wherever it is installed.
        archs: every architecture with a matrix unit that it compiles for.
        driver: how clang is called: a program and its first arguments.
        linker: the same of lld.
    """

    name: str
    identity: str
    archs: tuple[str, ...]
    driver: tuple[str, ...]
    linker: tuple[str, ...]

    def remedy(self, arch: str) -> str | None:
        """What to try for an architecture that it does not know."""
        return f"a newer clang: {INSTALL}, or set GEMMGEN_HIPCC" if arch.startswith("gfx") else None

    def compile(self, arguments: tuple[str, ...], folder: Path) -> subprocess.CompletedProcess:
        """Run clang on a source of `folder`, with exactly these arguments."""
        return _run((*self.driver, *arguments), folder)

    def assemble(self, assembly: bytes, arguments: tuple[str, ...], target: Path) -> subprocess.CompletedProcess:
        """AMDGPU assembly -> an object file."""
        command = (*self.driver, f"--target={_TARGET}", *arguments, "-x", "assembler", "-c", "-", "-o", target.name)
        return _run(command, target.parent, assembly)

    def link(self, source: Path, target: Path) -> subprocess.CompletedProcess:
        """An object file -> a code object without debugging information."""
        flags = ("-m", "elf64_amdgpu", "--no-undefined", "--strip-debug", "-shared")
        return _run((*self.linker, *flags, source.name, "-o", target.name), target.parent)


def find_clang(asked: str | os.PathLike | None = None) -> Clang:
    """The clang to use: the one asked for, else `$GEMMGEN_HIPCC`, else the wheel ziglang's.

    Args:
        asked: hipcc, amdclang++ or another clang: a path, or a name on the PATH. Of hipcc
            gemmgen uses the clang++ and lld behind it, with the same options as of any other.

    Raises:
        BuildError: there is none, or it cannot be run or lacks its lld.
    """
    named = asked or os.environ.get("GEMMGEN_HIPCC")
    if named:
        return _described(*_tools(os.fspath(named)))
    wheel = importlib.util.find_spec("ziglang")
    for folder in (wheel.submodule_search_locations or ()) if wheel else ():
        if (zig := Path(folder, "zig")).is_file():
            return _described((str(zig), "clang"), (str(zig), "ld.lld"))
    raise BuildError(
        "clang",
        "was not found; it compiles HIP kernels, with or without a GPU",
        needs="the wheel ziglang, or ROCm's compiler",
        remedy=f"{INSTALL}, or set GEMMGEN_HIPCC to ROCm's amdclang++ or hipcc",
    )


def _tools(named: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Driver and linker behind what the user calls the compiler."""
    found = shutil.which(os.path.expanduser(named))
    if found is None:
        raise BuildError(
            named, "is no program", remedy=f"ROCm's amdclang++ or hipcc, or none to use the wheel's: {INSTALL}"
        )
    path = Path(found).absolute()
    for folder in (path.parent, path.resolve().parent):  # a link keeps its name, by which it is told what to be
        for llvm in _LLVM:
            linker = folder / llvm / "ld.lld"
            if linker.is_file():
                driver = linker.with_name("clang++") if path.name.startswith("hipcc") else path
                return (str(driver),), (str(linker),)
    raise BuildError(
        str(path), "has no lld that belongs to it", needs="ld.lld in its folder, or in llvm/bin or lib/llvm/bin next to that"
    )


@functools.cache
def _described(driver: tuple[str, ...], linker: tuple[str, ...]) -> Clang:
    told = _answer((*driver, "--version"))
    version = _VERSION.search(told)
    if not version:
        raise BuildError(driver[0], "is not clang", got=told[:200].strip(), needs="ROCm's amdclang++ or hipcc, or a clang")
    name = " ".join(version.groups())
    identity = [told.splitlines()[0], _answer((*linker, "--version")).strip()]
    if driver[1:]:
        zig = f"zig {_answer((driver[0], 'version')).strip()}"
        name = f"{name} ({zig})"
        identity.append(zig)
    archs = _ARCH.findall(_answer((*driver, f"--target={_TARGET}", "--print-supported-cpus")))
    return Clang(name, ", ".join(identity), tuple(sorted(archs, key=_by_number)), driver, linker)


def _by_number(arch: str) -> int:
    return int(arch.removeprefix("gfx"), 16)


def _answer(command: tuple[str, ...]) -> str:
    done = _run(command, Path(tempfile.gettempdir()))
    return (done.stdout + done.stderr).decode(errors="replace")


def _run(command: tuple[str, ...], folder: Path, given: bytes = b"") -> subprocess.CompletedProcess:
    # Clang obeys many variables (CPATH, CCC_OVERRIDE_OPTIONS); none of them may change the bytes.
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    environment = kept | {"LC_ALL": "C", "TMPDIR": str(folder)}
    try:
        return subprocess.run(command, cwd=folder, env=environment, input=given, capture_output=True)
    except OSError as error:
        raise BuildError(command[0], "cannot be run", got=str(error)) from None
