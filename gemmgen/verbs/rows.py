"""`gemmgen list gpus`, `schemes`, `fragments` and `schema`: what there is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gemmgen.cli.output import emit, emit_json, write_paths
from gemmgen.cli.verb import SCHEMAS, WORLD, Json, Row, group, verb
from gemmgen.errors import SpecError

if TYPE_CHECKING:
    from gemmgen.catalog.gpu import Gpu

group("list", WORLD, "List GPUs, schemes, matrix instructions, specs and file schemas.")


@verb(
    WORLD, "gemmgen list gpus", "gemmgen list gpus h100", "gemmgen list gpus my_gpu.toml --json", "gemmgen list gpus --worth --plot worth.svg",
    name="list gpus", was={"gpus": {}},
)
def gpus(
    name: Row = None,
    worth: Annotated[bool, typer.Option("--worth", help=(
        "Instead: how many times as fast as plain FP32 the fastest kernels with FP32's error are predicted to be, by GPU and size; some minutes."))] = False,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw that map into this picture.")] = None,
    as_json: Json = False,
) -> None:
    """List the GPUs that specs can name, or show one."""
    from gemmgen.catalog.gpu import GPUS
    from gemmgen.cli import show

    if plot and not worth:
        raise SpecError("--plot", "draws the map of worth alone", got=str(plot), needs="--worth beside it", remedy=f"--worth --plot {plot}")
    if worth:
        return _worth([GPUS.get(name, where="gemmgen list gpus")] if name else GPUS.rows(), plot, as_json)
    if name:
        row = GPUS.get(name, where="gemmgen list gpus")
        emit_json(row.model_dump(mode="json") | show.gpu_facts(row)) if as_json else emit(show.gpu_text(row))
        return
    rows = GPUS.rows()
    emit_json([row.model_dump(mode="json") for row in rows]) if as_json else emit(show.gpus_text(rows))


def _worth(gpus: list[Gpu], plot: Path | None, as_json: bool) -> None:
    """`--worth`."""
    from gemmgen.cli.output import Progress
    from gemmgen.cli.show import LABEL, worth_text
    from gemmgen.picture import IMAGES, worth_image
    from gemmgen.verdict import worth

    if plot and plot.suffix not in IMAGES:
        raise SpecError("--plot", "is no picture that can be drawn", got=str(plot), needs=f"a name that ends in {', '.join(IMAGES)}", remedy="--plot worth.svg")
    progress = Progress("worth", as_json)
    found = worth(gpus, progress=progress.step)
    progress.clear()
    written = write_paths({plot: worth_image(found, plot.suffix)}) if plot else []
    if as_json:
        emit_json([{"scheme": one.scheme, **one.as_dict()} for one in found])
    else:
        emit("\n".join([worth_text(found, gpus), *(f"{'wrote':<{LABEL}}{file}" for file in written)]))


@verb(WORLD, "gemmgen list schemes", "gemmgen list schemes ootomo", "gemmgen list schemes my_scheme.toml --json", name="list schemes", was={"schemes": {}})
def schemes(name: Row = None, as_json: Json = False) -> None:
    """List the split schemes that specs can name, or show one."""
    from gemmgen.catalog.scheme import SCHEMES
    from gemmgen.cli import show

    if name:
        row = SCHEMES.get(name, where="gemmgen list schemes")
        emit_json(show.scheme_facts(row)) if as_json else emit(show.scheme_text(row))
        return
    rows = SCHEMES.rows()
    if as_json:
        return emit_json([show.scheme_facts(row) for row in rows])
    emit(show.schemes_text(rows))


@verb(
    WORLD,
    "gemmgen list fragments",
    "gemmgen list fragments mma_m16n8k16_f16",
    "gemmgen list fragments wgmma_m64n128k16_f16",
    "gemmgen list fragments mma_m16n8k16_f16 --header -o mma_m16n8k16_f16.cuh",
    "gemmgen list fragments mfma_m32n32k8_f16 --header -o mfma_m32n32k8_f16.hip.hpp",
    "gemmgen list fragments mma_m16n8k16_f16 --use householder -o householder.cu",
    "gemmgen list fragments wgmma_m64n8k32_e4m3 --probe h200",
    name="list fragments", was={"fragments": {}},
)
def fragments(
    name: Row = None,
    header: Annotated[bool, typer.Option("--header", help="Print NAME as a header for one's own kernels: CUDA, or HIP where it is AMD's.")] = False,
    use: Annotated[str | None, typer.Option(
        "--use", metavar="USE", help="Print a kernel on NAME's header behind it: reduction, scan, outer, householder, givens or batched.",
    )] = None,
    space: Annotated[str, typer.Option("--space", help="Of a use: wmma, with operands of single words, or tcec, of FP32 that is split.")] = "",
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where the header, or the use, goes.")] = None,
    probe: Annotated[str | None, typer.Option(
        "--probe", metavar="GPU", help="Run NAME on the GPU here, a GPU of gemmgen list gpus, and report whether it returns what that one's model says.",
    )] = None,
    as_json: Json = False,
) -> None:
    """List the matrix instructions, or show one's lane map.

    An instruction that comes in many widths is listed once; a NAME with another
    n stands for that width.
    """
    from gemmgen.catalog.fragment import FRAGMENTS, find
    from gemmgen.cli import show

    if header and (not name or as_json):
        raise SpecError("--header", "prints one instruction", got="--json" if name else "no NAME",
                        needs="a NAME, without --json", remedy="gemmgen list fragments")
    if use and (not name or header or as_json):
        raise SpecError("--use", "prints a use of one instruction", got="--json" if as_json else "--header" if header else "no NAME",
                        needs="a NAME, without --header and --json", remedy="gemmgen list fragments")
    if space and not use:
        raise SpecError("--space", "belongs to a use", got=space, needs="--use", remedy="gemmgen list fragments --help")
    if output and not header and not use:
        raise SpecError("--output", "belongs to a header", got=str(output), needs="--header or --use", remedy="gemmgen list fragments --help")
    if use and name:
        from gemmgen.fragment_uses import use as text_of

        text = text_of(use, find(name, "gemmgen list fragments"), space or ("tcec" if use == "batched" else "wmma"))
        if output:
            [written] = write_paths({output: text})
            return emit(f"wrote {written}")
        return emit(text, end="", as_is=True)
    if probe and (not name or header):
        raise SpecError("--probe", "asks one instruction", got="--header" if name else "no NAME", needs="a NAME, without --header",
                        remedy="gemmgen list fragments")
    if probe and name:
        from gemmgen.catalog.gpu import GPUS
        from gemmgen.verify.unit_probe import probe_here

        tiles = probe_here(find(name, "gemmgen list fragments"), GPUS.get(probe, where="--probe"))
        return emit_json(tiles.as_dict()) if as_json else emit(tiles.summary)
    if header and name:
        from gemmgen.fragment_header import fragment_header

        text = fragment_header(find(name, "gemmgen list fragments"))
        if output:
            [written] = write_paths({output: text})
            return emit(f"wrote {written}")
        return emit(text, end="", as_is=True)
    if name:
        row = find(name, "gemmgen list fragments")
        emit_json(row.model_dump(mode="json")) if as_json else emit(show.fragment_text(row))
        return
    rows = FRAGMENTS.rows()
    if as_json:
        return emit_json([row.model_dump(mode="json") for row in rows])
    emit(show.table(
        ("name", "n", "words", "threads", "operands", "needs", "instruction"),
        [(f.name, show.widths(f), f.word, f.threads, show.operand_places(f), show.needs(f), f.instruction) for f in rows],
    ))


@verb(WORLD, "gemmgen list specs", "gemmgen list specs --json", name="list specs")
def specs(as_json: Json = False) -> None:
    """List the shipped specs, libraries and studies.

    Every verb that takes such a file takes the name of a shipped one.
    """
    import tomllib

    from gemmgen.catalog.table import shipped
    from gemmgen.cli import show

    rows = []
    for kind, folder in (("spec", "kernels"), ("library", "libraries"), ("study", "studies")):
        for name, path in shipped(folder).items():
            text = path.read_text()
            data = tomllib.loads(text)
            about = text.partition("\n")[0].removeprefix("# ") if text.startswith("# ") else ""
            rows.append({"name": name, "kind": kind, "file": str(path), "gpu": data.get("target", {}).get("gpu", ""),
                         "scheme": data.get("split", {}).get("scheme", ""), "about": about})
    if as_json:
        return emit_json(rows)
    emit(show.table(("name", "kind", "GPU", "scheme", "about"), [(one["name"], one["kind"], one["gpu"], one["scheme"], one["about"]) for one in rows]))


@verb(
    WORLD,
    "gemmgen list schema > specs/spec.schema.json", "gemmgen list schema --study > specs/study.schema.json",
    "gemmgen list schema --library > specs/library.schema.json",
    name="list schema", was={"schema": {}},
)
def schema(
    study: Annotated[bool, typer.Option("--study", help="Of a study, as gemmgen study run takes it.")] = False,
    library: Annotated[bool, typer.Option("--library", help="Of a library's file, as gemmgen library takes it.")] = False,
    as_json: Json = False,
) -> None:
    """Print the JSON schema of a spec file, for editors and programs.

    It is JSON with and without --json, which has errors printed so, too.
    """
    from gemmgen.spec import json_schema

    if study and library:
        raise SpecError("--study, --library", "are of two files", needs="one of them", remedy="leave one out")
    emit_json(SCHEMAS["study" if study else "library"]() if study or library else json_schema())
