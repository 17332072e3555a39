"""Batches of residues of products of many sizes: passes take all of them, and the kernel of residues works off their tiles (tcgen05)."""

from __future__ import annotations

from gemmgen.designs.packed_residues_tensor_memory.design import PackedTensorMemoryResidues

DESIGN = PackedTensorMemoryResidues()
