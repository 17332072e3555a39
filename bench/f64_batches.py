"""Strided batches of FP64 and of complex elements in one launch of each kernel, beside the vendor's own, and a loop over the entries.

    python bench/f64_batches.py --type f64 --batches 64x256,16x512,64x512,16x1024
    python bench/f64_batches.py --type c64 --scheme run_scaled

The loop launches the kernels of one product for each entry. Times are of all launches, by events, the median of the rounds, each contender in turn; layout
nn, U[-1, 1]. The last columns tell whether the batch has the bits of the loop, and its relative error against the vendor's products.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from f64 import drawn, launches, medians

from gemmgen import road
from gemmgen.catalog.element import ELEMENTS


def raced(cupy: Any, asked: argparse.Namespace, count: int, size: int) -> dict[str, Any]:
    """A row of the table."""
    element = ELEMENTS[asked.type]
    problem = {"type": asked.type, **dict.fromkeys("mnk", size)}
    rest = {"split": {"scheme": asked.scheme}, "target": {"gpu": asked.gpu}}
    batch = road.build({"problem": {**problem, "kind": "strided", "matrices": count}, **rest})
    alone = road.build({"problem": problem, **rest})
    a, b = (drawn(cupy, "uniform", (count * size, size), element).reshape(count, size, size) for _ in "ab")
    c, each = cupy.empty_like(a), cupy.empty_like(a)
    steps = list(launches(batch, cupy, a, b, c).values())
    loop = [step for one in zip(a, b, each) for step in launches(alone, cupy, *one).values()]
    ways: dict[str, Callable[[], Any]] = {
        "batch": lambda: [step() for step in steps], "loop": lambda: [step() for step in loop], "vendor": lambda: cupy.matmul(a, b),
    }
    times, _ = medians(cupy, ways, lambda one: asked.rounds)
    want = cupy.matmul(a, b)
    return {
        "batch": f"{count} of {size}", "kernel": batch.plan.summary.split(", split")[0],
        **{f"{name}, us": round(1e6 * one, 1) for name, one in times.items()},
        "same bits": bool((c.view(cupy.uint8) == each.view(cupy.uint8)).all()),
        "error": f"{float(cupy.linalg.norm((c - want).ravel()) / cupy.linalg.norm(want.ravel())):.1e}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--type", default="f64", choices=["f64", "c64", "c128"])
    parser.add_argument("--scheme", default="residues14", help="for such elements")
    parser.add_argument("--gpu", default="h200")
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
