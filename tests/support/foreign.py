"""What a foreign program does with an export: it reads the manifest and launches the cubin.

Nothing here looks at a Plan or a Source.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def extents(manifest: dict, m: int, n: int, k: int) -> dict[str, int]:
    """m, n, k, what the manifest derives from them, and the plan's numbers that grids name."""
    if not (m and n):
        m = n = k = 0  # as the manifest's workspace rule says
    sizes = {"m": m, "n": n, "k": k} | {name: manifest["plan"][name] for name in ("split_k", "cluster", "pass_cluster") if name in manifest["plan"]}
    for name, rule in manifest["padded"].items():
        sizes[name] = -(-sizes[rule["of"]] // rule["multiple"]) * rule["multiple"]
    return sizes


def layout(manifest: dict, sizes: dict[str, int]) -> tuple[dict[str, int], int, int]:
    """(offset of each region, bytes to zero, bytes of the workspace)."""
    unit, end, zeroed, offsets = manifest["workspace"]["alignment"], 0, 0, {}
    for region in manifest["workspace"]["regions"]:
        offsets[region["name"]] = end = -(-end // unit) * unit
        if "above_k" not in region or sizes["k"] > region["above_k"]:
            end += region["factor"] * math.prod(sizes[extent] for extent in region["extents"]) // region["per"]
        zeroed = end if region["zeroed"] else zeroed
    return offsets, zeroed, -(-end // unit) * unit


def blocks(launch: dict, sizes: dict[str, int]) -> int:
    """How many to launch."""
    wanted = sum(
        math.prod(-(-sizes[factor["extent"]] // factor["tile"]) for factor in product) for product in launch["grid"]
    )
    return min(wanted, launch["most_blocks"] or wanted)


def stored(manifest: dict, name: str, x: np.ndarray, extra: int) -> tuple[np.ndarray, int]:
    """An operand as it lies in memory, NaN between the rows, and its leading dimension."""
    rows_first = {"a": "m", "b": "k", "c": "m"}[name]
    x = x if manifest["operands"][name]["rows"] == rows_first else x.T
    out = np.full((x.shape[0], x.shape[1] + extra), np.nan, np.float32)
    out[:, : x.shape[1]] = x
    return out, out.shape[1]


def product(
    manifest: dict, device: Any, address: Any, a: np.ndarray, b: np.ndarray, c: np.ndarray, alpha: float, beta: float,
) -> tuple[np.ndarray, dict[str, int]]:
    """alpha A B + beta C and the counters, on a gemmgen.run.Device that has the binary loaded.

    Args:
        address: gives the address of a buffer of the device.
    """
    (m, k), n = a.shape, b.shape[1]
    sizes = extents(manifest, m, n, k if alpha else 0)
    offsets, zeroed, nbytes = layout(manifest, sizes)
    work = np.full(nbytes, 0xFF, np.uint8)
    work[:zeroed] = 0
    workspace = device.upload(work, "workspace")
    values: dict[str, Any] = {"m": m, "n": n, "k": k, "alpha": alpha, "beta": beta}
    buffers = {}
    for name, x in (("a", a), ("b", b), ("c", c)):
        array, values[f"ld{name}"] = stored(manifest, name, x, 3)
        buffers[name] = device.upload(array, name)
        values[name] = address(buffers[name])
    follows = False  # one of these launches
    for launch in manifest["launches"]:
        count, overlaps = blocks(launch, sizes), launch["overlaps"] and follows
        follows = count > 0
        if not count:
            continue
        args = []
        for param in launch["params"]:
            value = param["value"]
            if "argument" in value:
                held = values[value["argument"]]
            else:
                held = address(workspace) + offsets[value["region"]] + value["offset"]
            args.append(("pointer" if param["type"].endswith("*") else param["type"], held))
        device.launch(launch["symbol"], count, launch["threads"], launch["dynamic_shared_bytes"], args, overlaps)
    out = device.download(buffers["c"], np.float32, m * values["ldc"]).reshape(m, -1)[:, :n]
    after = device.download(workspace, np.uint8, nbytes)
    at = offsets["status"]
    status = {
        field["name"]: int(after[at + field["offset"] :][:8].view(np.uint64)[0]) for field in manifest["status"]
    }
    return out, status
