"""What to tell whoever asks for a batch's kernel that cannot be."""

from __future__ import annotations

from typing import Any

from gemmgen.batch import Tile
from gemmgen.catalog.element import F32
from gemmgen.errors import InfeasibleSpec
from gemmgen.model.equation import Numbers


def threads(plan: Any, numbers: Numbers, place: str) -> InfeasibleSpec:
    return InfeasibleSpec(
        f"{place}: [batch] tiles", "too many threads in a block", got=numbers["launch_threads"], needs="what a block may have",
        has=f"{plan.gpu.limits.threads_per_block} on {plan.gpu.name}", remedy="fewer threads for the largest tile",
    )


def refuse_tile(spec: Any, place: str) -> None:
    """A grouped kernel has several tiles, so that a spec cannot fix one."""
    for name in ("block", "warp", "group", "split_k"):
        value = getattr(spec.tile, name)
        if value not in (None, "auto") and (name in ("block", "warp") or value != 1):
            raise InfeasibleSpec(
                f"{place}: [tile] {name}", "a batch's kernel has several tiles", got=value, needs="[batch] tiles: m, n, k and threads of each",
                remedy="leave it out",
            )


def refuse_output(spec: Any, place: str) -> None:
    """What tells a product points to a C of FP32."""
    if spec.problem.c != F32.name:
        raise InfeasibleSpec(
            f"{place}: [problem] c", "kernels that have several tiles have a C in FP32 alone", got=spec.problem.c, needs=F32.name, remedy='c = "f32"',
        )


def no_warps(row: tuple[int, ...], unit: tuple[int, int, int], lanes: int, at: int, place: str) -> InfeasibleSpec:
    m, n, k, count = row
    fm, fn, fk = unit
    return InfeasibleSpec(
        f"{place}: [batch] tiles {at}", "cannot be divided among its warps", got=f"{m} x {n} x {k} on {count} threads",
        needs=f"whole parts of {fm} x {fn} for each of {count // lanes} warps of {lanes}, and k a multiple of {fk}",
        remedy=f"a larger tile, or fewer threads, such as {2 * fm} x {2 * fn} x {max(16, fk)} on {4 * lanes} threads",
    )


def check_tiles(tiles: tuple[Tile, ...], walk: str, place: str) -> None:
    """Whether a table of tiles is one.

    Raises:
        InfeasibleSpec: its tiles do not grow, or need several numbers of threads where blocks stay.
    """
    for at, tile in enumerate(tiles, 1):
        if max(tile.m, tile.n, tile.k) > tile.threads:
            raise InfeasibleSpec(
                f"{place}: [batch] tiles {at}", "has rows of more elements than it has threads", got=tile.name, needs=f"at most {tile.threads} each way",
                remedy="more threads, or a smaller tile",
            )
    for at, (less, more) in enumerate(zip(tiles, tiles[1:]), 2):
        if more.m < less.m or more.n < less.n or (more.m, more.n) == (less.m, less.n):
            raise InfeasibleSpec(
                f"{place}: [batch] tiles {at}", "is not larger than the one before", got=more.name, needs=f"more than {less.m} x {less.n}",
                remedy="the smallest first",
            )
        if more.threads < less.threads:
            raise InfeasibleSpec(
                f"{place}: [batch] tiles {at}", "has fewer threads than a smaller one", got=more.name, needs=f"at least {less.threads}", remedy="more threads",
            )
    if walk == "persistent" and len({tile.threads for tile in tiles}) > 1:
        raise InfeasibleSpec(
            f"{place}: [batch] tiles", "blocks that stay have one number of threads", got=", ".join(tile.name for tile in tiles),
            needs=f"{tiles[-1].threads} threads for each", remedy='walk = "workgroups", whose blocks end what a tile does not need',
        )
