"""What the supported generations do differently."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gemmgen.errors import UnknownName


@dataclass(frozen=True)
class Counter:
    """A counter of memory operations that are under way.

    It falls as operations complete. Those of one *ordered* kind complete in the
    order in which they were issued, so a wait until at most n are left covers all
    but the last n of them, whatever else the counter counts; *unordered* ones are
    certain to be complete only when the counter is zero. (LLVM, AMDGPUUsage, memory
    model: vector memory operations, and LDS operations, report completion to a
    wavefront in execution order; scalar and flat ones need not.)

    Attributes:
        ordered, unordered: kinds of operations it counts.
        wait: the instruction that waits for it, with `{}` for n.
    """

    ordered: tuple[str, ...]
    unordered: tuple[str, ...]
    wait: str


_LGKM = Counter(("lds",), ("scalar", "flat lds"), "s_waitcnt lgkmcnt({})")
_VM = Counter(("vector",), ("flat vector",), "s_waitcnt vmcnt({})")
_CDNA = {"vmcnt": _VM, "lgkmcnt": _LGKM}
_RDNA3 = {
    "vmcnt": _VM,
    "vscnt": Counter(("store",), ("flat store",), "s_waitcnt_vscnt null, {}"),
    "lgkmcnt": _LGKM,
}
_RDNA4 = {
    "loadcnt": Counter(("vector",), ("flat vector",), "s_wait_loadcnt {}"),
    "storecnt": Counter(("store",), ("flat store",), "s_wait_storecnt {}"),
    "dscnt": Counter(("lds",), ("flat lds",), "s_wait_dscnt {}"),
    "kmcnt": Counter((), ("scalar",), "s_wait_kmcnt {}"),
}


@dataclass(frozen=True, eq=False)
class Target:
    """One GPU architecture, as far as its assembly shows it.

    Attributes:
        name: `gfx90a`.
        family: `cdna2`, `cdna3`, `cdna4`, `rdna3` or `rdna4`.
        wave: lanes of a wavefront as compiled.
        banks: of LDS, 4 bytes each.
        counters: by name.
    """

    name: str
    family: str
    wave: int
    banks: int
    counters: Mapping[str, Counter]

    @property
    def cdna(self) -> bool:
        return self.family.startswith("cdna")

    @property
    def store_kind(self) -> str:
        """The kind of a store to global memory: on CDNA it counts, and completes, with the loads."""
        return "vector" if self.cdna else "store"

    @property
    def zeroes_high_half(self) -> bool:
        """Whether 16-bit results clear the upper half of their register (GFX9), or leave it (GFX10 and later)."""
        return self.cdna


TARGETS = {
    target.name: target
    for target in (
        Target("gfx90a", "cdna2", 64, 32, _CDNA),
        Target("gfx942", "cdna3", 64, 32, _CDNA),
        Target("gfx950", "cdna4", 64, 64, _CDNA),
        *(Target(name, "rdna3", 32, 32, _RDNA3) for name in ("gfx1100", "gfx1101", "gfx1102", "gfx1151")),
        *(Target(name, "rdna4", 32, 32, _RDNA4) for name in ("gfx1200", "gfx1201")),
    )
}


def target_named(name: str) -> Target:
    """The target of an `.amdgcn_target` directive.

    Raises:
        UnknownName: none that is emulated has that name.
    """
    if name not in TARGETS:
        raise UnknownName("AMDGPU assembly", "target", name, TARGETS)
    return TARGETS[name]
