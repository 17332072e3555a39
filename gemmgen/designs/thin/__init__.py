"""Products of a few rows or columns in plain FP32: the other operand goes through the registers once, as fast as memory gives it."""

from __future__ import annotations

from gemmgen.designs.thin.design import Thin

DESIGN = Thin()
