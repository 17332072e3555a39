"""The model's times beside the times that docs/results has, by class of product: kernels, the vendor's routines, and a library's table.

    python bench/estimates.py [--gpus h200,h100] [--worst 5] [--only TEXT] [--json FILE]
    python bench/estimates.py --fit
    python bench/estimates.py --library specs/libraries/general_h200.json

The first form reads stores (docs/results/*/*.parquet), small.csv, thin.csv, hopper_bench.csv and the tables of the pages, and predicts each time anew. Of
each class it prints the number of times, the median and the 90th percentile of |predicted / measured - 1|, the median of predicted / measured, and the share
of times that are predicted to be shorter than they are. The second form fits the constants of M24 to an H200's times of SGEMM and prints them: those of
`[measured.sgemm]`, and those of gemmgen/model/time.py. The third prints where the model and a library's table, whose estimates are fitted to
measured times, differ by more than 10 % in the time of the kernel that the table takes. No GPU is needed.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gemmgen.catalog.gpu import GPUS
from gemmgen.errors import GemmgenError
from gemmgen.kinds import kind_called
from gemmgen.model import time
from gemmgen.library.dispatch import load_table
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.verdict import native_seconds, sgemm_seconds, vendor_seconds_of
from gemmgen.workshop.explore.rebuilt import Predictions, kernel_of, timed_whole
from gemmgen.workshop.explore.store import Store
from gemmgen.workshop.fit.least import Unknown, least

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
DISAGREE = 0.1
"""Of a time: by more than that a table and the model are listed."""


class Timed(NamedTuple):
    """A measured time with what the model says of it.

    Attributes:
        of: the class.
        what: the kernel or routine, and the size.
        measured, predicted: seconds.
        size: m, n, k and products, of SGEMM.
    """

    of: str
    what: str
    measured: float
    predicted: float
    size: tuple[int, int, int, int] | None = None

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured


def shape(m: int, n: int, k: int, products: int = 1) -> str:
    """The class of a product by its extents."""
    if products > 1:
        return "batch, short k" if k <= 128 else "batch"
    if min(m, n) <= 128 < max(m, n):
        return "thin"
    if m * n * k <= 512**3:
        return "small"
    if k <= 256:
        return "short k"
    return "large" if m * n * k >= 6500**3 else "middle"


def named(m: int, n: int, k: int, products: int = 1) -> str:
    return (f"{products} of " if products > 1 else "") + f"{m} x {n} x {k}"


# ---- what was measured


def of_stores(gpus: Sequence[str]) -> Iterator[Timed]:
    """Kernels and cuBLAS's SGEMM in the stores."""
    for folder in sorted({path.parent for path in RESULTS.glob("*/*.parquet")}):
        kernels = defaultdict(list)
        for row in Store(str(folder)).rows("verdict = 'timed'"):
            if row.gpu in gpus and row.kind == "kernel" and timed_whole(row):
                kernels[kernel_of(row), row.gpu].append(row)
            elif row.gpu in gpus and row.kernel == "cublas-sgemm":
                yield of_sgemm(row.gpu, row.m, row.n, row.k, 1, row.seconds)
        predictions = Predictions()
        for rows in kernels.values():
            try:
                seconds = predictions.seconds(rows[0], np.array([(row.m, row.n, row.k) for row in rows]))
                plan = predictions.plan(rows[0])
            except GemmgenError:
                continue
            for row, predicted in zip(rows, seconds):
                size = row.m, row.n, row.k
                yield Timed(f"{row.gpu}: {plan.design.name}, {shape(*size)}", f"{row.kernel} at {named(*size)}", row.seconds, float(predicted))


def of_sgemm(gpu: str, m: int, n: int, k: int, products: int, seconds: float) -> Timed:
    found = sgemm_seconds(GPUS.get(gpu), m, n, k, products)
    return Timed(f"{gpu}: SGEMM, {shape(m, n, k, products)}", f"SGEMM at {named(m, n, k, products)}", seconds, found or float("nan"), (m, n, k, products))


def of_tables(gpus: Sequence[str]) -> Iterator[Timed]:
    """The files of comma-separated values."""
    if "h200" in gpus:
        for row in _rows("small.csv"):
            if row["contender"].startswith("sgemm"):
                yield of_sgemm("h200", *_size(row), 1, 1e-6 * float(row["us"]))
        for row in _rows("thin.csv"):
            if row["what"] == "cublasSgemm":
                yield of_sgemm("h200", *_size(row), 1, 1e-6 * float(row["us"]))
            elif row["what"] == "thin":
                tile = {name: [int(one) for one in row[name].split("x")] for name in ("block", "warp")}
                yield from of_spec("h200: thin", row["layout"], _size(row), 1e-6 * float(row["us"]), json.dumps({
                    "split": {"scheme": "fp32"}, "pipeline": {"design": "thin", "stages": int(row["stages"])},
                    "tile": {**tile, "split_k": int(row["slices"])}, "build": {"allow_spills": True}}))
    if "h100" in gpus:
        for row in _rows("hopper_bench.csv"):
            if row["name"] == "cublas-sgemm":
                yield of_sgemm("h100", *_size(row), 1, float(row["seconds"]))


