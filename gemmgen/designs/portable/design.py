"""The portable design's decisions, constraints and axes of search; its equations are those of `gemmgen/model`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.registers import Registers
from gemmgen.catalog.scheme import Scheme
from gemmgen.decisions import Decision, Word
from gemmgen.designs import common
from gemmgen.designs.common import COMPENSATION, GROUPS, PROMOTION, RUNS_OF_K, SLICES, SLICES_OF_K, STAGES, STAGES_IN_SHARED, TILES_OF_K
from gemmgen.designs.design import Asked, Choices, Design, Hints, Way
from gemmgen.designs.feature import ANY_KIND, COMPLEX, GIVEN_TRIANGLES, PROMOTES_AT_ONCE, STORED_B, Feature
from gemmgen.designs.parts import Equations, Text
from gemmgen.designs.portable import refusals
from gemmgen.errors import InfeasibleSpec
from gemmgen.model import registers, resources, time, traffic
from gemmgen.model.equation import Constraint, Numbers

BLOCK_K = (16, 32, 64, 128)
MAX_BLOCK = 256
LEAST_WARP = 32
"""Smaller warps fetch more than they multiply; a search considers them where larger ones leave SMs idle."""
PADDING = 16
"""Bytes after a row of words, for fragments that are fetched by rows of one distance."""
OTHER_REGISTERS = 48
"""Addresses, loop counters and one product's fragments: what a thread needs at least beside its accumulators."""

FRAGMENT_BUFFERS = Decision(
    "fragment_buffers", "pipeline", "2: the next step's fragments are fetched while this one's are multiplied", ("fragment_buffers",),
    "{} fragment buffer(s)", 1, 2, neutral=1, usual=1,
)

ROWS = Decision(
    "rows", "pipeline", "how rows of words in shared memory keep out of one another's banks", ("padded",), "{} rows", neutral="swizzled", usual="swizzled",
    quiet=True, words=(
        Word("swizzled", "their 16-byte chunks change places, and take no room", 0),
        Word("padded", "16 bytes follow every row or every 128 bytes of shorter ones, as many as EGEMM-TC's Table 4 counts", 1),
    ),
)
FRAGMENT_CACHING = Decision(
    "fragment_caching", "pipeline", "what stays in a warp's registers from one product of words to the next (EGEMM-TC's section 4, Table 2)", ("uncached",),
    "{} cached in fragments", neutral="all", usual="all", quiet=True, words=(
        Word("all", "fragments of both operands, which all products of a step use, and the sums", 0),
        Word("sums", "the sums: every product fetches its operands' fragments from shared memory again", 1),
        Word("none", "nothing: the sums too lie in shared memory from one step to the next", 2),
    ),
)

_BLOCK_KS = " | ".join(f"(BK == {k})" for k in BLOCK_K)

