"""`gemmgen bench`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gemmgen.cli.output import Progress, emit, emit_json, json_text, note, write_files, write_paths
from gemmgen.cli.verb import KERNEL, Json, OtherGpu, Quiet, names, verb
from gemmgen.errors import EXIT_FAILED, EXIT_OK, DeviceError, SpecError
from gemmgen.files import read

MOST_CSV = 1 << 24
"""Bytes of a table of measurements."""
MOST_OTHERS = 200


class Data(StrEnum):
    both = "both"
    positive = "positive"


@verb(
    KERNEL,
    "gemmgen bench sgemm_h100",
    "gemmgen bench specs/kernels/*_h100.toml --sizes 1024,4096,4096x4096x512 --rounds 25 --out results",
    "gemmgen bench my.toml --solve-each-size --against cublas-sgemm,cublas-f16/3,triton-bf16x6 --seconds 180",
    "gemmgen bench my.toml --frontier --sizes 4096,8192 --against cublas-sgemm,cublas-f16/3,cublas-int8/8,triton-bf16x6 --out results",
    "gemmgen bench my.toml --vary split.where=prepass,register --vary tile.block=128x64x32,64x64x32 --sizes 4096",
    "gemmgen bench my.toml --others 30,30 --sizes 4096",
    "gemmgen bench my.toml --rival gemmul8=/opt/GEMMul8,moduli=8,fast",
    "gemmgen bench my_batches.toml --suite inception,transformers,uniform --rounds 21",
    "gemmgen bench my_batches.toml --batches 8,256 --against cublas-loop,cublas-grouped --seconds 60",
    "gemmgen bench specs/kernels/sgemm_h100.toml --share h100.json",
    "gemmgen bench results/bench.json --share h100.json",
    "gemmgen bench --plot results/bench.csv",
)
def bench(
    specs: Annotated[list[Path] | None, typer.Argument(metavar="SPEC...", help=(
        "Spec files (.toml) or names of shipped ones, of one product or of batches. With --suite or --batches none for the rivals alone. With --share the "
        "bench.json or batches.json of an earlier --out, which needs no GPU."),
        autocompletion=names("kernels"))] = None,
    sizes: Annotated[str | None, typer.Option(help=(
        "Comma-separated: 4096 is 4096x4096x4096, or MxNxK; 1024,2048,4096,8192 if none are named."))] = None,
    suite: Annotated[str | None, typer.Option(metavar="NAMES", help=(
        "Batches, comma-separated: paper (BatchGEMM's twelve ranges and six batch sizes; the usual one), inception (its Table 6), transformers "
        "(experts, LoRA), experts (busy ones, of 64 to 2048 rows), uniform (WMMAe's 256 products of 1024 x k x 1024)."))] = None,
    batches: Annotated[str, typer.Option(metavar="COUNTS", help="Comma-separated: only batches of so many products.")] = "",
    against: Annotated[str | None, typer.Option(metavar="NAMES", help=(
        "Comma-separated baselines: cublas-sgemm, cublas-tf32, cublas-f16, cublas-f16/3 (three times the time of "
        "cublas-f16), cublas-int8/4, cublas-int8/8 (of cublas-int8), cublas-fast-f16, cublas-hgemm, cublas-dgemm, cublas-int8, cublas-int8-nn, "
        "triton-tf32x3, triton-bf16x6, triton-bf16x3, triton-ieee; cublas-sgemm,cublas-tf32,cublas-f16,cublas-f16/3 if none are named. "
        "Of batches, or all, which is usual: cublas-loop, cublas-streams, cublas-graph, cublas-graph-streams, cublas-grouped, "
        "cublas-batched-padded, torch-bmm-padded; for batches of one size cublas-strided, torch-bmm instead of the padded."
    ))] = None,
    rival: Annotated[list[str] | None, typer.Option(metavar="NAME=PATH", help=(
        "A rival whose library you have: gemmul8=PATH, and behind it ,moduli=8 and ,fast or ,accurate. May be given several times."))] = None,
    rounds: Annotated[int | None, typer.Option(min=2, max=1000, help="Interleaved rounds: 15, of batches 11.")] = None,
    slice_ms: Annotated[float | None, typer.Option(min=0.1, max=1000, help=(
        "Milliseconds each contender runs in a round: 30, of batches 3."))] = None,
    seconds: Annotated[float | None, typer.Option(min=1, help=(
        "Time for all sizes or batches together, once all is compiled; slices and rounds are cut to fit."))] = None,
    data: Annotated[Data | None, typer.Option(help="Uniform inputs in [-1, 1], as usual, or in [0, 1].")] = None,
    each_size: Annotated[bool, typer.Option("--solve-each-size", help=(
        "Solve each spec for every size, instead of once for its own m, n, k."))] = False,
    vary: Annotated[list[str] | None, typer.Option(metavar="SECTION.KEY=VALUES", help=(
        "Time each spec once for each of these comma-separated values, such as split.where=prepass,register or tile.block=128x64x32; may be given several "
        "times, for every combination."))] = None,
    others: Annotated[str, typer.Option(metavar="NEXT,DRAWN", help=(
        "Also time so many of the model's next choices for each spec and so many drawn from all that are feasible: is its choice a good one?"))] = "",
    main_kernel: Annotated[bool, typer.Option(help="Also time each main kernel without its split pass.")] = True,
    frontier: Annotated[bool, typer.Option("--frontier", help=(
        "Time every scheme instead of the spec's, measure its error on three kinds of data, and hold the choice that [accuracy] makes against them."))] = False,
    thresholds: Annotated[str, typer.Option(metavar="NUMBERS", help=(
        "Comma-separated: each spec's kernel of batches once for each, threads at work from which on a tiling is parallel enough, to find a GPU's "
        "batch_threads."))] = "",
    captured: Annotated[bool, typer.Option("--captured", help=(
        "Of batches: capture every contender as a CUDA graph: the GPU's time, without the host's."))] = False,
    upload_lists: Annotated[bool, typer.Option("--upload-lists", help=(
        "Time kernels whose tiles the host lists once more, as NAME-upload: with the copy of the list to the GPU before every launch."))] = False,
    mix: Annotated[bool, typer.Option("--mix", help=(
        "Time the first two specs' kernels once more, as `mixed`: each product by the one that the model says is faster with its size."))] = False,
    gpu: OtherGpu = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help=(
        "Also write bench.csv, bench.json and bench.txt there, of batches batches.csv and so on; with --frontier frontier.json, frontier.txt and, where "
        "matplotlib is, frontier.svg."))] = None,
    share: Annotated[Path | None, typer.Option(metavar="FILE", help=(
        "Also write sizes or batches, times and errors there as JSON to publish: with the names of GPU, driver and compiler, nothing else of this "
        "machine."))] = None,
    plot: Annotated[Path | None, typer.Option(metavar="CSV", help=(
        "Draw speed.png and error.png from a bench.csv, ratios, latency and GFLOPS from a batches.csv, or frontier.svg from a frontier.json, beside it or "
        "into --out; needs no GPU."))] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Time kernels beside cuBLAS, Triton and torch on this GPU.

    Everything runs in one interleaved race on rotating random inputs: the chip
    is limited by power, so only figures taken side by side compare. Times of
    products are total, with the split pass; ratios come with their 95 %
    interval, and each contender's error is of the same data. With --frontier the
    exit code is 1 where the contract's choice errs more than it may or is slower
    than another.

    Kernels of batches, or --suite or --batches, are timed batch by batch, with
    sizes from a fixed seed: what a program waits for, its enqueueing included.
    Who is wrong against FP64 is not timed.
    """
    from gemmgen.cli.inputs import batch_sizes, numbers_of, problem_sizes
    from gemmgen.timing import gemmul8
    from gemmgen.timing.batches import cells
    from gemmgen.workshop import bench as benching
    from gemmgen.workshop.bench import share as sharing
    from gemmgen.workshop.bench.racers import batch_racers, of_batches, racers

    specs = specs or []
    if plot:
        if specs:
            raise SpecError("--plot", "draws a table that is there", got=f"{len(specs)} specs", needs="no SPEC",
                            remedy=f"gemmgen bench --plot {plot}")
        drawn = _plotted(plot, out or plot.parent)
        emit_json({"files": [str(path) for path in drawn]}) if as_json else emit("\n".join(f"wrote {path}" for path in drawn))
        return EXIT_OK
    of_one = {"--sizes": sizes, "--rival": rival, "--data": data, "--solve-each-size": each_size, "--vary": vary, "--others": others,
              "--no-main-kernel": not main_kernel, "--frontier": frontier}
    of_many = {"--thresholds": thresholds, "--captured": captured, "--upload-lists": upload_lists, "--mix": mix}
    if earlier := [path for path in specs if path.suffix == ".json"]:
        timing_options = of_one | of_many | {"--suite": suite, "--batches": batches, "--against": against, "--rounds": rounds, "--slice-ms": slice_ms,
                                             "--seconds": seconds, "--gpu": gpu, "--out": out}
        given = [option for option, value in timing_options.items() if value]
        if len(specs) > 1 or share is None or given:
            got = f"{len(specs)} SPECs" if len(specs) > 1 else ", ".join(given) or "no --share"
            raise SpecError(str(earlier[0]), "is a race that was run, which can only be shared", got=got, needs="it alone, and --share FILE",
                            remedy=f"gemmgen bench {shlex.quote(str(earlier[0]))} --share {shlex.quote(str(share or 'results.json'))}")
        found, left_out = sharing.share_of(*sharing.stored(earlier[0]))
        path = write_paths({share: sharing.as_json(found)})[0]
        for text in left_out:
            note(text, quiet=quiet)
        emit_json({"files": [str(path)]}) if as_json else emit(f"wrote {path}: look at it, then see docs/community.md")
        return EXIT_OK
    together = suite is not None or bool(batches) or of_batches(specs, gpu)
    if not (specs or together):
        raise SpecError("gemmgen bench", "has nothing to time", needs="a SPEC, a --suite of batches, or --plot CSV", remedy="gemmgen bench --help")
    for option, given in (of_one if together else of_many).items():
        if given:
            raise SpecError(option, f"is for {'single products' if together else 'batches'}", got=f"a race of {'batches' if together else 'single products'}",
                            needs=f"{'no --suite, no --batches and specs of' if together else '--suite, --batches or specs of'} "
                                  f"{'one product' if together else 'batches'}", remedy=f"leave out {option}")
    progress = Progress("bench", quiet or as_json)

    def save(table: benching.Table) -> None:
        if out:
            stem = "batches" if together else "bench"
            write_files(out, {
                f"{stem}.csv": benching.as_csv(table), f"{stem}.txt": benching.as_text(table) + "\n",
                f"{stem}.json": json_text(table.as_dict() | {"made": sharing.made(kernels, captured).model_dump()}) + "\n",
            })
        if share and any(row.kind == "kernel" for row in table.rows):
            shared(table)

    def shared(table: benching.Table) -> tuple[Path, list[str]]:
        found, left_out = sharing.share_of(table, sharing.made(kernels, captured))
        return write_paths({share or Path(): sharing.as_json(found)})[0], left_out

    how: dict[str, Any] = {"rounds": rounds or (11 if together else 15), "slice_ms": slice_ms or (3.0 if together else 30.0), "seconds": seconds}
    if together:
        asked_thresholds, how["against"] = numbers_of("--thresholds", thresholds), benching.batch_rivals("all" if against is None else against)
        wanted = cells(benching.suites("paper" if suite is None else suite), batch_sizes(batches))
        if not wanted or not (specs or how["against"]):
            raise SpecError("gemmgen bench", "has nothing to time", got=f"--suite {suite!r} --batches {batches!r} --against {against!r}",
                            needs="a suite with batches of so many products, and a SPEC or a rival", remedy="gemmgen bench --help")
        if out:
            write_files(out, {})  # before minutes are spent
        many, notes = batch_racers(specs, progress, gpu, asked_thresholds, upload_lists, mix)
        kernels = [benching.Kernel(name, one.plan, one.source, one.binary) for name, maker in many.items() if (one := getattr(maker, "as_built", None))]
        if share:
            sharing.check(sharing.made(kernels))
        table = benching.bench_batches(many, wanted, captured=captured, notes=notes, progress=progress.step, measured=save, **how)
    else:
        of_each, how["against"] = problem_sizes(sizes or "1024,2048,4096,8192"), benching.USUAL if against is None else benching.baselines(against)
        how["libraries"] = [gemmul8.asked(text) for text in rival or ()]
        for one in how["libraries"]:
            gemmul8.files(one.path, one.where)
        if out:
            write_files(out, {})
        if frontier:
            if len(specs) > 1:
                raise SpecError("--frontier", "is of one spec's GPU and sizes", got=f"{len(specs)} specs", needs="one SPEC", remedy="a call for each spec")
            if vary or others or share:
                raise SpecError("--frontier", "times every scheme of a spec", got="--vary, --others or --share", needs="none of them",
                                remedy="a call without --frontier")
            return _measured_frontier(specs[0], of_each, progress, gpu, out, as_json, **how)
        kernels, notes = racers(specs, of_each, each_size, progress, gpu, vary or (), _others(others))
        if share:
            sharing.check(sharing.made(kernels))
        low, high = benching.DATA[data or Data.both]
        table = benching.bench(
            kernels, of_each, low=low, high=high, main_kernel=main_kernel, notes=notes, progress=progress.step, measured=save, **how,
        )
    progress.clear()
    emit_json(table.as_dict()) if as_json else emit(benching.as_text(table))
    if share:
        path, left_out = shared(table)
        for text in left_out:
            note(text, quiet=quiet)
        note(f"{path} may be shared: look at it, then see docs/community.md", quiet=quiet or as_json)
    return EXIT_OK


