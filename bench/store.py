"""Times of a large store: writing, merging, every ready-made question, and the report, of synthetic trials.

    python bench/store.py [--rows 1000000] [--trials 1000000] [--batch 1000] [--threads 2] [--rounds 3] [--report] [--folder FOLDER]

Each question is asked by a new Store, so that its time has the listing of the files and the reading of their footers in it; the time told is the median of
the rounds, and beside it what it took of all processors. A FOLDER is kept, and only asked where it was filled before. Nothing in the store was measured.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow

from gemmgen.workshop.explore.store import Store, compact, questions
from gemmgen.workshop.explore.store.parquet import content_of
from gemmgen.workshop.explore.store.places import Folder
from gemmgen.workshop.explore.store.writer import stamp, writer_id
from gemmgen.workshop.explore.trial_row import schema

GPUS = ["a100", "a800", "h100", "h200", "mi210", "mi300x", "b200", "rtx4090"]
SCHEMES = ["half", "bf16x3", "bf16x6", "bf16x9", "ootomo", "scaled", "markidis", "fp8x4", "int8x6", "tf32x3", "fp32", "mixed"]
LAYOUTS = ["nn", "nt", "tn", "tt"]
SIZES = [256, 384, 512, 768, 1000, 1024, 1536, 2048, 3000, 4096, 6144, 8192]
BLOCKS = ["64x64x32", "128x64x32", "128x128x32", "128x256x32", "256x128x64"]
VERDICTS = {"timed": 0.55, "modelled": 0.2, "refused": 0.12, "compiled": 0.05, "right": 0.03, "wrong": 0.02, "hung": 0.01, "died": 0.01, "failed": 0.01}
REASONS = {
    "refused": "C{a}: {b} registers a thread are more than 255", "wrong": "error {a}.{b}e-7 over its bound", "hung": "no answer in {a} s",
    "died": "the process ended with signal {a}", "failed": "out of memory: {a} MB",
}


def trials(count: int, first: int, distinct: int) -> pyarrow.Table:
    """That many rows, from a number on: candidates of 60 to 70 decisions' texts, at 8 GPUs, 4 layouts and 144 sizes, by two versions."""
    rng = np.random.default_rng(first)

    def of(values: list[str], p: list[float] | None = None) -> np.ndarray:
        return np.array(values, dtype=object)[rng.choice(len(values), count, p=p)]

    verdict = of(list(VERDICTS), list(VERDICTS.values()))
    timed = verdict == "timed"
    m, n, k = (rng.choice(SIZES, count) for _ in range(3))
    scheme, block, gpu = of(SCHEMES), of(BLOCKS), of(GPUS)
    predicted = 2.0 * m * n * k / 1e14 * rng.uniform(1, 3, count) + 4e-6
    seconds = np.where(timed, predicted * rng.lognormal(0.05, 0.2, count), np.nan)
    error = np.where(timed, 10.0 ** rng.uniform(-8, -3, count), np.nan)
    stages, split = rng.integers(2, 6, count), rng.choice([1, 2, 4], count)
    kernel = [f"gemmgen_{s}_mma_{b}_{h:08x}" for s, b, h in zip(scheme, block, rng.integers(0, 1 << 32, count))]
    spec = [
        json.dumps({"problem": {"layout": "nn", "m": int(x)}, "scheme": {"name": s, "promote": 128}, "tile": {"block": b, "stages": int(g), "split_k": int(q)}})
        for x, s, b, g, q in zip(m, scheme, block, stages, split)
    ]
    values = {
        "study": of(["tall", "square", "odd"]), "trial": [f"{(first + at) % distinct:016x}" for at in range(count)],
        "kind": of(["kernel", "rival", "reference"], [0.94, 0.04, 0.02]), "verdict": verdict, "kernel": kernel, "gpu": gpu, "m": m, "n": n, "k": k,
        "layout": of(LAYOUTS), "reason": [REASONS.get(v, "").format(a=a, b=a % 300) for v, a in zip(verdict, rng.integers(1, 900, count))],
        "at": np.datetime64("2026-01-01", "us") + (first + np.arange(count)) * np.timedelta64(300, "ms"),
        "writer": of([f"{one:016x}" for one in range(40)]), "generator": of(["0.1.0", "0.2.0"]), "spec": spec, "decided": spec,
        "identity": [one[-8:] for one in kernel], "scheme": scheme, "promote": np.full(count, 128), "block": block, "stages": stages, "split_k": split,
        "device": gpu, "compiler": of(["nvrtc 13.3", "clang 22.1.8"]), "data": of(["U[-1, 1]"]), "extra": of(["{}"]),
    }
    optional = {
        "seconds": seconds, "predicted_seconds": predicted, "spread": np.where(timed, rng.uniform(0, 0.05, count), np.nan), "error": error,
        "predicted_error": error * 1.5, "registers": rng.integers(40, 255, count), "predicted_registers": rng.integers(40, 255, count),
        "reference_seconds": seconds * 1.2, "compile_seconds": rng.uniform(0.3, 3, count),
    }
    columns = []
    for one in schema():
        if one.name in optional:
            columns.append(pyarrow.array(optional[one.name], from_pandas=True).cast(one.type))
        elif one.name in values:
            columns.append(pyarrow.array(values[one.name]).cast(one.type))
        else:
            columns.append(pyarrow.nulls(count, one.type) if one.nullable else pyarrow.array([""] * count).cast(one.type))
    return pyarrow.Table.from_arrays(columns, schema=schema())


