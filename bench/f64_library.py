"""A library's FP64, or complex numbers, beside cuBLAS's on this GPU, interleaved: what the library predicts, what both take, and their errors.

    gemmgen library wide -o wide
    python bench/f64_library.py wide --sizes 1024,2048,4096,8192
    python bench/f64_library.py pairs --type c64      # of a library with `type = "c64"`

The library has kernels of the type. Both multiply the same U[-1, 1] matrices in turn, layout nn, alpha 1, beta 0, with workspaces of the
library's own pool; the median of the rounds counts. Errors are relative in the Frobenius norm, of 48 rows and columns against exact products.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
from f64 import SAMPLE, medians

from gemmgen.catalog.element import C64, C128, ELEMENTS, F64, Element
from gemmgen.library import python
from gemmgen.verify.metrics import relative_frobenius


def raced(cupy: Any, lab: Any, element: Element, size: int, rounds: int) -> dict[str, Any]:
    """A row of the table."""
    cupy.random.seed(size)
    parts = [cupy.random.uniform(-1, 1, (size, size * element.reals)).astype(element.part.dtype) for _ in range(2)]
    a, b = (one.view(element.dtype) for one in parts)
    c, operations = cupy.empty((size, size), element.dtype), 2 * element.reals**2 * size**3
    ways = {"library": lambda: lab.matmul(a, b, c), "cuBLAS": lambda: cupy.matmul(a, b, out=c)}
    at = np.linspace(0, size - 1, SAMPLE).astype(int)
    exact = element.exact(a[at].get(), b[:, at].get())
    errors = {}
    for name, way in ways.items():
        c.fill(np.nan)
        way()
        errors[name] = relative_frobenius(*(np.ascontiguousarray(x).view(x.real.dtype) for x in (c[at][:, at].get(), exact)))  # of complex ones both parts
    times, _ = medians(cupy, ways, lambda one: rounds)
    choice = lab.select(size, size, size, dtype=element.dtype.name)
    return {
        "size": size, "kernel": choice.name, "workspace MB": choice.workspace_bytes / 1e6, "predicted ms": 1e3 * choice.seconds,
        "predicted cuBLAS ms": 1e3 * choice.sgemm_seconds, **{f"{name} ms": 1e3 * each for name, each in times.items()},
        **{f"{name} TFLOP/s": 1e-12 * operations / each for name, each in times.items()},
        **{f"{name} error": found for name, found in errors.items()}, "told to stay below": choice.error,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=Path, help="a library's folder")
    parser.add_argument("--type", default=F64.name, choices=[F64.name, C64.name, C128.name])
    parser.add_argument("--sizes", default="1024,2048,4096,8192")
    parser.add_argument("--rounds", type=int, default=15)
    told = parser.parse_args()
    import cupy

    sys.path.insert(0, str(python.compile_in_place(told.library)))
    lab = importlib.import_module(next(path.parent.name for path in (told.library / "python").glob("*/__init__.py")))
    rows = [raced(cupy, lab, ELEMENTS[told.type], int(size), told.rounds) for size in told.sizes.split(",")]
    print(f"| {' | '.join(rows[0])} |\n|{' --- |' * len(rows[0])}")
    for row in rows:
        print(f"| {' | '.join(f'{value:.3g}' if isinstance(value, float) else str(value) for value in row.values())} |")
    wrong = [row["size"] for row in rows if not row["library error"] <= row["told to stay below"]]
    print(f"{cupy.cuda.runtime.getDeviceProperties(0)['name'].decode()}, {told.rounds} rounds" + (f"; beyond what is told at {wrong}" if wrong else ""))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
