"""Batches of large products: a pass packs the words of all of them, and the warp-specialised kernel works off their tiles (wgmma)."""

from __future__ import annotations

from gemmgen.designs.packed.design import Packed

DESIGN = Packed()
