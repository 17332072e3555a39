"""A sample of C's blocks: of a product that the emulator would need hours for, some tiles of the size that was asked for, with their whole k.

The tiles are those of some rows of tiles with some columns of tiles, the first and the last of each among them, so that all corners and ragged edges are there.
Of every launch only the blocks that these tiles need are run. Everything else of C must stay as it was, so that a tile that is written to
another's place shows; and memory that a block reads and no block wrote is an error of the emulator.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np

from gemmgen.abi import interface
from gemmgen.interface import Launch
from gemmgen.plan import Plan

ROWS, COLUMNS = 4, 3
"""Rows and columns of tiles in a sample."""
SECONDS = 60.0
"""What `verify` computes in full takes no longer on the emulator, as estimated, unless it is told to."""


@dataclass(frozen=True)
class Sample:
    """Tiles of C, those of all `rows` with all `columns`.

    Attributes:
        size: (m, n, k) of the whole product.
        tile: (BM, BN).
        rows, columns: numbers of rows and columns of tiles, ascending.
    """

    size: tuple[int, int, int]
    tile: tuple[int, int]
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    @property
    def of(self) -> int:
        """Tiles of C."""
        return ceil(self.size[0] / self.tile[0]) * ceil(self.size[1] / self.tile[1])

    @property
    def blocks(self) -> int:
        return len(self.rows) * len(self.columns)

    @property
    def told(self) -> str:
        """`sampled 12 of 1,024 blocks`."""
        return f"sampled {self.blocks:,} of {self.of:,} blocks"

    def places(self, which: int) -> np.ndarray:
        """Rows (0) or columns (1) of C that the tiles cover."""
        extent, tile, numbers = self.size[which], self.tile[which], (self.rows, self.columns)[which]
        return np.concatenate([np.arange(at * tile, min((at + 1) * tile, extent)) for at in numbers])

    def part(self, c: np.ndarray) -> np.ndarray:
        """The tiles' elements of C [m, n], one matrix."""
        return c[np.ix_(self.places(0), self.places(1))]

    def untouched(self, c: np.ndarray) -> bool:
        """Whether all other elements of C [m, n] are NaN, as they were before: no product of finite numbers was written there."""
        left = np.ones(c.shape, bool)
        left[np.ix_(self.places(0), self.places(1))] = False
        return bool(np.isnan(c[left]).all())


def why_not(plan: Plan) -> str:
    """Why blocks of a plan's kernels cannot be run by themselves, in words; empty where they can."""
    if plan.launches.of_products:
        return "blocks take tiles from a list of all products"
    if plan.launches.repeated:
        return "a launch takes a whole batch"
    if plan.design.stays:
        return "blocks stay and take one tile after another"
    if plan.fallback:
        return "another kernel computes tiles again"
    return "" if plan.kind.plain else f"kind {plan.kind.name} has tiles of its own"


def drawn(plan: Plan, size: tuple[int, int, int], rows: int = ROWS, columns: int = COLUMNS, seed: int = 11) -> Sample:
    """A sample: the first and the last row and column of tiles, and others at random."""
    rng, tile = np.random.default_rng(seed), plan.block[:2]

    def taken(count: int, most: int) -> tuple[int, ...]:
        inner = rng.permutation(np.arange(1, count - 1))[: max(0, most - 2)] if count > 2 else ()
        return tuple(sorted({0, count - 1, *map(int, inner)}))

    return Sample(size, tile, taken(ceil(size[0] / tile[0]), rows), taken(ceil(size[1] / tile[1]), columns))


def blocks(plan: Plan, sample: Sample) -> dict[str, tuple[int, ...]]:
    """Of each launch, by its kernel's name, the numbers of the blocks that the sample needs."""
    table, found = interface(plan), {}
    extents = table.extents(*sample.size)
    # Rows of A and columns of B that later launches read: a block of a pass may take more of them than a tile has.
    lines = {
        name: {at * tile + place for at in numbers for place in range(tile)} for name, tile, numbers in zip("ab", sample.tile, (sample.rows, sample.columns))
    }
    for launch in reversed(table.launches):
        mine = _of_tiles(plan, sample) if launch.role == "gemm" else _of_pass(plan, launch, extents, lines)
        found[launch.symbol] = tuple(sorted(mine))
    return found


def _of_tiles(plan: Plan, sample: Sample) -> Iterator[int]:
    """Blocks of the main kernel. templates/lib/schedule.j2: raster groups of `group` rows, down each column of tiles before the next; slices of k follow
    one another."""
    (m, n, _), (bm, bn) = sample.size, sample.tile
    rows, columns = ceil(m / bm), ceil(n / bn)
    for row in sample.rows:
        first = row // plan.group * plan.group
        high = min(plan.group, rows - first)
        for column in sample.columns:
            yield from (first * columns + column * high + row - first + part * rows * columns for part in range(plan.split_k))


