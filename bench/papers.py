"""The papers' figures, measured again with our kernels and their rivals.

    python bench/papers.py measure FILE.json [--sizes 1024,2048,4096,8192] [--gpu h100] [--rounds 15]
    python bench/papers.py plot FILE.json DIR
    python bench/papers.py curves FILE.json [--square 512,1024,2048,4096,8192,16384] [--skewed 1024,2048,4096] [--gpu h200] [--rounds 7] [--seconds 80]
    python bench/papers.py draw FILE.json --out DIR
    python bench/papers.py once NAMES.json [--size 8192] [--gpu h200]
    python bench/papers.py roofline FILE.json --speeds CURVES.json --names NAMES.json --counts COUNTS.csv [--size 8192] --out DIR
    python bench/papers.py once-batch NAMES.json [--gpu h200]
    python bench/papers.py batches RANGES.txt LAYERS.txt [--tiling TILING.csv] [--names NAMES.json --counts COUNTS.csv] --out DIR
    python bench/papers.py tuner FILE.json --out DIR
    python bench/papers.py shared FILE.json [--measure] [--gpu h200] --out DIR

`measure` needs a GPU. It writes FILE.json after each size and prints the tables
last: every scheme under its authors' own promotion, under none and every 128 k,
against cuBLAS SGEMM and against FP64; the reductions that LE-GEMM and EGEMM-TC
report beside ours; error histograms at 1024 (LE-GEMM figures 12 and 13); speed
and error in one run at 4096 and 8192 (LE-GEMM figure 18).
`plot` needs matplotlib alone: it draws histograms.png and plane.png and prints the
tables again.
`curves` needs a GPU, too: speed over n of square and skewed products in interleaved
races beside cuBLAS, and errors of the square ones. `draw` makes .svg pictures of one
or several such files and prints their tables.
`once` launches every contender of the curves once, for ncu to count bytes:
`ncu --csv --print-units base --clock-control none --profile-from-start off --metrics dram__bytes.sum,lts__t_bytes.sum`;
`roofline` joins what it printed with speeds, writes FILE.json and draws LE-GEMM's figure 14.
`once-batch` does so with a batch, for `--metrics` of `paper_figures/batches.py`; `batches`
draws BatchGEMM's figures from what `gemmgen bench` printed of its ranges and
of Inception layers, from what `bench/tiling.py` printed, and from such counts.
`shared` measures, and draws, several processes on one GPU (MixPert figure 12b).
`tuner` draws MixPert's figure 10 from what the verb tune wrote with --output.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from paper_figures import batches, curves, errors, errors_drawn, roofline, sharing, tuner
from paper_figures.common import load, progress, read

from gemmgen.cli.inputs import problem_sizes
from gemmgen.errors import GemmgenError, SpecError


def squares(text: str, option: str = "--sizes") -> list[int]:
    """`1024,4096` as sizes of square products, ascending.

    Raises:
        SpecError: anything else.
    """
    sizes = problem_sizes(text)
    for size in sizes:
        if len(set(size)) > 1:
            got = "x".join(map(str, size))
            raise SpecError(option, "has a product that is not square", got=got, needs="sizes such as 1024,4096")
    return sorted({size[0] for size in sizes})


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    measuring = verbs.add_parser("measure", help="errors, reductions and the plane, on this machine's GPU")
    measuring.add_argument("file", type=Path)
    measuring.add_argument("--sizes", default="1024,2048,4096,8192")
    measuring.add_argument("--gpu", default="h100")
    measuring.add_argument("--rounds", type=int, default=15)
    plotting = verbs.add_parser("plot", help="draw from a file of `measure`")
    plotting.add_argument("file", type=Path)
    plotting.add_argument("folder", type=Path)
    sweeping = verbs.add_parser("curves", help="speed and errors over n, on this machine's GPU")
    sweeping.add_argument("file", type=Path)
    sweeping.add_argument("--square", default="", help="n of square products")
    sweeping.add_argument("--skewed", default="", help="n of the four other shapes")
    sweeping.add_argument("--gpu", default="h200")
    sweeping.add_argument("--rounds", type=int, default=7)
    sweeping.add_argument("--seconds", type=float, default=300.0, help="what all may take; sizes that would take longer are left out, and told")
    sweeping.add_argument("--parts", action="store_true", help="also time the launches of some kernels one by one")
    sweeping.add_argument("--no-errors", action="store_true")
    drawing = verbs.add_parser("draw", help="draw from files of `curves`")
    drawing.add_argument("file", type=Path, nargs="+")
    drawing.add_argument("--out", type=Path, default=Path())
    launching = verbs.add_parser("once", help="launch each contender of the curves once, for ncu")
    launching.add_argument("names", type=Path)
    launching.add_argument("--size", type=int, default=8192)
    launching.add_argument("--gpu", default="h200")
    joining = verbs.add_parser("roofline", help="join speeds and counted bytes, and draw them")
    joining.add_argument("file", type=Path)
    joining.add_argument("--speeds", type=Path, nargs="+", default=[], help="files of `curves`; none: FILE is there already, and is drawn")
    joining.add_argument("--names", type=Path)
    joining.add_argument("--counts", type=Path)
    joining.add_argument("--size", type=int, default=8192)
    joining.add_argument("--out", type=Path, default=Path())
    batching = verbs.add_parser("once-batch", help="multiply a batch with each contender once, for ncu")
    batching.add_argument("names", type=Path)
    batching.add_argument("--gpu", default="h200")
    ranging = verbs.add_parser("batches", help="draw BatchGEMM's figures")
    ranging.add_argument("ranges", type=Path)
    ranging.add_argument("layers", type=Path)
    ranging.add_argument("--tiling", type=Path)
    ranging.add_argument("--names", type=Path)
    ranging.add_argument("--counts", type=Path)
    ranging.add_argument("--device", default="an NVIDIA H200")
    ranging.add_argument("--out", type=Path, default=Path())
    tuning = verbs.add_parser("tuner", help="draw MixPert's figure 10")
    tuning.add_argument("file", type=Path, nargs="+")
    tuning.add_argument("--out", type=Path, default=Path())
    sharer = verbs.add_parser("shared", help="several processes on one GPU")
    sharer.add_argument("file", type=Path)
    sharer.add_argument("--measure", action="store_true", help="on this machine's GPU, first")
    sharer.add_argument("--gpu", default="h200")
    sharer.add_argument("--out", type=Path, default=Path())
    return parser


def _sweep(options: argparse.Namespace) -> dict:
    skewed = squares(options.skewed, "--skewed") if options.skewed else []
    shapes = {"n,n,n": squares(options.square, "--square")} if options.square else {}
    shapes |= {shape: skewed for shape in curves.SHAPES if shape != "n,n,n" and skewed}
    if not shapes:
        raise SpecError("--square", "no size was asked for", needs="--square 512,1024,2048 or --skewed 1024,2048")
    return curves.measure(
        options.file, options.gpu, shapes, rounds=options.rounds, seconds=options.seconds, with_errors=not options.no_errors, with_parts=options.parts,
    )


def _roofline(options: argparse.Namespace) -> str:
    if options.speeds:
        if not options.names or not options.counts:
            raise SpecError("--speeds", "is joined with what was counted", needs="--names and --counts, too")
        documents = [load(file, curves.FORMAT, "curves") for file in options.speeds]
        document = roofline.joined(documents, read(options.counts), json.loads(read(options.names)), options.size)
        options.file.write_text(json.dumps(document) + "\n")
    else:
        document = load(options.file, roofline.FORMAT, "roofline")
    progress(f"wrote {roofline.draw(document, options.out / 'papers_roofline.svg')}")
    return roofline.as_text(document)


def _batches(options: argparse.Namespace) -> str:
    ranges, layers = (batches.times(read(file)) for file in (options.ranges, options.layers))
    shares = batches.tiling_shares(read(options.tiling), ranges, batches.LISTED) if options.tiling else {}
    active = batches.occupancies(read(options.counts), json.loads(read(options.names))) if options.counts and options.names else {}
    progress(f"wrote {batches.draw(ranges, layers, options.device, options.out / 'papers_batches.svg', shares=shares, active=active)}")
    parts = [batches.as_text(ranges, layers), batches.overhead_text(shares) if shares else "", batches.occupancy_text(active) if active else ""]
    return "\n\n".join(part for part in parts if part)


def _tuner(options: argparse.Namespace) -> str:
    programs = [tuner.load(file) for file in options.file]
    progress(f"wrote {tuner.draw(programs, options.out / 'papers_tuner.svg')}")
    return tuner.as_text(programs)


def _shared(options: argparse.Namespace) -> str:
    document = sharing.measure(options.file, options.gpu) if options.measure else load(options.file, sharing.FORMAT, "shared --measure")
    progress(f"wrote {sharing.draw(document, options.out / 'papers_shared.svg')}")
    return sharing.as_text(document)


def _measure(options: argparse.Namespace) -> str:
    return errors.as_text(errors.measure(options.file, squares(options.sizes), options.gpu, options.rounds))


def _plot(options: argparse.Namespace) -> str:
    document = load(options.file, errors.FORMAT, "measure")
    drawn = errors_drawn.plot(document, options.folder)
    progress("wrote " + (", ".join(map(str, drawn)) or "nothing: 1024, 4096 and 8192 were not measured"))
    return errors.as_text(document)


def _draw(options: argparse.Namespace) -> str:
    documents = [load(file, curves.FORMAT, "curves") for file in options.file]
    progress("wrote " + ", ".join(map(str, curves.draw(documents, options.out))))
    return curves.as_text(documents)


def _once(options: argparse.Namespace) -> str:
    roofline.once(options.names, options.gpu, options.size)
    return f"wrote {options.names}"


def _once_batch(options: argparse.Namespace) -> str:
    batches.once(options.names, options.gpu)
    return f"wrote {options.names}"


VERBS: dict[str, Callable[[argparse.Namespace], str]] = {
    "measure": _measure, "plot": _plot, "curves": lambda options: curves.as_text([_sweep(options)]), "draw": _draw, "once": _once, "roofline": _roofline,
    "once-batch": _once_batch, "batches": _batches, "tuner": _tuner,
    "shared": _shared,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _arguments().parse_args(arguments)
    try:
        text = VERBS[options.verb](options)
    except GemmgenError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
