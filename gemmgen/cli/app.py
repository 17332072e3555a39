"""The verbs. What they need is imported when they run, so that `--help` is immediate."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gemmgen import __version__
from gemmgen.cli import applied, brought, explored, explored_report, explored_results, profiled, run_library, transform_program
from gemmgen.cli.output import Progress, emit, emit_error, emit_json, is_folder, json_text, note, write_files, write_paths
from gemmgen.errors import EXIT_FAILED, EXIT_OK, EXIT_USAGE, DeviceError, GemmgenError, SpecError
from gemmgen.files import read
from gemmgen.paths import CMAKE

if TYPE_CHECKING:
    from gemmgen.plan import Plan

app = typer.Typer(
    help="From a declarative spec to a verified, FP32-accurate GEMM kernel for matrix units.",
    rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False,
)


def _examples(*lines: str) -> str:
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])  # \b keeps the lines as they are


class Required(StrEnum):
    scheme = "scheme"
    fp32 = "fp32"


class DeviceKind(StrEnum):
    auto = "auto"
    emulator = "emulator"
    cuda = "cuda"
    hip = "hip"


class TuneDevice(StrEnum):
    auto = "auto"
    cuda = "cuda"
    model = "model"
    emulator = "emulator"


class Data(StrEnum):
    both = "both"
    positive = "positive"


MOST_CSV = 1 << 24
"""Bytes of a table of measurements."""

Specs = Annotated[list[Path], typer.Argument(metavar="SPEC", help="Spec files (.toml); see specs/kernels.")]
OtherGpu = Annotated[str | None, typer.Option("--gpu", metavar="NAME", help="For this GPU instead of the spec's own; see gemmgen gpus.")]
OtherLayout = Annotated[str | None, typer.Option("--layout", metavar="LAYOUT", help=(
    "With A and B stored so instead of as the spec says: nn, nt, tn or tt; n is row major, t transposed."))]
Json = Annotated[bool, typer.Option("--json", help="Print JSON; errors too.")]
Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Everything about this one; a .toml file will do.")]


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True,
                                          callback=lambda asked: _print_version(asked))] = False,
    cmake_dir: Annotated[bool, typer.Option("--cmake-dir", help="Print the folder that CMake finds gemmgen in (gemmgen_DIR), and exit.", is_eager=True,
                                            callback=lambda asked: _print_cmake_dir(asked))] = False,
) -> None:
    pass


def _print_version(asked: bool) -> None:
    if asked:
        emit(f"gemmgen {__version__}")
        raise typer.Exit


def _print_cmake_dir(asked: bool) -> None:
    if asked:
        emit(str(CMAKE))
        raise typer.Exit


def _stem(path: Path, specs: list[Path], gpu: str | None, layout: str | None, plan: Plan) -> str:
    """How files of a spec's kernels are named: after the spec, and the GPU and layout if they are others; two specs of one name by their plans, too."""
    stem = "_".join([path.stem, *([Path(gpu).stem] if gpu else []), *([layout] if layout else [])])
    return stem if sum(other.stem == path.stem for other in specs) == 1 else f"{stem}_{plan.hash}"


def _for_each(specs: list[Path], as_json: bool, serve: Callable[[Path], tuple[str, Any, int]]) -> int:
    """Serve every spec, whatever becomes of the others; the worst exit code.

    Args:
        serve: gives the text for a person, the object for a program, and the exit code.
    """
    if len(specs) == 1:
        text, value, code = serve(specs[0])
        emit_json(value) if as_json else emit(text)
        return code
    worst, values = EXIT_OK, []
    for number, spec in enumerate(specs):
        try:
            text, value, code = serve(spec)
            if not as_json:
                emit(("\n" if number and "\n" in text else "") + text)
        except GemmgenError as error:
            value, code = error.as_dict(), error.exit_code
            if not as_json:
                emit_error(error, as_json)
        values.append(value)
        worst = max(worst, code)
    if as_json:
        emit_json(values)
    return worst


