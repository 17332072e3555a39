"""How long people wait before anything is computed: help, and the search of the space, as ratios to an empty Python.

    python bench/start.py [--rounds 5]

Processor time of a process of its own, the least of some rounds, in units of an empty Python; the search, in the units of a
product of two matrices of 1024 x 1024 on one core.
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

from gemmgen.cli.app import app
from gemmgen.solve import explain
from gemmgen.spec import loads

VERBS = [command.name or command.callback.__name__ for command in app.registered_commands]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = range(parser.parse_args().rounds)

    def least(measure: Callable[[], float]) -> float:
        return min(measure() for _ in rounds)

    empty = least(lambda: of_children("-c", "pass"))
    for verb in VERBS:
        print(f"gemmgen {verb} --help: {least(lambda: of_children('-m', 'gemmgen', verb, '--help')) / empty:.1f} times an empty Python")
    a = np.random.default_rng(0).uniform(-1, 1, (1024, 1024))
    product, loaded = least(lambda: here(lambda: a @ a)), loads(SPEC)
    found = explain(loaded)
    print(f"a search of {found.candidates:,} candidates: {least(lambda: here(lambda: explain(loaded))) / product:.1f} products of 1024 x 1024 x 1024")


if __name__ == "__main__":
    main()
