"""The tensor-memory design: as the warp-specialised one, with the unit's sums in a memory of its own (tcgen05)."""

from __future__ import annotations

from gemmgen.designs.tensor_memory.design import TensorMemory

DESIGN = TensorMemory()
