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
    if "tiles" in manifest:  # an expression of C, on integers that are not below 0
        told = manifest["tiles"]
        known = {"TILE_M": told["TILE_M"], "TILE_N": told["TILE_N"], "tiles_m": -(-m // told["TILE_M"]), "tiles_n": -(-n // told["TILE_N"])}
        sizes["tiles"] = eval(told["count"].replace("/", "//"), {"__builtins__": {}}, known)
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


def system(manifest: dict, device: Any, address: Any, t: np.ndarray, c: np.ndarray, alpha: float) -> np.ndarray:
    """X of T X = alpha C, or of X T = alpha C, by the manifest's `rounds`, on a gemmgen.run.Device that has the binary loaded.

    Args:
        address: gives the address of a buffer of the device.
    """
    (m, n), told = c.shape, manifest["rounds"]
    x, left, size, block = told["triangle"], told["unknowns"] == "m", len(t), told["block"]
    array, ld = stored(manifest, x, t, 3)
    array_c, ldc = stored(manifest, "c", c, 2)
    held, held_c = device.upload(array, x), device.upload(array_c, "c")
    rounds = []
    for i in range(1, -(-size // block) + 1):
        begin, known = (i - 1) * block, min(i * block, size)
        first = begin if told["below"] else size - known
        rounds.append((True, known - begin, known - begin, first, first, first, alpha if i == 1 else 1.0, 0.0))
        count = i & -i
        end = min(known + count * block, size)
        if known < size and alpha:
            rows, kk = (known, known - count * block) if told["below"] else (size - end, size - known)
            rounds.append((False, end - known, count * block, rows, kk, rows, -1.0, alpha if i == count else 1.0))
    products = [one for one in rounds if not one[0]]
    most = [max((one[at] for one in products), default=0) for at in (1, 2)]
    others = n if left else m
    largest = extents(manifest, *((most[0], others) if left else (others, most[0])), most[1])
    offsets, zeroed, nbytes = layout(manifest, largest)
    work = np.full(nbytes, 0xFF, np.uint8)
    work[:zeroed] = 0
    workspace = device.upload(work, "workspace")
    for solves, served, depth, rows, kk, to, own_alpha, beta in rounds:
        sizes = extents(manifest, *((served, others) if left else (others, served)), depth)
        triangle = address(held) + 4 * (rows * ld + kk if told["contiguous"] else kk * ld + rows)
        beside = address(held_c) + 4 * (kk * ldc if left else kk)
        values = {"m": served if left else others, "n": others if left else served, "k": depth, "alpha": own_alpha, "beta": beta, x: triangle, f"ld{x}": ld,
                  "b" if left else "a": beside, "ldb" if left else "lda": ldc, "c": address(held_c) + 4 * (to * ldc if left else to), "ldc": ldc}
        for launch in manifest["launches"]:
            count = blocks(launch, sizes)
            if (launch["role"] == "solve") != solves or not count:
                continue
            args = [("pointer" if one["type"].endswith("*") else one["type"], values[one["value"]["argument"]] if "argument" in one["value"]
                     else address(workspace) + offsets[one["value"]["region"]] + one["value"]["offset"]) for one in launch["params"]]
            device.launch(launch["symbol"], count, launch["threads"], launch["dynamic_shared_bytes"], args, False)
    return device.download(held_c, np.float32, m * ldc).reshape(m, -1)[:, :n]


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