def _others(text: str) -> tuple[int, int]:
    """`30,30` as numbers.

    Raises:
        SpecError: it is something else.
    """
    if not text:
        return 0, 0
    parts = text.split(",")
    if len(parts) != 2 or not all(part.strip().isdigit() and int(part) <= MOST_OTHERS for part in parts):
        raise SpecError("--others", "is no pair of numbers", got=text, needs=f"NEXT,DRAWN, each 0 to {MOST_OTHERS}", remedy="--others 30,30")
    return int(parts[0]), int(parts[1])


def _measured_frontier(
    spec: Path, sizes: Sequence[tuple[int, int, int]], progress: Progress, gpu: str | None, out: Path | None, as_json: bool, **how: Any,
) -> int:
    """`bench --frontier`: the exit code; raises as `racers.frontier_racers` and `bench.frontier.run`."""
    from gemmgen.workshop.bench import measured_frontier as benching
    from gemmgen.workshop.bench.plots import measured_frontier_image
    from gemmgen.workshop.bench.racers import frontier_racers

    fields, notes = frontier_racers(spec, sizes, progress, gpu)

    def save(found: benching.Frontiers) -> None:
        if out:
            write_files(out, {"frontier.json": json_text(found.as_dict()) + "\n", "frontier.txt": benching.as_text(found) + "\n"})

    found = benching.run(fields, notes=notes, progress=progress.step, measured=save, **how)
    if out:
        try:
            write_files(out, {"frontier.svg": measured_frontier_image(found, ".svg")})
        except DeviceError as error:  # no matplotlib
            note(f"frontier.svg: not drawn: {error.problem}")
    progress.clear()
    emit_json(found.as_dict()) if as_json else emit(benching.as_text(found))
    return EXIT_OK if found.kept else EXIT_FAILED


def _plotted(path: Path, folder: Path) -> list[Path]:
    """The images drawn from a table of `bench --out`.

    Raises:
        GemmgenError: it cannot be read, matplotlib is absent, or the images cannot be written.
    """
    from gemmgen.workshop import bench as benching

    if path.suffix == ".json":
        from gemmgen.workshop.bench.measured_frontier import from_json
        from gemmgen.workshop.bench.plots import measured_frontier_image

        found = from_json(_table(path, "frontier.json"), f"--plot {path}")
        return list(write_files(folder, {"frontier.svg": measured_frontier_image(found, ".svg")}).values())
    device, rows = benching.from_csv(_table(path, "bench.csv or batches.csv"), f"--plot {path}")
    write_files(folder, {})
    return benching.plot(device, rows, folder)


def _table(path: Path, name: str) -> str:
    """The text of a table that `--out` wrote under a name.

    Raises:
        SpecError: it cannot be read.
    """
    try:
        return read(path, MOST_CSV).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"--plot {path}", "cannot be read", got=getattr(error, "strerror", None) or str(error),
                        needs=f"a {name} that --out wrote", remedy="check the path") from None
