"""BatchGEMM's figure 3: how fast FP32 kernels of one tile are on so many threads, for each size of tile; and how many warps they keep active.

    python bench/threads_by_tile.py --out DIR
    python bench/threads_by_tile.py --once
    python bench/threads_by_tile.py --list

The first writes threads_by_tile.csv and .png and prints the table, the second launches each kernel once, for a profiler, the third tells the kernels and the occupancy that
the model predicts, without a GPU. Each kernel is one of the grouped design with a single tile in its table and a block for each tile of C (`walk = "workgroups"`). All of them multiply one batch, large enough
to fill the GPU, in one interleaved race. Active warps are BatchGEMM eq. 12's: the model predicts them from the compiler's registers, and ncu counts them with

    ncu -k regex:gemmgen --metrics sm__warps_active.avg.pct_of_peak_sustained_active --csv python bench/threads_by_tile.py --once
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

from gemmgen import road
from gemmgen.errors import GemmgenError
from gemmgen.spec import loads
from gemmgen.verify import resources

TILES, THREADS, DEPTH = (16, 32, 64, 128), (64, 128, 256, 512), 16
PRODUCTS, EXTENT = 256, 256


def spec(tile: int, threads: int, gpu: str, scheme: str) -> dict[str, Any]:
    return {
        "problem": {"kind": "grouped", "m": EXTENT, "n": EXTENT, "k": EXTENT, "matrices": PRODUCTS}, "split": {"scheme": scheme},
        "batch": {"walk": "workgroups", "tiles": [[tile, tile, DEPTH, threads]]}, "target": {"gpu": gpu}, "build": {"allow_spills": True},
    }


def kernels(gpu: str, scheme: str) -> tuple[dict[str, Any], list[str]]:
    """(what can be built by name, why others cannot)."""
    found, refused = {}, []
    for tile in TILES:
        for threads in THREADS:
            name = f"{tile}x{tile}-{threads}"
            try:
                found[name] = road.build(loads(spec(tile, threads, gpu, scheme)))
            except GemmgenError as error:
                refused.append(f"{name}: {error.problem}: {error.got}")
    return found, refused


def used(built: Any) -> Any:
    """What the compiler gave the kernel; its `occupancy.fraction` is BatchGEMM eq. 12."""
    return resources(built.plan, built.source, built.binary)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--gpu", default="h200")
    asked.add_argument("--scheme", default="fp32")
    asked.add_argument("--out", type=Path, default=Path())
    asked.add_argument("--once", action="store_true")
    asked.add_argument("--list", action="store_true")
    asked.add_argument("--rounds", type=int, default=11)
    asked.add_argument("--seconds", type=float, default=20)
    options = asked.parse_args()
    built, refused = kernels(options.gpu, options.scheme)
    print(*(f"not built: {line}" for line in refused), sep="\n")
    if options.list:
        for name, one in built.items():
            print(f"{name:12s} {one.source.name:44s} {used(one).registers:4d} registers  {used(one).occupancy.fraction:.3f} of the warps")
        return
    from gemmgen.timing.batch_contender import contender
    from gemmgen.timing.batches import Cell, DeviceBatch, Product
    from gemmgen.workshop.bench import as_text, bench_batches

    products = (Product(EXTENT, EXTENT, EXTENT),) * PRODUCTS
    racers = {name: contender(one) for name, one in built.items()}
    if options.once:
        import cupy

        with cupy.cuda.Stream(non_blocking=True) as stream:
            batch = DeviceBatch(products, sets=1)
            cupy.cuda.Device().synchronize()
            for racer in racers.values():
                racer.prepare(batch, 0)()
            stream.synchronize()
        return
    table = bench_batches(racers, [Cell("uniform", f"{EXTENT}^3", products)], against=("cublas-grouped", "cublas-strided"), rounds=options.rounds, seconds=options.seconds)
    print(as_text(table))
    rate = {row.name: row.gflops / 1e3 for row in table.rows}
    print(f"\nTFLOP/s of {PRODUCTS} products of {EXTENT}^3, tiles down, threads across")
    print("tile    " + "".join(f"{threads:>8d}" for threads in THREADS))
    for tile in TILES:
        print(f"{tile:3d}^2   " + "".join(f"{rate.get(f'{tile}x{tile}-{threads}', float('nan')):8.2f}" for threads in THREADS))
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "threads_by_tile.csv").open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(("device", "scheme", "tile", "threads", "tflops", "registers", "predicted_occupancy"))
        for name, one in built.items():
            if name in rate:
                tile, threads = name.split("-")
                out.writerow((table.device, options.scheme, tile, threads, f"{rate[name]:.3f}", used(one).registers, f"{used(one).occupancy.fraction:.4f}"))
    draw(table.device, options.scheme, rate, options.out / "threads_by_tile.png")


def draw(device: str, scheme: str, rate: dict[str, float], path: Path) -> None:
    """A line for each number of threads over the tiles, as the paper has it."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 3.6))
    for threads in THREADS:
        points = [(str(tile), rate[f"{tile}x{tile}-{threads}"]) for tile in TILES if f"{tile}x{tile}-{threads}" in rate]
        axis.plot(*zip(*points), marker="o", label=f"{threads} threads")
    axis.set(xlabel="tile of C, squared", ylabel="TFLOP/s", title=f"{PRODUCTS} products of {EXTENT}^3, {scheme}, {device}")
    axis.grid(alpha=0.3)
    axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
