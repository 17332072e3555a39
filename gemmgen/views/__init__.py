"""Views of a plan: numbers that follow from its decisions, by what they are about.

All arithmetic happens here and in `gemmgen.plan`; templates loop and substitute.
"""

from __future__ import annotations

from functools import cached_property
from math import ceil, log2

from gemmgen.batch import Tile
from gemmgen.catalog.fragment import Fragment, candidates
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.input import Input, input_of
from gemmgen.catalog.number import word_bytes
from gemmgen.catalog.scheme import Accumulator, Product
from gemmgen.designs.feature import COMBINED_SUMS, PROMOTES_AT_ONCE, PROMOTES_TO_THE_END
from gemmgen.designs.portable.design import PIECES
from gemmgen.model.error import mean_cut
from gemmgen.views.memory import COPY_BYTES, Copying, Operand, Rows, Swizzle, View

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
RESIDUE_FLOATS = 32  # that a thread of a pass of residues keeps in shared memory at most: with 64 columns of a cluster had to be 16, and it was slower
LEAST_FLOATS = 16  # of a thread that splits into residues: what one store of 16 bytes takes
WHOLE_SKEW = 8  # bytes for each of these floats: 16 lie free after every 16 k of a block, so that threads which read along k touch different banks
WHOLE_STATIC = 4096  # bytes, more than sums and factors take besides
MOST_SCALES = 16  # of rows, and of columns, that a thread keeps in registers while it stores its elements
RESIDUE_BLOCKS = 3  # of the split kernel that an SM holds at once where words are residues: the compiler is told how few registers that leaves
GIVEN_BLOCKS = 3  # the same of one that asks a kind for each element, or scales rows of three words and turns both operands: by itself ptxas takes 40 to 64
# registers, and spills up to 40 B for sm_100a and 24 B for sm_87 (13.5)
WHOLE_K = 1 << 30
RUN_FLOATS = 32  # of a thread that holds its part of a run of k while the largest element is found, where k is not contiguous


def _power_of_two(least: float) -> int:
    """The smallest power of two that is at least so much, from 1 on."""
    return 1 << max(0, ceil(log2(max(1.0, least))))


