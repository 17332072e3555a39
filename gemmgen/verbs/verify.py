"""`gemmgen verify`."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gemmgen.cli.output import Progress, json_text, write_paths
from gemmgen.cli.verb import KERNEL, Json, OtherGpu, OtherLayout, Silent, Specs, for_each, verb
from gemmgen.errors import EXIT_FAILED, EXIT_OK, EXIT_USAGE, SpecError


class Required(StrEnum):
    scheme = "scheme"
    fp32 = "fp32"


class DeviceKind(StrEnum):
    auto = "auto"
    emulator = "emulator"
    cuda = "cuda"
    hip = "hip"


@verb(
    KERNEL,
    "gemmgen verify scaled_a100",
    "gemmgen verify my.toml --device cuda --m 1000 --n 1000 --k 4096",
    "gemmgen verify my.toml --a A.npy --b B.npy --json",
    "gemmgen verify my.toml --require fp32",
    "gemmgen verify legemm_mi210 --device hip",
    start="check a kernel for an A100: compiled and executed on the CPU, some 20 s",
)
def verify(
    specs: Specs,
    device: Annotated[DeviceKind, typer.Option(help="Where to run; auto: a GPU of the spec's vendor if one can run it.")] = DeviceKind.auto,
    a: Annotated[Path | None, typer.Option(help="Your own A, [M, K] in a .npy file.")] = None,
    b: Annotated[Path | None, typer.Option(help="Your own B, [K, N] in a .npy file.")] = None,
    m: Annotated[int | None, typer.Option(help="Rows of the product the errors are reported of.")] = None,
    n: Annotated[int | None, typer.Option(help="Its columns.")] = None,
    k: Annotated[int | None, typer.Option(help="Its summed dimension.")] = None,
    require: Annotated[Required | None, typer.Option(help=(
        "How good a right kernel has to be: as its scheme promises, or besides as FP32: at most twice the error of a sequential "
        "FP32 dot product of the same data. Instead of the spec's [verify] require."))] = None,
    whole: Annotated[bool, typer.Option("--whole", help=(
        "On the emulator, compute all blocks of C, however long it takes; without it, what would take over a minute is sampled."))] = False,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help=(
        "Where the record of an AMD kernel's run goes; a run on an AMD GPU leaves one in this folder without it."))] = None,
    as_json: Json = False,
    gpu: OtherGpu = None,
    layout: OtherLayout = None,
    quiet: Silent = False,
) -> int:
    """Build kernels and check that they are right.

    Each kernel is compiled, run, and held against exact oracles, derived and
    simulated error bounds and the predicted resources; its errors are reported as
    multiples of FP32's own, or of FP64's. Without a GPU, the compiler's assembly,
    PTX or AMD's, is executed on the CPU over a bit-exact model of the GPU's
    matrix unit.

    No AMD GPU was within the project's reach. A run on one is therefore recorded
    in a JSON file, gemmgen-hip-GPU-HASH.json: the report, the device and its
    software, and what its matrix unit returns for chosen words. Please attach it
    to an issue of the project.

    Exit code 1 means that a kernel is not right, 2 that the request is not, or
    that nothing here can run the kernel: then only its resources are checked.
    """
    if save and len(specs) > 1:
        raise SpecError("--save", "one file cannot take several records", got=str(save), needs="one SPEC",
                        remedy="leave --save out: each record then has a name of its own")
    if (a is None) != (b is None):
        raise SpecError("--a, --b", "come together", got="--a alone" if b is None else "--b alone", needs="both matrices",
                        remedy="add the other one")
    if a and (m, n, k) != (None, None, None):
        raise SpecError("--m, --n, --k", "belong to random matrices", needs="sizes, or --a and --b; these have their own sizes",
                        remedy="leave the sizes out")
    from gemmgen import road
    from gemmgen.catalog.element import ELEMENTS
    from gemmgen.cli import show
    from gemmgen.cli.inputs import matrices
    from gemmgen.spec import MAX_EXTENT
    from gemmgen.verify.record import file_name

    for option, extent in (("--m", m), ("--n", n), ("--k", k)):
        if extent is not None and not 1 <= extent <= MAX_EXTENT:
            raise SpecError(option, "is out of range", got=extent, needs=f"1 to {MAX_EXTENT}", remedy="gemmgen verify --help")

    def serve(path: Path) -> tuple[str, Any, int]:
        start = time.perf_counter()
        progress = Progress(path.name, quiet or as_json)
        loaded = road.load(path, gpu, layout)
        own = dict(zip("ab", matrices(a, b, quiet=quiet, element=ELEMENTS[loaded.spec.problem.type]))) if a and b else {}
        kernel = road.build(loaded, progress=progress)
        if save and not kernel.plan.gpu.maker.checked.recorded:
            raise SpecError("--save", "is for the record of an AMD kernel's run", got=kernel.plan.arch, needs="a spec for a GPU of AMD's",
                            remedy="--json, and a redirection of the output")
        report = road.verify(
            kernel, device=device, size=(m, n, k), require=require or loaded.spec.verify.require, whole=whole, progress=progress, **own,
        )
        text, value = show.report(kernel, report, time.perf_counter() - start), {**report.as_dict(), **show.refused_facts(kernel.refused)}
        if report.device_kind == "hip" or save and not report.unverified:
            record = road.record(kernel, report, progress=progress)
            [saved] = write_paths({save or Path(file_name(kernel.plan)): json_text(record) + "\n"})
            text, value = f"{text}\n{show.record(record, saved)}", {**value, "saved": str(saved)}
        return text, value, EXIT_OK if report.passed else EXIT_USAGE if report.unverified and not report.failed else EXIT_FAILED

    return for_each(specs, as_json, serve)
