"""Whether minimal specs build: every GPU with every scheme and layout, all else left open.

    python bench/builds.py builds.jsonl [--jobs 16] [--part 2/4] [--sizes 4096,1024] [--layouts nn,nt,tn,tt] [--gpus NAME,FILE.toml,...]
    python bench/builds.py builds.jsonl [MORE.jsonl...] --table

Decides, renders and compiles each; a line of the file is what became of one. What stands in one of the files already is not done again.
`--jobs` are processes of this machine, `--part I/N` one of N shares of the same combinations, each for a machine and a file of its own.
Equal sources are compiled once, since the build cache knows them. No GPU is needed. `--table` prints the outcomes of all files in Markdown.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from gemmgen.build import first_that_builds
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.errors import GemmgenError
from gemmgen.spec import LoadedSpec, loads

LAYOUTS = ("nn", "nt", "tn", "tt")
KEYS = ("gpu", "scheme", "layout", "size")
Combination = tuple[str, str, str, int]
"""A GPU's name, a scheme, a layout, a size."""


def minimal(gpu: str, scheme: str, layout: str, size: int) -> LoadedSpec:
    """A spec that says no more.

    Args:
        gpu: a name, or a .toml file.
        size: the hint for m, n and k.
    """
    return loads({
        "problem": {"layout": layout, "m": size, "n": size, "k": size}, "split": {"scheme": scheme}, "target": {"gpu": gpu},
    }, f"{Path(gpu).stem}, {scheme}, {layout}, {size}")


def outcome(loaded: LoadedSpec) -> dict[str, Any]:
    """What became of a spec: its kernel and what was passed over, or the refusal."""
    try:
        built = first_that_builds(loaded)
    except GemmgenError as error:
        return {"refused": error.as_dict()}
    seconds = [float(plan.model["seconds"]) for plan in (built.plan, *(one.plan for one in built.refused[:1]))]
    return {
        "kernel": built.source.name, "spilled": sum(used.spill_bytes for used in built.binary.kernels.values()),
        "passed_over": [one.as_dict() for one in built.refused], "slower": seconds[0] / seconds[-1] - 1,
    }


def combinations(gpus: Sequence[str], layouts: Sequence[str], sizes: Sequence[int], part: int = 1, parts: int = 1) -> list[Combination]:
    """The part's share of all combinations, `part` from 1 on. Shares are dealt from one shuffled pack, so that each has some of every scheme."""
    schemes = [row.name for row in SCHEMES.rows() if not row.b and row.element == "f32"]
    every = [(gpu, scheme, layout, size) for size in sizes for layout in layouts for gpu in gpus for scheme in schemes]
    random.Random(0).shuffle(every)
    return every[part - 1 :: parts]


def named(one: Combination) -> Combination:
    """A combination as the file has it: of a GPU's file its name."""
    return Path(one[0]).stem, *one[1:]


def done(combination: Combination) -> dict[str, Any]:
    """A line of the file; `took` is in seconds, of which almost none go where the build cache has the kernel."""
    start = time.perf_counter()
    return dict(zip(KEYS, named(combination))) | outcome(minimal(*combination)) | {"took": round(time.perf_counter() - start, 2)}


def read(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Each combination's line once, the last of several, by size and by GPU in the catalog's order."""
    found, order = {}, GPUS.names()
    for file in files:
        for line in file.read_text().splitlines():
            try:
                row = json.loads(line)
            except ValueError:  # the end of what a machine that was stopped was writing
                continue
            found[tuple(row[key] for key in KEYS)] = row
    place = {name: at for at, name in enumerate(order)}
    return sorted(found.values(), key=lambda row: (-row["size"], place.get(row["gpu"], len(order)), row["gpu"], row["scheme"], row["layout"]))


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Outcomes by GPU, and what was passed over."""
    rows = list(rows)
    kinds = sorted({_kind(row) for row in rows}, key=lambda kind: ("choice" not in kind, kind))
    counts = {gpu: Counter(_kind(row) for row in rows if row["gpu"] == gpu) for gpu in dict.fromkeys(row["gpu"] for row in rows)}
    lines = [f"| GPU | {' | '.join(kinds)} | all |", "| --- |" + " ---: |" * (len(kinds) + 1)]
    lines += [f"| {gpu} | {' | '.join(str(of[kind] or '') for kind in kinds)} | {of.total()} |" for gpu, of in counts.items()]
    whole = sum(counts.values(), Counter())
    lines.append(f"| all | {' | '.join(str(whole[kind]) for kind in kinds)} | {whole.total()} |")
    lines += ["", "| GPU | schemes and layouts | size | compiled | the first choice, refused | predicted time |", "| --- | --- | ---: | ---: | --- | ---: |"]
    passed: dict[tuple, dict[str, list[str]]] = {}
    for row in rows:
        if row.get("passed_over"):
            first = row["passed_over"][0]
            block, warp = ("x".join(map(str, extents)) for extents in (first["block"], first["warp"][:2]))
            tile = f"{block}, warp {warp}, {first['where']}: {first['has'].partition(', a stack')[0]}"
            same = (row["gpu"], row["size"], len(row["passed_over"]) + 1, tile, f"{100 * row['slower']:+.1f} %")
            passed.setdefault(same, {}).setdefault(row["scheme"], []).append(row["layout"])
    lines += [
        f"| {gpu} | {', '.join(_scheme(scheme, layouts) for scheme, layouts in of.items())} | {size} | {compiled} | {tile} | {slower} |"
        for (gpu, size, compiled, tile, slower), of in passed.items()
    ]
    reasons = Counter(f"{row['refused']['error']}: {row['refused']['problem']}" for row in rows if "refused" in row)
    took = [row["took"] for row in rows if "took" in row]
    seconds = [f"{len(took)} combinations took {sum(took):.0f} s of processes, each {sum(took) / len(took):.2f} s, one {max(took):.0f} s."] if took else []
    return "\n".join([*lines, "", *(f"- {count} x {reason}" for reason, count in sorted(reasons.items())), *seconds])


def _scheme(scheme: str, layouts: list[str]) -> str:
    return f"{scheme} ({' '.join(layouts)})"


def _kind(row: dict[str, Any]) -> str:
    return row["refused"]["error"] if "refused" in row else f"choice {len(row['passed_over']) + 1}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", help="the first is added to")
    parser.add_argument("--sizes", default="4096,1024")
    parser.add_argument("--layouts", default=",".join(LAYOUTS))
    parser.add_argument("--gpus", default=",".join(GPUS.names()))
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="the I-th of N shares")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    if not 1 <= part <= parts:
        parser.error(f"--part {options.part}: 1/{parts} to {parts}/{parts} are there")
    rows = read(file for file in options.files if options.table or file.exists())
    if options.table:
        print(table(rows))
        return
    known = {tuple(row[key] for key in KEYS) for row in rows}
    every = combinations(options.gpus.split(","), options.layouts.split(","), [*map(int, options.sizes.split(","))], part, parts)
    todo = [one for one in every if named(one) not in known]
    # Forked, so that the catalog is read once. A process that dies ends the run; the next one goes on from the file.
    with options.files[0].open("a") as file, ProcessPoolExecutor(options.jobs, multiprocessing.get_context("fork")) as pool:
        for number, one in enumerate(as_completed([pool.submit(done, one) for one in todo]), 1):
            print(json.dumps(one.result()), file=file, flush=True)
            if sys.stderr.isatty() or number == len(todo):
                print(f"\r{number} of {len(todo)}", end="" if number < len(todo) else "\n", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
