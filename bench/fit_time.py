"""Fit the constants of the time model to kernels timed on one GPU, and say how well they do.

    python bench/fit_time.py bench/times_h100.csv [--policy mma] [--gpu h100] [--tries 2500] [--seed 1]

The table has a row a kernel: its decisions, its compiled registers and the microseconds of one product, as
bench/choice.py and bench/vary.py write them. The search starts at the constants of the GPU's row, changes
a few at random and keeps what lowers the mean error; it prints what it found, as a section for the row of the GPU or of its
generation, and changes no file; with --tries 0 only how well the constants do that are there. No GPU is needed.
"""

from __future__ import annotations

import argparse
import csv
import random
from pathlib import Path
from typing import Any

import numpy as np

from gemmgen.designs import Design, portable, specialised
from gemmgen.model import time
from gemmgen.plan import Plan
from gemmgen.solve import solve
from gemmgen.spec import loads

FITTED = {
    "mma": (
        "split_before", "split_behind", "split_wait", "memory_cycles", "fetch_exposed", "fetch_share", "fill_share",
        "barrier_cycles", "launch_seconds", "tile_cycles", "l2_bytes_per_clock", "mma_efficiency",
    ),
    "wgmma": (
        "group_gap", "turn_cycles_each", "store_cycles", "split_a_cycles", "overlap_seconds", "unit_rate", "memory_cycles", "gather_share",
    ),
}
CEILINGS = {"unit_rate": 700e12, "fetch_share": 0.4, "fill_share": 1.3, "mma_efficiency": 1.0}
"""Beyond these a constant would no longer mean what it is called."""


def plan_of(row: dict[str, str], gpu: str, policy: str) -> Plan:
    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split("x")]

    block, size = numbers(row["block"]), numbers(row["size"])
    own = {"mma": ({}, {"fragment_buffers": int(row["fragment_buffers"])})}.get(policy) or (
        {"cluster": int(row["cluster"])}, {"consumers": row["consumers"]})
    return solve(loads({
        "problem": {"layout": row["layout"], **dict(zip("mnk", size * (3 // len(size))))},
        "split": {"scheme": row["scheme"], "promote": int(row["promote"]), "where": row["where"]},
        "tile": {"block": block, "warp": [*numbers(row["warp"])[:2], block[2]], "group": int(row["group"]), "split_k": int(row["split_k"]), **own[0]},
        "pipeline": {"loads": row["loads"], "stages": int(row["stages"]), **own[1]},
        "target": {"gpu": gpu}, "build": {"allow_spills": True}, "fragment": {"policy": policy},
    }))


def columns(rows: list[dict[str, str]], gpu: str, policy: str) -> dict[str, Any]:
    """The symbols of all kernels, with the registers that they were compiled to."""
    known = []
    for row in rows:
        plan = plan_of(row, gpu, policy)
        fixed = plan.design.constants_of(plan)
        numbers = plan.design.budgets(fixed | plan.design.encoded(plan), plan.gpu.registers)
        known.append(numbers | {"registers": int(row["registers"])})
    return {name: np.array([numbers[name] for numbers in known], float) for name in known[0]}


def errors(known: dict[str, Any], seconds: np.ndarray, constants: dict[str, float], design: Design) -> np.ndarray:
    """log(measured / predicted) of each kernel."""
    return np.log(seconds / design.predicted({**known, **constants})["seconds"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--gpu", default="h100")
    parser.add_argument("--policy", choices=sorted(FITTED), default="mma")
    parser.add_argument("--tries", type=int, default=2500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with options.table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    known, seconds = columns(rows, options.gpu, options.policy), np.array([float(row["microseconds"]) for row in rows]) * 1e-6
    where, fitted = np.array([row["where"] for row in rows]), FITTED[options.policy]
    design = specialised.DESIGN if options.policy == "wgmma" else portable.DESIGN

    def score(constants: dict[str, float]) -> float:
        error = np.abs(errors(known, seconds, constants, design))
        return sum(error[where == way].mean() for way in set(where))

    best = {name: float(known[name][0]) for name in fitted}
    reached, draw = score(best), random.Random(options.seed)
    _tell("now", best, errors(known, seconds, best, design), where)
    for _ in range(options.tries):
        trial = dict(best)
        for name in draw.sample(fitted, draw.choice([1, 2, 3])):
            trial[name] = min(trial[name] * float(np.exp(draw.gauss(0, 0.2))), CEILINGS.get(name, np.inf))
        if (found := score(trial)) < reached:
            best, reached = trial, found
    if options.tries:
        _tell("fitted", best, errors(known, seconds, best, design), where)
        print(section(options.policy, best, f"fitted to {len(rows)} kernels of {options.table.name}"))
    return 0


def section(policy: str, found: dict[str, float], source: str) -> str:
    """What was found, as a section of a GPU's or a generation's row."""
    name, of = {"mma": ("measured", time.CONSTANT_OF), "wgmma": ("measured.wgmma", specialised.equations.CONSTANT_OF)}[policy]
    lines = {of[symbol]: value for symbol, value in found.items() if symbol in of}
    if "unit_rate" in found:  # of FP16 words
        lines["sustained_f16_tflops"] = found["unit_rate"] / 1e12
    told = [f'{constant} = {{ value = {value:.4g}, source = "{source}" }}' for constant, value in lines.items()]
    missed = "" if policy == "mma" or "memory_cycles" not in found else f"\n# and in [measured]: memory_cycles = {found['memory_cycles']:.4g}"
    return "\n".join([f"[{name}]", *told]) + missed


def _tell(title: str, constants: dict[str, float], error: np.ndarray, where: np.ndarray) -> None:
    print(f"{title}: " + ", ".join(f"{name} {value:.3g}" for name, value in constants.items()))
    for way in sorted(set(where)):
        mine = error[where == way]
        print(f"    {way:<9} {len(mine):4d} kernels: mean {100 * mine.mean():+5.1f} %, mean error {100 * np.abs(mine).mean():4.1f} %, "
              f"standard deviation {100 * mine.std():4.1f} %")  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