def filled(folder: Path, rows: int, distinct: int, batch: int) -> float:
    """Write so many rows in batches, as writers do; seconds of the writing alone."""
    place, writer, spent = Folder(folder), writer_id(), 0.0
    for first in range(0, rows, 100_000):
        table = trials(min(100_000, rows - first), first, distinct)
        start = time.perf_counter()
        for at in range(0, table.num_rows, batch):
            place.put(f"{stamp()}-{writer}-{(first + at) // batch:06d}.parquet", content_of(table.slice(at, batch)))
        spent += time.perf_counter() - start
    return spent


def asked(folder: Path, rounds: int, threads: int) -> dict[str, tuple[float, float, float, int]]:
    """Median and greatest seconds of each question, the median of its processor seconds, and the rows of its answer."""
    found = {}
    for name, question in questions().items():
        taken, processor = [], []
        for _ in range(rounds):
            start, spent = time.perf_counter(), time.process_time()
            answer = Store(folder, threads=threads).answer(name, **dict(zip(question.parameters, ("0.1.0", "0.2.0"))))
            taken.append(time.perf_counter() - start)
            processor.append(time.process_time() - spent)
        found[name] = statistics.median(taken), max(taken), statistics.median(processor), answer.num_rows
    return found


def drawn(folder: Path, rounds: int) -> tuple[float, float, float, int]:
    """Median and greatest seconds of reading all rows and drawing their report, the median of its processor seconds, and its bytes."""
    from gemmgen.workshop.explore.report import report

    taken, processor, size = [], [], 0
    for _ in range(rounds):
        start, spent = time.perf_counter(), time.process_time()
        size = len(report(Store(folder, seconds=600).rows()).encode())
        taken.append(time.perf_counter() - start)
        processor.append(time.process_time() - spent)
    return statistics.median(taken), max(taken), statistics.median(processor), size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--trials", type=int, help="distinct ones, the others being tried again; default: all")
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--report", action="store_true", help="also draw the report, for which all rows are read into memory")
    parser.add_argument("--folder", help="an empty or new one, kept; default: a temporary one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(given.folder or temporary) / "store"
        lines, before = [], {}
        if not folder.exists():
            files = -(-given.rows // given.batch)
            lines.append(("write", filled(folder, given.rows, given.trials or given.rows, given.batch), f"{files} files"))
            before = asked(folder, 1, given.threads)
            start = time.perf_counter()
            done = compact(folder)
            lines.append(("merge", time.perf_counter() - start, f"into {len(done.made)} files"))
        store = Store(folder)
        rows = store.query("SELECT count(*) AS c FROM trials")["c"][0]
        size = sum(store.listing().files.values())
        after = asked(folder, given.rounds, given.threads)
        page = drawn(folder, given.rounds) if given.report else None
        print(f"{rows} rows, {size / 1e6:.0f} MB in {len(store.listing().files)} files; {os.cpu_count()} CPUs, {given.threads} threads, "
              f"load {os.getloadavg()[0]:.1f}\n")
    print("| | seconds | slowest round | processor seconds | |\n| --- | ---: | ---: | ---: | --- |")
    for name, seconds, what in lines:
        print(f"| {name} | {seconds:.2f} | | | {what} |")
    for name, (seconds, worst, processor, count) in after.items():
        earlier = f"; {before[name][0]:.2f} s before merging" if before else ""
        print(f"| {name} | {seconds:.2f} | {worst:.2f} | {processor:.2f} | {count} rows{earlier} |")
    if page:
        print(f"| report | {page[0]:.2f} | {page[1]:.2f} | {page[2]:.2f} | {page[3] / 1e6:.1f} MB |")


if __name__ == "__main__":
    main()
