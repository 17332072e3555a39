"""How long people wait before anything is computed: help, the search of the space, and the model's evaluation of candidates.

    python bench/start.py [--rounds 5] [--rows 200000]

Help is processor time of a process of its own in units of an empty Python; the search that of a product of two matrices of 1024 x 1024 on one core. The last
table evaluates every constraint and every prediction of each design for so many candidates at once, which a search, whose constraints prune before it
predicts, never does. All are the least of some rounds.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import gemmgen.cli.app  # noqa: F401: verbs register themselves
from gemmgen.cli.verb import VERBS
from gemmgen.solve import explain, solve
from gemmgen.spec import loads

DESIGNS = {"portable": {"target": {"gpu": "a100"}}, "warp-specialised": {"fragment": {"policy": "wgmma"}, "target": {"gpu": "h100"}},
           "tensor memory": {"fragment": {"policy": "tcgen05"}, "target": {"gpu": "b200"}}}
SPEC = {"fragment": {"policy": "mma"}, "split": {"scheme": "ootomo"}, "target": {"gpu": "h100"}}


def of_children(*command: str) -> float:
    """Processor seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def here(function: Callable[[], object]) -> float:
    """Processor seconds of a call."""
    started = time.process_time()
    function()
    return time.process_time() - started


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

    return here(run)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=200_000)
    options = parser.parse_args()
    rounds = range(options.rounds)

    def least(measure: Callable[[], float]) -> float:
        return min(measure() for _ in rounds)

    empty = least(lambda: of_children("-c", "pass"))
    for verb in VERBS:
        print(f"gemmgen {verb} --help: {least(lambda: of_children('-m', 'gemmgen', *verb.split(), '--help')) / empty:.1f} times an empty Python")
    a = np.random.default_rng(0).uniform(-1, 1, (1024, 1024))
    product, loaded = least(lambda: here(lambda: a @ a)), loads(SPEC)
    found = explain(loaded)
    print(f"a search of {found.candidates:,} candidates: {least(lambda: here(lambda: explain(loaded))) / product:.1f} products of 1024 x 1024 x 1024")
    for name, spec in DESIGNS.items():
        seconds = least(lambda spec=spec: evaluated(spec, options.rows))
        print(f"{name:<18}{options.rows} candidates in {seconds:.3f} s, {options.rows / seconds / 1e6:.2f} million a second")


if __name__ == "__main__":
    main()