class Geometry(View):
    """The tile of a thread block: how it is divided among warps, fragments and elements."""

    @property
    def accumulator_sets(self) -> int:
        """Arrays of [warp m, warp n] FP32 values a warp keeps."""
        return self.plan.numbers["accumulators"]

    @property
    def unrolls_steps(self) -> bool:
        """Whether the steps of a stage are unrolled (G24)."""
        return bool(self.plan.numbers["unrolled"])

    @property
    def warps_m(self) -> int:
        return self.plan.block[0] // self.plan.warp[0]

    @property
    def warps_n(self) -> int:
        return self.plan.block[1] // self.plan.warp[1]

    @property
    def warps_k(self) -> int:
        """Warps that share a part of the tile, each with its own part of every stage's k."""
        return self.plan.block[2] // self.warp_stage_k

    @property
    def warp_stage_k(self) -> int:
        """k of a stage that is a warp's."""
        return self.plan.block[2] if self.plan.design.has(PIECES) else self.plan.warp[2]

    @property
    def piece_steps(self) -> int:
        """Instructions along k whose fragments a warp fetches together, where it takes a stage in pieces; else 0."""
        return self.plan.warp[2] // self.plan.fragment.shape[2] if self.plan.warp[2] < self.warp_stage_k else 0

    @property
    def tiles_m(self) -> int:
        """Fragments a warp holds along m."""
        return self.plan.warp[0] // self.plan.fragment.shape[0]

    @property
    def tiles_n(self) -> int:
        return self.plan.warp[1] // self.plan.fragment.shape[1]

    @property
    def k_steps(self) -> int:
        """Instructions along k in one stage."""
        return self.warp_stage_k // self.plan.fragment.shape[2]

    @property
    def elements(self) -> int:
        """FP32 values of one accumulator set that a thread holds."""
        return self.tiles_m * self.tiles_n * self.plan.fragment.c.register_count

    @property
    def leaves_nan(self) -> bool:
        """Whether elements of C stay NaN that rows with an Inf or a NaN take part in: no integer stands for these, and nothing computes C again."""
        return self.plan.scheme.family.exact and self.plan.special != "exact"

    @property
    def combines_sums(self) -> bool:
        """Whether the accumulators are added up before the output asks for them."""
        return self.plan.design.has(COMBINED_SUMS) or self.plan.packing.tile_steps > 0

    @property
    def pairs_under_way(self) -> int:
        """Pairs of neighbours in C that a thread reads while it stores as many: few where its sums take most registers, 1, none ahead, where they take all."""
        combined = self.plan.split_k > 1 or self.combines_sums or self.plan.promotion.one_sum
        held = self.elements * (1 if combined else len(self.plan.scheme.family.recombination.steps))
        return 8 if held <= 64 else 4 if held <= 160 else 1

    @property
    def fetches_c(self) -> bool:
        """Whether who copies stages has a tile of C brought to L2, too. Of slices only one reads C, and of a batch of many sizes `beta` is known late."""
        return self.plan.output.vectors and self.plan.split_k == 1 and self.plan.block[1] % 4 == 0 and (self.plan.launches.repeated or not self.plan.batch)

    @property
    def line_rows(self) -> int:
        """Rows of C that a warp brings out at a time where rows go through shared memory: half a fragment's."""
        return max(1, self.plan.fragment.shape[0] // 2)

    @property
    def line_pitch(self) -> int:
        """Floats from one of these rows to the next: padded, so that lanes of neighbouring rows meet different banks."""
        return self.plan.warp[1] + 4

    @property
    def sums_in_shared(self) -> bool:
        """Whether the sums lie in shared memory from one step to the next."""
        return self.plan.fragment_caching == "none"

    @property
    def fetches_each(self) -> bool:
        """Whether every product fetches its operands' fragments again."""
        return self.plan.fragment_caching != "all"

    @property
    def fragment_sets(self) -> int:
        """Steps whose fragments a warp holds at a time."""
        return max(self.plan.fragment_buffers, self.piece_steps)

    @property
    def static_shared(self) -> bool:
        """Whether the kernel declares its shared memory with its size, which a compiler then counts; CUDA allows no more than 48 KiB so."""
        return self.plan.gpu.maker.static_shared


class Launches(View):
    """What a plan's launches compute, and what runs before the main kernel."""

    @property
    def repeated(self) -> bool:
        """Whether the schedule's formulas go through a batch of products of one size; not where products are looked up."""
        of_one_size = self.plan.kind.batched and self.plan.kind.uniform
        return of_one_size and not self.plan.batch.tiles and not self.plan.design.lists

    @property
    def of_products(self) -> bool:
        """Whether a launch takes many products, each told by itself (`gemmgen.run.batch`)."""
        return bool(self.plan.batch) and not self.repeated

    @property
    def packs_products(self) -> bool:
        """Whether a pass packs the words of many such products before the main kernel."""
        return self.of_products and bool(self.split_before)

    @property
    def finds_norms(self) -> bool:
        """Whether a launch before the split pass finds the norms of rows and columns."""
        return bool(self.plan.scheme.family.residues) and not self.splits_whole

    @property
    def batch_tiles(self) -> tuple[Tile, ...]:
        """The tiles that a product of a batch may get, the smallest first."""
        return self.plan.batch.tiles or (Tile(*self.plan.block, self.plan.threads, self.plan.warp[:2]),)

    @property
    def splits_runs(self) -> bool:
        """Whether a thread of the split kernel takes several rows or columns, as of a batch; not where it asks a kind for each element."""
        return bool(self.plan.batch) and not self.plan.kind.given and not self.plan.scheme.family.residues

    @property
    def split_tile(self) -> tuple[int, int]:
        """Rows of A or columns of B, and their k, that one block of the split kernel takes."""
        outer, k = (SPLIT_TILE_OUTER * SPLIT_RUNS // 2, SPLIT_TILE_K * 2) if self.splits_runs else (SPLIT_TILE_OUTER, SPLIT_TILE_K)
        k = k * self.split_elements // SPLIT_ELEMENTS
        return (outer // 2, 2 * k) if self.plan.scheme.family.wide else (outer, k)

    @property
    def splits_whole(self) -> bool:
        """Whether one launch finds the maxima of rows and columns and splits them, and not one after another; none that also tells which rows stand out."""
        residues = bool(self.plan.scheme.family.residues)
        plain = not self.plan.fallback and (residues or not self.plan.batch and not self.plan.kind.packs)
        return plain and self.plan.design.splits_whole(self.plan.scheme, self.plan.gpu, self.plan.hints)

    @property
    def whole_rows(self) -> int:
        """Rows of A or columns of B that a block of that launch takes where k is contiguous. Of residues a row has as few threads as hold the k that the plan
        is made for, but whole warps."""
        if not self.plan.scheme.family.residues:
            return WHOLE_ROWS
        return max(1, SPLIT_THREADS // max(self.plan.lanes, _power_of_two(self.plan.hints.k / self.whole_floats)))

    def whole_taken(self, operand: Operand) -> int:
        """Rows of A or columns of B that the blocks of a cluster take together in that launch."""
        return self.whole_rows * self.whole_cluster if operand.k_contiguous else WHOLE_COLUMNS

    @property
    def whole_floats(self) -> int:
        """What a thread of a pass of residues keeps in shared memory: enough for a warp to hold a row of the k that the plan is made for, but so little that an
        SM has room for two blocks."""
        limits = self.plan.gpu.limits
        half = limits.shared_bytes_per_sm // 2 - limits.shared_bytes_reserved_per_block - WHOLE_STATIC
        room = min(half, limits.shared_bytes_per_block) // (SPLIT_THREADS * 4 + WHOLE_SKEW)
        most = min(RESIDUE_FLOATS, _power_of_two(room // 2 + 1))
        return max(LEAST_FLOATS, min(most, _power_of_two(self.plan.hints.k / self.plan.lanes)))

    @property
    def whole_shared(self) -> int:
        """Bytes of shared memory that those take."""
        return self.whole_floats * (SPLIT_THREADS * 4 + WHOLE_SKEW)

    @property
    def whole_cluster(self) -> int:
        """Blocks of a cluster in that launch: several where an operand's k is not contiguous, so that they share its columns. Of residues as many as hold
        the k that the plan is made for, where the GPU has clusters."""
        if all(operand.k_contiguous for operand in self.split_before):
            return 1
        if not self.plan.scheme.family.residues:
            return WHOLE_CLUSTER
        if "cluster" not in self.plan.design.symbols:
            return 1
        return min(WHOLE_CLUSTER, _power_of_two(self.plan.hints.k * WHOLE_COLUMNS / (SPLIT_THREADS * self.whole_floats)))

    @property
    def whole_shape(self) -> str | tuple[int, ...]:
        """What of that launch plans of one scheme may differ in."""
        return (self.whole_rows, self.whole_floats, self.whole_cluster) if self.plan.scheme.family.residues else "whole"

    @property
    def split_elements(self) -> int:
        """Consecutive k that a thread of the split kernel splits: a 16-byte store a word, or two."""
        return max(SPLIT_ELEMENTS, self.plan.staging.chunk_elements)

    @property
    def most_blocks(self) -> int | None:
        """Blocks that a launch needs at most, where they stay and work off tiles."""
        return self.plan.numbers["blocks_at_once"] if self.plan.design.stays else None

    def run_outer(self, operand: Operand) -> int:
        """Rows of A or columns of B of whose runs of k a block of the split kernel takes one each: one a warp where k is contiguous; else as many as its
        threads hold, so that neighbours are read together."""
        run = self.plan.scheme.family.run_k
        return SPLIT_THREADS // self.plan.lanes if operand.k_contiguous else SPLIT_THREADS * RUN_FLOATS // run

    @property
    def absmax_outer(self) -> int:
        """Rows of A or columns of B that one block of the maxima's kernel takes: one a lane."""
        return self.plan.lanes

    @property
    def packed(self) -> tuple[Operand, ...]:
        """The operands whose words the main kernel finds packed."""
        a, b = self.plan.operands
        return {"prepass": (a, b), "mixed": (b,)}.get(self.plan.where, ())

    @property
    def shares_words(self) -> bool:
        """Whether A's words are B's, too: of a kind of one operand, where rows of A and columns of B are packed alike."""
        alike = self.plan.block[0] == self.plan.block[1] and self.plan.words_of("a") == self.plan.words_of("b")
        return self.plan.kind.shares_words and self.plan.where == "prepass" and alike

    @property
    def split_before(self) -> tuple[Operand, ...]:
        """The operands that a pass before the main kernel splits."""
        return self.packed[:1] if self.shares_words else self.packed

    @property
    def flushes_words(self) -> bool:
        """Whether what multiplies takes subnormal words for zero."""
        return self.plan.fragment.on_matrix_unit and bool(self.plan.gpu.unit.flushes_subnormals) and not self.plan.scheme.family.exact

    @property
    def flushing_archs(self) -> tuple[str, ...]:
        """The architectures that run this plan's matrix instruction and take subnormal words for zero, this plan's own among them."""
        if not self.plan.fragment.on_matrix_unit or self.plan.scheme.family.exact:
            return ()
        archs = {gpu.arch for gpu in GPUS.rows() if gpu.arch in (self.plan.fragment.archs or ()) and gpu.unit.flushes_subnormals}
        return tuple(sorted(archs | ({self.plan.arch} if self.flushes_words else set())))

    @property
    def takes_operands(self) -> bool:
        """Whether the main kernel reads A and B themselves."""
        return self.plan.where != "prepass" or self.plan.special == "exact"


class Inputs(View):
    """What a call gives: the elements of A and B, and the vectors of an epilogue."""

    @property
    def stored_b(self) -> Input:
        """The type of B's elements: what the scheme takes."""
        return input_of(self.plan.type, self.plan.scheme.b)

    @property
    def vectors(self) -> list[str]:
        """The vectors that the epilogue is given, by their names."""
        return [one.name for one in self.plan.epilogue.arguments if one.is_vector]

    def elements_of(self, operand: str) -> str:
        """The C type of an element of operand `a` or `b` as it is given."""
        return self.stored_b.element if operand == "b" else self.plan.type.c_type

    def element(self, operand: str, at: str, o: str = "", kk: str = "") -> str:
        """The FP32 value of element `at` of operand `a` or `b`, as C; of one of which a triangle is read, at row or column `o` and `kk`."""
        if operand in self.plan.kind.given:
            return f"given_{operand}({operand}, ld{operand}, {o}, {kk})"
        one = f"{operand}[{at}]"
        return self.stored_b.widen.format(x=one) if operand == "b" else one


class Promotion(View):
    """The accumulators of a stage, and when their sums move out of the matrix unit."""

    @property
    def stage_accumulators(self) -> tuple[Accumulator, ...]:
        """What the products of a stage are summed in: of residues those of one modulus after the other, in the same registers."""
        return self.plan.scheme.family.of_stage(self.plan.scheme.accumulators)

    @property
    def stage_products(self) -> tuple[Product, ...]:
        """The products of the words of a stage."""
        return self.plan.scheme.family.of_stage(self.plan.scheme.products)

    def promotes(self, accumulator: Accumulator) -> bool:
        return self.plan.promote > 0 and accumulator.promoted

    @property
    def compensates(self) -> bool:
        """Whether only the leading bits of a sum leave the unit, and the rest stays there."""
        return self.plan.sums == "compensated"

    @property
    def one_sum(self) -> bool:
        """Whether the main loop ends with all sums in the registers of the promoted one."""
        return self.compensates or bool(self.plan.scheme.family.run_k)

    @property
    def run_stages(self) -> int:
        """Stages of a run of k that has scales of its own; 0 where none has."""
        return (self.plan.scheme.family.run_k or 0) // self.plan.block[2]

    @property
    def mean_cut(self) -> float:
        """What a compensated sum is given back in the end, relative to itself: what the unit's truncation took on average."""
        promoted = [acc for acc in self.plan.scheme.accumulators if self.promotes(acc)] if self.compensates else []
        return mean_cut(self.plan.scheme, self.plan.unit, promoted[0], self.plan.promote) if promoted else 0.0

    @property
    def promotes_at_once(self) -> bool:
        """Whether every instruction along k starts from zero and its sum moves over at once: then the unit's accumulator needs no array."""
        return self.plan.promote == self.plan.fragment.shape[2] and not self.compensates

    @property
    def to_the_end(self) -> bool:
        """Whether an interval that k ends short of is promoted, too."""
        return self.plan.design.has(PROMOTES_TO_THE_END)

    @property
    def promote_steps(self) -> int:
        """Instructions along k between promotions, where promotion falls inside a stage; else 0."""
        least = self.plan.fragment.shape[2] + self.plan.design.has(PROMOTES_AT_ONCE)  # where it does, each instruction's sum moves over by itself
        inside = least <= self.plan.promote < self.plan.geometry.warp_stage_k
        return self.plan.promote // self.plan.fragment.shape[2] if inside else 0

    @property
    def promote_stages(self) -> int:
        """Stages between promotions, where promotion falls on a stage's end; else 0."""
        outside = self.plan.promote >= self.plan.geometry.warp_stage_k and not (self.promotes_at_once and self.plan.design.has(PROMOTES_AT_ONCE))
        return self.plan.promote // self.plan.geometry.warp_stage_k if outside else 0

    @property
    def promote_label(self) -> str:
        """The interval, and whether it is the scheme's own."""
        own = {"fragment": self.plan.fragment.shape[2], "never": 0}[self.plan.scheme.own_promote]
        text = f"every {self.plan.promote} k" if self.plan.promote else "never"
        return f"{text} ({self.plan.scheme.name}'s own)" if self.plan.promote == own else (
            f"{text} ({self.plan.scheme.name}'s own: {f'every {own} k' if own else 'never'})"
        )

    @property
    def promote_chunks(self) -> int:
        """Parts of a stage that are summed from zero each, in the specialised design; 1 where promotion falls on its end."""
        return max(1, self.plan.block[2] // self.plan.promote) if self.plan.promote else 1


class Staging(View):
    """How tiles come to shared memory, and how they lie there."""

    @property
    def chunk_elements(self) -> int:
        """Elements of k that one 16-byte chunk of words holds, of the smallest words."""
        return COPY_BYTES // min(word_bytes(kind) for kind in self.plan.scheme.types)

    def parts(self, operand: Operand) -> int:
        """Loads of one tile that a thread holds (G29, G30): 16 bytes of words or of FP32, or a chunk's FP32 elements."""
        return self.plan.numbers[f"{operand.name}_parts"]

    @property
    def all_parts(self) -> int:
        return sum(map(self.parts, self.plan.operands))

    @property
    def places_a_step(self) -> int:
        """Places between a step's matrix instructions where a load may stand: one a row of fragments and product, or and all of a tile's."""
        if self.plan.packing.tile_steps == 1:
            return self.plan.geometry.tiles_m
        at_once = {acc.name for acc in self.plan.promotion.stage_accumulators if self.plan.promotion.promotes(acc) and self.plan.promotion.promotes_at_once}
        rest = sum(product.into not in at_once for product in self.plan.promotion.stage_products)
        return self.plan.geometry.tiles_m * (len(at_once) + rest)

    @property
    def places_to_spread(self) -> int:
        """Places of a stage that get loads: its first half, so that they arrive while the other half is
        multiplied. With two fragment buffers the last step comes after the tile is put away."""
        steps = self.plan.geometry.k_steps - (self.plan.fragment_buffers == 2)
        return max(1, steps * self.places_a_step // 2)

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
            m, n, _ = self.plan.fragment.shape
            known = [row for row in candidates(self.plan.fragment.vendor, word, self.plan.fragment.policy) if row.runs_on(self.plan.arch) and row.shape[0] == m]
            row = max(known, key=lambda one: (one.shape[2], -one.shape[1]))
            return row.wide(n // row.shape[1])

        return {
            word: Rows(self.plan.fragment if word == self.plan.scheme.leading else covering(word), "" if word == self.plan.scheme.leading else f"_{word}",
                       self.plan.block[2], self.line_chunks)
            for word in self.plan.scheme.types
        }

    @property
    def leading_rows(self) -> Rows:
        """Of the leading words."""
        return self.rows_of[self.plan.scheme.leading]

    @property
    def line_chunks(self) -> int:
        """16-byte chunks that shared memory serves at once, one of each of as many lanes."""
        return self.plan.gpu.limits.shared_banks * 4 // COPY_BYTES

    @property
    def padding(self) -> int:
        """Bytes after each row of words, where rows cannot be swizzled."""
        return 0 if self.plan.where == "register" else self.plan.numbers.get("padding", 0)

    @property
    def padded(self) -> bool:
        """Whether 16 bytes follow every line of banks, and chunks stay in order."""
        return self.plan.rows == "padded"

    @property
    def row_pitch(self) -> int:
        """Bytes from one row of words to the next, on average where several rows share a line of banks."""
        return self.row_bytes + int(self.plan.numbers.get("row_padding", 0))

    def row_at(self, row: str) -> str:
        """Where a row of a stage begins, as C."""
        return f"row_at({row})" if self.padded else f"({row}) * ROW_BYTES" if " " in row else f"{row} * ROW_BYTES"

    @property
    def run(self) -> int:
        """Consecutive k of a row that a lane splits for one step."""
        return self.plan.fragment.run

    @property
    def run_swizzle(self) -> Swizzle:
        """Of FP32 tiles that lie [outer][k]: a phase's lanes, each in a row of its own or four to a row, read `run` k each."""
        chunks = self.plan.block[2] * 4 // COPY_BYTES
        line = max(1, self.line_chunks // chunks)
        if not self.plan.fragment.interface.lanes_along_k:
            return Swizzle(line, min(chunks, self.line_chunks) - 1, 1)
        stride = self.run * 4 * 4 // COPY_BYTES
        return Swizzle(line, max(1, 8 // stride // line) - 1, stride)

    def strided_swizzle(self, operand: Operand) -> Swizzle:
        """Of FP32 tiles that lie [k][outer]: a phase's lanes, as many as there are banks, read one float each: neighbours of as
        many k as it takes. Where a row is no whole number of lines of 64 banks, two lanes meet in some."""
        if not self.plan.fragment.on_matrix_unit:  # lanes side by side read side by side, the others the same
            return Swizzle(1, 0, 1)
        neighbours = self.plan.fragment.rows_together
        banks = self.plan.gpu.limits.shared_banks if operand.tile % self.plan.gpu.limits.shared_banks == 0 else 32
        return Swizzle(self.run, max(1, banks // neighbours) - 1, neighbours // 4)

    def copying(self, operand: Operand) -> Copying:
        """Of an operand's FP32 tile: whole rows along k, lines of 128 bytes along m or n."""
        rows, columns = operand.tile, self.plan.block[2]
        across = columns // 4
        if not operand.k_contiguous:
            rows, columns, across = columns, rows, 8
        return Copying(rows, columns, across, self.plan.threads // across)

    @property
    def row_bytes(self) -> int:
        """One row of a tile of words, of the leading ones' type."""
        return self.leading_rows.bytes


class Packing(View):
    """The packed words of the split kernel: bytes and places, in the workspace and in a stage."""

    def stage_bytes(self, operand: Operand) -> int:
        """The words of an operand in a stage: all, but of residues one."""
        return self.packed_tile_bytes(operand) if self.plan.scheme.family.residues else self.packed_stage_bytes(operand)

    def packed_tile_bytes(self, operand: Operand) -> int:
        """One word of one operand's tile in the workspace, where all have one type."""
        return operand.tile * self.plan.block[2] * self.plan.scheme.word_bytes

    def packed_stage_bytes(self, operand: Operand) -> int:
        """All words of it."""
        return self.word_place(operand, len(self.plan.words_of(operand.name)))

    def word_place(self, operand: Operand, index: int) -> int:
        """Where word `index` of an operand's tile begins, in the workspace and in a stage."""
        return operand.tile * self.plan.block[2] * sum(word.bytes for word in self.plan.words_of(operand.name)[:index])

    def stage_scales(self, operand: Operand) -> int:
        """Scales of one operand's stage, one for each row and tile of k: [k / tile_k][outer] in FP32; 0 where no tile has its own."""
        return self.plan.scheme.family.scales(operand.tile, self.plan.block[2])

    def scale_parts(self, operand: Operand) -> int:
        """Loads of 16 bytes that a thread makes of them, where tiles come through registers."""
        return -(-self.stage_scales(operand) // (4 * self.plan.threads))

    @property
    def tile_steps(self) -> int:
        """Instructions along k whose sums share their scales; 0 where no tile has its own."""
        return self.plan.scheme.family.tile_steps(self.plan.fragment.shape[2])

    def words_name(self, operand: Operand | str) -> str:
        """What the text calls the number of words of an operand."""
        of_a, of_b = (len(self.plan.words_of(name)) for name in "ab")
        return "WORDS" if of_a == of_b else f"WORDS_{getattr(operand, 'name', operand).upper()}"


class Scales(View):
    """Powers of two of rows and columns, by their largest elements."""

    @property
    def takes_maxima(self) -> bool:
        """Whether rows and columns have powers of two by their largest elements."""
        return self.plan.scheme.family.takes_maxima

    @property
    def keeps_row_scales(self) -> bool:
        """Whether a thread reads the scales of its rows once, into registers, and not for each element."""
        return self.takes_maxima and self.plan.geometry.tiles_m * self._rows_of_registers <= MOST_SCALES

    @property
    def keeps_column_scales(self) -> bool:
        """The same of its columns."""
        columns = self.plan.fragment.c.register_count // self._rows_of_registers
        return self.takes_maxima and self.plan.geometry.tiles_n * columns <= MOST_SCALES

    @property
    def _rows_of_registers(self) -> int:
        """Over how many rows a thread's registers of one fragment go."""
        return 1 << self.plan.fragment.c.row_bits.bit_count()
