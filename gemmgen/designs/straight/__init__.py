"""Thin and small products in one launch: every lane loads what it multiplies straight from global memory, and splits it in registers."""

from __future__ import annotations

from gemmgen.designs.straight.design import Straight

DESIGN = Straight()
