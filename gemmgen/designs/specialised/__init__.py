"""The warp-specialised design: one warpgroup only copies, the others only multiply from shared memory (wgmma)."""

from __future__ import annotations

from gemmgen.designs.specialised.design import Specialised

DESIGN = Specialised()
