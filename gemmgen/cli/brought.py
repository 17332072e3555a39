"""The verb `bringup`: from a device to rows that describe it."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gemmgen.cli.output import Progress, emit, emit_json, is_folder, write_files
from gemmgen.errors import EXIT_FAILED, EXIT_OK, SpecError
from gemmgen.files import read

EXAMPLES = (
    "gemmgen bringup --device cuda -o my_gpu/",
    "gemmgen bringup --device emulator --gpu h200 --products 20000 -o my_gpu/",
    "gemmgen bringup --device cuda --only mma_m16n8k16_f16 -o my_gpu/",
)
ON_A_GPU, ON_AN_EMULATOR = 1_000_000, 20_000
"""Random products of proof an instruction."""
_MOST = 1 << 26


class BringupDevice(StrEnum):
    cuda = "cuda"
    hip = "hip"
    emulator = "emulator"


def bringup(
    device: Annotated[BringupDevice, typer.Option(help="The device; of the emulator, --gpu names the GPU.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where rows and reports go.")],
    gpu: Annotated[str | None, typer.Option("--gpu", metavar="NAME", help="The GPU that the emulator is; see gemmgen gpus.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Of the rows; the folder's by default.")] = None,
    only: Annotated[list[str] | None, typer.Option("--only", metavar="FRAGMENT", help=(
        "This instruction, and no others; several of these. A name of gemmgen fragments, or the mnemonic of an mma.sync that has no row."))] = None,
    products: Annotated[int | None, typer.Option("--products", min=1, help=(
        f"Random products of proof an instruction; {ON_A_GPU:,} by default, {ON_AN_EMULATOR:,} of the emulator."))] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all that is drawn.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; errors too.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")] = False,
) -> int:
    """Find out how a device multiplies matrices, and write rows that say so.

    Launches alone tell which lane holds which element of each matrix
    instruction, in which order it sums and how it rounds. A folder that has a
    report of the last time is compared with it. The exit code is 1 where
    something that was sought was not found.
    """
    from gemmgen.bringup import REPORT, bring_up
    from gemmgen.bringup.named import instruction
    from gemmgen.bringup.probe import EmulatedMachine, GpuMachine
    from gemmgen.catalog.gpu import GPUS

    if (device is BringupDevice.emulator) != (gpu is not None):
        raise SpecError("--gpu", "names what the emulator is, and nothing else", got=gpu,
                        needs="--device emulator --gpu NAME, or another --device without --gpu", remedy="gemmgen gpus")
    path = output / REPORT
    before = read(path, _MOST).decode() if path.is_file() else None
    if before is None and is_folder(output) and any(output.iterdir()):
        raise SpecError("--output", "is a folder with other things in it", got=str(output),
                        needs="a new folder, or one that a bring-up wrote", remedy="another -o")
    machine = EmulatedMachine(GPUS.get(gpu, where="--gpu")) if gpu else GpuMachine(device.value)
    chosen = [instruction(one, machine.arch) for one in only] if only else None
    progress = Progress("bringup", quiet or as_json)
    session, told, files = bring_up(
        machine, row_name(name or output.resolve().name), products=products or (ON_AN_EMULATOR if gpu else ON_A_GPU), chosen=chosen, seed=seed, before=before,
        progress=progress.step,
    )
    progress.clear()
    write_files(output, files, rows=True)
    failed = [value.name for value in session.values if value.standing == "not found"]
    emit_json(told) if as_json else emit(files["report.md"] + f"\nwrote {', '.join(sorted(files))} to {output}")
    return EXIT_FAILED if failed else EXIT_OK


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