def of_spec(of: str, layout: str, size: tuple[int, int, int], seconds: float, spec: str, products: int = 1) -> Iterator[Timed]:
    """A kernel of an H200 by its spec, which is JSON."""
    try:
        plan = _solved(layout, size, spec)
    except GemmgenError:
        return
    yield Timed(of, f"{plan.scheme.name} {plan.design.name} at {named(*size, products)}", seconds, float(plan.model["seconds"]))


@lru_cache(None)
def _solved(layout: str, size: tuple[int, int, int], spec: str):
    told = json.loads(spec)
    return solve(loads({**told, "problem": {**told.get("problem", {}), "layout": layout, **dict(zip("mnk", size))}, "target": {"gpu": "h200"}}, "estimates"))


def _rows(name: str) -> list[dict[str, str]]:
    with open(RESULTS / name, newline="") as file:
        return list(csv.DictReader(file))


def _size(row: dict[str, str]) -> tuple[int, int, int]:
    return int(row["m"]), int(row["n"]), int(row["k"])


def tables(page: str) -> Iterator[list[dict[str, str]]]:
    """The Markdown tables of a page, each as rows by the columns' heads."""
    for block in re.findall(r"(?:^\|.*\n)+", (RESULTS / page).read_text(), re.MULTILINE):
        lines = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in block.splitlines()]
        if len(lines) > 2 and len(set(lines[0])) == len(lines[0]):
            yield [dict(zip(lines[0], line)) for line in lines[2:] if len(line) == len(lines[0])]


def sizes(text: str) -> tuple[int, int, int, int] | None:
    """(m, n, k, products) of `384 of 512 x 64 x 512`, `1024^3`, `2048 x 2048 x 64`."""
    found = re.fullmatch(r"(?:(\d+) of )?(\d+)(?: x (\d+) x (\d+)|\^3)(?: n[nt])?", text)
    if not found:
        return None
    products, m, n, k = found.groups()
    return int(m), int(n or m), int(k or m), int(products or 1)


def _number(text: str) -> float | None:
    found = re.fullmatch(r"\d+(?:\.\d+)?", text.replace(",", ""))
    return float(found[0]) if found else None


SGEMM_PAGES = ("small.md", "library-calls.md")
VENDORS_CALLS = {"cublasSsyrk_v2": "syrk", "cublasSsyr2k_v2": "syr2k", "cublasStrmm_v2": "trmm", "cublasSsymm_v2": "symm", "cublasSgemm_v2": "gemm"}


def of_pages() -> Iterator[Timed]:
    """The tables of pages, of an H200."""
    for page in SGEMM_PAGES:
        for rows in tables(page):
            heads = list(rows[0])
            vendors = next((head for head in heads if head in ("SGEMM", "SGEMM, us", "SGEMM, µs")), None)
            for row in rows if vendors else ():
                rest = re.fullmatch(r"m, of m x (\d+) x (\d+)", heads[0])
                size = (int(row[heads[0]]), int(rest[1]), int(rest[2]), 1) if rest else sizes(row[heads[0]].removesuffix(" nn"))
                seconds = _number(row[vendors])
                if size and seconds:
                    yield of_sgemm("h200", *size, 1e-6 * seconds)
    for rows in tables("small.md"):
        for row in rows:
            size = sizes(next(iter(row.values())))
            for head in row:
                scheme, seconds = head.strip("`"), _number(row[head])
                if size and seconds and head in ("`run_scaled`", "`bf16x6_apart`"):
                    yield from of_scheme(scheme, *size, 1e-6 * seconds)
    for rows in tables("run_scales.md"):
        for row in rows:
            size = sizes(row.get("M x N x K", ""))
            for head in row:
                scheme, rate = head.strip("`"), _number(row[head])
                if size and rate and head in ("`ootomo`", "`run_scaled`"):
                    yield from of_scheme(scheme, *size, 2 * size[0] * size[1] * size[2] / rate / 1e12)
    for rows in tables("level3.md"):
        for row in rows:
            heads = list(row)
            if "cublasStrsm, us" in row:
                m, n = map(int, row[heads[0]].split(" x "))
                yield of_kind("trsm", m, n, m, 1, 1e-6 * float(row["cublasStrsm, us"]))
                spec = json.dumps({"problem": {"kind": "trsm"}, "split": {"scheme": "ootomo"}})
                yield from of_spec("h200: our TRSM", "nn", (m, n, m), 1e-6 * float(row["`trsm`, us"]), spec)
            elif "cublasStrsmBatched, us" in row:
                products, m, n = map(int, row[heads[0]].split(" x "))
                yield of_kind("trsm", m, n, m, products, 1e-6 * float(row["cublasStrsmBatched, us"]))
                spec = json.dumps({"problem": {"kind": "trsm", "matrices": products}, "split": {"scheme": "ootomo"}})
                yield from of_spec("h200: our TRSM, batches", "nn", (m, n, m), 1e-6 * float(row["`trsm`, us"]), spec, products)
            elif heads[0] == "call":
                for head, size in zip(heads[1:4], (2048, 4096, 8192)):
                    yield of_kind(VENDORS_CALLS[row["call"].strip("`")], size, size, size, 1, 1e-6 * float(row[head].split(",")[0]))
    for rows in tables("f64.md"):
        for row in rows:
            first, *heads = row
            for head in heads:
                size, rate = _number(head), _number(row[head].split(" ")[0])
                if not (first.startswith("TFLOP/s") and size and rate):
                    continue
                m, seconds = int(size), 2 * size**3 / rate / 1e12
                if row[first] == "cuBLAS FP64":
                    yield Timed("h200: native FP64", f"DGEMM at {named(m, m, m)}", seconds, native_seconds(GPUS.get("h200"), m, m, m))
                elif row[first] == "`residues14`" and m >= 2048 and "GEMMul8" in " ".join(one[first] for one in rows):  # the newest of the page
                    yield from of_spec("h200: FP64 by residues", "nn", (m, m, m), seconds, F64)


