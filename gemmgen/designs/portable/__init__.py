"""The portable design: every warp copies and multiplies, and barriers of the whole block keep them together.

It serves the matrix instructions whose operands are in registers, of both vendors, and plain FP32 arithmetic.
"""

from __future__ import annotations

from gemmgen.designs.portable.design import Portable

DESIGN = Portable()
