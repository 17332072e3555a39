"""What a build leaves, whoever built it: machine code, the assembly it came from, and what it uses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from gemmgen.errors import ResourceError
from gemmgen.shown import Shown


@dataclass(frozen=True, kw_only=True)
class KernelResources(ABC):
    """Resources of one kernel, as the compiler allocated them. Each reader of machine code
    adds what only its vendor has.

    Attributes:
        registers: 32-bit vector registers a thread.
        static_shared_bytes: shared memory a block that the source declares with
            a size, without what the platform reserves for itself.
        stack_bytes: memory a thread of its own, holding spilled registers and arrays
            with run-time indices; None where it is unbounded.
        code_bytes: machine code.
        spill_problem, spill_limit: how a message refuses a kernel that spills.
    """

    spill_problem: ClassVar[str] = "spills registers to memory"
    spill_limit: ClassVar[str] = "0 B of spill stores and loads"

    registers: int
    static_shared_bytes: int
    stack_bytes: int | None
    code_bytes: int

    @property
    @abstractmethod
    def spill_bytes(self) -> int:
        """How much a thread spills, in the bytes that the vendor's compiler counts; 0 where
        registers hold all they should."""

    @property
    @abstractmethod
    def spill_account(self) -> str:
        """The same in words."""


@dataclass(frozen=True, repr=False)
class Binary(Shown):
    """Machine code for one architecture, and what it uses.

    Attributes:
        arch: the architecture, as `sm_80` or `gfx90a`.
        code: the machine code, an ELF file: a cubin or a code object.
        assembly: what it was assembled from, PTX or AMDGPU assembly, with line information.
        kernels: the resources of each kernel, by name.
        compiler: who built it, as `NVRTC 13.5`.
        log: the compiler's warnings and its account of resources.
        key: SHA-256, in hex, over everything that determined the bytes.
        source_name: what line information and diagnostics call the source.
        from_cache: whether it was built before.
        seconds: how long the compiler took when it did build it.
    """

    arch: str
    code: bytes
    assembly: str
    kernels: Mapping[str, KernelResources] = field(hash=False)
    compiler: str
    log: str = field(compare=False)
    key: str
    source_name: str
    from_cache: bool = field(compare=False)
    seconds: float = field(compare=False)

    def _told(self) -> dict[str, object]:
        kernels = ", ".join(f"{name} ({used.registers} registers, {used.spill_bytes} B spilled)" for name, used in self.kernels.items())
        return {"arch": self.arch, "compiler": self.compiler, "bytes": len(self.code), "kernels": kernels, "key": self.key[:16]}


def refuse_spills(binary: Binary) -> None:
    """Raises ResourceError for the kernel that spills most, if any does."""
    spilled = {name: used for name, used in binary.kernels.items() if used.spill_bytes}
    if not spilled:
        return
    name, used = max(spilled.items(), key=lambda item: item[1].spill_bytes)
    others = f"; further kernels: {len(spilled) - 1}" if len(spilled) > 1 else ""
    raise ResourceError(
        f"{binary.source_name}: kernel {name}",
        f"{used.spill_problem} on {binary.arch}{others}",
        needs=used.spill_limit,
        has=f"{used.registers} registers a thread, {used.spill_account}",
        remedy="a smaller warp tile, fewer accumulators, or allow spills in the spec",
    )