def _of_pass(plan: Plan, launch: Launch, extents: Mapping[str, int], lines: dict[str, set[int]]) -> Iterator[int]:
    """Blocks of a pass. templates/lib/split: those of A's rows, then those of B's columns; neighbours differ in their k.

    Args:
        lines: what is needed of A and of B; all that these blocks read joins it.
    """
    start = 0
    for operand, ((outer, tile), (k, tile_k), *_) in zip(plan.launches.split_before, launch.grid):
        of_outer, of_k = ceil(extents[outer] / tile), ceil(extents[k] / tile_k)
        needed = {line // tile for line in lines[operand.name] if line // tile < of_outer}
        lines[operand.name] |= {at * tile + place for at in needed for place in range(tile)}
        yield from (start + at * of_k + part for at in needed for part in range(of_k))
        start += of_outer * of_k


# ---- what emulation takes

ON_UNIT, PLAIN = (150.0, 1.6), (60.0, 1.2)
"""Instructions of a warp and stage: so many, and so many more for each matrix instruction; without a matrix unit, for as
many multiply-adds as a warp has lanes."""
CALL, WARP = 9.5e-6, 0.3e-6
"""Seconds of an instruction that the emulator executes for all warps of a step at once, and of each of these warps."""
UNIT_CALL, UNIT_WARP = 40e-6, 4.2e-6
"""The same, besides, of a matrix instruction; a warp's of 16 x 8 x 16, and of others as much more as they multiply."""
SPLIT = 15.0, 6.0
"""Instructions of a word that a thread splits before shared memory, and behind it."""
ELEMENT = 0.5e-6
"""Seconds of a pass before the main kernel, for each element of A and B."""
STRIP = 60
"""Blocks that one process computes at once (`emulate.ptx.Emulator`)."""
WORTH_SPLITTING = 16
"""Blocks from which on several processes share them."""


def seconds(plan: Plan, size: tuple[int, int, int], some: Sample | None = None, processes: int | None = None) -> float:
    """What the three runs of `verify` of a product of this size take on the emulator: one with all warps in step, two that run them one by one.

    Args:
        some: the blocks that are run; None for all.
        processes: of the emulator; None for one a processor.
    """
    (m, n, k), (bm, bn, bk), (wm, wn, _), (fm, fn, fk) = size, plan.block, plan.warp, plan.fragment.shape
    count, on_unit = some.blocks if some else ceil(m / bm) * ceil(n / bn), plan.fragment.on_matrix_unit
    first, by = ON_UNIT if on_unit else PLAIN
    each = len(plan.scheme.products) * wm * wn * bk / (fm * fn * fk if on_unit else plan.lanes)
    warps, stages = plan.threads // plan.lanes, ceil(max(k, 1) / bk)
    calls, all_warps = ceil(count / STRIP) * (1 + 2 * warps), 3 * count * warps
    words = plan.numbers.get("words", 1)
    inside = {"shared": SPLIT[0] * words * (bm + bn) * bk / plan.threads, "register": SPLIT[1] * words * (wm + wn) * bk / plan.lanes}.get(plan.where, 0.0)
    main = stages * (first + by * each + inside) * (CALL * calls + WARP * all_warps)
    main += stages * each * (UNIT_CALL * calls + UNIT_WARP * all_warps * fm * fn * fk / 2048) if on_unit else 0.0
    main *= plan.lanes / 32
    main /= min(processes or os.cpu_count() or 1, ceil(count / STRIP)) if count >= WORTH_SPLITTING else 1
    lines = sum(len(some.places(which)) for which in (0, 1)) if some else m + n
    return main + (3 * ELEMENT * lines * k if plan.launches.split_before else 0.0)


def affordable(
    plan: Plan, size: tuple[int, int, int], usual: tuple[int, int, int], most: float = SECONDS,
) -> tuple[Sample | None, tuple[int, int, int], str]:
    """(the sample to take, None for all blocks; the size to take; why that is another than the one asked for) within the budget.

    Args:
        usual: the size of a plan's headline product where nobody asks for one.
    """
    if size == usual or seconds(plan, size) <= most:
        return None, size, ""
    reason = why_not(plan)
    if not reason:
        for rows, columns in ((ROWS, COLUMNS), (3, 2), (2, 2), (2, 1)):
            some = drawn(plan, size, rows, columns)
            if some.blocks < some.of and seconds(plan, size, some) <= most:
                return some, size, ""
        reason = "a few blocks of this k take longer than the budget"
    else:
        reason += ", so that no block can be run alone"
    m, n, k = (min(asked, own) for asked, own in zip(size, usual))
    long = m, n, size[2]
    less = long if seconds(plan, long) <= most else (m, n, k)
    return None, less, f"{' x '.join(map(str, less))} in place of {' x '.join(map(str, size))}: {reason}; --whole computes all"
