"""`gemmgen gpu probe` and `gemmgen gpu from-row`: files that describe a GPU, from the GPU and from its data sheet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gemmgen.cli.output import Progress, emit, emit_json, is_folder, write_files
from gemmgen.cli.verb import DEVICE, Json, Quiet, group, verb
from gemmgen.errors import EXIT_FAILED, EXIT_OK, SpecError
from gemmgen.files import read

ON_A_GPU, ON_AN_EMULATOR = 1_000_000, 20_000
"""Random products of proof an instruction."""
KERNELS, EMULATED_KERNELS = 100, 40
"""Kernels that calibrate the models; where nothing is timed as many as the register model needs."""
_MOST = 1 << 26


Output = Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where rows and reports go.")]
Name = Annotated[str | None, typer.Option("--name", help="Of the rows; the folder's by default.")]


class BringupDevice(StrEnum):
    cuda = "cuda"
    hip = "hip"
    emulator = "emulator"


group("gpu", DEVICE, "Measure or describe a GPU: files that specs can name as its row.")


@verb(
    DEVICE,
    "gemmgen gpu probe --device cuda -o my_gpu/",
    "gemmgen gpu probe --device emulator --gpu h200 --products 20000 -o my_gpu/",
    "gemmgen gpu probe --device cuda --only mma_m16n8k16_f16 -o my_gpu/",
    name="gpu probe", was={"bringup": {}},
)
def probe(
    output: Output,
    device: Annotated[BringupDevice, typer.Option(help="The device; of the emulator, --gpu names the GPU.")],
    gpu: Annotated[str | None, typer.Option("--gpu", metavar="NAME", help="The GPU that the emulator is; see gemmgen list gpus.")] = None,
    name: Name = None,
    only: Annotated[list[str] | None, typer.Option("--only", metavar="FRAGMENT", help=(
        "This instruction, and no others; several of these. A name of gemmgen list fragments, or the mnemonic of an mma.sync that has no row."))] = None,
    products: Annotated[int | None, typer.Option("--products", min=1, help=(
        f"Random products of proof an instruction; {ON_A_GPU:,} by default, {ON_AN_EMULATOR:,} of the emulator."))] = None,
    kernels: Annotated[int | None, typer.Option("--kernels", min=0, help=(
        f"How many kernels calibrate the models; {KERNELS} by default, {EMULATED_KERNELS} of the emulator. 0 leaves out the calibration and the"
        " reference set, as does --only by itself."
    ))] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all that is drawn.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Measure how a GPU multiplies, its limits and its speed.

    Launches alone show which lane holds which element of each matrix
    instruction, in which order it sums and how it rounds, where the GPU's limits
    are and what kernels reach. A folder that has a report of the last time is
    compared with it. The exit code is 1 where
    something that was sought was not found.
    """
    from gemmgen.workshop.bringup import REPORT, bring_up, findings
    from gemmgen.workshop.bringup.gpu_row import GPU_ROW
    from gemmgen.workshop.bringup.named import instruction
    from gemmgen.workshop.bringup.profiled import machine_for

    before = _before(output / REPORT)
    machine = machine_for(device.value, gpu)
    chosen = [instruction(one, machine.arch) for one in only] if only else None
    progress = Progress("bringup", quiet or as_json)
    _, told, files = bring_up(
        machine, row_name(name or output.resolve().name), products=products or (ON_AN_EMULATOR if gpu else ON_A_GPU), chosen=chosen, seed=seed, before=before,
        kernels=kernels if kernels is not None else 0 if only else EMULATED_KERNELS if gpu else KERNELS,
        progress=progress.step,
    )
    progress.clear()
    write_files(output, files, rows=True)
    without = [GPU_ROW] if only else []  # a few instructions alone need not make a whole row of a GPU
    emit_json(told) if as_json else emit(f"{findings.summary(told, without=without)}\n{_wrote(files, output)}")
    return EXIT_FAILED if findings.missed(told, without=without) else EXIT_OK


def _wrote(files: Mapping[str, str], folder: Path) -> str:
    """Where the whole report is, and how many files lie beside it."""
    return f"wrote {folder / 'report.md'}, the whole report, and {len(files) - 1} more files"


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
                        needs=f"one of {'gemmgen gpu from-row' if from_row else 'gemmgen gpu probe'}", remedy="another -o")
    return before


@verb(DEVICE, "gemmgen gpu from-row my.toml --arch sm_87 -o my_gpu/", name="gpu from-row", was={"bringup --from-row": {"--from-row": "", "--quiet": ""}})
def from_row(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Part of a GPU's row (.toml), with what its data sheet says.")],
    output: Output,
    arch: Annotated[str | None, typer.Option("--arch", metavar="ARCH", help="The compile target, where FILE does not say: sm_87.")] = None,
    name: Name = None,
    kernels: Annotated[int, typer.Option("--kernels", min=0, help="Compile so many kernels to calibrate the register model.")] = 0,
    as_json: Json = False,
) -> int:
    """Make a GPU's file from its data sheet.

    No device is needed: what the architecture determines is filled in, sums are
    checked, and what is missing is asked for by name.
    """
    import json

    from gemmgen.workshop.bringup import REPORT
    from gemmgen.workshop.bringup.from_row import fill_in, summary

    filled = fill_in(file, arch, row_name(name or output.resolve().name), output, _before(output / REPORT, from_row=True))
    write_files(output, filled.files, rows=True)
    filled.refuse(output)
    if kernels:
        from gemmgen.workshop.bringup.calibrate import registers_of

        row = filled.row
        assert row is not None  # else it was refused
        section = registers_of((output / row).resolve(), kernels)
        write_files(output, {row: filled.files[row].rstrip() + f"\n\n{section}\n"}, rows=True)
    told = json.loads(filled.files[REPORT])
    emit_json(told) if as_json else emit(f"{summary(told)}\n{_wrote(filled.files, output)}")
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
