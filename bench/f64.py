"""FP64 by residues beside the vendor's FP64 product on this GPU, interleaved: times and errors.

    python bench/f64.py specs/kernels/f64_h200.toml --sizes 1024,2048,4096,8192 --schemes residues14,residues15

The spec's kernel multiplies at every size, with each scheme; with --chosen the kernel is the one that the model chooses at each size. Each contender multiplies the same matrices in turn, layout nn, alpha 1, beta 0, and the median of the rounds counts; times are of all launches of a product,
and of each alone: `norms`, `split` and `main`. Errors are relative in the Frobenius norm, against exact products of a sample of rows and columns: `uniform` is
U[-1, 1], `spread` magnitudes from 2^-20 to 2^20 of either sign, evenly in their logarithm.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gemmgen import road
from gemmgen.build import Built
from gemmgen.catalog.element import F64
from gemmgen.run import arguments
from gemmgen.run.cuda import CudaDevice
from gemmgen.solve.frontier import with_scheme
from gemmgen.verify.metrics import relative_frobenius

SAMPLE = 48
"""Rows and columns whose products are compared with exact ones."""


def launches(built: Built, cupy: Any, a: Any, b: Any, c: Any) -> list[Callable[[], None]]:
    """The kernel's launches for C = A B, in order."""
    (m, k), n = a.shape, b.shape[1]
    device, interface = CudaDevice(built.binary), built.source.interface
    extents, work = interface.extents(m, n, k), interface.workspace(m, n, k)
    space = cupy.empty(work.bytes, cupy.uint8)
    space[: work.zeroed].fill(0)
    memory = {(one.name, at): space[work.offsets[one.name] + at :] for one in interface.buffers for at in interface.places(one)}
    given = {"a": a, "b": b, "c": c, "m": m, "n": n, "k": k, "lda": k, "ldb": n, "ldc": n, "alpha": 1.0, "beta": 0.0}
    return [
        device.prepared(one.symbol, one.blocks(extents), one.threads, one.shared_bytes, arguments(one, given, memory), one.overlaps)
        for one in interface.launches
    ]


def seconds(cupy: Any, run: Callable[[], None]) -> float:
    """Of one run, by events."""
    events = cupy.cuda.Event(), cupy.cuda.Event()
    events[0].record()
    run()
    events[1].record()
    events[1].synchronize()
    return cupy.cuda.get_elapsed_time(*events) / 1e3


def drawn(cupy: Any, data: str, shape: tuple[int, int]) -> Any:
    if data == "uniform":
        return cupy.random.uniform(-1, 1, shape)
    return cupy.where(cupy.random.uniform(size=shape) < 0.5, -1.0, 1.0) * cupy.exp2(cupy.random.uniform(-20, 20, shape))


def race(kernels: dict[str, Built], size: int, most_seconds: float) -> dict[str, Any]:
    """Times and errors at one size."""
    import cupy

    cupy.random.seed(size)
    a, b = (drawn(cupy, "uniform", (size, size)) for _ in "ab")
    outputs = {name: cupy.empty((size, size)) for name in (*kernels, "native")}
    steps = {name: launches(built, cupy, a, b, outputs[name]) for name, built in kernels.items()}
    contenders: dict[str, Callable[[], Any]] = {name: lambda own=own: [step() for step in own] for name, own in steps.items()}
    contenders["native"] = lambda: cupy.matmul(a, b, out=outputs["native"])
    contenders |= {f"{name}, {role}": step for name, own in steps.items() for role, step in zip(("norms", "split", "main"), own)}
    for run in (*contenders.values(), *contenders.values()):
        run()
    round_seconds = sum(seconds(cupy, run) for run in contenders.values())
    rounds = max(5, min(25, int(most_seconds / round_seconds)))
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            times[name].append(seconds(cupy, run))
    found: dict[str, Any] = {
        "size": size, "rounds": rounds, "device": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "kernels": {name: built.plan.summary for name, built in kernels.items()},
        "workspace_bytes": {name: built.source.interface.workspace(size, size, size).bytes for name, built in kernels.items()},
        "seconds": {name: statistics.median(one) for name, one in times.items()},
        "predicted_seconds": {
            name: float(replace(built.plan, hints=replace(built.plan.hints, m=size, n=size, k=size)).model["seconds"]) for name, built in kernels.items()
        },
        "errors": {},
    }
    rng = np.random.default_rng(size)
    rows, columns = (np.sort(rng.permutation(size)[:SAMPLE]) for _ in "mn")
    for data in ("uniform", "spread"):
        if data == "spread":
            a[...], b[...] = drawn(cupy, data, a.shape), drawn(cupy, data, b.shape)
        for run in contenders.values():
            run()
        want = F64.exact(cupy.asnumpy(a[rows]), np.ascontiguousarray(cupy.asnumpy(b[:, columns])))
        found["errors"][data] = {name: relative_frobenius(cupy.asnumpy(c[rows][:, columns]), want) for name, c in outputs.items()}
    return found


def table(results: list[dict[str, Any]]) -> str:
    """TFLOP/s and errors as Markdown."""
    names = list(results[0]["seconds"])
    lines = ["| TFLOP/s | " + " | ".join(str(one["size"]) for one in results) + " |", "| --- |" + " ---: |" * len(results)]
    lines += ["| `" + name + "` | " + " | ".join(f"{2 * one['size'] ** 3 / one['seconds'][name] / 1e12:.1f}" for one in results) + " |" for name in names]
    for data in ("uniform", "spread"):
        lines += ["", f"| error, {data} | " + " | ".join(str(one["size"]) for one in results) + " |", "| --- |" + " ---: |" * len(results)]
        lines += ["| `" + name + "` | " + " | ".join(f"{one['errors'][data][name]:.1e}" for one in results) + " |" for name in results[0]["errors"][data]]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec", help="of elements of f64")
    parser.add_argument("--sizes", default="1024,2048,4096,8192", help="of square products")
    parser.add_argument("--schemes", default="residues14,residues15", help="for elements of f64")
    parser.add_argument("--chosen", action="store_true", help="leave the tile to the model")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each size's rounds")
    parser.add_argument("--json", type=Path, help="a file for all figures")
    asked = parser.parse_args()
    kernels = {name: road.build(with_scheme(road.load(asked.spec), name)) for name in asked.schemes.split(",")}
    gpu = next(iter(kernels.values())).plan.gpu.name
    results = []
    for size in map(int, asked.sizes.split(",")):
        if asked.chosen:
            kernels = {name: road.build({"problem": {"type": "f64", **dict.fromkeys("mnk", size)}, "split": {"scheme": name}}, gpu) for name in kernels}
        results.append(race(kernels, size, asked.seconds))
    print(table(results))
    for one in results:
        print(one["size"], one["device"], one["rounds"], "rounds;", {name: f"{1e3 * t:.3f} ms" for name, t in one["seconds"].items()},
              {name: f"predicted {1e3 * t:.3f} ms" for name, t in one["predicted_seconds"].items()},
              {name: f"workspace {size / 1e6:.0f} MB" for name, size in one["workspace_bytes"].items()}, one["kernels"])
    if asked.json:
        asked.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
