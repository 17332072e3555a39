"""Residues by products into tensor memory (tcgen05): the tensor-memory design's kernels, which go through k once for each modulus."""

from __future__ import annotations

from gemmgen.designs.residues_tensor_memory.design import TensorMemoryResidues

DESIGN = TensorMemoryResidues()
