"""What a call of gemmgen.matmul takes beside torch.mm, and beside NumPy.

    python bench/matmul.py                                   # torch's tensors on the GPU, else on the CPU: the host's time of a call and whole products
    python bench/matmul.py --sizes 64,128x4096x4096 --layouts nn,nt
    python bench/matmul.py --numpy                           # NumPy's arrays: copies to the GPU and back included

A first call of each shape builds the library where there is none yet, and decides which way is taken; it is not among what is timed. Contenders take turns
in each round. All times are medians over rounds, in microseconds, of torch.mm (or NumPy) and of gemmgen.matmul:

    call      the host's time until a call returns, of calls that fit the stream's queue; `more` is the difference
    product   a product of calls that follow one another, the host's time included; `ratio` compares both
    alone     a call and the wait for its result, with nothing else in the queue

The command fails where a call takes over 5 us more of the host than torch.mm, or a product over 5 % more time than torch.mm and over 0.5 us, which is what
rounds differ by. A product's time is the host's if its call takes 90 % of it or more, else the GPU's: a miss names which.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import gemmgen

SIZES = (
    *((size,) * 3 for size in (16, 32, 64, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096)), (1, 4096, 4096), (16, 4096, 4096),
    (64, 4096, 4096), (4096, 64, 4096),
    (512, 512, 8192), (100, 100, 100), (333, 555, 777),
)
CALLS = 100  # fewer than a stream takes before the host has to wait
ROUNDS = 31
MOST_CALL_US, MOST_RATIO, NOISE_US = 5.0, 1.05, 0.5
HOSTS_SHARE = 0.9


def extents(text: str) -> tuple[int, int, int]:
    found = [int(part) for part in text.split("x")]
    return tuple(found * 3 if len(found) == 1 else found)


def timed(ways: dict[str, Callable[[], Any]], synchronize: Callable[[], None], calls: int) -> dict[str, tuple[float, float, float]]:
    """(call, product, alone) of each in microseconds, which take turns."""
    returned: dict[str, list[float]] = {name: [] for name in ways}
    whole: dict[str, list[float]] = {name: [] for name in ways}
    alone: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        for _ in range(3):
            way()
    for _ in range(ROUNDS):
        for name, way in ways.items():
            synchronize()
            start = time.perf_counter()
            for _ in range(calls):
                way()
            returned[name].append(1e6 * (time.perf_counter() - start) / calls)
            synchronize()
            whole[name].append(1e6 * (time.perf_counter() - start) / calls)
            start = time.perf_counter()
            way()
            synchronize()
            alone[name].append(1e6 * (time.perf_counter() - start))
    return {name: (median(returned[name]), median(whole[name]), median(alone[name])) for name in ways}


def torchs(sizes: list[tuple[int, int, int]], layouts: list[str]) -> list[dict[str, Any]]:
    import torch

    on_gpu = torch.cuda.is_available()
    synchronize = torch.cuda.synchronize if on_gpu else lambda: None
    print(f"torch {torch.__version__} on {torch.cuda.get_device_name() if on_gpu else 'the CPU: only what the table takes shows'}")
    rows = []
    for layout in layouts:
        for m, n, k in sizes:
            a = torch.rand((m, k) if layout[0] == "n" else (k, m), device="cuda" if on_gpu else "cpu") - 0.5
            b = torch.rand((k, n) if layout[1] == "n" else (n, k), device=a.device) - 0.5
            a, b = a if layout[0] == "n" else a.t(), b if layout[1] == "n" else b.t()
            exact = a.double() @ b.double()
            error = ((gemmgen.matmul(a, b).double() - exact).norm() / exact.norm()).item()
            calls = max(1, min(CALLS, 10**10 // (m * n * k)))
            found = timed({"torch.mm": lambda a=a, b=b: torch.mm(a, b), "gemmgen": lambda a=a, b=b: gemmgen.matmul(a, b)}, synchronize, calls)
            rows.append({"layout": layout, "m": m, "n": n, "k": k, "error": error, **told(found, "torch.mm")})
    return rows


def numpys(sizes: list[tuple[int, int, int]]) -> list[dict[str, Any]]:
    rows = []
    for m, n, k in sizes:
        rng = np.random.default_rng(0)
        a, b = (rng.uniform(-0.5, 0.5, shape).astype(np.float32) for shape in ((m, k), (k, n)))
        exact = a.astype(float) @ b
        error = float(np.linalg.norm(gemmgen.matmul(a, b) - exact) / np.linalg.norm(exact))
        calls = max(1, min(CALLS, 10**9 // (m * n * k)))
        rows.append({"layout": "nn", "m": m, "n": n, "k": k, "error": error,
                     **told(timed({"numpy": lambda a=a, b=b: a @ b, "gemmgen": lambda a=a, b=b: gemmgen.matmul(a, b)}, lambda: None, calls), "numpy")})
    return rows


def told(found: dict[str, tuple[float, float, float]], rival: str) -> dict[str, float]:
    (their_call, their_product, their_alone), (own_call, own_product, own_alone) = found[rival], found["gemmgen"]
    return {
        "rival_call_us": their_call, "call_us": own_call, "more_us": own_call - their_call, "rival_product_us": their_product, "product_us": own_product,
        "ratio": own_product / their_product, "rival_alone_us": their_alone, "alone_us": own_alone,
    }


def missed(row: dict[str, float]) -> str:
    """What took too long, and by what: the host or the GPU. Nothing where the bars are met."""
    if row["more_us"] > MOST_CALL_US:
        return f"missed: the host's {row['more_us']:.1f} us more"
    if row["ratio"] <= MOST_RATIO or row["product_us"] - row["rival_product_us"] <= NOISE_US:
        return ""
    return f"missed: {row['ratio'] - 1:.0%} more, of the {'host' if row['call_us'] >= HOSTS_SHARE * row['product_us'] else 'GPU'}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", help="as 512 or 64x4096x4096, with commas between them")
    parser.add_argument("--layouts", default="nn", help="of nn, nt, tn, tt, with commas between them")
    parser.add_argument("--numpy", action="store_true", help="NumPy's arrays")
    parser.add_argument("--csv", type=Path, help="a file for the rows")
    asked = parser.parse_args()
    sizes = [extents(one) for one in asked.sizes.split(",")] if asked.sizes else list(SIZES)
    rows = numpys(sizes) if asked.numpy else torchs(sizes, asked.layouts.split(","))
    rival = "numpy" if asked.numpy else "torch.mm"
    print(f"{'m x n x k':>20} {'layout':>6} {'error':>9} {rival + ' call':>14} {'call':>8} {'more':>6} {rival + ' product':>17} {'product':>10} {'ratio':>6}"
          f" {rival + ' alone':>15} {'alone':>8}")
    misses = 0
    for row in rows:
        bad = "" if asked.numpy else missed(row)
        misses += bool(bad)
        print(f"{row['m']} x {row['n']} x {row['k']:<5}".rjust(20), f"{row['layout']:>6} {row['error']:9.2e} {row['rival_call_us']:14.2f} {row['call_us']:8.2f}"
              f" {row['more_us']:6.2f} {row['rival_product_us']:17.2f} {row['product_us']:10.2f} {row['ratio']:6.3f} {row['rival_alone_us']:15.2f}"
              f" {row['alone_us']:8.2f}  {bad}".rstrip())
    if asked.csv:
        with asked.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
    if misses:
        print(f"{misses} of {len(rows)} sizes take over {MOST_CALL_US:g} us more of the host, or over {MOST_RATIO - 1:.0%} more time", file=sys.stderr)
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
