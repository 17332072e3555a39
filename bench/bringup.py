"""What a bring-up's rows are worth: the solver's first choice on them beside the best of a study's trials, in one race a size.

    python bench/bringup.py best docs/results/explore_h200 --gpu h200 -o best.json      # anywhere: the fastest kernels of a store, as specs
    python bench/bringup.py race my_gpu/my_gpu.toml best.json                            # on the GPU: first choices beside them
    python bench/bringup.py trials my_gpu/my_gpu.toml --trials 300 --sizes 1024 4096     # on the GPU: first choices beside the best of fresh trials

A size is a number, or MxNxK.
"""

from __future__ import annotations

import argparse
import json
import pickle
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from gemmgen.solve import alternatives
from gemmgen.spec import loads
from gemmgen.workshop.bringup.processes import Processes
from gemmgen.workshop.explore.space import settled_spec
from gemmgen.workshop.explore.trial import Task

Size = tuple[int, int, int]


def size_of(text: str) -> Size:
    parts = [int(part) for part in text.split("x")]
    return tuple(parts * (3 // len(parts)))


def best(options: argparse.Namespace) -> None:
    """The fastest kernels of each size of a store."""
    from gemmgen.workshop.explore.rebuilt import kernel_of, spec_of, timed_whole
    from gemmgen.workshop.explore.store import Store

    rows: dict[tuple[Size, str], list[Any]] = defaultdict(list)
    for row in Store(str(options.store)).rows(f"gpu = '{options.gpu}'"):
        if row.kind == "kernel" and timed_whole(row) and row.layout == "nn":
            rows[(row.m, row.n, row.k), row.scheme].append(row)
    told = []
    for (size, scheme), of in sorted(rows.items()):
        first = {kernel_of(row): row for row in sorted(of, key=lambda row: -row.seconds)}
        found = sorted(first.values(), key=lambda row: row.seconds)[: options.each]
        specs, us = [spec_of(row) for row in found], [1e6 * row.seconds for row in found]
        told.append({"size": size, "scheme": scheme, "kernels": len(first), "specs": specs, "us": us})
    options.output.write_text(json.dumps(told, indent=1))
    print(f"{len(told)} sizes, {sum(one['kernels'] for one in told)} kernels")


def race(options: argparse.Namespace) -> None:
    """First choices on a row beside others' best."""
    asked = json.loads(options.best.read_text())
    sizes = [size_of(one) for one in options.sizes]
    asked = [one for one in asked if not sizes or tuple(one["size"]) in sizes]
    header()
    ratios = []
    with Processes() as pool:
        begun = [begin(pool, options.row, tuple(one["size"]), one["scheme"], one["specs"]) for one in asked]
        for one, (firsts, others) in zip(asked, begun):
            ratios.append(raced(tuple(one["size"]), firsts(), [future.result() for future in others], one["kernels"], options))
    summary(ratios)


def trials(options: argparse.Namespace) -> None:
    """First choices on a row beside the best of fresh trials, `--trials` of all sizes together: 60 % of them what the row's model ranks first, the
    others drawn from all that are feasible."""
    sizes = [size_of(one) for one in options.sizes]
    each = options.trials // len(sizes)
    header()
    ratios = []
    with Processes() as pool:
        for size in sizes:
            loaded = loads({"problem": dict(zip("mnk", size)), "split": {"scheme": options.scheme}, "target": {"gpu": str(options.row.resolve())}})
            ranked, drawn = alternatives(loaded, 6 * each // 10, each - 6 * each // 10)
            firsts, others = begin(pool, options.row, size, options.scheme, [settled_spec(loaded, plan) for plan in (*ranked, *drawn)])
            rows = []
            for future in others:
                kind, answer = future.result()
                if kind == "value" and answer[1]:
                    _, own = pool.on_gpu("gemmgen.workshop.explore.trial:timed", Task({}, size, made=answer[1], rounds=5, slice_ms=5.0))
                    rows.append((own.get("seconds") if isinstance(own, dict) else None, (kind, answer)))
            fastest = sorted((one for one in rows if one[0]), key=lambda one: one[0])[:4]
            ratios.append(raced(size, firsts(), [one for _, one in fastest], len(rows), options))
    summary(ratios)


def begin(pool: Processes, row: Path, size: Size, scheme: str, specs: list[dict[str, Any]]) -> Any:
    """The first choice on the row, and the others for it, on their way through the compiler."""
    place = str(row.resolve())
    spec = {"problem": dict(zip("mnk", size)), "split": {"scheme": scheme}, "target": {"gpu": place}}
    own = pool.begin("gemmgen.workshop.explore.trial:first_to_build", [spec])
    for one in specs:
        one["target"] = {**one.get("target", {}), "gpu": place}
    others = [pool.begin("gemmgen.workshop.explore.trial:compiled", Task(one, size)) for one in specs]

    def first() -> Any:
        kind, found = own.result()
        if kind != "value" or found is None:
            return kind, found
        return pool.begin("gemmgen.workshop.explore.trial:compiled", Task(found[0], size)).result()

    return first, others


def raced(size: Size, first: Any, others: list[Any], count: int, options: argparse.Namespace) -> float | None:
    """The line of a size, and the first choice's time over the best of all."""
    from gemmgen import timing

    label = "x".join(map(str, size))
    if first[0] != "value" or not first[1][1]:
        print(f"{label:<18} no first choice: {first[1] if first[0] != 'value' else first[1][0]['reason']}")
        return None
    made = [pickle.loads(first[1][1]), *(pickle.loads(one[1][1]) for one in others if one[0] == "value" and one[1][1])]
    unlike = {one.plan.hash: one for one in reversed(made)}
    inputs = timing.Inputs(size)
    racing = [timing.generated(name, one.plan, one.source, one.binary, inputs) for name, one in unlike.items()]
    vendor = timing.cublas("cublas-sgemm", inputs)
    timing.race([*racing, vendor], rounds=options.rounds, slice_ms=options.slice_ms, sensors=timing.sensors_here())
    seconds = {name: float(np.median(one.seconds)) for name, one in zip(unlike, racing)}
    mine, fastest = seconds[made[0].plan.hash], min(seconds.values())
    winner = unlike[min(seconds, key=seconds.get)].plan
    predicted = float(made[0].plan.model["seconds"])
    over = float(np.median(vendor.seconds)) / mine
    print(f"{label:<18} {count:>7} {1e6 * mine:>10.4g} {1e6 * fastest:>9.4g} {mine / fastest:>13.3f} {predicted / mine:>10.2f} {over:>11.2f}"
          f"  {told(made[0].plan)}" + ("" if mine == fastest else f", best {told(winner)}"), flush=True)
    timing.release_memory()
    return mine / fastest


def told(plan: Any) -> str:
    return f"{plan.design.name} {'x'.join(map(str, plan.block))}"


def header() -> None:
    print(f"{'size':<18} {'kernels':>7} {'first us':>10} {'best us':>9} {'first / best':>13} {'predicted':>10} {'over SGEMM':>11}")


def summary(ratios: list[float | None]) -> None:
    known = np.array([one for one in ratios if one])
    if len(known):
        print(f"{len(known)} sizes: first over best mean {known.mean():.3f}, worst {known.max():.3f}; within 10 % at {(known <= 1.1).sum()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("best")
    one.add_argument("store", type=Path)
    one.add_argument("--gpu", default="h200")
    one.add_argument("--each", type=int, default=4)
    one.add_argument("--output", "-o", type=Path, required=True)
    one.set_defaults(run=best)
    for name, run in (("race", race), ("trials", trials)):
        one = verbs.add_parser(name)
        one.add_argument("row", type=Path)
        if name == "race":
            one.add_argument("best", type=Path)
        one.add_argument("--sizes", nargs="*", default=[] if name == "race" else ["1024", "4096"])
        one.add_argument("--trials", type=int, default=300)
        one.add_argument("--scheme", default="ootomo")
        one.add_argument("--rounds", type=int, default=11)
        one.add_argument("--slice-ms", type=float, default=8.0)
        one.set_defaults(run=run)
    options = parser.parse_args()
    start = time.perf_counter()
    options.run(options)
    print(f"{time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
