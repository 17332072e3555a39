"""What the file of a matrix instruction says, or of what stands in for one: shape, types and maps, which prove themselves when it is loaded."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gemmgen.catalog.fragment.encoding import Descriptor, InstructionWord
from gemmgen.catalog.fragment.map import MAX_EXTENT, FragmentMap
from gemmgen.catalog.number import UnitWord, word_bytes
from gemmgen.catalog.policy import NAMES, POLICIES, Policy, owners
from gemmgen.catalog.table import Row
from gemmgen.catalog.vendor import VENDORS, Vendor

Extent = Annotated[int, Field(ge=1, le=MAX_EXTENT)]


class FragmentRow(Row):
    """One file of specs/fragments: D = A B + C on tiles A [m, k], B [k, n], C [m, n].

    Attributes:
        vendor: whose instruction it is.
        policy: the programming interface: `mma` is one `mma.sync`, whose map
            the PTX ISA documents; `wmma` is one `wmma.mma.sync`, whose map it
            leaves open; `fma` is no matrix instruction: the lanes multiply,
            each the part of C that it holds, with `fma.rn.f32` or AMD's `v_fma_f32` one k after
            another, and each holds all of A and B that its part needs;
            `wgmma` is one `wgmma.mma_async` of a warpgroup, four warps whose
            128 lanes the maps count, with B and mostly A in shared memory;
            `tcgen05` is one `tcgen05.mma`, which one thread issues, with A and B in
            shared memory and C in tensor memory, whose lanes the map of c counts:
            a warpgroup's 128 threads as `tcgen05.ld.32x32b` gives it to them.
            AMD's: `mfma` is one matrix instruction of a CDNA wavefront, `wmma` one of an RDNA
            wavefront; both maps are documented.
        map_source: whether the maps are `documented`, `measured`, or
            `constructed`: ours, where no instruction prescribes any.
        min_arch: the first sm_ number that has it, with these maps.
        archs: AMD's targets that have it; there later ones may drop what earlier ones had.
        instruction: its mnemonic as the compiler's assembly prints it, of AMD's for the newest of its targets.
        builtin: what compilers call AMD's; the mnemonic gives NVIDIA's.
        shape: (m, n, k).
        word: type of A and B; sums are FP32, of `s8` INT32.
        a, b, c: the maps, over (m, k), (k, n) and (m, n); no a or b where it never is in registers.
        arch: the one target that has the instruction, where later ones do not; also: others that have it, each again alone.
        widest: instructions of up to this many times n exist; `wide` gives them.
        sparse_from: n above which only every second of those exists.
        deepest: as many of the instruction, one k after another, make a fragment of which a lane holds
            whole 16-byte chunks; `deep` gives it.
        instructions: how many of the instruction make this fragment; none for one.
        descriptor: how operands are found that stay in shared memory.
        instruction_word: what the instruction itself is told, where its mnemonic does not say types and extents.
    """

    vendor: Literal[tuple(VENDORS)]
    policy: Literal[NAMES]
    map_source: Literal["documented", "measured", "constructed"]
    min_arch: Annotated[int, Field(ge=70, le=999)] | None = None
    archs: Annotated[tuple[Annotated[str, Field(pattern=r"^gfx[0-9a-f]{3,4}$")], ...], Field(min_length=1, max_length=100, strict=False)] | None = None
    instruction: Annotated[str, Field(pattern=r"^[a-z0-9_.:]{1,100}$")]
    shape: Annotated[tuple[Extent, Extent, Extent], Field(strict=False)]
    builtin: Annotated[str, Field(pattern=r"^__builtin_(amdgcn_[a-z0-9_]{1,60}|fmaf)$")] | None = None
    word: Literal[UnitWord, "f32"]
    a: FragmentMap | None = None
    b: FragmentMap | None = None
    c: FragmentMap
    arch: Annotated[str, Field(pattern=r"^sm_[0-9]{2,3}[af]$")] | None = None
    also: Annotated[tuple[Annotated[str, Field(pattern=r"^sm_[0-9]{2,3}[af]$")], ...], Field(max_length=20, strict=False)] = ()
    widest: Annotated[int, Field(gt=1, le=32)] | None = None
    sparse_from: Annotated[int, Field(ge=8, le=MAX_EXTENT)] | None = None
    deepest: Annotated[int, Field(gt=1, le=8)] | None = None
    instructions: Annotated[int, Field(ge=1, le=8)] | None = None
    descriptor: Descriptor | None = None
    instruction_word: InstructionWord | None = None

    @model_validator(mode="after")
    def _belongs(self) -> Self:
        """Targets and names are told as its vendor's are."""
        if self.maker.lists_targets and (self.archs is None or self.builtin is None or self.min_arch is not None):
            raise ValueError(f"archs and builtin, and no min_arch, where the vendor is {self.vendor}")
        if not self.maker.lists_targets and (self.min_arch is None or self.archs is not None or self.builtin is not None):
            raise ValueError(f"min_arch, and neither archs nor builtin, where the vendor is {self.vendor}")
        if self.also and not self.arch:
            raise ValueError("arch, the first of the targets, beside also")
        if self.instructions:
            raise ValueError("no number of instructions: a row is one of them, and deepest says how many make a fragment")
        if self.vendor not in owners(self.policy):
            raise ValueError(f"policy {self.policy} where the vendor is {' or '.join(owners(self.policy))}")
        return self

    @model_validator(mode="after")
    def _maps_cover(self) -> Self:
        m, n, k = self.shape
        if n * (self.widest or 1) > MAX_EXTENT or k * (self.deepest or 1) > MAX_EXTENT:
            raise ValueError(f"instructions of at most {MAX_EXTENT} columns and k, the widest and deepest too")
        if self.interface.on_matrix_unit and self.word == "f32":
            raise ValueError("word f32 with policy fma alone: matrix units do not take it")
        if self.interface.from_shared != (self.descriptor is not None):
            raise ValueError("a descriptor where the policy has operands read from shared memory, and nowhere else")
        if (self.b is None) != (self.descriptor is not None):
            raise ValueError("a map of b, or a descriptor for where it lies")
        if self.a is None and self.b is not None:
            raise ValueError("a map of a where b is in registers")
        if self.interface.in_tensor_memory != (self.instruction_word is not None):
            raise ValueError("the instruction's own word with policy tcgen05 and with no other")
        if self.instruction_word:
            for one in {1, self.widest or 1}:
                self.instruction_word.value(m, n * one)
        for label, held, rows, columns in (("a", self.a, m, k), ("b", self.b, k, n), ("c", self.c, m, n)):
            if held is None:
                continue
            complaint = held.prove(rows, columns)
            if complaint:
                raise ValueError(f"a map of {label} that covers its tile; this one {complaint}")
            wanted = 1 if label == "c" else 4 // word_bytes(self.word)
            if held.packed_count != wanted:
                raise ValueError(f"{wanted} to a 32-bit register in the map of {label}, not {held.packed_count}")
        return self

    @model_validator(mode="after")
    def _lanes_suffice(self) -> Self:
        """Where lanes multiply, each holds what it needs."""
        for lane, register, _, i, j in () if self.interface.on_matrix_unit else self.c.foreach_ij():
            for k in range(self.shape[2]):
                for label, held, element in (("a", self.a, (i, k)), ("b", self.b, (k, j))):
                    if lane not in [holder for holder, _, _ in held.map(*element)]:
                        raise ValueError(f"lanes that hold all they multiply; lane {lane} lacks element {element} of {label}")
        return self

    @model_validator(mode="after")
    def _meet(self) -> Self:
        """AMD's units multiply what lies at the same place of A and B, so both must have the same k there.

        Then it does not matter in which order k goes, nor which instruction of several takes it.
        """
        if not self.interface.by_place:
            return self
        if self.a is None or self.b is None:
            raise ValueError(f"maps of a and b where the vendor is {self.vendor}: its operands are in registers")
        for bits in ("lanes", "registers", "packed"):
            if [k for _, k in getattr(self.a, bits)] != [k for k, _ in getattr(self.b, bits)]:
                raise ValueError(f"{bits} of a and b that stand for the same k, for the unit multiplies place by place")
        return self

    @property
    def maker(self) -> Vendor:
        """Its vendor's row."""
        return VENDORS[self.vendor]

    @property
    def interface(self) -> Policy:
        """Its policy's row."""
        return POLICIES[self.vendor, self.policy]
