"""Batches of FP64 and of complex elements in one launch of each kernel, beside the vendor's own, and a loop over the entries.

    python bench/f64_batches.py --type f64 --batches 64x256,16x512,64x512,16x1024
    python bench/f64_batches.py --type c64 --scheme run_scaled
    python bench/f64_batches.py --kinds strided,pointers,grouped

A batch is strided, or its matrices are located by arrays of pointers, or each product has a record (`grouped`, real elements alone). The vendor's are
cupy.matmul, which is its strided routine, and cublasDgemmBatched (cublasCgemmBatched, cublasZgemmBatched), which takes arrays of pointers. The loop
launches the kernels of one product for each entry. Times are of all launches, by events, the median of the rounds, each contender in turn; layout
nn, U[-1, 1]. The last columns tell whether all batches have the bits of the loop, and their relative error against the vendor's products.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from f64 import drawn, launches, medians

from gemmgen import road
from gemmgen.catalog.element import ELEMENTS
from gemmgen.timing.blas import load_library


def vendors(cupy: Any, letter: str, a: Any, b: Any, c: Any) -> Callable[[], None]:
    """cuBLAS's product of arrays of pointers: row-major C = A B is column-major C^T = B^T A^T."""
    (count, m, k), n = a.shape, b.shape[-1]
    handle, library = ctypes.c_void_p(cupy.cuda.device.get_cublas_handle()), load_library()
    function = getattr(library, f"cublas{letter.upper()}gemmBatched")
    at = [cupy.asarray(x.data.ptr + np.arange(count, dtype=np.uint64) * x[0].nbytes) for x in (a, b, c)]
    first, second, out = (ctypes.c_void_p(x.data.ptr) for x in at)
    factors = [np.array([one], a.dtype) for one in (1, 0)]
    alpha, beta = (ctypes.c_void_p(one.ctypes.data) for one in factors)

    def call() -> None:
        code = function(handle, 0, 0, n, m, k, alpha, second, n, first, k, beta, out, n, count)
        if code or not (at and factors):  # which the call's addresses are of
            raise SystemExit(f"{function.__name__}: {code}")

    return call


def raced(cupy: Any, asked: argparse.Namespace, count: int, size: int) -> dict[str, Any]:
    """A row of the table."""
    element = ELEMENTS[asked.type]
    problem = {"type": asked.type, **dict.fromkeys("mnk", size)}
    rest = {"split": {"scheme": asked.scheme}, "target": {"gpu": asked.gpu}}
    batches = {kind: road.build({"problem": {**problem, "kind": kind, "matrices": count}, **rest}) for kind in asked.kinds.split(",")}
    alone = road.build({"problem": problem, **rest})
    a, b = (drawn(cupy, "uniform", (count * size, size), element).reshape(count, size, size) for _ in "ab")
    c, each, vendor = {kind: cupy.empty_like(a) for kind in batches}, cupy.empty_like(a), cupy.empty_like(a)
    steps = {kind: list(launches(batch, cupy, a, b, c[kind]).values()) for kind, batch in batches.items()}
    loop = [step for one in zip(a, b, each) for step in launches(alone, cupy, *one).values()]
    ways: dict[str, Callable[[], Any]] = {
        **{kind: lambda mine=mine: [step() for step in mine] for kind, mine in steps.items()}, "loop": lambda: [step() for step in loop],
        "vendor": lambda: cupy.matmul(a, b), "vendor by pointers": vendors(cupy, element.letter, a, b, vendor),
    }
    times, _ = medians(cupy, ways, lambda one: asked.rounds)
    want = cupy.matmul(a, b)
    return {
        "batch": f"{count} of {size}", "kernel": next(iter(batches.values())).plan.summary.split(", split")[0],
        **{f"{name}, us": round(1e6 * one, 1) for name, one in times.items()},
        "same bits": all(bool((one.view(cupy.uint8) == each.view(cupy.uint8)).all()) for one in c.values()),
        "error": f"{max(float(cupy.linalg.norm((one - want).ravel()) / cupy.linalg.norm(want.ravel())) for one in c.values()):.1e}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--type", default="f64", choices=["f64", "c64", "c128"])
    parser.add_argument("--scheme", default="residues14", help="for such elements")
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--kinds", default="strided", help="strided, pointers and grouped, one or several")
    parser.add_argument("--batches", default="64x256,16x512,64x512,16x1024", help="products and their size")
    parser.add_argument("--rounds", type=int, default=9)
    asked = parser.parse_args()
    import cupy

    rows = [raced(cupy, asked, *map(int, one.split("x"))) for one in asked.batches.split(",")]
    print(f"| {' | '.join(rows[0])} |\n|{' --- |' * len(rows[0])}")
    for row in rows:
        print(f"| {' | '.join(map(str, row.values()))} |")
    print(cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(), asked.rounds, "rounds")


if __name__ == "__main__":
    main()
