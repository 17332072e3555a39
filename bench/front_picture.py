"""The README's picture: accuracy against speed of the schemes, cuBLAS, Triton and GEMMul8, from what docs/results records of one H200.

    python bench/front_picture.py docs/pictures/accuracy_speed.svg

It reads the race at 4096 x 4096 x 4096 of docs/results/frontier_h200.txt, and GEMMul8's time and error from docs/results/residues.md, and needs no GPU. The
same records give the same bytes.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from html import escape
from math import log10
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
SIZE = 4096
WIDTH, HEIGHT = 760, 430
LEFT, RIGHT, TOP, BOTTOM = 74, 20, 46, 54
SPEEDS, ERRORS = (36, 900), (1.4e-8, 1e-3)
"""The ends of both axes: TFLOP/s, relative Frobenius error."""

# Name in the record: what the picture calls it, and where the text begins beside the point.
LABELS = {
    "cublas-sgemm": ("cuBLAS SGEMM", 0, 18, "middle"),
    "cublas-f16": ("cuBLAS FP16", 0, -9, "middle"),
    "triton-bf16x6": ("Triton bf16x6", 9, -3, "start"),
    "triton-tf32x3": ("Triton tf32x3", 2, 17, "middle"),
    "gemmul8-8": ("GEMMul8, 8 moduli (another race)", 0, -9, "middle"),
    "mixpert1": ("mixpert1", 9, 4, "start"),
    "f16_s8, 64, compensated": ("f16_s8", 9, 4, "start"),
    "mixpert_triangle": ("mixpert_triangle", 9, 7, "start"),
    "scaled, 64": ("scaled", 9, -2, "start"),
    "ootomo, 64, compensated": ("ootomo, compensated", 9, 0, "start"),
    "residues8": ("residues8", 9, 4, "start"),
    "f16x6, 64, compensated": ("f16x6", -9, 4, "end"),
}


@dataclass(frozen=True)
class Point:
    """What ran at SIZE: TFLOP/s with all passes, and the relative Frobenius error on U[-1, 1]."""

    name: str
    tflops: float
    error: float

    @property
    def is_rival(self) -> bool:
        return self.name.startswith(("cublas", "triton", "gemmul8"))


def points(record: str) -> list[Point]:
    """Every row of the record's race at SIZE that has an error."""
    part = record.partition(f"\n{SIZE}x{SIZE}x{SIZE}\n")[2].partition("\n\n")[0]
    rows = re.findall(r"^(\S.*?) {2,}[\d.]+ +([\d.]+) +[\d.]+ +[\d.]+ +(\d\.\de-\d\d)", part, re.M)
    return [Point(name, float(tflops), float(error)) for name, tflops, error in rows]


def gemmul8(record: str) -> Point:
    """GEMMul8's product at SIZE with eight moduli, its fast mode, as the page on residues has it."""
    sizes, row = (re.search(rf"^\| {start}(.*?) \|$", record, re.M)[1].split(" | ") for start in (r"TFLOP/s \(error\) \| ", r"GEMMul8, 8 moduli, fast \| "))
    speed, error = row[sizes.index(str(SIZE))].rstrip(")").split(" (")
    return Point("gemmul8-8", float(speed), float(error))


def across(tflops: float) -> float:
    low, high = map(log10, SPEEDS)
    return LEFT + (log10(tflops) - low) / (high - low) * (WIDTH - LEFT - RIGHT)


def down(error: float) -> float:
    """Small errors are at the top."""
    low, high = map(log10, ERRORS)
    return TOP + (log10(error) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)


def text(x: float, y: float, said: str, kind: str = "", anchor: str = "middle", turned: bool = False) -> str:
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    of = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{of}{turn}>{escape(said)}</text>'


def picture(found: list[Point]) -> str:
    sgemm = next(point for point in found if point.name == "cublas-sgemm")
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Accuracy against speed on an H200">',
        "<style>",
        "text { font: 13px system-ui, sans-serif; fill: #1f2328 } .small { font-size: 12px; fill: #59636e } .head { font-weight: 600 }",
        ".back { fill: #ffffff } .grid { stroke: #d1d9e0 } .good { fill: #1a7f37; opacity: 0.09 }",
        ".ours { fill: #1a7f37 } .rest { fill: #1a7f37; opacity: 0.3 }",
        ".rival { fill: #cf222e } text.ours { fill: #116329 } text.rival { fill: #a40e26 }",
        "</style>",
        f'<rect class="back" width="{WIDTH}" height="{HEIGHT}"/>',
        text(LEFT, 20, f"Accuracy against speed, {SIZE} x {SIZE} x {SIZE}, one H200", "head", "start"),
        text(LEFT, 37, "Times include all passes. Green: gemmgen's schemes. Red: others. Better is up and to the right.", "small", "start"),
        f'<rect class="good" x="{across(sgemm.tflops):.1f}" y="{TOP}" width="{WIDTH - RIGHT - across(sgemm.tflops):.1f}" '
        f'height="{down(sgemm.error) - TOP:.1f}"/>',
    ]
    for tflops in (50, 100, 200, 400, 800):
        lines += [f'<line class="grid" x1="{across(tflops):.1f}" x2="{across(tflops):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>',
                  text(across(tflops), HEIGHT - BOTTOM + 18, str(tflops), "small")]
    for power in range(-7, -2):
        error = 10.0**power
        lines += [f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{down(error):.1f}" y2="{down(error):.1f}"/>',
                  text(LEFT - 8, down(error) + 4, f"1e{power}", "small", "end")]
    lines += [
        text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "TFLOP/s (2 M N K / time)", "small"),
        text(18, (TOP + HEIGHT - BOTTOM) / 2, "relative Frobenius error against FP64", "small", turned=True),
        text(WIDTH - RIGHT - 6, down(sgemm.error) - 7, "faster and more accurate than cuBLAS SGEMM", "small", "end"),
    ]
    for point in sorted(found, key=lambda point: point.name in LABELS):
        kind = "rival" if point.is_rival else "ours" if point.name in LABELS else "rest"
        lines.append(f'<circle class="{kind}" cx="{across(point.tflops):.1f}" cy="{down(point.error):.1f}" r="{4 if kind == "rest" else 5}"/>')
    for point in found:
        if point.name in LABELS:
            said, right, below, anchor = LABELS[point.name]
            lines.append(text(across(point.tflops) + right, down(point.error) + below, said, "rival" if point.is_rival else "ours", anchor))
    return "\n".join([*lines, "</svg>", ""])


def drawn() -> str:
    found = [point for point in points((RESULTS / "frontier_h200.txt").read_text()) if ERRORS[0] <= point.error <= ERRORS[1]]
    return picture([*found, gemmul8((RESULTS / "residues.md").read_text())])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", type=Path, help="the .svg file to write")
    parser.parse_args().path.write_text(drawn())
