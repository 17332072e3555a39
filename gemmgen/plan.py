"""The solved Plan: every decision a kernel rests on, and every number a template reads.

All arithmetic happens here; templates loop and substitute.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import GPUS, Gpu
from gemmgen.catalog.scheme import Accumulator, Scheme

SPLIT_THREADS = 256
SPLIT_TILE_OUTER = 64  # rows of A or columns of B that one block of the split kernel takes
SPLIT_TILE_K = 32
SPLIT_ELEMENTS = 8  # k values a thread splits: one 16-byte store a word
ABSMAX_TILE_K = 256
COPY_BYTES = 16  # one cp.async
WARPGROUP = 128  # threads
PRODUCER_REGISTERS = 40  # a thread of the warpgroup that only issues copies
COUNTING_REGISTERS = 56  # the same where it also counts what words cannot hold of A
MOST_REGISTERS = 240  # a thread of a multiplying warpgroup
BARRIER_BYTES = 8
PADDING = 16  # bytes a row, for fragments that are fetched by rows of one distance
WORKSPACE_ALIGNMENT = 256
TENSOR_COLUMNS = 512  # of tensor memory, 128 lanes of 32 bits each
LEAST_COLUMNS = 32  # an allocation is a power of two
UNLOADED = 16  # columns that a thread reads of it at a time
ISSUER_REGISTERS = 80  # a thread of the warpgroup that issues copies and products
UNROLL_BELOW = 192  # registers; from there on unrolled kernels were seen to spill on sm_80
UNROLL_SHARE = 0.75  # of a thread's share of the file, where operands are split on the way to fragments, and everywhere on AMD
STATUS = {
    "a_status": ("a_lossy", "a_overflow", "a_nonfinite"),
    "b_status": ("b_lossy", "b_overflow", "b_nonfinite"),
    "repaired": ("repaired",),
}
"""What the kernels count, each an unsigned 64-bit integer, by kernel argument and in this order.

