"""Run every kernel of the reference set under compute-sanitizer's four tools, on the GPU of this machine.

    python bench/sanitize.py [--gpu h100] [--only hopper,residues]

Each case is a `verify` of small products (edges, special values among them) by
one of specs/kernels, its plan re-targeted to this GPU, in a process of its own,
since a tool watches a whole process. Other layouts are added, and `alone`: blocks
outside clusters, whose arrivals at one another's barriers racecheck may not follow; specs for an
instruction that this GPU lacks are left out, and blocks that work off tiles get
several each. Prints one line a case and tool; exit code 1 if any tool found anything.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")


def cases(gpu: str) -> list[tuple[str, str]]:
    """(spec, layout) of each kernel; `own` is the spec's own layout, and `alone` the same with clusters of one block."""
    from gemmgen.catalog.gpu import GPUS
    from gemmgen.paths import SPECS
    from gemmgen.solve import solve

    layouts = [("sgemm_a100", "tt"), ("scaled_a100", "tt"), ("scaled_a100", "tn"), ("tf32x3_a100", "nt"), ("shared_rtx3090", "tn"),
               ("sgemm_h100_small", "nt"), ("wmmae_a100", "tt"), ("sgemm_t4", "nt"), ("hopper", "tt"), ("hopper_mixed", "nt"),
               ("hopper_mixed", "tt"), ("run_scaled_h200", "alone"), ("run_scaled_compensated_h200", "alone")]
    every = [(path.stem, "own") for path in sorted((SPECS / "kernels").glob("*.toml"))] + layouts
    arch = GPUS.get(gpu).arch
    return [case for case in every if solve(loaded(case[0], gpu)).fragment.runs_on(arch)]


def loaded(name: str, gpu: str):
    """The spec, for `gpu` where it names none itself."""
    from gemmgen.paths import SPECS
    from gemmgen.spec import load

    spec = load(SPECS / "kernels" / f"{name}.toml")
    return spec if spec.spec.target.gpu else spec.on(gpu)


def child(gpu: str, name: str, layout: str) -> int:
    """Verify one kernel on the GPU; the sanitizer watches."""
    from dataclasses import replace

    from gemmgen.build import build
    from gemmgen.catalog.gpu import GPUS
    from gemmgen.render import render
    from gemmgen.run.cuda import CudaDevice
    from gemmgen.solve import check, solve
    from gemmgen.verify import verify

    spec = loaded(name, gpu)
    if layout == "alone":
        spec = spec.model_copy(update={"spec": spec.spec.model_copy(update={"tile": spec.spec.tile.model_copy(update={"cluster": 1})})})
    plan = replace(solve(spec), gpu=GPUS.get(gpu), allow_spills=True)
    plan = replace(plan, layout=plan.layout if layout in ("own", "alone") else layout)
    check(plan)
    source = render(plan)
    binary = build(source)
    device = CudaDevice(binary)
    device.clusters_at_once = 2
    turns = 4 if plan.design.stays else 1
    k = 2 * plan.scheme.family.run_k + 52 if plan.scheme.family.run_k else 300  # a run ends within it
    if plan.launches.splits_whole and plan.launches.whole_cluster > 1:
        k = 4500  # more than a cluster of the pass holds at once
    report = verify(plan, source, binary, device, size=(turns * plan.block[0] + 5, plan.block[1] + 3, k))
    print(source.name, "passed" if report.passed else [c for c in report.checks if not c.passed])
    return 0 if report.passed else 1


def watched(tool: str, gpu: str, case: tuple[str, str]) -> tuple[str, int, str]:
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", sys.executable, __file__, "--gpu", gpu, "--child", *case]
    ran = subprocess.run(command, capture_output=True, text=True)
    summary = [line for line in ran.stdout.splitlines() if "SUMMARY" in line]
    told = (summary or [ran.stdout[-300:] + ran.stderr[-300:]])[-1].strip("= ")
    return f"{tool:<10} {case[0]:<22} {case[1]:<3}  {told}", ran.returncode, ran.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="h100")
    parser.add_argument("--only", default="", help="specs whose name has one of these in it, comma-separated")
    parser.add_argument("--child", nargs=2, metavar=("SPEC", "LAYOUT"))
    options = parser.parse_args()
    if options.child:
        return child(options.gpu, *options.child)
    version = subprocess.run(["compute-sanitizer", "--version"], capture_output=True, text=True).stdout
    print(version.strip().splitlines()[-1] if version else "compute-sanitizer")
    failed = 0
    jobs = [(tool, options.gpu, case) for case in cases(options.gpu) if any(part in case[0] for part in options.only.split(",")) for tool in TOOLS]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for line, code, out in pool.map(lambda job: watched(*job), jobs):
            print(line, "" if code == 0 else f"EXIT {code}", flush=True)
            if code:
                failed += 1
                print(out[-2000:])
    print(f"{len(jobs) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
