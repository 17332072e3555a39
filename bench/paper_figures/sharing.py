"""MixPert figure 12b: speed-up over SGEMM while several processes share the GPU, on a product whose k is the longest extent, as Sparkler's."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from paper_figures import curves
from paper_figures.common import Kernel, contenders, markdown, progress, saved

from gemmgen import timing
from gemmgen.picture import drawing

FORMAT = "gemmgen paper sharing 1"
SIZE = (2048, 2048, 16384)
NAMES = ("mixpert4_tile", "mixpert4", "bf16x6", "tf32x3")
PROCESSES = 6
SECONDS = 0.3
"""That every contender runs in, in each of the processes at once."""


def _worker(number: int, kernels: Sequence[Kernel], barrier: Barrier, results: Any) -> None:
    """One process: for every count of processes that it belongs to, each contender over and over until the time is over."""
    import cupy

    inputs = timing.Inputs(SIZE, l2_bytes=1)
    field = contenders({curves.SGEMM: "cublas-sgemm"}, kernels, inputs)
    for one in field:
        one.enqueue(0)
    cupy.cuda.Device().synchronize()
    for count in range(1, PROCESSES + 1):
        for one in field:
            barrier.wait()
            if number < count:
                start, done = time.perf_counter(), 0
                while time.perf_counter() - start < SECONDS:
                    one.enqueue(done)
                    one.enqueue(done + 1)
                    cupy.cuda.Device().synchronize()
                    done += 2
                results.put((count, one.name, done / (time.perf_counter() - start)))
    barrier.wait()


def measure(path: Path, gpu: str) -> dict:
    """Products a second of each contender in 1 to PROCESSES processes at once, summed over these, written to `path`.

    Raises:
        GemmgenError: no such GPU, or a kernel could not be built.
    """
    progress("compiling")
    kernels, refused = curves.built(gpu, NAMES)
    context = get_context("spawn")
    barrier, results = context.Barrier(PROCESSES), context.Queue()
    workers = [context.Process(target=_worker, args=(number, kernels, barrier, results), daemon=True) for number in range(PROCESSES)]
    for one in workers:
        one.start()
    told: dict[tuple[int, str], float] = {}
    expected = (1 + len(kernels)) * PROCESSES * (PROCESSES + 1) // 2
    for _ in range(expected):
        count, name, rate = results.get(timeout=60)
        told[count, name] = told.get((count, name), 0.0) + rate
    for one in workers:
        one.join()
    flops = 2.0 * SIZE[0] * SIZE[1] * SIZE[2]
    rows = [{"processes": count, "contestant": name, "tflops": rate * flops / 1e12} for (count, name), rate in sorted(told.items())]
    document = {"format": FORMAT, "device": timing.device_name(), "size": list(SIZE), "refused": refused, "rows": rows}
    path.write_text(json.dumps(document) + "\n")
    return document


def speed_ups(rows: Sequence[Mapping[str, Any]], name: str) -> list[tuple[int, float]]:
    """[(processes, times as fast as SGEMM in as many)]."""
    at = {(row["processes"], row["contestant"]): row["tflops"] for row in rows}
    return [(count, rate / at[count, curves.SGEMM]) for (count, one), rate in sorted(at.items()) if one == name]


def as_text(document: Mapping[str, Any]) -> str:
    counts = sorted({row["processes"] for row in document["rows"]})
    at = {(row["processes"], row["contestant"]): row["tflops"] for row in document["rows"]}
    lines = []
    for name in (curves.SGEMM, *NAMES):
        ratios = dict(speed_ups(document["rows"], name))
        lines.append([name, *(f"{at[count, name]:.1f} ({ratios[count]:.2f})" if (count, name) in at else "-" for count in counts)])
    size = "x".join(map(str, document["size"]))
    return f"MixPert figure 12b: {size}, TFLOP/s of all processes together (times as fast as SGEMM):\n\n" + markdown(["processes", *map(str, counts)], lines)


def draw(document: Mapping[str, Any], path: Path) -> Path:
    """Raises: DeviceError: matplotlib is not installed."""
    drawing()
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 3.8))
    for label, name in curves.MIXPERT.items():
        found = speed_ups(document["rows"], name)
        if found:
            axis.plot(*zip(*found), label=label, **{"marker": "o", "markersize": 4, **curves.LOOKS[name]})
    title = f"MixPert figure 12b: {'x'.join(map(str, document['size']))}, {document['device']}"
    axis.set(xlabel="processes on one GPU", ylabel="times as fast as SGEMM", title=title)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7)
    figure.tight_layout()
    return saved(figure, path)
