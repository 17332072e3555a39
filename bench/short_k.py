"""Which kernels of which scheme serve short sums, small products and batches best, on the GPU of this machine.

    python bench/short_k.py h200 --shipped specs/libraries/general.toml --seconds 200 --json short_k.json --table general_h200.json
    python bench/short_k.py h200 --floors

Makes a library of each family of kernels and the shipped one for a GPU, and races them all beside cuBLAS's SGEMM: the shipped
library's own choice stands in the table beside the fastest kernel of all. Needs a C compiler, cupy, and processors for NVRTC.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import library as bench  # noqa: E402

SHORT = tuple((size, size, k) for size in (1024, 2048, 4096) for k in (64, 128, 256))
SMALL = tuple((size, size, size) for size in (64, 128, 256, 384, 512))
BATCHED = ((512, 64, 512, 384), (512, 512, 64, 384))
LARGE = (
    *((size, size, size) for size in (1024, 2048, 4096, 8192, 16384)), (2048, 2048, 8192), (1024, 4096, 1024), (777, 1001, 513),
)
MORE = (
    (2944, 384, 64), (16384, 768, 768), (128, 1024, 1024), (1024, 128, 1024), (64, 4096, 4096), (256, 4096, 4096), (1024, 1024, 32), (512, 512, 64),
    (512, 512, 8192), (256, 256, 16384), (8192, 64, 64), (8192, 256, 256), (8192, 8192, 512), (512, 512, 2048),
    (64, 64, 64, 1024), (128, 128, 128, 256), (256, 256, 256, 256), (1024, 1024, 256, 64), (1024, 128, 1024, 128), (1024, 1024, 128, 128),
)
MODELS = (
    (196, 196, 64, 768), (196, 64, 196, 768), (16384, 2304, 768), (16384, 768, 3072), (12544, 768, 768), (12544, 768, 3072), (3072, 768, 12544),
    (2304, 768, 12544), (768, 768, 12544),
)
"""Of a vision transformer's training step and an encoder's inference (bench/programs/models.py)."""
SIZES = (*SHORT, *SMALL, *BATCHED, *MODELS, *LARGE, *MORE)
WIDE = tuple(size for size in LARGE if min(size) >= 1024)
"""Where compensated sums are tried."""
FAMILIES: dict[str, dict[str, Any]] = {  # of each use, how many kernels at most, sizes
    "run_scaled": {"use": [{"scheme": "run_scaled"}], "kernels_at_most": 16},
    "scaled": {"use": [{"scheme": "scaled"}], "kernels_at_most": 9, "sizes": [*WIDE, *MODELS[2:], (512, 512, 8192), (256, 256, 16384), (8192, 8192, 512)]},
    "scaled_fine": {"use": [{"split": {"scheme": "scaled", "sums": "compensated"}}], "kernels_at_most": 3, "sizes": WIDE, "batched": False},
    "run_scaled_fine": {"use": [{"split": {"scheme": "run_scaled", "sums": "compensated"}}], "kernels_at_most": 2, "sizes": WIDE, "batched": False},
    "bf16x6_apart": {"use": [{"scheme": "bf16x6_apart"}], "kernels_at_most": 14},
    "bf16x6_apart_mixed": {
        "use": [{"split": {"scheme": "bf16x6_apart", "where": "mixed"}}], "kernels_at_most": 8,
        "sizes": [*SHORT, *BATCHED, *MODELS[:2], *MORE[:10], *MORE[-6:]],
    },
    "tf32x3_lane": {"use": [{"split": {"scheme": "tf32x3", "where": "lane"}}], "kernels_at_most": 5, "sizes": [*SHORT[:3], *SMALL], "batched": False},
    "fp32_lane": {"use": [{"split": {"scheme": "fp32", "where": "lane"}}], "kernels_at_most": 7, "sizes": [*SHORT[:3], *SMALL, *MORE[:4]], "batched": False},
}
# Tiles that the model predicts to take as long as others, and that are faster in races: of each a kernel for single products and one for batches. `bf16x6` has
# one sum, so a tile may be twice as wide; promoted every 16 k, the sum takes each step's five small products before the large one.
for split, block, warp in (
    ({"scheme": "bf16x6_apart"}, (128, 128, 32), (64, 128, 32)),
    ({"scheme": "run_scaled"}, (128, 128, 32), (64, 128, 32)),
    ({"scheme": "bf16x6_apart", "where": "mixed"}, (128, 64, 64), (64, 64, 64)),
    ({"scheme": "bf16x6_apart", "where": "mixed"}, (128, 96, 64), (64, 96, 64)),
    ({"scheme": "bf16x6", "where": "mixed", "promote": 16}, (128, 128, 32), (64, 128, 32)),
    ({"scheme": "bf16x6", "where": "mixed", "promote": 16}, (256, 64, 32), (128, 64, 32)),
):
    way = f"{split['scheme']}_mixed" if "where" in split else split["scheme"]
    FAMILIES[f"{way}_{'x'.join(map(str, block))}"] = {"use": [{"split": split, "tile": {"block": block, "warp": warp}}], "kernels_at_most": 2}


def made(name: str, told: dict[str, Any] | str, folder: str, layouts: list[str]) -> tuple[str, str]:
    """(the name, why there is no library; empty where there is one): written and ready to be built by gcc; of a library's file these layouts alone."""
    from gemmgen.errors import GemmgenError
    from gemmgen.library import write
    from gemmgen.library.file import library_from, load_library
    from gemmgen.library.made import made as make

    try:
        loaded = load_library(told) if isinstance(told, str) else library_from(told, name)
        fewer = loaded.file.kernels_at_most * len(layouts) // len(loaded.layouts) if isinstance(told, str) else loaded.file.kernels_at_most
        loaded = replace(loaded, file=loaded.file.model_copy(update={"layouts": tuple(layouts), "kernels_at_most": fewer}))
        write(make(loaded), folder, force=True)
    except GemmgenError as error:
        return name, str(error)
    return name, ""


