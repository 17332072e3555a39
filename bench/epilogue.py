"""What does an epilogue cost in the kernel, beside a launch of its own? All in one interleaved race.

    python bench/epilogue.py specs/kernels/linear_gelu_h200.toml [--gpu h200] [--sizes 16384x3072x768,16384x768x3072,4096x4096x4096]

For each size: the spec's kernel (fused), the same plan without its epilogue (plain), and that with a library's kernel of epilogues behind it (plain + finish).
Prints the median microseconds of each, and how much of the launch's price the fused form saves: 1 is all of it. A run lasts some seconds a size.
Raises DeviceError without a CUDA GPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gemmgen import road, timing
from gemmgen.build import build
from gemmgen.catalog.epilogue import NONE
from gemmgen.library.ends import ACTIVATIONS
from gemmgen.library.kernel import FINISH, FINISH_THREADS, FINISH_TILE, finish_source
from gemmgen.plan import Plan
from gemmgen.render import render
from gemmgen.run.cuda import CudaDevice
from gemmgen.timing import Contender
from gemmgen.timing.products import raced

SIZES = "16384x3072x768,16384x768x3072,4096x4096x4096,1024x1024x1024"
NUMBERS = {one.name: number for number, one in enumerate(ACTIVATIONS, 1)}


def finish(plan: Plan, inputs: timing.Inputs) -> Contender:
    """A library's kernel of epilogues on each C, as the plan's epilogue asks."""
    import cupy

    (m, n, _), device = inputs.size, CudaDevice(build(finish_source(plan.gpu.arch)))
    number = next((NUMBERS[name] for name in plan.epilogue.names if name in NUMBERS), 0)
    bias = cupy.zeros(n, cupy.float32) if "bias" in plan.epilogue.names else 0
    blocks = -(-m // FINISH_TILE[0]) * -(-n // FINISH_TILE[1])
    launches = [
        device.prepared(FINISH, blocks, FINISH_THREADS, 0, [
            ("pointer", c), ("long long", n), ("long long", 0), ("pointer", c), ("long long", n), ("long long", 0), ("pointer", 0), ("pointer", 0),
            ("float", 0.0), ("pointer", bias), ("int", m), ("int", n), ("int", number),
        ], direct=True) for c in inputs.c
    ]
    return Contender("finish", lambda index: launches[index % inputs.sets](), judged=False)


def saved(found: Mapping[str, float]) -> float:
    """How much of the launch's price the fused form saves, of the seconds of each form: 1 is all of it, and below 0 it costs more than the launch."""
    return (found["plain + finish"] - found["fused"]) / (found["plain + finish"] - found["plain"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="+", type=Path)
    parser.add_argument("--gpu", default=None)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--slice-ms", type=float, default=20.0)
    options = parser.parse_args()
    for path in options.specs:
        fused = road.build(path, options.gpu)
        source = render(replace(fused.plan, epilogue=NONE))
        plain = source, build(source)
        for size in (tuple(map(int, text.split("x"))) for text in options.sizes.split(",")):
            inputs = timing.Inputs(size)
            own = timing.generated("plain", replace(fused.plan, epilogue=NONE), *plain, inputs)
            end = finish(fused.plan, inputs)

            def both(index: int, first: Contender = own, second: Contender = end) -> None:
                first.enqueue(index)
                second.enqueue(index)

            field = {"fused": timing.generated("fused", fused.plan, fused.source, fused.binary, inputs), "plain": own,
                     "plain + finish": Contender("plain + finish", both, judged=False)}
            found = raced(field, rounds=options.rounds, slice_ms=options.slice_ms, warm_up=0.3)
            print(f"{path.stem} {'x'.join(map(str, size))}: " + ", ".join(f"{name} {1e6 * seconds:.1f} us" for name, seconds in found.items())
                  + f"; saved {saved(found):.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
