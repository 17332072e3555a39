"""One spec on several GPUs, on the emulator: resources predicted and compiled, and the kernels' own errors.

    python bench/amd_kernels.py [--spec specs/kernels/sgemm_portable.toml] [--gpus a800,mi210,mi300x,mi355x,rx7900xtx,rx9070xt] [--k 1024]

Prints two tables in Markdown. The kernels are compiled, and every instruction of them is
executed on the CPU; no GPU is needed.
"""

from __future__ import annotations

import argparse

from gemmgen.build import build
from gemmgen.emulate import TOGETHER
from gemmgen.render import render
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.solve import solve
from gemmgen.spec import load
from gemmgen.verify import Judge, oracles, resources

DATA = {"U[-1, 1]": (-1.0, 1.0), "U[0, 1]": (0.0, 1.0)}
M, N = 160, 144  # more than a block, and nothing whole


def rows(spec: str, gpu: str, k: int) -> tuple[str, str]:
    """A line of each table."""
    plan = solve(load(spec, gpu))
    source = render(plan)
    binary = build(source)
    used = resources(plan, source, binary)
    judge = Judge(plan, source, binary, EmulatorDevice(plan, source, binary, schedule=TOGETHER))
    tile, warp = ("x".join(map(str, extents)) for extents in (plan.block, plan.warp[:2]))
    cells = []
    for low, high in DATA.values():
        judged = judge.accuracy("", oracles.uniform(plan, low, high, (M, N, k), 0))
        cells.append(f"{judged.errors.relative_frobenius:.2e} | {judged.bound.relative_frobenius:.2e}")
        assert judged.check.passed, judged.check.detail
    registers = f"{used.predicted_registers} | {used.registers} | {100 * (used.predicted_registers / used.registers - 1):+.0f} %"
    return (
        f"| {gpu} | {plan.arch} | {plan.fragment.shape_name} | {tile} | {warp} | {registers} | {used.shared_bytes} | {used.spill_bytes} |"
        f" {used.occupancy.blocks} |",
        f"| {gpu} | {plan.gpu.unit.label(plan.scheme.leading)} | {plan.scheme.name} | {plan.promote or 'never'} | " + " | ".join(cells) + " |",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spec", default="specs/kernels/sgemm_portable.toml")
    parser.add_argument("--gpus", default="a800,mi210,mi300x,mi355x,rx7900xtx,rx9070xt")
    parser.add_argument("--k", type=int, default=1024)
    options = parser.parse_args()
    used, found = zip(*(rows(options.spec, gpu, options.k) for gpu in options.gpus.split(",")))
    print("| GPU | target | fragment | block | warp | registers predicted | compiled | off | shared B | scratch B | blocks an SM |")
    print("| --- | --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n" + "\n".join(used))
    print(f"\n{M} x {N} x {options.k}, relative Frobenius error against FP64\n")
    print("| GPU | matrix unit | scheme | promoted every | " + " | ".join(f"{name} | bound" for name in DATA) + " |")
    print("| --- | --- | --- | --- |" + " ---: |" * 2 * len(DATA) + "\n" + "\n".join(found))


if __name__ == "__main__":
    main()
