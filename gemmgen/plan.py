"""The solved Plan: every decision a kernel rests on, and every number a template reads.

All arithmetic happens here; templates loop and substitute.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, make_dataclass
from functools import cached_property
from typing import Any

from gemmgen.batch import Batch, Tile
from gemmgen.catalog.epilogue import NONE, Epilogue
from gemmgen.catalog.fragment import Fragment, candidates
from gemmgen.catalog.gpu import GPUS, Gpu
from gemmgen.catalog.input import INPUTS, Input
from gemmgen.catalog.number import word_bytes
from gemmgen.catalog.output import F32, Output
from gemmgen.catalog.scheme import Accumulator, Product, Scheme, Word
from gemmgen.catalog.unit import MatrixUnit
from gemmgen.decisions import Decision
from gemmgen.designs import Design, Hints, all_decisions, design_called, designs_of
from gemmgen.designs.feature import COMBINED_SUMS, PACKS_APART, PROMOTES_AT_ONCE
from gemmgen.designs.portable.design import PIECES
from gemmgen.model.error import mean_cut

SPLIT_THREADS = 256
SPLIT_TILE_OUTER = 64  # rows of A or columns of B that one block of the split kernel takes
SPLIT_TILE_K = 32
SPLIT_ELEMENTS = 8  # k values a thread splits at least: one 16-byte store a word of 16 bits
SPLIT_RUNS = 4  # of them that a thread of a strided batch's split kernel takes, so that more loads are under way at once
ABSMAX_TILE_K = 256
# A pass that reads whole rows of A and columns of B keeps what it read in registers, finds their maxima and splits them.
WHOLE_FLOATS = 64  # of a thread; what a row or column has more is read once more
WHOLE_ROWS = 2  # that a block takes where k is contiguous
WHOLE_COLUMNS = 32  # that a cluster of blocks takes where it is not: 128 bytes that lie together
WHOLE_CLUSTER = 8
MOST_SCALES = 16  # of rows, and of columns, that a thread keeps in registers while it stores its elements
RESIDUE_BLOCKS = 4  # of the split kernel that an SM holds at once where words are residues: the compiler is told how few registers that leaves
NORMS_OUTER = 32  # rows of A or columns of B whose norms a block takes, over all k
NORMS_THREADS = 1024
WHOLE_K = 1 << 30
COPY_BYTES = 16  # one cp.async


@dataclass(frozen=True)
class Swizzle:
    """How 16-byte chunks of a row change places: `chunk ^ (row / line & mask) * stride`.

    Attributes:
        line: rows that share one 128-byte line of banks.
        stride: chunks that one row's lanes read together.
        mask: how many rows' worth of them a phase reads, less one.
    """

    line: int
    mask: int
    stride: int

    @property
    def rows(self) -> int:
        return self.line * (self.mask + 1)


@dataclass(frozen=True)
class Copying:
    """How a block's threads copy a tile of FP32 in 16-byte chunks, [rows, columns] as the operand is stored.

    Attributes:
        across: chunks of one row that neighbouring threads take together.
        across_steps: how often, for a whole row.
        down: rows that the block takes together.
    """

    rows: int
    columns: int
    across: int
    down: int

    @property
    def across_steps(self) -> int:
        return self.columns // 4 // self.across

    @property
    def down_steps(self) -> int:
        return -(-self.rows // self.down)


@dataclass(frozen=True)
class Rows:
    """How rows of words of one type lie in a stage, and what multiplies them.

    Attributes:
        fragment: the instruction, whose words they are.
        suffix: of the names in the text that are this type's; empty of the leading words'.
        extent: k of a stage.
        line_chunks: 16-byte chunks that shared memory serves at once, one of each of as many lanes.
    """

    fragment: Fragment
    suffix: str
    extent: int
    line_chunks: int

    @property
    def type(self) -> str:
        return self.fragment.word

    @property
    def bytes(self) -> int:
        """One row."""
        return self.extent * self.fragment.word_bytes

    @property
    def chunks(self) -> int:
        """16-byte chunks in one row."""
        return self.bytes // COPY_BYTES

    @property
    def step_chunks(self) -> int:
        """Of them that one instruction takes."""
        return self.fragment.shape[2] * self.fragment.word_bytes // COPY_BYTES

    @property
    def swizzle_rows(self) -> int:
        """Rows that share one line of banks. The swizzle parts the rows of one chunk; on 64 banks (gfx950) a phase of
        fragments 16 high takes rows of two chunks, some of which then meet."""
        return max(1, self.line_chunks // self.chunks)

    @property
    def swizzle_mask(self) -> int:
        return min(self.chunks, self.line_chunks) - 1


@dataclass(frozen=True)
class Operand:
    """How one operand lies in memory and in its tile.

    Attributes:
        name: `a` or `b`.
        outer: the dimension that is not summed: `m` or `n`.
        k_contiguous: whether consecutive k are neighbours in memory.
        tile: outer extent of a thread block's tile.
    """

    name: str
    outer: str
    k_contiguous: bool
    tile: int

    def offset(self, outer: str, k: str) -> str:
        """The element's offset from the operand's base, as C."""
        ld = f"ld{self.name}"
        return f"{outer} * {ld} + {k}" if self.k_contiguous else f"{k} * {ld} + {outer}"


class _Facts:
    """What follows from a plan's decisions: identity, numbers of the design's equations, layouts."""

    layout: str
    scheme: Scheme
    fragment: Fragment
    gpu: Gpu
    special: str
    allow_spills: bool
    hints: Hints
    designed: str | None
    output: Output
    epilogue: Epilogue
    batch: Batch | None
    predicted_registers: int | None
    fallback: _Facts | None
    flagged: tuple[int, int] | None

    # ---- identity

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What two equal kernels share: the decisions, without hints or sources, and what of the GPU shapes their text and launches."""
        prose = {"source"}
        return {
            "layout": self.layout,
            "scheme": self.scheme.model_dump(mode="json", exclude=prose, exclude_none=True),
            "fragment": self.fragment.model_dump(mode="json", exclude=prose, exclude_none=True),
            "arch": self.arch,
            "special": self.special,
            **self.decided,
            **({} if self.stored_b.is_usual else {"b": self.stored_b.name}),
            **({} if self.output.is_usual else {"c": self.output.name}), **({"epilogue": self.epilogue.names} if self.epilogue else {}),
            **({"passes": "whole"} if self.splits_whole else {}),
            **({"batch": self.batch.identity} if self.batch else {}),
            **({"fallback": self.fallback.identity} if self.fallback else {}), **({"flagged": self.flagged} if self.flagged else {}),
            **({"design": self.design.name} if self.design.is_brought else {}),  # those of this package differ in their fragments
            "gpu": {
                "lanes": self.lanes, "banks": self.gpu.limits.shared_banks, "flushing": self.flushing_archs,
                **{symbol: self.numbers[symbol] for symbol in self.design.text.shaping},
            },
        }

    @cached_property
    def decided(self) -> dict[str, Any]:
        """The design's decisions by name, without those that are what they are in a design that has no such choice, and go unsaid then."""
        found = {one: getattr(self, one.name) for one in self.design.decisions}
        return {one.name: value for one, value in found.items() if not one.unsaid(value)}

    @property
    def told(self) -> list[tuple[Decision, Any]]:
        """The design's decisions with their values."""
        return [(one, self.decided[one.name]) for one in self.design.decisions if one.name in self.decided]

    @property
    def summary(self) -> str:
        """The same in words."""
        return ", ".join(one.told(value) for one, value in self.told)

    @property
    def arch(self) -> str:
        """The compile target: the GPU's, or that of an instruction only it has."""
        return self.fragment.arch or self.gpu.arch

    @cached_property
    def hash(self) -> str:
        """Eight hex digits of the identity's SHA-256."""
        text = json.dumps(self.identity, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def standing(self) -> str | None:
        """How far such kernels have been checked, where none has ever run; None where some have."""
        return self.design.checked.standing or self.gpu.maker.standing_of(self.arch)

    # ---- the design, and what its equations say

    @cached_property
    def design(self) -> Design:
        return design_called(self.designed) if self.designed else designs_of(self.fragment, self.kind, self.scheme.family.sums)[0]

    @property
    def kind(self) -> str:
        """Of the problem: one product, or a batch of which kind."""
        return self.batch.kind if self.batch else "gemm"

    @property
    def stored_b(self) -> Input:
        """The type of B's elements: what the scheme takes."""
        return INPUTS[self.scheme.b or "f32"]

    @property
    def vectors(self) -> list[str]:
        """The vectors that the epilogue is given, by their names."""
        return [one.name for one in self.epilogue.arguments if one.is_vector]

    def elements_of(self, operand: str) -> str:
        """The C type of an element of operand `a` or `b` as it is given."""
        return self.stored_b.element if operand == "b" else "float"

    def element(self, operand: str, at: str) -> str:
        """The FP32 value of element `at` of operand `a` or `b`, as C."""
        one = f"{operand}[{at}]"
        return self.stored_b.widen.format(x=one) if operand == "b" else one

    @property
    def strided(self) -> bool:
        """Whether it is for a batch of one size, whose matrices lie a stride apart."""
        return self.kind == "strided" and not self.batch.tiles

    @property
    def of_products(self) -> bool:
        """Whether a launch takes many products, each told by itself (`gemmgen.run.batch`)."""
        return bool(self.batch) and not self.strided

    @property
    def packs_products(self) -> bool:
        """Whether a pass packs the words of many such products before the main kernel."""
        return self.of_products and bool(self.split_before)

    @property
    def batch_tiles(self) -> tuple[Tile, ...]:
        """The tiles that a product of a batch may get, the smallest first."""
        return self.batch.tiles or (Tile(*self.block, self.threads, self.warp[:2]),)

    @property
    def split_tile(self) -> tuple[int, int]:
        """Rows of A or columns of B, and their k, that one block of the split kernel takes."""
        outer, k = (SPLIT_TILE_OUTER * SPLIT_RUNS // 2, SPLIT_TILE_K * 2) if self.batch else (SPLIT_TILE_OUTER, SPLIT_TILE_K)
        return outer, k * self.split_elements // SPLIT_ELEMENTS

    @property
    def splits_whole(self) -> bool:
        """Whether one launch finds the maxima of rows and columns and splits them, and not one after another; none that also tells which rows stand out."""
        return not self.batch and not self.fallback and self.design.splits_whole(self.scheme, self.gpu, self.hints)

    @property
    def whole_cluster(self) -> int:
        """Blocks of a cluster in that launch: several where an operand's k is not contiguous, so that they share its columns."""
        return 1 if all(operand.k_contiguous for operand in self.split_before) else WHOLE_CLUSTER

    @property
    def split_elements(self) -> int:
        """Consecutive k that a thread of the split kernel splits: a 16-byte store a word, or two."""
        return max(SPLIT_ELEMENTS, self.chunk_elements)

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """The symbols of the design's equations that do not depend on sizes, with their values."""
        return self.design.resources(self)

    @cached_property
    def model(self) -> dict[str, Any]:
        """Every symbol's value, traffic and time at the sizes of the hints among them."""
        return self.design.model(self)

    @cached_property
    def own(self) -> Any:
        """What the design's own template asks besides."""
        return self.design.facts(self)

    @property
    def threads(self) -> int:
        return self.numbers["threads"]

    @property
    def shared_bytes(self) -> int:
        """Shared memory of the main kernel."""
        return self.numbers["shared_bytes"]

    @property
    def accumulator_sets(self) -> int:
        """Arrays of [warp m, warp n] FP32 values a warp keeps."""
        return self.numbers["accumulators"]

    @property
    def most_blocks(self) -> int | None:
        """Blocks that a launch needs at most, where they stay and work off tiles."""
        return self.numbers["blocks_at_once"] if self.design.stays else None

    @property
    def unrolls_steps(self) -> bool:
        """Whether the steps of a stage are unrolled (G24)."""
        return bool(self.numbers["unrolled"])

    # ---- geometry of the main kernel

    @property
    def lanes(self) -> int:
        """Threads of a warp; of AMD a wavefront."""
        return self.gpu.limits.warp_size

    @property
    def absmax_outer(self) -> int:
        """Rows of A or columns of B that one block of the maxima's kernel takes: one a lane."""
        return self.lanes

    @property
    def warps_m(self) -> int:
        return self.block[0] // self.warp[0]

    @property
    def warps_n(self) -> int:
        return self.block[1] // self.warp[1]

    @property
    def warps_k(self) -> int:
        """Warps that share a part of the tile, each with its own part of every stage's k."""
        return self.block[2] // self.warp_stage_k

    @property
    def warp_stage_k(self) -> int:
        """k of a stage that is a warp's."""
        return self.block[2] if self.design.has(PIECES) else self.warp[2]

    @property
    def piece_steps(self) -> int:
        """Instructions along k whose fragments a warp fetches together, where it takes a stage in pieces; else 0."""
        return self.warp[2] // self.fragment.shape[2] if self.warp[2] < self.warp_stage_k else 0

    @property
    def tiles_m(self) -> int:
        """Fragments a warp holds along m."""
        return self.warp[0] // self.fragment.shape[0]

    @property
    def tiles_n(self) -> int:
        return self.warp[1] // self.fragment.shape[1]

    @property
    def k_steps(self) -> int:
        """Instructions along k in one stage."""
        return self.warp_stage_k // self.fragment.shape[2]

    @property
    def elements(self) -> int:
        """FP32 values of one accumulator set that a thread holds."""
        return self.tiles_m * self.tiles_n * self.fragment.c.register_count

    @property
    def leaves_nan(self) -> bool:
        """Whether elements of C stay NaN that rows with an Inf or a NaN take part in: no integer stands for these, and nothing computes C again."""
        return self.scheme.family.exact and self.special != "exact"

    @property
    def combines_sums(self) -> bool:
        """Whether the accumulators are added up before the output asks for them."""
        return self.design.has(COMBINED_SUMS) or self.tile_steps > 0

    @property
    def pairs_under_way(self) -> int:
        """Pairs of neighbours in C that a thread reads while it stores as many others: fewer where its sums take most registers, and
        1, none ahead, where they leave no register."""
        combined = self.split_k > 1 or self.combines_sums or self.compensates
        held = self.elements * (1 if combined else len(self.scheme.family.recombination.steps))
        return 8 if held <= 64 else 4 if held <= 160 else 1

    @property
    def fetches_c(self) -> bool:
        """Whether who copies stages has a tile of C brought to L2, too. Of slices only one reads C, and of a batch of many sizes `beta` is known late."""
        return self.output.vectors and self.split_k == 1 and self.block[1] % 4 == 0 and (self.strided or not self.batch)

    @property
    def line_rows(self) -> int:
        """Rows of C that a warp brings out at a time where rows go through shared memory: half a fragment's."""
        return max(1, self.fragment.shape[0] // 2)

    @property
    def line_pitch(self) -> int:
        """Floats from one of these rows to the next: padded, so that lanes of neighbouring rows meet different banks."""
        return self.warp[1] + 4

    @property
    def operands(self) -> tuple[Operand, Operand]:
        return (
            Operand("a", "m", self.layout[0] == "n", self.block[0]),
            Operand("b", "n", self.layout[1] == "t", self.block[1]),
        )

    # ---- accumulators, and what a stage of the main loop is

    @property
    def stage_accumulators(self) -> tuple[Accumulator, ...]:
        """What the products of a stage are summed in: of residues those of one modulus after the other, in the same registers."""
        return self.scheme.family.of_stage(self.scheme.accumulators)

    @property
    def stage_products(self) -> tuple[Product, ...]:
        """The products of the words of a stage."""
        return self.scheme.family.of_stage(self.scheme.products)

    def stage_bytes(self, operand: Operand) -> int:
        """The words of an operand in a stage: all, but of residues one."""
        return self.packed_tile_bytes(operand) if self.scheme.family.residues else self.packed_stage_bytes(operand)

    def promotes(self, accumulator: Accumulator) -> bool:
        return self.promote > 0 and accumulator.promoted

    @property
    def compensates(self) -> bool:
        """Whether only the leading bits of a sum leave the unit, and the rest stays there."""
        return self.sums == "compensated"

    @property
    def mean_cut(self) -> float:
        """What a compensated sum is given back in the end, relative to itself: what the unit's truncation took on average."""
        promoted = [acc for acc in self.scheme.accumulators if self.promotes(acc)] if self.compensates else []
        return mean_cut(self.scheme, self.unit, promoted[0], self.promote) if promoted else 0.0

    @property
    def promotes_at_once(self) -> bool:
        """Whether every instruction along k starts from zero and its sum moves over at
        once: then the unit's accumulator lives for a moment and needs no array."""
        return self.promote == self.fragment.shape[2] and not self.compensates

    @property
    def promote_steps(self) -> int:
        """Instructions along k between promotions, where promotion falls inside a stage; else 0."""
        least = self.fragment.shape[2] + self.design.has(PROMOTES_AT_ONCE)  # where it does, each instruction's sum moves over by itself
        inside = least <= self.promote < self.warp_stage_k
        return self.promote // self.fragment.shape[2] if inside else 0

    @property
    def promote_stages(self) -> int:
        """Stages between promotions, where promotion falls on a stage's end; else 0."""
        outside = self.promote >= self.warp_stage_k and not (self.promotes_at_once and self.design.has(PROMOTES_AT_ONCE))
        return self.promote // self.warp_stage_k if outside else 0

    @property
    def promote_label(self) -> str:
        """The interval, and whether it is the scheme's own."""
        own = {"fragment": self.fragment.shape[2], "never": 0}[self.scheme.own_promote]
        text = f"every {self.promote} k" if self.promote else "never"
        return f"{text} ({self.scheme.name}'s own)" if self.promote == own else (
            f"{text} ({self.scheme.name}'s own: {f'every {own} k' if own else 'never'})"
        )

    @property
    def promote_chunks(self) -> int:
        """Parts of a stage that are summed from zero each, in the specialised design; 1 where promotion falls on its end."""
        return max(1, self.block[2] // self.promote) if self.promote else 1

    # ---- tiles that come through registers

    @property
    def chunk_elements(self) -> int:
        """Elements of k that one 16-byte chunk of words holds, of the smallest words."""
        return COPY_BYTES // min(word_bytes(kind) for kind in self.scheme.types)

    def parts(self, operand: Operand) -> int:
        """Loads of one tile that a thread holds (G29, G30): 16 bytes of words or of FP32, or a chunk's FP32 elements."""
        return self.numbers[f"{operand.name}_parts"]

    @property
    def all_parts(self) -> int:
        return sum(map(self.parts, self.operands))

    @property
    def places_a_step(self) -> int:
        """Places between a step's matrix instructions where a load may stand: one a row of fragments and product, or and all of a tile's."""
        if self.tile_steps == 1:
            return self.tiles_m
        at_once = {acc.name for acc in self.stage_accumulators if self.promotes(acc) and self.promotes_at_once}
        rest = sum(product.into not in at_once for product in self.stage_products)
        return self.tiles_m * (len(at_once) + rest)

    @property
    def places_to_spread(self) -> int:
        """Places of a stage that get loads: its first half, so that they arrive while the other half is
        multiplied. With two fragment buffers the last step comes after the tile is put away."""
        steps = self.k_steps - (self.fragment_buffers == 2)
        return max(1, steps * self.places_a_step // 2)

    # ---- shared memory: [stage][a words, b words][outer][k], swizzled in 16-byte chunks; FP32 where it is split behind it

    @property
    def row_chunks(self) -> int:
        """16-byte chunks of words in one row of a tile."""
        return self.leading_rows.chunks

    @property
    def step_chunks(self) -> int:
        """16-byte chunks of a row that one instruction takes."""
        return self.leading_rows.step_chunks

    @property
    def swizzle_rows(self) -> int:
        """Rows of a tile that share one line of banks."""
        return self.leading_rows.swizzle_rows

    @property
    def swizzle_mask(self) -> int:
        return self.leading_rows.swizzle_mask

    @cached_property
    def rows_of(self) -> dict[str, Rows]:
        """How the words of each type lie, the leading ones' first: of the others the instruction that covers the same of C."""
        def covering(word: str) -> Fragment:
            m, n, _ = self.fragment.shape
            known = [row for row in candidates(self.fragment.vendor, word, self.fragment.policy) if row.runs_on(self.arch) and row.shape[0] == m]
            row = max(known, key=lambda one: (one.shape[2], -one.shape[1]))
            return row.wide(n // row.shape[1])

        return {
            word: Rows(self.fragment if word == self.scheme.leading else covering(word), "" if word == self.scheme.leading else f"_{word}",
                       self.block[2], self.line_chunks)
            for word in self.scheme.types
        }

    @property
    def leading_rows(self) -> Rows:
        """Of the leading words."""
        return self.rows_of[self.scheme.leading]

    @property
    def line_chunks(self) -> int:
        """16-byte chunks that shared memory serves at once, one of each of as many lanes."""
        return self.gpu.limits.shared_banks * 4 // COPY_BYTES

    @property
    def padding(self) -> int:
        """Bytes after each row of words, where rows cannot be swizzled."""
        return 0 if self.where == "register" else self.numbers.get("padding", 0)

    @property
    def padded(self) -> bool:
        """Whether 16 bytes follow every line of banks, and chunks stay in order."""
        return self.rows == "padded"

    @property
    def row_pitch(self) -> int:
        """Bytes from one row of words to the next, on average where several rows share a line of banks."""
        return self.row_bytes + int(self.numbers.get("row_padding", 0))

    def row_at(self, row: str) -> str:
        """Where a row of a stage begins, as C."""
        return f"row_at({row})" if self.padded else f"({row}) * ROW_BYTES" if " " in row else f"{row} * ROW_BYTES"

    @property
    def sums_in_shared(self) -> bool:
        """Whether the sums lie in shared memory from one step to the next."""
        return self.fragment_caching == "none"

    @property
    def fetches_each(self) -> bool:
        """Whether every product fetches its operands' fragments again."""
        return self.fragment_caching != "all"

    @property
    def fragment_sets(self) -> int:
        """Steps whose fragments a warp holds at a time."""
        return max(self.fragment_buffers, self.piece_steps)

    @property
    def run(self) -> int:
        """Consecutive k of a row that a lane splits for one step."""
        return self.fragment.run

    @property
    def run_swizzle(self) -> Swizzle:
        """Of FP32 tiles that lie [outer][k]: a phase's lanes, each in a row of its own or four to a row, read `run` k each."""
        chunks = self.block[2] * 4 // COPY_BYTES
        line = max(1, self.line_chunks // chunks)
        if not self.fragment.interface.lanes_along_k:
            return Swizzle(line, min(chunks, self.line_chunks) - 1, 1)
        stride = self.run * 4 * 4 // COPY_BYTES
        return Swizzle(line, max(1, 8 // stride // line) - 1, stride)

    def strided_swizzle(self, operand: Operand) -> Swizzle:
        """Of FP32 tiles that lie [k][outer]: a phase's lanes, as many as there are banks, read one float each: neighbours of as
        many k as it takes. Where a row is no whole number of lines of 64 banks, two lanes meet in some."""
        if not self.fragment.on_matrix_unit:  # lanes side by side read side by side, the others the same
            return Swizzle(1, 0, 1)
        neighbours = self.fragment.rows_together
        banks = self.gpu.limits.shared_banks if operand.tile % self.gpu.limits.shared_banks == 0 else 32
        return Swizzle(self.run, max(1, banks // neighbours) - 1, neighbours // 4)

    def copying(self, operand: Operand) -> Copying:
        """Of an operand's FP32 tile: whole rows along k, lines of 128 bytes along m or n."""
        rows, columns = operand.tile, self.block[2]
        across = columns // 4
        if not operand.k_contiguous:
            rows, columns, across = columns, rows, 8
        return Copying(rows, columns, across, self.threads // across)

    @property
    def static_shared(self) -> bool:
        """Whether the kernel declares its shared memory with its size, which a compiler then counts; CUDA allows no more than 48 KiB so."""
        return self.gpu.maker.static_shared

    @property
    def row_bytes(self) -> int:
        """One row of a tile of words, of the leading ones' type."""
        return self.leading_rows.bytes

    @property
    def split_before(self) -> tuple[Operand, ...]:
        """The operands that a pass before the main kernel splits."""
        a, b = self.operands
        return {"prepass": (a, b), "mixed": (b,)}.get(self.where, ())

    @property
    def unit(self) -> MatrixUnit:
        """The GPU's matrix unit as it sums these words by these instructions."""
        return self.gpu.unit.of(self.scheme.leading, self.fragment.policy)

    @property
    def flushes_words(self) -> bool:
        """Whether what multiplies takes subnormal words for zero."""
        return self.fragment.on_matrix_unit and bool(self.gpu.unit.flushes_subnormals) and not self.scheme.family.exact

    @property
    def flushing_archs(self) -> tuple[str, ...]:
        """The architectures that run this plan's matrix instruction and take subnormal words for zero, this plan's own among them."""
        if not self.fragment.on_matrix_unit or self.scheme.family.exact:
            return ()
        archs = {gpu.arch for gpu in GPUS.rows() if gpu.arch in (self.fragment.archs or ()) and gpu.unit.flushes_subnormals}
        return tuple(sorted(archs | ({self.arch} if self.flushes_words else set())))

    @property
    def takes_maxima(self) -> bool:
        """Whether rows and columns have powers of two by their largest elements."""
        return self.scheme.family.takes_maxima

    @property
    def keeps_row_scales(self) -> bool:
        """Whether a thread reads the scales of its rows once, into registers, and not for each element."""
        return self.takes_maxima and self.tiles_m * self._rows_of_registers <= MOST_SCALES

    @property
    def keeps_column_scales(self) -> bool:
        """The same of its columns."""
        columns = self.fragment.c.register_count // self._rows_of_registers
        return self.takes_maxima and self.tiles_n * columns <= MOST_SCALES

    @property
    def _rows_of_registers(self) -> int:
        """Over how many rows a thread's registers of one fragment go."""
        return 1 << self.fragment.c.row_bits.bit_count()

    @property
    def takes_operands(self) -> bool:
        """Whether the main kernel reads A and B themselves."""
        return self.where != "prepass" or self.special == "exact"

    # ---- the packed words of the split kernel

    def packed_tile_bytes(self, operand: Operand) -> int:
        """One word of one operand's tile in the workspace, where all have one type."""
        return operand.tile * self.block[2] * self.scheme.word_bytes

    def packed_stage_bytes(self, operand: Operand) -> int:
        """All words of it."""
        return self.word_place(operand, len(self.words_of(operand.name)))

    def word_place(self, operand: Operand, index: int) -> int:
        """Where word `index` of an operand's tile begins, in the workspace and in a stage."""
        return operand.tile * self.block[2] * sum(word.bytes for word in self.words_of(operand.name)[:index])

    def stage_scales(self, operand: Operand) -> int:
        """Scales of one operand's stage, one for each row and tile of k: [k / tile_k][outer] in FP32; 0 where no tile has its own."""
        return self.scheme.family.scales(operand.tile, self.block[2])

    def scale_parts(self, operand: Operand) -> int:
        """Loads of 16 bytes that a thread makes of them, where tiles come through registers."""
        return -(-self.stage_scales(operand) // (4 * self.threads))

    @property
    def tile_steps(self) -> int:
        """Instructions along k whose sums share their scales; 0 where no tile has its own."""
        return self.scheme.family.tile_steps(self.fragment.shape[2])

    def words_of(self, operand: str) -> tuple[Word, ...]:
        """The words that operand `a` or `b` is packed into: all, or no more than products read."""
        return self.scheme.words_of(operand, packed_alike=not self.design.has(PACKS_APART))

    def words_name(self, operand: Operand | str) -> str:
        """What the text calls the number of words of an operand."""
        of_a, of_b = (len(self.words_of(name)) for name in "ab")
        return "WORDS" if of_a == of_b else f"WORDS_{getattr(operand, 'name', operand).upper()}"

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain data, for `--json`."""
        return {
            **{key: value for key, value in self.identity.items() if key not in ("scheme", "fragment", "gpu", "fallback")}, "design": self.design.name,
            "scheme": self.scheme.name,
            "fragment": self.fragment.name,
            "gpu": self.gpu.name,
            "threads": self.threads,
            "shared_bytes": self.shared_bytes,
            "hash": self.hash,
            "hints": {"m": self.hints.m, "n": self.hints.n, "k": self.hints.k},
            **({"asked": list(self.asked)} if self.asked else {}), **({"fallback": self.fallback.as_dict()} if self.fallback else {}),
        }


def _fields() -> list[tuple[Any, ...]]:
    """The fields of Plan: what was asked, the decisions as they are declared, what the model predicts."""
    decisions = [(one, tuple[int, int, int] if one.is_tile else str if one.words else int) for one in all_decisions()]
    return [
        ("layout", str), ("scheme", Scheme), ("fragment", Fragment), ("gpu", Gpu), ("special", str), ("allow_spills", bool), ("hints", Hints),
        *((one.name, kind) for one, kind in decisions if one.neutral is None),
        *((one.name, kind, field(default=one.neutral)) for one, kind in decisions if one.neutral is not None),
        ("designed", str | None, field(default=None)), ("output", Output, field(default=F32)), ("epilogue", Epilogue, field(default=NONE)),
        ("batch", Batch | None, field(default=None)), ("predicted_registers", int | None, field(default=None)),
        ("asked", tuple[str, ...], field(default=())), ("fallback", Any, field(default=None)), ("flagged", tuple[int, int] | None, field(default=None)),
    ]


Plan = make_dataclass("Plan", _fields(), bases=(_Facts,), frozen=True)
Plan.__module__ = __name__
Plan.__doc__ = """Everything decided.

Attributes:
    layout: nn, nt, tn or tt, row major.
    scheme, fragment, gpu: the catalog rows.
    special: `exact` or `fast`.
    allow_spills: whether spilling fails the build.
    hints: sizes the plan was made for; not part of its identity.
    designed: the design's name; None for the fragment's usual one.
    output: the type of C.
    epilogue: what becomes of an element of C before it is stored.
    batch: of a kernel for many products, what it knows of them; None for one product.
    predicted_registers: per thread, or None where no model says.
    asked: the spec's own objective and inequalities, in words; not part of its identity.
    fallback: the plan of the kernel that computes the tiles of C that this one leaves; None where it leaves none.
    flagged: of such a one, the tile of C that its plan's kernel leaves as a whole; None elsewhere.
""" + "".join(f"    {one.name}: {one.description}.\n" for one in all_decisions())