def of_scheme(scheme: str, m: int, n: int, k: int, products: int, seconds: float) -> Iterator[Timed]:
    """The kernel that the search takes of a scheme, for this size."""
    batch = {"kind": "strided", "matrices": products} if products > 1 else {}
    spec = json.dumps({"problem": batch, "split": {"scheme": scheme, "where": "prepass"}})
    yield from of_spec(f"h200: {scheme} of its size, {shape(m, n, k, products)}", "nn", (m, n, k), seconds, spec, products)


F64 = json.dumps({
    "problem": {"type": "f64"}, "split": {"scheme": "residues14"}, "fragment": {"policy": "wgmma"}, "pipeline": {"stages": 4},
    "tile": {"block": [128, 256, 128], "warp": [64, 256, 128], "cluster": 2, "group": 16}})
"""specs/kernels/f64_h200.toml, of other moduli where a table says so."""


def of_kind(kind: str, m: int, n: int, k: int, products: int, seconds: float) -> Timed:
    """The vendor's routine of a kind."""
    of = kind_called(kind)
    predicted = vendor_seconds_of(GPUS.get("h200"), of, m, n, k, products)
    if kind == "trsm":
        label = f"the vendor's TRSM{', batches' if products > 1 else ''}"
    else:
        label = f"SGEMM, {shape(m, n, k)}" if kind == "gemm" else "the vendor's level 3"
    return Timed(f"h200: {label}", f"{kind} at {named(m, n, k, products)}", seconds, predicted)


# ---- the vendor's constants

SHARED = ("FIRST_SECONDS", "OPERAND_SHARE", "VECTOR_SHARE")
"""Of gemmgen/model/time.py: of all GPUs."""
NOISE, PRIOR = 0.1, 0.5
"""Standard deviations of log(measured / predicted), and of how far a constant's logarithm may lie from its present value."""


def fit(times: Sequence[Timed]) -> None:
    """Prints the constants of M24 that predict these times of SGEMM best."""
    gpu = GPUS.get("h200")
    m, n, k, batch = np.array([one.size for one in times], float).T
    measured = np.array([one.measured for one in times])
    known = time.sgemm_numbers(gpu)
    base = {"share": gpu.measured.sgemm.share.value, "start_seconds": gpu.measured.sgemm.start_seconds.value} | {name: getattr(time, name) for name in SHARED}
    unknowns = [Unknown((), value, PRIOR, relative=True, high=1.0) for value in base.values()]

    def off(moved: np.ndarray) -> np.ndarray:
        now = {name: one.at(float(by)) for name, one, by in zip(base, unknowns, moved)}
        step = known["sgemm_step"] * base["share"] / now["share"] * np.where(np.minimum(m, n) > 1, 1.0, now["VECTOR_SHARE"] / base["VECTOR_SHARE"])
        numbers = known | {"M": m, "N": n, "K": k, "batch": batch, "sgemm_start": now["start_seconds"], "sgemm_first": now["FIRST_SECONDS"],
                           "sgemm_operand": known["sgemm_operand"] * now["OPERAND_SHARE"] / base["OPERAND_SHARE"], "sgemm_step": step}
        return np.log(time.SGEMM_SECONDS.value(numbers) / measured) / NOISE

    found = least(unknowns, off)
    for name, one, by, deviation in zip(base, unknowns, found.moved, found.deviations):
        print(f"{name:<15} {one.at(float(by)):.4g}, now {base[name]:.4g}, its logarithm known to {PRIOR * deviation:.2f}")
    errors = [np.abs(np.exp(NOISE * off(moved)) - 1) for moved in (np.zeros(len(unknowns)), found.moved)]
    print(f"{len(times)} times; median error {', '.join(f'{100 * np.median(one):.1f} %' for one in errors)} (now, fitted)")


