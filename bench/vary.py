"""What does one decision cost or gain? Time kernels that differ in it, interleaved with cuBLAS SGEMM.

    python bench/vary.py --fix split.scheme=ootomo --fix target.gpu=h100 --vary split.where=prepass,shared,register \\
        [--vary tile.block=128x64x32,96x96x32] [--sizes 1024,8192x8192x512] [--csv FILE]

Every combination of the varied values makes a spec with the fixed ones; what is left open, the model fills.
Combinations that cannot be built are listed with the reason.
"""

from __future__ import annotations

import argparse
import copy
import csv
import itertools
import statistics
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from gemmgen.build import Binary, build
from gemmgen.errors import GemmgenError
from gemmgen.plan import Plan
from gemmgen.render import Source, render
from gemmgen.solve import solve
from gemmgen.spec import loads


@dataclass(frozen=True)
class Kernel:
    label: str
    plan: Plan
    source: Source
    binary: Binary


def value_of(text: str) -> Any:
    """`3`, `128x64x32` or a word, as a spec file has it."""
    parts = text.split("x")
    if all(part.isdigit() for part in parts):
        return [int(part) for part in parts] if len(parts) > 1 else int(text)
    return text


def put(spec: dict[str, Any], path: str, value: Any) -> None:
    section, _, key = path.partition(".")
    spec.setdefault(section, {})[key] = value


def size_of(text: str) -> tuple[int, int, int]:
    """`4096` or `2048x2048x8192` as (m, n, k)."""
    extents = [int(part) for part in text.split("x")]
    return tuple(extents * 3 if len(extents) == 1 else extents)


def fixed(settings: list[str], size: tuple[int, int, int] | None = None) -> dict[str, Any]:
    """A spec's data from `section.key=value` settings, with `size`, (m, n, k), for its hints."""
    spec: dict[str, Any] = {"problem": dict(zip("mnk", size))} if size else {}
    for setting in settings:
        path, _, value = setting.partition("=")
        put(spec, path, value_of(value))
    return spec


def combinations(spec: dict[str, Any], varied: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each combination's label and spec."""
    axes = []
    for setting in varied:
        path, _, values = setting.partition("=")
        axes.append([(path, value) for value in values.split(",")])
    for chosen in itertools.product(*axes):
        one = copy.deepcopy(spec)
        for path, value in chosen:
            put(one, path, value_of(value))
        yield " ".join(f"{path.partition('.')[2]}={value}" for path, value in chosen), one


def made(entry: tuple[str, dict[str, Any]]) -> Kernel | tuple[str, GemmgenError]:
    label, spec = entry
    try:
        plan = solve(loads(spec))
        source = render(plan)
        return Kernel(label, plan, source, build(source))
    except GemmgenError as error:
        return label, error


def measured(kernels: list[Kernel], size: str, rounds: int, slice_ms: float) -> list[dict[str, Any]]:
    """A row a kernel, fastest first."""
    from gemmgen import timing

    inputs = timing.Inputs(size_of(size))
    contenders = [timing.cublas("cublas-sgemm", inputs)]
    contenders += [timing.generated(one.label, one.plan, one.source, one.binary, inputs) for one in kernels]
    timing.race(contenders, rounds=rounds, slice_ms=slice_ms)
    base = contenders[0].seconds
    rows = []
    for kernel, contender in zip(kernels, contenders[1:]):
        rows.append(row_of(kernel, size) | {
            "microseconds": round(statistics.median(contender.seconds) * 1e6, 2),
            "x_sgemm": round(statistics.median(b / s for b, s in zip(base, contender.seconds)), 3),
            "error": f"{timing.error_of(contender, inputs):.2e}",
        })
    return sorted(rows, key=lambda row: -row["x_sgemm"])


def row_of(kernel: Kernel, size: str) -> dict[str, Any]:
    plan = kernel.plan
    return {
        "size": size, "varied": kernel.label, "scheme": plan.scheme.name, "fragment": plan.fragment.name,
        "block": "x".join(map(str, plan.block)), "warp": "x".join(map(str, plan.warp[:2])), "where": plan.where,
        "loads": plan.loads, "stages": plan.stages, "fragment_buffers": plan.fragment_buffers, "group": plan.group,
        "split_k": plan.split_k, "promote": plan.promote, "predicted_registers": plan.predicted_registers,
        "registers": kernel.binary.kernels[kernel.source.name].registers,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fix", action="append", default=[])
    parser.add_argument("--vary", action="append", default=[])
    parser.add_argument("--sizes", default="1024,4096")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--slice-ms", type=float, default=15)
    parser.add_argument("--csv")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for size in options.sizes.split(","):
        with ThreadPoolExecutor(16) as pool:
            outcomes = list(pool.map(made, combinations(fixed(options.fix, size_of(size)), options.vary)))
        for outcome in outcomes:
            if not isinstance(outcome, Kernel):
                print(f"not built: {outcome[0]}: {outcome[1].problem}")
        rows += measured([one for one in outcomes if isinstance(one, Kernel)], size, options.rounds, options.slice_ms)
    if rows:
        print("  ".join(rows[0]))
    for row in rows:
        print("  ".join(map(str, row.values())))
    from gemmgen import timing

    print(timing.conditions())
    if options.csv and rows:
        with open(options.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
