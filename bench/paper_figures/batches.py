"""BatchGEMM figures 4 to 11, from what `gemmgen bench`, `bench/tiling.py` and a profiler printed."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Any

from paper_figures import counted
from paper_figures.common import markdown, saved

from gemmgen.errors import SpecError
from gemmgen.picture import drawing

LOOP, LISTED = "cublas-loop", "batch_listed_h200"
ACTIVE, LIMIT = "sm__warps_active.avg.pct_of_peak_sustained_active", "sm__maximum_warps_per_active_cycle_pct"
"""Of an SM that has a block, warps at work, and those that the launch's resources allow, in percent of 64: BatchGEMM eq. 12 counts the latter."""


def times(text: str) -> list[dict[str, Any]]:
    """Rows {cell, batch, contender: microseconds} of the table `microseconds` that `gemmgen bench` prints; columns end where their names do.

    Raises:
        SpecError: it has no such table.
    """
    found = re.search(r"^microseconds\n(.+)\n((?:.+\n)+)", text, re.M)
    if not found:
        raise SpecError("batches", "has no table of microseconds", needs="what `gemmgen bench` printed")
    ends = [(m[0], m.end()) for m in re.finditer(r"\S+", found[1])]
    rows = []
    for line in found[2].splitlines():
        row: dict[str, Any] = {}
        for (name, end), before in zip(ends, [0, *(end for _, end in ends)]):
            cell = line[before:end].strip()
            if cell:
                row[name] = cell if name == "cell" else int(cell) if name == "batch" else float(cell)
        rows.append(row)
    return rows


def geometric_mean(values: Iterable[float]) -> float:
    return exp(fmean(log(value) for value in values))


def over_loop(rows: Sequence[Mapping[str, Any]], name: str) -> dict[int, float]:
    """{batch: times as fast as the cuBLAS loop, geometric mean over the ranges} (figures 4 and 5)."""
    return _by_batch(rows, LOOP, name)


def _by_batch(rows: Sequence[Mapping[str, Any]], slower: str, faster: str) -> dict[int, float]:
    batches = sorted({row["batch"] for row in rows})
    both = {batch: [row[slower] / row[faster] for row in rows if row["batch"] == batch and slower in row and faster in row] for batch in batches}
    return {batch: geometric_mean(found) for batch, found in both.items() if found}


def new_over_old(rows: Sequence[Mapping[str, Any]], new: str, old: str) -> dict[int, float]:
    """{batch: times as fast with eq. 4's TLP as with eq. 3's} (figures 8 and 9)."""
    return _by_batch(rows, old, new)


def latency(rows: Sequence[Mapping[str, Any]], name: str) -> dict[int, float]:
    """{batch: microseconds, geometric mean over the ranges} (figure 10)."""
    batches = sorted({row["batch"] for row in rows})
    return {batch: geometric_mean(row[name] for row in rows if row["batch"] == batch and name in row) for batch in batches}


def modules(rows: Sequence[Mapping[str, Any]], name: str) -> dict[str, float]:
    """{Inception module: times as fast as the loop} (figure 11)."""
    found = {}
    for row in rows:
        module = re.fullmatch(r"inception module (\d+)", row["cell"])
        if module and name in row:
            found[module[1]] = row[LOOP] / row[name]
    return found


def tiling_shares(text: str, rows: Sequence[Mapping[str, Any]], kernel: str) -> dict[tuple[int, int], tuple[float, float]]:
    """{(batch, largest M and N): (microseconds of the list on the host, share of list and kernel together)} (figure 7).

    Args:
        text: what `bench/tiling.py` printed of one spec.
        rows: times of the same kernel on the ranges with K up to 1024.
    """
    taken = {(row["batch"], int(row["cell"].split()[-1].split("x")[0])): row[kernel] for row in rows if row["cell"].endswith("x1024") and kernel in row}
    found = {}
    for row in csv.DictReader(text.splitlines()):
        key, host = (int(row["batch"]), int(row["largest m and n"])), float(row["microseconds"])
        if row["spec"] == kernel and key in taken:
            found[key] = host, host / (host + taken[key])
    return found


