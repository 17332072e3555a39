"""Matrix instructions, and what stands in for one: shape, types, and which lane holds element (i, j) where.

The holder of an element is linear in the bits of lane, register and position
in the register: each bit that is set adds its (row, column) offset. Offsets are
powers of two along one axis, so that the way back is a matter of bits too; that
they cover the tile exactly is proven by each row when it is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property
from itertools import count, islice
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from gemmgen.catalog.gpu import arch_number
from gemmgen.catalog.number import FORMATS, WordType
from gemmgen.catalog.table import Row, Strict, Table
from gemmgen.paths import TEMPLATES

CHUNK_BYTES = 16
"""What a lane fetches from shared memory at once."""

STRIP = 16
"""Columns of a tile that a picture of it shows side by side."""

MAX_EXTENT = 256
"""Of an instruction along one axis; the largest are 256 wide."""

Extent = Annotated[int, Field(ge=1, le=MAX_EXTENT)]
Offset = Annotated[tuple[int, int], Field(strict=False)]
_Lowest, _Width = Annotated[int, Field(ge=0, lt=64)], Annotated[int, Field(gt=0, le=32)]
_Code, _Unit = Annotated[int, Field(ge=0, lt=1 << 32)], Annotated[int, Field(gt=0, le=MAX_EXTENT)]
BitField = Annotated[tuple[_Lowest, _Width], Field(strict=False)]
CodeField = Annotated[tuple[_Lowest, _Width, _Code], Field(strict=False)]
ExtentField = Annotated[tuple[_Lowest, _Width, _Unit], Field(strict=False)]


class FragmentMap(Strict):
    """Who holds which element of one operand's tile.

    Attributes:
        lanes: (row, column) added by each bit of the lane index, lowest first.
        registers: likewise for the register index.
        packed: likewise for the position inside a 32-bit register.
        copies: in how many places each element is held, a power of two; bits
            with the offset (0, 0) tell them apart.
        repeats: how often the map stands side by side along the columns, each time in
            the registers that follow.
    """

    lanes: Annotated[tuple[Offset, ...], Field(min_length=5, max_length=7, strict=False)]
    registers: Annotated[tuple[Offset, ...], Field(max_length=8, strict=False)] = ()
    packed: Annotated[tuple[Offset, ...], Field(max_length=2, strict=False)] = ()
    copies: Annotated[int, Field(ge=1, le=32)] = 1
    repeats: Annotated[int, Field(ge=1, le=32, exclude=True)] = 1  # the fragment's shape tells it

    @field_validator("lanes", "registers", "packed")
    @classmethod
    def _single_bits(cls, offsets: tuple[Offset, ...]) -> tuple[Offset, ...]:
        for offset in offsets:
            if min(offset) != 0 or max(offset) & (max(offset) - 1) or max(offset) >= MAX_EXTENT:
                raise ValueError(f"offsets of a power of two below {MAX_EXTENT} along one axis, or (0, 0) for a copy; {offset} is neither")
        return offsets

    @property
    def register_count(self) -> int:
        return self.repeats << len(self.registers)

    @property
    def width(self) -> int:
        """Columns that one repeat covers."""
        return 1 << sum(column > 0 for _, column in self.lanes + self.registers + self.packed)

    @property
    def packed_count(self) -> int:
        return 1 << len(self.packed)

    @property
    def elements(self) -> int:
        """How many elements a lane holds; `index` counts them, positions in a register first."""
        return self.register_count * self.packed_count

    @property
    def lane_copies(self) -> int:
        """How many lanes hold each element."""
        return 1 << self.lanes.count((0, 0))

    def element(self, lane: int, register: int, packed: int = 0) -> tuple[int, int]:
        """Row and column of what `lane` holds there."""
        row = column = 0
        for bits, index in ((self.lanes, lane), (self.registers, register), (self.packed, packed)):
            for position, (d_row, d_column) in enumerate(bits):
                if index >> position & 1:
                    row, column = row + d_row, column + d_column
        return row, column + (register >> len(self.registers)) * self.width

    def foreach_ij(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Every held element as (lane, register, packed, i, j) (WMMAe `foreach_ij`)."""
        for lane in range(1 << len(self.lanes)):
            for register in range(self.register_count):
                for packed in range(self.packed_count):
                    yield (lane, register, packed, *self.element(lane, register, packed))

    @cached_property
    def _holders(self) -> dict[tuple[int, int], list[tuple[int, int, int]]]:
        table: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        for lane, register, packed, i, j in self.foreach_ij():
            table.setdefault((i, j), []).append((lane, register, packed))
        return table

    def map(self, i: int, j: int) -> list[tuple[int, int, int]]:
        """The holders (lane, register, packed) of element (i, j) (WMMAe `map`)."""
        return self._holders[i, j]

    def grid(self, rows: int, columns: int) -> list[str]:
        """The tile row by row, each element as `lane:index` of its first holder; wide tiles in strips."""
        def cell(i: int, j: int) -> str:
            lane, register, packed = self.map(i, j)[0]
            return f"{lane:>2}:{register * self.packed_count + packed}"

        cells = [[cell(i, j) for j in range(columns)] for i in range(rows)]
        width = max(len(text) for row in cells for text in row)
        lines: list[str] = []
        for first in range(0, columns, STRIP):
            lines += ["", f"columns {first} to {first + STRIP - 1}"] if columns > STRIP else []
            lines += [" ".join(text.ljust(width) for text in row[first : first + STRIP]).rstrip() for row in cells]
        return lines[1:] if columns > STRIP else lines

    def prove(self, rows: int, columns: int) -> str | None:
        """None when every element of [rows, columns] is held `copies` times, else the complaint."""
        if self._adds_each_bit_once(rows, columns):
            return None
        wanted = {(i, j) for i in range(rows) for j in range(columns)}
        if set(self._holders) != wanted:
            odd = sorted(set(self._holders) ^ wanted)[0]
            return f"covers another tile than {rows}x{columns}; element {odd} is wrong"
        for element, holders in self._holders.items():
            if len(holders) != self.copies:
                return f"element {element} is held {len(holders)} times, not {self.copies}"
        return None

    def _adds_each_bit_once(self, rows: int, columns: int) -> bool:
        """Whether each bit of a row and of a column is one bit's offset, and the bits left over count the copies.

        That is the same as holding every element so often, and quick to see for a table of them.
        """
        offsets = self.lanes + self.registers + self.packed
        extents = []
        for axis in (0, 1):
            bits = sorted(offset[axis] for offset in offsets if offset[axis])
            if bits != [1 << bit for bit in range(len(bits))]:
                return False
            extents.append(1 << len(bits))
        return (extents[0], extents[1] * self.repeats) == (rows, columns) and 1 << offsets.count((0, 0)) == self.copies

    def lane_expression(self, axis: int) -> str:
        """The lane's own part of the row (axis 0) or column (axis 1), as C."""
        return _linear(self.lanes, axis, "lane")

    def lane_chunk(self, axis: int, elements: int) -> str:
        """The lane's own part of the row or column, counted in chunks of so many elements, as C."""
        return _linear(tuple(tuple(one // elements for one in offset) for offset in self.lanes), axis, "lane")

    def register_expression(self, axis: int) -> str:
        """The part of the register `r`, likewise."""
        return self._repeated(self.registers, axis, "r")

    def index_expression(self, axis: int) -> str:
        """The part of `index`, register and position in one number, likewise."""
        return self._repeated(self.packed + self.registers, axis, "index")

    def _repeated(self, offsets: tuple[Offset, ...], axis: int, name: str) -> str:
        """The part of a number whose lowest bits count inside one repeat and the others repeats, as C."""
        if self.repeats == 1:
            return _linear(offsets, axis, name)
        inside = _linear((*offsets, (0, 0)), axis, name)  # a bit more: there are others above these
        if axis == 0:
            return inside
        beside = f"({name} >> {len(offsets)}) * {self.width}"
        return beside if inside == "0" else f"{inside} + {beside}"

    def holder_expressions(self) -> tuple[str, str]:
        """The lane and the index that hold copy `copy` of element (i, j), as C."""
        copies = iter(range(self.copies.bit_length() - 1))
        lane, index = (
            _gathered([_source(offset, copies) for offset in offsets], self._axis_bits)
            for offsets in (self.lanes, self.packed + self.registers)
        )
        if self.repeats > 1:
            index += f" + (j >> {self.width.bit_length() - 1}) * {self.elements // self.repeats}"
        return lane, index

    @property
    def _axis_bits(self) -> dict[str, int]:
        """How many bits each of i, j and copy has."""
        offsets = self.lanes + self.packed + self.registers
        return {
            "i": sum(row > 0 for row, _ in offsets),
            "j": sum(column > 0 for _, column in offsets) + (self.repeats > 1),  # others above these, too
            "copy": self.copies.bit_length() - 1,
        }


def _linear(offsets: tuple[tuple[int, int], ...], axis: int, name: str) -> str:
    """A sum of bit fields as C.

    Bits that continue one another with doubling strides are taken together:
    `(lane >> 2)`, `(lane & 3) * 2`.
    """
    terms: list[str] = []
    bits = [(position, offset[axis]) for position, offset in enumerate(offsets) if offset[axis]]
    while bits:
        first, stride = bits[0]
        length = 1
        while length < len(bits) and bits[length] == (first + length, stride << length):
            length += 1
        bits = bits[length:]
        term = _field(name, first, length, len(offsets))
        terms.append(term + (f" * {stride}" if stride > 1 else ""))
    return " + ".join(terms) or "0"


def _field(name: str, first: int, length: int, width: int) -> str:
    """`length` bits from bit `first` on of a number of `width` bits, as C, in brackets where it must be."""
    term = f"{name} >> {first}" if first else name
    if first + length < width:
        term = f"({term})" if first else term
        term = f"{term} & {(1 << length) - 1}"
    return f"({term})" if " " in term else term


def _source(offset: tuple[int, int], copies: Iterator[int]) -> tuple[str, int]:
    """The coordinate and its bit that decide the bit of lane or index with this offset."""
    row, column = offset
    if row or column:
        return ("i", row.bit_length() - 1) if row else ("j", column.bit_length() - 1)
    return "copy", next(copies)


def _gathered(sources: list[tuple[str, int]], widths: dict[str, int]) -> str:
    """A number whose bit p is bit sources[p], as C; runs of bits are taken together."""
    terms: list[str] = []
    position = 0
    while position < len(sources):
        name, first = sources[position]
        length = 1
        while sources[position + length : position + length + 1] == [(name, first + length)]:
            length += 1
        term = _field(name, first, length, widths[name])
        terms.append(term + (f" * {1 << position}" if position else ""))
        position += length
    return " + ".join(reversed(terms)) or "0"


class Descriptor(Strict):
    """The 64 bits that tell a matrix instruction where and how an operand lies in shared memory.

    Attributes:
        address, leading, stride, swizzle: (lowest bit, width) of each field; the first three
            hold bytes / 16.
        rows: of k contiguous rows, as many lie `stride` bytes before the next as many.
        swizzles: row bytes -> what the swizzle field says: the 16-byte chunk bits of an address
            are xored with the bits that count its 128-byte lines.
        fixed: (lowest bit, width, value) of a field that always says the same.
    """

    address: BitField
    leading: BitField
    stride: BitField
    swizzle: BitField
    rows: Annotated[int, Field(gt=0, le=64)]
    swizzles: dict[Literal["128", "64", "32"], Annotated[int, Field(ge=1, le=7)]]
    fixed: CodeField | None = None

    @model_validator(mode="after")
    def _apart(self) -> Descriptor:
        _disjoint({name: getattr(self, name) for name in ("address", "leading", "stride", "swizzle", "fixed") if getattr(self, name)}, 64)
        if any(code >> self.swizzle[1] for code in self.swizzles.values()) or self.fixed and self.fixed[2] >> self.fixed[1]:
            raise ValueError("codes that fit their fields")
        if len(set(self.swizzles.values())) != len(self.swizzles):
            raise ValueError("a code of its own for each swizzle")
        for row_bytes in map(int, self.swizzles):
            for phase in range(row_bytes // 16):
                lines = {self.place(row, phase, row_bytes) % 128 // 16 for row in range(self.rows)}
                if len(lines) != self.rows:
                    raise ValueError(f"swizzles that keep eight neighbouring rows apart; that of {row_bytes} bytes does not")
        return self

    @staticmethod
    def place(row: int, chunk: int, row_bytes: int) -> int:
        """Byte at which the unit looks for 16-byte chunk `chunk` of row `row`: its own way of swizzling addresses."""
        at = row * row_bytes + chunk * 16
        return at ^ (at >> 7) % (row_bytes // 16) << 4

    def constant(self, row_bytes: int) -> int:
        """All of the 64 bits but the address, for tiles of such rows."""
        fields = ((self.leading, 1), (self.stride, self.rows * row_bytes >> 4), (self.swizzle, self.swizzles[str(row_bytes)]))
        at, _, fixed = self.fixed or (0, 0, 0)
        return sum(value << low for (low, _), value in fields) | fixed << at


def _disjoint(fields: dict[str, tuple[int, ...]], width: int) -> None:
    """Fields, each (lowest bit, width, ...), lie beside one another in a word of `width` bits."""
    taken = 0
    for name, (low, bits, *_) in fields.items():
        field = (1 << bits) - 1 << low
        if taken & field or field >> width:
            raise ValueError(f"fields of {width} bits that do not overlap; {name} does")
        taken |= field


class InstructionWord(Strict):
    """The 32 bits that tell an instruction of one mnemonic its types and extents.

    Attributes:
        d, a, b: (lowest bit, width, code) of the operands' types.
        m, n: (lowest bit, width, unit): the field holds the extent / unit.
    """

    d: CodeField
    a: CodeField
    b: CodeField
    m: ExtentField
    n: ExtentField

    @model_validator(mode="after")
    def _apart(self) -> InstructionWord:
        _disjoint({name: getattr(self, name) for name in "dabmn"}, 32)
        if any(code >> width for _, width, code in (self.d, self.a, self.b)):
            raise ValueError("codes that fit their fields")
        return self

    def value(self, m: int, n: int) -> int:
        """The word of the instruction that multiplies [m, k] by [k, n], both with k contiguous.

        Raises:
            ValueError: the fields cannot say such an extent.
        """
        word = sum(code << low for low, _, code in (self.d, self.a, self.b))
        for extent, (low, width, unit) in ((m, self.m), (n, self.n)):
            if extent % unit or extent // unit >> width:
                raise ValueError(f"extents that fit the instruction's fields; {extent} does not")
            word |= extent // unit << low
        return word


class Fragment(Row):
    """What a warp multiplies at once: D = A B + C on tiles A [m, k], B [k, n], C [m, n].

    Attributes:
        vendor: whose instruction it is.
        policy: the programming interface: `mma` is one `mma.sync`, whose map
            the PTX ISA documents; `wmma` is one `wmma.mma.sync`, whose map it
            leaves open; `fma` is no matrix instruction: the lanes multiply,
            each the part of C that it holds, with `fma.rn.f32` one k after
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
        word: type of A and B; sums are FP32, of `i8` INT32.
        a, b, c: the maps, over (m, k), (k, n) and (m, n); no a or b where it never is in registers.
        arch: the one target that has the instruction, where later ones do not.
        widest: instructions of up to this many times n exist; `wide` gives them.
        deepest: as many of the instruction, one k after another, make a fragment of which a lane holds
            whole 16-byte chunks; `deep` gives it.
        instructions: how many of the instruction make this fragment; none for one.
        descriptor: how operands are found that stay in shared memory.
        instruction_word: what the instruction itself is told, where its mnemonic does not say types and extents.
    """

    vendor: Literal["nvidia", "amd"]
    policy: Literal["mma", "wmma", "fma", "wgmma", "tcgen05", "mfma"]
    map_source: Literal["documented", "measured", "constructed"]
    min_arch: Annotated[int, Field(ge=70, le=999)] | None = None
    archs: Annotated[tuple[Annotated[str, Field(pattern=r"^gfx[0-9a-f]{3,4}$")], ...], Field(min_length=1, max_length=100, strict=False)] | None = None
    instruction: Annotated[str, Field(pattern=r"^[a-z0-9_.:]{1,100}$")]
    shape: Annotated[tuple[Extent, Extent, Extent], Field(strict=False)]
    builtin: Annotated[str, Field(pattern=r"^__builtin_amdgcn_[a-z0-9_]{1,60}$")] | None = None
    word: Literal[WordType, "i8"]
    a: FragmentMap | None = None
    b: FragmentMap | None = None
    c: FragmentMap
    arch: Annotated[str, Field(pattern=r"^sm_[0-9]{2,3}[af]$")] | None = None
    widest: Annotated[int, Field(gt=1, le=32)] | None = None
    deepest: Annotated[int, Field(gt=1, le=8)] | None = None
    instructions: Annotated[int, Field(ge=1, le=8)] | None = None
    descriptor: Descriptor | None = None
    instruction_word: InstructionWord | None = None

    @model_validator(mode="after")
    def _belongs(self) -> Fragment:
        """Targets and names are told as its vendor's are."""
        if self.vendor == "amd" and (self.archs is None or self.builtin is None or self.min_arch is not None):
            raise ValueError("archs and builtin, and no min_arch, where the vendor is amd")
        if self.vendor == "nvidia" and (self.min_arch is None or self.archs is not None or self.builtin is not None):
            raise ValueError("min_arch, and neither archs nor builtin, where the vendor is nvidia")
        if self.instructions:
            raise ValueError("no number of instructions: a row is one of them, and deepest tells how many make a fragment")
        if (self.policy == "mfma") > (self.vendor == "amd"):
            raise ValueError("policy mfma where the vendor is amd")
        return self

    @model_validator(mode="after")
    def _maps_cover(self) -> Fragment:
        m, n, k = self.shape
        if n * (self.widest or 1) > MAX_EXTENT or k * (self.deepest or 1) > MAX_EXTENT:
            raise ValueError(f"instructions of at most {MAX_EXTENT} columns and k, the widest and deepest too")
        if (self.policy == "fma") != (self.word == "f32"):
            raise ValueError("word f32 with policy fma and with no other: matrix units do not take it")
        if (self.b is None) != (self.descriptor is not None):
            raise ValueError("a map of b, or a descriptor for where it lies")
        if self.a is None and self.b is not None:
            raise ValueError("a map of a where b is in registers")
        if (self.policy == "tcgen05") != (self.instruction_word is not None):
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
            wanted = 1 if label == "c" else 4 // self.word_bytes
            if held.packed_count != wanted:
                raise ValueError(f"{wanted} to a 32-bit register in the map of {label}, not {held.packed_count}")
        return self

    @model_validator(mode="after")
    def _lanes_suffice(self) -> Fragment:
        """Where lanes multiply, each holds what it needs."""
        for lane, register, _, i, j in self.c.foreach_ij() if self.policy == "fma" else ():
            for k in range(self.shape[2]):
                for label, held, element in (("a", self.a, (i, k)), ("b", self.b, (k, j))):
                    if lane not in [holder for holder, _, _ in held.map(*element)]:
                        raise ValueError(f"lanes that hold all they multiply; lane {lane} lacks element {element} of {label}")
        return self

    @model_validator(mode="after")
    def _meet(self) -> Fragment:
        """AMD's units multiply what lies at the same place of A and B, so both must have the same k there.

        Then it does not matter in which order k goes, nor which instruction of several takes it.
        """
        if self.vendor != "amd":
            return self
        if self.a is None or self.b is None:
            raise ValueError("maps of a and b where the vendor is amd: its operands are in registers")
        for bits in ("lanes", "registers", "packed"):
            if [k for _, k in getattr(self.a, bits)] != [k for k, _ in getattr(self.b, bits)]:
                raise ValueError(f"{bits} of a and b that stand for the same k, for the unit multiplies place by place")
        return self

    @property
    def atom(self) -> str:
        """The template that fetches its operands and issues it: one for each policy, and one for AMD's matrix units."""
        return "matrix_core.j2" if self.vendor == "amd" else f"{self.policy}.j2"

    @property
    def word_bytes(self) -> int:
        return 1 if self.word == "i8" else FORMATS[self.word].bytes

    @property
    def sums(self) -> str:
        """Type of C."""
        return "INT32" if self.word == "i8" else "FP32"

    @property
    def by_stride(self) -> bool:
        """Whether fetches tell rows by one distance, so that these are padded, not swizzled."""
        return self.policy == "wmma" and self.vendor == "nvidia"

    @property
    def by_lanes(self) -> bool:
        """Whether lanes may fill fragments themselves: the maps are documented, and no fetch instruction is needed."""
        return self.policy == "mma" or self.vendor == "amd"

    @property
    def run(self) -> int:
        """Consecutive k of one row that a lane may fill as one; in `mma` four lanes share a row's k in runs of our choice."""
        return self.shape[2] // 4 if self.policy == "mma" else self.a.elements if self.a else 0

    @property
    def by_runs(self) -> Fragment:
        """As kernels take it: what a lane holds of a row is one run of k.

        RDNA 4's instructions have gaps in it that other lanes fill. A kernel may close them, since
        A and B share the order of k: it is then another one than the instruction's own.
        """
        if self.vendor != "amd" or self.a == _deepened(self.a, 1, 1):
            return self
        return self.deep(1)

    @property
    def whole_chunks(self) -> bool:
        """Whether a lane's part of an operand, by runs, is whole 16-byte chunks of a row; instructions that fetch fragments do not ask."""
        return self.vendor != "amd" or self.run * self.word_bytes % CHUNK_BYTES == 0

    @property
    def from_shared(self) -> bool:
        """Whether the unit itself reads operands from shared memory."""
        return self.descriptor is not None

    @property
    def in_tensor_memory(self) -> bool:
        """Whether the unit keeps C in a memory of its own."""
        return self.instruction_word is not None

    def runs_on(self, arch: str) -> bool:
        """Whether a target, `sm_80` or `gfx90a`, has it; `sm_90` counts for what only `sm_90a` compiles."""
        if self.archs:
            return arch in self.archs
        if not arch.startswith("sm_"):
            return False
        number = arch_number(arch)
        return number >= self.min_arch and (self.arch is None or arch_number(self.arch) == number)

    @property
    def threads(self) -> int:
        """Threads that issue it together: a warp, or a warpgroup."""
        return 1 << len(self.c.lanes)

    @property
    def shapes(self) -> dict[str, Fragment]:
        """Itself and its wider and deeper ones, by shape name."""
        wide = map(self.wide, range(1, (self.widest or 1) + 1))
        return {one.shape_name: one for one in (*wide, *([self.deep(self.deepest)] if self.deepest else []))}

    def wide(self, times: int) -> Fragment:
        """The instruction that covers `times` of this one's n."""
        if times == 1:
            return self
        m, n, k = self.shape
        return self.model_copy(update={
            "shape": (m, n * times, k), "instruction": self.instruction.replace(f"n{n}k", f"n{n * times}k"),
            "c": FragmentMap(**self.c.model_dump(), repeats=times), "widest": None,
        })

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
    def fetched_together(self) -> int:
        """Fragments of B, side by side along n, that one fetch from shared memory brings."""
        return 2 if self.policy == "mma" else 1

    @property
    def on_matrix_unit(self) -> bool:
        """Whether a matrix unit multiplies, and rounds as its row in specs/units says; else FP32 arithmetic does."""
        return self.policy != "fma"

    @property
    def engine(self) -> str:
        """What multiplies, in words, one of many."""
        return "matrix unit" if self.on_matrix_unit else "FP32 CUDA core"

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


FRAGMENTS = Table("fragment", "fragments", Fragment)


def find(name: str, where: str) -> Fragment:
    """A row of the table, or, by a name with its own shape, a wider instruction of one: `wgmma_m64n128k16_f16`.

    Raises:
        UnknownName, SpecError: as `Table.get`.
    """
    for row in FRAGMENTS.rows() if name not in FRAGMENTS.names() else ():
        for shape, wide in row.shapes.items():
            if name == row.name.replace(row.shape_name, shape):
                return wide.model_copy(update={"name": name})
    return FRAGMENTS.get(name, where=where)


def candidates(vendor: str, word: str, policy: str = "mma") -> list[Fragment]:
    """The fragments of a vendor and policy for a word type that kernels can be made of, those of one instruction first.

    Those are the ones with a template and whole chunks, each by runs; the others serve as `gemmgen fragments NAME --header`.
    """
    found = [
        one for row in FRAGMENTS.rows()
        if (row.vendor, row.word, row.policy) == (vendor, word, policy) and (TEMPLATES / "atoms" / row.atom).is_file()
        for one in _for_kernels(FRAGMENTS.folder, row.name)
    ]
    return sorted(found, key=lambda one: one.instructions or 1)


@cache
def _for_kernels(folder: Path, name: str) -> tuple[Fragment, ...]:
    """The shapes of a row that kernels can be made of. Each proves itself when it is made, and every search asks for them all."""
    return tuple(one for one in map(attrgetter("by_runs"), FRAGMENTS.get(name).shapes.values()) if one.whole_chunks)


def shapes(vendor: str, word: str, policy: str = "mma") -> dict[str, Fragment]:
    """The same by shape name, where several have one the first of them."""
    return {one.shape_name: one for one in reversed(candidates(vendor, word, policy))}