CHUNKS = Feature("rows of whole 16-byte chunks", of_tiles=(
    Constraint("C1", "block k", f"(BK % FK == 0) & ({_BLOCK_KS})", "rows of whole 16-byte chunks that the swizzle can permute",
               refusals.block_k(BLOCK_K)),
))
PIECES = Feature(
    "a warp k below block k is a piece of a stage, which each warp goes through as a whole, and not a warp's share of it",
    of_tiles=(
        Constraint("C62", "warp k", "(BK % WK == 0) & (WK % FK == 0)", "a warp works through the whole stage, in equal pieces of whole instructions",
                   refusals.pieces),
    ),
)
FRAGMENTS = Feature("whole fragments and warps", of_tiles=(
    common.WARP_M,
    Constraint("C4", "warp n", "WN % (fetched_together * FN) == 0", "one ldmatrix of B fetches two fragments side by side", common.whole_fragments(1)),
    common.BLOCK_M,
    common.BLOCK_N,
    Constraint("C7", "threads", "threads <= threads_per_block", "the hardware's limit", refusals.threads),
))
COPIES = Feature("copies past the registers, or tiles that are held in them", constraints=(
    Constraint("C14", "asynchronous copies", "(held > 0) | (has_async > 0)", "cp.async came with sm_80", refusals.no_async),
    Constraint("C15", "stages", "(held == 0) | (stages <= 2) | (rings > 0)",
               "two stages take turns while the next tile is in registers; AMD's kernels may go round more", refusals.held_stages),
    Constraint("C63", "one stage", "(stages > 1) | ((held > 0) & (rings == 0))", "the next tile has to wait somewhere else: in registers",
               refusals.one_stage),
))
SPLIT_ON_THE_WAY = Feature("operands are split on the way to the matrix unit", constraints=(
    Constraint("C16", "split in shared", "(split_shared == 0) | (held > 0)", "what is split before shared memory passes through registers",
               refusals.shared_async),
    Constraint("C17", "split in register", "(split_register == 0) | (held == 0) | (rings > 0)",
               "what is split behind shared memory is copied there as it is, on AMD through registers", refusals.register_held),
    Constraint("C18", "scaled rows", "((split_reads == 1) & (tile_k == 0) & (run == 0)) | (split_shared + split_register == 0)",
               "scales of rows or of k ask for a pass over the operands first, which may as well split them", refusals.scaled_in_kernel),
    Constraint("C59", "stored B", "(b_bytes == 4) | (split_shared + split_register == 0)", "what splits in the main kernel reads FP32",
               refusals.stored_in_kernel),
    Constraint("C19", "fragments by lanes", "(split_register == 0) | (by_lanes > 0)",
               "lanes that fill fragments themselves need a map, and words to split into", refusals.not_by_lanes),
    Constraint("C20", "rows of FP32", "(split_register == 0) | (((a_strided * BM) % 32 == 0) & ((b_strided * BN) % 32 == 0))",
               "an operand stored along m or n is staged in rows of whole 128-byte lines", refusals.rows_of_lines),
))
BUFFERED = (
    Constraint("C8", "fragment buffers", "(fragment_buffers == 1) | (BK % (2 * FK) == 0)", "two buffers take turns within a stage",
               refusals.fragment_buffers),
    Constraint("C68", "loads waited for", "(waits == 0) | (fragment_buffers == 1)", "no step is fetched ahead of the loads", refusals.waited),
)
"""What every kernel with fragment buffers asks, wherever its loads stand."""
TWO_BUFFERS = Feature("two buffers of fragments", (FRAGMENT_BUFFERS,), constraints=(
    Constraint("C21", "loads between steps", "(held * fragment_buffers < 2) | (BK > FK)",
               "the next tile is put away before a stage's last step", refusals.single_step),
    *BUFFERED,
))
PIECES_HELD = Feature("the fragments of a piece are there together", constraints=(
    Constraint("C64", "pieces", "(WK == BK) | (WK == FK) | ((fragment_buffers == 1) & (uncached == 0))",
               "a piece's fragments are there together", refusals.pieces_held),
))
PADDED_ROWS = Feature("swizzled or padded rows", (ROWS,), constraints=(
    Constraint("C65", "padded rows", "(padded == 0) | ((padding == 0) & (rings == 0) & (split_register == 0) & (types == 1) & (tile_k == 0))",
               "rows of one type of words, fetched by ldmatrix", refusals.padded),
))
CACHED_FRAGMENTS = Feature("fragments that stay in registers", (FRAGMENT_CACHING,), constraints=(
    Constraint("C66", "fragment caching", "(uncached == 0) | ((padding == 0) & (rings == 0) & (split_register == 0) & (tile_k == 0) & (fragment_buffers == 1))",
               "nothing is fetched before its product, and ldmatrix fetches it", refusals.uncached),
    Constraint("C67", "sums in shared memory", "(uncached < 2) | ((promote == 0) & (FM * FN == 4 * warp_size))",
               "the sums of an instruction are four registers a lane, and one set", refusals.sums_in_shared),
))
ACCUMULATORS = Feature("sums in registers", spills=True, constraints=(Constraint(
    "C11", "accumulators", "accumulator_registers + other_registers <= register_budget", "EGEMM eq. 8, first line, and WMMAe eq. 2",
    common.accumulators("other_registers"),
),))
PREDICTED_SPILLS = Feature("registers that the model predicts", steers=True, constraints=(
    Constraint("C12", "predicted to spill", "demand + uneven <= register_budget + squeeze",
               "what ptxas cannot hold it spills; it squeezes a demand somewhat first, less in some loops than in others", refusals.spills),
))
WITHIN_THE_FIT = Feature("warps and sums that the register model was fitted to", steers=True, constraints=(Constraint(
    "C13", "outside the fit", "(max(WM, WN) <= 128) & ((promote < FK) | (promote > FK) | ((WM * WN * products / sums < 6144) & (BK <= 2 * FK)))",
    "larger warps were not compiled when the register model was fitted, and it is not good at many sums promoted at once,"
    " nor at more than two steps of them a stage; a spec may ask for them", refusals.outside_the_fit,
),))
UNMOVED_SUMS = Feature("sums that stay in accumulation registers", steers=True, constraints=(
    Constraint("C28", "sums that move", f"amd * (demand - waiting) <= {registers.ARCHITECTURAL}",
               "what is used in every step and lies in accumulation registers clang moves to architectural ones and back; a spec may ask for it",
               refusals.sums_that_move),
))
PREDICTED = (*PREDICTED_SPILLS.constraints, *WITHIN_THE_FIT.constraints, *UNMOVED_SUMS.constraints)
"""Constraints on what the register model predicts."""

