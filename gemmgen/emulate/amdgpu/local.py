"""LDS, and its bank conflicts."""

from __future__ import annotations

from gemmgen.emulate.amdgpu.target import Target
from gemmgen.emulate.banks import Banks, ConflictCounter, consecutive
from gemmgen.emulate.memory import SharedMemory


class LocalMemory(SharedMemory):
    """LDS of the workgroups of a strip, one after the other."""

    name = "LDS"


def conflict_counter(target: Target, workgroups: int) -> ConflictCounter:
    """Counts as `banks` says, over the target's banks."""
    return ConflictCounter(workgroups, Banks(target.banks, lambda kind, size: consecutive(target.wave, size)))
