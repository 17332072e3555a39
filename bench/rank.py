"""Where the time model puts a spec's kernel among all that split at the same place and fit.

    python bench/rank.py [specs/kernels/legemm_mi210.toml]

The others have the spec's scheme, promotion, fragment and GPU, and any tile and pipeline. They keep every
constraint that the kernel keeps; one that it breaks only steers a choice, as it verifies. Nothing is compiled.
"""

from __future__ import annotations

import argparse

from gemmgen.designs import Choices, Way
from gemmgen.solve import search, solve
from gemmgen.spec import load


def decided(numbers: dict) -> str:
    """A candidate's tile and pipeline, in words."""
    block, warp = ("x".join(str(int(numbers[name])) for name in names) for names in (("BM", "BN", "BK"), ("WM", "WN")))
    stages, buffers, slices = (int(numbers[name]) for name in ("stages", "fragment_buffers", "split_k"))
    return f"block {block}, warp {warp}, {stages} stages, fragment buffers {buffers}, slices of k {slices}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec", nargs="?", default="specs/kernels/legemm_mi210.toml")
    options = parser.parse_args()
    plan = solve(load(options.spec))
    own, design = plan.model, plan.design
    fixed = design.constants_of(plan)
    broken = [one for one in design.constraints if not one.holds(own)]
    kept = [one for one in design.constraints if one not in broken]
    choices = Choices(promote=(plan.promote,), ways=(Way(plan.where, plan.loads),))
    searched = search.enumerate_space(design, choices, fixed, plan.fragment, plan.gpu.registers, kept)
    known, order = search.ranked(design, searched, fixed)
    before = int((known["seconds"] < own["seconds"]).sum())
    best = {name: value[order[0]] for name, value in known.items()}
    print(f"{searched.feasible:,} plans; breaks {', '.join(one.number for one in broken) or 'none'} of the constraints")
    for title, numbers in ((f"number {before + 1}", own), ("number 1", best)):
        print(f"{title:<10} {1e3 * float(numbers['seconds']):.3g} ms predicted: {decided(numbers)}")


if __name__ == "__main__":
    main()
