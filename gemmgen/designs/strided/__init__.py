"""Strided batches by matrix instructions whose operands are in registers, of both vendors: the portable design's kernels.

A block computes a tile of one product, or a slice of k of it, whose operands it finds by its number.
"""

from __future__ import annotations

from gemmgen.designs.strided.design import Strided

DESIGN = Strided()
