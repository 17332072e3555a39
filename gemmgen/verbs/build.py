"""`gemmgen build`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gemmgen.cli.output import is_folder, note, write_files, write_paths
from gemmgen.cli.verb import KERNEL, Json, OtherGpu, OtherLayout, Specs, for_each, stem_of, verb
from gemmgen.errors import EXIT_OK, SpecError

FOLDER = "build-out"


@verb(
    KERNEL,
    "gemmgen build sgemm_a100",
    "gemmgen build my.toml -o out/",
    "gemmgen build my.toml --source -o my_kernel.cu",
    "gemmgen build specs/kernels/*.toml --source -o generated/",
    "GEMMGEN_CACHE=off gemmgen build my.toml --json",
    was={"render": {"": "--source"}},
)
def build(
    specs: Specs,
    output: Annotated[str | None, typer.Option("--output", "-o", metavar="DIR", help=(
        f"Folder for the files; default: {FOLDER}. With --source a folder (one that exists, or ends in /) or a file; default: stdout."))] = None,
    source: Annotated[bool, typer.Option("--source", help="Print the source and compile nothing.")] = False,
    gpu: OtherGpu = None,
    layout: OtherLayout = None,
    as_json: Json = False,
) -> int:
    """Compile kernels for a GPU, or print their source.

    Writes SPEC.cu, .ptx and .cubin, for AMD .hip, .s and .co, and prints
    what each kernel uses. No GPU is needed. A kernel that spills registers fails
    with exit code 1, unless the spec leaves its tile open: then the next best is
    taken, and the refusal reported.

    The same spec gives the same source on every machine, unless the compiler was
    seen to refuse it there: --source then prints the next choice that is not known
    to spill, and a note says so.
    """
    return _source(specs, output, gpu, layout, as_json) if source else _built(specs, Path(output or FOLDER), gpu, layout, as_json)


def _source(specs: list[Path], output: str | None, gpu: str | None, layout: str | None, as_json: bool) -> int:
    """`build --source`: the exit code."""
    from gemmgen import road
    from gemmgen.cli import show

    folder = Path(output) if output and (output.endswith("/") or is_folder(output)) else None
    if output and not folder and len(specs) > 1:
        raise SpecError("--output", "one file cannot take several kernels", got=output, needs="a folder",
                        remedy=f"-o {output}/")

    def serve(path: Path) -> tuple[str, Any, int]:
        kernel = road.render(path, gpu, layout)
        plan, source, written = kernel.plan, kernel.source, None
        for refusal in kernel.refused:
            what = "printed, though" if refusal.plan == plan else "passed over, since"
            note(f"{path.name}: {what} the compiler refused it before: {refusal}", quiet=as_json)
        if folder:
            [written] = write_files(folder, {stem_of(path, specs, gpu, layout, plan) + source.suffix: source.text}).values()
        elif output:
            [written] = write_paths({Path(output): source.text})
        value = {
            "kernel": source.name, "arch": source.arch, "file": written and str(written), "sha256": source.hash,
            "plan": plan.as_dict(),
            "launches": [
                {"symbol": launch.symbol, "grid": [list(factor) for factor in launch.grid], "threads": launch.threads,
                 "shared_bytes": launch.shared_bytes, "params": list(launch.params)}
                for launch in source.launches
            ],
            **show.refused_facts(kernel.refused),
        }
        if not written:
            value["text"] = source.text
        return f"wrote {written}" if written else source.text.rstrip("\n"), value, EXIT_OK

    return for_each(specs, as_json, serve, step="decide", as_is=not output)


def _built(specs: list[Path], folder: Path, gpu: str | None, layout: str | None, as_json: bool) -> int:
    """`build` without --source: the exit code."""
    from gemmgen import road
    from gemmgen.cli import show
    from gemmgen.verdict import verdict
    from gemmgen.verify import standing

    def serve(path: Path) -> tuple[str, Any, int]:
        kernel = road.build(path, gpu, layout=layout)
        plan, source, binary = kernel.plan, kernel.source, kernel.binary
        assembly, code = plan.gpu.maker.files.code_suffixes
        stem = stem_of(path, specs, gpu, layout, plan)
        files = write_files(folder, {stem + source.suffix: source.text, stem + assembly: binary.assembly, stem + code: binary.code})
        value = {
            "kernel": source.name, "arch": binary.arch, "compiler": binary.compiler, "from_cache": binary.from_cache,
            "seconds": binary.seconds, "files": [str(file) for file in files.values()],
            "kernels": show.kernel_facts(plan, source, binary), "plan": plan.as_dict(),
            **({"standing": standing(plan)} if standing(plan) else {}), **show.verdict_facts(verdict(plan)), **show.refused_facts(kernel.refused),
        }
        wrote = "\n".join(f"{'wrote' if i == 0 else '':<{show.LABEL}}{file}" for i, file in enumerate(files.values()))
        return f"{show.build_table(kernel)}\n{wrote}", value, EXIT_OK

    return for_each(specs, as_json, serve, step="decide and compile")