def occupancies(text: str, names: list[str]) -> dict[str, tuple[float, float]]:
    """{contender: (warps at work, warps that fit) of 64, each launch weighted alike} (figure 6)."""
    return {name: (fmean(one[ACTIVE] for one in found) / 100, fmean(one.get(LIMIT, float("nan")) for one in found) / 100)
            for name, found in counted.read(text, names).items() if found}


ONCE = {"batch_listed_h200": "batch_listed_h200", "batch_h200": "batch_h200", "fp32_paper": "batchgemm_a800"}
RIVALS = (LOOP, "cublas-grouped", "cublas-batched-padded", "torch-bmm-padded")
"""What is launched for a profiler: kernels by their specs, and rivals."""
BATCH, BOUNDS = 64, (256, 256)


def once(path: Path, gpu: str) -> None:
    """Multiply one of the paper's batches with each contender once, for a profiler, and write their names to `path`."""
    import cupy

    from gemmgen import road
    from gemmgen.paths import SPECS
    from gemmgen.spec import load
    from gemmgen.timing.batch_contender import contender
    from gemmgen.timing.batches import DeviceBatch, cells
    from gemmgen.timing.batches import rivals as known

    racers = {name: contender(road.build(load(SPECS / "kernels" / f"{spec}.toml").on(gpu))) for name, spec in ONCE.items()}
    racers |= {name: known()[name] for name in RIVALS}
    [cell] = [one for one in cells(["paper"], [BATCH]) if one.bounds == BOUNDS]
    with cupy.cuda.Stream(non_blocking=True):
        device = DeviceBatch(cell.products, sets=1)
        cupy.cuda.Device().synchronize()
        path.write_text(json.dumps(counted.launch_once({name: racer.prepare(device, 0) for name, racer in racers.items()})) + "\n")


# ---- tables and pictures

SHOWN = {"batch_listed_h200": "a block for each tile", "batch_h200": "persistent", "fp32_paper": "FP32, Table 3", "cublas-grouped": "cuBLAS grouped",
         "cublas-batched-padded": "cuBLAS batched, padded", "torch-bmm-padded": "torch.bmm, padded"}
LOOKS = {"batch_listed_h200": "C3", "batch_h200": "C2", "fp32_paper": "C0", "cublas-grouped": "black", "cublas-batched-padded": "0.5",
         "torch-bmm-padded": "0.7"}
TLP = (("fp32_paper", "fp32_paper_old_tlp", "FP32, Table 3"), ("batch_listed_h200", "listed_old_tlp", "matrix unit"))


def as_text(ranges: Sequence[Mapping[str, Any]], layers: Sequence[Mapping[str, Any]]) -> str:
    batches = sorted({row["batch"] for row in ranges})
    lines = [[label, *(f"{found[batch]:.2f}" for batch in batches)] for name, label in SHOWN.items() for found in [over_loop(ranges, name)] if found]
    title = "BatchGEMM figures 4 and 5: times as fast as the cuBLAS loop, geometric means over twelve ranges"
    parts = [f"{title}:\n\n" + markdown(["batch", *map(str, batches)], lines)]
    lines = [[label, *(f"{found[batch]:.3f}" for batch in batches), f"{geometric_mean(found.values()):.3f}"]
             for new, old, label in TLP for found in [new_over_old(ranges, new, old)] if found]
    if lines:
        parts.append("Figures 8 and 9: eq. 4's TLP against eq. 3's, times as fast:\n\n" + markdown(["batch", *map(str, batches), "all"], lines))
    named = [name for name in SHOWN if modules(layers, name)]
    lines = []
    for name in named:
        found = modules(layers, name)
        lines.append([SHOWN[name], *(f"{value:.2f}" for value in found.values()), f"{geometric_mean(found.values()):.2f}"])
    if lines:
        parts.append("Figure 11: Inception modules, times as fast as the loop:\n\n" + markdown(["module", *modules(layers, named[0]), "all"], lines))
    return "\n\n".join(parts)


