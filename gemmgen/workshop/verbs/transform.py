"""The verb `transform`: a level for each GEMM of a program that stays as it is."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gemmgen.cli.output import Progress, emit, emit_json, write_paths
from gemmgen.cli.show import LABEL, table
from gemmgen.cli.verb import PROGRAMS, Json, Quiet, verb
from gemmgen.errors import EXIT_OK, EXIT_USAGE

if TYPE_CHECKING:
    from gemmgen.workshop.tune.transformed import Transformed

@verb(
    PROGRAMS,
    "gemmgen transform --library lab --output result.npy --threshold 1e-5 -o solver.levels -- python solver.py",
    "gemmgen transform --library lab --output y.npy --reference exact.npy --threshold 1e-6 --period 12 -- ./program",
    passes_on=True,
)
def transform(
    command: Annotated[list[str], typer.Argument(metavar="-- PROGRAM...", help="The program and its arguments.")],
    library: Annotated[Path, typer.Option("--library", metavar="DIR", help="A folder that gemmgen library made.")],
    output: Annotated[Path, typer.Option("--output", metavar="FILE", help="The .npy file that the program writes.")],
    threshold: Annotated[float, typer.Option("--threshold", metavar="NUMBER", help="What the output's relative Frobenius error may be.")],
    reference: Annotated[Path | None, typer.Option("--reference", metavar="FILE", help=(
        "The output that errors are told of (.npy); default: the program's own with every call at the vendor's."))] = None,
    kernels: Annotated[str, typer.Option("--kernels", metavar="NAMES", help="Comma-separated kernels to choose from; default: all of the library.")] = "",
    period: Annotated[int, typer.Option("--period", min=0, metavar="CALLS", help="The program repeats itself after so many calls; 0: it does not.")] = 0,
    levels: Annotated[Path | None, typer.Option("--levels", "-o", metavar="FILE", help="Write the levels there, for gemmgen run --levels.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Choose a kernel for each GEMM of an unmodified program, for an error of its output.

    The program runs under the library's preload library: once with every call at the
    vendor's, once by each kernel, once for each call and kernel, and then for each
    combination that the tuner's search considers. Times are the library's predictions.

    Exit code 2 where nothing meets the threshold.
    """
    from gemmgen.cli.inputs import matrix
    from gemmgen.library import shim
    from gemmgen.workshop.tune import check_threshold
    from gemmgen.workshop.tune.transformed import transformed

    check_threshold(threshold)
    progress = Progress(command[0], quiet or as_json)
    exact = matrix("--reference", reference, quiet=quiet or as_json) if reference is not None else None
    found = transformed(shim.build(library), command, output, threshold, reference=exact, period=period, told=progress.step,
                        kernels=[name.strip() for name in kernels.split(",") if name.strip()])
    progress.clear()
    if levels is not None and found.text is not None:
        write_paths({levels: found.text})
    emit_json(value(found)) if as_json else emit(text(found))
    return EXIT_OK if found.text is not None else EXIT_USAGE


def value(found: Transformed) -> dict[str, Any]:
    """For a program."""
    question, choice = found.question, found.found.choice
    return {
        "levels": list(found.levels), "text": found.text, "error": found.error, "runs": found.runs, "threshold": question.threshold,
        "seconds": found.seconds(choice) if choice is not None else None, "vendor_seconds": found.seconds(), "floor": question.floor,
        "calls": [
            {"ordinal": call.ordinal, "routine": call.routine, "m": call.m, "n": call.n, "k": call.k, "layout": call.layout, "batch": call.batch,
             "site": call.site, "seconds": list(question.seconds[at]), "alone": list(question.alone[at]),
             "level": found.levels[choice[at]] if choice is not None else None}
            for at, call in enumerate(found.calls)
        ],
    }


def text(found: Transformed) -> str:
    """For a person."""
    question, choice = found.question, found.found.choice
    names = [level.removeprefix("kernel ") for level in found.levels]
    lines = [
        f"{'program':<{LABEL}}{len(found.calls)} GEMMs, run {found.runs} times", "",
        table(("call", "GEMM", "error of the output with it alone at", *names), [
            (str(call.ordinal), f"{call.m}x{call.n}x{call.k} {call.layout}", "", *(f"{error:.2g}" if isfinite(error) else "-" for error in question.alone[at]))
            for at, call in enumerate(found.calls)
        ]), "",
    ]
    if choice is None:
        best = question.error(found.found.walk.highest)
        return "\n".join([*lines, f"{'refused':<{LABEL}}no choice of levels meets {question.threshold:g}; the most accurate reaches {best:.3g}"])
    whole, mine = found.seconds(), found.seconds(choice)
    lines += [table(("call", "chosen"), [(str(call.ordinal), names[level]) for call, level in zip(found.calls, choice)]), "",
              f"{'error':<{LABEL}}{found.error:.3g} of at most {question.threshold:g}",
              f"{'predicted':<{LABEL}}{1e6 * mine:.4g} microseconds of GEMMs, {whole / mine:.3g} times as fast as the vendor's"]
    return "\n".join(lines)
