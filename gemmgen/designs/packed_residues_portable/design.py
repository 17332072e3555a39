"""The portable design for residues of products of many sizes."""

from __future__ import annotations

from gemmgen.designs.packed.design import features_of, text_of
from gemmgen.designs.packed_residues.design import ResiduesOfProducts
from gemmgen.designs.residues_portable.design import PortableResidues


class PackedPortableResidues(ResiduesOfProducts, PortableResidues):
    name = "packed_residues_portable"
    features = features_of(PortableResidues)
    text = text_of(PortableResidues)
