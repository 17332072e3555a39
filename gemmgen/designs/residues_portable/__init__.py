"""Residues by matrix instructions whose operands are in registers, of both vendors: the portable design's kernels, which go through k once for each modulus."""

from __future__ import annotations

from gemmgen.designs.residues_portable.design import PortableResidues

DESIGN = PortableResidues()
