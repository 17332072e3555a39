"""A fragment: a row with what follows from it, and its wider and deeper ones."""

from __future__ import annotations

from itertools import count, islice

from gemmgen.catalog.fragment.map import MAX_EXTENT, FragmentMap, Offset
from gemmgen.catalog.fragment.row import FragmentRow
from gemmgen.catalog.gpu import arch_number
from gemmgen.catalog.number import sum_type, word_bytes

CHUNK_BYTES = 16
"""What a lane fetches from shared memory at once."""


class Fragment(FragmentRow):
    """What a warp multiplies at once: a row, and what kernels ask of it. `interface` answers for all rows of a policy alike."""

    def call(self, a: str, b: str, c: str) -> str:
        """The call of its builtin, as C++; of AMD's."""
        return self.interface.call(self.word, builtin=self.builtin, a=a, b=b, c=c)

    @property
    def word_bytes(self) -> int:
        return word_bytes(self.word)

    @property
    def sums(self) -> str:
        """Type of C."""
        return {"s32": "INT32", "f32": "FP32"}[sum_type(self.word)]

    @property
    def splits_in_lanes(self) -> bool:
        """Whether kernels may split FP32 on its way into the fragments. FP32 words are split by nobody."""
        return (self.interface.by_lanes or self.interface.splits) and self.word != "f32"

    @property
    def run(self) -> int:
        """Consecutive k of one row that a lane may fill as one; in `mma` four lanes share a row's k in runs of our choice."""
        lanes = self.interface.lanes_along_k if self.on_matrix_unit else 1
        return self.shape[2] // lanes if lanes else self.a.elements if self.a else 0

    @property
    def rows_together(self) -> int:
        """Neighbouring rows whose elements of one k the lanes of a phase read at once, where they fill fragments themselves."""
        return self.interface.rows_together or self.shape[0]

    @property
    def by_runs(self) -> Fragment:
        """As kernels take it: what a lane holds of a row is one run of k.

        RDNA 4's instructions have gaps in it that other lanes fill. A kernel may close them, since
        A and B share the order of k: it is then another one than the instruction's own.
        """
        if not self.interface.by_place or self.a == _deepened(self.a, 1, 1):
            return self
        return self.deep(1)

    @property
    def whole_chunks(self) -> bool:
        """Whether a lane's part of an operand, by runs, is whole 16-byte chunks of a row; instructions that fetch fragments do not ask."""
        return not self.interface.by_place or self.run * self.word_bytes % CHUNK_BYTES == 0

    @property
    def from_shared(self) -> bool:
        """Whether the unit itself reads operands from shared memory."""
        return self.interface.from_shared

    @property
    def in_tensor_memory(self) -> bool:
        """Whether the unit keeps C in a memory of its own."""
        return self.interface.in_tensor_memory

    def runs_on(self, arch: str) -> bool:
        """Whether a target, `sm_80` or `gfx90a`, has it; `sm_90` counts for what only `sm_90a` compiles."""
        if self.archs:
            return arch in self.archs
        if not arch.startswith(self.maker.arch_prefix):
            return False
        number = arch_number(arch)
        return number >= self.min_arch and (self.arch is None or self._alone(number) is not None)

    def _alone(self, number: int) -> str | None:
        """Of the targets that have it each alone, the one of that number."""
        return next((one for one in (self.arch, *self.also) if one and arch_number(one) == number), None)

    def compiled_for(self, arch: str) -> str:
        """The target to compile for where `arch`, which has it, is the GPU's: `sm_90a` where `sm_90` is."""
        return self._alone(arch_number(arch)) if self.arch else arch

    @property
    def targets(self) -> str:
        """The targets that have it where no other does, in words; empty where later ones do."""
        return " or ".join(filter(None, (self.arch, *self.also)))

    @property
    def threads(self) -> int:
        """Threads that issue it together: a warp, or a warpgroup."""
        return 1 << len(self.c.lanes)

    @property
    def shapes(self) -> dict[str, Fragment]:
        """Itself and its wider and deeper ones, by shape name."""
        wide = (self.wide(times) for times in range(1, (self.widest or 1) + 1) if self.has_width(times))
        return {one.shape_name: one for one in (*wide, *([self.deep(self.deepest)] if self.deepest else []))}

    def has_width(self, times: int) -> bool:
        """Whether there is an instruction of `times` this one's n, up to the widest."""
        return self.shape[1] * times <= (self.sparse_from or MAX_EXTENT) or times % 2 == 0

    def wide(self, times: int) -> Fragment:
        """The instruction that covers `times` of this one's n."""
        if times == 1:
            return self
        m, n, k = self.shape
        return self.model_copy(update={
            "shape": (m, n * times, k), "instruction": self.instruction.replace(f"n{n}k", f"n{n * times}k"),
            "c": FragmentMap(**self.c.model_dump(), repeats=times), "widest": None, "sparse_from": None,
        })

    def paired(self) -> Fragment:
        """The instruction of a pair of blocks, each of which has this one's rows and half of B."""
        return self.model_copy(update={"instruction": self.instruction.replace("cta_group::1", "cta_group::2")})

    def deep(self, times: int) -> Fragment:
        """A fragment of `times` as many k, for as many instructions one after another.

        A lane then holds `times` runs of k that follow one another, and instruction q takes the q-th
        of each lane: another order of k than one instruction's own, the same for A and B.
        """
        m, n, k = self.shape
        axis = {"a": 1, "b": 0}
        maps = {label: _deepened(getattr(self, label), axis[label], times) for label in axis}
        return self.model_copy(update={
            "name": self.name.replace(self.shape_name, f"m{m}n{n}k{k * times}"), "shape": (m, n, k * times), "map_source": "constructed",
            "deepest": None, "instructions": times if times > 1 else None, **maps,
        })

    @property
    def on_matrix_unit(self) -> bool:
        """Whether a matrix unit multiplies, and rounds as its row in specs/units says; else FP32 arithmetic does."""
        return self.interface.on_matrix_unit

    @property
    def plain(self) -> bool:
        """Whether FP32 arithmetic multiplies FP32 itself, and no words."""
        return not self.on_matrix_unit and self.word == "f32"

    @property
    def shape_name(self) -> str:
        m, n, k = self.shape
        return f"m{m}n{n}k{k}"


def _deepened(held: FragmentMap, axis: int, times: int) -> FragmentMap:
    """The map of `times` instructions along k, which is `axis`: a lane's k are one run, and lanes stand that far apart."""
    k = (tuple(1 << bit if at == axis else 0 for at in range(2)) for bit in count())

    def in_turn(offsets: tuple[Offset, ...]) -> tuple[Offset, ...]:
        return tuple(next(k) if offset[axis] else offset for offset in offsets)

    packed, registers = in_turn(held.packed), in_turn(held.registers)
    registers += tuple(islice(k, times.bit_length() - 1))
    return FragmentMap(packed=packed, registers=registers, lanes=in_turn(held.lanes), copies=held.copies)
