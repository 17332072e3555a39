"""Do cuBLAS's level 3, and a library's kernels in its place, pass LAPACK's own test programs (sblat3, dblat3, cblat3, zblat3)?

    python bench/blat3.py --lapack DIR --library LIB
    python bench/blat3.py --lapack DIR --build-only OUT
    python bench/blat3.py --run OUT --library LIB
    python bench/blat3.py --lapack DIR --host-blas libblas.so.3

DIR holds LAPACK's sources (BLAS/TESTING/sblat3.f, sblat3.in and those of the other letters); LIB is a folder of `gemmgen library` with shim = ["cublas"]. The
first form compiles the programs with gfortran and runs them, as they are and under the preload library at --min-gain 0. The second and third do one half
each: OUT runs on any x86-64 Linux, without Fortran. The last form runs them without a GPU: a BLAS of the CPU stands in for cuBLAS, which shows that the
programs, bench/blat3/cublas.c and its error exits are right.

LAPACK's questions are asked at extents of its own and 33 and 65 (--extents), which end inside a kernel's tile and behind it. GEMMTR is asked of cublas<t>syrkx.
Prints for each routine whether its results and its error exits pass, with how many calls, and how many of its calls the library took; then the lines of what
fails. The exit code is 1 where anything fails. Raises GemmgenError for a missing compiler, source or library.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gemmgen.errors import GemmgenError
from gemmgen.library import dropped, shim

SOURCES = Path(__file__).with_name("blat3")
LETTERS = "sdcz"
EXTENTS = "0,1,2,3,5,9,33,65"
UNTESTED = ("SKEWSYMM", "SKEWSYR2K")
"""Routines of LAPACK's newest programs that cuBLAS does not have."""
LIMIT = 500
"""Seconds that a program may take."""


@dataclass(frozen=True)
class Verdict:
    """What a program says of a routine.

    Attributes:
        results, exits: whether they pass.
        calls: of the results.
        complaints: lines about it that are no pass.
    """

    results: bool
    exits: bool
    calls: int
    complaints: tuple[str, ...]

    @property
    def passes(self) -> bool:
        return self.results and self.exits and not self.complaints


def questions(text: str, extents: Sequence[int]) -> str:
    """LAPACK's file of questions, of other extents, and without the routines that cuBLAS does not have."""
    lines = text.splitlines()
    at = next(index for index, line in enumerate(lines) if "VALUES OF N" in line and "NUMBER" not in line)
    lines[at - 1 : at + 1] = [str(len(extents)), " ".join(map(str, extents))]
    return "\n".join(re.sub(" T ", " F ", line, count=1) if line[1:].startswith(UNTESTED) else line for line in lines) + "\n"


def tested(asked: str) -> list[str]:
    """The routines that a file of questions asks for."""
    return re.findall(r"^([SDCZ][A-Z0-9]+) +T\b", asked, re.M)


def verdicts(summary: str, routines: Sequence[str]) -> dict[str, Verdict]:
    """What a program's summary says of each routine."""
    found, lines = {}, [line.strip() for line in summary.splitlines()]
    for name in routines:
        own = [line for line in lines if re.search(rf"\b{name}\b", line)]
        results = [re.search(r"PASSED THE COMPUTATIONAL TESTS \( *(\d+) CALLS", line) for line in own]
        calls = sum(int(one[1]) for one in results if one)
        exits = any("PASSED THE TESTS OF ERROR-EXITS" in line for line in own)
        complaints = tuple(line for line in own if re.search(r"FAIL|SUSPECT|NOT RECOGNIZED", line) and not re.search(r"\b0 FAIL", line))
        found[name] = Verdict(any(results), exits, calls, complaints)
    return found


def function_of(routine: str) -> str:
    """The function of cuBLAS that bench/blat3/cublas.c calls."""
    return f"cublas{routine[0]}{routine[1:].lower()}_v2" if routine[1:] != "GEMMTR" else f"cublas{routine[0]}syrkx"


def compiled(command: Sequence[str]) -> None:
    if not shutil.which(command[0]):
        raise GemmgenError(command[0], "is not installed", needs="it to build LAPACK's programs", remedy=f"install {command[0]}, or --run what --build-only made")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GemmgenError(" ".join(command[:3]), "fails", got=(done.stderr or done.stdout).strip()[-2000:])


def build(lapack: Path, out: Path, letters: str, extents: Sequence[int]) -> None:
    """Into a folder: each program with its questions, and what stands in for cuBLAS."""
    out.mkdir(parents=True, exist_ok=True)
    static = out / "static"
    static.mkdir(exist_ok=True)
    quadmath = subprocess.run(["gfortran", "-print-file-name=libquadmath.a"], capture_output=True, text=True, check=False) if shutil.which("gfortran") else None
    if quadmath is not None and quadmath.stdout.startswith("/"):  # of libgfortran's, which -static-libgfortran leaves to the machine
        (static / "libquadmath.a").unlink(missing_ok=True)
        (static / "libquadmath.a").symlink_to(quadmath.stdout.strip())
    compiled(["gcc", "-std=gnu99", "-O1", "-c", str(SOURCES / "cublas.c"), "-o", str(out / "cublas.o")])
    compiled(["gcc", "-std=gnu99", "-O1", "-shared", "-fPIC", str(SOURCES / "host.c"), "-o", str(out / "host.so"), "-ldl"])
    for letter in letters:
        source = lapack / "BLAS" / "TESTING" / f"{letter}blat3.f"
        if not source.is_file():
            raise GemmgenError("--lapack", f"has no {source.name}", got=str(source), remedy="a folder of https://github.com/Reference-LAPACK/lapack")
        absent = [f"-Wl,--defsym={letter}{name.lower()}_=0" for name in UNTESTED]  # called by the program's text, never by its questions
        compiled(["gfortran", "-O1", "-w", "-static-libgfortran", "-static-libgcc", "-s", *absent, f"-L{static}", "-o", str(out / f"xblat3{letter}"), str(source),
                  str(out / "cublas.o"), "-ldl"])
        (out / f"{letter}blat3.in").write_text(questions(source.with_suffix(".in").read_text(), extents))
    (out / "cublas.o").unlink()
    shutil.rmtree(static)


