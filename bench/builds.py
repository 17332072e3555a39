"""Whether minimal specs build: every GPU with every scheme and layout, all else left open.

    python bench/builds.py builds.jsonl [--sizes 4096,1024] [--layouts nn,nt,tn,tt] [--gpus NAME,FILE.toml,...]
    python bench/builds.py builds.jsonl --table

Decides, renders and compiles each; a line of the file is what became of one, and one that is there already is
not done again. Equal sources are compiled once, since the build cache knows them. No GPU is needed; all of it
takes about an hour of one core. `--table` prints the file's outcomes in Markdown.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gemmgen.build import first_that_builds
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.errors import GemmgenError
from gemmgen.spec import LoadedSpec, loads

OTHERS = sorted((Path(__file__).parents[1] / "tests" / "data" / "gpus").glob("*.toml"))
"""GPUs that are not shipped, with rows as a user would write them."""

LAYOUTS = ("nn", "nt", "tn", "tt")


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
    return "\n".join([*lines, "", *(f"- {count} x {reason}" for reason, count in sorted(reasons.items()))])


def _scheme(scheme: str, layouts: list[str]) -> str:
    return f"{scheme} ({' '.join(layouts)})"


def _kind(row: dict[str, Any]) -> str:
    return row["refused"]["error"] if "refused" in row else f"choice {len(row['passed_over']) + 1}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--sizes", default="4096,1024")
    parser.add_argument("--layouts", default=",".join(LAYOUTS))
    parser.add_argument("--gpus", default=",".join([*GPUS.names(), *map(str, OTHERS)]))
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    done = [json.loads(line) for line in options.file.read_text().splitlines()] if options.file.exists() else []
    if options.table:
        print(table(done))
        return
    keys = ("gpu", "scheme", "layout", "size")
    known = {tuple(row[key] for key in keys) for row in done}
    with options.file.open("a") as file:
        for size in map(int, options.sizes.split(",")):
            for layout in options.layouts.split(","):
                for gpu in options.gpus.split(","):
                    for scheme in (row.name for row in SCHEMES.rows() if not row.b):
                        what = (Path(gpu).stem, scheme, layout, size)
                        if what not in known:
                            row = dict(zip(keys, what)) | outcome(minimal(gpu, scheme, layout, size))
                            print(json.dumps(row), file=file, flush=True)


if __name__ == "__main__":
    main()
