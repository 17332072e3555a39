"""BatchGEMM's equations and its tiling algorithm, in this model's symbols and for both vendors.

The paper gives eqs. 5 to 8 with an MI210's numbers. Here a wavefront is a warp on NVIDIA, and what a CU or an SM holds are the GPU's own limits:
the occupancy equations of `model/resources.py` are the same rule with each vendor's units of allocation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gemmgen.batch import Tile
from gemmgen.model.equation import Equation

WORK_CP = Equation("BatchGEMM eq. 1", "W_CP", "BM * BN / W_num", "elements a thread", "computation; W_num threads")
WORK_DL = Equation("BatchGEMM eq. 2", "W_DL", "(BM * BN + BM * BK + BK * BN) / W_num", "elements a thread", "loads")
TLP_OLD = Equation("BatchGEMM eq. 3", "tlp_old", "workgroups * T_workgroup", "threads", "summed over the batch; every workgroup has all threads of the launch")
TLP_NEW = Equation(
    "BatchGEMM eq. 4", "tlp_new", "min(wavefronts, WF * sms) * warp_size", "threads",
    "phi turns workgroups into the wavefronts that are active: those that compute, and no more than the GPU holds",
)
WF_WORKGROUPS = Equation(
    "BatchGEMM eq. 5", "WF_wg", "blocks_per_sm * ceil(W_num / warp_size)", "wavefronts a CU", "the hardware's limit of workgroups; the paper's 16",
)
WF_VECTOR = Equation(
    "BatchGEMM eq. 6", "WF_V", "partitions * floor(registers_per_sm / partitions / max(1, registers_per_warp))", "wavefronts a CU",
    "vector registers, in the units they are allocated in; the paper's 4 floor(VGPR_max / (VGPR_used 64))",
)
WF_SCALAR = Equation(
    "BatchGEMM eq. 7", "WF_S", "threads_per_sm / warp_size", "wavefronts a CU",
    "scalar registers: a fixed number for each wavefront on the GPUs of the catalog, so that they never limit",
)
WF_SHARED = Equation(
    "BatchGEMM eq. 8", "WF_L", "blocks_by_shared * ceil(W_num / warp_size)", "wavefronts a CU", "LDS; the paper's floor(LDS_max / LDS_used) ceil(WI_wg / 64)",
)
WF = Equation(
    "BatchGEMM eq. 9", "WF", "min(WF_wg, WF_V, WF_S, WF_L, threads_per_sm / warp_size)", "wavefronts a CU", "the least; WF_C is what a CU supports",
)
GFLOPS = Equation("BatchGEMM eq. 11", "gflops", "2 * M * N * K * matrices / seconds / 10**9", "GFLOP/s", "the sum of all products' work over the time")
KERNEL_OCCUPANCY = Equation(
    "BatchGEMM eq. 12", "kernel_occupancy", "WF * warp_size / threads_per_sm", "", "active wavefronts over those that a CU supports",
)
OCCUPANCY_EQUATIONS = (WF_WORKGROUPS, WF_VECTOR, WF_SCALAR, WF_SHARED, WF, KERNEL_OCCUPANCY)


@dataclass(frozen=True)
class Tiling:
    """Which tile each product gets.

    Attributes:
        tile: [products] the tile's number, the smallest is 0; -1 where C has no elements.
        level: how many sizes every tile was stepped down.
        tlp: threads at work, of the tiling taken; tlp_of: of each level, the largest tiles first.
    """

    tile: np.ndarray
    level: int
    tlp: int
    tlp_of: tuple[int, ...]


MOST_COUNTED = 1 << 20
"""Wavefronts of one product that count: more than any GPU holds, and few enough that a long list's sum fits an integer."""


def tile_of(tiles: Sequence[Tile], m: np.ndarray, n: np.ndarray) -> np.ndarray:
    """The largest tile that eq. 10 allows each product: no larger than C along m and n; the smallest where none is so small.

    Eq. 10 as printed also asks that tiles divide C; C of any size is cut at the edges here.
    """
    found = np.zeros(len(m), np.int64)
    for number, tile in enumerate(tiles):
        found[(tile.m <= m) & (tile.n <= n)] = number
    return found


def tiling(
    tiles: Sequence[Tile], sizes: np.ndarray, threshold: int, *, wavefronts: Sequence[int], lanes: int, most_wavefronts: int | None,
) -> Tiling:
    """BatchGEMM's Algorithm 1, as its text has it: while the parallelism misses the threshold, every tile steps down one size.

    Args:
        tiles: the table, the smallest first.
        sizes: [products, 3] of m, n, k.
        threshold: threads.
        wavefronts: [tiles] that count of each tile: with eq. 4 those that compute it, with eq. 3 those of the launch's workgroups.
        lanes: of a wavefront.
        most_wavefronts: that are active at once on the whole GPU (eq. 9), for eq. 4; None for eq. 3.
    """
    m, n = sizes[:, 0].astype(np.int64), sizes[:, 1].astype(np.int64)
    empty = (m <= 0) | (n <= 0)
    largest = tile_of(tiles, m, n)
    rows, columns = np.array([tile.m for tile in tiles]), np.array([tile.n for tile in tiles])
    counted = np.array(wavefronts)

    def parallel(level: int) -> int:
        tile = np.maximum(largest - level, 0)
        blocks = -(-m // rows[tile]) * -(-n // columns[tile])
        count = int(np.minimum(blocks * counted[tile], MOST_COUNTED)[~empty].sum())
        return (count if most_wavefronts is None else min(count, most_wavefronts)) * lanes

    levels = tuple(parallel(level) for level in range(len(tiles)))
    level = next((at for at, tlp in enumerate(levels) if tlp >= threshold), len(tiles) - 1)
    return Tiling(np.where(empty, -1, np.maximum(largest - level, 0)), level, levels[level], levels)


def listed(tiles: Sequence[Tile], sizes: np.ndarray, chosen: Tiling) -> np.ndarray:
    """All tiles of a batch in the order in which they are worked off: the largest first, then those with the longest k.

    Returns:
        [tiles, 4]: product, first row and column of C, number of the tile.
    """
    order = np.lexsort((np.arange(len(sizes)), -sizes[:, 2], -chosen.tile))
    found = []
    for at in order:
        one = tiles[chosen.tile[at]]
        rows, columns = np.meshgrid(np.arange(0, sizes[at, 0], one.m), np.arange(0, sizes[at, 1], one.n), indexing="ij")
        found.append(np.stack([np.full(rows.size, at), rows.ravel(), columns.ravel(), np.full(rows.size, chosen.tile[at])], axis=1))
    return np.concatenate(found).astype(np.int32) if found else np.zeros((0, 4), np.int32)


def divided(first: np.ndarray, second: np.ndarray, pass_seconds: float, class_seconds: float) -> np.ndarray:
    """[products] whether each goes to the second of two kernels, one with a pass before it: none, all, or those that it is faster with, whichever
    takes the least time.

    Args:
        first, second: [products] seconds by which each makes a batch longer that is given to that kernel.
        pass_seconds, class_seconds: of a GPU's row (`gemmgen.catalog.generation.Batches`).
    """
    faster = second < first
    ways = (
        (first.sum(), np.zeros(len(first), bool)), (second.sum() + pass_seconds, np.ones(len(first), bool)),
        (np.minimum(first, second).sum() + pass_seconds + class_seconds, faster),
    )
    return min(ways, key=lambda way: way[0])[1]
