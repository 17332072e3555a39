"""The preload library beside stand-ins: everything is compiled once a process, and programs run under it.

The library of kernels is tests/support/reference.py's; the vendor's BLAS, its driver and the programs are of tests/support/stand_in.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import reference
from gemmgen.library import shim

SOURCES = Path(__file__).with_name("stand_in")
PRELUDE = SOURCES / "prelude.py"
C = ("gcc", "-std=gnu99", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function")
STAND_INS = {
    "cublas": (("libcublas.so.13", "cublas.c", ()), ("libcublasLt.so.13", "cublaslt.c", ()), ("libcuda.so.1", "driver.c", ())),
    "hipblas": (("librocblas.so.5", "hipblas.c", ("-DROCBLAS",)), ("libhipblas.so.3", "hipblas.c", ("-l:librocblas.so.5",)),
                ("libamdhip64.so.7", "driver.c", ("-DHIP",))),
}
"""(name, source, options) by what LIB.toml calls the preload library. Symbols have versions of the library's name, as the real ones'."""

kept: list[tempfile.TemporaryDirectory] = []


def compile_c(source: Path, target: Path, *options: str) -> Path:
    """A program or library."""
    done = subprocess.run([*C, str(source), "-o", str(target), *options], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return target


@cache
def folder(kind: str = "cublas") -> Path:
    """A library's folder with its shim's sources, built, and the stand-ins in its folder `vendor`."""
    kept.append(held := tempfile.TemporaryDirectory(prefix="dropped-in-"))
    made = Path(held.name)
    for file in (reference.path(), reference.folder() / f"{reference.NAME}.h"):
        shutil.copy(file, made)
    for file, content in shim.files(SimpleNamespace(name=reference.NAME, guard=reference.NAME.upper(), shim=(kind,), reproducible=False)).items():
        (made / file).parent.mkdir(exist_ok=True)
        (made / file).write_bytes(content)
    shim.build(made)
    place = made / "vendor"
    place.mkdir()
    for name, source, options in STAND_INS[kind]:
        versions = place / f"{name}.map"
        versions.write_text(f"{name} {{ global: *; }};\n")
        compile_c(SOURCES / source, place / name, "-shared", "-fPIC", f"-Wl,-soname,{name}", f"-Wl,--version-script={versions}", f"-L{place}", *options,
                  "-lm", "-lpthread")
    return made


def built(kind: str = "cublas") -> shim.Built:
    return shim.build(folder(kind))


@dataclass(frozen=True)
class Ran:
    """What a program told: its values by name, its log's lines without the summaries, these, and the rest."""

    told: dict[str, Any]
    log: list[dict[str, Any]]
    summaries: list[dict[str, Any]]
    stderr: str
    returncode: int

    @property
    def counts(self) -> dict[str, int]:
        """Calls by routine and reason; `taken` for those that were."""
        found: dict[str, int] = {}
        for line in self.log:
            what = f"{line['routine']}: {line.get('reason', 'taken')}"
            found[what] = found.get(what, 0) + line["count"]
        return found


def environment(kind: str = "cublas", *, preload: bool = True, audit: bool = False, **settings: str) -> dict[str, str]:
    """Of a program: LAB_LOG=... are settings; the stand-ins are found by name."""
    one = built(kind)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("LAB_", "LD_"))},
        "LD_LIBRARY_PATH": f"{folder(kind) / 'vendor'}:{folder(kind)}",
        **({"LD_PRELOAD": str(one.preload)} if preload else {}), **({"LD_AUDIT": str(one.audit)} if audit else {}), **settings,
    }


def run(command: Sequence[str], kind: str = "cublas", *, preload: bool = True, audit: bool = False, log: bool = True, **settings: str) -> Ran:
    """A program under the preload library."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "log.jsonl"
        if log:
            settings.setdefault("LAB_LOG", str(path))
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60,
                              env=environment(kind, preload=preload, audit=audit, **settings))
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    told: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        told |= json.loads(line)
    return Ran(told, [line for line in lines if "summary" not in line], [line for line in lines if "summary" in line], done.stderr, done.returncode)


def run_python(script: str, kind: str = "cublas", **how: Any) -> Ran:
    """A script that begins with the prelude, and succeeds."""
    ran = run([sys.executable, "-S", "-c", f"{PRELUDE.read_text()}\n{script}"], kind, **how)
    assert not ran.returncode, ran.stderr
    return ran
