"""What a compiled CUDA kernel uses, read from the cubin itself.

A cubin is an ELF64 file. Each kernel has a section `.text.<kernel>` and,
depending on what it uses, `.nv.shared.<kernel>` and `.nv.constant<bank>.<kernel>`.
`.nv.info` (attributes that name a symbol) and `.nv.info.<kernel>` (attributes of
that kernel) are streams of records:

    byte 0    format: 1 nothing follows, 2 a byte, 3 a half word, 4 a sized payload
    byte 1    attribute
    byte 2-3  the value (formats 2, 3) or the payload's size in bytes (format 4)

NVIDIA does not document the attributes. The names below are those cuobjdump
prints; the tests compare every number with the log of `ptxas -v`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from gemmgen.build.binary import KernelResources
from gemmgen.build.elf import FUNCTION, Elf

_MACHINE_CUDA = 190  # EM_CUDA
_ENTRY = 0x10  # STO_CUDA_ENTRY in st_other: a __global__ function

# Attributes, EIATTR_*.
_MAX_THREADS = 0x05
_FRAME_SIZE = 0x11
_MIN_STACK_SIZE = 0x12
_REGCOUNT = 0x2F
_NUM_BARRIERS = 0x4C
_ANNOTATIONS = 0x55  # (kind, code offset) pairs
_SPILL = 1  # the kind that marks the local accesses which the register allocator added
_UNBOUNDED = 0xFFFFFFFF  # the stack of a recursive kernel

# A machine instruction of sm_70 and later has 128 bits: the operation in bits
# 0-11 and, for a load or store, the width in bits 73-75.
_INSTRUCTION = struct.Struct("<QQ")
_LOAD_LOCAL, _STORE_LOCAL = 0x983, 0x387
_WIDTH_BYTES = (1, 1, 2, 2, 4, 8, 16, 0)

# From sm_90 on, shared memory addresses begin with a part that CUDA keeps for
# itself, and the section counts it. A cubin that has the part has this section.
_RESERVED_SECTION = ".nv.shared.reserved.0"
_RESERVED_BYTES = 1024


@dataclass(frozen=True, kw_only=True)
class CubinResources(KernelResources):
    """Resources of one CUDA kernel.

    Attributes:
        spill_store_bytes: bytes a thread that spill stores move, each
            instruction counted once, in the kernel and in functions it calls.
        spill_load_bytes: the same for loads.
        barriers: named barriers a block (16 where the number is computed).
        constant_bytes: constant memory of all banks, parameters included.
        max_threads: the launch bound (x, y, z), or None without one. Only the
            product matters.
    """

    spill_store_bytes: int
    spill_load_bytes: int
    barriers: int
    constant_bytes: int
    max_threads: tuple[int, int, int] | None

    @property
    def spill_bytes(self) -> int:
        return self.spill_store_bytes + self.spill_load_bytes

    @property
    def spill_account(self) -> str:
        return (
            f"{self.spill_store_bytes} B of spill stores, {self.spill_load_bytes} B of spill loads,"
            f" a stack of {self.stack_bytes} B"
        )


def read_cubin(cubin: bytes) -> dict[str, CubinResources]:
    """The resources of every kernel in a cubin, by the kernel's name.

    Raises:
        BuildError: not a cubin, truncated or damaged.
    """
    return _Reader(Elf(cubin, "cubin", (_MACHINE_CUDA, "EM_CUDA"))).kernels()


class _Reader:
    def __init__(self, elf: Elf):
        self.elf = elf
        self.sections = {section.name: section for section in elf.sections}
        self.by_symbol = dict(self._attributes_of_symbols())

    def kernels(self) -> dict[str, CubinResources]:
        return {
            symbol.name: self._kernel(index, symbol.name)
            for index, symbol in enumerate(self.elf.symbols)
            if symbol.kind == FUNCTION and symbol.other & _ENTRY
        }

    def _kernel(self, symbol: int, name: str) -> CubinResources:
        text = self.sections.get(f".text.{name}")
        registers = self.by_symbol.get((_REGCOUNT, symbol))
        if text is None or registers is None:
            raise self.elf.damaged("a kernel has no code or no register count", got=name)
        attributes = dict(self._records(f".nv.info.{name}"))
        stores, loads = self._spills(text, attributes.get(_ANNOTATIONS, b""))
        stack = self.by_symbol.get(
            (_MIN_STACK_SIZE, symbol), self.by_symbol.get((_FRAME_SIZE, symbol), 0)
        )
        return CubinResources(
            registers=registers,
            static_shared_bytes=self._shared(name),
            spill_store_bytes=stores,
            spill_load_bytes=loads,
            stack_bytes=None if stack == _UNBOUNDED else stack,
            barriers=self._barriers(text, attributes),
            constant_bytes=sum(
                section.size
                for section in self.elf.sections
                if section.name.startswith(".nv.constant")
                and section.name.partition(".nv.constant")[2].partition(".")[2] == name
            ),
            code_bytes=text.size,
            max_threads=self._triple(attributes.get(_MAX_THREADS)),
        )

    def _shared(self, name: str) -> int:
        section = self.sections.get(f".nv.shared.{name}")
        if section is None:
            return 0
        reserved = _RESERVED_BYTES if _RESERVED_SECTION in self.sections else 0
        return max(0, section.size - reserved)

    def _barriers(self, text, attributes: dict[int, bytes]) -> int:
        if _NUM_BARRIERS in attributes:
            return attributes[_NUM_BARRIERS][0]
        return text.flags >> 20 & 0x7F  # where compilers before CUDA 13 say it

    def _spills(self, text, annotations: bytes) -> tuple[int, int]:
        """Bytes that the annotated instructions store and load."""
        code, moved = self.elf.content(text), {_STORE_LOCAL: 0, _LOAD_LOCAL: 0}
        if len(annotations) % 8:
            raise self.elf.damaged("its spill annotations end inside a pair")
        for kind, offset in struct.iter_unpack("<II", annotations):
            if kind != _SPILL:
                continue
            if offset + _INSTRUCTION.size > len(code):
                raise self.elf.damaged("a spill annotation points outside the code", got=offset)
            low, high = _INSTRUCTION.unpack_from(code, offset)
            operation = low & 0xFFF
            if operation in moved:
                moved[operation] += _WIDTH_BYTES[high >> 9 & 7]
        return moved[_STORE_LOCAL], moved[_LOAD_LOCAL]

    def _triple(self, payload: bytes | None) -> tuple[int, int, int] | None:
        if payload is None:
            return None
        if len(payload) != 12:
            raise self.elf.damaged("a launch bound is not three words", got=payload)
        return struct.unpack("<III", payload)

    def _attributes_of_symbols(self) -> Iterator[tuple[tuple[int, int], int]]:
        for attribute, payload in self._records(".nv.info"):
            if len(payload) == 8:
                symbol, value = struct.unpack("<II", payload)
                yield (attribute, symbol), value

    def _records(self, name: str) -> Iterator[tuple[int, bytes]]:
        """(attribute, payload) of each record; short values are payloads of two bytes."""
        if name not in self.sections:
            return
        stream, at = bytes(self.elf.content(self.sections[name])), 0
        while at + 4 <= len(stream):
            form, attribute, size = stream[at], stream[at + 1], stream[at + 2] | stream[at + 3] << 8
            if form not in (1, 2, 3, 4):
                raise self.elf.damaged("an attribute has an unknown format", got=form)
            end = at + 4 + (size if form == 4 else 0)
            if end > len(stream):
                raise self.elf.damaged("an attribute runs past its section")
            yield attribute, stream[at + 4 : end] if form == 4 else stream[at + 2 : at + 4]
            at = end
