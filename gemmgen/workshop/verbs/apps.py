"""The verb `app`: an application over generated kernels, beside the vendor's product or NumPy's."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gemmgen.cli.output import Progress, emit, emit_json
from gemmgen.cli.show import facts, table
from gemmgen.cli.verb import LIBRARY, Json, Quiet, verb

if TYPE_CHECKING:
    from gemmgen.workshop.apps.race import Outcome

class AppDevice(StrEnum):
    auto = "auto"
    cuda = "cuda"
    emulator = "emulator"
    hip = "hip"


@verb(
    LIBRARY,
    "gemmgen app",
    "gemmgen app kmeans",
    "gemmgen app kmeans --by ootomo,half --size points=256 --data drawn",
    "gemmgen app lu --by mixpert1,ootomo,as-fp32 --size n=16384 --device cuda",
    "gemmgen app hpl --by as-fp64,residues14",
    "gemmgen app cholesky --threshold 1e-5",
)
def app(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="An application; none lists them.")] = None,
    by: Annotated[str | None, typer.Option("--by", metavar="NAMES", help=(
        "Who multiplies beside the vendor's product, comma-separated: schemes, auto, as-fp32 (the fastest whose errors are FP32's), as-fp64 (likewise, the "
        "vendor's own included), spec files (.toml), library:FOLDER. Default: ootomo, of FP64 as-fp64."))] = None,
    size: Annotated[list[str] | None, typer.Option(metavar="NAME=NUMBER", help="Instead of one of the application's sizes.")] = None,
    type: Annotated[str | None, typer.Option(metavar="f32|f64", help="Elements' type, of an application that has several; default: its first.")] = None,
    data: Annotated[str | None, typer.Option(metavar="NAME", help="Where the data come from; drawn needs NumPy alone.")] = None,
    device: Annotated[AppDevice, typer.Option(help="auto: a CUDA GPU if one is here, else the emulator, on which nothing is timed.")] = AppDevice.auto,
    gpu: Annotated[str | None, typer.Option("--gpu", metavar="NAME", help="Kernels of this GPU; default: the one that is here, else a100.")] = None,
    threshold: Annotated[float | None, typer.Option(metavar="NUMBER", help=(
        "Also choose a level for each product so that the result's relative error is at most this (gemmgen tune)."))] = None,
    rounds: Annotated[int, typer.Option(help="Rounds of the race on a GPU.")] = 7,
    seed: Annotated[int, typer.Option(help="Of what is drawn.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run an application whose products generated kernels compute.

    On a CUDA GPU it is timed against cuBLAS SGEMM or DGEMM, in turns, with everything that it
    does between its products; data stay on the GPU. On the emulator a small one is
    run and nothing is timed. Beside the time stands what a user of it looks at.
    """
    from gemmgen.workshop import apps
    from gemmgen.workshop.apps.race import run
    from gemmgen.workshop.tune.told import sizes

    if name is None:
        found = [apps.find(one) for one in apps.NAMES]
        if as_json:
            emit_json([{"name": one.name, "title": one.title, "papers": one.papers, "sizes": dict(one.sizes), "data": list(one.data)} for one in found])
        else:
            emit(table(("name", "what", "in"), [(one.name, one.title, one.papers) for one in found]))
        return 0
    progress = Progress(name, quiet or as_json)
    outcome = run(
        apps.find(name), by=None if by is None else [one.strip() for one in by.split(",") if one.strip()], sizes=sizes(size or []), data=data,
        device=device.value, gpu=gpu, rounds=rounds, seed=seed, threshold=threshold, type=type, progress=progress.step,
    )
    progress.clear()
    emit_json(outcome.as_dict()) if as_json else emit(text(outcome))
    return 0


def text(outcome: Outcome) -> str:
    """An application's table, for a person."""
    from gemmgen.catalog.element import ELEMENTS

    app, timed = outcome.app, outcome.rows[0].seconds is not None
    most = sorted(outcome.calls.items(), key=lambda one: -one[0].m * one[0].n * one[0].k * one[1])
    products = ", ".join(f"{times} of {shape.m}x{shape.n}x{shape.k} {shape.op}" for shape, times in most[:4])
    told: dict[str, object] = {
        "app": f"{app.name}: {app.title}", "sizes": ", ".join(f"{name} {value}" for name, value in outcome.sizes.items()), "data": outcome.data,
        "device": outcome.device, "products": products + (f" and {len(most) - 4} other sizes" if len(most) > 4 else ""),
    }
    told |= {"times": "wall, of a whole run, the median; products: those alone"} if timed else {"times": "not timed: the emulator's say nothing of a GPU's"}
    built = {row.by: row.kernels for row in outcome.rows if row.kernels}
    told |= {"kernels": "; ".join(f"{by}: {', '.join(kernels)}" for by, kernels in built.items())} if built else {}
    if outcome.levels:
        told["levels"] = ", ".join(f"{call} {level}" for call, level in outcome.levels.items())
    figures = [name for name in app.figures if any(name in row.figures for row in outcome.rows)]
    rows = []
    for row in outcome.rows:
        base = outcome.rows[0].seconds
        times = [] if row.seconds is None or not base else [
            f"{1e3 * row.seconds:.4g}", "-" if row.products is None else f"{1e3 * row.products:.4g}", f"{base / row.seconds:.3g}",
        ]
        rows.append([row.by, *times, *(shown(row.figures.get(name, "-")) for name in figures)])
    rows += [[name, *["-"] * (3 if timed else 0), *(shown(own.get(one, "-")) for one in figures)] for name, own in outcome.beside.items()]
    heads = ["ms", "products, ms", f"x {ELEMENTS[outcome.type].title}"] if timed else []
    notes = [f"{name}: {app.figures[name]}" for name in figures] + list(outcome.notes)
    return "\n\n".join([facts(told), table(("multiplied by", *heads, *figures), rows), "\n".join(notes)])


def shown(value: object) -> str:
    """A figure: digits of large sums are kept, small errors get two."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.10g}" if abs(value) >= 10 else f"{value:.4g}" if abs(value) >= 1e-2 else f"{value:.2e}"