# ---- tables


def summary(times: Sequence[Timed]) -> list[list[str]]:
    """By class: times, median and 90th percentile of the error, median of the ratio, share that is predicted too short."""
    found = []
    for of in sorted({one.of for one in times}):
        ratios = np.array([one.ratio for one in times if one.of == of])
        errors = np.abs(ratios - 1)
        found.append([of, str(len(ratios)), *(f"{100 * np.quantile(errors, at):.0f} %" for at in (0.5, 0.9)), f"{np.median(ratios):.2f}",
                      f"{100 * (ratios < 1).mean():.0f} %"])
    return found


def printed(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[at]) for row in (heads, *rows)) for at in range(len(heads))]
    print("| " + " | ".join(head.ljust(width) for head, width in zip(heads, widths)) + " |")
    print("| " + " | ".join("-" * (width - 1) + ("-" if not at else ":") for at, width in enumerate(widths)) + " |")
    for row in rows:
        print("| " + " | ".join(cell.rjust(width) if at else cell.ljust(width) for at, (cell, width) in enumerate(zip(row, widths))) + " |")


# ---- a library's table


def of_library(path: Path) -> None:
    """Prints the products at which the table's estimate of the kernel that it takes and the model differ by more than DISAGREE."""
    from short_k import SIZES

    table = load_table(path)
    parts = [part for part in table.parts if part.decided_by == "estimates"]
    for part in parts:
        kernels = [one for one in table.kernels.values() if (one.gpu, one.layout) == (part.gpu, part.layout)]
        rows = []
        for m, n, k, *more in SIZES:
            products = more[0] if more else 1
            mine = [one for one in kernels if (one.spec.get("problem", {}).get("kind") == "strided") == (products > 1)]
            taken = min(mine, key=lambda one: float(one.estimate.seconds(m, n, k, products)), default=None)
            if taken is None:
                continue
            try:
                problem = taken.spec.get("problem", {}) | {"layout": part.layout, "m": m, "n": n, "k": k, "matrices": products}
                plan = solve(loads({**taken.spec, "problem": problem, "target": {"gpu": part.gpu}}, path.name))
            except GemmgenError as error:
                print(f"{named(m, n, k, products)}: {error}", file=sys.stderr)
                continue
            told, predicted = float(taken.estimate.seconds(m, n, k, products)), float(plan.model["seconds"])
            if abs(np.log(predicted / told)) > np.log(1 + DISAGREE):
                rows.append([named(m, n, k, products), f"{1e6 * told:.1f}", f"{1e6 * predicted:.1f}", f"{predicted / told:.2f}",
                             f"{plan.scheme.name} {plan.design.name} {plan.where}"])
        print(f"\n{part.gpu}, layout {part.layout}: {len(rows)} of {len(SIZES)} products differ by more than {100 * DISAGREE:.0f} %")
        printed(("product", "table, us", "model, us", "model / table", "kernel"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=lambda text: text.split(","), default=["h200", "h100"], help="names under specs/gpus")
    parser.add_argument("--only", default="", help="classes whose name has this text")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="so many times of each class that are predicted worst")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every time")
    parser.add_argument("--fit", action="store_true", help="the constants of the vendor's SGEMM")
    parser.add_argument("--library", type=Path, metavar="TABLE", help="a library's dispatch table, held against the model")
    args = parser.parse_args()
    if args.library:
        return of_library(args.library)
    times = [*of_tables(args.gpus), *(of_pages() if "h200" in args.gpus else ()), *of_stores(args.gpus)]
    if args.fit:
        return fit([one for one in times if one.size and "SGEMM" in one.of and one.of.startswith("h200")])
    times = [one for one in times if args.only in one.of]
    if args.json:
        args.json.write_text(json.dumps([one._asdict() for one in times], indent=1))
    printed(("class", "times", "median error", "90th percentile", "predicted / measured", "predicted too short"), summary(times))
    for of in sorted({one.of for one in times}) if args.worst else ():
        print(f"\n{of}")
        for one in sorted((one for one in times if one.of == of), key=lambda one: -abs(np.log(one.ratio)))[: args.worst]:
            print(f"  {one.ratio:5.2f}  {1e6 * one.measured:10.2f} us, predicted {1e6 * one.predicted:10.2f}  {one.what}")


if __name__ == "__main__":
    sys.exit(main())