@app.command(epilog=_examples(
    "gemmgen verify specs/kernels/sgemm_a100.toml",
    "gemmgen verify my.toml --device cuda --m 1000 --n 1000 --k 4096",
    "gemmgen verify my.toml --a A.npy --b B.npy --json",
    "gemmgen verify my.toml --require fp32",
    "gemmgen verify specs/kernels/legemm_mi210.toml --device hip",
))
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
    save: Annotated[Path | None, typer.Option(metavar="FILE", help=(
        "Where the record of an AMD kernel's run goes; a run on an AMD GPU leaves one in this folder without it."))] = None,
    as_json: Json = False,
    gpu: OtherGpu = None,
    layout: OtherLayout = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no notes on stderr.")] = False,
) -> int:
    """Build kernels and check that they are right.

    Each kernel is compiled, run, and held against exact oracles, derived and
    simulated error bounds and the predicted resources; its errors are told as
    multiples of FP32's own. Without a GPU, the compiler's assembly,
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
    from gemmgen.cli import show
    from gemmgen.cli.inputs import matrices
    from gemmgen import road
    from gemmgen.verify.record import file_name
    from gemmgen.spec import MAX_EXTENT

    for option, extent in (("--m", m), ("--n", n), ("--k", k)):
        if extent is not None and not 1 <= extent <= MAX_EXTENT:
            raise SpecError(option, "is out of range", got=extent, needs=f"1 to {MAX_EXTENT}", remedy="gemmgen verify --help")

    own = dict(zip("ab", matrices(a, b, quiet=quiet))) if a and b else {}

    def serve(path: Path) -> tuple[str, Any, int]:
        start = time.perf_counter()
        progress = Progress(path.name, quiet or as_json)
        loaded = road.load(path, gpu, layout)
        kernel = road.build(loaded, progress=progress)
        if save and not kernel.plan.gpu.maker.recorded:
            raise SpecError("--save", "is for the record of an AMD kernel's run", got=kernel.plan.arch, needs="a spec for a GPU of AMD's",
                            remedy="--json, and a redirection of the output")
        report = road.verify(
            kernel, device=device, size=(m, n, k), require=require or loaded.spec.verify.require, progress=progress, **own,
        )
        text, value = show.report(kernel, report, time.perf_counter() - start), {**report.as_dict(), **show.refused_facts(kernel.refused)}
        if report.device_kind == "hip" or save and not report.unverified:
            record = road.record(kernel, report, progress=progress)
            [saved] = write_paths({save or Path(file_name(kernel.plan)): json_text(record) + "\n"})
            text, value = f"{text}\n{show.record(record, saved)}", {**value, "saved": str(saved)}
        return text, value, EXIT_OK if report.passed else EXIT_USAGE if report.unverified and not report.failed else EXIT_FAILED

    return _for_each(specs, as_json, serve)


@app.command(epilog=_examples(
    "gemmgen render specs/kernels/sgemm_a100.toml",
    "gemmgen render my.toml -o my_kernel.cu",
    "gemmgen render my.toml --gpu mi210 -o my_kernel.hip",
    "gemmgen render specs/kernels/*.toml -o generated/",
))
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
    from gemmgen.cli import show
    from gemmgen import road

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
            [written] = write_files(folder, {_stem(path, specs, gpu, layout, plan) + source.suffix: source.text}).values()
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

    return _for_each(specs, as_json, serve)


@app.command(epilog=_examples(
    "gemmgen build specs/kernels/sgemm_a100.toml",
    "gemmgen build my.toml -o out/",
    "GEMMGEN_CACHE=off gemmgen build my.toml --json",
))
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
    from gemmgen.verify import standing

    def serve(path: Path) -> tuple[str, Any, int]:
        kernel = road.build(path, gpu, layout=layout)
        plan, source, binary = kernel.plan, kernel.source, kernel.binary
        assembly, code = plan.gpu.maker.code_suffixes
        stem = _stem(path, specs, gpu, layout, plan)
        files = write_files(output, {stem + source.suffix: source.text, stem + assembly: binary.assembly, stem + code: binary.code})
        value = {
            "kernel": source.name, "arch": binary.arch, "compiler": binary.compiler, "from_cache": binary.from_cache,
            "seconds": binary.seconds, "files": [str(file) for file in files.values()],
            "kernels": show.kernel_facts(plan, source, binary), "plan": plan.as_dict(),
            **({"standing": standing(plan)} if standing(plan) else {}), **show.refused_facts(kernel.refused),
        }
        wrote = "\n".join(f"{'wrote' if i == 0 else '':<{show.LABEL}}{file}" for i, file in enumerate(files.values()))
        return f"{show.build_table(kernel)}\n{wrote}", value, EXIT_OK

    return _for_each(specs, as_json, serve)


@app.command(epilog=_examples(
    "gemmgen export specs/kernels/sgemm_a100.toml -o third_party/sgemm",
    "gemmgen export my.toml -o sgemm_tn/ --name my_sgemm_tn --layout tn",
    "gemmgen export specs/kernels/sgemm_a100.toml --arch sm_90 -o sgemm/",
    "gemmgen export my.toml --gpu mi210 --arch gfx90a --arch gfx942 -o sgemm/",
))
def export(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="A spec file (.toml); see specs/kernels.")],
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
    from gemmgen.verify import standing

    if name is not None:
        exporter.check_name(name)  # before the compiler is started
    kernel = road.build(spec, gpu, layout=layout, archs=lambda plan: exporter.target_archs(plan, archs or ()))
    plan, source, binary = kernel.plan, kernel.source, kernel.binary
    targets = [binary.arch, *(other.arch for other in kernel.others)]
    files = road.export(kernel, output, name=name, force=force)
    value = {
        "name": name or exporter.default_name(plan), "kernel": source.name, "arch": binary.arch, "compiler": binary.compiler,
        "files": [str(file) for file in files], "plan": plan.as_dict(),
        **({"archs": targets} if standing(plan) or len(targets) > 1 else {}), **({"standing": standing(plan)} if standing(plan) else {}),
        **show.refused_facts(kernel.refused),
    }
    if as_json:
        emit_json(value)
    else:
        wrote = [f"{'wrote' if i == 0 else '':<{show.LABEL}}{file}" for i, file in enumerate(files)]
        emit("\n".join([*wrote, *show.refused_lines(kernel.refused)]))
    return EXIT_OK


@app.command(epilog=_examples(
    "gemmgen library specs/libraries/lab.toml -o third_party/lab",
    "gemmgen library my.toml --dry-run",
))
def library(
    source: Annotated[Path, typer.Argument(metavar="LIB", help="A library's file (.toml); see specs/libraries.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="DIR", help="The folder to make.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Put the files into a folder that holds others.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Choose kernels and print why; compile and write nothing.")] = False,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no notes on stderr.")] = False,
) -> int:
    """Write a library of kernels behind one C interface.

    For each GPU and layout of the file some kernels are chosen, of all together
    as many as it allows. The folder holds their machine code and sources, a
    runtime in C that chooses among them by layout, sizes and GPU and opens the
    driver itself, a portable kernel for what no other serves, a manifest, CMake
    and pkg-config files and an example. A C compiler builds it. An earlier
    library in DIR is replaced; other files are never touched. No GPU is needed.
    """
    from gemmgen import road
    from gemmgen.cli import libraries
    from gemmgen.library import made

    loaded = road.load_library(source)
    if (output is None) != dry_run:
        raise SpecError("--output", "is missing" if output is None else "stands beside --dry-run, which writes nothing",
                        needs="a folder, or --dry-run", remedy=f"-o {loaded.name}" if output is None else "leave one of them out")
    progress = Progress(source.name, quiet or as_json)
    if dry_run:
        choice = made.choose(loaded, progress.step)
        progress.clear()
        for told in choice.notes:
            note(told, quiet or as_json)
        emit_json({"name": loaded.name, **libraries.choice_value(choice)}) if as_json else emit(libraries.choice_text(loaded, choice))
        return EXIT_OK
    found = road.library(loaded, output, force=force, progress=progress)
    progress.clear()
    for told in found.choice.notes:
        note(told, quiet or as_json)
    emit_json(libraries.value(found, output)) if as_json else emit(libraries.text(found, output))
    return EXIT_OK


@app.command(epilog=_examples(
    "gemmgen explain specs/kernels/sgemm_h100.toml",
    "gemmgen explain my.toml --candidate block=256x128x32 --candidate stages=4",
    "gemmgen explain my.toml --latex > model.tex",
    "gemmgen explain my.toml --frontier --plot frontier.png",
    "gemmgen explain --symbols",
))
def explain(
    specs: Annotated[list[Path] | None, typer.Argument(metavar="SPEC", help="Spec files (.toml); see specs/kernels.")] = None,
    latex: Annotated[bool, typer.Option("--latex", help="Typeset the equations with their values.")] = False,
    candidate: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help=(
        "Look at this choice instead: block, warp, group, split_k, cluster, where, promote, loads, stages, fragment_buffers, "
        "consumers."))] = None,
    frontier: Annotated[bool, typer.Option("--frontier", help=(
        "Tell every scheme's predicted error and time on that GPU and size, and which no other beats in both; so does a spec with [accuracy]."))] = False,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the frontier into this picture.")] = None,
    symbols: Annotated[bool, typer.Option("--symbols", help="List the symbols that a spec's own objective and inequalities may name.")] = False,
    gpu: OtherGpu = None,
    layout: OtherLayout = None,
    as_json: Json = False,
) -> int:
    """Tell what the model decides for a spec, equation by equation with numbers.

    A candidate that cannot be is refused with exit code 2 and the inequality it
    breaks.
    """
    from gemmgen import road
    from gemmgen.bench.plots import IMAGES, frontier_image
    from gemmgen.build.choice import explained
    from gemmgen.cli import explain as explaining
    from gemmgen.cli import show
    from gemmgen.solve import judged

    if symbols:
        emit_json(explaining.symbols()) if as_json else emit(explaining.symbols_text())
        return EXIT_OK
    if not specs:
        raise SpecError("gemmgen explain", "has nothing to explain", needs="a spec file, or --symbols", remedy="gemmgen explain specs/kernels/sgemm_a100.toml")

    if plot and plot.suffix not in IMAGES:
        raise SpecError("--plot", "is no picture that can be drawn", got=str(plot), needs=f"a name that ends in {', '.join(IMAGES)}",
                        remedy="--plot frontier.png")
    if plot and len(specs) > 1:
        raise SpecError("--plot", "one picture cannot show several frontiers", got=str(plot), needs="one SPEC", remedy="a call for each spec")

    def serve(path: Path) -> tuple[str, Any, int]:
        loaded = road.load(path, gpu, layout)
        found = road.frontier(loaded) if frontier or plot or loaded.spec.accuracy.asked else None
        drawn = write_paths({plot: frontier_image(found, plot.suffix)}) if found and plot else ()
        if candidate:
            loaded = explaining.with_candidate(loaded, candidate)
        explanation, refused = (judged(loaded), ()) if candidate else explained(loaded)
        told = [("% " if latex else "") + line for line in show.refused_lines(refused)]
        text = "\n".join([*told, (explaining.latex if latex else explaining.text)(explanation)])
        if not as_json:
            more = [explaining.frontier_text(found)] if found and not latex else []
            return "\n\n".join([text, *more, *(f"wrote {file}" for file in drawn if not latex)]), None, EXIT_OK
        about = {"frontier": explaining.frontier_dict(found)} if found else {}
        return "", {**explaining.as_dict(explanation), **about, **show.refused_facts(refused), **({"latex": text} if latex else {})}, EXIT_OK

    return _for_each(specs, as_json, serve)


@app.command(epilog=_examples(
    "gemmgen bench specs/kernels/sgemm_h100.toml",
    "gemmgen bench specs/kernels/*_h100.toml --sizes 1024,4096,4096x4096x512 --rounds 25 --out results",
    "gemmgen bench my.toml --solve-each-size --against cublas-sgemm,cublas-f16/3,triton-bf16x6 --seconds 180",
    "gemmgen bench my.toml --frontier --sizes 4096,8192 --against cublas-sgemm,cublas-f16/3,cublas-int8/8,triton-bf16x6 --out results",
    "gemmgen bench my.toml --rival gemmul8=/opt/GEMMul8,moduli=8,fast",
    "gemmgen bench --plot results/bench.csv",
))
def bench(
    specs: Annotated[list[Path] | None, typer.Argument(metavar="SPEC...", help=(
        "Spec files (.toml); see specs/kernels."))] = None,
    sizes: Annotated[str, typer.Option(help="Comma-separated: 4096 is 4096x4096x4096, or MxNxK.")] = "1024,2048,4096,8192",
    against: Annotated[str, typer.Option(metavar="NAMES", help=(
        "Comma-separated baselines: cublas-sgemm, cublas-tf32, cublas-f16, cublas-f16/3 (three times the time of "
        "cublas-f16), cublas-int8/4, cublas-int8/8 (of cublas-int8), cublas-fast-f16, cublas-hgemm, cublas-dgemm, cublas-int8, cublas-int8-nn, "
        "triton-tf32x3, triton-bf16x6, triton-bf16x3, triton-ieee."
    ))] = "cublas-sgemm,cublas-tf32,cublas-f16,cublas-f16/3",
    rival: Annotated[list[str] | None, typer.Option(metavar="NAME=PATH", help=(
        "A rival whose library you have: gemmul8=PATH, and behind it ,moduli=8 and ,fast or ,accurate. May be given several times."))] = None,
    rounds: Annotated[int, typer.Option(min=2, max=1000, help="Interleaved rounds.")] = 15,
    slice_ms: Annotated[float, typer.Option(min=1, max=1000, help="Milliseconds each contender runs in a round.")] = 30.0,
    seconds: Annotated[float | None, typer.Option(min=1, help=(
        "Time for all sizes together, once all is compiled; slices and rounds are cut to fit."))] = None,
    data: Annotated[Data, typer.Option(help="Uniform inputs in [-1, 1], or in [0, 1].")] = Data.both,
    each_size: Annotated[bool, typer.Option("--solve-each-size", help=(
        "Solve each spec for every size, instead of once for its own m, n, k."))] = False,
    main_kernel: Annotated[bool, typer.Option(help="Also time each main kernel without its split pass.")] = True,
    frontier: Annotated[bool, typer.Option("--frontier", help=(
        "Time every scheme instead of the spec's, measure its error on three kinds of data, and hold the choice that [accuracy] makes against them."))] = False,
    gpu: OtherGpu = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help=(
        "Also write bench.csv, bench.json and bench.txt there; with --frontier frontier.json, frontier.txt and, where matplotlib is, frontier.svg."))] = None,
    plot: Annotated[Path | None, typer.Option(metavar="CSV", help=(
        "Draw speed.png and error.png from a bench.csv, or frontier.svg from a frontier.json, beside it or into --out; needs no GPU."))] = None,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")] = False,
) -> int:
    """Time kernels beside cuBLAS and Triton, on this machine's GPU.

    Everything runs in one interleaved race on rotating random inputs: the chip
    is limited by power, so only figures taken side by side compare. Times are
    total, with the split pass; ratios come with their 95 % interval, and each
    contender's error is of the same data. With --frontier the exit code is 1
    where the contract's choice errs more than it may or is slower than another.
    """
    from gemmgen import bench as benching
    from gemmgen.cli.inputs import problem_sizes
    from gemmgen.cli.racers import racers
    from gemmgen.timing import gemmul8

    if plot:
        if specs:
            raise SpecError("--plot", "draws a table that is there", got=f"{len(specs)} specs", needs="no SPEC",
                            remedy=f"gemmgen bench --plot {plot}")
        drawn = _plotted(plot, out or plot.parent)
        emit_json({"files": [str(path) for path in drawn]}) if as_json else emit("\n".join(f"wrote {path}" for path in drawn))
        return EXIT_OK
    if not specs:
        raise SpecError("gemmgen bench", "has nothing to time", needs="a SPEC, or --plot CSV", remedy="gemmgen bench --help")
    wanted, rivals = problem_sizes(sizes), benching.baselines(against)
    libraries = [gemmul8.asked(text) for text in rival or ()]
    for one in libraries:
        gemmul8.files(one.path, one.where)
    if out:
        write_files(out, {})  # before minutes are spent
    progress = Progress("bench", quiet or as_json)
    if frontier:
        if len(specs) > 1:
            raise SpecError("--frontier", "is of one spec's GPU and sizes", got=f"{len(specs)} specs", needs="one SPEC", remedy="a call for each spec")
        return _measured_frontier(specs[0], wanted, progress, gpu, out, as_json, against=rivals, rounds=rounds, slice_ms=slice_ms, seconds=seconds,
                                  libraries=libraries)
    kernels, notes = racers(specs, wanted, each_size, progress, gpu)

    def save(table: benching.Table) -> None:
        if out:
            write_files(out, {
                "bench.csv": benching.as_csv(table), "bench.json": json_text(table.as_dict()) + "\n",
                "bench.txt": benching.as_text(table) + "\n",
            })

    low, high = benching.DATA[data]
    table = benching.bench(
        kernels, wanted, against=rivals, rounds=rounds, slice_ms=slice_ms, seconds=seconds, low=low, high=high,
        main_kernel=main_kernel, notes=notes, progress=progress.step, measured=save, libraries=libraries,
    )
    progress.clear()
    emit_json(table.as_dict()) if as_json else emit(benching.as_text(table))
    return EXIT_OK


def _measured_frontier(
    spec: Path, sizes: Sequence[tuple[int, int, int]], progress: Progress, gpu: str | None, out: Path | None, as_json: bool, **how: Any,
) -> int:
    """`bench --frontier`: the exit code; raises as `racers.frontier_racers` and `bench.frontier.run`."""
    from gemmgen.bench import frontier as benching
    from gemmgen.bench.plots import measured_frontier_image
    from gemmgen.cli.racers import frontier_racers

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
    from gemmgen import bench as benching

    if path.suffix == ".json":
        from gemmgen.bench.frontier import from_json
        from gemmgen.bench.plots import measured_frontier_image

        found = from_json(_table(path, "frontier.json"), f"--plot {path}")
        return list(write_files(folder, {"frontier.svg": measured_frontier_image(found, ".svg")}).values())
    device, rows = benching.from_csv(_table(path, "bench.csv"), f"--plot {path}")
    write_files(folder, {})
    return benching.plot(device, rows, folder)


def _plotted_batches(path: Path, folder: Path) -> list[Path]:
    """The images drawn from a table of `bench-batches --out`; raises as `_plotted`."""
    from gemmgen.bench import batches as benching
    from gemmgen.bench.batch_plots import plot_batches

    device, rows = benching.from_csv(_table(path, "batches.csv"), f"--plot {path}")
    write_files(folder, {})
    return plot_batches(device, rows, folder)


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


@app.command("bench-batches", epilog=_examples(
    "gemmgen bench-batches my_batches.toml --out results",
    "gemmgen bench-batches my_batches.toml --suite inception,transformers,uniform --rounds 21",
    "gemmgen bench-batches my_batches.toml --batches 8,256 --against cublas-loop,cublas-grouped --seconds 60",
    "gemmgen bench-batches --plot results/batches.csv",
))
def bench_batches(
    specs: Annotated[list[Path] | None, typer.Argument(metavar="SPEC...", help=(
        "Spec files (.toml) of kernels for batches; none for the rivals alone."))] = None,
    suite: Annotated[str, typer.Option(metavar="NAMES", help=(
        "Comma-separated: paper (BatchGEMM's twelve ranges and six batch sizes), inception (its Table 6), transformers (experts, LoRA), "
        "experts (busy ones, of 64 to 2048 rows), uniform (WMMAe's 256 products of 1024 x k x 1024)."))] = "paper",
    batches: Annotated[str, typer.Option(metavar="COUNTS", help="Comma-separated: only cells of so many products.")] = "",
    against: Annotated[str, typer.Option(metavar="NAMES", help=(
        "Comma-separated rivals, or all: cublas-loop, cublas-streams, cublas-graph, cublas-graph-streams, cublas-grouped, "
        "cublas-batched-padded, torch-bmm-padded; for batches of one size cublas-strided, torch-bmm instead of the padded."))] = "all",
    rounds: Annotated[int, typer.Option(min=2, max=1000, help="Interleaved rounds.")] = 11,
    slice_ms: Annotated[float, typer.Option(min=0.1, max=1000, help="Milliseconds each contender runs in a round.")] = 3.0,
    seconds: Annotated[float | None, typer.Option(min=1, help=(
        "Time for all cells together, once all is compiled; slices and rounds are cut to fit."))] = None,
    thresholds: Annotated[str, typer.Option(metavar="NUMBERS", help=(
        "Comma-separated: each spec's kernel once for each, threads at work from which on a tiling is parallel enough, to find a GPU's "
        "batch_threads."))] = "",
    captured: Annotated[bool, typer.Option("--captured", help=(
        "Capture every contender as a CUDA graph: the GPU's time, without the host's."))] = False,
    upload_lists: Annotated[bool, typer.Option("--upload-lists", help=(
        "Time kernels whose tiles the host lists once more, as NAME-upload: with the copy of the list to the GPU before every launch."))] = False,
    mix: Annotated[bool, typer.Option("--mix", help=(
        "Time the first two specs' kernels once more, as `mixed`: each product by the one that the model says is faster with its size."))] = False,
    gpu: OtherGpu = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Also write batches.csv, batches.json and batches.txt there.")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="CSV", help=(
        "Draw ratios, latency and GFLOPS from a batches.csv, beside it or into --out; needs no GPU."))] = None,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")] = False,
) -> int:
    """Time batches of many sizes beside cuBLAS and torch, on this machine's GPU.

    Each cell is a batch with sizes from a fixed seed. Everything runs in one
    interleaved race on rotating random inputs, and is held against FP64 before:
    who is wrong is not timed. Times are what a program waits for, its enqueueing
    included.
    """
    from gemmgen.bench import batches as benching
    from gemmgen.cli.inputs import batch_sizes, numbers_of
    from gemmgen.cli.racers import batch_racers
    from gemmgen.timing.batches import cells

    specs = specs or []
    if plot:
        if specs:
            raise SpecError("--plot", "draws a table that is there", got=f"{len(specs)} specs", needs="no SPEC",
                            remedy=f"gemmgen bench-batches --plot {plot}")
        drawn = _plotted_batches(plot, out or plot.parent)
        emit_json({"files": [str(path) for path in drawn]}) if as_json else emit("\n".join(f"wrote {path}" for path in drawn))
        return EXIT_OK
    asked_thresholds = numbers_of("--thresholds", thresholds)
    counts, rivals, suites = batch_sizes(batches), benching.batch_rivals(against), benching.suites(suite)
    wanted = cells(suites, counts)
    if not wanted or not (specs or rivals):
        raise SpecError("gemmgen bench-batches", "has nothing to time", got=f"--suite {suite!r} --batches {batches!r} --against {against!r}",
                        needs="a suite with cells of such batches, and a SPEC or a rival", remedy="gemmgen bench-batches --help")
    if out:
        write_files(out, {})  # before minutes are spent
    progress = Progress("bench-batches", quiet or as_json)
    kernels, notes = batch_racers(specs, progress, gpu, asked_thresholds, upload_lists, mix)

    def save(table: benching.BatchTable) -> None:
        if out:
            write_files(out, {
                "batches.csv": benching.as_csv(table), "batches.json": json_text(table.as_dict()) + "\n",
                "batches.txt": benching.as_text(table) + "\n",
            })

    table = benching.bench_batches(
        kernels, wanted, against=rivals, rounds=rounds, slice_ms=slice_ms, seconds=seconds, captured=captured, notes=notes,
        progress=progress.step, measured=save,
    )
    progress.clear()
    emit_json(table.as_dict()) if as_json else emit(benching.as_text(table))
    return EXIT_OK


@app.command(epilog=_examples(
    "gemmgen tune mlp --threshold 1e-5 --gpu h100",
    "gemmgen tune specs/programs/cholesky.toml --threshold 1e-3,1e-5,1e-6 --size n=6144 --device cuda",
    "gemmgen tune my.toml --threshold 1e-6 --gpu a100 --levels half,bf16x3,ootomo --json -o levels.json",
))
def tune(
    program: Annotated[str, typer.Argument(metavar="PROGRAM", help="A program (.toml), or the name of one of specs/programs.")],
    threshold: Annotated[str, typer.Option(metavar="NUMBERS", help=(
        "What the output's relative Frobenius error against FP64 may be; several, comma-separated, share one profile."))],
    device: Annotated[TuneDevice, typer.Option(help=(
        "cuda: build, run and time on the GPU; model: predicted times, errors simulated in NumPy; emulator: the same with the model of the "
        "matrix unit, for small programs; auto: cuda if a GPU runs the kernels, else model."))] = TuneDevice.auto,
    levels: Annotated[str, typer.Option(metavar="NAMES", help="Comma-separated schemes to choose from; default: the usual ones that the GPU serves.")] = "",
    size: Annotated[list[str] | None, typer.Option(metavar="NAME=NUMBER", help="Instead of one of the program's [sizes].")] = None,
    exhaustive: Annotated[bool, typer.Option(help="Also search programs of up to four GEMMs whole, to compare.")] = True,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Also write the JSON there.")] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", metavar="NAME", help="Tune for this GPU; default: the program's, or the one that is here.")] = None,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no notes on stderr.")] = False,
) -> int:
    """Choose the precision of each GEMM of a program for an error of its output.

    Each GEMM is timed at each level (a split scheme), and the program is run with
    it at that level alone. Then MixPert's greedy rule lowers the GEMM with the
    largest share of the time while the output's error allows it, and raises its
    predecessor where that pays; combinations that the profile finds better are run
    too. Every choice that is told was run.

    Exit code 2 where no level meets a threshold.
    """
    from gemmgen.cli import tuned as telling
    from gemmgen.cli.inputs import matrix
    from gemmgen import tune as tuner

    wanted, chosen_sizes = telling.thresholds(threshold), telling.sizes(size or [])
    progress = Progress(Path(program).stem, quiet or as_json)
    loaded = tuner.load_program(program, sizes=chosen_sizes, read=lambda where, path: matrix(where, path, quiet=quiet))
    names = [name.strip() for name in levels.split(",")] if levels.strip() else []
    profile = tuner.profile(loaded, gpu=gpu, device=device, levels=names, progress=progress.step)

    def tell(text: str) -> None:
        """As soon as it is known."""
        progress.clear()
        if not as_json and text:
            emit(text + "\n")

    tell(telling.profile_text(profile))
    found = []
    for one in wanted:
        found.append(profile.tuned(one, exhaustive=exhaustive, progress=progress.step))
        tell(telling.tuned_text(found[-1]))
    found = profile.raced(found)
    tell(telling.race_text(found))
    values = [one.as_dict() for one in found]
    value = values[0] if len(values) == 1 else values
    if output:
        [written] = write_paths({output: json_text(value) + "\n"})
        tell(f"wrote {written}")
    if as_json:
        emit_json(value)
    return EXIT_USAGE if any(one.choice is None for one in found) else EXIT_OK


app.command(epilog=_examples(*explored.EXAMPLES))(explored.explore)
app.command("results", epilog=_examples(*explored_results.EXAMPLES))(explored_results.results)
explored_report.add_to(app)
app.command("run", epilog=_examples(*run_library.EXAMPLES), context_settings={"allow_interspersed_args": False})(run_library.run)
app.command("transform", epilog=_examples(*transform_program.EXAMPLES), context_settings={"allow_interspersed_args": False})(transform_program.transform)
app.command(epilog=_examples(*brought.EXAMPLES))(brought.bringup)
app.command(epilog=_examples(*applied.EXAMPLES))(applied.app)
app.command(epilog=_examples(*profiled.EXAMPLES))(profiled.profile)


@app.command(epilog=_examples("gemmgen gpus", "gemmgen gpus h100", "gemmgen gpus my_gpu.toml --json"))
def gpus(name: Name = None, as_json: Json = False) -> None:
    """List the GPUs that specs can name, or tell everything about one."""
    from gemmgen.catalog.gpu import GPUS
    from gemmgen.cli import show

    if name:
        row = GPUS.get(name, where="gemmgen gpus")
        emit_json(row.model_dump(mode="json")) if as_json else emit(show.gpu_text(row))
        return
    rows = GPUS.rows()
    if as_json:
        return emit_json([row.model_dump(mode="json") for row in rows])
    emit(show.table(
        ("name", "arch", "matrix unit", "SMs", "shared B a block", "FP16 TFLOPS", "title"),
        [(g.name, g.arch, g.unit.label(), g.rates.sms, g.limits.shared_bytes_per_block, g.rates.f16_tflops, g.title)
         for g in rows],
    ))


@app.command(epilog=_examples("gemmgen schemes", "gemmgen schemes ootomo", "gemmgen schemes my_scheme.toml --json"))
def schemes(name: Name = None, as_json: Json = False) -> None:
    """List the split schemes that specs can name, or tell everything about one."""
    from gemmgen.catalog.scheme import SCHEMES
    from gemmgen.cli import show

    if name:
        row = SCHEMES.get(name, where="gemmgen schemes")
        emit_json(show.scheme_facts(row)) if as_json else emit(show.scheme_text(row))
        return
    rows = SCHEMES.rows()
    if as_json:
        return emit_json([show.scheme_facts(row) for row in rows])
    emit(show.schemes_text(rows))


@app.command(epilog=_examples(
    "gemmgen fragments",
    "gemmgen fragments mma_m16n8k16_f16",
    "gemmgen fragments wgmma_m64n128k16_f16",
    "gemmgen fragments mma_m16n8k16_f16 --header -o mma_m16n8k16_f16.cuh",
    "gemmgen fragments mfma_m32n32k8_f16 --header -o mfma_m32n32k8_f16.hip.hpp",
    "gemmgen fragments mma_m16n8k16_f16 --use householder -o householder.cu",
    "gemmgen fragments wgmma_m64n8k32_e4m3 --probe h200",
))
def fragments(
    name: Name = None,
    header: Annotated[bool, typer.Option("--header", help="Print NAME as a header for one's own kernels: CUDA, or HIP where it is AMD's.")] = False,
    use: Annotated[str | None, typer.Option(
        "--use", metavar="USE", help="Print a kernel on NAME's header behind it: reduction, scan, outer, householder, givens or batched.",
    )] = None,
    space: Annotated[str, typer.Option("--space", help="Of a use: wmma, with operands of single words, or tcec, of FP32 that is split.")] = "",
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where the header, or the use, goes.")] = None,
    probe: Annotated[str | None, typer.Option(
        "--probe", metavar="GPU", help="Run NAME on the GPU here, a GPU of gemmgen gpus, and tell whether it returns what that one's model says.",
    )] = None,
    as_json: Json = False,
) -> None:
    """List the matrix instructions, or tell which lane of one holds which element.

    An instruction that comes in many widths is listed once; a NAME with another
    n stands for that width.
    """
    from gemmgen.catalog.fragment import FRAGMENTS, find
    from gemmgen.cli import show

    if header and (not name or as_json):
        raise SpecError("--header", "prints one instruction", got="--json" if name else "no NAME",
                        needs="a NAME, without --json", remedy="gemmgen fragments")
    if use and (not name or header or as_json):
        raise SpecError("--use", "prints a use of one instruction", got="--json" if as_json else "--header" if header else "no NAME",
                        needs="a NAME, without --header and --json", remedy="gemmgen fragments")
    if space and not use:
        raise SpecError("--space", "belongs to a use", got=space, needs="--use", remedy="gemmgen fragments --help")
    if output and not header and not use:
        raise SpecError("--output", "belongs to a header", got=str(output), needs="--header or --use", remedy="gemmgen fragments --help")
    if use and name:
        from gemmgen.fragment_uses import use as text_of

        text = text_of(use, find(name, "gemmgen fragments"), space or ("tcec" if use == "batched" else "wmma"))
        if output:
            [written] = write_paths({output: text})
            return emit(f"wrote {written}")
        return emit(text, end="")
    if probe and (not name or header):
        raise SpecError("--probe", "asks one instruction", got="--header" if name else "no NAME", needs="a NAME, without --header", remedy="gemmgen fragments")
    if probe and name:
        from gemmgen.catalog.gpu import GPUS
        from gemmgen.verify.unit_probe import probe_here

        tiles = probe_here(find(name, "gemmgen fragments"), GPUS.get(probe, where="--probe"))
        return emit_json(tiles.as_dict()) if as_json else emit(tiles.summary)
    if header and name:
        from gemmgen.fragment_header import fragment_header

        text = fragment_header(find(name, "gemmgen fragments"))
        if output:
            [written] = write_paths({output: text})
            return emit(f"wrote {written}")
        return emit(text, end="")
    if name:
        row = find(name, "gemmgen fragments")
        emit_json(row.model_dump(mode="json")) if as_json else emit(show.fragment_text(row))
        return
    rows = FRAGMENTS.rows()
    if as_json:
        return emit_json([row.model_dump(mode="json") for row in rows])
    emit(show.table(
        ("name", "n", "words", "threads", "operands", "needs", "instruction"),
        [(f.name, show.widths(f), f.word, f.threads, show.operand_places(f), show.needs(f), f.instruction) for f in rows],
    ))


@app.command(epilog=_examples("gemmgen schema > specs/spec.schema.json", "gemmgen schema --study > specs/study.schema.json",
                            "gemmgen schema --library > specs/library.schema.json"))
def schema(
    study: Annotated[bool, typer.Option("--study", help="Of a study, as gemmgen explore takes it.")] = False,
    library: Annotated[bool, typer.Option("--library", help="Of a library's file, as gemmgen library takes it.")] = False,
    as_json: Json = False,
) -> None:
    """Print the JSON schema of a spec file, for editors and programs.

    It is JSON with and without --json, which has errors printed so, too.
    """
    from gemmgen.explore.studies import json_schema as of_study
    from gemmgen.library.file import json_schema as of_library
    from gemmgen.spec import json_schema

    if study and library:
        raise SpecError("--study, --library", "are of two files", needs="one of them", remedy="leave one out")
    emit_json(of_study() if study else of_library() if library else json_schema())
