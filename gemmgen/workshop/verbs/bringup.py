"""The verb `bringup`: from a device to rows that describe it."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gemmgen.cli.output import Progress, emit, emit_json, is_folder, write_files
from gemmgen.cli.verb import DEVICES, Json, Quiet, verb
from gemmgen.errors import EXIT_FAILED, EXIT_OK, SpecError
from gemmgen.files import read

ON_A_GPU, ON_AN_EMULATOR = 1_000_000, 20_000
"""Random products of proof an instruction."""
KERNELS, EMULATED_KERNELS = 100, 40
"""Kernels that calibrate the models; where nothing is timed as many as the register model needs."""
_MOST = 1 << 26


class BringupDevice(StrEnum):
    cuda = "cuda"
    hip = "hip"
    emulator = "emulator"


@verb(
    DEVICES,
    "gemmgen bringup --device cuda -o my_gpu/",
    "gemmgen bringup --device emulator --gpu h200 --products 20000 -o my_gpu/",
    "gemmgen bringup --device cuda --only mma_m16n8k16_f16 -o my_gpu/",
    "gemmgen bringup --from-row my.toml --arch sm_87 -o my_gpu/",
)
def bringup(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where rows and reports go.")],
    device: Annotated[BringupDevice | None, typer.Option(help="The device; of the emulator, --gpu names the GPU.")] = None,
    from_row: Annotated[Path | None, typer.Option("--from-row", metavar="FILE", help=(
        "Part of a GPU's row, as data sheets tell it, instead of a device: made whole, or what is missing is told."))] = None,
    arch: Annotated[str | None, typer.Option("--arch", metavar="ARCH", help="The compile target of --from-row, where FILE does not tell: sm_87.")] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", metavar="NAME", help="The GPU that the emulator is; see gemmgen gpus.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Of the rows; the folder's by default.")] = None,
    only: Annotated[list[str] | None, typer.Option("--only", metavar="FRAGMENT", help=(
        "This instruction, and no others; several of these. A name of gemmgen fragments, or the mnemonic of an mma.sync that has no row."))] = None,
    products: Annotated[int | None, typer.Option("--products", min=1, help=(
        f"Random products of proof an instruction; {ON_A_GPU:,} by default, {ON_AN_EMULATOR:,} of the emulator."))] = None,
    kernels: Annotated[int | None, typer.Option("--kernels", min=0, help=(
        f"How many kernels calibrate the models; {KERNELS} by default, {EMULATED_KERNELS} of the emulator. 0 leaves out the calibration and the"
        " reference set, as does --only by itself. With --from-row the register model alone, by compiled kernels; none by default."
    ))] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all that is drawn.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Find out how a device multiplies matrices, what it holds and how fast it is, and write rows that say so.

    Launches alone tell which lane holds which element of each matrix
    instruction, in which order it sums and how it rounds, where the GPU's limits
    are and what kernels reach. A folder that has a report of the last time is
    compared with it. The exit code is 1 where
    something that was sought was not found.

    With --from-row no device is asked: what the architecture determines is
    filled in, sums are checked, and what is missing is asked for by name.
    """
    from gemmgen.workshop.bringup import REPORT, bring_up
    from gemmgen.workshop.bringup.gpu_row import GPU_ROW
    from gemmgen.workshop.bringup.named import instruction
    from gemmgen.workshop.bringup.profiled import machine_for
    from gemmgen.workshop.bringup.rates import NO_CLOCK

    if (device is None) == (from_row is None):
        raise SpecError("gemmgen bringup", "needs either a device or a row", got=device and f"--device {device.value} --from-row {from_row}",
                        needs="one of --device and --from-row", remedy="gemmgen bringup --help")
    if from_row:
        others = {"--gpu": gpu, "--only": only, "--products": products, "--seed": seed or None}
        return _from_row(from_row, arch, name, output, as_json, [option for option, told in others.items() if told is not None], kernels or 0)
    if arch is not None:
        raise SpecError("--arch", "belongs to --from-row: a device tells its own", got=arch, needs="no --arch", remedy="gemmgen bringup --help")
    before = _before(output / REPORT)
    machine = machine_for(device.value, gpu)
    chosen = [instruction(one, machine.arch) for one in only] if only else None
    progress = Progress("bringup", quiet or as_json)
    session, told, files = bring_up(
        machine, row_name(name or output.resolve().name), products=products or (ON_AN_EMULATOR if gpu else ON_A_GPU), chosen=chosen, seed=seed, before=before,
        kernels=kernels if kernels is not None else 0 if only else EMULATED_KERNELS if gpu else KERNELS,
        progress=progress.step,
    )
    progress.clear()
    write_files(output, files, rows=True)
    # A few instructions alone need not make a whole row of a GPU.
    sought = [value for value in session.values if not (only and value.name == GPU_ROW)]
    failed = [value.name for value in sought if value.standing == "not found" and value.how != NO_CLOCK]
    emit_json(told) if as_json else emit(files["report.md"] + f"\nwrote {', '.join(sorted(files))} to {output}")
    return EXIT_FAILED if failed else EXIT_OK


def _before(path: Path, from_row: bool = False) -> str | None:
    """The report of the last time in a folder; None in a new one.

    Args:
        from_row: whether a row shall be written there, and not what a device was found to be.

    Raises:
        SpecError: something else is there.
    """
    import json

    from gemmgen.workshop.bringup.from_row import KIND

    before, folder = (read(path, _MOST).decode() if path.is_file() else None), path.parent
    if before is None and is_folder(folder) and any(folder.iterdir()):
        raise SpecError("--output", "is a folder with other things in it", got=str(folder),
                        needs="a new folder, or one that a bring-up wrote", remedy="another -o")
    if before is not None and (json.loads(before).get("kind") == KIND) != from_row:
        raise SpecError("--output", "is a folder of the other kind of bring-up", got=str(folder),
                        needs="one that was written with" + ("" if from_row else "out") + " --from-row", remedy="another -o")
    return before


def _from_row(file: Path, arch: str | None, name: str | None, output: Path, as_json: bool, others: list[str], kernels: int) -> int:
    """The row of `file` made whole; with the register model's constants of its target, where kernels are to be compiled for them."""
    import json

    from gemmgen.workshop.bringup import REPORT
    from gemmgen.workshop.bringup.from_row import fill_in

    if others:
        raise SpecError(others[0], "belongs to a device", got="--from-row", needs=f"no {others[0]}", remedy="gemmgen bringup --help")
    filled = fill_in(file, arch, row_name(name or output.resolve().name), output, _before(output / REPORT, from_row=True))
    write_files(output, filled.files, rows=True)
    filled.refuse(output)
    if kernels:
        from gemmgen.workshop.bringup.calibrate import registers_of

        row = filled.row
        assert row is not None  # else it was refused
        section = registers_of((output / row).resolve(), kernels)
        write_files(output, {row: filled.files[row].rstrip() + f"\n\n{section}\n"}, rows=True)
    emit_json(json.loads(filled.files[REPORT])) if as_json else emit(filled.files["report.md"] + f"\nwrote {', '.join(sorted(filled.files))} to {output}")
    return EXIT_OK


def row_name(text: str) -> str:
    """A name as rows have them.

    Raises:
        SpecError: it cannot be one.
    """
    from gemmgen.catalog.table import IDENTIFIER

    if not re.fullmatch(IDENTIFIER, text):
        raise SpecError("--name", "cannot name a row", got=text, needs="small letters, digits and underscores, at most 40, a letter first",
                        remedy="--name my_gpu")
    return text
