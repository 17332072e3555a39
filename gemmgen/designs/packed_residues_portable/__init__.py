"""Batches of residues of products of many sizes: passes take all of them, and the kernel of residues works off their tiles (mma, mfma, wmma)."""

from __future__ import annotations

from gemmgen.designs.packed_residues_portable.design import PackedPortableResidues

DESIGN = PackedPortableResidues()
