"""`gemmgen render` and `gemmgen build`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gemmgen.cli.output import is_folder, note, write_files, write_paths
from gemmgen.cli.verb import KERNELS, Json, OtherGpu, OtherLayout, Specs, for_each, stem_of, verb
from gemmgen.errors import EXIT_OK, SpecError


@verb(
    KERNELS,
    "gemmgen render specs/kernels/sgemm_a100.toml",
    "gemmgen render my.toml -o my_kernel.cu",
    "gemmgen render my.toml --gpu mi210 -o my_kernel.hip",
    "gemmgen render specs/kernels/*.toml -o generated/",
)
def render(
    specs: Specs,
    output: Annotated[str | None, typer.Option("--output", "-o", metavar="FILE|DIR", help=(
        "A file, or a folder (one that exists, or ends in /) for SPEC.cu or .hip; default: stdout."))] = None,
    gpu: OtherGpu = None,
    layout: OtherLayout = None,
    as_json: Json = False,
) -> int:
    """Print a spec's kernels as source.

    The same spec gives the same bytes on every machine, unless the compiler was
    seen to refuse them there: a spec that leaves its tile open gets the next best
    that is not known to spill, and a note says so. No compiler and no GPU is
    needed; nothing is compiled.
    """
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

    return for_each(specs, as_json, serve)


@verb(
    KERNELS,
    "gemmgen build specs/kernels/sgemm_a100.toml",
    "gemmgen build my.toml -o out/",
    "GEMMGEN_CACHE=off gemmgen build my.toml --json",
)
def build(
    specs: Specs,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the files.")] = Path("build-out"),
    gpu: OtherGpu = None,
    layout: OtherLayout = None,
    as_json: Json = False,
) -> int:
    """Compile a spec's kernels to assembly and machine code.

    Writes SPEC.cu, .ptx and .cubin, for AMD .hip, .s and .co, and prints
    what each kernel uses. No GPU is needed. A kernel that spills registers fails
    with exit code 1, unless the spec leaves its tile open: then the next best is
    taken, and the refusal told.
    """
    from gemmgen import road
    from gemmgen.cli import show
    from gemmgen.solve.verdict import verdict
    from gemmgen.verify import standing

    def serve(path: Path) -> tuple[str, Any, int]:
        kernel = road.build(path, gpu, layout=layout)
        plan, source, binary = kernel.plan, kernel.source, kernel.binary
        assembly, code = plan.gpu.maker.code_suffixes
        stem = stem_of(path, specs, gpu, layout, plan)
        files = write_files(output, {stem + source.suffix: source.text, stem + assembly: binary.assembly, stem + code: binary.code})
        value = {
            "kernel": source.name, "arch": binary.arch, "compiler": binary.compiler, "from_cache": binary.from_cache,
            "seconds": binary.seconds, "files": [str(file) for file in files.values()],
            "kernels": show.kernel_facts(plan, source, binary), "plan": plan.as_dict(),
            **({"standing": standing(plan)} if standing(plan) else {}), **show.verdict_facts(verdict(plan)), **show.refused_facts(kernel.refused),
        }
        wrote = "\n".join(f"{'wrote' if i == 0 else '':<{show.LABEL}}{file}" for i, file in enumerate(files.values()))
        return f"{show.build_table(kernel)}\n{wrote}", value, EXIT_OK

    return for_each(specs, as_json, serve)