def vendor_folder() -> Path | None:
    """Where the cuBLAS that cupy loads lies; None where there is no cupy, so that the dynamic linker's own order counts."""
    try:
        from cupy.cuda import device

        device.get_cublas_handle()
    except ImportError:
        return None
    loaded = re.findall(r"(/\S+)/libcublas\.so", Path("/proc/self/maps").read_text())
    return Path(loaded[0]) if loaded else None


def run(out: Path, letter: str, environment: dict[str, str]) -> dict[str, Verdict]:
    """Runs a program in a folder of its own; a crash leaves its routines without a pass."""
    asked = (out / f"{letter}blat3.in").read_text()
    with tempfile.TemporaryDirectory(prefix="blat3-") as folder:
        done = subprocess.run([str(out.absolute() / f"xblat3{letter}")], input=asked, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT,
                              check=False)
        if done.returncode:
            print(f"{letter}blat3 ends with {done.returncode}: {done.stderr.strip()[-500:]}")
        summary = Path(folder) / f"{letter}blat3.out"
        return verdicts(summary.read_text() if summary.exists() else "", tested(asked))


def taken(log: dropped.Logged) -> dict[str, tuple[int, int]]:
    """(taken, of all) calls by function."""
    served, total = Counter(), Counter()
    for line in log.lines:
        total[line["routine"]] += line["count"]
        served[line["routine"]] += line["count"] * bool(line["taken"])
    return {name: (served[name], count) for name, count in total.items()}


def shown(name: str, vendor: Verdict, own: Verdict | None, calls: dict[str, tuple[int, int]]) -> str:
    def word(one: Verdict) -> str:
        return f"results {'pass' if one.results else 'FAIL'} ({one.calls:6}), error exits {'pass' if one.exits else 'FAIL'}"

    line = f"{name:<8} {word(vendor)}"
    if own is None:
        return line
    served = calls.get(function_of(name))
    return f"{line} | {word(own)}, {'taken {} of {}'.format(*served) if served else 'not defined by the preload library'}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lapack", type=Path, help="LAPACK's sources")
    parser.add_argument("--build-only", type=Path, metavar="OUT", help="compile into a folder, and run nothing")
    parser.add_argument("--run", type=Path, metavar="OUT", help="run what --build-only made")
    parser.add_argument("--library", type=Path, help="a folder of gemmgen library, to run under its preload library, too")
    parser.add_argument("--host-blas", metavar="FILE", help="a BLAS of the CPU in place of cuBLAS")
    parser.add_argument("--letters", default=LETTERS, help="of the programs, s, d, c and z")
    parser.add_argument("--extents", default=EXTENTS, help="values of M, N and K, at most nine and none above 65")
    options = parser.parse_args()
    if (options.lapack is None) == (options.run is None):
        parser.error("one of --lapack and --run")
    if not options.letters or set(options.letters) - set(LETTERS):
        parser.error(f"--letters: some of {LETTERS}, without anything between them")
    if options.host_blas and options.library:
        parser.error("--library needs a GPU, and --host-blas replaces it")
    with tempfile.TemporaryDirectory(prefix="blat3-") as folder:
        out = options.run or options.build_only or Path(folder)
        if options.run is None:
            build(options.lapack, out, options.letters, [*map(int, options.extents.split(","))])
        return 0 if options.build_only else judged(out, options, Path(folder))


def judged(out: Path, options: argparse.Namespace, folder: Path) -> int:
    """Runs the programs of a folder, prints the table, and gives the exit code."""
    environment = dict(os.environ)
    place = vendor_folder() if options.host_blas is None else folder / "vendor"
    if options.host_blas is not None:
        place.mkdir()
        for name in ("libcublas.so.13", "libcuda.so.1"):
            (place / name).symlink_to((out / "host.so").absolute())
        environment["BLAT3_BLAS"] = options.host_blas
    if place is not None:
        environment["LD_LIBRARY_PATH"] = ":".join(filter(None, (str(place), environment.get("LD_LIBRARY_PATH"))))
    built, failed = None if options.library is None else shim.build(options.library), []
    for letter in options.letters:
        vendor, own, calls = run(out, letter, environment), {}, {}
        if built is not None:
            log = folder / f"{letter}.jsonl"
            own = run(out, letter, dropped.environment(built, dropped.Settings(log=log, min_gain=0), environment))
            calls = taken(dropped.read_log(log))
        for name, one in vendor.items():
            print(shown(name, one, own.get(name), calls), flush=True)
            failed += [f"{name}, {whose}: {line}" for whose, of in (("cuBLAS", one), ("library", own.get(name))) if of is not None and not of.passes
                       for line in of.complaints or ("no pass",)]
    print(*failed[:40], f"{len(failed)} complaints", sep="\n")
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
