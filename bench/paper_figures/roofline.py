"""LE-GEMM figure 14: speed against the arithmetic intensity that a profiler counted, below the GPU's roofs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paper_figures import counted, curves
from paper_figures.common import markdown, saved

from gemmgen import timing
from gemmgen.catalog.gpu import GPUS
from gemmgen.picture import drawing

FORMAT = "gemmgen paper roofline 1"
DRAM, L2 = "dram__bytes.sum", "lts__t_bytes.sum"
METRICS = (DRAM, L2)


def once(path: Path, gpu: str, size: int) -> None:
    """Launch every contender of the curves once at one square size, for a profiler, and write their names to `path`."""
    kernels, _ = curves.built(gpu)
    inputs = timing.Inputs((size,) * 3, l2_bytes=1)
    field = curves.entrants(kernels, inputs)
    path.write_text(json.dumps(counted.launch_once({one.name: lambda one=one: one.enqueue(0) for one in field})) + "\n")


def joined(documents: Sequence[dict], counts: str, names: list[str], size: int) -> dict:
    """What was counted, with the speeds of the same size from documents of the curves."""
    launches = counted.read(counts, names)
    speeds = (row for one in documents for row in one["speeds"])
    speed = {row["contestant"]: row["tflops"] for row in speeds if (row["shape"], row["n"]) == ("n,n,n", size)}
    rows = []
    for name, found in launches.items():
        if name in speed:
            moved = {metric: sum(one[metric] for one in found) for metric in METRICS}
            rows.append({"contestant": name, "launches": len(found), "tflops": speed[name], "dram_bytes": moved[DRAM], "l2_bytes": moved[L2]})
    return {"format": FORMAT, "device": documents[0]["device"], "gpu": documents[0]["gpu"], "size": size, "rows": rows}


def intensity(row: Mapping[str, Any], size: int, of: str = "dram_bytes") -> float:
    """FLOPs of the product (2 M N K) a byte that was moved."""
    return 2 * size**3 / row[of]


def as_text(document: dict) -> str:
    size = document["size"]
    lines = [[row["contestant"], f"{row['tflops']:.1f}", f"{row['dram_bytes'] / 1e9:.2f}", f"{intensity(row, size):.0f}", f"{row['l2_bytes'] / 1e9:.1f}",
              f"{intensity(row, size, 'l2_bytes'):.0f}"] for row in document["rows"]]
    head = ["contestant", "TFLOP/s", "GB of device memory", "FLOP a byte", "GB through L2", "FLOP a byte of L2"]
    return f"LE-GEMM figure 14 at {size}^3, {document['device']}; bytes of all launches as ncu counted them:\n\n" + markdown(head, lines)


def draw(document: dict, path: Path) -> Path:
    """Raises: DeviceError: matplotlib is not installed."""
    drawing()
    import matplotlib.pyplot as plt

    size, rates = document["size"], GPUS.get(document["gpu"]).rates
    figure, axis = plt.subplots(figsize=(8, 5.5))
    memory = rates.dram_gb_per_s / 1e3
    points = [(intensity(row, size), row) for row in document["rows"]]
    left, right = 10.0, 2 * max(x for x, _ in points)
    half = rates.f16_tflops
    roofs = {"INT8 unit": rates.tensor_tflops("s8"), "FP16 unit": half, "FP16 unit / 3": half / 3, "FP16 unit / 4": half / 4, "FP32": rates.f32_tflops}
    for name, top in roofs.items():
        if top:
            axis.plot([top / memory, right], [top, top], color="grey", linewidth=0.8)
            axis.annotate(f"{name}, {top:.0f}", (right, top), (-4, 2), textcoords="offset points", fontsize=7, ha="right", color="grey")
    highest = max(filter(None, roofs.values()))
    axis.plot([left, highest / memory], [left * memory, highest], color="grey", linewidth=1.2)
    axis.annotate(f"device memory, {memory:.1f} TB/s", (left * 1.5, left * 1.5 * memory), (4, -10), textcoords="offset points", fontsize=7, color="grey")
    for x, row in points:
        look = {"marker": "o"} | {key: value for key, value in curves.LOOKS.get(row["contestant"], {}).items() if key in ("color", "marker")}
        hollow = "linestyle" in curves.LOOKS.get(row["contestant"], {})
        axis.scatter(x, row["tflops"], s=34, **{**look, **({"facecolors": "none", "edgecolors": look.get("color")} if hollow else {})}, label=row["contestant"])
    axis.set(xscale="log", yscale="log", xlim=(left, right), xlabel="2 M N K a byte of device memory", ylabel="TFLOP/s, passes included",
             title=f"LE-GEMM figure 14: empirical roofline at {size}^3, {document['device']}")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=6, loc="upper left", ncols=2)
    figure.tight_layout()
    return saved(figure, path)
