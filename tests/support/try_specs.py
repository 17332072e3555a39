"""Tries random specs of every key in a process that is ended where one takes too long, and prints what became of them.

    python tests/support/try_specs.py --count 3000 --plans          plans and texts alone
    python tests/support/try_specs.py --count 300 --first 10000     compiled and verified on the emulator
    python tests/support/try_specs.py --only 10017                  one of them, with its traceback

A spec's number tells it whole. The exit status is 1 where one ended in neither a kernel nor a typed refusal.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from random_specs import any_spec, planned_or_refused, verified_or_refused  # noqa: E402

RIGHT = ("planned", "verified", "compiled", "refused")


def outcome(number: int, plans: bool) -> tuple[str, str]:
    """(what became of a spec, how), where it is a failure with the place."""
    data = any_spec(number)
    try:
        return (planned_or_refused(data) if plans else verified_or_refused(data, _device)), ""
    except Exception as error:  # noqa: BLE001, it is what is looked for
        place = traceback.extract_tb(error.__traceback__)[-1]
        return "FAILED", f"{type(error).__name__}: {str(error)[:300]} ({Path(place.filename).name}:{place.lineno})"


def _device(plan, source, binary):
    from gemmgen.emulate import TOGETHER
    from gemmgen.run.emulator import EmulatorDevice

    return EmulatorDevice(plan, source, binary, schedule=TOGETHER, processes=1)


def _work(pipe, plans: bool) -> None:
    while (number := pipe.recv()) is not None:
        pipe.send(outcome(number, plans))


class Worker:
    """A process that tries one spec after another, and another one where it had to be ended."""

    def __init__(self, plans: bool):
        self.plans, self.process = plans, None

    def tried(self, number: int, limit: float) -> tuple[str, str]:
        """(what became of a spec, how)."""
        if self.process is None:
            self.pipe, theirs = multiprocessing.Pipe()
            self.process = multiprocessing.Process(target=_work, args=(theirs, self.plans), daemon=True)
            self.process.start()
            theirs.close()
        try:
            self.pipe.send(number)
            if self.pipe.poll(limit):
                return self.pipe.recv()
            found = "TOO LONG", f"more than {limit:g} s"
        except (EOFError, BrokenPipeError):
            found = "DIED", "the process ended"
        self.process.kill()
        self.process.join()
        self.process = None
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first one's number")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds that one may take")
    parser.add_argument("--plans", action="store_true", help="plans and texts alone; else compiled and verified")
    parser.add_argument("--only", type=int, help="one number, in this process")
    asked = parser.parse_args()
    if asked.only is not None:
        print(json.dumps(any_spec(asked.only)))
        data = any_spec(asked.only)
        print(planned_or_refused(data) if asked.plans else verified_or_refused(data, _device))
        return 0
    outcomes, worker, slowest, start = Counter(), Worker(asked.plans), (0.0, 0), time.monotonic()
    for tried, number in enumerate(range(asked.first, asked.first + asked.count)):
        if tried and tried % 100 == 0:
            print(f"{tried} of them: {dict(outcomes)}", flush=True)
        before = time.monotonic()
        found, told = worker.tried(number, asked.limit)
        outcomes[found] += 1
        slowest = max(slowest, (time.monotonic() - before, number))
        if found not in RIGHT:
            print(f"{number}: {found}: {told}\n    {json.dumps(any_spec(number))}", flush=True)
    print(f"{asked.count} specs from {asked.first} on in {time.monotonic() - start:.0f} s, the slowest {slowest[1]} in {slowest[0]:.1f} s")
    for found, count in outcomes.most_common():
        print(f"    {found:<10} {count}")
    return int(any(found not in RIGHT for found in outcomes))


if __name__ == "__main__":
    raise SystemExit(main())
