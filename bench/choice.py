"""Is the model's choice a good one? Measure it against its own best and random others.

    python bench/choice.py [--scheme ootomo] [--promote 256] [--size 4096] [--csv FILE]

Times the 30 candidates the model ranks first, 30 drawn from all feasible ones,
a plausible hand choice (128x128x32, warp 64x32, three stages, one fragment
buffer) and the plain kernel (64x64x32, warp 32x32, two stages, one buffer), all
interleaved with cuBLAS SGEMM.
"""

from __future__ import annotations

import argparse
import csv
import statistics
from concurrent.futures import ThreadPoolExecutor

from gemmgen.build import build
from gemmgen.errors import GemmgenError
from gemmgen.plan import Plan
from gemmgen.render import render
from gemmgen.run import timing
from gemmgen.solve import alternatives, solve
from gemmgen.spec import loads

from vary import fixed

HAND = {"tile": {"block": [128, 128, 32], "warp": [64, 32, 32], "split_k": 1}, "pipeline": {"stages": 3, "fragment_buffers": 1}}
PLAIN = {"tile": {"block": [64, 64, 32], "warp": [32, 32, 32], "group": 1, "split_k": 1}, "pipeline": {"stages": 2, "fragment_buffers": 1}}


def prepared(plan: Plan):
    source = render(plan)
    try:
        return source, build(source)
    except GemmgenError as error:
        return source, error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scheme", default="ootomo")
    parser.add_argument("--promote", type=int, default=256)
    parser.add_argument("--gpu", default="h100")
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--fix", action="append", default=[], help="section.key=value for every candidate")
    parser.add_argument("--csv")
    options = parser.parse_args()
    base = {
        "problem": dict.fromkeys("mnk", options.size), "split": {"scheme": options.scheme, "promote": options.promote},
        "target": {"gpu": options.gpu},
    }
    for section, values in fixed(options.fix).items():
        base[section] = base.get(section, {}) | values
    best, drawn = alternatives(loads(base), 30, 30)
    plans = [("best", p) for p in best] + [("drawn", p) for p in drawn]
    plans += [(kind, solve(loads(base | by_hand | {"split": base["split"] | {"where": "prepass"}})))
              for kind, by_hand in (("hand", HAND), ("plain", PLAIN))]
    with ThreadPoolExecutor(16) as pool:
        built = list(pool.map(lambda entry: prepared(entry[1]), plans))
    inputs = timing.Inputs((options.size,) * 3)
    contenders = [timing.cublas("cublas-sgemm", inputs)]
    timed, refused = [], 0
    for (kind, plan), (source, binary) in zip(plans, built):
        if isinstance(binary, GemmgenError):
            refused += 1
            print(f"not built: {kind} {source.name}: {binary.problem}")
            continue
        contenders.append(timing.generated(source.name, plan, source, binary, inputs))
        timed.append((kind, plan, binary.kernels[source.name].registers))
    timing.race(contenders, rounds=options.rounds, slice_ms=12)
    sgemm = contenders[0].seconds
    rows = []
    for (kind, plan, registers), contender in zip(timed, contenders[1:]):
        ratio = statistics.median(s / t for s, t in zip(sgemm, contender.seconds))
        rows.append({
            "kind": kind, "block": "x".join(map(str, plan.block)), "warp": "x".join(map(str, plan.warp[:2])),
            "where": plan.where, "loads": plan.loads, "split_k": plan.split_k, "stages": plan.stages, "fragment_buffers": plan.fragment_buffers, "group": plan.group, "promote": plan.promote,
            "scheme": plan.scheme.name, "size": options.size, "predicted_registers": plan.predicted_registers,
            "registers": registers, "microseconds": round(statistics.median(contender.seconds) * 1e6, 1), "x_sgemm": round(ratio, 3),
        })
    for row in sorted(rows, key=lambda row: -row["x_sgemm"]):
        print("  ".join(f"{value!s:>9}" for value in row.values()))
    fastest = max(row["x_sgemm"] for row in rows)
    chosen = rows[0]["x_sgemm"]
    of = {kind: next((row["x_sgemm"] for row in rows if row["kind"] == kind), float("nan")) for kind in ("hand", "plain")}
    print(f"{timing.conditions()}")
    print(
        f"{options.scheme} promote {options.promote} {options.size}: chosen {chosen:.2f}x SGEMM, fastest {fastest:.2f}x "
        f"({100 * (1 - chosen / fastest):.0f} % behind), hand {of['hand']:.2f}x (gain {chosen / of['hand']:.2f}), "
        f"plain {of['plain']:.2f}x (gain {chosen / of['plain']:.2f}); {refused} not built"
    )
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
