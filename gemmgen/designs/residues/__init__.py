"""Residues: a kernel that multiplies modulo one number after the other and puts the results together, fed and fetched as the warp-specialised one."""

from __future__ import annotations

from gemmgen.designs.residues.design import ResidueKernels

DESIGN = ResidueKernels()
