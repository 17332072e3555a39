"""How fast a study is where no GPU is asked: candidates ranked, kernels compiled and their resources looked at.

    python bench/explore.py rank sgemm_h200
    python bench/explore.py compile --gpu a100
    python bench/explore.py compile --gpu mi210 --kernels 100
    python bench/explore.py choice docs/results/explore_h200

The first tells the seconds of a study's candidates, and of 200,000. The second compiles 1,000 kernels, or fewer, by as many processes as there are processors.
The third tells of each size of a store the fastest kernel over the first choice of the model, and over SGEMM.

Compiling starts with an empty cache unless --cache says which, and is done a second time out of it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import Counter, defaultdict
from math import exp, log

from gemmgen.workshop import explore


def rank(name: str) -> None:
    start = time.perf_counter()
    found = explore.study(name).candidates()
    seconds = time.perf_counter() - start
    print(f"{name}: {found.count:,} candidates, {len(found):,} of them feasible and ranked in {seconds:.2f} s; 200,000 feasible ones at this rate in "
          f"{seconds * 2e5 / len(found):.2f} s")


def compile_all(gpu: str, kernels: int, workers: int, cache: str | None) -> None:
    study = explore.study({
        "study": {"name": "compiled", "gpus": [gpu], "sizes": [1024, 4096, [64, 8192, 1024], [1000, 1000, 1000]], "strategy": "random", "trials": kernels},
        "space": {"split": {"scheme": ["half", "scaled", "ootomo"]}},
    })
    study.candidates()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["GEMMGEN_CACHE"] = cache or f"{folder}/cache"
        for what in ("compiled", "again, from the cache"):
            start = time.perf_counter()
            progress = study.run(f"{folder}/{what[:5]}", workers=workers)
            seconds = time.perf_counter() - start
            print(f"{gpu}, {workers} processes: {progress.done} kernels {what} in {seconds:.1f} s, {1000 * seconds / progress.done / 60:.1f} min for 1,000; "
                  f"{dict(progress.verdicts)}", flush=True)


def choice(store: str) -> None:
    from gemmgen.workshop.explore.store import Store

    fields = defaultdict(list)
    for row in Store(store).rows("verdict = 'timed'"):
        fields[row.gpu, row.m, row.n, row.k, row.layout].append(row)
    first, sgemm, tried = [], [], Counter()
    print(f"{'size':<20}{'kernels':>8}{'best us':>10}{'TFLOPS':>8}{'best / first':>14}{'best / SGEMM':>14}")
    for (_, m, n, k, layout), rows in sorted(fields.items(), key=lambda one: one[0][1] * one[0][2] * one[0][3]):
        kernels = [row for row in rows if row.kind == "kernel" and row.reference_seconds]
        # Each trial raced with the reference, the model's first choice: ratios within a race do not drift with the card's clock.
        best = max(kernels, key=lambda row: row.reference_seconds / row.seconds)
        ratio = best.reference_seconds / best.seconds
        rivals = [row.seconds / row.reference_seconds for row in rows if row.kind == "rival" and row.reference_seconds]
        first.append(ratio)
        tried[len(kernels)] += 1
        if rivals:
            sgemm.append(ratio * min(rivals))
        print(f"{f'{m}x{n}x{k} {layout}':<20}{len(kernels):>8}{1e6 * best.seconds:>10.4g}{best.tflops:>8.4g}{ratio:>14.3f}"
              + (f"{ratio * min(rivals):>14.2f}" if rivals else ""))
    mean = exp(sum(map(log, first)) / len(first))
    print(f"\ngeometric mean: the best is {100 * (mean - 1):.1f} % faster than the model's first choice"
          + (f", {exp(sum(map(log, sgemm)) / len(sgemm)):.2f} times as fast as SGEMM" if sgemm else ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("rank", "compile", "choice"))
    parser.add_argument("of", nargs="?", default="sgemm_h200")
    parser.add_argument("--gpu", default="a100")
    parser.add_argument("--kernels", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--cache")
    options = parser.parse_args()
    if options.what == "rank":
        rank(options.of)
    elif options.what == "compile":
        compile_all(options.gpu, options.kernels, options.workers, options.cache)
    else:
        choice(options.of)


if __name__ == "__main__":
    main()
