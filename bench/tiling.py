"""Microseconds that an export's host code takes for the list of a batch's tiles, on this machine's CPU.

    python bench/tiling.py specs/kernels/batch_listed_h200.toml specs/kernels/batchgemm_a800.toml

Products are BatchGEMM's: m and n up to 128, 256 or 512, k up to 1024, from fixed seeds. The least of many runs is told, each of a batch
that was not the last one, so that its products come from no register but mostly from the cache.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from gemmgen.batch import PROBLEM
from gemmgen.export import contents
from gemmgen.render import render, render_text
from gemmgen.solve import solve
from gemmgen.spec import load

TIMES = """
#include <time.h>
#include "KERNELS"
double microseconds(const tiling_problem *problems, int batch, int sets, tiling_tile *list, int64_t capacity, int64_t *count, int rounds)
{
    double least = 1e9;
    for (int round = 0; round < rounds; ++round) {
        struct timespec start, stop;
        clock_gettime(CLOCK_MONOTONIC, &start);
        for (int set = 0; set < sets; ++set)
            if (tiling_tiles(problems + (size_t)set * batch, batch, list, capacity, count)) return -1;
        clock_gettime(CLOCK_MONOTONIC, &stop);
        const double taken = ((stop.tv_sec - start.tv_sec) * 1e6 + (stop.tv_nsec - start.tv_nsec) * 1e-3) / sets;
        least = taken < least ? taken : least;
    }
    return least;
}
"""
SETS = 8


def compiled(spec: Path, folder: Path) -> ctypes.CDLL:
    """The exported host code with a loop that times it."""
    plan = solve(load(spec))
    source = render(plan)
    values = contents.template_values(plan, source, [plan.arch], "tiling")
    for file, template in (("tiling.h", "header.h"), ("tiling.c", "kernel")):
        (folder / file).write_text(render_text(f"export/batch/{template}.j2", **values))
    (folder / "times.c").write_text(TIMES.replace("KERNELS", "tiling.c"))
    subprocess.run(["gcc", "-std=gnu99", "-O3", "-shared", "-fPIC", "times.c", "-o", "times.so"], cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "times.so"))
    library.microseconds.restype = ctypes.c_double
    return library


def problems(batch: int, most: int) -> np.ndarray:
    """[SETS * batch] of PROBLEM, with sizes alone."""
    rng, found = np.random.default_rng((batch, most)), np.zeros(SETS * batch, PROBLEM)
    for name, bound in (("m", most), ("n", most), ("k", 1024)):
        found[name] = rng.integers(16, bound + 1, len(found))
    return found


def main(specs: list[Path], batches: list[int]) -> None:
    print("spec,batch,largest m and n,tiles,microseconds,microseconds to count them")
    for spec in specs:
        with tempfile.TemporaryDirectory() as folder:
            library = compiled(spec, Path(folder))
            for batch in batches:
                for most in (128, 256, 512):
                    asked, count, room = problems(batch, most), ctypes.c_int64(), batch * (most // 16) ** 2
                    tiles = np.zeros((room, 4), np.int32)
                    at = ctypes.c_void_p(asked.ctypes.data), batch, SETS
                    rounds = max(50, 200_000 // batch // SETS)
                    taken = library.microseconds(*at, ctypes.c_void_p(tiles.ctypes.data), ctypes.c_int64(room), ctypes.byref(count), rounds)
                    counted = library.microseconds(*at, None, ctypes.c_int64(0), ctypes.byref(count), rounds)
                    print(f"{spec.stem},{batch},{most},{count.value},{taken:.2f},{counted:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="+", type=Path, help="kernels for batches of all sizes")
    parser.add_argument("--batches", default="8,256,1024", help="comma-separated numbers of products")
    options = parser.parse_args()
    main(options.specs, [int(batch) for batch in options.batches.split(",")])
