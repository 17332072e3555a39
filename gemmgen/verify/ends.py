"""What the judge gives a kernel's epilogue, and how it finds behind C what the kernel has summed.

Every bound here is of alpha A B + beta C. Where an epilogue stands between that and C, an element of C that is `off` from what exact arithmetic makes of
a right sum can be explained by a sum that is (|off| - own) / slope beside it, with the epilogue's own error and its slope (`Epilogue.error`); no right
kernel needs more. So each question holds that sum to its bound, and is asked as of a kernel without an epilogue. Where an epilogue is flat, as ReLU is
below 0, C tells nothing of the sum, and only what C has there is held to be right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gemmgen.catalog.output import USUAL, Output
from gemmgen.plan import Plan

SEED = 12


def drawn(plan: Plan, m: int, n: int, batch: int | None = None) -> dict[str, Any]:
    """Arguments of the plan's epilogue for a C [M, N]: vectors from U[-1, 1], of a batch [batch, N] or [batch, M], and numbers from U[1/2, 2]."""
    rng = np.random.default_rng(SEED)
    lead = () if batch is None else (batch,)
    return {
        one.name: rng.uniform(-1, 1, (*lead, {"n": n, "m": m}[one.over])).astype(np.float32) if one.is_vector else float(np.float32(rng.uniform(0.5, 2)))
        for one in plan.epilogue.arguments
    }


def quiet(plan: Plan, m: int, n: int) -> dict[str, Any]:
    """Arguments beside which the smallest sums still show: vectors of 0, and numbers of 1."""
    return {one.name: np.zeros({"n": n, "m": m}[one.over], np.float32) if one.is_vector else 1.0 for one in plan.epilogue.arguments}


def traced(plan: Plan, c: np.ndarray, right: np.ndarray, ends: Mapping[str, Any]) -> np.ndarray:
    """The sums nearest to `right` of which the plan's epilogue may have made C; C itself where there is none.

    Args:
        c: [M, N], what came out.
        right: [M, N], alpha A B + beta C in FP64, as a right kernel sums it but for rounding.
        ends: the arguments that the epilogue was given.

    Returns:
        [M, N] FP64. Where `right` is Inf or NaN: that, where C is what the epilogue makes of it, and else 0.
    """
    if not plan.epilogue:
        return c
    with np.errstate(invalid="ignore", over="ignore"):
        right = _in_range(right, USUAL)
        want = _in_range(plan.epilogue.values(right, ends), plan.output)
        slope, own = plan.epilogue.error(right, ends)
        own = own + plan.output.roundoff * (slope * np.abs(right) + np.abs(want)) + plan.output.tiniest
        found = c.astype(np.float64)
        beside = np.maximum(np.abs(found - want) - own, 0) / np.maximum(slope, np.finfo(float).tiny)
        above, below = (np.abs(plan.epilogue.values(right + sign * beside, ends) - found) for sign in (1, -1))
        explained = right + np.where(above <= below, beside, -beside)
        same = (found == want) | (np.isnan(found) & np.isnan(want))
        tells = np.isfinite(right) & np.isfinite(want) & np.isfinite(found)
        return np.where(tells, explained, np.where(same, right, np.where(np.isfinite(right), np.nan, 0)))


def _in_range(x: np.ndarray, held: Output) -> np.ndarray:
    """FP64 numbers, those beyond a type's range as Inf."""
    rounded = held.rounded(x.astype(np.float32))
    return np.where(np.isfinite(rounded), x, rounded)
