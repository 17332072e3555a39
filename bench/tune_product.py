"""What `gemmgen.tune` finds in two minutes beside a study of 300 trials of the same product, on the GPU here.

    python bench/tune_product.py 3000 1500 2200 --budget "2 min" --trials 300

Both keep their stores under --out. Prints the seconds of both kernels, their ratio (the bar: at most 1.02), and the seconds of a second call, which the store
answers.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import gemmgen
from gemmgen.workshop.explore.headline import seconds_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", nargs=3, type=int, metavar=("M", "N", "K"))
    parser.add_argument("--accuracy", default="fp32")
    parser.add_argument("--budget", default="2 min")
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--out", type=Path, default=Path("tune-product"))
    asked = parser.parse_args()
    given = {"accuracy": asked.accuracy, "store": asked.out / "tuned"}
    tuned = gemmgen.tune(*asked.size, budget=asked.budget, **given)
    if not tuned.measured:
        print("no GPU that the catalog knows is here: nothing was timed")
        return 1
    start = time.perf_counter()
    again = gemmgen.tune(*asked.size, budget=asked.budget, **given)
    answered = time.perf_counter() - start
    study = type(tuned.study)(tuned.study.study.with_(seconds=1e6, trials=asked.trials), asked.out / "study")
    study.run(workers=None)
    best = min((row for row in study.rows("kind = 'kernel' AND verdict = 'timed'")), key=seconds_of)
    print(tuned)
    print(f"study    {asked.trials} trials: {best.kernel}, {1e6 * best.seconds:.4g} us on {best.device}")
    print(f"ratio    {tuned.seconds / best.seconds:.4f} (the bar: 1.02)")
    print(f"again    {answered:.2f} s, {'kept' if again.kept and again.row.trial == tuned.row.trial else 'NOT kept'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
