"""The tensor-memory design for residues of products of many sizes."""

from __future__ import annotations

from gemmgen.designs.packed.design import features_of, text_of
from gemmgen.designs.packed_residues.design import ResiduesOfProducts
from gemmgen.designs.residues_tensor_memory.design import TensorMemoryResidues


class PackedTensorMemoryResidues(ResiduesOfProducts, TensorMemoryResidues):
    name = "packed_residues_tensor_memory"
    features = features_of(TensorMemoryResidues)
    text = text_of(TensorMemoryResidues)
