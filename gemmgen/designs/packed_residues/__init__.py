"""Batches of residues of products of many sizes: passes take all of them, and the kernel of residues works off their tiles (wgmma)."""

from __future__ import annotations

from gemmgen.designs.packed_residues.design import PackedResidues

DESIGN = PackedResidues()
