"""What each measure of a paper is worth, step by step, from a list of specs: each step's speed, and what the paper says of it.

    python bench/ablation.py show specs/ablations/egemm.toml [--gpu h200]
    python bench/ablation.py run specs/ablations/egemm.toml [--gpu h200] [--sizes 4096,8192] [--rounds 9] [--json FILE]
    python bench/ablation.py table specs/ablations/egemm.toml --json FILE
    python bench/ablation.py once specs/ablations/egemm.toml --step "Table 4" [--gpu h200] [--size 4096]

A list has a base spec and steps, each of which changes some of it; claims name two steps and the ratio that the paper reports. `show` solves every step and
needs no GPU. `run` times the main kernels of all steps in one race on a CUDA GPU, cuBLAS SGEMM beside them, and prints a line for each step and each claim;
a step that the compiler or the GPU refuses is told and left out. `table` prints the same lines of the file that `run` wrote with --json. `once` launches one step's kernels once, for a profiler.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from gemmgen import road
from gemmgen.build import Binary, build
from gemmgen.catalog.table import Strict, parse, read_toml
from gemmgen.errors import GemmgenError, SpecError, UnknownName
from gemmgen.plan import Plan
from gemmgen.render import Source, render
from gemmgen.solve import solve
from gemmgen.spec import LoadedSpec, loads

BASELINE = "cuBLAS SGEMM"
Text = Annotated[str, Field(min_length=1, max_length=200)]


class Step(Strict):
    """A spec of the list.

    Attributes:
        change: laid over the base's sections, key by key.
    """

    name: Text
    told: Text
    change: dict[str, dict[str, Any]] = {}


class Claim(Strict):
    """How much faster one step is than another.

    Attributes:
        reported: the paper's ratio; None where it has none.
    """

    told: Text
    faster: Text
    slower: Text
    reported: Annotated[float, Field(gt=0)] | None = None


class Ablation(Strict):
    title: Text
    base: dict[str, dict[str, Any]]
    step: Annotated[tuple[Step, ...], Field(min_length=1, strict=False)]
    claim: Annotated[tuple[Claim, ...], Field(strict=False)] = ()


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def read(path: Path) -> Ablation:
    """The list.

    Raises:
        SpecError: it is none, or two steps have one name.
        UnknownName: a claim names no step.
    """
    found = parse(Ablation, read_toml(path), str(path))
    names = [step.name for step in found.step]
    if twice := {name for name in names if names.count(name) > 1}:
        raise SpecError(f"{path}: [[step]]", "two have one name", got=", ".join(sorted(twice)), needs="a name for each")
    for claim in found.claim:
        for name in (claim.faster, claim.slower):
            if name not in names:
                raise UnknownName(f"{path}: [[claim]]", "step", name, names)
    return found


def spec_of(ablation: Ablation, step: Step, gpu: str | None, size: int, place: str = "ablation") -> LoadedSpec:
    """A step's spec, for products of one size.

    Raises:
        SpecError: base and change are no spec together.
    """
    sections = [*ablation.base, *(section for section in step.change if section not in ablation.base)]
    data = {section: ablation.base.get(section, {}) | step.change.get(section, {}) for section in sections}
    data["problem"] = data.get("problem", {}) | {"m": size, "n": size, "k": size}
    return loads(data, f"{place}: {step.name}").on(gpu)


def solved(ablation: Ablation, gpu: str | None, size: int) -> dict[str, Plan | GemmgenError]:
    """Each step's plan, or why it has none."""
    found: dict[str, Plan | GemmgenError] = {}
    for step in ablation.step:
        try:
            found[step.name] = solve(spec_of(ablation, step, gpu, size))
        except GemmgenError as error:
            found[step.name] = error
    return found


def built(ablation: Ablation, gpu: str | None, size: int) -> dict[str, tuple[Plan, Source, Binary] | GemmgenError]:
    """Each step's kernel, or why it has none."""
    def one(step: Step) -> tuple[Plan, Source, Binary] | GemmgenError:
        try:
            made = road.build(spec_of(ablation, step, gpu, size))
            return made.plan, made.source, made.binary
        except GemmgenError as error:
            return error

    with ThreadPoolExecutor() as pool:
        return dict(zip((step.name for step in ablation.step), pool.map(one, ablation.step)))


def plans_table(ablation: Ablation, plans: Mapping[str, Plan | GemmgenError]) -> str:
    """What is decided at each step, with predicted resources."""
    rows = []
    for step in ablation.step:
        plan = plans[step.name]
        if isinstance(plan, GemmgenError):
            rows.append([step.name, step.told, f"refused: {plan.problem}", "", "", ""])
        else:
            numbers = plan.model
            rows.append([step.name, step.told, plan.summary, str(numbers["registers"]), str(plan.shared_bytes), f"{numbers['tflops']:.1f}"])
    return markdown(["step", "what it is", "decided", "registers", "shared B", "predicted TFLOP/s"], rows)


