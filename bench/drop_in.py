"""What does a library's preload library do for programs that know nothing of it? Each runs as it is and with it, in turns.

    python bench/drop_in.py DIR [--programs torch,lu,hpl,cholesky,cupy,jax,overhead] [--rounds 2] [--no-audit] [--json FILE]
    python bench/drop_in.py DIR --profile vision,encoder [--json FILE]

DIR is a folder of `gemmgen library` with shim = ["cublas"]. The programs, all in FP32:

- torch: forward and backward of a perceptron of three layers (4096 x 4096, batch 4096) and of a transformer block (4096 wide, 32 heads, 4 x 1024 tokens), a
  vision transformer's training step, an encoder's inference and an exact Gaussian process (`bench/programs/models.py`); the errors are the largest relative
  Frobenius errors of a result, of training of a gradient, against FP64's.
- lu: of a 16384 x 16384 matrix, by cupyx.scipy.linalg.lu_factor, and in blocks and recursively as HPL does it, by cuBLAS's own functions. The error is HPL's
  scaled residual, computed in FP64.
- hpl: the same with panels of its own, bench/programs/hpl.py; the error is the mean residual of three matrices.
- cholesky: of a 16384 x 16384 matrix, by cuSOLVER's spotrf; the error is the factor's times its transpose against the matrix.
- cupy: products by the operator @ of all layouts. jax: products under jit. The errors are relative Frobenius errors against FP64.
- overhead: microseconds of the host for a call that is passed on and for one that is taken, beside the vendor's function and the library's own.

A program that is not installed is left out. Prints a table, whose last column has the GEMM calls of all runs of the program (of lu: of all three) that the
library took, of how many, and what was taken and passed on; about two minutes on an H200. With `--profile`, the table has the GPU's time of torch's programs
whose names have one of these words, by operator, extents and part: product, split pass, maxima, finish, vendor. Raises GemmgenError where DIR is no such library.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gemmgen.library import dropped, shim

FOLDER = Path(__file__).with_name("programs")
PROGRAMS = {"torch": "models", "lu": "lu", "hpl": "hpl", "cholesky": "cholesky", "cupy": "cupy_products", "jax": "jax_products", "overhead": "overhead"}
NEEDS = {"torch": "torch", "lu": "cupy", "hpl": "cupy", "cholesky": "cupy", "cupy": "cupy", "jax": "jax", "overhead": "torch"}


def installed(module: str) -> bool:
    return not subprocess.run([sys.executable, "-c", f"import importlib.util as u; raise SystemExit(u.find_spec({module!r}) is None)"], check=False).returncode


def told(program: Path, arguments: list[str], environment: dict[str, str], where: str) -> list[dict]:
    """What a program printed."""
    begun = time.monotonic()
    done = subprocess.run([sys.executable, str(program), *arguments], capture_output=True, text=True, env=environment, check=False)
    print(f"{where}: {time.monotonic() - begun:.1f} s", file=sys.stderr, flush=True)
    if done.returncode:
        print(f"{where} fails with {done.returncode}:\n{done.stderr[-2000:]}", file=sys.stderr, flush=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::addmv", "aten::mv")
PARTS = {"split": "_split", "maxima": "_absmax", "finish": "finish", "memset": "Memset"}
"""Of a kernel's name."""


def part_of(operator: str, kernel: str) -> str:
    """The column of a kernel's time."""
    if operator not in PRODUCTS and not kernel.startswith("gemmgen_"):
        return "other"
    return next((part for part, of in PARTS.items() if of in kernel), "product" if kernel.startswith("gemmgen_") else "vendor")