lossy: finite elements below the words' normal range, and those whose words lose more than the scheme's own remainder.
overflow: finite elements that the leading word cannot hold.
nonfinite: elements that are Inf or NaN.
repaired: elements of C computed again in FP32.
"""


def round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


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
class Hints:
    """Sizes the plan was made for; the kernel takes any."""

    m: int
    n: int
    k: int


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


@dataclass(frozen=True)
class Workspace:
    """Byte offsets into the workspace for one problem size.

    `zeroed` bytes from the start must be zero before the first kernel runs.
    """

    status: int
    a_absmax: int
    b_absmax: int
    arrived: int
    zeroed: int
    a_words: int
    b_words: int
    parts: int
    bytes: int


@dataclass(frozen=True)
class Plan:
    """Everything decided.

    Attributes:
        layout: nn, nt, tn or tt, row major.
        scheme, fragment, gpu: the catalog rows.
        where: where operands are split: `prepass`, `shared` or `register`; or `mixed`: B in a pass before,
            A between shared memory and registers.
        loads: how tiles reach shared memory: `async`; through registers, `spread` or `grouped`; or
            `bulk`, whole stages by a warpgroup of its own, in the warp-specialised skeleton.
        promote: k between promotions; 0 never.
        special: `exact` or `fast`.
        block, warp: tiles as (m, n, k).
        stages: shared-memory buffers.
        fragment_buffers: 2 when the next step's fragments are fetched while
            this one's are multiplied, else 1.
        group: block rows of C that are worked on together, for L2.
        split_k: slices of k that different blocks sum; 1 where one block sums all.
        allow_spills: whether spilling fails the build.
        cluster: blocks that lie below one another in C and share copies of B; 1 for none.
        consumers: with bulk loads, whether warpgroups are `cooperative` and divide a tile, or
            `pingpong`: each computes every second tile.
        hints: sizes the plan was made for; not part of its identity.
        predicted_registers: per thread, or None where no model says.
    """

    layout: str
    scheme: Scheme
    fragment: Fragment
    gpu: Gpu
    where: str
    loads: str
    promote: int
    special: str
    block: tuple[int, int, int]
    warp: tuple[int, int, int]
    stages: int
    fragment_buffers: int
    group: int
    split_k: int
    allow_spills: bool
    hints: Hints
    cluster: int = 1
    consumers: str = "cooperative"
    predicted_registers: int | None = None

    # ---- identity

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What two equal kernels share: the decisions, without hints or sources."""
        prose = {"source"}
        specialised = {"cluster": self.cluster, "consumers": self.consumers} if self.specialised else {}
        return {
            "layout": self.layout,
            "scheme": self.scheme.model_dump(mode="json", exclude=prose, exclude_none=True),
            "fragment": self.fragment.model_dump(mode="json", exclude=prose, exclude_none=True),
            "arch": self.arch,
            "where": self.where,
            "loads": self.loads,
            "promote": self.promote,
            "special": self.special,
            "block": self.block,
            "warp": self.warp,
            "stages": self.stages,
            "fragment_buffers": self.fragment_buffers,
            "group": self.group,
            "split_k": self.split_k,
            **specialised,
        }

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
        if self.in_tensor_memory:
            return "compiled and its resources checked; not emulated, never run"
        if self.gpu.vendor == "amd":
            executed = "every instruction executed by an interpreter, layouts checked" if self.gpu.maker.emulates(self.arch) else "not emulated"
            return f"compiled by clang, resources read from the code object, {executed}; never run on AMD hardware"
        return None

    # ---- geometry of the main kernel

    @property
    def specialised(self) -> bool:
        """Whether one warpgroup only copies and the others only multiply."""
        return self.loads == "bulk"

    @property
    def threads(self) -> int:
        if self.specialised:
            return (self.multiplying_groups + 1) * WARPGROUP
        return self.warps_m * self.warps_n * self.lanes

    @property
    def lanes(self) -> int:
        """Threads of a warp; of AMD a wavefront."""
        return self.gpu.limits.warp_size

    @property
    def absmax_outer(self) -> int:
        """Rows of A or columns of B that one block of the maxima's kernel takes: one a lane."""
        return self.lanes

    @property
    def multiplying_groups(self) -> int:
        """Warpgroups that multiply."""
        return self.warps_m * self.warps_n * (2 if self.consumers == "pingpong" else 1)

    @property
    def releases(self) -> int:
        """Arrivals that free a stage: every warp that reads it, in every block that fills it; every lane where lanes read A."""
        lanes = 32 if self.where == "mixed" else 1
        return lanes * self.warps_m * self.warps_n * (WARPGROUP // 32) * self.cluster

    # ---- tensor memory: [sums that stay][buffer][sums that promotion empties], each block n columns wide

    @property
    def in_tensor_memory(self) -> bool:
        """Whether the unit's sums are in tensor memory, which one warpgroup or more move out."""
        return self.fragment.in_tensor_memory

    @cached_property
    def of_group(self) -> Plan:
        """The same plan with the part of an instruction's C that one warpgroup moves out in its place."""
        m, n, k = self.fragment.shape
        c = self.fragment.c.model_copy(update={"repeats": self.fragment.c.repeats * self.warp[1] // n})
        return replace(self, fragment=self.fragment.model_copy(update={"shape": (m, self.warp[1], k), "c": c}))

    @property
    def staying(self) -> tuple[Accumulator, ...]:
        """Accumulators that stay in the unit for the whole of a tile."""
        return tuple(acc for acc in self.scheme.accumulators if not self.promotes(acc))

    @property
    def moving(self) -> tuple[Accumulator, ...]:
        """Accumulators that promotion empties."""
        return tuple(acc for acc in self.scheme.accumulators if self.promotes(acc))

    @property
    def tensor_buffers(self) -> int:
        """How many intervals of promotion have a place in tensor memory: one is filled while another is moved out."""
        both = len(self.staying) + 2 * len(self.moving)
        return 2 if self.moving and both * self.block[1] <= TENSOR_COLUMNS else 1

    @property
    def tensor_columns(self) -> int:
        """Columns of tensor memory that the sums take."""
        return (len(self.staying) + self.tensor_buffers * len(self.moving)) * self.block[1]

    @property
    def allocated_columns(self) -> int:
        """Columns as they are allocated."""
        return max(LEAST_COLUMNS, 1 << (self.tensor_columns - 1).bit_length())

    @property
    def unloaded(self) -> int:
        """Columns that a thread reads of tensor memory at a time."""
        return UNLOADED

    def column_of(self, accumulator: Accumulator) -> int:
        """The first column of an accumulator's sum, of one that moves in its first buffer."""
        if accumulator in self.moving:
            return (len(self.staying) + self.moving.index(accumulator)) * self.block[1]
        return self.staying.index(accumulator) * self.block[1]

    @property
    def tensor_barriers(self) -> int:
        """Barriers that tell of sums: filled and moved out, each buffer's and those that stay; and a word for the address."""
        return 2 * self.tensor_buffers + 2 + 1

    @property
    def sharers(self) -> int:
        """Parts of a block's tile that are gathered from slices of k each for itself."""
        return self.warps_m * self.warps_n if self.specialised else 1

    @property
    def producer_registers(self) -> int:
        """Registers that a thread of the copying warpgroup keeps."""
        if self.in_tensor_memory:
            return ISSUER_REGISTERS
        if self.where == "mixed":
            return COUNTING_REGISTERS
        return PRODUCER_REGISTERS if self.multiplying_groups < 3 else 32

    @property
    def resident_blocks(self) -> int:
        """Blocks of the specialised skeleton that the GPU holds at once, in whole clusters: a launch needs no more."""
        limits = self.gpu.limits
        one = self.shared_bytes + limits.shared_bytes_reserved_per_block
        a_sm = max(1, min(limits.shared_bytes_per_sm // one, limits.registers_per_sm // (self.launch_registers * self.threads)))
        if self.in_tensor_memory:
            a_sm = min(a_sm, TENSOR_COLUMNS // self.allocated_columns)
        return a_sm * self.gpu.rates.sms // self.cluster * self.cluster

    @property
    def launch_registers(self) -> int:
        """Registers a thread has when the block starts."""
        limits = self.gpu.limits
        return min(MOST_REGISTERS, limits.registers_per_sm // self.threads // 8 * 8)

    @property
    def multiplying_registers(self) -> int:
        """Registers a multiplying thread has after the copying ones gave theirs up."""
        if self.in_tensor_memory and not self.moving:
            return self.launch_registers  # enough where the sums are read once
        pool = self.launch_registers * (self.multiplying_groups + 1) - self.producer_registers
        return min(MOST_REGISTERS, pool // self.multiplying_groups // 8 * 8)

    @property
    def warps_m(self) -> int:
        return self.block[0] // self.warp[0]

    @property
    def warps_n(self) -> int:
        return self.block[1] // self.warp[1]

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
        return self.block[2] // self.fragment.shape[2]

    @property
    def accumulator_registers(self) -> int:
        """Registers a thread needs for all accumulator sets."""
        return self.accumulator_sets * self.elements

    @property
    def unrolls_steps(self) -> bool:
        """Whether the steps of a stage are unrolled.

        Two fragment buffers and loads with places of their own need it. Else it lets the compiler fetch ahead,
        which costs registers; where few are left it would spill instead. Steps of plain multiply-adds are long:
        it is the other warps that hide a fetch. AMD's compiler may begin an unrolled stage with all of its fetches.
        """
        held = self.accumulator_registers + self.fragment_registers
        below = UNROLL_BELOW if self.fragment.on_matrix_unit else 0
        share = UNROLL_SHARE * self.gpu.limits.registers_per_sm // self.threads
        if self.gpu.vendor == "amd" and below:
            held += (self.k_steps - 1) * self.fragment_registers
            below = min(share, UNROLL_SHARE * self.gpu.limits.registers_per_thread)
        elif self.where == "register":  # a block's share of the file may be less than what one thread can name
            below = min(below, share)
        return self.fragment_buffers == 2 or self.loads == "spread" or held < below

    @property
    def elements(self) -> int:
        """FP32 values of one accumulator set that a thread holds."""
        return self.tiles_m * self.tiles_n * self.fragment.c.register_count

    @property
    def operands(self) -> tuple[Operand, Operand]:
        return (
            Operand("a", "m", self.layout[0] == "n", self.block[0]),
            Operand("b", "n", self.layout[1] == "t", self.block[1]),
        )

    # ---- accumulators

    def promotes(self, accumulator: Accumulator) -> bool:
        return self.promote > 0 and accumulator.promoted

    @property
    def promotes_at_once(self) -> bool:
        """Whether every instruction along k starts from zero and its sum moves over at
        once: then the unit's accumulator lives for a moment and needs no array."""
        return self.promote == self.fragment.shape[2]

    @property
    def accumulator_sets(self) -> int:
        """Arrays of [warp m, warp n] FP32 values a warp keeps."""
        if self.in_tensor_memory:
            return 1
        both = 1 if self.promotes_at_once and not self.specialised else 2
        return sum(both if self.promotes(acc) else 1 for acc in self.scheme.accumulators)

    @property
    def promote_steps(self) -> int:
        """Instructions along k between promotions, where promotion falls inside a stage; else 0."""
        least = self.fragment.shape[2] + (not self.specialised)  # the other skeleton promotes every instruction at once
        inside = least <= self.promote < self.block[2]
        return self.promote // self.fragment.shape[2] if inside else 0

    @property
    def promote_stages(self) -> int:
        """Stages between promotions, where promotion falls on a stage's end; else 0."""
        outside = self.promote >= self.block[2] and not (self.promotes_at_once and not self.specialised)
        return self.promote // self.block[2] if outside else 0

    @property
    def fragment_registers(self) -> int:
        """Registers a thread needs for the fragments of one step of k."""
        held = self.fragment
        if held.from_shared:
            return 0
        one_word = self.tiles_m * held.a.register_count + self.tiles_n * held.b.register_count
        return len(self.scheme.words) * one_word * self.fragment_buffers

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
        """Parts of a stage that are summed from zero each, in the specialised skeleton; 1 where promotion falls on its end."""
        return max(1, self.block[2] // self.promote) if self.promote else 1

    # ---- tiles that come through registers

    @property
    def chunk_elements(self) -> int:
        """Elements of k that one 16-byte chunk of words holds."""
        return COPY_BYTES // self.scheme.format.bytes

    def parts(self, operand: Operand) -> int:
        """Loads of one tile that a thread holds: 16 bytes of words or of FP32, or a chunk's FP32 elements."""
        if self.where == "register":
            copying = self.copying(operand)
            return copying.down_steps * copying.across_steps
        chunks = operand.tile * self.row_chunks * (len(self.scheme.words) if self.where == "prepass" else 1)
        return -(-chunks // self.threads)

    @property
    def all_parts(self) -> int:
        return sum(map(self.parts, self.operands))

    @property
    def staging_registers(self) -> int:
        """Registers that hold the next tile on its way to shared memory."""
        if self.loads == "async":
            return 0
        return self.all_parts * (self.chunk_elements if self.where == "shared" else 4)

    @property
    def places_a_step(self) -> int:
        """Places between a step's matrix instructions where a load may stand: one a row of fragments and product."""
        at_once = {acc.name for acc in self.scheme.accumulators if self.promotes(acc) and self.promotes_at_once}
        rest = sum(product.into not in at_once for product in self.scheme.products)
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
        return self.block[2] * self.scheme.format.bytes // COPY_BYTES

    @property
    def step_chunks(self) -> int:
        """16-byte chunks of a row that one instruction takes."""
        return self.fragment.shape[2] * self.scheme.format.bytes // COPY_BYTES

    @property
    def swizzle_rows(self) -> int:
        """Rows of a tile that share one line of banks. The swizzle parts the rows of one chunk; on 64 banks (gfx950) a phase of
        fragments 16 high takes rows of two chunks, some of which then meet."""
        return max(1, self.line_chunks // self.row_chunks)

    @property
    def swizzle_mask(self) -> int:
        return min(self.row_chunks, self.line_chunks) - 1

    @property
    def line_chunks(self) -> int:
        """16-byte chunks that shared memory serves at once, one of each of as many lanes."""
        return self.gpu.limits.shared_banks * 4 // COPY_BYTES

    @property
    def padding(self) -> int:
        """Bytes after each row of words, where rows cannot be swizzled."""
        return PADDING if self.fragment.by_stride else 0

    @property
    def run(self) -> int:
        """Consecutive k of a row that a lane splits for one step."""
        return self.fragment.run

    @property
    def run_swizzle(self) -> Swizzle:
        """Of FP32 tiles that lie [outer][k]: a phase's lanes, each in a row of its own or four to a row, read `run` k each."""
        chunks = self.block[2] * 4 // COPY_BYTES
        line = max(1, self.line_chunks // chunks)
        if self.fragment.vendor == "amd":
            return Swizzle(line, min(chunks, self.line_chunks) - 1, 1)
        stride = self.run * 4 * 4 // COPY_BYTES
        return Swizzle(line, max(1, 8 // stride // line) - 1, stride)

    def strided_swizzle(self, operand: Operand) -> Swizzle:
        """Of FP32 tiles that lie [k][outer]: a phase's lanes, as many as there are banks, read one float each: neighbours of as
        many k as it takes. Where a row is no whole number of lines of 64 banks, two lanes meet in some."""
        neighbours = 8 if self.fragment.policy == "mma" else self.fragment.shape[0]
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
    def element_bytes(self) -> int:
        """Bytes of shared memory that one element takes in a stage, without padding."""
        return 4 if self.where == "register" else len(self.scheme.words) * self.scheme.format.bytes

    @property
    def stage_bytes(self) -> int:
        if self.where == "mixed":
            words = len(self.scheme.words) * self.scheme.format.bytes
            return self.block[2] * (4 * self.block[0] + words * self.block[1])
        row = self.block[2] * self.element_bytes + len(self.scheme.words) * self.padding
        return sum(operand.tile * row for operand in self.operands)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of the main kernel."""
        own = BARRIER_BYTES * self.tensor_barriers if self.in_tensor_memory else 0
        barriers = own + 2 * self.stages * BARRIER_BYTES + (BARRIER_BYTES * self.multiplying_groups if self.split_k > 1 else 0)
        return self.stages * self.stage_bytes + (barriers if self.specialised else 0)

    @property
    def static_shared(self) -> bool:
        """Whether the kernel declares its shared memory with its size, which AMD's compiler counts; CUDA allows no more than 48 KiB so."""
        return self.gpu.vendor == "amd"

    @property
    def row_bytes(self) -> int:
        """One row of a tile of words."""
        return self.block[2] * self.scheme.format.bytes

    @property
    def split_before(self) -> tuple[Operand, ...]:
        """The operands that a pass before the main kernel splits."""
        a, b = self.operands
        return {"prepass": (a, b), "mixed": (b,)}.get(self.where, ())

    @property
    def flushes_words(self) -> bool:
        """Whether what multiplies takes subnormal words for zero."""
        return self.fragment.on_matrix_unit and bool(self.gpu.unit.flushes_subnormals)

    @property
    def flushing_archs(self) -> tuple[str, ...]:
        """The architectures that run this plan's matrix instruction and take subnormal words for zero, this plan's own among them."""
        if not self.fragment.on_matrix_unit:
            return ()
        archs = {gpu.arch for gpu in GPUS.rows() if gpu.arch in (self.fragment.archs or ()) and gpu.unit.flushes_subnormals}
        return tuple(sorted(archs | ({self.arch} if self.flushes_words else set())))

    @property
    def takes_operands(self) -> bool:
        """Whether the main kernel reads A and B themselves."""
        return self.where != "prepass" or self.special == "exact"

    # ---- the packed words of the split kernel

    def packed_tile_bytes(self, operand: Operand) -> int:
        """One word of one operand's tile in the workspace."""
        return operand.tile * self.block[2] * self.scheme.format.bytes

    def packed_stage_bytes(self, operand: Operand) -> int:
        """All words of it."""
        return len(self.scheme.words) * self.packed_tile_bytes(operand)

    # ---- workspace

    def padded(self, m: int, n: int, k: int) -> tuple[int, int, int]:
        """Extents that the packed stages cover."""
        return tuple(round_up(extent, tile) for extent, tile in zip((m, n, k), self.block))

    def tiles(self, m: int, n: int) -> int:
        """Tiles of C, in whole clusters."""
        bm, bn, _ = self.block
        return -(-m // (bm * self.cluster)) * self.cluster * -(-n // bn)

    def extents(self, m: int, n: int, k: int) -> dict[str, int]:
        """What launches and grids call the sizes: m, n, k, each with `_padded`, split_k and cluster."""
        padded = self.padded(m, n, k)
        sizes = {"m": m, "n": n, "k": k, "split_k": self.split_k, "cluster": self.cluster}
        return sizes | {f"{x}_padded": extent for x, extent in zip("mnk", padded)}

    def words_bytes(self, m: int, n: int, k: int) -> tuple[int, int]:
        """Bytes of the packed words of A and of B."""
        m_pad, n_pad, k_pad = self.padded(m, n, k)
        each = len(self.scheme.words) * self.scheme.format.bytes * k_pad
        split = [operand.name for operand in self.split_before]
        return each * m_pad * ("a" in split), each * n_pad * ("b" in split)

    def workspace(self, m: int, n: int, k: int) -> Workspace:
        """Layout of the workspace for a problem [m, n, k]."""
        m_pad, n_pad, _ = self.padded(m, n, k)
        a_words, b_words = self.words_bytes(m, n, k)
        scales = self.scheme.normalize == "row"
        end = 8 * sum(len(fields) for fields in STATUS.values())
        offsets: dict[str, int] = {}
        for name, length in (
            ("a_absmax", 4 * m_pad if scales else 0),
            ("b_absmax", 4 * n_pad if scales else 0),
            ("arrived", 4 * self.sharers * self.tiles(m, n) if self.split_k > 1 else 0),
        ):
            offsets[name] = end = round_up(end, WORKSPACE_ALIGNMENT)
            end += length
        zeroed = end
        parts = 4 * self.split_k * self.tiles(m, n) * self.block[0] * self.block[1] if self.split_k > 1 else 0
        for name, length in (("a_words", a_words), ("b_words", b_words), ("parts", parts)):
            offsets[name] = end = round_up(end, WORKSPACE_ALIGNMENT)
            end += length
        return Workspace(status=0, zeroed=zeroed, bytes=round_up(end, WORKSPACE_ALIGNMENT), **offsets)

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain data, for `--json`."""
        return {
            **{key: value for key, value in self.identity.items() if key not in ("scheme", "fragment")},
            "scheme": self.scheme.name,
            "fragment": self.fragment.name,
            "gpu": self.gpu.name,
            "threads": self.threads,
            "shared_bytes": self.shared_bytes,
            "hash": self.hash,
            "hints": {"m": self.hints.m, "n": self.hints.n, "k": self.hints.k},
        }
