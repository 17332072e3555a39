"""`gemmgen tune`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gemmgen.cli.output import Progress, emit, emit_json, json_text, write_paths
from gemmgen.cli.verb import PROGRAMS, Json, Silent, verb
from gemmgen.errors import EXIT_OK, EXIT_USAGE

if TYPE_CHECKING:
    from gemmgen.workshop.programs.listed import Read
    from gemmgen.workshop.programs.program import Program


class TuneDevice(StrEnum):
    auto = "auto"
    cuda = "cuda"
    model = "model"
    emulator = "emulator"


@verb(
    PROGRAMS,
    "gemmgen tune mlp --threshold 1e-5 --gpu h100",
    "gemmgen tune specs/programs/cholesky.toml --threshold 1e-3,1e-5,1e-6 --size n=6144 --device cuda",
    "gemmgen tune bert --threshold 1e-5 --size tokens=256 --gpu h100",
    "gemmgen tune my.toml --threshold 1e-6 --gpu a100 --levels half,bf16x3,ootomo --json -o levels.json",
)
def tune(
    program: Annotated[str, typer.Argument(metavar="PROGRAM", help=(
        "A program (.toml), or the name of one of specs/programs or of an application whose result is one matrix: bert, llm, inception."))],
    threshold: Annotated[str, typer.Option(metavar="NUMBERS", help=(
        "What the output's relative Frobenius error against FP64 may be; several, comma-separated, share one profile."))],
    device: Annotated[TuneDevice, typer.Option(help=(
        "cuda: build, run and time on the GPU; model: predicted times, errors simulated in NumPy; emulator: the same with the model of the "
        "matrix unit, for small programs; auto: cuda if a GPU runs the kernels, else model."))] = TuneDevice.auto,
    levels: Annotated[str, typer.Option(metavar="NAMES", help="Comma-separated schemes to choose from; default: the usual ones that the GPU serves.")] = "",
    size: Annotated[list[str] | None, typer.Option(metavar="NAME=NUMBER", help="Instead of one of the program's [sizes].")] = None,
    exhaustive: Annotated[bool, typer.Option(help="Also search programs of up to four GEMMs whole, to compare.")] = True,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Also write the JSON there.")] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", metavar="NAME", help="Tune for this GPU; default: the program's, or the one that is here.")] = None,
    as_json: Json = False,
    quiet: Silent = False,
) -> int:
    """Choose the precision of each GEMM of a program for an error of its output.

    Each GEMM is timed at each level (a split scheme), and the program is run with
    it at that level alone. Then MixPert's greedy rule lowers the GEMM with the
    largest share of the time while the output's error allows it, and raises its
    predecessor where that pays; combinations that the profile finds better are run
    too. Every choice that is told was run.

    Exit code 2 where no level meets a threshold.
    """
    from gemmgen.workshop.tune import told as telling
    from gemmgen.cli.inputs import matrix
    from gemmgen.workshop import tune as tuner

    wanted, chosen_sizes = telling.thresholds(threshold), telling.sizes(size or [])
    progress = Progress(Path(program).stem, quiet or as_json)
    loaded = _loaded(program, chosen_sizes, lambda where, path: matrix(where, path, quiet=quiet))
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


def _loaded(program: str, sizes: dict[str, int], read: Read) -> Program:
    """A program by its file or name; of an application, in small, the one that its products make.

    Raises:
        SpecError, UnknownName: there is none, or a size or shape is not acceptable.
    """
    from gemmgen.workshop import apps
    from gemmgen.workshop.programs.listed import PROGRAMS, load_program

    if program not in apps.NAMES or (PROGRAMS / f"{program}.toml").exists():
        return load_program(program, sizes=sizes, read=read)
    app = apps.find(program)
    return app.make(app.sized(sizes, small=True), app.sourced("drawn", small=True), 0).program(app.name, app.title)
