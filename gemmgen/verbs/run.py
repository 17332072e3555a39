"""The verb `run`: a program, unchanged, whose FP32 GEMMs a library of kernels takes."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gemmgen.cli.output import emit_json, note, tell
from gemmgen.cli.show import facts
from gemmgen.cli.verb import LIBRARY, verb
from gemmgen.errors import SpecError

if TYPE_CHECKING:
    from gemmgen.library.dropped import Logged

@verb(
    LIBRARY,
    "gemmgen run --library lab -- python train.py",
    "gemmgen run --library lab --log calls.jsonl --check -- ./solver input.txt",
    "gemmgen run --library lab --record program.jsonl -- python train.py",
    "gemmgen run --library lab --levels program.levels -- python train.py",
    passes_on=True,
)
def run(
    command: Annotated[list[str], typer.Argument(metavar="-- PROGRAM...", help="The program and its arguments.")],
    library: Annotated[Path, typer.Option("--library", metavar="DIR", help=(
        "A folder that gemmgen library made of a library with a preload library, as the shipped general, lab, lab_amd, level3 and wide are; "
        "it is built where it is not yet."))],
    log: Annotated[Path | None, typer.Option("--log", metavar="FILE", help="Also keep the log there: JSON lines, a line for each kind of call.")] = None,
    record: Annotated[Path | None, typer.Option("--record", metavar="FILE", help="Write each call there, in order.")] = None,
    levels: Annotated[Path | None, typer.Option("--levels", metavar="FILE", help="A kernel or an error for each place of the program.")] = None,
    largest_error: Annotated[float | None, typer.Option("--largest-error", min=0, metavar="NUMBER", help=(
        "Only kernels whose expected error is at most that, where no level is given; 0: any; default: 4e-6, as FP32's own."))] = None,
    min_gain: Annotated[float, typer.Option("--min-gain", min=0, metavar="NUMBER", help=(
        "Take a call that is predicted to be so many times as fast as the vendor's; 0: whatever a kernel serves."))] = 1,
    check: Annotated[bool, typer.Option("--check", help="Read what kernels counted, after each call; this waits for the GPU.")] = False,
    frames: Annotated[int, typer.Option("--frames", min=1, max=8, help="Tell a place by so many frames of the call stack.")] = 1,
    audit: Annotated[bool, typer.Option("--audit/--no-audit", help="Also serve programs that look functions up in the vendor's library themselves.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and the program's output on stderr; errors too.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not report what was taken.")] = False,
) -> int:
    """Run a program whose FP32 GEMMs a library of kernels takes.

    The library's preload library stands before the vendor's BLAS: calls with FP32
    operands, result and arithmetic are taken where a kernel is predicted to be
    faster, and all others are passed on. What was taken and passed on, and why, is
    reported on stderr at the end. The exit code is the program's.
    """
    from gemmgen.library import dropped, shim

    shim.recipe_of(library)  # before minutes of building
    dropped.check_program(command)
    again = shlex.join(["gemmgen", "run", "--library", str(library)]), shlex.join(["--", *command])
    if levels is not None and not (levels.is_file() and os.access(levels, os.R_OK)):
        raise SpecError("--levels", "is no file that can be read", got=str(levels), needs="a file of levels",
                        remedy=f"{again[0]} --record program.jsonl {again[1]}, which names the places that a level may be given for")
    for option, path in (("--log", log), ("--record", record)):
        if path is not None and (problem := _not_written(path)):
            raise SpecError(f"{option} {path}", problem, needs="a file's name in a folder that may be written",
                            remedy=f"{again[0]} {option} {'calls' if path is log else 'program'}.jsonl {again[1]}")
    built = shim.build(library)
    if record is not None:
        record.unlink(missing_ok=True)
    settings = dropped.Settings(
        log=log and log.absolute(), record=record and record.absolute(), levels=levels and levels.absolute(), largest_error=largest_error,
        min_gain=min_gain, check=check, frames=frames, audit=audit)
    logged = dropped.run(built, command, settings, stdout=sys.stderr.fileno() if as_json else None)
    if as_json:
        emit_json(logged.as_dict())
    elif not quiet:
        tell(text(logged))
    if logged.untold:
        note(f"{logged.untold} calls of too many kinds are not listed one by one", quiet=quiet or as_json)
    return logged.code


def _not_written(path: Path) -> str | None:
    """Why the preload library could not write a file; it would say nothing."""
    if path.exists():
        return "is a folder" if path.is_dir() else "is no regular file" if not path.is_file() else None if os.access(path, os.W_OK) else "may not be written"
    if not path.parent.is_dir():
        return "is in no folder"
    return None if os.access(path.parent, os.W_OK | os.X_OK) else "is in a folder that may not be written"


def text(logged: Logged) -> str:
    """What a run's log says, for a person."""
    total = logged.taken + logged.passed
    if not total:
        return "taken      no call reached the preload library: the program calls no GEMM of the vendor's BLAS, or has it linked in"
    shown: dict[str, object] = {"taken": f"{logged.taken} of {total} calls"}
    shown |= {f"  {name}": count for name, count in logged.kernels.items()}
    if logged.passed:
        shown |= {"passed on": logged.passed, **{f"  {reason}": count for reason, count in logged.reasons.items()}}
    if logged.counters:
        shown["checked"] = ", ".join(f"{name} {count}" for name, count in logged.counters.items() if count or name == "checked").removeprefix("checked ") + (
            "" if any(count for name, count in logged.counters.items() if name != "checked") else ", nothing counted")
    return facts(shown)
