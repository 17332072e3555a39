"""WMMAe's own benchmark: a batch of products of 1024 x k by k x 1024, against cuBLAS and a third of FP16's rate.

    python bench/strided.py --csv FILE
    python bench/strided.py --products 512x64x512x384,512x512x64x384 --ways bf16x6_apart:mixed,bf16x6_apart:prepass

Prints a line for each k: TFLOP/s of 2 M N K a product, everything included (the split pass, too), over those of cuBLAS SGEMM and of FP16 / 3, and the
errors of both against FP64. Contenders take turns, in a drawn order in each round; a figure is the median over rounds, timed by CUDA events. The operands
of a batch are larger than L2, so nothing is left there from one run to the next. Where the chip's power sets the clock, a contender is as fast as what
ran before it leaves it room for; `--rest` has the chip idle before each slice, so that all begin alike. With `--products`, batches of m x n x k x matrices
are raced by the kernels that the search takes for schemes and for where they split.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from statistics import median
from typing import Any

import numpy as np

from gemmgen import road, solve
from gemmgen.build import Built, build
from gemmgen.render import render
from gemmgen.timing.products import Multiplier

KS = (16, 32, 64, 128, 256, 512, 1024)
SLICE_SECONDS = 0.03
"""Of one contender in a round: long enough for the chip's power to settle."""


def enqueued(built: Built, a: Any, b: Any, c: Any) -> Callable[[], None]:
    """Every launch of a strided kernel on cupy arrays [batch, M, K], [batch, K, N] and [batch, M, N]."""
    return partial(Multiplier(built).into, c, a, b)


def sgemm(a: Any, b: Any, c: Any) -> Callable[[], None]:
    """cublasSgemmStridedBatched of the same, in FP32 throughout."""
    import cupy
    from cupy.cuda import cublas, device

    (batch, m, k), n = a.shape, b.shape[2]
    handle = device.get_cublas_handle()
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)

    def enqueue() -> None:
        cublas.setStream(handle, cupy.cuda.get_current_stream().ptr)
        cublas.setMathMode(handle, cublas.CUBLAS_DEFAULT_MATH)
        cublas.sgemmStridedBatched(  # column major: C^T = B^T A^T
            handle, cublas.CUBLAS_OP_N, cublas.CUBLAS_OP_N, n, m, k, one.ctypes.data, b.data.ptr, n, k * n, a.data.ptr, k, m * k, zero.ctypes.data,
            c.data.ptr, n, m * n, batch,
        )

    return enqueue


def raced(contenders: Mapping[str, Callable[[], None]], rounds: int, rest: float = 0.0) -> dict[str, float]:
    """Seconds of each: the median over rounds in which they take turns.

    Args:
        rest: seconds before each slice in which nothing runs.
    """
    import cupy

    def timed(run: Callable[[], None], count: int) -> float:
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        for _ in range(count):
            run()
        end.record()
        end.synchronize()
        return cupy.cuda.get_elapsed_time(begin, end) / 1e3 / count

    for run in contenders.values():
        run()
    counts = {name: max(2, int(SLICE_SECONDS / timed(run, 2))) for name, run in contenders.items()}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    rng = np.random.default_rng(0)
    for _ in range(rounds):
        for name in rng.permutation(list(contenders)):
            time.sleep(rest)
            seconds[name].append(timed(contenders[name], counts[name]))
    return {name: median(found) for name, found in seconds.items()}


def error(a: Any, b: Any, c: Any, entries: Sequence[int] = (0, -1)) -> float:
    """The largest relative Frobenius error of some products against FP64."""
    import cupy

    found = []
    for at in entries:
        want = a[at].astype(cupy.float64) @ b[at].astype(cupy.float64)
        found.append(float(cupy.linalg.norm(c[at] - want) / cupy.linalg.norm(want)))
    return max(found)


def spec(gpu: str, k: int, size: int = 1024, batch: int = 256) -> dict[str, Any]:
    return {
        "problem": {"kind": "strided", "m": size, "n": size, "k": k, "matrices": batch}, "split": {"scheme": "ootomo"}, "target": {"gpu": gpu},
    }


