"""What a compiled HIP kernel uses, read from the code object itself.

A code object is an ELF64 file that AMD's driver loads. A note holds metadata of
every kernel, a MessagePack map; a kernel's descriptor, 64 bytes that a symbol
`<kernel>.kd` names, is what the hardware is set up from. Where both tell the
same, both are read and must agree.

Source: LLVM, User Guide for AMDGPU Backend, "Code Object Metadata" and "Kernel
Descriptor" (https://llvm.org/docs/AMDGPUUsage.html).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gemmgen.build import msgpack
from gemmgen.build.binary import KernelResources
from gemmgen.build.elf import Elf

_MACHINE_AMDGPU = 224  # EM_AMDGPU
_METADATA = (b"AMDGPU", 32)  # the note's owner and NT_AMDGPU_METADATA

# Of a descriptor: LDS, scratch and kernarg bytes, where the code begins relative to the
# descriptor, and the properties of the code, one of which chooses wavefronts of 32.
_DESCRIPTOR = struct.Struct("<III4xq32xH6x")
_WAVE32 = 1 << 10


@dataclass(frozen=True)
class Argument:
    """One argument of a kernel, in the segment that a launch fills.

    Attributes:
        offset: where it begins, in bytes.
        size: in bytes.
        kind: `global_buffer` (a pointer), `by_value`, or `hidden_...` for what the runtime adds.
    """

    offset: int
    size: int
    kind: str


@dataclass(frozen=True, kw_only=True)
class CodeObjectResources(KernelResources):
    """Resources of one HIP kernel.

    `registers` are VGPRs. Where one file holds both kinds (gfx90a and later CDNA) AGPRs are
    among them; where each has a file of its own (gfx908) it is the larger number.

    Attributes:
        agprs: accumulation registers a work-item; 0 where there are none.
        sgprs: scalar registers a wavefront, VCC and the like included.
        scratch_bytes: the private segment of a work-item, as far as its size is fixed.
        vgpr_spills: 32-bit stores of a VGPR to scratch, in the kernel itself.
        sgpr_spills: the same of scalars. Most go to lanes of a VGPR, which costs no memory.
        wavefront_size: 32 or 64.
        max_flat_workgroup_size: the launch bound, in work-items.
        kernarg_bytes: the segment that holds the arguments.
        arguments: in order.
    """

    spill_problem: ClassVar = "uses scratch memory"
    spill_limit: ClassVar = "0 B of scratch"

    agprs: int
    sgprs: int
    scratch_bytes: int
    vgpr_spills: int
    sgpr_spills: int
    wavefront_size: int
    max_flat_workgroup_size: int
    kernarg_bytes: int
    arguments: tuple[Argument, ...]

    @property
    def spill_bytes(self) -> int:
        """All scratch. The spill counts leave out what called functions spill, and say of
        scalars not where they go; and an array in scratch is one that missed its registers."""
        return self.scratch_bytes

    @property
    def spill_account(self) -> str:
        rest = " and a stack without a bound" if self.stack_bytes is None else ""
        return f"{self.vgpr_spills} stores of spilled registers, {self.scratch_bytes} B of scratch{rest}"


def read_code_object(code: bytes) -> dict[str, CodeObjectResources]:
    """The resources of every kernel in a code object, by the kernel's name.

    Raises:
        BuildError: not a code object, truncated or damaged.
    """
    return _Reader(Elf(code, "code object", (_MACHINE_AMDGPU, "EM_AMDGPU"))).kernels()


class _Reader:
    def __init__(self, elf: Elf):
        self.elf = elf
        self.symbols = {symbol.name: symbol for symbol in elf.dynamic_symbols}

    def kernels(self) -> dict[str, CodeObjectResources]:
        metadata = self.field(self.metadata(), "amdhsa.kernels", list)
        return {self.field(kernel, ".name", str): self.kernel(kernel) for kernel in metadata}

    def metadata(self) -> Any:
        for owner, kind, content in self.elf.notes():
            if (owner, kind) == _METADATA:
                try:
                    return msgpack.unpack(bytes(content))
                except ValueError as error:
                    raise self.elf.damaged("its metadata cannot be read", got=str(error)) from None
        raise self.elf.damaged("it has no metadata")

    def kernel(self, told: Mapping[str, Any]) -> CodeObjectResources:
        name = self.field(told, ".name", str)
        scratch = self.count(told, ".private_segment_fixed_size")
        used = CodeObjectResources(
            registers=self.count(told, ".vgpr_count"),
            static_shared_bytes=self.count(told, ".group_segment_fixed_size"),
            stack_bytes=None if told.get(".uses_dynamic_stack") else scratch,
            code_bytes=self.symbol(name).size,
            agprs=self.count(told, ".agpr_count") if ".agpr_count" in told else 0,
            sgprs=self.count(told, ".sgpr_count"),
            scratch_bytes=scratch,
            vgpr_spills=self.count(told, ".vgpr_spill_count"),
            sgpr_spills=self.count(told, ".sgpr_spill_count"),
            wavefront_size=self.count(told, ".wavefront_size"),
            max_flat_workgroup_size=self.count(told, ".max_flat_workgroup_size"),
            kernarg_bytes=self.count(told, ".kernarg_segment_size"),
            arguments=tuple(map(self.argument, self.field(told, ".args", list) if ".args" in told else ())),
        )
        if any(one.offset + one.size > used.kernarg_bytes for one in used.arguments):
            raise self.elf.damaged("an argument lies outside its segment", got=name)
        self.check_descriptor(name, self.field(told, ".symbol", str), used)
        return used

    def check_descriptor(self, name: str, symbol: str, used: CodeObjectResources) -> None:
        """What the hardware is told must be what the metadata tells."""
        found = self.symbol(symbol)
        content = self.elf.loaded(found)
        if len(content) != _DESCRIPTOR.size:
            raise self.elf.damaged("a kernel's descriptor has a foreign size", got=len(content))
        *sizes, entry, properties = _DESCRIPTOR.unpack(content)
        expected = [used.static_shared_bytes, used.scratch_bytes, used.kernarg_bytes]
        wave = 32 if properties & _WAVE32 else 64
        if sizes != expected or wave != used.wavefront_size or found.value + entry != self.symbol(name).value:
            raise self.elf.damaged("a kernel's descriptor and its metadata disagree", got=name)

    def argument(self, told: Any) -> Argument:
        return Argument(self.count(told, ".offset"), self.count(told, ".size"), self.field(told, ".value_kind", str))

    def symbol(self, name: str):
        if name not in self.symbols:
            raise self.elf.damaged("a kernel has no symbol", got=name)
        return self.symbols[name]

    def count(self, told: Any, key: str) -> int:
        value = self.field(told, key, int)
        if value < 0:
            raise self.elf.damaged(f"its metadata has a negative {key}", got=value)
        return value

    def field(self, told: Any, key: str, kind: type) -> Any:
        """An entry of a map in the metadata, of a type that is exactly `kind`."""
        value = told.get(key) if isinstance(told, dict) else None
        if type(value) is not kind:  # a bool is no count
            raise self.elf.damaged(f"its metadata lacks {key}, or has another type there", got=value)
        return value