def profiles(sides: dict[str, list[dict]]) -> str:
    """What torch.profiler found of each program on both sides, as a table: milliseconds of a step."""
    lines, columns = [], ("product", *PARTS, "vendor")
    for without, with_ in zip(sides["without"], sides["with"], strict=True):
        groups: dict[tuple[str, str], dict[str, float]] = {}
        for side, one in (("without", without), ("with", with_)):
            for operator, extents, strides, kernel, count, ms in one["profile"]["rows"]:
                product = operator in PRODUCTS or kernel.startswith("gemmgen_")
                group = groups.setdefault((operator, f"{extents} {strides}" if product else ""), {})
                for key in (side, f"{side} {part_of(operator, kernel)}", *([kernel] if product else ())):
                    group[key] = group.get(key, 0.0) + ms
                if part_of(operator, kernel) in ("product", "vendor"):
                    group[f"{side} calls"] = group.get(f"{side} calls", 0.0) + count
        total, spent = ({side: sum(group.get(f"{side}{of}", 0.0) for group in groups.values()) for side in ("without", "with")} for of in ("", " other"))
        lines += [
            f"\n{without['name']}: the GPU's ms {total['without']:.2f} without, {total['with']:.2f} with; idle {without['profile']['idle']:.2f}, "
            f"{with_['profile']['idle']:.2f}; no product's {spent['without']:.2f}, {spent['with']:.2f}: at most {total['without'] / spent['with']:.2f} x",
            f"{'without':>9} {'with':>9} {'ratio':>6} {'calls':>6}" + "".join(f" {one:>8}" for one in columns) + "  operator, extents, strides; kernels",
        ]
        for (operator, extents), group in sorted(groups.items(), key=lambda item: -item[1].get("with", 0.0)):
            before, after = group.get("without", 0.0), group.get("with", 0.0)
            ours = [name for name in group if part_of(operator, name) == "product"] if extents else []
            lines.append(f"{before:9.3f} {after:9.3f} {before / after if after else 0:6.2f} {group.get('with calls', 0):6.0f}"
                         + "".join(f" {group.get(f'with {one}', 0.0):8.3f}" for one in columns) + f"  {operator} {extents} {' '.join(ours)}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=Path)
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--no-audit", action="store_true", help="preload alone")
    parser.add_argument("--profile", metavar="WORDS", help="where the GPU's time goes in torch's programs whose names have one of these words")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    built = shim.build(options.library)
    found: dict[str, dict] = {}
    logs: dict[str, dropped.Logged] = {}
    base = dict(os.environ)
    if options.profile:
        loaded = {"without": base, "with": dropped.environment(built, dropped.Settings(audit=not options.no_audit), base)}
        sides = {side: told(FOLDER / "models.py", ["profile", "--only", options.profile], one, f"torch {side}") for side, one in loaded.items()}
        print(profiles(sides))
        if options.json:
            options.json.write_text(json.dumps(sides, indent=1))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        for name in options.programs.split(","):
            if not installed(NEEDS[name]):
                print(f"{name}: {NEEDS[name]} is not installed", file=sys.stderr)
                continue
            log = Path(folder) / f"{name}.jsonl"
            # To compare with the vendor's function it has to be found in the vendor's library.
            settings = dropped.Settings(log=log, audit=name != "overhead" and not options.no_audit)
            with_shim = dropped.environment(built, settings, base)
            for turn in range(1 if name == "overhead" else options.rounds):
                given = ["judge" if not turn else "time", built.name]
                for side, environment in (("without", base), ("with", with_shim)):
                    if name == "overhead" and side == "without":
                        continue
                    for one in told(FOLDER / f"{PROGRAMS[name]}.py", given, environment, f"{name} {side}"):
                        row = found.setdefault(one.pop("name"), {"program": name})
                        for key, value in one.items():
                            if value is not None:
                                row.setdefault(f"{key} {side}", []).append(value)
            logs[name] = dropped.read_log(log)
    print(f"{'program':<46} {'ms without':>10} {'ms with':>9} {'ratio':>6}  {'error without':>13} {'error with':>11} {'GEMMs taken':>13}")
    for name, row in found.items():
        if "us with" in row:
            print(f"{name:<50} {row['us with'][0]:.2f} us, {row['beside with'][0]:.2f} us: {row['us with'][0] - row['beside with'][0]:+.2f} us")
            continue
        before, after = (statistics.median(row.get(f"ms {side}", [float("nan")])) for side in ("without", "with"))
        errors = [row.get(f"error {side}", [float("nan")])[0] for side in ("without", "with")]
        logged = logs[row["program"]]
        print(f"{name:<46} {before:>10.2f} {after:>9.2f} {before / after:>6.2f}  {errors[0]:>13.3g} {errors[1]:>11.3g}"
              f" {f'{logged.taken}/{logged.taken + logged.passed}':>13}")
    for name, logged in logs.items():
        print(f"\n{name}: taken {logged.taken} of {logged.taken + logged.passed} calls; {logged.kernels}; passed on: {logged.reasons}")
        for line in sorted((line for line in logged.lines if not line["taken"]), key=lambda line: -line["count"] * line["m"] * line["n"] * line["k"])[:8]:
            print(f"    {line['routine']} {line['m']}x{line['n']}x{line['k']} {line['layout']} batch {line['batch']}, {line['count']} times: {line['reason']}"
                  f" {line.get('detail', '')} {line.get('seconds', '')} {line.get('sgemm_seconds', '')}")
    if options.json:
        options.json.write_text(json.dumps({"programs": found, "logs": {name: logged.as_dict() for name, logged in logs.items()}}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