def by_ways(gpu: str, products: str, ways: str, rounds: int, choices: int) -> None:
    """Races the first kernels of each SCHEME:WHERE for each product, and prints a line for each."""
    import cupy

    for product in products.split(","):
        m, n, k, matrices = map(int, product.split("x"))
        a, b = (cupy.random.uniform(-1, 1, (matrices, *shape), dtype=cupy.float32) for shape in ((m, k), (k, n)))
        c = cupy.empty((matrices, m, n), cupy.float32)
        contenders, told = {"SGEMM": sgemm(a, b, c)}, {}
        for scheme, where in (way.split(":") for way in ways.split(",")):
            asked = {"problem": {"kind": "strided", "m": m, "n": n, "k": k, "matrices": matrices}, "split": {"scheme": scheme, "where": where},
                     "target": {"gpu": gpu}}
            for plan in islice(solve.choices(road.load(asked)), choices):
                name = f"{scheme} {where}, {plan.summary}"
                source = render(plan)
                contenders[name] = enqueued(Built(plan, source, build(source)), a, b, c)
                contenders[name]()
                told[name] = f"error {error(a, b, c):.1e}, predicted {1e6 * float(plan.model['seconds']):.0f} us"
        seconds = raced(contenders, rounds)
        for name in sorted(seconds, key=seconds.__getitem__):
            print(f"{product}  {seconds['SGEMM'] / seconds[name]:.2f} x SGEMM, {1e6 * seconds[name]:.1f} us, {told.get(name, '')}  {name}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gpu", default="h200", help="a row under specs/gpus")
    parser.add_argument("--ks", default=",".join(map(str, KS)))
    parser.add_argument("--size", type=int, default=1024, help="m and n")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--rest", type=float, default=0, help="milliseconds of nothing before each slice")
    parser.add_argument("--csv", help="the table as numbers")
    parser.add_argument("--products", help="batches to race, m x n x k x matrices each")
    parser.add_argument("--ways", default="bf16x6_apart:mixed,bf16x6_apart:prepass,run_scaled:prepass", help="SCHEME:WHERE of their kernels")
    parser.add_argument("--choices", type=int, default=3, help="kernels of each way")
    given = parser.parse_args()
    if given.products:
        return by_ways(given.gpu, given.products, given.ways, given.rounds, given.choices)
    import cupy
    import torch

    rng = cupy.random.default_rng(0)
    rows = []
    print("    k  x SGEMM  x FP16/3   TFLOP/s    SGEMM   FP16/3      error    SGEMM's  kernel", flush=True)
    for k in map(int, given.ks.split(",")):
        built = road.build(spec(given.gpu, k, given.size, given.batch))
        a, b = (2 * rng.random(shape, cupy.float32) - 1 for shape in ((given.batch, given.size, k), (given.batch, k, given.size)))
        c, theirs = (cupy.empty((given.batch, given.size, given.size), cupy.float32) for _ in range(2))
        half_a, half_b = (torch.as_tensor(x.astype(cupy.float16), device="cuda") for x in (a, b))
        half_c = torch.empty((given.batch, given.size, given.size), dtype=torch.float16, device="cuda")
        ours, sgemms = enqueued(built, a, b, c), sgemm(a, b, theirs)
        # All of them on one stream, cupy's and torch's default one.
        seconds = raced({"ours": ours, "sgemm": sgemms, "half": lambda: torch.bmm(half_a, half_b, out=half_c)}, given.rounds, given.rest / 1e3)
        flops = 2 * given.batch * given.size**2 * k / 1e12
        rates = {name: flops / one for name, one in seconds.items()}
        row = {
            "k": k, "of_sgemm": rates["ours"] / rates["sgemm"], "of_half": rates["ours"] / (rates["half"] / 3), "tflops": rates["ours"],
            "sgemm": rates["sgemm"], "half_third": rates["half"] / 3, "error": error(a, b, c), "error_sgemm": error(a, b, theirs),
            "kernel": built.plan.summary,
        }
        rows.append(row)
        print(f"{k:5d} {row['of_sgemm']:8.2f} {row['of_half']:9.2f} {row['tflops']:9.1f} {row['sgemm']:8.1f} {row['half_third']:8.1f} {row['error']:10.2e} "
              f"{row['error_sgemm']:10.2e}  {row['kernel']}", flush=True)
        del a, b, c, theirs, half_a, half_b, half_c, ours, sgemms
        cupy.get_default_memory_pool().free_all_blocks()
        torch.cuda.empty_cache()
    if given.csv:
        with open(given.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
