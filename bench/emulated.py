"""How well the estimate of what emulation takes fits: the three runs of a headline product of some specs, beside `gemmgen.verify.sample.seconds`.

    python bench/emulated.py [SPEC ...]

Times are CPU seconds of one process, so that other work on the machine does not count. Prints a line a spec and the mean of |log(measured / estimated)|.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

from gemmgen import emulate, road
from gemmgen.run import gemm
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.verify import default_size, oracles
from gemmgen.verify.sample import seconds

SPECS = ("sgemm_a100", "scaled_a100", "bf16x6_a100", "tf32x3_a100", "residues8_a100", "fp32_a100", "sgemm_t4", "shared_rtx3090", "hopper", "sgemm_mi300x")


def measured(name: str) -> tuple[float, float]:
    """(CPU seconds, estimated seconds) of the three runs."""
    kernel = road.build(name if Path(name).exists() else Path("specs/kernels") / f"{name}.toml")
    device = EmulatorDevice(kernel.plan, kernel.source, kernel.binary, processes=1)
    size = default_size(kernel.plan, device.kind)
    problem = oracles.uniform(kernel.plan, -1, 1, size, 0)
    device.emulator  # reads the assembly
    start = time.process_time()
    for schedule in (emulate.TOGETHER, *emulate.SCHEDULES):
        device.set_schedule(schedule)
        gemm(device, kernel.plan, kernel.source, problem.a, problem.b)
    return time.process_time() - start, seconds(kernel.plan, size, processes=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="*", default=SPECS)
    logs = []
    for name in parser.parse_args().specs:
        took, told = measured(name)
        logs.append(abs(math.log(took / told)))
        print(f"{name:<20} {took:7.1f} s, estimated {told:7.1f} s, {took / told:.2f} of it", flush=True)
    print(f"mean error {100 * (math.exp(sum(logs) / len(logs)) - 1):.0f} % over {len(logs)} specs")
