"""Time kernels of a store at many shapes, so that a choice of few is held against measurements alone.

    python bench/few.py pick explore-out/sgemm_h200 -o few.json --gpu h200 --kernels 32 --shapes 300
    python bench/few.py alike --scheme scaled --gpu h200 --hint 8192,1024 --shapes 4096x4096x4096,4096x12288x4096 -o few.json
    python bench/few.py time few.json -o few_times.json --seconds 240
    python bench/few.py keep few.json few_times.json -o few_store

`pick` takes the kernels that `gemmgen choose` would, so many of them, for shapes drawn evenly on a logarithmic scale and such as programs have; it needs no
GPU. `alike` takes for each hint, the size that a plan is made for, the solver's best of every tile whose kernels are predicted to be nearly as fast as the
best: what the model does not tell apart. Large products want long slices, `--slice-ms 30`, as power sets the clock after some milliseconds. `time` races them
all at each shape on the GPU here, until the time is up; it needs cupy and no store. `keep` writes what was timed as rows of a store, for `gemmgen choose`.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

MOST = 1 << 36
"""Multiply-adds of a shape."""
ROUND = 64
"""Half of the shapes are multiples of this, as layers of programs mostly are."""


def drawn(count: int, seed: int, low: int = 64, high: int = 8192) -> list[tuple[int, int, int]]:
    """Shapes, each once."""
    draw, found = np.random.default_rng(seed), {}
    while len(found) < count:
        size = np.exp(draw.uniform(np.log(low), np.log(high), 3))
        size = np.rint(size / ROUND) * ROUND if len(found) % 2 else np.rint(size)
        if size.prod() <= MOST:
            found[tuple(int(one) for one in size)] = None
    return list(found)


def pick(options: argparse.Namespace) -> None:
    from gemmgen.workshop.choose.few import choose
    from gemmgen.workshop.explore.rebuilt import kernel_of, spec_of
    from gemmgen.workshop.choose.shapes import Shape
    from gemmgen.workshop.explore.store import Store

    shapes = drawn(options.shapes, options.seed)
    rows = [row for row in Store(options.store).rows() if row.layout == "nn"]
    found = choose(rows, options.kernels, [Shape(*one) for one in shapes], gpus=[options.gpu], error=options.error, held_out=0.0, method="greedy")
    picked = [found.costs[options.gpu].rows[at] for at in found.sets[options.gpu].kernels]
    kernels = [{"identity": kernel_of(row), "name": row.kernel, "spec": spec_of(row), "error": row.error} for row in picked]
    written(options, shapes, kernels)


def written(options: argparse.Namespace, shapes: list[tuple[int, int, int]], kernels: list[dict[str, Any]]) -> None:
    """What `time` is asked for."""
    options.output.write_text(json.dumps({"gpu": options.gpu, "shapes": shapes, "kernels": kernels}, indent=1) + "\n")
    print(f"{len(kernels)} kernels, {len(shapes)} shapes")


def alike(options: argparse.Namespace) -> None:
    from gemmgen.solve import ranked
    from gemmgen.solve.request import requests
    from gemmgen.spec import loads
    from gemmgen.workshop.explore.candidates import settled_spec

    kernels: dict[str, dict[str, Any]] = {}
    for hint in options.hint:
        spec = {
            "problem": dict.fromkeys("mnk", hint), "split": {"scheme": options.scheme}, "fragment": {"policy": options.policy}, "target": {"gpu": options.gpu},
        }
        for request in requests(loads(spec)):
            columns, order = (space := ranked(request)).columns, space.order
            seen = set()
            for row in order[columns["seconds"][order] <= options.within * columns["seconds"][order[0]]]:
                numbers = {name: int(columns[name][row]) for name in request.design.symbols}
                tile = tuple(value for name, value in numbers.items() if name not in ("stages", "group", "BK", "WK"))
                if tile in seen:
                    continue
                seen.add(tile)
                plan = request.plan(numbers)
                name = f"{plan.design.name} {plan.decided}"
                kernels[plan.hash] = {"identity": plan.hash, "name": name, "spec": settled_spec(request.loaded, plan), "error": None}
    shapes = [tuple(map(int, one.split("x"))) for one in options.shapes.split(",")]
    written(options, shapes, list(kernels.values()))


def race(options: argparse.Namespace) -> None:
    from gemmgen import road
    from gemmgen.errors import DeviceError, GemmgenError
    from gemmgen.timing.contender import generated
    from gemmgen.timing.environment import device_name, release_memory
    from gemmgen.timing.inputs import Inputs
    from gemmgen.timing.products import raced

    asked = json.loads(options.asked.read_text())

    def build(kernel: dict[str, Any]) -> Any:
        try:
            return road.build(kernel["spec"])
        except GemmgenError as error:
            print(f"{kernel['name']}: {error.problem}")
            return None

    with ThreadPoolExecutor(options.compilers) as pool:
        built = {kernel["identity"]: one for kernel, one in zip(asked["kernels"], pool.map(build, asked["kernels"])) if one}
    began, times = time.perf_counter(), []
    for size in asked["shapes"]:
        if time.perf_counter() - began > options.seconds:
            break
        try:
            inputs = Inputs(tuple(size))
            contenders = {name: generated(name, one.plan, one.source, one.binary, inputs) for name, one in built.items()}
            times.append({"size": size, "seconds": raced(contenders, rounds=options.rounds, slice_ms=options.slice_ms, warm_up=0.0)})
        except DeviceError as error:
            times.append({"size": size, "refused": str(error)})
        del inputs, contenders
        release_memory()
        options.output.write_text(json.dumps({"device": device_name(), "rounds": options.rounds, "slice_ms": options.slice_ms, "times": times}) + "\n")
    print(f"{len(times)} of {len(asked['shapes'])} shapes, {len(built)} kernels, {time.perf_counter() - began:.0f} s")


def rows_of(asked: dict[str, Any], found: dict[str, Any]) -> list[Any]:
    """What was timed, as rows."""
    from gemmgen import __version__
    from gemmgen.solve import solve
    from gemmgen.spec import loads
    from gemmgen.workshop.explore.rebuilt import Predictions
    from gemmgen.workshop.explore.row import Row, told

    rows, predictions = [], Predictions()
    sizes = [one["size"] for one in found["times"] if "seconds" in one]
    for kernel in asked["kernels"]:
        plan = solve(loads(kernel["spec"]))
        first = Row("few", "", "kernel", "timed", kernel["name"], asked["gpu"], 1, 1, 1, "nn", spec=told(kernel["spec"]), decided=told(plan.decided),
                    identity=kernel["identity"], scheme=plan.scheme.name, policy=plan.fragment.policy, design=plan.design.name)
        predicted = predictions.seconds(first, np.array(sizes))
        for at, size in enumerate(sizes):
            seconds = found["times"][at]["seconds"][kernel["identity"]]
            rows.append(Row(
                "few", f"{kernel['identity']} {size}", "kernel", "timed", kernel["name"], asked["gpu"], *size, plan.layout, generator=__version__,
                spec=first.spec, decided=first.decided, identity=first.identity, scheme=first.scheme, promote=plan.promote, policy=first.policy,
                design=first.design, block="x".join(map(str, plan.block)), warp="x".join(map(str, plan.warp)), stages=plan.stages, split_k=plan.split_k,
                device=found["device"], data="U[-1, 1]", predicted_seconds=float(predicted[at]), seconds=seconds, rounds=found["rounds"], error=kernel["error"],
            ))
    return rows


def keep(options: argparse.Namespace) -> None:
    from gemmgen.workshop.explore.store import Writer

    found = json.loads(options.times.read_text())
    found["times"] = [one for one in found["times"] if "seconds" in one]
    rows, writer = rows_of(json.loads(options.asked.read_text()), found), Writer(options.output)
    for row in rows:
        writer.add(row)
    writer.close()
    print(f"{len(rows)} rows")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    first = verbs.add_parser("pick")
    first.set_defaults(do=pick)
    first.add_argument("store")
    first.add_argument("--gpu", required=True)
    first.add_argument("--kernels", type=int, default=32)
    first.add_argument("--shapes", type=int, default=300)
    first.add_argument("--seed", type=int, default=1)
    first.add_argument("--error", type=float, default=1e-6)
    other = verbs.add_parser("alike")
    other.set_defaults(do=alike)
    other.add_argument("--gpu", required=True)
    other.add_argument("--scheme", required=True)
    other.add_argument("--policy", default="auto")
    other.add_argument("--hint", type=lambda text: [int(one) for one in text.split(",")], default=[8192])
    other.add_argument("--within", type=float, default=1.2, help="times the best one's predicted seconds")
    other.add_argument("--shapes", default="4096x4096x4096,8192x8192x8192")
    second = verbs.add_parser("time")
    second.set_defaults(do=race)
    second.add_argument("asked", type=Path)
    second.add_argument("--seconds", type=float, default=240)
    second.add_argument("--rounds", type=int, default=5)
    second.add_argument("--slice-ms", type=float, default=1.5)
    second.add_argument("--compilers", type=int, default=16)
    third = verbs.add_parser("keep")
    third.set_defaults(do=keep)
    third.add_argument("asked", type=Path)
    third.add_argument("times", type=Path)
    for one in (first, other, second, third):
        one.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    options.do(options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
