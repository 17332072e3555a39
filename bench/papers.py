"""The papers' figures, measured again with our kernels and their rivals.

    python bench/papers.py measure FILE.json [--sizes 1024,2048,4096,8192] [--gpu h100] [--rounds 15]
    python bench/papers.py plot FILE.json DIR
    python bench/papers.py curves FILE.json [--square 512,1024,2048,4096,8192,16384] [--skewed 1024,2048,4096] [--gpu h200] [--rounds 7] [--seconds 80]
    python bench/papers.py draw FILE.json --out DIR

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
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from paper_figures import curves, errors
from paper_figures.common import load, progress

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


def main(arguments: Sequence[str] | None = None) -> int:
    options = _arguments().parse_args(arguments)
    try:
        if options.verb == "measure":
            text = errors.as_text(errors.measure(options.file, squares(options.sizes), options.gpu, options.rounds))
        elif options.verb == "plot":
            document = load(options.file, errors.FORMAT, "measure")
            drawn = errors.plot(document, options.folder)
            progress("wrote " + (", ".join(map(str, drawn)) or "nothing: 1024, 4096 and 8192 were not measured"))
            text = errors.as_text(document)
        elif options.verb == "curves":
            text = curves.as_text([_sweep(options)])
        else:
            documents = [load(file, curves.FORMAT, "curves") for file in options.file]
            progress("wrote " + ", ".join(map(str, curves.draw(documents, options.out))))
            text = curves.as_text(documents)
    except GemmgenError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
