"""Which tile each product of a batch gets, and what is told of it: BatchGEMM's algorithm on a plan's tiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmgen.batch import TLPS, WALKS, Listed
from gemmgen.designs.asked import FULL
from gemmgen.model import batch as tilings
from gemmgen.model.equation import figure, solved

LISTED = 256
"""Products that a list in shared memory holds; a longer batch has several, one after another."""


class TileOfEach:
    """What a design with several tiles in one kernel knows of products; its tiles and their resources are the design's."""

    def threshold(self, plan: Any) -> int:
        """Threads at work that are enough: with eq. 4 no more than the GPU can have at work."""
        if plan.batch.tlp == "workgroup":
            return plan.batch.threshold
        return min(plan.batch.threshold, plan.numbers["most_wavefronts"] * plan.lanes)

    def told_of(self, plan: Any) -> dict[str, str]:
        batch, numbers = plan.batch, plan.numbers
        found = self.tiling_of_hints(plan)
        steps = "the largest that C allows" if found.level == 0 else f"{found.level} size{'s' * (found.level > 1)} below the largest that C allows"
        levels = ", ".join(f"{figure(tlp)}" for tlp in found.tlp_of[:found.level + 1])
        return {
            "batch": f"{plan.kind}: {plan.kind.meaning}",
            "walk": f"{batch.walk}: {WALKS[batch.walk]}",
            "tlp": f"{batch.tlp}: {TLPS[batch.tlp]}; enough are {self.threshold(plan)} of {numbers['most_wavefronts'] * plan.lanes} threads that can be at"
                   " work",
            "tiles": ("\n" + " " * 11).join(self.told_tiles(plan)),
            "for": f"{batch.matrices} products of {plan.hints.m}x{plan.hints.n}x{plan.hints.k} the tile is"
                   f" {batch.tiles[max(0, int(found.tile[0]))].name}, {steps}: threads at work with the largest and each step down {levels}"
                   if found.tile[0] >= 0 else "none: C has no elements",
        }

    def told_tiles(self, plan: Any) -> list[str]:
        """Which products get each tile, and what it takes of the GPU, a line for each."""
        lines, tiles = [], self.tiles(plan)
        for at, (tile, one) in enumerate(zip(plan.batch.tiles, tiles)):
            least = f"C of at least {tile.m} x {tile.n}" if at else "any smaller C"
            work = {"BM": tile.m, "BN": tile.n, "BK": tile.k, "W_num": tile.threads}
            lines.append(
                f"{tile.name} threads, warps of {tile.warp[0]}x{tile.warp[1]}, {one.stages} stages: {least}; {figure(tilings.WORK_CP.value(work))} elements a"
                f" thread to compute and {figure(tilings.WORK_DL.value(work))} to load (BatchGEMM eqs. 1, 2)"
            )
        return lines

    def tiling_of_hints(self, plan: Any) -> tilings.Tiling:
        """That of the products of a list that all have the hints' size."""
        return self.tiling(plan, np.array([[plan.hints.m, plan.hints.n, plan.hints.k]] * max(1, min(plan.batch.matrices, LISTED))))

    def tiling(self, plan: Any, sizes: np.ndarray, threshold: int | None = None) -> tilings.Tiling:
        """The tile that each product of a batch gets.

        Args:
            sizes: [products, 3] of m, n, k.
            threshold: threads at work that are enough; None for the plan's.
        """
        return tilings.tiling(
            plan.batch.tiles, sizes, self.threshold(plan) if threshold is None else threshold, wavefronts=self.tile_wavefronts(plan), lanes=plan.lanes,
            most_wavefronts=None if plan.batch.tlp == "workgroup" else plan.numbers["most_wavefronts"],
        )

    def listed(self, plan: Any, sizes: np.ndarray, threshold: int | None = None) -> Listed:
        rows = tilings.listed(plan.batch.tiles, sizes, self.tiling(plan, sizes, threshold)) if len(sizes) else np.zeros((0, 4), np.int32)
        return Listed(rows, {"turns": len(rows)})

    def each_seconds(self, plan: Any, sizes: np.ndarray) -> np.ndarray:
        tiles = plan.batch.tiles
        m, n, k = np.maximum(sizes, 1).astype(np.float64).T
        tile = tilings.tile_of(tiles, sizes[:, 0], sizes[:, 1])
        known = self.resources(plan) | {"M": m, "N": n, "K": k, "matrices": FULL}
        for symbol, values in {
            "BM": [one.m for one in tiles], "BN": [one.n for one in tiles], "BK": [one.k for one in tiles], "W_num": [one.threads for one in tiles],
            "tile_warps": [one.threads // plan.lanes for one in tiles],
        }.items():
            known[symbol] = np.array(values)[tile]
        known = solved(self.equations.predictions, known)
        stored = known["workgroups"] * known["BM"] * known["BN"] * known["tile_cycles"] / (known["sms"] * known["clock_hz"])  # as M15 has it
        return (known["seconds"] + stored) / FULL

    def tile_wavefronts(self, plan: Any) -> tuple[int, ...]:
        """Those that count of each tile: with BatchGEMM's eq. 4 those that compute it, with eq. 3 all of the launch's workgroups."""
        return tuple((plan.threads if plan.batch.tlp == "workgroup" else one.threads) // plan.lanes for one in plan.batch.tiles)
