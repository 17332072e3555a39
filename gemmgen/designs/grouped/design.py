"""The grouped design: several tiles in one kernel, each a plan of the portable design, and which of them a product gets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gemmgen.batch import Batch, Tile
from gemmgen.catalog.fragment import Fragment, FragmentMap
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.scheme import Scheme
from gemmgen.designs import common
from gemmgen.designs.design import Asked, Design, Hints, Way, refuse_arguments, refuse_pipeline, refuse_scales
from gemmgen.designs.feature import PROMOTES_AT_ONCE, Feature
from gemmgen.designs.grouped import equations, refusals
from gemmgen.designs.grouped.tile_of_each import LISTED, TileOfEach
from gemmgen.designs.modelled import sizes
from gemmgen.designs.parts import Equations, Text
from gemmgen.designs.portable.refusals import held_stages
from gemmgen.kinds import GEMM, GROUPED, POINTERS, STRIDED
from gemmgen.model import batch as tilings
from gemmgen.model import resources
from gemmgen.model.equation import Constraint, Numbers, solved

RING = 16
"""Tiles that a block knows at a time: those whose stages are on their way, at most one a stage, and the one after them."""
WORK_BYTES = 72
"""Of one: a product's struct, first row and column, the tile's number."""
MOST_STAGES = 8
"""Of a tile: with one work a stage on its way, half of RING."""
LANE_COLUMNS = 8
"""Lanes side by side along n where lanes multiply by themselves."""
LANE_K = 4
"""k that such a lane takes at once: 16 bytes of a row."""

BATCH_GEMM_TILES = ((16, 16, 16, 128), (16, 32, 16, 128), (32, 32, 16, 128), (32, 64, 16, 256), (64, 64, 16, 256))
"""BatchGEMM's Table 3: m, n, k, threads."""
EVEN_TILES = ((16, 16, 16, 128), (16, 32, 16, 128), (32, 32, 16, 128), (32, 64, 16, 128), (64, 64, 16, 128))
"""The same on one number of threads, for blocks that stay."""
MATRIX_TILES = ((16, 32, 64, 128), (32, 32, 32, 128), (32, 64, 32, 128), (64, 64, 32, 128))
"""Of whole fragments, for matrix units; the smallest, for few products, takes more of k at a time."""
EVEN_MATRIX_TILES = ((32, 32, 32, 128), (64, 64, 32, 128))
"""The same for blocks that stay, which pay for each size with a longer way into the kernel."""

TILES = Feature("tiles of a batch", constraints=(
    Constraint("C40", "tiles of a batch", "threads <= threads_per_block", "the hardware's limit", refusals.threads),
))
STAGES = Feature("works that a ring holds", constraints=(
    Constraint("C41", "stages", f"stages <= {MOST_STAGES}", "a block knows no more works at a time than a ring holds", common.most_stages(MOST_STAGES)),
    Constraint("C42", "stages that are held", "(held == 0) | (stages == 2)", "two stages take turns while the next tile is in registers", held_stages),
))


@dataclass(frozen=True)
class Facts:
    """What the template asks of a grouped plan.

    Attributes:
        tiles: a plan of the portable design for each tile, the smallest first.
        listed: products that a list holds.
        threshold: threads at work that are enough: those that the spec or the GPU's row says, or all that the GPU can have at work.
        tile_wavefronts: those that count of each tile; most_wavefronts: active at once on the whole GPU; most_counted: of one product.
        ring: tiles that a block knows at a time.
        lines_at, works_at, list_at: where rows of C, these and the list lie in shared memory, behind the stages of the largest tile.
        blocks_an_sm: resident blocks that the compiler is told to leave registers for.
    """

    tiles: tuple[Any, ...]
    listed: int
    tile_wavefronts: tuple[int, ...]
    threshold: int
    most_wavefronts: int
    most_counted: int
    ring: int
    lines_at: int
    works_at: int
    list_at: int
    blocks_an_sm: int


