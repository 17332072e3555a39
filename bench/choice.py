"""Is the model's choice a good one? Measure it against its own best and random others.

    python bench/choice.py [--scheme ootomo] [--promote 256] [--policy mma] [--sizes 4096,2048x2048x8192] [--csv FILE]

Times the candidates the model ranks first, others drawn from all feasible ones, a plausible
hand choice and the plain kernel (HAND and PLAIN below), all interleaved with cuBLAS SGEMM.
"""

from __future__ import annotations

import argparse
import csv
import statistics
from concurrent.futures import ThreadPoolExecutor

from gemmgen import timing
from gemmgen.build import build
from gemmgen.errors import GemmgenError
from gemmgen.plan import Plan
from gemmgen.render import render
from gemmgen.solve import alternatives, solve
from gemmgen.spec import loads

from vary import fixed, size_of

HAND = {
    "mma": {"tile": {"block": [128, 128, 32], "warp": [64, 32, 32], "split_k": 1}, "pipeline": {"stages": 3, "fragment_buffers": 1}},
    "wgmma": {"tile": {"block": [128, 128, 64], "warp": [64, 128, 64], "split_k": 1, "cluster": 1, "group": 8},
              "pipeline": {"stages": 3, "consumers": "cooperative"}},
}
PLAIN = {
    "mma": {"tile": {"block": [64, 64, 32], "warp": [32, 32, 32], "group": 1, "split_k": 1}, "pipeline": {"stages": 2, "fragment_buffers": 1}},
    "wgmma": {"tile": {"block": [64, 64, 64], "warp": [64, 64, 64], "group": 1, "split_k": 1, "cluster": 1},
              "pipeline": {"stages": 2, "consumers": "cooperative"}},
}


def prepared(plan: Plan):
    source = render(plan)
    try:
        return source, build(source)
    except GemmgenError as error:
        return source, error


def measured(options: argparse.Namespace, size: tuple[int, int, int]) -> list[dict[str, object]]:
    """A row a kernel, those the model ranks first before the others."""
    base = {
        "problem": dict(zip("mnk", size)), "split": {"scheme": options.scheme}, "target": {"gpu": options.gpu},
        "fragment": {"policy": options.policy},
    }
    if options.promote is not None:
        base["split"]["promote"] = options.promote
    for section, values in fixed(options.fix).items():
        base[section] = base.get(section, {}) | values
    best, drawn = alternatives(loads(base), options.best, options.drawn)
    plans = [("best", p) for p in best] + [("drawn", p) for p in drawn]
    for kind, by_hand in (("hand", HAND), ("plain", PLAIN)):
        spec = base | {"split": base["split"] | {"where": "prepass"}}
        for section, values in by_hand[options.policy].items():
            spec[section] = base.get(section, {}) | values
        plans.append((kind, solve(loads(spec))))
    with ThreadPoolExecutor(16) as pool:
        built = list(pool.map(lambda entry: prepared(entry[1]), plans))
    inputs = timing.Inputs(size)
    contenders = [timing.cublas("cublas-sgemm", inputs)]
    timed, refused = [], 0
    for (kind, plan), (source, binary) in zip(plans, built):
        if isinstance(binary, GemmgenError):
            refused += 1
            print(f"not built: {kind} {source.name}: {binary.problem}")
            continue
        contenders.append(timing.generated(source.name, plan, source, binary, inputs))
        timed.append((kind, plan, binary.kernels[source.name].registers))
    timing.race(contenders, rounds=options.rounds, slice_ms=options.slice_ms)
    sgemm = contenders[0].seconds
    rows = []
    for (kind, plan, registers), contender in zip(timed, contenders[1:]):
        ratio = statistics.median(s / t for s, t in zip(sgemm, contender.seconds))
        rows.append({
            "kind": kind, "block": "x".join(map(str, plan.block)), "warp": "x".join(map(str, plan.warp[:2])),
            "where": plan.where, "loads": plan.loads, "split_k": plan.split_k, "stages": plan.stages,
            "fragment_buffers": plan.fragment_buffers, "group": plan.group, "promote": plan.promote, "cluster": plan.cluster,
            "consumers": plan.consumers, "scheme": plan.scheme.name, "layout": plan.layout, "size": "x".join(map(str, size)),
            "predicted_registers": plan.predicted_registers, "registers": registers,
            "microseconds": round(statistics.median(contender.seconds) * 1e6, 2), "x_sgemm": round(ratio, 3),
        })
    for row in sorted(rows, key=lambda row: -row["x_sgemm"]):
        print("  ".join(f"{value!s:>9}" for value in row.values()))
    fastest, chosen = max(row["x_sgemm"] for row in rows), rows[0]["x_sgemm"]
    of = {kind: next((row["x_sgemm"] for row in rows if row["kind"] == kind), float("nan")) for kind in ("hand", "plain")}
    print(
        f"{options.policy} {options.scheme} {'x'.join(map(str, size))}: chosen {chosen:.2f}x SGEMM, fastest {fastest:.2f}x "
        f"({100 * (1 - chosen / fastest):.0f} % behind), hand {of['hand']:.2f}x (gain {chosen / of['hand']:.2f}), "
        f"plain {of['plain']:.2f}x (gain {chosen / of['plain']:.2f}); {refused} not built", flush=True,
    )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scheme", default="ootomo")
    parser.add_argument("--promote", type=int)
    parser.add_argument("--policy", choices=sorted(HAND), default="mma")
    parser.add_argument("--gpu", default="h100")
    parser.add_argument("--sizes", default="4096")
    parser.add_argument("--best", type=int, default=30)
    parser.add_argument("--drawn", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--slice-ms", type=float, default=12)
    parser.add_argument("--fix", action="append", default=[], help="section.key=value for every candidate")
    parser.add_argument("--csv")
    options = parser.parse_args()
    rows = [row for size in options.sizes.split(",") for row in measured(options, size_of(size))]
    print(timing.conditions())
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
