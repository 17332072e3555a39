"""Strided batches by matrix instructions whose operands are in registers, of both vendors: the portable design's kernels, a block for each tile of all products."""

from __future__ import annotations

from gemmgen.designs.strided.design import Strided

DESIGN = Strided()
