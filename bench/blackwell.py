"""Measures what is assumed of tensor memory: how tcgen05 sums, how fast its kernels are, the constants of their model; and prints what is predicted until then.

    python bench/blackwell.py --json my_b200.json
    python bench/blackwell.py --predict

The first needs a B200, or with `--gpu` a gb200, b300, gb300 or jetson_thor; the second prints predicted times and what binds, anywhere. On the GPU three parts
follow one another, and each is in the JSON:

`sums`      kernels of each word, by single blocks and by pairs, give the bits that the emulator says, or not. Where all do, `assumed` in
            specs/units/blackwell.toml has an answer.
`races`     the kernel that the model chooses at each size, without pairs and with them, beside cuBLAS's SGEMM in turns: seconds, predicted seconds.
`constants` the constants of [measured.tcgen05] fitted to some 50 kernels, with the error on kernels held out; beside the JSON lies `my_b200.toml`, the GPU's
            row with them.

    gemmgen gpu from-row my_b200.toml -o my_b200/

makes the GPU's file of that row, which specs name by its path.

`gemmgen gpu probe --device cuda -o probed/` measures the remaining constants, limits and rates of the GPU's row.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np

from gemmgen import road
from gemmgen.catalog.element import F32
from gemmgen.catalog.fragment import candidates
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES as SCHEME_ROWS
from gemmgen.errors import GemmgenError
from gemmgen.run import cuda, gemm
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.workshop.bringup import calibrate, sample
from gemmgen.workshop.bringup.processes import Processes

POLICY = "tcgen05"
SIZES = (1024, 2048, 4096, 8192, 16384)
SCHEMES = ("ootomo", "scaled", "run_scaled", "bf16x3", "bf16x6", "tf32x3", "residues6", "residues8", "residues14")
"""Those of FP64 elements are predicted and not raced here: `bench/f64.py` does that."""
WORDS = ("half", "ootomo", "ootomo4", "bf16x3", "tf32x3", "scaled", "e4m3x6", "mixpert1", "residues6")
"""Schemes whose kernels show how sums of FP16, BF16, TF32 and FP8 words are rounded, one instruction and several of them after one another, and that those of
integers are not."""
TILE = {"block": [128, 64, 32], "warp": [128, 64, 32]}
CELLS: tuple[tuple[str, tuple[sample.Size, ...]], ...] = (
    ("ootomo", ((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (64, 8192, 1024), (512, 512, 8192),
                (8192, 8192, 256))),
    ("bf16x6", ((1024, 1024, 1024), (8192, 8192, 4096))), ("tf32x3", ((2048, 2048, 2048), (6144, 6144, 6144))), ("scaled", ((4096, 4096, 4096),)),
)
"""Sizes at which one constant or another binds: power only at the largest, a kernel's start at the smallest, C's way out at a small k."""
SHAPE = (300, 200, 500)
"""Of the products whose bits are compared: no extent is a multiple of a tile's."""


def asked_for(gpu: str, scheme: str, size: int, cluster: int, **tile: Any) -> dict[str, Any]:
    """A spec, of square products; `cluster`: 1 for single blocks, 2 for pairs."""
    return {
        "problem": {**dict.fromkeys("mnk", size), "type": SCHEME_ROWS.get(scheme).element}, "split": {"scheme": scheme}, "fragment": {"policy": POLICY}, "target": {"gpu": gpu},
        "tile": {"cluster": cluster, **tile},
    }