def overhead_text(shares: Mapping[tuple[int, int], tuple[float, float]]) -> str:
    lines = [[str(batch), str(most), f"{host:.2f}", f"{share:.1%}"] for (batch, most), (host, share) in sorted(shares.items())]
    return "Figure 7: the list of tiles made on the host:\n\n" + markdown(["batch", "largest M, N", "us of the list", "share of list and kernel"], lines)


def occupancy_text(found: Mapping[str, tuple[float, float]]) -> str:
    lines = [[SHOWN.get(name, name), f"{active:.3f}", f"{limit:.3f}"] for name, (active, limit) in found.items()]
    return "Figure 6: share of the 64 warps of an SM, as ncu counts them:\n\n" + markdown(["contender", "active", "what the launch allows (eq. 12)"], lines)


def draw(
    ranges: Sequence[Mapping[str, Any]], layers: Sequence[Mapping[str, Any]], device: str, path: Path, *,
    shares: Mapping[tuple[int, int], tuple[float, float]] | None = None, active: Mapping[str, tuple[float, float]] | None = None,
) -> Path:
    """Figures 4 and 5, 6, 7, 8 and 9, 10, 11, a panel each, as far as they are given.

    Raises:
        DeviceError: matplotlib is not installed.
    """
    drawing()
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(14, 7.6))
    figure.suptitle(f"BatchGEMM's figures on {device}", fontsize=10)
    speed, occupancy, overhead, tlp, waiting, inception = axes.flat
    for name, label in SHOWN.items():
        for axis, found in ((speed, over_loop(ranges, name)), (waiting, latency(ranges, name))):
            if found:
                axis.plot([str(batch) for batch in found], list(found.values()), marker="o", markersize=3.5, label=label, color=LOOKS[name])
        if found := modules(layers, name):
            inception.plot(list(found), list(found.values()), marker="o", markersize=3.5, label=label, color=LOOKS[name])
    for new, old, label in TLP:
        if found := new_over_old(ranges, new, old):
            tlp.plot([str(batch) for batch in found], list(found.values()), marker="o", markersize=3.5, label=label)
    tlp.axhline(1.085, color="grey", linestyle=":", label="paper, A800, mean")
    _bars(occupancy, active or {})
    _overhead(overhead, shares or {})
    waiting.set_yscale("log")
    faster = "times as fast as the cuBLAS loop"
    for axis, title, across, up in (
        (speed, "figures 4 and 5: ranges, geometric means", "batch", faster), (occupancy, "figure 6", "", "share of the 64 warps of an SM"),
        (overhead, "figure 7: the list of tiles", "batch", "% of list and kernel"), (tlp, "figures 8 and 9: eq. 4 against eq. 3", "batch", "times as fast"),
        (waiting, "figure 10: ranges, geometric means", "batch", "microseconds"), (inception, "figure 11", "Inception module", faster),
    ):
        axis.set_title(title, fontsize=9)
        axis.set_xlabel(across, fontsize=8)
        axis.set_ylabel(up, fontsize=8)
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.3)
        if axis.get_legend_handles_labels()[1]:
            axis.legend(fontsize=6)
    figure.tight_layout()
    return saved(figure, path)


def _bars(axis: Any, found: Mapping[str, tuple[float, float]]) -> None:
    places = range(len(found))
    axis.bar([at - 0.2 for at in places], [active for active, _ in found.values()], 0.4, label="active")
    axis.bar([at + 0.2 for at in places], [limit for _, limit in found.values()], 0.4, label="what the launch allows", color="0.7")
    axis.set_xticks(list(places), [SHOWN.get(name, name) for name in found], rotation=25, ha="right")


def _overhead(axis: Any, shares: Mapping[tuple[int, int], tuple[float, float]]) -> None:
    for most in sorted({most for _, most in shares}):
        points = [(str(batch), 100 * share) for (batch, large), (_, share) in sorted(shares.items()) if large == most]
        axis.plot(*zip(*points), marker="o", markersize=3.5, label=f"M, N up to {most}")
