"""Batches of small products in one launch: a tile for each product's size, a list of tiles that blocks work off (BatchGEMM)."""

from __future__ import annotations

from gemmgen.designs.grouped.design import Grouped

DESIGN = Grouped()
