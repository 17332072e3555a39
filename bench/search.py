"""How fast the model is: candidates evaluated in a second, and what solving open specs takes.

    python bench/search.py [--rows 200000]

The first table evaluates every constraint and every prediction of each design for so many candidates at once, which a search, whose
constraints prune before it predicts, never does. The second solves specs that leave all open. CPU seconds of this process, the least of three.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from gemmgen.solve import explain, solve
from gemmgen.spec import loads

SPECS = {"portable": {"target": {"gpu": "a100"}}, "warp-specialised": {"fragment": {"policy": "wgmma"}, "target": {"gpu": "h100"}},
         "tensor memory": {"fragment": {"policy": "tcgen05"}, "target": {"gpu": "b200"}}}
OPEN = ("a100", "h100", "b200", "mi300x")


def least(run: Callable[[], object]) -> float:
    """CPU seconds, the least of three."""
    taken = []
    for _ in range(3):
        start = time.process_time()
        run()
        taken.append(time.process_time() - start)
    return min(taken)


def evaluated(spec: dict, rows: int) -> float:
    """Seconds for all that the model says of so many candidates near a solved one."""
    plan = solve(loads(spec))
    design, draw = plan.design, np.random.default_rng(1)
    numbers = design.constants_of(plan) | {name: np.full(rows, value) for name, value in design.encoded(plan).items()}
    numbers |= {"stages": draw.integers(2, 9, rows), "group": 2 ** draw.integers(0, 5, rows), "BM": plan.block[0] * draw.integers(1, 3, rows)}

    def run() -> None:
        known = design.predicted(design.budgets(numbers, plan.gpu.registers))
        for constraint in design.constraints:
            constraint.holds(known)

    return least(run)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=200_000)
    rows = parser.parse_args().rows
    for name, spec in SPECS.items():
        seconds = evaluated(spec, rows)
        print(f"{name:<18}{rows} candidates in {seconds:.3f} s of CPU time, {rows / seconds / 1e6:.2f} million a second")
    for gpu in OPEN:
        loaded = loads({"target": {"gpu": gpu}})
        found = explain(loaded)
        print(f"{gpu:<18}{found.candidates} candidates, {found.feasible} feasible, solved in {least(lambda: solve(loaded)):.3f} s")