TILE_EQUATIONS = (resources.WARPS, resources.THREADS, traffic.TILES)
PIPELINE_EQUATIONS = (
    resources.ELEMENT_BYTES, resources.B_ELEMENT_BYTES, resources.ROW_PADDING, resources.SHARED_BYTES, resources.ACCUMULATORS, resources.ACCUMULATOR_REGISTERS,
    resources.FRAGMENT_REGISTERS,
)

HELD_WAYS = (Way("prepass", "grouped"), Way("shared", "grouped"), Way("register", "grouped"))
"""Where tiles only come that way (AMD): they come through registers, and where their loads stand among the matrix instructions its compiler decides."""


class Portable(Design):
    name = "portable"
    register_section = ""
    features = (
        CHUNKS, PIECES, FRAGMENTS, COPIES, SPLIT_ON_THE_WAY, TWO_BUFFERS, PIECES_HELD, COMPENSATION, PADDED_ROWS, CACHED_FRAGMENTS, PROMOTION,
        TILES_OF_K, RUNS_OF_K, STAGES_IN_SHARED, ACCUMULATORS, PREDICTED_SPILLS, WITHIN_THE_FIT, UNMOVED_SUMS, SLICES_OF_K, STORED_B,
        PROMOTES_AT_ONCE, ANY_KIND, GIVEN_TRIANGLES, COMPLEX,
    )
    words = {
        "where": (
            Word("shared", "the main kernel splits between global and shared memory"), Word("register", "between shared memory and fragments"),
        ),
        "loads": (
            Word("async", "cp.async"), Word("spread", "through registers, one by one between the matrix instructions"),
            Word("grouped", "through registers, before the matrix instructions"),
            Word("waited", "through registers, after the matrix instructions, so that all wait for them: what the other ways are measured against"),
        ),
    }
    all_ways = tuple(Way(where, loads) for where, loads in (
        ("prepass", "async"), ("prepass", "spread"), ("shared", "spread"), ("register", "async"), ("prepass", "grouped"), ("shared", "grouped"),
    ))
    forms = Equations(
        TILE_EQUATIONS, PIPELINE_EQUATIONS, predictions=(*traffic.BLOCK_EQUATIONS, *traffic.PROBLEM_EQUATIONS, traffic.TLP, *time.EQUATIONS),
        groups=(
            ("Resources", (*TILE_EQUATIONS, *PIPELINE_EQUATIONS)),
            ("Registers", (*registers.EQUATIONS, registers.DEMAND, registers.BUDGET, registers.REGISTERS, registers.UNEVEN)),
            ("Occupancy", resources.OCCUPANCY_EQUATIONS),
            ("Traffic", (*traffic.BLOCK_EQUATIONS, *traffic.PROBLEM_EQUATIONS, traffic.TLP)),
            ("Time", time.EQUATIONS),
        ),
    )
    order = "the largest {intensity} wins, then the least {dram_bytes}, the largest {tlp}, the least {shared_bytes}"
    of_registers = ("WM", "WN", "BK", "split_shared", "split_register", "held", "spread", "waits", "fragment_buffers", "register_budget")
    text = Text(shaping=("unrolled",))

    held_ways = HELD_WAYS
    slices = SLICES
    """How many slices of k a search considers."""
    held = "spread"
    """How a search has loads through registers stand: spread among the matrix instructions."""

    def serves(self, fragment: Fragment) -> bool:
        return fragment.on_matrix_unit and not fragment.from_shared

    def ways(self, asked: Asked) -> tuple[Way, ...]:
        for decision, policy in asked.foreign:
            raise InfeasibleSpec(
                f"{asked.place}: [{decision.section}] {decision.name}", f"kernels of policy {asked.fragment.policy} have no such choice",
                got=asked.said(decision.name), needs=f"policy = {policy}, and a GPU that has it", has=asked.gpu.arch, remedy="leave it out",
            )
        if asked.kind.packs and asked.fixed.get("where") not in (None, "prepass"):
            raise InfeasibleSpec(
                f"{asked.place}: [split] where", f"kind {asked.kind.name} has operands that a pass before splits", got=asked.fixed["where"],
                needs="prepass", remedy='where = "prepass"',
            )
        found = self._ways(asked)
        return tuple(way for way in found if way.where == "prepass") if asked.kind.packs else found

    def _ways(self, asked: Asked) -> tuple[Way, ...]:
        if not asked.gpu.maker.tiles_held:
            return self._copied_ways(asked)
        found = self.left(asked, self.held_ways)
        if not found:
            raise InfeasibleSpec(
                f"{asked.place}: [pipeline] loads", f"kernels for {asked.gpu.name} load tiles through registers, where the compiler puts it",
                got=asked.fixed.get("loads"), needs="grouped", has=asked.gpu.arch, remedy='loads = "grouped", or leave it out',
            )
        return found

    def _copied_ways(self, asked: Asked) -> tuple[Way, ...]:
        """The ways that a spec leaves open; one that cannot be, for a constraint to name, where none is left.

        Copies that go past the registers are never worse than packed words through them, so these are for GPUs without.
        """
        where, loads, has_async = asked.fixed.get("where"), asked.fixed.get("loads"), asked.gpu.async_copies
        if where and loads:
            return (Way(where, loads),)
        found = self.left(asked)
        if loads is None:
            found = tuple(way for way in found if way.loads in ("async", self.held) and not (has_async and way == Way("prepass", self.held)))
            usable = tuple(way for way in found if has_async or way.loads != "async")
            found = usable or found
        return found or (Way(where or "prepass", loads or "async"),)

    def stages(self, gpu: Gpu) -> int | None:
        return 2 if gpu.maker.tiles_held else None

    def way_symbols(self, way: Way) -> dict[str, int]:
        return {
            "split_shared": int(way.where == "shared"), "split_register": int(way.where == "register"),
            "held": int(way.loads != "async"), "spread": int(way.loads == "spread"), "waits": int(way.loads == "waited"),
        }

    def way_of(self, numbers: Numbers) -> Way:
        where = "shared" if numbers["split_shared"] else "register" if numbers["split_register"] else "prepass"
        return Way(where, "spread" if numbers["spread"] else "waited" if numbers["waits"] else "grouped" if numbers["held"] else "async")

    def constants(self, layout: str, scheme: Scheme, fragment: Fragment, gpu: Gpu, hints: Hints) -> dict[str, Any]:
        return super().constants(layout, scheme, fragment, gpu, hints) | {
            "a_lanes": fragment.a.lane_copies if fragment.a else 1,
            "b_lanes": fragment.b.lane_copies if fragment.b else 1, "a_copies": fragment.a.copies if fragment.a else 1,
            "b_copies": fragment.b.copies if fragment.b else 1, "other_registers": OTHER_REGISTERS, "has_async": int(gpu.async_copies),
            "rings": int(gpu.maker.tiles_held),
            "c_rows": _apart(fragment, 0), "c_columns": _apart(fragment, 1), "fetched_together": fragment.interface.fetched_together,
            "by_lanes": int(fragment.splits_in_lanes),
            "padding": PADDING if fragment.interface.by_stride else 0, "sharers": 1,
        }

    def registers(self, numbers: Numbers, table: Registers) -> dict[str, Any]:
        return registers.predict(numbers, table)

    def looked_up(self, name: str, value: Any, table: Registers) -> dict[str, Any]:
        return registers.coefficients(table, value) if name == "loop" else {}

    # ---- search

    def axes(self, choices: Choices, fragment: Fragment) -> list[dict[str, np.ndarray]]:
        ways = [
            (count, *self.way_symbols(way).values()) for count in choices.among("split_k", self.slices) for way in choices.ways
        ]
        pipelines = [
            (promote, buffers, stages) for promote in choices.promote
            for buffers in choices.among("fragment_buffers", (1, 2)) for stages in choices.among("stages", STAGES)
        ]
        return [
            _tiles(choices, fragment), dict(zip(("split_k", *self.way_names), np.array(ways).T)),
            dict(zip(("promote", "fragment_buffers", "stages"), np.array(pipelines).T)) | common.settled(self, choices, len(pipelines)),
            {"group": np.array(choices.among("group", GROUPS))},
        ]

    def preference(self, known: Numbers) -> tuple[np.ndarray, ...]:
        """The largest intensity (T3), then the least traffic with device memory (T13), the most threads (P1), the least
        shared memory, the smaller group, the taller tile. On AMD, where no timing says what fetches cost, before the threads:
        two wavefronts a SIMD, of which one multiplies while the other waits, then the least traffic of fragments (T4)."""
        alone = known["amd"] * (known["resident_blocks"] * known["warps"] < 2 * known["partitions"])
        fetched = known["amd"] * known["fetch_bytes"] / known["stage_flops"]
        return -known["intensity"], known["dram_bytes"], alone, fetched, -known["tlp"], known["shared_bytes"], known["group"], -known["BM"], -known["WM"]


