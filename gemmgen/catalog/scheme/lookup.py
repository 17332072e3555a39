"""The table of schemes, and the scheme of those who name none."""

from __future__ import annotations

from typing import NamedTuple

from gemmgen.catalog.scheme.row import Scheme
from gemmgen.catalog.table import Table
from gemmgen.catalog.unit import MatrixUnit

SCHEMES = Table("scheme", "schemes", Scheme)


def with_runs(scheme: Scheme, k: int | None) -> Scheme:
    """The scheme with runs of so many k, one of `RUNS`; None leaves the row's own."""
    return scheme if k in (None, scheme.tile_k) else scheme.model_copy(update={"tile_k": k})


class Preferred(NamedTuple):
    """A scheme for those who name none, and why."""

    name: str
    reason: str


def preferred_scheme(unit: MatrixUnit, b: str = "f32", element: str = "f32", reproducible: bool = False) -> Preferred:
    """Which scheme of the elements' own accuracy a matrix unit is best served with, for a B of this type.

    Args:
        reproducible: one whose C is the same bits on every GPU.
    """
    if element == "f64":
        return Preferred("residues14", "fourteen moduli are the fewest whose error is no larger than that of sums in FP64, at any k")
    if reproducible:
        return Preferred("residues7", (
            "C is the same bits on every GPU, and seven moduli are the fewest whose error is no larger than that of sums in FP32, at any k"
        ))
    if b == "f16":
        return Preferred("ootomo_b16", "B is one FP16 word as it is stored, and a residual of A scaled by 2^11 loses least")
    if b == "bf16":
        return Preferred("bf16x3_bb16", "B is one bfloat16 word as it is stored, and three of A hold all of it")
    if unit.flushes_subnormals:
        return Preferred("scaled", (
            f"{unit.name} takes subnormal words for zero, and only words that row and column scales hold near the top of FP16's range never are"
        ))
    return Preferred("ootomo", f"{unit.name} multiplies subnormal words, and a residual scaled by 2^11 loses least, in one pass over the operands")
