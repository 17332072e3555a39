"""`gemmgen tune`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gemmgen.cli.output import Progress, emit, emit_json, json_text, write_paths
from gemmgen.cli.show import LABEL, table
from gemmgen.cli.verb import LIBRARY, Json, Silent, verb
from gemmgen.errors import EXIT_OK, EXIT_USAGE, SpecError

if TYPE_CHECKING:
    from gemmgen.workshop.programs.recorded import Recorded
    from gemmgen.workshop.tune.transformed import Transformed


class TuneDevice(StrEnum):
    auto = "auto"
    cuda = "cuda"
    model = "model"
    emulator = "emulator"


@verb(
    LIBRARY,
    "gemmgen tune cholesky --threshold 1e-3,1e-5,1e-6 --size n=6144 --device cuda",
    "gemmgen tune bert --threshold 1e-5 --size tokens=256 --gpu h100",
    "gemmgen tune examples/perceptron.py --threshold 1e-6 --gpu a100 --levels half,bf16x3,ootomo --json -o levels.json",
    "gemmgen tune --library lab --result result.npy --threshold 1e-5 -o solver.levels -- python solver.py",
    "gemmgen tune --library lab --result y.npy --reference exact.npy --threshold 1e-6 --period 12 -- ./program",
    was={"transform": {"--output": "--result", "--levels": "--output", "--kernels": "--levels"}},
)
def tune(
    program: Annotated[list[str], typer.Argument(metavar="PROGRAM", help=(
        "A program (.py, whose code is run), or the name of an application whose result is one matrix: mlp, cholesky, bert, llm, inception. "
        "With --library a command: -- PROGRAM..."))],
    threshold: Annotated[str, typer.Option(metavar="NUMBERS", help=(
        "What the output's relative Frobenius error against FP64 may be; several, comma-separated, share one profile."))],
    device: Annotated[TuneDevice, typer.Option(help=(
        "cuda: build, run and time on the GPU; model: predicted times, errors simulated in NumPy; emulator: the same with the model of the "
        "matrix unit, for small programs; auto: cuda if a GPU runs the kernels, else model."))] = TuneDevice.auto,
    levels: Annotated[str, typer.Option(metavar="NAMES", help=(
        "Comma-separated schemes to choose from; default: the usual ones that the GPU serves. With --library its kernels; default: all."))] = "",
    size: Annotated[list[str] | None, typer.Option(metavar="NAME=NUMBER", help="Instead of one of the program's sizes.")] = None,
    exhaustive: Annotated[bool, typer.Option(help="Also search programs of up to four GEMMs whole, to compare.")] = True,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help=(
        "Also write the JSON there; with --library the levels, for gemmgen run --levels."))] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", metavar="NAME", help="Tune for this GPU; default: the one that is here.")] = None,
    library: Annotated[Path | None, typer.Option("--library", metavar="DIR", help=(
        "Tune an unmodified program, which runs over the kernels of this folder of gemmgen library."))] = None,
    result: Annotated[Path | None, typer.Option("--result", metavar="FILE", help="With --library: the .npy file that the program writes.")] = None,
    reference: Annotated[Path | None, typer.Option("--reference", metavar="FILE", help=(
        "With --library: the result that errors are measured against (.npy); default: the program's own with every call at the vendor's."))] = None,
    period: Annotated[int, typer.Option("--period", min=0, metavar="CALLS", help=(
        "With --library: the program repeats itself after so many calls; 0: it does not."))] = 0,
    as_json: Json = False,
    quiet: Silent = False,
) -> int:
    """Choose a precision for each GEMM of a program by its error.

    Each GEMM is timed at each level (a split scheme), and the program is run with
    it at that level alone. Then MixPert's greedy rule lowers the GEMM with the
    largest share of the time while the output's error allows it, and raises its
    predecessor where that pays; combinations that the profile finds better are run
    too. Every choice that is reported was run.

    With --library the program is a command that stays as it is. It runs under the
    library's preload library: once with every call at the vendor's, once by each
    kernel, once for each call and kernel, and then for each combination that the
    search considers. Times are the library's predictions.

    Exit code 2 where no level meets a threshold.
    """
    from gemmgen.workshop.tune import told as telling
    from gemmgen.workshop import tune as tuner

    of_one = {"--size": size, "--gpu": gpu, "--device": device is not TuneDevice.auto}
    of_library = {"--result": result, "--reference": reference, "--period": period}
    for option, given in (of_one if library else of_library).items():
        if given:
            raise SpecError(option, f"belongs to a program {'out of a file' if library else 'that runs over a library'}", got=option,
                            needs=f"{'no ' if library else ''}--library", remedy="gemmgen tune --help")
    if library:
        if result is None:
            raise SpecError("--result", "is missing", needs="the .npy file that the program writes", remedy="--result result.npy")
        return _transform(library, program, result, telling.thresholds(threshold), reference, levels, period, output, as_json, quiet)
    if len(program) > 1:
        raise SpecError("gemmgen tune", "tunes one program", got=" ".join(program), needs="one PROGRAM, or --library and a command",
                        remedy=f"gemmgen tune {program[0]}")
    [program] = program
    wanted, chosen_sizes = telling.thresholds(threshold), telling.sizes(size or [])
    progress = Progress(Path(program).stem, quiet or as_json)
    loaded = _loaded(program, chosen_sizes)
    names = [name.strip() for name in levels.split(",")] if levels.strip() else []
    profile = tuner.profile(loaded, gpu=gpu, device=device, levels=names, progress=progress.step)

    def tell(text: str) -> None:
        """As soon as it is known."""
        progress.clear()
        if not as_json and text:
            emit(text + "\n")

    tell(telling.profile_text(profile))
    found = []
    for one in wanted:
        found.append(profile.tuned(one, exhaustive=exhaustive, progress=progress.step))
        tell(telling.tuned_text(found[-1]))
    found = profile.raced(found)
    tell(telling.race_text(found))
    values = [one.as_dict() for one in found]
    value = values[0] if len(values) == 1 else values
    if output:
        [written] = write_paths({output: json_text(value) + "\n"})
        tell(f"wrote {written}")
    if as_json:
        emit_json(value)
    return EXIT_USAGE if any(one.choice is None for one in found) else EXIT_OK


def _transform(library: Path, command: Sequence[str], result: Path, thresholds: Sequence[float], reference: Path | None, kernels: str, period: int,
               levels: Path | None, as_json: bool, quiet: bool) -> int:
    """`tune --library`: the exit code."""
    from gemmgen.cli.inputs import matrix
    from gemmgen.library import shim
    from gemmgen.workshop.tune.transformed import transformed

    if len(thresholds) > 1:
        raise SpecError("--threshold", "is one number with --library", got=", ".join(map(str, thresholds)), needs="one number", remedy="a call for each")
    [threshold] = thresholds
    progress = Progress(command[0], quiet or as_json)
    exact = matrix("--reference", reference, quiet=quiet or as_json) if reference is not None else None
    found = transformed(shim.build(library), command, result, threshold, reference=exact, period=period, told=progress.step,
                        kernels=[name.strip() for name in kernels.split(",") if name.strip()])
    progress.clear()
    if levels is not None and found.text is not None:
        write_paths({levels: found.text})
    emit_json(value(found)) if as_json else emit(text(found))
    return EXIT_OK if found.text is not None else EXIT_USAGE


def _loaded(program: str, sizes: dict[str, int]) -> Recorded:
    """A program by its file; of an application, in small, the one that its products make.

    Raises:
        SpecError, UnknownName: there is none, or a size or shape is not acceptable.
    """
    from gemmgen.workshop import apps
    from gemmgen.workshop.programs.recorded import load_program

    if program not in apps.NAMES:
        return load_program(program, sizes=sizes)
    app = apps.find(program)
    return app.make(app.sized(sizes, small=True), app.sourced("drawn", small=True), 0).program(app.name, app.title)


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
