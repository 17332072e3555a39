"""How the tests count bank conflicts of a tile by hand."""

from __future__ import annotations

from gemmgen.plan import Plan


def bank_ways(plan: Plan, swizzled: bool = True) -> int:
    """How many accesses one phase of ldmatrix takes, counted: eight neighbouring rows, one chunk of each; sixteen with 64 banks."""
    worst = 1
    for chunk in range(plan.staging.row_chunks):
        places = [
            row * plan.staging.row_chunks + (chunk ^ (row // plan.staging.swizzle_rows & plan.staging.swizzle_mask) if swizzled else chunk)
            for row in range(plan.staging.line_chunks)
        ]
        lines = [place % plan.staging.line_chunks for place in places]
        worst = max(worst, *(lines.count(line) for line in lines))
    return worst
