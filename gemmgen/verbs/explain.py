"""`gemmgen explain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gemmgen.cli.output import emit, emit_json, write_paths
from gemmgen.cli.verb import KERNEL, SPEC_HELP, Json, OtherGpu, OtherLayout, for_each, names, verb
from gemmgen.errors import EXIT_OK, SpecError


@verb(
    KERNEL,
    "gemmgen explain sgemm_h100",
    "gemmgen explain my.toml --candidate block=256x128x32 --candidate stages=4",
    "gemmgen explain my.toml --full",
    "gemmgen explain my.toml --html my.html",
    "gemmgen explain my.toml --latex > model.tex",
    "gemmgen explain my.toml --frontier --plot frontier.png",
    "gemmgen explain my.toml f64_h200 --frontier --plot frontier.png",
    "gemmgen explain --symbols",
)
def explain(
    specs: Annotated[list[Path] | None, typer.Argument(metavar="SPEC", help=SPEC_HELP, autocompletion=names("kernels"))] = None,
    full: Annotated[bool, typer.Option("--full", help="Every equation with its numbers, bounds, rejected and best candidates.")] = False,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write all of it as one page: roofline, tiles, candidates, equations.")] = None,
    latex: Annotated[bool, typer.Option("--latex", help="Typeset the equations with their values.")] = False,
    candidate: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help=(
        "Look at this choice instead: block, warp, group, split_k, cluster, where, promote, loads, stages, fragment_buffers, "
        "consumers."))] = None,
    frontier: Annotated[bool, typer.Option("--frontier", help=(
        "List every scheme's predicted error and time on that GPU and size, and mark those that no other beats in both."))] = False,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the frontier into this picture; those of several specs into one.")] = None,
    symbols: Annotated[bool, typer.Option("--symbols", help="List the symbols that a spec's own objective and inequalities may name.")] = False,
    gpu: OtherGpu = None,
    layout: OtherLayout = None,
    as_json: Json = False,
) -> int:
    """Explain what the model decides for a spec, and what it is worth.

    A candidate that cannot be is refused with exit code 2 and the inequality it
    breaks.
    """
    from gemmgen import road
    from gemmgen.build.choice import explained
    from gemmgen.cli import explain as explaining
    from gemmgen.cli import show
    from gemmgen.solve import judged
    from gemmgen.solve.frontier import joined
    from gemmgen.cli.explain_page import page
    from gemmgen.picture import IMAGES, frontier_image

    if symbols:
        emit_json(explaining.symbols()) if as_json else emit(explaining.symbols_text())
        return EXIT_OK
    if not specs:
        raise SpecError("gemmgen explain", "has nothing to explain", needs="a spec file, or --symbols", remedy="gemmgen explain sgemm_a100")

    if plot and plot.suffix not in IMAGES:
        raise SpecError("--plot", "is no picture that can be drawn", got=str(plot), needs=f"a name that ends in {', '.join(IMAGES)}",
                        remedy="--plot frontier.png")
    if html and len(specs) > 1:
        raise SpecError("--html", "one page cannot explain several specs", got=str(html), needs="one SPEC", remedy="a call for each spec")

    shown = []

    def serve(path: Path) -> tuple[str, Any, int]:
        loaded = road.load(path, gpu, layout)
        found = road.frontier(loaded) if frontier or plot else None
        shown.append(found)
        written = write_paths({plot: frontier_image(joined(shown), plot.suffix)}) if plot and len(shown) == len(specs) else []
        if found and not (as_json or full or html or latex or candidate):
            return "\n".join([explaining.frontier_text(found), *(f"wrote {file}" for file in written)]), None, EXIT_OK
        if candidate:
            loaded = explaining.with_candidate(loaded, candidate)
        explanation, refused = (judged(loaded), ()) if candidate else explained(loaded)
        written += write_paths({html: page(explanation, path.name)}) if html else []
        told = [("% " if latex else "") + line for line in show.refused_lines(refused)]
        text = "\n".join([*told, (explaining.latex if latex else explaining.text if full else explaining.short)(explanation)])
        if not as_json:
            more = [explaining.frontier_text(found)] if found and not latex else []
            return "\n\n".join([text, *more, *(f"wrote {file}" for file in written if not latex)]), None, EXIT_OK
        about = {"frontier": explaining.frontier_dict(found)} if found else {}
        return "", {**explaining.as_dict(explanation), **about, **show.refused_facts(refused), **({"latex": text} if latex else {})}, EXIT_OK

    return for_each(specs, as_json, serve, step="decide")
