"""What a foreign program does with an export of a batch: it reads the manifest, chooses tiles if it must, and launches the machine code.

Nothing here looks at a Plan or a Source, nor at gemmgen's own tiling.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

import foreign

FORMATS = {"address": "Q", "int": "i", "float": "f"}


def packed(told: dict, values: dict[str, Any]) -> bytes:
    """A struct of the manifest's fields."""
    out = bytearray(told["bytes"])
    for field in told["fields"]:
        if field["type"] != "reserved":
            struct.pack_into("<" + FORMATS[field["type"]], out, field["offset"], values[field["name"]])
    return bytes(out)


def tiles(batch: dict, sizes: list[tuple[int, int, int]]) -> list[dict[str, int]]:
    """BatchGEMM's Algorithm 1 and the order of its tiles, by the manifest's tiles and threshold."""
    def blocks(tile: dict, m: int, n: int) -> int:
        return -(-m // tile["m"]) * -(-n // tile["n"])

    def chosen(level: int, m: int, n: int) -> int:
        largest = max(at for at, tile in enumerate(batch["tiles"]) if at == 0 or (tile["m"] <= m and tile["n"] <= n))
        return max(0, largest - level)

    for level in range(len(batch["tiles"])):
        at_work = sum(
            min(batch["most_counted"], blocks(batch["tiles"][at], m, n) * batch["tiles"][at]["wavefronts"])
            for at, m, n in ((chosen(level, m, n), m, n) for m, n, _ in sizes)
        )
        if at_work * batch["lanes"] >= batch["threshold"]:
            break
    order = sorted(range(len(sizes)), key=lambda i: (-chosen(level, *sizes[i][:2]), -sizes[i][2], i))
    return [
        {"entry": i, "m0": m0, "n0": n0, "tile": at}
        for i in order for at in [chosen(level, *sizes[i][:2])]
        for m0 in range(0, sizes[i][0], batch["tiles"][at]["m"]) for n0 in range(0, sizes[i][1], batch["tiles"][at]["n"])
    ]


def products(manifest: dict, device: Any, address: Any, asked: list[tuple], most_blocks: int, launches: int = 1) -> tuple[list[np.ndarray], dict[str, int]]:
    """Each alpha A B + beta C and the counters, on a gemmgen.run.Device that has the binary loaded.

    Args:
        asked: (a, b, c, alpha, beta) of each product.
        most_blocks: of a launch whose blocks stay; any number will do.
    """
    batch, [launch] = manifest["batch"], manifest["launches"]
    sizes = [(a.shape[0], b.shape[1], a.shape[1]) for a, b, *_ in asked]
    places: list[dict[str, Any]] = [{} for _ in asked]
    pools: dict[str, Any] = {}
    for x in "abc":  # all of one operand in one buffer, each at a multiple of 256 bytes
        arrays = [foreign.stored(manifest, x, product["abc".index(x)], 3) for product in asked]
        room = [-(-(array.size + 1) // 64) * 64 for array, _ in arrays]
        pool = np.full(sum(room), np.nan, np.float32)
        begin = np.concatenate([[0], np.cumsum(room)]).astype(int)
        for at, (array, ld) in enumerate(arrays):
            pool[begin[at]:begin[at] + array.size] = array.ravel()
            places[at] |= {x: begin[at], f"ld{x}": ld}
        pools[x] = (device.upload(pool, x), pool.size)
    for place, (m, n, k), (_, _, _, alpha, beta) in zip(places, sizes, asked):
        place |= {x: address(pools[x][0]) + 4 * int(place[x]) for x in "abc"} | {"m": m, "n": n, "k": k, "alpha": alpha, "beta": beta}
    values: dict[str, Any] = {"batch": len(asked), "blocks": most_blocks, "threshold": manifest["batch"]["threshold"]}
    if batch["kind"] == "grouped":
        data = b"".join(packed(batch["problem"], place) for place in places)
        values["problems"] = address(device.upload(np.frombuffer(data, np.uint8).copy(), "problems"))
    else:
        values |= places[0] | {f"stride_{x}": (places[1][x] - places[0][x]) // 4 for x in "abc"}
        if batch["kind"] == "pointers":
            values |= {x: address(device.upload(np.array([place[x] for place in places], np.uint64), f"{x}_list")) for x in "abc"}
    count = most_blocks
    if batch["walk"] == "workgroups":
        rows = tiles(batch, sizes)
        values["list"] = address(device.upload(np.frombuffer(b"".join(packed(batch["entry"], row) for row in rows), np.uint8).copy(), "list"))
        count = len(rows)
    offsets, zeroed, nbytes = foreign.layout(manifest, {})
    work = np.full(nbytes, 0xFF, np.uint8)
    work[:zeroed] = 0
    workspace = device.upload(work, "workspace")
    args = []
    for param in launch["params"]:
        value = param["value"]
        held = values[value["argument"]] if "argument" in value else address(workspace) + offsets[value["region"]] + value["offset"]
        args.append(("pointer" if param["type"].endswith("*") else param["type"], held))
    for _ in range(launches):
        device.launch(launch["symbol"], count, launch["threads"], launch["dynamic_shared_bytes"], args, False)
    out, found = device.download(pools["c"][0], np.float32, pools["c"][1]), []
    base = address(pools["c"][0])
    for place, (m, n, _) in zip(places, sizes):
        first = (place["c"] - base) // 4
        found.append(out[first:first + m * place["ldc"]].reshape(m, -1)[:, :n] if m else np.zeros((0, n), np.float32))
    after = device.download(workspace, np.uint8, nbytes)
    return found, {
        field["name"]: int(after[offsets["status"] + field["offset"]:][:8].view(np.uint64)[0]) for field in manifest["status"]
    }