def speeds_table(ablation: Ablation, document: Mapping[str, Any]) -> str:
    """TFLOP/s of each step's main kernel, and over the step before."""
    sizes = document["sizes"]
    rows = []
    for name in (BASELINE, *(step.name for step in ablation.step)):
        kernels = [document["kernels"][str(size)].get(name, {}) for size in sizes]
        cells = []
        for size in sizes:
            seconds = document["seconds"][str(size)]
            if name not in seconds:
                cells += [f"refused: {document['refused'].get(f'{name} at {size}', '')}", ""]
                continue
            raced = list(seconds)
            before = raced[raced.index(name) - 1] if name != BASELINE else BASELINE
            cells += [f"{2e-12 * size**3 / seconds[name]:.1f}", "" if before == BASELINE else f"{seconds[before] / seconds[name]:.2f}"]
        used = [", ".join(dict.fromkeys(str(one[key]) for one in kernels if key in one)) for key in ("block", "registers", "spilled")]
        rows.append([name, *used, *cells])
    heads = [head for size in sizes for head in (f"{size}: TFLOP/s", "x before")]
    return markdown(["step", "block", "registers", "B spilled", *heads], rows)


def claims_table(ablation: Ablation, document: Mapping[str, Any]) -> str:
    """The paper's ratios beside those measured."""
    rows = []
    for claim in ablation.claim:
        cells = []
        for size in document["sizes"]:
            seconds = document["seconds"][str(size)]
            there = claim.faster in seconds and claim.slower in seconds
            cells.append(f"{seconds[claim.slower] / seconds[claim.faster]:.2f}" if there else "not measured")
        rows.append([claim.told, f"{claim.faster} / {claim.slower}", "" if claim.reported is None else f"{claim.reported:g}", *cells])
    return markdown(["claim", "of", "paper", *map(str, document["sizes"])], rows)


def measured(ablation: Ablation, gpu: str | None, sizes: Sequence[int], rounds: int, slice_ms: float) -> dict[str, Any]:
    """Time every step.

    Raises:
        DeviceError: there is no GPU.
    """
    from gemmgen import timing

    document: dict[str, Any] = {
        "title": ablation.title, "device": timing.device_name(), "gpu": gpu, "sizes": list(sizes), "rounds": rounds,
        "seconds": {}, "refused": {}, "kernels": {},
    }
    for size in sizes:
        kernels = built(ablation, gpu, size)  # a size may lead to other tiles; what is the same comes from the cache
        refused = {name: one for name, one in kernels.items() if isinstance(one, GemmgenError)}
        document["refused"] |= {f"{name} at {size}": " ".join(one.problem.split()) for name, one in refused.items()}
        able = {name: one for name, one in kernels.items() if not isinstance(one, GemmgenError)}
        document["kernels"][str(size)] = {
            name: {
                "kernel": source.name, "block": "x".join(map(str, plan.block)), "decided": plan.summary, "registers": binary.kernels[source.name].registers,
                "spilled": binary.kernels[source.name].spill_bytes, "shared": plan.shared_bytes, "predicted_tflops": float(plan.model["tflops"]),
            } for name, (plan, source, binary) in able.items()
        }
        inputs = timing.Inputs((size, size, size))
        field = [timing.cublas("cublas-sgemm", inputs, BASELINE)]
        field += [timing.generated(name, *parts, inputs, main_only=True) for name, parts in able.items()]
        timing.race(field, rounds=rounds, slice_ms=slice_ms)
        document["seconds"][str(size)] = {one.name: statistics.median(one.seconds) for one in field}
        del field, inputs
        timing.release_memory()
    return document


def once(ablation: Ablation, name: str, gpu: str | None, size: int) -> None:
    """Launch one step's kernels once.

    Raises:
        UnknownName: there is no such step.
        GemmgenError: it cannot be built, or there is no GPU.
    """
    from gemmgen import timing

    steps = {step.name: step for step in ablation.step}
    if name not in steps:
        raise UnknownName("--step", "step", name, steps)
    plan = solve(spec_of(ablation, steps[name], gpu, size))
    source = render(plan)
    inputs = timing.Inputs((size, size, size))
    timing.generated(name, plan, source, build(source), inputs).enqueue(0)
    timing.release_memory()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("show", "run", "table", "once"))
    parser.add_argument("list", type=Path)
    parser.add_argument("--gpu", default=None)
    parser.add_argument("--sizes", default="4096,8192")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--slice-ms", type=float, default=8.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--step", default="")
    parser.add_argument("--size", type=int, default=4096)
    options = parser.parse_args()
    ablation = read(options.list)
    if options.verb == "show":
        print(f"{ablation.title}\n\n{plans_table(ablation, solved(ablation, options.gpu, options.size))}")
    elif options.verb == "once":
        once(ablation, options.step, options.gpu, options.size)
    else:
        if options.verb == "run":
            document = measured(ablation, options.gpu, [int(text) for text in options.sizes.split(",")], options.rounds, options.slice_ms)
            if options.json:
                options.json.write_text(json.dumps(document, indent=1) + "\n")
        elif options.json:
            document = json.loads(options.json.read_text())
        else:
            parser.error("table needs --json FILE, as run wrote it")
        print(f"{ablation.title}, {document['device']}\n\n{speeds_table(ablation, document)}\n\n{claims_table(ablation, document)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