def served(gpu: str, schemes: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the schemes whose words the GPU's tcgen05 multiplies: B300's has no integers."""
    row = GPUS.get(gpu)
    return tuple(name for name in schemes if any(one.runs_on(row.arch) for one in candidates(row.vendor, SCHEME_ROWS.get(name).leading, POLICY)))


def predicted(gpu: str, schemes: tuple[str, ...] = SCHEMES, sizes: tuple[int, ...] = SIZES) -> list[dict[str, Any]]:
    """Predicted times, of single blocks and of pairs, and what binds."""
    found = []
    for scheme in schemes:
        for size in sizes:
            for cluster in (1, 2):
                plan = solve(loads(asked_for(gpu, scheme, size, cluster)))
                model = plan.model
                found.append({
                    "scheme": scheme, "size": size, "cluster": cluster, "block": list(plan.block), "stages": plan.stages,
                    "predicted_seconds": float(model["seconds"]), "predicted_tflops": float(model["tflops"]), "binds": plan.design.binding(model),
                })
    return found


def table(found: list[dict[str, Any]]) -> str:
    """Markdown: predicted TFLOP/s by scheme and size, single blocks and pairs."""
    sizes = sorted({one["size"] for one in found})
    lines = ["| predicted TFLOP/s | " + " | ".join(map(str, sizes)) + " | binds at the largest |", "| --- |" + " ---: |" * len(sizes) + " --- |"]
    for scheme, cluster in dict.fromkeys((one["scheme"], one["cluster"]) for one in found):
        own = {one["size"]: one for one in found if (one["scheme"], one["cluster"]) == (scheme, cluster)}
        cells = " | ".join(f"{own[size]['predicted_tflops']:.0f}" for size in sizes)
        lines.append(f"| `{scheme}`, {'pairs' if cluster > 1 else 'single blocks'} | {cells} | {own[sizes[-1]]['binds']} |")
    return "\n".join(lines)


def sums(gpu: str, seed: int = 0) -> list[dict[str, Any]]:
    """Whether the GPU's bits are the emulator's, by scheme and cluster."""
    (m, n, k), rng, found = SHAPE, np.random.default_rng(seed), []
    a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    for scheme in served(gpu, WORDS):
        for cluster in (1, 2):
            built = road.build(asked_for(gpu, scheme, 4096, cluster, **TILE))
            plan, source = built.plan, built.source
            own, right = (gemm(one, plan, source, a, b).c for one in (cuda.CudaDevice(built.binary), EmulatorDevice(plan, source, built.binary)))
            same = own.view(np.uint32) == right.view(np.uint32)
            found.append({
                "scheme": scheme, "cluster": cluster, "instruction": plan.fragment.instruction, "elements": same.size, "same_bits": int(same.sum()),
                "largest_difference": float(np.abs(own.astype(float) - right).max()),
            })
    return found


def races(gpu: str, schemes: tuple[str, ...], sizes: tuple[int, ...], seconds: float) -> list[dict[str, Any]]:
    """Median seconds of interleaved rounds, beside the predicted ones."""
    from gemmgen import timing

    found = []
    for size in sizes:
        inputs = timing.Inputs((size, size, size))
        contenders: dict[str, Any] = {"cublas-sgemm": (None, timing.cublas("cublas-sgemm", inputs))}
        for scheme in (name for name in schemes if SCHEME_ROWS.get(name).element == F32.name):
            for cluster in (1, 2):
                built, name = road.build(asked_for(gpu, scheme, size, cluster)), f"{scheme}, {'pairs' if cluster > 1 else 'single blocks'}"
                contenders[name] = built.plan, timing.generated(name, built.plan, built.source, built.binary, inputs)
        timing.race([one for _, one in contenders.values()], rounds=15, slice_ms=20.0, seconds=seconds, warm_up=0.5)
        for name, (plan, one) in contenders.items():
            median = statistics.median(one.seconds)
            found.append({
                "contender": name, "size": size, "seconds": median, "tflops": 2e-12 * size**3 / median, "rounds": len(one.seconds),
                "spread": (max(one.seconds) - min(one.seconds)) / median,
                **({"predicted_seconds": float(plan.model["seconds"]), "decided": plan.summary} if plan else {}),
            })
        del inputs, contenders
        timing.release_memory()
    return found


def wanted(gpu: str, each: int, seed: int) -> list[sample.Proposed]:
    """The kernels that the constants are fitted to: at each size of CELLS the model's first choice, and others that it holds worth a trial."""
    found = []
    for scheme, sizes in CELLS:
        for size in sizes:
            spec = asked_for(gpu, scheme, 1, 1) | {"problem": dict(zip("mnk", size)), "tile": {}}
            found += sample.proposed(spec, size, each, seed)
    return found


def constants(gpu: str, each: int, seed: int) -> dict[str, Any]:
    """The constants of the model, fitted to kernels of tcgen05 alone."""
    with Processes() as pool:
        timed = sample.timed(gpu, "nvidia", pool, seed=seed, wanted=wanted(gpu, each, seed), progress=lambda text: print(text, file=sys.stderr))
        fit = calibrate.fitted(timed.rows, gpu, pool)
    return {"kernels": timed.kernels, "refused": list(timed.refused), "held_out": calibrate.errors(fit), **fit.learnt.as_dict()}


def row_with(gpu: str, lines: str) -> str:
    """The GPU's row with measured constants, for `gemmgen gpu from-row`."""
    return (GPUS.folder / f"{gpu}.toml").read_text() + f"\n{lines}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="b200", help="a row under specs/gpus whose target has tcgen05")
    parser.add_argument("--predict", action="store_true", help="no GPU: what the model says")
    parser.add_argument("--json", type=Path, help="a file for everything")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="of square products")
    parser.add_argument("--schemes", default=",".join(SCHEMES))
    parser.add_argument("--seconds", type=float, default=30.0, help="of each size's race")
    parser.add_argument("--kernels", type=int, default=4, help="of each size, that the constants are fitted to")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    schemes, sizes = served(asked.gpu, tuple(asked.schemes.split(","))), tuple(map(int, asked.sizes.split(",")))
    found: dict[str, Any] = {"predicted": predicted(asked.gpu, schemes, sizes)}
    print(table(found["predicted"]))
    if not asked.predict:
        if reason := cuda.why_not(solve(loads(asked_for(asked.gpu, "half", 4096, 1)))):
            raise reason
        for part, make in (
            ("sums", lambda: sums(asked.gpu, asked.seed)), ("races", lambda: races(asked.gpu, schemes, sizes, asked.seconds)),
            ("constants", lambda: constants(asked.gpu, asked.kernels, asked.seed)),
        ):
            found[part] = make()
            if asked.json:  # what is there stays if a later part fails
                asked.json.write_text(json.dumps(found, indent=1) + "\n")
        off = [one for one in found["sums"] if one["same_bits"] < one["elements"]]
        print(f"\nsums: {len(found['sums']) - len(off)} of {len(found['sums'])} kernels give the emulator's bits")
        print("\n".join(f"  not {one['scheme']}, cluster {one['cluster']}: {one['elements'] - one['same_bits']} of {one['elements']} elements" for one in off))
        print("\n| TFLOP/s | size | measured | predicted |\n| --- | ---: | ---: | ---: |")
        for one in found["races"]:
            model = f"{2e-12 * one['size'] ** 3 / one['predicted_seconds']:.0f}" if "predicted_seconds" in one else ""
            print(f"| {one['contender']} | {one['size']} | {one['tflops']:.0f} | {model} |")
        print("\n" + (found["constants"].get("reason") or found["constants"]["lines"]) + "\n\n" + found["constants"]["held_out"])
        if asked.json and found["constants"]["lines"]:
            asked.json.with_suffix(".toml").write_text(row_with(asked.gpu, found["constants"]["lines"]))
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except GemmgenError as error:
        sys.exit(str(error))
