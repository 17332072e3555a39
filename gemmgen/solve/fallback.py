"""The plan of the kernel that computes tiles of C again whose rows of A or columns of B integer words would serve badly.

Its tiles are whole parts of the main kernel's, so that one flag a row of tiles and one a column tell it all: what the main kernel leaves, it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from gemmgen.catalog.scheme import SCHEMES
from gemmgen.errors import GemmgenError, InfeasibleSpec
from gemmgen.plan import Plan
from gemmgen.spec import Accuracy, BatchChoice, FragmentChoice, LoadedSpec, Pipeline, Solve, Tile

NONE = "none"
LARGEST, LEAST = 128, 16
"""Extents of such tiles."""
WHERES = ("register", "shared")
"""Ways of splitting inside the kernel, the first that has a plan."""


def with_fallback(loaded: LoadedSpec, plan: Plan, solve: Callable[[LoadedSpec], Plan]) -> Plan:
    """The plan, with that of its fallback where the spec asks for one.

    Args:
        solve: a spec's plan.

    Raises:
        UnknownName: there is no such scheme.
        InfeasibleSpec: the plan's kernels need no fallback, or none of the scheme can stand beside them.
    """
    asked, place = loaded.spec.split.fallback, f"{loaded.place}: [split] fallback"
    if asked == NONE:
        return plan
    scheme = SCHEMES.get(asked, where=place, relative_to=loaded.folder)
    if not (plan.scheme.family.exact and plan.scales.takes_maxima) or plan.batch or not plan.kind.plain or plan.where != "prepass":
        raise InfeasibleSpec(
            place, f"nothing of {plan.scheme.name} falls back", got=asked, needs="integer words with one exponent a row, of one product",
            remedy='fallback = "none", or scheme = "mixpert4"',
        )
    if scheme.normalize != "none":
        raise InfeasibleSpec(
            place, f"{scheme.name} scales rows, so passes over the operands would come first", got=asked, needs="a scheme with normalize = none",
            remedy='fallback = "fp32", or "tf32x3"',
        )
    refused: GemmgenError | None = None
    for extents, where in ((extents, where) for where in WHERES for extents in _extents(plan)):
        try:
            found = solve(_spec(loaded, asked, extents, where))
        except InfeasibleSpec as error:
            refused = refused or error
            continue
        if not (found.design.stays or found.cluster > 1 or found.split_k > 1):
            return replace(plan, fallback=replace(found, flagged=plan.block[:2]))
    raise InfeasibleSpec(
        place, f"no kernel of {asked} has tiles that fit into {plan.block[0]}x{plan.block[1]}", got=refused.problem if refused else None,
        needs="tiles that are whole parts of the main kernel's", remedy='another [tile] block, or fallback = "fp32"',
    )


def _extents(plan: Plan) -> Iterator[tuple[int, int, int]]:
    """Tiles to try, the largest first."""
    parts = [[extent // count for count in range(1, extent + 1) if extent % count == 0 and LEAST <= extent // count <= LARGEST] for extent in plan.block[:2]]
    return iter(sorted(((m, n, k) for m in parts[0] for n in parts[1] for k in (32, 16)), key=lambda one: (-one[0] * one[1], -one[2])))


def _spec(loaded: LoadedSpec, scheme: str, block: tuple[int, int, int], where: str) -> LoadedSpec:
    changes: dict[str, Any] = {
        "split": loaded.spec.split.model_copy(update={"scheme": scheme, "fallback": NONE, "where": where, "promote": None}),
        "accuracy": Accuracy(), "fragment": FragmentChoice(), "tile": Tile(block=block, split_k=1), "pipeline": Pipeline(),
        "batch": BatchChoice(), "solve": Solve(),
    }
    return loaded.model_copy(update={"spec": loaded.spec.model_copy(update=changes)})
