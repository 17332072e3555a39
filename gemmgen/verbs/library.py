"""`gemmgen library`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gemmgen.cli.output import Progress, emit, emit_json, note
from gemmgen.cli.verb import LIBRARY, SCHEMAS, Json, Silent, names, verb
from gemmgen.errors import EXIT_OK, SpecError


def _schema() -> dict[str, Any]:
    from gemmgen.library.file import json_schema

    return json_schema()


SCHEMAS["library"] = _schema


@verb(
    LIBRARY,
    "gemmgen library lab -o third_party/lab",
    "gemmgen library gemmgen_blas -o gemmgen_blas --wheel",
    "gemmgen library my.toml --dry-run",
)
def library(
    source: Annotated[Path, typer.Argument(metavar="LIB", help="A library's file (.toml), or the name of a shipped one.", autocompletion=names("libraries"))],
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="DIR", help="The folder to make.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Put the files into a folder that holds others.")] = False,
    wheel: Annotated[bool, typer.Option("--wheel", help="Build its Python wheel, too, into DIR/dist; needs a C compiler.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Choose kernels and print why; compile and write nothing.")] = False,
    as_json: Json = False,
    quiet: Silent = False,
) -> int:
    """Write a library of kernels behind one C interface.

    For each GPU and layout of the file some kernels are chosen, of all together
    as many as it allows. The folder holds their machine code and sources, a
    runtime in C that chooses among them by layout, sizes and GPU and opens the
    driver itself, a portable kernel for what no other serves, a manifest, CMake
    and pkg-config files and an example. A C compiler builds it. An earlier
    library in DIR is replaced; other files are never touched. No GPU is needed.
    A wheel is called after the compiler: lab-cu13 holds machine code of NVRTC 13.
    """
    from gemmgen import road
    from gemmgen.library import made, python
    from gemmgen.cli import libraries

    loaded = road.load_library(source)
    if (output is None) != dry_run:
        raise SpecError("--output", "is missing" if output is None else "stands beside --dry-run, which writes nothing",
                        needs="a folder, or --dry-run", remedy=f"-o {loaded.name}" if output is None else "leave one of them out")
    if wheel and dry_run:
        raise SpecError("--wheel", "stands beside --dry-run, which compiles nothing", needs="one of them", remedy="leave one of them out")
    progress = Progress(source.name, quiet or as_json)
    if dry_run:
        choice = made.choose(loaded, progress.step)
        progress.clear()
        for told in choice.notes:
            note(told, quiet or as_json)
        emit_json({"name": loaded.name, **libraries.choice_value(choice)}) if as_json else emit(libraries.choice_text(loaded, choice))
        return EXIT_OK
    found = road.library(loaded, output, force=force, progress=progress)
    if wheel:
        progress.step("compile the wheel's library")
        built = python.wheel(output)
    progress.clear()
    for told in found.choice.notes:
        note(told, quiet or as_json)
    if as_json:
        emit_json(libraries.value(found, output) | ({"wheel": str(built)} if wheel else {}))
    else:
        emit(libraries.text(found, output) + (f"\nwheel      {built}" if wheel else ""))
    return EXIT_OK