FLOORS = r"""
extern "C" __global__ void nothing() {}

__device__ void store(float4* c, long long count, float4 x)
{
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (long long)blockDim.x) c[i] = x;
}

extern "C" __global__ void stores(float4* c, long long count) { store(c, count, make_float4(1, 2, 3, 4)); }

extern "C" __global__ void moves(const float4* a, long long of_a, const float4* b, long long of_b, float4* c, long long count)
{
    // Each block reads as much as the two panels of its tile are, 64 x k each; what it reads goes into what it stores.
    const long long each = (of_a + of_b) * 16 / gridDim.x;
    float4 sum = make_float4(0, 0, 0, 0);
    for (long long i = threadIdx.x; i < each; i += blockDim.x) {
        const long long at = (blockIdx.x * each + i) % (of_a + of_b);
        const float4 x = at < of_a ? a[at] : b[at - of_a];
        sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
    }
    store(c, count, sum);
}
"""


def floors(sizes: Any) -> None:
    """What a product takes of which nothing is multiplied: a launch, C's stores, and the loads of panels before them; microseconds, the best of some grids."""
    import cupy

    module = cupy.RawModule(code=FLOORS, options=("--std=c++17",))
    print(f"{'m x n x k':>22} {'SGEMM':>7} {'launch':>7} {'stores':>7} {'moves':>7}  microseconds")
    for size in sizes:
        race = bench.Race(*size)
        called: dict[str, Any] = {"SGEMM": bench.sgemm_of(race), "launch": lambda i: module.get_function("nothing")((1,), (32,), ())}
        for blocks in (132, 264, 528):
            for threads in (256, 512, 1024):
                def stores(i: int, blocks: int = blocks, threads: int = threads) -> None:
                    c = race.sets[i][2]
                    module.get_function("stores")((blocks,), (threads,), (c, c.size // 4))

                def moves(i: int, blocks: int = blocks, threads: int = threads) -> None:
                    a, b, c = race.sets[i]
                    module.get_function("moves")((blocks,), (threads,), (a, a.size // 4, b, b.size // 4, c, c.size // 4))

                called |= {f"stores {blocks} {threads}": stores, f"moves {blocks} {threads}": moves}
        times = race.run(called, 3.0)
        least = {name: min(taken for key, taken in times.items() if key.split()[0] == name) for name in ("SGEMM", "launch", "stores", "moves")}
        print(f"{' x '.join(map(str, size)):>22} " + " ".join(f"{one:7.2f}" for one in least.values()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpu", help="a name under specs/gpus")
    parser.add_argument("--shipped", metavar="LIB", default="specs/libraries/general.toml", help="the library whose choice is judged")
    parser.add_argument("--families", type=lambda text: text.split(","), default=list(FAMILIES), help="of " + ", ".join(FAMILIES))
    parser.add_argument("--layouts", type=lambda text: text.split(","), default=["nn"])
    parser.add_argument("--seconds", type=float, default=math.inf, help="of everything; what is left out is told")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--table", type=Path, metavar="FILE", help="a dispatch table of the measured times")
    parser.add_argument("--stand-for", type=lambda text: text.split(","), default=[], metavar="LAYOUTS", help="of the table: that take nn's times")
    parser.add_argument("--also", type=Path, metavar="FILE", help="of the table: what --json wrote of further products, raced before by the same kernels")
    parser.add_argument("--sizes", type=lambda text: [tuple(map(int, one.split("x"))) for one in text.split(",")], default=SIZES,
                        help="products to race, of those that kernels are chosen for: MxNxK, or MxNxKxPRODUCTS")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where the libraries are made")
    parser.add_argument("--floors", action="store_true", help="no kernels: what launches, stores and loads of these products take by themselves")
    parser.add_argument("--only-make", action="store_true", help="make the libraries and no race")
    args = parser.parse_args()
    if args.floors:
        return floors(SHORT)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as own, tempfile.TemporaryDirectory() as out:
        root = (args.keep or Path(own)).resolve()
        common = {"gpus": [args.gpu], "layouts": args.layouts, "sizes": SIZES, "batched": True, "fallback": False}
        asked: dict[str, Any] = {"shipped": str(Path(args.shipped).resolve())}
        for name in args.families:
            most = FAMILIES[name]["kernels_at_most"] * len(args.layouts)
            asked[name] = json.loads(json.dumps({**common, "name": name, **FAMILIES[name], "kernels_at_most": most}))
        folders = []
        with ProcessPoolExecutor(len(asked)) as pool:
            for name, why in pool.map(made, asked, asked.values(), [str(root / name) for name in asked], [args.layouts] * len(asked)):
                print(f"{time.perf_counter() - began:6.1f} s  {name}: {why or 'made'}", file=sys.stderr, flush=True)
                folders += [] if why else [root / name]
        if args.only_make:
            return
        args.alone, args.inside = False, 0
        args.seconds -= time.perf_counter() - began
        bench.race_products(folders, Path(out), args)


if __name__ == "__main__":
    main()