def _apart(fragment: Fragment, axis: int) -> int:
    """How many rows (axis 0) or columns (1) of C a lane's elements of a fragment lie in."""
    return len({fragment.c.element(0, register)[axis] for register in range(fragment.c.register_count)}) if fragment.c else 1


def _tiles(choices: Choices, fragment: Fragment) -> dict[str, np.ndarray]:
    fm, fn, fk = fragment.shape
    block, warp = choices["block"], choices["warp"]
    pairs = {
        axis: extents(block and block[at], warp and warp[at], unit, choices.small)
        for axis, at, unit in (("m", 0, fm), ("n", 1, fragment.interface.fetched_together * fn))
    }
    if block or warp:
        depth = (block or warp)[2]
        depths = [(depth, (warp or block)[2])] if block or depth in BLOCK_K else [(k, depth) for k in BLOCK_K if k % depth == 0] or [(depth, depth)]
    else:
        depths = [(k, k) for k in BLOCK_K if k % fk == 0]
    rows = [(*m, *n, *k) for m in pairs["m"] for n in pairs["n"] for k in depths]
    return dict(zip(("BM", "WM", "BN", "WN", "BK", "WK"), np.array(rows).T))


def extents(block: int | None, warp: int | None, unit: int, small: bool) -> list[tuple[int, int]]:
    """(block, warp) extents along one axis: whole warps of whole fragments, unless the spec fixes others."""
    if block and warp:
        return [(block, warp)]
    if block:
        # A block that no warp divides still makes a candidate, for a constraint to name.
        return [(block, w) for w in range(unit, block + 1, unit) if block % w == 0] or [(block, unit)]
    if warp:
        return [(b, warp) for b in range(warp, max(MAX_BLOCK, warp) + 1, warp)]
    least = -(-(LEAST_WARP // 2 if small else LEAST_WARP) // unit) * unit
    most = MAX_BLOCK // 2 if small else MAX_BLOCK
    return [(b, w) for b in range(least, most + 1, unit) for w in range(least, b + 1, unit) if b % w == 0]