class Grouped(TileOfEach, Design):
    """Its tiles are a batch's own, so that nothing is left to a search."""

    name = "grouped"
    kinds = (GROUPED.name, POINTERS.name, STRIDED.name)
    all_ways = (Way("shared", "async"), Way("shared", "grouped"), Way("register", "async"), Way("register", "grouped"))
    features = (TILES, common.RING, STAGES, common.PROMOTION, common.STAGES_IN_SHARED, PROMOTES_AT_ONCE)
    forms = Equations(
        equations.RESOURCES, launch=equations.LAUNCH, predictions=equations.PROBLEM, groups=(
            ("Resources", equations.RESOURCES), ("Occupancy", (*resources.OCCUPANCY_EQUATIONS, *equations.LAUNCH)),
            ("A batch of the hints' size", equations.PROBLEM),
        ),
    )
    of_registers = ("BM", "BN", "BK")
    text = Text(shaping=("blocks_at_once", "most_wavefronts", "unrolled"), places_itself=True)

    def serves(self, fragment: Fragment) -> bool:
        return not fragment.from_shared and (fragment.interface.by_lanes or fragment.plain)

    def atom(self, fragment: Fragment) -> str:
        return super().atom(fragment) if fragment.on_matrix_unit else "atoms/lanes.j2"

    def preferred(self, usable: Sequence[Fragment], usual: Fragment) -> Fragment:
        """The smallest: small tiles are divided among several warps."""
        return min(usable, key=lambda row: (row.shape[0] * row.shape[1], -row.shape[2])) if usual.on_matrix_unit and usable else usual

    def instruction(self, fragment: Fragment, block: tuple[int, int, int], warp: tuple[int, int, int], cluster: int = 1) -> Fragment:
        return fragment if fragment.on_matrix_unit else lane_tile(fragment, warp)

    def ways(self, asked: Asked) -> tuple[Way, ...]:
        held = asked.gpu.maker.tiles_held or not asked.gpu.async_copies
        usual = (Way("shared" if asked.fragment.on_matrix_unit else "register", "grouped" if held else "async"),)
        found = self.left(asked, usual)
        if not found or asked.foreign:
            raise refuse_pipeline(asked, f"where = {usual[0].where}, loads = {usual[0].loads}", "where", "loads")
        return found

    def promote(self, best: int, scheme: Scheme, block: tuple[int, int, int] | None, k: int, fragment: Fragment) -> int:
        return min(best, fragment.shape[2])  # each instruction's sum by itself takes no array of its own, and sizes of k may be any

    def stages(self, gpu: Gpu) -> int:
        return 2  # of the largest tile; smaller ones have as many as fit the same shared memory

    def way_symbols(self, way: Way) -> dict[str, int]:
        return {"held": int(way.loads == "grouped"), "split_shared": int(way.where == "shared")}

    def way_of(self, numbers: Numbers) -> Way:
        return Way("shared" if numbers["split_shared"] else "register", "grouped" if numbers["held"] else "async")

    # ---- the batch

    def batch(self, spec: Any, gpu: Gpu, scheme: Scheme, fragment: Fragment, place: str) -> Batch:
        asked = spec.batch
        refusals.refuse_tile(spec, place)
        refuse_scales(scheme, place, "a batch's kernel is one launch, which splits on the way")
        refusals.refuse_output(spec, place)
        refuse_arguments(spec, place)
        walk = "persistent" if asked.walk == "auto" else asked.walk
        stays = walk == "persistent"
        usual = (EVEN_MATRIX_TILES if stays else MATRIX_TILES) if fragment.on_matrix_unit else EVEN_TILES if stays else BATCH_GEMM_TILES
        lanes = gpu.limits.warp_size
        rows = asked.tiles or [row for row in usual if warp_of(row, fragment, lanes)] or [usual[-1]]
        tiles = tuple(_tile(row, fragment, lanes, at, place) for at, row in enumerate(rows, 1))
        refusals.check_tiles(tiles, walk, place)
        threshold = gpu.batch_threshold if asked.threshold is None else asked.threshold
        return Batch(tiles, walk, asked.tlp, threshold, spec.problem.matrices)

    def smaller(self, batch: Batch, fragment: Fragment, lanes: int) -> Iterator[Batch]:
        even = EVEN_TILES if batch.walk == "persistent" else BATCH_GEMM_TILES
        known = [Tile(*row, warp) for row in (MATRIX_TILES if fragment.on_matrix_unit else even) if (warp := warp_of(row, fragment, lanes))]
        for at, largest in reversed(list(enumerate(known))):
            if largest.m * largest.n < batch.tiles[-1].m * batch.tiles[-1].n:
                yield replace(batch, tiles=(*(one for one in known[:at] if one in batch.tiles), largest))

    def settled(self, batch: Batch) -> dict[str, Any]:
        largest = batch.tiles[-1]
        return {"block": (largest.m, largest.n, largest.k), "warp": (*largest.warp, largest.k), "group": 1, "split_k": 1}

    def facts(self, plan: Any) -> Facts:
        numbers = plan.numbers
        return Facts(
            tiles=self.tiles(plan), listed=LISTED,
            threshold=self.threshold(plan), tile_wavefronts=self.tile_wavefronts(plan), most_counted=tilings.MOST_COUNTED,
            most_wavefronts=numbers["most_wavefronts"], ring=RING,
            lines_at=numbers["stage_bytes"], works_at=numbers["stage_bytes"] + numbers["line_bytes"],
            list_at=numbers["stage_bytes"] + numbers["line_bytes"] + RING * WORK_BYTES, blocks_an_sm=numbers["resident_blocks"],
        )

    def tiles(self, plan: Any) -> tuple[Any, ...]:
        """A plan of one tile each, whose numbers are the portable design's."""
        name = "portable" if plan.fragment.on_matrix_unit else "cuda_cores"
        made = tuple(
            replace(
                plan, block=(one.m, one.n, one.k), warp=(*one.warp, one.k), kind=GEMM, batch=None, designed=name, predicted_registers=None,
                fragment=self.instruction(plan.fragment, (), (*one.warp, one.k)),
            ) for one in plan.batch.tiles
        )
        if plan.loads != "async":
            return made
        room = max(map(stage_bytes, made))  # smaller tiles have as many stages as fit the largest one's shared memory: few are at work, and wait
        return tuple(replace(one, stages=min(MOST_STAGES, one.stages + (room - stage_bytes(one)) // raw_bytes(one))) for one in made)

    # ---- numbers

    def constants(self, layout: str, scheme: Scheme, fragment: Fragment, gpu: Gpu, hints: Hints) -> dict[str, Any]:
        return super().constants(layout, scheme, fragment, gpu, hints) | {"sharers": 1, "unrolled": 1}

    def resources(self, plan: Any) -> dict[str, Any]:
        known = self.constants_of(plan) | self.encoded(plan)
        plans = self.tiles(plan)
        tiles = [one.numbers for one in plans]
        known |= {
            "launch_threads": max(one.threads for one in plan.batch.tiles), "stage_bytes": max(map(stage_bytes, plans)),
            "line_bytes": max(4 * one.geometry.line_rows * one.geometry.line_pitch * (one.threads // plan.lanes) for one in plans),
            "list_bytes": list_bytes(plan), "matrices": max(1, plan.batch.matrices),
            "accumulators": tiles[-1]["accumulators"], "accumulator_registers": tiles[-1]["accumulator_registers"],
            "unrolled": tiles[-1]["unrolled"], "a_parts": tiles[-1]["a_parts"], "b_parts": tiles[-1]["b_parts"], "padding": 0,
        }
        walking = plan.gpu.registers.walking
        known |= (walking.matrix if plan.fragment.on_matrix_unit else walking.plain).model_dump() | {
            "tile_registers": max(one["registers"] for one in tiles), "staying": int(plan.batch.walk == "persistent"),
            "of_list": int(not plan.kind.strides), "further_tiles": len(tiles) - 1,
        }
        known |= {"W_num": known["launch_threads"], "T_workgroup": known["launch_threads"]}
        return solved(self.equations.launch, resources.resident(solved(self.equations.tiles, known)))

    def model(self, plan: Any) -> dict[str, Any]:
        known = self.resources(plan)
        tile = plan.batch.tiles[max(0, int(self.tiling_of_hints(plan).tile[0]))]
        known |= {"BM": tile.m, "BN": tile.n, "BK": tile.k, "tile_warps": tile.threads // plan.lanes, "W_num": tile.threads}
        known = solved(self.equations.predictions, known)
        return known | {"tlp": known["tlp_new"]}


def raw_bytes(tile: Any) -> int:
    """A stage of FP32."""
    return 4 * (tile.block[0] + tile.block[1]) * tile.block[2]


def stage_bytes(tile: Any) -> int:
    """Shared memory of a tile's stages: of FP32 where it is copied, and two of words where it is split."""
    elements = (tile.block[0] + tile.block[1]) * tile.block[2]
    words = 2 * elements * sizes(tile.scheme)["a_word_bytes"] if tile.fragment.on_matrix_unit else 0
    return words + (raw_bytes(tile) * tile.stages if tile.loads == "async" or not words else 0)


def list_bytes(plan: Any) -> int:
    """Shared memory of what a block looks up: its next tiles, and the list of products where each has a size of its own."""
    batch = plan.batch
    if batch.walk != "persistent":
        return 0
    if plan.kind.uniform:
        return RING * WORK_BYTES
    return RING * WORK_BYTES + -(-(15 * LISTED + 4 * (len(batch.tiles) + batch.tiles[0].threads // 32 + 3)) // 16) * 16


def _units(fragment: Fragment, lanes: int) -> tuple[int, int, int]:
    """What a warp's part is made of."""
    return fragment.shape if fragment.on_matrix_unit else (lanes // LANE_COLUMNS, LANE_COLUMNS, LANE_K)


def _tile(row: tuple[int, int, int, int], fragment: Fragment, lanes: int, at: int, place: str) -> Tile:
    warp = warp_of(row, fragment, lanes)
    if warp is None:
        raise refusals.no_warps(row, _units(fragment, lanes), lanes, at, place)
    return Tile(*row, warp)


def warp_of(row: tuple[int, int, int, int], fragment: Fragment, lanes: int) -> tuple[int, int] | None:
    """m and n of a warp's part of a tile, as square as can be; None where it cannot be divided among its warps.

    Args:
        row: m, n, k and threads of the tile.
    """
    m, n, k, threads = row
    warps, rest = divmod(threads, lanes)
    fm, fn, fk = _units(fragment, lanes)

    def divides(wm: int, wn: int) -> bool:
        if not fragment.on_matrix_unit:  # an extent of lanes is a power of two
            return not wm & (wm - 1) and not wn & (wn - 1)
        return wn % (fragment.interface.fetched_together * fn) == 0 or (wn == fn and fragment.b.register_count == 2)  # one alone, or all in pairs

    found = [
        (m // rows, n // (warps // rows)) for rows in range(1, warps + 1)
        if warps % rows == 0 and m % (rows * fm) == 0 and n % (warps // rows * fn) == 0 and divides(m // rows, n // (warps // rows))
    ] if not rest and warps else []
    if not found or k % fk:
        return None
    return min(found, key=lambda warp: (abs(np.log2(warp[0] / warp[1])), -warp[0]))


def lane_tile(fragment: Fragment, warp: tuple[int, int, int]) -> Fragment:
    """What a warp of lanes multiplies by itself: each lane rows and columns of its part that lie as far apart as there are lanes beside it."""
    lanes, (wm, wn) = fragment.threads, warp[:2]
    lane_rows = lanes // LANE_COLUMNS

    def powers(first: int, end: int) -> list[int]:
        return [1 << bit for bit in range(first.bit_length() - 1, end.bit_length() - 1)]

    columns, rows, ks = powers(1, LANE_COLUMNS), powers(1, lane_rows), powers(1, LANE_K)
    more_columns, more_rows = powers(LANE_COLUMNS, wn), powers(lane_rows, wm)
    none = (0, 0)
    return fragment.model_copy(update={
        "name": f"fma_m{wm}n{wn}k{LANE_K}_f32", "shape": (wm, wn, LANE_K),
        "a": FragmentMap(lanes=(*(none for _ in columns), *((row, 0) for row in rows)),
                         registers=(*((0, k) for k in ks), *((row, 0) for row in more_rows)), copies=LANE_COLUMNS),
        "b": FragmentMap(lanes=(*((0, column) for column in columns), *(none for _ in rows)),
                         registers=(*((k, 0) for k in ks), *((0, column) for column in more_columns)), copies=lane_rows),
        "c": FragmentMap(lanes=(*((0, column) for column in columns), *((row, 0) for row in rows)),
                         registers=(*((0, column) for column in more_columns), *((row, 0) for row in more_rows))),
    })
