"""`gemmgen export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gemmgen.cli.output import Progress, emit, emit_json
from gemmgen.cli.verb import KERNEL, Json, OtherGpu, OtherLayout, names, verb
from gemmgen.errors import EXIT_OK


@verb(
    KERNEL,
    "gemmgen export sgemm_a100 -o third_party/sgemm",
    "gemmgen export my.toml -o sgemm_tn/ --name my_sgemm_tn --layout tn",
    "gemmgen export sgemm_a100 --arch sm_90 -o sgemm/",
    "gemmgen export my.toml --gpu mi210 --arch gfx90a --arch gfx942 -o sgemm/",
)
def export(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="A spec file (.toml), or the name of a shipped one.", autocompletion=names("kernels"))],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The folder to make.")],
    name: Annotated[str | None, typer.Option(help="Prefix of the C functions; default: from scheme, layout and plan.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Put the files into a folder that holds others.")] = False,
    archs: Annotated[list[str] | None, typer.Option("--arch", metavar="ARCH", help=(
        "Also for this architecture, as sm_90 or gfx942, if it runs the plan's kernels."))] = None,
    gpu: OtherGpu = None,
    layout: OtherLayout = None,
    as_json: Json = False,
) -> int:
    """Write a folder that another project embeds.

    It holds the kernels with a C launcher, a header free of CUDA and HIP, the
    machine code, a manifest, CMake and pkg-config files and an example. An
    earlier export in DIR is replaced; other files are never touched. No GPU is
    needed.
    """
    from gemmgen import export as exporter
    from gemmgen import road
    from gemmgen.cli import show
    from gemmgen.verdict import verdict
    from gemmgen.verify import standing

    if name is not None:
        exporter.check_name(name)  # before the compiler is started
    progress = Progress(spec.name, as_json, late=True)
    kernel = road.build(spec, gpu, layout=layout, archs=lambda plan: exporter.target_archs(plan, archs or ()), progress=progress)
    progress.clear()
    plan, source, binary = kernel.plan, kernel.source, kernel.binary
    targets = [binary.arch, *(other.arch for other in kernel.others)]
    files = road.export(kernel, output, name=name, force=force)
    value = {
        "name": name or exporter.default_name(plan), "kernel": source.name, "arch": binary.arch, "compiler": binary.compiler,
        "files": [str(file) for file in files], "plan": plan.as_dict(),
        **({"archs": targets} if standing(plan) or len(targets) > 1 else {}), **({"standing": standing(plan)} if standing(plan) else {}),
        **show.verdict_facts(verdict(plan)), **show.refused_facts(kernel.refused),
    }
    if as_json:
        emit_json(value)
    else:
        wrote = [f"{'wrote' if i == 0 else '':<{show.LABEL}}{file}" for i, file in enumerate(files)]
        emit("\n".join([*wrote, *show.refused_lines(kernel.refused), *show.verdict_lines(verdict(plan))]))
    return EXIT_OK
